"""The counterexample of a bound as a short script that needs torch alone, to paste into an issue.

It goes through the checked form of the witness, so no text of a file reaches the script but
a parsed expression and registry names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from nvfp4_moe.verification.bound_witness import BoundWitness, runs

MOST_ROWS = 1 << 24
"""Most routed rows that a script builds as topk_ids: 128 MiB of int64."""

_STARTS = {
    "packed": "ends = padded.cumsum(0)  # experts one after the other, each rounded up to the tile",
    "align_up": (
        "starts = round_up(counts.cumsum(0) - counts + torch.arange(num_experts) * (tile - 1), tile)\nends = starts + padded"
    ),
    "align_down": (
        "starts = (counts.cumsum(0) - counts + torch.arange(num_experts) * (tile - 1)) // tile * tile\nends = starts + padded"
    ),
    "tile_index": (
        "starts = ((counts.cumsum(0) - counts) // tile + torch.arange(num_experts)) * tile\nends = starts + padded"
    ),
}

_CLAIMS = {
    "overrun": ("a routing that overruns it", "needed <= bound", "the GEMM reads past the buffer"),
    "attained": ("a routing that needs all of it", "needed < bound", "every row of the buffer is used"),
    "slack": ("the worst routing leaves rows unused", "needed >= bound", "rows that no routing uses"),
}
"""What the script shows, the assertion that fails while it does, and its text."""

_TEMPLATE = '''\
"""Rows of an NVFP4 block-scale buffer: {title} (needs torch only)."""
import torch

max_num_batched_tokens, topk, num_experts, tile = {sizes}
tokens = {tokens}  # of this call
tokens_per_expert = torch.tensor({counts})


def round_up(x, y):
    return (x + y - 1) // y * y


# One expert after the other, its rows dealt to the tokens in turn; ids left over are -1.
ids = torch.full((topk * tokens,), -1)
ids[: int(tokens_per_expert.sum())] = torch.arange(num_experts).repeat_interleave(tokens_per_expert)
topk_ids = ids.view(topk, tokens).T  # (tokens, topk)

counts = torch.bincount(topk_ids[topk_ids >= 0], minlength=num_experts)
padded = round_up(counts, tile)
{ends}
needed = int(ends[counts > 0].max()) if counts.any() else 0
{bound}
print(f"{{int(counts.sum())}} routed rows on {{num_experts}} experts: needs {{needed}} rows, the bound gives {{bound}}")
assert {claim}, "{failure}"
'''


def as_script(witness: Mapping[str, Any]) -> str:
    """Return a stand-alone torch script that fails with an AssertionError while the counterexample holds.

    Raises:
        ValueError, TypeError: a witness that is not legal, or one with too many rows to build.
    """
    found = BoundWitness.from_json(witness)
    s = found.sizing
    if found.tokens * s.topk > MOST_ROWS:
        raise ValueError(
            f"tokens x topk must be at most {MOST_ROWS:,} for a script, got {found.tokens * s.topk:,}"
        )
    title, claim, failure = _CLAIMS[found.relation]
    return _TEMPLATE.format(
        title=title,
        sizes=f"{s.tokens}, {s.topk}, {s.num_experts}, {s.tile}",
        tokens=found.tokens,
        counts=textwrap.fill(runs(found.tokens_per_expert), width=100, subsequent_indent="    "),
        ends=_STARTS[found.placement],
        bound=_bound_line(found),
        claim=claim,
        failure=failure,
    )


def _bound_line(witness: BoundWitness) -> str:
    bound = witness.bound
    if bound is None:
        return f"bound = {witness.bound_rows}"
    if bound.expression is None:
        return f"bound = {bound.rows(witness.sizing)}  # {bound.name}: {bound.rule}"
    return f"bound = {bound.expression}"
