"""Coverage as data, as text and as Markdown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tripoint.dtypes import CLASSES, PLAIN
from tripoint.support.operators import aligned

__all__ = ["VERDICTS", "Cell", "Coverage", "Mixed", "Place", "summed"]

VERDICTS = ("kernel", "hooks", "decomposition", "fallback", "none", "not loaded")
NOTHING = "–"
#: what the words of the table mean.
WORDS = {
    "kernel": "one kernel computes it",
    "hooks": "through strided tensors and back, where the layout or dtype declares that cheap",
    "decomposition": "from other operators, which all are there",
    "(not walked)": "only values, or metadata that nobody can guess, would tell",
    "(by shape)": "some of the shapes that the operator takes are refused",
    "none": "it is refused",
    NOTHING: "the operator takes none of the dtypes; those that it does not take are not named. What a kernel refuses by "
    "values is in no table",
}


@dataclass(frozen=True)
class Place:
    """One point. A dtype that its backend declares not to hold makes none.

    Attributes:
        device, layout, dtype: its axes; ``name`` has them in one.
        provider: the distribution that provides it.
        state: ``loaded``, or ``found``, ``blocked`` or ``broken`` for a plugin that is not.
        reason: why its hardware cannot be used, if that was asked for.
        offers: what other plugins offer here that nobody prefers; empty where none does.
        holds: which tensors there are, as its backend declares; empty for any.
    """

    device: str
    layout: str
    dtype: str
    provider: str
    state: str
    reason: str = ""
    holds: str = ""
    offers: str = ""

    @property
    def name(self) -> str:
        """``device.layout.dtype``."""
        return f"{self.device}.{self.layout}.{self.dtype}"

    @property
    def column(self) -> str:
        """``device.layout``, where the plain dtypes of a point stand together; an opaque dtype stands alone."""
        return f"{self.device}.{self.layout}" if self.dtype in PLAIN else self.name


@dataclass(frozen=True)
class Cell:
    """One operator on one point.

    Attributes:
        operator, device, layout, dtype: where it stands. All tensors of the call are on the point; positions and labels are
            int64, conditions bool. An optional operand is there, or the note says that it is left out. A conversion leads to
            one other point, which the note names.
        verdict: ``kernel``, ``hooks``, ``decomposition``, ``fallback``, ``none`` or ``not loaded``.
        kernel, provider, where: of what computes: function, distribution with version, file and line; else empty.
        note: what the verdict rests on, such as the parts of a decomposition, or why there is none.
        walked: false for a decomposition whose parts only values, or metadata that nobody can guess, would tell.
        taken: false where the operator itself takes no such dtype, so that no backend could supply it.
        limit: which of the shapes that the operator takes the kernel takes, as it declares, or those of the parts; empty for
            all of them. What a kernel refuses by the values that it meets no cell knows.
    """

    operator: str
    device: str
    layout: str
    dtype: str
    verdict: str
    kernel: str = ""
    provider: str = ""
    where: str = ""
    note: str = ""
    walked: bool = True
    taken: bool = True
    limit: str = ""

    @property
    def word(self) -> str:
        """The verdict as tables write it, with what it leaves open."""
        return f"{self.verdict}{'' if self.walked else ' (not walked)'}{' (by shape)' if self.limit else ''}"


@dataclass(frozen=True)
class Mixed:
    """A kernel whose arguments stand on different points, which no single cell shows.

    Attributes:
        operator, pattern: what it computes, and the points of its arguments.
        kernel, provider, where: its name, the package and version, file and line.
        limit: as of `Cell`.
    """

    operator: str
    pattern: str
    kernel: str
    provider: str
    where: str
    limit: str = ""


@dataclass(frozen=True)
class Group:
    """The cells of one operator in one column that say the same, but for their notes: one of them, the dtypes and the notes."""

    cell: Cell
    dtypes: tuple[str, ...]
    notes: tuple[str, ...]


class Coverage:
    """Operators by points; prints as a table.

    Attributes:
        operators: qualified names, in order.
        places: the points, in order; see `Place`.
        cells: one `Cell` for each operator and point.
        mixed: kernels on several points, see `Mixed`.
        fallback: the fallback policy that was in force, such as ``error`` or ``allow:cpu``.
    """

    def __init__(
        self,
        operators: tuple[str, ...],
        places: tuple[Place, ...],
        cells: tuple[Cell, ...],
        mixed: tuple[Mixed, ...],
        fallback: str,
    ) -> None:
        self.operators = operators
        self.places = places
        self.cells = cells
        self.mixed = mixed
        self.fallback = fallback
        self._at = {(c.operator, f"{c.device}.{c.layout}.{c.dtype}"): c for c in cells}

    def __getitem__(self, at: tuple[str, str]) -> Cell:
        """The cell of an operator and a point: ``coverage["add", "cpu.strided.float32"]``."""
        return self._at[at]

    def of(self, *providers: str) -> Coverage:
        """The part of the table that stands on the points of these distributions, and their kernels on several points."""
        places = tuple(p for p in self.places if p.provider in providers)
        names = {p.name for p in places}
        cells = tuple(c for c in self.cells if f"{c.device}.{c.layout}.{c.dtype}" in names)
        mixed = tuple(m for m in self.mixed if m.provider.partition(" ")[0] in providers)
        return Coverage(self.operators, places, cells, mixed, self.fallback)

    @property
    def columns(self) -> tuple[str, ...]:
        """Points with their plain dtypes together, in order."""
        return tuple(dict.fromkeys(p.column for p in self.places))

    def groups(self, operator: str, column: str) -> tuple[Group, ...]:
        """The cells of an operator in a column, put together where they say the same, in the order of `VERDICTS`."""
        found: dict[tuple[Any, ...], list[Cell]] = {}
        for place in self.places:
            if place.column == column:
                cell = self._at[operator, place.name]
                said = (
                    not cell.taken,
                    VERDICTS.index(cell.verdict),
                    not cell.walked,
                    cell.kernel,
                    cell.provider,
                    cell.where,
                    cell.limit,
                )
                found.setdefault(said, []).append(cell)
        ordered = sorted(found.items(), key=lambda item: item[0][:3])
        return tuple(
            Group(cells[0], tuple(c.dtype for c in cells), tuple(dict.fromkeys(c.note for c in cells if c.note)))
            for _, cells in ordered
        )

    def counts(self) -> dict[str, int]:
        """Number of cells by verdict; those whose operator takes no such dtype are not counted."""
        return {v: sum(c.verdict == v and c.taken for c in self.cells) for v in VERDICTS}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, such as `json.dumps` takes."""
        return {
            "operators": list(self.operators),
            "points": [{"name": p.name, **asdict(p)} for p in self.places],
            "cells": [asdict(c) for c in self.cells],
            "mixed": [asdict(m) for m in self.mixed],
            "counts": self.counts(),
            "fallback": self.fallback,
        }

    def to_text(self) -> str:
        """A table: a row an operator, a column a point, in each cell the verdicts and the dtypes that they hold for."""
        return "\n".join(part if isinstance(part, str) else aligned(part) for part in self.parts())

    def parts(self) -> list[str | list[tuple[str, ...]]]:
        """What the text consists of: lines, and tables, whose first row holds the heads."""
        cells = [(name, *[self.summary(name, column) for column in self.columns]) for name in self.operators]
        out: list[str | list[tuple[str, ...]]] = [[("operator", *self.columns), *cells], "", *self.notes()]
        if limits := self.limits():
            out += ["", "By shape, which of them are taken:", [("operator", "point", "shapes"), *limits]]
        if self.mixed:
            said = [(m, f"{m.kernel}, {m.provider}, {m.where}") for m in self.mixed]
            mixed = [(m.operator, m.pattern, f"{made}: {m.limit}" if m.limit else made) for m, made in said]
            out += ["", "Kernels on several points:", [("operator", "arguments", "kernel"), *mixed]]
        return out

    def to_markdown(self) -> str:
        """The same table in Markdown."""
        lines = ["| " + " | ".join(["operator", *(f"`{c}`" for c in self.columns)]) + " |"]
        lines.append("| --- " * (len(self.columns) + 1) + "|")
        for name in self.operators:
            lines.append(
                "| " + " | ".join([f"`{name}`", *[self.summary(name, column) for column in self.columns]]) + " |"
            )
        lines += ["", *self.notes(machine=False)]
        if self.limits():
            lines += [
                "",
                "By shape, which of them are taken:",
                "",
                "| operator | point | shapes |",
                "| --- | --- | --- |",
            ]
            lines += [f"| `{operator}` | `{column}` | {limit} |" for operator, column, limit in self.limits()]
        if self.mixed:
            heads = ("operator", "arguments", "kernel", "provider", *["shapes"] * any(m.limit for m in self.mixed))
            rows = [(f"`{m.operator}`", f"`{m.pattern}`", f"`{m.kernel}`", m.provider, m.limit) for m in self.mixed]
            lines += ["", "Kernels on several points:", "", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
            lines += [f"| {' | '.join(row[: len(heads)])} |" for row in rows]
        return "\n".join(lines) + "\n"

    def limits(self) -> tuple[tuple[str, str, str], ...]:
        """Operator, column and what its cells there say of shapes, where they say something."""
        found = {(name, column): self.groups(name, column) for name in self.operators for column in self.columns}
        return tuple(
            (name, column, limit)
            for (name, column), groups in found.items()
            for limit in dict.fromkeys(g.cell.limit for g in groups if g.cell.limit and g.cell.taken)
        )

    def to_html(self) -> str:
        """One page without external files, with filters by operator, device, layout, dtype and verdict."""
        from tripoint.support.page import page

        return page(self)

    def summary(self, operator: str, column: str) -> str:
        """What a cell of the table says: each verdict, and its dtypes where there are several verdicts."""
        words: dict[str, list[str]] = {}
        for group in self.groups(operator, column):
            if group.cell.taken:
                words.setdefault(group.cell.word, []).extend(group.dtypes)
        if not words:
            return NOTHING
        if len(words) == 1:
            return next(iter(words))
        return "; ".join(f"{verdict} {summed(dtypes)}" for verdict, dtypes in words.items())

    def notes(self, *, machine: bool = True) -> list[str]:
        """What the words of the table mean, and what else there is to say of its points; with ``machine`` also why one cannot
        be used on this one.
        """
        said = [" ".join(f"{word}: {meaning}." for word, meaning in WORDS.items())]
        said += self.remarks(machine=machine)
        return said

    def remarks(self, *, machine: bool = True) -> list[str]:
        """What `notes` gives behind the meaning of words."""
        said = [
            f"{column}: {holds}."
            for column, holds in dict.fromkeys((p.column, p.holds) for p in self.places if p.holds)
        ]
        said += [f"{columns}: {names} by {provider}." for columns, provider, names in self._of_others()]
        said += [f"{offer}." for offer in dict.fromkeys(p.offers for p in self.places if p.offers)]
        if self.fallback != "error":
            said.append(f"fallback: the policy in force, {self.fallback}, computes it elsewhere.")
        for state in ("found", "blocked", "broken"):
            names = dict.fromkeys(f"{p.column} ({p.provider})" for p in self.places if p.state == state)
            if names:
                state = "installed and not loaded, coverage(load=True) loads it" if state == "found" else state
                said.append(f"not loaded: {', '.join(names)}: {state}.")
        here = {p.name for p in self.places if p.state == "loaded"}
        needs = {c.note for c in self.cells if c.verdict == "not loaded" and f"{c.device}.{c.layout}.{c.dtype}" in here}
        said += [f"not loaded, on a point that is: {need}; coverage(load=True) loads it." for need in sorted(needs)]
        reasons = dict.fromkeys((p.column, p.reason) for p in self.places if p.reason and machine)
        said += [f"{column} cannot be used on this machine: {reason}." for column, reason in reasons]
        return said

    def _of_others(self) -> list[tuple[str, str, str]]:
        """Columns with kernels of other distributions than the one that provides the point: who, and of which operators.

        What computes an operator of its own, in a namespace, is left out: that is nobody else's.
        """
        found: dict[tuple[str, str], dict[str, None]] = {}
        for place in self.places:
            for operator in self.operators:
                cell = self._at[operator, place.name]
                by = cell.provider.partition(" ")[0]
                if cell.verdict == "kernel" and cell.taken and "::" not in operator and by not in ("", place.provider):
                    found.setdefault((place.column, cell.provider), {})[operator] = None
        return [
            (column, provider, ", ".join([*names][:8]) + f" and {len(names) - 8} others" * (len(names) > 8))
            for (column, provider), names in found.items()
        ]

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        counted = ", ".join(f"{n} {verdict}" for verdict, n in self.counts().items() if n)
        return f"<coverage of {len(self.operators)} operators on {len(self.places)} points: {counted or 'empty'}>"


def summed(dtypes: list[str]) -> str:
    """Names of dtypes, classes of them where all members are there."""
    left, out = list(dtypes), []
    for name, cls in CLASSES.items():  # from the widest down
        members = [d.name for d in PLAIN.values() if d in cls]
        if len(members) > 1 and set(members) <= set(left):
            out.append(name)
            left = [d for d in left if d not in members]
    return " ".join(out + left)
