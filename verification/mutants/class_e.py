"""INT-OVERFLOW: a 32-bit index or size product wraps. No test has the memory to reach most of them: the provers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nvfp4_moe.reference.padding import FORMULAS, Sizing
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.mutants.mutant import BoundMutant, IndexMutant, Mutant, PublicFault
from nvfp4_moe.verification.result import Outcome

FAULTS = (
    PublicFault(
        id="E1",
        links=("https://github.com/flashinfer-ai/flashinfer/pull/2853",),
        what="At 32 expert-parallel ranks a product of sizes wraps in int32 on the host, and a right shape is refused "
        "with a misleading error.",
        star=True,
    ),
    PublicFault(
        id="E2",
        links=(
            "https://github.com/flashinfer-ai/flashinfer/pull/2642",
            "https://github.com/flashinfer-ai/flashinfer/pull/2643",
            "https://github.com/NVIDIA/TensorRT-LLM/pull/15887",
        ),
        what="Illegal access in activation, permute and finalize kernels with the tokens of all ranks: permuted row "
        "times inner dimension in int32.",
        star=True,
    ),
    PublicFault(
        id="E3",
        links=(
            "https://github.com/sgl-project/sglang/pull/4727",
            "https://github.com/vllm-project/vllm/pull/34279",
            "https://github.com/vllm-project/vllm/pull/34507",
        ),
        what="stride * offset wraps in a long prefill; the first fix widened every stride, cost a factor of 60 on a "
        "small GPU and was reverted; widening the loaded index alone is enough.",
        star=True,
    ),
    PublicFault(
        id="E5",
        links=("https://github.com/linkedin/Liger-Kernel/pull/1248",),
        what="row_offs * stride wraps above 2^31; the tests stayed below 100 million elements.",
    ),
)

_LARGEST_WIDTH = 28_672
"""K of the widest public model."""
_POOLED_ROWS = 10_240 * 32 * 8
"""Routed rows of one call: 10,240 tokens of each of 32 ranks, eight experts each."""
_ROW_BYTES = 448
"""Scale bytes of a row of 7,168 columns."""


@dataclass(frozen=True, slots=True)
class _Prove:
    """Asks the provers about one expression over its ranges."""

    expression: str
    ranges: Mapping[str, tuple[int | str, int | str]]
    types: Mapping[str, str] | None = None

    def __call__(self, seed: int) -> Outcome:
        from nvfp4_moe.verification.proofs.overflow import refute_index

        del seed  # nothing here is random
        return refute_index(self.expression, self.ranges, types=self.types)


def _bytes_in_int32(s: Sizing) -> int:
    """Return exact rows that went through a byte count of 32 signed bits."""
    wrapped = (FORMULAS["exact_any"].rows(s) * _ROW_BYTES + 2**31) % 2**32 - 2**31
    return max(wrapped // _ROW_BYTES, 0)


def _index(name: str, faults: tuple[str, ...], change: str, prove: _Prove) -> Mutant:
    return Mutant(
        id=f"int_overflow.{name}",
        fault_class="E",
        stands_for=faults,
        change=change,
        refuted_by=("index.no_wrap",),
        target=IndexMutant(check=prove),
    )


MUTANTS = (
    Mutant(
        id="int_overflow.bytes_of_buffer",
        fault_class="E",
        stands_for=("E1",),
        change="the bytes of the scale buffer (448 a row) are an int32 on the host",
        refuted_by=("padding.bound",),
        target=BoundMutant(
            bound=Bound(name="exact_any of int32 bytes", rule="exact_any * 448 / 448", rows=_bytes_in_int32)
        ),
    ),
    _index(
        "size_product",
        ("E1",),
        "tokens of all ranks times the hidden size, both int32, is compared with a 64-bit size",
        _Prove("int64_t{0} + tokens * hidden", {"hidden": (16, 7168), "tokens": (0, 10_240 * 32)}),
    ),
    _index(
        "widened_behind_the_product",
        ("E2",),
        "row * k + column is widened to 64 bits when it has been computed",
        _Prove(
            "static_cast<int64_t>(row * k + column)",
            {"k": (16, _LARGEST_WIDTH), "row": (0, _POOLED_ROWS - 1), "column": (0, "k - 1")},
        ),
    ),
    _index(
        "scale_column_major",
        ("E2",),
        "scale column times padded tokens in int32, the row added as 64 bits",
        _Prove(
            "int64_t{row} + block * rows",
            {
                "rows": (128, 2 * _POOLED_ROWS),
                "row": (0, "rows - 1"),
                "block": (0, _LARGEST_WIDTH // 16 - 1),
            },
        ),
    ),
    _index(
        "stride_times_offset",
        ("E3",),
        "the row's stride is multiplied in int32, only the expert's base is 64 bits",
        _Prove(
            "int64_t{expert} * slab + offset * stride",
            {
                "expert": (0, 511),
                "slab": (0, 2**26),
                "stride": (16, 7168),
                "offset": (0, 448_000),
            },
        ),
    ),
    _index(
        "unsigned_element",
        ("E5",),
        "row * k in uint32, which holds twice as much as int32 and wraps in silence",
        _Prove(
            "int64_t{0} + row * k",
            {"k": (16, _LARGEST_WIDTH), "row": (0, 2**21)},
            {"row": "uint32_t", "k": "uint32_t"},
        ),
    ),
    _index(
        "tile_byte",
        ("E5",),
        "the byte of a 128x4 tile is computed in int32, tile by tile of 512 bytes",
        _Prove(
            "(row / 128 * columns + column) * 512",
            {"columns": (1, 448), "row": (0, 2**21), "column": (0, "columns - 1")},
        ),
    ),
)
