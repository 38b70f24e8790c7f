"""Children: crashes, hangs, exceptions, noise, groups given up; the lanes give the same whether at once or in turn."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import Plan
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.conformance.supervisor import (
    CaseReport,
    HarnessFault,
    Limits,
    deal,
    run_cases,
)

RIGHT = reference_subject().operations
PATIENT = Limits(case_seconds=120, first_case_seconds=120, crashes=2)
"""Where nothing hangs: a busy machine must not change a verdict."""
QUICK = Limits(case_seconds=0.3, first_case_seconds=0.3, hang_factor=2, crashes=2)
"""Where the case hangs for ever, so that no limit is too short."""
MARKED = 33
"""Rows of the map of the case that a planted subject dies in."""


def shuffles(at_marked: Callable[[], Any]) -> Subject:
    """Return a right `shuffle_rows` that does something else in the cases of one size."""

    def shuffle_rows(input: Tensor, map: Tensor) -> Tensor:
        if len(map) == MARKED:
            at_marked()
        return RIGHT["shuffle_rows"](input, map)  # type: ignore[no-any-return]

    return Subject("shuffles", "cpu", shuffle_rows=shuffle_rows)


SIZE = len(Plan.of(shuffles(lambda: None), level=1, seed=0).cases)


def run(subject: Subject | str, numbers: list[int] | None = None, **options: Any) -> list[CaseReport]:
    options = {"limits": PATIENT, **options}
    wanted = list(range(SIZE)) if numbers is None else numbers
    return sorted(run_cases(subject, wanted, level=1, seed=0, **options), key=lambda report: report.number)


def marked(subject: Subject) -> list[int]:
    cases = Plan.of(subject, level=1, seed=0).cases
    return [number for number, case in enumerate(cases) if getattr(case, "mapped_rows", 0) == MARKED]


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def abort() -> None:
    os.abort()


def leave() -> None:
    sys.exit(3)


def leave_at_once() -> None:
    os._exit(0)


def sleep() -> None:
    time.sleep(3600)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (segfault, "SIGSEGV"),
        (abort, "SIGABRT"),
        (leave_at_once, "exit code 0"),
    ],
)
def test_a_death_is_a_finding_of_its_case_and_the_run_goes_on(action: Callable[[], None], told: str) -> None:
    subject = shuffles(action)
    number = marked(subject)[0]
    reports = run(subject, [0, 1, 2, number, SIZE - 1])
    assert [report.number for report in reports] == [0, 1, 2, number, SIZE - 1]
    assert [bool(report.faults) for report in reports] == [False, False, False, True, False]
    (fault,) = reports[3].faults
    assert (fault["check"], fault["finding"]) == ("guard", "memory")
    assert told in fault["text"]


def test_an_exit_that_is_an_exception_is_one() -> None:
    subject = shuffles(leave)
    number = marked(subject)[0]
    (report,) = run(subject, [number])
    (fault,) = report.faults
    assert (fault["check"], fault["finding"]) == ("golden", "bytes")
    assert "an exception inside the domain: SystemExit: 3" in fault["text"]


def once(folder: Path, name: str) -> bool:
    """Return whether nobody asked this before, in any process."""
    try:
        (folder / name).mkdir()
    except FileExistsError:
        return False
    return True


def test_a_case_that_hangs_every_time_is_a_finding_of_its_longer_run() -> None:
    subject = shuffles(sleep)
    number = marked(subject)[0]
    (report,) = run(subject, [number], limits=QUICK)
    (fault,) = report.faults
    assert (fault["check"], fault["finding"], report.hung, report.before) == ("guard", "memory", True, ())
    assert "no answer for 0.6 s; killed" in fault["text"]


def test_one_hang_of_a_group_is_tried_again_and_the_run_goes_on() -> None:
    subject = shuffles(sleep)
    first, second = marked(subject)[:2]
    reports = run(subject, [first, second], limits=QUICK)
    assert reports[0].hung
    assert reports[1].not_run == f"gave no answer for 0.3 s, as case {first} does every time"


def test_a_case_that_answers_when_it_runs_again_is_not_judged(tmp_path: Path) -> None:
    subject = shuffles(lambda: sleep() if once(tmp_path, "slept") else None)
    number = marked(subject)[0]
    limits = Limits(case_seconds=0.3, first_case_seconds=0.3, hang_factor=400)
    (report,) = run(subject, [number], limits=limits)
    assert not report.faults
    assert report.not_run == "gave no answer for 0.3 s, but did when run again: a busy machine?"


def test_a_fault_of_the_second_run_is_told(tmp_path: Path) -> None:
    subject = shuffles(lambda: sleep() if once(tmp_path, "slept") else segfault())
    limits = Limits(case_seconds=0.3, first_case_seconds=0.3, hang_factor=400)
    (report,) = run(subject, marked(subject)[:1], limits=limits)
    assert "SIGSEGV" in report.faults[0]["text"]
    assert not report.hung


def test_a_hang_behind_other_calls_is_found_behind_them() -> None:
    calls: list[int] = []

    def shuffle_rows(input: Tensor, map: Tensor) -> Tensor:
        if len(map) == MARKED and any(rows != MARKED for rows in calls):
            sleep()
        calls.append(len(map))
        return RIGHT["shuffle_rows"](input, map)  # type: ignore[no-any-return]

    subject = Subject("shuffles", "cpu", shuffle_rows=shuffle_rows)
    number = marked(subject)[0]
    limits = Limits(case_seconds=0.5, first_case_seconds=3, hang_factor=1)
    report = run(subject, [0, number], limits=limits, lanes=1)[-1]
    assert (report.hung, report.before) == (True, (0,))


def test_the_crashed_stack_is_told() -> None:
    subject = shuffles(segfault)
    (report,) = run(subject, marked(subject)[:1])
    assert "in segfault" in report.faults[0]["text"]


def test_a_group_is_given_up_after_some_crashes_and_the_others_run() -> None:
    subject = shuffles(segfault)
    dying = set(marked(subject))
    reports = run(subject, group_of=lambda number: "dying" if number in dying else "others")
    assert len(reports) == SIZE
    given_up = [report for report in reports if report.not_run is not None]
    assert given_up
    assert {report.number for report in given_up} < dying
    assert all(report.not_run == "given up after 2 crashes" for report in given_up)
    assert all(not report.faults for report in reports if report.number not in dying)


@pytest.mark.parametrize("error", [AssertionError("odd"), IndexError("odd"), ZeroDivisionError("odd")])
def test_an_exception_is_told_with_its_traceback(error: Exception) -> None:
    def fail() -> None:
        raise error

    subject = shuffles(fail)
    (report,) = run(subject, marked(subject)[:1])
    (fault,) = report.faults
    assert (fault["check"], fault["finding"]) == ("golden", "bytes")
    assert f"{type(error).__name__}: odd" in fault["text"]
    assert "in fail" in fault["where"]["traceback"]


@pytest.mark.parametrize(
    "error", [ValueError("no"), TypeError("no"), NotImplementedError("no"), RuntimeError("no")]
)
def test_a_refusal_inside_the_domain_is_illegal(error: Exception) -> None:
    def refuse() -> None:
        raise error

    subject = shuffles(refuse)
    (report,) = run(subject, marked(subject)[:1])
    assert report.refused == f"{type(error).__name__}: no"
    assert not report.refusal_legal


def noise() -> None:
    print('{"done": 0, "faults": []}' * 20_000, flush=True)
    print("x" * 1_000_000, file=sys.stderr, flush=True)


def test_a_fork_that_prints_neither_blocks_nor_disturbs(capfd: pytest.CaptureFixture[str]) -> None:
    reports = run(shuffles(noise), marked(shuffles(noise)))
    assert not any(report.faults for report in reports)
    assert capfd.readouterr() == ("", "")


def test_lanes_at_once_and_in_turn_give_the_same() -> None:
    together, in_turn = (run(shuffles(segfault), side_by_side=way) for way in (True, False))
    assert together == in_turn


def test_dealing_keeps_the_order_and_mixes_neighbours() -> None:
    lanes = deal(range(40))
    assert sorted(lanes[0] + lanes[1]) == list(range(40))
    assert all(lane == sorted(lane) for lane in lanes)
    assert all({number % 2 for number in lane} == {0, 1} for lane in lanes)
    assert deal([5, 3, 4], 1) == [[5, 3, 4]]


def test_what_ran_before_is_told_with_a_fault() -> None:
    subject = shuffles(segfault)
    number = marked(subject)[0]
    (report,) = (report for report in run(subject, [4, 2, number], lanes=1) if report.faults)
    assert report.before == (4, 2)


def test_a_stopped_run_ends_its_children(children_of_this_process: Callable[[], set[int]]) -> None:
    before = children_of_this_process()
    reports = run_cases(shuffles(sleep), range(SIZE), level=1, seed=0, limits=Limits())
    next(iter(reports))
    reports.close()  # type: ignore[attr-defined]
    assert children_of_this_process() == before


# --- subjects that are named -------------------------------------------------------------------------------

FILE = """
import sys, torch

def shuffle_rows(input, map):
    print("noise on stdout", flush=True)
    if len(map) == 33:
        print("the last words", file=sys.stderr, flush=True)
        import os; os._exit(5)
    return input[map.long()]
"""


@pytest.fixture
def named(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_file_runs_in_a_fresh_process(named: Callable[[str], str]) -> None:
    spec = named(FILE)
    number = marked(shuffles(lambda: None))[0]
    first, second, third = run(spec, [0, 1, number])
    assert not first.faults
    assert not second.faults
    assert "exit code 5" in third.faults[0]["text"]
    assert "the last words" in third.faults[0]["text"]


WRITES_EVERYWHERE = """
import contextlib, os

def shuffle_rows(input, map):
    if len(map) == 33:
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(descriptor, b"junk\\n")
    return input[map.long()]
"""


def test_a_subject_that_writes_to_our_pipe_is_a_finding(named: Callable[[str], str]) -> None:
    first, second = run(named(WRITES_EVERYWHERE), [0, marked(shuffles(lambda: None))[0]])
    assert not first.faults
    assert "it said what is no message: b'junk'" in second.faults[0]["text"]


HOSTILE = """
import torch
torch.set_default_dtype(torch.float64)
torch.set_flush_denormal(True)
torch.set_num_threads(3)

def shuffle_rows(input, map):
    assert torch.get_default_dtype() == torch.float64
    return input[map.long()]

from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.subject import Subject
right = reference_subject()
SUBJECT = Subject(
    "hostile", "cpu", right.contract, shuffle_rows=shuffle_rows,
    silu_and_mul_scaled_fp4_experts_quant=right.operations["silu_and_mul_scaled_fp4_experts_quant"],
)
"""


def test_settings_that_an_import_leaves_do_not_change_the_judgement(named: Callable[[str], str]) -> None:
    """The golden model behind them is right: a red one would be the harness's own fault."""
    operation = "silu_and_mul_scaled_fp4_experts_quant"
    same = Subject("same", "cpu", reference_subject().contract, **{operation: RIGHT[operation]})
    numbers = range(0, len(Plan.of(same, level=1, seed=0).cases), 50)
    reports = run(named(HOSTILE), numbers, limits=Limits())
    assert len(reports) == len(numbers) > 10
    assert not any(report.faults or report.refused for report in reports)


def test_memory_that_is_kept_and_read_later_is_a_crash() -> None:
    kept: list[Tensor] = []

    def shuffle_rows(input: Tensor, map: Tensor) -> Tensor:
        if kept:
            kept[0].clone()
        elif input.numel() > 1000:
            kept.append(input)
        return RIGHT["shuffle_rows"](input, map)  # type: ignore[no-any-return]

    reports = run(Subject("keeps", "cpu", shuffle_rows=shuffle_rows), [0, 4], lanes=1)
    assert not reports[0].faults
    assert "SIGSEGV" in reports[1].faults[0]["text"]


def test_a_file_that_cannot_be_loaded_there(named: Callable[[str], str]) -> None:
    with pytest.raises(SubjectUnavailable, match="import failed: ImportError: not here"):
        run(named("raise ImportError('not here')"), [0])


def test_a_subject_that_is_another_one_in_its_process_is_not_judged(named: Callable[[str], str]) -> None:
    """Else the number of a case would mean another case there."""
    spec = named(
        "def swizzle(linear): return linear\ndef shuffle_rows(input, map): return input[map.long()]\n"
    )
    cases = Plan.of(Subject("mine", swizzle=lambda linear: linear), level=1, seed=0).cases
    with pytest.raises(SubjectUnavailable, match="case 0 is another one in its process"):
        run(spec, [0], cases=cases)


def test_a_file_whose_import_hangs(named: Callable[[str], str]) -> None:
    spec = named("import time\ntime.sleep(60)\n")
    with pytest.raises(SubjectUnavailable, match=r"no answer for 0\.3 s"):
        run(spec, [0], limits=Limits(load_seconds=0.3))


def test_a_cuda_object_cannot_be_forked() -> None:
    subject = Subject("gpu", "cuda", shuffle_rows=lambda input, map: input)
    with pytest.raises(SubjectUnavailable, match=r"must be given as FILE\.py"):
        run(subject, [0])


def test_a_fault_of_the_harness_is_not_the_subjects() -> None:
    with pytest.raises(HarnessFault, match="IndexError"):
        run(shuffles(lambda: None), [10**6])
