"""Memory that a backend hands out: caching, counting, limits, and the words of an error when there is none left.

An author of a device writes how its driver gives and takes memory; `Allocator` does the rest. A `Block` frees itself when
the last payload that holds it dies, so views keep it alive and nothing has to be told.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from tripoint.errors import ArgumentError, OutOfMemoryError, PluginError, RegistrationError, said, shown, sized, told

if TYPE_CHECKING:
    from tripoint.streams import Marker, Queue

__all__ = ["Allocator", "Block"]

_NOBODY: frozenset[Queue] = frozenset()


class Block:
    """One piece of memory. Payloads hold it; it goes back to its allocator when nothing does.

    Attributes:
        raw: what the author's ``_alloc`` gave.
        nbytes: the bytes asked for.
        reserved: the bytes that it takes of the device, at least ``nbytes``.
        queue: the queue that it belongs to, or ``None``.
    """

    __slots__ = ("__weakref__", "_owner", "_users", "_writer", "nbytes", "queue", "raw", "reserved")

    raw: Any
    nbytes: int
    reserved: int
    queue: Queue | None
    _owner: Allocator
    _writer: Queue | None
    _users: set[Queue] | frozenset[Queue]

    def use(self, queue: Queue, *, write: bool = False) -> None:
        """Say that work is about to be queued which reads this memory, or writes it.

        ``queue`` is made to wait for the queue that wrote the memory last; before a write, for every queue that uses it. And
        the memory is not given to anybody else before that work is done, whenever the last tensor dies.
        """
        if queue is self.queue and queue is self._writer and not self._users:
            return  # its own queue made it and nobody else has used it
        others: set[Queue | None] = {self._writer}
        if write:
            others |= {self.queue, *self._users}  # which may read on its own queue at any time, unnoted
        for other in others:
            if other is not None and other is not queue:
                queue.wait(other.record())
        if queue is not self.queue:
            self._users = {queue, *self._users}
        if write:
            self._writer = queue

    def __del__(self) -> None:
        owner = self._owner
        owner._gone.append((self.raw, self.nbytes, self.reserved, self.queue, self._users))
        # What is kept anyway waits for the next request, and so does what a queue uses: a destructor must not touch queues.
        if not owner.caching and self.queue is None:
            owner._tidy()

    def __repr__(self) -> str:
        return f"<block of {sized(self.nbytes)}>"


class Allocator:
    """Base class of a device's memory. An author writes ``_alloc`` and ``_free``; both are called by one thread at a time.

    ``_alloc(nbytes)`` gives any object that stands for the memory; where there is none left it raises MemoryError, whose text
    is told to the user, or gives ``None``. ``_free(block)`` takes that object back. ``_capacity()`` may say how many bytes
    there are in all, and ``_largest()`` how many the largest free piece has. There is no constructor to call.

    Attributes:
        caching: keep what is freed, by size classes, and give it out again without asking the driver.
        granularity: sizes are rounded up to a multiple of it, and larger ones to a quarter of a power of two.
        name: whose memory it is, for messages; a Backend says so.
    """

    caching: bool = True
    granularity: int = 256
    name: str = ""

    _lock: Any
    _gone: deque[tuple[Any, int, int, Queue | None, set[Queue] | frozenset[Queue]]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Everything inherited is set here: an author's ``__init__`` need not call ours."""
        made = super().__new__(cls)
        made.name = cls.name or cls.__name__
        made._lock = threading.RLock()  # which knows its owner; nobody takes it twice, see `_alone`
        # Note [Blocks that die]: a block dies wherever the collector runs, also while this thread holds the lock, or one of a
        # queue. So it only leaves a note, and whoever holds the lock next takes it back.
        made._gone = deque()
        made._waiting = []
        made._cache = {}
        made._sizes = {}
        made._limit = None
        made._lost = None
        made._reserved = made._held = made._live = made._peak = made._count = made._wasted = 0
        return made

    _waiting: list[tuple[list[Marker], Any, int, Queue | None]]
    _cache: dict[tuple[Queue | None, int], list[Any]]
    _sizes: dict[int, int]
    _limit: int | None
    _lost: BaseException | None
    _reserved: int
    _held: int
    _live: int
    _peak: int
    _count: int
    _wasted: int

    # What an author writes -------------------------------------------------------------------------------------------

    def _alloc(self, nbytes: int) -> Any:
        raise RegistrationError(f"{type(self).__name__} does not say how memory is made: write _alloc(self, nbytes)")

    def _free(self, block: Any) -> None:
        raise RegistrationError(f"{type(self).__name__} does not say how memory is freed: write _free(self, block)")

    def _capacity(self) -> int | None:
        return None

    def _largest(self) -> int | None:
        return None

    # What backends and users call ------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, queue: Queue | None = None) -> Block:
        """A block of at least ``nbytes`` bytes, uninitialised.

        Args:
            queue: where work on it will be queued; memory that this queue freed is reused before its work is done.

        Raises:
            OutOfMemoryError: the driver has no more, or the limit is reached, with nothing left in the cache.
        """
        try:
            with self._alone():
                if self._gone or self._waiting:
                    self._take_back()
                size = self._rounded(nbytes)
                kept = self._cache.get((queue, size))
                if kept:
                    raw = kept.pop()
                else:
                    raw, size = self._obtain(nbytes, size)
                block = Block()
                block.raw = raw
                block.nbytes = nbytes
                block.reserved = size
                block._owner = self
                block.queue = block._writer = queue
                block._users = _NOBODY
                self._held += size
                self._live = live = self._live + nbytes
                if live > self._peak:
                    self._peak = live
                self._count += 1
                self._sizes[nbytes] = self._sizes.get(nbytes, 0) + 1
                return block
        finally:
            if self._gone:
                self._tidy()

    def stats(self) -> dict[str, int]:
        """Counts: bytes ``live`` in tensors, ``reserved`` of the device, ``cached`` for reuse, ``peak`` of live; ``blocks``
        alive and ``allocations`` made; and ``limit``, ``capacity``, ``largest`` (free piece) and ``lost`` where there are any.
        """
        with self._alone():
            self._take_back()
            counts = {
                "live": self._live,
                "reserved": self._reserved,
                "cached": self._reserved - self._held,
                "peak": self._peak,
                "blocks": sum(self._sizes.values()),
                "allocations": self._count,
            }
            device = {"capacity": self._told("_capacity"), "largest": self._told("_largest")}
            for name, value in {"limit": self._limit, **device, "lost": self._wasted or None}.items():
                if value is not None:
                    counts[name] = value
            return counts

    def set_limit(self, nbytes: int | None) -> None:
        """Reserve no more than so many bytes of the device; ``None`` takes the limit away.

        Raises:
            ArgumentError: not an int from 0.
        """
        if nbytes is not None and (not isinstance(nbytes, int) or isinstance(nbytes, bool) or nbytes < 0):
            raise ArgumentError(
                f"a memory limit is a number of bytes from 0, or None for no limit, not {shown(nbytes)}"
            )
        with self._alone():
            self._limit = nbytes
            if nbytes is not None and self._reserved > nbytes:
                self._take_back()
                self._drop()

    def empty_cache(self) -> int:
        """Give what is cached back to the device; how many bytes that were."""
        with self._alone():
            self._take_back()
            return self._drop()

    def reset_peak(self) -> None:
        """Let ``peak`` start again from what is live now."""
        with self._alone():
            self._take_back()
            self._peak = self._live

    def _alone(self) -> Any:
        """The lock, for a thread that does not hold it.

        Raises:
            PluginError: what the author wrote, or a destructor that ran in it, asks for this very memory.
        """
        if self._lock._is_owned():
            kind = type(self)
            raise PluginError(
                f"{self.name}: the allocator {kind.__module__}.{kind.__qualname__} is asked while it allocates, frees or "
                "counts; _alloc, _free, _capacity and _largest may neither ask it nor make tensors there"
            )
        return self._lock

    # The rest, with the lock held ------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Take back what died, unless the lock is held: then its holder, or the next one, does."""
        while self._gone and not self._lock._is_owned() and self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        gone, sizes = self._gone, self._sizes
        while gone:
            raw, nbytes, size, queue, users = gone.popleft()
            self._held -= size
            self._live -= nbytes
            left = sizes[nbytes] - 1
            if left:
                sizes[nbytes] = left
            else:
                del sizes[nbytes]
            if users:
                self._waiting.append(([user.record() for user in users], raw, size, queue))
            else:
                self._keep(raw, size, queue)
        if not self._waiting:
            return
        pending = []
        for marks, raw, size, queue in self._waiting:
            if all(mark.query() for mark in marks):
                self._keep(raw, size, queue)
            else:
                pending.append((marks, raw, size, queue))
        self._waiting = pending

    def _keep(self, raw: Any, size: int, queue: Queue | None) -> None:
        if self.caching:
            kept = self._cache.get((queue, size))
            if kept is None:
                self._cache[queue, size] = [raw]
            else:
                kept.append(raw)
        else:
            self._give(raw, size, queue)

    def _give(self, raw: Any, size: int, queue: Queue | None) -> None:
        """Back to the driver, when the queue that the memory belongs to is done with it."""
        if queue is not None:
            queue.record().synchronize()
        self._reserved -= size
        try:
            self._free(raw)
        except KeyboardInterrupt:
            raise
        except (
            BaseException
        ) as error:  # whoever runs now did not cause it: it is counted, and told when memory runs out
            self._wasted += size
            self._lost = error

    def _drop(self) -> int:
        before = self._reserved
        for marks, raw, size, queue in self._waiting:
            for mark in marks:
                mark.synchronize()
            self._give(raw, size, queue)
        self._waiting = []
        cache, self._cache = self._cache, {}
        for (queue, size), raws in cache.items():
            for raw in raws:
                self._give(raw, size, queue)
        return before - self._reserved

    def _obtain(self, nbytes: int, size: int) -> tuple[Any, int]:
        """New memory, and its size: that asked for, or where there is none, the bytes that are needed."""
        exact = max(nbytes, 1)
        raw, why = self._ask(size)
        if raw is None and self._drop():
            raw, why = self._ask(size)
        if raw is None and exact < size:
            size = exact
            raw, why = self._ask(size)
        if raw is None:
            raise self._exhausted(nbytes, why)
        self._reserved += size
        return raw, size

    def _ask(self, size: int) -> tuple[Any, str]:
        """Memory from the driver, or ``None`` and why there is none."""
        if self._limit is not None and self._reserved + size > self._limit:
            return None, "limit"
        try:
            return self._alloc(size), ""
        except MemoryError as error:
            return None, told(error) or ""

    def _told(self, what: str) -> int | None:
        """What the author's ``_capacity`` or ``_largest`` says.

        Raises:
            PluginError: it raised, or gave what is no number of bytes.
        """
        try:
            value = getattr(self, what)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(f"{self.name}: {what} raised {said(error)}") from error
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise PluginError(f"{self.name}: {what} gives a number of bytes, or None, not {shown(value)}")
        return value

    def _rounded(self, nbytes: int) -> int:
        if not self.caching:
            return max(nbytes, 1)
        step = self.granularity
        if nbytes <= step:
            return step
        step = max(step, 1 << max((nbytes - 1).bit_length() - 3, 0))
        return -(-nbytes // step) * step

    def _exhausted(self, nbytes: int, why: str) -> OutOfMemoryError:
        """The error, with advice only where it applies."""
        largest = capacity = None
        wrong = ""
        try:
            capacity = self._told("_capacity")
            largest = None if why == "limit" else self._told("_largest")
        except PluginError as odd:  # which must not hide that the memory is spent
            wrong = str(odd)
        free = capacity - self._reserved if capacity is not None else None
        held = sorted(self._sizes.items(), key=lambda pair: -pair[0] * pair[1])[:3]
        lines = [f"{self.name}: out of memory: {sized(nbytes)} wanted" + f" ({nbytes} bytes)" * (nbytes > 1023)]
        counts = [
            f"in use {sized(self._live)} in {sum(self._sizes.values())} blocks",
            f"cached {sized(self._reserved - self._held)}",
            f"limit {sized(self._limit)}" if self._limit is not None else "no limit set",
        ]
        if capacity is not None:
            counts.append(f"capacity {sized(capacity)}")
        if largest is not None:
            counts.append(f"largest free block {sized(largest)}")
        lines.append("  " + ", ".join(counts))
        if wrong:
            lines.append(f"  {wrong}")
        if held:
            lines.append("  most of it: " + ", ".join(f"{count} x {sized(size)}" for size, count in held))
        if why and why != "limit":
            lines.append(f"  the driver says: {why}")
        if self._lost is not None:
            lines.append(f"  {sized(self._wasted)} were lost: freeing them raised {said(self._lost)}")
        if why == "limit":
            lines.append(f"  raise the limit, tripoint.memory.set_limit({self.name!r}, nbytes), or let go of tensors")
        elif not why and not self._reserved:
            lines.append(
                f"  nothing is in use, and {type(self).__qualname__}._alloc gave None for {sized(nbytes)}: "
                "that is more than there is, or its return is missing"
            )
        elif free is not None and largest is not None and largest < nbytes <= free:
            lines.append(
                f"  {sized(free)} are free, in smaller pieces: let go of neighbouring tensors, or make large ones first"
            )
        else:
            lines.append(
                "  let go of tensors: del what is not needed, or compute without gradients, in smaller batches"
            )
        error = OutOfMemoryError("\n".join(lines))
        error.wanted, error.in_use, error.cached = nbytes, self._live, self._reserved - self._held
        error.limit, error.largest = self._limit, largest
        return error
