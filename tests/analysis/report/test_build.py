"""The parts of a report and its JSON: the documents inside are those of the commands that they come from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nvfp4_moe.analysis.report import Report, build_report, memory_of
from nvfp4_moe.analysis.report.build import PACKAGES
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import ModelShape
from nvfp4_moe.verification import schema


@pytest.fixture(scope="module")
def document(report: Report) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(json.dumps(report.to_json(), allow_nan=False))
    return parsed


def validate(name: str, document: dict[str, Any]) -> None:
    Draft202012Validator(schema.load(name)).validate(document)


def test_memory_and_engines_are_those_of_their_commands(document: dict[str, Any]) -> None:
    validate("savings", document["savings"] | {"seed": document["seed"], "padding": document["padding"]})
    validate("engines", document["engines"])


def test_capacity_is_that_of_its_command(document: dict[str, Any]) -> None:
    assert len(document["capacity"]) == 5
    for line in document["capacity"]:
        assert line.pop("model") == "DeepSeek-R1"
        assert line.pop("setup")
        validate("capacity", line)


def test_environment_names_every_package(report: Report) -> None:
    named = dict(report.environment)
    assert set(PACKAGES) < set(named)
    assert named["torch"].startswith("2.")


def test_an_absent_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.analysis.report.build.PACKAGES", ("no-such-package",))
    monkeypatch.setattr("nvfp4_moe.analysis.figures.available", lambda: False)
    made = build_report(memory_of(max_num_batched_tokens=8), full=1, brief=True)
    assert dict(made.environment)["no-such-package"] == "not installed"


def test_named_models_are_all_shown_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.analysis.figures.available", lambda: False)
    models = [ZOO["Mixtral-8x7B"], ZOO["gpt-oss-20b"]]
    made = build_report(memory_of(models, max_num_batched_tokens=16), brief=True)
    assert [model.name for model in made.models] == ["Mixtral-8x7B", "gpt-oss-20b"]
    assert {line.model for line in made.served} == {"Mixtral-8x7B", "gpt-oss-20b"}
    assert made.tokens == 16


def test_progress_is_told_of_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.analysis.figures.available", lambda: False)
    steps: list[str] = []
    build_report(memory_of(max_num_batched_tokens=8), full=1, brief=True, progress=steps.append)
    assert steps == ["serving"]


def test_two_models_of_one_name_are_refused() -> None:
    model = ZOO["Mixtral-8x7B"]
    other = ModelShape(**{name: getattr(model, name) for name in model.__slots__} | {"topk": 1})
    with pytest.raises(ValueError, match="two models are called"):
        memory_of([model, other], max_num_batched_tokens=8)


def test_a_model_whose_width_no_scale_divides_is_refused() -> None:
    odd = ModelShape(
        name="odd",
        hidden_size=64,
        intermediate_size=24,
        num_experts=4,
        topk=2,
        source="made up for this test",
    )
    with pytest.raises(ValueError, match=r"odd: .* no multiple of 16"):
        memory_of([odd], max_num_batched_tokens=8)
