"""Every elementwise operator against NumPy: dtypes, memory orders, broadcasting, Python numbers, in-place forms."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DTypeError, ReadOnlyError, ScalarRangeError, ShapeError
from tripoint.schema import rows

BF16 = np.dtype(ml_dtypes.bfloat16)
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
EVERY = ["bool", *INTS, *FLOATS, *COMPLEX]
REAL = [*INTS, *FLOATS]
TOLERANCE = {
    "bfloat16": 1.6e-2,
    "float16": 2e-3,
    "float32": 2e-6,
    "complex64": 4e-6,
    "float64": 1e-13,
    "complex128": 1e-13,
}


def np_dtype(name):
    return BF16 if name == "bfloat16" else np.dtype(name)


def family(name):
    return "bool" if name == "bool" else name.rstrip("0123456789").removeprefix("b")  # bool, int, uint, float, complex


def promoted(a, b):
    """The array API's table, and our rules where it is silent; written down here independently of the core."""
    if a == b:
        return a
    if family(a) == "bool":
        return b
    if family(b) == "bool":
        return a
    fa, fb = family(a), family(b)
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if {fa, fb} <= {"int", "uint"}:
        joined = np.result_type(np.dtype(a), np.dtype(b)).name
        return None if joined == "float64" else joined
    if {fa, fb} <= {"int", "uint", "float"} and fa != fb:
        return a if fa == "float" else b
    if "complex" in (fa, fb):
        other = a if fb == "complex" else b
        mine = b if fb == "complex" else a
        if "float64" in (a, b):
            return "complex128"
        return mine if family(other) != "complex" else "complex128"
    return a if np_dtype(a).itemsize > np_dtype(b).itemsize else b


def weakly(name, number):
    """The dtype of a tensor beside a Python number."""
    kind = type(number)
    if kind is bool or family(name) == "complex":
        return name
    if kind is int:
        return "int64" if name == "bool" else name
    if kind is float:
        return name if family(name) == "float" else "float32"
    return {"float64": "complex128"}.get(name, "complex64")


def floated(name):
    return name if family(name) in ("float", "complex") else "float32"


# name: (NumPy's function, operand kinds accepted, dtype of the result: None for the promoted one)
UNARY = {
    "negative": (np.negative, [*REAL, *COMPLEX], None),
    "abs": (np.abs, [*REAL, *COMPLEX], "parts"),
    "sign": (np.sign, [*REAL, *COMPLEX], None),
    "square": (np.square, [*REAL, *COMPLEX], None),
    "positive": (lambda x: x.copy(), EVERY, None),
    "exp": (np.exp, EVERY, "floated"),
    "log": (np.log, EVERY, "floated"),
    "sqrt": (np.sqrt, EVERY, "floated"),
    "tanh": (np.tanh, EVERY, "floated"),
    "sin": (np.sin, EVERY, "floated"),
    "cos": (np.cos, EVERY, "floated"),
    "isnan": (np.isnan, EVERY, "bool"),
    "isfinite": (np.isfinite, EVERY, "bool"),
    "isinf": (np.isinf, EVERY, "bool"),
    "logical_not": (np.logical_not, EVERY, "bool"),
    "bitwise_invert": (np.invert, ["bool", *INTS], None),
}
BINARY = {
    "add": (np.add, EVERY, None),
    "subtract": (np.subtract, [*REAL, *COMPLEX], None),
    "multiply": (np.multiply, EVERY, None),
    "divide": (np.true_divide, EVERY, "floated"),
    "floor_divide": (np.floor_divide, REAL, None),
    "remainder": (np.remainder, REAL, None),
    "pow": (np.power, [*REAL, *COMPLEX], None),
    "maximum": (np.maximum, ["bool", *REAL], None),
    "minimum": (np.minimum, ["bool", *REAL], None),
    "equal": (np.equal, EVERY, "bool"),
    "not_equal": (np.not_equal, EVERY, "bool"),
    "less": (np.less, ["bool", *REAL], "bool"),
    "less_equal": (np.less_equal, ["bool", *REAL], "bool"),
    "greater": (np.greater, ["bool", *REAL], "bool"),
    "greater_equal": (np.greater_equal, ["bool", *REAL], "bool"),
    "logical_and": (np.logical_and, EVERY, "bool"),
    "logical_or": (np.logical_or, EVERY, "bool"),
    "logical_xor": (np.logical_xor, EVERY, "bool"),
    "bitwise_and": (np.bitwise_and, ["bool", *INTS], None),
    "bitwise_or": (np.bitwise_or, ["bool", *INTS], None),
    "bitwise_xor": (np.bitwise_xor, ["bool", *INTS], None),
}
INPLACE_BINARY = [
    "add_", "subtract_", "multiply_", "divide_", "floor_divide_", "remainder_", "pow_", "bitwise_and_", "bitwise_or_",
    "bitwise_xor_",
]  # fmt: skip
INPLACE_UNARY = ["exp_", "negative_"]
OTHERS = {"where", "clip", "multiply_back", "divide_back"}


def test_every_elementwise_operator_has_a_case():
    have = {n for n, r in rows.items() if r.body.__module__ == "tripoint.ops.elementwise"}
    assert have == {*UNARY, *BINARY, *INPLACE_BINARY, *INPLACE_UNARY, *OTHERS}


def values(name, shape, seed=0, low=-20, high=20):
    rng = np.random.default_rng([seed, EVERY.index(name)])
    dtype = np_dtype(name)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if family(name) in ("int", "uint"):
        info = np.iinfo(dtype)
        out = rng.integers(max(info.min, low), min(info.max, high), shape, endpoint=True).astype(dtype)
        if out.size:
            out.flat[0] = info.max
            out.flat[-1] = info.min
        return out
    real = np.round(rng.normal(0, 3, shape) * 8) / 8  # equal elements occur
    if family(name) == "complex":
        real = real + 1j * np.round(rng.normal(0, 3, shape) * 8) / 8
    return np.asarray(real).astype(dtype)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5]


def memories(array):
    """The same elements in several orders of memory."""
    yield array
    if array.ndim >= 1:
        spread = np.zeros((*array.shape[:-1], array.shape[-1] * 3), array.dtype)[..., ::3]
        spread[...] = array
        yield spread
        reverse = array[..., ::-1].copy()[..., ::-1]
        yield reverse
    if array.ndim >= 2:
        yield np.asfortranarray(array)


def same(got, want, tolerance=0.0):
    """A real array of that dtype and shape, close (NaN equal to NaN, infinities by sign); integers exactly equal."""
    assert isinstance(got, tp.Tensor)
    have = got.numpy()
    assert type(have) is np.ndarray
    want = np.asarray(want)
    assert got.dtype.name == want.dtype.name
    assert got.shape == want.shape
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(have, want)
        return
    if want.dtype == BF16:
        have, want = have.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def reference(fn, arrays, dtype, out):
    """NumPy's answer for operands cast to the computation dtype; half precision by way of float32."""
    half = dtype in ("float16", "bfloat16")
    with np.errstate(all="ignore"):
        given = [a.astype(np_dtype(dtype)) for a in arrays]
        if half:
            given = [g.astype(np.float32) for g in given]
        return np.asarray(fn(*given)).astype(np_dtype(out))


def result(out, dtype):
    if out == "parts":
        return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    return dtype if out in (None, "floated") else out


SHAPES = [(), (0,), (5,), (3, 4), (2, 0, 3)]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    fn, accepted, out = UNARY[name]
    operator = rows[name].call
    for dtype, shape in itertools.product(EVERY, SHAPES):
        x = values(dtype, shape)
        if dtype not in accepted:
            with pytest.raises(DTypeError, match=rf"{name} takes .* not {dtype}"):
                operator(tp.asarray(x))
            continue
        computed = floated(dtype) if out == "floated" else dtype
        want = reference(fn, [x], computed, result(out, computed))
        for memory in memories(x):
            same(operator(tp.asarray(memory)), want, TOLERANCE.get(computed, 0))


@pytest.mark.parametrize("name", [n for n in UNARY if n != "bitwise_invert"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_special_values(name, dtype):
    fn, _, out = UNARY[name]
    x = np.array(SPECIAL).astype(np_dtype(dtype))
    same(rows[name].call(tp.asarray(x)), reference(fn, [x], dtype, result(out, dtype)), TOLERANCE[dtype])


PAIRS = [((), ()), ((4,), ()), ((), (4,)), ((3, 1), (4,)), ((0,), (1,)), ((2, 3), (2, 3)), ((2, 0, 1), (1, 3))]


def second(name, dtype, shape):
    x = values(dtype, shape, 1)
    if name == "pow":  # small exponents, not negative for integers
        x = (np.abs(x.astype(np.complex128).real) % 4).astype(np_dtype(dtype))
    return x


@pytest.mark.parametrize("name", BINARY)
def test_binary_of_one_dtype(name):
    fn, accepted, out = BINARY[name]
    operator = rows[name].call
    for dtype, (s1, s2) in itertools.product(EVERY, PAIRS):
        x1, x2 = values(dtype, s1), second(name, dtype, s2)
        if dtype not in accepted:
            with pytest.raises(DTypeError, match=rf"{name} takes .* not {dtype}"):
                operator(tp.asarray(x1), tp.asarray(x2))
            continue
        computed = floated(dtype) if out == "floated" else dtype
        want = reference(fn, [x1, x2], computed, result(out, computed))
        for m1, m2 in zip(memories(x1), itertools.cycle(memories(x2)), strict=False):
            same(operator(tp.asarray(m1), tp.asarray(m2)), want, 2 * TOLERANCE.get(computed, 0))


@pytest.mark.parametrize("name", ["add", "divide", "maximum", "less", "logical_and", "where", "bitwise_or", "pow"])
def test_dtypes_of_two_operands(name):
    for a, b in itertools.product(EVERY, EVERY):
        x1, x2 = tp.ones((2,), dtype=a), tp.ones((2,), dtype=b)
        wanted = promoted(a, b)
        if name == "logical_and":
            assert tp.logical_and(x1, x2).dtype is tp.bool
            continue
        if wanted is None:
            with pytest.raises(DTypeError, match=r"no integer dtype holds both"):
                rows[name].call(*([x1 > 0] if name == "where" else []), x1, x2)
            continue
        if name != "where" and wanted not in BINARY[name][1]:
            with pytest.raises(DTypeError, match=f"not {wanted}"):
                rows[name].call(x1, x2)
            continue
        if name == "where":
            got = tp.where(tp.asarray([True, False]), x1, x2)
        else:
            got = rows[name].call(x1, x2)
            wanted = {"less": "bool", "divide": floated(wanted)}.get(name, wanted)
        assert got.dtype.name == wanted, (a, b)
        assert got.tolist() == [{"add": 2 - (wanted == "bool"), "less": 0}.get(name, 1)] * 2


def test_zero_dimensions_do_not_weaken_a_dtype():
    assert (tp.ones((2,), dtype="int8") + tp.ones((), dtype="int64")).dtype is tp.int64
    assert (tp.ones((2,), dtype="float16") * tp.ones((), dtype="float64")).dtype is tp.float64


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("number", [True, 3, 2.5, 1.5 + 2j])
def test_python_numbers_on_both_sides(name, number):
    fn, accepted, out = BINARY[name]
    operator = rows[name].call
    for dtype, shape in itertools.product(EVERY, [(), (3,), (0, 2)]):
        x = second(name, dtype, shape)
        computed = weakly(dtype, number)
        if name.startswith("logical"):
            computed = "bool"
        if computed not in accepted:
            for call in (lambda x=x: operator(tp.asarray(x), number), lambda x=x: operator(number, tp.asarray(x))):
                with pytest.raises(DTypeError, match=rf"{name} takes .* not {computed}"):
                    call()
            continue
        computed = floated(computed) if out == "floated" else computed
        scalar = np.asarray(number).astype(np_dtype(computed))
        tolerance = 2 * TOLERANCE.get(computed, 0)
        if not (name == "pow" and family(computed) in ("int", "uint") and number is True):
            want = reference(fn, [x, scalar], computed, result(out, computed))
            same(operator(tp.asarray(x), number), want, tolerance)
        same(operator(number, tp.asarray(x)), reference(fn, [scalar, x], computed, result(out, computed)), tolerance)


SYMBOLS = {
    "__add__": "add", "__sub__": "subtract", "__mul__": "multiply", "__truediv__": "divide", "__floordiv__": "floor_divide",
    "__mod__": "remainder", "__pow__": "pow", "__eq__": "equal", "__ne__": "not_equal", "__lt__": "less",
    "__le__": "less_equal", "__gt__": "greater", "__ge__": "greater_equal",
}  # fmt: skip


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_numpy_beside_a_tensor_gives_a_tensor_in_both_orders(symbol):
    import operator

    act = getattr(operator, symbol)
    x = tp.asarray([1.0, 2.0, 3.0])
    mirror = {"__lt__": "__gt__", "__gt__": "__lt__", "__le__": "__ge__", "__ge__": "__le__"}.get(symbol, symbol)
    array = np.array([3.0, 2.0, 1.0], np.float32)
    want = act(array, x.numpy())
    for got in (act(array, x), rows[SYMBOLS[symbol]].call(array, x), getattr(operator, mirror)(x, array)):
        assert isinstance(got, tp.Tensor)
        if got is not None and (mirror != symbol or symbol in ("__eq__", "__ne__", "__add__", "__mul__")):
            np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(act(array, x).numpy(), want)
    # float64 scalars of NumPy count as Python floats; all others are 0-d arrays with a dtype of their own.
    for scalar, wide in ((np.float64(2), False), (np.float32(2), False), (np.array(2.0), True), (np.int64(2), False)):
        for got in (act(scalar, x), act(x, scalar)):
            assert isinstance(got, tp.Tensor)
            if got.dtype is not tp.bool:
                assert got.dtype is (tp.float64 if wide else tp.float32), (symbol, scalar)
    assert (np.float64(2) * tp.ones((2,), dtype="float16")).dtype is tp.float16
    assert (np.float32(2) * tp.ones((2,), dtype="float16")).dtype is tp.float32
    assert act(np.ones((0, 3)), tp.ones((3,))).shape == (0, 3)


def test_numbers_that_do_not_fit():
    x = tp.asarray([1, 2], dtype="int8")
    for call in (lambda: x + 300, lambda: 300 + x, lambda: x * -129, lambda: tp.asarray([1], dtype="uint8") - (-1)):
        with pytest.raises(ScalarRangeError, match=r"300|-129|-1 does"):
            call()
    with pytest.raises(ScalarRangeError, match="300"):
        x += 300
    with pytest.raises(ScalarRangeError, match="300"):
        tp.where(tp.asarray([True, False]), x, 300)
    assert x.tolist() == [1, 2]
    assert (x < 300).tolist() == [True, True]
    assert (x == 300).tolist() == [False, False]
    assert (tp.ones((1,), dtype="float16") * 1e6).tolist() == [np.inf]
    assert (tp.ones((1,), dtype="bfloat16") * 1e39).tolist() == [np.inf]


def test_where():
    rng = np.random.default_rng(3)
    for shape_c, s1, s2 in [
        ((3,), (3,), (3,)),
        ((2, 1), (3,), ()),
        ((), (2, 2), (2,)),
        ((0,), (1,), ()),
        ((3,), (), (2, 3)),
    ]:
        c = rng.integers(0, 2, shape_c).astype(bool)
        for a, b in [("float32", "float32"), ("int8", "int64"), ("int64", "float32"), ("bfloat16", "int64"), ("bool", "bool"),
                     ("bfloat16", "float16"), ("complex64", "float64"), ("float16", "bool")]:  # fmt: skip
            x1, x2 = values(a, s1), values(b, s2, 1)
            dtype = np_dtype(promoted(a, b))
            want = np.where(c, x1.astype(dtype), x2.astype(dtype))
            for mc in memories(c):
                same(tp.where(tp.asarray(mc), tp.asarray(x1), tp.asarray(x2)), want)
    c = tp.asarray([True, False])
    same(tp.where(c, 1, 2.5), np.array([1, 2.5], np.float32))
    same(tp.where(c, 1, 2), np.array([1, 2]))
    same(tp.where(c, True, False), np.array([True, False]))
    same(tp.where(c, 1j, 2), np.array([1j, 2], np.complex64))
    same(tp.where(c, tp.ones((2,), dtype="int8"), 7), np.array([1, 7], np.int8))
    same(tp.where(c, 0.1, tp.ones((2,), dtype="bfloat16")), np.array([0.1, 1]).astype(BF16))
    same(tp.where(c, np.nan, np.ones(2)), np.array([np.nan, 1]))
    with pytest.raises(DTypeError, match="condition must be bool, not int64"):
        tp.where(tp.asarray([1, 0]), 1, 2)
    with pytest.raises(ShapeError, match=r"\(2,\).*\(3,\)"):
        tp.where(c, tp.ones((3,)), 0)


def test_clip():
    for dtype in REAL:
        x = values(dtype, (3, 5))
        for low, high in [(1, 5), (None, 3), (2, None), (4, 1)]:
            for memory in memories(x):
                got = tp.clip(tp.asarray(memory), low, high)
                want = memory if low is None else np.maximum(memory, memory.dtype.type(low))
                want = want if high is None else np.minimum(want, want.dtype.type(high))
                same(got, want)
    x = tp.asarray([np.nan, 1.0, np.inf])
    same(tp.clip(x, 0.0, 2.0), np.array([np.nan, 1, 2], np.float32))
    same(tp.clip(tp.asarray([1, 5]), 1.5, 4.0), np.array([1.5, 4], np.float32))
    alone = tp.clip(x)
    assert not tp.shares_memory(alone, x)


def test_nan_passes_maximum_and_minimum_in_every_floating_dtype():
    for dtype in FLOATS:
        a = tp.asarray([np.nan, 1.0, np.nan, -np.inf], dtype=dtype)
        b = tp.asarray([1.0, np.nan, np.nan, np.inf], dtype=dtype)
        for x, y in ((a, b), (b, a)):
            assert np.isnan(tp.maximum(x, y).tolist()[:3]).all()
            assert np.isnan(tp.minimum(x, y).tolist()[:3]).all()
        assert np.isnan(tp.maximum(a, 0.0).tolist()[0])
        assert np.isnan(tp.clip(a, 0.0, 1.0).tolist()[0])


def test_integer_division_by_zero_and_overflow_are_numpys():
    for dtype in INTS:
        x = tp.asarray([0, 5, 7], dtype=dtype)
        assert (x // 0).tolist() == [0, 0, 0]
        assert (x % 0).tolist() == [0, 0, 0]
        top = np.iinfo(dtype).max
        same(tp.asarray(np.array([top], dtype)) + tp.ones((1,), dtype=dtype), np.array([np.iinfo(dtype).min], dtype))
    low = tp.asarray(np.array([-128], np.int8))
    assert (low // -1).tolist() == [-128]
    assert abs(low).tolist() == [-128]
    assert (-low).tolist() == [-128]
    assert (tp.asarray([5, -5]) % 3).tolist() == [2, 1]
    assert (tp.asarray([5, -5]) // 3).tolist() == [1, -2]
    assert (tp.asarray([5.0, -5.0]) % 3).tolist() == [2, 1]


@pytest.mark.parametrize("name", INPLACE_BINARY)
def test_inplace_binary_is_the_functional_form_written_back(name):
    functional, call = rows[name[:-1]].call, rows[name].call
    _, accepted, out = BINARY[name[:-1]]
    for dtype, shape in itertools.product(accepted, [(), (4,), (3, 4), (0, 2)]):
        if out == "floated" and floated(dtype) != dtype:
            with pytest.raises(DTypeError, match=rf"{name} would change the dtype of x1 from {dtype} to float32"):
                call(tp.asarray(values(dtype, shape)), tp.asarray(second("pow", dtype, shape)))
            continue
        start, other = values(dtype, shape), second(name[:-1], dtype, shape)
        want = functional(tp.asarray(start), tp.asarray(other)).numpy()
        for memory in memories(start):
            buffer = memory.copy(order="K")
            x = tp.asarray(buffer)
            view = x[...]
            assert call(x, tp.asarray(other)) is x
            same(x, want, TOLERANCE.get(dtype, 0))
            same(view, want, TOLERANCE.get(dtype, 0))
            assert np.shares_memory(buffer, x.numpy()) or not buffer.size
        number = True if dtype == "bool" else 2
        x = tp.asarray(start.copy())
        want = functional(x, number).numpy()
        call(x, number)
        same(x, want, TOLERANCE.get(dtype, 0))


@pytest.mark.parametrize("name", INPLACE_UNARY)
def test_inplace_unary(name):
    for shape in [(), (3, 4), (0,)]:
        for memory in memories(values("float32", shape)):
            x = tp.asarray(memory.copy(order="K"))
            want = rows[name[:-1]].call(x).numpy()
            assert rows[name].call(x) is x
            same(x, want)
    with pytest.raises(DTypeError, match="exp_ would change the dtype of x from int64 to float32"):
        rows["exp_"].call(tp.asarray([1]))


def test_inplace_casts_only_within_a_kind():
    x = tp.ones((2,))
    x += tp.asarray([1, 2])
    x += tp.asarray([0.5, 0.5], dtype="float64")
    same(x, np.array([2.5, 3.5], np.float32))
    y = tp.asarray([250], dtype="uint8")
    with pytest.raises(DTypeError, match="uint8 to int64"):
        y += tp.asarray([1])
    z = tp.asarray([1])
    with pytest.raises(DTypeError, match="int64 to float32"):
        z += 1.5
    with pytest.raises(DTypeError, match="float32 to complex64"):
        x *= 1j
    small = tp.asarray([1], dtype="int8")
    small += tp.asarray([255], dtype="int64")  # the same kind, so it wraps as NumPy's same_kind does
    same(small, np.array([0], np.int8))
    same(x, np.array([2.5, 3.5], np.float32))


def test_inplace_through_views_and_overlap():
    base = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = tp.asarray(base.copy())
    x -= x[:, :1]
    assert x.tolist() == [[0, 1], [0, 1]]
    for slices in [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None), slice(None, None, -1)),
    ]:
        for n in (7, 5000):
            start = np.arange(float(n))
            x = tp.asarray(start.copy())
            part = x[slices[0]]
            part += x[slices[1]]
            want = start.copy()
            want[slices[0]] = start[slices[0]] + start[slices[1]]
            same(x, want)
            x = tp.asarray(start.copy())
            x[slices[0]] = x[slices[1]]
            want = start.copy()
            want[slices[0]] = start[slices[1]]
            same(x, want)
    square = np.arange(9.0).reshape(3, 3)
    x = tp.asarray(square.copy())
    x += x.T
    same(x, square + square.T)
    x = tp.asarray(square.copy())
    x[...] = x.T
    same(x, square.T.copy())
    x = tp.asarray(square.copy())
    x *= x[0]
    same(x, square * square[0])
    x = tp.asarray(square.copy())
    x /= x[1, 1]
    same(x, square / 4)


def test_inplace_refusals_change_nothing():
    x = tp.ones((3,))
    with pytest.raises(ShapeError, match=r"\(2, 3\).*\(3,\)"):
        x += tp.ones((2, 3))
    with pytest.raises(ShapeError, match=r"\(3,\) and \(4,\)"):
        x *= tp.ones((4,))
    assert x.tolist() == [1, 1, 1]
    wide = tp.broadcast_to(tp.ones((1,)), (3,))
    assert wide.readonly
    for act in (lambda: wide.__iadd__(1.0), lambda: wide.__setitem__(0, 5.0), lambda: rows["exp_"].call(wide)):
        with pytest.raises(ReadOnlyError, match=r"read-only"):
            act()
    assert wide.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", [n for n in UNARY if n != "bitwise_invert"])
def test_results_of_no_dimensions_are_real_arrays(name):
    x = tp.asarray(0.5)
    out = rows[name].call(x)
    assert type(out.numpy()) is np.ndarray
    out[...] = True
    view = out[...]
    assert tp.shares_memory(view, out)
    assert out.expand_dims().shape == (1,)
    assert not tp.shares_memory(out, x)


@pytest.mark.parametrize("name", BINARY)
def test_binary_results_of_no_dimensions_are_real_arrays(name):
    one = tp.asarray(True) if "bitwise" in name else tp.asarray(0.5)
    for out in (rows[name].call(one, one), rows[name].call(one, True), rows[name].call(True, one)):
        assert type(out.numpy()) is np.ndarray
        view = out.reshape((1,))
        view[0] = True
        assert out.item() == 1


def test_a_large_shape_that_does_not_fit_memory_is_said_so():
    from tripoint.errors import OutOfMemoryError

    wide = tp.broadcast_to(tp.ones((1,), dtype="int8"), (2**61,))
    with pytest.raises(OutOfMemoryError, match=str(2**61)):
        wide + tp.ones((1,), dtype="float64")


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_zero_stay_zero(dtype):
    g = tp.asarray([0.0, -0.0, 2.0, 2.0, np.nan, 0.0], dtype=dtype)
    x = tp.asarray([np.inf, np.nan, np.inf, 4.0, 1.0, 0.0], dtype=dtype)
    for name, want in (("multiply_back", [0, 0, np.inf, 8, np.nan, 0]), ("divide_back", [0, 0, 0, 0.5, np.nan, 0])):
        for got in (rows[name].call(g, x), rows[name].body(g, x)):
            assert got.dtype.name == dtype
            np.testing.assert_array_equal(got.tolist(), want)
        assert rows[name].call(tp.asarray(0.0), tp.asarray(np.nan)).item() == 0
        assert rows[name].call(tp.zeros((2, 1)), tp.full((3,), np.nan)).tolist() == np.zeros((2, 3)).tolist()
        assert rows[name].call(tp.zeros((0, 1)), tp.ones((3,))).shape == (0, 3)


def test_a_negative_power_of_no_integers_is_refused_as_of_some():
    for x1, x2 in [
        (tp.zeros((0,), dtype="int32"), tp.asarray([-1], dtype="int32")),
        (tp.zeros((2, 0), dtype="int64"), -3),
        (2, tp.asarray([-1])),
    ]:
        with pytest.raises(ArgumentError, match="negative power"):
            tp.pow(x1, x2)
    assert tp.pow(tp.zeros((0,), dtype="int32"), tp.asarray([1], dtype="int32")).shape == (0,)
    with pytest.raises(ShapeError, match="broadcast"):
        tp.pow(tp.zeros((0, 2), dtype="int32"), tp.asarray([-1, 2, 3], dtype="int32"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_power_of_a_half_is_one_for_one_exponent_and_for_many(dtype):
    x = [-np.inf, -0.0, 0.0, np.inf, 4.0, -4.0, np.nan]
    want = [np.inf, 0.0, 0.0, np.inf, 2.0, np.nan, np.nan]  # by the standard, as math.pow
    halves = tp.full((7,), 0.5, dtype=dtype)
    for exponent in (0.5, halves, tp.asarray(0.5, dtype=dtype), tp.broadcast_to(tp.asarray(0.5, dtype=dtype), (7,))):
        got = tp.pow(tp.asarray(x, dtype=dtype), exponent).astype("float64").numpy()
        np.testing.assert_array_equal(got, want)
        assert not np.signbit(got[1])
        assert tp.pow(tp.asarray(-np.inf, dtype=dtype), 0.5).item() == np.inf


def test_numbers_of_any_size_are_true_or_false():
    x = tp.asarray([True, False])
    for number in (2**64, -(2**70), 10**400, 1e-320, float("nan"), 1j):
        assert tp.logical_and(x, number).tolist() == [True, False]
        assert tp.logical_or(number, x).tolist() == [True, True]
        assert tp.logical_xor(x, number).tolist() == [False, True]
    assert tp.logical_or(x, 0j).tolist() == [True, False]
