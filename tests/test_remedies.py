"""What errors say to do, done: the call that was refused then works."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.conformance.checks.values import program
from tripoint.conformance.records import RECORDS, Record, Sample
from tripoint.conformance.target import Target
from tripoint.errors import (
    AliasError,
    ArgumentError,
    AutogradError,
    DeviceError,
    DTypeError,
    LayoutError,
    NoKernelError,
    ShapeError,
    TripointError,
)
from tripoint.plugin import Backend, Device, Tensor, composite, inplace, operators, register, strided

POINTS = ("cpu.sparse_coo", "cpu.blocked", "cpu.strided.qint8", "cpu.strided.quint8", "meta.strided")
NUMBERS = {"operators": operators, "nan": float("nan"), "inf": float("inf"), "tp": tp}


def refused(target: Target, record: Record, sample: Sample) -> tuple[dict[str, Any], str, NoKernelError] | None:
    """The operands and the call of a sample that there is no kernel for, with the error; ``None`` of any other sample."""
    script, _ = program(target, record.operator, sample, "float32", kind=record.kind)
    call = script.lines.pop()
    try:
        names = {**NUMBERS, **script.run()}
        exec(call, names)
    except NoKernelError as error:
        return names, call, error
    except TripointError:
        pass
    return None


def refusals(point: str) -> list[tuple[dict[str, Any], str, NoKernelError]]:
    target = Target(point)
    samples = [
        (record, s)
        for record in RECORDS.values()
        if "float32" in record.dtypes and "float32" in target.dtypes
        for s in record.samples("float32")
        if target.takes(s) and s.tags.isdisjoint({"mixed"})
    ]
    found = [refused(target, record, s) for record, s in samples]
    return [f for f in found if f is not None]


def converted(names: dict[str, Any], error: NoKernelError) -> dict[str, Any]:
    """The operands with the conversions made that the error asks for."""
    out = dict(names)
    for words, what in re.findall(r"x\.to\(([^)]*)\) reads (\w+) as", error.help):
        for name, value in out.items():
            if isinstance(value, Tensor) and what in (value.layout.name, value.dtype.name):
                out[name] = eval(f"x.to({words})", {"x": value})
    return out


@pytest.mark.parametrize("point", POINTS)
def test_a_missing_kernel_is_told_in_twelve_lines_and_what_they_say_works(point: str) -> None:
    found = refusals(point)
    assert found or point in ("meta.strided", "cpu.blocked")  # which have or reach a kernel for everything
    for names, call, error in found:
        assert len(str(error).splitlines()) <= 12
        fallback = dict(error.routes)["fallback"]
        if error.help.startswith("convert first: "):
            exec(call, converted(names, error))
        else:  # of creation
            assert error.help.startswith("make x "), error.help
            assert error.points[0][0] == "target"
        try:
            with tp.fallback("allow"):
                exec(call, dict(names))
        except NoKernelError:
            assert fallback.startswith("not permitted, nor possible: "), (call, fallback)
        except TripointError:
            assert error.chain, call  # another part is refused, by its shape
        else:
            assert fallback == "not permitted (tripoint.fallback permits it)", (call, fallback)


X = tp.asarray([[1.0, 2.0], [0.0, 4.0]])
S = X.to(layout="sparse_coo")
Q = tp.quantize(X, tp.affine(0.5))
U = tp.quantize(X, tp.affine(0.5, 128, dtype="quint8"))
M = X.to("meta")


def caught(call: Callable[[], Any], error: type[Exception]) -> str:
    with pytest.raises(error) as found:
        call()
    text = str(found.value)
    assert len(text.splitlines()) <= 12
    return text


def test_two_conversions_are_both_asked_for() -> None:
    text = caught(lambda: Q + S, NoKernelError)
    assert (
        "x.to(dtype='float32') reads qint8 as float32, and x.to(layout='strided') reads sparse_coo as strided" in text
    )
    assert (Q.to(dtype="float32") + S.to(layout="strided")).tolist() == [[2.0, 4.0], [0.0, 8.0]]
    text = caught(lambda: Q + U, NoKernelError)
    assert "x.to(dtype='float32') reads qint8 as float32, and x.to(dtype='float32') reads quint8 as float32" in text
    assert (Q.to(dtype="float32") + U.to(dtype="float32")).tolist() == [[2.0, 4.0], [0.0, 8.0]]


def test_parameters_that_a_layout_does_not_take() -> None:
    text = caught(lambda: X.to(layout=tp.layouts.sparse_coo(4)), NoKernelError)
    assert text.endswith("its kernel takes no parameters of the layout: write layout='sparse_coo'")
    assert X.to(layout="sparse_coo").layout.name == "sparse_coo"


def test_what_cannot_be_made_is_made_elsewhere_and_converted() -> None:
    text = caught(lambda: tp.ones((2, 2), layout="sparse_coo"), NoKernelError)
    assert text.endswith("make x strided, then convert: x.to(layout='sparse_coo')")
    assert tp.ones((2, 2)).to(layout="sparse_coo").layout.name == "sparse_coo"
    text = caught(lambda: tp.ones((2, 2), layout=tp.layouts.sparse_coo(4, by="rows")), NoKernelError)
    assert text.endswith("make x strided, then convert: x.to(layout=tripoint.layouts.sparse_coo(4, by='rows'))")
    text = caught(lambda: tp.zeros((2, 2), dtype="qint8"), NoKernelError)
    assert text.endswith("make x float32, then convert: tripoint.quantize(x, tripoint.affine(...))")
    assert tp.quantize(tp.zeros((2, 2)), tp.affine(0.5)).dtype is tp.qint8
    assert "use tripoint.quantize(x, tripoint.affine(...))" in caught(lambda: X.to(dtype="qint8"), DTypeError)


def test_points_that_nobody_provides_name_the_nearest() -> None:
    near = "nearest: cpu.strided.qint8 (layout='strided'), cpu.sparse_coo.float32 (dtype='float32')"
    assert caught(lambda: Q.to(layout="sparse_coo"), DTypeError).endswith(near)
    assert Q.to(layout="sparse_coo", dtype="float32").tolist() == X.tolist()
    assert caught(lambda: tp.quantize(S, tp.affine(0.5)), DTypeError).endswith(near)
    assert tp.quantize(S.to(layout="strided"), tp.affine(0.5)).tolist() == X.tolist()
    text = caught(lambda: S.to("meta"), LayoutError)
    assert text.endswith("nearest: meta.strided.float32 (layout='strided')")
    assert S.to("meta", layout="strided").shape == (2, 2)
    text = caught(lambda: tp.zeros((2,), device="meta", layout="sparse_coo"), LayoutError)
    assert text.endswith("nearest: meta.strided.float32 (layout='strided')")


def test_in_place_forms_that_cannot_be_say_what_can() -> None:
    q = Q.copy()
    text = caught(lambda: q.__iadd__(1), NoKernelError)
    assert "convert first: x.to(dtype='float32')" in text
    assert "nor possible: add_ would change the dtype of x1 from qint8 to float32" in text
    with tp.fallback("allow"):
        text = caught(lambda: q.__iadd__(1), DTypeError)
        assert "write x = add(x, ...)" in text
        assert tp.add(q, 1).tolist() == [[2.0, 3.0], [1.0, 5.0]]
    assert "write x = divide(x, ...)" in caught(lambda: tp.asarray([1, 2]).__itruediv__(2), DTypeError)
    text = caught(lambda: S.copy().__iadd__(X), LayoutError)
    assert "write x = add(x, ...)" in text
    assert tp.add(S, X).tolist() == [[2.0, 4.0], [0.0, 8.0]]
    for x in (S, Q):
        text = caught(lambda x=x: x.__setitem__(0, 1.0), LayoutError)  # type: ignore[misc]
        copy = eval(re.findall(r"x\.to\(.*\)", text)[0], {"x": x})
        copy[0] = 1.0
        assert set(tp.reshape(copy[0], (-1,)).tolist()) == {1.0}


def test_the_in_place_form_of_a_composite_is_not_called_a_primitive() -> None:
    @composite(namespace="remedied")
    def twice(x: Tensor, /) -> Tensor:
        return x + x

    twice_ = inplace(twice)
    x = tp.asarray([1.0, 2.0])
    text = caught(lambda: twice_(x), NoKernelError)
    assert "primitive" not in text
    assert "decomposition: that of remedied::twice gives a tensor of its own, and writes into none" in text
    assert text.endswith("write x = remedied::twice(x, ...)")
    assert twice(x).tolist() == [2.0, 4.0]
    assert x.tolist() == [1.0, 2.0]


def test_a_number_is_not_written_into() -> None:
    text = caught(lambda: operators()["add_"](2, X), ArgumentError)
    assert text == "add_: x1 must be a tensor, not the int 2; make a tensor with tripoint.asarray(...)"
    with pytest.raises(ArgumentError, match="add_: x1 must be a tensor, not the NoneType None"):
        operators()["add_"](None, X)


class P:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


@pytest.fixture
def shelf() -> Iterator[Backend]:
    """A device that makes zeros and nothing else."""
    backend = Backend(Device("shelf"), strided, payload=P)
    backend.kernel("zeros")(lambda *, shape: P(shape))
    yield backend
    tp.plugins.unregister(None)


def test_a_device_without_the_kernel_points_to_the_cpu_where_ways_lead_there(shelf: Backend) -> None:
    shelf.to("cpu.strided")(lambda x: np.zeros(x.shape, "float32"))
    shelf.from_("cpu.strided")(lambda x: P(x.shape))
    register(shelf)
    x = tp.zeros((2,), device="shelf")
    text = caught(lambda: tp.exp(x), NoKernelError)
    assert text.endswith("compute it on the cpu: x.to('cpu')")
    assert "fallback: not permitted (tripoint.fallback permits it)" in text
    assert tp.exp(x.to("cpu")).tolist() == [1.0, 1.0]
    text = caught(lambda: tp.ones((2,), device="shelf"), NoKernelError)
    assert text.endswith("make x on the cpu, then move it: x.to('shelf')")
    assert tp.ones((2,)).to("shelf").shape == (2,)


def test_a_device_without_the_kernel_and_without_a_way_has_nothing_to_offer(shelf: Backend) -> None:
    register(shelf)
    x = tp.zeros((2,), device="shelf")
    for call in (lambda: tp.exp(x), lambda: tp.ones((2,), device="shelf")):
        text = caught(call, NoKernelError)
        assert text.endswith("no installed plugin registers this operator here; tripoint.plugins.report() lists them")
        assert "fallback: not permitted, nor possible: no conversions lead from " in text

    @composite(namespace="remedied2")
    def never(x: Tensor, /) -> Tensor:
        return tp.exp(x)

    assert "while decomposing remedied2::never" in caught(lambda: never(x), NoKernelError)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tp.ones((2,), device="gpu"), DeviceError, "known devices: cpu, "),
        (lambda: X.to(layout="csr"), LayoutError, "known layouts: blocked, sparse_coo, strided"),
        (lambda: X.to(dtype="int4"), DTypeError, "known dtypes: bfloat16, bool, "),
        (lambda: X.to(dtype="qint4"), DTypeError, "known dtypes: bfloat16, bool, "),
        (lambda: M + X, DeviceError, "argument x1: meta, argument x2: cpu); move them with .to(device)"),
        (lambda: M.tolist(), DeviceError, "make what it comes from elsewhere"),
        (lambda: M.to("cpu"), DeviceError, "make it on another device"),
        (lambda: S + 1, LayoutError, "and a number give a strided result of shape (2, 2), which needs 16 bytes"),
        (lambda: S @ tp.ones((2, 2, 2)), ShapeError, "convert the sparse matrix first: x.to(layout='strided')"),
        (lambda: X.to(layout="blocked"), ShapeError, "images of four axes"),
        (lambda: tp.argmax(X).backward(), AutogradError, "call it on a result that has a floating dtype"),
        (lambda: X.mT.reshape((4,), copy=False), AliasError, "needs a copy, and copy=False forbids it"),
    ],
)
def test_refusals_name_cause_and_remedy(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    assert words in caught(call, error)


def test_a_derivative_that_is_missed_names_its_operator() -> None:
    s = S.detach().requires_grad_()
    with pytest.raises(NoKernelError) as found:
        tp.max(s).backward()
    assert "raised by the derivative of max" in found.value.__notes__
    assert "convert first: x.to(layout='strided') reads sparse_coo as strided" in str(found.value)
    tp.max(s.to(layout="strided")).backward()
    assert s.grad.to(layout="strided").tolist() == [[0.0, 0.0], [0.0, 1.0]]
