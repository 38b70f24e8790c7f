"""Quantizers written differently from the kernels and from the golden model, all at once on numpy or in parts on torch.

`ragged` takes the rows of all experts at once, on numpy, and rounds by counting the limits below a magnitude. `masked`
works on torch, on any device: it reads its input as it is or as words of four elements, finds the largest magnitude of a
block in two halves, as two threads that share a scale do, and casts. Both follow recipe "vllm" with every operation
rounded correctly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

BLOCK, TILE = 16, 128
_SIXTH = np.float32(1) / np.float32(6)
_NOT_A_NUMBER = np.float32(np.nan)

_INFINITY = {torch.bfloat16: 0x7F80, torch.float16: 0x7C00}
"""Bit pattern by input type; a greater magnitude is a NaN."""

_E4M3 = np.arange(0x7F, dtype=np.uint8)
_E4M3_VALUES = torch.from_numpy(_E4M3).view(torch.float8_e4m3fn).float().numpy()
_E4M3_LIMITS = (_E4M3_VALUES[1:] + _E4M3_VALUES[:-1]) / 2
"""Midpoints of neighbours, exact in float32; byte n lies between limits n - 1 and n."""


def scale_bytes_of(scales: np.ndarray) -> np.ndarray:
    """Return UE4M3 bytes of float32 scales >= 0: nearest, ties to the even byte, saturating, NaN to 0x7F."""
    low = np.searchsorted(_E4M3_LIMITS, scales, side="left")
    high = np.searchsorted(_E4M3_LIMITS, scales, side="right")
    even = np.where(low % 2 == 0, low, high)
    scale_bytes: np.ndarray = np.where(np.isnan(scales), 0x7F, even).astype(np.uint8)
    return scale_bytes


def _decoded(scale_bytes: np.ndarray) -> np.ndarray:
    values: np.ndarray = np.append(_E4M3_VALUES, _NOT_A_NUMBER)[scale_bytes]
    return values


def codes_of(scaled: np.ndarray) -> np.ndarray:
    """Return E2M1 codes: the number of limits below a magnitude; those with an odd code below go up on the limit."""
    magnitude = np.abs(scaled)
    codes = np.zeros(scaled.shape, np.uint8)
    for limit in (0.25, 1.25, 2.5, 5.0):
        codes += magnitude > np.float32(limit)
    for limit in (0.75, 1.75, 3.5):
        codes += magnitude >= np.float32(limit)
    missing = np.isnan(scaled)
    codes[missing] = 7
    codes |= (np.signbit(scaled) & ~missing).astype(np.uint8) << 3
    return codes


def _numbers(bits: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    wide = dtype is torch.bfloat16
    numbers: np.ndarray = (bits.astype(np.uint32) << 16).view(np.float32) if wide else bits.view(np.float16)
    return numbers.astype(np.float32)


def quantized(bits: np.ndarray, dtype: torch.dtype, encode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (R, K/2) and scale bytes (R, K/16) of the bit patterns (R, K) of rows.

    Args:
        bits: uint16.
        dtype: of the rows.
        encode: float32 (R,), the global encode scale of each row.
    """
    blocks = bits.reshape(len(bits), bits.shape[1] // BLOCK, BLOCK)
    magnitudes = (blocks & 0x7FFF).astype(np.int32)
    magnitudes[magnitudes > _INFINITY[dtype]] = -1  # a NaN does not count ...
    largest = magnitudes.max(-1, initial=-1)
    amax = _numbers(np.maximum(largest, 0).astype(np.uint16), dtype)
    amax[largest < 0] = _NOT_A_NUMBER  # ... unless there is nothing else
    g = encode[:, None]
    with np.errstate(all="ignore"):
        scale_bytes = scale_bytes_of(g * (amax * _SIXTH))
        decoded = _decoded(scale_bytes)
        multiplier = np.where(decoded == 0, np.float32(0), np.float32(1) / (decoded * (np.float32(1) / g)))
        codes = codes_of(_numbers(blocks, dtype) * multiplier[..., None]).reshape(bits.shape)
    return codes[:, 0::2] | codes[:, 1::2] << 4, scale_bytes


def places(rows: np.ndarray, columns: np.ndarray, words: int) -> np.ndarray:
    """Return the bytes of (row, column) in a buffer of swizzled_128x4: bit fields of both numbers, put together."""
    tile = (rows >> 7) * words + (columns >> 2)
    return tile << 9 | (rows & 31) << 4 | (rows >> 5 & 3) << 2 | columns & 3


# --- ragged, on numpy ---------------------------------------------------------------------------------------


def refuse(
    output: Tensor, output_scale: Tensor, rows: Tensor, encode: Tensor, offsets: Tensor, starts: Tensor
) -> None:
    """Check a ragged call.

    Raises:
        ValueError: a shape or type that the operation does not take, fewer scale rows than the offsets say.
    """
    k = rows.shape[-1]
    legal = {
        "input": (rows.dim() == 2 and rows.dtype in _INFINITY and k % BLOCK == 0),
        "output": output.dtype is torch.uint8 and output.shape == (len(rows), k // 2),
        "output_scale": output_scale.dtype is torch.int32 and output_scale.shape[1:] == (-(-k // 64),),
        "input_global_scale": encode.dtype is torch.float32 and encode.dim() == 1,
        "input_offset_by_experts": offsets.dtype is torch.int32 and offsets.shape == (len(encode) + 1,),
        "output_scale_offset_by_experts": starts.dtype is torch.int32 and starts.shape == (len(encode) + 1,),
    }
    wrong = [name for name, right in legal.items() if not right]
    if wrong:
        raise ValueError(f"{wrong[0]} has a shape or type that is not legal")
    if int(starts[-1]) > len(output_scale):
        raise ValueError(f"output_scale must have {int(starts[-1])} rows, got {len(output_scale)}")


def ragged(
    output: Tensor, output_scale: Tensor, rows: Tensor, encode: Tensor, offsets: Tensor, starts: Tensor
) -> None:
    """Quantize ragged experts, all rows at once."""
    refuse(output, output_scale, rows, encode, offsets, starts)
    counts = np.diff(offsets.numpy())
    expert = np.repeat(np.arange(len(counts)), counts)
    routed = len(expert)
    bits = rows[:routed].view(torch.int16).numpy().view(np.uint16)
    packed, scale_bytes = quantized(np.ascontiguousarray(bits), rows.dtype, encode.numpy()[expert])
    output.numpy()[:routed] = packed
    inside = np.arange(routed) - offsets.numpy()[expert]
    where = places(
        (starts.numpy()[expert] + inside).astype(np.int64)[:, None],
        np.arange(scale_bytes.shape[1])[None],
        output_scale.shape[1],
    )
    buffer = output_scale.view(torch.uint8).numpy().reshape(-1)
    buffer[: int(starts[-1]) * output_scale.shape[1] * 4] = 0
    buffer[where] = scale_bytes


# --- masked, on torch ---------------------------------------------------------------------------------------

Load = Callable[[Tensor], Tensor]


def as_it_is(rows: Tensor) -> Tensor:
    """Return the elements as float32."""
    return rows.float()


def gated(rows: Tensor) -> Tensor:
    """Return silu(gate) * up as float32 values of the input type; SiLU in float64, rounded once to float32.

    At minus infinity SiLU is its limit, not the quotient of two infinities.
    """
    gate, up = rows.chunk(2, dim=-1)
    wide = gate.double()
    silu = torch.where(wide == -torch.inf, -0.0, wide / (1 + torch.exp(-wide))).float()
    return (silu * up.float()).to(rows.dtype).float()


def in_words(rows: Tensor) -> Tensor:
    """Return the elements as float32, read as words of 64 bits and taken apart by shifts."""
    words = rows.contiguous().view(torch.int64)
    lanes = torch.stack([(words >> shift & 0xFFFF) for shift in (0, 16, 32, 48)], dim=-1)
    patterns = torch.where(lanes >= 1 << 15, lanes - (1 << 16), lanes).to(torch.int16)
    return patterns.view(rows.dtype).reshape(rows.shape).float()


def masked(load: Load) -> Callable[..., None]:
    """Return a masked quantizer that reads its input by `load`."""

    def quantize(
        output: Tensor, output_scale: Tensor, rows: Tensor, encode: Tensor, masked_m: Tensor
    ) -> None:
        for expert, count in enumerate(masked_m.tolist()):
            if count == 0:
                continue
            packed, scale_bytes = _in_halves(load(rows[expert, :count]), encode[expert])
            output[expert, :count] = packed
            tiles = -(-count // TILE)
            output_scale.view(torch.uint8)[expert, : tiles * TILE] = swizzled(scale_bytes, tiles)

    return quantize


def swizzled(linear: Tensor, tiles: int) -> Tensor:
    """Return linear scale bytes (R, C) as swizzled_128x4 (tiles * 128, padded C), by a permutation of axes."""
    words = -(-linear.shape[1] // 4)
    whole = linear.new_zeros(tiles * TILE, words * 4)
    whole[: linear.shape[0], : linear.shape[1]] = linear
    return whole.view(tiles, 4, 32, words, 4).permute(0, 3, 2, 1, 4).reshape(tiles * TILE, words * 4)


def _in_halves(rows: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Two threads a scale: each knows the largest magnitude of eight elements, and both exchange it."""
    halves = rows.reshape(len(rows), rows.shape[1] // BLOCK, 2, BLOCK // 2)
    known = torch.where(halves.isnan(), -1.0, halves.abs()).amax(-1)
    amax = torch.maximum(known, known.flip(-1))[..., 0]
    amax = torch.where(amax < 0, torch.nan, amax)
    scales = _cast(g * (amax * float(_SIXTH)))
    decoded = scales.view(torch.float8_e4m3fn).float()
    multiplier = torch.where(decoded == 0, 0.0, 1 / (decoded * (1 / g)))
    codes = _nearest(halves * multiplier[..., None, None]).reshape(rows.shape)
    return codes[:, 0::2] | codes[:, 1::2] << 4, scales


def _cast(scales: Tensor) -> Tensor:
    """Return UE4M3 bytes by the cast of the framework, which is left alone with numbers in its range."""
    byte = scales.clamp(max=448.0).to(torch.float8_e4m3fn).view(torch.uint8)
    return byte.masked_fill(scales.isnan(), 0x7F)


def _nearest(scaled: Tensor) -> Tensor:
    """Return E2M1 codes: ends of the intervals searched from both sides, the even code where they differ."""
    limits = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=scaled.device)
    magnitude = scaled.abs()
    low, high = torch.bucketize(magnitude, limits), torch.bucketize(magnitude, limits, right=True)
    code = torch.where(low % 2 == 0, low, high)
    code = torch.where(scaled.isnan(), 7, code)
    return (code + 8 * (scaled.signbit() & ~scaled.isnan())).to(torch.uint8)
