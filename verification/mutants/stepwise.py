"""A quantizer of ragged experts whose parts can be replaced one at a time: what most wrong variants are made of.

`Steps()` is right: it gives the golden model's bytes, on any device, in IEEE arithmetic. A variant is the same with
one step replaced by a faulty one, so that nothing but the fault differs:

    rows -> expert -> global scale -> amax -> recipe -> scaled -> codes -> pack -> output
                                             -> scale bytes -> address -> output_scale
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nvfp4_moe.reference.arithmetic import IEEE, keeps_subnormals
from nvfp4_moe.reference.casts import encode_e2m1, pack_encoded
from nvfp4_moe.reference.recipes import VLLM, Recipe, largest_magnitude
from nvfp4_moe.reference.silu import silu_and_mul
from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.mutants.mutant import SubjectMutant
from nvfp4_moe.verification.mutants.wrap import QUANT, SILU_QUANT, Factory

BLOCK = 16
TILE = 128
SCALES_OF_A_WORD = 4

CONTRACT = Contract(arithmetic="ieee", strided="honoured")
"""What a quantizer of steps promises: IEEE arithmetic on every device, everything else strict."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where scales belong: everything that their addresses are computed from. int64, broadcast against each other."""

    start: Tensor
    """(T, 1) first scale row of the row's expert."""
    row: Tensor
    """(T, 1) row inside the expert."""
    block: Tensor
    """(1, K/16)."""
    routed: Tensor
    """(T, 1) row among all experts'."""
    expert: Tensor
    """(T, 1)."""

    @property
    def blocks(self) -> int:
        """K/16."""
        return self.block.shape[1]

    @property
    def words(self) -> int:
        """Scale columns in words of four: ceil(K/64)."""
        return -(-self.blocks // SCALES_OF_A_WORD)


def expert_of_row(offsets: Tensor, rows: int) -> Tensor:
    """Return the expert of each routed row, int64 (T,): the last one that begins at or before it."""
    row = torch.arange(rows, device=offsets.device)
    return torch.searchsorted(offsets.long(), row, right=True) - 1


def scale_of_row(scales: Tensor, expert: Tensor) -> Tensor:
    """Return the global scale of each row, (T,)."""
    return scales[expert]


def atom(row: Tensor, block: Tensor, words: int) -> Tensor:
    """Return the byte of a scale from the start of its expert, in swizzled_128x4."""
    tile = row // TILE * words + block // SCALES_OF_A_WORD
    return tile * 512 + row % 32 * 16 + row % TILE // 32 * 4 + block % SCALES_OF_A_WORD


def address(at: Place) -> Tensor:
    """Return the byte of each scale in the buffer, (T, K/16)."""
    return at.start * (at.words * SCALES_OF_A_WORD) + atom(at.row, at.block, at.words)


def scaled(elements: Tensor, found: Mapping[str, Tensor]) -> Tensor:
    """Return what is encoded: elements (T, K/16, 16) times what the recipe computed per block (T, K/16)."""
    return elements * found["multiplier"].unsqueeze(-1)


def block_amax(blocks: Tensor) -> Tensor:
    """Return the largest magnitude of each float32 block, NaN only where nothing else is there."""
    return largest_magnitude(blocks, VLLM.nan_in_amax)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The parts of a quantizer."""

    values: Callable[[Tensor], Tensor] = lambda rows: rows
    """The rows as the quantizer reads them: (T, K) or (T, 2K), 16-bit."""
    activation: Callable[[Tensor], Tensor] = silu_and_mul
    """Of the fused operation: (T, 2K) -> (T, K)."""
    expert_of_row: Callable[[Tensor, int], Tensor] = expert_of_row
    scale_of_row: Callable[[Tensor, Tensor], Tensor] = scale_of_row
    amax: Callable[[Tensor], Tensor] = block_amax
    recipe: Recipe = VLLM
    scaled: Callable[[Tensor, Mapping[str, Tensor]], Tensor] = scaled
    codes: Callable[[Tensor], Tensor] = encode_e2m1
    """Of what is encoded, float32 (T, K/16, 16)."""
    pack: Callable[[Tensor], Tensor] = pack_encoded
    """Codes (T, K) -> bytes (T, K/2)."""
    scale_bytes: Callable[[Tensor, Tensor], Tensor] = lambda scales, amax: scales
    """The bytes as they are stored, from those that the multiplier was computed from and block_amax, both (T, K/16)."""
    address: Callable[[Place], Tensor] = address
    padding: int = 0
    """Byte of the scale buffer where no row has a scale."""

    def run(self, output: Tensor, output_scale: Tensor, rows: Tensor, scale: Tensor, place: Place) -> None:
        """Quantize the routed rows, K columns each: codes into `output` (T, K/2), scales into the buffer's bytes."""
        elements = rows.reshape(len(rows), rows.shape[1] // BLOCK, BLOCK).to(torch.float32)
        amax = self.amax(elements)
        found = self.recipe.block_values(amax, scale.unsqueeze(1), IEEE)
        codes = self.codes(self.scaled(elements, found))
        output.copy_(self.pack(codes.flatten(1)))
        output_scale[self.address(place)] = self.scale_bytes(found["block_scale"], amax)


def quantizer(steps: Steps, *, fused: bool = False) -> Callable[..., None]:
    """Return the operation `scaled_fp4_experts_quant` made of steps, or its fused form."""

    @keeps_subnormals
    def operation(
        output: Tensor, output_scale: Tensor, input: Tensor, scale: Tensor, offsets: Tensor, starts: Tensor
    ) -> None:
        k = input.shape[-1] // 2 if fused else input.shape[-1]
        check_call(output, output_scale, input, scale, offsets, starts, k=k)
        routed, end = int(offsets[-1]), int(starts[-1])
        rows = steps.values(input[:routed])
        expert = steps.expert_of_row(offsets, routed)
        memory = output_scale.view(torch.uint8)
        memory[:end] = steps.padding
        number = torch.arange(routed, device=input.device)
        place = Place(
            start=starts.long()[expert].unsqueeze(1),
            row=(number - offsets.long()[expert]).unsqueeze(1),
            block=torch.arange(k // BLOCK, device=input.device).unsqueeze(0),
            routed=number.unsqueeze(1),
            expert=expert.unsqueeze(1),
        )
        steps.run(
            output[:routed],
            memory.view(-1),
            steps.activation(rows) if fused else rows,
            steps.scale_of_row(scale, expert),
            place,
        )

    return operation


def check_call(
    output: Tensor,
    output_scale: Tensor,
    input: Tensor,
    scale: Tensor,
    offsets: Tensor,
    starts: Tensor,
    *,
    k: int,
) -> None:
    """Refuse what is outside the domain.

    Raises:
        ValueError: another shape or dtype than the protocol's, or a scale buffer without the last expert's rows.
    """
    if input.dim() != 2 or input.dtype not in (torch.bfloat16, torch.float16) or k % BLOCK or k == 0:
        raise ValueError(f"input must be bf16 or f16 rows of whole blocks, got {tuple(input.shape)}")
    experts = scale.numel()
    for name, tensor, shape, dtype in (
        ("output", output, (input.shape[0], k // 2), torch.uint8),
        ("output_scale", output_scale, (output_scale.shape[0], -(-k // 64)), torch.int32),
        ("input_global_scale", scale, (experts,), torch.float32),
        ("input_offset_by_experts", offsets, (experts + 1,), torch.int32),
        ("output_scale_offset_by_experts", starts, (experts + 1,), torch.int32),
    ):
        if tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise ValueError(f"{name} must be {dtype} {shape}, got {tensor.dtype} {tuple(tensor.shape)}")
    if int(starts[-1]) > output_scale.shape[0]:
        raise ValueError(f"output_scale has {output_scale.shape[0]} rows, the experts need {int(starts[-1])}")


def wrong_steps(steps: Steps, *, fused: bool = False) -> SubjectMutant:
    """Return the target of a variant with these steps; `fused`: of the quantizer with SiLU."""
    operation = SILU_QUANT if fused else QUANT
    return SubjectMutant(
        factory=lambda right: _subject(right.device, operation, quantizer(steps, fused=fused)),
        base="reference",
    )


def steps_with_state(make: Callable[[], Steps]) -> SubjectMutant:
    """Return the target of a variant whose steps remember earlier calls: made anew in each process."""
    return SubjectMutant(
        factory=lambda right: _subject(right.device, QUANT, quantizer(make())),
        base="reference",
        in_order=True,
    )


Wrong = Steps | Factory | SubjectMutant
"""What a wrong subject is made of: steps, a change to a right one, or a target that is complete."""


def target_of(wrong: Wrong) -> SubjectMutant:
    """Return the target of a variant."""
    if isinstance(wrong, SubjectMutant):
        return wrong
    return wrong_steps(wrong) if isinstance(wrong, Steps) else SubjectMutant(factory=wrong)


def _subject(device: str, name: str, operation: Callable[..., None]) -> Subject:
    only = {name: operation}
    return Subject("stepwise", device, CONTRACT, **only)


def right_steps() -> Subject:
    """Return the right quantizers made of steps, which must pass."""
    both = {QUANT: quantizer(Steps()), SILU_QUANT: quantizer(Steps(), fused=True)}
    return Subject("stepwise", "cpu", CONTRACT, **both)
