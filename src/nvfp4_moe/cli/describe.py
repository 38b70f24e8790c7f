"""`nvfp4-moe describe`: what a subject does, measured, as the contract that it could promise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from rich.console import Console

from nvfp4_moe.cli.options import InputError, json_option, seed_option
from nvfp4_moe.cli.outputs import check_json_path, write_json
from nvfp4_moe.cli.streams import text_console
from nvfp4_moe.verification.result import EXIT_OK, EXIT_UNDECIDED

if TYPE_CHECKING:
    from nvfp4_moe.verification.describe import Description

_NAME_WIDTH = 16


@click.command("describe", short_help="Measure what a subject promises and print it as code.")
@click.argument("subject", metavar="NAME|FILE.py[:ATTR]")
@seed_option
@json_option
def command(*, subject: str, seed: int, json_path: str | None) -> int:
    """Measure a subject's recipe, padding, row order, ids -1, alignment and limits; print them as a Contract.

    Exit code 3 if a property could not be determined or the subject cannot be loaded here; measuring judges nothing.
    """
    from nvfp4_moe.verification.conformance.subject import SubjectError, SubjectUnavailable
    from nvfp4_moe.verification.describe import describe

    check_json_path(json_path, others=(subject,))
    out = text_console(json_path)
    try:
        with out.status("") as status:  # shows nothing where the output is no terminal
            found = describe(subject, seed=seed, progress=lambda probe: status.update(f"measuring: {probe}"))
    except SubjectError as error:
        raise InputError(str(error)) from error
    except SubjectUnavailable as error:
        out.print(f"SKIPPED {subject}: {error}", markup=False, soft_wrap=True)
        return EXIT_UNDECIDED
    _print(out, found)
    if json_path is not None:
        write_json(json_path, json.dumps(found.to_json(), indent=2) + "\n")
    return EXIT_UNDECIDED if found.undetermined else EXIT_OK


def _print(out: Console, found: Description) -> None:
    from nvfp4_moe.verification.conformance.contract import PRESETS

    card = found.card
    lines = [f"{card.name} ({card.device}): {', '.join(card.operations)}"]
    for line in found.lines:
        mark = "" if line.determined else "undetermined: "
        lines.append(f"  {line.name:<{_NAME_WIDTH}} {mark}{line.told}")
    lines += ["", found.contract.as_code(), ""]
    names = " or ".join(found.closest)
    lines.append(f"Closest preset: {names}{_differences(found.differs_from(PRESETS[found.closest[0]]))}")
    if declared := found.differs_from(card.contract):
        lines.append(f"The subject's own contract says otherwise{_differences(declared)}")
    for text in lines:
        out.print(text, markup=False, soft_wrap=True)


def _differences(pairs: dict[str, tuple[object, object]]) -> str:
    if not pairs:
        return ", no difference in what was measured"
    return ": " + ", ".join(f"{name} {theirs!r}, measured {ours!r}" for name, (ours, theirs) in pairs.items())
