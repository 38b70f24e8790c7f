"""The case of a difference is run on both subjects again, and only on what the caller names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.cli.main import run
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import load_subject
from nvfp4_moe.verification.witness import replay

RIGHT = str(Path(__file__).parents[2] / "examples" / "subjects" / "torch_quant.py")
WRONG = f"{RIGHT}:WRONG"


def witness(**changes: Any) -> dict[str, Any]:
    """Return the witness of a case on which the example's planted fault shows: a width that is no multiple of 64."""
    plan = Plan.of(load_subject(WRONG), level=1, seed=3)
    case = next(
        case
        for case in plan.cases
        if isinstance(case, QuantCase)
        and case.k == 80
        and max(case.tokens_per_expert) > 128
        and not case.offset
    )
    document = {
        "kind": "against",
        "subject": "torch_quant:WRONG",
        "against": "reference",
        "level": 1,
        "case": case.to_json(),
    }
    return document | changes


def test_a_difference_reproduces_on_the_wrong_one_and_not_on_the_right_one() -> None:
    wrong = replay(witness(), subject=WRONG)
    assert wrong.reproduces
    assert wrong.lines[0] == "torch_quant:WRONG against reference"
    assert "output_scale at expert" in wrong.lines[1]
    right = replay(witness(), subject=RIGHT)
    assert not right.reproduces
    assert right.lines[1] == "no difference"


def test_a_file_is_run_only_where_it_is_given() -> None:
    for key in ("subject", "against"):
        with pytest.raises(CannotReplay, match=f"give the file of .* with --{key}"):
            replay(witness(**{"subject": "reference", key: "mine.py"}))


def test_what_is_not_there_cannot_be_replayed() -> None:
    with pytest.raises(CannotReplay, match="unknown subject"):
        replay(witness(subject="nobody", against="nobody"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subject": 3}, "subject must be text"),
        ({"against": None}, "against must be text"),
        ({"level": 0}, "level"),
        ({"case": []}, "case must be an object"),
        ({"case": {"kind": "other"}}, "kind of a case"),
    ],
)
def test_what_is_no_witness_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        replay(witness(**change), subject=RIGHT)


def test_the_command_line_takes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "difference.json"
    file.write_text(json.dumps(witness(against="old")))
    assert run(["replay", str(file), "--subject", WRONG, "--against", RIGHT]) == 1
    assert "torch_quant:WRONG against torch_quant" in capsys.readouterr().out
