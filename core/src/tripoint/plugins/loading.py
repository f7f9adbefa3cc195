"""Loading plugins at first need, and containing whatever they raise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tripoint import kernels
from tripoint.errors import DeviceError, DTypeError, LayoutError, PluginError, RegistrationError, TripointError
from tripoint.kernels import Origin, Point
from tripoint.keys import Key
from tripoint.plugins.discovery import commit_lock, found, install, loading_here, preferred, rank
from tripoint.plugins.records import BACKENDS, KERNELS, Plugin, said
from tripoint.plugins.registry import Registry, unregister
from tripoint.plugins.tables import known_devices
from tripoint.schema import Row, rows


def load(plugin: Plugin, group: str = BACKENDS) -> bool:
    """Load a plugin's entry points of a group unless that was done; contain whatever it raises. True when loaded.

    No lock is held while its code runs: threads that come together each stage, and the first commit counts.

    Raises:
        RegistrationError: the plugin's own code asks, while it is being loaded.
    """
    if not plugin.wants(group):
        return group in plugin.loaded
    _not_within(plugin)
    thread, stack, before = threading.get_ident(), loading_here(), dict(rows)
    try:
        plugin.loading.append(thread)
        stack.append(plugin)
        state_again(plugin)
        _register(plugin, group)
    except BaseException as error:  # SystemExit included: a plugin must not end its host
        interrupted = isinstance(error, KeyboardInterrupt)
        with commit_lock:
            if group not in plugin.loaded and plugin.state != "blocked" and not interrupted:
                plugin.error = error
                plugin.failed.add(group)
                plugin.state = plugin.state if plugin.loaded else "broken"
            if not plugin.loaded:  # what works of it goes on
                _forget(plugin, before)
        if interrupted:
            raise
    finally:
        if plugin in stack:
            stack.remove(plugin)
        if thread in plugin.loading:
            plugin.loading.remove(thread)
    return group in plugin.loaded


def _register(plugin: Plugin, group: str) -> None:
    entries = plugin.entries[group]
    targets = {e.value for e in entries}
    if len(targets) > 1:
        raise RegistrationError(
            f"entry points of {group} name different objects: {', '.join(sorted(targets))}; a distribution names one object "
            "for all its points, so give each backend a distribution of its own, or let one object register them all"
        )
    from tripoint import hookspecs

    target = entries[0].load()
    manager = hookspecs.manager()
    manager.register(target, name=plugin.name)
    if not any(c.name == "tripoint_register" for c in manager.get_hookcallers(target) or ()):
        raise RegistrationError(f"{entries[0].value} is a {type(target).__name__} without tripoint_register(registry)")
    registry = Registry(plugin.name, plugin.version, plugin, group)
    try:
        manager.hook.tripoint_register(registry=registry)
    except BaseException:
        if registry.committed:  # by the hook itself, which is not done with it
            unregister(plugin.name)
        raise
    if group == BACKENDS:
        plugin.target, plugin.manager = target, manager
    registry.commit()
    if group == BACKENDS and not plugin.closes:
        import atexit

        plugin.closes = True  # once, however often it is unregistered and loaded again
        atexit.register(_shutdown, plugin.name)


#: threads of a plugin's own that may be loading it at once, each started by the one before.
_DEEP = 64


def _not_within(plugin: Plugin) -> None:
    """Refuse to load a plugin for its own code, which would wait for itself for ever, or never end.

    Where such a thread has nothing of the plugin on its stack, nobody can tell: that one waits for the import, as Python does.
    """
    if not plugin.loading:
        return
    within = threading.get_ident() in plugin.loading
    frame = None if within else sys._getframe(1)
    while frame is not None and not within:
        module = frame.f_globals
        if str(module.get("__name__")).partition(".")[0] in plugin.packages:
            importing = getattr(module.get("__spec__"), "_initializing", False)
            within = importing or len(plugin.loading) >= _DEEP
        frame = frame.f_back
    if within:
        raise RegistrationError(
            f"{plugin.name} {plugin.version} uses what it provides while it is being loaded; "
            "its kernels may, its modules and tripoint_register may not"
        )


def state_again(plugin: Plugin) -> None:
    """Enter what its modules declared and stated when they were imported, which happens once, if it was taken back."""
    for name, row in plugin.declared.items():
        rows.setdefault(name, row)
    for registry in list(plugin.stated):
        registry.commit()


def _forget(plugin: Plugin, before: dict[str, Row]) -> None:
    """Take back what the modules of a plugin did while they were imported; those that failed will be run again."""
    for name, row in list(rows.items()):
        if before.get(name) is not row and row.package in plugin.packages:
            plugin.declared[name] = rows.pop(name)
    plugin.declared = {n: r for n, r in plugin.declared.items() if r.body.__module__ in sys.modules}
    plugin.stated = [registry for registry in plugin.stated if registry.imported()]
    unregister(plugin.name)


def _shutdown(name: str) -> None:
    """At the interpreter's end; what it raises would only hide what others still have to do, and is kept."""
    plugin = found().get(name)
    if plugin is None or plugin.manager is None:
        return
    try:
        plugin.manager.hook.tripoint_shutdown()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        plugin.error = error


def plugin_of(fn: Callable[..., Any]) -> Plugin | None:
    """The installed plugin whose package a function comes from, or ``None``: it is the running program's own."""
    package = (getattr(fn, "__module__", None) or "__main__").partition(".")[0]
    return next((p for p in found().values() if package in p.packages), None)


def plugin_naming(backend: object) -> Plugin | None:
    """The installed plugin whose entry point names an object, loaded or not, or ``None``; imports nothing."""
    for plugin in found().values():
        for entry in plugin.entries.get(BACKENDS, ()):
            module, _, attribute = entry.value.partition(":")
            if getattr(sys.modules.get(module.strip()), attribute.strip(), None) is backend:
                return plugin
    return None


def guarded(origin: Origin, what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """What a plugin's function gives.

    Raises:
        PluginError: it raised; the error names the plugin and is chained to what it raised.
    """
    try:
        return fn(*args)
    except TripointError:
        raise
    except Exception as error:
        raise PluginError(f"{origin}: {what} raised {said(error)}") from error


def ensure(keys: Iterable[Key]) -> None:
    """Load every provider of the points of a call, and the kernels that the user preferred.

    Raises:
        PluginError: what the user preferred for these points cannot be loaded; a choice is honoured or refused.
    """
    keys = tuple(k.base for k in keys if k.is_tensor)
    for plugin in list(found().values()):
        if plugin.wants(BACKENDS) and plugin.concerns(keys):
            load(plugin)
        if plugin.name not in preferred:
            continue
        if plugin.wants(KERNELS):
            load(plugin, KERNELS)
        broken = plugin.state == "broken" and plugin.concerns(keys)
        if broken or (KERNELS in plugin.failed and any(plugin.offers(k) for k in keys)):
            raise unusable(plugin, "what the program or TRIPOINT_PREFER prefers")


def participates(origin: Origin, row: Row, keys: tuple[Key, ...]) -> bool:
    """Whether something of that origin takes part in a call: by owning a point of it, defining the operator, being part
    of the running program, or having been preferred.
    """
    name = origin.distribution
    if name is None or name == "tripoint" or name in preferred:
        return True
    plugin = found().get(name)
    return plugin is not None and (row.package in plugin.packages or any(plugin.owns(k) for k in keys if k.is_tensor))


def preference(origin: Origin) -> int:
    """How much the user prefers that origin: 0, or more the later the preference was stated."""
    return rank(origin.distribution)


kernels.takes_part, kernels.preference = participates, preference


def broken_provider(key: Key) -> Plugin | None:
    """A broken or blocked plugin that would provide the point, if there is one."""
    for plugin in found().values():
        if plugin.state in ("broken", "blocked") and plugin.owns(key):
            return plugin
    return None


def unusable(plugin: Plugin, what: str) -> PluginError:
    """The error of using what a broken or blocked plugin provides, chained to the original."""
    if plugin.state == "blocked":
        return PluginError(
            f"{what} is provided by {plugin.name} {plugin.version}, which is blocked; "
            f"tripoint.plugins.unblock({plugin.name!r}), or a TRIPOINT_DISABLE without it, lets it load again"
        )
    error = plugin.error
    if error is plugin.refused:
        why = f"which was not loaded: {error}"
    else:
        why = (
            f"which failed to load: {said(error)}; tripoint.plugins.report() has the traceback, "
            f"TRIPOINT_DISABLE={plugin.name} silences it"
        )
    made = PluginError(f"{what} is provided by {plugin.name} {plugin.version}, {why}")
    made.__cause__ = error
    return made


def probe(plugin: Plugin) -> str | None:
    """Why the hardware of a loaded plugin cannot be used, or ``None``. Asked once."""
    if not plugin.probed and plugin.manager is not None:
        try:
            plugin.reason = plugin.manager.hook.tripoint_probe()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            plugin.reason, plugin.error = f"its probe raised {said(error)}", error
        plugin.probed = True
    return plugin.reason


def require(key: Key) -> Point:
    """The point record of a key about to be used, with its providers loaded and probed.

    Raises:
        DeviceError: nothing installed provides the device, or its hardware is unusable.
        LayoutError, DTypeError: nothing provides the layout or dtype there.
        PluginError: its provider is broken or blocked.
    """
    ensure((key,))
    point = kernels.find_point(key)
    if point is None:
        plugin = broken_provider(key.base)
        if plugin is not None:
            raise unusable(plugin, f"the point {key.base}")
        raise _nobody(key.base)
    name = point.origin.distribution
    plugin = found().get(name) if name else None
    reason = probe(plugin) if plugin is not None else point.probe() if point.probe is not None else None
    if reason is not None:
        who = f"{plugin.name} {plugin.version}" if plugin is not None else "the running program"
        raise DeviceError(f"{key.base} is provided by {who}, but cannot be used: {reason}")
    return point


def _nobody(key: Key) -> TripointError:
    names = [c for p in found().values() if p.state != "blocked" for claim in p.claims for c in claim]
    device_known = key.device.type in known_devices and any(c.device in ("*", key.device.type) for c in names)
    device_known |= any(p.pattern.device in ("*", key.device.type) for p in kernels.points)
    if not device_known:
        return DeviceError(f"no installed plugin provides the device {str(key.device)!r}{install(key.device.type)}")
    have = ", ".join(sorted({str(c) for c in names})) or "none"
    if not key.dtype.is_plain:
        return DTypeError(f"no installed plugin provides {key}{install(key.dtype.name)}; installed points: {have}")
    return LayoutError(f"no installed plugin provides {key}{install(key.layout.name)}; installed points: {have}")
