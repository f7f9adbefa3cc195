"""Where the package is installed: the driver's memory, its queues, the arithmetic of views; and the conformance kit."""

from __future__ import annotations

import itertools
import random
import threading
from typing import Any

import numpy as np
import pytest
from tripoint_vault.machine import ALIGNMENT, Machine, Ref, Task
from tripoint_vault.views import regrouped, row_major

from tripoint import conformance
from tripoint.errors import AsyncError, DeviceLostError


def test_memory_is_given_first_fit_and_pieces_are_joined_again() -> None:
    chip = Machine("toy", 10 * ALIGNMENT)
    a, b, c = (chip.malloc(2 * ALIGNMENT) for _ in range(3))
    assert (a, b, c) == (0, 2 * ALIGNMENT, 4 * ALIGNMENT)
    chip.free(a)
    chip.free(c)
    assert chip.malloc(3 * ALIGNMENT) == 4 * ALIGNMENT
    assert chip.malloc(1) == 0
    with pytest.raises(MemoryError):
        chip.malloc(4 * ALIGNMENT)
    chip.free(b)
    assert chip.malloc(3 * ALIGNMENT) == ALIGNMENT


def test_memory_against_a_model() -> None:
    rng = random.Random(0)
    chip = Machine("toy", 1000 * ALIGNMENT)
    taken: dict[int, int] = {}
    for _ in range(3000):
        if rng.random() < 0.5:
            size = rng.randrange(1, 60 * ALIGNMENT)
            rounded = -(-size // ALIGNMENT) * ALIGNMENT
            edges = sorted([(0, 0), *[(s, s + n) for s, n in taken.items()], (chip.capacity, chip.capacity)])
            free = [(x[1], y[0]) for x, y in itertools.pairwise(edges) if y[0] - x[1] >= rounded]
            if free:
                at = chip.malloc(size)
                assert at == free[0][0]
                taken[at] = rounded
            else:
                with pytest.raises(MemoryError):
                    chip.malloc(size)
        elif taken:
            at = rng.choice(sorted(taken))
            del taken[at]
            chip.free(at)
    for at in taken:
        chip.free(at)
    assert chip.largest() == chip.capacity


def _ref(chip: Machine, at: int) -> Ref:
    return Ref(chip, at, at, "int32", (4,), (4,))


def test_queues_run_in_order_and_wait_for_one_another() -> None:
    chip = Machine("toy", 4096)
    a, b = chip.queue(), chip.queue()
    gate, seen = threading.Event(), []
    a.hold(gate)
    a.submit(Task("first", lambda: seen.append(1), (), None, False))
    b.wait(a.record())
    b.submit(Task("second", lambda: seen.append(2), (), None, False))
    assert (a.query(), b.query(), seen) == (False, False, [])
    gate.set()
    b.synchronize()
    assert seen == [1, 2]


def test_a_failure_spreads_to_what_is_computed_from_it_and_is_told_once() -> None:
    chip = Machine("toy", 4096)
    x, y = chip.malloc(16), chip.malloc(16)
    work = chip.queue()
    work.submit(Task("make", lambda: np.arange(4) // 0 / "no", (), _ref(chip, x), True))
    work.submit(Task("use", lambda v: v + 1, (_ref(chip, x),), _ref(chip, y), True))
    with pytest.raises(AsyncError, match="toy: the kernel of make failed"):
        work.synchronize()
    work.synchronize()
    assert set(chip.damaged) == {x, y}
    work.submit(Task("make again", lambda: np.arange(4), (), _ref(chip, y), True))
    work.synchronize()
    assert set(chip.damaged) == {x}
    chip.lost = "gone"
    with pytest.raises(DeviceLostError, match="toy is lost: gone"):
        work.synchronize()


def test_a_queue_that_ended_goes_on_when_it_is_asked_again() -> None:
    work = Machine("toy", 4096).queue()
    order: list[int] = []
    for i in range(20):
        work.submit(Task("note", lambda i=i: order.append(i), (), None, False))
        if i % 3 == 0:
            work._state.end()
    work.synchronize()
    assert order == list(range(20))


def test_strides_of_another_shape_are_those_that_numpy_finds() -> None:
    base: Any = np.arange(720).reshape(2, 3, 4, 5, 6)
    for steps, axes in itertools.product([(1, 1), (2, 1), (1, -1)], itertools.permutations(range(5), 5)):
        array = base[:, :: steps[0], ::, :: steps[1]].transpose(axes)
        strides = tuple(s // array.itemsize for s in array.strides)
        for shape in [(array.size,), (array.shape[0], -1), (-1, array.shape[-1]), (2, 1, -1), (*array.shape[:2], -1)]:
            made = array.reshape(shape)
            found = regrouped(array.shape, strides, made.shape)
            assert (found is not None) == np.shares_memory(made, array), (array.strides, made.shape)
            if found is not None:
                wanted = tuple(s // array.itemsize for s in made.strides)
                assert [f for f, n in zip(found, made.shape, strict=True) if n > 1] == [
                    w for w, n in zip(wanted, made.shape, strict=True) if n > 1
                ]
    assert row_major((2, 0, 3)) == (3, 3, 1)
    assert regrouped((), (), (1, 1)) == (1, 1)


def test_the_kit() -> None:
    report = conformance.run("vault.strided")
    assert report.ok, str(report)
