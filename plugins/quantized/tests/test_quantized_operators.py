"""Operators on quantized tensors, and gradients through them. Oracle: exact Python integers, and the same on floats."""

from __future__ import annotations

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import AliasError, DTypeError, NoKernelError, ShapeError
from tripoint.plugin import payload, wrap

RANGES = {"qint8": (-128, 127), "quint8": (0, 255)}


def make(stored: np.ndarray, dtype: str, scale=1.0, zero=0, axis=None) -> tp.Tensor:
    """A quantized tensor that stores these integers."""
    qz = tp.affine(scale, zero, dtype, axis)
    ones = tp.affine(np.ones(np.shape(scale)), zero, dtype, axis)
    shift = np.asarray(zero)
    if axis is not None and shift.ndim:
        shift = shift.reshape([-1 if i == axis % stored.ndim else 1 for i in range(stored.ndim)])
    q = tp.quantize(tp.asarray((stored.astype(np.int64) - shift).astype(np.float32)), ones)
    np.testing.assert_array_equal(q.int_repr().numpy(), stored)
    return wrap(q._key, type(payload(q))(payload(q).ints, qz.fit(stored.shape)))


def random_ints(shape, dtype, seed):
    low, high = RANGES[dtype]
    return np.random.default_rng(seed).integers(low, high + 1, shape)


def exact(a, b, za, zb) -> np.ndarray:
    return np.matmul(a.astype(object) - za, b.astype(object) - zb)


# C11 ------------------------------------------------------------------------------------------------------------------


def test_no_saturation():
    assert (make(np.array([255, 255]), "quint8") @ make(np.array([127, 127]), "qint8")).item() == 64770.0
    assert (make(np.array([100] * 4), "qint8") @ make(np.array([100] * 4), "qint8")).item() == 40000.0


@pytest.mark.parametrize("left", RANGES)
@pytest.mark.parametrize("right", RANGES)
@pytest.mark.parametrize("k", [0, 1, 255, 257, 513, 1025, 8192, 8193, 70001])
def test_worst_case_sums_are_exact(left, right, k):
    for i in (0, 1):
        a, b = np.full((2, k), RANGES[left][i]), np.full((k, 3), RANGES[right][i])
        for za, zb in ((0, 0), (RANGES[left][1 - i], RANGES[right][1 - i])):
            out = make(a, left, zero=za) @ make(b, right, zero=zb)
            want = k * (RANGES[left][i] - za) * (RANGES[right][i] - zb)
            assert out.dtype is tp.float32
            np.testing.assert_array_equal(out.numpy(), np.full((2, 3), np.float32(want)))


@pytest.mark.parametrize("left", RANGES)
@pytest.mark.parametrize("right", RANGES)
@pytest.mark.parametrize(
    ("first", "second"),
    [((4, 700), (700, 5)), ((700,), (700,)), ((700,), (700, 5)), ((4, 700), (700,)), ((2, 1, 3, 9), (5, 9, 2))],
)
def test_products_equal_exact_integers(left, right, first, second):
    a, b = random_ints(first, left, 1), random_ints(second, right, 2)
    za, zb = 3, 17
    out = make(a, left, 0.03, za) @ make(b, right, 0.7, zb)
    scale = float(np.float32(0.03)) * float(np.float32(0.7))
    want = (np.asarray(exact(a, b, za, zb), np.float64) * scale).astype(np.float32)
    assert (out.shape, out.layout.name) == (want.shape, "strided")
    np.testing.assert_array_equal(out.numpy(), want)


def test_second_operand_per_channel():
    a, b = random_ints((4, 30), "quint8", 1), random_ints((30, 3), "qint8", 2)
    scales, zeros = np.array([0.1, 2.0, 0.003], np.float32), np.array([5, 0, -9])
    out = make(a, "quint8", 0.5, 100) @ make(b, "qint8", scales, zeros, axis=1)
    want = np.asarray(exact(a, b, 100, zeros), np.float64) * (0.5 * scales.astype(np.float64))
    np.testing.assert_array_equal(out.numpy(), want.astype(np.float32))


def test_other_channels_are_refused():
    q = make(random_ints((3, 3), "qint8", 1), "qint8")
    rows = make(random_ints((3, 3), "qint8", 1), "qint8", [1.0, 2.0, 3.0], axis=0)
    with pytest.raises(DTypeError, match=r"x2 .* axis 0"):
        q @ rows
    with pytest.raises(DTypeError, match=r"x1 .* axis 0"):
        rows @ q
    assert (q @ rows.T).shape == (3, 3)


def test_shapes_are_checked():
    for k in (3, 1024, 2048):
        with pytest.raises(ShapeError, match="inner sizes"):
            make(np.zeros((2, k), int), "qint8") @ make(np.zeros((4096, 2), int), "qint8")


def test_no_other_operator_meets_the_integers():
    q = make(np.array([1, 2]), "qint8")
    for fn in (
        lambda: q + q, lambda: q * q, lambda: q * 2, lambda: 2 + q, lambda: q == q, lambda: -q, lambda: q.sum(),
        lambda: tp.exp(q), lambda: q + tp.ones(2), lambda: q @ tp.ones(2, dtype=tp.float64),
        lambda: tp.concat([q, q]), lambda: q.numpy(),
    ):  # fmt: skip
        with pytest.raises(NoKernelError, match="qint8"):
            fn()
    with pytest.raises(NoKernelError, match=r"to\(dtype=.float32.\)"):
        q + q


# Structure, C16 -------------------------------------------------------------------------------------------------------


def test_structure_of_per_tensor():
    a = random_ints((2, 3, 4), "quint8", 3)
    q = make(a, "quint8", 0.5, 7)
    for out, want in (
        (q.reshape(4, 6), a.reshape(4, 6)), (q.reshape(-1), a.reshape(-1)),
        (tp.permute_dims(q, (2, 0, 1)), a.transpose(2, 0, 1)),
        (q.copy(), a), (q[1], a[1]), (q[:, ::-1, 1], a[:, ::-1, 1]), (q[..., None, 2:], a[..., None, 2:]),
        (q[0, 0, 0], a[0, 0, 0]),
    ):  # fmt: skip
        assert out.dtype is tp.quint8
        assert out.quantizer == q.quantizer
        np.testing.assert_array_equal(out.int_repr().numpy(), want)
    assert tp.shares_memory(q, q.reshape(-1))
    assert not tp.shares_memory(q, q.copy())
    assert not tp.shares_memory(q, q.reshape(-1, copy=True))
    with pytest.raises(AliasError, match="copy=False"):
        q.T if q.ndim == 2 else tp.permute_dims(q, (2, 1, 0)).reshape(-1, copy=False)


def test_structure_of_per_channel():
    a = random_ints((2, 3, 4), "qint8", 3)
    q = make(a, "qint8", [0.5, 2.0, 8.0], [0, 1, 2], axis=1)
    for key in (
        (0,), (slice(None), 1), (slice(None), slice(None, None, -2)), (1, slice(1, None), None), (None, ..., 0),
        (..., 1, 2), (slice(None), slice(3, 3)),
    ):  # fmt: skip
        np.testing.assert_array_equal(q[key].dequantize().numpy(), q.dequantize().numpy()[key], str(key))
    p = tp.permute_dims(q, (1, 2, 0))
    assert p.quantizer.axis == 0
    np.testing.assert_array_equal(p.dequantize().numpy(), q.dequantize().numpy().transpose(1, 2, 0))
    for out, want in (
        (tp.expand_dims(q, axis=(0, 2)), np.expand_dims(q.dequantize().numpy(), (0, 2))),
        (tp.squeeze(q[:, :, :1], 2), q.dequantize().numpy()[:, :, 0]),
        (tp.squeeze(q[:, 1:2], 1), q.dequantize().numpy()[:, 1]),
        (tp.flip(q), np.flip(q.dequantize().numpy())),
        (tp.flip(q, axis=0), np.flip(q.dequantize().numpy(), 0)),
    ):
        np.testing.assert_array_equal(out.dequantize().numpy(), want)
    assert q.mT.quantizer.axis == 2
    np.testing.assert_array_equal(q.mT.dequantize().numpy(), q.dequantize().numpy().swapaxes(1, 2))
    with pytest.raises(ShapeError, match="per channel along axis 1"):
        q.reshape(6, 4)


def test_repr_of_everything():
    a = random_ints((2, 3), "qint8", 3)
    q = make(a, "qint8", [0.5, 2.0, 8.0], axis=1)
    assert "axis=0" in repr(q.T)
    for x in (
        q,
        q.T,
        q[0],
        q[0, 0],
        q[:, :0],
        make(a, "qint8").reshape(-1),
        tp.quantize(tp.zeros((50, 60)), tp.affine(1.0)),
    ):
        assert "qint8" in repr(x)
        assert "affine(" in repr(x)


def test_operands_are_never_changed():
    a, b = random_ints((3, 4), "qint8", 1), random_ints((4, 2), "quint8", 2)
    q, p = make(a, "qint8", 0.5, 3), make(b, "quint8", 0.25, 9)
    _ = q @ p, q.T, q.reshape(-1), q[0], q.dequantize(), repr(q), q.copy()
    assert q.int_repr().tolist() == a.tolist()
    assert p.int_repr().tolist() == b.tolist()


# Gradients ------------------------------------------------------------------------------------------------------------


def test_straight_through_where_nothing_is_clamped():
    inf, nan = float("inf"), float("nan")
    x = tp.asarray([0.0, 12.4, 12.46, 13.0, -13.1, -13.2, inf, nan]).requires_grad_()
    q = tp.quantize(x, tp.affine(0.1, 3))
    assert q.requires_grad
    (q.dequantize() * 2.0).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    assert q.int_repr().tolist() == [3, 127, 127, 127, -128, -128, 127, 3]


@pytest.mark.parametrize("dtype", [tp.float16, tp.float64], ids=str)
def test_gradients_arrive_in_the_dtype_of_the_leaf(dtype):
    x = tp.asarray([0.5, 1000.0], dtype=dtype).requires_grad_()
    tp.quantize(x, tp.affine(0.1)).dequantize().sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (dtype, [1.0, 0.0])


@pytest.mark.parametrize(
    ("first", "second"), [((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 2))]
)
def test_gradients_of_a_product_are_those_of_the_numbers_held(first, second):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(first).astype(np.float32), rng.standard_normal(second).astype(np.float32)
    qa, qb = tp.affine(0.05, 3), tp.affine(0.02, 128, tp.quint8)
    x, y = tp.asarray(a).requires_grad_(), tp.asarray(b).requires_grad_()
    (tp.quantize(x, qa) @ tp.quantize(y, qb)).sum().backward()
    v, w = (tp.quantize(tp.asarray(t), z).dequantize().requires_grad_() for t, z in ((a, qa), (b, qb)))
    (v @ w).sum().backward()
    assert x.grad.shape == first
    np.testing.assert_allclose(x.grad.numpy(), v.grad.numpy(), rtol=1e-5)
    inside = np.abs(b / np.float32(0.02)) <= 127  # what the unsigned range holds around its zero point
    np.testing.assert_allclose(y.grad.numpy(), w.grad.numpy() * inside, rtol=1e-5)


def test_gradients_through_structure():
    x = tp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4)).requires_grad_()
    weight = tp.asarray(np.arange(4, dtype=np.float32))
    q = tp.quantize(x, tp.affine(0.5)).copy()
    q = tp.squeeze(tp.flip(tp.flip(tp.expand_dims(q, axis=1), axis=0), axis=0), 1)
    (q.mT.T.T.reshape(2, 6)[1, 1:5].dequantize() * weight).sum().backward()
    want = np.zeros(12, np.float32)
    want[7:11] = [0, 1, 2, 3]
    np.testing.assert_array_equal(x.grad.numpy(), want.reshape(4, 3).T)


def test_double_backward():
    x = tp.asarray([0.5, 1.0, 99.0]).requires_grad_()
    y = tp.square(tp.quantize(x, tp.affine(0.5)).dequantize()).sum()
    (g,) = tp.gradients(y, [x], create_graph=True)
    assert g.tolist() == [1.0, 2.0, 0.0]
    (h,) = tp.gradients((g * g).sum(), [x])
    assert h.tolist() == [4.0, 8.0, 0.0]


def test_a_quantized_leaf_has_float32_gradients():
    q = tp.quantize(tp.asarray([[1.0, 2.0]]), tp.affine(0.5)).requires_grad_()
    p = tp.quantize(tp.asarray([[3.0], [4.0]]), tp.affine(0.5))
    (q @ p).sum().backward()
    assert (q.grad.dtype, q.grad.tolist()) == (tp.float32, [[3.0, 4.0]])
