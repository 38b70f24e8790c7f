"""One routing case: `get_cutlass_moe_mm_data` three times over outputs with different stale contents, judged entry by entry.

Under row order "stable" every entry must equal the golden model's. Under "any" the offsets and sizes must, and the two
permutations are judged by what they mean: output_permutation is a bijection from the routed slots to the rows, each
row lies in its expert's range, and input_permutation names the token of the slot that has the row.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nvfp4_moe.reference.padding import TILE
from nvfp4_moe.reference.routing import Routing, route
from nvfp4_moe.verification.conformance.call import TURNS, Call, Judgement, Turn, worst_first
from nvfp4_moe.verification.conformance.cases import RoutingCase
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.fault import Fault
from nvfp4_moe.verification.conformance.memory import Arena
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.views import give_ids
from nvfp4_moe.verification.counter import below, words
from nvfp4_moe.verification.result import Finding

OPERATION = "get_cutlass_moe_mm_data"
OUTPUTS = (
    "expert_offsets",
    "problem_sizes1",
    "problem_sizes2",
    "input_permutation",
    "output_permutation",
    "blockscale_offsets",
)
Run = dict[str, torch.Tensor]
"""The outputs of one run by name, on the CPU."""


def make_topk_ids(case: RoutingCase) -> torch.Tensor:
    """Return the ids of a case, (tokens, topk), of its dtype."""
    slots = case.tokens * case.topk
    raw = words(case.seed, f"routing.{case.ids}", case.index << 32, slots)
    experts = case.num_experts
    uniform = below(raw, experts)
    slot = torch.arange(slots)
    families = {
        "uniform": lambda: uniform,
        "one_expert": lambda: torch.full((slots,), case.index % experts),
        "cyclic": lambda: (slot * 7 + case.index) % experts,
        "duplicates": lambda: uniform[slot // case.topk * case.topk],
        "negative": lambda: torch.where(below(raw, 3, half=0) == 0, -1, uniform),
        "all_negative": lambda: torch.full((slots,), -1),
        "one_negative": lambda: torch.where(slot == case.index % max(slots, 1), -1, uniform),
        "whole_tiles": lambda: _whole_tiles(slot, experts),
        "last_expert": lambda: torch.where(below(raw, 2, half=0) == 0, experts - 1, uniform),
    }
    ids = families[case.ids]().to(torch.int64)
    return ids.view(case.tokens, case.topk).to(torch.int32 if case.id_dtype == "int32" else torch.int64)


def _whole_tiles(slot: torch.Tensor, experts: int) -> torch.Tensor:
    """Give two experts, 128 and 256 where there are such, a multiple of 128 slots each, one expert the rest."""
    whole = len(slot) // TILE * TILE
    two = torch.tensor([TILE % experts, 2 * TILE % experts])
    return torch.where(slot < whole, two[slot // TILE % 2], (two[1] + 1) % experts)


def true_routing(case: RoutingCase) -> Routing:
    """Return the golden model's metadata of a case."""
    return route(make_topk_ids(case), case.num_experts, n=case.n, k=case.k, is_gated=case.is_gated)


def in_domain(case: RoutingCase, contract: Contract) -> bool:
    """Return whether the contract lets the case occur at all."""
    negative = "negative" in case.ids
    too_many = contract.max_experts is not None and case.num_experts > contract.max_experts
    return not too_many and not (negative and contract.negative_ids == "unsupported")


def check_routing(subject: Subject, case: RoutingCase, arena: Arena) -> Judgement:
    """Run a case and return what it breaks, worst first.

    Raises:
        Refused: the subject raised one of `REFUSALS`.
        DeviceFault: its work on the device failed.
    """
    ids = make_topk_ids(case)
    faults: list[Fault] = []
    runs: list[Run] = []
    for turn in TURNS:
        run, found = run_routing(subject, case, ids, arena, turn)
        runs.append(run)
        faults += found
        if any(fault.finding is Finding.MEMORY for fault in faults):
            return Judgement(faults)
    faults += _judge(case, runs, true_routing(case), subject.contract)
    return Judgement(worst_first(faults))


def run_routing(
    subject: Subject, case: RoutingCase, ids: torch.Tensor, arena: Arena, turn: Turn
) -> tuple[Run, list[Fault]]:
    """Call the subject once and return what it left behind, and the memory faults."""
    slots, experts = ids.numel(), case.num_experts
    shapes: dict[str, tuple[int, ...]] = {
        "expert_offsets": (experts + 1,),
        "problem_sizes1": (experts, 3),
        "problem_sizes2": (experts, 3),
        "input_permutation": (slots,),
        "output_permutation": (slots,),
        "blockscale_offsets": (experts + 1,),
    }
    with Call(subject, arena, turn) as call:
        given = give_ids(call, case, ids)
        out = {name: call.take_index(name, shape) for name, shape in shapes.items()}
        call.run(
            OPERATION,
            given,
            out["expert_offsets"],
            out["problem_sizes1"],
            out["problem_sizes2"],
            out["input_permutation"],
            out["output_permutation"],
            case.num_experts,
            case.n,
            case.k,
            out["blockscale_offsets"],
            case.is_gated,
        )
        return {name: tensor.cpu().clone() for name, tensor in out.items()}, call.faults


def _judge(case: RoutingCase, runs: list[Run], true: Routing, contract: Contract) -> Iterator[Fault]:
    exact = OUTPUTS if contract.row_order == "stable" else (*OUTPUTS[:3], OUTPUTS[5])
    for name in exact:
        yield from _judge_exact(case, name, runs, getattr(true, name))
    if contract.row_order == "any":
        for run in runs:
            faults = list(_judge_any_order(case, run, true))
            yield from faults
            if faults:
                return
        if contract.deterministic:
            yield from _judge_same_order(runs)


def _judge_same_order(runs: list[Run]) -> Iterator[Fault]:
    for name in ("input_permutation", "output_permutation"):
        for run in runs[1:]:
            moved = (run[name] != runs[0][name]).nonzero()
            if moved.numel():
                index = int(moved[0])
                text = (
                    f"{name}[{index}] differs between two runs of the same ids (first of {moved.numel():,})"
                )
                where = {"output": name, "index": index}
                yield Fault(check="golden", finding=Finding.CONTRACT, text=text, where=where)
                return


def _judge_exact(case: RoutingCase, name: str, runs: list[Run], true: torch.Tensor) -> Iterator[Fault]:
    if all(torch.equal(run[name], true) for run in runs):
        return
    values = [run[name].reshape(-1) for run in runs]
    unwritten = torch.stack(
        [value == turn.index_fill for value, turn in zip(values, TURNS, strict=True)]
    ).all(0)
    tail = name == "input_permutation"
    for check, wrong in (
        ("coverage", unwritten),
        ("golden", (torch.stack(values) != true.reshape(-1)).any(0) & ~unwritten),
    ):
        at = wrong.nonzero()
        if not at.numel():
            continue
        index = int(at[0])
        given = next((v for v in values if int(v[index]) != int(true.reshape(-1)[index])), values[0])
        where = {
            "output": name,
            "index": index,
            "subject": int(given[index]),
            "true": int(true.reshape(-1)[index]),
        }
        behind = tail and index >= int((make_topk_ids(case) >= 0).sum())
        what = "never written" if check == "coverage" else "wrong"
        text = (
            f"{name}[{_position(case, name, index)}] {what}: subject {where['subject']}, true {where['true']}"
            f" (first of {at.numel():,})"
        )
        yield Fault(
            check=check, finding=Finding.CONTRACT if behind else Finding.BYTES, text=text, where=where
        )


def _position(case: RoutingCase, name: str, index: int) -> str:
    if name.startswith("problem_sizes"):
        return f"expert {index // 3}, {'MNK'[index % 3]}"
    if name == "output_permutation":
        return f"{index}: token {index // case.topk}, slot {index % case.topk}"
    return str(index)


def _judge_any_order(case: RoutingCase, run: Run, true: Routing) -> Iterator[Fault]:
    """Judge the permutations by their meaning; `true` gives only the ranges, which are the same in any order."""
    ids = make_topk_ids(case).reshape(-1).to(torch.int64)
    row_of_slot = run["output_permutation"].to(torch.int64)
    token_of_row = run["input_permutation"].to(torch.int64)
    offsets = true.expert_offsets.to(torch.int64)
    routed = ids >= 0
    rows, experts = row_of_slot[routed], ids[routed]
    slot = torch.arange(len(ids))[routed]
    inside = (rows >= offsets[experts]) & (rows < offsets[experts + 1])
    problems = [("lies outside its expert's rows", ~inside)]
    if bool(inside.all()):
        _, first = torch.unique(rows, return_inverse=True)
        problems.append(
            ("is given to two slots", torch.bincount(first)[first] > 1 if len(first) else ~inside)
        )
        problems.append(("holds another token", token_of_row[rows] != slot // case.topk))
    for what, wrong in problems:
        at = wrong.nonzero()
        if at.numel():
            index = int(at[0])
            text = (
                f"row {int(rows[index])} of slot {int(slot[index])} (token {int(slot[index]) // case.topk}, expert"
                f" {int(experts[index])}) {what} (first of {at.numel():,})"
            )
            where = {"output": "output_permutation", "index": int(slot[index]), "subject": int(rows[index])}
            yield Fault(check="golden", finding=Finding.BYTES, text=text, where=where)
            return
    behind = token_of_row[int(offsets[-1]) :] != 0
    if bool(behind.any()):
        index = int(offsets[-1]) + int(behind.nonzero()[0])
        yield Fault(
            check="golden",
            finding=Finding.CONTRACT,
            text=f"input_permutation[{index}], a row that no slot has, is {int(token_of_row[index])}, not 0",
            where={"output": "input_permutation", "index": index, "subject": int(token_of_row[index])},
        )
    skipped = row_of_slot[~routed] != offsets[-1]
    if bool(skipped.any()):
        yield Fault(
            check="golden",
            finding=Finding.CONTRACT,
            text=f"output_permutation of an id -1 is not expert_offsets[E] = {int(offsets[-1])}",
            where={"output": "output_permutation"},
        )
