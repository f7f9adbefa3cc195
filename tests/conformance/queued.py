"""A toy device that works on queues, one thread each, and ways to let it race."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from toys import DTYPES, Pool

import tripoint as tp
from tripoint.plugin import Backend, Block, Capabilities, Device, Key, queue, strided


class Place:
    def __init__(self) -> None:
        self.passed = threading.Event()

    def query(self) -> bool:
        return self.passed.is_set()

    def synchronize(self) -> None:
        self.passed.wait()


class Line:
    def __init__(self) -> None:
        self.tasks: queues.SimpleQueue[Callable[[], Any]] = queues.SimpleQueue()
        threading.Thread(target=self._work, args=(self.tasks,), daemon=True).start()

    @staticmethod
    def _work(tasks: queues.SimpleQueue[Callable[[], Any]]) -> None:
        while True:
            tasks.get()()

    def record(self) -> Place:
        place = Place()
        self.tasks.put(place.passed.set)
        return place

    def wait(self, marker: Place) -> None:
        self.tasks.put(marker.synchronize)

    def query(self) -> bool:
        return self.record().passed.wait(0.0)

    def synchronize(self) -> None:
        self.record().synchronize()


class Lines:
    def __init__(self) -> None:
        self.usual, self.lines = Line(), []  # type: tuple[Line, list[Line]]

    def default(self, device: Device) -> Line:
        return self.usual

    def create(self, device: Device) -> Line:
        self.lines.append(Line())
        return self.lines[-1]

    def synchronize(self, device: Device | None) -> None:
        for line in (self.usual, *self.lines):
            line.synchronize()


class Buffer:
    def __init__(self, block: Block, array: Any) -> None:
        self.block, self.array = block, array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape  # type: ignore[no-any-return]


def device(name: str, *, says: bool = True, waits: bool = True, copies: bool = True) -> Backend:
    """A right device; or one that does not say what it uses, reads before work is done, or keeps the host's memory."""
    here, pool = Device(name), Pool()
    backend = Backend(
        here,
        strided,
        payload=Buffer,
        describe=lambda x: {"dtype": getattr(tp, x.array.dtype.name)},
        allocator=pool,
        streams=Lines(),
        frozen=True,
        capabilities=Capabilities(dtypes=DTYPES),
    )

    def run(shape: Any, dtype: Any, fn: Callable[..., Any], *operands: Buffer) -> Buffer:
        line, dtype = queue(here), np.dtype(str(dtype))
        assert isinstance(line, Line)
        block = pool.allocate(dtype.itemsize * int(np.prod(shape)), line)
        out = np.ndarray(shape, dtype, block.raw)
        for x in operands if says else ():
            x.block.use(line)
        arrays = [x.array for x in operands]  # not the blocks: nothing else keeps them
        line.tasks.put(lambda: np.copyto(out, fn(*arrays), casting="unsafe"))
        return Buffer(block, out)

    def read(x: Buffer) -> Any:
        line = queue(here)
        assert isinstance(line, Line)
        if says:
            x.block.use(line)
        if waits:
            line.synchronize()
        return x.array

    def kept(x: Any) -> Any:
        return x.copy() if copies else x

    backend.kernels(
        copy=lambda x: run(x.shape, x.array.dtype, lambda a: a, x),
        matmul=lambda x1, x2: run((x1.shape[0], x2.shape[1]), x1.array.dtype, np.matmul, x1, x2),
        zeros=lambda *, shape, target: run(shape, target.dtype, lambda: 0),
        full=lambda *, shape, fill_value, target: run(shape, target.dtype, lambda: fill_value),
        to_list=lambda x: read(x).tolist(),
    )

    @backend.kernel("from_data")
    def from_data(*, data: Any, copy: Any, target: Key) -> Buffer:
        values = np.array(data, str(target.dtype))
        return run(values.shape, target.dtype, lambda: values)

    @backend.from_("cpu.strided")
    def there(x: Any, *, target: Key) -> Buffer:
        values = kept(x)
        return run(values.shape, target.dtype, lambda: values)

    @backend.to("cpu.strided")
    def back(x: Buffer) -> Any:
        return read(x).copy()

    return backend
