"""Quantized integer tensors on the CPU. Owns the dtypes ``qint8`` and ``quint8`` on ``cpu.strided``."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.plugin import Backend, Capabilities, DType, Pattern, real, strided
from tripoint_quantized import _affine, _kernels, _ops, _products
from tripoint_quantized._affine import Affine as Affine
from tripoint_quantized._affine import QuantizerError as QuantizerError
from tripoint_quantized._dtypes import qint8 as qint8
from tripoint_quantized._dtypes import quint8 as quint8
from tripoint_quantized._kernels import Quantized
from tripoint_quantized._ops import dequantize as dequantize
from tripoint_quantized._ops import quantize as quantize

__all__ = ["Affine", "QuantizerError", "affine", "backend", "dequantize", "qint8", "quantize", "quint8"]


def affine(scale: Any, zero_point: Any = 0, dtype: DType = qint8, axis: int | None = None) -> Affine:
    """A quantizer by which an integer ``n`` stands for ``scale * (n - zero_point)``.

    Args:
        scale: finite and above 0, kept as float32; with ``axis`` one per channel.
        zero_point: the integer that stands for 0, in the range of ``dtype``; with ``axis`` one, or one per channel.
        dtype: ``tripoint.qint8`` (-128..127) or ``tripoint.quint8`` (0..255).
        axis: along which channels lie; a negative one counts from the end. No channels at all are legal.

    Raises:
        QuantizerError: a scale that is 0, negative, infinite or NaN.
        ScalarRangeError: a zero point out of range.
        ShapeError: lengths that differ, or a list without ``axis``.
        ArgumentError: no number, a zero point that is no integer, or an axis that is no int.
        DTypeError: not a dtype of this plugin.
    """
    return _affine.make(scale, zero_point, dtype, axis, (qint8, quint8))


def _describe(q: Quantized) -> dict[str, Any]:
    array = q.ints
    return {
        "dtype": q.quantizer.dtype,
        "address": array.__array_interface__["data"][0],
        "nbytes": array.nbytes,
        "strides": array.strides,  # one byte an element
        "readonly": True,
    }


backend = Backend(
    "cpu",
    strided,
    (qint8, quint8),
    payload=Quantized,
    describe=_describe,
    aliases=lambda out, x: np.may_share_memory(out.ints, x.ints),
    decode=_kernels.dequantize,
    encode=_kernels.requantize,
    cheap=False,
    frozen=True,
    summary=_kernels.summary,
    capabilities=Capabilities(
        nonfinite=False,
        make="tp.quantize({x}, tp.affine(0.25, {'qint8': 3, 'quint8': 131}['{dtype}'], dtype='{dtype}'))",
        lacks={
            "*": "not computed on quantized integers; dequantize first, x.dequantize()",
            "from_data": "a quantized tensor needs a quantizer: tp.quantize(x, tp.affine(...))",
        },
    ),
)

_FLOAT = Pattern("cpu", "strided", "float32")
_REAL = Pattern("cpu", "strided", real)
backend.to(_FLOAT)(_kernels.dequantize)
backend.kernels(
    copy=_kernels.copy,
    reshape=_kernels.reshape,
    permute_dims=_kernels.permute_dims,
    matrix_transpose=_kernels.matrix_transpose,
    getitem=_kernels.getitem,
    expand_dims=_kernels.expand_dims,
    squeeze=_kernels.squeeze,
    flip=_kernels.flip,
    to_text=_kernels.to_text,
)
for _one in (qint8, quint8):
    backend.kernel(_ops.encode, args=(_REAL, _one))(_kernels.quantize)
    # The core's derivatives are for plain dtypes; gradients of quantized tensors are float32.
    backend.derivative("to", args=(_one, _FLOAT), x=lambda g: g)
    backend.derivative("copy", args=(_one,), x=lambda g: g)
    backend.derivative("reshape", args=(_one,), x=lambda g, x_shape: tp.reshape(g, x_shape))
    backend.derivative("permute_dims", args=(_one,), x=_ops.permute_back)
    backend.derivative("matrix_transpose", args=(_one,), x=lambda g: tp.matrix_transpose(g))
    backend.derivative("getitem", args=(_one,), x=_ops.getitem_back)
    backend.derivative("expand_dims", args=(_one,), x=lambda g, x_shape: tp.reshape(g, x_shape))
    backend.derivative("squeeze", args=(_one,), x=lambda g, x_shape: tp.reshape(g, x_shape))
    backend.derivative("flip", args=(_one,), x=lambda g, axis: tp.flip(g, axis=axis))
    # float32 with quantized weights: the floats are quantized per call. Shapes are checked before, by the operator's rule.
    for _args, _mixed in (
        ((_FLOAT, _one), _products.matmul_float_quantized),
        ((_one, _FLOAT), _products.matmul_quantized_float),
    ):
        backend.kernel("matmul", args=_args, out=tp.float32)(_mixed)
        backend.derivative("matmul", args=_args, x1=_ops.matmul_x1, x2=_ops.matmul_x2)
    _weighted = (_FLOAT, _one, _FLOAT)
    backend.kernel("linear", args=_weighted, out=tp.float32, check_first=True)(_products.linear)
    backend.derivative(
        "linear",
        args=_weighted,
        x=_ops.linear_x,
        weight=_ops.linear_weight,
        bias=lambda g: g,
    )
    backend.kernel("conv2d", args=_weighted, out=tp.float32, check_first=True)(_products.conv2d)
    backend.derivative(
        "conv2d", args=_weighted, x=_ops.conv2d_x, weight=_ops.conv2d_weight, bias=lambda g: tp.sum(g, axis=(0, 2, 3))
    )
for _a, _b in product((qint8, quint8), repeat=2):
    backend.kernel("matmul", args=(_a, _b), out=tp.float32)(_products.matmul)
    backend.derivative("matmul", args=(_a, _b), x1=_ops.matmul_x1, x2=_ops.matmul_x2)
backend.kernel(_ops.rounded, args=(_FLOAT,))(_products.rounded)
backend.derivative(_ops.rounded, x=lambda g: g)
backend.kernel(_ops.pass_inside, args=(_REAL, _REAL))(_kernels.pass_inside)
backend.derivative(_ops.encode, x=lambda g, x, quantizer: _ops.pass_inside(g, x, quantizer=quantizer))
backend.derivative(
    _ops.pass_inside,
    g=lambda v, x, quantizer: _ops.pass_inside(v, x, quantizer=quantizer),
    x=lambda v: None,  # the edges of the range are no slope
)
