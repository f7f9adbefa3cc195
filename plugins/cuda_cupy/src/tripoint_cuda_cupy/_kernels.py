"""Kernels over any array module of NumPy's kind: CuPy where there is a GPU, NumPy in the tests.

An array module is asked for nothing while the table is made, so that CuPy is imported when a kernel first runs. NumPy itself
is used for dtypes and for single numbers in the host's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tripoint.errors import AliasError, DTypeError, IndexingError, ScalarRangeError, shown
from tripoint.plugin import DType, Key, check
from tripoint_cuda_cupy._conv import Windows

Array = Any
Shape = tuple[int, ...]

#: operators that are one function of the array module, by its name there.
BINARY = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "true_divide",
    "floor_divide": "floor_divide",
    "remainder": "remainder",
    "maximum": "maximum",
    "minimum": "minimum",
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "less",
    "less_equal": "less_equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
}
UNARY = {
    "negative": "negative",
    "abs": "absolute",
    "sign": "sign",
    "square": "square",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "tanh": "tanh",
    "sin": "sin",
    "cos": "cos",
    "logical_not": "logical_not",
    "bitwise_invert": "invert",
    "isnan": "isnan",
    "isfinite": "isfinite",
    "isinf": "isinf",
}
INPLACE = ("add", "subtract", "multiply", "divide", "bitwise_and", "bitwise_or", "bitwise_xor")
#: operators whose kernels also take a Python number in place of any one tensor.
WITH_SCALARS = (
    *(name for name in BINARY if not name.startswith("logical")),  # a number becomes a bool first, 2**64 too
    *(f"{name}_" for name in INPLACE), "pow", "where", "assign", "assign_",
)  # fmt: skip


def dtype_of(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of a plain dtype.

    Raises:
        DTypeError: CuPy has no such dtype.
    """
    if dtype.name == "bfloat16":
        raise DTypeError("CuPy holds no bfloat16 tensors; name another dtype, or convert with .to(dtype=...) first")
    return np.dtype(dtype.name)


def _checked(x: Array, dtype: np.dtype[Any]) -> None:
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(
            f"converting {x.dtype} to {dtype} drops the imaginary parts; tripoint.abs(x) gives the magnitude"
        )


def number(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python number as a NumPy scalar; floats are rounded to integers toward 0.

    Raises:
        DTypeError: a complex number in a real dtype, or NaN or an infinity in an integer dtype.
        ScalarRangeError: an int that the dtype cannot hold.
    """
    if isinstance(value, complex) and dtype.kind not in "cb":
        raise DTypeError(f"{value!r} is no {dtype}; name a complex dtype")
    if isinstance(value, float) and dtype.kind in "iu":
        if value - value != 0:
            raise DTypeError(f"{value!r} is no {dtype}; name a floating dtype")
        value = int(value)
    try:
        with np.errstate(all="ignore"):
            return np.asarray(value, dtype)[()]
    except OverflowError:
        raise ScalarRangeError(
            f"the Python number {shown(value)} does not fit in {dtype}; name a wider dtype, or convert first"
        ) from None


#: sums of more terms than this that are added one by one are accumulated in 64 bits.
_LONG = 4096


def _half(x: Array) -> bool:
    return bool(x.dtype == np.float16)


def overlaps_itself(x: Array) -> bool:
    """Whether several elements are one place in memory, as in what broadcast_to gives; such arrays are not written."""
    return x.size > 0 and any(step == 0 and size > 1 for step, size in zip(x.strides, x.shape, strict=True))


def _into(x: Array) -> Array:
    if overlaps_itself(x):
        raise ValueError("read-only")  # the core words it, since describe says the same
    return x


def _apart(xp: Any, x1: Array, x2: Array) -> Array:
    """``x2`` to be written into ``x1``: a copy where some of its elements may be overwritten before they are read."""
    return x2.copy() if x2 is not x1 and xp.may_share_memory(x1, x2) else x2


def _positions(indices: Array, size: int, what: str, smallest: int) -> Array:
    if indices.dtype.kind not in "iu":
        raise IndexingError(f"{what}: positions must be integers, not {indices.dtype}")
    if indices.size:
        low, high = int(indices.min()), int(indices.max())  # waits for the device
        if low < smallest or high >= size:
            bad = low if low < smallest else high
            raise IndexingError(f"{what}: {bad} is out of range; positions lie in {smallest}..{size - 1}")
    return indices


class Kernels(Windows):
    """One method per operator; ``xp`` is the array module."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    # Creation and conversion

    def empty(self, *, shape: Shape, target: Key) -> Array:
        return self.xp.empty(shape, dtype_of(target.dtype))

    def zeros(self, *, shape: Shape, target: Key) -> Array:
        return self.xp.zeros(shape, dtype_of(target.dtype))

    def ones(self, *, shape: Shape, target: Key) -> Array:
        return self.xp.ones(shape, dtype_of(target.dtype))

    def full(self, *, shape: Shape, fill_value: Any, target: Key) -> Array:
        dtype = dtype_of(target.dtype)
        return self.xp.full(shape, number(fill_value, dtype), dtype)

    def ramp(self, *, start: Any, step: Any, count: int, target: Key) -> Array:
        dtype = dtype_of(target.dtype)
        if isinstance(start, int) and isinstance(step, int):
            ends = (start, start + (count - 1) * step if count else start)
            if dtype.kind in "iu" and count:
                for end in ends:
                    number(end, dtype)
            if dtype.kind == "u" or (min(ends) >= -(2**63) and max(ends) < 2**63):
                # In 64 bits, where what wraps on the way ends where it must.
                steps = self.xp.arange(count, dtype=np.uint64) * np.uint64(step % 2**64) + np.uint64(start % 2**64)
                return (steps if dtype.kind == "u" else steps.view(np.int64)).astype(dtype)
        return (self.xp.arange(count, dtype=np.float64) * step + start).astype(dtype)

    def from_data(self, *, data: Any, copy: bool | None, target: Key) -> Array:
        dtype = dtype_of(target.dtype)
        there = isinstance(data, self.xp.ndarray) or hasattr(data, "__cuda_array_interface__")
        if copy is False and not (there and data.dtype == dtype):
            raise AliasError(f"asarray: data in the host's memory on {target} needs a copy, and copy=False forbids it")
        if there:
            made = self.xp.asarray(data)
            _checked(made, dtype)
            return made.astype(dtype, copy=bool(copy))
        try:
            host = np.array(data, dtype) if isinstance(data, (list, tuple)) else np.asarray(data)
        except OverflowError as error:
            raise ScalarRangeError(f"asarray: {error}; name a wider dtype") from None
        except (ValueError, TypeError) as error:
            raise DTypeError(f"asarray: the data cannot be read as {target.dtype}: {error}") from None
        if host.ndim == 0 and isinstance(data, (bool, int, float, complex)):
            return self.xp.asarray(number(data, dtype))
        _checked(host, dtype)
        with np.errstate(all="ignore"):
            return self.xp.array(host.astype(dtype))

    def astype(self, x: Array, *, target: Key) -> Array:
        dtype = dtype_of(target.dtype)
        _checked(x, dtype)
        return x.astype(dtype)

    def copy(self, x: Array) -> Array:
        return self.xp.array(x, order="C")

    def to_list(self, x: Array) -> Any:
        return x.tolist()

    def to_text(self, x: Array) -> str:
        get = getattr(x, "get", None)
        host = get() if get is not None else x
        return np.array2string(host, separator=", ", threshold=1000, edgeitems=3)

    # Structure

    def reshape(self, x: Array, *, shape: Shape, copy: bool | None) -> Array:
        out = x.reshape(shape)
        if copy is None or not out.size:
            return out
        shared = self.xp.may_share_memory(out, x)
        if copy:
            return out.copy() if shared else out
        if not shared:
            strides = tuple(s // x.itemsize for s in x.strides)
            raise AliasError(
                f"reshape of shape {x.shape} with strides {strides} (in elements) to {shape} needs a copy, "
                "and copy=False forbids it"
            )
        return out

    def permute_dims(self, x: Array, *, axes: Shape) -> Array:
        return x.transpose(axes)

    def matrix_transpose(self, x: Array) -> Array:
        return x.swapaxes(-1, -2)

    def expand_dims(self, x: Array, *, axis: Shape) -> Array:
        return x[tuple([None if i in axis else slice(None) for i in range(x.ndim + len(axis))])]

    def squeeze(self, x: Array, *, axis: Shape) -> Array:
        return x[(*[0 if i in axis else slice(None) for i in range(x.ndim)], ...)]

    def broadcast_to(self, x: Array, *, shape: Shape) -> Array:
        return self.xp.broadcast_to(x, shape)

    def flip(self, x: Array, *, axis: Shape) -> Array:
        return x[(*[slice(None, None, -1) if i in axis else slice(None) for i in range(x.ndim)], ...)]

    def concat(self, arrays: Sequence[Array], *, axis: int) -> Array:
        return self.xp.concatenate(arrays, axis)

    def getitem(self, x: Array, *, key: tuple[Any, ...]) -> Array:
        return x[(*key, ...)]

    def getitem_back(self, g: Array, *, shape: Shape, key: tuple[Any, ...]) -> Array:
        out = self.xp.zeros(shape, g.dtype)
        out[key] = g
        return out

    def take(self, x: Array, indices: Array, *, axis: int) -> Array:
        return x.take(_positions(indices, x.shape[axis], f"take along axis {axis}", -x.shape[axis]), axis)

    def take_back(self, g: Array, indices: Array, *, shape: Shape, axis: int) -> Array:
        # `add.at` adds one by one: float32 stops counting at 2**24, half precision at 2**11.
        wide = np.dtype(np.complex128 if g.dtype.kind == "c" else np.float64) if g.dtype.kind in "fc" else g.dtype
        flat = indices.reshape(-1).astype(np.int64)
        often = flat.size > _LONG and int(self.xp.bincount(flat % shape[axis]).max()) > _LONG  # waits for the device
        out = self.xp.zeros(shape, wide if often or _half(g) else g.dtype)
        self.xp.add.at(out, (*([slice(None)] * axis), indices), g.astype(out.dtype, copy=False))
        return out.astype(g.dtype, copy=False)

    def assign(self, x1: Array, x2: Any) -> Array:
        out = self.xp.empty(x1.shape, x1.dtype)
        self.assign_(out, x2)
        return out

    def assign_(self, x1: Array, x2: Any) -> None:
        value = _apart(self.xp, x1, x2) if isinstance(x2, self.xp.ndarray) else number(x2, x1.dtype)
        self.xp.copyto(_into(x1), value, casting="unsafe")

    # Elementwise

    def pow(self, x1: Any, x2: Any) -> Array:
        if x2.__class__ is int and x1.dtype.kind in "fc" and x2 in (2, 3):
            return x1 * x1 if x2 == 2 else x1 * x1 * x1
        if _kind(x1) in "iu" and _kind(x2) == "i":
            check.exponent("pow", x2=x2 if not hasattr(x2, "min") else int(x2.min()) if x2.size else None)
        return self.xp.power(x1, x2)

    def multiply_back(self, g: Array, slope: Array) -> Array:
        return self.xp.where(g == 0, g.dtype.type(0), g * slope)

    def divide_back(self, g: Array, x: Array) -> Array:
        return self.xp.where(g == 0, g.dtype.type(0), self.xp.true_divide(g, x)).astype(g.dtype, copy=False)

    def where(self, condition: Array, x1: Any, x2: Any, *, target: Key) -> Array:
        dtype = dtype_of(target.dtype)
        chosen = [v.astype(dtype, copy=False) if isinstance(v, self.xp.ndarray) else number(v, dtype) for v in (x1, x2)]
        return self.xp.where(condition, *chosen)

    def relu(self, x: Array) -> Array:
        return self.xp.where(x <= 0, x.dtype.type(0), x)  # of -0.0 too; NaN stays

    def relu_back(self, g: Array, x: Array) -> Array:
        at_zero = self.xp.where(x == 0, g * g.dtype.type(0.5), g)
        return self.xp.where(x < 0, g.dtype.type(0), at_zero)

    # Reductions

    def _total(self, reduce: Callable[..., Array], x: Array, axis: Shape, keepdims: bool, target: Key) -> Array:
        dtype = dtype_of(target.dtype)
        _checked(x, dtype)
        if not axis:
            return x.astype(dtype)
        work = np.dtype(np.float32) if dtype == np.float16 else dtype
        return reduce(x, axis=axis, dtype=work, keepdims=keepdims).astype(dtype, copy=False)

    def sum(self, x: Array, *, axis: Shape, keepdims: bool, target: Key) -> Array:
        return self._total(self.xp.sum, x, axis, keepdims, target)

    def sum_leading(self, x: Array, *, shape: Shape, target: Key) -> Array:
        lead = x.ndim - len(shape)
        if x.shape[lead:] != shape:
            raise ValueError("shapes")  # the operator's shape rule words it
        return self.sum(x, axis=tuple(range(lead)), keepdims=False, target=target)

    def prod(self, x: Array, *, axis: Shape, keepdims: bool, target: Key) -> Array:
        return self._total(self.xp.prod, x, axis, keepdims, target)

    def max(self, x: Array, *, axis: Shape, keepdims: bool) -> Array:
        return self.xp.max(x, axis=axis, keepdims=keepdims) if axis else x.copy()

    def min(self, x: Array, *, axis: Shape, keepdims: bool) -> Array:
        return self.xp.min(x, axis=axis, keepdims=keepdims) if axis else x.copy()

    def all(self, x: Array, *, axis: Shape, keepdims: bool) -> Array:
        return self.xp.all(x, axis=axis, keepdims=keepdims) if axis else x != 0

    def any(self, x: Array, *, axis: Shape, keepdims: bool) -> Array:
        return self.xp.any(x, axis=axis, keepdims=keepdims) if axis else x != 0

    def _arg(self, x: Array, axis: int | None, keepdims: bool, largest: bool) -> Array:
        if axis is None:
            return self._arg(x.reshape(-1), 0, False, largest).reshape((1,) * x.ndim if keepdims else ())
        out = x.argmax(axis) if largest else x.argmin(axis)
        if x.dtype.kind == "f":
            # The first NaN wins, which reductions in parallel do not promise.
            nan = x != x
            out = self.xp.where(nan.any(axis), nan.argmax(axis), out)
        out = self.xp.asarray(out, dtype=np.int64)
        return out.reshape((*x.shape[:axis], 1, *x.shape[axis + 1 :])) if keepdims else out

    def argmax(self, x: Array, *, axis: int | None, keepdims: bool) -> Array:
        return self._arg(x, axis, keepdims, True)

    def argmin(self, x: Array, *, axis: int | None, keepdims: bool) -> Array:
        return self._arg(x, axis, keepdims, False)

    # Products and networks

    def matmul(self, x1: Array, x2: Array) -> Array:
        if _half(x1):
            return self.xp.matmul(x1.astype(np.float32), x2.astype(np.float32)).astype(x1.dtype)
        return self.xp.matmul(x1, x2)

    def _shifted(self, x: Array, axis: int) -> Array:
        return x - self.xp.max(x, axis=axis, keepdims=True) if x.size else x.copy()

    def softmax(self, x: Array, *, axis: int) -> Array:
        work = x.astype(np.float32) if _half(x) else x
        e = self.xp.exp(self._shifted(work, axis))
        return (e / self.xp.sum(e, axis=axis, keepdims=True)).astype(x.dtype, copy=False)

    def log_softmax(self, x: Array, *, axis: int) -> Array:
        work = x.astype(np.float32) if _half(x) else x
        shifted = self._shifted(work, axis)
        total = self.xp.sum(self.xp.exp(shifted), axis=axis, keepdims=True)
        return (shifted - self.xp.log(total)).astype(x.dtype, copy=False)

    def pick(self, x: Array, labels: Array) -> Array:
        return x[self.xp.arange(x.shape[0]), _positions(labels, x.shape[1], "labels", 0)]

    def pick_back(self, g: Array, labels: Array, *, classes: int) -> Array:
        out = self.xp.zeros((g.shape[0], classes), g.dtype)
        out[self.xp.arange(g.shape[0]), _positions(labels, classes, "labels", 0)] = g
        return out

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        if logits.ndim != 2 or labels.shape != logits.shape[:1]:
            raise ValueError("shapes")  # the operator's shape rule words it
        work = logits.astype(np.float32) if _half(logits) else logits
        return self.nll_loss(self.log_softmax(work, axis=1), labels).astype(logits.dtype)

    def nll_loss(self, x: Array, labels: Array) -> Array:
        chosen = self.pick(x, labels)
        if not chosen.size:
            return self.xp.full((), np.nan, x.dtype)
        work = chosen.astype(np.float32) if _half(x) else chosen
        return self.xp.asarray(self.xp.sum(work) / -chosen.size).astype(x.dtype)

    def nll_loss_back(self, g: Array, labels: Array, *, shape: Shape) -> Array:
        out = self.xp.zeros(shape, g.dtype)
        if shape[0]:
            at = _positions(labels, shape[1], "labels", 0)
            out[self.xp.arange(shape[0]), at] = g / g.dtype.type(-shape[0])
        return out

    def log_softmax_back(self, g: Array, out: Array, *, axis: int) -> Array:
        if _half(g):
            return self.log_softmax_back(g.astype(np.float32), out.astype(np.float32), axis=axis).astype(g.dtype)
        return g - self.xp.exp(out) * self.xp.sum(g, axis=axis, keepdims=True)

    def matmul_nt(self, x1: Array, x2: Array) -> Array:
        return self.matmul(x1, x2.swapaxes(-1, -2))

    def matmul_tn(self, x1: Array, x2: Array) -> Array:
        return self.matmul(x1.swapaxes(-1, -2), x2)


def _kind(value: Any) -> str:
    return np.asarray(value).dtype.kind if isinstance(value, (bool, int, float, complex)) else str(value.dtype.kind)


def _named(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    fn.__name__ = name
    return fn


def _binary(xp: Any, name: str) -> Callable[..., Any]:
    return _named(name, lambda x1, x2: getattr(xp, BINARY[name])(x1, x2))


def _unary(xp: Any, name: str) -> Callable[..., Any]:
    return _named(name, lambda x: getattr(xp, UNARY[name])(x))


def _inplace(xp: Any, name: str) -> Callable[..., Any]:
    def write(x1: Array, x2: Any) -> None:
        value = _apart(xp, x1, x2) if isinstance(x2, xp.ndarray) else x2
        getattr(xp, BINARY[name])(x1, value, out=_into(x1), casting="same_kind")

    return _named(f"{name}_", write)


def table(xp: Any) -> dict[str, Callable[..., Any]]:
    """The kernel of every operator, by its name, over the array module ``xp``."""
    made: dict[str, Callable[..., Any]] = {}
    made.update({name: _binary(xp, name) for name in BINARY})
    made.update({name: _unary(xp, name) for name in UNARY})
    made.update({f"{name}_": _inplace(xp, name) for name in INPLACE})
    kernels = Kernels(xp)
    for cls in (Kernels, Windows):
        made.update({name: getattr(kernels, name) for name in vars(cls) if not name.startswith("_") and name != "xp"})
    return made
