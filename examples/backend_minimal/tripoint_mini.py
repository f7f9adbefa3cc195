"""The device ``mini``: tensors in Python's own memory, with kernels, gradients and an allocator. The whole plugin."""

import math
import operator

import tripoint as tp
from tripoint.plugin import Allocator, Backend, Device, check, nested, rules, strided, unnested

KINDS = {tp.bool: ("?", bool), tp.int64: ("q", lambda i: (int(i) + 2**63) % 2**64 - 2**63)}  # integers wrap around
KINDS |= {tp.float64: ("d", float)}  # of a long integer float32 gets what float64 holds, and an odd bit for the rest
KINDS[tp.float32] = "f", lambda a: float(a if a != a or float(a) == a else a >> 11 << 11 | 2048)


class Memory(Allocator):
    """Caching, counting, limits and the words of errors are inherited."""

    def _alloc(self, nbytes):
        return bytearray(nbytes)

    def _free(self, block):
        block.clear()


memory = Memory()


class Buffer:
    """Numbers of one dtype in row-major order, in a block of memory that is free again when the buffer dies."""

    def __init__(self, values, shape, dtype):
        check.dtype("the device mini", KINDS, dtype=dtype)
        code, number = KINDS[dtype]
        self.shape, self.dtype = tuple(shape), dtype
        self.block = memory.allocate(dtype.itemsize * math.prod(shape))
        self.items = memoryview(self.block.raw)[: self.block.nbytes].cast(code)
        for i, value in enumerate(values):
            self.items[i] = number(value)

    def read(self, axes, shape=None):
        """A list of the elements along these axes, in their order; along ``None`` they repeat."""
        places, shape = [0], [self.shape[i] for i in axes] if shape is None else shape
        for size, axis in zip(reversed(shape), reversed(axes)):
            step = 0 if axis is None else math.prod(self.shape[axis + 1 :])
            places = [i * step + at for i in range(size) for at in places]
        return [self.items[at] for at in places]


# Frozen: nothing is written twice, so there are no views to keep in step, and `x += y` binds a new buffer.
backend = Backend(
    Device("mini"), strided, payload=Buffer, describe=lambda x: {"dtype": x.dtype}, frozen=True, allocator=memory
)


def spread(x, shape):
    return x.read([None] * (len(shape) - len(x.shape)) + [None if n == 1 else i for i, n in enumerate(x.shape)], shape)


def elementwise(fn):
    def kernel(*operands, target):
        shape = rules.broadcast_shapes(*[x.shape for x in operands])
        return Buffer(map(fn, *[spread(x, shape) for x in operands]), shape, target.dtype)

    return kernel


def total(x, *, axis, keepdims, target):
    kept = [i for i in range(len(x.shape)) if i not in axis]
    rows, n = x.read((*kept, *axis)), math.prod(x.shape[i] for i in axis)
    sums = [sum(rows[i * n : (i + 1) * n]) for i in range(math.prod(x.shape[i] for i in kept))]
    return Buffer(sums, [1 if i in axis else s for i, s in enumerate(x.shape) if keepdims or i in kept], target.dtype)


simple = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negative": operator.neg}
simple |= {"equal": operator.eq, "greater": operator.gt, "where": lambda c, a, b: a if c else b, "astype": lambda a: a}
simple |= {"divide": lambda a, b: a / b if b else a * math.copysign(math.inf, b)}
simple |= {"exp": lambda a: math.exp(a) if a < 709 else math.inf if a == a else a}
backend.kernels(**{name: elementwise(fn) for name, fn in simple.items()}, sum=total)
backend.kernels(
    from_data=lambda *, data, copy, target: Buffer(*unnested(data), target.dtype),
    full=lambda *, shape, fill_value, target: Buffer([fill_value] * math.prod(shape), shape, target.dtype),
    ones=lambda *, shape, target: Buffer([1] * math.prod(shape), shape, target.dtype),
    to_list=lambda x: nested(x.items, x.shape),
    copy=lambda x: Buffer(x.items, x.shape, x.dtype),
    reshape=lambda x, *, shape, copy: Buffer(x.items, shape, x.dtype),
    permute_dims=lambda x, *, axes: Buffer(x.read(axes), [x.shape[i] for i in axes], x.dtype),
    broadcast_to=lambda x, *, shape: Buffer(spread(x, shape), shape, x.dtype),
)
