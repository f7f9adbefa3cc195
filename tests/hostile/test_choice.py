"""Where several plugins offer the same: never an arbitrary winner, and what the user says is honoured or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., None]
Run = Callable[..., str]

OWNER = """
from tripoint.plugin import Backend, Device, DType, Layout, composite, derivative, strided
import tripoint as tp
class P:
    def __init__(self, shape, by="zeros"): self.shape, self.by = shape, by
backend = Backend(Device("home"), strided, payload=P)
@backend.kernel("zeros")
def zeros(*, shape):
    return P(shape)
@backend.kernel("exp")
def exp_of_WHO(x):
    return P(x.shape, "WHO")
"""
POINT = "[tripoint.backends.v1]\nhome.strided = WHO_home:backend\n"
USE = """
import tripoint as tp
def use(call=lambda: tp.exp(tp.zeros((2,), device="home"))._payload.by):
    try:
        return call()
    except tp.errors.TripointError as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
"""


def _owner(write: Write, site: Path, who: str, *, version: str = "1.0", after: str = "", points: str = POINT) -> None:
    code = (OWNER + after).replace("WHO", who)
    write(site, f"{who}-home", points.replace("WHO", who), version=version, **{f"{who}_home": code})


@pytest.mark.parametrize("first", ["", "red-home", "blue-home"])
def test_two_owners_of_one_point_both_load_and_a_call_names_both(
    first: str, write: Write, run: Run, tmp_path: Path
) -> None:
    _owner(write, tmp_path, "red")
    _owner(write, tmp_path, "blue", version="2.5")
    load = f"tp.plugins.load(tp.plugins.found()[{first!r}])\n" if first else ""
    out = run(
        USE
        + load
        + """
print(use())
print({p.state for n, p in tp.plugins.found().items() if n.endswith("home")} == {"loaded"})
for overlap in tp.plugins.overlaps(): print(overlap.what, sorted(overlap.distributions), sorted(overlap.by), overlap.preferred)
print([(f.level, "prefer('red-home')" in f.remedy) for f in tp.plugins.findings()])
tp.plugins.prefer("blue-home")
print(use(), {o.preferred for o in tp.plugins.overlaps()}, {f.level for f in tp.plugins.findings()})
tp.plugins.prefer("red-home")
print(use(), len([p for p in tp.kernels.points if p.pattern.device == "home"]))
""",
        tmp_path,
    )
    error, both, *overlaps, found, blue, red = out.splitlines()
    assert error.startswith("AmbiguousKernelError: ")
    for words in ("red-home 1.0 at red_home.py:", "blue-home 2.5 at blue_home.py:", "tripoint.plugins.prefer("):
        assert words in error
    assert both == "True"
    names = "['blue-home', 'red-home']"
    origins = {line.partition(names)[0].strip() for line in overlaps}
    assert origins == {"kernels of zeros", "kernels of exp", "point home.strided.plain"}
    assert any("exp_of_blue from blue-home 2.5 at blue_home.py:10" in line for line in overlaps)
    assert "('error', True)" in found
    assert "note" not in found
    assert blue == "blue {'blue-home'} {'note'}"
    assert red == "red 2"


def test_a_preference_of_the_environment(write: Write, run: Run, tmp_path: Path) -> None:
    _owner(write, tmp_path, "red")
    _owner(write, tmp_path, "blue")
    for who in ("red", "blue"):
        assert run(USE + "print(use())", tmp_path, env={"TRIPOINT_PREFER": f"{who.upper()}_home"}) == f"{who}\n"
    # The running program is preferred by its name of Python's.
    own = """
from red_home import P
from tripoint.plugin import Backend, register, strided
mine = Backend("home", strided, payload=P)
mine.kernel("zeros")(lambda *, shape: P(shape))
mine.kernel("exp")(lambda x: P(x.shape, "mine"))
register(mine)
print(use())
"""
    assert run(USE + own, tmp_path, env={"TRIPOINT_PREFER": "red-home,__main__"}) == "mine\n"
    assert run(USE + own, tmp_path, env={"TRIPOINT_PREFER": "__main__,red-home"}) == "red\n"
    assert run(USE + own, tmp_path).startswith("AmbiguousKernelError")


def test_explain_says_who_stated_the_preference(write: Write, run: Run, tmp_path: Path) -> None:
    _owner(write, tmp_path, "red")
    _owner(write, tmp_path, "blue")
    fast = """
import tripoint as tp
from red_home import P
from tripoint.plugin import Backend, strided
backend = Backend("home", strided, payload=P)
backend.kernels_by_dtype(exp={tp.float32: lambda x: P(x.shape, "fast")})
"""
    write(tmp_path, "fast-home", "[tripoint.kernels.v1]\nhome.strided = fast_home:backend\n", fast_home=fast)
    program = """
why = lambda: print(tp.explain(tp.exp, tp.zeros((2,), device="home")).candidates[0].why)
why()
tp.plugins.prefer("fast_home")
why()
tp.plugins.prefer("blue-home")
why()
"""
    assert run(USE + program, tmp_path, env={"TRIPOINT_PREFER": "red-home,Fast_Home"}).splitlines() == [
        "preferred: TRIPOINT_PREFER names fast-home",
        "preferred: the program said tripoint.plugins.prefer('fast-home')",
        "preferred: the program said tripoint.plugins.prefer('blue-home')",
    ]


def test_identical_patterns_of_two_plugins_on_points_of_their_own(write: Write, run: Run, tmp_path: Path) -> None:
    mixed = """
pair = ("home.strided", "shed.strided")
backend.kernel("add", args=pair, out=lambda keys: keys[0].base)(lambda a, b: type(a)(a.shape, "WHO"))
"""
    _owner(write, tmp_path, "red", after=mixed)
    shed = (OWNER + mixed).replace('Device("home")', 'Device("shed")').replace("WHO", "blue")
    write(tmp_path, "blue-home", "[tripoint.backends.v1]\nshed.strided = blue_home:backend\n", blue_home=shed)
    out = run(
        USE
        + """
x, y = tp.zeros((2,), device="home"), tp.zeros((2,), device="shed")
add = lambda: (x + y)._payload.by
print(use(add))
print([(o.what, o.on) for o in tp.plugins.overlaps()])
tp.plugins.prefer("blue-home")
print(use(add), use(), tp.exp(y)._payload.by)
tp.plugins.block("blue-home")
print(use(add), use())
""",
        tmp_path,
    )
    error, overlaps, preferred, alone = out.splitlines()
    assert error.startswith("AmbiguousKernelError: add on home.strided.float32, shed.strided.float32")
    assert "red-home 1.0 at red_home.py:15" in error
    assert "blue-home 1.0 at blue_home.py:15" in error
    on = "'home.strided.plain, shed.strided.plain'"
    assert overlaps == f"[('kernels of add', ({on}, {on}))]"
    assert preferred == "blue red blue"
    assert alone == "red red"


@pytest.mark.parametrize("first", ["", "red-home", "blue-home"])
def test_two_things_of_one_name(first: str, write: Write, run: Run, tmp_path: Path) -> None:
    ragged = """
ragged = Layout("ragged", attributes={"lengths": lambda x: "WHO"})
backend = Backend("meta", ragged, payload=P)
@backend.kernel("zeros")
def zeros(*, shape):
    return P(shape, "WHO")
"""
    for who in ("red", "blue"):
        _owner(write, tmp_path, who, after=ragged, points="[tripoint.backends.v1]\nmeta.ragged = WHO_home:backend\n")
    load = f"tp.plugins.load(tp.plugins.found()[{first!r}])\n" if first else ""
    program = """
def make():
    x = tp.zeros((2,), device="meta", layout="ragged")
    return x._payload.by, x.lengths
print(use(make))
print(use(make))
tp.plugins.prefer("blue-home")
print(use(make), [o.preferred for o in tp.plugins.overlaps() if o.what.startswith("layout ")])
tp.plugins.prefer("red-home")
print(use(make))
tp.plugins.block("red-home")
print(use(make))
tp.plugins.unblock("red-home")
tp.plugins.preferred.clear(); tp.plugins.changed()
print(use(make))
"""
    first_use, second, blue, red, blocked, again = run(USE + load + program, tmp_path).splitlines()
    for text in (first_use, second, again):
        assert text.startswith("AmbiguousKernelError: ")
        assert "red-home 1.0" in text
        assert "blue-home 1.0" in text
        assert "tripoint.plugins.prefer(" in text
    assert blue == "('blue', 'blue') ['blue-home']"
    assert red == "('red', 'red')"
    assert blocked == "('blue', 'blue')"


def test_two_plugins_that_add_one_name_to_the_namespace(write: Write, run: Run, tmp_path: Path) -> None:
    for who in ("red", "blue"):
        points = f"[tripoint.names.v1]\npaint = {who}_names:paint\n[tripoint.layers.v1]\nglaze = {who}_names:Glaze\n"
        code = f"from tripoint.plugin import Layer\npaint = '{who}'\nclass Glaze(Layer, below='trace'): who = paint\n"
        write(tmp_path, f"{who}-names", points, **{f"{who}_names": code})
    out = run(
        USE
        + """
for get in (lambda: tp.paint, lambda: tp.plugins.layer("glaze").who):
    print(use(get))
    tp.plugins.prefer("blue-names")
    print(use(get))
    tp.plugins.preferred.clear(); tp.plugins.changed()
print(use(lambda: tp.plugins.layer("varnish")), tp.plugins.layers())
""",
        tmp_path,
    )
    name, blue, layer, layer_blue, none = out.splitlines()
    for text, what in ((name, "PluginNameError: tripoint.paint"), (layer, "PluginError: the layer 'glaze'")):
        assert text.startswith(f"{what} is provided by ")
        assert "red-names 1.0" in text
        assert "blue-names 1.0" in text
    assert (blue, layer_blue) == ("blue", "blue")
    assert none == ("PluginError: no installed plugin provides the layer 'varnish'; installed layers: glaze ('glaze',)")


NARROW = """
from tripoint.plugin import Backend, Pattern, hookimpl
from red_home import P
class Narrow:
    @hookimpl
    def tripoint_register(self, registry):
        pattern = Pattern("home", "strided", "float32")
        POINT
        registry.kernel("exp", lambda x: P(x.shape, "narrow"), every=pattern)
backend = Narrow()
"""


@pytest.mark.parametrize("described", [True, False])
def test_a_narrower_provider_of_a_point_selects_nothing(
    described: bool, write: Write, run: Run, tmp_path: Path
) -> None:
    _owner(write, tmp_path, "red")
    points = "[tripoint.backends.v1]\nhome.strided.float32 = narrow_home:backend\n"
    point = "registry.point(pattern, P)" if described else "pass"
    write(tmp_path, "narrow-home", points, narrow_home=NARROW.replace("POINT", point))
    out = run(
        USE
        + """
print(use())
print(sorted({o.what for o in tp.plugins.overlaps()}), {o.distributions for o in tp.plugins.overlaps()})
print({f.level for f in tp.plugins.findings()})
whole = lambda: tp.exp(tp.zeros((2,), device="home", dtype="float64"))._payload.by
print(use(whole))  # which it does not provide
for who in ("narrow-home", "red-home"):
    tp.plugins.prefer(who)
    print(use(), use(whole), {o.preferred for o in tp.plugins.overlaps()})
tp.plugins.block("narrow-home")
print(use(), tp.plugins.overlaps())
""",
        tmp_path,
    )
    error, overlaps, levels, other, narrow, red, alone = out.splitlines()
    assert error.startswith("AmbiguousKernelError")
    assert "narrow-home 1.0" in error
    assert "red-home 1.0" in error
    what = ["kernels of exp", *["point home.strided.plain"] * described]
    assert overlaps.startswith(f"{what} ")
    assert "'narrow-home'" in overlaps
    assert levels == "{'error'}"
    assert other == "red"
    assert narrow == "narrow red {'narrow-home'}"
    assert red == "red red {'red-home'}"
    assert alone == "red []"


def test_kernels_that_are_preferred_go_before_narrower_ones(write: Write, run: Run, tmp_path: Path) -> None:
    narrower = """
from tripoint.plugin import Pattern
backend.kernels(negative=lambda x: P(x.shape, "red"))
backend.kernel("negative", args=(Pattern("home", "strided", "floating"),))(lambda x: P(x.shape, "floating"))
"""
    _owner(write, tmp_path, "red", after=narrower)
    fast = """
from tripoint.plugin import Pattern, hookimpl
from red_home import P
class Fast:
    @hookimpl
    def tripoint_register(self, registry):
        registry.kernel("negative", lambda x: P(x.shape, "fast"), every=Pattern("home", "strided"))
backend = Fast()
"""
    write(tmp_path, "fast-home", "[tripoint.kernels.v1]\nhome.strided = fast_home:backend\n", fast_home=fast)
    program = """
both = lambda: [tp.negative(tp.zeros((2,), device="home", dtype=d))._payload.by for d in ("float32", "int32")]
print(use(both))
tp.plugins.prefer("fast-home")
print(use(both))
tp.plugins.prefer("red-home")  # the last word; its own narrower one wins within it
print(use(both))
"""
    assert run(USE + program, tmp_path).splitlines() == [
        "['floating', 'red']",
        "['fast', 'fast']",
        "['floating', 'red']",
    ]


def test_a_name_is_left_to_the_one_that_can_be_used(write: Write, run: Run, tmp_path: Path) -> None:
    for who in ("red", "blue"):
        points = f"[tripoint.names.v1]\npaint = {who}_names:paint\n[tripoint.layers.v1]\nglaze = {who}_names:Glaze\n"
        code = f"from tripoint.plugin import Layer\npaint = '{who}'\nclass Glaze(Layer, below='trace'): who = paint\n"
        write(tmp_path, f"{who}-names", points, requires=("tripoint",), **{f"{who}_names": code})
    old = "[tripoint.names.v1]\npaint = old_names:paint\n"
    write(tmp_path, "old-names", old, requires=("tripoint>=77",), old_names="raise SystemExit\n")
    program = """
gets = lambda: tp.paint, lambda: tp.plugins.layer("glaze").who
print([use(get) for get in gets])
tp.plugins.block("blue-names")
print([use(get) for get in gets])
tp.plugins.unblock("blue-names")
tp.plugins.prefer("blue-names")
print([use(get) for get in gets])
"""
    red, alone, blue = run(USE + program, tmp_path, env={"TRIPOINT_DISABLE": "blue_names"}).splitlines()
    assert red == alone == "['red', 'red']"  # one is blocked, one is for another core
    assert blue == "['blue', 'blue']"
    # A choice is honoured or refused, and the only one says why it is not there.
    tail = "print(use(lambda: tp.paint)); tp.plugins.block('red-names'); print(use(lambda: tp.paint))"
    env = {"TRIPOINT_DISABLE": "blue-names", "TRIPOINT_PREFER": "blue-names"}
    chosen, both = run(USE + tail, tmp_path, env=env).splitlines()
    assert chosen == both
    assert chosen.startswith("PluginNameError: tripoint.paint is provided by blue-names 1.0, which is blocked")


def test_a_choice_that_cannot_be_honoured_is_refused(write: Write, run: Run, tmp_path: Path) -> None:
    _owner(write, tmp_path, "red")
    _owner(write, tmp_path, "blue", after="raise OSError('gone')\n")
    write(
        tmp_path,
        "fast-home",
        "[tripoint.kernels.v1]\nhome.strided = fast_home:backend\n",
        fast_home="raise OSError('no compiler')\n",
    )
    # Nobody prefers what is broken: the other owner computes.
    assert run(USE + "print(use())", tmp_path) == "red\n"
    for variable, words in (("blue-home", "OSError: gone"), ("fast-home", "OSError: no compiler")):
        out = run(
            USE + "print(use(), use(lambda: tp.zeros((2,), device='meta').shape))",
            tmp_path,
            env={"TRIPOINT_PREFER": variable},
        )
        assert out.startswith(f"PluginError: what the program or TRIPOINT_PREFER prefers is provided by {variable} 1.0")
        assert words in out
        assert out.endswith(" (2,)\n")
    program = """
use()
for name in ("blue-home", "fast-home", "nobody", "home.strided"):
    print(use(lambda: tp.plugins.prefer(name)))
print(tp.plugins.preferred)
"""
    broken, fast, nobody, entry, preferred = run(USE + program, tmp_path).splitlines()
    assert broken.startswith(
        "PluginError: what prefer('blue-home') asks for is provided by blue-home 1.0, which failed"
    )
    assert fast.startswith("PluginError: what prefer('fast-home') asks for is provided by fast-home 1.0, which failed")
    assert nobody.startswith("PluginError: no plugin 'nobody' is installed")
    # Who offers kernels for the point has a say in it, too.
    assert entry.startswith("PluginError: home.strided is provided by ")
    assert all(name in entry for name in ("red-home", "blue-home", "fast-home"))
    assert preferred == "[]"


def test_names_that_mean_nothing_are_findings(write: Write, run: Run, tmp_path: Path) -> None:
    _owner(write, tmp_path, "red")
    env = {
        "TRIPOINT_DISABLE": "red-hme, home.strided, tripoint_blocked,,",
        "TRIPOINT_PREFER": "red-home,nobody",
        "TRIPOINT_DISBALE": "x",
        "TRIPOINT_VERBOSE": "1",
    }
    program = """
for f in tp.plugins.findings(): print(f"{f.level} | {f.what} | {f.remedy}")
print({n: p.state for n, p in tp.plugins.found().items() if n in ("red-home", "tripoint-blocked", "tripoint-dense-cpu")})
"""
    *found, states = run(USE + program, tmp_path, env=env).splitlines()
    assert found == [
        "warning | red-home 1.0 is preferred and blocked, so calls on its points are refused | "
        "take it back: tripoint.plugins.block('red-home') ends the preference",
        "warning | TRIPOINT_DISABLE names 'red-hme', which is not installed | "
        "write 'red-home' if that is meant, or take it out of the variable",
        "warning | TRIPOINT_PREFER names 'nobody', which is not installed | take it out of the variable",
        "warning | the environment variable TRIPOINT_DISBALE means nothing to Tripoint | "
        "write 'TRIPOINT_DISABLE' if that is meant, or unset it; known: TRIPOINT_DISABLE, TRIPOINT_PREFER, TRIPOINT_TRACE",
        "warning | the environment variable TRIPOINT_VERBOSE means nothing to Tripoint | "
        "unset it; known: TRIPOINT_DISABLE, TRIPOINT_PREFER, TRIPOINT_TRACE",
        "note | tripoint-blocked 0.1.0 is blocked, so that cpu.blocked cannot be used | "
        "take it out of TRIPOINT_DISABLE, or say tripoint.plugins.unblock('tripoint-blocked'), where it is wanted",
    ]
    assert "'red-home': 'blocked'" in states
    assert "'tripoint-blocked': 'blocked'" in states
    assert "'tripoint-dense-cpu': 'found'" in states
    # What the program unblocks stays so, whatever the variable says.
    program = "tp.plugins.unblock('red-home'); tp.plugins.rescan(); print(use())"
    assert run(USE + program, tmp_path, env=env) == "red\n"


def test_a_finding_is_a_frozen_record() -> None:
    import tripoint as tp
    from tripoint.plugins.diagnosis import Finding

    made = Finding("note", "what", "remedy")
    with pytest.raises(AttributeError):
        made.level = "error"  # type: ignore[misc]
    assert str(made) == "note: what\n  remedy"
    levels = [finding.level for finding in tp.plugins.findings()]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
