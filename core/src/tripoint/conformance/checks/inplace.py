"""Tier 2 of operators that write into their first operand."""

from __future__ import annotations

from typing import Any

from tripoint.conformance.checks.values import expected, judge, named, program, refused
from tripoint.conformance.records import RECORDS, Record, Sample
from tripoint.conformance.reference.values import COMPLEX, FLOATS, KIND, Array
from tripoint.conformance.script import Script, agree
from tripoint.conformance.target import Target
from tripoint.schema import rows

_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3, "complex": 4}


def functional(operator: str) -> Record:
    """The record of the operator that an in-place form is of."""
    return RECORDS[operator.removesuffix("_")]


def check_inplace(target: Target, operator: str, sample: Sample, dtype: str) -> None:
    """One call of an in-place form: the value, the dtype, and what aliases see.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    record = functional(operator)
    x1 = sample.operands[0]
    want = expected(record, sample, dtype)
    script, tensors = _written(target, operator, sample, dtype)
    if _RANK[KIND[want.dtype]] > _RANK[KIND[x1.dtype]] and record.operator != "assign":
        refused(target, script, "DTypeError", dtype, sample.tags)
        if target.said.elements:
            _same(script, x1, "changed x1 before it refused")
        return
    try:
        names = script.run()
    except Exception as error:
        raise judge(target, script, error, sample.tags, dtype, "a write into x1") from None
    if not target.said.elements:
        return
    out, wanted = names["x1"], want.astype(x1.dtype).nested()
    if names["out"] is not out:
        raise script.failure("does not give its first operand back", "out is x1", False, True)
    if str(out.dtype) != target.label(x1.dtype):
        raise script.failure("changed the dtype of its first operand", "str(x1.dtype)", str(out.dtype), x1.dtype)
    usual = target.tolerance(operator, dtype, sample.tags, record.tolerance(x1.dtype))
    if not agree(script.read("x1"), wanted, usual):
        raise script.failure("wrong elements", "x1.tolist()", script.read("x1"), wanted)
    alias = wanted if target.mutation else x1.nested()
    if not agree(script.read("alias"), alias, usual):
        said = "an alias does not see the write" if target.mutation else "changed a payload that aliases hold"
        raise script.failure(said, "alias.tolist()", script.read("alias"), alias)
    for name, array in tensors[1:]:
        if not agree(script.read(name), array.nested()):
            raise script.failure(f"changed its operand {name}", f"{name}.tolist()", script.read(name), array.nested())


def _written(target: Target, operator: str, sample: Sample, dtype: str) -> tuple[Script, list[tuple[str, Array]]]:
    """The program of a call, with an alias of the first operand, which is called ``x1``."""
    script, tensors = program(target, operator, sample, dtype)
    first, call = tensors[0][0], script.lines.pop()
    if first != "x1":
        script.lines = [line.replace(f"{first} = ", "x1 = ", 1) for line in script.lines]
        call = call.replace(f"({first}", "(x1", 1)
    return script.add("alias = x1.detach()", call), tensors


def _same(script: Script, x1: Array, what: str) -> None:
    have = script.read("x1")
    if not agree(have, x1.nested()):
        tried = ["try:", f"    {script.lines[-1]}", "except tp.errors.TripointError:", "    pass"]
        raise script.failure(what, "x1.tolist()", have, x1.nested(), tried)


def check_through_view(target: Target, operator: str, dtype: str) -> None:
    """A write through a view of part of a tensor, one through memory that overlaps, and one into read-only memory.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    record = functional(operator)
    label = target.label(dtype)
    x = Array(dtype, (2, 2), [5, 2, 7, 4])
    part, column = Array(dtype, (1, 2), [7, 4]), Array(dtype, (2, 1), [5, 7])
    two = Array(dtype, (), [2])
    script = Script(operator, label)
    script.add(f"x = {target.written(x)}", "part = x[1:]", f"out = {named(operator)}(part, {target.written(two)})")
    want: Any = [x.nested()[0], record.reference(part, two).astype(dtype).nested()[0]]
    _compare(target, script, record, dtype, want, "a write through a view is not seen in its base", {"view"})
    script = Script(operator, label).add(f"x = {target.written(x)}", f"out = {named(operator)}(x, x[:, :1])")
    want = record.reference(x, column).astype(dtype).nested()
    _compare(target, script, record, dtype, want, "an operand that overlaps was read after it was written", {"view"})
    small = Array(dtype, (2,), [5, 7])
    script = Script(operator, label).add(
        f"x = {target.written(small)}", f"out = {named(operator)}(tp.broadcast_to(x, (3, 2)), {target.written(two)})"
    )
    refused(target, script, "ReadOnlyError", dtype, {"view"})
    have = script.read("x")
    if not agree(have, small.nested()):
        raise script.failure("wrote into read-only memory", "x.tolist()", have, small.nested())


def _compare(target: Target, script: Script, record: Record, dtype: str, want: Any, what: str, tags: set[str]) -> None:
    try:
        script.run()
    except Exception as error:
        raise judge(target, script, error, tags, dtype, "a write") from None
    usual = target.tolerance(script.operator, dtype, tags, record.tolerance(dtype))
    if not agree(script.read("x"), want, usual):
        raise script.failure(what, "x.tolist()", script.read("x"), want)


def dtypes_of(target: Target, operator: str) -> list[str]:
    """Dtypes that an in-place form is tried with."""
    record = functional(operator)
    own = [d for d in record.dtypes if d in target.dtypes]
    usual = [d for d in own if d in ("int8", "int64", "bool", *FLOATS, *COMPLEX)]
    return usual or own


def fits(target: Target, record: Record, sample: Sample, dtype: str) -> bool:
    """Whether a sample of the operator is one of its in-place form: the first operand is a tensor of the result's shape."""
    first = sample.operands[0]
    return target.takes(sample) and isinstance(first, Array) and expected(record, sample, dtype).shape == first.shape


def closed(target: Target, record: Record) -> str | None:
    """A dtype in which the operator's result has the dtype of its operands, where writes through views can be tried."""
    if not (target.views and target.mutation and target.said.elements):
        return None
    for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "bool"):
        if dtype in target.dtypes and dtype in record.dtypes and target.said.ranks[0] <= 2:
            two = Array(dtype, (), [2])
            if len(rows[record.operator].operands) == 2 and record.reference(two, two).dtype == dtype:
                return dtype
    return None
