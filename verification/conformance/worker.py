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
from typing import Any, TextIO

import torch

from nvfp4_moe.verification.conformance.call import (
    HARNESS_DEFAULTS,
    Call,
    Judgement,
    Refused,
    SubjectRaised,
    TorchDefaults,
)
from nvfp4_moe.verification.conformance.child import Order
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.memory import Arena, DeviceFault, HostArena
from nvfp4_moe.verification.conformance.plan import Case, Plan, fingerprint, may_refuse, run_case
from nvfp4_moe.verification.conformance.subject import Subject, SubjectError, SubjectUnavailable, load_subject
from nvfp4_moe.verification.result import Finding

DEVICE_FAULT = 70
"""Exit code of a child whose device context is lost."""


def arena_for(device: str, *, sealed: bool = False) -> Arena:
    """Return the guarded memory of a device; `sealed`: inputs are read-only during calls, on the CPU."""
    if device == "cpu":
        return HostArena(seals=sealed)
    from nvfp4_moe.verification.conformance.cuda_memory import CudaArena

    return CudaArena()


def serve(subject: Subject, order: Order, *, out: TextIO) -> None:
    """Run the cases of the order and write a line before and after each."""
    torch.set_num_threads(1)  # cases are small, and several children share the cores
    Call.defaults = TorchDefaults.now()
    HARNESS_DEFAULTS.set()
    try:
        cases = Plan.of(subject, level=order.level, seed=order.seed).cases
        arena = arena_for(subject.device, sealed=order.sealed)
        for number in order.numbers:
            _say(out, {"begin": number, "case": fingerprint(cases[number])})
            _say(out, {"done": number, **answer(subject, cases[number], arena)})
        _say(out, {"end": True})
    except DeviceFault as fault:
        print(fault, file=sys.stderr, flush=True)
        os._exit(DEVICE_FAULT)  # nothing on the device works any more, clean-up neither
    except Exception:
        _say(out, {"harness": traceback.format_exc()})


def answer(subject: Subject, case: Case, arena: Arena) -> dict[str, Any]:
    """Run one case and return what to say of it.

    Raises:
        DeviceFault: the subject's work on the device failed.
    """
    try:
        judged = run_case(subject, case, arena)
    except Refused as refusal:
        legal = may_refuse(case, subject.contract)
        if not refusal.faults:
            return {"refused": str(refusal), "legal": legal}
        text = f"refused inside its domain: {refusal}"
        where = {"refused": str(refusal)}
        illegal = () if legal else (Fault(check="golden", finding=Finding.CONTRACT, text=text, where=where),)
        judged = Judgement([*refusal.faults, *illegal])
    except SubjectRaised as raised:
        if not raised.faults:
            return {"raised": str(raised)}
        text = f"an exception inside the domain: {str(raised).strip().splitlines()[-1]}"
        fault = Fault(
            check="golden", finding=Finding.BYTES, text=text, where={"traceback": str(raised).strip()}
        )
        judged = Judgement([*raised.faults, fault])
    faults = [fault.to_json() for fault in judged.faults]
    return {"faults": faults, "admissible": judged.admissible}


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
        except (SubjectError, SubjectUnavailable) as error:
            _say(out, {"unavailable": str(error)})
            return
        told = {name: request[name] for name in ("numbers", "level", "seed", "sealed")}
        serve(subject, Order(**told), out=out)


if __name__ == "__main__":
    main()
