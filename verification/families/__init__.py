"""Families of synthetic routings: every case a function of (seed, family, setting, index)."""

from __future__ import annotations

from nvfp4_moe.verification.families.counted import COUNTED
from nvfp4_moe.verification.families.family import (
    MOST_EXPERTS,
    CountsFamily,
    Draw,
    Family,
    IdsFamily,
    Setting,
)
from nvfp4_moe.verification.families.routed import ROUTED

FAMILIES: dict[str, Family] = {family.name: family for family in (*COUNTED, *ROUTED)}
"""Every family by its name; a name is part of the random stream and is never changed."""

EXPERTS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 60, 64, 128, 160, 256, 257, 384, 512, 1024)
"""Expert counts that the fuzzers try: small ones, powers of two and their neighbours, those of known models."""

__all__ = ["EXPERTS", "FAMILIES", "MOST_EXPERTS", "CountsFamily", "Draw", "Family", "IdsFamily", "Setting"]
