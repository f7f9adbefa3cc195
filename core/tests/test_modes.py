"""Modes: scopes as context managers and decorators, generators, threads, tasks, and layers that set one themselves."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import tripoint as tp
from tripoint import modes
from tripoint.modes import DEFAULT, get_mode


@pytest.fixture(autouse=True)
def mode_is_left_as_found() -> Iterator[None]:
    yield
    mode, entries = get_mode(), modes._entries.get()
    modes.current.set(DEFAULT)
    modes._entries.set(())
    assert mode is DEFAULT
    assert entries == ()


def _grad() -> bool:
    return get_mode().grad


def test_scopes_nest_and_end_after_exceptions() -> None:
    with tp.no_grad():
        assert not _grad()
        with tp.enable_grad():
            assert _grad()
            with tp.no_grad():
                assert not _grad()
            assert _grad()
        assert not _grad()
    with pytest.raises(ValueError, match="mine"), tp.no_grad(), tp.device("meta"):
        raise ValueError("mine")
    assert get_mode() is DEFAULT


def test_recording_follows_the_scope() -> None:
    x = tp.zeros((2,), device="meta").requires_grad_()
    assert (x + x).requires_grad
    with tp.no_grad():
        assert not (x + x).requires_grad
        with tp.enable_grad():
            assert (x + x).requires_grad


def test_decorated_functions_keep_name_result_and_exceptions() -> None:
    @tp.no_grad()
    def fn(a: int, *, b: int = 2) -> tuple[bool, int]:
        """Doc."""
        if a < 0:
            raise ValueError(a)
        return _grad(), a + b

    assert fn(1) == (False, 3)
    assert (fn.__name__, fn.__doc__) == ("fn", "Doc.")
    with pytest.raises(ValueError, match="-1"):
        fn(-1)
    assert _grad()


def test_methods_partials_and_callable_objects_can_be_decorated() -> None:
    from functools import partial

    class Thing:
        def __call__(self, n: int) -> tuple[bool, int]:
            return _grad(), n

        @tp.no_grad()
        def method(self, n: int) -> tuple[bool, int]:
            return _grad(), n

    assert Thing().method(3) == (False, 3)
    assert tp.no_grad()(Thing())(3) == (False, 3)
    assert tp.no_grad()(partial(Thing().__call__, 4))() == (False, 4)
    assert tp.no_grad()(len)([1, 2]) == 2


def test_a_decorated_generator_has_its_scope_in_its_resumes_only() -> None:
    seen: list[Any] = []

    @tp.no_grad()
    def numbers() -> Iterator[Any]:
        try:
            got = yield _grad()
            seen.append((got, _grad()))
            try:
                yield _grad()
            except ValueError:
                seen.append(("thrown", _grad()))
            yield _grad()
        finally:
            seen.append(("end", _grad()))
        return "result"

    assert inspect.isgeneratorfunction(numbers)
    it = numbers()
    assert next(it) is False
    assert _grad()
    assert it.send("sent") is False
    assert _grad()
    assert it.throw(ValueError("x")) is False
    assert _grad()
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == "result"
    assert seen == [("sent", False), ("thrown", False), ("end", False)]

    seen.clear()
    it = numbers()
    next(it)
    with tp.device("meta"):
        it.close()
        assert _grad()
    assert seen == [("end", False)]


def test_a_bare_with_in_a_generator_stays_while_it_is_paused_and_leaves_no_trace() -> None:
    def plain() -> Iterator[bool]:
        with tp.no_grad():
            yield _grad()

    it = plain()
    assert next(it) is False
    assert not _grad()  # as Python's own context managers do
    with tp.device("meta"):
        it.close()
        assert _grad()
        assert get_mode().device is tp.Device("meta")
    assert get_mode() is DEFAULT


def test_scopes_may_overlap_without_nesting() -> None:
    a, b = tp.no_grad(), tp.device("meta")
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    assert _grad()
    assert get_mode().device is tp.Device("meta")
    b.__exit__(None, None, None)
    assert get_mode() is DEFAULT


def test_any_order_of_entering_and_leaving_gives_what_the_open_scopes_say() -> None:
    kinds = [tp.no_grad, tp.enable_grad, lambda: tp.device("meta"), lambda: tp.device("cpu")]
    rng = random.Random(7)
    for _ in range(300):
        opened: list[tuple[int, Any]] = []
        for _ in range(12):
            if opened and rng.random() < 0.45:
                opened.pop(rng.randrange(len(opened)))[1].__exit__(None, None, None)
            else:
                kind = rng.randrange(len(kinds))
                scope = kinds[kind]()
                scope.__enter__()
                opened.append((kind, scope))
            # The model: the last opened scope of either setting decides.
            grads = [k == 1 for k, _ in opened if k < 2]
            devices = [("meta", "cpu")[k - 2] for k, _ in opened if k >= 2]
            assert _grad() is (grads[-1] if grads else True)
            assert str(get_mode().device) == (devices[-1] if devices else "None")
        while opened:
            opened.pop(rng.randrange(len(opened)))[1].__exit__(None, None, None)
        assert get_mode() is DEFAULT


def test_one_scope_object_may_be_entered_again_and_again() -> None:
    scope = tp.no_grad()
    for _ in range(2):
        with scope, scope:
            assert not _grad()
            with scope:
                pass
            assert not _grad()
        assert _grad()
        assert not scope.entered
    scope.__exit__(None, None, None)  # not entered: nothing to leave
    assert _grad()


def test_one_scope_object_in_several_threads() -> None:
    scope, barrier, seen = tp.no_grad(), threading.Barrier(8), []

    def work() -> None:
        for _ in range(50):
            barrier.wait()
            with scope:
                barrier.wait()
                seen.append(_grad())
            seen.append(not _grad())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(seen) == 800
    assert not any(seen)
    assert not scope.entered


def test_new_threads_start_from_the_default() -> None:
    seen: list[Any] = []
    with tp.no_grad(), tp.device("meta"):
        thread = threading.Thread(target=lambda: seen.append(get_mode()))
        thread.start()
        thread.join()
        assert not _grad()
    assert seen == [DEFAULT]


def test_the_default_device_is_where_new_tensors_go() -> None:
    with tp.device("meta") as scope:
        assert scope.device is tp.Device("meta")
        assert tp.zeros((2,)).device is tp.Device("meta")
        assert tp.asarray([1.0, 2.0]).device is tp.Device("meta")
        assert tp.full((2,), 1.0).device is tp.Device("meta")
        assert tp.arange(3).device is tp.Device("meta")
        assert tp.zeros((2,), device="cpu").device is tp.Device("cpu")
    assert tp.zeros((2,)).device is tp.Device("cpu")
    with pytest.raises(tp.errors.DeviceError, match="nowhere"):
        tp.device("nowhere")


def test_a_scope_inside_of_a_mode_that_was_set_directly_comes_back_to_that() -> None:
    """Layers, views and backward set the mode for a while; a scope used meanwhile must not undo that."""
    with tp.device("meta"):
        token = modes.current.set(DEFAULT)
        with tp.no_grad():
            assert get_mode() is DEFAULT.replace(grad=False)
            with tp.enable_grad():
                pass
            assert get_mode() is DEFAULT.replace(grad=False)
        assert get_mode() is DEFAULT
        modes.current.reset(token)
        assert get_mode().device is tp.Device("meta")


def test_tasks_inherit_the_scope_they_start_in_and_keep_theirs_to_themselves() -> None:
    async def work(n: int, log: list[bool]) -> None:
        log.append(_grad())
        with tp.no_grad() if n % 2 else tp.enable_grad():
            for _ in range(3):
                await asyncio.sleep(0)
                log.append(_grad())
        log.append(_grad())

    async def main() -> None:
        logs: list[list[bool]] = [[] for _ in range(6)]
        with tp.no_grad():
            tasks = [asyncio.create_task(work(n, logs[n])) for n in range(3)]
        tasks += [asyncio.create_task(work(n, logs[n])) for n in range(3, 6)]
        assert _grad()
        await asyncio.gather(*tasks)
        assert _grad()
        for n, log in enumerate(logs):
            outside = n >= 3
            assert log == [outside, *[n % 2 == 0] * 3, outside]

    asyncio.run(main())


def test_decorated_coroutines_and_async_generators_run_inside_of_the_scope() -> None:
    @tp.no_grad()
    async def fn(n: int) -> tuple[bool, bool, int]:
        before = _grad()
        await asyncio.sleep(0)
        return before, _grad(), n

    @tp.no_grad()
    async def stream(n: int) -> AsyncIterator[Any]:
        try:
            for _ in range(n):
                await asyncio.sleep(0)
                try:
                    got = yield _grad()
                except ValueError:
                    got = "caught"
                assert got in (None, "sent", "caught")
        finally:
            closed.append(_grad())

    closed: list[bool] = []

    async def main() -> None:
        assert inspect.iscoroutinefunction(fn)
        assert inspect.isasyncgenfunction(stream)
        assert await fn(3) == (False, False, 3)
        seen = []
        async for value in stream(2):
            seen += [value, _grad()]
        assert seen == [False, True, False, True]
        it = stream(5)
        assert await it.asend(None) is False  # type: ignore[attr-defined]
        assert await it.asend("sent") is False  # type: ignore[attr-defined]
        assert await it.athrow(ValueError()) is False  # type: ignore[attr-defined]
        assert _grad()
        await it.aclose()  # type: ignore[attr-defined]
        assert closed == [False, False]
        results = await asyncio.gather(*(fn(i) for i in range(4)))
        assert results == [(False, False, i) for i in range(4)]
        assert _grad()

    asyncio.run(main())


def test_modes_are_interned_and_print_their_settings() -> None:
    assert DEFAULT.replace(grad=False) is DEFAULT.replace(grad=False)
    assert DEFAULT.replace(grad=False).replace(grad=True) is DEFAULT
    assert "grad=True" in repr(DEFAULT)
