"""Failures that an author knows of, from a file of the plugin or from a call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tripoint import dtypes
from tripoint.errors import ArgumentError

_FORM = "known failures are [[failure]] tables, or a JSON list, of operator, dtype and reason"
_KEYS = {"operator", "dtype", "reason"}


class Known:
    """Failures that an author knows of: operator, dtype (``*`` for any) and the reason.

    Attributes:
        entries: all of them.
        used: those that a failure was found for.

    Raises:
        ArgumentError: a file that cannot be read, or an entry that means nothing; names what checks may be called.
    """

    def __init__(self, source: str | Path | Iterable[Mapping[str, str]] | None, names: Iterable[str]) -> None:
        self.entries: list[dict[str, str]] = []
        self.used: list[dict[str, str]] = []
        if source is None:
            return
        listed: Any = _read(source) if isinstance(source, (str, Path)) else source
        where = str(source) if isinstance(source, (str, Path)) else "known failures"
        known = set(names)
        for entry in _listed(listed, where):
            self.entries.append({"dtype": "*", **_checked(entry, known, where)})

    def reason(self, operator: str, dtype: str) -> str | None:
        """Why a failure is known, or ``None``."""
        for entry in self.entries:
            if entry["operator"] == operator and entry["dtype"] in ("*", dtype):
                self.used.append(entry)
                return entry["reason"]
        return None


def _listed(found: Any, where: str) -> list[Any]:
    try:
        return list(found)
    except TypeError:
        raise ArgumentError(f"{where}: {_FORM}, not {found!r}") from None


def _checked(entry: Any, known: set[str], where: str) -> dict[str, str]:
    if not isinstance(entry, Mapping) or not {"operator", "reason"} <= set(entry) or not set(entry) <= _KEYS:
        shown = dict(entry) if isinstance(entry, Mapping) else entry
        raise ArgumentError(f"{where}: a known failure has an operator, a reason and perhaps a dtype, not {shown!r}")
    empty = [key for key, value in entry.items() if not isinstance(value, str) or not value.strip()]
    if empty:
        raise ArgumentError(
            f"{where}: {empty[0]} is a text that says something, not {entry[empty[0]]!r}, in {dict(entry)!r}"
        )
    if entry["operator"] not in known:
        raise ArgumentError(f"{where}: {entry['operator']!r} is no operator, and nothing else that the kit checks")
    dtype = entry.get("dtype", "*")
    if dtype != "*" and dtype not in dtypes.PLAIN and dtype not in dtypes.registered:
        raise ArgumentError(f"{where}: {dtype!r} is no dtype, in the known failure of {entry['operator']}")
    return dict(entry)


def _read(source: str | Path) -> Any:
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            data = json.loads(text)
        else:
            import tomllib

            data = tomllib.loads(text)
    except OSError as error:
        raise ArgumentError(f"{source}: the known failures cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # of the encoding, of TOML or of JSON
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ArgumentError(f"{source}: no {kind} in UTF-8: {' '.join(str(error).split())}") from None
    found = data.get("failure") if isinstance(data, dict) else data
    if not isinstance(found, list):
        raise ArgumentError(f"{source}: {_FORM}")
    return found
