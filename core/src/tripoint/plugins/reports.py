"""What is installed, as data and as text: the state of each plugin, what it offers, and why a broken one is broken."""

from __future__ import annotations

import os
from typing import Any

from tripoint.errors import cleaned, said, told
from tripoint.plugins.discovery import FIRST_PARTY, found, installing, preferred, reinstalling
from tripoint.plugins.records import KERNELS, LAYERS, NAMES, Plugin
from tripoint.plugins.registry import waiting_kernels


def listed() -> list[dict[str, Any]]:
    """What is installed, as plain data: one entry a distribution, of what `report` prints."""
    return [
        {
            "name": plugin.name,
            "version": plugin.version,
            "installed": plugin.installed,
            "state": plugin.state,
            "provides": list(plugin.provides),
            "names": [e.name for e in plugin.entries.get(NAMES, ())],
            "kernels": [e.name for e in plugin.entries.get(KERNELS, ())],
            "layers": [e.name for e in plugin.entries.get(LAYERS, ())],
            "waiting": _waiting(plugin),
            "entry_points": entry_points(plugin),
            "unavailable": plugin.reason,
            "error": said(plugin.error) if plugin.error is not None else None,
            "remedy": remedy(plugin),
            "traceback": plugin.traceback().splitlines(),
        }
        for plugin in _sorted()
    ]


def report() -> str:
    """What is installed: each plugin's state, version and points, and why a broken one is broken."""
    lines = []
    for plugin in _sorted():
        offers = [*plugin.provides, *(f"tripoint.{e.name}" for e in plugin.entries.get(NAMES, ()))]
        chosen = "preferred" if plugin.name in preferred else "when preferred"
        offers += [f"kernels on {e.name} ({chosen})" for e in plugin.entries.get(KERNELS, ())]
        offers += [f"the layer {e.name}" for e in plugin.entries.get(LAYERS, ())]
        offers += [f"{e.name} ({group})" for group, entries in plugin.others.items() for e in entries]
        lines.append(
            f"{plugin.name} {plugin.version}: {plugin.state}; provides {', '.join(offers) or 'nothing readable'}"
        )
        if plugin.reason:
            lines.append(f"  unavailable: {plugin.reason}")
        waiting = _waiting(plugin)
        if waiting:
            lines.append(f"  kernels of operators that nobody has declared: {', '.join(waiting)}")
        if plugin.error is not None and plugin.state != "blocked":
            lines += [f"  entry point: {e['group']}: {e['name']} = {e['value']}" for e in entry_points(plugin)]
            lines.append(f"  remedy: {remedy(plugin)}")
            lines.append(f"  disable it with TRIPOINT_DISABLE={plugin.name} or tripoint.plugins.block({plugin.name!r})")
            lines += ["  " + line for line in plugin.traceback().rstrip().splitlines()]
    return cleaned("\n".join(lines)) or f"no plugins are installed; {installing(FIRST_PARTY['cpu'])}"


def remedy(plugin: Plugin) -> str:
    """What to do about a plugin that raised something or was refused; empty for one that did not."""
    error = plugin.error
    if error is None:
        return ""
    if error is plugin.refused:
        return cleaned(str(error)).rpartition("; ")[2]
    missing = _missing(error)
    if missing and missing.partition(".")[0] not in plugin.packages:
        what = f"install what it imports, {missing}"
    elif local := local_folder(plugin):
        what = f"mend it in {local[0]}{'' if local[1] else ', and install it again'}"
    else:
        what = f"upgrade or reinstall {plugin.name} ({reinstalling(plugin.name)}), or tell its authors"
    return f"{what}; after that, tripoint.plugins.unblock({plugin.name!r}) lets it try again"


def whom_to_tell(plugin: Plugin) -> str:
    """What to do about a mistake in a plugin: who installed it from a folder is taken for its author."""
    local = local_folder(plugin)
    return f"mend it in {local[0]}" if local else f"tell the authors of {plugin.name}"


def local_folder(plugin: Plugin) -> tuple[str, bool] | None:
    """The folder that a plugin was installed from, and whether that is where it runs (editable); ``None``: from elsewhere."""
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        with open(os.path.join(plugin.folder, "direct_url.json"), encoding="utf-8") as file:
            said = json.load(file)
        url, editable = urlsplit(said["url"]), said["dir_info"].get("editable") is True
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # no such file, or none that is meant so
        return None
    return (cleaned(url2pathname(url.path), 1), editable) if url.scheme == "file" else None


def _missing(error: BaseException) -> str:
    """The module that was not found; empty for another exception, and for one that tells no module."""
    if not issubclass(type(error), ModuleNotFoundError):
        return ""
    name = ImportError.__dict__["name"].__get__(error)
    return (told(name) or "") if issubclass(type(name), str) else ""


def entry_points(plugin: Plugin) -> list[dict[str, str]]:
    """Every entry point of a plugin in the groups of Tripoint, those of other protocols among them."""
    entries = [e for table in (plugin.entries, plugin.others) for es in table.values() for e in es]
    return [{"group": e.group, "name": e.name, "value": e.value} for e in entries]


def _sorted() -> list[Plugin]:
    return sorted(found().values(), key=lambda plugin: plugin.name)


def _waiting(plugin: Plugin) -> list[str]:
    return sorted({k.operator for k in waiting_kernels() if k.origin.distribution == plugin.name})
