"""The base class of allocators, over drivers made of dictionaries: what is counted, kept, given back and said."""

from __future__ import annotations

import gc
import random
import threading
from collections import Counter
from typing import Any

import pytest

from tripoint.errors import ArgumentError, OutOfMemoryError, RegistrationError
from tripoint.plugin import Allocator, Block


class Driver(Allocator):
    """A driver with a number of bytes; ``held`` is what it gave and did not get back."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.held: dict[int, int] = {}
        self.calls: Counter[str] = Counter()

    def _alloc(self, nbytes: int) -> int:
        self.calls["alloc"] += 1
        if sum(self.held.values()) + nbytes > self.capacity:
            raise MemoryError("the driver is full")
        at = next(i for i in range(len(self.held) + 1) if i not in self.held)
        self.held[at] = nbytes
        return at

    def _free(self, block: int) -> None:
        self.calls["free"] += 1
        del self.held[block]


class Uncached(Driver):
    caching = False


def test_a_block_lives_as_long_as_something_holds_it() -> None:
    pool = Driver()
    block = pool.allocate(1000)
    assert (block.nbytes, block.reserved, pool.held[block.raw]) == (1000, 1024, 1024)
    views = [block, block]
    del block
    assert pool.stats()["live"] == 1000
    views.pop()
    assert pool.stats()["live"] == 1000
    views.pop()
    assert pool.stats() == {"live": 0, "reserved": 1024, "cached": 1024, "peak": 1000, "blocks": 0, "allocations": 1}
    assert repr(pool.allocate(10)) == "<block of 10 bytes>"


def test_sizes_come_in_classes_and_equal_classes_share_what_is_kept() -> None:
    pool = Driver()
    for n in [*range(1, 3000, 7), *(2**k + d for k in range(12, 32) for d in (-1, 0, 1))]:
        size = pool.allocate(n).reserved
        assert n <= size <= max(n * 1.25, n + 255), n
        pool.empty_cache()
    first = pool.allocate(900)
    where = first.raw
    del first
    asked = pool.calls["alloc"]
    assert pool.allocate(1000).raw == where
    assert pool.calls["alloc"] == asked
    assert pool.allocate(0).reserved == 256


def test_without_caching_sizes_are_exact_and_memory_goes_back_at_once() -> None:
    pool = Uncached()
    block = pool.allocate(1001)
    assert pool.held == {block.raw: 1001}
    del block
    assert pool.held == {}
    assert pool.stats()["reserved"] == 0
    empty = pool.allocate(0)
    assert (empty.nbytes, pool.held[empty.raw]) == (0, 1)


@pytest.mark.parametrize("kind", [Driver, Uncached])
@pytest.mark.parametrize("seed", range(4))
def test_against_a_model(kind: type[Driver], seed: int) -> None:
    rng = random.Random(seed)
    pool = kind(200_000)
    pool.set_limit(150_000)
    live: list[Block] = []
    peak = made = 0
    for _ in range(1500):
        do = rng.random()
        if do < 0.55:
            n = rng.choice([0, 1, 255, 256, 257, 1000, 5000, 40_000, 120_000])
            try:
                live.append(pool.allocate(n))
                made += 1
            except OutOfMemoryError:
                assert sum(b.reserved for b in live) + n > 150_000
        elif do < 0.95 and live:
            live.pop(rng.randrange(len(live)))
        elif do < 0.98:
            pool.empty_cache()
            assert sum(pool.held.values()) == sum(b.reserved for b in live)
        else:
            pool.reset_peak()
            peak = 0
        total = sum(b.nbytes for b in live)
        peak = max(peak, total)
        said = pool.stats()
        assert (said["live"], said["peak"], said["blocks"], said["allocations"]) == (total, peak, len(live), made)
        assert said["reserved"] == sum(pool.held.values()) <= 150_000
        assert said["cached"] == said["reserved"] - sum(b.reserved for b in live)
        assert len({b.raw for b in live}) == len(live)
        assert all(pool.held[b.raw] == b.reserved for b in live)
    live.clear()
    pool.empty_cache()
    assert pool.held == {}


def test_the_error_says_who_has_the_memory() -> None:
    pool = Driver(100_000)
    pool.name = "toy"
    live = [pool.allocate(n) for n in (20_000, 20_000, 30_000, 100)]
    with pytest.raises(OutOfMemoryError) as caught:
        pool.allocate(50_000)
    assert str(caught.value).splitlines() == [
        "toy: out of memory: 48.8 KiB wanted (50000 bytes)",
        "  in use 68.5 KiB in 4 blocks, cached 0 bytes, no limit set",
        "  most of it: 2 x 19.5 KiB, 1 x 29.3 KiB, 1 x 100 bytes",
        "  the driver says: the driver is full",
        "  let go of tensors: del what is not needed, or compute without gradients, in smaller batches",
    ]
    assert caught.value.in_use == sum(b.nbytes for b in live)
    live.pop(0)
    assert pool.allocate(20_001).nbytes == 20_001  # of another class than what is cached


def test_what_is_cached_goes_back_before_anything_is_refused() -> None:
    pool = Driver(100_000)
    for n in (10_000, 20_000, 30_000):
        pool.allocate(n)
    assert pool.stats()["cached"] > 60_000
    assert pool.allocate(100_000).reserved == 100_000  # without the rounding that would not fit


def test_a_driver_may_also_give_nothing() -> None:
    class Shy(Allocator):
        def _alloc(self, nbytes: int) -> object:
            return None

        def _free(self, block: object) -> None:
            raise AssertionError("nothing was given")

    with pytest.raises(OutOfMemoryError, match="Shy: out of memory: 5 bytes wanted\n  in use 0 bytes in 0 blocks"):
        Shy().allocate(5)


def test_what_else_a_driver_raises_is_its_own_and_changes_no_count() -> None:
    class Broken(Driver):
        def _alloc(self, nbytes: int) -> int:
            raise KeyError("driver")

    pool = Broken()
    with pytest.raises(KeyError, match="driver"):
        pool.allocate(5)
    assert pool.stats() == {"live": 0, "reserved": 0, "cached": 0, "peak": 0, "blocks": 0, "allocations": 0}


def test_memory_that_cannot_be_freed_is_counted_and_told() -> None:
    class Leaky(Driver):
        def _free(self, block: int) -> None:
            raise OSError("bus error")

    pool = Leaky(1000)
    pool.allocate(500)
    assert pool.empty_cache() == 512
    assert pool.stats()["lost"] == 512
    with pytest.raises(OutOfMemoryError, match="512 bytes were lost: freeing them raised OSError: bus error"):
        pool.allocate(900)


def test_limits() -> None:
    pool = Driver()
    block = pool.allocate(1000)
    pool.allocate(5000)
    pool.set_limit(1024)
    assert pool.stats()["reserved"] == 1024  # what was cached beyond it went back
    with pytest.raises(OutOfMemoryError, match="limit 1 KiB") as caught:
        pool.allocate(1)
    assert (caught.value.limit, caught.value.wanted) == (1024, 1)
    pool.set_limit(0)
    assert block.nbytes == 1000  # what is in use stays
    del block
    with pytest.raises(OutOfMemoryError):
        pool.allocate(2000)
    pool.set_limit(None)
    assert pool.allocate(2000).nbytes == 2000
    for bad in (-1, 2.0, False, "1"):
        with pytest.raises(ArgumentError, match="a number of bytes from 0"):
            pool.set_limit(bad)  # type: ignore[arg-type]


def test_what_an_author_has_to_write() -> None:
    class Nothing(Allocator):
        pass

    class Half(Allocator):
        def _alloc(self, nbytes: int) -> int:
            return 1

    with pytest.raises(
        RegistrationError, match=r"Nothing does not say how memory is made: write _alloc\(self, nbytes\)"
    ):
        Nothing().allocate(5)
    pool = Half()
    pool.allocate(5)
    pool.empty_cache()
    assert pool.stats()["lost"] == 256


def test_blocks_that_die_while_the_lock_is_held() -> None:
    """The collector may run inside of the driver, and then meets blocks in circles."""

    class Collecting(Driver):
        def _alloc(self, nbytes: int) -> int:
            gc.collect()
            return super()._alloc(nbytes)

    class Ring:
        def __init__(self, block: Block) -> None:
            self.block, self.self = block, self

    for caching in (True, False):
        pool = Collecting()
        pool.caching = caching
        gc.disable()
        try:
            Ring(pool.allocate(100))
            assert pool.stats()["blocks"] == 1
            kept = pool.allocate(100_000)
        finally:
            gc.enable()
        assert pool.stats()["blocks"] == 1
        assert kept.nbytes == 100_000


def test_threads() -> None:
    pool = Driver()
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        mine: list[Block] = []
        for _ in range(400):
            mine.append(pool.allocate(rng.randrange(2000)))
            if rng.random() < 0.5:
                mine.pop(rng.randrange(len(mine)))
        if len({b.raw for b in mine}) != len(mine):
            wrong.append("one piece was given twice")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert pool.stats()["blocks"] == 0
    pool.empty_cache()
    assert pool.held == {}


class Marker:
    def __init__(self, line: Line, at: int) -> None:
        self.line, self.at = line, at

    def query(self) -> bool:
        return self.line.done >= self.at

    def synchronize(self) -> None:
        self.line.done = max(self.line.done, self.at)


class Line:
    """A queue that does its work when a test says so."""

    def __init__(self) -> None:
        self.asked = self.done = 0
        self.waits: list[Any] = []

    def record(self) -> Marker:
        return Marker(self, self.asked)

    def wait(self, marker: Any) -> None:
        self.waits.append((marker.line, marker.at))

    def query(self) -> bool:
        return self.done >= self.asked

    def synchronize(self) -> None:
        self.done = self.asked


def test_memory_used_on_another_queue_is_kept_until_that_is_done() -> None:
    pool, a, b = Driver(), Line(), Line()
    block = pool.allocate(100, a)
    where = block.raw
    block.use(b)
    assert b.waits == [(a, 0)]  # for the one that wrote it
    b.asked = 5
    del block
    assert pool.allocate(100, a).raw != where
    assert pool.stats()["blocks"] == 0
    b.done = 5
    pool.stats()
    again = [pool.allocate(100, a).raw for _ in range(2)]
    assert where in again


def test_memory_is_reused_at_once_on_its_own_queue_and_on_no_other() -> None:
    pool, a, b = Driver(), Line(), Line()
    a.asked = 7  # not done
    block = pool.allocate(100, a)
    where = block.raw
    block.use(a)
    del block
    assert pool.allocate(100, b).raw != where
    assert pool.allocate(100, a).raw == where
    assert (a.waits, b.waits) == ([], [])


def test_giving_back_waits_for_the_queue_of_the_memory_and_for_those_that_use_it() -> None:
    for kind in (Driver, Uncached):
        pool, a, b = kind(), Line(), Line()
        block = pool.allocate(100, a)
        block.use(b)
        a.asked, b.asked = 3, 4
        del block
        pool.stats()
        assert len(pool.held) == 1
        pool.empty_cache()
        assert (pool.held, a.done, b.done) == ({}, 3, 4)


def test_a_write_waits_for_every_reader_and_a_read_for_the_last_writer() -> None:
    pool, a, b, c = Driver(), Line(), Line(), Line()
    block = pool.allocate(100, a)
    b.asked, c.asked = 2, 3
    block.use(b)
    block.use(c)
    a.asked = 9
    block.use(a, write=True)
    assert sorted(at for _, at in a.waits) == [2, 3]
    block.use(c, write=True)
    assert (a, 9) in c.waits
    assert (b, 2) in c.waits
    b.waits.clear()
    block.use(b)
    assert b.waits == [(c, 3)]


def test_a_write_elsewhere_waits_for_reads_on_the_queue_of_the_memory() -> None:
    pool, a, b = Driver(), Line(), Line()
    block = pool.allocate(100, a)
    block.use(b, write=True)
    block.use(a)  # reads what b wrote
    a.asked = 4
    b.waits.clear()
    block.use(b, write=True)
    assert b.waits == [(a, 4)]


def test_an_error_comes_after_waiting_for_what_is_still_in_use() -> None:
    pool, a, b = Driver(1000), Line(), Line()
    block = pool.allocate(900, a)
    block.use(b)
    b.asked = 1
    del block
    assert pool.allocate(950, a).nbytes == 950
    assert b.done == 1


def test_a_driver_that_gives_none_with_nothing_in_use_is_named() -> None:
    class Forgetful(Allocator):
        def _alloc(self, nbytes: int) -> None:
            bytearray(nbytes)

    with pytest.raises(OutOfMemoryError) as told:
        Forgetful().allocate(16)
    last = str(told.value).splitlines()[-1]
    assert "nothing is in use" in last
    assert "Forgetful._alloc gave None for 16 bytes" in last
    assert "its return is missing" in last
