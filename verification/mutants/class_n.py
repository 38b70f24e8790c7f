"""Class N: the order of two codes in a byte, a register that keeps old bits, bits that leak into the neighbour."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nvfp4_moe.reference.casts import pack_encoded, unpack
from nvfp4_moe.verification.mutants.mutant import Mutant, PublicFault
from nvfp4_moe.verification.mutants.stepwise import Steps, Wrong, target_of
from nvfp4_moe.verification.mutants.stepwise_gemm import GemmSteps, wrong_gemm
from nvfp4_moe.verification.mutants.wrap import QUANT, QuantCall, after, around

FAULTS = (
    PublicFault(
        id="N1",
        links=("https://github.com/triton-lang/triton/pull/5197",),
        what="Element 0 was packed into the high bits; the low nibble is due. The first version of the fix was wrong,"
        " too.",
        star=True,
    ),
    PublicFault(
        id="N2",
        links=("https://github.com/pytorch/ao/issues/2939",),
        what="Two libraries pack a pair of codes in opposite order: one must not read what the other wrote.",
        star=True,
    ),
    PublicFault(
        id="N3",
        links=("https://github.com/kekzl/imp/pull/567",),
        what="A block of a file is in split order, element j with element j + half of the block; the loader took pairs."
        " Size and place of the scale matched, the text was fluent garbage.",
        star=True,
    ),
)

HALF_BLOCK = 8
LOW, HIGH = 0x0F, 0xF0


def _swapped(packed: Tensor) -> Tensor:
    return packed << 4 | packed >> 4


def _last_byte_swapped(codes: Tensor) -> Tensor:
    """The path of the last pair of a row whose blocks are odd in number packs the other way round."""
    packed = pack_encoded(codes)
    if codes.shape[1] // 16 % 2:
        packed[:, -1] = _swapped(packed[:, -1])
    return packed


def _last_row_swapped(codes: Tensor) -> Tensor:
    """The warp that has one row left goes by a path of its own, which packs the other way round."""
    packed = pack_encoded(codes)
    packed[-1:] = _swapped(packed[-1:])
    return packed


def _split_order(codes: Tensor) -> Tensor:
    """Byte j of a block holds its elements j and j + 8."""
    low, high = codes.reshape(len(codes), codes.shape[1] // 16, 2, HALF_BLOCK).unbind(2)
    return (low | high << 4).flatten(1)


def _split_order_of_pairs(codes: Tensor) -> Tensor:
    """The last block of a row alone is in split order."""
    packed = pack_encoded(codes)
    packed[:, -HALF_BLOCK:] = _split_order(codes[:, -2 * HALF_BLOCK :])
    return packed


def _sign_extended(codes: Tensor) -> Tensor:
    """An even element is packed as a signed nibble: where it is negative its sign fills the byte above."""
    even, odd = codes[:, 0::2], codes[:, 1::2]
    extended = torch.where(even >= 8, even | HIGH, even)
    return extended | odd << 4


def _swap_float16(call: QuantCall) -> None:
    """Of the two instances of a kernel, that for float16 packs the other way round."""
    if call.input.dtype == torch.float16 and call.routed_rows:
        call.output[: call.routed_rows] = _swapped(call.output[: call.routed_rows])


def _not_cleared(right: Callable[[QuantCall], None]) -> Callable[[QuantCall], None]:
    """The high nibble of the last byte of each row is or-ed into what the output held."""

    def wrong(call: QuantCall) -> None:
        old = call.output[: call.routed_rows, -1] & HIGH
        right(call)
        call.output[: call.routed_rows, -1] |= old

    return wrong


def _weights_high_first(packed: Tensor) -> Tensor:
    """The weights of the last of several experts came from a library that packs the other way round."""
    codes = unpack(packed)
    codes[1:][-1:] = unpack(_swapped(packed[1:][-1:]))
    return codes


def _mutant(
    name: str,
    fault: str,
    change: str,
    wrong: Wrong,
    refuted_by: tuple[str, ...] = ("quant.golden",),
) -> Mutant:
    return Mutant(
        id=f"pack_order.{name}",
        fault_class="N",
        stands_for=(fault,),
        change=change,
        refuted_by=refuted_by,
        target=target_of(wrong),
        devices=("cpu", "cuda"),
    )


MUTANTS = (
    _mutant("last_byte_high_first", "N1", "The last byte of a row of an odd number of blocks has its nibbles swapped.",
            Steps(pack=_last_byte_swapped)),
    _mutant("last_row_high_first", "N1", "The last row of a call has the even column in the high nibble.",
            Steps(pack=_last_row_swapped)),
    _mutant("float16_high_first", "N2", "float16 rows have the even column in the high nibble, bfloat16 rows are right.",
            after(QUANT, _swap_float16)),
    _mutant("split_order_last_block", "N3", "The last block of each row holds the elements j and j + 8 in byte j.",
            Steps(pack=_split_order_of_pairs)),
    _mutant("weights_high_first", "N2", "The GEMM's weights of the last of several experts are packed high nibble first.",
            wrong_gemm(lambda: GemmSteps(unpack=_weights_high_first)), ("gemm.golden",)),
    _mutant("not_cleared", "N1", "The last byte of a row keeps bits that the output held before.",
            around(QUANT, _not_cleared), ("quant.poison", "quant.golden")),
    _mutant("sign_extended", "N1", "The sign of an even element fills the high nibble.", Steps(pack=_sign_extended)),
)  # fmt: skip
