"""`NoKernelError` as an object, and its text: at most twelve lines for every case, and no folders of a machine."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import tripoint as tp
from tripoint import rules
from tripoint.errors import Near, NoKernelError, clipped, grouped, short_file
from tripoint.plugin import Backend, Device, Layout, Tensor, composite, primitive, register, strided

pytestmark = pytest.mark.usefixtures("registry_kept")


class P:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _backend(device: str, layout: Layout = strided) -> Backend:
    made = Backend(Device(device), layout, payload=P)
    made.kernel("zeros")(lambda *, shape: P(shape))
    made.kernel("astype")(lambda x, *, target: x)
    return made


def _caught(call: Any) -> NoKernelError:
    with pytest.raises(NoKernelError) as caught:
        call()
    text = str(caught.value)
    assert len(text.splitlines()) <= 12, text
    assert all(len(line) <= 400 for line in text.splitlines())
    assert str(Path(__file__).parents[1]) not in text
    return caught.value


def test_points_what_gave_them_and_the_nearest_first() -> None:
    ragged = Layout("erragged")
    one, two = _backend("errdev"), _backend("errdev", ragged)
    one.kernel("add", args=(strided, strided))(lambda a, b: a)
    one.kernel("add", args=(strided, ragged), out=strided)(lambda a, b: a)
    register(one)
    register(two)
    x = tp.zeros((2,), device="errdev")
    r = tp.zeros((2,), device="errdev", layout=ragged, dtype=tp.int32)
    error = _caught(lambda: tp.add(r, x))
    assert error.operator == "add"
    assert error.points == (("x1", "errdev.erragged.int32"), ("x2", "errdev.strided.float32"))
    assert error.sources == ("cast to float32", "")
    assert error.nearest[0].point == "(errdev.strided.plain, errdev.strided.plain)"
    assert error.nearest[0].differs == (("x1", "layout", "erragged", "strided"),)
    assert error.nearest[0].provider == "the running program"
    assert len(error.nearest[1].differs) == 2
    assert "x1: errdev.erragged.int32 (cast to float32)" in str(error)
    assert "the layout of x1 is erragged, not strided" in str(error)
    assert "x.to(layout='strided')" in error.help
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.chain == []


def test_forty_arguments() -> None:
    register(_backend("errmany"))
    x = tp.zeros((2,), device="errmany")
    error = _caught(lambda: tp.concat([x] * 40))
    assert len(error.points) == 40
    assert error.points[39][0] == "arrays[39]"
    assert "arrays[0], arrays[1], arrays[2] and 37 more: errmany.strided.float32" in str(error)
    mixed = [
        tp.zeros((2,), device="errmany", dtype=d) for d in ("float32", "int8", "int16", "float64", "uint8", "bool")
    ]
    text = str(_caught(lambda: tp.concat(mixed * 7)))
    assert "... and 2 more" in text


def test_long_chains_and_huge_names() -> None:
    @primitive(dtype=rules.promoted(), shape=rules.same, namespace="n" * 300, name="o" * 3000)
    def innermost(x: Tensor, /) -> Tensor:
        raise NotImplementedError

    inner: Any = innermost

    def around(below: Any, name: str) -> Any:
        def body(x: Tensor, /) -> Tensor:
            return below(x)  # type: ignore[no-any-return]

        return composite(namespace="errchain", name=name)(body)

    for i in range(30):
        inner = around(inner, f"level{i}" + "x" * 500)
    register(_backend("errdeep"))
    error = _caught(lambda: inner(tp.zeros((2,), device="errdeep")))
    assert len(error.chain) == 30
    assert "and 27 more above" in str(error)
    assert str(error).startswith("no kernel for nnn")


def test_routes_tried_and_why_each_was_left() -> None:
    ragged = Layout("errroute", views=False)
    one = _backend("errroute")
    one.kernel("add", args=(strided, strided))(lambda a, b: a)
    register(one)
    register(_backend("errroute", ragged))
    x = tp.zeros((2,), device="errroute")
    r = tp.zeros((2,), device="errroute", layout=ragged)
    error = _caught(lambda: tp.add(r, r))
    assert error.routes == (
        ("kernel", "1 takes part, none fits"),
        ("hooks", "errroute declares no cheap way through strided"),
        ("decomposition", "add is a primitive, without one"),
        (
            "fallback",
            "not permitted, nor possible: no conversions lead from errroute.errroute.float32 to cpu.strided.float32",
        ),
    )
    assert "\n  tried: kernel: 1 takes part, none fits; hooks: errroute declares" in str(error)
    assert dict(_caught(lambda: tp.exp(x)).routes)["hooks"] == "every operand is strided and plain"
    said = "add would do, and assign_ write what it gives: that has no kernel on errroute.strided.float32"
    assert dict(_caught(lambda: x.__iadd__(x)).routes)["decomposition"] == said
    made = dict(_caught(lambda: tp.ones((2,), device="errroute")).routes)
    assert made["kernel"].endswith(("registered, none takes part", "none is registered"))  # as others are loaded or not
    assert made["hooks"] == "there is no operand"
    with tp.fallback("allow"):
        there = _caught(lambda: tp.exp(x))
    assert dict(there.routes)["fallback"] == (
        "the fallback to cpu was refused: no conversions lead from errroute.strided.float32 to cpu.strided.float32"
    )


def test_text_of_the_worst_case_made_by_hand() -> None:
    near = Near("p" * 5000, "who\nelse", tuple((f"x{i}", "dtype", "a\nb", "c") for i in range(50)))
    points = tuple((f"x{i}", f"point\n{i}" * 50) for i in range(100))
    error = NoKernelError("op\nname" * 100, points, (near,) * 90, "help\n" * 90, ("reason\n" * 90,) * 50)
    error.chain += ["level\n" * 100] * 100
    error.routes = (("kernel", "why\n" * 300),) * 4
    lines = str(error).splitlines()
    assert len(lines) <= 12
    assert all(len(line) <= 400 for line in lines)


def test_kernels_that_fit_and_take_no_part_are_named(run_program: Any, write_distribution: Any) -> None:
    toy = """
from tripoint.plugin import Backend, Device, hookimpl, strided, Pattern
class P:
    def __init__(self, shape): self.shape = shape
home = Backend(Device("vault"), strided, payload=P)
home.kernel("zeros")(lambda *, shape: P(shape))
class Extra:
    @hookimpl
    def tripoint_register(self, registry):
        registry.kernel("exp", lambda x: x, every=Pattern("vault"))
extra = Extra()
"""
    site = write_distribution("home", "[tripoint.backends.v1]\nvault.strided = homemod:home\n", homemod=toy)
    write_distribution("extra", "[tripoint.kernels.v1]\nvault.strided = homemod:extra\n")
    out = run_program(
        """
        import tripoint as tp
        x = tp.zeros((2,), device="vault")
        try:
            tp.exp(x)
        except tp.errors.NoKernelError as error:
            print(error.help)
        tp.plugins.prefer("extra")
        tp.exp(x)
        tp.plugins.preferred.remove("extra")
        tp.plugins.changed()
        try:
            tp.exp(x)
        except tp.errors.NoKernelError as error:
            print(error.reasons[0])
        print(tp.explain(tp.exp, x).candidates[0].verdict)
        """,
        site=site,
    )
    lines = out.splitlines()
    assert lines[0] == "extra offers kernels for vault.strided.float32: tripoint.plugins.prefer('extra')"
    assert "owns no point of this call; tripoint.plugins.prefer('extra') lets it take part" in lines[1]
    assert lines[2] == "takes no part"


def test_what_to_install(run_program: Any, write_distribution: Any) -> None:
    # A program's own device with a layout that a first-party distribution is known for; here nobody else is installed.
    site = write_distribution("nothing", "[other]\n")
    out = run_program(
        """
        import tripoint as tp
        from tripoint import plugins
        from tripoint.plugin import Backend, Device, Layout, register, strided
        plugins.found().clear()
        class P:
            def __init__(self, shape): self.shape = shape
        made = Backend(Device("vault"), Layout("sparse_coo"), payload=P)
        made.kernel("zeros")(lambda *, shape: P(shape))
        made.kernel("exp", args=("vault.strided",))(lambda x: x)
        register(made)
        try:
            tp.exp(tp.zeros((2,), device="vault", layout="sparse_coo"))
        except tp.errors.NoKernelError as error:
            print(error.help)
            print(error.packages)
        """,
        site=site,
    )
    assert out.splitlines()[1] == "('tripoint-sparse-coo',)"
    assert out.startswith(
        "pip install tripoint-sparse-coo (in a checkout: ./plugins/sparse_coo); or convert first: x.to(layout='strided')"
    )


def test_helpers() -> None:
    assert clipped("a\nb", 10) == "a b"
    assert clipped("x" * 20, 10) == "xxxxxxx..."
    assert grouped([("a", "p"), ("b", "p"), ("c", "p")]) == [("a", "p"), ("b", "p"), ("c", "p")]
    assert grouped([(n, "p") for n in "abcde"]) == [("a, b, c and 2 more", "p")]
    assert short_file("/usr/lib/python3/site-packages/pkg/sub/mod.py", "pkg.sub.mod") == "pkg/sub/mod.py"
    assert short_file("C:\\me\\pkg\\mod.py", "pkg.mod") == "pkg/mod.py"
    assert short_file("/srv/script.py", "__main__") == "script.py"
    assert short_file("<stdin>", None) == "<stdin>"
