"""Who owns a batch of a campaign: names of processes, and whether the process of a name still lives."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path


def this_process() -> str:
    """Return the name under which this process owns batches: machine, process id and time of start."""
    return f"{machine_name()}|{os.getpid()}|{start_time(os.getpid()) or ''}"


def machine_name() -> str:
    """Name the machine and, inside a container, its own numbering of processes."""
    try:
        return f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def holds(owner: str | None, expires: float | None) -> bool:
    """Return whether a batch's owner still has it: alive, as far as can be seen, and within the lease."""
    if owner is None or expires is None or time.time() >= expires:
        return False
    machine, _, process = owner.partition("|")
    pid, _, started = process.partition("|")
    if machine != machine_name() or not pid.isdecimal():
        return True
    return _is_alive(int(pid), started)


def _is_alive(pid: int, started: str) -> bool:
    if Path("/proc/self/stat").exists():
        now_started = start_time(pid)  # a process id is used again; the time of its start tells
        return now_started is not None and now_started == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None where there is no such living process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
