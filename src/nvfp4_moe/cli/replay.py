"""`nvfp4-moe replay`: run a saved counterexample again, or report on a router trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from nvfp4_moe.cli.options import (
    InputError,
    at_the_door,
    check_json_path,
    json_option,
    seed_option,
    text_console,
    write_json,
)
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED
from nvfp4_moe.verification.script import as_script
from nvfp4_moe.verification.witness import Counterexample, load_counterexamples, replay

_TRACE_SUFFIXES = (".jsonl", ".jsonl.gz", ".npy", ".npz")


@click.command("replay", short_help="Run a saved counterexample again, or report on a router trace.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as-script", "script", is_flag=True, help="Print a stand-alone torch script that shows it instead."
)
@seed_option
@json_option
def command(*, file: Path, script: bool, seed: int, json_path: str | None) -> int:
    """Run the counterexamples of FILE again: a file that verify saved, or the JSON of a verify run.

    Exit code 1 if one that the run required still reproduces, 0 if none does, 3 if a refuted claim came without
    anything to replay. A router trace (.jsonl, .jsonl.gz, .npy, .npz) is reported on.
    """
    del seed  # nothing here is random
    check_json_path(json_path)
    with at_the_door():
        found = load_counterexamples(file)
    if script:
        return _print_script(found)
    return _replay_all(found, file, json_path)


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


def _replay_all(found: list[Counterexample], file: Path, json_path: str | None) -> int:
    out = text_console(json_path)
    replays = [_replay(out, example) for example in found]
    if not found:
        out.print(f"{file}: no refuted claim, nothing to run again", markup=False, soft_wrap=True)
    if json_path is not None:
        write_json(json_path, json.dumps({"file": str(file), "replays": replays}, indent=2) + "\n")
    required = [entry for entry in replays if entry["required"]]
    if any(entry["reproduces"] for entry in required):
        return EXIT_REFUTED
    return EXIT_UNDECIDED if any(entry["reproduces"] is None for entry in required) else EXIT_OK


def _replay(out: Console, example: Counterexample) -> dict[str, Any]:
    """Run one again, print what came out and return its JSON form; `reproduces` is null without a witness."""
    name = example.claim or "counterexample"
    entry: dict[str, Any] = {"claim": example.claim, "required": example.required, "reproduces": None}
    if example.subject is not None:
        entry["subject"] = example.subject
        name += f" ({example.subject})"
    if example.witness is None:
        lines: tuple[str, ...] = ("refuted without a witness: nothing to run again",)
    else:
        with at_the_door():
            done = replay(example.witness)
        entry["reproduces"] = done.reproduces
        lines = (*done.lines, "reproduces" if done.reproduces else "does not reproduce")
    out.print(name + ("" if example.required else " (informs)"), markup=False, style="bold", soft_wrap=True)
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    return entry | {"lines": list(lines)}
