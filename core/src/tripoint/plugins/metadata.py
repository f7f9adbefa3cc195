"""Reading the metadata of one distribution: what it offers, and what it says against being loaded here."""

from __future__ import annotations

import os
import sys
from keyword import iskeyword
from typing import TYPE_CHECKING

from tripoint.errors import PluginError, RegistrationError, cleaned, said
from tripoint.plugins.discovery import reinstalling
from tripoint.plugins.records import BACKENDS, GROUPS, NAMES, PROTOCOL, Claim, Plugin, normalise, protocol_of

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint


def read(
    dist: Distribution, seen: dict[str, Distribution], unreadable: dict[str, str], hidden: dict[str, str]
) -> Plugin | None:
    """What one distribution offers, or ``None`` when that is nothing or it is hidden by one of its name before it.

    It goes by the name of its folder, which no other distribution there can have: what its metadata says may be any name.
    What nobody can read enough of to tell whether it is a plugin goes into ``unreadable``, with the reason, and a plugin
    that is hidden into ``hidden``.
    """
    stem, text = "?", ""
    try:
        stem = cleaned(normalise(getattr(dist, "_normalized_name", None) or dist.metadata["Name"]), 1)
        text = dist.read_text("entry_points.txt") or ""
        if stem in seen:
            _hide(stem, dist, seen[stem], text, hidden)
            return None
        seen[stem] = dist
        entries = [e for e in dist.entry_points if e.group.startswith("tripoint.")] if "tripoint." in text else []
        if not entries and "[tripoint." in text:
            raise ValueError("entry_points.txt has a section for tripoint, and nothing in it can be read")
        return _plugin(dist, stem, entries) if entries else None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        where = f" (in {cleaned(folder_of(dist))})" if folder_of(dist) else ""
        if "tripoint." in text:  # it seems to be one of ours
            plugin = Plugin(stem, "?")
            why = f"its metadata cannot be read: {said(error)}{where}; reinstall it"
            plugin.refuse(_with_cause(PluginError(why), error))
            return plugin
        if not text:
            unreadable[f"the metadata of {stem} cannot be read: {said(error)}{where}"] = f"reinstall {stem}"
        return None


def folder_of(dist: Distribution) -> str:
    """Where the metadata of a distribution is, or an empty string; for messages."""
    return str(getattr(dist, "_path", ""))


def _hide(name: str, dist: Distribution, first: Distribution, text: str, hidden: dict[str, str]) -> None:
    """Note that a plugin is hidden by what comes before it on the path, unless that is the same folder met again."""
    here, there = folder_of(dist), folder_of(first)
    if "tripoint." in text and os.path.realpath(here) != os.path.realpath(there):
        beside = os.path.dirname(here) == os.path.dirname(there)
        again = f"one was left half removed: pip uninstall {name}, once for each, then {reinstalling(name)}"
        hidden[
            f"the plugin in {cleaned(here)} is hidden by {cleaned(there)}, of the same name and before it on the path"
        ] = again if beside else "uninstall the one that is not meant, or change the order of the path"


def _plugin(dist: Distribution, stem: str, entries: list[EntryPoint]) -> Plugin:
    from tripoint.plugins.versions import core_requirements

    headers = _headers(dist)
    plugin = Plugin(stem, headers.get("version", ["?"])[0])
    plugin.folder, plugin.named = folder_of(dist), headers.get("name", [stem])[0]
    for entry in entries:
        why = taken(entry.name) if entry.group == NAMES else ""
        if why:
            plugin.taken[entry.name] = why
            continue
        table = plugin.entries if entry.group in GROUPS else plugin.others
        table.setdefault(entry.group, []).append(entry)
    for entry in plugin.entries.get(BACKENDS, ()):
        try:
            plugin.claims.append(tuple(Claim(part) for part in entry.name.split("+")))
        except RegistrationError as error:
            plugin.refuse(error)
    _protocol(plugin)
    clauses, plugin.unread = core_requirements(headers.get("requires-dist", ()))
    _range(plugin, clauses)
    return plugin


def taken(name: str) -> str:
    """Why no plugin can add a name to the namespace, or an empty string."""
    from importlib.machinery import PathFinder

    core = sys.modules["tripoint"]
    if not name.isidentifier() or iskeyword(name):
        return "is no name that a program could write"
    if name.startswith("_"):
        return "begins with an underscore, and such names are the core's"
    theirs = vars(core).get("_added", ())  # names that plugins added and somebody used
    own = {*vars(core), *vars(core).get("_MODULES", ()), *vars(core).get("_LATER", ())} - {*theirs}
    if name in own or PathFinder.find_spec(f"tripoint.{name}", core.__path__) is not None:
        return "is a name of the core"
    return ""


def _headers(dist: Distribution) -> dict[str, list[str]]:
    """The headers of a distribution's metadata by name in lower case; a whole e-mail parser costs ten times as much."""
    headers: dict[str, list[str]] = {}
    last: list[str] = []
    for line in (dist.read_text("METADATA") or dist.read_text("PKG-INFO") or "").splitlines():
        if not line.strip():
            break  # the description
        name, colon, value = line.partition(":")
        if line[0].isspace() and headers:  # it goes on with the value before
            last[-1] += f" {line.strip()}"
        elif colon:
            last = headers.setdefault(name.lower(), [])
            last.append(cleaned(value.strip(), 1))
    return headers


def _protocol(plugin: Plugin) -> None:
    """Refuse a plugin that offers something in another protocol only; what it would provide is known all the same."""
    for group, entries in plugin.others.items():
        kind, number = protocol_of(group)
        if number in (None, PROTOCOL) or f"tripoint.{kind}.v{PROTOCOL}" in plugin.entries:
            continue
        who = f"upgrade {'tripoint' if number > PROTOCOL else plugin.name}"
        plugin.refuse(PluginError(f"it is written for protocol {number} ({group}), this core speaks {PROTOCOL}; {who}"))
        for entry in entries if kind == "backends" else ():
            try:
                plugin.claims.append(tuple(Claim(part) for part in entry.name.split("+")))
            except RegistrationError:
                continue  # another protocol may spell points otherwise


def _range(plugin: Plugin, clauses: list[str]) -> None:
    """Refuse a plugin that says it is for other versions of the core."""
    from tripoint.plugins.versions import core_version, satisfies

    have = core_version()
    wrong = [clause for clause in clauses if satisfies(have, clause) is False]
    if not wrong:
        return
    old = wrong[0].startswith(">") or (wrong[0].startswith("~=") and satisfies(have, "<" + wrong[0][2:]))
    mend = (
        f"upgrade tripoint, or install a version of {plugin.name} made for {have}" if old else f"upgrade {plugin.name}"
    )
    plugin.refuse(PluginError(f"it needs tripoint {', '.join(clauses)}, and this is {have}; {mend}"))


def _with_cause(made: PluginError, cause: BaseException) -> PluginError:
    made.__cause__ = cause
    return made
