"""Tier 2 of operators that write into their first operand."""

from __future__ import annotations

from collections.abc import Callable

from tripoint.conformance.checks.values import as_view, check_kept, close, expected, judge, named, program, refused
from tripoint.conformance.records import Record, Sample
from tripoint.conformance.records.record import numbers
from tripoint.conformance.reference import manipulation as ref
from tripoint.conformance.reference.values import COMPLEX, FLOATS, KIND, Array
from tripoint.conformance.script import NO_PROOF, Script, Unsupported, agree
from tripoint.conformance.target import Target
from tripoint.errors import DTypeError, LayoutError
from tripoint.schema import rows

_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3, "complex": 4}


def check_inplace(target: Target, record: Record, sample: Sample, dtype: str) -> str | None:
    """One call of an in-place form: the value, the dtype, and what aliases see.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    operator = f"{record.operator}_"
    x1 = sample.operands[0]
    want = expected(record, sample, dtype)
    script, tensors = _written(target, operator, sample, dtype)
    if _RANK[KIND[want.dtype]] > _RANK[KIND[x1.dtype]] and record.operator != "assign":
        refused(target, script, "DTypeError", dtype, sample.tags)
        if target.said.elements:
            _same(script, x1, "changed x1 before it refused")
        return NO_PROOF
    if not target.holds(want):
        return NO_PROOF
    try:
        names = script.run()
    except Exception as error:
        raise _moved(target, script, error, dtype, sample.tags) or judge(
            target, script, error, sample.tags, dtype, "a write into x1"
        ) from None
    if not target.said.elements:
        return None
    out, wanted = names["x1"], want.astype(x1.dtype)
    if names["out"] is not out:
        raise script.failure("does not give its first operand back", "out is x1", False, True)
    if str(out.dtype) != target.label(x1.dtype):
        raise script.failure("changed the dtype of its first operand", "str(x1.dtype)", str(out.dtype), x1.dtype)
    if not close(target, record, script, script.read("x1"), wanted, dtype, sample.tags):
        raise script.failure("wrong elements", "x1.tolist()", script.read("x1"), wanted.nested())
    seen = script.read("alias")
    if target.mutation and not close(target, record, script, seen, wanted, dtype, sample.tags):
        raise script.failure("an alias does not see the write", "alias.tolist()", seen, wanted.nested())
    if not target.mutation and not agree(seen, x1.nested()) and not agree(seen, was := script.before("alias")):
        raise script.failure("changed a payload that aliases hold", "alias.tolist()", seen, was)
    for name, array in tensors[1:]:
        check_kept(target, script, name, array, sample.tags)
    return None


def _moved(target: Target, script: Script, error: Exception, dtype: str, tags: set[str]) -> Unsupported | None:
    """What it means that payloads are never written, and what would be bound in place of one stands on another point."""
    lack = target.lack(script.operator, dtype, tags)
    if target.mutation or not isinstance(error, (DTypeError, LayoutError)):
        return None
    if lack is not None:
        return Unsupported(lack[1], lack[0])
    said = "payloads here are never written, and what would be bound in place of one stands on another point"
    return Unsupported(said) if target.said.lacks is None else None


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
    if not agree(have, x1.nested()) and not agree(have, was := script.before("x1")):
        tried = ["try:", f"    {script.lines[-1]}", "except tp.errors.TripointError:", "    pass"]
        raise script.failure(what, "x1.tolist()", have, was, tried)


def check_through_view(target: Target, record: Record, dtype: str) -> None:
    """A write through a view of part of a tensor, one through memory that overlaps, and one into read-only memory.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    operator, label = f"{record.operator}_", target.label(dtype)
    x = Array(dtype, (2, 2), [5, 2, 7, 4])
    part, column = Array(dtype, (1, 2), [7, 4]), Array(dtype, (2, 1), [5, 7])
    two = Array(dtype, (), [2])
    script = Script(operator, label)
    script.add(f"x = {target.written(x)}", "part = x[1:]", f"out = {named(operator)}(part, {target.written(two)})")
    want = Array(dtype, (2, 2), [5, 2, *record.reference(part, two).data])
    _compare(target, script, record, dtype, want, "a write through a view is not seen in its base", {"view"})
    script = Script(operator, label).add(f"x = {target.written(x)}", f"out = {named(operator)}(x, x[:, :1])")
    want = record.reference(x, column).astype(dtype)
    _compare(target, script, record, dtype, want, "an operand that overlaps was read after it was written", {"view"})
    line = Array(dtype, (4,), [5, 2, 7, 4])
    script = Script(operator, label).add(f"x = {target.written(line)}", f"out = {named(operator)}(x[1:], x[:-1])")
    moved = record.reference(Array(dtype, (3,), [2, 7, 4]), Array(dtype, (3,), [5, 2, 7])).astype(dtype)
    want = Array(dtype, (4,), [5, *moved.data])
    _compare(target, script, record, dtype, want, "an operand that overlaps was read after it was written", {"view"})
    small = Array(dtype, (2,), [5, 7])
    script = Script(operator, label).add(
        f"x = {target.written(small)}", f"out = {named(operator)}(tp.broadcast_to(x, (3, 2)), {target.written(two)})"
    )
    refused(target, script, "ReadOnlyError", dtype, {"view"})
    have = script.read("x")
    if not agree(have, small.nested()):
        raise script.failure("wrote into read-only memory", "x.tolist()", have, small.nested())


def check_into_view(target: Target, record: Record, dtype: str, view: str, form: str) -> None:
    """A write into a view, of a tensor that may be a view itself: every element lands where the view has it.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    x, numbered = numbers(dtype, 4, 3, seed=49, kind="positive"), Array("int64", (4, 3), range(12))
    part, places = _VIEWS[view](x), _VIEWS[view](numbered)
    others = [numbers(dtype, *part.shape, seed=50, kind="positive")] * (len(rows[record.operator].operands) - 1)
    script = Script(f"{record.operator}_", target.label(dtype)).add(f"x = {target.written(x)}", f"part = {view}")
    script.add(*[f"other = {as_view(target, other, form)}" for other in others])
    script.add(f"out = {named(script.operator)}({', '.join(['part', *['other'] * len(others)])})")
    made = record.reference(part, *others).astype(dtype)
    written = dict(zip(places.data, made.data, strict=True))
    want = Array(dtype, x.shape, [written.get(i, v) for i, v in enumerate(x.data)])
    _compare(target, script, record, dtype, want, "wrong elements behind a view", {"view"})


_VIEWS: dict[str, Callable[[Array], Array]] = {
    "x[::2]": lambda x: ref.getitem(x, slice(None, None, 2)),
    "x[:, 1:]": lambda x: ref.getitem(x, (slice(None), slice(1, None))),
    "x[:, ::2]": lambda x: ref.getitem(x, (slice(None), slice(None, None, 2))),
    "tp.matrix_transpose(x)": ref.matrix_transpose,
    "tp.flip(x)": ref.flip,
}


def into_views(record: Record) -> list[tuple[str, str]]:
    """The views to write into, each with the way that the other operand is made."""
    forms = ("", "turned") if len(rows[record.operator].operands) == 2 else ("",)
    return [(view, form) for view in _VIEWS for form in forms]


def _compare(
    target: Target, script: Script, record: Record, dtype: str, want: Array, what: str, tags: set[str]
) -> None:
    try:
        script.run()
    except Exception as error:
        raise judge(target, script, error, tags, dtype, "a write") from None
    if not close(target, record, script, script.read("x"), want, dtype, tags):
        raise script.failure(what, "x.tolist()", script.read("x"), want.nested())


def dtypes_of(target: Target, record: Record) -> list[str]:
    """Dtypes that an in-place form is tried with."""
    own = [d for d in record.dtypes if d in target.dtypes]
    usual = [d for d in own if d in ("int8", "int64", "bool", *FLOATS, *COMPLEX)]
    return usual or own


def fits(record: Record, sample: Sample, dtype: str) -> bool:
    """Whether a sample of the operator is one of its in-place form: the first operand is a tensor of the result's shape."""
    first = sample.operands[0]
    return isinstance(first, Array) and expected(record, sample, dtype).shape == first.shape


def closed(target: Target, record: Record) -> str | None:
    """A dtype in which the operator's result has the dtype of its operands, where writes into views can be tried."""
    if not (target.views and target.mutation and target.said.elements):
        return None
    for dtype in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "bool"):
        if dtype in target.dtypes and dtype in record.dtypes and target.ranked(2):
            two = [Array(dtype, (), [2])] * len(rows[record.operator].operands)
            if record.reference(*two).dtype == dtype:
                return dtype
    return None
