"""BOUND-LOOSE: a bound is far above the worst case, which costs memory. All but the fault is exact, and judged as with
`--tight`: some configuration leaves rows that no routing uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nvfp4_moe.reference.padding import FORMULAS, TILE, VLLM_ENV_TOKENS, Sizing
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.grid import Grid
from nvfp4_moe.verification.mutants.mutant import BoundMutant, Mutant, PublicFault

FAULTS = (
    PublicFault(
        id="D1",
        links=(
            "https://github.com/vllm-project/vllm/pull/18160",
            "https://github.com/vllm-project/vllm/pull/37626",
        ),
        what="The block-scale buffer is sized by an environment variable (163,840 rows times topk) that has nothing to "
        "do with the batch.",
        star=True,
    ),
    PublicFault(
        id="D2",
        links=("https://github.com/NVIDIA/TensorRT-LLM/pull/19251",),
        what="Permute buffers are padded for the experts of all ranks, though only local ones have rows.",
        star=True,
    ),
    PublicFault(
        id="D3",
        links=("https://github.com/vllm-project/vllm/pull/55579",),
        what="The tokens of all dispatching ranks, counted already, are multiplied by the number of ranks again: 112 GiB "
        "in place of 3.5.",
        star=True,
    ),
    PublicFault(
        id="D4",
        links=("https://github.com/NVIDIA/TensorRT-LLM/pull/18323",),
        what="A workspace is the maximum with sizes of another data type that are no longer used.",
    ),
    PublicFault(
        id="D6",
        links=("https://github.com/pytorch/ao/pull/2990",),
        what="Padded rows are rows + 128 * groups, one row for each group above the worst case.",
    ),
    PublicFault(
        id="D7",
        links=("https://github.com/vllm-project/vllm/pull/4517",),
        what="One entry for each id and each expert, where one for each block is due.",
    ),
)

_EXACT = FORMULAS["exact_any"].rows

_UNUSUAL_EXPERTS = 16
"""Numbers of experts are mostly multiples of it."""
_STALE_TOKENS = 17
"""Tokens of a size that is no longer used."""
_RANKS = 4
_EXPERTS_OF_RANKS = Grid(experts=(8, 16, 60, 64, 256))


def _mutant(
    name: str,
    fault: str,
    change: str,
    rows: Callable[[Sizing], int],
    *,
    ranks: int = 1,
) -> Mutant:
    bound = Bound(name=name, rule=change, rows=rows)
    grid = Grid() if ranks == 1 else _EXPERTS_OF_RANKS
    return Mutant(
        id=f"bound_loose.{name}",
        fault_class="D",
        stands_for=(fault,),
        change=change,
        refuted_by=("padding.attained",),
        target=BoundMutant(bound=bound, tight=True, grid=grid, expert_parallel_size=ranks),
    )


def _environment(s: Sizing) -> int:
    """What the variable gives, and enough behind it for larger batches."""
    return max(_EXACT(s), VLLM_ENV_TOKENS * s.topk) if s.tokens == 1 else _EXACT(s)


def _all_ranks(s: Sizing) -> int:
    return _EXACT(replace(s, num_experts=s.num_global_experts))


def _ranks_twice(s: Sizing) -> int:
    return _EXACT(replace(s, tokens=s.tokens * s.num_global_experts // s.num_experts))


def _stale_sizes(s: Sizing) -> int:
    return max(_EXACT(s), _EXACT(replace(s, tokens=_STALE_TOKENS)))


def _row_for_each_expert(s: Sizing) -> int:
    return max(_EXACT(s), (s.routed_rows + s.tile * s.num_experts) // s.tile * s.tile if _odd(s) else 0)


def _tile_too_many(s: Sizing) -> int:
    return _EXACT(s) + TILE * _odd(s)


def _odd(s: Sizing) -> bool:
    return s.num_experts % _UNUSUAL_EXPERTS != 0


MUTANTS = (
    _mutant("environment", "D1", "163,840 rows times topk for a call of one token", _environment),
    _mutant(
        "all_ranks",
        "D2",
        "the exact worst case of the experts of all ranks, on one of four",
        _all_ranks,
        ranks=_RANKS,
    ),
    _mutant(
        "ranks_twice",
        "D3",
        "tokens times ranks, where the tokens are those of all ranks already",
        _ranks_twice,
        ranks=_RANKS,
    ),
    _mutant("stale_sizes", "D4", "never fewer rows than 17 tokens need", _stale_sizes),
    _mutant(
        "row_for_each_expert",
        "D6",
        "128 padding rows for each expert in place of 127, only where E is no multiple of 16",
        _row_for_each_expert,
    ),
    _mutant("tile_too_many", "D7", "one tile too many, only where E is no multiple of 16", _tile_too_many),
)
