"""Records of going from one point to another, and out of the world of tensors."""

from __future__ import annotations

from typing import Any

from tripoint.conformance.records.record import (
    Bad,
    Record,
    Sample,
    full_width,
    given,
    inf,
    is_float,
    limits,
    nan,
    numbers,
    small,
    special,
)
from tripoint.conformance.reference import manipulation as ref
from tripoint.conformance.reference.values import COMPLEX, INTEGERS, KIND, SIZE, Array

_TARGETS = (
    "bool", "int8", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64", "complex64",
)  # fmt: skip


def _whole(dtype: str) -> list[Sample]:
    out = [Sample(numbers(dtype, *shape, seed=60)) for shape in ((2, 3), (), (0, 3), (1, 5, 2, 2))]
    out.append(Sample(numbers(dtype, 2, 1, 3, 1, 2, seed=60)))
    if dtype != "bool":
        out.append(Sample(full_width(dtype)))
    return [*out, Sample(special(dtype)), *map(Sample, small(dtype))] if is_float(dtype) else out


def _cast(dtype: str) -> list[Sample]:
    """To other dtypes, with numbers that those hold; integers wrap around, floats go toward 0 and halves to even."""
    out = []
    for target in (*_TARGETS, dtype):
        if dtype in COMPLEX and target not in COMPLEX and target != "bool":
            continue
        unsigned = KIND[target] == "uint" and KIND[dtype] != "uint"
        out.append(Sample(numbers(dtype, 2, 3, seed=61, kind="positive" if unsigned else "any"), dtype=target))
    out.append(Sample(numbers(dtype, 1, 5, 2, 2, seed=61), dtype="complex64" if dtype in COMPLEX else "float32"))
    if dtype in INTEGERS and SIZE[dtype] > 8:
        out.append(Sample(given(dtype, 300, 127, 128, 255), dtype="int8"))
        out.append(Sample(given(dtype, 300, 127, 128, 255), dtype="uint8"))
        out.append(Sample(given(dtype, 2049, 2051, 1, 0), dtype="float16"))
    if dtype == "int64":
        out.append(Sample(given(dtype, 2**24 + 1, 2**24 + 3, -(2**24) - 1), dtype="float32"))
    if KIND[dtype] == "uint":  # the upper half, where signed integers are negative
        top = limits(dtype)[1]
        out += [Sample(given(dtype, top, top - top // 4), dtype=wide) for wide in ("float32", "float64")]
    if dtype in INTEGERS:  # what float64 holds and float32 does not
        top = min(SIZE[dtype], 53) - (KIND[dtype] == "int")
        out.append(Sample(given(dtype, 2**top - 1, 2 ** (top - 1) + 1, 3), dtype="float64"))
    if dtype == "float64":
        out.append(Sample(given(dtype, 2.0**52 + 1, -(2.0**40) - 1, 2.0**24 + 1), dtype="int64"))
        out.append(Sample(given(dtype, 2.0**30 + 1, -(2.0**24) - 1), dtype="int32"))
        out.append(Sample(given(dtype, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11), dtype="float16"))  # no half, and a half
        out.append(Sample(given(dtype, 2.0**63, 1.5 * 2.0**63, 3.0), dtype="uint64"))
        out += [Sample(given(dtype, 2.0**-127, -(2.0**-140), 2.0**-151), dtype="float32")]
        out.append(Sample(full_width(dtype), dtype="complex128"))
    if dtype in ("float32", "float64"):
        out.append(Sample(given(dtype, 2.0**40, -(2.0**40) - 2.0**20), dtype="int64"))
        out.append(Sample(given(dtype, 2.0**-15, -(2.0**-20), 2.0**-26), dtype="float16"))
    if dtype in COMPLEX:
        out.append(Sample(given(dtype, 2j, 1.0, 0.0, complex(0.0, nan)), dtype="bool"))
    if is_float(dtype):
        out.append(Sample(given(dtype, 1.75, -1.75, 0.5, -0.5), dtype="int32"))
        out.append(Sample(given(dtype, nan, inf, 0.0, -0.0), dtype="bool"))
        out.append(Sample(special(dtype), dtype="float32"))
    if dtype in ("float32", "float64"):  # halfway between two numbers of the target, which go to the even one
        out.append(Sample(given(dtype, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2049.0, 2051.0, 1e6), dtype="float16"))
        out.append(Sample(given(dtype, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 257.0, 259.0), dtype="bfloat16"))
    return out


def _kept(x: Array, **meta: Any) -> Array:
    return Array(x.dtype, x.shape, x.data)


def _slopes(dtype: str) -> list[Sample]:
    return [Sample(numbers(dtype, 2, 3, kind="distinct")), Sample(numbers(dtype, 1, 5, 2, 2, kind="distinct"))]


def _imaginary() -> list[Bad]:
    return [Bad("DTypeError", numbers("complex64", 2), dtype="float32")]


RECORDS = [
    Record("to_list", _kept, _whole, tier=0, kind="export", exact_zero=True),
    Record("copy", _kept, _whole, tier=0, gradients=_slopes, exact_zero=True),
    Record(
        "to",
        lambda x, dtype=None, copy=None: x.astype(dtype or x.dtype),
        lambda dtype: [*_whole(dtype), Sample(numbers(dtype, 2, 3), copy=True)],
        tier=0,
        gradients=_slopes,
        kind="convert",
        exact_zero=True,
    ),
    Record("astype", ref.astype, _cast, tier=1, errors=_imaginary, exact_zero=True),
]
