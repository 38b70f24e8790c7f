"""The witness of a refuted claim on the torch operators: an operator and the sizes of its call. A replay checks it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import torch

from nvfp4_moe.verification.bound_witness import CannotReplay, Replay
from nvfp4_moe.verification.operators import (
    CLAIMS,
    MOST_ELEMENTS,
    Batch,
    check_operators,
    own_operators,
    prepare,
)
from nvfp4_moe.verification.result import Verdict

_LARGEST_WIDTH = 1 << 16


def replay(document: Mapping[str, Any]) -> Replay:
    """Check the operator on a batch of the witness's sizes.

    Raises:
        ValueError, TypeError: an operator that does not exist, sizes that are not legal.
        CannotReplay: no library can be built, or the device of the run is not here.
    """
    batch = _batch(document)
    device = document.get("device", "cpu")
    if device not in ("cpu", "cuda"):
        raise ValueError(f'device must be "cpu" or "cuda", got {device!r:.60}')
    if device == "cuda" and not torch.cuda.is_available():
        raise CannotReplay("needs a CUDA device")
    try:
        prepare(device)
        operators = {operator.name: operator for operator in own_operators()}
    except Exception as error:
        raise CannotReplay(f"no library: {type(error).__name__}: {str(error).splitlines()[0]}") from error
    name, seed = document.get("operator"), document.get("seed", 0)
    if not isinstance(name, str) or name not in operators:
        raise ValueError(f"operator must be one of {', '.join(operators)}, got {name!r:.60}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an integer, got {seed!r:.60}")
    found = check_operators((operators[name],), seed=seed, device=device, batches=(batch,))
    wrong = [f"{claim}: {found[claim].detail}" for claim in CLAIMS if found[claim].verdict is Verdict.REFUTED]
    return Replay(
        bool(wrong), (f"operator {name}, {batch}", *(wrong or ["schema and fake kernel agree with it"]))
    )


def _batch(document: Mapping[str, Any]) -> Batch:
    """Return the sizes after a look at them: a file may say anything.

    Raises:
        ValueError, TypeError: a size that is missing or not legal.
    """
    sizes = {}
    for field in fields(Batch):
        name = field.name
        size = document.get(name, None if field.default is MISSING else field.default)
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"{name} must be an integer, got {size!r:.60}")
        least = 0 if name in ("tokens", "row_gap") else 1
        if not least <= size <= _LARGEST_WIDTH:
            raise ValueError(f"{name} must be in [{least}, {_LARGEST_WIDTH}], got {size}")
        sizes[name] = size
    batch = Batch(**sizes)
    if batch.id_bits not in (32, 64):
        raise ValueError(f"id_bits must be 32 or 64, got {batch.id_bits}")
    if batch.k % 16:
        raise ValueError(f"k must be a multiple of 16, got {batch.k}")
    elements = batch.tokens * batch.topk * (batch.k + batch.row_gap)
    if elements > MOST_ELEMENTS:
        raise ValueError(f"tokens * topk * (k + row_gap) must be at most {MOST_ELEMENTS:,}, got {elements:,}")
    return batch
