"""Reductions: one result per group of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.dispatcher.declare import composite, primitive
from tripoint.dtypes import DType
from tripoint.ops.conversion import astype
from tripoint.ops.elementwise import divide
from tripoint.tensor import Tensor

Axes = int | Sequence[int] | None
_REDUCE: dict[str, Any] = {"shape": rules.reduced, "bind": rules.bind_axes, "kind": "reduction"}
_EXTREME: dict[str, Any] = {"shape": rules.reduced_nonempty, "bind": rules.bind_axes, "kind": "reduction"}


@primitive(dtype=rules.accumulated(), keyed=("dtype",), minimal=True, **_REDUCE)
def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | str | None = None, keepdims: bool = False) -> Tensor:
    """Sum over axes (all of them for ``None``). Integers and bools are summed in 64 bits; the sum of nothing is 0.

    Raises:
        ShapeError: an axis out of range, or one twice.
        ArgumentError: an axis that is no int.
        DTypeError: complex elements and a real ``dtype=``.
    """


@composite(dtype=rules.kept((dt.numeric,)), shape=rules.trailing, kind="gradient")
def sum_leading(x: Tensor, /, *, shape: tuple[int, ...]) -> Tensor:
    """Sum over leading axes, which leaves ``shape``, in the dtype of ``x``: what becomes of the gradient of a bias.

    Raises:
        ShapeError: ``shape`` is not the end of the shape of ``x``.
    """
    return sum(x, axis=tuple(range(x.ndim - len(shape))), dtype=x.dtype)


@primitive(dtype=rules.accumulated(), keyed=("dtype",), **_REDUCE)
def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | str | None = None, keepdims: bool = False) -> Tensor:
    """Product over axes. Integers and bools are multiplied in 64 bits; the product of nothing is 1.

    Raises:
        ShapeError: an axis out of range, or one twice.
        ArgumentError: an axis that is no int.
        DTypeError: complex elements and a real ``dtype=``.
    """


@primitive(dtype=rules.kept((dt.boolean, dt.real)), minimal=True, **_EXTREME)
def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Largest element over axes; NaN if one is NaN. Ties share the gradient evenly.

    Raises:
        ShapeError: an axis of size 0 is reduced, an axis is out of range, or one stands twice.
        ArgumentError: an axis that is no int.
        DTypeError: complex elements.
    """


@primitive(dtype=rules.kept((dt.boolean, dt.real)), **_EXTREME)
def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Smallest element over axes; NaN if one is NaN. Ties share the gradient evenly.

    Raises:
        ShapeError: an axis of size 0 is reduced, an axis is out of range, or one stands twice.
        ArgumentError: an axis that is no int.
        DTypeError: complex elements.
    """


@primitive(dtype=rules.truth(), **_REDUCE)
def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes are true; NaN counts as true, as in NumPy.

    Raises:
        ShapeError: an axis out of range, or one twice.
        ArgumentError: an axis that is no int.
    """


@primitive(dtype=rules.truth(), **_REDUCE)
def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any element over axes is true; NaN counts as true, as in NumPy.

    Raises:
        ShapeError: an axis out of range, or one twice.
        ArgumentError: an axis that is no int.
    """


@primitive(
    dtype=rules.indices((dt.boolean, dt.real)),
    shape=rules.arg_reduced,
    bind=rules.bind_optional_axis,
    kind="reduction",
    minimal=True,
)
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first largest element along an axis (``None``: of the flattened tensor); the first NaN wins.

    Raises:
        ShapeError: the axis has size 0, or is out of range.
        ArgumentError: an axis that is no int.
        DTypeError: complex elements.
    """


@primitive(
    dtype=rules.indices((dt.boolean, dt.real)), shape=rules.arg_reduced, bind=rules.bind_optional_axis, kind="reduction"
)
def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Position of the first smallest element along an axis (``None``: of the flattened tensor); the first NaN wins.

    Raises:
        ShapeError: the axis has size 0, or is out of range.
        ArgumentError: an axis that is no int.
        DTypeError: complex elements.
    """


@composite
def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over axes, integers in the default floating dtype; the mean of nothing is NaN.

    Raises:
        ShapeError: an axis out of range, or one twice.
        ArgumentError: an axis that is no int.
    """
    axes = rules.normalise_axes(axis, x.ndim)
    count = 1
    for a in axes:
        count *= x.shape[a]
    exact = x.dtype.gradient is None and x.dtype.is_plain  # integers and bools
    out = dt.Defaults.floating if exact else x.dtype
    if out.bits < 32 and out.is_plain:  # neither the sum nor the count need fit in half precision
        return astype(divide(sum(x, axis=axes, dtype=dt.float32, keepdims=keepdims), count), out)
    wide = out if exact and x.dtype.bits == 64 else None  # of 64 bits the sum need not fit in 64 bits
    return divide(sum(x, axis=axes, dtype=wide, keepdims=keepdims), count)
