"""`nvfp4-moe capacity`: is a sizing formula safe for the flags of a server?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size, tile_option
from nvfp4_moe.cli.outputs import check_json_path, written
from nvfp4_moe.cli.streams import shown, text_console
from nvfp4_moe.cli.tables import heading, titled
from nvfp4_moe.verification.result import EXIT_UNDECIDED

if TYPE_CHECKING:
    from nvfp4_moe.analysis.capacity import Capacity, Judged
    from nvfp4_moe.analysis.serving_flags import ServingFlags

_STYLES = {"safe": "green", "unsafe": "bold red", "not_applicable": "cyan", "unknown": "yellow"}
_SAID = {"not_applicable": "not applicable", "guard_fires": "its guard fires", "overrun": "OVERRUN"}


@click.command("capacity", short_help="Is a sizing formula safe for the flags of a server?")
@click.option(
    "--max-num-batched-tokens", type=size(), required=True, metavar="N", help="As the scheduler is told."
)
@click.option(
    "--model", metavar="NAME|FILE", help="A model by name, or its config.json, instead of --experts --topk."
)
@click.option("--experts", type=size(), metavar="N", help="Experts of the model, over all ranks.")
@click.option("--topk", type=size(), metavar="N", help="Experts a token is routed to.")
@click.option("--tensor-parallel-size", "-tp", type=size(), default=1, show_default=True, metavar="N")
@click.option("--data-parallel-size", "-dp", type=size(), default=1, show_default=True, metavar="N")
@click.option("--pipeline-parallel-size", "-pp", type=size(), default=1, show_default=True, metavar="N")
@click.option(
    "--prefill-context-parallel-size", "-pcp", type=size(), default=1, show_default=True, metavar="N"
)
@click.option("--enable-expert-parallel", "-ep", is_flag=True, help="Deal the experts out to all ranks.")
@click.option(
    "--all2all-backend",
    default="allgather_reducescatter",
    show_default=True,
    metavar="NAME",
    help="As vLLM names them.",
)
@click.option(
    "--compilation-config", "-cc", metavar="JSON", help="As given to vLLM; pass_config.enable_sp matters."
)
@click.option("--speculative-config", metavar="JSON", help="As given to vLLM.")
@click.option("--enable-dbo", is_flag=True, help="Dual batch overlap.")
@click.option("--enable-lora", is_flag=True)
@click.option(
    "--caller",
    type=click.Choice(["engine", "config", "op"]),
    default="engine",
    show_default=True,
    help="Who calls the kernel: vLLM's layer; code that builds FusedMoEConfig itself, with calls of "
    "--max-num-batched-tokens tokens; or code that calls the operation.",
)
@click.option(
    "--ids",
    type=click.Choice(["any", "distinct"]),
    default="any",
    show_default=True,
    help="May a token name an expert twice, as with simulated or hash routing?",
)
@click.option(
    "--formula", default="proposed", show_default=True, metavar="NAME", help="What the exit code is about."
)
@tile_option
@seed_option
@json_option
def command(*, formula: str, seed: int, json_path: str | None, **options: Any) -> int:
    """Say how many tokens can reach the NVFP4 expert kernel of one rank, and which sizing formulas hold then.

    The flags are vLLM's, by their names. For each formula that does not hold: the smallest traffic that
    breaks it, and what to do. Exit code 0 if --formula is safe, or not applicable because the back end
    refuses such flags; 1 if it is unsafe; 3 if that is not known; 2 for flags that contradict each other.

    Nothing here is random; --seed has no effect.
    """
    del seed
    from nvfp4_moe.analysis.capacity import EXIT_CODES, capacity
    from nvfp4_moe.analysis.zoo import config_file

    check_json_path(json_path, others=() if options["model"] is None else (config_file(options["model"]),))
    experts, topk, ids, tile = (options.pop(name) for name in ("experts", "topk", "ids", "tile"))
    with at_the_door():
        flags = _flags(options)
        experts, topk = _model(options["model"], experts, topk, flags)
        answer = capacity(flags, experts=experts, topk=topk, ids=ids, tile=tile)
        if formula not in answer.formulas:
            raise InputError(f"--formula must be one of {', '.join(answer.formulas)}, got {formula!r:.60}")
    out = text_console(json_path)
    _print(out, answer, answer.formulas[formula])
    code = EXIT_CODES[answer.formulas[formula].verdict]
    if json_path is not None:
        text = json.dumps(answer.to_json(), indent=2, allow_nan=False) + "\n"
        return code if written(json_path, text) else code or EXIT_UNDECIDED
    return code


def _flags(options: dict[str, Any]) -> ServingFlags:
    from nvfp4_moe.analysis.serving_flags import (
        Caller,
        CompilationConfig,
        ServingFlags,
        parse_compilation_config,
        parse_speculative_config,
    )

    compilation, speculative = options["compilation_config"], options["speculative_config"]
    given = {name: value for name, value in options.items() if name in _SIMPLE_FLAGS}
    return ServingFlags(
        compilation_config=CompilationConfig()
        if compilation is None
        else parse_compilation_config(compilation),
        num_speculative_tokens=0 if speculative is None else parse_speculative_config(speculative),
        caller=Caller(options["caller"]),
        **given,
    )


_SIMPLE_FLAGS = (
    "max_num_batched_tokens",
    "tensor_parallel_size",
    "data_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "enable_expert_parallel",
    "all2all_backend",
    "enable_dbo",
    "enable_lora",
)


def _model(given: str | None, experts: int | None, topk: int | None, flags: ServingFlags) -> tuple[int, int]:
    """Return experts and top-k of the model; a width that the ranks cannot share is refused, as engines do."""
    if given is None:
        if experts is None or topk is None:
            raise InputError("give --model, or --experts and --topk")
        return experts, topk
    if experts is not None or topk is not None:
        raise InputError("--model and --experts or --topk contradict: the model says both")
    from nvfp4_moe.analysis.zoo import find_model
    from nvfp4_moe.analysis.zoo_shape import shard

    model = find_model(given)
    cut = 1 if flags.enable_expert_parallel else flags.ranks
    shard(model, tensor_parallel_size=cut, expert_parallel_size=flags.expert_parallel_size)
    return model.num_experts, model.topk


# --- output ----------------------------------------------------------------------------------------------------


def _print(out: Console, answer: Capacity, chosen: Judged) -> None:
    steps = titled("From the flags to the kernel", out=out)
    steps.add_column("tokens", justify="right", no_wrap=True)
    steps.add_column("step", overflow="fold", ratio=3)
    steps.add_column("source", overflow="fold", ratio=2)
    notes = []
    for step in answer.reach.steps:
        if isinstance(step.value, int) or step.value in ("refused", "unknown"):
            value = f"{step.value:,}" if isinstance(step.value, int) else step.value
            steps.add_row(value, Text(shown(step.name)), Text(step.source))
        else:
            notes.append(f"{step.name}: {step.value} ({step.source})")
    out.print(steps)
    out.print(Text(_reached(answer)), soft_wrap=True)
    out.print()
    out.print(_formulas(answer, out))
    for judged in answer.formulas.values():
        if judged.witness is not None:
            out.print(Text(f"{judged.formula.name}: {_broken(judged)}"), soft_wrap=True)
    for note in notes:
        out.print(Text(shown(note)), soft_wrap=True)
    said = _SAID.get(chosen.verdict, str(chosen.verdict))
    out.print(
        Text(f"{chosen.formula.name}: ")
        + Text(said, style=_STYLES[chosen.verdict])
        + Text(f" ({_why(chosen)})"),
        soft_wrap=True,
    )


def _reached(answer: Capacity) -> str:
    if answer.reach.max_tokens is None:
        return "How many tokens reach the kernel is " + (
            "no question: it does not run with these flags."
            if str(answer.reach.reach) == "refused"
            else "not known for these flags."
        )
    return (
        f"At most {answer.reach.max_tokens:,} tokens reach the kernel of one rank; their worst routing "
        f"({answer.ids} ids) needs {answer.rows:,} scale rows."
    )


def _formulas(answer: Capacity, out: Console) -> Table:
    table = titled(
        f"{answer.experts:,} experts, topk {answer.topk:,}, tile {answer.tile:,}, {answer.ids} ids", out=out
    )
    table.add_column("formula", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("needed", justify="right", no_wrap=True)
    table.add_column("fails by", no_wrap=True)
    table.add_column(heading("at tokens", out=out), justify="right", no_wrap=True)
    for name, judged in answer.formulas.items():
        table.add_row(
            name,
            Text(_SAID.get(judged.verdict, str(judged.verdict)), style=_STYLES[judged.verdict]),
            _number(judged.rows),
            _number(judged.required),
            "" if judged.failure is None else _SAID[judged.failure],
            _number(None if judged.witness is None else judged.witness.tokens),
        )
    return table


def _broken(judged: Judged) -> str:
    witness = judged.witness
    assert witness is not None
    assert judged.failure is not None
    if witness.routing is None:
        needs = f"{witness.routed_rows:,} routed rows, its guard lets {witness.limit:,} through"
    else:
        needs = f"they can need {witness.routing.rows:,} rows, the buffer has {witness.limit:,}"
    return shown(f"{_SAID[judged.failure]}: {witness.traffic}: {needs}. What to do: {witness.advice}.")


def _why(judged: Judged) -> str:
    if judged.verdict == "safe":
        return f"{_number(judged.rows)} rows for at most {_number(judged.required)} needed"
    if judged.witness is not None:
        return f"from {judged.witness.tokens:,} tokens on"
    return "the steps above say why"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
