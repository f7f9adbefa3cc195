"""Declaring operators: what a signature says, what is refused, third-party operators, in-place rows, adding one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Optional

import pytest

import tripoint as tp
from tripoint import rules
from tripoint.dispatcher import declare
from tripoint.errors import ArgumentError, NoKernelError, RegistrationError, ShapeError
from tripoint.plugin import (
    Backend,
    Device,
    Operand,
    Tensor,
    composite,
    derivative,
    inplace,
    primitive,
    register,
    row_of,
    strided,
)
from tripoint.schema import REQUIRED, read_params, rows

pytestmark = pytest.mark.usefixtures("registry_kept")


class Cell:
    """The payload of these tests: one float with a shape of nothing."""

    shape = ()

    def __init__(self, value: float) -> None:
        self.value = value


def _read(fn: Any) -> list[tuple[str, str, int, Any]]:
    return [(p.name, p.role, p.kind, p.default) for p in read_params(fn)]


def test_roles_kinds_and_defaults_come_from_the_signature() -> None:
    def op(
        x1: Tensor,
        x2: Operand,
        more: Sequence[Tensor],
        last: Tensor | None = None,
        /,
        axis: int = 0,
        *,
        keep: bool,
        n: int = 3,
    ) -> Tensor:
        raise NotImplementedError

    assert _read(op) == [
        ("x1", "operand", 0, REQUIRED),
        ("x2", "operand", 0, REQUIRED),
        ("more", "variadic", 0, REQUIRED),
        ("last", "optional", 0, None),
        ("axis", "meta", 1, 0),
        ("keep", "meta", 2, REQUIRED),
        ("n", "meta", 2, 3),
    ]


def test_annotations_that_are_objects_are_read_as_their_text() -> None:
    def op(a: Any, b: Any, c: Any, d: Any, e: Any, n: int = 0) -> Any:
        raise NotImplementedError

    op.__annotations__.update(
        a=tp.Tensor,
        b=Operand,
        c=Optional[tp.Tensor],  # noqa: UP045
        d=Sequence[tp.Tensor],
        e=tp.Tensor | None,
        n=int,
    )
    assert [p.role for p in read_params(op)] == ["operand", "operand", "optional", "variadic", "optional", "meta"]


def test_declaration_errors() -> None:
    def behind(axis: int, x: Tensor) -> Tensor: ...
    def keyword(x: Tensor, *, y: Tensor) -> Tensor: ...
    def many(*xs: Tensor) -> Tensor: ...
    def words(x: Tensor, **meta: Any) -> Tensor: ...
    def nothing(n: int) -> Tensor: ...
    def unannotated(x, y): ...

    known = dict(rows)
    for fn, words_of_it in [
        (behind, "'x' stands behind metadata"),
        (keyword, "'y' stands behind metadata"),
        (many, r"\*args"),
        (words, r"\*\*kwargs"),
        (nothing, "no operand"),
        (unannotated, "no operand"),
    ]:
        with pytest.raises(RegistrationError, match=words_of_it):
            composite(namespace="bad")(fn)
    with pytest.raises(RegistrationError, match="no plain function"):
        composite(len)
    assert rows == known


def test_an_operator_is_declared_once() -> None:
    def add(x: Tensor, /) -> Tensor:
        return x

    with pytest.raises(RegistrationError, match="declared at") as caught:
        composite(add)
    assert str(caught.value).count(".py:") == 2

    def twice(x: Tensor, /) -> Tensor:
        return x

    def other(x: Tensor, /) -> Tensor:
        return x

    composite(namespace="mylib", name="twice")(twice)
    with pytest.raises(RegistrationError, match=r"mylib::twice"):
        composite(namespace="mylib", name="twice")(other)
    composite(namespace="mylib", name="twice")(twice)  # the same declaration run again: a notebook's cell
    # What exists under the name of an in-place form is not replaced by it either.
    composite(namespace="mylib", name="other_")(other)
    made = composite(namespace="mylib", name="other")(twice)
    with pytest.raises(RegistrationError, match="other_"):
        inplace(made)


def test_an_operator_of_a_third_party_lives_in_its_namespace() -> None:
    @composite(namespace="mylib")
    def twice(x: Tensor, /, *, bias: float = 0.0) -> Tensor:
        """Two times x."""
        return x + x + bias

    x = tp.asarray([1.0, 2.0]).requires_grad_()
    out = twice(x, bias=1.0)
    assert out.tolist() == [3.0, 5.0]
    out.backward(tp.ones((2,)))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
    assert rows["mylib::twice"] is row_of(twice)
    assert twice.__name__ == "twice"
    assert twice.__doc__ == "Two times x."
    assert repr(row_of(twice)) == "<operator mylib::twice(x, /, *, bias=0.0)>"


def test_public_operators_have_their_signatures() -> None:
    assert str(inspect.signature(tp.sum)).startswith("(x: 'Tensor', /, *, axis:")
    assert list(inspect.signature(tp.add).parameters) == ["x1", "x2"]
    assert [p.kind.name for p in inspect.signature(tp.reshape).parameters.values()] == [
        "POSITIONAL_ONLY",
        "POSITIONAL_OR_KEYWORD",
        "KEYWORD_ONLY",
    ]
    assert inspect.signature(tp.sum).parameters["keepdims"].default is False
    assert tp.sum.__module__ == "tripoint.ops.reductions"
    assert tp.sum.__doc__
    for row in rows.values():
        if row.mutates is None:
            # The compiled function takes what the written one takes: same names, kinds and defaults.
            written, made = inspect.signature(row.body), inspect.signature(row.call, follow_wrapped=False)
            assert [(p.name, p.kind, p.default) for p in written.parameters.values()] == [
                (p.name, p.kind, p.default) for p in made.parameters.values()
            ], row


def test_calls_with_wrong_arguments_are_pythons_type_errors() -> None:
    x = tp.zeros((2,), device="meta")
    for call in (
        lambda: tp.add(x),
        lambda: tp.add(x, x, x),
        lambda: tp.add(x1=x, x2=x),
        lambda: tp.sum(x, 0),
        lambda: tp.sum(x, dim=0),
    ):
        with pytest.raises(TypeError):
            call()


def test_operands_that_are_no_tensors_are_refused_by_name() -> None:
    x = tp.zeros((2,), device="meta")
    for call, name in (
        (lambda: tp.add("a", x), "x1"),
        (lambda: tp.add(x, None), "x2"),
        (lambda: tp.add(x, [1, 2]), "x2"),
        (lambda: tp.concat(x), "arrays"),
        (lambda: tp.concat([x, "a"]), "arrays"),
        (lambda: tp.add(1, 2), "at least one operand"),
        (lambda: tp.concat([]), "at least one"),
    ):
        with pytest.raises(ArgumentError, match=name):
            call()


def test_numbers_that_python_refuses_to_write_out_do_not_hide_the_error() -> None:
    huge = 2**20000
    x = tp.zeros((2,))
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: x + huge, tp.errors.ScalarRangeError),
        (lambda: tp.zeros((2,), dtype="int8") + -huge, tp.errors.ScalarRangeError),
        (lambda: tp.add(huge, "a"), ArgumentError),
        (lambda: tp.zeros(huge, device="meta"), tp.errors.SizeError),
        (lambda: tp.zeros((2, -huge), device="meta"), ShapeError),
        (lambda: tp.sum(x, axis=huge), ShapeError),
        (lambda: x[huge], tp.errors.IndexingError),
        (lambda: tp.reshape(x, huge), tp.errors.ShapeError),
        (lambda: tp.asarray([huge]), ArgumentError),
    ]
    for call, kind in calls:
        with pytest.raises(kind) as caught:
            call()
        assert len(str(caught.value)) < 600


def test_in_place_forms_are_rows_of_their_own() -> None:
    row = row_of(tp.Tensor.__iadd__)
    assert (row.name, row.mutates) == ("add_", "x1")
    assert row.functional is rows["add"]
    assert rows["add_"] is row

    @primitive(dtype=rules.promoted(), shape=rules.broadcast, namespace="mylib", kind="elementwise")
    def scale(x: Tensor, by: Operand, /) -> Tensor:
        raise NotImplementedError

    scale_ = inplace(scale)
    toy = Backend("meta", strided, payload=tp.zeros((1,), device="meta")._payload.__class__)
    assert row_of(scale_).name == "mylib::scale_"
    x = tp.zeros((3,), device="meta")
    assert scale_(x, 2.0) is x
    with pytest.raises(ShapeError, match="does not change shapes"):
        scale_(x, tp.zeros((2, 3), device="meta"))
    assert toy.patterns


def test_an_operator_takes_a_row_and_a_kernel_and_one_derivative() -> None:
    # File one: the row.
    @primitive(dtype=rules.floated(), shape=rules.same, namespace="mylib", kind="elementwise")
    def cube(x: Tensor, /) -> Tensor:
        """The third power."""
        raise NotImplementedError

    with pytest.raises(NoKernelError, match="mylib::cube"):
        cube(tp.asarray([2.0]))

    # File two: the kernel, here of a device that knows nothing else but what the derivative needs.
    toy = Backend(Device("celldev"), strided, payload=Cell, describe=lambda p: {"dtype": tp.float32})
    toy.kernels(add=lambda a, b: Cell(a.value + b.value), multiply=lambda a, b: Cell(a.value * b.value))

    @toy.kernel(cube)
    def _cube(x: Cell) -> Cell:
        return Cell(x.value**3)

    @toy.kernel("full")
    def _full(*, shape: tuple[int, ...], fill_value: float) -> Cell:
        return Cell(float(fill_value))

    @toy.kernel("ones")
    def _ones(*, shape: tuple[int, ...]) -> Cell:
        return Cell(1.0)

    register(toy)
    x = tp.full((), 2.0, device="celldev").requires_grad_()
    assert cube(x)._payload.value == 8.0

    # And one derivative; without it the call is recorded, and backward says what is missing.
    with pytest.raises(tp.errors.AutogradError, match=r"mylib::cube has no derivative by x"):
        cube(x).backward()
    derivative(cube, x=lambda g, x: g * x * x * 3.0)
    cube(x).backward()
    assert x.grad is not None
    assert x.grad._payload.value == 12.0


def test_the_derivative_of_a_row_names_what_exists() -> None:
    for functions, words in [
        ({"z": lambda g: g}, "no operand 'z'"),
        ({"x1": lambda g, nothing: g}, "nothing provides nothing"),
        ({}, "at least one operand"),
    ]:
        with pytest.raises(RegistrationError, match=words):
            derivative("add", **functions)
    with pytest.raises(RegistrationError, match="no such operator"):
        derivative("addd", x1=lambda g: g)
    with pytest.raises(RegistrationError, match="no Tripoint operator"):
        derivative(len, x1=lambda g: g)


def test_operators_declared_in_the_middle_of_another_declaration_get_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads may declare operators at once: compiling a template shares nothing with compiling another."""

    def outer(x: Tensor, /, *, a: int, b: int = 2, c: int = 3, d: int = 4, e: int = 5) -> Any:
        return "outer", a, b, c, d, e

    def inner(x: Tensor, y: Tensor, z: Tensor, u: Tensor, v: Tensor, w: Tensor, /) -> Any:
        return "inner"

    made: list[Any] = []

    def meanwhile(code: Any, scope: dict[str, Any]) -> None:
        exec(code, scope)
        if not made:
            made.append(None)
            made[0] = composite(namespace="threaded")(inner)

    monkeypatch.setattr(declare, "exec", meanwhile, raising=False)
    first = composite(namespace="threaded")(outer)
    x = tp.zeros((1,), device="meta")
    assert first(x, a=1) == ("outer", 1, 2, 3, 4, 5)
    assert made[0](x, x, x, x, x, x) == "inner"
