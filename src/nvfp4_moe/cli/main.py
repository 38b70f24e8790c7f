"""Entry point of the command line. It imports nothing before it listens: the rest is imported in `run`, under its guard.

Exit codes: 0 all required claims hold; 1 a required claim is refuted; 2 wrong usage or bad input (one line, no
traceback); 3 a required claim is undecided or could not be run, or the output could not be delivered.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` itself takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 3  # EXIT_UNDECIDED of verification.result


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing escapes as an exception."""
    try:
        from nvfp4_moe.cli.commands import run_guarded

        return run_guarded(arguments)
    except KeyboardInterrupt:  # while that was imported, or on the way out
        print("nvfp4-moe: interrupted", file=sys.stderr)
        return _INTERRUPTED


def main() -> None:
    """Console-script entry point."""
    if sys.stderr is None:  # closed by the caller: what we tell goes nowhere, and not to standard output
        sys.stderr = open("/dev/null", "w")  # noqa: SIM115 - as long as the process
    code = run()
    # CPython remembers a KeyboardInterrupt that went through code run from text (dataclasses are made that way) and
    # would die of SIGINT at its exit, although we caught it; running text again makes it forget.
    exec("")
    sys.exit(code)


if __name__ == "__main__":
    main()
