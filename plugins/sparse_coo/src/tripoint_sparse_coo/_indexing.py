"""Reading parts of COO payloads, and the adjoints of that: plain functions that never change an operand."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tripoint.errors import IndexingError
from tripoint_sparse_coo._coo import COO, Array, Shape, check_positions, make

Key = tuple[Any, ...]


def getitem(x: COO, *, key: Key) -> COO:
    """Basic indexing by a bound key: per step an int, a slice or ``None``."""
    if x.canonical and key and key[0] is not None:
        x = _between(x, _span(key[0], x.shape[0]))
    keep: Array | None = None
    rows: list[Array] = []
    shape: list[int] = []
    axis = 0
    for k in key:
        if k is None:
            rows.append(np.zeros(x.nnz, np.int64))
            shape.append(1)
            continue
        span, at = _span(k, x.shape[axis]), x.indices[axis]
        if span != range(x.shape[axis]):
            offset = at - span.start
            at = offset // span.step
            hit = (offset == at * span.step) & (at >= 0) & (at < len(span))
            keep = hit if keep is None else keep & hit
        if k.__class__ is slice:
            rows.append(at)
            shape.append(len(span))
        axis += 1
    indices, values = _stacked(rows, x.nnz), x.values
    if keep is not None:
        indices, values = indices[:, keep], values[keep]
    return make(tuple(shape), indices, values)


def getitem_back(g: COO, *, shape: Shape, key: Key) -> COO:
    """The entries of ``g`` in the places that ``key`` reads from a tensor of ``shape``."""
    rows: list[Array] = []
    made = 0
    for k in key:
        if k is not None:
            span = _span(k, shape[len(rows)])
            at = g.indices[made] if k.__class__ is slice else np.zeros(g.nnz, np.int64)
            rows.append(span.start + at * span.step)
        made += k is None or k.__class__ is slice
    return make(shape, _stacked(rows, g.nnz), g.values)


def take(x: COO, indices: Array, *, axis: int) -> COO:
    """The parts at positions along an axis, as often as they are named.

    Raises:
        IndexingError: a position outside of the axis.
    """
    flat = _positions(indices, x.shape[axis], axis)
    order = np.argsort(x.indices[axis], kind="stable")
    at = x.indices[axis][order]
    starts, counts = np.searchsorted(at, flat), np.searchsorted(at, flat, "right")
    counts -= starts
    where = np.repeat(np.arange(len(flat)), counts)
    # Place in `order` of each entry of the result: runs from each start, one after the other.
    runs = np.arange(len(where)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    source = order[runs]
    rows = [*x.indices[:axis, source], *_unravelled(where, indices.shape), *x.indices[axis + 1 :, source]]
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return make(shape, _stacked(rows, len(where)), x.values[source])


def take_back(g: COO, indices: Array, *, shape: Shape, axis: int) -> COO:
    """The entries of ``g`` at the positions that `take` read; those that meet add up."""
    flat = _positions(indices, shape[axis], axis)
    stop = axis + indices.ndim
    check_positions(g.indices[axis:stop], indices.shape)
    where = np.zeros(g.nnz, np.int64)
    for at, size in zip(g.indices[axis:stop], indices.shape, strict=True):
        where = where * size + at
    return make(shape, _stacked([*g.indices[:axis], flat[where], *g.indices[stop:]], g.nnz), g.values)


def _span(k: int | slice, size: int) -> range:
    return range(*k.indices(size)) if isinstance(k, slice) else range(k, k + 1)


def _between(x: COO, span: range) -> COO:
    """The entries whose first index lies within a span of a canonical ``x``, found by bisection."""
    low, high = (min(span[0], span[-1]), max(span[0], span[-1]) + 1) if span else (0, 0)
    first, last = np.searchsorted(x.indices[0], (low, high))
    return COO(x.shape, x.indices[:, first:last], x.values[first:last], True)


def _stacked(rows: list[Array], count: int) -> Array:
    return np.array(rows, np.int64).reshape(len(rows), count)


def _positions(indices: Array, size: int, axis: int) -> Array:
    if indices.dtype.kind not in "iu":
        raise IndexingError(f"take along axis {axis}: positions must be integers, not {indices.dtype}")
    flat = indices.reshape(-1).astype(np.int64)
    bad = np.flatnonzero((flat < -size) | (flat >= size))
    if len(bad):
        raise IndexingError(
            f"take along axis {axis}: {flat[bad[0]]} is out of range; positions lie in {-size}..{size - 1}"
        )
    return np.where(flat < 0, flat + size, flat)


def _unravelled(flat: Array, shape: Shape) -> list[Array]:
    out = []
    for i, size in enumerate(shape):
        out.append(flat // max(prod(shape[i + 1 :]), 1) % max(size, 1))
    return out
