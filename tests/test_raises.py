"""What the documentation of an operator says under "Raises", against the errors that calls really give."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import tripoint as tp
from tripoint import errors
from tripoint.conformance.records import RECORDS
from tripoint.errors import ArgumentError, DTypeError, TripointError
from tripoint.plugin import Tensor
from tripoint.schema import Row, rows

CORE = {name: row for name, row in rows.items() if row.package == "tripoint" and row.mutates is None}
PUBLIC = [o.name for o in tp.ops() if o.called and o.name in CORE]
DTYPES = ("bool", "uint8", "int32", "int64", "uint64", "float32", "complex64")


def documented(row: Row) -> set[str]:
    """Names of the errors under "Raises"."""
    doc = inspect.getdoc(row.body) or ""
    section = doc.partition("Raises:\n")[2].partition("\n\n")[0]
    return set(re.findall(r"\b[A-Z]\w*Error\b", " ".join(re.findall(r"(?m)^ {4}([A-Z][\w, ]*):", section))))


@pytest.mark.parametrize("name", CORE)
def test_the_errors_are_those_of_the_library(name: str) -> None:
    said = documented(CORE[name])
    assert said or name not in PUBLIC
    assert all(issubclass(getattr(errors, e), TripointError) for e in said)


@pytest.mark.parametrize("name", [name for name in CORE if name in RECORDS])
def test_what_the_kit_has_refused_is_documented(name: str) -> None:
    assert {bad.error for bad in RECORDS[name].errors()} <= documented(CORE[name])


def ones(dtype: str) -> Tensor:
    return tp.ones((2, 3), dtype=dtype)


def refused(row: Row, operands: list[Tensor]) -> bool:
    try:
        row.call(*operands)
    except DTypeError:
        return True
    except TripointError:
        return False
    return False


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, row in CORE.items()
        if row.kind in ("elementwise", "reduction", "product", "normalise", "select")
        and not row.target
        and name in PUBLIC
        and all(p.role == "operand" for p in row.operands)
        and all(repr(p.default) != "<required>" for p in row.metas)
        and name != "clip"  # whose bounds are metadata, and do refuse
    ],
)
def test_dtypes_that_are_refused_are_documented_and_no_others(name: str) -> None:
    row = CORE[name]
    count = len(row.operands)
    calls = [[ones(d)] * count for d in DTYPES]
    calls += [[*[ones("bool")] * (count - 2), ones("int64"), ones("uint64")]] if count > 1 else []
    gave = any(refused(row, operands) for operands in calls)
    if any(p.name == "dtype" for p in row.metas):
        with pytest.raises(DTypeError):
            row.call(ones("complex64"), dtype="float32")
        gave = True
    assert gave == ("DTypeError" in documented(row))


@pytest.mark.parametrize("name", [n for n in PUBLIC if CORE[n].operands and not CORE[n].operands[0].number])
@pytest.mark.parametrize("bad", [2.0, "text", None, object()])
def test_what_is_no_tensor_is_refused_by_name(name: str, bad: Any) -> None:
    row = CORE[name]
    if row.operands[0].role == "variadic":
        bad = [bad]
    given = [bad, *[ones("float32")] * (len([p for p in row.operands if p.role == "operand"]) - 1)]
    words = {p.name: 1 for p in row.metas if repr(p.default) == "<required>"}
    with pytest.raises(ArgumentError, match="must be a tensor"):
        row.call(*given, **words)


@pytest.mark.parametrize("bad", ["no", 1.5, None, (0, 0)])
@pytest.mark.parametrize("operator", [tp.sum, tp.prod, tp.max, tp.min, tp.all, tp.any, tp.argmax, tp.argmin, tp.mean])
def test_keepdims_is_a_bool(operator: Any, bad: Any) -> None:
    tp.plugins.changed()  # a plan that is there takes what its kernel takes
    with pytest.raises(ArgumentError, match="keepdims must be True or False"):
        operator(ones("float32"), axis=0, keepdims=bad)
