"""Products of quantized operands: sums are exact integers, rounded once when they are scaled to float32.

A float32 operand of a product is quantized for the call, see `observed`. Nothing here changes an operand.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tripoint.errors import DTypeError
from tripoint_dense_cpu import window_extent
from tripoint_quantized._affine import Affine, Array
from tripoint_quantized._dtypes import qint8
from tripoint_quantized._kernels import Quantized, dequantize, permute_dims, quantize

Pair = tuple[int, int]

#: elements of the windows and sums that a convolution makes at a time, to stay in cache and out of page faults.
BLOCK = 1 << 16

# Activations ---------------------------------------------------------------------------------------------------------


def observed(x: Array) -> Affine:
    """The qint8 quantizer that spans the finite elements of ``x`` and 0, and holds 0 exactly."""
    low, high = _ends(x)
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = _ends(x[np.isfinite(x)])
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / 255
    scale = np.float32(step) if step else np.float32(1)
    if float(scale) < step:  # rounded up, lest the ends lie outside of the range; matters among subnormal numbers
        scale = np.nextafter(scale, np.float32(np.inf))
    zero_point = round(-128 - low / float(scale))
    return Affine(np.array(scale), np.array(zero_point, np.int32), qint8, None)


def _ends(x: Array) -> tuple[float, float]:
    if not x.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        return float(x.min()), float(x.max())


def activations(x: Array) -> Quantized:
    """``x`` in 8 bits. NaN becomes 0, and an infinity the nearer end of what the finite elements span."""
    return quantize(x, quantizer=observed(x))


def rounded(x: Array) -> Array:
    """The numbers that a product with a quantized operand computes with in place of ``x``."""
    return dequantize(activations(x))


# Sums ----------------------------------------------------------------------------------------------------------------


def _accumulate(a: Array, b: Array) -> Array:
    """The exact integer product of 8-bit matrices.

    BLAS multiplies blocks as float32, short enough for every partial sum to be at most 2**24 and so exact; the blocks are
    added as integers.
    """
    largest = [128 if v.dtype == np.int8 else 255 for v in (a, b)]
    block = 1 << (((1 << 24) // (largest[0] * largest[1])).bit_length() - 1)
    k = a.shape[-1]
    # Below this length all terms of the product with its zero points fit in 32 bits.
    wide = np.int32 if k <= 8192 else np.int64
    at = 0
    out: Array | None = None
    while out is None or at < k:
        left, right = a[..., at : at + block], b[..., at : at + block, :]
        part = np.matmul(left.astype(np.float32), right.astype(np.float32)).astype(wide)
        out = part if out is None else np.add(out, part, out=out)
        at += block
    return out


def _exact(a: Array, za: Array, b: Array, zb: Array) -> Array:
    """``(a - za) @ (b - zb)`` in integers; zero points broadcast against (m, 1) and (1, n)."""
    total = _accumulate(a, b)
    za, zb = za.astype(total.dtype), zb.astype(total.dtype)
    # sum (a - za) (b - zb), multiplied out; the last two terms are a column, unless zero points differ by column
    if za.any():
        total -= za * b.sum(axis=-2, keepdims=True, dtype=total.dtype)
    if zb.any():
        total += zb * (a.shape[-1] * za - a.sum(axis=-1, keepdims=True, dtype=total.dtype))
    return total


def _scaled(total: Array, first: Array, second: Array, bias: Array | None) -> Array:
    """float32 ``total * first * second + bias``, computed in float64, where the product of two scales is exact."""
    with np.errstate(all="ignore"):
        out = np.multiply(total, np.multiply(first, second, dtype=np.float64))
        if bias is not None:
            out += bias
        return out.astype(np.float32)


# Products ------------------------------------------------------------------------------------------------------------


def matmul(x1: Quantized, x2: Quantized, bias: Array | None = None) -> Array:
    """float32 product of the numbers that the integers stand for.

    Raises:
        DTypeError: channels along an axis that is summed or stacked.
    """
    for name, q, axis in (("x1", x1, None), ("x2", x2, x2.ints.ndim - 1)):
        own = q.quantizer.axis
        if own is not None and (own != axis or q.ints.ndim < 2):
            raise DTypeError(
                f"matmul takes x1 with one scale and x2 with one or one per column; {name} of shape {q.shape} has channels "
                f"along axis {own}; dequantize it first"
            )
    a = x1.ints if x1.ints.ndim > 1 else x1.ints[None, :]
    b = x2.ints if x2.ints.ndim > 1 else x2.ints[:, None]
    if a.shape[-1] != b.shape[-2]:
        raise ValueError("inner sizes")  # the operator's shape rule words it
    first, second = x1.quantizer, x2.quantizer
    out = _scaled(_exact(a, first.zero_points, b, second.zero_points), first.scales, second.scales, bias)
    if x1.ints.ndim == 1:
        out = out[..., 0, :]
    return out[..., 0] if x2.ints.ndim == 1 else out


def matmul_float_quantized(x1: Array, x2: Quantized) -> Array:
    """As `matmul`, the first operand quantized for this call."""
    return matmul(activations(x1), x2)


def matmul_quantized_float(x1: Quantized, x2: Array) -> Array:
    """As `matmul`, the second operand quantized for this call."""
    return matmul(x1, activations(x2))


def _outputs(name: str, weight: Quantized) -> None:
    axis = weight.quantizer.axis
    if axis not in (None, 0):
        raise DTypeError(
            f"{name} takes weights with one scale or one per output, axis 0; the weight of shape {weight.shape} has channels "
            f"along axis {axis}; dequantize it first"
        )


def linear(x: Array, weight: Quantized, bias: Array | None) -> Array:
    """float32 ``x @ weight.T + bias``, with ``x`` quantized for this call.

    Raises:
        DTypeError: the weight has channels along its inputs.
    """
    _outputs("linear", weight)
    return matmul(activations(x), permute_dims(weight, axes=(1, 0)), bias)


def conv2d(
    x: Array, weight: Quantized, bias: Array | None, *, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    """float32 cross-correlation, with the images ``x`` quantized for this call and padded by exact zeros.

    Raises:
        DTypeError: the weight has channels along another axis than its outputs.
    """
    _outputs("conv2d", weight)
    images, own = activations(x), weight.quantizer
    (n, _, h, w), (o, cg, kh, kw) = x.shape, weight.shape
    oh, ow = window_extent((h, w), (kh, kw), stride, padding, dilation)
    rows, k, pixels = o // groups, cg * kh * kw, oh * ow
    matrix = weight.ints.reshape(groups, rows, k)
    # One number each, or one per output as a column beside the matrix.
    column = (groups, rows, 1) if own.axis == 0 else ()
    scales, zero_points = own.scales.reshape(column), own.zero_points.reshape(column)
    added = None if bias is None else bias.reshape(groups, rows, 1)
    out = np.empty((n, o, oh, ow), np.float32)
    step = max(1, BLOCK // max(1, groups * (k + rows) * pixels))
    for at in range(0, n, step):
        windows = _windows(images, slice(at, at + step), (kh, kw), (oh, ow), stride, padding, dilation)
        m = windows.shape[-3]
        total = _exact(matrix, zero_points, windows.reshape(groups, k, m * pixels), images.quantizer.zero_points)
        block = _scaled(total, scales, images.quantizer.scales, added)
        out[at : at + m] = block.reshape(o, m, oh, ow).swapaxes(0, 1)
    return out


def _windows(x: Quantized, part: slice, kernel: Pair, out: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Array:
    """The elements that a kernel meets in some images: integers, a view of shape (C, kh, kw, M, OH, OW)."""
    images = x.ints[part]
    (ph, pw), (dh, dw), (sh, sw) = padding, dilation, stride
    m, c, h, w = images.shape
    padded = np.full((m, c, h + 2 * ph, w + 2 * pw), x.quantizer.zero_points, images.dtype)
    padded[:, :, ph : ph + h, pw : pw + w] = images
    at, channel, row, column = padded.strides
    return as_strided(
        padded,
        (c, *kernel, m, *out),
        (channel, row * dh, column * dw, at, row * sh, column * sw),
        writeable=False,
    )
