"""Entry point of the command line: the group of commands, and what becomes of errors.

Exit codes: 0 all required claims hold; 1 a required claim is refuted; 2 wrong usage or bad input (one line, no
traceback); 3 a required claim is undecided or could not be run.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

import click

from nvfp4_moe import __version__
from nvfp4_moe.cli.options import InputError
from nvfp4_moe.verification.result import EXIT_UNDECIDED, EXIT_USAGE

COMMANDS = {
    "verify": "Prove, exhaust and fuzz the padding bound; hold implementations to the golden model.",
    "bound": "Every sizing formula for one configuration, with the worst routing.",
    "replay": "Run a saved counterexample again, or report on a router trace.",
    "describe": "Measure what a subject promises and print it as code.",
    "cases": "Write golden vectors (.npz with a manifest of hashes) for tests in another language.",
}


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that `--help` needs no torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"nvfp4_moe.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="nvfp4-moe")
def group() -> None:
    """Verify NVFP4 mixture-of-experts quantization, padding and kernels against a golden model."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing escapes as an exception."""
    _terminate_like_ctrl_c()
    try:
        code = group.main(
            args=None if arguments is None else list(arguments), prog_name="nvfp4-moe", standalone_mode=False
        )
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except (click.ClickException, InputError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print("nvfp4-moe: error: " + " ".join(message.split()), file=sys.stderr)
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        print("nvfp4-moe: interrupted", file=sys.stderr)
        return EXIT_UNDECIDED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; there is nobody to tell
        return EXIT_UNDECIDED
    except Exception:  # a fault of ours must not look like a refuted claim (Python's own exit code is 1)
        traceback.print_exc()
        print("nvfp4-moe: internal error, please report it with the lines above", file=sys.stderr)
        return EXIT_UNDECIDED


def _terminate_like_ctrl_c() -> None:
    """Let SIGTERM end a run as Ctrl-C does: cleanly, with what was finished."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):  # outside the main thread handlers belong to somebody else
        signal.signal(signal.SIGTERM, interrupt)


def main() -> None:
    """Console-script entry point."""
    sys.exit(run())


if __name__ == "__main__":
    main()
