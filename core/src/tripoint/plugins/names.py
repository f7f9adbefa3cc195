"""From names that users type to devices, layouts, dtypes and what plugins add to the namespace."""

from __future__ import annotations

from typing import Any

from tripoint import devices, dtypes, kernels, layouts
from tripoint.devices import Device
from tripoint.dtypes import DType
from tripoint.errors import DeviceError, DTypeError, LayoutError
from tripoint.layouts import Layout
from tripoint.plugins.discovery import FIRST_DTYPES, NAMES, Plugin, found, install
from tripoint.plugins.loading import guarded, load, unusable
from tripoint.plugins.registry import known_devices


def _load_axis(axis: str, name: str, table: dict[str, Any]) -> None:
    """Load plugins whose names mention ``name`` until one announces it; those that serve whole devices come first."""

    def rank(plugin: Plugin) -> bool:
        return not any(c.layout == "strided" and c.dtype is None for claim in plugin.claims for c in claim)

    mention = [p for p in found().values() if any(getattr(c, axis) == name for claim in p.claims for c in claim)]
    for plugin in sorted(mention, key=rank):
        if name in table:
            return
        load(plugin)


def _broken_axis(axis: str, name: str) -> Plugin | None:
    for plugin in found().values():
        if plugin.state in ("broken", "blocked") and any(
            getattr(c, axis) == name for claim in plugin.claims for c in claim
        ):
            return plugin
    return None


def find_device(value: object) -> Device:
    """The device that ``value`` names, with its index resolved; its plugin is loaded, its hardware not yet asked for.

    Raises:
        DeviceError: unknown, or an index where the device has none.
        PluginError: its plugin is broken or blocked.
    """
    if isinstance(value, Device):
        name, at = value.type, value.index
    elif isinstance(value, str):
        name, at = devices.split_name(value)
    else:
        other = getattr(value, "type", None)
        if not isinstance(other, str):
            raise DeviceError(f"a device is a name such as 'cpu', not {value!r}")
        name, at = other, getattr(value, "index", None)
    if name not in known_devices:
        _load_axis("device", name, known_devices)
    known = known_devices.get(name)
    if known is None:
        plugin = _broken_axis("device", name)
        if plugin is not None:
            raise unusable(plugin, f"the device {name!r}")
        names = {c.device for p in found().values() for claim in p.claims for c in claim} | set(known_devices)
        raise DeviceError(
            f"unknown device {str(value)!r}; known devices: {', '.join(sorted(names - {'*'}))}{install(name)}"
        )
    if not known.indexed:
        if at is not None:
            raise DeviceError(f"device {str(value)!r}: {name} has no indices; write {name!r}")
        return known
    if at is None:
        point = next((p for p in kernels.points if p.pattern.device == name and p.current is not None), None)
        at = guarded(point.origin, "current()", point.current) if point is not None and point.current is not None else 0
    return Device(name, at)


def find_layout(value: object) -> Layout:
    """The layout that ``value`` names; its plugin is loaded.

    Raises:
        LayoutError: unknown.
        PluginError: its plugin is broken or blocked.
    """
    if isinstance(value, Layout):
        return value
    if isinstance(value, layouts.LayoutSpec):
        return value.layout
    if not isinstance(value, str):
        raise LayoutError(f"a layout is a name such as 'strided', not {value!r}")
    if value not in layouts.registered:
        _load_axis("layout", value, layouts.registered)
    got = layouts.registered.get(value)
    if got is not None:
        return got
    plugin = _broken_axis("layout", value)
    if plugin is not None:
        raise unusable(plugin, f"the layout {value!r}")
    raise LayoutError(f"unknown layout {value!r}; known layouts: {', '.join(layout_names())}{install(value)}")


def layout_names() -> list[str]:
    """Names of the layouts that are announced or that installed plugins provide."""
    names = {c.layout for p in found().values() for claim in p.claims for c in claim} | set(layouts.registered)
    return sorted(names - {"*"})


layouts.find_more.append(find_layout)


def find_dtype(name: str) -> DType | None:
    """A dtype announced by a plugin that is found by the third part of its entry-point names."""
    _load_axis("dtype", name, dtypes.registered)
    got = dtypes.registered.get(name)
    if got is None:
        plugin = _broken_axis("dtype", name)
        if plugin is not None:
            raise unusable(plugin, f"the dtype {name!r}")
        if name in FIRST_DTYPES:
            raise DTypeError(f"no installed plugin provides the dtype {name!r}{install(name)}")
    return got


dtypes.find_more.append(find_dtype)


def find_name(name: str) -> Any:
    """What an entry point of ``tripoint.names.v1`` provides under ``name``; a KeyError when none does.

    Raises:
        PluginError: the plugin is broken or blocked.
    """
    for plugin in found().values():
        for entry in plugin.entries.get(NAMES, ()):
            if entry.name == name:
                load(plugin)
                if plugin.state in ("blocked", "broken"):
                    raise unusable(plugin, f"tripoint.{name}")
                try:
                    thing = entry.load()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    plugin.error = error
                    if not plugin.loaded:
                        plugin.state = "broken"
                    raise unusable(plugin, f"tripoint.{name}") from error
                plugin.loaded.add(NAMES)
                plugin.state = "loaded"
                return thing
    raise KeyError(name)


def names() -> tuple[str, ...]:
    """Names that installed plugins add to the namespace."""
    return tuple(sorted({e.name for p in found().values() for e in p.entries.get(NAMES, ())}))
