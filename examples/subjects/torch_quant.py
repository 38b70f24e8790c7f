"""An expert quantizer in plain torch under test: once right, once with a fault that aligned shapes do not show.

    nvfp4-moe verify --subject examples/subjects/torch_quant.py           # right: every claim holds
    nvfp4-moe verify --subject examples/subjects/torch_quant.py:WRONG     # refuted, with the first wrong byte

The caller allocates the outputs; the operation fills them. `WRONG` places the scales with a row stride of K/16 bytes
in place of K/16 rounded up to 4: the same bytes as long as K is a multiple of 64 or no expert has more than 128 rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nvfp4_moe.verification import Contract, Subject

BLOCK = 16
ONE_SIXTH = torch.tensor(1 / 6)
MIDPOINTS = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
"""Between the E2M1 magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6."""


def _e2m1(scaled: Tensor) -> Tensor:
    """Return codes uint8: nearest magnitude, ties to the even code, NaN to +6."""
    magnitude = scaled.abs()
    low, high = torch.bucketize(magnitude, MIDPOINTS), torch.bucketize(magnitude, MIDPOINTS, right=True)
    code = torch.where(low % 2 == 0, low, high)
    negative = scaled.signbit() & ~scaled.isnan()
    return (code | (negative.long() << 3)).to(torch.uint8)


def _ue4m3(value: Tensor) -> Tensor:
    """Return scale bytes uint8: saturating, NaN to 0x7F."""
    byte = value.clamp(max=448.0).to(torch.float8_e4m3fn).view(torch.uint8)
    return byte.masked_fill(value.isnan(), 0x7F)


def _quantize(rows: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return packed (R, K/2) and block_scale (R, K/16) of rows (R, K) under one global encode scale."""
    blocks = rows.float().reshape(rows.shape[0], rows.shape[1] // BLOCK, BLOCK)
    amax = blocks.abs().nan_to_num(nan=-1.0, posinf=torch.inf).amax(-1)  # NaN elements do not count ...
    amax = amax.masked_fill(amax < 0, torch.nan)  # ... unless there is nothing else
    block_scale = _ue4m3(g * (amax * ONE_SIXTH))
    decoded = block_scale.view(torch.float8_e4m3fn).float()
    multiplier = torch.where(decoded == 0, 0.0, 1 / (decoded * (1 / g)))
    codes = _e2m1(blocks * multiplier[..., None]).reshape(rows.shape)
    return codes[:, 0::2] | codes[:, 1::2] << 4, block_scale


def _place(block_scale: Tensor, region: Tensor, *, row_bytes: int) -> None:
    """Write linear scales (R, K/16) into one expert's region (padded rows * padded columns,), padding zero."""
    row, block = torch.meshgrid(*(torch.arange(n) for n in block_scale.shape), indexing="ij")
    tile = row // 128 * 128 * row_bytes + block // 4 * 512
    region.zero_()
    region[tile + row % 32 * 16 + row % 128 // 32 * 4 + block % 4] = block_scale


def _refuse_what_is_outside(
    output: Tensor,
    output_scale: Tensor,
    rows: Tensor,
    global_encode_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
) -> None:
    """Raise ValueError on shapes and dtypes that the operation does not take: silence would be a finding."""
    if rows.dim() != 2 or rows.dtype not in (torch.bfloat16, torch.float16) or rows.shape[1] % BLOCK:
        raise ValueError(
            f"input must be bf16 or f16 (rows, K), K a multiple of 16; got {rows.dtype} {tuple(rows.shape)}"
        )
    experts, k = global_encode_scale.numel(), rows.shape[1]
    legal = {
        "output": (output, (rows.shape[0], k // 2), torch.uint8),
        "output_scale": (output_scale, (output_scale.shape[0], -(-k // 64)), torch.int32),
        "input_global_scale": (global_encode_scale, (experts,), torch.float32),
        "input_offset_by_experts": (expert_offsets, (experts + 1,), torch.int32),
        "output_scale_offset_by_experts": (blockscale_offsets, (experts + 1,), torch.int32),
    }
    for name, (tensor, shape, dtype) in legal.items():
        if (tuple(tensor.shape), tensor.dtype) != (shape, dtype):
            raise ValueError(f"{name} must be {dtype} {shape}, got {tensor.dtype} {tuple(tensor.shape)}")
    needed = int(blockscale_offsets[-1])
    if needed > output_scale.shape[0]:
        raise ValueError(f"output_scale must have {needed} rows or more, got {output_scale.shape[0]}")


def _experts(
    output: Tensor,
    output_scale: Tensor,
    rows: Tensor,
    global_encode_scale: Tensor,
    expert_offsets: Tensor,
    blockscale_offsets: Tensor,
    *,
    row_bytes: int,
) -> None:
    _refuse_what_is_outside(
        output, output_scale, rows, global_encode_scale, expert_offsets, blockscale_offsets
    )
    columns = output_scale.shape[1] * 4
    scale_bytes = output_scale.view(torch.uint8).view(-1)
    for expert, g in enumerate(global_encode_scale):
        start, end = expert_offsets[expert : expert + 2].tolist()
        first, last = blockscale_offsets[expert : expert + 2].tolist()
        output[start:end], block_scale = _quantize(rows[start:end], g)
        _place(block_scale, scale_bytes[first * columns : last * columns], row_bytes=row_bytes)


def right(*arguments: Tensor) -> None:
    """Quantize ragged experts; scale columns padded to a multiple of 4, as the swizzled layout says."""
    _experts(*arguments, row_bytes=arguments[1].shape[-1] * 4)


def wrong(*arguments: Tensor) -> None:
    """The same with unpadded scale columns."""
    _experts(*arguments, row_bytes=arguments[2].shape[-1] // BLOCK)


CONTRACT = Contract(arithmetic="ieee", id_dtypes=("int32",), strided="honoured")

SUBJECT = Subject("torch_quant", contract=CONTRACT, scaled_fp4_experts_quant=right)
WRONG = Subject("torch_quant:WRONG", contract=CONTRACT, scaled_fp4_experts_quant=wrong)
