"""The report on a router trace, as `nvfp4-moe replay` prints it."""

from __future__ import annotations

import json
from pathlib import Path

from rich.text import Text

from nvfp4_moe import __version__
from nvfp4_moe.cli.options import InputError, at_the_door
from nvfp4_moe.cli.outputs import written
from nvfp4_moe.cli.render import observer
from nvfp4_moe.cli.streams import shown, text_console
from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.expressions import Bound, ExpressionError, parse_bound
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import EXIT_UNDECIDED, ClaimResult, Method, Result, Verdict
from nvfp4_moe.verification.rows import Row, claim_results
from nvfp4_moe.verification.trace_check import check_trace
from nvfp4_moe.verification.trace_report import report_lines
from nvfp4_moe.verification.trace_routing import check_trace_sizes
from nvfp4_moe.verification.traces import open_trace

_WIDTH = max(len(verdict) for verdict in Verdict)


def report_on_trace(
    file: Path,
    *,
    json_path: str | None,
    bound: str = "proposed",
    experts: int | None = None,
    topk: int | None = None,
    expert_parallel_size: int = 1,
    max_num_batched_tokens: int | None = None,
    tile: int = TILE,
) -> int:
    """Print what a trace holds and which claims it breaks; return the exit code.

    Raises:
        InputError: the trace cannot be read, a size is not legal, the bound does not parse or has no value.
    """
    with at_the_door():
        judged = parse_bound(bound)
        trace = open_trace(file, num_experts=experts, topk=topk)
        check_trace_sizes(trace.meta.num_experts, tile=tile, expert_parallel_size=expert_parallel_size)
    out = text_console(json_path)

    job = Job(name=f"trace {file.name}", tells=(), work=lambda advance: ())  # what the observer is told about
    try:
        with observer(out) as watcher:
            watcher.start(job)
            report, outcomes = check_trace(
                trace,
                bound=judged,
                tile=tile,
                max_num_batched_tokens=max_num_batched_tokens,
                expert_parallel_size=expert_parallel_size,
                progress=watcher.advance,
            )
            rows = [Row(claim_id=claim, method=Method.TRACE, outcome=outcome) for claim, outcome in outcomes]
            watcher.finish(job, rows)
    except (
        BadInput,
        ExpressionError,
    ) as error:  # a trace is read while it is checked: errors can come late
        raise InputError(str(error)) from error
    claims = claim_results(rows)
    for line in report_lines(report):
        out.print(shown(line), markup=False, soft_wrap=True)
    for claim in claims:
        out.print(Text(shown(_line(claim, judged))), soft_wrap=True)
    result = Result(version=__version__, seed=0, device="cpu", git=None, claims=claims)
    if json_path is not None:
        document = result.to_json() | {"file": str(file), "report": report.to_json()}
        if not written(json_path, json.dumps(document, indent=2, allow_nan=False) + "\n"):
            return result.exit_code or EXIT_UNDECIDED
    return result.exit_code


def _line(claim: ClaimResult, bound: Bound) -> str:
    about = f" ({bound.name})" if claim.id == "padding.bound" else ""
    detail = f": {claim.detail}" if claim.detail else ""
    return f"{claim.verdict:<{_WIDTH}} {claim.id}{about} {claim.statement}{detail}"
