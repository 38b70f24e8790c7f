"""Take every pass of a router trace through the routing path, judge the bound and add up the padding.

Each pass (or each batch, where the trace is re-batched) is routed by `reference.routing.route`; the claims about its
offsets, permutations and regions are checked by the predicates of `predicates`, and the end of the last region that
holds a row is held against the bound and against every sizing formula.

A bound is judged with the tokens that its buffer would be sized for: `max_num_batched_tokens` where it is given (the
trace is then re-batched to it, so that no pass is larger), otherwise the tokens of the pass itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nvfp4_moe.reference.padding import FORMULAS, TILE, Formula, Sizing
from nvfp4_moe.verification.bound_witness import MOST_IDS, BoundWitness
from nvfp4_moe.verification.expressions import Bound, formula_bound
from nvfp4_moe.verification.result import Outcome, Verdict
from nvfp4_moe.verification.trace_model import Step, Trace
from nvfp4_moe.verification.trace_report import TraceReport
from nvfp4_moe.verification.trace_routing import (
    ROUTING_CLAIMS,
    Ranks,
    Routed,
    broken_claims,
    check_trace_sizes,
)
from nvfp4_moe.verification.trace_tally import Tally
from nvfp4_moe.verification.trace_witness import trace_witness
from nvfp4_moe.verification.traces import rebatch

BOUND_CLAIM = "padding.bound"


def check_trace(
    trace: Trace,
    *,
    bound: Bound | None = None,
    tile: int = TILE,
    max_num_batched_tokens: int | None = None,
    expert_parallel_size: int = 1,
    formulas: Sequence[Formula] | None = None,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[TraceReport, list[tuple[str, Outcome]]]:
    """Check a trace and report on it.

    Args:
        trace: from `open_trace`.
        bound: the bound of claim `padding.bound`; None: `proposed`.
        tile: rows of a scale tile.
        max_num_batched_tokens: re-batch to it and judge the bound for it; None: passes as recorded, judged for their
            own tokens.
        expert_parallel_size: ranks that the experts are dealt out to in runs; every rank of every pass is checked.
        formulas: formulas to report on; None: all.
        progress: told the routings done since its last call.
        should_stop: asked between passes; the outcomes then cover what was read.

    Returns:
        The report, and (claim id, outcome) for `padding.bound` and `ROUTING_CLAIMS`; `cases` counts routings.

    Raises:
        TraceError: the trace is faulty further inside.
        TypeError, ValueError: a size that is not legal.
    """
    check_trace_sizes(trace.meta.num_experts, tile=tile, expert_parallel_size=expert_parallel_size)
    ranks = Ranks(trace.meta.num_experts, expert_parallel_size)
    report = TraceReport(
        meta=trace.meta,
        tile=tile,
        expert_parallel_size=expert_parallel_size,
        rebatched=max_num_batched_tokens is not None,
    )
    check = _Check(report, bound or formula_bound(FORMULAS["proposed"]), max_num_batched_tokens)
    tallies = {
        profiling: Tally(group, list(FORMULAS.values() if formulas is None else formulas))
        for profiling, group in ((False, report.real), (True, report.profiling))
    }
    if trace.batched is not None and max_num_batched_tokens is not None:
        steps = trace.batched(max_num_batched_tokens)
    else:
        steps = _recorded(trace, report)
        if max_num_batched_tokens is not None:
            steps = rebatch(steps, max_num_batched_tokens=max_num_batched_tokens)
    layers: set[int] = set()
    largest = 0
    for step in steps:
        if should_stop is not None and should_stop():
            report.stopped = True
            break
        layers.add(step.layer)
        largest = max(largest, step.tokens)
        tallies[step.profiling].add_pass(step)
        for routed in ranks.of(step, tile):
            check.add(routed)
            tallies[step.profiling].add(routed)
        if progress is not None:
            progress(expert_parallel_size)
    report.layers = sorted(layers)
    report.max_num_batched_tokens = largest if max_num_batched_tokens is None else max_num_batched_tokens
    for tally in tallies.values():
        tally.finish(report.max_num_batched_tokens)
    return report, check.outcomes()


def _recorded(trace: Trace, report: TraceReport) -> Iterator[Step]:
    """Yield the passes as recorded and count the irregular ones, which re-batching would hide."""
    for step in trace:
        report.irregular += not step.contiguous
        yield step


# --- claims ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Check:
    """Judges the claims pass by pass; keeps the first witness of each that breaks."""

    report: TraceReport
    bound: Bound
    max_num_batched_tokens: int | None
    routings: int = 0
    judged: int = 0
    repeated: int = 0
    refused: int = 0
    overruns: int = 0
    overrun: tuple[int, Outcome] | None = None
    """Routed rows of the smallest overrun, and the outcome that shows it."""
    broken: dict[str, Outcome] = field(default_factory=dict)

    def add(self, routed: Routed) -> None:
        self.routings += 1
        if routed.repeats:
            self.report.repeated_tokens += routed.repeats
            self.report.first_repeat = self.report.first_repeat or routed.place
        for claim, predicates in broken_claims(routed).items():
            self.report.broken[claim] = self.report.broken.get(claim, 0) + 1
            if claim not in self.broken:
                self.broken[claim] = self._refuted(claim, predicates, routed)
        self._judge_bound(routed)

    def _refuted(self, claim: str, predicates: Sequence[str], routed: Routed) -> Outcome:
        return Outcome(
            verdict=Verdict.REFUTED,
            cases=0,
            detail=f"{', '.join(predicates)} broken in layer {routed.place.layer}, pass {routed.place.index}",
            witness=trace_witness(
                claim,
                predicates,
                routed.topk_ids,
                num_experts=routed.num_experts,
                tile=routed.tile,
                file=self.report.meta.path,
                place=routed.place,
            ),
        )

    def _judge_bound(self, routed: Routed) -> None:
        if self.bound.ids == "distinct" and routed.repeats:
            self.repeated += 1
            return
        own = max(routed.place.tokens, 1)
        sizing = routed.sizing(own if self.max_num_batched_tokens is None else self.max_num_batched_tokens)
        rows = self.bound.rows(sizing)
        if routed.place.tokens > self.bound.most_tokens(sizing, rows):
            self.refused += 1
            return
        self.judged += 1
        if routed.ends[self.bound.placement] <= rows:
            return
        self.overruns += 1
        if self.overrun is None or routed.routing.routed_rows < self.overrun[0]:
            self.overrun = routed.routing.routed_rows, self._overrun(routed, sizing, rows)

    def _overrun(self, routed: Routed, sizing: Sizing, rows: int) -> Outcome:
        witness = BoundWitness(
            bound=self.bound,
            relation="overrun",
            ids="any" if routed.repeats else "distinct",
            placement=self.bound.placement,
            sizing=sizing,
            tokens=routed.place.tokens,
            tokens_per_expert=routed.counts.tolist(),
            bound_rows=rows,
        )
        document = witness.to_json() | {
            "trace": {"file": str(self.report.meta.path), **routed.place.to_json()}
        }
        if routed.topk_ids.numel() <= MOST_IDS:
            document["topk_ids"] = routed.topk_ids.tolist()
        place = routed.place
        return Outcome(
            verdict=Verdict.REFUTED,
            cases=0,
            detail=f"{witness}; layer {place.layer}, pass {place.index}",
            witness=document,
        )

    def outcomes(self) -> list[tuple[str, Outcome]]:
        found = [(BOUND_CLAIM, self._bound_outcome())]
        for claim in ROUTING_CLAIMS:
            broken = self.broken.get(claim)
            if broken is None:
                outcome = Outcome(
                    verdict=Verdict.HELD if self.routings else Verdict.UNDECIDED,
                    cases=self.routings,
                    detail=self._detail(f"{self.routings:,} recorded routings"),
                )
            else:
                outcome = replace(broken, cases=self.routings)
            found.append((claim, outcome))
        return found

    def _bound_outcome(self) -> Outcome:
        left_out = "".join(
            f", {count:,} {why}"
            for count, why in (
                (self.repeated, "left out: a token names an expert twice"),
                (self.refused, "refused by its guard"),
            )
            if count
        )
        if self.overrun is not None:
            smallest = self.overrun[1]
            told = f"{self.overruns:,} of {self.judged:,} recorded routings overrun it; the smallest: {smallest.detail}"
            return replace(smallest, cases=self.judged, detail=self._detail(told))
        if not self.judged:
            stopped = self.report.stopped and not left_out
            return Outcome(
                verdict=Verdict.UNDECIDED if stopped else Verdict.SKIPPED,
                cases=0,
                detail=self._detail(f"no recorded routing that {self.bound.name} is meant for{left_out}"),
            )
        sized = (
            "for each pass"
            if self.max_num_batched_tokens is None
            else f"for {self.max_num_batched_tokens:,} tokens"
        )
        return Outcome(
            verdict=Verdict.HELD,
            cases=self.judged,
            detail=self._detail(
                f"{self.judged:,} recorded routings, {self.bound.name} sized {sized}{left_out}"
            ),
        )

    def _detail(self, text: str) -> str:
        return f"{text}; stopped before the end" if self.report.stopped else text
