"""Reading the metadata of one distribution: what it offers, and what it says against being loaded here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tripoint.errors import PluginError, RegistrationError
from tripoint.plugins.records import BACKENDS, GROUPS, PROTOCOL, Claim, Plugin, normalise, protocol_of, said

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint


def read(dist: Distribution, seen: set[str], unreadable: dict[str, str]) -> Plugin | None:
    """What one distribution offers, or ``None`` when that is nothing or it is hidden by one of its name before it.

    What nobody can read enough of to tell whether it is a plugin goes into ``unreadable``, with the reason.
    """
    stem, text = "?", ""
    try:
        stem = getattr(dist, "_normalized_name", None) or dist.metadata["Name"]
        if stem in seen:
            return None
        seen.add(stem)
        text = dist.read_text("entry_points.txt") or ""
        entries = [e for e in dist.entry_points if e.group.startswith("tripoint.")] if "tripoint." in text else []
        return _plugin(dist, stem, entries) if entries else None
    except Exception as error:
        if "tripoint." in text:  # it seems to be one of ours
            plugin = Plugin(normalise(stem), "?")
            plugin.refuse(_with_cause(PluginError(f"its metadata cannot be read: {said(error)}; reinstall it"), error))
            return plugin
        if not text:
            unreadable[normalise(stem)] = said(error)
        return None


def _plugin(dist: Distribution, stem: str, entries: list[EntryPoint]) -> Plugin:
    from tripoint.plugins.versions import core_requirements

    headers = _headers(dist)
    plugin = Plugin(normalise(headers.get("name", [stem])[0]), headers.get("version", ["?"])[0])
    for entry in entries:
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


def _headers(dist: Distribution) -> dict[str, list[str]]:
    """The headers of a distribution's metadata by name in lower case; a whole e-mail parser costs ten times as much."""
    headers: dict[str, list[str]] = {}
    for line in (dist.read_text("METADATA") or dist.read_text("PKG-INFO") or "").splitlines():
        if not line.strip():
            break  # the description
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            headers.setdefault(name.lower(), []).append(value.strip())
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
