"""The profiler's target: each kernel is launched on every set of buffers, the dense roof with dense rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import HardwareOperations
from nvfp4_moe.verification.bench.gpu import Machine
from nvfp4_moe.verification.bench.launch import KERNELS, launch, main
from nvfp4_moe.verification.bench.quant_case import Shape


class _Recorder:
    """A machine's kernels that note what they were called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def options(self, **options: str) -> Any:
        assert options == {"arithmetic": "hardware", "row_padding": "unwritten"}
        return self

    def scaled_fp4_experts_quant(self, *arguments: Any) -> None:
        self.calls.append(arguments)


@pytest.mark.parametrize("kernel", KERNELS)
def test_launches(kernel: str) -> None:
    recorder = _Recorder()
    machine = Machine(
        device=torch.device("cpu"),
        cache_bytes=10_000,
        ops=recorder,
        own_roof=recorder.scaled_fp4_experts_quant,
        roof=recorder.scaled_fp4_experts_quant,
        compiled=lambda input, scale: (input, scale),
        timer=lambda subjects, *, calls: {},
        hardware=HardwareOperations("NVIDIA H200"),
    )
    count = launch(machine, Shape(rows=300, k=64, experts=3), kernel)
    assert len(recorder.calls) == count
    assert len({id(call[0]) for call in recorder.calls}) > 1
    if kernel in ("roof", "dense"):
        rows = recorder.calls[0][6]
        assert isinstance(rows, Tensor)
        assert (rows.dtype, rows.unique().numel()) == (torch.int32, 300)
        assert (int(rows.max()) == 299) == (kernel == "dense")


def test_another_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel must be one of own, "):
        launch(object.__new__(Machine), Shape(rows=1, k=16), "mine")


@pytest.mark.parametrize("arguments", [["--k", "24"], ["--rows", "0"], ["--kernel", "mine"]])
def test_bad_arguments_exit_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
