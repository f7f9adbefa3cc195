"""An allocator of one's own: one piece of memory, made once, from which the device ``arena`` hands out the first that fits."""

import tripoint as tp
from tripoint.plugin import Allocator, Backend, Device, check, nested, strided, unnested

SIZE = 64 * 1024


class Arena(Allocator):
    """First fit. What is inherited: rounding, caching, limits, counts, and the text of the error when nothing is left."""

    def __init__(self):
        self.memory = memoryview(bytearray(SIZE))
        self.free = [(0, SIZE)]  # begin and end of each free piece, in order

    def _alloc(self, nbytes):
        for i, (begin, end) in enumerate(self.free):
            if end - begin >= nbytes:
                self.free[i : i + 1] = [(begin + nbytes, end)] if end - begin > nbytes else []
                return begin, begin + nbytes
        return None

    def _free(self, block):
        joined = []
        for begin, end in sorted([*self.free, block]):
            if joined and joined[-1][1] == begin:
                begin = joined.pop()[0]
            joined.append((begin, end))
        self.free = joined

    def _capacity(self):
        return SIZE

    def _largest(self):
        return max((end - begin for begin, end in self.free), default=0)


arena = Arena()


class Piece:
    """float32 numbers in a block of the arena."""

    def __init__(self, values, shape, dtype):
        check.dtype("the device arena", tp.float32, dtype=dtype)
        self.shape, self.block = tuple(shape), arena.allocate(4 * len(values))
        begin = self.block.raw[0]
        self.items = arena.memory[begin : begin + 4 * len(values)].cast("f")
        for i, value in enumerate(values):
            self.items[i] = value


backend = Backend(Device("arena"), strided, payload=Piece, frozen=True, allocator=arena)
backend.kernels(
    from_data=lambda *, data, copy, target: Piece(*unnested(data), target.dtype),
    add=lambda x1, x2: Piece([a + b for a, b in zip(x1.items, x2.items, strict=True)], x1.shape, tp.float32),
    to_list=lambda x: nested(x.items, x.shape),
)
