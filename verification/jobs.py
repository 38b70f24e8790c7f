"""The jobs of a run: which checks the settings ask for, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import torch

from nvfp4_moe.verification.bounds import GRID, check_attained, check_values, find_counterexample
from nvfp4_moe.verification.campaign_job import campaign_job
from nvfp4_moe.verification.climb import EXPERTS as CLIMB_EXPERTS
from nvfp4_moe.verification.climb import climb_bounds
from nvfp4_moe.verification.exhaustive import PADDING_CLAIMS, exhaust_padding, exhaust_routing
from nvfp4_moe.verification.expressions import Bound, parse_bound
from nvfp4_moe.verification.families import EXPERTS
from nvfp4_moe.verification.fuzz import COUNTS_CLAIMS, IDS_LEVEL_CLAIMS, fuzz_counts, fuzz_ids
from nvfp4_moe.verification.fuzz_plan import Form, Sizes, batches
from nvfp4_moe.verification.golden import CHECKS as GOLDEN_CHECKS
from nvfp4_moe.verification.golden import check_reference
from nvfp4_moe.verification.job import Advance, Job
from nvfp4_moe.verification.operators import CLAIMS as OPERATOR_CLAIMS
from nvfp4_moe.verification.operators import check_own_operators
from nvfp4_moe.verification.proof_job import CLAIMS as PROOF_CLAIMS
from nvfp4_moe.verification.proof_job import ProofProcess
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.routing_check import ROUTING_CLAIMS as INVARIANT_CLAIMS
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings
from nvfp4_moe.verification.subject_jobs import against_job, subject_job
from nvfp4_moe.verification.subject_names import tell_apart
from nvfp4_moe.verification.trace_check import check_trace
from nvfp4_moe.verification.trace_model import Trace
from nvfp4_moe.verification.trace_report import report_lines
from nvfp4_moe.verification.trace_routing import ROUTING_CLAIMS, check_trace_sizes
from nvfp4_moe.verification.traces import open_trace

Fuzz = Callable[..., list[tuple[str, Outcome]]]

GOLDEN_STATEMENTS = {
    "quant.golden": "packed codes and scale bytes equal the second oracle's",
    "routing.golden": "routing metadata equals the second oracle's, entry for entry",
}
"""What the check of the golden model itself says of claims that are otherwise about kernels."""


def resolve_device(device: str) -> str:
    """Return "cpu" or "cuda" for a device setting; "auto" takes a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def jobs_for(settings: Settings) -> list[Job]:
    """Return the jobs of `settings` in the order in which they run.

    Raises:
        ValueError, OSError: a bound that does not parse or has no value for the sizes, a trace that cannot be read, a
            campaign of sizes that are too large to build routings of.
    """
    bound = parse_bound(settings.bound)
    if settings.against is not None:
        return subject_jobs(settings)
    return [
        *subject_jobs(settings),
        _bound_job(settings, bound),
        _exhaustive_job(bound),
        *_fuzz_jobs(settings, bound),
        _golden_job(settings),
        *([] if settings.subjects else [_operators_job(settings)]),
        *(_trace_job(settings, bound, number) for number in range(len(settings.traces))),
        _proof_job(settings),
        *([campaign_job(settings, bound, _fuzz_sizes(settings))] if _has_campaign(settings) else []),
    ]


# --- the formula -------------------------------------------------------------------------------------------


def _proof_job(settings: Settings) -> Job:
    process = ProofProcess(settings.level)
    return Job(
        name="proofs (z3 and cvc5)",
        tells=[(claim, Method.PROOF) for claim in PROOF_CLAIMS],
        work=process.rows,
        on_begin=process.start,
        on_cancel=process.cancel,
    )


def _bound_job(settings: Settings, bound: Bound) -> Job:
    grid = GRID.with_sizes(
        max_num_batched_tokens=settings.max_num_batched_tokens, topk=settings.topk, experts=settings.experts
    )

    ranks, tile = settings.expert_parallel_size, settings.tile
    check_values(bound, grid, tile=tile, expert_parallel_size=ranks)

    def work(advance: Advance) -> Iterator[Row]:
        found = find_counterexample(bound, grid, tile=tile, expert_parallel_size=ranks, progress=advance)
        yield Row(claim_id="padding.bound", method=Method.SEARCH, outcome=found)
        attained = check_attained(
            bound, grid, tile=tile, expert_parallel_size=ranks, tight=settings.tight, progress=advance
        )
        # Only this method can tell that a bound is loose somewhere: the others look for one routing that fills it.
        yield Row(
            claim_id="padding.attained", method=Method.SEARCH, outcome=attained, required=settings.tight
        )
        yield from _climb(settings, bound, job.notes, advance)
        yield from _written_bound_proof(settings, bound)

    job = Job(
        name="smallest counterexample and climb",
        tells=[("padding.bound", Method.SEARCH), ("padding.attained", Method.SEARCH)],
        work=work,
    )
    return job


def _climb(settings: Settings, bound: Bound, notes: list[str], advance: Advance) -> Iterator[Row]:
    """Climb where the sizes allow it; where they do not, a note says so and the exact search stands alone."""
    experts = CLIMB_EXPERTS if settings.num_experts is None else (settings.num_experts,)
    found = climb_bounds(
        [bound], advance, lambda: False, seed=settings.seed, tile=settings.tile, experts=experts
    )
    if any(outcome.verdict is Verdict.SKIPPED for _, outcome in found):
        notes.append(f"climb left out, beside the exact search: {found[0][1].detail}")
        return
    for claim_id, outcome in found:
        yield Row(claim_id=claim_id, method=Method.SEARCH, outcome=outcome)


def _written_bound_proof(settings: Settings, bound: Bound) -> Iterator[Row]:
    """Prove an expression for all sizes that are not stated; where all are, the search looks at every call.

    Provers that cannot tell leave it to the search, which looks at a grid alone: the row says so and is not required.
    Missing provers and a guard that lets nothing through have rows of their own (the theorems', the search's).
    """
    sizes = {
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "topk": settings.topk,
        "num_experts": settings.num_experts,
    }
    stated = {name: size for name, size in sizes.items() if size is not None}
    if bound.expression is None or len(stated) == len(sizes):
        return
    from nvfp4_moe.verification.proofs.expression import prove_expression

    outcome = prove_expression(bound.expression, tile=settings.tile, stated=stated)
    if outcome.verdict is not Verdict.SKIPPED:
        told = outcome.verdict is not Verdict.UNDECIDED
        yield Row(claim_id="padding.bound.written", method=Method.PROOF, outcome=outcome, required=told)


def _exhaustive_job(bound: Bound) -> Job:
    def work(advance: Advance) -> Iterator[Row]:
        for claim_id, outcome in (
            *exhaust_padding([bound], advance, lambda: False),
            *exhaust_routing(advance, lambda: False),
        ):
            yield Row(claim_id=claim_id, method=Method.EXHAUSTIVE, outcome=outcome)

    claims = (*PADDING_CLAIMS, *INVARIANT_CLAIMS)
    return Job(name="every small routing", tells=[(c, Method.EXHAUSTIVE) for c in claims], work=work)


def _fuzz_sizes(settings: Settings) -> Sizes:
    experts = EXPERTS if settings.num_experts is None else (settings.num_experts,)
    return Sizes(experts=experts, topk=settings.topk, tile=settings.tile)


_WORKERS = min(2, len(os.sched_getaffinity(0)))
"""Threads of the fuzz; more than two gain little, and the proofs run beside it."""


def _fuzz_jobs(settings: Settings, bound: Bound) -> list[Job]:
    sizes, level, seed = _fuzz_sizes(settings), settings.level, settings.seed

    def job(name: str, form: Form, claims: Sequence[str], fuzz: Fuzz) -> Job:
        def work(advance: Advance) -> Iterator[Row]:
            for claim_id, outcome in fuzz(
                level, seed, [bound], advance, lambda: False, sizes=sizes, workers=_WORKERS
            ):
                yield Row(claim_id=claim_id, method=Method.FUZZ, outcome=outcome)

        planned = sum(batch.cases for batch in batches(seed, level, form=form, sizes=sizes))
        return Job(name=name, tells=[(claim, Method.FUZZ) for claim in claims], work=work, cases=planned)

    return [
        job("fuzz of counts", Form.COUNTS, COUNTS_CLAIMS, fuzz_counts),
        job("fuzz of ids", Form.IDS, IDS_LEVEL_CLAIMS, fuzz_ids),
    ]


def _has_campaign(settings: Settings) -> bool:
    return settings.budget is not None or settings.resume is not None


# --- the golden model --------------------------------------------------------------------------------------


def _golden_job(settings: Settings) -> Job:
    def work(advance: Advance) -> Iterator[Row]:
        level = min(settings.level, 2)
        for claim_id, outcome in check_reference(level=level, seed=settings.seed, progress=advance):
            yield Row(
                claim_id=claim_id,
                method=Method.CONFORMANCE,
                outcome=outcome,
                subject="reference",
                statement=GOLDEN_STATEMENTS.get(claim_id),
            )

    return Job(
        name="golden model against the second oracle",
        tells=[(claim, Method.CONFORMANCE) for claim in GOLDEN_CHECKS],
        work=work,
        subject="reference",
    )


def _operators_job(settings: Settings) -> Job:
    device = resolve_device(settings.device)
    library = "cuda" if device == "cuda" else "host"

    def work(advance: Advance) -> Iterator[Row]:
        found = check_own_operators(seed=settings.seed, device=device, progress=advance)
        for claim_id, outcome in found.items():
            there = outcome.verdict is not Verdict.SKIPPED
            yield Row(
                claim_id=claim_id,
                method=Method.CONFORMANCE,
                outcome=outcome,
                subject=library,
                required=there,
            )

    return Job(
        name="torch operators",
        tells=[(claim, Method.CONFORMANCE) for claim in OPERATOR_CLAIMS],
        work=work,
        subject=library,
    )


# --- router traces -----------------------------------------------------------------------------------------


def _trace_job(settings: Settings, bound: Bound, number: int) -> Job:
    path = settings.traces[number]
    trace = open_trace(path, num_experts=settings.experts, topk=settings.topk)
    check_trace_sizes(
        trace.meta.num_experts, tile=settings.tile, expert_parallel_size=settings.expert_parallel_size
    )
    claims = ("padding.bound", *ROUTING_CLAIMS)
    job = Job(name=f"trace {path.name}", tells=[(claim, Method.TRACE) for claim in claims], work=lambda _: ())
    job.work = lambda advance: _check_trace(settings, bound, trace, job.notes, advance)
    return job


def _check_trace(
    settings: Settings, bound: Bound, trace: Trace, notes: list[str], advance: Advance
) -> Iterator[Row]:
    report, outcomes = check_trace(
        trace,
        bound=bound,
        tile=settings.tile,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        expert_parallel_size=settings.expert_parallel_size,
        progress=advance,
    )
    notes += report_lines(report)
    for claim_id, outcome in outcomes:
        yield Row(claim_id=claim_id, method=Method.TRACE, outcome=outcome)


# --- subjects ----------------------------------------------------------------------------------------------


def subject_jobs(settings: Settings) -> list[Job]:
    """Return the jobs of the given subjects, or of our own kernels where none is given."""
    level, against = min(settings.level, 2), settings.against
    specs = settings.subjects or ["cuda" if resolve_device(settings.device) == "cuda" else "host"]
    if against is not None:
        made = [
            against_job(spec, against, level=level, seed=settings.seed, fail_on=settings.fail_on)
            for spec in specs
        ]
    else:
        made = [
            subject_job(
                spec,
                level=level,
                seed=settings.seed,
                fail_on=settings.fail_on,
                required=bool(settings.subjects),
            )
            for spec in specs
        ]
    tell_apart(made, specs)
    return made
