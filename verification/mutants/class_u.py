"""FAKE-META: what a fake kernel or a schema tells the compiler is not what the operation does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.reference.padding import TILE, round_up
from nvfp4_moe.verification.mutants.mutant import FakeMutant, Mutant, PublicFault
from nvfp4_moe.verification.operators import Operator, check_operators, own_operators
from nvfp4_moe.verification.result import Outcome, Verdict

FAULTS = (
    PublicFault(
        id="U1",
        links=("https://github.com/hao-ai-lab/FastVideo/pull/1647",),
        what="The compiled path of an NVFP4 operator stops at a check of strides: the fake kernel returns dense scales,"
        " the kernel a permuted view. An earlier form matched because the batch was 1.",
        star=True,
    ),
)

Change = Callable[[Operator], Operator]


def _wrong(name: str, change: Change, claim: str) -> Callable[[int], Outcome]:
    """Return the check of the operators, one of which is changed; the library is built when it is asked for."""

    def check(seed: int) -> Outcome:
        try:
            operators = {operator.name: operator for operator in own_operators()}
        except Exception as error:
            return Outcome(verdict=Verdict.SKIPPED, cases=0, detail=f"{type(error).__name__}: {error}")
        return check_operators((change(operators[name]),), seed=seed)[claim]

    return check


def _fake(change: Callable[[Any], Any]) -> Change:
    """Change what the fake kernel returns."""

    def changed(operator: Operator) -> Operator:
        return replace(operator, fake=lambda *arguments: change(operator.fake(*arguments)))

    return changed


def _kernel(change: Callable[[Any], Any]) -> Change:
    """Change what the kernel returns."""

    def changed(operator: Operator) -> Operator:
        return replace(operator, kernel=lambda *arguments: change(operator.kernel(*arguments)))

    return changed


def _columns_first(found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The scales with columns that follow each other: the same elements, other strides."""
    packed, scales = found
    return packed, scales.t().contiguous().t()


def _one_expert(operator: Operator) -> Operator:
    """The fake kernel rounds all rows up together, as for one expert."""

    def fake(input: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
        packed, scales = operator.fake(input, *others)
        return packed, scales.new_zeros((round_up(input.shape[0], TILE), scales.shape[1]))

    return replace(operator, fake=fake)


def _unpadded_columns(operator: Operator) -> Operator:
    """The fake kernel has K/16 columns of scales; rounded up to 4 are due."""

    def fake(input: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
        packed, scales = operator.fake(input, *others)
        return packed, scales.new_zeros((scales.shape[0], input.shape[1] // 16))

    return replace(operator, fake=fake)


def _strides_of_input(operator: Operator) -> Operator:
    """The fake gather gives its rows the strides of the input's: right where those are dense."""

    def fake(input: Tensor, row_map: Tensor) -> Tensor:
        return input.new_empty_strided((row_map.shape[0], input.shape[1]), input.stride())

    return replace(operator, fake=fake)


def _type_of_ids(operator: Operator) -> Operator:
    """The fake metadata has the type of the ids; the kernel's is int32 whatever they are."""

    def fake(topk_ids: Tensor, *others: Any) -> list[Tensor]:
        return [found.to(topk_ids.dtype) for found in operator.fake(topk_ids, *others)]

    return replace(operator, fake=fake)


def _first_call(operator: Operator) -> Operator:
    """The fake kernel keeps the number of rows that it was first asked for."""
    rows: list[int] = []

    def fake(input: Tensor, row_map: Tensor) -> Tensor:
        if not rows:
            rows.append(int(row_map.shape[0]))
        return input.new_empty((rows[0], input.shape[1]))

    return replace(operator, fake=fake)


def _reads_a_value(operator: Operator) -> Operator:
    """The fake kernel asks for the last offset, which has no value while a compiler traces."""

    def fake(input: Tensor, scale: Tensor, offsets: Tensor, *others: Any) -> Any:
        rows = int(offsets[-1])
        packed, scales = operator.fake(input, scale, offsets, *others)
        return packed[: max(rows, input.shape[0])], scales

    return replace(operator, fake=fake)


def _returns_its_input(operator: Operator) -> Operator:
    """A gather of one row out of one is the input itself: a view that the schema does not tell of."""

    def kernel(input: Tensor, row_map: Tensor) -> Any:
        return input if len(input) == 1 == len(row_map) else operator.kernel(input, row_map)

    return replace(operator, kernel=kernel)


def _unmarked(operator: Operator) -> Operator:
    """The schema says that the scales are not changed."""
    return replace(operator, schema=operator.schema.replace("Tensor(b!) output_scale", "Tensor output_scale"))


def _float8(found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    packed, scales = found
    return packed, scales.view(torch.float8_e4m3fn)


def _mutant(name: str, operator: str, change: Change, told: str, claim: str = "operators.fake") -> Mutant:
    return Mutant(
        id=f"fake_meta.{name}",
        fault_class="U",
        stands_for=("U1",),
        change=told,
        refuted_by=(claim,),
        target=FakeMutant(check=_wrong(operator, change, claim)),
    )


MUTANTS = (
    _mutant("dense_for_permuted", "experts_quant", _kernel(_columns_first),
            "The kernel's scales have columns that follow each other, the fake kernel's are dense."),
    _mutant("rows_of_one_expert", "experts_quant", _one_expert,
            "The fake kernel rounds the rows of all experts up together: right for one expert."),
    _mutant("unpadded_columns", "experts_quant", _unpadded_columns,
            "The fake kernel's rows of scales are not rounded up to four."),
    _mutant("scale_type", "experts_quant", _fake(_float8), "The fake kernel's scales are float8, the kernel's uint8."),
    _mutant("size_of_first_call", "shuffle_rows", _first_call,
            "The fake kernel returns as many rows as at its first call."),
    _mutant("strides_of_input", "shuffle_rows", _strides_of_input,
            "The fake gather's rows have the strides of the input's: right for dense ones."),
    _mutant("type_of_ids", "moe_data", _type_of_ids,
            "The fake metadata has the type of the ids: right for int32."),
    _mutant("reads_a_value", "experts_quant", _reads_a_value, "The fake kernel reads an offset."),
    _mutant("returns_its_input", "shuffle_rows", _returns_its_input,
            "A gather of the only row returns its input, and the schema does not say so.", "operators.schema"),
    _mutant("change_not_marked", "experts_quant_", _unmarked,
            "The schema does not mark the scale buffer as changed.", "operators.schema"),
)  # fmt: skip
