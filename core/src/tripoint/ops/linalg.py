"""Products of matrices."""

from __future__ import annotations

from typing import Any

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.dispatcher.declare import composite, primitive
from tripoint.ops.manipulation import matrix_transpose
from tripoint.tensor import Tensor


@primitive(dtype=rules.promoted(dt.numeric), shape=rules.matmul, kind="product", minimal=True)
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product, by the array API standard: 1-d operands are vectors, leading axes broadcast as stacks.

    Raises:
        ShapeError: a 0-d operand, inner sizes that differ, or stacks that do not broadcast together.
        DTypeError: bools, or no dtype holds both.
    """


def _nt_shape(shapes: Any, **meta: Any) -> tuple[int, ...]:
    return rules.matmul((shapes[0], rules.transposed(shapes[1:])))


def _tn_shape(shapes: Any, **meta: Any) -> tuple[int, ...]:
    return rules.matmul((rules.transposed(shapes[:1]), shapes[1]))


@composite(dtype=rules.promoted(dt.numeric), shape=_nt_shape, kind="product")
def matmul_nt(x1: Tensor, x2: Tensor, /) -> Tensor:
    """``x1 @ x2.mT``: what the derivative of a product by its first operand takes, without making the view."""
    return matmul(x1, matrix_transpose(x2))


@composite(dtype=rules.promoted(dt.numeric), shape=_tn_shape, kind="product")
def matmul_tn(x1: Tensor, x2: Tensor, /) -> Tensor:
    """``x1.mT @ x2``: what the derivative of a product by its second operand takes, without making the view."""
    return matmul(matrix_transpose(x1), x2)
