"""Golden check of the layouts of one tensor: every byte's place, both directions, zero padding."""

from __future__ import annotations

import numpy as np
import torch

from nvfp4_moe.verification import counter, oracle, oracle_layout
from nvfp4_moe.verification.golden.tally import Tally

BLOCK = oracle.BLOCK
LAYOUT_ROWS = (0, 1, 7, 8, 9, 31, 32, 33, 127, 128, 129, 200, 257)
LAYOUT_K = (16, 48, 64, 80, 128, 208)
STALE = np.uint8(0x7E)
"""Byte of padding that nobody zeroed: 448, finite and large, which no reader may look at."""


def check_layouts(tally: Tally) -> None:
    """Every scale lies where the oracle puts it, all other bytes are zero; the way back gives the scales, whatever
    padding holds."""
    tally.covers(f"rows {', '.join(map(str, LAYOUT_ROWS))}; K {', '.join(map(str, LAYOUT_K))}; all layouts")
    for layout in ("linear", "swizzled_128x4", "swizzled_8x4"):
        for rows in LAYOUT_ROWS:
            for k in LAYOUT_K:
                if not _compare_layout(tally, layout, rows, k):
                    return


def _compare_layout(tally: Tally, layout: str, rows: int, k: int) -> bool:
    blocks = k // BLOCK
    where, size = oracle_layout.scale_positions(rows, blocks, layout=layout)
    raw = counter.words(tally.seed, "golden_layouts", 0, rows * blocks)
    linear = (1 + counter.below(raw, 255)).to(torch.uint8).reshape(rows, blocks)  # never zero: padding shows
    true = np.zeros(size, dtype=np.uint8)
    true[where] = linear.numpy()
    subject = tally.model.to_layout(linear, layout)
    back = tally.model.from_layout(subject, rows, k, layout)
    stale = torch.from_numpy(np.where(np.isin(np.arange(size), where), true, STALE)).view(subject.shape)
    stale_back = tally.model.from_layout(stale, rows, k, layout)
    index = tally.model.scale_byte_index(
        torch.arange(rows)[:, None], torch.arange(blocks)[None, :], k=k, layout=layout
    )
    case = {"layout": layout, "rows": rows, "k": k, "seed": tally.seed}
    return (
        tally.compare("byte of the layout", true, subject.numpy().reshape(-1), case=case)
        and tally.compare("scale on the way back", linear.numpy(), back.numpy(), case=case)
        and tally.compare("scale out of stale padding", linear.numpy(), stale_back.numpy(), case=case)
        and tally.compare("byte index", where, index.numpy(), case=case)
    )
