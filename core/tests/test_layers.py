"""Layers: the boxed form, what handles() leaves out, order of floors, recursion, and autograd beneath and above."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, RegistrationError
from tripoint.modes import DEFAULT, get_mode
from tripoint.plugin import FLOORS, Backend, Device, Layer, composite, register, resolve, strided

pytestmark = pytest.mark.usefixtures("registry_kept")


class Count(Layer, below="trace"):
    """Counts the operators that it is given."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.seen: list[str] = []

    def handles(self, op: Any) -> bool:
        return not self.names or op.name in self.names

    def __call__(self, op: Any, call_next: Callable[..., Any], args: tuple[Any, ...], meta: dict[str, Any]) -> Any:
        self.seen.append(op.name)
        return call_next(args, meta)


class Above(Count, above="autocast"):
    """The same, on top of everything."""


class Passing(Layer, below="autograd"):
    """The built form: passes through to the plan beneath, and counts."""

    def __init__(self) -> None:
        self.runs = 0

    def build(self, op: Any, next_plan: Any, keys: Any, below: Any) -> Any:
        def plan(*values: Any) -> Any:
            self.runs += 1
            return next_plan(*values)

        return plan


def _meta(*shape: int, **kind: Any) -> tp.Tensor:
    return tp.zeros(shape, device="meta", **kind)


def test_a_boxed_layer_sees_each_operator_once_and_nothing_outside() -> None:
    layer, x = Count(), _meta(2, 3)
    x + x
    with layer as entered:
        assert entered is layer
        x + x
        -x
        tp.sum(x, axis=0)
        tp.concat([x, x])
        x[0]
        x.to(dtype="float64")
        x += 1
        for _ in range(3):
            tp.exp(x)
    x + x
    assert layer.seen == ["add", "negative", "sum", "concat", "getitem", "to", "add_", "exp", "exp", "exp"]
    assert get_mode() is DEFAULT


def test_a_layer_gets_bound_metadata_by_name_and_may_change_it() -> None:
    class Flip(Layer, above="profile"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            got.append((op.name, len(args), dict(meta)))
            return call_next(args, {**meta, "keepdims": True})

    got: list[Any] = []
    x = _meta(2, 3)
    with Flip():
        assert tp.sum(x, axis=-1).shape == (2, 1)
    assert got == [("sum", 1, {"axis": (1,), "dtype": None, "keepdims": False})]


def test_a_layer_may_change_operands_their_dtype_and_their_shape() -> None:
    class Widen(Layer, above="autocast"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return call_next(
                [tp.concat([a.to(dtype="float64")] * 2) if isinstance(a, tp.Tensor) else a for a in args], meta
            )

    x = _meta(2)
    for _ in range(2):
        with Widen():
            out = tp.exp(x)
            assert (out.shape, out.dtype) == ((4,), tp.float64)
            assert (x + 1).dtype is tp.float64
    assert tp.exp(x).dtype is tp.float32


def test_a_layer_may_give_something_else_altogether() -> None:
    class Names(Layer, above="autocast"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return op.name

    x = _meta(2)
    with Names():
        assert tp.exp(x) == "exp"


def test_the_built_form_may_call_operators_without_meeting_itself() -> None:
    class Sizes(Layer, below="profile"):
        seen: list[str] = []

        def build(self, op: Any, next_plan: Any, keys: Any, below: Any) -> Any:
            def plan(*values: Any) -> Any:
                out = next_plan(*values)
                self.seen.append(op.name)
                with self.off(below):
                    tp.abs(out)
                return out

            return plan

    x = _meta(2)
    with Sizes() as sizes:
        assert tp.exp(x).shape == (2,)
        assert tp.exp(x + x).shape == (2,)
    assert sizes.seen == ["exp", "add", "exp"]
    assert get_mode() is DEFAULT


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (
            lambda call_next, args, meta: None,
            "its __call__ gave None for sum, which gives a tensor; return what call_next gives",
        ),
        (lambda call_next, args, meta: call_next([*args, *args], meta), "as one sequence of 1, x; 2 are given"),
        (
            lambda call_next, args, meta: call_next(args, {}),
            "wants all of its metadata; 'axis' is not in {}",
        ),
        (
            lambda call_next, args, meta: call_next(args, {**meta, "axes": 1}),
            "no metadata 'axes'; it has axis, dtype, keepdims",
        ),
    ],
)
def test_what_a_layer_gives_or_hands_on_wrongly_is_told(slip: Callable[..., Any], words: str) -> None:
    class Slip(Layer, below="trace"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return slip(call_next, args, meta)

    x = _meta(2)
    with Slip(), pytest.raises(tp.errors.ArgumentError, match=r"^layer Slip: ") as caught:
        tp.sum(x)
    assert words in str(caught.value)


def test_what_a_layer_leaves_to_others_it_sees_the_parts_of() -> None:
    @composite(namespace="mylib")
    def both(x: tp.Tensor, /) -> tp.Tensor:
        return tp.exp(x) + tp.exp(x)

    x = _meta(2)
    with Count("exp") as parts:
        both(x)
        both(x)
    assert parts.seen == ["exp"] * 4
    with Count() as whole:
        both(x)
    assert whole.seen == ["mylib::both"]
    with Count("mylib::both", "exp") as named:
        both(x)
    assert named.seen == ["mylib::both"]


def test_a_layer_that_does_not_handle_an_operator_and_an_inactive_one_are_not_in_the_plan() -> None:
    x = _meta(2)
    layer = Count("exp")
    assert resolve(tp.add, x, x).layers == ()
    with layer:
        assert resolve(tp.add, x, x).layers == ()
        assert resolve(tp.exp, x).layers == (layer,)
    assert resolve(tp.exp, x).layers == ()
    tp.exp(x)
    plan = tp.plugin.row_of(tp.exp).plans[DEFAULT][x._key]
    with layer:
        tp.exp(x)
    tp.exp(x)
    assert tp.plugin.row_of(tp.exp).plans[DEFAULT][x._key] is plan
    assert layer.seen == ["exp"]


def test_call_next_dispatches_with_the_layer_off() -> None:
    class Again(Count, below="profile"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            self.seen.append(op.name)
            tp.negative(args[0])  # public operators called from a layer do not come back to it
            out = call_next(args, meta)
            return out + out

    x = _meta(2)
    with Again() as layer:
        assert tp.exp(x).shape == (2,)
    assert layer.seen == ["exp"]


def test_a_layer_that_uses_scopes_stays_off_beneath() -> None:
    class Scoped(Count, below="profile"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            self.seen.append(op.name)
            with tp.no_grad():
                tp.negative(args[0])
            with tp.enable_grad(), tp.device("meta"):
                pass
            return call_next(args, meta)

    @composite(namespace="mylib")
    def scoped(x: tp.Tensor, /) -> tp.Tensor:
        with tp.no_grad():
            y = tp.exp(x)
        return y + tp.exp(x)

    x = _meta(2)
    with Scoped() as layer:
        tp.exp(x)
        scoped(x)
        tp.cos(x)
    assert layer.seen == ["exp", "mylib::scoped", "cos"]
    x.requires_grad_()
    with Scoped() as recording:
        assert tp.exp(x).requires_grad
    assert recording.seen == ["exp"]


def test_a_kernel_that_calls_public_operators_in_an_active_layer_does_not_recurse() -> None:
    class Wrapper:
        """The payload of a wrapping device: a tensor of another device."""

        def __init__(self, inner: tp.Tensor) -> None:
            self.inner = inner
            self.shape = inner.shape

    toy = Backend(Device("wrapper"), strided, payload=Wrapper, describe=lambda p: {"dtype": p.inner.dtype})
    toy.kernels(add=lambda a, b: Wrapper(tp.add(a.inner, b.inner)), exp=lambda a: Wrapper(tp.exp(tp.negative(a.inner))))
    toy.kernel("zeros")(lambda *, shape: Wrapper(tp.zeros(shape, device="meta")))
    register(toy)
    x = tp.zeros((2,), device="wrapper")
    with Count() as layer:
        out = tp.exp(x + x)
        assert out.shape == (2,)
    assert layer.seen == ["add", "exp"]
    with Passing() as built:
        tp.exp(x)
    assert built.runs >= 1


def test_floors_order_layers_whoever_is_entered_first() -> None:
    order: list[str] = []

    def named(name: str) -> Callable[..., Any]:
        def __call__(self: Any, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            order.append(name)
            return call_next(args, meta)

        return __call__

    top = type("Top", (Layer,), {"__call__": named("top")}, above="trace")
    low = type("Low", (Layer,), {"__call__": named("low")}, below="trace")
    on = type("On", (Layer,), {"__call__": named("on")}, on="trace")
    x = _meta(2)
    with low(), on(), top():
        tp.exp(x)
        tp.exp(x)
    with top(), low(), on():
        tp.exp(x)
    assert order == ["top", "on", "low"] * 3


def test_layers_on_one_floor_stand_in_the_order_they_were_entered_and_run_once() -> None:
    order: list[str] = []

    class Boxed(Layer, below="profile"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            order.append("boxed")
            return call_next(args, meta)

    class Built(Layer, below="profile"):
        def build(self, op: Any, next_plan: Any, keys: Any, below: Any) -> Any:
            def plan(*values: Any) -> Any:
                order.append("built")
                return next_plan(*values)

            return plan

    x = _meta(2)
    with Built(), Boxed():
        tp.exp(x)
    assert order == ["built", "boxed"]
    order.clear()
    with Boxed(), Built():
        tp.exp(x)
    assert order == ["boxed", "built"]
    order.clear()
    with Boxed(), Boxed():
        tp.exp(x)
    assert order == ["boxed", "boxed"]
    order.clear()
    same = Boxed()
    with same, same:
        tp.exp(x)
    assert order == ["boxed"]


def test_a_layer_says_where_it_stands() -> None:
    for floors in ({"above": "nowhere"}, {"below": "backend"}, {"above": "trace", "below": "profile"}, {}):
        with pytest.raises(RegistrationError, match="floor"):
            type("Lost", (Layer,), {}, **floors)
    floors = [type("L", (Layer,), {}, **{side: f}).floor for f in FLOORS for side in ("above", "on", "below")]
    assert floors == sorted(floors)
    assert Above.floor < Count.floor
    assert type("Child", (Count,), {}).floor == Count.floor
    x = _meta(2)
    with pytest.raises(NotImplementedError, match="neither"), type("Empty", (Layer,), {}, below="trace")():
        tp.exp(x)


@pytest.mark.parametrize("make", [Count, Above, Passing, lambda: None], ids=["boxed", "above", "built beneath", "none"])
def test_gradients_are_the_same_with_a_layer_that_changes_nothing(make: Callable[[], Any]) -> None:
    layer = make()

    def run() -> list[Any]:
        x = tp.asarray([[0.5, -1.0], [2.0, 3.0]]).requires_grad_()
        w = tp.asarray([[1.0, 2.0], [0.5, -0.25]]).requires_grad_()
        y = tp.softmax(tp.matmul(x, w) * 0.5 + x[0], axis=-1)
        y = y * 1.0
        y *= 2.0
        loss = tp.sum(tp.exp(tp.concat([y, tp.where(x > 0, x, 0.0)])))
        loss.backward()
        assert x.grad is not None
        assert w.grad is not None
        return [loss.tolist(), x.grad.tolist(), w.grad.tolist()]

    wanted = run()
    assert wanted[1] != [[0.0, 0.0], [0.0, 0.0]]
    if layer is None:
        return
    with layer:
        assert run() == wanted
        assert run() == wanted
    assert run() == wanted


def test_a_layer_above_autograd_may_replace_operands_and_be_differentiated() -> None:
    class Twice(Layer, above="autograd"):
        def handles(self, op: Any) -> bool:
            return op.name == "exp"

        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return call_next((args[0] * 2.0,), meta)

    x = tp.asarray([0.0]).requires_grad_()
    with Twice():
        tp.exp(x).backward(tp.ones((1,)))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]


def test_what_a_layer_beneath_autograd_gives_is_recorded_under_a_name_of_its_own() -> None:
    class Nothing(Layer, below="autograd"):
        def handles(self, op: Any) -> bool:
            return op.name == "exp"

        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return args[0]

    class Three(Nothing):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return 3

    x = tp.asarray([1.0, 2.0]).requires_grad_()
    for _ in range(2):
        with Nothing():
            out = tp.exp(x)
        assert out is not x
        assert x.is_leaf
        assert out.requires_grad
        assert not out.is_leaf
    with Three(), pytest.raises(ArgumentError, match="gave a int"):
        tp.exp(x)


def test_a_layer_that_drops_metadata_is_told_so() -> None:
    class Drops(Layer, below="trace"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            return call_next(args, {})

    x = _meta(2)
    with Drops(), pytest.raises(ArgumentError, match=r"layer Drops.*'axis' is not in"):
        tp.sum(x)


def test_one_layer_object_in_two_threads_ends_in_each_for_itself() -> None:
    layer, x = Count(), _meta(2)
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other() -> None:
        with layer:
            inside.set()
            leave.wait(10)
            tp.exp(x)
        seen.append(get_mode() is DEFAULT)

    thread = threading.Thread(target=other)
    with layer:
        thread.start()
        inside.wait(10)
    assert get_mode() is DEFAULT
    tp.exp(x)
    assert layer.seen == []
    leave.set()
    thread.join()
    assert seen == [True]
    assert layer.seen == ["exp"]


def test_layers_do_not_leak_out_after_an_exception() -> None:
    class Breaks(Layer, below="trace"):
        def __call__(self, op: Any, call_next: Any, args: Any, meta: Any) -> Any:
            raise RuntimeError("mine")

    x = _meta(2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine"), Breaks():
            tp.exp(x)
        assert get_mode() is DEFAULT
        assert tp.exp(x).shape == (2,)
