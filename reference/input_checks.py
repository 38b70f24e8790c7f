"""Checks at the door of the quantizers: every error names what was given and what is legal."""

from __future__ import annotations

import math

import torch

from nvfp4_moe.reference.checks import check_index_vector
from nvfp4_moe.reference.formats import NVFP4

INPUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""Legal dtypes of activations and weights."""


def check_input(name: str, tensor: torch.Tensor, *, dims: int | None = None, gated: bool = False) -> None:
    """Check an input whose last dimension holds whole blocks.

    Args:
        name: what the message calls it.
        tensor: the input.
        dims: dimensions it must have; None: any, from one on.
        gated: whether the last dimension holds gate and up side by side (2K).

    Raises:
        TypeError: no tensor, or another dtype.
        ValueError: other dimensions, or K no positive multiple of the block size.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in INPUT_DTYPES:
        given = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"{name} must be a tensor of {' or '.join(map(str, INPUT_DTYPES))}, got {given}")
    if dims is None and tensor.dim() == 0:
        raise ValueError(f"{name} must have a dimension of columns, got shape {tuple(tensor.shape)}")
    if dims is not None and tensor.dim() != dims:
        raise ValueError(f"{name} must have {dims} dimensions, got shape {tuple(tensor.shape)}")
    width = tensor.shape[-1]
    halves = 2 if gated else 1
    if width == 0 or width % (halves * NVFP4.block_size):
        what = "2K" if gated else "K"
        raise ValueError(
            f"{name}: {what} must be a positive multiple of {halves * NVFP4.block_size}, "
            f"got shape {tuple(tensor.shape)}"
        )


def check_global_scale(
    name: str, scale: torch.Tensor | float, *, device: torch.device, experts: int | None = None
) -> torch.Tensor:
    """Return a global scale as float32 on `device`: () for one tensor, (experts,) for experts.

    Args:
        name: what the message calls it.
        scale: a number (one tensor only) or a float32 tensor; one element of any shape counts as a number.
        device: where the input lies.
        experts: None for one tensor.

    Raises:
        TypeError: a tensor that is not float32, or no number.
        ValueError: wrong shape or device, or a scale that is not finite and positive.
    """
    if not isinstance(scale, torch.Tensor):
        if experts is not None or isinstance(scale, bool) or not isinstance(scale, int | float):
            raise TypeError(f"{name} must be a float32 tensor, got {type(scale).__name__}")
        scale = torch.tensor(_finite_positive(name, scale), dtype=torch.float32, device=device)
    if scale.dtype != torch.float32:
        raise TypeError(f"{name} must be float32, got {scale.dtype}")
    check_device(name, scale, device)
    if experts is None and scale.numel() == 1:
        scale = scale.reshape(())
    shape = () if experts is None else (experts,)
    if tuple(scale.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(scale.shape)}")
    for expert, value in enumerate(scale.reshape(-1).tolist()):
        _finite_positive(name if experts is None else f"{name}[{expert}]", value)
    return scale


def check_device(name: str, tensor: torch.Tensor, device: torch.device) -> None:
    """Check that `tensor` lies where the input does.

    Raises:
        ValueError: it lies elsewhere.
    """
    if tensor.device != device:
        raise ValueError(f"{name} must be on the input's device {device}, got {tensor.device}")


def check_row_counts(name: str, counts: torch.Tensor, *, experts: int, most: int) -> list[int]:
    """Return rows per expert as a list of ints in [0, most].

    Raises:
        TypeError: not int32 or int64.
        ValueError: wrong shape, or a count outside the range; the text names its expert.
    """
    values = _index_values(name, counts, experts)
    for expert, count in enumerate(values):
        if not 0 <= count <= most:
            raise ValueError(f"{name}[{expert}] must be in [0, {most}], got {count}")
    return values


def check_offsets(name: str, offsets: torch.Tensor, *, experts: int, most: int) -> list[int]:
    """Return prefix sums of rows as a list of experts + 1 ints.

    Raises:
        TypeError: not int32 or int64.
        ValueError: wrong shape, a first entry that is not 0, a descent, or a last entry above `most`.
    """
    values = _index_values(name, offsets, experts + 1)
    if values[0] != 0:
        raise ValueError(f"{name}[0] must be 0, got {values[0]}")
    for expert in range(experts):
        if values[expert + 1] < values[expert]:
            raise ValueError(
                f"{name} must not descend, got {values[expert]}, {values[expert + 1]} at expert {expert}"
            )
    if values[-1] > most:
        raise ValueError(f"{name}[{experts}] must be at most the {most} input rows, got {values[-1]}")
    return values


def _index_values(name: str, vector: torch.Tensor, length: int) -> list[int]:
    check_index_vector(name, vector, length=length)
    values: list[int] = vector.tolist()
    return values


def _finite_positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and positive, got {value}")
    return value
