"""The device meta: shapes and dtypes through every family of operators, at any size, and never a value."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import DeviceError, ScalarRangeError, ShapeError, SizeError

_BIG = 2**33


def _of(*shape: int, dtype: str = "float32") -> tp.Tensor:
    return tp.zeros(shape, dtype=dtype, device="meta")


_unary = [
    "negative",
    "abs",
    "sign",
    "square",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "isnan",
    "isfinite",
    "isinf",
    "positive",
    "logical_not",
]
_binary = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "pow",
    "maximum",
    "minimum",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
_numpy_names = {"pow": "power"}


@pytest.mark.parametrize("name", _unary)
def test_unary_operators(name: str) -> None:
    x, array = _of(2, 0, 3), np.zeros((2, 0, 3), np.float32)
    out = getattr(tp, name)(x)
    wanted = getattr(np, _numpy_names.get(name, name))(array)
    assert (out.shape, out.dtype.name, out.device.type) == (wanted.shape, wanted.dtype.name, "meta")


@pytest.mark.parametrize("name", _binary)
def test_binary_operators_broadcast_and_promote(name: str) -> None:
    fn, oracle = getattr(tp, name), getattr(np, _numpy_names.get(name, name))
    wanted = oracle(np.ones((2, 1, 3), np.float32), np.ones((4, 1), np.float64))
    out = fn(_of(2, 1, 3), _of(4, 1, dtype="float64"))
    assert (out.shape, out.dtype.name) == (wanted.shape, wanted.dtype.name)
    assert fn(_of(3), 2).shape == (3,)
    assert fn(2, _of(3)).shape == (3,)
    with pytest.raises(ShapeError, match="do not broadcast"):
        fn(_of(2), _of(3))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise_operators(name: str) -> None:
    assert getattr(tp, name)(_of(2, 1, dtype="int8"), _of(3, dtype="int16")).dtype is tp.int16
    assert tp.bitwise_invert(_of(2, dtype="bool")).shape == (2,)
    with pytest.raises(tp.errors.DTypeError):
        getattr(tp, name)(_of(2), _of(2))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "mean", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_reductions(name: str, axis: int | None, keepdims: bool, dtype: str) -> None:
    out = getattr(tp, name)(_of(2, 3, 4, dtype=dtype), axis=axis, keepdims=keepdims)
    wanted = getattr(np, name)(np.zeros((2, 3, 4), dtype), axis=axis, keepdims=keepdims)
    assert out.shape == wanted.shape
    if name != "mean":
        assert out.dtype.name == wanted.dtype.name
    with pytest.raises(ShapeError):
        getattr(tp, name)(_of(2), axis=1)


_structure: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("reshape", lambda m, x: m.reshape(x, (4, -1))),
    ("permute_dims", lambda m, x: m.permute_dims(x, (2, 0, 1))),
    ("expand_dims", lambda m, x: m.expand_dims(x, axis=-2)),
    ("squeeze", lambda m, x: m.squeeze(m.expand_dims(x, axis=0), 0)),
    ("broadcast_to", lambda m, x: m.broadcast_to(x, (5, 2, 3, 4))),
    ("flip", lambda m, x: m.flip(x, axis=1)),
    ("concat", lambda m, x: m.concat([x, x, x], axis=-1)),
    ("stack", lambda m, x: m.stack([x, x], axis=1)),
    ("matmul", lambda m, x: m.matmul(x, m.permute_dims(x, (0, 2, 1)))),
    ("matrix_transpose", lambda m, x: m.matrix_transpose(x)),
    ("index", lambda m, x: x[1, ..., None, ::-2]),
    ("rows", lambda m, x: x[-1]),
    ("empty slice", lambda m, x: x[2:1]),
    ("where", lambda m, x: m.where(x > 0, x, 0.0)),
    ("clip", lambda m, x: m.clip(x, -1.0, 1.0)),
]


@pytest.mark.parametrize(("name", "fn"), _structure, ids=[n for n, _ in _structure])
def test_structure_indexing_and_products(name: str, fn: Callable[[Any, Any], Any]) -> None:
    out, wanted = fn(tp, _of(2, 3, 4)), fn(np, np.zeros((2, 3, 4), np.float32))
    assert out.device.type == "meta"
    assert (out.shape, out.dtype.name) == (wanted.shape, wanted.dtype.name)


def test_windows_losses_and_normalisation() -> None:
    from tripoint import nn

    x = _of(2, 6, 9, 8)
    assert nn.conv2d(x, _of(4, 3, 3, 2), _of(4), stride=2, padding=(1, 0), groups=2).shape == (2, 4, 5, 4)
    assert nn.conv2d(x, _of(4, 6, 3, 3)).shape == (2, 4, 7, 6)
    assert nn.max_pool2d(x, kernel_size=2).shape == (2, 6, 4, 4)
    assert nn.relu(x).shape == x.shape
    assert tp.softmax(x, axis=1).shape == x.shape
    assert nn.cross_entropy(_of(5, 3), _of(5, dtype="int64")).shape == ()
    assert nn.linear(_of(5, 3), _of(7, 3), _of(7)).shape == (5, 7)
    assert nn.linear(_of(2, 5, 3), _of(7, 3)).shape == (2, 5, 7)
    for bad in (
        lambda: nn.conv2d(x, _of(4, 5, 3, 3)),
        lambda: nn.max_pool2d(x, kernel_size=20),
        lambda: nn.cross_entropy(_of(5, 3), _of(4, dtype="int64")),
    ):
        with pytest.raises(ShapeError):
            bad()


def test_creation_and_conversion() -> None:
    assert tp.full((2, 3), 1, device="meta").dtype is tp.int64
    assert tp.ones_like(_of(2, 3, dtype="int8")).dtype is tp.int8
    assert tp.arange(2, 20, 3, device="meta").shape == (6,)
    assert tp.asarray([[1, 2, 3], [4, 5, 6]], device="meta").shape == (2, 3)
    assert tp.asarray(np.zeros((2, 5), np.int16), device="meta").dtype is tp.int16
    assert tp.asarray([[1.0, 2.0]]).to("meta").shape == (1, 2)
    assert _of(2).to(dtype="complex64").dtype is tp.complex64
    x = _of(2)
    assert x.to("meta") is x
    assert x.copy() is not x
    assert copy.copy(x.shape) == (2,)


def test_in_place_forms_check_what_they_would_do() -> None:
    x = _of(2, 3)
    alias = x
    x += 1
    x *= _of(3)
    x[0] = 5.0
    x[:, 1] = _of(2)
    assert x is alias
    with pytest.raises(ShapeError):
        x += _of(4, 2, 3)
    with pytest.raises(ShapeError):
        x[0] = _of(2)
    y = _of(2, dtype="int8")
    with pytest.raises(tp.errors.DTypeError):
        y += 1.5


def test_sizes_beyond_32_bits() -> None:
    x = _of(_BIG)
    assert x.size == _BIG
    assert (x + 1).shape == (_BIG,)
    assert x[-1].shape == ()
    assert x[::-1].shape == (_BIG,)
    assert x[5 :: 2**31].shape == (4,)
    assert tp.reshape(x, (2, -1)).shape == (2, 2**32)
    assert tp.concat([x, x]).shape == (2 * _BIG,)
    assert tp.broadcast_to(_of(1), (_BIG, 3)).shape == (_BIG, 3)
    assert tp.matmul(_of(_BIG, 1), _of(1, 2**20)).shape == (_BIG, 2**20)
    assert tp.sum(_of(_BIG, 2), axis=0).shape == (2,)
    assert tp.argmax(x).shape == ()
    assert _of(_BIG, 2).strides == (2, 1)
    with pytest.raises(tp.errors.IndexingError, match=str(_BIG)):
        x[_BIG]
    with pytest.raises(SizeError, match="63 bits"):
        _of(2**32, 2**31)
    with pytest.raises(SizeError, match="63 bits"):
        _of(2**32, 1) + _of(1, 2**31)


def test_sizes_beyond_63_bits_are_refused_wherever_they_arise() -> None:
    big = _of(2**62)
    for call in (
        lambda: tp.concat([big, big]),
        lambda: tp.stack([big, big]),
        lambda: tp.matmul(_of(2**40, 1), _of(1, 2**40)),
        lambda: tp.broadcast_to(_of(1), (2**32, 2**32)),
        lambda: tp.take(_of(2**40, 1), _of(2**40, dtype="int64"), axis=1),
        lambda: tp.full((2**32, 2**32), 1.0, device="meta"),
    ):
        with pytest.raises(SizeError, match="63 bits"):
            call()


def test_gradients_have_shapes_too() -> None:
    x, w = _of(4, 3).requires_grad_(), _of(3, 2).requires_grad_()
    loss = tp.sum(tp.softmax(x @ w, axis=-1) * 2.0)
    loss.backward()
    assert x.grad is not None
    assert w.grad is not None
    assert (x.grad.shape, w.grad.shape) == ((4, 3), (3, 2))
    assert x.grad.device.type == "meta"


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(), lambda x: x.tolist(), lambda x: float(x), lambda x: bool(x), lambda x: x.numpy(),
        lambda x: x.to("cpu"), lambda x: np.asarray(x), lambda x: int(x.to(dtype="int8")),
        lambda x: list(range(x.astype("int8"))),
    ],
)  # fmt: skip
def test_there_are_no_values_to_read(read: Callable[[tp.Tensor], Any]) -> None:
    with pytest.raises((DeviceError, tp.errors.NoKernelError), match="meta"):
        read(_of(1))


def test_it_prints_and_has_no_memory() -> None:
    assert repr(_of(2, 3)) == "tensor(shape=(2, 3), dtype=float32, device=meta)"
    with pytest.raises(tp.errors.LayoutError, match="not applicable"):
        _of(2).storage()
    assert tp.shares_memory(_of(2), _of(2)) is False
    with pytest.raises(DeviceError, match="argument x1: meta, argument x2: cpu"):
        _of(2) + tp.zeros((2,))


def test_numbers_that_an_integer_dtype_cannot_hold_are_refused_as_where_there_are_values() -> None:
    x = _of(2, dtype="uint8")
    for attempt in (lambda: x + 300, lambda: -1 - x, lambda: tp.where(x < 2, x, 256), lambda: tp.maximum(x, -1)):
        with pytest.raises(ScalarRangeError, match="does not fit in uint8"):
            attempt()
    assert [(x + 255).dtype.name, (x + 0.5).dtype.name, (x < 300).dtype.name] == ["uint8", "float32", "bool"]
