"""Products of sparse and strided matrices: plain functions that never change an operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tripoint.errors import ShapeError
from tripoint_sparse_coo._coo import COO, Array, apply, check_positions, coalesce, is_half
from tripoint_sparse_coo._kernels import align

#: elements of one block of a sampled product; both gathered blocks fit the second-level cache.
BLOCK = 1 << 16
#: SciPy adds products one by one, so float32 stops counting at 2**24: longer sums are made of pieces of so many products.
LONG = 1024


def _work(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that products and short sums are made in."""
    return np.dtype(np.float32) if is_half(dtype) else dtype


def _total(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that pieces of a sum are added in."""
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if dtype.kind == "f" or is_half(dtype) else dtype


def _most(indices: Array) -> int:
    """How often the most frequent position along an axis occurs."""
    return int(np.bincount(indices).max(initial=0))


def two_axes(*sparse: int) -> Callable[[Any], None]:
    """What kernels of matmul take, of which these operands are sparse."""

    def check(shapes: Any) -> None:
        """Sparse matrices of two axes, and strided operands of one or two."""
        for i, shape in enumerate(shapes):
            if i in sparse and len(shape) != 2:
                raise ShapeError(
                    f"matmul takes a sparse matrix of two axes, not shape {shape}; convert first: x.to(layout='strided')"
                )
            if len(shape) > 2:
                raise ShapeError(
                    f"matmul of a sparse matrix {shapes[1 - i]} takes a strided vector or matrix, not shape {shape}; convert "
                    "the sparse matrix first: x.to(layout='strided')"
                )

    return check


def _checked(x: COO) -> COO:
    """A matrix in canonical form whose positions may be handed to compiled code.

    Raises:
        IndexingError: a position outside of the shape, with which that code would leave the memory of its operands.
    """
    check_positions(x.indices, x.shape)
    return coalesce(x)


def compressed(x: COO, dtype: np.dtype[Any]) -> csr_array:
    """Compressed rows of a checked matrix, as SciPy multiplies them, with the values in ``dtype``."""
    starts = np.zeros(x.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(x.indices[0], minlength=x.shape[0]), out=starts[1:])
    return csr_array((x.values.astype(dtype, copy=False), x.indices[1], starts), shape=x.shape)


def _product(a: Any, b: Array, dtype: np.dtype[Any]) -> Array:
    """A SciPy matrix with a strided vector or matrix, in ``dtype``; of compressed rows, long ones are summed in pieces."""
    b = b.astype(a.dtype, copy=False)
    counts = np.diff(a.indptr)
    if a.format != "csr" or a.dtype.kind not in "fc" or counts.max(initial=0) <= LONG or a.shape[1] != b.shape[0]:
        return np.asarray(a @ b).astype(dtype, copy=False)
    pieces = -(-counts // LONG)
    firsts = np.cumsum(pieces) - pieces
    nth = np.arange(pieces.sum()) - np.repeat(firsts, pieces)
    starts = np.append(np.repeat(a.indptr[:-1], pieces) + nth * LONG, a.indptr[-1])
    parts = csr_array((a.data, a.indices, starts), shape=(len(nth), a.shape[1])) @ b
    out = np.zeros((a.shape[0], *b.shape[1:]), dtype)
    filled = np.flatnonzero(pieces)
    out[filled] = np.add.reduceat(parts, firsts[filled], axis=0, dtype=_total(a.dtype))
    return out


def matmul_sparse_dense(x1: COO, x2: Array) -> Array:
    """(m, k) sparse with (k, n) or (k,): strided (m, n) or (m,)."""
    x1 = _checked(x1)
    dtype = x1.values.dtype
    with np.errstate(all="ignore"):
        return _product(compressed(x1, _work(dtype)), x2, dtype)


def matmul_dense_sparse(x1: Array, x2: COO) -> Array:
    """(m, k) or (k,) with (k, n) sparse: strided (m, n) or (n,)."""
    x2 = _checked(x2)
    with np.errstate(all="ignore"):
        columns = compressed(x2, _work(x1.dtype)).T
        if _most(x2.indices[1]) > LONG:
            columns = columns.tocsr()  # linear in their number; what was a column is now a row
        return np.ascontiguousarray(_product(columns, x1.T, x1.dtype).T)


def _expanded(x: csr_array) -> COO:
    """Compressed rows as a canonical COO."""
    x.sort_indices()
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return COO(x.shape, np.stack([rows, x.indices.astype(np.int64)]), x.data, True)


def matmul_sparse(x1: COO, x2: COO) -> COO:
    """(m, k) with (k, n), both sparse: sparse (m, n), on every position at which stored values meet."""
    x1, x2 = _checked(x1), _checked(x2)
    dtype = x1.values.dtype
    long = min(_most(x1.indices[0]), _most(x2.indices[1])) > LONG
    work = _total(dtype) if long else _work(dtype)
    a, b = compressed(x1, work), compressed(x2, work)
    product = _expanded(a @ b)
    # SciPy leaves out sums that come to zero; a pattern that depends on values would mask gradients. Counts never cancel.
    for x in (a, b):
        x.data = np.ones(x.nnz, np.int64)
    out = align(product, _expanded(a @ b))
    with np.errstate(all="ignore"):
        return out.with_values(out.values.astype(dtype, copy=False))


def sampled_matmul(g: Array, x2: Array, pattern: COO) -> COO:
    """``g @ x2.T`` at the stored positions of ``pattern`` only.

    ``g`` is (m, n) and ``x2`` (k, n), or (m,) and (k,), for a pattern of shape (m, k).

    Raises:
        IndexingError: a position outside of the operands.
    """
    check_positions(pattern.indices, (g.shape[0], x2.shape[0]))
    pattern = coalesce(pattern)
    rows, columns = pattern.indices
    if g.ndim == 1:
        return pattern.with_values(apply(np.multiply, g[rows], x2[columns]))
    n, work = g.shape[1], _work(g.dtype)
    a, b = g.astype(work, copy=False), x2.astype(work, copy=False)
    values = np.zeros(pattern.nnz, _total(work) if n > LONG else work)
    step = max(1, BLOCK // max(1, min(n, LONG)))
    with np.errstate(all="ignore"):
        for first in range(0, n, LONG):
            terms = slice(first, first + LONG)
            for at in range(0, pattern.nnz, step):
                part = slice(at, at + step)
                values[part] += np.einsum("ij,ij->i", a[rows[part], terms], b[columns[part], terms])
        return pattern.with_values(values.astype(g.dtype, copy=False))
