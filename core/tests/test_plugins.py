"""Plugins: found by metadata, loaded when needed, contained when broken, reported, blocked, and many side by side."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tripoint as tp
from tripoint import plugins
from tripoint.errors import PluginError, RegistrationError
from tripoint.plugin import Backend, Device, register, strided

_TOY = """
from tripoint.plugin import Backend, Device, strided
class P:
    def __init__(self, shape): self.shape = shape
backend = Backend(Device("{device}"), strided, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
backend.kernels(exp=lambda x: P(x.shape))
"""


def _entry(device: str, module: str, attribute: str = "backend") -> str:
    return f"[tripoint.backends.v1]\n{device}.strided = {module}:{attribute}\n"


_USE = """
import tripoint as tp
def use(device):
    try:
        return tp.exp(tp.zeros((2,), device=device)).shape
    except tp.errors.TripointError as error:
        return f"{type(error).__name__}: {error}"
"""


# Broken ------------------------------------------------------------------------------------------------------------------

_broken = [
    ("import error", "import nothing_of_that_name_at_all", "ModuleNotFoundError"),
    ("library", "raise OSError('libfoo.so.3: undefined symbol: bar')", "undefined symbol: bar"),
    ("exit", "import sys; sys.exit(3)", "SystemExit"),
    ("base exception", "class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd"),
    ("attribute", "other = 1", "AttributeError"),
    ("no hooks", "backend = object()", "without tripoint_register"),
    ("nothing", "backend = None", "without tripoint_register"),
    ("syntax", "def (", "SyntaxError"),
    (
        "half",
        _TOY.format(device="vault") + "backend.kernels(nonsense=lambda x: x)\n",
        "no operator 'nonsense'",
    ),
    (
        "raises in register",
        """
from tripoint.plugin import hookimpl, Device, Pattern, Layout, derivative
derivative("exp", args=(Pattern("vault"),), x=lambda g: g)
class Backend:
    @hookimpl
    def tripoint_register(self, registry):
        registry.device(Device("vault"))
        registry.layout(Layout("vaultlayout"))
        registry.kernel("exp", lambda x: x, every=Pattern("vault"))
        raise RuntimeError("half way")
backend = Backend()
""",
        "half way",
    ),
]


@pytest.mark.parametrize(("what", "module", "words"), _broken, ids=[b[0] for b in _broken])
def test_a_broken_plugin_breaks_itself_alone(
    what: str, module: str, words: str, run_program: Any, write_distribution: Any
) -> None:
    site = write_distribution("broken-vault", _entry("vault", "broken_vault"), version="4.2", broken_vault=module)
    write_distribution("good-shed", _entry("shed", "good_shed"), good_shed=_TOY.format(device="shed"))
    out = run_program(
        _USE
        + """
import tripoint.derivatives  # which load late
from tripoint import kernels, layouts
tp.exp(tp.zeros((1,), device="meta"))
def tables(): return ({k: len(v) for k, v in kernels.kernels.items()}, {k: len(v) for k, v in kernels.derivatives.items()},
                      len(kernels.points), dict(layouts.registered), dict(tp.plugins.known_devices))
before = tables()
print(use("vault").replace(chr(10), " "))
print(use("vault").replace(chr(10), " "))
print(tables() == before)
print(use("shed"), use("meta"), use("cpu"))
print(tp.plugins.found()["broken-vault"].state)
print(tp.plugins.report())
""",
        site=site,
    )
    first, second, clean, others, state, *report = out.splitlines()
    assert first == second
    assert first.startswith("PluginError: ")
    assert "broken-vault 4.2" in first
    assert words in first
    assert clean == "True"
    assert others == "(2,) (2,) (2,)"
    assert state == "broken"
    text = "\n".join(report)
    assert "broken-vault 4.2: broken; provides vault.strided" in text
    assert "Traceback" in text
    assert words in text
    assert "TRIPOINT_DISABLE=broken-vault" in text
    assert "tripoint.plugins.block('broken-vault')" in text
    assert "good-shed 1.0: loaded; provides shed.strided" in text


def test_the_cause_stays_attached(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "broken-vault",
        _entry("vault", "broken_vault"),
        broken_vault="def inner():\n    raise OSError('libfoo')\ninner()\n",
    )
    out = run_program(
        """
        import traceback, tripoint as tp
        try:
            tp.zeros((1,), device="vault")
        except tp.errors.PluginError as error:
            print(isinstance(error.__cause__, OSError), traceback.format_exc().count("in inner"))
        """,
        site=site,
    )
    assert out.split() == ["True", "1"]


def test_an_interrupt_during_loading_ends_the_program_and_not_the_plugin(
    run_program: Any, write_distribution: Any
) -> None:
    site = write_distribution(
        "interrupted",
        _entry("vault", "interrupted"),
        interrupted="import builtins\nif not hasattr(builtins, 'tried'):\n    builtins.tried = 1\n    raise KeyboardInterrupt\n"
        + _TOY.format(device="vault"),
    )
    out = run_program(
        _USE
        + """
try:
    use("vault")
except KeyboardInterrupt:
    print("interrupted", tp.plugins.found()["interrupted"].state)
print(use("vault"))
""",
        site=site,
    )
    assert out.splitlines() == ["interrupted found", "(2,)"]


def test_a_broken_plugin_can_be_mended_and_tried_again(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "mended", _entry("vault", "mended"), mended="import not_there_yet\n" + _TOY.format(device="vault")
    )
    out = run_program(
        _USE
        + f"""
print(use("vault")[:11])
open({str(site)!r} + "/not_there_yet.py", "w").close()
import importlib
importlib.invalidate_caches()
print(use("vault")[:11])
tp.plugins.unblock("mended")
print(use("vault"))
print("Traceback" in tp.plugins.report())
""",
        site=site,
    )
    assert out.splitlines() == ["PluginError", "PluginError", "(2,)", "False"]


def test_metadata_that_cannot_be_read_breaks_itself_alone(run_program: Any, write_distribution: Any) -> None:
    good = write_distribution("good-shed", _entry("shed", "good_shed"), good_shed=_TOY.format(device="shed"))
    write_distribution("no-metadata", _entry("vaulta", "nothing"), metadata="")
    write_distribution("garbled", "[tripoint.backends.v1]\nthis line is no entry point\n")
    write_distribution("other-garbled", "[other.group]\nneither is this\n")
    (good / "no_info-1.0.dist-info").mkdir()
    (good / "binary-1.0.dist-info").mkdir()
    (good / "binary-1.0.dist-info" / "entry_points.txt").write_bytes(b"[tripoint.backends.v1]\n\xff\xfe\x00 = \xff")
    out = run_program(
        _USE
        + """
print(use("shed"), use("meta"), use("cpu"))
print(tp.plugins.report())
print(use("vaulta"))
""",
        site=good,
    )
    assert out.startswith("(2,) (2,) (2,)\n")
    assert "garbled ?: broken; provides nothing readable" in out
    assert "other-garbled" not in out
    assert "no-metadata" in out
    assert "PluginError: the device 'vaulta'" in out


@pytest.mark.parametrize(
    "name", ["cpu", "cpu.", ".strided", "cpu.strided.qint8.more", "c pu.strided", "cp*.strided", "vault.strided+", "+"]
)
def test_an_entry_point_name_that_is_no_point(name: str, run_program: Any, write_distribution: Any) -> None:
    wrong = [part for part in name.split("+") if part != "vault.strided"]
    with pytest.raises(RegistrationError, match="is no point"):
        plugins.Claim(wrong[0])
    site = write_distribution(
        "misnamed", f"[tripoint.backends.v1]\n{name} = misnamed:backend\n", misnamed=_TOY.format(device="vault")
    )
    out = run_program(
        _USE + "print(use('meta'), use('cpu'))\nprint(tp.plugins.report())\nprint(use('vault'))", site=site
    )
    assert out.startswith("(2,) (2,)\n")
    assert "misnamed 1.0: broken" in out
    assert "is no point" in out
    assert "DeviceError" in out or "PluginError" in out


def test_entry_points_of_a_distribution_name_one_object(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "torn",
        "[tripoint.backends.v1]\nvault.strided = torn:backend\nshed.strided = torn:other\n",
        torn=_TOY.format(device="vault") + "other = backend\n",
    )
    out = run_program(_USE + "print(use('vault'))", site=site)
    assert "name different objects: torn:backend, torn:other" in out


def test_one_object_registers_two_backends(write_distribution: Any, run_program: Any) -> None:
    site = write_distribution(
        "two",
        "[tripoint.backends.v1]\nbarn.strided = two:both\nsilo.strided = two:both\n",
        two="""
        from tripoint.plugin import Backend, Device, hookimpl, strided
        class P:
            def __init__(self, shape): self.shape = shape
        made = [Backend(Device(name), strided, payload=P) for name in ("barn", "silo")]
        for one in made:
            one.kernel("zeros")(lambda *, shape: P(shape))
        class Both:
            @hookimpl
            def tripoint_register(self, registry):
                for one in made:
                    one.tripoint_register(registry)
            @hookimpl
            def tripoint_probe(self):
                return None
        both = Both()
        """,
    )
    out = run_program(
        """
        import tripoint as tp
        print(*[tp.zeros((n,), device=d).device for n, d in ((1, "silo"), (2, "barn"))])
        print(tp.plugins.found()["two"].state)
        """,
        site=site,
    )
    assert out.splitlines() == ["silo barn", "loaded"]


def test_a_point_that_no_entry_point_names_is_not_described(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution("liar", _entry("vault", "liar"), liar=_TOY.format(device="shed"))
    out = run_program(_USE + "print(use('vault'))", site=site)
    assert (
        "describes the point shed.strided.plain, which none of its entry points names" in out
        or "does not provide" in out
    )


# Lazy ------------------------------------------------------------------------------------------------------------------


def test_sleeping_plugins_are_not_loaded_unless_named(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution("good-shed", _entry("shed", "good_shed"), good_shed=_TOY.format(device="shed"))
    for n in range(20):
        entries = (
            _entry(f"sleepy{n}", f"sleepy{n}")
            + f"cpu.sleepylayout{n} = sleepy{n}:backend\nshed.lay{n} = sleepy{n}:backend\n"
        )
        if n == 19:
            entries += "sleepy19.strided.odd19 = sleepy19:backend\n[tripoint.names.v1]\nsleepyname = sleepy19\n"
        write_distribution(
            f"sleepy-{n}", entries, **{f"sleepy{n}": "import time\ntime.sleep(1)\nraise ImportError('slept')\n"}
        )
    out = run_program(
        _USE
        + """
import sys
print(use("meta"), use("shed"), use("cpu"), tp.asarray([1.0], device="cpu").item())
for bad in ("nowhere", "sleep"):
    use(bad)
tp.plugins.report(); tp.plugins.names(); tp.plugins.block("sleepy-3"); tp.plugins.unblock("sleepy-3")
print([m for m in sys.modules if m.startswith("sleepy")])
print(use("sleepy5")[:11], [m for m in sys.modules if m.startswith("sleepy")])
print("slept" in tp.plugins.report())
""",
        site=site,
    )
    assert out.splitlines() == ["(2,) (2,) (2,) 1.0", "[]", "PluginError []", "True"]


def test_naming_a_device_layout_or_dtype_loads_who_provides_it(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "three",
        "[tripoint.backends.v1]\nvault.threelay.threetype = three:backend\n",
        three="""
        from tripoint.plugin import Backend, Device, DType, Layout
        class P:
            shape = (2,)
        backend = Backend(Device("vault"), Layout("threelay"), DType("threetype"), payload=P)
        backend.kernel("zeros")(lambda *, shape: P())
        """,
    )
    for expression in (
        'tp.device("vault").device',
        'tp.plugins.find_layout("threelay")',
        'tp.dtypes.as_dtype("threetype")',
        'tp.zeros((2,), device="vault", layout="threelay", dtype="threetype")._key',
    ):
        out = run_program(f"import tripoint as tp\nprint({expression}, tp.plugins.found()['three'].state)", site=site)
        assert out.split()[-1] == "loaded"


def test_the_owner_of_a_device_is_loaded_before_who_adds_to_it(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution("z-owner", _entry("vault", "z_owner"), z_owner=_TOY.format(device="vault"))
    write_distribution(
        "a-adds", "[tripoint.backends.v1]\nvault.addlay = a_adds:backend\n", a_adds="raise ImportError('unneeded')"
    )
    out = run_program(_USE + "print(use('vault'))\nprint(tp.plugins.found()['a-adds'].state)", site=site)
    assert out.splitlines() == ["(2,)", "found"]


# Hardware --------------------------------------------------------------------------------------------------------------

_PROBED = _TOY.format(device="vault") + "@backend.probe\ndef probe():\n    print('probed')\n    {body}\n"


def test_hardware_that_is_absent_is_named_with_its_reason(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "vault-plugin",
        _entry("vault", "vault_plugin"),
        version="0.9",
        vault_plugin=_PROBED.format(body="return 'no driver: install x'"),
    )
    out = run_program(
        _USE
        + """
with tp.device("vault") as scope:
    print(scope.device)
print(use("vault"))
print(use("vault") == use("vault"))
print(tp.plugins.report())
""",
        site=site,
    )
    lines = out.splitlines()
    assert lines[0] == "vault"
    assert lines[1] == "probed"  # once, and not by naming the device
    assert (
        lines[2]
        == "DeviceError: vault.strided.float32 is provided by vault-plugin 0.9, but cannot be used: no driver: install x"
    )
    assert lines[3] == "True"
    assert "vault-plugin 0.9: loaded; provides vault.strided" in out
    assert "unavailable: no driver: install x" in out


def test_a_probe_that_raises_is_a_reason_too(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "vault-plugin", _entry("vault", "vault_plugin"), vault_plugin=_PROBED.format(body="raise SystemExit('bye')")
    )
    out = run_program(_USE + "print(use('vault'))\nprint(use('meta'))\nprint(tp.plugins.report())", site=site)
    assert "DeviceError" in out
    assert "its probe raised SystemExit: bye" in out
    assert "(2,)" in out
    assert "Traceback" in out


def test_a_probe_that_answers_none_is_asked_once(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "vault-plugin", _entry("vault", "vault_plugin"), vault_plugin=_PROBED.format(body="return None")
    )
    assert run_program(_USE + "print(use('vault'), use('vault'))", site=site).split("\n")[:2] == ["probed", "(2,) (2,)"]


@pytest.mark.usefixtures("registry_kept")
def test_a_backend_of_the_running_program_is_probed_as_well() -> None:
    toy = Backend(Device("selfmade"), strided, payload=object)
    toy.probe(lambda: "not today")
    register(toy)
    with pytest.raises(tp.errors.DeviceError, match="running program, but cannot be used: not today"):
        tp.zeros((2,), device="selfmade")


# Blocking --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["vault-plugin", "Vault_Plugin", "vault.strided", "nothing, vault-plugin ,"])
def test_disabled_by_the_environment(word: str, run_program: Any, write_distribution: Any) -> None:
    site = write_distribution("Vault.plugin", _entry("vault", "vault_plugin"), vault_plugin=_TOY.format(device="vault"))
    out = run_program(
        _USE
        + "import sys\nprint(use('vault'))\nprint('vault_plugin' in sys.modules, use('meta'))\nprint(tp.plugins.report())",
        site=site,
        env={"TRIPOINT_DISABLE": word},
    )
    assert "PluginError" in out
    assert "which is blocked" in out
    assert "False (2,)" in out
    assert "vault-plugin 1.0: blocked" in out


def test_attributes_that_layouts_and_dtypes_declare() -> None:
    from tripoint import plugins as tables
    from tripoint.errors import TensorAttributeError
    from tripoint.plugin import Layout, Registry

    strided_tensor = tp.zeros((2,), device="meta")
    ragged = Layout(
        "ragged_of_tests", attributes={"row_lengths": lambda x: "lengths", "view": lambda x: "a view of its own"}
    )
    registry = Registry()
    registry.layout(ragged)
    registry.commit()
    try:
        mine = tp.Tensor()
        mine._key = strided_tensor._key.replace(layout=ragged)
        assert mine.row_lengths == "lengths"  # type: ignore[attr-defined]
        assert mine.view == "a view of its own"  # type: ignore[attr-defined]
        assert "row_lengths" in dir(mine)
        assert "row_lengths" not in dir(strided_tensor)
        assert not hasattr(strided_tensor, "row_lengths")
        with pytest.raises(TensorAttributeError, match=r"no attribute 'row_lengths'; it is for ragged_of_tests"):
            strided_tensor.row_lengths  # type: ignore[attr-defined]
        clash = Registry("clash-of-tests")
        clash.layout(Layout("clash_of_tests", attributes={"sum": lambda x: 0}))
        with pytest.raises(RegistrationError, match="declares the attribute 'sum', which every tensor has"):
            clash.commit()
    finally:
        tables.unregister(None)
    assert not hasattr(tp.Tensor, "row_lengths")
    with pytest.raises(TensorAttributeError, match="here it is reshape"):
        strided_tensor.view  # type: ignore[attr-defined]


def test_blocking_and_unblocking(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "vault-plugin",
        _entry("vault", "vault_plugin") + "[tripoint.names.v1]\nvaultname = vault_plugin:P\n",
        vault_plugin=_TOY.format(device="vault"),
    )
    out = run_program(
        _USE
        + """
x = tp.zeros((2,), device="vault")
print(use("vault"), tp.vaultname.__name__)
tp.plugins.block("vault.strided")
print(use("vault"))
for call in (lambda: tp.exp(x), lambda: tp.vaultname):
    try:
        call()
    except tp.errors.PluginError as error:
        print(error)
tp.plugins.rescan()
print(tp.plugins.found()["vault-plugin"].state, len([p for p in tp.kernels.points if p.pattern.device == "vault"]))
tp.plugins.unblock("vault-plugin")
print(use("vault"), tp.exp(x).shape, tp.vaultname.__name__)
tp.plugins.unregister("vault-plugin")
print(len([p for p in tp.kernels.points if p.pattern.device == "vault"]), "vault" in tp.plugins.known_devices)
print(use("vault"))
try:
    tp.plugins.block("nothing-like-it")
except tp.errors.PluginError as error:
    print(error)
""",
        site=site,
    )
    lines = out.splitlines()
    assert lines[0] == "(2,) P"
    assert all("which is blocked" in line and "unblock('vault-plugin')" in line for line in lines[1:4])
    assert lines[4] == "blocked 0"
    assert lines[5] == "(2,) (2,) P"
    assert lines[6:8] == ["0 False", "(2,)"]
    assert lines[8].startswith("no plugin 'nothing-like-it' is installed; installed: ")


# Names -----------------------------------------------------------------------------------------------------------------


def test_names_that_plugins_add_to_the_namespace(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "namer",
        "[tripoint.names.v1]\nnamed = namer:thing\nmissing = namer:nothing\n",
        namer="thing = 42\n",
    )
    write_distribution(
        "namer-broken", "[tripoint.names.v1]\nlost = namer_broken:thing\n", namer_broken="raise OSError('gone')\n"
    )
    out = run_program(
        """
        import sys, tripoint as tp
        print("named" in tp.plugins.names(), "namer" in sys.modules)
        print(tp.named, tp.named, tp.plugins.found()["namer"].state)
        for name in ("missing", "lost", "lost"):
            try:
                getattr(tp, name)
            except tp.errors.PluginError as error:
                print(type(error.__cause__).__name__, error)
        print(tp.named)
        print(tp.plugins.report())
        """,
        site=site,
    )
    lines = out.splitlines()
    assert lines[:2] == ["True False", "42 42 loaded"]
    assert lines[2].startswith("AttributeError tripoint.missing is provided by namer 1.0")
    assert lines[3].startswith("OSError tripoint.lost is provided by namer-broken 1.0")
    assert lines[3] == lines[4]
    assert lines[5] == "42"
    assert "namer 1.0: loaded; provides tripoint.named, tripoint.missing" in out
    assert "namer-broken 1.0: broken; provides tripoint.lost" in out
    assert "IndexError" not in out


def test_unknown_names_say_what_is_known() -> None:
    for call, words in (
        (lambda: tp.zeros((1,), device="thunder"), r"unknown device 'thunder'; known devices: .*cpu.*meta"),
        (lambda: tp.zeros((1,), layout="thunder"), r"unknown layout 'thunder'; known layouts: .*strided"),
        (lambda: tp.zeros((1,), dtype="thunder"), r"unknown dtype 'thunder'; known dtypes: .*float32"),
        (lambda: tp.zeros((1,), device=3), "a device is a name"),
        (lambda: tp.zeros((1,), layout=3), "a layout is a name"),
    ):
        with pytest.raises(tp.errors.TripointError, match=words):
            call()


def test_what_to_install_is_said_for_what_is_first_party(
    run_program: Any, write_distribution: Any, tmp_path: Path
) -> None:
    # An interpreter that sees the core alone: no site-packages but what the core needs.
    core = Path(tp.__file__).parents[1]
    import pluggy

    site = tmp_path / "core-only"
    site.mkdir()
    (site / "pluggy").symlink_to(Path(pluggy.__file__).parent)
    (site / "tripoint").symlink_to(core / "tripoint")
    info = site / "tripoint-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tripoint\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[tripoint.backends.v1]\nmeta.strided = tripoint.meta:backend\n")
    out = run_program(
        """
        import tripoint as tp
        print(tp.zeros((2,), device="meta").shape)
        for call in (lambda: tp.zeros((1,)), lambda: tp.zeros((1,), device="cuda"), lambda: tp.zeros((1,), layout="sparse_coo"),
                     lambda: tp.zeros((1,), dtype="qint8"), lambda: tp.quantize, lambda: tp.zeros((1,), dtype="cuda")):
            try:
                print(call())
            except tp.errors.TripointError as error:
                print(type(error).__name__, error)
        """,
        site=site,
        flags=("-S",),
    )
    lines = out.splitlines()
    assert lines[0] == "(2,)"
    for line, kind, package in zip(
        lines[1:6],
        ["DeviceError", "DeviceError", "LayoutError", "DTypeError", "TensorAttributeError"],
        ["tripoint-dense-cpu", "tripoint-cuda-cupy", "tripoint-sparse-coo", "tripoint-quantized", "tripoint-quantized"],
        strict=True,
    ):
        assert line.startswith(kind)
        folder = package.removeprefix("tripoint-").replace("-", "_")
        assert f"pip install {package} (in a checkout: ./plugins/{folder})" in line
    assert "pip install" not in lines[6]  # cuda is no dtype


# Many ------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("registry_kept")
def test_ten_devices_side_by_side() -> None:
    class Block:
        def __init__(self, owner: str, shape: tuple[int, ...]) -> None:
            self.owner = owner
            self.shape = shape

    def backend(name: str) -> Backend:
        made = Backend(Device(name), strided, payload=Block)
        made.kernel("zeros")(lambda *, shape: Block(name, shape))
        made.kernels(add=lambda a, b: Block(f"{name}:{a.owner}:{b.owner}", a.shape))
        return made

    names = [f"row{n}" for n in range(10)]
    for name in names:
        register(backend(name))
    tensors = [tp.zeros((2,), device=name) for name in names]
    assert len({t._key for t in tensors}) == 10
    for name, t in zip(names, tensors, strict=True):
        assert str(t.device) == name
        assert (t + t)._payload.owner == f"{name}:{name}:{name}"
    for a, b in pairwise(tensors):
        with pytest.raises(tp.errors.DeviceError, match="several devices"):
            a + b


def test_ten_installed_devices_side_by_side(run_program: Any, write_distribution: Any) -> None:
    for n in range(10):
        site = write_distribution(
            f"row-{n}", _entry(f"row{n}", f"row_{n}"), **{f"row_{n}": _TOY.format(device=f"row{n}")}
        )
    out = run_program(
        _USE
        + """
print([use(f"row{n}") for n in range(10)] == [(2,)] * 10)
rows = [n for n, p in tp.plugins.found().items() if p.state == "loaded" and n.startswith("row")]
print(sorted(rows) == [f"row-{n}" for n in range(10)])
""",
        site=site,
    )
    assert out.split() == ["True", "True"]


def test_a_distribution_twice_on_the_path_counts_once(
    run_program: Any, write_distribution: Any, tmp_path: Path
) -> None:
    import shutil

    site = write_distribution("vault-plugin", _entry("vault", "vault_plugin"), vault_plugin=_TOY.format(device="vault"))
    shutil.copytree(site, tmp_path / "twin")
    (tmp_path / "twin" / "vault_plugin-1.0.dist-info").rename(tmp_path / "twin" / "vault_plugin-0.5.dist-info")
    out = run_program(
        f"import sys\nsys.path.insert(1, {str(site)!r})\nsys.path.append({str(tmp_path / 'twin')!r})\n"
        + _USE
        + "print(use('vault'), tp.plugins.found()['vault-plugin'].version)\n"
        "p = tp.plugins.found()['vault-plugin']\n"
        "before = dict(tp.kernels.kernels)\n"
        "print(tp.plugins.load(p), tp.plugins.Registry(p.name, p.version, p).commit(), before == tp.kernels.kernels)",
    )
    assert out.splitlines() == ["(2,) 1.0", "True None True"]


def test_rescanning_finds_what_was_installed_meanwhile_and_keeps_what_is_loaded(
    run_program: Any, write_distribution: Any
) -> None:
    site = write_distribution("first-one", _entry("vault", "first_one"), first_one=_TOY.format(device="vault"))
    later = write_distribution("later-one", _entry("shed", "later_one"), later_one=_TOY.format(device="shed"))
    hidden = site / "later_one-1.0.dist-info"
    hidden.rename(site / "later_one.hidden")
    out = run_program(
        _USE
        + f"""
import os
print(use("vault"), use("shed")[:11])
os.rename({str(later / "later_one.hidden")!r}, {str(hidden)!r})
import importlib; importlib.invalidate_caches()
tp.plugins.rescan()
print(use("vault"), use("shed"), tp.plugins.found()["first-one"].state)
os.rename({str(site / "first_one-1.0.dist-info")!r}, {str(site / "first_one.gone")!r})
importlib.invalidate_caches()
tp.plugins.rescan()
print(use("vault"), use("shed"))
""",
        site=site,
    )
    assert out.splitlines() == ["(2,) DeviceError", "(2,) (2,) loaded", "(2,) (2,)"]


def test_the_report_without_anything_but_the_core() -> None:
    text = plugins.report()
    assert "tripoint 0.1.0" in text
    assert "meta.strided" in text
    with pytest.raises(PluginError, match="no plugin 'no-such-thing'"):
        plugins.prefer("no-such-thing")


_CLOSING = """
from tripoint.plugin import Backend, Device, hookimpl, strided
class P:
    def __init__(self, shape): self.shape = shape
class Closing(Backend):
    @hookimpl
    def tripoint_shutdown(self):
        print("{device} closes", flush=True)
        {then}
backend = Closing(Device("{device}"), strided, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
"""


def test_plugins_that_were_used_are_told_of_the_end(run_program: Any, write_distribution: Any) -> None:
    for device, then in (("vault", "1 / 0"), ("shed", "pass"), ("idle", "pass")):
        site = write_distribution(
            f"{device}-plugin", _entry(device, device), **{device: _CLOSING.format(device=device, then=then)}
        )
    out = run_program(
        """
import tripoint as tp
tp.zeros((1,), device="shed"), tp.zeros((1,), device="vault")
print("last line")
""",
        site=site,
    )
    assert out.splitlines() == ["last line", "vault closes", "shed closes"]
