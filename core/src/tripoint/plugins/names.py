"""From names that users type to devices, layouts, dtypes and what plugins add to the namespace."""

from __future__ import annotations

from typing import Any

from tripoint import devices, dtypes, kernels, layouts
from tripoint.devices import Device
from tripoint.dtypes import DType
from tripoint.errors import DeviceError, DTypeError, LayoutError, PluginError, shown
from tripoint.layouts import Layout
from tripoint.plugins.discovery import FIRST_DTYPES, commit_lock, found, install, rank
from tripoint.plugins.loading import attempt, guarded, load, unusable
from tripoint.plugins.records import BACKENDS, LAYERS, NAMES, Plugin, did_you_mean_group, protocol_of, target_of
from tripoint.plugins.reports import whom_to_tell
from tripoint.plugins.tables import known_devices, undisputed


def _load_axis(axis: str, name: str, table: dict[str, Any]) -> None:
    """Load plugins whose names mention ``name`` until one announces it: those that are preferred come first, and then
    those that serve whole devices.
    """

    def order(plugin: Plugin) -> tuple[int, bool]:
        whole = any(c.layout == "strided" and c.dtype is None for claim in plugin.claims for c in claim)
        return -rank(plugin.name), not whole

    mention = [p for p in found().values() if any(getattr(c, axis) == name for claim in p.claims for c in claim)]
    for plugin in sorted(mention, key=order):
        if name in table:
            return
        load(plugin)


def _broken_axis(axis: str, name: str) -> Plugin | None:
    for plugin in found().values():
        claimed = any(getattr(c, axis) == name for claim in plugin.claims for c in claim)
        # An entry point that is called so names no point, which is why its plugin is broken.
        if plugin.state in ("broken", "blocked") and (claimed or plugin.brings(BACKENDS, name)):
            return plugin
    return None


def _overlooked(name: str) -> str:
    """The end of an error of an unknown name: who has it in a group of entry points that is not read, if anybody has."""
    for plugin in found().values():
        for group, entries in plugin.others.items():
            for entry in entries:
                if protocol_of(group)[1] is None and name in entry.name.replace("+", ".").split("."):
                    return (
                        f"; {plugin.name} {plugin.version} has {entry.name} in its entry points of {group}, which is no "
                        f"group that is read: {did_you_mean_group(group)}"
                    )
    return ""


#: how a backend brings what its entry points name.
_BRINGS = {
    "device": "a backend brings its own device as Device(name), and by the name alone means another plugin's",
    "layout": "a backend brings its own layout as Layout(name)",
}


def _unkept(axis: str, name: str) -> None:
    """Refuse a name that the entry points of a loaded plugin have, and that it does not announce.

    Raises:
        PluginError: it names the plugin.
    """
    for plugin in found().values():
        if plugin.loaded and any(getattr(c, axis) == name for claim in plugin.claims for c in claim):
            raise PluginError(f"{unkept(plugin, axis, name)}; {whom_to_tell(plugin)}")


def unkept(plugin: Plugin, axis: str, name: str) -> str:
    """What is wrong with a device or layout that a loaded plugin names in its entry points, and does not announce."""
    return (
        f"the {axis} {name!r} is in the entry points of {plugin.name} {plugin.version}, which is loaded and announces "
        f"no such {axis}: {_BRINGS[axis]}"
    )


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
        _unkept("device", name)
        raise DeviceError(
            f"unknown device {str(value)!r}; known devices: {', '.join(device_names())}{install(name)}{_overlooked(name)}"
        )
    undisputed("device", known_devices, name)
    if not known.indexed:
        if at is not None:
            raise DeviceError(f"device {str(value)!r}: {name} has no indices; write {name!r}")
        return known
    if at is None:
        point = next((p for p in kernels.points if p.pattern.device == name and p.current is not None), None)
        at = guarded(point.origin, "current()", point.current) if point is not None and point.current is not None else 0
        if point is not None and (type(at) is not int or at < 0):
            raise PluginError(f"{point.origin}: current() gives the index of a device, not {shown(at)}")
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
        undisputed("layout", layouts.registered, value)
        return got
    plugin = _broken_axis("layout", value)
    if plugin is not None:
        raise unusable(plugin, f"the layout {value!r}")
    _unkept("layout", value)
    raise LayoutError(
        f"unknown layout {value!r}; known layouts: {', '.join(layout_names())}{install(value)}{_overlooked(value)}"
    )


def device_names() -> list[str]:
    """Names of the devices that are announced or that installed plugins provide; loads nothing."""
    return _names("device", known_devices)


def layout_names() -> list[str]:
    """Names of the layouts that are announced or that installed plugins provide; loads nothing."""
    return _names("layout", layouts.registered)


def dtype_names() -> list[str]:
    """Names of the plain dtypes, and of those that are announced or that installed plugins provide; loads nothing."""
    return _names("dtype", {**dtypes.PLAIN, **dtypes.registered})


def _names(axis: str, table: dict[str, Any]) -> list[str]:
    named = {getattr(c, axis) for p in found().values() for claim in p.claims for c in claim}
    return sorted({name for name in named if name is not None}.union(table) - {"*"})


layouts.find_more.append(find_layout)


def find_dtype(name: str) -> DType | None:
    """A dtype announced by a plugin that is found by the third part of its entry-point names."""
    _load_axis("dtype", name, dtypes.registered)
    got = dtypes.registered.get(name)
    if got is not None:
        undisputed("dtype", dtypes.registered, name)
    else:
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
        PluginError: the plugin is broken or blocked, or two provide the name and neither is preferred.
    """
    return _entry(NAMES, name, f"tripoint.{name}")


def find_layer(name: str) -> Any:
    """The layer that an entry point of ``tripoint.layers.v1`` provides under ``name``; entering it is up to the program.

    Raises:
        PluginError: no plugin provides it, or the plugin is broken or blocked, or two do and neither is preferred.
    """
    try:
        thing = _entry(LAYERS, name, f"the layer {name!r}")
    except KeyError:
        have = ", ".join(layer_names()) or "none"
        raise PluginError(f"no installed plugin provides the layer {name!r}; installed layers: {have}") from None
    if not _is_layer(thing):
        who = " or ".join(
            f"{p.name} {p.version}" for p in found().values() if LAYERS in p.loaded and p.brings(LAYERS, name)
        )
        raise PluginError(
            f"the layer {name!r} of {who} is {shown(thing)}, which is none; its entry point must name a subclass of Layer"
        )
    return thing


def _is_layer(thing: Any) -> bool:
    """Whether it has what the dispatcher asks of a layer; what does not even let itself be asked has not."""
    try:
        return isinstance(thing.floor, (int, float)) and callable(thing.handles) and callable(thing.build)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return False


def layer_names() -> tuple[str, ...]:
    """Names of the layers that installed plugins provide; loads nothing."""
    return _offered(LAYERS)


def _entry(group: str, name: str, what: str) -> Any:
    """The object of an entry point; its plugin's backend is loaded before."""
    offering = [(p, e) for p in found().values() for e in p.entries.get(group, ()) if e.name == name]
    most = max((rank(p.name) for p, _ in offering), default=0)
    offering = [(p, e) for p, e in offering if rank(p.name) == most]
    # What cannot be used leaves the name to another, as it leaves a point; the only one, or a preferred one, says why.
    offering = [(p, e) for p, e in offering if p.state not in ("blocked", "broken")] or offering
    if not offering:
        raise KeyError(name)
    offering = [(p, e) for p, e in offering if p.state != "blocked"] or offering[:1]
    plugin, entry = offering[0]
    if len(offering) > 1:
        raise PluginError(
            f"{what} is provided by {' and by '.join(f'{p.name} {p.version}' for p, _ in offering)}; "
            f"state which one you want: tripoint.plugins.prefer({plugin.name!r})"
        )
    load(plugin)
    if plugin.state in ("blocked", "broken"):
        raise unusable(plugin, what)
    got: list[Any] = []
    error = attempt(plugin, group, lambda: got.append(target_of(entry)))
    if error is not None:
        raise unusable(plugin, what, error) from error
    with commit_lock:
        if plugin.state == "blocked":  # meanwhile
            raise unusable(plugin, what)
        plugin.succeed(group)
    return got[0]


def names() -> tuple[str, ...]:
    """Names that installed plugins add to the namespace."""
    return _offered(NAMES)


def _offered(group: str) -> tuple[str, ...]:
    return tuple(sorted({e.name for p in found().values() for e in p.entries.get(group, ())}))
