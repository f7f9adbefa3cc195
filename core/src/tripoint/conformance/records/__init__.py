"""One record per operator: what drives every check of it. Files are named as those of ``tripoint.ops``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

from tripoint.conformance.records import (
    conversion,
    creation,
    elementwise,
    indexing,
    linalg,
    manipulation,
    nn,
    reductions,
)
from tripoint.conformance.records.declared import declared, load_names, record_of
from tripoint.conformance.records.record import Bad as Bad
from tripoint.conformance.records.record import Record as Record
from tripoint.conformance.records.record import Sample as Sample

__all__ = ["RECORDS", "WITHOUT_RECORD", "Bad", "Record", "Sample", "chosen", "matches", "unknown"]

RECORDS: dict[str, Record] = {
    record.operator: record
    for room in (conversion, creation, elementwise, reductions, manipulation, indexing, linalg, nn)
    for record in room.RECORDS
}

#: operators of the core that have no record, and why.
WITHOUT_RECORD: dict[str, str] = {
    "to_numpy": "shares memory with NumPy, which the kit does not import; tier 5 exports and reads back where NumPy is there",
    "to_text": "what is printed is a matter of taste; tier 5 prints every dtype and looks for the numbers",
}


def chosen(words: Iterable[str]) -> Iterator[Record]:
    """The records of the operators of others that words name or match: ``mylib::op``, ``mylib::*``.

    Plugins that add names are loaded if a word asks for what is not known yet.

    Raises:
        ArgumentError: the samples of one do not fit its signature.
    """
    asked = [word for word in words if "::" in word]
    if not all(any(matches(name, word) for name in declared()) for word in asked):
        load_names()
    for name, row in sorted(declared().items()):
        if any(matches(name, word) or matches(f"{name}_", word) for word in asked):
            yield record_of(row)


def matches(name: str, word: str) -> bool:
    """Whether a word is a name or a pattern of it; one without a namespace is about the core's operators."""
    return ("::" in name) == ("::" in word) and fnmatchcase(name, word)


def unknown(word: str, known: Iterable[str]) -> str:
    """What to say of a word that names nothing which the kit checks."""
    if "::" not in word:
        near = get_close_matches(word, known, 3)
        return f"the kit has no record of {word!r}; " + (
            f"did you mean {' or '.join(near)}?"
            if near
            else "tripoint conformance POINT --collect-only -q lists what it checks"
        )
    return (
        f"no operator {word!r} is declared; those of others are {', '.join(sorted(declared())) or 'none'}. What declares it "
        "must be imported, or installed with an entry point of tripoint.names.v1 that works, see tripoint plugins"
    )
