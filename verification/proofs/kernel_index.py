"""Claims `index.no_wrap.*`: no part of any index expression of the kernels leaves its type, over the declared ranges.

Each expression is proved over unbounded integers and, but for those with a product in a relation (`INTEGERS_ONLY`),
over words of exactly the widths that the source declares. The texts are the sources' own; `tests/verification/
test_kernel_index.py` finds each in its file, compiles each with the kernels' headers, and compares the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nvfp4_moe.verification.proofs import kernel_index_device as device
from nvfp4_moe.verification.proofs import kernel_index_gemm as gemm
from nvfp4_moe.verification.proofs import kernel_index_moves as moves
from nvfp4_moe.verification.proofs import kernel_index_quantize as quantize
from nvfp4_moe.verification.proofs.index_expression import IndexExpression, obligation
from nvfp4_moe.verification.proofs.obligation import Obligation

EXPRESSIONS: Mapping[str, tuple[IndexExpression, ...]] = {
    "index.no_wrap.quantize": (
        *quantize.OWNERS,
        *quantize.BODIES,
        *device.RING_KERNEL,
        *device.FEW_ROWS_KERNEL,
    ),
    "index.no_wrap.launch": device.GEOMETRY,
    "index.no_wrap.routing": moves.ROUTING,
    "index.no_wrap.moves": moves.MOVES,
    "index.no_wrap.layout": moves.LAYOUT,
    "index.no_wrap.gemm": gemm.GEMM,
}
"""The expressions of each claim."""

INTEGERS_ONLY = frozenset(
    {
        *("masked_first_row", "ring_slab", "few_padding_first"),
        *("swizzled_128x4", "swizzled_8x4", "linear_byte"),
        *("gemm_row_scale_byte", "gemm_weight_scale_byte"),
    }
)
"""Over words a prover takes minutes or more: a product that only a relation keeps small, or one of three sizes."""

SLOW_ON_WORDS = frozenset(
    [
        "masked_scale_row",
        "region_byte",
        "input_row",
        "packed_byte",
        "scale_byte",
        "padding_tile",
        "ring_first_row",
        "ring_input_row",
        "ring_packed_byte",
        "ring_scale_row",
        "few_input",
        "few_scale_row",
        "few_packed_byte",
        "few_padding_tile",
        "rows_in_flight",
        "segment",
        "segment_length",
        "host_counts",
        "worker",
        "outside_slot",
        "start",
        "position",
        "tail",
        "shared_counts",
        "gather_from",
        "gather_to",
        "unpermute_slot",
        "unpermute_from",
        "unpermute_to",
        "rows_of_all_experts",
        *(
            "gemm_problem_size",
            "gemm_middle",
            "gemm_code",
            "gemm_weight_row",
            "gemm_out",
            "gemm_prepared_codes",
        ),
        *(
            "gemm_prepared_row",
            "gemm_dequantized_row",
            "gemm_plain_codes",
            "gemm_plain_row",
            "gemm_copied_scales",
            "gemm_stored",
            "gemm_units",
        ),
    ]
)
"""Over words a prover takes up to some seconds: level 2."""


def no_wrap_in_kernels() -> list[Obligation]:
    """Return the obligations of every expression, over integers and over words."""
    return [o for claim_id, stated in EXPRESSIONS.items() for x in stated for o in _obligations(claim_id, x)]


def _obligations(claim_id: str, expression: IndexExpression) -> list[Obligation]:
    integers = obligation(expression, claim_id=claim_id, vectors=False)
    if expression.name in INTEGERS_ONLY:
        return [integers]
    level = 2 if expression.name in SLOW_ON_WORDS else 1
    words = obligation(expression, claim_id=claim_id, level=level)
    return [integers, replace(words, name=f"{words.name}_words")]
