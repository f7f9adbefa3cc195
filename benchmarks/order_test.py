"""The order test: every order of {view, write, detach, requires_grad_, no_grad} against torch, and against an oracle.

A program is a setup and a sequence of events on one small buffer and its aliases; it ends with a scalar loss of every
tensor that was made, and backward. Each program runs three times, by one interpreter: on Tripoint, on torch, and on an
oracle of a few lines over NumPy. Verdicts:

* values, and gradients of all leaves, must equal torch's where torch runs the program;
* where torch refuses a program and Tripoint runs it, gradients must equal the oracle's;
* where Tripoint refuses and torch does not, the refusal must be one of `JUDGED`, which gives the reasons;
* where torch itself disagrees with the oracle, Tripoint must equal one of the two, and the case is counted apart.

    python benchmarks/order_test.py [--length 4] [--seed 0] [--sample 12000] [--show 5] [--write-golden]

Programs up to length 3 are complete, longer ones are a sample fixed by the seed. Exits non-zero on any mismatch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "data" / "order_golden.json"

#: what the buffer is at the start: numbers, or something computed from the leaf x.
SETUPS = ("plain", "computed")

MAKES = ("slice", "reshape", "transpose", "inner", "sibling", "quiet view", "detach base", "detach view")
TARGETS = ("base", "view", "sibling", "inner", "detached")
WRITES = ("scale by p", "assign p", "scale by 3", "quiet scale")
EVENTS = (
    *MAKES,
    "want base",
    "want view",
    "use base",
    "use view",
    *(f"{target}: {write}" for target in TARGETS for write in WRITES),
)

BASE = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
X = np.array([[1.0, -0.5, 0.75], [2.0, 1.25, -1.5]])
P = np.array(1.3)
WEIGHTS = np.random.RandomState(7).uniform(-1, 1, (16, 6)).round(2)

Program = tuple[str, tuple[str, ...]]


class Impossible(Exception):
    """The program uses a tensor that no event has made."""


# The interpreter: what the events mean, for any library ---------------------------------------------------------------


class Run:
    """One program under way, or what is left of it.

    Attributes:
        tensors: every tensor made, in order; roles name the latest of a kind.
        leaves: tensors whose gradients are compared, by name.
        step: how far the program came; ``len(events)`` is the loss and backward.
    """

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.roles: dict[str, Any] = {}
        self.leaves: dict[str, Any] = {}
        self.uses: list[Any] = []
        self.step = 0
        self.error: Exception | None = None

    def role(self, name: str) -> Any:
        if name not in self.roles:
            raise Impossible(name)
        return self.roles[name]

    def make(self, name: str, tensor: Any) -> None:
        self.roles[name] = tensor
        self.tensors.append(tensor)


def play(lib: Any, program: Program) -> Run:
    """Run a program on a library; an error of the library is kept in the result."""
    setup, events = program
    run = Run()
    p = run.leaves["p"] = lib.want(lib.tensor(P))
    if setup == "computed":
        x = run.leaves["x"] = lib.want(lib.tensor(X))
        run.make("base", lib.times(x, 1.5))
    else:
        run.make("base", lib.tensor(BASE))
    try:
        for event in events:
            happen(lib, run, event, p)
            run.step += 1
        loss = None
        for term in [*run.uses, *(lib.term(t, WEIGHTS[i]) for i, t in enumerate(run.tensors))]:
            loss = term if loss is None else lib.plus(loss, term)
        lib.backward(loss, run.leaves)
    except Impossible:
        raise
    except Exception as error:
        run.error = error
    return run


def happen(lib: Any, run: Run, event: str, p: Any) -> None:
    """One event."""
    if event in ("slice", "reshape", "transpose", "quiet view", "sibling"):
        base = run.role("base")
        if event == "quiet view":
            with lib.no_grad():
                made = lib.slice(base)
        else:
            made = getattr(lib, event)(base)
        run.make("sibling" if event == "sibling" else "view", made)
    elif event == "inner":
        run.make("inner", lib.inner(run.role("view")))
    elif event.startswith("detach "):
        run.make("detached", lib.detach(run.role(event[7:])))
    elif event.startswith("want "):
        tensor = run.role(event[5:])
        if not lib.wanted(tensor) and not any(tensor is leaf for leaf in run.leaves.values()):
            lib.want(tensor)
            run.leaves[f"{event[5:]} at {run.step}"] = tensor
    elif event.startswith("use "):
        run.uses.append(lib.term(run.role(event[4:]), WEIGHTS[-1 - run.step]))
    else:
        name, _, write = event.partition(": ")
        target = run.role(name)
        if write == "scale by p":
            lib.scale(target, p)
        elif write == "assign p":
            lib.assign(target, lib.times(p, p))
        elif write == "scale by 3":
            lib.scale(target, 3.0)
        else:
            with lib.no_grad():
                lib.scale(target, 2.0)


def possible(events: tuple[str, ...]) -> bool:
    """Whether every event finds the tensor that it is about."""
    have = {"base"}
    for e in events:
        if e in ("slice", "reshape", "transpose", "quiet view"):
            have.add("view")
        elif e == "sibling":
            have.add("sibling")
        elif e == "inner":
            if "view" not in have:
                return False
            have.add("inner")
        else:
            need = e.partition(": ")[0] if ": " in e else e.partition(" ")[2]
            if need not in have:
                return False
            if e.startswith("detach "):
                have.add("detached")
    return True


# The three libraries --------------------------------------------------------------------------------------------------


class Array:
    """What Tripoint and torch spell alike."""

    def slice(self, t: Any) -> Any:
        return t[:, 1:]

    def sibling(self, t: Any) -> Any:
        return t[0]

    def reshape(self, t: Any) -> Any:
        return t.reshape(6)

    def transpose(self, t: Any) -> Any:
        return t.T

    def inner(self, t: Any) -> Any:
        shape = tuple(t.shape)
        if shape == (6,):
            return t.reshape(3, 2)
        return t.T if shape == (2, 2) else t[..., 1:]

    def detach(self, t: Any) -> Any:
        return t.detach()

    def wanted(self, t: Any) -> bool:
        # A leaf by inheritance only (a view of a buffer that became a leaf later) is none yet.
        return bool(t.requires_grad) and not t.is_leaf

    def want(self, t: Any) -> Any:
        return t.requires_grad_()

    def times(self, t: Any, other: Any) -> Any:
        return t * other

    def plus(self, a: Any, b: Any) -> Any:
        return a + b

    def scale(self, t: Any, by: Any) -> None:
        t *= by

    def term(self, t: Any, weights: np.ndarray) -> Any:
        n = int(np.prod(tuple(t.shape)))
        w = self.tensor(weights[:n].reshape(tuple(t.shape)))
        return (t * w).sum() + (t * t).sum() * 0.05

    def backward(self, loss: Any, leaves: dict[str, Any]) -> None:
        if loss.requires_grad:
            loss.backward()

    def gradient(self, run: Run, name: str) -> np.ndarray:
        leaf = run.leaves[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of .grad of what is no leaf any more
            g = leaf.grad
        return np.zeros(tuple(leaf.shape)) if g is None else g.detach().numpy().copy()

    def value(self, t: Any) -> np.ndarray:
        return t.detach().numpy().copy()

    tensor: Callable[[np.ndarray], Any]


class Tripoint(Array):
    """Tripoint."""

    def __init__(self) -> None:
        import tripoint

        self.tp = tripoint
        self.no_grad = tripoint.no_grad

    def tensor(self, data: np.ndarray) -> Any:  # type: ignore[override]
        return self.tp.asarray(data, dtype=self.tp.float64, copy=True)

    def assign(self, t: Any, value: Any) -> None:
        t[...] = value


class Torch(Array):
    """torch."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        self.torch = torch
        self.no_grad = torch.no_grad

    def tensor(self, data: np.ndarray) -> Any:  # type: ignore[override]
        return self.torch.tensor(data, dtype=self.torch.float64)

    def assign(self, t: Any, value: Any) -> None:
        t.copy_(value)


class Memory:
    """One allocation in the oracle: the histories that alias it, each the whole buffer, and the constant aliases."""

    def __init__(self) -> None:
        self.histories: list[np.ndarray] = []
        self.handles: list[Handle] = []


class Handle:
    """An alias in the oracle: a memory, one of its histories, and the way from the buffer to the part."""

    def __init__(self, memory: Memory, history: np.ndarray, path: tuple[Callable[..., Any], ...] = ()) -> None:
        self.memory, self.history, self.path = memory, history, path
        self.constant = False
        self.recorded = False
        self.leaf: tuple[int, tuple[int, ...]] | None = None
        memory.handles.append(self)

    def part(self, buffer: np.ndarray) -> np.ndarray:
        for step in self.path:
            buffer = step(buffer)
        return buffer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part(self.history).shape[1:]


class Oracle:
    """What the gradients of a program are, by finite differences in a complex step.

    Numbers are complex and have a leading axis, one place per element of any leaf: place k is the run in which that
    element was moved by ``i * H``. The real part is the run as it is; the imaginary part over H is the derivative, exact
    in float64 since the programs are polynomials. What the program calls constant is then easy to say:

    * reading what is not recorded (a detached alias, a view that was made under no_grad) reads the real part;
    * writing under no_grad sets the real part and leaves the imaginary part: the numbers move, what they depend on does
      not. The same holds for what another history of the same memory (a detached alias and what it was detached from)
      sees of a write;
    * ``requires_grad_`` starts a history: whatever is in memory then plus a step of its own;
    * a view joins the history of its base again when their memory is written.
    """

    H = 1e-30
    PLACES = 64

    def __init__(self) -> None:
        self.used = 0
        self.quiet = False

    @contextlib.contextmanager
    def no_grad(self) -> Iterator[None]:
        self.quiet = True
        yield
        self.quiet = False

    def _new(self, data: np.ndarray) -> Handle:
        memory = Memory()
        memory.histories.append(np.array(np.broadcast_to(data, (self.PLACES, *data.shape[1:])), complex))
        return Handle(memory, memory.histories[0])

    def tensor(self, data: np.ndarray) -> Handle:
        return self._new(data[None])

    def _read(self, t: Any) -> Any:
        if not isinstance(t, Handle):
            return t
        part = t.part(t.history)
        return part.real if t.constant or self.quiet else part

    def _view(self, t: Handle, step: Callable[[np.ndarray], np.ndarray]) -> Handle:
        out = Handle(t.memory, t.history, (*t.path, step))
        out.constant = t.constant or self.quiet
        return out

    def slice(self, t: Handle) -> Handle:
        return self._view(t, lambda m: m[:, :, 1:])

    def sibling(self, t: Handle) -> Handle:
        return self._view(t, lambda m: m[:, 0])

    def reshape(self, t: Handle) -> Handle:
        return self._view(t, lambda m: m.reshape(-1, 6))

    def transpose(self, t: Handle) -> Handle:
        return self._view(t, lambda m: m.swapaxes(1, 2))

    def inner(self, t: Handle) -> Handle:
        if t.shape == (6,):
            return self._view(t, lambda m: m.reshape(-1, 3, 2))
        if t.shape == (2, 2):
            return self._view(t, lambda m: m.swapaxes(1, 2))
        return self._view(t, lambda m: m[..., 1:])

    def _fork(self, t: Handle) -> np.ndarray:
        made = t.history.real.astype(complex)
        t.memory.histories.append(made)
        return made

    def detach(self, t: Handle) -> Handle:
        return Handle(t.memory, self._fork(t), t.path)

    def wanted(self, t: Handle) -> bool:
        return bool(t.leaf is None and not t.constant and np.any(t.part(t.history).imag))

    def want(self, t: Handle) -> Handle:
        if t.leaf is not None:
            return t
        if t.path:
            t.history = self._fork(t)
        for other in t.memory.handles:
            if other is not t and other.history is t.history:
                other.constant = True  # made before; joins at the next write
        part = t.part(t.history)
        size = int(np.prod(t.shape))
        moved = np.zeros((self.PLACES, size))
        moved[self.used + np.arange(size), np.arange(size)] = self.H
        part[...] += 1j * moved.reshape(part.shape)
        t.leaf, t.constant = (self.used, t.shape), False
        self.used += size
        return t

    def times(self, t: Any, other: Any) -> Handle:
        return self._new(np.asarray(self._read(t) * self._read(other)))

    def plus(self, a: Any, b: Any) -> Any:
        return a + b

    def _write(self, t: Handle, new: Callable[[np.ndarray], np.ndarray]) -> None:
        if not self.quiet:
            t.constant = False
        made = np.array(np.broadcast_to(new(self._read(t)), (self.PLACES, *t.shape)))
        for history in t.memory.histories:
            part = t.part(history)
            part[...] = made if history is t.history and not self.quiet else made.real + 1j * part.imag
        for other in t.memory.handles:
            other.constant = False

    def _beside(self, t: Handle, value: Any) -> Any:
        read = self._read(value)
        return read.reshape(-1, *[1] * len(t.shape)) if isinstance(value, Handle) else read

    def scale(self, t: Handle, by: Any) -> None:
        self._write(t, lambda old: old * self._beside(t, by))

    def assign(self, t: Handle, value: Any) -> None:
        self._write(t, lambda old: self._beside(t, value))

    def term(self, t: Handle, weights: np.ndarray) -> np.ndarray:
        part = self._read(t)
        w = weights[: part[0].size].reshape(part[0].shape)
        axes = tuple(range(1, part.ndim))
        return (part * w).sum(axis=axes) + (part * part).sum(axis=axes) * 0.05

    def backward(self, loss: np.ndarray, leaves: dict[str, Handle]) -> None:
        self.slopes = loss.imag / self.H

    def gradient(self, run: Run, name: str) -> np.ndarray:
        at, shape = run.leaves[name].leaf
        return self.slopes[at : at + int(np.prod(shape))].reshape(shape)

    def value(self, t: Handle) -> np.ndarray:
        return t.part(t.history)[0].real


# Verdicts -------------------------------------------------------------------------------------------------------------

#: refusals of Tripoint where torch runs the program: a part of the message, and why it is right to refuse.
JUDGED: dict[str, str] = {}

_REFUSALS = (
    ("a leaf Variable that requires grad", "a leaf is written"),
    ("a view of a leaf Variable", "a view of a leaf is written"),
    ("modified by an inplace operation", "a saved operand was written"),
    ("no_grad mode", "a view made under no_grad and written"),
)


def refusal(error: Exception) -> str:
    """Short name of a refusal of torch."""
    text = str(error)
    return next((short for part, short in _REFUSALS if part in text), text[:90])


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal up to rounding in another order."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


def gradients(lib: Any, run: Run) -> dict[str, np.ndarray]:
    """Gradients of all leaves; zeros where none arrived."""
    return {name: lib.gradient(run, name) for name in run.leaves}


def differing(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> list[str]:
    """Names of leaves whose gradients differ."""
    names = sorted({*a, *b})
    return [n for n in names if not close(a.get(n, np.zeros(())) + 0 * b.get(n, 0), b.get(n, np.zeros(())) + 0 * a.get(n, 0))]


def judge(ours: Any, theirs: Any, program: Program) -> tuple[str, bool, str]:
    """Category, whether it is a mismatch, and details."""
    from tripoint.errors import AutogradError

    mine, other = play(ours, program), play(theirs, program)
    if mine.error is not None and not isinstance(mine.error, AutogradError):
        return "MISMATCH: an error that is no refusal", True, repr(mine.error)
    if mine.step == other.step:
        for i, (a, b) in enumerate(zip(mine.tensors, other.tensors)):
            if not close(ours.value(a), theirs.value(b)):
                return "MISMATCH: values", True, f"tensor {i}: {ours.value(a).tolist()} {theirs.value(b).tolist()}"
    if mine.error is not None and other.error is not None:
        return f"both refuse: {refusal(other.error)}", False, ""
    if mine.error is not None:
        text = str(mine.error)
        known = next((part for part in JUDGED if part in text), None)
        if known is not None:
            return f"only Tripoint refuses: {known}", False, text
        return f"MISMATCH: only Tripoint refuses: {text[:60]}", True, text
    oracle = Oracle()
    truth = play(oracle, program)
    if truth.error is not None:
        raise truth.error
    true = gradients(oracle, truth)
    found = gradients(ours, mine)
    wrong = differing(found, true)
    details = f"Tripoint {show(found)} oracle {show(true)}"
    if other.error is not None:
        for a, b in zip(mine.tensors, truth.tensors, strict=True):
            if not close(ours.value(a), oracle.value(b)):
                return "MISMATCH: values, by the oracle", True, details
        if wrong:
            return f"MISMATCH: only torch refuses ({refusal(other.error)}); gradients are not the oracle's", True, details
        return f"only torch refuses ({refusal(other.error)}); gradients are the oracle's", False, ""
    given = gradients(theirs, other)
    details += f" torch {show(given)}"
    apart = differing(found, given)
    if not apart and not wrong:
        return "equal", False, ""
    if not apart:
        return "equal to torch, the oracle disagrees", False, details
    if wrong:
        return "MISMATCH: gradients", True, details
    return "MISMATCH: gradients, torch disagrees with the oracle", True, details


def show(grads: dict[str, np.ndarray]) -> str:
    """Gradients in one line."""
    return ", ".join(f"{n}: {np.round(g, 6).tolist()}" for n, g in grads.items())


# Programs -------------------------------------------------------------------------------------------------------------


def programs(length: int, seed: int, sample: int) -> Iterator[Program]:
    """All programs up to length 3 and, of each longer length, a sample."""

    def extend(events: tuple[str, ...], left: int) -> Iterator[tuple[str, ...]]:
        for e in EVENTS:
            longer = (*events, e)
            if possible(longer):
                if left > 1:
                    yield from extend(longer, left - 1)
                else:
                    yield longer

    for n in range(1, min(length, 3) + 1):
        for setup in SETUPS:
            for events in extend((), n):
                yield setup, events
    rng = random.Random(seed)
    for n in range(4, length + 1):
        seen: set[Program] = set()
        while len(seen) < sample:
            events: tuple[str, ...] = ()
            while len(events) < n:
                longer = (*events, rng.choice(EVENTS))
                if possible(longer):
                    events = longer
            program = (rng.choice(SETUPS), events)
            if program not in seen:
                seen.add(program)
                yield program


def main() -> int:
    """Run, print the table, and say by the exit status whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=12000, help="programs of each length above 3")
    parser.add_argument("--show", type=int, default=3, help="examples printed of each category that is not plain")
    parser.add_argument("--write-golden", action="store_true")
    options = parser.parse_args()
    ours, theirs = Tripoint(), Torch()
    start = time.perf_counter()
    counts: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    examples: dict[str, list[tuple[Program, str]]] = defaultdict(list)
    for program in programs(options.length, options.seed, options.sample):
        category, mismatch, details = judge(ours, theirs, program)
        counts[category] += 1
        bad[category] += mismatch
        examples[category].append((program, details))
    width = max(map(len, counts))
    for category, count in sorted(counts.items()):
        print(f"{category:{width}}  {count:7}")
    print(f"{sum(counts.values())} programs, {sum(bad.values())} mismatches, {time.perf_counter() - start:.0f} s")
    for category, found in sorted(examples.items()):
        if bad[category] or category.startswith(("only Tripoint", "equal to torch")):
            print(f"\n{category}")
            for (setup, events), details in found[: options.show]:
                print(f"  {setup}: {'; '.join(events)}\n    {details}")
    return 1 if sum(bad.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
