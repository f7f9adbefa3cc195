"""Records of reductions."""

from __future__ import annotations

from typing import Any

from tripoint.conformance.records.record import (
    Bad,
    Record,
    Sample,
    Samples,
    full_width,
    given,
    inf,
    is_float,
    limits,
    nan,
    numbers,
    small,
)
from tripoint.conformance.reference import reductions as ref
from tripoint.conformance.reference.values import COMPLEX, INTEGERS, KIND, NUMERIC, ORDERED, SIZE, TINY, Array

#: axes of a (2, 3, 2) operand; one off by one is seen.
_AXES: tuple[dict[str, Any], ...] = (
    {}, {"axis": 0}, {"axis": 1}, {"axis": -1}, {"axis": (0, 2)}, {"axis": (), "keepdims": True}, {"axis": 1, "keepdims": True},
    {"axis": (0, 1)}, {"axis": (-1, 1)}, {"axis": (2, 0), "keepdims": True}, {"axis": (1, 2), "keepdims": True},
    {"axis": (1, 0), "keepdims": True}, {"axis": (2, 0, 1)},
)  # fmt: skip


def _reduced(kind: str = "any", empty: bool = True, several: bool = True, exact: bool = True) -> Samples:
    """Calls over axes; ``empty`` where nothing can be reduced to something, ``several`` where many axes are taken at once,
    ``exact`` where results for integers are.
    """

    def samples(dtype: str) -> list[Sample]:
        x = numbers(dtype, 2, 3, 2, seed=20, kind=kind)
        asked = [m for m in _AXES if several or not isinstance(m.get("axis"), tuple)]
        out = [Sample(x, **m) for m in asked]
        out += [Sample(numbers(dtype, seed=3, kind=kind)), Sample(numbers(dtype, 5, seed=21, kind=kind), axis=0)]
        out += [Sample(numbers(dtype, 1, 5, 2, 2, seed=22, kind=kind), axis=1)]
        out += [Sample(numbers(dtype, 1, 5, 2, 2, seed=22, kind=kind), keepdims=True)]
        out += [Sample(numbers(dtype, 2, 1, 3, 1, 2, seed=22, kind=kind), axis=2)]
        out += [Sample(numbers(dtype, 2, 0), axis=0)]
        if empty:
            out += [
                Sample(numbers(dtype, 0, 3), axis=0),
                Sample(numbers(dtype, 0)),
                Sample(numbers(dtype, 0, 3), axis=1),
            ]
        if is_float(dtype):
            out += [Sample(given(dtype, 1.0, nan, 2.0)), Sample(given(dtype, 1.0, inf, 2.0))]
            out += [Sample(given(dtype, *data)) for data in ((-inf, -inf), (inf, inf), (nan,), (0.0, nan))]
            out.append(Sample(Array(dtype, (2, 2), [-inf, -inf, inf, inf]), axis=1))
            out += [Sample(small(dtype)[0]), Sample(given(dtype, -TINY[dtype] / 2, -TINY[dtype] / 4))]
        if dtype in COMPLEX:
            out.append(Sample(given(dtype, 2j, -3j)))
        if KIND[dtype] != "bool" and (exact or dtype not in INTEGERS):
            out.append(Sample(full_width(dtype)))
        if dtype in INTEGERS and exact:  # one unit apart, and the ends
            half = 2 ** (SIZE[dtype] - 2)
            out += [Sample(given(dtype, half, half + 1, half)), Sample(given(dtype, *limits(dtype)))]
        if dtype == "float32":
            out.append(Sample(numbers(dtype, 1000, seed=20, kind="positive" if kind == "any" else kind)))
        return out

    return samples


def _sums(dtype: str) -> list[Sample]:
    out = _reduced()(dtype)
    if dtype == "int64":
        out += [Sample(given(dtype, 2**53, 1, 1)), Sample(given(dtype, 2**24, 1), axis=0)]
        out += [Sample(given(dtype, 2**62, 2**62, 5))]  # wraps around
    elif dtype == "int8":
        out += [Sample(given(dtype, 100, 100, 100))]
    elif dtype == "uint8":
        out += [Sample(given(dtype, 200, 200, 200))]
    if dtype in ("float16", "bfloat16"):  # which stop counting at 2048 and at 256
        out += [Sample(Array(dtype, (4096,), [1.0] * 4096))]
    if dtype == "float32":
        out += [Sample(numbers(dtype, 3), dtype="float64"), Sample(numbers(dtype, 2, 3), axis=1, dtype="float64")]
        out += [Sample(full_width(dtype), dtype="float64"), Sample(numbers(dtype, 257, 3, seed=20), axis=0)]
    if dtype == "int32":
        out += [Sample(numbers(dtype, 3), dtype="float32"), Sample(numbers(dtype, 3), dtype="int32")]
    return out


def _means(dtype: str) -> list[Sample]:
    out = _reduced(exact=False)(dtype)
    if dtype in INTEGERS and SIZE[dtype] == 64:  # whose sum does not fit in 64 bits
        most = limits(dtype)[-1]
        out += [Sample(given(dtype, most, most, most - 5)), Sample(given(dtype, most, most // 2 + 2, 1), axis=0)]
    return out


def _products(dtype: str) -> list[Sample]:
    kind = "any" if KIND[dtype] == "bool" else "nonzero"
    out = [s for s in _reduced(kind)(dtype) if all(len(a.data) < 1000 for a in s.arrays())]
    if dtype == "float32":  # many factors without an error that grows
        out.append(Sample(Array(dtype, (1000,), [4.0, -0.5, 1.0, -1.0, -0.5] * 200)))
    return out


def _slopes(dtype: str) -> list[Sample]:
    x = numbers(dtype, 2, 3, seed=23, kind="distinct")
    return [
        Sample(x),
        Sample(x, axis=1),
        Sample(x, axis=(0,), keepdims=True),
        Sample(numbers(dtype, 1, 5, 2, 2, seed=23, kind="distinct"), axis=1),
        Sample(numbers(dtype, seed=23, kind="distinct")),
    ]


def _nothing() -> list[Bad]:
    return [
        Bad("ShapeError", numbers("float32", 0, 3), axis=0),
        Bad("ShapeError", numbers("float32", 0)),
        Bad("ShapeError", numbers("float32", 0, 0), axis=0),
        *_axes(),
    ]


def _axes() -> list[Bad]:
    x = numbers("float32", 2, 3)
    return [Bad("ShapeError", x, axis=2), Bad("ShapeError", x, axis=-3), Bad("ArgumentError", x, axis=1.5)]


def _twice() -> list[Bad]:
    return [*_axes(), Bad("ShapeError", numbers("float32", 2, 3), axis=(0, 0))]


def _shared(dtype: str) -> list[tuple[Sample, list[Any]]]:
    return [
        (Sample(given(dtype, 3.0, 3.0, 3.0, 3.0)), [[0.25, 0.25, 0.25, 0.25]]),
        (Sample(given(dtype, 1.0, nan, 2.0)), [[0.0, 1.0, 0.0]]),
    ]


def _zeros(dtype: str) -> list[tuple[Sample, list[Any]]]:
    x = Array(dtype, (3, 3), [2, 0, 3, 0, 5, 0, 1, 2, 3])
    return [(Sample(x, axis=1), [[[0.0, 6.0, 0.0], [0.0, 0.0, 0.0], [6.0, 3.0, 2.0]]])]


def _first(dtype: str) -> list[Sample]:
    out = _reduced(empty=False, several=False)(dtype)
    out += [Sample(given(dtype, 2, 7, 7, 2, 2)), Sample(given(dtype, 1, 0, 0, 1))]
    if is_float(dtype):
        out += [Sample(given(dtype, 1.0, nan, 2.0, nan)), Sample(given(dtype, 0.0, -0.0))]
    return [s for s in out if s.meta.get("axis") != ()]


def _leading(dtype: str) -> list[Sample]:
    return [
        Sample(numbers(dtype, 2, 3, seed=24), shape=(3,)),
        Sample(numbers(dtype, 2, 3, seed=24), shape=()),
        Sample(numbers(dtype, 2, 1, 3, seed=24), shape=(1, 3)),
        Sample(numbers(dtype, 1, 5, 2, 2, seed=24), shape=(2, 2)),
        Sample(numbers(dtype, 0, 3), shape=(3,)),
    ]


_SUMMED = 4

RECORDS = [
    Record(
        "sum",
        ref.sum,
        _sums,
        tier=2,
        ulps=_SUMMED,
        errors=lambda: [*_twice(), Bad("DTypeError", numbers("complex64", 2), dtype="float32")],
        gradients=_slopes,
    ),
    Record(
        "sum_leading", ref.sum_leading, _leading, tier=2, dtypes=NUMERIC, ulps=_SUMMED, needs=("sum",),
    ),
    Record("prod", ref.prod, _products, tier=2, ulps=_SUMMED, errors=_twice, gradients=_slopes, ties=_zeros),
    Record("max", ref.max, _reduced(empty=False), tier=2, dtypes=ORDERED, errors=_nothing, gradients=_slopes, ties=_shared),
    Record("min", ref.min, _reduced(empty=False), tier=2, dtypes=ORDERED, errors=_nothing, gradients=_slopes, ties=_shared),
    Record("all", ref.all, _reduced(), tier=2, errors=_twice),
    Record("any", ref.any, _reduced(), tier=2, errors=_twice),
    Record("argmax", ref.argmax, _first, tier=2, dtypes=ORDERED, errors=_nothing),
    Record("argmin", ref.argmin, _first, tier=2, dtypes=ORDERED, errors=_nothing),
    Record(
        "mean", ref.mean, _means, tier=2, ulps=_SUMMED, errors=_twice, gradients=_slopes,
        needs=("sum", "divide"),
    ),
]  # fmt: skip
