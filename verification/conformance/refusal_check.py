"""Calls outside a subject's domain: it must raise one of `REFUSALS`; silent output is a finding.

Every case is a legal call of which one thing is made wrong. The call is made once, in guarded memory: what the subject
writes where it should have refused is still found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.conformance.call import TURNS, Call, Judgement, Refused, SubjectRaised
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.forms import Ragged
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.routing_check import OPERATION as ROUTING
from nvfp4_moe.verification.conformance.subject import Subject, is_functional
from nvfp4_moe.verification.result import Finding

_COUNTS = (3, 0, 5)
_TOKENS, _TOPK, _EXPERTS = 6, 2, 4
_K = 64

Spec = tuple[tuple[int, ...], torch.dtype]
"""Shape and dtype of a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalCase:
    """A call with one thing wrong."""

    operation: str
    wrong: str
    """What is wrong, a key of `QUANT_WRONGS` or `ROUTING_WRONGS`."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": "refusal", **asdict(self)}


def _quant_call(fused: bool, *, k: int = _K, experts: int | None = None) -> dict[str, Spec]:
    """Return the tensors of a legal ragged call, in the order of its arguments."""
    counts = _COUNTS if experts is None else (1,) * experts
    form = Ragged(counts, k)
    return {
        "output": (form.packed_shape, torch.uint8),
        "output_scale": (form.scale_shape, torch.int32),
        "input": ((form.routed_rows, k * (2 if fused else 1)), torch.bfloat16),
        "input_global_scale": ((len(counts),), torch.float32),
        "input_offset_by_experts": ((len(counts) + 1,), torch.int32),
        "output_scale_offset_by_experts": ((len(counts) + 1,), torch.int32),
    }


def _retyped(name: str, dtype: torch.dtype) -> Callable[[dict[str, Spec]], None]:
    def change(call: dict[str, Spec]) -> None:
        call[name] = (call[name][0], dtype)

    return change


def _longer(name: str, *, by: int, dimension: int = -1) -> Callable[[dict[str, Spec]], None]:
    def change(call: dict[str, Spec]) -> None:
        shape = list(call[name][0])
        shape[dimension] += by
        call[name] = (tuple(shape), call[name][1])

    return change


def _flat(name: str) -> Callable[[dict[str, Spec]], None]:
    def change(call: dict[str, Spec]) -> None:
        rows, columns = call[name][0]
        call[name] = ((rows * columns,), call[name][1])

    return change


QUANT_WRONGS: dict[str, Callable[[dict[str, Spec]], None]] = {
    "input float32": _retyped("input", torch.float32),
    "output int16": _retyped("output", torch.int16),
    "global scale float64": _retyped("input_global_scale", torch.float64),
    "expert offsets int64": _retyped("input_offset_by_experts", torch.int64),
    "scale offsets int64": _retyped("output_scale_offset_by_experts", torch.int64),
    "a global scale too many": _longer("input_global_scale", by=2),
    "one global scale for all": _longer("input_global_scale", by=1 - len(_COUNTS)),
    "expert offsets too short": _longer("input_offset_by_experts", by=-1),
    "scale offsets too short": _longer("output_scale_offset_by_experts", by=-1),
    "output too narrow": _longer("output", by=-8),
    "output rows too few": _longer("output", by=-1, dimension=0),
    "scales too narrow": _longer("output_scale", by=-1),
    "scale rows too few": _longer("output_scale", by=-TILE, dimension=0),
    "input of one dimension": _flat("input"),
}
"""What can be wrong with a ragged call; "k" and "experts" besides, which change every tensor."""

WRONG_IDS = {"an id E": _EXPERTS, "an id far above E": 1 << 20, "an id -2": -2}
"""Values, which a call of a library on the host checks; a kernel cannot refuse, for it they are outside the domain."""

_NEEDS_VALUES = ("scale rows too few",)
"""Ragged wrongs that only the contents of the offsets tell, which a kernel cannot see before it is launched."""

ROUTING_WRONGS = (
    *("ids float32", "ids int16", "ids int64", "ids uint32"),
    *("offsets too short", "sizes of two columns"),
)


def refusal_cases(operation: str, contract: Contract, *, device: str = "cpu") -> list[RefusalCase]:
    """Return the refusal cases of an operation; none for those whose domain the protocol leaves open."""
    if operation == ROUTING:
        wrongs = [wrong for wrong in ROUTING_WRONGS if wrong.removeprefix("ids ") not in contract.id_dtypes]
        wrongs += WRONG_IDS if device == "cpu" else ()
    elif operation in ("scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"):
        wrongs = ["k", *QUANT_WRONGS, *(["experts"] if contract.max_experts is not None else [])]
        if device != "cpu":
            wrongs = [wrong for wrong in wrongs if wrong not in _NEEDS_VALUES]
    else:
        return []
    return [RefusalCase(operation=operation, wrong=wrong) for wrong in wrongs]


def check_refusal(subject: Subject, case: RefusalCase, arena: Arena) -> Judgement:
    """Make the call and return what is wrong with the answer.

    Raises:
        DeviceFault: the subject's work on the device failed.
    """
    with Call(subject, arena, TURNS[1]) as call:
        try:
            if case.operation == ROUTING:
                _call_routing(call, case)
            else:
                _call_quant(call, case, subject)
        except Refused:
            return Judgement(call.faults)
        except SubjectRaised as raised:
            return Judgement([*call.faults, _fault(case, f"raised {str(raised).strip().splitlines()[-1]}")])
        return Judgement([*call.faults, _fault(case, "ran and raised nothing")])


def _fault(case: RefusalCase, what: str) -> Fault:
    text = f"outside its domain ({case.wrong}) it {what}; ValueError, TypeError, NotImplementedError or RuntimeError is due"
    return Fault(check="refusal", finding=Finding.CONTRACT, text=text, where={"wrong": case.wrong})


def _call_quant(call: Call, case: RefusalCase, subject: Subject) -> None:
    contract, fused = subject.contract, case.operation.startswith("silu")
    tensors = _quant_call(fused)
    if case.wrong == "k":  # half a step of the declared multiple: 24, or 16 mod 32, ...
        step = contract.k_multiple
        tensors = _quant_call(fused, k=3 * step // 2 if step == 16 else step + step // 2)
    elif case.wrong == "experts":
        assert contract.max_experts is not None
        tensors = _quant_call(fused, experts=contract.max_experts + 1)
    else:
        QUANT_WRONGS[case.wrong](tensors)
    given = {name: _filled(call, name, *spec) for name, spec in tensors.items()}
    if is_functional(subject, case.operation):
        del given["output"], given["output_scale"]
    call.run(case.operation, *given.values())


def _filled(call: Call, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of a call: legal contents as far as the shape lets them be."""
    if name in ("output", "output_scale"):
        return call.take(name, shape, dtype)
    if not name.endswith("_by_experts"):
        return call.give(name, torch.ones(shape).to(dtype))
    counts = (
        torch.tensor(_COUNTS) if shape[0] <= len(_COUNTS) + 1 else torch.ones(shape[0] - 1, dtype=torch.int64)
    )
    if name.startswith("output_scale"):
        counts = (counts + 127) // 128 * 128
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    return call.give(name, offsets[: shape[0]].to(dtype))


_ID_DTYPES = {
    "ids float32": torch.float32,
    "ids int16": torch.int16,
    "ids int64": torch.int64,
    "ids uint32": torch.uint32,
}


def _call_routing(call: Call, case: RefusalCase) -> None:
    slots, short = _TOKENS * _TOPK, 1 if case.wrong == "offsets too short" else 0
    dtype = _ID_DTYPES.get(case.wrong, torch.int32)
    columns = 2 if case.wrong == "sizes of two columns" else 3
    ids = (torch.arange(slots) % _EXPERTS).to(dtype)
    ids[slots // 2] = WRONG_IDS.get(case.wrong, 0)
    ids = ids.view(_TOKENS, _TOPK)
    call.run(
        ROUTING,
        call.give("topk_ids", ids),
        call.take_index("expert_offsets", (_EXPERTS + 1 - short,)),
        call.take_index("problem_sizes1", (_EXPERTS, columns)),
        call.take_index("problem_sizes2", (_EXPERTS, columns)),
        call.take_index("input_permutation", (slots,)),
        call.take_index("output_permutation", (slots,)),
        _EXPERTS,
        512,
        1024,
        call.take_index("blockscale_offsets", (_EXPERTS + 1 - short,)),
        True,
    )
