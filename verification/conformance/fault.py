"""`Fault`: one broken promise of a subject in one case, and the comparisons that find it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from nvfp4_moe.verification.result import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A finding in one case.

    `check` is the last part of the claim's id: golden, coverage, guard, poison, inputs, refusal, laws, ...
    """

    check: str
    finding: Finding
    text: str
    """One line: where, what the subject wrote, what is true, the first of how many."""
    where: dict[str, Any] = field(default_factory=dict)
    """The same for programs."""

    def to_json(self) -> dict[str, Any]:
        return {"check": self.check, "finding": str(self.finding), "text": self.text, "where": self.where}


def first_difference(
    subject: torch.Tensor, true: torch.Tensor, judged: torch.Tensor | None
) -> tuple[int, int] | None:
    """Return (flat index of the first judged byte that differs, how many differ), or None.

    Args:
        subject, true: uint8, any equal shape.
        judged: bool of that shape: which bytes count; None: all.
    """
    differs = subject != true
    if judged is not None:
        differs &= judged
    differs = differs.reshape(-1)
    count = int(differs.sum())
    return (int(differs.to(torch.uint8).argmax()), count) if count else None


def hex_byte(value: int) -> str:
    """Return a byte as 0x7f."""
    return f"0x{value:02x}"
