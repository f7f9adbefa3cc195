"""Gradients of sparse tensors, once and twice, against the dense answer; and what they cost."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tripoint as tp
from tripoint.plugin import payload
from tripoint.schema import rows


def dense(s: tp.Tensor) -> np.ndarray:
    return s.detach().to(layout="strided").numpy()


def sample(shape, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * (rng.random(shape) < density)).astype(np.float64)


def noise(shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


CASES = {
    "matmul": ((3, 4), (4, 5), lambda w, x: w @ x),
    "matvec": ((3, 4), (4,), lambda w, x: w @ x),
    "left matmul": ((4, 5), (3, 4), lambda w, x: x @ w),
    "left vecmat": ((4, 5), (4,), lambda w, x: x @ w),
    "multiply": ((3, 4), (3, 4), lambda w, x: w * x),
    "multiply row": ((3, 4), (4,), lambda w, x: x * w),
    "multiply column": ((3, 4), (3, 1), lambda w, x: w * x),
    "multiply 0-d": ((3, 4), (), lambda w, x: w * x),
    "add": ((3, 4), (3, 4), lambda w, x: w + x),
    "subtract": ((3, 4), (3, 4), lambda w, x: x - w),
    "transposed": ((3, 4), (3, 2), lambda w, x: (w.T * 2.0) @ x),
    "chain": ((3, 4), (4, 2), lambda w, x: (w * 3.0 - w) @ tp.tanh(x)),
    "sum": ((3, 4), (4,), lambda w, x: w.sum(axis=0) * x),
    "sum kept": ((3, 4), (3, 1), lambda w, x: w.sum(axis=1, keepdims=True) * x),
    "square": ((3, 4), (4, 2), lambda w, x: (tp.square(w) + abs(w)) @ x),
    "interior": ((3, 4), (4, 3), lambda w, x: w * tp.exp(x).T),
    "reshaped": ((3, 4), (12,), lambda w, x: w * x.reshape(3, 4)),
    "cast": ((3, 4), (4, 2), lambda w, x: w.to(dtype=tp.float32).to(dtype=tp.float64) @ x),
    "densified": ((3, 4), (3, 4), lambda w, x: tp.tanh(w.to(layout="strided")) * x),
    "copied": ((3, 4), (4, 2), lambda w, x: w.copy() @ x),
}


CASES["sparse product"] = ((3, 4), (4, 5), lambda w, x: (w @ (w.T * 2.0)) @ x[:3])
CASES["cancelled"] = ((3, 4), (3, 3), lambda w, x: (w @ w.T - w @ w.T) * x)


CASES.update(
    {
        "rows": ((4, 5), (2, 5), lambda w, x: w[1:3] * x),
        "one row": ((4, 5), (5,), lambda w, x: w[2] * x + w[-1] * x),
        "backwards": ((4, 5), (2, 3), lambda w, x: w[::-2, ::2] * x),
        "one element": ((4, 5), (1,), lambda w, x: w[1, 2:3] * x),
        "new axis": ((4, 5), (4, 1, 5), lambda w, x: w[:, None] * x),
        "taken": ((4, 5), (3, 5), lambda w, x: w[[2, 0, 2]] * x),
        "taken columns": ((4, 5), (4, 2, 2), lambda w, x: tp.take(w, tp.asarray([[0, -1], [0, 3]]), axis=1) * x),
        "relu": ((3, 4), (4, 2), lambda w, x: tp.nn.relu(w) @ x),
        "sine": ((3, 4), (4, 2), lambda w, x: tp.sin(tp.tanh(w)) @ x),
        "sign": ((3, 4), (4, 2), lambda w, x: (tp.sign(w) * w) @ x),
        "mean": ((3, 4), (3,), lambda w, x: tp.mean(w, axis=1) * x),
    }
)


def run(fn, a, b, layout):
    w = tp.asarray(a).to(layout=layout).requires_grad_()
    x = tp.asarray(b).requires_grad_()
    out = fn(w, x)
    if out.layout.name != "strided":
        out = out.to(layout="strided")
    (out * tp.asarray(noise(out.shape, 9))).sum().backward()
    return w, x


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_the_dense_ones_on_the_pattern(case):
    left, right, fn = CASES[case]
    a, b = sample(left), noise(right)
    (w, x), (v, y) = run(fn, a, b, "sparse_coo"), run(fn, a, b, "strided")
    assert w.grad.layout is w.layout
    assert w.grad.is_canonical
    np.testing.assert_array_equal(w.grad.indices.numpy(), w.indices.numpy())
    tolerance = 1e-6 if case == "cast" else 1e-12
    np.testing.assert_allclose(dense(w.grad), v.grad.numpy() * (a != 0), rtol=tolerance, atol=1e-12)
    assert x.grad.layout.name == "strided"
    assert x.grad.shape == x.shape
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_equal_the_dense_ones(case):
    left, right, fn = CASES[case]
    a, b = sample(left), noise(right)

    def norm(layout):
        w = tp.asarray(a).to(layout=layout).requires_grad_()
        x = tp.asarray(b).requires_grad_()
        out = fn(w, x)
        out = out if out.layout.name == "strided" else out.to(layout="strided")
        gw, gx = tp.gradients((out * out * out).sum(), [w, x], create_graph=True)
        if layout == "strided":
            gw = gw * tp.asarray((a != 0).astype(np.float64))
        ((gw * gw).sum() + (gx * gx).sum()).backward()
        return w.grad, x.grad

    (gw, gx), (hw, hx) = norm("sparse_coo"), norm("strided")
    tolerance = 1e-5 if case == "cast" else 1e-10
    np.testing.assert_allclose(dense(gw), hw.numpy() * (a != 0), rtol=tolerance, atol=1e-10)
    np.testing.assert_allclose(gx.numpy(), hx.numpy(), rtol=tolerance, atol=1e-10)


def test_first_order_matches_finite_differences():
    a, b = sample((3, 4)), noise((4, 2))
    w = tp.asarray(a).to(layout="sparse_coo").requires_grad_()
    tp.square(tp.tanh(w @ tp.asarray(b))).sum().backward()
    values = w.values.numpy()
    rows, columns = w.indices.numpy()
    for i in range(len(values)):
        ends = []
        for h in (1e-6, -1e-6):
            c = a.copy()
            c[rows[i], columns[i]] += h
            ends.append(np.square(np.tanh(c @ b)).sum())
        assert w.grad.values.numpy()[i] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


# B4 -------------------------------------------------------------------------------------------------------------------


def test_dense_plus_sparse_gives_a_masked_gradient():
    w = tp.asarray(sample((3, 4))).to(layout="sparse_coo").requires_grad_()
    (tp.ones((3, 4), dtype=tp.float64) + w).sum().backward()
    assert w.grad.nnz == w.nnz
    assert w.grad.values.tolist() == [1.0] * w.nnz


def test_gradients_of_a_tensor_used_on_two_patterns():
    w = tp.sparse.coo([[0, 2]], [1.0, 2.0], (4,)).requires_grad_()
    other = tp.sparse.coo([[2, 3]], [5.0, 7.0], (4,))
    (w + other).sum().backward()
    assert w.grad.indices.tolist() == [[0, 2]]
    (w * other).sum().backward()
    assert w.grad.values.tolist() == [1.0, 6.0]


def test_every_zero_preserving_operator_has_the_dense_slope():
    a = np.array([[0.0, 0.4, -0.7], [1.3, 0.0, 0.0]])
    for name, row in list(rows.items()):
        if not (row.zero_preserving and len(row.params) == 1 and row.package == "tripoint"):
            continue
        found = []
        for layout in ("sparse_coo", "strided"):
            w = tp.asarray(a).to(layout=layout).requires_grad_()
            out = row.call(w)
            out = out if layout == "strided" else out.to(layout="strided")
            (out * tp.asarray(noise((2, 3)))).sum().backward()
            found.append(np.zeros((2, 3)) if w.grad is None else dense(w.grad))
        np.testing.assert_allclose(found[0], np.where(a != 0, found[1], 0), rtol=1e-12, err_msg=name)


def test_slopes_on_duplicates_are_those_of_their_sum():
    w = tp.sparse.coo([[1, 0, 1]], [1.0, 2.0, 3.0], (3,)).requires_grad_()
    tp.sin(w).sum().backward()
    np.testing.assert_allclose(w.grad.to(layout="strided").numpy(), [np.cos(2), np.cos(4), 0], rtol=1e-6)


def test_a_row_of_a_large_matrix_has_a_small_gradient():
    n = 100_000
    w = tp.sparse.coo([[3, 3, 7], [1, 99_999, 5]], [1.0, 2.0, 3.0], (n, n)).requires_grad_()
    tracemalloc.start()
    try:
        (tp.square(w[3]).sum() + w[[7, 7, 0]].sum()).backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert w.grad.values.tolist() == [2.0, 4.0, 2.0]
    assert peak < 4 * 2**20


def test_a_leaf_with_duplicates_has_a_canonical_gradient():
    w = tp.sparse.coo([[1, 0, 1]], [1.0, 2.0, 3.0], (3,)).requires_grad_()
    tp.square(w).sum().backward()
    assert w.grad.is_canonical
    assert w.grad.to(layout="strided").tolist() == [4.0, 8.0, 0.0]


def test_gradient_given_in_either_layout():
    for layout in ("strided", "sparse_coo"):
        w = tp.sparse.coo([[0, 2]], [1.0, 2.0], (3,)).requires_grad_()
        (w * 2.0).backward(tp.asarray([1.0, 5.0, 7.0]).to(layout=layout))
        assert w.grad.values.tolist() == [2.0, 14.0]


# B22 ------------------------------------------------------------------------------------------------------------------


def test_a_hundred_updates_store_no_more():
    w = tp.asarray(sample((5, 6)).astype(np.float32)).to(layout="sparse_coo").requires_grad_()
    x, start, reference = tp.asarray(noise((6, 2)).astype(np.float32)), w.nnz, w.to(layout="strided").detach().copy()
    pattern, mask = w.indices.numpy().copy(), (dense(w) != 0).astype(np.float32)
    for _ in range(100):
        w.grad = None
        tp.square(w @ x).sum().backward()
        with tp.no_grad():
            w -= 0.01 * w.grad
        reference = reference - 0.01 * ((2 * (reference @ x)) @ x.T) * tp.asarray(mask)
        assert w.nnz == start
        assert w.is_canonical
    np.testing.assert_array_equal(w.indices.numpy(), pattern)
    np.testing.assert_allclose(dense(w), reference.numpy(), rtol=1e-4, atol=1e-6)


def test_a_leaf_that_grew_has_gradients_on_its_new_pattern():
    w = tp.sparse.coo([[0]], [1.0], (3,)).requires_grad_()
    with tp.no_grad():
        w += tp.sparse.coo([[2]], [1.0], (3,))
    (w * 3.0).sum().backward()
    assert w.grad.indices.tolist() == [[0, 2]]


def test_updates_leave_earlier_aliases_as_they_were():
    w = tp.sparse.coo([[0]], [1.0], (3,)).requires_grad_()
    kept = w.detach()
    loss = (w * w).sum()
    with tp.no_grad():
        w *= 10.0
    loss.backward()
    assert kept.values.tolist() == [1.0]
    assert w.grad.values.tolist() == [2.0]


def test_gradients_accumulate():
    w = tp.sparse.coo([[0, 2]], [1.0, 2.0], (3,)).requires_grad_()
    for _ in range(2):
        (w * 2.0).sum().backward()
    assert w.grad.values.tolist() == [4.0, 4.0]


# Memory ---------------------------------------------------------------------------------------------------------------


def test_a_large_product_and_its_gradients_stay_small():
    rng = np.random.default_rng(0)
    n = 100_000
    w = tp.sparse.coo(rng.integers(0, n, (2, 10)), rng.standard_normal(10), (n, n), dtype=tp.float32)
    w = tp.sparse.coalesce(w).requires_grad_()
    x = tp.asarray(rng.standard_normal((n, 2)).astype(np.float32)).requires_grad_()
    (tp.ones((2, 2)) @ tp.ones((2, 2))).sum()  # what loads at first need
    tracemalloc.start()
    try:
        tp.square(w @ x).sum().backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20
    assert w.grad.nnz == 10
    rows, columns = payload(w).indices
    out = np.zeros((n, 2), np.float32)
    np.add.at(out, rows, w.values.numpy()[:, None] * x.detach().numpy()[columns])
    expected = (2 * out[rows] * x.detach().numpy()[columns]).sum(axis=1)
    np.testing.assert_allclose(w.grad.values.numpy(), expected, rtol=1e-5)


def test_a_sampled_product_of_many_columns_goes_block_by_block():
    rng = np.random.default_rng(0)
    a = sample((40, 50), density=0.9).astype(np.float32)
    w = tp.asarray(a).to(layout="sparse_coo").requires_grad_()
    x = tp.asarray(rng.standard_normal((50, 1000)).astype(np.float32))
    g = tp.asarray(rng.standard_normal((40, 1000)).astype(np.float32))
    (w @ x).backward(g)
    np.testing.assert_allclose(dense(w.grad), (g.numpy() @ x.numpy().T) * (a != 0), rtol=1e-3, atol=1e-4)
