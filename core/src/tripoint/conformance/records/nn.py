"""Records of operators of neural networks."""

from __future__ import annotations

from typing import Any

from tripoint.conformance.records.record import (
    Bad,
    Record,
    Sample,
    Samples,
    full_width,
    given,
    index,
    inf,
    is_float,
    nan,
    numbers,
    special,
)
from tripoint.conformance.reference import nn as ref
from tripoint.conformance.reference.values import FLOATS, NUMERIC, REAL, Array

#: images, kernels and metadata of convolutions; every word of the metadata matters in one of them.
_CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 2, 3, 4), (3, 2, 2, 2), {}),
    ((2, 1, 4, 3), (2, 1, 2, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((1, 2, 4, 5), (2, 2, 2, 2), {"dilation": (2, 3)}),
    ((1, 4, 2, 3), (2, 2, 1, 2), {"groups": 2, "padding": 1}),
    ((1, 2, 4, 4), (2, 1, 2, 2), {"groups": 2, "stride": 2}),
    ((0, 2, 3, 3), (1, 2, 2, 2), {}),
)
_PLAIN = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


def _convolved(kind: str = "any") -> Samples:
    def samples(dtype: str) -> list[Sample]:
        out = []
        for x, w, meta in _CONVOLUTIONS:
            images, kernels = numbers(dtype, *x, seed=80, kind=kind), numbers(dtype, *w, seed=81, kind=kind)
            out.append(Sample(images, kernels, None, **meta))
            out.append(Sample(images, kernels, numbers(dtype, w[0], seed=82, kind=kind), **meta))
        if kind == "any":
            wide = full_width(dtype).data
            out.append(Sample(Array(dtype, (1, 1, 2, 2), wide), Array(dtype, (1, 1, 1, 1), wide[:1]), None))
        if dtype == "float32" and kind == "any":  # more channels than a block has
            out.append(Sample(numbers(dtype, 1, 17, 3, 3, seed=80), numbers(dtype, 18, 17, 2, 2, seed=81), None))
        return [s for s in out if kind == "any" or not s.tags & {"empty"}]

    return samples


def _grown(dtype: str, by_images: bool, kind: str = "any") -> list[Sample]:
    out = []
    for x, w, meta in _CONVOLUTIONS:
        full = {**_PLAIN, **meta}
        shape = ref.conv2d(numbers(dtype, *x), numbers(dtype, *w), None, **full).shape
        g = numbers(dtype, *shape, seed=83, kind=kind)
        if by_images:
            out.append(Sample(g, numbers(dtype, *w, seed=84, kind=kind), input_shape=x, **full))
        else:
            out.append(Sample(g, numbers(dtype, *x, seed=84, kind=kind), weight_shape=w, **full))
    return [s for s in out if kind == "any" or not s.tags & {"empty"}]


def _bad_convolutions() -> list[Bad]:
    def x(*shape: int) -> Array:
        return numbers("float32", *shape)

    return [
        Bad("ShapeError", x(1, 2, 3, 3), x(1, 3, 2, 2), None),
        Bad("ShapeError", x(1, 1, 2, 2), x(1, 1, 3, 3), None),
        Bad("ShapeError", x(2, 3, 3), x(1, 2, 2, 2), None),
        Bad("ShapeError", x(1, 1, 3, 3), x(1, 1, 2, 2), x(2)),
        Bad("ArgumentError", x(1, 1, 3, 3), x(1, 1, 2, 2), None, groups=0),
    ]


_POOLS: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 2, 4, 4), {"kernel_size": 2}),
    ((1, 1, 3, 4), {"kernel_size": (2, 2), "stride": (1, 2), "padding": (1, 0)}),
    ((1, 1, 3, 3), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((2, 5, 2, 3), {"kernel_size": (2, 1)}),
    ((0, 1, 2, 2), {"kernel_size": 2}),
)


def _pooled(kind: str = "any") -> Samples:
    def samples(dtype: str) -> list[Sample]:
        out = [Sample(numbers(dtype, *shape, seed=85, kind=kind), **meta) for shape, meta in _POOLS]
        if kind != "any":
            return [s for s in out if not s.tags & {"empty"}]
        out.append(Sample(Array(dtype, (1, 1, 2, 2), full_width(dtype).data), kernel_size=(1, 2)))
        if is_float(dtype):
            out.append(Sample(Array(dtype, (1, 1, 2, 4), [-inf] * 4 + [inf, inf, 1.0, nan]), kernel_size=(1, 2)))
            out.append(Sample(Array(dtype, (1, 1, 2, 2), [nan, 5.0, 1.0, 2.0]), kernel_size=2))
            out.append(Sample(Array(dtype, (1, 1, 2, 2), [-3.0, -4.0, -1.0, -2.0]), kernel_size=2, stride=1, padding=1))
        return out

    return samples


def _pool_back(result_first: bool) -> Samples:
    """The gradient and the tangent of max_pool2d, with ties in the windows."""

    def samples(dtype: str) -> list[Sample]:
        out = []
        for shape, meta in _POOLS:
            full = {"stride": None, "padding": 0, **meta}
            x = numbers(dtype, *shape, seed=86)
            small = ref.max_pool2d(x, **full).shape
            g = numbers(dtype, *(small if result_first else shape), seed=87)
            out.append(Sample(g, x, **full))
        return out

    return samples


def _normalised(dtype: str) -> list[Sample]:
    out = [
        Sample(numbers(dtype, 2, 3, seed=88)),
        Sample(numbers(dtype, 2, 3, seed=88), axis=0),
        Sample(numbers(dtype, 2, 3, 2, seed=88), axis=1),
        Sample(numbers(dtype, 1, 5, 2, 2, seed=88), axis=1),
        Sample(numbers(dtype, 0, 3)),
        Sample(numbers(dtype, 2, 0)),
    ]
    if is_float(dtype):
        out.append(Sample(given(dtype, 1000.0, 1000.0, -1000.0)))
        out.append(Sample(given(dtype, 0.5, -inf, 1.0)))
    return out


def _normal_slopes(dtype: str) -> list[Sample]:
    return [
        Sample(numbers(dtype, 2, 3, seed=89, kind="distinct")),
        Sample(numbers(dtype, 2, 3, seed=89, kind="distinct"), axis=0),
        Sample(numbers(dtype, 1, 5, 2, 2, seed=89, kind="distinct"), axis=1),
    ]


def _labelled(kind: str = "any") -> Samples:
    def samples(dtype: str) -> list[Sample]:
        x = numbers(dtype, 3, 4, seed=90, kind=kind)
        out = [Sample(x, index(0, 3, 1)), Sample(x, index(2, 2, 2))]
        return out if kind != "any" else [*out, Sample(numbers(dtype, 0, 4), index(shape=(0,)))]

    return samples


def _bad_labels() -> list[Bad]:
    x = numbers("float32", 2, 3)
    return [
        Bad("IndexingError", x, index(0, 3), by_value=True),
        Bad("IndexingError", x, index(-1, 0), by_value=True),
    ]


def _bad_losses() -> list[Bad]:
    return [*_bad_labels(), Bad("DTypeError", numbers("float32", 2, 3), numbers("float32", 2))]


def _affine(kind: str = "any") -> Samples:
    def samples(dtype: str) -> list[Sample]:
        w, b = numbers(dtype, 4, 3, seed=91, kind=kind), numbers(dtype, 4, seed=92, kind=kind)
        x = numbers(dtype, 2, 3, seed=93, kind=kind)
        return [Sample(x, w, b), Sample(x, w, None), Sample(numbers(dtype, 3, seed=93, kind=kind), w, b)]

    return samples


def _relu_samples(dtype: str) -> list[Sample]:
    out = [Sample(numbers(dtype, *shape, seed=94)) for shape in ((2, 3), (), (0, 3), (1, 5, 2, 2))]
    out.append(Sample(full_width(dtype)))
    return [*out, Sample(special(dtype))] if is_float(dtype) else out


def _relu_back_samples(dtype: str) -> list[Sample]:
    g, x = numbers(dtype, 2, 3, seed=95), numbers(dtype, 2, 3, seed=96)
    images = [numbers(dtype, 1, 5, 2, 2, seed=s) for s in (95, 96)]
    return [Sample(g, x), Sample(*images), Sample(given(dtype, 2.0, 3.0, 4.0), given(dtype, 0.0, nan, -0.0))]


_SUMMED, _TRANSCENDENTAL = 8, 8
_CONV: dict[str, Any] = {"tier": 3, "dtypes": NUMERIC, "ulps": _SUMMED}

RECORDS = [
    Record(
        "relu",
        ref.relu,
        _relu_samples,
        tier=3,
        dtypes=REAL,
        errors=lambda: [Bad("DTypeError", numbers("complex64", 2))],
        gradients=lambda dtype: [
            Sample(numbers(dtype, 2, 3, kind="distinct")),
            Sample(numbers(dtype, 1, 5, 2, 2, kind="distinct")),
        ],
        ties=lambda dtype: [(Sample(given(dtype, 0.0, 1.0, -1.0)), [[0.5, 1.0, 0.0]])],
        kind="elementwise",
    ),
    Record(
        "relu_back", ref.relu_back, _relu_back_samples, tier=3, dtypes=FLOATS, needs=("where", "equal", "less", "multiply")
    ),
    Record("conv2d", ref.conv2d, _convolved(), errors=_bad_convolutions, gradients=_convolved("distinct"), **_CONV),
    Record(
        "conv2d_input",
        ref.conv2d_input,
        lambda dtype: _grown(dtype, True),
        gradients=lambda dtype: _grown(dtype, True, "distinct"),
        **_CONV,
    ),
    Record(
        "conv2d_weight",
        ref.conv2d_weight,
        lambda dtype: _grown(dtype, False),
        gradients=lambda dtype: _grown(dtype, False, "distinct"),
        **_CONV,
    ),
    Record(
        "max_pool2d",
        ref.max_pool2d,
        _pooled(),
        tier=3,
        dtypes=REAL,
        errors=lambda: [
            Bad("ShapeError", numbers("float32", 2, 3), kernel_size=2),
            Bad("ShapeError", numbers("float32", 1, 1, 2, 2), kernel_size=3),
            Bad("ShapeError", numbers("float32", 1, 1, 4, 4), kernel_size=2, padding=2),
        ],
        gradients=_pooled("distinct"),
        ties=lambda dtype: [
            (Sample(Array(dtype, (1, 1, 2, 2), [2.0] * 4), kernel_size=2), [[[[[0.25, 0.25], [0.25, 0.25]]]]])
        ],
    ),
    Record("max_pool2d_input", ref.max_pool2d_input, _pool_back(True), tier=3, dtypes=FLOATS, ulps=_SUMMED),
    Record("max_pool2d_tangent", ref.max_pool2d_tangent, _pool_back(False), tier=3, dtypes=FLOATS, ulps=_SUMMED),
    Record(
        "softmax",
        ref.softmax,
        _normalised,
        tier=3,
        dtypes=("bool", *REAL),
        ulps=_TRANSCENDENTAL,
        gradients=_normal_slopes,
        errors=lambda: [Bad("ShapeError", numbers("float32", 2), axis=1)],
        needs=("max", "subtract", "exp", "sum", "divide"),
    ),
    Record(
        "log_softmax",
        ref.log_softmax,
        _normalised,
        tier=3,
        dtypes=("bool", *REAL),
        ulps=_TRANSCENDENTAL,
        gradients=_normal_slopes,
        errors=lambda: [Bad("ShapeError", numbers("float32", 2), axis=1)],
        needs=("max", "subtract", "exp", "sum", "log"),
    ),
    Record(
        "log_softmax_back",
        ref.log_softmax_back,
        lambda dtype: [
            Sample(numbers(dtype, *shape, seed=97), numbers(dtype, *shape, seed=98), axis=axis)
            for shape in ((2, 3), (1, 5, 2, 2))
            for axis in (0, 1)
        ],
        tier=3,
        dtypes=FLOATS,
        ulps=_TRANSCENDENTAL,
        needs=("subtract", "multiply", "exp", "sum"),
    ),
    Record(
        "pick", ref.pick, _labelled(), tier=3, errors=_bad_labels, gradients=_labelled("distinct"),
    ),
    Record(
        "pick_back",
        ref.pick_back,
        lambda dtype: [Sample(numbers(dtype, 3, seed=99), index(1, 0, 3), classes=4)],
        tier=3,
    ),
    Record(
        "nll_loss",
        ref.nll_loss,
        _labelled(),
        tier=3,
        dtypes=FLOATS,
        ulps=4,
        errors=_bad_losses,
        gradients=_labelled("distinct"),
        needs=("pick", "mean", "multiply"),
    ),
    Record(
        "nll_loss_back",
        ref.nll_loss_back,
        lambda dtype: [Sample(Array(dtype, (), [2.0]), index(1, 0, 1), shape=(3, 2))],
        tier=3,
        dtypes=FLOATS,
        ulps=4,
        needs=("divide", "broadcast_to", "pick_back"),
    ),
    Record(
        "cross_entropy",
        ref.cross_entropy,
        _labelled(),
        tier=3,
        dtypes=FLOATS,
        ulps=_TRANSCENDENTAL,
        errors=lambda: [*_bad_losses(), Bad("ShapeError", numbers("float32", 2, 3), index(0))],
        gradients=_labelled("distinct"),
        needs=("log_softmax", "nll_loss"),
    ),
    Record(
        "linear",
        ref.linear,
        _affine(),
        tier=3,
        dtypes=NUMERIC,
        ulps=_SUMMED,
        errors=lambda: [
            Bad("ShapeError", numbers("float32", 2, 3), numbers("float32", 4, 2), None),
            Bad("ShapeError", numbers("float32", 2, 3), numbers("float32", 4, 3), numbers("float32", 3)),
            Bad("ArgumentError", numbers("float32", 2, 3), numbers("float32", 3), None),
        ],
        gradients=_affine("distinct"),
        needs=("matmul", "matrix_transpose", "add"),
    ),
]  # fmt: skip
