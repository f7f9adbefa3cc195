"""Backends that hold less than all numbers or shapes: what is left out for them, and what is not; what ends a run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults_of_numbers import _FLUSHES
from toys import DTYPES, Kernels, quiet, toy

from tripoint import conformance
from tripoint.conformance.records import Sample
from tripoint.conformance.reference.values import TINY, Array, cast
from tripoint.conformance.script import Script, agree, spelled
from tripoint.conformance.target import Target
from tripoint.plugin import Backend, Capabilities, Layout, register

Said = dict[str, Any]


def ran(backend: str, *operators: str, tiers: Any = (0, 1, 2)) -> conformance.Report:
    return conformance.run(backend, tiers=tiers, operators=operators)


# Subnormal numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [True, False])
def test_a_backend_that_flushes_subnormal_numbers_declares_it(declared: bool) -> None:
    names = ("copy", "add", "multiply", "maximum", "exp", "astype", "max", "where")

    def spoil(kernels: Kernels, said: Said) -> None:
        kernels.update({name: quiet(_FLUSHES(kernels[name])) for name in names})
        said["capabilities"] = Capabilities(dtypes=DTYPES, lacks={}, subnormal=not declared)

    register(toy("kiln", spoil))
    report = ran("kiln.strided", *names)
    assert report.ok is declared, report.text()
    assert declared or report.of("copy") == "fail"


def test_numbers_are_subnormal_below_the_smallest_normal_one() -> None:
    for dtype, tiny in TINY.items():
        if dtype.startswith("complex"):
            continue
        assert not Array(dtype, (2,), [tiny, 0.0]).subnormal()
        assert Array(dtype, (1,), [tiny / 2]).subnormal()
        assert np.finfo(np.float32).tiny == TINY["float32"]
    assert "subnormal" in Sample(Array("float16", (1,), [2.0**-16])).tags


# More axes than samples have -----------------------------------------------------------------------------------------


def _four_axes(*more: Any) -> Any:
    def spoil(kernels: Kernels, said: Said) -> None:
        for change in more:
            change(kernels)
        said["capabilities"] = Capabilities(dtypes=DTYPES, ranks=(4, 4), lacks={})

    return spoil


def test_special_numbers_are_tried_where_tensors_have_four_axes() -> None:
    register(toy("kiln", _four_axes()))
    assert ran("kiln.strided", "maximum", "abs", "max", tiers=range(7)).ok

    def spoiled(kernels: Kernels) -> None:
        kernels["maximum"] = np.fmax
        kernels["abs"] = lambda x: np.where(x < 0, -x, x)

    register(toy("flawed", _four_axes(spoiled)))
    report = ran("flawed.strided", "maximum", "abs", "negative")
    assert [v.operator for v in report.verdicts if v.verdict == "fail"] == ["maximum", "abs"], report.text()


def test_golden_vectors_are_tried_where_tensors_have_four_axes() -> None:
    def spoiled(kernels: Kernels) -> None:
        right = kernels["tanh"]
        kernels["tanh"] = lambda x: np.where(x == 0.75, right(x) * 1.001, right(x)).astype(right(x).dtype)

    register(toy("flawed", _four_axes(spoiled)))
    report = ran("flawed.strided", "tanh", "exp", tiers=[6])
    assert {v.operator: v.verdict for v in report.verdicts} == {"tanh": "fail", "exp": "pass"}


@pytest.mark.parametrize(
    ("shape", "lifted"), [((), (1, 1, 1, 1)), ((5,), (1, 5, 1, 1)), ((2, 3), (1, 2, 3, 1)), ((2, 3, 4), (1, 2, 3, 4))]
)
def test_a_lifted_sample_has_axes_of_size_one(shape: tuple[int, ...], lifted: tuple[int, ...]) -> None:
    x = Array("int64", shape, range(math.prod(shape)))
    found = Sample(x, 2, axis=-1 if shape else None).lifted(4)
    assert found is not None
    assert found.operands[0].shape == lifted
    assert found.operands[0].data == x.data
    assert found.operands[1] == 2
    if shape:
        assert lifted[found.meta["axis"]] == shape[-1]
    assert Sample(Array("bool", (1, 2, 3, 4), [True] * 24)).lifted(4) is None


# Layouts that keep less ----------------------------------------------------------------------------------------------


def _layout(name: str, capabilities: Capabilities | None = None) -> None:
    """A frozen layout that keeps no sign of zero, and computes by way of strided memory."""

    class Kept:
        def __init__(self, dense: Any) -> None:
            self.dense, self.shape = dense, dense.shape

    def pack(dense: Any, like: Any = None) -> Kept:
        return Kept(np.where(dense == 0, dense.dtype.type(0), dense))

    def unpack(x: Kept) -> Any:
        return x.dense.copy()

    more: Said = {} if capabilities is None else {"capabilities": capabilities}
    backend = Backend(
        "cpu", Layout(name), payload=Kept, to_strided=unpack, from_strided=pack, cheap=True, frozen=True, **more
    )
    backend.to("cpu.strided")(unpack)
    backend.from_("cpu.strided")(pack)
    backend.kernels(copy=lambda x: Kept(x.dense.copy()))
    register(backend)


def test_a_layout_need_not_keep_the_sign_of_zero() -> None:
    _layout("signless")
    report = ran("cpu.signless", "divide", "multiply", "copy", tiers=(0, 1, 2, 6))
    assert report.ok, report.text()
    divided = next(v for v in report.verdicts if (v.tier, v.operator) == (6, "divide"))
    assert "the layout does not keep the sign of zeros" in divided.reason
    assert report.of("divide") == "pass"


def test_what_a_layout_would_bind_on_another_point_is_unsupported() -> None:
    _layout("signless")
    verdict = next(v for v in ran("cpu.signless", "add_").verdicts)
    assert verdict.verdict == "pass"
    assert verdict.reason.startswith("without: payloads here are never written")


def test_a_check_of_one_call_takes_one_that_the_backend_has() -> None:
    """Of ``linear`` COO has the call without a bias alone."""
    assert conformance.run("cpu.sparse_coo", tiers=[5], operators=["linear"]).of("linear") == "pass"


def test_a_pass_without_elements_says_so() -> None:
    report = conformance.run("meta.strided", tiers=[1], operators=["add"])
    assert report.of("add") == "pass"
    assert report.verdicts[0].reason == "without: elements, of which tensors here hold none"


# What ends a check ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), RecursionError()])
def test_what_would_end_the_program_is_a_failure(error: BaseException) -> None:
    def spoil(kernels: Kernels, said: Said) -> None:
        def exp(x: Any) -> Any:
            raise error

        kernels["exp"] = exp

    register(toy("flawed", spoil))
    report = ran("flawed.strided", "exp", "tanh")
    assert [(v.tier, v.operator) for v in report.verdicts if v.verdict == "fail"] == [(1, "exp")]
    assert f"# raises {type(error).__name__}" in report.failures[0].reproducer
    assert report.of("tanh") != "fail"


def test_the_user_can_stop_it() -> None:
    def spoil(kernels: Kernels, said: Said) -> None:
        def exp(x: Any) -> Any:
            raise KeyboardInterrupt

        kernels["exp"] = exp

    register(toy("flawed", spoil))
    with pytest.raises(KeyboardInterrupt):
        ran("flawed.strided", "exp")


def test_several_processes_give_the_verdicts_of_one(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tripoint.conformance.plugin"]
    call += ["--pyargs", "tripoint.conformance", "--backend", "cpu.strided", "--tiers", "0,1", "--operators", "copy,a*"]
    for words in (["--conformance-report", "one.json"], ["-n", "2", "--conformance-report", "two.json"]):
        done = subprocess.run([*call, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    assert one == two
    assert one["counts"]["pass"] > 3


# How numbers are compared and written --------------------------------------------------------------------------------


def test_numbers_are_compared_each_by_itself_where_that_is_asked_for() -> None:
    assert agree([1.0, 1e-9], [1.0, 2e-9], 1e-6)
    assert not agree([1.0, 1e-9], [1.0, 2e-9], 1e-6, least=TINY["float32"])
    assert agree([1e30, 2e-9], [1e30 * (1 + 1e-7), 2e-9], 1e-6, least=TINY["float32"])
    assert agree([0.0], [2.0**-149], 2.0**-23, least=TINY["float32"])
    assert not agree([0.0], [2.0**-140], 2.0**-23, least=TINY["float32"])
    assert agree([1 + 1e-9j], [1 + 0j], 1e-6, least=TINY["complex64"]), "the parts by the size of the number"


@pytest.mark.parametrize("value", [complex(math.nan, 1.0), [complex(1.0, -math.inf), (1.5,)], [[], (2, True)], -0.0])
def test_numbers_are_written_as_expressions(value: Any) -> None:
    made = eval(spelled(value), {"nan": math.nan, "inf": math.inf})
    assert repr(made) == repr(value)


def test_integers_are_rounded_once() -> None:
    big = 2**60 + 2**36 + 1  # which float64 holds as a half between two numbers of float32
    assert cast(big, "float32") == float(np.float32(np.int64(big))) == 2.0**60 + 2.0**37
    assert cast(-big, "float32") == -cast(big, "float32")
    assert cast(2**60 + 2**36, "float32") == 2.0**60
    assert cast(10**400, "float32") == math.inf


def test_warnings_of_other_kinds_are_passed_on() -> None:
    script = Script("add", "float32").add("import warnings", 'warnings.warn("old", DeprecationWarning)')
    with pytest.warns(DeprecationWarning, match="old"):
        script.run()
    assert not script.warned
    assert Target("cpu.strided").writes()


def test_a_result_without_elements_proves_nothing() -> None:
    """``softmax`` of nothing needs no ``max``, so that it works where softmax does not."""

    def spoil(kernels: Kernels, said: Said) -> None:
        for name in ("max", "softmax"):
            del kernels[name]
        said["capabilities"] = Capabilities(dtypes=("float32",))

    register(toy("slim", spoil))
    report = ran("slim.strided", "softmax", "exp", tiers=(1, 3))
    assert (report.of("softmax"), report.of("exp")) == ("unsupported", "pass")
    assert report.verdicts[-1].reason == "no kernel for max here"
