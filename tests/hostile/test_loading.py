"""Loading at first need: threads, interrupts, the order of imports, and what a listing leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., None]
Run = Callable[..., str]

TOY = """
from tripoint.plugin import Backend, Device, Layout, Pattern, composite, derivative, hookimpl, strided
import tripoint as tp
class P:
    def __init__(self, shape, by="DEVICE"): self.shape, self.by = shape, by
backend = Backend(Device("DEVICE"), strided, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
backend.kernels(exp=lambda x: P(x.shape))
"""
POINT = "[tripoint.backends.v1]\nDEVICE.strided = DEVICE_plugin:backend\n"
TABLES = """
import tripoint as tp
import tripoint.derivatives
from tripoint.schema import rows
tp.exp(tp.zeros((1,), device="meta"))
def tables():
    return [copy for _, copy in tp.plugins.snapshot()], dict(rows), sorted(vars(tp.Tensor))
def lines():
    out = []
    for table, copy in tp.plugins.snapshot():
        named = copy.items() if isinstance(copy, dict) else [("", tuple(copy))]
        for name, entries in named:
            for entry in entries if isinstance(entries, tuple) else (entries,):
                origin = getattr(entry, "origin", repr(entry[1:] if isinstance(entry, tuple) else entry))
                out.append(f"{name} {origin} {getattr(entry, 'args', None)} {getattr(entry, 'pattern', '')}")
    return sorted(line.split(" at 0x")[0] for line in out) + sorted(rows) + sorted(vars(tp.Tensor))
def use(device):
    try:
        return tp.exp(tp.zeros((2,), device=device)).shape
    except tp.errors.TripointError as error:
        return f"{type(error).__name__}: {error}"
"""


def _toy(device: str, before: str = "", after: str = "") -> dict[str, str]:
    return {f"{device}_plugin": (before + TOY + after).replace("DEVICE", device)}


def _install(write: Write, site: Path, device: str, before: str = "", after: str = "", **options: str) -> None:
    write(site, f"{device}-plugin", POINT.replace("DEVICE", device), **_toy(device, before, after), **options)


def test_an_import_may_wait_for_a_thread_that_loads_another_plugin(write: Write, run: Run, tmp_path: Path) -> None:
    waiting = """
import threading
import tripoint as tp
made = []
def other():
    made.append(tp.exp(tp.zeros((2,), device="other")).shape)
    made.append(tp.plugins.commit_lock.acquire(blocking=False))
    tp.plugins.commit_lock.release()
thread = threading.Thread(target=other, daemon=True)
thread.start()
thread.join(60)
print("waited for", made, thread.is_alive())
"""
    hook = """
class Waiting(Backend):
    @hookimpl
    def tripoint_register(self, registry):
        made.clear()
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        thread.join(60)
        print("and then for", made, thread.is_alive())
        backend.tripoint_register(registry)
waiting = Waiting(Device("DEVICE"), strided, payload=P)
"""
    write(
        tmp_path,
        "waiting-plugin",
        "[tripoint.backends.v1]\nwaiting.strided = waiting_plugin:waiting\n",
        **_toy("waiting", waiting, hook),
    )
    _install(write, tmp_path, "other")
    out = run(TABLES + "print(use('waiting'))", tmp_path)
    assert out.splitlines() == [
        "waited for [(2,), True] False",
        "and then for [(2,), True] False",
        "(2,)",
    ]


def test_threads_that_touch_many_devices_first(write: Write, run: Run, tmp_path: Path) -> None:
    count = "import builtins\nbuiltins.imports = getattr(builtins, 'imports', ()) + ('DEVICE',)\n"
    for device in ("a", "b", "c"):
        _install(write, tmp_path, device, count)
    _install(write, tmp_path, "broken", count, "raise OSError('no')\n")
    out = run(
        TABLES
        + """
import builtins, threading
barrier, seen = threading.Barrier(16), []
def touch(n):
    barrier.wait()
    for device in ("a", "b", "c", "broken")[n % 4:] + ("a", "b", "c", "broken")[:n % 4]:
        seen.append(str(use(device))[:11])
threads = [threading.Thread(target=touch, args=(n,), daemon=True) for n in range(16)]
for t in threads: t.start()
for t in threads: t.join(60)
print(any(t.is_alive() for t in threads), seen.count("(2,)"), seen.count("PluginError"), len(seen))
print(sorted(i for i in builtins.imports if i != "broken"), "broken" in builtins.imports)
per = {d: [k.origin.distribution for k in tp.kernels.kernels["exp"]].count(d + "-plugin") for d in ("a", "b", "c", "broken")}
print(per, [p.origin.distribution for p in tp.kernels.points].count("a-plugin"))
print({p.state for n, p in tp.plugins.found().items() if n[0] in "abc" and len(n) == 8}, tp.plugins.found()["a-plugin"].loading)
""",
        tmp_path,
    )
    assert out.splitlines() == [
        "False 48 16 64",
        "['a', 'b', 'c'] True",
        "{'a': 1, 'b': 1, 'c': 1, 'broken': 0} 1",
        "{'loaded'} []",
    ]


def test_another_thread_in_mid_registration_sees_the_whole_or_nothing(write: Write, run: Run, tmp_path: Path) -> None:
    halfway = """
import builtins
class Slow(Backend):
    @hookimpl
    def tripoint_register(self, registry):
        registry.device(Device("DEVICE"))
        builtins.halfway()
        backend.tripoint_register(registry)
slow = Slow(Device("DEVICE"), strided, payload=P)
"""
    write(
        tmp_path,
        "slow-plugin",
        "[tripoint.backends.v1]\nslow.strided = slow_plugin:slow\n",
        **_toy("slow", after=halfway),
    )
    out = run(
        TABLES
        + """
import builtins, threading
first = threading.Lock()
seen = []
def halfway():
    if not first.acquire(blocking=False):
        return
    before = tables()
    looker = threading.Thread(target=lambda: seen.append(use("slow")))
    builtins.known = "slow" in tp.plugins.known_devices
    looker.start(); looker.join(60)
builtins.halfway = halfway
print(use("slow"), seen, builtins.known)
print([p.origin.distribution for p in tp.kernels.points].count("slow-plugin"))
""",
        tmp_path,
    )
    assert out.splitlines() == ["(2,) [(2,)] False", "1"]


@pytest.mark.parametrize("where", ["import", "hook"])
def test_an_interrupt_while_loading_propagates_and_leaves_nothing(
    where: str, write: Write, run: Run, tmp_path: Path
) -> None:
    stated = """
import builtins
@composite(namespace="DEVICE")
def stated(x: tp.Tensor, /) -> tp.Tensor:
    return x
derivative("cos", args=("DEVICE.strided",), x=lambda g: g)
def interrupt():
    if not hasattr(builtins, "again"):
        builtins.again = True
        raise KeyboardInterrupt
"""
    at = {
        "import": "interrupt()\n",
        "hook": """
class Hook(Backend):
    @hookimpl
    def tripoint_register(self, registry):
        whole.tripoint_register(registry)
        interrupt()
whole, backend = backend, Hook(Device("DEVICE"), strided, payload=P)
""",
    }[where]
    _install(write, tmp_path, "vault", after=stated + at)
    out = run(
        TABLES
        + """
before = tables()
plugin = tp.plugins.found()["vault-plugin"]
try:
    use("vault")
except KeyboardInterrupt:
    print(tables() == before, plugin.state, plugin.error, plugin.loading, plugin.failed)
print(use("vault"), plugin.state, "vault::stated" in rows, len(plugin.stated))
print([d.origin.distribution for d in tp.kernels.derivatives["cos"]].count("vault-plugin"))
loaded = lines()
tp.plugins.block("vault-plugin"); tp.plugins.unblock("vault-plugin")
print(use("vault"), lines() == loaded)
""",
        tmp_path,
    )
    assert out.splitlines() == ["True found None [] set()", "(2,) loaded True 1", "1", "(2,) True"]


def test_a_commit_that_is_interrupted_is_undone(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "vault")
    out = run(
        TABLES
        + """
from tripoint.plugins import registry
before = tables()
real = registry.declare_attributes
def interrupted():
    registry.declare_attributes = real
    raise KeyboardInterrupt
registry.declare_attributes = interrupted  # the last thing that a commit does
try:
    use("vault")
except KeyboardInterrupt:
    print(tables() == before, tp.plugins.found()["vault-plugin"].state)
print(use("vault"))
""",
        tmp_path,
    )
    assert out.splitlines() == ["True found", "(2,)"]


def test_either_order_of_imports_gives_equal_registries(write: Write, run: Run, tmp_path: Path) -> None:
    extra = """
@composite(namespace="DEVICE")
def stated(x: tp.Tensor, /) -> tp.Tensor:
    return x
derivative("cos", args=("DEVICE.strided",), x=lambda g: g)
backend.derivative("sin", args=("DEVICE.strided",), x=lambda g: g)
"""
    for device in ("a", "b"):
        _install(write, tmp_path, device, after=extra)
    uses = "print(use('a'), use('b'), use('meta'))\nprint(*lines(), sep='\\n')\n"
    outs = {
        run(first + TABLES + uses, tmp_path)
        for first in (
            "",
            "import a_plugin\n",
            "import b_plugin, tripoint, a_plugin\n",
            "import tripoint\ntripoint.zeros((1,), device='b')\nimport a_plugin\n",
        )
    }
    assert len(outs) == 1
    out = outs.pop()
    assert out.startswith("(2,) (2,) (2,)\n")
    assert "a::stated" in out


def test_fifty_plugins_that_sleep_are_listed_and_left_alone(write: Write, run: Run, tmp_path: Path) -> None:
    for n in range(50):
        points = f"[tripoint.backends.v1]\nsleepy{n}.strided = sleepy_{n}:backend\ncpu.lay{n} = sleepy_{n}:backend\n"
        write(
            tmp_path, f"sleepy-{n}", points, **{f"sleepy_{n}": "import time\ntime.sleep(1)\nraise OSError('slept')\n"}
        )
    out = run(
        """
import builtins, sys
real, opened = builtins.open, []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
import tripoint as tp
names, layouts = tp.plugins.device_names(), tp.plugins.layout_names()
tp.plugins.report(); tp.plugins.listed(); tp.plugins.names(); tp.plugins.dtype_names()
print(len([n for n in names if n.startswith("sleepy")]), len([n for n in layouts if n.startswith("lay")]))
reads = [name for name in opened if "sleepy_" in name]
print(len(reads), {name.rpartition("/")[2] for name in reads})
tp.plugins.findings()  # reads what the plugins need and where their files are, too
print(tp.asarray([1.0, 2.0]).sum().item(), [m for m in sys.modules if m.startswith("sleepy")])
""",
        tmp_path,
    )
    listed, reads, works = out.splitlines()
    assert listed == "50 50"
    count, files = reads.split(" ", 1)
    assert (
        int(count) <= 3 * 50
    )  # entry points, looked into and then parsed, and the metadata; however often it is listed
    assert "sleepy_1.py" not in files
    assert works == "3.0 []"


def test_unregister_restores_the_tables_exactly(write: Write, run: Run, tmp_path: Path) -> None:
    many = """
from tripoint.plugin import DType
odd = Layout("DEVICE_layout", attributes={"DEVICE_attribute": lambda x: 1, "view": lambda x: 2})
kind = DType("DEVICE_kind", plain=tp.float32, attributes={"DEVICE_other": lambda x: 3})
backend = Backend(Device("DEVICE"), odd, kind, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
backend.kernels(exp=lambda x: P(x.shape))
derivative("cos", args=("DEVICE.strided",), x=lambda g: g)
backend.derivative("sin", args=(kind,), x=lambda g: g)
"""
    points = "[tripoint.backends.v1]\nvault.vault_layout.vault_kind = vault_plugin:backend\n"
    write(tmp_path, "vault-plugin", points, **_toy("vault", after=many))
    out = run(
        TABLES
        + """
before = tables()
def made():
    x = tp.zeros((2,), device="vault", layout="vault_layout", dtype="vault_kind")
    return x.vault_attribute, x.view, x.vault_other
print(made())
loaded = lines()
changed = [i for i, (a, b) in enumerate(zip(before[0], tables()[0])) if a != b]
print(changed, hasattr(tp.Tensor, "vault_attribute"), hasattr(tp.Tensor, "vault_other"))
for _ in range(2):
    tp.plugins.unregister("vault-plugin")
    print(tables() == before, tp.plugins.found()["vault-plugin"].state)
    print(made(), lines() == loaded)
tp.plugins.block("vault-plugin")
print(tables() == before)
""",
        tmp_path,
    )
    # Every table but that of disputed names.
    expected = ["(1, 2, 3)", "[0, 1, 2, 3, 4, 5, 6] True True", *["True found", "(1, 2, 3) True"] * 2, "True"]
    assert out.splitlines() == expected


def test_operators_of_a_plugin_come_and_go_with_it(write: Write, run: Run, tmp_path: Path) -> None:
    stated = """
from tripoint.plugin import rules
@composite(namespace="DEVICE", dtype=rules.promoted(), shape=rules.same)
def stated(x: tp.Tensor, /) -> tp.Tensor:
    return tp.exp(x)
derivative(stated, x=lambda g: g * 7.0)
"""
    _install(write, tmp_path, "vault", after=stated)
    # Another plugin's kernel of that operator, and its derivative: they wait while the operator is gone.
    more = """
import vault_plugin
backend.kernel(vault_plugin.stated)(lambda x: P(x.shape))
"""
    _install(write, tmp_path, "other", after=more)
    out = run(
        TABLES
        + """
x = tp.asarray([1.0]).requires_grad_()
tp.sum(tp.exp(x)).backward()
x.grad = None
before = tables()
print(use("vault"), "vault::stated" in rows)
from vault_plugin import stated
for take, back in (
    (tp.plugins.unregister, lambda name: use("vault")),
    (tp.plugins.block, tp.plugins.unblock),
):
    take("vault-plugin")
    print(tables() == before, "vault::stated" in rows, "vault::stated" in tp.ops(), stated(tp.zeros((2,), device="meta")).shape)
    try:  # of what is gone nothing counts, and what is left says so
        tp.sum(stated(x)).backward()
        print("went through its parts", round(x.grad.item(), 3))
    except tp.errors.TripointError as error:
        print(type(error).__name__, error)
    x.grad = None
    back("vault-plugin")
    print("vault::stated" in rows, use("vault"))
    tp.sum(stated(x)).backward()
    print(x.grad.item())
    x.grad = None
use("other")
tp.plugins.unregister("vault-plugin")
print([k.operator for k in tp.plugins.waiting_kernels()], tp.plugins.found()["other-plugin"].state)
print(use("vault"), tp.plugins.waiting_kernels(), stated(tp.zeros((2,), device="other")).shape)
""",
        tmp_path,
    )
    used, *rest = out.splitlines()
    assert used == "(2,) True"
    once = ["True False False (2,)", "went through its parts 2.718", "True (2,)", "7.0"]
    assert rest[:8] == once * 2
    assert rest[8] == "['vault::stated'] loaded"
    assert rest[9] == "(2,) [] (2,)"


def test_the_same_distribution_twice_is_no_change(write: Write, run: Run, tmp_path: Path) -> None:
    # As where a native library registers the device before the package does, and discovery does it again.
    _install(
        write, tmp_path, "vault", after="from tripoint.plugin import register\nregister(backend)\nregister(backend)\n"
    )
    out = run(
        "import vault_plugin\n"
        + TABLES
        + """
print(use("vault"))
before = tables()
plugin = tp.plugins.found()["vault-plugin"]
again = tp.plugins.Registry(plugin.name, plugin.version)
vault_plugin.backend.tripoint_register(again)
again.commit()
vault_plugin.register(vault_plugin.backend)
print(use("vault"))
tp.plugins.load(plugin); tp.plugins.rescan()
by = [k.origin.distribution for k in tp.kernels.kernels["exp"]]
print(by.count("vault-plugin"), tables() == before)
""",
        tmp_path,
    )
    first, second, last = out.splitlines()
    assert (first, second) == ("(2,)", "(2,)")
    assert last == "1 True"
