"""What a task's child and its parent say to each other: the subject's card, requests and answers, a JSON line each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, BinaryIO

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.subject import Subject, is_functional


@dataclass(frozen=True)
class Card:
    """What a subject says of itself."""

    name: str
    device: str
    operations: tuple[str, ...]
    contract: Contract
    functional: tuple[str, ...] = ()
    """Operations that return their outputs."""

    @classmethod
    def of(cls, subject: Subject) -> Card:
        """Return a subject's card."""
        functional = tuple(op for op in subject.operations if is_functional(subject, op))
        return cls(subject.name, subject.device, tuple(subject.operations), subject.contract, functional)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        promises = {f.name: getattr(self.contract, f.name) for f in fields(Contract)}
        plain = {name: dict(v) if isinstance(v, Mapping) else v for name, v in promises.items()}
        return {
            "name": self.name,
            "device": self.device,
            "operations": self.operations,
            "contract": plain,
            "functional": self.functional,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Card:
        """Return the card that `to_json` gave, which JSON has changed its tuples of to lists."""
        promises: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in entry["contract"].items()
        }
        operations, functional = (tuple(entry[name]) for name in ("operations", "functional"))
        return cls(entry["name"], entry["device"], operations, Contract(**promises), functional)


def say(out: BinaryIO, message: Mapping[str, Any], payload: bytes = b"") -> None:
    """Write a message and the bytes that belong to it; the keys "error" and "kind" are taken."""
    out.write(json.dumps(message).encode() + b"\n" + payload)
    out.flush()


def hear(requests: BinaryIO) -> dict[str, Any]:
    """Return the parent's next line; ends the process where there is none, since then there is no parent."""
    line = requests.readline()
    if not line:
        os._exit(0)
    found: dict[str, Any] = json.loads(line)
    return found
