"""Products of sparse and strided matrices: plain functions that never change an operand."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from tripoint.errors import ShapeError
from tripoint_sparse_coo._coo import COO, Array, Shape, apply, coalesce
from tripoint_sparse_coo._kernels import align

#: elements of one block of a sampled product; both gathered blocks fit the second-level cache.
BLOCK = 1 << 16


def _wide(values: Array) -> Array:
    """Values in a dtype that SciPy multiplies in: half precision becomes float32."""
    return values.astype(np.float32) if values.dtype.itemsize == 2 and values.dtype.kind in "fV" else values


def compressed(x: COO) -> csr_array:
    """Compressed rows of a matrix, as SciPy multiplies them.

    Raises:
        ShapeError: not two axes.
    """
    if len(x.shape) != 2:
        raise ShapeError(f"matmul takes a sparse matrix of two axes, not shape {x.shape}")
    x = coalesce(x)
    starts = np.zeros(x.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(x.indices[0], minlength=x.shape[0]), out=starts[1:])
    return csr_array((_wide(x.values), x.indices[1], starts), shape=x.shape)


def _dense_operand(x: Array, sparse: Shape) -> Array:
    if x.ndim not in (1, 2):
        raise ShapeError(f"matmul of a sparse matrix {sparse} takes a strided vector or matrix, not shape {x.shape}")
    return _wide(x)


def matmul_sparse_dense(x1: COO, x2: Array) -> Array:
    """(m, k) sparse with (k, n) or (k,): strided (m, n) or (m,)."""
    out = compressed(x1) @ _dense_operand(x2, x1.shape)
    return np.asarray(out).astype(x1.values.dtype, copy=False)


def matmul_dense_sparse(x1: Array, x2: COO) -> Array:
    """(m, k) or (k,) with (k, n) sparse: strided (m, n) or (n,)."""
    out = (compressed(x2).T @ _dense_operand(x1, x2.shape).T).T
    return np.ascontiguousarray(out, x1.dtype)


def _expanded(x: csr_array) -> COO:
    """Compressed rows as a canonical COO."""
    x.sort_indices()
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    return COO(x.shape, np.stack([rows, x.indices.astype(np.int64)]), x.data, True)


def matmul_sparse(x1: COO, x2: COO) -> COO:
    """(m, k) with (k, n), both sparse: sparse (m, n), on every position at which stored values meet."""
    a, b = compressed(x1), compressed(x2)
    product = _expanded(a @ b)
    # SciPy leaves out sums that come to zero; a pattern that depends on values would mask gradients. Counts never cancel.
    for x in (a, b):
        x.data = np.ones(x.nnz, np.int64)
    out = align(product, _expanded(a @ b))
    return out.with_values(out.values.astype(x1.values.dtype, copy=False))


def sampled_matmul(g: Array, x2: Array, pattern: COO) -> COO:
    """``g @ x2.T`` at the stored positions of ``pattern`` only.

    ``g`` is (m, n) and ``x2`` (k, n), or (m,) and (k,), for a pattern of shape (m, k).
    """
    pattern = coalesce(pattern)
    rows, columns = pattern.indices
    if g.ndim == 1:
        return pattern.with_values(apply(np.multiply, g[rows], x2[columns]))
    a, b = _wide(g), _wide(x2)
    values = np.empty(pattern.nnz, a.dtype)
    step = max(1, BLOCK // max(1, g.shape[1]))
    for at in range(0, pattern.nnz, step):
        part = slice(at, at + step)
        np.einsum("ij,ij->i", a[rows[part]], b[columns[part]], out=values[part])
    return pattern.with_values(values.astype(g.dtype, copy=False))
