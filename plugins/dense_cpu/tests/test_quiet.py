"""No floating-point warning of NumPy leaks from an operator, and the caller's `numpy.seterr` changes nothing.

The operators run on the numbers that make NumPy warn, with warnings as errors and under ``numpy.seterr(all="raise")``.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tripoint as tp
from tripoint import nn
from tripoint.plugin import row_of
from tripoint.schema import rows

FLOATS = ["float16", "bfloat16", "float32", "float64"]
WIDE = {"float16": (6e4, 6e-8), "bfloat16": (3e38, 1e-40), "float32": (3e38, 1e-45), "float64": (1.7e308, 5e-324)}


def numbers(dtype):
    big, tiny = WIDE[dtype]
    wide = tp.asarray([np.nan, np.inf, -np.inf, 0.0, -0.0, big, -big, tiny, 1.0, -1.0], dtype="float64")
    return wide.to(dtype=dtype)


def calls():
    """(label, function of a float tensor), for every operator that computes."""
    out = []
    for name, row in sorted(rows.items()):
        if row.package != "tripoint" or row.kind not in ("elementwise", "reduction", "select"):
            continue
        if name.startswith("bitwise"):
            continue
        if row.mutates is not None:
            continue  # below
        tensors = len(row.operands)
        if name == "where":
            out.append((name, lambda x: tp.where(x > 0, x, x.reshape((-1, 1)))))
            out.append(("where with a number", lambda x: tp.where(x > 0, x, 1e300)))
        elif tensors == 1:
            out.append((name, row.call))
            if row.kind == "reduction":
                out.append((f"{name} of a matrix", lambda x, c=row.call: c(x.reshape((2, -1)), axis=1)))
        else:
            out.append((name, lambda x, c=row.call: c(x, x.reshape((-1, 1)))))
            if row.operands[1].number:
                for n in (0, 0.0, 2.5, 1e300, -1e-300, float("nan"), float("inf")):
                    out.append((f"{name} with {n}", lambda x, c=row.call, n=n: c(x, n)))
                    out.append((f"{name} of {n} with", lambda x, c=row.call, n=n: c(n, x)))
    matrix = (2, 5)
    more = {
        "clip": lambda x: tp.clip(x, -1e300, 1e300),
        "mean": tp.mean,
        "mean of nothing": lambda x: tp.mean(x[:0]),
        "softmax": lambda x: tp.softmax(x),
        "softmax of rows": lambda x: tp.softmax(x.reshape(matrix), axis=0),
        "softmax by parts": lambda x: rows["softmax"].body(x, axis=-1),
        "log_softmax": nn.log_softmax,
        "log_softmax by parts": lambda x: rows["log_softmax"].body(x, axis=-1),
        "cross_entropy": lambda x: nn.cross_entropy(x.reshape(matrix), tp.asarray([0, 4])),
        "cross_entropy of nothing": lambda x: nn.cross_entropy(x.reshape(matrix)[:0], tp.asarray([1])[:0]),
        "nll_loss": lambda x: rows["nll_loss"].call(x.reshape(matrix), tp.asarray([0, 4])),
        "nll_loss_back": lambda x: rows["nll_loss_back"].call(x[0], tp.asarray([0, 4]), shape=matrix),
        "sum_leading": lambda x: rows["sum_leading"].call(x.reshape(matrix), shape=(5,)),
        "log_softmax_back": lambda x: rows["log_softmax_back"].call(x, x, axis=0),
        "matmul_nt": lambda x: rows["matmul_nt"].call(x.reshape(matrix), x.reshape(matrix)),
        "matmul_tn": lambda x: rows["matmul_tn"].call(x.reshape(matrix), x.reshape(matrix)),
        "matmul": lambda x: x @ x,
        "matmul of matrices": lambda x: x.reshape(matrix) @ x.reshape((5, 2)),
        "matmul of stacks": lambda x: x.reshape((1, *matrix)) @ x.reshape((1, 5, 2)),
        "conv2d": lambda x: nn.conv2d(x.reshape((1, 1, 2, 5)), x[:4].reshape((1, 1, 2, 2)), x[5:6]),
        "max_pool2d": lambda x: nn.max_pool2d(x.reshape((1, 1, 2, 5)), kernel_size=2, padding=1),
        "to float16": lambda x: x.to(dtype="float16"),
        "to bfloat16": lambda x: x.to(dtype="bfloat16"),
        "to float32": lambda x: tp.astype(x, "float32"),
        "to int8": lambda x: x.to(dtype="int8") * 0,
        "to int64": lambda x: x.to(dtype="int64") * 0,
        "to uint8": lambda x: tp.astype(x, "uint8") * 0,
        "to bool": lambda x: x.to(dtype=bool),
        "complex": lambda x: tp.exp(x * 1j) / (x * 0j),
        "sum in float16": lambda x: tp.sum(x, dtype="float16"),
        "sum in int64": lambda x: tp.sum(x, dtype="int64") * 0,
        "concat": lambda x: tp.concat([tp.asarray([70000]), x, x.to(dtype="float16")]),
        "casting an operand": lambda x: x.to(dtype="float16") + tp.asarray([70000]),
        "take_back": lambda x: rows["take_back"].call(x, tp.asarray([0] * 10), shape=(1,), axis=0),
        "full": lambda x: tp.full((2,), 1e300, dtype=x.dtype),
        "assign": lambda x: rows["assign"].call(x, 1e300),
        "assign a wide tensor": lambda x: rows["assign"].call(x, tp.asarray([1e300], dtype="float64")),
        "tolist": lambda x: tp.asarray(x.tolist(), dtype="float16"),
        "asarray": lambda x: tp.asarray(x.to(dtype="float64").numpy(), dtype="float16"),
        "asarray of whole": lambda x: tp.asarray(x.to(dtype="float64").numpy(), dtype="int64") * 0,
        "arange": lambda x: tp.arange(0, 10**6, 10**5, dtype="float16"),
    }
    return out + list(more.items())


INPLACE = [
    (f"{name} {n}", row, n)
    for name, row in sorted(rows.items())
    if row.mutates is not None and row.package == "tripoint" and not name.startswith("bitwise")
    for n in (["itself", "wide", 0.0, 1e300, -1e-300, float("nan")] if len(row.operands) == 2 else [None])
]


def write(row, x, n):
    x = x.copy()
    if n is None:
        return row.call(x)
    if n == "itself":
        return row.call(x, x[::-1])
    return row.call(x, tp.asarray([1e300, -1e300], dtype="float64")[:1]) if n == "wide" else row.call(x, n)


def outcome(fn, x):
    try:
        out = fn(x)
    except FloatingPointError:
        raise
    except tp.errors.TripointError as error:
        return type(error)
    return out.dtype.name, out.shape, out.to(dtype="complex128").numpy().tobytes()


def settings(mode):
    return {"loud": lambda: np.errstate(all="warn"), "raise": lambda: np.errstate(all="raise")}[mode]()


@pytest.mark.parametrize("mode", ["loud", "raise"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_operators(dtype, mode):
    x = numbers(dtype)
    for label, fn in calls():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = outcome(fn, x)
        with settings(mode), warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):  # the miss, and the plan
                assert outcome(fn, x) == want, label


@pytest.mark.parametrize("mode", ["loud", "raise"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("copies", [1, 2000])
def test_inplace_forms_write_everything(dtype, mode, copies):
    x = tp.concat([numbers(dtype)] * copies)
    for label, row, n in INPLACE:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = outcome(lambda x, row=row, n=n: write(row, x, n), x)
        with settings(mode), warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                assert outcome(lambda x, row=row, n=n: write(row, x, n), x) == want, label


@pytest.mark.parametrize("mode", ["loud", "raise"])
def test_integers(mode):
    low = tp.asarray(np.array([-128, 127, 0, 1], np.int8))
    cases = [
        lambda: low // -1, lambda: low // 0, lambda: low % 0, lambda: low * 100, lambda: abs(low), lambda: -low, lambda: low**3,
        lambda: low / 0, lambda: tp.asarray(0) // tp.asarray(0), lambda: tp.log(low), lambda: low.__ifloordiv__(1),
        lambda: tp.asarray([1]) % tp.asarray([0]), lambda: tp.prod(tp.full((70,), 2)), lambda: tp.sum(tp.full((4,), 2**62)),
    ]  # fmt: skip
    with settings(mode), warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in cases:
            case()
    assert (tp.asarray([5, -5]) // 0).tolist() == [0, 0]


@pytest.mark.parametrize("mode", ["loud", "raise"])
def test_gradients(mode):
    with settings(mode), warnings.catch_warnings():
        warnings.simplefilter("error")
        for label, fn in calls():
            x = numbers("float32").requires_grad_()
            try:
                out = fn(x)
            except tp.errors.TripointError:
                continue
            if out.requires_grad:
                try:
                    (out * out).sum().backward()
                except tp.errors.NotBuiltYetError:
                    continue
                except FloatingPointError as error:
                    raise AssertionError(label) from error


def test_printing_is_quiet():
    with settings("raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in FLOATS:
            assert "nan" in repr(numbers(dtype))


def test_the_users_own_warnings_are_not_swallowed():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tp.asarray([1.0]) / 0
        np.divide(np.ones(1), 0)
        warnings.warn("mine", stacklevel=1)
    assert [str(w.message) for w in seen] == ["divide by zero encountered in divide", "mine"]
    before = np.geterr()
    with np.errstate(all="raise"):
        tp.asarray([1.0]) / 0
        assert np.geterr() == dict.fromkeys(before, "raise")
    assert np.geterr() == before
    assert row_of(tp.divide).name == "divide"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["add_", "subtract_", "multiply_", "divide_"])
def test_operands_that_overlap_are_read_before_anything_is_written(dtype, name):
    functional = rows[name].functional.call
    big = float(np.finfo("float16" if dtype == "float16" else "float32").max) if dtype != "float64" else 1e308
    values = [1.0, big, big, 0.0, 5.0, 7.0]
    parts = [
        (slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1)), (slice(0, 3), slice(None, None, 2)),
        (slice(None, None, 2), slice(0, 3)), (slice(None), slice(None, None, -1)),
    ]  # fmt: skip
    for left, right in parts:
        for how in ("ignore", "raise"):
            x = tp.asarray(values, dtype=dtype)
            want = functional(x[left], x[right].copy())
            with np.errstate(all=how):
                rows[name].call(x[left], x[right])
            np.testing.assert_array_equal(x[left].to(dtype="float64").numpy(), want.to(dtype="float64").numpy())
        x, y = tp.asarray(values, dtype=dtype), tp.asarray(values, dtype=dtype)
        x[left] = x[right]
        y[left] = y[right].copy()
        assert x.tolist() == y.tolist()
