"""Expert parallelism in real processes: each rank runs the layer with its own experts, torch.distributed sums the outputs.

    python -m nvfp4_moe.verification.expert_parallel --rank R --ranks N --rendezvous FILE --subject NAME --case JSON --out FILE

`run_ranks` starts N such processes and returns the sum beside what one rank with all experts gives, with the bound on their
difference (`conformance.layer_check.split_bound`). Experts are dealt out as `reference.topk_ids.expert_map` says, ids of
other ranks' experts become -1, and the outputs, each rounded to the row type by its rank, are summed in float32. Tensors lie
on the CPU (gloo), or for the subject `cuda` each rank's on the GPU of its number (nccl).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.reference.topk_ids import expert_map, local_topk_ids
from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.conformance.layer_cases import LayerCase
from nvfp4_moe.verification.conformance.layer_check import split_bound
from nvfp4_moe.verification.conformance.layer_data import LayerInputs, make_layer
from nvfp4_moe.verification.conformance.own import own_subject
from nvfp4_moe.verification.conformance.subject import OWN_SUBJECTS

SECONDS = 120.0
_LAST_CHARACTERS = 600


class RankFailed(RuntimeError):
    """A rank's process failed or did not end; the text holds the end of what it said."""


@dataclass(frozen=True, eq=False)
class Split:
    """What several ranks and one gave."""

    summed: Tensor
    """float64 (M, K): the sum of the ranks' outputs."""
    single: Tensor
    """float64 (M, K): the output of one rank with all experts."""
    bound: Tensor
    """float64 (M, K): how far the two may be apart."""
    rows_of_ranks: list[int]
    """Routed rows of each rank."""

    @property
    def holds(self) -> bool:
        """Whether every element lies within its bound."""
        return bool(((self.summed - self.single).abs() <= self.bound).all())


def run_ranks(case: LayerCase, *, ranks: int, subject: str = "host", seconds: float = SECONDS) -> Split:
    """Run a layer on so many ranks and on one.

    Args:
        case: of the layer; its experts are those of all ranks.
        ranks: processes, at most as many as experts.
        subject: `reference`, `host` or `cuda`.
        seconds: time limit of every process.

    Raises:
        ValueError: another subject, or more ranks than experts.
        RankFailed: see the class.
    """
    if subject not in OWN_SUBJECTS:
        raise ValueError(f"subject must be one of {', '.join(OWN_SUBJECTS)}, got {subject!r}")
    check_size("ranks", ranks, at_least=1)
    if ranks > case.num_experts:
        raise ValueError(f"ranks must be at most the {case.num_experts} experts, got {ranks}")
    inputs = make_layer(case)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "summed.npy"
        processes = [_start(case, rank, ranks, subject, Path(folder)) for rank in range(ranks)]
        _wait(processes, seconds)
        outputs = torch.from_numpy(np.load(out, allow_pickle=False)).to(torch.float64)
    single = (
        run_share(inputs, subject, device="cuda:0" if subject == "cuda" else "cpu").cpu().to(torch.float64)
    )
    shares = [share_of(inputs, rank, ranks) for rank in range(ranks)]
    return Split(
        summed=outputs.sum(0),
        single=single,
        bound=split_bound(inputs, single, list(outputs)),
        rows_of_ranks=[int((share.topk_ids >= 0).sum()) for share in shares],
    )


def share_of(inputs: LayerInputs, rank: int, ranks: int) -> LayerInputs:
    """Return what one rank sees: its experts, and ids that are -1 where another rank holds the expert."""
    experts = len(inputs.weights.w1_fp4)
    local = expert_map(experts, rank=rank, expert_parallel_size=ranks)
    held = (local >= 0).nonzero().flatten()
    share = inputs.of_experts(int(held[0]), int(held[-1]) + 1)
    assert share.topk_ids.equal(local_topk_ids(inputs.topk_ids, local))
    return share


def run_share(inputs: LayerInputs, subject: str, *, device: str) -> Tensor:
    """Return a rank's output, on its device."""
    layer = own_subject(subject).operations["run_cutlass_moe_fp4"]
    (m, topk), weights = inputs.topk_ids.shape, inputs.weights
    moved = {name: tensor.to(device) for name, tensor in weights.as_dict().items()}
    tokens = inputs.tokens.to(device)
    output = torch.empty_like(tokens)
    columns = max(weights.w1_fp4.shape[1], inputs.k)
    layer(
        output,
        tokens,
        *(moved[name] for name in ("a1_gscale", "w1_fp4", "w1_blockscale", "w1_alphas")),
        *(moved[name] for name in ("a2_gscale", "w2_fp4", "w2_blockscale", "w2_alphas")),
        inputs.topk_weights.to(device),
        inputs.topk_ids.to(device),
        inputs.activation,
        tokens.new_empty((m * topk, columns)),
        tokens.new_empty((m * topk, inputs.n)),
        m,
        inputs.n,
        inputs.k,
        len(weights.w1_fp4),
        torch.device(device),
        max(m, 1),
        inputs.weights_on_input,
    )
    return output


def _start(case: LayerCase, rank: int, ranks: int, subject: str, folder: Path) -> subprocess.Popen[str]:
    import nvfp4_moe

    package = str(Path(nvfp4_moe.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    options = {
        "rank": rank, "ranks": ranks, "rendezvous": folder / "rendezvous", "subject": subject,
        "case": json.dumps(asdict(case)), "out": folder / "summed.npy",
    }  # fmt: skip
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return subprocess.Popen(
        lifeline.command("nvfp4_moe.verification.expert_parallel", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def _wait(processes: list[subprocess.Popen[str]], seconds: float) -> None:
    """Wait for all; the first that fails ends the others, which would wait for it forever."""
    try:
        for rank, process in enumerate(processes):
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                raise RankFailed(f"rank {rank} did not end within {seconds:g} s") from None
            if process.returncode:
                raise RankFailed(
                    f"rank {rank} ended with exit code {process.returncode}: {said.strip()[-_LAST_CHARACTERS:]}"
                )
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def main(arguments: list[str] | None = None) -> None:
    """Run one rank; rank 0 writes the outputs of all, float32 (ranks, M, K)."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rank", "ranks"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("rendezvous", "subject", "case", "out"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args(arguments)
    device = f"cuda:{given.rank}" if given.subject == "cuda" else "cpu"
    if device != "cpu":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if given.subject == "cuda" else "gloo",
        init_method=f"file://{given.rendezvous}",
        rank=given.rank,
        world_size=given.ranks,
        timeout=datetime.timedelta(seconds=SECONDS),
    )
    inputs = make_layer(LayerCase(**json.loads(given.case)))
    output = run_share(share_of(inputs, given.rank, given.ranks), given.subject, device=device).to(
        torch.float32
    )
    outputs = [torch.empty_like(output) for _ in range(given.ranks)]
    dist.all_gather(outputs, output)
    summed = output.clone()
    dist.all_reduce(summed)
    if given.rank == 0:
        _check_sum(summed, outputs)
        partial = Path(f"{given.out}.partial.npy")
        np.save(partial, torch.stack(outputs).cpu().numpy(), allow_pickle=False)
        partial.replace(given.out)
    dist.barrier()
    dist.destroy_process_group()


def _check_sum(summed: Tensor, outputs: list[Tensor]) -> None:
    """The sum that the ranks made must be the one of their outputs, to the rounding of float32 additions.

    Raises:
        RankFailed: it is not.
    """
    exact = torch.stack(outputs).to(torch.float64)
    allowed = len(outputs) * torch.finfo(torch.float32).eps * exact.abs().sum(0)
    if not bool(((summed.to(torch.float64) - exact.sum(0)).abs() <= allowed).all()):
        raise RankFailed("all_reduce gave another sum than that of the gathered outputs")


if __name__ == "__main__":
    main()
