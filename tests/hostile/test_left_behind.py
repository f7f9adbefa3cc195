"""What a plugin leaves behind: nothing that failed halfway, no scope, no mark of an interrupt, no end of the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., None]
Run = Callable[..., str]

TOY = """
from tripoint.plugin import Backend, Device, Layer, composite, derivative, hookimpl, register, strided
import tripoint as tp
class P:
    def __init__(self, shape): self.shape = shape
backend = Backend(Device("toy"), strided, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
@backend.kernel("exp")
def exp(x):
    return P(x.shape)
"""
POINT = "[tripoint.backends.v1]\ntoy.strided = toy_plugin:backend\n"
PROGRAM = """
import tripoint as tp
import tripoint.derivatives
from tripoint.schema import rows
tp.exp(tp.zeros((1,), device="meta"))
def tables():
    return [copy for _, copy in tp.plugins.snapshot()], dict(rows), sorted(vars(tp.Tensor))
def tried(call):
    try:
        return call()
    except tp.errors.TripointError as error:
        return f"{type(error).__name__}: {error}"
def use():
    return tp.exp(tp.zeros((2,), device="toy")).shape
def records():
    x = tp.asarray([1.0]).requires_grad_()
    return (x * 2).requires_grad
"""


def _install(write: Write, site: Path, module: str, points: str = POINT, **options: str) -> None:
    write(site, "toy-plugin", points, toy_plugin=module, **options)


# Scopes ---------------------------------------------------------------------------------------------------------------

OPEN = "tp.no_grad().__enter__()\n"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (TOY + OPEN, "(2,)"),
        (
            TOY + OPEN + "raise RuntimeError('half way')\n",
            "PluginError: the device 'toy' is provided by toy-plugin 1.0",
        ),
        (
            TOY + "class Hook(Backend):\n    @hookimpl\n    def tripoint_register(self, registry):\n"
            "        whole.tripoint_register(registry)\n        tp.no_grad().__enter__()\n"
            "whole, backend = backend, Hook(Device('toy'), strided, payload=P)\n",
            "(2,)",
        ),
        (TOY + "backend.probe(lambda: tp.no_grad().__enter__() and None)\n", "(2,)"),
        (TOY + "backend.memory_stats(lambda: tp.no_grad().__enter__() and None)\n", "(2,)"),
        (
            TOY.replace("payload=P)", "payload=P, describe=lambda p: tp.no_grad().__enter__() and {})"),
            "(2,)",
        ),
    ],
    ids=["import", "import that fails", "registration", "probe", "memory", "description"],
)
def test_a_scope_that_a_plugin_leaves_open_ends_with_its_code(
    module: str, said: str, write: Write, run: Run, tmp_path: Path
) -> None:
    _install(write, tmp_path, module)
    out = run(
        PROGRAM
        + """
print(tried(use))
tried(lambda: tp.memory.stats("toy"))
print(records(), tp.modes.get_mode() is tp.modes.DEFAULT, tp.modes._entries.get())
with tp.no_grad():
    tried(use)
    print(records())
print(records())
""",
        tmp_path,
    )
    first, *rest = out.splitlines()
    assert first.startswith(said)
    assert rest == ["True True ()", "False", "True"]


def test_a_plugin_is_imported_outside_of_the_scopes_around_the_call(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "import tripoint as tp\nmode = tp.modes.get_mode()\n" + TOY)
    out = run(
        PROGRAM
        + """
with tp.no_grad(), tp.device("meta"), tp.checked():
    print(use())
    import toy_plugin
print(toy_plugin.mode is tp.modes.DEFAULT)
""",
        tmp_path,
    )
    assert out.splitlines() == ["(2,)", "True"]


def test_a_kernel_that_leaves_a_scope_open_is_named(write: Write, run: Run, tmp_path: Path) -> None:
    after = """
calls = []
@backend.kernel("sin")
def sin(x):
    calls.append(x)
    if len(calls) != 1: tp.no_grad().__enter__()  # not in the call that every plan is checked by
    return P(x.shape)
@backend.kernel("cos")
def cos(x):
    tp.no_grad().__enter__()
    raise OSError("gone")
backend.kernel("add_")(lambda x, y: tp.no_grad().__enter__() and None)
"""
    _install(
        write, tmp_path, TOY.replace("return P(x.shape)", "tp.no_grad().__enter__()\n    return P(x.shape)") + after
    )
    out = run(
        PROGRAM
        + """
x = tp.zeros((2,), device="toy")
for _ in range(2): print(tried(lambda: tp.exp(x)), records())
print(tried(lambda: x.__iadd__(x)), records())
try:
    tp.cos(x)
except OSError as error:
    print(error, records())
print(tp.sin(x).shape)
with tp.checked():
    print(tried(lambda: tp.sin(x)), records())
print(records())
""",
        tmp_path,
    )
    first, second, inplace, raised, fine, checked, after_all = out.splitlines()
    for line in (first, second):
        assert line.startswith("PluginError: exp from toy-plugin 1.0 at toy_plugin.py:")
        assert "exp left a scope open, such as no_grad()" in line
        assert line.endswith(" True")
    assert inplace.startswith("PluginError: <lambda> of add_ from toy-plugin 1.0 at toy_plugin.py:")
    assert "add_ left a scope open" in inplace
    assert inplace.endswith(" True")
    assert raised == "gone True"
    assert fine == "(2,)"
    assert checked.startswith("PluginError: sin from toy-plugin 1.0 at toy_plugin.py:")
    assert checked.endswith(" True")
    assert after_all == "True"


# What fails halfway ---------------------------------------------------------------------------------------------------

HALF = """
@composite(namespace="toy")
def stated(x: tp.Tensor, /) -> tp.Tensor:
    return x
derivative(stated, x=lambda g: g)
derivative("sin", args=("cpu.strided",), x=lambda g: g * 1000)
register(backend)
import os
if "BREAK" in os.environ: raise SystemExit("half way")
paint = "red"
class Glaze(Layer, below="trace"): pass
"""
OTHERS = "[tripoint.names.v1]\npaint = toy_plugin:paint\n[tripoint.layers.v1]\nglaze = toy_plugin:Glaze\n"


@pytest.mark.parametrize("get", ["tp.paint", "tp.plugins.layer('glaze').name"])
def test_a_module_of_names_or_layers_that_fails_halfway(get: str, write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, TOY + HALF, points=OTHERS)
    out = run(
        PROGRAM
        + f"""
import os
before = tables()
os.environ["BREAK"] = "1"
for _ in range(2): print(tried(lambda: {get}))
plugin = tp.plugins.found()["toy-plugin"]
print(tables() == before, plugin.state, plugin.loading, plugin.stated, "toy" in tp.plugins.device_names())
del os.environ["BREAK"]
tp.plugins.unblock("toy-plugin")
print(tried(lambda: {get}), plugin.state, plugin.error)
print(use(), "toy::stated" in rows, len([p for p in tp.kernels.points if p.pattern.device == "toy"]))
tp.plugins.block("toy-plugin")
print(tables()[0] == before[0])
""",
        tmp_path,
    )
    first, second, clean, again, works, gone = out.splitlines()
    assert first == second
    assert "is provided by toy-plugin 1.0, which failed to load: SystemExit: half way" in first
    assert clean == "True broken [] [] False"
    assert again in ("red loaded None", "Glaze loaded None")
    assert works == "(2,) True 1"
    assert gone == "True"


def test_what_works_of_a_plugin_goes_on_when_another_module_of_it_fails(write: Write, run: Run, tmp_path: Path) -> None:
    points = (
        POINT + "[tripoint.names.v1]\npaint = toy_more:paint\n[tripoint.kernels.v1]\nmeta.strided = toy_more:paint\n"
    )
    _install(write, tmp_path, TOY, points=points, toy_more=TOY.replace('"toy"', '"more"') + HALF)
    out = run(
        PROGRAM
        + """
import os
os.environ["BREAK"] = "1"
print(use())
before = tables()
for call in (lambda: tp.paint, lambda: tp.plugins.prefer("toy-plugin")):
    print(tried(call)[:30], tables() == before, use(), tp.plugins.found()["toy-plugin"].state)
del os.environ["BREAK"]
print(tried(lambda: tp.paint), "toy::stated" in rows)
""",
        tmp_path,
    )
    assert out.splitlines() == [
        "(2,)",
        "PluginNameError: tripoint.pain True (2,) loaded",
        "PluginError: what prefer('toy- True (2,) loaded",
        "red True",
    ]


def test_a_module_of_names_that_uses_what_it_provides(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "import tripoint as tp\ntp.paint\npaint = 1\n", points=OTHERS)
    out = run(PROGRAM + "print(tried(lambda: tp.paint))", tmp_path)
    assert "toy-plugin 1.0 uses what it provides while it is being loaded" in out


# Interrupts -----------------------------------------------------------------------------------------------------------


def test_an_interrupt_at_any_line_of_a_load_leaves_all_or_nothing(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, TOY + "derivative('sin', args=('toy.strided',), x=lambda g: g)\n")
    out = run(
        PROGRAM
        + """
import collections, os, sys
room = os.path.dirname(tp.plugins.__file__)
plugin = tp.plugins.found()["toy-plugin"]
use()
whole = tables()[0]
def fresh():
    tp.plugins.unregister("toy-plugin"); sys.modules.pop("toy_plugin", None)
    plugin.stated = []; plugin.loading.clear()
fresh()
nothing = tables()[0]
def names(tables):
    out = []
    for table in tables:
        groups = table.values() if isinstance(table, dict) else [tuple(table)]
        entries = [e for group in groups for e in (group if isinstance(group, tuple) else (group,))]
        out.append(sorted(str(getattr(e, "origin", e[1:] if isinstance(e, tuple) else e)) for e in entries))
    return out
whole, nothing = names(whole), names(nothing)
seen, at = collections.Counter(), 0
while True:
    at += 1
    count = iter(range(1, 10**6))
    def stop(frame, event, _):
        if not frame.f_code.co_filename.startswith(room): return None
        if event == "line" and next(count) == at: raise KeyboardInterrupt
        return stop
    fresh()
    sys.settrace(stop)
    try:
        tp.plugins.load(plugin); stopped = False
    except KeyboardInterrupt:
        stopped = True
    finally:
        sys.settrace(None)
    now = names(tables()[0])
    state = "whole" if now == whole else "nothing" if now == nothing else "part"
    seen[state, plugin.state, tp.plugins.discovery.loading_here(), tried(use) == (2,), names(tables()[0]) == whole] += 1
    if not stopped: break
print(sorted(seen), at > 100)
""",
        tmp_path,
    )
    assert out == "[('nothing', 'found', (), True, True), ('whole', 'loaded', (), True, True)] True\n"


def test_what_a_signal_handler_of_the_program_raises_is_the_programs(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n" + TOY)
    program = """
import signal, sys
def leave(*_): raise SystemExit(7)
class Late(Exception): pass
def late(*_): raise Late
plugin, before = tp.plugins.found()["toy-plugin"], tables()
for handler, kind in ((leave, SystemExit), (late, Late)):
    signal.signal(signal.SIGTERM, handler)
    try:
        tp.plugins.findings(load_all=True)
    except kind:
        print(kind.__name__, plugin.state, plugin.error, tables() == before)
signal.signal(signal.SIGTERM, lambda *_: None)
print(use())
"""
    # Other plugins are loaded on the way and stay, so only this one is asked for.
    program = program.replace("tp.plugins.findings(load_all=True)", "tp.plugins.load(plugin)")
    assert run(PROGRAM + program, tmp_path).splitlines() == [
        "SystemExit found None True",
        "Late found None True",
        "(2,)",
    ]


def test_an_interrupt_at_any_line_of_taking_back_leaves_all_or_nothing(write: Write, run: Run, tmp_path: Path) -> None:
    stated = """
@composite(namespace="toy")
def stated(x: tp.Tensor, /) -> tp.Tensor:
    return x
derivative(stated, x=lambda g: g)
"""
    _install(write, tmp_path, TOY + stated)
    out = run(
        PROGRAM
        + """
import collections, os, sys
room = os.path.dirname(tp.plugins.__file__)
plugin = tp.plugins.found()["toy-plugin"]
def now():
    state, operators, attributes = tables()
    out = [sorted(operators), attributes]
    for table in state:
        groups = table.values() if isinstance(table, dict) else [tuple(table)]
        entries = [e for group in groups for e in (group if isinstance(group, tuple) else (group,))]
        out.append(sorted(str(getattr(e, "origin", e[1:] if isinstance(e, tuple) else e)) for e in entries))
    return out
nothing = now()
use()
whole = now()
seen, at = collections.Counter(), 0
while True:
    at += 1
    count = iter(range(1, 10**6))
    def stop(frame, event, _):
        if not frame.f_code.co_filename.startswith(room): return None
        if event == "line" and next(count) == at: raise KeyboardInterrupt
        return stop
    use()
    assert now() == whole
    sys.settrace(stop)
    try:
        tp.plugins.unregister("toy-plugin"); stopped = False
    except KeyboardInterrupt:
        stopped = True
    finally:
        sys.settrace(None)
    have = now()
    state = "whole" if have == whole else "nothing" if have == nothing else "part"
    seen[state, plugin.state, use() == (2,), now() == whole] += 1
    if not stopped: break
print(sorted(seen), at > 100)
""",
        tmp_path,
    )
    assert out == "[('nothing', 'found', True, True), ('whole', 'loaded', True, True)] True\n"


CODE = """
import os, signal
def alarm(*given, **words): os.kill(os.getpid(), signal.SIGTERM); return given[0]
backend.kernel("sin")(lambda x: alarm(x))
backend.kernel("add_")(lambda x, y: alarm(x))
backend.to("cpu.strided")(lambda x: alarm(x))
backend.kernels(ones=lambda *, shape: P(shape), multiply=lambda a, b: a)
backend.derivative("exp", args=("toy.strided",), x=lambda g: alarm(g))
class Loud(Layer, below="trace"):
    def __call__(self, op, call_next, args, meta): return alarm(call_next(args, meta))
@composite(namespace="toy")
def parts(x: tp.Tensor, /) -> tp.Tensor:
    return alarm(x)
"""
USES = {
    "kernel": "tp.sin(x)",
    "write": "x.__iadd__(x)",
    "conversion": "x.to('cpu')",
    "derivative": "tp.exp(w).backward(tp.ones((2,), device='toy'))",
    "layer": "within(toy_plugin.Loud(), lambda: tp.exp(x))",
    "operator": "toy_plugin.parts(x)",
    "attribute": "x.shape",
}


@pytest.mark.parametrize("raised", ["SystemExit(7)", "KeyboardInterrupt"])
def test_what_a_signal_handler_raises_within_a_call_is_the_programs(
    raised: str, write: Write, run: Run, tmp_path: Path
) -> None:
    shape = "def __init__(self, shape): self.size, self.loud = shape, False\n    @property\n    def shape(self):\n"
    shape += "        return alarm(self.size) if self.loud else self.size"
    module = TOY.replace("def __init__(self, shape): self.shape = shape", shape) + CODE
    _install(write, tmp_path, module)
    program = f"""
import signal
def leave(*_): raise {raised}
signal.signal(signal.SIGTERM, leave)
def within(layer, call):
    with layer: return call()
x = tp.zeros((2,), device="toy")
w = tp.zeros((2,), device="toy").requires_grad_()
import toy_plugin
calls = {{{", ".join(f"{what!r}: lambda: {text}" for what, text in USES.items())}}}
for what, call in calls.items():
    x._payload.loud = what == "attribute"
    for _ in range(2):  # the call that is checked, and the next
        try:
            print(what, call())
        except BaseException as error:
            print(what, repr(error), error.__cause__)
"""
    said = raised if "(" in raised else f"{raised}()"
    assert run(PROGRAM + program, tmp_path).splitlines() == [f"{what} {said} None" for what in USES for _ in range(2)]


def test_what_ends_the_program_is_its_own_where_its_own_code_raises_it(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, TOY + CODE)
    program = """
from tripoint.plugin import Backend, Device, Layer, composite, derivative, register, strided
class P:
    def __init__(self, shape): self.shape = shape
mine = Backend(Device("mine"), strided, payload=P)
mine.kernels(zeros=lambda *, shape: P(shape), exp=lambda x: exit(3))
register(mine)
class Stop(Layer, below="trace"):
    def __call__(self, op, call_next, args, meta): exit(4)
class Through(Layer, below="trace"):
    def __call__(self, op, call_next, args, meta): return call_next(args, meta)
@composite(namespace="mine")
def parts(x: tp.Tensor, /) -> tp.Tensor:
    exit(5)
x, y = tp.zeros((2,), device="mine"), tp.zeros((2,), device="toy")
def within(layer, call):
    with layer: return call()
stopped, through = lambda: within(Stop(), lambda: tp.exp(y)), lambda: within(Through(), lambda: tp.exp(x))
for call in (lambda: tp.exp(x), stopped, through, lambda: parts(y)):
    try:
        call()
    except SystemExit as left:
        print(left.code)
"""
    assert run(PROGRAM + program, tmp_path).split() == ["3", "4", "3", "5"]


def test_what_a_signal_handler_of_the_plugin_raises_is_the_plugins(write: Write, run: Run, tmp_path: Path) -> None:
    handler = "import os, signal\ndef leave(*_): raise SystemExit(7)\nsignal.signal(signal.SIGTERM, leave)\n"
    _install(write, tmp_path, handler + "os.kill(os.getpid(), signal.SIGTERM)\nfor _ in range(9): pass\n" + TOY)
    out = run(PROGRAM + "print(tried(use)); print(tp.plugins.found()['toy-plugin'].state)", tmp_path)
    assert "failed to load: SystemExit: 7" in out
    assert out.endswith("broken\n")


def test_a_stack_that_the_program_has_filled_breaks_no_plugin(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, TOY)
    out = run(
        PROGRAM
        + """
import sys
def deep(n, call): return call() if n == 0 else deep(n - 1, call)
plugin, limit = tp.plugins.found()["toy-plugin"], sys.getrecursionlimit()
outcomes = set()
for n in range(limit - 200, limit - 20):
    tp.plugins.unregister("toy-plugin"); sys.modules.pop("toy_plugin", None); plugin.stated = []
    try:
        deep(n, use); outcomes.add("ok")
    except RecursionError:
        outcomes.add("full")
    if plugin.state == "broken" or use() != (2,):
        print(n, plugin.error)
print(sorted(outcomes))
""",
        tmp_path,
    )
    assert out == "['full', 'ok']\n"
