"""Golden check of SiLU as `reference` defines it: the real value rounded once to float32."""

from __future__ import annotations

import numpy as np

from nvfp4_moe.verification import oracle_silu
from nvfp4_moe.verification.golden.inputs import PATTERNS, TYPES, SixteenBits, bits_of
from nvfp4_moe.verification.golden.tally import Tally

SILU_STEP = 61
"""Level 1 compares every 61st 16-bit input, level 2 all: the oracle takes a tenth of a millisecond for each."""


def check_silu(tally: Tally) -> None:
    """Bits of silu for 16-bit inputs."""
    step = 1 if tally.level >= 2 else SILU_STEP
    tally.covers("SiLU of all 16-bit inputs" if step == 1 else f"SiLU of every {step}st 16-bit input")
    for kind in TYPES:
        if not _compare(tally, kind, step):
            return


def _compare(tally: Tally, kind: SixteenBits, step: int) -> bool:
    patterns = np.arange(0, PATTERNS, step, dtype=np.uint32).astype(np.uint16)
    true = np.array([oracle_silu.silu(float(x)) for x in kind.numbers[patterns]], dtype=np.float32)
    subject = tally.model.silu(kind.tensor(patterns)).numpy()
    return tally.compare(
        "bits of silu",
        bits_of(true),
        bits_of(subject),
        case=lambda at: {"dtype": kind.name, "pattern": int(patterns[at])},
    )
