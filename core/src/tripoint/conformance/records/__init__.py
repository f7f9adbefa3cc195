"""One record per operator: what drives every check of it. Files are named as those of ``tripoint.ops``."""

from __future__ import annotations

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
from tripoint.conformance.records.record import Bad as Bad
from tripoint.conformance.records.record import Record as Record
from tripoint.conformance.records.record import Sample as Sample

__all__ = ["RECORDS", "WITHOUT_RECORD", "Bad", "Record", "Sample"]

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
