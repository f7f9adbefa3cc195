"""Derivatives of reductions."""

from __future__ import annotations

from tripoint import rules
from tripoint.kernels import derivative
from tripoint.ops import reductions as ops
from tripoint.ops.conversion import astype
from tripoint.ops.elementwise import divide, equal, isnan, logical_or, multiply, where
from tripoint.ops.manipulation import reshape
from tripoint.ops.reductions import prod
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


def _prod(g: Tensor, x: Tensor, axis: Shape, keepdims: bool) -> Tensor:
    # Dividing the product by each factor fails at zeros: beside one zero only its own slope is left, beside two none.
    zero = equal(x, 0)
    safe = where(zero, 1.0, x)
    others = prod(safe, axis=axis, keepdims=True)
    zeros = sum_(zero, axis=axis, keepdims=True)
    slope = where(
        zero,
        where(equal(zeros, 1), others, 0.0),
        where(equal(zeros, 0), divide(others, safe), 0.0),
    )
    return multiply(_kept(g, x.shape, axis, keepdims), slope)


derivative(ops.prod, x=_prod)
