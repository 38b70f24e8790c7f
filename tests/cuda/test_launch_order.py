"""Kernels that start while the one before them still runs: they must wait for its writes, and for its reads.

Steps of routing and quantization follow one another without a pause, as in an engine. All share the vectors that the
routing writes and the quantizer reads, so a kernel that does not wait sees the vectors of another step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.ops import CudaOps, Ops
from nvfp4_moe.reference.experts import quantize_experts
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification import counter

EXPERTS, TOPK, N = 32, 3, 64
STEPS = 24

SameBytes = Callable[[str, Tensor, Tensor], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Vectors:
    """What the routing writes; one copy for all steps."""

    expert_offsets: Tensor
    problem_sizes: Sequence[Tensor]
    permutations: Sequence[Tensor]
    blockscale_offsets: Tensor

    @classmethod
    def of(cls, tokens: int, device: str) -> Vectors:
        def empty(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        return cls(
            expert_offsets=empty(EXPERTS + 1),
            problem_sizes=(empty(EXPERTS, 3), empty(EXPERTS, 3)),
            permutations=(empty(tokens * TOPK), empty(tokens * TOPK)),
            blockscale_offsets=empty(EXPERTS + 1),
        )


class Step:
    """One batch: its ids, its outputs and their true bytes."""

    def __init__(self, number: int, input: Tensor, scale: Tensor) -> None:
        tokens, k = input.shape
        raw = counter.words(number, "launch order", 0, tokens * TOPK, device=input.device)
        self.ids = counter.below(raw, EXPERTS).view(tokens, TOPK).to(torch.int32)
        self.input, self.scale = input, scale
        routing = route(self.ids, EXPERTS, n=N, k=k)
        gathered = input[routing.input_permutation.long()]
        true = quantize_experts(gathered, scale, routing.expert_offsets)
        self.true_packed, self.true_scale = true.packed, true.block_scale.view(torch.uint8)
        self.packed = torch.zeros_like(true.packed)
        self.block_scale = torch.zeros_like(self.true_scale).view(torch.int32)

    def run(self, ops: Ops, vectors: Vectors) -> None:
        ops.get_cutlass_moe_mm_data(
            self.ids, vectors.expert_offsets, *vectors.problem_sizes, *vectors.permutations, EXPERTS, N,
            self.input.shape[1], vectors.blockscale_offsets, True,
        )  # fmt: skip
        ops.scaled_fp4_experts_quant(
            self.packed, self.block_scale, self.input, self.scale, vectors.expert_offsets,
            vectors.blockscale_offsets, input_map=vectors.permutations[0],
        )  # fmt: skip


SHAPES = [(40, 7168), (40, 80), (2000, 512)]
"""Tokens and K: the kernel for few rows, wide and narrow, and the one for many."""


def make_steps(
    patterns: Callable[..., Tensor], tokens: int, k: int, device: str
) -> tuple[list[Step], Vectors]:
    input = patterns(5, "launch order", (tokens, k), torch.bfloat16).to(device)
    scale = 3.0 + 37.0 * torch.arange(EXPERTS, device=device).float()
    steps = [Step(number, input, scale) for number in range(STEPS if device == "cuda" else 2)]
    return steps, Vectors.of(tokens, device)


def check(steps: Sequence[Step], same_bytes: SameBytes) -> None:
    for step in steps:
        same_bytes("packed", step.packed, step.true_packed)
        same_bytes("block_scale", step.block_scale, step.true_scale)


@pytest.mark.parametrize(("tokens", "k"), SHAPES)
def test_every_step_sees_its_own_routing(
    subject: Ops, patterns: Callable[..., Tensor], same_bytes: SameBytes, tokens: int, k: int
) -> None:
    steps, vectors = make_steps(patterns, tokens, k, subject.device_type)
    for step in steps:
        step.run(subject, vectors)
    check(steps, same_bytes)


@pytest.mark.gpu
@pytest.mark.parametrize(("tokens", "k"), SHAPES)
def test_the_same_from_a_graph(
    patterns: Callable[..., Tensor], same_bytes: SameBytes, tokens: int, k: int
) -> None:
    steps, vectors = make_steps(patterns, tokens, k, "cuda")
    graph = torch.cuda.CUDAGraph()
    steps[0].run(CudaOps(arithmetic="ieee"), vectors)  # the first use of a kernel loads it
    with torch.cuda.graph(graph):
        for step in steps:
            step.run(CudaOps(arithmetic="ieee"), vectors)
    for _ in range(3):
        for step in steps:
            step.packed.zero_()
            step.block_scale.zero_()
        graph.replay()
    check(steps, same_bytes)
