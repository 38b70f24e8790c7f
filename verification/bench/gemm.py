"""Speed of the grouped GEMM on Hopper, beside torch's bfloat16 grouped_mm and the plain two-step form of the same run.

    python -m nvfp4_moe.verification.bench.gemm [--forms] [--tokens N ...] [--json FILE]

E = 256 experts, K = 7,168, N = 4,096, top-8, every expert hit. Subjects:

- `own`: weights in NVFP4, dequantized on the way to the tensor cores; the time includes the preparation of the rows;
- `torch`: `torch.nn.functional.grouped_mm` on operands that are bfloat16 in memory (the exact dequantized ones);
- `two step`: both operands dequantized by a kernel, then `torch`.

`own` is compared byte for byte with the golden GEMM, whose values here have one right answer in any order of additions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.verification.bench.gemm_case import GemmCase, make_case
from nvfp4_moe.verification.bench.graph_timer import GraphTimer, Subject, Timer
from nvfp4_moe.verification.bench.ratios import Times, with_ratios
from nvfp4_moe.verification.counter import below, words

EXPERTS, TOPK, N, K = 256, 8, 4_096, 7_168
TOKENS = (64, 1_024, 8_192)
CALLS = 5
"""Calls of a graph: each takes milliseconds, and reads weights many times the cache."""
CHECKED_EXPERTS = 16
OWN, TORCH, TWO_STEP = "own", "torch", "two step"


def counts_of(tokens: int, *, seed: int, experts: int = EXPERTS, topk: int = TOPK) -> list[int]:
    """Return the rows of each expert: each has one, the others fall where they will."""
    rest = tokens * topk - experts
    owner = below(words(seed, f"bench.gemm {tokens}", 0, max(rest, 0)), experts)
    return (1 + torch.bincount(owner, minlength=experts)).tolist()


def measure_gemm(
    timer: Timer,
    tokens: int,
    *,
    seed: int,
    device: torch.device,
    forms: Sequence[int] = (),
    experts: int = EXPERTS,
    n: int = N,
    k: int = K,
) -> dict[str, Any]:
    """Time one batch; return its row of the record.

    Raises:
        WrongOutputError: an output is not the golden GEMM's.
    """
    from nvfp4_moe.cuda.gemm_ops import dequantized_operands, grouped_gemm, hopper_gemm

    counts = counts_of(tokens, seed=seed, experts=experts)
    case = make_case(counts, n=n, k=k, values="integer", seed=seed, device=device, spare_rows=0)
    out = case.output(torch.bfloat16)
    arguments = case.arguments(out)
    rows, weights = dequantized_operands(*arguments)
    ends, other = case.expert_offsets[1:], torch.empty_like(out)
    own = {OWN: _bound(grouped_gemm, arguments)}
    for form in forms:
        own[f"form {form}"] = _bound(hopper_gemm, arguments, form=form)
    subjects = {name: _subject(case, name, out, call) for name, call in own.items()}
    subjects[TORCH] = Subject(calls=[lambda: _torch_gemm(rows, weights, ends)])
    times = timer(subjects, calls=CALLS)
    if tokens == min(TOKENS):  # the weights' dequantization is the same for all
        plain = {TWO_STEP: Subject(calls=[lambda: _two_step(arguments, rows, weights, ends)])}
        times |= timer(plain, calls=CALLS)
    del other
    return _record(tokens, counts, n, k, times)


def _record(tokens: int, counts: Sequence[int], n: int, k: int, times: dict[str, Times]) -> dict[str, Any]:
    operations = 2 * sum(counts) * n * k
    weight_bytes = len(counts) * n * k * 9 // 16
    name = f"gemm {tokens:,} tokens"
    return {
        "name": name,
        "tokens": tokens,
        "rows": sum(counts),
        "experts": len(counts),
        "n": n,
        "k": k,
        "weight_bytes": weight_bytes,
        "teraflops": {key: operations / t.median / 1e6 for key, t in times.items()},
        "weight_terabytes_per_second": weight_bytes / times[OWN].median / 1e6,
        "times": {key: t.record() for key, t in times.items()},
        "ratios": with_ratios([(f"{name} / {TORCH}", times[OWN], times[TORCH])]),
    }


def _torch_gemm(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    return torch.nn.functional.grouped_mm(rows, weights.transpose(1, 2), offs=ends)


def _two_step(arguments: tuple[Tensor, ...], rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    from nvfp4_moe.cuda.gemm_ops import dequantize_into

    dequantize_into(*arguments, rows=rows, weights=weights)
    return _torch_gemm(rows, weights, ends)


def _bound(op: Callable[..., None], arguments: tuple[Any, ...], **options: Any) -> Callable[[], None]:
    return lambda: op(*arguments, **options)


def _subject(case: GemmCase, name: str, out: Tensor, call: Callable[[], None]) -> Subject:
    experts = range(0, len(case.b), max(1, len(case.b) // CHECKED_EXPERTS))

    def before() -> None:
        out.view(torch.uint8).fill_(0xA5)

    return Subject(
        calls=[call], before=before, after=lambda: case.check(name, out, exact=True, experts=experts)
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows of the record as text."""
    lines = []
    for row in rows:
        for name, time in row["times"].items():
            lines.append(
                f"{row['name']:22}{name:10}{time['us'] / 1e3:9.3f} ms{time['spread']:7.1%}"
                f"{row['teraflops'][name]:8.0f} TFLOP/s"
                f"{row['weight_bytes'] / time['us'] / 1e6 if name != TORCH else float('nan'):7.2f} TB/s of weights"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Time the grouped GEMM of Hopper.")
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument(
        "--forms", type=int, nargs="*", default=[], help="forms of the kernel to time as well"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if min(given.tokens) * TOPK < EXPERTS:
        parser.error(f"--tokens must be at least {EXPERTS // TOPK}: every expert is hit")
    if not torch.cuda.is_available():
        parser.error("no CUDA device is present")
    device = torch.device("cuda", torch.cuda.current_device())
    timer = GraphTimer(device)
    rows = []
    for tokens in given.tokens:
        rows.append(measure_gemm(timer, tokens, seed=given.seed, device=device, forms=given.forms))
        print(table(rows[-1:]), flush=True)
    if given.json is not None:
        given.json.write_text(
            json.dumps({"device": torch.cuda.get_device_name(device), "gemm": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
