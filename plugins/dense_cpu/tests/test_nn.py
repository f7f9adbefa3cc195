"""Operators of neural networks against SciPy and plain loops; fused kernels against their decomposition."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import tripoint as tp
from tripoint import nn
from tripoint.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from tripoint.schema import rows

FLOATS = ["float16", "bfloat16", "float32", "float64"]
TOLERANCE = {"bfloat16": 1e-2, "float16": 2e-3, "float32": 1e-5, "float64": 1e-12}


def test_every_operator_of_this_family_has_a_case():
    have = {n for n, r in rows.items() if r.body.__module__ == "tripoint.ops.nn"}
    assert have == {
        "relu", "relu_back", "conv2d", "conv2d_input", "conv2d_weight", "max_pool2d", "max_pool2d_input", "max_pool2d_tangent",
        "softmax", "log_softmax", "pick", "pick_back", "cross_entropy", "nll_loss",
        "nll_loss_back", "log_softmax_back", "linear",
    }  # fmt: skip


def np_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def normal(shape, dtype="float64", seed=0):
    return np.asarray(np.random.default_rng(seed).normal(0, 2, shape)).astype(np_dtype(dtype))


def memories(a):
    yield a
    if a.ndim:
        yield a[..., ::-1].copy()[..., ::-1]
    if a.ndim > 1:
        yield np.asfortranarray(a)


def close(got, want, dtype):
    assert got.dtype.name == dtype
    assert type(got.numpy()) is np.ndarray
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "oracle"), [("softmax", special.softmax), ("log_softmax", special.log_softmax)])
def test_softmax(name, oracle, dtype):
    for shape in [(5,), (3, 4), (2, 3, 4), (0, 3), (1, 1)]:
        a = normal(shape, dtype)
        for axis, memory in itertools.product(range(-len(shape), len(shape)), memories(a)):
            want = oracle(memory.astype(np.float64), axis=axis) if memory.size else np.zeros(shape)
            x = tp.asarray(memory)
            for got in (rows[name].call(x, axis=axis), rows[name].body(x, axis=axis) if memory.size else None):
                if got is not None:
                    close(got, want, dtype)
    huge = tp.asarray([1e4, 0.0, -1e4], dtype=dtype)
    close(rows[name].call(huge), oracle(np.array(huge.tolist())), dtype)
    assert rows[name].call(tp.zeros((2, 0), dtype=dtype)).shape == (2, 0)
    assert np.isnan(rows[name].call(tp.asarray([np.nan, 1.0], dtype=dtype)).tolist()).all()
    masked = rows[name].call(tp.asarray([-np.inf, 0.0], dtype=dtype)).tolist()
    assert masked == ([0, 1] if name == "softmax" else [-np.inf, 0])
    assert np.isnan(rows[name].call(tp.asarray([-np.inf, -np.inf], dtype=dtype)).tolist()).all()


def test_softmax_of_others():
    assert rows["softmax"].call(tp.asarray([1, 1])).tolist() == [0.5, 0.5]
    assert rows["log_softmax"].call(tp.asarray([True, True])).dtype is tp.float32
    with pytest.raises(DTypeError, match="not complex64"):
        tp.softmax(tp.asarray([1j]))
    with pytest.raises(ShapeError, match="0-dimensional"):
        tp.softmax(tp.asarray(1.0))
    with pytest.raises(ShapeError, match="axis 3"):
        tp.softmax(tp.ones((2, 3)), axis=3)
    with pytest.raises(ArgumentError, match="'a'"):
        tp.softmax(tp.ones((2, 3)), axis="a")


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint8", "int64"])
def test_relu(dtype):
    for shape in [(), (5,), (3, 4), (0,)]:
        a = normal(shape, "float64").astype(np_dtype(dtype))
        for memory in memories(a):
            got = nn.relu(tp.asarray(memory))
            assert got.dtype.name == dtype
            np.testing.assert_array_equal(got.numpy(), np.maximum(memory, memory.dtype.type(0)))
    if dtype in FLOATS:
        x = tp.asarray([np.nan, -np.inf, np.inf, -0.0], dtype=dtype)
        np.testing.assert_array_equal(nn.relu(x).tolist(), [np.nan, 0, np.inf, 0])
    with pytest.raises(DTypeError, match="not bool"):
        nn.relu(tp.asarray([True]))
    with pytest.raises(DTypeError, match="not complex64"):
        nn.relu(tp.asarray([1j]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_of_negative_zero_is_zero(dtype):
    for n in (0, 1, 7, 33, 200):
        x = tp.full((3 * n,), -0.0, dtype=dtype)
        for part in (x, x[::2], x[::-3]):
            assert not np.signbit(nn.relu(part).to(dtype="float64").numpy()).any()
    assert not np.signbit(nn.relu(tp.asarray(-0.0, dtype=dtype)).item())


@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_back(dtype):
    x = tp.asarray([-1.0, 0.0, -0.0, 2.0, np.nan, np.inf], dtype=dtype)
    g = tp.asarray([4.0, 4.0, 8.0, 4.0, 4.0, np.inf], dtype=dtype)
    want = [0, 2, 4, 4, 4, np.inf]
    assert rows["relu_back"].call(g, x).tolist() == want
    assert rows["relu_back"].body(g, x).tolist() == want
    assert rows["relu_back"].call(g, x).dtype.name == dtype
    assert rows["relu_back"].call(tp.asarray(4.0), tp.asarray(0.0)).item() == 2


def loops(x, w, b, stride, padding, dilation, groups):
    n, (o, cg, kh, kw) = x.shape[0], w.shape
    p = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    oh = (p.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (p.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((n, o, oh, ow))
    for f, i, j in itertools.product(range(o), range(oh), range(ow)):
        g = f // (o // groups)
        rows_ = slice(i * stride[0], i * stride[0] + dilation[0] * (kh - 1) + 1, dilation[0])
        cols = slice(j * stride[1], j * stride[1] + dilation[1] * (kw - 1) + 1, dilation[1])
        out[:, f, i, j] = (p[:, g * cg : (g + 1) * cg, rows_, cols] * w[f]).sum((1, 2, 3)) + (0 if b is None else b[f])
    return out


GEOMETRIES = [
    {}, {"stride": 2}, {"padding": (1, 0)}, {"dilation": (1, 2), "padding": 1}, {"groups": 2}, {"stride": (2, 1), "groups": 2},
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("meta", GEOMETRIES)
def test_conv2d(meta, dtype):
    groups = meta.get("groups", 1)

    def two(name, default):
        value = meta.get(name, default)
        return value if isinstance(value, tuple) else (value, value)

    x, w, b = normal((2, 4, 6, 5), dtype), normal((4, 4 // groups, 2, 3), dtype, 1), normal((4,), dtype, 2)
    want = loops(
        *(v.astype(np.float64) for v in (x, w, b)), two("stride", 1), two("padding", 0), two("dilation", 1), groups
    )
    scale = np.abs(want).max()
    for mx, mw in zip(memories(x), memories(w), strict=True):
        got = nn.conv2d(tp.asarray(mx), tp.asarray(mw), tp.asarray(b), **meta)
        assert got.dtype.name == dtype
        np.testing.assert_allclose(got.numpy().astype(np.float64), want, atol=scale * 2 * TOLERANCE[dtype])
    bare = nn.conv2d(tp.asarray(x), tp.asarray(w), **meta)
    np.testing.assert_allclose(
        bare.numpy().astype(np.float64), want - b.astype(np.float64)[:, None, None], atol=scale * 4 * TOLERANCE[dtype]
    )
    if dtype == "float64":  # the two adjoints: <conv(x, w), g> = <x, conv_input(g, w)> = <w, conv_weight(g, x)>
        g = normal(want.shape, dtype, 3)
        full = dict.fromkeys(["stride", "padding", "dilation", "groups"], 1) | {"padding": 0} | meta
        inner = np.sum(bare.numpy() * g)
        gx = rows["conv2d_input"].call(tp.asarray(g), tp.asarray(w), input_shape=x.shape, **full)
        gw = rows["conv2d_weight"].call(tp.asarray(g), tp.asarray(x), weight_shape=w.shape, **full)
        np.testing.assert_allclose([np.sum(gx.numpy() * x), np.sum(gw.numpy() * w)], [inner, inner])


@pytest.mark.parametrize("sizes", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0), (0, 0, 0, 0)])
@pytest.mark.parametrize("outputs", [0, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_conv2d_with_nothing_in_it(sizes, outputs, stride):
    x, w = tp.ones(sizes).requires_grad_(), tp.ones((outputs, sizes[1], 3, 1)).requires_grad_()
    out = nn.conv2d(x, w, padding=2, stride=stride)
    want = loops(np.ones(sizes), np.ones(w.shape), None, (stride, stride), (2, 2), (1, 1), 1)
    np.testing.assert_array_equal(out.detach().numpy(), want)
    tp.sum(out).backward()
    assert (x.grad.shape, w.grad.shape) == (x.shape, w.shape)
    if sizes[0] * sizes[2] * sizes[3] == 0:
        assert not w.grad.numpy().any()


def test_conv2d_of_no_images_and_mixed_dtypes():
    out = nn.conv2d(tp.zeros((0, 3, 5, 5)), tp.ones((2, 3, 3, 3)), tp.ones((2,)))
    assert out.shape == (0, 2, 3, 3)
    mixed = nn.conv2d(tp.ones((1, 1, 3, 3)), tp.ones((1, 1, 2, 2), dtype="float64"), tp.ones((1,), dtype="int8"))
    assert mixed.dtype is tp.float64
    assert mixed.flatten().tolist() == [5, 5, 5, 5]
    whole = nn.conv2d(tp.ones((1, 1, 3, 3), dtype="int64"), tp.ones((1, 1, 3, 3), dtype="int64"))
    assert whole.dtype is tp.int64
    assert whole.flatten().tolist() == [9]


def pool_loops(x, k, s, p):
    n, c, h, w = x.shape
    padded = np.full((n, c, h + 2 * p[0], w + 2 * p[1]), -np.inf)
    padded[:, :, p[0] : p[0] + h, p[1] : p[1] + w] = x
    oh, ow = (padded.shape[2] - k[0]) // s[0] + 1, (padded.shape[3] - k[1]) // s[1] + 1
    out = np.zeros((n, c, oh, ow))
    for i, j in itertools.product(range(oh), range(ow)):
        out[:, :, i, j] = padded[:, :, i * s[0] : i * s[0] + k[0], j * s[1] : j * s[1] + k[1]].max((2, 3))
    return out


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint8"])
def test_max_pool2d(dtype):
    x = normal((2, 3, 6, 5)).astype(np_dtype(dtype))
    for k, s, p in [((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 2), (1, 1)), ((1, 1), (2, 1), (0, 0))]:
        want = pool_loops(x.astype(np.float64), k, s, p)
        for memory in memories(x):
            got = nn.max_pool2d(tp.asarray(memory), kernel_size=k, stride=s, padding=p)
            assert got.dtype.name == dtype
            np.testing.assert_array_equal(got.numpy().astype(np.float64), want)
    assert nn.max_pool2d(tp.asarray(x), kernel_size=2).shape == (2, 3, 3, 2)
    assert nn.max_pool2d(tp.asarray(x[:0]), kernel_size=2).shape == (0, 3, 3, 2)
    if dtype in FLOATS:
        holed = x.copy()
        holed[0, 0, 0, 0] = np.nan
        assert np.isnan(nn.max_pool2d(tp.asarray(holed), kernel_size=2).tolist()[0][0][0][0])
        g = tp.ones((1, 1, 1, 1), dtype=dtype)
        shared = rows["max_pool2d_input"].call(
            g, tp.ones((1, 1, 2, 2), dtype=dtype), kernel_size=2, stride=2, padding=0
        )
        assert shared.tolist() == [[[[0.25, 0.25], [0.25, 0.25]]]]
        t = tp.asarray([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=dtype)
        mean = rows["max_pool2d_tangent"].call(
            t, tp.ones((1, 1, 2, 2), dtype=dtype), kernel_size=2, stride=2, padding=0
        )
        assert mean.item() == 2.5


@pytest.mark.parametrize("dtype", FLOATS)
def test_cross_entropy(dtype):
    for n, c in [(1, 1), (4, 3), (7, 10)]:
        a = normal((n, c), dtype)
        labels = np.random.default_rng(1).integers(0, c, n)
        want = -special.log_softmax(a.astype(np.float64), axis=1)[np.arange(n), labels].mean()
        hot = np.zeros((n, c))
        hot[np.arange(n), labels] = 1
        slope = (special.softmax(a.astype(np.float64), axis=1) - hot) / n
        for memory, kind in itertools.product(memories(a), ("int64", "uint8")):
            x, y = tp.asarray(memory), tp.asarray(labels.astype(kind))
            close(nn.cross_entropy(x, y), want, dtype)
            close(rows["cross_entropy"].body(x, y), want, dtype)
            logs, one = nn.log_softmax(x), tp.ones((), dtype=dtype)
            for form in ("call", "body"):
                close(getattr(rows["nll_loss"], form)(logs, y), want, dtype)
                back = getattr(rows["nll_loss_back"], form)(one, y, shape=(n, c))
                close(back, -hot / n, dtype)
                close(getattr(rows["log_softmax_back"], form)(back, logs, axis=1), slope, dtype)
    assert np.isnan(nn.cross_entropy(tp.zeros((0, 3), dtype=dtype), tp.zeros((0,), dtype="int64")).item())


def test_pick():
    a = np.arange(6.0).reshape(3, 2)
    x, y = tp.asarray(a), tp.asarray([1, 0, 1])
    assert rows["pick"].call(x, y).tolist() == [1, 2, 5]
    assert rows["pick_back"].call(tp.asarray([1.0, 2.0, 3.0]), y, classes=2).tolist() == [[0, 1], [2, 0], [0, 3]]
    for bad in (2, -1):
        with pytest.raises(IndexingError, match=rf"{bad} is out of range; positions lie in 0\.\.1"):
            rows["pick"].call(x, tp.asarray([0, 0, bad]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_linear(dtype):
    w, b = normal((4, 3), dtype, 1), normal((4,), dtype, 2)
    for shape in [(3,), (2, 3), (5, 2, 3), (0, 3)]:
        x = normal(shape, dtype)
        want = x.astype(np.float64) @ w.astype(np.float64).T + b.astype(np.float64)
        got = nn.linear(tp.asarray(x), tp.asarray(w), tp.asarray(b))
        np.testing.assert_allclose(got.numpy().astype(np.float64), want, atol=20 * TOLERANCE[dtype])
        assert got.dtype.name == dtype
        assert nn.linear(tp.asarray(x), tp.asarray(w)).shape == want.shape


def test_refusals():
    x, y = tp.ones((2, 3)), tp.asarray([0, 1])
    images, weight = tp.ones((1, 2, 5, 5)), tp.ones((4, 2, 3, 3))
    for call, kind, words in [
        (lambda: nn.conv2d(x, x), ShapeError, r"\(2, 3\)"),
        (lambda: nn.conv2d(images, tp.ones((1, 3, 3, 3))), ShapeError, r"\(1, 2, 5, 5\) has 2 channels"),
        (lambda: nn.conv2d(images, tp.ones((3, 1, 3, 3)), groups=2), ShapeError, "3 outputs do not divide by 2"),
        (lambda: nn.conv2d(images, weight, tp.ones((3,))), ShapeError, r"bias has shape \(3,\)"),
        (lambda: nn.conv2d(images, tp.ones((4, 2, 7, 7))), ShapeError, "window of 7 does not fit an axis of size 5"),
        (lambda: nn.conv2d(images, weight, stride=0), ShapeError, "stride 0"),
        (lambda: nn.conv2d(images, weight, padding=-1), ShapeError, "padding -1"),
        (lambda: nn.conv2d(images, weight, dilation=1.5), ArgumentError, r"1\.5"),
        (lambda: nn.conv2d(images, weight, groups=0), ArgumentError, "groups .* not 0"),
        (lambda: nn.conv2d(images, weight, stride=(1, 2, 3)), ArgumentError, r"\(1, 2, 3\)"),
        (lambda: nn.conv2d(images, weight, 2.0), ArgumentError, r"bias must be a tensor, not the float 2\.0"),
        (lambda: nn.conv2d(images > 0, weight > 0), DTypeError, "not bool"),
        (lambda: nn.max_pool2d(x, kernel_size=2), ShapeError, r"\(2, 3\)"),
        (lambda: nn.max_pool2d(images, kernel_size=6), ShapeError, "window of 6 .* size 5"),
        (lambda: nn.max_pool2d(images, kernel_size=0), ShapeError, "kernel_size 0"),
        (lambda: nn.max_pool2d(images, kernel_size=2, padding=2), ShapeError, r"padding \(2, 2\) is more than half"),
        (lambda: nn.max_pool2d(images, kernel_size="a"), ArgumentError, "'a'"),
        (lambda: nn.cross_entropy(x, tp.asarray([0, 3])), IndexingError, "3 is out of range"),
        (lambda: nn.cross_entropy(x, tp.asarray([-1, 0])), IndexingError, "-1 is out of range"),
        (lambda: nn.cross_entropy(x, tp.asarray([0.0, 1.0])), DTypeError, "labels must be integers, not float32"),
        (
            lambda: nn.cross_entropy(x, tp.asarray([0, 1, 2])),
            ShapeError,
            r"\(2, 3\) and labels .*\(3,\)|\(2, 3\) and \(3,\)",
        ),
        (lambda: nn.cross_entropy(tp.ones((3,)), y), ShapeError, r"\(3,\)"),
        (
            lambda: nn.cross_entropy(tp.asarray([[1, 2], [3, 4]]), y),
            DTypeError,
            "cross_entropy takes floating .* not int64",
        ),
        (lambda: nn.linear(x, tp.ones((3,))), ArgumentError, r"\(3,\)"),
        (lambda: nn.linear(x, tp.ones((4, 2))), ShapeError, "3 and 2"),
        (lambda: nn.linear(x, tp.ones((4, 3)), tp.ones((1,))), ShapeError, r"bias has shape \(1,\); .* needs \(4,\)"),
    ]:
        with pytest.raises(kind, match=words):
            call()
