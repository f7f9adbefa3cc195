"""Affine quantizers: how an 8-bit integer stands for a real number. Checked when made, so that kernels need not."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from tripoint.errors import ArgumentError, DTypeError, ScalarRangeError, ShapeError, TripointError, shown
from tripoint.plugin import DType, Tensor

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]

#: smallest and largest integer of each quantized dtype.
RANGES = {"qint8": (-128, 127), "quint8": (0, 255)}


class QuantizerError(TripointError, ValueError):
    """A scale that no real number can be divided by."""


class Affine:
    """The value ``scale * (n - zero_point)`` for an integer ``n``; immutable, equal by value.

    Attributes:
        scales: float32 of shape () or, per channel, (channels,); finite and above 0. Read-only.
        zero_points: int32 of the same shape, in the dtype's range. Read-only.
        dtype: the quantized dtype.
        axis: the axis that channels lie along, or ``None`` for one scale and zero point.
    """

    __slots__ = ("axis", "dtype", "scales", "zero_points")

    scales: Array
    zero_points: Array
    dtype: DType
    axis: int | None

    def __init__(self, scales: Array, zero_points: Array, dtype: DType, axis: int | None) -> None:
        scales.flags.writeable = zero_points.flags.writeable = False
        for name, value in zip(self.__slots__, (axis, dtype, scales, zero_points), strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"quantizers are immutable; {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return Affine, (self.scales.copy(), self.zero_points.copy(), self.dtype, self.axis)

    @property
    def scale(self) -> float | tuple[float, ...]:
        """The scale, or one per channel, as Python floats."""
        found = self.scales.tolist()
        return tuple(found) if self.axis is not None else found

    @property
    def zero_point(self) -> int | tuple[int, ...]:
        """The zero point, or one per channel, as Python ints."""
        found = self.zero_points.tolist()
        return tuple(found) if self.axis is not None else found

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        return RANGES[self.dtype.name]

    def on_axis(self, axis: int | None) -> Affine:
        """The same channels along another axis."""
        return self if axis == self.axis else Affine(self.scales, self.zero_points, self.dtype, axis)

    def spread(self, ndim: int) -> tuple[Array, Array]:
        """Scales and zero points shaped to broadcast against an array of ``ndim`` axes."""
        if self.axis is None:
            return self.scales, self.zero_points
        shape = tuple(-1 if i == self.axis else 1 for i in range(ndim))
        return self.scales.reshape(shape), self.zero_points.reshape(shape)

    def fit(self, shape: Shape) -> Affine:
        """This quantizer with its axis counted from 0, for arrays of ``shape``.

        Raises:
            ShapeError: no such axis, or another number of channels.
        """
        if self.axis is None:
            return self
        if not -len(shape) <= self.axis < len(shape):
            raise ShapeError(f"{self} lies along axis {self.axis}; shape {shape} has {len(shape)} axes")
        axis = self.axis % len(shape)
        if shape[axis] != len(self.scales):
            raise ShapeError(
                f"a quantizer of {len(self.scales)} channels along axis {axis}, and shape {shape} has {shape[axis]} there"
            )
        return self.on_axis(axis)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Affine)
            and (self.dtype, self.axis) == (other.dtype, other.axis)
            and np.array_equal(self.scales, other.scales)
            and np.array_equal(self.zero_points, other.zero_points)
        )

    def __hash__(self) -> int:
        return hash((self.dtype, self.axis, self.scales.tobytes(), self.zero_points.tobytes()))

    def __repr__(self) -> str:
        axis = f", axis={self.axis}" if self.axis is not None else ""
        return f"affine(scale={_shown(self.scales)}, zero_point={_shown(self.zero_points)}, dtype={self.dtype}{axis})"


def _shown(values: Array) -> str:
    return np.array2string(values, separator=", ", threshold=6, edgeitems=2)


def make(scale: Any, zero_point: Any, dtype: Any, axis: Any, known: tuple[DType, ...]) -> Affine:
    """A checked quantizer of one of the ``known`` dtypes; see `tripoint_quantized.affine`."""
    found = next((d for d in known if dtype is d or (isinstance(dtype, str) and dtype == d.name)), None)
    if found is None:
        raise DTypeError(f"affine quantizers are for {', '.join(RANGES)}, not {shown(dtype)}")
    dtype = found
    if axis is not None:
        try:
            if isinstance(axis, bool):
                raise TypeError
            axis = index(axis)
        except TypeError:
            raise ArgumentError(f"axis must be an int or None, not {shown(axis)}") from None
    scales, zero_points = _numbers(scale, "scale", axis), _numbers(zero_point, "zero_point", axis)
    if axis is not None:
        counts = {len(v) for v in (scales, zero_points) if v.ndim}
        if len(counts) != 1:
            raise ShapeError(
                f"per-channel quantizers take as many zero points as scales, not {len(zero_points)} and {len(scales)}"
                if counts
                else f"axis={axis}: scale must list one number per channel, not {scale!r}"
            )
        (count,) = counts
        scales, zero_points = (np.broadcast_to(v, (count,)) for v in (scales, zero_points))
    for channel, value in enumerate(np.atleast_1d(scales).tolist()):
        _check_scale(value, _where(channel, axis))
    for channel, value in enumerate(np.atleast_1d(zero_points).tolist()):
        _check_zero_point(value, dtype, _where(channel, axis))
    with np.errstate(all="ignore"):
        return Affine(np.array(scales, np.float32), np.array(zero_points, np.int32), dtype, axis)


def _numbers(value: Any, name: str, axis: int | None) -> Array:
    """A number, or where channels are allowed a sequence of them, as an array of objects or numbers."""
    wanted = f"{name} must be a real number{' or one per channel' * (axis is not None)}, not {shown(value)}"
    try:
        found = np.asarray(value.tolist() if isinstance(value, Tensor) else value)
    except (ValueError, TypeError):  # lists of different lengths, and whatever else is no array
        raise ArgumentError(wanted) from None
    # Integers of more than 64 bits are objects to NumPy; what is wrong with them is their size.
    whole = found.dtype.kind == "O" and all(type(v) is int for v in found.flat)
    if found.size and found.dtype.kind not in "iuf" and not whole:
        raise ArgumentError(wanted)
    if found.ndim > (axis is not None):
        hint = "; axis= says along which axis channels lie" if axis is None else ""
        raise ShapeError(f"{name} has shape {found.shape}; it must be {'one number' if axis is None else 'flat'}{hint}")
    return found


def _where(channel: int, axis: int | None) -> str:
    return f" of channel {channel}" if axis is not None else ""


def _check_scale(value: float, where: str) -> None:
    with np.errstate(all="ignore"):
        kept = float(np.float32(value)) if abs(value) < 1e39 else math.inf
    if not (math.isfinite(kept) and kept > 0):
        why = " (as float32)" if 0 < value < math.inf else ""
        raise QuantizerError(f"the scale{where} is {shown(value)}{why}; scales must be finite and above 0")


def _check_zero_point(value: Any, dtype: DType, where: str) -> None:
    low, high = RANGES[dtype.name]
    if not isinstance(value, int):
        raise ArgumentError(
            f"the zero point{where} is {value!r}; zero points are integers in {low}..{high} for {dtype}"
        )
    if not low <= value <= high:
        raise ScalarRangeError(f"the zero point{where} is {shown(value)}; for {dtype} it must lie in {low}..{high}")
