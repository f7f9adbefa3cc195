"""The namespace ``tripoint.sparse``: making sparse tensors of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.errors import ArgumentError, AutogradError, DTypeError, IndexingError, ShapeError
from tripoint.plugin import Tensor, key, payload, wrap
from tripoint_sparse_coo import _ops
from tripoint_sparse_coo._coo import COO, Array, Shape, make

__all__ = ["coalesce", "coo", "coo_trusted"]

coalesce = _ops.coalesce


def coo(indices: Any, values: Any, shape: Sequence[int], *, dtype: Any = None) -> Tensor:
    """A sparse tensor on the CPU of positions and values, both copied and checked.

    Args:
        indices: integers of shape (ndim, nnz), one column per value, in any order. Columns may repeat; values at one
            position are summed on use.
        values: numbers of shape (nnz,).
        shape: sizes of the axes; their product need not fit in 64 bits.
        dtype: of the values; as `tripoint.asarray` finds it unless named.

    Raises:
        IndexingError: a position outside of the shape; negative ones do not count from the end.
        DTypeError: indices that are no integers.
        ShapeError: lengths or a number of axes that do not go together.
        AutogradError: recorded values; ask for gradients of the sparse tensor instead.
    """
    sizes = _sizes(shape)
    data, dtype = _values(values, dtype)
    found = _indices(indices, sizes, len(data))
    return _tensor(make(sizes, found, data), dtype)


def coo_trusted(
    indices: Any, values: Any, shape: Sequence[int], *, dtype: Any = None, canonical: bool = False
) -> Tensor:
    """As `coo`, without a look at the indices and without copies where none are needed.

    A position outside of the shape gives wrong results or an IndexError later, and the caller's arrays must not be
    written any more.

    Args:
        canonical: the columns are in lexicographic order and none repeats.
    """
    sizes = tuple([index(s) for s in shape])
    _refuse_recorded(values)
    made = tp.asarray(values, dtype=dtype)
    data = payload(made).view()
    found = np.asarray(payload(indices) if isinstance(indices, Tensor) else indices, np.int64).view()
    return _tensor(COO(sizes, found, data, canonical or len(data) == 0), made.dtype)


def _tensor(made: COO, dtype: Any) -> Tensor:
    # Imported here: the backend is made of this module's neighbours.
    from tripoint_sparse_coo import sparse_coo

    return wrap(key(tp.Device("cpu"), sparse_coo, dtype), made)


def _sizes(shape: Sequence[int]) -> Shape:
    if not isinstance(shape, (tuple, list)):
        raise ArgumentError(f"shape must be a sequence of ints, not {shape!r}")
    try:
        sizes = tuple([index(s) for s in shape])
    except TypeError:
        raise ArgumentError(f"shape must hold ints, not {tuple(shape)!r}") from None
    for s in sizes:
        if not 0 <= s < 2**63:
            raise ShapeError(f"shape {sizes} has the size {s}; sizes lie in 0..2**63 - 1")
    return sizes


def _refuse_recorded(values: Any) -> None:
    if isinstance(values, Tensor) and values.requires_grad:
        raise AutogradError("values are recorded, and a sparse tensor of them would not be; pass values.detach()")


def _values(values: Any, dtype: Any) -> tuple[Array, Any]:
    _refuse_recorded(values)
    if isinstance(values, Tensor):
        values = values.to(device="cpu", layout="strided")
    made = tp.asarray(values, dtype=dtype, copy=True)
    if made.ndim != 1:
        raise ShapeError(f"values must have one axis, (nnz,), not shape {made.shape}")
    return payload(made), made.dtype


def _indices(indices: Any, shape: Shape, count: int) -> Array:
    given = payload(indices.to(device="cpu", layout="strided")) if isinstance(indices, Tensor) else indices
    try:
        found = np.asarray(given)
    except ValueError:
        raise ShapeError(
            f"indices must have shape (ndim, nnz), here ({len(shape)}, {count}); the nesting is ragged"
        ) from None
    if found.size == 0 and (found.ndim == 1 or 0 in (len(shape), count)) and len(shape) * count == 0:
        found = np.empty((len(shape), count), np.int64)  # an empty list has no dtype and one axis
    if found.dtype.kind not in "iu":
        raise DTypeError(f"indices must be integers, not {found.dtype}")
    if found.shape != (len(shape), count):
        raise ShapeError(
            f"indices have shape {found.shape}; a shape of {len(shape)} axes and {count} values need ({len(shape)}, {count})"
        )
    for axis, (row, size) in enumerate(zip(found, shape, strict=True)):
        if count and (row.min() < 0 or row.max() >= size):
            at = int(np.flatnonzero((row < 0) | (row >= size))[0])
            bad = int(row[at])
            word = "is negative; indices count from 0" if bad < 0 else f"is out of range: sizes are {shape}"
            raise IndexingError(f"index {bad} of entry {at} in dimension {axis} (size {size}) {word}")
    return found.astype(np.int64)
