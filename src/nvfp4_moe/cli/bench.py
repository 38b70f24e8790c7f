"""`nvfp4-moe bench`: speed of the kernels or of the CPU code, beside yardsticks of the same run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nvfp4_moe.cli.options import InputError, at_the_door, json_option, seed_option
from nvfp4_moe.cli.outputs import check_json_path, write_json
from nvfp4_moe.cli.streams import console, shown, text_console
from nvfp4_moe.verification.result import EXIT_OK, EXIT_REFUTED, EXIT_UNDECIDED


@click.command("bench", short_help="Measure the kernels on a GPU, or the CPU code.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="cuda: the kernels; cpu: host twin, golden quantizers, fuzz.",
)
@click.option(
    "--baseline",
    "baseline_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A record of --json: ratios that became worse beyond their noise fail.",
)
@seed_option
@json_option
def command(*, device: str, baseline_path: Path | None, seed: int, json_path: str | None) -> int:
    """Measure speed, each figure beside yardsticks of the same run.

    On a GPU every timed configuration is compared byte for byte with the golden model. Clocks are read, never set.
    Exit code 1 if bytes differ or, with --baseline, something became slower beyond its noise; 3 if the kernels could
    not be built; 2 for wrong usage.
    """
    from nvfp4_moe.cuda.build import BuildError
    from nvfp4_moe.verification.bench.quant_case import WrongBytesError
    from nvfp4_moe.verification.bench.ratios import compare, read_baseline
    from nvfp4_moe.verification.bench.record import run, table

    check_json_path(json_path, others=[baseline_path])
    with at_the_door():
        baseline = None if baseline_path is None else read_baseline(baseline_path)
    device = _present(device)
    out, progress = text_console(json_path), console(stderr=True)
    try:
        record = run(
            device, seed=seed, progress=lambda line: progress.print(f"measuring: {line}", markup=False)
        )
    except WrongBytesError as error:
        progress.print(f"nvfp4-moe: {shown(error)}", markup=False, soft_wrap=True)
        return EXIT_REFUTED
    except BuildError as error:
        progress.print(f"nvfp4-moe: not measured: {error}", markup=False, soft_wrap=True)
        return EXIT_UNDECIDED
    out.print(table(record), markup=False, soft_wrap=True)
    if json_path is not None:
        write_json(json_path, json.dumps(record, indent=1) + "\n")
    if baseline is None:
        return EXIT_OK
    with at_the_door():
        slower, told = compare(record, baseline)
    for line in told:
        out.print(f"baseline: {shown(line)}", markup=False, soft_wrap=True)
    for line in slower:
        progress.print(f"slower than the baseline: {shown(line)}", markup=False, soft_wrap=True)
    out.print(f"{len(baseline.ratios)} stored ratios, {len(slower)} slower or missing", markup=False)
    return EXIT_REFUTED if slower else EXIT_OK


def _present(device: str) -> str:
    """Return the device to measure: "auto" is the GPU where there is one."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: no CUDA device is present")
    return device
