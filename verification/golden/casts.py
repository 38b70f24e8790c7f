"""Golden checks of the casts: every code, every tie and its float32 neighbours, every 16-bit input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nvfp4_moe.verification import oracle
from nvfp4_moe.verification.golden.inputs import PATTERNS, TYPES, around, bits_of, midpoints
from nvfp4_moe.verification.golden.tally import Tally

SWEEP_STEP = 251
"""Level 2 reads every 251st float32 pattern: a prime, so that all low mantissa bits occur with all exponents."""
SWEEP_BATCH = 2**22

Encode = Callable[[torch.Tensor], torch.Tensor]
OracleEncode = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.uint8]]


def check_e2m1(tally: Tally) -> None:
    """E2M1 codes, their decoding and packing."""
    tally.exhaustive = True
    codes = np.arange(16, dtype=np.uint8)
    _decoding(tally, tally.model.decode_e2m1, oracle.decode_e2m1, codes, "all 16 codes decoded")
    _packing(tally)
    _encoding(tally, tally.model.encode_e2m1, oracle.encode_e2m1, [float(p) for p in oracle.E2M1_POINTS])


def check_ue4m3(tally: Tally) -> None:
    """Scale bytes and their decoding."""
    tally.exhaustive = True
    scales = np.arange(256, dtype=np.uint8)
    _decoding(tally, tally.model.decode_ue4m3, oracle.decode_e4m3, scales, "all 256 scale bytes decoded")
    _encoding(tally, tally.model.encode_ue4m3, oracle.encode_e4m3, [float(p) for p in oracle.E4M3_POINTS])


def _decoding(
    tally: Tally,
    decode: Encode,
    true_value: Callable[[int], float],
    codes: npt.NDArray[np.uint8],
    covers: str,
) -> None:
    tally.covers(covers)
    true = np.array([true_value(int(code)) for code in codes], dtype=np.float32)
    subject = decode(torch.from_numpy(codes)).numpy()
    tally.compare(
        "bits of the decoded value", bits_of(true), bits_of(subject), case=lambda at: {"code": int(codes[at])}
    )


def _packing(tally: Tally) -> None:
    tally.covers("all 256 packed bytes")
    packed = np.arange(256, dtype=np.uint8)
    codes = np.stack([packed % 16, packed // 16], axis=1)
    assert np.array_equal(oracle.pack(codes)[:, 0], packed)
    subject = tally.model.pack(torch.from_numpy(codes)).numpy()[:, 0]
    tally.compare("packed byte", packed, subject, case=lambda at: {"codes": codes[at[0]].tolist()})
    back = tally.model.unpack(torch.from_numpy(packed[:, None])).numpy()
    tally.compare("unpacked code", codes, back, case=lambda at: {"packed": int(packed[at[0]])})


def _encoding(tally: Tally, encode: Encode, true_encode: OracleEncode, points: list[float]) -> None:
    for kind in TYPES:
        tally.covers(f"all {PATTERNS} {kind.name} inputs")
        _compare_codes(tally, encode, true_encode, kind.numbers)
    ties = midpoints(points)
    tally.covers(
        f"all {len(ties)} ties and {len(points)} code points, each with its float32 neighbours and negatives"
    )
    _compare_codes(tally, encode, true_encode, around(np.concatenate([ties, np.array(points)])))
    if tally.level >= 2:
        tally.covers(f"every {SWEEP_STEP}th float32 pattern")
        for start in range(0, 2**32, SWEEP_STEP * SWEEP_BATCH):
            end = min(start + SWEEP_STEP * SWEEP_BATCH, 2**32)
            patterns = np.arange(start, end, SWEEP_STEP, dtype=np.uint64).astype(np.uint32)
            if not _compare_codes(tally, encode, true_encode, patterns.view(np.float32)):
                return


def _compare_codes(
    tally: Tally, encode: Encode, true_encode: OracleEncode, values: npt.NDArray[np.float32]
) -> bool:
    def case(at: tuple[int, ...]) -> dict[str, Any]:
        return {"float32_bits": int(values.view(np.uint32)[at]), "value": repr(float(values[at]))}

    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        wide = values.astype(np.float64)
    subject = encode(torch.from_numpy(values.copy())).numpy()
    return tally.compare("code", true_encode(wide), subject, case=case)
