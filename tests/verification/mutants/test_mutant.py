"""A variant says what it is; what is not legal is refused where it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nvfp4_moe.verification.expressions import parse_bound
from nvfp4_moe.verification.mutants.mutant import BoundMutant, Mutant, PublicFault, SubjectMutant

MUTANT = Mutant(
    id="bound_short.no_padding",
    fault_class="C",
    stands_for=("C1",),
    change="no padding rows",
    refuted_by=("padding.bound",),
    target=BoundMutant(bound=parse_bound("max_num_batched_tokens * topk")),
)
FAULT = PublicFault(id="C1", links=("https://example.org/1",), what="a buffer was too short")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "Bound Short"}, "lower-case words with dots"),
        ({"id": "short"}, "lower-case words with dots"),
        ({"fault_class": "Z"}, "no fault class 'Z'"),
        ({"stands_for": ()}, "stands_for"),
        ({"stands_for": ("D1",)}, "faults of its class"),
        ({"change": ""}, "change must be said"),
        ({"refuted_by": ()}, "must name claims"),
        ({"refuted_by": ("padding.bounds",)}, "must name claims"),
        ({"devices": ()}, "devices"),
        ({"devices": ("gpu",)}, "devices"),
        ({"devices": ("cpu", "cuda")}, "have no device"),
    ],
)
def test_a_wrong_field_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(MUTANT, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "c1"}, "class letter and a number"),
        ({"id": "C0"}, "class letter and a number"),
        ({"links": ()}, "https addresses"),
        ({"links": ("http://example.org",)}, "https addresses"),
        ({"what": ""}, "must be said"),
    ],
)
def test_a_wrong_public_fault_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(FAULT, **changes)


def test_the_base_is_one_of_ours() -> None:
    with pytest.raises(ValueError, match="must be host or reference"):
        SubjectMutant(factory=lambda right: right, base="cuda")
