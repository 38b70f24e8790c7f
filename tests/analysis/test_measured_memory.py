"""The allocator against the formulas: on a GPU for real, and on the host the judgement of what was measured."""

from __future__ import annotations

import pytest

from nvfp4_moe.analysis.measured_memory import MOST_SLACK, Measured, measure_memory
from nvfp4_moe.analysis.savings import Saving, savings
from nvfp4_moe.analysis.zoo import ZOO


def lines(*names: str, tokens: int = 8192) -> list[Saving]:
    return list(savings([ZOO[name] for name in names], max_num_batched_tokens=[tokens]).lines)


@pytest.mark.parametrize(
    ("requested", "slack", "agrees"),
    [
        (0, 0, True),
        (0, MOST_SLACK, True),
        (1, 0, False),
        (-1, 0, False),
        (0, MOST_SLACK + 1, False),
        (0, -1, False),
    ],
)
def test_what_agrees(requested: int, slack: int, agrees: bool) -> None:
    """`requested`: bytes off the formula's; `slack`: bytes that the allocator added."""
    saving = lines("DeepSeek-R1")[0]
    asked = saving.peak_bytes + requested
    measured = Measured(saving=saving, requested_bytes=asked, allocated_bytes=asked + slack)
    assert measured.agrees is agrees
    assert measured.to_json()["agrees"] is agrees


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 8192])
def test_the_allocator_agrees(tokens: int) -> None:
    """One model whose first buffer is the larger, one whose second is, and one whose rows are no multiple of 128."""
    done: list[int] = []
    found = measure_memory(
        lines("DeepSeek-R1", "Mixtral-8x7B", "Qwen1.5-MoE-A2.7B", tokens=tokens), progress=done.append
    )
    assert [line.to_json() for line in found if not line.agrees] == []
    assert len(done) == len(found) > 0
