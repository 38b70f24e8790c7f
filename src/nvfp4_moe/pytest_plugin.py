"""The pytest plugin: hold kernels to the golden model from a project's own tests.

    def test_quantizer(nvfp4_conforms):
        nvfp4_conforms(my_module)                          # a Subject, an object or module with operations, or a name

`nvfp4_conforms` takes what `nvfp4_moe.verification.assert_conforms` takes; level, seed and device come from the
command line where a test does not give them. Marker `gpu`: the test needs a CUDA device; `sm100`: a Blackwell one. Such
tests are skipped where the device is missing, or with `--nvfp4-device cpu`; with `--nvfp4-device cuda` none is skipped.
The skipped ones are counted, and with `--nvfp4-require-gpu` a run in which no device test ran fails.

Loading the plugin imports neither torch nor the toolkit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from nvfp4_moe.verification.result import Result

NAME = "nvfp4_moe.pytest_plugin"
"""Name under which the entry point registers it: that of the module, so that naming it in a conftest is harmless."""

GPU_REASON = "needs a CUDA device"
SM100_REASON = "needs a Blackwell device (compute capability 10.0 or newer)"
DEVICE_REASON = "needs a CUDA device, and --nvfp4-device is cpu"
BLACKWELL = (10, 0)
MARKERS = {"gpu": "needs a CUDA device", "sm100": "needs a Blackwell device"}

Conforms = Callable[..., "Result"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("nvfp4-moe")
    group.addoption(
        "--nvfp4-level",
        type=int,
        choices=(1, 2),
        default=1,
        help="Level of conformance: 1 takes about a minute a subject, 2 several.",
    )
    group.addoption("--nvfp4-seed", type=int, default=0, metavar="N", help="Seed of the cases.")
    group.addoption(
        "--nvfp4-device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: tests marked gpu or sm100 run where the device is; cpu: never; cuda: always.",
    )
    group.addoption(
        "--nvfp4-json", metavar="FILE", help="Write the claims of every nvfp4_conforms call to FILE."
    )
    group.addoption(
        "--nvfp4-require-gpu",
        action="store_true",
        help="Fail a run in which no test marked gpu or sm100 ran.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers and begin to watch the run."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.register(_Watch(config), f"{NAME}.watch")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip the device tests that this machine cannot run."""
    device = config.getoption("--nvfp4-device")
    for item in items:
        needs = [name for name in MARKERS if item.get_closest_marker(name)]
        if not needs or device == "cuda":
            continue
        reason = DEVICE_REASON if device == "cpu" else _missing_device("sm100" in needs)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing_device(blackwell: bool) -> str | None:
    """Return why a device test cannot run on this machine, or None."""
    import torch  # a run without device tests need not load it

    if not torch.cuda.is_available():
        return GPU_REASON
    if blackwell and torch.cuda.get_device_capability() < BLACKWELL:
        return SM100_REASON
    return None


class _Watch:
    """What happened in a run: results for the JSON file, device tests that ran or were skipped."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.results: list[dict[str, Any]] = []
        self.ran = 0
        self.skipped = 0

    def add(self, test: str, result: Result) -> None:
        """Add the result of one call."""
        self.results.append({"test": test, "result": result.to_json()})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not any(name in report.keywords for name in MARKERS):
            return
        if report.when == "call" and not (report.skipped and not hasattr(report, "wasxfail")):
            self.ran += 1
        elif report.skipped:
            self.skipped += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        path = self._config.getoption("--nvfp4-json")
        if path is not None and not self._has_workers():
            _write(self._path(Path(path)), self.results)
        if self._lacks_gpu_tests() and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self.ran or self.skipped:
            terminalreporter.write_line(
                f"nvfp4-moe: {self.ran} device tests ran, {self.skipped} were skipped"
            )
        if self._lacks_gpu_tests():
            terminalreporter.write_line("nvfp4-moe: --nvfp4-require-gpu, but no device test ran", red=True)

    def _lacks_gpu_tests(self) -> bool:
        """Under xdist the controller alone sees the reports of all, and judges."""
        required = self._config.getoption("--nvfp4-require-gpu") and not self._worker()
        return bool(required) and not self.ran and not self._config.getoption("collectonly")

    def _worker(self) -> str:
        return str(getattr(self._config, "workerinput", {}).get("workerid", ""))

    def _has_workers(self) -> bool:
        """Whether this is the controller of xdist's workers, each of which writes a file of its own."""
        return not self._worker() and bool(self._config.getoption("numprocesses", None))

    def _path(self, path: Path) -> Path:
        worker = self._worker()
        return path.with_suffix(f".{worker}{path.suffix}") if worker else path


def _write(path: Path, results: list[dict[str, Any]]) -> None:
    """Write through a temporary name, so that a reader sees all of it or nothing."""
    document = {"schema": 1, "tests": results}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


@pytest.fixture
def nvfp4_conforms(request: pytest.FixtureRequest) -> Conforms:
    """Hold a subject to the golden model: `assert_conforms` with the options of the command line.

    The claims go to the file of `--nvfp4-json` and, as a property each, to pytest's JUnit file.
    """
    from nvfp4_moe.verification.runner import check_conformance, raise_findings

    config = request.config
    watch = config.pluginmanager.get_plugin(f"{NAME}.watch")
    assert isinstance(watch, _Watch)
    defaults = {
        "level": config.getoption("--nvfp4-level"),
        "seed": config.getoption("--nvfp4-seed"),
        "device": config.getoption("--nvfp4-device"),
    }

    def conforms(subject: object, **options: Any) -> Result:
        result = check_conformance(subject, **defaults | options)
        watch.add(request.node.nodeid, result)
        request.node.user_properties.extend((claim.id, str(claim.verdict)) for claim in result.claims)
        raise_findings(result)
        return result

    return conforms
