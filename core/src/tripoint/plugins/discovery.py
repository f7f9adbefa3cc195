"""What is installed, read from metadata alone; no plugin's code is imported here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from tripoint import kernels
from tripoint.plugins.records import Plugin, normalise

#: every environment variable that is read anywhere, with what it is for; docs/environment.md says the same at length.
VARIABLES = {
    "TRIPOINT_DISABLE": "plugins that are not loaded",
    "TRIPOINT_PREFER": "plugins that win where several offer the same",
    "TRIPOINT_TRACE": "1 logs every call to the standard error stream",
}

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

_found: dict[str, Plugin] | None = None

#: distributions whose entry points cannot be read, and why; nobody can tell whether they are plugins.
unreadable: dict[str, str] = {}

commit_lock = threading.RLock()

blocked_names: set[str] = set()

#: what the program unblocked, whatever TRIPOINT_DISABLE says.
unblocked_names: set[str] = set()

#: names of distributions and ``__main__``, in the order in which the preferences were stated.
preferred: list[str] = []


def rank(distribution: str | None) -> int:
    """How much the user prefers a distribution (``None``: the running program): 0, or more the later it was said."""
    name = distribution or "__main__"
    return max((i for i, wanted in enumerate(preferred, 1) if wanted == name), default=0)


#: called after every change to what plans stand on; the dispatcher adds itself.
on_change: list[Callable[[], None]] = []


def changed() -> None:
    """Tell everybody who remembers something of what is registered to forget it."""
    kernels.forget_points()
    for tell in on_change:
        tell()


_here = threading.local()


def loading_here() -> list[Plugin]:
    """The plugins that this thread is loading, the innermost last."""
    if not hasattr(_here, "stack"):
        _here.stack = []
    stack: list[Plugin] = _here.stack
    return stack


def listed_in(variable: str) -> list[str]:
    """The names that an environment variable holds, separated by commas, as they are written."""
    return [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]


def found() -> dict[str, Plugin]:
    """Every distribution that offers entry points, by normalised name. Reads metadata once; imports no plugin."""
    global _found
    if _found is None:
        made = _scan()
        with commit_lock:
            for name in map(normalise, listed_in("TRIPOINT_PREFER") if _found is None else ()):
                if name not in preferred:
                    preferred.append(name)
            if _found is None:
                _found = made
    return _found


def rescan() -> None:
    """Read the metadata again. What was installed meanwhile is found, and what failed to load may try again.

    What is loaded goes on as it is, upgraded or uninstalled: Python does not forget a module. The next process has it right.
    """
    import importlib

    global _found
    importlib.invalidate_caches()
    made = _scan()
    with commit_lock:
        for name, old in (_found or {}).items():
            new = made.get(name)
            if old.loaded or old.loading:
                old.installed = new.version if new is not None else ""
                made[name] = old
            elif new is not None:
                new.closes, new.declared, new.stated = old.closes, old.declared, old.stated
        _found = made
    changed()


def _scan() -> dict[str, Plugin]:
    """What the metadata says now."""
    from importlib.metadata import distributions

    from tripoint.plugins.metadata import read

    disabled = {normalise(name) for name in listed_in("TRIPOINT_DISABLE")}
    made: dict[str, Plugin] = {}
    seen: set[str] = set()
    unreadable.clear()
    # One distribution at a time, not by `entry_points()`, which one file that cannot be read would end for all.
    for dist in distributions():
        plugin = read(dist, seen, unreadable)
        if plugin is None or plugin.name in made:
            continue
        made[plugin.name] = plugin
        offered = {normalise(e.name) for es in (*plugin.entries.values(), *plugin.others.values()) for e in es}
        if disabled & {plugin.name, *offered} and plugin.name not in unblocked_names:
            blocked_names.add(plugin.name)
    for name in blocked_names & set(made):
        made[name].state = "blocked"
    return made


def install(name: str) -> str:
    """``; pip install ...`` when a first-party distribution that is not installed provides the name, else nothing."""
    wanted = FIRST_PARTY.get(name)
    return f"; pip install {wanted}" if wanted is not None and wanted not in found() else ""
