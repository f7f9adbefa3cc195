"""Backends that load and then answer wrongly: what a user reads names the package, and the error is one of Tripoint's.

Each row is a real distribution; one process meets them all.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest

HEAD = """
import sys
import tripoint as tp
from tripoint.plugin import Allocator, Backend, Device, strided


class Box:
    def __init__(self, shape, dtype=tp.float32):
        self.shape, self.dtype = shape, dtype
"""
DESCRIBED = 'describe=lambda p: {"dtype": p.dtype}'
TAIL = """
@backend.kernel("zeros")
def zeros(*, shape, target):
    return Box(shape, target.dtype)


@backend.kernel("exp")
def exp(x):
    return Box(x.shape, x.dtype)
"""


def made(extra: str = DESCRIBED, after: str = "", before: str = "", device: str = 'Device("DEVICE")') -> str:
    """The module of a backend."""
    return f"{HEAD}{before}\nbackend = Backend({device}, strided, payload=Box, {extra})\n{TAIL}{after}\n"


def kernel(body: str, operator: str = "sin", parameters: str = "x") -> str:
    """A kernel with one statement as its body."""
    return f"@backend.kernel({operator!r})\ndef kernel({parameters}):\n    {body}\n"


def pool(body: str) -> str:
    """A backend whose memory comes from an allocator."""
    before = (
        "class Pool(Allocator):\n    def _alloc(self, nbytes): return bytearray(nbytes)\n"
        f"    def _free(self, block): pass\n    {body}\n"
    )
    return made("allocator=Pool()", kernel("backend.allocator().allocate(8); return Box(x.shape)"), before)


SIN = 'tp.sin(tp.zeros((2,), device="DEVICE"))'
ZEROS = 'tp.zeros((2,), device="DEVICE")'
REPR = f"repr({ZEROS})"
STATS = 'tp.memory.stats("DEVICE")'


@dataclass(frozen=True)
class Row:
    """One backend: what it does, the class and words of the error (``""``: no error), and what the program does."""

    what: str
    raised: str
    words: str
    module: str
    use: str = SIN
    points: str = "[tripoint.backends.v1]\nDEVICE.strided = DEVICE:backend\n"

    @property
    def device(self) -> str:
        """Its device, which is also what its module is called."""
        return "a_" + "".join(c if c.isalnum() else "_" for c in self.what)


TABLE = [
    # What a kernel gives.
    Row("gives no shape", "PluginError", "a Box of shape None", made(after=kernel("return Box(None)"))),
    Row(
        "gives a shape of floats",
        "PluginError",
        "of shape (2.0,); a shape is",
        made(after=kernel("return Box((2.0,))")),
    ),
    Row("gives a list as a shape", "PluginError", "a Box of shape [2]", made(after=kernel("return Box([2])"))),
    Row(
        "raises in its shape",
        "PluginError",
        "returned a Odd, whose shape raised ZeroDivisionError: division by zero",
        made(
            before="class Odd(Box):\n    shape = property(lambda s: 1 / 0, lambda s, v: None)",
            after=kernel("return Odd((2,))"),
        ),
    ),
    Row(
        "has a payload class that cannot be asked",
        "PluginError",
        "isinstance(result, payload) raised OSError: ask",
        made(
            "",
            kernel("return 3"),
            "class Meta(type):\n    def __instancecheck__(cls, o): raise OSError('ask')\nclass Box(Box, metaclass=Meta): pass",
        ),
    ),
    Row(
        "cannot coerce",
        "PluginError",
        "sin returned a int, of which coerce(result) of a_cannot_coerce.strided.float32 raised ZeroDivisionError",
        made("coerce=lambda p: 1 / 0", kernel("return 3")),
    ),
    # What it says of a payload.
    Row("describes nothing", "PluginError", "gives a dict, not None", made("describe=lambda p: None"), ZEROS),
    Row("describes by exit", "PluginError", "raised SystemExit: 3", made("describe=lambda p: sys.exit(3)"), ZEROS),
    Row(
        "describes as what is no dtype",
        "PluginError",
        "gives as dtype 'float32', no DType",
        made('describe=lambda p: {"dtype": "float32"}'),
        ZEROS,
    ),
    Row(
        "describes strides as a number",
        "PluginError",
        "gives as strides 7",
        made('describe=lambda p: {"strides": 7}'),
        ZEROS,
    ),
    Row(
        "refuses to describe later",
        "PluginError",
        "describe(payload) raised ShapeError: bad shape in box",
        made(
            "describe=lambda p: said()",
            before="later = []\ndef said():\n    if later: raise tp.errors.ShapeError('bad shape in box')\n    return {}",
            after="def spoil(): later.append(1)",
        ),
        'tp.strides_of(tp.zeros((2,), device="DEVICE"), spoil)',
    ),
    Row(
        "loses its device when asked",
        "DeviceLostError",
        "gone",
        made("describe=lambda p: lost()", before="def lost(): raise tp.errors.DeviceLostError('gone')"),
        ZEROS,
    ),
    Row(
        "has an index that is none",
        "PluginError",
        "not 'zero'",
        made("current=lambda: 'zero'", device='Device("DEVICE", indexed=True)'),
        ZEROS,
    ),
    Row(
        "cannot say what aliases",
        "PluginError",
        "aliases(a, b) raised ZeroDivisionError",
        made("aliases=lambda a, b: 1 / 0"),
        'tp.shares_memory(tp.zeros((2,), device="DEVICE"), tp.zeros((2,), device="DEVICE"))',
    ),
    Row(
        "has a layout of no parameters",
        "PluginError",
        "spec(payload) gives a LayoutSpec, not 7",
        made("spec=lambda p: 7"),
        'tp.zeros((2,)).to(tp.zeros((2,), device="DEVICE"))',
    ),
    # Text.
    Row(
        "summarises by raising", "", "summary(payload) raised ZeroDivisionError", made("summary=lambda p: 1 / 0"), REPR
    ),
    Row("summarises by a number", "", "summary(payload) gives a str, not 7", made("summary=lambda p: 7"), REPR),
    Row("summarises by exit", "", "raised SystemExit: 4", made("summary=lambda p: sys.exit(4)"), REPR),
    Row(
        "writes what is no text",
        "",
        "to_text(payload) gives a str, not 5",
        made(after=kernel("return 5", "to_text")),
        REPR,
    ),
    Row(
        "writes by raising",
        "",
        "to_text(payload) raised KeyError: 'k'",
        made(after=kernel("raise KeyError('k')", "to_text")),
        REPR,
    ),
    # Powers.
    Row("has streams that are none", "PluginError", "streams must be an object with", made("streams=5"), ZEROS),
    Row(
        "has streams that raise",
        "PluginError",
        "streams.create raised OSError: none left",
        made(
            "streams=Lines()",
            before="class Lines:\n    def default(self, device): return None\n"
            "    create = synchronize = lambda self, device: no()\ndef no(): raise OSError('none left')",
        ),
        'tp.Stream("DEVICE")',
    ),
    Row(
        "counts by exit",
        "PluginError",
        "raised SystemExit: 5",
        made(after="backend.memory_stats(lambda: sys.exit(5))"),
        STATS,
    ),
    Row(
        "counts in words",
        "PluginError",
        "gives counts as ints by name, not 'lots' as 'live'",
        made(after="backend.memory_stats(lambda: {'DEVICE': {'live': 'lots'}})"),
        STATS,
    ),
    Row(
        "counts in a list",
        "PluginError",
        "gives a dict of counts by device, a sentence or None, not [1]",
        made(after="backend.memory_stats(lambda: [1])"),
        STATS,
    ),
    Row(
        "has no capacity",
        "PluginError",
        "_capacity raised OSError: gone",
        pool("def _capacity(self): raise OSError('gone')"),
        STATS,
    ),
    Row("has a capacity in words", "PluginError", "not '1 GiB'", pool("def _capacity(self): return '1 GiB'"), STATS),
    Row(
        "runs out without a capacity",
        "OutOfMemoryError",
        "out of memory: 8 bytes wanted",
        pool("def _alloc(self, nbytes): return None\n    def _capacity(self): raise OSError('gone')"),
    ),
    Row(
        "asks itself for memory",
        "PluginError",
        "is asked while it allocates, frees or counts",
        pool("def _alloc(self, nbytes): return self.allocate(nbytes)"),
    ),
    Row(
        "counts itself while it counts",
        "PluginError",
        "is asked while it allocates, frees or counts",
        pool("def _capacity(self): return self.stats()['live']"),
        STATS,
    ),
    Row(
        "has a kernel of no module",
        "PluginError",
        "exp returned a int; payloads on",
        made(after="exp.__module__ = 5\n").replace("return Box(x.shape, x.dtype)", "return 3"),
        'tp.exp(tp.zeros((2,), device="DEVICE"))',
    ),
    Row(
        "offers a layer that is none",
        "PluginError",
        "which is none; its entry point must name a subclass of Layer",
        "class Evil:\n    def __getattr__(self, name): raise OSError(name)\n"
        "    def __repr__(self): raise SystemExit(1)\nbackend = Evil()",
        'tp.plugins.layer("DEVICE")',
        "[tripoint.layers.v1]\nDEVICE = DEVICE:backend\n",
    ),
    Row(
        "offers half a layer",
        "PluginError",
        "which is none",
        "class Half:\n    floor = handles = build = 7\nbackend = Half",
        'tp.plugins.layer("DEVICE")',
        "[tripoint.layers.v1]\nDEVICE = DEVICE:backend\n",
    ),
    # What a kernel raises.
    Row(
        "overflows", "OverflowError", "math range error", made(after=kernel("raise OverflowError('math range error')"))
    ),
    Row(
        "overflows at creation",
        "OverflowError",
        "for ones on a_overflows_at_creation.strided.float32",
        made(after=kernel("raise OverflowError('no')", "ones", "*, shape, target")),
        'tp.ones((2,), device="DEVICE")',
    ),
    Row(
        "speaks another protocol",
        "ValueError",
        "driver 12 does not speak protocol 13",
        made(after=kernel("raise ValueError('driver 12 does not speak protocol 13')", "ones", "*, shape, target")),
        'tp.ones((2,), device="DEVICE")',
    ),
    Row(
        "takes few axes",
        "SizeError",
        "ones: at most 32 axes",
        made(after=kernel("raise ValueError('at most 32 axes')", "ones", "*, shape, target")),
        'tp.ones((1,) * 33, device="DEVICE")',
    ),
    Row(
        "raises what is frozen",
        "Frozen",
        "raised by the kernel kernel from",
        made(
            before="import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Frozen(Exception):\n    code: int",
            after=kernel("raise Frozen(3)"),
        ),
    ),
    Row(
        "raises what takes no notes",
        "Mute",
        "cannot be read",
        made(
            before="class Mute(Exception):\n    __notes__ = property(lambda s: 1 / 0)\n"
            "    def add_note(self, note): raise OSError\n    def __str__(self): raise OSError('mute')",
            after=kernel("raise Mute"),
        ),
    ),
    Row(
        "raises from a cause",
        "KeyError",
        "raised by the kernel",
        made(after=kernel("raise KeyError('kaputt') from OSError('why')")),
    ),
]

#: rows whose error is the kernel's own, or about the user's call or memory, and which the backend did nothing wrong in.
OWN = ("OverflowError", "ValueError", "Frozen", "Mute", "KeyError", "SizeError", "OutOfMemoryError")

PROGRAM = """
import json, sys
import tripoint as tp


def strides_of(tensor, spoil):
    spoil()
    return tensor.strides


tp.strides_of = strides_of


def text(error):
    try:
        said = str(error)
    except BaseException:
        said = "cannot be read"
    try:
        notes = list(getattr(error, "__notes__", ()))
    except BaseException:
        notes = []
    return "\\n".join([said, *notes])


def tried(row):
    try:
        spoil = lambda: sys.modules[row["device"]].spoil()
        return {"raised": "", "text": str(eval(row["use"], {"tp": tp, "spoil": spoil}))}
    except BaseException as error:
        ours = isinstance(error, tp.errors.TripointError)
        cause = error.__cause__
        return {"raised": type(error).__name__, "ours": ours, "text": text(error), "cause": cause and type(cause).__name__}


rows = json.load(sys.stdin)
out = {row["what"]: [tried(row), tried(row)] for row in rows}
sys.__stdout__.write(chr(10) + json.dumps(out))
"""


@pytest.fixture(scope="module")
def met(write: Callable[..., None], run: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process saw that met every row of the table."""
    site = tmp_path_factory.mktemp("answers") / "site"
    rows = []
    for row in TABLE:
        name = row.device
        write(
            site,
            name.replace("_", "-"),
            row.points.replace("DEVICE", name),
            **{name: row.module.replace("DEVICE", name)},
        )
        rows.append({**asdict(row), "device": name, "use": row.use.replace("DEVICE", name)})
    return json.loads(run(PROGRAM, site, stdin=json.dumps(rows)).splitlines()[-1])


@pytest.mark.parametrize("row", TABLE, ids=[row.what for row in TABLE])
def test_what_a_user_reads(met: Any, row: Row) -> None:
    first, second = met[row.what]
    assert first == second
    assert first["raised"] == row.raised
    assert row.words in first["text"]
    assert len(first["text"].splitlines()) <= 12
    if row.raised in ("", "PluginError", "DeviceLostError"):
        assert f"{row.device.replace('_', '-')} 1.0" in first["text"]
    if row.raised not in ("", *OWN):
        assert first["ours"]


def test_a_kernels_own_error_keeps_its_cause_and_names_the_kernel(met: Any) -> None:
    for row in TABLE:
        if row.raised in ("OverflowError", "ValueError", "Frozen", "KeyError"):
            said = met[row.what][0]
            assert f"raised by the kernel kernel from {row.device.replace('_', '-')} 1.0 at " in said["text"], row.what
    assert met["raises from a cause"][0]["cause"] == "OSError"
    assert met["takes few axes"][0]["cause"] == "ValueError"


# Texts of what a plugin gives ----------------------------------------------------------------------------------------

LONG = "chr(10).join('line %d' % i for i in range(200))"
WORDS = """
class Evil(str):
    def __str__(self): raise OSError("str")
    def __format__(self, spec): raise OSError("format")
    def __bool__(self): raise OSError("bool")
    def strip(self): raise OSError("strip")
"""

#: what the plugin does: raise at import, or give by its probe; and what its text must have.
TEXTS = {
    "exits in its text": (
        "raise",
        "class E(Exception):\n    def __str__(self): raise SystemExit(9)\nanswer = E()",
        "whose text cannot be had",
    ),
    "writes with what raises": (
        "raise",
        f"{WORDS}class E(Exception):\n    __str__ = lambda s: Evil('odd')\nanswer = E()",
        "odd",
    ),
    "has a module name of no text": ("raise", "answer = ModuleNotFoundError('x'); answer.name = 5", "x"),
    "has notes that raise": (
        "raise",
        "class E(Exception):\n    __notes__ = property(lambda s: 1 / 0)\nanswer = E('noted')",
        "noted",
    ),
    "has no truth": ("raise", "class E(Exception):\n    def __bool__(self): raise OSError\nanswer = E('true')", "true"),
    "talks for 200 lines": ("raise", f"answer = OSError({LONG})", "more lines"),
    "paints": ("raise", "answer = OSError('\\x1b[31mred\\x1b[0m\\x07 \\x1b]0;title\\x07\\x9b1mend\\u202e')", "red 1mend"),
    "is caused three thousand times": (
        "raise",
        "answer = None\nfor i in range(3000):\n    e = OSError(f'number {i}')\n    e.__cause__, answer = answer, e",
        "number 2999",
    ),
    "gives 5": ("give", "answer = 5", "its probe gave 5, neither None"),
    "gives an object": ("give", "class O:\n    def __repr__(self): raise SystemExit\nanswer = O()", "its probe gave a O"),
    "gives nothing in words": ("give", "answer = ''", "its probe gave '', neither None"),
    "gives no": ("give", "answer = False", "its probe gave False, neither None"),
    "gives evil words": ("give", f"{WORDS}answer = Evil('no card')", "no card"),
    "gives 200 lines": ("give", f"answer = {LONG}", "more lines"),
    "gives paint": ("give", "answer = '\\x1b[31mno card\\x1b[0m'", "no card"),
}  # fmt: skip

SEEN = """
import json, sys
import tripoint as tp
from tripoint.cli.installation import devices
out = {}
for name in json.load(sys.stdin):
    said = []
    for _ in range(2):
        try:
            tp.zeros((2,), device=name)
        except BaseException as error:
            said.append([type(error).__name__, str(error)])
    entry = next(e for e in tp.plugins.listed() if e["name"] == name.replace("_", "-"))
    json.dumps(entry)
    mine = [e for e in devices() if e["device"] == name]
    found = [str(f) for f in tp.plugins.findings() if name.replace("_", "-") in str(f)]
    out[name] = {"said": said, "entry": entry, "devices": mine, "findings": found}
out["report"] = tp.plugins.report()
sys.__stdout__.write(chr(10) + json.dumps(out))
"""


@pytest.fixture(scope="module")
def told(write: Callable[..., None], run: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process says of plugins whose exceptions and answers do all they can."""
    site = tmp_path_factory.mktemp("texts") / "site"
    names = []
    for what, (how, code, _) in TEXTS.items():
        name = "t_" + what.replace(" ", "_")
        names.append(name)
        module = f"{code}\nraise answer\n" if how == "raise" else made(after=f"{code}\nbackend.probe(lambda: answer)")
        points = f"[tripoint.backends.v1]\n{name}.strided = {name}:backend\n"
        write(site, name.replace("_", "-"), points, **{name: module.replace("DEVICE", name)})
    return json.loads(run(SEEN, site, stdin=json.dumps(names)).splitlines()[-1])


def _plain(text: str) -> bool:
    return all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf") for c in text)


@pytest.mark.parametrize("what", TEXTS)
def test_its_text_is_safe_and_short_everywhere(told: Any, what: str) -> None:
    how, _, words = TEXTS[what]
    name = "t_" + what.replace(" ", "_")
    saw = told[name]
    first, second = saw["said"]
    assert first == second
    assert first[0] == ("PluginError" if how == "raise" else "DeviceError")
    assert f"{name.replace('_', '-')} 1.0" in first[1]
    why = saw["entry"]["error" if how == "raise" else "unavailable"]
    (device,) = saw["devices"]
    finding = next(f for f in saw["findings"])
    for text in (first[1], why, device["why"], finding):
        assert words in text
        assert _plain(text)
        assert len(text.splitlines()) <= 12
    assert device["usable"] is False
    assert len(saw["entry"]["traceback"]) <= 120
    assert all(map(_plain, saw["entry"]["traceback"]))
    if how == "raise":
        assert saw["entry"]["remedy"].startswith(f"upgrade or reinstall {name.replace('_', '-')}")
        assert (
            saw["entry"]["traceback"][0] == "Traceback (most recent call last):"
            or "number 0" in saw["entry"]["traceback"][0]
        )
    if what not in ("exits in its text", "writes with what raises"):  # Python's own words for a text it cannot have
        assert why.splitlines()[0] in told["report"]


def test_the_report_has_no_control_characters(told: Any) -> None:
    assert _plain(told["report"])


# Names ---------------------------------------------------------------------------------------------------------------


def test_a_broken_name_is_no_attribute(write: Callable[..., None], run: Callable[..., str], tmp_path: Any) -> None:
    points = (
        "[tripoint.names.v1]\nlost_name = broken_names:it\n[tripoint.backends.v1]\nlost.lost_layout = broken_names:it\n"
    )
    write(tmp_path, "broken-names", points, broken_names="raise OSError('no file')\n")
    evil = "class Evil:\n    def __getattr__(self, name): raise OSError(name)\nit = Evil()\n"
    write(tmp_path, "odd-names", "[tripoint.names.v1]\nodd_name = odd_names:it\n", odd_names=evil)
    program = """
    import inspect, pydoc
    import tripoint as tp
    try:
        tp.lost_name
    except tp.errors.PluginError as error:
        print(type(error).__name__, isinstance(error, AttributeError), type(error.__cause__).__name__, error)
    print(hasattr(tp, "lost_name"), hasattr(tp.layouts, "lost_layout"), "lost_name" in dir(tp))
    print("lost_name" in dict(inspect.getmembers(tp)), "zeros" in dict(inspect.getmembers(tp)))
    tp.odd_name
    print("odd_name" in dir(tp), pydoc.plain(pydoc.render_doc(tp)).startswith("Python Library Documentation: package tripoint"))
    """
    error, has, members, doc = run(program, tmp_path).splitlines()
    assert error.startswith(
        "PluginNameError True OSError tripoint.lost_name is provided by broken-names 1.0, which failed to load"
    )
    assert (has, members, doc) == ("False False True", "False True", "True True")


# Memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["cpu.strided", "*.strided"])
@pytest.mark.parametrize("how", ["broken", "blocked"])
def test_the_memory_of_a_device_is_asked_of_who_computes(
    write: Callable[..., None], run: Callable[..., str], tmp_path: Any, point: str, how: str
) -> None:
    write(
        tmp_path,
        "aaa-claims",
        f"[tripoint.backends.v1]\n{point} = aaa_claims:backend\n",
        aaa_claims="raise OSError('no')\n",
    )
    program = """
    import tripoint as tp
    for _ in range(2):
        said = tp.memory.stats("cpu")
        print(said.provider, said.supported, "NumPy" in said.note, tp.memory.empty_cache("cpu"))
    """
    env = {"TRIPOINT_DISABLE": "aaa-claims"} if how == "blocked" else {}
    assert run(program, tmp_path, env=env).splitlines() == ["tripoint-dense-cpu False True 0"] * 2


def test_the_memory_of_a_device_whose_only_provider_is_broken(
    write: Callable[..., None], run: Callable[..., str], tmp_path: Any
) -> None:
    write(
        tmp_path,
        "half-gone",
        "[tripoint.backends.v1]\ngone.strided = half_gone:backend\n",
        half_gone="raise OSError('no')\n",
    )
    program = """
    import tripoint as tp
    try:
        tp.memory.stats("gone")
    except tp.errors.PluginError as error:
        print(error)
    """
    assert "is provided by half-gone 1.0, which failed to load: OSError: no" in run(program, tmp_path)


def test_the_preferred_of_two_owners_is_asked(
    write: Callable[..., None], run: Callable[..., str], tmp_path: Any
) -> None:
    for who in ("red", "blue"):
        device = 'Device("home")' if who == "red" else '"home"'
        code = made(after=f"backend.memory_stats(lambda: 'ask {who}')", device=device)
        write(
            tmp_path,
            f"{who}-home",
            f"[tripoint.backends.v1]\nhome.strided = {who}_home:backend\n",
            **{f"{who}_home": code},
        )
    program = """
    import tripoint as tp
    try:
        tp.memory.stats("home")
    except tp.errors.AmbiguousKernelError as error:
        print("prefer" in str(error))
    for who in ("red-home", "blue-home"):
        tp.plugins.prefer(who)
        print(tp.memory.stats("home").note)
    """
    assert run(program, tmp_path).splitlines() == ["True", "ask red", "ask blue"]


def test_what_a_signal_handler_raises_within_a_hook_is_the_programs(
    write: Callable[..., None], run: Callable[..., str], tmp_path: Any
) -> None:
    code = made(
        "describe=described",
        before="import os, signal\ndef described(p):\n    os.kill(os.getpid(), signal.SIGTERM)\n    return {}",
        after="backend.memory_stats(lambda: os.kill(os.getpid(), signal.SIGTERM))",
    )
    code = code.replace("DEVICE", "alarmed")
    write(tmp_path, "alarmed", "[tripoint.backends.v1]\nalarmed.strided = alarmed:backend\n", alarmed=code)
    program = """
    import signal, sys
    import tripoint as tp
    def leave(*_): sys.exit(7)
    signal.signal(signal.SIGTERM, leave)
    for use in (lambda: tp.zeros((2,), device="alarmed"), lambda: tp.memory.stats("alarmed")):
        try:
            use()
        except SystemExit as left:
            print(left.code)
    """
    assert run(program, tmp_path).split() == ["7", "7"]
