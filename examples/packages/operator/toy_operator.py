"""An operator of one's own: ``mylib::swiglu``, with rules, a decomposition, a derivative and samples for the kit.

Its package offers the name ``tripoint.swiglu``. It runs on every device, layout and dtype that has what it is composed of;
a backend may register a fused kernel for ``"mylib::swiglu"``, which needs the two rules.
"""

import tripoint as tp
from tripoint import Tensor
from tripoint.plugin import check, composite, derivative, floating, rules


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + tp.exp(-x))


def samples() -> list[tuple[tuple[object, ...], dict[str, object]]]:
    """Calls that a test may make: operands, as nested lists, and metadata."""
    return [(([[0.5, -1.0], [2.0, 0.0]], [[1.0, -2.0], [0.0, 3.0]]), {"beta": 1.0}), (([], []), {"beta": 0.5})]


@composite(
    namespace="mylib",
    dtype=rules.promoted(floating),
    shape=rules.broadcast,
    kind="elementwise",
    samples=samples,
)
def swiglu(x: Tensor, gate: Tensor, /, *, beta: float = 1.0) -> Tensor:
    """``x * gate * sigmoid(beta * gate)``.

    Raises:
        ArgumentError: ``beta`` is no finite number.
    """
    check.number("mylib::swiglu", beta=beta)
    return x * (gate * sigmoid(gate * beta))


def by_gate(g: Tensor, x: Tensor, gate: Tensor, beta: float) -> Tensor:
    """The product's slope: s + beta * gate * s * (1 - s), s the sigmoid. It saves the operands, which its names ask for."""
    s = sigmoid(gate * beta)
    return g * x * (s + gate * beta * s * (1.0 - s))


derivative(swiglu, x=lambda g, gate, beta: g * gate * sigmoid(gate * beta), gate=by_gate)
