"""Finding, loading, containing and reporting plugins.

Finding reads metadata only. Code loads when a point that its entry-point name covers is first needed. Whatever a plugin
raises is kept with its traceback and reported when the broken point is used; nothing else is affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tripoint.errors import PluginError
from tripoint.plugins.discovery import FIRST_PARTY as FIRST_PARTY
from tripoint.plugins.discovery import VARIABLES as VARIABLES
from tripoint.plugins.discovery import blocked_names as blocked_names
from tripoint.plugins.discovery import changed as changed
from tripoint.plugins.discovery import commit_lock as commit_lock
from tripoint.plugins.discovery import found as found
from tripoint.plugins.discovery import install as install
from tripoint.plugins.discovery import installing as installing
from tripoint.plugins.discovery import on_change as on_change
from tripoint.plugins.discovery import plugin_named as plugin_named
from tripoint.plugins.discovery import preferred as preferred
from tripoint.plugins.discovery import preferred_by_program as preferred_by_program
from tripoint.plugins.discovery import rescan as rescan
from tripoint.plugins.discovery import unblocked_names as unblocked_names
from tripoint.plugins.loading import asked as asked
from tripoint.plugins.loading import blame as blame
from tripoint.plugins.loading import broken_provider as broken_provider
from tripoint.plugins.loading import described as described
from tripoint.plugins.loading import device_count as device_count
from tripoint.plugins.loading import ensure as ensure
from tripoint.plugins.loading import guarded as guarded
from tripoint.plugins.loading import load as load
from tripoint.plugins.loading import load_all as load_all
from tripoint.plugins.loading import offers as offers
from tripoint.plugins.loading import outlive as outlive
from tripoint.plugins.loading import participates as participates
from tripoint.plugins.loading import plain_dict as plain_dict
from tripoint.plugins.loading import plugin_behind as plugin_behind
from tripoint.plugins.loading import plugin_naming as plugin_naming
from tripoint.plugins.loading import plugin_of as plugin_of
from tripoint.plugins.loading import preference as preference
from tripoint.plugins.loading import probe as probe
from tripoint.plugins.loading import require as require
from tripoint.plugins.loading import state_again as state_again
from tripoint.plugins.loading import unusable as unusable
from tripoint.plugins.names import device_names as device_names
from tripoint.plugins.names import dtype_names as dtype_names
from tripoint.plugins.names import find_device as find_device
from tripoint.plugins.names import find_dtype as find_dtype
from tripoint.plugins.names import find_layer as layer
from tripoint.plugins.names import find_layout as find_layout
from tripoint.plugins.names import find_name as find_name
from tripoint.plugins.names import layer_names as layers
from tripoint.plugins.names import layout_names as layout_names
from tripoint.plugins.names import names as names
from tripoint.plugins.records import BACKENDS as BACKENDS
from tripoint.plugins.records import KERNELS as KERNELS
from tripoint.plugins.records import LAYERS as LAYERS
from tripoint.plugins.records import NAMES as NAMES
from tripoint.plugins.records import PROTOCOL as PROTOCOL
from tripoint.plugins.records import Claim as Claim
from tripoint.plugins.records import Plugin as Plugin
from tripoint.plugins.records import normalise as normalise
from tripoint.plugins.registry import Registry as Registry
from tripoint.plugins.registry import unregister as unregister
from tripoint.plugins.registry import waiting_kernels as waiting_kernels
from tripoint.plugins.reports import listed as listed
from tripoint.plugins.reports import report as report
from tripoint.plugins.tables import announced as announced
from tripoint.plugins.tables import known_devices as known_devices
from tripoint.plugins.tables import snapshot as snapshot

__all__ = [
    "Plugin",
    "Registry",
    "block",
    "findings",
    "layer",
    "layers",
    "listed",
    "overlaps",
    "prefer",
    "report",
    "unblock",
    "unregister",
]


if TYPE_CHECKING:
    from tripoint.plugins.diagnosis import Finding, Overlap


def _all_named(name: str) -> list[Plugin]:
    if not isinstance(name, str):
        raise PluginError(f"a plugin is named by a string, not {name!r}")
    plugin = found().get(normalise(name))
    named = [plugin] if plugin is not None else [p for p in found().values() if _names_point(p, name)]
    if not named:
        raise PluginError(f"no plugin {name!r} is installed; installed: {', '.join(sorted(found())) or 'none'}")
    return named


def _names_point(plugin: Plugin, name: str) -> bool:
    """Whether an entry point of that name provides a point, or kernels for one of somebody else."""
    return plugin.brings(BACKENDS, name) or plugin.brings(KERNELS, name)


def _named(name: str) -> Plugin:
    named = _all_named(name)
    if len(named) > 1:
        raise PluginError(f"{name} is provided by {' and by '.join(p.name for p in named)}; name one of them")
    return named[0]


def block(name: str) -> None:
    """Keep a plugin from loading, and take back what it registered. Takes a distribution or an entry-point name.

    A preference for it that was stated before ends, as the last word counts.

    Raises:
        PluginError: nothing of that name is installed.
    """
    for plugin in _all_named(name):
        blocked_names.add(plugin.name)
        unblocked_names.discard(plugin.name)
        with commit_lock:
            unregister(plugin.name)
            plugin.state = "blocked"
            preferred[:] = [other for other in preferred if other != plugin.name]
            preferred_by_program.discard(plugin.name)
    changed()


def unblock(name: str) -> None:
    """Let a blocked plugin load again, or one try again that was broken. What metadata alone refuses stays refused.

    Raises:
        PluginError: nothing of that name is installed.
    """
    for plugin in _all_named(name):
        blocked_names.discard(plugin.name)
        unblocked_names.add(plugin.name)
        if plugin.state in ("blocked", "broken"):
            plugin.reset()
        state_again(plugin)
    changed()


def prefer(name: str) -> None:
    """Settle overlaps in favour of a distribution (``"__main__"``: of the running program); the last word counts.

    Kernels that it offers in the group ``tripoint.kernels.v1`` are loaded now.

    Raises:
        PluginError: nothing of that name is installed, it is broken or blocked, or its kernels cannot be loaded; nothing is
            changed.
    """
    if name != "__main__":
        plugin = _named(name)
        if plugin.state in ("blocked", "broken") or (KERNELS in plugin.entries and not load(plugin, KERNELS)):
            raise unusable(plugin, f"what prefer({name!r}) asks for")
        name = plugin.name
    with commit_lock:
        preferred[:] = [*(other for other in preferred if other != name), name]
        preferred_by_program.add(name)
    changed()


def overlaps() -> list[Overlap]:
    """Kernels, derivatives, points and names that several plugins registered with equal claim, among what is loaded.

    A call that two of them fit raises `AmbiguousKernelError` until `prefer` or ``TRIPOINT_PREFER`` settles it.
    """
    from tripoint.plugins import diagnosis

    return diagnosis.overlaps()


def findings(*, load_all: bool = False) -> list[Finding]:
    """What is wrong with the installation, the worst first: records with ``level``, ``what`` and ``remedy``.

    Args:
        load_all: load every plugin and ask for its hardware first; otherwise only what is known by now is told.
    """
    from tripoint.plugins import diagnosis

    return diagnosis.findings(load_all=load_all)
