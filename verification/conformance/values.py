"""Input values of conformance cases: 16-bit patterns made by integer arithmetic, one family for each kind of danger.

Every family maps (seed, index, rows, blocks) to int64 patterns (rows, 16 * blocks) in [0, 2^16), read as bf16 or f16.
A family says nothing about which codes come out; that is the golden model's work.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from nvfp4_moe.verification.counter import below, bits, words

BLOCK = 16

DTYPES: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "f16": torch.float16}
_MANTISSA_BITS = {"bf16": 7, "f16": 10}
_BIAS = {"bf16": 127, "f16": 15}
_SIGN = 1 << 15

Make = Callable[[int, int, int, int, str], torch.Tensor]
"""(seed, index, rows, blocks, dtype name) -> patterns (rows, 16 * blocks)."""


def _draw(seed: int, name: str, index: int, rows: int, blocks: int) -> torch.Tensor:
    count = rows * blocks * BLOCK
    return words(seed, f"values.{name}", index << 32, count).view(rows, blocks * BLOCK)


def _every_pattern(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Consecutive patterns, each row half its width behind the one before: either half of the columns meets all 65,536.

    Where the first row starts is said by the case's index.
    """
    del seed, dtype
    columns = blocks * BLOCK
    start = (index * rows + torch.arange(rows)) * (columns // 2)
    return (start[:, None] + torch.arange(columns)) % (1 << 16)


def _any_bits(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Uniform bits: NaN, Inf and every exponent mixed inside one block."""
    del dtype
    return bits(_draw(seed, "any", index, rows, blocks), 16)


def _windowed(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Random signs and mantissas, exponents within 2^-7 .. 2^0 of the block's largest: what activations look like."""
    raw = _draw(seed, "windowed", index, rows, blocks)
    mantissa = _MANTISSA_BITS[dtype]
    top = _block_exponent(raw, dtype, spread=4)
    exponent = (top - below(raw, 8)).clamp_(min=0)
    return (bits(raw, 1) << 15) | (exponent << mantissa) | bits(raw, mantissa, at=1)


def _block_exponent(raw: torch.Tensor, dtype: str, *, spread: int) -> torch.Tensor:
    """One exponent field per block, within `spread` of 2^0, repeated over its 16 columns."""
    rows, columns = raw.shape
    first = raw.view(rows, columns // BLOCK, BLOCK)[..., :1]
    field = _BIAS[dtype] - spread + below(first, 2 * spread + 1, half=0)
    return field.expand(rows, columns // BLOCK, BLOCK).reshape(rows, columns)


_MIDPOINTS_X4 = (1, 3, 5, 7, 10, 14, 20)
"""Four times the seven midpoints between neighbouring E2M1 magnitudes."""


def _ties(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Blocks whose largest value gives a scale byte exactly, the others at midpoints of that scale +- 1 ulp.

    With a power-of-two global scale the multiplier is exact enough for many of these to be true ties; with others
    they lie as close to one as a 16-bit value can.
    """
    raw = _draw(seed, "ties", index, rows, blocks).view(rows, blocks, BLOCK)
    significand = 8 + below(raw[..., :1], 8, half=0)  # of the scale byte: 1.000 .. 1.111 in binary, times 8
    shift = (
        _BIAS[dtype] - 3 - below(raw[..., :1], 5)
    )  # exponent field of 1/8 of the scale, so that all stay normal
    choice = torch.tensor(_MIDPOINTS_X4)[below(raw, len(_MIDPOINTS_X4), half=0)]
    value = choice * significand
    value[..., 0] = (6 * 4) * significand[..., 0]
    pattern = _normal_pattern(value, shift - 2, dtype)
    nudge = below(raw, 3) - 1
    nudge[..., 0] = 0
    sign = bits(raw, 1) << 15
    return (pattern + nudge | sign).view(rows, blocks * BLOCK)


def _normal_pattern(value: torch.Tensor, exponent_of_one: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return the pattern of value * 2^(exponent_of_one - bias) for positive integers below 2^8 with few bits."""
    mantissa = _MANTISSA_BITS[dtype]
    log = torch.zeros_like(value)
    for bit in range(1, 9):
        log += value >= (1 << bit)
    fraction = torch.where(log <= mantissa, value << (mantissa - log).clamp_(min=0), value >> 1)
    return ((exponent_of_one + log) << mantissa) | (fraction & ((1 << mantissa) - 1))


def _scales(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Each block a different largest magnitude, walking through all finite patterns; the rest a quarter of it or less."""
    raw = _draw(seed, "scales", index, rows, blocks).view(rows, blocks, BLOCK)
    mantissa = _MANTISSA_BITS[dtype]
    finite = _infinity(dtype)
    count = rows * blocks
    top = ((torch.arange(count) * 17 + index * count) % finite).view(rows, blocks, 1)
    exponent = torch.clamp((top >> mantissa) - 1 - below(raw, 4), min=0)
    pattern = (exponent << mantissa) | bits(raw, mantissa, at=1)
    position = below(raw[..., :1], BLOCK)
    pattern.scatter_(-1, position, top)
    pattern |= bits(raw, 1) << 15
    return pattern.view(rows, blocks * BLOCK)


def _scale_ties(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Blocks whose largest value lies at the midpoint of two scale codes or one ulp beside it; the rest are smaller."""
    raw = _draw(seed, "scale_ties", index, rows, blocks).view(rows, blocks, BLOCK)
    mantissa = _MANTISSA_BITS[dtype]
    half_steps = 17 + 2 * below(raw[..., :1], 8, half=0)  # sixteenths of a scale code's binade
    exponent = _BIAS[dtype] - 6 + below(raw[..., :1], 8)
    top = _normal_pattern(3 * half_steps, exponent, dtype) + below(raw[..., 1:2], 3) - 1
    smaller = ((exponent + 3 - bits(raw, 2, at=40)) << mantissa) | bits(raw, mantissa, at=1)
    pattern = smaller.scatter(-1, below(raw[..., 2:3], BLOCK), top)
    return (pattern | bits(raw, 1) << 15).view(rows, blocks * BLOCK)


def _infinity(dtype: str) -> int:
    """Pattern of +Inf: all exponent bits set."""
    return (_SIGN - 1) >> _MANTISSA_BITS[dtype] << _MANTISSA_BITS[dtype]


def _special(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Zeros of both signs, subnormals, the largest finite, Inf and NaN, in blocks of one kind and in mixtures."""
    raw = _draw(seed, "special", index, rows, blocks).view(rows, blocks, BLOCK)
    infinity = _infinity(dtype)
    kinds = torch.tensor(
        [
            0,
            1,
            2,
            infinity - 1,
            infinity,
            infinity + 1,
            infinity | 1 << 6,
            _BIAS[dtype] << _MANTISSA_BITS[dtype],
        ]
    )
    one_kind = below(raw[..., :1], len(kinds))
    mixed = below(raw, len(kinds), half=0)
    choice = torch.where(bits(raw[..., :1], 2, at=3) == 0, mixed, one_kind)
    return (kinds[choice] | (bits(raw, 1) << 15)).view(rows, blocks * BLOCK)


def _one_hot(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """One non-zero element in each row, its column and size by the row: shows packing and layout at a glance."""
    del seed
    mantissa = _MANTISSA_BITS[dtype]
    columns = blocks * BLOCK
    row = torch.arange(rows)
    pattern = torch.zeros(rows, columns, dtype=torch.int64)
    if columns:
        size = (_BIAS[dtype] - 3 + (row + index) % 7 << mantissa) | ((row * 3 % 8) << (mantissa - 3))
        pattern[row, (row * 7 + index) % columns] = size
    return pattern


def _distinct(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """Neighbours always differ in code: columns cycle through all eight magnitudes and both signs."""
    del seed
    mantissa = _MANTISSA_BITS[dtype]
    magnitudes = torch.tensor([_normal(v, dtype) for v in (6.0, 0.5, 4.0, 1.0, 3.0, 1.5, 2.0, 0.0)])
    column = torch.arange(blocks * BLOCK)
    row = torch.arange(rows)[:, None]
    block_shift = ((column // BLOCK + row + index) % 5) << mantissa
    pattern = magnitudes[(column + row + index) % 8]
    return torch.where(pattern == 0, pattern, pattern - block_shift) | ((column + row) // 3 % 2 << 15)


_TAIL = {"bf16": (16, 104), "f16": (8, 31)}
"""Magnitudes of gates whose SiLU is tiny: as far as the largest `up` of the type brings the product back to its range."""
_LOG2_E = 12_102_203
"""log2(e) times 2^23."""
_EIGHTH = 3
"""Bits behind the point of a gate."""
_GATE_SPREAD = 16
"""In eighths, within a block."""


def _silu_tail(seed: int, index: int, rows: int, blocks: int, dtype: str) -> torch.Tensor:
    """The left half of the columns uniform in SiLU's left tail, the right half about as large as its inverse there.

    The gates of a block lie close to each other and silu(gate) * up near one, or as near as the type lets it: what is
    wrong in a part of the tail shows in all codes of some blocks.
    """
    raw = _draw(seed, "silu_tail", index, rows, blocks)
    mantissa, bias = _MANTISSA_BITS[dtype], _BIAS[dtype]
    first, last = (magnitude << _EIGHTH for magnitude in _TAIL[dtype])
    gate, up = raw.chunk(2, dim=1)
    size = BLOCK // 2 if blocks % 2 else BLOCK
    block = gate.reshape(rows, gate.shape[1] // size, size)
    eighths = (
        first + below(block[..., :1], last - first + 1 - _GATE_SPREAD, half=0) + below(block, _GATE_SPREAD)
    )
    eighths = eighths.view(gate.shape)
    log = torch.zeros_like(eighths)
    for bit in range(1, 10):
        log += eighths >= (1 << bit)
    fraction = torch.where(
        log <= mantissa, eighths << (mantissa - log).clamp_(min=0), eighths >> (log - mantissa).clamp_(min=0)
    )
    left = (bias + log - _EIGHTH << mantissa) | (fraction & ((1 << mantissa) - 1))
    # log2 |silu(-x)| is log2(x) - x log2(e) but for e^-x, which is small.
    inverse = (eighths * _LOG2_E >> 23 + _EIGHTH) - (log - _EIGHTH) + below(up, 4) - 2
    exponent = (bias + inverse).clamp_(min=1, max=2 * bias)
    right = (exponent << mantissa) | bits(up, mantissa, at=1) | bits(up, 1) << 15
    return torch.cat([left | _SIGN, right], dim=1)


def _normal(value: float, dtype: str) -> int:
    return int(torch.tensor(value, dtype=DTYPES[dtype]).view(torch.int16).item()) & 0xFFFF


VALUES: dict[str, Make] = {
    "windowed": _windowed,
    "ties": _ties,
    "scales": _scales,
    "scale_ties": _scale_ties,
    "special": _special,
    "distinct": _distinct,
    "any": _any_bits,
    "every": _every_pattern,
    "one_hot": _one_hot,
    "silu_tail": _silu_tail,
}
"""Families of input values by name."""


def make_values(family: str, *, seed: int, index: int, rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Return input values (rows, columns), columns a multiple of 16, of dtype "bf16" or "f16" on the CPU."""
    patterns = VALUES[family](seed, index, rows, columns // BLOCK, dtype)
    return patterns.to(torch.int32).to(torch.int16).view(DTYPES[dtype])


GLOBAL_SCALES = ("distinct", "powers", "near_powers", "wide", "one", "same", "edge")
"""Families of per-expert global encode scales."""

_MOST_ULPS = 8
_EDGE_ULPS = 3
_FAR = 115
"""Powers of two: neither the reciprocal of a global scale nor that times a block scale is subnormal."""
_ONE = 127 << 23
"""Pattern of float32 1."""


def make_global_scales(family: str, *, seed: int, index: int, experts: int) -> torch.Tensor:
    """Return positive finite float32 global encode scales (experts,); all differ, but for "one", "same" and "edge".

    distinct: random mantissas, 2^4 .. 2^11; powers: powers of two; near_powers: 1 to 8 ulp off a power of two, so that
    values which would be ties lie so many ulp beside one; wide: random mantissas, 2^-20 .. 2^24, of one expert in four
    2^-115 .. 2^115; one: all 1; same: all the same random one; edge: such that a block whose largest magnitude is
    `edge_amax` has a scale within 3 ulp of the midpoint between two neighbouring scale codes: there another order of the
    same operations gives another code.
    """
    raw = words(seed, f"global_scales.{family}", index << 20, experts)
    if family == "edge":
        return _edge_scales(raw, edge_amax(seed=seed, index=index, experts=experts))
    if family == "one":
        patterns = torch.full((experts,), _ONE)
    elif family in ("powers", "near_powers"):
        patterns = _ONE + ((torch.arange(experts) + below(raw[:1], 9)) % 16 - 4 << 23)
        if family == "near_powers":
            patterns += (1 + below(raw, _MOST_ULPS)) * torch.where(bits(raw, 1) == 1, 1, -1)
    else:
        low, span = (-20, 45) if family == "wide" else (4, 8)
        exponent = low + below(raw, span)
        if family == "wide":
            far = below(words(seed, "global_scales.far", index << 20, experts), 2 * _FAR + 1) - _FAR
            exponent = torch.where(bits(raw, 2, at=30) == 0, far, exponent)
        patterns = _ONE + (exponent << 23) | bits(raw, 23)
    if family == "same":
        patterns = patterns[:1].expand(experts)
    return patterns.to(torch.int32).view(torch.float32)


def _edge_scales(raw: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
    """Return float32(middle / float32(amax * float32(1/6))), up to 3 ulp off; all normal numbers."""
    sixth = torch.tensor(6.0).reciprocal()
    odd = 17 + 2 * below(raw, 8)  # between the significands 8/8 and 16/8, in sixteenths
    middle = odd.to(torch.float64) * torch.exp2((below(raw, 8, half=0) - 4).to(torch.float64))
    nearest = (middle / (amax * sixth).to(torch.float64)).to(torch.float32)
    ulps = bits(raw, 16, at=40) % (2 * _EDGE_ULPS + 1) - _EDGE_ULPS
    return (nearest.view(torch.int32) + ulps.to(torch.int32)).view(torch.float32)


def edge_amax(*, seed: int, index: int, experts: int) -> torch.Tensor:
    """Return float32 (experts,): magnitudes 2^-3 .. 2^4 with eight-bit significands, which both 16-bit types hold."""
    raw = words(seed, "edge_amax", index << 20, experts)
    patterns = _ONE + (below(raw, 7) - 3 << 23) | bits(raw, 7, at=2) << 16
    return patterns.to(torch.int32).view(torch.float32)
