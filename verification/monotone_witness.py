"""The witness of a fall: sizes at which one more row or expert lowers an exact worst case. A replay counts both again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.reference.padding import check_size, exact_any_rows, exact_distinct_rows
from nvfp4_moe.verification.bound_witness import Replay
from nvfp4_moe.verification.exhaustive import TOPK

KIND = "monotone"
_MORE = ((1, 0, "one more row"), (0, 1, "one more expert"))


def replay(document: Mapping[str, Any]) -> Replay:
    """Compare the exact worst cases at the sizes of the witness with those of one more row or expert.

    Args:
        document: the witness: `routed_rows`, `num_experts`, `tile`.

    Raises:
        ValueError, TypeError: a size that is missing or not legal.
    """
    least = {"routed_rows": 0, "num_experts": 1, "tile": 1}
    rows, experts, tile = (
        check_size(name, document.get(name), at_least=lowest)  # type: ignore[arg-type]  # it checks the type
        for name, lowest in least.items()
    )
    falls = [told for fewer, more, told in _steps(rows, experts, tile) if more < fewer]
    title = f"T {rows}, E {experts}, tile {tile}"
    return Replay(bool(falls), (title, *(falls or ["no worst case falls"])))


def _steps(rows: int, experts: int, tile: int) -> list[tuple[int, int, str]]:
    """Return (rows, rows with one more, what to tell) of every rule and step."""

    def worst(topk: int | None, t: int, e: int) -> int:
        return exact_any_rows(t, e, tile=tile) if topk is None else exact_distinct_rows(t, topk, e, tile=tile)

    steps = []
    for topk in (None, *TOPK):
        rule = "any ids" if topk is None else f"distinct ids, topk {topk}"
        fewer = worst(topk, rows, experts)
        for more_rows, more_experts, step in _MORE:
            more = worst(topk, rows + more_rows, experts + more_experts)
            steps.append((fewer, more, f"{rule}: {fewer} rows, {more} with {step}"))
    return steps
