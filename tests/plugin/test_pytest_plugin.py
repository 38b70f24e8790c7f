"""The pytest plugin, in runs of pytest inside this one."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from nvfp4_moe import pytest_plugin
from nvfp4_moe.verification.job import Job
from nvfp4_moe.verification.result import Method, Outcome, Verdict
from nvfp4_moe.verification.rows import Row
from nvfp4_moe.verification.settings import Settings

pytest_plugins = ["pytester"]

DEVICE_TESTS = """
import pytest

@pytest.mark.gpu
def test_on_a_gpu(): ...

@pytest.mark.sm100
def test_on_blackwell(): ...

def test_anywhere(): ...
"""

CONFORMS = """
def test_kernel(nvfp4_conforms):
    result = nvfp4_conforms("reference")
    assert result.exit_code == 0
"""


def inner(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess("-p", pytest_plugin.NAME, "-p", "no:cacheprovider", *arguments)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Make conformance one small job that holds unless the seed is 13; return the settings that it was given."""
    seen: list[Settings] = []

    def jobs(settings: Settings) -> list[Job]:
        seen.append(settings)
        verdict = Verdict.REFUTED if settings.seed == 13 else Verdict.HELD
        row = Row(
            claim_id="quant.golden",
            method=Method.CONFORMANCE,
            outcome=Outcome(verdict=verdict, cases=3, detail="byte 7 is wrong"),
            subject="mine",
        )
        return [Job(name="small", tells=[], work=lambda advance: [row])]

    monkeypatch.setattr("nvfp4_moe.verification.runner.subject_jobs", jobs)
    return seen


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Pretend that this machine has a device of the given capability, or none."""
    capability = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)


@pytest.mark.parametrize(
    ("cuda", "passed", "reasons"),
    [
        (None, 1, [pytest_plugin.GPU_REASON]),
        ((9, 0), 2, [pytest_plugin.SM100_REASON]),
        ((10, 0), 3, []),
    ],
    indirect=["cuda"],
)
@pytest.mark.usefixtures("cuda")
def test_device_tests_run_where_the_device_is(
    passed: int, reasons: list[str], pytester: pytest.Pytester
) -> None:
    result = inner(pytester, DEVICE_TESTS, "-rs", "--strict-markers")
    result.assert_outcomes(passed=passed, skipped=3 - passed)
    result.stdout.fnmatch_lines([f"*{reason}*" for reason in reasons])
    result.stdout.fnmatch_lines([f"nvfp4-moe: {passed - 1} device tests ran, {3 - passed} were skipped"])


@pytest.mark.parametrize("cuda", [(10, 0), None], indirect=True)
@pytest.mark.usefixtures("cuda")
def test_the_device_option_decides_for_all(pytester: pytest.Pytester) -> None:
    inner(pytester, DEVICE_TESTS, "--nvfp4-device=cpu").assert_outcomes(passed=1, skipped=2)
    inner(pytester, DEVICE_TESTS, "--nvfp4-device=cuda").assert_outcomes(passed=3)


class TestRequireGpu:
    @pytest.mark.parametrize(
        ("cuda", "code"),
        [(None, pytest.ExitCode.TESTS_FAILED), ((9, 0), pytest.ExitCode.OK)],
        indirect=["cuda"],
    )
    @pytest.mark.usefixtures("cuda")
    def test_a_run_in_which_no_device_test_ran_fails(self, code: int, pytester: pytest.Pytester) -> None:
        result = inner(pytester, DEVICE_TESTS, "--nvfp4-require-gpu")
        assert result.ret == code
        told = "no device test ran" in result.stdout.str()
        assert told is (code != pytest.ExitCode.OK)

    @pytest.mark.parametrize("cuda", [None], indirect=True)
    @pytest.mark.usefixtures("cuda")
    def test_without_the_option_it_passes(self, pytester: pytest.Pytester) -> None:
        assert inner(pytester, DEVICE_TESTS).ret == pytest.ExitCode.OK

    def test_no_tests_at_all_fail_too(self, pytester: pytest.Pytester) -> None:
        assert inner(pytester, "", "--nvfp4-require-gpu").ret == pytest.ExitCode.TESTS_FAILED

    @pytest.mark.parametrize("cuda", [(10, 0)], indirect=True)
    @pytest.mark.usefixtures("cuda")
    def test_a_test_that_skips_itself_did_not_run(self, pytester: pytest.Pytester) -> None:
        text = "import pytest\n@pytest.mark.gpu\ndef test_it(): pytest.skip('not today')\n"
        assert inner(pytester, text, "--nvfp4-require-gpu").ret == pytest.ExitCode.TESTS_FAILED


class TestConforms:
    def test_options_of_the_command_line_are_given_on(
        self, given: list[Settings], pytester: pytest.Pytester
    ) -> None:
        arguments = ("--nvfp4-level=2", "--nvfp4-seed=5", "--nvfp4-device=cpu")
        inner(pytester, CONFORMS, *arguments).assert_outcomes(passed=1)
        (settings,) = given
        assert (settings.level, settings.seed, settings.device) == (2, 5, "cpu")
        assert settings.subjects == ("reference",)

    def test_a_test_may_say_otherwise(self, given: list[Settings], pytester: pytest.Pytester) -> None:
        text = CONFORMS.replace('"reference"', '"reference", level=1, fail_on="bytes"')
        inner(pytester, text, "--nvfp4-level=2").assert_outcomes(passed=1)
        assert (given[0].level, given[0].fail_on) == (1, "bytes")

    @pytest.mark.usefixtures("given")
    def test_a_finding_fails_the_test_and_is_shown(self, pytester: pytest.Pytester) -> None:
        result = inner(pytester, CONFORMS, "--nvfp4-seed=13")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*mine does not conform:*", "*quant.golden: REFUTED: byte 7 is wrong*"])

    @pytest.mark.parametrize(("seed", "verdict"), [(0, "HELD"), (13, "REFUTED")])
    @pytest.mark.usefixtures("given")
    def test_claims_go_to_json_and_junit_passed_or_failed(
        self, seed: int, verdict: str, pytester: pytest.Pytester
    ) -> None:
        inner(pytester, CONFORMS, f"--nvfp4-seed={seed}", "--nvfp4-json=claims.json", "--junitxml=junit.xml")
        document = json.loads((pytester.path / "claims.json").read_text())
        (entry,) = document["tests"]
        assert entry["test"].endswith("::test_kernel")
        assert [claim["verdict"] for claim in entry["result"]["claims"]] == [verdict]
        properties = ElementTree.parse(pytester.path / "junit.xml").iter("property")
        assert [(p.get("name"), p.get("value")) for p in properties] == [("quant.golden", verdict)]

    def test_a_run_without_calls_writes_an_empty_list(self, pytester: pytest.Pytester) -> None:
        inner(pytester, "def test_other(): ...", "--nvfp4-json=claims.json").assert_outcomes(passed=1)
        assert json.loads((pytester.path / "claims.json").read_text())["tests"] == []


def test_a_level_that_there_is_not_is_refused(pytester: pytest.Pytester) -> None:
    result = inner(pytester, CONFORMS, "--nvfp4-level=7")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nvfp4-level: invalid choice: 7*"])


def test_naming_it_twice_is_harmless(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"pytest_plugins = [{pytest_plugin.NAME!r}]")
    inner(pytester, "def test_it(): ...").assert_outcomes(passed=1)
