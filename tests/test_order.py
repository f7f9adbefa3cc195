"""Views, writes and gradients in every order: golden cases of benchmarks/order_test.py, and cases by hand."""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import AutogradError
from tripoint.storage import record_of

ROOT = Path(__file__).resolve().parents[1]
CASES = json.loads((ROOT / "tests" / "data" / "order_golden.json").read_text())


@pytest.fixture(scope="module")
def order() -> ModuleType:
    """The script that made the golden cases; it loads torch only where it compares with it."""
    spec = importlib.util.spec_from_file_location("order_test", ROOT / "benchmarks" / "order_test.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def f64(data: Any) -> tp.Tensor:
    return tp.asarray(data, dtype=tp.float64)


def leaf(data: Any) -> tp.Tensor:
    return f64(data).requires_grad_()


# Golden cases ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['setup']}: {'; '.join(c['events'])}")
def test_golden(order: ModuleType, case: dict[str, Any]) -> None:
    lib = order.Tripoint()
    run = order.play(lib, (case["setup"], tuple(case["events"])))
    if case.get("refused"):
        assert isinstance(run.error, AutogradError)
        return
    if run.error is not None:
        raise run.error
    assert len(run.tensors) == len(case["values"])
    for found, value in zip(run.tensors, case["values"]):
        np.testing.assert_allclose(lib.value(found), value, rtol=1e-8, atol=1e-8)
    assert set(run.leaves) == set(case["gradients"])
    for name, value in case["gradients"].items():
        np.testing.assert_allclose(lib.gradient(run, name), value, rtol=1e-8, atol=1e-8)


def test_golden_set_is_broad(order: ModuleType) -> None:
    assert 50 <= len(CASES) <= 150
    events = {e for c in CASES for e in c["events"]}
    assert events == set(order.EVENTS)
    assert {c["setup"] for c in CASES} == set(order.SETUPS)
    refused = sum(1 for c in CASES if c.get("refused"))
    assert 0 < refused < len(CASES) / 2


def test_the_oracle_agrees_with_derivatives_by_hand(order: ModuleType) -> None:
    oracle = order.Oracle()
    run = order.play(oracle, ("plain", ("want base",)))
    expected = order.WEIGHTS[0].reshape(2, 3) + 0.1 * order.BASE
    np.testing.assert_allclose(oracle.gradient(run, "base at 0"), expected)


# Saved operands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["itself", "detached", "view", "view of detached", "quiet"])
def test_a_changed_operand_is_an_error_that_names_the_operator(change: str) -> None:
    x = leaf([1.0, 2.0, 3.0])
    a = x * 1.0
    y = a * a
    if change == "itself":
        a += 1.0
    elif change == "detached":
        d = a.detach()
        d *= 2.0
    elif change == "view":
        a[:1] *= 2.0
    elif change == "view of detached":
        a.detach()[1:] *= 2.0
    else:
        with tp.no_grad():
            a *= 2.0
    with pytest.raises(AutogradError, match=r"multiply.*operand x[12].*changed in place"):
        y.sum().backward()


def test_a_changed_result_is_an_error_that_names_the_operator() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.detach()[...] = 0.0
    with pytest.raises(AutogradError, match=r"exp.*its result.*changed in place"):
        y.sum().backward()


def test_a_leaf_changed_after_use_is_caught() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    with tp.no_grad():
        x *= 2.0
    with pytest.raises(AutogradError, match="multiply"):
        y.sum().backward()


def test_a_write_that_backward_does_not_need_is_no_error() -> None:
    a = leaf([1.0, 2.0])
    y = a * 2.0
    y += 1.0
    y *= 3.0
    y.sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [6.0, 6.0]


def test_an_operator_may_overwrite_what_its_derivative_needs() -> None:
    a = leaf([1.0, 2.0])
    y = a * 2.0
    y *= y
    y.sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [8.0, 16.0]


# Refusals come first --------------------------------------------------------------------------------------------------


def scale_itself(x: tp.Tensor) -> None:
    x *= 10.0


def scale_slice(x: tp.Tensor) -> None:
    x[1:] *= 10.0


def scale_view_of_view(x: tp.Tensor) -> None:
    v = x.reshape(3, 1)[1:].T
    v *= 10.0


def assign_slice(x: tp.Tensor) -> None:
    x[:1] = 7.0


def assign_recorded(x: tp.Tensor) -> None:
    x[:1] = leaf([7.0])


def scale_early_view(x: tp.Tensor) -> None:
    x.requires_grad_(False)
    v = x[1:]
    x.requires_grad_()
    v *= 10.0


@pytest.mark.parametrize(
    "write", [scale_itself, scale_slice, scale_view_of_view, assign_slice, assign_recorded, scale_early_view]
)
def test_writing_a_leaf_is_refused_before_anything_is_written(write: Callable[[tp.Tensor], None]) -> None:
    x = leaf([1.0, 2.0, 3.0])
    version = record_of(x).version
    with pytest.raises(AutogradError, match=r"leaf.*no_grad\(\).*x\.copy\(\)"):
        write(x)
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert record_of(x).version == version
    with tp.no_grad():
        x[1:] *= 10.0
    assert x.tolist() == [1.0, 20.0, 30.0]
    assert x.requires_grad
    assert x.is_leaf


def test_a_leaf_between_a_view_and_the_root_is_refused() -> None:
    b = f64([1.0, 2.0, 3.0])
    v = b[1:].requires_grad_()
    for write in (scale_itself, assign_slice):
        with pytest.raises(AutogradError, match="leaf"):
            write(v[:1])
    assert b.tolist() == [1.0, 2.0, 3.0]


def test_a_leaf_that_was_overwritten_through_its_base_says_so() -> None:
    p = leaf(2.0)
    b = f64([1.0, 2.0, 3.0])
    v = b[1:].requires_grad_()
    b *= 3.0  # not recorded: v stays the leaf it is
    (v * v).sum().backward()
    assert v.grad is not None
    assert v.grad.tolist() == [12.0, 18.0]
    b *= p
    with pytest.raises(AutogradError, match="its gradient would be lost"):
        v * 2.0
    v.requires_grad_(False)
    (v * 1.0).sum().backward()
    assert p.grad is not None
    assert p.grad.item() == 15.0


# Views ----------------------------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[tp.Tensor], tp.Tensor]] = {
    "int": lambda b: b[1],
    "negative int": lambda b: b[..., -1],
    "slice": lambda b: b[:, 1:],
    "negative step": lambda b: b[::-1, ::-2],
    "none": lambda b: b[None, 1:, None],
    "reshape": lambda b: b.reshape(-1),
    "transpose": lambda b: b.T,
    "permute_dims": lambda b: b.permute_dims((-1, 0)),
    "expand_dims": lambda b: b.expand_dims(axis=-1),
    "squeeze": lambda b: b[:1].squeeze(0),
    "flip": lambda b: tp.flip(b, axis=-1),
    "flip all": lambda b: tp.flip(b),
    "flatten": lambda b: b.flatten(),
    "chain": lambda b: b.T[1:].expand_dims(axis=0)[..., ::-1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_follows_what_is_written_into_its_base(name: str) -> None:
    p = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    b = tp.zeros((2, 3), dtype=tp.float64)
    v = VIEWS[name](b)
    b[...] = p * p
    assert v.requires_grad
    assert not v.is_leaf
    w = f64(np.arange(1.0, v.size + 1).reshape(v.shape))
    (v * w).sum().backward()
    places = np.zeros((2, 3))
    VIEWS[name](tp.asarray(places)).detach().numpy()[...] = w.numpy()
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.numpy(), 2 * p.detach().numpy() * places)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_base_follows_what_is_written_into_a_view(name: str, columns: bool) -> None:
    data = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], order="F" if columns else "C")
    if columns and name in ("reshape", "flatten"):
        pytest.skip("reshape copies memory of this order, so there is no view to write through")
    x, p = tp.asarray(data).requires_grad_(), leaf(3.0)
    b = x * 1.0
    v = VIEWS[name](b)
    v *= p
    inside = np.zeros((2, 3))
    VIEWS[name](tp.asarray(inside)).detach().numpy()[...] = 1.0
    w = np.arange(1.0, 7.0).reshape(2, 3)
    (b * f64(w)).sum().backward()
    assert x.grad is not None
    assert p.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), w * np.where(inside, 3.0, 1.0))
    np.testing.assert_allclose(p.grad.item(), (w * data * inside).sum())


def columns_of(x: tp.Tensor) -> tp.Tensor:
    """A view as one axis of a tensor in column-major order: of its gradient, in row-major order, that is a copy."""
    v = x.T.reshape(-1)
    assert tp.shares_memory(v, x)
    return v


def test_a_reshape_that_is_a_view_of_the_root_only() -> None:
    data = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], order="F")
    x = tp.asarray(data).requires_grad_()
    b = x * 1.0
    columns_of(b)[1:4] = 0.0
    b.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize("columns", [False, True])
def test_writing_through_views_twice_differentiable(columns: bool) -> None:
    data = np.array([[1.0, 2.0], [3.0, 0.5]], order="F" if columns else "C")
    x = tp.asarray(data).requires_grad_()

    def cubed(x: tp.Tensor) -> tp.Tensor:
        b = x * 1.0
        v = columns_of(b) if columns else b.reshape(-1)
        v[1:] *= columns_of(x)[1:] if columns else x.reshape(-1)[1:]
        return (b * b * b).sum()

    n = np.full((2, 2), 6.0)
    n[0, 0] = 3.0
    cubed(x).backward(create_graph=True)
    first, x.grad = x.grad, None
    assert first is not None
    np.testing.assert_allclose(first.numpy(), n * data ** (n - 1))
    first.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), n * (n - 1) * data ** (n - 2))


def test_a_view_joins_a_base_that_becomes_a_leaf_after_a_write_whoever_looked_meanwhile() -> None:
    for look in (False, True):
        b = f64([1.0, 2.0, 3.0])
        v = b[1:]
        v *= 2.0
        if look:
            assert (v + 0.0).tolist() == [4.0, 6.0]
        b.requires_grad_()
        (v * v).sum().backward()
        assert b.grad is not None
        assert b.grad.tolist() == [0.0, 8.0, 12.0]


def test_grad_of_a_view_reaches_what_was_written_into_its_base() -> None:
    x = leaf([1.0, 2.0])
    b = tp.zeros((2,), dtype=tp.float64)
    v = b[1:]
    b[...] = x * 3.0
    tp.grad(lambda v: (v * v).sum())(v).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 6.0]


def test_a_view_is_used_again_after_its_record_was_freed() -> None:
    x = leaf([1.0, 2.0])
    b = x * 2.0
    v = b[1:]
    v.sum().backward()
    with tp.no_grad():
        b *= 2.0
    assert v.requires_grad
    assert v.tolist() == [8.0]


def test_no_grad_changes_numbers_and_not_what_they_depend_on() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3.0
    with tp.no_grad():
        v = y[:1]
        v *= 5.0
    assert y.tolist() == [15.0, 6.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


def test_all_aliases_share_one_version() -> None:
    x = f64([[1.0, 2.0], [3.0, 4.0]])
    aliases = [x, x[0], x.T[1:], x.detach(), x.detach()[0], x.reshape(4).detach()]
    assert len({id(record_of(a)) for a in aliases}) == 1
    for n, a in enumerate(aliases):
        assert record_of(x).version == n
        with tp.no_grad():
            a *= 2.0
    assert record_of(x.copy()) is not record_of(x)


# Lifetimes ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_collector")
def test_a_base_does_not_hold_its_views() -> None:
    x = leaf([1.0, 2.0, 3.0])
    b = x * 2.0
    v = b[1:]
    u = v[:1]
    v *= 3.0
    gone = [weakref.ref(v), weakref.ref(u)]
    del v, u
    assert [r() for r in gone] == [None, None]
    b.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 6.0, 6.0]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("how", ["dropped", "backward", "retained", "failed"])
def test_a_graph_dies_by_reference_counts(how: str) -> None:
    x = leaf([1.0, 2.0])
    a = x.exp()  # saves its result
    b = a * x
    b[:1] *= 2.0
    y = (b * b).sum()
    nodes = [weakref.ref(t._node) for t in (a, b, y)]
    if how == "failed":
        b += 1.0
        with pytest.raises(AutogradError):
            y.backward()
    elif how != "dropped":
        y.backward(retain_graph=how == "retained")
    del a, b, y
    assert [n() for n in nodes] == [None] * 3


@pytest.mark.usefixtures("no_collector")
def test_a_chain_of_100_000_additions() -> None:
    x = leaf([1.0])
    y = x + 1.0
    first = weakref.ref(y._node)
    for _ in range(100_000):
        y = y + 1.0
    y.backward(retain_graph=True)
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]
    assert first() is not None
    del y
    assert first() is None


@pytest.mark.usefixtures("no_collector")
def test_a_chain_of_100_000_writes() -> None:
    x = leaf([1.0, 1.0])
    b = x + 0.0
    first = weakref.ref(b._node)
    for _ in range(25_000):
        b += 1.0
        b[:1] += 1.0
    b.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]
    del b
    assert first() is None
