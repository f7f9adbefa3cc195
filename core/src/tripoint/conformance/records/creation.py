"""Records of making tensors. The point of the result is named in the call."""

from __future__ import annotations

from typing import Any

from tripoint.conformance.records.record import Bad, Record, Sample, full_width, inf, is_float, limits, nan, numbers
from tripoint.conformance.reference import manipulation as ref
from tripoint.conformance.reference.values import ALL, INTEGERS, KIND, REAL, Array

_SHAPES: tuple[Any, ...] = ((2, 3), (), (0, 3), 4, (1, 5, 2, 2))


def _shapes(dtype: str) -> list[Sample]:
    return [Sample(shape=shape) for shape in _SHAPES]


def _bad_shapes() -> list[Bad]:
    return [
        Bad("ShapeError", shape=(-1,)),
        Bad("ArgumentError", shape=(1.5,)),
        Bad("SizeError", shape=(2**40, 2**40)),
    ]


def _constant(number: Any) -> Any:
    return lambda shape, dtype: ref.filled(number, shape, dtype)


def _filled(dtype: str) -> list[Sample]:
    value: Any = {"bool": True, "uint": 7, "int": -7, "float": -1.5, "complex": 1 - 2j}[KIND[dtype]]
    out = [Sample(shape=shape, fill_value=value) for shape in _SHAPES]
    if dtype in INTEGERS:
        out += [Sample(shape=(2,), fill_value=number) for number in limits(dtype)]
    if KIND[dtype] != "bool":
        out += [Sample(shape=(2,), fill_value=number) for number in full_width(dtype).data[:2]]
    if is_float(dtype):
        out += [Sample(shape=(2,), fill_value=number) for number in (nan, inf, -inf)]
    return out


def _ramps(dtype: str) -> list[Sample]:
    out = [Sample(start=0, step=1, count=5), Sample(start=3, step=2, count=3), Sample(start=0, step=1, count=0)]
    if KIND[dtype] != "uint":
        out.append(Sample(start=5, step=-2, count=4))
    if is_float(dtype):
        out.append(Sample(start=0.5, step=0.25, count=5))
        out.append(Sample(start=0, step=0.1, count=1000 if dtype in ("float32", "float64") else 10))
    if dtype == "int64":
        out.append(Sample(start=2**53 + 1, step=1, count=3))
    return out


def _data(dtype: str) -> list[Sample]:
    made = [numbers(dtype, *shape, seed=50) for shape in ((2, 3), (), (3,), (1, 5, 2, 2))]
    out = [Sample(data=a.nested(), copy=None) for a in made]
    out += [Sample(data=[], copy=None), Sample(data=[[], []], copy=None)]
    if dtype != "bool":
        out.append(Sample(data=full_width(dtype).nested(), copy=None))
    if dtype in INTEGERS:
        out.append(Sample(data=[*limits(dtype)], copy=None))
    if is_float(dtype):
        out.append(Sample(data=[nan, inf, -inf, 0.0, -0.0], copy=None))
    return out


def _like(number: Any) -> Any:
    return lambda x: ref.filled(number, x.shape, x.dtype)


def _shaped(dtype: str) -> list[Sample]:
    return [Sample(numbers(dtype, *shape)) for shape in ((2, 3), (), (0, 3), (1, 5, 2, 2))]


def _full_like(x: Array, fill_value: Any) -> Array:
    return ref.filled(fill_value, x.shape, x.dtype)


RECORDS = [
    Record("from_data", ref.from_data, _data, tier=0, kind="create", exact_zero=True),
    Record("empty", _constant(None), _shapes, tier=0, kind="create", errors=_bad_shapes),
    Record("zeros", _constant(0), _shapes, tier=0, kind="create", errors=_bad_shapes),
    Record("ones", _constant(1), _shapes, tier=0, kind="create", errors=_bad_shapes),
    Record(
        "full",
        lambda shape, fill_value, dtype: ref.filled(fill_value, shape, dtype),
        _filled,
        tier=0,
        kind="create",
        errors=lambda: [
            Bad("ScalarRangeError", shape=(2,), fill_value=300, dtype="int8", by_value=True),
            Bad("DTypeError", shape=(2,), fill_value=nan, dtype="int32", by_value=True),
            Bad("DTypeError", shape=(2,), fill_value=1j, dtype="float32", by_value=True),
        ],
    ),
    Record(
        "ramp",
        ref.ramp,
        _ramps,
        tier=0,
        dtypes=REAL,
        ulps=1,
        kind="create",
        errors=lambda: [Bad("ScalarRangeError", start=0, step=1, count=200, dtype="int8", by_value=True)],
    ),
    Record("zeros_like", _like(0), _shaped, tier=1, needs=("zeros",)),
    Record("ones_like", _like(1), _shaped, tier=1, needs=("ones",)),
    Record("empty_like", _like(None), _shaped, tier=1, needs=("empty",)),
    Record(
        "full_like",
        _full_like,
        lambda dtype: [Sample(numbers(dtype, *s), fill_value=1) for s in ((2, 3), (0, 2), (1, 5, 2, 2))],
        tier=1,
        needs=("full",),
        dtypes=ALL,
    ),
]
