"""What is installed, read from metadata alone; no plugin's code is imported here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tripoint import kernels
from tripoint.errors import PluginError, said, shown
from tripoint.plugins.records import Plugin, normalise

if TYPE_CHECKING:
    from importlib.metadata import Distribution

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

#: what cannot be read, so that nobody can tell whether it is a plugin: what and why, and what to do.
unreadable: dict[str, str] = {}

#: distributions that one of the same name before them on the path hides: what is hidden by what, and what to do.
hidden: dict[str, str] = {}

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


def through(act: Callable[..., None], *args: object) -> None:
    """Do what must not be left half done, and may be done twice: who interrupts it is heard when it is done."""
    try:
        act(*args)
    except BaseException:
        act(*args)
        raise


def changed() -> None:
    """Tell everybody who remembers something of what is registered to forget it."""
    through(_tell)


def _tell() -> None:
    kernels.forget_points()
    for tell in on_change:
        tell()


#: plugins whose code is being loaded in this context, the innermost last; gone with the context, whatever ends it.
loading: ContextVar[tuple[Plugin, ...]] = ContextVar("tripoint_loading", default=())
loading_here = loading.get


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
            elif new is None and name in preferred:  # a choice is honoured or refused
                old.installed = ""
                again = f"install it again, or take the preference back: tripoint.plugins.block({name!r})"
                old.refuse(PluginError(f"it is preferred, and has been uninstalled; {again}"))
                made[name] = old
            elif new is not None:
                new.closes, new.declared, new.stated = old.closes, old.declared, old.stated
        _found = made
    changed()


def _scan() -> dict[str, Plugin]:
    """What the metadata says now."""
    from tripoint.plugins.metadata import read

    disabled = {normalise(name) for name in listed_in("TRIPOINT_DISABLE")}
    made: dict[str, Plugin] = {}
    seen: dict[str, Distribution] = {}
    unreadable.clear()
    hidden.clear()
    for dist in _distributions():
        plugin = read(dist, seen, unreadable, hidden)
        if plugin is None:
            continue
        made[plugin.name] = plugin
        offered = {normalise(e.name) for es in (*plugin.entries.values(), *plugin.others.values()) for e in es}
        if disabled & {plugin.name, *offered} and plugin.name not in unblocked_names:
            blocked_names.add(plugin.name)
    for name in blocked_names & set(made):
        made[name].state = "blocked"
    return made


def _distributions() -> Iterator[Distribution]:
    """Everything installed, the first on the path first.

    One finder at a time, and one distribution at a time, not by `importlib.metadata.entry_points`, which one finder that
    raises, or one file that cannot be read, would end for all.
    """
    import sys
    from importlib.metadata import DistributionFinder

    everywhere = DistributionFinder.Context()
    for finder in list(sys.meta_path):
        try:
            find = getattr(finder, "find_distributions", None)
            if find is not None:
                yield from find(everywhere)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            what = f"the finder {shown(finder)} in sys.meta_path cannot list what is installed: it raised {said(error)}"
            unreadable[what] = "tell the authors of what put it there"


def installing(distribution: str) -> str:
    """How to install a first-party distribution, from an index or from a checkout."""
    return f"pip install {distribution} (in a checkout: ./plugins/{distribution.partition('-')[2].replace('-', '_')})"


def install(name: str) -> str:
    """``; pip install ...`` when a first-party distribution that is not installed provides the name, else nothing."""
    wanted = FIRST_PARTY.get(name)
    return f"; {installing(wanted)}" if wanted is not None and wanted not in found() else ""
