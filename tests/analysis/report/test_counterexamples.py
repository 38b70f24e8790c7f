"""A refuted claim with the command that runs it again: the command is run, and it reproduces."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.analysis.report.counterexamples import Counterexample, counterexample_of
from nvfp4_moe.analysis.report.text import LONGEST_BLOCK
from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.result import ClaimResult, Result, Verdict
from nvfp4_moe.verification.witness import save_counterexample


@pytest.fixture
def of(claim: Callable[..., ClaimResult]) -> Callable[..., Counterexample]:
    def make(
        witness: dict[str, Any],
        *,
        file: Path | None = Path("x.json"),
        specs: dict[str, dict[str, str]] | None = None,
        **changes: Any,
    ) -> Counterexample:
        refuted = claim(verdict=Verdict.REFUTED, witness=witness, **changes)
        return counterexample_of(refuted, file=file, specs=specs or {})

    return make


def test_the_command_reproduces_it(
    refuted_run: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refuted = refuted_run.claims[1]
    saved = save_counterexample(tmp_path / "with space", refuted)
    words = shlex.split(counterexample_of(refuted, file=saved, specs={}).command)
    assert words[:2] == ["nvfp4-moe", "replay"]
    assert run(words[1:]) == 1
    assert "reproduces" in capsys.readouterr().out


def test_a_subject_is_given_as_it_was(of: Callable[..., Counterexample]) -> None:
    specs = {"mine": {"subject": "my kernel.py:WRONG"}}
    made = of({"kind": "subject", "subject": "mine"}, subject="mine", specs=specs)
    assert made.command == "nvfp4-moe replay --subject 'my kernel.py:WRONG' x.json"
    assert made.note == ""


def test_an_unknown_subject_has_to_be_put_in(of: Callable[..., Counterexample]) -> None:
    made = of({"kind": "against", "subject": "mine", "against": "host"}, subject="mine against host")
    assert made.command == "nvfp4-moe replay --subject FILE.py x.json"
    assert "in place of FILE.py" in made.note


def test_our_own_subject_needs_no_option(of: Callable[..., Counterexample]) -> None:
    assert of({"kind": "subject", "subject": "host"}, subject="host").command == "nvfp4-moe replay x.json"


def test_without_a_file_the_witness_is_to_be_saved(of: Callable[..., Counterexample]) -> None:
    made = of({"kind": "bound"}, file=None)
    assert made.command == "nvfp4-moe replay COUNTEREXAMPLE.json"
    assert "Save the witness" in made.note


def test_a_kind_that_nothing_replays_has_no_command(of: Callable[..., Counterexample]) -> None:
    made = of({"kind": "rumour"})
    assert (made.command, made.note) == ("", "Nothing runs a witness of this kind again.")


@pytest.mark.parametrize("name", ["-x.json", "$(reboot).json", "a'b.json", "a;b.json"])
def test_a_file_name_is_one_word_of_the_shell(name: str, of: Callable[..., Counterexample]) -> None:
    words = shlex.split(of({"kind": "bound"}, file=Path(name)).command)
    assert words == ["nvfp4-moe", "replay", *(["--"] if name.startswith("-") else []), name]


def test_the_place_comes_first_and_empty_facts_are_left_out(refuted_run: Result) -> None:
    facts = counterexample_of(refuted_run.claims[2], file=None, specs={}).facts
    assert facts[:3] == (("where: output", "output_scale"), ("where: expert", "5"), ("where: row", "8"))
    assert ("case: k", "16") in facts
    assert "case: view" not in dict(facts)


def test_a_huge_witness_is_cut(of: Callable[..., Counterexample]) -> None:
    made = of({"kind": "bound", "tokens_per_expert": [1] * 100_000})
    assert "more characters]" in dict(made.facts)["tokens_per_expert"]
    assert len(made.document) < LONGEST_BLOCK + 60


def test_the_document_is_the_witness(refuted_run: Result) -> None:
    made = counterexample_of(refuted_run.claims[1], file=None, specs={})
    assert json.loads(made.document) == refuted_run.claims[1].witness
    assert made.document.isascii()
