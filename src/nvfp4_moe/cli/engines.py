"""`nvfp4-moe engines`: every engine's sizing formula side by side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from nvfp4_moe.cli.options import at_the_door, json_option, seed_option, size, tile_option
from nvfp4_moe.cli.outputs import check_json_path, written
from nvfp4_moe.cli.streams import shown, text_console
from nvfp4_moe.cli.tables import heading, is_narrow, titled
from nvfp4_moe.verification.result import EXIT_OK, EXIT_UNDECIDED

if TYPE_CHECKING:
    from nvfp4_moe.analysis.engines import EngineLine, Looseness


@click.command("engines", short_help="Every engine's sizing formula side by side.")
@click.option("--expert-parallel-size", type=size(), default=1, show_default=True, metavar="N")
@tile_option
@seed_option
@json_option
def command(*, tile: int, expert_parallel_size: int, seed: int, json_path: str | None) -> int:
    """Show every engine's formula: safe for which routings, proved, attained or not, how loose, what breaks it.

    Looseness is its rows over those of the exact worst case: the worst of the stated grid, and the median
    over the known models for a full batch and for a decoding call. This takes some seconds, and informs: the
    exit status is 0 whatever it finds. Nothing here is random; --seed has no effect.
    """
    del seed
    from nvfp4_moe.analysis import engines

    check_json_path(json_path)
    with at_the_door():
        lines = engines.engine_lines(tile=tile, expert_parallel_size=expert_parallel_size)
    out = text_console(json_path)
    _print(out, lines, typical=engines.TYPICAL_TOKENS, decode=engines.DECODE_TOKENS)
    if json_path is not None:
        document = engines.document(lines, tile=tile, expert_parallel_size=expert_parallel_size)
        if not written(json_path, json.dumps(document, indent=2, allow_nan=False) + "\n"):
            return EXIT_UNDECIDED
    return EXIT_OK


def _print(out: Console, lines: list[EngineLine], *, typical: int, decode: int) -> None:
    table = titled("Sizing formulas", out=out)
    narrow = is_narrow(out)
    for name in ("formula", "verdict", "proof"):
        table.add_column(name, no_wrap=True)
    for name in ("attained in", "x exact: worst", f"{typical:,} tokens", f"{decode:,} tokens"):
        table.add_column(heading(name, out=out), justify="right", no_wrap=True)
    if not narrow:
        table.add_column("who uses it; judged for", overflow="fold", ratio=1)
    for line in lines:
        who = [] if narrow else [Text(shown(_who(line)))]
        table.add_row(
            line.formula.name,
            Text("safe", style="green") if line.safe else Text("UNSAFE", style="bold red"),
            str(line.proof.verdict),
            f"{line.attained:,} of {line.configurations:,}",
            f"{line.worst.ratio:,.2f}",
            f"{line.typical:,.3f}",
            f"{line.decode:,.2f}",
            *who,
        )
    out.print(table)
    if narrow:
        for line in lines:
            out.print(Text(shown(f"{line.formula.name}: {_who(line)}")), soft_wrap=True)
    for line in lines:
        if not line.safe:
            out.print(Text(shown(f"{line.formula.name}: {line.search.detail}")), soft_wrap=True)
    for line in lines:
        if line.worst.rows > line.worst.exact:
            out.print(Text(shown(f"{line.formula.name} is loosest with {_at(line.worst)}")), soft_wrap=True)


def _who(line: EngineLine) -> str:
    return f"{line.engine}; {line.domain}"


def _at(worst: Looseness) -> str:
    return (
        f"max_num_batched_tokens {worst.max_num_batched_tokens:,}, topk {worst.topk:,}, "
        f"num_experts {worst.num_experts:,}: {worst.rows:,} rows for {worst.exact:,}"
    )
