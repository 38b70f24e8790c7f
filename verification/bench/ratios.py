"""Times that survive another day: ratios of times of one run, and their comparison with stored ones.

A ratio is the time of a yardstick that ran in turns with the kernel over the kernel's time: 1 is the yardstick's speed,
more is faster. Clocks, temperature and neighbours act on both. Its noise is the range of the ratios of the single
rounds over their median. The `ratios` of a record, as `bench --json` writes it, are what `bench --baseline` reads.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """One subject's times, one a round, in microseconds a call."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Range over median."""
        return (max(self.rounds) - min(self.rounds)) / self.median

    def record(self) -> dict[str, float]:
        return {"us": self.median, "spread": self.spread}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Speed against a yardstick; see the module."""

    ratio: float
    noise: float

    @classmethod
    def of(cls, own: Times, yardstick: Times) -> Self:
        """Return the ratio of two subjects that took turns.

        Raises:
            ValueError: another number of rounds.
        """
        each = [there / here for here, there in zip(own.rounds, yardstick.rounds, strict=True)]
        middle = statistics.median(each)
        return cls(ratio=middle, noise=(max(each) - min(each)) / middle)

    def record(self) -> dict[str, float]:
        return {"ratio": self.ratio, "noise": self.noise}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Stored ratios of one chip."""

    chip: str
    noise_floor: float
    """Smallest share that counts as a difference: what other days and other boards of the chip do."""
    ratios: Mapping[str, Ratio]


def read_baseline(path: Path) -> Baseline:
    """Read a record of `bench --json`.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no such record.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    try:
        ratios = {
            str(name): Ratio(ratio=_number(entry["ratio"]), noise=_number(entry["noise"]))
            for name, entry in document["ratios"].items()
        }
        baseline = Baseline(
            chip=str(document["device"]["name"]),
            noise_floor=_number(document["noise_floor"]),
            ratios=ratios,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: no record of nvfp4-moe bench ({type(error).__name__}: {error})") from None
    if not ratios or any(entry.ratio <= 0 for entry in ratios.values()):
        raise ValueError(f"{path}: ratios must be there and positive")
    return baseline


def compare(record: Mapping[str, Any], baseline: Baseline) -> tuple[list[str], list[str]]:
    """Return (what became slower, what is only told), one line each.

    A ratio of the baseline that was not measured counts as slower. A difference counts beyond the noise of both runs
    together, and beyond the baseline's floor.

    Raises:
        ValueError: the baseline is another chip's.
    """
    chip = record["device"]["name"]
    if chip != baseline.chip:
        raise ValueError(
            f"the baseline is of {baseline.chip}, this is {chip}: ratios of two chips do not compare"
        )
    slower, told = [], []
    measured: Mapping[str, Mapping[str, float]] = record["ratios"]
    for name, stored in baseline.ratios.items():
        now = measured.get(name)
        if now is None:
            slower.append(f"{name}: not measured, stored {stored.ratio:.3f}")
            continue
        noise = max(baseline.noise_floor, stored.noise + now["noise"])
        beside = f"{now['ratio']:.3f}, stored {stored.ratio:.3f}, noise {noise:.1%}"
        if not now["ratio"] >= stored.ratio * (1 - noise):  # a NaN is slower
            slower.append(f"{name}: {beside}")
        elif now["ratio"] > stored.ratio * (1 + noise):
            told.append(f"{name}: faster, {beside}")
    told += [f"{name}: not in the baseline" for name in measured if name not in baseline.ratios]
    return slower, told


def with_ratios(pairs: Sequence[tuple[str, Times, Times]]) -> dict[str, dict[str, float]]:
    """Return the `ratios` of a record from (name, own times, yardstick's times)."""
    return {name: Ratio.of(own, yardstick).record() for name, own, yardstick in pairs}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value)
