"""The digits model, unchanged, on the vault: its numbers are those of the CPU."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tripoint as tp

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def digits() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module("digits")
    sys.path.remove(str(EXAMPLES))


def test_a_few_steps_of_the_digits_model(digits: ModuleType) -> None:
    random = np.random.default_rng(3)
    start = digits.initial_parameters(random)
    images = random.random((32, 1, 8, 8)).astype("float32")
    labels = random.integers(10, size=(32,))
    taught: dict[str, tuple[list[float], dict[str, np.ndarray]]] = {}
    for place in ("cpu", "vault"):
        p = {n: w.detach().to(place, copy=True).requires_grad_() for n, w in start.items()}
        velocity = {n: tp.zeros(w.shape, device=place) for n, w in p.items()}
        x, y = tp.asarray(images, device=place), tp.asarray(labels, device=place)
        losses = []
        for _ in range(4):
            loss = tp.nn.cross_entropy(digits.model(p, x), y)
            loss.backward()
            digits.descend(p, velocity, 0.01)
            losses.append(float(loss))
        taught[place] = losses, {n: w.detach().to("cpu").numpy() for n, w in p.items()}
    assert taught["vault"][0] == pytest.approx(taught["cpu"][0], rel=1e-5)
    assert taught["vault"][0][-1] < taught["vault"][0][0]
    for name, weight in taught["cpu"][1].items():
        np.testing.assert_allclose(taught["vault"][1][name], weight, rtol=1e-4, atol=1e-6)


def test_two_threads_train_side_by_side(digits: ModuleType) -> None:
    import threading

    random = np.random.default_rng(4)
    images, labels = random.random((8, 1, 8, 8)).astype("float32"), random.integers(10, size=(8,))
    losses: dict[int, list[float]] = {}

    def work(n: int) -> None:
        p = {k: w.detach().to("vault").requires_grad_() for k, w in start.items()}
        velocity = {k: tp.zeros(w.shape, device="vault") for k, w in p.items()}
        x, y = tp.asarray(images, device="vault"), tp.asarray(labels, device="vault")
        with tp.stream(tp.Stream("vault")):
            losses[n] = []
            for _ in range(4):
                loss = tp.nn.cross_entropy(digits.model(p, x), y)
                loss.backward()
                digits.descend(p, velocity, 0.01)
                losses[n].append(float(loss))

    start = digits.initial_parameters(random)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert losses[0] == losses[1]
    assert len(losses[0]) == 4
    assert losses[0][-1] < losses[0][0]
