"""Binding an engine's registered operations: find them, compare their schemas, wrap them into the subject protocol."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject, SubjectUnavailable

Operation = Callable[..., Any]


@dataclass(frozen=True)
class Schema:
    """A schema under which an engine has registered an operation, and how the protocol's operations call it."""

    text: str
    """Arguments and results in PyTorch's own notation."""
    operations: dict[str, Callable[[Operation], Operation]]
    """For each operation of the protocol, a function from the registered operation to it; none: known, not usable."""


@dataclass(frozen=True)
class Engine:
    """What is known of an engine."""

    name: str
    package: str
    """Import name that tells whether it is installed."""
    registers: tuple[Callable[[], object], ...]
    """Calls after which its operations are registered; those that fail are tolerated as long as one works."""
    preset: str
    known: dict[str, tuple[Schema, ...]]
    """Schemas by the operation's registered name, namespace::name."""
    hint: str = ""
    """What to tell where it registers none of them."""


def importing(module: str) -> Callable[[], object]:
    """Return a call that imports a module."""
    return lambda: importlib.import_module(module)


def _shape(schema: Any) -> tuple[tuple[tuple[str, str, bool], ...], tuple[str, ...]]:
    """Return what a caller must know of a schema: names, types and places of arguments, types of results.

    Left out: what a kernel may write to (engines declare it or not), and defaults, since every argument is given.
    """
    arguments = tuple((a.name, a.type.annotation_str, a.kwarg_only) for a in schema.arguments)
    return arguments, tuple(result.type.annotation_str for result in schema.returns)


def same_schema(registered: Any, text: str) -> bool:
    """Return whether a registered schema is the one that is written in `text`: arguments -> results."""
    return _shape(registered) == _shape(torch._C.parse_schema(f"known{text}"))


def bind(engine: Engine, *, device: str) -> Subject:
    """Return an engine's operations as a subject; see `adapter_subject` for errors."""
    if importlib.util.find_spec(engine.package) is None:
        raise SubjectUnavailable(f"{engine.name}: the package {engine.package} is not installed")
    if device == "cuda" and not torch.cuda.is_available():
        raise SubjectUnavailable(f"{engine.name}: no CUDA device is present")
    _register(engine)
    operations: dict[str, Operation] = {}
    for name, schemas in engine.known.items():
        registered = _registered(name)
        if registered is None:
            continue
        found = registered._schema
        schema = next((schema for schema in schemas if same_schema(found, schema.text)), None)
        if schema is None:
            known = " or ".join(schema.text for schema in schemas)
            raise SubjectUnavailable(
                f"{engine.name}: the schema of {name} is not known: {found}; known is {known}"
            )
        operations |= {op: adapt(registered) for op, adapt in schema.operations.items()}
    if not operations:
        names = ", ".join(engine.known)
        reason = f"{engine.name}: none of its operations can be tested; looked for {names}"
        raise SubjectUnavailable("; ".join(filter(None, [reason, engine.hint])))
    return Subject(engine.name, device, Contract.preset(engine.preset), **operations)


def _register(engine: Engine) -> None:
    errors = []
    for register in engine.registers:
        try:
            register()
        except Exception as error:  # whatever an engine's import runs into
            errors.append(f"{type(error).__name__}: {error}")
    if len(errors) == len(engine.registers):
        raise SubjectUnavailable(f"{engine.name}: import failed: {errors[0]}")


def _registered(name: str) -> Any:
    """Return the default overload of a registered operation, or None."""
    namespace, _, operation = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), operation, None)
    return getattr(packet, "default", None)
