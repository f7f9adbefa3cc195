"""The conformance kit on ``cpu.blocked``: images of four axes, most operators by way of strided memory."""

from __future__ import annotations

from tripoint import conformance
from tripoint.conformance.records import RECORDS

#: operators whose operands never have four axes.
OTHER_AXES = {"cross_entropy", "linear", "nll_loss", "nll_loss_back", "pick", "pick_back", "ramp"}


def test_every_operator_on_images_passes() -> None:
    report = conformance.run("cpu.blocked")
    assert report.ok, report.text()
    floating = {name for name, record in RECORDS.items() if {"float32", "bool"} & set(record.dtypes)}
    integers = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"}  # here of bools only
    assert {name for name in floating - OTHER_AXES - integers if report.of(name) != "pass"} == set()
    assert {name for name in OTHER_AXES if report.of(name) != "unsupported"} == set()
    assert all(v.reason for v in report.verdicts if v.verdict == "unsupported")
