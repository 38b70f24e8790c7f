"""Padded row counts of grouped (MoE) block-scale buffers: exact worst cases, their witnesses, engines' formulas.

Symbols: M tokens that reach the op, k = topk, T routed rows, E experts, A = tile (128 for the CUTLASS scale
layout), c_e rows of expert e, R(x) = ceil(x / A) * A. The grouped GEMM reads S = sum R(c_e) rows of scales when
experts are packed one after the other (`blockscale_offsets` = prefix sums of R(c_e)).

Exact worst S over all routings:

- any ids (a token may name an expert twice): ``A * min(T, floor((T + (A-1)*E) / A))``;
- ids distinct inside a token (c_e <= M): ``A * min(T, E*ceil(M/A), floor((T + (A-1)*E) / A))``, T = M*k;
- L local of G global experts, distinct ids: the second row with E = L, T = M*min(k, L).

Proof of the first: with f non-empty experts, sum ceil(c/A) <= f + floor((T-f)/A), which does not fall as f grows,
and f <= min(E, T); the counts [1+T-f, 1, ..., 1] attain it. `verification.proofs` checks it by induction over
experts for every T, E and A.

Everything here is exact integer arithmetic on Python ints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

TILE = 128
"""Rows of one scale-factor tile in the CUTLASS 128x4 layout."""

LARGEST_SIZE = 10**18
"""Sizes above this are refused: no buffer has as many rows, and 64-bit index arithmetic could not hold them."""


def ceil_div(value: int, divisor: int) -> int:
    """Return ceil(value / divisor) for value >= 0 and divisor > 0."""
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is at least `value`."""
    return ceil_div(value, multiple) * multiple


def padded_rows(tokens_per_expert: Sequence[int], *, tile: int = TILE) -> int:
    """Return S = sum over experts of the rows rounded up to the tile: what the grouped GEMM reads."""
    return sum(round_up(count, tile) for count in tokens_per_expert)


def check_size(name: str, value: int, *, at_least: int) -> int:
    """Return `value` if it is an int in [at_least, 10**18].

    Raises:
        TypeError: not an int (bool counts as not an int).
        ValueError: outside the range; the text names the size, its value and what is legal.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__})")
    if not at_least <= value <= LARGEST_SIZE:
        raise ValueError(f"{name} must be between {at_least} and 10^18, got {value}")
    return value


# --- exact worst cases -------------------------------------------------------------------------------------


def exact_any_rows(routed_rows: int, num_experts: int, *, tile: int = TILE) -> int:
    """Return the largest S over all routings of `routed_rows` rows to `num_experts` experts, any ids."""
    return tile * min(routed_rows, (routed_rows + (tile - 1) * num_experts) // tile)


def exact_distinct_rows(tokens: int, topk: int, num_experts: int, *, tile: int = TILE) -> int:
    """Return the largest S when the ids of a token are distinct; `num_experts` is the local count.

    With expert parallelism a token reaches at most min(topk, local experts) experts of this rank, so
    T = tokens * min(topk, num_experts).
    """
    routed_rows = tokens * min(topk, num_experts)
    return min(
        exact_any_rows(routed_rows, num_experts, tile=tile),
        tile * num_experts * ceil_div(tokens, tile),
    )


def worst_tokens_per_expert_any(routed_rows: int, num_experts: int, *, tile: int = TILE) -> list[int]:
    """Return counts (num_experts,) that attain `exact_any_rows`: one row for each expert, the rest on the first."""
    del tile  # the same routing is worst for every tile
    occupied = min(routed_rows, num_experts)
    counts = [1] * occupied + [0] * (num_experts - occupied)
    if occupied:
        counts[0] += routed_rows - occupied
    return counts


def worst_tokens_per_expert_distinct(
    tokens: int, topk: int, num_experts: int, *, tile: int = TILE
) -> list[int]:
    """Return counts (num_experts,), each at most `tokens`, that attain `exact_distinct_rows`.

    Every occupied expert starts with one row; whole tiles are then added expert by expert up to `tokens` rows,
    and rows that open no further tile fill what is left.
    """
    routed_rows = tokens * min(topk, num_experts)
    counts = worst_tokens_per_expert_any(min(routed_rows, num_experts), num_experts, tile=tile)
    left = routed_rows - sum(counts)
    for expert, count in enumerate(counts):
        extra = min(left // tile, (tokens - count) // tile) * tile
        counts[expert] += extra
        left -= extra
    for expert, count in enumerate(counts):
        extra = min(left, tokens - count)
        counts[expert] += extra
        left -= extra
    return counts


# --- sizing formulas ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What a sizing formula is told.

    Raises (on construction):
        TypeError, ValueError: a size that is no integer, below its minimum or above 10^18, or fewer global than
            local experts; the text names the size and its value.
    """

    tokens: int
    """M: the tokens the buffer is sized for (`max_num_batched_tokens`, or those of the call itself)."""
    topk: int
    num_experts: int
    """Experts on this rank (E or L)."""
    num_global_experts: int
    """Experts of the model; equal to `num_experts` without expert parallelism."""
    tile: int = TILE

    def __post_init__(self) -> None:
        check_size("tokens", self.tokens, at_least=0)
        for name in ("topk", "num_experts", "num_global_experts", "tile"):
            check_size(name, getattr(self, name), at_least=1)
        if self.num_global_experts < self.num_experts:
            raise ValueError(
                f"num_global_experts ({self.num_global_experts}) is below the local num_experts ({self.num_experts})"
            )

    @property
    def routed_rows(self) -> int:
        """T = M*k, before any id is dropped as -1."""
        return self.tokens * self.topk


PLACEMENTS = ("packed", "align_up", "align_down", "tile_index")
"""How experts are placed: prefix sums of R(c_e); off_e + e*(A-1) rounded up, or down, to the tile; A * (off_e // A + e).

off_e: unpadded offsets. FlashInfer and TensorRT-LLM align up, FlashInfer pull request 3562 proposed to align down,
quack counts tiles.
"""

SIZED_FOR = ("call", "max_num_batched_tokens", "cap")
"""What M a formula is told where its engine uses it: the tokens of the call itself, so that nothing is refused; the
largest call that the scheduler may send, and a larger one is refused; none, and a call with T > rows is refused."""

VLLM_ENV_TOKENS = 163_840
"""Default of vLLM's VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE."""
SGLANG_TOKENS = 65_536
"""Default of SGLang's MODELOPT_MAX_TOKENS_PER_EXPERT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """A named rule for the rows of a block-scale buffer."""

    name: str
    rule: str
    """The rule in words of the field: M, k, T = M*k, E or L experts, A the tile, R() rounding up to it."""
    rows: Callable[[Sizing], int]
    source: str
    ids: str = "any"
    """"any" or "distinct": the routings that it is meant to cover."""
    placement: str = "packed"
    sized_for: str = "call"
    """One of `SIZED_FOR`."""

    @property
    def capped(self) -> bool:
        """True: the rows do not depend on the batch, and the guard is T <= rows."""
        return self.sized_for == "cap"

    def guard_routed_rows(self, sizing: Sizing) -> int:
        """Return the most routed rows that the formula's own guard lets through, of a buffer for `sizing`."""
        return self.rows(sizing) if self.capped else sizing.routed_rows


def _exact_any(s: Sizing) -> int:
    return exact_any_rows(s.routed_rows, s.num_experts, tile=s.tile)


def _exact_distinct(s: Sizing) -> int:
    return exact_distinct_rows(s.tokens, s.topk, s.num_experts, tile=s.tile)


def _loose(s: Sizing) -> int:
    return s.routed_rows + (s.tile - 1) * min(s.routed_rows, s.num_experts)


def _proposed(s: Sizing) -> int:
    return s.routed_rows + (s.tile - 1) * s.num_experts


def _flashinfer_trtllm(s: Sizing) -> int:
    occupied = min(s.routed_rows, s.num_global_experts)
    return s.tile * (occupied + (s.routed_rows - occupied) // s.tile)


def _trtllm_cutedsl(s: Sizing) -> int:
    if s.routed_rows <= s.num_experts:
        return s.tile * s.routed_rows
    return s.tile * ((s.routed_rows + (s.tile - 1) * s.num_experts) // s.tile)


def _flashinfer_cutlass(s: Sizing) -> int:
    routed = min(s.routed_rows, s.tokens * s.num_experts)
    return round_up(routed + (s.tile - 1) * s.num_experts, s.tile)


def _trtllm_old(s: Sizing) -> int:
    return round_up(s.routed_rows + (s.tile - 1) * s.num_global_experts, s.tile)


def _torchao(s: Sizing) -> int:
    return s.routed_rows + s.tile * s.num_experts


def _quack(s: Sizing) -> int:
    return s.tile * (ceil_div(s.routed_rows, s.tile) + s.num_experts - 1)


_ALL = (
    Formula(
        name="proposed",
        rule="M*k + (A-1)*E",
        rows=_proposed,
        source="vLLM change: rows of the NVFP4 scale buffer from max_num_batched_tokens",
        sized_for="max_num_batched_tokens",
    ),
    Formula(
        name="exact_any",
        rule="A * min(T, floor((T + (A-1)*E) / A))",
        rows=_exact_any,
        source="the exact worst case of the packed placement, any ids",
    ),
    Formula(
        name="exact_distinct",
        rule="A * min(T', E*ceil(M/A), floor((T' + (A-1)*E) / A)), T' = M*min(k, E)",
        rows=_exact_distinct,
        source="the exact worst case of the packed placement, ids distinct inside a token",
        ids="distinct",
    ),
    Formula(
        name="loose",
        rule="T + (A-1)*min(T, E)",
        rows=_loose,
        source="closed form that needs no scheduler setting",
    ),
    Formula(
        name="vllm_env",
        rule="163840*k",
        rows=lambda s: VLLM_ENV_TOKENS * s.topk,
        source="vLLM _custom_ops.py, VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE",
        sized_for="cap",
    ),
    Formula(
        name="sglang",
        rule="65536*k",
        rows=lambda s: SGLANG_TOKENS * s.topk,
        source="SGLang jit_kernel/nvfp4.py, MODELOPT_MAX_TOKENS_PER_EXPERT",
        sized_for="cap",
    ),
    Formula(
        name="flashinfer_trtllm",
        rule="A * (f + floor((T-f)/A)), f = min(T, G), G global experts",
        rows=_flashinfer_trtllm,
        source="FlashInfer trtllm/fused_moe/runner.h getMaxPermutedPaddedCount",
    ),
    Formula(
        name="trtllm_cutedsl",
        rule="A * (T if T <= L else floor((T + (A-1)*L) / A)), L local experts",
        rows=_trtllm_cutedsl,
        source="FlashInfer fused_moe/cute_dsl/moe_utils.py get_max_num_tiles; TensorRT-LLM GroupedGemmInputsHelper",
    ),
    Formula(
        name="flashinfer_cutlass",
        rule="R(min(M*k, M*L) + (A-1)*L), experts placed at R(off_e + e*(A-1))",
        rows=_flashinfer_cutlass,
        source="FlashInfer and TensorRT-LLM CUTLASS back end, getOffsetActivationSF and its workspace",
        ids="distinct",
        placement="align_up",
    ),
    Formula(
        name="trtllm_old",
        rule="R(T + (A-1)*G), G global experts",
        rows=_trtllm_old,
        source="TensorRT-LLM trtllmGenFp8BlockScaleMoe (older)",
    ),
    Formula(
        name="torchao",
        rule="T + A*E",
        rows=_torchao,
        source="torchao MXFP8 grouped scales (pull request 2990)",
    ),
    Formula(
        name="quack",
        rule="A * (ceil(T/A) + E - 1), experts placed at A*(off_e // A + e)",
        rows=_quack,
        source="quack AI/varlen_blockscaled_sf_layout.md",
        placement="tile_index",
    ),
)

FORMULAS: dict[str, Formula] = {formula.name: formula for formula in _ALL}
"""Every sizing formula by its registry name; `verify --bound`, `bound` and the sizing policies all read this."""


def expert_starts(
    tokens_per_expert: Sequence[int], *, placement: str = "packed", tile: int = TILE
) -> list[int]:
    """Return the first scale row of each expert, and behind the last the end of the last region: E+1 ints.

    Args:
        tokens_per_expert: rows of each expert.
        placement: one of `PLACEMENTS`.
        tile: rows of a scale tile.

    Raises:
        ValueError: unknown placement.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"placement must be one of {', '.join(PLACEMENTS)}, got {placement!r}")
    starts: list[int] = []
    offset = packed = end = 0
    for expert, count in enumerate(tokens_per_expert):
        if placement == "packed":
            start = packed
        elif placement == "align_up":
            start = round_up(offset + expert * (tile - 1), tile)
        elif placement == "align_down":
            start = (offset + expert * (tile - 1)) // tile * tile
        else:
            start = tile * (offset // tile + expert)
        starts.append(start)
        end = start + round_up(count, tile)
        packed = end
        offset += count
    return [*starts, end]


def local_experts(num_global_experts: int, expert_parallel_size: int = 1) -> int:
    """Return the experts of the fullest rank when the model's experts are dealt out to the ranks.

    Raises:
        ValueError: more ranks than experts.
    """
    check_size("num_experts", num_global_experts, at_least=1)
    check_size("expert_parallel_size", expert_parallel_size, at_least=1)
    if expert_parallel_size > num_global_experts:
        raise ValueError(
            f"expert_parallel_size ({expert_parallel_size}) must be at most the number of experts ({num_global_experts})"
        )
    return ceil_div(num_global_experts, expert_parallel_size)
