"""Derivatives of the operators, in files named as the families. Loaded when the first call is recorded.

Conventions: at ties `max`, `min`, `maximum`, `minimum`, `relu` and pooling share the gradient evenly, so equal functions
have equal gradients; an element that `where` does not choose gets the gradient 0, whatever its value. Where a slope can be
infinite or NaN at a finite operand, a gradient of 0 stays 0 on the way through (`multiply_back`, `divide_back`). A number
format that decodes cheaply is differentiated in the dtype of its gradients, see `kernels.differentiated`: what was saved is
decoded, and rounding counts as the identity.
"""

from __future__ import annotations

from tripoint.derivatives import conversion, elementwise, indexing, linalg, manipulation, nn, reductions

__all__ = ["conversion", "elementwise", "indexing", "linalg", "manipulation", "nn", "reductions"]
