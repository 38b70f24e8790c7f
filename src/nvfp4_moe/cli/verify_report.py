"""The folder of `verify --report`: the table as text, the JSON, and the page for people with its own JSON and Markdown.

The page of a run is the quick one: engines, figures of one model and the families of routings are left to `nvfp4-moe
report`, and the page says so. Nothing that goes wrong here changes what the run found.
"""

from __future__ import annotations

import io
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from nvfp4_moe.cli import report as page
from nvfp4_moe.cli.outputs import written
from nvfp4_moe.cli.streams import PLAIN_WIDTH, tell
from nvfp4_moe.verification.bad_input import BadInput
from nvfp4_moe.verification.result import Result

if TYPE_CHECKING:
    from nvfp4_moe.analysis.report import Report, RunView
    from nvfp4_moe.analysis.savings_padding import PaddingUse
    from nvfp4_moe.verification.job import Job
    from nvfp4_moe.verification.settings import Settings

RUN_FILES = ("verify.json", "verify.txt")
REPORT_FILES = (*RUN_FILES, *page.REPORT_FILES)


def write_run_report(
    folder: Path,
    result: Result,
    *,
    table: Callable[[Console], None],
    settings: Settings,
    jobs: Sequence[Job],
    saved: Mapping[int, Path],
) -> bool:
    """Write `REPORT_FILES` into the folder and return whether that went well.

    Args:
        folder: made where it is missing.
        result: the run.
        table: prints the table to a console.
        settings, jobs: of the run.
        saved: files of counterexamples by the place of their claim.
    """
    text = io.StringIO()
    table(Console(file=text, width=PLAIN_WIDTH, highlight=False, emoji=False))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        tell(f"error: {folder} cannot be made: {error.strerror or error}")
        return False
    contents = zip(RUN_FILES, (result.dumps(), text.getvalue()), strict=True)
    done = [written(str(folder / name), content) for name, content in contents]
    try:
        made = page.write_report(folder, _page(folder, result, settings, jobs, saved))
    except Exception as error:  # a fault of ours must not take the verdict with it
        traceback.print_exc()
        tell(f"error: the page of the report is not made: {type(error).__name__}: {error}")
        made = False
    return made and all(done)


def _page(
    folder: Path, result: Result, settings: Settings, jobs: Sequence[Job], saved: Mapping[int, Path]
) -> Report:
    from nvfp4_moe.analysis.report import build_report, memory_of

    uses, missing = _padding(settings)
    memory = memory_of(max_num_batched_tokens=settings.max_num_batched_tokens or page.DEFAULT_TOKENS)
    return build_report(
        memory,
        full=1,
        run=_view(result, settings, jobs, saved),
        uses=uses,
        seed=settings.seed,
        brief=True,
        missing=[*missing, _left_to_report(folder, settings)],
        commands=[("The run and this page", page.command_line())],
    )


def _view(result: Result, settings: Settings, jobs: Sequence[Job], saved: Mapping[int, Path]) -> RunView:
    from nvfp4_moe.analysis.report import view_run

    return view_run(
        result,
        bound=settings.bound,
        foreign=settings.has_foreign_subject,
        saved=saved,
        specs=_specs(settings, jobs),
        notes=[line for job in jobs for line in job.notes],
    )


def _specs(settings: Settings, jobs: Sequence[Job]) -> dict[str, dict[str, str]]:
    """Return what each subject was given by; the jobs of subjects stand first, in the order of their options."""
    against = {} if settings.against is None else {"against": str(settings.against)}
    given = zip(settings.subjects, jobs, strict=False)
    return {str(job.subject): {"subject": str(spec)} | against for spec, job in given}


def _padding(settings: Settings) -> tuple[list[PaddingUse], list[str]]:
    """Return the padding that the run's traces use; a trace that cannot be read again is told as missing."""
    uses: list[PaddingUse] = []
    missing: list[str] = []
    for path in settings.traces:
        try:
            uses += page.padding_of([path], experts=settings.experts, topk=settings.topk)
        except (BadInput, OSError) as error:
            missing.append(f"Padding of the trace {path.name} is left out: {error}")
    return uses, missing


def _left_to_report(folder: Path, settings: Settings) -> str:
    words = ["nvfp4-moe", "report", str(folder / RUN_FILES[0])]
    words += [word for path in settings.traces for word in ("--trace", str(path))]
    for option, value in (("--experts", settings.experts), ("--topk", settings.topk)):
        words += [option, str(value)] if settings.traces and value is not None else []
    command = shlex.join([*words, "--out", str(folder)])
    return (
        "Left out, because they take longer: engines side by side, figures of one model, families of routings. "
        f"This adds them: {command}"
    )
