"""The bytes of two subjects in one case: where they differ, among those that either contract promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nvfp4_moe.verification.conformance.cases import QuantCase, RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.fault import first_difference, hex_byte
from nvfp4_moe.verification.conformance.forms import Form, Kind
from nvfp4_moe.verification.conformance.quant_data import form_of
from nvfp4_moe.verification.conformance.routing_check import OUTPUTS
from nvfp4_moe.verification.result import Finding
from nvfp4_moe.verification.subject_outputs import ComparedCase, Outputs

_PERMUTATIONS = ("input_permutation", "output_permutation")

Contracts = tuple[Contract, Contract]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two subjects differ."""

    finding: Finding
    text: str
    """One line: where, both values, the first of how many."""
    where: dict[str, Any]


def differences(
    case: ComparedCase, contracts: Contracts, one: Outputs, other: Outputs, *, in_place: bool = True
) -> Iterator[Difference]:
    """Yield the differences of the outputs of two subjects in one turn, one for each output and kind of byte.

    Args:
        case: of the outputs.
        contracts: of both.
        one, other: outputs.
        in_place: both filled the caller's tensors: bytes that nobody owns must still hold the fill.
    """
    if all(torch.equal(tensor, other[name]) for name, tensor in one.items()):
        return
    if isinstance(case, RoutingCase):
        yield from _routing(contracts, one, other)
    elif isinstance(case, QuantCase):
        yield from _quant(form_of(case), contracts, one, other, in_place=in_place)
    else:
        yield from _rows(one["output"], other["output"])


def _quant(
    form: Form, contracts: Contracts, one: Outputs, other: Outputs, *, in_place: bool
) -> Iterator[Difference]:
    first, second = one["output"], other["output"]
    place: dict[str, Any]
    owned = form.owned[..., None].expand(first.shape)
    for judged, finding in ((owned, Finding.BYTES), (~owned & in_place, Finding.MEMORY)):
        found = first_difference(first, second, judged)
        if found:
            row, half = divmod(found[0], first.shape[-1])
            expert, inside = form.packed_position(row)
            place = {"expert": expert, "row": inside, "column": 2 * half}
            yield _byte("output", place, first, second, found, finding)
    first, second = one["output_scale"], other["output_scale"]
    kinds = form.kinds
    for kind, finding in _promised_kinds(contracts, in_place=in_place):
        found = first_difference(first, second, kinds == int(kind))
        if found:
            expert, row, column = form.scale_position(found[0])
            place = {
                "expert": expert,
                "row": row,
                "scale_column": column,
                "kind": kind.name.lower(),
            }
            yield _byte("output_scale", place, first, second, found, finding)


def _promised_kinds(contracts: Contracts, *, in_place: bool) -> Iterator[tuple[Kind, Finding]]:
    """Yield the kinds of scale bytes that either contract promises, and the class of a difference there."""
    yield Kind.VALID, Finding.BYTES
    if any(contract.k_padding == "zero" for contract in contracts):
        yield Kind.K_PADDING, Finding.CONTRACT
    if any(contract.row_padding == "zero" for contract in contracts):
        yield Kind.ROW_PADDING, Finding.CONTRACT
    if in_place:
        yield Kind.BEYOND, Finding.MEMORY  # both promise to leave it alone


def _byte(
    output: str,
    place: dict[str, Any],
    one: torch.Tensor,
    other: torch.Tensor,
    found: tuple[int, int],
    finding: Finding,
) -> Difference:
    byte, count = found
    values = [int(tensor.reshape(-1)[byte]) for tensor in (one, other)]
    told = " ".join(f"{key} {value}" for key, value in place.items())
    text = f"{output} at {told}: {hex_byte(values[0])} against {hex_byte(values[1])} (first of {count:,})"
    where = {
        "output": output,
        "byte": byte,
        **place,
        "subject": values[0],
        "against": values[1],
        "count": count,
    }
    return Difference(finding, text, where)


def _rows(one: torch.Tensor, other: torch.Tensor) -> Iterator[Difference]:
    found = first_difference(one, other, None)
    if found:
        row, column = divmod(found[0], one.shape[-1])
        yield _byte("output", {"row": row, "column": column}, one, other, found, Finding.BYTES)


def _routing(contracts: Contracts, one: Outputs, other: Outputs) -> Iterator[Difference]:
    ordered = any(contract.row_order == "stable" for contract in contracts)
    for name in OUTPUTS:
        if ordered or name not in _PERMUTATIONS:
            yield from _entries(name, one[name], other[name])
    if not ordered and torch.equal(one["expert_offsets"], other["expert_offsets"]):
        offsets = one["expert_offsets"]
        tokens = [_sorted_within(run["input_permutation"], offsets) for run in (one, other)]
        yield from _entries("input_permutation", *tokens)


def _sorted_within(rows: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return the tokens of each expert in ascending order; what lies behind the last expert is left out."""
    bounds = offsets.to(torch.int64)
    counts = bounds.diff()
    routed = int(bounds[-1])
    if bool((counts < 0).any()) or not 0 <= routed <= len(rows):
        return rows  # offsets that are none; the comparison of them has told if the other side's differ
    expert = torch.repeat_interleave(torch.arange(len(counts)), counts)
    by_token = torch.argsort(rows[:routed], stable=True)
    return rows[:routed][by_token[torch.argsort(expert[by_token], stable=True)]]


def _entries(name: str, one: torch.Tensor, other: torch.Tensor) -> Iterator[Difference]:
    differs = (one != other).reshape(-1).nonzero()
    if differs.numel():
        index = int(differs[0])
        values = [int(tensor.reshape(-1)[index]) for tensor in (one, other)]
        text = f"{name}[{index}]: {values[0]} against {values[1]} (first of {differs.numel():,})"
        where = {
            "output": name,
            "index": index,
            "subject": values[0],
            "against": values[1],
            "count": differs.numel(),
        }
        yield Difference(Finding.BYTES, text, where)
