"""What came of the cases of one operation when two subjects were compared, and what it says of the claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nvfp4_moe.verification.compare import Difference, differences
from nvfp4_moe.verification.conformance.plan import ALL_PREFIXES, elements_of, prefix_of
from nvfp4_moe.verification.result import Finding, Outcome, Verdict
from nvfp4_moe.verification.subject_outputs import Answer, ComparedCase
from nvfp4_moe.verification.task_messages import Card

MOST_CRASHES = 4
"""Children of one side that may die in one operation before the rest of its cases is given up."""

Cards = tuple[Card, Card]

_OPERATIONS = {prefix: operation for operation, prefix in ALL_PREFIXES.items()}


def operation_of(case: ComparedCase) -> str:
    """Return the operation that a case calls."""
    return _OPERATIONS[prefix_of(case)]


@dataclass
class Tally:
    """Counts and differences of one operation."""

    cases: int = 0
    compared: int = 0
    refused: int = 0
    illegal: int = 0
    """Cases of which only one side refused, and may not."""
    given_up: int = 0
    differing: int = 0
    first_refusal: str = ""
    found: list[tuple[ComparedCase, Difference]] = field(default_factory=list)

    def count(self, case: ComparedCase, cards: Cards, answers: Sequence[Answer | None]) -> None:
        """Add a case with both answers; None: the side had given the operation up."""
        one, other = answers
        if one is None or other is None:
            self.given_up += 1
            return
        self.cases += 1
        different = [d for card, a in zip(cards, (one, other), strict=True) for d in _alone(card, a)]
        if one.refused is not None or other.refused is not None:
            self.refused += 1
            wrong = list(self._refusals(cards, (one, other)))
            self.illegal += bool(wrong)
            different += wrong
        elif one.turns and other.turns:
            self.compared += 1
            contracts = cards[0].contract, cards[1].contract
            in_place = not any(operation_of(case) in card.functional for card in cards)
            for first, second in zip(one.turns, other.turns, strict=True):
                in_turn = list(differences(case, contracts, first, second, in_place=in_place))
                different += in_turn
                if in_turn:
                    break
        self.differing += bool(different)
        self.found += [(case, difference) for difference in different]

    @property
    def mostly_refused(self) -> bool:
        """Whether what was compared says little of the domain, whatever `--fail-on` makes of refusals."""
        return self.illegal > self.compared

    def _refusals(self, cards: Cards, answers: tuple[Answer, Answer]) -> Iterator[Difference]:
        for card, answer, other in zip(cards, answers, reversed(answers), strict=True):
            if answer.refused is None:
                continue
            self.first_refusal = self.first_refusal or f"{card.name}: {answer.refused}"
            if other.refused is None and not answer.refusal_legal:
                text = f"{card.name} refused inside both domains: {answer.refused}"
                yield Difference(Finding.CONTRACT, text, {"side": card.name})

    def outcome(self, claim_id: str, cards: Cards, *, level: int) -> Outcome:
        """Return what the counts say of the claim."""
        remarks = self._remarks(cards)
        if self.found:
            case, worst = min(self.found, key=_order)
            said = f"{self.differing:,} of {self.cases:,} cases differ: {worst.text}"
            return Outcome(
                verdict=Verdict.REFUTED,
                cases=self.cases,
                detail="; ".join([said, *remarks]),
                witness=_witness(cards, level, case, worst),
                finding=worst.finding,
            )
        if not self.compared:
            reason = "; ".join([_why_nothing(claim_id, cards), *remarks])
            return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=reason)
        return Outcome(verdict=Verdict.HELD, cases=self.compared, detail="; ".join(remarks))

    def _remarks(self, cards: Cards) -> list[str]:
        said = []
        if self.refused:
            said.append(f"{self.refused} refused ({self.first_refusal})")
        if self.given_up:
            said.append(f"{self.given_up} given up after {MOST_CRASHES} crashes")
        for name in ("recipe", "arithmetic"):
            one, other = (getattr(card.contract, name) for card in cards)
            if one != other:
                said.append(f"the contracts differ in {name}: {one}, {other}")
        return said


def _alone(card: Card, answer: Answer) -> Iterator[Difference]:
    """Yield what happened to one side, whatever the other did."""
    where = {"side": card.name}
    if answer.died is not None:
        yield Difference(Finding.MEMORY, f"the process of {card.name} died: {answer.died}", where)
    if answer.raised is not None:
        yield Difference(Finding.BYTES, f"{card.name} raised {answer.raised}", where)
    for fault in answer.faults:
        yield Difference(Finding.MEMORY, f"{card.name}: {fault}", where)


def _why_nothing(claim_id: str, cards: Cards) -> str:
    operation = _OPERATIONS[claim_id.split(".")[0]]
    lacking = [card.name for card in cards if operation not in card.operations]
    if lacking:
        return f"{lacking[0]} has no {operation}"
    return "no case was accepted by both"


def _witness(cards: Cards, level: int, case: ComparedCase, worst: Difference) -> dict[str, Any]:
    return {
        "kind": "against",
        "subject": cards[0].name,
        "against": cards[1].name,
        "level": level,
        "case": case.to_json(),
        "finding": str(worst.finding),
        "text": worst.text,
        "where": worst.where,
    }


def _order(found: tuple[ComparedCase, Difference]) -> tuple[int, int]:
    """Worst class first, then the smallest case."""
    case, difference = found
    return list(Finding).index(difference.finding), elements_of(case)
