"""What `tripoint.ops` and `tripoint.coverage` say, against real calls, planted backends, and headless Chromium."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.conformance.checks.values import program
from tripoint.conformance.records import RECORDS, Record, Sample
from tripoint.conformance.target import Target
from tripoint.errors import (
    AmbiguousKernelError,
    ArgumentError,
    DeviceError,
    DTypeError,
    LayoutError,
    NoKernelError,
    PluginError,
    RegistrationError,
    ShapeError,
    TripointError,
)
from tripoint.meta import Shaped
from tripoint.plugin import Backend, Device, Layer, Layout, Tensor, composite, operators, payload, register, strided
from tripoint.schema import rows
from tripoint.support import Cell, Coverage, Place

ROOT = Path(__file__).resolve().parents[1]
TABLE = tp.coverage(load=True)
VERDICTS = {"kernel", "hooks", "decomposition", "fallback", "none", "not loaded"}


def run(program: str, **environment: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Operators -----------------------------------------------------------------------------------------------------------


def test_every_operator_is_there_as_data() -> None:
    found = tp.ops()
    assert {o.name for o in found} == set(rows)
    assert [o.name for o in found if not o.package.startswith("tripoint")] == [
        name for name in sorted(rows) if not rows[name].package.startswith("tripoint")
    ]
    add = found["add"]
    assert (add.signature, add.kind, add.form, add.minimal, add.derivative) == (
        "add(x1, x2, /)", "elementwise", "primitive", True, "stated",
    )  # fmt: skip
    assert (add.doc, add.called) == (tp.add.__doc__.splitlines()[0], "tripoint.add")
    assert re.fullmatch(r"tripoint/ops/elementwise\.py:\d+", add.where)
    assert (found["linear"].form, found["linear"].derivative) == ("composite", "by parts")
    assert (found["linear"].called, found["add_"].form) == ("tripoint.nn.linear", "inplace")
    assert (found["argmax"].derivative, found["getitem_back"].called) == ("none", "")
    assert found["quantized::quantize"].called == "tripoint.quantize"
    with pytest.raises(KeyError):
        found["nothing"]


def test_operators_print_and_serialise() -> None:
    found = tp.ops()
    lines = str(found).splitlines()
    assert len(lines) == len(found) + 1 == len(rows) + 1
    assert lines[0].split() == ["operator", "kind", "form", "derivative", "defined", "at", "what", "it", "does"]
    assert str(ROOT) not in str(found)
    data = json.loads(json.dumps(found.to_dict()))
    assert [entry["name"] for entry in data] == [o.name for o in found]


def test_operators_of_a_namespace() -> None:
    assert {o.name for o in tp.ops("nn")} == set(tp.nn.__all__)
    assert {o.name for o in tp.ops("sparse")} == {name for name in rows if name.startswith("sparse::")}
    assert {o.name for o in tp.ops("")} == {name for name in rows if "::" not in name}
    with pytest.raises(ArgumentError, match=r"namespace 'nothing'; known are '', .*'nn'"):
        tp.ops("nothing")


def test_the_room_of_the_declarations_is_the_function() -> None:
    assert tp.ops is sys.modules["tripoint.ops"]
    assert {"ops", "coverage", "explain"} <= set(dir(tp))
    assert tp.ops.elementwise.add is tp.add
    program = (
        "import tripoint.ops, tripoint.support, tripoint as tp, sys\n"
        "print(len(tp.ops()) > 100, callable(tp.coverage), 'numpy' in sys.modules)"
    )
    assert run(program) == "True True False"


# What is loaded ------------------------------------------------------------------------------------------------------


def test_nothing_is_loaded_unless_it_is_named() -> None:
    program = """
import sys, tripoint as tp
table = tp.coverage()
print({c.verdict for c in table.cells}, "numpy" in sys.modules, {p.state for p in table.places})
print("cpu.sparse_coo" in table.columns, "cpu.strided (tripoint-dense-cpu)" in str(table).partition("not loaded: ")[2])
tp.coverage("add", dtypes="float32")
print([n for n, p in tp.plugins.found().items() if p.state == "loaded"])
table = tp.coverage("exp", devices="meta")
print([n for n, p in tp.plugins.found().items() if p.state == "loaded"], table["exp", "meta.strided.float32"].verdict)
table = tp.coverage("add", layouts="sparse_coo", dtypes=["float32", "bool"])
print(table["add", "cpu.sparse_coo.float32"].verdict, [p.name for p in table.places])
print(tp.plugins.found()["tripoint-blocked"].state, tp.plugins.found()["tripoint-quantized"].state)
print(tp.coverage("copy", dtypes="qint8")["copy", "cpu.strided.qint8"].verdict)
"""
    assert run(program).splitlines() == [
        "{'not loaded'} False {'found'}",
        "True True",
        "[]",
        "['tripoint'] kernel",
        "kernel ['cpu.sparse_coo.bool', 'cpu.sparse_coo.float32']",
        "found found",
        "kernel",
    ]


def test_what_needs_a_plugin_that_is_not_loaded_says_so() -> None:
    program = """
import tripoint as tp
tp.plugins.load(tp.plugins.found()["tripoint"])
table = tp.coverage("to")
print(table["to", "meta.strided.float32"].verdict, table["to", "meta.strided.float32"].note)
print(tp.plugins.found()["tripoint-dense-cpu"].state)
"""
    assert run(program).splitlines() == ["not loaded tripoint-dense-cpu, which takes part, is not loaded", "found"]


def test_a_named_device_needs_no_other_plugin_for_what_it_does_itself() -> None:
    program = """
import tripoint as tp
from tripoint.plugin import Backend, Device, register, strided
class Box:
    shape = (2,)
backend = Backend(Device("shed"), strided, payload=Box)
backend.kernel("astype")(lambda x, *, target: x)
backend.to("cpu.strided")(lambda x: x)
register(backend)
table = tp.coverage(["astype", "to", "empty"], devices="shed", dtypes="float32")
print([c.verdict for c in table.cells], [n for n, p in tp.plugins.found().items() if p.state == "loaded"])
print(next(line for line in str(table).splitlines() if line.startswith("not loaded, on")))
"""
    assert run(program).splitlines() == [
        "['kernel', 'not loaded', 'none'] []",
        "not loaded, on a point that is: tripoint-dense-cpu, which takes part, is not loaded; coverage(load=True) loads it.",
    ]


def test_blocked_plugins_are_in_the_table() -> None:
    program = """
import tripoint as tp
table = tp.coverage("copy", load=True)
cell = table["copy", "cpu.strided.qint8"]
print(cell.verdict, cell.note, [p.state for p in table.places if p.dtype == "qint8"])
print("not loaded: cpu.strided.qint8 (tripoint-quantized), cpu.strided.quint8 (tripoint-quantized): blocked." in str(table))
"""
    said = run(program, TRIPOINT_DISABLE="tripoint-quantized").splitlines()
    assert said == ["not loaded tripoint-quantized is blocked ['blocked']", "True"]


def test_hardware_is_not_asked_for() -> None:
    cell = TABLE["zeros", "cuda.strided.float32"]
    assert (cell.verdict, cell.provider.split()[0]) == ("kernel", "tripoint-cuda-cupy")
    assert TABLE["mean", "cuda.strided.float32"].verdict == "decomposition"
    assert TABLE["full_like", "cuda.strided.float32"].verdict == "decomposition"


# Against real calls --------------------------------------------------------------------------------------------------


def tensors() -> dict[str, Tensor]:
    """A tensor for each of some points."""
    dense = {d: tp.ones((2, 2)).to(dtype=d) for d in ("float32", "float16", "int32", "uint8", "bool", "complex64")}
    made = {f"cpu.strided.{d}": x for d, x in dense.items()}
    made |= {f"cpu.sparse_coo.{d}": dense[d].to(layout="sparse_coo") for d in ("float32", "int32", "bool")}
    made |= {f"meta.strided.{d}": dense[d].to("meta") for d in ("float32", "bool")}
    made["cpu.blocked.float32"] = tp.ones((1, 2, 2, 2)).to(layout=tp.layouts.blocked("nChw8c"))
    made["cpu.strided.qint8"] = tp.quantize(dense["float32"], tp.affine(scale=0.1, dtype=tp.qint8))
    return made


TENSORS = tensors()
UNARY = [
    name
    for name, row in rows.items()
    if [p.role for p in row.operands] == ["operand"]
    and not row.target
    and not any(repr(p.default) == "<required>" for p in row.metas)
    and row.package == "tripoint"
    and row.mutates is None
]
BINARY = [
    name
    for name, row in rows.items()
    if row.package == "tripoint"
    and row.kind in ("elementwise", "product")
    and len(row.operands) == 2
    # Formulas of derivatives meet floats alone, and in-place forms would change the tensors.
    and not name.endswith("_back")
    and row.mutates is None
]
METADATA = {"clip": (0, 1)}


def fits_elsewhere(name: str, *shapes: tuple[int, ...]) -> bool:
    """Whether the operator takes tensors of these shapes, by default (2, 2), where every kernel takes what it takes."""
    row = rows[name]
    operands = [tp.ones(s) for s in shapes or [(2, 2)] * len(row.operands)]
    try:
        row.call(*operands, *METADATA.get(name, ()))
    except TripointError:
        return False
    return True


SHAPES: list[tuple[tuple[int, ...], ...]] = [((1, 2),), ((2, 1),), ((3,),), ((1, 3, 2, 2),)]
PAIRS = [
    *[s * 2 for s in SHAPES],
    ((2, 2), (2,)),
    ((2, 1), (1, 2)),
    ((1, 2), (2, 1)),
    ((2, 2, 2), (2, 2)),
    ((2,), (2, 2)),
]


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_a_cell_says_where_shapes_decide(name: str) -> None:
    cell = TABLE[name, "cpu.sparse_coo.float32"]
    if cell.verdict != "none":
        taken = []
        for shapes in PAIRS if len(rows[name].operands) == 2 else SHAPES:
            if fits_elsewhere(name, *shapes):
                try:
                    rows[name].call(*[tp.ones(s).to(layout="sparse_coo") for s in shapes], *METADATA.get(name, ()))
                except (ShapeError, LayoutError):
                    taken.append(False)
                else:
                    taken.append(True)
        assert set(taken) == ({True, False} if cell.limit else {True}), (taken, cell)


@pytest.mark.parametrize(
    "point", ["cpu.strided", "cpu.sparse_coo", "cpu.blocked", "cpu.strided.qint8", "cpu.strided.quint8", "meta.strided"]
)
def test_cells_against_the_samples_of_the_kit(point: str) -> None:
    """A cell is true of every sample call, or says of what it is not: shapes, or an operand that is left out."""
    target = Target(point)
    full = point if target.opaque else f"{point}.float32"
    # What makes tensors of data and data of tensors goes other ways where it has no kernel, and a conversion has many targets.
    records = [r for r in RECORDS.values() if r.kind not in ("export", "convert") and r.operator != "from_data"]
    checked = 0
    for record in records if "float32" in target.dtypes else ():
        cell = TABLE[record.operator, full]
        samples = [s for s in record.samples("float32") if "mixed" not in s.tags and target.takes(s)]
        found = [how for s in samples if (how := outcome(target, record, s)) is not None]
        checked += len(found)
        if cell.verdict == "none":
            assert "refused" in found or not found, (cell, found)
        elif cell.limit or cell.note.startswith("without"):
            assert set(found) <= {cell.verdict, "refused"}, (cell, found)
        else:
            assert set(found) <= {cell.verdict}, (cell, found)
    assert checked > 50


def outcome(target: Target, record: Record, sample: Sample) -> str | None:
    """How a sample call went, ``refused``, or ``None`` where its operands cannot be made."""
    script, _ = program(target, record.operator, sample, "float32", kind=record.kind)
    call = script.lines.pop()
    try:
        names = script.run()
    except TripointError:
        return None
    ways: list[str] = []

    class Seen(Layer, below="autograd"):
        def build(self, op: Any, next_plan: Any, keys: Any, below: Any) -> Any:
            ways.append(getattr(next_plan, "label", ""))
            return next_plan

    try:
        with Seen():
            exec(call, {"operators": operators, "nan": math.nan, "inf": math.inf, **names})
    except TripointError:
        return "refused"
    return "hooks" if ways[0].startswith("hooks") else ways[0] if ways[0] == "decomposition" else "kernel"


def test_limits_are_told_in_every_form() -> None:
    equal = "Sparse operands of equal shapes; they are not broadcast."
    assert TABLE["add", "cpu.sparse_coo.float32"].limit == equal
    assert TABLE["softmax", "cpu.sparse_coo.float32"].limit.startswith(
        "subtract: A strided operand of the result's shape"
    )
    assert TABLE["add", "cpu.strided.float32"].limit == ""
    assert TABLE["linear", "cpu.sparse_coo.float32"].note.startswith("without bias; parts: ")
    assert "without" not in TABLE["linear", "cpu.strided.float32"].note
    mixed = next(m for m in TABLE.mixed if m.kernel == "add_sparse_dense")
    assert mixed.limit.startswith("A strided operand")
    assert ("add", "cpu.sparse_coo", equal) in TABLE.limits()
    assert TABLE.summary("add", "cpu.sparse_coo") == "kernel (by shape)"
    for text in (TABLE.to_text(), TABLE.to_markdown(), TABLE.to_html()):
        assert equal in text
        assert mixed.limit.split(";")[0].partition("'")[0] in text
    assert {p.holds for p in TABLE.places if p.layout == "blocked"} == {"dtypes floating bool, tensors of 4 axes"}
    assert "cpu.blocked: dtypes floating bool, tensors of 4 axes." in TABLE.to_text()
    assert {p.dtype for p in TABLE.places if p.layout == "blocked"} == {
        "bool",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    }


def test_a_check_of_shapes_that_is_wrong_costs_one_cell() -> None:
    backend = Backend(Device("covlimit"), strided, payload=Shaped)

    @backend.kernel("exp", check_first=lambda shapes: 1 / 0)
    def exp(x: Any) -> Any:
        raise AssertionError("it runs after its check")

    backend.kernel("zeros")(lambda *, shape, target: Shaped(shape, target.dtype))
    register(backend)
    with pytest.raises(PluginError, match="its check_first raised ZeroDivisionError"):
        tp.exp(tp.zeros((2,), device="covlimit"))
    cell = tp.coverage("exp", devices="covlimit")["exp", "covlimit.strided.float32"]
    assert (cell.verdict, "check_first" in cell.note) == ("none", True)
    bad = Backend(Device("covlimit2"), strided, payload=Shaped)
    bad.kernel("exp", check_first=3)(exp)  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="check_first= is a bool or a function, not 3"):
        register(bad)


@pytest.mark.parametrize("point", TENSORS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_a_cell_says_what_a_call_does(name: str, point: str) -> None:
    x, cell = TENSORS[point], TABLE[name, point]
    expected = ("there", True)
    try:
        rows[name].call(*[x] * len(rows[name].operands), *METADATA.get(name, ()))
    except NoKernelError:
        expected = ("none", True)
    except DTypeError:
        expected = ("none", False)
    except DeviceError:
        expected = ("none", True)
    except (ShapeError, LayoutError):
        assert cell.limit or not fits_elsewhere(name), cell
    there = "there" if cell.verdict in ("kernel", "hooks", "decomposition") else cell.verdict
    assert (there, cell.taken) == expected, cell


def test_every_cell_has_a_verdict_and_its_provider() -> None:
    assert {c.verdict for c in TABLE.cells} <= VERDICTS
    assert len(TABLE.cells) == len(TABLE.operators) * len(TABLE.places)
    for cell in TABLE.cells:
        assert (cell.kernel != "") == (cell.provider != "") == (cell.where != "")
        if cell.verdict == "kernel":
            assert cell.provider, cell
        if cell.verdict == "none":
            assert cell.note, cell
    add = TABLE["add", "cpu.strided.float32"]
    assert (add.kernel, add.provider.split()[0], add.where) == ("add", "tripoint-dense-cpu", "numpy.add")
    assert TABLE["max", "cpu.sparse_coo.float32"].where.startswith("tripoint_sparse_coo/_kernels.py:")


def test_labels_positions_and_conditions_have_dtypes_of_their_own() -> None:
    for name in ("take", "cross_entropy", "where", "pick"):
        assert TABLE[name, "cpu.strided.float32"].verdict in ("kernel", "decomposition"), name
    cell = TABLE["take", "cpu.sparse_coo.float32"]
    assert (cell.verdict, cell.provider.split()[0]) == ("kernel", "tripoint-sparse-coo")


def test_the_way_into_an_opaque_dtype() -> None:
    assert TABLE["quantized::encode", "cpu.strided.qint8"].kernel == "quantize"
    assert TABLE["to", "cpu.strided.qint8"].note == "to cpu.strided.float32"


def test_kernels_on_several_points_are_not_lost() -> None:
    found = {(m.operator, m.pattern, m.kernel) for m in TABLE.mixed}
    assert ("matmul", "(cpu.sparse_coo.plain, cpu.strided.plain)", "matmul_sparse_dense") in found
    assert ("linear", "(cpu.strided.float32, cpu.strided.qint8, cpu.strided.float32)", "linear") in found
    assert not any("scalar" in m.pattern and m.pattern.count("cpu") == 1 for m in TABLE.mixed)
    only = tp.coverage("matmul", layouts="sparse_coo").mixed
    assert {m.pattern for m in only} == {p for o, p, _ in found if o == "matmul" and "sparse_coo" in p}


# Planted backends ----------------------------------------------------------------------------------------------------


class Box:
    """A payload with a shape."""

    def __init__(self, shape: tuple[int, ...] = (2, 2)) -> None:
        self.shape = shape


@composite(namespace="covered")
def halves(x: Tensor, /) -> Tensor:
    return tp.multiply(tp.exp(x), tp.exp(x))


@composite(namespace="covered")
def nested(x: Tensor, /) -> Tensor:
    return tp.add(halves(x), x)


@composite(namespace="covered")
def lacks(x: Tensor, /) -> Tensor:
    return tp.add(tp.log(x), x)


@composite(namespace="covered")
def reads(x: Tensor, /) -> Tensor:
    return tp.exp(x) if tp.exp(x).item() > 0 else x


@composite(namespace="covered")
def inside(x: Tensor, /) -> Tensor:
    return tp.exp(x) if payload(x).values is None else x


@composite(namespace="covered")
def wants(x: Tensor, /, *, recipe: object) -> Tensor:
    return x


@composite(namespace="covered")
def four(x: Tensor, /) -> Tensor:
    if x.ndim != 4:
        raise tp.errors.ShapeError("four axes")
    return tp.exp(x)


@pytest.fixture
def planted() -> Iterator[None]:
    """A device with exp, multiply and add, add twice; a layout on it with cheap hooks, and one without."""
    device = Device("covered")
    base = Backend(device, strided, payload=Box, describe=lambda p: {"dtype": tp.float32})
    base.kernels(exp=_one, multiply=_two, add=_two, to_list=lambda x: [])
    base.kernel("subtract", args=("covered.strided.floating", "covered.strided.plain"))(_two)
    base.kernel("subtract", args=("covered.strided.plain", "covered.strided.floating"))(_other)
    cheap = Layout("covered_cheap")
    hooked = Backend(device, cheap, payload=Box, to_strided=_one, from_strided=_like, cheap=True)
    plain = Layout("covered_plain")
    for made in (base, hooked, Backend(device, plain, payload=Box)):
        register(made)
    yield
    tp.plugins.unregister(None)


def _one(x: Any) -> Box:
    return Box(x.shape)


def _two(x1: Any, x2: Any) -> Box:
    return Box(x1.shape)


def _other(x1: Any, x2: Any) -> Box:
    return Box(x1.shape)


def _like(x: Any, *, like: Any) -> Box:
    return Box(x.shape)


@pytest.mark.usefixtures("planted")
def test_verdicts_of_a_planted_backend() -> None:
    names = [
        "exp",
        "log",
        *(f"covered::{n}" for n in ("halves", "nested", "lacks", "reads", "inside", "wants", "four")),
    ]
    table = tp.coverage([*names, "subtract", "add_"], devices="covered", dtypes=["float32", "int32"])
    assert table.columns == ("covered.strided", "covered.covered_cheap", "covered.covered_plain")
    on = {layout: {n: table[n, f"covered.{layout}.float32"] for n in names} for layout in ("strided", "covered_cheap")}
    assert [c.verdict for c in on["strided"].values()] == [
        "kernel", "none", "decomposition", "decomposition", "none",
        "decomposition", "decomposition", "decomposition", "decomposition",
    ]  # fmt: skip
    assert [c.walked for c in on["strided"].values()] == [True] * 5 + [False] * 3 + [True]
    assert {c.provider for c in on["strided"].values()} == {"the running program", ""}
    assert on["strided"]["covered::nested"].note == "parts: exp, multiply, add"
    assert on["strided"]["covered::lacks"].note == "no kernel for log on covered.strided.float32"
    assert on["strided"]["covered::reads"].note.startswith("not walked: to_list gives values")
    assert on["strided"]["covered::wants"].note == "not walked: it depends on recipe"
    assert [c.verdict for c in on["covered_cheap"].values()][:5] == ["hooks", "none", "hooks", "hooks", "none"]
    assert on["covered_cheap"]["exp"].kernel == "_one"
    assert {table[n, "covered.covered_plain.float32"].verdict for n in names} == {"none", "decomposition"}
    tie = table["subtract", "covered.strided.float32"]
    assert (tie.verdict, tie.note.split(":")[0]) == ("none", AmbiguousKernelError.__name__)
    # exp of integers is computed in floats, and nobody here casts.
    assert table["exp", "covered.strided.int32"].note.startswith("no kernel for astype")


@pytest.mark.usefixtures("planted")
def test_rules_that_raise_cost_one_cell() -> None:
    def raises(keys: Any) -> Any:
        raise KeyError("a rule of a plugin")

    base = Backend(Device("covered"), strided, payload=Box)
    base.kernel("maximum", args=("covered.strided", "covered.strided"), out=raises)(_two)
    register(base)
    table = tp.coverage(["maximum", "exp"], devices="covered", layouts="strided", dtypes="float32")
    assert [c.verdict for c in table.cells] == ["none", "kernel"]
    assert table.cells[0].note.endswith("out= raised KeyError: 'a rule of a plugin'")


@pytest.mark.usefixtures("planted")
def test_the_fallback_policy_in_force_counts() -> None:
    point = "covered.strided.float32"
    base = Backend(Device("covered"), strided, payload=Box, describe=lambda p: {"dtype": tp.float32})
    base.to("cpu.strided")(lambda x: np.ones(x.shape, np.float32))
    base.from_("cpu.strided")(_one)
    register(base)
    assert tp.coverage("log", devices="covered")["log", point].verdict == "none"
    with tp.fallback("allow"):
        table = tp.coverage(["log", "exp"], devices="covered")
    assert table.fallback == "allow:cpu"
    assert (table["log", point].verdict, table["log", point].kernel) == ("fallback", "log")
    assert table["log", point].provider.startswith("tripoint-dense-cpu ")
    assert table["exp", point].verdict == "kernel"
    assert "fallback: the policy in force, allow:cpu" in str(table)


# Filters and errors --------------------------------------------------------------------------------------------------


def test_parts_of_the_table() -> None:
    part = tp.coverage([tp.add, "exp"], devices=["cpu"], layouts=strided, dtypes=["integral", tp.float32])
    assert part.operators == ("add", "exp")
    assert {p.column for p in part.places} == {"cpu.strided"}
    assert [p.dtype for p in part.places][-1] == "float32"
    assert len(part.places) == 9
    assert part.cells == tuple(TABLE[o, p.name] for o in part.operators for p in part.places)
    assert {p.device for p in tp.coverage("add", devices="cuda:0").places} == {"cuda"}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"operators": "ad"}, ArgumentError, "did you mean 'add'"),
        ({"operators": 3}, ArgumentError, "not 3"),
        ({"devices": "nothing"}, DeviceError, "unknown device 'nothing'"),
        ({"layouts": "nothing"}, LayoutError, "unknown layout 'nothing'"),
        ({"dtypes": "nothing"}, DTypeError, "unknown dtype 'nothing'"),
    ],
)
def test_names_that_nothing_provides(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tp.coverage(**arguments)


# Forms ---------------------------------------------------------------------------------------------------------------


def test_text_and_markdown_say_what_the_data_says() -> None:
    lines = TABLE.to_markdown().splitlines()
    heads = [h.strip().strip("`") for h in lines[0].strip("|").split("|")]
    assert heads == ["operator", *TABLE.columns]
    body = {
        cells[0].strip().strip("`"): cells for cells in (ln.strip("|").split("|") for ln in lines[2 : lines.index("")])
    }
    softmax = dict(zip(heads, [c.strip() for c in body["softmax"]], strict=True))
    assert (softmax["cpu.strided"], softmax["cpu.sparse_coo"]) == ("kernel", "decomposition (by shape)")
    assert (softmax["cpu.blocked"], softmax["cpu.strided.qint8"]) == ("hooks", "none")
    split = tp.coverage("quantized::rounded", devices="cpu", layouts="strided")
    assert split.summary("quantized::rounded", "cpu.strided").startswith("kernel float32; none ")
    assert split.summary("quantized::rounded", "cpu.strided").endswith("bool float16 bfloat16 float64")
    text = str(TABLE).splitlines()
    assert text[0].split() == ["operator", *TABLE.columns]
    assert next(line for line in text if line.startswith("softmax ")).split()[:4] == [
        "softmax",
        "kernel",
        "none",
        "none",
    ]
    assert str(ROOT) not in str(TABLE)


def test_json() -> None:
    data = json.loads(json.dumps(TABLE.to_dict()))
    assert sorted(data) == ["cells", "counts", "fallback", "mixed", "operators", "points"]
    assert sum(data["counts"].values()) == sum(c["taken"] for c in data["cells"])
    first = data["cells"][0]
    assert (first["operator"], first["device"], first["layout"], first["dtype"]) == ("abs", "cpu", "strided", "bool")


class Page(HTMLParser):
    """The chips of the page, and whether its tags are balanced and it asks for anything outside of itself."""

    VOID = frozenset(["meta", "input", "br"])

    def __init__(self, text: str) -> None:
        super().__init__()
        self.chips: list[dict[str, str]] = []
        self.operator = ""
        self.open: list[str] = []
        self.outside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.outside += [
            v for n, v in given.items() if n in ("src", "href", "action", "srcset", "data") and v[:1] != "#"
        ]
        if tag in ("link", "iframe", "img", "object"):
            self.outside.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.operator = given.get("data-operator", "")
        if tag == "details" and "data-verdict" in given:
            self.chips.append({"operator": self.operator, **given})

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_says_what_the_data_says() -> None:
    text = TABLE.to_html()
    page = Page(text)
    assert page.open == []
    assert page.outside == []
    assert not re.search(r"https?:|url\(|@import|fetch\(|<font", text)
    said = {
        (c["operator"], c["data-device"], c["data-layout"], dtype, c["data-verdict"], c["data-taken"] == "true")
        for c in page.chips
        for dtype in c["data-dtypes"].split()
    }
    assert said == {
        (c["operator"], c["device"], c["layout"], c["dtype"], c["verdict"], c["taken"])
        for c in TABLE.to_dict()["cells"]
    }
    assert sum(len(c["data-dtypes"].split()) for c in page.chips) == len(TABLE.cells)


def test_names_cannot_break_the_page() -> None:
    @composite(namespace="covered", name='<script>alert("1")</script>&')
    def odd(x: Tensor, /) -> Tensor:
        return x

    try:
        text = tp.coverage(odd, devices="cpu").to_html()
    finally:
        del rows['covered::<script>alert("1")</script>&']
    assert text.count("<script>") == 1
    assert {c["operator"] for c in Page(text).chips} == {'covered::<script>alert("1")</script>&'}


# In a browser --------------------------------------------------------------------------------------------------------

BROWSER = next((found for n in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(n))), None)
CASES: list[dict[str, str]] = [
    {},
    {"operator": "MAT"},
    {"device": "meta"},
    {"layout": "sparse_coo", "dtype": "float32"},
    {"dtype": "qint8", "verdict": "kernel"},
    {"verdict": "decomposition", "device": "cpu"},
    {"verdict": "none", "dtype": "complex64", "operator": "bitwise"},
    {"operator": "there is no such operator"},
    {},
]
PROBE = """
const out = [];
for (const wanted of CASES) {
  for (const id of ['operator', 'device', 'layout', 'dtype', 'verdict']) {
    document.getElementById(id).value = wanted[id] || '';
    document.getElementById(id).dispatchEvent(new Event('input', {bubbles: true}));
  }
  const seen = element => element.getClientRects().length > 0;
  out.push({
    chips: [...document.querySelectorAll('#matrix details')].filter(seen).map(
      c => [c.closest('tr').dataset.operator, c.dataset.device, c.dataset.layout, c.dataset.dtypes]),
    heads: [...document.querySelectorAll('#matrix thead th')].filter(seen).map(h => h.textContent),
    said: document.getElementById('shown').textContent,
  });
}
const probe = document.createElement('pre');
probe.id = 'probe';
probe.textContent = JSON.stringify(out);
document.body.replaceChildren(probe);
"""


def browse(page: Path, width: int = 1200) -> str:
    """The document of a local page after its scripts ran, in a window of a browser that reaches no host."""
    assert BROWSER is not None
    off = ("gpu", "sync", "component-update", "background-networking")
    flags = ["--headless", "--no-sandbox", "--no-first-run", *[f"--disable-{part}" for part in off]]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={page.parent / 'user'}"]
    flags += [f"--window-size={width},900"]
    done = subprocess.run(
        [BROWSER, *flags, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_filters_in_a_browser(tmp_path: Path) -> None:
    text = TABLE.to_html()
    probe = PROBE.replace("CASES", json.dumps(CASES))
    page = tmp_path / "page.html"
    page.write_text(text.replace("</body>", f"<script>{probe}</script></body>"), encoding="utf-8")
    found = re.search(r'<pre id="probe">(.*?)</pre>', browse(page), re.DOTALL)
    assert found is not None
    import html

    for wanted, seen in zip(CASES, json.loads(html.unescape(found[1])), strict=True):
        cells = [c for c in TABLE.cells if fits(wanted, c)]
        shown = {(o, d, lay, t) for o, d, lay, dtypes in seen["chips"] for t in dtypes.split()}
        if "dtype" in wanted:  # a chip stays whole
            shown = {s for s in shown if s[3] == wanted["dtype"]}
        assert shown == {(c.operator, c.device, c.layout, c.dtype) for c in cells}, wanted
        operators = {c.operator for c in cells}
        assert seen["said"] == f"{len(operators)} of {len(TABLE.operators)} operators"
        columns = {p.column for p in TABLE.places for c in cells if p.name == f"{c.device}.{c.layout}.{c.dtype}"}
        assert seen["heads"] == (["operator", *[c for c in TABLE.columns if c in columns]] if columns else [])


def fits(wanted: dict[str, str], cell: Any) -> bool:
    """Whether a cell passes a filter, by the words of the filter."""
    if "verdict" in wanted and not (cell.verdict == wanted["verdict"] and cell.taken):
        return False
    named = wanted.get("operator", "").lower() in cell.operator.lower()
    return named and all(
        getattr(cell, axis) == wanted[axis] for axis in ("device", "layout", "dtype") if axis in wanted
    )


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(
    ("make", "width", "dark"),
    [
        (TABLE.to_html, 1500, False),
        (TABLE.to_html, 420, True),
        (lambda: large().to_html(), 420, False),
        (lambda: Coverage((), (), (), (), "error").to_html(), 1500, True),
        (lambda: tp.explain(tp.softmax, TENSORS["cpu.sparse_coo.float32"]).to_html(), 420, True),
        (lambda: tp.explain(tp.exp, TENSORS["cpu.strided.qint8"]).to_html(), 1500, False),
    ],
)
def test_pages_in_a_browser_are_whole(make: Callable[[], str], width: int, dark: bool, tmp_path: Path) -> None:
    """Every field has a label, a table scrolls in its own box and leaves room beside the names, and text can be told from
    the ground, light and dark.
    """
    probe = """
    const bad = [];
    for (const field of document.querySelectorAll('input, select'))
      if (!field.labels.length) bad.push('no label: ' + field.id);
    for (const name of document.querySelectorAll('#matrix tbody th'))
      if (name.offsetWidth > innerWidth / 2) bad.push('a name that takes the room: ' + name.textContent);
    if (document.documentElement.scrollWidth > innerWidth) bad.push('wider than the window');
    const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255).map(
      x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
    const ground = light(getComputedStyle(document.body).backgroundColor);
    for (const e of document.querySelectorAll('main *')) {
      const ink = light(getComputedStyle(e).color);
      const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
      if (e.textContent.trim() && ratio < 4.5) bad.push(e.className + ' ' + ratio);
    }
    const probe = document.createElement('pre');
    probe.id = 'probe';
    probe.textContent = JSON.stringify([...new Set(bad)]) + matchMedia('(prefers-color-scheme: dark)').matches;
    document.body.replaceChildren(probe);
    """
    text = make().replace("</body>", f"<script>{probe}</script></body>")
    # The scheme is the system's; here the page is told by taking the question away.
    page = tmp_path / "page.html"
    page.write_text(text.replace("(prefers-color-scheme: dark) {", "all {") if dark else text, encoding="utf-8")
    found = re.search(r'<pre id="probe">(.*?)</pre>', browse(page, width), re.DOTALL)
    assert found is not None
    assert found[1].startswith("[]"), found[1]


def large() -> Coverage:
    """Thirty points and three hundred operators, with names of any length."""
    places = [Place(f"dev{i}", "a_layout_of_a_rather_long_name", "float32", f"who{i}", "loaded") for i in range(30)]
    names = [
        f"namespace{i}::an_operator_with_a_very_long_name_indeed_{i}" if i % 9 == 0 else f"op{i}" for i in range(300)
    ]
    cells = [
        Cell(name, p.device, p.layout, p.dtype, verdict, note="a note " * 30)
        for i, name in enumerate(names)
        for j, p in enumerate(places)
        for verdict in [("kernel", "hooks", "decomposition", "none")[(i + j) % 4]]
    ]
    return Coverage(tuple(names), tuple(places), tuple(cells), (), "error")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_page_in_a_browser_says_that_nothing_fits_and_can_be_walked_by_keyboard(tmp_path: Path) -> None:
    probe = """
    const out = [];
    const seen = id => document.getElementById(id).getClientRects().length > 0;
    const operator = document.getElementById('operator');
    const type = text => { operator.value = text; operator.dispatchEvent(new Event('input', {bubbles: true})); };
    type('no such operator');
    out.push(seen('nothing'), document.querySelector('.scroll').hidden);
    document.querySelector('button[type=reset]').click();
    setTimeout(() => {
      out.push(seen('nothing'), operator.value, document.getElementById('shown').textContent);
      const skip = document.querySelector('a.skip');
      skip.focus();
      out.push(document.activeElement === skip, skip.getBoundingClientRect().left >= 0);
      skip.click();
      out.push(location.hash);
      const scroll = document.querySelector('.scroll');
      scroll.scrollLeft = scroll.scrollTop = 500;
      const corner = document.querySelector('#matrix thead th').getBoundingClientRect(), box = scroll.getBoundingClientRect();
      out.push(Math.abs(corner.left - box.left) < 2 && Math.abs(corner.top - box.top) < 2);
      const made = document.createElement('pre');
      made.id = 'probe';
      made.textContent = JSON.stringify(out);
      document.body.replaceChildren(made);
    }, 50);
    """
    page = tmp_path / "page.html"
    page.write_text(large().to_html().replace("</body>", f"<script>{probe}</script></body>"), encoding="utf-8")
    found = re.search(r'<pre id="probe">(.*?)</pre>', browse(page), re.DOTALL)
    assert found is not None
    shown = [True, True, False, "", "300 of 300 operators", True, True, "#behind", True]
    assert json.loads(found[1]) == shown


# The documentation ---------------------------------------------------------------------------------------------------


def test_the_support_matrix_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tripoint.support", "--matrix"], capture_output=True, encoding="utf-8", timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    assert page == done.stdout, "make it anew: python -m tripoint.support --matrix > docs/support.md"


def test_the_command() -> None:
    for option in ("--json", "--markdown", "--html"):
        done = subprocess.run(
            [sys.executable, "-m", "tripoint.support", option], capture_output=True, encoding="utf-8", timeout=120,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        start = {"--json": "{", "--markdown": "| operator |", "--html": "<!doctype html>"}[option]
        assert done.stdout.startswith(start)
        if option == "--json":
            assert json.loads(done.stdout)["counts"]["kernel"] > 1000
