"""The claims: stable ids, what each states, and whether a run fails when it is refuted.

Ids are part of the public contract of `nvfp4-moe verify --json`; a claim is never renamed. The ledger in
`paper_notes.md` lists the same ids with sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """Part of the table: the reader's own subjects first, then the formula, then our implementations."""

    SUBJECTS = "subjects"
    FORMULA = "formula"
    OWN = "own implementations"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of the toolkit."""

    id: str
    statement: str
    part: Part
    required: bool = True


def _formula(claim_id: str, statement: str, *, required: bool = True) -> Claim:
    return Claim(claim_id, statement, Part.FORMULA, required)


def _own(claim_id: str, statement: str) -> Claim:
    return Claim(claim_id, statement, Part.OWN)


def _kernel(prefix: str, what: str) -> tuple[Claim, ...]:
    return (
        _own(f"{prefix}.golden", f"{what}: every promised byte equals the golden model's"),
        _own(f"{prefix}.coverage", f"{what}: every promised byte is written"),
        _own(f"{prefix}.guard", f"{what}: nothing outside the promised bytes is read or written"),
        _own(f"{prefix}.poison", f"{what}: no promised byte depends on bytes that must not matter"),
    )


def _moves(prefix: str, what: str) -> tuple[Claim, ...]:
    return _kernel(prefix, what)[:3]  # no arithmetic: what depends on other bytes is wrong somewhere


def _refusal(prefix: str, what: str) -> Claim:
    return _own(f"{prefix}.refusal", f"{what}: a call outside the domain is refused")


def _laws(prefix: str, what: str) -> Claim:
    return _own(
        f"{prefix}.laws", f"{what}: the bytes follow the order of rows and experts, alone, together and again"
    )


def _against(prefix: str, what: str) -> Claim:
    return _own(
        f"{prefix}.against", f"{what}: two subjects give the same bytes wherever either promises them"
    )


_ALL = (
    _formula("padding.bound", "no routing makes the GEMM read more scale rows than the bound"),
    _formula(
        "padding.bound.written", "the written bound covers every routing, for all sizes that are not stated"
    ),
    _formula("padding.attained", "some routing uses every row of the bound", required=False),
    _formula("padding.disjoint", "the scale regions of two experts never overlap"),
    _formula("padding.coverage", "every routed row lies inside its expert's region"),
    _formula("padding.monotone", "the exact worst case never falls as rows or experts are added"),
    _formula(
        "padding.placement",
        "each placement rule starts every expert on a tile and ends inside its formula's rows",
    ),
    _formula("swizzle.injective", "two scales never share a byte of a swizzled layout"),
    _formula("swizzle.in_bounds", "every scale lies inside the padded buffer of its layout"),
    _formula("index.no_wrap", "32-bit index arithmetic cannot wrap below the stated number of tiles"),
    _formula("index.no_wrap.quantize", "no part of an index expression of the quantizers leaves its type"),
    _formula("index.no_wrap.launch", "no part of a launch's geometry leaves its type or the grid's limits"),
    _formula("index.no_wrap.routing", "no part of an index expression of the routing leaves its type"),
    _formula(
        "index.no_wrap.moves", "no part of an index expression of gather and un-permute leaves its type"
    ),
    _formula("index.no_wrap.layout", "no part of an index expression of the scale layouts leaves its type"),
    _formula("index.no_wrap.gemm", "no part of an index expression of the grouped GEMM leaves its type"),
    _own("routing.counts", "tokens_per_expert counts each id once and skips -1"),
    _own("routing.offsets", "offsets are the prefix sums of the rows and of the rows rounded up to the tile"),
    _own(
        "routing.permutation",
        "the permutation is a stable bijection on the routed slots, with the stated tail",
    ),
    _own("routing.golden", "every entry of the routing metadata equals the golden model's"),
    _own("routing.coverage", "every promised entry of the routing metadata is written"),
    _own("routing.guard", "the routing metadata touches nothing but its outputs"),
    _refusal("routing", "routing metadata"),
    _against("routing", "routing metadata"),
    _own("cast.e2m1", "E2M1 codes equal the second oracle's on every 16-bit input and every tie"),
    _own("cast.ue4m3", "scale bytes equal the second oracle's on every byte, midpoint and 16-bit input"),
    *_kernel("quant", "experts quantization"),
    _laws("quant", "experts quantization"),
    _refusal("quant", "experts quantization"),
    _against("quant", "experts quantization"),
    *_kernel("silu_quant", "fused SiLU and experts quantization"),
    _laws("silu_quant", "fused SiLU and experts quantization"),
    _refusal("silu_quant", "fused SiLU and experts quantization"),
    _against("silu_quant", "fused SiLU and experts quantization"),
    *_kernel("masked_quant", "masked experts quantization"),
    _against("masked_quant", "masked experts quantization"),
    *_kernel("silu_masked_quant", "fused SiLU and masked experts quantization"),
    _against("silu_masked_quant", "fused SiLU and masked experts quantization"),
    *_moves("shuffle", "gather of rows"),
    _against("shuffle", "gather of rows"),
    *_moves("swizzle", "scale layout"),
    _against("swizzle", "scale layout"),
    _own("gemm.golden", "grouped GEMM: exact cases to the byte, others inside the derived error bound"),
    *_kernel("gemm", "grouped GEMM over NVFP4")[1:],
    _own(
        "gemm.laws",
        "grouped GEMM: a row's outputs are the same in every order, alone, in every batch and again",
    ),
    _refusal("gemm", "grouped GEMM over NVFP4"),
    _against("gemm", "grouped GEMM over NVFP4"),
    _own(
        "layer.golden",
        "MoE layer: exact cases to the byte, others inside the interval carried through every step",
    ),
    *_kernel("layer", "MoE layer")[1:],
    _own(
        "layer.laws",
        "MoE layer: a token's output is the same in every batch; ranks that share experts sum to one",
    ),
    _against("layer", "MoE layer"),
    _own("operators.schema", "torch operators: schemas mark what is changed or returned as a view, no more"),
    _own("operators.fake", "torch operators: fake kernels give shape, strides and type of the real outputs"),
    _own("quant.layout", "scale layouts place every byte where the second oracle does, padding is zero"),
)

CLAIMS: dict[str, Claim] = {claim.id: claim for claim in _ALL}
"""Every claim by its id, in the order of the table."""
