"""Verification of NVFP4 MoE padding bounds and kernels: claims, proofs, exhaustive search, fuzzing, conformance.

    from nvfp4_moe.verification import verify, assert_conforms, Subject, Contract

    result = verify(level=1)                 # the padding bound and our own implementations
    assert_conforms(my_module, level=1)      # somebody's kernel: raises with the findings

Names are loaded when they are first used, so that the provers' process does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvfp4_moe.verification.conformance.contract import Contract as Contract
    from nvfp4_moe.verification.conformance.subject import Subject as Subject
    from nvfp4_moe.verification.result import ClaimResult as ClaimResult
    from nvfp4_moe.verification.result import Finding as Finding
    from nvfp4_moe.verification.result import Method as Method
    from nvfp4_moe.verification.result import Result as Result
    from nvfp4_moe.verification.result import Verdict as Verdict
    from nvfp4_moe.verification.runner import assert_conforms as assert_conforms
    from nvfp4_moe.verification.runner import verify as verify

_HOMES = {
    "Contract": "conformance.contract",
    "Subject": "conformance.subject",
    "ClaimResult": "result",
    "Finding": "result",
    "Method": "result",
    "Result": "result",
    "Verdict": "result",
    "assert_conforms": "runner",
    "verify": "runner",
}
"""Module of each public name."""

__all__ = [
    "ClaimResult",
    "Contract",
    "Finding",
    "Method",
    "Result",
    "Subject",
    "Verdict",
    "assert_conforms",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = (
        value  # wins over the submodule `verify`, which importing it has bound under the same name
    )
    return value
