"""What differentiation adds to Tensor."""

from __future__ import annotations

from tripoint.autograd.engine import backward
from tripoint.autograd.node import Leaf
from tripoint.dispatcher.views import refresh
from tripoint.dtypes import complex_floating
from tripoint.errors import ArgumentError, AutogradError, NotBuiltYetError, ShapeError
from tripoint.storage import View
from tripoint.tensor import Tensor

__all__ = ["fill"]


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Ask for gradients of what is computed from this tensor, or stop asking; returns the tensor.

    Raises:
        AutogradError: the dtype is not differentiable, or ``False`` on a tensor that was computed from others.
    """
    if not requires_grad and isinstance(self._node, Leaf):
        self._node = None
        self._key = self._key.without("autograd")
        return self
    refresh(self)
    if requires_grad:
        if self.dtype.gradient is None:
            raise AutogradError(f"gradients are for floating dtypes, not {self.dtype}; convert with .to(dtype=...)")
        if self.dtype in complex_floating:
            raise NotBuiltYetError("gradients of complex tensors are planned; compute with a pair of real tensors")
        if not self._key.autograd:
            self._node = Leaf(self)
            self._key = self._key.recorded
            if isinstance(self._alias, View):
                self._alias.seen = self._alias.version  # a history of its own begins
        return self
    if self._key.autograd:
        raise AutogradError("a tensor that was computed from recorded ones stays recorded; use detach()")
    return self


def requires_grad(self: Tensor) -> bool:
    """Whether what is computed from this tensor is recorded."""
    refresh(self)
    return self._key.autograd


def is_leaf(self: Tensor) -> bool:
    """Whether the tensor was not computed from recorded tensors."""
    refresh(self)
    return self._node is None or isinstance(self._node, Leaf)


def get_grad(self: Tensor) -> Tensor | None:
    """The gradient that backward put here, or ``None``."""
    node = self._node
    return node.grad if node.__class__ is Leaf else None


def set_grad(self: Tensor, value: Tensor | None) -> None:
    """Set or, with ``None``, drop the gradient.

    Raises:
        AutogradError: no gradients are asked for, or another dtype or device.
        ArgumentError: no tensor.
        ShapeError: another shape.
    """
    if self._node.__class__ is not Leaf:
        if value is None:
            return
        raise AutogradError("a gradient can be set on a leaf that gradients are asked for; call requires_grad_() first")
    if value is not None:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"a gradient is a tensor or None, not a {type(value).__name__}")
        if value.shape != self.shape:
            raise ShapeError(f"the gradient has shape {value.shape}, the tensor has shape {self.shape}")
        if value.device is not self.device or value.dtype is not self.dtype.gradient:
            raise AutogradError(
                f"the gradient is {value.dtype} on {value.device}; a gradient of this tensor is {self.dtype.gradient} on "
                f"{self.device}"
            )
    self._node.grad = value


def fill() -> None:
    """Put the methods on the class."""
    for name, value in {
        "backward": backward,
        "requires_grad_": requires_grad_,
        "requires_grad": property(requires_grad),
        "is_leaf": property(is_leaf),
        "grad": property(get_grad, set_grad),
    }.items():
        setattr(Tensor, name, value)


fill()
