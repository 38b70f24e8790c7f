"""The group of commands, and what becomes of errors, signals and streams that take no more."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import click

from nvfp4_moe import __version__
from nvfp4_moe.cli.options import InputError
from nvfp4_moe.cli.outputs import UndeliveredError
from nvfp4_moe.cli.streams import OutputError, discard, guarded_output, tell
from nvfp4_moe.verification.result import EXIT_OK, EXIT_UNDECIDED, EXIT_USAGE

COMMANDS = {
    "verify": "Prove, exhaust and fuzz the padding bound; hold implementations to the golden model.",
    "bound": "Every sizing formula for one configuration, with the worst routing.",
    "savings": "Memory of every sizing formula for models and their flags, as tables and figures.",
    "capacity": "Is a sizing formula safe for the flags of a server, and what breaks it?",
    "engines": "Every engine's sizing formula side by side: safe, attained, how loose.",
    "report": "One page for people: verdict, memory, serving, engines, routings; JSON and Markdown.",
    "replay": "Run a saved counterexample again, or report on a router trace.",
    "describe": "Measure what a subject promises and print it as code.",
    "cases": "Write golden vectors (.npz with a manifest of hashes) for tests in another language.",
    "mutants": "Known-wrong variants of kernels, bounds and models, which the harness must refute.",
    "bench": "Measure the kernels on a GPU, or the CPU code, beside yardsticks of the same run.",
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


def run_guarded(arguments: Sequence[str] | None) -> int:
    """Run the group, or print its help where nothing is asked; return the exit code.

    Only a KeyboardInterrupt at the very end escapes.
    """
    if sys.stdout is None:
        tell("error: standard output is closed")
        return EXIT_UNDECIDED
    given = sys.argv[1:] if arguments is None else list(arguments)
    with _listening() as signals:
        with guarded_output():
            code = _run(given or ["--help"], signals)
        return _delivered(code if given else code or EXIT_USAGE)


def _run(arguments: list[str], signals: _Signals) -> int:
    try:
        code = group.main(args=arguments, prog_name="nvfp4-moe", standalone_mode=False)
        return code if isinstance(code, int) else EXIT_OK
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except UndeliveredError as error:
        tell(f"error: {error}")
    except (click.ClickException, InputError) as error:
        tell(f"error: {error.format_message() if isinstance(error, click.ClickException) else error}")
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        tell("interrupted")
    except OutputError as error:
        if not error.reader_has_gone:
            tell(f"error: standard output: {error}")
        discard(sys.stdout)
    except (
        SystemExit
    ) as exit_request:  # click's, of a reader that has gone: 1 would look like a refuted claim
        return EXIT_UNDECIDED if exit_request.code else EXIT_OK
    except Exception:  # a fault of ours must not look like a refuted claim (Python's own code is 1)
        if signals.interrupted:  # some libraries turn Ctrl-C in their import into an error of their own
            tell("interrupted")
        else:
            traceback.print_exc()
            tell("internal error, please report it with the lines above")
    return EXIT_UNDECIDED


# --- streams -----------------------------------------------------------------------------------------------


def _delivered(code: int) -> int:
    """Return the code once everything printed has left, or EXIT_UNDECIDED if it cannot."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        tell(f"error: standard output: {error.strerror or error}")
        discard(sys.stdout)
    else:
        return code
    return EXIT_UNDECIDED


# --- signals -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Signals:
    """Whether Ctrl-C or SIGTERM came."""

    interrupted: bool = False

    def interrupt(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        self.interrupted = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def _listening() -> Iterator[_Signals]:
    """Let SIGTERM end a run as Ctrl-C does: cleanly, with what was finished."""
    signals = _Signals()
    before: list[tuple[signal.Signals, Any]] = []
    with contextlib.suppress(ValueError):  # outside the main thread handlers belong to somebody else
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before.append((number, signal.signal(number, signals.interrupt)))
    try:
        yield signals
    finally:
        for number, handler in before:
            signal.signal(number, handler)
