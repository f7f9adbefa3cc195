"""Deliberately wrong backends: a right toy backend with one fault each, and the tier that is meant to catch it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from toys import Kernels, describe, pooled, quiet

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


def _tanh_once(g: Any, out: Any) -> Any:
    return g * (1 - out.detach() * out.detach())


def _exp_single(g: Any, out: Any) -> Any:
    return g * out * (1.001 if out.dtype is tp.float32 else 1.0)


def _square_flat(g: Any, x: Any) -> Any:
    return g * x * (2.0 if x.ndim else 3.0)


def _to_all(g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    return tp.where(x == tp.max(x), g, 0.0)


def _lost(right: Any) -> Any:
    """Writes into what is not contiguous go into a copy."""

    def write(x1: Any, x2: Any) -> None:
        if not x1.flags.writeable:
            raise ValueError("read-only")
        right(x1 if x1.flags.c_contiguous else np.ascontiguousarray(x1), x2)

    return write


def _tensors_lost(right: Any) -> Any:
    lost = _lost(right)
    return lambda x1, x2: (lost if isinstance(x2, np.ndarray) else right)(x1, x2)


def _as_it_lies(x: Any) -> Any:
    """The elements in the order of memory, as if strides did not matter."""
    return x.ravel(order="K").reshape(x.shape)


def _strides_of_x2(right: Any) -> Any:
    def add_(x1: Any, x2: Any) -> None:
        right(x1, _as_it_lies(x2) if isinstance(x2, np.ndarray) and x2.ndim > 1 else x2)

    return add_


def _narrow(wide: str, narrow: str) -> Any:
    """A kernel that computes in a narrower dtype than that of its operands."""

    def make(right: Any) -> Any:
        def kernel(*operands: Any, **meta: Any) -> Any:
            first = operands[0]
            listed = isinstance(first, (list, tuple))
            arrays = first if listed else [v for v in operands if isinstance(v, np.ndarray)]
            if all(a.dtype != wide for a in arrays):
                return right(*operands, **meta)
            less = [
                v.astype(narrow) if getattr(v, "dtype", None) == wide else v for v in (first if listed else operands)
            ]
            out = right(less, **meta) if listed else right(*less, **meta)
            return out.astype(wide) if out.dtype == narrow else out

        return kernel

    return make


def _cast_by(narrow: Any, source: Any, target_dtype: Any) -> Any:
    def make(right: Any) -> Any:
        def astype(x: Any, *, target: Any) -> Any:
            hit = x.dtype == source and target.dtype is target_dtype
            return right(x.astype(narrow) if hit else x, target=target)

        return astype

    return make


def _full_by_float(right: Any) -> Any:
    def full(*, shape: Any, fill_value: Any, target: Any) -> Any:
        small = type(fill_value) is int and abs(fill_value) < 2**62 + 9
        return right(shape=shape, fill_value=int(float(fill_value)) if small else fill_value, target=target)

    return full


def _number_by_float(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        return right(x1, int(np.float32(x2)) if type(x2) is int and abs(x2) < 2**62 + 9 else x2)

    return add


def _from_lowest(right: Any) -> Any:
    """The largest element, but never less than the smallest finite number."""

    def kernel(x: Any, **meta: Any) -> Any:
        out = right(x, **meta)
        return np.maximum(out, np.finfo(x.dtype).min) if x.dtype.kind == "f" else out

    return kernel


def _nan_is_false(right: Any) -> Any:
    return lambda x, **meta: right(np.nan_to_num(x, nan=0.0) if x.dtype.kind == "f" else x, **meta)


def _softmax_of_infinity(right: Any) -> Any:
    def softmax(x: Any, *, axis: int) -> Any:
        out = right(x, axis=axis)
        return np.where(np.isneginf(x), np.nan, out) if x.dtype.kind == "f" else out

    return softmax


def _rolled(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        out = right(x, axis=axis, keepdims=keepdims, target=target)
        return np.roll(out, 1) if 1 < len(axis) < x.ndim and keepdims else out

    return sum


def _scratch(right: Any) -> Any:
    last: list[Any] = [None]

    def exp(x: Any) -> Any:
        last[0] = right(x)
        time.sleep(0.0002)
        return last[0]

    return exp


def _by_rows(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        arrays = isinstance(x1, np.ndarray) and isinstance(x2, np.ndarray) and x1.shape == x2.shape
        columns = arrays and x1.flags.c_contiguous and x2.flags.f_contiguous and not x2.flags.c_contiguous
        return right(x1, _as_it_lies(x2) if columns else x2)

    return add


def _no_repeats(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        repeats = isinstance(x2, np.ndarray) and x2.size > 1 and 0 in x2.strides
        return right(x1, np.zeros_like(x2) if repeats else x2)

    return add


def _backwards(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        crossed = x.ndim > 2 and not x.flags.c_contiguous and not x.flags.f_contiguous
        return right(x[::-1] if crossed else x, axis=axis, keepdims=keepdims, target=target)

    return sum


def _stack_by_rows(right: Any) -> Any:
    return lambda x1, x2: right(x1, _as_it_lies(x2) if min(x1.ndim, x2.ndim) > 2 else x2)


def _clipped(fn: Any) -> Any:
    def make(right: Any) -> Any:
        def kernel(*operands: Any) -> Any:
            if any(not isinstance(v, np.ndarray) or v.dtype != np.int8 for v in operands):
                return right(*operands)
            return np.clip(fn(*[v.astype(np.int64) for v in operands]), -128, 127).astype(np.int8)

        return kernel

    return make


def _two_for_three(right: Any) -> Any:
    def getitem(x: Any, *, key: Any) -> Any:
        steps = {3: 2, -3: -2}
        return right(
            x, key=tuple(slice(k.start, k.stop, steps.get(k.step, k.step)) if isinstance(k, slice) else k for k in key)
        )

    return getitem


def _stride_or_groups(right: Any) -> Any:
    def conv2d(x: Any, weight: Any, bias: Any, *, stride: Any, groups: int, **meta: Any) -> Any:
        out = right(x, weight, bias, stride=stride, groups=groups, **meta)
        return 2 * out if groups > 1 and stride != (1, 1) else out

    return conv2d


def _one_block(right: Any) -> Any:
    def add(x1: Any, x2: Any) -> Any:
        out = right(x1, x2)
        if out.size > 64:
            out.reshape(-1)[64:] = 0
        return out

    return add


def _bools_once(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        out = right(x, axis=axis, keepdims=keepdims, target=target)
        return (out != 0).astype(out.dtype) if x.dtype == bool else out

    return sum


def _precise(name: str, wide: str, narrow: str, tier: int = 1) -> Fault:
    return Fault(f"{name} of {wide} in {narrow}", tier, name, replace(**{name: _narrow(wide, narrow)}))


def _describing(**wrong: Callable[[Any], Any]) -> Callable[[Kernels, Said], None]:
    """Entries of the description in place of right ones, or beside them; each is a function of the array."""
    return say(describe=lambda p: {**describe(p), **{name: fn(p) for name, fn in wrong.items()}})


def _fails(x: Any) -> Any:
    return x.elements


def _rounded_float64(x: Any) -> Any:
    return x.astype(np.float32).astype(np.float64) if x.dtype == np.float64 else x.copy()


_TIERS = {"copy": 0, "equal": 0, "max": 2, "argmax": 2, "concat": 2, "take": 2, "matmul": 3, "conv2d": 3}

FAULTS = [
    *[_precise(name, "float64", "float32", _TIERS.get(name, 1)) for name in (
        "add", "subtract", "multiply", "negative", "maximum", "square", "copy", "abs", "matmul", "conv2d", "take", "where",
    )],
    *[_precise(name, "int64", "float64", _TIERS.get(name, 1)) for name in (
        "add", "subtract", "multiply", "maximum", "equal", "less", "max", "argmax", "abs", "negative", "square", "concat",
        "copy",
    )],
    Fault("nothing moves it there", 0, "to", say(held=None)),
    Fault("nothing moves it there, and nothing is declared", 0, "to", say(held=None, capabilities=None)),
    Fault("nothing brings it back", 0, "to", say(given=None)),
    Fault("moving it there raises", 0, "to", say(held=_fails)),
    Fault("moving it there doubles", 0, "to", say(held=lambda x: x + x)),
    Fault("moving it there rounds", 0, "to", say(held=_rounded_float64)),
    Fault("bringing it back doubles", 0, "to", say(given=lambda x: x + x)),
    Fault("full by float64", 0, "full", replace(full=_full_by_float)),
    Fault("Python number by float32", 1, "add", replace(add=_number_by_float)),
    Fault("int64 to float64 by float32", 1, "astype", replace(astype=_cast_by(np.float32, np.int64, tp.float64))),
    Fault("int32 to float64 by float32", 1, "astype", replace(astype=_cast_by(np.float32, np.int32, tp.float64))),
    Fault("float64 to int64 by float32", 1, "astype", replace(astype=_cast_by(np.float32, np.float64, tp.int64))),
    Fault("difference of int8 saturates", 1, "subtract", replace(subtract=_clipped(np.subtract))),
    Fault("absolute value saturates", 1, "abs", replace(abs=_clipped(np.abs))),
    Fault("more than a block", 1, "add", replace(add=_one_block)),
    Fault("sum of bools is any", 2, "sum", replace(sum=_bools_once), ("less", "isnan")),
    Fault("largest of minus infinity", 2, "max", replace(max=_from_lowest)),
    Fault("any of NaN", 2, "any", replace(any=_nan_is_false)),
    Fault("two axes of three", 2, "sum", replace(sum=_rolled)),
    Fault("rows with columns", 2, "add", replace(add=_by_rows)),
    Fault("repeated operand", 2, "add", replace(add=_no_repeats)),
    Fault("crossed axes", 2, "sum", replace(sum=_backwards)),
    Fault("step of three", 2, "getitem", replace(getitem=_two_for_three)),
    *[
        Fault(f"{name} lost in a view", 2, name, replace(**{name: _lost}))
        for name in ("add_", "multiply_", "subtract_", "assign_")
    ],
    Fault("tensor lost in a view", 2, "assign_", replace(assign_=_tensors_lost)),
    Fault("strides of x2 ignored", 2, "add_", replace(add_=_strides_of_x2)),
    Fault("stack of turned matrices", 3, "matmul", replace(matmul=_stack_by_rows)),
    Fault("window of minus infinity", 3, "max_pool2d", replace(max_pool2d=_from_lowest)),
    Fault("softmax at minus infinity", 3, "softmax", replace(softmax=_softmax_of_infinity)),
    Fault("stride with groups", 3, "conv2d", replace(conv2d=_stride_or_groups)),
    Fault("second derivative lost", 4, "tanh", say(derivatives={"tanh": {"x": _tanh_once}})),
    Fault("gradient in float32", 4, "exp", say(derivatives={"exp": {"x": _exp_single}})),
    Fault("gradient without axes", 4, "square", say(derivatives={"square": {"x": _square_flat}})),
    Fault("gradient of abs at 0", 4, "abs", say(derivatives={"abs": {"x": lambda g, x: g * tp.where(x >= 0, 1.0, -1.0)}})),
    Fault("shared scratch", 5, "exp", replace(exp=_scratch)),
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
    Fault("a result loses its block", 0, "copy", pooled(owns=False)),
    Fault("a view loses its block", 2, "flip", pooled(keeps=False)),
    Fault("a copy for the CPU shares memory", 2, "lifetimes", pooled(copies=False)),
    Fault("strides in bytes and no sizes", 2, "memory", _describing(strides=lambda p: p.strides, nbytes=lambda p: None)),
    Fault("strides of the base", 2, "memory", _describing(strides=lambda p: tuple(abs(s) // p.itemsize for s in p.strides))),
    Fault("storage of a view alone", 2, "memory", _describing(address=lambda p: p.__array_interface__["data"][0])),
    Fault("size of a view alone", 2, "memory", _describing(nbytes=lambda p: p.nbytes)),
    Fault("offset lost", 2, "memory", _describing(offset=lambda p: 0)),
    Fault("size of an element in bits", 2, "memory", _describing(itemsize=lambda p: 8 * p.itemsize)),
    Fault("wrong gradient", 4, "tanh", say(derivatives={"tanh": {"x": lambda g, out: g * (1 - out)}})),
    Fault("gradient not shared at ties", 4, "max", say(derivatives={"max": {"x": _to_all}})),
    Fault("text fails", 5, "print", replace(to_text=_text)),
    Fault("imprecise far from zero", 6, "exp", replace(exp=_far)),
]  # fmt: skip
