"""The orchestrator: jobs, faults inside them, Ctrl-C, and the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from nvfp4_moe.verification import assert_conforms, verify
from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.runner import execute, prepare
from nvfp4_moe.verification.settings import Settings


def job(claim_id: str, work: Callable[[], Iterable[Row]]) -> Job:
    return Job(name=claim_id, tells=[(claim_id, Method.FUZZ)], work=lambda advance: work())


def held(claim_id: str) -> Row:
    return Row(claim_id=claim_id, method=Method.FUZZ, outcome=Outcome(verdict=Verdict.HELD, cases=1))


def interrupted() -> Iterable[Row]:
    raise KeyboardInterrupt


def broken() -> Iterable[Row]:
    raise ZeroDivisionError("ours")


def verdicts(jobs: list[Job]) -> dict[str, Verdict]:
    return {claim.id: claim.verdict for claim in execute(Settings(), jobs).claims}


def test_a_fault_inside_a_check_leaves_its_claims_undecided_and_the_run_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    jobs = [job("padding.bound", broken), job("padding.disjoint", lambda: [held("padding.disjoint")])]
    result = execute(Settings(), jobs)
    assert {c.id: c.verdict for c in result.claims} == {
        "padding.bound": Verdict.UNDECIDED,
        "padding.disjoint": Verdict.HELD,
    }
    assert result.exit_code == 3
    assert "ZeroDivisionError: ours" in result.claims[0].detail
    assert "Traceback" in capsys.readouterr().err


def test_bad_input_that_shows_late_ends_the_run() -> None:
    def bad() -> Iterable[Row]:
        raise BadInput("store: is damaged")

    with pytest.raises(BadInput, match="is damaged"):
        execute(Settings(), [job("padding.bound", bad)])


def test_ctrl_c_keeps_what_was_finished_and_lists_the_rest_as_undecided() -> None:
    jobs = [
        job("padding.bound", lambda: [held("padding.bound")]),
        job("padding.disjoint", interrupted),
        job("padding.coverage", lambda: [held("padding.coverage")]),
    ]
    result = execute(Settings(), jobs)
    assert result.interrupted
    assert verdicts(jobs) == {
        "padding.bound": Verdict.HELD,
        "padding.disjoint": Verdict.UNDECIDED,
        "padding.coverage": Verdict.UNDECIDED,
    }
    assert result.exit_code == 3


def test_jobs_that_run_beside_the_others_are_started_first_and_always_stopped() -> None:
    events: list[str] = []
    beside = job("padding.coverage", lambda: [held("padding.coverage")])
    beside.on_begin = lambda: events.append("begin")
    beside.on_cancel = lambda: events.append("cancel")
    first = job("padding.bound", lambda: events.append("work") or [held("padding.bound")])
    execute(Settings(), [first, beside])
    assert events == ["begin", "work", "cancel"]
    events.clear()
    execute(Settings(), [job("padding.bound", interrupted), beside])
    assert events == ["begin", "cancel"]


def test_a_job_that_cannot_start_is_undecided_and_the_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def begin() -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    beside = job("padding.coverage", lambda: [held("padding.coverage")])
    beside.on_begin = begin
    result = execute(Settings(), [job("padding.bound", lambda: [held("padding.bound")]), beside])
    assert {c.id: c.verdict for c in result.claims} == {
        "padding.bound": Verdict.HELD,
        "padding.coverage": Verdict.UNDECIDED,
    }
    assert result.exit_code == 3
    assert "BlockingIOError: [Errno 11]" in result.claims[1].detail
    assert "Traceback" in capsys.readouterr().err


def test_a_level_one_run_tells_every_padding_claim_by_three_methods() -> None:
    told = {claim for planned in prepare(Settings()) for claim in planned.tells}
    for claim_id in ("padding.bound", "padding.attained", "padding.disjoint", "padding.coverage"):
        methods = {method for claim, method in told if claim == claim_id}
        assert {Method.PROOF, Method.EXHAUSTIVE, Method.FUZZ} <= methods, claim_id


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"level": 4}, "level must be 1, 2 or 3, got 4"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda"),
        ({"budget": 0}, "budget must be a positive number"),
        ({"budget": float("nan")}, "budget must be a positive number"),
        ({"tile": 0}, "tile must be between 1 and"),
        ({"experts": 10**30}, "experts must be between 1 and"),
        ({"topk": -1}, "topk must be between 1 and"),
        ({"experts": 8, "expert_parallel_size": 9}, "expert_parallel_size (9) must be at most"),
        ({"expert_parallel_size": 2}, "expert_parallel_size needs experts"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"bound": "max_num_batched_tokens / 2"}, "column 24"),
        ({"fail_on": "style"}, "fail_on must be one of memory, bytes, contract, advisory"),
    ],
)
def test_wrong_options_are_refused_before_any_work(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        verify(**options)
    assert text in str(error.value)


def test_a_size_that_is_no_integer_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"topk must be an integer, got 2\.5"):
        verify(topk=2.5)


def test_an_object_without_operations_is_no_subject() -> None:
    with pytest.raises(TypeError, match="has none of the operations"):
        assert_conforms(object())
