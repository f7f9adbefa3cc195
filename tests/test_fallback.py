"""Fallbacks: an error by default; in a scope that permits them copied elsewhere and back, counted, and warned of once."""

from __future__ import annotations

import asyncio
import math
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DeviceError, FallbackWarning, LayoutError, NoKernelError
from tripoint.plugin import Backend, Device, register, strided


class Slow:
    """A payload on a device of its own: a shape and a flat list of floats."""

    def __init__(self, shape: tuple[int, ...], data: list[float]) -> None:
        self.shape = shape
        self.data = data


@pytest.fixture
def half() -> Iterator[str]:
    """A device that multiplies and converts, and can do nothing else."""
    import numpy as np

    backend = Backend(Device("half"), strided, payload=Slow)
    backend.kernels(multiply=lambda a, b: Slow(a.shape, [x * y for x, y in zip(a.data, b.data, strict=True)]))
    backend.to("cpu.strided")(lambda x: np.asarray(x.data, "float32").reshape(x.shape))
    backend.from_("cpu.strided")(lambda x: Slow(x.shape, [float(v) for v in x.ravel()]))

    @backend.kernel("tanh")
    def _tanh(x: Slow) -> Slow:
        raise RuntimeError("the chip is on fire")

    register(backend)
    try:
        yield "half"
    finally:
        tp.plugins.unregister(None)


def test_the_default_is_an_error(half: str) -> None:
    x = tp.asarray([1.0, 2.0]).to(half)
    with pytest.raises(NoKernelError, match="no kernel for exp"):
        tp.exp(x)
    with tp.fallback("allow"):
        assert tp.exp(x).device == half
        with tp.fallback("error"), pytest.raises(NoKernelError):
            tp.exp(x)
    with pytest.raises(NoKernelError):
        tp.exp(x)


def test_a_call_goes_to_the_cpu_and_its_result_comes_back(half: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half)
    with tp.fallback("allow") as scope:
        y = tp.exp(x) * x
        total = (y + 1.0).sum()
    assert (y.device, y.layout, y.dtype) == (half, "strided", "float32")
    assert y.to("cpu").tolist() == pytest.approx([0, math.e])
    assert total.device == half
    assert total.to("cpu").item() == pytest.approx(math.e + 2)
    assert {name: c.calls for (name, _), c in scope.counts.items()} == {"exp": 1, "add": 1, "sum": 1}
    moved = {name: c.nbytes for (name, _), c in scope.counts.items()}
    assert moved == {"exp": 16, "add": 16, "sum": 12}  # there and back: two floats each way; of the sum one
    assert all(c.seconds > 0 for c in scope.counts.values())
    assert "exp on half.strided.float32: 1 call, 16 bytes moved" in scope.report()


def test_a_warning_for_each_operator_and_point_and_a_sum_at_the_end(half: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tp.fallback("warn"):
            for _ in range(3):
                tp.exp(x)
    assert [w.category for w in caught] == [FallbackWarning] * 2
    first, last = (str(w.message) for w in caught)
    assert first == "exp has no kernel for half.strided.float32 and fell back to cpu: 16 bytes moved"
    assert last.startswith("fallbacks: exp on half.strided.float32: 3 calls, 48 bytes moved")
    assert all(w.filename == __file__ for w in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tp.fallback("allow"):
            tp.exp(x)
        with tp.fallback("warn"), pytest.raises(FallbackWarning):
            tp.exp(x)


def test_layouts_and_dtypes_fall_back_too_and_stay_strided_and_plain() -> None:
    sparse = tp.asarray([[0.0, 1.0]]).to(layout="sparse_coo")
    q = tp.quantize(tp.asarray([0.0, 1.0]), tp.affine(scale=0.5))
    with tp.fallback("allow") as scope:
        a, b = tp.exp(sparse), tp.exp(q)
        soft = tp.softmax(q)
    assert (a.layout, b.dtype) == ("strided", "float32")
    assert a.tolist() == [pytest.approx([1, math.e])]
    assert b.tolist() == pytest.approx([1, math.e])
    assert soft.tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])
    assert ("exp", "cpu.strided.qint8") in scope.counts


def test_gradients_are_recorded_through_a_fallback_and_run_under_its_policy(half: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half).requires_grad_()
    with tp.fallback("allow"):
        y = (tp.exp(x) * x).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad.device == half
    assert x.grad.to("cpu").tolist() == pytest.approx([1, 2 * math.e])


def test_creation_falls_back_to_making_it_elsewhere(half: str) -> None:
    with pytest.raises(NoKernelError):
        tp.zeros((2,), device=half)
    with tp.fallback("allow") as scope:
        assert tp.zeros((2,), device=half).to("cpu").tolist() == [0, 0]
    assert ("zeros", "half.strided.float32") in scope.counts


def test_a_kernel_that_fails_is_not_replaced(half: str) -> None:
    x = tp.asarray([0.0]).to(half)
    with tp.fallback("allow") as scope, pytest.raises(RuntimeError, match="on fire"):
        tp.tanh(x)
    assert not scope.counts


def test_what_a_fallback_does_not_do(half: str) -> None:
    x, y = tp.asarray([1.0]), tp.asarray([1.0]).to(half)
    with tp.fallback("allow"):
        with pytest.raises(DeviceError, match="several devices"):
            x + y
        z = tp.asarray([[0.0, 1.0]]).to(layout="sparse_coo")
        with pytest.raises(
            LayoutError, match=r"subtract_ would move x1 from cpu.sparse_coo.float32 to cpu.strided.float32"
        ):
            z -= 1.0


def test_a_refused_fallback_says_why() -> None:
    from tripoint.plugin import register as enter

    backend = Backend(Device("island"), strided, payload=Slow)
    backend.kernel("ones")(lambda *, shape: Slow(shape, [1.0]))
    enter(backend)
    try:
        x = tp.ones((1,), device="island")
        with tp.fallback("allow"), pytest.raises(NoKernelError) as caught:
            tp.exp(x)
        assert (
            "fallback to cpu was refused: no conversions lead from island.strided.float32 to cpu.strided.float32"
            in str(caught.value)
        )
    finally:
        tp.plugins.unregister(None)


def test_threads_start_without_a_policy(half: str) -> None:
    x = tp.asarray([1.0]).to(half)
    found: list[Any] = []

    def work() -> None:
        try:
            tp.exp(x)
        except NoKernelError as error:
            found.append(error)

    with tp.fallback("allow") as scope:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(found) == 1
    assert not scope.counts


def test_nested_scopes_count_each_for_itself(half: str) -> None:
    x = tp.asarray([1.0]).to(half)
    with tp.fallback("allow") as outer:
        tp.exp(x)
        with tp.fallback("allow") as inner:
            tp.exp(x)
        tp.exp(x)
    assert [c.calls for c in outer.counts.values()] == [3]
    assert [c.calls for c in inner.counts.values()] == [1]

    @tp.fallback("allow")
    def decorated() -> tp.Tensor:
        return tp.exp(x)

    assert decorated().device == half


def test_explain_shows_the_way(half: str) -> None:
    x = tp.asarray([1.0]).to(half)
    with tp.fallback("allow"):
        walk = tp.explain(tp.exp, x)
    assert walk.how == "fallback"
    assert walk.result == "half.strided.float32"


@pytest.mark.parametrize("bad", ["", "WARN", "cpu", None, 1])
def test_bad_policies(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="policy must be 'error', 'warn' or 'allow'"):
        tp.fallback(bad)


def test_an_unknown_device() -> None:
    with pytest.raises(DeviceError, match="nowhere"):
        tp.fallback("warn", to="nowhere")


def test_a_device_that_cannot_be_used_says_why() -> None:
    sparse = tp.ones((2, 2)).to(layout="sparse_coo")
    with tp.fallback("allow", to="cuda"), pytest.raises(DeviceError, match=r"tripoint-cuda-cupy .* cannot be used"):
        tp.exp(sparse)


# What a scope decorates, and where exceptions and other scopes come in between ---------------------------------------


def twice(x: tp.Tensor) -> tp.Tensor:
    tp.exp(x)
    return tp.exp(x)


def each(x: tp.Tensor) -> Iterator[tp.Tensor]:
    for _ in range(2):
        yield tp.exp(x)


async def later(x: tp.Tensor) -> None:
    tp.exp(x)
    await asyncio.sleep(0)
    tp.exp(x)


async def stream(x: tp.Tensor) -> AsyncIterator[tp.Tensor]:
    for _ in range(2):
        await asyncio.sleep(0)
        yield tp.exp(x)


async def drained(made: AsyncIterator[tp.Tensor]) -> None:
    async for _ in made:
        pass


RUN: dict[str, Callable[[Any, tp.Tensor], Any]] = {
    "function": lambda scope, x: scope(twice)(x),
    "generator": lambda scope, x: list(scope(each)(x)),
    "coroutine": lambda scope, x: asyncio.run(scope(later)(x)),
    "asynchronous generator": lambda scope, x: asyncio.run(drained(scope(stream)(x))),
}


@pytest.mark.parametrize("kind", RUN)
def test_what_a_scope_decorates_is_counted_in_it_and_warned_of_once(half: str, kind: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half)
    scope = tp.fallback("warn")
    with pytest.warns(FallbackWarning) as told:
        [RUN[kind](scope, x) for _ in range(3)]
    assert [str(w.message) for w in told] == [
        "exp has no kernel for half.strided.float32 and fell back to cpu: 16 bytes moved"
    ]
    counted = scope.counts["exp", "half.strided.float32"]
    assert (counted.calls, counted.nbytes) == (6, 6 * 16)  # two float32 there and two back, each time
    assert scope.report().startswith("fallbacks: exp on half.strided.float32: 6 calls, 96 bytes moved, ")
    with pytest.raises(NoKernelError):
        tp.exp(x)


def test_decorated_scopes_nest_in_others(half: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half)
    inner = tp.fallback("allow")
    with tp.fallback("allow") as outer:
        inner(twice)(x)
        tp.exp(x)
    assert inner.counts["exp", "half.strided.float32"].calls == 2
    assert outer.counts["exp", "half.strided.float32"].calls == 3
    with tp.fallback("allow") as outer, pytest.raises(NoKernelError):
        tp.fallback("error")(twice)(x)
    assert outer.counts == {}


def test_an_exception_in_the_middle_leaves_the_counts_and_no_policy(half: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half)
    with pytest.raises(KeyError), tp.fallback("allow") as scope:  # noqa: PT012
        tp.exp(x)
        raise KeyError
    assert scope.counts["exp", "half.strided.float32"].calls == 1

    @tp.fallback("allow")
    def breaks() -> None:
        tp.exp(x)
        raise KeyError

    with pytest.raises(KeyError):
        breaks()
    with pytest.raises(NoKernelError):
        tp.exp(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FallbackWarning), tp.fallback("warn") as scope:
            tp.exp(x)
    assert scope.counts["exp", "half.strided.float32"].calls == 1
    with pytest.raises(NoKernelError):
        tp.exp(x)


def test_tasks_count_each_for_itself(half: str) -> None:
    x = tp.asarray([0.0, 1.0]).to(half)

    async def one(count: int) -> int:
        with tp.fallback("allow") as scope:
            for _ in range(count):
                tp.exp(x)
                await asyncio.sleep(0)
        return scope.counts["exp", "half.strided.float32"].calls

    async def several() -> list[int]:
        return await asyncio.gather(one(1), one(2), one(3))

    assert asyncio.run(several()) == [1, 2, 3]


def test_the_point_is_that_of_an_operand_that_has_to_move() -> None:
    x = tp.asarray([[0.0, 1.0], [2.0, 4.0]])
    s, q = x.to(layout="sparse_coo"), tp.quantize(x, tp.affine(0.5))
    chosen = tp.asarray([[True, False], [False, True]])
    with tp.fallback("allow") as scope:
        assert tp.divide(x, s + s).tolist()[1] == [0.5, 0.5]
        assert tp.where(chosen, q, q).tolist() == x.tolist()
        assert (q + q).tolist() == (x + x).tolist()
    assert {point: (c.calls, c.nbytes) for point, c in scope.counts.items()} == {
        ("divide", "cpu.sparse_coo.float32"): (1, 16),  # one operand of four float32; the result stays where it is
        ("where", "cpu.strided.qint8"): (1, 32),  # two operands, read as float32
        ("add", "cpu.strided.qint8"): (1, 32),
    }


def test_what_a_kernel_refuses_by_shape_is_not_replaced() -> None:
    s = tp.asarray([[0.0, 1.0]]).to(layout="sparse_coo")
    with tp.fallback("allow") as scope, pytest.raises(LayoutError, match="convert first"):
        tp.add(s, 1)
    assert scope.counts == {}
