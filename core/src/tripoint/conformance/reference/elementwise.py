"""Elementwise operators over arrays of Python numbers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from tripoint.conformance.reference.values import INEXACT, KIND, Array, mapped, result_dtype

Number = Any


def _together(fn: Callable[[Number, Number], Number], kind: str = "same") -> Callable[[Any, Any], Array]:
    """Operands promoted together. ``kind`` says what comes out: the same dtype, a floating one, or bool.

    A comparison reads a number beside integers as it is, whether or not their dtype holds it.
    """

    def run(x1: Any, x2: Any) -> Array:
        dtype = result_dtype((x1, x2))
        if kind == "float" and dtype not in INEXACT:
            dtype = "float32"
        exact = kind == "bool" and KIND[dtype] in ("int", "uint")
        a, b = (v.astype(dtype) if isinstance(v, Array) else v if exact else Array(dtype, (), [v]) for v in (x1, x2))
        return mapped(fn, "bool" if kind == "bool" else dtype, a, b)

    return run


def _alone(fn: Callable[[Number], Number], kind: str = "same") -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        dtype = x.dtype
        if kind == "float" and dtype not in INEXACT:
            dtype = "float32"
        return mapped(fn, "bool" if kind == "bool" else dtype, x.astype(dtype))

    return run


def quotient(a: Number, b: Number) -> Number:
    """Division as IEEE 754 has it, where Python raises."""
    if b == 0:
        if isinstance(a, complex) or isinstance(b, complex):
            return complex(math.nan, math.nan)
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _floor_divide(a: Number, b: Number) -> Number:
    if b == 0:
        return 0 if isinstance(a, int) else quotient(a, b)
    return math.nan if isinstance(a, float) and math.isinf(a) else a // b


def _remainder(a: Number, b: Number) -> Number:
    if b == 0 or (isinstance(a, float) and math.isinf(a)):
        return 0 if isinstance(a, int) else math.nan
    return a % b


def _power(a: Number, b: Number) -> Number:
    if isinstance(a, complex) or isinstance(b, complex) or isinstance(a, int):
        return a**b
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:  # 0 to a negative power, or a negative number to a fraction
        if a == 0:
            return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
        return math.nan


def larger(a: Number, b: Number) -> Number:
    """The larger of two numbers; NaN where either is."""
    return a if a != a or (b == b and a >= b) else b


def smaller(a: Number, b: Number) -> Number:
    """The smaller of two numbers; NaN where either is."""
    return a if a != a or (b == b and a <= b) else b


add = _together(lambda a, b: (a or b) if isinstance(a, bool) else a + b)
subtract = _together(lambda a, b: a - b)
multiply = _together(lambda a, b: (a and b) if isinstance(a, bool) else a * b)
divide = _together(quotient, "float")
floor_divide = _together(_floor_divide)
remainder = _together(_remainder)
pow = _together(_power)
maximum = _together(larger)
minimum = _together(smaller)
equal = _together(lambda a, b: a == b, "bool")
not_equal = _together(lambda a, b: a != b, "bool")
less = _together(lambda a, b: a < b, "bool")
less_equal = _together(lambda a, b: a <= b, "bool")
greater = _together(lambda a, b: a > b, "bool")
greater_equal = _together(lambda a, b: a >= b, "bool")
bitwise_and = _together(lambda a, b: a & b)
bitwise_or = _together(lambda a, b: a | b)
bitwise_xor = _together(lambda a, b: a ^ b)


def _logical(fn: Callable[[bool, bool], bool]) -> Callable[[Any, Any], Array]:
    return lambda x1, x2: mapped(lambda a, b: fn(bool(a), bool(b)), "bool", x1, x2)


logical_and = _logical(lambda a, b: a and b)
logical_or = _logical(lambda a, b: a or b)
logical_xor = _logical(lambda a, b: a is not b)


def logical_not(x: Array) -> Array:
    """Whether elements are 0."""
    return mapped(lambda a: not a, "bool", x)


def abs(x: Array) -> Array:
    """Absolute value, in the parts' dtype for complex ones."""
    return mapped(_size, {"complex64": "float32", "complex128": "float64"}.get(x.dtype, x.dtype), x)


def _size(a: Number) -> Number:
    if isinstance(a, complex):
        return math.hypot(a.real, a.imag)
    return math.fabs(a) if isinstance(a, float) else a if a >= 0 else -a


def _sign(a: Number) -> Number:
    if a != a or a == 0:
        return a
    return a / math.hypot(a.real, a.imag) if isinstance(a, complex) else math.copysign(1, a)


def _exp(a: Number) -> Number:
    if isinstance(a, complex):
        return cmath.exp(a)
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _log(a: Number) -> Number:
    if isinstance(a, complex):
        return cmath.log(a)
    return -math.inf if a == 0 else math.nan if a < 0 else math.log(a)


def _sqrt(a: Number) -> Number:
    if isinstance(a, complex):
        return cmath.sqrt(a)
    return math.nan if a < 0 else math.sqrt(a)


def _either(real: Callable[[float], float], other: Callable[[complex], complex]) -> Callable[[Number], Number]:
    def fn(a: Number) -> Number:
        if isinstance(a, complex):
            return other(a)
        return math.nan if math.isinf(a) else real(a)

    return fn


bitwise_invert = _alone(lambda a: not a if isinstance(a, bool) else ~a)
negative = _alone(lambda a: -a)
positive = _alone(lambda a: a)
sign = _alone(_sign)
square = _alone(lambda a: a * a)
exp = _alone(_exp, "float")
log = _alone(_log, "float")
sqrt = _alone(_sqrt, "float")
tanh = _alone(lambda a: cmath.tanh(a) if isinstance(a, complex) else math.tanh(a), "float")
sin = _alone(_either(math.sin, cmath.sin), "float")
cos = _alone(_either(math.cos, cmath.cos), "float")
isnan = _alone(lambda a: a != a, "bool")
isfinite = _alone(cmath.isfinite, "bool")
isinf = _alone(cmath.isinf, "bool")


def where(condition: Array, x1: Any, x2: Any) -> Array:
    """A choice between two."""
    if any(isinstance(v, Array) for v in (x1, x2)):
        dtype = result_dtype([v for v in (x1, x2)])
    else:
        kinds = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
        dtype = kinds[max((type(x1), type(x2)), key=list(kinds).index)]
    return mapped(lambda c, a, b: a if c else b, dtype, condition, x1, x2)


def clip(x: Array, min: Any = None, max: Any = None) -> Array:
    """Limited from below and above."""
    out = x
    if min is not None:
        out = maximum(out, min)
    return out if max is None else minimum(out, max)


def multiply_back(g: Array, slope: Array) -> Array:
    """Products, and 0 where the first operand is 0."""
    return mapped(lambda a, b: 0 if a == 0 else a * b, result_dtype((g, slope)), g, slope)


def divide_back(g: Array, x: Array) -> Array:
    """Quotients, and 0 where the first operand is 0."""
    return mapped(lambda a, b: 0 if a == 0 else quotient(a, b), result_dtype((g, x)), g, x)
