"""`nvfp4-moe mutants`: does the harness refute every known-wrong variant, and pass what is right?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nvfp4_moe.cli.options import at_the_door, json_option, seed_option
from nvfp4_moe.cli.outputs import check_file, check_json_path, write_json, written
from nvfp4_moe.cli.streams import shown, text_console
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvfp4_moe.verification.mutants.matrix import Matrix
    from nvfp4_moe.verification.mutants.run import CatalogueResult

_STYLES = {
    Verdict.REFUTED: "green",
    Verdict.HELD: "bold red",
    Verdict.SKIPPED: "yellow",
    Verdict.UNDECIDED: "yellow",
}
_WORDS = {Verdict.HELD: "SURVIVED", Verdict.SKIPPED: "SKIPPED", Verdict.UNDECIDED: "UNDECIDED"}
_RIGHT_STYLES = {**_STYLES, Verdict.REFUTED: "bold red", Verdict.HELD: "green"}


@click.command("mutants", short_help="Known-wrong variants that the harness must refute.")
@click.option(
    "--class",
    "fault_classes",
    multiple=True,
    metavar="LETTER",
    help="Only the variants of a fault class, A to U; repeatable.  [default: all]",
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--matrix",
    is_flag=True,
    help="Then weaken the harness, one habit at a time, and tell which variants escape it: takes as long again.",
)
@click.option("--page", metavar="FILE", help="Write the page of faults, Markdown.")
@seed_option
@json_option
def command(
    *,
    fault_classes: tuple[str, ...],
    device: str,
    matrix: bool,
    page: str | None,
    seed: int,
    json_path: str | None,
) -> int:
    """Run the ordinary checks on known-wrong variants of kernels, bounds, golden model and index arithmetic.

    Each stands for faults that public projects have had. A variant runs the cases of `verify` at level 1, smallest
    first, up to the first that refutes it: the smallest input. Right implementations, written differently, run all of
    them and must pass.

    Exit code 1 if a variant survives or a right implementation is refuted; else 3 if one could not be decided, or none
    could be run; else 0. Those that need another device are SKIPPED.
    """
    from nvfp4_moe.verification.mutants.run import chosen, run_catalogue

    check_json_path(json_path, others=[page])
    if page is not None:
        check_file("--page", page, others=[json_path])
    with at_the_door():
        mutants, right = chosen([letter.upper() for letter in fault_classes])
    out = text_console(json_path)
    with _progress(out, len(mutants) + len(right)) as finished:
        result = run_catalogue(mutants, right, device=device, seed=seed, finished=finished)
    if matrix and not result.interrupted:
        result = _with_matrix(out, result)
    failed = json_path not in (None, "-") and not written(str(json_path), result.dumps())
    if page is not None:
        failed = not written(page, _page(result)) or failed
    _print(out, result)
    if json_path == "-":
        write_json(json_path, result.dumps())
    return EXIT_UNDECIDED if failed and result.exit_code == EXIT_OK else result.exit_code


@contextlib.contextmanager
def _progress(
    out: Console, total: int, *, name: str = "known-wrong variants"
) -> Iterator[Callable[[object], None]]:
    """A bar on a terminal; logs get the table alone."""
    if not out.is_terminal:
        yield lambda entry: None
        return
    from nvfp4_moe.cli.render import BarObserver
    from nvfp4_moe.verification.job import Job

    with BarObserver(out) as bar:
        bar.start(Job(name=name, tells=[], work=lambda advance: [], cases=total))
        yield lambda entry: bar.advance(1)


def _with_matrix(out: Console, result: CatalogueResult) -> CatalogueResult:
    from nvfp4_moe.verification.mutants.matrix import make_matrix

    with _progress(out, len(result.mutants), name="the harness weakened") as finished:
        made = make_matrix(result.mutants, seed=result.seed, finished=finished)
    return replace(result, matrix=made)


def _page(result: CatalogueResult) -> str:
    from nvfp4_moe.verification.mutants.page import page

    return page(result.to_json())


def _print(out: Console, result: CatalogueResult) -> None:
    out.print(_variants(result))
    if result.matrix is not None:
        out.print()
        out.print(_weakened(result.matrix))
    if result.right:
        out.print()
        out.print(_right(result))
    out.print()
    _print_summary(out, result)


def _variants(result: CatalogueResult) -> Table:
    from nvfp4_moe.verification.mutants.smallest import smallest_input

    table = _table(f"Known-wrong variants on {result.device}", "variant", "class", "refuted by")
    table.add_column("smallest input", overflow="fold", ratio=1)
    for mutant, judged in result.mutants:
        refuted = judged.verdict is Verdict.REFUTED
        table.add_row(
            mutant.id,
            mutant.fault_class,
            Text(judged.check or "" if refuted else _WORDS[judged.verdict], style=_STYLES[judged.verdict]),
            f"{judged.cases:,}",
            f"{judged.seconds:.1f} s",
            Text(shown(smallest_input(judged.witness) if refuted else judged.detail)),
        )
    return table


def _weakened(matrix: Matrix) -> Table:
    table = Table(title="The harness weakened", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("without it", no_wrap=True)
    table.add_column("escape", justify="right", no_wrap=True)
    table.add_column("which", overflow="fold", ratio=1)
    for entry in matrix.to_json():
        table.add_row(entry["change"], str(len(entry["escaped"])), Text(", ".join(entry["escaped"])))
    return table


def _right(result: CatalogueResult) -> Table:
    table = _table("Right implementations, written differently", "subject", "verdict", "finding")
    table.add_column("what it does differently", overflow="fold", ratio=1)
    for entry, judged in result.right:
        table.add_row(
            entry.id,
            Text(
                "passes" if judged.verdict is Verdict.HELD else str(judged.verdict),
                style=_RIGHT_STYLES[judged.verdict],
            ),
            judged.check or "",
            f"{judged.cases:,}",
            f"{judged.seconds:.1f} s",
            Text(shown(entry.change if judged.verdict is Verdict.HELD else judged.detail)),
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", expand=False, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for column in ("cases", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _print_summary(out: Console, result: CatalogueResult) -> None:
    said = ", ".join(f"{n} {verdict}" for verdict in Verdict if (n := result.number(verdict)))
    passed = sum(judged.verdict is Verdict.HELD for _, judged in result.right)
    if result.right:
        said += f"; {passed} of {len(result.right)} right implementations pass"
    word, style = {
        EXIT_OK: ("Every variant that ran is refuted", "bold green"),
        EXIT_REFUTED: ("SURVIVED" if result.survivors else "FALSE ALARM", "bold red"),
    }.get(result.exit_code, ("Not everything could be decided", "bold yellow"))
    if result.interrupted:
        out.print("Interrupted: the table holds what was finished.", style="yellow")
    names = [judged.id for judged in (*result.survivors, *result.false_alarms)]
    out.print(
        Text(f"{word}: {', '.join(names)} ({said})" if names else f"{word} ({said})", style=style),
        soft_wrap=True,
    )
