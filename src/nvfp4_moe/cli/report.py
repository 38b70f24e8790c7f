"""`nvfp4-moe report`: one page for people, with its JSON and a Markdown form."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size
from nvfp4_moe.cli.outputs import check_file, check_folder, check_json_path, written
from nvfp4_moe.cli.render import observer
from nvfp4_moe.cli.streams import shown, tell, text_console
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import EXIT_OK, EXIT_UNDECIDED, Result, Verdict

if TYPE_CHECKING:
    from nvfp4_moe.analysis.report import Report, RunView
    from nvfp4_moe.analysis.savings_padding import PaddingUse

REPORT_FILES = ("report.html", "report.json", "report.md")
DEFAULT_FOLDER = Path("nvfp4-moe-out") / "report"
DEFAULT_TOKENS = 8192
_REBATCHED = 256
"""Tokens of the batches that a trace is also shown in: recorded passes are mostly decode steps."""


@click.command("report", short_help="One page for people: verdict, memory, engines, routings.")
@click.argument("run_file", required=False, type=click.Path(path_type=Path), metavar="[VERIFY.json]")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FILE",
    help="A model of the zoo, or a Hugging Face config.json, shown in full; repeatable.  [default: the whole zoo, its "
    "first model in full]",
)
@click.option(
    "--max-num-batched-tokens",
    type=size(),
    default=DEFAULT_TOKENS,
    show_default=True,
    metavar="N",
    help="Tokens that reach the layer on one rank, and what the scheduler is told.",
)
@click.option(
    "--trace",
    "traces",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A router trace: show the padding that it uses; repeatable.",
)
@click.option("--experts", type=size(), metavar="N", help="Experts, for traces that do not say it.")
@click.option("--topk", type=size(), metavar="N", help="Experts of a token, for traces that do not say it.")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    metavar="DIR",
    help="Where report.html, report.json and report.md are written, and the counterexamples of the run.",
)
@click.option(
    "--markdown", metavar="FILE", help="Write the Markdown form to FILE as well; - is standard output."
)
@seed_option
@json_option
def command(
    *,
    run_file: Path | None,
    models: tuple[str, ...],
    folder: Path,
    markdown: str | None,
    json_path: str | None,
    **given: Any,
) -> int:
    """Write one HTML page that needs no network, its JSON beside it, and a Markdown form.

    VERIFY.json is what `verify --json` or `verify --report` wrote; without it the page has no claims and says so. It shows
    the memory of every formula, whether a server's flags are safe for them, the padding that routings use, and the
    formulas of all engines. Figures need matplotlib (extra `plots`); without it the page says that they are missing.

    Exit code 0 once all is written, whatever the run found: the verdict is on the page, and verify had its own code. 3 if
    something could not be delivered.
    """
    from nvfp4_moe.analysis.report import build_report, memory_of, read_run
    from nvfp4_moe.analysis.zoo import find_model

    _check_outputs(folder, markdown, json_path, [run_file, *models, *given["traces"]])
    with at_the_door():
        result = None if run_file is None else read_run(run_file)
        chosen = list(dict.fromkeys(find_model(name) for name in models))
        memory = memory_of(chosen, max_num_batched_tokens=given["max_num_batched_tokens"])
        uses = padding_of(given["traces"], experts=given["experts"], topk=given["topk"])
    out = text_console(json_path if markdown != "-" else "-")
    delivered, view = (True, None) if result is None else _view(result, run_file, folder)
    with observer(out) as watcher:
        watcher.start(Job(name="report", tells=(), work=lambda advance: ()))
        report = build_report(
            memory,
            full=None if chosen else 1,
            run=view,
            uses=uses,
            seed=given["seed"],
            commands=_commands(result),
            progress=lambda step: watcher.advance(1),
        )
    delivered &= write_report(folder, report)
    if markdown is not None:
        from nvfp4_moe.analysis.report import to_markdown

        delivered &= written(markdown, to_markdown(report))
    if json_path is not None:
        delivered &= written(json_path, _dumped(report))
    _tell_where(out, folder, report)
    return EXIT_OK if delivered else EXIT_UNDECIDED


def _check_outputs(
    folder: Path, markdown: str | None, json_path: str | None, needed: Sequence[Path | str | None]
) -> None:
    if markdown == "-" and json_path == "-":
        raise InputError("--json and --markdown cannot both be standard output")
    check_folder("--out", folder)
    files = [folder / name for name in REPORT_FILES]
    for file in files if folder.exists() else ():
        check_file("--out", str(file), others=needed)
    check_json_path(json_path, others=[*needed, *files, markdown])
    if markdown == "":
        raise InputError("--markdown: a file name is needed, got an empty one")
    if markdown is not None and markdown != "-":
        check_file("--markdown", markdown, others=[*needed, *files])


def _view(result: Result, run_file: Path | None, folder: Path) -> tuple[bool, RunView]:
    """Save the counterexamples beside the page, so that each has a command of its own."""
    from nvfp4_moe.analysis.report import view_run
    from nvfp4_moe.analysis.report.run_view import MOST_COUNTEREXAMPLES

    saved, delivered = save_counterexamples(result, folder, most=MOST_COUNTEREXAMPLES)
    return delivered, view_run(result, saved=saved, run_file=run_file)


def save_counterexamples(
    result: Result, folder: Path, *, most: int | None = None
) -> tuple[dict[int, Path], bool]:
    """Save the witnesses of the refuted claims, of the first `most`; None: of all.

    Returns:
        The paths by the place of the claim in the run, and whether none failed.
    """
    from nvfp4_moe.verification import witness

    saved: dict[int, Path] = {}
    delivered = True
    refuted = [
        (place, claim)
        for place, claim in enumerate(result.claims)
        if claim.verdict is Verdict.REFUTED and claim.witness is not None
    ]
    for place, claim in refuted[:most]:
        try:
            saved[place] = witness.save_counterexample(folder, claim)
        except OSError as error:
            delivered = False
            tell(f"error: the counterexample of {claim.id} is not saved: {error.strerror or error}")
    return saved, delivered


def padding_of(traces: Sequence[Path], *, experts: int | None, topk: int | None) -> list[PaddingUse]:
    """Return the padding that recorded traces use, as recorded and re-batched.

    Raises:
        OSError, ValueError, TypeError: a trace that cannot be read.
    """
    from nvfp4_moe.analysis.savings_padding import trace_padding
    from nvfp4_moe.verification.traces import open_trace

    uses: list[PaddingUse] = []
    for path in traces:
        trace = open_trace(path, num_experts=experts, topk=topk)
        name = path.name.removesuffix(path.suffix)
        uses.append(trace_padding(trace, name=name))
        uses.append(trace_padding(trace, name=name, max_num_batched_tokens=_REBATCHED))
    return uses


def _commands(result: Result | None) -> list[tuple[str, str]]:
    commands = [("This page", command_line())]
    if result is not None:
        verify = f"nvfp4-moe verify --seed {result.seed} --device {shlex.quote(result.device)}"
        commands.append(("The run, with the options that it had (its JSON does not say them)", verify))
    return commands


def command_line() -> str:
    """Return the command that is running, as a shell takes it."""
    context = click.get_current_context()
    words = ["nvfp4-moe", str(context.info_name)]
    arguments: list[str] = []
    for parameter in context.command.params:
        name = str(parameter.name)
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Option):
            option = max(parameter.opts, key=len)
            values = value if parameter.multiple else [value]
            words += [option] if parameter.is_flag else [w for v in values for w in (option, _word(v))]
        else:
            arguments.append(str(value))
    return shlex.join(
        words + (["--", *arguments] if any(a.startswith("-") for a in arguments) else arguments)
    )


def _word(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def write_report(folder: Path, report: Report) -> bool:
    """Write `REPORT_FILES` into the folder; return whether that went well."""
    from nvfp4_moe.analysis.report import to_html, to_markdown

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        tell(f"error: {folder} cannot be made: {error.strerror or error}")
        return False
    texts = (to_html(report), _dumped(report), to_markdown(report))
    done = [written(str(folder / name), text) for name, text in zip(REPORT_FILES, texts, strict=True)]
    return all(done)


def _dumped(report: Report) -> str:
    return json.dumps(report.to_json(), indent=2, allow_nan=False) + "\n"


def _tell_where(out: Console, folder: Path, report: Report) -> None:
    if report.run is not None:
        out.print(shown(report.run.headline.title), markup=False, soft_wrap=True, style="bold")
    for line in report.missing:
        out.print(shown(line), markup=False, soft_wrap=True)
    out.print(shown(f"Report: {folder / REPORT_FILES[0]}"), markup=False, soft_wrap=True)
