"""Golden check of the experts' forms: ragged rows, the gated form and the masked one, one encode scale per expert."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from nvfp4_moe.reference.quantize import Quantized
from nvfp4_moe.verification import counter, oracle, oracle_layout, oracle_silu
from nvfp4_moe.verification.golden.inputs import PATTERNS, TYPES, SixteenBits
from nvfp4_moe.verification.golden.tally import Tally

COUNTS = (0, 1, 129, 3, 128, 0, 17)
"""Rows of each expert."""
GATED_COUNTS = (2, 0, 33, 1, 0, 0, 1)
"""The same for the gated form, whose oracle takes a tenth of a millisecond for each number."""
TAIL_ROWS = 4
"""Rows behind the last expert's, which nobody owns."""
EXPERT_COLUMNS = 80
EXPERT_SCALES = np.array([1.0, 2.0, 311.25, 0.5, 700.0, 9.0, 0.001], dtype=np.float32)
MASKED_ROWS = 130
MASKED_COUNTS = (0, 130, 33)


def check_experts(tally: Tally) -> None:
    """Packed bytes and whole scale buffers, padding included."""
    tally.covers("ragged, gated and masked experts")
    for kind in TYPES:
        if not (_compare_experts(tally, kind) and _compare_masked(tally, kind)):
            return


def _finite(tally: Tally, kind: SixteenBits, shape: tuple[int, ...]) -> npt.NDArray[np.uint16]:
    """Return random finite patterns around 1, either sign."""
    count = int(np.prod(shape))
    raw = counter.words(tally.seed, f"golden_{kind.name}", 0, count)
    one = 2**15 // 4 - 2**kind.mantissa_bits  # exponent field of about 1/2, all ones below the top
    spread = 8 * 2**kind.mantissa_bits
    magnitude = one - spread // 2 + counter.below(raw, spread).numpy()
    sign = counter.below(raw, 2, half=0).numpy() * (PATTERNS // 2)
    patterns: npt.NDArray[np.uint16] = (magnitude + sign).astype(np.uint16)
    return patterns.reshape(shape)


def _compare_experts(tally: Tally, kind: SixteenBits) -> bool:
    scales = torch.from_numpy(EXPERT_SCALES)
    rows = sum(COUNTS)
    patterns = _finite(tally, kind, (rows + TAIL_ROWS, EXPERT_COLUMNS))
    plain = tally.model.quantize_experts(kind.tensor(patterns), scales, _offsets(COUNTS))
    if not _compare_ragged(tally, f"{kind.name} experts", kind.numbers[patterns[:rows]], COUNTS, plain):
        return False
    rows = sum(GATED_COUNTS)
    patterns = _finite(tally, kind, (rows + TAIL_ROWS, 2 * EXPERT_COLUMNS))
    gate, up = np.split(kind.numbers[patterns[:rows]], 2, axis=1)
    activated = oracle_silu.silu_and_mul(gate, up, mantissa_bits=kind.mantissa_bits).astype(np.float32)
    gated = tally.model.silu_and_mul_quantize_experts(kind.tensor(patterns), scales, _offsets(GATED_COUNTS))
    return _compare_ragged(tally, f"{kind.name} gated experts", activated, GATED_COUNTS, gated)


def _offsets(counts: Sequence[int]) -> torch.Tensor:
    return torch.tensor([sum(counts[:expert]) for expert in range(len(counts) + 1)], dtype=torch.int32)


def _compare_ragged(
    tally: Tally, name: str, numbers: npt.NDArray[np.float32], counts: Sequence[int], subject: Quantized
) -> bool:
    codes, linear = oracle.quantize(numbers, np.repeat(EXPERT_SCALES, counts))
    packed = np.zeros((len(numbers) + TAIL_ROWS, numbers.shape[1] // 2), dtype=np.uint8)
    packed[: len(numbers)] = oracle.pack(codes)
    starts = oracle_layout.packed_starts(counts, tile=128)
    buffer = oracle_layout.place_scales(
        linear, counts, starts[:-1], layout="swizzled_128x4", scale_rows=starts[-1]
    )
    where = {"family": name, "tokens_per_expert": list(counts), "seed": tally.seed}
    return tally.compare("packed byte", packed, subject.packed.numpy(), case=where) and tally.compare(
        "scale buffer byte", buffer, subject.block_scale.numpy().reshape(-1), case=where
    )


def _compare_masked(tally: Tally, kind: SixteenBits) -> bool:
    patterns = _finite(tally, kind, (len(MASKED_COUNTS), MASKED_ROWS, EXPERT_COLUMNS))
    scales = EXPERT_SCALES[: len(MASKED_COUNTS)]
    subject = tally.model.quantize_masked(
        kind.tensor(patterns), torch.from_numpy(scales), torch.tensor(MASKED_COUNTS, dtype=torch.int32)
    )
    for expert, count in enumerate(MASKED_COUNTS):
        codes, linear = oracle.quantize(kind.numbers[patterns[expert, :count]], scales[expert])
        packed = np.zeros((MASKED_ROWS, EXPERT_COLUMNS // 2), dtype=np.uint8)
        packed[:count] = oracle.pack(codes)
        rows = oracle_layout.whole_tiles(MASKED_ROWS, 128) * 128
        buffer = oracle_layout.place_scales(linear, [count], [0], layout="swizzled_128x4", scale_rows=rows)
        where = {"family": f"{kind.name} masked", "expert": expert, "rows": count, "seed": tally.seed}
        if not tally.compare(
            "packed byte", packed, subject.packed[expert].numpy(), case=where
        ) or not tally.compare(
            "scale buffer byte",
            buffer,
            subject.block_scale[expert].numpy().reshape(-1),
            case=where,
        ):
            return False
    return True
