"""Where look-ups that miss arrive: keys of any operands, one resolution, one plan, kept for the next call.

Plans live until a registration, a preference, a block or the default dtype changes. Readers make the inner dictionaries
before they resolve, so a plan that was resolved before a change and is inserted after it lands in an orphan.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tripoint import plugins
from tripoint.dispatcher.outcome import bound, expected_shape
from tripoint.dispatcher.plan import build
from tripoint.dispatcher.resolve import Resolution, resolve
from tripoint.dispatcher.views import refresh
from tripoint.errors import ArgumentError, NoKernelError, TripointError, cleaned, kind_of, shown, sized, told
from tripoint.keys import ABSENT, BY_TYPE, SCALARS, Key
from tripoint.layouts import strided
from tripoint.modes import get_mode
from tripoint.schema import Param, Row, rows
from tripoint.tensor import Tensor

__all__ = ["call_row", "counters", "resolution"]


class Counters:
    """Counts for tests and reports: ``resolutions`` made since the program began."""

    resolutions = 0


counters = Counters()

#: makes a tensor of a foreign array, like the tensor beside it; the room ``ops`` sets it.
adopt: list[Callable[[Any, Tensor | None], Tensor]] = []


def key_of(value: Any) -> Key | None:
    """The key of a tensor, a Python scalar or ``None``; ``None`` for anything else."""
    key = BY_TYPE.get(value.__class__)
    if key is not None:
        return key
    if isinstance(value, Tensor):
        refresh(value)
        return value._key
    kind = number_kind(value)
    return SCALARS[kind] if kind is not None else None


def number_kind(value: Any) -> type | None:
    """The Python number type that a value counts as: subclasses, such as numpy.float64, count as their base."""
    return next((kind for kind in SCALARS if isinstance(value, kind)), None)  # bool first: it is a subclass of int


def foreign(value: Any) -> bool:
    """Whether a value is an array of another library, which becomes a tensor."""
    return any(hasattr(value, n) for n in ("__array_interface__", "__dlpack__", "__array__")) and not isinstance(
        value, type
    )


def operand_keys(row: Row, operands: tuple[Any, ...]) -> tuple[list[Any], list[Any], tuple[Key, ...], tuple[int, ...]]:
    """The operands with foreign arrays adopted; the look-up path; flat keys; and the operand each key belongs to.

    Raises:
        ArgumentError: an operand that is neither a tensor nor a Python number.
    """
    values: list[Any] = []
    path: list[Any] = []
    flat: list[Key] = []
    slots: list[int] = []
    beside = next((v for v in operands if isinstance(v, Tensor)), None)
    for i, (p, value) in enumerate(zip(row.operands, operands, strict=True)):
        if p.role == "variadic":
            if isinstance(value, Tensor) or not isinstance(value, (tuple, list)):
                raise ArgumentError(f"{row.name}: {p.name} must be a list or tuple of tensors, not {_show(value)}")
            items = [_operand(row, p, v, beside) for v in value]
            keys = tuple([k for _, k in items])
            values.append([v for v, _ in items])
            path.append(keys)
            flat += keys
            slots += [i] * len(keys)
        else:
            made, key = _operand(row, p, value, beside)
            values.append(made)
            path.append(key)
            flat.append(key)
            slots.append(i)
    return values, path, tuple(flat), tuple(slots)


def _operand(row: Row, p: Param, value: Any, beside: Tensor | None) -> tuple[Any, Key]:
    key = key_of(value)
    if key is not None and not key.is_tensor and value.__class__ not in BY_TYPE:
        kind = number_kind(value)
        assert kind is not None
        value = kind(value)  # a kernel must not see the subclass, which may carry a dtype of its own
    if key is None and foreign(value):
        value = adopt[0](value, beside)
        key = value._key
    if key is None or (not key.is_tensor and not (p.role == "optional" if key is ABSENT else p.number)):
        raise ArgumentError(
            f"{row.name}: {p.name} must be a tensor{' or a Python number' if p.number else ''}, not {_show(value)}; "
            "make a tensor with tripoint.asarray(...)"
        )
    return value, key


def _show(value: Any) -> str:
    text = shown(value)
    kind = type(value).__name__
    return f"the {kind} {text}" if len(text) <= 40 else f"a {kind}"


def _level(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def call_row(row: Row, operands: tuple[Any, ...], metas: tuple[Any, ...]) -> Any:
    """Call an operator by its row: look its plan up, or resolve, build, run and keep it."""
    values, path, flat, slots = operand_keys(row, operands)
    if not any(k.is_tensor for k in flat) and row.operands:
        raise ArgumentError(
            f"{row.name}: at least one operand must be a tensor, not {', '.join(_show(v) for v in operands)}; "
            "make one with tripoint.asarray(...)"
        )
    mode = get_mode()
    for layer in mode.layers:
        if layer.answer is not None:
            return layer.answer(row, values, metas)
    keyed = {p.name: v for p, v in zip(row.metas, metas, strict=True) if p.name in row.keyed}
    if row.keyed:
        path.append(_level(tuple(keyed.values())))
    table = row.plans.setdefault(mode, {})
    last = path[-1] if path else None
    try:
        for level in path[:-1]:
            table = table.setdefault(level, {})
        plan = table.get(last)
    except TypeError:
        plan, table = None, {}  # unhashable metadata: the resolution below says what is wrong with it, or copes
        last = None
    if plan is not None:
        return plan(*values, *metas)
    counters.resolutions += 1
    found = resolved(Resolution(row, mode, flat, slots), values, metas, keyed)
    out = build(found, first=True)(*values, *metas)
    if rows.get(row.name) is row and not _by_current_device(found, keyed):  # else nobody would tell the plan of changes
        table[last] = build(found)
    return out


def resolved(start: Resolution, values: list[Any], metas: tuple[Any, ...], keyed: dict[str, Any]) -> Resolution:
    """What a call does, from a Resolution that holds no more than the call, and that is filled on the way.

    Raises:
        TripointError: as `resolve`; `NoKernelError` says what the call would take on strided operands.
    """
    try:
        return resolve(start.row, start.mode, start.keys, start.slots, keyed, start)
    except NoKernelError as error:
        if "layout='strided'" in error.help:
            error.help += _cost(start.row, values, metas, start.keys, keyed)
        tried = error.routes
        if start.mode.fallback == "error" and tried:
            error.routes = lambda: (*tried[:-1], ("fallback", f"not permitted{_permitting(start, keyed)}"))
        raise


def _permitting(start: Resolution, keyed: dict[str, Any]) -> str:
    """What a policy that permits fallbacks would make of a call that has no kernel, as text."""
    mode = start.mode.replace(fallback="allow:cpu")
    try:
        build(resolve(start.row, mode, start.keys, start.slots, keyed))
    except NoKernelError as error:
        return f", nor possible: {dict(error.routes).get('fallback', '').partition(': ')[2] or 'no kernel is there either'}"
    except Exception as error:
        return f", nor possible: {cleaned(told(error) or kind_of(error), 1)}"
    return " (tripoint.fallback permits it)"


def _cost(row: Row, values: list[Any], metas: tuple[Any, ...], keys: tuple[Key, ...], keyed: dict[str, Any]) -> str:
    """What a call would take on strided operands, as text, where one of another layout has no kernel."""
    moved = [
        f"{p.name} needs {sized(prod(v.shape) * v.dtype.itemsize)}"
        for p, v in zip(row.operands, values, strict=True)
        if isinstance(v, Tensor) and v.layout is not strided
    ]
    if not moved or row.dtype is None or not all(k.dtype.is_plain for k in keys if k is not ABSENT):
        return ""
    try:
        shape = expected_shape(row, bound(row, (*values, *metas)))
        _, dtype = row.dtype(row.name, tuple([None if k is ABSENT else k.dtype for k in keys]), keyed)
    except TripointError:
        return ""  # the call is wrong in more than one way
    if shape is None:
        return ""
    size = sized(prod(shape) * dtype.itemsize)
    return f"; then {', '.join(moved)} and the result, {dtype} of shape {shape}, {size}"


def _by_current_device(found: Resolution, keyed: dict[str, Any]) -> bool:
    """Whether the target is named without its index: the next such call may mean another device."""
    named, target = keyed.get("device"), found.target
    return named is not None and target is not None and target.device.index is not None and ":" not in str(named)


def resolution(row: Row, operands: tuple[Any, ...], metas: tuple[Any, ...]) -> Resolution:
    """What a call would do in the mode in force, without running it."""
    _, _, flat, slots = operand_keys(row, operands)
    keyed = {p.name: v for p, v in zip(row.metas, metas, strict=True) if p.name in row.keyed}
    return resolve(row, get_mode(), flat, slots, keyed)


def dunder_miss(row: Row, a: Any, b: Any) -> Any:
    """A binary operator in its dunder form: NotImplemented for strangers, so that their class may answer."""
    for value in (a, b):
        if key_of(value) in (None, ABSENT) and not foreign(value):
            return NotImplemented
    return call_row(row, (a, b), ())


def forget_plans() -> None:
    """Drop every plan; what is being resolved now lands in an orphan."""
    for row in list(rows.values()):
        row.plans.clear()


plugins.on_change.append(forget_plans)
