"""Derivatives of operators of neural networks."""

from __future__ import annotations

from tripoint.kernels import derivative
from tripoint.ops import nn as ops
from tripoint.ops.elementwise import multiply, subtract
from tripoint.ops.reductions import sum as sum_

derivative(ops.relu, x=lambda g, x: ops.relu_back(g, x))
derivative(ops.relu_back, g=lambda g, x: ops.relu_back(g, x), x=lambda g: None)
derivative(
    ops.conv2d,
    x=lambda g, weight, x_shape, stride, padding, dilation, groups: ops.conv2d_input(
        g, weight, input_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    weight=lambda g, x, weight_shape, stride, padding, dilation, groups: ops.conv2d_weight(
        g, x, weight_shape=weight_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    bias=lambda g: sum_(g, axis=(0, 2, 3)),
)
# Both are linear in both operands, so their derivatives are conv2d and each other. The incoming gradient is named v.
derivative(
    ops.conv2d_input,
    g=lambda v, weight, stride, padding, dilation, groups: ops.conv2d(
        v, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    weight=lambda v, g, weight_shape, stride, padding, dilation, groups: ops.conv2d_weight(
        g, v, weight_shape=weight_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
derivative(
    ops.conv2d_weight,
    g=lambda v, x, stride, padding, dilation, groups: ops.conv2d(
        x, v, None, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
    x=lambda v, g, x_shape, stride, padding, dilation, groups: ops.conv2d_input(
        g, v, input_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    ),
)
derivative(
    ops.max_pool2d,
    x=lambda g, x, kernel_size, stride, padding: ops.max_pool2d_input(
        g, x, kernel_size=kernel_size, stride=stride, padding=padding
    ),
)
derivative(
    ops.max_pool2d_input,
    g=lambda v, x, kernel_size, stride, padding: ops.max_pool2d_tangent(
        v, x, kernel_size=kernel_size, stride=stride, padding=padding
    ),
    x=lambda v: None,
)
derivative(
    ops.max_pool2d_tangent,
    t=lambda v, x, kernel_size, stride, padding: ops.max_pool2d_input(
        v, x, kernel_size=kernel_size, stride=stride, padding=padding
    ),
    x=lambda v: None,
)
derivative(
    ops.softmax,
    x=lambda g, out, axis: multiply(out, subtract(g, sum_(multiply(g, out), axis=axis, keepdims=True))),
)
derivative(ops.log_softmax, x=lambda g, out, axis: ops.log_softmax_back(g, out, axis=axis))
derivative(ops.pick, x=lambda g, labels, x_shape: ops.pick_back(g, labels, classes=x_shape[1]))
derivative(ops.pick_back, g=lambda g, labels: ops.pick(g, labels))
derivative(ops.nll_loss, x=lambda g, labels, x_shape: ops.nll_loss_back(g, labels, shape=x_shape))
derivative(ops.nll_loss_back, g=lambda v, labels: ops.nll_loss(v, labels))
