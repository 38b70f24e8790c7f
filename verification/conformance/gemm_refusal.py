"""GEMM calls outside the domain: a legal call of which one tensor is made wrong must raise, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.call import TURNS, Call, Judgement, Refused, SubjectRaised
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.gemm_cases import OPERATION, GemmCase
from nvfp4_moe.verification.conformance.gemm_data import make_gemm
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.result import Finding

_BASE = GemmCase(
    index=0, seed=0, tokens_per_expert=(3, 0, 5), n=72, k=80, dtype="bf16", values="integers", alphas="one"
)
"""N % 128 != 0 and K % 64 != 0: buffers without padding differ from those with."""

GEMM_WRONGS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "out float32": ("out", lambda t: t.to(torch.float32)),
    "out too narrow": ("out", lambda t: t[:, :-8].clone()),
    "out rows too few": ("out", lambda t: t[:-1].clone()),
    "a int8": ("a", lambda t: t.view(torch.int8)),
    "a of another K": ("a", lambda t: t[:, :32].clone()),
    "b of two dimensions": ("b", lambda t: t[0].clone()),
    "K no multiple of 16": ("b", lambda t: t[:, :, :36].clone()),
    "N no multiple of 8": ("b", lambda t: t[:, :-4].clone()),
    "weight scales without padded rows": ("b_blockscale", lambda t: t[:, :72].clone()),
    "weight scales without padded columns": ("b_blockscale", lambda t: t[:, :, :5].clone()),
    "scales without padded columns": ("a_blockscale", lambda t: t[:, :5].clone()),
    "scales float16": ("a_blockscale", lambda t: t.to(torch.float16)),
    "alphas float64": ("alphas", lambda t: t.to(torch.float64)),
    "an alpha too few": ("alphas", lambda t: t[:-1].clone()),
    "problem sizes int64": ("problem_sizes", lambda t: t.to(torch.int64)),
    "sizes of two columns": ("problem_sizes", lambda t: t[:, :2].clone()),
    "expert offsets int64": ("expert_offsets", lambda t: t.to(torch.int64)),
    "an expert offset too many": ("expert_offsets", lambda t: torch.cat([t, t[-1:]])),
    "a scale offset too few": ("blockscale_offsets", lambda t: t[:-1].clone()),
}
"""What is wrong: the tensor and what becomes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRefusalCase:
    """A call with one thing wrong."""

    wrong: str
    """A key of `GEMM_WRONGS`."""
    operation: str = OPERATION

    def to_json(self) -> dict[str, Any]:
        return {"kind": "gemm_refusal", **asdict(self)}


def check_gemm_refusal(subject: Subject, case: GemmRefusalCase, arena: Arena) -> Judgement:
    """Make the call and return what is wrong with the answer.

    Raises:
        DeviceFault: the subject's work on the device failed.
    """
    inputs = make_gemm(_BASE)
    tensors = {
        "out": torch.zeros((inputs.form.packed_shape[0], inputs.n), dtype=torch.bfloat16),
        "a": inputs.a,
        "b": inputs.b,
        "a_blockscale": inputs.a_blockscale.view(torch.float8_e4m3fn),
        "b_blockscale": inputs.b_blockscale.view(torch.float8_e4m3fn),
        "alphas": inputs.alphas,
        "problem_sizes": inputs.problem_sizes,
        "expert_offsets": inputs.form.expert_offsets[:-1].clone(),
        "blockscale_offsets": inputs.form.blockscale_offsets[:-1].clone(),
    }
    name, change = GEMM_WRONGS[case.wrong]
    tensors[name] = change(tensors[name])
    with Call(subject, arena, TURNS[1]) as call:
        out = tensors.pop("out")
        given = [call.take("out", out.shape, out.dtype), *(call.give(*item) for item in tensors.items())]
        try:
            call.run(OPERATION, *given)
        except Refused:
            return Judgement(call.faults)
        except SubjectRaised as raised:
            return Judgement([*call.faults, _fault(case, f"raised {str(raised).strip().splitlines()[-1]}")])
        return Judgement([*call.faults, _fault(case, "ran and raised nothing")])


def _fault(case: GemmRefusalCase, what: str) -> Fault:
    text = f"outside its domain ({case.wrong}) it {what}; ValueError, TypeError, NotImplementedError or RuntimeError is due"
    return Fault(check="refusal", finding=Finding.CONTRACT, text=text, where={"wrong": case.wrong})
