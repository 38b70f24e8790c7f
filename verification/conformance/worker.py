"""The child that runs a subject: loads it, runs the cases it is told, and says what it found, one JSON line each.

Lines go to a descriptor of their own, since a subject may print. Before a case the child says its number, so that the
parent knows which case a crash or a hang belongs to.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Any, TextIO

import torch

from nvfp4_moe.verification.conformance.memory import Arena, HostArena
from nvfp4_moe.verification.conformance.plan import Plan, may_refuse, run_case
from nvfp4_moe.verification.conformance.quant_check import Refused
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable, load_subject


def arena_for(device: str) -> Arena:
    """Return the guarded memory of a device."""
    if device == "cpu":
        return HostArena()
    from nvfp4_moe.verification.conformance.cuda_memory import CudaArena

    return CudaArena()


def serve(subject: Subject, *, level: int, seed: int, numbers: Iterable[int] | None, out: TextIO) -> None:
    """Run the cases with the given numbers (None: all) and write a line before and after each."""
    torch.set_num_threads(1)  # cases are small, and several children share the cores
    plan = Plan.of(subject, level=level, seed=seed)
    arena = arena_for(subject.device)
    for number in range(len(plan.cases)) if numbers is None else numbers:
        _say(out, {"begin": number})
        case = plan.cases[number]
        try:
            judged = run_case(subject, case, arena)
            faults = [fault.to_json() for fault in judged.faults]
            _say(out, {"done": number, "faults": faults, "admissible": judged.admissible})
        except Refused as refusal:
            _say(out, {"done": number, "refused": str(refusal), "legal": may_refuse(case)})
        except Exception:  # the subject's, or ours: the parent shows it as an exception inside the domain
            _say(out, {"done": number, "raised": traceback.format_exc(limit=-4)})
    _say(out, {"end": True})


def _say(out: TextIO, message: dict[str, Any]) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


def main() -> None:
    """Run as a program: one JSON request on standard input, answers on the descriptor that it names."""
    request = json.loads(sys.stdin.readline())
    faulthandler.enable()
    with os.fdopen(request["descriptor"], "w") as out:
        try:
            subject = load_subject(request["spec"])
        except SubjectUnavailable as error:
            _say(out, {"unavailable": str(error)})
            return
        numbers = request["numbers"]
        serve(subject, level=request["level"], seed=request["seed"], numbers=numbers, out=out)


if __name__ == "__main__":
    main()
