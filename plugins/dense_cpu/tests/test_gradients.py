"""Every derivative against finite differences, first and second order, and what the engine promises around them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tripoint as tp
from tripoint import kernels, nn, rules
from tripoint.errors import ArgumentError, AutogradError, NotBuiltYetError, ShapeError
from tripoint.plugin import Pattern, Registry, Tensor, composite, derivative, minimal, primitive
from tripoint.schema import rows


def rng(seed=0):
    return np.random.default_rng(seed)


def away(shape, seed=0, low=0.3, high=2.0):
    """Numbers of both signs, none near 0, no two near each other."""
    n = int(np.prod(shape))
    values = np.linspace(low, high, n) * np.where(np.arange(n) % 2, 1, -1)
    return rng(seed).permutation(values).reshape(shape)


def positive(shape, seed=0):
    return abs(away(shape, seed))


def op(name):
    return rows[name].call


_POOL = {"kernel_size": (2, 2), "stride": (1, 2), "padding": (1, 0)}
_CONV = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
_FULL = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
KEY = (slice(None, None, -2), None, slice(2, 0, -1))
BOUND = rows["getitem"].bind(((4, 3),), KEY)[0]
MASK = tp.asarray([[True, False, True], [False, False, True]])
LABELS = tp.asarray([2, 0, 1, 1])
WHERE = tp.asarray([[0, 2], [2, -1]])


def from_view(x):
    y = x * 1.0
    y[1:] = x[1:] * y[:-1].copy()
    return y


# name: (function of tensors, arrays) pairs; every derivative of the core has at least one.
CASES = {
    "add": [(op("add"), away((2, 3)), away((3,), 1)), (lambda x: 2.5 + x, away((2,))), (lambda x: x + x, away((2,)))],
    "subtract": [(op("subtract"), away((2, 1)), away((1, 3), 1)), (lambda x: 2.5 - x, away((2,)))],
    "multiply": [(op("multiply"), away((2, 3)), away((), 1)), (lambda x: x * 2.5, away((2,))), (lambda x: x * x, away((3,)))],
    "divide": [
        (op("divide"), away((2, 3)), away((3,), 1)),
        (lambda x: 2.0 / x, away((3,))),
        (lambda x: x / 4, away((3,))),
        (lambda x: x / x, away((3,))),
    ],
    "floor_divide": [(lambda a, b: op("floor_divide")(a, b) + a * b, away((3,)), away((3,), 1))],
    "remainder": [
        (op("remainder"), away((2, 3)), away((3,), 1, 0.37, 0.71)),
        (lambda x: 5.0 % x, away((3,))),
        (lambda x: x % 0.7, away((4,))),
    ],
    "pow": [
        (op("pow"), positive((2, 3)), away((3,), 1)),
        (lambda x: x**3, away((3,))),
        (lambda x: x**2, away((3,))),
        (lambda x: x**1, away((3,))),
        (lambda x: x**-2, away((3,))),
        (lambda x: x**0.5, positive((3,))),
        (lambda x: 2.0**x, away((3,))),
        (lambda x: op("pow")(x, tp.asarray([0, 1, 2, 3])), away((4,))),
        (lambda x: op("pow")(tp.asarray([1, 2, 3]), x), away((3,))),
    ],
    "maximum": [(op("maximum"), away((2, 3)), away((3,), 1) + 0.01), (lambda x: tp.maximum(x, 0.5), away((4,)))],
    "minimum": [(op("minimum"), away((2, 3)), away((3,), 1) + 0.01), (lambda x: tp.minimum(0.5, x), away((4,)))],
    "negative": [(op("negative"), away((3,)))],
    "abs": [(op("abs"), away((2, 3)))],
    "sign": [(lambda x: tp.sign(x) * x, away((3,)))],
    "square": [(op("square"), away((3,)))],
    "exp": [(op("exp"), away((2, 3))), (op("exp"), away(()))],
    "log": [(op("log"), positive((3,)))],
    "sqrt": [(op("sqrt"), positive((3,)))],
    "tanh": [(op("tanh"), away((3,)))],
    "sin": [(op("sin"), away((3,)))],
    "cos": [(op("cos"), away((3,)))],
    "multiply_back": [(op("multiply_back"), away((2, 3)), away((3,), 1))],
    "divide_back": [(op("divide_back"), away((2, 3)), away((3,), 1))],
    "where": [
        (lambda a, b: tp.where(MASK, a, b), away((2, 3)), away((3,), 1)),
        (lambda a: tp.where(MASK, a, 0.0), away(())),
        (lambda b: tp.where(MASK, 1, b), away((2, 1))),
    ],
    "clip": [(lambda x: tp.clip(x, -0.9, 0.8), away((6,)))],
    "positive": [(op("positive"), away((3,)))],
    "sum": [
        (tp.sum, away((2, 3))),
        (lambda x: tp.sum(x, axis=1), away((2, 3))),
        (lambda x: tp.sum(x, axis=(0, -1), keepdims=True), away((2, 3, 2))),
        (lambda x: tp.sum(x, axis=()), away((2,))),
        (tp.sum, away(())),
        (lambda x: tp.sum(x, axis=0), away((2, 0))),
    ],
    "sum_leading": [(lambda x: op("sum_leading")(x, shape=(3,)), away((2, 3)))],
    "prod": [
        (tp.prod, away((5,))),
        (lambda x: tp.prod(x, axis=1), away((2, 3))),
        (lambda x: tp.prod(x, axis=(0, 2), keepdims=True), away((2, 3, 2))),
        (lambda x: tp.prod(x, axis=-1), np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, -3.0]])),
        (tp.prod, away(())),
        (lambda x: tp.prod(x, axis=()), away((2,))),
        (lambda x: tp.prod(x, axis=0), away((1, 2))),
        (lambda x: tp.prod(x, axis=0), away((0, 2))),
    ],
    "mean": [(tp.mean, away((2, 3))), (lambda x: tp.mean(x, axis=0, keepdims=True), away((2, 3)))],
    "max": [
        (tp.max, away((2, 3))),
        (lambda x: tp.max(x, axis=1), away((2, 3))),
        (lambda x: tp.max(x, axis=(0, 2), keepdims=True), away((2, 3, 2))),
        (tp.max, away(())),
    ],
    "min": [(tp.min, away((2, 3))), (lambda x: tp.min(x, axis=0), away((2, 3)))],
    "reshape": [(lambda x: tp.reshape(x, (3, -1)), away((2, 3))), (lambda x: tp.reshape(x.T, (6,)), away((2, 3)))],
    "permute_dims": [(lambda x: tp.permute_dims(x, (2, 0, 1)), away((2, 3, 2)))],
    "matrix_transpose": [(tp.matrix_transpose, away((2, 3, 2)))],
    "expand_dims": [(lambda x: tp.expand_dims(x, axis=(0, -1)), away((2, 3)))],
    "squeeze": [(lambda x: tp.squeeze(x, (0, -1)), away((1, 3, 1)))],
    "broadcast_to": [(lambda x: tp.broadcast_to(x, (4, 2, 3)), away((2, 1)))],
    "flip": [(lambda x: tp.flip(x, axis=(0, 2)), away((2, 3, 2))), (tp.flip, away((3,)))],
    "flatten": [(lambda x: tp.flatten(x, 1), away((2, 3, 2)))],
    "concat": [
        (lambda a, b, c: tp.concat([a, b, c], axis=1), away((2, 3)), away((2, 1), 1), away((2, 0), 2)),
        (lambda a: tp.concat([a, a * 2, tp.ones((1, 2))]), away((2, 2))),
    ],
    "stack": [(lambda a, b: tp.stack([a, b], axis=-1), away((2, 3)), away((2, 3), 1))],
    "getitem": [
        (lambda x: x[KEY], away((4, 3))),
        (lambda x: x[1], away((4, 3))),
        (lambda x: x[..., -1], away((4, 3))),
        (lambda x: x[3:1], away((4, 3))),
        (lambda x: x[()], away(())),
        (lambda x: x[::-1, ::2] * x[:, :2], away((4, 3))),
    ],
    "getitem_back": [(lambda g: op("getitem_back")(g, shape=(4, 3), key=BOUND), away((2, 1, 2)))],
    "take": [
        (lambda x: tp.take(x, WHERE, axis=0), away((4, 3))),
        (lambda x: tp.take(x, WHERE, axis=-1), away((2, 3))),
        (lambda x: x[[1, 1, 0]], away((2, 3))),
    ],
    "take_back": [(lambda g: op("take_back")(g, WHERE, shape=(4, 3), axis=0), away((2, 2, 3)))],
    "assign": [
        (lambda a, b: op("assign")(a, b) * a, away((2, 3)), away((3,), 1)),
        (from_view, away((4,))),
    ],
    "matmul": [(op("matmul"), away(s1), away(s2, 1)) for s1, s2 in [
        ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)),
        ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((1, 2, 3), (2, 3, 1)),
        ((2, 1, 1, 3), (2, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
    ]] + [(lambda x: x @ x.T, away((2, 3)))],
    "relu": [(nn.relu, away((2, 3)))],
    "relu_back": [(lambda g: op("relu_back")(g, tp.asarray([-1.0, 0.0, 2.0])), away((3,)))],
    "softmax": [(tp.softmax, away((2, 3))), (lambda x: tp.softmax(x, axis=0), away((3, 2)))],
    "log_softmax": [(nn.log_softmax, away((2, 3))), (lambda x: nn.log_softmax(x, axis=0), away((3, 2)))],
    "pick": [(lambda x: op("pick")(x, LABELS), away((4, 3)))],
    "pick_back": [(lambda g: op("pick_back")(g, LABELS, classes=3), away((4,)))],
    "cross_entropy": [(lambda x: nn.cross_entropy(x, LABELS), away((4, 3)))],
    "nll_loss": [(lambda x: op("nll_loss")(x, LABELS), away((4, 3)))],
    "nll_loss_back": [(lambda g: op("nll_loss_back")(g, LABELS, shape=(4, 3)), away(()))],
    "log_softmax_back": [(lambda g, out: op("log_softmax_back")(g, out, axis=1), away((4, 3)), away((4, 3), 1))],
    "matmul_nt": [(op("matmul_nt"), away((2, 3)), away((4, 3), 1)), (op("matmul_nt"), away((5, 2, 3)), away((4, 3), 1))],
    "matmul_tn": [(op("matmul_tn"), away((3, 2)), away((3, 4), 1)), (op("matmul_tn"), away((5, 3, 2)), away((3, 4), 1))],
    "linear": [(nn.linear, away((2, 3)), away((4, 3), 1), away((4,), 2))],
    "conv2d": [
        (lambda x, w, b: nn.conv2d(x, w, b, **_CONV), away((2, 4, 4, 4)), away((2, 2, 2, 2), 1), away((2,), 2)),
        (lambda x, w: nn.conv2d(x, w), away((1, 2, 3, 3)), away((2, 2, 2, 3), 1)),
    ],
    "conv2d_input": [
        (lambda g, w: op("conv2d_input")(g, w, input_shape=(1, 2, 3, 3), **_FULL), away((1, 2, 2, 1)), away((2, 2, 2, 3), 1)),
    ],
    "conv2d_weight": [
        (lambda g, x: op("conv2d_weight")(g, x, weight_shape=(2, 2, 2, 3), **_FULL), away((1, 2, 2, 1)), away((1, 2, 3, 3), 1)),
    ],
    "max_pool2d": [
        (lambda x: nn.max_pool2d(x, **_POOL), away((1, 2, 4, 4))),
        (lambda x: nn.max_pool2d(x, kernel_size=2), away((1, 1, 4, 4))),
    ],
    "max_pool2d_input": [
        (lambda g: op("max_pool2d_input")(g, tp.asarray(away((1, 2, 4, 4), 5)), **_POOL), away((1, 2, 5, 2))),
    ],
    "max_pool2d_tangent": [
        (lambda t: op("max_pool2d_tangent")(t, tp.asarray(away((1, 2, 4, 4), 5)), **_POOL), away((1, 2, 4, 4))),
    ],
    "to": [(lambda x: x.to(dtype="float64", copy=True) * x, away((3,)))],
    "astype": [(lambda x: tp.astype(x, "float64") * x, away((3,)))],
    "copy": [(tp.copy, away((2, 3)))],
}  # fmt: skip

NOT_DIFFERENTIATED = {
    # creation and what leaves the world of tensors
    "empty", "zeros", "ones", "full", "ramp", "from_data", "zeros_like", "ones_like", "empty_like", "full_like", "to_list",
    "to_numpy", "to_text",
}  # fmt: skip


def test_every_differentiable_operator_has_a_case():
    mine = {n: r for n, r in rows.items() if r.package == "tripoint" and r.mutates is None}
    differentiable = {
        n for n, r in mine.items() if r.returns == "tensor" and (r.dtype is None or r.dtype.differentiable)
    }
    bits = {n for n in differentiable if n.startswith("bitwise")}
    assert differentiable - NOT_DIFFERENTIATED - bits == set(CASES)
    (tp.ones((1,)).requires_grad_() * 1).sum().backward()  # loads the derivatives
    assert {n for n in kernels.derivatives if n in mine} <= set(CASES)


EACH = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]


def leaves(arrays):
    return [tp.asarray(a.copy()).requires_grad_() for a in arrays]


def filled(found, inputs):
    return [np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(found, inputs, strict=True)]


def central(fn, arrays, h):
    """The gradient of a function from arrays to one number, by central differences."""
    out = []
    for k, a in enumerate(arrays):
        slope = np.zeros(a.shape)
        for at in np.ndindex(a.shape):
            ends = []
            for step in (h, -h):
                moved = [b.copy() for b in arrays]
                moved[k][at] += step
                ends.append(fn(*moved))
            slope[at] = (ends[0] - ends[1]) / (2 * h)
        out.append(slope)
    return out


@pytest.mark.parametrize(("name", "case"), EACH)
def test_first_order(name, case):
    fn, *arrays = CASES[name][case]
    xs = leaves(arrays)
    out = fn(*xs)
    weight = np.asarray(rng(9).normal(size=out.shape))
    (out * tp.asarray(weight)).sum().backward()
    want = central(lambda *given: float(np.sum(fn(*[tp.asarray(a) for a in given]).numpy() * weight)), arrays, 1e-6)
    for x, a, w in zip(xs, arrays, want, strict=True):
        got = x.grad
        assert got is not None
        assert got.shape == a.shape
        assert got.dtype is tp.float64
        np.testing.assert_allclose(got.numpy(), w, rtol=1e-5, atol=1e-7)
        assert not got.readonly


@pytest.mark.parametrize(("name", "case"), EACH)
def test_second_order(name, case):
    fn, *arrays = CASES[name][case]
    weights = None

    def first(given, create_graph):
        nonlocal weights
        xs = leaves(given)
        out = fn(*xs)
        weights = np.asarray(rng(9).normal(size=out.shape))
        # squared, so that linear operators have second derivatives too
        loss = (out * out * tp.asarray(weights)).sum()
        return xs, tp.gradients(loss, xs, create_graph=create_graph)

    directions = [np.asarray(rng(7 + i).normal(size=a.shape)) for i, a in enumerate(arrays)]

    def slope(*given):
        xs, found = first(given, False)
        return sum(float(np.sum(g * d)) for g, d in zip(filled(found, xs), directions, strict=True))

    xs, found = first(arrays, True)
    total = None
    for g, d in zip(found, directions, strict=True):
        if g is None:
            continue
        assert g.requires_grad
        part = (g * tp.asarray(d)).sum()
        total = part if total is None else total + part
    assert total is not None
    got = filled(tp.gradients(total, xs), xs)
    for g, w in zip(got, central(slope, arrays, 1e-5), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "meta", "arrays", "rest"),
    [
        ("softmax", {"axis": -1}, [away((3, 4))], []),
        ("log_softmax", {"axis": 0}, [away((3, 4))], []),
        ("cross_entropy", {}, [away((4, 3))], [LABELS]),
        ("nll_loss", {}, [away((4, 3))], [LABELS]),
        ("nll_loss_back", {"shape": (4, 3)}, [away(())], [LABELS]),
        ("log_softmax_back", {"axis": 1}, [away((4, 3)), away((4, 3), 1)], []),
        ("matmul_nt", {}, [away((2, 3)), away((4, 3), 1)], []),
        ("matmul_tn", {}, [away((3, 2)), away((3, 4), 1)], []),
        ("getitem_back", {"shape": (4, 3), "key": BOUND}, [away((2, 1, 2))], []),
        ("relu_back", {}, [away((3,))], [tp.asarray([-1.0, 0.0, 2.0])]),
        ("multiply_back", {}, [away((3,)), away((3,), 1)], []),
        ("divide_back", {}, [away((3,)), away((3,), 1)], []),
    ],
)
def test_fused_kernels_agree_with_their_decomposition(name, meta, arrays, rest):
    row = rows[name]
    assert row.composite
    found = []
    for call in (row.call, row.body):
        xs = leaves(arrays)
        out = call(*xs, *rest, **meta)
        weight = tp.asarray(np.asarray(rng(3).normal(size=out.shape)))
        first = tp.gradients((out * out * weight).sum(), xs, create_graph=True)
        second = tp.gradients(sum((g * g).sum() for g in first), xs)
        found.append([out.numpy(), *[g.numpy() for g in first], *[g.numpy() for g in second]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# Conventions ---------------------------------------------------------------------------------------------------------


def slope_at(fn, *values):
    xs = [tp.asarray(v, dtype="float64").requires_grad_() for v in values]
    fn(*xs).sum().backward()
    grads = [x.grad.tolist() if x.grad is not None else None for x in xs]
    return grads if len(grads) > 1 else grads[0]


def test_all_spellings_of_the_positive_part_agree_at_zero():
    zero = tp.zeros((2,), dtype="float64")
    spellings = [
        nn.relu, lambda x: tp.maximum(x, 0), lambda x: tp.maximum(0.0, x), lambda x: tp.clip(x, 0), lambda x: tp.clip(x, 0, 5),
        lambda x: tp.maximum(x, zero), lambda x: -tp.minimum(-x, 0), lambda x: tp.max(tp.stack([x, zero]), axis=0),
        lambda x: rows["relu"].call(x), lambda x: (x + tp.abs(x)) / 2,
    ]  # fmt: skip
    for fn in spellings:
        assert slope_at(fn, [0.0, -0.0]) == [0.5, 0.5]
        assert slope_at(fn, [1.0, -1.0]) == [1, 0]
    # A choice is the branch that it takes.
    assert slope_at(lambda x: tp.where(x > 0, x, 0.0), [0.0, 1.0]) == [0, 1]
    assert slope_at(lambda x: tp.where(x >= 0, x, 0.0), [0.0, 1.0]) == [1, 1]


def test_ties_share_evenly():
    assert slope_at(tp.max, [1.0, 3.0, 3.0]) == [0, 0.5, 0.5]
    assert slope_at(tp.min, [1.0, 1.0, 1.0, 3.0]) == [1 / 3, 1 / 3, 1 / 3, 0]
    assert slope_at(lambda x: tp.max(x, axis=0), [[1.0, 5.0], [1.0, 2.0]]) == [[0.5, 1], [0.5, 0]]
    assert slope_at(tp.maximum, [1.0, 2.0], [1.0, 3.0]) == [[0.5, 0], [0.5, 1]]
    assert slope_at(tp.minimum, [1.0, 2.0], [1.0, 3.0]) == [[0.5, 1], [0.5, 0]]
    assert slope_at(lambda x: tp.clip(x, -1.0, 1.0), [-1.0, 1.0, 0.0, 2.0]) == [0.5, 0.5, 1, 0]
    assert slope_at(lambda x: nn.max_pool2d(x, kernel_size=2), [[[[1.0, 2.0], [2.0, 0.0]]]]) == [[[[0, 0.5], [0.5, 0]]]]
    assert slope_at(tp.abs, [0.0, -2.0]) == [0, -1]


def test_nan_takes_the_gradient_it_caused():
    assert slope_at(tp.max, [1.0, np.nan, 3.0]) == [0, 1, 0]
    assert slope_at(tp.max, [np.nan, np.nan]) == [0.5, 0.5]


def test_what_where_does_not_choose_gets_no_gradient():
    inf = float("inf")
    chosen = [
        (lambda x: tp.where(x < 1, tp.cos(x), 0), inf),
        (lambda x: tp.where(x < 1, tp.sin(x), 0), inf),
        (lambda x: tp.where(x < 1, tp.exp(x), 0), inf),
        (lambda x: tp.where(x > 0, tp.log(x), 0), 0.0),
        (lambda x: tp.where(x > 0, tp.sqrt(x), 0), 0.0),
        (lambda x: tp.where(x > 0, tp.sqrt(x), 0), -1.0),
        (lambda x: tp.where(x > 0, 1 / x, 0), 0.0),
        (lambda x: tp.where(x > 0, x / x, 0), 0.0),
        (lambda x: tp.where(x > 0, x**0.5, 0), 0.0),
        (lambda x: tp.where(x > 0, x**-1, 0), 0.0),
        (lambda x: tp.where(x > 0, 3.0**x, 0), -inf),
        (lambda x: tp.where(x > 0, tp.log(tp.sqrt(x)), 0), 0.0),
        (lambda x: tp.where(x < 1, x, 0), float("nan")),
    ]
    for fn, at in chosen:
        assert slope_at(fn, [at]) == [0], fn
    # and the choice still counts where it is made, in the second derivative too
    x = tp.asarray([0.0, 4.0], dtype="float64").requires_grad_()
    (g,) = tp.gradients(tp.where(x > 0, tp.sqrt(x), 0).sum(), [x], create_graph=True)
    assert g.tolist() == [0, 0.25]
    (second,) = tp.gradients(g.sum(), [x])
    assert second.tolist() == [0, -1 / 32]
    # a gradient that is 0 by chance is no choice: d2/dx2 sin(x) ** 2 = 2 cos(2 x)
    y = tp.asarray([0.0], dtype="float64").requires_grad_()
    (g,) = tp.gradients((tp.sin(y) ** 2).sum(), [y], create_graph=True)
    assert tp.gradients(g.sum(), [y])[0].tolist() == [2]


def test_powers_at_zero():
    assert slope_at(lambda x: x**2, [0.0]) == [0]
    assert slope_at(lambda x: x**1, [0.0]) == [1]
    assert slope_at(lambda x: tp.pow(x, tp.asarray([0.0, 1.0, 2.0])), [0.0, 0.0, 0.0]) == [0, 1, 0]
    assert slope_at(tp.pow, [0.0, 0.0], [2.0, 0.0])[1] == [0, 0]
    assert slope_at(lambda x: 0.0**x * 1 + x, [2.0, -1.0]) == [1, 1]
    assert np.isnan(slope_at(lambda x: (-1.0) ** x, [0.5])[0])


# Shapes, dtypes and memory -------------------------------------------------------------------------------------------


def test_broadcast_gradients_are_summed():
    shapes = [
        ((3,), (2, 3)),
        ((2, 1), (1, 3)),
        ((), (2, 2)),
        ((1,), ()),
        ((2, 1, 3), (4, 1)),
        ((0, 1), (1, 3)),
        ((1,), (0,)),
    ]
    for s1, s2 in shapes:
        a, b = tp.ones(s1).requires_grad_(), tp.ones(s2).requires_grad_()
        out = a * b
        out.sum().backward()
        for x, shape in ((a, s1), (b, s2)):
            want = out.size / max(1, int(np.prod(shape)))
            assert x.grad.shape == shape
            assert x.grad.tolist() == np.full(shape, want).tolist()


def test_dtypes_of_gradients():
    a = tp.ones((2,), dtype="float64").requires_grad_()
    b = tp.ones((2,)).requires_grad_()
    c = tp.ones((2,), dtype="float16").requires_grad_()
    d = tp.ones((2,), dtype="bfloat16").requires_grad_()
    i = tp.asarray([2, 3])
    out = (a * b * c * d * i).sum()
    assert out.dtype is tp.float64
    out.backward()
    for x in (a, b, c, d):
        assert x.grad.dtype is x.dtype
        assert x.grad.tolist() == [2, 3]
    e = tp.ones((2, 2)).requires_grad_()
    (e @ tp.ones((2, 2), dtype="int64")).sum().backward()
    assert e.grad.dtype is tp.float32
    f = tp.ones((2,)).requires_grad_()
    tp.concat([f, tp.ones((1,), dtype="float64"), i]).sum().backward()
    assert f.grad.dtype is tp.float32
    h = tp.ones((2,)).requires_grad_()
    h.to(dtype="float64").to(dtype="float16").sum().backward()
    assert h.grad.dtype is tp.float32


def test_results_that_cannot_carry_gradients_are_not_recorded():
    x = tp.asarray([1.0, 2.0]).requires_grad_()
    for out in (x > 1, x.argmax(), tp.isnan(x), tp.logical_not(x), x.to(dtype="int64"), tp.sum(x, dtype="int64")):
        assert not out.requires_grad
        assert out.is_leaf
    assert not x.detach().requires_grad
    with tp.no_grad():
        y = x * 2
        assert not y.requires_grad
        with tp.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad


def own(grad):
    array = grad.numpy()
    base = array if array.base is None else array.base
    return array.flags.writeable and array.flags.forc and getattr(base, "nbytes", array.nbytes) == array.nbytes


def test_what_lands_is_the_leafs_own_memory():
    makers = [
        lambda x, y: (x + y).sum(), lambda x, y: x.sum() + y.sum(), lambda x, y: (x * 1 + y).sum(),
        lambda x, y: (x - y).T.sum(), lambda x, y: tp.concat([x, y]).sum(), lambda x, y: (x.reshape((4,)) + y.flatten()).sum(),
        lambda x, y: (x[::-1] + y[:, ::-1]).sum(), lambda x, y: (tp.copy(x) + tp.astype(y, "float32")).sum(),
        lambda x, y: tp.where(x > 0, x, y).sum(), lambda x, y: (x + y).mean(), lambda x, y: (x + x + y).sum(),
    ]  # fmt: skip
    for make in makers:
        x, y = tp.ones((2, 2)).requires_grad_(), tp.ones((2, 2)).requires_grad_()
        make(x, y).backward()
        assert own(x.grad)
        assert own(y.grad)
        assert not tp.shares_memory(x.grad, y.grad)
        assert not x.grad.requires_grad
        before = y.grad.tolist()
        x.grad += 100
        assert y.grad.tolist() == before


def test_the_seed_is_not_aliased_and_accumulation_does_not_touch_it():
    x = tp.ones((3,)).requires_grad_()
    seed = tp.asarray([1.0, 2.0, 3.0])
    x.backward(seed)
    assert x.grad.tolist() == [1, 2, 3]
    assert not tp.shares_memory(x.grad, seed)
    (x + 0).backward(seed)
    assert x.grad.tolist() == [2, 4, 6]
    assert seed.tolist() == [1, 2, 3]
    x.grad = None
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 5, 5]
    wide = tp.broadcast_to(tp.ones((1,)), (3,))
    x.grad = None
    x.backward(wide)
    assert own(x.grad)
    (x * 1).backward(wide)
    assert x.grad.tolist() == [2, 2, 2]
    (g,) = tp.gradients(x * 1, [x], seed)
    assert not tp.shares_memory(g, seed)


def test_float64_seed_for_a_float32_tensor():
    x = tp.ones((2,)).requires_grad_()
    (x * 2).backward(tp.ones((2,), dtype="float64"))
    assert x.grad.dtype is tp.float32


# The record ----------------------------------------------------------------------------------------------------------


def test_backward_twice_is_refused_alike_for_linear_and_quadratic_graphs():
    for make in (lambda x: (x + x).sum(), lambda x: (x * x).sum(), lambda x: x[0].sum(), lambda x: tp.exp(x).sum()):
        x = tp.ones((2,)).requires_grad_()
        y = make(x)
        y.backward()
        first = x.grad.tolist()
        with pytest.raises(AutogradError, match=r"already been run through (sum|getitem).*retain_graph=True"):
            y.backward()
        assert x.grad.tolist() == first
        z = make(x)
        z.backward(retain_graph=True)
        z.backward()
        np.testing.assert_allclose(x.grad.numpy(), 3 * np.array(first), rtol=1e-6)
        with pytest.raises(AutogradError, match="already been run"):
            z.backward()


def test_a_shared_part_that_was_freed_names_its_operator():
    x = tp.ones((2,)).requires_grad_()
    y = tp.exp(x)
    y.sum().backward()
    with pytest.raises(AutogradError, match="already been run through exp"):
        (y * 2).sum().backward()


def test_interior_inputs_of_gradients():
    x = tp.asarray([2.0]).requires_grad_()
    y = x * x
    z = y * y * x
    dy, dx = tp.gradients(z, [y, x])
    assert dy.tolist() == [2 * 4 * 2]
    assert dx.tolist() == [5 * 16]
    assert x.grad is None
    y = x * x
    z = y * 3
    assert tp.gradients(z, [z])[0].tolist() == [1]
    assert tp.gradients(z, [y])[0].tolist() == [3]  # and what lies behind y was left as it is
    assert tp.gradients(y, [x])[0].tolist() == [4]
    assert tp.gradients(y, [y])[0].tolist() == [1]
    with pytest.raises(AutogradError, match="already been run through multiply"):
        tp.gradients(y * 2, [x])
    side = tp.ones((1,)).requires_grad_()
    both = x * 2 + tp.exp(side)
    assert tp.gradients(both, [x])[0].tolist() == [2]
    assert side.grad is None
    other = tp.ones((1,)).requires_grad_()
    assert tp.gradients(x * 1, [x, other])[1] is None
    a, b = x * 2, x * 3
    assert tp.gradients([a, b], [x])[0].tolist() == [5]
    with pytest.raises(AutogradError, match="already been run through multiply"):
        tp.gradients([a, a * a], [a, x])  # the way from a to x is gone
    assert tp.gradients([a, a * a], [a])[0].tolist() == [9]
    w = tp.ones((1,)).requires_grad_()
    spent = w * w
    spent.sum().backward()
    assert tp.gradients(x * 2 + spent, [x])[0].tolist() == [2]  # what leads nowhere may be gone
    with pytest.raises(AutogradError, match=r"input of shape \(1,\) is not recorded"):
        tp.gradients(a, [tp.ones((1,))])


def test_grad_nests():
    third = tp.grad(tp.grad(tp.grad(lambda x: x**4)))
    assert third(tp.asarray(2.0)).item() == 48
    assert tp.grad(lambda x, y: x * y, argnums=1)(tp.asarray(2.0), tp.asarray(3.0)).item() == 2
    a, b = tp.grad(lambda x, y: x * y * y, argnums=[0, 1])(tp.asarray(2.0), tp.asarray(3.0))
    assert (a.item(), b.item()) == (9, 12)
    assert tp.grad(lambda x: (x * 0).sum() + tp.ones(()).requires_grad_())(tp.ones((2,))).tolist() == [0, 0]
    assert tp.grad(lambda x: tp.sign(x) * 1)(tp.asarray(2.0)).item() == 0
    mixed = tp.grad(lambda x: tp.grad(lambda y: x * y * y)(x))  # x * 2 x, whose derivative is 4 x
    assert mixed(tp.asarray(3.0)).item() == 12
    x = tp.asarray(1.5).requires_grad_()
    tp.grad(lambda y: y**3)(x).backward()
    assert x.grad.item() == pytest.approx(9)
    with pytest.raises(ArgumentError, match="argument 0 must be a tensor, not a float"):
        tp.grad(lambda x: x)(1.0)
    with pytest.raises(AutogradError, match=r"\(2,\)"):
        tp.grad(lambda x: x * 2)(tp.ones((2,)))


def test_create_graph_through_backward():
    x = tp.asarray([1.0, 2.0]).requires_grad_()
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    g, x.grad = x.grad, None
    g.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_long_chains():
    x = tp.ones((1,)).requires_grad_()
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad.tolist() == [1]
    del y


# In-place ------------------------------------------------------------------------------------------------------------

INPLACE = {
    "add_": (lambda a, b: a + b, 2), "subtract_": (lambda a, b: a - b, 2), "multiply_": (lambda a, b: a * b, 2),
    "divide_": (lambda a, b: a / b, 2), "pow_": (lambda a, b: a**b, 2), "remainder_": (lambda a, b: a % b, 2),
    "floor_divide_": (lambda a, b: a // b + 0 * a, 2), "exp_": (tp.exp, 1), "negative_": (lambda a: -a, 1),
    "assign_": (lambda a, b: tp.broadcast_to(b, a.shape) * 1.0, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_gradients_are_those_of_the_functional_spelling(name):
    functional, arity = INPLACE[name]
    for shape, number in itertools.product([(3,), (2, 3)], [None, 2.0]):
        if number is not None and (arity == 1 or name == "assign_"):
            continue
        given = [positive(shape) + 1.5] + ([positive((3,), 1) + 0.5] if arity == 2 and number is None else [])
        found = []
        for write in (False, True):
            xs = leaves(given)
            rest = xs[1:] if number is None else [number]
            y = xs[0] * 1.5
            if write:
                assert rows[name].call(y, *rest) is y
                out = y
            else:
                out = functional(y, *rest)
            weight = tp.asarray(np.asarray(rng(4).normal(size=out.shape)))
            (out * out * weight).sum().backward()
            found.append([np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in xs])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    bits = {n for n in rows if n.startswith("bitwise") and n.endswith("_")}
    assert {n for n, r in rows.items() if r.mutates is not None and r.package == "tripoint"} - bits == set(INPLACE)


def test_inplace_with_itself():
    for fn, want in [(lambda y: y.__imul__(y), 8), (lambda y: y.__iadd__(y), 4), (lambda y: y.__itruediv__(y), 0)]:
        x = tp.asarray([2.0], dtype="float64").requires_grad_()
        y = x * 1
        y = fn(y)
        y = y * 1
        if want == 8:
            assert tp.gradients(y, [x])[0].tolist() == [4]
        else:
            assert tp.gradients(y, [x])[0].tolist() == [want / 2]


def test_plain_spellings():
    a = tp.ones((2,)).requires_grad_()
    y = a * 2
    y += 1
    y *= y
    y.sum().backward()
    assert a.grad.tolist() == [12, 12]
    b = tp.ones((3,)).requires_grad_()
    z = tp.zeros((3,))
    z[1] = b[0] * 2
    z[2:] = b[1:2] * z[1].copy()
    z.sum().backward()
    assert b.grad.tolist() == [4, 2, 0]


def test_a_changed_saved_operand_names_the_operator():
    cases = [
        (lambda y: y * y, "multiply: its operand x1"),
        (lambda y: tp.exp(y), None),
        (lambda y: tp.sin(y), "sin: its operand x"),
        (lambda y: y @ tp.ones((2,)).requires_grad_(), "matmul: its operand x1"),
        (lambda y: tp.max(y), "max: its operand x"),
        (lambda y: nn.relu(y), "relu: its operand x"),
        (lambda y: y + 1, None),
        (lambda y: y / tp.ones((2,)).requires_grad_(), "divide: its operand x1"),
        (lambda y: y / 2, None),
    ]
    for fn, words in cases:
        x = tp.asarray([1.0, 2.0]).requires_grad_()
        y = x * 1
        out = fn(y)
        y += 1
        if words is None:
            out.sum().backward()
            continue
        with pytest.raises(AutogradError, match=rf"{words}.*changed in place"):
            out.sum().backward()
    x = tp.asarray([1.0, 2.0]).requires_grad_()
    out = tp.exp(x)
    out += 1
    with pytest.raises(AutogradError, match="exp: its result"):
        out.sum().backward()
    # through an alias: a view, or a detached tensor
    for alias in (lambda t: t[0], lambda t: t.detach(), lambda t: t.reshape((1, 2)), lambda t: t.detach()[1:]):
        y = x * 1
        out = tp.sin(y)
        with tp.no_grad():
            alias(y)[...] = 5
        with pytest.raises(AutogradError, match="sin: its operand x"):
            out.sum().backward()


def test_writing_into_a_leaf_is_refused_before_the_write():
    x = tp.ones((2, 3)).requires_grad_()
    for act in (lambda: x.__iadd__(1), lambda: x[0].__imul__(10), lambda: x.__setitem__(0, 5.0), lambda: x.T[1].__isub__(1),
                lambda: rows["exp_"].call(x), lambda: x.reshape((6,)).__imul__(2)):  # fmt: skip
        with pytest.raises(AutogradError, match=r"\(2, 3\).* in place, and that is a leaf.*no_grad"):
            act()
    assert x.tolist() == np.ones((2, 3)).tolist()
    with tp.no_grad():
        x += 1
        x[0] = 7
    assert x.requires_grad
    assert x.is_leaf
    assert x[0].tolist() == [7, 7, 7]
    (x * 2).sum().backward()
    assert x.grad.tolist() == np.full((2, 3), 2).tolist()


# Refusals and strangers' operators -----------------------------------------------------------------------------------


def test_refusals():
    x = tp.ones((2, 3)).requires_grad_()
    for act, kind, words in [
        (lambda: (x * 2).backward(), AutogradError, r"shape \(2, 3\): it has 6 elements"),
        (lambda: (x * 2).backward(tp.ones((2,))), ShapeError, r"\(2,\).*\(2, 3\)"),
        (lambda: (x * 2).backward(1.0), ArgumentError, "float"),
        (lambda: tp.asarray(1).backward(), AutogradError, "int64"),
        (lambda: tp.ones(()).backward(), AutogradError, "not recorded"),
        (lambda: (x * 2).sum().detach().backward(), AutogradError, "not recorded"),
        (lambda: tp.asarray([1]).requires_grad_(), AutogradError, "int64"),
        (lambda: (x * 2).requires_grad_(False), AutogradError, "detach"),
        (lambda: tp.asarray([1j]).requires_grad_(), NotBuiltYetError, "complex"),
        (lambda: setattr(x * 2, "grad", x), AutogradError, "leaf"),
        (lambda: setattr(x, "grad", tp.ones((2,))), ShapeError, r"\(2,\).*\(2, 3\)"),
        (lambda: setattr(x, "grad", 1.0), ArgumentError, "float"),
    ]:
        with pytest.raises(kind, match=words):
            act()
    assert x.grad is None
    assert x.requires_grad
    x.requires_grad_(False)
    assert not (x * 2).requires_grad


def stranger(name, kernel, **functions):
    """An operator of this program's own, with a kernel on NumPy arrays and perhaps a derivative."""

    @primitive(dtype=rules.promoted(), shape=rules.broadcast, namespace="gradtests", name=name)
    def declared(x: Tensor, /) -> Tensor:
        raise NotImplementedError

    registry = Registry()
    registry.kernel(f"gradtests::{name}", kernel, every=Pattern("cpu", "strided"))
    registry.commit()
    if functions:
        derivative(declared, **functions)
    return declared


def test_gradients_that_are_handed_out_share_no_memory():
    a, b = tp.ones((2,)).requires_grad_(), tp.ones((2,)).requires_grad_()
    for inputs in ([a, b], [b, a]):
        first, second = tp.gradients((a + b) * 1, inputs, tp.ones((2,)))
        assert own(first)
        assert own(second)
        assert not tp.shares_memory(first, second)
    kept = tp.asarray([3.0, 4.0])  # a derivative that gives away what somebody else holds
    held = stranger("held", lambda x: np.asarray(x * 1), x=lambda g: kept)
    held(a).sum().backward()
    a.grad += 1
    (g,) = tp.gradients(held(b).sum(), [b])
    g += 1
    assert kept.tolist() == [3, 4]
    c = tp.asarray([1.0, 2.0]).requires_grad_()
    saved = stranger("saved", lambda x: np.asarray(x * 1), x=lambda g, x: x)
    saved(c).sum().backward()
    assert not tp.shares_memory(c.grad, c)


def test_gradients_of_create_graph_are_the_leafs_own_too():
    s, x, y = tp.ones((3,)), tp.ones((3,)).requires_grad_(), tp.ones((3,)).requires_grad_()
    (x + y).backward(s, create_graph=True)
    x.grad *= 10
    assert (s.tolist(), y.grad.tolist()) == ([1] * 3, [1] * 3)
    x.grad = None
    x.sum().backward(create_graph=True)
    x.grad *= 10
    assert x.grad.tolist() == [10] * 3
    a, b = tp.gradients((x * y).sum(), [x, y], create_graph=True)
    (c,) = tp.gradients((a * b).sum(), [x])
    assert c.tolist() == [1] * 3
    twice = tp.gradients((x * 2).sum(), [x, x])
    twice[0][...] = 100
    assert twice[1].tolist() == [2] * 3


def test_the_seed_that_all_share_cannot_be_spoiled():
    from tripoint.plugin import Layer

    def doubles(g):
        g *= 2
        return g

    class Seven(Layer, above="profile"):
        def __call__(self, op, call_next, args, meta):
            out = call_next(args, meta)
            return out * 7 if op.name == "ones" else out

    spoiler = stranger("spoiler", lambda x: np.asarray(x * 1), x=doubles)
    for dtype in ("float32", "float64"):
        x = tp.ones((2,), dtype=dtype).requires_grad_()
        for loss in (spoiler((x * 1).sum()), (x * 1).sum()):
            x.grad = None
            with Seven():
                loss.backward()
        assert x.grad.tolist() == [1, 1]


def test_threads_that_run_backward_into_one_leaf_lose_nothing():
    import sys
    import threading

    x = tp.ones((4,)).requires_grad_()
    y = (x * 1.0).sum()

    def work():
        for _ in range(50):
            y.backward(retain_graph=True)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert x.grad.tolist() == [400] * 4


def test_what_is_not_wanted_is_not_computed():
    calls = []
    noted = stranger("noted", lambda x: np.asarray(x * 1), x=lambda g: calls.append("noted") or g)
    a, b = tp.ones((2,)).requires_grad_(), tp.ones((2,)).requires_grad_()
    x, y = noted(a), b * 2
    out = (x * y).sum()
    assert tp.gradients(out, [b], retain_graph=True)[0].tolist() == [2, 2]
    assert calls == []
    assert tp.gradients(out, [a, b])[0].tolist() == [2, 2]
    assert calls == ["noted"]
    x, y = noted(a), b * 2  # x is a root behind which nothing is wanted
    assert tp.gradients([x, y], [b], tp.ones((2,)))[0].tolist() == [2, 2]
    assert calls == ["noted"]


def test_an_error_in_a_derivative_leaves_every_gradient_as_it_was():
    broken = stranger("broken", lambda x: np.asarray(x * 1), x=lambda g: 1 / 0)
    a, b = tp.ones((2,)).requires_grad_(), tp.ones((2,)).requires_grad_()
    with pytest.raises(ZeroDivisionError):
        (broken(a) + b * 2).sum().backward()
    assert a.grad is None
    assert b.grad is None
    y = b * b
    y.sum().backward()
    before = b.grad.tolist()
    with pytest.raises(AutogradError, match="already been run through"):
        (y + a * 3).sum().backward()
    assert b.grad.tolist() == before
    assert a.grad is None


def test_a_read_only_gradient_of_the_users_own_is_added_to():
    x = tp.ones((3,)).requires_grad_()
    x.grad = tp.broadcast_to(tp.asarray(2.0), (3,))
    (x * 1).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_an_operator_without_a_derivative():
    shifted = stranger("shifted", lambda x: np.asarray(x + 1))
    x = tp.asarray([1.0, 2.0, 3.0]).requires_grad_()
    with pytest.raises(AutogradError, match="gradtests::shifted has no derivative by x"):
        shifted(x).sum().backward()
    assert x.grad is None
    assert shifted(x).detach().tolist() == [2, 3, 4]
    (shifted(x).detach() * x).sum().backward()
    assert x.grad.tolist() == [2, 3, 4]
    derivative(shifted, x=lambda g: g)  # stated later, it holds from then on
    x.grad = None
    shifted(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "fn", "words"),
    [
        (
            "wide",
            lambda g: tp.ones((4, 3)),
            r"gradtests::wide gave a gradient of shape \(4, 3\) for an operand of shape \(3,\)",
        ),
        ("short", lambda g: tp.ones((2,)), r"shape \(2,\) for an operand of shape \(3,\)"),
        ("deep", lambda g: tp.ones((1, 3, 2)), r"shape \(1, 3, 2\) for an operand of shape \(3,\)"),
        ("number", lambda g: 0.0, "gradtests::number gave a float"),
        ("text", lambda g: "a", "gradtests::text gave a str"),
    ],
)
def test_a_derivative_of_a_wrong_shape_or_kind(name, fn, words):
    wrong = stranger(name, lambda x: np.asarray(x * 2), x=fn)
    x = tp.ones((3,)).requires_grad_()
    with pytest.raises(AutogradError, match=words):
        wrong(x).sum().backward()
    assert x.grad is None


def test_an_operator_of_ones_own_composes():
    cube = stranger("cube", lambda x: np.asarray(x * x * x), x=lambda g, x: g * 3 * x * x)

    @composite(namespace="gradtests")
    def quartic(x: Tensor, /) -> Tensor:
        return cube(x) * x

    x = tp.asarray([1.0, 2.0, 3.0]).requires_grad_()
    cube(x).sum().backward()
    assert x.grad.tolist() == [3, 12, 27]
    assert tp.grad(tp.grad(quartic))(tp.asarray(2.0)).item() == 48
    # a gradient in another dtype is cast, one that is smaller is spread
    half = stranger("half", lambda x: np.asarray(x * 0.5), x=lambda g: tp.asarray(0.5, dtype="float64"))
    x.grad = None
    half(x).sum().backward()
    assert x.grad.dtype is tp.float32
    assert x.grad.tolist() == [0.5, 0.5, 0.5]
    assert own(x.grad)


def test_saved_intermediates_are_differentiated_too():
    # The rule uses its result; the second derivative goes through it.
    keep = stranger("keep", lambda x: np.asarray(x**3), x=lambda g, x, out: g * 3 * out / x)
    assert tp.grad(tp.grad(keep))(tp.asarray(2.0)).item() == 12
    assert tp.grad(tp.grad(tp.grad(keep)))(tp.asarray(2.0)).item() == pytest.approx(6)


def test_minimal_names_what_autograd_calls():
    called = {"add", "multiply", "sum", "reshape", "broadcast_to", "astype", "copy", "ones", "full", "where", "equal"}
    assert called <= set(minimal())
