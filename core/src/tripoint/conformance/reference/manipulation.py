"""Operators that move elements and leave them as they are, creation and indexing included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tripoint.conformance.reference import values as v
from tripoint.conformance.reference.values import Array, Shape, axes_of, made, normal


def reshape(x: Array, shape: Any, copy: bool | None = None) -> Array:
    """Another shape; one size may be -1."""
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if -1 in sizes:
        sizes[sizes.index(-1)] = math.prod(x.shape) // max(1, -math.prod(sizes))
    return Array(x.dtype, tuple(sizes), x.data)


def permute_dims(x: Array, axes: Sequence[int]) -> Array:
    """Axes reordered."""
    order = [normal(a, x.ndim) for a in axes]
    return made(x.dtype, tuple(x.shape[a] for a in order), lambda w: x.at([w[order.index(i)] for i in range(x.ndim)]))


def matrix_transpose(x: Array) -> Array:
    """The last two axes exchanged."""
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def expand_dims(x: Array, axis: Any = 0) -> Array:
    """Axes of size 1 inserted."""
    several = (axis,) if isinstance(axis, int) else tuple(axis)
    at = axes_of(several, x.ndim + len(several))
    sizes = iter(x.shape)
    return Array(x.dtype, tuple(1 if i in at else next(sizes) for i in range(x.ndim + len(at))), x.data)


def squeeze(x: Array, axis: Any) -> Array:
    """Axes of size 1 left out."""
    at = axes_of(axis, x.ndim)
    return Array(x.dtype, tuple(s for i, s in enumerate(x.shape) if i not in at), x.data)


def broadcast_to(x: Array, shape: Shape) -> Array:
    """Elements repeated."""
    return v.broadcast_to(x, tuple(shape))


def flip(x: Array, axis: Any = None) -> Array:
    """Elements in reverse order along axes."""
    at = axes_of(axis, x.ndim)
    return made(x.dtype, x.shape, lambda w: x.at([x.shape[i] - 1 - k if i in at else k for i, k in enumerate(w)]))


def concat(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Arrays joined along an axis."""
    at = normal(axis, arrays[0].ndim)
    dtype = v.result_dtype(arrays)
    shape = list(arrays[0].shape)
    shape[at] = sum(a.shape[at] for a in arrays)

    def element(where: tuple[int, ...]) -> Any:
        i = where[at]
        for a in arrays:
            if i < a.shape[at]:
                return a.at((*where[:at], i, *where[at + 1 :]))
            i -= a.shape[at]
        raise IndexError(where)

    return made(dtype, tuple(shape), element)


def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
    """Arrays joined along a new axis."""
    at = normal(axis, arrays[0].ndim + 1)
    return concat([expand_dims(a, at) for a in arrays], at)


def flatten(x: Array, start: int = 0, stop: int = -1) -> Array:
    """Several axes made one."""
    if not x.shape:
        return Array(x.dtype, (1,), x.data)
    a, b = normal(start, x.ndim), normal(stop, x.ndim)
    return Array(x.dtype, (*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]), x.data)


# Indexing ------------------------------------------------------------------------------------------------------------


def read_positions(shape: Shape, key: Any) -> Array:
    """The row-major position of each element that a basic key reads."""
    items = list(key) if isinstance(key, tuple) else [key]
    taken = sum(1 for k in items if k is not None and k is not Ellipsis)
    fill = [slice(None)] * (len(shape) - taken)
    at = next((i for i, k in enumerate(items) if k is Ellipsis), None)
    items = items + fill if at is None else items[:at] + fill + items[at + 1 :]
    spans: list[tuple[list[int], bool]] = []
    axis = 0
    for k in items:
        if k is None:
            spans.append(([], True))
            continue
        size = shape[axis]
        spans.append((list(range(size))[k], True) if isinstance(k, slice) else ([range(size)[k]], False))
        axis += 1
    out = [max(1, len(span)) if k is None else len(span) for (span, keep), k in zip(spans, items, strict=True) if keep]

    def element(where: tuple[int, ...]) -> int:
        steps, full = iter(where), []
        for (span, keep), k in zip(spans, items, strict=True):
            i = next(steps) if keep else 0
            if k is not None:
                full.append(span[i])
        return v.place(shape, full)

    return made("int64", tuple(out), element)


def getitem(x: Array, key: Any) -> Array:
    """Basic indexing."""
    where = read_positions(x.shape, key)
    return Array(x.dtype, where.shape, [x.data[i] for i in where.data])


def getitem_back(g: Array, shape: Shape, key: Any) -> Array:
    """Zeros with ``g`` in the place that a key reads."""
    out = Array(g.dtype, shape, [0] * math.prod(shape))
    for i, value in zip(read_positions(shape, key).data, g.data, strict=True):
        out.data[i] = value
    return out


def take(x: Array, indices: Array, axis: int) -> Array:
    """Elements at positions along an axis."""
    at, n = normal(axis, x.ndim), indices.ndim
    size = x.shape[at]
    return made(
        x.dtype,
        (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]),
        lambda w: x.at((*w[:at], range(size)[indices.at(w[at : at + n])], *w[at + n :])),
    )


def take_back(g: Array, indices: Array, shape: Shape, axis: int) -> Array:
    """Zeros with ``g`` added at positions along an axis."""
    at, n = normal(axis, len(shape)), indices.ndim
    out = Array(g.dtype, shape, [0] * math.prod(shape))
    for where, value in zip(v.positions(g.shape), g.data, strict=True):
        i = range(shape[at])[indices.at(where[at : at + n])]
        to = v.place(shape, (*where[:at], i, *where[at + n :]))
        out.data[to] = v.cast(out.data[to] + value, g.dtype)
    return out


def assign(x1: Array, x2: Any) -> Array:
    """A value broadcast to the shape of the first operand, in its dtype."""
    value = x2 if isinstance(x2, Array) else Array(x1.dtype, (), [x2])
    while value.ndim > x1.ndim:
        value = Array(value.dtype, value.shape[1:], value.data)
    return v.broadcast_to(value.astype(x1.dtype), x1.shape)


# Creation and conversion ---------------------------------------------------------------------------------------------


def filled(number: Any, shape: Any, dtype: str) -> Array:
    """One value."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return Array(dtype, sizes, [number] * math.prod(sizes))


def ramp(start: Any, step: Any, count: int, dtype: str) -> Array:
    """Numbers in steps."""
    return Array(dtype, (count,), [start + i * step for i in range(count)])


def from_data(data: Any, dtype: str) -> Array:
    """Nested lists."""
    shape: list[int] = []
    level: list[Any] = [data]
    while isinstance(level[0] if level else 0, (list, tuple)):
        shape.append(len(level[0]))
        level = [e for inner in level for e in inner]
    return Array(dtype, tuple(shape), level)


def astype(x: Array, dtype: str, copy: bool = True) -> Array:
    """Another dtype."""
    return x.astype(dtype)
