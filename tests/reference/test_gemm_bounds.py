"""Error bounds of the GEMM: right sums in any order and truncated ones lie inside, small wrongs outside, exact cases are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.gemm_bounds import ACCUMULATORS, error_bound, inside, order_free, output_interval
from nvfp4_moe.reference.grouped_gemm import Operands, grouped_gemm, grouped_gemm_in_order
from nvfp4_moe.verification.conformance.gemm_cases import EXACT_FAMILIES, GemmCase, gemm_cases
from nvfp4_moe.verification.conformance.gemm_data import make_gemm

IEEE, MMA = ACCUMULATORS["ieee_float32"], ACCUMULATORS["truncating_mma"]
DTYPES = (torch.bfloat16, torch.float16)


def operands(
    values: str, *, k: int = 272, rows: tuple[int, ...] = (5, 0, 3), dtype: str = "bf16"
) -> Operands:
    case = GemmCase(
        index=3, seed=0, tokens_per_expert=rows, n=24, k=k, dtype=dtype, values=values, alphas="distinct"
    )
    return make_gemm(case).operands


def float32_sums(given: Operands, add: Callable[[Tensor], Tensor]) -> Tensor:
    """Return alpha * acc in float32 with sums of the products (rows, N, K) made by `add`."""
    experts = torch.repeat_interleave(torch.arange(len(given.b)), torch.tensor(given.expert_offsets).diff())
    products = (given.a[:, None, :] * given.b[experts]).to(torch.float32)
    return given.alpha_of_row * add(products)


def pairwise(products: Tensor) -> Tensor:
    while products.shape[-1] > 1:
        products = torch.nn.functional.pad(products, (0, products.shape[-1] % 2))
        products = products[..., 0::2] + products[..., 1::2]
    return products[..., 0]


def reversed_order(products: Tensor) -> Tensor:
    total = torch.zeros(products.shape[:-1])
    for column in range(products.shape[-1] - 1, -1, -1):
        total = total + products[..., column]
    return total


def cut(values: Tensor, unit: Tensor) -> Tensor:
    return (values / unit).trunc() * unit


def truncating(products: Tensor) -> Tensor:
    """A matrix instruction of 16 products: align to the largest, cut below 2^-24 of its power of two, cut to 24 bits."""
    total = torch.zeros(products.shape[:-1], dtype=torch.float64)
    for piece in products.to(torch.float64).split(16, -1):
        terms = torch.cat([total[..., None], piece], -1)
        largest = torch.exp2(terms.abs().amax(-1, keepdim=True).clamp(min=2.0**-40).log2().floor())
        exact = cut(terms, largest * 2.0**-24).sum(-1)
        power = torch.exp2(exact.abs().clamp(min=2.0**-60).log2().floor())
        total = cut(exact, power * 2.0**-23)
    return total.to(torch.float32)


@pytest.mark.parametrize("values", ["any", "cancelling", "integers"])
@pytest.mark.parametrize(
    ("add", "accumulator"), [(pairwise, IEEE), (reversed_order, IEEE), (truncating, MMA)]
)
def test_right_sums_lie_inside(values: str, add: Callable[[Tensor], Tensor], accumulator: object) -> None:
    given = operands(values)
    for dtype in DTYPES:
        low, high = output_interval(given, dtype=dtype, accumulator=accumulator)  # type: ignore[arg-type]
        assert bool(inside(float32_sums(given, add).to(dtype), low, high).all())
        assert bool(inside(grouped_gemm(given, dtype=dtype), low, high).all())
        assert bool(inside(grouped_gemm_in_order(given, dtype=dtype), low, high).all())


def test_the_model_of_an_instruction_loses_something_and_the_bound_is_not_idle() -> None:
    given = operands("any")
    lost = (float32_sums(given, truncating).to(torch.float64) - given.values).abs()
    bound = error_bound(given, MMA)
    assert float((lost / bound).max()) > 0.005
    assert bool((lost <= bound).all())
    assert bool((bound < 2.01 * error_bound(given, IEEE)).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_wrong_lies_outside(dtype: torch.dtype) -> None:
    """One block's scale one code off, the alpha of a neighbour, and two units in the last place."""
    given = operands("any", k=64)
    low, high = output_interval(given, dtype=dtype, accumulator=MMA)
    a = given.a.clone()
    a[:, 16:32] *= 1.125
    wrong_scale = Operands(a=a, b=given.b, alphas=given.alphas, expert_offsets=given.expert_offsets)
    wrong_alpha = Operands(
        a=given.a, b=given.b, alphas=given.alphas.flip(0), expert_offsets=given.expert_offsets
    )
    for wrong, most in ((wrong_scale, 0.6), (wrong_alpha, 0.95)):
        found = inside(grouped_gemm(wrong, dtype=dtype), low, high)
        assert int((~found).sum()) > most * found.numel()
    further = (grouped_gemm(given, dtype=dtype).view(torch.int16) + 2).view(dtype)
    assert int((~inside(further, low, high)).sum()) > 0.9 * further.numel()


def test_nan_is_due_where_it_is_due_and_nowhere_else() -> None:
    given = operands("integers")
    a = given.a.clone()
    a[2] = torch.nan
    poisoned = Operands(a=a, b=given.b, alphas=given.alphas, expert_offsets=given.expert_offsets)
    low, high = output_interval(poisoned, dtype=torch.bfloat16, accumulator=IEEE)
    right = grouped_gemm(poisoned)
    assert right[2].isnan().all()
    assert bool(inside(right, low, high).all())
    assert not inside(torch.zeros_like(right), low, high)[2].any()
    assert not inside(torch.full_like(right, torch.nan), low, high)[[0, 1, 3]].any()


def test_float16_overflows_to_infinity() -> None:
    given = operands("any", k=1040)
    large = Operands(a=given.a, b=given.b, alphas=given.alphas * 1e4, expert_offsets=given.expert_offsets)
    output = grouped_gemm(large, dtype=torch.float16)
    assert output.isinf().any()
    assert bool(inside(output, *output_interval(large, dtype=torch.float16, accumulator=IEEE)).all())


@pytest.mark.parametrize("values", EXACT_FAMILIES)
def test_exact_families_are_exact(values: str) -> None:
    given = operands(values)
    assert bool(order_free(given).all())
    bits = [float32_sums(given, add).view(torch.int32) for add in (pairwise, reversed_order, truncating)]
    assert bits[0].equal(bits[1])
    assert bits[0].equal(bits[2])
    assert float32_sums(given, pairwise).to(torch.bfloat16).equal(grouped_gemm(given))


def test_every_small_exact_case_is_exact_and_others_are_not() -> None:
    small = [c for c in gemm_cases(level=1, seed=0) if c.elements < 20_000 and c.routed_rows]
    exact = [case for case in small if case.is_exact]
    assert {case.values for case in exact} == set(EXACT_FAMILIES)
    assert all(bool(order_free(make_gemm(case).operands).all()) for case in exact)
    assert not order_free(operands("any")).any()
    assert bool(order_free(operands("any", k=16)).all())  # one block: its scales have one unit


def test_the_criterion_is_the_edge_of_24_bits() -> None:
    """2^24 units are exact, one unit more is not: 2^24 + 1 is no float32."""
    b = torch.ones((1, 1, 16), dtype=torch.float64)
    for last, exact in ((0.0, True), (2.0**-10, False)):
        a = torch.zeros((1, 16), dtype=torch.float64)
        a[0, :14] = 1024.0
        a[0, 14] = 1024.0 * 2 - 2.0**-10 if exact else 1024.0 * 2
        a[0, 15] = last or 2.0**-10
        assert (
            bool(order_free(Operands(a=a, b=b, alphas=torch.ones(1), expert_offsets=(0, 1))).all()) == exact
        )


def test_a_bound_of_too_many_products_is_none() -> None:
    with pytest.raises(ValueError, match="bounds no sum of 8388608"):
        MMA.factor(2**23)
