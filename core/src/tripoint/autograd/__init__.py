"""Reverse-mode differentiation: the record, the layer that writes it, and the engine that walks it back."""

from __future__ import annotations

from tripoint.autograd import methods as methods  # which fills Tensor
from tripoint.autograd.engine import backward, grad, gradients
from tripoint.autograd.record import Autograd

__all__ = ["Autograd", "backward", "grad", "gradients"]
