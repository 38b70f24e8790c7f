"""Subjects with planted faults: the golden model behind the protocol, with something done before or after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from nvfp4_moe.verification.conformance.contract import Contract
from nvfp4_moe.verification.conformance.memory import HostArena
from nvfp4_moe.verification.conformance.own import reference_subject
from nvfp4_moe.verification.conformance.plan import Case, Plan
from nvfp4_moe.verification.conformance.subject import Subject
from nvfp4_moe.verification.conformance.worker import answer

Operation = Callable[..., Any]
RIGHT = reference_subject()
SMALL = 20_000
"""Elements of a case that a test may run many of."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterable[None]:
    """As in the children."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def arena() -> HostArena:
    return HostArena()


@pytest.fixture
def right() -> Subject:
    """The golden model."""
    return RIGHT


@pytest.fixture
def planted() -> Callable[..., Subject]:
    """Return `make(operation, wrap, contract=...)`: the golden model with one operation wrapped."""

    def make(
        operation: str, wrap: Callable[[Operation], Operation], contract: Contract | None = None
    ) -> Subject:
        wrapped = wrap(RIGHT.operations[operation])
        return Subject("planted", "cpu", contract or RIGHT.contract, **{operation: wrapped})

    return make


@pytest.fixture
def checks(arena: HostArena) -> Callable[[Subject, Case], dict[str, str]]:
    """Return `run(subject, case)`: what it broke, as {check: class}."""

    def run(subject: Subject, case: Case) -> dict[str, str]:
        told = answer(subject, case, arena)
        if "raised" in told:
            return {"raised": told["raised"]}
        if "refused" in told:
            return {} if told["legal"] else {"refused": told["refused"]}
        return {fault["check"]: fault["finding"] for fault in told["faults"]}

    return run


@pytest.fixture
def first_broken(checks: Callable[[Subject, Case], dict[str, str]]) -> Callable[..., dict[str, str]]:
    """Return `find(subject, wanted)`: what the first failing small case of level 1 broke, {} if none did."""

    def find(subject: Subject, wanted: Callable[[Any], bool] = lambda case: True) -> dict[str, str]:
        for case in Plan.of(subject, level=1, seed=0).cases:
            if getattr(case, "elements", 0) <= SMALL and wanted(case):
                found = checks(subject, case)
                if found:
                    return found
        return {}

    return find
