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

#: what the buffer is at the start: numbers, or something computed from the leaf x; in row-major or column-major order,
#: which decides what a reshape of it or of its transpose is.
SETUPS = ("plain", "computed", "plain columns", "computed columns")

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
    tensor = lib.columns if setup.endswith("columns") else lib.tensor
    if setup.startswith("computed"):
        x = run.leaves["x"] = lib.want(tensor(X))
        run.make("base", lib.times(x, 1.5))
    else:
        run.make("base", tensor(BASE))
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
        return t.T if shape == (2, 2) else t.reshape(6)

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

    def columns(self, data: np.ndarray) -> Any:
        return self.tp.asarray(np.array(data, order="F"))

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

    def columns(self, data: np.ndarray) -> Any:
        return self.torch.from_numpy(np.array(data, order="F"))

    def assign(self, t: Any, value: Any) -> None:
        t.copy_(value)


class Memory:
    """One allocation in the oracle: the histories of its aliases, each a whole buffer, and the count of writes."""

    def __init__(self) -> None:
        self.histories: list[np.ndarray] = []
        self.version = 0


class Handle:
    """A tensor of the oracle: a memory, a history of it, and how the part is reached from the buffer.

    A view has a base, and the version at which it took its history.
    """

    def __init__(
        self, memory: Memory, history: np.ndarray, path: tuple[Callable[..., Any], ...] = (), base: Handle | None = None
    ) -> None:
        self.memory, self.history, self.path, self.base = memory, history, path, base
        self.seen = memory.version
        self.recorded = False
        self.leaf: tuple[int, tuple[int, ...]] | None = None

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
    in float64 since the programs are polynomials. What a program calls constant is then easy to say:

    * reading what is not recorded (a detached alias, a view that was made under no_grad) reads the real part;
    * writing under no_grad sets the real part and leaves the imaginary part: the numbers move, what they depend on does
      not. The same holds for what another history of the same memory (a detached alias and what it was detached from)
      sees of a write;
    * ``requires_grad_`` starts a history: whatever is in memory then, plus a step of its own;
    * a view takes its base's history when it is made with recording on, when it is itself written, and when it is used,
      its base is recorded, and their memory was written since it last took it.
    """

    H = 1e-30
    PLACES = 48

    def __init__(self) -> None:
        self.used = 0
        self.quiet = False

    @contextlib.contextmanager
    def no_grad(self) -> Iterator[None]:
        self.quiet = True
        yield
        self.quiet = False

    def _new(self, data: np.ndarray, recorded: bool) -> Handle:
        memory = Memory()
        # Order of axes in memory is kept: it decides whether a reshape is a view.
        full = np.empty_like(data, complex, shape=(self.PLACES, *data.shape[1:]))
        full[...] = data
        memory.histories.append(full)
        out = Handle(memory, full)
        out.recorded = recorded
        return out

    def tensor(self, data: np.ndarray) -> Handle:
        return self._new(np.repeat(data[None], self.PLACES, 0), False)

    def columns(self, data: np.ndarray) -> Handle:
        return self._new(np.repeat(data.T[None], self.PLACES, 0).swapaxes(1, 2), False)

    def _look(self, t: Handle) -> None:
        if t.base is not None:
            self._look(t.base)
            if t.seen != t.memory.version and t.base.recorded:
                t.seen = t.memory.version
                self._join(t)

    def _join(self, t: Handle) -> None:
        if t.base is not None and t.base.recorded:
            t.recorded, t.history = True, t.base.history

    def _read(self, t: Any) -> Any:
        if not isinstance(t, Handle):
            return t
        self._look(t)
        part = t.part(t.history)
        return part if t.recorded and not self.quiet else part.real

    def _view(self, t: Handle, step: Callable[[np.ndarray], np.ndarray]) -> Handle:
        part = self._read(t)
        made = step(part)
        recorded = t.recorded and not self.quiet
        if not np.shares_memory(made, part):
            return self._new(made, recorded)
        out = Handle(t.memory, t.history, (*t.path, step), t)
        out.recorded = recorded
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
        return self._view(t, lambda m: m.reshape(-1, 6))

    def _fork(self, t: Handle) -> np.ndarray:
        made = t.history * (1 + 0j)
        made.imag = 0
        t.memory.histories.append(made)
        return made

    def detach(self, t: Handle) -> Handle:
        return Handle(t.memory, self._fork(t), t.path)

    def wanted(self, t: Handle) -> bool:
        self._look(t)
        return t.recorded and t.leaf is None

    def want(self, t: Handle) -> Handle:
        if t.base is not None:
            t.history = self._fork(t)
        part = t.part(t.history)
        size = int(np.prod(t.shape))
        moved = np.zeros((self.PLACES, size))
        moved[self.used + np.arange(size), np.arange(size)] = self.H
        part.imag += moved.reshape(part.shape)
        t.leaf, t.recorded, t.seen = (self.used, t.shape), True, t.memory.version
        self.used += size
        return t

    def times(self, t: Any, other: Any) -> Handle:
        recorded = any(isinstance(v, Handle) and v.recorded for v in (t, other)) and not self.quiet
        return self._new(np.asarray(self._read(t) * self._read(other)), recorded)

    def plus(self, a: Any, b: Any) -> Any:
        return a + b

    def _write(self, t: Handle, value: Any, new: Callable[[np.ndarray, Any], np.ndarray]) -> None:
        beside = self._read(value)
        if isinstance(value, Handle):
            beside = beside.reshape(-1, *[1] * len(t.shape))
        self._look(t)
        if not self.quiet:
            chain = [t]
            while chain[-1].base is not None:
                chain.append(chain[-1].base)
            for link in reversed(chain):
                if not link.recorded:
                    self._join(link)
            if t.recorded or (isinstance(value, Handle) and value.recorded):
                chain[-1].recorded = True
        made = np.array(np.broadcast_to(new(self._read(t), beside), (self.PLACES, *t.shape)))
        for history in t.memory.histories:
            part = t.part(history)
            part.real = made.real
            if history is t.history and not self.quiet:
                part.imag = made.imag
        t.memory.version += 1

    def scale(self, t: Handle, by: Any) -> None:
        self._write(t, by, lambda old, factor: old * factor)

    def assign(self, t: Handle, value: Any) -> None:
        self._write(t, value, lambda old, new: new)

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
JUDGED: dict[str, str] = {
    "is a leaf that gradients are wanted for, and a view": (
        "a view became a leaf, and its memory was then written with recorded values through the base: torch makes the leaf "
        "a non-leaf silently, and its gradient is gone"
    ),
    "would change a view of a tensor": (
        "a view of a view that is a leaf is written: torch looks for leaves at the root alone, and then loses the gradient "
        "as above"
    ),
}

#: programs in which torch runs, is not the oracle's, and Tripoint is.
TORCH_LOSES = (
    "want view",
    "a view became a leaf: torch derives its views, and the leaf itself, again from the root, when the memory is written or "
    "the root becomes a leaf, and the gradient of the leaf is lost",
)

_REFUSALS = (
    ("a leaf Variable that requires grad", "a leaf is written"),
    ("a view of a leaf Variable", "a view of a leaf is written"),
    ("modified by an inplace operation", "a saved operand was written"),
    ("no_grad mode", "a view made under no_grad and written"),
    ("moved into the graph interior", "a view that is a leaf is written through its base"),
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
    both = {**a, **b}
    return [n for n, g in both.items() if not close(a.get(n, np.zeros_like(g)), b.get(n, np.zeros_like(g)))]


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
            return f"MISMATCH: only torch refuses ({refusal(other.error)}); not the oracle's gradients", True, details
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
    if TORCH_LOSES[0] in program[1]:
        return "torch loses the gradient of a leaf that is a view; gradients are the oracle's", False, details
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
    for n in range(4, length + 1):
        yield from programs_of(n, seed, sample)


def programs_of(length: int, seed: int, sample: int) -> Iterator[Program]:
    """Some programs of one length."""
    rng = random.Random(seed + 1000 * length)
    seen: set[Program] = set()
    while len(seen) < sample:
        events: tuple[str, ...] = ()
        while len(events) < length:
            longer = (*events, rng.choice(EVENTS))
            if possible(longer):
                events = longer
        program = (rng.choice(SETUPS), events)
        if program not in seen:
            seen.add(program)
            yield program


# Golden cases ---------------------------------------------------------------------------------------------------------


def golden(ours: Any, theirs: Any, seed: int) -> list[dict[str, Any]]:
    """A small set of programs with what is expected of them: from torch, or from the oracle where torch is no judge.

    The set has some of every category, and every ordered pair of events that runs.
    """
    pool = [*programs(3, seed, 0), *programs_of(5, seed, 4000), *programs_of(8, seed, 8000)]
    random.Random(seed).shuffle(pool)
    open_pairs: set[tuple[str, str]] = set()
    found: list[tuple[Program, str, set[tuple[str, str]]]] = []
    for program in pool:
        category, mismatch, _ = judge(ours, theirs, program)
        if mismatch:
            raise SystemExit(f"no golden values from a mismatch: {program}")
        ran = program[1][: play(ours, program).step]
        pairs = {(a, b) for i, a in enumerate(ran) for b in ran[i + 1 :]}
        open_pairs |= pairs
        found.append((program, category, pairs))
    chosen: list[tuple[Program, str]] = []
    for category in sorted({c for _, c, _ in found}):
        chosen += [(program, c) for program, c, _ in found if c == category][:2]
    while open_pairs and len(chosen) < 150:
        program, category, pairs = max(found, key=lambda f: len(f[2] & open_pairs))
        open_pairs -= pairs
        chosen.append((program, category))
    print(f"{len(chosen)} golden programs, {len(open_pairs)} pairs of events left out")
    return [expectation(theirs, program, category) for program, category in chosen]


def expectation(theirs: Any, program: Program, category: str) -> dict[str, Any]:
    """One golden case as plain data."""
    case: dict[str, Any] = {"setup": program[0], "events": list(program[1]), "category": category}
    if "refuse" in category and not category.startswith("only torch"):
        return {**case, "refused": True}
    lib = theirs if category == "equal" else Oracle()
    run = play(lib, program)
    case["values"] = [np.round(lib.value(t), 10).tolist() for t in run.tensors]
    case["gradients"] = {name: np.round(g, 10).tolist() for name, g in gradients(lib, run).items()}
    return case


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
    if options.write_golden:
        lines = ",\n".join(json.dumps(case) for case in golden(ours, theirs, options.seed))
        GOLDEN.write_text(f"[\n{lines}\n]\n")
        return 0
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
