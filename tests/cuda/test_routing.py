"""Routing data against the golden model: every output entry, stable order, id -1, many experts, both id types."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nvfp4_moe.cuda.ops import HostOps, Ops
from nvfp4_moe.reference.routing import route
from nvfp4_moe.verification import counter

FILL = -0x5A5A5A5B
N, K = 48, 80

SHAPES = [
    (128, 7, 1024),  # counts and staged slots fill 48 KiB, with the static shared memory on top
    (0, 1, 1),
    (1, 1, 1),
    (3, 2, 1),
    (5, 1, 7),
    (33, 8, 8),
    (64, 8, 256),
    (129, 3, 1024),
    (700, 6, 257),
    (1, 1, 3000),
]


def make_ids(tokens: int, topk: int, experts: int, *, skipped: bool, dtype: torch.dtype) -> Tensor:
    raw = counter.words(3, f"{tokens} {topk} {experts}", 0, tokens * topk)
    ids = counter.below(raw, experts)
    if skipped:
        ids = torch.where(counter.bits(raw, 2) == 0, -1, ids)
    return ids.reshape(tokens, topk).to(dtype)


def outputs(ids: Tensor, experts: int) -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {
        "expert_offsets": (experts + 1,), "problem_sizes1": (experts, 3), "problem_sizes2": (experts, 3),
        "input_permutation": (ids.numel(),), "output_permutation": (ids.numel(),), "blockscale_offsets": (experts + 1,),
    }  # fmt: skip
    return {
        name: torch.full(shape, FILL, dtype=torch.int32, device=ids.device) for name, shape in shapes.items()
    }


def run(subject: Ops, ids: Tensor, experts: int, out: dict[str, Tensor], *, is_gated: bool = True) -> None:
    names = ("expert_offsets", "problem_sizes1", "problem_sizes2", "input_permutation", "output_permutation")
    subject.get_cutlass_moe_mm_data(
        ids, *(out[name] for name in names), experts, N, K, out["blockscale_offsets"], is_gated
    )


def check(out: dict[str, Tensor], ids: Tensor, experts: int, *, is_gated: bool = True) -> None:
    true = route(ids, experts, n=N, k=K, is_gated=is_gated)
    for name, written in out.items():
        assert written.equal(getattr(true, name)), name


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("skipped", [False, True], ids=["all", "some-skipped"])
@pytest.mark.parametrize(("tokens", "topk", "experts"), SHAPES)
def test_every_entry(
    subject: Ops, tokens: int, topk: int, experts: int, skipped: bool, dtype: torch.dtype
) -> None:
    ids = make_ids(tokens, topk, experts, skipped=skipped, dtype=dtype).to(subject.device_type)
    out = outputs(ids, experts)
    run(subject, ids, experts, out)
    check(out, ids, experts)


@pytest.mark.parametrize("tokens", [1, 100, 5000])
def test_all_ids_skipped(subject: Ops, tokens: int) -> None:
    ids = torch.full((tokens, 2), -1, dtype=torch.int32, device=subject.device_type)
    out = outputs(ids, 4)
    run(subject, ids, 4, out)
    check(out, ids, 4)


@pytest.mark.parametrize("tokens", [8192, 40000])
def test_one_expert_takes_all(subject: Ops, tokens: int) -> None:
    ids = torch.full((tokens, 8), 5, dtype=torch.int32, device=subject.device_type)
    out = outputs(ids, 256)
    run(subject, ids, 256, out)
    check(out, ids, 256)


def test_ungated_first_gemm(subject: Ops) -> None:
    ids = make_ids(20, 2, 6, skipped=False, dtype=torch.int32).to(subject.device_type)
    out = outputs(ids, 6)
    run(subject, ids, 6, out, is_gated=False)
    check(out, ids, 6, is_gated=False)


def test_without_blockscale_offsets(subject: Ops) -> None:
    ids = make_ids(20, 2, 6, skipped=True, dtype=torch.int32).to(subject.device_type)
    out = outputs(ids, 6)
    unwritten = out.pop("blockscale_offsets")
    run(subject, ids, 6, {**out, "blockscale_offsets": None})  # type: ignore[dict-item]
    check(out, ids, 6)
    assert (unwritten == FILL).all()


@pytest.mark.parametrize("workers", [1, 2, 3, 100, 5000])
def test_number_of_workers_does_not_matter(workers: int) -> None:
    ids = make_ids(333, 3, 17, skipped=True, dtype=torch.int32)
    out = outputs(ids, 17)
    run(HostOps(workers=workers, seed=workers), ids, 17, out)
    check(out, ids, 17)


def test_every_entry_has_one_writer() -> None:
    ids = make_ids(333, 3, 17, skipped=True, dtype=torch.int32)
    out = outputs(ids, 17)
    for tensor in out.values():
        tensor.zero_()
    run(HostOps(count_writers=True, workers=7), ids, 17, out)
    for name, counts in out.items():
        assert (counts.view(torch.uint8) == 1).all(), name


@pytest.mark.parametrize("bad", [-2, 4, 2**31 - 1])
def test_ids_out_of_range_are_refused_by_the_host_twin(bad: int) -> None:
    ids = torch.zeros((5, 3), dtype=torch.int32)
    ids[2, 1] = bad
    out = outputs(ids, 4)
    with pytest.raises(ValueError, match=rf"topk_ids\[2, 1\] must be in \[-1, 4\), got {bad}"):
        run(HostOps(), ids, 4, out)
    assert all((tensor == FILL).all() for tensor in out.values())


Change = Callable[[dict[str, Tensor]], None]


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "error"),
    [
        ("expert_offsets", (4,), torch.int32, ValueError),
        ("expert_offsets", (5,), torch.int64, TypeError),
        ("problem_sizes1", (4, 2), torch.int32, ValueError),
        ("input_permutation", (14,), torch.int32, ValueError),
        ("output_permutation", (16,), torch.int32, ValueError),
        ("blockscale_offsets", (4,), torch.int32, ValueError),
    ],
)
def test_wrong_outputs_are_refused(
    subject: Ops, name: str, shape: tuple[int, ...], dtype: torch.dtype, error: type[Exception]
) -> None:
    ids = torch.zeros((5, 3), dtype=torch.int32, device=subject.device_type)
    out = outputs(ids, 4)
    out[name] = torch.zeros(shape, dtype=dtype, device=subject.device_type)
    with pytest.raises(error, match=name):
        run(subject, ids, 4, out)


@pytest.mark.parametrize(
    ("experts", "dtype", "error"), [(0, torch.int32, ValueError), (4, torch.int16, TypeError)]
)
def test_wrong_ids_are_refused(
    subject: Ops, experts: int, dtype: torch.dtype, error: type[Exception]
) -> None:
    ids = torch.zeros((5, 3), dtype=dtype, device=subject.device_type)
    with pytest.raises(error):
        run(subject, ids, experts, outputs(ids, 4))
