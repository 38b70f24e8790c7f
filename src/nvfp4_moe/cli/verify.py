"""`nvfp4-moe verify`: the main job."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size, tile_option
from nvfp4_moe.cli.outputs import check_json_path, text_console, write_json
from nvfp4_moe.verification.result import Finding, Result, Verdict


class _Budget(click.ParamType[float]):
    """Seconds, or "forever"."""

    name = "budget"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == "forever":
            return float("inf")
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"must be a number of seconds or forever, got {str(value)[:40]!r}", param, ctx)
        if not 0 < seconds <= 10**9:
            self.fail(f"must be more than 0 and at most 10^9 seconds, got {str(value)[:40]}", param, ctx)
        return seconds


@click.command("verify", short_help="Prove, exhaust and fuzz the padding bound.")
@click.option(
    "--level",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="1: under a minute on two cores; 2: minutes; 3: until --budget.",
)
@click.option(
    "--budget",
    type=_Budget(),
    metavar="SECONDS|forever",
    help="Go on fuzzing this long after the fixed checks.",
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="NAME|FILE.py[:ATTR]",
    help="Implementation under test: reference, host, cuda, an entry point or a file; repeatable.",
)
@click.option(
    "--against",
    metavar="NAME|FILE.py[:ATTR]",
    help="Compare each --subject with this one byte for byte, over all cases, instead of every other check.",
)
@click.option(
    "--fail-on",
    type=click.Choice([str(finding) for finding in Finding]),
    default="contract",
    show_default=True,
    help="The mildest class of a subject's finding that fails the run.",
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Known findings, a JSON list: they fail nothing while they last, and fail the run when they are gone.",
)
@click.option(
    "--bound",
    default="proposed",
    show_default=True,
    metavar="FORMULA|EXPRESSION",
    help="Rows of the scale buffer: a registry name, or an expression over max_num_batched_tokens, "
    "topk, num_experts, tile.",
)
@click.option("--tight", is_flag=True, help="A bound that no routing attains counts as refuted.")
@click.option("--experts", type=size(), metavar="N", help="Experts of the model, over all ranks.")
@click.option("--expert-parallel-size", type=size(), default=1, show_default=True, metavar="N")
@click.option("--topk", type=size(), metavar="N", help="Experts a token is routed to.")
@click.option("--max-num-batched-tokens", type=size(), metavar="N")
@tile_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A recorded router trace (.jsonl, .jsonl.gz, .npy, .npz); repeatable.",
)
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="FILE", help="Campaign store to go on with."
)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("nvfp4-moe-out"),
    show_default=True,
    metavar="DIR",
    help="Where counterexamples are saved.",
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="DIR", help="Write the table and the JSON into DIR."
)
@seed_option
@json_option
def command(*, json_path: str | None, report: Path | None, **options: Any) -> int:
    """Prove, exhaust and fuzz the padding bound, on synthetic and recorded routings, against the golden model.

    Exit code 1 if anything required is refuted, else 3 if something required is undecided or could not be run,
    else 0; 2 for wrong usage or bad input.
    """
    from nvfp4_moe.cli.render import observer, print_result
    from nvfp4_moe.verification.expect import load_expectations
    from nvfp4_moe.verification.runner import execute, prepare
    from nvfp4_moe.verification.settings import Settings

    check_json_path(json_path)
    with at_the_door():
        _prepare_folder("--report", report)
        options["fail_on"] = Finding(options["fail_on"])
        options["expect"] = () if options["expect"] is None else load_expectations(options["expect"])
        settings = Settings(**options)
        jobs = prepare(settings)
    out = text_console(json_path)
    with observer(out) as watcher, bad_trace_is_bad_input():
        result = execute(settings, jobs, observer=watcher)
    saved = _save_counterexamples(result, settings.folder)
    notes = [line for job in jobs for line in job.notes]
    print_result(out, result, bound=settings.bound, saved=saved, notes=notes)
    if json_path is not None:
        write_json(json_path, result.dumps())
    if report is not None:
        _write_report(report, result, bound=settings.bound, saved=saved, notes=notes)
    return result.exit_code


@contextlib.contextmanager
def bad_trace_is_bad_input() -> Iterator[None]:
    """A trace is read while it is checked, so its errors can come late; they are still the input's."""
    from nvfp4_moe.verification.traces import TraceError

    try:
        yield
    except TraceError as error:
        raise InputError(str(error)) from error


def _prepare_folder(option: str, folder: Path | None) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{option}: {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{option}: the folder {folder} is not writable")


def _save_counterexamples(result: Result, folder: Path) -> list[Path]:
    """Save the witness of every refuted claim; return the paths, each once."""
    from nvfp4_moe.verification.witness import save_counterexample

    refuted = [c for c in result.claims if c.verdict is Verdict.REFUTED and c.witness is not None]
    with at_the_door():
        return list(dict.fromkeys(save_counterexample(folder, claim) for claim in refuted))


def _write_report(folder: Path, result: Result, *, bound: str, saved: list[Path], notes: list[str]) -> None:
    """Write `verify.json` and `verify.txt` into the folder."""
    from nvfp4_moe.cli.render import print_result

    text = io.StringIO()
    print_result(
        Console(file=text, width=140, highlight=False), result, bound=bound, saved=saved, notes=notes
    )
    write_json(str(folder / "verify.json"), result.dumps())
    write_json(str(folder / "verify.txt"), text.getvalue())
