"""Deliberately wrong backends: a right toy backend with one fault each, and the tier that is meant to catch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from toys import Kernels, quiet

import tripoint as tp

Said = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A fault, which operator must fail for it and in which tier.

    ``with_`` names further operators that the run is about.
    """

    name: str
    tier: int
    operator: str
    spoil: Callable[[Kernels, Said], None] = field(repr=False)
    with_: tuple[str, ...] = ()


def replace(**wrong: Callable[..., Any]) -> Callable[[Kernels, Said], None]:
    """Kernels in place of right ones; each is given the right one first."""

    def spoil(kernels: Kernels, said: Said) -> None:
        for name, make in wrong.items():
            kernels[name] = quiet(make(kernels[name]))

    return spoil


def say(**wrong: Any) -> Callable[[Kernels, Said], None]:
    """What the backend says of itself."""
    return lambda kernels, said: said.update(wrong)


def _off_by_one_axis(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        moved = tuple((a + 1) % x.ndim for a in axis) if x.ndim and len(axis) < x.ndim else axis
        out = right(x, axis=moved, keepdims=keepdims, target=target)
        wanted = right(x, axis=axis, keepdims=keepdims, target=target).shape
        return np.resize(out, wanted)

    return sum


def _single(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        out = right(x1, x2)
        return out.astype(np.float32) if out.dtype == np.float64 else out

    return add


def _in_place(right: Any) -> Any:
    def exp(x: Any) -> Any:
        out = right(x)
        if out.dtype == x.dtype:
            x[...] = out
        return out

    return exp


def _last_of_equals(right: Any) -> Any:
    def argmax(x: Any, *, axis: Any, keepdims: bool) -> Any:
        flat = x.reshape(-1) if axis is None else x
        at = 0 if axis is None else axis
        if not x.size:
            return right(x, axis=axis, keepdims=keepdims)
        out = flat.shape[at] - 1 - np.flip(flat, at).argmax(at)
        nan = right(x, axis=axis, keepdims=keepdims)
        out = np.asarray(out).reshape(nan.shape)
        return np.where(np.isnan(np.take(flat, 0) * 0.0), nan, out) if x.dtype.kind == "f" else out

    return argmax


def _halves_up(right: Any) -> Any:
    def astype(x: Any, *, target: Any) -> Any:
        if target.dtype is tp.float16 and x.dtype in (np.float32, np.float64):
            step = np.spacing(np.abs(x).astype(np.float16)).astype(x.dtype)
            return (np.floor(x / step + 0.5) * step).astype(np.float16)
        return right(x, target=target)

    return astype


def _to_nearest(right: Any) -> Any:
    def astype(x: Any, *, target: Any) -> Any:
        return right(np.rint(x) if x.dtype.kind == "f" and target.dtype in tp.plugin.integral else x, target=target)

    return astype


def _through_single(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        if x.dtype == np.int64 and target.dtype is tp.int64:
            return np.asarray(np.sum(x.astype(np.float32), axis=axis, keepdims=keepdims)).astype(np.int64)
        return right(x, axis=axis, keepdims=keepdims, target=target)

    return sum


def _half_sum(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        if x.dtype == np.float16 and len(axis) == x.ndim == 1:
            return np.asarray(np.cumsum(x, dtype=np.float16)[-1:].sum(dtype=np.float16)).reshape(
                (1,) if keepdims else ()
            )
        return right(x, axis=axis, keepdims=keepdims, target=target)

    return sum


def _steps_forward(right: Any) -> Any:
    def multiply(x1: Any, x2: Any) -> Any:
        if isinstance(x1, np.ndarray) and any(s < 0 for s in x1.strides):
            x1 = x1[tuple(slice(None, None, -1 if s < 0 else 1) for s in x1.strides)]
        return right(x1, x2)

    return multiply


def _clamped(right: Any) -> Any:
    def take(x: Any, indices: Any, *, axis: int) -> Any:
        right(x, indices, axis=axis)  # which refuses what is out of range
        return right(x, np.maximum(indices, 0), axis=axis)

    return take


def _first_axis(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        vector = isinstance(x1, np.ndarray) and isinstance(x2, np.ndarray) and x1.ndim == 2 and x2.ndim == 1
        return right(x1, x2[:, None] if vector and x1.shape[0] == x2.shape[0] == x1.shape[1] else x2)

    return add


def _scalars(right: Any) -> Any:
    def exp(x: Any) -> Any:
        out = right(x)
        return out[()] if out.ndim == 0 else out

    return exp


def _exact_loop(right: Any) -> Any:
    def subtract_(x1: Any, x2: Any) -> None:
        if not x1.flags.writeable:
            raise ValueError("read-only")
        other = np.broadcast_to(x2, x1.shape)
        for at in np.ndindex(x1.shape):
            x1[at] = x1[at] - other[at]

    return subtract_


def _elsewhere(right: Any) -> Any:
    def add_(x1: Any, x2: Any) -> None:
        right(x1.copy(), x2)
        if not x1.flags.writeable:
            raise ValueError("read-only")

    return add_


def _writable(right: Any) -> Any:
    def broadcast_to(x: Any, *, shape: Any) -> Any:
        return np.lib.stride_tricks.as_strided(
            x,
            shape,
            [
                0 if s == 1 else t
                for s, t in zip(
                    (1,) * (len(shape) - x.ndim) + x.shape, (0,) * (len(shape) - x.ndim) + x.strides, strict=True
                )
            ],
        )

    return broadcast_to


def _lookup(right: Any) -> Any:
    def take(x: Any, indices: Any, *, axis: int) -> Any:
        try:
            return right(x, indices, axis=axis)
        except IndexError as error:
            raise KeyError(str(error)) from None

    return take


def _of_nothing(right: Any) -> Any:
    def max(x: Any, *, axis: Any, keepdims: bool) -> Any:
        if x.dtype.kind == "f":
            return np.max(x, axis=axis, keepdims=keepdims, initial=-np.inf)
        return right(x, axis=axis, keepdims=keepdims)

    return max


def _empty_is_one(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        out = right(x, axis=axis, keepdims=keepdims, target=target)
        return out if x.size else np.ones_like(out)

    return sum


def _saturated(right: Any) -> Any:
    def matmul(x1: Any, x2: Any) -> Any:
        if x1.dtype != np.int8:
            return right(x1, x2)
        return np.clip(right(x1.astype(np.int64), x2.astype(np.int64)), -128, 127).astype(np.int8)

    return matmul


def _undilated(right: Any) -> Any:
    def conv2d(x: Any, weight: Any, bias: Any, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        out = right(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
        near = right(x, weight, bias, stride=stride, padding=padding, dilation=(1, 1), groups=groups)
        return np.ascontiguousarray(near[:, :, : out.shape[2], : out.shape[3]])

    return conv2d


def _unshifted(right: Any) -> Any:
    def softmax(x: Any, *, axis: int) -> Any:
        e = np.exp(x)
        return e / e.sum(axis, keepdims=True)

    return softmax


def _alias(right: Any) -> Any:
    def copy(x: Any) -> Any:
        return x[...]

    return copy


def _far(right: Any) -> Any:
    def exp(x: Any) -> Any:
        out = right(x)
        far = (np.abs(x) > 4.5) & (x != np.rint(x))
        return np.where(far, out.astype(np.float16), out).astype(out.dtype) if x.dtype.kind == "f" else out

    return exp


def _text(right: Any) -> Any:
    def to_text(x: Any) -> str:
        return f"{len(x)} rows" if x.ndim != 1 else str(x)

    return to_text


def _copied(right: Any) -> Any:
    return lambda x, *, key: right(x, key=key).copy()


def _step_lost(right: Any) -> Any:
    def getitem(x: Any, *, key: Any) -> Any:
        return right(
            x,
            key=tuple(
                slice(k.start, k.stop, np.sign(k.step)) if isinstance(k, slice) and k.step == -2 else k for k in key
            ),
        )

    return getitem


def _pad_lanes(kernels: Kernels, said: Said) -> None:
    """``exp`` runs over the whole buffer and ``sum`` adds up the whole buffer, relying on zeros behind the elements."""

    def lanes(x: Any) -> Any:
        owner = x.base if isinstance(x.base, np.ndarray) else None
        whole = owner is not None and owner.ndim == 1 and owner.size % 4 == 0 and x.flags.c_contiguous
        return owner if whole and 0 < x.size < owner.size else None

    def padded(flat: Any, shape: Any) -> Any:
        return flat[: int(np.prod(shape))].reshape(shape)

    right_exp, right_sum = kernels["exp"], kernels["sum"]

    def exp(x: Any) -> Any:
        flat = np.zeros(-(-x.size // 4) * 4, x.dtype)
        flat[: x.size] = x.reshape(-1)
        return padded(right_exp(flat), x.shape)

    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        buffer = lanes(x)
        if buffer is not None and len(axis) == x.ndim and not keepdims and target.dtype is tp.float32:
            return np.asarray(buffer.sum(dtype=np.float32))
        return right_sum(x, axis=axis, keepdims=keepdims, target=target)

    kernels["exp"], kernels["sum"] = quiet(exp), quiet(sum)


def _nan_equal(right: Any) -> Any:
    return lambda x1, x2: np.logical_or(right(x1, x2), (x1 != x1) & (x2 != x2))


def _minus_one(right: Any) -> Any:
    def floor_divide(x1: Any, x2: Any) -> Any:
        out = right(x1, x2)
        return np.where(np.equal(x2, 0), out.dtype.type(-1), out) if out.dtype.kind == "i" else out

    return floor_divide


def _to_all(g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    return tp.where(x == tp.max(x), g, 0.0)


FAULTS = [
    Fault("aliasing copy", 0, "copy", replace(copy=_alias)),
    Fault("wrong promotion", 1, "add", replace(add=_single)),
    Fault("mutated operand", 1, "exp", replace(exp=_in_place)),
    Fault("lost NaN", 1, "maximum", replace(maximum=lambda right: lambda x1, x2: np.fmax(x1, x2))),
    Fault("NaN equals itself", 0, "equal", replace(equal=_nan_equal)),
    Fault("wrong rounding of halves", 1, "astype", replace(astype=_halves_up)),
    Fault("rounded instead of cut", 1, "astype", replace(astype=_to_nearest)),
    Fault("broadcast along the wrong axis", 1, "add", replace(add=_first_axis)),
    Fault("wrong class of a 0-d result", 1, "exp", lambda k, s: (replace(exp=_scalars)(k, s), say(coerce=None)(k, s))[0]),
    Fault("wrong sign of zero", 1, "negative", replace(negative=lambda right: lambda x: 0 - x)),
    Fault("division of integers by zero", 1, "floor_divide", replace(floor_divide=_minus_one)),
    Fault("off-by-one axis", 2, "sum", replace(sum=_off_by_one_axis)),
    Fault("wrong sum of nothing", 2, "sum", replace(sum=_empty_is_one)),
    Fault("int64 added up in float32", 2, "sum", replace(sum=_through_single)),
    Fault("float16 added up in float16", 2, "sum", replace(sum=_half_sum)),
    Fault("wrong argmax at ties", 2, "argmax", replace(argmax=_last_of_equals)),
    Fault("largest of nothing", 2, "max", replace(max=_of_nothing)),
    Fault("copying view", 2, "getitem", replace(getitem=_copied)),
    Fault("lost step", 2, "getitem", replace(getitem=_step_lost)),
    Fault("dropped negative stride", 2, "multiply", replace(multiply=_steps_forward)),
    Fault("wrong index wrap", 2, "take", replace(take=_clamped)),
    Fault("wrong class of error", 2, "take", replace(take=_lookup)),
    Fault("read-only ignored", 2, "broadcast_to", replace(broadcast_to=_writable)),
    Fault("stale version", 2, "reshape", say(aliases=lambda out, x: False)),
    Fault("overlap ignored", 2, "subtract_", replace(subtract_=_exact_loop)),
    Fault("write into a copy", 2, "add_", replace(add_=_elsewhere)),
    Fault("wrong pad lane", 2, "exp", _pad_lanes, ("sum",)),
    Fault("saturated product", 3, "matmul", replace(matmul=_saturated)),
    Fault("dilation ignored", 3, "conv2d", replace(conv2d=_undilated)),
    Fault("softmax that overflows", 3, "softmax", replace(softmax=_unshifted)),
    Fault("wrong gradient", 4, "tanh", say(derivatives={"tanh": {"x": lambda g, out: g * (1 - out)}})),
    Fault("gradient not shared at ties", 4, "max", say(derivatives={"max": {"x": _to_all}})),
    Fault("text fails", 5, "print", replace(to_text=_text)),
    Fault("imprecise far from zero", 6, "exp", replace(exp=_far)),
]  # fmt: skip
