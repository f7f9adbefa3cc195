"""The conformance kit on ``cpu.sparse_coo``."""

from __future__ import annotations

from tripoint import conformance

COMPUTES = {
    "abs", "add", "add_", "astype", "copy", "copy.copy", "getitem", "getitem_back", "matmul", "matmul_nt", "matmul_tn",
    "matrix_transpose", "max", "min", "mean", "multiply", "multiply_", "negative", "negative_", "permute_dims", "print", "relu",
    "second order", "sign", "sin", "sqrt", "square", "subtract", "subtract_", "sum", "sum_leading", "take", "take_back", "tanh",
    "threads", "to", "to_list", "zeros", "layer", "accumulation", "from_data",
}  # fmt: skip


def test_what_coo_computes_passes() -> None:
    report = conformance.run("cpu.sparse_coo")
    assert report.ok, report.text()
    assert {name for name in COMPUTES if report.of(name) != "pass"} == set()
    assert all(v.reason for v in report.verdicts if v.verdict == "unsupported")
