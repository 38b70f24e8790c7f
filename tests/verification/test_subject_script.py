"""A wrong byte of a subject as a stand-alone script: it fails on the wrong kernel and passes on the right one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nvfp4_moe
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import is_functional, load_subject
from nvfp4_moe.verification.conformance.worker import answer
from nvfp4_moe.verification.subject_script import as_script
from nvfp4_moe.verification.witness import as_script as script_of_any_kind

SMALL = 20_000
RIGHT = """
from nvfp4_moe.verification.conformance.own import reference_subject

right = reference_subject()
"""
QUANT = """
def scaled_fp4_experts_quant(output, output_scale, *rest):
    right.operations["scaled_fp4_experts_quant"](output, output_scale, *rest)
"""
WRONG_QUANT = QUANT + "    output[len(output) // 2, -1] ^= 0x10\n"
UNWRITTEN = (
    QUANT.replace("    right", "    kept = output_scale[-1].clone()\n    right")
    + "    output_scale[-1] = kept\n"
)
ROUTING = """
def get_cutlass_moe_mm_data(ids, offsets, sizes1, sizes2, rows, slots, *rest):
    right.operations["get_cutlass_moe_mm_data"](ids, offsets, sizes1, sizes2, rows, slots, *rest)
"""
SHUFFLE = "def shuffle_rows(input, map): return input[map.long()]\n"
FUNCTIONAL = """
import torch

def scaled_fp4_experts_quant(input, scale, offsets, starts):
    packed = torch.zeros((input.shape[0], input.shape[1] // 2), dtype=torch.uint8)
    scales = torch.zeros((max(1, int(starts[-1])), -(-input.shape[1] // 64)), dtype=torch.int32)
    right.operations["scaled_fp4_experts_quant"](packed, scales, input, scale, offsets, starts)
    return packed.bitwise_xor_(1), scales[: int(starts[-1])]
"""


def witness_of(path: Path, check: str) -> dict[str, Any]:
    """Return what a run over small cases would save of the first fault."""
    subject = load_subject(str(path))
    arena = HostArena()
    for case in Plan.of(subject, level=1, seed=0).cases:
        if getattr(case, "elements", 0) < SMALL:
            for fault in answer(subject, case, arena).get("faults", ()):
                if fault["check"] == check:
                    functional = (
                        is_functional(subject, case.operation) if hasattr(case, "operation") else False
                    )
                    return {"kind": "subject", "case": case.to_json(), "functional": functional, **fault}
    raise AssertionError(f"no fault of {check}")


def outcome(script: str, kernel: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "shown.py").write_text(script)
    return subprocess.run(
        [sys.executable, "shown.py", str(kernel)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(nvfp4_moe.__file__).parent.parent)},
    )


@pytest.mark.parametrize(
    ("wrong", "right", "check"),
    [
        (WRONG_QUANT, QUANT, "golden"),
        (UNWRITTEN, None, "coverage"),
        (ROUTING + "    sizes2[-1, 2] += 1\n", None, "golden"),
        (SHUFFLE.replace("map.long()", "map.long().flip(0)"), None, "golden"),
        (FUNCTIONAL, FUNCTIONAL.replace(".bitwise_xor_(1)", ""), "golden"),
    ],
)
def test_the_script_tells_wrong_from_right(tmp_path: Path, wrong: str, right: str | None, check: str) -> None:
    kernel = tmp_path / "mine.py"
    kernel.write_text(RIGHT + wrong)
    script = script_of_any_kind(witness_of(kernel, check))
    assert len([line for line in script.splitlines() if not line.startswith('    "')]) < 45
    shown = outcome(script, kernel, tmp_path)
    assert shown.returncode == 1, shown.stderr
    assert "must be 0x" in shown.stdout
    assert "AssertionError" in shown.stderr
    if right is not None:
        kernel.write_text(RIGHT + right)
        shown = outcome(script, kernel, tmp_path)
        assert shown.returncode == 0, shown.stderr


CASE = {
    "kind": "rows",
    "operation": "shuffle_rows",
    "index": 0,
    "seed": 0,
    "rows": 2,
    "columns": 16,
    "mapped_rows": 2,
}
WHERE = {"row": 1, "byte": 3, "true": 5}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"case": None}, "case must be an object"),
        ({"where": None}, "where must be an object"),
        ({"where": {}}, "this finding needs the harness"),
        ({"where": {**WHERE, "true": "5"}}, "true must be an integer"),
        ({"where": {**WHERE, "row": 1.5}}, "row must be an integer"),
        ({"before": [CASE]}, "this finding needs the harness"),
        ({"case": {**CASE, "row_gap": 3}}, "a case of views has no script"),
        ({"case": {**CASE, "rows": 9000, "columns": 300}}, "the case is too large for a script"),
    ],
)
def test_witnesses_without_a_script(change: dict[str, Any], told: str) -> None:
    document = {"kind": "subject", "case": CASE, "where": WHERE, **change}
    with pytest.raises((ValueError, TypeError), match=told):
        as_script(document)


def test_a_name_in_a_witness_reaches_no_script() -> None:
    case = {"kind": "routing", "index": 0, "seed": 0, "tokens": 1, "topk": 1, "num_experts": 1}
    document = {"kind": "subject", "case": case, "where": {"output": "x; import os", "index": 0, "true": 0}}
    with pytest.raises((ValueError, TypeError)):
        as_script(document)
