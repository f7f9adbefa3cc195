"""Making tensors: dtypes, shapes, ramps, and `asarray` of Python data and foreign memory with its three states of copy."""

from __future__ import annotations

import array as arrays

import ml_dtypes
import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import (
    AliasError,
    ArgumentError,
    DTypeError,
    OutOfMemoryError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    SizeError,
)
from tripoint.schema import rows

EVERY = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


def test_every_operator_of_this_family_has_a_case():
    have = {n for n, r in rows.items() if r.body.__module__ == "tripoint.ops.creation"}
    assert have == {
        "empty", "zeros", "ones", "full", "ramp", "from_data", "zeros_like", "ones_like", "empty_like", "full_like",
    }  # fmt: skip


def test_shapes_and_dtypes():
    for dtype in EVERY:
        for shape in [(), (0,), (3,), (2, 0), (2, 3)]:
            for fn, value in ((tp.zeros, 0), (tp.ones, 1)):
                x = fn(shape, dtype=dtype)
                assert x.shape == shape
                assert x.dtype.name == dtype
                assert x.numpy().flags.writeable
                assert x.numpy().flags.c_contiguous
                assert x.tolist() == np.full(shape, value).tolist()
            assert tp.empty(shape, dtype=dtype).shape == shape
            assert tp.full(shape, 1, dtype=dtype).tolist() == np.ones(shape).tolist()
    for shape, want in [(3, (3,)), ([2, 3], (2, 3)), (np.int64(2), (2,)), ((np.int32(2), 1), (2, 1)),
                        (np.array([2, 2]), (2, 2)), (tp.asarray([1, 2]), (1, 2)), (range(1, 3), (1, 2))]:  # fmt: skip
        assert tp.zeros(shape).shape == want
    assert tp.zeros((2,)).dtype is tp.float32
    for named in (np.float64, np.dtype("float64"), "float64", tp.float64):
        assert tp.zeros((2,), dtype=named).dtype is tp.float64
    for named, want in (
        (bool, tp.bool),
        (int, tp.int64),
        (float, tp.float32),
        (complex, tp.complex64),
        (np.bool_, tp.bool),
    ):
        assert tp.zeros((1,), dtype=named).dtype is want


def test_full():
    for value, dtype in [(True, "bool"), (3, "int64"), (0.5, "float32"), (1j, "complex64"), (np.float64(0.5), "float32"),
                         (np.float32(0.5), "float32"), (np.int8(3), "int64"), (tp.asarray(2), "int64")]:  # fmt: skip
        x = tp.full((2,), value)
        assert x.dtype.name == dtype
        assert x.tolist() == [value, value]
        assert tp.full((), value).shape == ()
    assert tp.full((2,), 1.9, dtype="int8").tolist() == [1, 1]
    assert tp.full((1,), 1e6, dtype="float16").tolist() == [np.inf]
    for value, dtype, kind, words in [
        ("a", None, ArgumentError, "'a'"),
        ("1.5", "float32", ArgumentError, r"'1\.5'"),
        (None, "int8", ArgumentError, "None"),
        ([1, 2], "int8", ArgumentError, r"\[1, 2\]"),
        (300, "int8", ScalarRangeError, "300 does not fit in int8"),
        (-1, "uint64", ScalarRangeError, "-1 does not fit in uint64"),
        (2**70, None, ScalarRangeError, str(2**70)),
        (float("nan"), "int32", DTypeError, "nan is no int32"),
        (1j, "float32", DTypeError, "1j is no float32"),
    ]:
        with pytest.raises(kind, match=words):
            tp.full((2,), value, dtype=dtype)


def test_like():
    x = tp.ones((2, 3), dtype="int8").T
    for fn, value in ((tp.zeros_like, 0), (tp.ones_like, 1), (lambda t, **m: tp.full_like(t, 7, **m), 7)):
        assert fn(x).dtype is tp.int8
        assert fn(x).tolist() == np.full((3, 2), value).tolist()
        assert fn(x, dtype="float64").dtype is tp.float64
        assert not tp.shares_memory(fn(x), x)
    assert tp.empty_like(x).shape == (3, 2)
    with pytest.raises(ScalarRangeError, match="300"):
        tp.full_like(x, 300)


def test_arange():
    for args in [(5,), (0,), (-3,), (2, 7), (7, 2, -2), (0, 10, 3), (10, 0, 3), (-5, 5, 4), (2.5,), (0.0, 1.0, 0.1),
                 (1, 2, 0.3), (5.0, 1.0, -0.5), (0.0, -1.0)]:  # fmt: skip
        got, want = tp.arange(*args), np.arange(*args)
        assert got.dtype is (tp.int64 if want.dtype == np.int64 else tp.float32)
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-7)
    assert tp.arange(np.int64(3)).tolist() == [0, 1, 2]
    assert tp.arange(np.float64(2.5)).tolist() == [0, 1, 2]
    assert tp.arange(tp.asarray(3)).tolist() == [0, 1, 2]
    assert tp.arange(2**63, 2**63 + 2, dtype="uint64").tolist() == [2**63, 2**63 + 1]
    assert tp.arange(2**64 - 1, 2**64 - 4, -1, dtype="uint64").tolist() == [2**64 - 1, 2**64 - 2, 2**64 - 3]
    assert tp.arange(2**63 - 2, 2**63).tolist() == [2**63 - 2, 2**63 - 1]
    assert tp.arange(-(2**63), 2**63, 2**62).tolist() == list(range(-(2**63), 2**63, 2**62))
    assert tp.arange(3, dtype="bfloat16").tolist() == [0, 1, 2]
    assert tp.arange(3, dtype="complex64").tolist() == [0, 1, 2]
    for args, dtype, kind, words in [
        ((0, 1, 0), None, ShapeError, "step must not be 0"),
        (("a",), None, ArgumentError, "'a'"),
        ((True,), None, ArgumentError, "True"),
        ((1j,), None, ArgumentError, "1j"),
        ((float("inf"),), None, ShapeError, "inf"),
        ((0.0, float("nan")), None, ShapeError, "nan"),
        ((0.0, 1.0, 1e-320), None, ShapeError, "inf"),
        ((1e30,), None, SizeError, "1000000000000000019884624838656"),
        ((10**18,), None, OutOfMemoryError, "1000000000000000000"),
        ((300,), "int8", ScalarRangeError, "299 does not fit in int8"),
        ((-1, 3), "uint8", ScalarRangeError, "-1 does not fit in uint8"),
        ((2**63, 2**63 + 2), None, ScalarRangeError, str(2**63)),
    ]:
        with pytest.raises(kind, match=words):
            tp.arange(*args, dtype=dtype)


def test_ramp_is_computed_for_each_element_by_itself():
    x = rows["ramp"].call(start=0.1, step=0.1, count=1000, dtype="float64")
    np.testing.assert_array_equal(x.numpy(), np.arange(1000) * 0.1 + 0.1)
    assert rows["ramp"].call(start=5, step=-2, count=3, dtype="int32").tolist() == [5, 3, 1]


@pytest.mark.parametrize(
    ("data", "dtype", "want"),
    [
        (True, "bool", True),
        (3, "int64", 3),
        (2.5, "float32", 2.5),
        (1 + 2j, "complex64", 1 + 2j),
        ([], "float32", []),
        ([[], []], "float32", [[], []]),
        ([True, False], "bool", [True, False]),
        ([True, 2], "int64", [1, 2]),
        ([1, 2.5], "float32", [1, 2.5]),
        ([1, 1j], "complex64", [1, 1j]),
        (((1, 2), [3, 4]), "int64", [[1, 2], [3, 4]]),
        ([np.int8(1), np.int8(2)], "int8", [1, 2]),
        ([np.float64(1), 2], "float64", [1, 2]),
        ([np.array(1, np.int16), 2.5], "float32", [1, 2.5]),
        ([np.array([1.0, 2.0]), np.array([3.0, 4.0])], "float64", [[1, 2], [3, 4]]),
        ([[1, 2], np.array([3, 4])], "int64", [[1, 2], [3, 4]]),
        ([[np.ones(1), np.ones(1)], [np.ones(1), np.zeros(1)]], "float64", [[[1], [1]], [[1], [0]]]),
        (range(3), "int64", [0, 1, 2]),
        (2**63, "uint64", 2**63),
        ([2**64 - 1, 0], "uint64", [2**64 - 1, 0]),
        (bytearray(b"ab"), "uint8", [97, 98]),
        (memoryview(arrays.array("d", [1.5, 2])), "float64", [1.5, 2]),
        (arrays.array("h", [1, -2]), "int16", [1, -2]),
        (arrays.array("Q", [2**64 - 1]), "uint64", [2**64 - 1]),
        (np.float16(1.5), "float16", 1.5),
        (np.bool_(True), "bool", True),
        (np.ones((2, 0), ml_dtypes.bfloat16), "bfloat16", [[], []]),
        (np.ma.array([1.0, 2.0]), "float64", [1, 2]),
        (np.array([1, 2], dtype=">i4"), "int32", [1, 2]),
    ],
)  # fmt: skip
def test_asarray(data, dtype, want):
    x = tp.asarray(data)
    assert x.dtype.name == dtype
    assert x.tolist() == want
    assert type(x.numpy()) is np.ndarray
    assert x.numpy().dtype.isnative
    wide = tp.asarray(data, dtype="complex128")
    assert wide.dtype is tp.complex128
    assert wide.shape == x.shape


def test_the_largest_float_default():
    tp.set_default_dtype("float64")
    try:
        assert tp.asarray([1, 2.5]).dtype is tp.float64
        assert tp.asarray(1j).dtype is tp.complex128
        assert (tp.asarray([1]) / 2).dtype is tp.float64
        assert tp.zeros((1,)).dtype is tp.float64
    finally:
        tp.set_default_dtype("float32")
    assert (tp.asarray([1]) / 2).dtype is tp.float32


def test_asarray_of_a_tensor():
    x = tp.ones((2,))
    assert tp.asarray(x) is x
    assert tp.asarray(x, copy=False) is x
    assert not tp.shares_memory(tp.asarray(x, copy=True), x)
    assert tp.asarray(x, dtype="int8").dtype is tp.int8
    with pytest.raises(AliasError, match="float32 to"):
        tp.asarray(x, dtype="int8", copy=False)
    both = tp.asarray([x, x])
    assert both.shape == (2, 2)
    assert both.dtype is tp.float32
    assert tp.asarray([tp.asarray(1), 2]).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", EVERY)
def test_three_states_of_copy_by_aliasing(dtype):
    base = np.ones((3, 4)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for a in (base, base.T, base[::-1, ::2], base[1], np.asarray(base[0, 0]), np.broadcast_to(base[0], (2, 4))):
        for copy in (None, False):
            x = tp.asarray(a, copy=copy)
            assert x.dtype.name == dtype
            assert np.shares_memory(x.numpy(), a)
            assert x.numpy().strides == a.strides
            assert x.readonly is not a.flags.writeable
        x = tp.asarray(a, copy=True)
        assert not np.shares_memory(x.numpy(), a)
        assert x.numpy().flags.c_contiguous
        assert not x.readonly
    other = "float32" if dtype != "float32" else "float64"
    if not dtype.startswith("complex"):
        with pytest.raises(AliasError, match=f"{dtype} to {other} needs a copy"):
            tp.asarray(base, dtype=other, copy=False)
        assert tp.asarray(base, dtype=other).dtype.name == other


def test_copy_false_where_nothing_can_be_shared():
    for data, words in [([1.0], "list"), ((1, 2), "tuple"), (1.5, "float"), ([np.ones(2), np.ones(2)], "list of arrays"),
                        (np.array([1.0], dtype=">f4"), ">f4")]:  # fmt: skip
        with pytest.raises(AliasError, match=words):
            tp.asarray(data, copy=False)
    memory = bytearray(b"ab")
    x = tp.asarray(memory, copy=False)
    x[0] = 99
    assert memory == b"cb"
    assert tp.asarray(memoryview(b"ab")).readonly


def test_size_limits():
    for shape in [(2**40, 2**40), (2, 2, 5, 5581, 8681, 49477, 384773), (2**63,)]:
        count = str(np.prod([int(s) for s in shape], dtype=object))
        for device in ("cpu", "meta"):
            with pytest.raises(SizeError, match=count):
                tp.zeros(shape, device=device)
    for fn in (tp.zeros, tp.ones, tp.empty, lambda s, **m: tp.full(s, 1, **m)):
        for shape in [(2**62,), (2**46,), (2**31, 2**30)]:
            with pytest.raises(OutOfMemoryError, match=str(shape[0])):
                fn(shape, dtype="float64")
    assert tp.zeros((2**33,), device="meta").size == 2**33
    assert tp.zeros((2**40, 0), device="meta").size == 0


def test_a_ramp_of_floats_holds_to_the_range_of_an_integer_dtype():
    for arguments, dtype in (((0.0, 300.0, 100.0), "int8"), ((-3.0, 0.0), "uint8"), ((0, 300, 100), "int8")):
        with pytest.raises(ScalarRangeError, match="does not fit"):
            tp.arange(*arguments, dtype=dtype)
        with pytest.raises(ScalarRangeError):
            tp.arange(*arguments, dtype=dtype, device="meta")
    assert tp.arange(-0.5, 2.5, dtype="int8").tolist() == [0, 0, 1]


def test_large_ints_in_a_floating_dtype_that_is_named():
    for dtype in ("bfloat16", "float32", "float64", "complex64"):
        want = np.array([-1.0, 2.0**63, 1e30]).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        np.testing.assert_array_equal(tp.asarray([-1, 2**63, 10**30], dtype=dtype).numpy(), want)
        assert tp.asarray(2**64, dtype=dtype).item() == 2.0**64
    for dtype in ("int64", "uint8"):
        with pytest.raises(ScalarRangeError):
            tp.asarray([-1, 2**63], dtype=dtype)
    with pytest.raises(ArgumentError, match="does not fit in 64 bits"):
        tp.asarray([-1, 2**63])


@pytest.mark.parametrize("error", [RuntimeError, BufferError, TypeError, ValueError])
def test_what_an_array_of_another_library_refuses_is_worded_and_kept(error):
    class Foreign:
        dtype, shape = np.dtype("float32"), (2,)

        def __array__(self, *args, **kwargs):
            raise error("it wants gradients; detach it")

    with pytest.raises(DTypeError, match="cannot be read as float32: it wants gradients"):
        tp.asarray(Foreign())


def test_memory_in_which_elements_are_one_place_is_not_written():
    a = np.arange(24.0).reshape(2, 3, 4)
    spread, _ = np.broadcast_arrays(np.ones((3, 1)), np.ones((1, 3)))
    windows = np.lib.stride_tricks.as_strided(a, (5, 3), (8, 8))
    for shared in (spread, windows):
        x, before = tp.asarray(shared), shared.copy()
        for write in (lambda x=x: x.__imul__(tp.asarray([1.0, 2.0, 3.0])), lambda x=x: x.__setitem__((0, 0), 7.0)):
            with pytest.raises(ReadOnlyError):
                write()
        np.testing.assert_array_equal(shared, before)
        assert (x + 1).tolist() == (before + 1).tolist()
        assert not tp.asarray(shared, copy=True).readonly
    for apart in (
        a,
        a.T,
        a[::-1],
        a[:, ::2],
        a[..., ::-2],
        a.transpose(1, 0, 2)[::2],
        a[:, :0],
        a[0, 0, 0],
        a[:1, None],
    ):
        assert not tp.asarray(apart).readonly
    assert not tp.asarray(np.lib.stride_tricks.as_strided(a, (1, 6), (0, 8))).readonly  # of one row no step is taken
