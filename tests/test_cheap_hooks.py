"""Layouts and number formats whose round trip through strided memory is cheap: gradients and in-place forms need nothing of
their authors; and what an error says about a missing derivative works when it is pasted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint import conformance, plugins
from tripoint.errors import AutogradError, DTypeError, LayoutError, NoKernelError, RegistrationError, ShapeError
from tripoint.plugin import (
    Backend,
    Capabilities,
    DType,
    Layout,
    Tensor,
    composite,
    derivative,
    inplace,
    operators,
    payload,
    primitive,
    register,
    rules,
    strided,
)
from tripoint.schema import rows


@pytest.fixture(autouse=True)
def _registry_kept() -> Iterator[None]:
    """What a test registers or declares in this process, in the namespace ``yard``, is taken back."""
    yield
    plugins.unregister(None)
    for name in [n for n in rows if n.startswith("yard::")]:
        del rows[name]
    plugins.changed()


# Number formats --------------------------------------------------------------------------------------------------------


class Half:
    """The upper halves of float32 numbers."""

    def __init__(self, bits: Any) -> None:
        self.bits, self.shape = bits, bits.shape


def encode(dense: Any, like: Any = None) -> Half:
    return Half(np.asarray(dense, np.float32).view(np.uint32) >> 16)


def decode(x: Half) -> Any:
    return (x.bits << 16).view(np.float32)


def half(cheap: bool = True, gradient: DType | None = tp.float32, name: str = "yard_half") -> tuple[DType, Backend]:
    made = DType(name, bits=16, plain=tp.float32, gradient=gradient)
    backend = Backend("cpu", strided, made, payload=Half, encode=encode, decode=decode, cheap=cheap, frozen=True)
    backend.to("cpu.strided.float32")(decode)
    backend.from_("cpu.strided.float32")(encode)
    register(backend)
    return made, backend


X = np.array([[1.25, -0.5, 2.0], [0.75, 3.0, -1.5]])  # which the format holds
Y = np.array([[0.5, 1.5, -0.25], [2.0, 0.125, 1.0]])
W = np.array([[1.0, 2.0], [-1.0, 0.5], [0.25, 4.0]])


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


_functions: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "exp": (tp.exp, np.exp),
    "product with itself": (lambda x: x * x, lambda x: x * x),
    "square": (tp.square, np.square),
    "number": (lambda x: 3.0 / x - 2, lambda x: 3.0 / x - 2),
    "conversion": (lambda x: x.to(dtype="float64") * 2, lambda x: x * 2),
    "part": (lambda x: x[1, ::2] * 3, lambda x: x[1, ::2] * 3),
    "mean": (lambda x: tp.mean(x, axis=0) ** 3, lambda x: x.mean(axis=0) ** 3),
    "max": (lambda x: tp.max(x, axis=1) * 2, lambda x: x.max(axis=1) * 2),
    "product of a row": (lambda x: tp.prod(x, axis=1), lambda x: x.prod(axis=1)),
    "composite with a row": (lambda x: tp.softmax(x, axis=1) ** 2, lambda x: _softmax(x) ** 2),
    "composite without": (lambda x: tp.stack([x, x * 2]), lambda x: np.stack([x, x * 2])),
    "several": (lambda x: tp.concat([x, x, x]) ** 2, lambda x: np.concatenate([x, x, x]) ** 2),
    "choice": (lambda x: tp.where(x > 0, x * x, 0.0), lambda x: np.where(x > 0, x * x, 0.0)),
}


def _differences(fn: Callable[..., Any], values: list[Any], at: int) -> Any:
    """Central differences of the weighted sum of what a function gives, by one of its arguments."""
    out = np.zeros(values[at].shape)
    for i in np.ndindex(out.shape):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [v.copy() for v in values]
            moved[at][i] += step
            found = fn(*moved)
            ends.append((found * np.arange(1, found.size + 1).reshape(found.shape)).sum())
        out[i] = (ends[0] - ends[1]) / 2e-6
    return out


def _weighted(out: Tensor) -> Tensor:
    return tp.sum(out * tp.reshape(tp.arange(1, out.size + 1, dtype="float32"), out.shape))


@pytest.mark.parametrize("name", _functions)
def test_the_gradient_of_a_format_is_that_of_its_numbers(name: str) -> None:
    made, _ = half()
    fn, plain = _functions[name]
    x = tp.asarray(X, dtype="float32").to(dtype=made).requires_grad_()
    _weighted(fn(x)).backward()
    assert x.grad is not None
    assert x.grad.dtype is tp.float32
    np.testing.assert_allclose(x.grad.numpy(), _differences(plain, [X], 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "maximum", "matmul"])
def test_where_a_format_meets_a_plain_dtype_both_have_gradients(name: str, dtype: str) -> None:
    made, _ = half()
    other = W if name == "matmul" else Y
    for swapped in (False, True):
        values = [X, other] if not swapped else [other.T, X.T] if name == "matmul" else [other, X]
        leaves = [
            tp.asarray(v, dtype="float32").to(dtype=made if (i == 0) is not swapped else dtype).requires_grad_()
            for i, v in enumerate(values)
        ]
        _weighted(getattr(tp, name)(*leaves)).backward()
        for i, leaf in enumerate(leaves):
            assert leaf.grad is not None
            assert leaf.grad.dtype is leaf.dtype.gradient
            want = _differences(getattr(np, name), values, i)
            np.testing.assert_allclose(leaf.grad.numpy(), want, rtol=1e-5, atol=1e-5)


def test_second_derivatives_of_a_format() -> None:
    made, _ = half()
    x = tp.asarray(X, dtype="float32").to(dtype=made).requires_grad_()
    for fn, second in ((lambda x: x * x * x, 6 * X), (tp.exp, np.exp(X)), (lambda x: 1.0 / x, 2 / X**3)):
        (slope,) = tp.gradients(fn(x).sum(), [x], create_graph=True)
        assert slope is not None
        np.testing.assert_allclose(tp.gradients(slope.sum(), x).numpy(), second, rtol=1e-5)  # type: ignore[union-attr]
    outer = tp.asarray(X, dtype="float32").requires_grad_()
    (slope,) = tp.gradients((outer.to(dtype=made) * outer).sum(), [outer], create_graph=True)
    assert slope is not None
    np.testing.assert_allclose(tp.gradients(slope.sum(), outer).numpy(), np.full(X.shape, 2.0))  # type: ignore[union-attr]


def test_rounding_counts_as_the_identity() -> None:
    made, backend = half()
    backend.kernel("multiply", out=made)(lambda x1, x2: encode(decode(x1) * decode(x2)))
    backend.kernel("exp", out=made)(lambda x: encode(np.exp(decode(x))))
    register(backend)
    w = tp.asarray([1.3, -2.7]).requires_grad_()  # which the format does not hold
    x = w.to(dtype=made)
    held = np.array(x.tolist())
    assert held.tolist() != w.tolist()
    out = tp.exp(x * x)
    assert out.dtype is made
    out.to(dtype="float32").sum().backward()
    assert w.grad is not None
    squared = np.array((x * x).tolist())
    want = np.array(tp.exp(x * x).tolist()) * 2 * held  # what exp saved is its own, rounded result
    assert squared.tolist() != (held * held).tolist()
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-6)


def test_derivatives_see_what_was_saved_decoded() -> None:
    made, backend = half()

    @primitive(namespace="yard", dtype=rules.promoted(), shape=rules.broadcast)
    def scaled(x: Tensor, y: Tensor, /) -> Tensor:
        raise NotImplementedError

    backend.kernel(scaled, out=made)(lambda x, y: encode(decode(x) * decode(y)))
    register(backend)
    seen = []

    def by_x(g: Any, y: Any, out: Any, x_key: Any) -> Any:
        seen.append((g.dtype, y.dtype, out.dtype, x_key.dtype))
        return g * y

    derivative(scaled, x=by_x, y=lambda g, x: g * x)
    x, y = (tp.asarray(v, dtype="float32").to(dtype=made).requires_grad_() for v in (X, Y))
    scaled(x, y).to(dtype="float32").sum().backward()
    assert seen == [(tp.float32,) * 4]
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == (Y.tolist(), X.tolist())


def test_a_row_that_is_stated_for_the_format_wins_and_sees_it_as_it_is() -> None:
    made, backend = half()
    seen = []

    def by_x1(g: Any, x2: Any) -> Any:
        seen.append(x2.dtype)
        return g * 7

    backend.derivative("multiply", args=(made, made), x1=by_x1, x2=lambda g: g * 9)
    register(backend)
    x, y = (tp.asarray(v, dtype="float32").to(dtype=made).requires_grad_() for v in (X, Y))
    (x * y).sum().backward()
    assert seen == [made]
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == (np.full(X.shape, 7.0).tolist(), np.full(X.shape, 9.0).tolist())
    z = tp.asarray(X, dtype="float32").to(dtype=made).requires_grad_()
    (z * tp.asarray(Y, dtype="float32")).sum().backward()  # mixed: no row of the format
    assert z.grad is not None
    assert z.grad.tolist() == Y.tolist()


def test_a_format_that_is_not_cheap_or_has_no_gradients_stays_as_it_is() -> None:
    made, backend = half(cheap=False)
    backend.kernel("exp", out=tp.float32)(lambda x: np.exp(decode(x)))
    register(backend)
    x = tp.asarray(X, dtype="float32").to(dtype=made).requires_grad_()
    with pytest.raises(AutogradError, match=r"^exp has no derivative by x on cpu\.strided\.yard_half"):
        tp.exp(x).sum().backward()
    plain, _ = half(gradient=None, name="yard_code")
    with pytest.raises(AutogradError, match="gradients are for floating dtypes, not yard_code"):
        tp.asarray(X, dtype="float32").to(dtype=plain).requires_grad_()
    y = tp.asarray(X, dtype="float32").requires_grad_()
    assert not (y.to(dtype=plain) * 2.0).requires_grad


def test_the_kit_finds_a_product_with_a_plain_dtype_that_has_no_gradient() -> None:
    made, backend = half(cheap=False)
    for args in ((made, made), (made, "cpu.strided.float32")):
        backend.kernel("multiply", args=args, out=tp.float32)(
            lambda x1, x2: decode(x1) * (decode(x2) if isinstance(x2, Half) else x2)
        )
    backend.derivative("multiply", args=(made, made), x1=lambda g: g, x2=lambda g: g)
    register(backend)
    point = plugins.require(tp.asarray([1.0]).to(dtype=made)._key)
    point.capabilities = Capabilities(make='{x}.to(dtype="yard_half")')
    report = conformance.run("cpu.strided.yard_half", tiers=[4], operators=["mixed dtypes"])
    assert report.of("mixed dtypes") == "fail"
    assert "multiply has no derivative by x1 on cpu.strided.yard_half, cpu.strided.float32" in report.text()


def test_a_plain_dtype_is_differentiated_as_ever_beside_a_format() -> None:
    half()
    x = tp.asarray(X, dtype="float32").to(layout="sparse_coo").requires_grad_()
    (x * x).sum().backward()
    assert x.grad is not None
    assert str(x.grad.layout) == "sparse_coo"
    assert x.grad.to(layout="strided").tolist() == (2 * X).tolist()


# In place ----------------------------------------------------------------------------------------------------------------


class Padded:
    """Rows of a multiple of ``step`` elements, of which the last ones do not count."""

    def __init__(self, rows: Any, step: int, shape: tuple[int, ...]) -> None:
        self.rows, self.step, self.shape = rows, step, shape


def _pad(dense: Any, step: int) -> Padded:
    width = dense.shape[-1] if dense.ndim else 1
    wide = dense.reshape(*dense.shape[:-1], width)
    return Padded(np.pad(wide, [(0, 0)] * (wide.ndim - 1) + [(0, -width % step)]), step, dense.shape)


def _unpad(x: Padded) -> Any:
    return x.rows[..., : x.shape[-1] if x.shape else 1].reshape(x.shape)  # a view, which nobody may write into


def padded(cheap: bool = True) -> Layout:
    made = Layout("yard_padded", attributes={"step": lambda x: payload(x).step})
    backend = Backend(
        "cpu",
        made,
        payload=Padded,
        describe=lambda x: {"dtype": getattr(tp, x.rows.dtype.name)},
        to_strided=_unpad,
        from_strided=lambda dense, like: _pad(dense, like.step),
        spec=lambda x: made(x.step),
        cheap=cheap,
        frozen=True,
        capabilities=Capabilities(dtypes=("bool", "int64", "float32"), lacks={"*": "not written yet"}),
    )
    backend.to("cpu.strided")(lambda x: _unpad(x).copy())

    @backend.from_("cpu.strided")
    def from_strided(dense: Any, *, spec: Any) -> Padded:
        return _pad(dense, spec.args[0] if spec is not None else 8)

    register(backend)
    return made


def test_what_is_written_into_a_cheap_layout_comes_back_to_it_with_its_parameters() -> None:
    made = padded()
    dense = np.arange(6, dtype=np.float32).reshape(2, 3)
    other = tp.asarray(dense[0])
    want = dense.copy()
    x = tp.asarray(dense).to(layout=made(4))
    before = x.detach()
    x += other
    x *= tp.asarray(dense).to(layout=made(16))  # like x, not like what it is multiplied by
    want = (want + dense[0]) * dense
    x[0, 1:] = 7.0
    want[0, 1:] = 7.0
    x[1] = x[0]
    want[1] = want[0]
    operators()["exp_"](x)
    want = np.exp(want)
    np.testing.assert_allclose(x.to(layout="strided").numpy(), want, rtol=1e-6)
    assert (x.layout, x.step, x.dtype) == (made, 4, tp.float32)  # type: ignore[attr-defined]
    operators()["assign_"](x, 2.5)
    assert (x.tolist(), x.step) == (np.full((2, 3), 2.5).tolist(), 4)  # type: ignore[attr-defined]
    assert before.tolist() == dense.tolist()
    flags = (x > 0) if str((x > 0).layout) == "yard_padded" else (x > 0).to(layout=made(4))
    operators()["assign_"](flags, tp.asarray([[True, False, True], [False, True, False]]))
    assert flags.tolist() == [[True, False, True], [False, True, False]]


def test_an_explanation_says_how_what_is_written_comes_back() -> None:
    x = tp.asarray([[1.0, 2.0]]).to(layout=padded()(4))
    walk = tp.explain(operators()["add_"], x, tp.ones((2,)))
    assert walk.steps == ("by the functional operator, back through the hooks, binding what it gives",)
    assert (walk.result, walk.gave["layout"]) == ("cpu.yard_padded.float32", "of x1, which is written")


def test_what_must_not_be_written_is_refused_and_leaves_everything() -> None:
    made = padded()
    x = tp.asarray([[1.0, 2.0], [3.0, 4.0]]).to(layout=made(4))
    with pytest.raises(ShapeError, match="an in-place operator does not change shapes"):
        x += tp.ones((3, 2, 2))
    with pytest.raises(DTypeError, match="would change the dtype of x1 from float32 to complex64"):
        x += tp.ones((2, 2), dtype="complex64")
    with pytest.raises(IndexError):
        x[5] = 0.0
    leaf = x.copy().requires_grad_()
    with pytest.raises(AutogradError, match="leaf"):
        leaf[0] = 1.0
    assert x.tolist() == leaf.tolist() == [[1.0, 2.0], [3.0, 4.0]]

    @composite(namespace="yard", dtype=rules.promoted(), shape=rules.broadcast)
    def twice(x1: Tensor, x2: Tensor, /) -> Tensor:
        return x1 * 2 + x2

    twice_ = inplace(twice)
    with pytest.raises(NoKernelError, match=r"write x = yard::twice\(x, ...\)"):
        twice_(x, tp.ones((2,)))  # its parts give what they like, which is not bound unseen
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_layout_that_is_not_cheap_is_not_written_by_way_of_strided_memory() -> None:
    x = tp.asarray([[0.0, 2.0]]).to(layout="sparse_coo")
    with pytest.raises(LayoutError, match="has no views, so its parts cannot be written"):
        x[0] = 1.0
    with pytest.raises(LayoutError, match="subtract_ would move x1"):
        x -= tp.ones((1, 2))
    assert x.tolist() == [[0.0, 2.0]]


def test_writes_into_a_cheap_layout_are_differentiated() -> None:
    made = padded()
    w = tp.asarray([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    x = tp.asarray([[1.0, 1.0], [2.0, 3.0]]).to(layout=made(4))
    x *= w
    x += w
    x[0] = w[1] * 3
    x.to(layout="strided").sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[0.0, 0.0], [2.0 + 1 + 3, 3.0 + 1 + 3]]


def test_what_is_written_into_a_format_is_encoded_and_differentiated() -> None:
    made, _ = half()
    w = tp.asarray([1.0, 2.0, 0.25]).requires_grad_()
    x = w.to(dtype=made)
    x *= x
    x += w
    x[0] = w[1]
    assert (x.dtype, x.tolist()) == (made, [2.0, 6.0, 0.3125])
    x.to(dtype="float32").sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [0.0, 4.0 + 1 + 1, 0.5 + 1]
    y = w.detach().to(dtype=made)
    y += 1.001  # which is rounded
    assert (y.dtype, y.tolist()) == (made, encode_numbers([2.001, 3.001, 1.251]))
    with pytest.raises(DTypeError, match="from yard_half to complex64"):
        y += tp.ones((3,), dtype="complex64")


def encode_numbers(values: list[float]) -> list[float]:
    return decode(encode(np.array(values, np.float32))).tolist()  # type: ignore[no-any-return]


def test_a_parametrised_layout_passes_the_kit() -> None:
    padded()
    report = conformance.run("cpu.yard_padded", tiers=(0, 1, 2, 3, 4))
    assert report.ok, report.text()
    assert {report.of(name) for name in ("copy", "add", "add_", "assign_", "sum", "matmul", "softmax")} == {"pass"}


def test_a_copy_stays_in_a_cheap_layout() -> None:
    made = padded()
    x = tp.asarray([[1.0, 2.0]]).to(layout=made(4))
    y = x.copy()
    assert (y.layout, y.step, y.tolist()) == (made, 4, [[1.0, 2.0]])  # type: ignore[attr-defined]
    assert payload(y) is not payload(x)


# What an error says, pasted ----------------------------------------------------------------------------------------------


def _remedy(call: Callable[[], Tensor]) -> str:
    with pytest.raises(AutogradError, match="has no derivative by") as caught:
        call().sum().backward()
    (text,) = re.findall(r"tripoint\.plugin\.derivative\(.*: \.\.\.\)", str(caught.value))
    return str(text)


def _pasted(text: str) -> None:
    exec(text, {"tripoint": tp})


def _meeting(kind: str) -> tuple[Callable[[], Tensor], Tensor]:
    """A call without a derivative, with its first operand."""
    made, backend = half(cheap=False)
    leaf = tp.asarray([1.0, 2.0]).to(dtype=made).requires_grad_()
    plain = tp.asarray([3.0, 4.0])
    if kind == "plain":

        @primitive(namespace="yard", dtype=rules.promoted(), shape=rules.broadcast)
        def mixed(x1: Tensor, x2: Tensor, /) -> Tensor:
            raise NotImplementedError

        backend.kernel(mixed, args=("cpu.strided", "cpu.strided"))(np.add)
        register(backend)
        leaf = tp.asarray([1.0, 2.0]).requires_grad_()
        return lambda: mixed(leaf, plain), leaf
    args: dict[str, Any] = {
        "opaque": (made, made),
        "mixed": (made, "cpu.strided"),
        "number": (made, tp.plugin.scalar),
        "several": (made,),
        "named g": (made, made),
    }
    if kind == "several":
        backend.kernel("concat", args=args[kind], out=tp.float32)(
            lambda arrays, *, axis: np.concatenate([decode(a) for a in arrays], axis)
        )
        register(backend)
        return lambda: tp.concat([leaf, leaf]), leaf
    name = "add"
    if kind == "named g":

        @primitive(namespace="yard", dtype=rules.promoted(), shape=rules.broadcast)
        def back(g: Tensor, x: Tensor, /) -> Tensor:
            raise NotImplementedError

        name = "yard::back"
    backend.kernel(name, args=args[kind], out=tp.float32)(lambda a, b: decode(a))
    register(backend)
    second = {"opaque": leaf.detach(), "mixed": plain, "number": 2.0, "named g": leaf.detach()}[kind]
    return lambda: operators()[name](leaf, second), leaf


@pytest.mark.parametrize("kind", ["plain", "opaque", "mixed", "number", "several", "named g"])
def test_the_remedy_of_a_missing_derivative_works_when_it_is_pasted(kind: str) -> None:
    call, leaf = _meeting(kind)
    text = _remedy(call)
    gives = "[g[:2], g[2:]]" if kind == "several" else "v * 5" if kind == "named g" else "g * 5"
    _pasted(text.replace(": ...)", f": {gives})"))
    call().sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == ([2.0, 2.0] if kind == "several" else [5.0, 5.0])


def test_the_remedy_is_accepted_as_it_stands() -> None:
    call, _ = _meeting("mixed")
    _pasted(_remedy(call))
    with pytest.raises(AutogradError, match="the derivative of add gave a ellipsis"):
        call().sum().backward()


def test_where_a_derivative_is_stated_without_an_operand_the_error_names_it() -> None:
    made, backend = half()
    backend.derivative("multiply", args=(made, made), x1=lambda g: g)
    register(backend)
    x = tp.asarray(X, dtype="float32").to(dtype=made).requires_grad_()
    with pytest.raises(
        AutogradError, match=r"add x2=lambda g, x1, x2: \.\.\. to the one that is stated, .*test_cheap_hooks"
    ):
        (x * x).sum().backward()


def test_a_derivative_for_too_few_patterns_is_refused_with_the_number() -> None:
    with pytest.raises(RegistrationError, match=r"args= has 1 patterns; it wants 2, one for each of x1, x2"):
        derivative("add", args=("cpu.strided.float32",), x1=lambda g: g, x2=lambda g: g)
    with pytest.raises(RegistrationError, match=r"args=\('cpu.strided.float32', 'cpu.strided.float32'\)") as caught:
        derivative("add", x1=lambda g: g, x2=lambda g: g)
    (args,) = re.findall(r"args=\(.*\)", str(caught.value))
    _pasted(f"tripoint.plugin.derivative('add', {args}, x1=lambda g: g * 2, x2=lambda g: g * 3)")
    x = tp.asarray([1.0]).requires_grad_()
    (x + x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [5.0]


_PLUGIN = """
import numpy as np
import tripoint
import tripoint as tp
from tripoint.plugin import Backend, DType, strided

class Half:
    def __init__(self, bits): self.bits, self.shape = bits, bits.shape

def decode(x): return (x.bits << 16).view(np.float32)
def encode(dense, like=None): return Half(np.asarray(dense, np.float32).view(np.uint32) >> 16)

half = DType("yard_half", bits=16, plain=tp.float32, gradient=tp.float32)
backend = Backend("cpu", strided, half, payload=Half, encode=encode, decode=decode, frozen=True)
backend.to("cpu.strided.float32")(decode)
backend.from_("cpu.strided.float32")(encode)
backend.kernel("add", args=(half, "cpu.strided.float32"), out=tp.float32)(lambda a, b: decode(a) + b)
"""
_USER = """
import tripoint as tp
x = tp.asarray([1.0, 2.0]).to(dtype="yard_half").requires_grad_()
try:
    (x + tp.asarray([1.0, 1.0])).sum().backward()
    print(x.grad.tolist())
except tp.errors.AutogradError as error:
    print(error)
"""


@pytest.mark.parametrize("spelt", ["tripoint.plugin.derivative(", "backend.derivative("])
def test_the_remedy_works_in_the_module_of_a_plugin(spelt: str, tmp_path: Path) -> None:
    info = tmp_path / "yard_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yard-formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tripoint.backends.v1]\ncpu.strided.yard_half = yard_formats:backend\n")

    def run(module: str) -> str:
        (tmp_path / "yard_formats.py").write_text(textwrap.dedent(module))
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-B", "-W", "error", "-c", _USER]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (text,) = re.findall(r"tripoint\.plugin\.derivative\(.*: \.\.\.\)", run(_PLUGIN))
    pasted = text.replace("tripoint.plugin.derivative(", spelt).replace(": ...)", ": g * 5)")
    assert run(f"{_PLUGIN}\n{pasted}\n") == "[5.0, 5.0]"
