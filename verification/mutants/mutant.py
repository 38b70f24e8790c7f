"""`Mutant`: one known-wrong variant, and the public faults that it stands for.

A variant differs from the right code by its fault alone, in the weakest form that still is the fault: one byte, one
unit in the last place, one expert count, the second call only. Each module `class_a` to `class_u` beside this one
exports `FAULTS` (what happened in public) and `MUTANTS`; `catalogue` gathers and checks them. What refutes a variant
is the ordinary harness, with the cases that `verify` uses at level 1: no case is written for one variant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from nvfp4_moe.verification.claims import CLAIMS
from nvfp4_moe.verification.conformance.subject import OWN_SUBJECTS, Subject
from nvfp4_moe.verification.expressions import Bound
from nvfp4_moe.verification.golden.model import Model
from nvfp4_moe.verification.grid import GRID, Grid
from nvfp4_moe.verification.result import Outcome

FAULT_CLASSES = {
    "A": "PAD-UNINIT: padding bytes are read but never written",
    "B": "PAD-LEAK: masked, padded or orphan rows change real rows",
    "C": "BOUND-SHORT: a buffer or capacity is smaller than the worst case",
    "D": "BOUND-LOOSE: a bound is far above the worst case",
    "E": "INT-OVERFLOW: a 32-bit index or size product wraps",
    "F": "LAUNCH-CAP: a grid, thread or expert capacity is exceeded, items are never visited",
    "G": "TAIL-OOB: the tail of a vector or tile reaches past the valid extent",
    "H": "EP-IDS: expert ids -1, negative or of another rank",
    "I": "ZERO-TOKEN: empty experts, an empty batch, no contraction length",
    "J": "PERM-COLLISION: the row map is not a bijection",
    "K": "RECIPE: another rounding or formula, invisible to tolerances",
    "L": "SCALE-EXTREME: zero maximum, overflow, underflow and subnormal scales",
    "M": "CODE-TABLE: signed zero, zero and subnormal code points",
    "N": "PACK-ORDER: nibble order, a register not cleared, bits that leak",
    "O": "SF-LAYOUT: swizzle, scale stride, offset of an expert, rounding of scale dimensions",
    "P": "SCALE-WIRING: a global scale is missing, inverted or of another expert",
    "Q": "DTYPE: width or signedness of an index",
    "R": "STRIDE: strides of an input are ignored",
    "S": "GRAPH-STATE: what a captured graph keeps between replays",
    "T": "RACE-ORDER: a missing barrier, an order of atomics",
    "U": "FAKE-META: a fake kernel or shape check disagrees with the operation",
}
"""Classes of public faults of block-scaled MoE code, by letter."""

DEVICES = ("cpu", "cuda")

_ID = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+")
_FAULT_ID = re.compile(r"[A-U][1-9][0-9]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFault:
    """A fault that a public project had.

    Raises (on construction):
        ValueError: an id that is no class letter and number, no link or one that is none, no text.
    """

    id: str
    """Class letter and number, such as "A1"."""
    links: tuple[str, ...]
    """Public threads, https."""
    what: str
    """What happened and why, in a sentence or two."""
    star: bool = False
    """A mechanism of its own: a variant of the catalogue must stand for it."""

    def __post_init__(self) -> None:
        if not _FAULT_ID.fullmatch(self.id):
            raise ValueError(f"a public fault's id must be a class letter and a number, got {self.id!r}")
        if not self.links or not all(link.startswith("https://") for link in self.links):
            raise ValueError(f"{self.id}: links must be https addresses, at least one, got {self.links!r}")
        if not self.what:
            raise ValueError(f"{self.id}: what happened must be said")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectMutant:
    """A wrong implementation, judged as any subject is: guarded memory, three fills, every byte."""

    factory: Callable[[Subject], Subject]
    """Takes the right implementation (host twin, `reference`, CUDA kernels: `base`) and returns the wrong one, best
    with the changed operation alone. It runs in the process of the judge and again in each child on a GPU."""
    base: str = "host"
    """`host` or `reference`: the right implementation on the CPU; on a GPU it is `cuda`."""
    in_order: bool = False
    """Judged in the order of `verify`, not smallest case first: what it does depends on the calls before."""
    dies: bool = False
    """The fault may show as an exception, a refusal or a dead process; for others that means that the variant itself
    is broken, and counts as no refutation."""

    def __post_init__(self) -> None:
        if self.base not in OWN_SUBJECTS or self.base == "cuda":
            raise ValueError(f"the base of a wrong subject must be host or reference, got {self.base!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundMutant:
    """A wrong sizing rule, judged as `verify --bound` judges one (claims `padding.bound`, `padding.attained`)."""

    bound: Bound
    """From `parse_bound` where an expression can say it, else a `Bound` with a function of `Sizing`."""
    tight: bool = False
    """Judged as with `--tight`: it is large enough, and some configuration leaves rows that no routing uses."""
    grid: Grid = GRID
    """Configurations that it is tried on: the stated grid, or sizes fixed as the options of `verify` fix them."""
    expert_parallel_size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMutant:
    """A golden model with a wrong part (recipe, cast, layout, routing), judged as `verify` judges the golden model.

    Claims `cast.*`, `quant.golden`, `quant.layout` and `routing.golden` compare it with the second oracle;
    `routing.counts`, `routing.offsets`, `routing.permutation`, `padding.disjoint` and `padding.coverage` hold its
    `route` to the invariants, on every small routing and in the fuzz.
    """

    factory: Callable[[Model], Model]
    """Takes the right model and returns the wrong one, best by `dataclasses.replace`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMutant:
    """A wrong part of any other kind, judged by an ordinary check that takes the part as an argument."""

    check: Callable[[int], Outcome]
    """Takes the seed and returns the outcome of the claim in `Mutant.refuted_by`; SKIPPED where it needs something
    that is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMutant(CheckMutant):
    """An index expression of a kernel, wrong, for the prover: the outcome is that of `index.no_wrap`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeMutant(CheckMutant):
    """A fake kernel or shape rule of a torch operator, wrong, for the check of the operators."""


Target = SubjectMutant | BoundMutant | ModelMutant | CheckMutant


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One known-wrong variant.

    Raises (on construction):
        ValueError: what a field says is not legal; the text names the variant.
    """

    id: str
    """Dotted, short, stable: "pad_uninit.last_k_column"."""
    fault_class: str
    """A letter of `FAULT_CLASSES`."""
    stands_for: tuple[str, ...]
    """Ids of the public faults (`PublicFault.id`) of its class that it is a weak form of."""
    change: str
    """What differs from the right code, in a sentence."""
    refuted_by: tuple[str, ...]
    """Claims, any of which must refute it; a finding of another claim is no refutation."""
    target: Target = field(repr=False)
    devices: tuple[str, ...] = ("cpu",)
    """Where it can run, of `DEVICES`; both: the same change to the host twin and to the CUDA kernels."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"a variant's id must be lower-case words with dots, got {self.id!r}")
        if self.fault_class not in FAULT_CLASSES:
            raise ValueError(f"{self.id}: no fault class {self.fault_class!r}")
        if not self.stands_for or any(fault[:1] != self.fault_class for fault in self.stands_for):
            raise ValueError(f"{self.id}: stands_for must name faults of its class, got {self.stands_for!r}")
        if not self.change:
            raise ValueError(f"{self.id}: the change must be said")
        unknown = [claim for claim in self.refuted_by if claim not in CLAIMS]
        if unknown or not self.refuted_by:
            raise ValueError(f"{self.id}: refuted_by must name claims, got {self.refuted_by!r}")
        if not self.devices or any(device not in DEVICES for device in self.devices):
            raise ValueError(f"{self.id}: devices must be of {DEVICES}, got {self.devices!r}")
        if "cuda" in self.devices and not isinstance(self.target, SubjectMutant | CheckMutant):
            raise ValueError(f"{self.id}: bounds and models have no device")


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSubject:
    """A right implementation written differently: every case of level 1 must pass, since false alarms count as much.

    Raises (on construction):
        ValueError: as `Mutant`.
    """

    id: str
    change: str
    """What it does differently, in a sentence."""
    target: SubjectMutant = field(repr=False)
    devices: tuple[str, ...] = ("cpu",)

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"a right subject's id must be lower-case words with dots, got {self.id!r}")
        if not self.change or not self.devices or any(device not in DEVICES for device in self.devices):
            raise ValueError(f"{self.id}: the change and devices of {DEVICES} must be said")
