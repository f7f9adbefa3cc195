"""Queues of the vault: order across streams, memory that is still in use, copies that go on, events."""

from __future__ import annotations

import os
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint import streams
from tripoint.errors import ArgumentError, DeviceError
from tripoint.plugin import payload


def test_a_call_returns_before_its_work_is_done(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    event = tp.Event("vault")
    with vault.held(s), tp.stream(s) as entered:
        assert entered is s
        y = tp.ones((3,), device="vault") + 1
        event.record()
        assert (s.query(), event.query(), y.shape) == (False, False, (3,))
        assert streams.current("vault").queue is s.queue
    event.synchronize()
    assert event.query()
    s.synchronize()
    assert s.query()
    assert y.tolist() == [2, 2, 2]
    assert streams.current("vault").queue is not s.queue


def test_reading_waits_for_the_stream_that_wrote(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    opened = threading.Event()

    def slow() -> None:
        with vault.held(s):
            opened.set()
            reading.wait(5)

    reading = threading.Event()
    thread = threading.Thread(target=slow)
    thread.start()
    opened.wait()
    with tp.stream(s):
        y = tp.ones((3,), device="vault") * 5
    z = y + 1  # on the default stream
    reading.set()
    assert z.tolist() == [6, 6, 6]
    thread.join()


def test_a_write_waits_for_those_who_still_read(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    x = tp.ones((3,), device="vault")
    with vault.held(s):
        with tp.stream(s):
            y = x * 10  # has not run yet
        x += 1
        assert not streams.current("vault").query()  # it waits
    assert (x.tolist(), y.tolist()) == ([2, 2, 2], [10, 10, 10])


def test_memory_is_not_given_away_while_another_stream_uses_it(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    x = tp.full((1000,), 7, dtype="float32", device="vault")
    where = payload(x).block.raw
    tp.synchronize("vault")
    with vault.held(s):
        with tp.stream(s):
            y = -x
        del x
        z = tp.full((1000,), 9, dtype="float32", device="vault")
        assert payload(z).block.raw != where
        assert tp.memory.stats("vault").counts["cached"] == 4096  # waiting, and counted
    tp.synchronize("vault")
    assert y.tolist() == [-7] * 1000
    again = tp.full((1000,), 9, dtype="float32", device="vault")
    assert payload(again).block.raw == where


def test_memory_is_used_again_at_once_on_the_stream_it_belongs_to(vault: ModuleType) -> None:
    with vault.held():
        x = tp.full((1000,), 7, dtype="float32", device="vault")
        where = payload(x).block.raw
        y = -x
        del x
        z = tp.full((1000,), 9, dtype="float32", device="vault")  # behind what reads x, in the same queue
        assert payload(z).block.raw == where
    assert (y.tolist(), z.tolist()) == ([-7] * 1000, [9] * 1000)


def test_giving_memory_back_waits_for_the_work_on_it(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    x = tp.ones((1000,), device="vault")
    with tp.stream(s):
        y = -x
    del x
    given = tp.memory.empty_cache("vault")
    assert (given, s.query()) == (4096, True)
    assert y.sum().item() == -1000


def test_events_order_work_across_streams(vault: ModuleType) -> None:
    a, b = tp.Stream("vault"), tp.Stream("vault:0")
    with vault.held(a):
        event = a.record()
        b.wait(event)
        later = b.record()
        assert not later.query()
        b.wait(tp.Event("vault"))  # of nothing
    b.synchronize()
    assert event.query()
    assert later.query()
    with vault.held(a):
        b.wait(a)
        assert not b.query()
    other = tp.Stream("vault:1")
    other.wait(b)
    other.synchronize()
    assert b.query()
    tp.Stream("cpu").wait(b)
    assert repr(a) == "<stream on vault:0>"
    assert repr(event) == "<event on vault:0>"


def test_upload_reads_at_once_unless_told_otherwise(vault: ModuleType) -> None:
    source = np.ones((3,), "float32")
    x = tp.asarray(source)
    with vault.held():
        complete = x.to("vault")
        pending = x.to("vault", non_blocking=True)
        source[:] = 2
    assert complete.tolist() == [1, 1, 1]
    assert pending.tolist() == [2, 2, 2]  # which is why the host must not write before it is done


def test_download_is_complete_unless_told_otherwise(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    with tp.stream(s):
        x = tp.ones((3,), device="vault") * 4
        read = x.to("cpu")
        with vault.held(s):
            pending = x.to("cpu", non_blocking=True)
            event = s.record()
            assert not event.query()
        event.synchronize()
    assert read.tolist() == pending.tolist() == [4, 4, 4]


def test_a_conversion_on_the_way_is_complete(vault: ModuleType) -> None:
    x = tp.asarray([1.5, 2.5], device="vault")
    assert x.to("cpu", dtype="float64", non_blocking=True).tolist() == [1.5, 2.5]
    y = tp.asarray(np.array([1.5, 2.5])).to("vault", dtype="float32", non_blocking=True)
    assert y.tolist() == [1.5, 2.5]


def test_backward_on_another_stream_than_forward(vault: ModuleType) -> None:
    s = tp.Stream("vault")
    w = tp.asarray([1.0, 2.0, 3.0], device="vault").requires_grad_()
    with vault.held(s):
        with tp.stream(s):
            loss = (w * w).exp().sum()
        loss.backward()
    assert w.grad is not None
    expected = 2 * np.array([1.0, 2.0, 3.0]) * np.exp(np.array([1.0, 4.0, 9.0]))
    np.testing.assert_allclose(w.grad.to("cpu").numpy(), expected, rtol=1e-5)


def test_a_copy_between_vaults_is_ordered(vault: ModuleType) -> None:
    with vault.held():
        x = tp.ones((3,), device="vault:0") * 3
        y = x.to("vault:1") + 1
        del x
        z = tp.full((3,), 9, dtype="float32", device="vault:0")
        assert not streams.current("vault:1").query()
    assert (y.tolist(), z.tolist()) == ([4, 4, 4], [9, 9, 9])


def test_streams_of_threads_and_of_scopes_that_overlap() -> None:
    s, t = tp.Stream("vault"), tp.Stream("vault")
    first, second = tp.stream(s), tp.stream(t)
    first.__enter__()
    second.__enter__()
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(streams.current("vault").queue in (s.queue, t.queue)))
    thread.start()
    thread.join()
    assert seen == [False]
    first.__exit__(None, None, None)
    assert streams.current("vault").queue is t.queue
    assert streams.current("vault:1").queue is not t.queue
    second.__exit__(None, None, None)
    assert streams.current("vault").queue is not t.queue


def test_many_streams_compute_the_same_as_one() -> None:
    random = np.random.default_rng(0)
    several = [tp.Stream("vault") for _ in range(3)]
    a = random.standard_normal((20, 20)).astype("float32")
    x, expected = tp.asarray(a, device="vault"), a
    for i in range(60):
        with tp.stream(several[random.integers(3)]):
            if i % 3:
                x = tp.tanh(x @ x) + x
                expected = np.tanh(expected @ expected) + expected
            else:
                x *= 0.25
                expected = expected * np.float32(0.25)
    np.testing.assert_allclose(x.to("cpu").numpy(), expected, rtol=1e-3, atol=1e-4)


def test_what_is_no_stream() -> None:
    with pytest.raises(ArgumentError, match=r"tripoint\.stream takes a tripoint\.Stream, not 'vault'"):
        tp.stream("vault")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"Event\.record takes a tripoint\.Stream, not 3"):
        tp.Event("vault").record(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"Stream\.wait takes a tripoint\.Stream, not None"):
        tp.Stream("vault").wait(None)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="unknown device"):
        tp.Stream("volt")
    with pytest.raises(DeviceError, match="no vault:9"):
        tp.Stream("vault:9")


def _stale_read(vault: ModuleType, ordered: bool) -> list[float]:
    """What a stream is about to write is read on the default one."""
    s, y = tp.Stream("vault"), tp.ones((3,), device="vault")
    tp.synchronize("vault")
    with vault.held(s):
        with tp.stream(s):
            y *= 5
        z = y + 1
        if not ordered:
            streams.current("vault").synchronize()  # it does not wait for the stream that stands still
    return z.tolist()  # type: ignore[no-any-return]


def _early_write(vault: ModuleType, ordered: bool) -> list[float]:
    """What a stream is about to read is overwritten on the default one."""
    s, x = tp.Stream("vault"), tp.ones((3,), device="vault")
    tp.synchronize("vault")
    with vault.held(s):
        with tp.stream(s):
            y = x * 10
        x += 1
        if not ordered:
            streams.current("vault").synchronize()
    s.synchronize()
    return y.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("program", "right", "wrong"), [(_stale_read, 6, 2), (_early_write, 10, 20)])
def test_without_the_waits_between_streams_results_are_wrong(
    program: Any, right: float, wrong: float, vault: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tripoint_vault.machine import Queue

    assert program(vault, True) == [right] * 3
    monkeypatch.setattr(Queue, "wait", lambda self, marker: None)
    assert program(vault, False) == [wrong] * 3


def test_a_pending_download_has_its_elements_behind_the_event_and_not_before(vault: ModuleType) -> None:
    x = tp.full((1000,), 4, dtype="float32", device="vault")
    tp.synchronize("vault")
    with vault.held():
        x += 1
        pending = x.to("cpu", non_blocking=True)
        event = tp.Event("vault")
        event.record()
        view = payload(pending)
        view[:] = -1  # which the copy, still to come, writes over
        assert not event.query()
        assert pending.tolist() == [-1] * 1000
    event.synchronize()
    assert pending.tolist() == [5] * 1000


def test_threads_with_a_stream_each_compute_what_one_would(vault: ModuleType) -> None:
    shared = tp.asarray(np.linspace(-1, 1, 400, dtype="float32").reshape(20, 20), device="vault")
    expected, wrong = np.linspace(-1, 1, 400, dtype="float32").reshape(20, 20), []

    def work(seed: int) -> None:
        random, mine, want = np.random.default_rng(seed), shared, expected
        with tp.stream(tp.Stream(f"vault:{seed % 2}")):
            mine = mine.to(f"vault:{seed % 2}")
            for _ in range(40):
                scale = float(random.integers(1, 5)) / 4
                mine, want = tp.tanh(mine @ mine) * scale, np.tanh(want @ want) * np.float32(scale)
        if not np.allclose(mine.to("cpu").numpy(), want, rtol=1e-3, atol=1e-4):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_program_ends_with_work_in_its_queues_standing_still_and_failed(run: Any) -> None:
    out = run(
        """
        import tripoint as tp, tripoint_vault as vault
        s = tp.Stream("vault:1")
        x = tp.ones((200, 200), device="vault")
        for _ in range(50):
            x = x @ x * 0.001
        with vault.failing("exp"):
            tp.exp(tp.ones((3,), device="vault"))
        hold = vault.held(s)
        hold.__enter__()
        with tp.stream(s):
            y = tp.ones((3,), device="vault:1") + 1
        print("ends")
        """
    )
    assert out == ["ends"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_is_told_that_the_device_is_not_its_own_and_does_not_wait_for_ever(run: Any) -> None:
    out = run(
        """
        import faulthandler, os, sys, warnings
        import tripoint as tp, tripoint_vault as vault
        warnings.simplefilter("ignore")  # Python's own, of threads and forks
        x, event = tp.ones((3,), device="vault"), tp.Event("vault")
        with vault.held():
            later = x + 1
            event.record()
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                faulthandler.dump_traceback_later(60, exit=True)
                tries = [x.tolist, lambda: x + 1, tp.synchronize, lambda: x.to("cpu"), lambda: tp.ones((1,), device="vault")]
                for attempt in tries:
                    try:
                        attempt()
                    except tp.errors.DeviceLostError as error:
                        print("forked" in str(error), "spawn" in str(error))
                event.synchronize()
                print(tp.ones((2,), device="vault:1").tolist())  # which the parent never switched on
                sys.exit(3)
            status = os.waitpid(child, 0)[1]
        print(os.waitstatus_to_exitcode(status), later.tolist())
        """
    )
    assert out == [*["True True"] * 5, "[1.0, 1.0]", "3 [2.0, 2.0, 2.0]"]
