"""Making tensors."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from operator import index
from typing import Any

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.devices import Device, cpu
from tripoint.dispatcher.calls import adopt, number_kind
from tripoint.dispatcher.declare import composite, primitive
from tripoint.dtypes import DType, as_dtype
from tripoint.errors import AliasError, ArgumentError, AutogradError, DTypeError, NoKernelError, ShapeError, shown
from tripoint.keys import SCALARS
from tripoint.layouts import Layout, LayoutSpec
from tripoint.modes import get_mode
from tripoint.ops.conversion import layout_of, to
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
    if _is_scalar(value):
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
    ints = builtins.all(isinstance(v, int) for v in (start, stop, step))
    if ints:
        count = -((start - stop) // step)  # the ceiling, exact for ints of any size
    else:
        import math

        span = (stop - start) / step
        if not math.isfinite(span):
            raise ShapeError(f"arange: from {start} to {stop} in steps of {step} are {span} numbers")
        count = math.ceil(span)
    made = dtype if dtype is not None else dt.Defaults.integer if ints else dt.Defaults.floating
    (count,) = rules.check_shape(builtins.max(0, int(count)))
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
    """Zeros of the shape, device, layout and (plain) dtype of ``x``."""
    return zeros(x.shape, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


@composite(kind="creation")
def ones_like(x: Tensor, /, *, dtype: What = None, device: Place = None) -> Tensor:
    """Ones of the shape, device, layout and (plain) dtype of ``x``."""
    return ones(x.shape, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


@composite(kind="creation")
def empty_like(x: Tensor, /, *, dtype: What = None, device: Place = None) -> Tensor:
    """A tensor of the shape, device, layout and (plain) dtype of ``x``, with arbitrary elements."""
    return empty(x.shape, dtype=dtype or x.dtype.plain, device=device or x.device, layout=layout_of(x))


@composite(kind="creation")
def full_like(x: Tensor, /, fill_value: Scalar, *, dtype: What = None, device: Place = None) -> Tensor:
    """One value in the shape, device, layout and (plain) dtype of ``x``."""
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
    """A tensor of nested sequences, Python numbers or a foreign array; `asarray` settles the dtype and calls it."""


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
        out = to(obj, dtype=dtype, device=device, layout=layout, copy=copy)
        return out
    made = as_dtype(dtype) if dtype is not None else None
    if isinstance(obj, (list, tuple)):
        obj, found, foreign = _read_list(obj)
        if foreign:
            from tripoint.ops.manipulation import stack

            if copy is False:
                raise AliasError("asarray: a list of arrays holds no memory to share, and copy=False forbids a copy")
            return to(stack([asarray(o, dtype=made, device=device) for o in obj]), layout=layout)
    elif isinstance(obj, (bool, int, float, complex)) and not hasattr(obj, "__array_interface__"):
        found = _kind_of([obj])
    elif isinstance(obj, (range, memoryview)) or hasattr(obj, "__array__") or hasattr(obj, "__dlpack__"):
        if isinstance(obj, range):
            return asarray(list(obj), dtype=made, device=device, layout=layout)
        found = _foreign_dtype(obj)
    elif (viewed := _buffer(obj)) is not None:
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


_FORMATS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64", "Zf": "complex64", "Zd": "complex128"}


def _buffer(obj: Any) -> memoryview | None:
    """The memory of an object with Python's buffer protocol; text and bytes are no numbers."""
    if isinstance(obj, bytes):
        return None
    try:
        return memoryview(obj)
    except TypeError:
        return None


def _foreign_dtype(obj: Any) -> DType:
    foreign = getattr(obj, "dtype", None)
    if foreign is None and isinstance(obj, memoryview):
        code = obj.format.lstrip("@=<>!")
        sign = "int" if code in tuple("bhilqn") else "uint" if code in tuple("BHILQN") else ""
        foreign = f"{sign}{obj.itemsize * 8}" if sign else _FORMATS.get(code, f"format {obj.format!r}")
    elif foreign is None:
        array = getattr(obj, "__array_interface__", None)
        if array is None:
            raise ArgumentError(f"asarray: a {type(obj).__name__} does not say what its elements are; convert it first")
        text = array["typestr"]
        foreign = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}.get(text[1], "?")
        foreign = foreign if foreign == "bool" else f"{foreign}{int(text[2:]) * 8}"
    name = foreign if isinstance(foreign, str) else getattr(foreign, "name", None) or str(foreign)
    name = name.rpartition(".")[2]
    found = dt.PLAIN.get(name)
    if found is None:
        raise DTypeError(
            f"asarray: an array of dtype {foreign} has no equal here; convert it to numbers first "
            f"(dtypes: {', '.join(dt.PLAIN)})"
        )
    return found


_ORDER = (bool, int, float, complex)


def _kind_of(flat: Sequence[Any]) -> DType:
    kinds = set(map(type, flat))
    best = -1
    for kind in kinds:
        rank = next((i for i, k in enumerate(_ORDER) if issubclass(kind, k)), None)
        if rank is None:
            word = "text" if issubclass(kind, (str, bytes)) else f"a {kind.__name__}"
            raise ArgumentError(f"asarray: {word} is no number; tensors hold bools, ints, floats and complex numbers")
        best = builtins.max(best, rank)
    if best < 0:
        return dt.Defaults.floating
    if best == 1 and builtins.any(not -(2**63) <= v < 2**63 for v in flat):
        big = next(v for v in flat if not -(2**63) <= v < 2**63)
        if big < 2**64 and builtins.all(v >= 0 for v in flat):
            return dt.uint64
        raise ArgumentError(f"asarray: the int {shown(big)} does not fit in 64 bits; write it as a float")
    return (dt.bool_, dt.Defaults.integer, dt.Defaults.floating, dt.Defaults.complex())[best]


def _read_list(obj: Any) -> tuple[Any, DType, bool]:
    """The nested lists, their dtype, and whether arrays stand inside.

    Raises:
        ArgumentError: ragged nesting, text, or things that are no numbers.
    """
    flat: list[Any] = []
    shape: list[int] = []
    level: list[Any] = [obj]
    while True:
        kinds = set(map(type, level))
        nested = [k for k in kinds if issubclass(k, (list, tuple))]
        if not nested:
            break
        if builtins.any(getattr(v, "shape", ()) != () for v in level):
            return list(obj), dt.Defaults.floating, True  # lists beside arrays
        if len(nested) != len(kinds):
            raise ArgumentError(f"asarray: ragged nesting: numbers and lists side by side at depth {len(shape)}")
        sizes = {len(v) for v in level}
        if len(sizes) > 1:
            raise ArgumentError(
                f"asarray: ragged nesting: lists of lengths {', '.join(map(str, sorted(sizes)))} side by side at depth "
                f"{len(shape)}; pad them to one length"
            )
        shape.append(sizes.pop())
        level = [v for inner in level for v in inner]
        if not level:
            break
    flat = level
    if builtins.any(hasattr(v, "__array__") or isinstance(v, Tensor) for v in flat):
        recorded = builtins.any(isinstance(v, Tensor) and v._key.autograd for v in flat)
        if not recorded and builtins.all(isinstance(v, (bool, int, float, complex)) or _is_scalar(v) for v in flat):
            return _unwrapped(obj), _joined(flat), False
        return list(obj), dt.Defaults.floating, True
    return obj, _kind_of(flat), False


def _is_scalar(v: Any) -> bool:
    return getattr(v, "shape", None) == ()


def _unwrapped(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        return [_unwrapped(v) for v in obj]
    return obj.item() if _is_scalar(obj) else obj


def _joined(flat: list[Any]) -> DType:
    out: DType | None = None
    for v in flat:
        one = v.dtype if isinstance(v, Tensor) else _foreign_dtype(v) if _is_scalar(v) else None
        if one is not None:
            out = one if out is None else dt.promote(out, one)
    weak = [v for v in flat if not _is_scalar(v)]
    if out is None:
        return _kind_of(flat)
    for v in weak:
        out = dt.promote_weak(out, next(SCALARS[k].dtype for k in _ORDER if isinstance(v, k)))
    return out


def _adopt(value: Any, beside: Tensor | None) -> Tensor:
    return asarray(value, device=beside.device if beside is not None else None)


adopt.append(_adopt)
