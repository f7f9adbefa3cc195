"""Rules: shapes and bound metadata against NumPy on random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tripoint import rules
from tripoint.errors import ArgumentError, IndexingError, ShapeError, SizeError

_shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
_likely = st.lists(st.sampled_from([1, 1, 1, 2, 3, 0]), max_size=4).map(tuple)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(_likely, min_size=1, max_size=4))
def test_broadcasting_is_numpys(shapes: list[tuple[int, ...]]) -> None:
    try:
        wanted = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            rules.broadcast_shapes(*shapes)
        return
    assert rules.broadcast_shapes(*shapes) == wanted
    assert rules.broadcast((*shapes, None)) == wanted


def test_a_broadcast_shape_too_large_for_63_bits_is_refused() -> None:
    assert rules.broadcast_shapes((2**31, 1), (1, 2**31)) == (2**31, 2**31)
    with pytest.raises(SizeError, match="63 bits"):
        rules.broadcast_shapes((2**32, 1), (1, 2**31))
    assert rules.broadcast_shapes((2**62, 1, 0), (1, 2**62, 1)) == (2**62, 2**62, 0)


_part = st.one_of(st.none(), st.integers(-6, 6))
_item = st.one_of(
    st.integers(-5, 5),
    st.none(),
    st.just(Ellipsis),
    st.builds(slice, _part, _part, st.one_of(st.none(), st.integers(-3, 3).filter(bool))),
)
_index_key = st.one_of(_item, st.lists(_item, max_size=5).map(tuple))


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(_shapes, _index_key)
def test_basic_indexing_is_numpys_and_binding_it_again_changes_nothing(shape: tuple[int, ...], key: Any) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        wanted = array[key]
    except IndexError:
        with pytest.raises(IndexingError):
            rules.bind_index((shape,), key)
        return
    (bound,) = rules.bind_index((shape,), key)
    assert rules.indexed((shape,), key=bound) == wanted.shape
    np.testing.assert_array_equal(array[bound], wanted)
    (again,) = rules.bind_index((shape,), bound)
    assert rules.indexed((shape,), key=again) == wanted.shape
    np.testing.assert_array_equal(array[again], wanted)


def test_indexing_sizes_that_no_array_has() -> None:
    shape = (2**40, 1) + (1,) * 70
    for key in (3, -1, slice(5, None, 2**20), (Ellipsis, 0), slice(None, None, -1)):
        (bound,) = rules.bind_index((shape,), key)
        whole = key if not isinstance(key, tuple) else slice(None)
        head = range(2**40)[whole]
        wanted = ((len(head),) if isinstance(head, range) else ()) + (1,) * (70 if isinstance(key, tuple) else 71)
        assert rules.indexed((shape,), key=bound) == wanted


@pytest.mark.parametrize("key", [1.0, "a", True, slice("a", None), slice(None, None, 0), (0, 1.5), [0], {}, b"x"])
def test_what_is_no_basic_index_is_refused(key: object) -> None:
    with pytest.raises(IndexingError):
        rules.bind_index(((3, 3),), key)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        (3, (3,)), ((), ()), ([], ()), ([2, 3], (2, 3)), ((2, np.int32(3)), (2, 3)), (np.int64(4), (4,)),
        (np.array([2, 3]), (2, 3)), (np.array(5), (5,)), (range(1, 4), (1, 2, 3)), ((0, 2**62, 2**62), (0, 2**62, 2**62)),
        (np.array([], dtype=np.int64), ()),
    ],
)  # fmt: skip
def test_shapes_are_ints(shape: Any, wanted: tuple[int, ...]) -> None:
    got = rules.check_shape(shape)
    assert got == wanted
    assert all(type(s) is int for s in got)


@pytest.mark.parametrize(
    "shape",
    [
        2.0,
        "12",
        b"12",
        None,
        True,
        (2, 3.0),
        (2, True),
        (2, "3"),
        (2, None),
        np.array([2.0]),
        np.array(2.0),
        object(),
        ((2, 3),),
    ],
)
def test_what_is_no_shape_is_an_argument_error(shape: Any) -> None:
    with pytest.raises(ArgumentError):
        rules.check_shape(shape)


def test_negative_and_enormous_shapes() -> None:
    with pytest.raises(ShapeError, match="negative"):
        rules.check_shape((2, -1))
    assert rules.check_shape((2**63 - 1,)) == (2**63 - 1,)
    with pytest.raises(SizeError, match="63 bits") as caught:
        rules.check_shape((2, 2, 5, 5581, 8681, 49477, 384773))  # 2**64 + 4 elements: the product wraps to 4
    assert isinstance(caught.value, (ValueError, OverflowError))
    with pytest.raises(SizeError):
        rules.check_shape((2**63,))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    _shapes,
    st.one_of(st.none(), st.integers(-5, 5), st.lists(st.integers(-5, 5), max_size=4).map(tuple)),
    st.booleans(),
)
def test_axes_are_numpys(shape: tuple[int, ...], axis: Any, keepdims: bool) -> None:
    try:
        if shape == () and isinstance(axis, int):
            raise np.exceptions.AxisError(axis, 0)  # NumPy lets 0-d arrays pass; the array API standard does not
        wanted = np.zeros(shape).sum(axis=axis, keepdims=keepdims).shape
    except (np.exceptions.AxisError, ValueError):
        with pytest.raises(ShapeError):
            rules.normalise_axes(axis, len(shape))
        return
    axes = rules.normalise_axes(axis, len(shape))
    assert rules.reduced((shape,), axis=axes, keepdims=keepdims) == wanted
    assert rules.normalise_axes(axes, len(shape)) == axes


def test_what_equals_an_int_is_not_taken_for_one() -> None:
    # True == 1 == 1.0 are one dictionary key, so what is remembered must not answer for them, in whatever order they come.
    for _ in range(2):
        assert rules.normalise_axes(1, 2) == (1,)
        assert rules.normalise_axes((1,), 2) == (1,)
        assert rules.normalise_axes([np.int8(-1)], 2) == (1,)
        for bad in (True, 1.0, (True,), (1.0,), [True], "1", (0, True)):
            with pytest.raises(ArgumentError):
                rules.normalise_axes(bad, 2)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(_shapes, st.lists(st.integers(-1, 6), max_size=4).map(tuple))
def test_reshape_is_numpys(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    try:
        out = np.zeros(shape).reshape(wanted).shape
    except ValueError:
        with pytest.raises(ShapeError):
            rules.bind_reshape((shape,), wanted, None)
        return
    bound = rules.bind_reshape((shape,), wanted, None)
    assert bound == (out, None)
    assert rules.bind_reshape((shape,), *bound) == bound


def test_reshape_takes_what_counts_as_int_and_nothing_else() -> None:
    assert rules.bind_reshape(((2, 3),), np.int64(-1)) == ((6,),)
    assert rules.bind_reshape(((2, 3),), np.array([3, -1])) == ((3, 2),)
    assert rules.bind_reshape(((2, 3),), -1) == ((6,),)
    for bad in ((-1.0, 2), 6.0, "6", (True, 6)):
        with pytest.raises(ArgumentError):
            rules.bind_reshape(((2, 3),), bad)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(_likely, _likely)
def test_matmul_shapes_are_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(ShapeError):
            rules.matmul((a, b))
        return
    assert rules.matmul((a, b)) == wanted


@settings(max_examples=300, deadline=None, derandomize=True)
@given(_shapes, st.one_of(st.integers(-6, 6), st.lists(st.integers(-6, 6), max_size=3).map(tuple)))
def test_expand_dims_is_numpys(shape: tuple[int, ...], axis: Any) -> None:
    try:
        wanted = np.expand_dims(np.zeros(shape), axis).shape
    except (np.exceptions.AxisError, ValueError):
        with pytest.raises(ShapeError):
            rules.bind_expand((shape,), axis)
        return
    (bound,) = rules.bind_expand((shape,), axis)
    assert rules.expanded((shape,), axis=bound) == wanted
    assert rules.bind_expand((shape,), bound) == (bound,)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(_likely, st.lists(st.integers(-4, 4), max_size=3).map(tuple))
def test_squeeze_is_numpys(shape: tuple[int, ...], axis: tuple[int, ...]) -> None:
    try:
        wanted = np.squeeze(np.zeros(shape), axis).shape
    except (np.exceptions.AxisError, ValueError):
        with pytest.raises(ShapeError):
            rules.bind_squeeze((shape,), axis)
        return
    (bound,) = rules.bind_squeeze((shape,), axis)
    assert rules.squeezed((shape,), axis=bound) == wanted
    assert rules.bind_squeeze((shape,), bound) == (bound,)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(_likely, min_size=1, max_size=3), st.integers(-4, 4))
def test_concat_shapes_are_numpys(shapes: list[tuple[int, ...]], axis: int) -> None:
    try:
        wanted = np.concatenate([np.zeros(s) for s in shapes], axis=axis).shape
    except (np.exceptions.AxisError, ValueError):
        with pytest.raises(ShapeError):
            rules.concatenated((tuple(shapes),), axis=rules.bind_concat((tuple(shapes),), axis)[0])
        return
    (bound,) = rules.bind_concat((tuple(shapes),), axis)
    assert rules.concatenated((tuple(shapes),), axis=bound) == wanted
    assert rules.bind_concat((tuple(shapes),), bound) == (bound,)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(_shapes, st.permutations(range(-2, 3)), st.integers(0, 5))
def test_permutations_are_numpys(shape: tuple[int, ...], axes: list[int], count: int) -> None:
    chosen = tuple(axes[:count])
    try:
        wanted = np.transpose(np.zeros(shape), chosen).shape
    except ValueError:
        with pytest.raises(ShapeError):
            rules.bind_permutation((shape,), chosen)
        return
    (bound,) = rules.bind_permutation((shape,), chosen)
    assert rules.permuted((shape,), axes=bound) == wanted
    assert rules.bind_permutation((shape,), bound) == (bound,)


def test_extremes_of_nothing() -> None:
    with pytest.raises(ShapeError, match="axis 0"):
        rules.reduced_nonempty(((0, 3),), axis=(0,), keepdims=False)
    assert rules.reduced_nonempty(((2, 0),), axis=(0,), keepdims=False) == (0,)
    with pytest.raises(ShapeError):
        rules.arg_reduced(((0,),), axis=None, keepdims=False)
