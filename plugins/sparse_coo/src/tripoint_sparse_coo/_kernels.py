"""Kernels over COO payloads, products left out: plain functions that never change an operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.errors import DTypeError, LayoutError, ShapeError, SizeError
from tripoint.plugin import DType, Key, Row, Tensor, key, payload, strided, wrap
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
    """The pattern of the sparse operand with its values multiplied; what is not stored stays zero.

    Raises:
        LayoutError: the strided operand would enlarge the result beyond the sparse operand's shape.
    """
    if (shape := _broadcast(x1.shape, x2.shape)) != x1.shape:
        raise LayoutError(
            f"multiply: a sparse operand of shape {x1.shape} and a strided one of shape {x2.shape} broadcast to {shape}; "
            "the result must have the sparse operand's shape, so convert it first: x.to(layout='strided')"
        )
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
    _same_shape("multiply", x1.shape, x2.shape)
    x1, x2 = coalesce(x1), coalesce(x2)
    if same_pattern(x1, x2):
        return x1.with_values(apply(np.multiply, x1.values, x2.values))
    at = locate(x1.indices, x2.indices)
    found = at >= 0
    values = apply(np.multiply, x1.values[found], x2.values[at[found]])
    return COO(x1.shape, x1.indices[:, found], values, True)


def _broadcast(a: Shape, b: Shape) -> Shape:
    """The shape that both broadcast to; NumPy's function refuses shapes of more than 2**63 elements."""
    count = max(len(a), len(b))
    out = []
    for s, t in zip((1,) * (count - len(a)) + a, (1,) * (count - len(b)) + b, strict=True):
        if s != t and 1 not in (s, t):
            raise ShapeError(f"shapes {a} and {b} do not broadcast: sizes {s} and {t} of one axis must be equal or 1")
        out.append(t if s == 1 else s)
    return tuple(out)


def _same_shape(name: str, a: Shape, b: Shape) -> None:
    if a != b:
        raise ShapeError(f"{name}: sparse operands must have equal shapes, not {a} and {b}; they are not broadcast")


def _merge(name: str, x1: COO, x2: COO, ufunc: Any) -> COO:
    """Union of both patterns; a stored zero stays stored, and so does a sum that comes to zero."""
    _same_shape(name, x1.shape, x2.shape)
    x1, x2 = coalesce(x1), coalesce(x2)
    if same_pattern(x1, x2):
        return x1.with_values(apply(ufunc, x1.values, x2.values))
    second = x2.values if ufunc is np.add else np.negative(x2.values)
    joined = np.concatenate([x1.indices, x2.indices], axis=1)
    return coalesce(COO(x1.shape, joined, np.concatenate([x1.values, second]), False))


def add_sparse(x1: COO, x2: COO) -> COO:
    """Sum on the union of both patterns."""
    return _merge("add", x1, x2, np.add)


def subtract_sparse(x1: COO, x2: COO) -> COO:
    """Difference on the union of both patterns."""
    return _merge("subtract", x1, x2, np.subtract)


def _densified(name: str, x: COO, other: Array) -> Array:
    """The sparse operand of a sum as a strided array, which the result is as well.

    Raises:
        LayoutError: the strided operand is smaller than the result, which would then cost memory nobody has yet.
    """
    shape = _broadcast(x.shape, other.shape)
    if other.shape != shape:
        size = math.prod(shape) * other.itemsize
        raise LayoutError(
            f"{name}: a sparse operand of shape {x.shape} and a strided one of shape {other.shape} give a strided result "
            f"of shape {shape}, which needs {_bytes(size)}; to allow it convert first: x.to(layout='strided')"
        )
    return densify(x)


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count, unit = count / 1024, "TiB"
    return f"{count:.3g} {unit}"


def add_sparse_dense(x1: COO, x2: Array) -> Any:
    """Strided sum."""
    return apply(np.add, _densified("add", x1, x2), x2)


def add_dense_sparse(x1: Array, x2: COO) -> Any:
    """Strided sum."""
    return apply(np.add, x1, _densified("add", x2, x1))


def subtract_sparse_dense(x1: COO, x2: Array) -> Any:
    """Strided difference."""
    return apply(np.subtract, _densified("subtract", x1, x2), x2)


def subtract_dense_sparse(x1: Array, x2: COO) -> Any:
    """Strided difference."""
    return apply(np.subtract, x1, _densified("subtract", x2, x1))


def negative(x: COO) -> COO:
    """The negative of each value; linear, so duplicates may stay."""
    return x.with_values(apply(np.negative, x.values))


def on_stored(row: Row) -> Callable[[COO], COO] | None:
    """A kernel for an elementwise operator of one operand with f(0) = 0; ``None`` for other operators.

    It calls the operator on the stored values as a strided tensor: whatever is elementwise and computes there computes here.
    """
    if not row.zero_preserving or row.kind != "elementwise" or len(row.params) != 1 or row.name == "negative":
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
