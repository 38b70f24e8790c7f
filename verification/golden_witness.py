"""The witness of a difference between the golden model and the second oracle. A replay makes the claim's check again.

The claim's id comes from `found_by`, which `verify` saves with a witness, or from `claim`; level and seed, which say
what was compared, from the witness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.reference.padding import check_size
from nvfp4_moe.verification.bound_witness import Replay
from nvfp4_moe.verification.golden import CHECKS
from nvfp4_moe.verification.golden.tally import Tally
from nvfp4_moe.verification.result import Verdict

KIND = "golden"
LEVELS = (1, 2)


def replay(document: Mapping[str, Any]) -> Replay:
    """Compare everything that the claim compares; any difference reproduces it.

    Args:
        document: the witness.

    Raises:
        ValueError, TypeError: no such claim, level or seed.
    """
    claim = document.get("claim")
    if not isinstance(claim, str) or claim not in CHECKS:
        raise ValueError(f"claim must be one of {', '.join(CHECKS)}, got {claim!r:.60}")
    level = check_size("level", document.get("level", 1), at_least=1)
    if level not in LEVELS:
        raise ValueError(f"level must be 1 or 2, got {level}")
    seed = check_size("seed", document.get("seed", 0), at_least=0)
    tally = Tally(level=level, seed=seed, progress=lambda done: None, should_stop=lambda: False)
    CHECKS[claim](tally)
    outcome = tally.outcome()
    lines = [f"{claim}, level {level}, seed {seed}: {outcome.detail}"]
    if outcome.witness is not None:
        lines.append(
            ", ".join(f"{name} {value}" for name, value in outcome.witness.items() if name != "kind")
        )
    return Replay(outcome.verdict is Verdict.REFUTED, tuple(lines))
