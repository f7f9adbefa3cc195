"""Memory of the vault: counted, given back, limited, in pieces, and what the errors say."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DeviceError, OutOfMemoryError, ShapeError

MIB = 1024 * 1024


def count(name: str = "live", device: str = "vault") -> int:
    return tp.memory.stats(device).counts[name]


@contextmanager
def no_collector() -> Iterator[None]:
    """Within the block memory comes back by reference counts, or not at all."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_what_is_counted() -> None:
    before = tp.memory.stats("vault:0").counts
    x = tp.zeros((1000,), device="vault")
    said = tp.memory.stats("vault:0")
    assert (said.device, said.provider, said.supported) == ("vault:0", "tripoint-vault", True)
    assert said.counts == {
        "live": 4000,
        "reserved": 4096,  # a quarter of 4096 is the step of sizes up to there
        "cached": 0,
        "peak": 4000,
        "blocks": 1,
        "allocations": before["allocations"] + 1,
        "capacity": 64 * MIB,
        "largest": 64 * MIB - 4096,
    }
    assert tp.memory.stats("vault:1").counts["live"] == 0
    del x
    assert (count(), count("cached"), count("peak")) == (0, 4096, 4000)
    tp.memory.reset_peak("vault")
    assert count("peak") == 0
    assert tp.memory.empty_cache("vault") == 4096
    assert count("reserved") == 0
    assert str(tp.memory.stats("vault")).startswith("memory of vault:0: live 0 bytes, reserved 0 bytes")
    assert ", blocks 0, " in str(tp.memory.stats("vault"))


def _view() -> None:
    x = tp.ones((4, 5), device="vault")
    row = x[1]
    del x
    assert count() == 80  # of all that the view is a part of
    assert row.sum().item() == 5


def _gradients() -> None:
    w = tp.ones((4, 5), device="vault").requires_grad_()
    ((w * 2).exp().sum() + w.sum()).backward()
    assert w.grad is not None


def _second_order() -> None:
    w = tp.ones((3,), device="vault").requires_grad_()
    (once,) = [tp.gradients((w * w * w).sum(), w, create_graph=True)]
    once.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [6.0, 6.0, 6.0]


def _graph_that_is_dropped() -> None:
    w = tp.ones((4, 5), device="vault").requires_grad_()
    for _ in range(50):
        w = w * 1.5


def _wrong_shapes() -> None:
    x = tp.ones((4, 5), device="vault")
    with pytest.raises(ShapeError):
        x @ x
    with pytest.raises(ShapeError):
        x + tp.ones((3,), device="vault")


def _in_place() -> None:
    x = tp.ones((4, 5), device="vault")
    x[::2] += 3
    x *= x[:, :1]
    x.detach()[0] = 1


def _printed() -> None:
    x = tp.ones((4, 5), device="vault").requires_grad_()
    assert "requires_grad" in repr(x * 2)


@pytest.mark.parametrize(
    "use",
    [_view, _gradients, _second_order, _graph_that_is_dropped, _in_place, _printed],
    ids=lambda fn: fn.__name__.strip("_"),
)
def test_counts_return_to_zero_by_reference_counts_alone(use: Callable[[], None]) -> None:
    with no_collector():
        use()
        assert (count(), count("blocks")) == (0, 0)
        assert count("reserved") == count("cached")


def test_counts_return_to_zero_after_exceptions(vault: ModuleType) -> None:
    with no_collector():

        def wrong() -> str:
            x = tp.ones((4, 5), device="vault").requires_grad_()
            try:
                (x * 2) @ x
            except ShapeError as error:
                return str(error)
            return ""

        assert "matmul" in wrong()
        assert count() == 0

        def empty() -> str:
            x = tp.ones((4, 5), device="vault").requires_grad_()
            try:
                with vault.out_of_memory(after=3):
                    for _ in range(20):
                        x = x.exp()
            except OutOfMemoryError as error:
                return str(error)
            return ""

        tp.memory.empty_cache("vault")
        assert "out of memory" in empty()
        assert count() == 0


def test_freed_memory_is_used_again_without_asking_the_driver(vault: ModuleType) -> None:
    for _ in range(3):
        assert tp.ones((100,), device="vault").sum().item() == 100
    with vault.out_of_memory(after=0):
        x = tp.ones((90,), device="vault")  # of the same class of sizes
        assert x.sum().item() == 90
    assert count("reserved") < 2000


def test_a_limit() -> None:
    tp.memory.set_limit("vault", MIB)
    x = tp.zeros((100, 1000), device="vault")
    with pytest.raises(OutOfMemoryError) as caught:
        tp.zeros((200, 1000), device="vault")
    error = caught.value
    assert str(error).splitlines() == [
        "vault:0: out of memory: 781 KiB wanted (800000 bytes)",
        "  in use 391 KiB in 1 blocks, cached 0 bytes, limit 1 MiB, capacity 64 MiB",
        "  most of it: 1 x 391 KiB",
        "  raise the limit, tripoint.memory.set_limit('vault:0', nbytes), or let go of tensors",
    ]
    assert (error.wanted, error.in_use, error.cached, error.limit) == (800_000, 400_000, 0, MIB)
    assert isinstance(error, MemoryError)
    assert x.shape == (100, 1000)
    assert tp.memory.stats("vault").counts["limit"] == MIB
    del x
    tp.zeros((200, 1000), device="vault")  # for which what was cached is given back
    assert tp.zeros((200_000,), device="vault:1").size == 200_000  # whose limit is its own
    tp.memory.set_limit("vault", None)
    assert "limit" not in tp.memory.stats("vault").counts


def test_the_last_bytes_below_a_limit_are_not_lost_to_rounding() -> None:
    tp.memory.set_limit("vault", 1_000_000)
    assert tp.zeros((1_000_000,), dtype="int8", device="vault").size == 1_000_000


def test_limits_that_are_none() -> None:
    for bad in (-1, 1.5, "1 GiB", True):
        with pytest.raises(ArgumentError, match="a memory limit is a number of bytes"):
            tp.memory.set_limit("vault", bad)  # type: ignore[arg-type]
    with pytest.raises(
        DeviceError, match="the memory of cpu cannot be limited: tripoint-dense-cpu brings no allocator"
    ):
        tp.memory.set_limit("cpu", 1000)
    assert tp.memory.empty_cache("cpu") == 0
    tp.memory.reset_peak("cpu")
    with pytest.raises(DeviceError, match="unknown device 'volt'"):
        tp.memory.set_limit("volt", 1000)
    with tp.device("vault:1"):
        tp.memory.set_limit(None, 12345)
        assert tp.memory.stats().counts["limit"] == 12345


def test_memory_in_pieces() -> None:
    mine = [tp.empty((8 * MIB,), dtype="int8", device="vault") for _ in range(8)]
    del mine[::2]
    tp.memory.empty_cache("vault")
    assert (count("capacity") - count("reserved"), count("largest")) == (32 * MIB, 8 * MIB)
    with pytest.raises(OutOfMemoryError) as caught:
        tp.empty((12 * MIB,), dtype="int8", device="vault")
    assert str(caught.value).splitlines() == [
        "vault:0: out of memory: 12 MiB wanted (12582912 bytes)",
        "  in use 32 MiB in 4 blocks, cached 0 bytes, no limit set, capacity 64 MiB, largest free block 8 MiB",
        "  most of it: 4 x 8 MiB",
        "  the driver says: no free piece of 12582912 bytes",
        "  32 MiB are free, in smaller pieces: let go of neighbouring tensors, or make large ones first",
    ]
    assert caught.value.largest == 8 * MIB
    del mine[1]
    assert tp.empty((12 * MIB,), dtype="int8", device="vault").size == 12 * MIB


def test_cached_pieces_are_given_back_before_an_error_is_raised() -> None:
    for _ in range(3):
        several = [tp.empty((16 * MIB,), dtype="int8", device="vault") for _ in range(4)]
        del several
    assert count("cached") == 64 * MIB
    assert tp.empty((64 * MIB,), dtype="int8", device="vault").size == 64 * MIB


def test_an_injected_failure_leaves_everything_in_order(vault: ModuleType) -> None:
    x = tp.ones((10,), device="vault").requires_grad_()
    y = (x * x).sum()
    tp.memory.empty_cache("vault")
    with vault.out_of_memory(after=0), pytest.raises(OutOfMemoryError, match="the driver says: an injected fault"):
        y.backward()
    z = (x * x).sum()
    z.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 10


def test_in_place_writes_that_run_out_of_memory_change_nothing(vault: ModuleType) -> None:
    x = tp.ones((10,), device="vault")
    tp.memory.empty_cache("vault")
    with vault.out_of_memory(after=0), pytest.raises(OutOfMemoryError):
        x **= 2.5
    assert x.tolist() == [1.0] * 10


def test_two_threads_allocate_and_let_go() -> None:
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            kept: list[tp.Tensor] = []
            for i in range(300):
                kept.append(tp.full((1 + (i * 37 + seed) % 500,), seed, device="vault"))
                if len(kept) > 10 and any(v != seed for v in kept.pop(i % 10).tolist()):
                    raise AssertionError("another thread wrote here")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    del threads
    assert count("blocks") == 0
