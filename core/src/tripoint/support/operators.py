"""Every operator as data: what `tripoint.ops` gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tripoint import kernels, nn, plugins
from tripoint.autograd.record import load_derivatives
from tripoint.errors import ArgumentError
from tripoint.schema import Row, rows

__all__ = ["Operator", "Operators", "listed", "ops"]

#: modules in which users find the core's operators; the first that has one says how it is called.
HOMES = ("tripoint", nn.__name__)


@dataclass(frozen=True)
class Operator:
    """One operator.

    Attributes:
        name: qualified name, such as ``add`` or ``mylib::swiglu``.
        signature: name and parameters, as in a call.
        doc: the first line of its documentation.
        kind: family, such as ``elementwise`` or ``reduction``; empty where it states none.
        form: ``primitive`` (backends supply it), ``composite`` (written in other operators) or ``inplace``.
        minimal: whether it is among those that make a backend usable.
        derivative: ``stated`` by a row of its own, ``by parts`` of a composite, or ``none``.
        called: how a program reaches it, such as ``tripoint.nn.relu``; empty for those that only methods and formulas of
            derivatives use.
        package: top-level package that defines it.
        where: file and line of its declaration, from the package on.
    """

    name: str
    signature: str
    doc: str
    kind: str
    form: str
    minimal: bool
    derivative: str
    called: str
    package: str
    where: str


class Operators:
    """Operators in the order of their names; prints as a table."""

    def __init__(self, entries: tuple[Operator, ...]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> Operator:
        for entry in self._entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain data, such as `json.dumps` takes."""
        return [asdict(entry) for entry in self._entries]

    def rows(self) -> list[tuple[str, ...]]:
        """The table as text: a row of heads, then a row for each operator."""
        lines: list[tuple[str, ...]] = [("operator", "kind", "form", "derivative", "defined at", "what it does")]
        for e in self._entries:
            form = f"{e.form}, minimal" if e.minimal else e.form
            lines.append((e.signature, e.kind, form, e.derivative, e.where, e.doc))
        return lines

    def __str__(self) -> str:
        return aligned(self.rows())

    def __repr__(self) -> str:
        return str(self)


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """Rows of text in columns; the last column is as it comes."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)] if lines else []
    out = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)


def ops(namespace: str | None = None) -> Operators:
    """Every operator known so far, as data; prints as a table. Imports no plugin.

    Args:
        namespace: only the operators of a namespace: ``"mylib"`` for those named ``mylib::...``, ``"nn"`` for those in
            ``tripoint.nn``, ``""`` for the core's.

    Raises:
        ArgumentError: no operator known so far belongs to the namespace. Those of a plugin are known once it is loaded.
    """
    load_derivatives()
    found = listed()
    if namespace is not None:
        names = {space for _, row in found for space in _spaces(row)}
        if namespace not in names:
            raise ArgumentError(
                f"no operator known so far belongs to the namespace {namespace!r}; known are "
                f"{', '.join(repr(n) for n in sorted(names))}; a plugin's operators are known once it is loaded"
            )
        found = [(name, row) for name, row in found if namespace in _spaces(row)]
    return Operators(tuple(_read(row) for _, row in found))


def listed() -> list[tuple[str, Row]]:
    """Every row by name, the core's before those of namespaces."""
    return sorted(rows.items(), key=lambda item: ("::" in item[0], item[0]))


def _spaces(row: Row) -> set[str]:
    space, _, short = row.name.rpartition("::")
    return {space} | {home.partition(".")[2] for home in HOMES[1:] if _is(home, short, row)}


def _read(row: Row) -> Operator:
    doc = (row.body.__doc__ or "").strip().partition("\n")[0]
    form = "inplace" if row.mutates is not None else "composite" if row.composite else "primitive"
    base = row.functional or row
    # One that a plugin states for some points does not speak for a composite elsewhere.
    stated = any(not row.composite or d.every is not None for d in kernels.derivatives.get(base.name, ()))
    derivative = "stated" if stated else "by parts" if row.composite else "none"
    return Operator(
        row.name, row.signature(), doc, row.kind, form, row.minimal, derivative, _called(row), row.package, row.origin
    )


def _called(row: Row) -> str:
    """How a program reaches an operator, or nothing."""
    short = row.name.rpartition("::")[2]
    for plugin in plugins.found().values():
        for entry in plugin.entries.get(plugins.NAMES, ()) if row.package in plugin.packages else ():
            module, _, attribute = entry.value.partition(":")
            if _is(module, attribute, row):
                return f"tripoint.{entry.name}"
    home = next((h for h in (*HOMES, row.package) if _is(h, short, row)), None)
    return f"{home}.{short}" if home is not None else ""


def _is(module: str, name: str, row: Row) -> bool:
    found = sys.modules.get(module)
    return found is not None and found.__dict__.get(name) is row.call
