"""What is wrong with an installation, or may be: what ``tripoint doctor`` prints. Loaded when asked for."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from tripoint import dtypes, kernels, layouts
from tripoint.dtypes import DTypeClass
from tripoint.errors import cleaned, said
from tripoint.patterns import ANY, OnPatterns, Origin, Pattern, Patterns, beats
from tripoint.plugins import loading
from tripoint.plugins.discovery import (
    FIRST_PARTY,
    VARIABLES,
    found,
    hidden,
    installing,
    listed_in,
    preferred,
    rank,
    reinstalling,
    unreadable,
)
from tripoint.plugins.names import unkept
from tripoint.plugins.records import (
    BACKENDS,
    KERNELS,
    LAYERS,
    NAMES,
    OURS,
    Claim,
    Plugin,
    did_you_mean_group,
    normalise,
    protocol_of,
)
from tripoint.plugins.registry import touches
from tripoint.plugins.reports import remedy, whom_to_tell
from tripoint.plugins.tables import announced, known_devices, who
from tripoint.schema import Row, rows


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
        what: ``kernels of add``, ``derivatives of add``, ``point cpu.strided.plain``, ``layout ragged``,
            ``name tripoint.ragged`` and the like.
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
        on = " and ".join(dict.fromkeys(self.on))
        where = "" if self.what.endswith(on) else f" (on {on})"
        return f"{self.what}: {' and '.join(self.by)}{where}{settled}"


def overlaps() -> list[Overlap]:
    """Overlaps among what is loaded, and names and layers that several plugins offer; loads nothing."""
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
                taking = _takes_part(a, row, slots) and _takes_part(b, row, slots)
                if taking and _tie(a.origin, a.patterns(slots), b.origin, b.patterns(slots)):
                    on = tuple(", ".join(map(str, k.patterns(slots))) for k in (a, b))
                    out.append(_overlap(f"{what} of {operator}", on, (a.origin, b.origin)))
    for p, q in combinations(kernels.points, 2):
        if _tie(p.origin, (p.pattern,), q.origin, (q.pattern,)):
            out.append(_overlap(f"point {p.pattern}", (str(p.pattern), str(q.pattern)), (p.origin, q.origin)))
    axes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("device", known_devices), ("layout", layouts.registered), ("dtype", dtypes.registered),
    )  # fmt: skip
    for axis, table in axes:
        mine = [(name, thing, by) for t, name, thing, by in announced if t is table]
        for (name, thing, by), (other_name, other, other_by) in combinations(mine, 2):
            if name == other_name and thing is not other:
                out.append(_made(f"{axis} {name}", (name, name), (who(by), who(other_by)), (by, other_by)))
    return out + [
        _made(f"{what}{name}", (name, name), (who(a), who(b)), (a, b))
        for group, what in ((NAMES, "name tripoint."), (LAYERS, "layer "))
        for name, offering in _offered(group).items()
        for a, b in combinations(offering, 2)
    ]


def _offered(group: str) -> dict[str, list[str]]:
    """Names that entry points of a group have, and the plugins that offer each and are not blocked."""
    out: dict[str, list[str]] = {}
    for plugin in sorted(found().values(), key=lambda p: p.name):
        for entry in plugin.entries.get(group, ()) if plugin.state != "blocked" else ():
            out.setdefault(entry.name, []).append(plugin.name)
    return out


def _overlap(what: str, on: tuple[str, ...], origins: tuple[Origin, ...]) -> Overlap:
    return _made(what, on, tuple(map(str, origins)), tuple(o.distribution for o in origins))


def _made(what: str, on: tuple[str, ...], by: tuple[str, ...], distributions: tuple[str | None, ...]) -> Overlap:
    names = tuple(d or "__main__" for d in distributions)
    ranks = [rank(d) for d in distributions]
    top = max(ranks)
    return Overlap(what, on, by, names, names[ranks.index(top)] if ranks.count(top) == 1 else "")


def _takes_part(made: OnPatterns, row: Row | None, slots: tuple[int, ...]) -> bool:
    """As `participates` in the room ``plugins.loading``, in some call that fits."""
    plugin = loading.plugin_behind(made.origin)
    if plugin is None or row is None or rank(plugin.name) or row.package in plugin.packages or plugin.name == OURS:
        return True
    patterns = made.patterns(slots)
    described = [p.pattern for p in kernels.points if p.origin.distribution == plugin.name]
    return any(
        any(touches(c, pattern) for claim in plugin.claims for c in claim) or any(_meet(p, pattern) for p in described)
        for pattern in patterns
    )


def _tie(one: Origin, p: Patterns, other: Origin, q: Patterns) -> bool:
    """Whether some call fits both, and neither beats the other, or both provide a point of it."""
    if not all(map(_meet, p, q)):
        return False
    return _rivals(one, other, (*p, *q)) or not (beats(p, q) or beats(q, p))


def _rivals(one: Origin, other: Origin, patterns: Patterns) -> bool:
    """As `rivals` in the room ``plugins.loading``, of the calls that fit patterns."""
    plugins = [loading.plugin_behind(origin) for origin in (one, other)]
    claims = [[c for claim in plugin.claims for c in claim] for plugin in plugins if plugin is not None]
    if one.distribution == other.distribution or len(claims) < 2:
        return False
    shared = [pair for pair in product(*claims) if _share(*pair)]
    return any(touches(a, pattern) and touches(b, pattern) for a, b in shared for pattern in patterns)


def _share(a: Claim, b: Claim) -> bool:
    """Whether two entry-point names have a point in common."""
    for mine, its in ((a.device, b.device), (a.layout, b.layout)):
        if mine != its and ANY not in (mine, its):
            return False
    plain = None in (a.dtype, b.dtype) and (a.dtype or b.dtype) in dtypes.PLAIN
    return plain or a.dtype == b.dtype or ANY in (a.dtype, b.dtype)


def _meet(p: Pattern, q: Pattern) -> bool:
    if type(p) is not type(q):
        return False
    for a, b in ((p.device, q.device), (p.layout, q.layout)):
        if a != b and ANY not in (a, b):
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
        loading.load_all()
    out = [*_surroundings(), *_plugins(), *_unreadable(), *_variables(), *_overlapping(), *_without_a_cpu()]
    return sorted(out, key=lambda finding: ("error", "warning", "note").index(finding.level))


def _surroundings() -> Iterator[Finding]:
    from tripoint.plugins.surroundings import surroundings

    wanted = [plugin for plugin in found().values() if plugin.state != "blocked"]
    if "tripoint" not in found():
        what = "the metadata of tripoint itself is not there, without which device='meta' is not found"
        yield Finding("error", what, f"reinstall it: {reinstalling('tripoint')}")
    for line in surroundings(wanted):
        yield Finding(*line)


def _plugins() -> Iterator[Finding]:
    for plugin in sorted(found().values(), key=lambda p: p.name):
        name = f"{plugin.name} {plugin.version}"
        silence = f"; or silence it with TRIPOINT_DISABLE={plugin.name}" if plugin.name != "tripoint" else ""
        if plugin.error is not None and plugin.state != "blocked":
            why = cleaned(str(plugin.error)) if plugin.refused else said(plugin.error)
            level, how = ("error", "is broken") if plugin.state == "broken" else ("warning", "raised")
            shown = "" if plugin.refused else "; `tripoint plugins --load` prints the traceback"
            yield Finding(level, f"{name} {how}: {why}", remedy(plugin) + shown + silence)
        if plugin.state == "blocked" and plugin.name in preferred:
            what = f"{name} is preferred and blocked, so calls on its points are refused"
            yield Finding("warning", what, f"take it back: tripoint.plugins.block({plugin.name!r}) ends the preference")
        elif plugin.state == "blocked":
            what = f"{name} is blocked, so that {', '.join(plugin.provides) or 'what it offers'} cannot be used"
            how = (
                f"take it out of TRIPOINT_DISABLE, or say tripoint.plugins.unblock({plugin.name!r}), where it is wanted"
            )
            yield Finding("note", what, how)
        if plugin.reason:
            points = ", ".join(plugin.provides)
            yield Finding(
                "warning", f"{points} of {name} cannot be used: {plugin.reason}", "see to what it says" + silence
            )
        for line in plugin.unread:
            yield Finding(
                "note", f"{name} requires {line!r}, which is not understood here", "see that it fits this version"
            )
        if plugin.version == "?" and plugin.error is None:
            what = f"the metadata of {plugin.name} in {plugin.folder} has no version: it is not whole"
            yield Finding("warning", what, f"reinstall it: {reinstalling(plugin.name)}")
        if normalise(plugin.named) != plugin.name:
            what = (
                f"the metadata in {plugin.folder} calls it {plugin.named}; it is known as {plugin.name}, as its folder"
            )
            yield Finding("warning", what, f"reinstall it, {reinstalling(plugin.name)}, or tell its authors")
        for word, why in plugin.taken.items():
            what = f"{name} would add tripoint.{word}, which {why}; it is left out"
            yield Finding("warning", what, whom_to_tell(plugin))
        yield from _groups(plugin, name)
        yield from _unkept(plugin, name)
        yield from _misspelt(plugin, name)
        if plugin.installed != plugin.version and plugin.refused is None:
            now = f"version {plugin.installed} of it is installed" if plugin.installed else "it has been uninstalled"
            yield Finding("note", f"{name} is running, and {now}", "start the program again")


def _groups(plugin: Plugin, name: str) -> Iterator[Finding]:
    for group in plugin.others:
        if protocol_of(group)[1] is None:
            what = f"{name} has entry points in {group}, which this core does not read"
            yield Finding(
                "note", what, f"see the spelling, or upgrade tripoint or {plugin.name}; {did_you_mean_group(group)}"
            )


def _unkept(plugin: Plugin, name: str) -> Iterator[Finding]:
    """Names in the entry points of a loaded plugin that neither it nor anybody else brings."""
    plain = {**dtypes.PLAIN, **dtypes.registered}
    axes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("device", known_devices), ("layout", layouts.registered), ("dtype", plain),
    )  # fmt: skip
    for axis, table in axes if BACKENDS in plugin.loaded else ():
        claimed = {getattr(c, axis): str(c) for claim in plugin.claims for c in claim}
        for word in sorted({*claimed} - {None, ANY, *table}):
            if axis == "dtype":
                what = (
                    f"{name} names the {axis} {word!r} in its entry points ({claimed[word]}), and does not announce it"
                )
                yield Finding("warning", what, f"see the spelling, or install what brings it; {whom_to_tell(plugin)}")
            else:  # no call that names it is served
                yield Finding("error", unkept(plugin, axis, word), f"{whom_to_tell(plugin)}, or install what brings it")


def _misspelt(plugin: Plugin, name: str) -> Iterator[Finding]:
    """Kernels for devices and layouts that are nearly called as some that are known."""
    said: dict[tuple[str, str], str] = {}
    known = {"device": [*known_devices], "layout": [*layouts.registered]}
    for kernel in (k for entries in kernels.kernels.values() for k in entries):
        for pattern in kernel.args or (kernel.every,) if kernel.origin.distribution == plugin.name else ():
            for axis, names in known.items() if type(pattern) is Pattern else ():
                word = getattr(pattern, axis)
                if word not in (ANY, *names) and difflib.get_close_matches(word, names, 1, 0.8):
                    said.setdefault((axis, word), f"{kernel.operator} on {kernel.pattern()}")
    for (axis, word), where in said.items():
        what = f"{name} has kernels for the {axis} {word!r}, which nobody announces, such as that of {where}"
        yield Finding("warning", what, f"{_meant(word, known[axis], 'install what brings it')}; {whom_to_tell(plugin)}")


def _unreadable() -> Iterator[Finding]:
    for level, table in (("warning", unreadable), ("warning", hidden)):
        for what, how in table.items():
            yield Finding(level, what, how)


def _variables() -> Iterator[Finding]:
    plugins = found()
    offered = {e.name for p in plugins.values() for es in (*p.entries.values(), *p.others.values()) for e in es}
    accepted = {"TRIPOINT_DISABLE": {*plugins, *offered}, "TRIPOINT_PREFER": {*plugins, "__main__"}}
    for variable, names in accepted.items():
        known = set(map(normalise, names))
        for name in listed_in(variable):
            offers = [p.name for p in plugins.values() if p.brings(BACKENDS, name) or p.brings(KERNELS, name)]
            if normalise(name) not in known and offers:
                what = f"{variable} names {name!r}, an entry point, and takes distributions"
                yield Finding("warning", what, f"write who is meant: {' or '.join(sorted(offers))}")
            elif normalise(name) not in known:
                what = f"{variable} names {name!r}, which is not installed"
                yield Finding("warning", what, _meant(name, names, "take it out of the variable"))
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
                f"{_told(overlap.distributions[0])}: a call that fits both is refused",
            )
        else:
            # No call of such an operator, and no tensor on such a point, is served; the rest may never be asked for.
            level = "error" if overlap.what.startswith(("kernels of ", "point ")) else "warning"
            names = dict.fromkeys(overlap.distributions)
            choices = " or ".join(f"tripoint.plugins.prefer({name!r})" for name in names)
            yield Finding(
                level, str(overlap), f"say {choices}, or set TRIPOINT_PREFER; until then a call there is refused"
            )


def _told(distribution: str) -> str:
    plugin = found().get(distribution)
    return whom_to_tell(plugin) if plugin is not None else "take one of them out"
