"""Rules of operator rows: which dtype is computed in and which comes out, which shape, and how metadata is normalised.

A shape rule takes the shapes of the operands (one entry per operand parameter: a shape, a tuple of shapes for a variadic
one, ``None`` for an absent one; ``()`` for a Python scalar) and the bound metadata by name. It is also the meta kernel
and the checker. A bind rule takes the shapes and the metadata in order and returns the metadata normalised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any

from tripoint import dtypes as dt
from tripoint.dtypes import DType, DTypeClass
from tripoint.errors import (
    AliasError,
    ArgumentError,
    DTypeError,
    IndexingError,
    ShapeError,
    SizeError,
    shown,
)

__all__ = ["DTypeRule"]

Shape = tuple[int, ...]
Shapes = tuple[Any, ...]
DTypes = tuple[DType | None, ...]
Computed = tuple[tuple[DType | None, ...], DType]

LARGEST = 2**63 - 1


# Dtype rules ---------------------------------------------------------------------------------------------------------


class DTypeRule:
    """``rule(operator, dtypes, keyed metadata)`` gives the dtype each operand is cast to (``None``: as it is) and the
    result's dtype. ``differentiable`` says whether results can carry gradients: always, never, or by their dtype.
    """

    __slots__ = ("differentiable", "fn", "name")

    def __init__(self, name: str, fn: Callable[[str, DTypes, dict[str, Any]], Computed], differentiable: bool) -> None:
        self.name = name
        self.fn = fn
        self.differentiable = differentiable

    def __call__(self, operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        return self.fn(operator, dtypes, keyed)

    def __repr__(self) -> str:
        return f"<dtype rule {self.name}>"


Accepted = DTypeClass | tuple[DTypeClass, ...]


def _check(operator: str, dtype: DType, accepted: Accepted) -> None:
    classes = accepted if isinstance(accepted, tuple) else (accepted,)
    if not any(dtype in c for c in classes):
        names = " and ".join(c.name for c in classes)
        raise DTypeError(f"{operator} takes {names} dtypes, not {dtype}; convert with .to(dtype=...)")


def promoted(accepted: Accepted = dt.plain) -> DTypeRule:
    """Operands are promoted together and computed in that dtype, which is also the result's."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        out = dt.result_dtype(dtypes)
        _check(operator, out, accepted)
        return (out,) * len(dtypes), out

    return DTypeRule("promoted", rule, True)


def floated(accepted: Accepted = dt.plain) -> DTypeRule:
    """As promoted, but integers and bools become the default floating dtype."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        out = dt.result_dtype(dtypes)
        if out in dt.integral or out is dt.bool_:
            out = dt.Defaults.floating
        _check(operator, out, accepted)
        return (out,) * len(dtypes), out

    return DTypeRule("floated", rule, True)


def compared(accepted: Accepted = dt.plain) -> DTypeRule:
    """Operands are promoted together; the result is bool."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        out = dt.result_dtype(dtypes)
        _check(operator, out, accepted)
        return (out,) * len(dtypes), dt.bool_

    return DTypeRule("compared", rule, False)


def truth() -> DTypeRule:
    """Operands as they are; the result is bool."""
    return DTypeRule("truth", lambda operator, dtypes, keyed: ((None,) * len(dtypes), dt.bool_), False)


def logical() -> DTypeRule:
    """Operands are read as bool; the result is bool."""
    return DTypeRule("logical", lambda operator, dtypes, keyed: ((dt.bool_,) * len(dtypes), dt.bool_), False)


def selected() -> DTypeRule:
    """A bool condition first; the others are promoted together."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        if dtypes[0] is not dt.bool_:
            raise DTypeError(f"{operator}: the condition must be bool, not {dtypes[0]}; compare first, as in x > 0")
        if all(dt.is_weak(d) for d in dtypes[1:]):
            out = {dt.weak_bool: dt.bool_, dt.weak_int: dt.Defaults.integer, dt.weak_float: dt.Defaults.floating}.get(
                max((d for d in dtypes[1:] if d is not None), key=_weak_order.index), dt.Defaults.complex()
            )
        else:
            out = dt.result_dtype(dtypes[1:])
        return (None, *(out,) * (len(dtypes) - 1)), out

    return DTypeRule("selected", rule, True)


_weak_order = [dt.weak_bool, dt.weak_int, dt.weak_float, dt.weak_complex]


def kept(accepted: Accepted | None = None) -> DTypeRule:
    """Operands as they are; the result has the first one's dtype, opaque dtypes included."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        if accepted is not None and first.is_plain:  # an opaque dtype has a kernel of its own, or none
            _check(operator, first, accepted)
        return (None,) * len(dtypes), first

    return DTypeRule("kept", rule, True)


def accumulated() -> DTypeRule:
    """Sums and products: ``dtype=`` if given; else integers and bools widen to 64 bits and others stay."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first, wanted = dtypes[0], keyed.get("dtype")
        assert first is not None
        if wanted is not None:
            out = dt.as_dtype(wanted)
            if first in dt.complex_floating and out not in dt.complex_floating:
                raise DTypeError(
                    f"{operator}: {first} to {out} drops the imaginary parts; take the real part or abs first"
                )
        elif first in dt.unsigned_integer:
            out = dt.uint64
        elif first in dt.signed_integer or first is dt.bool_:
            out = dt.int64
        else:
            out = first
        return (out,), out

    return DTypeRule("accumulated", rule, True)


def labelled(accepted: Accepted) -> DTypeRule:
    """As kept, and the second operand holds labels: integers."""
    first = kept(accepted)

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        labels = dtypes[1]
        if labels is None or labels not in dt.integral:
            raise DTypeError(f"{operator}: labels must be integers, not {labels}")
        return first(operator, dtypes, keyed)

    return DTypeRule("labelled", rule, True)


def absolute() -> DTypeRule:
    """Real results: a complex operand gives the floating dtype of its parts."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        _check(operator, first, dt.numeric)
        out = {dt.complex64: dt.float32, dt.complex128: dt.float64}.get(first, first)
        return (None,), out

    return DTypeRule("absolute", rule, True)


def indices(accepted: Accepted) -> DTypeRule:
    """Operands as they are; the result is int64, as positions are."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        _check(operator, first, accepted)
        return (None,) * len(dtypes), dt.int64

    return DTypeRule("indices", rule, False)


def like_first() -> DTypeRule:
    """The result has the first operand's dtype; of the others, floating ones are cast to it and integers stay."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        rest = tuple(first if d is not None and d.gradient is not None else None for d in dtypes[1:])
        return (None, *rest), first

    return DTypeRule("like_first", rule, True)


# Shapes --------------------------------------------------------------------------------------------------------------


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
            return (_size(value),)
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
            out.append(item if item.__class__ is int else _size(item))
        except (TypeError, ShapeError):
            raise ArgumentError(
                f"{name} must hold ints; {item!r} in {tuple(items)!r} is a {type(item).__name__}"
            ) from None
    return tuple(out)


def _size(value: Any) -> int:
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
            axis = _size(axis)
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
    return (normalise_axes(axis, len(shapes[0])), *rest)


def bind_axis(shapes: Shapes, axis: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of operators along one axis."""
    return (normalise_axis(axis, len(shapes[0])), *rest)


def bind_optional_axis(shapes: Shapes, axis: Any, *rest: Any) -> tuple[Any, ...]:
    """Bind rule of argmax and argmin: one axis, or ``None`` for the flattened tensor."""
    return (None if axis is None else normalise_axis(axis, len(shapes[0])), *rest)


def reduced(shapes: Shapes, *, axis: Shape, keepdims: bool, **meta: Any) -> Shape:
    """Shape rule of reductions over bound axes."""
    (shape,) = shapes
    if keepdims:
        return tuple(1 if i in axis else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in axis)


def reduced_nonempty(shapes: Shapes, *, axis: Shape, keepdims: bool, **meta: Any) -> Shape:
    """As reduced, for operators without an identity: reducing an axis of size 0 is an error."""
    (shape,) = shapes
    out = reduced(shapes, axis=axis, keepdims=keepdims)
    for a in axis:
        if shape[a] == 0 and prod(out) > 0:
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


# Basic indexing ------------------------------------------------------------------------------------------------------


_whole = (slice(None),) * 64


def bind_index(shapes: Shapes, key: Any) -> tuple[Any, ...]:
    """Bind rule of basic indexing: one int, slice or ``None`` per step, slices with all three parts, ints from 0.

    Raises:
        IndexingError: out of range, too many indices, or two ellipses.
    """
    shape: Shape = shapes[0]
    if key.__class__ is int and 0 < len(shape) <= 64 and -shape[0] <= key < shape[0]:
        return ((key if key >= 0 else key + shape[0], *_whole[: len(shape) - 1]),)
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
                i = _size(k)
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


def taken(shapes: Shapes, *, axis: int) -> Shape:
    """Shape rule of take: the indices' shape in place of one axis."""
    shape, where = shapes
    return (*shape[:axis], *where, *shape[axis + 1 :])


def refuse_copy(shape: Shape, strides: object, new: object, what: str) -> AliasError:
    """The error of ``copy=False`` where a copy would be needed."""
    return AliasError(
        f"{what} of shape {shape} with strides {strides} (in elements) to {new} needs a copy, and copy=False forbids it"
    )


# Convolution and pooling ---------------------------------------------------------------------------------------------


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
