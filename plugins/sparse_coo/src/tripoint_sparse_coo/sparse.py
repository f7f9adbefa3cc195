"""The namespace ``tripoint.sparse``: making sparse tensors of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.errors import ArgumentError, AutogradError, DTypeError, ShapeError, shown
from tripoint.plugin import Tensor, key, payload, rules, wrap
from tripoint_sparse_coo import _ops
from tripoint_sparse_coo._coo import COO, Array, Shape, check_positions, make

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
        DTypeError: indices that are no integers, or values of a dtype with parameters.
        ShapeError: lengths or a number of axes that do not go together.
        AutogradError: recorded values; ask for gradients of the sparse tensor instead.
    """
    sizes = _sizes(shape)
    data, dtype = _values(values, dtype, True)
    found = _indices(indices, sizes, len(data))
    check_positions(found, sizes)
    return _tensor(make(sizes, found.astype(np.int64), data), dtype)


def coo_trusted(
    indices: Any, values: Any, shape: Sequence[int], *, dtype: Any = None, canonical: bool = False
) -> Tensor:
    """As `coo`, without a look at the indices and without copies where none are needed.

    A position outside of the shape, or ``canonical=True`` of columns that are not, gives wrong results or an IndexingError
    later. The caller's arrays must not be written any more.

    Args:
        canonical: the columns are in lexicographic order and none repeats.

    Raises:
        IndexingError, DTypeError, ShapeError, AutogradError: as `coo`, positions aside.
    """
    sizes = _sizes(shape)
    data, dtype = _values(values, dtype, None)
    found = _indices(indices, sizes, len(data)).astype(np.int64, copy=False)
    return _tensor(COO(sizes, found.view(), data.view(), bool(canonical) or len(data) == 0), dtype)


def _tensor(made: COO, dtype: Any) -> Tensor:
    # Imported here: the backend is made of this module's neighbours.
    from tripoint_sparse_coo import sparse_coo

    return wrap(key(tp.Device("cpu"), sparse_coo, dtype), made)


def _sizes(shape: Sequence[int]) -> Shape:
    if not isinstance(shape, (tuple, list)):
        raise ArgumentError(f"shape must be a sequence of ints, not {shape!r}")
    sizes = rules.ints(shape, "shape")
    for s in sizes:
        if not 0 <= s < 2**63:
            raise ShapeError(f"shape {shown(sizes)} has the size {shown(s)}; sizes lie in 0..2**63 - 1")
    return sizes


def _values(values: Any, dtype: Any, copy: bool | None) -> tuple[Array, Any]:
    if isinstance(values, Tensor):
        if values.requires_grad:
            raise AutogradError("values are recorded, and a sparse tensor of them would not be; pass values.detach()")
        if not values.dtype.is_plain:
            raise DTypeError(f"values of a sparse tensor have a plain dtype, not {values.dtype}; dequantize them first")
        values = values.to(device="cpu", layout="strided")
    made = tp.asarray(values, dtype=dtype, copy=copy)
    if made.ndim != 1:
        raise ShapeError(f"values must have one axis, (nnz,), not shape {made.shape}")
    return payload(made), made.dtype


def _indices(indices: Any, shape: Shape, count: int) -> Array:
    """The positions as integers of shape (ndim, nnz), not copied where that can be avoided and not compared with the shape.

    Python ints of more than 64 bits are refused here: no position is that large.
    """
    given = payload(indices.to(device="cpu", layout="strided")) if isinstance(indices, Tensor) else indices
    listed = isinstance(given, (list, tuple))
    try:
        found = np.asarray(given)
    except ValueError:
        raise ShapeError(
            f"indices must have shape (ndim, nnz), here ({len(shape)}, {count}); no array can be made of it, as of ragged lists"
        ) from None
    if listed and found.size == 0 and (found.ndim == 1 or 0 in (len(shape), count)) and len(shape) * count == 0:
        found = np.empty((len(shape), count), np.int64)  # an empty list has no dtype and one axis
    whole = found.dtype.kind in "iu"
    if listed and found.dtype.kind in "Of":  # what ints of more than 64 bits are to NumPy
        exact = np.asarray(given, object)
        whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in exact.flat)
        found = exact if whole else found
    if not whole:
        raise DTypeError(f"indices must be integers, not {found.dtype}")
    if found.shape != (len(shape), count):
        raise ShapeError(
            f"indices have shape {found.shape}; a shape of {len(shape)} axes and {count} values need ({len(shape)}, {count})"
        )
    if found.dtype.kind == "O":
        check_positions(found, shape)  # one of them is out of range
    return found
