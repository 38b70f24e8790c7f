"""What a subject does, measured one property at a time: the task of the child of `describe`.

A request names a probe; the answer is what it saw. A probe makes legal calls only, in guarded memory, and judges
nothing: `describe` turns the answers into a contract.

Answers to a call: "ran", "refused" (one of `REFUSALS` was raised) or "raised" (something else was).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, BinaryIO

import torch

from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations, Operations
from nvfp4_moe.reference.tables import MissingTableError, find_table
from nvfp4_moe.verification import routing_probes
from nvfp4_moe.verification.conformance.admissible import RECIPES as APPROXIMATE_RECIPES
from nvfp4_moe.verification.conformance.call import TURNS, Refused, SubjectRaised, Turn
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import LEGAL_RECIPES, Contract
from nvfp4_moe.verification.conformance.forms import Kind
from nvfp4_moe.verification.conformance.laws_check import LawCase, check_law
from nvfp4_moe.verification.conformance.memory import Arena, DeviceFault
from nvfp4_moe.verification.conformance.quant_check import run_quant
from nvfp4_moe.verification.conformance.quant_data import admissible_bytes, make_inputs, true_outputs
from nvfp4_moe.verification.conformance.quant_judge import QuantRun
from nvfp4_moe.verification.conformance.subject import Subject, is_functional
from nvfp4_moe.verification.conformance.values import VALUES
from nvfp4_moe.verification.conformance.worker import DEVICE_FAULT, arena_for
from nvfp4_moe.verification.task_messages import hear, say

QUANTIZERS = (
    "scaled_fp4_experts_quant",
    "silu_and_mul_scaled_fp4_experts_quant",
    "scaled_fp4_masked_quant",
    "silu_and_mul_scaled_fp4_masked_quant",
)
"""In order of preference: the first that a subject has is measured."""

WIDTHS = range(16, 528, 16)
ALIGNMENTS = (64, 32, 16, 8, 4)
"""Bytes; tensors of whole words lie at multiples of 4 at least."""
_WIDTHS_OF_PADDING = (48, 32, 96, 64, 128)
"""The first that is accepted shows the padding; the last two have no K padding."""

MOST_EXPERTS = 1024
REPETITIONS = 5


@dataclass(frozen=True, eq=False)
class Attempt:
    """One call."""

    answer: str
    """"ran", "refused" or "raised"."""
    text: str = ""
    run: QuantRun | None = None
    changed: tuple[str, ...] = ()
    """Inputs that the call changed."""

    def same_as(self, other: Attempt) -> bool:
        """Return whether both ran and left the same bytes."""
        if self.run is None or other.run is None:
            return False
        pairs = ((self.run.packed, other.run.packed), (self.run.scales, other.run.scales))
        return all(torch.equal(one, another) for one, another in pairs)


class Prober:
    """A subject without its own contract, and what every probe of a quantizer needs."""

    def __init__(self, subject: Subject, arena: Arena, *, seed: int = 0) -> None:
        widest = Contract(
            alignment={"default": 2 * ALIGNMENTS[0]}
        )  # so that nothing but its own probe asks for less
        self.subject = Subject(subject.name, subject.device, widest, **subject.operations)
        self.arena = arena
        self.seed = seed
        self.operation = next((op for op in QUANTIZERS if op in subject.operations), "")

    def case(self, **changes: Any) -> QuantCase:
        """Return a small case of the quantizer."""
        given: dict[str, Any] = {
            "operation": self.operation,
            "group": "describe",
            "index": 0,
            "seed": self.seed,
            "tokens_per_expert": (3, 0, 130),
            "unrouted_rows": 2,
            "k": 128,
            "dtype": "bf16",
            "values": "windowed",
            "global_scales": "distinct",
        }
        return QuantCase(**given | changes)

    def attempt(self, case: QuantCase, *, turn: Turn = TURNS[0], **contract: Any) -> Attempt:
        """Call the quantizer once, its tensors placed as the contract's `alignment` says."""
        subject = self.subject
        if contract:
            subject = Subject(subject.name, subject.device, Contract(**contract), **subject.operations)
        try:
            run, faults = run_quant(subject, case, make_inputs(case), self.arena, turn)
        except Refused as refusal:
            return Attempt("refused", str(refusal))
        except SubjectRaised as raised:
            return Attempt("raised", str(raised).strip().splitlines()[-1])
        changed = tuple(str(fault.where["tensor"]) for fault in faults if fault.check == "inputs")
        return Attempt("ran", run=run, changed=changed)


# --- quantizers --------------------------------------------------------------------------------------------


def _recipe_cases(prober: Prober) -> Iterator[QuantCase]:
    """Yield cases on which any two recipes, and any two arithmetics, differ in some byte."""
    for index, (values, dtype, scales) in enumerate(product(VALUES, ("bf16", "f16"), ("distinct", "wide"))):
        yield prober.case(
            tokens_per_expert=(16, 0, 17),
            k=512,
            index=index,
            values=values,
            dtype=dtype,
            global_scales=scales,
        )
    for dtype in ("bf16", "f16"):  # a reciprocal that is an ulp off shows at ties only
        yield prober.case(
            tokens_per_expert=(16,) * 16,
            k=1024,
            index=3,
            values="ties",
            dtype=dtype,
            global_scales="near_powers",
        )


def _arithmetics(device: str) -> dict[str, Operations]:
    """Return the arithmetics whose bytes are known here: correctly rounded, and the present or any measured chip's."""
    chip = torch.cuda.get_device_name() if device == "cuda" else None
    try:
        name = find_table("reciprocal", chip=chip).chip
    except MissingTableError:
        return {"ieee": IEEE}
    return {"ieee": IEEE, f"hardware ({name})": HardwareOperations(name)}


def recipe(prober: Prober) -> dict[str, Any]:
    """Return for each (recipe, arithmetic) how many bytes of the rows differ from it, and of how many."""
    arithmetics = _arithmetics(prober.subject.device)
    differing = {(name, arithmetic): 0 for name in LEGAL_RECIPES for arithmetic in arithmetics}
    seen: list[tuple[QuantCase, torch.Tensor, torch.Tensor]] = []
    total = 0
    for case in _recipe_cases(prober):
        attempt = prober.attempt(case)
        if attempt.run is None:
            return {"answer": attempt.answer, "text": attempt.text}
        inputs = make_inputs(case)
        valid = inputs.form.kinds == int(Kind.VALID)
        packed, scales = attempt.run.packed[inputs.form.owned], attempt.run.scales
        seen.append((case, packed, scales))
        total += packed.numel() + int(valid.sum())
        for name, arithmetic in differing:
            true = true_outputs(case, inputs, Contract(recipe=name), arithmetics[arithmetic])
            differing[name, arithmetic] += int((packed != true[0]).sum() + (scales != true[1])[valid].sum())
    equal = min(differing.values()) == 0
    return {
        "answer": "ran",
        "bytes": total,
        "differing": [[name, arithmetic, count] for (name, arithmetic), count in differing.items()],
        "unreachable": {} if equal else {name: _unreachable(name, seen) for name in APPROXIMATE_RECIPES},
    }


def _unreachable(name: str, seen: list[tuple[QuantCase, torch.Tensor, torch.Tensor]]) -> int:
    """Return how many bytes documented errors of the recipe's approximate instructions cannot reach."""
    count = 0
    for case, packed, scales in seen:
        inputs = make_inputs(case)
        reached = admissible_bytes(case, inputs, name, packed, scales)
        count += int((~reached[0]).sum() + (~reached[1])[inputs.form.kinds == int(Kind.VALID)].sum())
    return count


def padding(prober: Prober) -> dict[str, Any]:
    """Return what the padding bytes hold after calls over three fills: zero, unwritten or other; none: there are none."""
    returned = is_functional(prober.subject, prober.operation)
    spare = 0 if returned or "masked" in prober.operation else 128
    cases = [prober.case(k=k, extra_scale_rows=spare) for k in _WIDTHS_OF_PADDING]
    case = next((case for case in cases if prober.attempt(case).run is not None), cases[0])
    attempts = [prober.attempt(case, turn=turn) for turn in TURNS]
    runs = [attempt.run for attempt in attempts if attempt.run is not None]
    if len(runs) < len(TURNS):
        failed = next(attempt for attempt in attempts if attempt.run is None)
        return {"answer": failed.answer, "text": failed.text}
    kinds = make_inputs(case).form.kinds
    held = {kind.name.lower(): _held(runs, kinds == int(kind)) for kind in Kind if kind is not Kind.VALID}
    if not runs[0].in_place:  # the subject's own memory: what it holds there is its business
        held["beyond"] = "none"
    return {"answer": "ran", **held, "mutates": sorted({name for a in attempts for name in a.changed})}


def _held(runs: list[QuantRun], where: torch.Tensor) -> str:
    found = [run.scales[where] for run in runs]
    if not bool(where.any()):
        return "none"
    if all(not bool(scales.any()) for scales in found):
        return "zero"
    kept = all(bool((scales == run.fill).all()) for scales, run in zip(found, runs, strict=True))
    return "unwritten" if kept else "other"


def widths(prober: Prober) -> dict[str, Any]:
    """Return which widths K are accepted, and what the first other one answers."""
    attempts = {k: prober.attempt(prober.case(k=k, tokens_per_expert=(2, 1))) for k in WIDTHS}
    others = [(k, attempt) for k, attempt in attempts.items() if attempt.run is None]
    first = {"first_other": others[0][0], "text": others[0][1].text} if others else {}
    return {"accepted": [k for k, attempt in attempts.items() if attempt.run is not None], **first}


def experts(prober: Prober) -> dict[str, Any]:
    """Return the most experts that are accepted, and what one more answers; `MOST_EXPERTS` is the most tried."""
    return most_accepted(lambda count: prober.attempt(prober.case(tokens_per_expert=(1,) * count)))


def most_accepted(call: Callable[[int], Attempt]) -> dict[str, Any]:
    """Return the largest count that runs, found by doubling and halving."""
    attempt = call(MOST_EXPERTS)
    if attempt.answer == "ran":
        return {"most": MOST_EXPERTS, "refused_above": False}
    low, high, text = 0, MOST_EXPERTS, attempt
    while high - low > 1:
        middle = (low + high) // 2
        attempt = call(middle)
        if attempt.answer == "ran":
            low = middle
        else:
            high, text = middle, attempt
    return {"most": low, "refused_above": text.answer == "refused", "text": text.text}


def strided(prober: Prober) -> dict[str, Any]:
    """Return what rows that lie apart come to: the same bytes, a refusal, or other bytes."""
    dense = prober.attempt(prober.case())
    apart = prober.attempt(prober.case(row_gap=32))
    same = apart.same_as(dense)
    return {"answer": apart.answer, "text": apart.text, "same": same}


def alignment(prober: Prober) -> dict[str, Any]:
    """Return for each tensor what starts at exactly each alignment come to: same, refused, raised or other bytes."""
    names = ["input", "input_global_scale"]
    if "masked" in prober.operation:
        names.append("masked_m")
    else:
        names += ["input_offset_by_experts", "output_scale_offset_by_experts"]
    if not is_functional(prober.subject, prober.operation):
        names += ["output", "output_scale"]
    aligned = prober.attempt(prober.case())
    found: dict[str, dict[str, str]] = {}
    for name, bytes_ in product(names, ALIGNMENTS):
        case = replace(prober.case(), offset=bytes_, offset_all=False)
        attempt = prober.attempt(case, alignment={"default": 2 * ALIGNMENTS[0], name: bytes_})
        same = "same" if attempt.same_as(aligned) else "other bytes"
        found.setdefault(name, {})[str(bytes_)] = same if attempt.answer == "ran" else attempt.answer
    return {"tensors": found}


def repeated(prober: Prober) -> dict[str, Any]:
    """Return whether repeated calls over the same stale contents left the same bytes."""
    case = prober.case(tokens_per_expert=(33,) * 16, k=512)
    first, *others = (prober.attempt(case) for _ in range(REPETITIONS))
    return {"answer": first.answer, "same": all(other.same_as(first) for other in others)}


def graph(prober: Prober) -> dict[str, Any]:
    """Return whether the call can be captured in a CUDA graph and replayed with the same bytes."""
    base = prober.case(tokens_per_expert=(16, 3), unrouted_rows=0)
    try:
        judged = check_law(prober.subject, LawCase(law="graph", base=base), prober.arena)
    except Refused as refusal:
        return {"answer": "refused", "text": str(refusal)}
    except SubjectRaised as raised:
        return {"answer": "raised", "text": str(raised).strip().splitlines()[-1]}
    return {"answer": "ran", "same": not judged.faults, "text": "".join(f.text for f in judged.faults[:1])}


QUANT_PROBES: dict[str, Callable[[Prober], dict[str, Any]]] = {
    "padding": padding,
    "widths": widths,
    "experts": experts,
    "strided": strided,
    "alignment": alignment,
    "repeated": repeated,
    "recipe": recipe,
    "graph": graph,
}
"""Probes of a quantizer by name."""


def serve(subject: Subject, requests: BinaryIO, out: BinaryIO) -> None:
    """Answer probe after probe until the parent ends it."""
    try:
        arena = arena_for(subject.device)
        while True:
            request = hear(requests)
            name, seed = request["probe"], request["seed"]
            prober = Prober(subject, arena, seed=seed)
            if name in QUANT_PROBES:
                answer = QUANT_PROBES[name](prober)
            else:
                answer = routing_probes.ROUTING_PROBES[name](prober.subject, arena, seed)
            say(out, answer)
    except DeviceFault as fault:
        print(fault, file=sys.stderr, flush=True)
        os._exit(DEVICE_FAULT)  # nothing on the device works any more, clean-up neither
