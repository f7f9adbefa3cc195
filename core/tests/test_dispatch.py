"""From call to plan: one resolution per kind of call, checked first results, planned conversions, threads, ownership."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint import kernels, plugins
from tripoint.dispatcher.calls import counters
from tripoint.errors import DeviceError, NoKernelError, PluginError
from tripoint.patterns import Pattern
from tripoint.plugin import Backend, Device, DType, Layout, register, resolve, strided

pytestmark = pytest.mark.usefixtures("registry_kept")


class Tagged:
    """A payload that carries the conversions that it went through."""

    def __init__(self, trail: str = "", shape: tuple[int, ...] = (2,), dtype: Any = tp.float32) -> None:
        self.trail = trail
        self.shape = shape
        self.dtype = dtype


def _place(device: Device | str, layout: Layout = strided, dtype: DType | None = None, **hooks: Any) -> Backend:
    hooks.setdefault("describe", lambda p: {"dtype": p.dtype})
    made = Backend(device, layout, dtype, payload=Tagged, **hooks)

    @made.kernel("zeros")
    def zeros(*, shape: tuple[int, ...], target: Any) -> Tagged:
        return Tagged("", shape, target.dtype)

    return made


def _step(name: str) -> Callable[..., Any]:
    def convert(x: Tagged, *, target: Any) -> Tagged:
        return Tagged(f"{x.trail}>{name}", x.shape, target.dtype)

    return convert


# One resolution per kind of call ---------------------------------------------------------------------------------------


def test_a_hundred_equal_calls_resolve_once() -> None:
    x, y = tp.zeros((2, 3), device="meta"), tp.zeros((3,), dtype="float64", device="meta")
    calls: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: x + 1,
        lambda: 1 + x,
        lambda: x + np.float64(1.0),
        lambda: tp.add(x, y),
        lambda: tp.sum(x, axis=0),
        lambda: tp.sum(x, axis=1, dtype="float64"),
        lambda: tp.concat([x, x]),
        lambda: x[0],
        lambda: tp.zeros((2,), dtype="int8", device="meta"),
        lambda: x.to(dtype=tp.float16),
        lambda: tp.where(x > 0, x, 0.0),
        lambda: tp.softmax(x, axis=0),
        lambda: tp.mean(x),
    ]
    for call in calls:
        call()
        before = counters.resolutions
        for _ in range(100):
            call()
        assert counters.resolutions == before
    fresh = tp.zeros((2,), dtype="complex64", device="meta")
    before = counters.resolutions
    for _ in range(100):
        tp.cos(fresh)
    assert counters.resolutions == before + 1


@pytest.mark.parametrize("change", ["register", "prefer", "block", "default dtype", "unregister", "derivative"])
def test_plans_are_dropped_after_a_change(change: str) -> None:
    x = tp.zeros((2,), dtype="int32", device="meta")
    divided = tp.divide(x, x)
    before = counters.resolutions
    tp.divide(x, x)
    assert counters.resolutions == before
    if change == "register":
        registry = plugins.Registry()
        meta = Pattern("meta", "strided", "float32")
        registry.kernel("divide", lambda a, b: type(x._payload)(a.shape, tp.float32), args=(meta, meta))
        registry.commit()
    elif change == "prefer":
        plugins.prefer("__main__")
    elif change == "block":
        plugins.block("tripoint")
        with pytest.raises(PluginError, match="which is blocked"):
            tp.divide(x, x)
        plugins.unblock("tripoint")
        before = counters.resolutions
    elif change == "default dtype":
        tp.set_default_dtype("float64")
    elif change == "unregister":
        plugins.unregister(None)
    else:
        tp.plugin.derivative("floor_divide", args=("meta.strided", "meta.strided"), x1=lambda g: g)
    again = tp.divide(x, x)
    assert counters.resolutions == before + 1
    assert again.dtype is (tp.float64 if change == "default dtype" else tp.float32)
    assert divided.dtype is tp.float32


def test_a_derivative_stated_after_the_first_recorded_call_counts() -> None:
    @tp.plugin.composite(namespace="mylib", dtype=tp.rules.kept(), shape=tp.rules.same)
    def three(x: tp.Tensor, /) -> tp.Tensor:
        return x * 3

    x = tp.zeros((2,), device="meta").requires_grad_()
    assert [layer.name for layer in resolve(three, x).layers] == []  # recorded by its parts
    three(x)
    tp.plugin.derivative(three, x=lambda g: g)
    assert [layer.name for layer in resolve(three, x).layers] == ["autograd"]
    before = counters.resolutions
    three(x)
    assert counters.resolutions > before


# First results are checked ---------------------------------------------------------------------------------------------

_bad_results = [
    ("class", lambda x: "text", "returned a str; payloads on"),
    ("none", lambda x: None, "returned a NoneType"),
    ("tensor", lambda x: tp.zeros((2,), device="meta"), "returned a Tensor"),
    ("shape", lambda x: Tagged("", (3,), x.dtype), r"returned shape \(3,\); its shape rule says \(2,\)"),
    ("dtype", lambda x: Tagged("", x.shape, tp.float64), "returned tripoint.float64|returned float64"),
]


@pytest.mark.parametrize(("what", "fn", "words"), _bad_results, ids=[b[0] for b in _bad_results])
@pytest.mark.parametrize("recorded", [False, True])
def test_what_a_kernel_gives_first_is_checked(what: str, fn: Any, words: str, recorded: bool) -> None:
    toy = _place(Device("badres"))
    toy.kernels(exp=fn)
    register(toy)
    x = tp.zeros((2,), device="badres")
    if recorded:
        x.requires_grad_()
    for _ in range(2):  # the plan of a call that failed is not kept
        with pytest.raises(PluginError, match=words) as caught:
            tp.exp(x)
        assert "test_dispatch.py:" in str(caught.value)


def test_results_are_checked_beneath_in_place_forms_views_and_conversions() -> None:
    toy = _place(Device("badres2"), aliases=lambda out, x: out.trail == x.trail)
    toy.kernels(
        add=lambda a, b: None,
        assign_=lambda a, b: None,
        reshape=lambda x, *, shape, copy: None,
        astype=lambda x, *, target: Tagged("", x.shape, tp.int8),
        expand_dims=lambda x, *, axis: Tagged("", (9, 9), x.dtype),
    )
    toy.to("meta.strided")(lambda x: 3)
    register(toy)
    x = tp.zeros((2,), device="badres2")
    with pytest.raises(PluginError, match="NoneType"):
        x += x
    with pytest.raises(PluginError, match="NoneType"):
        tp.reshape(x, (2, 1))
    with pytest.raises(PluginError, match="int8"):
        x.astype("float64")
    with pytest.raises(PluginError, match=r"\(9, 9\)"):
        tp.expand_dims(x, axis=0)
    with pytest.raises(PluginError, match="returned a int"):
        x.to("meta")


def test_what_a_backends_own_functions_raise_is_a_plugin_error() -> None:
    def boom(*args: Any) -> Any:
        raise RuntimeError("kaputt")

    toy = _place(Device("boomdesc"), describe=boom)
    register(toy)
    with pytest.raises(PluginError, match=r"describe.*kaputt") as caught:
        tp.zeros((2,), device="boomdesc")
    assert isinstance(caught.value.__cause__, RuntimeError)
    register(_place(Device("boomcur", indexed=True), current=boom))
    with pytest.raises(PluginError, match=r"current.*kaputt"):
        tp.zeros((2,), device="boomcur")
    assert tp.zeros((2,), device="boomcur:1").device is Device("boomcur", 1)
    made = _place(Device("boomfac"))
    made.factory(boom)
    register(made)
    x = tp.zeros((2,), device="boomfac")  # which has a kernel: the factory is not asked
    with pytest.raises(PluginError, match=r"factory\(sin\).*kaputt"):
        tp.sin(x)


def test_what_a_kernel_raises_arrives_with_a_note_and_not_as_a_look_up_error() -> None:
    toy = _place(Device("raises"))

    def lost(x: Tagged) -> Tagged:
        raise KeyError("mine")

    toy.kernels(exp=lost)
    register(toy)
    x = tp.zeros((2,), device="raises")
    for _ in range(2):
        with pytest.raises(KeyError, match="mine") as caught:
            tp.exp(x)
        assert any("kernel lost" in note for note in caught.value.__notes__)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_kernels_error_is_worded_by_the_rows_own_check() -> None:
    toy = _place(Device("worded2"))

    def clumsy(a: Tagged, b: Tagged) -> Tagged:
        raise RuntimeError("cryptic text of a native library")

    toy.kernels(add=clumsy)
    register(toy)
    a, b = tp.zeros((2,), device="worded2"), tp.zeros((3,), device="worded2")
    with pytest.raises(tp.errors.ShapeError, match=r"\(2,\) and \(3,\) do not broadcast"):
        a + b
    with pytest.raises(RuntimeError, match="cryptic"):
        a + a


# Conversions -----------------------------------------------------------------------------------------------------------


def _world() -> tuple[Layout, Layout, DType]:
    """Two devices, a layout on each, an opaque dtype on the host; the host is a device of its own."""
    ragged, tiled, odd = Layout("wragged"), Layout("wtiled"), DType("wodd", plain=tp.float32)
    host, vault = _place(Device("whost")), _place(Device("wvault"))
    host.kernel("astype")(_step("cast"))
    vault.to("whost.strided")(_step("down"))
    vault.from_("whost.strided")(_step("up"))
    on_host = _place("whost", ragged)
    on_host.to("whost.strided")(_step("pad"))
    on_host.from_("whost.strided")(_step("unpad"))
    on_vault = _place("wvault", tiled)
    on_vault.to("wvault.strided")(_step("untile"))
    on_vault.from_("wvault.strided")(_step("tile"))
    quant = _place("whost", strided, odd)
    quant.to("whost.strided.float32")(_step("dequantize"))
    for backend in (host, vault, on_host, on_vault, quant):
        register(backend)
    return ragged, tiled, odd


def test_conversions_go_from_device_to_host_to_layout_in_the_fewest_steps() -> None:
    ragged, tiled, odd = _world()
    x = tp.zeros((2,), device="wvault")
    t = tp.zeros((2,), device="wvault", layout=tiled)
    r = tp.zeros((2,), device="whost", layout=ragged)
    q = tp.zeros((2,), device="whost", dtype=odd)
    cases: list[tuple[tp.Tensor, dict[str, Any], str]] = [
        (x, {"device": "whost"}, ">down"),
        (t, {"layout": "strided"}, ">untile"),
        (t, {"device": "whost", "layout": "strided"}, ">untile>down"),
        (r, {"device": "wvault", "layout": "strided"}, ">pad>up"),
        (r, {"device": "wvault", "layout": tiled}, ">pad>up>tile"),
        (r, {"dtype": "float64", "layout": "strided"}, ">pad>cast"),
        (q, {"dtype": "float32"}, ">dequantize"),
        (q, {"dtype": "float16"}, ">dequantize>cast"),
        (q, {"dtype": "float32", "layout": ragged}, ">dequantize>unpad"),
        (q, {"dtype": "float64", "layout": ragged}, ">dequantize>cast>unpad"),
    ]
    for source, target, trail in cases:
        assert len(resolve(tp.to, source, **target).steps) == trail.count(">")
        out = tp.to(source, **target)
        assert out._payload.trail == trail
        assert (out.device.type, out.layout, out.dtype) == (
            target.get("device", source.device.type),
            strided if target.get("layout") == "strided" else target.get("layout", source.layout),
            tp.dtypes.as_dtype(target.get("dtype", source.dtype)),
        )


def test_four_steps_are_no_way_and_parameters_are_not_guessed() -> None:
    ragged, tiled, odd = _world()
    r = tp.zeros((2,), device="whost", layout=ragged)
    q = tp.zeros((2,), device="whost", dtype=odd)
    with pytest.raises(NoKernelError, match=r"target: wvault\.wtiled\.float64"):
        r.to(device="wvault", layout=tiled, dtype="float64")
    with pytest.raises(tp.errors.DTypeError, match="parameters"):
        tp.zeros((2,), device="whost").to(dtype=odd)
    assert q.to(dtype=odd) is q


def test_a_direct_conversion_beats_a_detour_and_nothing_beats_doing_nothing() -> None:
    tiled = _world()[1]
    direct = Backend("wvault", tiled, payload=Tagged)
    direct.to("whost.strided")(_step("direct"))
    registry = plugins.Registry()
    registry.kernel("to", _step("direct"), args=(direct.patterns[0], Pattern("whost", "strided")))
    registry.commit()
    t = tp.zeros((2,), device="wvault", layout=tiled)
    assert t.to(device="whost", layout="strided")._payload.trail == ">direct"
    assert t.to(device="wvault") is t
    with pytest.raises(tp.errors.AliasError, match="copy=False"):
        t.to(device="whost", layout="strided", copy=False)
    with pytest.raises(NoKernelError, match="copy"):
        t.to(device="wvault", copy=True)  # nobody wrote a copy here


def test_a_detour_loads_whoever_provides_the_points_on_its_way(run_program: Any, write_distribution: Any) -> None:
    module = """
    from tripoint.plugin import Backend, Device, strided
    class P:
        def __init__(self, shape): self.shape = shape
    backend = Backend(Device("{name}"), strided, payload=P)
    backend.kernel("zeros")(lambda *, shape: P(shape))
    """
    site = write_distribution(
        "source-dev",
        "[tripoint.backends.v1]\nsource.strided = source_dev:backend\n",
        source_dev=module.format(name="source")
        + """
    import array
    @backend.to("cpu.strided")
    def down(x):
        import numpy
        return numpy.ones(x.shape, numpy.float32)
    """,
    )
    write_distribution(
        "sink-dev",
        "[tripoint.backends.v1]\nsink.strided = sink_dev:backend\n",
        sink_dev=module.format(name="sink") + '\n    backend.from_("cpu.strided")(lambda x: P(x.shape))\n',
    )
    out = run_program(
        """
        import sys, tripoint as tp
        x = tp.zeros((2,), device="source")
        print("tripoint_dense_cpu" in sys.modules)
        print(x.to("sink").device, "tripoint_dense_cpu" in sys.modules)
        """,
        site=site,
    )
    assert out.splitlines() == ["False", "sink True"]


def test_mixed_devices_are_named_per_argument() -> None:
    register(_place(Device("elsewhere")))
    with pytest.raises(DeviceError, match="argument x1: meta, argument x2: elsewhere"):
        tp.zeros((2,), device="meta") + tp.zeros((2,), device="elsewhere")


# Threads ---------------------------------------------------------------------------------------------------------------


def test_a_thread_waits_for_derivatives_that_another_is_loading(run_program: Any) -> None:
    out = run_program(
        """
        import sys, threading, tripoint as tp
        entered, go, found = threading.Event(), threading.Event(), []
        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "tripoint.derivatives.reductions":
                    entered.set()
                    go.wait(30)
        sys.meta_path.insert(0, Slow())
        def work():
            try:
                w = tp.ones((3,), device="meta").requires_grad_()
                (w * w).sum().backward()
                found.append(w.grad.shape)
            except BaseException as error:
                found.append(error)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        threads[0].start()
        entered.wait(30)
        threads[1].start()
        threads[1].join(0.5)  # time enough to go on without the derivatives
        go.set()
        for t in threads: t.join(30)
        print(found)
        """
    )
    assert out == "[(3,), (3,)]\n"


def test_sixteen_threads_touch_one_device_first(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "slow-vault",
        """
        [tripoint.backends.v1]
        vault.strided = slow_vault:backend
        """,
        slow_vault="""
        import time
        time.sleep(0.3)
        from tripoint.plugin import Backend, Device, strided, derivative
        class P:
            def __init__(self, shape): self.shape = shape
        backend = Backend(Device("vault"), strided, payload=P)
        @backend.kernel("zeros")
        def zeros(*, shape): return P(shape)
        backend.kernels(exp=lambda x: P(x.shape))
        """,
    )
    out = run_program(
        """
        import threading, tripoint as tp
        from tripoint import kernels
        barrier, errors, made = threading.Barrier(16), [], []
        def touch():
            barrier.wait()
            try:
                made.append(tp.exp(tp.zeros((2,), device="vault")))
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=touch, daemon=True) for _ in range(16)]
        for t in threads: t.start()
        for t in threads: t.join(30)
        print(any(t.is_alive() for t in threads), errors, len(made), len({m._key for m in made}))
        print(len([p for p in kernels.points if p.pattern.device == "vault"]))
        for op in ("zeros", "exp"):
            print(op, len([k for k in kernels.kernels[op] if k.origin.distribution == "slow-vault"]))
        """,
        site=site,
    )
    assert out.splitlines() == ["False [] 16 1", "1", "zeros 1", "exp 1"]


def test_readers_see_a_device_whole_or_not_at_all() -> None:
    """Threads that call while backends come and go get a result or a typed error, and the right one in the end."""
    stop = threading.Event()
    strange: list[BaseException] = []

    def read() -> None:
        while not stop.is_set():
            try:
                tp.exp(tp.zeros((2,), device="flicker"))
            except (DeviceError, NoKernelError, PluginError, tp.errors.LayoutError):
                pass
            except BaseException as error:
                strange.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for t in threads:
        t.start()
    try:
        for _ in range(60):
            toy = _place(Device("flicker"))
            toy.kernels(exp=lambda x: Tagged("", x.shape, x.dtype))
            register(toy)
            assert tp.exp(tp.zeros((2,), device="flicker")).shape == (2,)
            plugins.unregister(None)
            with pytest.raises(DeviceError):
                tp.zeros((2,), device="flicker")
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert strange == []


def test_what_is_looked_up_during_a_change_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that found no point in the old tables must not leave that answer behind for the new ones."""
    toy = _place(Device("midway"))
    key = tp.keys.intern(Device("midway"), strided, tp.float32)

    class Registering(list):  # type: ignore[type-arg]
        """The old table of points, which changes while it is read."""

        def __iter__(self) -> Any:
            old = list(super().__iter__())
            monkeypatch.setattr(kernels, "points", old)
            register(toy)
            return iter(old[:-1] if old and old[-1].pattern.device == "midway" else old)

    real = kernels.points
    monkeypatch.setattr(kernels, "points", Registering(real))
    assert kernels.find_point(key) is None
    assert kernels.find_point(key) is not None
    real[:] = kernels.points
    monkeypatch.setattr(kernels, "points", real)


# Ownership -------------------------------------------------------------------------------------------------------------

_HOST = """
from tripoint.plugin import Backend, Device, strided
import tripoint as tp
class P:
    def __init__(self, shape, by=""):
        self.shape, self.by = shape, by
backend = Backend(Device("home"), strided, payload=P)
@backend.kernel("zeros")
def zeros(*, shape): return P(shape, "zeros")
@backend.kernel("exp")
def exp(x): return P(x.shape, "owner")
"""
_GUEST = """
from home_plugin import P
from tripoint.plugin import Backend, Device, Pattern, strided
backend = Backend({device}, strided, payload=P)
@backend.kernel("exp", args=({pattern},))
def fast_exp(x): return P(x.shape, "guest")
"""


def _home(write_distribution: Any) -> Path:
    return write_distribution(
        "home-plugin", "[tripoint.backends.v1]\nhome.strided = home_plugin:backend\n", home_plugin=_HOST
    )


def test_kernels_on_points_of_others_are_refused_and_pointed_to_their_group(
    run_program: Any, write_distribution: Any
) -> None:
    site = _home(write_distribution)
    write_distribution(
        "squatter",
        "[tripoint.backends.v1]\nshed.strided = squatter:backend\n",
        squatter=_GUEST.format(device='Device("shed")', pattern='"home.strided"'),
    )
    out = run_program(
        """
        import tripoint as tp
        x = tp.zeros((2,), device="home")
        print(tp.exp(x)._payload.by)
        try:
            tp.zeros((2,), device="shed")
        except tp.errors.PluginError as error:
            print(error)
        print(tp.exp(x)._payload.by, "shed" in tp.plugins.known_devices)
        """,
        site=site,
    )
    first, *error, last = out.splitlines()
    assert (first, last) == ("owner", "owner False")
    assert "squatter 1.0" in " ".join(error)
    assert "tripoint.kernels.v1" in " ".join(error)


def test_a_wide_pattern_of_another_plugin_stays_out_of_calls_on_points_that_it_does_not_own(
    run_program: Any, write_distribution: Any
) -> None:
    site = _home(write_distribution)
    write_distribution(
        "wide-one",
        "[tripoint.backends.v1]\nshed.strided = wide_one:backend\n",
        wide_one=_GUEST.format(device='Device("shed")', pattern='Pattern("*", "strided", "float32")')
        + "\n@backend.kernel('zeros')\ndef zeros(*, shape): return P(shape, 'shed')\n"
        + "backend.derivative('exp', x=lambda g: None)\n",
    )
    out = run_program(
        """
        import tripoint as tp
        shed = tp.zeros((2,), device="shed")
        home = tp.zeros((2,), device="home")
        print(tp.exp(shed)._payload.by, tp.exp(home)._payload.by)
        from tripoint import derivatives, kernels
        print(kernels.select_derivative("exp", (home._key,), (0,))[0].origin.distribution)
        print(len(kernels.select_derivative("exp", (shed._key,), (0,))[1]))
        """,
        site=site,
    )
    # The derivative ties with the core's on the plugin's own points, and there alone.
    assert out.splitlines() == ["guest owner", "tripoint", "2"]


def test_kernels_for_points_of_others_load_when_preferred(run_program: Any, write_distribution: Any) -> None:
    site = _home(write_distribution)
    write_distribution(
        "fast-home",
        "[tripoint.kernels.v1]\nhome.strided = fast_home:backend\n",
        version="2.5",
        fast_home=_GUEST.format(device='"home"', pattern="strided") + "print('loaded')\n",
    )
    program = """
        import tripoint as tp
        x = tp.zeros((2,), device="home")
        print(tp.exp(x)._payload.by)
        if {prefer}: tp.plugins.prefer("fast-home")
        print(tp.exp(x)._payload.by)
        if {prefer}: tp.plugins.prefer("home-plugin")
        print(tp.exp(x)._payload.by)
        print(tp.plugins.report().count("fast-home 2.5: loaded"))
        """
    assert run_program(program.format(prefer=True), site=site).split() == ["owner", "loaded", "guest", "owner", "1"]
    assert run_program(program.format(prefer=False), site=site).split() == ["owner", "owner", "owner", "0"]
    env = {"TRIPOINT_PREFER": "fast_home"}
    assert run_program(program.format(prefer=False), site=site, env=env).split() == [
        "loaded",
        "guest",
        "guest",
        "guest",
        "1",
    ]


def test_two_owners_of_one_point_are_named_until_one_is_preferred(run_program: Any, write_distribution: Any) -> None:
    site = _home(write_distribution)
    write_distribution(
        "second-home",
        "[tripoint.backends.v1]\nhome.strided = second_home:backend\n",
        version="3.1",
        second_home=_HOST.replace('"owner"', '"second"'),
    )
    out = run_program(
        """
        import tripoint as tp
        try:
            tp.zeros((2,), device="home")
        except tp.errors.AmbiguousKernelError as error:
            print(error)
        tp.plugins.prefer("second-home")
        print(tp.exp(tp.zeros((2,), device="home"))._payload.by)
        tp.plugins.prefer("home-plugin")
        print(tp.exp(tp.zeros((2,), device="home"))._payload.by)
        """,
        site=site,
    )
    *error, second, first = out.splitlines()
    text = " ".join(error)
    assert "home-plugin 1.0" in text
    assert "second-home 3.1" in text
    assert "prefer(" in text
    assert (second, first) == ("second", "owner")


def test_load_order_does_not_decide(run_program: Any, write_distribution: Any) -> None:
    site = _home(write_distribution)
    write_distribution(
        "bridge",
        "[tripoint.backends.v1]\nshed.strided = bridge:backend\n",
        bridge="""
        from home_plugin import P
        from tripoint.plugin import Backend, Device, strided
        backend = Backend(Device("shed"), strided, payload=P)
        @backend.kernel("zeros")
        def zeros(*, shape): return P(shape, "shed")
        backend.kernel("add", args=("home.strided", "home.strided"))(lambda a, b: P(a.shape, "smuggled"))
        mixed = ("shed.strided", "home.strided")
        backend.kernel("add", args=mixed, out=lambda keys: keys[0].base)(lambda a, b: P(a.shape, "own"))
        """,
    )
    program = """
        import tripoint as tp
        {first}
        home = tp.zeros((2,), device="home")
        try:
            print((home + home)._payload.by)
        except tp.errors.NoKernelError:
            print("none")
        """
    got = {
        run_program(program.format(first=first), site=site)
        for first in ("", 'tp.plugins.load(tp.plugins.found()["bridge"])')
    }
    assert got == {"none\n"}
