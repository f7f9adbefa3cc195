"""Records of operators that change shapes, most of them views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint.conformance.records.record import Bad, Record, Sample, Samples, full_width, numbers
from tripoint.conformance.reference import manipulation as ref
from tripoint.conformance.reference.values import Array


def calls(*asked: tuple[tuple[int, ...], dict[str, Any]]) -> Samples:
    """One call for each shape with its metadata."""
    return lambda dtype: [Sample(numbers(dtype, *shape, seed=30), **meta) for shape, meta in asked]


def _view(name: str, *asked: tuple[tuple[int, ...], dict[str, Any]], errors: Callable[[], list[Bad]] = list) -> Record:
    def slopes(dtype: str) -> list[Sample]:
        return [Sample(numbers(dtype, *s, seed=31, kind="distinct"), **m) for s, m in asked if 0 not in s]

    return Record(name, getattr(ref, name), calls(*asked), tier=2, errors=errors, gradients=slopes, kind="view")


def _x(*shape: int) -> Array:
    return numbers("float32", *shape)


_IMAGES = (1, 5, 2, 2)
_FIVE = (2, 1, 3, 1, 2)


def _joined(dtype: str) -> list[Sample]:
    def x(*shape: int, seed: int = 32) -> Array:
        return numbers(dtype, *shape, seed=seed)

    out = [
        Sample([x(2, 3), x(1, 3, seed=33)]),
        Sample([x(2, 3), x(2, 2, seed=33)], axis=1),
        Sample([x(2, 3), x(2, 3, seed=33), x(2, 3, seed=34)], axis=-1),
        Sample([x(2, 3)]),
        Sample([x(0, 3), x(2, 3)]),
        Sample([x(*_IMAGES), x(*_IMAGES, seed=33)], axis=1),
        Sample([x(0, 3), x(0, 2)], axis=1),
        Sample([x(2, seed=s) for s in range(32, 39)]),
        Sample([x(*_FIVE), x(*_FIVE, seed=33)], axis=2),
    ]
    if dtype != "bool":
        out.append(Sample([full_width(dtype), full_width(dtype)]))
    if dtype == "int16":
        out += [Sample([x(2), numbers("int8", 2)]), Sample([x(2), numbers("float32", 2)])]
    return out


def _join_slopes(dtype: str) -> list[Sample]:
    one, two = numbers(dtype, 2, 3, kind="distinct"), numbers(dtype, 2, 1, kind="distinct")
    images = [numbers(dtype, *_IMAGES, seed=s, kind="distinct") for s in (0, 1)]
    return [Sample([one, two], axis=1), Sample(images, axis=1)]


def _stacked(dtype: str) -> list[Sample]:
    x, y = numbers(dtype, 2, 3, seed=35), numbers(dtype, 2, 3, seed=36)
    return [
        Sample([x, y]),
        Sample([x, y], axis=1),
        Sample([x, y], axis=-1),
        Sample([numbers(dtype), numbers(dtype)]),
        Sample([numbers(dtype, *_IMAGES, seed=s) for s in (35, 36)], axis=1),
    ]


RECORDS = [
    _view(
        "reshape",
        ((2, 3), {"shape": (3, 2)}),
        ((2, 3), {"shape": (6,)}),
        ((2, 3), {"shape": (-1, 2)}),
        ((2, 3), {"shape": (2, 3, 1)}),
        ((), {"shape": (1, 1)}),
        ((1,), {"shape": ()}),
        ((0, 3), {"shape": (3, 0)}),
        ((2, 3), {"shape": (6,), "copy": True}),
        (_IMAGES, {"shape": (1, 5, 4, 1)}),
        (_FIVE, {"shape": (3, 1, 2, 1, 2)}),
        errors=lambda: [
            Bad("ShapeError", _x(2, 3), shape=(4,)),
            Bad("ShapeError", _x(2, 3), shape=(-1, 4)),
            Bad("ArgumentError", _x(2, 3), shape=(1.5, 4)),
        ],
    ),
    _view(
        "permute_dims",
        ((2, 3), {"axes": (1, 0)}),
        ((2, 3, 4), {"axes": (2, 0, 1)}),
        ((2, 3, 4), {"axes": (-1, 1, 0)}),
        ((), {"axes": ()}),
        ((0, 3), {"axes": (1, 0)}),
        (_IMAGES, {"axes": (0, 1, 3, 2)}),
        (_FIVE, {"axes": (4, 1, 0, 3, 2)}),
        errors=lambda: [Bad("ShapeError", _x(2, 3), axes=(0, 0)), Bad("ShapeError", _x(2, 3), axes=(0, 1, 2))],
    ),
    _view(
        "matrix_transpose", ((2, 3), {}), ((2, 3, 4), {}), ((0, 3), {}), (_IMAGES, {}),
        errors=lambda: [Bad("ShapeError", _x(3))],
    ),
    _view(
        "expand_dims",
        ((2, 3), {"axis": 0}),
        ((2, 3), {"axis": 1}),
        ((2, 3), {"axis": -1}),
        ((2,), {"axis": (0, 2)}),
        ((), {"axis": 0}),
        (_IMAGES, {"axis": 2}),
        (_FIVE, {"axis": 3}),
        errors=lambda: [Bad("ShapeError", _x(2), axis=3)],
    ),
    _view(
        "squeeze",
        ((1, 3), {"axis": 0}),
        ((2, 1, 3, 1), {"axis": (1, 3)}),
        ((2, 1), {"axis": -1}),
        ((0, 1), {"axis": 1}),
        (_FIVE, {"axis": (3, 1)}),
        errors=lambda: [Bad("ShapeError", _x(2, 3), axis=0)],
    ),
    _view(
        "broadcast_to",
        ((3,), {"shape": (2, 3)}),
        ((2, 1), {"shape": (2, 4)}),
        ((), {"shape": (2, 2)}),
        ((1, 3), {"shape": (0, 3)}),
        ((1, 1, 2, 2), {"shape": (1, 3, 2, 2)}),
        ((2, 3), {"shape": (2, 3)}),
        ((3, 1, 2), {"shape": (2, 1, 3, 2, 2)}),
        errors=lambda: [Bad("ShapeError", _x(3), shape=(2,)), Bad("ShapeError", _x(2, 3), shape=(3,))],
    ),
    _view(
        "flip",
        ((2, 3), {}),
        ((2, 3), {"axis": 0}),
        ((2, 3), {"axis": -1}),
        ((2, 3, 2), {"axis": (0, 2)}),
        ((0, 3), {}),
        (_IMAGES, {"axis": 1}),
        (_FIVE, {"axis": (2, 4)}),
        errors=lambda: [Bad("ShapeError", _x(2), axis=1)],
    ),
    Record(
        "flatten",
        ref.flatten,
        calls(
            ((2, 3), {}), ((2, 3, 2), {"start": 1}), ((2, 3, 2), {"stop": 1}), ((), {}), ((2, 0), {}), (_IMAGES, {"start": 2}),
        ),
        tier=2,
        errors=lambda: [Bad("ShapeError", _x(2, 3), start=1, stop=0), Bad("ShapeError", _x(2), start=2)],
        needs=("reshape",),
        kind="alias",
    ),
    Record(
        "concat",
        ref.concat,
        _joined,
        tier=2,
        errors=lambda: [
            Bad("ShapeError", [_x(2, 3), _x(2, 2)]),
            Bad("ShapeError", [_x(2, 3), _x(3)]),
            Bad("ShapeError", [_x(2), _x(2)], axis=1),
        ],
        gradients=_join_slopes,
    ),
    Record(
        "stack",
        ref.stack,
        _stacked,
        tier=2,
        errors=lambda: [Bad("ShapeError", [_x(2), _x(3)])],
        needs=("concat", "expand_dims"),
    ),
]  # fmt: skip
