"""Which cases a subject gets, in one order that parent and child agree on: case number n is a function of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase, quant_cases, routing_cases
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.quant_check import Judgement, check_quant
from nvfp4_moe.verification.conformance.routing_check import check_routing, in_domain
from nvfp4_moe.verification.conformance.subject import Subject

Case = QuantCase | RoutingCase

PREFIXES = {
    "scaled_fp4_experts_quant": "quant",
    "silu_and_mul_scaled_fp4_experts_quant": "silu_quant",
    "get_cutlass_moe_mm_data": "routing",
}
"""First part of the claim ids of each operation that is tested."""


@dataclass(frozen=True)
class Plan:
    """The cases of one subject."""

    operations: tuple[str, ...]
    level: int
    seed: int
    contract: Contract

    @cached_property
    def cases(self) -> list[Case]:
        """Every case, operation by operation."""
        found: list[Case] = []
        for operation in self.operations:
            if operation == "get_cutlass_moe_mm_data":
                routing = routing_cases(level=self.level, seed=self.seed, id_dtypes=self.contract.id_dtypes)
                found += [case for case in routing if in_domain(case, self.contract)]
            else:
                found += [
                    case
                    for case in quant_cases(operation, level=self.level, seed=self.seed)
                    if _quant_in_domain(case, self.contract)
                ]
        return found

    @classmethod
    def of(cls, subject: Subject, *, level: int, seed: int) -> Plan:
        """Return the plan for the operations that the subject has."""
        tested = tuple(op for op in PREFIXES if op in subject.operations)
        return cls(tested, level, seed, subject.contract)


def _quant_in_domain(case: QuantCase, contract: Contract) -> bool:
    too_many = contract.max_experts is not None and len(case.tokens_per_expert) > contract.max_experts
    return not too_many and case.k % contract.k_multiple == 0


def prefix_of(case: Case) -> str:
    """Return the first part of the claim ids that the case belongs to."""
    return "routing" if isinstance(case, RoutingCase) else PREFIXES[case.operation]


def run_case(subject: Subject, case: Case, arena: Arena) -> Judgement:
    """Run one case; see `check_quant` and `check_routing`."""
    if isinstance(case, RoutingCase):
        return check_routing(subject, case, arena)
    return check_quant(subject, case, arena)


def may_refuse(case: Case) -> bool:
    """Return whether a subject may refuse the case: pointers off their declared alignment."""
    return isinstance(case, QuantCase) and case.offset != 0


def case_from_json(entry: dict[str, Any]) -> Case:
    """Return the case that `to_json` gave.

    Raises:
        ValueError: not such an object.
    """
    fields = {key: value for key, value in entry.items() if key not in ("kind",)}
    try:
        if entry.get("kind") == "routing":
            fields.pop("operation", None)
            return RoutingCase(**fields)
        if entry.get("kind") == "quant":
            return QuantCase(**{**fields, "tokens_per_expert": tuple(fields["tokens_per_expert"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a case: {error}") from error
    raise ValueError(f"case kind must be quant or routing, got {entry.get('kind')!r}")
