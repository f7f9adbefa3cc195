"""The payload, and the conversions over it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tripoint.errors import DTypeError, LayoutError, ShapeError
from tripoint.plugin import DType, LayoutSpec, boolean, floating

Array = NDArray[Any]
Shape = tuple[int, int, int, int]

DEFAULT = 16
#: block sizes that vector units have use for.
SIZES = (4, 8, 16, 32)


@dataclass(frozen=True, slots=True, eq=False)
class Blocked:
    """Images (N, C, H, W) with the channels in blocks; the buffer is never written after it was made.

    Attributes:
        shape: the logical (N, C, H, W).
        data: the buffer, (N, ceil(C / block), H, W, block), C-contiguous; lanes beyond C are zero.
        block: channels in a block.
    """

    shape: Shape
    data: Array
    block: int

    @property
    def descriptor(self) -> str:
        """The usual name of the layout, such as ``nChw16c``."""
        return f"nChw{self.block}c"


def block_of(spec: LayoutSpec) -> int:
    """The block size that a layout with parameters asks for.

    Raises:
        LayoutError: it is no descriptor of a blocked layout.
    """
    text = spec.args[0] if len(spec.args) == 1 and not spec.params else None
    match = re.fullmatch(r"nChw([1-9][0-9]?)c", text) if isinstance(text, str) else None
    if match is None or int(match[1]) not in SIZES:
        known = ", ".join(repr(f"nChw{size}c") for size in SIZES)
        raise LayoutError(f"{spec!r} is no blocked layout; blocked takes one of {known}")
    return int(match[1])


def check(shape: tuple[int, ...], dtype: DType) -> None:
    """Whether tensors of that shape and dtype can be blocked.

    Raises:
        ShapeError: not four axes.
        DTypeError: neither a floating dtype nor bool, which comparisons give.
    """
    if len(shape) != 4:
        raise ShapeError(f"layout blocked is for images of four axes (N, C, H, W); shape {shape} has {len(shape)}")
    if dtype not in floating and dtype not in boolean:
        raise DTypeError(
            f"layout blocked is for floating dtypes and bool, not {dtype}; convert with .to(dtype=...) first"
        )


def empty(shape: Shape, size: int, dtype: Any) -> Blocked:
    """A payload whose lanes hold whatever the memory held, pad lanes zeros."""
    n, c, h, w = shape
    made = Blocked(shape, np.empty((n, -(-c // size), h, w, size), dtype), size)
    clear_pads(made)
    return made


def clear_pads(p: Blocked) -> None:
    """Write zeros into the lanes beyond C of a payload that is being made."""
    used = p.shape[1] % p.block
    if used:
        p.data[:, -1, :, :, used:] = 0


def block(x: Array, size: int) -> Blocked:
    """Images (N, C, H, W) with their channels in blocks of ``size``, in new memory."""
    n, c, h, w = x.shape
    made = empty((n, c, h, w), size, x.dtype)
    lanes = made.data.transpose(0, 1, 4, 2, 3)
    whole = c // size
    lanes[:, :whole] = x[:, : whole * size].reshape(n, whole, size, h, w)
    if c % size:
        lanes[:, whole, : c % size] = x[:, whole * size :]
    return made


def unblock(p: Blocked) -> Array:
    """The images in row-major order, in new memory."""
    n, c, h, w = p.shape
    blocks = p.data.shape[1]
    # Written into memory of its own: where axes have size 1, reordering alone would give a view of the frozen buffer.
    out = np.empty((n, blocks * p.block, h, w), p.data.dtype)
    out.reshape(n, blocks, p.block, h, w)[...] = p.data.transpose(0, 1, 4, 2, 3)
    return out if c == out.shape[1] else np.ascontiguousarray(out[:, :c])


def reblock(p: Blocked, size: int) -> Blocked:
    """The same images in blocks of another size; ``p`` itself if they have that size."""
    return p if p.block == size else block(unblock(p), size)
