"""What is installed, read from metadata alone; no plugin's code is imported here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tripoint import kernels
from tripoint.errors import RegistrationError
from tripoint.keys import Key

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

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
        self.closes = False

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

    def offers(self, key: Key) -> bool:
        """Whether its kernels for points of others, which count when preferred, are for the key's point."""
        for entry in self.entries.get(KERNELS, ()):
            try:
                if any(Claim(part).covers(key) for part in entry.name.split("+")):
                    return True
            except RegistrationError:
                continue
        return False

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


commit_lock = threading.RLock()


blocked_names: set[str] = set()


preferred: list[str] = []


#: called after every change to what plans stand on; the dispatcher adds itself.
on_change: list[Callable[[], None]] = []


def changed() -> None:
    """Tell everybody who remembers something of what is registered to forget it."""
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
            blocked_names.add(plugin.name)
    for name in blocked_names & set(made):
        made[name].state = "blocked"
    for named in os.environ.get("TRIPOINT_PREFER", "").split(","):
        if named.strip() and normalise(named.strip()) not in preferred:
            preferred.append(normalise(named.strip()))
    with commit_lock:
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
    changed()


def install(name: str) -> str:
    """``; pip install ...`` when a first-party distribution that is not installed provides the name, else nothing."""
    wanted = FIRST_PARTY.get(name)
    return f"; pip install {wanted}" if wanted is not None and wanted not in found() else ""
