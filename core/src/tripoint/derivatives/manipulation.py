"""Derivatives of operators that change shapes."""

from __future__ import annotations

from tripoint.kernels import derivative, passes
from tripoint.ops import manipulation as ops
from tripoint.ops.indexing import getitem
from tripoint.tensor import Tensor


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that takes axes back to where they were."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


derivative(ops.reshape, x=lambda g, x_shape: ops.reshape(g, x_shape))
derivative(ops.permute_dims, x=lambda g, axes: ops.permute_dims(g, inverse(axes)))
derivative(ops.matrix_transpose, x=lambda g: ops.matrix_transpose(g))
derivative(ops.expand_dims, x=lambda g, axis: ops.squeeze(g, axis))
derivative(ops.squeeze, x=lambda g, axis: ops.expand_dims(g, axis=axis))
derivative(ops.broadcast_to, x=passes)
derivative(ops.flip, x=lambda g, axis: ops.flip(g, axis=axis))


def _parts(g: Tensor, arrays_shape: tuple[tuple[int, ...], ...], axis: int) -> list[Tensor]:
    out, start = [], 0
    for shape in arrays_shape:
        stop = start + shape[axis]
        out.append(getitem(g, (slice(None),) * axis + (slice(start, stop),)))
        start = stop
    return out


derivative(ops.concat, arrays=_parts)
