"""Finding, loading, containing and reporting plugins.

Finding reads metadata only. Code loads when a point that its entry-point name covers is first needed. Whatever a plugin
raises is kept with its traceback and reported when the broken point is used; nothing else is affected.
"""

from __future__ import annotations

from typing import Any

from tripoint import kernels
from tripoint.errors import PluginError
from tripoint.plugins.discovery import BACKENDS as BACKENDS
from tripoint.plugins.discovery import FIRST_PARTY as FIRST_PARTY
from tripoint.plugins.discovery import KERNELS as KERNELS
from tripoint.plugins.discovery import NAMES as NAMES
from tripoint.plugins.discovery import Claim as Claim
from tripoint.plugins.discovery import Plugin as Plugin
from tripoint.plugins.discovery import blocked_names as blocked_names
from tripoint.plugins.discovery import changed as changed
from tripoint.plugins.discovery import commit_lock as commit_lock
from tripoint.plugins.discovery import found as found
from tripoint.plugins.discovery import install as install
from tripoint.plugins.discovery import normalise as normalise
from tripoint.plugins.discovery import on_change as on_change
from tripoint.plugins.discovery import preferred as preferred
from tripoint.plugins.discovery import rescan as rescan
from tripoint.plugins.loading import broken_provider as broken_provider
from tripoint.plugins.loading import ensure as ensure
from tripoint.plugins.loading import guarded as guarded
from tripoint.plugins.loading import load as load
from tripoint.plugins.loading import participates as participates
from tripoint.plugins.loading import plugin_of as plugin_of
from tripoint.plugins.loading import preference as preference
from tripoint.plugins.loading import probe as probe
from tripoint.plugins.loading import require as require
from tripoint.plugins.loading import unusable as unusable
from tripoint.plugins.names import find_device as find_device
from tripoint.plugins.names import find_dtype as find_dtype
from tripoint.plugins.names import find_layout as find_layout
from tripoint.plugins.names import find_name as find_name
from tripoint.plugins.names import layout_names as layout_names
from tripoint.plugins.names import names as names
from tripoint.plugins.registry import Registry as Registry
from tripoint.plugins.registry import announced as announced
from tripoint.plugins.registry import known_devices as known_devices
from tripoint.plugins.registry import unregister as unregister

__all__ = ["Plugin", "Registry", "block", "listed", "prefer", "report", "unblock", "unregister"]


def _named(name: str) -> Plugin:
    if not isinstance(name, str):
        raise PluginError(f"a plugin is named by a string, not {name!r}")
    plugin = found().get(normalise(name))
    if plugin is None:
        plugin = next((p for p in found().values() if name in p.provides), None)
    if plugin is None:
        raise PluginError(f"no plugin {name!r} is installed; installed: {', '.join(sorted(found())) or 'none'}")
    return plugin


def block(name: str) -> None:
    """Keep a plugin from loading, and take back what it registered. Takes a distribution or an entry-point name.

    Raises:
        PluginError: nothing of that name is installed.
    """
    plugin = _named(name)
    blocked_names.add(plugin.name)
    with commit_lock:
        if plugin.loaded:
            unregister(plugin.name)
        plugin.state = "blocked"
    changed()


def unblock(name: str) -> None:
    """Let a blocked plugin load again, or one try again that was broken."""
    plugin = _named(name)
    blocked_names.discard(plugin.name)
    if plugin.state == "blocked" or (plugin.state == "broken" and len(plugin.claims) == len(plugin.provides)):
        plugin.state, plugin.error = "found", None
        plugin.failed.clear()
    changed()


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
    preferred.append(name)
    changed()


def listed() -> list[dict[str, Any]]:
    """What is installed, as plain data: one entry a distribution, of what `report` prints."""
    return [
        {
            "name": plugin.name,
            "version": plugin.version,
            "state": plugin.state,
            "provides": list(plugin.provides),
            "names": [e.name for e in plugin.entries.get(NAMES, ())],
            "kernels": [e.name for e in plugin.entries.get(KERNELS, ())],
            "unavailable": plugin.reason,
            "error": None if plugin.error is None else f"{type(plugin.error).__name__}: {plugin.error}",
            "traceback": plugin.traceback().splitlines(),
        }
        for plugin in sorted(found().values(), key=lambda p: p.name)
    ]


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
