"""Which cases a subject gets, in one order that parent and child agree on: case number n is a function of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

from nvfp4_moe.verification.conformance.bounded_plan import (
    BOUNDED_PREFIXES,
    BoundedCase,
    bounded_aspect,
    bounded_cases,
    bounded_elements,
    bounded_from_json,
    bounded_may_refuse,
    run_bounded,
)
from nvfp4_moe.verification.conformance.call import Judgement
from nvfp4_moe.verification.conformance.cases import (
    QuantCase,
    RoutingCase,
    law_bases,
    masked_cases,
    quant_cases,
    routing_cases,
)
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.laws_check import LawCase, check_law, laws_of
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.quant_check import check_quant
from nvfp4_moe.verification.conformance.refusal_check import RefusalCase, check_refusal, refusal_cases
from nvfp4_moe.verification.conformance.routing_check import OPERATION as ROUTING
from nvfp4_moe.verification.conformance.routing_check import check_routing, in_domain
from nvfp4_moe.verification.conformance.rows_check import RowsCase, check_rows, rows_cases
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.task_messages import Card

Case = QuantCase | RoutingCase | LawCase | RefusalCase | RowsCase | BoundedCase

PREFIXES = {
    "scaled_fp4_experts_quant": "quant",
    "silu_and_mul_scaled_fp4_experts_quant": "silu_quant",
    "scaled_fp4_masked_quant": "masked_quant",
    "silu_and_mul_scaled_fp4_masked_quant": "silu_masked_quant",
    ROUTING: "routing",
    "shuffle_rows": "shuffle",
    "swizzle": "swizzle",
}
"""First part of the claim ids of each operation whose outputs are given to the byte."""

ALL_PREFIXES = PREFIXES | BOUNDED_PREFIXES
"""The same of every operation."""

ASPECTS = ("bytes", "laws", "refusal")
"""Kinds of cases: those judged byte by byte, laws, calls outside the domain."""

_ASPECT_OF = {
    "laws": ("quant", "silu_quant", "gemm", "layer"),
    "refusal": ("quant", "silu_quant", "routing", "gemm"),
}
"""Prefixes of the operations that have such cases; every one has those of bytes."""

_NO_POISON = ("routing", "shuffle", "swizzle")
"""Operations whose bytes are judged in every run, with nothing that documented errors could excuse."""


def checks_of(prefix: str, aspect: str) -> tuple[str, ...]:
    """Return the last parts of the claim ids that cases of an aspect tell."""
    if aspect != "bytes":
        return (aspect,)
    return ("golden", "coverage", "guard", *(() if prefix in _NO_POISON else ("poison",)))


def claims_of(operation: str) -> list[str]:
    """Return the claim ids of an operation, those included that a contract leaves without a case."""
    prefix = ALL_PREFIXES[operation]
    aspects = [aspect for aspect in ASPECTS if aspect == "bytes" or prefix in _ASPECT_OF[aspect]]
    return [f"{prefix}.{check}" for aspect in aspects for check in checks_of(prefix, aspect)]


@dataclass(frozen=True)
class Plan:
    """The cases of one subject."""

    operations: tuple[str, ...]
    """Those that are tested."""
    level: int
    seed: int
    contract: Contract
    laws: Mapping[str, tuple[str, ...]]
    """Laws that are tried on each operation."""
    device: str = "cpu"
    """Of the subject: "cpu" or "cuda"."""

    @cached_property
    def cases(self) -> list[Case]:
        """Every case, operation by operation."""
        return [case for operation in self.operations for case in self._cases_of(operation)]

    def _cases_of(self, operation: str) -> Iterator[Case]:
        level, seed, contract = self.level, self.seed, self.contract
        if operation in BOUNDED_PREFIXES:
            yield from bounded_cases(operation, contract, level=level, seed=seed)
            return
        if operation == ROUTING:
            for routing in routing_cases(level=level, seed=seed, id_dtypes=contract.id_dtypes):
                if in_domain(routing, contract):
                    yield routing
        elif PREFIXES[operation] in ("shuffle", "swizzle"):
            yield from rows_cases(operation, seed=seed)
        else:
            masked = "masked" in operation
            made = (
                masked_cases(operation, seed=seed)
                if masked
                else quant_cases(operation, level=level, seed=seed)
            )
            for case in made:
                if _quant_in_domain(case, contract):
                    yield case
            for base in () if masked else law_bases(operation, seed=seed):
                if _quant_in_domain(base, contract):
                    yield from (LawCase(law=law, base=base) for law in self.laws[operation])
        yield from refusal_cases(operation, contract, device=self.device)

    @classmethod
    def of(cls, subject: Subject | Card, *, level: int, seed: int) -> Plan:
        """Return the plan for the operations that the subject has."""
        card = Card.of(subject) if isinstance(subject, Subject) else subject
        tested = tuple(op for op in ALL_PREFIXES if op in card.operations)
        laws = {op: laws_of(card.device, in_place=op not in card.functional) for op in tested}
        return cls(tested, level, seed, card.contract, laws, card.device)

    def claims(self) -> list[str]:
        """Return every claim id of the subject's operations: one without a case is SKIPPED, it does not vanish."""
        return [claim for operation in self.operations for claim in claims_of(operation)]


def _quant_in_domain(case: QuantCase, contract: Contract) -> bool:
    too_many = contract.max_experts is not None and len(case.tokens_per_expert) > contract.max_experts
    return not too_many and case.k % contract.k_multiple == 0


def fingerprint(case: Case) -> int:
    """Return a number that tells a case from others: parent and child must mean the same one by a case number."""
    return crc32(repr(case).encode())


def prefix_of(case: Case) -> str:
    """Return the first part of the claim ids that the case belongs to."""
    return ALL_PREFIXES[ROUTING if isinstance(case, RoutingCase) else case.operation]


def aspect_of(case: Case) -> str:
    """Return the case's member of `ASPECTS`."""
    if isinstance(case, BoundedCase):
        return bounded_aspect(case)
    if isinstance(case, LawCase):
        return "laws"
    return "refusal" if isinstance(case, RefusalCase) else "bytes"


def elements_of(case: Case) -> int:
    """Return a measure of a case's size, to name the smallest of several failing ones."""
    if isinstance(case, BoundedCase):
        return bounded_elements(case)
    if isinstance(case, RoutingCase):
        return case.tokens * case.topk + case.num_experts
    if isinstance(case, LawCase):
        return case.base.elements
    return 0 if isinstance(case, RefusalCase) else case.elements


def run_case(subject: Subject, case: Case, arena: Arena) -> Judgement:
    """Run one case; see the `check_...` of its type."""
    if isinstance(case, BoundedCase):
        return run_bounded(subject, case, arena)
    if isinstance(case, RoutingCase):
        return check_routing(subject, case, arena)
    if isinstance(case, LawCase):
        return check_law(subject, case, arena)
    if isinstance(case, RefusalCase):
        return check_refusal(subject, case, arena)
    if isinstance(case, RowsCase):
        return check_rows(subject, case, arena)
    return check_quant(subject, case, arena)


_QUANT_TENSORS = (
    *("output", "output_scale", "input", "input_global_scale"),
    *("input_offset_by_experts", "output_scale_offset_by_experts", "masked_m"),
)


def may_refuse(case: Case, contract: Contract) -> bool:
    """Return whether a subject may refuse the case: pointers off their declared alignment, rows that lie apart, or being
    captured in a graph."""
    if isinstance(case, BoundedCase):
        return bounded_may_refuse(case)
    if isinstance(case, LawCase):
        return case.law == "graph"
    if isinstance(case, RoutingCase):
        return case.id_gap != 0
    if isinstance(case, RowsCase):
        return case.row_gap != 0 or case.map_gap != 0
    if not isinstance(case, QuantCase):
        return False
    off = case.offset_all and any(case.offset % contract.alignment_of(name) for name in _QUANT_TENSORS)
    apart = case.row_gap != 0 and (contract.strided == "refused" or case.masked)
    return off or apart or case.view != ""


def case_from_json(entry: dict[str, Any]) -> Case:
    """Return the case that `to_json` gave.

    Raises:
        ValueError: not such an object.
    """
    fields = {key: value for key, value in entry.items() if key != "kind"}
    try:
        bounded = bounded_from_json(str(entry.get("kind")), fields)
        if bounded is not None:
            return bounded
        match entry.get("kind"):
            case "routing":
                del fields["operation"]
                return RoutingCase(**fields)
            case "quant":
                return _quant_case(fields)
            case "law":
                return LawCase(law=fields["law"], base=_quant_case(fields["base"]))
            case "refusal":
                return RefusalCase(**fields)
            case "rows":
                return RowsCase(**fields)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a case: {error}") from error
    kinds = "quant, routing, law, refusal, rows, gemm, gemm_law, gemm_refusal, layer or layer_law"
    raise ValueError(f"the kind of a case must be {kinds}, got {entry.get('kind')!r:.60}")


def _quant_case(fields: dict[str, Any]) -> QuantCase:
    return QuantCase(**{**fields, "tokens_per_expert": tuple(fields["tokens_per_expert"])})
