"""Experts from safetensors files, in the two forms that checkpoints have, and a small synthetic one to try it on.

Names, with a prefix such as `model.layers.0.mlp.experts`:

    {prefix}.{expert}.{gate_proj|up_proj|down_proj}.weight            bfloat16 or float16 (N, K), or uint8 (N, K/2)
    {prefix}.{expert}.{...}.weight_scale                              float8_e4m3fn (N, K/16), linear     (NVFP4 only)
    {prefix}.{expert}.{...}.weight_scale_2                            float32 (), decode direction        (NVFP4 only)
    {prefix}.{expert}.{...}.input_scale                               float32 (), decode direction

These are ModelOpt's names. gate_proj and up_proj are one GEMM with one alpha: their weight_scale_2 must be equal (ModelOpt
exports them so); their input_scale may differ, the larger one counts. Models whose activation is not gated have no gate_proj.

Needs the package safetensors (extra `weights`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from nvfp4_moe.cuda.activations import IS_GATED, activation_name
from nvfp4_moe.cuda.weights import assemble, place_weight, prepare_experts
from nvfp4_moe.reference.expert_weights import ExpertWeights
from nvfp4_moe.reference.padding import check_size

GATE, UP, DOWN = "gate_proj", "up_proj", "down_proj"


def synthetic_checkpoint(
    num_experts: int, *, hidden: int, intermediate: int, activation: str = "silu", prefix: str = "experts"
) -> dict[str, Tensor]:
    """Return a bfloat16 checkpoint whose weights are small multiples of 1/64, a function of their place alone.

    Raises:
        TypeError, ValueError: a size below 1, or an unknown activation.
    """
    for name, size in (("num_experts", num_experts), ("hidden", hidden), ("intermediate", intermediate)):
        check_size(name, size, at_least=1)
    tensors: dict[str, Tensor] = {}
    projections = (GATE, UP, DOWN) if IS_GATED[activation_name(activation)] else (UP, DOWN)
    for expert in range(num_experts):
        for number, projection in enumerate(projections):
            rows, columns = (hidden, intermediate) if projection == DOWN else (intermediate, hidden)
            place = torch.arange(rows * columns, dtype=torch.int64) + 7919 * (3 * expert + number + 1)
            mixed = (place * 2654435761 & 0xFFFFFFFF) >> 16 & 0xFF
            stem = f"{prefix}.{expert}.{projection}"
            tensors[f"{stem}.weight"] = (
                ((mixed - 128).to(torch.float32) / 64).to(torch.bfloat16).view(rows, columns)
            )
            tensors[f"{stem}.input_scale"] = torch.tensor(2.0 ** -(6 + expert % 3))
    return tensors


def save_checkpoint(path: str | os.PathLike[str], tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as one safetensors file, to a temporary name first."""
    from safetensors.torch import save_file

    final = Path(path)
    partial = final.with_name(f"{final.name}.{os.getpid()}.partial")
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial)
        partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)


def load_experts(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    prefix: str = "experts",
    experts: Sequence[int],
    activation: str = "silu",
    intermediate_multiple: int = 16,
    hidden_multiple: int = 16,
    device: torch.device | str = "cpu",
) -> ExpertWeights:
    """Read, prepare and return the given experts of a checkpoint of one or more files.

    Args:
        paths: safetensors files.
        prefix: of the names.
        experts: numbers in the checkpoint, in the order of the result: this rank's.
        activation: a name of `activations.IS_GATED`.
        intermediate_multiple, hidden_multiple: see `weights.prepare_experts`; for weights in 16 bits only.
        device: where the result lies and the quantizer runs.

    Raises:
        ValueError: a tensor that is missing, of another shape or dtype, or scales of gate and up that differ.
        FileNotFoundError: no such file.
    """
    if not experts:
        raise ValueError("experts must name at least one expert, got none")
    tensors = _read([paths] if isinstance(paths, str | os.PathLike) else paths, prefix, experts, device)
    names = (GATE, UP, DOWN) if IS_GATED[activation_name(activation)] else (UP, DOWN)
    weights = {name: _stack(tensors, prefix, experts, f"{name}.weight") for name in names}
    inputs = {name: _stack(tensors, prefix, experts, f"{name}.input_scale") for name in names}
    first_input = torch.maximum(inputs[GATE], inputs[UP]) if GATE in inputs else inputs[UP]
    if weights[UP].dtype != torch.uint8:
        return prepare_experts(
            weights.get(GATE), weights[UP], weights[DOWN], input_scale1=first_input, input_scale2=inputs[DOWN],
            activation=activation, intermediate_multiple=intermediate_multiple, hidden_multiple=hidden_multiple,
        )  # fmt: skip
    scales = {name: _stack(tensors, prefix, experts, f"{name}.weight_scale") for name in names}
    globals_ = {name: _stack(tensors, prefix, experts, f"{name}.weight_scale_2") for name in names}
    if GATE in names and not globals_[GATE].equal(globals_[UP]):
        place = int((globals_[GATE] != globals_[UP]).nonzero()[0])
        raise ValueError(
            f"expert {experts[place]}: weight_scale_2 of gate_proj and up_proj must be equal, got "
            f"{float(globals_[GATE][place])} and {float(globals_[UP][place])}: one GEMM has one alpha"
        )
    stacked = [name for name in (GATE, UP) if name in names]
    weight1 = place_weight(
        torch.cat([weights[name] for name in stacked], dim=1),
        torch.cat([scales[name].view(torch.uint8) for name in stacked], dim=1),
        globals_[UP],
    )
    weight2 = place_weight(weights[DOWN], scales[DOWN].view(torch.uint8), globals_[DOWN])
    return assemble(weight1, weight2, input_scale1=first_input, input_scale2=inputs[DOWN])


def _read(
    paths: Sequence[str | os.PathLike[str]], prefix: str, experts: Sequence[int], device: torch.device | str
) -> dict[str, Tensor]:
    """Return the tensors of the experts from all files."""
    from safetensors import SafetensorError, safe_open

    wanted = tuple(f"{prefix}.{expert}." for expert in experts)
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            with safe_open(path, framework="pt", device=str(device)) as file:
                names = [name for name in file.keys() if name.startswith(wanted)]  # noqa: SIM118  # no mapping
                tensors |= {name: file.get_tensor(name) for name in names}
        except SafetensorError as error:
            raise ValueError(f"{path} is no safetensors file: {error}") from error
    return tensors


def _stack(tensors: Mapping[str, Tensor], prefix: str, experts: Sequence[int], name: str) -> Tensor:
    """Return one tensor of every expert, stacked."""
    found: list[Tensor] = []
    for expert in experts:
        full = f"{prefix}.{expert}.{name}"
        if full not in tensors:
            raise ValueError(f"the checkpoint has no {full}")
        tensor = tensors[full]
        if found and (tensor.shape != found[0].shape or tensor.dtype != found[0].dtype):
            raise ValueError(
                f"{full} is {tensor.dtype} {tuple(tensor.shape)}, that of expert {experts[0]} {found[0].dtype} "
                f"{tuple(found[0].shape)}"
            )
        found.append(tensor)
    return torch.stack(found)
