"""What a subject is, and what each word of the command line becomes: found, wrong usage, or not here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import (
    OPERATIONS,
    Subject,
    SubjectError,
    SubjectUnavailable,
    is_functional,
    load_subject,
    told,
)
from nvfp4_moe.verification.settings import Settings


def quant(*tensors: Tensor) -> None: ...


def test_a_subject_has_a_strict_contract_by_default() -> None:
    subject = Subject("mine", scaled_fp4_experts_quant=quant)
    assert (subject.device, subject.contract) == ("cpu", Contract())
    assert subject.operations == {"scaled_fp4_experts_quant": quant}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "has none of the operations"),
        ({"quantize": quant}, "unknown operation 'quantize'; known are scaled_fp4_experts_quant"),
        ({"swizzle": 3}, "swizzle is not callable"),
        ({"swizzle": quant, "device": "tpu"}, "device must be"),
        ({"swizzle": quant, "device": ["cpu"]}, "device must be"),
        ({"swizzle": quant, "name": ""}, "name must not be empty, got ''"),
        ({"swizzle": quant, "name": "  "}, "name must not be empty"),
        ({"swizzle": quant, "name": [1]}, r"name must be text, got \[1\]"),
        ({"swizzle": quant, "contract": {}}, "contract must be a Contract, got dict"),
    ],
)
def test_what_is_no_subject(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        Subject(**{"name": "mine"} | arguments)


def test_modules_and_objects_become_subjects() -> None:
    class Thing:
        shuffle_rows = staticmethod(quant)
        swizzle = None
        other = 3

    assert set(Subject.of(Thing(), name="thing").operations) == {"shuffle_rows"}
    subject = Subject("mine", swizzle=quant)
    assert Subject.of(subject, name="other") is subject
    with pytest.raises(TypeError, match="none of the operations"):
        Subject.of(object(), name="thing")


FILE = """
from nvfp4_moe.verification.conformance.subject import Subject
def swizzle(linear): return linear
SUBJECT = Subject("named", swizzle=swizzle)
class Other:
    shuffle_rows = staticmethod(lambda input, map: input)
NOTHING = 3
"""


def test_attributes_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    assert load_subject(str(path)).name == "named"
    assert load_subject(f"{path}:Other").operations.keys() == {"shuffle_rows"}
    assert load_subject(f"{path}:Other").name == "mine"
    for attribute, said in (("Missing", "no attribute 'Missing'"), ("NOTHING", "none of the operations")):
        with pytest.raises(SubjectError, match=said):
            load_subject(f"{path}:{attribute}")


def test_nobody_elses_subject_has_the_name_of_one_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "cuda.py"
    path.write_text("def swizzle(linear): return linear\n")
    assert load_subject(str(path)).name == "cuda (cuda.py)"
    path = tmp_path / "mine.py"
    path.write_text(FILE.replace("named", "Host"))
    assert load_subject(str(path)).name == "Host (mine.py)"
    assert load_subject("reference").name == "reference"
    (given,) = Settings(subjects=[Subject("host", swizzle=quant)]).subjects
    assert isinstance(given, Subject)
    assert (given.name, given.operations) == ("host (given)", {"swizzle": quant})


def test_a_module_without_a_subject_is_one_itself(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("import neighbour\ndef swizzle(linear): return linear\n")
    (tmp_path / "neighbour.py").write_text("")
    before = list(sys.path)
    assert load_subject(str(path)).name == "plain"
    assert sys.path == before
    sys.modules.pop("neighbour")


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder, operation in (("a", "swizzle"), ("b", "shuffle_rows")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(f"def {operation}(*a): return a\n")
    found = [load_subject(str(tmp_path / folder / "mine.py")).operations.keys() for folder in "ab"]
    assert found == [{"swizzle"}, {"shuffle_rows"}]


def raising(name: str) -> Any:
    raise RuntimeError("not ready")


class Unreadable:
    swizzle = property(raising)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_object_that_raises_when_it_is_asked_is_wrong_usage() -> None:
    with pytest.raises(SubjectError, match=r"'thing' raises .* RuntimeError: not ready"):
        Subject.of(Unreadable(), name="thing")


@pytest.mark.parametrize(
    ("text", "attribute", "said"),
    [
        (
            "def __getattr__(name): raise RuntimeError('not ready')",
            "",
            "SUBJECT raises RuntimeError: not ready",
        ),
        ("def __getattr__(name): raise RuntimeError('not ready')", ":X", "X raises RuntimeError: not ready"),
        ("class X:\n    @property\n    def swizzle(self): 1 / 0\nSUBJECT = X()", "", "ZeroDivisionError"),
        ("import sys\nsys.path.clear()", "", "none of the operations"),
    ],
)
def test_a_file_that_raises_when_it_is_asked_is_wrong_usage(
    text: str, attribute: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "odd.py"
    path.write_text(text)
    with pytest.raises(SubjectError, match=said):
        load_subject(f"{path}{attribute}")


def test_an_exception_without_a_text_is_told() -> None:
    assert told(Unprintable()) == "Unprintable: an exception without a text"
    assert told(ValueError("odd")) == "ValueError: odd"


def test_an_empty_name_is_wrong_usage() -> None:
    for spec in ("", " "):
        with pytest.raises(SubjectError, match="must not be empty"):
            load_subject(spec)


@pytest.mark.parametrize("spec", ["missing.py", "missing.py:X"])
def test_missing_files_are_wrong_usage(spec: str) -> None:
    with pytest.raises(SubjectError, match=r"--subject missing.py: no such file"):
        load_subject(spec)


@pytest.mark.parametrize(
    "text", ["raise OSError('libmine.so')", "import sys; sys.exit(1)", "def (:", "raise KeyboardInterrupt"]
)
def test_a_file_that_fails_to_import_is_unavailable(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    before = set(sys.modules)
    with pytest.raises(SubjectUnavailable, match="import failed"):
        load_subject(str(path))
    assert set(sys.modules) == before


def test_unknown_names_are_unavailable() -> None:
    with pytest.raises(
        SubjectUnavailable, match="unknown subject 'nonesuch'; known are reference, host, cuda"
    ):
        load_subject("nonesuch")


def test_our_own() -> None:
    subject = load_subject("reference")
    assert set(subject.operations) == set(OPERATIONS)


@pytest.mark.parametrize(
    ("function", "functional"),
    [
        (lambda output, output_scale, input, g, offsets, scale_offsets: None, False),
        (lambda input, g, offsets, scale_offsets: None, True),
        (lambda input, g, offsets, scale_offsets, topk=1: None, True),
        (lambda *tensors: None, False),
        (print, False),
    ],
)
def test_outputs_are_returned_or_filled(function: Any, functional: bool) -> None:
    subject = Subject("mine", scaled_fp4_experts_quant=function)
    assert is_functional(subject, "scaled_fp4_experts_quant") is functional
