"""What `explain` says of dense, sparse, quantized, recorded, hooked and decomposed calls, and that it runs nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint import kernels
from tripoint.conformance.checks.values import program
from tripoint.conformance.records import RECORDS
from tripoint.conformance.target import Target
from tripoint.dispatcher.calls import counters
from tripoint.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    IndexingError,
    LayoutError,
    NoKernelError,
    RegistrationError,
    ScalarRangeError,
    ShapeError,
    TripointError,
)
from tripoint.modes import get_mode
from tripoint.plugin import (
    Allocator,
    Backend,
    Device,
    Tensor,
    composite,
    key,
    operators,
    payload,
    register,
    resolve,
    strided,
    wrap,
)
from tripoint.schema import rows

X = tp.asarray([[1.0, 2.0], [3.0, 4.0]])
S = X.to(layout="sparse_coo")
W = tp.asarray([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
Q = tp.quantize(X, tp.affine(scale=0.1, zero_point=3, dtype=tp.qint8))
BLOCKED = tp.ones((1, 3, 4, 4)).to(layout=tp.layouts.blocked("nChw16c"))


def _softmax_parts() -> Backend:
    """A device that has what a softmax is made of, and no softmax."""
    made = Backend(Device("explained"), strided, payload=np.ndarray, describe=lambda p: {"dtype": tp.float32})
    made.kernels(subtract=np.subtract, exp=np.exp, divide=np.divide)
    made.kernel("max")(lambda x, *, axis, keepdims: x.max(axis, keepdims=keepdims))
    made.kernel("sum")(lambda x, *, axis, keepdims: x.sum(axis, keepdims=keepdims))
    made.from_("cpu.strided")(lambda x: x)
    return made


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(_softmax_parts())
    yield
    tp.plugins.unregister(None)


PLAIN = wrap(key(Device("explained"), strided, tp.float32), np.ones((2, 2), np.float32))


@composite(namespace="explained")
def swish(x: Tensor, /) -> Tensor:
    """X / (1 + exp(-x))."""
    return x / (1 + tp.exp(-x))


@composite(namespace="explained")
def outer(x: Tensor, /) -> Tensor:
    return tp.softmax(x)


@composite(namespace="explained")
def reads(x: Tensor, /) -> Tensor:
    y = tp.exp(x)
    return y if y.sum().item() > 0 else x


@composite(namespace="explained")
def looks_inside(x: Tensor, /) -> Tensor:
    return x * len(payload(x).data)


@composite(namespace="explained")
def falls_back(x: Tensor, /) -> Tensor:
    try:
        return tp.exp(x)
    except NoKernelError:
        return tp.exp(x.to(layout="strided"))


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every kernel, hook and conversion that is registered raises when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a kernel ran")

    for kernel in [k for entries in kernels.kernels.values() for k in entries]:
        monkeypatch.setattr(kernel, "fn", refuse)
    for point in kernels.points:
        for hook in ("to_strided", "from_strided", "describe", "coerce", "aliases"):
            if getattr(point, hook) is not None:
                monkeypatch.setattr(point, hook, refuse)
    tp.plugins.changed()
    yield
    monkeypatch.undo()
    tp.plugins.changed()


CALLS: dict[str, tuple[Any, ...]] = {
    "dense": (tp.add, X, tp.asarray([1, 2])),
    "scalar": (tp.add, X, 1.0),
    "sparse": (tp.add, S, S),
    "mixed": (tp.matmul, S, X),
    "recorded": (tp.exp, W),
    "quantized": (tp.matmul, X, Q),
    "blocked": (tp.tanh, BLOCKED),
    "hooks around a decomposition": (tp.softmax, BLOCKED),
    "decomposed": (tp.softmax, PLAIN),
    "decomposed, mixed": (tp.softmax, S),
    "decomposed, recorded": (tp.mean, W),
    "a user's": (swish, X),
    "a user's, recorded": (swish, W),
    "list": (tp.concat, [X] * 40),
    "array": (tp.add, X, np.ones((2, 2), np.float32)),
    "creation": (tp.zeros, (2, 3)),
    "conversion": (tp.to, S),
    "view": (tp.permute_dims, X, (1, 0)),
    "in place": (tp.ops.elementwise.add_, tp.ones((2,)), 1.0),
    "frozen in place": (tp.ops.elementwise.add_, X.to(layout="sparse_coo"), S),
    "meta": (tp.softmax, X.to("meta")),
    "no kernel": (tp.exp, Q),
    "two devices": (tp.add, X, X.to("meta")),
    "wrong shapes": (tp.matmul, X, tp.ones((3,))),
}


@pytest.mark.usefixtures("_registered", "nothing_runs")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_runs_and_nothing_is_left(name: str) -> None:
    operator, *args = CALLS[name]
    plans = {row: dict(row.plans) for row in rows.values()}
    before, mode = counters.resolutions, get_mode()
    walk = tp.explain(operator, *args)
    assert counters.resolutions == before
    assert get_mode() is mode
    assert {row: dict(row.plans) for row in rows.values()} == plans
    text = str(walk)
    assert repr(walk) == text
    assert "/site-packages/" not in text
    assert str(Path(__file__).parents[1]) not in text
    assert json.loads(json.dumps(walk.to_dict()))["operator"] == walk.operator


REFUSED = ("no kernel", "two devices", "wrong shapes", "decomposed, mixed")


@pytest.mark.parametrize("name", [n for n in CALLS if n not in REFUSED])
def test_the_walk_tells_what_the_call_gives(name: str) -> None:
    operator, *args = CALLS[name]
    walk = tp.explain(operator, *args)
    out = operator(*args)
    assert walk.error is None
    assert walk.unknown == ""
    assert (walk.result, walk.shape) == (str(out._key), out.shape)


def test_same_data_as_the_plan() -> None:
    walk, res = tp.explain(tp.add, S, X), resolve(tp.add, S, X)
    assert walk.resolution.kernel is res.kernel
    assert walk.resolution.out is res.out
    assert [c.verdict for c in walk.candidates].count("chosen") == 1


def test_sparse_and_dense_names_both_layouts_the_rule_and_the_package() -> None:
    walk = tp.explain(tp.add, S, X)
    assert [(a.name, a.key) for a in walk.arguments] == [
        ("x1", "cpu.sparse_coo.float32"),
        ("x2", "cpu.strided.float32"),
    ]
    winner = walk.candidates[0]
    assert (winner.verdict, winner.kernel) == ("chosen", "add_sparse_dense")
    assert winner.why.startswith("the only one that fits; of shapes it takes: A strided operand of the result's shape")
    assert winner.provider.startswith("tripoint-sparse-coo ")
    assert winner.where.startswith("tripoint_sparse_coo/_kernels.py:")
    assert walk.gave == {
        "device": "of x1, x2",
        "layout": "stated by the kernel",
        "dtype": "by the operator's rule 'promoted'",
    }
    missed = next(c for c in walk.candidates if c.pattern == "cpu.strided.plain")
    assert (missed.verdict, missed.why) == ("does not fit", "the layout of x1 is sparse_coo, not strided")
    assert "unmanaged" in walk.allocator


def test_why_the_winner_won() -> None:
    walk = tp.explain(tp.multiply, X.to(dtype=tp.bfloat16), 2)
    assert walk.candidates[0].why == "narrower than the next on the dtype of x1: bfloat16, not plain"
    assert walk.candidates[1].verdict == "fits"


def test_casts_fills_and_what_takes_no_part() -> None:
    walk = tp.explain(tp.add, X, tp.asarray([1, 2]))
    assert walk.arguments[1].matched == "cpu.strided.float32"
    assert walk.arguments[1].how == "cast to float32 by tripoint-dense-cpu:astype"
    away = [c for c in walk.candidates if c.verdict == "takes no part"]
    assert any(c.why == "tripoint-sparse-coo owns no point of this call and is not preferred" for c in away)
    filled = tp.explain(tp.add, X.to("meta"), 2)
    assert filled.arguments[1].how.startswith("made a 0-d meta.strided.float32 by tripoint:")
    assert filled.allocator == "none: a shape has no memory"


def test_layers() -> None:
    assert tp.explain(tp.exp, W).layers == ("autograd",)
    with tp.no_grad():
        assert tp.explain(tp.exp, W).layers == ()
    assert tp.explain(tp.exp, X).layers == ()


def test_a_decomposition_is_walked_on_the_real_keys() -> None:
    walk = tp.explain(tp.softmax, S[:1], axis=0)
    assert walk.how == "decomposition"
    assert [p.operator for p in walk.parts] == ["max", "subtract", "exp", "sum", "divide"]
    assert [p.arguments[0].key for p in walk.parts[:2]] == ["cpu.sparse_coo.float32"] * 2
    assert walk.parts[0].shape == (1, 2)
    assert walk.parts[0].candidates[0].kernel == "maximum_axes"
    whole = tp.explain(tp.softmax, PLAIN)
    assert [p.candidates[0].provider for p in whole.parts] == ["the running program"] * 5
    assert {p.result for p in whole.parts} == {"explained.strided.float32"}
    recorded = tp.explain(swish, W)
    assert all(p.layers == ("autograd",) for p in recorded.parts)
    assert recorded.result == "autograd<cpu.strided.float32>"
    assert "gradients are wanted of its parts" in recorded.steps[0]
    hidden = next(c for c in tp.explain(tp.nn.linear, X, W).candidates if c.kernel == "linear")
    assert "gradients are wanted and linear has no derivative" in hidden.why


def test_parts_within_parts_and_within_hooks() -> None:
    walk = tp.explain(outer, S[:, :1])
    assert [p.operator for p in walk.parts] == ["softmax"]
    assert len(walk.parts[0].parts) == 5
    hooked = tp.explain(tp.softmax, BLOCKED)
    assert hooked.how == "hooks"
    assert hooked.parts[0].arguments[0].key == "cpu.strided.float32"


def test_a_view_that_is_behind_is_not_derived_again_by_looking() -> None:
    base = tp.ones((2,)) * 1.0
    view = base[:1]
    base += tp.ones((2,)).requires_grad_()
    before = view._key
    walk = tp.explain(tp.exp, view)
    assert walk.layers == ("autograd",)
    assert view._key is before
    assert tp.exp(view).requires_grad


def test_refusals_are_part_of_the_walk() -> None:
    walk = tp.explain(tp.exp, Q)
    assert isinstance(walk.error, NoKernelError)
    assert walk.result is None
    assert {c.verdict for c in walk.candidates} == {"does not fit", "takes no part"}
    assert "raises NoKernelError:" in str(walk)
    deep = tp.explain(outer, Q)
    assert isinstance(deep.error, NoKernelError)
    assert deep.error.chain == ["softmax", "explained::outer"]
    assert deep.parts[0].parts[-1].operator == "max"
    assert str(deep).count("raises NoKernelError") == 1
    assert isinstance(tp.explain(tp.add, X, X.to("meta")).error, DeviceError)
    assert isinstance(tp.explain(tp.matmul, X, tp.ones((3,))).error, ShapeError)
    assert isinstance(tp.explain(tp.add, X, "text").error, ArgumentError)
    with pytest.raises(NoKernelError) as caught:
        outer(Q)
    assert str(caught.value) == str(deep.error)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ((tp.add, S, 1), LayoutError),
        ((tp.add, S, X[0]), LayoutError),
        ((tp.subtract, X[0], S), LayoutError),
        ((tp.multiply, S, tp.ones((3, 2, 2))), LayoutError),
        ((tp.add, S, S[:1]), ShapeError),
        ((tp.matmul, S, tp.ones((3, 2, 2))), ShapeError),
        ((tp.softmax, S), LayoutError),
        ((tp.ops.elementwise.multiply_, S.copy(), tp.ones((3, 2, 2)).to(layout="sparse_coo")), ShapeError),
    ],
)
def test_what_a_kernel_refuses_by_shape_is_seen(call: tuple[Any, ...], error: type[Exception]) -> None:
    walk = tp.explain(*call)
    operator, *args = call
    with pytest.raises(error) as caught:
        operator(*args)
    assert type(walk.error) is error
    assert str(walk.error) == str(caught.value)
    assert walk.result is None
    assert "x.to(layout='strided')" in str(caught.value)


def test_a_body_that_catches_goes_on_as_it_would() -> None:
    walk = tp.explain(falls_back, S)
    assert [(p.operator, p.error is None) for p in walk.parts] == [("exp", False), ("to", True), ("exp", True)]
    assert walk.result == "cpu.strided.float32"


def test_where_only_values_tell_the_walk_ends_and_says_so() -> None:
    walk = tp.explain(reads, X)
    assert walk.unknown == "to_list gives values"
    assert [p.operator for p in walk.parts][:2] == ["exp", "sum"]
    assert walk.result is None
    inside = tp.explain(looks_inside, X)
    assert "AttributeError in the body of explained::looks_inside, which meets no values here" in inside.unknown
    assert tp.explain(tp.ops.conversion.to_list, X).candidates[0].verdict == "chosen"


def test_calls_that_are_none() -> None:
    with pytest.raises(ArgumentError, match="missing a required argument: 'x2'"):
        tp.explain(tp.add, X)
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'axes'"):
        tp.explain(tp.sum, X, axes=1)
    with pytest.raises(RegistrationError, match="no Tripoint operator"):
        tp.explain(len, X)


def test_the_module_does_not_hide_the_function() -> None:
    program = (
        "import tripoint as tp, tripoint.explanation\n"
        "try:\n    import tripoint.explain\nexcept ModuleNotFoundError:\n    pass\n"
        "assert callable(tp.explain) and tp.explain is tripoint.explanation.explain\n"
        "print(tp.explain(tp.exp, tp.zeros((2,), device='meta')).result)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "meta.strided.float32"


# Routes, parts of keys, the plan ------------------------------------------------------------------------------------


def test_routes_are_told_in_order_up_to_the_one_taken() -> None:
    assert tp.explain(tp.exp, X).routes == ()
    assert [route for route, _ in tp.explain(tp.tanh, BLOCKED).routes] == ["kernel"]
    walk = tp.explain(tp.softmax, S)
    assert re.fullmatch(r"\d+ registered, none takes part", dict(walk.routes)["kernel"])
    assert walk.routes[1:] == (("hooks", "sparse_coo declares no cheap way through strided"),)
    recorded = tp.explain(swish, W)
    assert recorded.routes[0] == ("kernel", "gradients are wanted of its parts, so none is asked")
    refused = tp.explain(tp.exp, Q)
    assert isinstance(refused.error, NoKernelError)
    assert refused.routes == refused.error.routes
    assert [route for route, _ in refused.routes] == ["kernel", "hooks", "decomposition", "fallback"]
    assert tp.explain(tp.to, S).routes == ()
    assert tp.explain(tp.add, X, X.to("meta")).routes == ()


def test_a_fallback_is_walked() -> None:
    with tp.fallback("allow"):
        walk = tp.explain(tp.exp, Q)
    assert (walk.how, walk.error) == ("fallback", None)
    assert [route for route, _ in walk.routes] == ["kernel", "hooks", "decomposition"]
    assert walk.steps == ("by the fallback policy in force, allow:cpu: there as strided tensors, and back",)
    assert [(p.operator, p.arguments[0].key) for p in walk.parts] == [("exp", "cpu.strided.float32")]
    with tp.fallback("allow"):
        out = tp.exp(Q)
    assert (walk.result, walk.shape) == (str(out._key), out.shape)


def test_what_gave_the_parts_of_a_key() -> None:
    view = (W * 2)[0]
    argument = tp.explain(tp.exp, view).arguments[0]
    assert argument.key == "autograd<view<cpu.strided.float32>>"
    assert argument.parts == {
        "autograd": "recorded by getitem",
        "view": "a view by getitem of a tensor of shape (2, 2)",
    }
    assert tp.explain(tp.exp, W).arguments[0].parts == {"autograd": "a leaf that gradients are wanted for"}
    assert tp.explain(tp.exp, X).arguments[0].parts == {}
    several = tp.explain(tp.concat, [X, W, X])
    assert [bool(a.parts) for a in several.arguments] == [False, True, False]
    assert several.gave["autograd"] == "by the layer autograd, for arrays[1]"
    assert tp.explain(tp.permute_dims, X, (1, 0)).gave["view"] == "a view of x"
    assert "view" not in tp.explain(tp.exp, view).gave
    assert "recorded by getitem, a view by getitem" in str(tp.explain(tp.exp, view))


def test_the_source_of_the_plan() -> None:
    walk = tp.explain(tp.add, X, X)
    assert walk.plan[0] == "def plan(a0, a1):"
    assert "        r = kernel(a0._payload, a1._payload)" in walk.plan
    assert "# key = cpu.strided.float32" in walk.plan
    recorded = tp.explain(tp.exp, W).plan
    assert any(line.strip() == "node.inputs = (a0._node, )" for line in recorded)
    assert "        m0, = bind((a0._payload.shape,), m0)" in tp.explain(tp.softmax, X, axis=0).plan
    hooked = tp.explain(tp.tanh, BLOCKED).plan
    assert hooked[0] == "# tripoint.dispatcher.detour: hooked, written by hand"
    assert hooked.index("# inner:") < hooked.index("def plan(a0):")
    assert tp.explain(tp.exp, Q).plan == ()
    assert "def plan" not in str(walk)
    assert walk.to_text(plan=True).endswith("\n".join(f"    {line}" for line in walk.plan))
    assert walk.to_dict()["plan"] == walk.plan


def test_a_device_with_an_allocator_is_named_for_the_memory() -> None:
    class Pool(Allocator):
        def _alloc(self, nbytes: int) -> bytearray:
            return bytearray(nbytes)

        def _free(self, block: bytearray) -> None:
            pass

    device = Device("explained_pool")
    made = Backend(device, strided, payload=np.ndarray, allocator=Pool())
    made.kernels(exp=np.exp)
    register(made)
    x = wrap(key(device, strided, tp.float32), np.ones((2,), np.float32))
    assert tp.explain(tp.exp, x).allocator == (
        "of the allocator that the running program brings for explained_pool, and counted by it"
    )
    assert tp.explain(tp.exp, X).allocator.startswith("unmanaged: the library of tripoint-dense-cpu ")


# The page ------------------------------------------------------------------------------------------------------------


class Fall(HTMLParser):
    """The floors of every call on a page, in order: class, name and state; and whether the tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.floors: list[tuple[str, str, str]] = []
        self.calls: list[str] = []
        self.open: list[str] = []
        self.at = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not {"src", "href"} & set(given)
        if tag != "meta":
            self.open.append(tag)
        kind = given.get("class") or ""
        if kind.startswith("floor "):
            self.floors.append((kind.partition(" ")[2], "", ""))
        self.at = tag if tag in ("h2",) else kind

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.at = self.at if tag == "code" else ""

    def handle_data(self, data: str) -> None:
        if self.at in ("name", "state"):
            kind, name, state = self.floors[-1]
            self.floors[-1] = (kind, name + data, state) if self.at == "name" else (kind, name, state + data)
        if self.open[-2:] == ["h2", "code"]:
            self.calls.append(data)


def _all(walk: Any) -> list[Any]:
    return [walk, *[e for part in walk.parts for e in _all(part)]]


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize("name", CALLS)
def test_the_page_is_whole_and_has_every_call(name: str) -> None:
    operator, *args = CALLS[name]
    walk = tp.explain(operator, *args)
    text = walk.to_html()
    page = Fall(text)
    assert page.open == []
    assert page.calls == [e.signature for e in _all(walk)]
    assert not re.search(r"https?:|url\(|@import", text)
    assert str(Path(__file__).parents[1]) not in text
    landed = [e.how for e in _all(walk) if e.how]
    assert sorted(floor for kind, floor, _ in page.floors if kind == "landed") == sorted(landed)


def test_the_floors_of_a_fall() -> None:
    page = Fall(tp.explain(tp.softmax, BLOCKED).to_html())
    assert [page.floors[0], page.floors[2]] == [("called", "call", ""), ("landed", "hooks", "lands here")]
    assert page.floors[1][:2] == ("passed", "kernel")
    assert re.fullmatch(r"falls through: \d+ registered, none takes part", page.floors[1][2])
    recorded = Fall(tp.explain(tp.exp, W).to_html())
    assert ("layer", "autograd", "a layer takes part") in recorded.floors
    assert recorded.floors[-1][:2] == ("result", "result")
    refused = Fall(tp.explain(tp.exp, Q).to_html())
    assert [kind for kind, _, _ in refused.floors] == ["called", *["passed"] * 4, "raised"]
    assert refused.floors[-1][1] == "raises NoKernelError"
    assert ("raised", "not known from here on", "to_list gives values") in Fall(tp.explain(reads, X).to_html()).floors


@pytest.mark.parametrize("operand", ["cpu.blocked.float32[2,16,4,4]", "cpu.sparse_coo.float32[2,3]"])
def test_a_walk_loads_what_stands_behind_the_hooks(operand: str) -> None:
    import subprocess
    import sys

    name = "exp" if "blocked" in operand else "sin"
    run = subprocess.run([sys.executable, "-m", "tripoint", "explain", name, operand], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "raises" not in run.stdout


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ((tp.zeros, (2, 2)), ShapeError),
        ((tp.to, X), ShapeError),
        ((tp.to, tp.ones((1, 2, 2, 2), dtype="int32")), DTypeError),
    ],
)
def test_a_walk_ends_where_a_backend_declares_no_such_tensors(call: tuple[Any, ...], error: type[Exception]) -> None:
    operator, *args = call
    walk = tp.explain(operator, *args, layout="blocked")
    assert re.fullmatch(r"tripoint-blocked \S+ declares no tensors of \w+ and \d axes on cpu.blocked.\w+", walk.unknown)
    assert walk.result is None
    with pytest.raises(error):
        operator(*args, layout="blocked")
    assert tp.explain(tp.zeros, (1, 2, 2, 2), layout="blocked").result == "cpu.blocked.float32"


@pytest.mark.parametrize("point", ["cpu.strided", "cpu.sparse_coo", "cpu.blocked", "cpu.strided.qint8", "meta.strided"])
def test_walks_against_the_samples_of_the_kit(point: str) -> None:
    """Every walk ends as its call does, but for what a kernel refuses by values, and tells the result's key and shape."""
    target, checked = Target(point), 0
    for record in RECORDS.values():
        if record.kind == "export" or record.operator == "from_data" or "float32" not in target.dtypes:
            continue
        calls = [*record.samples("float32"), *(bad.sample for bad in record.errors())]
        for sample in [s for s in calls if target.takes(s)]:
            script, _ = program(target, record.operator, sample, "float32", kind=record.kind)
            call = script.lines.pop()
            try:
                names = {"operators": operators, "nan": float("nan"), "inf": float("inf"), **script.run()}
            except TripointError:  # what there is no tensor for
                continue
            walk = eval(re.sub(r"^out = (operators\(\)\[[^]]+\]|tp[^(]+)\(", r"tp.explain(\1, ", call), names)
            checked += 1
            gave, out = None, None
            try:
                exec(call, names)
                out = names["out"]
            except TripointError as error:
                gave = error
            if out is None and walk.error is None:
                assert isinstance(gave, (ScalarRangeError, IndexingError)) or "to a negative power" in str(gave), call
                continue
            assert (type(walk.error), str(walk.error)) == (type(gave), str(gave)), call
            if out is not None:
                assert walk.shape == out.shape, call
                assert walk.result in (str(out._key), str(out._key.base)), call  # a reshape may be a view, or a copy
    assert checked > 50
