"""What the checks at the door of the kernels leave of each name: the declared ranges of the index expressions.

The limits are those of `cuda/csrc/checks.h`; a test reads them there. `ADDRESSES` is no check but a fact: a tensor that
exists lies in the address space, 2^57 bytes at most on any processor with page tables of five levels.
"""

from __future__ import annotations

from nvfp4_moe.verification.proofs.c_expression import INT32, INT64, UINT32, CType
from nvfp4_moe.verification.proofs.index_expression import Limit, Range

INT32_MAX = 2**31 - 1
LONGEST_STEP = 1 << 16
"""`kLongestStep`: what a loop adds to a row, slot or expert at most, past the last one."""
ROWS = INT32_MAX - LONGEST_STEP
"""Routed rows of a call, experts of a quantizer, and padded rows of a routing, at most."""
LARGEST_K = 1 << 27
WORDS = LARGEST_K // 64
"""Words of four scale bytes in a row, at most."""
ADDRESSES = 1 << 57
FEW_ROWS = 1 << 14
"""More rows than one thread block each is ever used for: `kFewRows`, which is tuned, lies below."""
MASKED_EXPERTS = 65_535
ROUTED_EXPERTS = INT32_MAX // 128 // 2


def int32(least: Limit, most: Limit) -> Range:
    """Return the range of a name of type int32_t."""
    return Range(INT32, least, most)


def int64(least: Limit, most: Limit) -> Range:
    """Return the range of a name of type int64_t."""
    return Range(INT64, least, most)


def uint32(least: Limit, most: Limit) -> Range:
    """Return the range of a name of type uint32_t, such as the indices of a grid."""
    return Range(UINT32, least, most)


K = int32(16, LARGEST_K)
BLOCK_TEXT = "scale_words(call.k) * 4 - 1"
"""The last scale column of a row, padding included."""


def any_of(ctype: CType) -> Range:
    """Return the whole range of a type."""
    return Range(ctype, ctype.least, ctype.most)
