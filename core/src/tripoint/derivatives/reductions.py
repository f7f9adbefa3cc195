"""Derivatives of reductions."""

from __future__ import annotations

from tripoint import rules
from tripoint.derivatives.manipulation import inverse
from tripoint.kernels import derivative
from tripoint.ops import reductions as ops
from tripoint.ops.conversion import astype
from tripoint.ops.creation import ones
from tripoint.ops.elementwise import divide, equal, isnan, logical_or, multiply, where
from tripoint.ops.indexing import getitem
from tripoint.ops.manipulation import concat, flip, permute_dims, reshape
from tripoint.ops.reductions import sum as sum_
from tripoint.tensor import Tensor

Shape = tuple[int, ...]


def _kept(g: Tensor, shape: Shape, axis: Shape, keepdims: bool) -> Tensor:
    """``g`` with the reduced axes back as axes of size 1; the engine broadcasts it up."""
    return g if keepdims or not shape else reshape(g, rules.reduced((shape,), axis=axis, keepdims=True))


derivative(ops.sum, x=lambda g, x_shape, axis, keepdims: _kept(g, x_shape, axis, keepdims))


def _extreme(g: Tensor, x: Tensor, out: Tensor, axis: Shape, keepdims: bool) -> Tensor:
    chosen = equal(x, _kept(out, x.shape, axis, keepdims))
    if x.dtype.gradient is not None:
        chosen = logical_or(chosen, isnan(x))
    count = astype(sum_(chosen, axis=axis, keepdims=True), g.dtype)
    return where(chosen, divide(_kept(g, x.shape, axis, keepdims), count), 0.0)


derivative(ops.max, x=_extreme)
derivative(ops.min, x=_extreme)


def _before(x: Tensor) -> Tensor:
    """Along the last axis, the product of all elements before each: a scan in log2(n) steps."""
    ahead = ones((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)
    out = concat([ahead, getitem(x, (..., slice(0, -1)))], axis=-1)
    step = 1
    while step < x.shape[-1]:
        kept, moved = getitem(out, (..., slice(0, step))), getitem(out, (..., slice(0, -step)))
        out = concat([kept, multiply(getitem(out, (..., slice(step, None))), moved)], axis=-1)
        step *= 2
    return out


def _prod(g: Tensor, x: Tensor, axis: Shape, keepdims: bool) -> Tensor:
    # The slope by each factor is the product of the others. Dividing by the factor would fail at zeros, and where it is
    # special-cased there, its own slopes are lost; products before and after each factor have all orders of slopes.
    shape = x.shape
    if not axis or not x.size:
        return _kept(g, shape, axis, keepdims)
    rest = tuple(i for i in range(len(shape)) if i not in axis)
    order = (*rest, *axis)
    moved = permute_dims(x, order)
    line = reshape(moved, (*[shape[i] for i in rest], -1))
    slope = multiply(_before(line), flip(_before(flip(line, axis=-1)), axis=-1))
    back = permute_dims(reshape(slope, moved.shape), inverse(order))
    return multiply(_kept(g, shape, axis, keepdims), back)


derivative(ops.prod, x=_prod)
