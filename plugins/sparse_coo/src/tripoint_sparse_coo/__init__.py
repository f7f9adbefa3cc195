"""Sparse coordinate (COO) tensors on the CPU. Owns ``cpu.sparse_coo`` for the plain dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

import tripoint as tp
from tripoint.plugin import (
    Backend,
    Capabilities,
    Layout,
    Tensor,
    key,
    operators,
    payload,
    row_of,
    scalar,
    strided,
    wrap,
)
from tripoint_sparse_coo import _indexing, _kernels, _ops, _products
from tripoint_sparse_coo import sparse as sparse
from tripoint_sparse_coo._coo import COO, coalesce
from tripoint_sparse_coo._ops import align, gather, restored, sampled_matmul, stored, sum_back, transposed

__all__ = ["backend", "sparse", "sparse_coo"]


def _indices(s: Tensor) -> Tensor:
    """Positions: int64 (ndim, nnz), read-only."""
    return wrap(key(s.device, strided, tp.int64), payload(s).indices)


def _values(s: Tensor) -> Tensor:
    """Stored values (nnz,), read-only and not recorded."""
    return wrap(key(s.device, strided, s.dtype), payload(s).values)


sparse_coo = Layout(
    "sparse_coo",
    views=False,
    attributes={
        "indices": _indices,
        "values": _values,
        "nnz": lambda s: payload(s).nnz,
        "is_canonical": lambda s: payload(s).canonical,
    },
    gradient_like=_ops.gradient_like,
)


def _describe(p: COO) -> dict[str, Any]:
    # No single allocation and no strides; writable, since in-place operators bind a new payload.
    nbytes = p.indices.nbytes + p.values.nbytes
    return {"dtype": _kernels.dtype_of(p.values), "address": None, "nbytes": nbytes, "strides": None, "readonly": False}


backend = Backend(
    "cpu",
    sparse_coo,
    payload=COO,
    describe=_describe,
    aliases=lambda out, x: np.shares_memory(out.values, x.values) or np.shares_memory(out.indices, x.indices),
    to_strided=_kernels.densify,
    from_strided=_kernels.like,
    cheap=False,
    frozen=True,
    summary=_kernels.summary,
    capabilities=Capabilities(
        lacks={
            "*": "its result would be dense, or it is not written for COO yet; convert first, x.to(layout='strided')",
            "*.broadcast": "sparse operands are not broadcast against each other; their shapes must be equal",
            "add.scalar": "a number added to what is not stored makes it dense; convert first, x.to(layout='strided')",
            "subtract.scalar": "a number added to what is not stored makes it dense; convert first, x.to(layout='strided')",
            "matmul.1-d": "a sparse operand of a product is a matrix; a vector is written as one, x[None] or x[:, None]",
            "matmul.3-d": "a sparse operand of a product is a matrix; stacks are not written yet",
            "matmul.4-d": "a sparse operand of a product is a matrix; stacks are not written yet",
            "softmax": "every element of its result is above 0, so that it is dense; convert first, x.to(layout='strided')",
            "log_softmax": "no element of its result is 0, so that it is dense; convert first, x.to(layout='strided')",
        },
    ),
)

backend.to("cpu.strided")(_kernels.densify)
backend.from_("cpu.strided")(_kernels.sparsify)
backend.kernels(
    zeros=_kernels.zeros,
    astype=_kernels.astype,
    copy=_kernels.copy,
    to_text=_kernels.to_text,
    negative=_kernels.negative,
    permute_dims=_kernels.permute_dims,
    getitem=_indexing.getitem,
    getitem_back=_indexing.getitem_back,
)
backend.kernel("matrix_transpose", check_first=True)(_kernels.matrix_transpose)
backend.factory(_kernels.on_stored)
backend.kernel("sum", out=strided)(_kernels.sum_axes)
# There is no largest or smallest of nothing, which the operator's rule says.
backend.kernel("max", out=strided, check_first=True)(_kernels.extreme(np.maximum))
backend.kernel("min", out=strided, check_first=True)(_kernels.extreme(np.minimum))

_SPARSE_DENSE: tuple[Any, ...] = (sparse_coo, strided)
_DENSE_SPARSE: tuple[Any, ...] = (strided, sparse_coo)
_LIMITS: dict[str, tuple[Any, ...]] = {  # of both operands sparse, the first, the second
    "matmul": (_products.two_axes(0, 1), _products.two_axes(0), _products.two_axes(1)),
    "multiply": (_kernels.equal_shapes("multiply"), _kernels.sparse_result(0), _kernels.sparse_result(1)),
    **{n: (_kernels.equal_shapes(n), *(_kernels.strided_result(n, i) for i in (0, 1))) for n in ("add", "subtract")},
}
for _name, _room, _out in (
    ("matmul", _products, strided),
    ("add", _kernels, strided),
    ("subtract", _kernels, strided),
    ("multiply", _kernels, sparse_coo),
):
    _both, _first, _second = _LIMITS[_name]
    backend.kernel(_name, check_first=_both)(getattr(_room, f"{_name}_sparse"))
    backend.kernel(_name, args=_SPARSE_DENSE, out=_out, check_first=_first)(getattr(_room, f"{_name}_sparse_dense"))
    backend.kernel(_name, args=_DENSE_SPARSE, out=_out, check_first=_second)(getattr(_room, f"{_name}_dense_sparse"))
backend.kernel("take", args=_SPARSE_DENSE, out=sparse_coo)(_indexing.take)
backend.kernel("take_back", args=_SPARSE_DENSE, out=sparse_coo)(_indexing.take_back)
backend.kernel("multiply", args=(sparse_coo, scalar))(_kernels.multiply_sparse_scalar)
backend.kernel("multiply", args=(scalar, sparse_coo))(_kernels.multiply_scalar_sparse)

backend.kernel(_ops.coalesce)(coalesce)
backend.kernel(align)(_kernels.align)
backend.kernel(gather, args=_DENSE_SPARSE, out=lambda keys: keys[1].replace(dtype=keys[0].dtype))(_kernels.gather)
backend.kernel(stored, out=strided)(_kernels.stored)
backend.kernel(restored, args=_DENSE_SPARSE, out=lambda keys: keys[1].replace(dtype=keys[0].dtype))(_kernels.restored)
backend.kernel(
    sampled_matmul, args=(strided, strided, sparse_coo), out=lambda keys: keys[2].replace(dtype=keys[0].dtype)
)(_products.sampled_matmul)

# The core's formula for a product would form the gradient of the sparse operand as a full matrix. Those of the other
# operators do: what they give is fitted by the layout's gradient_like.
backend.derivative(
    "matmul",
    args=_SPARSE_DENSE,
    x1=lambda g, x1, x2: sampled_matmul(g, x2, x1),
    x2=lambda g, x1: tp.matmul(transposed(x1), g),
)
backend.derivative(
    "matmul",
    args=_DENSE_SPARSE,
    x1=lambda g, x2: tp.matmul(g, transposed(x2)),
    x2=lambda g, x1, x2: sampled_matmul(transposed(x1), transposed(g), x2),
)
backend.derivative("sum", args=(sparse_coo,), x=sum_back)
for _operator in operators().values():
    if _kernels.on_stored(row_of(_operator)) is not None:
        backend.derivative(_operator, args=(sparse_coo,), x=_ops.slope_on_stored(_operator))
# A pattern is no number: it has no gradient. Gradients `v` of sparse results come on the pattern of the result.
backend.derivative(_ops.coalesce, s=lambda v: v)
backend.derivative(gather, args=_DENSE_SPARSE, g=lambda v: v, pattern=lambda v: None)
backend.derivative(stored, s=lambda v, s: restored(v, s))
backend.derivative(restored, args=_DENSE_SPARSE, values=lambda v: stored(v), pattern=lambda v: None)
backend.derivative(align, g=lambda v: v, pattern=lambda v: None)
backend.derivative(
    sampled_matmul,
    args=(strided, strided, sparse_coo),
    g=lambda v, x2: tp.matmul(v, x2),
    x2=lambda v, g: tp.matmul(transposed(v), g),
    pattern=lambda v: None,
)
