"""Operators of neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.dispatcher.declare import composite, primitive
from tripoint.errors import ArgumentError, ShapeError
from tripoint.ops.conversion import astype
from tripoint.ops.elementwise import add, divide, equal, exp, less, log, multiply, subtract, where
from tripoint.ops.linalg import matmul
from tripoint.ops.manipulation import broadcast_to, matrix_transpose
from tripoint.ops.reductions import max as max_
from tripoint.ops.reductions import mean
from tripoint.ops.reductions import sum as sum_
from tripoint.tensor import Tensor

Pair = int | Sequence[int]


@primitive(dtype=rules.kept(dt.real), shape=rules.same, kind="elementwise", zero_preserving=True)
def relu(x: Tensor, /) -> Tensor:
    """The larger of ``x`` and 0; NaN stays NaN. At 0 the gradient is a half, as `maximum` says.

    Raises:
        DTypeError: bools or complex numbers.
    """


@composite(dtype=rules.like_first(), shape=rules.same, kind="elementwise")
def relu_back(g: Tensor, x: Tensor, /) -> Tensor:
    """The gradient of `relu`: ``g`` where x > 0, half of it at 0, else 0.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """
    return where(equal(x, 0), multiply(g, 0.5), where(less(x, 0), 0.0, g))


@primitive(dtype=rules.promoted(dt.numeric), shape=rules.conv2d, bind=rules.bind_conv, kind="window")
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of images with kernels, as in PyTorch.

    Args:
        x: images (N, C, H, W).
        weight: kernels (O, C / groups, kh, kw).
        bias: (O,), added to each output plane.
        padding: zeros put around each image, per axis.

    Returns:
        (N, O, OH, OW) with OH = (H + 2 * padding - dilation * (kh - 1) - 1) // stride + 1.

    Raises:
        ShapeError: not four axes, channels or a bias that do not fit, or kernels that exceed the padded images.
        ArgumentError: a stride, dilation or ``groups`` below 1, or a padding below 0; or no ints.
        DTypeError: bools, or no dtype holds all.
    """


def _bind_conv_back(shapes: Any, shape: Any, *rest: Any) -> tuple[Any, ...]:
    return (tuple(shape), *rules.bind_conv(shapes, *rest))


def _input_shape(shapes: Any, *, input_shape: tuple[int, ...], **meta: Any) -> tuple[int, ...]:
    return input_shape


def _weight_shape(shapes: Any, *, weight_shape: tuple[int, ...], **meta: Any) -> tuple[int, ...]:
    return weight_shape


@primitive(dtype=rules.promoted(dt.numeric), shape=_input_shape, bind=_bind_conv_back, kind="window")
def conv2d_input(
    g: Tensor,
    weight: Tensor,
    /,
    *,
    input_shape: Sequence[int],
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Tensor:
    """The gradient of `conv2d` by its images, of ``input_shape``; linear in both operands."""


@primitive(dtype=rules.promoted(dt.numeric), shape=_weight_shape, bind=_bind_conv_back, kind="window")
def conv2d_weight(
    g: Tensor, x: Tensor, /, *, weight_shape: Sequence[int], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Tensor:
    """The gradient of `conv2d` by its kernels, of ``weight_shape``; linear in both operands."""


@primitive(dtype=rules.kept(dt.real), shape=rules.pooled, bind=rules.bind_pool, kind="window")
def max_pool2d(x: Tensor, /, *, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """The largest element of each window of (N, C, H, W); NaN if one is NaN. Ties share the gradient evenly.

    Args:
        stride: the kernel size unless given.
        padding: counts as minus infinity.

    Raises:
        ShapeError: not four axes, a window that exceeds the padded images, or a padding above half of the window.
        ArgumentError: a ``kernel_size`` or stride below 1, or a padding below 0; or no ints.
        DTypeError: bools or complex numbers.
    """


def _second_shape(shapes: Any, **meta: Any) -> tuple[int, ...]:
    return shapes[1]  # type: ignore[no-any-return]


@primitive(dtype=rules.kept(), shape=_second_shape, bind=rules.bind_pool, kind="window")
def max_pool2d_input(g: Tensor, x: Tensor, /, *, kernel_size: Pair, stride: Pair | None, padding: Pair) -> Tensor:
    """The gradient of `max_pool2d` by ``x``: each window's share divided among its largest elements."""


@primitive(dtype=rules.kept(), shape=rules.pooled, bind=rules.bind_pool, kind="window")
def max_pool2d_tangent(t: Tensor, x: Tensor, /, *, kernel_size: Pair, stride: Pair | None, padding: Pair) -> Tensor:
    """The mean of ``t`` over the largest elements of each window of ``x``; the adjoint of `max_pool2d_input`."""


def _floating(x: Tensor) -> Tensor:
    """Integers and bools in the default floating dtype, before differences of them overflow."""
    return astype(x, dt.Defaults.floating) if x.dtype in dt.integral or x.dtype is dt.bool_ else x


@composite(dtype=rules.floated(dt.real), shape=rules.same, bind=rules.bind_axis, kind="normalise")
def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, with the largest element subtracted first.

    Raises:
        ShapeError: the axis is out of range.
        ArgumentError: the axis is no int.
        DTypeError: complex elements.
    """
    x = _floating(x)
    if not x.size:
        return exp(x)  # as empty; the largest of nothing would be an error
    e = exp(subtract(x, max_(x.detach(), axis=axis, keepdims=True)))
    return divide(e, sum_(e, axis=axis, keepdims=True))


@composite(dtype=rules.floated(dt.real), shape=rules.same, bind=rules.bind_axis, kind="normalise")
def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, without its underflow.

    Raises:
        ShapeError: the axis is out of range.
        ArgumentError: the axis is no int.
        DTypeError: complex elements.
    """
    x = _floating(x)
    if not x.size:
        return log(x)
    shifted = subtract(x, max_(x.detach(), axis=axis, keepdims=True))
    return subtract(shifted, log(sum_(exp(shifted), axis=axis, keepdims=True)))


@primitive(dtype=rules.kept(), shape=lambda shapes, **meta: (shapes[0][0],), kind="indexing")
def pick(x: Tensor, labels: Tensor, /) -> Tensor:
    """Of each row of ``x`` (N, C) the element at ``labels`` (N,).

    Raises:
        ShapeError: shapes that do not go together.
        IndexingError: a label outside of 0 .. C - 1, or one that is no integer.
    """


@primitive(dtype=rules.kept(), shape=lambda shapes, *, classes: (*shapes[0], classes), kind="indexing")
def pick_back(g: Tensor, labels: Tensor, /, *, classes: int) -> Tensor:
    """Zeros (N, classes) with ``g`` (N,) at ``labels``; the adjoint of `pick`."""


def _loss_shape(shapes: Any, **meta: Any) -> tuple[int, ...]:
    return ()


@composite(dtype=rules.labelled(dt.floating), shape=_loss_shape, kind="loss")
def nll_loss(x: Tensor, labels: Tensor, /) -> Tensor:
    """Minus the mean over rows of ``x`` (N, C) at ``labels`` (N,): the loss of log-probabilities.

    Raises:
        ShapeError: shapes that do not go together.
        DTypeError: ``x`` is not floating, or labels that are no integers.
        IndexingError: a label outside of 0 to C - 1.
    """
    return multiply(mean(pick(x, labels)), -1)


@composite(dtype=rules.labelled(dt.floating), shape=rules.named, kind="loss")
def nll_loss_back(g: Tensor, labels: Tensor, /, *, shape: tuple[int, ...]) -> Tensor:
    """The gradient of `nll_loss` by its (N, C) operand: ``-g / N`` at the labels, else 0."""
    each = broadcast_to(divide(g, -shape[0]), (shape[0],))
    return pick_back(each, labels, classes=shape[1])


@composite(dtype=rules.like_first(), shape=rules.same, bind=rules.bind_axis, kind="normalise")
def log_softmax_back(g: Tensor, out: Tensor, /, *, axis: int) -> Tensor:
    """The gradient of `log_softmax`: ``g - exp(out) * sum(g)`` along the axis."""
    return subtract(g, multiply(exp(out), sum_(g, axis=axis, keepdims=True)))


def _cross_entropy_shape(shapes: Any, **meta: Any) -> tuple[int, ...]:
    logits, labels = shapes
    if len(logits) != 2 or labels != logits[:1]:
        raise ShapeError(f"cross_entropy takes logits (N, C) and labels (N,), not shapes {logits} and {labels}")
    return ()


@composite(dtype=rules.labelled(dt.floating), shape=_cross_entropy_shape, kind="loss")
def cross_entropy(logits: Tensor, labels: Tensor, /) -> Tensor:
    """The mean over rows of minus the log of the softmax at the row's label.

    Args:
        logits: (N, C), floating.
        labels: (N,), integers in 0 .. C - 1.

    Raises:
        ShapeError: shapes that do not go together.
        DTypeError: logits that are not floating, or labels that are no integers.
        IndexingError: a label outside of its range.
    """
    shape = logits.shape
    if len(shape) != 2 or labels.shape != shape[:1]:
        _cross_entropy_shape((shape, labels.shape))
    return nll_loss(log_softmax(logits, axis=1), labels)


def _linear_shape(shapes: Any, **meta: Any) -> tuple[int, ...]:
    x, weight, bias = shapes
    if len(weight) != 2:
        raise ArgumentError(f"linear: weight must have shape (out, in), not {weight}")
    if bias is not None and bias != weight[:1]:
        raise ShapeError(f"linear: bias has shape {bias}; weight {weight} needs ({weight[0]},)")
    return rules.matmul((x, weight[::-1]))


@composite(dtype=rules.promoted(dt.numeric), shape=_linear_shape, kind="product")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, /) -> Tensor:
    """``x @ weight.mT + bias``, with weight (out, in) and bias (out,) as in PyTorch.

    Raises:
        ArgumentError: ``weight`` has no two axes.
        ShapeError: sizes that do not go together.
    """
    if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        _linear_shape((x.shape, weight.shape, None if bias is None else bias.shape))
    out = matmul(x, matrix_transpose(weight))
    return out if bias is None else add(out, bias)
