"""Reading and writing parts, fuzzed against NumPy: values, strides, shared memory, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tripoint as tp
from tripoint.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    NotBuiltYetError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    TripointError,
)
from tripoint.schema import rows


def test_every_operator_of_this_family_has_a_case():
    have = {n for n, r in rows.items() if r.body.__module__ == "tripoint.ops.indexing"}
    assert have == {"getitem", "getitem_back", "take", "take_back", "assign", "assign_"}


bounds = st.one_of(st.none(), st.integers(-7, 7))
pieces = st.one_of(
    st.integers(-5, 5),
    st.builds(slice, bounds, bounds, st.one_of(st.none(), st.integers(-3, 3))),
    st.none(),
    st.just(Ellipsis),
    st.integers(-5, 5).map(np.int64),
)
shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)
keys = st.one_of(pieces, st.lists(pieces, max_size=5).map(tuple))


def outcome(fn):
    try:
        return fn(), None
    except (IndexError, ValueError) as error:
        return None, error


@settings(max_examples=600, deadline=None, derandomize=True)
@given(shapes, keys)
def test_basic_indexing_is_numpys(shape, key):
    a = np.arange(float(np.prod(shape))).reshape(shape)
    x = tp.asarray(a)
    full = (*key, ...) if isinstance(key, tuple) and Ellipsis not in key else key
    want, failed = outcome(lambda: a[full])
    got, ours = outcome(lambda: x[key])
    if failed is not None:
        assert isinstance(ours, IndexingError), (failed, ours)
        return
    assert ours is None, ours
    want = np.asarray(want) if not isinstance(want, np.ndarray) else want
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    if want.size:
        assert tp.shares_memory(got, x)
        for mine, theirs, size in zip(got.strides, want.strides, want.shape, strict=True):
            assert size == 1 or mine * 8 == theirs
    # writing through the part, and with the key
    copies = [a.copy(), a.copy(), a.copy()]
    one, two = tp.asarray(copies[0]), tp.asarray(copies[1])
    part = one[key]
    part += 100
    two[key] = want + 100
    copies[2][full] += 100
    np.testing.assert_array_equal(copies[0], copies[2])
    np.testing.assert_array_equal(copies[1], copies[2])
    assert one[key].tolist() == got.tolist() if not want.size else True


@settings(max_examples=200, deadline=None, derandomize=True)
@given(shapes.filter(len), st.data())
def test_take_and_index_lists_are_numpys(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    where = np.array(data.draw(st.lists(st.integers(-size - 1, size), max_size=4)), dtype=np.int64)
    if data.draw(st.booleans()) and where.size % 2 == 0:
        where = where.reshape(2, -1)
    a = np.arange(float(np.prod(shape))).reshape(shape)
    x, i = tp.asarray(a), tp.asarray(where)
    want, failed = outcome(lambda: np.take(a, where, axis=axis))
    got, ours = outcome(lambda: tp.take(x, i, axis=axis))
    if failed is not None:
        if where.size:
            assert isinstance(ours, IndexingError), (failed, ours)
        return
    if ours is not None:  # NumPy does not look at positions where nothing is taken
        assert isinstance(ours, IndexingError)
        assert np.size(want) == 0
        return
    np.testing.assert_array_equal(got.numpy(), want)
    assert not tp.shares_memory(got, x)
    at = axis % len(shape)
    for index in (where, i, *([where.tolist()] if where.ndim == 1 else [])):
        np.testing.assert_array_equal(x[(slice(None),) * at + (index,)].numpy(), want)
        if at == len(shape) - 1:
            np.testing.assert_array_equal(x[..., index].numpy(), want)
        if at == 0:
            np.testing.assert_array_equal(x[index].numpy(), want)


def test_slices_with_an_index_list_are_clamped():
    a = np.arange(20.0).reshape(5, 4)
    x = tp.asarray(a)
    assert x[-100:4, [0, 1]].shape == (4, 2)
    np.testing.assert_array_equal(x[-100:4, [0, 1]].numpy(), a[-100:4, [0, 1]])
    np.testing.assert_array_equal(x[::-2, [3, -4]].numpy(), a[::-2, [3, -4]])
    np.testing.assert_array_equal(x[[1, 1], 1:].numpy(), a[[1, 1], 1:])
    assert x[[]].shape == (0, 4)
    assert x[tp.asarray(2)].tolist() == a[2].tolist()
    assert x[np.array(2)].tolist() == a[2].tolist()
    assert x[2**70 : -(2**70) : -1].tolist() == a[::-1].tolist()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (5, "index 5 is out of range for axis 0"),
        (-6, "index -6"),
        ((0, 4), "index 4 is out of range for axis 1"),
        ((0, 0, 0), r"3 indices for shape \(5, 4\)"),
        ((..., 0, 0, 0), r"3 indices for shape \(5, 4\)"),
        ((..., ...), "ellipsis"),
        (1.0, r"1\.0 at axis 0"),
        ("a", "'a' at axis 0"),
        ((0, "b"), "'b' at axis 1"),
        (slice(None, None, 0), "step must not be 0"),
        (slice(0.5, 2), r"0\.5"),
        (slice("a", None), "'a'"),
        ([0.5], "float32"),
        ([5], "5 is out of range"),
        ([-6], "-6 is out of range"),
        ((slice(None), [4]), "4 is out of range"),
        ((slice(None), slice(None), [0]), r"3 indices for shape \(5, 4\)"),
        (np.array(1.5), "1.5"),
        (2**70, str(2**70)),
    ],
)
def test_bad_indices(key, words):
    a = np.arange(20.0).reshape(5, 4)
    x = tp.asarray(a.copy())
    with pytest.raises(IndexingError, match=words):
        x[key]
    with pytest.raises((IndexingError, NotBuiltYetError)):
        x[key] = 1.0
    np.testing.assert_array_equal(x.numpy(), a)


def test_ellipsis_and_two_indices_on_one_axis():
    with pytest.raises(IndexError, match=r"2 indices for shape \(3,\)"):
        tp.ones((3,))[..., 0, 0]
    with pytest.raises(IndexError, match="0 is out of range"):
        tp.zeros((0,))[[0]]


def test_masks_and_several_index_tensors_are_planned():
    x = tp.ones((2, 2))
    for key in (
        [True, False],
        tp.asarray([True, False]),
        np.array([True, False]),
        True,
        np.bool_(True),
        ([0], [1]),
        ([0], 1),
    ):
        with pytest.raises(NotBuiltYetError, match="planned"):
            x[key]
        with pytest.raises(NotBuiltYetError, match="planned"):
            x[key] = 1
    assert x.tolist() == [[1, 1], [1, 1]]


def test_take():
    a = np.arange(12.0).reshape(3, 4)
    for memory in (a, np.asfortranarray(a), a[::-1].copy()[::-1]):
        for dtype in ("int8", "int32", "int64", "uint8", "uint64"):
            got = tp.take(tp.asarray(memory), tp.asarray([2, 0], dtype=dtype), axis=0)
            np.testing.assert_array_equal(got.numpy(), a[[2, 0]])
    x = tp.asarray(a)
    one = tp.take(x, tp.asarray(-1), axis=1)
    np.testing.assert_array_equal(one.numpy(), a[:, -1])
    scalar = tp.take(tp.asarray([5.0, 6.0]), tp.asarray(1), axis=0)
    scalar[...] = 3
    assert scalar.item() == 3
    for bad, kind, words in [
        (tp.asarray([0.5]), IndexingError, "integers, not float32"),
        (tp.asarray([True]), IndexingError, "integers, not bool"),
        (tp.asarray([4]), IndexingError, r"4 is out of range; positions lie in -4\.\.3"),
        (tp.asarray([0, -5]), IndexingError, "-5 is out of range"),
        (1, ArgumentError, "indices must be a tensor, not the int 1"),
        ([0], ArgumentError, "indices must be a tensor"),
    ]:
        with pytest.raises(kind, match=words):
            tp.take(x, bad, axis=1)
    with pytest.raises(ShapeError, match="axis 2"):
        tp.take(x, tp.asarray([0]), axis=2)
    with pytest.raises(ShapeError, match="0-dimensional"):
        tp.take(tp.asarray(1.0), tp.asarray([0]), axis=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_adjoints(dtype):
    """<back(g), x> is <g, forward(x)> for small integers, which every dtype holds."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (4, 3)).astype(float)
    key = rows["getitem"].bind(((4, 3),), (slice(None, None, -2), None, slice(1, None)))[0]
    want = x[key]
    g = rng.integers(-2, 3, want.shape).astype(float)
    back = rows["getitem_back"].call(tp.asarray(g).astype(dtype), shape=(4, 3), key=key)
    by_parts = rows["getitem_back"].body(tp.asarray(g).astype(dtype), shape=(4, 3), key=key)
    assert back.dtype.name == by_parts.dtype.name == dtype
    assert back.tolist() == by_parts.tolist()
    assert np.sum(np.asarray(back.tolist()) * x) == np.sum(g * want)
    where = np.array([[1, 1], [-1, 0]])
    want = x.take(where, axis=0)
    g = rng.integers(-2, 3, want.shape).astype(float)
    back = rows["take_back"].call(tp.asarray(g).astype(dtype), tp.asarray(where), shape=(4, 3), axis=0)
    assert back.dtype.name == dtype
    assert np.sum(np.asarray(back.tolist()) * x) == np.sum(g * want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_gradients_of_a_position_named_often_do_not_stall(dtype):
    n = {"float32": 2**24 + 2**17, "complex64": 2**24 + 2**17}.get(dtype, 2**15)  # the second would be an infinity
    g = tp.ones((n,), dtype=dtype)
    out = rows["take_back"].call(g, tp.full((n,), -1), shape=(3,), axis=0)
    assert out.dtype.name == dtype
    assert out.tolist() == [0, 0, n]


def test_assigning():
    for dtype in ("bool", "int8", "uint16", "float16", "bfloat16", "float32", "complex64"):
        x = tp.zeros((2, 3), dtype=dtype)
        x[0] = 1
        x[1, 1:] = tp.asarray([1.0, 1.0])
        x[1, 0] = np.ones((1, 1))
        x[:, :1] = True
        assert x.tolist() == np.ones((2, 3)).tolist()
    x = tp.zeros((3,))
    x[...] = tp.ones((1, 1, 3))  # leading axes of size 1 are dropped, as NumPy drops them
    x[0:2] = 5
    assert x.tolist() == [5, 5, 1]
    zero = tp.asarray(1.0)
    zero[...] = 4
    zero[()] = tp.asarray([[5.0]])
    assert zero.item() == 5
    tp.zeros((0, 3))[...] = 1
    half = tp.zeros((2,), dtype="float16")
    half[0] = 1e6
    assert half.tolist() == [np.inf, 0]
    whole = tp.zeros((2,), dtype="int64")
    whole[0] = -1.9
    whole[1] = tp.asarray(2.9)
    assert whole.tolist() == [-1, 2]
    new = rows["assign"].call(tp.zeros((2, 2), dtype="int8"), tp.asarray([1.0, 2.0]))
    assert new.dtype is tp.int8
    assert new.tolist() == [[1, 2], [1, 2]]


def test_assigning_refuses_and_changes_nothing():
    tries = [
        ("int8", 0, 300, ScalarRangeError, "300 does not fit in int8"),
        ("uint8", 0, -1, ScalarRangeError, "-1 does not fit in uint8"),
        ("int64", 0, float("nan"), DTypeError, "nan is no int64"),
        ("int64", 0, float("-inf"), DTypeError, "-inf is no int64"),
        ("float32", 0, 1j, DTypeError, "1j is no float32"),
        ("bfloat16", 0, 1j, DTypeError, "1j is no bfloat16"),
        ("float32", 0, tp.asarray([1j]), DTypeError, "complex64 to float32"),
        ("int64", slice(None), tp.asarray([1j, 1]), DTypeError, "complex64 to int64"),
        ("float32", slice(None), tp.ones((5,)), ShapeError, r"\(2,\).*\(5,\)|\(5,\).*\(2,\)"),
        ("float32", slice(None), tp.ones((2, 2)), ShapeError, r"\(2, 2\)"),
        ("float32", 0, "a", ArgumentError, "the str 'a'"),
        ("float32", 0, None, ArgumentError, "None"),
        ("float32", slice(None), [1, 2], ArgumentError, r"the list \[1, 2\]"),
    ]
    for dtype, key, value, kind, words in tries:
        x = tp.zeros((2,), dtype=dtype)
        with pytest.raises(kind, match=words):
            x[key] = value
        assert x.tolist() == [0, 0]
        with pytest.raises(TripointError):
            rows["assign"].call(x[key], value)
    fixed = tp.broadcast_to(tp.ones((1,)), (3,))
    with pytest.raises(ReadOnlyError, match="read-only"):
        fixed[1] = 2
    assert fixed.tolist() == [1, 1, 1]


def test_iteration_gives_views():
    x = tp.zeros((3, 2))
    for i, row in enumerate(x):
        row += i
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert len(x) == 3
    assert [v.item() for v in tp.asarray([1, 2])] == [1, 2]
    for act in (lambda: len(tp.asarray(1.0)), lambda: iter(tp.asarray(1.0))):
        with pytest.raises(ShapeError, match="0-dimensional"):
            act()


def test_two_ellipses_beside_an_index_tensor():
    x = tp.ones((2, 3))
    for key in (([0], ..., ...), (..., tp.asarray(1), ...)):
        with pytest.raises(IndexingError, match="at most one ellipsis"):
            x[key]


def test_the_axis_of_take_may_be_left_out_of_a_vector():
    x = tp.asarray([5, 6, 7])
    assert tp.take(x, tp.asarray([2, 0, -1])).tolist() == [7, 5, 7]
    for other in (tp.ones((2, 2)), tp.ones(())):
        with pytest.raises(ArgumentError, match="needs axis="):
            tp.take(other, tp.asarray([0]))


def test_complex_elements_are_refused_by_a_real_tensor_on_every_device():
    for device in ("cpu", "meta"):
        x, z = tp.zeros((2,), device=device), tp.zeros((2,), dtype="complex64", device=device)
        with pytest.raises(DTypeError, match="imaginary"):
            x[0] = z[0]
