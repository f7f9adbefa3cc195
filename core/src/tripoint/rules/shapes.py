"""Which shape comes out of an operator, and how its metadata is normalised."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

from tripoint.errors import ArgumentError, ShapeError, SizeError, shown

Shape = tuple[int, ...]
Shapes = tuple[Any, ...]

LARGEST = 2**63 - 1


def check_shape(shape: object, name: str = "shape") -> Shape:
    """A shape as a tuple of ints.

    Raises:
        ArgumentError: not an int or a sequence of ints (a fractional size, a string, a tensor of several elements).
        ShapeError: a negative size.
        SizeError: more than 2**63 - 1 elements.
    """
    out = ints(shape, name)
    for s in out:
        if s < 0:
            raise ShapeError(f"{name} {shown(out)} has the negative size {shown(s)}; sizes start at 0")
    if prod(out) > LARGEST:
        raise SizeError(
            f"{name} {shown(out)} has {shown(prod(out))} elements, more than the {LARGEST} that fit in 63 bits"
        )
    return out


def ints(value: object, name: str) -> Shape:
    """An int, or a sequence of ints, as a tuple of Python ints of any sign.

    Raises:
        ArgumentError: something else, or a sequence that holds something else.
    """
    items: Sequence[Any]
    if isinstance(value, (tuple, list)):
        items = value
    else:
        try:
            return (as_size(value),)
        except (TypeError, ShapeError):
            pass  # arrays of several elements have __index__ too
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            items = list(value)  # type: ignore[call-overload]
        except TypeError:
            raise ArgumentError(f"{name} must be an int or a sequence of ints, not {value!r}") from None
    out = []
    for item in items:
        try:
            out.append(item if item.__class__ is int else as_size(item))
        except (TypeError, ShapeError):
            raise ArgumentError(
                f"{name} must hold ints; {item!r} in {tuple(items)!r} is a {type(item).__name__}"
            ) from None
    return tuple(out)


def as_size(value: Any) -> int:
    """An int that is no bool; TypeError otherwise, for callers to word."""
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all of ``shapes`` broadcast to, by NumPy's rule.

    Raises:
        ShapeError: two sizes of one axis differ and neither is 1.
    """
    out = shapes[0]
    for shape in shapes[1:]:
        if shape == out or not shape:
            continue
        if len(shape) > len(out):
            out, shape = shape, out
        head = len(out) - len(shape)
        merged = list(out)
        for i, s in enumerate(shape):
            t = out[head + i]
            if t == 1:
                merged[head + i] = s
            elif s not in (1, t):
                listed = " and ".join(str(s) for s in shapes)
                raise ShapeError(
                    f"shapes {listed} do not broadcast: axis {head + i - len(out)} has sizes {t} and {s}; "
                    "sizes must be equal or 1"
                )
        out = tuple(merged)
    # A shape that an operand has already is no larger than what exists (a sparse tensor may have any number of elements).
    if out not in shapes and prod(out) > LARGEST:
        raise SizeError(f"the broadcast shape {out} has {prod(out)} elements, more than fit in 63 bits")
    return out


def broadcast(shapes: Shapes, **meta: Any) -> Shape:
    """Shape rule of elementwise operators."""
    return broadcast_shapes(*[s for s in shapes if s is not None])


def same(shapes: Shapes, **meta: Any) -> Shape:
    """Shape rule: the first operand's shape."""
    return shapes[0]  # type: ignore[no-any-return]


def assigned(shapes: Shapes, **meta: Any) -> Shape:
    """Shape rule of assign: the second operand broadcasts to the shape of the first, leading axes of size 1 aside."""
    x1, x2 = shapes
    lead = len(x2) - len(x1)
    kept = x2[lead:] if lead > 0 and x2[:lead] == (1,) * lead else x2
    if x1 != kept and broadcast_shapes(x1, kept) != x1:
        raise ShapeError(f"a value of shape {x2} does not broadcast to the {x1} that it is written into")
    return x1  # type: ignore[no-any-return]


def named(shapes: Shapes, *, shape: Shape, **meta: Any) -> Shape:
    """Shape rule: the bound metadata ``shape``."""
    return shape


def normalise_axis(axis: Any, ndim: int) -> int:
    """``axis`` counted from 0.

    Raises:
        ArgumentError: not an int.
        ShapeError: outside of ``-ndim .. ndim - 1``.
    """
    if axis.__class__ is not int:
        try:
            axis = as_size(axis)
        except TypeError:
            raise ArgumentError(f"axis must be an int, not {axis!r}") from None
    if not -ndim <= axis < ndim:
        if not ndim:
            raise ShapeError(f"axis {shown(axis)} is out of range: the tensor is 0-dimensional and has no axes")
        raise ShapeError(
            f"axis {shown(axis)} is out of range for {ndim} dimensions; it must lie in {-ndim}..{ndim - 1}"
        )
    return axis + ndim if axis < 0 else axis  # type: ignore[no-any-return]


_axes: dict[tuple[Any, int], Shape] = {}
_every = [tuple(range(ndim)) for ndim in range(8)]


def normalise_axes(axis: Any, ndim: int) -> Shape:
    """``axis`` (``None``: all of them, an int, or a sequence of ints) as a sorted tuple counted from 0."""
    # True, 1.0 and 1 are one dictionary key; only real ints may be remembered, and looked up.
    plain = axis is None or axis.__class__ is int or (axis.__class__ is tuple and _only_ints(axis))
    if plain:
        try:
            return _axes[axis, ndim]
        except KeyError:
            pass
    if axis is None:
        out = tuple(range(ndim))
    elif isinstance(axis, (tuple, list)):
        out = tuple(sorted(normalise_axis(a, ndim) for a in axis))
        if len(set(out)) != len(out):
            raise ShapeError(f"axis {tuple(axis)!r} names an axis twice")
    else:
        out = (normalise_axis(axis, ndim),)
    if plain and len(_axes) < 4096:
        _axes[axis, ndim] = out
    return out


def _only_ints(values: tuple[Any, ...]) -> bool:
    return all([value.__class__ is int for value in values])


def bind_axes(shapes: Shapes, axis: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of reductions: a sorted tuple of axes."""
    ndim = len(shapes[0])
    if axis is None and ndim < 8:
        return (_every[ndim], *rest)
    if axis.__class__ is int and 0 <= axis < ndim:
        return ((axis,), *rest)
    return (normalise_axes(axis, ndim), *rest)


def bind_axis(shapes: Shapes, axis: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of operators along one axis."""
    ndim = len(shapes[0])
    if axis.__class__ is int and 0 <= axis < ndim:
        return (axis, *rest)
    return (normalise_axis(axis, ndim), *rest)


def bind_optional_axis(shapes: Shapes, axis: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of argmax and argmin: one axis, or ``None`` for the flattened tensor."""
    return (None if axis is None else normalise_axis(axis, len(shapes[0])), *rest)


def reduced(shapes: Shapes, *, axis: Shape, keepdims: bool, **meta: Any) -> Shape:
    """Shape rule of reductions over bound axes."""
    (shape,) = shapes
    if not hasattr(keepdims, "__index__"):
        raise ArgumentError(f"keepdims must be True or False, not {shown(keepdims)}")
    if keepdims:
        return tuple(1 if i in axis else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in axis)


def trailing(shapes: Shapes, *, shape: Shape, **meta: Any) -> Shape:
    """Shape rule: the trailing sizes of the operand, given as the metadata ``shape``."""
    if shapes[0][len(shapes[0]) - len(shape) :] != shape:
        raise ShapeError(f"{shape} are not the last sizes of the shape {shapes[0]}")
    return shape


def reduced_nonempty(shapes: Shapes, *, axis: Shape, keepdims: bool, **meta: Any) -> Shape:
    """As reduced, for operators without an identity: reducing an axis of size 0 is an error."""
    (shape,) = shapes
    out = reduced(shapes, axis=axis, keepdims=keepdims)
    for a in axis:
        if shape[a] == 0:
            raise ShapeError(f"the largest or smallest of nothing: axis {a} of shape {shape} has size 0")
    return out


def arg_reduced(shapes: Shapes, *, axis: int | None, keepdims: bool, **meta: Any) -> Shape:
    """Shape rule of argmax and argmin."""
    (shape,) = shapes
    axes = tuple(range(len(shape))) if axis is None else (axis,)
    return reduced_nonempty(shapes, axis=axes, keepdims=keepdims)


def bind_shape(shapes: Shapes, shape: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of creation: a checked shape."""
    return (check_shape(shape), *rest)


def bind_reshape(shapes: Shapes, shape: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of reshape: one size may be -1.

    Raises:
        ShapeError: the number of elements differs, or -1 is ambiguous.
    """
    old: Shape = shapes[0]
    if type(shape) is tuple:
        count, have = 1, 1
        for s in shape:
            if type(s) is not int or s < 0:
                break
            count *= s
        else:
            for s in old:
                have *= s
            if count == have:
                return (shape, *rest)
    sizes = ints(shape, "shape")
    if -1 in sizes:
        at = sizes.index(-1)
        known = check_shape(sizes[:at] + sizes[at + 1 :])
        count, have = prod(known), prod(old)
        if count == 0 or have % count:
            raise ShapeError(f"shape {sizes}: no size in place of -1 gives the {have} elements of shape {old}")
        return ((*known[:at], have // count, *known[at:]), *rest)
    out = check_shape(sizes)
    if prod(out) != prod(old):
        raise ShapeError(f"shape {out} has {prod(out)} elements, shape {old} has {prod(old)}; reshape keeps them all")
    return (out, *rest)


def bind_permutation(shapes: Shapes, axes: Any) -> tuple[Any, ...]:
    """Bind rule of permute_dims."""
    ndim = len(shapes[0])
    if not isinstance(axes, (tuple, list)):
        raise ArgumentError(f"axes must be a sequence of ints, not {axes!r}")
    out = tuple([normalise_axis(a, ndim) for a in axes])
    if len(out) != ndim or len(set(out)) != ndim:
        raise ShapeError(f"axes {tuple(axes)} is no permutation of the {ndim} axes of shape {shapes[0]}")
    return (out,)


def permuted(shapes: Shapes, *, axes: Shape) -> Shape:
    """Shape rule of permute_dims."""
    return tuple(shapes[0][a] for a in axes)


def transposed(shapes: Shapes) -> Shape:
    """Shape rule of matrix_transpose."""
    shape: Shape = shapes[0]
    if len(shape) < 2:
        raise ShapeError(f"matrix_transpose needs at least two axes; shape {shape} has {len(shape)}")
    return (*shape[:-2], shape[-1], shape[-2])


def bind_expand(shapes: Shapes, axis: Any) -> tuple[Any, ...]:
    """Bind rule of expand_dims: positions in the result."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return (normalise_axes(axes, len(shapes[0]) + len(axes)),)


def expanded(shapes: Shapes, *, axis: Shape) -> Shape:
    """Shape rule of expand_dims."""
    sizes = iter(shapes[0])
    return tuple(1 if i in axis else next(sizes) for i in range(len(shapes[0]) + len(axis)))


def bind_squeeze(shapes: Shapes, axis: Any) -> tuple[Any, ...]:
    """Bind rule of squeeze: axes of size 1 only."""
    axes = normalise_axes(axis, len(shapes[0]))
    for a in axes:
        if shapes[0][a] != 1:
            raise ShapeError(f"squeeze removes axes of size 1; axis {a} of shape {shapes[0]} has size {shapes[0][a]}")
    return (axes,)


def squeezed(shapes: Shapes, *, axis: Shape) -> Shape:
    """Shape rule of squeeze."""
    return tuple(s for i, s in enumerate(shapes[0]) if i not in axis)


def bind_broadcast_to(shapes: Shapes, shape: Any) -> tuple[Any, ...]:
    """Bind rule of broadcast_to."""
    out = check_shape(shape)
    if broadcast_shapes(shapes[0], out) != out:
        raise ShapeError(f"shape {shapes[0]} does not broadcast to {out}")
    return (out,)


def concatenated(shapes: Shapes, *, axis: int) -> Shape:
    """Shape rule of concat along a bound axis."""
    parts = shapes[0]
    first = parts[0]
    total = 0
    for shape in parts:
        if len(shape) != len(first) or any(
            s != f for i, (s, f) in enumerate(zip(shape, first, strict=True)) if i != axis
        ):
            raise ShapeError(
                f"concat along axis {axis}: shapes {first} and {shape} differ in another axis or in their number of axes"
            )
        total += shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def bind_concat(shapes: Shapes, axis: Any) -> tuple[Any, ...]:
    """Bind rule of concat."""
    if not shapes[0]:
        raise ArgumentError("concat needs at least one tensor")
    return (normalise_axis(axis, len(shapes[0][0])),)


def bind_flip(shapes: Shapes, axis: Any) -> tuple[Any, ...]:
    """Bind rule of flip: a tuple of axes."""
    return (normalise_axes(axis, len(shapes[0])),)


def matmul(shapes: Shapes, **meta: Any) -> Shape:
    """Shape rule of matmul, by the array API standard: 1-d operands lose their axis, others broadcast as stacks.

    Raises:
        ShapeError: a 0-d operand, or inner sizes that differ.
    """
    a, b = shapes
    if not a or not b:
        raise ShapeError(f"matmul takes tensors of at least one axis, not shapes {a} and {b}; multiply by *")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ShapeError(f"matmul: shapes {a} and {b} have inner sizes {a[-1]} and {inner}, which must be equal")
    stack = broadcast_shapes(a[:-2], b[:-2])
    return (*stack, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def bind_take(shapes: Shapes, axis: Any) -> tuple[Any, ...]:
    """Bind rule of take: of a tensor of one axis it need not be named."""
    if axis is None:
        if len(shapes[0]) != 1:
            raise ArgumentError(
                f"take needs axis= of a tensor of shape {shapes[0]}; only of one axis may it be left out"
            )
        axis = 0
    return bind_axis(shapes, axis)


def taken(shapes: Shapes, *, axis: int) -> Shape:
    """Shape rule of take: the indices' shape in place of one axis."""
    shape, where = shapes
    return (*shape[:axis], *where, *shape[axis + 1 :])
