"""The judging processes: answers come back, and one that dies or hangs costs its own entry alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.mutants import worker
from nvfp4_moe.verification.mutants.catalogue import catalogue
from nvfp4_moe.verification.mutants.judge import Judged
from nvfp4_moe.verification.result import Verdict

FAKE = """
import json, os, sys, time
with os.fdopen(int(sys.argv[1]), "w") as out:
    for line in sys.stdin:
        entry = json.loads(line)["id"]
        print("noise on standard output", flush=True)
        if entry == "dies":
            os._exit(9)
        if entry == "hangs":
            time.sleep(60)
        if entry == "breaks":
            out.write(json.dumps({"fault": "internal error: KeyError"}) + "\\n")
        else:
            answer = {"id": entry, "device": "cpu", "verdict": "REFUTED", "seconds": 0.5}
            text = json.dumps(answer) + "\\n"
            out.write(text[:10]); out.flush(); time.sleep(0.05); out.write(text[10:])
        out.flush()
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every worker run a few lines that answer at once."""
    program = tmp_path / "fake.py"
    program.write_text(FAKE)
    monkeypatch.setattr(lifeline, "command", lambda module, *rest: [sys.executable, str(program), *rest])
    monkeypatch.setattr(worker, "MOST_SECONDS", 2.0)


def verdicts(entries: list[str], workers: int) -> dict[str, Judged]:
    return {one.id: one for one in worker.judge_all(entries, device="cpu", seed=0, workers=workers)}


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("workers", [1, 3])
def test_every_entry_is_judged_once(workers: int) -> None:
    names = ["a", "dies", "b", "breaks", "c", "hangs", "d"]
    found = verdicts(names, workers)
    assert set(found) == set(names)
    assert all(found[name].verdict is Verdict.REFUTED for name in "abcd")
    assert found["a"].seconds == 0.5
    details = {name: found[name].detail for name in ("dies", "breaks", "hangs")}
    assert details == {
        "dies": "the judging process ended with code 9",
        "breaks": "internal error: KeyError",
        "hangs": "no verdict within 2 s",
    }
    assert all(found[name].verdict is Verdict.UNDECIDED for name in details)


@pytest.mark.usefixtures("fake")
def test_no_process_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def keep(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = popen(*arguments, **options)  # type: ignore[call-overload]
        started.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", keep)
    results = worker.judge_all(["a", "b", "hangs", "c"], device="cpu", seed=0, workers=2)
    next(results)
    results.close()  # Ctrl-C closes it too
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_real_one_judges_a_variant() -> None:
    mutant = next(mutant for mutant in catalogue() if mutant.id == "bound_loose.all_ranks")
    (found,) = worker.judge_all([mutant.id], device="cpu", seed=0, workers=1)
    assert (found.verdict, found.check) == (Verdict.REFUTED, "padding.attained")
    (unknown,) = worker.judge_all(["no.such"], device="cpu", seed=0, workers=1)
    assert unknown.verdict is Verdict.UNDECIDED
    assert "no.such" in unknown.detail
