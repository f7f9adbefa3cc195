"""Operators that change shapes and leave elements as they are; views where the memory allows."""

from __future__ import annotations

from collections.abc import Sequence

from tripoint import rules
from tripoint.dispatcher.declare import composite, primitive
from tripoint.errors import ArgumentError, ShapeError
from tripoint.tensor import Tensor


@primitive(
    dtype=rules.kept(), shape=rules.named, bind=rules.bind_reshape, aliases="maybe", kind="structural", minimal=True
)
def reshape(x: Tensor, /, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1.

    Args:
        copy: ``None`` gives a view where strides allow, else a copy; ``True`` always copies; ``False`` never does.

    Raises:
        AliasError: ``copy=False`` and the strides do not allow a view.
        ShapeError: the number of elements differs.
        ArgumentError: a size that is no int.
    """


@primitive(
    dtype=rules.kept(), shape=rules.permuted, bind=rules.bind_permutation, aliases="always", kind="structural",
    minimal=True,
)  # fmt: skip
def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """A view with axes reordered: axis ``i`` of the result is axis ``axes[i]`` of ``x``.

    Raises:
        ShapeError: ``axes`` is no permutation of all axes.
        ArgumentError: an axis that is no int.
    """


@primitive(
    dtype=rules.kept(), shape=rules.expanded, bind=rules.bind_expand, aliases="always", kind="structural", minimal=True
)
def expand_dims(x: Tensor, /, axis: int | Sequence[int] = 0) -> Tensor:
    """A view with axes of size 1 inserted at these positions of the result.

    Raises:
        ShapeError: a position outside of the result, or one twice.
        ArgumentError: a position that is no int.
    """


@primitive(dtype=rules.kept(), shape=rules.squeezed, bind=rules.bind_squeeze, aliases="always", kind="structural")
def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """A view without the named axes, which must have size 1.

    Raises:
        ShapeError: an axis out of range, one twice, or one of another size than 1.
        ArgumentError: an axis that is no int.
    """


@primitive(
    dtype=rules.kept(), shape=rules.named, bind=rules.bind_broadcast_to, aliases="always", kind="structural",
    minimal=True,
)  # fmt: skip
def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """A read-only view broadcast to a shape.

    Raises:
        ShapeError: ``x`` does not broadcast to it.
        ArgumentError: a size that is no int.
    """


@primitive(dtype=rules.kept(), shape=rules.same, bind=rules.bind_flip, aliases="always", kind="structural")
def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """A view with elements in reverse order along axes (all of them for ``None``).

    Raises:
        ShapeError: an axis out of range, or one twice.
        ArgumentError: an axis that is no int.
    """


@primitive(dtype=rules.promoted(), shape=rules.concatenated, bind=rules.bind_concat, kind="structural", minimal=True)
def concat(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors joined along an axis; other sizes must agree, dtypes are promoted.

    Raises:
        ShapeError: another size or the number of axes differs, or the axis is out of range.
        DTypeError: no dtype holds all.
        ArgumentError: no tensor at all.
    """


@composite
def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    Raises:
        ShapeError: the shapes differ, or the axis is out of range.
        DTypeError: no dtype holds all.
        ArgumentError: no tensor at all, or an axis that is no int.
    """
    if not arrays:
        raise ArgumentError("stack needs at least one tensor")
    first = arrays[0].shape
    for a in arrays:
        if a.shape != first:
            raise ShapeError(f"stack: shapes {first} and {a.shape} differ")
    at = rules.normalise_axis(axis, len(first) + 1)
    return concat([expand_dims(a, axis=at) for a in arrays], axis=at)


@composite
def flatten(x: Tensor, /, start: int = 0, stop: int = -1) -> Tensor:
    """``x`` with the axes ``start`` to ``stop`` (both included) made one; a view where strides allow.

    Raises:
        ShapeError: ``start`` or ``stop`` out of range, or ``start`` behind ``stop``.
        ArgumentError: one of them is no int.
    """
    if x.ndim == 0:
        return reshape(x, (1,))
    a, b = rules.normalise_axis(start, x.ndim), rules.normalise_axis(stop, x.ndim)
    if a > b:
        raise ShapeError(f"flatten: start {start} lies behind stop {stop}")
    size = 1
    for s in x.shape[a : b + 1]:
        size *= s
    return reshape(x, (*x.shape[:a], size, *x.shape[b + 1 :]))


@primitive(dtype=rules.kept(), shape=rules.transposed, aliases="always", kind="structural", minimal=True)
def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes exchanged; a primitive since each derivative of a product takes two of them.

    Raises:
        ShapeError: fewer than two axes.
    """
