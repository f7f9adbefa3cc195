"""What is installed, read from metadata alone; no plugin's code is imported here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tripoint import kernels
from tripoint.errors import PluginError, said, shown
from tripoint.plugins.records import OURS, Plugin, normalise
from tripoint.schema import Row, rows

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
    "sparse": "tripoint-sparse-coo",
    "affine": "tripoint-quantized",
    "quantize": "tripoint-quantized",
    "dequantize": "tripoint-quantized",
}

FIRST_DTYPES = ("qint8", "quint8")

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

#: those of them that the program stated itself, and not TRIPOINT_PREFER alone.
preferred_by_program: set[str] = set()


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


def plugin_named(module: str) -> Plugin | None:
    """The installed plugin that a module belongs to, or ``None``: it is the running program's own.

    Of several in one package it is the one whose entry points name the most of the module's own name.
    """
    if module.partition(".")[0] == OURS:
        return found().get(OURS)
    nearest = max(found().values(), key=lambda plugin: plugin.kinship(module), default=None)
    return nearest if nearest is not None and nearest.kinship(module)[0] else None


def is_of(plugin: Plugin, row: Row) -> bool:
    """Whether a module of a plugin declared an operator."""
    owner = plugin_named(row.body.__module__)
    return owner is not None and owner.name == plugin.name


def rescan() -> None:
    """Read the metadata again. What was installed meanwhile is found, and what failed to load may try again.

    What is loaded, or registered something as the program imported it, goes on as it is, upgraded or uninstalled, until
    `unregister` takes it back; its next version is then imported at the next need. Tensors made before keep the old code, and
    compiled modules stay as they are: the next process has it right.
    """
    import importlib

    global _found
    importlib.invalidate_caches()
    made = _scan()
    with commit_lock:
        running, stale = _running(), list[tuple[Plugin, set[str] | None]]()
        for name, old in (_found or {}).items():
            new = made.get(name)
            if old.loaded or old.loading or name in running:
                old.installed = new.version if new is not None else ""
                made[name] = old
            elif new is None and name in preferred:  # a choice is honoured or refused
                old.installed = ""
                again = f"install it again, or take the preference back: tripoint.plugins.block({name!r})"
                old.refuse(PluginError(f"it is preferred, and has been uninstalled; {again}"))
                made[name] = old
            elif new is not None:
                new.closes, new.declared, new.stated, new.halfway = old.closes, old.declared, old.stated, old.halfway
                stale.append((new, new.halfway if (new.version, new.folder) == (old.version, old.folder) else None))
            else:
                stale.append((old, None))
        _found = made
        for plugin, modules in stale:
            forget_modules(plugin, modules)
    changed()


def _running() -> set[str | None]:
    """The distributions of which something is in the tables, or an operator is declared."""
    tables: list[Any] = [*kernels.kernels.values(), *kernels.derivatives.values(), kernels.points]
    owners = [plugin_named(row.body.__module__) for row in list(rows.values()) if row.package != OURS]
    return {made.origin.distribution for table in tables for made in table} | {p.name for p in owners if p is not None}


def forget_modules(plugin: Plugin, names: set[str] | None = None) -> None:
    """Let some modules of a plugin, or all, be imported anew, and forget what they declared and stated.

    Compiled ones stay: native code is not unloaded, and some refuses to start twice in one process.
    """
    import sys
    from importlib.machinery import ExtensionFileLoader

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in plugin.packages or (names is not None and name not in names):
            continue
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        owner = plugin_named(name)
        if (owner is None or owner.name == plugin.name) and not isinstance(loader, ExtensionFileLoader):
            sys.modules.pop(name, None)
    plugin.halfway = set()
    plugin.declared = {n: row for n, row in plugin.declared.items() if row.body.__module__ in sys.modules}
    plugin.stated = [registry for registry in plugin.stated if registry.imported()]


def _scan() -> dict[str, Plugin]:
    """What the metadata says now."""
    from tripoint.plugins.metadata import read

    disabled = {normalise(name) for name in listed_in("TRIPOINT_DISABLE")}
    made: dict[str, Plugin] = {}
    seen: dict[str, Distribution] = {}
    unreadable.clear()
    hidden.clear()
    for dist in distributions():
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


def distributions() -> Iterator[Distribution]:
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


def reinstalling(distribution: str) -> str:
    """What to type where an installation is not whole, or its version is too old."""
    return f"pip install --upgrade --force-reinstall {distribution}"


def install(name: str) -> str:
    """``; pip install ...`` when a first-party distribution that is not installed provides the name, else nothing."""
    wanted = FIRST_PARTY.get(name)
    return f"; {installing(wanted)}" if wanted is not None and wanted not in found() else ""
