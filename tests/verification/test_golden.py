"""The golden check passes `reference` and finds planted faults, each with a witness that names the input."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nvfp4_moe.verification import golden
from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.golden import activation, experts, layouts, quantize, routing
from nvfp4_moe.verification.golden import casts as golden_casts
from nvfp4_moe.verification.golden.model import REFERENCE, Model
from nvfp4_moe.verification.golden.tally import Tally
from nvfp4_moe.verification.result import Finding, Outcome, Verdict


def run(check: Callable[[Tally], None], *, level: int = 1, model: Model = REFERENCE) -> Outcome:
    tally = Tally(level=level, seed=0, progress=lambda done: None, should_stop=lambda: False, model=model)
    check(tally)
    return tally.outcome()


@pytest.mark.parametrize(
    ("claim_id", "verdict", "at_least"),
    [
        ("cast.e2m1", Verdict.EXHAUSTED, 131_000),
        ("cast.ue4m3", Verdict.EXHAUSTED, 131_000),
        ("quant.golden", Verdict.HELD, 1_500_000),
        ("quant.layout", Verdict.HELD, 300_000),
        ("routing.golden", Verdict.HELD, 400_000),
    ],
)
def test_reference_equals_the_oracle(claim_id: str, verdict: Verdict, at_least: int) -> None:
    outcome = run(golden.CHECKS[claim_id])
    assert outcome.verdict is verdict, outcome
    assert outcome.cases >= at_least
    assert outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("claim_id", ["cast.e2m1", "cast.ue4m3", "quant.golden"])
def test_level_2(claim_id: str) -> None:
    assert run(golden.CHECKS[claim_id], level=2).verdict in (Verdict.EXHAUSTED, Verdict.HELD)


# --- planted faults -----------------------------------------------------------------------------------------------


def wrapped(change: Callable[[Any], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def faulty(*args: Any, **options: Any) -> Any:
        return change(function(*args, **options))

    return faulty


def tie_away(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Round 0.25 up and leave all else."""
    return lambda values: torch.where(values == 0.25, 1, function(values)).to(torch.uint8)


def changed(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """Return a change of one tensor field of a result."""

    def apply(result: Any) -> Any:
        object.__setattr__(result, name, change(getattr(result, name)))
        return result

    return apply


def last_bit(values: torch.Tensor) -> torch.Tensor:
    """Flip the lowest bit of the last byte."""
    flat = values.clone().reshape(-1)
    if flat.numel():
        flat[-1] ^= 1
    return flat.reshape(values.shape)


def few_rows(tally: Tally) -> None:
    """Run a part of `check_quantize`: the first of its inputs."""
    quantize._compare_rows(tally, next(quantize._every_pattern()))


FAULTS = {
    "tie": (golden_casts.check_e2m1, "encode_e2m1", tie_away, "code"),
    "minus_zero": (
        golden_casts.check_e2m1,
        "encode_e2m1",
        lambda f: wrapped(lambda codes: torch.where(codes == 8, 0, codes).to(torch.uint8), f),
        "code",
    ),
    "nibbles": (
        golden_casts.check_e2m1,
        "pack",
        lambda f: lambda c: f(c.flip(-1)),
        "packed byte",
    ),
    "saturation": (
        golden_casts.check_ue4m3,
        "encode_ue4m3",
        lambda f: lambda v: torch.where(v > 464, 0x7F, f(v)).to(torch.uint8),
        "code",
    ),
    "nan_byte": (
        golden_casts.check_ue4m3,
        "decode_ue4m3",
        lambda f: lambda s: torch.where(s == 0x7F, 480.0, f(s)),
        "bits of the decoded value",
    ),
    "scale": (
        few_rows,
        "quantize",
        lambda f: wrapped(changed("block_scale", last_bit), f),
        "scale byte",
    ),
    "plain_path": (
        few_rows,
        "quantize",
        lambda f: (
            lambda x, g, *, intermediates: (
                changed("packed", last_bit)(f(x, g, intermediates=True)) if intermediates else f(x, g)
            )
        ),
        "plain packed byte",
    ),
    "packed": (
        few_rows,
        "quantize",
        lambda f: wrapped(changed("packed", last_bit), f),
        "packed byte",
    ),
    "rows_behind": (
        experts.check_experts,
        "quantize_experts",
        lambda f: wrapped(changed("packed", last_bit), f),
        "packed byte",
    ),
    "buffer_padding": (
        experts.check_experts,
        "quantize_experts",
        lambda f: wrapped(changed("block_scale", last_bit), f),
        "scale buffer byte",
    ),
    "gated": (
        experts.check_experts,
        "silu_and_mul_quantize_experts",
        lambda f: lambda x, g, o: f(torch.cat(x.chunk(2, -1)[::-1], -1), g, o),
        "packed byte",
    ),
    "masked": (
        experts.check_experts,
        "quantize_masked",
        lambda f: lambda x, g, m: f(x, g.roll(1), m),
        "packed byte",
    ),
    "silu": (
        activation.check_silu,
        "silu",
        lambda f: wrapped(lambda v: torch.nextafter(v, torch.full_like(v, torch.inf)), f),
        "bits of silu",
    ),
    "layout": (
        layouts.check_layouts,
        "to_layout",
        lambda f: wrapped(last_bit, f),
        "byte of the layout",
    ),
    "way_back": (
        layouts.check_layouts,
        "from_layout",
        lambda f: wrapped(last_bit, f),
        "scale on the way back",
    ),
    "tail": (
        routing.check_routing,
        "route",
        lambda f: wrapped(changed("input_permutation", last_bit), f),
        "input_permutation",
    ),
    "gate_columns": (
        routing.check_routing,
        "route",
        lambda f: lambda ids, e, **o: f(ids, e, **{**o, "is_gated": True}),
        "problem_sizes1",
    ),
}


def with_fault(name: str, plant: Callable[[Any], Any]) -> Model:
    """Return the golden model with one part changed."""
    return dataclasses.replace(REFERENCE, **{name: plant(getattr(REFERENCE, name))})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    check, name, plant, what = FAULTS[fault]
    outcome = run(check, model=with_fault(name, plant))
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.finding is Finding.BYTES
    assert outcome.witness is not None
    assert outcome.witness["kind"] == "golden"
    assert outcome.witness["what"] == what
    assert outcome.witness["true"] != outcome.witness["subject"]
    json.dumps(outcome.witness)


def test_the_witness_gives_the_input() -> None:
    witness = run(golden_casts.check_e2m1, model=with_fault("encode_e2m1", tie_away)).witness
    assert witness is not None
    assert (witness["float32_bits"], witness["value"]) == (0x3E800000, "0.25")
    assert (witness["true"], witness["subject"]) == (0, 1)


def test_a_wrong_shape_is_found() -> None:
    outcome = run(activation.check_silu, model=with_fault("silu", lambda f: lambda x: f(x)[:-1]))
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.witness is not None
    assert outcome.witness["what"] == "shape of bits of silu"


# --- inputs -------------------------------------------------------------------------------------------------------


def patterns_of(rows: quantize.Rows) -> set[int]:
    """Return the 16-bit patterns of a call."""
    return set(rows.tensor.view(torch.int16).unique().tolist())


def test_every_pattern_and_every_scale_byte_occurs() -> None:
    seen: dict[torch.dtype, set[int]] = {torch.bfloat16: set(), torch.float16: set()}
    for rows in quantize._every_pattern():
        seen[rows.tensor.dtype] |= patterns_of(rows)
    assert all(len(patterns) == 2**16 for patterns in seen.values())
    for rows in quantize._ties():
        _, scales = quantize.oracle.quantize(rows.numbers, 1.0)
        assert scales[:, 0].tolist() == list(range(1, 127)), rows.name


def test_calls_of_finite_numbers_are_apart() -> None:
    """So that the path for finite calls sees every finite pattern under every scale."""
    for kind in quantize.TYPES:
        calls = [rows for rows in quantize._every_pattern() if rows.tensor.dtype == kind.dtype]
        finite = [rows for rows in calls if rows.tensor.isfinite().all()]
        assert len(finite) == len(quantize.ENCODE_SCALES) + len(quantize.LARGEST_IN_BLOCK)
        assert len(calls) == len(finite) + 2
        number = int(torch.from_numpy(kind.numbers.copy()).isfinite().sum())
        assert all(len(patterns_of(rows)) == number for rows in finite)


def test_numbers_and_tensors_are_the_same() -> None:
    for rows in (*quantize._every_pattern(), *quantize._ties()):
        wide = rows.tensor.to(torch.float32)
        assert torch.equal(wide.nan_to_num(7.0), torch.from_numpy(rows.numbers.copy()).nan_to_num(7.0))


# --- running ------------------------------------------------------------------------------------------------------


def test_stop_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "CHECKS", {c: golden.CHECKS[c] for c in ("cast.e2m1", "cast.ue4m3")})
    done: list[int] = []
    outcomes = golden.check_reference(progress=done.append)
    assert [claim_id for claim_id, _ in outcomes] == ["cast.e2m1", "cast.ue4m3"]
    assert sum(done) == sum(outcome.cases for _, outcome in outcomes)
    first = outcomes[0][1].cases
    done.clear()
    stopped = golden.check_reference(progress=done.append, should_stop=lambda: sum(done) > first)
    assert [claim_id for claim_id, _ in stopped] == ["cast.e2m1"]
    assert pickle.loads(pickle.dumps(outcomes)) == outcomes


def test_claims_exist() -> None:
    assert set(golden.CHECKS) <= set(CLAIMS)
