"""Images whose channels lie in blocks, on the CPU. Owns ``cpu.blocked`` for floating dtypes and bool."""

from __future__ import annotations

from typing import Any

import numpy as np

import tripoint
from tripoint.errors import LayoutError
from tripoint.plugin import Backend, Capabilities, DType, Key, Layout, LayoutSpec, Tensor, payload, strided
from tripoint_blocked import _kernels
from tripoint_blocked._blocked import DEFAULT, Array, Blocked, block, block_of, check, clear_pads, empty, unblock
from tripoint_dense_cpu import number, numpy_dtype

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


def _dtype(array: Array) -> DType:
    dtype: DType = getattr(tripoint, array.dtype.name)
    return dtype


def _describe(p: Blocked) -> dict[str, Any]:
    address = p.data.__array_interface__["data"][0]
    return {"dtype": _dtype(p.data), "address": address, "nbytes": p.data.nbytes, "strides": None, "readonly": False}


def _like(dense: Array, like: Blocked) -> Blocked:
    check(dense.shape, _dtype(dense))  # bools plus a number are integers
    return block(dense, like.block)


backend = Backend(
    "cpu",
    blocked,
    payload=Blocked,
    describe=_describe,
    aliases=lambda out, x: bool(np.may_share_memory(out.data, x.data)),
    to_strided=unblock,
    from_strided=_like,
    cheap=True,  # a round trip copies twice, which costs no more than most operators do
    frozen=True,
    summary=lambda p: p.descriptor,
    spec=lambda p: blocked(p.descriptor),
    capabilities=Capabilities(
        dtypes=("floating", "bool"),
        ranks=(4, 4),
        lacks={"to_numpy": "blocks are no array of NumPy's; convert first, x.to(layout='strided')"},
    ),
)


def _new(shape: tuple[int, ...], value: Any, target: Key, spec: LayoutSpec | None) -> Blocked:
    check(shape, target.dtype)
    n, c, h, w = shape
    filling = number(value, numpy_dtype(target.dtype))
    made = empty((n, c, h, w), DEFAULT if spec is None else block_of(spec), filling.dtype)
    made.data[...] = filling
    clear_pads(made)
    return made


@backend.kernel("zeros")
def zeros(*, shape: tuple[int, ...], target: Key, spec: LayoutSpec | None) -> Blocked:
    return _new(shape, 0, target, spec)


@backend.kernel("ones")
def ones(*, shape: tuple[int, ...], target: Key, spec: LayoutSpec | None) -> Blocked:
    return _new(shape, 1, target, spec)


@backend.kernel("full")
def full(*, shape: tuple[int, ...], fill_value: Any, target: Key, spec: LayoutSpec | None) -> Blocked:
    return _new(shape, fill_value, target, spec)


# Pad lanes have to be zeros, and all others may as well be.
backend.kernel("empty")(zeros)


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
    max_pool2d_input=_kernels.max_pool2d_input,
)
backend.kernel("max_pool2d", check_first=True)(_kernels.max_pool2d)
# Kernels of a convolution are few and small: they come strided, and so does their gradient.
backend.kernel("conv2d", args=(blocked, strided, strided), out=blocked, check_first=True)(_kernels.conv2d)
backend.kernel("conv2d_input", args=(blocked, strided), out=blocked)(_kernels.conv2d_input)
backend.kernel("conv2d_weight", args=(blocked, blocked), out=strided)(_kernels.conv2d_weight)
