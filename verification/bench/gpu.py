"""Speed of the CUDA kernels: experts quantization and routing data, beside yardsticks of the same run.

Yardsticks of a quantizer, each with its loads and stores:

- `own roof`: the very kernel without its arithmetic;
- `roof`: a plain kernel that is told where each row's scales go and what padding lies beside them (`cuda/csrc/roof.cu`),
  so nothing is searched or staged;
- `torch`: the recipe in PyTorch under `torch.compile`, a few shapes;
- and a device-to-device copy of 1 GiB for the whole run, the faster of two ways.

Own times are arithmetic `hardware`, row padding unwritten, unless they say otherwise. Every configuration that is timed
is compared byte for byte with the golden model, on every set of buffers, in the first replay of its graph.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import HardwareOperations, Operations
from nvfp4_moe.reference.routing import route
from nvfp4_moe.reference.tables import MissingTableError, find_table, register_table
from nvfp4_moe.verification.bench.graph_timer import CALLS, Subject, Timer, calls_for, sets_for
from nvfp4_moe.verification.bench.quant_case import EXPERTS, FILL, QuantCase, Shape, WrongBytesError
from nvfp4_moe.verification.bench.ratios import with_ratios
from nvfp4_moe.verification.bench.torch_quantizer import quantize_plainly
from nvfp4_moe.verification.counter import order, words

SHAPES = (
    *(Shape(rows=65_536, k=k) for k in (7_168, 2_048)),
    *(Shape(rows=rows, k=7_168) for rows in (4_096, 2_048, 512, 128, 64, 8)),
    Shape(rows=65_536, k=2_048, fused=True),
)
COMPILED = frozenset({(65_536, 7_168), (65_536, 2_048), (4_096, 7_168), (512, 7_168)})
"""Rows and K at which the compiled PyTorch recipe is timed too: each shape is compiled anew."""
TOKENS = (64, 1_024, 8_192, 32_768)
TOPK = 8
NOISE_FLOOR = 0.06
"""Share of a ratio that other days and other boards of one chip differ by."""
COPY_BYTES = 2**30

HARDWARE, HARDWARE_ZERO = "hardware", "hardware, padding zero"
IEEE, IEEE_ZERO = "ieee", "ieee, padding zero"
OWN_ROOF, ROOF, TORCH = "own roof", "roof", "torch"
CONFIGURATIONS = {
    HARDWARE: ("hardware", "unwritten"),
    HARDWARE_ZERO: ("hardware", "zero"),
    IEEE: ("ieee", "unwritten"),
    IEEE_ZERO: ("ieee", "zero"),
}
"""Name of a timed configuration -> its options of the ops."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What is measured: a device, the kernels on it, the yardsticks and the clock."""

    device: torch.device
    cache_bytes: int
    ops: Any
    """Ops of the subject protocol with `options(arithmetic=, row_padding=)`."""
    own_roof: Callable[..., object]
    """(output, output_scale, input, global_scale, expert_offsets, blockscale_offsets, fused)."""
    roof: Callable[..., object]
    """As `own_roof`, with the two vectors of `QuantCase.places` before `fused`."""
    compiled: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
    """`quantize_plainly`, compiled."""
    timer: Timer
    hardware: Operations
    """The golden model's arithmetic for the approximate instructions of this device."""


def present_machine(timer: Timer) -> Machine:
    """Return the current CUDA device with the kernels built.

    Raises:
        BuildError: the kernels could not be built.
    """
    from nvfp4_moe.cuda.build import cuda_library
    from nvfp4_moe.cuda.ops import CudaOps

    library = cuda_library()
    device = torch.device("cuda", torch.cuda.current_device())

    def own_roof(output: Tensor, output_scale: Tensor, *rest: Any) -> None:
        *tensors, fused = rest
        library.roof_experts(output, output_scale.view(torch.uint8), *tensors, fused, False)

    def roof(output: Tensor, output_scale: Tensor, *rest: Any) -> None:
        library.plain_roof_experts(output, output_scale.view(torch.uint8), *rest)

    return Machine(
        device=device,
        cache_bytes=torch.cuda.get_device_properties(device).L2_cache_size,
        ops=CudaOps(),
        own_roof=own_roof,
        roof=roof,
        compiled=torch.compile(quantize_plainly, dynamic=False),
        timer=timer,
        hardware=_hardware_of(device),
    )


def _hardware_of(device: torch.device) -> Operations:
    """Return the golden arithmetic of a device; its tables are measured where none ship."""
    from nvfp4_moe.cuda.measure import measure as measure_tables

    chip = torch.cuda.get_device_name(device)
    try:
        for kind in ("reciprocal", "silu_bf16", "silu_f16"):
            find_table(kind, chip=chip)
    except MissingTableError:
        for table in measure_tables(device):
            register_table(table)
    return HardwareOperations(chip)


def measure_quantizer(machine: Machine, shape: Shape, *, seed: int, compiled: bool) -> dict[str, Any]:
    """Time one shape; return its row of the record.

    Raises:
        WrongBytesError: a configuration's bytes are not the golden model's.
    """
    each = shape.rows * shape.k * (5 if shape.fused else 3)  # about the bytes of a call
    sets = sets_for(each, machine.cache_bytes)
    case = QuantCase(shape, seed=seed, device=machine.device, sets=sets)
    subjects = _own_subjects(machine, case)
    subjects[OWN_ROOF] = Subject(calls=case.calls(machine.own_roof, shape.fused))
    subjects[ROOF] = Subject(calls=case.calls(machine.roof, *case.places(), shape.fused))
    row: dict[str, Any] = {}
    if compiled:
        scale = case.scale_of_row()
        row["torch_bytes_equal"] = _same_as_torch(machine, case, scale)
        subjects[TORCH] = Subject(calls=[_compiled_call(machine, b.input, scale) for b in case.sets])
    times = machine.timer(subjects, calls=calls_for(each))
    written, with_padding = case.bytes_moved(padding=False), case.bytes_moved(padding=True)
    own = times[HARDWARE]
    return row | {
        "name": shape.name,
        "rows": shape.rows,
        "k": shape.k,
        "fused": shape.fused,
        "experts": shape.experts,
        "scale_rows": case.scale_rows,
        "bytes": {"padding unwritten": written, "padding zero": with_padding},
        "terabytes_per_second": written / own.median / 1e6,
        "terabytes_per_second_zero": with_padding / times[HARDWARE_ZERO].median / 1e6,
        "sets": sets,
        "times": {name: measured.record() for name, measured in times.items()},
        "exact": list(CONFIGURATIONS),
        "ratios": with_ratios(
            [(f"{shape.name} / {name}", own, times[name]) for name in (ROOF, OWN_ROOF)]
            + [(f"{shape.name}, ieee / {ROOF}", times[IEEE], times[ROOF])]
            + [(f"{shape.name}, padding zero / {ROOF}", times[HARDWARE_ZERO], times[ROOF])]
        ),
    }


def _own_subjects(machine: Machine, case: QuantCase) -> dict[str, Subject]:
    true = {"ieee": case.true_bytes("ieee"), "hardware": case.true_bytes(machine.hardware)}
    written = case.written_scale_bytes()
    subjects = {}
    for name, (arithmetic, row_padding) in CONFIGURATIONS.items():
        ops = machine.ops.options(arithmetic=arithmetic, row_padding=row_padding)
        op = ops.silu_and_mul_scaled_fp4_experts_quant if case.shape.fused else ops.scaled_fp4_experts_quant
        packed, block_scale = true[arithmetic]
        expected = block_scale if row_padding == "zero" else torch.where(written, block_scale, FILL)
        subjects[name] = Subject(
            calls=case.calls(op), before=case.fill, after=_check(case, name, packed, expected)
        )
    return subjects


def _check(case: QuantCase, name: str, packed: Tensor, block_scale: Tensor) -> Callable[[], None]:
    return lambda: case.check(name, packed, block_scale)


def _compiled_call(machine: Machine, input: Tensor, scale: Tensor) -> Callable[[], object]:
    return lambda: machine.compiled(input, scale)


def _same_as_torch(machine: Machine, case: QuantCase, scale: Tensor) -> float:
    """Return the share of bytes of the compiled recipe that equal the golden ones in arithmetic ieee."""
    packed, block_scale = machine.compiled(case.sets[0].input, scale)
    true_packed, true_scale = case.true_bytes("ieee")
    linear = case.linear_scales(true_scale)
    same = (packed == true_packed).sum() + (block_scale.view(torch.uint8) == linear).sum()
    return float(same) / (packed.numel() + linear.numel())


def measure_routing(machine: Machine, tokens: int, *, seed: int) -> dict[str, Any]:
    """Time the routing data of `tokens` tokens; the yardstick is torch's stable sort of the same ids alone.

    Raises:
        WrongBytesError: an entry is not the golden model's.
    """
    n, k = 2_048, 7_168
    raw = words(seed, f"bench.routing {tokens}", 0, tokens * EXPERTS, device=machine.device)
    ids = order(raw.view(tokens, EXPERTS))[:, :TOPK].to(torch.int32).contiguous()
    true = route(ids, EXPERTS, n=n, k=k)
    expected = (
        true.expert_offsets, true.problem_sizes1, true.problem_sizes2, true.input_permutation,
        true.output_permutation, true.blockscale_offsets,
    )  # fmt: skip
    each = 12 * ids.numel()
    buffers = [
        (ids.clone(), tuple(torch.empty_like(t) for t in expected))
        for _ in range(min(calls_for(each), sets_for(each, machine.cache_bytes)))
    ]

    def call(copy: Tensor, outputs: Sequence[Tensor]) -> Callable[[], object]:
        *five, blockscale = outputs
        return lambda: machine.ops.get_cutlass_moe_mm_data(copy, *five, EXPERTS, n, k, blockscale, True)

    def fill() -> None:
        for _, outputs in buffers:
            for output in outputs:
                output.fill_(-7)

    def check() -> None:
        for _, outputs in buffers:
            if not all(torch.equal(output, right) for output, right in zip(outputs, expected, strict=True)):
                raise WrongBytesError(f"routing of {tokens:,} tokens: entries differ from the golden model")

    def sort(copy: Tensor) -> Callable[[], object]:
        return lambda: torch.sort(copy.view(-1), stable=True)

    times = machine.timer(
        {
            "own": Subject(calls=[call(*pair) for pair in buffers], before=fill, after=check),
            "torch.sort": Subject(calls=[sort(copy) for copy, _ in buffers]),
        },
        calls=calls_for(each),
    )
    name = f"routing {tokens:,} tokens"
    return {
        "name": name,
        "tokens": tokens,
        "topk": TOPK,
        "experts": EXPERTS,
        "times": {key: measured.record() for key, measured in times.items()},
        "ratios": with_ratios([(f"{name} / torch.sort", times["own"], times["torch.sort"])]),
    }


def measure_copy(machine: Machine, *, size: int = COPY_BYTES) -> dict[str, Any]:
    """Time a device-to-device copy of random bytes, by the driver and by a kernel; bytes read and written count.

    The buffers' distance is no power of two, which would put both on the same channels of the memory.
    """
    source = words(0, "bench.copy", 0, size // 8, device=machine.device)
    target = torch.empty(size // 8 + 123_457, dtype=torch.int64, device=machine.device)[-(size // 8) :]
    times = machine.timer(
        {
            "driver": Subject(calls=[lambda: target.copy_(source)]),
            "kernel": Subject(calls=[lambda: torch.bitwise_not(source, out=target)]),
        },
        calls=CALLS,
    )
    best = min(times.values(), key=lambda measured: measured.median)
    return {
        "bytes": 2 * size,
        "times": {name: measured.record() for name, measured in times.items()},
        "terabytes_per_second": 2 * size / best.median / 1e6,
    }


def measure(
    machine: Machine,
    *,
    seed: int,
    progress: Callable[[str], None],
    shapes: Sequence[Shape] = SHAPES,
    tokens: Sequence[int] = TOKENS,
) -> dict[str, Any]:
    """Run the benchmark; return what it measured, without what `record.py` adds."""
    copy = measure_copy(machine)
    quantizers, routings = [], []
    for shape in shapes:
        compiled = not shape.fused and (shape.rows, shape.k) in COMPILED
        progress(shape.name)
        quantizers.append(measure_quantizer(machine, shape, seed=seed, compiled=compiled))
    for count in tokens:
        progress(f"routing {count:,} tokens")
        routings.append(measure_routing(machine, count, seed=seed))
    rows = [*quantizers, *routings]
    return {
        "noise_floor": NOISE_FLOOR,
        "copy": copy,
        "quantizers": quantizers,
        "routing": routings,
        "ratios": {name: ratio for row in rows for name, ratio in row.pop("ratios").items()},
    }


def describe_device(device: torch.device) -> dict[str, Any]:
    """Return name and versions of a CUDA device."""
    return {
        "name": torch.cuda.get_device_name(device),
        "capability": ".".join(map(str, torch.cuda.get_device_capability(device))),
        "cuda": torch.version.cuda,
        "driver": _smi("driver_version"),
    }


def clocks() -> str | None:
    """Return clocks, power and temperature as nvidia-smi reads them now; None where it does not tell."""
    return _smi("clocks.sm,clocks.mem,power.draw,temperature.gpu")


def _smi(query: str) -> str | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None
