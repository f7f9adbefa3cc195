"""The plugin for pytest: ``python -m pytest -p tripoint.conformance.plugin --pyargs tripoint.conformance --backend NAME``.

It announces itself to nobody: without ``-p`` pytest does not load it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tripoint.conformance.command import check_writable, session_of
from tripoint.conformance.report import Report, Verdict
from tripoint.conformance.script import ConformanceFailure
from tripoint.conformance.session import Session, Unit
from tripoint.errors import TripointError

_session = pytest.StashKey[Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the kit."""
    group = parser.getgroup("tripoint", "conformance of a Tripoint backend")
    group.addoption("--backend", help="its point, such as cpu.strided or cpu.strided.qint8")
    group.addoption("--tiers", help="tiers separated by commas, 0 to 6")
    group.addoption("--operators", help="operators or patterns separated by commas, such as add,'mylib::*'")
    group.addoption("--known-failures", metavar="FILE", help="TOML or JSON file of failures that are known")
    group.addoption(
        "--conformance-report", action="append", default=[], metavar="FILE", help="write .txt, .json, .xml or .md"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the session."""
    backend = config.getoption("--backend")
    if backend is None:
        if config.pluginmanager.has_plugin("tripoint.conformance.plugin"):
            raise pytest.UsageError("name the backend to check: --backend cpu.strided")
        return
    words = [config.getoption(name) for name in ("--tiers", "--operators", "--known-failures")]
    try:
        if not hasattr(config, "workerinput"):  # of several processes one writes
            check_writable(config.getoption("--conformance-report"))
        config.stash[_session] = session_of(backend, *words)
    except TripointError as error:
        raise pytest.UsageError(f"{type(error).__name__}: {' '.join(str(error).split())}") from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each operator and tier, and one for what is declared and does not hold."""
    session = metafunc.config.stash.get(_session, None)
    if session is not None and "conformance_unit" in metafunc.fixturenames:
        ids = [f"tier{u.tier}-{u.name}" for u in session.units]
        metafunc.parametrize("conformance_unit", session.units, ids=ids)


@pytest.fixture
def conformance_session(request: pytest.FixtureRequest) -> Session:
    """The session of this run."""
    return request.config.stash[_session]


@pytest.fixture
def conformance_verdict(conformance_session: Session, conformance_unit: Unit) -> Verdict:
    """What comes of one unit; what is no pass and no failure is a skip with its reason."""
    verdict = conformance_session.verdict(conformance_unit)
    if verdict.verdict == "known":
        pytest.xfail(verdict.reason)
    if verdict.verdict in ("unsupported", "blocked"):
        pytest.skip(f"{verdict.verdict}: {verdict.operator}, tier {verdict.tier}: {verdict.reason}")
    return verdict


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """What is blocked is told apart from what is skipped; declarations that hold are no verdict and not counted."""
    if (
        report.skipped
        and isinstance(report.longrepr, (tuple, list))
        and report.longrepr[2].startswith("Skipped: blocked: ")
    ):
        return "blocked", "b", "BLOCKED"
    if report.when == "call" and report.passed and report.nodeid.endswith("::test_declarations"):
        return "", ".", "PASSED"
    return None


def pytest_exception_interact(call: pytest.CallInfo[Any], report: Any) -> None:
    """A failure is shown as its reproducer, without the frames of the kit."""
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, ConformanceFailure):
        report.longrepr = str(error)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The reports that were asked for, and the counts of verdicts."""
    session = config.stash.get(_session, None)
    if session is None:
        return
    paths = config.getoption("--conformance-report")
    if paths:
        write(session.report(), paths)
        terminalreporter.write_line(f"conformance of {session.target.name}: {', '.join(paths)}")


def write(report: Report, paths: list[str]) -> None:
    """Write a report to files; what is in them goes by the ends of their names."""
    makers = {".json": report.json, ".xml": report.junit, ".md": report.markdown}
    for path in paths:
        Path(path).write_text(makers.get(Path(path).suffix, report.text)(), encoding="utf-8")
