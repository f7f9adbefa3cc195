"""The device ``meta``: shapes and dtypes without memory. It comes through the same door as every other backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint.dtypes import DType, integral
from tripoint.errors import ArgumentError, DeviceError
from tripoint.plugin import Backend, Capabilities, Device, Key, Row, strided
from tripoint.rules import check_shape, in_range

__all__ = ["Shaped", "backend"]


class Shaped:
    """A payload that is a shape and a dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Shaped({self.shape}, {self.dtype})"


def describe(p: Shaped) -> dict[str, Any]:
    """dtype, and row-major strides as a fresh tensor would have; no memory."""
    strides, step = [], 1
    for s in reversed(p.shape):
        strides.append(step)
        step *= max(s, 1)
    return {"dtype": p.dtype, "address": None, "nbytes": 0, "strides": tuple(reversed(strides)), "readonly": False}


backend = Backend(
    Device("meta"),
    strided,
    payload=Shaped,
    describe=describe,
    aliases=lambda out, x: out is x,
    capabilities=Capabilities(elements=False),
)


@backend.factory
def shapes_only(row: Row) -> Callable[..., Any] | None:
    """The shape rule of an operator as its kernel."""
    if row.returns == "object":

        def refuse(*operands: Any, **meta: Any) -> Any:
            raise DeviceError(
                f"{row.name}: a tensor on the device meta has a shape and no elements; make what it comes from elsewhere"
            )

        return refuse
    rule = row.shape
    if rule is None:
        return None
    roles = [p.role for p in row.operands]

    def kernel(*operands: Any, target: Key, **meta: Any) -> Shaped:
        number = meta.get("fill_value")  # of an operand that is one, too
        if target.dtype in integral and isinstance(number, int) and not in_range(number, target.dtype):
            raise OverflowError  # as of a library that computes; the core words it
        shapes = tuple(
            tuple([p.shape for p in v]) if role == "variadic" else None if v is None else getattr(v, "shape", ())
            for v, role in zip(operands, roles, strict=True)
        )
        made = rule(shapes, **meta)
        if made is None:
            raise ArgumentError(
                f"{row.name}: what it is given does not tell its shape, and the device meta holds no elements"
            )
        return Shaped(check_shape(made, "the result's shape"), target.dtype)

    kernel.__name__ = f"{row.name}_shape"
    if row.mutates is not None:

        def write(*operands: Any, **meta: Any) -> None:
            rule(tuple(getattr(v, "shape", ()) for v in operands), **meta)

        return write
    return kernel


@backend.to("cpu.strided")
def to_host(x: Shaped) -> Any:
    """Refuse: there are no elements to copy."""
    raise DeviceError("a tensor on the device meta has a shape and no elements to copy; make it on another device")


@backend.from_("cpu.strided")
def from_host(x: Any, *, target: Key) -> Shaped:
    """The shape of a tensor."""
    return Shaped(tuple(x.shape), target.dtype)
