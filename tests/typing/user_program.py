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
    assert_type(x.to(tp.strided), Tensor)
    assert_type(x.to(y, copy=True), Tensor)
    assert_type(x.to(layout="sparse_coo"), Tensor)
    assert_type(x.to(dtype=tp.float64), Tensor)
    assert_type(x.astype(dtype="float64"), Tensor)
    assert_type(x.permute_dims(axes=(1, 0)), Tensor)
    assert_type(x.T @ x.mT, Tensor)
    assert_type(x.storage().nbytes, int)


def properties(x: Tensor) -> None:
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.ndim, int)
    assert_type(x.requires_grad, bool)
    assert_type(x.strides, tuple[int, ...])
    assert_type(x.device, tp.Device)
    assert_type(x.dtype, tp.DType)
    assert_type(x.layout, tp.Layout)
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
    assert_type(tp.gradients(loss, x), Tensor | None)
    assert_type(tp.gradients(loss, [x, x], create_graph=True), list[Tensor | None])
    assert_type(tp.grad(square)(x), Tensor)
    assert_type(tp.grad(tp.grad(square))(x), Tensor)
    assert_type(tp.grad(tp.nn.linear, argnums=(0, 1))(x, x), list[Tensor])


@tp.no_grad()
def square(x: Tensor) -> Tensor:
    return (x * x).sum()


def scopes(x: Tensor) -> None:
    assert_type(square(x), Tensor)  # a decorated function keeps its signature
    with tp.device("meta") as chosen:
        assert_type(chosen.device, tp.Device)
    with tp.fallback("warn", to="cpu") as counted:
        assert_type(counted.report(), str)
    with tp.stream(tp.Stream("cpu")) as s:
        assert_type(s.record(), tp.Event)
    tp.synchronize()


def networks(x: Tensor, weight: Tensor, labels: Tensor) -> None:
    y = tp.nn.relu(tp.nn.conv2d(x, weight, None, stride=2, padding=(1, 1)))
    assert_type(tp.nn.cross_entropy(y.reshape(2, -1), labels), Tensor)
    assert_type(tp.nn.softmax(y, axis=-1), Tensor)


def made(x: Tensor) -> None:
    assert_type(tp.where(x > 0, x, 0), Tensor)
    assert_type(tp.concat([x, x], axis=1), Tensor)
    assert_type(tp.clip(x, 0.0, max=1.0), Tensor)
    assert_type(tp.full((2,), 1.5, dtype="float64"), Tensor)
    assert_type(tp.arange(0, 10, 2), Tensor)
    assert_type(tp.shares_memory(x, x), bool)
    assert_type(tp.memory.stats("cpu").counts, dict[str, int])
    assert_type(tp.plugins.report(), str)
    for row in x:
        assert_type(row, Tensor)


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
    tp.exp(x, out=x)  # type: ignore[call-arg]
    tp.sum(x, 0)  # type: ignore[call-arg]
    x.requires_grad = True  # type: ignore[misc]
    x.device = "cpu"  # type: ignore[misc,assignment]
    square(1.0)  # type: ignore[arg-type]
    tp.no_gard()  # a plugin may add any name to the namespace, so this is found when it runs
