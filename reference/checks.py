"""Checks at the door that several modules share; every error names what was given and what is legal.

Index tensors, prefix sums and counts, sizes that int32 outputs must hold, inputs of the quantizers, global scales.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nvfp4_moe.reference.formats import NVFP4

INDEX_DTYPES = (torch.int32, torch.int64)
"""Legal dtypes of ids, offsets and permutations."""

INT32_MAX = torch.iinfo(torch.int32).max


def check_dense(name: str, tensor: Tensor) -> None:
    """Refuse a tensor whose values cannot be read in place: a sparse one, or one without storage.

    Raises:
        TypeError: another layout than strided.
        ValueError: it lies on the meta device.
    """
    if tensor.layout != torch.strided:
        raise TypeError(f"{name} must be a dense (strided) tensor, got layout {tensor.layout}")
    if tensor.device.type == "meta":
        raise ValueError(f"{name} must hold values, got a tensor on the meta device")


def check_index_dtype(name: str, tensor: Tensor) -> None:
    """Refuse what is not an int32 or int64 tensor.

    Raises:
        TypeError: the text names the argument and what was given.
        ValueError: a tensor without values (meta device).
    """
    if not isinstance(tensor, Tensor) or tensor.dtype not in INDEX_DTYPES:
        given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"{name} must be an int32 or int64 tensor, got {given}")
    check_dense(name, tensor)


def check_index_vector(name: str, vector: Tensor, *, length: int | None = None) -> None:
    """Refuse what is not an int32 or int64 vector, of `length` entries where one is given.

    Raises:
        TypeError: another dtype.
        ValueError: another shape; the text names both.
    """
    check_index_dtype(name, vector)
    if vector.ndim != 1 or (length is not None and len(vector) != length):
        legal = "a vector" if length is None else f"({length},)"
        raise ValueError(f"{name} must be {legal}, got {tuple(vector.shape)}")


def check_indices(name: str, indices: Tensor, *, below: int) -> None:
    """Refuse an index vector with an entry outside [0, below). Reads one scalar on the host where all is well.

    Raises:
        TypeError, ValueError: as `check_index_vector`; the first entry outside is named by position and value.
    """
    check_index_vector(name, indices)
    outside = (indices < 0) | (indices >= below)
    if outside.any():
        at = int(outside.nonzero()[0])
        raise ValueError(f"{name}[{at}] = {int(indices[at])} is outside [0, {below})")


def fits_int32(name: str, value: int) -> int:
    """Return `value` if int32 can hold it.

    Raises:
        ValueError: it cannot.
    """
    if value > INT32_MAX:
        raise ValueError(f"{name} = {value} does not fit int32 (at most {INT32_MAX})")
    return value


# --- inputs of the quantizers -------------------------------------------------------------------------------

INPUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""Legal dtypes of activations and weights."""


def check_input(name: str, tensor: Tensor, *, dims: int | None = None, gated: bool = False) -> None:
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
    if not isinstance(tensor, Tensor) or tensor.dtype not in INPUT_DTYPES:
        given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"{name} must be a tensor of {' or '.join(map(str, INPUT_DTYPES))}, got {given}")
    check_dense(name, tensor)
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
    name: str,
    scale: Tensor | float,
    *,
    device: torch.device,
    rows_of_experts: Sequence[int] | None = None,
) -> Tensor:
    """Return a global scale as float32 on `device`: () for one tensor, (experts,) for experts.

    The scale of an expert without rows is used nowhere, so it may be anything: an expert that calibration never saw
    has an amax of 0, and with it an encode scale of Inf.

    Args:
        name: what the message calls it.
        scale: a number (one tensor only) or a float32 tensor; one element of any shape counts as a number.
        device: where the input lies.
        rows_of_experts: rows of each expert; None for one tensor.

    Raises:
        TypeError: a tensor that is not float32, or no number.
        ValueError: wrong shape or device, or a scale that is not finite and positive where it is used.
    """
    if not isinstance(scale, Tensor):
        if rows_of_experts is not None or isinstance(scale, bool) or not isinstance(scale, int | float):
            raise TypeError(f"{name} must be a float32 tensor, got {type(scale).__name__}")
        scale = torch.tensor(_finite_positive(name, _as_float(scale)), dtype=torch.float32, device=device)
    if scale.dtype != torch.float32:
        raise TypeError(f"{name} must be float32, got {scale.dtype}")
    check_dense(name, scale)
    check_device(name, scale, device)
    if rows_of_experts is None and scale.numel() == 1:
        scale = scale.reshape(())
    shape = () if rows_of_experts is None else (len(rows_of_experts),)
    if tuple(scale.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(scale.shape)}")
    if rows_of_experts is None:
        _finite_positive(name, scale.item())
        return scale
    for expert, (value, rows) in enumerate(zip(scale.tolist(), rows_of_experts, strict=True)):
        if rows:
            _finite_positive(f"{name}[{expert}]", value)
    return scale


def check_device(name: str, tensor: Tensor, device: torch.device) -> None:
    """Check that `tensor` lies where the input does.

    Raises:
        ValueError: it lies elsewhere.
    """
    if tensor.device != device:
        raise ValueError(f"{name} must be on the input's device {device}, got {tensor.device}")


def check_row_counts(name: str, counts: Tensor, *, experts: int, most: int) -> list[int]:
    """Return rows per expert as a list of ints in [0, most].

    Raises:
        TypeError: not int32 or int64.
        ValueError: wrong shape, or a count outside the range; the text names its expert.
    """
    check_index_vector(name, counts, length=experts)
    values: list[int] = counts.tolist()
    for expert, count in enumerate(values):
        if not 0 <= count <= most:
            raise ValueError(f"{name}[{expert}] must be in [0, {most}], got {count}")
    return values


def check_offsets(name: str, offsets: Tensor) -> list[int]:
    """Return prefix sums of rows, one more than there are experts, as a list of ints.

    Raises:
        TypeError: not int32 or int64.
        ValueError: no vector, a first entry that is not 0, or a descent; the text names its expert.
    """
    check_index_vector(name, offsets)
    values: list[int] = offsets.tolist()
    if values[:1] != [0]:
        raise ValueError(f"{name} must start with 0, got {values[0] if values else 'no entries'}")
    for expert, (value, following) in enumerate(itertools.pairwise(values)):
        if following < value:
            raise ValueError(f"{name} must not descend, got {value}, {following} at expert {expert}")
    return values


def _as_float(number: float) -> float:
    """Return a Python number as a float; integers beyond its range are infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _finite_positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and positive, got {value}")
    return value
