"""Side by side with PyTorch eager, and what a plugin's author pays, in one process, on one thread, as ratios.

    python benchmarks/run.py dispatch            print the tables
    python benchmarks/run.py dispatch --write    write docs/performance.md too

Needs benchmarks/requirements.txt. Times on shared machines wander; a ratio of the two best times of interleaved runs, and
the median over rounds of it, wanders least.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

import tripoint as tp
from tripoint.plugin import Backend, Device, check, dtypes_in, payload, plain, register, strided

Pair = tuple[Callable[[], Any], Callable[[], Any], int]
ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "performance.md"


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], number: int, rounds: int) -> float:
    """The median over rounds of our best time over theirs."""
    ours(), theirs()

    def best(fn: Callable[[], Any]) -> float:
        return min(timeit.repeat(fn, number=number, repeat=3))

    return statistics.median(best(ours) / best(theirs) for _ in range(rounds))


def cases() -> dict[str, Pair]:
    """Name, ours, theirs, and how often one timing calls them."""
    one, t_one = tp.ones((1,)), torch.ones(1)
    rec, t_rec = tp.ones((1,)).requires_grad_(), torch.ones(1, requires_grad=True)
    mat, t_mat = tp.ones((1, 1)), torch.ones(1, 1)
    view, t_view = tp.ones((2, 1))[0], torch.ones(2, 1)[0]
    ours_step, theirs_step = training_step()
    many = 20_000
    return {
        "a + b": (lambda: one + one, lambda: t_one + t_one, many),
        "a + b, recorded": (lambda: rec + rec, lambda: t_rec + t_rec, many),
        "a + 1.0": (lambda: one + 1.0, lambda: t_one + 1.0, many),
        "exp(a)": (lambda: tp.exp(one), lambda: torch.exp(t_one), many),
        "1x1 matmul": (lambda: mat @ mat, lambda: t_mat @ t_mat, many),
        "x[0]": (lambda: one[0], lambda: t_one[0], many),
        "sum": (lambda: one.sum(), lambda: t_one.sum(), many),
        "reshape": (lambda: one.reshape((1, 1)), lambda: t_one.reshape((1, 1)), many),
        "a + a on a view": (lambda: view + view, lambda: t_view + t_view, many),
        "training step": (ours_step, theirs_step, 300),
    }


def training_step() -> tuple[Callable[[], None], Callable[[], None]]:
    """A multi-layer perceptron 64-32-10 at batch 32: forward, backward and one step of gradient descent."""
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((32, 64)).astype("f"), rng.integers(0, 10, 32)
    weights = [rng.standard_normal(shape).astype("f") * np.float32(0.1) for shape in [(64, 32), (32,), (32, 10), (10,)]]
    x, y = tp.asarray(images), tp.asarray(labels)
    p = [tp.asarray(w.copy()).requires_grad_() for w in weights]
    t_x, t_y = torch.from_numpy(images), torch.from_numpy(labels)
    q = [torch.from_numpy(w.copy()).requires_grad_() for w in weights]

    def ours() -> None:
        tp.nn.cross_entropy(tp.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3], y).backward()
        with tp.no_grad():
            for w in p:
                w -= 0.01 * w.grad
                w.grad = None

    def theirs() -> None:
        torch.nn.functional.cross_entropy(torch.relu(t_x @ q[0] + q[1]) @ q[2] + q[3], t_y).backward()
        with torch.no_grad():
            for w in q:
                w -= 0.01 * w.grad
                w.grad = None

    return ours, theirs


def author_cases() -> dict[str, Pair]:
    """As `cases`, of what code of a plugin costs, each over a one-element ``a + b`` on cpu.strided."""
    sys.path.insert(0, str(ROOT / "examples" / "backend_minimal"))
    import tripoint_mini as mini

    nothing = Backend(Device("nil"), strided, payload=mini.Buffer, frozen=True)
    nothing.kernels(add=lambda x1, x2: x1, ones=lambda *, shape, target: mini.Buffer([1], shape, target.dtype))
    register(mini.backend)
    register(nothing)
    one, here, nil = tp.ones((1,)), tp.ones((1,), device="mini"), tp.ones((1,), device="nil")
    add, held, key = mini.elementwise(lambda a, b: a + b), payload(here), here._key
    some, pool = tuple(dtypes_in(plain)), mini.memory

    def base() -> Any:
        return one + one

    ours: dict[str, tuple[Callable[[], Any], int]] = {
        "a + b by a kernel that does nothing": (lambda: nil + nil, 20_000),
        "a + b on mini": (lambda: here + here, 5_000),
        "the kernel of add of mini alone": (lambda: add(held, held, target=key), 5_000),
        "allocate and free a block": (lambda: pool.allocate(64), 20_000),
        "check.dtype, of all plain dtypes": (lambda: check.dtype("add", some, x=tp.float32), 20_000),
        "check.shape": (lambda: check.shape("add", (1,), x=held), 20_000),
        "check.same_shape": (lambda: check.same_shape("add", x1=held, x2=held), 20_000),
        "check.fits": (lambda: check.fits("full", tp.int64, fill_value=3), 20_000),
    }
    return {name: (fn, base, many) for name, (fn, many) in ours.items()}


#: the budgets of a later version; a row above its budget is said to be.
BUDGETS = {
    "a + b": 0.70,
    "a + b, recorded": 0.65,
    "a + 1.0": 1.0,
    "exp(a)": 1.0,
    "1x1 matmul": 1.0,
    "x[0]": 1.0,
    "sum": 1.2,
    "reshape": 1.2,
    "a + a on a view": 1.2,
    "training step": 0.70,
}


def machine() -> str:
    """The class of this machine, in words."""
    name = "?"
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "?")
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, torch {torch.__version__}"
    return f"{os.cpu_count()} cores, {name}, {versions}"


def main() -> int:
    """Print the table, and write it when asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["dispatch"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, (ours, theirs, number) in cases().items():
        found = ratio(ours, theirs, number, options.rounds)
        rows.append((name, found, BUDGETS[name]))
        print(f"{name:20} {found:5.2f}  {'' if found <= BUDGETS[name] else f'above {BUDGETS[name]}'}", flush=True)
    author = []
    for name, (ours, theirs, number) in author_cases().items():
        author.append((name, ratio(ours, theirs, number, options.rounds)))
        print(f"{name:36} {author[-1][1]:5.2f}", flush=True)
    if options.write:
        paid = "\n".join(f"| {n} | {r:.2f} |" for n, r in author)
        table = "\n".join(f"| {n} | {r:.2f} | {b:.2f} | {'' if r <= b else 'above'} |" for n, r, b in rows)
        REPORT.write_text(
            "# Performance\n\n"
            "Time of a call over that of PyTorch eager, both in one process on one thread; below 1 is faster than PyTorch.\n"
            f"Made by `python benchmarks/run.py dispatch --write` on: {machine()}.\n\n"
            "| what | ratio | budget | |\n| --- | --- | --- | --- |\n" + table + "\n\n"
            "Tensors have one element, except in the training step: a perceptron 64-32-10 at batch 32, forward, backward and\n"
            "update. A row above its budget is marked.\n\n"
            "## What a plugin's author pays\n\n"
            "Time over that of a one-element `a + b` on `cpu.strided`, in the same process. `mini` is the backend of\n"
            "`examples/backend_minimal`, whose kernels are Python loops: what it pays beside them is the first row.\n\n"
            "| what | ratio |\n| --- | --- |\n" + paid + "\n"
        )
        print(f"wrote {REPORT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
