"""Products of matrices."""

from __future__ import annotations

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.dispatcher.declare import primitive
from tripoint.tensor import Tensor


@primitive(dtype=rules.promoted(dt.numeric), shape=rules.matmul, kind="product", minimal=True)
def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product, by the array API standard: 1-d operands are vectors, leading axes broadcast as stacks.

    Raises:
        ShapeError: a 0-d operand, or inner sizes that differ.
    """
