"""Images whose channels lie in blocks, on the CPU. Owns ``cpu.blocked`` for floating dtypes and bool."""

from __future__ import annotations

from typing import Any

import numpy as np

import tripoint
from tripoint.errors import LayoutError
from tripoint.plugin import Backend, DType, Key, Layout, LayoutSpec, Tensor, payload, strided
from tripoint_blocked import _kernels
from tripoint_blocked._blocked import DEFAULT, Array, Blocked, block, block_of, check, unblock
from tripoint_dense_cpu import numpy_dtype

__all__ = ["Blocked", "backend", "blocked", "physical"]


def _gradient_like(g: Tensor, out: Tensor) -> Tensor:
    """A gradient in blocks of the size that the tensor has which it is the gradient of."""
    descriptor = payload(out).descriptor
    if g.layout is blocked and payload(g).descriptor == descriptor:
        return g
    return g.to(layout=blocked(descriptor))


blocked = Layout(
    "blocked",
    gradient_like=_gradient_like,
    attributes={
        "physical_shape": lambda x: payload(x).data.shape,
        "block": lambda x: payload(x).block,
        "descriptor": lambda x: payload(x).descriptor,
    },
)


def physical(x: Tensor, /) -> Array:
    """The buffer of a blocked tensor as it lies in memory, (N, ceil(C / block), H, W, block): a read-only NumPy array
    that shares it. Lanes beyond C are zero.

    Raises:
        LayoutError: the tensor is not blocked.
    """
    if x.layout is not blocked:
        raise LayoutError(f"a tensor of layout {x.layout} has no blocked buffer; convert it with .to(layout='blocked')")
    view: Array = payload(x).data.view()
    view.flags.writeable = False
    return view


def _describe(p: Blocked) -> dict[str, Any]:
    dtype: DType = getattr(tripoint, p.data.dtype.name)
    address = p.data.__array_interface__["data"][0]
    return {"dtype": dtype, "address": address, "nbytes": p.data.nbytes, "strides": None, "readonly": False}


backend = Backend(
    "cpu",
    blocked,
    payload=Blocked,
    describe=_describe,
    aliases=lambda out, x: bool(np.may_share_memory(out.data, x.data)),
    to_strided=unblock,
    from_strided=lambda dense, like: block(dense, like.block),
    cheap=True,  # a round trip copies twice, which costs no more than most operators do
    frozen=True,
    summary=lambda p: p.descriptor,
)


@backend.from_("cpu.strided")
def from_strided(x: Array, *, target: Key, spec: LayoutSpec | None) -> Blocked:
    size = DEFAULT if spec is None else block_of(spec)
    check(x.shape, target.dtype)
    return block(x, size)


@backend.to("cpu.strided")
def to_strided(x: Blocked) -> Array:
    return unblock(x)


@backend.kernel("copy")
def copy(x: Blocked) -> Blocked:
    return Blocked(x.shape, x.data.copy(), x.block)


@backend.kernel("astype")
def astype(x: Blocked, *, target: Key) -> Blocked:
    # Of its own, since the way through strided memory would forget the block size.
    check(x.shape, target.dtype)
    with np.errstate(all="ignore"):
        return Blocked(x.shape, x.data.astype(numpy_dtype(target.dtype)), x.block)


backend.kernels(
    relu=_kernels.relu,
    relu_back=_kernels.relu_back,
    add=_kernels.add,
    max_pool2d=_kernels.max_pool2d,
    max_pool2d_input=_kernels.max_pool2d_input,
)
# Kernels of a convolution are few and small: they come strided, and so does their gradient.
backend.kernel("conv2d", args=(blocked, strided, strided), out=blocked, check_first=True)(_kernels.conv2d)
backend.kernel("conv2d_input", args=(blocked, strided), out=blocked)(_kernels.conv2d_input)
backend.kernel("conv2d_weight", args=(blocked, blocked), out=strided)(_kernels.conv2d_weight)
