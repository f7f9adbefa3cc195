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
    from importlib.metadata import Distribution, EntryPoint

__all__ = ["Plugin", "Registry", "block", "prefer", "report", "unblock", "unregister"]

BACKENDS = "tripoint.backends.v1"
NAMES = "tripoint.names.v1"
KERNELS = "tripoint.kernels.v1"
GROUPS = (BACKENDS, NAMES, KERNELS)

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


FIRST_DTYPES = ("qint8", "quint8", "qint4")


class Claim:
    """One point of an entry-point name: device, layout and dtype (``None``: the plain ones), ``*`` for any."""

    __slots__ = ("device", "dtype", "layout")

    def __init__(self, text: str) -> None:
        parts = text.strip().split(".")
        if len(parts) not in (2, 3) or not all(p == "*" or p.replace("_", "a").isalnum() for p in parts):
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
        loaded, failed: the groups whose entry points are loaded, and those that could not be.
        error: what it raised, with its traceback, or ``None``.
    """

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self.entries: dict[str, list[EntryPoint]] = {}
        self.claims: list[tuple[Claim, ...]] = []
        self.state = "found"
        self.loaded: set[str] = set()
        self.failed: set[str] = set()
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

    def wants(self, group: str) -> bool:
        """Whether its entry points of a group are there, may be loaded and have not been."""
        untried = group not in self.loaded and group not in self.failed
        return untried and group in self.entries and self.state not in ("broken", "blocked")

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
    from importlib.metadata import distributions

    disabled = {normalise(n.strip()) for n in os.environ.get("TRIPOINT_DISABLE", "").split(",") if n.strip()}
    made: dict[str, Plugin] = {}
    seen: set[str] = set()
    # One distribution at a time, not by `entry_points()`, which one file that cannot be read would end for all.
    for dist in distributions():
        try:
            plugin = _read(dist, seen)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            plugin = _unreadable(dist, error)
        if plugin is None or plugin.name in made:
            continue
        made[plugin.name] = plugin
        if disabled & {plugin.name, *(normalise(e.name) for es in plugin.entries.values() for e in es)}:
            _blocked.add(plugin.name)
    for name in _blocked & set(made):
        made[name].state = "blocked"
    for named in os.environ.get("TRIPOINT_PREFER", "").split(","):
        if named.strip() and normalise(named.strip()) not in _preferred:
            _preferred.append(normalise(named.strip()))
    with _commit:
        if _found is None:
            _found = made
    return _found


def _read(dist: Distribution, seen: set[str]) -> Plugin | None:
    """What one distribution offers, or ``None`` when that is nothing or it is hidden by one of its name before it."""
    stem = getattr(dist, "_normalized_name", None) or dist.metadata["Name"]
    if stem in seen:
        return None
    seen.add(stem)
    entries = [e for e in dist.entry_points if e.group in GROUPS]
    if not entries:
        return None
    said = dist.metadata
    name, version = (said[f] if f in said else None for f in ("Name", "Version"))  # noqa: SIM401 - it has no get
    plugin = Plugin(normalise(name or stem), version or "?")
    for entry in entries:
        plugin.entries.setdefault(entry.group, []).append(entry)
        if entry.group == BACKENDS:
            try:
                plugin.claims.append(tuple(Claim(part) for part in entry.name.split("+")))
            except RegistrationError as error:
                plugin.state, plugin.error = "broken", error
    return plugin


def _unreadable(dist: Distribution, error: Exception) -> Plugin | None:
    """A broken plugin in place of a distribution whose metadata cannot be read, if it seems to be one of ours."""
    try:
        if not any(group in (dist.read_text("entry_points.txt") or "") for group in GROUPS):
            return None
        stem = getattr(dist, "_normalized_name", None) or "?"
    except Exception:
        return None
    plugin = Plugin(normalise(stem), "?")
    plugin.state, plugin.error = "broken", error
    return plugin


def rescan() -> None:
    """Read the metadata again; what is loaded stays loaded."""
    global _found
    old, _found = _found or {}, None
    for name, plugin in old.items():
        if plugin.loaded:
            found()[name] = plugin
    _changed()


class Registry:
    """What ``tripoint_register`` is given: it stages, and is committed whole or not at all."""

    def __init__(
        self,
        distribution: str | None = None,
        version: str | None = None,
        plugin: Plugin | None = None,
        group: str = BACKENDS,
    ) -> None:
        self.distribution = distribution
        self.version = version
        self._plugin = plugin
        self._group = group
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
        """Announce how payloads of a point are read; the hooks are the arguments of `tripoint.kernels.Point`.

        Plugins of the group ``tripoint.kernels.v1`` add to points of others: what they say of a point does not count.
        """
        if self._group != KERNELS:
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
        owned = self._plugin is not None and self._group == BACKENDS
        claimed = [c for claim in self._plugin.claims for c in claim] if self._plugin is not None and owned else None
        for kernel in self._kernels:
            row = rows.get(kernel.operator)
            if row is None:
                import difflib

                near = difflib.get_close_matches(kernel.operator, rows, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise RegistrationError(f"{kernel.origin}: there is no operator {kernel.operator!r}{hint}")
            kernels.validate(row, kernel)
        for what, staged in (("kernel", self._kernels), ("derivative", self._derivatives)):
            for made in staged:
                row = rows[made.operator]
                if claimed is None or (self._plugin is not None and row.package in self._plugin.packages):
                    continue
                patterns = [made.every] if made.every is not None else list(made.args or ())
                if not any(_touches(c, p) for c in claimed for p in patterns if p is not None):
                    raise RegistrationError(
                        f"{made.origin}: a {what} of {made.operator} on points that {self.distribution} does not provide "
                        f"({', '.join(str(c) for c in claimed)}); offer it through the entry-point group {KERNELS}"
                    )
        for point in self._points:
            if claimed is not None and not any(_touches(c, point.pattern) for c in claimed):
                raise RegistrationError(
                    f"{self.distribution} describes the point {point.pattern}, which none of its entry points names"
                )
        for table, name, thing in self._things():
            other = table.get(name)
            if other is not None and other is not thing:
                who = next((by for t, n, by in _announced if t is table and n == name), None)
                raise RegistrationError(
                    f"{self.distribution or 'the running program'} announces {thing!r}, and "
                    f"{who or 'the running program'} already has announced something else of that name"
                )
            if table is dtypes.registered and name in dtypes.PLAIN:
                raise RegistrationError(f"{name} is a plain dtype of the core and cannot be announced")
        self._kernels = _once(self._kernels, kernels.kernels, "kernel")
        self._derivatives = _once(self._derivatives, kernels.derivatives, "derivative")
        fresh: list[Point] = []
        for point in self._points:
            same = [p for p in (*kernels.points, *fresh) if p.pattern == point.pattern]
            same = [p for p in same if p.origin.distribution == self.distribution]
            if any(p.payload is not point.payload for p in same):
                raise RegistrationError(_twice(f"describes the point {point.pattern}", same[0].origin, point.origin))
            fresh += [] if same else [point]
        self._points = fresh

    def _things(self) -> list[tuple[dict[str, Any], str, Any]]:
        # Devices come last: a device that is known is complete.
        return [
            *((layouts.registered, layout.name, layout) for layout in self._layouts),
            *((dtypes.registered, dtype.name, dtype) for dtype in self._dtypes),
            *((known_devices, device.type, device) for device in self._devices),
        ]

    def commit(self) -> None:
        """Check everything, then make it visible in one step.

        Raises:
            RegistrationError: something does not fit the schema; nothing is changed.
        """
        with _commit:
            if self._plugin is not None and (self._group in self._plugin.loaded or self._plugin.state == "blocked"):
                return
            self._check()
            for kernel in self._kernels:
                kernels.kernels[kernel.operator] = (*kernels.kernels.get(kernel.operator, ()), kernel)
            for made in self._derivatives:
                kernels.derivatives[made.operator] = (*kernels.derivatives.get(made.operator, ()), made)
            kernels.points.extend(self._points)
            for table, name, thing in self._things():
                table[name] = thing
                _announced.append((table, name, self.distribution))
            if self._plugin is not None:
                self._plugin.loaded.add(self._group)
                self._plugin.failed.discard(self._group)
                self._plugin.state = "loaded"
                if not self._plugin.failed:
                    self._plugin.error = None
        _changed()


def _twice(what: str, first: Origin, second: Origin) -> str:
    name = f"{first.distribution!r}" if first.distribution else "None"
    return f"{second} {what} a second time; the first is {first}; tripoint.plugins.unregister({name}) takes it back"


def _once(staged: list[Any], table: dict[str, tuple[Any, ...]], what: str) -> list[Any]:
    """What of ``staged`` is new: the same function on the same patterns, from the same distribution, counts once.

    Raises:
        RegistrationError: another function on patterns that the distribution already has one for.
    """
    fresh: list[Any] = []
    for made in staged:
        slots = tuple(range(rows[made.operator].arity))
        same = [
            k
            for k in (*table.get(made.operator, ()), *(f for f in fresh if f.operator == made.operator))
            if k.origin.distribution == made.origin.distribution and k.patterns(slots) == made.patterns(slots)
        ]
        if any(k.body() != made.body() for k in same):
            on = ", ".join(map(str, made.patterns(slots)))
            raise RegistrationError(
                _twice(f"registers a {what} of {made.operator} on {on}", same[0].origin, made.origin)
            )
        fresh += [] if same else [made]
    return fresh


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
#: who announced what, for taking it back: the table, the name and the distribution. What the core has goes with none.
_announced: list[tuple[dict[str, Any], str, str | None]] = [
    (known_devices, "cpu", "the core"),
    (layouts.registered, "strided", "the core"),
]


def load(plugin: Plugin, group: str = BACKENDS) -> bool:
    """Load a plugin's entry points of a group unless that was done; contain whatever it raises. True when loaded.

    No lock is held while its code runs: threads that come together each stage, and the first commit counts.
    """
    if not plugin.wants(group):
        return group in plugin.loaded
    try:
        entries = plugin.entries[group]
        targets = {e.value for e in entries}
        if len(targets) > 1:
            raise RegistrationError(f"entry points of {group} name different objects: {', '.join(sorted(targets))}")
        from tripoint import hookspecs

        target = entries[0].load()
        manager = hookspecs.manager()
        manager.register(target, name=plugin.name)
        if not any(c.name == "tripoint_register" for c in manager.get_hookcallers(target) or ()):
            raise RegistrationError(
                f"{entries[0].value} is a {type(target).__name__} without tripoint_register(registry)"
            )
        registry = Registry(plugin.name, plugin.version, plugin, group)
        manager.hook.tripoint_register(registry=registry)
        if group == BACKENDS:
            plugin.target, plugin.manager = target, manager
        registry.commit()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit included: a plugin must not end its host
        with _commit:
            if group not in plugin.loaded and plugin.state != "blocked":
                plugin.error = error
                plugin.failed.add(group)
                if not plugin.loaded:  # what works of it goes on
                    plugin.state = "broken"
                    unregister(plugin.name)  # what its modules stated while they were imported
    return group in plugin.loaded


def plugin_of(fn: Callable[..., Any]) -> Plugin | None:
    """The installed plugin whose package a function comes from, or ``None``: it is the running program's own."""
    package = (getattr(fn, "__module__", None) or "__main__").partition(".")[0]
    return next((p for p in found().values() if package in p.packages), None)


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
        raise PluginError(f"{origin}: {what} raised {type(error).__name__}: {error}") from error


def ensure(keys: Iterable[Key]) -> None:
    """Load every provider of the points of a call, and the kernels that the user preferred."""
    keys = tuple(k.base for k in keys if k.is_tensor)
    for plugin in list(found().values()):
        if plugin.wants(BACKENDS) and plugin.concerns(keys):
            load(plugin)
        if plugin.name in _preferred and plugin.wants(KERNELS):
            load(plugin, KERNELS)


def participates(origin: Origin, row: Row, keys: tuple[Key, ...]) -> bool:
    """Whether something of that origin takes part in a call: by owning a point of it, defining the operator, being part
    of the running program, or having been preferred.
    """
    name = origin.distribution
    if name is None or name == "tripoint" or name in _preferred:
        return True
    plugin = found().get(name)
    return plugin is not None and (row.package in plugin.packages or any(plugin.owns(k) for k in keys if k.is_tensor))


def preference(origin: Origin) -> int:
    """How much the user prefers that origin: 0, or more the later the preference was stated."""
    name = origin.distribution or "__main__"
    return max((i for i, preferred in enumerate(_preferred, 1) if preferred == name), default=0)


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
    made = PluginError(
        f"{what} is provided by {plugin.name} {plugin.version}, which failed to load: {type(error).__name__}: {error}; "
        f"tripoint.plugins.report() has the traceback, TRIPOINT_DISABLE={plugin.name} silences it"
    )
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
        # The core's derivatives belong to its operators, which stay, and not to its backend of the device meta.
        for table in tables if who != "tripoint" else tables[:1]:
            for operator, entries in list(table.items()):
                kept = tuple(e for e in entries if e.origin.distribution != who)
                if len(kept) != len(entries):
                    if kept:
                        table[operator] = kept
                    else:
                        del table[operator]
        kernels.points[:] = [p for p in kernels.points if p.origin.distribution != who]
        mine = [(table, name) for table, name, by in _announced if by == who]
        _announced[:] = [a for a in _announced if a[2] != who]
        for table, announced in mine:
            if not any(t is table and n == announced for t, n, _ in _announced):
                table.pop(announced, None)
        plugin = found().get(who) if who else None
        if plugin is not None and plugin.state == "loaded":
            plugin.state, plugin.probed, plugin.reason = "found", False, None
            plugin.loaded.clear()
    _changed()


def block(name: str) -> None:
    """Keep a plugin from loading, and take back what it registered. Takes a distribution or an entry-point name.

    Raises:
        PluginError: nothing of that name is installed.
    """
    plugin = _named(name)
    _blocked.add(plugin.name)
    with _commit:
        if plugin.loaded:
            unregister(plugin.name)
        plugin.state = "blocked"
    _changed()


def unblock(name: str) -> None:
    """Let a blocked plugin load again, or one try again that was broken."""
    plugin = _named(name)
    _blocked.discard(plugin.name)
    if plugin.state == "blocked" or (plugin.state == "broken" and len(plugin.claims) == len(plugin.provides)):
        plugin.state, plugin.error = "found", None
        plugin.failed.clear()
    _changed()


def prefer(name: str) -> None:
    """Settle overlaps in favour of a distribution (``"__main__"``: of the running program); the last word counts.

    Kernels that it offers in the group ``tripoint.kernels.v1`` are loaded now.

    Raises:
        PluginError: nothing of that name is installed, or its kernels cannot be loaded; nothing is changed.
    """
    if name != "__main__":
        plugin = _named(name)
        if KERNELS in plugin.entries and not load(plugin, KERNELS):
            raise unusable(plugin, f"what prefer({name!r}) asks for")
        name = plugin.name
    _preferred.append(name)
    _changed()


def report() -> str:
    """What is installed: each plugin's state, version and points, and why a broken one is broken."""
    lines = []
    for plugin in sorted(found().values(), key=lambda p: p.name):
        offers = [*plugin.provides, *(f"tripoint.{e.name}" for e in plugin.entries.get(NAMES, ()))]
        offers += [f"kernels on {e.name} (when preferred)" for e in plugin.entries.get(KERNELS, ())]
        lines.append(
            f"{plugin.name} {plugin.version}: {plugin.state}; provides {', '.join(offers) or 'nothing readable'}"
        )
        if plugin.reason:
            lines.append(f"  unavailable: {plugin.reason}")
        if plugin.error is not None and plugin.state != "blocked":
            lines.append(f"  disable it with TRIPOINT_DISABLE={plugin.name} or tripoint.plugins.block({plugin.name!r})")
            lines += ["  " + line for line in plugin.traceback().rstrip().splitlines()]
    return "\n".join(lines) or "no plugins are installed; pip install tripoint-dense-cpu"
