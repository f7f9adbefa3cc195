"""The kit on backends that are wrong on purpose: each fault is caught by the tier that is meant for it, and shown."""

from __future__ import annotations

import contextlib
import io

import pytest
from faults import FAULTS as OLDER
from faults import Fault
from faults_of_memory import MEMORY
from faults_of_numbers import NUMBERS
from toys import toy

from tripoint import conformance
from tripoint.plugin import register

FAULTS = [*OLDER, *NUMBERS, *MEMORY]


def ran(text: str) -> tuple[list[str], BaseException | None]:
    """What a program prints, and what it raises."""
    out = io.StringIO()
    error = None
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, "<pasted>", "exec"), {"__name__": "pasted"})
        except Exception as raised:
            error = raised
    return out.getvalue().splitlines(), error


def test_the_right_backend_passes_every_tier() -> None:
    register(toy("kiln"))
    report = conformance.run("kiln.strided")
    assert report.ok, report.text()
    assert report.counts()["pass"] > 200


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
def test_a_fault_is_caught_by_its_tier_and_shown(fault: Fault) -> None:
    register(toy("flawed", fault.spoil))
    operators = (fault.operator, *fault.with_)
    report = conformance.run("flawed.strided", tiers=range(fault.tier + 1), operators=operators)
    failing = [(v.tier, v.operator) for v in report.verdicts if v.verdict == "fail"]
    assert failing == [(fault.tier, fault.operator)], report.text()
    assert not report.ok
    assert report.failures
    for failure in report.failures[:5]:
        assert len(failure.reproducer.splitlines()) <= 12, failure.reproducer
        printed, error = ran(failure.reproducer)
        if error is not None:
            assert f"# raises {type(error).__name__}" in failure.reproducer
        else:
            assert printed[-2].startswith("got ")
            assert printed[-1].startswith("want")
            assert printed[-2].removeprefix("got ") != printed[-1].removeprefix("want")


def test_a_later_tier_is_blocked() -> None:
    fault = next(f for f in FAULTS if f.name == "aliasing copy")
    register(toy("flawed", fault.spoil))
    report = conformance.run("flawed.strided", operators=["copy", "add"])
    blocked = {v.tier for v in report.verdicts if v.verdict == "blocked"}
    assert blocked == {1, 2, 4, 5, 6}
    assert all("copy" in v.reason for v in report.verdicts if v.verdict == "blocked")
