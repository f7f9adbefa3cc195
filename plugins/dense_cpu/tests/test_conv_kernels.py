"""The convolution and pooling kernels against loops, SciPy, adjoint identities and finite differences."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy import signal

from tripoint_dense_cpu import _conv

GEOMETRIES = [
    # stride, padding, dilation, groups, kernel
    ((1, 1), (0, 0), (1, 1), 1, (3, 3)),
    ((1, 1), (1, 1), (1, 1), 1, (3, 3)),
    ((1, 1), (1, 1), (1, 1), 2, (3, 3)),
    ((1, 1), (0, 0), (1, 1), 1, (1, 1)),
    ((1, 1), (2, 3), (1, 1), 1, (1, 2)),  # padding beyond the kernel's reach
    ((2, 2), (1, 1), (1, 1), 1, (3, 3)),
    ((2, 1), (0, 2), (1, 1), 4, (2, 3)),
    ((3, 2), (1, 0), (1, 2), 2, (2, 3)),
    ((1, 1), (2, 2), (2, 2), 4, (3, 3)),
    ((4, 3), (0, 0), (1, 1), 1, (2, 2)),  # strides longer than the kernel: some inputs are never seen
]
POOLS = [
    # kernel_size, stride, padding
    ((2, 2), (2, 2), (0, 0)),
    ((3, 3), (1, 1), (1, 1)),
    ((3, 2), (2, 2), (1, 1)),
    ((2, 3), (3, 1), (0, 1)),
    ((1, 1), (1, 1), (0, 0)),
    ((1, 1), (2, 3), (0, 0)),
]
TOLERANCE = {"float64": 1e-11, "float32": 1e-4, "float16": 2e-2}


def rng() -> np.random.Generator:
    return np.random.default_rng(20240229)


def conv_loops(x, weight, bias, stride, padding, dilation, groups):
    """The definition, one output at a time."""
    (n, c, h, w), (o, cg, kh, kw) = x.shape, weight.shape
    padded = np.zeros((n, c, h + 2 * padding[0], w + 2 * padding[1]), x.dtype)
    padded[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w] = x
    oh = (padded.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (padded.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = np.zeros((n, o, oh, ow), x.dtype)
    for image, f, i, j in itertools.product(range(n), range(o), range(oh), range(ow)):
        group = f // (o // groups)
        total = x.dtype.type(0) if bias is None else bias[f]
        for ch, a, b in itertools.product(range(cg), range(kh), range(kw)):
            row, col = i * stride[0] + a * dilation[0], j * stride[1] + b * dilation[1]
            total = total + weight[f, ch, a, b] * padded[image, group * cg + ch, row, col]
        out[image, f, i, j] = total
    return out


def windows(shape, kernel_size, stride, padding):
    """(i, j, rows, cols): the real inputs, as index ranges, of every pooling window."""
    (kh, kw), (sh, sw), (ph, pw) = kernel_size, stride, padding
    oh, ow = (shape[2] + 2 * ph - kh) // sh + 1, (shape[3] + 2 * pw - kw) // sw + 1
    for i, j in itertools.product(range(oh), range(ow)):
        rows = range(max(0, i * sh - ph), min(shape[2], i * sh - ph + kh))
        cols = range(max(0, j * sw - pw), min(shape[3], j * sw - pw + kw))
        yield i, j, rows, cols


def pool_loops(x, kernel_size, stride, padding):
    """(maxima, ties): ties[n, c, i, j] lists the places of the tied maxima."""
    maxima, ties = {}, {}
    for (n, c), (i, j, rows, cols) in itertools.product(
        np.ndindex(*x.shape[:2]), list(windows(x.shape, kernel_size, stride, padding))
    ):
        places = [(n, c, a, b) for a in rows for b in cols]
        values = [x[place] for place in places]
        nans = [place for place, value in zip(places, values, strict=True) if value != value]
        if nans:
            maxima[n, c, i, j], ties[n, c, i, j] = np.nan, nans
        else:
            top = max(values)
            maxima[n, c, i, j] = top
            ties[n, c, i, j] = [place for place, value in zip(places, values, strict=True) if value == top]
    shape = tuple(np.max([*maxima], axis=0) + 1)
    out = np.empty(shape, x.dtype)
    for place, value in maxima.items():
        out[place] = value
    return out, ties


def case(geometry, dtype="float64", n=3):
    stride, padding, dilation, groups, kernel = geometry
    random = rng()
    x = random.standard_normal((n, 4, 8, 7)).astype(dtype)
    weight = random.standard_normal((8, 4 // groups, *kernel)).astype(dtype)
    return x, weight, {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def check_array(got, expected, dtype, tolerance=None):
    assert got.dtype == np.dtype(dtype)
    assert got.flags.c_contiguous
    assert got.shape == expected.shape
    tolerance = TOLERANCE[str(np.dtype(dtype))] if tolerance is None else tolerance
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_forward_is_the_definition(geometry, dtype, with_bias):
    x, weight, options = case(geometry, dtype)
    bias = rng().standard_normal(8).astype(dtype) if with_bias else None
    wide = [None if a is None else a.astype(np.float64) for a in (x, weight, bias)]
    check_array(_conv.conv2d(x, weight, bias, **options), conv_loops(*wide, *options.values()), dtype)


@pytest.mark.parametrize("channels", [1, 5, 16])
def test_forward_is_scipys_correlation(channels):
    x = rng().standard_normal((4, channels, 8, 8))
    weight = rng().standard_normal((6, channels, 3, 3))
    expected = np.array(
        [[sum(signal.correlate2d(i, k, "same") for i, k in zip(image, f, strict=True)) for f in weight] for image in x]
    )
    got = _conv.conv2d(x, weight, None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
    check_array(got, expected, "float64")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("geometry", [GEOMETRIES[1], GEOMETRIES[7]])
def test_forward_of_integers_is_exact_and_wraps(geometry, dtype):
    x, weight, options = case(geometry)
    x, weight = (x * 40).astype(np.int64).astype(dtype), (weight * 40).astype(np.int64).astype(dtype)
    bias = np.arange(8).astype(dtype)
    wide = [a.astype(np.int64) for a in (x, weight, bias)]
    got = _conv.conv2d(x, weight, bias, **options)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, conv_loops(*wide, *options.values()).astype(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gradients_are_adjoint_to_forward(geometry, dtype):
    """<conv(x, w), g> = <x, conv_input(g, w)> = <w, conv_weight(g, x)>, entry by entry of a basis for the second."""
    x, weight, options = case(geometry, dtype)
    wide = conv_loops(x.astype(np.float64), weight.astype(np.float64), None, *options.values())
    g = rng().standard_normal(wide.shape).astype(dtype)
    left = np.sum(wide * g)
    input_grad = _conv.conv2d_input(g, weight, input_shape=x.shape, **options)
    weight_grad = _conv.conv2d_weight(g, x, weight_shape=weight.shape, **options)
    for got, like in [(input_grad, x), (weight_grad, weight)]:
        assert got.dtype == np.dtype(dtype)
        assert got.shape == like.shape
        assert got.flags.c_contiguous
        scale = np.sum(np.abs(like.astype(np.float64) * got))
        assert abs(np.sum(like.astype(np.float64) * got) - left) <= TOLERANCE[dtype] * scale


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_gradients_are_finite_differences(geometry):
    """Convolution is linear in each argument, so a difference quotient with step 1 is exact up to rounding."""
    x, weight, options = case(geometry, n=2)
    base = conv_loops(x, weight, None, *options.values())
    g = rng().standard_normal(base.shape)
    input_grad = _conv.conv2d_input(g, weight, input_shape=x.shape, **options)
    weight_grad = _conv.conv2d_weight(g, x, weight_shape=weight.shape, **options)
    pick = rng()
    for got, which in [(input_grad, 0), (weight_grad, 1)]:
        for _ in range(6):
            moved = [x.copy(), weight.copy()]
            place = tuple(int(pick.integers(extent)) for extent in got.shape)
            moved[which][place] += 1.0
            quotient = np.sum(g * (conv_loops(*moved, None, *options.values()) - base))
            assert got[place] == pytest.approx(quotient, rel=1e-9, abs=1e-9)


def test_first_layer_gradients_by_scipy():
    """One channel, as in the first layer: the column layout differs from that of many channels."""
    x, weight = rng().standard_normal((5, 1, 8, 8)), rng().standard_normal((3, 1, 3, 3))
    g = rng().standard_normal((5, 3, 8, 8))
    options = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    input_expected = np.array(
        [[sum(signal.convolve2d(g[n, o], weight[o, 0], "same") for o in range(3))] for n in range(5)]
    )
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    weight_expected = np.array(
        [[sum(signal.correlate2d(padded[n, 0], g[n, o], "valid") for n in range(5))] for o in range(3)]
    )
    check_array(_conv.conv2d_input(g, weight, input_shape=x.shape, **options), input_expected, "float64")
    check_array(_conv.conv2d_weight(g, x, weight_shape=weight.shape, **options), weight_expected, "float64")


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_empty_batch(geometry):
    x, weight, options = case(geometry)
    out_shape = _conv.conv2d(x, weight, None, **options).shape
    empty = _conv.conv2d(x[:0], weight, np.ones(8), **options)
    assert empty.shape == (0, *out_shape[1:])
    assert _conv.conv2d_input(empty, weight, input_shape=x[:0].shape, **options).shape == x[:0].shape
    weight_grad = _conv.conv2d_weight(empty, x[:0], weight_shape=weight.shape, **options)
    np.testing.assert_array_equal(weight_grad, np.zeros_like(weight))


def test_no_input_channels_gives_the_bias():
    x, weight = np.ones((2, 0, 4, 4)), np.ones((3, 0, 3, 3))
    got = _conv.conv2d(x, weight, np.arange(3.0), stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
    np.testing.assert_array_equal(got, np.broadcast_to(np.arange(3.0)[None, :, None, None], (2, 3, 4, 4)))


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_non_contiguous_arguments(geometry):
    x, weight, options = case(geometry)
    g = rng().standard_normal(_conv.conv2d(x, weight, None, **options).shape)

    def strided(a):  # the same values behind a negative stride, a step and exchanged axes
        store = np.zeros((a.shape[3], a.shape[0], 2 * a.shape[1], a.shape[2]))
        view = store.transpose(1, 2, 3, 0)[:, ::2, ::-1]
        view[...] = a
        return view

    assert not strided(x).flags.c_contiguous
    before = [a.copy() for a in (x, weight, g)]
    for arguments in [(x, weight, g), (strided(x), strided(weight), strided(g))]:
        xs, ws, gs = arguments
        check_array(_conv.conv2d(xs, ws, None, **options), _conv.conv2d(x, weight, None, **options), "float64")
        check_array(
            _conv.conv2d_input(gs, ws, input_shape=x.shape, **options),
            _conv.conv2d_input(g, weight, input_shape=x.shape, **options),
            "float64",
        )
        check_array(
            _conv.conv2d_weight(gs, xs, weight_shape=weight.shape, **options),
            _conv.conv2d_weight(g, x, weight_shape=weight.shape, **options),
            "float64",
        )
    for a, b in zip((x, weight, g), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_blocks_of_images_agree_with_single_images(monkeypatch):
    """The batch is worked through in blocks; their size must not show, and results must not share scratch memory."""
    for geometry in GEOMETRIES:
        x, weight, options = case(geometry, n=5)
        whole = _conv.conv2d(x, weight, np.ones(8), **options)
        g = rng().standard_normal(whole.shape)
        input_grad = _conv.conv2d_input(g, weight, input_shape=x.shape, **options)
        weight_grad = _conv.conv2d_weight(g, x, weight_shape=weight.shape, **options)
        for size in (1, 30_000, 60_000):
            with monkeypatch.context() as patch:
                patch.setattr(_conv, "_BLOCK_BYTES", size)
                patch.setattr(_conv, "_KEEP_BYTES", size)
                check_array(_conv.conv2d(x, weight, np.ones(8), **options), whole, "float64")
                check_array(_conv.conv2d_input(g, weight, input_shape=x.shape, **options), input_grad, "float64")
                check_array(_conv.conv2d_weight(g, x, weight_shape=weight.shape, **options), weight_grad, "float64")
    kept = whole.copy()
    _conv.conv2d(x + 1, weight, None, **options)
    np.testing.assert_array_equal(whole, kept)


def test_a_kernel_larger_than_the_input_is_refused():
    options = {"stride": (1, 1), "padding": (0, 0), "dilation": (2, 2), "groups": 1}
    with pytest.raises(ValueError, match="exceeds"):
        _conv.conv2d(np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3)), None, **options)
    with pytest.raises(ValueError, match="exceeds"):
        _conv.max_pool2d(np.ones((1, 1, 4, 4)), kernel_size=(5, 5), stride=(1, 1), padding=(0, 0))
    with pytest.raises(ValueError, match="does not fit"):
        _conv.conv2d(np.ones((1, 2, 9, 9)), np.ones((1, 1, 3, 3)), None, **options)
    with pytest.raises(ValueError, match="is expected"):
        _conv.conv2d_weight(np.ones((1, 1, 9, 9)), np.ones((1, 1, 9, 9)), weight_shape=(1, 1, 3, 3), **options)


def test_convolution_never_warns():
    x = np.array([np.inf, -np.inf, np.nan, 1e38, 1e-45, 0.0] * 6, np.float32).reshape(1, 1, 6, 6)
    options = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    for dtype in (np.float32, np.float16):
        with np.errstate(all="ignore"):
            images, weight = x.astype(dtype), np.full((2, 1, 3, 3), 3e4, dtype)
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            y = _conv.conv2d(images, weight, weight[:, 0, 0, 0], **options)
            _conv.conv2d_input(y, weight, input_shape=x.shape, **options)
            _conv.conv2d_weight(y, images, weight_shape=weight.shape, **options)


def pool_inputs():
    random = rng()
    plain = random.standard_normal((2, 3, 7, 8))
    ties = random.integers(0, 3, (2, 3, 7, 8)).astype(np.float64)
    strange = ties.copy()
    strange[random.random(strange.shape) < 0.1] = np.nan
    strange[random.random(strange.shape) < 0.1] = np.inf
    strange[random.random(strange.shape) < 0.3] = -np.inf
    return {"plain": plain, "ties": ties, "strange": strange, "lowest": np.full((2, 3, 7, 8), -np.inf)}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("kind", ["plain", "ties", "strange", "lowest"])
def test_pooling_is_the_definition(kind, pool, dtype):
    x = pool_inputs()[kind].astype(dtype)
    options = dict(zip(("kernel_size", "stride", "padding"), pool, strict=True))
    expected, ties = pool_loops(x, *pool)
    random = rng()
    g = random.integers(-8, 9, expected.shape).astype(dtype)
    g[0, 0, 0, 0] = np.inf  # the inputs that are not maxima still get 0, not inf * 0
    t = random.integers(-8, 9, x.shape).astype(dtype)
    input_expected, tangent_expected = np.zeros(x.shape), np.zeros(expected.shape)
    for place, tied in ties.items():
        for where in tied:
            input_expected[where] += np.float64(g[place]) / len(tied)
            tangent_expected[place] += np.float64(t[where]) / len(tied)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        got = _conv.max_pool2d(x, **options)
        input_got = _conv.max_pool2d_input(g, x, **options)
        tangent_got = _conv.max_pool2d_tangent(t, x, **options)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.dtype(dtype)
    assert got.flags.c_contiguous
    check_array(input_got, input_expected, dtype)
    check_array(tangent_got, tangent_expected, dtype)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_pooling_of_integers(pool, dtype):
    x = rng().integers(-128, 128, (2, 3, 7, 8)).astype(dtype)
    got = _conv.max_pool2d(x, **dict(zip(("kernel_size", "stride", "padding"), pool, strict=True)))
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, pool_loops(x, *pool)[0])


@pytest.mark.parametrize("pool", POOLS)
def test_pooling_gradient_is_a_finite_difference(pool):
    x = rng().permutation(2 * 3 * 7 * 8).reshape(2, 3, 7, 8).astype(np.float64)  # no ties, gaps of 1
    options = dict(zip(("kernel_size", "stride", "padding"), pool, strict=True))
    base = pool_loops(x, *pool)[0]
    g = rng().standard_normal(base.shape)
    got = _conv.max_pool2d_input(g, x, **options)
    for place in [(0, 0, 0, 0), (1, 2, 6, 7), (0, 1, 3, 4), (1, 0, 5, 2)]:
        moved = x.copy()
        moved[place] += 0.25
        quotient = np.sum(g * (pool_loops(moved, *pool)[0] - base)) / 0.25
        assert got[place] == pytest.approx(quotient, abs=1e-9)


@pytest.mark.parametrize("pool", POOLS)
def test_pooling_maps_are_adjoint(pool):
    options = dict(zip(("kernel_size", "stride", "padding"), pool, strict=True))
    for x in pool_inputs().values():
        t = rng().standard_normal(x.shape)
        tangent = _conv.max_pool2d_tangent(t, x, **options)
        g = rng().standard_normal(tangent.shape)
        assert np.sum(tangent * g) == pytest.approx(np.sum(t * _conv.max_pool2d_input(g, x, **options)), abs=1e-10)


def test_a_tie_is_divided_evenly():
    x = np.array([[[[1.0, 1.0], [0.0, 1.0]]]])
    options = {"kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0)}
    got = _conv.max_pool2d_input(np.full((1, 1, 1, 1), 6.0), x, **options)
    np.testing.assert_array_equal(got, [[[[2.0, 2.0], [0.0, 2.0]]]])
    assert _conv.max_pool2d_tangent(np.array([[[[1.0, 2.0], [100.0, 6.0]]]]), x, **options).item() == 3.0


def test_a_window_of_padding_alone():
    x = np.ones((1, 1, 2, 2))
    options = {"kernel_size": (1, 1), "stride": (1, 1), "padding": (1, 1)}
    got = _conv.max_pool2d(x, **options)
    assert got[0, 0, 0, 0] == -np.inf
    np.testing.assert_array_equal(_conv.max_pool2d_input(np.ones((1, 1, 4, 4)), x, **options), x)
    assert _conv.max_pool2d_tangent(x, x, **options).sum() == 4.0


@pytest.mark.parametrize("size", [16, 20])
def test_more_ties_than_a_byte_counts(size):
    x = np.zeros((1, 1, size, size))
    options = {"kernel_size": (size, size), "stride": (1, 1), "padding": (0, 0)}
    got = _conv.max_pool2d_input(np.ones((1, 1, 1, 1)), x, **options)
    np.testing.assert_allclose(got, np.full(x.shape, 1 / size**2))


@pytest.mark.parametrize("pool", POOLS)
def test_pooling_of_strided_and_empty_arrays(pool, monkeypatch):
    monkeypatch.setattr(_conv, "_POOL_BLOCK_BYTES", 1)
    options = dict(zip(("kernel_size", "stride", "padding"), pool, strict=True))
    x = pool_inputs()["ties"].transpose(1, 0, 2, 3)[::-1, :, ::-1, ::-1]
    g = rng().standard_normal(_conv.max_pool2d(x, **options).shape)[:, ::-1, :, ::-1]
    t = rng().standard_normal(x.shape)[::-1, :, :, ::-1]
    copies = [np.ascontiguousarray(a) for a in (x, g, t)]
    np.testing.assert_array_equal(_conv.max_pool2d(x, **options), pool_loops(copies[0], *pool)[0])
    check_array(
        _conv.max_pool2d_input(g, x, **options), _conv.max_pool2d_input(copies[1], copies[0], **options), "float64"
    )
    check_array(
        _conv.max_pool2d_tangent(t, x, **options), _conv.max_pool2d_tangent(copies[2], copies[0], **options), "float64"
    )
    assert _conv.max_pool2d(x[:0], **options).shape == (0, *g.shape[1:])
    assert _conv.max_pool2d_input(g[:0], x[:0], **options).shape == x[:0].shape
    assert _conv.max_pool2d_tangent(t[:0], x[:0], **options).shape == (0, *g.shape[1:])
