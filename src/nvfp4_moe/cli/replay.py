"""`nvfp4-moe replay`: run a saved counterexample again, or report on a router trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size
from nvfp4_moe.cli.outputs import check_json_path, text_console, write_json
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED
from nvfp4_moe.verification.witness import Counterexample, as_script, can_replay, load_counterexamples, replay

TRACE_SUFFIXES = (".jsonl", ".jsonl.gz", ".npy", ".npz")


@click.command("replay", short_help="Run a saved counterexample again, or report on a router trace.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as-script", "script", is_flag=True, help="Print a stand-alone torch script that shows it instead."
)
@click.option(
    "--subject",
    metavar="NAME|FILE.py[:ATTR]",
    help="What to run the case of a subject's fault on; a file is never run unless it is named here.",
)
@click.option(
    "--against", metavar="NAME|FILE.py[:ATTR]", help="The same of the subject that it was compared with."
)
@click.option("--bound", metavar="FORMULA|EXPRESSION", help="Trace: the bound to judge.  [default: proposed]")
@click.option("--experts", type=size(), metavar="N", help="Trace: experts of the model, if it does not say.")
@click.option(
    "--expert-parallel-size", type=size(), metavar="N", help="Trace: deal the experts out to N ranks."
)
@click.option(
    "--max-num-batched-tokens",
    type=size(),
    metavar="N",
    help="Trace: re-batch to N tokens and judge the bound for it.",
)
@click.option("--tile", type=size(), metavar="N", help="Trace: rows of a scale tile.  [default: 128]")
@seed_option
@json_option
def command(
    *,
    file: Path,
    script: bool,
    subject: str | None,
    against: str | None,
    seed: int,
    json_path: str | None,
    **options: Any,
) -> int:
    """Run the counterexamples of FILE again: a file that verify saved, or the JSON of a verify run.

    Exit code 1 if one that the run required still reproduces, 3 if one cannot be run again on this machine, else 0.

    A router trace (.jsonl, .jsonl.gz, .npy, .npz) is reported on: padding, use of every formula, broken claims; exit
    code 1 if a claim is refuted.
    """
    del seed  # nothing here is random
    check_json_path(json_path)
    given = {name: value for name, value in options.items() if value is not None}
    if file.name.endswith(TRACE_SUFFIXES):
        if script:
            raise InputError("--as-script needs a counterexample, not a router trace")
        from nvfp4_moe.cli.trace import report_on_trace  # torch and numpy, for a trace alone

        return report_on_trace(file, json_path=json_path, **given)
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"{names}: only for router traces ({', '.join(TRACE_SUFFIXES)})")
    with at_the_door():
        found = load_counterexamples(file)
    subjects = {"subject": subject, "against": against}
    return _print_script(found) if script else _replay_all(found, file, json_path, subjects)


def _print_script(found: list[Counterexample]) -> int:
    witnesses = [example.witness for example in found if example.witness is not None]
    if len(witnesses) != 1:
        raise InputError(
            f"--as-script needs a file with one counterexample, this one has {len(witnesses)}; "
            "verify saves each in a file of its own"
        )
    with at_the_door():
        text = as_script(witnesses[0])
    click.echo(text, nl=False)
    return EXIT_OK


def _replay_all(
    found: list[Counterexample], file: Path, json_path: str | None, subjects: dict[str, str | None]
) -> int:
    out = text_console(json_path)
    replays = [_replay(out, example, subjects) for example in found]
    if not found:
        out.print(f"{file}: no refuted claim, nothing to run again", markup=False, soft_wrap=True)
    if json_path is not None:
        write_json(json_path, json.dumps({"file": str(file), "replays": replays}, indent=2) + "\n")
    required = [entry for entry in replays if entry["required"]]
    if any(entry["reproduces"] for entry in required):
        return EXIT_REFUTED
    return EXIT_UNDECIDED if any(entry["reproduces"] is None for entry in required) else EXIT_OK


def _replay(out: Console, example: Counterexample, subjects: dict[str, str | None]) -> dict[str, Any]:
    """Run one again, print what came out and return its JSON form; `reproduces` is null where it cannot be run."""
    name = example.claim or "counterexample"
    entry: dict[str, Any] = {"claim": example.claim, "required": example.required}
    if example.subject is not None:
        entry["subject"] = example.subject
        name += f" ({example.subject})"
    reproduces, lines = _outcome(example, subjects)
    out.print(name + ("" if example.required else " (informs)"), markup=False, style="bold", soft_wrap=True)
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    return entry | {"reproduces": reproduces, "lines": list(lines)}


def _outcome(example: Counterexample, subjects: dict[str, str | None]) -> tuple[bool | None, tuple[str, ...]]:
    if example.witness is None:
        return None, ("refuted without a witness: nothing to run again",)
    if example.claim is not None and not can_replay(example.witness):  # ours, but of a kind that is only told
        return None, (f"nothing runs a witness of kind {example.witness.get('kind')!r:.60} again",)
    try:
        with at_the_door():
            done = replay(example.witness, **subjects)
    except CannotReplay as error:
        return None, (f"cannot be run again here: {error}",)
    return done.reproduces, (*done.lines, "reproduces" if done.reproduces else "does not reproduce")
