"""An operator of one's own: ``mylib::swiglu``, with rules, a decomposition, a derivative and samples for the kit.

Its package offers it as ``tripoint.swiglu``. It runs wherever its parts do; a fused kernel for it needs the two rules.
"""

import math

import tripoint as tp
from tripoint import Tensor
from tripoint.errors import ArgumentError, ShapeError
from tripoint.plugin import Sample, check, composite, derivative, floating, rules


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + tp.exp(-x))


def samples() -> list[Sample]:
    """Calls that the conformance kit makes, the last two of which must be refused."""
    x, gate = [[0.5, -1.0], [2.0, 0.0]], [[1.0, -2.0], [0.0, 3.0]]
    return [
        Sample((x, gate)),
        Sample((x, [1.0, -0.5]), {"beta": 0.5}),
        Sample(([], [])),
        Sample(([1.0, 2.0], [1.0, 2.0, 3.0]), error=ShapeError),
        Sample((x, gate), {"beta": math.inf}, error=ArgumentError),
    ]


def finite(shapes: object, beta: float) -> tuple[float]:
    check.number("mylib::swiglu", beta=beta)
    return (beta,)


@composite(
    namespace="mylib",
    dtype=rules.promoted(floating),
    shape=rules.broadcast,
    bind=finite,
    kind="elementwise",
    samples=samples,
)
def swiglu(x: Tensor, gate: Tensor, /, *, beta: float = 1.0) -> Tensor:
    """``x * gate * sigmoid(beta * gate)``.

    Raises:
        ArgumentError: ``beta`` is no finite number.
    """
    return x * (gate * sigmoid(gate * beta))


def by_gate(g: Tensor, x: Tensor, gate: Tensor, beta: float) -> Tensor:
    """The product's slope: s + beta * gate * s * (1 - s), s the sigmoid. It saves the operands, which its names ask for."""
    s = sigmoid(gate * beta)
    return g * x * (s + gate * beta * s * (1.0 - s))


derivative(swiglu, x=lambda g, gate, beta: g * gate * sigmoid(gate * beta), gate=by_gate)
