"""`nvfp4-moe verify`: the main job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from nvfp4_moe.cli.options import (
    InputError,
    Seconds,
    at_the_door,
    json_option,
    seed_option,
    size,
    tile_option,
)
from nvfp4_moe.cli.outputs import check_file, check_folder, check_json_path, write_json, written
from nvfp4_moe.cli.report import save_counterexamples
from nvfp4_moe.cli.streams import text_console
from nvfp4_moe.cli.verify_report import REPORT_FILES, write_run_report
from nvfp4_moe.verification.result import EXIT_OK, EXIT_UNDECIDED, Finding


@click.command("verify", short_help="Prove, exhaust and fuzz the padding bound.")
@click.option(
    "--level",
    type=size(1, 3),
    default=1,
    show_default=True,
    metavar="1|2|3",
    help="1: under a minute on two cores; 2: minutes; 3: until --budget.",
)
@click.option(
    "--budget",
    type=Seconds(),
    metavar="SECONDS|forever",
    help="Go on fuzzing this long after the fixed checks.",
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="NAME|FILE.py[:ATTR]",
    help="Implementation under test: reference, host, cuda, an installed engine (vllm, sglang, flashinfer), "
    "an entry point or a file; repeatable.",
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
@click.option(
    "--experts",
    type=size(),
    metavar="N",
    help="Experts of the model, over all ranks: at most 1,048,576. "
    "Above 8,192 on a rank the fuzz, which builds routings, is SKIPPED.",
)
@click.option("--expert-parallel-size", type=size(), default=1, show_default=True, metavar="N")
@click.option(
    "--topk",
    type=size(),
    metavar="N",
    help="Experts a token is routed to: at most 1,048,576. Above 1,024 the fuzz is SKIPPED.",
)
@click.option(
    "--max-num-batched-tokens",
    type=size(),
    metavar="N",
    help="Tokens that the buffer is sized for; times topk at most 10^18.",
)
@tile_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A recorded router trace (.jsonl, .jsonl.gz, .json, .npy, .npz, .pt); repeatable. One that breaks off late ends the run "
    "with exit code 2 and without a result.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Campaign store to go on with, or to begin; without --budget the run lasts until it is stopped.",
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
    "--report",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the run into DIR: a page for people (report.html), Markdown, the table as text, and the JSON.",
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

    _check_outputs(json_path, report, **options)
    with at_the_door():
        options["fail_on"] = Finding(options["fail_on"])
        options["expect"] = () if options["expect"] is None else load_expectations(options["expect"])
        settings = Settings(**options)
        jobs = prepare(settings)
    out = text_console(json_path)
    with observer(out) as watcher, late_bad_input():
        result = execute(settings, jobs, observer=watcher)
    saved, all_saved = save_counterexamples(result, settings.folder)
    failed = not all_saved
    notes = [line for job in jobs for line in job.notes]
    table = partial(
        print_result,
        result=result,
        bound=settings.bound,
        foreign=settings.has_foreign_subject,
        saved=list(dict.fromkeys(saved.values())),
        notes=notes,
    )
    if (
        json_path is not None and json_path != "-"
    ):  # files first: they outlive a reader of the table that goes
        failed |= not written(json_path, result.dumps())
    if report is not None:
        failed |= not write_run_report(report, result, table=table, settings=settings, jobs=jobs, saved=saved)
    table(out)
    if json_path == "-":
        write_json(json_path, result.dumps())
    return EXIT_UNDECIDED if failed and result.exit_code == EXIT_OK else result.exit_code


@contextlib.contextmanager
def late_bad_input() -> Iterator[None]:
    """A trace or store is read while it is worked on, so its errors can come late; they are still the input's."""
    from nvfp4_moe.verification.bad_input import BadInput

    try:
        yield
    except BadInput as error:
        raise InputError(str(error)) from error


def _check_outputs(json_path: str | None, report: Path | None, *, folder: Path, **options: Any) -> None:
    """Refuse outputs that cannot be written, or that would overwrite what the run needs; leave nothing behind."""
    needed = (
        *options["subjects"],
        options["against"],
        *options["traces"],
        options["expect"],
        options["resume"],
    )
    reported = () if report is None else tuple(report / name for name in REPORT_FILES)
    check_json_path(json_path, others=(*needed, *reported, report, folder))
    check_folder("--out", folder)
    if report is not None:
        check_folder("--report", report)
        for file in reported if report.exists() else ():
            check_file("--report", str(file), others=needed)
