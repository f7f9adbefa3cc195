"""Matrix products against NumPy: every combination of ranks, dtypes, memory orders, zero sizes."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DTypeError, ShapeError
from tripoint.schema import rows

SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)),
    ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 1)),
    ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0,), (0,)), ((0,), (0, 2)), ((4, 2, 0), (0, 3)), ((1, 1), (1, 1)),
]  # fmt: skip


def test_every_product_has_a_case():
    assert {n for n, r in rows.items() if r.body.__module__ == "tripoint.ops.linalg"} == {
        "matmul",
        "matmul_nt",
        "matmul_tn",
    }


def values(dtype, shape, seed):
    rng = np.random.default_rng(seed)
    out = rng.integers(-3, 4, shape)
    if dtype.startswith("uint"):
        out = abs(out)
    if dtype.startswith("complex"):
        out = out + 1j * rng.integers(-2, 3, shape)
    return out.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def memories(a):
    yield a
    yield a[..., ::-1].copy()[..., ::-1]
    if a.ndim > 1:
        yield a.swapaxes(-1, -2).copy().swapaxes(-1, -2)


@pytest.mark.parametrize(
    "dtype", ["int8", "int64", "uint8", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
)
def test_matmul(dtype):
    for s1, s2 in SHAPES:
        a, b = values(dtype, s1, 0), values(dtype, s2, 1)
        wide = a.dtype if dtype not in ("float16", "bfloat16") else np.float32
        want = np.matmul(a.astype(wide), b.astype(wide))
        for m1, m2 in itertools.product(memories(a), memories(b)):
            for got in (tp.matmul(tp.asarray(m1), tp.asarray(m2)), tp.asarray(m1) @ tp.asarray(m2)):
                assert got.dtype.name == dtype
                assert got.shape == want.shape
                assert type(got.numpy()) is np.ndarray
                np.testing.assert_array_equal(got.numpy().astype(wide), want)  # small integers are exact in each


def test_integers_wrap_as_numpys_do_and_half_precision_is_accumulated_wide():
    a = tp.full((4,), 100, dtype="int8")
    assert (a @ a).item() == 64
    for dtype in ("float16", "bfloat16"):
        ones = tp.ones((4096,), dtype=dtype)
        assert (ones @ ones).item() == 4096
        assert (ones.reshape(1, -1) @ ones.reshape(-1, 1)).tolist() == [[4096]]


def test_promotion_and_foreign_arrays():
    a, b = np.ones((2, 3)), tp.ones((3, 2))
    for got in (a @ b, tp.matmul(a, b), tp.asarray(a) @ b):
        assert isinstance(got, tp.Tensor)
        assert got.dtype is tp.float64
    assert (b @ a).tolist() == (b.numpy() @ a).tolist()
    assert (tp.ones((2, 2), dtype="int8") @ tp.ones((2, 2), dtype="int64")).dtype is tp.int64
    assert (tp.ones((2, 2), dtype="int64") @ tp.ones((2, 2), dtype="float16")).dtype is tp.float16
    assert (tp.ones((2, 2), dtype="bfloat16") @ tp.ones((2, 2), dtype="float16")).dtype is tp.float32


def test_results_of_no_dimensions_are_real_arrays():
    out = tp.ones((3,)) @ tp.ones((3,))
    out[...] = 5
    assert out.reshape((1,)).tolist() == [5]


def test_nan_and_infinities_pass():
    x = tp.asarray([[np.inf, 1.0], [np.nan, 2.0]])
    got = (x @ tp.asarray([[0.0], [1.0]])).numpy()
    assert np.isnan(got).all()


def test_refusals():
    x = tp.ones((2, 3))
    for call, kind, words in [
        (lambda: x @ x, ShapeError, r"\(2, 3\) and \(2, 3\) have inner sizes 3 and 2"),
        (lambda: x @ tp.asarray(1.0), ShapeError, r"\(2, 3\) and \(\)"),
        (lambda: tp.asarray(1.0) @ tp.asarray(1.0), ShapeError, r"\(\) and \(\)"),
        (lambda: x @ tp.ones((2,)), ShapeError, "3 and 2"),
        (lambda: tp.ones((2, 2, 3)) @ tp.ones((3, 3, 1)), ShapeError, r"\(2,\) and \(3,\)"),
        (lambda: tp.ones((2, 2), dtype="bool") @ tp.ones((2, 2), dtype="bool"), DTypeError, "not bool"),
        (lambda: tp.matmul(x, 2.0), ArgumentError, r"x2 must be a tensor, not the float 2\.0"),
        (lambda: tp.matmul(2.0, x), ArgumentError, "x1 must be a tensor"),
        (lambda: tp.matmul(x, [1.0]), ArgumentError, "x2 must be a tensor"),
    ]:
        with pytest.raises(kind, match=words):
            call()


@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "complex128"])
def test_products_with_a_transposed_operand(shape, dtype):
    a, b = values(dtype, (*shape, 2, 3), 0), values(dtype, (5, 3), 1)
    want = a @ b.swapaxes(-1, -2)
    got = rows["matmul_nt"].call(tp.asarray(a), tp.asarray(b))
    np.testing.assert_array_equal(got.numpy(), want)
    got = rows["matmul_tn"].call(tp.asarray(a.swapaxes(-1, -2)), tp.asarray(b.T))
    np.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(ShapeError, match="inner sizes"):
        rows["matmul_nt"].call(tp.asarray(a), tp.asarray(b.T))
