"""The conformance kit on ``cpu.strided.qint8`` and ``cpu.strided.quint8``."""

from __future__ import annotations

import pytest

from tripoint import conformance

COMPUTES = {
    "copy", "copy.copy", "expand_dims", "flatten", "flip", "getitem", "linear", "matmul", "matmul_nt", "matmul_tn",
    "matrix_transpose", "permute_dims", "positive", "print", "reshape", "squeeze", "threads", "to", "to_list",
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
def test_what_quantized_tensors_compute_passes(dtype: str) -> None:
    report = conformance.run(f"cpu.strided.{dtype}")
    assert report.ok, report.text()
    assert {name for name in COMPUTES if report.of(name) != "pass"} == set()
    assert all(v.reason for v in report.verdicts if v.verdict == "unsupported")
