"""Operators on sparse tensors. Oracle: NumPy and SciPy on the same numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

import tripoint as tp
from tripoint.errors import LayoutError, NoKernelError, ShapeError
from tripoint.plugin import payload
from tripoint_sparse_coo._coo import is_canonical

REAL = [tp.int8, tp.uint8, tp.int32, tp.int64, tp.uint64, tp.float16, tp.bfloat16, tp.float32, tp.float64]


def dense(s: tp.Tensor) -> np.ndarray:
    return s.to(layout="strided").numpy()


def messy(shape: tuple[int, ...], seed: int, count: int = 20, dtype=np.float32) -> tuple[tp.Tensor, np.ndarray]:
    """A sparse tensor with duplicates, disorder and a stored zero, and the array that it is."""
    rng = np.random.default_rng(seed)
    count = count if all(shape) else 0
    indices = np.array([rng.integers(0, s, count) for s in shape], np.int64).reshape(len(shape), count)
    values = rng.integers(-3, 4, count).astype(dtype)
    a = np.zeros(shape, dtype)
    np.add.at(a, tuple(indices) if shape else (), values if shape else values.sum())
    return tp.sparse.coo(indices, values, shape), a


@pytest.mark.parametrize("dtype", [*REAL, tp.complex64], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_matmul_with_dense_both_ways(dtype, m, k, n):
    rng = np.random.default_rng(1)
    s, _ = messy((m, k), 2)
    s = (
        s.to(dtype=tp.int32).to(dtype=dtype)
        if dtype is not tp.uint8 and dtype is not tp.uint64
        else abs(s).to(dtype=dtype)
    )
    reference = s.to(layout="strided").to(dtype=tp.complex128).numpy()
    b = rng.integers(0, 4, (k, n))
    c = rng.integers(0, 4, (n, m))
    for out, want in (
        (s @ tp.asarray(b).to(dtype=dtype), reference @ b),
        (tp.asarray(c).to(dtype=dtype) @ s, c @ reference),
        (
            s @ tp.asarray(b[:, 0] if n else np.zeros(k, int)).to(dtype=dtype),
            reference @ (b[:, 0] if n else np.zeros(k)),
        ),
        (tp.asarray(c[0] if n else np.zeros(m, int)).to(dtype=dtype) @ s, (c[0] if n else np.zeros(m)) @ reference),
    ):
        assert out.layout.name == "strided"
        assert out.dtype is dtype
        assert out.shape == want.shape
        np.testing.assert_array_equal(out.to(dtype=tp.complex128).numpy(), want)


def test_matmul_promotes():
    s, a = messy((3, 4), 0, dtype=np.int32)
    b = np.linspace(0, 1, 8, dtype=np.float64).reshape(4, 2)
    out = s @ tp.asarray(b)
    assert out.dtype is tp.float64
    np.testing.assert_allclose(out.numpy(), scipy.sparse.csr_array(a) @ b)


def test_matmul_takes_views():
    s, a = messy((3, 4), 0)
    b = np.arange(24, dtype=np.float32).reshape(3, 8)
    x = tp.asarray(b)[:, ::2]
    np.testing.assert_array_equal((s @ x.T).numpy(), a @ b[:, ::2].T)
    np.testing.assert_array_equal((x.T @ s).numpy(), b[:, ::2].T @ a)


def test_matmul_refuses():
    s, _ = messy((3, 4), 0)
    with pytest.raises(ShapeError, match="inner sizes 4 and 3"):
        s @ tp.zeros((3, 4))
    with pytest.raises(ShapeError, match="inner sizes"):
        tp.zeros((4, 4)) @ s
    with pytest.raises(ShapeError, match="vector or matrix"):
        s @ tp.zeros((2, 4, 3))
    with pytest.raises(ShapeError, match="two axes"):
        tp.zeros(4, layout="sparse_coo") @ tp.zeros((4, 2))
    with pytest.raises(ShapeError, match="inner sizes"):
        s @ s


@pytest.mark.parametrize("dtype", [*REAL, tp.complex64], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_matmul_of_two_sparse_matrices(dtype, m, k, n):
    (s, _), (t, _) = messy((m, k), 1), messy((k, n), 2)
    s, t = abs(s).to(dtype=dtype), abs(t).to(dtype=dtype)
    out = s @ t
    a, b = (x.to(layout="strided", dtype=tp.complex128).numpy() for x in (s, t))
    assert (out.layout.name, out.dtype, out.shape, out.is_canonical) == ("sparse_coo", dtype, (m, n), True)
    assert is_canonical(payload(out).indices)
    np.testing.assert_array_equal(out.to(layout="strided", dtype=tp.complex128).numpy(), a @ b)


def test_a_product_that_cancels_stays_stored():
    out = tp.asarray([[1.0, 1.0]]).to(layout="sparse_coo") @ tp.asarray([[1.0], [-1.0]]).to(layout="sparse_coo")
    assert (out.nnz, out.values.tolist()) == (1, [0.0])


@pytest.mark.parametrize("other", [(3, 4), (4,), (1, 4), (3, 1), (1, 1), (), (1,)])
def test_multiply_with_dense_commutes_and_stays_sparse(other):
    s, a = messy((3, 4), 3)
    b = np.random.default_rng(0).integers(-3, 4, other).astype(np.float32)
    for out in (s * tp.asarray(b), tp.asarray(b) * s):
        assert out.layout.name == "sparse_coo"
        assert out.nnz == s.nnz  # the pattern stays, stored zeros too
        np.testing.assert_array_equal(dense(out), a * b)


def test_multiply_refuses_to_grow():
    s, _ = messy((3, 4), 0)
    for shape in ((2, 3, 4), (5, 1, 1)):
        with pytest.raises(LayoutError, match="sparse operand's shape"):
            s * tp.ones(shape)
    with pytest.raises(ShapeError, match="broadcast"):
        s * tp.ones(3)
    with pytest.raises(ShapeError):
        s * tp.zeros((3, 1), layout="sparse_coo")


def test_scalars():
    s, a = messy((3, 4), 1, dtype=np.int32)
    assert (s * 2).dtype is tp.int32
    np.testing.assert_array_equal(dense(s * 2), a * 2)
    assert (2.5 * s).dtype is tp.float32
    np.testing.assert_array_equal(dense(2.5 * s), a * 2.5)
    np.testing.assert_array_equal(dense(s * 1j), a * 1j)


# B12, B19 -------------------------------------------------------------------------------------------------------------


def test_sums_commute_across_layouts():
    s, a = messy((3, 4), 1)
    b = np.arange(12, dtype=np.float32).reshape(3, 4)
    d = tp.asarray(b)
    for out, want in ((s + d, a + b), (d + s, b + a), (s - d, a - b), (d - s, b - a)):
        assert out.layout.name == "strided"
        np.testing.assert_array_equal(out.numpy(), want)


def test_sparse_sums_keep_the_union_and_stored_zeros():
    x = tp.sparse.coo([[0, 2]], [0.0, 1.0], (4,))
    y = tp.sparse.coo([[2, 3]], [-1.0, 5.0], (4,))
    assert (x + x).nnz == 2
    assert np.count_nonzero((x + x).values.numpy()) == 1
    out = x + y
    assert (out.indices.tolist(), out.values.tolist(), out.is_canonical) == ([[0, 2, 3]], [0.0, 0.0, 5.0], True)
    assert (x - y).values.tolist() == [0.0, 2.0, -5.0]
    assert (x * y).indices.tolist() == [[2]]


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), ()])
def test_sparse_with_sparse_matches_dense(shape):
    (s, a), (t, b) = messy(shape, 1), messy(shape, 2)
    np.testing.assert_array_equal(dense(s + t), a + b)
    np.testing.assert_array_equal(dense(s - t), a - b)
    np.testing.assert_array_equal(dense(s * t), a * b)


def test_unsigned_difference_wraps_as_dense_does():
    x = tp.sparse.coo([[0]], [1], (2,), dtype=tp.uint8)
    y = tp.sparse.coo([[0, 1]], [2, 3], (2,), dtype=tp.uint8)
    assert dense(x - y).tolist() == [255, 253]


def test_unary_on_duplicates():
    s, a = messy((3, 4), 5)
    for fn, ref in ((tp.negative, np.negative), (tp.abs, np.abs), (tp.sign, np.sign), (tp.square, np.square)):
        np.testing.assert_array_equal(dense(fn(s)), ref(a))
    b = tp.sparse.coo([[0, 0]], [True, True], (2,))
    assert dense(b).tolist() == [True, False]
    assert b.sum().item() == 1


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1,), (0, 1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sum(axis, keepdims):
    s, a = messy((2, 3, 4), 6, dtype=np.int8)
    out = s.sum(axis=axis, keepdims=keepdims)
    assert (out.layout.name, out.dtype) == ("strided", tp.int64)
    np.testing.assert_array_equal(out.numpy(), a.sum(axis=axis, keepdims=keepdims, dtype=np.int64))
    assert s.sum(axis=axis, dtype=tp.float64).dtype is tp.float64
    empty = tp.zeros((2, 0), layout="sparse_coo").sum(axis=1)
    assert empty.tolist() == [0.0, 0.0]


def test_permute_dims():
    s, a = messy((2, 3, 4), 7)
    np.testing.assert_array_equal(dense(tp.permute_dims(s, (2, 0, 1))), a.transpose(2, 0, 1))
    np.testing.assert_array_equal(dense(s.mT), a.swapaxes(1, 2))
    c = tp.sparse.coalesce(messy((3, 4), 7)[0])
    assert c.T.shape == (4, 3)
    assert c.T.is_canonical == is_canonical(payload(c.T).indices)


# B15 ------------------------------------------------------------------------------------------------------------------


def test_what_would_be_dense_is_refused():
    s = tp.sparse.coo([[0], [1]], [1.0], (100_000, 100_000))
    for fn in (tp.exp, tp.cos, lambda x: x / 2.0, lambda x: x**0.0, lambda x: tp.equal(x, x)):
        with pytest.raises(NoKernelError, match="sparse_coo"):
            fn(s)
    for fn in (lambda x: x + 1.0, lambda x: tp.ones(100_000) + x, lambda x: x - tp.ones((1, 1))):
        with pytest.raises(LayoutError, match=r"\(100000, 100000\), which needs 37.3 GiB.*convert first"):
            fn(s)


# B8, B18 --------------------------------------------------------------------------------------------------------------


def test_flags_hold_in_a_random_program():
    rng = np.random.default_rng(0)
    d = tp.asarray(rng.integers(-2, 3, (4, 4)).astype(np.float32))
    pool = [messy((4, 4), i) for i in range(4)]
    steps = [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x.T, lambda x, y: -x,
        lambda x, y: x * 2.0, lambda x, y: x * d, lambda x, y: tp.abs(x), lambda x, y: tp.sparse.coalesce(x),
        lambda x, y: x.copy(), lambda x, y: x.to(dtype=tp.float64).to(dtype=tp.float32),
    ]  # fmt: skip
    arrays = [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x.T, lambda x, y: -x,
        lambda x, y: x * 2, lambda x, y: x * d.numpy(), lambda x, y: abs(x), lambda x, y: x, lambda x, y: x,
        lambda x, y: x,
    ]  # fmt: skip
    for _ in range(200):
        op, i, j = rng.integers(len(steps)), rng.integers(4), rng.integers(4)
        s, a = steps[op](pool[i][0], pool[j][0]), arrays[op](pool[i][1], pool[j][1])
        assert s.is_canonical == is_canonical(payload(s).indices)
        np.testing.assert_array_equal(dense(s), a)
        if abs(a).max() < 1000:
            pool[rng.integers(4)] = (s, a)


def test_operands_are_never_changed():
    s, _ = messy((4, 4), 1)
    t, _ = messy((4, 4), 2)
    d = tp.ones((4, 4))
    before = [(payload(x).indices.copy(), payload(x).values.copy(), x.nnz, x.is_canonical) for x in (s, t)]
    for fn in (
        lambda: s + t, lambda: s - t, lambda: s * t, lambda: s @ d, lambda: d @ s, lambda: s * d, lambda: s + d,
        lambda: s.sum(), lambda: s.sum(axis=0), lambda: tp.abs(s), lambda: tp.square(s), lambda: s.T, lambda: s.copy(),
        lambda: tp.sparse.coalesce(s), lambda: s.to(layout="strided"), lambda: s.to(dtype=tp.int32), lambda: repr(s),
        lambda: s.tolist(),
    ):  # fmt: skip
        fn()
        for x, (indices, values, nnz, flag) in zip((s, t), before, strict=True):
            np.testing.assert_array_equal(payload(x).indices, indices)
            np.testing.assert_array_equal(payload(x).values, values)
            assert (x.nnz, x.is_canonical) == (nnz, flag)


def test_silent_whatever_numpy_is_told():
    s = tp.sparse.coo([[0, 0, 1]], [3e38, 3e38, float("inf")], (3,))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert np.isinf(dense(s)[0])
        assert np.isnan((s - s).values.numpy()[1])
        assert np.isnan((s * tp.asarray([0.0, 0.0, 0.0])).values.numpy()[2])
        assert np.isinf(dense(s * 10.0)[0])
        assert np.isinf(s.to(dtype=tp.float16).values.numpy()).all()
        assert np.isinf(s.sum().item())
