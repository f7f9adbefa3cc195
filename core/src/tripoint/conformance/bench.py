"""Times of the operators of a backend, made from the same records as the checks."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from tripoint.conformance.checks.values import program
from tripoint.conformance.records import RECORDS, Record, Sample, chosen, matches, unknown
from tripoint.conformance.script import Script
from tripoint.conformance.target import Target
from tripoint.errors import ArgumentError, TripointError

_ROUNDS = 5


def timed(target: Target, record: Record) -> tuple[str, str, float] | str:
    """dtype, call and seconds of the first sample that works, the best of several rounds; else why there is none."""
    reason = "no sample fits"
    for dtype in ("float32", *record.dtypes):
        if dtype not in target.dtypes or dtype not in record.dtypes:
            continue
        for sample in record.samples(dtype):
            if target.takes(sample):
                try:
                    script, _ = program(target, record.operator, sample, dtype, kind=record.kind)
                    script.run()
                except TripointError as error:
                    reason = (str(error).splitlines() or [type(error).__name__])[0]
                else:
                    return target.label(dtype), _shapes(sample), _best(script)
                break
    return reason


def _shapes(sample: Sample) -> str:
    return " ".join("x".join(map(str, a.shape)) or "()" for a in sample.arrays())


def _best(script: Script) -> float:
    names, last = script.names, script.lines[-1].removeprefix("out = ")
    code = compile(last, "<conformance>", "eval")
    times = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            count, seconds = 50, 0.0
            while seconds < 0.002:
                count *= 2
                start = perf_counter()
                for _ in range(count):
                    eval(code, names)
                seconds = perf_counter() - start
            times.append(seconds / count)
    finally:
        if enabled:
            gc.enable()
    return min(times)


def measured(backend: str, operators: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """What small calls cost on a backend, by operator: mostly what is paid per call, whatever the size; or why that is unknown.

    Raises:
        ArgumentError: an operator without a record.
    """
    target = Target(backend)
    records = {**RECORDS, **{r.operator: r for r in chosen(operators or ())}}
    for word in operators or ():
        if not any(matches(name, word) for name in records):
            raise ArgumentError(unknown(word, records))
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(n for word in operators or records for n in records if matches(n, word)):
        found = timed(target, records[name])
        if isinstance(found, tuple):
            dtype, shapes, seconds = found
            rows.append({"operator": name, "dtype": dtype, "shapes": shapes, "microseconds": round(seconds * 1e6, 2)})
        else:
            rows.append({"operator": name, "reason": found})
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """What was measured, for reading."""
    lines = [f"{'operator':20} {'dtype':10} {'shapes':24} microseconds"]
    for row in rows:
        if "reason" in row:
            lines.append(f"{row['operator']:20} {row['reason'][:90]}")
        else:
            lines.append(f"{row['operator']:20} {row['dtype']:10} {row['shapes']:24} {row['microseconds']:.2f}")
    return "\n".join(lines)


def bench(backend: str, operators: Sequence[str] | None = None) -> str:
    """A table of what small calls cost on a backend.

    Raises:
        ArgumentError: an operator without a record.
    """
    return table(measured(backend, operators))
