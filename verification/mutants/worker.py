"""The processes that judge: one for each core, each told an entry's id at a time, a JSON line each way.

Run as a program it is such a process: it reads requests from standard input and answers on the descriptor in its
first argument, since what a variant prints must not be mistaken for an answer. One that dies or takes too long is
replaced, and its entry is UNDECIDED.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nvfp4_moe
from nvfp4_moe.verification import lifeline
from nvfp4_moe.verification.mutants.judge import Judged, judge
from nvfp4_moe.verification.result import Verdict

MOST_SECONDS = 600.0
"""Of one entry."""
_POLL_SECONDS = 0.2


@dataclass
class _Worker:
    """A process, what it is at work on, and what it has said of it so far."""

    process: subprocess.Popen[bytes]
    reader: int
    entry: str = ""
    deadline: float = 0.0
    said: bytes = b""

    @classmethod
    def start(cls) -> _Worker:
        reader, writer = os.pipe()
        package = str(Path(nvfp4_moe.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
        try:
            process = subprocess.Popen(
                lifeline.command(__name__, str(writer)),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(writer,),
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )
        finally:
            os.close(writer)
        return cls(process, reader)

    def tell(self, entry: str, *, device: str, seed: int) -> None:
        self.entry, self.said = entry, b""
        self.deadline = time.monotonic() + MOST_SECONDS
        assert self.process.stdin is not None
        line = json.dumps({"id": entry, "device": device, "seed": seed}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # it died at once: the reader sees the end
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()

    def end(self) -> int:
        """Kill it, with its children, which hang on to its life, and return how it ended."""
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        os.close(self.reader)
        return code


def judge_all(
    entries: Sequence[str], *, device: str, seed: int, workers: int
) -> Generator[Judged, None, None]:
    """Judge entries of the catalogue side by side and yield what became of each, in the order in which they end.

    Args:
        entries: ids.
        device: "cpu" or "cuda".
        seed: of the cases.
        workers: processes at once.
    """
    waiting = deque(entries)
    with selectors.DefaultSelector() as selector:
        try:
            for _ in range(min(workers, len(entries))):
                _next(selector, None, waiting, device, seed)
            while selector.get_map():
                for key, _ in selector.select(timeout=_POLL_SECONDS):
                    judged = _heard(key.data, device)
                    if judged is not None:
                        worker = _kept(selector, key.data, alive=judged.verdict is not Verdict.UNDECIDED)
                        _next(selector, worker, waiting, device, seed)
                        yield judged
                for worker in [key.data for key in selector.get_map().values()]:
                    if time.monotonic() > worker.deadline:
                        reason = f"no verdict within {MOST_SECONDS:.0f} s"
                        _kept(selector, worker, alive=False)
                        _next(selector, None, waiting, device, seed)
                        yield _undecided(worker.entry, device, reason)
        finally:
            for key in list(selector.get_map().values()):
                key.data.end()


def _next(
    selector: selectors.BaseSelector, worker: _Worker | None, waiting: deque[str], device: str, seed: int
) -> None:
    """Give a worker, a new one where there is none, the next entry; end it where nothing is left."""
    if not waiting:
        if worker is not None:
            selector.unregister(worker.reader)
            worker.end()
        return
    if worker is None:
        worker = _Worker.start()
        selector.register(worker.reader, selectors.EVENT_READ, worker)
    worker.tell(waiting.popleft(), device=device, seed=seed)


def _kept(selector: selectors.BaseSelector, worker: _Worker, *, alive: bool) -> _Worker | None:
    """Return the worker if it may go on, else end it."""
    if alive:
        return worker
    selector.unregister(worker.reader)
    worker.end()
    return None


def _heard(worker: _Worker, device: str) -> Judged | None:
    """Return what the worker says of its entry, None while the line is not complete."""
    chunk = os.read(worker.reader, 1 << 16)
    if not chunk:
        code = worker.process.wait()
        return _undecided(worker.entry, device, f"the judging process ended with code {code}")
    worker.said += chunk
    if not worker.said.endswith(b"\n"):
        return None
    message: dict[str, Any] = json.loads(worker.said)
    if "fault" in message:
        return _undecided(worker.entry, device, message["fault"])
    return Judged.from_json(message)


def _undecided(entry: str, device: str, reason: str) -> Judged:
    return Judged(id=entry, device=device, verdict=Verdict.UNDECIDED, detail=reason)


def main() -> None:
    """Run as a program."""
    import torch

    from nvfp4_moe.verification.mutants.catalogue import entry_of

    torch.set_num_threads(1)  # other workers use the other cores
    with os.fdopen(int(sys.argv[1]), "w") as out:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                message = judge(
                    entry_of(request["id"]), device=request["device"], seed=request["seed"]
                ).to_json()
            except Exception as error:
                traceback.print_exc()
                message = {"fault": f"internal error: {type(error).__name__}: {error}"}
            out.write(json.dumps(message) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
