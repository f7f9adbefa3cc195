"""What pytest collects: every unit of the kit, see ``tripoint.conformance.plugin``."""

from __future__ import annotations

from tripoint.conformance.report import Verdict
from tripoint.conformance.script import ConformanceFailure
from tripoint.conformance.session import Session


def test_operator(conformance_verdict: Verdict) -> None:
    """One operator in one tier."""
    if conformance_verdict.verdict == "fail":
        raise ConformanceFailure.of(conformance_verdict.operator, conformance_verdict.details())


def test_declarations(conformance_session: Session) -> None:
    """Nothing is declared that does not hold: known failures that pass, lacks that nothing is refused for."""
    stale = conformance_session.stale()
    if stale:
        raise ConformanceFailure.of("declarations", "\n".join(f"{v.operator}: {v.reason}" for v in stale))
