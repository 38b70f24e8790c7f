"""Checks at the door that several modules share: index tensors, and sizes that int32 outputs must hold."""

from __future__ import annotations

import torch
from torch import Tensor

INDEX_DTYPES = (torch.int32, torch.int64)
"""Legal dtypes of ids, offsets and permutations."""

INT32_MAX = torch.iinfo(torch.int32).max


def check_index_dtype(name: str, tensor: Tensor) -> None:
    """Refuse what is not an int32 or int64 tensor.

    Raises:
        TypeError: the text names the argument and what was given.
    """
    if not isinstance(tensor, Tensor) or tensor.dtype not in INDEX_DTYPES:
        given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(f"{name} must be an int32 or int64 tensor, got {given}")


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
