"""The proofs as a job: a second process that runs beside the other checks.

A process rather than a thread: the provers hold the interpreter lock, and one that hangs can be killed. It is this
package's own command (`python -m nvfp4_moe.verification.proofs`), so nothing of the caller's program is run twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nvfp4_moe
from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row

CLAIMS = (
    "padding.bound",
    "padding.attained",
    "padding.disjoint",
    "padding.coverage",
    "padding.monotone",
    "padding.placement",
    "swizzle.injective",
    "swizzle.in_bounds",
    "index.no_wrap",
    "index.no_wrap.quantize",
    "index.no_wrap.launch",
    "index.no_wrap.routing",
    "index.no_wrap.moves",
    "index.no_wrap.layout",
    "index.no_wrap.gemm",
)
"""Claims that the proofs tell."""

STATEMENTS = {
    "padding.bound": "no routing exceeds exact_any, exact_distinct, loose or proposed, for every T, E and tile",
    "padding.attained": "some routing uses every row of exact_any, for every T, E and tile",
}
"""What the proofs say of claims that other methods check for the run's own bound."""

_POLL_SECONDS = 0.05
_TIMEOUT_SECONDS = {1: 120.0, 2: 1800.0}


class ProofProcess:
    """The second process."""

    def __init__(self, level: int) -> None:
        self._level = min(level, 2)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start proving."""
        path = os.pathsep.join(
            filter(None, [str(Path(nvfp4_moe.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        )
        self._process = subprocess.Popen(
            lifeline.command("nvfp4_moe.verification.proofs", "--level", str(self._level), "--json", "-"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )

    def cancel(self) -> None:
        """Stop it if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def rows(self, advance: Callable[[int], None]) -> Iterator[Row]:
        """Wait for the end and yield a row for each claim."""
        if self._process is None:
            self.start()
        process = self._process
        assert process is not None
        printed, errors = _collect(process, _TIMEOUT_SECONDS[self._level])
        try:
            entries: list[dict[str, Any]] = json.loads(printed)
        except json.JSONDecodeError:
            last = errors.strip().splitlines()[-1:] or ["no output"]
            raise RuntimeError(f"the proof process ended with code {process.returncode}: {last[0]}") from None
        for entry in entries:
            advance(entry["cases"])
            outcome = Outcome(
                verdict=Verdict(entry["verdict"]),
                cases=entry["cases"],
                detail=entry["detail"],
                witness=entry["witness"],
            )
            yield Row(
                claim_id=entry["id"],
                method=Method.PROOF,
                outcome=outcome,
                statement=STATEMENTS.get(entry["id"]),
                seconds=entry.get("seconds", 0.0),
            )


def _collect(process: subprocess.Popen[str], limit: float) -> tuple[str, str]:
    deadline = time.monotonic() + limit
    while True:
        try:
            return process.communicate(timeout=_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                process.kill()
                process.communicate()
                raise RuntimeError(f"the proofs took more than {limit:.0f} s") from None
