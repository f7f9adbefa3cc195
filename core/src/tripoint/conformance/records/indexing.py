"""Records of reading and writing parts of a tensor."""

from __future__ import annotations

from typing import Any

from tripoint.conformance.records.record import Bad, Record, Sample, full_width, index, numbers
from tripoint.conformance.reference import manipulation as ref
from tripoint.conformance.reference.values import NUMERIC, Array

_s = slice

_KEYS: tuple[tuple[tuple[int, ...], Any], ...] = (
    ((4,), 1),
    ((4,), -1),
    ((4,), _s(1, 3)),
    ((4,), _s(None, None, -1)),
    ((5,), _s(4, None, -2)),
    ((8,), _s(None, None, 3)),
    ((8,), _s(6, None, -3)),
    ((2, 7), (_s(None), _s(1, None, 3))),
    ((5,), _s(-100, 3)),
    ((5,), _s(3, 1)),
    ((3, 4), (1, 2)),
    ((3, 4), (_s(None), _s(1, None, 2))),
    ((3, 4), (..., 0)),
    ((3, 4), (None, 2, _s(3, 0, -1))),
    ((2, 3, 2), (-1, ..., None)),
    ((), ()),
    ((2, 0), 1),
    ((1, 5, 2, 2), (_s(None), _s(1, 4))),
    ((2, 1, 3, 1, 2), (_s(None, None, -1), ..., 0, 1)),
)


def _read(dtype: str) -> list[Sample]:
    return [Sample(numbers(dtype, *shape, seed=40), key=key) for shape, key in _KEYS]


def _x(*shape: int) -> Array:
    return numbers("float32", *shape)


def _outside() -> list[Bad]:
    return [
        Bad("IndexingError", _x(3), key=3),
        Bad("IndexingError", _x(3), key=-4),
        Bad("IndexingError", _x(3), key=(0, 0)),
        Bad("IndexingError", _x(3), key=_s(None, None, 0)),
        Bad("IndexingError", _x(), key=(..., 0)),
    ]


def _scattered(dtype: str) -> list[Sample]:
    out = []
    for shape, key in _KEYS:
        read = ref.read_positions(shape, key)
        out.append(Sample(numbers(dtype, *read.shape, seed=41), shape=shape, key=bound(shape, key)))
    return out


def bound(shape: tuple[int, ...], key: Any) -> tuple[Any, ...]:
    """A key with one entry per axis, as the operators that put back what was read are given it."""
    items = list(key) if isinstance(key, tuple) else [key]
    missing = len(shape) - sum(1 for k in items if k is not None and k is not Ellipsis)
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    items[at : at + 1] = [_s(None)] * missing
    out: list[Any] = []
    axis = 0
    for k in items:
        if k is None:
            out.append(None)
            continue
        size, axis = shape[axis], axis + 1
        if isinstance(k, slice):
            span = range(size)[k]
            out.append(_s(span.start, span.stop if span.stop >= 0 else None, span.step) if span else _s(0, 0, 1))
        else:
            out.append(range(size)[k])
    return tuple(out)


def _taken(dtype: str) -> list[Sample]:
    x = numbers(dtype, 3, 4, seed=42)
    return [
        Sample(x, index(2, 0, 0), axis=0),
        Sample(x, index(-1, 1), axis=1),
        Sample(x, index(3, -4), axis=-1),
        Sample(x, index(0, 1, 2, 0, shape=(2, 2)), axis=0),
        Sample(x, index(1, shape=()), axis=0),
        Sample(x, index(shape=(0,)), axis=1),
        Sample(numbers(dtype, 1, 5, 2, 2), index(4, 0), axis=1),
        Sample(numbers(dtype, 2, 1, 3, 1, 2), index(2, 0), axis=2),
        Sample(numbers(dtype, 300), index(299, 128, -300, -1), axis=0),
        Sample(x, index(1, 2), axis=0),
        *([] if dtype == "bool" else [Sample(full_width(dtype), index(2, 0, 1), axis=0)]),
    ]


def _given_back(dtype: str) -> list[Sample]:
    return [
        Sample(numbers(dtype, 3, 4, seed=43), index(1, 0, 1), shape=(2, 4), axis=0),
        Sample(numbers(dtype, 2, 3, seed=43), index(-1, 0, -1), shape=(2, 4), axis=1),
        Sample(numbers(dtype, 2, 2, seed=43), index(0, 0), shape=(3, 2), axis=0),
        Sample(numbers(dtype, 0, 2), index(shape=(0,)), shape=(3, 2), axis=0),
        Sample(numbers(dtype, 1, 2, 2, 2, seed=43), index(4, 0), shape=(1, 5, 2, 2), axis=1),
    ]


def _beyond() -> list[Bad]:
    return [
        Bad("IndexingError", _x(3), index(3), axis=0, by_value=True),
        Bad("IndexingError", _x(3), index(-4), axis=0, by_value=True),
        Bad("ShapeError", _x(3), index(0), axis=1),
    ]


def _written(dtype: str) -> list[Sample]:
    x = numbers(dtype, 2, 3, seed=44)
    out = [
        Sample(x, numbers(dtype, 2, 3, seed=45)),
        Sample(x, numbers(dtype, 3, seed=45)),
        Sample(x, numbers(dtype, 1, 2, 3, seed=45)),
        Sample(numbers(dtype, 0, 3), numbers(dtype, 3)),
        Sample(numbers(dtype), numbers(dtype, seed=46)),
        Sample(numbers(dtype, 1, 5, 2, 2), numbers(dtype, 1, 5, 2, 2, seed=45)),
    ]
    if dtype == "bool":
        return out
    return [*out, Sample(x, 3), Sample(numbers(dtype, 4), full_width(dtype))]


RECORDS = [
    Record(
        "getitem",
        ref.getitem,
        _read,
        tier=2,
        errors=_outside,
        gradients=lambda dtype: [
            Sample(numbers(dtype, *shape, seed=47, kind="distinct"), key=key) for shape, key in _KEYS if 0 not in shape
        ],
        kind="view",
    ),
    Record("getitem_back", ref.getitem_back, _scattered, tier=2, needs=("getitem", "assign_", "zeros")),
    Record(
        "take",
        ref.take,
        _taken,
        tier=2,
        errors=_beyond,
        gradients=lambda dtype: [
            Sample(numbers(dtype, 3, 4, seed=48, kind="distinct"), index(1, 0, 1), axis=0),
            Sample(numbers(dtype, 3, 4, seed=48, kind="distinct"), index(-1, 2), axis=1),
            Sample(numbers(dtype, 1, 5, 2, 2, seed=48, kind="distinct"), index(4, 4), axis=1),
        ],
    ),
    Record("take_back", ref.take_back, _given_back, tier=2, dtypes=NUMERIC, ulps=4),
    Record(
        "assign",
        ref.assign,
        _written,
        tier=2,
        errors=lambda: [
            Bad("ShapeError", _x(2, 3), _x(2)),
            Bad("ScalarRangeError", numbers("int8", 2), 300, by_value=True),
            Bad("DTypeError", _x(2), numbers("complex64", 2)),
        ],
    ),
]
