"""Derivatives of conversions: the gradient takes the way back."""

from __future__ import annotations

from tripoint.kernels import derivative, passes
from tripoint.keys import Key
from tripoint.ops import conversion as ops
from tripoint.tensor import Tensor


def _back(g: Tensor, x_key: Key) -> Tensor:
    # A layout that fits gradients itself (COO: on its pattern) is served by the engine.
    layout = None if x_key.layout.gradient_like is not None else x_key.layout
    return ops.to(g, device=x_key.device, layout=layout)


derivative(ops.to, x=_back)
derivative(ops.astype, x=passes)
derivative(ops.copy, x=passes)
