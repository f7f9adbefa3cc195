"""Which operator works on which point: what `tripoint.coverage` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tripoint import dtypes, kernels, layouts, plugins
from tripoint.devices import Device
from tripoint.dtypes import CLASSES, PLAIN, DType, DTypeClass, as_dtype
from tripoint.errors import ArgumentError, TripointError, clipped
from tripoint.kernels import Point, row_of
from tripoint.keys import Key, intern
from tripoint.layouts import Layout
from tripoint.modes import get_mode
from tripoint.patterns import Pattern
from tripoint.plugins import Claim, Plugin
from tripoint.schema import Row, did_you_mean, rows
from tripoint.support.calls import cell_of
from tripoint.support.operators import listed
from tripoint.support.table import Cell, Coverage, Mixed, Place, summed

__all__ = ["coverage"]


def coverage(
    operators: Callable[..., Any] | str | Iterable[Callable[..., Any] | str] | None = None,
    *,
    devices: Device | str | Iterable[Device | str] | None = None,
    layouts: Layout | str | Iterable[Layout | str] | None = None,
    dtypes: DType | DTypeClass | str | Iterable[DType | DTypeClass | str] | None = None,
    load: bool = False,
) -> Coverage:
    """Which operator works on which point, and by what; prints as a table.

    Each cell is found on keys by the dispatcher's own resolution, under the fallback policy in force. Nothing is run and no
    hardware is asked for. Parts of a decomposition are resolved too.

    Args:
        operators: only these, as functions or qualified names.
        devices, layouts: only these; a device is taken without its index.
        dtypes: only these; ``"floating"`` and the like stand for every dtype of the class.
        load: load every installed plugin first, and ask for its hardware. Without it only what serves a named device, layout
            or dtype is loaded; the points of other plugins are there as ``not loaded``.

    Raises:
        ArgumentError: no such operator is known.
        DeviceError, LayoutError, DTypeError: nothing installed provides what is named.
    """
    wanted = _Wanted(devices, layouts, dtypes)
    if load:
        plugins.load_all()
    for plugin in plugins.found().values():
        if wanted.names(plugin):
            plugins.load(plugin)
    wanted.check()
    chosen = _chosen(operators)
    keys = {place.name: key for key, place in _points().items() if wanted.takes(place)}
    found = {place.name: place for place in (*_waiting(), *_points().values()) if wanted.takes(place)}
    places = tuple(sorted(found.values(), key=_rank))
    mode = get_mode().replace(layers=())
    cells = tuple(
        cell_of(row, keys[place.name], mode) if place.name in keys else _unknown(row, place)
        for row in chosen
        for place in places
    )
    mixed = tuple(m for row in chosen for m in _mixed(row, wanted))
    return Coverage(tuple(row.name for row in chosen), places, cells, mixed, mode.fallback)


def _unknown(row: Row, place: Place) -> Cell:
    note = f"{place.provider} is {place.state}"
    return Cell(row.name, place.device, place.layout, place.dtype, "not loaded", note=note)


def _each(value: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if isinstance(value, (str, Device, Layout, DType, DTypeClass)) or callable(value):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise ArgumentError(f"coverage takes names or lists of names, not {value!r}") from None


class _Wanted:
    """The axes that the user named; what is not named is taken whole."""

    def __init__(self, devices: Any, layouts: Any, dtypes: Any) -> None:
        self.devices = _names(devices, lambda d: str(getattr(d, "type", d)).partition(":")[0])
        self.layouts = _names(layouts, lambda layout: str(getattr(layout, "name", layout)))
        self.dtypes: set[str] | None = None
        if dtypes is not None:
            given = _each(dtypes) or ()
            classes = [CLASSES[str(d)] for d in given if str(d) in CLASSES]
            self.dtypes = {d.name for d in PLAIN.values() if any(d in c for c in classes)}
            self.dtypes |= {as_dtype(d).name for d in given if str(d) not in CLASSES}

    def takes(self, place: Place) -> bool:
        """Whether a point stands in the part of the table that was asked for."""
        return all(
            axis is None or value in axis or value == "*"
            for axis, value in (
                (self.devices, place.device),
                (self.layouts, place.layout),
                (self.dtypes, place.dtype),
            )
        )

    def names(self, plugin: Plugin) -> bool:
        """Whether a device, a layout or an opaque dtype was named, and the plugin has a point there."""
        if self.devices is None and self.layouts is None and not (self.dtypes or set()) - set(PLAIN):
            return False
        return any(self.takes(place) for claim in plugin.claims for c in claim for place in _claimed(c, plugin))

    def check(self) -> None:
        """Raise for a name that nothing installed provides; what could provide it is loaded."""
        for name in sorted(self.devices or ()):
            if name not in plugins.known_devices:
                plugins.find_device(name)
        for name in sorted(self.layouts or ()):
            plugins.find_layout(name)


def _names(value: Any, name: Callable[[Any], str]) -> set[str] | None:
    given = _each(value)
    return None if given is None else {name(v) for v in given}


def _chosen(operators: Any) -> list[Row]:
    given = _each(operators)
    if given is None:
        return [row for _, row in listed()]
    out = []
    for operator in given:
        row = rows.get(operator) if isinstance(operator, str) else row_of(operator)
        if row is None:
            hint = did_you_mean(operator, "; a plugin's operators are known once it is loaded")
            raise ArgumentError(f"there is no operator {operator!r}{hint}")
        out.append(row)
    return list(dict.fromkeys(out))


# Points --------------------------------------------------------------------------------------------------------------


def _points() -> dict[Key, Place]:
    """Every point of the plugins that are loaded."""
    found: dict[Key, Place] = {}
    for point in kernels.points:
        for key in _covered(point.pattern):
            if key not in found and point.holds(key.dtype):
                found[key] = _place(key)
    return found


def _rank(place: Place) -> tuple[Any, ...]:
    """The order of points: the CPU, strided and plain first."""
    order = [*PLAIN]
    plain = order.index(place.dtype) if place.dtype in PLAIN else len(order)
    return (place.device != "cpu", place.device, place.layout != "strided", place.layout, plain, place.dtype)


def _covered(pattern: Pattern) -> Iterable[Key]:
    """The keys that a pattern of points covers, among the devices, layouts and dtypes known so far."""
    known = plugins.known_devices
    types = list(known) if pattern.device == "*" else [pattern.device]
    places = list(layouts.registered) if pattern.layout == "*" else [pattern.layout]
    every = (*PLAIN.values(), *dtypes.registered.values())
    kept = [d for d in every if (d in pattern.dtype if isinstance(pattern.dtype, DTypeClass) else d == pattern.dtype)]
    for device in types:
        made = known.get(device)
        for layout in places:
            there = layouts.registered.get(layout)
            if made is not None and there is not None:
                # Of devices with indices any one stands for all.
                yield from (intern(Device(device, 0) if made.indexed else made, there, d) for d in kept)


def _place(key: Key) -> Place:
    try:
        point = kernels.find_point(key)
    except TripointError:  # several own it: what a call says there
        point = None
    name = point.origin.distribution if point is not None else None
    plugin = plugins.found().get(name) if name else None
    reason = plugin.reason if plugin is not None else None
    provider = name or "the running program"
    said = clipped(reason or "", 400)
    offered = "; ".join(offer for _, _, offer in plugins.offers((key,)))
    return Place(key.device.type, key.layout.name, key.dtype.name, provider, "loaded", said, _holds(point), offered)


def _holds(point: Point | None) -> str:
    """Which tensors of plain dtypes a backend declares, as text; empty for any."""
    said = point.capabilities if point is not None else None
    low, high = getattr(said, "ranks", (0, None))
    axes = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
    held = [d.name for d in PLAIN.values() if point is not None and point.holds(d)]
    some = [f"dtypes {summed(held)}"] if 0 < len(held) < len(PLAIN) else []
    return ", ".join(some + ([f"tensors of {axes} axes"] if (low, high) != (0, None) else []))


def _waiting() -> list[Place]:
    """The points of installed plugins that are not loaded."""
    out: dict[str, Place] = {}
    for plugin in plugins.found().values():
        if plugins.BACKENDS not in plugin.loaded:
            for claim in plugin.claims:
                for c in claim:
                    for place in _claimed(c, plugin):
                        out.setdefault(place.name, place)
    return list(out.values())


def _claimed(claim: Claim, plugin: Plugin) -> list[Place]:
    named = [*PLAIN] if claim.dtype is None else [claim.dtype]
    return [Place(claim.device, claim.layout, dtype, plugin.name, plugin.state) for dtype in named]


def _mixed(row: Row, wanted: _Wanted) -> Iterable[Mixed]:
    """The kernels of an operator whose arguments stand on different points."""
    for kernel in kernels.kernels.get(row.name, ()):
        tensors = [p for p in kernel.args or () if type(p) is Pattern]
        if len({(p.device, p.layout, str(p.dtype)) for p in tensors}) > 1 and any(_near(p, wanted) for p in tensors):
            origin = kernel.origin
            yield Mixed(row.name, kernel.pattern(), origin.function, origin.provider, origin.where, kernel.limit)


def _near(pattern: Pattern, wanted: _Wanted) -> bool:
    """Whether a pattern meets the part of the table that was asked for."""
    dtype = pattern.dtype
    held = [d.name for d in PLAIN.values() if d in dtype] if isinstance(dtype, DTypeClass) else [dtype]
    return any(wanted.takes(Place(pattern.device, pattern.layout, d, "", "")) for d in held)
