"""Golden vectors on disk, for people who test in C++ or another language: inputs and true outputs of each case.

A folder holds one `.npz` for each case (plain arrays, stored uncompressed, nothing pickled) and `manifest.json`::

    {"format": 1, "version", "seed", "level", "recipe", "arithmetic",
     "cases": [{"file", "sha256", "operation", "case": {...},
                "arrays": {name: {"dtype", "shape", "sha256"}}}]}

`sha256` of a case is its file's; that of an array is that of its little-endian bytes in C order, for readers that do
not use the file. Arrays carry the parameter names of the subject protocol. A `dtype` of bf16 or f16 names what the
array's uint16 patterns stand for; `output_scale` is the bytes of the swizzled buffer, padding zero. What belongs to
nobody (rows of a masked slab past its expert's) is zero. Alignment, strides and stale contents are the harness's
matter, and no part of a vector.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nvfp4_moe import __version__
from nvfp4_moe.reference.arithmetic import IEEE, HardwareOperations, Operations
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.reference.tables import find_table
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.forms import SWIZZLED, Masked, Ragged
from nvfp4_moe.verification.conformance.plan import PREFIXES, Plan, prefix_of
from nvfp4_moe.verification.conformance.quant_data import make_inputs, true_outputs
from nvfp4_moe.verification.conformance.routing_check import OUTPUTS, make_topk_ids, true_routing
from nvfp4_moe.verification.conformance.rows_check import SWIZZLE, RowsCase, make_map, make_rows

FORMAT = 1
MANIFEST = "manifest.json"

VectorCase = QuantCase | RoutingCase | RowsCase
Arrays = dict[str, np.ndarray[Any, Any]]

_PATTERNS = {torch.bfloat16: "bf16", torch.float16: "f16"}
"""16-bit types, whose elements are stored as their uint16 patterns."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which vectors to make.

    Raises (on construction):
        ValueError: a name, level or limit that is not legal.
        MissingTableError: no table of the chip is known.
    """

    operations: Sequence[str] = ()
    """None given: all."""
    level: int = 1
    seed: int = 0
    limit: int | None = None
    """Most cases of an operation, spread evenly over them; None: all."""
    recipe: str = "vllm"
    chip: str | None = None
    """Chip whose approximate instructions decide the bytes (a table of it is needed); None: correctly rounded."""

    def __post_init__(self) -> None:
        for operation in self.operations:
            if operation not in PREFIXES:
                raise ValueError(f"operation must be one of {', '.join(PREFIXES)}, got {operation!r:.60}")
        if self.level not in (1, 2):
            raise ValueError(f"level must be 1 or 2, got {self.level!r}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit!r}")
        Contract(recipe=self.recipe)  # says which recipes there are
        if self.chip is not None:
            for kind in ("reciprocal", "silu_bf16", "silu_f16"):
                find_table(kind, chip=self.chip)

    @property
    def arithmetic(self) -> Operations:
        """Operations that decide the bytes."""
        return IEEE if self.chip is None else HardwareOperations(self.chip)

    def cases(self) -> list[VectorCase]:
        """Return the cases, operation by operation; what only memory could tell apart is left out."""
        chosen = self.operations or tuple(PREFIXES)
        contract = Contract(recipe=self.recipe, id_dtypes=("int32", "int64"))
        found: list[VectorCase] = []
        for operation in dict.fromkeys(chosen):
            plan = Plan(
                operations=(operation,),
                level=self.level,
                seed=self.seed,
                contract=contract,
                laws={operation: ()},
            )
            cases = [_content(case) for case in plan.cases if isinstance(case, VectorCase)]
            found += _spread(cases, self.limit)
        return found


def _content(case: VectorCase) -> VectorCase:
    """Return the case without what is a matter of memory."""
    if isinstance(case, RoutingCase):
        return replace(case, id_gap=0)
    if isinstance(case, RowsCase):
        return replace(case, row_gap=0, map_gap=0)
    unrouted = case.unrouted_rows if case.masked else 0
    return replace(
        case, unrouted_rows=unrouted, extra_scale_rows=0, offset=0, offset_all=True, row_gap=0, view=""
    )


def _spread(cases: list[VectorCase], limit: int | None) -> list[VectorCase]:
    if limit is None or len(cases) <= limit:
        return cases
    return [cases[number * len(cases) // limit] for number in range(limit)]


# --- arrays ------------------------------------------------------------------------------------------------


def vector(case: VectorCase, choice: Choice) -> dict[str, torch.Tensor]:
    """Return the inputs and true outputs of a case by parameter name, on the CPU."""
    if isinstance(case, QuantCase):
        return _quant_vector(case, choice)
    if isinstance(case, RoutingCase):
        routing = true_routing(case)
        return {"topk_ids": make_topk_ids(case), **{name: getattr(routing, name) for name in OUTPUTS}}
    rows = make_rows(case)
    if case.operation == SWIZZLE:
        return {"linear": rows, "output": to_layout(rows, SWIZZLED)}
    rows_of_output = make_map(case)
    return {"input": rows, "map": rows_of_output, "output": rows[rows_of_output.to(torch.int64)]}


def _quant_vector(case: QuantCase, choice: Choice) -> dict[str, torch.Tensor]:
    inputs = make_inputs(case)
    packed, scales = true_outputs(case, inputs, Contract(recipe=choice.recipe), choice.arithmetic)
    form = inputs.form
    output = torch.zeros(form.packed_shape, dtype=torch.uint8)
    output[form.owned] = packed
    found = {"input": inputs.whole(), "input_global_scale": inputs.global_scale}
    if isinstance(form, Masked):
        found["masked_m"] = form.masked_m
    elif isinstance(form, Ragged):
        found["input_offset_by_experts"] = form.expert_offsets
        found["output_scale_offset_by_experts"] = form.blockscale_offsets
    return {**found, "output": output, "output_scale": scales}


def _array(tensor: torch.Tensor) -> tuple[np.ndarray[Any, Any], str]:
    """Return a tensor as an array and the name of its type."""
    if tensor.dtype in _PATTERNS:
        return tensor.contiguous().view(torch.int16).numpy().view(np.uint16), _PATTERNS[tensor.dtype]
    array = tensor.contiguous().numpy()
    return array, str(array.dtype)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _entry(case: VectorCase, name: str, choice: Choice) -> tuple[bytes, dict[str, Any]]:
    """Return the file of a case and its entry in the manifest."""
    arrays: Arrays = {}
    described = {}
    for key, tensor in vector(case, choice).items():
        arrays[key], dtype = _array(tensor)
        described[key] = {
            "dtype": dtype,
            "shape": list(arrays[key].shape),
            "sha256": _digest(arrays[key].tobytes()),
        }
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    data = file.getvalue()
    document = case.to_json()
    entry = {
        "file": name,
        "sha256": _digest(data),
        "operation": document["operation"],
        "case": document,
        "arrays": described,
    }
    return data, entry


# --- files -------------------------------------------------------------------------------------------------


def write_vectors(
    folder: Path, choice: Choice, *, progress: Callable[[int], None] = lambda cases: None
) -> dict[str, Any]:
    """Write the vectors into a folder that does not exist yet or is empty, and return the manifest.

    The folder appears under its name when all of it is written; a run that is stopped leaves nothing behind.

    Args:
        folder: its parent exists.
        choice: which vectors.
        progress: told of finished cases.

    Raises:
        ValueError: the folder holds something.
        OSError: it cannot be written.
    """
    check_folder(folder)
    work = folder.parent / f".{folder.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    work.mkdir()
    try:
        entries = []
        for number, case in enumerate(choice.cases()):
            name = f"{prefix_of(case)}-{number:05d}.npz"
            data, entry = _entry(case, name, choice)
            (work / name).write_bytes(data)
            entries.append(entry)
            progress(1)
        manifest = {
            "format": FORMAT,
            "version": __version__,
            "seed": choice.seed,
            "level": choice.level,
            "recipe": choice.recipe,
            "arithmetic": "ieee" if choice.chip is None else f"hardware: {choice.chip}",
            "cases": entries,
        }
        (work / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        os.rename(work, folder)  # replaces an empty folder, and no other
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return manifest


def check_folder(folder: Path) -> None:
    """Refuse a folder that vectors cannot be written to.

    Raises:
        ValueError: it is a file or holds something, or its parent does not exist or is not writable.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} must be an empty folder or not exist")
    parent = folder.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ValueError(f"{folder}: the folder {parent} does not exist or is not writable")


def load_vectors(folder: Path) -> Iterator[tuple[dict[str, Any], Arrays]]:
    """Yield each case's entry of the manifest and its arrays, every hash, type and shape checked.

    Raises:
        OSError: a file is missing.
        ValueError: a manifest of another format, a file that is not what the manifest says.
    """
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{folder / MANIFEST}: not a manifest of format {FORMAT}")
    for entry in manifest["cases"]:
        name = entry["file"]
        if Path(name).name != name or not name.endswith(".npz"):
            raise ValueError(f"{folder / MANIFEST}: {name!r:.60} is no file of this folder")
        data = (folder / name).read_bytes()
        if _digest(data) != entry["sha256"]:
            raise ValueError(f"{folder / name}: not the file that the manifest names (sha256)")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        _check_arrays(folder / name, arrays, entry["arrays"])
        yield entry, arrays


def _check_arrays(path: Path, arrays: Arrays, described: Mapping[str, Any]) -> None:
    if set(arrays) != set(described):
        raise ValueError(f"{path}: its arrays are {sorted(arrays)}, the manifest says {sorted(described)}")
    for name, array in arrays.items():
        dtype = "uint16" if described[name]["dtype"] in _PATTERNS.values() else described[name]["dtype"]
        what = (str(array.dtype), list(array.shape), _digest(array.tobytes()))
        if what != (dtype, described[name]["shape"], described[name]["sha256"]):
            raise ValueError(f"{path}: the array {name} is not what the manifest says")
