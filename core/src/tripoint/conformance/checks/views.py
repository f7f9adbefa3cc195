"""Tier 2 of operators that return views: the view shares memory with its operand, and a write goes through."""

from __future__ import annotations

import math
from typing import Any

from tripoint.conformance.checks.values import judge, program, refused
from tripoint.conformance.records import Record, Sample
from tripoint.conformance.reference.values import SIZE, Array, cast
from tripoint.conformance.script import NO_PROOF, Script, Unsupported, agree
from tripoint.conformance.target import Target
from tripoint.errors import TripointError
from tripoint.schema import rows


def check_view(target: Target, record: Record, sample: Sample, dtype: str) -> str | None:
    """A result of an operator that aliases: what is written into it is seen in the operand, or, where the backend has no
    views, is not.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    (x,) = sample.operands
    copies = sample.meta.get("copy") is True or not target.views
    script, _ = program(target, record.operator, sample, dtype)
    if record.operator == "broadcast_to":
        within = target.ranked(len(sample.meta["shape"]))
        if within and target.views and target.mutation and math.prod(sample.meta["shape"]) > len(x.data):
            script.add(f'operators()["assign_"](out, {_other(dtype)!r})')
            refused(target, script, "ReadOnlyError", dtype, sample.tags)
        return NO_PROOF
    number = _other(dtype)
    script.add("shared = tp.shares_memory(out, x)", f'operators()["assign_"](out, {number!r})')
    try:
        names = script.run()
    except Exception as error:
        result = record.reference(*sample.operands, **sample.meta)
        raise judge(target, script, error, sample.tags, dtype, "a write into the result", result) from None
    have = script.read("x")
    if not target.mutation:
        copies = True
    else:
        # Where each element lies in x: the same operator on the row-major positions.
        numbered = Array("int64", x.shape, range(len(x.data)))
        covered = {*record.reference(numbered, **sample.meta).data}
        written = [cast(number, dtype) if i in covered else v for i, v in enumerate(x.data)]
        want = x.nested() if copies else Array(dtype, x.shape, written).nested()
        if not agree(have, want):
            said = "a write into a copy changed x" if copies else "a write into the view is not seen in x"
            raise script.failure(said, "x.tolist()", have, want)
        maybe = rows[record.operator].aliases == "maybe" and "copy" not in sample.meta
        shares = names["shared"]
        if 0 not in names["out"].shape and (shares is copies) and not (maybe and copies):
            raise script.failure("shares_memory is wrong", "shared", shares, not copies)
    if not agree(script.read("out"), Array(dtype, names["out"].shape, [number] * names["out"].size).nested()):
        raise script.failure("a write into the result is lost", "out.tolist()", script.read("out"), number)
    return None


def _other(dtype: str) -> Any:
    return True if dtype == "bool" else 7


def check_memory(target: Target, dtype: str) -> None:
    """What the backend describes: strides are in elements, sizes in bytes, and the elements lie in the storage.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    if target.opaque:
        raise Unsupported(f"how many bytes {target.opaque} takes is known to its backend alone")
    size = SIZE[dtype] // 8
    shape = (1,) * (target.said.ranks[0] - 2) + (2, 3)
    script = Script("memory", dtype).add(
        f"x = {target.written(Array(dtype, shape, range(6)))}",
        "reach = 1 + sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides))",
        f"out = x.storage().nbytes >= reach * {size} >= {6 * size}",
    )
    try:
        names = script.run()
    except TripointError:
        raise Unsupported("its backend describes no strides, or no storage") from None
    except Exception as error:
        raise script.raised(error, "strides and a storage, or an error of tripoint.errors") from None
    if names["out"] is not True:
        have, x = "x.strides, x.storage().nbytes", names["x"]
        want = "strides in elements, within so many bytes"
        raise script.failure("its elements do not lie in its storage", have, (x.strides, x.storage().nbytes), want)


def check_no_copy(target: Target, dtype: str) -> str:
    """``reshape(copy=False)`` of what cannot be viewed is refused, and ``copy=None`` copies it.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    x = target.written(Array(dtype, (2, 3), range(6)))
    script = Script("reshape", target.label(dtype))
    script.add(f"x = {x}", "out = tp.reshape(tp.matrix_transpose(x), (6,), copy=False)")
    return refused(target, script, "AliasError", dtype, {"view"})
