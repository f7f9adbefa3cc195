"""Backends that compute wrong numbers: dtypes, NaN and infinities, zeros, subnormal numbers, rounding, division, slopes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from faults import Fault, replace, say
from toys import DTYPES, Kernels

import tripoint as tp
from tripoint.plugin import Capabilities

Make = Callable[[Any], Any]
_WIDE = (*DTYPES, "int16", "uint16", "uint32", "uint64", "complex128")


def fault(name: str, tier: int, operator: str, make: Make) -> Fault:
    """A fault in the kernel of one operator; ``make`` is given the right one."""
    return Fault(name, tier, operator, replace(**{operator: make}))


def wide(name: str, tier: int, operator: str, make: Make) -> Fault:
    """The same on a backend with more integer dtypes."""

    def spoil(kernels: Kernels, said: dict[str, Any]) -> None:
        said["capabilities"] = Capabilities(dtypes=_WIDE, lacks={})
        replace(**{operator: make})(kernels, said)

    return Fault(name, tier, operator, spoil)


def slope(name: str, operator: str, **derivative: Callable[..., Any]) -> Fault:
    """A wrong derivative."""
    return Fault(name, 4, operator, say(derivatives={operator: derivative}))


def on(which: str, wrong: Callable[..., Any]) -> Make:
    """Another function where every operand has this dtype, or a dtype of this kind."""

    def make(right: Any) -> Any:
        @wraps(right)
        def kernel(*operands: Any, **meta: Any) -> Any:
            arrays = [v for v in operands if isinstance(v, np.ndarray)]
            hit = bool(arrays) and all(which in (a.dtype.name, a.dtype.kind) for a in arrays)
            return wrong(*operands, **meta) if hit else right(*operands, **meta)

        return kernel

    return make


def changed(change: Callable[..., Any], which: str = "f") -> Make:
    """Results, and the operands that they are of, through a function, where the result has this dtype or kind."""

    def make(right: Any) -> Any:
        @wraps(right)
        def kernel(*operands: Any, **meta: Any) -> Any:
            out = right(*operands, **meta)
            return np.asarray(change(out, *operands), out.dtype) if which in (out.dtype.name, out.dtype.kind) else out

        return kernel

    return make


def first(change: Callable[[Any], Any], which: str = "f") -> Make:
    """The right function of changed operands, where they have this dtype or kind."""

    def make(right: Any) -> Any:
        def one(v: Any) -> Any:
            hit = isinstance(v, np.ndarray) and which in (v.dtype.name, v.dtype.kind)
            return np.asarray(change(v), v.dtype) if hit else v

        return wraps(right)(lambda *operands, **meta: right(*map(one, operands), **meta))

    return make


def both(*makes: Make) -> Make:
    """Several ways to spoil a kernel, one after the other."""

    def make(right: Any) -> Any:
        for one in makes:
            right = one(right)
        return right

    return make


def converted(change: Callable[[Any], Any], source: str, target: tp.DType) -> Make:
    """Conversions from one dtype (or kind) to another by way of something else."""

    def make(right: Any) -> Any:
        def astype(x: Any, *, target: Any) -> Any:
            hit = source in (x.dtype.name, x.dtype.kind) and target.dtype is wanted
            return np.asarray(change(x)).astype(right(x, target=target).dtype) if hit else right(x, target=target)

        return astype

    wanted = target
    return make


def _signed(fn: Any) -> Make:
    """uint64 as if it were int64."""

    def wrong(*operands: Any, **meta: Any) -> Any:
        out = np.asarray(fn(*[np.asarray(v, np.uint64).view(np.int64) for v in operands], **meta))
        return out.view(np.uint64) if out.dtype == np.int64 else out

    return on("uint64", wrong)


def _within(low: float, high: float) -> Make:
    return changed(lambda out, *of: np.where(np.isinf(out), np.clip(out, low, high), out))


def _flushed(x: Any) -> Any:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, x * 0, x)


_FLUSHES = both(changed(lambda out, *of: _flushed(out)), first(_flushed))


def _fmin(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return (
        np.fmin.reduce(x, axis=axis, keepdims=keepdims) if axis and x.size else np.min(x, axis=axis, keepdims=keepdims)
    )


def _last_nan(right: Any) -> Any:
    def argmax(x: Any, *, axis: Any, keepdims: bool) -> Any:
        out = right(x, axis=axis, keepdims=keepdims)
        if x.ndim != 1 or x.dtype.kind != "f" or not np.isnan(x).any():
            return out
        return np.full_like(out, np.flatnonzero(np.isnan(x))[-1])

    return argmax


def _last_smallest(right: Any) -> Any:
    def argmin(x: Any, *, axis: Any, keepdims: bool) -> Any:
        out = right(x, axis=axis, keepdims=keepdims)
        return (
            np.full_like(out, x.size - 1 - x[::-1].argmin()) if x.ndim == 1 and x.size and x.dtype.kind == "i" else out
        )

    return argmin


def _narrow_sum(right: Any) -> Any:
    def sum(x: Any, *, axis: Any, keepdims: bool, target: Any) -> Any:
        if x.dtype == np.int8 and target.dtype is tp.int64:
            return np.asarray(x.sum(axis=axis, keepdims=keepdims, dtype=np.int8)).astype(np.int64)
        return right(x, axis=axis, keepdims=keepdims, target=target)

    return sum


def _added_up(right: Any) -> Any:
    def ramp(*, start: Any, step: Any, count: int, target: Any) -> Any:
        if target.dtype is not tp.float32 or not count:
            return right(start=start, step=step, count=count, target=target)
        return np.cumsum(np.array([start, *[step] * (count - 1)], np.float32), dtype=np.float32)

    return ramp


def _by_products(right: Any) -> Any:
    def where(c: Any, x1: Any, x2: Any, *, target: Any) -> Any:
        if target.dtype is not tp.float32:
            return right(c, x1, x2, target=target)
        return (c * x1 + (1 - c.astype(np.float32)) * x2).astype(np.float32)

    return where


def _turned(right: Any) -> Any:
    return lambda x1, x2: right(x1, x2) if isinstance(x1, np.ndarray) else right(x2, x1)


def _single_numbers(right: Any) -> Any:
    return lambda x1, x2: right(x1, float(np.float32(x2)) if isinstance(x2, float) else x2)


def _finite_numbers(right: Any) -> Any:
    return lambda x1, x2: right(x1, float(np.clip(x2, -3e38, 3e38)) if isinstance(x2, float) else x2)


def _exponentials(x: Any) -> Any:
    e = np.exp(2 * x)
    return np.where(np.abs(x) < 5, (e - 1) / (e + 1), np.tanh(x))


def _squares(x1: Any, x2: Any) -> Any:
    return (x1 * np.conj(x2) / (np.real(x2) ** 2 + np.imag(x2) ** 2)).astype(np.result_type(x1, x2))


def _by_negatives(x: Any, *, axis: Any, keepdims: bool) -> Any:
    return np.asarray(-np.max(-x, axis=axis, keepdims=keepdims))


def _turn(x: Any) -> Any:
    return x.dtype.type(2 * np.pi)


def _by_bits(x1: Any, x2: Any) -> Any:
    a, b = (np.asarray(v, np.float32).view(np.int32) for v in (x1, x2))
    return (a == b) & ~np.isnan(x1)


def _not(right: Any, fn: Any) -> Any:
    return lambda x1, x2: right(x1, x2) if np.asarray(x1).dtype.kind == "c" else np.logical_not(fn(x1, x2))


def _skips_zeros(right: Any) -> Any:
    def matmul(x1: Any, x2: Any) -> Any:
        column = x1.ndim == x2.ndim == 2 and x2.shape[1] == 1 and x1.dtype.kind == "f"
        return right(np.where(x2.T == 0, 0, x1).astype(x1.dtype) if column else x1, x2)

    return matmul


def _signless(out: Any, *operands: Any) -> Any:
    return out + out.dtype.type(0)  # of -0.0 this makes 0.0


def _by_division(g: Any, x: Any, out: Any, axis: Any, keepdims: bool) -> Any:
    kept = keepdims or not axis
    return (g * out if kept else tp.expand_dims(g * out, axis=axis)) / x


NUMBERS = [
    # dtypes
    fault("difference of uint8 stops at 0", 1, "subtract", changed(lambda o, a, b: np.where(np.less(a, b), 0, o), "uint8")),
    fault("int8 summed up in int8", 2, "sum", _narrow_sum),
    wide("uint64 compared as int64", 1, "less", _signed(np.less)),
    wide("uint64 divided as int64", 1, "floor_divide", _signed(np.floor_divide)),
    wide("largest uint64 as int64", 2, "max", _signed(lambda x, *, axis, keepdims: x.max(axis=axis, keepdims=keepdims))),
    wide("uint64 to float64 as int64", 1, "astype", converted(lambda x: x.view(np.int64), "uint64", tp.float64)),
    wide("uint32 to float32 as int32", 1, "astype", converted(lambda x: x.view(np.int32), "uint32", tp.float32)),
    wide(
        "float64 to uint64 by int64", 1, "astype",
        converted(lambda x: np.clip(x, -(2.0**63), 2.0**63 - 1024).astype(np.int64), "float64", tp.uint64),
    ),
    fault(
        "float32 to int64 by int32", 1, "astype",
        converted(lambda x: np.clip(x, -(2.0**31), 2.0**31 - 128).astype(np.int32), "float32", tp.int64),
    ),
    fault("float64 to float16 by float32", 1, "astype", converted(lambda x: x.astype(np.float32), "float64", tp.float16)),
    fault("half to bool by int", 1, "astype", converted(lambda x: x.astype(np.int64), "f", tp.bool)),
    fault("bool plus bool is xor", 1, "add", on("bool", np.logical_xor)),
    fault("float16 stops at its largest", 1, "multiply", _within(-65504, 65504)),
    fault("float32 stops at its largest", 1, "add", _within(-3.4e38, 3.4e38)),
    fault("int64 powers by float64", 1, "pow", on("int64", lambda a, b: np.power(np.asarray(a, float), b).astype(np.int64))),
    fault(
        "smallest int8 by -1 saturates", 1, "floor_divide",
        changed(lambda o, a, b: np.where((a == -128) & (b == -1), 127, o), "int8"),
    ),
    fault("complex product conjugated", 1, "multiply", first(np.conj, "c")),
    fault("complex product of matrices conjugated", 3, "matmul", first(np.conj, "c")),
    fault("complex compared by real parts", 0, "equal", first(np.real, "c")),
    fault("complex is NaN by its real part", 1, "isnan", first(np.real, "c")),
    fault("complex is finite by its real part", 1, "isfinite", first(np.real, "c")),
    fault("complex to bool by its real part", 1, "astype", converted(np.real, "c", tp.bool)),
    fault("complex any by real parts", 2, "any", first(np.real, "c")),
    fault("complex quotient overflows", 1, "divide", on("c", _squares)),
    fault("complex size overflows", 1, "abs", on("c", lambda x: np.sqrt(x.real * x.real + x.imag * x.imag))),
    fault("complex root on the other side", 1, "sqrt", changed(lambda o, x: np.where(x.real < 0, -o, o), "c")),
    fault("complex logarithm without an angle", 1, "log", changed(lambda o, x: o.real, "c")),
    fault("imaginary parts not summed", 2, "sum", changed(lambda o, x: o.real, "c")),
    # NaN and infinities
    fault("smallest loses NaN", 2, "min", on("f", _fmin)),
    fault("argmin skips NaN", 2, "argmin", first(lambda x: np.where(np.isnan(x), np.inf, x))),
    fault("argmax of the last NaN", 2, "argmax", _last_nan),
    fault("all of NaN is false", 2, "all", first(lambda x: np.where(np.isnan(x), 0, x))),
    fault("sum skips NaN", 2, "sum", first(lambda x: np.where(np.isnan(x), 0, x))),
    fault("product skips NaN", 2, "prod", first(lambda x: np.where(np.isnan(x), 1, x))),
    fault("at least is not below", 1, "greater_equal", lambda right: _not(right, np.less)),
    fault("NaN does not differ", 1, "not_equal", lambda right: _not(right, lambda a, b: ~((a < b) | (a > b)))),
    fault("relu of NaN is 0", 3, "relu", first(lambda x: np.where(np.isnan(x), 0, x))),
    fault("sign of NaN is 0", 1, "sign", first(lambda x: np.where(np.isnan(x), 0, x))),
    fault("NaN is finite", 1, "isfinite", first(lambda x: np.where(np.isnan(x), 0, x))),
    fault("infinite is above alone", 1, "isinf", first(lambda x: np.maximum(x, 0))),
    fault("zero times infinity is zero", 1, "multiply", changed(lambda o, a, b: np.where((a == 0) | (b == 0), 0, o))),
    fault("zero by zero is zero", 1, "divide", changed(lambda o, a, b: np.where((a == 0) & (b == 0), 0, o))),
    fault("NaN to the power 0 is NaN", 1, "pow", changed(lambda o, a, b: np.where(np.isnan(a), np.nan, o))),
    fault("choice by products", 1, "where", _by_products),
    fault("product skips zeros", 3, "matmul", _skips_zeros),
    fault("infinite number", 1, "add", _finite_numbers),
    # zeros with a sign, subnormal and small numbers, rounding
    fault("zeros compared by bits", 0, "equal", on("float32", _by_bits)),
    fault("size keeps the sign of zero", 1, "abs", on("f", lambda x: np.where(x < 0, -x, x))),
    fault("by minus zero", 1, "divide", lambda right: lambda a, b: right(a, b + 0.0 if np.asarray(b).dtype.kind == "f" else b)),
    *[fault(f"minus zero of {name}", 1, name, changed(_signless)) for name in ("add", "divide", "sin", "sqrt")],
    *[
        fault(f"subnormal numbers of {name}", tier, name, _FLUSHES)
        for name, tier in (("copy", 0), ("add", 1), ("multiply", 1), ("astype", 1), ("max", 2))
    ],
    fault("subnormal numbers are zero", 0, "equal", first(_flushed)),
    fault("small exponentials vanish", 1, "exp", changed(lambda o, x: np.where(o < 1e-7, 0, o), "float32")),
    fault("small products vanish", 1, "multiply", changed(lambda o, a, b: np.where(np.abs(o) < 1e-9, 0 * o, o), "float32")),
    fault("tanh loses small numbers", 1, "tanh", on("f", lambda x: _exponentials(x).astype(x.dtype))),
    fault("logarithm near 1", 1, "log", first(lambda x: np.where(np.abs(x - 1) < 1e-3, 1, x))),
    fault("sines of large angles", 1, "sin", first(lambda x: x - _turn(x) * np.rint(x / _turn(x)))),
    fault("ramp by repeated addition", 0, "ramp", _added_up),
    # division, ties, numbers beside tensors
    fault("remainder of integers as in C", 1, "remainder", on("i", np.fmod)),
    fault("remainder of floats as in C", 1, "remainder", on("f", np.fmod)),
    fault("quotient cut toward 0", 1, "floor_divide", on("f", lambda a, b: np.trunc(np.divide(a, b)))),
    fault("floor of a rounded quotient", 1, "floor_divide", on("f", lambda a, b: np.floor(np.divide(a, b)))),
    fault("remainder by 0 is the dividend", 1, "remainder", changed(lambda o, a, b: np.where(np.equal(b, 0), a, o), "i")),
    fault("remainder by infinity", 1, "remainder", changed(lambda o, a, b: np.where(np.isinf(b), np.nan, o))),
    fault("argmin of the last", 2, "argmin", _last_smallest),
    fault("smallest by the largest negative", 2, "min", on("i", _by_negatives)),
    fault("number on the left turned", 1, "subtract", _turned),
    fault("number on the left compared turned", 1, "less", _turned),
    fault("Python float by float32", 1, "add", _single_numbers),
    # slopes
    slope("slope of a product by division", "prod", x=_by_division),
    slope("slope of sqrt at 0", "sqrt", x=lambda g, out: tp.where(out == 0, 0.0, g * 0.5 / out)),
    slope("slope of log at 0", "log", x=lambda g, x: tp.where(x == 0, 0.0, g / x)),
    slope(
        "slope of a power of 0", "pow",
        x1=lambda g, x1, x2: g * x2 * tp.pow(x1, x2) / x1, x2=lambda g, x1, out: g * out * tp.log(x1),
    ),
    slope(
        "slope of minimum to both", "minimum",
        x1=lambda g, x1, x2: tp.where(x1 <= x2, g, 0.0), x2=lambda g, x1, x2: tp.where(x2 <= x1, g, 0.0),
    ),
    slope("slope of relu at 0", "relu", x=lambda g, x: tp.where(x >= 0, g, 0.0)),
    slope("slope of a quotient", "divide", x1=lambda g, x2: g / x2, x2=lambda g, x1, x2: g * x1 / (x2 * x2)),
    slope("slope forgotten", "multiply", x1=lambda g, x2: g * x2, x2=lambda g: None),
    slope("slope of another shape", "exp", x=lambda g, out: tp.sum(g * out)),
]  # fmt: skip
