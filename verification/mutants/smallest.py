"""The smallest input of a refutation, as one short line for people: from a witness of any of the kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.verification.bound_witness import runs
from nvfp4_moe.verification.result import Witness

MOST_CHARACTERS = 100
"""Count vectors beyond it are told by their numbers."""

_FIELDS = {
    "routing": ("tokens", "topk", "num_experts", "ids", "id_dtype"),
    "rows": ("rows", "columns"),
    "refusal": ("wrong",),
}
"""What is told of the cases of a kind that have no counts."""


def smallest_input(witness: Witness | None) -> str:
    """Return the line; empty where there is no witness."""
    if witness is None:
        return ""
    if witness.get("kind") == "subject":
        line = _case(witness["case"])
        earlier = len(witness.get("before", ()))
        return f"{line}, after {earlier} earlier call{'s' * (earlier != 1)}" if earlier else line
    told = _TOLD.get(str(witness.get("kind")), _anything)
    return told(witness)


def _case(case: Mapping[str, Any]) -> str:
    kind = case["kind"]
    if kind == "law":
        return f"law {case['law']}: {_quant(case['base'])}"
    if kind == "quant":
        return _quant(case)
    return _named(case, _FIELDS.get(kind, tuple(case)))


def _quant(case: Mapping[str, Any]) -> str:
    parts = [_counts(case["tokens_per_expert"]), f"k {case['k']}", case["dtype"]]
    if case["unrouted_rows"]:
        parts.append(f"{case['unrouted_rows']} unrouted rows")
    parts += [f"{name} {case[name]}" for name in ("offset", "row_gap", "view") if case[name]]
    return ", ".join(parts)


def _counts(counts: list[int]) -> str:
    text = runs(counts)
    if len(text) <= MOST_CHARACTERS:
        return f"rows {text}"
    occupied = sum(count > 0 for count in counts)
    return f"{len(counts)} experts, {occupied} with rows, {sum(counts)} rows"


def _named(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {fields[name]}" for name in names if name in fields)


def _bound(witness: Witness) -> str:
    sizes = _named(witness, ("max_num_batched_tokens", "topk", "num_experts"))
    return f"{sizes}, {_counts(list(witness['tokens_per_expert']))}"


def _index(witness: Witness) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in witness["values"].items())


def _golden(witness: Witness) -> str:
    names = ("value", "code", "layout", "family", "dtype", "rows", "k", "tokens_per_expert", "num_experts")
    return ", ".join([witness["what"], *filter(None, [_named(witness, names)])])


def _routing(witness: Witness) -> str:
    return _named(witness, ("topk_ids", "num_experts", "tile"))


def _anything(witness: Witness) -> str:
    text = ", ".join(f"{key} {value}" for key, value in witness.items() if key != "kind")
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


_TOLD = {"bound": _bound, "index": _index, "golden": _golden, "routing": _routing}
