"""Measures what the approximate instructions return on the present GPU, and writes it as tables for the golden model.

    python -m nvfp4_moe.cuda.measure --out DIR [--device N]

Three tables (`nvfp4_moe.reference.tables` has the format), each named after chip and instruction sequence:

- reciprocal: `rcp.approx.ftz.f32` over the 2^23 mantissas of one binade, as distances in ulp from the correctly rounded
  value. The distance must be the same in every binade measured, or nothing is written.
- silu_bf16, silu_f16: `__fdividef(x, 1 + __expf(-x))` of all 65,536 inputs.

Copy the files to `reference/data/` to make the golden model predict every byte of kernels on that chip.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch

from nvfp4_moe.cuda.build import cuda_library
from nvfp4_moe.reference.tables import SUFFIX, Table, save_table

RECIPROCAL_SEQUENCE = "rcp.approx.ftz.f32"
SILU_SEQUENCE = "__fdividef(x, 1 + __expf(-x))"
MANTISSAS = 2**23
PATTERNS = 2**16
BINADES = (0x3F800000, 0x00800000, 0x01000000, 0x30000000, 0x3F000000, 0x40000000, 0x47800000, 0x7E000000)
"""Bits of the first number of each binade measured; the first one goes into the table."""


class BinadesDifferError(RuntimeError):
    """The distance depends on more than the mantissa: the table's form cannot describe this chip."""


def measure(device: torch.device | str = "cuda") -> list[Table]:
    """Return the three tables of `device`.

    Raises:
        BinadesDifferError: see the class.
        BuildError: the kernels could not be built.
    """
    device = torch.device(device)
    chip = torch.cuda.get_device_name(device)
    provenance = {
        "program": "nvfp4_moe.cuda.measure",
        "capability": ".".join(map(str, torch.cuda.get_device_capability(device))),
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
    }
    silu = {
        kind: Table(
            kind=kind,
            chip=chip,
            sequence=SILU_SEQUENCE,
            values=silu_bits(dtype, device),
            provenance=provenance,
        )
        for kind, dtype in (("silu_bf16", torch.bfloat16), ("silu_f16", torch.float16))
    }
    reciprocal = Table(
        kind="reciprocal",
        chip=chip,
        sequence=RECIPROCAL_SEQUENCE,
        values=reciprocal_ulps(device),
        provenance=provenance,
    )
    return [reciprocal, *silu.values()]


def reciprocal_ulps(device: torch.device) -> torch.Tensor:
    """Return int8 (2^23,) on the CPU: bits(measured 1/x) - bits(correctly rounded 1/x) by mantissa.

    Raises:
        BinadesDifferError: two binades differ, or a distance does not fit int8.
    """
    library = cuda_library()
    first: torch.Tensor | None = None
    for base in BINADES:
        ulps = torch.empty(MANTISSAS, dtype=torch.int32, device=device)
        library.measure_reciprocal(ulps, base)
        if first is None:
            first = ulps
        elif not ulps.equal(first):
            mantissa = int(torch.nonzero(ulps != first)[0])
            raise BinadesDifferError(
                f"{RECIPROCAL_SEQUENCE}: mantissa 0x{mantissa:06x} is {int(first[mantissa])} ulp off at base "
                f"0x{BINADES[0]:08x} and {int(ulps[mantissa])} ulp at base 0x{base:08x}"
            )
    assert first is not None
    narrow = first.to(torch.int8)
    if not narrow.to(torch.int32).equal(first):
        raise BinadesDifferError(
            f"{RECIPROCAL_SEQUENCE}: a distance of {int(first.abs().max())} ulp fits no int8"
        )
    return narrow.cpu()


def silu_bits(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return int32 (65536,) on the CPU: bits of the float32 SiLU of each input, by the input's bits."""
    bits = torch.empty(PATTERNS, dtype=torch.int32, device=device)
    cuda_library().measure_silu(bits, dtype == torch.bfloat16)
    return bits.cpu()


def file_name(table: Table) -> str:
    """Return the name under which a table is stored, such as `reciprocal-nvidia-h200.table`."""
    chip = re.sub(r"[^a-z0-9]+", "-", table.chip.lower()).strip("-")
    return f"{table.kind.replace('_', '-')}-{chip}{SUFFIX}"


def main(words: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the approximate instructions of the present GPU.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--device", type=int, default=0, help="index of the GPU")
    options = parser.parse_args(words)
    if not torch.cuda.is_available():
        parser.error("no CUDA device is present")
    options.out.mkdir(parents=True, exist_ok=True)
    for table in measure(torch.device("cuda", options.device)):
        path = options.out / file_name(table)
        save_table(table, path)
        print(f"{path}: {table.name}, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
