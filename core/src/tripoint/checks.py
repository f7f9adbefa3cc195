"""Checks for kernels and functions of plugins, as ``tripoint.plugin.check``: what fails is told by operator and argument.

Each takes the operator (its name, or itself), what is wanted, and then the arguments by name. A payload, a Tensor, or
anything else with the attribute asked for will do. An argument that is ``None`` is absent, and passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tripoint.dtypes import DType, DTypeClass, as_dtype
from tripoint.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    LayoutError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    TripointError,
    shown,
)
from tripoint.rules import check_number

__all__ = [
    "choice",
    "device",
    "dtype",
    "exponent",
    "fits",
    "integer",
    "kind",
    "layout",
    "ndim",
    "number",
    "same_device",
    "same_dtype",
    "same_layout",
    "same_shape",
    "shape",
    "writable",
]

Operator = Callable[..., Any] | str


def _name(operator: Operator) -> str:
    if isinstance(operator, str):
        return operator
    row = getattr(operator, "_row", None)
    return row.name if row is not None else getattr(operator, "__name__", repr(operator))


def shape(operator: Operator, wanted: tuple[int | None, ...], /, **arguments: Any) -> None:
    """Each argument has the shape ``wanted``, in which ``None`` stands for any size.

    Raises:
        ShapeError: another number of axes, or another size.
    """
    for name, value in arguments.items():
        if value is None:
            continue
        have = tuple(value.shape)
        if have == wanted:
            continue
        if len(have) != len(wanted) or any(w not in (None, h) for w, h in zip(wanted, have, strict=True)):
            said = ", ".join("any" if w is None else str(w) for w in wanted) + "," * (len(wanted) == 1)
            raise ShapeError(f"{_name(operator)}: {name} has shape {have}; it must be ({said})")


def ndim(operator: Operator, least: int, most: int | None = None, /, **arguments: Any) -> None:
    """Each argument has ``least`` axes, or from ``least`` to ``most``.

    Raises:
        ShapeError: fewer or more.
    """
    top = least if most is None else most
    for name, value in arguments.items():
        if value is None:
            continue
        have = tuple(value.shape)
        if not least <= len(have) <= top:
            span = str(least) if top == least else f"{least} to {top}"
            raise ShapeError(f"{_name(operator)}: {name} has shape {have}, {len(have)} axes; it must have {span}")


def dtype(operator: Operator, wanted: DType | DTypeClass | Iterable[DType | DTypeClass], /, **arguments: Any) -> None:
    """The dtype of each argument, itself a DType or something with one, is ``wanted``, of that class, or one of several.

    Raises:
        DTypeError: it is none of these.
    """
    options: tuple[Any, ...] = (wanted,) if isinstance(wanted, (DType, DTypeClass)) else tuple(wanted)
    for name, value in arguments.items():
        if value is None:
            continue
        have = value if isinstance(value, DType) else as_dtype(value.dtype)
        if not _among(have, options):
            names = " or ".join(w.name for w in options)
            raise DTypeError(f"{_name(operator)}: {name} is {have}; it must be {names}; convert with .to(dtype=...)")


def _among(have: DType, options: tuple[Any, ...]) -> bool:
    for option in options:
        if option is have:  # mostly; to compare dtypes in Python costs more than all of this
            return True
    return any(have in w if isinstance(w, DTypeClass) else have == w for w in options)


def device(operator: Operator, wanted: str, /, **arguments: Any) -> None:
    """Each argument is on a device of the type ``wanted``.

    Raises:
        DeviceError: it is elsewhere.
    """
    for name, value in arguments.items():
        if value is not None and value.device.type != wanted:
            raise DeviceError(
                f"{_name(operator)}: {name} is on {value.device}; it must be on {wanted}; move it with .to({wanted!r})"
            )


def layout(operator: Operator, wanted: object, /, **arguments: Any) -> None:
    """Each argument has the layout ``wanted``, a Layout or its name.

    Raises:
        LayoutError: it has another.
    """
    for name, value in arguments.items():
        if value is not None and value.layout != wanted:
            raise LayoutError(
                f"{_name(operator)}: {name} has the layout {value.layout}; it must be {wanted}; "
                f"convert with .to(layout={str(wanted)!r})"
            )


def _same(operator: Operator, what: str, found: dict[str, Any], error: type[Exception], hint: str) -> None:
    first, *others = found.values() or (None,)
    for value in others:
        if value is not first and value != first:
            listed = ", ".join(f"{name}: {value}" for name, value in found.items())
            raise error(f"{_name(operator)}: the {what}s of the arguments must be equal ({listed}){hint}")


def same_shape(operator: Operator, /, **arguments: Any) -> None:
    """All arguments have one shape.

    Raises:
        ShapeError: they differ.
    """
    _same(operator, "shape", {n: tuple(v.shape) for n, v in arguments.items() if v is not None}, ShapeError, "")


def same_dtype(operator: Operator, /, **arguments: Any) -> None:
    """All arguments have one dtype.

    Raises:
        DTypeError: they differ.
    """
    found = {n: v.dtype for n, v in arguments.items() if v is not None}
    _same(operator, "dtype", found, DTypeError, "; convert with .to(dtype=...)")


def same_layout(operator: Operator, /, **arguments: Any) -> None:
    """All arguments have one layout.

    Raises:
        LayoutError: they differ.
    """
    found = {n: v.layout for n, v in arguments.items() if v is not None}
    _same(operator, "layout", found, LayoutError, "; convert with .to(layout=...)")


def same_device(operator: Operator, /, **arguments: Any) -> None:
    """All arguments are on one device.

    Raises:
        DeviceError: they are on several.
    """
    found = {n: v.device for n, v in arguments.items() if v is not None}
    _same(operator, "device", found, DeviceError, "; move them with .to(device)")


def writable(operator: Operator, /, **arguments: Any) -> None:
    """No argument is read-only.

    Raises:
        ReadOnlyError: one is.
    """
    for name, value in arguments.items():
        if value is not None and value.readonly:
            raise ReadOnlyError(f"{_name(operator)}: {name} is read-only; write to a copy, {name}.copy()")


def kind(operator: Operator, wanted: type | tuple[type, ...], /, **arguments: Any) -> None:
    """Each argument is an instance of ``wanted``.

    Raises:
        ArgumentError: it is something else.
    """
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    for name, value in arguments.items():
        if value is not None and not isinstance(value, kinds):
            names = " or ".join(k.__name__ for k in kinds)
            raise ArgumentError(
                f"{_name(operator)}: {name} must be of the type {names}, not the {type(value).__name__} {shown(value)}"
            )


def integer(operator: Operator, least: int | None = None, most: int | None = None, /, **arguments: Any) -> None:
    """Each argument is an int, no bool, from ``least`` to ``most``.

    Raises:
        ArgumentError: no int.
        ScalarRangeError: outside of the range.
    """
    for name, value in arguments.items():
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise ArgumentError(
                f"{_name(operator)}: {name} must be an int, not the {type(value).__name__} {shown(value)}"
            )
    _ranged(operator, least, most, arguments)


def number(operator: Operator, least: float | None = None, most: float | None = None, /, **arguments: Any) -> None:
    """Each argument is a finite int or float, no bool, from ``least`` to ``most``.

    Raises:
        ArgumentError: no number, or NaN or an infinity.
        ScalarRangeError: outside of the range.
    """
    for name, value in arguments.items():
        if value is None:
            continue
        finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        if isinstance(value, bool) or not finite:
            raise ArgumentError(
                f"{_name(operator)}: {name} must be a finite number, not the {type(value).__name__} {shown(value)}"
            )
    _ranged(operator, least, most, arguments)


def _ranged(operator: Operator, least: float | None, most: float | None, arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if value is not None and ((least is not None and value < least) or (most is not None and value > most)):
            ends = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
            raise ScalarRangeError(f"{_name(operator)}: {name} is {shown(value)}; it must be {' and '.join(ends)}")


def fits(operator: Operator, dtype: DType, /, **arguments: Any) -> None:
    """The plain dtype can hold each argument, a Python number.

    Raises:
        DTypeError: a complex number in a real dtype, or NaN or an infinity in an integer dtype.
        ScalarRangeError: a number that the integer dtype cannot hold.
    """
    for name, value in arguments.items():
        if value is None:
            continue
        try:
            check_number(value, dtype)
        except TripointError as error:
            raise type(error)(f"{_name(operator)}: {name}: {error}") from None


def exponent(operator: Operator, /, **arguments: Any) -> None:
    """Each argument, an exponent of integers or the smallest of several, is not negative: what `pow` asks for.

    Raises:
        ArgumentError: one is.
    """
    for name, value in arguments.items():
        if value is not None and value < 0:
            raise ArgumentError(
                f"{_name(operator)}: {name} is {shown(value)}, and an integer to a negative power is no integer; "
                "convert to a floating dtype first"
            )


def choice(operator: Operator, options: Iterable[Any], /, **arguments: Any) -> None:
    """Each argument is one of ``options``.

    Raises:
        ArgumentError: it is none of them.
    """
    known = list(options)
    for name, value in arguments.items():
        if value is not None and value not in known:
            raise ArgumentError(
                f"{_name(operator)}: {name} is {shown(value)}; it must be one of {', '.join(map(repr, known))}"
            )
