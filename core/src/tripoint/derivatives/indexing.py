"""Derivatives of reading and writing parts."""

from __future__ import annotations

from tripoint.kernels import derivative, passes
from tripoint.ops import indexing as ops

derivative(ops.getitem, x=lambda g, x_shape, key: ops.getitem_back(g, shape=x_shape, key=key))
derivative(ops.getitem_back, g=lambda g, key: ops.getitem(g, key))
derivative(ops.take, x=lambda g, x_shape, indices, axis: ops.take_back(g, indices, shape=x_shape, axis=axis))
derivative(ops.take_back, g=lambda g, indices, axis: ops.take(g, indices, axis=axis))
derivative(ops.assign, x1=lambda g: None, x2=passes)
