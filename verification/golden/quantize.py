"""Golden check of quantization: every 16-bit input under several scales, every tie of every scale byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nvfp4_moe.verification import oracle
from nvfp4_moe.verification.golden.activation import check_silu
from nvfp4_moe.verification.golden.experts import check_experts
from nvfp4_moe.verification.golden.inputs import PATTERNS, TYPES, SixteenBits, midpoints
from nvfp4_moe.verification.golden.tally import Tally

BLOCK = oracle.BLOCK
ENCODE_SCALES = (1.0, 2688.0 / 3.796875, 0.0078125, 1.0e-30, 1.0e30, 3.4e38)
"""Global encode scales for blocks of neighbouring patterns: usual, small, and those at which results overflow."""
LARGEST_IN_BLOCK = ((6.0, 1.0), (5.1875, 2688.0 / 5.1875), (144.0, 2688.0 / 144.0))
"""(value that sets the block's amax, encode scale) for blocks in which every pattern meets a usual multiplier."""


@dataclass(frozen=True)
class Rows:
    """Inputs of one call: the tensor for the reference, the same numbers for the oracle."""

    name: str
    tensor: torch.Tensor
    numbers: npt.NDArray[np.float32]
    encode_scale: float


def check_quantize(tally: Tally) -> None:
    """Codes and scale bytes of `quantize`, of the experts' forms, and the gated activation."""
    tally.covers(
        f"all {PATTERNS} bf16 and f16 inputs, the finite ones under {len(ENCODE_SCALES) + len(LARGEST_IN_BLOCK)} scales"
    )
    tally.covers("7 ties of 126 scale bytes with neighbours, f32, bf16, f16")
    for rows in (*_every_pattern(), *_ties()):
        if not _compare_rows(tally, rows):
            return
    check_experts(tally)
    check_silu(tally)


# --- one matrix ---------------------------------------------------------------------------------------------------


def _every_pattern() -> Iterator[Rows]:
    """Yield every finite pattern under every scale, and every pattern, Inf and NaN among them, under the first.

    Apart, because a call that holds an Inf or NaN leaves the path that finite calls take.
    """
    patterns = np.arange(PATTERNS, dtype=np.uint16)
    for kind in TYPES:
        finite = patterns[np.isfinite(kind.numbers)]
        for scale in ENCODE_SCALES:
            yield _rows(f"{kind.name} neighbours", kind, finite.reshape(-1, BLOCK), scale)
        for largest, scale in LARGEST_IN_BLOCK:
            yield _rows(f"{kind.name} below {largest}", kind, _beside(kind, finite, largest), scale)
        largest, scale = LARGEST_IN_BLOCK[0]
        yield _rows(f"{kind.name} with Inf and NaN", kind, patterns.reshape(-1, 8 * BLOCK), scale)
        yield _rows(f"{kind.name} beside Inf and NaN", kind, _beside(kind, patterns, largest), scale)


def _beside(kind: SixteenBits, patterns: npt.NDArray[np.uint16], largest: float) -> npt.NDArray[np.uint16]:
    """Return rows (R, 16): 15 patterns beside one number that sets the amax of those below it."""
    per_row = BLOCK - 1
    filled = np.resize(patterns, (-(-len(patterns) // per_row), per_row))
    leader = np.full((len(filled), 1), kind.patterns_of(np.array([largest]))[0], dtype=np.uint16)
    return np.concatenate([filled, leader], axis=1)


def _ties() -> Iterator[Rows]:
    """Yield, for each scale byte, blocks whose amax gives it and whose numbers lie on the ties and beside them.

    With encode scale 1 the multiplier is 1/SF, so tie * SF is exact in all three types and meets the tie up to the
    rounding of the reciprocal, which is the point of the neighbours.
    """
    scales = np.array([float(p) for p in oracle.E4M3_POINTS[1:]])
    ties = midpoints([float(p) for p in oracle.E2M1_POINTS])
    on_tie = scales[:, None] * ties[None, :]  # (126, 7)
    leader = 6.0 * scales[:, None]
    exact = on_tie.astype(np.float32)
    above, below = (np.nextafter(exact, np.float32(side)) for side in (np.inf, -np.inf))
    yield _tie_rows("float32", np.concatenate([exact, above, below], axis=1), leader.astype(np.float32))
    for kind in TYPES:
        pattern = kind.patterns_of(on_tie)
        near = np.concatenate([pattern, pattern + 1, pattern - 1], axis=1).astype(np.uint16)
        both = np.concatenate([near, near + PATTERNS // 2], axis=1).astype(np.uint16)
        yield _rows(f"{kind.name} ties", kind, _blocks(both, kind.patterns_of(leader)), 1.0)


def _tie_rows(name: str, near: npt.NDArray[np.float32], leader: npt.NDArray[np.float32]) -> Rows:
    numbers = _blocks(np.concatenate([near, -near], axis=1), leader)
    return Rows(f"{name} ties", torch.from_numpy(numbers.copy()), numbers, 1.0)


def _blocks(values: npt.NDArray[Any], leader: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of blocks: 15 of a row's values and its leader, again and again; the last block repeats values."""
    per_block = BLOCK - 1
    blocks = -(-values.shape[1] // per_block)
    index = np.arange(blocks * per_block) % values.shape[1]
    filled = values[:, index].reshape(len(values), blocks, per_block)
    led = np.broadcast_to(leader[:, None, :], (len(values), blocks, 1))
    return np.concatenate([filled, led], axis=2).reshape(len(values), blocks * BLOCK)


def _rows(name: str, kind: SixteenBits, patterns: npt.NDArray[np.uint16], scale: float) -> Rows:
    return Rows(name, kind.tensor(patterns), kind.numbers[patterns], scale)


def _compare_rows(tally: Tally, rows: Rows) -> bool:
    scale = np.float32(rows.encode_scale)
    codes, scales = oracle.quantize(rows.numbers, scale)

    def case(at: tuple[int, ...], *, width: int) -> dict[str, Any]:
        row, first = at[0], at[1] // width * BLOCK
        block = rows.numbers[row, first : first + BLOCK]
        return {
            "family": rows.name,
            "dtype": str(rows.tensor.dtype).removeprefix("torch."),
            "global_encode_scale": float(scale),
            "block_float32_bits": block.view(np.uint32).tolist(),
        }

    packed = oracle.pack(codes)
    for plain in (False, True):  # asked for intermediates, the reference takes the recipe word by word
        subject = tally.model.quantize(rows.tensor, torch.tensor(float(scale)), intermediates=plain)
        path = "plain " if plain else ""
        if not (
            tally.compare(
                f"{path}scale byte",
                scales,
                subject.block_scale.numpy(),
                case=lambda at: case(at, width=1),
            )
            and tally.compare(
                f"{path}packed byte",
                packed,
                subject.packed.numpy(),
                case=lambda at: case(at, width=BLOCK // 2),
            )
        ):
            return False
    return True
