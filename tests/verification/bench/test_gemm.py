"""The benchmark of the grouped GEMM, on the host twin with a timer that only counts; and what its case must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.build import missing
from nvfp4_moe.cuda.gemm_ops import grouped_gemm
from nvfp4_moe.verification.bench import gemm, record
from nvfp4_moe.verification.bench.gemm import GemmMachine, Sizes
from nvfp4_moe.verification.bench.gemm_case import GemmCase, WrongOutputError, make_case
from nvfp4_moe.verification.bench.graph_timer import Subject
from nvfp4_moe.verification.bench.quant_case import FILL
from nvfp4_moe.verification.bench.ratios import Times

pytestmark = pytest.mark.skipif(missing("host") is not None, reason=str(missing("host")))
SMALL = Sizes(experts=3, n=24, k=96)


def counting_timer(subjects: Mapping[str, Subject], *, calls: int) -> dict[str, Times]:
    """Run every call once; subject i takes i + 1 microseconds."""
    assert calls == gemm.CALLS
    for subject in subjects.values():
        subject.before()
        for call in subject.calls:
            call()
        subject.after()
    return {name: Times(rounds=(number + 1.0,) * 3) for number, name in enumerate(subjects)}


def dequantize(*tensors: Tensor, rows: Tensor, weights: Tensor) -> None:
    rows.zero_()
    weights.zero_()


def machine(own: Callable[..., None] = grouped_gemm) -> GemmMachine:
    return GemmMachine(
        device=torch.device("cpu"),
        timer=counting_timer,
        own={"own": own},
        dequantize=dequantize,
        grouped_mm=lambda rows, weights, ends: rows,
    )


def test_rows_of_the_record() -> None:
    said: list[str] = []
    rows = gemm.measure(machine(), seed=2, progress=said.append, tokens=(1, 20), sizes=SMALL)
    assert said == ["gemm 1 tokens", "gemm 20 tokens"]
    assert [list(row["times"]) for row in rows] == [["own", "torch", "two step"], ["own", "torch"]]
    assert rows[1]["ratios"] == {"gemm 20 tokens / torch": {"ratio": 2.0, "noise": 0.0}}
    assert rows[1]["weight_bytes"] == 3 * 24 * (48 + 6)
    assert rows[1]["teraflops"]["torch"] == pytest.approx(2 * 160 * 24 * 96 / 2 / 1e6)
    assert len(gemm.lines(rows)) == 6


def test_the_record_shows_it() -> None:
    rows = gemm.measure(machine(), seed=2, progress=lambda _: None, tokens=(20,), sizes=SMALL)
    whole = {
        "device": {"name": "a card"}, "torch": "2", "git": None, "seed": 0, "ratios": {}, "quantizers": [], "routing": [],
        "copy": {"bytes": 2**30, "terabytes_per_second": 4.0}, "gemm": rows,
    }  # fmt: skip
    assert record.table(whole).splitlines()[-4:] == gemm.lines(rows)


def test_every_expert_is_hit() -> None:
    assert sum(gemm.counts_of(64, seed=1, experts=256)) == 512
    assert min(gemm.counts_of(64, seed=1, experts=256)) == 1
    with pytest.raises(ValueError, match="31 tokens are too few to hit 256 experts"):
        gemm.counts_of(31, seed=1, experts=256)


def test_a_wrong_output_is_noticed() -> None:
    def spoiled(out: Tensor, *tensors: Tensor) -> None:
        grouped_gemm(out, *tensors)
        out[0, 3] += 1

    with pytest.raises(WrongOutputError, match=r"own: expert 0: 1 of .* first at row 0, column 3"):
        gemm.measure_gemm(machine(spoiled), 20, seed=2, sizes=SMALL)


def spoil(case: GemmCase, out: Tensor, what: str) -> None:
    if what == "a tail row":
        out[-1, 0] = 0
    elif what == "an untouched row":
        out[4].view(torch.uint8).fill_(FILL)
    else:
        out[4] = torch.nextafter(out[4].float(), torch.tensor(torch.inf)).to(out.dtype) * (1 + 2**-7)


@pytest.mark.parametrize("what", ["a tail row", "an untouched row", "one step up"])
@pytest.mark.parametrize("values", ["integer", "wide"])
def test_the_case_notices(values: str, what: str) -> None:
    case = make_case([2, 0, 3], n=24, k=96, values=values)
    out = case.output(torch.bfloat16)
    grouped_gemm(*case.arguments(out))
    case.check("own", out, exact=values == "integer")
    spoil(case, out, what)
    with pytest.raises(WrongOutputError):
        case.check("own", out, exact=values == "integer")


def test_every_padding_byte_is_poisoned() -> None:
    one, two = (make_case([2, 0, 130], n=24, k=96, values="wide", poison=poison) for poison in (1, 2))
    for name, owned in (("a_blockscale", 132 * 6), ("b_blockscale", 3 * 24 * 6)):
        first, second = getattr(one, name), getattr(two, name)
        differ = first != second
        assert int(differ.sum()) == first.numel() - owned
        assert bool((first[differ] == 1).all())
        assert bool((second[differ] == 2).all())


def test_unknown_values_are_refused() -> None:
    with pytest.raises(ValueError, match="values must be one of integer, wide, got 'small'"):
        make_case([1], n=8, k=32, values="small")


@pytest.mark.parametrize(
    "arguments", [["--tokens", "3"], ["--k", "48"], ["--n", "12"], ["--experts", "0"], []]
)
def test_bad_command_lines(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as exit:
        gemm.main(arguments)
    assert exit.value.code == 2
    assert "error:" in capsys.readouterr().err
