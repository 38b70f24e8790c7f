"""Byte differences of two subjects over all cases: an old and a new build, or two engines. No golden model is asked.

Each subject is loaded in a child of its own and in no other process, so two builds that register the same operations
can be compared. Both run the same cases in the same order: those that both contracts have in their domain. A byte is
compared where either contract promises it, so a promise that the new build dropped shows. Rows in any order (neither
contract promises one) are compared as the set of tokens of each expert. A crash, a write outside the tensors and an
exception are told of the side that they happened on; a case that only one side refuses, where its contract does not
let it, is a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import lcm
from typing import TypeGuard

from nvfp4_moe.verification.against_tally import MOST_CRASHES, Tally
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.gemm_cases import GemmCase
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.plan import ALL_PREFIXES, Case, Plan, prefix_of
from nvfp4_moe.verification.conformance.routing_check import OPERATION as ROUTING
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable
from nvfp4_moe.verification.conformance.supervisor import Limits
from nvfp4_moe.verification.result import Finding, Method
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.subject_outputs import Answer, ComparedCase, hear_answer
from nvfp4_moe.verification.task_child import ChildEnded, TaskChild
from nvfp4_moe.verification.task_messages import Card

LIMITS = Limits()
"""Of time, as for conformance."""

Spec = str | Subject


def common_contract(one: Contract, other: Contract) -> Contract:
    """Return a contract whose domain is what both domains share; its promises say nothing.

    Raises:
        ValueError: the two have no dtype of ids in common.
    """
    limits = [contract.max_experts for contract in (one, other) if contract.max_experts is not None]
    both_skip = one.negative_ids == other.negative_ids == "skipped"
    return Contract(
        k_multiple=lcm(one.k_multiple, other.k_multiple),
        max_experts=min(limits, default=None),
        id_dtypes=tuple(dtype for dtype in one.id_dtypes if dtype in other.id_dtypes),
        negative_ids="skipped" if both_skip else "unsupported",
    )


def common_operations(one: Card, other: Card) -> list[str]:
    """Return the operations that both have and that share a domain."""
    shared = [op for op in ALL_PREFIXES if op in one.operations and op in other.operations]
    if not set(one.contract.id_dtypes) & set(other.contract.id_dtypes):
        shared = [op for op in shared if op != ROUTING]
    return shared


def common_cases(one: Card, other: Card, *, level: int, seed: int) -> list[ComparedCase]:
    """Return the cases that both subjects can be called with, operation by operation."""
    shared = common_operations(one, other)
    contracts = [card.contract for card in (one, other)]
    if ROUTING not in shared:  # the dtypes of ids limit nothing then
        contracts = [Contract(k_multiple=c.k_multiple, max_experts=c.max_experts) for c in contracts]
    plan = Plan(
        operations=tuple(shared),
        level=level,
        seed=seed,
        contract=common_contract(*contracts),
        laws=dict.fromkeys(shared, ()),  # they need no second subject
    )
    returned = {*one.functional, *other.functional}
    return [_callable(case, returned) for case in plan.cases if _is_compared(case)]


def _is_compared(case: Case) -> TypeGuard[ComparedCase]:
    """Results of a GEMM may differ within their bound: only those that no order of additions changes are compared."""
    if isinstance(case, GemmCase):
        return case.is_exact
    return isinstance(case, ComparedCase) and (not isinstance(case, LayerCase) or case.values == "exact")


def _callable(case: ComparedCase, returned: set[str]) -> ComparedCase:
    """Return the case without spare scale rows where an output is returned, whose size nothing can ask for."""
    if isinstance(case, QuantCase) and case.operation in returned:
        return replace(case, extra_scale_rows=0)
    return case


class Comparison:
    """Two subjects, each loaded in its child. Ends with `close`."""

    def __init__(self, subject: Spec, against: Spec, *, level: int, seed: int) -> None:
        """Load both.

        Args:
            subject, against: what `load_subject` takes, or Subjects with CPU tensors.
            level, seed: of the cases.

        Raises:
            SubjectError, SubjectUnavailable: see `load_subject`; a child that dies while it loads is unavailable.
        """
        self.level = level
        self._sides: list[_Side] = []
        try:
            for spec in (subject, against):  # both load at the same time
                self._sides.append(_Side(spec))
            one, other = (side.card() for side in self._sides)
        except ChildEnded as ended:
            self.close()
            raise SubjectUnavailable(f"its process died while it loaded: {ended}") from ended
        except BaseException:
            self.close()
            raise
        self.cards = one, other
        self.cases = common_cases(one, other, level=level, seed=seed)

    @property
    def name(self) -> str:
        """How results call the pair."""
        return f"{self.cards[0].name} against {self.cards[1].name}"

    @property
    def claims(self) -> list[tuple[str, Method]]:
        """(claim id, method) of every row: the operations that either has."""
        either = {op for card in self.cards for op in card.operations}
        return [
            (f"{prefix}.against", Method.CONFORMANCE) for op, prefix in ALL_PREFIXES.items() if op in either
        ]

    def rows(
        self, *, fail_on: Finding = Finding.CONTRACT, advance: Callable[[int], None] = lambda cases: None
    ) -> Iterator[Row]:
        """Run the cases and yield a row for each operation that either subject has; once.

        An operation that the second has and the first lacks was dropped: it is SKIPPED and required. One that the first has besides is SKIPPED and informs, unless they have none in common.

        Args:
            fail_on: the mildest class of difference that fails a run.
            advance: told of finished cases.

        Raises:
            TaskFault: the harness failed in a child.
        """
        tallies = {claim: Tally() for claim, _ in self.claims}
        for side in self._sides:
            side.begin(self.cases)
        for case in self.cases:
            tally = tallies[f"{prefix_of(case)}.against"]
            tally.count(case, self.cards, [side.answer() for side in self._sides])
            advance(1)
        self.close()
        shared = common_operations(*self.cards)
        added = [op for op in ALL_PREFIXES if op not in self.cards[1].operations] if shared else []
        informs = {f"{ALL_PREFIXES[op]}.against" for op in added}
        severity = list(Finding)
        for claim, tally in tallies.items():
            outcome = tally.outcome(claim, self.cards, level=self.level)
            fails = outcome.finding is None or severity.index(outcome.finding) <= severity.index(fail_on)
            yield Row(
                claim_id=claim,
                method=Method.CONFORMANCE,
                outcome=outcome,
                subject=self.name,
                required=(fails or tally.mostly_refused) and claim not in informs,
            )

    def close(self) -> None:
        """End the children."""
        for side in self._sides:
            side.close()


class _Side:
    """One subject's children, one after the other, which answer the cases in order."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._child: TaskChild | None = TaskChild(spec, "outputs")
        self._cases: Sequence[ComparedCase] = ()
        self._next = 0
        self._crashes: Counter[str] = Counter()
        self._called: set[str] = set()
        """Operations that the present child has called before: a first call may build kernels."""

    def card(self) -> Card:
        assert self._child is not None
        return self._child.card()

    def begin(self, cases: Sequence[ComparedCase]) -> None:
        """Send the cases off."""
        self._cases = cases
        self._send()

    def answer(self) -> Answer | None:
        """Return the answer for the next case; None: its operation was given up."""
        prefix = prefix_of(self._cases[self._next])
        if self._crashes[prefix] >= MOST_CRASHES:
            self._next += 1
            return None
        try:
            if self._child is None:  # the one before died: go on behind its case
                self._child = TaskChild(self._spec, "outputs")
                self._send()
            self._next += 1
            warm = prefix in self._called
            self._called.add(prefix)
            seconds = LIMITS.case_seconds if warm else LIMITS.first_case_seconds
            return hear_answer(self._child, seconds=seconds)
        except ChildEnded as ended:
            self.close()
            self._crashes[prefix] += 1
            return Answer(died=str(ended))

    def close(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _send(self) -> None:
        assert self._child is not None
        self._called.clear()
        left = [c for c in self._cases[self._next :] if self._crashes[prefix_of(c)] < MOST_CRASHES]
        self._child.tell({"cases": [case.to_json() for case in left]})
