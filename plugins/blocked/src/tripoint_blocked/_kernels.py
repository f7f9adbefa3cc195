"""Kernels over blocked buffers, NumPy only; what is blocked when it comes in is blocked when it goes out.

Notation: ``N`` batch, ``C`` input channels, ``O`` output channels, ``G`` groups, ``B`` blocks of ``b`` lanes, ``(kh, kw)``
kernel, ``(sh, sw)`` stride, ``(ph, pw)`` padding, ``(dh, dw)`` dilation, ``(H, W)`` input and ``(OH, OW)`` output extent.

Convolution is im2col (K. Chellapilla, S. Puri, P. Simard, "High Performance Convolutional Neural Networks for Document
Processing", 2006) on the buffer as it lies: the row of an output pixel has the lanes of its window, run by run, so its
columns are (B, kh, kw, b), and one matrix product gives all output channels of a block of images.

Pad lanes are zero in every payload. Products compute none of them, or clear them at the end: a zero weight is not enough,
since zero times infinity is NaN. Half precision is computed in float32 and rounded once. Floating-point errors are not
reported.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tripoint_blocked._blocked import Array, Blocked, clear_pads, empty, reblock
from tripoint_dense_cpu import window_extent, window_taps

Pair = tuple[int, int]

_BLOCK_BYTES = 2 << 20  # aim for matrices of columns of about this size, so that they stay in cache
_KEEP_BYTES = 8 << 20  # a thread keeps a scratch buffer up to this size; larger ones are freed after use

_kept = threading.local()


def _scratch(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array that is valid until this thread next asks for the same name.

    Pages that a fresh array faults in at first touch would cost more than the product of a small convolution.
    """
    size = math.prod(shape) * dtype.itemsize
    if size > _KEEP_BYTES:
        return np.empty(shape, dtype)
    buffer = _kept.__dict__.get(name)
    if buffer is None or buffer.size < size:
        buffer = _kept.__dict__[name] = np.empty(size, np.uint8)
    return np.ndarray(shape, dtype, buffer=buffer)


def _work(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to multiply and add in."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


# Convolution ---------------------------------------------------------------------------------------------------------


class _Columns:
    """How the channels of one operand lie in the columns of a convolution.

    ``lanes`` is the block size, or C where there is but one block, so that one channel costs one column and not sixteen;
    ``each`` is C/G. Sizes may be 0, so shapes are written out: NumPy infers no size beside a 0.
    """

    def __init__(self, channels: int, block: int, kernel: Pair, groups: int) -> None:
        self.channels = channels
        self.blocks = -(-channels // block)
        self.lanes = channels if self.blocks == 1 else block
        self.kernel = kernel
        self.groups = groups
        self.each = channels // groups

    @property
    def width(self) -> int:
        """Columns of a row, of all groups."""
        return self.blocks * self.kernel[0] * self.kernel[1] * self.lanes

    def grouped(self, columns: Array) -> Array:
        """Rows (M, B kh kw b) as (G, M, K): as they are for one group, else each group's channels picked out."""
        m = columns.shape[0]
        if self.groups == 1:
            return columns[None]
        kh, kw = self.kernel
        by_channel = columns.reshape(m, self.blocks, kh, kw, self.lanes).transpose(0, 2, 3, 1, 4)
        by_channel = by_channel.reshape(m, kh * kw, self.blocks * self.lanes)[..., : self.channels]
        parts = by_channel.reshape(m, kh * kw, self.groups, self.each).transpose(2, 0, 1, 3)
        return parts.reshape(self.groups, m, kh * kw * self.each)

    def ungrouped(self, columns: Array) -> Array:
        """The inverse of `grouped`: (G, M, K) as rows (M, B, kh, kw, b)."""
        m = columns.shape[1]
        kh, kw = self.kernel
        if self.groups == 1:
            return columns.reshape(m, self.blocks, kh, kw, self.lanes)
        by_channel = np.zeros((m, kh * kw, self.blocks * self.lanes), columns.dtype)
        parts = columns.reshape(self.groups, m, kh * kw, self.each).transpose(1, 2, 0, 3)
        by_channel[..., : self.channels] = parts.reshape(m, kh * kw, self.channels)
        return by_channel.reshape(m, kh, kw, self.blocks, self.lanes).transpose(0, 3, 1, 2, 4)

    def matrix(self, weight: Array, dtype: np.dtype[Any]) -> Array:
        """Kernels (O, C/G, kh, kw) as (G, K, O/G), zero where a column is a pad lane."""
        o, cg, kh, kw = weight.shape
        if self.groups > 1:
            ordered = weight.transpose(0, 2, 3, 1).reshape(self.groups, o // self.groups, kh * kw * cg)
            return np.ascontiguousarray(ordered.swapaxes(1, 2), dtype)
        padded = np.zeros((self.blocks * self.lanes, kh, kw, o), dtype)
        padded[:cg] = weight.transpose(1, 2, 3, 0)
        ordered = padded.reshape(self.blocks, self.lanes, kh, kw, o).transpose(0, 2, 3, 1, 4)
        return np.ascontiguousarray(ordered).reshape(1, self.width, o)

    def kernels(self, matrix: Array, o: int) -> Array:
        """The inverse of `matrix`, from (G, O/G, K): (O, C/G, kh, kw)."""
        kh, kw = self.kernel
        if self.groups > 1:
            return matrix.reshape(o, kh, kw, self.each).transpose(0, 3, 1, 2)
        by_channel = matrix.reshape(o, self.blocks, kh, kw, self.lanes).transpose(0, 1, 4, 2, 3)
        return by_channel.reshape(o, self.blocks * self.lanes, kh, kw)[:, : self.channels]

    def chunk(self, n: int, pixels: int, dtype: np.dtype[Any]) -> int:
        """How many images to take at once."""
        return max(1, min(n, _BLOCK_BYTES // max(1, self.width * pixels * dtype.itemsize)))


def _rows(
    x: Blocked, how: _Columns, out: Pair, stride: Pair, padding: Pair, dilation: Pair, dtype: np.dtype[Any]
) -> Iterator[tuple[int, int, Array]]:
    """Yield (first, last, columns) for consecutive images; columns (M OH OW, B kh kw b) are valid until the next step."""
    n, _, h, w = x.shape
    (kh, kw), (oh, ow), (sh, sw), (ph, pw), (dh, dw) = how.kernel, out, stride, padding, dilation
    chunk = how.chunk(n, oh * ow, dtype)
    images = x.data[..., : how.lanes]
    copied = ph > 0 or pw > 0 or images.dtype != dtype
    if copied:
        padded = _scratch("padded", (chunk, how.blocks, h + 2 * ph, w + 2 * pw, how.lanes), dtype)
        padded.fill(0)
    columns = _scratch("columns", (chunk, oh, ow, how.blocks, kh, kw, how.lanes), dtype)
    for first in range(0, n, chunk):
        last = min(n, first + chunk)
        m = last - first
        source = images[first:last]
        if copied:
            padded[:m, :, ph : ph + h, pw : pw + w] = source
            source = padded[:m]
        n_, b_, h_, w_, lane_ = source.strides
        columns[:m] = as_strided(
            source,
            (m, oh, ow, how.blocks, kh, kw, how.lanes),
            (n_, h_ * sh, w_ * sw, b_, h_ * dh, w_ * dw, lane_),
        )
        yield first, last, columns[:m].reshape(m * oh * ow, how.width)


def _pixels(p: Blocked, first: int, last: int, groups: int, dtype: np.dtype[Any]) -> Array:
    """The channels of each pixel of images first:last, (G, M H W, C/G)."""
    _, c, h, w = p.shape
    m = last - first
    rows = _scratch("pixels", (m, h, w, p.data.shape[1], p.block), dtype)
    rows[...] = p.data[first:last].transpose(0, 2, 3, 1, 4)
    flat = rows.reshape(m * h * w, p.data.shape[1] * p.block)[:, :c]
    return flat.reshape(m * h * w, groups, c // groups).swapaxes(0, 1)


def _write(p: Blocked, first: int, last: int, rows: Array) -> None:
    """The inverse of `_pixels`, into a payload that is being made; pad lanes stay as they are."""
    _, c, h, w = p.shape
    whole, used = divmod(c, p.block)
    flat = rows.swapaxes(0, 1).reshape(last - first, h, w, c)
    lanes = p.data[first:last].transpose(0, 2, 3, 1, 4)
    lanes[:, :, :, :whole] = flat[..., : whole * p.block].reshape(last - first, h, w, whole, p.block)
    if used:
        lanes[:, :, :, whole, :used] = flat[..., whole * p.block :]


def conv2d(
    x: Blocked, weight: Array, bias: Array | None, *, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Blocked:
    n, c, h, w = x.shape
    o, _, kh, kw = weight.shape
    out = window_extent((h, w), (kh, kw), stride, padding, dilation)
    dtype = _work(x.data.dtype)
    how = _Columns(c, x.block, (kh, kw), groups)
    made = empty((n, o, *out), x.block, x.data.dtype)
    with np.errstate(all="ignore"):
        matrix = how.matrix(weight, dtype)
        for first, last, columns in _rows(x, how, out, stride, padding, dilation, dtype):
            product = _scratch("product", (groups, columns.shape[0], o // groups), dtype)
            np.matmul(how.grouped(columns), matrix, out=product)
            if bias is not None:
                product += bias.astype(dtype, copy=False).reshape(groups, 1, o // groups)
            _write(made, first, last, product)
    return made


def conv2d_input(
    g: Blocked, weight: Array, *, input_shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Blocked:
    n, c, h, w = input_shape
    _, _, oh, ow = g.shape
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = weight.shape[2:], stride, padding, dilation
    dtype = _work(g.data.dtype)
    how = _Columns(c, g.block, (kh, kw), groups)
    made = empty((n, c, h, w), g.block, g.data.dtype)
    chunk = how.chunk(n, oh * ow, dtype)
    padded = _scratch("padded", (chunk, how.blocks, h + 2 * ph, w + 2 * pw, how.lanes), dtype)
    with np.errstate(all="ignore"):
        matrix = how.matrix(weight, dtype).swapaxes(1, 2)
        for first in range(0, n, chunk):
            last = min(n, first + chunk)
            m = last - first
            product = _scratch("product", (groups, m * oh * ow, matrix.shape[2]), dtype)
            taps = how.ungrouped(np.matmul(_pixels(g, first, last, groups, dtype), matrix, out=product))
            taps = taps.reshape(m, oh, ow, how.blocks, kh, kw, how.lanes).transpose(4, 5, 0, 3, 1, 2, 6)
            padded.fill(0)
            for i in range(kh):
                for j in range(kw):
                    rows = slice(i * dh, i * dh + sh * (oh - 1) + 1, sh)
                    columns = slice(j * dw, j * dw + sw * (ow - 1) + 1, sw)
                    padded[:m, :, rows, columns] += taps[i, j]
            made.data[first:last, ..., : how.lanes] = padded[:m, :, ph : ph + h, pw : pw + w]
    clear_pads(made)
    return made


def conv2d_weight(
    g: Blocked, x: Blocked, *, weight_shape: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    o, cg, kh, kw = weight_shape
    dtype = _work(x.data.dtype)
    how = _Columns(x.shape[1], x.block, (kh, kw), groups)
    total = np.zeros((groups, o // groups, how.width if groups == 1 else kh * kw * cg), dtype)
    with np.errstate(all="ignore"):
        for first, last, columns in _rows(x, how, g.shape[2:], stride, padding, dilation, dtype):
            total += np.matmul(_pixels(g, first, last, groups, dtype).swapaxes(1, 2), how.grouped(columns))
        return np.ascontiguousarray(how.kernels(total, o), x.data.dtype)


# Elementwise ---------------------------------------------------------------------------------------------------------


def relu(x: Blocked) -> Blocked:
    with np.errstate(all="ignore"):
        out = np.maximum(x.data, x.data.dtype.type(0))
        if out.dtype == np.float16:
            out += out.dtype.type(0)  # -0.0 becomes 0.0, as in the other dtypes
        return Blocked(x.shape, out, x.block)


def relu_back(g: Blocked, x: Blocked) -> Blocked:
    if g.shape != x.shape:
        raise ValueError("shapes")  # the operator's shape rule words it
    slopes = reblock(x, g.block).data
    with np.errstate(all="ignore"):
        out = np.where(slopes < 0, g.data.dtype.type(0), g.data)
        np.multiply(out, g.data.dtype.type(0.5), out=out, where=slopes == 0)
    return Blocked(g.shape, out, g.block)


def add(x1: Blocked, x2: Blocked) -> Blocked:
    shape = np.broadcast_shapes(x1.shape, x2.shape)  # of logical shapes: 3 and 5 channels fill one block each
    size = next((p.block for p in (x1, x2) if p.shape == shape), x1.block)
    parts = [p.data if p.shape[1] == shape[1] else p.data[..., :1] for p in (reblock(x1, size), reblock(x2, size))]
    with np.errstate(all="ignore"):
        out = Blocked(shape, np.add(*parts), size)
    if x1.shape[1] != x2.shape[1]:
        clear_pads(out)
    return out


# Pooling -------------------------------------------------------------------------------------------------------------


def _maxima(x: Array, axis: int, taps: list[tuple[slice, slice]], out: int) -> Array:
    head = (slice(None),) * axis
    lowest = -np.inf if x.dtype.kind != "b" else False
    made = np.full((*x.shape[:axis], out, *x.shape[axis + 1 :]), lowest, x.dtype)
    for to, seen in taps:
        part = made[(*head, to)]
        np.maximum(part, x[(*head, seen)], out=part)
    return made


def _windows(x: Blocked, kernel: Pair, stride: Pair, padding: Pair) -> tuple[Pair, Any, Any, Array]:
    """Output extent, the taps of both axes, and the largest element of each window of the buffer."""
    size = x.shape[2:]
    out = window_extent(size, kernel, stride, padding)
    rows, columns = (window_taps(size[i], kernel[i], stride[i], padding[i], out[i]) for i in (0, 1))
    with np.errstate(all="ignore"):
        top = _maxima(_maxima(x.data, 2, rows, out[0]), 3, columns, out[1])
    return out, rows, columns, top


def max_pool2d(x: Blocked, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Blocked:
    out, _, _, top = _windows(x, kernel_size, stride, padding)
    made = Blocked((*x.shape[:2], *out), top, x.block)
    clear_pads(made)  # of windows that have padding alone
    return made


def max_pool2d_input(g: Blocked, x: Blocked, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Blocked:
    x = reblock(x, g.block)
    _, rows, columns, top = _windows(x, kernel_size, stride, padding)
    nan = np.isnan(top)
    places = [(r, c) for r in rows for c in columns]
    counts = np.zeros(top.shape, np.int32)
    masks = []
    for (to_r, seen_r), (to_c, seen_c) in places:
        values, largest = x.data[:, :, seen_r, seen_c], top[:, :, to_r, to_c]
        masks.append((values == largest) | (nan[:, :, to_r, to_c] & np.isnan(values)))
        counts[:, :, to_r, to_c] += masks[-1]
    made = np.zeros(x.data.shape, g.data.dtype)
    with np.errstate(all="ignore"):
        share = g.data / np.maximum(counts, 1).astype(g.data.dtype)
        for ((to_r, seen_r), (to_c, seen_c)), mask in zip(places, masks, strict=True):
            place = made[:, :, seen_r, seen_c]
            np.add(place, share[:, :, to_r, to_c], out=place, where=mask)
    return Blocked(x.shape, made, g.block)
