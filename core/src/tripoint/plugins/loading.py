"""Loading plugins at first need, and containing whatever they raise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any

from tripoint import kernels
from tripoint.dtypes import DType
from tripoint.errors import (
    AsyncError,
    DeviceError,
    DTypeError,
    LayoutError,
    OutOfMemoryError,
    PluginError,
    RegistrationError,
    TripointError,
    noted,
    said,
    shown,
)
from tripoint.kernels import Origin, Point
from tripoint.keys import Key
from tripoint.plugins.discovery import (
    changed,
    commit_lock,
    found,
    install,
    loading,
    loading_here,
    preferred,
    rank,
    through,
)
from tripoint.plugins.records import BACKENDS, KERNELS, Claim, Plugin, reason_of
from tripoint.plugins.registry import Registry, unregister
from tripoint.plugins.tables import known_devices
from tripoint.schema import Row, rows


def load(plugin: Plugin, group: str = BACKENDS) -> bool:
    """Load a plugin's entry points of a group unless that was done; contain whatever it raises. True when loaded.

    No lock is held while its code runs: threads that come together each stage, and the first commit counts.

    Raises:
        RegistrationError: the plugin's own code asks, while it is being loaded.
    """
    if plugin.wants(group):
        attempt(plugin, group, _register, plugin, group)
    return group in plugin.loaded


def attempt(plugin: Plugin, group: str, act: Callable[..., object], *args: Any) -> BaseException | None:
    """Run what loads something of a group of a plugin. What it raised is contained, nothing of it stays, and it is given.

    It runs in a context of its own, as a new thread does: no scope around the call reaches the plugin's modules, and one
    that they leave open ends with them.

    Raises:
        RegistrationError: the plugin's own code asks, while it is being loaded.
    """
    _not_within(plugin)
    thread, before = threading.get_ident(), dict(rows)
    try:
        plugin.loading.append(thread)
        Context().run(_within, (*loading_here(), plugin), act, *args)
    except BaseException as error:  # SystemExit included: a plugin must not end its host
        theirs = _is_the_hosts(plugin, error)
        through(_failed, plugin, group, None if theirs else error, before)
        if theirs:
            raise
        return error
    finally:
        if thread in plugin.loading:
            plugin.loading.remove(thread)
    return None


def _within(stack: tuple[Plugin, ...], act: Callable[..., object], *args: Any) -> None:
    loading.set(stack)
    state_again(stack[-1])
    act(*args)


def apart(fn: Callable[..., Any], *args: Any) -> Any:
    """What a plugin's function gives, run in a copy of the context: a scope that it leaves open ends with it."""
    return copy_context().run(fn, *args)


def _is_the_hosts(plugin: Plugin | None, error: BaseException) -> bool:
    """Whether it is not the plugin's (``None``: of the running program, as what it registers): an interrupt, a stack that the
    program had half filled, or what a signal handler of the program raised meanwhile.
    """
    if isinstance(error, KeyboardInterrupt):
        return True
    if isinstance(error, RecursionError):
        return _depth() > sys.getrecursionlimit() // 2
    import signal

    handlers = {getattr(h, "__code__", None) for h in map(signal.getsignal, signal.valid_signals())}
    trace = BaseException.__dict__["__traceback__"].__get__(error)
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in handlers and (plugin is None or _package(frame.f_globals) not in plugin.packages):
            return True
        trace = trace.tb_next
    return False


def _depth() -> int:
    """How many calls are under way, in Python's count."""
    frame, depth = sys._getframe(1).f_back, 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def _package(module: dict[str, Any]) -> str:
    return str(module.get("__name__")).partition(".")[0]


def _failed(plugin: Plugin, group: str, error: BaseException | None, before: dict[str, Row]) -> None:
    with commit_lock:
        first = (
            group in (BACKENDS, KERNELS) and group in plugin.loaded
        )  # another thread was; the others load by the entry
        if error is not None and not first and plugin.state != "blocked":
            plugin.error = error
            plugin.failed.add(group)
            plugin.state = plugin.state if plugin.loaded else "broken"
        _forget(plugin, before)


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
    _runs_at_once(manager, target, entries[0].value)
    registry = Registry(plugin.name, plugin.version, plugin, group)
    try:
        manager.hook.tripoint_register(registry=registry)
    except BaseException:
        if registry.committed:  # by the hook itself, which is not done with it
            registry.withdraw()
            plugin.loaded.discard(group)
            plugin.state = plugin.state if plugin.loaded or plugin.state != "loaded" else "found"
        raise
    if group == BACKENDS:
        plugin.target, plugin.manager = target, manager
        if not plugin.closes:
            import atexit

            atexit.register(_shutdown, plugin.name)
            plugin.closes = True  # once, however often it is unregistered and loaded again
    registry.commit()


#: flags of the code of generators, coroutines and asynchronous generators, whose bodies do not run when they are called.
_SUSPENDED = 0x20 | 0x80 | 0x200


def _runs_at_once(manager: Any, target: object, where: str) -> None:
    for hook in manager.get_hookcallers(target):
        for made in hook.get_hookimpls():
            code = getattr(made.function, "__code__", None)
            if code is not None and code.co_flags & _SUSPENDED:
                raise RegistrationError(
                    f"{hook.name} of {where} is written with async or yield, so calling it would run nothing of it; "
                    "write a plain function"
                )


#: threads of a plugin's own that may be loading it at once, each started by the one before.
_DEEP = 64


def _not_within(plugin: Plugin) -> None:
    """Refuse to load a plugin for its own code, which would wait for itself for ever, or never end.

    Where such a thread has nothing of the plugin on its stack, nobody can tell: that one waits for the import, as Python does.
    """
    if not plugin.loading:
        return
    within = plugin in loading_here()
    frame = None if within else sys._getframe(1)
    while frame is not None and not within:
        module = frame.f_globals
        if _package(module) in plugin.packages:
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
    for registry in list(plugin.stated) if plugin.refused is None else ():
        registry.commit()


def _forget(plugin: Plugin, before: dict[str, Row]) -> None:
    """Take back what the modules of a plugin did while they were imported; those that failed will be run again.

    Of a plugin of which something works, that goes on: only what those did that failed is taken back.
    """
    for name, row in list(rows.items()):
        undone = not plugin.loaded or row.body.__module__ not in sys.modules
        if undone and before.get(name) is not row and row.package in plugin.packages:
            plugin.declared[name] = rows.pop(name)
    plugin.declared = {n: r for n, r in plugin.declared.items() if r.body.__module__ in sys.modules}
    halfway = [registry for registry in plugin.stated if not registry.imported()]
    plugin.stated = [registry for registry in plugin.stated if registry not in halfway]
    for registry in halfway:
        registry.withdraw()
    if not plugin.loaded:
        plugin.target = plugin.manager = None
        unregister(plugin.name)
    changed()


def _shutdown(name: str) -> None:
    """At the interpreter's end; what it raises would only hide what others still have to do, and is kept."""
    plugin = found().get(name)
    if plugin is None or plugin.manager is None:
        return
    try:
        apart(plugin.manager.hook.tripoint_shutdown)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        plugin.error = error


def plugin_of(fn: Callable[..., Any]) -> Plugin | None:
    """The installed plugin whose package a function comes from, or ``None``: it is the running program's own."""
    module = getattr(fn, "__module__", None)
    return plugin_named(module if module and isinstance(module, str) else "__main__")


def plugin_named(module: str) -> Plugin | None:
    """The installed plugin that a module belongs to, or ``None``: it is the running program's own."""
    package = module.partition(".")[0]
    return next((p for p in found().values() if package in p.packages), None)


def plugin_naming(backend: object) -> Plugin | None:
    """The installed plugin whose entry point names an object, loaded or not, or ``None``; imports nothing."""
    for plugin in found().values():
        for entry in (e for group in (BACKENDS, KERNELS) for e in plugin.entries.get(group, ())):
            try:
                thing: Any = sys.modules.get(entry.module)
                for name in entry.attr.split("."):
                    thing = getattr(thing, name)
            except AttributeError:  # not imported, not there yet, or no entry point's value at all
                continue
            if thing is backend:
                return plugin
    return None


def guarded(origin: Origin, what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """What a plugin's function gives, as `asked`."""
    return asked(found().get(origin.distribution or ""), f"{origin}: {what}", fn, *args)


def asked(plugin: Plugin | None, who: str, fn: Callable[..., Any], *args: Any) -> Any:
    """What a function of a plugin gives (``None``: of the running program); ``who`` names both in errors.

    Raises:
        PluginError: it raised; chained to what it raised.
        DeviceError, AsyncError, OutOfMemoryError: what a device says of itself, with a note that names the plugin.
    """
    try:
        return apart(fn, *args)
    except (DeviceError, AsyncError, OutOfMemoryError, PluginError) as error:
        noted(error, f"raised by {who}")
        raise
    except BaseException as error:
        if _is_the_hosts(plugin, error):
            raise
        raise PluginError(f"{who} raised {said(error)}") from error


#: the entries of a description and their classes; each may be ``None`` or left out.
_ENTRIES = {"dtype": DType, "address": int, "nbytes": int, "offset": int, "itemsize": int, "readonly": bool}


def described(point: Point, payload: Any) -> dict[str, Any]:
    """What a backend says of a payload; empty where it describes none.

    Raises:
        PluginError: it raised, or gave what is no description; the error names the plugin.
        DeviceError, AsyncError: what the device says of itself.
    """
    if point.describe is None:
        return {}
    found = guarded(point.origin, "describe(payload)", point.describe, payload)
    if not issubclass(type(found), dict):
        raise PluginError(f"{point.origin}: describe(payload) gives a dict, not {shown(found)}")
    for name, kind in _ENTRIES.items():
        value = found.get(name)
        if value is not None and not issubclass(type(value), kind):
            raise PluginError(f"{point.origin}: describe(payload) gives as {name} {shown(value)}, no {kind.__name__}")
    strides = found.get("strides")
    if strides is not None and not (type(strides) in (tuple, list) and all(type(s) is int for s in strides)):
        raise PluginError(f"{point.origin}: describe(payload) gives as strides {shown(strides)}, no tuple of ints")
    return found  # type: ignore[no-any-return]


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
        offers = any(plugin.offers(k) for k in keys)
        unfit = plugin.state in ("broken", "blocked") and (offers or plugin.concerns(keys))
        if unfit or (KERNELS in plugin.failed and offers):
            raise unusable(plugin, "what the program or TRIPOINT_PREFER prefers")


def participates(origin: Origin, row: Row, keys: tuple[Key, ...]) -> bool:
    """Whether something of that origin takes part in a call: by owning a point of it, defining the operator, being part
    of the running program, or having been preferred.
    """
    name = origin.distribution
    if name is None or name == "tripoint" or name in preferred:
        return True
    plugin = found().get(name)
    if plugin is None or row.package in plugin.packages:
        return plugin is not None
    # What its modules describe, without an entry point that names it, is its own all the same.
    described = [p.pattern for p in kernels.points if p.origin.distribution == name]
    return any(plugin.owns(k) or any(p.matches(k) for p in described) for k in keys if k.is_tensor)


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


def unusable(plugin: Plugin, what: str, error: BaseException | None = None) -> PluginError:
    """The error of using what a broken or blocked plugin provides, chained to the original: to ``error``, if it is given."""
    if plugin.state == "blocked":
        return PluginError(
            f"{what} is provided by {plugin.name} {plugin.version}, which is blocked; "
            f"tripoint.plugins.unblock({plugin.name!r}), or a TRIPOINT_DISABLE without it, lets it load again"
        )
    error = error if error is not None else plugin.error
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
            plugin.reason = reason_of(apart(plugin.manager.hook.tripoint_probe))
        except BaseException as error:
            if _is_the_hosts(plugin, error):
                raise
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
    if plugin is not None:
        reason = probe(plugin)
    else:
        reason = reason_of(guarded(point.origin, "probe()", point.probe)) if point.probe is not None else None
    if reason is not None:
        who = f"{plugin.name} {plugin.version}" if plugin is not None else "the running program"
        raise DeviceError(f"{key.base} is provided by {who}, but cannot be used: {reason}")
    return point


def _there(claim: Claim) -> bool:
    """Whether anybody described a point on the device and in the layout of a claim."""
    return any(
        p.pattern.device in ("*", claim.device) or claim.device == "*"
        for p in kernels.points
        if p.pattern.layout in ("*", claim.layout) or claim.layout == "*"
    )


def _nobody(key: Key) -> TripointError:
    names = [c for p in found().values() if p.state != "blocked" for claim in p.claims for c in claim]
    device_known = key.device.type in known_devices and any(c.device in ("*", key.device.type) for c in names)
    device_known |= any(p.pattern.device in ("*", key.device.type) for p in kernels.points)
    if not device_known:
        return DeviceError(f"no installed plugin provides the device {str(key.device)!r}{install(key.device.type)}")
    absent = {
        str(c) for p in found().values() if BACKENDS in p.loaded for claim in p.claims for c in claim if not _there(c)
    }
    have = ", ".join(sorted({str(c) for c in names} - absent)) or "none"
    if not key.dtype.is_plain:
        return DTypeError(f"no installed plugin provides {key}{install(key.dtype.name)}; installed points: {have}")
    return LayoutError(f"no installed plugin provides {key}{install(key.layout.name)}; installed points: {have}")
