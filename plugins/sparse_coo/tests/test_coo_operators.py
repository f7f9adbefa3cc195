"""Operators on sparse tensors. Oracle: NumPy and SciPy on the same numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

import tripoint as tp
from tripoint.errors import DTypeError, IndexingError, LayoutError, NoKernelError, ScalarRangeError, ShapeError
from tripoint.plugin import Pattern, Registry, payload, primitive, resolve
from tripoint.schema import rows
from tripoint_sparse_coo._coo import COO, is_canonical

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


@pytest.mark.parametrize("dtype", [tp.float32, tp.bfloat16], ids=str)
def test_long_sums_do_not_stall(dtype):
    n = 2**24 + 2**17  # which both dtypes hold
    s = tp.sparse.coo_trusted(
        np.stack([np.zeros(n, np.int64), np.arange(n)]), tp.ones((n,), dtype=dtype), (1, n), canonical=True
    )
    t, d = s.T, tp.ones((n,), dtype=dtype)
    for product in (s @ d, s @ tp.reshape(d, (n, 1)), d @ t, tp.reshape(d, (1, n)) @ t, (s @ t).values):
        assert product.dtype is dtype
        np.testing.assert_array_equal(product.to(dtype=tp.complex128).tolist(), np.full(product.shape, n))


def test_long_sums_are_as_precise_as_those_of_rows_of_a_thousand():
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 9000), np.float32), rng.random((9000, 3), np.float32)
    a[1], a[3, 100:], a[4, 1030:] = 0, 0, 0  # empty, short and just longer than one piece
    s = tp.asarray(a).to(layout="sparse_coo")
    exact = a.astype(np.float64) @ b
    for got in (
        s @ tp.asarray(b),
        (tp.asarray(b.T.copy()) @ s.T).T,
        tp.stack([s @ tp.asarray(c) for c in b.T], axis=1),
    ):
        np.testing.assert_allclose(got.numpy(), exact, rtol=5e-6)
    for other, near in ((tp.complex64, 5e-6), (tp.float64, 1e-13), (tp.complex128, 1e-13)):
        got = s.to(dtype=other) @ tp.asarray(b).to(dtype=other)
        np.testing.assert_allclose(got.numpy(), exact, rtol=near)
    whole = tp.asarray(np.arange(18000).reshape(2, 9000) % 7)
    assert (whole.to(layout="sparse_coo") @ whole.T).tolist() == (whole @ whole.T).tolist()


def test_a_gradient_of_many_terms_does_not_stall():
    n = 2**24 + 1024
    s = tp.asarray([[2.0]]).to(layout="sparse_coo").requires_grad_()
    tp.sum(s @ tp.ones((1, n))).backward()
    assert s.grad.values.tolist() == [float(n)]


def test_an_infinite_result_of_half_precision_is_silent():
    s = tp.asarray([[300.0, 300.0]], dtype=tp.float16).to(layout="sparse_coo")
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert (s @ tp.full((2, 1), 300.0, dtype=tp.float16)).tolist() == [[np.inf]]
        assert (s @ s.T).values.tolist() == [np.inf]
        assert (tp.full((1, 1), 300.0, dtype=tp.float16) @ (s * 300.0)).tolist() == [[np.inf, np.inf]]


def test_what_would_move_the_strided_operand_is_refused():
    d, s = tp.ones((2, 3)), tp.ones((2, 3)).to(layout="sparse_coo")
    with pytest.raises(
        LayoutError, match=r"multiply_ would move x1 from cpu.strided.float32 to cpu.sparse_coo.float32"
    ):
        d *= s
    assert d.tolist() == [[1.0] * 3] * 2
    d += s
    assert (d.layout.name, d.tolist()) == ("strided", [[2.0] * 3] * 2)


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


@pytest.mark.parametrize("dtype", [*REAL, tp.complex64], ids=str)
def test_scalars_of_every_dtype_are_those_of_dense_tensors(dtype):
    d = tp.asarray([[0, 1], [2, 0]]).to(dtype=dtype)
    s = d.to(layout="sparse_coo")
    for c in (2, 2.5, True, 1e400, float("nan"), 10**400, -(10**400), 2**64, 1e30):
        try:
            want = d * c
        except ScalarRangeError:
            for product in (lambda c=c: s * c, lambda c=c: c * s):
                with pytest.raises(ScalarRangeError, match="Python number"):
                    product()
            continue
        for got in (s * c, c * s):
            assert got.dtype is want.dtype
            np.testing.assert_array_equal(got.values.tolist(), [want.tolist()[0][1], want.tolist()[1][0]])


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


ZERO_PRESERVING = sorted(
    name for name, row in rows.items() if row.zero_preserving and len(row.params) == 1 and row.package == "tripoint"
)


@pytest.mark.parametrize("name", ZERO_PRESERVING)
@pytest.mark.parametrize("dtype", [tp.float32, tp.float16, tp.bfloat16, tp.int32, tp.bool, tp.complex64], ids=str)
def test_zero_preserving_operators_are_those_of_the_dense_tensor(name, dtype):
    fn = rows[name].call
    s = messy((3, 4), 5)[0].to(dtype=dtype)
    try:
        want = fn(s.to(layout="strided"))
    except DTypeError:
        with pytest.raises(DTypeError):
            fn(s)
        return
    out = fn(s)
    assert (out.layout.name, out.dtype) == ("sparse_coo", want.dtype)
    np.testing.assert_array_equal(
        out.to(layout="strided", dtype=tp.complex128).numpy(), want.to(dtype=tp.complex128).numpy()
    )
    label = resolve(fn, s).label()
    assert label == "tripoint-sparse-coo:" + ("negative" if name == "negative" else f"{name}_on_stored")


def test_the_table_of_zero_preserving_operators():
    assert {"negative", "abs", "sign", "square", "sqrt", "tanh", "sin", "relu"} <= set(ZERO_PRESERVING)


def test_an_operator_of_a_stranger_computes_on_sparse_tensors_too():
    @primitive(
        namespace="coo_test",
        dtype=rows["tanh"].dtype,
        shape=rows["tanh"].shape,
        kind="elementwise",
        zero_preserving=True,
    )
    def cube(x: tp.Tensor, /) -> tp.Tensor:
        raise NotImplementedError

    registry = Registry()
    registry.kernel("coo_test::cube", lambda x: x * x * x, every=Pattern("cpu", "strided"))
    registry.commit()
    s = tp.sparse.coo([[1, 1]], [1.0, 1.0], (3,))
    assert dense(cube(s)).tolist() == [0.0, 8.0, 0.0]
    assert cube(s).nnz == 1


def test_unary_on_duplicates():
    s, _ = messy((3, 4), 5)
    assert (-s).nnz == s.nnz
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


# B14 ------------------------------------------------------------------------------------------------------------------


def test_what_is_not_stored_counts_as_zero():
    s = tp.sparse.coo([[1]], [5.0], (3,))
    assert (tp.min(s).item(), tp.max(s).item()) == (0.0, 5.0)
    assert tp.mean(s).item() == pytest.approx(5 / 3)
    assert (tp.max(-s).item(), tp.min(-s).item()) == (0.0, -5.0)
    full = tp.sparse.coo([[0, 1]], [-1.0, -2.0], (2,))
    assert (tp.max(full).item(), tp.min(full).item()) == (-1.0, -2.0)
    assert np.isnan(tp.max(tp.sparse.coo([[1]], [float("nan")], (3,))).item())
    assert tp.min(tp.sparse.coo([[1, 1]], [-4.0, 3.0], (1 << 62,))).item() == -1.0


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1,), (0, 1, 2), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint64])
def test_max_min_mean(axis, dtype):
    s, a = messy((2, 3, 4), 6, 30, dtype=np.float64)
    a, s = abs(a).astype(dtype), abs(s).to(dtype=np.dtype(dtype).name)
    if dtype != np.uint64:
        s, a = s - (s * 2).to(dtype=s.dtype) * tp.asarray([1, 0, 1, 0]).to(dtype=s.dtype), a - a * [2, 0, 2, 0]
        a = a.astype(dtype)
    for keepdims in (False, True):
        for name in ("max", "min"):
            out = getattr(tp, name)(s, axis=axis, keepdims=keepdims)
            assert (out.layout.name, out.dtype) == ("strided", s.dtype)
            np.testing.assert_array_equal(out.numpy(), getattr(a, name)(axis=axis, keepdims=keepdims))
        out = tp.mean(s, axis=axis, keepdims=keepdims).to(layout="strided")
        np.testing.assert_allclose(out.numpy(), a.mean(axis=axis, keepdims=keepdims), rtol=1e-6)


def test_extremes_of_other_dtypes_and_of_nothing():
    for dtype in (tp.bool, tp.bfloat16, tp.float16):
        s = tp.asarray([[0, 1], [1, 1]]).to(dtype=dtype).to(layout="sparse_coo")
        assert (tp.max(s, axis=0).tolist(), tp.min(s, axis=0).tolist()) == ([1, 1], [0, 1])
    empty = tp.zeros((2, 0, 3), layout="sparse_coo")
    with pytest.raises(ShapeError, match="of nothing"):
        tp.max(empty)
    assert tp.max(empty, axis=0).shape == (0, 3)
    with pytest.raises(DTypeError, match="complex64"):
        tp.min(tp.zeros(3, layout="sparse_coo", dtype=tp.complex64))


# B13 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("canonical", [True, False])
def test_basic_indexing(canonical):
    s, a = messy((4, 5, 3), 3, 40)
    s = tp.sparse.coalesce(s) if canonical else s
    for k in (
        0, -1, slice(1, 3), slice(None, None, -2), slice(3, 0, -1), slice(2, 2), slice(10, None), slice(-3, None, 2), ...,
        (), None, (1, 2), (1, 2, 0), (..., 0), (None, 2), (slice(3, 0, -1), None, slice(1, 4), 2), (slice(None), 1),
        (slice(None), slice(4, None, -3), slice(None, None, -1)), (slice(None), slice(None), None), (-1, ..., -1),
    ):  # fmt: skip
        out = s[k]
        assert (out.layout.name, out.shape) == ("sparse_coo", a[k].shape), k
        assert out.is_canonical == is_canonical(payload(out).indices)
        np.testing.assert_array_equal(dense(out), a[k], str(k))
    assert s[1:3].is_canonical or not canonical
    huge = tp.sparse.coo([[5], [2**62]], [7.0], (2**62, 2**63 - 1))
    assert huge[5][2**62].tolist() == 7.0
    assert huge[4:6, 2**61 :: 2**61].indices.tolist() == [[1], [1]]


@pytest.mark.parametrize("canonical", [True, False])
def test_one_integer_array(canonical):
    s, a = messy((4, 5, 3), 3, 40)
    s = tp.sparse.coalesce(s) if canonical else s
    np.testing.assert_array_equal(dense(s[[0, 2]]), a[[0, 2]])
    np.testing.assert_array_equal(dense(s[:, [4, 0, 0]]), a[:, [4, 0, 0]])
    np.testing.assert_array_equal(dense(s[..., [-1, 1]]), a[..., [-1, 1]])
    np.testing.assert_array_equal(dense(s[np.array([3, 3])]), a[[3, 3]])
    for where in (0, [], [[1, -1], [3, 3]], [[[0]], [[2]]], np.zeros((2, 0), int), np.array([2, 1], np.uint8)):
        for axis in (0, 1, 2):
            w = tp.asarray(where) if np.size(where) else tp.asarray(where, dtype=tp.int64)
            picked = w % a.shape[axis] if np.size(where) else w
            out = tp.take(s, picked, axis=axis)
            want = np.take(a, picked.numpy(), axis)
            assert out.shape == want.shape
            np.testing.assert_array_equal(dense(out), want)


def test_indexing_refuses():
    s, _ = messy((3, 4), 0)
    for fn, words in (
        (lambda: s[3], "index 3 is out of range for axis 0"),
        (lambda: s[0, 0, 0], "3 indices"),
        (lambda: s[[0, 3]], r"take along axis 0: 3 is out of range; positions lie in -3\.\.2"),
        (lambda: s[:, [-5]], "take along axis 1: -5 is out of range"),
        (lambda: tp.take(s, tp.asarray([0.5]), axis=0), "must be integers, not float32"),
    ):
        with pytest.raises(IndexingError, match=words):
            fn()
    with pytest.raises(LayoutError):
        s[0] = 1.0


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
    for fn in (tp.exp, tp.cos, lambda x: x / 2.0, lambda x: x**0.0):
        with pytest.raises(
            NoKernelError, match=r"layout='strided'.* needs 37\.3 GiB and the result, float32 of shape .*37\.3"
        ):
            fn(s)
    with pytest.raises(NoKernelError) as caught:
        tp.exp(s.to(dtype=tp.float64))
    assert len(str(caught.value).splitlines()) <= 12
    assert "the result, float64 of shape (100000, 100000), 74.5 GiB" in caught.value.help
    with pytest.raises(NoKernelError, match=r"bool of shape \(100000, 100000\), 9\.31 GiB"):
        tp.equal(s, s)
    with pytest.raises(NoKernelError, match=r"int64 of shape \(100000,\), 781 KiB"):
        tp.argmax(s, axis=1)
    for fn in (lambda x: x + 1.0, lambda x: tp.ones(100_000) + x, lambda x: x - tp.ones((1, 1)), tp.softmax):
        with pytest.raises(LayoutError, match=r"\(100000, 100000\), which needs 37.3 GiB.*convert first"):
            fn(s)


# B8, B18 --------------------------------------------------------------------------------------------------------------


def test_flags_hold_in_a_random_program(monkeypatch):
    made = []

    def check(self, shape, indices, values, canonical):
        made.append(canonical)
        assert canonical == is_canonical(indices) or (not canonical and shape == ()), (shape, indices)
        assert indices.shape == (len(shape), len(values))
        assert (indices >= 0).all()
        assert (indices < np.reshape(shape, (-1, 1))).all()
        real(self, shape, indices, values, canonical)

    real = COO.__init__
    monkeypatch.setattr(COO, "__init__", check)
    rng = np.random.default_rng(0)
    d = tp.asarray(rng.integers(-2, 3, (4, 4)).astype(np.float32))
    pool = [messy((4, 4), i) for i in range(4)]
    steps = [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x.T, lambda x, y: -x,
        lambda x, y: x * 2.0, lambda x, y: x * d, lambda x, y: tp.abs(x), lambda x, y: tp.sparse.coalesce(x),
        lambda x, y: x.copy(), lambda x, y: x.to(dtype=tp.float64).to(dtype=tp.float32), lambda x, y: x[::-1],
        lambda x, y: x[[2, 0, 0, -1]], lambda x, y: tp.take(y, where, axis=1), lambda x, y: tp.square(tp.nn.relu(x)),
        lambda x, y: x[:, None, ::-2][:, 0][:, [0, 1, 1, 0]], lambda x, y: (x @ y) * 0.5,
    ]  # fmt: skip
    arrays = [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x.T, lambda x, y: -x,
        lambda x, y: x * 2, lambda x, y: x * d.numpy(), lambda x, y: abs(x), lambda x, y: x, lambda x, y: x,
        lambda x, y: x, lambda x, y: x[::-1], lambda x, y: x[[2, 0, 0, -1]], lambda x, y: y[:, [3, 1, 2, 3]],
        lambda x, y: np.maximum(x, 0) ** 2, lambda x, y: x[:, ::-2][:, [0, 1, 1, 0]], lambda x, y: x @ y * 0.5,
    ]  # fmt: skip
    where = tp.asarray([3, 1, -2, 3])
    for _ in range(400):
        op, i, j = rng.integers(len(steps)), rng.integers(4), rng.integers(4)
        s, a = steps[op](pool[i][0], pool[j][0]), arrays[op](pool[i][1], pool[j][1])
        assert s.is_canonical == is_canonical(payload(s).indices)
        np.testing.assert_array_equal(dense(s), a)
        if abs(a).max() < 100:
            pool[rng.integers(4)] = (s, a)
    assert {True, False} <= set(made)


def test_operands_are_never_changed():
    s, _ = messy((4, 4), 1)
    t, _ = messy((4, 4), 2)
    d = tp.ones((4, 4))
    before = [(payload(x).indices.copy(), payload(x).values.copy(), x.nnz, x.is_canonical) for x in (s, t)]
    for fn in (
        lambda: s + t, lambda: s - t, lambda: s * t, lambda: s @ d, lambda: d @ s, lambda: s * d, lambda: s + d,
        lambda: s.sum(), lambda: s.sum(axis=0), lambda: tp.abs(s), lambda: tp.square(s), lambda: s.T, lambda: s.copy(),
        lambda: tp.sparse.coalesce(s), lambda: s.to(layout="strided"), lambda: s.to(dtype=tp.int32), lambda: repr(s),
        lambda: s.tolist(), lambda: tp.max(s), lambda: tp.min(s, axis=0), lambda: tp.mean(s), lambda: s[0],
        lambda: s[::-1], lambda: s[[0, 0, 2]], lambda: tp.tanh(s), lambda: tp.nn.relu(s),
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
