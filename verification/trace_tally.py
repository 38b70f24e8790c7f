"""Totals of a group of passes, and the highest use that they make of each sizing formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nvfp4_moe.reference.padding import Formula
from nvfp4_moe.verification.trace_model import Step
from nvfp4_moe.verification.trace_report import FormulaUse, Group, Use
from nvfp4_moe.verification.trace_routing import Routed


class Tally:
    """Adds passes up into a `Group`; `finish` writes the formulas' use into it."""

    def __init__(self, group: Group, formulas: Sequence[Formula]) -> None:
        self.group = group
        self._uses = [_Running(formula) for formula in formulas]

    def add_pass(self, step: Step) -> None:
        """Count a pass, once for all ranks."""
        self.group.passes += 1
        self.group.tokens += step.tokens
        self.group.dropped += int((step.topk_ids < 0).sum())

    def add(self, routed: Routed) -> None:
        """Count a pass on one rank."""
        self.group.routed_rows += routed.routing.routed_rows
        self.group.padded_rows += routed.ends["packed"]
        for use in self._uses:
            use.add(routed)

    def finish(self, max_num_batched_tokens: int) -> None:
        """State the use of one buffer for `max_num_batched_tokens` as well."""
        self.group.formulas = [use.finish(max_num_batched_tokens) for use in self._uses]


@dataclass(slots=True)
class _Running:
    """The use of one formula so far."""

    formula: Formula
    judged: int = 0
    repeated: int = 0
    refused: int = 0
    overruns: int = 0
    own: Use | None = None
    furthest: dict[int, tuple[int, Routed]] = field(default_factory=dict)
    """By experts on the rank: the furthest end, and the pass that has it."""

    def add(self, routed: Routed) -> None:
        if self.formula.ids == "distinct" and routed.repeats:
            self.repeated += 1
            return
        sizing = routed.sizing(routed.place.tokens)
        if sizing.routed_rows > self.formula.guard_routed_rows(sizing):
            self.refused += 1
            return
        self.judged += 1
        use = Use(
            needed=routed.ends[self.formula.placement], rows=self.formula.rows(sizing), place=routed.place
        )
        self.overruns += use.needed > use.rows
        self.own = _higher(self.own, use)
        furthest = self.furthest.get(routed.num_experts)
        if furthest is None or use.needed > furthest[0]:
            self.furthest[routed.num_experts] = use.needed, routed

    def finish(self, tokens: int) -> FormulaUse:
        fixed = None
        for needed, routed in self.furthest.values():
            rows = self.formula.rows(routed.sizing(tokens))
            fixed = _higher(fixed, Use(needed=needed, rows=rows, place=routed.place))
        return FormulaUse(
            name=self.formula.name,
            judged=self.judged,
            repeated=self.repeated,
            refused=self.refused,
            overruns=self.overruns,
            own=self.own,
            fixed=fixed,
        )


def _higher(first: Use | None, second: Use) -> Use:
    """Return the use with the higher share; the first of two alike."""
    if first is None or second.needed * max(first.rows, 1) > first.needed * max(second.rows, 1):
        return second
    return first
