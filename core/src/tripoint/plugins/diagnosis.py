"""What is wrong with an installation, or may be: what ``tripoint doctor`` prints. Loaded when asked for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tripoint import dtypes, kernels, layouts
from tripoint.dtypes import DTypeClass
from tripoint.errors import cleaned, said
from tripoint.kernels import Origin, Pattern, Patterns
from tripoint.plugins.discovery import (
    FIRST_PARTY,
    VARIABLES,
    found,
    hidden,
    installing,
    listed_in,
    preferred,
    rank,
    unreadable,
)
from tripoint.plugins.loading import load, probe
from tripoint.plugins.records import Plugin, normalise, protocol_of
from tripoint.plugins.reports import remedy
from tripoint.plugins.tables import announced, known_devices, who
from tripoint.schema import rows


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or that may surprise.

    Attributes:
        level: ``error`` where something installed cannot be used, ``warning`` where a call may be refused or a setting does
            nothing, ``note`` for the rest.
        what: what was found.
        remedy: what to do about it.
    """

    level: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.level}: {self.what}\n  {self.remedy}"


@dataclass(frozen=True)
class Overlap:
    """Registrations of which neither is narrower, on points that both fit. A call there raises until one is preferred.

    Attributes:
        what: ``kernels of add``, ``derivatives of add``, ``point cpu.strided.plain``, ``layout ragged`` and the like.
        on: the patterns, one per registration.
        by: who registered each, with version, file and line where these are known.
        distributions: the distributions, ``__main__`` for the running program.
        preferred: the one that the user prefers, or an empty string.
    """

    what: str
    on: tuple[str, ...]
    by: tuple[str, ...]
    distributions: tuple[str, ...]
    preferred: str

    def __str__(self) -> str:
        settled = f"; {self.preferred} is preferred" if self.preferred else ""
        return f"{self.what}: {' and '.join(self.by)} (on {' and '.join(dict.fromkeys(self.on))}){settled}"


def overlaps() -> list[Overlap]:
    """Overlaps among what is loaded; loads nothing."""
    out: list[Overlap] = []
    tables: tuple[tuple[str, dict[str, Any]], ...] = (
        ("kernels", kernels.kernels),
        ("derivatives", kernels.derivatives),
    )
    for what, table in tables:
        for operator, entries in table.items():
            row = rows.get(operator)
            slots = tuple(range(row.arity)) if row is not None else ()
            for a, b in combinations(entries if row is not None else (), 2):
                if _tie(a.patterns(slots), b.patterns(slots)):
                    on = tuple(", ".join(map(str, k.patterns(slots))) for k in (a, b))
                    out.append(_overlap(f"{what} of {operator}", on, (a.origin, b.origin)))
    for p, q in combinations(kernels.points, 2):
        if _tie((p.pattern,), (q.pattern,)):
            out.append(_overlap("point", (str(p.pattern), str(q.pattern)), (p.origin, q.origin)))
    axes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("device", known_devices), ("layout", layouts.registered), ("dtype", dtypes.registered),
    )  # fmt: skip
    for axis, table in axes:
        mine = [(name, thing, by) for t, name, thing, by in announced if t is table]
        for (name, thing, by), (other_name, other, other_by) in combinations(mine, 2):
            if name == other_name and thing is not other:
                out.append(_made(axis, (name, name), (who(by), who(other_by)), (by, other_by)))
    return out


def _overlap(what: str, on: tuple[str, ...], origins: tuple[Origin, ...]) -> Overlap:
    return _made(what, on, tuple(map(str, origins)), tuple(o.distribution for o in origins))


def _made(what: str, on: tuple[str, ...], by: tuple[str, ...], distributions: tuple[str | None, ...]) -> Overlap:
    names = tuple(d or "__main__" for d in distributions)
    ranks = [rank(d) for d in distributions]
    top = max(ranks)
    return Overlap(what, on, by, names, names[ranks.index(top)] if ranks.count(top) == 1 else "")


def _tie(p: Patterns, q: Patterns) -> bool:
    """Whether some call fits both and neither beats the other."""
    return all(map(_meet, p, q)) and not kernels.beats(p, q) and not kernels.beats(q, p)


def _meet(p: Pattern, q: Pattern) -> bool:
    if type(p) is not type(q):
        return False
    for a, b in ((p.device, q.device), (p.layout, q.layout)):
        if a != b and kernels.ANY not in (a, b):
            return False
    if isinstance(p.dtype, DTypeClass) and isinstance(q.dtype, DTypeClass):
        return p.dtype.under(q.dtype) or q.dtype.under(p.dtype)
    if isinstance(p.dtype, str) and isinstance(q.dtype, str):
        return p.dtype == q.dtype
    name, family = (p.dtype, q.dtype) if isinstance(p.dtype, str) else (q.dtype, p.dtype)
    plain = dtypes.PLAIN.get(str(name))
    return plain is not None and isinstance(family, DTypeClass) and plain in family


def findings(*, load_all: bool = False) -> list[Finding]:
    """Everything that is known to be wrong, the worst first."""
    if load_all:
        for plugin in list(found().values()):
            if load(plugin):
                probe(plugin)
    out = [*_plugins(), *_unreadable(), *_variables(), *_overlapping(), *_without_a_cpu()]
    return sorted(out, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _plugins() -> Iterator[Finding]:
    for plugin in sorted(found().values(), key=lambda p: p.name):
        name = f"{plugin.name} {plugin.version}"
        silence = f"; or silence it with TRIPOINT_DISABLE={plugin.name}"
        if plugin.error is not None and plugin.state != "blocked":
            why = cleaned(str(plugin.error)) if plugin.refused else said(plugin.error)
            level, how = ("error", "is broken") if plugin.state == "broken" else ("warning", "raised")
            yield Finding(level, f"{name} {how}: {why}", remedy(plugin) + silence)
        if plugin.state == "blocked" and plugin.name in preferred:
            what = f"{name} is preferred and blocked, so calls on its points are refused"
            yield Finding("warning", what, f"take it back: tripoint.plugins.block({plugin.name!r}) ends the preference")
        if plugin.reason:
            points = ", ".join(plugin.provides)
            yield Finding(
                "warning", f"{points} of {name} cannot be used: {plugin.reason}", "see to what it says" + silence
            )
        for line in plugin.unread:
            yield Finding(
                "note", f"{name} requires {line!r}, which is not understood here", "see that it fits this version"
            )
        if normalise(plugin.named) != plugin.name:
            what = (
                f"the metadata in {plugin.folder} calls it {plugin.named}; it is known as {plugin.name}, as its folder"
            )
            yield Finding("warning", what, f"reinstall {plugin.name}, or tell its authors")
        for word, why in plugin.taken.items():
            what = f"{name} would add tripoint.{word}, which {why}; it is left out"
            yield Finding("warning", what, f"tell the authors of {plugin.name}")
        yield from _groups(plugin, name)
        if plugin.loaded and plugin.installed != plugin.version:
            now = f"version {plugin.installed} of it is installed" if plugin.installed else "it has been uninstalled"
            yield Finding("note", f"{name} is running, and {now}", "start the program again")


def _groups(plugin: Plugin, name: str) -> Iterator[Finding]:
    for group in plugin.others:
        if protocol_of(group)[1] is None:
            what = f"{name} has entry points in {group}, which this core does not read"
            yield Finding("note", what, f"see the spelling, or upgrade tripoint or {plugin.name}")


def _unreadable() -> Iterator[Finding]:
    for level, table in (("warning", unreadable), ("warning", hidden)):
        for what, how in table.items():
            yield Finding(level, what, how)


def _variables() -> Iterator[Finding]:
    plugins = found()
    offered = {
        normalise(e.name) for p in plugins.values() for es in (*p.entries.values(), *p.others.values()) for e in es
    }
    accepted = {"TRIPOINT_DISABLE": {*plugins, *offered}, "TRIPOINT_PREFER": {*plugins, "__main__"}}
    for variable, names in accepted.items():
        for name in listed_in(variable):
            if normalise(name) not in names:
                what = f"{variable} names {name!r}, which is not installed"
                yield Finding("warning", what, _meant(normalise(name), names, "take it out of the variable"))
    for variable in sorted(os.environ):
        if variable.startswith("TRIPOINT_") and variable not in VARIABLES:
            what = f"the environment variable {variable} means nothing to Tripoint"
            near = _meant(variable[9:], [known[9:] for known in VARIABLES], "unset it", "TRIPOINT_")
            yield Finding("warning", what, f"{near}; known: {', '.join(VARIABLES)}")


def _meant(name: str, known: Iterable[str], otherwise: str, before: str = "") -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"write {before + near[0]!r} if that is meant, or {otherwise}" if near else otherwise


def _without_a_cpu() -> Iterator[Finding]:
    """Where tensors are made unless a device is named, and where their elements are read."""
    claims = [c for p in found().values() for claim in p.claims for c in claim]
    if not any((c.device, c.layout, c.dtype) == ("cpu", "strided", None) for c in claims):
        yield Finding(
            "note",
            "no plugin provides cpu.strided, where tensors are made unless a device or layout is named",
            f"{installing(FIRST_PARTY['cpu'])}, or name a device, such as device='meta'",
        )


def _overlapping() -> Iterator[Finding]:
    for overlap in overlaps():
        if overlap.preferred:
            yield Finding("note", str(overlap), "a preference settles it; nothing to do")
        elif len(set(overlap.distributions)) == 1:
            yield Finding(
                "note",
                str(overlap),
                f"tell the authors of {overlap.distributions[0]}: a call that fits both is refused",
            )
        else:
            names = dict.fromkeys(overlap.distributions)
            choices = " or ".join(f"tripoint.plugins.prefer({name!r})" for name in names)
            yield Finding(
                "warning", str(overlap), f"say {choices}, or set TRIPOINT_PREFER; until then a call there is refused"
            )
