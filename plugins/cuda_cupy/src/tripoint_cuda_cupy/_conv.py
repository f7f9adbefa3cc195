"""Convolution and max pooling over any array module, by windows that are strided views.

Notation: ``N`` batch, ``C`` input channels, ``O`` output channels, ``G`` groups, ``(kh, kw)`` kernel, ``(sh, sw)`` stride,
``(ph, pw)`` padding, ``(dh, dw)`` dilation, ``(H, W)`` input and ``(OH, OW)`` output extent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tripoint_dense_cpu import window_extent, window_taps

Array = Any
Pair = tuple[int, int]

_BLOCK_BYTES = 256 << 20  # images are taken in blocks whose columns need about this much memory


def _work(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to multiply and add in: float32 for half precision."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind == "f" else dtype


class Windows:
    """Kernels of the operators that read windows; ``xp`` is the array module."""

    xp: Any

    def _chunk(self, n: int, row: int, dtype: np.dtype[Any]) -> int:
        return max(1, min(n, _BLOCK_BYTES // max(1, row * dtype.itemsize)))

    def _columns(
        self, x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, groups: int, dtype: np.dtype[Any]
    ) -> Iterator[tuple[int, int, Array]]:
        """Yield (first, last, columns) for blocks of images: columns (G, C/G kh kw, M OH OW), im2col (K. Chellapilla, S.
        Puri, P. Simard, "High Performance Convolutional Neural Networks for Document Processing", 2006).
        """
        xp = self.xp
        n, c, h, w = x.shape
        (kh, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
        oh, ow = window_extent((h, w), kernel, stride, padding, dilation)
        chunk = self._chunk(n, c * kh * kw * oh * ow, dtype)
        for first in range(0, n, chunk):
            last = min(n, first + chunk)
            m = last - first
            padded = xp.zeros((m, groups, c // groups, h + 2 * ph, w + 2 * pw), dtype)
            padded[:, :, :, ph : ph + h, pw : pw + w] = x[first:last].reshape(m, groups, c // groups, h, w)
            n_, g_, c_, h_, w_ = padded.strides
            windows = xp.lib.stride_tricks.as_strided(
                padded,
                (groups, c // groups, kh, kw, m, oh, ow),
                (g_, c_, h_ * dh, w_ * dw, n_, h_ * sh, w_ * sw),
            )
            yield first, last, windows.reshape(groups, c // groups * kh * kw, m * oh * ow)

    def _rows(self, g: Array, groups: int, dtype: np.dtype[Any]) -> Array:
        """Gradients (M, O, OH, OW) as (G, O/G, M OH OW)."""
        m, o, oh, ow = g.shape
        return g.swapaxes(0, 1).astype(dtype).reshape(groups, o // groups, m * oh * ow)

    def conv2d(
        self,
        x: Array,
        weight: Array,
        bias: Array | None,
        *,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
    ) -> Array:
        o, cg, kh, kw = weight.shape
        if x.shape[1] != cg * groups or o % groups or (bias is not None and bias.shape != (o,)):
            raise ValueError("shapes")
        oh, ow = window_extent(x.shape[2:], (kh, kw), stride, padding, dilation)
        dtype = _work(x.dtype)
        matrix = weight.astype(dtype).reshape(groups, o // groups, cg * kh * kw)
        out = self.xp.empty((x.shape[0], o, oh, ow), x.dtype)
        for first, last, columns in self._columns(x, (kh, kw), stride, padding, dilation, groups, dtype):
            product = self.xp.matmul(matrix, columns)
            if bias is not None:
                product += bias.astype(dtype).reshape(groups, o // groups, 1)
            out[first:last] = product.reshape(o, last - first, oh, ow).swapaxes(0, 1)
        return out

    def conv2d_input(
        self,
        g: Array,
        weight: Array,
        *,
        input_shape: tuple[int, ...],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
    ) -> Array:
        n, c, h, w = input_shape
        _, cg, kh, kw = weight.shape
        (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
        o, oh, ow = g.shape[1:]
        dtype = _work(g.dtype)
        matrix = weight.astype(dtype).reshape(groups, o // groups, cg * kh * kw).swapaxes(1, 2)
        out = self.xp.empty((n, c, h, w), g.dtype)
        chunk = self._chunk(n, c * kh * kw * oh * ow, dtype)
        for first in range(0, n, chunk):
            last = min(n, first + chunk)
            m = last - first
            taps = self.xp.matmul(matrix, self._rows(g[first:last], groups, dtype))
            taps = taps.reshape(c, kh, kw, m, oh, ow)
            padded = self.xp.zeros((c, m, h + 2 * ph, w + 2 * pw), dtype)
            for i in range(kh):
                for j in range(kw):
                    rows = slice(i * dh, i * dh + sh * (oh - 1) + 1, sh)
                    columns = slice(j * dw, j * dw + sw * (ow - 1) + 1, sw)
                    padded[:, :, rows, columns] += taps[:, i, j]
            out[first:last] = padded[:, :, ph : ph + h, pw : pw + w].swapaxes(0, 1)
        return out

    def conv2d_weight(
        self,
        g: Array,
        x: Array,
        *,
        weight_shape: tuple[int, ...],
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
    ) -> Array:
        o, cg, kh, kw = weight_shape
        dtype = _work(g.dtype)
        total = self.xp.zeros((groups, o // groups, cg * kh * kw), dtype)
        for first, last, columns in self._columns(x, (kh, kw), stride, padding, dilation, groups, dtype):
            total += self.xp.matmul(self._rows(g[first:last], groups, dtype), columns.swapaxes(1, 2))
        return total.reshape(weight_shape).astype(g.dtype)

    def _axis_max(self, x: Array, axis: int, taps: list[tuple[slice, slice]], out: int) -> Array:
        kind = x.dtype.kind
        lowest = -np.inf if kind == "f" else False if kind == "b" else np.iinfo(x.dtype).min
        head = (slice(None),) * axis
        made = self.xp.full((*x.shape[:axis], out, *x.shape[axis + 1 :]), lowest, x.dtype)
        for to, seen in taps:
            made[(*head, to)] = self.xp.maximum(made[(*head, to)], x[(*head, seen)])
        return made

    def _pooled(self, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> tuple[list[Any], list[Any], Array]:
        """The taps of both axes, and the largest element of each window."""
        size = x.shape[2:]
        out = window_extent(size, kernel, stride, padding)
        rows, columns = (window_taps(size[i], kernel[i], stride[i], padding[i], out[i]) for i in (0, 1))
        return rows, columns, self._axis_max(self._axis_max(x, 2, rows, out[0]), 3, columns, out[1])

    def _ties(self, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> tuple[list[Any], Array]:
        """For each kernel position (to, seen, mask): where which inputs equal the largest of their window, NaN equal to
        NaN; and how many do, at least 1.
        """
        rows, columns, top = self._pooled(x, kernel, stride, padding)
        counts = self.xp.zeros(top.shape, np.int64)
        found = []
        for to_r, seen_r in rows:
            for to_c, seen_c in columns:
                to, seen = (slice(None), slice(None), to_r, to_c), (slice(None), slice(None), seen_r, seen_c)
                values, largest = x[seen], top[to]
                mask = values == largest
                if x.dtype.kind == "f":
                    mask |= (values != values) & (largest != largest)
                counts[to] += mask
                found.append((to, seen, mask))
        return found, self.xp.maximum(counts, 1)

    def max_pool2d(self, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
        return self._pooled(x, kernel_size, stride, padding)[2]

    def max_pool2d_input(self, g: Array, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
        found, counts = self._ties(x, kernel_size, stride, padding)
        share = g / counts.astype(g.dtype)
        out = self.xp.zeros(x.shape, g.dtype)
        for to, seen, mask in found:
            out[seen] += self.xp.where(mask, share[to], g.dtype.type(0))
        return out

    def max_pool2d_tangent(self, t: Array, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
        found, counts = self._ties(x, kernel_size, stride, padding)
        out = self.xp.zeros(counts.shape, t.dtype)
        for to, seen, mask in found:
            out[to] += self.xp.where(mask, t[seen], t.dtype.type(0))
        return out / counts.astype(t.dtype)
