"""Thin adapters: operations of an installed vLLM, SGLang or FlashInfer as a subject.

An operation is bound by the schema that it is registered with in `torch.library`, argument by argument. A schema that is
not known is refused by name, never guessed; so is an engine that is not installed. What an engine does not register, or
registers in a form that cannot say what the protocol says, is not tested. The contract is the engine's preset.
"""

from __future__ import annotations

import importlib

from nvfp4_moe.verification.conformance.subject import ENGINES, Subject

ADAPTERS = ENGINES
"""Names that `adapter_subject` knows."""


def adapter_subject(name: str, *, device: str = "cuda") -> Subject:
    """Return an installed engine's operations as a subject.

    Args:
        name: of `ADAPTERS`.
        device: where its tensors live; the engines' own kernels need "cuda".

    Raises:
        ValueError: an unknown name.
        SubjectUnavailable: the engine is not installed or does not import, there is no such device, it registers none of
            the operations, or one with a schema that is not known.
    """
    if name not in ADAPTERS:
        raise ValueError(f"adapter must be one of {', '.join(ADAPTERS)}, got {name!r:.60}")
    from nvfp4_moe.verification.adapters.binding import bind

    engine = importlib.import_module(f"nvfp4_moe.verification.adapters.{name}").ENGINE
    return bind(engine, device=device)
