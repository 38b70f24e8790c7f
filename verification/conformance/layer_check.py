"""One case of the whole layer: three turns in guarded, poisoned memory; the output judged by the derived interval.

Poisoned, differently in each turn: both workspaces, the output, freed memory (what buffers inside the layer are made of),
scale bytes of columns past N of the weights. An output lies inside the interval of `reference.layer_bounds`, or it is
wrong; where that is one value, its bytes are due. Where no table of the chip's arithmetic exists, that is an advisory.

Laws compare calls with each other by bytes, but for `split`: two ranks that share the experts give outputs whose sum is
the single rank's but for the roundings of three outputs and of the float32 sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from nvfp4_moe.reference.activations import ACTIVATIONS
from nvfp4_moe.reference.gemm_bounds import FLOAT32_UNIT_ROUNDOFF, inside
from nvfp4_moe.reference.layer_bounds import layer_interval
from nvfp4_moe.reference.layouts import to_layout
from nvfp4_moe.verification.conformance.call import (
    TURNS,
    Call,
    Judgement,
    NoOutputs,
    Turn,
    dirty_pool,
    worst_first,
)
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.forms import SWIZZLED
from nvfp4_moe.verification.conformance.gemm_check import accumulator_of, bit_patterns, unwritten_outputs
from nvfp4_moe.verification.conformance.layer_cases import OPERATION, LayerCase, LayerLawCase
from nvfp4_moe.verification.conformance.layer_data import LayerInputs, make_layer
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.quant_check import exact_operations
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.result import Finding

_SCALE_POISON = (0x00, 0x7F, 0x7E)
"""Scale bytes of each turn in rows past a weight's last column."""
_DIRTY_ELEMENTS = 1 << 16
_MOST_SINGLES = 3


def check_layer(subject: Subject, case: LayerCase, arena: Arena) -> Judgement:
    """Run a case and return what it breaks, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
        DeviceFault: its work on the device failed.
    """
    inputs = make_layer(case)
    digest = inputs.digest()
    faults: list[Fault] = []
    runs: list[Tensor] = []
    for turn in TURNS:
        output, found = run_layer(subject, inputs, arena, turn)
        runs.append(output)
        faults += found
        if any(fault.finding is Finding.MEMORY for fault in found):
            return Judgement(faults)
    if inputs.digest() != digest:
        text = "the harness's own copy of the inputs was changed: a write through a wild pointer"
        return Judgement([Fault(check="guard", finding=Finding.MEMORY, text=text)])
    faults += _judge(subject, inputs, runs)
    return Judgement(worst_first(faults))


def run_layer(subject: Subject, inputs: LayerInputs, arena: Arena, turn: Turn) -> tuple[Tensor, list[Fault]]:
    """Call the subject once and return its output (M, K) on the CPU, and the memory faults."""
    tokens, weights = inputs.tokens, inputs.weights
    m, topk = inputs.topk_ids.shape
    e, n, k = len(weights.w1_fp4), inputs.n, inputs.k
    columns = 2 * n if ACTIVATIONS[inputs.activation].is_gated else n
    with Call(subject, arena, turn) as call:
        given = {name: call.give(name, tensor) for name, tensor in _poisoned(inputs, turn).items()}
        output = call.take("output", (m, k), tokens.dtype)
        workspaces = (
            call.take("workspace13", (m * topk, max(columns, k)), tokens.dtype),
            call.take("workspace2", (m * topk, n), tokens.dtype),
        )
        a = call.give("a", tokens)
        topk_weights = call.give("topk_weights", inputs.topk_weights)
        topk_ids = call.give("topk_ids", inputs.topk_ids, decoy=0)
        dirty_pool([((_DIRTY_ELEMENTS,), tokens.dtype)] * 3, turn.fill, subject.device)
        call.run(
            OPERATION,
            output,
            a,
            *(given[name] for name in ("a1_gscale", "w1_fp4", "w1_blockscale", "w1_alphas")),
            *(given[name] for name in ("a2_gscale", "w2_fp4", "w2_blockscale", "w2_alphas")),
            topk_weights,
            topk_ids,
            inputs.activation,
            *workspaces,
            m,
            n,
            k,
            e,
            torch.device(subject.device),
            max(m, 1),
            inputs.weights_on_input,
        )
        return output.cpu().clone(), call.faults


def _poisoned(inputs: LayerInputs, turn: Turn) -> dict[str, Tensor]:
    """Return the weights with the turn's poison in the rows that pad N; padding of K is zero, as preparation leaves it."""
    tensors = inputs.weights.as_dict()
    for codes, scales in (("w1_fp4", "w1_blockscale"), ("w2_fp4", "w2_blockscale")):
        experts, rows, _ = tensors[codes].shape
        width = tensors[scales].shape[-1]
        owned = to_layout(torch.ones((experts, rows, width), dtype=torch.uint8), SWIZZLED)
        poisoned = torch.where(owned == 0, _SCALE_POISON[turn.number], tensors[scales])
        tensors[scales] = poisoned.view(torch.float8_e4m3fn)
    return tensors


def _judge(subject: Subject, inputs: LayerInputs, runs: Sequence[Tensor]) -> Iterator[Fault]:
    unwritten = unwritten_outputs(runs)
    yield from _fault_at("coverage", unwritten, runs[0], "was never written")
    ops = exact_operations(subject)
    if ops is None:
        text = (
            "outputs were not judged: no table of this chip's arithmetic, and the contract does not say ieee"
        )
        yield Fault(check="golden", finding=Finding.ADVISORY, text=text)
    else:
        low, high = layer_interval(
            inputs.stages(ops),
            inputs.weights.a2_gscale,
            inputs.sum_weights,
            activation=inputs.activation,
            ops=ops,
            accumulator=accumulator_of(subject),
        )
        for run in runs:
            found = list(
                _fault_at("golden", ~inside(run, low, high) & ~unwritten, run, "is wrong", low, high)
            )
            if found:
                yield from found
                break
    for run in runs[1:]:
        differs = (bit_patterns(run) != bit_patterns(runs[0])) & ~unwritten
        found = list(
            _fault_at("poison", differs, run, "depends on bytes that must not matter", runs[0], runs[0])
        )
        if found:
            yield from found
            return


def _fault_at(
    check: str, wrong: Tensor, run: Tensor, what: str, low: Tensor | None = None, high: Tensor | None = None
) -> Iterator[Fault]:
    at = wrong.nonzero()
    if not len(at):
        return
    token, column = at[0].tolist()
    due = ""
    if low is not None and high is not None:
        least, most = float(low[token, column]), float(high[token, column])
        due = f", {least!r} is due" if least == most else f", [{least!r}, {most!r}] is due"
    value = float(run[token, column])
    text = f"output[{token}, {column}] {what}: {value!r}{due} (first of {len(at):,})"
    where = {"token": token, "column": column, "count": len(at)}
    yield Fault(check=check, finding=Finding.BYTES, text=text, where=where)


# --- laws ----------------------------------------------------------------------------------------------------


class _Laws:
    """One case's calls; memory faults end it."""

    def __init__(self, subject: Subject, base: LayerCase, arena: Arena) -> None:
        self.subject, self.base, self.arena = subject, base, arena
        self.inputs = make_layer(base)
        self.faults: list[Fault] = []

    def call(self, inputs: LayerInputs, turn: Turn) -> Tensor:
        try:
            output, faults = run_layer(self.subject, inputs, self.arena, turn)
        except NoOutputs as nothing:
            nothing.faults = (*self.faults, *nothing.faults)
            raise
        self.faults += faults
        return output


Pair = tuple[Tensor, Tensor, Tensor | None]
"""Two outputs, and how far they may be apart; None: not at all, by bytes."""


def _tokens_law(laws: _Laws) -> Iterator[Pair]:
    order = torch.arange(laws.base.tokens).flip(0)
    yield laws.call(laws.inputs, TURNS[0])[order], laws.call(laws.inputs.of_tokens(order), TURNS[1]), None


def _single_law(laws: _Laws) -> Iterator[Pair]:
    together = laws.call(laws.inputs, TURNS[0])
    for token in range(laws.base.tokens)[-_MOST_SINGLES:]:
        alone = torch.tensor([token])
        yield together[alone], laws.call(laws.inputs.of_tokens(alone), TURNS[1]), None


def _again_law(laws: _Laws) -> Iterator[Pair]:
    first = laws.call(laws.inputs, TURNS[0])
    laws.call(make_layer(replace(laws.base, tokens=3 * laws.base.tokens + 1)), TURNS[1])
    yield first, laws.call(laws.inputs, TURNS[0]), None


def _split_law(laws: _Laws) -> Iterator[Pair]:
    """Rank 0 has the first half of the experts, rank 1 the rest."""
    single = laws.call(laws.inputs, TURNS[0]).to(torch.float64)
    half = laws.base.num_experts // 2
    shares = ((0, half), (half, laws.base.num_experts))
    parts = [laws.call(laws.inputs.of_experts(*share), TURNS[1]).to(torch.float64) for share in shares]
    yield single, parts[0] + parts[1], split_bound(laws.inputs, single, parts)


def split_bound(inputs: LayerInputs, single: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Return how far the sum of the ranks' outputs may be from the single rank's, float64 (M, K).

    Rows of the second GEMM are the same bytes on every rank (the laws of the GEMM), so only the sums differ: at most
    2 * topk float32 roundings of a total of |weight * row| on either side, and one rounding to the row type of each output.
    The golden rows stand for the subject's in that total, doubled for their difference.
    """
    digits = {torch.bfloat16: 8, torch.float16: 11}[inputs.tokens.dtype]
    topk = inputs.topk_ids.shape[1]
    routing = inputs.stages_ieee.routing
    rows = torch.cat(
        [inputs.stages_ieee.gemm2.to(torch.float64).abs(), torch.zeros((1, inputs.k), dtype=torch.float64)]
    )
    slots = rows[routing.output_permutation.to(torch.int64)].view(-1, topk, inputs.k)
    total = (slots * inputs.sum_weights[..., None]).sum(1)
    outputs = single.abs() + sum(part.abs() for part in parts)
    smallest = 2.0**-133 if digits == 8 else 2.0**-24
    return (
        2 * 2 * 2 * topk * FLOAT32_UNIT_ROUNDOFF * total
        + 2.0**-digits * outputs * (1 + 2.0**-7)
        + 3 * smallest
    )


LAYER_LAWS: dict[str, Callable[[_Laws], Iterator[Pair]]] = {
    "tokens": _tokens_law,
    "single": _single_law,
    "again": _again_law,
    "split": _split_law,
}


def check_layer_law(subject: Subject, case: LayerLawCase, arena: Arena) -> Judgement:
    """Try a law and return what breaks it.

    Raises:
        Refused, SubjectRaised: as `check_layer`.
        DeviceFault: its work on the device failed.
    """
    laws = _Laws(subject, case.base, arena)
    for first, second, bound in LAYER_LAWS[case.law](laws):
        if laws.faults:
            break
        if bound is None:
            wrong = bit_patterns(first) != bit_patterns(second)
        else:
            wrong = ~((first - second).abs() <= bound)
        at = wrong.nonzero()
        if len(at):
            token, column = at[0].tolist()
            text = (
                f"law {case.law}: output[{token}, {column}] is {float(first[token, column])!r} in one call and "
                f"{float(second[token, column])!r} in the other (first of {len(at):,})"
            )
            where = {"law": case.law, "token": token, "column": column}
            return Judgement([Fault(check="laws", finding=Finding.BYTES, text=text, where=where)])
    return Judgement(worst_first(laws.faults))
