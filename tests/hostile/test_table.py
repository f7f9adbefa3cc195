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


def _with(options: str, before: str = "", after: str = "", of: str = GOOD) -> str:
    """A backend with more arguments, made after ``before``."""
    made = of.replace("payload=Box,", f"payload=Box, {options},") if options else of
    return made.replace("backend = Backend", f"{before}\nbackend = Backend") + after


def _hook(body: str) -> str:
    """A backend that registers what ``body`` does besides, which has ``registry``."""
    hook = f"class More:\n    @hookimpl\n    def tripoint_register(self, registry):\n        {body}\n"
    return f"{GOOD}{hook}        whole.tripoint_register(registry)\nwhole, backend = backend, More()\n"


#: an object that raises SystemExit whatever is asked of it.
SHY = """
class Shy:
    def __getattr__(self, name): raise SystemExit(name)
    def __eq__(self, other): raise SystemExit
    __hash__ = None
    def __bool__(self): raise SystemExit
    def __len__(self): raise SystemExit
    def __repr__(self): raise SystemExit
    def __call__(self, *args, **words): raise SystemExit
    def __reduce_ex__(self, protocol): raise SystemExit
"""
#: a str that raises whatever is asked of it, but for its hash.
SPELL = """
class Spell(str):
    def __eq__(self, other): raise SystemExit
    def __hash__(self): return 0
    def __str__(self): raise SystemExit
    def __format__(self, spec): raise SystemExit
"""
#: a payload whose shape can be had until it is gone.
FADING = GOOD.replace(
    "self.shape, self.dtype = shape, dtype",
    "self.size, self.dtype, self.gone = shape, dtype, None\n    @property\n    def shape(self):\n"
    "        if self.gone: raise self.gone\n        return self.size",
)
STREAMS = """
class Queue:
    def record(self): raise SystemExit(4)
    wait = query = synchronize = record
class Lines:
    def default(self, device): 1 / 0
    def create(self, device): return Queue()
    synchronize = default
"""
POOL = """
from tripoint.plugin import Allocator
class Pool(Allocator):
    caching = False
    def _alloc(self, nbytes): ALLOC
    def _free(self, block): raise SystemExit(5)
"""
ALLOCATES = """
@backend.kernel("sin")
def sin(x):
    backend.allocator().allocate(8)
    return Box(x.shape, x.dtype)
"""
SIN = 'tp.sin(tp.zeros((2,), device="DEVICE"))'
LAYOUT = "[tripoint.backends.v1]\nDEVICE.DEVICE_lay = MODULE:backend\n"
LAYERS = "[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\n[tripoint.layers.v1]\nDEVICE = MODULE:Mine\n"
OPERATOR = GOOD + "import sys\nfrom tripoint.plugin import primitive, rules\n"


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
        "a device is announced by a Device itself, not by 'DEVICE'",
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
        "a kernel of exp on",
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
    # What ends a program, raised by code that computes.
    Row(
        "exits in a kernel",
        "caught",
        "exp raised SystemExit: 3",
        _kernel("backend.kernels(exp=lambda x: exit(3))"),
        "SystemExit",
    ),
    Row(
        "leaves its kernel as a generator",
        "caught",
        "exp raised GeneratorExit",
        _kernel("@backend.kernel('exp')\ndef exp(x): raise GeneratorExit"),
        "GeneratorExit",
    ),
    Row(
        "exits in a conversion",
        "caught",
        "to raised SystemExit: 4",
        GOOD + "backend.to('cpu.strided')(lambda x: exit(4))\n",
        "SystemExit",
        use='tp.zeros((2,), device="DEVICE").to("cpu")',
    ),
    Row(
        "exits in a cast",
        "caught",
        "astype raised SystemExit: 4",
        GOOD
        + "backend.kernel('astype')(lambda x, *, target, copy=True: exit(4))\nbackend.kernel('add')(lambda a, b: a)\n",
        "SystemExit",
        use='tp.zeros((2,), device="DEVICE") + tp.zeros((2,), device="DEVICE", dtype=tp.float64)',
    ),
    Row(
        "exits where a number becomes a tensor",
        "caught",
        "full raised SystemExit: 4",
        GOOD + "backend.kernel('full')(lambda *, shape, fill_value: exit(4))\nbackend.kernel('add')(lambda a, b: a)\n",
        "SystemExit",
        use='tp.zeros((2,), device="DEVICE") + 1',
    ),
    Row(
        "exits in place",
        "caught",
        "add_ raised SystemExit: 6",
        GOOD + "backend.kernel('add_')(lambda a, b: exit(6))\n",
        "SystemExit",
        use='tp.zeros((2,), device="DEVICE").__iadd__(tp.zeros((2,), device="DEVICE"))',
    ),
    Row(
        "exits where it says the point of a result",
        "caught",
        "out= raised SystemExit: 9",
        GOOD + "backend.kernel('sin', out=lambda keys: exit(9))(lambda x: x)\n",
        "SystemExit",
        use=SIN,
    ),
    Row(
        "divides where it says the point of a result",
        "caught",
        "out= raised ZeroDivisionError",
        GOOD + "backend.kernel('sin', out=lambda keys: 1 / 0)(lambda x: x)\n",
        "ZeroDivisionError",
        use=SIN,
    ),
    Row(
        "makes kernels that are numbers",
        "caught",
        "factory(sin) gives a kernel or None, not 7",
        GOOD + "backend.factory(lambda row: 7)\n",
        use=SIN,
    ),
    Row("makes kernels where it has its own", "harmless", "", GOOD + "backend.factory(lambda row: lambda x: 1 / 0)\n"),
    Row(
        "exits in the body of its operator",
        "caught",
        "the body of DEVICE::op, which",
        OPERATOR
        + "@composite(namespace='DEVICE')\ndef op(x: tp.Tensor, /) -> tp.Tensor:\n    sys.exit(3)\nbackend.op = op\n",
        "SystemExit",
        use='(lambda x: module("DEVICE").op(x))(tp.zeros((2,), device="DEVICE"))',
    ),
    Row(
        "exits in a rule of its operator",
        "caught",
        "the shape rule of DEVICE::op, which",
        OPERATOR + "@primitive(namespace='DEVICE', dtype=rules.promoted(), shape=lambda shapes: sys.exit(3))\n"
        "def op(x: tp.Tensor, /) -> tp.Tensor:\n    raise NotImplementedError\n"
        "backend.kernel(op)(lambda x: Box(x.shape))\n",
        "SystemExit",
        use='(lambda x: module("DEVICE").op(x))(tp.zeros((2,), device="DEVICE"))',
    ),
    Row(
        "exits in a dtype rule of its operator",
        "caught",
        "the dtype rule of DEVICE::op, which",
        OPERATOR + "odd = rules.DTypeRule('odd', lambda *given: sys.exit(3), False)\n"
        "@primitive(namespace='DEVICE', dtype=odd)\ndef op(x: tp.Tensor, /) -> tp.Tensor:\n    raise NotImplementedError\n"
        "backend.kernel(op)(lambda x: Box(x.shape))\n",
        "SystemExit",
        use='(lambda x: module("DEVICE").op(x))(tp.zeros((2,), device="DEVICE"))',
    ),
    Row(
        "exits in a derivative",
        "caught",
        "the derivative of exp raised SystemExit: 3",
        GOOD + "backend.derivative('exp', args=('DEVICE.strided',), x=lambda g: exit(3))\n"
        "backend.kernel('ones')(lambda *, shape, target: Box(shape, target.dtype))\n",
        "SystemExit",
        use='tp.exp(tp.zeros((2,), device="DEVICE").requires_grad_()).backward(tp.ones((2,), device="DEVICE"))',
    ),
    Row(
        "exits in a layer",
        "caught",
        "the layer Mine of",
        GOOD + "from tripoint.plugin import Layer\nclass Mine(Layer, below='trace'):\n"
        "    def __call__(self, op, call_next, args, meta): exit(3)\n",
        "SystemExit",
        LAYERS,
        'within(tp.plugins.layer("DEVICE")(), lambda: tp.exp(tp.zeros((2,), device="DEVICE")))',
    ),
    Row(
        "exits where a layer is asked",
        "caught",
        "the layer Mine of",
        GOOD
        + "from tripoint.plugin import Layer\nclass Mine(Layer, below='trace'):\n    def handles(self, op): exit(3)\n",
        "SystemExit",
        LAYERS,
        'within(tp.plugins.layer("DEVICE")(), lambda: tp.exp(tp.zeros((2,), device="DEVICE")))',
    ),
    Row(
        "exits beneath the layer of another",
        "caught",
        "exp raised SystemExit: 3",
        _kernel(
            "backend.kernels(exp=lambda x: exit(3))\nfrom tripoint.plugin import Layer\n"
            "class Mine(Layer, below='trace'):\n"
            "    def __call__(self, op, call_next, args, meta): return call_next(args, meta)\n"
        ),
        "SystemExit",
        LAYERS,
        'within(tp.plugins.layer("DEVICE")(), lambda: tp.exp(tp.zeros((2,), device="DEVICE")))',
    ),
    # What it says of payloads, and gives besides.
    Row(
        "loses the shape of a payload",
        "caught",
        "shape of a tensor on DEVICE.strided.float32 raised OSError: faded",
        FADING,
        "OSError",
        use='gone(tp.zeros((2,), device="DEVICE"), OSError("faded")).shape',
    ),
    Row(
        "exits where a shape is bound",
        "caught",
        "shape of a tensor on DEVICE.strided.float32 raised SystemExit: 2",
        FADING + "backend.kernel('sum')(lambda x, *, axis, keepdims: Box(()))\n",
        "SystemExit",
        use='tp.sum(gone(tp.zeros((2,), device="DEVICE"), SystemExit(2)))',
    ),
    Row(
        "describes by a dict that exits",
        "harmless",
        "",
        "class Odd(dict):\n    def get(self, *args): raise SystemExit\n"
        "    __getitem__ = __iter__ = keys = items = __len__ = get\n"
        + GOOD.replace('{"dtype": p.dtype}', "Odd(dtype=p.dtype)"),
    ),
    Row(
        "has payloads that refuse everything",
        "harmless",
        "",
        SHY + GOOD.replace("class Box:", "class Box(Shy):"),
        use='(repr(tp.zeros((2,), device="DEVICE")), checked(lambda: tp.exp(tp.zeros((2,), device="DEVICE"))))[1]',
    ),
    Row(
        "has an attribute that divides",
        "caught",
        "attribute DEVICE_a of a tensor on DEVICE.DEVICE_lay.float32 raised ZeroDivisionError",
        GOOD.replace("strided, payload", "Layout('DEVICE_lay', attributes={'DEVICE_a': lambda x: 1 / 0}), payload"),
        "ZeroDivisionError",
        LAYOUT,
        'tp.zeros((2,), device="DEVICE", layout="DEVICE_lay").DEVICE_a',
    ),
    Row(
        "is quiet by a number",
        "caught",
        "quiet() raised TypeError",
        _with("quiet=7", of=_kernel("@backend.kernel('exp')\ndef exp(x): raise FloatingPointError")),
        "TypeError",
    ),
    Row(
        "is quiet by exit",
        "caught",
        "quiet() raised SystemExit: 8",
        _with(
            "quiet=Quiet",
            "class Quiet:\n    def __enter__(self): exit(8)",
            of=_kernel("@backend.kernel('exp')\ndef exp(x): raise FloatingPointError"),
        ),
        "SystemExit",
    ),
    Row(
        "is quiet about its own errors",
        "itself",
        "raised by the kernel exp",
        _with(
            "quiet=Quiet",
            "class Quiet:\n    def __enter__(self): pass\n    def __exit__(self, *error): return True",
            of=_kernel("@backend.kernel('exp')\ndef exp(x): raise FloatingPointError"),
        ),
    ),
    Row(
        "divides where its stream is asked for",
        "caught",
        "streams.default raised ZeroDivisionError",
        _with("streams=Lines()", STREAMS),
        "ZeroDivisionError",
        use='(tp.zeros((2,), device="DEVICE"), tp.streams.current("DEVICE"))[0]',
    ),
    Row(
        "exits in its queue",
        "caught",
        "synchronize of a queue of DEVICE raised SystemExit: 4",
        _with("streams=Lines()", STREAMS),
        "SystemExit",
        use='(tp.zeros((2,), device="DEVICE"), tp.Stream("DEVICE").synchronize())[0]',
    ),
    Row(
        "exits as it hands out memory",
        "caught",
        "sin raised SystemExit: 6",
        _with("allocator=Pool()", POOL.replace("ALLOC", "exit(6)"), ALLOCATES),
        "SystemExit",
        use=SIN,
    ),
    Row(
        "exits as it takes back memory",
        "harmless",
        "",
        _with("allocator=Pool()", POOL.replace("ALLOC", "return bytearray(nbytes)"), ALLOCATES),
        use='(tp.sin(tp.zeros((2,), device="DEVICE")), tp.memory.stats("DEVICE"), tp.memory.empty_cache("DEVICE"))[0]',
    ),
    # Names and kinds.
    Row(
        "has a layout that cannot be written",
        "contained",
        "a layout is announced by a Layout itself",
        _with("", "class Mute(Layout):\n    def __str__(self): raise OSError('mute')").replace(
            "strided, payload", "Mute('DEVICE_lay'), payload"
        ),
        "RegistrationError",
        LAYOUT,
    ),
    Row(
        "has a layout that equals every other",
        "contained",
        "a layout is announced by a Layout itself",
        _with(
            "",
            "class All(Layout):\n    def __eq__(self, other): return True\n    __hash__ = lambda self: hash('strided')",
        ).replace("strided, payload", "All('DEVICE_lay'), payload"),
        "RegistrationError",
        LAYOUT,
    ),
    Row(
        "has names that refuse everything",
        "harmless",
        "",
        _with("", SPELL).replace('Device("DEVICE"), strided', 'Device(Spell("DEVICE")), Layout(Spell("DEVICE_lay"))'),
        points=LAYOUT,
        use='tp.exp(tp.zeros((2,), device="DEVICE", layout="DEVICE_lay"))',
    ),
    Row(
        "has a dtype without a name",
        "contained",
        "a dtype is named by letters, digits and _, not 5",
        _with("", "from tripoint.plugin import DType").replace("strided, payload", "strided, DType(5), payload"),
        "DTypeError",
        "[tripoint.backends.v1]\nDEVICE.strided.DEVICE_t = MODULE:backend\n",
    ),
    Row(
        "has attributes that are no names",
        "contained",
        "attribute name must be string",
        GOOD.replace("strided, payload", "Layout('DEVICE_lay', attributes={5: 6}), payload"),
        "TypeError",
        LAYOUT,
    ),
    Row(
        "has a class of payloads that refuses everything",
        "contained",
        "SystemExit: 3",
        GOOD.replace(
            "class Box:",
            "class Shy(type):\n    def __getattribute__(cls, name):\n"
            "        if name.startswith('__') and name != '__dict__': raise SystemExit(3)\n"
            "        return type.__getattribute__(cls, name)\n    def __eq__(cls, other): raise SystemExit(4)\n"
            "    def __hash__(cls): raise SystemExit(5)\nclass Box(metaclass=Shy):",
        ),
        "SystemExit",
    ),
    Row("is an object that refuses everything", "contained", "SystemExit", SHY + "backend = Shy()\n", "SystemExit"),
    Row(
        "has a kernel that refuses everything",
        "contained",
        "SystemExit",
        GOOD + SHY + "backend.kernels(sin=Shy())\n",
        "SystemExit",
    ),
    Row(
        "gives its backend by a module that exits",
        "contained",
        "SystemExit: backend",
        "def __getattr__(name): raise SystemExit(name)\n",
        "SystemExit",
    ),
    Row(
        "has a kernel that is a number",
        "contained",
        "a kernel of sin(x, /) is a function, not 7",
        GOOD + "backend.kernel('sin')(7)\n",
        "RegistrationError",
    ),
    Row(
        "has a part of a function as a kernel",
        "harmless",
        "",
        GOOD + "import functools\n"
        "backend.kernel('ones')(functools.partial(lambda more, *, shape, target: Box(shape, target.dtype), 1))\n",
        use='tp.ones((2,), device="DEVICE")',
    ),
    Row(
        "has a part of a wrong function as a kernel",
        "contained",
        "takes 2 positional arguments; sin(x, /) gives 1: x",
        GOOD + "import functools\nbackend.kernel('sin')(functools.partial(lambda a, b, c: a, 1))\n",
        "RegistrationError",
    ),
    Row(
        "has a derivative that tells no parameters",
        "contained",
        "a derivative is a function whose parameters say what it needs",
        GOOD + "import operator\nbackend.derivative('exp', args=('DEVICE.strided',), x=operator.neg)\n",
        "RegistrationError",
    ),
    Row(
        "has a pattern of its own making",
        "contained",
        "a kernel is registered for every=, a Pattern",
        GOOD + "class Odd(Pattern):\n    def matches(self, key): raise SystemExit\n"
        "backend.kernel('add', args=('DEVICE.strided', Odd()), out=strided)(lambda a, b: a)\n",
        "RegistrationError",
    ),
    Row(
        "registers for a number",
        "contained",
        "a kernel is registered for every=, a Pattern",
        _hook("registry.kernel('sin', exp, every=5)"),
        "RegistrationError",
    ),
    Row(
        "describes payloads of a number",
        "contained",
        "a point is described by a Pattern and the class of its payloads",
        _hook("registry.point(Pattern('DEVICE', 'strided'), 7)"),
        "RegistrationError",
    ),
    Row(
        "registers a kernel again and again", "harmless", "", GOOD + "for _ in range(20000): backend.kernels(exp=exp)\n"
    ),
    Row(
        "registers two hundred kernels for one thing",
        "contained",
        "a second time; the first is",
        GOOD + "for i in range(200): backend.kernel('sin')(lambda x, i=i: x)\n",
        "RegistrationError",
    ),
    Row(
        "wraps a hook",
        "contained",
        "written with async or yield",
        GOOD + "import pluggy\nclass Around:\n    @pluggy.HookimplMarker('tripoint')(wrapper=True)\n"
        "    def tripoint_register(self, registry):\n        return (yield)\nbackend = Around()\n",
        "RegistrationError",
    ),
    Row(
        "has a coroutine as a kernel",
        "caught",
        "exp returned a coroutine",
        _kernel("@backend.kernel('exp')\nasync def exp(x): return x\n"),
    ),
    Row(
        "raises what has an endless name",
        "contained",
        "G...: x",
        "class Giant(Exception): pass\nGiant.__name__ = Giant.__qualname__ = 'G' * 5000\nraise Giant('x' * 100000)",
        "G" * 5000,
    ),
    # What it does to the process.
    Row(
        "raises a warning that is an error",
        "contained",
        "UserWarning: own",
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    warnings.warn('own')\n",
        "UserWarning",
    ),
    Row("turns warnings into errors", "harmless", "", "import warnings\nwarnings.simplefilter('error')\n" + GOOD),
    Row(
        "exits in a thread",
        "harmless",
        "",
        "import threading\nthread = threading.Thread(target=exit)\nthread.start()\nthread.join()\n" + GOOD,
    ),
    Row(
        "forks",
        "harmless",
        "",
        "import os\nchild = os.fork() if hasattr(os, 'fork') else None\nif child == 0: os._exit(0)\n"
        "child is None or os.waitpid(child, 0)\n" + GOOD,
    ),
    Row(
        "is gone from the table of modules",
        "contained",
        "KeyError",
        "import sys\ndel sys.modules[__name__]\n" + GOOD,
        "KeyError",
    ),
    Row(
        "puts another in its place",
        "harmless",
        "",
        GOOD + "import sys, types\nclass Other(types.ModuleType):\n"
        "    def __getattr__(self, name): raise SystemExit(name)\nother = Other(__name__)\n"
        "other.backend = backend\nsys.modules[__name__] = other\n",
    ),
    Row(
        "leaves nonsense in the table of modules",
        "harmless",
        "",
        GOOD + "import sys\nsys.modules['DEVICE.more'] = None\nsys.modules['DEVICE.other'] = 5\n",
    ),
    Row(
        "changes what numpy and the locale do",
        "harmless",
        "",
        "import locale\nimport numpy as np\nlocale.setlocale(locale.LC_ALL, 'C')\nnp.seterr(all='raise')\n" + GOOD,
        use='(tp.exp(tp.zeros((2,), device="DEVICE")), tp.asarray([1.0]) / tp.asarray([0.0]))[0]',
    ),
    Row("has no memory at import", "contained", "MemoryError", "raise MemoryError", "MemoryError"),
    Row("recurses in a kernel", "itself", "recursion", _kernel("@backend.kernel('exp')\ndef exp(x): return exp(x)")),
    Row(
        "recurses as it describes",
        "caught",
        "describe(payload) raised RecursionError",
        _with("", "def said(p): return said(p)").replace('lambda p: {"dtype": p.dtype}', "said"),
        "RecursionError",
    ),
    # What the entry point says.
    Row(
        "names an object with extras",
        "harmless",
        "",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend [gpu,fast]\n",
    ),
    Row(
        "names a module",
        "harmless",
        "",
        GOOD + "@hookimpl\ndef tripoint_register(registry): backend.tripoint_register(registry)\n",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE\n",
    ),
    Row(
        "names what is no object",
        "contained",
        "has the value 'a word or two', which names no object",
        points="[tripoint.backends.v1]\nDEVICE.strided = a word or two\n",
        cause="RegistrationError",
    ),
    Row(
        "names the backend of the core",
        "contained",
        "failed to load: RegistrationError",
        points="[tripoint.backends.v1]\nDEVICE.strided = tripoint.meta:backend\n",
        cause="RegistrationError",
    ),
    Row(
        "claims the operators of the core",
        "contained",
        "a kernel of exp on",
        _hook("registry.kernel('exp', exp, every=Pattern('cpu', 'strided'))"),
        "RegistrationError",
        "[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\n[tripoint.names.v1]\nDEVICE = tripoint.nn:relu\n",
    ),
    Row(
        "names points by the page",
        "harmless",
        "",
        points="[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\nDEVICE."
        + "x" * 5000
        + " = MODULE:backend\nDEVICE.größe = MODULE:backend\n",
    ),
    Row(
        "has a section that is empty",
        "refused",
        "its metadata cannot be read: ValueError: entry_points.txt has a section for tripoint, and nothing in it can be read",
        points="[tripoint.backends.v1]\n",
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


def within(scope, call):
    with scope:
        return call()


def gone(tensor, error):
    tensor._payload.gone = error
    return tensor


def module(name):
    return sys.modules[name]


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
rows = json.load(sys.stdin)
for row in rows:
    before = tables()
    said = [tried(row["use"]), tried(row["use"])]
    clean, imported = tables() == before, row["device"] in sys.modules
    out["rows"][row["what"]] = {"said": said, "clean": clean, "works": works(), "imported": imported}
entries = {entry["name"]: entry for entry in tp.plugins.listed()}
report, found = tp.plugins.report(), [str(f) for f in tp.plugins.findings()]
for row in rows:
    name, saw = row["name"], out["rows"][row["what"]]
    saw.update({k: entries[name][k] for k in ("state", "version", "entry_points", "traceback", "remedy", "error")})
    saw["report"] = report.split("\\n" + name + " ")[1].split("\\nh-")[0]
    saw["findings"] = [f for f in found if name in f]
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
        assert row.cause[:300] in kept  # a name is cut short, too
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
