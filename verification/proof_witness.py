"""The witness of a refuted proof obligation: the prover's model. A replay puts the obligation to that prover again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvfp4_moe.verification.bound_witness import CannotReplay, Replay


def replay(document: Mapping[str, Any]) -> Replay:
    """Ask the prover of the witness again; another model of the negation reproduces it.

    Raises:
        ValueError: an obligation or a prover that does not exist.
        CannotReplay: the prover is not installed or gives no answer in time.
    """
    from nvfp4_moe.verification.proofs import proving, solvers  # only when asked for: needs an extra

    known = {obligation.key: obligation for family in proving.FAMILIES for obligation in family()}
    key, solver = document.get("obligation"), document.get("solver")
    if not isinstance(key, str) or key not in known:
        raise ValueError(f"obligation must be one of {', '.join(known)}, got {key!r:.60}")
    if not isinstance(solver, str) or solver not in solvers.SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(solvers.SOLVERS)}, got {solver!r:.60}")
    if solver in solvers.missing():
        raise CannotReplay(f"needs {solver} (pip install 'nvfp4-moe[{solvers.EXTRA}]')")
    reply = solvers.SOLVERS[solver](known[key].smt2(), timeout_s=proving.DEFAULT_TIMEOUT_S)
    if reply.answer is solvers.Answer.UNKNOWN:
        raise CannotReplay(f"{solver} gives no answer on {key} in {proving.DEFAULT_TIMEOUT_S:g} s")
    refuted = reply.answer is solvers.Answer.SAT
    model = ", ".join(f"{name} = {value}" for name, value in reply.model)
    said = f"{solver} has a model against it: {model}" if refuted else f"{solver} proves it"
    return Replay(refuted, (f"obligation {key}: {known[key].statement}", said))
