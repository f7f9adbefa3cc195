"""Loading plugins at first need, and containing whatever they raise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from types import FunctionType
from typing import Any, NoReturn

from tripoint import kernels
from tripoint import tensor as tensors
from tripoint.callables import module_of
from tripoint.devices import Device
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
from tripoint.kernels import Point
from tripoint.keys import Key
from tripoint.layouts import strided
from tripoint.patterns import Origin
from tripoint.plugins.discovery import (
    changed,
    commit_lock,
    forget_modules,
    found,
    install,
    is_of,
    loading,
    loading_here,
    plugin_named,
    preferred,
    rank,
    through,
)
from tripoint.plugins.records import BACKENDS, KERNELS, LAYERS, NAMES, Claim, Plugin, reason_of, target_of
from tripoint.plugins.registry import Registry, take_back
from tripoint.plugins.tables import known_devices
from tripoint.schema import Row, rows
from tripoint.tensor import Tensor


def load(plugin: Plugin, group: str = BACKENDS) -> bool:
    """Load a plugin's entry points of a group unless that was done; contain whatever it raises. True when loaded.

    No lock is held while its code runs: threads that come together each stage, and the first commit counts.

    Raises:
        RegistrationError: the plugin's own code asks, while it is being loaded.
    """
    if plugin.wants(group):
        attempt(plugin, group, _register, plugin, group)
    return group in plugin.loaded


def load_all() -> None:
    """Load every plugin that is not blocked, all that it offers, and ask for its hardware. What fails is kept with its plugin.

    Kernels for points of others are loaded with it, and count only where they are preferred, as always.
    """
    for plugin in list(found().values()):
        if load(plugin):
            probe(plugin)
        load(plugin, KERNELS)
        for group in (NAMES, LAYERS):
            if plugin.wants(group):
                attempt(plugin, group, _import, plugin, group)


def _import(plugin: Plugin, group: str) -> None:
    """Import the modules of names or layers, as their first use does."""
    for entry in plugin.entries[group]:
        target_of(entry)
    with commit_lock:
        if plugin.state != "blocked":  # meanwhile
            plugin.succeed(group)


def attempt(plugin: Plugin, group: str, act: Callable[..., object], *args: Any) -> BaseException | None:
    """Run what loads something of a group of a plugin. What it raised is contained, nothing of it stays, and it is given.

    It runs in a context of its own, as a new thread does: no scope around the call reaches the plugin's modules, and one
    that they leave open ends with them.

    Raises:
        RegistrationError: the plugin's own code asks, while it is being loaded.
    """
    _not_within(plugin)
    if plugin.halfway and not plugin.loading:
        forget_modules(plugin, plugin.halfway)
    thread, before, modules = threading.get_ident(), dict(rows), set(sys.modules)
    try:
        plugin.loading.append(thread)
        Context().run(_within, (*loading_here(), plugin), act, *args)
    except BaseException as error:  # SystemExit included: a plugin must not end its host
        theirs = _is_the_hosts(plugin, error)
        through(_failed, plugin, group, None if theirs else error, before)
        if theirs:
            raise
        if not plugin.loaded:
            plugin.halfway |= {m for m in set(sys.modules) - modules if _package_of(m) in plugin.packages}
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
    return _package_of(str(module.get("__name__")))


def _package_of(module: str) -> str:
    return module.partition(".")[0]


def _failed(plugin: Plugin, group: str, error: BaseException | None, before: dict[str, Row]) -> None:
    with commit_lock:
        # Of these two groups all entry points load at once: another thread may have done that meanwhile, without an error.
        done = group in (BACKENDS, KERNELS) and group in plugin.loaded
        if error is not None and not done and plugin.state != "blocked":
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

    target = target_of(entries[0])
    _is_made(target, entries[0].value)
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


def _is_made(target: object, where: str) -> None:
    """Refuse a class whose hook wants an instance, which would be called without one."""
    classes = target.__mro__ if isinstance(target, type) else ()
    hook = next((vars(cls)["tripoint_register"] for cls in classes if "tripoint_register" in vars(cls)), None)
    if isinstance(hook, FunctionType):
        module, _, name = where.partition(":")
        raise RegistrationError(
            f"{where} is a class, and an entry point names an instance: write backend = {name.strip()}(...) in "
            f"{module.strip()}, and name {module.strip()}:backend"
        )


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
        if undone and before.get(name) is not row and is_of(plugin, row):
            plugin.declared[name] = rows.pop(name)
            row.plans.clear()
    plugin.declared = {n: r for n, r in plugin.declared.items() if r.body.__module__ in sys.modules}
    halfway = [registry for registry in plugin.stated if not registry.imported()]
    plugin.stated = [registry for registry in plugin.stated if registry not in halfway]
    for registry in halfway:
        registry.withdraw()
    if not plugin.loaded:
        plugin.target = plugin.manager = None
        take_back(plugin.name, operators=False)
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
    return plugin_named(module_of(fn) or "__main__")


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
    return asked(plugin_behind(origin), f"{origin}: {what}", fn, *args)


def plugin_behind(origin: Origin) -> Plugin | None:
    """The plugin that registered something; ``None`` for the running program."""
    return found().get(origin.distribution or "")


def asked(plugin: Plugin | None, who: str, fn: Callable[..., Any], *args: Any) -> Any:
    """What a function of a plugin gives (``None``: of the running program); ``who`` names both in errors.

    Raises:
        PluginError: it raised; chained to what it raised.
        DeviceError, AsyncError, OutOfMemoryError: what a device says of itself, with a note that names the plugin.
    """
    try:
        return apart(fn, *args)
    except BaseException as error:
        blame(plugin, who, error)


def blame(plugin: Plugin | None, who: str, error: BaseException) -> NoReturn:
    """Raise what becomes of an error that a plugin's code raised, as `asked` says; what is not the plugin's, as it is."""
    try:
        if issubclass(type(error), (DeviceError, AsyncError, OutOfMemoryError, PluginError)):
            noted(error, f"raised by {who}")
            raise error
        if _is_the_hosts(plugin, error):
            raise error
        raise PluginError(f"{who} raised {said(error)}") from error
    finally:
        del error  # or this frame and the error hold one another


def outlive(origin: Origin | None, what: str, error: BaseException) -> NoReturn:
    """Raise what becomes of an error of code that computes: an exception as it is, and what would end the program, such as
    SystemExit, as `blame` does. What the running program's own code raises goes on as it is.
    """
    try:
        if issubclass(type(error), Exception) or origin is None or origin.distribution is None:
            raise error
        blame(plugin_behind(origin), f"{origin}: {what}", error)
    finally:
        del error


#: the entries of a description and their classes; each may be ``None`` or left out.
_ENTRIES = {
    "dtype": DType,
    "device": Device,
    "address": int,
    "nbytes": int,
    "offset": int,
    "itemsize": int,
    "readonly": bool,
}


def described(point: Point, payload: Any) -> dict[str, Any]:
    """What a backend says of a payload; empty where it describes none.

    Raises:
        PluginError: it raised, or gave what is no description; the error names the plugin.
        DeviceError, AsyncError: what the device says of itself.
    """
    if point.describe is None:
        return {}
    given = guarded(point.origin, "describe(payload)", point.describe, payload)
    found = guarded(point.origin, "describe(payload)", plain_dict, given)
    if found is None:
        raise PluginError(f"{point.origin}: describe(payload) gives a dict, not {shown(given)}")
    for name, kind in _ENTRIES.items():
        value = found.get(name)
        if value is not None and not issubclass(type(value), kind):
            raise PluginError(f"{point.origin}: describe(payload) gives as {name} {shown(value)}, no {kind.__name__}")
    strides = found.get("strides")
    if strides is not None and not (type(strides) in (tuple, list) and all(type(s) is int for s in strides)):
        raise PluginError(f"{point.origin}: describe(payload) gives as strides {shown(strides)}, no tuple of ints")
    return found  # type: ignore[no-any-return]


def plain_dict(given: Any) -> dict[Any, Any] | None:
    """A dict of what a plugin gave, without the methods of its class; ``None`` where it is no dict."""
    return dict(dict.items(given)) if issubclass(type(given), dict) else None


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


def offers(keys: Iterable[Key]) -> list[tuple[Plugin, tuple[str, ...], str]]:
    """Plugins that offer kernels for points of others among these, and are neither loaded nor preferred.

    With each the names of those entry points, and what to tell the user.
    """
    keys = [k.base for k in keys if k.is_tensor]
    out = []
    for plugin in sorted(found().values(), key=lambda p: p.name):
        here = plugin.wants(KERNELS) and plugin.name not in preferred and any(plugin.offers(k) for k in keys)
        if here:
            points = tuple(e.name for e in plugin.entries[KERNELS])
            told = f"{plugin.name} {plugin.version} offers kernels on {', '.join(points)}, which count when it is preferred: "
            out.append((plugin, points, told + f"tripoint.plugins.prefer({plugin.name!r})"))
    return out


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


def rivals(one: Origin, other: Origin, keys: tuple[Key, ...]) -> bool:
    """Whether two distributions provide the same point of a call, or offer kernels for it."""
    if one.distribution == other.distribution:
        return False
    first, second = plugin_behind(one), plugin_behind(other)
    if first is None or second is None:
        return False
    return any(k.is_tensor and first.stands_on(k) and second.stands_on(k) for k in keys)


def preference(origin: Origin) -> int:
    """How much the user prefers that origin: 0, or more the later the preference was stated."""
    return rank(origin.distribution)


def _unread(tensor: Tensor, what: str, error: BaseException) -> NoReturn:
    try:
        point = kernels.find_point(tensor._key)
        if point is None or (issubclass(type(error), TripointError) and not issubclass(type(error), PluginError)):
            raise error
        blame(plugin_behind(point.origin), f"{point.origin}: {what} of a tensor on {tensor._key.base}", error)
    finally:
        del error


kernels.takes_part, kernels.preference, kernels.rivals = participates, preference, rivals
tensors.unread = _unread


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
    if key.device.index is not None:
        there = device_count(key.device.type)
        if there is not None and key.device.index >= there:
            name = key.device.type
            have = (
                f"there are {there}, from {name}:0 to {name}:{there - 1}" if there > 1 else f"there is {name}:0 alone"
            )
            raise DeviceError(f"there is no {key.device}; {have if there else 'there are none'}")
    return point


def device_count(name: str) -> int | None:
    """How many devices of a type there are, as its backend says; ``None`` where it does not. Asks the hardware.

    Raises:
        PluginError: the backend raised, or gave what is no number.
        DeviceError: what the device says of itself.
    """
    point = next((p for p in kernels.points if p.pattern.device == name and p.count is not None), None)
    if point is None or point.count is None:
        return None
    if callable(point.count):
        given = guarded(point.origin, "count()", point.count)
        if type(given) is not int or given < 0:
            raise PluginError(f"{point.origin}: count() gives how many devices there are, not {shown(given)}")
        point.count = given
    return point.count


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
    plainer = {
        key.replace(layout=strided): "layout='strided'",
        key.replace(dtype=key.dtype.plain): f"dtype={key.dtype.plain.name!r}",
    }
    near = [f"{k} ({say})" for k, say in plainer.items() if k is not key and any(c.covers(k) for c in names)]
    have += f"; nearest: {', '.join(near)}" if near else ""
    if not key.dtype.is_plain:
        return DTypeError(f"no installed plugin provides {key}{install(key.dtype.name)}; installed points: {have}")
    return LayoutError(f"no installed plugin provides {key}{install(key.layout.name)}; installed points: {have}")
