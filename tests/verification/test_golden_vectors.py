"""Golden vectors: what is written is what the golden model says, and the loader refuses what is not what was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nvfp4_moe.reference.experts import quantize_experts, silu_and_mul_quantize_experts
from nvfp4_moe.reference.routing import route
from nvfp4_moe.reference.tables import MissingTableError
from nvfp4_moe.verification.conformance.cases import QuantCase
from nvfp4_moe.verification.conformance.plan import PREFIXES
from nvfp4_moe.verification.golden_vectors import (
    MANIFEST,
    Choice,
    check_folder,
    load_vectors,
    vector,
    write_vectors,
)

LIMIT = 3
QUANT = "scaled_fp4_experts_quant"
Vectors = list[tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vectors") / "out"
    write_vectors(path, Choice(limit=LIMIT))
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may spoil."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


@pytest.fixture(scope="module")
def vectors(folder: Path) -> Vectors:
    return list(load_vectors(folder))


def of(vectors: Vectors, operation: str) -> Vectors:
    return [(entry, arrays) for entry, arrays in vectors if entry["operation"] == operation]


def floats(entry: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> torch.Tensor:
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[entry["arrays"]["input"]["dtype"]]
    return torch.from_numpy(arrays["input"].view(np.int16)).view(dtype)


def test_every_operation_has_its_share(vectors: Vectors) -> None:
    assert {op: len(of(vectors, op)) for op in PREFIXES} == dict.fromkeys(PREFIXES, LIMIT)


@pytest.mark.parametrize(
    ("operation", "quantize"),
    [(QUANT, quantize_experts), (f"silu_and_mul_{QUANT}", silu_and_mul_quantize_experts)],
)
def test_quantizer_outputs_follow_from_the_stored_inputs(
    operation: str, quantize: Any, vectors: Vectors
) -> None:
    for entry, arrays in of(vectors, operation):
        true = quantize(
            floats(entry, arrays),
            torch.from_numpy(arrays["input_global_scale"]),
            torch.from_numpy(arrays["input_offset_by_experts"]),
            blockscale_offsets=torch.from_numpy(arrays["output_scale_offset_by_experts"]),
        )
        assert np.array_equal(arrays["output"], true.packed.numpy())
        assert np.array_equal(arrays["output_scale"], true.block_scale.numpy())


def test_routing_outputs_follow_from_the_stored_ids(vectors: Vectors) -> None:
    for entry, arrays in of(vectors, "get_cutlass_moe_mm_data"):
        case = entry["case"]
        ids = torch.from_numpy(arrays["topk_ids"])
        true = route(ids, case["num_experts"], n=case["n"], k=case["k"], is_gated=case["is_gated"])
        for name in set(arrays) - {"topk_ids"}:
            assert np.array_equal(arrays[name], getattr(true, name).numpy()), name


def test_gathered_rows_are_those_of_the_map(vectors: Vectors) -> None:
    for _, arrays in of(vectors, "shuffle_rows"):
        assert arrays["output"].tobytes() == arrays["input"][arrays["map"]].tobytes()


def test_cases_have_nothing_that_only_memory_could_tell_apart() -> None:
    cases = [case for case in Choice(operations=(QUANT,)).cases() if isinstance(case, QuantCase)]
    assert {(c.offset, c.row_gap, c.unrouted_rows, c.extra_scale_rows) for c in cases} == {(0, 0, 0, 0)}
    assert len(cases) > 500


def test_the_same_choice_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    write_vectors(again, Choice(limit=LIMIT))
    assert (again / MANIFEST).read_text() == (folder / MANIFEST).read_text()


def test_another_seed_gives_other_inputs() -> None:
    one, other = (Choice(operations=(QUANT,), seed=seed) for seed in (0, 1))
    pairs = [
        (vector(a, one), vector(b, other))
        for a, b in zip(one.cases()[40:60], other.cases()[40:60], strict=True)
    ]
    assert any(not torch.equal(a["input_global_scale"], b["input_global_scale"]) for a, b in pairs)


def test_bytes_of_a_chip_differ_from_the_correctly_rounded_ones() -> None:
    chosen = {"operations": (QUANT,), "level": 1}
    ieee, chip = Choice(**chosen), Choice(**chosen, chip="NVIDIA H200")  # type: ignore[arg-type]
    assert any(
        not torch.equal(vector(case, ieee)["output"], vector(case, chip)["output"])
        for case in ieee.cases()
        if isinstance(case, QuantCase) and case.group == "values"
    )


class TestDoor:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"operations": ("quantize",)}, "operation must be one of scaled_fp4_experts_quant"),
            ({"level": 3}, "level must be 1 or 2"),
            ({"limit": 0}, "limit must be at least 1"),
            ({"recipe": "mine"}, "recipe must be one of"),
        ],
    )
    def test_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Choice(**options)

    def test_a_chip_without_a_table(self) -> None:
        with pytest.raises(MissingTableError):
            Choice(chip="a chip that nobody made")

    def test_folders(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "empty").mkdir()
        check_folder(tmp_path / "empty")
        check_folder(tmp_path / "new")
        for bad in (tmp_path, tmp_path / "file", tmp_path / "absent" / "new"):
            with pytest.raises(ValueError, match=r"must be an empty folder|does not exist"):
                check_folder(bad)


def test_a_run_that_is_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    def stop(cases: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(tmp_path / "out", Choice(limit=1), progress=stop)
    assert list(tmp_path.iterdir()) == []


def changed(manifest: Path, change: Any) -> None:
    document = json.loads(manifest.read_text())
    change(document)
    manifest.write_text(json.dumps(document))


class TestLoader:
    def test_a_changed_byte(self, copy: Path) -> None:
        file = next(copy.glob("quant-*.npz"))
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        with pytest.raises(ValueError, match="sha256"):
            list(load_vectors(copy))

    def test_a_missing_file(self, copy: Path) -> None:
        next(copy.glob("quant-*.npz")).unlink()
        with pytest.raises(OSError, match="quant-"):
            list(load_vectors(copy))

    @pytest.mark.parametrize("name", ["../other.npz", "/etc/passwd", "manifest.json"])
    def test_a_file_outside_the_folder(self, name: str, copy: Path) -> None:
        changed(copy / MANIFEST, lambda document: document["cases"][0].update(file=name))
        with pytest.raises(ValueError, match="no file of this folder"):
            list(load_vectors(copy))

    @pytest.mark.parametrize(
        ("key", "value"), [("dtype", "int8"), ("shape", [1, 2]), ("sha256", "0" * 64), ("dtype", "bf16")]
    )
    def test_an_array_that_is_not_what_the_manifest_says(self, key: str, value: Any, copy: Path) -> None:
        changed(
            copy / MANIFEST, lambda document: document["cases"][0]["arrays"]["output"].update({key: value})
        )
        with pytest.raises(ValueError, match="the array output is not"):
            list(load_vectors(copy))

    def test_another_format(self, copy: Path) -> None:
        changed(copy / MANIFEST, lambda document: document.update(format=2))
        with pytest.raises(ValueError, match="not a manifest of format 1"):
            list(load_vectors(copy))
