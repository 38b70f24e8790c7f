"""Ratios of one run and their comparison with stored ones: what passes, what is slower, what is no baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nvfp4_moe.verification.bench.ratios import Baseline, Ratio, Times, compare, read_baseline
from nvfp4_moe.verification.bench.record import table

STORED = Baseline(chip="any", noise_floor=0.05, ratios={"quant": Ratio(ratio=0.9, noise=0.08)})


def record(**ratios: float) -> dict[str, Any]:
    return {
        "device": {"name": "any"},
        "noise_floor": 0.05,
        "ratios": {name: {"ratio": ratio, "noise": 0.02} for name, ratio in ratios.items()},
    }


def test_ratio_is_the_median_of_turns_and_its_noise_their_range() -> None:
    own, roof = Times(rounds=(10.0, 20.0, 10.0)), Times(rounds=(9.0, 19.0, 8.0))
    ratio = Ratio.of(own, roof)
    assert ratio.ratio == 0.9
    assert ratio.noise == pytest.approx((0.95 - 0.8) / 0.9)
    assert (own.median, own.spread) == (10.0, 1.0)


@pytest.mark.parametrize(
    ("measured", "slower", "told"),
    [
        ({"quant": 0.9}, "", ""),
        ({"quant": 0.8101}, "", ""),
        ({"quant": 0.8099}, "quant: 0.810, stored 0.900, noise 10.0%", ""),
        ({"quant": float("nan")}, "quant: nan", ""),
        ({"quant": 0.991}, "", "quant: faster, 0.991, stored 0.900, noise 10.0%"),
        ({}, "quant: not measured, stored 0.900", ""),
        ({"quant": 0.9, "routing": 1.5}, "", "routing: not in the baseline"),
    ],
)
def test_comparison(measured: dict[str, float], slower: str, told: str) -> None:
    found, remarks = compare(record(**measured), STORED)
    assert (len(found), len(remarks)) == (bool(slower), bool(told))
    assert "".join(found).startswith(slower)
    assert "".join(remarks) == told


def test_the_floor_counts_where_both_runs_were_quiet() -> None:
    quiet = Baseline(chip="any", noise_floor=0.05, ratios={"quant": Ratio(ratio=1.0, noise=0.0)})
    assert compare(record(quant=0.951), quiet) == ([], [])
    assert compare(record(quant=0.949), quiet)[0]


def test_ratios_of_another_chip_do_not_compare() -> None:
    with pytest.raises(ValueError, match="the baseline is of any, this is other"):
        compare(record(quant=1.0) | {"device": {"name": "other"}}, STORED)


def test_a_record_is_a_baseline(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps(record(quant=0.9)))
    read = read_baseline(file)
    assert (read.chip, read.ratios["quant"]) == ("any", Ratio(ratio=0.9, noise=0.02))


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        "{}",
        json.dumps(record()),
        json.dumps(record(quant=-1.0)),
        json.dumps(record(quant=float("nan"))),
    ],
)
def test_other_files_are_refused(document: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(document)
    with pytest.raises(ValueError, match=r"file\.json: "):
        read_baseline(file)


@pytest.mark.parametrize(
    "file",
    sorted((Path(__file__).parents[3] / "verification/bench/baselines").glob("*.json")),
    ids=lambda f: f.stem,
)
def test_shipped_baselines_can_be_read(file: Path) -> None:
    baseline = read_baseline(file)
    assert file.stem == baseline.chip.lower().replace(" ", "-")


def test_the_ledger_shows_the_shipped_record() -> None:
    root = Path(__file__).parents[3]
    shipped = json.loads((root / "verification/bench/baselines/nvidia-h200.json").read_text(encoding="utf-8"))
    ledger = (root / "paper_notes.md").read_text(encoding="utf-8")
    assert f"<!-- gpu: begin -->\n```\n{table(shipped)}\n```\n<!-- gpu: end -->" in ledger
