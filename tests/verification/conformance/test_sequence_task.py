"""A stranger's failing case is searched in one child, which forks it for every trial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nvfp4_moe.verification.conformance import child
from nvfp4_moe.verification.conformance.run import conform
from nvfp4_moe.verification.conformance.sequence_task import SequenceFinder
from nvfp4_moe.verification.conformance.supervisor import CaseReport, Limits
from nvfp4_moe.verification.result import Verdict

LIMITS = Limits(case_seconds=120, first_case_seconds=120)
SECOND_CALL = """
import torch

calls = 0


def shuffle_rows(input, map):
    global calls
    calls += len(map) > 0
    out = input[map.long()]
    if calls > 12 and out.numel():
        out.view(torch.uint8)[-1, -1] ^= 1
    return out
"""


def test_a_stranger_that_fails_behind_other_calls_is_searched_in_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counts.py"
    path.write_text(SECOND_CALL)
    spawned: list[str] = []
    spawn = child._spawn

    def counted(spec: str, *rest: object, **options: object) -> object:
        spawned.append(spec)
        return spawn(spec, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(child, "_spawn", counted)
    rows = {row.claim_id: row.outcome for row in conform(str(path), level=1, seed=0, limits=LIMITS)}
    golden = rows["shuffle.golden"]
    assert golden.verdict is Verdict.REFUTED
    assert golden.witness is not None
    assert golden.witness["before"]
    assert "only after" in golden.detail
    assert len(spawned) == 2  # the lanes, and no trial


def test_a_search_whose_child_ends_is_told(
    tmp_path: Path, children_of_this_process: Callable[[], set[int]]
) -> None:
    path = tmp_path / "ends.py"
    path.write_text("import os\nos._exit(7)\n")
    before = children_of_this_process()
    finder = SequenceFinder(str(path), level=1, seed=0, limits=LIMITS)
    found = finder.find(CaseReport(0))
    assert found.before == ()
    assert found.remark == "it could not be run again: exit code 7"
    finder.close()
    assert children_of_this_process() == before
