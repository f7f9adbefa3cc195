"""What a call costs, without a clock: Python calls, blocks of memory, resolutions, and the code of plans."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest

import tripoint as tp
from tripoint.dispatcher.calls import counters
from tripoint.modes import get_mode
from tripoint.plugin import Layer, row_of

A, B = tp.asarray([1.0]), tp.asarray([2.0])
R = tp.asarray([1.0]).requires_grad_()


def _python_calls(fn: Callable[[], Any]) -> list[str]:
    """Names of the Python functions that one call of ``fn`` runs, itself left out; the first calls make the plan."""
    fn()
    fn()
    seen: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fn()
    finally:
        sys.setprofile(before)
    return seen[1:]


PYTHON_CALLS_OF_A_STEP = 121


# A number that falls is good news: write the new one down, so that it stays.
@pytest.mark.parametrize(
    ("fn", "calls"),
    [
        (lambda: A + B, ["__add__", "plan"]),
        (lambda: tp.add(A, B), ["add", "plan"]),
        (lambda: A + 1.0, ["__add__", "plan"]),
        (lambda: 1.0 + A, ["__radd__", "plan"]),
        (lambda: tp.exp(A), ["exp", "plan"]),
        (lambda: R + B, ["__add__", "plan"]),
        (lambda: R * B, ["__mul__", "plan"]),
        (lambda: A[0], ["index", "plan", "bind_index", "getitem"]),
    ],
    ids=["a + b", "add(a, b)", "a + 1.0", "1.0 + a", "exp", "recorded a + b", "recorded a * b", "x[0]"],
)
def test_python_calls(fn: Callable[[], Any], calls: list[str]) -> None:
    assert _python_calls(fn) == calls


def test_python_calls_of_a_training_step() -> None:
    x, y = tp.ones((32, 64)), tp.zeros((32,), dtype="int64")
    weights = [tp.ones(shape).requires_grad_() for shape in ((64, 32), (32,), (32, 10), (10,))]

    def step() -> None:
        w1, b1, w2, b2 = weights
        tp.nn.cross_entropy(tp.nn.relu(x @ w1 + b1) @ w2 + b2, y).backward()
        with tp.no_grad():
            for w in weights:
                w -= 0.01 * w.grad  # type: ignore[operator]
                w.grad = None

    step()
    assert len(_python_calls(step)) <= PYTHON_CALLS_OF_A_STEP


def test_python_calls_in_a_scope_and_after_explaining() -> None:
    with tp.no_grad():
        assert _python_calls(lambda: R + B) == ["__add__", "plan"]
    tp.explain(tp.add, A, B)
    assert _python_calls(lambda: A + B) == ["__add__", "plan"]


def _grown(fn: Callable[[], Any], times: int) -> int:
    """Blocks of memory more after ``times`` calls than before, with nothing kept."""
    fn()
    gc.collect()
    gc.disable()  # what only the collector frees counts as grown
    try:
        for _ in range(2_500):  # fills CPython's lists of freed objects, up to 2,000 of a kind, which count as blocks
            fn()
        start = sys.getallocatedblocks()
        for _ in range(times):
            fn()
        return sys.getallocatedblocks() - start
    finally:
        gc.enable()


def _train() -> None:
    x = tp.asarray([1.0]).requires_grad_()
    y = x * B + x
    (y * y).sum().backward()


def _view() -> None:
    part = A[:1]
    part.reshape((1,))


def _written_view() -> None:
    x = tp.zeros((2,))
    x[0] = 1.0
    x[:1] += 1.0


@pytest.mark.parametrize(
    "fn",
    [lambda: A + B, lambda: R + B, _train, _view, _written_view],
    ids=["add", "recorded", "backward", "view", "write"],
)
def test_ten_thousand_calls_leave_nothing(fn: Callable[[], Any]) -> None:
    assert _grown(fn, 10_000) < 100  # a leak of one block a call would be ten thousand


def test_blocks_that_a_result_holds() -> None:
    def held(fn: Callable[[], Any], times: int = 1000) -> float:
        fn()
        kept = [None] * times
        gc.collect()
        start = sys.getallocatedblocks()
        for i in range(times):
            kept[i] = fn()
        return (sys.getallocatedblocks() - start) / times

    # The tensor and NumPy's array; data of a few bytes comes from NumPy's cache, which is not counted.
    assert held(lambda: A + B) <= 2.1
    # And the node with its age, its inputs, what it saves, and the shape.
    assert held(lambda: R + B) <= 6.1
    # The tensor, the array with its dimensions, and the view's record with its metadata.
    assert held(lambda: A[:1]) <= 6.1


def test_one_resolution_for_a_hundred_equal_calls() -> None:
    x, y = tp.ones((3, 5), dtype="float64"), tp.ones((3, 5), dtype="int16")
    w = tp.ones((3, 5), dtype="float64").requires_grad_()
    for fn in (
        lambda: x - y,
        lambda: w - y,
        lambda: tp.sum(x, axis=0),
        lambda: tp.concat([x, y, x]),
        lambda: tp.softmax(x, axis=0),
        lambda: tp.zeros((2,), dtype="float64"),
        lambda: x[1],
    ):
        tp.plugins.changed()  # forgets every plan
        before = counters.resolutions
        for _ in range(100):
            fn()
        assert counters.resolutions == before + 1


def _plan(operator: Callable[..., Any], *keys: Any) -> Any:
    table: Any = row_of(operator).plans[get_mode()]
    for key in keys:
        table = table[key]
    return table


def _codes() -> list[CodeType]:
    """The code of the plans of a few calls, made anew."""
    tp.plugins.changed()
    A + B
    R + B
    tp.exp(A)
    plans = [_plan(tp.add, A._key, B._key), _plan(tp.add, R._key, B._key), _plan(tp.exp, A._key)]
    return [plan.__code__ for plan in plans]


def test_an_inactive_layer_adds_no_instruction() -> None:
    before = _codes()

    class Passing(Layer, above="autograd"):
        def __call__(self, op: Any, call_next: Callable[..., Any], args: tuple[Any, ...], meta: dict[str, Any]) -> Any:
            return call_next(args, meta)

    layer = Passing()
    defined = _codes()
    with layer:
        assert all(a != b for a, b in zip(before, _codes(), strict=True))
    assert before == defined == _codes()
    assert _python_calls(lambda: A + B) == ["__add__", "plan"]
