"""`nvfp4-moe bound`: every sizing formula for one configuration."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nvfp4_moe.cli.options import (
    at_the_door,
    check_json_path,
    json_option,
    seed_option,
    size,
    text_console,
    tile_option,
    write_json,
)
from nvfp4_moe.verification.bound_table import (
    Configuration,
    Line,
    document,
    formula_lines,
    rows_for_call,
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
    a call needs, and whether that fits. Nothing here is random; --seed has no effect.
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
        _print_call(out, configuration, lines, tokens)
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
        f"Worst routing of {tokens:,} tokens, any ids: {witness['rows']:,} rows, tokens_per_expert {text}",
        markup=False,
        soft_wrap=True,
    )


def _print_call(out: Console, configuration: Configuration, lines: list[Line], tokens: int) -> None:
    needed = worst_routing(configuration, tokens)["rows"]
    rows = rows_for_call(configuration, tokens)
    table = _table(f"A call of {tokens:,} tokens: its worst routing needs {needed:,} rows")
    for column in ("rows sized for the call", "rows sized for the largest"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("guard", no_wrap=True)
    for line in lines:
        accepted = tokens <= line.guard_tokens
        table.add_row(
            line.formula.name,
            f"{rows[line.formula.name]:,}",
            f"{line.rows:,}",
            Text("lets it through") if accepted else Text("refuses it", style="yellow"),
        )
    out.print()
    out.print(table)


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", expand=False, pad_edge=False)
    table.add_column("formula", no_wrap=True)
    return table
