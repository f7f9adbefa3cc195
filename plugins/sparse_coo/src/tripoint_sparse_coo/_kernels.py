"""Kernels over COO payloads, products left out: plain functions that never change an operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.errors import DTypeError, LayoutError, ShapeError, SizeError, sized
from tripoint.plugin import DType, Key, Row, Tensor, key, payload, rules, strided, wrap
from tripoint_dense_cpu import number, numpy_dtype
from tripoint_sparse_coo._coo import (
    COO,
    Array,
    Shape,
    apply,
    check_positions,
    coalesce,
    locate,
    make,
    read_at,
    runs,
    same_pattern,
)

Check = Callable[..., None]

# Conversion ----------------------------------------------------------------------------------------------------------


def densify(x: COO) -> Array:
    """The strided array of a COO.

    Raises:
        SizeError: more elements than fit in 63 bits.
        IndexingError: a position outside of the shape.
    """
    if math.prod(x.shape) > 2**63 - 1:
        raise SizeError(
            f"a strided tensor of shape {x.shape} would have {math.prod(x.shape)} elements, more than fit in 63 bits"
        )
    check_positions(x.indices, x.shape)
    x = coalesce(x)
    out = np.zeros(x.shape, x.values.dtype)
    if x.nnz:
        out[tuple(x.indices)] = x.values if x.shape else x.values[0]
    return out


def sparsify(x: Array) -> COO:
    """The canonical COO of the non-zero elements; NaN is one of them."""
    indices = np.array(np.nonzero(np.atleast_1d(x)), np.int64)
    values = np.atleast_1d(x)[tuple(indices)]
    return COO(x.shape, indices if x.ndim else indices[:0], values, True)


def like(dense: Array, like: COO) -> COO:
    """The layout's hook: a COO of a strided array; nothing is taken from ``like``."""
    return sparsify(dense)


def zeros(*, shape: Shape, target: Key) -> COO:
    """Nothing stored."""
    return COO(shape, np.empty((len(shape), 0), np.int64), np.empty(0, numpy_dtype(target.dtype)), True)


def astype(x: COO, *, target: Key) -> COO:
    """The values in another dtype, duplicates summed before.

    Raises:
        DTypeError: complex to real, which would drop the imaginary parts.
    """
    dtype = numpy_dtype(target.dtype)
    if x.values.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(
            f"converting {x.values.dtype} to {dtype} drops the imaginary parts; tripoint.abs(x) gives the magnitude"
        )
    x = coalesce(x)
    with np.errstate(all="ignore"):
        return x.with_values(x.values.astype(dtype))


def copy(x: COO) -> COO:
    """The same entries in memory of their own."""
    return COO(x.shape, x.indices.copy(), x.values.copy(), x.canonical)


def to_text(x: COO) -> str:
    """Indices and values for printing, abbreviated when there are many."""
    indices = np.array2string(x.indices, separator=", ", threshold=100, edgeitems=3, prefix="indices=")
    values = np.array2string(x.values, separator=", ", threshold=100, edgeitems=3, prefix="values=")
    return f"shape={x.shape},\nindices={indices},\nvalues={values}"


def summary(x: COO) -> str:
    """A few words for printing."""
    return f"nnz={x.nnz}" + ("" if x.canonical else ", not canonical")


# Elementwise ---------------------------------------------------------------------------------------------------------


def gather(g: Array, pattern: COO) -> COO:
    """The elements of ``g``, broadcast to the shape of ``pattern``, at its stored positions."""
    pattern = coalesce(pattern)
    return pattern.with_values(read_at(g, pattern.indices))


def align(g: COO, pattern: COO) -> COO:
    """The elements of ``g`` at the stored positions of ``pattern``; zero where ``g`` stores nothing."""
    g, pattern = coalesce(g), coalesce(pattern)
    if same_pattern(g, pattern):
        return pattern.with_values(g.values)
    at = locate(pattern.indices, g.indices)
    values = np.zeros(pattern.nnz, g.values.dtype)
    found = at >= 0
    values[found] = g.values[at[found]]
    return pattern.with_values(values)


def multiply_sparse_dense(x1: COO, x2: Array) -> COO:
    """The pattern of the sparse operand with its values multiplied; what is not stored stays zero."""
    return x1.with_values(apply(np.multiply, x1.values, read_at(x2, x1.indices)))


def multiply_dense_sparse(x1: Array, x2: COO) -> COO:
    """As `multiply_sparse_dense`."""
    return multiply_sparse_dense(x2, x1)


def multiply_sparse_scalar(x1: COO, x2: Any) -> COO:
    """Values times a number."""
    return x1.with_values(apply(np.multiply, x1.values, number(x2, x1.values.dtype)))


def multiply_scalar_sparse(x1: Any, x2: COO) -> COO:
    """Values times a number."""
    return multiply_sparse_scalar(x2, x1)


def multiply_sparse(x1: COO, x2: COO) -> COO:
    """Products where both operands store something."""
    x1, x2 = coalesce(x1), coalesce(x2)
    if same_pattern(x1, x2):
        return x1.with_values(apply(np.multiply, x1.values, x2.values))
    at = locate(x1.indices, x2.indices)
    found = at >= 0
    values = apply(np.multiply, x1.values[found], x2.values[at[found]])
    return COO(x1.shape, x1.indices[:, found], values, True)


def equal_shapes(operator: str) -> Check:
    """What kernels of two sparse operands take."""

    def check(shapes: Any) -> None:
        """Sparse operands of equal shapes; they are not broadcast."""
        if shapes[0] != shapes[1]:
            raise ShapeError(
                f"{operator}: sparse operands must have equal shapes, not {shapes[0]} and {shapes[1]}; they are not "
                "broadcast, so convert first: x.to(layout='strided')"
            )

    return check


def sparse_result(sparse: int) -> Check:
    """What kernels take that multiply a sparse operand, the first or the second, with a strided one."""

    def check(shapes: Any) -> None:
        """A strided operand that broadcasts to the sparse one's shape."""
        have, other, shape = shapes[sparse], shapes[1 - sparse], rules.broadcast_shapes(*shapes)
        if shape != have:
            raise LayoutError(
                f"multiply: a sparse operand of shape {have} and a strided one of shape {other} broadcast to {shape}; "
                "the result must have the sparse operand's shape, so convert it first: x.to(layout='strided')"
            )

    return check


def strided_result(operator: str, sparse: int) -> Check:
    """What kernels take that add a strided operand to a sparse one, the first or the second."""

    def check(shapes: Any, *, target: Key) -> None:
        """A strided operand of the result's shape; a smaller one, or a number, would make a result that is dense."""
        have, other, shape = shapes[sparse], shapes[1 - sparse], rules.broadcast_shapes(*shapes)
        if other != shape:  # which would cost memory that nobody has yet
            beside = f"a strided one of shape {other}" if other else "a number"
            raise LayoutError(
                f"{operator}: a sparse operand of shape {have} and {beside} give a strided result of shape {shape}, which "
                f"needs {sized(math.prod(shape) * target.dtype.itemsize)}; to allow it convert first: x.to(layout='strided')"
            )

    return check


def _merge(x1: COO, x2: COO, ufunc: Any) -> COO:
    """Union of both patterns; a stored zero stays stored, and so does a sum that comes to zero."""
    x1, x2 = coalesce(x1), coalesce(x2)
    if same_pattern(x1, x2):
        return x1.with_values(apply(ufunc, x1.values, x2.values))
    second = x2.values if ufunc is np.add else np.negative(x2.values)
    joined = np.concatenate([x1.indices, x2.indices], axis=1)
    return coalesce(COO(x1.shape, joined, np.concatenate([x1.values, second]), False))


def add_sparse(x1: COO, x2: COO) -> COO:
    """Sum on the union of both patterns."""
    return _merge(x1, x2, np.add)


def subtract_sparse(x1: COO, x2: COO) -> COO:
    """Difference on the union of both patterns."""
    return _merge(x1, x2, np.subtract)


def add_sparse_dense(x1: COO, x2: Array) -> Any:
    """Strided sum."""
    return apply(np.add, densify(x1), x2)


def add_dense_sparse(x1: Array, x2: COO) -> Any:
    """Strided sum."""
    return apply(np.add, x1, densify(x2))


def subtract_sparse_dense(x1: COO, x2: Array) -> Any:
    """Strided difference."""
    return apply(np.subtract, densify(x1), x2)


def subtract_dense_sparse(x1: Array, x2: COO) -> Any:
    """Strided difference."""
    return apply(np.subtract, x1, densify(x2))


def negative(x: COO) -> COO:
    """The negative of each value; linear, so duplicates may stay."""
    return x.with_values(apply(np.negative, x.values))


def on_stored(row: Row) -> Callable[[COO], COO] | None:
    """A kernel for an elementwise operator of one operand with f(0) = 0; ``None`` for other operators.

    It calls the operator on the stored values as a strided tensor: whatever is elementwise and computes there computes here.
    """
    if not row.zero_preserving or row.kind != "elementwise" or len(row.params) != 1:
        return None

    def kernel(x: COO) -> COO:
        x = coalesce(x)
        return x.with_values(payload(row.call(strided_tensor(x.values))))

    kernel.__name__ = f"{row.name}_on_stored"
    return kernel


def strided_tensor(values: Array) -> Tensor:
    """A tensor of an array of this plugin."""
    return wrap(key(tp.Device("cpu"), strided, dtype_of(values)), values)


def dtype_of(values: Array) -> DType:
    """The dtype of an array's elements."""
    found: DType = getattr(tp, values.dtype.name)
    return found


def stored(s: COO) -> Array:
    """The values of the canonical form."""
    return coalesce(s).values


def restored(values: Array, pattern: COO) -> COO:
    """Values on the positions of the canonical form of ``pattern``."""
    pattern = coalesce(pattern)
    if values.shape != (pattern.nnz,):
        raise ShapeError(f"{pattern.nnz} positions are stored, and the values have shape {values.shape}")
    return pattern.with_values(values.copy())


# Reduction and structure ---------------------------------------------------------------------------------------------


def sum_axes(x: COO, *, axis: Shape, keepdims: bool, target: Key) -> Array:
    """Strided sums over axes, in the result's dtype."""
    check_positions(x.indices, x.shape)
    x = coalesce(x)  # before the dtype widens: bool and small integers add up to another number in a wider dtype
    dtype = numpy_dtype(target.dtype)
    kept = [i for i in range(len(x.shape)) if i not in axis]
    part = COO(tuple(x.shape[i] for i in kept), x.indices[kept], x.values.astype(dtype), x.nnz == 0 or not axis)
    out = densify(part)
    return out.reshape(tuple(1 if i in axis else s for i, s in enumerate(x.shape))) if keepdims else out


def extreme(ufunc: Any) -> Callable[..., Array]:
    """A kernel of ``max`` or ``min``: strided results over axes, in which what is not stored counts as 0."""

    def kernel(x: COO, *, axis: Shape, keepdims: bool) -> Array:
        check_positions(x.indices, x.shape)
        x = coalesce(x)
        kept = [i for i in range(len(x.shape)) if i not in axis]
        order, starts = runs(x.indices[kept])
        values = x.values[order]
        found = apply(ufunc.reduceat, values, starts) if len(starts) else values
        gaps = np.diff(starts, append=x.nnz) < math.prod(x.shape[i] for i in axis)
        found[gaps] = apply(ufunc, found[gaps], found.dtype.type(0))
        out = densify(COO(tuple(x.shape[i] for i in kept), x.indices[kept][:, order[starts]], found, True))
        return out.reshape(tuple(1 if i in axis else s for i, s in enumerate(x.shape))) if keepdims else out

    kernel.__name__ = f"{ufunc.__name__}_axes"
    return kernel


def permute_dims(x: COO, *, axes: Shape) -> COO:
    """Axes reordered; the entries stay in their order."""
    return make(tuple(x.shape[a] for a in axes), x.indices[list(axes)], x.values)


def matrix_transpose(x: COO) -> COO:
    """The last two axes exchanged."""
    count = len(x.shape)
    return permute_dims(x, axes=(*range(count - 2), count - 1, count - 2))
