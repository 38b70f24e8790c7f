"""The subject protocol over the two libraries: the ops that an engine calls, with outputs allocated by the caller.

| op | what it writes |
|---|---|
| `get_cutlass_moe_mm_data` | offsets, problem sizes and both permutations of a batch |
| `shuffle_rows` | rows gathered by a permutation |
| `unpermute_rows` | per token, the weighted sum of its rows |
| `scaled_fp4_experts_quant` | codes and swizzled_128x4 block scales of ragged expert rows |
| `silu_and_mul_scaled_fp4_experts_quant` | the same of silu(gate) * up |
| `scaled_fp4_masked_quant`, `silu_and_mul_scaled_fp4_masked_quant` | the same of the masked form (E, M, K) |
| `swizzle`, `unswizzle` | block scales of weights between row-major order and a swizzled layout |

What is written: the rows [0, expert_offsets[E]) of the codes, and of the scales every byte of those rows (past K/16 they
are zero) and, with `row_padding="zero"`, the rows that fill an expert's last tile, as zeros. With "unwritten" only those
bytes of these rows are zeroed that share a 32-byte sector with a row's scales: to write a sector in part costs more than
to write it whole. Nothing else is touched.

The kernels are launched while the one before them on the stream still runs, and wait for its end before they touch memory
(programmatic dependent launch), which a kernel behind them may do as well.

Both libraries check dtypes, shapes, strides and devices and raise TypeError or ValueError. Values (offsets that descend,
ids out of range) are refused by the host twin; the kernels cannot see them in time: there, an id outside [-1, E) counts
as -1, an index outside the input reads as zeros, and a row whose scales lie outside the buffer is not written.

The module's own functions have the signatures of vLLM's `ops` with the seed's change: outputs allocated by a sizing policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nvfp4_moe.cuda.build import cuda_library, host_library
from nvfp4_moe.cuda.moe import run_cutlass_moe_fp4 as run_cutlass_moe_fp4
from nvfp4_moe.cuda.moe_gemm import cutlass_fp4_moe_mm as cutlass_fp4_moe_mm
from nvfp4_moe.cuda.seed_ops import scaled_fp4_experts_quant as scaled_fp4_experts_quant
from nvfp4_moe.cuda.seed_ops import (
    silu_and_mul_scaled_fp4_experts_quant as silu_and_mul_scaled_fp4_experts_quant,
)
from nvfp4_moe.cuda.silu_table import silu_table
from nvfp4_moe.reference.layouts import LAYOUTS
from nvfp4_moe.reference.tables import find_table

ARITHMETICS = ("ieee", "hardware")
ROW_PADDINGS = ("zero", "unwritten")


@dataclass(frozen=True, kw_only=True)
class Ops:
    """The callables; `HostOps` and `CudaOps` say which library runs them."""

    device_type: ClassVar[str]

    arithmetic: str
    """`ieee` (every operation correctly rounded) or `hardware` (approximate reciprocal and SiLU)."""
    row_padding: str = "zero"
    """`zero`, or `unwritten` for consumers that do not read the rows behind an expert's last one."""

    def __post_init__(self) -> None:
        _require_one_of("arithmetic", self.arithmetic, ARITHMETICS)
        _require_one_of("row_padding", self.row_padding, ROW_PADDINGS)

    def options(self, **changes: Any) -> Self:
        """Return the same ops with other options."""
        return replace(self, **changes)

    def scaled_fp4_experts_quant(
        self,
        output: Tensor,
        output_scale: Tensor,
        input: Tensor,
        input_global_scale: Tensor,
        input_offset_by_experts: Tensor,
        output_scale_offset_by_experts: Tensor,
        *,
        input_map: Tensor | None = None,
    ) -> None:
        """Quantize routed rows, each with the global encode scale of its expert.

        Args:
            output: uint8 (rows, K/2), written.
            output_scale: int32 (scale rows, ceil(K/64)), or its bytes, in swizzled_128x4; written.
            input: bfloat16 or float16 (rows, K); rows may lie apart.
            input_global_scale: float32 (E,), encode direction.
            input_offset_by_experts: int32 (E + 1,), prefix sums of the experts' rows.
            output_scale_offset_by_experts: int32 (E + 1,), first scale row of each expert, multiples of 128.
            input_map: int32 (rows,); routed row r is then read from input[input_map[r]] (`input` has any number of rows),
                which saves the pass through `shuffle_rows`.

        Raises:
            TypeError, ValueError: as the module says.
        """
        self._ragged(
            output, output_scale, input, input_global_scale, input_offset_by_experts,
            output_scale_offset_by_experts, input_map, fused=False,
        )  # fmt: skip

    def silu_and_mul_scaled_fp4_experts_quant(
        self,
        output: Tensor,
        output_scale: Tensor,
        input: Tensor,
        input_global_scale: Tensor,
        input_offset_by_experts: Tensor,
        output_scale_offset_by_experts: Tensor,
    ) -> None:
        """Quantize silu(gate) * up, rounded to the input type first; `input` is (rows, 2K), gate in the first K columns.

        Otherwise as `scaled_fp4_experts_quant`.
        """
        self._ragged(
            output, output_scale, input, input_global_scale, input_offset_by_experts,
            output_scale_offset_by_experts, None, fused=True,
        )  # fmt: skip

    def scaled_fp4_masked_quant(
        self,
        output: Tensor,
        output_scale: Tensor,
        input: Tensor,
        input_global_scale: Tensor,
        masked_m: Tensor,
    ) -> None:
        """Quantize the masked form: of expert e the rows [0, masked_m[e]).

        Args:
            output: uint8 (E, M, K/2), written.
            output_scale: int32 (E, round_up(M, 128), ceil(K/64)), or its bytes; written.
            input: bfloat16 or float16 (E, M, K), contiguous.
            input_global_scale: float32 (E,), encode direction.
            masked_m: int32 (E,), each in [0, M].
        """
        self._masked(output, output_scale, input, input_global_scale, masked_m, fused=False)

    def silu_and_mul_scaled_fp4_masked_quant(
        self,
        output: Tensor,
        output_scale: Tensor,
        input: Tensor,
        input_global_scale: Tensor,
        masked_m: Tensor,
    ) -> None:
        """Quantize silu(gate) * up of the masked form; `input` is (E, M, 2K), gate first."""
        self._masked(output, output_scale, input, input_global_scale, masked_m, fused=True)

    def get_cutlass_moe_mm_data(
        self,
        topk_ids: Tensor,
        expert_offsets: Tensor,
        problem_sizes1: Tensor,
        problem_sizes2: Tensor,
        input_permutation: Tensor,
        output_permutation: Tensor,
        num_experts: int,
        n: int,
        k: int,
        blockscale_offsets: Tensor | None = None,
        is_gated: bool = True,
    ) -> None:
        """Write the routing data of a batch; rows of one expert stand in the order of their tokens.

        Args:
            topk_ids: int32 or int64 (M, topk); -1 is skipped.
            expert_offsets, blockscale_offsets: int32 (E + 1,), written; the second may be None.
            problem_sizes1, problem_sizes2: int32 (E, 3), written: (rows, 2n or n, k) and (rows, k, n).
            input_permutation: int32 (M * topk,), written: token of each routed row; 0 behind the routed rows.
            output_permutation: int32 (M * topk,), written: routed row of each id; expert_offsets[E] for -1.
            num_experts, n, k: E, intermediate size, hidden size.
            is_gated: whether the first GEMM has gate and up.
        """
        if topk_ids.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"topk_ids must be int32 or int64, got {topk_ids.dtype}")
        self._library().route_experts(
            topk_ids, expert_offsets, problem_sizes1, problem_sizes2, input_permutation, output_permutation,
            num_experts, n, k, blockscale_offsets, is_gated, *self._routing_tail(),
        )  # fmt: skip

    def shuffle_rows(self, input: Tensor, map: Tensor, output: Tensor | None = None) -> Tensor:
        """Return input[map]: (len(map), K) of the dtype of `input`, in `output` where given.

        Args:
            input: (rows, K) of a dtype of 1, 2 or 4 bytes; rows may lie apart.
            map: int32 (any,), row numbers of `input`.
            output: contiguous (len(map), K) of the same dtype.
        """
        if output is None:
            output = input.new_empty((map.shape[0], input.shape[1]))
        self._library().shuffle_rows(output, input, map, *self._test_tail())
        return output

    def unpermute_rows(
        self,
        output: Tensor,
        input: Tensor,
        output_permutation: Tensor,
        topk_weights: Tensor,
        expert_offsets: Tensor,
    ) -> None:
        """Write output[t] = sum over j of topk_weights[t, j] * input[output_permutation[t * topk + j]].

        The sum runs over j = 0, 1, ... in float32, each product and each sum rounded once, and is rounded once to the
        row type at the end. A row at or behind expert_offsets[E] (id -1) adds nothing.

        Args:
            output: bfloat16 or float16 (M, K), written.
            input: (rows, K) of the same dtype.
            output_permutation: int32 (M * topk,).
            topk_weights: float32 (M, topk).
            expert_offsets: int32 (E + 1,); only the last entry is read.
        """
        self._library().unpermute_rows(
            output, input, output_permutation, topk_weights, expert_offsets, *self._test_tail()
        )

    def swizzle(self, linear: Tensor, *, layout: str = "swizzled_128x4") -> Tensor:
        """Return block scales in `layout`, padding bytes zero.

        Args:
            linear: uint8 or float8_e4m3fn (rows, K/16) or (E, rows, K/16), contiguous.
            layout: `swizzled_128x4` or `swizzled_8x4`.

        Returns:
            uint8 (padded rows, 4 * ceil(K/64)), with the leading E where given.
        """
        source = _stack_of_bytes("linear", linear)
        tile_rows = _tile_rows(layout)
        experts, rows, blocks = source.shape
        shape = (
            experts,
            -(-rows // tile_rows) * tile_rows,
            LAYOUTS[layout].columns(16 * blocks) if blocks else 0,
        )
        swizzled = source.new_empty(shape)
        self._library().swizzle_scales(swizzled, source, tile_rows, *self._test_tail())
        return swizzled if linear.ndim == 3 else swizzled[0]

    def unswizzle(self, swizzled: Tensor, *, rows: int, k: int, layout: str = "swizzled_128x4") -> Tensor:
        """Return block scales in row-major order, uint8 (rows, K/16) or (E, rows, K/16): the inverse of `swizzle`."""
        source = _stack_of_bytes("swizzled", swizzled)
        linear = source.new_empty((source.shape[0], rows, k // 16))
        self._library().unswizzle_scales(linear, source, _tile_rows(layout), *self._test_tail())
        return linear if swizzled.ndim == 3 else linear[0]

    def _ragged(
        self,
        output: Tensor,
        output_scale: Tensor,
        input: Tensor,
        input_global_scale: Tensor,
        expert_offsets: Tensor,
        blockscale_offsets: Tensor,
        input_map: Tensor | None,
        *,
        fused: bool,
    ) -> None:
        self._library().quantize_experts(
            output, _scale_bytes(output_scale), input, input_global_scale, expert_offsets, blockscale_offsets, input_map,
            *self._quantize_tail(input, fused),
        )  # fmt: skip

    def _masked(
        self,
        output: Tensor,
        output_scale: Tensor,
        input: Tensor,
        input_global_scale: Tensor,
        masked_m: Tensor,
        *,
        fused: bool,
    ) -> None:
        self._library().quantize_masked(
            output,
            _scale_bytes(output_scale),
            input,
            input_global_scale,
            masked_m,
            *self._quantize_tail(input, fused),
        )

    def _library(self) -> Any:
        raise NotImplementedError

    def _quantize_tail(self, input: Tensor, fused: bool) -> tuple[Any, ...]:
        raise NotImplementedError

    def _routing_tail(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _test_tail(self) -> tuple[Any, ...]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class HostOps(Ops):
    """The host twin. `hardware` takes the measured tables of `chip`, or the first ones known."""

    device_type: ClassVar[str] = "cpu"

    arithmetic: str = "ieee"
    chip: str | None = None
    """Name of the chip whose tables arithmetic `hardware` reads."""
    seed: int = -1
    """For tests: at least 0 runs the tasks in an order shuffled by it."""
    count_writers: bool = False
    """For tests: add 1 to an output byte for every write of it instead of writing."""
    workers: int | None = None
    """Segments that the router cuts the ids into; any number gives the same result."""

    def _library(self) -> Any:
        return host_library()

    def _quantize_tail(self, input: Tensor, fused: bool) -> tuple[Any, ...]:
        silu = reciprocal_ulps = None
        if self.arithmetic == "hardware":
            reciprocal_ulps = find_table("reciprocal", chip=self.chip).values
            if fused:
                kind = "silu_bf16" if input.dtype == torch.bfloat16 else "silu_f16"
                silu = find_table(kind, chip=self.chip).values.view(torch.float32)
        elif fused:
            silu = _silu_table_for(input)
        return silu, reciprocal_ulps, fused, self.row_padding == "zero", *self._test_tail()

    def _routing_tail(self) -> tuple[Any, ...]:
        return self.workers or torch.get_num_threads(), *self._test_tail()

    def _test_tail(self) -> tuple[Any, ...]:
        threads = 1 if self.count_writers else torch.get_num_threads()
        return threads, self.seed, self.count_writers


@dataclass(frozen=True, kw_only=True)
class CudaOps(Ops):
    """The CUDA kernels, on the current stream of the tensors' device."""

    device_type: ClassVar[str] = "cuda"

    arithmetic: str = "hardware"

    def _library(self) -> Any:
        return cuda_library()

    def _quantize_tail(self, input: Tensor, fused: bool) -> tuple[Any, ...]:
        ieee = self.arithmetic == "ieee"
        silu = _silu_table_on(input.dtype, input.device) if ieee and fused else None
        return silu, fused, ieee, self.row_padding == "zero"

    def _routing_tail(self) -> tuple[Any, ...]:
        return ()

    def _test_tail(self) -> tuple[Any, ...]:
        return ()


_on_device: dict[tuple[torch.dtype, torch.device], Tensor] = {}


def _silu_table_for(input: Tensor) -> Tensor | None:
    """Return the table, or None for a dtype that the library is about to refuse."""
    return silu_table(input.dtype) if input.dtype in (torch.bfloat16, torch.float16) else None


def _silu_table_on(dtype: torch.dtype, device: torch.device) -> Tensor | None:
    if dtype not in (torch.bfloat16, torch.float16):
        return None
    key = (dtype, device)
    if key not in _on_device:
        _on_device[key] = silu_table(dtype).to(device)
    return _on_device[key]


def _scale_bytes(output_scale: Tensor) -> Tensor:
    """Return the buffer as uint8: four times as wide where it holds words."""
    if output_scale.dtype not in (torch.int32, torch.uint8, torch.float8_e4m3fn):
        raise TypeError(f"output_scale must be int32, uint8 or float8_e4m3fn, got {output_scale.dtype}")
    if not output_scale.is_contiguous():
        raise ValueError("output_scale must be contiguous")
    return output_scale.view(torch.uint8)


def _stack_of_bytes(name: str, scales: Tensor) -> Tensor:
    if scales.dtype not in (torch.uint8, torch.float8_e4m3fn):
        raise TypeError(f"{name} must be uint8 or float8_e4m3fn, got {scales.dtype}")
    if scales.ndim not in (2, 3) or not scales.is_contiguous():
        raise ValueError(f"{name} must be contiguous with 2 or 3 dimensions, got shape {tuple(scales.shape)}")
    return scales.view(torch.uint8) if scales.ndim == 3 else scales.view(torch.uint8)[None]


def _tile_rows(layout: str) -> int:
    swizzled = {name: at.tile_rows for name, at in LAYOUTS.items() if at.swizzled}
    _require_one_of("layout", layout, tuple(swizzled))
    return swizzled[layout]


def _require_one_of(name: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise ValueError(f"{name} must be one of {', '.join(legal)}, got {value!r}")
