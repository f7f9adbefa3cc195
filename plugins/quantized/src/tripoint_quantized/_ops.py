"""Operators into and out of quantized dtypes."""

from __future__ import annotations

import math
from typing import Any

import tripoint as tp
from tripoint.errors import ArgumentError, DTypeError
from tripoint.plugin import DType, DTypeRule, Tensor, composite, operators, primitive
from tripoint_quantized._affine import Affine, Shape

_operators = operators()
_conv2d_input, _conv2d_weight = _operators["conv2d_input"], _operators["conv2d_weight"]


def _encoded(operator: str, dtypes: Any, keyed: dict[str, Any]) -> Any:
    return (None,) * len(dtypes), keyed["dtype"]


def _first(operator: str, dtypes: Any, keyed: dict[str, Any]) -> Any:
    return (None,) * len(dtypes), dtypes[0]


def _same(shapes: Any, **meta: Any) -> Any:
    return shapes[0]


def _fitted(shapes: Any, *, quantizer: Affine, **meta: Any) -> Any:
    quantizer.fit(shapes[0])
    return shapes[0]


# The plan depends on the dtype alone, so the quantizer is no part of its key: a new scale makes no new plan.
@primitive(
    namespace="quantized",
    dtype=DTypeRule("encoded", _encoded, True),
    shape=_fitted,
    keyed=("dtype",),
    target=("dtype",),
)
def encode(x: Tensor, /, *, quantizer: Affine, dtype: DType) -> Tensor:
    """``x`` in the quantized ``dtype``, by a quantizer of that dtype; what `quantize` calls."""
    raise NotImplementedError


@primitive(namespace="quantized", dtype=DTypeRule("first", _first, True), shape=_same)
def pass_inside(g: Tensor, x: Tensor, /, *, quantizer: Affine) -> Tensor:
    """``g`` where quantizing ``x`` does not clamp, 0 elsewhere."""
    raise NotImplementedError


@primitive(namespace="quantized", dtype=DTypeRule("first", _first, True), shape=_same)
def rounded(x: Tensor, /) -> Tensor:
    """The numbers that a product with a quantized operand computes with in place of the float32 ``x``."""
    raise NotImplementedError


@composite(namespace="quantized")
def quantize(x: Tensor, /, quantizer: Affine) -> Tensor:
    """The nearest values that a quantizer can hold.

    ``x`` is divided by the scale in float32 and rounded half to even; then the zero point is added and the result clamped
    to the range of the dtype. NaN becomes the zero point, an infinity the end of the range. The gradient passes unchanged
    where nothing was clamped and is 0 elsewhere.

    Args:
        x: real numbers, on ``cpu.strided``.
        quantizer: made by `tripoint.affine`; per-channel ones have as many channels as ``x`` along their axis.

    Raises:
        ArgumentError: not a quantizer.
        ShapeError: another number of channels.
    """
    if not isinstance(quantizer, Affine):
        raise ArgumentError(f"quantize takes a quantizer such as tripoint.affine(scale=0.1), not {quantizer!r}")
    return encode(x, quantizer=quantizer, dtype=quantizer.dtype)


@composite(namespace="quantized")
def dequantize(q: Tensor, /) -> Tensor:
    """The numbers that a quantized tensor holds, as ``q.to(dtype=tripoint.float32)``.

    Raises:
        DTypeError: ``q`` is not quantized.
    """
    if q.dtype.is_plain:
        raise DTypeError(f"dequantize takes a quantized tensor, not {q.dtype}")
    return tp.to(q, dtype=q.dtype.plain)


def held(x: Tensor) -> Tensor:
    """The numbers that a product computes with: those that a quantized tensor holds, or a float32 one rounded to 8 bits."""
    return rounded(x) if x.dtype.is_plain else dequantize(x)


def matmul_x1(g: Tensor, x1_shape: Shape, x2: Tensor) -> Tensor:
    """Gradient of a product by its first operand: the product with the numbers that the second one holds."""
    b = held(x2)
    if b.ndim == 1:
        return tp.multiply(g if len(x1_shape) == 1 else tp.expand_dims(g, axis=-1), b)
    if len(x1_shape) == 1:
        return tp.squeeze(tp.matmul(tp.expand_dims(g, axis=-2), tp.matrix_transpose(b)), -2)
    return tp.matmul(g, tp.matrix_transpose(b))


def matmul_x2(g: Tensor, x2_shape: Shape, x1: Tensor) -> Tensor:
    """Gradient of a product by its second operand."""
    a = held(x1)
    if a.ndim == 1:
        return (
            tp.multiply(g, a)
            if len(x2_shape) == 1
            else tp.multiply(tp.expand_dims(g, axis=-2), tp.expand_dims(a, axis=-1))
        )
    if len(x2_shape) == 1:
        return tp.squeeze(tp.matmul(tp.matrix_transpose(a), tp.expand_dims(g, axis=-1)), -1)
    return tp.matmul(tp.matrix_transpose(a), g)


def linear_x(g: Tensor, weight: Tensor) -> Tensor:
    """Gradient of `linear` by its input; that the input was rounded to 8 bits has no slope of its own."""
    return tp.matmul(g, dequantize(weight))


def linear_weight(g: Tensor, x: Tensor) -> Tensor:
    """Gradient of `linear` by its weight (out, in)."""
    count = math.prod(x.shape[:-1])
    rows = tp.reshape(g, (count, g.shape[-1]))
    return tp.matmul(tp.matrix_transpose(rows), tp.reshape(held(x), (count, x.shape[-1])))


def conv2d_x(
    g: Tensor, weight: Tensor, x_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Gradient of `conv2d` by its images."""
    return _conv2d_input(  # type: ignore[no-any-return]
        g, dequantize(weight), input_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv2d_weight(
    g: Tensor, x: Tensor, weight_shape: Shape, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Gradient of `conv2d` by its kernels."""
    return _conv2d_weight(  # type: ignore[no-any-return]
        g, held(x), weight_shape=weight_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def permute_back(g: Tensor, axes: Shape) -> Tensor:
    """Gradient of reordered axes: the axes in their old order."""
    return tp.permute_dims(g, tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def getitem_back(g: Tensor, x_shape: Shape, key: Any) -> Tensor:
    """Gradient of reading a part: zeros elsewhere."""
    out = tp.zeros(x_shape, dtype=g.dtype, device=g.device)
    out[key] = g
    return out
