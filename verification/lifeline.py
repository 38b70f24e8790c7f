"""Children end with their parent, however it ends: a run that is killed leaves no process behind.

Run as a program, this is the first thing in a child: `python -m nvfp4_moe.verification.lifeline PARENT MODULE ...`
ties the process to its parent and becomes `python -m MODULE ...`. Linux tells a process of its parent's end; elsewhere
a child sees it at the next line that it reads or writes.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def end_with(parent: int) -> None:
    """Have this process killed when its parent ends, or rather the thread of it that started this process.

    Args:
        parent: process id of the parent, which may have ended already.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):  # another libc: nothing lost but the guard
        return
    if os.getppid() != parent:
        os._exit(1)


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package as a child of this process."""
    return [sys.executable, "-m", __name__, str(os.getpid()), module, *arguments]


def main() -> None:
    """Run as a program."""
    end_with(int(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
