"""The conformance kit: what a plugin's author runs against a backend.

``run("cpu.strided")`` gives a `Report`. The same checks are tests for pytest, each one an operator in a tier::

    python -m pytest -p tripoint.conformance.plugin --pyargs tripoint.conformance --backend cpu.strided

pytest is needed for that only. What a backend does not do is declared by its author, see `tripoint.plugin.Capabilities`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tripoint.conformance.command import main as main
from tripoint.conformance.report import Report as Report
from tripoint.conformance.report import Verdict as Verdict
from tripoint.conformance.script import ConformanceFailure as ConformanceFailure
from tripoint.conformance.session import TIERS as TIERS
from tripoint.conformance.session import Session as Session

__all__ = ["TIERS", "ConformanceFailure", "Report", "Session", "Verdict", "main", "run"]


def run(
    backend: str,
    *,
    tiers: Iterable[int] | None = None,
    operators: Iterable[str] | None = None,
    known_failures: str | Path | Iterable[Mapping[str, str]] | None = None,
) -> Report:
    """Check a backend.

    Args:
        backend: name of its point, such as ``"cpu.strided"`` or ``"cpu.strided.qint8"``.
        tiers: which of `TIERS`; all of them unless given.
        operators: names of operators, or patterns such as ``"mylib::*"``; all of the core's unless given. Those of others are
            checked by the samples that they are declared with.
        known_failures: a TOML or JSON file, or its entries: mappings with ``operator``, ``reason`` and perhaps ``dtype``.
            Without it the file that the backend declares.

    Raises:
        ArgumentError: a name that there is not, or samples that do not fit their operator.
        TripointError: nothing provides the point, or its hardware cannot be used.
    """
    return Session(backend, tiers=tiers, operators=operators, known_failures=known_failures).report()
