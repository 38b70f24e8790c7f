"""The group of commands: help, usage errors, and what becomes of exceptions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nvfp4_moe
from nvfp4_moe import __version__
from nvfp4_moe.cli import commands, main
from nvfp4_moe.cli.options import InputError
from nvfp4_moe.verification.result import EXIT_UNDECIDED


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == (0 if arguments else 2)
    printed = capsys.readouterr().out
    assert all(command in printed for command in commands.COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("command", list(commands.COMMANDS))
def test_every_command_has_help_json_and_seed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--json" in printed
    assert "--seed" in printed


@pytest.mark.parametrize("arguments", [["nonsense"], ["verify", "--nonsense"], ["bound", "--experts"]])
def test_wrong_usage_is_one_line_and_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("nvfp4-moe: error: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (InputError("size 0 is not legal"), 2, "nvfp4-moe: error: size 0 is not legal\n"),
        (KeyboardInterrupt(), 3, "nvfp4-moe: interrupted\n"),
        (ZeroDivisionError("ours"), 3, "internal error"),
    ],
)
def test_exceptions_never_look_like_a_refuted_claim(
    raised: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**unused: object) -> None:
        raise raised

    monkeypatch.setattr(commands.group, "main", fail)
    assert main.run([]) == code
    assert text in capsys.readouterr().err


def test_sigterm_ends_a_run_like_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands.group, "main", lambda **unused: signal.raise_signal(signal.SIGTERM))
    previous = signal.getsignal(signal.SIGTERM)
    assert main.run([]) == 3
    assert signal.getsignal(signal.SIGTERM) is previous
    assert "interrupted" in capsys.readouterr().err


def start(command: str) -> subprocess.Popen[str]:
    """Run the command line in a process of its own, under a shell that sets its streams: `{}` is the program."""
    program = f"{sys.executable} -m nvfp4_moe.cli.main"
    source = str(Path(nvfp4_moe.__file__).parent.parent)
    return subprocess.Popen(
        ["bash", "-c", command.format(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""},
    )


def test_help_of_the_group_needs_no_torch() -> None:
    code = (
        "import sys; from nvfp4_moe.cli import main; main.run(['--help']); sys.exit('torch' in sys.modules)"
    )
    process = start(f'{sys.executable} -c "{code}"')
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        # the reader has gone before the first byte: bash closes it at once
        ("exec {} --help > >(exec 0<&-)", ""),
        ("exec {} --help >&-", "nvfp4-moe: error: standard output is closed\n"),
        ("exec {} --help >/dev/full", "nvfp4-moe: error: standard output: No space left on device\n"),
        ("PYTHONUNBUFFERED=1 exec {} --help >/dev/full", "No space left on device\n"),
        (
            "exec {} bound --experts 8 --topk 2 --max-num-batched-tokens 16 --json - >/dev/full",
            "No space left",
        ),
        ("exec {} nonsense 2>/dev/full", ""),
        ("exec {} nonsense 2>&-", ""),
    ],
)
def test_streams_that_take_nothing_are_one_line_and_exit_3(command: str, told: str) -> None:
    process = start(command)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (2 if "nonsense" in command else 3)
    assert "Traceback" not in error
    assert error.endswith(told) if told.endswith("\n") else told in error
    assert error.count("nvfp4-moe: error") == bool(told)


@pytest.mark.parametrize("arguments", ["--help", "bound --experts 8 --topk 2 --max-num-batched-tokens 16"])
def test_a_reader_that_has_gone_is_no_refutation(arguments: str) -> None:
    process = start(f"{{}} {arguments} | exec 0<&-; exit ${{{{PIPESTATUS[0]}}}}")
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 3


@pytest.mark.parametrize("code", ["signal.raise_signal(2)", "exec('signal.raise_signal(2)')"])
def test_ctrl_c_while_the_command_line_is_imported(code: str, tmp_path: Path) -> None:
    """A module that interrupts its own import, in place of the first that the command line needs."""
    (tmp_path / "click.py").write_text(f"import signal\n{code}\n")
    source = str(Path(nvfp4_moe.__file__).parent.parent)
    process = start(f"PYTHONPATH={tmp_path}:{source} {sys.executable} -m nvfp4_moe.cli.main --help")
    assert process.communicate(timeout=60) == ("", "nvfp4-moe: interrupted\n")
    assert process.returncode == 3


def test_an_import_that_turns_ctrl_c_into_another_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(**unused: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("cannot load module") from None

    monkeypatch.setattr(commands.group, "main", load)
    assert main.run([]) == 3
    assert capsys.readouterr().err == "nvfp4-moe: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_entry_point_needs_nothing_before_it_listens() -> None:
    code = (
        "import sys; before = set(sys.modules); import nvfp4_moe.cli.main; print(*set(sys.modules) - before)"
    )
    process = start(f'{sys.executable} -S -c "{code}"')
    loaded = set(process.communicate(timeout=60)[0].split())
    assert loaded == {"nvfp4_moe", "nvfp4_moe.cli", "nvfp4_moe.cli.main", "__future__"}
    assert main._INTERRUPTED == EXIT_UNDECIDED


def test_error_lines_hold_no_escapes_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["replay", "\x1b[31mred\n" + "9" * 200]) == 2
    error = capsys.readouterr().err
    assert error.startswith("nvfp4-moe: error: \\x1b[31mred 999")
    assert "\x1b" not in error
    assert main.run(["9" * 5000]) == 2
    assert len(capsys.readouterr().err) < 1000
