"""Products of matrices and operators of neural networks, as sums written out."""

from __future__ import annotations

import math
from typing import Any

from tripoint.conformance.reference import elementwise as e
from tripoint.conformance.reference.manipulation import matrix_transpose
from tripoint.conformance.reference.reductions import total
from tripoint.conformance.reference.values import (
    INEXACT,
    Array,
    Shape,
    broadcast_shape,
    made,
    mapped,
    normal,
    positions,
    result_dtype,
)

Pair = Any


def matmul(x1: Array, x2: Array) -> Array:
    """Matrix product; vectors lose their axis, leading axes broadcast."""
    dtype = result_dtype((x1, x2))
    a = Array(x1.dtype, (1, *x1.shape), x1.data) if x1.ndim == 1 else x1
    b = Array(x2.dtype, (*x2.shape, 1), x2.data) if x2.ndim == 1 else x2
    stack = broadcast_shape(a.shape[:-2], b.shape[:-2])

    def element(where: tuple[int, ...]) -> Any:
        *lead, i, j = where

        def at(x: Array, row: int, column: int) -> Any:
            own = x.shape[:-2]
            kept = lead[len(lead) - len(own) :]
            return x.at((*[0 if s == 1 else k for s, k in zip(own, kept, strict=True)], row, column))

        return total([at(a, i, k) * at(b, k, j) for k in range(a.shape[-1])])

    out = made(dtype, (*stack, a.shape[-2], b.shape[-1]), element)
    shape = list(out.shape)
    if x1.ndim == 1:
        del shape[-2]
    if x2.ndim == 1:
        del shape[-1]
    return Array(dtype, tuple(shape), out.data)


def matmul_nt(x1: Array, x2: Array) -> Array:
    """``x1 @ x2.mT``."""
    return matmul(x1, matrix_transpose(x2))


def matmul_tn(x1: Array, x2: Array) -> Array:
    """``x1.mT @ x2``."""
    return matmul(matrix_transpose(x1), x2)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.mT + bias``."""
    out = matmul(x, matrix_transpose(weight))
    return out if bias is None else e.add(out, bias)


def relu(x: Array) -> Array:
    """The larger of x and 0."""
    return mapped(lambda a: a if a != a or a > 0 else 0, x.dtype, x)


def relu_back(g: Array, x: Array) -> Array:
    """``g`` where x > 0, half of it at 0, else 0."""
    return mapped(lambda a, b: a * 0.5 if b == 0 else 0 if b < 0 else a, g.dtype, g, x)


# Windows -------------------------------------------------------------------------------------------------------------


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _extent(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _taps(
    images: Shape, weight: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Every product of a convolution: the places of the output, of the image and of the weight that meet."""
    (sh, sw), (ph, pw), (dh, dw) = _pair(stride), _pair(padding), _pair(dilation)
    (n, _, h, w), (o, cg, kh, kw) = images, weight
    oh, ow = _extent(h, kh, sh, ph, dh), _extent(w, kw, sw, pw, dw)
    out: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
    for image, plane, c, i, j, y, x in positions((n, o, cg, kh, kw, oh, ow)):
        row, column = y * sh + i * dh - ph, x * sw + j * dw - pw
        if 0 <= row < h and 0 <= column < w:
            channel = plane // (o // groups) * cg + c
            out.append(((image, plane, y, x), (image, channel, row, column), (plane, c, i, j)))
    return out


def _summed(dtype: str, shape: Shape, terms: list[tuple[tuple[int, ...], Any]]) -> Array:
    gathered: dict[tuple[int, ...], list[Any]] = {}
    for where, value in terms:
        gathered.setdefault(where, []).append(value)
    return made(dtype, shape, lambda w: total(gathered.get(w, [])))


def conv2d(
    x: Array, weight: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1, groups: int = 1
) -> Array:  # fmt: skip
    """Cross-correlation."""
    dtype = result_dtype([v for v in (x, weight, bias) if v is not None])
    (sh, sw), (ph, pw), (dh, dw) = _pair(stride), _pair(padding), _pair(dilation)
    shape = (
        x.shape[0],
        weight.shape[0],
        _extent(x.shape[2], weight.shape[2], sh, ph, dh),
        _extent(x.shape[3], weight.shape[3], sw, pw, dw),
    )
    taps = _taps(x.shape, weight.shape, stride, padding, dilation, groups)
    terms = [(out, x.at(image) * weight.at(tap)) for out, image, tap in taps]
    if bias is not None:
        terms += [(where, bias.at((where[1],))) for where in positions(shape)]
    return _summed(dtype, shape, terms)


def conv2d_input(
    g: Array, weight: Array, input_shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    """The gradient by the images."""
    taps = _taps(input_shape, weight.shape, stride, padding, dilation, groups)
    return _summed(result_dtype((g, weight)), input_shape, [(i, g.at(o) * weight.at(t)) for o, i, t in taps])


def conv2d_weight(
    g: Array, x: Array, weight_shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    """The gradient by the kernels."""
    taps = _taps(x.shape, weight_shape, stride, padding, dilation, groups)
    return _summed(result_dtype((g, x)), weight_shape, [(t, g.at(o) * x.at(i)) for o, i, t in taps])


def _windows(x: Array, kernel_size: Pair, stride: Pair | None, padding: Pair) -> tuple[Shape, Any]:
    (kh, kw), (ph, pw) = _pair(kernel_size), _pair(padding)
    sh, sw = (kh, kw) if stride is None else _pair(stride)
    n, c, h, w = x.shape
    shape = (n, c, _extent(h, kh, sh, ph, 1), _extent(w, kw, sw, pw, 1))

    def window(where: tuple[int, ...]) -> list[tuple[int, ...]]:
        image, channel, y, z = where
        cells = [(y * sh + i - ph, z * sw + j - pw) for i in range(kh) for j in range(kw)]
        return [(image, channel, i, j) for i, j in cells if 0 <= i < h and 0 <= j < w]

    return shape, window


def _chosen(x: Array, cells: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The cells of a window that hold its largest element; those that hold NaN, if one does."""
    nan = [w for w in cells if x.at(w) != x.at(w)]
    best = max(x.at(w) for w in cells) if not nan else None
    return nan or [w for w in cells if x.at(w) == best]


def max_pool2d(x: Array, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Array:
    """The largest element of each window."""
    shape, window = _windows(x, kernel_size, stride, padding)
    return made(x.dtype, shape, lambda w: x.at(_chosen(x, window(w))[0]))


def max_pool2d_input(g: Array, x: Array, kernel_size: Pair, stride: Pair | None, padding: Pair) -> Array:
    """The gradient of max_pool2d: shared by the largest elements of each window."""
    shape, window = _windows(x, kernel_size, stride, padding)
    terms = []
    for where in positions(shape):
        chosen = _chosen(x, window(where))
        terms += [(cell, g.at(where) / len(chosen)) for cell in chosen]
    return _summed(g.dtype, x.shape, terms)


def max_pool2d_tangent(t: Array, x: Array, kernel_size: Pair, stride: Pair | None, padding: Pair) -> Array:
    """The mean of ``t`` over the largest elements of each window of ``x``."""
    shape, window = _windows(x, kernel_size, stride, padding)

    def element(where: tuple[int, ...]) -> Any:
        chosen = _chosen(x, window(where))
        return total([t.at(cell) for cell in chosen]) / len(chosen)

    return made(t.dtype, shape, element)


# Normalisation and losses --------------------------------------------------------------------------------------------


def _line(x: Array, where: tuple[int, ...], at: int) -> list[Any]:
    return [x.at((*where[:at], k, *where[at + 1 :])) for k in range(x.shape[at])]


def _log_share(value: Any, line: list[Any]) -> Any:
    top = max(line)
    return value - top - math.log(math.fsum(math.exp(v - top) for v in line))


def _floated(x: Array) -> Array:
    return x if x.dtype in INEXACT else x.astype("float32")


def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x) / sum(exp(x)) along an axis."""
    x, at = _floated(x), normal(axis, x.ndim)
    return made(x.dtype, x.shape, lambda w: math.exp(_log_share(x.at(w), _line(x, w, at))))


def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithm of softmax."""
    x, at = _floated(x), normal(axis, x.ndim)
    return made(x.dtype, x.shape, lambda w: _log_share(x.at(w), _line(x, w, at)))


def log_softmax_back(g: Array, out: Array, axis: int) -> Array:
    """``g - exp(out) * sum(g)`` along an axis."""
    at = normal(axis, g.ndim)
    return made(g.dtype, g.shape, lambda w: g.at(w) - math.exp(out.at(w)) * total(_line(g, w, at)))


def pick(x: Array, labels: Array) -> Array:
    """Of each row the element at its label."""
    return made(x.dtype, labels.shape, lambda w: x.at((w[0], labels.at(w))))


def pick_back(g: Array, labels: Array, classes: int) -> Array:
    """Zeros with ``g`` at the labels."""
    return made(g.dtype, (*g.shape, classes), lambda w: g.at(w[:1]) if labels.at(w[:1]) == w[1] else 0)


def nll_loss(x: Array, labels: Array) -> Array:
    """Minus the mean at the labels; of no rows NaN."""
    rows = x.shape[0]
    return Array(x.dtype, (), [-total(pick(x, labels).data) / rows if rows else math.nan])


def nll_loss_back(g: Array, labels: Array, shape: Shape) -> Array:
    """``-g / N`` at the labels."""
    share = Array(g.dtype, (shape[0],), [-g.data[0] / shape[0] if shape[0] else 0] * shape[0])
    return pick_back(share, labels, shape[1])


def cross_entropy(logits: Array, labels: Array) -> Array:
    """The mean over rows of minus the logarithm of the softmax at the label."""
    wide = log_softmax(logits.astype("float64"), 1)
    return nll_loss(wide, labels).astype(logits.dtype)
