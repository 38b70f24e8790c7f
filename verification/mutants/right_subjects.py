"""Right implementations written differently: none of them may be bothered by a false alarm.

Each takes a liberty that the protocol or its contract leaves: another way to compute or to place, another order of
rows or of threads, padding that is not promised, outputs that are returned, views that are refused, inputs that are
spent. Most have one operation, the masked quantizers where any would do, so that all of them together stay affordable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.mutants import right_gemm, right_moves, right_quant
from nvfp4_moe.verification.mutants.mutant import RightSubject, SubjectMutant
from nvfp4_moe.verification.mutants.right_quant import BLOCK, places

Factory = Callable[[Subject], Subject]

_ROUTING, _RAGGED = "get_cutlass_moe_mm_data", "scaled_fp4_experts_quant"
_MASKED, _SILU_MASKED = "scaled_fp4_masked_quant", "silu_and_mul_scaled_fp4_masked_quant"


def _own(contract: Contract, **operations: Callable[..., Any]) -> Factory:
    """Return a factory of operations of their own."""
    return lambda right: Subject("right", right.device, contract, **operations)


def _on(operation: str, make: Callable[[Callable[..., Any]], Callable[..., Any]], **promises: Any) -> Factory:
    """Return a factory that builds on the right operation.

    Args:
        operation: its name.
        make: takes it and returns the other one.
        promises: what the other one's contract says differently.
    """

    def factory(right: Subject) -> Subject:
        contract = Contract(arithmetic=right.contract.arithmetic, **{"strided": "honoured", **promises})
        return Subject("right", right.device, contract, **{operation: make(right.operations[operation])})

    return factory


def _ieee(**promises: Any) -> Contract:
    return Contract(**{"arithmetic": "ieee", "strided": "honoured", **promises})


def _real_bytes_alone(right: Callable[..., Any]) -> Callable[..., Any]:
    """Copies the codes and scales of real blocks, and leaves every padding byte as it was."""

    def quantize(
        output: Tensor, output_scale: Tensor, rows: Tensor, encode: Tensor, masked_m: Tensor
    ) -> None:
        whole = torch.zeros_like(output_scale)
        right(output, whole, rows, encode, masked_m)
        for expert, count in enumerate(masked_m.tolist()):
            row, column = torch.arange(count)[:, None], torch.arange(rows.shape[-1] // BLOCK)[None]
            where = torch.from_numpy(places(row.numpy(), column.numpy(), output_scale.shape[-1])).reshape(-1)
            into = output_scale[expert].view(torch.uint8).view(-1)
            into[where] = whole[expert].view(torch.uint8).view(-1)[where]

    return quantize


def _returned(right: Callable[..., Any]) -> Callable[..., Any]:
    def quantize(rows: Tensor, encode: Tensor, masked_m: Tensor) -> tuple[Tensor, Tensor]:
        experts, slab, k = rows.shape
        output = torch.zeros(experts, slab, k // 2, dtype=torch.uint8)
        scales = torch.zeros(experts, -(-slab // 128) * 128, -(-k // 64), dtype=torch.int32)
        right(output, scales, rows, encode, masked_m)
        return output, scales

    return quantize


def _an_expert_at_a_time(right: Callable[..., Any]) -> Callable[..., Any]:
    """Calls the right operation on the slab of one expert after the other, the last first."""

    def quantize(
        output: Tensor, output_scale: Tensor, rows: Tensor, encode: Tensor, masked_m: Tensor
    ) -> None:
        for e in reversed(range(len(masked_m))):
            one = slice(e, e + 1)
            right(
                output[one],
                output_scale[one],
                rows[one],
                encode[one].contiguous(),
                masked_m[one].contiguous(),
            )

    return quantize


def _inputs_spent(right: Callable[..., Any]) -> Callable[..., Any]:
    def quantize(
        output: Tensor, output_scale: Tensor, rows: Tensor, encode: Tensor, masked_m: Tensor
    ) -> None:
        right(output, output_scale, rows, encode, masked_m)
        rows.zero_()

    return quantize


def _views_refused(right: Callable[..., Any]) -> Callable[..., Any]:
    def quantize(*tensors: Tensor) -> None:
        if not all(tensor.is_contiguous() and tensor.data_ptr() % 16 == 0 for tensor in tensors):
            raise ValueError("every tensor must be contiguous, at a multiple of 16 bytes")
        right(*tensors)

    return quantize


def _unlike_order(right: Subject) -> Subject:
    """The host twin's tasks one by one in a shuffled order, and the ids in an odd number of segments."""
    from nvfp4_moe.cuda.ops import HostOps

    other = HostOps().options(seed=11, workers=5)
    return Subject(
        "right",
        right.device,
        right.contract,
        **{name: getattr(other, name) for name in (_MASKED, _ROUTING, "swizzle", "shuffle_rows")},
    )


def _at_most_60_experts(right: Callable[..., Any]) -> Callable[..., Any]:
    def route(*arguments: Any) -> None:
        if arguments[6] > 60:
            raise NotImplementedError("at most 60 experts")
        right(*arguments)

    return route


def _right(
    name: str, change: str, factory: Factory, *, devices: tuple[str, ...] = ("cpu",), base: str = "host"
) -> RightSubject:
    return RightSubject(
        id=f"right.{name}",
        change=change,
        target=SubjectMutant(factory=factory, base=base),
        devices=devices,
    )


RIGHT_SUBJECTS = (
    _right(
        "rows_at_once",
        "numpy, the rows of all experts in one array, largest magnitude among integers, places by bit fields",
        _own(_ieee(), **{_RAGGED: right_quant.ragged}),
        base="reference",
    ),
    _right(
        "two_threads_a_scale",
        "torch, two halves of a block exchange their largest magnitude, scales by the framework's cast",
        _own(_ieee(), **{_MASKED: right_quant.masked(right_quant.as_it_is)}),
        devices=("cpu", "cuda"),
        base="reference",
    ),
    _right(
        "words_of_four",
        "loads of 64 bits taken apart by shifts; pointers that these cannot take are refused",
        _own(_ieee(), **{_MASKED: right_quant.masked(right_quant.in_words)}),
        base="reference",
    ),
    _right(
        "silu_in_double",
        "SiLU computed in float64 and rounded once",
        _own(_ieee(), **{_SILU_MASKED: right_quant.masked(right_quant.gated)}),
        base="reference",
    ),
    _right(
        "padding_left_alone",
        "padding bytes stay as they were; the contract promises nothing of them",
        _on(_MASKED, _real_bytes_alone, k_padding="unspecified", row_padding="unspecified"),
    ),
    _right("returned", "outputs are allocated and returned", _on(_MASKED, _returned)),
    _right(
        "expert_at_a_time", "one call for each expert, the last first", _on(_MASKED, _an_expert_at_a_time)
    ),
    _right(
        "inputs_spent",
        "the input is overwritten afterwards, as its contract says",
        _on(_SILU_MASKED, _inputs_spent, mutates=("input",)),
    ),
    _right(
        "views_refused",
        "views and odd pointers are refused",
        _on(_MASKED, _views_refused, strided="refused"),
    ),
    _right("other_schedule", "the host twin with its tasks in another order", _unlike_order),
    _right(
        "sorted_slots",
        "routing by one stable sort of the slots and a search for each expert",
        _own(_ieee(), **{_ROUTING: right_moves.routing_by_sort(right_moves.stable)}),
        base="reference",
    ),
    _right(
        "last_slot_first",
        "an expert's rows from its last slot to its first, legal where any order is",
        _own(_ieee(row_order="any"), **{_ROUTING: right_moves.routing_by_sort(right_moves.last_first)}),
        base="reference",
    ),
    _right(
        "order_of_atomics",
        "an expert's rows in another order at every call, as its contract says",
        _own(
            _ieee(row_order="any", deterministic=False),
            **{_ROUTING: right_moves.routing_by_sort(right_moves.Shuffled())},
        ),
        base="reference",
    ),
    _right(
        "ids_of_64_bits",
        "numpy, expert by expert, ids of 32 and of 64 bits",
        _own(_ieee(id_dtypes=("int32", "int64")), **{_ROUTING: right_moves.routing_by_counting}),
        base="reference",
    ),
    _right(
        "few_experts",
        "more than 60 experts are refused, as its contract says",
        _on(_ROUTING, _at_most_60_experts, max_experts=60, id_dtypes=("int32", "int64")),
    ),
    _right(
        "gather_returned",
        "numpy, rows as bytes, the result returned",
        _own(_ieee(), shuffle_rows=right_moves.gather_by_take),
        base="reference",
    ),
    _right(
        "gather_by_columns",
        "64 columns at a time into the caller's tensor",
        _own(_ieee(), shuffle_rows=right_moves.gather_in_place),
        devices=("cpu", "cuda"),
        base="reference",
    ),
    _right(
        "layout_by_axes",
        "a permutation of axes",
        _own(_ieee(), swizzle=right_moves.swizzle_by_axes),
        devices=("cpu", "cuda"),
        base="reference",
    ),
    _right(
        "layout_by_places",
        "byte by byte to the place that the bits of row and column give",
        _own(_ieee(), swizzle=right_moves.swizzle_by_places),
        base="reference",
    ),
    _right(
        "gemm_in_double",
        "codes and scales become float64 before they are multiplied and added",
        _own(_ieee(), cutlass_fp4_moe_mm=right_gemm.gemm_in_double),
        base="reference",
    ),
    _right("kernels", "the CUDA kernels as they are", lambda right: right, devices=("cuda",)),
)
"""Every one must pass at level 1."""
