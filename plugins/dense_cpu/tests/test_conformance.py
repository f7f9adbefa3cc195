"""The conformance kit on ``cpu.strided``."""

from __future__ import annotations

from tripoint import conformance


def test_every_operator_passes_in_every_tier() -> None:
    report = conformance.run("cpu.strided")
    assert report.ok, report.text()
    without = {v.operator: v.reason for v in report.verdicts if v.verdict == "unsupported"}
    assert set(without) <= {"dlpack", "save"}, "what this version of Tripoint does not have"
    assert all("not in this version" in reason for reason in without.values())
