"""What operators should compute, in pure Python: nested lists and ``math``, for tiny shapes.

It is independent of every backend and of the core's own rules: integers are exact and wrap around, floats are computed in
double precision and rounded once to their dtype. Files are named as those of ``tripoint.ops``.
"""

from __future__ import annotations

from tripoint.conformance.reference import elementwise as elementwise
from tripoint.conformance.reference import manipulation as manipulation
from tripoint.conformance.reference import nn as nn
from tripoint.conformance.reference import reductions as reductions
from tripoint.conformance.reference.values import Array as Array

__all__ = ["Array", "elementwise", "manipulation", "nn", "reductions"]
