"""Recipes against published two-value vectors: tensors in which one implementation differs from the next.

Each vector is a tensor whose block 0 holds the tensor amax A and whose block 1 holds the values that tell recipes
apart. Global scales come from A as each implementation derives them: G1 = fl(2688 / A), G2 = fl(2688 * fl(1 / A))
(what a Python ``2688.0 / tensor`` computes), p = fl(A / 2688), G3 = fl(1 / p).
"""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference.casts import unpack
from nvfp4_moe.reference.quantize import quantize
from nvfp4_moe.reference.recipes import (
    RECIPES,
    TORCHAO,
    TRANSFORMER_ENGINE,
    VLLM,
    NanInAmax,
    Recipe,
    largest_magnitude,
)

NUMERATOR = torch.tensor(2688.0)
NAN, INF = float("nan"), float("inf")


def global_scales(recipe: str, amax: float) -> dict[str, torch.Tensor]:
    a = torch.tensor(amax)
    decode = torch.div(a, NUMERATOR)
    if recipe == "torchao":
        return {"global_decode_scale": decode}
    if recipe == "mslk":
        return {"global_encode_scale": torch.div(torch.tensor(1.0), decode)}
    if recipe in ("vllm", "tensorrt_llm"):
        return {"global_encode_scale": NUMERATOR * torch.div(torch.tensor(1.0), a)}
    return {"global_encode_scale": torch.div(NUMERATOR, a)}


def block_one(recipe: str, amax: float, values: list[float]) -> tuple[int, list[int]]:
    """Return the scale byte of block 1 and the codes of its first values."""
    row = torch.zeros(1, 32)
    row[0, 0] = amax
    row[0, 16 : 16 + len(values)] = torch.tensor(values)
    result = quantize(row.to(torch.bfloat16), **global_scales(recipe, amax), recipe=recipe)
    return int(result.block_scale[0, 1]), unpack(result.packed)[0, 16 : 16 + len(values)].tolist()


@pytest.mark.parametrize(
    ("amax", "value", "scales"),
    [
        # scale bytes in the order transformer_engine, vllm, torchao, mslk
        (1.4375, 1.078125, (0x7B, 0x7A, 0x7A, 0x7A)),
        (1.53125, 1.3671875, (0x7D, 0x7D, 0x7C, 0x7C)),
        (1.75, 1.0625, (0x78, 0x79, 0x78, 0x78)),
        (1.75, 1.4375, (0x7C, 0x7C, 0x7B, 0x7C)),
        (1.78125, 1.3359375, (0x7A, 0x7A, 0x7A, 0x7B)),
        (1.65625, 1.2421875, (0x7A, 0x7A, 0x7A, 0x7B)),
        (1.09375, 0.6640625, (0x79, 0x79, 0x78, 0x79)),
        (5.1875, 1.9453125, (0x73, 0x72, None, None)),
    ],
)
def test_scale_bytes_that_separate_recipes(amax: float, value: float, scales: tuple[int | None, ...]) -> None:
    for recipe, scale in zip(("transformer_engine", "vllm", "torchao", "mslk"), scales, strict=True):
        assert scale is None or block_one(recipe, amax, [value])[0] == scale, recipe


@pytest.mark.parametrize(
    ("recipe", "amax", "values", "scale", "codes"),
    [
        ("transformer_engine", 144.0, [2.1875, 0.65625], 0x4E, [7, 4]),
        ("torchao", 144.0, [2.1875, 0.65625], 0x4E, [7, 3]),
        ("transformer_engine", 3.796875, [-4.83989716e-05], 0x03, [15]),
        ("torchao", 3.796875, [-4.83989716e-05], 0x08, [12]),
        ("transformer_engine", 4.65625, [1.1640625, -0.145507812], 0x6E, [7, 9]),
        ("transformer_engine", 4.65625, [2.03125, -1.1640625], None, [7, 13]),
        ("cutlass", 4.65625, [2.03125, -1.1640625], None, [7, 14]),
        ("vllm", 3.796875, [-1.2665987e-07], 0x00, [8]),
        ("tensorrt_llm", 3.796875, [-1.2665987e-07], 0x00, [15]),
        ("transformer_engine", 3.796875, [-1.2665987e-07], 0x00, [15]),
        # a zero block
        ("transformer_engine", 4.65625, [0.0], 0x00, [0]),
        ("vllm", 4.65625, [0.0], 0x00, [0]),
        ("tensorrt_llm", 4.65625, [0.0], 0x00, [0]),
        ("cutlass", 4.65625, [0.0], 0x00, [0]),
        ("torchao", 4.65625, [0.0], 0x08, [0]),
        ("mslk", 4.65625, [0.0], 0x00, [7]),
        # a block whose scale underflows to zero
        ("transformer_engine", 6.0, [1e-5, -1e-5, 5e-6, 0.0], 0x00, [7, 15, 7, 0]),
        ("vllm", 6.0, [1e-5, -1e-5, 5e-6, 0.0], 0x00, [0, 8, 0, 0]),
        ("tensorrt_llm", 6.0, [1e-5, -1e-5, 5e-6, 0.0], 0x00, [7, 15, 7, 7]),
        ("cutlass", 6.0, [1e-5, -1e-5, 5e-6, 0.0], 0x00, [7, 15, 7, 0]),
        ("mslk", 6.0, [1e-5, -1e-5, 5e-6, 0.0], 0x00, [7, 15, 7, 7]),
        ("torchao", 6.0, [1e-5, -1e-5, 5e-6, 0.0], 0x08, [1, 9, 0, 0]),
        # a NaN element: dropped from the amax, or not
        ("transformer_engine", 6.0, [NAN, 3.0, -1.0], 0x76, [7, 7, 12]),
        ("vllm", 6.0, [NAN, 3.0, -1.0], 0x76, [7, 7, 12]),
        ("tensorrt_llm", 6.0, [NAN, 3.0, -1.0], 0x76, [7, 7, 12]),
        ("cutlass", 6.0, [NAN, 3.0, -1.0], 0x7F, [7, 7, 7]),
        ("mslk", 6.0, [NAN, 3.0, -1.0], 0x76, [7, 7, 12]),
    ],
)
def test_blocks_that_separate_recipes(
    recipe: str, amax: float, values: list[float], scale: int | None, codes: list[int]
) -> None:
    subject_scale, subject_codes = block_one(recipe, amax, values)
    assert subject_codes == codes
    assert scale is None or subject_scale == scale


def test_infinite_element_with_scale_one() -> None:
    """TransformerEngine takes g = 1 where the tensor amax is Inf; SF saturates."""
    row = torch.zeros(1, 16)
    row[0, :3] = torch.tensor([INF, 3.0, -1.0])
    result = quantize(row, 1.0, recipe="transformer_engine")
    assert result.block_scale.item() == 0x7E
    assert unpack(result.packed)[0, :3].tolist() == [7, 0, 8]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("recipe", "scale"),
    [("vllm", 0x7F), ("tensorrt_llm", 0x7F), ("cutlass", 0x7F), ("transformer_engine", 0x00), ("mslk", 0x00)],
)
def test_block_of_nan_alone(recipe: str, scale: int, dtype: torch.dtype, sign: float) -> None:
    """TransformerEngine's amax starts at 0; MSLK's clamp turns the NaN into 2^-16, which rounds to 0."""
    row = torch.full((1, 16), NAN).copysign(torch.tensor(sign)).to(dtype)
    result = quantize(row, 100.0, recipe=recipe)
    assert result.block_scale.item() == scale
    assert unpack(result.packed).tolist() == [[7] * 16]


def test_largest_magnitude_drops_or_propagates_nan() -> None:
    blocks = torch.tensor([[1.0, NAN, -3.0], [NAN, NAN, NAN], [-0.0, 0.0, -0.0], [-INF, NAN, 1.0]])
    dropped = largest_magnitude(blocks, NanInAmax.DROPPED)
    assert torch.equal(dropped.nan_to_num(7.0), torch.tensor([3.0, 7.0, 0.0, 3.4028234663852886e38]))
    assert dropped[1].isnan()
    assert largest_magnitude(blocks, NanInAmax.DROPPED_FROM_ZERO).tolist() == [3.0, 0.0, 0.0, INF]
    assert largest_magnitude(blocks, NanInAmax.PROPAGATED).isnan().tolist() == [True, True, False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("recipe", "codes"),
    [
        ("transformer_engine", [0, 15, 7, 0]),  # 0 * inf is NaN, and fminf(NaN, FLT_MAX) is FLT_MAX
        ("cutlass", [0, 15, 7, 0]),  # g * rcp(SF) = g * inf
        ("tensorrt_llm", [7, 7, 7, 7]),  # no limit: 0 * inf is a NaN multiplier
        ("vllm", [0, 8, 0, 0]),  # guarded by SF == 0
        ("mslk", [7, 15, 7, 7]),  # g / SF = inf, and 0 * inf is a NaN element
    ],
)
def test_tiny_global_scale_whose_reciprocal_is_infinite(
    recipe: str, codes: list[int], dtype: torch.dtype
) -> None:
    """1 / 2^-128 is Inf in float32, and SF underflows to 0."""
    row = torch.zeros(1, 16)
    row[0, 1:3] = torch.tensor([-1.0, 1.0])
    result = quantize(row.to(dtype), 2.0**-128, recipe=recipe)
    assert result.block_scale.item() == 0x00
    assert unpack(result.packed)[0, :4].tolist() == codes


def test_the_limit_of_a_scale_drops_a_nan_where_the_source_does() -> None:
    """Inf * (g * 1/6) with g / 6 rounded to 0: TransformerEngine's fminf gives FLT_MAX, so 448; elsewhere NaN."""
    row = torch.full((1, 16), INF)
    smallest = torch.tensor(1, dtype=torch.int32).view(torch.float32)
    scales = {
        recipe: quantize(row, smallest, recipe=recipe).block_scale.item()
        for recipe in ("transformer_engine", "cutlass", "vllm")
    }
    assert scales == {"transformer_engine": 0x7E, "cutlass": 0x7F, "vllm": 0x7E}


@pytest.mark.parametrize(
    ("values", "decode", "scale", "codes"),
    [
        ([1.0, 0.0], 2.0**-127, 0x7E, [7, 0]),
        ([0.0, -0.0], 2.0**-121, 0x08, [0, 8]),
        ([INF, 3.0, -1.0, 0.0], 1.0, 0x7E, [7, 0, 8, 0]),
        # outside the domain are the zeros alone, at which torchao 0.18 on x86 gives 11
        ([1.0, 0.0, -1.0], 2.0**-128, 0x7E, [7, None, 15]),
        ([2.0**-130, 0.0], 2.0**-122, 0x08, [7, None]),
        ([INF, 3.0, 0.0], 2.0**-128, 0x7E, [7, 7, None]),
        ([0.0, -0.0], 2.0**-122, 0x08, [None, None]),
    ],
)
def test_torchao_at_the_edges_of_its_domain(
    values: list[float], decode: float, scale: int, codes: list[int | None]
) -> None:
    """Bytes that torchao 0.18.0 gave on a CPU; None where its input to the cast is NaN, and ours then gives 7."""
    row = torch.zeros(1, 16)
    row[0, : len(values)] = torch.tensor(values)
    result = quantize(row, global_decode_scale=decode, recipe="torchao", intermediates=True)
    assert result.intermediates is not None
    outside = (row * result.intermediates["multiplier"]).isnan()[0, : len(values)].tolist()
    assert outside == [code is None for code in codes]
    assert result.block_scale.item() == scale
    subject = unpack(result.packed)[0, : len(values)].tolist()
    assert subject == [7 if code is None else code for code in codes]


def test_torchao_states_its_domain() -> None:
    assert "x * multiplier is NaN" in TORCHAO.domain
    assert {recipe.domain for recipe in RECIPES.values()} == {"any input", TORCHAO.domain}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_recipe_states_its_operations_in_order(recipe: Recipe) -> None:
    formulas = recipe.formulas()
    assert formulas[0].startswith("block_amax = max |x|")
    assert formulas[-1] == "code = e2m1(scaled)"
    written = [formula.split(" = ")[0] for formula in formulas]
    assert written.index("scale") < written.index("block_scale") < written.index("multiplier")
    assert len(set(written)) == len(written)


def test_vllm_intermediates_are_the_named_operations() -> None:
    row = torch.linspace(-3.0, 3.0, 32).view(1, 32)
    values = quantize(row, 700.0, intermediates=True).intermediates
    assert values is not None
    a, g, six = row.view(1, 2, 16).abs().amax(-1), torch.tensor(700.0), torch.tensor(6.0)
    sixth, one_over_g = torch.div(torch.tensor(1.0), six), torch.div(torch.tensor(1.0), g)
    assert torch.equal(values["block_amax"], a)
    assert torch.equal(values["scale"], g * (a * sixth))
    product = values["decoded_scale"] * one_over_g
    assert torch.equal(values["multiplier"], torch.div(torch.ones_like(product), product))


def test_recipes_differ_only_as_data() -> None:
    assert VLLM.steps[0].formula == "g * (a * rcp(6))"
    assert TRANSFORMER_ENGINE.steps[0].formula == "min(a * (g * (1/6)), FLT_MAX)"
    assert TORCHAO.global_scale == "global_decode_scale"
