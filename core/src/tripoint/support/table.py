"""Coverage as data, as text and as Markdown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tripoint.dtypes import CLASSES, PLAIN
from tripoint.support.operators import aligned

__all__ = ["VERDICTS", "Cell", "Coverage", "Mixed", "Place", "summed"]

VERDICTS = ("kernel", "hooks", "decomposition", "fallback", "none", "not loaded")
NOTHING = "–"


@dataclass(frozen=True)
class Place:
    """One point: its axes, its name, the distribution that provides it, its state, and why it cannot be used, if asked.

    ``state`` is ``loaded``, or ``found``, ``blocked`` or ``broken`` for a plugin that is not.
    """

    device: str
    layout: str
    dtype: str
    provider: str
    state: str
    reason: str = ""

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
            int64, conditions bool.
        verdict: ``kernel``, ``hooks``, ``decomposition``, ``fallback``, ``none`` or ``not loaded``.
        kernel, provider, where: of what computes: function, distribution with version, file and line; else empty.
        note: what the verdict rests on, such as the parts of a decomposition, or why there is none.
        walked: false for a decomposition whose parts only values, or metadata that nobody can guess, would tell.
        taken: false where the operator itself takes no such dtype, so that no backend could supply it.
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


@dataclass(frozen=True)
class Mixed:
    """A kernel whose arguments stand on different points, which no single cell shows."""

    operator: str
    pattern: str
    kernel: str
    provider: str
    where: str


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
        lines = [("operator", *self.columns)]
        lines += [(name, *[self.summary(name, column) for column in self.columns]) for name in self.operators]
        out = [aligned(lines), "", *self.notes()]
        if self.mixed:
            out += ["", "Kernels on several points:"]
            out.append(aligned([(m.operator, m.pattern, f"{m.kernel}, {m.provider}, {m.where}") for m in self.mixed]))
        return "\n".join(out)

    def to_markdown(self) -> str:
        """The same table in Markdown."""
        lines = ["| " + " | ".join(["operator", *(f"`{c}`" for c in self.columns)]) + " |"]
        lines.append("| --- " * (len(self.columns) + 1) + "|")
        for name in self.operators:
            lines.append(
                "| " + " | ".join([f"`{name}`", *[self.summary(name, column) for column in self.columns]]) + " |"
            )
        lines += ["", *self.notes(machine=False)]
        if self.mixed:
            lines += ["", "Kernels on several points:", "", "| operator | arguments | kernel | provider |"]
            lines.append("| --- | --- | --- | --- |")
            lines += [f"| `{m.operator}` | `{m.pattern}` | `{m.kernel}` | {m.provider} |" for m in self.mixed]
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """One page without external files, with filters by operator, device, layout, dtype and verdict."""
        from tripoint.support.page import page

        return page(self)

    def summary(self, operator: str, column: str) -> str:
        """What a cell of the table says: each verdict, and its dtypes where there are several verdicts."""
        words: dict[str, list[str]] = {}
        for group in self.groups(operator, column):
            if group.cell.taken:
                walked = "" if group.cell.walked else " (not walked)"
                words.setdefault(group.cell.verdict + walked, []).extend(group.dtypes)
        if not words:
            return NOTHING
        if len(words) == 1:
            return next(iter(words))
        return "; ".join(f"{verdict} {summed(dtypes)}" for verdict, dtypes in words.items())

    def notes(self, *, machine: bool = True) -> list[str]:
        """What the words of the table mean; with ``machine`` also why a point cannot be used on this one."""
        said = [
            "kernel: one kernel computes it. hooks: through strided tensors and back, where the layout or dtype declares "
            "that cheap. decomposition: from other operators, which all are there; (not walked): only values, or metadata "
            "that nobody can guess, would tell. none: it raises NoKernelError. Dtypes that an operator does not take are "
            f"not named; {NOTHING}: it takes none of them."
        ]
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
