"""A stranger's file may do anything when it is imported: this process goes on and tells it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvfp4_moe.verification import assert_conforms
from nvfp4_moe.verification.bound_witness import CannotReplay
from nvfp4_moe.verification.conformance.subject import Subject, SubjectError, SubjectUnavailable
from nvfp4_moe.verification.describe import describe
from nvfp4_moe.verification.result import Finding, Verdict
from nvfp4_moe.verification.subject_card import card_of
from nvfp4_moe.verification.subject_jobs import subject_job
from nvfp4_moe.verification.witness import replay

EXIT = "import os\nos._exit(0)\n"
JUNK = """
import os
for descriptor in range(3, 64):
    try:
        os.write(descriptor, {})
    except OSError:
        pass
"""
MARK = "nvfp4_moe_test_imported_here"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hostile.py"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EXIT, "ended while it loaded: exit code 0"),
        ("import os\nos.closerange(3, 4096)\nos._exit(1)\n", "exit code 1"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV"),
        (JUNK.format(r"b'junk\n'"), "said what is no message: b'junk'"),
        (JUNK.format(r"""b'{"name": 3}\n'"""), "its card is none"),
        ("raise KeyboardInterrupt\n", "import failed: KeyboardInterrupt"),
    ],
)
def test_an_import_that_ends_its_process_is_unavailable(text: str, said: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(SubjectUnavailable, match=said):
        card_of(str(file))


def test_an_import_that_hangs_is_given_up(file: Path) -> None:
    file.write_text("import time\ntime.sleep(3600)\n")
    with pytest.raises(SubjectUnavailable, match=r"no answer for 0\.2 s; killed"):
        card_of(str(file), seconds=0.2)


def test_what_raises_when_it_is_asked_is_wrong_usage(file: Path) -> None:
    file.write_text("def __getattr__(name): raise RuntimeError('not ready')\n")
    with pytest.raises(SubjectError, match="SUBJECT raises RuntimeError: not ready"):
        card_of(str(file))


def test_a_card_is_learned_without_importing_the_file_here(
    file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MARK, raising=False)
    file.write_text(
        f"import os\nos.environ[{MARK!r}] = '1'\nprint('noise')\n"
        "from nvfp4_moe.verification import Contract, Subject\n"
        "SUBJECT = Subject('talks', contract=Contract(strided='honoured', mutates=('input',)),"
        " swizzle=lambda linear: linear, scaled_fp4_experts_quant=lambda i, g, o, s: None)\n"
    )
    card = card_of(str(file))
    assert (card.name, card.device) == ("talks", "cpu")
    assert card.operations == ("swizzle", "scaled_fp4_experts_quant")
    assert card.functional == ("scaled_fp4_experts_quant",)
    assert (card.contract.strided, card.contract.mutates) == ("honoured", ("input",))
    assert MARK not in os.environ
    assert capfd.readouterr() == ("", "")


def test_words_that_name_nothing_need_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvfp4_moe.verification.subject_card.TaskChild", None)
    with pytest.raises(SubjectError, match="no such file"):
        card_of("missing.py")
    with pytest.raises(SubjectError, match="must not be empty"):
        card_of("")
    with pytest.raises(SubjectUnavailable, match="unknown subject 'nonesuch'"):
        card_of("nonesuch")
    assert card_of("reference").name == "reference"
    assert card_of(Subject("mine", swizzle=print)).operations == ("swizzle",)


def test_a_machine_without_another_process_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(*unused: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    file.write_text("")
    monkeypatch.setattr("nvfp4_moe.verification.task_child.spawn", spawn)
    with pytest.raises(SubjectUnavailable, match="no process can be started for it"):
        card_of(str(file))


def test_a_run_skips_such_a_file_and_does_not_pass(file: Path) -> None:
    file.write_text(EXIT)
    job = subject_job(str(file), level=1, seed=0, fail_on=Finding.CONTRACT)
    (row,) = job.run(lambda cases: None)
    assert (row.outcome.verdict, row.required) == (Verdict.SKIPPED, True)
    assert "exit code 0" in row.outcome.detail
    with pytest.raises(AssertionError, match=r"(?s)does not conform.*exit code 0"):
        assert_conforms(str(file))
    with pytest.raises((TypeError, ValueError), match="got ''"):
        assert_conforms("")


def test_a_replay_and_a_description_go_on(file: Path) -> None:
    file.write_text(EXIT)
    case = {"kind": "rows", "operation": "swizzle", "index": 0, "seed": 0, "rows": 1, "columns": 4}
    document = {"kind": "subject", "subject": "hostile", "level": 1, "check": "golden", "case": case}
    with pytest.raises(CannotReplay, match="exit code 0"):
        replay(document, subject=str(file))
    with pytest.raises(SubjectUnavailable, match="exit code 0"):
        describe(str(file))
