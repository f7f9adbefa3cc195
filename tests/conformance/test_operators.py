"""The kit on operators that others declare: a right one passes, wrong ones are caught, and what cannot be checked is said."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from toys import toy

import tripoint as tp
from tripoint import conformance, kernels, plugins
from tripoint.errors import ArgumentError, IndexingError, ShapeError
from tripoint.plugin import (
    Capabilities,
    Operand,
    Sample,
    Tensor,
    composite,
    derivative,
    floating,
    inplace,
    integral,
    kernel,
    numeric,
    primitive,
    register,
    rules,
)
from tripoint.schema import rows

CPU = ("cpu.strided", "cpu.strided")
X, Y = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], [1.0, -0.5, 0.75]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What a test declares, in the namespace ``kit``, is taken back."""
    yield
    plugins.unregister(None)
    for name in [n for n in rows if n.startswith("kit::")]:
        del rows[name]
        kernels.derivatives.pop(name, None)
    plugins.changed()


def calls() -> list[Sample]:
    return [Sample((X, Y)), Sample((Y, Y)), Sample(([], [])), Sample((X, [1.0, 2.0]), error=ShapeError)]


def gated(**more: Any) -> Callable[..., Tensor]:
    """``x * tanh(y)`` as an operator of this file."""
    said = {
        "dtype": rules.promoted(floating),
        "shape": rules.broadcast,
        "kind": "elementwise",
        "samples": calls,
        **more,
    }

    @composite(namespace="kit", **said)
    def gated(x: Tensor, y: Tensor, /) -> Tensor:
        return x * tp.tanh(y)

    return gated


def fused(x: Any, y: Any) -> Any:
    return x * np.tanh(y)


def ran(backend: str = "cpu.strided", *operators: str, **more: Any) -> conformance.Report:
    return conformance.run(backend, operators=operators or ["kit::*"], **more)


def failing(report: conformance.Report) -> list[tuple[int, str]]:
    return [(v.tier, v.reason.partition(": got ")[0]) for v in report.verdicts if v.verdict == "fail"]


# Right ones ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["cpu.strided", "kiln.strided", "meta.strided"])
def test_a_composite_with_a_fused_kernel_and_a_derivative_passes(backend: str) -> None:
    register(toy("kiln"))
    operator = gated()
    kernel(operator, args=CPU)(fused)
    derivative(
        operator,
        x=lambda g, y: g * tp.tanh(y),
        y=lambda g, x, y: g * x * (1.0 - tp.tanh(y) * tp.tanh(y)),
    )
    report = ran(backend)
    assert report.ok, report.text()
    assert {v.tier: v.verdict for v in report.verdicts if v.tier < 5} == {1: "pass", 2: "pass", 4: "pass"}


def test_every_dtype_that_the_rule_takes_and_the_backend_declares_is_tried() -> None:
    operator = gated()
    seen = set()

    @kernel(operator, args=CPU)
    def recording(x: Any, y: Any) -> Any:
        seen.add(x.dtype.name)
        return fused(x, y)

    assert ran(tiers=[1]).ok
    assert seen == {"float16", "bfloat16", "float32", "float64"}
    seen.clear()
    assert ran("cpu.strided.float32", tiers=[1]).ok
    assert seen == {"float32"}


def test_a_primitive_is_compared_with_its_reference() -> None:
    @primitive(
        namespace="kit",
        dtype=rules.promoted(floating),
        shape=rules.broadcast,
        samples=lambda: [((X, Y), {}), ((X, 2.0), {})],
        reference=np.hypot,
    )
    def far(x: Operand, y: Operand, /) -> Tensor:
        raise NotImplementedError

    kernel(far, args=("cpu.strided", "cpu.strided"))(np.hypot)
    report = ran()
    assert [(v.tier, v.verdict, v.reason) for v in report.verdicts if v.tier < 5] == [
        (3, "pass", ""),
        (4, "unsupported", "no derivative is stated"),
    ]
    kernels.kernels["kit::far"] = ()
    plugins.changed()
    kernel(far, args=("cpu.strided", "cpu.strided"))(lambda x, y: np.hypot(x, y) * x.dtype.type(1.01))
    assert [reason for _, reason in failing(ran())] == ["wrong elements"]


@pytest.mark.parametrize("backend", ["cpu.strided", "cpu.strided.float32"])
def test_a_primitive_without_a_reference_says_so_and_is_differentiated_by_its_own_differences(backend: str) -> None:
    @primitive(namespace="kit", dtype=rules.kept(floating), shape=rules.same, samples=lambda: [((X,), {})])
    def cubed(x: Tensor, /) -> Tensor:
        raise NotImplementedError

    kernel(cubed, args=("cpu.strided",))(lambda x: x**3)
    derivative(cubed, x=lambda g, x: g * x * x * 3)
    got = {v.tier: (v.verdict, v.reason) for v in ran(backend).verdicts}
    assert got[3] == ("pass", "without: elements are not compared, there is no reference")
    assert got[4] == ("pass", "")
    kernels.derivatives.pop("kit::cubed")
    plugins.changed()
    derivative(cubed, x=lambda g, x: g * x * x * 3.1)
    assert failing(ran(backend)) == [(4, "wrong gradient of x")]


def test_operands_of_every_role() -> None:
    def samples() -> list[Sample]:
        parts = [[1.0, 2.0], [3.0, 4.0]]
        return [
            Sample((parts, [parts, [[0.5, 0.5]]], ("bool", [True, False]), ("int64", [1, 0]), None), {"axis": 0}),
            Sample((parts, [parts], ("bool", [True, False]), ("int64", [1]), 2), {"axis": -2}),
        ]

    @composite(namespace="kit", samples=samples)
    def mixture(
        x: Tensor,
        more: Sequence[Tensor],
        mask: Tensor,
        at: Tensor,
        scale: Tensor | None = None,
        /,
        *,
        axis: int,
    ) -> Tensor:
        out = tp.take(tp.concat([x, *more], axis=axis), at, axis=axis)
        out = tp.where(mask, out, tp.zeros_like(out))
        return out if scale is None else out * scale

    report = ran()
    assert report.ok, report.text()
    assert report.of("kit::mixture") == "pass"
    assert [v.verdict for v in report.verdicts if v.tier == 4] == ["pass"]


def test_a_kink_is_left_out_of_the_differences() -> None:
    def samples() -> list[Sample]:
        return [Sample(([0.0, 1.0],), gradient=smooth), Sample(([-1.0, 2.0],))]

    smooth = True

    @composite(namespace="kit", dtype=rules.kept(floating), shape=rules.same, samples=samples)
    def size(x: Tensor, /) -> Tensor:
        return tp.where(x > 0, x, -x * 3)

    assert failing(ran()) == [(4, "wrong gradient of x")]
    smooth = False
    assert ran().ok


def test_an_in_place_form_is_checked_by_the_samples_of_its_operator() -> None:
    operator = gated(samples=lambda: [((X, Y), {})])
    inplace(operator)
    kernel(operator, args=CPU)(fused)
    report = ran("cpu.strided", "kit::gated_")
    assert [(v.tier, v.operator, v.verdict) for v in report.verdicts] == [(2, "kit::gated_", "pass")]
    kernel("kit::gated_", args=CPU)(lambda x, y: np.multiply(x, y, out=x))
    assert failing(ran("cpu.strided", "kit::gated_")) == [(2, "wrong elements")]


def test_what_must_be_refused_is_tried_in_a_dtype_that_the_operator_takes() -> None:
    @composite(
        namespace="kit",
        dtype=rules.kept(integral),
        shape=rules.same,
        samples=lambda: [(([1, 2],), {}), (([1, 2],), {"by": 0}, ArgumentError)],
    )
    def divided(x: Tensor, /, *, by: int = 1) -> Tensor:
        if by == 0 and x.dtype in integral:
            raise ArgumentError("kit::divided: by is 0")
        return x // by if by else x

    report = ran("cpu.strided")
    assert report.ok, report.text()


# Wrong ones ----------------------------------------------------------------------------------------------------------


def wrong_value() -> None:
    kernel(gated(), args=CPU)(lambda x, y: x * np.sin(y))


def wrong_derivative() -> None:
    derivative(gated(), x=lambda g, y: g * tp.tanh(y), y=lambda g, x, y: g * x * (1.0 - tp.tanh(y)))


def wrong_shape_rule() -> None:
    gated(shape=lambda shapes, **meta: shapes[0], samples=lambda: [((Y, X), {})])


def wrong_shape_rule_of_a_fused_kernel() -> None:
    kernel(gated(shape=lambda shapes, **meta: shapes[1]), args=CPU)(fused)


def mutating_kernel() -> None:
    @kernel(gated(), args=CPU)
    def gated_cpu(x: Any, y: Any) -> Any:
        np.tanh(y, out=y)
        return x * y


def wrong_dtype() -> None:
    kernel(gated(), args=CPU)(lambda x, y: fused(x, y).astype(np.float64))


def wrong_dtype_rule() -> None:
    gated(dtype=rules.compared(floating))


def kernel_that_gives_its_operand() -> None:
    @primitive(
        namespace="kit", dtype=rules.kept(), shape=rules.same, samples=lambda: [((X,), {})], reference=lambda x: x
    )
    def gated(x: Tensor, /) -> Tensor:
        raise NotImplementedError

    kernel(gated, args=("cpu.strided",))(lambda x: x[:])


def parts_that_refuse_what_the_rule_takes() -> None:
    @composite(namespace="kit", dtype=rules.kept(), shape=rules.same, samples=lambda: [((X,), {})])
    def gated(x: Tensor, /) -> Tensor:
        return x - x

    assert gated(tp.ones((1,))).tolist() == [0.0]


def metadata_that_is_not_checked() -> None:
    @composite(
        namespace="kit",
        dtype=rules.kept(),
        shape=rules.same,
        samples=lambda: [((X,), {}), ((X,), {"n": -1}, ArgumentError)],
    )
    def gated(x: Tensor, /, *, n: int = 1) -> Tensor:
        return x * n


FAULTS: list[tuple[Callable[[], None], int, str]] = [
    (wrong_value, 1, "wrong elements"),
    (wrong_derivative, 4, "wrong gradient of y"),
    (wrong_shape_rule, 1, "its shape rule says another shape than its parts give"),
    (wrong_shape_rule_of_a_fused_kernel, 1, "returned shape (2, 3); its shape rule says (3,)"),
    (mutating_kernel, 1, "changed its operand y"),
    (wrong_dtype, 1, "returned float64; the result on cpu.strided.float16 must be float16"),
    (wrong_dtype_rule, 1, "its dtype rule says another dtype than its parts give"),
    (kernel_that_gives_its_operand, 3, "the result shares memory with x"),
    (parts_that_refuse_what_the_rule_takes, 3, "raised DTypeError"),
    (metadata_that_is_not_checked, 3, "must be refused by ArgumentError, and gave no error"),
]


@pytest.mark.parametrize(("declare", "tier", "words"), FAULTS, ids=lambda f: getattr(f, "__name__", None))
def test_a_wrong_operator_is_caught_and_its_reproducer_runs(declare: Callable[[], None], tier: int, words: str) -> None:
    declare()
    report = ran()
    assert [t for t, _ in failing(report)] == [tier], report.text()
    failure = next(f for f in report.failures if words in f.what)
    text = failure.reproducer
    assert len(text.splitlines()) <= 12, text
    plugins.changed()  # the first result of a plan is compared with the rules, as it is in a program of its own
    out, error = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, "<pasted>", "exec"), {"__name__": "pasted"})
        except Exception as raised:
            error = raised
    if error is not None:
        assert f"# raises {type(error).__name__}" in text
    else:
        got, want = out.getvalue().splitlines()[-2:]
        assert got.startswith("got ")
        assert got.removeprefix("got ") != want.removeprefix("want")


# What there is and what there is not ---------------------------------------------------------------------------------


def test_an_operator_without_samples_is_unsupported() -> None:
    gated(samples=None)
    (verdict,) = ran().verdicts
    assert (verdict.operator, verdict.verdict, verdict.reason) == ("kit::gated", "unsupported", "no samples")
    assert "no samples: kit::gated (1)" in ran().text()


def test_patterns_choose_operators_and_the_core_is_another_namespace() -> None:
    gated()
    assert {v.operator for v in ran("cpu.strided", "kit::g*", "mul*").verdicts} == {
        "kit::gated",
        "multiply",
        "multiply_",
        "multiply_back",
    }
    assert not any("::" in v.operator for v in ran("cpu.strided", "*", tiers=[0]).verdicts)
    assert not any("::" in v.operator for v in conformance.run("cpu.strided", tiers=[1]).verdicts)
    with pytest.raises(ArgumentError, match=r"no operator 'nobody::\*' is declared; those of others are .*kit::gated"):
        ran("cpu.strided", "nobody::*")


def test_a_backend_may_declare_that_it_lacks_one() -> None:
    gated()
    lacks = {"kit::gated": "no hyperbola here"}
    register(toy("kiln", lambda made, said: said.update(capabilities=Capabilities(dtypes=("float32",), lacks=lacks))))
    kernel("kit::gated", args=("kiln.strided", "kiln.strided"))(lambda x, y: 1 / 0)
    report = ran("kiln.strided", tiers=[1])
    assert "ZeroDivisionError" in failing(report)[0][1]  # a crash is no refusal


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (lambda: [((X,), {})], "are not those of kit::gated"),
        (lambda: [((X, Y, Y), {})], "are not those of kit::gated"),
        (lambda: [((X, Y), {"beta": 1})], "the metadata beta"),
        (lambda: [((X, Y), {}, ValueError)], "a class of tripoint.errors, not <class 'ValueError'>"),
        (lambda: [((X, [[1.0], [2.0, 3.0]]), {})], "even lengths"),
        (lambda: [((X, "abc"), {})], "nested lists of numbers"),
        (lambda: [((X, ("int8", [0.0, float("nan")])), {})], "int8 must hold the numbers"),
        (lambda: 1 / 0, "raised ZeroDivisionError"),
        (lambda: [1.0], "kit::gated: samples= is a function"),
        (lambda: [((X, Y), [1.0])], "its metadata a dict"),
    ],
)
def test_samples_that_do_not_fit_are_refused_in_words(samples: Any, words: str) -> None:
    gated(samples=samples)
    with pytest.raises(ArgumentError) as caught:
        ran()
    assert words in str(caught.value)


def test_numbers_that_a_dtype_does_not_hold_are_not_tried_there() -> None:
    @composite(
        namespace="kit",
        dtype=rules.promoted(numeric),
        shape=rules.same,
        samples=lambda: [(([1.0, float("inf")],), {}), (([1j],), {})],
    )
    def twice(x: Tensor, /) -> Tensor:
        return x + x

    assert ran().ok
    register(toy("kiln", lambda made, said: said.update(capabilities=Capabilities(dtypes=(integral,)))))
    first = ran("kiln.strided").verdicts[0]
    assert first.verdict == "unsupported"
    assert first.reason.startswith("no sample with the dtype int8 or int16")


def test_error_samples_by_value_are_not_asked_of_a_device_without_elements() -> None:
    @composite(
        namespace="kit",
        dtype=rules.like_first(),
        shape=lambda shapes, **meta: shapes[1],
        samples=lambda: [
            Sample((Y, ("int64", [0, 2]))),
            Sample((Y, ("int64", [3])), error=IndexingError),
        ],
    )
    def picked(x: Tensor, at: Tensor, /) -> Tensor:
        return tp.take(x, at, axis=0)

    assert ran().ok, ran().text()
    assert ran("meta.strided").ok, ran("meta.strided").text()
    kernel(picked, args=CPU)(lambda x, at: x[at % len(x)])
    assert any("must be refused by IndexingError" in f.what for f in ran(tiers=[3]).failures)


def test_bench_takes_them_too() -> None:
    from tripoint.conformance.bench import bench

    gated()
    _, *lines = bench("cpu.strided", ["kit::*", "exp"]).splitlines()
    assert [line.split()[0] for line in lines] == ["kit::gated", "exp"]
    assert all(float(line.split()[-1]) > 0 for line in lines)
