"""Adapters, on operations that the tests register with torch under the engines' names; no engine is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any

import pytest
import torch

from nvfp4_moe.verification.adapters import ADAPTERS, adapter_subject
from nvfp4_moe.verification.adapters.binding import same_schema
from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.plan import run_case
from nvfp4_moe.verification.conformance.rows_check import RowsCase
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable, load_subject
from nvfp4_moe.verification.conformance.values import make_global_scales, make_values

QUANT = (
    "(Tensor! output, Tensor! output_scale, Tensor input, Tensor input_global_scale, Tensor input_offset_by_experts, "
    "Tensor output_scale_offset_by_experts) -> ()"
)
ROUTING = (
    "(Tensor topk_ids, Tensor! expert_offsets, Tensor! problem_sizes1, Tensor! problem_sizes2, Tensor! input_permutation, "
    "Tensor! output_permutation, int num_experts, int n, int k, Tensor? blockscale_offsets"
)
MASKED = (
    "(Tensor! output, Tensor! output_scale, Tensor input, Tensor input_global_scale, Tensor mask, bool use_silu_and_mul)"
    " -> ()"
)
REFERENCE = load_subject("reference").operations
IEEE = Contract(arithmetic="ieee")

Register = Callable[[str, str, Callable[..., Any]], None]
Install = Callable[..., None]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register `(namespace::name, schema, function)` for the length of a test."""
    libraries: list[torch.library.Library] = []

    def add(name: str, schema: str, function: Callable[..., Any]) -> None:
        namespace, _, operation = name.partition("::")
        library = torch.library.Library(namespace, "FRAGMENT")
        libraries.append(library)
        library.define(operation + schema)
        library.impl(operation, function, "CPU")

    yield add
    for library in libraries:
        library._destroy()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make packages importable, each with the attributes given."""

    def add(*names: str, **attributes: Any) -> None:
        for name in names:
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            module.__path__ = []
            for attribute, value in attributes.items():
                setattr(module, attribute, value)
            monkeypatch.setitem(sys.modules, name, module)

    return add


def held_to(subject: Subject, contract: Contract) -> Subject:
    """Return the subject under a contract that its stand-in on the CPU can hold."""
    return Subject(subject.name, "cpu", contract, **subject.operations)


def quant_case(operation: str) -> QuantCase:
    return QuantCase(
        operation=operation,
        group="test",
        index=1,
        seed=0,
        tokens_per_expert=(3, 0, 130),
        unrouted_rows=2,
        k=80,
        dtype="bf16",
        values="windowed",
        global_scales="distinct",
    )


ROUTING_CASE = RoutingCase(
    index=0,
    seed=0,
    tokens=9,
    topk=2,
    num_experts=4,
    ids="uniform",
    id_dtype="int32",
    is_gated=False,
    n=64,
    k=64,
)
ROWS_CASE = RowsCase(
    operation="shuffle_rows", index=0, seed=0, rows=5, columns=16, dtype="bf16", mapped_rows=7
)


def conforms(subject: Subject, *cases: QuantCase | RoutingCase | RowsCase) -> None:
    arena = HostArena()
    for case in cases:
        assert run_case(held_to(subject, IEEE), case, arena).faults == [], case


def shuffled(rows: torch.Tensor, map: torch.Tensor, output: torch.Tensor) -> None:
    output.copy_(rows[map.long()])


class TestVllm:
    def test_registered_operations_become_the_protocols(self, register: Register, install: Install) -> None:
        install("vllm", "vllm._custom_ops")
        for name in ("scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant"):
            register(f"_C::{name}", QUANT, REFERENCE[name])
        register(
            "_C::get_cutlass_moe_mm_data",
            f"{ROUTING}, bool is_gated) -> ()",
            REFERENCE["get_cutlass_moe_mm_data"],
        )
        register(
            "_moe_C::shuffle_rows",
            "(Tensor input_tensor, Tensor dst2src_map, Tensor! output_tensor) -> ()",
            shuffled,
        )
        subject = adapter_subject("vllm", device="cpu")
        assert subject.contract == Contract.preset("vllm")
        quantizers = ("scaled_fp4_experts_quant", "silu_and_mul_scaled_fp4_experts_quant")
        assert set(subject.operations) == {*quantizers, "get_cutlass_moe_mm_data", "shuffle_rows"}
        conforms(subject, *map(quant_case, quantizers), ROUTING_CASE, ROWS_CASE)

    def test_routing_that_cannot_say_whether_experts_are_gated_is_not_tested(
        self, register: Register, install: Install
    ) -> None:
        install("vllm", "vllm._custom_ops")
        register("_C::get_cutlass_moe_mm_data", f"{ROUTING}) -> ()", lambda *unused: None)
        register("_C::scaled_fp4_experts_quant", QUANT, lambda *unused: None)
        assert set(adapter_subject("vllm", device="cpu").operations) == {"scaled_fp4_experts_quant"}

    @pytest.mark.parametrize(
        "schema",
        [
            QUANT.replace("Tensor input_global_scale, ", ""),
            QUANT.replace("-> ()", "-> Tensor"),
            QUANT.replace("input_global_scale", "input_scale"),
            QUANT.replace(") ->", ", int group_size=16) ->"),
            QUANT.replace("Tensor input_offset", "*, Tensor input_offset"),
            QUANT.replace("Tensor input,", "Tensor? input,"),
        ],
    )
    def test_an_unknown_schema_is_refused_by_name(
        self, schema: str, register: Register, install: Install
    ) -> None:
        install("vllm", "vllm._custom_ops")
        register("_C::scaled_fp4_experts_quant", schema, lambda *unused: None)
        with pytest.raises(SubjectUnavailable, match=r"schema of _C::scaled_fp4_experts_quant is not known"):
            adapter_subject("vllm", device="cpu")


def masked(
    output: torch.Tensor,
    scale: torch.Tensor,
    rows: torch.Tensor,
    g: torch.Tensor,
    mask: torch.Tensor,
    fused: bool,
) -> None:
    """What SGLang's operation does: the first two dimensions are one, of all but the mask and the scales of experts."""
    assert output.dim() == scale.dim() == rows.dim() == 2
    name = "silu_and_mul_scaled_fp4_masked_quant" if fused else "scaled_fp4_masked_quant"
    experts = len(g)
    shaped = [t.view(experts, -1, t.shape[-1]) for t in (output, scale, rows)]
    REFERENCE[name](*shaped, g, mask)


class TestSglang:
    def test_registered_operations_become_the_protocols(self, register: Register, install: Install) -> None:
        install("sgl_kernel")
        register("sgl_kernel::scaled_fp4_experts_quant", QUANT, REFERENCE["scaled_fp4_experts_quant"])
        register("sgl_kernel::silu_and_mul_scaled_fp4_experts_quant", MASKED, masked)
        register(
            "sgl_kernel::shuffle_rows", "(Tensor input, Tensor dst2src_map, Tensor output) -> ()", shuffled
        )
        subject = adapter_subject("sglang", device="cpu")
        assert subject.contract == Contract.preset("sglang")
        names = (
            "scaled_fp4_experts_quant",
            "scaled_fp4_masked_quant",
            "silu_and_mul_scaled_fp4_masked_quant",
        )
        assert set(subject.operations) == {*names, "shuffle_rows"}
        conforms(subject, *map(quant_case, names), ROWS_CASE)


def as_cute(
    operation: str, rows: torch.Tensor, g: torch.Tensor, mask: torch.Tensor, columns: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what FlashInfer returns: both buffers as permuted views."""
    experts, slab = rows.shape[:2]
    padded, words = -(-slab // 128) * 128, -(-columns // 64)
    output = torch.zeros(experts, slab, columns // 2, dtype=torch.uint8)
    scale = torch.zeros(experts, padded, words, dtype=torch.int32)
    REFERENCE[operation](output, scale, rows, g, mask)
    tiled = scale.view(torch.float8_e4m3fn).view(experts, padded // 128, words, 32, 4, 4)
    return output.permute(1, 2, 0), tiled.permute(3, 4, 1, 5, 2, 0)


class TestFlashinfer:
    PLAIN = "flashinfer::scaled_fp4_grouped_quant_sm100"
    FUSED = "flashinfer::silu_and_mul_scaled_nvfp4_experts_quantize_sm100"

    def test_permuted_views_become_the_protocols_buffers(self, register: Register, install: Install) -> None:
        built: list[str] = []
        install("flashinfer", "flashinfer.fp4_quantization", get_fp4_quantization_module=built.append)
        register(
            self.PLAIN,
            "(Tensor input_tensor, Tensor input_global_scale, Tensor mask) -> (Tensor, Tensor)",
            lambda rows, g, mask: as_cute("scaled_fp4_masked_quant", rows, g, mask, rows.shape[-1]),
        )
        register(
            self.FUSED,
            "(Tensor input, Tensor mask, Tensor? global_scale=None) -> (Tensor, Tensor)",
            lambda rows, mask, g: as_cute(
                "silu_and_mul_scaled_fp4_masked_quant", rows, g, mask, rows.shape[-1] // 2
            ),
        )
        subject = adapter_subject("flashinfer", device="cpu")
        assert len(built) == 1
        experts, slab, k = 3, 130, 80
        mask = torch.tensor([3, 0, 130], dtype=torch.int32)
        g = make_global_scales("distinct", seed=0, index=0, experts=experts)
        for name, columns in (
            ("scaled_fp4_masked_quant", k),
            ("silu_and_mul_scaled_fp4_masked_quant", 2 * k),
        ):
            flat = make_values(
                "windowed", seed=0, index=0, rows=experts * slab, columns=columns, dtype="bf16"
            )
            rows = flat.view(experts, slab, columns)
            true = (
                torch.zeros(experts, slab, k // 2, dtype=torch.uint8),
                torch.zeros(experts, 256, 2, dtype=torch.int32),
            )
            REFERENCE[name](*true, rows, g, mask)
            found = subject.operations[name](rows, g, mask)
            assert [tuple(t.shape) for t in found] == [tuple(t.shape) for t in true]
            assert all(torch.equal(one, other) for one, other in zip(found, true, strict=True))

    def test_a_version_that_registers_nothing_says_what_to_do(self, install: Install) -> None:
        install("flashinfer", "flashinfer.fp4_quantization", get_fp4_quantization_module=lambda arch: None)
        with pytest.raises(SubjectUnavailable, match="wrap the function that you use in a file"):
            adapter_subject("flashinfer", device="cpu")


@pytest.mark.parametrize("name", ADAPTERS)
class TestAbsent:
    def test_an_engine_that_is_not_installed_is_named(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
        with pytest.raises(SubjectUnavailable, match=rf"{name}: the package \w+ is not installed"):
            adapter_subject(name)

    def test_an_engine_without_a_device(
        self, name: str, install: Install, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install("vllm", "sgl_kernel", "flashinfer")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(SubjectUnavailable, match=f"{name}: no CUDA device"):
            adapter_subject(name)


def test_an_engine_that_does_not_import(install: Install) -> None:
    install("vllm")
    with pytest.raises(SubjectUnavailable, match="vllm: import failed: ModuleNotFoundError"):
        adapter_subject("vllm", device="cpu")


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="adapter must be one of vllm, sglang, flashinfer, got 'trt'"):
        adapter_subject("trt")


def test_writable_arguments_and_defaults_do_not_matter(register: Register) -> None:
    register("nvfp4_moe_test::op", "(Tensor! x, int n=3) -> ()", lambda *unused: None)
    schema = torch.ops.nvfp4_moe_test.op.default._schema
    assert same_schema(schema, "(Tensor x, int n) -> ()")
    assert not same_schema(schema, "(Tensor x, bool n) -> ()")


class TestByName:
    """An engine's name is a word of `--subject`."""

    @pytest.mark.parametrize("name", ADAPTERS)
    def test_one_that_is_not_here_is_unavailable(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
        with pytest.raises(SubjectUnavailable, match=f"^{name}: the package .* is not installed"):
            load_subject(name)

    def test_an_installed_one_is_its_adapter(
        self, register: Register, install: Install, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        install("vllm", "vllm._custom_ops")
        register("_C::scaled_fp4_experts_quant", QUANT, REFERENCE["scaled_fp4_experts_quant"])
        subject = load_subject("vllm")
        assert (subject.name, subject.device, subject.contract) == ("vllm", "cuda", Contract.preset("vllm"))
        conforms(subject, quant_case("scaled_fp4_experts_quant"))

    def test_no_entry_point_replaces_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        other = EntryPoint("vllm", "math:floor", "nvfp4_moe.subjects")
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints([other]))
        monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
        with pytest.raises(SubjectUnavailable, match="the package vllm is not installed"):
            load_subject("vllm")

    def test_what_its_import_runs_into_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def exits(name: str) -> Subject:
            raise SystemExit(4)

        monkeypatch.setattr("nvfp4_moe.verification.adapters.adapter_subject", exits)
        with pytest.raises(SubjectUnavailable, match="sglang: SystemExit: 4"):
            load_subject("sglang")
