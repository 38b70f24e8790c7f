"""`FusedMoE`: the layer as a torch module that takes the scheduler's setting and passes it down.

The whole layer is one PyTorch operator, `torch.ops.nvfp4_moe.fused_moe`, so a model with it compiles to one graph with any
number of tokens; on a GPU with the GEMM kernel it can be captured in a CUDA graph. Buffers of a call live for that call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nvfp4_moe.cuda.activations import IS_GATED, activation_name
from nvfp4_moe.cuda.moe import run_cutlass_moe_fp4, workspace_shapes
from nvfp4_moe.cuda.moe_gemm import DEFAULT_PATH, check_path
from nvfp4_moe.cuda.sizing import DEFAULT_POLICY, check_policy
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.formats import NVFP4
from nvfp4_moe.reference.layouts import scale_shape
from nvfp4_moe.reference.padding import check_size

SKIPPED_ID = -1
LAYOUT = "swizzled_128x4"
NAME = "fused_moe"
WEIGHTS = (
    *("w1_fp4", "w1_blockscale", "w1_alphas", "a1_gscale"),
    *("w2_fp4", "w2_blockscale", "w2_alphas", "a2_gscale"),
)
SCHEMA = (
    f"{NAME}(Tensor a, Tensor topk_weights, Tensor topk_ids, {', '.join(f'Tensor {name}' for name in WEIGHTS)},"
    " str activation, int max_num_batched_tokens, bool apply_router_weight_on_input, str sizing, str? arithmetic,"
    " str gemm) -> Tensor"
)


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """The part of a scheduler's configuration that the layer needs."""

    max_num_batched_tokens: int

    def __post_init__(self) -> None:
        check_size("max_num_batched_tokens", self.max_num_batched_tokens, at_least=1)


@dataclass(frozen=True, kw_only=True)
class FusedMoEConfig:
    """Sizes and options of a layer.

    Raises (on construction):
        TypeError, ValueError: a size that is no positive integer, hidden or intermediate size no multiple of 16, an
            unknown activation, policy or path, router weights on the input with topk > 1.
    """

    num_experts: int
    """Experts on this rank."""
    topk: int
    hidden_size: int
    intermediate_size: int
    """Of this rank."""
    max_num_batched_tokens: int = 2048
    """The scheduler's setting; sizes the buffers under `sizing="proposed"` and limits the tokens of a call then."""
    activation: str = "silu"
    apply_router_weight_on_input: bool = False
    sizing: str = DEFAULT_POLICY
    arithmetic: str | None = None
    """`ieee` or `hardware`; None: the device's."""
    gemm: str = DEFAULT_PATH

    def __post_init__(self) -> None:
        for name in ("num_experts", "topk", "hidden_size", "intermediate_size", "max_num_batched_tokens"):
            check_size(name, getattr(self, name), at_least=1)
        for name in ("hidden_size", "intermediate_size"):
            if getattr(self, name) % NVFP4.block_size:
                raise ValueError(
                    f"{name} must be a multiple of {NVFP4.block_size}, got {getattr(self, name)}; "
                    "nvfp4_moe.cuda.weights pads it"
                )
        activation_name(self.activation)
        check_policy(self.sizing)
        if self.arithmetic not in (None, "ieee", "hardware"):
            raise ValueError(f"arithmetic must be ieee, hardware or None, got {self.arithmetic!r}")
        check_path(self.gemm)
        if self.apply_router_weight_on_input and self.topk != 1:
            raise ValueError(f"router weights on the input need topk 1, got {self.topk}")

    def shapes(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Return shape and type of every weight tensor."""
        experts, n, k = self.num_experts, self.intermediate_size, self.hidden_size
        columns = 2 * n if IS_GATED[self.activation] else n
        vector = ((experts,), torch.float32)
        return {
            "w1_fp4": ((experts, columns, k // 2), torch.uint8),
            "w1_blockscale": ((experts, *scale_shape(columns, k, LAYOUT)), torch.float8_e4m3fn),
            "w1_alphas": vector,
            "a1_gscale": vector,
            "w2_fp4": ((experts, k, n // 2), torch.uint8),
            "w2_blockscale": ((experts, *scale_shape(k, n, LAYOUT)), torch.float8_e4m3fn),
            "w2_alphas": vector,
            "a2_gscale": vector,
        }


class FusedMoE(nn.Module):
    """The experts of one rank. Weights are buffers under the names of the seed's arguments.

    Args:
        config: sizes and options.
        weights: the experts; None leaves zeros, to be filled by `load_state_dict`.
        scheduler: its max_num_batched_tokens replaces the configuration's.
        expert_map: int (num_global_experts,), local index of each global expert or -1, for expert parallelism; ids are
            then global.

    Raises:
        ValueError: a weight of another shape or type than the configuration says.
    """

    w1_fp4: Tensor
    w1_blockscale: Tensor
    w1_alphas: Tensor
    a1_gscale: Tensor
    w2_fp4: Tensor
    w2_blockscale: Tensor
    w2_alphas: Tensor
    a2_gscale: Tensor
    expert_map: Tensor | None

    def __init__(
        self,
        config: FusedMoEConfig,
        weights: ExpertWeights | None = None,
        *,
        scheduler: SchedulerConfig | None = None,
        expert_map: Tensor | None = None,
    ) -> None:
        super().__init__()
        if scheduler is not None:
            config = replace(config, max_num_batched_tokens=scheduler.max_num_batched_tokens)
        self.config = config
        given = {} if weights is None else weights.as_dict()
        for name, (shape, dtype) in config.shapes().items():
            tensor = given.get(name)
            self.register_buffer(name, _checked(name, tensor, shape, dtype))
        # With a last entry for id -1, which indexing from the end finds.
        with_skipped = None
        if expert_map is not None:
            with_skipped = torch.cat(
                [expert_map.to(torch.int32), expert_map.new_tensor([SKIPPED_ID], dtype=torch.int32)]
            )
        self.register_buffer("expert_map", with_skipped, persistent=False)

    def forward(self, hidden_states: Tensor, topk_weights: Tensor, topk_ids: Tensor) -> Tensor:
        """Return (M, hidden) in the type of `hidden_states`.

        Args:
            hidden_states: bfloat16 or float16 (M, hidden); M may be 0.
            topk_weights: float32 (M, topk).
            topk_ids: int32 or int64 (M, topk); -1 is skipped.

        Raises:
            TypeError, ValueError, NotImplementedError: as `run_cutlass_moe_fp4`.
        """
        if self.expert_map is not None:
            topk_ids = self.expert_map[topk_ids.to(torch.int64)]
        config = self.config
        out: Tensor = torch.ops.nvfp4_moe.fused_moe(
            hidden_states, topk_weights, topk_ids, *(getattr(self, name) for name in WEIGHTS), config.activation,
            config.max_num_batched_tokens, config.apply_router_weight_on_input, config.sizing, config.arithmetic,
            config.gemm,
        )  # fmt: skip
        return out

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in vars(self.config).items())


def _checked(name: str, tensor: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if tensor is None:
        return torch.zeros(shape, dtype=dtype)
    if tuple(tensor.shape) != shape or tensor.element_size() != dtype.itemsize:
        raise ValueError(f"{name} must be {dtype} {shape}, got {tensor.dtype} {tuple(tensor.shape)}")
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def _fused_moe(
    a: Tensor,
    topk_weights: Tensor,
    topk_ids: Tensor,
    w1_fp4: Tensor,
    w1_blockscale: Tensor,
    w1_alphas: Tensor,
    a1_gscale: Tensor,
    w2_fp4: Tensor,
    w2_blockscale: Tensor,
    w2_alphas: Tensor,
    a2_gscale: Tensor,
    activation: str,
    max_num_batched_tokens: int,
    apply_router_weight_on_input: bool,
    sizing: str,
    arithmetic: str | None,
    gemm: str,
) -> Tensor:
    m, k = a.shape
    e, n, topk = w2_fp4.shape[0], 2 * w2_fp4.shape[2], topk_ids.shape[-1]
    output = torch.empty_like(a)
    shape13, shape2 = workspace_shapes(m, topk, n, k, activation=activation)
    run_cutlass_moe_fp4(
        output, a, a1_gscale, w1_fp4, w1_blockscale, w1_alphas, a2_gscale, w2_fp4, w2_blockscale, w2_alphas,
        topk_weights, topk_ids, activation, a.new_empty(shape13), a.new_empty(shape2), m, n, k, e, a.device, max_num_batched_tokens,
        apply_router_weight_on_input, sizing=sizing, arithmetic=arithmetic, gemm=gemm,
    )  # fmt: skip
    return output


def _fake(a: Tensor, *others: object) -> Tensor:
    del others
    return torch.empty_like(a)


def _define() -> torch.library.Library:
    library = torch.library.Library("nvfp4_moe", "FRAGMENT")
    library.define(SCHEMA)
    for dispatch_key in ("CPU", "CUDA"):
        library.impl(NAME, _fused_moe, dispatch_key)
    torch.library.register_fake(f"nvfp4_moe::{NAME}", _fake, lib=library)
    return library


LIBRARY = _define()
"""Keeps the definition alive."""
