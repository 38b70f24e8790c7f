"""Raw 64-bit words from a counter-based generator: the only source of random cases.

Word i of a stream depends on (seed, family, i) alone, never on what was drawn before, so a case can be made
again from its index, batches can be drawn in any order on any number of workers, and the same seed gives the same
cases on every machine, device and torch version. Everything is 64-bit integer arithmetic modulo 2^64:

    state = key(seed, family) + (i + 1) * 0x9E3779B97F4A7C15
    word  = mix(state):  z ^= z >>> 30;  z *= 0xBF58476D1CE4E5B9;  z ^= z >>> 27;  z *= 0x94D049BB133111EB;  z ^= z >>> 31

This is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants of Vigna's splitmix64.c) started at the key.

torch has no unsigned 64-bit arithmetic, so words are int64 tensors that hold the same bits: sums and products wrap,
and a logical shift is an arithmetic one with its upper bits masked off. Code that uses words takes bit fields out of
them (`bits`, `below`); it never reads them as signed numbers and never turns them into floats.
"""

from __future__ import annotations

from functools import lru_cache

import torch

GAMMA = 0x9E3779B97F4A7C15
"""Step of the counter: the odd integer nearest to 2^64 over the golden ratio."""
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None))
"""Rounds of the finaliser: shift, then multiplier (none in the last)."""
_MASK = (1 << 64) - 1
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_HALF_BITS = 32


def signed(value: int) -> int:
    """Return the int64 that has the low 64 bits of `value`."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def mix(state: int) -> int:
    """Return the finaliser of an unsigned 64-bit state, as an unsigned int."""
    z = state & _MASK
    for shift, multiplier in _MIX:
        z ^= z >> shift
        if multiplier is not None:
            z = z * multiplier & _MASK
    return z


def key(seed: int, family: str | int) -> int:
    """Return the unsigned 64-bit start of the stream (seed, family).

    A family's name enters through its FNV-1a hash, so streams do not depend on the order of a registry.

    Raises:
        TypeError: the seed is not an int.
        ValueError: the seed is not in [0, 2^64).
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an integer, got {seed!r} ({type(seed).__name__})")
    if not 0 <= seed <= _MASK:
        raise ValueError(f"seed must be in [0, 2^64), got {seed}")
    number = family if isinstance(family, int) else _fnv1a(family)
    return mix(mix(seed + GAMMA) + number)


def word(seed: int, family: str | int, index: int) -> int:
    """Return word `index` of the stream as an unsigned int: the definition, in Python ints."""
    return mix(key(seed, family) + (index + 1) * GAMMA)


def words(
    seed: int,
    family: str | int,
    start: int,
    count: int,
    *,
    device: torch.device | str = "cpu",
    out: torch.Tensor | None = None,
    scratch: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return words start .. start+count-1 of the stream (seed, family).

    Args:
        seed: in [0, 2^64).
        family: the stream's name or number.
        start: index of the first word, >= 0.
        count: how many, >= 0; start + count is at most 2^63.
        device: where to make them.
        out, scratch: int64 (count,) tensors to work in, so that a loop allocates nothing. `out` is returned.

    Returns:
        int64 (count,), each element the bits of one word.

    Raises:
        TypeError, ValueError: a bad seed, or a range outside [0, 2^63).
    """
    if start < 0 or count < 0 or start + count > 1 << 63:
        raise ValueError(f"words must lie in [0, 2^63), got start {start} and count {count}")
    ramp = _ramp(count, str(out.device if out is not None else device))
    z = torch.empty_like(ramp) if out is None else out
    shifted = torch.empty_like(ramp) if scratch is None else scratch
    torch.add(ramp, signed(key(seed, family) + (start + 1) * GAMMA), out=z)
    for shift, multiplier in _MIX:
        torch.bitwise_right_shift(z, shift, out=shifted)
        z.bitwise_xor_(shifted.bitwise_and_((1 << (64 - shift)) - 1))
        if multiplier is not None:
            z.mul_(signed(multiplier))
    return z


def bits(raw: torch.Tensor, count: int, *, at: int = 0) -> torch.Tensor:
    """Return `count` bits of each word from bit `at` up, as int64 in [0, 2^count); count is at most 63."""
    if count < 1 or at < 0 or at + count > 64 or count > 63:
        raise ValueError(f"bits must lie inside a word and number at most 63, got {count} from bit {at}")
    return (raw >> at).bitwise_and_((1 << count) - 1)


def below(raw: torch.Tensor, bound: torch.Tensor | int, *, half: int = 1) -> torch.Tensor:
    """Return integers in [0, bound): the upper part of (32 bits of the word) * bound.

    Values are not exactly equally likely: each has floor or ceil of 2^32 / bound of the 2^32 draws, a relative
    difference of at most bound / 2^32. Nothing is rejected, so one word always gives one integer.

    Args:
        raw: words.
        bound: an int or an int64 tensor that broadcasts, in [1, 2^31].
        half: 1 takes the upper 32 bits of the word, 0 the lower: two draws from one word.
    """
    return (bits(raw, _HALF_BITS, at=_HALF_BITS * half) * bound) >> _HALF_BITS


def order(raw: torch.Tensor) -> torch.Tensor:
    """Return a permutation of the last dimension, int64: the stable order of the words' upper 63 bits."""
    return torch.argsort(bits(raw, 63, at=1), dim=-1, stable=True)


def _ramp(count: int, device: str) -> torch.Tensor:
    """i * GAMMA for i below count: a part of a shared tensor, so never written to."""
    return _whole_ramp(1 << max(count - 1, 0).bit_length(), device)[:count]


@lru_cache(maxsize=24)
def _whole_ramp(count: int, device: str) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int64, device=device).mul_(signed(GAMMA))


def _fnv1a(name: str) -> int:
    """64-bit FNV-1a hash of the name's UTF-8 bytes (Fowler, Noll and Vo)."""
    value = _FNV_OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value
