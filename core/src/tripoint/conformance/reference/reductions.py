"""Reductions over arrays of Python numbers."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from tripoint.conformance.reference.elementwise import larger, quotient, smaller
from tripoint.conformance.reference.values import INEXACT, SIGNED, UNSIGNED, Array, axes_of, made, positions


def _groups(x: Array, axis: Any, keepdims: bool, dtype: str, fn: Callable[[list[Any]], Any]) -> Array:
    """``fn`` of the elements of each group that the axes gather, in row-major order."""
    axes = axes_of(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    inner = [x.shape[a] for a in axes]

    def group(where: tuple[int, ...]) -> Any:
        fixed = where if keepdims else tuple(where[kept.index(i)] if i in kept else 0 for i in range(x.ndim))
        members = []
        for at in positions(tuple(inner)):
            full = list(fixed)
            for a, i in zip(axes, at, strict=True):
                full[a] = i
            members.append(x.at(full))
        return fn(members)

    shape = [1 if i in axes else s for i, s in enumerate(x.shape) if keepdims or i not in axes]
    return made(dtype, tuple(shape), group)


def total(values: Sequence[Any]) -> Any:
    """The sum, exact and rounded once."""
    if builtins.all(isinstance(v, int) for v in values):
        return builtins.sum(values)
    if builtins.any(isinstance(v, complex) for v in values):
        return complex(total([v.real for v in values]), total([v.imag for v in values]))
    if builtins.any(not math.isfinite(v) for v in values):
        return builtins.sum(values)
    return math.fsum(values)


def _widened(x: Array, dtype: Any) -> str:
    if dtype is not None:
        return str(dtype)
    if x.dtype in UNSIGNED:
        return "uint64"
    return "int64" if x.dtype in SIGNED or x.dtype == "bool" else x.dtype


def sum(x: Array, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Sums, of integers in 64 bits."""
    out = _widened(x, dtype)
    return _groups(x.astype(out) if dtype is not None else x, axis, keepdims, out, total)


def sum_leading(x: Array, shape: tuple[int, ...]) -> Array:
    """Sums over leading axes, in the operand's dtype."""
    return sum(x, tuple(range(x.ndim - len(shape))), x.dtype)


def prod(x: Array, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """Products, of integers in 64 bits."""
    out = _widened(x, dtype)
    return _groups(x, axis, keepdims, out, lambda values: functools.reduce(lambda a, b: a * b, values, 1))


def max(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """Largest elements; NaN if one is NaN."""
    return _groups(x, axis, keepdims, x.dtype, lambda values: functools.reduce(larger, values))


def min(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """Smallest elements; NaN if one is NaN."""
    return _groups(x, axis, keepdims, x.dtype, lambda values: functools.reduce(smaller, values))


def all(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether all are true."""
    return _groups(x, axis, keepdims, "bool", lambda values: builtins.all(map(bool, values)))


def any(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether one is true."""
    return _groups(x, axis, keepdims, "bool", lambda values: builtins.any(map(bool, values)))


def _first(better: Callable[[Any, Any], bool]) -> Callable[..., Array]:
    def best(values: list[Any]) -> int:
        out = 0
        for i, v in enumerate(values):
            if values[out] != values[out]:
                break
            if v != v or better(v, values[out]):
                out = i
        return out

    def run(x: Array, axis: int | None = None, keepdims: bool = False) -> Array:
        return _groups(x, axis, keepdims, "int64", best)

    return run


argmax = _first(lambda a, b: a > b)
argmin = _first(lambda a, b: a < b)


def mean(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    """Means; integers in float32; of nothing NaN."""
    dtype = x.dtype if x.dtype in INEXACT else "float32"
    return _groups(x, axis, keepdims, dtype, lambda values: quotient(total(values), len(values)))
