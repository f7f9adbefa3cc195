"""An allocator of one's own: one piece of memory, made once, from which the device ``arena`` hands out the first that fits."""

import tripoint as tp
from tripoint.plugin import Allocator, Backend, Capabilities, Device, check, nested, strided, unnested

SIZE = 64 * 1024


class Arena(Allocator):
    """First fit. What is inherited: rounding, caching, limits, counts, and the text of the error when nothing is left."""

    def __init__(self):
        self.memory, self.free = memoryview(bytearray(SIZE)), [(0, SIZE)]  # begin and end of each free piece, in order

    def _alloc(self, nbytes):
        for i, (begin, end) in enumerate(self.free):
            if end - begin >= nbytes:
                self.free[i : i + 1] = [(begin + nbytes, end)] if end - begin > nbytes else []
                return begin, begin + nbytes
        return None

    def _free(self, block):
        pieces, self.free = sorted([*self.free, block]), []
        for begin, end in pieces:
            if self.free and self.free[-1][1] == begin:
                begin = self.free.pop()[0]
            self.free.append((begin, end))

    def _capacity(self):
        return SIZE

    def _largest(self):
        return max((end - begin for begin, end in self.free), default=0)


class Piece:
    """float32 numbers in a block of the arena."""

    def __init__(self, values, shape, dtype):
        check.dtype("the device arena", tp.float32, dtype=dtype)
        self.shape, self.block = tuple(shape), arena.allocate(4 * len(values))
        self.items = arena.memory[slice(*self.block.raw)][: 4 * len(values)].cast("f")
        for i, value in enumerate(values):
            self.items[i] = value


arena = Arena()
said = Capabilities(("float32",), lacks={"*": "it shows memory only", "add.broadcast": "only equal shapes"})
backend = Backend(Device("arena"), strided, payload=Piece, frozen=True, allocator=arena, capabilities=said)
backend.kernels(
    from_data=lambda *, data, copy, target: Piece(*unnested(data), target.dtype),
    to_list=lambda x: nested(x.items, x.shape),
)


@backend.kernel("add")
def add(x1, x2):
    check.same_shape("the device arena: add", x1=x1, x2=x2)
    return Piece([a + b for a, b in zip(x1.items, x2.items, strict=True)], x1.shape, tp.float32)
