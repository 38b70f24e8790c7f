"""Tables of scale byte and multiplier against the recipe itself, and when they are used."""

from __future__ import annotations

import pytest
import torch

from nvfp4_moe.reference import chunked_rows
from nvfp4_moe.reference.arithmetic import IEEE, operations
from nvfp4_moe.reference.chunked_rows import quantize_rows_into
from nvfp4_moe.reference.recipes import RECIPES, VLLM, Recipe
from nvfp4_moe.reference.rows import quantize_rows_plainly
from nvfp4_moe.reference.scale_tables import WORTH_A_TABLE, ScaleTables
from nvfp4_moe.verification.counter import words


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
@pytest.mark.parametrize("arithmetic", ["ieee", "hardware"])
def test_every_finite_magnitude(dtype: torch.dtype, recipe: Recipe, arithmetic: str) -> None:
    ops = operations(arithmetic)
    for scale in (torch.tensor(0.37), torch.tensor(2688 / 3.1)):
        tables = ScaleTables.worth_it(WORTH_A_TABLE, dtype, scale, recipe=recipe, ops=ops)
        assert tables is not None
        infinity = int(torch.tensor(torch.inf, dtype=dtype).view(torch.int16))
        bits = torch.arange(infinity, dtype=torch.int16)
        scale_bytes, multiplier = tables.look_up(bits)
        values = recipe.block_values(bits.view(dtype).float().unsqueeze(0), scale, ops)
        assert torch.equal(scale_bytes, values["block_scale"][0])
        true_multiplier = values["multiplier"].expand(1, infinity)[0]
        assert torch.equal(multiplier.view(torch.int32), true_multiplier.contiguous().view(torch.int32))


def test_where_tables_do_not_pay() -> None:
    def tables(blocks: int, dtype: torch.dtype, scale: torch.Tensor) -> ScaleTables | None:
        return ScaleTables.worth_it(blocks, dtype, scale, recipe=VLLM, ops=IEEE)

    assert tables(WORTH_A_TABLE - 1, torch.bfloat16, torch.tensor(1.0)) is None
    assert tables(WORTH_A_TABLE, torch.float32, torch.tensor(1.0)) is None
    assert tables(WORTH_A_TABLE, torch.bfloat16, torch.ones(4, 1)) is None


def test_runs_of_one_scale_get_tables_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs above and below the limit, the limit itself, a scale that comes back, and rows with Inf and NaN among them."""
    monkeypatch.setattr(chunked_rows, "WORTH_A_TABLE", 32)
    monkeypatch.setattr("nvfp4_moe.reference.scale_tables.WORTH_A_TABLE", 32)
    made: list[float] = []
    worth_it = ScaleTables.worth_it

    def counted(blocks: int, dtype: torch.dtype, scale: torch.Tensor, *, recipe: Recipe, ops: object):  # type: ignore[no-untyped-def]
        tables = worth_it(blocks, dtype, scale, recipe=recipe, ops=ops)  # type: ignore[arg-type]
        if tables is not None:
            made.append(float(scale))
        return tables

    monkeypatch.setattr(ScaleTables, "worth_it", counted)
    counts, scales = [3, 9, 1, 2, 8, 17, 4], [1.0, 2.0, 0.3, 1.0, 5.0, 2.0, 7.0]
    global_scale = torch.tensor([s for s, c in zip(scales, counts, strict=True) for _ in range(c)]).unsqueeze(
        1
    )
    rows, columns = len(global_scale), 64
    input = ((words(3, "runs", 0, rows * columns) >> 20) % 4096).view(rows, columns).to(torch.bfloat16)
    input[10, 5], input[20, 63] = torch.inf, torch.nan
    packed = torch.full((rows, columns // 2), 0xA5, dtype=torch.uint8)
    block_scale = torch.full((rows, columns // 16), 0xA5, dtype=torch.uint8)
    quantize_rows_into(packed, block_scale, input, global_scale, recipe=VLLM, ops=IEEE, elements=200)
    true = quantize_rows_plainly(input, global_scale, recipe=VLLM, ops=IEEE)
    assert made == [2.0, 5.0, 2.0]
    assert torch.equal(packed, true.packed)
    assert torch.equal(block_scale, true.block_scale)
