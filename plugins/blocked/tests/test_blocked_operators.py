"""Operators on blocked images against the same operators on plain ones, which share no code with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import AliasError, DTypeError, ShapeError
from tripoint.plugin import Layer, Row, operators, payload, resolve, row_of
from tripoint_blocked import _kernels, physical

CHANNELS = [1, 7, 8, 9, 16, 17]
NAMES = ["nChw8c", "nChw16c"]
POOLS = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": (1, 0)},
    {"kernel_size": 1},
]
CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
    {"stride": 3, "padding": (2, 1)},
]


def images(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def blocked(x: Any, name: str = "nChw16c") -> tp.Tensor:
    return tp.asarray(x).to(layout=tp.layouts.blocked(name))


def pads(x: tp.Tensor) -> Any:
    buffer = physical(x)
    used = x.shape[1] % x.block
    return buffer[:, -1, :, :, used:] if used else buffer[..., :0]


def plain(x: tp.Tensor) -> Any:
    """The elements, after a look at the pad lanes."""
    if str(x.layout) == "blocked":
        assert not pads(x).any()
        assert physical(x).flags.c_contiguous
        n, c, h, w = x.shape
        assert physical(x).shape == x.physical_shape == (n, -(-c // x.block), h, w, x.block)
    return x.detach().to(layout="strided").numpy()


def close(x: tp.Tensor, expected: tp.Tensor | Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    want = expected.detach().numpy() if isinstance(expected, tp.Tensor) else expected
    assert x.shape == want.shape
    np.testing.assert_allclose(plain(x), want, rtol=rtol, atol=atol)


@pytest.fixture(params=["fresh", "recycled"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory as the system gives it, and memory that an earlier tensor has left full of NaN."""
    if request.param == "fresh":
        return
    plain_empty = np.empty

    def used(*args: Any, **kwargs: Any) -> Any:
        made = plain_empty(*args, **kwargs)
        made.reshape(-1).view(np.uint8).fill(255)  # NaN in every floating dtype
        return made

    monkeypatch.setattr(np, "empty", used)
    monkeypatch.setattr(_kernels, "_kept", threading.local())


class Recorder(Layer, below="autograd"):
    """Writes down who computes, and on which layouts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    def handles(self, op: Row) -> bool:
        return not op.composite or op.name == "relu_back"

    def __call__(self, op: Row, call_next: Callable[..., Any], args: tuple[Any, ...], meta: dict[str, Any]) -> Any:
        label = resolve(op.call, *args, **meta).label()
        out = call_next(args, meta)
        self.calls.append((op.name, label, str(getattr(out, "layout", ""))))
        return out


# Convolution ---------------------------------------------------------------------------------------------------------


def both(x: Any, weight: Any, bias: Any, name: str, **meta: Any) -> None:
    """A convolution and its gradients on blocked images and on plain ones."""
    results = []
    for layout in (tp.layouts.strided, tp.layouts.blocked(name)):
        leaves = [None if v is None else tp.asarray(v).requires_grad_() for v in (x, weight, bias)]
        out = tp.nn.conv2d(leaves[0].to(layout=layout), leaves[1], leaves[2], **meta)
        g = images(*out.shape, dtype=x.dtype, seed=1)
        (out.to(layout="strided") * tp.asarray(g)).sum().backward()
        results.append((out, [leaf.grad for leaf in leaves if leaf is not None]))
    (want, gradients), (got, ours) = results
    assert (str(got.layout), got.descriptor, got.dtype) == ("blocked", name, want.dtype)
    rough = x.dtype.itemsize == 2
    rtol, atol = (2e-2, 2e-2) if rough else (1e-4, 1e-4)
    close(got, want, rtol, atol)
    for mine, theirs in zip(ours, gradients, strict=True):
        assert str(mine.layout) == "strided"
        close(mine, theirs, rtol, atol * (10 if rough else 1))


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("outputs", CHANNELS)
@pytest.mark.parametrize("name", NAMES)
def test_convolution_of_any_number_of_channels(channels: int, outputs: int, name: str) -> None:
    both(images(2, channels, 5, 6), images(outputs, channels, 3, 2), images(outputs), name, padding=1)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("meta", CONVOLUTIONS)
@pytest.mark.parametrize("groups", [1, 3, 9, 18])
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_convolution_in_strides_groups_and_chunks(
    meta: dict[str, Any], groups: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kernels, "_BLOCK_BYTES", chunk)
    both(images(3, 18, 9, 8), images(36, 18 // groups, 3, 3), None, "nChw8c", groups=groups, **meta)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_convolution_in_every_floating_dtype(dtype: str) -> None:
    made = [images(*s).astype(dtype) for s in ((2, 9, 5, 5), (7, 9, 3, 3), (7,))]
    both(*made, "nChw8c")


def test_bfloat16_and_mixed_dtypes() -> None:
    x, weight = images(2, 9, 5, 5), images(7, 9, 3, 3)
    half = tp.asarray(x).to(dtype=tp.bfloat16)
    got = tp.nn.conv2d(half.to(layout="blocked"), tp.asarray(weight).to(dtype=tp.bfloat16))
    assert got.dtype is tp.bfloat16
    want = tp.nn.conv2d(half, tp.asarray(weight).to(dtype=tp.bfloat16))
    close(got.to(dtype=tp.float32), want.to(dtype=tp.float32), 2e-2, 2e-1)
    mixed = tp.nn.conv2d(half.to(layout=tp.layouts.blocked("nChw8c")), tp.asarray(weight))
    assert (mixed.dtype, mixed.descriptor) == (tp.float32, "nChw8c")
    close(mixed, tp.nn.conv2d(half, tp.asarray(weight)))


def test_convolution_with_oneself_in_numpy() -> None:
    # A naive sum, so that the plain kernels are not the only witness.
    x, weight, bias = images(2, 9, 5, 4, dtype=np.float64), images(3, 9, 2, 2, dtype=np.float64), np.arange(3.0)
    want = np.zeros((2, 3, 4, 3)) + bias[:, None, None]
    for i in range(2):
        for j in range(2):
            want += np.einsum("nchw,oc->nohw", x[:, :, i : i + 4, j : j + 3], weight[:, :, i, j])
    close(tp.nn.conv2d(blocked(x, "nChw8c"), tp.asarray(weight), tp.asarray(bias)), want, 1e-12, 1e-12)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("groups", [1, 3])
def test_special_values_stay_in_their_windows_groups_and_lanes(groups: int) -> None:
    x = images(2, 9, 4, 4)
    x[0, 0, 0, 0], x[1, 8, 3, 3] = np.nan, np.inf
    weight = images(9, 9 // groups, 2, 2)
    weight[3, 0, 0, 0] = 0.0
    g = images(2, 9, 3, 3)
    g[0, 1, 0, 0] = np.inf
    results = []
    for layout in (tp.layouts.strided, tp.layouts.blocked("nChw8c")):
        a, w = tp.asarray(x).requires_grad_(), tp.asarray(weight).requires_grad_()
        out = tp.nn.conv2d(a.to(layout=layout), w, groups=groups)
        out.backward(tp.asarray(g).to(layout=layout))
        results.append([plain(t) for t in (out, a.grad, w.grad)])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_transposed_view_gives_what_its_copy_gives() -> None:
    x, weight = images(2, 5, 4, 9), images(3, 3, 9, 4)
    view, copied = tp.asarray(x).permute_dims((0, 3, 1, 2)), tp.asarray(x.transpose(0, 3, 1, 2).copy())
    kernel = tp.asarray(weight).permute_dims((3, 2, 0, 1))
    same = tp.asarray(weight.transpose(3, 2, 0, 1).copy())
    got = tp.nn.conv2d(view.to(layout="blocked"), kernel)
    np.testing.assert_array_equal(plain(got), plain(tp.nn.conv2d(copied.to(layout="blocked"), same)))
    close(got, tp.nn.conv2d(copied, same))


def test_what_does_not_fit_is_refused_in_the_words_of_plain_images() -> None:
    x, three = images(2, 5, 4, 4), tp.asarray(images(2, 3, 3, 3))  # 3 and 5 channels fill one block each
    for meta in ({}, {"groups": 2}):
        with pytest.raises(ShapeError) as expected:
            tp.nn.conv2d(tp.asarray(x), three, **meta)
        with pytest.raises(ShapeError) as caught:
            tp.nn.conv2d(blocked(x), three, **meta)
        assert str(caught.value) == str(expected.value)
    with pytest.raises(ShapeError, match="bias"):
        tp.nn.conv2d(blocked(x), tp.asarray(images(2, 5, 3, 3)), tp.asarray(images(3)))
    with pytest.raises(ShapeError, match="does not fit"):
        tp.nn.max_pool2d(blocked(x), kernel_size=5)
    with pytest.raises(ShapeError):
        blocked(x) + blocked(images(2, 3, 4, 4))


# Elementwise and pooling ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("name", NAMES)
def test_relu_and_pooling_with_their_gradients(channels: int, name: str) -> None:
    x = np.round(images(2, channels, 6, 5) * 2)  # ties, zeros among them
    x[0, 0, 0, :3], x[1, -1, 2, 2] = np.nan, -np.inf
    for meta in POOLS:
        results = []
        for layout in (tp.layouts.strided, tp.layouts.blocked(name)):
            leaf = tp.asarray(x).requires_grad_()
            inner = leaf.to(layout=layout)
            out = tp.nn.max_pool2d(inner, **meta) + tp.nn.max_pool2d(tp.nn.relu(inner), **meta)
            g = tp.asarray(images(*out.shape, seed=2))
            out.backward(g.to(layout=layout))
            results.append([plain(out), plain(leaf.grad)])
            assert str(out.layout) == str(inner.layout)
        for want, got in zip(*results, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_pooling_of_padding_alone_leaves_pad_lanes_zero() -> None:
    x = tp.zeros((1, 9, 0, 2))
    out = tp.nn.max_pool2d(x.to(layout="blocked"), kernel_size=2, padding=1)
    np.testing.assert_array_equal(plain(out), tp.nn.max_pool2d(x, kernel_size=2, padding=1).numpy())


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2, 9, 3, 4), (2, 9, 3, 4)),
        ((2, 9, 3, 4), (1, 9, 1, 1)),
        ((2, 1, 3, 4), (1, 9, 3, 1)),
        ((1, 9, 1, 1), (2, 1, 3, 4)),
        ((1, 1, 1, 1), (2, 16, 3, 4)),
        ((0, 9, 3, 4), (1, 9, 3, 4)),
    ],
)
@pytest.mark.parametrize("names", [("nChw8c", "nChw8c"), ("nChw8c", "nChw16c"), ("nChw32c", "nChw4c")])
@pytest.mark.parametrize("operator", [tp.add, tp.subtract, tp.multiply, tp.divide, tp.maximum])
def test_two_blocked_images_broadcast_like_plain_ones(
    first: tuple[int, ...], second: tuple[int, ...], names: tuple[str, str], operator: Any
) -> None:
    values = images(*first), images(*second)
    results = []
    for layouts in ((tp.layouts.strided,) * 2, tuple(map(tp.layouts.blocked, names))):
        leaves = [tp.asarray(v).requires_grad_() for v in values]
        parts = [leaf.to(layout=layout) for leaf, layout in zip(leaves, layouts, strict=True)]
        out = operator(*parts)
        out.to(layout="strided").sum().backward()
        results.append([plain(out), *[plain(leaf.grad) for leaf in leaves]])
        assert str(out.layout) == str(parts[0].layout)  # whatever the shapes are
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


UNARY: list[Callable[[tp.Tensor], tp.Tensor]] = [
    tp.exp,
    tp.cos,
    tp.square,
    tp.nn.relu,
    lambda x: x + 1.0,
    lambda x: 2 - x,
    lambda x: x**0,
    lambda x: tp.maximum(x, 0.5),
    lambda x: -x,
    lambda x: x + x,
    lambda x: tp.softmax(x, axis=1),
]


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("channels", CHANNELS)
def test_no_operator_leaves_anything_in_pad_lanes(channels: int) -> None:
    x = images(2, channels, 3, 4)
    for operator in UNARY:
        want = operator(tp.asarray(x))
        got = operator(blocked(x, "nChw8c"))
        close(got, want)
        # Into a convolution, whose result shows what the lanes hold.
        weight = tp.asarray(images(3, channels, 2, 2))
        close(tp.nn.conv2d(got.to(layout=tp.layouts.blocked("nChw8c")), weight), tp.nn.conv2d(want, weight))


def test_comparisons_give_blocked_bools() -> None:
    x, y = images(2, 9, 3, 4), images(2, 9, 3, 4, seed=1)
    for operator in (tp.equal, tp.less, tp.greater_equal):
        mask = operator(blocked(x), blocked(y))
        assert (str(mask.layout), mask.dtype) == ("blocked", tp.bool)
        np.testing.assert_array_equal(plain(mask), operator(tp.asarray(x), tp.asarray(y)).numpy())
        assert tp.logical_not(mask).sum().item() + mask.sum().item() == x.size
    assert not tp.isnan(blocked(x)).any().item()


# The rule of layouts -------------------------------------------------------------------------------------------------


def test_the_rule_for_mixed_layouts_is_the_plain_answer() -> None:
    x, y = images(2, 9, 3, 4), images(2, 9, 3, 4, seed=1)
    for operator in (tp.add, tp.multiply, tp.less):
        want = operator(tp.asarray(x), tp.asarray(y)).numpy()
        for out in (operator(blocked(x), tp.asarray(y)), operator(tp.asarray(x), blocked(y))):
            assert str(out.layout) == "strided"
            np.testing.assert_array_equal(out.numpy(), want)
    joined = tp.stack([blocked(x), tp.asarray(y)])
    np.testing.assert_array_equal(joined.numpy(), np.stack([x, y]))


def test_in_place_forms_keep_the_layout_and_its_parameters_and_leave_aliases_as_they_were() -> None:
    x, y = images(2, 9, 3, 4), images(2, 9, 3, 4, seed=1)
    image = blocked(x, "nChw8c")
    before = image.detach()
    image += tp.asarray(y)
    image[1:, 2] = 5.0
    want = x + y
    want[1:, 2] = 5.0
    np.testing.assert_array_equal(plain(image), want)
    assert (str(image.layout), image.descriptor) == ("blocked", "nChw8c")
    np.testing.assert_array_equal(plain(before), x)
    with pytest.raises(ShapeError, match="does not change shapes"):
        image += tp.ones((2, 2, 9, 3, 4))
    with pytest.raises(DTypeError, match="would change the dtype"):
        image += tp.asarray(y, dtype=tp.complex64)
    np.testing.assert_array_equal(plain(image), want)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 4, 5), (1, 16, 1, 1), (0, 3, 4, 5)])
def test_the_layout_follows_from_the_operator_and_never_from_the_shape(shape: tuple[int, ...]) -> None:
    x = blocked(np.ones(shape, np.float32), "nChw8c")
    weight = tp.asarray(images(2, shape[1], 1, 1))
    stays = [tp.nn.conv2d(x, weight), tp.nn.relu(x), x + x, x * 2, tp.nn.max_pool2d(x, kernel_size=1), x.copy(), x == x]
    assert {(str(t.layout), t.descriptor) for t in stays} == {("blocked", "nChw8c")}
    leaves = [
        x.sum(),
        tp.squeeze(x[:1] if shape[0] else tp.concat([x, tp.ones((1, *shape[1:]))]), 0),
        x.permute_dims((0, 2, 3, 1)),
    ]
    assert {str(t.layout) for t in leaves} == {"strided"}


def per_element() -> list[Row]:
    """Every operator that gives one element for each, of one operand or two: those in place aside, which stay by nature."""
    found = [row_of(operator) for operator in operators().values()]
    kinds = ("elementwise", "select")
    return [row for row in found if row.kind in kinds and row.package == "tripoint" and row.mutates is None]


@pytest.mark.parametrize("row", per_element(), ids=lambda row: row.name)
def test_every_operator_that_gives_one_element_for_each_keeps_blocked_tensors_blocked(row: Row) -> None:
    x, y = images(2, 9, 3, 4), images(2, 9, 3, 4, seed=1)
    flags = [v > 0 for v in (x, y, x)]
    given = {"where": [x > 0, x, y], "clip": [x, -0.5, 0.5]}.get(row.name, [x, y])
    given = flags if row.name.startswith("bitwise") else given
    given = given[: len(row.operands) if row.name != "clip" else 3]
    want = row.call(*[tp.asarray(v) if isinstance(v, np.ndarray) else v for v in given])
    got = row.call(*[blocked(v, "nChw8c") if isinstance(v, np.ndarray) else v for v in given])
    assert (str(got.layout), got.block, got.dtype) == ("blocked", 8, want.dtype)
    np.testing.assert_array_equal(plain(got), want.numpy())


def test_a_choice_and_limits_with_numbers_and_their_gradients() -> None:
    x = images(2, 9, 3, 4)
    for operator, want, slope in (
        (lambda t: tp.where(t > 0, t, 0.5), np.where(x > 0, x, np.float32(0.5)), x > 0),
        (lambda t: tp.where(t > 0, 2.0, t), np.where(x > 0, np.float32(2), x), x <= 0),
        (lambda t: tp.where(t > 0, 2.0, 1.0) * t, np.where(x > 0, 2, 1) * x, np.where(x > 0, 2, 1)),
        (lambda t: tp.clip(t, -0.5), np.maximum(x, np.float32(-0.5)), x > -0.5),
        (lambda t: tp.clip(t, max=0.5), np.minimum(x, np.float32(0.5)), x < 0.5),
        (lambda t: +t, x, np.ones_like(x)),
    ):
        leaf = blocked(x, "nChw8c").requires_grad_()
        out = operator(leaf)
        assert (str(out.layout), out.descriptor) == ("blocked", "nChw8c")
        np.testing.assert_array_equal(plain(out), want)
        out.sum().backward()
        assert leaf.grad is not None
        np.testing.assert_array_equal(plain(leaf.grad), slope)


def test_integers_that_an_operator_would_give_are_refused() -> None:
    mask = blocked(images(1, 9, 2, 2)) > 0
    for operator in (lambda: mask + 1, lambda: tp.where(mask, 1, 0), lambda: tp.maximum(mask, 2)):
        with pytest.raises(DTypeError, match="not int64"):
            operator()
    assert (mask + 1.0).dtype is tp.float32


def test_blocks_are_those_of_the_operand_whose_shape_the_result_has() -> None:
    small, large = blocked(images(1, 9, 1, 1), "nChw8c"), blocked(images(2, 9, 3, 4), "nChw4c")
    for out in (small + large, large + small, small * large, tp.where(small > 0, small, large)):
        assert out.block == 4


def test_relu_of_negative_zero_is_zero() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        out = tp.nn.relu(tp.full((1, 9, 1, 2), -0.0, dtype=dtype).to(layout="blocked"))
        assert not np.signbit(plain(out.to(dtype=tp.float64))).any()


def test_dropping_and_restoring_an_axis_gives_plain_images() -> None:
    x = images(1, 9, 3, 4)
    there = tp.squeeze(blocked(x, "nChw8c"), 0)
    back = tp.expand_dims(there, axis=0)
    assert (str(there.layout), str(back.layout)) == ("strided", "strided")
    np.testing.assert_array_equal(plain(back.to(layout=tp.layouts.blocked("nChw8c"))), x)


def test_what_an_operator_reads_through_strided_memory_can_be_written() -> None:
    x = images(2, 9, 3, 4)
    leaf = tp.asarray(x).requires_grad_()
    image = blocked(x)
    out = image.permute_dims((0, 2, 3, 1))
    out += 1
    np.testing.assert_array_equal(plain(image), x)
    recorded = leaf.to(layout="blocked").permute_dims((0, 2, 3, 1))
    recorded *= 3
    recorded[0] *= 2
    recorded.sum().backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), np.stack([np.full(x.shape[1:], 6), np.full(x.shape[1:], 3)]))


def test_writing() -> None:
    x = images(2, 9, 3, 4)
    image = blocked(x, "nChw8c")
    earlier = image.detach()
    image += image
    image *= 2
    assert image.descriptor == "nChw8c"
    np.testing.assert_array_equal(plain(image), 4 * x)
    np.testing.assert_array_equal(plain(earlier), x)
    want = 4 * x
    image[0] = 0.0
    image[..., 1] = image[..., 0]
    want[0] = 0.0
    want[..., 1] = want[..., 0]
    assert image.descriptor == "nChw8c"
    np.testing.assert_array_equal(plain(image), want)
    with pytest.raises(AliasError):
        image.to(layout="strided", copy=False)


# Whole networks ------------------------------------------------------------------------------------------------------


def network(x: tp.Tensor, weights: list[tp.Tensor]) -> tp.Tensor:
    first, bias, second = weights
    y = tp.nn.relu(tp.nn.conv2d(x, first, bias, padding=1))
    z = tp.nn.relu(tp.nn.conv2d(y, second, padding=1)) + y  # y has two consumers
    return tp.nn.max_pool2d(z, kernel_size=2)


def test_layer_to_layer_and_back_everything_stays_blocked() -> None:
    values = images(9, 3, 3, 3), images(9), images(9, 9, 3, 3)
    x = images(2, 3, 8, 8)
    results, recorder = [], Recorder()
    for layout in (tp.layouts.strided, tp.layouts.blocked("nChw8c")):
        weights = [tp.asarray(v).requires_grad_() for v in values]
        leaf = tp.asarray(x).to(layout=layout).requires_grad_()
        with recorder:
            recorder.calls.clear()
            out = network(leaf, weights)
            g = tp.asarray(images(*out.shape, seed=3)).to(layout=layout)
            out.backward(g)
        results.append([plain(t) for t in (out, leaf.grad, *[w.grad for w in weights])])
    assert leaf.grad.descriptor == "nChw8c"
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    called = [c for c in recorder.calls if c[0] not in ("to", "copy", "from_data")]
    through = [c for c in called if not c[1].startswith("tripoint-blocked:")]
    assert [c[0] for c in through] == ["sum"]  # of the bias
    assert {c[2] for c in called if c[0] not in ("sum", "conv2d_weight")} == {"blocked"}
    assert {c[0] for c in called} >= {"conv2d_input", "conv2d_weight", "max_pool2d_input", "relu_back", "add"}


def test_second_derivatives() -> None:
    values = images(4, 3, 3, 3), images(4), images(4, 4, 3, 3)
    x = images(1, 3, 6, 6)
    found = []
    for layout in (tp.layouts.strided, tp.layouts.blocked("nChw4c")):
        weights = [tp.asarray(v).requires_grad_() for v in values]
        leaf = tp.asarray(x).requires_grad_()
        out = tp.square(network(leaf.to(layout=layout), weights)).sum()
        inner = tp.gradients(out, [leaf, *weights], create_graph=True)
        total = sum(tp.square(g).sum() for g in inner if g is not None)
        total.backward()
        found.append([plain(t.grad) for t in (leaf, *weights)])
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_a_batch_of_no_images() -> None:
    weights = [tp.asarray(v).requires_grad_() for v in (images(9, 3, 3, 3), images(9), images(9, 9, 3, 3))]
    leaf = tp.zeros((0, 3, 8, 8)).to(layout="blocked").requires_grad_()
    out = network(leaf, weights)
    assert (out.shape, str(out.layout)) == ((0, 9, 4, 4), "blocked")
    out.to(layout="strided").sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.shape == (0, 3, 8, 8)
    for w in weights:
        assert w.grad is not None
        assert not w.grad.numpy().any()
        assert w.grad.shape == w.shape


@pytest.mark.parametrize("sizes", [(2, 3, 0), (0, 3, 2), (2, 0, 3), (0, 0, 0)])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("extent", [4, 0])
def test_convolution_with_nothing_in_it(sizes: tuple[int, int, int], groups: int, extent: int) -> None:
    n, outputs, channels = sizes
    x, weight = images(n, channels * groups, extent, 4), images(outputs * groups, channels, 3, 1)
    both(x, weight, images(outputs * groups), "nChw8c", padding=(2, 0), groups=groups)


@pytest.mark.parametrize("shape", [(0, 9, 4, 4), (2, 0, 4, 4), (2, 9, 0, 4), (2, 9, 4, 0)])
def test_pooling_and_elementwise_operators_with_nothing_in_it(shape: tuple[int, ...]) -> None:
    x = images(*shape)
    close(
        tp.nn.max_pool2d(blocked(x), kernel_size=2, padding=1),
        tp.nn.max_pool2d(tp.asarray(x), kernel_size=2, padding=1),
    )
    close(tp.nn.relu(blocked(x)) + blocked(x[:, :, :1]), np.maximum(x, 0) + x[:, :, :1])
    for layout in ("strided", "blocked"):
        with pytest.raises(ShapeError, match="does not fit an axis of size 0"):
            tp.nn.max_pool2d(tp.zeros((2, 9, 0, 4), layout=layout), kernel_size=1)


def test_kernels_do_not_write_into_their_operands() -> None:
    x = blocked(images(2, 9, 6, 6), "nChw8c").requires_grad_()
    weights = [tp.asarray(v).requires_grad_() for v in (images(9, 9, 3, 3), images(9), images(9, 9, 3, 3))]
    payload(x).data.flags.writeable = False
    for w in weights:
        payload(w).flags.writeable = False
    network(x, weights).to(layout="strided").sum().backward()
    assert x.grad is not None


def test_numpys_error_settings_and_warnings_do_not_reach_the_kernels() -> None:
    x = np.full((1, 9, 4, 4), 3e38, np.float32)
    leaf = blocked(x).requires_grad_()
    with np.errstate(all="raise"):
        out = tp.nn.max_pool2d(
            tp.nn.relu(tp.nn.conv2d(leaf, tp.asarray(x[:, :, :2, :2])) + leaf[:, :, :3, :3].sum()), kernel_size=2
        )
        out = tp.exp(out) + out
        out.backward(out.detach())
    assert np.isinf(plain(out)).all()
