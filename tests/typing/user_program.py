"""A user's program, for mypy: it is type-checked under the strict settings of the workspace and never run.

A `type: ignore` here is a test as well: mypy reports the ones that it does not need.
"""

from __future__ import annotations

from typing import assert_type

import tripoint as tp
from tripoint import Tensor


def make() -> Tensor:
    assert_type(tp.asarray([[1.0, 2.0], [3.0, 4.0]]), Tensor)
    assert_type(tp.asarray([1, 2], dtype=tp.int64, device="cpu", layout="strided"), Tensor)
    assert_type(tp.zeros((2, 3)), Tensor)
    assert_type(tp.ones((2, 3), dtype=tp.float32), Tensor)
    return tp.asarray([[1.0, 0.0], [0.0, 1.0]], dtype=tp.float32)


def operators(x: Tensor, y: Tensor) -> None:
    assert_type(x + y, Tensor)
    assert_type(x + 1, Tensor)
    assert_type(1.0 + x, Tensor)
    assert_type(2 - x, Tensor)
    assert_type(2 * x, Tensor)
    assert_type(x / 3, Tensor)
    assert_type(x**2, Tensor)
    assert_type(x @ y, Tensor)
    assert_type(-x, Tensor)
    assert_type(abs(x), Tensor)
    assert_type(x < y, Tensor)
    assert_type(x >= 0, Tensor)
    assert_type(x == y, Tensor)
    assert_type(x[0], Tensor)
    assert_type(x[..., 1:], Tensor)
    assert_type(x[x > 0], Tensor)
    x[0] = 1.0
    x += y
    assert_type(x, Tensor)


def methods(x: Tensor, y: Tensor) -> None:
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(axis=0, keepdims=True), Tensor)
    assert_type(x.mean(axis=(0, 1)), Tensor)
    assert_type(x.reshape((4,)), Tensor)
    assert_type(tp.exp(x), Tensor)
    assert_type(tp.matmul(x, y), Tensor)
    assert_type(tp.add(x, y), Tensor)
    assert_type(x.to("cpu"), Tensor)
    assert_type(x.to(layout="sparse_coo"), Tensor)
    assert_type(x.to(dtype=tp.float64), Tensor)


def properties(x: Tensor) -> None:
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.ndim, int)
    assert_type(x.requires_grad, bool)
    assert_type(float(x.sum()), float)
    assert_type(bool(x.sum() > 0), bool)
    same_dtype: bool = x.dtype == tp.float32
    print(same_dtype, x.device, x.layout, x.tolist())


def gradients(x: Tensor) -> None:
    x.requires_grad_()
    loss = (x * x).sum()
    loss.backward()
    assert_type(x.grad, Tensor | None)
    assert_type(x.detach(), Tensor)
    with tp.no_grad():
        assert_type(x * 2, Tensor)


def tables(x: Tensor) -> None:
    assert_type(tp.ops("nn")["relu"].doc, str)
    assert_type(
        tp.coverage(tp.exp, devices=["cpu", "meta"], dtypes=tp.float32)["exp", "cpu.strided.float32"].verdict, str
    )
    assert_type(tp.explain(tp.exp, x).to_html(), str)


def mistakes(x: Tensor) -> None:
    x.shpae  # type: ignore[attr-defined]
    x.sum(axes=0)  # type: ignore[call-arg]
    x + "one"  # type: ignore[operator]
    tp.exp("one")  # type: ignore[arg-type]
