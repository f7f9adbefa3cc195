"""Every reduction against NumPy: axes, dtypes, memory orders, empty axes, NaN, and results of no dimensions."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DTypeError, ShapeError
from tripoint.schema import rows

BF16 = np.dtype(ml_dtypes.bfloat16)
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
EVERY = ["bool", *INTS, *FLOATS, *COMPLEX]
TOLERANCE = {
    "bfloat16": 1e-2,
    "float16": 2e-3,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float64": 1e-13,
    "complex128": 1e-13,
}
CASES = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min, "all": np.all, "any": np.any,
    "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip


def np_dtype(name):
    return BF16 if name == "bfloat16" else np.dtype(name)


def result(name, dtype):
    """Our table of result dtypes: integers and bools are summed in 64 bits, unsigned ones unsigned."""
    if name in ("all", "any"):
        return "bool"
    if name in ("argmax", "argmin"):
        return "int64"
    whole = dtype == "bool" or dtype in INTS
    if name == "mean":
        return "float32" if whole else dtype
    if name in ("sum", "prod") and whole:
        return "uint64" if dtype.startswith("uint") else "int64"
    return dtype


def values(dtype, shape, seed=0):
    rng = np.random.default_rng([seed, EVERY.index(dtype)])
    out = rng.integers(-3, 4, shape)
    if dtype == "bool":
        return out > 0
    if dtype.startswith("uint"):
        out = np.abs(out)
    if dtype in FLOATS:
        out = out / 2
    if dtype in COMPLEX:
        out = out + 0.5j
    return np.asarray(out).astype(np_dtype(dtype))


def memories(array):
    yield array
    if array.ndim:
        yield array[..., ::-1].copy()[..., ::-1]
        spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
        spread[...] = array
        yield spread
    if array.ndim > 1:
        yield np.asfortranarray(array)


def same(got, want, tolerance=0.0):
    have = got.numpy()
    want = np.asarray(want)
    assert type(have) is np.ndarray
    assert got.dtype.name == want.dtype.name
    assert got.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(have, want)
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(have.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)


def test_every_reduction_has_a_case():
    assert {n for n, r in rows.items() if r.body.__module__ == "tripoint.ops.reductions"} == {*CASES, "sum_leading"}


@pytest.mark.parametrize("dtype", ["int64", *FLOATS, *COMPLEX])
@pytest.mark.parametrize("form", ["call", "body"])
def test_sums_over_leading_axes(dtype, form):
    for shape in ((3, 4), (65, 4), (5000, 2), (0, 3), (2, 3, 4), (2, 0, 4)):
        array = values(dtype, shape)
        for memory in memories(array):
            for count in range(len(shape) + 1):
                out = getattr(rows["sum_leading"], form)(tp.asarray(memory), shape=shape[count:])
                work = np.complex128 if dtype in COMPLEX else np.float64
                want = array.astype(work).sum(axis=tuple(range(count))).astype(np_dtype(dtype))
                assert (out.shape, out.dtype.name) == (shape[count:], dtype)
                np.testing.assert_array_equal(out.numpy(), want)
    if form == "call":
        with pytest.raises(ShapeError, match=r"\(3,\) are not the last sizes of the shape \(2, 4\)"):
            rows["sum_leading"].call(tp.ones((2, 4)), shape=(3,))


def reference(name, x, axis, keepdims, dtype):
    if dtype in ("float16", "bfloat16"):
        x = x.astype(np.float32)
    if name in ("sum", "prod"):
        out = CASES[name](
            x, axis=axis, keepdims=keepdims, dtype=None if dtype not in ("float16", "bfloat16") else np.float32
        )
    else:
        out = CASES[name](x, axis=axis, keepdims=keepdims)
    return np.asarray(out).astype(np_dtype(result(name, dtype)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", EVERY)
def test_against_numpy(name, dtype):
    if dtype in COMPLEX and name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(DTypeError, match=rf"{name} takes boolean and real dtypes, not {dtype}"):
            rows[name].call(tp.ones((2,), dtype=dtype))
        return
    arg = name.startswith("arg")
    for shape in [(), (1,), (7,), (3, 4), (2, 3, 4), (3, 1, 2)]:
        x = values(dtype, shape)
        axes = [None, *range(-len(shape), len(shape))]
        if not arg:
            axes += [()] + ([(0, -1), (1, 0)] if len(shape) > 1 else [])
        for axis, keepdims in itertools.product(axes, (False, True)):
            want = reference(name, x, axis, keepdims, dtype)
            for memory in memories(x):
                t = tp.asarray(memory)
                got = rows[name].call(t, axis=axis, keepdims=keepdims)
                same(got, want, TOLERANCE.get(dtype, 1e-6))
                assert not tp.shares_memory(got, t)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float16", "bfloat16", "float32", "complex64"])
def test_empty_axes(dtype):
    for shape in [(0,), (0, 3), (2, 0), (2, 0, 3)]:
        x = tp.zeros(shape, dtype=dtype)
        for axis in [None, *range(len(shape))]:
            a = np.zeros(shape)
            for name, unit in (("sum", 0), ("prod", 1), ("all", 1), ("any", 0)):
                want = np.full(np.sum(a, axis=axis).shape, unit).astype(np_dtype(result(name, dtype)))
                same(rows[name].call(x, axis=axis), want)
    if dtype == "complex64":
        return
    for name in ("max", "min", "argmax", "argmin"):
        x = tp.zeros((2, 0, 3), dtype=dtype)
        same(rows[name].call(x, axis=0), np.zeros((0, 3), np_dtype(result(name, dtype))))
        same(rows[name].call(x, axis=2, keepdims=True), np.zeros((2, 0, 1), np_dtype(result(name, dtype))))
        for axis in (1, None):
            with pytest.raises(ShapeError, match=r"axis 1 of shape \(2, 0, 3\) has size 0"):
                rows[name].call(x, axis=axis)
        same(rows[name].call(tp.zeros((2, 0), dtype=dtype), axis=0), np.zeros((0,), np_dtype(result(name, dtype))))


def test_the_mean_of_nothing_is_nan():
    assert np.isnan(tp.zeros((0,)).mean().item())
    same(tp.zeros((2, 0)).mean(axis=1), np.full((2,), np.nan, np.float32))
    same(tp.zeros((2, 0)).mean(axis=0), np.zeros((0,), np.float32))


def test_small_integers_are_summed_in_64_bits():
    same(tp.sum(tp.full((300,), 127, dtype="int8")), np.int64(300 * 127))
    same(tp.sum(tp.full((300,), 255, dtype="uint8")), np.uint64(300 * 255))
    same(tp.prod(tp.full((3,), 100, dtype="int8")), np.int64(10**6))
    same(tp.sum(tp.ones((300,), dtype="bool")), np.int64(300))
    same(tp.mean(tp.full((300,), 127, dtype="int8")), np.float32(127))
    same(tp.asarray([2**62, 2**62, 2**62]).sum(), np.array(2**62 * 3 - 2**64, dtype=np.int64))


def test_half_precision_is_accumulated_wide():
    for dtype in ("float16", "bfloat16"):
        same(tp.sum(tp.ones((4096,), dtype=dtype)), np.asarray(4096).astype(np_dtype(dtype)))
        same(tp.mean(tp.full((4096,), 3, dtype=dtype)), np.asarray(3).astype(np_dtype(dtype)))


def test_dtype_argument():
    x = tp.asarray([0.5, 1.75, 2.25])
    same(tp.sum(x, dtype="float64"), np.float64(4.5))
    same(tp.sum(x, dtype=np.float64), np.float64(4.5))
    same(tp.sum(x, dtype=tp.int64), np.int64(3))
    same(tp.sum(tp.asarray([100, 100], dtype="int8"), dtype="int8"), np.int8(-56))
    same(tp.prod(tp.asarray([3, 4]), dtype=float), np.float32(12))
    same(tp.sum(tp.asarray([1, 2]), dtype="bfloat16"), np.asarray(3).astype(BF16))
    same(tp.sum(tp.asarray([1, 2]), dtype=complex), np.complex64(3))
    with pytest.raises(DTypeError, match="unknown dtype 'float33'"):
        tp.sum(x, dtype="float33")
    for reduce in (tp.sum, tp.prod):
        with pytest.raises(DTypeError, match="complex64 to float32 drops the imaginary parts"):
            reduce(tp.asarray([1j, 2]), dtype="float32")


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinities(dtype):
    x = np.array([[1, np.nan, 2], [np.nan, np.inf, -np.inf], [3, 1, 3], [-np.inf, 5, np.inf]]).astype(np_dtype(dtype))
    for memory in memories(x):
        t = tp.asarray(memory)
        for axis in (0, 1, None):
            for name in ("max", "min", "argmax", "argmin", "sum", "prod"):
                with np.errstate(all="ignore"):
                    want = CASES[name](memory.astype(np.float64), axis=axis)
                same(rows[name].call(t, axis=axis), np.asarray(want).astype(np_dtype(result(name, dtype))))
        assert t.all().item() is True
    assert tp.argmax(tp.asarray([1, np.nan, 2], dtype=dtype)).item() == 1
    assert tp.argmin(tp.asarray([1, np.nan, np.nan], dtype=dtype)).item() == 1
    assert tp.asarray([3.0, 1.0, 3.0], dtype=dtype).argmax().item() == 0


def test_results_are_real_arrays():
    x = tp.asarray([[1.0, 2.0], [3.0, 4.0]])
    for name in CASES:
        out = rows[name].call(x)
        assert out.shape == ()
        before = out.item()
        out[...] = 0
        view = out.reshape((1,))
        view += 1 if name not in ("all", "any") else tp.asarray([True])
        assert out.item() == 1 != before or name in ("all", "any", "argmin", "min")
        assert getattr(x, name)(axis=0).tolist() == rows[name].call(x, axis=0).tolist()
    assert x.tolist() == [[1, 2], [3, 4]]


def test_bad_axes():
    x = tp.ones((2, 3))
    for name in CASES:
        call = rows[name].call
        with pytest.raises(ShapeError, match=r"axis 2 is out of range for 2 dimensions"):
            call(x, axis=2)
        with pytest.raises(ShapeError, match=r"axis -3 is out of range"):
            call(x, axis=-3)
        for bad in ("a", 1.0, True, [0.5]):
            with pytest.raises(ArgumentError, match=r"axis must be an int"):
                call(x, axis=bad)
        if not name.startswith("arg"):
            with pytest.raises(ShapeError, match=r"\(0, -2\) names an axis twice"):
                call(x, axis=(0, -2))
    with pytest.raises(ShapeError, match="0-dimensional"):
        tp.sum(tp.asarray(1.0), axis=0)
