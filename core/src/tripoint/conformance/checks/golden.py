"""Tier 6: vectors that NumPy and SciPy computed once; they are what every backend agrees on."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tripoint.conformance.checks.values import expected, judge, program, refused, signed
from tripoint.conformance.records import RECORDS, Sample
from tripoint.conformance.reference.values import Array
from tripoint.conformance.script import Unsupported, agree
from tripoint.conformance.target import Target

_FILE = Path(__file__).parent.parent / "golden.json"


@cache
def vectors() -> dict[str, list[dict[str, Any]]]:
    """The vectors by operator."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in json.loads(_FILE.read_text(encoding="utf-8"))["vectors"]:
        found.setdefault(entry["operator"], []).append(entry)
    return found


def decoded(value: Any) -> Any:
    """A number as it is written in the file: floats by their shortest text or ``nan`` and ``inf``, complex ones as pairs."""
    if isinstance(value, str):
        return float(value)
    if isinstance(value, list):
        return complex(decoded(value[0]), decoded(value[1]))
    return value


def array(entry: dict[str, Any]) -> Array:
    """An array of the file."""
    return Array(entry["dtype"], tuple(entry["shape"]), map(decoded, entry["data"]), entry.get("role", "element"))


def operand(entry: Any) -> Any:
    """An operand of the file: an array, a list of arrays, a number or null."""
    if isinstance(entry, dict):
        return array(entry)
    if isinstance(entry, list):
        return [operand(e) for e in entry]
    return entry


def metadata(entry: dict[str, Any]) -> dict[str, Any]:
    """Metadata of the file: lists are tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}


def sample_of(entry: dict[str, Any]) -> Sample:
    """The call of a vector."""
    return Sample(*map(operand, entry["operands"]), **metadata(entry.get("meta", {})))


def fitted(target: Target, entry: dict[str, Any]) -> Sample:
    """The call of a vector as a backend takes it, with axes of size 1 added where its tensors have more."""
    sample, least = sample_of(entry), target.said.ranks[0]
    return RECORDS[entry["operator"]].lifted(sample, least) or sample if least else sample


def check_vector(target: Target, entry: dict[str, Any]) -> str | None:
    """One vector: the elements, the dtype and the shape, or the class of the error.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    operator, sample = entry["operator"], fitted(target, entry)
    dtype = next(a.dtype for a in sample.arrays())
    script, tensors = program(target, operator, sample, dtype)
    if "error" in entry:
        return refused(target, script, entry["error"], dtype, sample.tags)
    want, record = array(entry["want"]), RECORDS[operator]
    if target.said.ranks[0]:
        want = Array(want.dtype, expected(record, sample, dtype).shape, want.data)
    try:
        names = script.run()
    except Exception as error:
        raise judge(target, script, error, sample.tags, dtype, f"{want.dtype} {want.shape}", want) from None
    out = names["out"]
    if target.opaque and not signed(script, tensors):
        raise Unsupported("the dtype does not hold these numbers")
    if not target.opaque and (str(out.dtype), tuple(out.shape)) != (want.dtype, want.shape):
        have = (str(out.dtype), tuple(out.shape))
        raise script.failure("wrong dtype or shape", "str(out.dtype), out.shape", have, (want.dtype, want.shape))
    usual = entry.get("rtol", 0.0)
    tolerance = target.tolerance(operator, dtype, sample.tags, usual)
    least = record.least(want.dtype) if tolerance == usual else None
    zeros = entry.get("zeros", False) and target.layout == "strided" and target.opaque is None
    if not agree(script.read("out"), want.nested(), tolerance, zeros, least):
        if target.layout != "strided" and not signed(script, tensors):
            raise Unsupported("the layout does not keep the sign of zeros")
        raise script.failure(
            f"not the golden vector ({entry['about']})", "out.tolist()", script.read("out"), want.nested()
        )
    return None
