"""The table of hostile plugins: each is a real distribution, all of them are installed together, one process meets them.

A row says what the plugin does, what becomes of it, and what a user reads. The verdicts:

* contained: its code raised; it is broken, its traceback is kept, nothing of it is in the tables.
* refused: its metadata alone speaks against it; its code never ran.
* caught: it is loaded, and what it does wrong is an error that names it, at the first call of each plan.
* checked: as caught, in a block of `tripoint.checked`, which names the kernel and its package; outside of one nobody looks.
* itself: it is loaded, and what its kernel raises reaches the caller as it is, with a note that names the kernel.
* harmless: it is loaded and computes.
* untouched: nobody named what it provides, so nothing of it ran.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest

#: what a well-behaved backend looks like; the rows change it. DEVICE stands for the row's own device.
GOOD = """
from tripoint.plugin import Backend, Device, Layout, Pattern, composite, derivative, hookimpl, register, strided
import tripoint as tp


class Box:
    def __init__(self, shape, dtype=tp.float32):
        self.shape, self.dtype = shape, dtype


backend = Backend(Device("DEVICE"), strided, payload=Box, describe=lambda p: {"dtype": p.dtype})


@backend.kernel("zeros")
def zeros(*, shape, target):
    return Box(shape, target.dtype)


@backend.kernel("exp")
def exp(x):
    return Box(x.shape, x.dtype)
"""

HALF = """
class Half:
    @hookimpl
    def tripoint_register(self, registry):
        whole.tripoint_register(registry)
        registry.layout(Layout("DEVICE_layout", attributes={"DEVICE_attribute": lambda x: 1}))
        raise RuntimeError("half way")


derivative("sin", args=("DEVICE.strided",), x=lambda g: g)


@composite(namespace="DEVICE")
def half_an_operator(x: tp.Tensor, /) -> tp.Tensor:
    return x


register(backend)
whole, backend = backend, Half()
"""

THREAD = """
import threading


def warm_up():
    try:
        tp.zeros((2,), device="DEVICE")
    except tp.errors.PluginError as error:
        seen.append(str(error))


seen = []
thread = threading.Thread(target=warm_up, daemon=True)
"""


@dataclass(frozen=True)
class Row:
    """One hostile plugin.

    Attributes:
        what: what it does; the name of the distribution is made of it.
        verdict: what becomes of it.
        words: what the user's error says, or the report where there is no error.
        module: its code; DEVICE stands for its device.
        cause: class of what the user's error is chained to.
        points: its entry points; MODULE stands for its module.
        use: what the user's program does.
        requires: what its metadata requires.
        metadata: its metadata, where that is not what it should be.
    """

    what: str
    verdict: str
    words: str
    module: str = GOOD
    cause: str = ""
    points: str = "[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\n"
    use: str = 'tp.exp(tp.zeros((2,), device="DEVICE"))'
    requires: tuple[str, ...] = ("tripoint>=0.1",)
    metadata: str | None = None

    @property
    def device(self) -> str:
        """Its device, which is also what its module is called."""
        return "h_" + "".join(c if c.isalnum() else "_" for c in self.what)

    @property
    def name(self) -> str:
        """Its distribution."""
        return self.device.replace("_", "-")

    def filled(self, text: str) -> str:
        """A text with its device and module in place."""
        return text.replace("DEVICE", self.device).replace("MODULE", self.device)


def _kernel(body: str) -> str:
    """A backend whose exp is another."""
    return GOOD[: GOOD.index('@backend.kernel("exp")')] + body


TABLE = [
    # At import.
    Row("raises at import", "contained", "RuntimeError: no driver", "raise RuntimeError('no driver')", "RuntimeError"),
    Row(
        "lacks a library",
        "contained",
        "libfoo.so.3: undefined symbol",
        "raise OSError('libfoo.so.3: undefined symbol: bar')",
        "OSError",
    ),
    Row("exits at import", "contained", "SystemExit: 3", "import sys\nsys.exit(3)", "SystemExit"),
    Row("stops iterating", "contained", "GeneratorExit", "raise GeneratorExit", "GeneratorExit"),
    Row("is no python", "contained", "SyntaxError", "def (", "SyntaxError"),
    Row("recurses", "contained", "RecursionError", "def f(): f()\nf()", "RecursionError"),
    Row("needs what is not there", "contained", "No module named", "import not_there_at_all", "ModuleNotFoundError"),
    Row(
        "raises what cannot be printed",
        "contained",
        "Mute, whose text cannot be had",
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute",
        "Mute",
    ),
    Row(
        "sleeps twenty seconds",
        "untouched",
        "found; provides",
        "import time\ntime.sleep(20)\nraise ImportError('slept')",
        use="None",
    ),
    Row("prints at import", "harmless", "", "print('hello')\n" + GOOD),
    Row(
        "imports the core in a cycle",
        "contained",
        "uses what it provides while it is being loaded",
        "import tripoint as tp\ntp.zeros((2,), device='DEVICE')\n" + GOOD,
        "RegistrationError",
    ),
    Row(
        "uses other devices at import",
        "harmless",
        "",
        "import tripoint as tp\ntp.plugins.report(); tp.plugins.findings()\n"
        "assert_ = tp.asarray([1.0]).sum().item(), tp.zeros((2,), device='meta'), tp.zeros((1,), device='good')\n"
        + GOOD,
    ),
    # What the entry point names.
    Row("misses its attribute", "contained", "AttributeError", "other = 1", "AttributeError"),
    Row(
        "misses its module",
        "contained",
        "No module named 'nowhere'",
        points="[tripoint.backends.v1]\nDEVICE.strided = nowhere.x:y\n",
        cause="ModuleNotFoundError",
    ),
    Row("has no hooks", "contained", "without tripoint_register", "backend = object()", "RegistrationError"),
    Row(
        "refuses to be looked at",
        "contained",
        "do not look",
        "class Shy:\n    def __getattribute__(self, name):\n        raise LookupError('do not look')\nbackend = Shy()",
        "LookupError",
    ),
    Row(
        "wants an argument more",
        "contained",
        "PluginValidationError",
        GOOD + "class Other:\n    @hookimpl\n    def tripoint_register(self, registry, extra): pass\nbackend = Other()",
        "PluginValidationError",
    ),
    Row(
        "names two objects",
        "contained",
        "name different objects",
        GOOD + "other = backend\n",
        "RegistrationError",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\ncpu.DEVICE = MODULE:other\n",
    ),
    # What it registers.
    Row("registers half then raises", "contained", "half way", GOOD + HALF, "RuntimeError"),
    Row(
        "commits by itself then raises",
        "contained",
        "too late",
        GOOD + "class Hasty:\n    @hookimpl\n    def tripoint_register(self, registry):\n        "
        "backend.tripoint_register(registry)\n        registry.commit()\n        raise RuntimeError('too late')\n"
        "hasty = Hasty()",
        "RuntimeError",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE:hasty\n",
    ),
    Row(
        "has a kernel of no operator",
        "contained",
        "there is no operator 'expp'; did you mean 'exp'?",
        GOOD + "backend.kernels(expp=exp)",
        "RegistrationError",
    ),
    Row(
        "has a kernel with a wrong signature",
        "contained",
        "takes 2 positional arguments; cos(x, /) gives 1: x",
        GOOD + "backend.kernels(cos=lambda a, b: a)",
        "RegistrationError",
        use='tp.zeros((2,), device="DEVICE")',
    ),
    Row(
        "has a kernel without its metadata",
        "contained",
        "does not take the metadata axis, keepdims",
        GOOD + "backend.kernels(sum=lambda x: x)",
        "RegistrationError",
    ),
    Row(
        "takes a name of the core",
        "contained",
        "the core already has announced something else",
        GOOD + "backend = Backend(Device('DEVICE'), Layout('strided'), payload=Box)",
        "RegistrationError",
    ),
    Row(
        "takes an attribute of all tensors",
        "contained",
        "declares the attribute 'sum', which every tensor has",
        GOOD.replace("strided, payload", "Layout('DEVICE_layout', attributes={'sum': lambda x: 0}), payload"),
        "RegistrationError",
        points="[tripoint.backends.v1]\nDEVICE.DEVICE_layout = MODULE:backend\n",
    ),
    Row(
        "describes what it does not name",
        "contained",
        "which none of its entry points names",
        GOOD[: GOOD.index("@backend")].replace('Device("DEVICE")', '"good"'),
        "RegistrationError",
    ),
    Row(
        "registers what is nothing",
        "contained",
        "a device is announced by a Device, not 'DEVICE'",
        GOOD
        + "class Odd:\n    @hookimpl\n    def tripoint_register(self, registry):\n        registry.device('DEVICE')\n"
        "backend = Odd()",
        "RegistrationError",
    ),
    Row(
        "registers nothing",
        "contained",
        "registers nothing on the points that its entry points name: DEVICE.strided",
        GOOD + "class Idle:\n    @hookimpl\n    def tripoint_register(self, registry): pass\nbackend = Idle()",
        "RegistrationError",
    ),
    Row(
        "registers on points that it does not name",
        "contained",
        "a kernel of exp on points that",
        GOOD + "class Lost:\n    @hookimpl\n    def tripoint_register(self, registry):\n"
        "        registry.kernel('exp', exp, every=Pattern('good', 'strided'))\nbackend = Lost()",
        "RegistrationError",
    ),
    Row(
        "has an asynchronous hook",
        "contained",
        "tripoint_register of MODULE:backend is written with async or yield",
        GOOD + "class Later:\n    @hookimpl\n    async def tripoint_register(self, registry):\n"
        "        whole.tripoint_register(registry)\nwhole, backend = backend, Later()",
        "RegistrationError",
    ),
    Row(
        "has a hook with a yield",
        "contained",
        "tripoint_probe of MODULE:backend is written with async or yield",
        GOOD + "class Later(Backend):\n    @hookimpl\n    def tripoint_probe(self):\n        yield None\n"
        "backend = Later(Device('DEVICE'), strided, payload=Box)",
        "RegistrationError",
    ),
    Row(
        "offers kernels for the points of others",
        "untouched",
        "kernels on good.strided (when preferred)",
        "raise RuntimeError('nobody asked')",
        points="[tripoint.kernels.v1]\ngood.strided = MODULE:backend\n",
        use='tp.exp(tp.zeros((2,), device="good"))',
    ),
    # What its kernels do.
    Row(
        "returns nothing",
        "caught",
        "exp returned a NoneType; payloads on",
        _kernel("backend.kernels(exp=lambda x: None)"),
    ),
    Row("returns another class", "caught", "exp returned a str", _kernel("backend.kernels(exp=lambda x: 'text')")),
    Row(
        "returns a wrong shape",
        "caught",
        "exp returned shape (3,); its shape rule says (2,)",
        _kernel("backend.kernels(exp=lambda x: Box((3,)))"),
    ),
    Row(
        "returns a wrong dtype",
        "caught",
        "exp returned float64; the result on h_returns_a_wrong_dtype.strided.float32 must be float32",
        _kernel("backend.kernels(exp=lambda x: Box(x.shape, tp.float64))"),
    ),
    Row(
        "cannot describe what it made",
        "caught",
        "describe(payload) raised ZeroDivisionError",
        GOOD.replace('{"dtype": p.dtype}', "1 / 0"),
        "ZeroDivisionError",
    ),
    Row(
        "raises in a kernel",
        "itself",
        "kaputt",
        _kernel("@backend.kernel('exp')\ndef exp(x): raise KeyError('kaputt')"),
    ),
    Row(
        "has a compiled kernel with a wrong signature",
        "itself",
        "expected 2 arguments, got 1",
        _kernel("import operator\nbackend.kernels(exp=operator.add)"),
    ),
    Row(
        "leaves a scope open in a kernel",
        "caught",
        "exp left a scope open, such as no_grad(): Mode(device=None, fallback=error, grad=True",
        _kernel("@backend.kernel('exp')\ndef exp(x):\n    tp.no_grad().__enter__()\n    return Box(x.shape)"),
    ),
    # Hardware.
    Row(
        "has no hardware",
        "caught",
        "is provided by h-has-no-hardware 1.0, but cannot be used: no card",
        GOOD + "backend.probe(lambda: 'no card')",
    ),
    Row(
        "exits in its probe",
        "caught",
        "cannot be used: its probe raised SystemExit: 7",
        GOOD + "import sys\nbackend.probe(lambda: sys.exit(7))",
    ),
    # Threads of its own.
    Row("uses its device from a thread", "harmless", "", GOOD + THREAD + "thread.start()\n"),
    Row("waits at import for its own thread", "harmless", "", GOOD + THREAD + "thread.start()\nthread.join()\n"),
    Row(
        "waits in its hook for its own thread",
        "harmless",
        "",
        GOOD + "class Waiting:\n    @hookimpl\n    def tripoint_register(self, registry):\n        "
        "backend.tripoint_register(registry)\n        import threading\n"
        "        t = threading.Thread(target=lambda: tp.zeros((2,), device='DEVICE'))\n        t.start()\n        t.join()\n"
        "waiting = Waiting()\n",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE:waiting\n",
    ),
    # Metadata.
    Row(
        "speaks an older protocol",
        "refused",
        "written for protocol 0 (tripoint.backends.v0), this core speaks 1; upgrade h-speaks-an-older-protocol",
        points="[tripoint.backends.v0]\nDEVICE.strided = MODULE:backend\n",
    ),
    Row(
        "speaks a newer protocol",
        "refused",
        "written for protocol 2 (tripoint.backends.v2), this core speaks 1; upgrade tripoint",
        points="[tripoint.backends.v2]\nDEVICE.strided = MODULE:backend\n",
    ),
    Row(
        "speaks two protocols",
        "harmless",
        "",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\n"
        "[tripoint.backends.v2]\nDEVICE.strided.queued = MODULE:nothing_yet\n",
    ),
    Row(
        "needs a newer core",
        "refused",
        "it needs tripoint >=77.1, and this is 0.1.0; upgrade tripoint",
        requires=("numpy", "tripoint>=77.1"),
    ),
    Row(
        "needs an older core",
        "refused",
        "it needs tripoint >=0.0.1, <0.1, and this is 0.1.0; upgrade h-needs-an-older-core",
        requires=("tripoint (>=0.0.1,<0.1)",),
    ),
    Row(
        "has a name that parses to nothing",
        "refused",
        "entry-point name 'DEVICE' is no point; write device.layout",
        points="[tripoint.backends.v1]\nDEVICE = MODULE:backend\nDEVICE.strided = MODULE:backend\n",
    ),
    Row(
        "has metadata that is no text",
        "refused",
        "its metadata cannot be read: UnicodeDecodeError",
        metadata="\xff\xfe",
        use="None",
    ),
    Row(
        "has entry points that are none",
        "refused",
        "its metadata cannot be read",
        points="[tripoint.backends.v1]\nnothing of an entry\n",
        use="None",
    ),
]

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import tripoint as tp
import tripoint.derivatives  # the core's own load late
from tripoint.schema import rows as operators

before_anything = [m for m in sys.modules if m.startswith("h_")]


def works():
    good = tp.exp(tp.zeros((2,), device="good"))
    return [tp.asarray([1.0, 2.0]).sum().item(), good.shape[0], tp.zeros((3,), device="meta").shape[0]]


def checked(call):
    with tp.checked():
        return call()


def tables():
    copies = [copy for _, copy in tp.plugins.snapshot()]
    return copies, sorted(vars(tp.Tensor)), {n: r for n, r in operators.items()}


def tried(text):
    try:
        value = eval(text)
    except BaseException as error:
        chain, cause = [], error.__cause__
        while cause is not None:
            chain.append(type(cause).__name__)
            cause = cause.__cause__
        return {
            "raised": type(error).__name__,
            "ours": isinstance(error, tp.errors.TripointError),
            "text": str(error) + " " + " ".join(getattr(error, "__notes__", ())),
            "chain": chain,
        }
    return {"shape": list(value.shape) if value is not None else None}


tp.plugins.report(), tp.plugins.device_names()
after_listing = [m for m in sys.modules if m.startswith("h_")]
first = works()
out = {"modules": before_anything + after_listing, "first": first, "rows": {}}
for row in json.load(sys.stdin):
    before = tables()
    said = [tried(row["use"]), tried(row["use"])]
    clean = tables() == before
    entry = next(e for e in tp.plugins.listed() if e["name"] == row["name"])
    listed = {k: entry[k] for k in ("state", "version", "entry_points", "traceback", "remedy", "error")}
    report = tp.plugins.report().split("\\n" + row["name"] + " ")[1].split("\\nh-")[0]
    found = [str(f) for f in tp.plugins.findings() if row["name"] in str(f)]
    imported = row["device"] in sys.modules
    out["rows"][row["what"]] = {
        "said": said, "clean": clean, "works": works(), "report": report, "findings": found, "imported": imported, **listed
    }
out["overlaps"] = [str(o) for o in tp.plugins.overlaps()]
sys.__stdout__.write(chr(10) + json.dumps(out))
"""


@pytest.fixture(scope="module")
def met(write: Callable[..., None], run: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one process saw that met every row of the table, one after the other."""
    site = tmp_path_factory.mktemp("hostile") / "site"
    write(site, "good", "[tripoint.backends.v1]\ngood.strided = good:backend\n", good=GOOD.replace("DEVICE", "good"))
    rows = []
    for row in TABLE:
        metadata = row.metadata.encode("latin-1") if row.metadata is not None else None
        code = {row.device: row.filled(row.module)}
        write(site, row.name, row.filled(row.points), requires=row.requires, metadata=metadata, **code)
        rows.append({**asdict(row), "name": row.name, "device": row.device, "use": row.filled(row.use)})
    out = run(PROGRAM, site, stdin=json.dumps(rows))
    return json.loads(out.splitlines()[-1])


@pytest.fixture(params=TABLE, ids=[row.what for row in TABLE])
def row(request: pytest.FixtureRequest) -> Row:
    """Each row of the table."""
    return request.param  # type: ignore[no-any-return]


def test_listing_imports_nothing_and_the_core_works(met: Any) -> None:
    assert met["modules"] == []
    assert met["first"] == [3.0, 2, 3]


def test_the_others_go_on(met: Any, row: Row) -> None:
    assert met["rows"][row.what]["works"] == [3.0, 2, 3]


STATES = {"contained": "broken", "refused": "broken", "untouched": "found"}


def test_the_verdict(met: Any, row: Row) -> None:
    saw = met["rows"][row.what]
    assert saw["state"] == STATES.get(row.verdict, "loaded")
    first, second = saw["said"]
    words = row.filled(row.words)
    assert first == second  # the second use says what the first said
    if row.verdict in ("harmless", "untouched") or row.use == "None":
        assert "raised" not in first
        assert words in saw["report"]
        return
    assert words in first["text"]
    if row.verdict == "itself":
        assert not first["ours"]
        assert f"from {row.name} 1.0" in first["text"] or "operator.add" in first["text"]
        return
    assert first["ours"]
    assert (row.name if row.verdict == "checked" else f"{row.name} 1.0") in first["text"]
    if row.verdict != "refused":
        assert first["chain"] == ([row.cause] if row.cause else [])


def test_nothing_is_left_of_what_failed(met: Any, row: Row) -> None:
    saw = met["rows"][row.what]
    assert saw["clean"] is (row.verdict in ("contained", "refused", "untouched"))
    if row.verdict in ("refused", "untouched"):
        assert not saw["imported"]


def test_the_report_has_everything(met: Any, row: Row) -> None:
    saw = met["rows"][row.what]
    if saw["state"] != "broken":
        return
    unreadable = "metadata cannot be read" in row.words
    assert saw["version"] == ("?" if unreadable else "1.0")
    if not unreadable:
        (group, name, value), *_ = [(e["group"], e["name"], e["value"]) for e in saw["entry_points"]]
        assert row.filled(row.points).startswith(f"[{group}]\n{name} = {value}\n")
        assert f"entry point: {group}: {name} = {value}" in saw["report"]
    assert saw["remedy"]
    assert f"remedy: {saw['remedy']}" in saw["report"]
    assert f"TRIPOINT_DISABLE={row.name}" in saw["report"]
    kept = "\n".join(saw["traceback"])
    if row.verdict == "contained":
        assert kept.startswith("Traceback (most recent call last):")
        assert row.cause in kept
        if row.cause in ("RuntimeError", "OSError", "SystemExit", "GeneratorExit", "LookupError", "Mute"):
            assert f"{row.device}.py" in kept  # raised by its own code, at this place
    for line in saw["traceback"]:
        assert line in saw["report"]
    assert any(f.startswith("error: ") and f"TRIPOINT_DISABLE={row.name}" in f for f in saw["findings"])


def test_hardware_that_cannot_be_used_is_a_finding(met: Any) -> None:
    for what, words in (("has no hardware", "no card"), ("exits in its probe", "SystemExit: 7")):
        assert any(f.startswith("warning: ") and words in f for f in met["rows"][what]["findings"])


def test_none_of_them_overlaps(met: Any) -> None:
    assert met["overlaps"] == []
