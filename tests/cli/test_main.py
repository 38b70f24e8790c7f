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
from nvfp4_moe.cli import main
from nvfp4_moe.cli.options import InputError


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main.run(arguments)
    printed = "".join(capsys.readouterr())
    assert all(command in printed for command in main.COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("command", list(main.COMMANDS))
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

    monkeypatch.setattr(main.group, "main", fail)
    assert main.run([]) == code
    assert text in capsys.readouterr().err


def test_sigterm_ends_a_run_like_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main.group, "main", lambda **unused: signal.raise_signal(signal.SIGTERM))
    previous = signal.getsignal(signal.SIGTERM)
    try:
        assert main.run([]) == 3
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert "interrupted" in capsys.readouterr().err


def test_help_of_the_group_needs_no_torch() -> None:
    code = (
        "import sys; from nvfp4_moe.cli import main; main.run(['--help']); sys.exit('torch' in sys.modules)"
    )
    source = str(Path(nvfp4_moe.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert done.returncode == 0, done.stderr
