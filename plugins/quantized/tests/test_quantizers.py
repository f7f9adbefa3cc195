"""Quantizers and the numbers that go in and come out. Oracle: exact fractions and NumPy's float32."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import (
    ArgumentError,
    DTypeError,
    NoKernelError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    TripointError,
)
from tripoint.plugin import payload

RANGES = {tp.qint8: (-128, 127), tp.quint8: (0, 255)}


def ints(values, *args, **kwargs) -> list:
    x = tp.asarray(values) if not isinstance(values, tp.Tensor) else values
    return tp.quantize(x, tp.affine(*args, **kwargs)).int_repr().tolist()


# C1 to C6 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", RANGES, ids=str)
def test_independent_of_length_and_position(dtype):
    for value in (0.3, 757.5, -2.5, float("nan"), 1e30):
        want = ints([value], 15.0, 1, dtype)[0]
        for n in range(1, 131):
            assert ints([value] * n, 15.0, 1, dtype) == [want] * n
            assert ints(tp.asarray([value] * 2 * n)[::2], 15.0, 1, dtype) == [want] * n


def test_divides_and_rounds_once():
    assert ints([757.5], 15.0, 0) == [50]
    scale = np.float32(0.1)
    x = np.arange(-12, 12, 0.05, dtype=np.float32)
    want = np.clip(np.rint(x / scale), -128, 127)
    assert ints(x, 0.1, 0) == want.astype(int).tolist()


def test_ties_go_to_even_before_the_zero_point():
    assert ints([0.25, 0.75, 1.25, 1.75], 0.5, 0) == [0, 2, 2, 4]
    assert ints([0.5, 1.5, -0.5, -1.5], 1.0, 1) == [1, 3, 1, -1]


def test_clamps_as_floats():
    inf = float("inf")
    assert ints([inf, -inf, 1e30, -1e30], 1.0, 3, tp.quint8) == [255, 0, 255, 0]
    assert ints([inf, -inf, 3e38, -3e38], 1e-3, 3, tp.qint8) == [127, -128, 127, -128]
    wide = tp.asarray([1e300, -1e300], dtype=tp.float64)
    assert ints(wide, 1.0, 0, tp.qint8) == [127, -128]


def test_nan_becomes_the_zero_point():
    nan = float("nan")
    assert ints([nan, 1.0], 1.0, 7, tp.quint8) == [7, 8]
    assert ints([[nan, nan]], [1.0, 2.0], [3, -4], axis=1) == [[3, -4]]


@pytest.mark.parametrize("source", [tp.float16, tp.bfloat16, tp.float64, tp.int32, tp.uint8], ids=str)
def test_other_real_dtypes(source):
    assert ints(tp.asarray([1, 2, 40]).to(dtype=source), 0.5, 1, tp.quint8) == [3, 5, 81]


def test_every_integer_comes_back():
    for dtype, (low, high) in RANGES.items():
        every = np.arange(low, high + 1)
        for scale, zero in ((0.1, 3), (1.0, 0), (1e-3, high), (123.5, 100)):
            qz = tp.affine(scale, zero, dtype)
            x = (every - zero).astype(np.float32) * np.float32(scale)
            q = tp.quantize(tp.asarray(x), qz)
            assert q.int_repr().tolist() == every.tolist()
            np.testing.assert_array_equal(q.dequantize().numpy(), x)


def test_per_channel_uses_each_scale():
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    scales, zeros = np.array([0.1, 0.01, 1.0], np.float32), np.array([0, 5, -7])
    for axis in (1, -2):
        q = tp.quantize(tp.asarray(x), tp.affine(scales, zeros, axis=axis))
        want = np.clip(np.rint(x / scales[:, None]) + zeros[:, None], -128, 127)
        np.testing.assert_array_equal(q.int_repr().numpy(), want)
        assert q.quantizer.axis == 1
        np.testing.assert_array_equal(
            q.dequantize().numpy(), (want - zeros[:, None]).astype(np.float32) * scales[:, None]
        )


def test_silent_whatever_numpy_is_told():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert ints([1e38, float("nan")], 1e-3, 0) == [127, 0]
        assert tp.quantize(tp.asarray([1e38]), tp.affine(3e38)).dequantize().tolist() == [0.0]


# C7 -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0, 0.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e-50, 1e39])
def test_scales_must_be_finite_and_above_zero(scale):
    with pytest.raises(TripointError, match=r"the scale is .*finite and above 0") as caught:
        tp.affine(scale)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ValueError, match="scale of channel 1 is"):
        tp.affine([1.0, scale], axis=0)


def test_zero_points_must_be_integers_in_range():
    for bad, dtype in ((128, tp.qint8), (-129, tp.qint8), (-1, tp.quint8), (256, tp.quint8)):
        low, high = RANGES[dtype]
        with pytest.raises(ScalarRangeError, match=rf"zero point is {bad}; for {dtype} .*{low}\.\.{high}"):
            tp.affine(1.0, bad, dtype)
    with pytest.raises(ScalarRangeError, match=r"zero point of channel 2 is 300; for qint8 it must lie in -128\.\.127"):
        tp.affine([1.0] * 3, [0, 1, 300], axis=0)
    with pytest.raises(ScalarRangeError, match=f"zero point is {10**30}; for qint8"):
        tp.affine(1.0, 10**30)
    assert tp.affine(10**30).scale == float(np.float32(1e30))
    with pytest.raises(ArgumentError, match=r"zero point is 1\.5"):
        tp.affine(1.0, 1.5)
    for bad in ("3", True, None, 1j):
        with pytest.raises(ArgumentError, match="zero_point must be a real number"):
            tp.affine(1.0, bad)


def test_other_bad_parameters():
    with pytest.raises(ArgumentError, match="scale must be"):
        tp.affine("0.1")
    with pytest.raises(ShapeError, match="axis="):
        tp.affine([1.0, 2.0])
    with pytest.raises(ShapeError, match="not 3 and 2"):
        tp.affine([1.0, 2.0], [0, 0, 0], axis=0)
    with pytest.raises(ShapeError, match="one number per channel"):
        tp.affine(1.0, axis=0)
    with pytest.raises(ShapeError, match="flat"):
        tp.affine([[1.0]], axis=0)
    with pytest.raises(ArgumentError, match="axis must be an int"):
        tp.affine([1.0], axis=0.5)
    with pytest.raises(DTypeError, match="qint8, quint8"):
        tp.affine(1.0, dtype=tp.int8)
    for dtype in ("qint4", None, float, "float32", 3, [1]):
        with pytest.raises(DTypeError, match="qint8, quint8") as caught:
            tp.affine(1.0, dtype=dtype)
        assert repr(dtype) in str(caught.value)
    for axis in (True, np.True_, "0", [0]):
        with pytest.raises(ArgumentError, match="axis must be an int or None"):
            tp.affine([1.0, 2.0], axis=axis)
    ragged = [[1.0], [1.0, 2.0]]
    for bad in (ragged, [1.0, ragged], [1.0, "a"], [None], {}, object()):
        with pytest.raises(ArgumentError, match="scale must be a real number or one per channel"):
            tp.affine(bad, axis=0)
        with pytest.raises(ArgumentError, match="zero_point must be a real number or one per channel"):
            tp.affine([1.0], bad, axis=0)
    for scale in (10**400, -(10**400), 10**5000):
        with pytest.raises(ValueError, match=r"the scale is -?2\*\*"):
            tp.affine(scale)
        with pytest.raises(ScalarRangeError, match=r"the zero point is -?2\*\*"):
            tp.affine(1.0, scale)
    x = tp.ones((2, 3))
    with pytest.raises(ShapeError, match=r"2 channels along axis 1, and shape .* has 3"):
        tp.quantize(x, tp.affine([1.0, 2.0], axis=1))
    with pytest.raises(ShapeError, match="axis 2"):
        tp.quantize(x, tp.affine([1.0], axis=2))
    with pytest.raises(ArgumentError, match="affine"):
        tp.quantize(x, 0.1)
    with pytest.raises(NoKernelError, match="complex64"):
        tp.quantize(x.to(dtype=tp.complex64), tp.affine(1.0))
    assert tp.quantize(x, tp.affine(1.0)).tolist() == [[1.0] * 3] * 2  # the device works after bad parameters


def test_nothing_is_legal():
    q = tp.quantize(tp.zeros((0, 3)), tp.affine([], axis=0))
    assert (q.shape, q.tolist(), q.quantizer.scale) == ((0, 3), [], ())
    assert tp.quantize(tp.zeros((2, 0)), tp.affine(1.0)).tolist() == [[], []]
    assert tp.quantize(tp.asarray(2.0), tp.affine(0.5)).dequantize().item() == 2.0


def test_quantizers_are_values():
    a, b = tp.affine(0.1, 3, tp.quint8), tp.affine(0.1, 3, "quint8")
    assert a == b
    assert hash(a) == hash(b)
    assert a != tp.affine(0.1, 4, tp.quint8)
    assert repr(a) == "affine(scale=0.1, zero_point=3, dtype=quint8)"
    assert (tp.affine(0.5).scale, tp.affine(0.5).zero_point) == (0.5, 0)
    c = tp.affine([0.5, 0.25], axis=0)
    assert (c.scale, c.zero_point) == ((0.5, 0.25), (0, 0))
    assert pickle.loads(pickle.dumps(c)) == c
    with pytest.raises(AttributeError, match="immutable"):
        a.axis = 1


@pytest.mark.parametrize("dtype", RANGES, ids=str)
def test_tensors_pickle_and_copy_with_their_quantizer(dtype):
    x = tp.asarray([[0.0, 0.5, 1.0], [2.0, 3.0, 4.0]])
    for q in (
        tp.quantize(x, tp.affine(0.5, 3, dtype)),
        tp.quantize(x, tp.affine([0.5, 0.25, 1.0], [1, 2, 3], dtype, axis=1)).T,
        tp.quantize(x, tp.affine([0.5, 0.25], dtype=dtype, axis=0))[0],
    ):
        for other in (*[pickle.loads(pickle.dumps(q, p)) for p in range(2, 6)], copy.deepcopy(q), copy.copy(q)):
            assert (other.dtype, other.shape, other.quantizer) == (q.dtype, q.shape, q.quantizer)
            assert other.int_repr().tolist() == q.int_repr().tolist()
            assert not tp.shares_memory(other, q)
    assert pickle.loads(pickle.dumps(q.detach().requires_grad_())).requires_grad


# In and out -----------------------------------------------------------------------------------------------------------


def test_the_way_in_is_quantize():
    x = tp.ones(3)
    for target in (tp.qint8, tp.quint8):
        with pytest.raises(DTypeError, match=r"quantize\(x, tripoint.affine"):
            x.to(dtype=target)
        with pytest.raises(DTypeError, match="quantize"):
            tp.asarray([1.0], dtype=target)
    q = tp.quantize(x, tp.affine(1.0))
    with pytest.raises(DTypeError, match="quantize"):
        q.to(dtype=tp.quint8)
    assert q.to(dtype=tp.qint8) is q


def test_the_way_out_is_an_ordinary_conversion():
    q = tp.quantize(tp.asarray([0.5, 1.0]), tp.affine(0.5))
    assert (
        q.to(dtype=tp.float32).tolist()
        == q.dequantize().tolist()
        == tp.dequantize(q).tolist()
        == q.tolist()
        == [0.5, 1]
    )
    for dtype in (tp.float64, tp.int32, tp.float16):
        out = q.to(dtype=dtype)
        assert (out.dtype, out.to(dtype=tp.float64).tolist()) == (
            dtype,
            [1.0 * int(v) if dtype is tp.int32 else v for v in (0.5, 1.0)],
        )
    with pytest.raises(DTypeError, match="dequantize takes a quantized tensor"):
        tp.dequantize(tp.ones(2))


def test_attributes_exist_on_quantized_tensors_only():
    q = tp.quantize(tp.ones(2), tp.affine(0.5, 1, tp.quint8))
    assert q.dtype is tp.quint8
    assert q.int_repr().dtype is tp.uint8
    assert q.quantizer == tp.affine(0.5, 1, tp.quint8)
    with pytest.raises(AttributeError, match="quantizer"):
        tp.ones(2).quantizer
    with pytest.raises(ReadOnlyError):
        q.int_repr()[0] = 3
    with pytest.raises(AttributeError, match="immutable"):
        payload(q).quantizer = None


def test_new_scales_make_no_new_plans():
    from tripoint.dispatcher.calls import counters

    x = tp.ones(3)
    tp.quantize(x, tp.affine(0.1))
    before = counters.resolutions
    for i in range(1, 50):
        tp.quantize(x, tp.affine(i / 7))
    assert counters.resolutions == before
