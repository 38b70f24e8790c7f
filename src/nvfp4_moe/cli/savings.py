"""`nvfp4-moe savings`: the memory of every sizing formula for models and serving flags."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size
from nvfp4_moe.cli.outputs import check_file, check_folder, check_json_path, written
from nvfp4_moe.cli.render import observer
from nvfp4_moe.cli.streams import shown, tell, text_console
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED

if TYPE_CHECKING:
    from nvfp4_moe.analysis.figures.plan import Planned
    from nvfp4_moe.analysis.measured_memory import Measured
    from nvfp4_moe.analysis.savings import Savings
    from nvfp4_moe.analysis.savings_padding import PaddingUse
    from nvfp4_moe.analysis.tables import Table
    from nvfp4_moe.analysis.zoo_shape import Shard

_REBATCHED = 256
"""Tokens of the batches that a trace is also shown in: recorded passes are mostly decode steps."""
_NARROW = 100
"""Columns of a terminal below which tables go without rules."""
_TABLES = ("savings.csv", "savings.json")
_READABLE = 0o644
"""Mode of the files in a folder: temporary files begin readable by their owner alone."""


class _Folder(click.Path):
    """A folder; an empty name, as of a variable that is not set, is none, and not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not value:
            self.fail("a folder name is needed, got an empty one", param, ctx)
        return super().convert(value, param, ctx)


@click.command("savings", short_help="Memory of every sizing formula for models and their flags.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME|FILE",
    help="A model of the zoo, or a Hugging Face config.json (or its folder); repeatable.  [default: the whole zoo]",
)
@click.option(
    "--max-num-batched-tokens",
    type=size(),
    multiple=True,
    default=(8192,),
    show_default=True,
    metavar="N",
    help="Tokens that reach the layer on one rank; repeatable.",
)
@click.option("--tensor-parallel-size", type=size(), default=1, show_default=True, metavar="N")
@click.option("--expert-parallel-size", type=size(), default=1, show_default=True, metavar="N")
@click.option(
    "--baseline",
    default="vllm_env",
    show_default=True,
    metavar="FORMULA",
    help="What savings are counted from.",
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
@click.option(
    "--out",
    "folder",
    type=_Folder(path_type=Path),
    metavar="DIR",
    help="Write savings.csv, savings.json and figures (PNG and SVG, light and dark) into DIR.",
)
@click.option("--measure", is_flag=True, help="Allocate the buffers on the GPU and compare the peak.")
@seed_option
@json_option
def command(*, models: tuple[str, ...], folder: Path | None, json_path: str | None, **given: Any) -> int:
    """Show rows and bytes of the two block-scale buffers of a layer by every formula, the peak, and what is saved.

    Figures need matplotlib (extra `plots`); those of one model are drawn for the models named with --model, else for
    the first of the zoo. With --out or --trace also the padding that routings use: traces, and with --out the families of
    synthetic routings (--seed).

    This command informs: whatever a formula is worth, the exit status is 0. With --measure it is 1 if the allocator
    disagrees; 3 if figures or measurements that were asked for could not be made.
    """
    from nvfp4_moe.analysis.savings import savings
    from nvfp4_moe.analysis.zoo import ZOO, config_file, find_model

    inputs = [*given["traces"], *filter(None, map(config_file, models))]
    if folder is not None:
        check_folder("--out", folder)
        _check_files(folder, _TABLES, inputs)
    check_json_path(json_path, others=[*inputs, *([] if folder is None else [folder / n for n in _TABLES])])
    with at_the_door():
        chosen = list(dict.fromkeys(find_model(name) for name in models)) or list(ZOO.values())
        found = savings(
            chosen,
            max_num_batched_tokens=list(dict.fromkeys(given["max_num_batched_tokens"])),
            tensor_parallel_size=given["tensor_parallel_size"],
            expert_parallel_size=given["expert_parallel_size"],
            baseline=given["baseline"],
        )
    if found.refused and (models or not found.lines):
        raise InputError(shown(found.refused[0].reason))
    shards = found.shards if models else found.shards[:1]
    out = text_console(json_path)
    uses = _padding(out, shards[0], found, given, families=folder is not None)
    _print_tables(out, found, shards, uses)
    measured, code = _measured(out, found) if given["measure"] else (None, EXIT_OK)
    document = found.to_json() | {"seed": given["seed"], "padding": [use.to_json() for use in uses]}
    if measured is not None:
        document["measured"] = [line.to_json() for line in measured]
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    delivered = EXIT_OK
    if folder is not None:
        others = inputs if json_path in (None, "-") else [*inputs, json_path]
        delivered = _write_folder(out, folder, text, found, shards, uses, others)
    if json_path is not None and not written(json_path, text):
        delivered = EXIT_UNDECIDED
    return code or delivered


# --- routings and measurements -----------------------------------------------------------------------------


def _padding(
    out: Console, part: Shard, found: Savings, given: dict[str, Any], *, families: bool
) -> list[PaddingUse]:
    """Return the padding that the traces use, as recorded and in batches, and with `families` that of the families."""
    from nvfp4_moe.analysis.savings_padding import family_padding, trace_padding
    from nvfp4_moe.verification.traces import open_trace

    uses: list[PaddingUse] = []
    if not given["traces"] and not families:
        return uses
    with observer(out) as watcher:
        watcher.start(_job("padding of routings", len(given["traces"]) + families))
        for path in given["traces"]:
            with at_the_door():  # a trace is read while it is worked on
                trace = open_trace(path, num_experts=given["experts"])
                name = path.name.removesuffix(path.suffix)
                uses.append(trace_padding(trace, name=name))
                uses.append(trace_padding(trace, name=name, max_num_batched_tokens=_REBATCHED))
            watcher.advance(1)
        if families:
            most = max(found.max_num_batched_tokens)
            uses += family_padding(part, max_num_batched_tokens=most, seed=given["seed"])
            watcher.advance(1)
    return uses


def _job(name: str, steps: int) -> Job:
    """Return what an observer is told about."""
    return Job(name=name, tells=(), work=lambda advance: (), cases=steps)


def _measured(out: Console, found: Savings) -> tuple[list[Measured] | None, int]:
    """Measure on the GPU; return the lines and the exit code that they call for."""
    import torch

    from nvfp4_moe.analysis.measured_memory import measure_memory

    if not torch.cuda.is_available():
        tell("not measured: no CUDA device is present")
        return None, EXIT_UNDECIDED
    with observer(out) as watcher:
        watcher.start(_job("allocating", len(found.lines)))
        try:
            lines = measure_memory(found.lines, progress=watcher.advance)
        except torch.OutOfMemoryError:
            tell("not measured: too little memory is free on the GPU")
            return None, EXIT_UNDECIDED
    wrong = [line for line in lines if not line.agrees]
    out.print(
        f"Measured on {torch.cuda.get_device_name()}: the allocator's peak is the formula's in "
        f"{len(lines) - len(wrong)} of {len(lines)} lines",
        markup=False,
    )
    for line in wrong:
        out.print(shown(f"DIFFERS: {line.to_json()}"), markup=False, soft_wrap=True)
    return lines, EXIT_REFUTED if wrong else EXIT_OK


# --- tables ------------------------------------------------------------------------------------------------


def _print_tables(out: Console, found: Savings, shards: Sequence[Shard], uses: Sequence[PaddingUse]) -> None:
    from nvfp4_moe.analysis.tables import formula_table, padding_table, summary_table

    tables = [
        formula_table(found, part.model.name, tokens)
        for part in shards
        for tokens in found.max_num_batched_tokens
    ]
    if found.refused or len(found.shards) * len(found.max_num_batched_tokens) > 1:
        tables.append(summary_table(found))
    if uses:
        tables.append(padding_table(uses))
    said: set[str] = set()
    for table in tables:
        out.print(_rich(table, narrow=out.width < _NARROW))
        for note in table.notes:
            if note not in said:
                out.print(shown(note), markup=False, soft_wrap=True)
        said |= set(table.notes)
        out.print()


def _rich(table: Table, *, narrow: bool) -> RichTable:
    """Return the table for a terminal; on a narrow one without rules between its columns."""
    rich = RichTable(
        title=Text(shown(table.title)),
        title_justify="left",
        title_style="bold",
        expand=False,
        pad_edge=False,
        box=box.SIMPLE_HEAD if narrow else box.HEAVY_HEAD,
        padding=(0, 1, 0, 0) if narrow else (0, 1),
    )
    for number, column in enumerate(table.columns):
        words = number in table.text_columns
        heading = column.replace(" ", "\n").replace("_", "_\n") if narrow else column
        folds = number in table.long_columns
        rich.add_column(heading, justify="left" if words else "right", no_wrap=not folds, overflow="fold")
    for row in table.rows:
        rich.add_row(*(Text(shown(cell), style="bold red" if cell == "NO" else "") for cell in row))
    return rich


# --- files -------------------------------------------------------------------------------------------------


def _write_folder(
    out: Console,
    folder: Path,
    document: str,
    found: Savings,
    shards: Sequence[Shard],
    uses: Sequence[PaddingUse],
    others: Sequence[Path | str],
) -> int:
    """Write the tables and, where matplotlib is there, the figures; return the exit code.

    Raises:
        InputError: a figure would replace one of `others`, a folder, or a read-only file; nothing is written then.
    """
    from nvfp4_moe.analysis import figures
    from nvfp4_moe.analysis.tables import to_csv

    lines = to_csv([line.to_json() for line in found.lines]).encode("utf-8", "backslashreplace")
    tables = zip(_TABLES, (lines, document.encode()), strict=True)
    problem = figures.unavailable()
    if problem is not None:
        if _all_written(folder, tables):
            tell(
                f"tables are in {folder}; figures need matplotlib: pip install 'nvfp4-moe[plots]' ({problem})"
            )
        return EXIT_UNDECIDED
    from nvfp4_moe.analysis.figures.plan import plan_figures

    planned = plan_figures(found, uses=uses, shards=shards)
    names = [name for figure in planned for name in _names(figure)]
    _check_files(folder, names, others)
    if not _all_written(folder, tables):
        return EXIT_UNDECIDED
    with observer(out) as watcher:
        watcher.start(_job("figures", len(planned)))
        for figure in planned:
            if not _all_written(folder, zip(_names(figure), _drawn(figure), strict=True)):
                return EXIT_UNDECIDED
            watcher.advance(1)
    out.print(shown(f"{len(_TABLES) + len(names)} files in {folder}"), markup=False, soft_wrap=True)
    return EXIT_OK


def _names(planned: Planned) -> list[str]:
    """Return the names of one figure's files, in the order of `_drawn`."""
    from nvfp4_moe.analysis.figures.theme import THEMES

    return [f"{planned.name}.{theme}.{suffix}" for theme in THEMES for suffix in ("svg", "png")]


def _drawn(planned: Planned) -> Iterator[bytes]:
    """Yield the contents of one figure's files."""
    from nvfp4_moe.analysis.figures.render import to_png, to_svg
    from nvfp4_moe.analysis.figures.theme import THEMES

    for theme in THEMES.values():
        figure = planned.draw(theme)
        svg = to_svg(figure, name=f"{planned.name}-{theme.name}", label=planned.label)
        figure.set_layout_engine("none")  # the PNG keeps the places found for the SVG
        yield svg.encode()
        yield to_png(figure)


def _check_files(folder: Path, names: Iterable[str], others: Sequence[Path | str]) -> None:
    """Refuse to replace what a run needs, a folder, or what was made read-only; a link that leads nowhere is none."""
    for name in names:
        if (folder / name).exists():
            check_file("--out", str(folder / name), others=others)


def _all_written(folder: Path, files: Iterable[tuple[str, bytes]]) -> bool:
    """Write the files one by one; the first that cannot be written is told, and ends it."""
    for name, data in files:
        try:
            _write(folder / name, data)
        except OSError as error:
            tell(f"error: {folder / name} cannot be written: {error.strerror or error}")
            return False
    return True


def _write(path: Path, data: bytes) -> None:
    """Put a file in place whole, or not at all; a link of its name is replaced, not followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".nvfp4-moe-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, _READABLE)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
