"""Which kernel wins: narrowness, ties, opaque dtypes, scalars, out=; what registration refuses; taking it back."""

from __future__ import annotations

import functools
import gc
import operator
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tripoint as tp
from tripoint import dtypes as dt
from tripoint import kernels, layouts, plugins, schema
from tripoint.callables import ends_in, keyword_names, module_of, parameters
from tripoint.errors import AmbiguousKernelError, DTypeError, NoKernelError, RegistrationError
from tripoint.keys import ABSENT, SCALARS, intern
from tripoint.patterns import Origin, beats
from tripoint.plugin import (
    Backend,
    Device,
    DType,
    Layout,
    Pattern,
    floating,
    plain,
    real,
    register,
    resolve,
    row_of,
    scalar,
    strided,
)

pytestmark = pytest.mark.usefixtures("registry_kept")


class Note:
    """A payload that remembers which kernel made it."""

    def __init__(self, made_by: str, shape: tuple[int, ...] = (2,), dtype: DType = tp.float32) -> None:
        self.made_by = made_by
        self.shape = shape
        self.dtype = dtype


def _says(name: str, *, casts: bool = False) -> Callable[..., Any]:
    """A kernel that says its name and keeps the first payload's dtype."""

    def kernel(*operands: Any, **meta: Any) -> Note:
        first = next(p for p in operands if isinstance(p, Note))
        return Note(name, first.shape, first.dtype)

    return kernel


def _backend(device: str, layout: Layout = strided, dtype: DType | None = None, **hooks: Any) -> Backend:
    made = Backend(Device(device), layout, dtype, payload=Note, describe=lambda p: {"dtype": p.dtype}, **hooks)

    @made.kernel("zeros")
    def zeros(*, shape: tuple[int, ...], target: Any) -> Note:
        return Note("zeros", shape, target.dtype)

    @made.kernel("astype")
    def astype(x: Note, *, target: Any) -> Note:
        return Note("astype", x.shape, target.dtype)

    return made


def _by(tensor: tp.Tensor) -> str:
    return str(tensor._payload.made_by)


def test_a_name_beats_a_class_beats_a_wider_class() -> None:
    toy = _backend("narrow")
    for pattern in (plain, real, floating, tp.float16):
        toy.kernel("exp", args=(pattern,))(_says(str(pattern)))
    toy.kernel("exp", args=(Pattern(),))(_says("anywhere"))
    register(toy)
    got = {d: _by(tp.exp(tp.zeros((2,), dtype=d, device="narrow"))) for d in ("float16", "float64", "complex64")}
    assert got == {"float16": "float16", "float64": "floating", "complex64": "plain"}
    assert _by(tp.exp(tp.zeros((2,), dtype="int8", device="narrow"))) == "floating"  # computed in float32


def test_a_named_device_beats_any_device() -> None:
    one, other = _backend("deva"), _backend("devb")
    one.kernel("negative", args=(Pattern("*", "strided"),))(_says("wide"))
    one.kernels(negative=_says("own"))
    register(one)
    register(other)
    assert _by(-tp.zeros((2,), device="deva")) == "own"
    assert _by(-tp.zeros((2,), device="devb")) == "wide"


def test_patterns_that_tie_raise_at_the_call_until_a_preference_is_stated() -> None:
    toy = _backend("tied")
    a, b = Pattern("tied", "strided", tp.float32.name), Pattern("tied", "strided")
    toy.kernel("add", args=(a, b))(_says("left"))
    toy.kernel("add", args=(b, a))(_says("right"))
    register(toy)
    x, y = tp.zeros((2,), device="tied"), tp.zeros((2,), dtype="float64", device="tied")
    with pytest.raises(AmbiguousKernelError) as caught:
        x + x
    assert str(caught.value).count("test_kernels.py:") == 2
    assert "equal claim" in str(caught.value)
    with pytest.raises(NoKernelError):
        y + y  # each pattern wants one float32
    toy2 = _backend("tied2")
    toy2.kernel("add", args=(Pattern("tied2", "strided", "float32"),) * 2)(_says("both"))
    toy2.kernel("add", args=(Pattern("tied2", "strided", "float32"), Pattern("tied2", "strided")))(_says("left"))
    toy2.kernel("add", args=(Pattern("tied2", "strided"), Pattern("tied2", "strided", "float32")))(_says("right"))
    register(toy2)
    assert _by(tp.zeros((2,), device="tied2") + tp.zeros((2,), device="tied2")) == "both"


def test_beats_is_a_strict_partial_order() -> None:
    options = [
        Pattern(d, lay, t) for d in ("cpu", "*") for lay in ("strided", "*") for t in ("float32", floating, real, plain)
    ]
    for p in options:
        assert not beats((p,), (p,))
        for q in options:
            assert not (beats((p,), (q,)) and beats((q,), (p,)))
            for r in options:
                if beats((p,), (q,)) and beats((q,), (r,)):
                    assert beats((p,), (r,))
    assert beats((options[0], options[-1]), (options[-1], options[-1]))
    assert not beats((options[0], options[-1]), (options[-1], options[0]))


def test_opaque_dtypes_are_matched_by_name_alone() -> None:
    odd = DType("oddq", plain=tp.float32)
    key = intern(Device("cpu"), strided, odd)
    for cls in dt.CLASSES.values():
        assert not Pattern("cpu", "strided", cls).matches(key)
    assert not Pattern().matches(key)
    assert not Pattern("cpu", "strided", "*").matches(key)
    assert Pattern("cpu", "strided", "oddq").matches(key)
    assert Pattern("*", "*", "oddq").matches(key)
    # In a call: the plain kernel of the same device and layout never meets the opaque payload.
    base, quant = _backend("opq"), _backend("opq", strided, odd)
    base.kernels(add=_says("plain"))
    register(base)
    register(quant)
    q, x = tp.zeros((2,), dtype=odd, device="opq"), tp.zeros((2,), device="opq")
    assert _by(x + x) == "plain"
    for call in (lambda: q + q, lambda: q + x, lambda: x + q, lambda: q + 1):
        with pytest.raises((NoKernelError, DTypeError), match="oddq"):
            call()
    with pytest.raises(NoKernelError, match=r"x1: opq\.strided\.oddq"):
        q + x


def test_a_class_may_be_written_by_its_name() -> None:
    assert Pattern("cpu", "strided", "floating") == Pattern("cpu", "strided", floating)
    assert Pattern("cpu", "strided", "*") == Pattern("cpu", "strided")
    toy = _backend("worded")
    toy.kernel("exp", args=("worded.strided.floating",))(_says("by class"))
    register(toy)
    assert _by(tp.exp(tp.zeros((2,), device="worded"))) == "by class"


def test_the_scalar_pattern_is_no_other_pattern() -> None:
    assert scalar != Pattern()
    assert Pattern() != scalar
    assert len({scalar, Pattern()}) == 2
    assert all(scalar.matches(k) for k in SCALARS.values())
    assert not scalar.matches(ABSENT)
    assert not scalar.matches(intern(Device("cpu"), strided, tp.float32))
    assert not any(Pattern().matches(k) for k in (*SCALARS.values(), ABSENT))


def test_scalars_reach_scalar_entries_and_are_filled_without_one() -> None:
    seen: list[Any] = []

    def add(a: Any, b: Any) -> Note:
        seen.append((a, b))
        return Note("add", (2,), tp.float32)

    toy = _backend("sc")
    toy.kernel("add", args=(strided, scalar))(add)
    toy.kernel("add", args=(strided, strided))(add)
    toy.kernels(maximum=add)

    @toy.kernel("full")
    def full(*, shape: tuple[int, ...], fill_value: Any, target: Any) -> Note:
        seen.append(("full", shape, fill_value, target.dtype))
        return Note("full", shape, target.dtype)

    register(toy)
    x = tp.zeros((2,), device="sc")
    x + 1.5
    assert seen.pop()[1] == 1.5
    assert seen == []
    1.5 + x  # the other order has no entry: the number becomes a 0-d payload of the computation dtype
    assert seen[0] == ("full", (), 1.5, tp.float32)
    assert seen[1][0].made_by == "full"
    assert seen[1][1] is x._payload
    seen.clear()
    tp.maximum(x, True)
    assert seen[0] == ("full", (), True, tp.float32)
    seen.clear()
    i = tp.zeros((2,), dtype="int8", device="sc")
    tp.maximum(i, 2.5)  # computed in float32, and so the number is
    assert seen[0] == ("full", (), 2.5, tp.float32)
    assert seen[1][0].dtype is tp.float32


def test_scalars_are_filled_in_the_dtype_that_the_rule_says_not_in_the_first_tensors() -> None:
    toy = _backend("sw")
    filled: list[Any] = []

    @toy.kernel("full")
    def full(*, shape: tuple[int, ...], fill_value: Any, target: Any) -> Note:
        filled.append((fill_value, target.dtype))
        return Note("full", shape, target.dtype)

    toy.kernels(where=lambda c, a, b: Note("where", c.shape, a.dtype))
    register(toy)
    condition = tp.zeros((2,), dtype="bool", device="sw")
    out = tp.where(condition, 1.5, tp.zeros((2,), dtype="float64", device="sw"))
    assert (out.dtype, filled) == (tp.float64, [(1.5, tp.float64)])
    filled.clear()
    assert tp.where(condition, 1.5, 2).dtype is tp.float32
    assert filled == [(1.5, tp.float32), (2, tp.float32)]


def test_scalars_without_entry_and_without_full_say_what_is_missing() -> None:
    toy = _backend("nofull")
    toy.kernels(add=_says("add"))
    register(toy)
    with pytest.raises(NoKernelError, match="no kernel for full"):
        tp.zeros((2,), device="nofull") + 1


def test_mixed_layouts_and_opaque_dtypes_state_their_result() -> None:
    ragged = Layout("mixragged")
    one = _backend("mix")
    other = _backend("mix", ragged)
    other.kernel("add", args=(ragged, strided))(_says("silent"))
    other.kernel("multiply", args=(ragged, strided), out=strided)(_says("stated"))
    other.kernel("multiply", args=(strided, ragged), out=lambda keys: keys[1].base)(_says("computed"))
    other.kernel("subtract", args=(ragged, strided), out=lambda keys: "strided")(_says("nonsense"))
    register(one)
    register(other)
    r, x = tp.zeros((2,), device="mix", layout=ragged), tp.zeros((2,), device="mix")
    with pytest.raises(RegistrationError, match=r"states out=.*mix\.mixragged\.float32, mix\.strided\.float32"):
        r + x
    assert (r * x).layout is strided
    assert (x * r).layout is ragged
    with pytest.raises(RegistrationError, match="must give a key"):
        r - x
    odd = DType("mixodd")
    quant = _backend("mix", strided, odd)
    quant.kernels(add=_says("no out"))
    quant.kernel("multiply", out=tp.float32)(lambda a, b: Note("ok", a.shape, tp.float32))
    quant.kernel("divide", out=(ragged, odd))(lambda a, b: Note("ok", a.shape, odd))
    register(quant)
    q = tp.zeros((2,), dtype=odd, device="mix")
    with pytest.raises(RegistrationError, match="opaque dtype mixodd states out="):
        q + q
    assert (q * q).dtype is tp.float32
    with pytest.raises(tp.errors.PluginError, match="which no plugin provides"):
        q / q  # nothing describes that layout with that dtype


@pytest.mark.parametrize(
    ("operator", "fn", "words"),
    [
        ("add", lambda a: a, r"takes 1 positional.*add\(x1, x2, /\) gives 2: x1, x2"),
        ("add", lambda a, b, c: a, "takes 3 positional"),
        ("exp", lambda a, *, axis: a, r"wants axis; a kernel of exp\(x, /\) takes no metadata"),
        ("sum", lambda a: a, r"does not take the metadata axis, keepdims; a kernel of sum\(x, /, \*, axis=None"),
        ("sum", lambda a, *, axis: a, "does not take the metadata keepdims"),
        ("sum", lambda a, *, axis, keepdims, dtype: a, "wants dtype"),
        ("zeros", lambda shape, *, target: shape, "takes 1 positional"),
        ("summ", lambda a: a, "no operator 'summ'; did you mean 'sum'"),
    ],
)
def test_a_kernel_is_checked_against_its_schema_when_registered(operator: str, fn: Any, words: str) -> None:
    toy = _backend("wrong")
    toy.kernel(operator)(fn)
    with pytest.raises(RegistrationError, match=words) as caught:
        register(toy)
    assert "test_kernels.py:" in str(caught.value)
    assert "wrong" not in plugins.known_devices


def test_what_may_call_itself_a_kernel() -> None:
    class Driver:
        def add(self, a: Any, b: Any) -> Note:
            return Note("method", a.shape, a.dtype)

        def __call__(self, a: Any, b: Any) -> Note:
            return Note("object", a.shape, a.dtype)

        @staticmethod
        def total(x: Any, *, axis: tuple[int, ...], keepdims: bool, fast: bool = True) -> Note:
            return Note(f"total{axis}{keepdims}{fast}", (), x.dtype)

    def extra(tag: str, a: Any, b: Any) -> Note:
        return Note(tag, a.shape, a.dtype)

    @functools.wraps(extra)
    def wrapped(*args: Any, **meta: Any) -> Note:
        return Note("wrapped", args[0].shape, args[0].dtype)

    driver = Driver()
    toy = _backend("drv")
    toy.kernels(
        add=driver.add, multiply=driver, subtract=functools.partial(extra, "partial"), divide=wrapped, sum=driver.total
    )
    register(toy)
    x = tp.zeros((2,), device="drv")
    assert [_by(x + x), _by(x * x), _by(x - x), _by(x / x)] == ["method", "object", "partial", "wrapped"]
    assert _by(tp.sum(x)) == "total(0,)FalseTrue"


def test_args_have_one_pattern_per_dispatch_argument() -> None:
    toy = _backend("argc")
    toy.kernel("add", args=(strided,))(lambda a, b: a)
    with pytest.raises(RegistrationError, match=r"has 1 patterns.*dispatches on 2 arguments \(x1, x2\)"):
        register(toy)
    toy2 = _backend("argc")
    toy2.kernel("to", args=(strided,))(lambda x: x)
    with pytest.raises(RegistrationError, match=r"2 arguments \(x, target\)"):
        register(toy2)
    with pytest.raises(RegistrationError, match="no argument pattern"):
        _backend("argc").kernel("add", args=("cpu", 3))(lambda a, b: a)


def test_registration_is_whole_or_not_at_all() -> None:
    before = (dict(kernels.kernels), list(kernels.points), dict(layouts.registered), dict(plugins.known_devices))
    toy = _backend("half", Layout("halflayout"))
    toy.kernels(exp=_says("fine"), nothing=_says("wrong"))
    with pytest.raises(RegistrationError, match="nothing"):
        register(toy)
    assert before == (kernels.kernels, kernels.points, layouts.registered, plugins.known_devices)
    with pytest.raises(tp.errors.DeviceError):
        tp.zeros((2,), device="half")


def test_the_same_backend_twice_is_no_change_and_another_kernel_is_an_error() -> None:
    toy = _backend("again")
    toy.kernels(exp=_says("one"))
    register(toy)
    before = dict(kernels.kernels)
    register(toy)
    assert kernels.kernels == before
    assert _by(tp.exp(tp.zeros((2,), device="again"))) == "one"
    other = Backend("again", strided, payload=Note)
    other.kernels(exp=_says("two"))
    with pytest.raises(RegistrationError, match="a second time") as caught:
        register(other)
    assert str(caught.value).count("test_kernels.py:") == 2
    assert _by(tp.exp(tp.zeros((2,), device="again"))) == "one"

    class Other(Note):
        pass

    with pytest.raises(RegistrationError, match="describes the point"):
        register(Backend("again", strided, payload=Other))
    # every= and args= are two spellings of the same patterns.
    spelled = Backend("again", strided, payload=Note)
    spelled.kernel("exp", args=(strided,))(_says("three"))
    with pytest.raises(RegistrationError, match="a second time"):
        register(spelled)


def test_names_are_announced_by_one_thing() -> None:
    register(_backend("annd", Layout("annlayout")))
    with pytest.raises(RegistrationError, match="annlayout"):
        register(_backend("annd", Layout("annlayout")))
    register(_backend("annd", strided, DType("anndtype")))
    with pytest.raises(RegistrationError, match="anndtype"):
        register(_backend("annd2", strided, DType("anndtype")))
    assert "annd2" not in plugins.known_devices
    with pytest.raises(RegistrationError, match="plain dtype"):
        register(_backend("annd3", strided, DType("float32")))
    with pytest.raises(RegistrationError, match="annd"):
        register(Backend(Device("annd", indexed=True), Layout("annlayout2"), payload=Note))


def test_unregister_restores_the_tables_exactly() -> None:
    def tables() -> tuple[Any, ...]:
        return (
            dict(kernels.kernels),
            dict(kernels.derivatives),
            list(kernels.points),
            dict(layouts.registered),
            dict(dt.registered),
            dict(plugins.known_devices),
            list(plugins.announced),
        )

    tp.exp(tp.zeros((2,), device="meta"))
    before = tables()
    toy = _backend("gone", Layout("gonelayout"), DType("gonedtype"))
    toy.kernels(exp=_says("one"), add=_says("two"))
    toy.derivative("exp", args=("gone.gonelayout.gonedtype",), x=lambda g: g)
    register(toy)
    register(Backend(Device("cpu"), Layout("gonetoo"), payload=Note))
    assert tables() != before
    assert tp.zeros((2,), device="gone", layout="gonelayout", dtype="gonedtype").dtype.name == "gonedtype"
    plugins.unregister(None)
    assert tables() == before
    for call in (
        lambda: tp.zeros((2,), device="gone"),
        lambda: tp.zeros((2,), layout="gonelayout"),
        lambda: tp.zeros((2,), dtype="gonedtype"),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    register(toy)
    assert tp.zeros((2,), device="gone", layout="gonelayout", dtype="gonedtype").dtype.name == "gonedtype"


def test_provenance_names_function_file_and_line() -> None:
    toy = _backend("prov")

    @toy.kernel("exp")
    def my_kernel(x: Note) -> Note:
        return x

    register(toy)
    origin = resolve(tp.exp, tp.zeros((2,), device="prov")).kernel.origin
    assert origin.label == "__main__:my_kernel"
    assert origin.file is not None
    assert Path(origin.file).name == "test_kernels.py"
    assert origin.line == my_kernel.__code__.co_firstlineno
    assert "my_kernel" in str(origin)


def test_an_error_tells_kernels_of_one_factory_apart() -> None:
    def making(by: str) -> Any:
        def kernel(x: Note) -> Note:
            return Note(by, x.shape, x.dtype)

        return kernel

    def named(x: Note) -> Note:
        return Note("named", x.shape, x.dtype)

    import functools

    toy = _backend("factory")
    partly = functools.partial(named)
    toy.kernels(
        exp=making("exp"), sqrt=making("sqrt"), sin=lambda x: Note("sin", x.shape, x.dtype), cos=named, log=partly
    )
    register(toy)
    x = tp.zeros((2,), device="factory")
    said = {op.__name__: resolve(op, x).kernel.origin for op in (tp.exp, tp.sqrt, tp.sin, tp.cos, tp.log)}
    line = named.__code__.co_firstlineno
    starts = {name: str(origin).partition(" from the running program")[0] for name, origin in said.items()}
    assert starts == {
        "exp": "kernel of exp",
        "sqrt": "kernel of sqrt",
        "sin": "<lambda> of sin",
        "cos": "named",
        "log": "partial of log",
    }
    assert str(said["log"]).endswith(f"test_kernels.py:{line}")
    assert {o.label for n, o in said.items() if n in ("exp", "sqrt")} == {"__main__:kernel"}


def test_absent_operands_fit_every_pattern() -> None:
    @tp.plugin.primitive(dtype=tp.rules.kept(), shape=tp.rules.same, namespace="mylib")
    def shift(x: tp.Tensor, by: tp.Tensor | None = None, /) -> tp.Tensor:
        raise NotImplementedError

    toy = _backend("abs")
    toy.kernel(shift, args=(strided, strided))(lambda x, by: Note(f"by {by and by.made_by}", x.shape, x.dtype))
    register(toy)
    x = tp.zeros((2,), device="abs")
    assert _by(shift(x)) == "by None"
    assert _by(shift(x, None)) == "by None"
    assert _by(shift(x, x)) == "by zeros"
    assert resolve(shift, x).keys[1] is ABSENT


def test_operators_say_what_they_are() -> None:
    assert row_of(tp.add).name == "add"
    with pytest.raises(RegistrationError, match="no Tripoint operator"):
        row_of(print)
    assert set(tp.plugin.minimal()) >= {"full", "ones", "add", "sum", "reshape", "broadcast_to", "astype", "copy"}
    assert tp.plugin.operators()["add"] is tp.add
    assert row_of(tp.plugin.operators()["conv2d_weight"]).name == "conv2d_weight"


@pytest.mark.parametrize("out", ["cpu.strided", "garbage", 42, (), ("cpu", 1)])
def test_what_says_no_point_of_a_result_is_refused(out: Any) -> None:
    registry = plugins.Registry()
    with pytest.raises(RegistrationError, match="says no point of a result: write a Layout"):
        registry.kernel("exp", lambda x: x, every=Pattern("nowhere", "strided"), out=out)


class _Called:
    def __call__(self, x: Any, *, target: Any) -> Any:
        return x

    def method(self, x: Any, *, target: Any) -> Any:
        return x


def _wide(more: int, x: Any, scale: float = 1.0, *, target: Any, spec: Any = None) -> Any:
    return x


def _endless(fn: Any) -> Any:
    made = functools.partial(fn)
    made.__setstate__((made, (), {}, None))  # a partial that calls itself
    return made


@pytest.mark.parametrize(
    ("fn", "given", "words", "keywords"),
    [
        (_wide, 0, {}, ("target", "spec")),
        (functools.partial(_wide, 1), 1, {}, ("target", "spec")),
        (functools.partial(functools.partial(_wide, 1), scale=2.0), 1, {"scale": 2.0}, ("target", "spec")),
        (_Called(), 1, {}, ("target",)),
        (_Called().method, 1, {}, ("target",)),
        (functools.partial(_Called().method, target=None), 1, {"target": None}, ("target",)),
        (functools.partial(_Called()), 1, {}, ("target",)),
        (_Called, 0, {}, None),
        (operator.add, 0, {}, None),
        (functools.partial(operator.add, 1), 0, {}, None),
        (_endless(_wide), 0, {}, None),
        (7, 0, {}, None),
    ],
)
def test_what_calling_something_runs(fn: Any, given: int, words: dict[str, Any], keywords: Any) -> None:
    plain, have, said = ends_in(fn)
    assert (plain is None) is (keywords is None)
    assert (have, said) == (given, words)
    assert keyword_names(fn) == keywords
    if plain is not None:
        assert module_of(fn) == __name__


def _none(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("fn", "wrong"),
    [
        (functools.partial(_none), ""),
        (_Called().method, ""),
        (functools.partial(lambda more, x: x, 1), ""),
        (functools.partial(lambda x, more: x, more=1), ""),
        (functools.partial(lambda x, more: x, x=1), "takes 0 positional arguments"),
        (functools.partial(_none, 1), "takes 0 positional arguments"),
        (functools.partial(lambda more, x, y: x, 1), "takes 2 positional arguments"),
        (functools.partial(lambda x, *, axis: x), "wants axis"),
        (functools.partial(lambda x, *, axis: x, axis=0), ""),
        (operator.neg, ""),
        (7, "is a function, not 7"),
        (None, "is a function, not None"),
    ],
)
def test_the_signature_of_what_is_called_is_checked(fn: Any, wrong: str) -> None:
    made = kernels.Kernel("exp", fn, Origin(None, None, fn), every=Pattern("cpu"))
    if not wrong:
        kernels.validate(schema.rows["exp"], made)
        return
    with pytest.raises(tp.errors.RegistrationError, match=re.escape(wrong)):
        kernels.validate(schema.rows["exp"], made)


@pytest.mark.parametrize("given", [(5,), ("cpu", None), ("cpu", "strided", 7), ("cpu", "strided", tp.float32)])
def test_a_pattern_of_what_is_no_name(given: Any) -> None:
    with pytest.raises(tp.errors.RegistrationError, match="a pattern is a device and a layout by name, and a dtype"):
        Pattern(*given)


def test_a_derivative_may_be_a_part_of_a_function() -> None:
    part = functools.partial(lambda more, g, x, *, scale, out: g, 1, scale=2)
    assert parameters(part) == ("g", "x", "out")
    with pytest.raises(tp.errors.RegistrationError, match="whose parameters say what it needs"):
        parameters(operator.neg)


def test_an_error_lets_go_of_the_operands_of_its_call() -> None:
    class Fading:
        def __init__(self, shape: tuple[int, ...]) -> None:
            self.size, self.gone = shape, False

        @property
        def shape(self) -> tuple[int, ...]:
            if self.gone:
                raise OSError("faded")
            return self.size

    def leave(x: Any) -> Any:
        raise SystemExit(3)

    toy = tp.plugin.Backend(tp.plugin.Device("letgo"), tp.plugin.strided, payload=Fading)
    toy.kernels(zeros=lambda *, shape: Fading(shape), exp=lambda x: 1 / 0, sin=leave)
    toy.kernels(sum=lambda x, *, axis, keepdims: Fading(()))
    register(toy)

    def faded(call: Any) -> Any:
        def fade(x: Any) -> Any:
            x._payload.gone = True
            return call(x)

        return fade

    calls = [tp.exp, tp.sin, faded(tp.sum), faded(lambda x: x.shape), lambda x: tp.sum(x, axis=7)]
    gc.collect()
    gc.disable()
    try:
        for call in calls:
            x = tp.zeros((2,), device="letgo")
            payload = weakref.ref(x._payload)
            with pytest.raises((ZeroDivisionError, SystemExit, tp.errors.TripointError)) as caught:
                call(x)
            del x, caught
            assert payload() is None
    finally:
        gc.enable()
