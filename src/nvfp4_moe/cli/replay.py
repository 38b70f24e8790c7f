"""`nvfp4-moe replay`: run a saved counterexample again, or report on a router trace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size
from nvfp4_moe.cli.outputs import check_json_path, written
from nvfp4_moe.cli.streams import shown, tell, text_console, write_text
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED
from nvfp4_moe.verification.witness import (
    Counterexample,
    as_script,
    can_replay,
    load_counterexamples,
    replay,
    takes,
)

TRACE_SUFFIXES = (".jsonl", ".jsonl.gz", ".npy", ".npz", ".pt", ".pth")


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
@click.option("--topk", type=size(), metavar="N", help="Trace: experts of a token, if it does not say.")
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

    A router trace (.jsonl, .jsonl.gz, .npy, .npz, .pt, or .json responses of a server) is reported on: padding, use of
    every formula, broken claims; exit code 1 if a claim is refuted.
    """
    del seed  # nothing here is random
    check_json_path(json_path, others=(file, subject, against))
    subjects = {name: spec for name, spec in (("subject", subject), ("against", against)) if spec is not None}
    given = {name: value for name, value in options.items() if value is not None}
    if _is_trace(file):
        if script:
            raise InputError("--as-script needs a counterexample, not a router trace")
        _refuse(subjects, "only for counterexamples, this is a router trace")
        from nvfp4_moe.cli.trace import report_on_trace  # torch and numpy, for a trace alone

        return report_on_trace(file, json_path=json_path, **given)
    _refuse(given, f"only for router traces ({', '.join(TRACE_SUFFIXES)})")
    if script:
        _refuse(subjects | ({} if json_path is None else {"json": json_path}), "not with --as-script")
    with at_the_door():
        found = load_counterexamples(file)
    if script:
        return _print_script(found, file)
    if found:
        kinds = {name for example in found for name in takes(example.witness or {})}
        unused = {name: spec for name, spec in subjects.items() if name not in kinds}
        _refuse(unused, f"{file} holds no case that is run on it")
    return _replay_all(found, file, json_path, subjects)


def _is_trace(file: Path) -> bool:
    if file.name.endswith(TRACE_SUFFIXES):
        return True
    if not file.name.endswith((".json", ".json.gz")):
        return False
    from nvfp4_moe.verification.traces import is_response_document

    return is_response_document(file)


def _refuse(given: dict[str, Any], why: str) -> None:
    """Refuse options that would be ignored."""
    if given:
        raise InputError(f"{', '.join('--' + name.replace('_', '-') for name in given)}: {why}")


def _print_script(found: list[Counterexample], file: Path) -> int:
    witnesses = [example.witness for example in found if example.witness is not None]
    if len(witnesses) != 1:
        raise InputError(
            f"--as-script needs a file with one counterexample, this one has {len(witnesses)}; "
            "verify saves each in a file of its own"
        )
    with _named(file):
        text = as_script(witnesses[0])
    write_text(text)
    return EXIT_OK


@contextlib.contextmanager
def _named(file: Path, place: str = "") -> Iterator[None]:
    """Turn the errors of a witness that is not legal into one line with the file and the place in it."""
    try:
        with at_the_door():
            yield
    except InputError as error:
        raise InputError(": ".join(filter(None, [str(file), place, str(error)]))) from error


def _replay_all(
    found: list[Counterexample], file: Path, json_path: str | None, subjects: dict[str, str]
) -> int:
    out = text_console(json_path)
    replays: list[dict[str, Any]] = []
    bad: list[InputError] = []
    for example in found:
        reproduces: bool | None = None
        lines: tuple[str, ...] = ()
        try:
            with _named(file, example.place):
                reproduces, lines = _outcome(example, subjects)
        except InputError as error:
            if not example.place:
                raise
            bad.append(error)  # the others of the run are run nevertheless
            lines = (f"cannot be read: {error}",)
        replays.append(_entry(out, example, reproduces, lines))
    if not found:
        out.print(f"{shown(file)}: no refuted claim, nothing to run again", markup=False, soft_wrap=True)
    document = json.dumps({"file": str(file), "replays": replays}, indent=2) + "\n"
    delivered = json_path is None or written(json_path, document)
    required = [entry["reproduces"] for entry in replays if entry["required"]]
    if True in required:
        for fault in bad:
            tell(f"error: {fault}")
        return EXIT_REFUTED
    if bad:
        raise bad[0]
    return EXIT_UNDECIDED if None in required or not delivered else EXIT_OK


def _entry(
    out: Console, example: Counterexample, reproduces: bool | None, lines: tuple[str, ...]
) -> dict[str, Any]:
    """Print what came out of one and return its JSON form; `reproduces` is null where it cannot be run."""
    name = example.claim or "counterexample"
    entry: dict[str, Any] = {"claim": example.claim, "required": example.required}
    if example.subject is not None:
        entry["subject"] = example.subject
        name += f" ({example.subject})"
    informs = "" if example.required else " (informs)"
    out.print(shown(name) + informs, markup=False, style="bold", soft_wrap=True)
    for line in lines:
        out.print(f"  {shown(line)}", markup=False, soft_wrap=True)
    return entry | {"reproduces": reproduces, "lines": list(lines)}


def _outcome(example: Counterexample, subjects: dict[str, str]) -> tuple[bool | None, tuple[str, ...]]:
    """Run one again; return whether it reproduces, None where it cannot be run, and what to tell."""
    if example.witness is None:
        return None, ("refuted without a witness: nothing to run again",)
    if example.claim is not None and not can_replay(example.witness):  # ours, but of a kind that is only told
        return None, (f"nothing runs a witness of kind {example.witness.get('kind')!r:.60} again",)
    try:
        done = replay(example.witness, **subjects)
    except CannotReplay as error:
        return None, (f"cannot be run again here: {error}",)
    return done.reproduces, (*done.lines, "reproduces" if done.reproduces else "does not reproduce")
