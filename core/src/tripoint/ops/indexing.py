"""Reading and writing parts of a tensor."""

from __future__ import annotations

from typing import Any

from tripoint import rules
from tripoint.dispatcher.declare import composite, inplace, primitive
from tripoint.dispatcher.resolve import comes_home
from tripoint.dtypes import Defaults
from tripoint.errors import LayoutError, NotBuiltYetError
from tripoint.kernels import row_of
from tripoint.layouts import strided
from tripoint.modes import get_mode
from tripoint.ops.conversion import copy, to
from tripoint.ops.creation import asarray, zeros
from tripoint.storage import View
from tripoint.tensor import Operand, Tensor


@primitive(
    dtype=rules.kept(), shape=rules.indexed, bind=rules.bind_index, aliases="always", kind="structural", minimal=True
)
def getitem(x: Tensor, /, key: Any) -> Tensor:
    """Basic indexing, ``x[key]``: ints, slices (negative steps too), ``None`` and ``...``; a view.

    Raises:
        IndexingError: out of range, more indices than axes, a step of 0, or no index at all.
    """


@composite(dtype=rules.kept(), shape=rules.named, kind="indexing")
def getitem_back(g: Tensor, /, *, shape: tuple[int, ...], key: Any) -> Tensor:
    """Zeros of ``shape`` with ``g`` in the place that ``key`` reads; the adjoint of `getitem`."""
    out = zeros(shape, dtype=g.dtype, device=g.device)
    assign_(getitem(out, key), g)
    return out


@primitive(dtype=rules.kept(), shape=rules.taken, bind=rules.bind_take, kind="indexing")
def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Elements of ``x`` at int positions along an axis; negative positions count from the end.

    Args:
        axis: may be left out where ``x`` has one axis.

    Raises:
        IndexingError: a position outside of the axis, or positions that are no integers.
        ShapeError: the axis is out of range, or positions of several axes.
        ArgumentError: an axis that is no int, or none where ``x`` has not one axis.
    """


@primitive(dtype=rules.kept(), shape=rules.named, bind=None, kind="indexing")
def take_back(g: Tensor, indices: Tensor, /, *, shape: tuple[int, ...], axis: int) -> Tensor:
    """Zeros of ``shape`` with ``g`` added at the positions that `take` read; the adjoint of take."""


@primitive(dtype=rules.like_first(), shape=rules.assigned, kind="assign")
def assign(x1: Tensor, x2: Operand, /) -> Tensor:
    """``x2`` broadcast to the shape of ``x1``, in its dtype; ``assign_`` writes it into ``x1``.

    Leading axes of size 1 that ``x2`` has beyond those of ``x1`` are dropped, as in NumPy: (1, 3) fits into (3,).

    Raises:
        ShapeError: ``x2`` does not broadcast to the shape of ``x1``.
        DTypeError: complex elements into a real dtype.
        ScalarRangeError: a Python number that the integer dtype of ``x1`` cannot hold.
        ReadOnlyError: of ``assign_``, ``x1`` is read-only.
    """


assign_ = inplace(assign, minimal=True)


_plans = row_of(getitem).plans


def index(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: basic indexing, or one integer tensor along the first axis (or the axis that it stands at).

    Raises:
        IndexingError: out of range, or no index at all.
        NotBuiltYetError: several index tensors, or a mask.
    """
    if type(key) is int or type(key) is slice:
        try:  # the look-up of getitem itself, without another call
            plan = _plans[get_mode()][x._key]
        except KeyError:
            return getitem(x, key)
        return plan(x, key)  # type: ignore[no-any-return]
    items = key if key.__class__ is tuple else (key,)
    if not any(_advanced(k) for k in items):
        return getitem(x, key)
    at = [i for i, k in enumerate(items) if _advanced(k)]
    if len(at) > 1:
        raise NotBuiltYetError("indexing with several index tensors is planned; take along one axis at a time")
    where = items[at[0]]
    if not isinstance(where, Tensor):
        empty = isinstance(where, list) and not where
        where = asarray(where, device=x.device, dtype=Defaults.integer if empty else None)
    if where.dtype.name == "bool":
        raise NotBuiltYetError("indexing with a bool mask is planned; tripoint.where(mask, x, 0) keeps the shape")
    rest = [slice(None) if i == at[0] else k for i, k in enumerate(items)]
    if any(k is Ellipsis for k in rest[: at[0]]):
        axis = x.ndim - sum(1 for k in items[at[0] :] if k is not None)
    else:
        axis = sum(1 for k in rest[: at[0]] if k is not None)
    if any(not (k.__class__ is slice or k is Ellipsis) for k in rest):
        raise NotBuiltYetError("an index tensor beside ints or None is planned; index in two steps")
    if len(rest) > x.ndim or rest.count(Ellipsis) > 1 or any(k is not Ellipsis and k != slice(None) for k in rest):
        x = getitem(x, tuple(rest))
    return take(x, where, axis=axis)


def _advanced(k: Any) -> bool:
    if isinstance(k, (Tensor, list, bool)):
        return True
    # A NumPy integer is an int; an array, and its bool, is not.
    return hasattr(k, "__array_interface__") and (getattr(k, "shape", None) != () or str(k.dtype) == "bool")


def set_index(x: Tensor, key: Any, value: Operand) -> None:
    """``x[key] = value`` for basic keys.

    Raises:
        NotBuiltYetError: index tensors or masks.
        LayoutError: the tensor has no views and no cheap way through strided memory, so that its parts cannot be written.
    """
    items = key if key.__class__ is tuple else (key,)
    if any(_advanced(k) for k in items):
        raise NotBuiltYetError("writing through index tensors and masks is planned; use slices, or tripoint.where")
    part = getitem(x, key)
    if not isinstance(part._alias, View):  # a write would go into a copy, and x would stay as it is
        dense = x._key.replace(layout=strided, dtype=x.dtype.plain)
        if comes_home(dense, x._key.base):
            whole = copy(to(x, layout=dense.layout, dtype=dense.dtype))
            set_index(whole, key, value)
            assign_(x, whole)
            return
        raise LayoutError(
            f"a tensor on {x._key.base} has no views, so its parts cannot be written; write into a strided copy of it, "
            f"x.to(layout='strided', dtype={x.dtype.plain.name!r})"
        )
    assign_(part, value)
