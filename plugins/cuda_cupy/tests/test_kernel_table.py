"""The kernel table with NumPy as the array module, on a device of its own, against the dense CPU backend.

These are the functions that run over CuPy where there is a GPU. That they compute the right thing is shown here; that CuPy's
functions do what NumPy's of the same name do is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import (
    AliasError,
    ArgumentError,
    DeviceError,
    DTypeError,
    IndexingError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    TripointError,
)
from tripoint.plugin import Backend, register, resolve
from tripoint_cuda_cupy import _conv, _kernels

_table = _kernels.table(np)


@pytest.fixture(autouse=True)
def tabled(on_numpy: Callable[..., Backend]) -> None:
    try:
        tp.plugins.find_device("tabled")
    except DeviceError:  # other tests take back what the running program has registered
        register(on_numpy("tabled"))


FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "int32", "int64", "uint8", "uint64"]
COMPLEX = ["complex64", "complex128"]
ALL = ["bool", *INTS, *FLOATS, *COMPLEX]


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    random = np.random.default_rng((seed, *shape))
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype in INTS:
        return random.integers(0 if dtype[0] == "u" else -9, 10, shape).astype(dtype)
    made = np.round(random.standard_normal(shape) * 4) / 2  # ties and zeros among them
    return (made + 1j * random.standard_normal(shape) if dtype in COMPLEX else made).astype(dtype)


def special(dtype: str) -> Any:
    return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, np.nan, 3.0], dtype)


def equal(got: Any, want: Any, device: str = "tabled") -> None:
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            equal(g, w, device)
    elif isinstance(want, tp.Tensor):
        assert (str(got.device), got.dtype, got.shape) == (device, want.dtype, want.shape)
        g, w = got.detach().to("cpu").numpy(), want.detach().numpy()
        rough = 2e-3 if want.dtype is tp.float16 else 1e-5
        np.testing.assert_allclose(g, w, rtol=rough, atol=rough if want.dtype.gradient else 0, equal_nan=True)
    else:
        assert got == want


def outcome(program: Callable[[], Any]) -> Any:
    try:
        return program()
    except TripointError as error:
        return type(error)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # CuPy gives none
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def both(program: Callable[..., Any], *arrays: Any) -> None:
    """A program of tensors on both devices: the same values, or the same class of error."""
    with np.errstate(all="ignore"):
        got = outcome(lambda: program(*[tp.asarray(a).to("tabled") for a in arrays]))
        want = outcome(lambda: program(*map(tp.asarray, arrays)))  # last: it may write into the arrays themselves
    equal(got, want)


def test_the_table_has_what_the_dense_backend_has() -> None:
    from tripoint.schema import rows

    missing = []
    for name in rows:
        if name in _table:
            continue
        args = [tp.ones((2, 2))] * 3
        try:
            label = resolve(rows[name].call, *args[: len(rows[name].operands)]).label()
        except Exception:
            continue
        if label.startswith("tripoint-dense-cpu:") and not name.endswith("_"):
            missing.append(name)
    assert missing == ["to_numpy"], "x.numpy() of a tensor elsewhere is an error that says so"


@pytest.mark.parametrize("name", sorted([*_kernels.BINARY, "pow"]))
@pytest.mark.parametrize("dtype", ALL)
def test_binary_operators(name: str, dtype: str) -> None:
    operator = getattr(tp, name)
    x, y = values((3, 4), dtype), values((4,), dtype, 1)
    if name in ("floor_divide", "remainder") and dtype in INTS:
        y = np.where(y == 0, y + 1, y).astype(dtype)
    if name == "pow" and dtype in INTS:
        y = np.abs(y)
    both(operator, x, y)
    both(operator, x[:, :0], y[:0])
    both(operator, x[::-1, ::2], y[::-2])
    both(lambda a: operator(a, 2), x)
    both(lambda a: operator(3, a), np.abs(x) if dtype not in ("bool", *COMPLEX) else x)
    both(lambda a: operator(a, 2.5), x)
    both(lambda a: operator(a, True), x)
    if dtype in FLOATS:
        both(operator, special(dtype)[:, None], special(dtype))
        both(lambda a: operator(a, float("nan")), special(dtype))


@pytest.mark.parametrize("name", sorted(_kernels.UNARY))
@pytest.mark.parametrize("dtype", ALL)
def test_unary_operators(name: str, dtype: str) -> None:
    for x in (values((3, 4), dtype), values((3, 0), dtype), values((), dtype)):
        both(getattr(tp, name), x)
    if dtype in FLOATS:
        both(getattr(tp, name), special(dtype))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64"])
def test_operators_in_place(name: str, dtype: str) -> None:
    from tripoint.schema import rows

    operator = rows[f"{name}_"].call

    def with_view(x: tp.Tensor, y: tp.Tensor) -> Any:
        part = x[1:, ::2]
        operator(part, y)
        return x, part

    both(with_view, values((3, 4), dtype), values((2,), dtype, 1))
    both(lambda x: (operator(x, 2), x)[1], values((3, 4), dtype))
    both(lambda x: (operator(x, x[:, :1]), x)[1], values((2, 2), dtype))  # both read and written


STRUCTURE: list[Callable[[tp.Tensor], Any]] = [
    lambda x: x.reshape(4, 3),
    lambda x: x.permute_dims((1, 0)).reshape(-1),
    lambda x: x.reshape(2, 6, copy=True),
    lambda x: x.reshape(2, 6, copy=False),
    lambda x: x.permute_dims((1, 0)).reshape(12, copy=False),
    lambda x: x.T,
    lambda x: x.mT,
    lambda x: tp.expand_dims(x, axis=(0, 2)),
    lambda x: tp.squeeze(x[:1], 0),
    lambda x: tp.broadcast_to(x[:, :1], (2, 3, 4)),
    lambda x: tp.flip(x),
    lambda x: tp.flip(x, axis=1),
    lambda x: tp.concat([x, x[:1], x[:0]]),
    lambda x: tp.stack([x, x], axis=1),
    lambda x: [x[0], x[-1, 1], x[..., None, 0], x[::-2, 1:3], x[2:1]],
    lambda x: tp.take(x, tp.asarray([2, 0, -1], device=x.device), axis=1),
    lambda x: tp.take(x, tp.asarray([4], device=x.device), axis=1),
    lambda x: tp.take(x, tp.asarray([0.5], device=x.device), axis=1),
    lambda x: tp.where(x == x[0], x, 0),
    lambda x: tp.where(x != x, 1.5, x),
    lambda x: x.copy(),
    lambda x: [x.tolist(), x[1, 2].item(), x.shape, x.strides, x.T.strides, repr(x).replace(", device=tabled", "")],
    lambda x: [x.astype(d) for d in ("bool", "float32", "complex128", "int16")],
    lambda x: x.astype("int16") if x.dtype in (tp.complex64, tp.complex128) else x,
]


@pytest.mark.parametrize("at", range(len(STRUCTURE)))
@pytest.mark.parametrize("dtype", ALL)
def test_structure(at: int, dtype: str) -> None:
    both(STRUCTURE[at], values((3, 4), dtype))


@pytest.mark.parametrize("dtype", ALL)
def test_writing_parts(dtype: str) -> None:
    def write(x: tp.Tensor) -> tp.Tensor:
        x[0] = 1
        x[:, 1] = x[:, 2].copy()
        x[1:, ::2] = x[0, 0]
        x[2, 3] = True
        return x

    both(write, values((3, 4), dtype))


@pytest.mark.parametrize("dtype", ALL)
def test_writing_what_overlaps(dtype: str) -> None:
    def write(x: tp.Tensor) -> tp.Tensor:
        x[::2] = x[:4]
        x[1:] = x[:-1]
        part = x[:-1]
        part[::-1] = part
        part += x[1:]
        return x

    both(write, values((8,), dtype))


def test_relu_of_negative_zero_is_zero() -> None:
    for dtype in FLOATS:
        out = tp.nn.relu(tp.full((33,), -0.0, dtype=dtype, device="tabled")).to("cpu")
        assert not np.signbit(out.numpy()).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_a_position_named_often_do_not_stall(dtype: str) -> None:
    n = 2**15 if dtype == "float16" else 2**24 + 2**17
    x = tp.ones((2,), dtype=dtype, device="tabled").requires_grad_()
    tp.sum(tp.take(x, tp.full((n,), -1, device="tabled"), axis=0) * 1.0).backward()
    assert x.grad is not None
    assert x.grad.to("cpu").tolist() == [0, n]


@pytest.mark.parametrize("sizes", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)])
@pytest.mark.parametrize("outputs", [0, 2])
def test_convolution_with_nothing_in_it(sizes: tuple[int, ...], outputs: int) -> None:
    def program(x: tp.Tensor, w: tp.Tensor, b: tp.Tensor) -> Any:
        leaves = [t.requires_grad_() for t in (x, w, b)]
        out = tp.nn.conv2d(*leaves, padding=2)
        tp.sum(out).backward()
        return [out, *[t.grad for t in leaves]]

    both(program, values(sizes, "float32"), values((outputs, sizes[1], 3, 1), "float32"), values((outputs,), "float32"))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "mean"])
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name: str, dtype: str, keepdims: bool) -> None:
    reduce = getattr(tp, name)
    for axis in (None, (), 0, -1, (0, 2)):
        for shape in ((2, 3, 4), (2, 0, 4), (0, 3, 4)):
            both(lambda x, axis=axis: reduce(x, axis=axis, keepdims=keepdims), values(shape, dtype))
    both(lambda x: reduce(x), values((), dtype))
    if dtype in FLOATS:
        both(lambda x: reduce(x, axis=0), np.stack([special(dtype), values((9,), dtype)]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_over_leading_axes(dtype: str) -> None:
    from tripoint.schema import rows

    for shape in ((2, 3), (2, 0), (2, 3, 4)):
        both(lambda x, s=shape: rows["sum_leading"].call(x, shape=s[1:]), values(shape, dtype))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS])
def test_positions_of_extremes(name: str, dtype: str) -> None:
    search = getattr(tp, name)
    for axis in (None, 0, 1):
        for keepdims in (False, True):
            both(lambda x, axis=axis, k=keepdims: search(x, axis=axis, keepdims=k), values((3, 4), dtype))
            both(lambda x, axis=axis, k=keepdims: search(x, axis=axis, keepdims=k), values((0, 4), dtype))
    if dtype in FLOATS:
        both(search, special(dtype))
        both(lambda x: search(x, axis=1), np.stack([special(dtype)[::-1], special(dtype)]))


def test_the_sum_of_halves_is_accumulated_in_single_precision() -> None:
    ones = tp.ones((5000,), dtype=tp.float16, device="tabled")
    assert tp.sum(ones).item() == 5000
    assert (tp.ones((1, 5000), dtype=tp.float16, device="tabled") @ ones.reshape(5000, 1)).item() == 5000


def test_creation() -> None:
    for made in (
        lambda d: tp.zeros((2, 3), device=d),
        lambda d: tp.ones((), dtype=tp.int8, device=d),
        lambda d: tp.full((2,), 7, device=d),
        lambda d: tp.full((2,), 300, dtype=tp.uint8, device=d),
        lambda d: tp.full((2,), float("nan"), dtype=tp.int8, device=d),
        lambda d: tp.arange(2, 11, 3, device=d),
        lambda d: tp.arange(0.0, 1.0, 0.25, device=d),
        lambda d: tp.arange(2**64 - 3, 2**64, dtype=tp.uint64, device=d),
        lambda d: tp.arange(0, 300, dtype=tp.uint8, device=d),
        lambda d: tp.asarray([[1, 2], [3, 4]], device=d),
        lambda d: tp.asarray(2.5, device=d),
        lambda d: tp.asarray(True, device=d),
        lambda d: tp.asarray([1, 300], dtype=tp.int8, device=d),
        lambda d: tp.asarray([1j], dtype=tp.float32, device=d),
        lambda d: tp.asarray(np.arange(6).reshape(2, 3).T, device=d),
        lambda d: tp.asarray([], device=d),
    ):
        equal(outcome(lambda m=made: m("tabled")), outcome(lambda m=made: m("cpu")))
    assert tp.empty((2, 3), device="tabled").shape == (2, 3)
    with pytest.raises(DTypeError, match="bfloat16"):
        tp.zeros((2,), dtype=tp.bfloat16, device="tabled")


PRODUCTS = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((5, 1, 3, 4), (2, 4, 5)),
    ((3, 0), (0, 5)),
    ((3, 4), (4,)),
]


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX])
def test_products(dtype: str) -> None:
    for first, second in PRODUCTS:
        both(tp.matmul, values(first, dtype), values(second, dtype, 1))
    both(tp.matmul, values((3, 4), dtype), values((3, 4), dtype))


def test_linear_layers_and_losses_with_their_gradients() -> None:
    def program(dtype: str) -> Callable[..., Any]:
        def run(x: tp.Tensor, w: tp.Tensor, b: tp.Tensor, labels: tp.Tensor) -> Any:
            leaves = [t.requires_grad_() for t in (x, w, b)]
            scores = tp.nn.linear(tp.tanh(x), w, b)
            loss = tp.nn.cross_entropy(scores, labels)
            other = tp.sum(tp.nn.log_softmax(scores, axis=0) * tp.softmax(scores, axis=1))
            (loss + other).backward()
            return [loss, other, *[t.grad for t in leaves]]

        return run

    for dtype in ("float32", "float64"):
        arrays = [values(s, dtype, i) for i, s in enumerate([(6, 4), (5, 4), (5,)])]
        both(program(dtype), *arrays, np.array([0, 4, 2, 2, 1, 3]))
        both(program(dtype), *arrays, np.array([0, 5, 2, 2, 1, 3]))
        both(program(dtype), *arrays, np.array([0, 1]))
        both(program(dtype), arrays[0][:0], *arrays[1:], np.zeros((0,), np.int64))


@pytest.mark.parametrize("dtype", ["int32", *FLOATS])
@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(
    "meta", [{}, {"padding": 1}, {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}, {"stride": 3, "padding": 2}]
)
def test_convolution_with_its_gradients(
    dtype: str, chunk: int, groups: int, meta: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_conv, "_BLOCK_BYTES", chunk)

    def program(x: tp.Tensor, w: tp.Tensor, b: tp.Tensor) -> Any:
        if dtype == "int32":
            return tp.nn.conv2d(x, w, b, groups=groups, **meta)
        leaves = [t.requires_grad_() for t in (x, w, b)]
        out = tp.nn.conv2d(*leaves, groups=groups, **meta)
        first = tp.gradients(tp.sum(tp.square(out)) * 0.01, leaves, create_graph=dtype == "float64")
        if dtype != "float64":
            return [out, *first]
        sum(tp.sum(tp.square(g)) for g in first if g is not None).backward()
        return [out, *first, *[t.grad for t in leaves]]

    both(program, values((2, 6, 7, 6), dtype), values((9, 6 // groups, 3, 2), dtype, 1), values((9,), dtype, 2))
    both(program, values((0, 6, 7, 6), dtype), values((9, 6 // groups, 3, 2), dtype, 1), values((9,), dtype, 2))
    both(program, values((2, 5, 7, 6), dtype), values((9, 6 // groups, 3, 2), dtype, 1), values((9,), dtype, 2))


@pytest.mark.parametrize("dtype", ["int32", *FLOATS])
@pytest.mark.parametrize(
    "meta", [{"kernel_size": 2}, {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}, {"kernel_size": 9}]
)
def test_relu_and_pooling_with_their_gradients(dtype: str, meta: dict[str, Any]) -> None:
    def program(x: tp.Tensor) -> Any:
        if dtype == "int32":
            return tp.nn.max_pool2d(tp.nn.relu(x), **meta)
        x.requires_grad_()
        out = tp.nn.max_pool2d(tp.nn.relu(x), **meta) + tp.nn.max_pool2d(x, **meta)
        (g,) = tp.gradients(tp.sum(tp.square(out)) * 0.5, [x], create_graph=True)
        assert g is not None
        tp.sum(tp.square(g)).backward()
        return [out, g, x.grad]

    x = values((2, 3, 6, 5), dtype)
    both(program, x)
    if dtype != "int32":
        x[0, 0, :2, :2] = np.nan
        x[1, 1] = -np.inf
        both(program, x)


GRADIENTS: list[Callable[[tp.Tensor], tp.Tensor]] = [
    lambda x: x[1:, ::2] * 2,
    lambda x: tp.take(x, tp.asarray([1, 1, 0], device=x.device), axis=1),
    lambda x: tp.where(x > 0, tp.log(x), 0.0),
    lambda x: tp.maximum(x, 0.0) + tp.abs(x) / (x * x + 1),
    lambda x: tp.max(x, axis=0) + tp.prod(x, axis=0),
    lambda x: tp.concat([x.T, tp.flip(x.T)]) ** 3,
    lambda x: tp.sqrt(tp.square(x)) * 2**x,
]


@pytest.mark.parametrize("at", range(len(GRADIENTS)))
def test_gradients(at: int) -> None:
    def program(x: tp.Tensor) -> Any:
        x.requires_grad_()
        out = GRADIENTS[at](x)
        tp.sum(out * out).backward()
        return [out, x.grad]

    both(program, values((3, 4), "float64"))


def test_what_is_refused() -> None:
    x = tp.ones((3, 4), device="tabled")
    wide = tp.broadcast_to(x, (2, 3, 4))
    assert wide.readonly
    for write in (lambda: wide.__iadd__(1), lambda: wide.__setitem__(..., 1.0), lambda: wide.__imul__(wide)):
        with pytest.raises(ReadOnlyError):
            write()
    assert x.tolist() == [[1.0] * 4] * 3
    with pytest.raises(AliasError):
        tp.asarray([1.0], device="tabled", copy=False)
    with pytest.raises(AliasError):
        x.T.reshape(12, copy=False)
    with pytest.raises(ShapeError):
        x + tp.ones((3,), device="tabled")
    with pytest.raises(ArgumentError, match="negative power"):
        tp.asarray([2], device="tabled") ** -1
    with pytest.raises(ArgumentError, match="negative power"):
        tp.asarray([2], device="tabled") ** tp.asarray([-1], device="tabled")
    with pytest.raises(IndexingError):
        tp.take(x, tp.asarray([7], device="tabled"), axis=0)
    with pytest.raises(ScalarRangeError):
        tp.zeros((2,), dtype=tp.int8, device="tabled").__setitem__(0, 1000)
