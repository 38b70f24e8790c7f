"""`Report`: everything that the page, its JSON and the Markdown show, and how it is put together."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nvfp4_moe import __version__
from nvfp4_moe.analysis import engines as side_by_side
from nvfp4_moe.analysis.engines import EngineLine, engine_lines
from nvfp4_moe.analysis.report.inline_figures import InlineFigure, draw_all
from nvfp4_moe.analysis.report.run_view import RunView
from nvfp4_moe.analysis.report.tables import Served, served
from nvfp4_moe.analysis.savings import Savings, savings
from nvfp4_moe.analysis.savings_padding import PaddingUse, family_padding
from nvfp4_moe.analysis.zoo import ZOO
from nvfp4_moe.analysis.zoo_shape import ModelShape
from nvfp4_moe.reference.padding import TILE

VERSION = 1
"""Version of report.json."""
PACKAGES = ("torch", "numpy", "jinja2", "matplotlib", "z3-solver", "cvc5")
"""Packages whose versions a report names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report."""

    run: RunView | None
    """None: memory and engines alone."""
    savings: Savings
    models: tuple[ModelShape, ...]
    """Models that are shown in full: those named, else the first of the zoo."""
    served: tuple[Served, ...]
    uses: tuple[PaddingUse, ...]
    """Padding that traces and families of routings use."""
    engines: tuple[EngineLine, ...]
    """Empty: left to `nvfp4-moe report`."""
    figures: tuple[InlineFigure, ...]
    missing: tuple[str, ...]
    """What is not part of this report and why, with the command that makes it."""
    environment: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
    """(what it does, command) to make the same again."""
    seed: int

    @property
    def tokens(self) -> int:
        """Return M."""
        return self.savings.max_num_batched_tokens[0]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, version `VERSION`; the claims are in verify.json."""
        return {
            "version": VERSION,
            "package": __version__,
            "seed": self.seed,
            "run": None if self.run is None else self.run.to_json(),
            "savings": self.savings.to_json(),
            "capacity": [line.to_json() for line in self.served],
            "padding": [use.to_json() for use in self.uses],
            "engines": None
            if not self.engines
            else side_by_side.document(list(self.engines), tile=TILE, expert_parallel_size=1),
            "figures": [{"name": figure.name, "caption": figure.caption} for figure in self.figures],
            "missing": list(self.missing),
            "environment": dict(self.environment),
            "commands": [{"what": what, "command": command} for what, command in self.commands],
        }


def memory_of(models: Sequence[ModelShape] = (), *, max_num_batched_tokens: int) -> Savings:
    """Return the memory that a report shows.

    Args:
        models: none: the whole zoo.
        max_num_batched_tokens: M, at least 1.

    Raises:
        TypeError, ValueError: a size that is not legal, models of one name, no model that can be shown.
    """
    found = savings(models or list(ZOO.values()), max_num_batched_tokens=[max_num_batched_tokens])
    if not found.lines:
        raise ValueError(found.refused[0].reason)
    return found


def build_report(
    memory: Savings,
    *,
    full: int | None = None,
    run: RunView | None = None,
    uses: Sequence[PaddingUse] = (),
    seed: int = 0,
    brief: bool = False,
    missing: Sequence[str] = (),
    commands: Sequence[tuple[str, str]] = (),
    progress: Callable[[str], None] = lambda step: None,
) -> Report:
    """Return a report.

    Args:
        memory: from `memory_of`.
        full: how many of its models are shown in full, from the first; None: all.
        run: a run of verify.
        uses: padding of recorded traces; families are added.
        seed: of the families.
        brief: leave out what takes seconds: engines, and figures of one model.
        missing: what the caller leaves out.
        commands: see `Report.commands`.
        progress: told of every step before it begins.
    """
    shards = memory.shards[:full]
    (max_num_batched_tokens,) = memory.max_num_batched_tokens
    progress("serving")
    lines = [
        line for part in shards for line in served(part.model, max_num_batched_tokens=max_num_batched_tokens)
    ]
    all_uses = list(uses)
    if not brief:
        progress("padding of routings")
        all_uses += family_padding(shards[0], max_num_batched_tokens=max_num_batched_tokens, seed=seed)
    compared: Sequence[EngineLine] = ()
    if not brief:
        compared = engine_lines(progress=lambda name: progress(f"formula {name}"))
    figures, undrawn = draw_all(memory, uses=all_uses, shards=() if brief else shards, progress=progress)
    return Report(
        run=run,
        savings=memory,
        models=tuple(part.model for part in shards),
        served=tuple(lines),
        uses=tuple(all_uses),
        engines=tuple(compared),
        figures=tuple(figures),
        missing=(*missing, *undrawn),
        environment=tuple(_environment()),
        commands=tuple(commands),
        seed=seed,
    )


def _environment() -> list[tuple[str, str]]:
    return [
        ("nvfp4-moe", __version__),
        ("Python", platform.python_version()),
        *((name, _version(name)) for name in PACKAGES),
        ("machine", f"{platform.system()} {platform.release()}, {platform.machine()}"),
    ]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
