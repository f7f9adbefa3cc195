"""Records of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    special,
)
from tripoint.conformance.reference import elementwise as ref
from tripoint.conformance.reference.values import (
    BITS,
    COMPLEX,
    EPS,
    FLOATS,
    INEXACT,
    INTEGERS,
    KIND,
    NUMERIC,
    ORDERED,
    REAL,
    SIGNED,
    Array,
    promote,
)

_IMAGES = (1, 5, 2, 2)  # channels that fill no block
#: dtypes that meet in the promotion checks of every binary operator; `add` meets all pairs.
MEETING = (
    ("int8", "int16"), ("uint8", "int8"), ("uint32", "int32"), ("bool", "int8"), ("int32", "float32"), ("int64", "float16"),
    ("float16", "bfloat16"), ("float32", "float64"), ("float32", "complex64"), ("float64", "complex64"), ("uint8", "uint16"),
)  # fmt: skip


def _pairs(dtype: str) -> list[Sample]:
    if not is_float(dtype):
        return []
    a = (nan, 1.0, nan, inf, -inf, inf, 0.0, -0.0, 0.0, 1.5, -2.0, -1.0, 0.0, -0.0, -0.0, 1.0)
    b = (1.0, nan, nan, 1.0, inf, inf, 0.0, 1.0, -1.5, 0.0, 0.0, inf, -0.0, 0.0, -0.0, -0.0)
    vanishing = Sample(given(dtype, inf, 0.0, nan, -0.0), given(dtype, 0.0, -inf, 0.0, nan))
    return [Sample(given(dtype, *a), given(dtype, *b)), vanishing, Sample(*small(dtype))]


def _far(dtype: str) -> list[Sample]:
    """Numbers whose sums and products leave the dtype."""
    high = {"float16": 2.0**15, "float64": 2.0**1023}.get(dtype, 2.0**127)
    return [Sample(given(dtype, high, -high), given(dtype, high, -high))] if is_float(dtype) else []


def _exact(dtype: str, scalars: tuple[Any, ...]) -> list[Sample]:
    """Operands that need every bit, also one unit apart; the ends of integers; a Python number that needs every bit."""
    x = full_width(dtype)
    if not x.data:
        return []
    unit = 1 if dtype in INTEGERS else EPS[dtype]
    near = given(dtype, *[v - unit for v in x.data])
    out = [Sample(x, given(dtype, *x.data[::-1])), Sample(x, near), Sample(near, x)]
    if dtype in INTEGERS:
        low, high = limits(dtype)
        out.append(Sample(given(dtype, low, high, low, low), given(dtype, high, high, 1, 2)))
        if dtype in SIGNED:
            out.append(Sample(given(dtype, low, high), given(dtype, -1, -1)))
    if scalars and dtype not in COMPLEX:
        out += [Sample(given(dtype, 1, 2, 3), x.data[0]), Sample(x.data[0], given(dtype, 1, 2, 3))]
    return out


#: for comparisons: numbers that integer dtypes hold, and such that lie beyond the elements of some.
_SIDES = (2, -1, 300)


def _binary(second: str = "any", first: str = "any", scalars: tuple[Any, ...] = (2,), fraction: bool = True) -> Samples:
    """Calls with two operands; the kinds of numbers are those of `numbers`."""

    def samples(dtype: str) -> list[Sample]:
        def x(*shape: int) -> Array:
            return numbers(dtype, *shape, seed=1, kind=first)

        def y(*shape: int) -> Array:
            return numbers(dtype, *shape, seed=2, kind=second)

        out = [
            Sample(x(2, 3), y(2, 3)),
            Sample(x(*_IMAGES), y(*_IMAGES)),
            Sample(x(2, 3), y(3)),
            Sample(x(3, 3), y(3)),
            Sample(x(2, 1), y(1, 3)),
            Sample(x(2, 3), y(2, 1)),
            Sample(x(2, 3, 2), y(2, 1, 2)),
            Sample(x(2, 1, 3, 1, 2), y(2, 1, 3, 1, 2)),
            Sample(x(), y(2)),
            Sample(x(), y()),
            Sample(x(0, 3), y(0, 3)),
            Sample(x(2, 0), y(1)),
            *_pairs(dtype),
            *_far(dtype),
            *_exact(dtype, scalars),
        ]
        if dtype in ("float32", "int32"):  # more than one turn of any loop
            out.append(Sample(x(1000), y(1000)))
        for number in scalars:
            if KIND[dtype] != "bool" or isinstance(number, bool):
                out += [Sample(x(2, 3), number), Sample(number, y(2, 2))]
        if fraction and scalars and second == "any" and dtype in REAL:
            out += [Sample(x(3), 1.5)]
            out += [Sample(x(3), number) for number in (nan, inf, -inf)]
        return out

    return samples


def _mixed(pairs: Any) -> Samples:
    return lambda dtype: [
        Sample(numbers(a, 3, seed=3, kind="positive"), numbers(b, 3, seed=4, kind="positive"))
        for a, b in pairs
        if dtype in (a, b)
    ]


def every_pair() -> list[tuple[str, str]]:
    """Every pair of plain dtypes that promote together, in both orders."""
    out = []
    for a in KIND:
        for b in KIND:
            try:
                promote(a, b)
            except LookupError:
                continue
            if a != b:
                out.append((a, b))
    return out


_ALL_PAIRS = every_pair()


def _meeting(dtypes: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in MEETING if promote(a, b) in dtypes]


def _together(name: str, samples: Samples, *, dtypes: tuple[str, ...], pairs: Any = None, **more: Any) -> Record:
    mixed = _mixed(_meeting(dtypes) if pairs is None else pairs)
    bad = more.pop("errors", list)

    def errors() -> list[Bad]:
        one = next(d for d in ("float32", "int32") if d in dtypes)
        return [Bad("ShapeError", numbers(one, 2), numbers(one, 3)), *bad()]

    return Record(
        name,
        getattr(ref, name),
        lambda dtype: [*samples(dtype), *mixed(dtype)],
        tier=more.pop("tier", 1),
        dtypes=dtypes,
        errors=errors,
        kind="elementwise",
        **more,
    )


def _smooth() -> Samples:
    return lambda dtype: [
        Sample(numbers(dtype, 2, 3, seed=5, kind="distinct"), numbers(dtype, 2, 3, seed=6, kind="distinct")),
        Sample(numbers(dtype, 2, 3, seed=5, kind="distinct"), numbers(dtype, 3, seed=6, kind="distinct")),
        Sample(numbers(dtype, *_IMAGES, seed=5, kind="distinct"), numbers(dtype, *_IMAGES, seed=6, kind="distinct")),
        Sample(numbers(dtype, 3, seed=5, kind="distinct"), 1.5),
        Sample(numbers(dtype, seed=5, kind="distinct"), numbers(dtype, seed=6, kind="distinct")),
    ]


def _tensors(dtype: str) -> list[Sample]:
    return [s for s in _smooth()(dtype) if not s.tags & {"scalar"}]


def _halves(dtype: str) -> list[tuple[Sample, list[Any]]]:
    x = given(dtype, 1.0, 2.0, 3.0)
    return [(Sample(x, given(dtype, 1.0, 2.0, 3.0)), [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])]


def _unsigned_pair() -> list[Bad]:
    return [
        Bad("DTypeError", numbers("uint64", 2), numbers("int64", 2)),
        Bad("ScalarRangeError", numbers("int8", 2), 1000, by_value=True),
        Bad("ScalarRangeError", numbers("uint8", 2), -1, by_value=True),
    ]


def _refused(*dtypes: str) -> Callable[[], list[Bad]]:
    return lambda: [Bad("DTypeError", numbers(d, 2), numbers(d, 2)) for d in dtypes]


def _shift(samples: Samples) -> Samples:
    """Second operands a quarter off, so that no two elements are equal."""

    def moved(dtype: str) -> list[Sample]:
        out = []
        for s in samples(dtype):
            x, y = s.operands
            if isinstance(y, Array):
                y = Array(y.dtype, y.shape, [v + 0.125 for v in y.data])
            out.append(Sample(x, y))
        return out

    return moved


def _quotients(dtype: str) -> list[Sample]:
    out = _binary("nonzero", scalars=(2, 1))(dtype)
    if dtype in COMPLEX:  # whose squares leave the dtype on the way to a quotient that does not
        top, bottom = 2.0**100, 2.0**-100
        x = given(dtype, top - top * 1j, bottom + bottom * 1j)
        out.append(Sample(x, given(dtype, top + top * 1j, bottom - 2j * bottom)))
    return out


def _divisors(dtype: str) -> list[Sample]:
    out = _binary("nonzero", scalars=(3,))(dtype)
    if dtype in INTEGERS:
        out.append(Sample(given(dtype, 5, 0, 7), given(dtype, 0, 0, 2)))
    if dtype in SIGNED:
        out.append(Sample(given(dtype, 7, -7, 7, -7), given(dtype, 3, 3, -3, -3)))
    if is_float(dtype):
        out.append(Sample(given(dtype, 7.5, -7.5, 7.5, -7.5), given(dtype, 2.0, 2.0, -2.0, -2.0)))
    return out


def _powers(dtype: str) -> list[Sample]:
    few = given(dtype, 0, 1, 2, 3, 2, 1)
    out = [Sample(numbers(dtype, 6, seed=7, kind="positive"), few)]
    out += [Sample(numbers(dtype, 2, 3, seed=8), number) for number in (2, 1)]
    out += [Sample(numbers(dtype, 1, 5, 2, 2, seed=8, kind="positive"), numbers(dtype, 1, 5, 2, 2, kind="positive"))]
    if dtype not in INTEGERS:
        out += [Sample(numbers(dtype, 4, kind="positive"), 0.5), Sample(2.0, numbers(dtype, 4))]
        out += [Sample(numbers(dtype, 0, 2), 3), Sample(numbers(dtype, 3, kind="positive"), -1)]
    if is_float(dtype):
        out += [Sample(given(dtype, 0.0, -2.0, nan, 1.0, inf, -8.0), given(dtype, 0.0, 3.0, 0.0, nan, -1.0, 0.5))]
    return out


def _negative_powers() -> list[Bad]:
    nothing = numbers("int32", 0)
    return [
        Bad("ArgumentError", numbers("int32", 2), -1, by_value=True),
        Bad("ArgumentError", nothing, given("int32", -1), by_value=True),
    ]


def _unary(kind: str = "any", edges: bool = True, own: tuple[complex, ...] = (), exact: bool = False) -> Samples:
    """Calls with one operand; ``exact`` where those of integers are integers; ``own`` numbers for floats and for complex."""

    def samples(dtype: str) -> list[Sample]:
        shapes = ((2, 3), _IMAGES, (), (0, 3), (2, 1, 3, 1, 2))
        out = [Sample(numbers(dtype, *shape, seed=9, kind=kind)) for shape in shapes]
        if dtype in INEXACT or exact:
            out.append(Sample(full_width(dtype, kind)))
        if dtype in INTEGERS and exact:
            out.append(Sample(given(dtype, *limits(dtype))))
        if dtype == "float32":
            out.append(Sample(numbers(dtype, 1000, seed=9, kind=kind)))
        if dtype in COMPLEX:  # on both sides of what is cut, and with one part that is no number
            out.append(Sample(given(dtype, -4.0, -1.5 - 2j, -1.5 + 2j, 2j, -2j)))
            out += [Sample(given(dtype, complex(nan, 1.0), complex(1.0, nan)))] if exact else []
        if is_float(dtype):
            out += [Sample(special(dtype))] if edges else []
            out += [Sample(a) for a in small(dtype)]
        mine = [v for v in own if dtype in (COMPLEX if isinstance(v, complex) else FLOATS)]
        return [*out, Sample(given(dtype, *mine))] if mine else out

    return samples


def _alone(name: str, samples: Samples, **more: Any) -> Record:
    return Record(name, getattr(ref, name), samples, tier=1, kind="elementwise", **more)


def _slopes(kind: str = "distinct") -> Samples:
    return lambda dtype: [Sample(numbers(dtype, *shape, seed=10, kind=kind)) for shape in ((2, 3), _IMAGES, ())]


def _mask(*shape: int) -> Array:
    return Array("bool", shape, numbers("bool", *shape, seed=11).data, "mask")


def _choices(dtype: str) -> list[Sample]:
    c = _mask
    x, y = numbers(dtype, 2, 3, seed=1), numbers(dtype, 2, 3, seed=2)
    out = [
        Sample(c(2, 3), x, y),
        Sample(c(3), x, numbers(dtype, 2, 1)),
        Sample(Array("bool", (2, 1), [True, False], "mask"), x, y),
        Sample(c(), numbers(dtype), numbers(dtype)),
        Sample(c(0, 3), numbers(dtype, 0, 3), numbers(dtype, 3)),
        Sample(c(1, 5, 2, 2), numbers(dtype, 1, 5, 2, 2, seed=1), numbers(dtype, 1, 5, 2, 2, seed=2)),
    ]
    if KIND[dtype] != "bool":
        wide = full_width(dtype)
        out += [Sample(c(3), numbers(dtype, 3), 0), Sample(c(3), 1, numbers(dtype, 3))]
        out += [
            Sample(c(4), wide, given(dtype, *wide.data[::-1])),
            Sample(c(1000), numbers(dtype, 1000), numbers(dtype)),
        ]
    if is_float(dtype):
        out.append(
            Sample(
                Array("bool", (3,), [True, False, True], "mask"),
                given(dtype, nan, nan, inf),
                given(dtype, 1.0, 2.0, nan),
            )
        )
        out += [Sample(c(3), numbers(dtype, 3), nan), Sample(c(3), -inf, numbers(dtype, 3))]
        out.append(Sample(c(6), *small(dtype)))
    return out


def _where_slopes(dtype: str) -> list[Sample]:
    images = [numbers(dtype, *_IMAGES, seed=s, kind="distinct") for s in (0, 1)]
    return [
        Sample(_mask(2, 3), numbers(dtype, 2, 3, kind="distinct"), numbers(dtype, 3, seed=1, kind="distinct")),
        Sample(_mask(*_IMAGES), *images),
    ]


def _clips(dtype: str) -> list[Sample]:
    x = numbers(dtype, 2, 3, seed=12)
    low, high = (1, 5) if KIND[dtype] in ("uint",) else (-2, 3)
    out = [Sample(x, min=low, max=high), Sample(x, min=low), Sample(x, max=high), Sample(x)]
    out.append(Sample(numbers(dtype, *_IMAGES, seed=12), min=low, max=high))
    return [*out, Sample(special(dtype), min=-1.0, max=1.0)] if is_float(dtype) else out


def _back(dtype: str) -> list[Sample]:
    g, x = numbers(dtype, 2, 3, seed=13), numbers(dtype, 2, 3, seed=14, kind="nonzero")
    out = [Sample(g, x), Sample(g, numbers(dtype, 3, seed=14, kind="nonzero"))]
    out.append(Sample(numbers(dtype, *_IMAGES, seed=13), numbers(dtype, *_IMAGES, seed=14, kind="nonzero")))
    if is_float(dtype):
        out.append(Sample(given(dtype, 0.0, 0.0, 0.0, 2.0), given(dtype, inf, nan, 0.0, 4.0)))
    return out


_TRANSCENDENTAL = 8
_INFINITE = complex(-inf, 1.0)

RECORDS = [
    _together(
        "add", _binary(scalars=(2, 0)), dtypes=("bool", *NUMERIC), ulps=1, pairs=_ALL_PAIRS, errors=_unsigned_pair,
        gradients=_smooth(), exact_zero=True,
    ),
    _together(
        "subtract", _binary(scalars=(2, 0)), dtypes=NUMERIC, ulps=1, errors=_refused("bool"), gradients=_smooth(),
        exact_zero=True,
    ),
    _together(
        "multiply", _binary(scalars=(2, 1)), dtypes=("bool", *NUMERIC), ulps=1, gradients=_smooth(), exact_zero=True
    ),
    _together("divide", _quotients, dtypes=("bool", *NUMERIC), ulps=2, gradients=_smooth(), exact_zero=True),
    _together("floor_divide", _divisors, dtypes=REAL, ulps=1, errors=_refused("bool", "complex64")),
    _together("remainder", _divisors, dtypes=REAL, ulps=1, errors=_refused("bool", "complex64")),
    _together(
        "pow",
        _powers,
        dtypes=NUMERIC,
        ulps=_TRANSCENDENTAL,
        errors=lambda: [*_refused("bool")(), *_negative_powers()],
        ties=lambda dtype: [
            (Sample(given(dtype, 0.0, 0.0, 2.0), given(dtype, 0.0, 2.0, 0.0)), [[0.0, 0.0, 0.0], [0.0, 0.0, math.log(2)]])
        ],
        gradients=lambda dtype: [
            Sample(numbers(dtype, 2, 3, kind="positive"), numbers(dtype, 3, seed=1, kind="positive")),
            Sample(numbers(dtype, 3, kind="distinct"), 3),
            Sample(numbers(dtype, *_IMAGES, kind="distinct"), 2),
        ],
    ),
    _together(
        "maximum",
        _binary(),
        dtypes=ORDERED,
        errors=_refused("complex64"),
        gradients=_shift(_smooth()),
        ties=_halves,
    ),
    _together(
        "minimum",
        _binary(),
        dtypes=ORDERED,
        errors=_refused("complex64"),
        gradients=_shift(_smooth()),
        ties=_halves,
    ),
    _together("equal", _binary(scalars=()), dtypes=("bool", *NUMERIC), tier=0),
    _together("not_equal", _binary(scalars=_SIDES), dtypes=("bool", *NUMERIC)),
    *[
        _together(name, _binary(scalars=_SIDES), dtypes=ORDERED, errors=_refused("complex64"))
        for name in ("less", "less_equal", "greater", "greater_equal")
    ],
    *[
        _together(name, _binary(scalars=(0, 2.5, 2**64)), dtypes=("bool", *NUMERIC))
        for name in ("logical_and", "logical_or", "logical_xor")
    ],
    *[
        _together(name, _binary(scalars=(6,), fraction=False), dtypes=BITS, errors=_refused("float32"))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    ],
    _alone("logical_not", _unary(exact=True)),
    _alone("bitwise_invert", _unary(exact=True), dtypes=BITS, errors=lambda: [Bad("DTypeError", numbers("float32", 2))]),
    _alone(
        "negative",
        _unary(exact=True),
        dtypes=NUMERIC,
        errors=lambda: [Bad("DTypeError", numbers("bool", 2))],
        gradients=_slopes(),
        exact_zero=True,
    ),
    _alone("positive", _unary(exact=True), gradients=_slopes(), needs=("copy",), exact_zero=True),
    _alone(
        "abs",
        _unary(exact=True, own=(2.0**100 * (3 + 4j), 2.0**-100 * (3 + 4j), _INFINITE)),
        dtypes=NUMERIC,
        ulps=2,
        gradients=_slopes(),
        ties=lambda dtype: [(Sample(given(dtype, 0.0, 1.5, -2.0)), [[0.0, 1.0, -1.0]])],
        exact_zero=True,
    ),
    _alone("sign", _unary(exact=True), dtypes=NUMERIC, ulps=4),
    _alone("square", _unary(exact=True), dtypes=NUMERIC, ulps=2, gradients=_slopes()),
    _alone("exp", _unary(own=(1e5, -1e5, -9.0, -20.0, -60.0)), ulps=_TRANSCENDENTAL, gradients=_slopes()),
    _alone(
        "log", _unary("positive", own=(1 + 2.0**-10, 1 - 2.0**-8, 1e-3, 1e4)), ulps=_TRANSCENDENTAL,
        gradients=_slopes("positive"), ties=lambda dtype: [(Sample(given(dtype, 0.0, 0.5)), [[inf, 2.0]])],
    ),
    _alone(
        "sqrt", _unary("positive"), ulps=2, gradients=_slopes("positive"), exact_zero=True,
        ties=lambda dtype: [(Sample(given(dtype, 0.0, 0.25)), [[inf, 1.0]])],
    ),
    _alone("tanh", _unary(own=(40.0, -40.0, 1e-3, -3e-4)), ulps=_TRANSCENDENTAL, gradients=_slopes(), exact_zero=True),
    _alone("sin", _unary(own=(100.0, -1000.0, 1e-3)), ulps=_TRANSCENDENTAL, gradients=_slopes(), exact_zero=True),
    _alone("cos", _unary(own=(100.0, -1000.0)), ulps=_TRANSCENDENTAL, gradients=_slopes()),
    _alone("isnan", _unary(exact=True, own=(_INFINITE,))),
    _alone("isfinite", _unary(exact=True, own=(_INFINITE, complex(0.0, -inf)))),
    _alone("isinf", _unary(exact=True, own=(_INFINITE, complex(0.0, -inf)))),
    Record(
        "where",
        ref.where,
        _choices,
        tier=1,
        errors=lambda: [
            Bad("DTypeError", numbers("int32", 2), numbers("float32", 2), numbers("float32", 2)),
            Bad("ShapeError", numbers("bool", 2), numbers("float32", 3), numbers("float32", 3)),
        ],
        gradients=_where_slopes,
        ties=lambda dtype: [
            (
                Sample(Array("bool", (2,), [True, False], "mask"), given(dtype, 1.0, nan), given(dtype, nan, 2.0)),
                [None, [1.0, 0.0], [0.0, 1.0]],
            )
        ],
        kind="elementwise",
    ),
    Record(
        "clip",
        ref.clip,
        _clips,
        tier=1,
        dtypes=REAL,
        needs=("maximum", "minimum"),
        gradients=lambda dtype: [Sample(numbers(dtype, *s, kind="distinct"), min=-0.6, max=0.7) for s in ((2, 3), _IMAGES)],
    ),
    Record(
        "multiply_back", ref.multiply_back, _back, tier=1, dtypes=NUMERIC, ulps=1, needs=("where", "equal", "multiply"),
        gradients=_tensors,
    ),
    Record(
        "divide_back", ref.divide_back, _back, tier=1, dtypes=("float16", "float32", "float64"), ulps=2,
        needs=("where", "equal", "divide"), gradients=_tensors,
    ),
]  # fmt: skip
