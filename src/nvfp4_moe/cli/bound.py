"""`nvfp4-moe bound`: every sizing formula for one configuration."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nvfp4_moe.cli.options import at_the_door, json_option, seed_option, size, tile_option
from nvfp4_moe.cli.outputs import check_json_path, write_json
from nvfp4_moe.cli.streams import text_console
from nvfp4_moe.verification.bound_table import (
    CallLine,
    CallOutcome,
    Configuration,
    Line,
    call_lines,
    document,
    formula_lines,
    worst_routing,
)
from nvfp4_moe.verification.bound_witness import runs

_MEBIBYTE = 1 << 20


@click.command("bound", short_help="Every sizing formula for one configuration.")
@click.option(
    "--experts", type=size(), required=True, metavar="N", help="Experts of the model, over all ranks."
)
@click.option("--topk", type=size(), required=True, metavar="N", help="Experts a token is routed to.")
@click.option(
    "--max-num-batched-tokens",
    type=size(),
    required=True,
    metavar="N",
    help="Most tokens of a call, as the scheduler is told.",
)
@click.option("--tokens", type=size(0), metavar="N", help="Also look at a call of N tokens.")
@click.option("--expert-parallel-size", type=size(), default=1, show_default=True, metavar="N")
@click.option("--hidden-size", type=size(), metavar="N", help="Elements of a row: also give the bytes.")
@tile_option
@seed_option
@json_option
def command(*, tokens: int | None, seed: int, json_path: str | None, **sizes: int) -> int:
    """Show the rows of the block-scale buffer by every formula, and the routing that needs most.

    For each formula: its rows, the largest call that its guard lets through, the rows that the worst routing of such
    a call needs, and whether that fits. With --tokens also what a call of that size meets: the rows that it finds
    (sized for the call itself, for --max-num-batched-tokens, or capped), those that its worst routing needs under the
    formula's own placement, and whether the formula's own guard refuses it.

    This command informs: whatever it finds, the exit status is 0. `verify --bound` is the one that fails. Nothing
    here is random; --seed has no effect.
    """
    del seed
    check_json_path(json_path)
    with at_the_door():
        configuration = Configuration(**sizes)
        lines = formula_lines(configuration)
        result = document(configuration, tokens=tokens)
    out = text_console(json_path)
    _print_formulas(out, configuration, lines)
    _print_routing(out, configuration, configuration.max_num_batched_tokens)
    if tokens is not None:
        _print_call(out, call_lines(configuration, tokens), tokens)
        _print_routing(out, configuration, tokens)
    if json_path is not None:
        write_json(json_path, json.dumps(result, indent=2, allow_nan=False) + "\n")
    return 0


def _print_formulas(out: Console, configuration: Configuration, lines: list[Line]) -> None:
    exact = next(line.rows for line in lines if line.formula.name == "exact_any")
    with_bytes = configuration.hidden_size is not None
    table = _table(_title(configuration))
    columns = (
        "rows",
        *(("MiB",) if with_bytes else ()),
        "x exact_any",
        "guard: tokens",
        "worst routing needs",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rule", overflow="fold", ratio=1)
    for line in lines:
        table.add_row(
            line.formula.name,
            f"{line.rows:,}",
            *((f"{(line.bytes or 0) / _MEBIBYTE:,.1f}",) if with_bytes else ()),
            f"{line.rows / exact:.3f}",
            f"<= {line.guard_tokens:,}",
            f"{line.needed:,}",
            _verdict(line),
            Text(f"{line.formula.rule}{'' if line.formula.ids == 'any' else '; distinct ids'}"),
        )
    out.print(table)


def _title(configuration: Configuration) -> str:
    ranks = configuration.expert_parallel_size
    local = f" ({configuration.num_experts:,} on each of {ranks:,} ranks)" if ranks > 1 else ""
    return (
        f"{configuration.experts:,} experts{local}, topk {configuration.topk:,}, "
        f"max_num_batched_tokens {configuration.max_num_batched_tokens:,}, tile {configuration.tile:,}"
    )


def _verdict(line: Line) -> Text:
    if line.safe is None:
        return Text("ids cannot be distinct", style="yellow")
    if line.safe:
        return Text("safe", style="green")
    return Text(f"OVERRUN from {line.smallest_overrun_tokens:,} tokens", style="bold red")


def _print_routing(out: Console, configuration: Configuration, tokens: int) -> None:
    witness = worst_routing(configuration, tokens)
    text = runs(witness["tokens_per_expert"])
    out.print(
        f"Worst routing of {_tokens(tokens)}, experts packed, any ids: {witness['rows']:,} rows, "
        f"tokens_per_expert {text}",
        markup=False,
        soft_wrap=True,
    )


_SIZED_FOR = {"call": "the call", "max_num_batched_tokens": "the largest", "cap": "a fixed cap"}

_OUTCOMES = {
    CallOutcome.FITS: ("fits", "green"),
    CallOutcome.OVERRUN: ("OVERRUN", "bold red"),
    CallOutcome.REFUSED: ("refused", "yellow"),
    CallOutcome.NOT_MEANT: ("ids cannot be distinct", "yellow"),
}


def _print_call(out: Console, lines: list[CallLine], tokens: int) -> None:
    table = _table(f"A call of {_tokens(tokens)}, in the buffer of this configuration")
    table.add_column("sized for", no_wrap=True)
    for column in ("rows", "needed"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("placement", overflow="fold", ratio=1)
    for line in lines:
        said, style = _OUTCOMES[line.outcome]
        table.add_row(
            line.formula.name,
            _SIZED_FOR[line.formula.sized_for],
            f"{line.rows:,}",
            f"{line.needed:,}",
            Text(said, style=style),
            Text(f"{line.formula.placement}{'' if line.formula.ids == 'any' else '; distinct ids'}"),
        )
    out.print()
    out.print(table)


def _tokens(number: int) -> str:
    return f"{number:,} token{'' if number == 1 else 's'}"


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", expand=False, pad_edge=False)
    table.add_column("formula", no_wrap=True)
    return table
