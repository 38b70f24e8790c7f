"""Recipes with one step replaced: the wrong ones of several classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import Operations
from nvfp4_moe.reference.recipe_steps import Step, Values
from nvfp4_moe.reference.recipes import VLLM, Recipe

Compute = Callable[[Values, Operations], Tensor]


def with_step(name: str, compute: Compute) -> Recipe:
    """Return the recipe `vllm` with another step of a name.

    Raises:
        ValueError: it has no step of that name.
    """
    if name not in [step.writes for step in VLLM.steps]:
        raise ValueError(f"the recipe vllm has no step {name!r}")
    other = Step(name, "wrong", compute)
    return replace(VLLM, steps=tuple(other if step.writes == name else step for step in VLLM.steps))


def unless_scale_zero(compute: Compute) -> Compute:
    """Return a multiplier with the recipe's own guard: 0 where the rounded scale is 0."""
    return lambda v, ops: torch.where(v["decoded_scale"] == 0, 0.0, compute(v, ops))
