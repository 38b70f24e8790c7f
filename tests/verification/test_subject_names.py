"""No two subjects of a run share a name, so that no entry of known findings excuses both."""

from __future__ import annotations

import pytest

from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.subject_names import tell_apart

GIVEN = Subject("mine", swizzle=print)


def job(name: str) -> Job:
    outcome = Outcome(verdict=Verdict.HELD, cases=1)
    row = Row(claim_id="quant.golden", method=Method.CONFORMANCE, outcome=outcome, subject=name)
    return Job(name=f"subject {name}", tells=[], work=lambda advance: [row], subject=name)


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        (["a.py"], ["mine"]),
        (["a/mine.py", "b/mine.py"], ["mine (a/mine.py)", "mine (b/mine.py)"]),
        (["mine.py", "mine.py"], ["mine (mine.py) #1", "mine (mine.py) #2"]),
        ([GIVEN, GIVEN, "mine.py"], ["mine #1", "mine #2", "mine (mine.py)"]),
    ],
)
def test_each_has_a_name_of_its_own(specs: list[str | Subject], names: list[str]) -> None:
    jobs = [*(job("mine") for _ in specs), job("other")]
    tell_apart(jobs, [*specs, "other.py"])
    assert [job.subject for job in jobs] == [*names, "other"]
    assert [job.name for job in jobs] == [f"subject {name}" for name in (*names, "other")]
    assert [row.subject for job in jobs for row in job.run(lambda cases: None)] == [*names, "other"]
