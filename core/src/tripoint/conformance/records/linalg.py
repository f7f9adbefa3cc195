"""Records of products of matrices."""

from __future__ import annotations

from tripoint.conformance.records.record import (
    Bad,
    Record,
    Sample,
    Samples,
    full_width,
    given,
    inf,
    is_float,
    nan,
    numbers,
)
from tripoint.conformance.reference import nn as ref
from tripoint.conformance.reference.values import NUMERIC, Array

_STACKS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 2, 3), (2, 3, 2)),
    ((2, 1, 2, 3), (2, 3, 1)),
    ((2, 1, 2, 3), (1, 2, 3, 2)),
    ((2, 2, 3), (3, 2)),
    ((3,), (2, 3, 2)),
    ((2, 1, 1, 2, 3), (3, 1, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((1, 2, 2, 3), (1, 2, 3, 2)),
)


def _turned(shape: tuple[int, ...], turn: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if turn else shape


def _products(first: bool = False, second: bool = False) -> Samples:
    """Operands for ``x1 @ x2``, of which one comes turned."""

    def samples(dtype: str) -> list[Sample]:
        stacks = [(a, b) for a, b in _STACKS if not (first or second) or min(len(a), len(b)) > 1]
        out = [
            Sample(numbers(dtype, *_turned(a, first), seed=70), numbers(dtype, *_turned(b, second), seed=71))
            for a, b in stacks
        ]
        if first or second:
            return out
        if dtype == "int8":
            out.append(Sample(Array(dtype, (1, 4), [100] * 4), Array(dtype, (4, 1), [100] * 4)))  # wraps around
        wide = full_width(dtype)
        out.append(Sample(wide, given(dtype, 1, 1, 1, 1)))
        out.append(Sample(Array(dtype, (2, 2), wide.data), Array(dtype, (2, 2), wide.data[::-1])))
        if dtype == "int64":
            out.append(Sample(given(dtype, 2**53, 1), given(dtype, 1, 1)))
        if dtype == "float32":  # more than one tile
            out.append(Sample(numbers(dtype, 9, 33, seed=70), numbers(dtype, 33, 10, seed=71)))
        if dtype in ("float16", "bfloat16"):
            out.append(Sample(Array(dtype, (4096,), [1.0] * 4096), Array(dtype, (4096,), [1.0] * 4096)))
        if is_float(dtype):
            out.append(Sample(Array(dtype, (2, 2), [nan, 1.0, inf, 2.0]), Array(dtype, (2, 1), [1.0, 3.0])))
            out.append(Sample(Array(dtype, (2, 2), [1.0, nan, 2.0, inf]), Array(dtype, (2, 1), [1.0, 0.0])))
            out.append(Sample(Array(dtype, (1, 2), [0.0, 1.0]), Array(dtype, (2, 2), [nan, inf, 1.0, 2.0])))
        return out

    return samples


def _slopes(first: bool = False, second: bool = False) -> Samples:
    def samples(dtype: str) -> list[Sample]:
        stacks = [
            (a, b) for a, b in _STACKS if 0 not in (*a, *b) and (not (first or second) or min(len(a), len(b)) > 1)
        ]
        return [
            Sample(
                numbers(dtype, *_turned(a, first), seed=72, kind="distinct"),
                numbers(dtype, *_turned(b, second), seed=73, kind="distinct"),
            )
            for a, b in stacks
        ]

    return samples


def _bad() -> list[Bad]:
    def x(*shape: int) -> Array:
        return numbers("float32", *shape)

    return [
        Bad("ShapeError", x(2, 3), x(2, 3)),
        Bad("ShapeError", x(), x(2)),
        Bad("ShapeError", x(2, 2, 3), x(3, 3, 2)),
        Bad("DTypeError", numbers("bool", 2, 2), numbers("bool", 2, 2)),
    ]


_SUMMED = 8

RECORDS = [
    Record("matmul", ref.matmul, _products(), tier=3, dtypes=NUMERIC, ulps=_SUMMED, errors=_bad, gradients=_slopes()),
    Record(
        "matmul_nt", ref.matmul_nt, _products(second=True), tier=3, dtypes=NUMERIC, ulps=_SUMMED,
        needs=("matmul", "matrix_transpose"), gradients=_slopes(second=True),
    ),
    Record(
        "matmul_tn", ref.matmul_tn, _products(first=True), tier=3, dtypes=NUMERIC, ulps=_SUMMED,
        needs=("matmul", "matrix_transpose"), gradients=_slopes(first=True),
    ),
]  # fmt: skip
