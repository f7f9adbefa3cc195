"""Programs of more than one line: windows, and positions. What runs on a vault; plain functions of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tripoint_vault.machine import Array

Pair = tuple[int, int]


def _wide(*arrays: Array) -> list[Array]:
    """Half precision is computed in float32."""
    return [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]


def _padded(x: Array, padding: Pair, value: Any = 0) -> Array:
    (ph, pw) = padding
    return np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=value)


def _windows(x: Array, kernel: tuple[int, ...], stride: Pair, dilation: Pair = (1, 1)) -> Array:
    """Windows (N, C, OH, OW, kh, kw) of padded images."""
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    out = sliding_window_view(x, reach, axis=(2, 3))
    return out[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def conv2d(
    x: Array, weight: Array, bias: Array | None, *, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Array:
    x, weight = _wide(x, weight)
    windows = _windows(_padded(x, padding), weight.shape[2:], stride, dilation)
    parts = [
        np.tensordot(part, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        for part, w in zip(np.split(windows, groups, 1), np.split(weight, groups, 0), strict=True)
    ]
    out = np.concatenate(parts, 1)
    return out if bias is None else out + bias[:, None, None]


def _places(a: int, b: int, out: Pair, stride: Pair, dilation: Pair) -> tuple[Any, ...]:
    """Where in the padded images the windows have their element (a, b)."""
    top, left = a * dilation[0], b * dilation[1]
    rows = slice(top, top + stride[0] * (out[0] - 1) + 1, stride[0])
    return (slice(None), slice(None), rows, slice(left, left + stride[1] * (out[1] - 1) + 1, stride[1]))


def _inner(x: Array, padding: Pair) -> Array:
    (ph, pw), (h, w) = padding, x.shape[2:]
    return x[:, :, ph : h - ph, pw : w - pw]


def conv2d_input(
    g: Array,
    weight: Array,
    *,
    input_shape: tuple[int, ...],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Array:
    g, weight = _wide(g, weight)
    n, c, h, w = input_shape
    out = np.zeros((n, c, h + 2 * padding[0], w + 2 * padding[1]), g.dtype)
    parts = [*zip(np.split(g, groups, 1), np.split(weight, groups, 0), strict=True)]
    for a in range(weight.shape[2]):
        for b in range(weight.shape[3]):
            tap = [np.tensordot(gs, ws[:, :, a, b], ((1,), (0,))).transpose(0, 3, 1, 2) for gs, ws in parts]
            out[_places(a, b, g.shape[2:], stride, dilation)] += np.concatenate(tap, 1)
    return _inner(out, padding)


def conv2d_weight(
    g: Array,
    x: Array,
    *,
    weight_shape: tuple[int, ...],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Array:
    g, x = _wide(g, x)
    windows = _windows(_padded(x, padding), weight_shape[2:], stride, dilation)
    return np.concatenate(
        [
            np.tensordot(gs, part, ((0, 2, 3), (0, 2, 3)))
            for gs, part in zip(np.split(g, groups, 1), np.split(windows, groups, 1), strict=True)
        ]
    )


def _pooled(x: Array, kernel_size: Pair, stride: Pair, padding: Pair) -> tuple[Array, Array]:
    """The windows, and which of their elements are the largest (a NaN, where there is one)."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    windows = _windows(_padded(x, padding, lowest), kernel_size, stride)
    top = windows.max((4, 5), keepdims=True)
    return windows, (windows == top) | (np.isnan(windows) & np.isnan(top))


def max_pool2d(x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
    return _pooled(x, kernel_size, stride, padding)[0].max((4, 5))  # type: ignore[no-any-return]


def max_pool2d_input(g: Array, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
    _, largest = _pooled(x, kernel_size, stride, padding)
    share = g / largest.sum((4, 5))
    n, c, h, w = x.shape
    out = np.zeros((n, c, h + 2 * padding[0], w + 2 * padding[1]), np.float32)
    for a in range(kernel_size[0]):
        for b in range(kernel_size[1]):
            out[_places(a, b, g.shape[2:], stride, (1, 1))] += np.where(largest[..., a, b], share, 0)
    return _inner(out, padding)


def max_pool2d_tangent(t: Array, x: Array, *, kernel_size: Pair, stride: Pair, padding: Pair) -> Array:
    _, largest = _pooled(x, kernel_size, stride, padding)
    seen = _windows(_padded(t, padding), kernel_size, stride)
    return np.where(largest, seen, 0).sum((4, 5)) / largest.sum((4, 5))  # type: ignore[no-any-return]


def take(x: Array, indices: Array, *, axis: int) -> Array:
    return x.take(indices, axis)


def take_back(g: Array, indices: Array, *, shape: tuple[int, ...], axis: int) -> Array:
    out = np.zeros(shape, g.dtype)
    places: Any = (*[slice(None)] * axis, indices)
    np.add.at(out, places, g)
    return out


def pick(x: Array, labels: Array) -> Array:
    return x[np.arange(len(labels)), labels]


def pick_back(g: Array, labels: Array, *, classes: int) -> Array:
    out = np.zeros((len(labels), classes), g.dtype)
    out[np.arange(len(labels)), labels] = g
    return out
