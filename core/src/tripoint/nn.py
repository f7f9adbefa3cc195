"""Operators of neural networks: ``tripoint.nn``."""

from __future__ import annotations

from tripoint.ops.nn import conv2d as conv2d
from tripoint.ops.nn import cross_entropy as cross_entropy
from tripoint.ops.nn import linear as linear
from tripoint.ops.nn import log_softmax as log_softmax
from tripoint.ops.nn import max_pool2d as max_pool2d
from tripoint.ops.nn import relu as relu
from tripoint.ops.nn import softmax as softmax

__all__ = ["conv2d", "cross_entropy", "linear", "log_softmax", "max_pool2d", "relu", "softmax"]
