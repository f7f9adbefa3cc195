"""Products of floats with quantized weights. Oracle: exact Python integers and fractions, written from the rules."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DTypeError, NoKernelError, ShapeError
from tripoint.plugin import resolve
from tripoint_quantized import _products

INF, NAN = float("inf"), float("nan")


def normal(shape, seed=0, scale=1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def per_output(w: np.ndarray, dtype="qint8", zero=0) -> tp.Tensor:
    """Weights with a scale for each output."""
    scale = np.abs(w).reshape(len(w), -1).max(1, initial=1e-3) / 120
    return tp.quantize(tp.asarray(w), tp.affine(scale, zero, dtype, axis=0))


def held(q: tp.Tensor) -> np.ndarray:
    """The numbers that a quantized tensor holds, as fractions."""
    scales = np.asarray(q.quantizer.scale, object).reshape(-1, *[1] * (q.ndim - 1))
    zeros = np.asarray(q.quantizer.zero_point, object).reshape(-1, *[1] * (q.ndim - 1))
    return (q.int_repr().numpy().astype(object) - zeros) * np.vectorize(Fraction, otypes=[object])(scales)


def rounded(x: np.ndarray) -> np.ndarray:
    """What a product computes with in place of the finite ``x``, as fractions: the rule of the README, on its own."""
    low, high = min(0.0, *map(float, x.ravel())), max(0.0, *map(float, x.ravel()))
    step = (high - low) / 255
    scale = np.float32(step) if step else np.float32(1)
    while float(scale) < step:
        scale = np.nextafter(scale, np.float32(INF))
    zero = int(np.rint(-128 - low / float(scale)))
    steps = np.clip(np.rint(x / scale).astype(np.float64) + zero, -128, 127).astype(int).astype(object)
    return (steps - zero) * Fraction(float(scale))


def close(out: tp.Tensor, want: np.ndarray) -> None:
    """Equal to exact numbers but for one rounding, and the one of a sum in float64 before it."""
    assert (out.dtype, out.layout.name, out.shape) == (tp.float32, "strided", want.shape)
    np.testing.assert_array_max_ulp(out.detach().numpy(), want.astype(np.float64).astype(np.float32), 1)


def added(want: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    return want if bias is None else want + np.vectorize(Fraction, otypes=[object])(bias.astype(float))


def naive_conv(x, w, stride, padding, dilation, groups) -> np.ndarray:
    (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
    n, c, h, wd = x.shape
    o, cg, kh, kw = w.shape
    padded = np.full((n, c, h + 2 * ph, wd + 2 * pw), Fraction(0), object)
    padded[:, :, ph : ph + h, pw : pw + wd] = x
    oh = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    ow = (wd + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    out = np.zeros((n, o, oh, ow), object)
    for oo in range(o):
        first = oo // (o // groups) * cg
        for i in range(oh):
            for j in range(ow):
                part = padded[:, first : first + cg, i * sh : i * sh + dh * kh : dh, j * sw : j * sw + dw * kw : dw]
                out[:, oo, i, j] = (part[:, :, :kh, :kw] * w[oo]).sum(axis=(1, 2, 3))
    return out


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "zero"), [("qint8", 0), ("qint8", 5), ("quint8", 128), ("quint8", 0)])
@pytest.mark.parametrize("shape", [(6, 30), (30,), (2, 3, 30), (1, 30)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear_equals_exact_integers(dtype, zero, shape, biased):
    w = per_output(normal((4, 30), 1), dtype, zero)
    x, bias = normal(shape, 2, 3.0), normal(4, 3) if biased else None
    out = tp.nn.linear(tp.asarray(x), w, None if bias is None else tp.asarray(bias))
    close(out, added(np.tensordot(rounded(x), held(w), (-1, 1)), bias))


def test_linear_per_tensor_and_transposed_views():
    w = tp.quantize(tp.asarray(normal((30, 4), 1)), tp.affine(0.02, 3)).T
    x = tp.asarray(normal((30, 12), 2))[:, ::2].T
    close(tp.nn.linear(x, w), rounded(x.numpy()) @ held(w).T)


@pytest.mark.parametrize("shape", [(6, 30), (30,), (2, 3, 30)])
def test_matmul_in_both_orders(shape):
    w = tp.quantize(tp.asarray(normal((4, 30), 1)), tp.affine(np.array([0.01, 0.02, 0.03, 0.04]), axis=0))
    x = normal(shape, 2)
    close(tp.asarray(x) @ w.T, np.tensordot(rounded(x), held(w), (-1, 1)))
    v = tp.quantize(tp.asarray(x), tp.affine(0.05, -7))
    y = normal((30, 5), 3)
    close(v @ tp.asarray(y), np.tensordot(held(v).reshape(shape), rounded(y), (-1, 0)))


@pytest.mark.parametrize(("dtype", "zero"), [("qint8", 0), ("quint8", 100)])
@pytest.mark.parametrize(
    ("images", "kernels", "options"),
    [
        ((2, 3, 6, 5), (4, 3, 3, 3), {}),
        ((2, 3, 6, 5), (4, 3, 3, 3), {"padding": 1}),
        ((3, 4, 7, 6), (6, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}),
        ((1, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "padding": (0, 1)}),
        ((2, 1, 3, 3), (1, 1, 1, 1), {"stride": 2}),
    ],
)
@pytest.mark.parametrize("biased", [True, False])
def test_conv2d_equals_exact_integers(dtype, zero, images, kernels, options, biased):
    w, x = per_output(normal(kernels, 1), dtype, zero), normal(images, 2)
    bias = normal(kernels[0], 3) if biased else None
    out = tp.nn.conv2d(tp.asarray(x), w, None if bias is None else tp.asarray(bias), **options)
    pairs = [options.get(n, d) for n, d in (("stride", 1), ("padding", 0), ("dilation", 1))]
    pairs = [p if isinstance(p, tuple) else (p, p) for p in pairs]
    want = naive_conv(rounded(x), held(w), *pairs, options.get("groups", 1))
    close(out, added(want, None if bias is None else bias.reshape(-1, 1, 1)))


def test_conv2d_in_blocks_of_images(monkeypatch):
    w, x = per_output(normal((4, 3, 3, 3), 1)), tp.asarray(normal((7, 3, 6, 6), 2))
    whole = tp.nn.conv2d(x, w, tp.ones(4), padding=1)
    monkeypatch.setattr(_products, "BLOCK", 2 * (27 + 4) * 36)
    np.testing.assert_array_equal(tp.nn.conv2d(x, w, tp.ones(4), padding=1).numpy(), whole.numpy())


@pytest.mark.parametrize("k", [511, 1024, 1025, 8192, 8193, 70001])
@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
def test_worst_case_sums_are_exact(k, dtype):
    low, high = {"qint8": (-128, 127), "quint8": (0, 255)}[dtype]
    for zero, stored in ((low, high), (high, low)):
        w = tp.quantize(tp.full((2, k), float(stored - zero)), tp.affine(1.0, zero, dtype))
        assert set(w.int_repr().numpy().ravel().tolist()) == {stored}
        for value in (255.0, -255.0):  # as integers 127 and -128, at the far end from the zero point
            out = tp.nn.linear(tp.full((3, k), value), w)
            np.testing.assert_array_equal(out.numpy(), np.full((3, 2), np.float32(value * (stored - zero) * k)))
    side = math.isqrt(k)
    images, kernels = (
        tp.full((1, 1, side, side), 255.0),
        tp.quantize(tp.full((1, 1, side, side), -128.0), tp.affine(1.0)),
    )
    assert tp.nn.conv2d(images, kernels).item() == float(np.float32(-255.0 * 128 * side * side))


def test_the_error_against_floats_is_within_half_a_step_a_term():
    w, x = normal((8, 200), 1), normal((5, 200), 2)
    q = per_output(w)
    out = tp.nn.linear(tp.asarray(x), q).numpy()
    steps = np.asarray(q.quantizer.scale)
    step = (x.max() - min(x.min(), 0)) / 255
    bound = np.abs(w).sum(1) * step + np.abs(x).sum(1)[:, None] * steps / 2 + 200 * step * steps
    assert (np.abs(out - x @ w.T) <= bound).all()


# Activations ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 0.0], [1.0, 2.0], [-1.0, -2.0], [-1.0, 3.0], [1e-45, 0.0], [3e-45, -1e-45], [4.8e-43, 0.0],
        [3e38, -3e38], [3.4e38, 1.0], [-1e-38, 1e-38], [5.0],
    ],
)  # fmt: skip
def test_ranges_hold_zero_exactly_and_clamp_nothing(values):
    x = np.array(values, np.float32)
    qz = _products.observed(x)
    assert qz.dtype is tp.qint8
    assert -128 <= qz.zero_point <= 127
    assert qz.scale > 0
    assert math.isfinite(qz.scale)
    q = tp.quantize(tp.asarray([*values, 0.0, -0.0]), qz)
    back = q.dequantize().numpy()
    assert back[-2:].tolist() == [0.0, 0.0]
    span = max(0.0, *map(float, x)) - min(0.0, *map(float, x))
    assert (np.abs(back[:-2].astype(float) - x.astype(float)) <= max(span / 255, qz.scale)).all()


def test_nan_counts_as_zero_and_infinities_as_the_ends_of_the_finite_range():
    w = tp.quantize(tp.asarray([[1.0, 1.0, 1.0, 1.0]]), tp.affine(1.0))
    one = [1.0, -2.0]
    for bad, value in ((NAN, 0.0), (INF, 1.0), (-INF, -2.0)):
        out = tp.nn.linear(tp.asarray([*one, bad, bad]), w).item()
        assert out == tp.nn.linear(tp.asarray([*one, value, value]), w).item(), bad
    assert tp.nn.linear(tp.asarray([NAN] * 4), w).item() == 0.0
    assert math.isfinite(tp.nn.linear(tp.asarray([INF, -INF, INF, NAN]), w).item())
    image = np.zeros((1, 1, 2, 2), np.float32)
    image[0, 0] = [[1.0, NAN], [INF, -2.0]]
    kernel = tp.quantize(tp.ones((1, 1, 2, 2)), tp.affine(1.0))
    want = tp.nn.conv2d(tp.asarray([[[[1.0, 0.0], [1.0, -2.0]]]]), kernel)
    assert tp.nn.conv2d(tp.asarray(image), kernel).tolist() == want.tolist()


def test_silent_whatever_numpy_is_told():
    w = per_output(normal((3, 4), 1))
    kernel = per_output(normal((2, 1, 2, 2), 1))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for values in ([NAN, INF, -INF, 3e38], [1e-45, 0.0, 0.0, 0.0], [3.4e38, -3.4e38, 3e38, 1.0], [NAN] * 4):
            tp.nn.linear(tp.asarray(values), w, tp.asarray([INF, -INF, NAN]))
            tp.nn.conv2d(tp.reshape(tp.asarray(values), (1, 1, 2, 2)), kernel)


def test_zero_sizes():
    w = per_output(normal((3, 4), 1))
    assert tp.nn.linear(tp.zeros((0, 4)), w, tp.ones(3)).shape == (0, 3)
    empty = tp.quantize(tp.zeros((3, 0)), tp.affine([1.0] * 3, axis=0))
    assert tp.nn.linear(tp.zeros((2, 0)), empty, tp.asarray([1.0, 2.0, 3.0])).tolist() == [[1.0, 2.0, 3.0]] * 2
    assert tp.nn.linear(tp.zeros((2, 4)), tp.quantize(tp.zeros((0, 4)), tp.affine([], axis=0))).shape == (2, 0)
    kernels = per_output(normal((2, 3, 3, 3), 1))
    assert tp.nn.conv2d(tp.zeros((0, 3, 5, 5)), kernels).shape == (0, 2, 3, 3)
    assert (tp.zeros((0, 4)) @ w.T).shape == (0, 3)


# Dispatch and refusals ------------------------------------------------------------------------------------------------


def test_the_kernels_are_found_and_relu_and_pooling_stay_on_floats():
    x, w, b = tp.ones((1, 3, 4, 4)), per_output(normal((2, 3, 3, 3), 1)), tp.ones(2)
    for bias in (b, None):
        assert resolve(tp.nn.conv2d, x, w, bias).label() == "tripoint-quantized:conv2d"
        assert resolve(tp.nn.linear, x, w[:, 0, 0], bias).label() == "tripoint-quantized:linear"
    assert resolve(tp.matmul, x, w[:, 0, 0].T).label() == "tripoint-quantized:matmul_float_quantized"
    out = tp.nn.max_pool2d(tp.nn.relu(tp.nn.conv2d(x, w, b)), kernel_size=2)
    assert (out.shape, out.dtype) == ((1, 2, 1, 1), tp.float32)
    for fn in (tp.nn.relu, lambda q: tp.nn.max_pool2d(q, kernel_size=2)):
        with pytest.raises(NoKernelError, match=r"to\(dtype=.float32.\)"):
            fn(w)


def test_refusals():
    w, b = per_output(normal((3, 4), 1)), tp.ones(3)
    kernels, images = per_output(normal((2, 3, 3, 3), 1)), tp.ones((1, 3, 5, 5))
    inputs = tp.quantize(tp.ones((3, 4)), tp.affine([1.0] * 4, axis=1))
    channels = tp.quantize(tp.ones((2, 3, 3, 3)), tp.affine([1.0] * 3, axis=1))
    for fn, kind, words in (
        (lambda: tp.nn.linear(tp.ones((2, 5)), w), ShapeError, "inner sizes 5 and 4"),
        (lambda: tp.nn.linear(tp.ones(()), w), ShapeError, "at least one axis"),
        (lambda: tp.nn.linear(tp.ones((2, 4)), w, tp.ones(1)), ShapeError, r"bias has shape \(1,\).*needs \(3,\)"),
        (lambda: tp.nn.linear(tp.ones((2, 4)), w[0]), ArgumentError, r"not \(4,\)"),
        (lambda: tp.nn.linear(tp.ones((2, 4)), inputs, b), DTypeError, r"one per output.*\(3, 4\) has channels along axis 1"),
        (lambda: tp.nn.conv2d(images, channels), DTypeError, r"one per output.*channels along axis 1"),
        (lambda: tp.nn.conv2d(tp.ones((1, 2, 5, 5)), kernels), ShapeError, "has 2 channels"),
        (lambda: tp.nn.conv2d(images, kernels, tp.ones(3)), ShapeError, r"bias has shape \(3,\)"),
        (lambda: tp.nn.conv2d(tp.ones((1, 3, 2, 5)), kernels), ShapeError, "window of 3 does not fit"),
        (lambda: tp.ones((2, 5)) @ w.T, ShapeError, "inner sizes 5 and 4"),
        (lambda: tp.nn.linear(tp.ones((2, 4), dtype=tp.float64), w), NoKernelError, "qint8"),
        (lambda: tp.nn.conv2d(tp.ones((1, 3, 5, 5), dtype=tp.int32), kernels), NoKernelError, "qint8"),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            fn()


def test_operands_are_never_changed():
    x, w, b = normal((5, 4), 1), per_output(normal((3, 4), 2)), normal(3, 3)
    a, c, before = tp.asarray(x.copy()), tp.asarray(b.copy()), w.int_repr().tolist()
    for _ in range(2):
        tp.nn.linear(a, w, c)
        tp.nn.conv2d(tp.reshape(a, (5, 1, 2, 2)), per_output(normal((3, 1, 2, 2), 2)), c)
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(c.numpy(), b)
    assert w.int_repr().tolist() == before


# Gradients ------------------------------------------------------------------------------------------------------------


def leaves(*arrays):
    return [tp.asarray(a).requires_grad_() for a in arrays]


def as_floats(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64).astype(np.float32)


@pytest.mark.parametrize("shape", [(5, 6), (6,), (2, 3, 6), (0, 6)])
def test_gradients_of_linear_are_those_of_the_numbers_held(shape):
    a, b, c = normal(shape, 1), normal((4, 6), 2), normal(4, 3)
    x, w, bias = leaves(a, b, c)
    q = per_output(b).quantizer
    tp.square(tp.nn.linear(x, tp.quantize(w, q), bias)).sum().backward()
    u, v, d = leaves(as_floats(rounded(a)) if a.size else a, tp.quantize(tp.asarray(b), q).dequantize().numpy(), c)
    tp.square(tp.nn.linear(u, v, d)).sum().backward()
    for have, want in ((x, u), (w, v), (bias, d)):
        assert have.grad.dtype is tp.float32
        np.testing.assert_allclose(have.grad.numpy(), want.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1, "groups": 2}])
def test_gradients_of_conv2d_are_those_of_the_numbers_held(options):
    a, b, c = normal((2, 4, 6, 5), 1), normal((4, 4 // options.get("groups", 1), 3, 3), 2), normal(4, 3)
    x, w, bias = leaves(a, b, c)
    q = per_output(b).quantizer
    tp.square(tp.nn.conv2d(x, tp.quantize(w, q), bias, **options)).sum().backward()
    u, v, d = leaves(as_floats(rounded(a)), tp.quantize(tp.asarray(b), q).dequantize().numpy(), c)
    tp.square(tp.nn.conv2d(u, v, d, **options)).sum().backward()
    for have, want in ((x, u), (w, v), (bias, d)):
        np.testing.assert_allclose(have.grad.numpy(), want.grad.numpy(), rtol=1e-4, atol=1e-3)


def test_gradients_of_mixed_products():
    a, b = normal((5, 6), 1), normal((6, 4), 2)
    qz = tp.affine(0.05, 3)
    number = lambda t: tp.quantize(tp.asarray(t), qz).dequantize().numpy()
    for fn, left, right in (
        (lambda x, y: x @ tp.quantize(y, qz), as_floats(rounded(a)), number(b)),
        (lambda x, y: tp.quantize(x, qz) @ y, number(a), as_floats(rounded(b))),
    ):
        x, y = leaves(a, b)
        tp.square(fn(x, y)).sum().backward()
        u, v = leaves(left, right)
        tp.square(u @ v).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), u.grad.numpy(), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(y.grad.numpy(), v.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_linear_differentiates_twice():
    a, b = normal((5, 6), 1), normal((4, 6), 2)
    q = per_output(b).quantizer
    grads = []
    for fn, first, second in (
        (lambda x, w: tp.nn.linear(x, tp.quantize(w, q)), a, b),
        (tp.nn.linear, as_floats(rounded(a)), tp.quantize(tp.asarray(b), q).dequantize().numpy()),
    ):
        x, w = leaves(first, second)
        gx, gw = tp.gradients(tp.square(fn(x, w)).sum(), [x, w], create_graph=True)
        ((gx * gx).sum() + (gw * gw).sum()).backward()
        grads.append((x.grad.numpy(), w.grad.numpy()))
    for have, want in zip(*grads, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-2)


def test_a_layer_can_be_trained_through_its_rounding():
    target = normal((3, 8), 5)
    x = normal((64, 8), 6)
    y = tp.asarray(x @ target.T)
    (w,) = leaves(np.zeros((3, 8), np.float32))
    qz = tp.affine(np.full(3, 0.03), axis=0)
    losses = []
    for _ in range(60):
        loss = tp.square(tp.nn.linear(tp.asarray(x), tp.quantize(w, qz)) - y).sum() / 64
        loss.backward()
        with tp.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]
