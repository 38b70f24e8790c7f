"""`Subject`: an implementation under test, and how the command line's names become one.

A subject is any object or module with some of the callables of `OPERATIONS`, under the names of the newer vLLM
custom operations; the caller allocates the outputs, so that the harness can guard and poison them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from nvfp4_moe.verification.conformance.contract import Contract

OPERATIONS = (
    "scaled_fp4_experts_quant",
    "silu_and_mul_scaled_fp4_experts_quant",
    "get_cutlass_moe_mm_data",
    "cutlass_fp4_moe_mm",
    "shuffle_rows",
    "scaled_fp4_masked_quant",
    "silu_and_mul_scaled_fp4_masked_quant",
    "swizzle",
    "run_cutlass_moe_fp4",
)
"""Callables that a subject may have."""

_ARGUMENTS = {
    "scaled_fp4_experts_quant": (6, 4),
    "silu_and_mul_scaled_fp4_experts_quant": (6, 4),
    "scaled_fp4_masked_quant": (5, 3),
    "silu_and_mul_scaled_fp4_masked_quant": (5, 3),
    "shuffle_rows": (3, 2),
}
"""Positional arguments in place, and of the functional form, which returns its outputs in the order of the protocol."""

ENTRY_POINTS = "nvfp4_moe.subjects"
"""Entry-point group under which packages register subjects."""

OWN_SUBJECTS = ("reference", "host", "cuda")
"""This project's own; nobody else's subject has one of these names, see `Subject.of_others`."""

ENGINES = ("vllm", "sglang", "flashinfer")
"""Installed engines that `adapters.adapter_subject` makes subjects of; no entry point replaces one."""


class SubjectError(ValueError):
    """The name or file given is wrong usage: exit code 2."""


class SubjectUnavailable(Exception):
    """The subject exists but cannot be loaded here (import, device, unknown name): exit code 3."""


@dataclass(frozen=True, eq=False)
class Subject:
    """An implementation under test.

    Args:
        name: how reports call it.
        device: "cpu" or "cuda": where its tensors live.
        contract: what it promises; strict by default.
        **callables: operations under the names of `OPERATIONS`.

    Raises:
        TypeError: an operation that is not callable or not known, a name or contract that is none, no operation at all.
        ValueError: an empty name, a device that is neither "cpu" nor "cuda".
    """

    name: str
    device: str
    contract: Contract
    operations: dict[str, Callable[..., Any]] = field(repr=False)

    def __init__(
        self,
        name: str,
        device: str = "cpu",
        contract: Contract | None = None,
        **callables: Callable[..., Any],
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Subject: name must be text, got {name!r:.60}")
        if not name.strip():
            raise ValueError(f"Subject: name must not be empty, got {name!r:.60}")
        if not isinstance(device, str) or device not in ("cpu", "cuda"):
            raise ValueError(f'Subject {name!r}: device must be "cpu" or "cuda", got {device!r}')
        if contract is not None and not isinstance(contract, Contract):
            raise TypeError(f"Subject {name!r}: contract must be a Contract, got {type(contract).__name__}")
        unknown = sorted(set(callables) - set(OPERATIONS))
        if unknown:
            raise TypeError(
                f"Subject {name!r}: unknown operation {unknown[0]!r}; known are {', '.join(OPERATIONS)}"
            )
        for operation, function in callables.items():
            if not callable(function):
                raise TypeError(f"Subject {name!r}: {operation} is not callable ({type(function).__name__})")
        if not callables:
            raise TypeError(f"Subject {name!r} has none of the operations {', '.join(OPERATIONS)}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "contract", contract if contract is not None else Contract())
        object.__setattr__(self, "operations", dict(callables))

    def of_others(self, origin: str) -> Subject:
        """Return the subject under a name that is none of `OWN_SUBJECTS`: with where it is from, if it has such a name."""
        if self.name.strip().casefold() not in OWN_SUBJECTS:
            return self
        return Subject(f"{self.name} ({origin})", self.device, self.contract, **self.operations)

    @classmethod
    def of(cls, thing: object, *, name: str) -> Subject:
        """Return `thing` if it is a Subject, else a subject of the operations that it has.

        Raises:
            TypeError: it has none of the operations.
            SubjectError: it raises something when it is asked for them.
        """
        try:
            if isinstance(thing, Subject):
                return thing
            attributes = {op: getattr(thing, op, None) for op in OPERATIONS}
            found = {op: function for op, function in attributes.items() if callable(function)}
        except Exception as error:
            raise SubjectError(
                f"subject {name!r} raises when it is asked for its operations: {told(error)}"
            ) from error
        return cls(name, **found)


def is_functional(subject: Subject, operation: str) -> bool:
    """Return whether an operation returns its outputs rather than filling the caller's.

    An operation that takes both forms, or does not tell its arguments, is called in place.
    """
    if operation not in _ARGUMENTS:
        return False
    in_place, functional = _ARGUMENTS[operation]
    function = subject.operations[operation]
    return not _takes(function, in_place) and _takes(function, functional)


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def told(error: BaseException) -> str:
    """Return an exception of a stranger's code as one line; asking for its text may raise, too."""
    try:
        text = str(error)
    except Exception:
        text = "an exception without a text"
    return f"{type(error).__name__}: {text}"


def check_spec(spec: str) -> None:
    """Look at a command-line word without importing anything.

    Raises:
        SubjectError: an empty word, a file that is missing.
        SubjectUnavailable: a name that nothing is registered under.
    """
    path, _, _ = spec.partition(":")
    if not spec.strip():
        raise SubjectError(f"the name of a subject must not be empty, got {spec!r}")
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise SubjectError(f"--subject {path}: no such file")
    elif spec not in (*OWN_SUBJECTS, *ENGINES):
        points = importlib.metadata.entry_points(group=ENTRY_POINTS)
        if spec not in points.names:
            known = ", ".join([*OWN_SUBJECTS, *ENGINES, *sorted(points.names)])
            raise SubjectUnavailable(f"unknown subject {spec!r}; known are {known}, or FILE.py[:ATTR]")


def load_subject(spec: str) -> Subject:
    """Return the subject that a command-line word names.

    It imports that word's code into this process, whatever the code does: for a stranger's, call it in a child, and
    `subject_card.card_of` elsewhere.

    Args:
        spec: `reference`, `host`, `cuda`, an installed engine of `ENGINES`, an entry point of the group
            `nvfp4_moe.subjects`, or `FILE.py[:ATTR]` (default attribute SUBJECT if the file has one, else the module
            itself).

    Raises:
        SubjectError: a missing file or attribute.
        SubjectUnavailable: an unknown name, an import that fails, a device that is not there.
    """
    check_spec(spec)
    path, _, attribute = spec.partition(":")
    if path.endswith(".py"):
        return _from_file(Path(path), attribute)
    if spec in OWN_SUBJECTS:
        from nvfp4_moe.verification.conformance.own import own_subject

        return own_subject(spec)
    return _from_engine(spec) if spec in ENGINES else _from_entry_point(spec)


def _from_file(path: Path, attribute: str) -> Subject:
    module = _import_file(path)
    missing = object()
    try:
        thing: object = getattr(module, attribute or "SUBJECT", missing)
    except Exception as error:
        raise SubjectError(f"--subject {path}: {attribute or 'SUBJECT'} raises {told(error)}") from error
    if thing is missing and attribute:
        raise SubjectError(f"--subject {path}: the file has no attribute {attribute!r}")
    try:
        found = Subject.of(module if thing is missing else thing, name=path.stem)
        return found.of_others(path.name)
    except (TypeError, ValueError) as error:
        raise SubjectError(f"--subject {path}: {error}") from error


def _import_file(path: Path) -> ModuleType:
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    name = f"nvfp4_moe_subject_{path.stem}_{digest}"  # two files of one stem must not share a module
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise SubjectError(f"--subject {path}: not a Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # as `python FILE` would, for its neighbours
    try:
        found.loader.exec_module(module)
    except BaseException as error:  # Ctrl-C too: the terminal tells the parent by itself
        sys.modules.pop(name, None)
        raise SubjectUnavailable(f"{path}: import failed: {told(error)}") from error
    finally:
        with contextlib.suppress(ValueError):  # the file may have taken it out
            sys.path.remove(folder)
    return module


def _from_engine(name: str) -> Subject:
    from nvfp4_moe.verification.adapters import adapter_subject

    try:
        return adapter_subject(name)
    except SubjectUnavailable:
        raise
    except BaseException as error:  # whatever an engine's import runs into
        raise SubjectUnavailable(f"{name}: {told(error)}") from error


def _from_entry_point(name: str) -> Subject:
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    try:
        return Subject.of(points[name].load(), name=name).of_others(f"entry point {name}")
    except BaseException as error:
        raise SubjectUnavailable(f"subject {name!r}: {told(error)}") from error
