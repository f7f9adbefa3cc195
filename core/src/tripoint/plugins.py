"""Finding, loading, containing and reporting plugins.

Finding reads metadata only. Code loads when a point that its entry-point name covers is first needed. Whatever a plugin
raises is kept with its traceback and reported when the broken point is used; nothing else is affected.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tripoint import devices, dtypes, kernels, layouts
from tripoint.devices import Device
from tripoint.dtypes import DType, DTypeClass
from tripoint.errors import DeviceError, DTypeError, LayoutError, PluginError, RegistrationError, TripointError
from tripoint.kernels import Derivative, Kernel, Origin, Pattern, Point
from tripoint.keys import Key
from tripoint.layouts import Layout
from tripoint.schema import Row, rows

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Plugin", "Registry", "block", "prefer", "report", "unblock", "unregister"]

BACKENDS = "tripoint.backends.v1"
NAMES = "tripoint.names.v1"
KERNELS = "tripoint.kernels.v1"

#: first-party points and the distributions that provide them; text for errors, nothing else.
FIRST_PARTY = {
    "cpu": "tripoint-dense-cpu",
    "cuda": "tripoint-cuda-cupy",
    "sparse_coo": "tripoint-sparse-coo",
    "blocked": "tripoint-blocked",
    "qint8": "tripoint-quantized",
    "quint8": "tripoint-quantized",
    "qint4": "tripoint-quantized",
    "sparse": "tripoint-sparse-coo",
    "affine": "tripoint-quantized",
    "quantize": "tripoint-quantized",
    "dequantize": "tripoint-quantized",
}


class Claim:
    """One point of an entry-point name: device, layout and dtype (``None``: the plain ones), ``*`` for any."""

    __slots__ = ("device", "dtype", "layout")

    def __init__(self, text: str) -> None:
        parts = text.strip().split(".")
        if len(parts) not in (2, 3) or not all(p and p.replace("_", "a").replace("*", "a").isalnum() for p in parts):
            raise RegistrationError(
                f"entry-point name {text!r} is no point; write device.layout or device.layout.dtype, such as cpu.strided"
            )
        self.device, self.layout = parts[0], parts[1]
        self.dtype = parts[2] if len(parts) == 3 else None

    def covers(self, key: Key) -> bool:
        """Whether the claim covers the point of ``key``."""
        if self.device not in ("*", key.device.type) or self.layout not in ("*", key.layout.name):
            return False
        if self.dtype is None:
            return key.dtype.is_plain
        return self.dtype in ("*", key.dtype.name)

    def __str__(self) -> str:
        return ".".join(p for p in (self.device, self.layout, self.dtype) if p)


class Plugin:
    """One distribution that offers entry points.

    Attributes:
        name, version: of the distribution.
        provides: entry-point names by group.
        state: found, loaded, blocked, or broken.
        error: what it raised, with its traceback, or ``None``.
    """

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self.entries: dict[str, list[EntryPoint]] = {}
        self.claims: list[tuple[Claim, ...]] = []
        self.state = "found"
        self.error: BaseException | None = None
        self.target: Any = None
        self.manager: Any = None
        self.reason: str | None = None
        self.probed = False

    @property
    def provides(self) -> tuple[str, ...]:
        """Names of its backend entry points."""
        return tuple(e.name for e in self.entries.get(BACKENDS, ()))

    @property
    def packages(self) -> frozenset[str]:
        """Top-level packages that its entry points name."""
        return frozenset(e.value.partition(":")[0].partition(".")[0] for es in self.entries.values() for e in es)

    def owns(self, key: Key) -> bool:
        """Whether one of its points covers the key's."""
        return any(c.covers(key) for claim in self.claims for c in claim)

    def concerns(self, keys: Iterable[Key]) -> bool:
        """Whether each point of one of its names covers one of the keys."""
        keys = tuple(keys)
        return any(all(any(c.covers(k) for k in keys) for c in claim) for claim in self.claims)

    def traceback(self) -> str:
        """The traceback of what it raised, or an empty string."""
        if self.error is None:
            return ""
        import traceback

        return "".join(traceback.format_exception(self.error))

    def __repr__(self) -> str:
        return f"<plugin {self.name} {self.version}: {self.state}>"


_found: dict[str, Plugin] | None = None
_commit = threading.RLock()
_blocked: set[str] = set()
_preferred: list[str] = []
#: called after every change to what plans stand on; the dispatcher adds itself.
on_change: list[Callable[[], None]] = []


def _changed() -> None:
    kernels.forget_points()
    for tell in on_change:
        tell()


def normalise(name: str) -> str:
    """A distribution name in the one spelling that compares."""
    return name.lower().replace("_", "-").replace(".", "-")


def found() -> dict[str, Plugin]:
    """Every distribution that offers entry points, by normalised name. Reads metadata once; imports no plugin."""
    global _found
    if _found is not None:
        return _found
    from importlib.metadata import entry_points

    disabled = {n.strip() for n in os.environ.get("TRIPOINT_DISABLE", "").split(",") if n.strip()}
    made: dict[str, Plugin] = {}
    for group in (BACKENDS, NAMES, KERNELS):
        for entry in entry_points(group=group):
            dist = entry.dist
            name = normalise(dist.metadata["Name"]) if dist is not None else entry.value.partition(":")[0]
            plugin = made.get(name)
            if plugin is None:
                plugin = made[name] = Plugin(name, dist.version if dist is not None else "?")
            listed = plugin.entries.setdefault(group, [])
            if any(e.name == entry.name for e in listed):
                continue  # the same distribution seen twice on the path: the first one wins, as for imports
            listed.append(entry)
            if group == BACKENDS:
                try:
                    plugin.claims.append(tuple(Claim(part) for part in entry.name.split("+")))
                except RegistrationError as error:
                    plugin.state, plugin.error = "broken", error
            if disabled & {name, entry.name}:
                _blocked.add(name)
    for name in _blocked & set(made):
        made[name].state = "blocked"
    for named in os.environ.get("TRIPOINT_PREFER", "").split(","):
        if named.strip():
            _preferred.append(normalise(named.strip()))
    with _commit:
        if _found is None:
            _found = made
    return _found


def rescan() -> None:
    """Read the metadata again; what is loaded stays loaded."""
    global _found
    old, _found = _found or {}, None
    for name, plugin in found().items():
        if name in old and old[name].state == "loaded":
            found()[name] = old[name]
        else:
            plugin.probed = False
    _changed()


class Registry:
    """What ``tripoint_register`` is given: it stages, and is committed whole or not at all."""

    def __init__(
        self, distribution: str | None = None, version: str | None = None, plugin: Plugin | None = None
    ) -> None:
        self.distribution = distribution
        self.version = version
        self._plugin = plugin
        self._devices: list[Device] = []
        self._layouts: list[Layout] = []
        self._dtypes: list[DType] = []
        self._points: list[Point] = []
        self._kernels: list[Kernel] = []
        self._derivatives: list[Derivative] = []

    def device(self, device: Device) -> None:
        """Announce a device type."""
        self._devices.append(device)

    def layout(self, layout: Layout) -> None:
        """Announce a layout."""
        self._layouts.append(layout)

    def dtype(self, dtype: DType) -> None:
        """Announce a dtype."""
        self._dtypes.append(dtype)

    def origin(self, fn: Callable[..., Any]) -> Origin:
        """Where ``fn`` comes from, for errors and explanations."""
        return Origin(self.distribution, self.version, fn)

    def point(self, pattern: Pattern, payload: type, **hooks: Any) -> None:
        """Announce how payloads of a point are read; the hooks are the arguments of `tripoint.kernels.Point`."""
        self._points.append(Point(pattern, payload, self.origin(payload), **hooks))

    def kernel(
        self,
        operator: str,
        fn: Callable[..., Any],
        *,
        every: Pattern | None = None,
        args: tuple[Pattern, ...] | None = None,
        out: object = None,
        check_first: bool = False,
    ) -> None:
        """Stage a kernel; see `tripoint.kernels.Kernel`."""
        made = Kernel(
            operator,
            fn,
            self.origin(fn),
            every=every,
            args=args,
            out=kernels.as_out(out),
            check_first=check_first,
        )
        self._kernels.append(made)

    def derivative(self, made: Derivative) -> None:
        """Stage a derivative made by `tripoint.plugin.derivative`."""
        made.origin.distribution, made.origin.version = self.distribution, self.version
        self._derivatives.append(made)

    def _check(self) -> None:
        claimed = [c for claim in self._plugin.claims for c in claim] if self._plugin else None
        for kernel in self._kernels:
            row = rows.get(kernel.operator)
            if row is None:
                import difflib

                near = difflib.get_close_matches(kernel.operator, rows, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise RegistrationError(f"{kernel.origin}: there is no operator {kernel.operator!r}{hint}")
            kernels.validate(row, kernel)
            if claimed is None or (self._plugin is not None and row.package in self._plugin.packages):
                continue
            patterns = [kernel.every] if kernel.every is not None else list(kernel.args or ())
            if not any(_touches(c, p) for c in claimed for p in patterns if p is not None):
                raise RegistrationError(
                    f"{kernel.origin}: a kernel of {kernel.operator} on points that {self.distribution} does not provide "
                    f"({', '.join(str(c) for c in claimed)}); offer it through the entry-point group {KERNELS}"
                )
        for point in self._points:
            if claimed is not None and not any(_touches(c, point.pattern) for c in claimed):
                raise RegistrationError(
                    f"{self.distribution} describes the point {point.pattern}, which none of its entry points names"
                )
        for table, staged in ((layouts.registered, self._layouts), (dtypes.registered, self._dtypes)):
            for thing in staged:
                other = table.get(thing.name)
                if other is not None and other is not thing:
                    raise RegistrationError(
                        f"{self.distribution or 'the running program'} announces {thing!r}, and another plugin already "
                        "has announced something of that name"
                    )
                if thing.name in dtypes.PLAIN:
                    raise RegistrationError(f"{thing.name} is a plain dtype of the core and cannot be announced")

    def commit(self) -> None:
        """Check everything, then make it visible in one step.

        Raises:
            RegistrationError: something does not fit the schema; nothing is changed.
        """
        with _commit:
            if self._plugin is not None and self._plugin.state == "loaded":
                return
            self._check()
            for device in self._devices:
                known_devices.setdefault(device.type, device)
            for layout in self._layouts:
                layouts.registered[layout.name] = layout
            for dtype in self._dtypes:
                dtypes.registered[dtype.name] = dtype
            for kernel in self._kernels:
                kernels.kernels[kernel.operator] = (*kernels.kernels.get(kernel.operator, ()), kernel)
            for made in self._derivatives:
                present = kernels.derivatives.get(made.operator, ())
                if made not in present:
                    kernels.derivatives[made.operator] = (*present, made)
            kernels.points.extend(self._points)
            if self._plugin is not None:
                self._plugin.state = "loaded"
        _changed()


def _touches(claim: Claim, pattern: Pattern) -> bool:
    if type(pattern) is not Pattern:
        return False
    if claim.device != "*" and pattern.device not in ("*", claim.device):
        return False
    if claim.layout != "*" and pattern.layout not in ("*", claim.layout):
        return False
    if isinstance(pattern.dtype, DTypeClass):
        return claim.dtype is None
    return claim.dtype in (pattern.dtype, "*") or (claim.dtype is None and pattern.dtype in dtypes.PLAIN)


#: device types announced so far, by name.
known_devices: dict[str, Device] = {"cpu": devices.cpu}


def load(plugin: Plugin) -> bool:
    """Load a plugin unless that was done; contain whatever it raises. True when it is loaded.

    No lock is held while its code runs: threads that come together each stage, and the first commit counts.
    """
    if plugin.state != "found":
        return plugin.state == "loaded"
    try:
        entries = plugin.entries.get(BACKENDS, [])
        targets = {e.value for e in entries}
        if len(targets) > 1:
            raise RegistrationError(f"entry points of {BACKENDS} name different objects: {', '.join(sorted(targets))}")
        from tripoint import hookspecs

        target = entries[0].load()
        manager = hookspecs.manager()
        manager.register(target, name=plugin.name)
        if not any(c.name == "tripoint_register" for c in manager.get_hookcallers(target) or ()):
            raise RegistrationError(
                f"{entries[0].value} is a {type(target).__name__} without tripoint_register(registry)"
            )
        registry = Registry(plugin.name, plugin.version, plugin)
        manager.hook.tripoint_register(registry=registry)
        plugin.target, plugin.manager = target, manager
        registry.commit()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit included: a plugin must not end its host
        with _commit:
            if plugin.state == "found":
                plugin.state, plugin.error = "broken", error
    return plugin.state == "loaded"


def ensure(keys: Iterable[Key]) -> None:
    """Load every provider of the points of a call."""
    keys = tuple(k.base for k in keys if k.is_tensor)
    for plugin in found().values():
        if plugin.state == "found" and plugin.concerns(keys):
            load(plugin)


def participates(origin: Origin, row: Row, keys: tuple[Key, ...]) -> bool:
    """Whether something of that origin takes part in a call: by owning a point of it, defining the operator, being part
    of the running program, or having been preferred.
    """
    name = origin.distribution
    if name is None or name == "tripoint" or name in _preferred:
        return True
    plugin = found().get(name)
    return plugin is not None and (row.package in plugin.packages or any(plugin.owns(k) for k in keys if k.is_tensor))


def is_preferred(origin: Origin) -> bool:
    """Whether the user preferred that origin."""
    return (origin.distribution or "__main__") in _preferred


def broken_provider(key: Key) -> Plugin | None:
    """A broken or blocked plugin that would provide the point, if there is one."""
    for plugin in found().values():
        if plugin.state in ("broken", "blocked") and plugin.owns(key):
            return plugin
    return None


def unusable(plugin: Plugin, what: str) -> PluginError:
    """The error of using what a broken or blocked plugin provides, chained to the original."""
    if plugin.state == "blocked":
        return PluginError(f"{what} is provided by {plugin.name} {plugin.version}, which is blocked; "
                           f"tripoint.plugins.unblock({plugin.name!r}) or TRIPOINT_DISABLE lets it load again")  # fmt: skip
    error = plugin.error
    made = PluginError(
        f"{what} is provided by {plugin.name} {plugin.version}, which failed to load: {type(error).__name__}: {error}; "
        f"tripoint.plugins.report() has the traceback, TRIPOINT_DISABLE={plugin.name} silences it"
    )
    made.__cause__ = error
    return made


def probe(plugin: Plugin) -> str | None:
    """Why the hardware of a loaded plugin cannot be used, or ``None``. Asked once."""
    if not plugin.probed:
        try:
            plugin.reason = plugin.manager.hook.tripoint_probe()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            plugin.reason, plugin.error = f"its probe raised {type(error).__name__}: {error}", error
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


def install(name: str) -> str:
    """``; pip install ...`` when a first-party distribution provides the name, else an empty string."""
    return f"; pip install {FIRST_PARTY[name]}" if name in FIRST_PARTY else ""


def _load_axis(axis: str, name: str) -> None:
    for plugin in found().values():
        if plugin.state == "found" and any(getattr(c, axis) == name for claim in plugin.claims for c in claim):
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
    if name not in known_devices or name == "cpu":
        _load_axis("device", name)
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
        current = next((p.current for p in kernels.points if p.pattern.device == name and p.current), None)
        at = current() if current is not None else 0
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
        _load_axis("layout", value)
    got = layouts.registered.get(value)
    if got is not None:
        return got
    plugin = _broken_axis("layout", value)
    if plugin is not None:
        raise unusable(plugin, f"the layout {value!r}")
    names = {c.layout for p in found().values() for claim in p.claims for c in claim} | set(layouts.registered)
    raise LayoutError(f"unknown layout {value!r}; known layouts: {', '.join(sorted(names - {'*'}))}{install(value)}")


def find_dtype(name: str) -> DType | None:
    """A dtype announced by a plugin that is found by the third part of its entry-point names."""
    _load_axis("dtype", name)
    got = dtypes.registered.get(name)
    if got is None:
        plugin = _broken_axis("dtype", name)
        if plugin is not None:
            raise unusable(plugin, f"the dtype {name!r}")
        if name in FIRST_PARTY:
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
                if plugin.state == "blocked":
                    raise unusable(plugin, f"tripoint.{name}")
                load(plugin)
                if plugin.state != "loaded" and plugin.entries.get(BACKENDS):
                    raise unusable(plugin, f"tripoint.{name}")
                try:
                    return entry.load()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    plugin.error = error
                    raise unusable(plugin, f"tripoint.{name}") from error
    raise KeyError(name)


def names() -> tuple[str, ...]:
    """Names that installed plugins add to the namespace."""
    return tuple(sorted({e.name for p in found().values() for e in p.entries.get(NAMES, ())}))


def _named(name: str) -> Plugin:
    plugin = found().get(normalise(name))
    if plugin is None:
        plugin = next((p for p in found().values() if name in p.provides), None)
    if plugin is None:
        raise PluginError(f"no plugin {name!r} is installed; installed: {', '.join(sorted(found())) or 'none'}")
    return plugin


def unregister(name: str | None) -> None:
    """Take back everything that a distribution registered (``None``: what the running program did)."""
    who = normalise(name) if name else None
    with _commit:
        tables: tuple[dict[str, Any], ...] = (kernels.kernels, kernels.derivatives)
        for table in tables:
            for operator, entries in list(table.items()):
                kept = tuple(e for e in entries if e.origin.distribution != who)
                if len(kept) != len(entries):
                    if kept:
                        table[operator] = kept
                    else:
                        del table[operator]
        kernels.points[:] = [p for p in kernels.points if p.origin.distribution != who]
        plugin = found().get(who) if who else None
        if plugin is not None and plugin.state == "loaded":
            plugin.state = "found"
    _changed()


def block(name: str) -> None:
    """Keep a plugin from loading, and take back what it registered. Takes a distribution or an entry-point name.

    Raises:
        PluginError: nothing of that name is installed.
    """
    plugin = _named(name)
    if plugin.state == "loaded":
        unregister(plugin.name)
    plugin.state = "blocked"
    _blocked.add(plugin.name)
    _changed()


def unblock(name: str) -> None:
    """Let a blocked plugin load again."""
    plugin = _named(name)
    _blocked.discard(plugin.name)
    if plugin.state == "blocked":
        plugin.state = "found"
    _changed()


def prefer(name: str) -> None:
    """Settle overlaps in favour of a distribution (``"__main__"``: of the running program)."""
    _preferred.append(name if name == "__main__" else _named(name).name)
    _changed()


def report() -> str:
    """What is installed: each plugin's state, version and points, and why a broken one is broken."""
    lines = []
    for plugin in sorted(found().values(), key=lambda p: p.name):
        lines.append(
            f"{plugin.name} {plugin.version}: {plugin.state}; provides {', '.join(plugin.provides) or 'names'}"
        )
        if plugin.reason:
            lines.append(f"  unavailable: {plugin.reason}")
        if plugin.state == "broken":
            lines.append(f"  disable it with TRIPOINT_DISABLE={plugin.name} or tripoint.plugins.block({plugin.name!r})")
            lines += ["  " + line for line in plugin.traceback().rstrip().splitlines()]
    return "\n".join(lines) or "no plugins are installed; pip install tripoint-dense-cpu"
