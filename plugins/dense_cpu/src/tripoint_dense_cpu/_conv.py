"""Convolution and max pooling on NumPy arrays: forward kernels and their linear maps.

Everything here is a plain function over arrays and already normalised tuples; nothing imports the core.

Notation: ``N`` batch, ``C`` input channels, ``O`` output channels, ``G`` groups, ``(kh, kw)`` kernel, ``(sh, sw)``
stride, ``(ph, pw)`` padding, ``(dh, dw)`` dilation, ``(H, W)`` input and ``(OH, OW)`` output extent, with

    OH = floor((H + 2 ph - dh (kh - 1) - 1) / sh) + 1        (floor mode, as in the PyTorch documentation)

Convolution is im2col (K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural Networks for Document
Processing", 2006): a block of images becomes a matrix of columns and one matrix product per group does the arithmetic.
The columns are laid out with whichever of the output row and the (kernel row, channel) run is longer as the contiguous
run, because copying short runs is what costs most at small sizes; the column matrix lives in a scratch buffer that a
thread keeps between calls, because faulting in fresh pages would cost more than the product itself.

float16 is computed in float32 and rounded once at the end. Floating point exceptions are never reported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from tripoint_dense_cpu._windows import Pair, window_extent, window_taps

__all__ = ["conv2d", "conv2d_input", "conv2d_weight", "max_pool2d", "max_pool2d_input", "max_pool2d_tangent"]

Array = NDArray[Any]

_BLOCK_BYTES = 2 << 20  # aim for column matrices of about this size, so that they stay in cache
_KEEP_BYTES = 8 << 20  # a thread keeps a scratch buffer up to this size; larger ones are freed after use
_POOL_BLOCK_BYTES = 1 << 20

_kept = threading.local()


def _scratch(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array that is valid until this thread next asks for the same name."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    if size > _KEEP_BYTES:
        return np.empty(shape, dtype)
    buffer = _kept.__dict__.get(name)
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, np.uint8)
        _kept.__dict__[name] = buffer
    return np.ndarray(shape, dtype, buffer=buffer)


def _working_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The type to multiply and add in: float32 for float16 and bfloat16, otherwise the type itself."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype


def _conv_extent(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Pair:
    """(OH, OW), after checking that the channels fit the groups (the strided views below rely on it)."""
    if x_shape[1] != w_shape[1] * groups or w_shape[0] % groups:
        raise ValueError(f"weight {w_shape} does not fit input {x_shape} in {groups} groups")
    extent, kernel = (x_shape[2], x_shape[3]), (w_shape[2], w_shape[3])
    return window_extent(extent, kernel, stride, padding, dilation)


def _weight_matrix(weight: Array, groups: int, channels_last: bool, dtype: np.dtype[Any]) -> Array:
    """(O, C/G, kh, kw) as (G, O/G, K), with K ordered as in :func:`_column_blocks`."""
    o, cg, kh, kw = weight.shape
    ordered = weight.transpose(0, 2, 3, 1) if channels_last else weight
    return np.ascontiguousarray(ordered, dtype).reshape(groups, o // groups, cg * kh * kw)


def _column_blocks(
    x: Array,
    kernel: Pair,
    out: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    channels_last: bool,
    dtype: np.dtype[Any],
) -> Iterator[tuple[int, int, Array]]:
    """Yield (first, last, columns) for consecutive blocks of M = last - first images.

    columns is (G, K, M * OH * OW) with K ordered (C/G, kh, kw), or (kh, kw, C/G) when channels_last; in the latter
    case it is a transposed view, so that the (kw, C/G) run of an image stored channels-last is copied in one piece.
    It is valid until the next step.
    """
    n, c, h, w = x.shape
    (kh, kw), (oh, ow), (sh, sw), (ph, pw), (dh, dw) = kernel, out, stride, padding, dilation
    cg, k, pixels = c // groups, (c // groups) * kh * kw, oh * ow
    block = max(1, min(n, _BLOCK_BYTES // max(1, groups * k * pixels * dtype.itemsize)))
    hp, wp = h + 2 * ph, w + 2 * pw
    images = x.reshape(n, groups, cg, h, w)
    columns = _scratch("columns", (groups * k * block * pixels,), dtype)
    copied = channels_last or ph > 0 or pw > 0
    if channels_last:
        padded = _scratch("padded", (groups, block, hp, wp, cg), dtype)
        interior = padded[:, :, ph : ph + h, pw : pw + w].transpose(1, 0, 4, 2, 3)  # back to the order of images
    elif copied:
        padded = _scratch("padded", (groups, cg, block, hp, wp), dtype)
        interior = padded[:, :, :, ph : ph + h, pw : pw + w].transpose(2, 0, 1, 3, 4)
    if ph > 0 or pw > 0:
        padded.fill(0)
    for first in range(0, n, block):
        last = min(n, first + block)
        m = last - first
        if copied:
            interior[:m] = images[first:last]
        if channels_last:
            g_, n_, h_, w_, c_ = padded.strides
            shape: tuple[int, ...] = (groups, m, oh, ow, kh, kw, cg)
            windows = as_strided(padded, shape, (g_, n_, h_ * sh, w_ * sw, h_ * dh, w_ * dw, c_))
        else:
            source = padded if copied else images[first:last].transpose(1, 2, 0, 3, 4)
            g_, c_, n_, h_, w_ = source.strides
            shape = (groups, cg, kh, kw, m, oh, ow)
            windows = as_strided(source, shape, (g_, c_, h_ * dh, w_ * dw, n_, h_ * sh, w_ * sw))
        block_columns = columns[: groups * k * m * pixels]
        block_columns.reshape(shape)[...] = windows
        if channels_last:
            yield first, last, block_columns.reshape(groups, m * pixels, k).swapaxes(1, 2)
        else:
            yield first, last, block_columns.reshape(groups, k, m * pixels)


def _gradient_rows(g: Array, groups: int, dtype: np.dtype[Any]) -> Array:
    """A block (M, O, OH, OW) of gradients as (G, O/G, M * OH * OW), in scratch memory."""
    m, o, oh, ow = g.shape
    rows = _scratch("rows", (o, m, oh, ow), dtype)
    rows[...] = g.swapaxes(0, 1)
    return rows.reshape(groups, o // groups, m * oh * ow)


def conv2d(
    x: Array, weight: Array, bias: Array | None, *, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    """Two-dimensional cross-correlation with zero padding.

    x (N, C, H, W), weight (O, C/G, kh, kw), bias (O,) or None -> (N, O, OH, OW), C-contiguous, of x's dtype:

        y[n, o, i, j] = bias[o] + sum over c, a, b of
                        weight[o, c, a, b] * x[n, group(o) * C/G + c, i sh + a dh - ph, j sw + b dw - pw]

    Formula: the PyTorch documentation of torch.nn.Conv2d. Integers wrap around.
    """
    with np.errstate(all="ignore"):
        oh, ow = _conv_extent(x.shape, weight.shape, stride, padding, dilation, groups)
        n, (o, cg, kh, kw), pixels = x.shape[0], weight.shape, oh * ow
        dtype = _working_dtype(x.dtype)
        channels_last = ow < kw * cg
        matrix = _weight_matrix(weight, groups, channels_last, dtype)
        if bias is not None:
            bias = bias.astype(dtype, copy=False).reshape(groups, o // groups, 1)
        out = np.empty((n, o, oh, ow), x.dtype)
        in_place = dtype == out.dtype
        blocks = _column_blocks(x, (kh, kw), (oh, ow), stride, padding, dilation, groups, channels_last, dtype)
        for first, last, columns in blocks:
            m = last - first
            if m == 1 and in_place:
                product = out[first].reshape(groups, o // groups, pixels)
            else:
                product = _scratch("product", (groups, o // groups, m * pixels), dtype)
            np.matmul(matrix, columns, out=product)
            if bias is not None:
                product += bias
            if not (m == 1 and in_place):
                out[first:last] = product.reshape(o, m, oh, ow).swapaxes(0, 1)
        return out


def conv2d_input(
    g: Array, weight: Array, *, input_shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    """The gradient of sum(g * conv2d(x, weight)) with respect to x; it is linear in g and in weight.

    g (N, O, OH, OW), weight (O, C/G, kh, kw) -> input_shape = (N, C, H, W), C-contiguous, of g's dtype.

    With unit stride this is the full correlation of g with the flipped kernel, in and out channels exchanged
    (V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4); otherwise the
    columns weight^T g are added back to where im2col took them from (col2im).
    """
    with np.errstate(all="ignore"):
        n, c, h, w = input_shape
        oh, ow = _conv_extent(tuple(input_shape), weight.shape, stride, padding, dilation, groups)
        (o, cg, kh, kw), (sh, sw), (ph, pw), (dh, dw) = weight.shape, stride, padding, dilation
        if g.shape != (n, o, oh, ow):
            raise ValueError(f"gradient of shape {g.shape} where {(n, o, oh, ow)} is expected")
        if 0 in input_shape:
            return np.zeros(input_shape, g.dtype)
        if stride == (1, 1):
            flipped = weight.reshape(groups, o // groups, cg, kh, kw)[..., ::-1, ::-1].swapaxes(1, 2)
            # Padding beyond the kernel's reach was seen by no real input: the rows of g that saw only it are dropped.
            fh, fw = dh * (kh - 1) - ph, dw * (kw - 1) - pw
            top, left = max(0, -fh), max(0, -fw)
            return conv2d(
                g[:, :, top : oh - top, left : ow - left],
                flipped.reshape(c, o // groups, kh, kw),
                None,
                stride=(1, 1),
                padding=(max(0, fh), max(0, fw)),
                dilation=dilation,
                groups=groups,
            )
        dtype = _working_dtype(g.dtype)
        k, pixels, hp, wp = cg * kh * kw, oh * ow, h + 2 * ph, w + 2 * pw
        matrix = _weight_matrix(weight, groups, True, dtype)
        out = np.empty((n, c, h, w), g.dtype)
        images = out.reshape(n, groups, cg, h, w)
        block = max(1, min(n, _BLOCK_BYTES // max(1, groups * k * pixels * dtype.itemsize)))
        for first in range(0, n, block):
            last = min(n, first + block)
            m = last - first
            rows = _gradient_rows(g[first:last], groups, dtype)
            columns = _scratch("columns", (groups, m * pixels, k), dtype)
            np.matmul(rows.swapaxes(1, 2), matrix, out=columns)
            taps = columns.reshape(groups, m, oh, ow, kh, kw, cg)
            padded = _scratch("padded", (groups, m, hp, wp, cg), dtype)
            padded.fill(0)
            for a in range(kh):
                for b in range(kw):
                    top, left = a * dh, b * dw
                    padded[:, :, top : top + sh * (oh - 1) + 1 : sh, left : left + sw * (ow - 1) + 1 : sw] += taps[
                        :, :, :, :, a, b
                    ]
            images[first:last] = padded[:, :, ph : ph + h, pw : pw + w].transpose(1, 0, 4, 2, 3)
        return out


def conv2d_weight(
    g: Array, x: Array, *, weight_shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    """The gradient of sum(g * conv2d(x, weight)) with respect to weight; it is linear in g and in x.

    g (N, O, OH, OW), x (N, C, H, W) -> weight_shape = (O, C/G, kh, kw), C-contiguous, of g's dtype: the product of g
    with the transposed im2col columns of x, summed over the batch and the output pixels (the formula of
    :func:`conv2d`, differentiated by weight).
    """
    with np.errstate(all="ignore"):
        o, cg, kh, kw = weight_shape
        oh, ow = _conv_extent(x.shape, tuple(weight_shape), stride, padding, dilation, groups)
        if g.shape != (x.shape[0], o, oh, ow):
            raise ValueError(f"gradient of shape {g.shape} where {(x.shape[0], o, oh, ow)} is expected")
        dtype = _working_dtype(g.dtype)
        channels_last = ow < kw * cg
        total = np.zeros((groups, o // groups, cg * kh * kw), dtype)
        blocks = _column_blocks(x, (kh, kw), (oh, ow), stride, padding, dilation, groups, channels_last, dtype)
        for first, last, columns in blocks:
            total += np.matmul(_gradient_rows(g[first:last], groups, dtype), columns.swapaxes(1, 2))
        if channels_last:
            ordered = total.reshape(o, kh, kw, cg).transpose(0, 3, 1, 2)
        else:
            ordered = total.reshape(o, cg, kh, kw)
        return np.ascontiguousarray(ordered, g.dtype)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fV":
        return dtype.type(-np.inf)
    return np.False_ if dtype.kind == "b" else np.iinfo(dtype).min


def _axis_max(x: Array, axis: int, taps: list[tuple[slice, slice]], out: int) -> Array:
    """The maxima of windows along one axis; NaN propagates."""
    head = (slice(None),) * axis
    whole = slice(0, out)
    if len(taps) > 1 and all(seen == whole for seen, _ in taps):  # no window reaches into the padding
        result: Array = np.maximum(x[(*head, taps[0][1])], x[(*head, taps[1][1])])
        rest = taps[2:]
    else:
        result = np.full((*x.shape[:axis], out, *x.shape[axis + 1 :]), _lowest(x.dtype), x.dtype)
        rest = taps
    for seen, taken in rest:
        part = result[(*head, seen)]
        np.maximum(part, x[(*head, taken)], out=part)
    return result


def _pool_taps(x: Array, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Pair, list[Any], list[Any]]:
    out = window_extent((x.shape[2], x.shape[3]), kernel, stride, padding)
    rows = window_taps(x.shape[2], kernel[0], stride[0], padding[0], out[0])
    return out, rows, window_taps(x.shape[3], kernel[1], stride[1], padding[1], out[1])


def max_pool2d(x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
    """Two-dimensional max pooling in floor mode: x (N, C, H, W) -> (N, C, OH, OW), C-contiguous, of x's dtype.

        y[n, c, i, j] = max over a, b of x[n, c, i sh + a - ph, j sw + b - pw]

    Padding counts as minus infinity (for integers: as the lowest value). A window with a NaN gives NaN.
    Formula: the PyTorch documentation of torch.nn.MaxPool2d. The maximum is taken by columns and then by rows.
    """
    with np.errstate(all="ignore"):
        (oh, ow), rows, columns = _pool_taps(x, kernel_size, stride, padding)
        return np.ascontiguousarray(_axis_max(_axis_max(x, 2, rows, oh), 3, columns, ow))


def _ties(x: Array, out: Pair, rows: list[Any], columns: list[Any]) -> tuple[Array, Array]:
    """(masks, counts): masks (kh * kw, N, C, OH, OW) marks the real inputs that equal their window's maximum.

    NaN counts as equal to NaN. counts (N, C, OH, OW) is the number of them, and 1 for a window of padding alone.
    """
    oh, ow = out
    top = _axis_max(_axis_max(x, 2, rows, oh), 3, columns, ow)
    nan = top != top
    has_nan = bool(nan.any())
    places = [(r, c) for r in rows for c in columns]
    masks = np.zeros((len(places), *x.shape[:2], oh, ow), np.bool_)
    for mask, ((seen_r, taken_r), (seen_c, taken_c)) in zip(masks, places, strict=True):
        values, part = x[:, :, taken_r, taken_c], mask[:, :, seen_r, seen_c]
        np.equal(values, top[:, :, seen_r, seen_c], out=part)
        if has_nan:
            part |= nan[:, :, seen_r, seen_c] & (values != values)
    ones = masks.view(np.uint8)
    counts = ones[0].astype(np.uint8 if len(places) < 256 else np.int64)
    for one in ones[1:]:
        counts += one
    return masks, np.maximum(counts, 1, out=counts)


def _as_bits(values: Array) -> Array:
    """The same memory as integers: bits times a mask selects without arithmetic, so inf and NaN are safe (0 * inf)."""
    return values.view(np.dtype(f"i{values.dtype.itemsize}"))


def _pool_blocks(x: Array) -> Iterator[slice]:
    """Slices of the batch small enough for the temporaries to stay in cache."""
    n = x.shape[0]
    block = max(1, _POOL_BLOCK_BYTES // max(1, x[:1].nbytes))
    for first in range(0, n, block):
        yield slice(first, first + block)


def max_pool2d_input(g: Array, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
    """The gradient of sum(g * max_pool2d(x)) with respect to x; it is linear in g.

    g (N, C, OH, OW) of a floating dtype, x (N, C, H, W) -> x's shape, C-contiguous, of g's dtype. Each entry of g is
    divided evenly among the tied maxima of its window (a symmetric subgradient; the written convention, where PyTorch
    gives all of it to the first). NaN counts as equal to NaN; padding takes no part, even against minus infinity.
    """
    with np.errstate(all="ignore"):
        extent, rows, columns = _pool_taps(x, kernel_size, stride, padding)
        disjoint = stride[0] >= kernel_size[0] and stride[1] >= kernel_size[1]
        result = np.zeros(x.shape, g.dtype)
        for block in _pool_blocks(x):
            masks, counts = _ties(x[block], extent, rows, columns)
            share = _as_bits(np.divide(g[block], counts, dtype=g.dtype))
            target = result[block]
            places = [(r, c) for r in rows for c in columns]
            for mask, ((seen_r, taken_r), (seen_c, taken_c)) in zip(masks, places, strict=True):
                part, chosen = share[:, :, seen_r, seen_c], mask[:, :, seen_r, seen_c]
                place = target[:, :, taken_r, taken_c]
                if disjoint:
                    np.multiply(part, chosen, out=_as_bits(place))
                else:
                    place += np.multiply(part, chosen).view(g.dtype)
        return result


def max_pool2d_tangent(t: Array, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
    """The mean of t over the tied maxima of each window of x: the adjoint of :func:`max_pool2d_input` in g.

    t and x (N, C, H, W), t of a floating dtype -> (N, C, OH, OW), C-contiguous, of t's dtype. A window of padding alone
    gives 0.
    """
    with np.errstate(all="ignore"):
        extent, rows, columns = _pool_taps(x, kernel_size, stride, padding)
        result = np.zeros((*x.shape[:2], *extent), t.dtype)
        bits = _as_bits(t)
        for block in _pool_blocks(x):
            masks, counts = _ties(x[block], extent, rows, columns)
            source, target = bits[block], result[block]
            places = [(r, c) for r in rows for c in columns]
            for mask, ((seen_r, taken_r), (seen_c, taken_c)) in zip(masks, places, strict=True):
                chosen = np.multiply(source[:, :, taken_r, taken_c], mask[:, :, seen_r, seen_c])
                target[:, :, seen_r, seen_c] += chosen.view(t.dtype)
            np.divide(target, counts, out=target, dtype=t.dtype)
        return result
