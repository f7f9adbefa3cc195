"""What a registration changes: the tables of devices, layouts and dtypes by name, who announced what, and copies of all.

Several plugins may announce different things by one name. All of them load, whoever comes first; who names the thing is
told, until a preference is stated.
"""

from __future__ import annotations

from typing import Any

from tripoint import devices, dtypes, kernels, layouts
from tripoint.devices import Device
from tripoint.errors import AmbiguousKernelError
from tripoint.plugins.discovery import commit_lock, found, on_change, rank
from tripoint.tensor import declare_attributes

#: device types announced so far, by name.
known_devices: dict[str, Device] = {"cpu": devices.cpu}

CORE = "the core"
Announced = tuple[dict[str, Any], str, Any, str | None]
#: who announced what, for taking it back: the table, the name, the thing and the distribution.
announced: list[Announced] = [
    (known_devices, "cpu", devices.cpu, CORE),
    (layouts.registered, "strided", layouts.strided, CORE),
]

Dispute = tuple[dict[str, Any], str, tuple[str | None, ...]]
#: names that several announced as different things, with no preference between them: the table, the name and who.
disputed: list[Dispute] = []

Tables = list[tuple[Any, Any]]


def snapshot() -> Tables:
    """Every table that a registration changes, each with a copy of it."""
    tables: list[Any] = [kernels.kernels, kernels.derivatives, kernels.points]
    tables += [layouts.registered, dtypes.registered, known_devices, announced, disputed]
    return [(table, table.copy()) for table in tables]


def restore(before: Tables) -> None:
    """Put every table back as a snapshot has it."""
    for table, had in before:
        if isinstance(table, list):
            table[:] = had
            continue
        for name in set(table) - set(had):
            del table[name]
        table.update(had)
    declare_attributes()


def who(distribution: str | None) -> str:
    """A distribution with its version, or the running program."""
    plugin = found().get(distribution) if distribution is not None else None
    return distribution or "the running program" if plugin is None else f"{plugin.name} {plugin.version}"


def settle() -> None:
    """Give each name that several announced to whom the user prefers; without a preference it is disputed."""
    with commit_lock:
        by_name: dict[tuple[int, str], list[Announced]] = {}
        for entry in announced:
            by_name.setdefault((id(entry[0]), entry[1]), []).append(entry)
        open_questions: list[Dispute] = []
        for entries in by_name.values():
            most = max(rank(by) for *_, by in entries)
            best = [entry for entry in entries if rank(entry[3]) == most]
            table, name, thing, _ = best[0]
            table[name] = thing
            if any(other is not thing for _, _, other, _ in best):
                open_questions.append((table, name, tuple(by for *_, by in best)))
        disputed[:] = open_questions
        declare_attributes()


on_change.append(settle)  # the first to be told: what is remembered of the old names is dropped after it


def undisputed(what: str, table: dict[str, Any], name: str) -> None:
    """Refuse a name that several announced as different things.

    Raises:
        AmbiguousKernelError: it names them; a preference settles it.
    """
    for other, disputed_name, by in disputed:
        if other is table and disputed_name == name:
            raise AmbiguousKernelError(
                f"the {what} {name!r} is announced by {' and by '.join(map(who, by))}, as different things; "
                f"state which one you want: tripoint.plugins.prefer({by[0] or '__main__'!r})"
            )
