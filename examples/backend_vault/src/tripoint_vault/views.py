"""The payload of a vault tensor, and the arithmetic of its views: plain integers, no memory is touched."""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from tripoint.plugin import Block, Device, DType
from tripoint_vault.machine import Machine, Ref, machine

Shape = tuple[int, ...]


def chip(device: Device) -> Machine:
    """The machine behind a device."""
    return machine(device.index or 0)


class Buffer:
    """A block of a vault's memory, and how its elements are found. Views share the block, and so keep it alive.

    Attributes:
        strides, offset: in elements.
        readonly: elements may share memory among themselves; views of such are read-only too.
    """

    __slots__ = ("block", "device", "dtype", "offset", "readonly", "shape", "strides")

    def __init__(
        self,
        block: Block,
        device: Device,
        dtype: DType,
        shape: Shape,
        strides: Shape,
        offset: int = 0,
        readonly: bool = False,
    ) -> None:
        self.block = block
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.readonly = readonly

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def view(self, shape: Shape, strides: Shape, offset: int, readonly: bool = False) -> Buffer:
        """Other elements of the same block."""
        return Buffer(self.block, self.device, self.dtype, shape, strides, offset, readonly or self.readonly)

    def ref(self) -> Ref:
        """What programs are given."""
        size = self.dtype.itemsize
        base: int = self.block.raw
        first = base + self.offset * size if self.size else base
        strides = tuple(s * size for s in self.strides)
        return Ref(chip(self.device), base, first, self.dtype.name, self.shape, strides)

    def extent(self) -> tuple[int, int]:
        """The first and the last element of the block that it reaches."""
        low = high = self.offset
        for n, s in zip(self.shape, self.strides, strict=True):
            low, high = low + min(0, s * (n - 1)), high + max(0, s * (n - 1))
        return low, high

    def __reduce__(self) -> Any:
        raise TypeError("a buffer of a vault is an address; pickle the tensor")

    def __repr__(self) -> str:
        return f"Buffer({self.device}, {self.dtype}, {self.shape}, strides={self.strides}, offset={self.offset})"


def row_major(shape: Shape) -> Shape:
    """Strides of contiguous memory."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def overlap(out: Buffer, x: Buffer) -> bool:
    """Whether two buffers can have an element in common."""
    if out.block is not x.block or not out.size or not x.size:
        return False
    (low, high), (first, last) = out.extent(), x.extent()
    step = gcd(*out.strides, *x.strides)
    return low <= last and first <= high and (step == 0 or (out.offset - x.offset) % step == 0)


def regrouped(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides under which the same elements, in the same order, have another shape; ``None`` where there are none."""
    if 0 in shape:
        return row_major(wanted)
    groups: list[tuple[int, int]] = []  # number of elements, and the step between them
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if groups and groups[-1][1] == n * s:
            groups[-1] = (groups[-1][0] * n, s)
        else:
            groups.append((n, s))
    out: list[int] = []
    at = len(wanted)
    for count, step in reversed(groups):
        while count > 1:
            at -= 1
            if count % wanted[at]:
                return None
            out.append(step)
            step, count = step * wanted[at], count // wanted[at]
    out += [1] * at
    return tuple(reversed(out))


def indexed(x: Buffer, key: tuple[Any, ...]) -> Buffer:
    """Basic indexing by a key that has an entry for every axis, and ``None`` for new ones."""
    shape, strides, offset, axis = [], [], x.offset, 0
    for k in key:
        if k is None:
            shape.append(1)
            strides.append(0)
            continue
        n, s = x.shape[axis], x.strides[axis]
        axis += 1
        if isinstance(k, slice):
            start, stop, step = k.indices(n)
            count = len(range(start, stop, step))
            shape.append(count)
            strides.append(s * step)
            offset += s * start if count else 0
        else:
            offset += s * k
    return x.view(tuple(shape), tuple(strides), offset)
