"""Making tensors."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.devices import Device, cpu
from tripoint.dispatcher.calls import adopt, number_kind
from tripoint.dispatcher.declare import composite, primitive
from tripoint.dtypes import DType, as_dtype
from tripoint.errors import AliasError, ArgumentError, AutogradError, NoKernelError, ShapeError
from tripoint.keys import SCALARS
from tripoint.layouts import Layout, LayoutSpec
from tripoint.modes import get_mode
from tripoint.ops.conversion import layout_of, to
from tripoint.ops.outside import buffer_of, dtype_of_numbers, foreign_dtype, is_scalar, read_list
from tripoint.tensor import Scalar, Tensor

Shape = int | Sequence[int]
Place = Device | str | None
How = Layout | LayoutSpec | str | None
What = DType | str | type | None

_NEW: dict[str, Any] = {
    "dtype": rules.DTypeRule("target", lambda operator, dtypes, keyed: ((), dt.Defaults.floating), True),
    "shape": rules.named,
    "bind": rules.bind_shape,
    "kind": "creation",
    "keyed": ("dtype", "device", "layout"),
    "target": ("dtype", "device", "layout"),
}


@composite(**_NEW)
def empty(shape: Shape, *, dtype: What = None, device: Place = None, layout: How = None) -> Tensor:
    """A tensor whose elements are whatever the memory held; zeros on a backend without a kernel for it.

    Raises:
        SizeError, ShapeError, ArgumentError, DeviceError, LayoutError, DTypeError: as `zeros`.
    """
    return zeros(shape, dtype=dtype, device=device, layout=layout)


@primitive(minimal=True, **_NEW)
def zeros(shape: Shape, *, dtype: What = None, device: Place = None, layout: How = None) -> Tensor:
    """A tensor of zeros.

    Raises:
        SizeError: more than 2**63 - 1 elements.
        ShapeError: a negative size.
        ArgumentError: a size that is no int.
        DeviceError, LayoutError, DTypeError: an unknown name, hardware that cannot be used, or a dtype that the device lacks.
    """


@primitive(minimal=True, **_NEW)
def ones(shape: Shape, *, dtype: What = None, device: Place = None, layout: How = None) -> Tensor:
    """A tensor of ones.

    Raises:
        SizeError, ShapeError, ArgumentError, DeviceError, LayoutError, DTypeError: as `zeros`.
    """


def _bind_full(shapes: Any, shape: Any, fill_value: Any, dtype: Any, *rest: Any) -> tuple[Any, ...]:
    rules.check_number(fill_value, dt.Defaults.floating if dtype is None else as_dtype(dtype))
    return (rules.check_shape(shape), fill_value, dtype, *rest)


@primitive(name="full", minimal=True, **{**_NEW, "bind": _bind_full})
def _full(shape: Shape, *, fill_value: Scalar, dtype: What = None, device: Place = None, layout: How = None) -> Tensor:
    """A tensor of one value.

    Raises:
        ScalarRangeError: an integer dtype that cannot hold the value.
        DTypeError: a complex value in a real dtype, or NaN or an infinity in an integer dtype; also as `zeros`.
        SizeError, ShapeError, ArgumentError, DeviceError, LayoutError: as `zeros`.
    """


def full(shape: Shape, fill_value: Scalar, *, dtype: What = None, device: Place = None, layout: How = None) -> Tensor:
    """A tensor of one value; the dtype is the value's (a float gives the default floating dtype) unless named."""
    value: Any = fill_value
    if isinstance(value, Tensor) and value._key.autograd:
        raise AutogradError(
            "fill_value is a recorded tensor, and full would drop its gradient; use broadcast_to(x, shape)"
        )
    if is_scalar(value):
        value = value.item()
    kind = number_kind(value)
    if kind is None:
        raise ArgumentError(f"fill_value must be a Python number, not {value!r}")
    if dtype is None:
        dtype = _scalar_dtype(SCALARS[kind].dtype)
    return _full(shape, fill_value=value, dtype=dtype, device=device, layout=layout)


def _scalar_dtype(weak: DType) -> DType:
    if weak is dt.weak_bool:
        return dt.bool_
    if weak is dt.weak_int:
        return dt.Defaults.integer
    return dt.Defaults.floating if weak is dt.weak_float else dt.Defaults.complex()


@primitive(
    dtype=_NEW["dtype"],
    shape=lambda shapes, *, start, step, count, **meta: (count,),
    kind="creation",
    keyed=("dtype", "device", "layout"),
    target=("dtype", "device", "layout"),
)
def ramp(
    *, start: Scalar, step: Scalar, count: int, dtype: What = None, device: Place = None, layout: How = None
) -> Tensor:
    """``count`` numbers ``start + i * step``.

    Raises:
        ScalarRangeError: an integer dtype that cannot hold them.
    """


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: What = None, device: Place = None
) -> Tensor:
    """Numbers from ``start`` (0 when one argument is given) up to ``stop``, which is left out, in steps.

    Ints give the default integer dtype, floats the default floating dtype, unless one is named.

    Raises:
        ShapeError: ``step`` is 0, or the numbers do not end.
        ScalarRangeError: the dtype does not hold them.
    """
    if stop is None:
        start, stop = 0, start
    given = (start, stop, step)
    start, stop, step = (_real(v) for v in given)
    if step == 0:
        raise ShapeError("arange: step must not be 0")
    ints = all(isinstance(v, int) for v in (start, stop, step))
    if ints:
        count = -((start - stop) // step)  # the ceiling, exact for ints of any size
    else:
        import math

        span = (stop - start) / step
        if not math.isfinite(span):
            raise ShapeError(f"arange: from {start} to {stop} in steps of {step} are {span} numbers")
        count = math.ceil(span)
    made = as_dtype(dtype) if dtype is not None else dt.Defaults.integer if ints else dt.Defaults.floating
    (count,) = rules.check_shape(max(0, int(count)))
    if count:
        for end in (start, start + (count - 1) * step):
            rules.check_number(end, made)
    try:
        return ramp(start=start, step=step, count=count, dtype=made, device=device)
    except NoKernelError:
        return _moved(ramp, device, None, start=start, step=step, count=count, dtype=made)


def _moved(operator: Any, device: Place, layout: How, **metas: Any) -> Tensor:
    """What an operator makes on the CPU, moved by a conversion: for a device or layout whose author brings no kernel for it."""
    made = operator(**metas, device=cpu, layout="strided")
    return to(made, device=device if device is not None else get_mode().device, layout=layout)


def _real(v: Any) -> float:
    if isinstance(v, bool) or not (isinstance(v, (int, float)) or hasattr(v, "__index__")):
        raise ArgumentError(f"arange takes ints and floats, not {v!r}")
    return float(v) if isinstance(v, float) else index(v)


@composite(kind="creation")
def zeros_like(x: Tensor, /, *, dtype: What = None, device: Place = None) -> Tensor:
    """Zeros of the shape, device, layout and (plain) dtype of ``x``.

    Raises:
        DTypeError, DeviceError: ``dtype`` or ``device`` is unknown, or the device cannot be used.
        NoKernelError: nothing makes such a tensor there.
    """
    return zeros(x.shape, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


@composite(kind="creation")
def ones_like(x: Tensor, /, *, dtype: What = None, device: Place = None) -> Tensor:
    """Ones of the shape, device, layout and (plain) dtype of ``x``.

    Raises:
        DTypeError, DeviceError: ``dtype`` or ``device`` is unknown, or the device cannot be used.
        NoKernelError: nothing makes such a tensor there.
    """
    return ones(x.shape, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


@composite(kind="creation")
def empty_like(x: Tensor, /, *, dtype: What = None, device: Place = None) -> Tensor:
    """A tensor of the shape, device, layout and (plain) dtype of ``x``, with arbitrary elements.

    Raises:
        DTypeError, DeviceError: ``dtype`` or ``device`` is unknown, or the device cannot be used.
        NoKernelError: nothing makes such a tensor there.
    """
    return empty(x.shape, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


@composite(kind="creation")
def full_like(x: Tensor, /, fill_value: Scalar, *, dtype: What = None, device: Place = None) -> Tensor:
    """One value in the shape, device, layout and (plain) dtype of ``x``.

    Raises:
        ArgumentError: ``fill_value`` is no Python number.
        ScalarRangeError: it does not fit in the dtype.
        DTypeError, DeviceError: ``dtype`` or ``device`` is unknown, or the device cannot be used.
        NoKernelError: nothing makes such a tensor there.
    """
    return full(x.shape, fill_value, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


def _data_shape(shapes: Any, *, data: Any, **meta: Any) -> Any:
    """The shape of nested sequences or of a foreign array; ``None`` of one that does not tell."""
    made = []
    while isinstance(data, (list, tuple)):
        made.append(len(data))
        data = data[0] if data else 0
    if isinstance(data, (bool, int, float, complex)):
        return tuple(made)
    shape = getattr(data, "shape", None)
    return None if shape is None else (*made, *shape)


@primitive(
    dtype=_NEW["dtype"],
    shape=_data_shape,
    kind="creation",
    keyed=("dtype", "device", "layout"),
    target=("dtype", "device", "layout"),
)
def from_data(*, data: Any, copy: bool | None, dtype: What = None, device: Place = None, layout: How = None) -> Tensor:
    """A tensor of nested sequences, Python numbers or a foreign array; `asarray` settles the dtype and calls it.

    Raises:
        DTypeError, ArgumentError, AliasError: as `asarray`.
    """


def asarray(
    obj: Any, /, *, dtype: What = None, device: Place = None, layout: How = None, copy: bool | None = None
) -> Tensor:
    """A tensor of ``obj``: a tensor, a Python number, nested lists or tuples of these, or a foreign array.

    Args:
        dtype: unless named, a foreign array's own; of Python numbers bool, the default integer dtype, the default
            floating dtype or its complex dtype, whichever holds them all.
        copy: ``None`` shares memory where possible, ``True`` copies, ``False`` raises where a copy is needed.

    Raises:
        ArgumentError: text, ragged nesting, objects.
        DTypeError: a foreign dtype without an equal here (objects, dates, structures).
        AliasError: ``copy=False`` and a copy is needed.
    """
    if isinstance(obj, Tensor):
        return to(obj, dtype=dtype, device=device, layout=layout, copy=copy)
    made = as_dtype(dtype) if dtype is not None else None
    if isinstance(obj, (list, tuple)):
        obj, found, foreign = read_list(obj, made)
        if foreign:
            from tripoint.ops.manipulation import stack

            if copy is False:
                raise AliasError("asarray: a list of arrays holds no memory to share, and copy=False forbids a copy")
            return to(stack([asarray(o, dtype=made, device=device) for o in obj]), layout=layout)
    elif isinstance(obj, (bool, int, float, complex)) and not hasattr(obj, "__array_interface__"):
        found = dtype_of_numbers([obj], made)
    elif isinstance(obj, (range, memoryview)) or hasattr(obj, "__array__") or hasattr(obj, "__dlpack__"):
        if isinstance(obj, range):
            return asarray(list(obj), dtype=made, device=device, layout=layout)
        found = foreign_dtype(obj)
    elif (viewed := buffer_of(obj)) is not None:
        return asarray(viewed, dtype=dtype, device=device, layout=layout, copy=copy)
    else:
        raise ArgumentError(
            f"asarray takes tensors, Python numbers, nested lists of them and arrays, not a {type(obj).__name__}"
        )
    if copy is False and isinstance(obj, (list, tuple, bool, int, float, complex)):
        raise AliasError(f"asarray: a {type(obj).__name__} holds no memory to share, and copy=False forbids a copy")
    wanted = made or found
    if copy is False and wanted is not found:
        raise AliasError(f"asarray: converting {found} to {wanted} needs a copy, and copy=False forbids it")
    if not wanted.is_plain:  # by its own conversion, which says so where the dtype has parameters
        return to(asarray(obj, dtype=wanted.plain, device=device), dtype=wanted, layout=layout)
    try:
        return from_data(data=obj, copy=copy, dtype=wanted, device=device, layout=layout)
    except NoKernelError:
        return _moved(from_data, device, layout, data=obj, copy=copy, dtype=wanted)


def _adopt(value: Any, beside: Tensor | None) -> Tensor:
    return asarray(value, device=beside.device if beside is not None else None)


adopt.append(_adopt)
