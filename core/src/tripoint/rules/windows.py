"""Shapes and metadata of basic indexing, convolution and pooling."""

from __future__ import annotations

from operator import index
from typing import Any

from tripoint.errors import ArgumentError, IndexingError, ShapeError, shown
from tripoint.rules.shapes import Shape, Shapes, as_size

_whole = (slice(None),) * 64
_bound: dict[tuple[Shape, int], tuple[Any, ...]] = {}  # of single ints, which loops ask for again and again


def bind_index(shapes: Shapes, key: Any) -> tuple[Any, ...]:
    """Bind rule of basic indexing: one int, slice or ``None`` per step, slices with all three parts, ints from 0.

    Raises:
        IndexingError: out of range, too many indices, or two ellipses.
    """
    shape: Shape = shapes[0]
    if type(key) is int and 0 < len(shape) <= 64:
        known = _bound.get((shape, key))
        if known is not None:
            return known
        if -shape[0] <= key < shape[0]:
            made = ((key if key >= 0 else key + shape[0], *_whole[: len(shape) - 1]),)
            if len(_bound) < 4096:
                _bound[shape, key] = made
            return made
    items = list(key) if key.__class__ is tuple else [key]
    taken = sum(1 for k in items if k is not None and k is not Ellipsis)
    if taken > len(shape):
        raise IndexingError(f"{taken} indices for shape {shape}, which has {len(shape)} axes")
    dots = [i for i, k in enumerate(items) if k is Ellipsis]
    if len(dots) > 1:
        raise IndexingError("an index has at most one ellipsis (...)")
    at = dots[0] if dots else len(items)
    items[at : at + 1] = [slice(None)] * (len(shape) - taken)
    out: list[Any] = []
    axis = 0
    for k in items:
        if k is None:
            out.append(None)
            continue
        size = shape[axis]
        if k.__class__ is slice:
            try:
                out.append(_bound_slice(k, size))
            except TypeError:
                raise IndexingError(f"{k!r} at axis {axis}: slice bounds and steps must be ints or None") from None
            except ValueError:
                raise IndexingError(f"{k!r} at axis {axis}: a slice step must not be 0") from None
        else:
            try:
                i = as_size(k)
            except TypeError:
                raise IndexingError(
                    f"{k!r} at axis {axis} is no index; indices are ints, slices, None, ... and integer tensors"
                ) from None
            if not -size <= i < size:
                raise IndexingError(f"index {shown(i)} is out of range for axis {axis} of shape {shape}")
            out.append(i + size if i < 0 else i)
        axis += 1
    return (tuple(out),)


def _bound_slice(k: slice, size: int) -> slice:
    start, stop, step = k.indices(size)
    if len(range(start, stop, step)) == 0:
        return slice(0, 0, 1)
    # A negative stop would count from the end when the slice is applied again.
    return slice(start, None if stop < 0 else stop, step)


def indexed(shapes: Shapes, *, key: tuple[Any, ...]) -> Shape:
    """Shape rule of basic indexing with a bound key."""
    out = []
    axis = 0
    for k in key:
        if k is None:
            out.append(1)
        else:
            if k.__class__ is slice:
                out.append(len(range(*k.indices(shapes[0][axis]))))
            axis += 1
    return tuple(out)


def pair(value: Any, name: str, smallest: int) -> tuple[int, int]:
    """An int or two ints, each at least ``smallest``."""
    two = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(two) != 2 or not all(hasattr(v, "__index__") and not isinstance(v, bool) for v in two):
        raise ArgumentError(f"{name} must be an int or two ints, not {value!r}")
    if min(two) < smallest:
        raise ShapeError(f"{name} {value!r} must be at least {smallest}")
    return index(two[0]), index(two[1])


def bind_conv(shapes: Shapes, stride: Any, padding: Any, dilation: Any, groups: Any) -> tuple[Any, ...]:
    """Bind rule of conv2d: pairs."""
    if groups.__class__ is not int or groups < 1:
        raise ArgumentError(f"groups must be an int of at least 1, not {groups!r}")
    return pair(stride, "stride", 1), pair(padding, "padding", 0), pair(dilation, "dilation", 1), groups


def _window(size: int, kernel: int, stride: int, padding: int, dilation: int, what: str) -> int:
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    if span < 0 or kernel < 1:
        raise ShapeError(
            f"{what}: a window of {dilation * (kernel - 1) + 1} does not fit an axis of size {size} padded by {padding}"
        )
    return span // stride + 1


def conv2d(
    shapes: Shapes,
    *,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Shape:
    """Shape rule of conv2d: (N, C, H, W) with (O, C / groups, kh, kw) gives (N, O, OH, OW)."""
    x, w = shapes[0], shapes[1]
    bias = shapes[2] if len(shapes) > 2 else None
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(f"conv2d takes x (N, C, H, W) and weight (O, C / groups, kh, kw), not shapes {x} and {w}")
    if x[1] != w[1] * groups or w[0] % groups:
        raise ShapeError(
            f"conv2d: x {x} has {x[1]} channels, weight {w} with groups={groups} takes {w[1] * groups}"
            + (f" and its {w[0]} outputs do not divide by {groups}" if w[0] % groups else "")
        )
    if bias is not None and bias != (w[0],):
        raise ShapeError(f"conv2d: bias has shape {bias}; weight {w} needs ({w[0]},)")
    oh, ow = (_window(x[2 + i], w[2 + i], stride[i], padding[i], dilation[i], "conv2d") for i in (0, 1))
    return (x[0], w[0], oh, ow)


def bind_pool(shapes: Shapes, kernel_size: Any, stride: Any, padding: Any) -> tuple[Any, ...]:
    """Bind rule of max_pool2d: pairs; the stride is the kernel size unless given."""
    kernel = pair(kernel_size, "kernel_size", 1)
    pads = pair(padding, "padding", 0)
    for k, p in zip(kernel, pads, strict=True):
        if 2 * p > k:
            raise ShapeError(f"padding {pads} is more than half of kernel_size {kernel}")
    return kernel, kernel if stride is None else pair(stride, "stride", 1), pads


def pooled(shapes: Shapes, *, kernel_size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Shape:
    """Shape rule of max_pool2d."""
    x = shapes[0]
    if len(x) != 4:
        raise ShapeError(f"max_pool2d takes (N, C, H, W), not shape {x}")
    oh, ow = (_window(x[2 + i], kernel_size[i], stride[i], padding[i], 1, "max_pool2d") for i in (0, 1))
    return (x[0], x[1], oh, ow)
