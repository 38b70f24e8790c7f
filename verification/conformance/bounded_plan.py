"""Cases of the operations whose outputs are bounded rather than given to the byte: the grouped GEMM and the whole layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.conformance import gemm_cases, layer_cases
from nvfp4_moe.verification.conformance.call import Judgement
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.gemm_cases import GemmCase, GemmLawCase
from nvfp4_moe.verification.conformance.gemm_check import check_gemm, check_gemm_law
from nvfp4_moe.verification.conformance.gemm_refusal import GEMM_WRONGS, GemmRefusalCase, check_gemm_refusal
from nvfp4_moe.verification.conformance.layer_cases import LayerCase, LayerLawCase
from nvfp4_moe.verification.conformance.layer_check import check_layer, check_layer_law
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.subject import Subject

BOUNDED_PREFIXES = {gemm_cases.OPERATION: "gemm", layer_cases.OPERATION: "layer"}
"""First part of the claim ids of each operation."""

BoundedCase = GemmCase | GemmLawCase | GemmRefusalCase | LayerCase | LayerLawCase
_TILE_COLUMNS = 64
"""Elements of a row that a tile of scales spans."""
_LAYER_RECIPE = "vllm"
"""The recipe of the golden layer's quantizers."""


def bounded_cases(operation: str, contract: Contract, *, level: int, seed: int) -> Iterator[BoundedCase]:
    """Yield the cases of an operation that the contract leaves in the domain."""
    if operation == gemm_cases.OPERATION:
        yield from (
            case for case in gemm_cases.gemm_cases(level=level, seed=seed) if _in_domain(case, contract)
        )
        if contract.batch_invariant:
            for base in gemm_cases.law_bases(seed=seed):
                if _in_domain(base, contract):
                    yield from (GemmLawCase(law=law, base=base) for law in gemm_cases.LAWS)
        yield from (GemmRefusalCase(wrong=wrong) for wrong in GEMM_WRONGS)
    elif contract.recipe == _LAYER_RECIPE:
        cases = layer_cases.layer_cases(level=level, seed=seed)
        yield from (case for case in cases if layer_cases.in_domain(case, contract))
        if contract.batch_invariant:
            for layer in layer_cases.law_bases(seed=seed):
                if layer_cases.in_domain(layer, contract):
                    yield from (LayerLawCase(law=law, base=layer) for law in _layer_laws(contract))


def _layer_laws(contract: Contract) -> list[str]:
    """Ranks skip each other's experts by ids -1."""
    return [law for law in layer_cases.LAWS if law != "split" or contract.negative_ids == "skipped"]


def _in_domain(case: GemmCase, contract: Contract) -> bool:
    too_many = contract.max_experts is not None and len(case.tokens_per_expert) > contract.max_experts
    return not too_many and case.k % contract.k_multiple == 0


def bounded_aspect(case: BoundedCase) -> str:
    """Return the case's member of `plan.ASPECTS`."""
    if isinstance(case, GemmRefusalCase):
        return "refusal"
    return "laws" if isinstance(case, GemmLawCase | LayerLawCase) else "bytes"


def bounded_elements(case: BoundedCase) -> int:
    """Return a measure of the case's size."""
    if isinstance(case, GemmRefusalCase):
        return 0
    return case.base.elements if isinstance(case, GemmLawCase | LayerLawCase) else case.elements


def bounded_may_refuse(case: BoundedCase) -> bool:
    """Return whether a subject may refuse the case: sizes that are not whole scale tiles, if it says so."""
    inner = case.base if isinstance(case, GemmLawCase | LayerLawCase) else case
    if isinstance(inner, GemmCase):
        return inner.k % _TILE_COLUMNS != 0 or inner.n % TILE != 0
    return isinstance(inner, LayerCase) and (inner.k % TILE != 0 or inner.n % _TILE_COLUMNS != 0)


def run_bounded(subject: Subject, case: BoundedCase, arena: Arena) -> Judgement:
    """Run one case; see the `check_...` of its type."""
    match case:
        case GemmCase():
            return check_gemm(subject, case, arena)
        case GemmLawCase():
            return check_gemm_law(subject, case, arena)
        case GemmRefusalCase():
            return check_gemm_refusal(subject, case, arena)
        case LayerCase():
            return check_layer(subject, case, arena)
        case LayerLawCase():
            return check_layer_law(subject, case, arena)


def bounded_from_json(kind: str, fields: Mapping[str, Any]) -> BoundedCase | None:
    """Return the case that `to_json` gave, None for kinds of other operations.

    Raises:
        TypeError, KeyError: not such an object.
    """
    match kind:
        case "gemm":
            return _gemm(fields)
        case "gemm_law":
            return GemmLawCase(law=fields["law"], base=_gemm(fields["base"]))
        case "gemm_refusal":
            return GemmRefusalCase(**fields)
        case "layer":
            return LayerCase(**fields)
        case "layer_law":
            return LayerLawCase(law=fields["law"], base=LayerCase(**fields["base"]))
    return None


def _gemm(fields: Mapping[str, Any]) -> GemmCase:
    return GemmCase(**{**fields, "tokens_per_expert": tuple(fields["tokens_per_expert"])})
