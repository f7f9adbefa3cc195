"""`tripoint.checked`: what plans check at their first call is checked at every call, and operands are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tripoint as tp
from tripoint import kernels
from tripoint.errors import PluginError
from tripoint.plugin import Backend, Device, register, strided


class Bag:
    def __init__(self, data: list[float], shape: tuple[int, ...] | None = None) -> None:
        self.data = data
        self.shape = (len(data),) if shape is None else shape


@pytest.fixture
def bag() -> Iterator[Callable[..., tp.Tensor]]:
    """A device whose kernels are right at their first two calls, and wrong from then on."""
    calls: dict[str, int] = {}

    def later(name: str, right: Callable[[Bag], Any], wrong: Callable[[Bag], Any]) -> Callable[[Bag], Any]:
        def kernel(x: Bag) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return right(x) if calls[name] <= 2 else wrong(x)

        return kernel

    def spoil(x: Bag) -> Bag:
        x.data[0] += 1
        return Bag(list(x.data))

    def same(x: Bag) -> Bag:
        return Bag(list(x.data))

    backend = Backend(
        Device("bag"),
        strided,
        payload=Bag,
        describe=lambda p: {"dtype": tp.float64 if p.data[:1] == [64] else tp.float32},
        aliases=lambda out, x: out.data is x.data,
    )
    backend.kernel("zeros")(lambda *, shape: Bag([0.0] * shape[0]))
    backend.kernels(
        exp=later("exp", same, spoil),
        sin=later("sin", same, lambda x: x),
        cos=later("cos", same, lambda x: Bag(x.data)),
        tanh=later("tanh", same, lambda x: Bag([1.0])),
        sqrt=later("sqrt", same, lambda x: None),
        log=later("log", same, lambda x: Bag([64, 0])),
        negative=same,
    )
    register(backend)
    try:
        yield lambda: tp.zeros((2,), device="bag")
    finally:
        tp.plugins.unregister(None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exp", "exp changed its operand x"),
        ("sin", "sin returned memory of its operand x"),
        ("cos", "cos returned memory of its operand x"),
        ("tanh", r"tanh returned shape \(1,\); its shape rule says \(2,\)"),
        ("sqrt", "sqrt returned a NoneType; payloads on bag.strided.plain are Bag"),
        ("log", "log returned float64; the result on bag.strided.float32 must be float32"),
    ],
)
def test_a_kernel_that_goes_wrong_later_is_caught(bag: Callable[..., tp.Tensor], name: str, words: str) -> None:
    fn = getattr(tp, name)
    x = bag()
    fn(x)
    with tp.checked():
        assert fn(x).shape == (2,)
        with pytest.raises(PluginError, match=rf"{words}.*computed by __main__:kernel"):
            fn(bag())
    fn(bag())  # no plan looks twice


def test_right_programs_pass_and_give_what_they_give() -> None:
    def program() -> list[Any]:
        x = tp.asarray([[1.0, -2.0], [3.0, float("nan")]]).requires_grad_()
        y = x.reshape((4,)) * 2 + x.T.reshape((4,))
        z = y.detach().copy()
        z[1:] += z[:-1].copy()
        z += z
        tp.nn.relu(tp.softmax(x @ x) + x[0]).sum().backward()
        s = tp.asarray([[0.0, 1.0], [2.0, 0.0]]).to(layout="sparse_coo")
        q = tp.quantize(tp.asarray([1.0, 2.0]), tp.affine(scale=0.1))
        assert x.grad is not None
        return [repr(v.tolist()) for v in (y, z, x.grad, s @ tp.ones((2, 2)), s * 2, q.dequantize(), tp.concat([y, y]))]

    want = program()
    with tp.checked():
        assert program() == want
        with tp.checked():
            assert program() == want


def test_it_is_a_floor_of_its_own_and_leaves_no_trace() -> None:
    x = tp.ones((2,))
    with tp.checked():
        assert tp.explain(tp.exp, x).layers == ("checked",)
        assert tp.explain(tp.exp, tp.ones((2,)).requires_grad_()).layers == ("autograd", "checked")
    assert tp.explain(tp.exp, x).layers == ()
    assert kernels.find_point(x._key) is not None


def test_the_log_of_calls() -> None:
    program = """
import tripoint as tp
x = tp.asarray([[1.0, 2.0]])
tp.softmax(x.to(layout="sparse_coo").to(layout="strided"))
tp.nn.linear(x, tp.ones((3, 2)))
try:
    tp.exp(x.to(layout="sparse_coo"))
except tp.errors.NoKernelError:
    pass
x @ x.T
"""
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TRIPOINT_TRACE": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    lines = run.stderr.splitlines()
    assert all(line.startswith("tripoint: ") for line in lines)
    assert any(
        line.startswith("tripoint: softmax(cpu.strided.float32 (1, 2), 1) -> cpu.strided.float32 (1, 2)")
        for line in lines
    )
    # Parts are indented, and come before the whole.
    at = next(i for i, line in enumerate(lines) if line.startswith("tripoint: linear("))
    assert lines[at - 1].startswith("tripoint:   matmul(")
    assert lines[at - 1].endswith("tripoint-dense-cpu:matmul")
    quiet = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert quiet.stderr == ""
    off = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TRIPOINT_TRACE": "0"}, capture_output=True, text=True
    )
    assert off.stderr == ""


@pytest.mark.parametrize("how", ["gone", "closed", "full", "strange"])
def test_a_log_that_cannot_be_written_costs_no_call(how: str) -> None:
    program = f"""
import sys, tripoint as tp
how = {how!r}
if how == "gone":
    sys.stderr = None
elif how == "closed":
    sys.stderr.close()
elif how == "full":
    class Full:
        def write(self, text): raise OSError(28, "No space left on device")
        def flush(self): pass
    sys.stderr = Full()
else:
    sys.stderr = object()
print((tp.ones((2,)) + 1).tolist())
sys.stderr = None
"""
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TRIPOINT_TRACE": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "[2.0, 2.0]\n"


def test_the_log_names_what_was_raised_and_keeps_lines_of_threads_whole() -> None:
    program = """
import threading, tripoint as tp
x = tp.ones((2,))
try:
    x @ tp.ones((3,))
except tp.errors.ShapeError:
    pass
def work():
    for _ in range(200):
        tp.exp(x)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"""
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TRIPOINT_TRACE": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    lines = run.stderr.splitlines()
    assert sum(" -> raised ShapeError  " in line for line in lines) == 1
    one = "tripoint: exp(cpu.strided.float32 (2,)) -> cpu.strided.float32 (2,)  tripoint-dense-cpu:exp"
    assert lines.count(one) == 800
