"""Derivatives of products of matrices."""

from __future__ import annotations

from tripoint.kernels import derivative
from tripoint.ops.elementwise import multiply
from tripoint.ops.linalg import matmul, matmul_nt, matmul_tn
from tripoint.ops.manipulation import expand_dims, matrix_transpose, squeeze
from tripoint.tensor import Tensor

Shape = tuple[int, ...]


def _x1(g: Tensor, x1_shape: Shape, x2: Tensor) -> Tensor:
    if x2.ndim == 1:
        return multiply(g if len(x1_shape) == 1 else expand_dims(g, axis=-1), x2)
    if len(x1_shape) == 1:
        return squeeze(matmul(expand_dims(g, axis=-2), matrix_transpose(x2)), -2)
    return matmul_nt(g, x2)


def _x2(g: Tensor, x2_shape: Shape, x1: Tensor) -> Tensor:
    if x1.ndim == 1:
        return multiply(g, x1) if len(x2_shape) == 1 else multiply(expand_dims(g, axis=-2), expand_dims(x1, axis=-1))
    if len(x2_shape) == 1:
        return squeeze(matmul(matrix_transpose(x1), expand_dims(g, axis=-1)), -1)
    return matmul_tn(x1, g)


derivative(matmul, x1=_x1, x2=_x2)
