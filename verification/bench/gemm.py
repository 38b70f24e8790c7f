"""Speed of the grouped GEMM on Hopper, beside torch's bfloat16 grouped_mm and the plain two-step form of the same run.

    python -m nvfp4_moe.verification.bench.gemm [--tokens N ...] [--experts N --n N --k N] [--forms N ...] [--json FILE]

By default E = 256 experts, K = 7,168, N = 4,096; top-8, every expert hit. Subjects:

- `own`: weights in NVFP4, dequantized on the way to the tensor cores; the time includes the preparation of the rows;
- `form 0`, ...: the same with tile sizes forced, where asked for;
- `torch`: `torch.nn.functional.grouped_mm` on operands that are bfloat16 in memory (the exact dequantized ones);
- `two step`: both operands dequantized by a kernel, then `torch`; its time hardly depends on the tokens, so of the
  smallest batch only.

Own outputs are compared byte for byte with the golden GEMM, on values that have one right answer in any order of
additions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.verification.bench.gemm_case import GemmCase, make_case
from nvfp4_moe.verification.bench.graph_timer import GraphTimer, Subject, Timer
from nvfp4_moe.verification.bench.quant_case import FILL
from nvfp4_moe.verification.bench.ratios import Times, with_ratios
from nvfp4_moe.verification.counter import below, words

TOKENS = (64, 1_024, 8_192)
TOPK = 8
CALLS = 5
"""Calls of a graph: each takes milliseconds and reads weights many times the size of the cache."""
CHECKED_EXPERTS = 16
HOPPER = (9, 0)
N_MULTIPLE, K_MULTIPLE = 8, 32
"""What Hopper's kernel takes."""
OWN, TORCH, TWO_STEP = "own", "torch", "two step"

Gemm = Callable[..., None]
"""Takes the tensors of the protocol."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of one layer's first GEMM."""

    experts: int = 256
    n: int = 4_096
    k: int = 7_168


@dataclass(frozen=True, kw_only=True)
class GemmMachine:
    """What is measured: a device, the kernels on it, the yardsticks and the clock."""

    device: torch.device
    timer: Timer
    own: Mapping[str, Gemm]
    dequantize: Callable[..., None]
    """The tensors of the protocol, then `rows` (rows, K) and `weights` (E, N, K), bfloat16, written."""
    grouped_mm: Callable[[Tensor, Tensor, Tensor], Tensor]
    """(rows, weights, running sums of rows) -> (rows, N)."""


def present_gemm_machine(timer: Timer, *, forms: Sequence[int] = ()) -> GemmMachine:
    """Return the current CUDA device, which must be a Hopper, with the kernels built.

    Raises:
        BuildError: the kernels could not be built.
    """
    from nvfp4_moe.cuda.gemm_ops import dequantize_into, grouped_gemm, hopper_gemm

    def form(number: int) -> Gemm:
        return lambda *tensors: hopper_gemm(*tensors, form=number)

    return GemmMachine(
        device=torch.device("cuda", torch.cuda.current_device()),
        timer=timer,
        own={OWN: grouped_gemm} | {f"form {number}": form(number) for number in forms},
        dequantize=dequantize_into,
        grouped_mm=lambda rows, weights, ends: torch.nn.functional.grouped_mm(
            rows, weights.transpose(1, 2), offs=ends
        ),
    )


def counts_of(tokens: int, *, seed: int, experts: int) -> list[int]:
    """Return the rows of each expert: each has one, the others fall where they will.

    Raises:
        ValueError: fewer rows than experts.
    """
    rest = tokens * TOPK - experts
    if rest < 0:
        raise ValueError(f"{tokens} tokens are too few to hit {experts} experts")
    owner = below(words(seed, f"bench.gemm {tokens}", 0, rest), experts)
    counts: list[int] = (1 + torch.bincount(owner, minlength=experts)).tolist()
    return counts


def measure_gemm(
    machine: GemmMachine, tokens: int, *, seed: int, sizes: Sizes | None = None, two_step: bool = False
) -> dict[str, Any]:
    """Time one batch; return its row of the record.

    Raises:
        WrongOutputError: an output is not the golden GEMM's.
    """
    sizes = Sizes() if sizes is None else sizes
    counts = counts_of(tokens, seed=seed, experts=sizes.experts)
    case = make_case(
        counts, n=sizes.n, k=sizes.k, values="integer", seed=seed, device=machine.device, spare_rows=0
    )
    out = case.output(torch.bfloat16)
    arguments = case.arguments(out)
    rows = out.new_empty((len(out), sizes.k))
    weights = out.new_empty((sizes.experts, sizes.n, sizes.k))
    machine.dequantize(*arguments, rows=rows, weights=weights)
    subjects = {name: _checked(case, name, out, gemm, arguments) for name, gemm in machine.own.items()}

    def plain() -> Tensor:
        return machine.grouped_mm(rows, weights, case.expert_offsets[1:])

    def both_steps() -> Tensor:
        machine.dequantize(*arguments, rows=rows, weights=weights)
        return plain()

    subjects[TORCH] = Subject(calls=[plain])
    if two_step:
        subjects[TWO_STEP] = Subject(calls=[both_steps])
    return _row(tokens, counts, sizes, machine.timer(subjects, calls=CALLS))


def _checked(case: GemmCase, name: str, out: Tensor, gemm: Gemm, arguments: tuple[Tensor, ...]) -> Subject:
    experts = range(0, len(case.b), max(1, len(case.b) // CHECKED_EXPERTS))
    return Subject(
        calls=[lambda: gemm(*arguments)],
        before=lambda: out.view(torch.uint8).fill_(FILL),
        after=lambda: case.check(name, out, exact=True, experts=experts),
    )


def _row(tokens: int, counts: Sequence[int], sizes: Sizes, times: Mapping[str, Times]) -> dict[str, Any]:
    operations = 2 * sum(counts) * sizes.n * sizes.k
    weight_bytes = len(counts) * sizes.n * sizes.k * 9 // 16
    name = f"gemm {tokens:,} tokens"
    return {
        "name": name,
        "tokens": tokens,
        "rows": sum(counts),
        "experts": len(counts),
        "n": sizes.n,
        "k": sizes.k,
        "weight_bytes": weight_bytes,
        "teraflops": {key: operations / time.median / 1e6 for key, time in times.items()},
        "weight_terabytes_per_second": weight_bytes / times[OWN].median / 1e6,
        "times": {key: time.record() for key, time in times.items()},
        "ratios": with_ratios([(f"{name} / {TORCH}", times[OWN], times[TORCH])]),
    }


def measure(
    machine: GemmMachine,
    *,
    seed: int,
    progress: Callable[[str], None],
    tokens: Sequence[int] = TOKENS,
    sizes: Sizes | None = None,
) -> list[dict[str, Any]]:
    """Run the benchmark; return a row for each batch."""
    rows = []
    for count in tokens:
        progress(f"gemm {count:,} tokens")
        rows.append(measure_gemm(machine, count, seed=seed, sizes=sizes, two_step=count == min(tokens)))
    return rows


def lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows of the record as text."""
    text = [f"{'GEMM':22}{'subject':10}{'ms':>9}{'spread':>8}{'TFLOP/s':>9}{'speed of torch':>16}"]
    for row in rows:
        for name, time in row["times"].items():
            text.append(
                f"{row['name']:22}{name:10}{time['us'] / 1e3:9.3f}{time['spread']:8.1%}{row['teraflops'][name]:9.0f}"
                f"{row['times'][TORCH]['us'] / time['us']:16.2f}"
            )
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Time the grouped GEMM of Hopper.")
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    for name, size in asdict(Sizes()).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument(
        "--forms", type=int, nargs="*", default=(), help="forms of the kernel to time as well"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if given.experts < 1 or min(given.tokens) * TOPK < given.experts:
        parser.error(f"--tokens must be at least {-(-given.experts // TOPK)}, so that every expert is hit")
    if given.n < 1 or given.n % N_MULTIPLE or given.k < 1 or given.k % K_MULTIPLE:
        parser.error(f"--n must be a positive multiple of {N_MULTIPLE} and --k of {K_MULTIPLE}")
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != HOPPER:
        parser.error("no CUDA device of compute capability 9.0 is present")
    timer = GraphTimer(torch.device("cuda", torch.cuda.current_device()))
    machine = present_gemm_machine(timer, forms=given.forms)
    sizes = Sizes(experts=given.experts, n=given.n, k=given.k)
    rows = measure(machine, seed=given.seed, progress=lambda _: None, tokens=given.tokens, sizes=sizes)
    name = torch.cuda.get_device_name()
    told = f"E = {sizes.experts}, N = {sizes.n:,}, K = {sizes.k:,}"
    print("\n".join([f"{name}, torch {torch.__version__}, seed {given.seed}, {told}", *lines(rows)]))
    if given.json is not None:
        given.json.write_text(
            json.dumps({"device": name, "torch": torch.__version__, "gemm": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
