"""Elementwise operators: one result per element, operands broadcast together."""

from __future__ import annotations

import operator
from typing import Any

from tripoint import dtypes as dt
from tripoint import rules
from tripoint.dispatcher.declare import composite, inplace, primitive
from tripoint.tensor import Operand, Tensor

_ORDERED = (dt.boolean, dt.real)
_BITS = (dt.boolean, dt.integral)
_BINARY: dict[str, Any] = {"shape": rules.broadcast, "kind": "elementwise"}
_UNARY: dict[str, Any] = {"shape": rules.same, "kind": "elementwise"}


@primitive(dtype=rules.promoted(), commutative=True, minimal=True, **_BINARY)
def add(x1: Operand, x2: Operand, /) -> Tensor:
    """Elementwise sum; of bools the logical or, as in NumPy.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: no dtype holds both, as of uint64 and int64.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(dt.numeric), minimal=True, **_BINARY)
def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """Elementwise difference of numbers.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: bools, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(), commutative=True, minimal=True, **_BINARY)
def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """Elementwise product; of bools the logical and.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: no dtype holds both, as of uint64 and int64.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.floated(), minimal=True, **_BINARY)
def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Elementwise quotient; integers are divided in the default floating dtype. x / 0 is an infinity or NaN.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: no dtype holds both, as of uint64 and int64.
    """


@primitive(dtype=rules.promoted(dt.real), **_BINARY)
def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Elementwise quotient rounded toward minus infinity; integer division by zero gives 0.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: bools or complex numbers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(dt.real), **_BINARY)
def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """What `floor_divide` leaves, with the sign of ``x2``; of an integer division by zero 0.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: bools or complex numbers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(dt.numeric), **_BINARY)
def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """``x1`` to the power ``x2``; an integer to a negative integer is an ArgumentError.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: bools, or no dtype holds both.
        ArgumentError: an integer dtype, and a negative exponent among tensors or numbers. A kernel that would compute something
            asks for it by ``check.exponent``.
    """


@primitive(dtype=rules.promoted(_ORDERED), commutative=True, minimal=True, **_BINARY)
def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger of two; NaN if either is NaN. At ties the gradient is halved between both.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: complex numbers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(_ORDERED), commutative=True, **_BINARY)
def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller of two; NaN if either is NaN. At ties the gradient is halved between both.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: complex numbers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.compared(), numbers=operator.eq, commutative=True, minimal=True, **_BINARY)
def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether elements are equal, as bool.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: no dtype holds both, as of uint64 and int64.
    """


@primitive(dtype=rules.compared(), numbers=operator.ne, commutative=True, **_BINARY)
def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether elements differ, as bool.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: no dtype holds both, as of uint64 and int64.
    """


@primitive(dtype=rules.compared(_ORDERED), numbers=operator.lt, **_BINARY)
def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether ``x1 < x2``, as bool.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: complex numbers, or no dtype holds both.
    """


@primitive(dtype=rules.compared(_ORDERED), numbers=operator.le, **_BINARY)
def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether ``x1 <= x2``, as bool.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: complex numbers, or no dtype holds both.
    """


@primitive(dtype=rules.compared(_ORDERED), numbers=operator.gt, minimal=True, **_BINARY)
def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether ``x1 > x2``, as bool.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: complex numbers, or no dtype holds both.
    """


@primitive(dtype=rules.compared(_ORDERED), numbers=operator.ge, **_BINARY)
def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether ``x1 >= x2``, as bool.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: complex numbers, or no dtype holds both.
    """


@primitive(dtype=rules.logical(), commutative=True, **_BINARY)
def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Logical and; numbers count as true unless they are 0.

    Raises:
        ShapeError: the shapes do not broadcast together.
    """


@primitive(dtype=rules.logical(), commutative=True, **_BINARY)
def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Logical or; numbers count as true unless they are 0.

    Raises:
        ShapeError: the shapes do not broadcast together.
    """


@primitive(dtype=rules.logical(), commutative=True, **_BINARY)
def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Logical exclusive or; numbers count as true unless they are 0.

    Raises:
        ShapeError: the shapes do not broadcast together.
    """


@primitive(dtype=rules.logical(), **_UNARY)
def logical_not(x: Tensor, /) -> Tensor:
    """Logical not; numbers count as true unless they are 0.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.promoted(_BITS), commutative=True, **_BINARY)
def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Bitwise and of integers, logical and of bools.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: dtypes other than bool and integers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(_BITS), commutative=True, **_BINARY)
def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Bitwise or of integers, logical or of bools.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: dtypes other than bool and integers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.promoted(_BITS), commutative=True, **_BINARY)
def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Bitwise exclusive or of integers, logical exclusive or of bools.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: dtypes other than bool and integers, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@primitive(dtype=rules.kept(_BITS), **_UNARY)
def bitwise_invert(x: Tensor, /) -> Tensor:
    """Bitwise not of integers, logical not of bools.

    Raises:
        DTypeError: a dtype other than bool and integers.
    """


@primitive(dtype=rules.kept(dt.numeric), zero_preserving=True, minimal=True, **_UNARY)
def negative(x: Tensor, /) -> Tensor:
    """``-x``.

    Raises:
        DTypeError: bools.
    """


@primitive(dtype=rules.absolute(), zero_preserving=True, **_UNARY)
def abs(x: Tensor, /) -> Tensor:
    """Absolute value; of complex elements the modulus, in their parts' dtype.

    Raises:
        DTypeError: bools.
    """


@primitive(dtype=rules.kept(dt.numeric), zero_preserving=True, **_UNARY)
def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 by the sign of each element; NaN stays NaN.

    Raises:
        DTypeError: bools.
    """


@primitive(dtype=rules.kept(dt.numeric), zero_preserving=True, **_UNARY)
def square(x: Tensor, /) -> Tensor:
    """``x * x``.

    Raises:
        DTypeError: bools.
    """


@primitive(dtype=rules.floated(), minimal=True, **_UNARY)
def exp(x: Tensor, /) -> Tensor:
    """E to the power of each element.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.floated(), minimal=True, **_UNARY)
def log(x: Tensor, /) -> Tensor:
    """Natural logarithm; of 0 minus infinity, of negative numbers NaN.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.floated(), zero_preserving=True, minimal=True, **_UNARY)
def sqrt(x: Tensor, /) -> Tensor:
    """Square root; of negative numbers NaN.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.floated(), zero_preserving=True, **_UNARY)
def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.floated(), zero_preserving=True, **_UNARY)
def sin(x: Tensor, /) -> Tensor:
    """Sine of an angle in radians.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.floated(), **_UNARY)
def cos(x: Tensor, /) -> Tensor:
    """Cosine of an angle in radians.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.truth(), **_UNARY)
def isnan(x: Tensor, /) -> Tensor:
    """Whether elements are NaN, as bool.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.truth(), **_UNARY)
def isfinite(x: Tensor, /) -> Tensor:
    """Whether elements are neither NaN nor infinite, as bool.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.truth(), **_UNARY)
def isinf(x: Tensor, /) -> Tensor:
    """Whether elements are infinite, as bool.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.selected(), shape=rules.broadcast, kind="select", minimal=True)
def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """``x1`` where the bool ``condition`` holds, else ``x2``; the three broadcast together.

    The operand not chosen gets the gradient 0, whatever its value, so NaN does not leak from it.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: a condition that is not bool, or no dtype holds both.
        ScalarRangeError: a Python number that the integer dtype of the tensor cannot hold.
    """


@composite(kind="elementwise")
def positive(x: Tensor, /) -> Tensor:
    """``+x``: a copy.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """
    from tripoint.ops.conversion import copy

    return copy(x)


@composite(kind="elementwise")
def clip(x: Tensor, /, min: float | None = None, max: float | None = None) -> Tensor:
    """``x`` limited to ``min .. max``; NaN stays NaN. At an edge the gradient is halved, as `maximum` says.

    Raises:
        DTypeError: complex elements, or no dtype holds ``x`` and a bound that is a tensor.
        ShapeError: a bound that is a tensor, and its shape does not broadcast with that of ``x``.
        ScalarRangeError: a bound that the integer dtype of ``x`` cannot hold.
    """
    if min is not None:
        x = maximum(x, min)
    if max is not None:
        x = minimum(x, max)
    return x if min is not None or max is not None else positive(x)


@composite(dtype=rules.promoted(dt.numeric), shape=rules.broadcast, kind="elementwise")
def multiply_back(g: Tensor, slope: Tensor, /) -> Tensor:
    """``g * slope`` for a gradient ``g``: 0 where ``g`` is 0, even if the slope is infinite or NaN there.

    So what `where` did not choose gets the gradient 0 however it was computed, as in ``where(x > 0, log(x), 0)`` at 0.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: bools, or no dtype holds both.
    """
    return where(equal(g, 0), 0, multiply(g, slope))


@composite(dtype=rules.promoted(dt.numeric), shape=rules.broadcast, kind="elementwise")
def divide_back(g: Tensor, x: Tensor, /) -> Tensor:
    """``g / x`` for a gradient ``g``: 0 where ``g`` is 0, as `multiply_back`.

    Raises:
        ShapeError: the shapes do not broadcast together.
        DTypeError: bools, or no dtype holds both.
    """
    return where(equal(g, 0), 0, divide(g, x))


add_ = inplace(add)
subtract_ = inplace(subtract)
multiply_ = inplace(multiply)
divide_ = inplace(divide)
floor_divide_ = inplace(floor_divide)
remainder_ = inplace(remainder)
pow_ = inplace(pow)
bitwise_and_ = inplace(bitwise_and)
bitwise_or_ = inplace(bitwise_or)
bitwise_xor_ = inplace(bitwise_xor)
exp_ = inplace(exp)
negative_ = inplace(negative)
