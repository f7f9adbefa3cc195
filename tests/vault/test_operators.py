"""The vault's numbers, views and writes beside those of the dense CPU backend, which shares no code with it."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import (
    AliasError,
    ArgumentError,
    DTypeError,
    IndexingError,
    NoKernelError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
)

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]
random = np.random.default_rng(0)
A = random.standard_normal((3, 4)).astype("float32")
B = random.standard_normal((4,)).astype("float32")
C = random.standard_normal((2, 3, 4)).astype("float32")
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 2.5], "float32")
INTS = np.array([-7, -1, 0, 1, 5, 127, -128], "int8")


def both(fn: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> None:
    """A function of tensors gives on the vault what it gives on the CPU."""
    here = fn(*[tp.asarray(a) for a in arrays])
    there = fn(*[tp.asarray(a, device="vault") for a in arrays])
    same(there, here)


def same(there: Any, here: Any) -> None:
    assert str(there.device) == "vault:0"
    assert (there.shape, there.dtype) == (here.shape, here.dtype)
    np.testing.assert_allclose(there.to("cpu").numpy(), here.numpy(), rtol=1e-5, atol=1e-6)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{n: getattr(tp, n) for n in ("exp", "log", "sqrt", "tanh", "sin", "cos", "abs", "sign", "square", "negative")},
    **{n: getattr(tp, n) for n in ("isnan", "isfinite", "isinf", "logical_not")},
    "relu": tp.nn.relu,
    "plus a number": lambda x: 1.5 + x,
    "power": lambda x: x**2,
    "clip": lambda x: tp.clip(x, -1, 1),
    "where": lambda x: tp.where(x > 0, x, 0.5),
    "softmax": lambda x: tp.softmax(x[3:], axis=0) if x.shape[0] else x,
}
BINARY = [
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
]  # fmt: skip
REDUCTIONS = ["sum", "prod", "max", "min", "mean", "all", "any"]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    both(ELEMENTWISE[name], SPECIAL)
    both(ELEMENTWISE[name], SPECIAL[:0])


@pytest.mark.parametrize("name", BINARY)
def test_binary_with_broadcasting_and_every_pair_of_special_values(name: str) -> None:
    op = getattr(tp, name)
    both(op, A, B)
    both(op, np.repeat(SPECIAL, 8), np.tile(SPECIAL, 8))
    both(op, A[:, :0], B[:0])
    if name != "pow":
        both(op, INTS, INTS[::-1].copy())


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitwise(name: str) -> None:
    both(getattr(tp, name), INTS, INTS[::-1].copy())
    both(tp.bitwise_invert, INTS)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name: str, keepdims: bool) -> None:
    for axis in (None, 0, -1, (0, 2), ()):
        both(lambda x, axis=axis: getattr(tp, name)(x, axis=axis, keepdims=keepdims), C)


def test_reductions_of_small_dtypes_and_of_nothing() -> None:
    for dtype in ("int8", "uint8", "bool", "float16"):
        both(tp.sum, np.ones((300,), dtype))
        both(tp.prod, np.ones((3,), dtype))
    both(lambda x: tp.sum(x, axis=0), np.empty((0, 3), "float32"))
    both(lambda x: tp.max(x, axis=0), np.empty((2, 0), "float32"))
    with pytest.raises(ShapeError, match="the largest or smallest of nothing"):
        tp.max(tp.zeros((0, 3), device="vault"), axis=0)


def test_float16_products_and_sums_are_accumulated_wide() -> None:
    x = tp.ones((4096,), dtype="float16", device="vault")
    assert tp.sum(x).item() == 4096.0
    assert tp.matmul(x.reshape(1, 4096), x.reshape(4096, 1)).item() == 4096.0


def test_the_first_largest_and_the_first_nan() -> None:
    both(tp.argmax, np.array([1, 3, 3], "int32"))
    both(tp.argmax, np.array([1, np.nan, 2, np.nan], "float32"))
    both(lambda x: tp.argmin(x, axis=1, keepdims=True), A)


def test_products() -> None:
    both(tp.matmul, A, A.T.copy())
    both(tp.matmul, C, random.standard_normal((4, 5)).astype("float32"))
    both(lambda x, w, b: tp.nn.linear(x, w, b), A, random.standard_normal((2, 4)).astype("float32"), B[:2].copy())
    with pytest.raises(ShapeError, match="matmul"):
        tp.asarray(A, device="vault") @ tp.asarray(A, device="vault")


WINDOWS = [
    {"stride": s, "padding": p, "dilation": d, "groups": g}
    for s, p, d, g in itertools.product((1, 2), (0, 1), (1, 2), (1, 2))
]


@pytest.mark.parametrize("how", WINDOWS, ids=str)
def test_convolution_and_its_gradients(how: dict[str, int]) -> None:
    x = random.standard_normal((2, 4, 7, 6)).astype("float32")
    w = random.standard_normal((6, 4 // how["groups"], 3, 2)).astype("float32")
    bias = random.standard_normal((6,)).astype("float32")

    def gradients(place: str) -> list[tp.Tensor]:
        leaves = [tp.asarray(a, device=place).requires_grad_() for a in (x, w, bias)]
        out = tp.nn.conv2d(*leaves, **how)
        (out * out).sum().backward()
        return [out.detach(), *[leaf.grad for leaf in leaves]]  # type: ignore[list-item]

    for there, here in zip(gradients("vault"), gradients("cpu"), strict=True):
        np.testing.assert_allclose(there.to("cpu").numpy(), here.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (1, 0))])
def test_pooling_with_ties_and_its_gradient(kernel: Any, stride: Any, padding: Any) -> None:
    x = random.integers(-2, 3, (2, 3, 7, 6)).astype("float32")

    def gradient(place: str) -> tuple[tp.Tensor, tp.Tensor | None]:
        leaf = tp.asarray(x, device=place).requires_grad_()
        out = tp.nn.max_pool2d(leaf, kernel_size=kernel, stride=stride, padding=padding)
        (out * out).sum().backward()
        return out.detach(), leaf.grad

    for there, here in zip(gradient("vault"), gradient("cpu"), strict=True):
        same(there, here)


STRUCTURE: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: tp.permute_dims(x, (2, 0, 1)),
    "matrix transpose": lambda x: x.mT,
    "new axis": lambda x: tp.expand_dims(x, axis=1),
    "squeeze": lambda x: tp.squeeze(x[:1], 0),
    "flip": lambda x: tp.flip(x, axis=(0, 2)),
    "broadcast": lambda x: tp.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    "backwards": lambda x: x[::-1, ::-2, 1:],
    "an element": lambda x: x[1, -1, 0],
    "none and ellipsis": lambda x: x[None, ..., 2],
    "an empty slice": lambda x: x[:, 3:, :],
    "reshape": lambda x: tp.reshape(x, (4, 6)),
    "reshape of a transpose": lambda x: tp.reshape(x.mT, (2, 12)),
    "reshape of a broadcast": lambda x: tp.reshape(tp.broadcast_to(x[0, 0], (2, 3, 4)), (6, 4)),
    "flatten": lambda x: tp.flatten(x, 1),
    "concat": lambda x: tp.concat([x, x[:, ::-1]], axis=2),
    "stack": lambda x: tp.stack([x, x + 1], axis=-1),
    "take": lambda x: tp.take(x, tp.asarray([2, 0, -1], device=x.device), axis=1),
    "copy of a view": lambda x: x[:, ::2].copy(),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_structure_and_the_gradient_through_it(name: str) -> None:
    both(STRUCTURE[name], C)
    grads = []
    for place in ("vault", "cpu"):
        leaf = tp.asarray(C, device=place).requires_grad_()
        out = STRUCTURE[name](leaf)
        (out * out).sum().backward()
        grads.append(leaf.grad)
    same(*grads)


def test_reshape_is_a_view_exactly_where_numpy_makes_one() -> None:
    shapes = [(6, 4), (24,), (2, 12), (3, 2, 4), (4, 3, 2), (2, 3, 2, 2), (1, 24, 1), (8, 3)]
    views: list[Callable[[Any], Any]] = [
        lambda x: x, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x[:, :, 1:], lambda x: x[:1],
    ]  # fmt: skip
    for view, axes in itertools.product(views, itertools.permutations(range(3))):
        array, tensor = view(C).transpose(axes), tp.permute_dims(view(tp.asarray(C, device="vault")), axes)
        for shape in shapes:
            if np.prod(shape) != array.size:
                continue
            made = array.reshape(shape)
            seen = tp.reshape(tensor, shape)
            assert tp.shares_memory(seen, tensor) == np.shares_memory(made, array), (array.strides, shape)
            np.testing.assert_array_equal(seen.to("cpu").numpy(), made)
            if not np.shares_memory(made, array):
                with pytest.raises(AliasError, match="needs a copy"):
                    tp.reshape(tensor, shape, copy=False)


def test_views_share_a_storage_and_writes_go_through() -> None:
    x = tp.zeros((3, 4), device="vault")
    row, column = x[1], x[:, 2]
    assert row.storage() == column.storage() == x.storage()
    assert (row.strides, column.strides) == ((1,), (4,))
    assert tp.shares_memory(row, x)
    assert tp.shares_memory(row, column)
    assert not tp.shares_memory(row, x[2])
    assert not tp.shares_memory(x[:, ::2], x[:, 1::2])
    row += 1
    column[:] = tp.asarray([5.0, 6.0, 7.0], device="vault")
    x[::2, 0] = 9
    assert x.tolist() == [[9, 0, 5, 0], [1, 1, 6, 1], [9, 0, 7, 0]]
    x -= x[:, :1]  # which overlaps what is written
    assert x.tolist() == [[0, -9, -4, -9], [0, 0, 5, 0], [0, -9, -2, -9]]


def test_what_is_broadcast_cannot_be_written() -> None:
    x = tp.broadcast_to(tp.ones((1, 3), device="vault"), (2, 3))
    assert x.readonly
    with pytest.raises(ReadOnlyError, match="read-only"):
        x += 1
    with pytest.raises(ReadOnlyError):
        x[0] = 2
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_recorded_writes_reach_the_gradient() -> None:
    w = tp.asarray([1.0, 2.0, 3.0], device="vault").requires_grad_()
    y = w * 2
    first = y[:1]
    y *= w
    first.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_there_and_back(dtype: str) -> None:
    array = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    for source in (array, array.T, array[:, ::-1], array[:0], array[0, 0]):
        x = tp.asarray(source, device="vault")
        back = x.to("cpu")
        assert back.dtype == dtype
        np.testing.assert_array_equal(back.numpy(), source)
        assert x.tolist() == source.tolist()
        for other in DTYPES:
            np.testing.assert_array_equal(x.to(dtype=other).to("cpu").numpy(), source.astype(other))


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128", "bfloat16"])
def test_dtypes_that_a_vault_has_not(dtype: str) -> None:
    x = tp.zeros((2,), dtype=dtype)
    tries: list[Callable[[], Any]] = [
        lambda: tp.zeros((2,), dtype=dtype, device="vault"),
        lambda: tp.full((2,), 1, dtype=dtype, device="vault"),
        lambda: tp.asarray(x, device="vault"),
        lambda: x.to("vault"),
        lambda: tp.ones((2,), device="vault").to(dtype=dtype),
        lambda: tp.ones((2,), device="vault").sum(dtype=dtype),
        lambda: tp.empty((2,), dtype=dtype, device="vault"),
        lambda: tp.arange(3, dtype=dtype, device="vault"),
    ]
    for attempt in tries:
        with pytest.raises(DTypeError, match=f"vault:0 has no {dtype}; it has bool, .*float32: name one"):
            attempt()


def test_python_numbers_and_promotion_never_ask_for_float64() -> None:
    ones, ints = tp.ones((2,), device="vault"), tp.ones((2,), dtype="int64", device="vault")
    made = [
        1.5 + ones,
        ints + 1.5,
        ints / ints,
        tp.exp(ints),
        tp.mean(ints),
        ints + ones,
        tp.asarray([1.5], device="vault"),
    ]
    assert {x.dtype.name for x in made} == {"float32"}
    tp.set_default_dtype("float64")
    try:
        assert (1.5 + ones).dtype == "float32"
        half = tp.ones((2,), dtype="float16", device="vault")
        assert (half * 2.5).dtype == "float16"
        for attempt in (lambda: ints / ints, lambda: ints + 1.5, lambda: tp.ones((2,), device="vault")):
            with pytest.raises(DTypeError, match="vault:0 has no float64"):
                attempt()
    finally:
        tp.set_default_dtype("float32")
    with tp.fallback("allow"), pytest.raises(DTypeError, match="vault:0 has no float64"):
        ones.sum(dtype="float64")  # what a kernel refuses is no reason to compute elsewhere
    tp.synchronize("vault")


_COMPARISONS = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


@pytest.mark.parametrize("name", _COMPARISONS)
@pytest.mark.parametrize("device", ["cpu", "vault"])
def test_integers_compare_with_numbers_beyond_their_dtype(name: str, device: str) -> None:
    says, ours = _COMPARISONS[name], getattr(tp, name)
    for dtype in DTYPES[1:9]:
        kind = np.iinfo(dtype)
        elements = [int(kind.min), 1, int(kind.max)]
        x = tp.asarray(elements, dtype=dtype, device=device)
        for number in (-1, 300, int(kind.min) - 1, int(kind.max) + 1, -(2**70), 10**400):
            assert ours(x, number).tolist() == [says(e, number) for e in elements]
            assert ours(number, x).tolist() == [says(number, e) for e in elements]
    with pytest.raises(ScalarRangeError, match="300 does not fit in uint8"):
        tp.ones((2,), dtype="uint8", device=device) + 300


_PARTS: dict[str, Callable[..., Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: tp.permute_dims(x, (2, 0, 1)),
    "backwards": lambda x: x[:, ::-1, 1::2],
    "an offset": lambda x: x[1:, 2:, :],
    "no axes": lambda x: x[0, 1, 2],
    "empty": lambda x: x[:, 0:0],
    "repeated": lambda x: tp.broadcast_to(x[0, 0, :1], (3, 4)),
}


@pytest.mark.parametrize("part", _PARTS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32"])
def test_views_move_between_devices_and_through_pickles(part: str, dtype: str) -> None:
    array = (np.arange(24).reshape(2, 3, 4) % 7).astype(dtype)
    take = _PARTS[part]
    here = take(tp.asarray(array.copy()))
    there = take(tp.asarray(array, device="vault:0"))
    moved = {
        "cpu": there.to("cpu"),
        "vault:0": here.to("vault:0"),
        "vault:1": there.to("vault:1"),
        "vault:0 ": there.to("vault:1").to("vault:0", non_blocking=True),
        "vault:0  ": pickle.loads(pickle.dumps(there)),
        "vault:0   ": copy.deepcopy(there),
    }
    for device, x in moved.items():
        assert (str(x.device), x.shape, x.dtype.name) == (device.strip(), here.shape, dtype)
        assert x.tolist() == here.tolist()
        assert not tp.shares_memory(x, there)


def test_float64_comes_by_way_of_float32() -> None:
    x = tp.asarray(np.array([1.5, 2.5])).to("vault", dtype="float32")
    assert (x.tolist(), x.dtype) == ([1.5, 2.5], "float32")


def test_creation() -> None:
    with tp.device("vault"):
        assert tp.zeros((2,)).device == "vault:0"
        assert tp.ones((2, 1), dtype="int8").tolist() == [[1], [1]]
        assert tp.full((2,), 7).tolist() == [7, 7]
        assert tp.full((), float("nan")).item() != 0
        assert tp.arange(5, 0, -2).tolist() == [5, 3, 1]
        assert tp.arange(0.0, 1.0, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
        assert tp.arange(2**63 - 2, 2**63 - 1).tolist() == [2**63 - 2]
        assert tp.arange(3, dtype="uint64").tolist() == [0, 1, 2]
        assert tp.empty((2, 3)).shape == (2, 3)
        assert tp.asarray([[True], [False]]).tolist() == [[True], [False]]
        with pytest.raises(ScalarRangeError, match="300"):
            tp.full((2,), 300, dtype="int8")
        with pytest.raises(ScalarRangeError):
            tp.arange(0, 500, dtype="uint8")
        with pytest.raises(DTypeError, match="nan"):
            tp.full((2,), float("nan"), dtype="int8")


def test_positions_are_checked_before_anything_runs() -> None:
    x = tp.asarray(A, device="vault")
    for bad in ([0, 3], [-4]):
        with pytest.raises(IndexingError, match=r"take: .* out of range; positions lie in -3\.\.2"):
            tp.take(x, tp.asarray(bad, device="vault"), axis=0)
    with pytest.raises(IndexingError, match="must be integers"):
        tp.take(x, tp.asarray([0.5], device="vault"), axis=0)
    with pytest.raises(IndexingError, match="pick: 4 is out of range"):
        tp.nn.cross_entropy(x, tp.asarray([0, 4, 1], device="vault"))
    with pytest.raises(ArgumentError, match="negative power"):
        tp.asarray([2], device="vault") ** tp.asarray([-1], device="vault")
    tp.synchronize("vault:0")  # nothing was left to fail later


def test_no_function_of_the_host_reaches_the_memory() -> None:
    x = tp.asarray(A, device="vault")
    buffer = __import__("tripoint.plugin").plugin.payload(x)
    for way in ("__array__", "__array_interface__", "__array_struct__", "__dlpack__", "__buffer__", "data"):
        assert not hasattr(buffer, way), way
    with pytest.raises(TypeError):
        memoryview(buffer)
    with pytest.raises(NoKernelError, match="to_numpy"):
        x.numpy()
    source = A.copy()
    made = tp.asarray(source, device="vault")
    source[:] = 0
    np.testing.assert_array_equal(made.to("cpu").numpy(), A)
    with pytest.raises(AliasError):
        tp.asarray(A).to("vault", copy=False)


def test_two_vaults_and_the_cpu_are_three_places() -> None:
    x, y, z = (tp.asarray(A, device=d) for d in ("vault:0", "vault:1", "cpu"))
    for other in (y, z):
        with pytest.raises(tp.errors.DeviceError, match=f"argument x1: vault:0, argument x2: {other.device}"):
            x + other
    moved = x.T.to("vault:1")
    assert moved.device == "vault:1"
    np.testing.assert_array_equal(moved.to("cpu").numpy(), A.T)
    assert y.to("vault:1") is y
    assert (x.to(y) + y).device == "vault:1"
    with pytest.raises(tp.errors.DeviceError, match="no vault:7; there are 2"):
        tp.zeros((1,), device="vault:7")
    w = tp.asarray(A).requires_grad_()
    (w.to("vault:0").to("vault:1") * 3).sum().backward()
    assert w.grad is not None
    assert w.grad.device == "cpu"
    assert (w.grad.numpy() == 3).all()
    assert tp.explain(tp.to, x, device="vault:1").resolution.steps[0][0].origin.function == "peer"


def test_astype_goes_to_another_device_and_its_gradient_comes_back() -> None:
    w = tp.asarray([1.0, 2.0, 3.0]).requires_grad_()
    y = tp.astype(w, "float16", device="vault")
    assert str(y.device) == "vault:0"
    assert y.dtype is tp.float16
    assert tp.astype(y, "float16", copy=False, device="vault") is y
    ((y * y).sum().to("cpu") + w.sum()).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3.0, 5.0, 7.0]
    assert str(w.grad.device) == "cpu"


def test_nothing_and_numbers_of_any_kind_are_as_elsewhere() -> None:
    with pytest.raises(ShapeError, match="of nothing"):
        tp.max(tp.zeros((0, 0), device="vault"), axis=0)
    assert tp.softmax(tp.asarray([True, False]).to("vault")).tolist() == pytest.approx([0.7310586, 0.2689414], rel=1e-6)
    assert tp.softmax(tp.zeros((2, 0), device="vault"), axis=1).shape == (2, 0)
    assert tp.logical_and(tp.ones((2,), device="vault"), 1j).tolist() == [True, True]
    assert tp.mean(tp.asarray([2**63 - 1] * 3).to("vault")).item() == 2.0**63
