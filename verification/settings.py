"""What a verification run is asked to do, validated once at the door.

Sizes have maxima, so that every accepted run ends: `MOST_EXPERTS`, `MOST_TOPK`, `LARGEST_TILE`, and
`LARGEST_SIZE` rows of a batch (max_num_batched_tokens x topk). The bound is searched by exact arithmetic for all of
these. Checks that build routings take smaller ones; `fuzz_plan.Sizes.too_large` states their limits, and they say
SKIPPED beyond them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nvfp4_moe.reference.padding import LARGEST_SIZE, TILE, check_size, local_experts
from nvfp4_moe.verification.conformance.subject import OWN_SUBJECTS, Subject
from nvfp4_moe.verification.expect import Expectation
from nvfp4_moe.verification.grid import GRID
from nvfp4_moe.verification.result import Finding
from nvfp4_moe.verification.worst_case import MOST_EXPERTS

LEVELS = (1, 2, 3)
DEVICES = ("auto", "cpu", "cuda")
DEFAULT_FOLDER = Path("nvfp4-moe-out")
"""Where counterexamples are saved."""
LARGEST_SEED = 2**63 - 1
"""Largest integer of a campaign's store."""
MOST_TOPK = LARGEST_TILE = 1 << 20
"""As many as `MOST_EXPERTS`: no token takes more experts than there are, and no scale tile is near as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of `verify`, under the names of the command line.

    Raises (on construction):
        TypeError, ValueError: an option that is not legal; the text names it, its value and what is legal.
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
        if isinstance(self.level, bool) or not isinstance(self.level, int) or self.level not in LEVELS:
            raise ValueError(f"level must be 1, 2 or 3, got {self.level!r}")
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {self.device!r}")
        if self.fail_on not in list(Finding):
            raise ValueError(f"fail_on must be one of {', '.join(Finding)}, got {self.fail_on!r}")
        if not isinstance(self.bound, str):
            raise TypeError(f"bound must be text, the name of a formula or an expression, got {self.bound!r}")
        if not isinstance(self.tight, bool):
            raise TypeError(f"tight must be True or False, got {self.tight!r}")
        self._check_budget()
        self._check_seed()
        self._check_lists()
        self._check_sizes()

    def _check_budget(self) -> None:
        if self.budget is None:
            return
        number = isinstance(self.budget, int | float) and not isinstance(self.budget, bool)
        if not number or not self.budget > 0:
            raise ValueError(f"budget must be a positive number of seconds or None, got {self.budget!r}")

    def _check_seed(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise TypeError(f"seed must be an integer, got {self.seed!r} ({type(self.seed).__name__})")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ValueError(f"seed must be between 0 and {LARGEST_SEED}, got {self.seed}")

    def _check_lists(self) -> None:
        """Check the options that are lists, paths or subjects, and keep lists as tuples and paths as `Path`."""
        _keep(self, "subjects", _each("subjects", self.subjects, _subject, "subjects or names"))
        _keep(self, "traces", _each("traces", self.traces, _path, "paths"))
        _keep(self, "expect", _each("expect", self.expect, _expectation, "expectations"))
        _keep(self, "folder", _path("folder", self.folder))
        _keep(self, "resume", None if self.resume is None else _path("resume", self.resume))
        if self.against is not None:
            _keep(self, "against", _subject("against", self.against))
            if not self.subjects:
                raise ValueError("against needs a subject to compare with it")

    def _check_sizes(self) -> None:
        check_size("expert_parallel_size", self.expert_parallel_size, at_least=1)
        most = {
            "experts": MOST_EXPERTS,
            "topk": MOST_TOPK,
            "tile": LARGEST_TILE,
            "max_num_batched_tokens": LARGEST_SIZE,
        }
        for name, largest in most.items():
            value = getattr(self, name)
            if value is not None and check_size(name, value, at_least=1) > largest:
                raise ValueError(f"{name} must be at most {largest:,}, got {value}")
        topk = max(GRID.topk) if self.topk is None else self.topk
        tokens = max(GRID.max_num_batched_tokens)
        tokens = tokens if self.max_num_batched_tokens is None else self.max_num_batched_tokens
        if tokens * topk > LARGEST_SIZE:
            tried = ", the largest tried" if self.topk is None else ""
            raise ValueError(
                f"max_num_batched_tokens ({tokens}) x topk ({topk}{tried}) must be at most {LARGEST_SIZE} rows"
            )
        if self.experts is not None:
            local_experts(self.experts, self.expert_parallel_size)
        elif self.expert_parallel_size != 1:
            raise ValueError("expert_parallel_size needs experts (the model's experts over all ranks)")

    @property
    def has_foreign_subject(self) -> bool:
        """Whether an implementation that is not this project's was given."""
        given = (*self.subjects, *(() if self.against is None else (self.against,)))
        return any(spec not in OWN_SUBJECTS for spec in given)

    @property
    def num_experts(self) -> int | None:
        """Experts of the fullest rank, or None when no model is named."""
        return None if self.experts is None else local_experts(self.experts, self.expert_parallel_size)


def _keep(settings: Settings, name: str, value: object) -> None:
    object.__setattr__(settings, name, value)  # the class is frozen for everybody else


def _each(name: str, values: Any, check: Callable[[str, Any], Any], what: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise TypeError(f"{name} must be a list or tuple of {what}, got {values!r}")
    return tuple(check(f"{name}[{place}]", value) for place, value in enumerate(values))


def _subject(name: str, value: Any) -> str | Subject:
    if isinstance(value, Subject):
        return value.of_others("given")
    if isinstance(value, str) and value:
        return value
    raise TypeError(f"{name} must be a Subject or a name, got {value!r}")


def _path(name: str, value: Any) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise TypeError(f"{name} must be a path, got {value!r}")
    return Path(value)


def _expectation(name: str, value: Any) -> Expectation:
    if not isinstance(value, Expectation):
        raise TypeError(f"{name} must be an Expectation, got {value!r}")
    return value
