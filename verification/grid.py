"""The configurations that a bound is tried on: a stated grid, or the sizes that a user gives."""

from __future__ import annotations

from dataclasses import dataclass, replace


def _around_powers(first: int, last: int) -> tuple[int, ...]:
    """Return 2^n - 1, 2^n and 2^n + 1 for n from `first` to `last`."""
    return tuple(2**n + offset for n in range(first, last + 1) for offset in (-1, 0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Configurations to try: every combination of the three tuples."""

    max_num_batched_tokens: tuple[int, ...] = (*range(1, 18), *_around_powers(5, 20), 49_408, 98_304, 163_840)
    topk: tuple[int, ...] = (*range(1, 17), 22)
    experts: tuple[int, ...] = (
        *range(1, 18),
        *(48, 60, 64, 72, 96, 128, 160, 192, 256, 257, 320, 384, 512, 1024, 2048),
    )
    """Experts of the model, over all ranks."""
    most_tokens: int | None = None
    """Most tokens of a call, also where the bound's guard would let more through; None: the guard alone."""

    def with_sizes(
        self,
        *,
        max_num_batched_tokens: int | None = None,
        topk: int | None = None,
        experts: int | None = None,
    ) -> Grid:
        """Return the grid with the given sizes fixed to one value each."""
        grid = self
        if max_num_batched_tokens is not None:
            grid = replace(
                grid, max_num_batched_tokens=(max_num_batched_tokens,), most_tokens=max_num_batched_tokens
            )
        if topk is not None:
            grid = replace(grid, topk=(topk,))
        if experts is not None:
            grid = replace(grid, experts=(experts,))
        return grid

    @property
    def is_single(self) -> bool:
        """Return whether the grid is one configuration, stated in full."""
        sizes = (self.max_num_batched_tokens, self.topk, self.experts)
        return self.most_tokens is not None and all(len(values) == 1 for values in sizes)

    def __str__(self) -> str:
        if self == Grid():
            return "the stated grid"
        named = (
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("topk", self.topk),
            ("experts", self.experts),
        )
        return ", ".join(
            f"{name} {values[0]:,}" if len(values) == 1 else f"{len(values)} {name} of the grid"
            for name, values in named
        )


GRID = Grid()
"""The stated grid of `verify --bound` without size options."""
