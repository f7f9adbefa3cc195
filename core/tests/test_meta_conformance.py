"""The conformance kit on ``meta.strided``: shapes and dtypes of every operator, and what must be refused."""

from __future__ import annotations

from tripoint import conformance
from tripoint.conformance.records import RECORDS


def test_shapes_and_dtypes_of_every_operator() -> None:
    report = conformance.run("meta.strided")
    assert report.ok, report.text()
    assert {name for name in RECORDS if report.of(name) != "pass"} == {"to_list"}
