"""What a verification run is asked to do, validated once at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nvfp4_moe.reference.padding import TILE, check_size, local_experts
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.expect import Expectation
from nvfp4_moe.verification.result import Finding

LEVELS = (1, 2, 3)
DEVICES = ("auto", "cpu", "cuda")
DEFAULT_FOLDER = Path("nvfp4-moe-out")
"""Where counterexamples are saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of `verify`, under the names of the command line.

    Raises (on construction):
        TypeError, ValueError: a level, device or size that is not legal; the text names it and its value.
    """

    level: int = 1
    seed: int = 0
    budget: float | None = None
    """Seconds of campaign beyond the fixed checks; `float("inf")` is forever; None: no campaign."""
    device: str = "auto"
    bound: str = "proposed"
    tight: bool = False
    """A loose bound counts as refuted."""
    experts: int | None = None
    """Experts of the model, over all ranks."""
    expert_parallel_size: int = 1
    topk: int | None = None
    max_num_batched_tokens: int | None = None
    tile: int = TILE
    traces: Sequence[Path] = field(default_factory=tuple)
    subjects: Sequence[str | Subject] = field(default_factory=tuple)
    """Implementations under test; see `conformance.subject.load_subject`."""
    against: str | Subject | None = None
    """What each subject is compared with, byte for byte; the run is then these comparisons and nothing else."""
    fail_on: Finding = Finding.CONTRACT
    """The mildest class of finding that fails a run."""
    expect: Sequence[Expectation] = field(default_factory=tuple)
    """Known findings, see `expect.load_expectations`."""
    resume: Path | None = None
    folder: Path = DEFAULT_FOLDER

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level must be 1, 2 or 3, got {self.level!r}")
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {self.device!r}")
        if self.fail_on not in list(Finding):
            raise ValueError(f"fail_on must be one of {', '.join(Finding)}, got {self.fail_on!r}")
        if self.budget is not None and not self.budget > 0:
            raise ValueError(f"budget must be a positive number of seconds, got {self.budget!r}")
        if self.against is not None and not self.subjects:
            raise ValueError("against needs a subject to compare with it")
        check_size("seed", self.seed, at_least=0)
        check_size("tile", self.tile, at_least=1)
        check_size("expert_parallel_size", self.expert_parallel_size, at_least=1)
        for name in ("experts", "topk", "max_num_batched_tokens"):
            value = getattr(self, name)
            if value is not None:
                check_size(name, value, at_least=1)
        if self.experts is not None:
            local_experts(self.experts, self.expert_parallel_size)
        elif self.expert_parallel_size != 1:
            raise ValueError("expert_parallel_size needs experts (the model's experts over all ranks)")

    @property
    def num_experts(self) -> int | None:
        """Experts of the fullest rank, or None when no model is named."""
        return None if self.experts is None else local_experts(self.experts, self.expert_parallel_size)
