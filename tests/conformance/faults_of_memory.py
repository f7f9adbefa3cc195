"""Backends that keep memory wrong: offsets, overlap, aliases, results that change, many axes; and what they do not refuse."""

from __future__ import annotations

import threading
import warnings
from functools import wraps
from typing import Any

import numpy as np
from faults import Fault, _as_it_lies, say
from faults_of_numbers import fault, slope
from toys import describe

from tripoint.plugin import operators


def _nothing_of_many(right: Any) -> Any:
    """Zeros where there are more than four axes."""

    @wraps(right)
    def kernel(*operands: Any, **meta: Any) -> Any:
        out = right(*operands, **meta)
        first = operands[0][0] if isinstance(operands[0], (list, tuple)) else operands[0]
        return np.zeros_like(out) if max(out.ndim, getattr(first, "ndim", 0)) > 4 else out

    return kernel


def _few_axes(right: Any) -> Any:
    def permute_dims(x: Any, *, axes: Any) -> Any:
        return right(x, axes=axes if x.ndim < 5 else tuple(range(x.ndim)))

    return permute_dims


def _few_read(right: Any) -> Any:
    return lambda x, *, key: right(x[::-1] if x.ndim > 4 else x, key=key)


def _middle(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        arrays = isinstance(x1, np.ndarray) and isinstance(x2, np.ndarray)
        turned = arrays and x1.ndim == x2.ndim == 3 and x2.shape[1] == 1 != x1.shape[1]
        return right(x1, np.flip(x2, 0) if turned else x2)

    return add


def _column_condition(right: Any) -> Any:
    def where(c: Any, x1: Any, x2: Any, *, target: Any) -> Any:
        return right(~c if c.ndim == 2 and c.shape[1] == 1 < c.shape[0] else c, x1, x2, target=target)

    return where


def _column_added(right: Any) -> Any:
    def add_(x1: Any, x2: Any) -> None:
        column = isinstance(x2, np.ndarray) and x2.ndim == 2 and x2.shape[1] == 1 < x1.shape[1]
        right(x1, x2[:1] if column else x2)

    return add_


def _from_the_start(x: Any) -> Any:
    """A contiguous view as if it began where its memory begins."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    behind = x.flags.c_contiguous and base.dtype == x.dtype and base.flags.c_contiguous and base.size > x.size
    return base.reshape(-1)[: x.size].reshape(x.shape) if behind else x


def _without_offset(right: Any) -> Any:
    return wraps(right)(lambda x, *more, **meta: right(_from_the_start(x), *more, **meta))


def _one_by_one(right: Any) -> Any:
    def add_(x1: Any, x2: Any) -> None:
        if not x1.flags.writeable:
            raise ValueError("read-only")
        if not isinstance(x2, np.ndarray) or x1.ndim != 1 or x1.shape != x2.shape:
            return right(x1, x2)
        for i in range(x1.size):
            x1[i] = x1[i] + x2[i]

    return add_


def _uses_up(right: Any) -> Any:
    def add_(x1: Any, x2: Any) -> None:
        right(x1, x2)
        if isinstance(x2, np.ndarray) and x2.flags.writeable and x2.shape == x1.shape:
            x2[...] = 0

    return add_


def _shifts(right: Any) -> Any:
    def softmax(x: Any, *, axis: int) -> Any:
        out = right(x, axis=axis)
        if x.size and x.flags.writeable and x.dtype.kind == "f":
            x -= x.max()
        return out

    return softmax


def _sorts(right: Any) -> Any:
    def take(x: Any, indices: Any, *, axis: int) -> Any:
        out = right(x, indices, axis=axis)
        if indices.ndim:
            indices.sort()
        return out

    return take


def _itself(when: Any) -> Any:
    """The operand in place of a result that equals it."""

    def make(right: Any) -> Any:
        @wraps(right)
        def kernel(*operands: Any, **meta: Any) -> Any:
            return operands[0] if when(*operands, **meta) else right(*operands, **meta)

        return kernel

    return make


def _number(value: int) -> Any:
    return lambda x1, x2: isinstance(x1, np.ndarray) and isinstance(x2, (int, float)) and x2 == value


def _view_of_positions(right: Any) -> Any:
    def take(x: Any, indices: Any, *, axis: int) -> Any:
        run = indices.ndim == 1 and indices.size > 1 and indices[0] >= 0 and (np.diff(indices) == 1).all()
        if not run or indices[-1] >= x.shape[axis]:
            return right(x, indices, axis=axis)
        return x[(*[slice(None)] * axis, slice(indices[0], indices[-1] + 1))]

    return take


def _one_buffer(right: Any) -> Any:
    """Results in memory that the next result of the same shape is written into."""
    kept: dict[Any, Any] = {}

    def kernel(*operands: Any) -> Any:
        out = np.asarray(right(*operands))
        if not out.ndim:
            return out
        buffer = kept.setdefault((out.shape, out.dtype), np.empty_like(out))
        buffer[...] = out
        return buffer

    return kernel


def _remembered(right: Any) -> Any:
    """What was computed of this payload once, whatever was written into it since."""
    kept: dict[int, Any] = {}

    def exp(x: Any) -> Any:
        if id(x) not in kept:
            kept[id(x)] = x, right(x)
        return kept[id(x)][1].copy()

    return exp


def _packed(right: Any) -> Any:
    kept: dict[int, Any] = {}
    return lambda x1, x2: right(x1, kept.setdefault(id(x2), (x2, x2.copy()))[1])


def _copies(right: Any) -> Any:
    return wraps(right)(lambda x, **meta: np.array(right(x, **meta)))


def _by_columns(right: Any) -> Any:
    def reshape(x: Any, *, shape: Any, copy: Any) -> Any:
        return (
            np.reshape(x, shape, order="F").copy() if x.ndim > 1 and copy is None else right(x, shape=shape, copy=copy)
        )

    return reshape


def _in_memory_order(right: Any) -> Any:
    def argmax(x: Any, *, axis: Any, keepdims: bool) -> Any:
        return right(_as_it_lies(x) if axis is None else x, axis=axis, keepdims=keepdims)

    return argmax


def _once(right: Any) -> Any:
    def take_back(g: Any, indices: Any, *, shape: Any, axis: int) -> Any:
        out = np.zeros(shape, g.dtype)
        out[(*[slice(None)] * axis, indices)] = g
        return out

    return take_back


def _four(right: Any) -> Any:
    return lambda arrays, *, axis: right([*arrays[:4], *map(np.zeros_like, arrays[4:])], axis=axis)


def _eight_channels(right: Any) -> Any:
    def conv2d(x: Any, weight: Any, bias: Any, *, groups: int, **meta: Any) -> Any:
        return (
            right(x[:, :8], weight[:, :8], bias, groups=groups, **meta)
            if groups == 1
            else right(x, weight, bias, groups=groups, **meta)
        )

    return conv2d


def _bytes(x: Any) -> Any:
    return {**describe(x), "strides": x.strides}


def _elements(x: Any) -> Any:
    return {**describe(x), "nbytes": x.size}


def _cycled(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        arrays = isinstance(x1, np.ndarray) and isinstance(x2, np.ndarray) and x1.ndim == x2.ndim == 1
        return right(x1, np.resize(x2, x1.shape) if arrays and 1 not in (x1.size, x2.size) else x2)

    return add


def _cut(right: Any) -> Any:
    return lambda x1, x2: right(x1[..., : x2.shape[0]], x2) if x1.ndim == x2.ndim == 2 else right(x1, x2)


def _wrapping(right: Any) -> Any:
    return lambda x, indices, *, axis: np.take(x, indices, axis, mode="wrap")


def _warns(right: Any) -> Any:
    def log(x: Any) -> Any:
        out = right(x)
        if np.isneginf(out).any():
            warnings.warn("divide by zero", RuntimeWarning, stacklevel=2)
        return out

    return log


def _main_thread(right: Any) -> Any:
    def exp(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("no context in this thread")
        return right(x)

    return exp


def _into_its_gradient(g: Any, out: Any) -> Any:
    operators()["multiply_"](g, 1 - out.detach() * out.detach())
    return g


MEMORY = [
    # many axes, axes of size 1
    *[
        fault(f"more than four axes of {name}", tier, name, _nothing_of_many)
        for name, tier in (("add", 1), ("exp", 1), ("sum", 2), ("concat", 2), ("take", 2))
    ],
    fault("more than four axes permuted", 2, "permute_dims", _few_axes),
    fault("more than four axes read", 2, "getitem", _few_read),
    fault("a middle axis of size 1", 1, "add", _middle),
    fault("condition in a column", 1, "where", _column_condition),
    fault("column added in place", 2, "add_", _column_added),
    # where elements lie
    *[
        fault(f"offset ignored by {name}", t, name, _without_offset)
        for name, t in (("exp", 2), ("sum", 2), ("matmul", 3))
    ],
    fault("parts that overlap, one by one", 2, "add_", _one_by_one),
    fault("argmax in the order of memory", 2, "argmax", _in_memory_order),
    fault("reshape by columns", 2, "reshape", _by_columns),
    *[fault(f"copying {name}", 2, name, _copies) for name in ("flip", "permute_dims", "expand_dims", "squeeze")],
    Fault("strides in bytes", 2, "memory", say(describe=_bytes)),
    Fault("sizes in elements", 2, "memory", say(describe=_elements)),
    # operands that change, results that do
    fault("second operand used up", 2, "add_", _uses_up),
    fault("softmax shifts its operand", 3, "softmax", _shifts),
    fault("positions sorted in place", 2, "take", _sorts),
    *[
        fault(f"{name} with {value} is itself", 1, name, _itself(_number(value)))
        for name, value in (("add", 0), ("multiply", 1), ("pow", 1))
    ],
    fault("size of unsigned is itself", 1, "abs", _itself(lambda x: x.dtype.kind == "u")),
    fault("largest over no axis is itself", 2, "max", _itself(lambda x, *, axis, keepdims: not axis)),
    fault("positions in a row are a view", 2, "take", _view_of_positions),
    fault("results in one buffer", 2, "exp", _one_buffer),
    fault("products in one buffer", 3, "matmul", _one_buffer),
    fault("remembered by payload", 2, "exp", _remembered),
    fault("packed weights kept", 3, "matmul", _packed),
    # sizes
    fault("given back once", 2, "take_back", _once),
    fault("five arrays joined", 2, "concat", _four),
    fault("more than eight channels", 3, "conv2d", _eight_channels),
    # what must be refused
    fault("sizes made to fit", 1, "add", _cycled),
    fault("inner sizes cut", 3, "matmul", _cut),
    fault("positions wrap around", 2, "take", _wrapping),
    # warnings, threads, gradients
    fault("warns", 1, "log", _warns),
    fault("main thread alone", 5, "exp", _main_thread),
    slope("slope written into its gradient", "tanh", x=_into_its_gradient),
]
