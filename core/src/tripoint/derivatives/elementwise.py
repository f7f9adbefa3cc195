"""Derivatives of elementwise operators."""

from __future__ import annotations

from typing import Any

from tripoint.kernels import derivative, passes
from tripoint.ops import elementwise as ops
from tripoint.ops.elementwise import (
    cos,
    divide,
    divide_back,
    equal,
    floor_divide,
    less,
    log,
    multiply,
    multiply_back,
    negative,
    sign,
    sin,
    square,
    subtract,
    where,
)
from tripoint.tensor import Tensor

derivative(ops.add, x1=passes, x2=passes)
derivative(ops.subtract, x1=passes, x2=lambda g: negative(g))
derivative(ops.multiply, x1=lambda g, x2: multiply(g, x2), x2=lambda g, x1: multiply(g, x1))


def _over(g: Tensor, x: Any) -> Tensor:
    return divide_back(g, x) if isinstance(x, Tensor) else divide(g, x)


derivative(
    ops.divide,
    x1=lambda g, x2: _over(g, x2),
    # The quotient is made again instead of saved: users often go on to change it in place.
    x2=lambda g, x1, x2: negative(divide_back(multiply_back(g, divide(x1, x2)), x2)),
)
derivative(ops.multiply_back, g=lambda v, slope: multiply_back(v, slope), slope=lambda v, g: multiply(v, g))
derivative(
    ops.divide_back,
    g=lambda v, x: divide_back(v, x),
    x=lambda v, x, out: negative(divide_back(multiply(v, out), x)),
)
derivative(ops.floor_divide, x1=lambda g: None, x2=lambda g: None)
derivative(ops.remainder, x1=passes, x2=lambda g, x1, x2: negative(multiply(g, floor_divide(x1, x2))))


def _pow_x1(g: Tensor, x1: Any, x2: Any) -> Tensor | None:
    # x ** 0 is constant, at x = 0 too, where 0 * x ** -1 would be NaN.
    if not isinstance(x2, Tensor):
        if x2 == 0:
            return None
        slope = multiply(ops.pow(x1, x2 - 1), x2)
        return multiply(g, slope) if x2 >= 1 else multiply_back(g, slope)
    return multiply_back(g, multiply(ops.pow(x1, subtract(where(equal(x2, 0), 1.0, x2), 1)), x2))


def _pow_x2(g: Tensor, x1: Any, out: Tensor) -> Tensor | None:
    import math

    if not isinstance(x1, Tensor):
        if x1 == 0:  # flat wherever it is finite
            return multiply(g, 0.0)
        return multiply(g, multiply(out, math.log(x1) if x1 > 0 else math.nan))
    zero = equal(x1, 0)
    return multiply_back(g, where(zero, 0.0, multiply(out, log(where(zero, 1.0, x1)))))


derivative(ops.pow, x1=_pow_x1, x2=_pow_x2)


def _larger(g: Tensor, mine: Any, other: Any) -> Tensor:
    return where(equal(mine, other), multiply(g, 0.5), where(less(mine, other), 0.0, g))


def _smaller(g: Tensor, mine: Any, other: Any) -> Tensor:
    return where(equal(mine, other), multiply(g, 0.5), where(less(other, mine), 0.0, g))


derivative(
    ops.maximum,
    x1=lambda g, x1, x2: _larger(g, x1, x2),
    x2=lambda g, x1, x2: _larger(g, x2, x1),
)
derivative(
    ops.minimum,
    x1=lambda g, x1, x2: _smaller(g, x1, x2),
    x2=lambda g, x1, x2: _smaller(g, x2, x1),
)
derivative(ops.negative, x=lambda g: negative(g))
derivative(ops.abs, x=lambda g, x: multiply(g, sign(x)))
derivative(ops.sign, x=lambda g: None)
derivative(ops.square, x=lambda g, x: multiply(g, multiply(x, 2)))
derivative(ops.exp, x=lambda g, out: multiply_back(g, out))
derivative(ops.log, x=lambda g, x: divide_back(g, x))
derivative(ops.sqrt, x=lambda g, out: divide_back(multiply(g, 0.5), out))
derivative(ops.tanh, x=lambda g, out: multiply(g, subtract(1, square(out))))
derivative(ops.sin, x=lambda g, x: multiply_back(g, cos(x)))
derivative(ops.cos, x=lambda g, x: negative(multiply_back(g, sin(x))))
derivative(
    ops.where,
    x1=lambda g, condition: where(condition, g, 0.0),
    x2=lambda g, condition: where(condition, 0.0, g),
)
