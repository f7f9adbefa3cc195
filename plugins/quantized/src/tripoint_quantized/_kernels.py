"""Kernels over quantized payloads, products left out: plain functions that never change an operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from tripoint.errors import AliasError, ShapeError
from tripoint_quantized._affine import Affine, Array, Shape

_STORED = {"qint8": np.dtype(np.int8), "quint8": np.dtype(np.uint8)}


class Quantized:
    """Integers and the quantizer that says what they stand for. Immutable, its array included.

    Attributes:
        ints: int8 or uint8, of any shape and strides.
        quantizer: an Affine whose axis, if it has one, is counted from 0 and has as many channels as ``ints``.
    """

    __slots__ = ("ints", "quantizer")

    ints: Array
    quantizer: Affine

    def __init__(self, ints: Array, quantizer: Affine) -> None:
        ints.flags.writeable = False
        object.__setattr__(self, "ints", ints)
        object.__setattr__(self, "quantizer", quantizer)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"quantized payloads are immutable; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"quantized payloads are immutable; {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return Quantized, (self.ints, self.quantizer)

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        shape: Shape = self.ints.shape
        return shape

    def __repr__(self) -> str:
        return f"Quantized({self.shape}, {self.quantizer})"


# Numbers to integers and back ----------------------------------------------------------------------------------------


def _steps(x: Array, quantizer: Affine) -> Array:
    """float32: how many scales from 0, rounded half to even, plus the zero point; neither clamped nor free of NaN."""
    scales, zero_points = quantizer.spread(x.ndim)
    # Divided, not multiplied by a reciprocal, and rounded before the zero point comes: both move exact halves.
    steps = np.asarray(np.divide(x, scales, dtype=np.float32, casting="unsafe"))
    np.rint(steps, out=steps)
    steps += zero_points.astype(np.float32)
    return steps


def quantize(x: Array, *, quantizer: Affine) -> Quantized:
    """The nearest integers. NaN becomes the zero point; what is out of range, infinities included, the nearer end."""
    quantizer = quantizer.fit(x.shape)
    low, high = quantizer.range
    with np.errstate(all="ignore"):
        steps = _steps(x.astype(np.float32, copy=False), quantizer)
        nan = np.isnan(steps)
        # Clamped as floats: what does not fit an integer would be converted to an arbitrary one.
        np.clip(steps, low, high, out=steps)
        if nan.any():
            np.copyto(steps, quantizer.spread(x.ndim)[1], where=nan, casting="unsafe")
        return Quantized(steps.astype(_STORED[quantizer.dtype.name]), quantizer)


def pass_inside(g: Array, x: Array, *, quantizer: Affine) -> Array:
    """``g`` where quantizing ``x`` does not clamp, 0 elsewhere; NaN passes nothing."""
    quantizer = quantizer.fit(x.shape)
    low, high = quantizer.range
    with np.errstate(all="ignore"):
        steps = _steps(x.astype(np.float32, copy=False), quantizer)
    return np.where((steps >= low) & (steps <= high), g, g.dtype.type(0))


def dequantize(q: Quantized) -> Array:
    """float32: ``scale * (n - zero point)``, rounded once."""
    scales, zero_points = q.quantizer.spread(q.ints.ndim)
    with np.errstate(all="ignore"):  # a scale near the largest float32 gives infinities
        return np.asarray(np.multiply(np.subtract(q.ints, zero_points, dtype=np.int32), scales, dtype=np.float32))


def requantize(dense: Array, like: Quantized) -> Quantized:
    """The dtype's hook: numbers with the quantizer of ``like``, where its channels fit."""
    return quantize(dense, quantizer=like.quantizer)


def to_text(q: Quantized) -> str:
    """The numbers that the integers stand for, abbreviated when there are many."""
    return np.array2string(dequantize(q), separator=", ", threshold=1000, edgeitems=3)


def summary(q: Quantized) -> str:
    """A few words for printing."""
    return f"quantizer={q.quantizer}"


# Structure -----------------------------------------------------------------------------------------------------------


def copy(q: Quantized) -> Quantized:
    """The same integers in memory of their own."""
    return Quantized(np.array(q.ints, order="C"), q.quantizer)


def reshape(q: Quantized, *, shape: Shape, copy: bool | None) -> Quantized:
    """Another shape in row-major order.

    Raises:
        ShapeError: quantized per channel; no axis of the result would hold the channels.
        AliasError: ``copy=False`` and the strides do not allow sharing.
    """
    if q.quantizer.axis is not None and shape != q.shape:
        raise ShapeError(
            f"reshape of a tensor quantized per channel along axis {q.quantizer.axis}, from {q.shape} to {shape}; "
            "dequantize it first"
        )
    ints = q.ints.reshape(shape)
    shared = ints.size == 0 or np.may_share_memory(ints, q.ints)
    if copy is False and not shared:
        raise AliasError(f"reshape of shape {q.shape} to {shape} needs a copy, and copy=False forbids it")
    return Quantized(ints.copy() if copy and shared else ints, q.quantizer)


def permute_dims(q: Quantized, *, axes: Shape) -> Quantized:
    """Axes reordered, the channels' among them."""
    axis = q.quantizer.axis
    return Quantized(q.ints.transpose(axes), q.quantizer.on_axis(None if axis is None else axes.index(axis)))


def matrix_transpose(q: Quantized) -> Quantized:
    """The last two axes exchanged."""
    count = q.ints.ndim
    return permute_dims(q, axes=(*range(count - 2), count - 1, count - 2))


def getitem(q: Quantized, *, key: tuple[Any, ...]) -> Quantized:
    """Basic indexing; an int along the channels leaves one channel's scale and zero point."""
    ints = q.ints[(*key, ...)]
    old = q.quantizer
    if old.axis is None:
        return Quantized(ints, old)
    source = made = 0
    for k in key:
        if k is not None:
            if source == old.axis:
                break
            source += 1
        made += k is None or k.__class__ is slice
    axis = made if k.__class__ is slice else None
    return Quantized(ints, Affine(np.array(old.scales[k]), np.array(old.zero_points[k]), old.dtype, axis))


def expand_dims(q: Quantized, *, axis: Shape) -> Quantized:
    """Axes of size 1 inserted."""
    return getitem(q, key=tuple(None if i in axis else slice(None) for i in range(q.ints.ndim + len(axis))))


def squeeze(q: Quantized, *, axis: Shape) -> Quantized:
    """Axes of size 1 left out."""
    return getitem(q, key=tuple(0 if i in axis else slice(None) for i in range(q.ints.ndim)))


def flip(q: Quantized, *, axis: Shape) -> Quantized:
    """Elements in reverse order along axes, channels with theirs."""
    return getitem(q, key=tuple(slice(None, None, -1 if i in axis else 1) for i in range(q.ints.ndim)))
