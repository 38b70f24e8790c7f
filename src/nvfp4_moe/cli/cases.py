"""`nvfp4-moe cases`: golden vectors for tests in another language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option, size
from nvfp4_moe.cli.outputs import check_json_path, write_json
from nvfp4_moe.cli.streams import text_console
from nvfp4_moe.verification.result import EXIT_OK


@click.command("cases", short_help="Write golden vectors (.npz) for tests in another language.")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="New or empty folder.",
)
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    help="Operation of the subject protocol; repeatable.  [default: all]",
)
@click.option("--level", type=size(1, 2), default=1, show_default=True, metavar="1|2")
@click.option("--limit", type=size(), metavar="N", help="Most cases of an operation, spread over them.")
@click.option("--recipe", default="vllm", show_default=True, metavar="NAME", help="Recipe of the quantizers.")
@click.option(
    "--chip",
    metavar="NAME",
    help='Bytes as this chip\'s approximate instructions give them, such as "NVIDIA H200".  [default: correctly rounded]',
)
@seed_option
@json_option
def command(*, folder: Path, json_path: str | None, **options: Any) -> int:
    """Write inputs and true outputs of the conformance cases into DIR, with a manifest of hashes.

    Without --limit, level 1 is about 200 MB. DIR appears when all of it is written.
    """
    from nvfp4_moe.cli.render import observer
    from nvfp4_moe.reference.tables import MissingTableError
    from nvfp4_moe.verification.golden_vectors import Choice, check_folder, write_vectors
    from nvfp4_moe.verification.job import Job

    check_json_path(json_path, others=(folder,))
    with at_the_door():
        try:
            choice = Choice(**options)
        except MissingTableError as error:
            raise InputError(str(error.args[0])) from error
        check_folder(folder)
    out = text_console(json_path)
    job = Job(name="golden vectors", tells=(), work=lambda advance: (), cases=len(choice.cases()))
    with observer(out) as watcher, at_the_door():
        watcher.start(job)
        manifest = write_vectors(folder, choice, progress=watcher.advance)
    out.print(f"{len(manifest['cases']):,} cases in {folder}", markup=False, soft_wrap=True)
    if json_path is not None:
        write_json(json_path, json.dumps(manifest, indent=1) + "\n")
    return EXIT_OK
