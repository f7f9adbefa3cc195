"""Versions that do not go together, both ways; upgrading and uninstalling while the process runs; hooks that come and go."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tripoint as tp
from tripoint.plugin import PROTOCOL
from tripoint.plugins import versions

Write = Callable[..., None]
Run = Callable[..., str]
ROOT = Path(__file__).resolve().parents[2]

TOY = """
from tripoint.plugin import Backend, Device, Pattern, hookimpl, strided
class P:
    def __init__(self, shape, by="WORD"): self.shape, self.by = shape, by
backend = Backend(Device("vault"), strided, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
"""
POINT = "[tripoint.backends.v1]\nvault.strided = vault_plugin:backend\n"
USE = """
import tripoint as tp
def use():
    try:
        return tp.zeros((2,), device="vault")._payload.by
    except tp.errors.TripointError as error:
        return f"{type(error).__name__}: {error}"
"""


def _install(
    write: Write, site: Path, version: str = "1.0", word: str = "one", after: str = "", **options: object
) -> None:
    write(site, "vault-plugin", POINT, version=version, vault_plugin=(TOY + after).replace("WORD", word), **options)


# A version and a clause: whether the first fulfils the second, by the rules that package managers follow; None: not read.
CLAUSES = [
    ("0.1.0", ">=0.1", True),
    ("0.1.0", "<0.2", True),
    ("0.2.0", "<0.2", False),
    ("0.2rc1", "<0.2", False),
    ("0.2.dev3", "<0.2", False),
    ("0.2rc1", "<0.2rc2", True),
    ("0.2rc1", ">=0.2", False),
    ("0.2.0", ">=0.2rc1", True),
    ("0.10", ">0.9", True),
    ("0.1.post1", ">0.1", False),
    ("0.1.1", ">0.1", True),
    ("0.1.post1", ">=0.1", True),
    ("0.1", "==0.1.0", True),
    ("0.1.0+local.7", "==0.1", True),
    ("0.1.9", "==0.1.*", True),
    ("0.2", "==0.1.*", False),
    ("0.2", "!=0.1.*", True),
    ("0.1", "!=0.1.0.0", False),
    ("1.4.9", "~=1.4.2", True),
    ("1.5", "~=1.4.2", False),
    ("1.5", "~=1.4", True),
    ("2.0", "~=1.4", False),
    ("1.0", "===1.0", True),
    ("1.0.0", "===1.0", False),
    ("1.0a1.dev2", "<1.0a1", True),
    ("1!0.1", ">=0.1", None),
    ("0.1", ">=1!0.1", None),
    ("0.1", "~=1", None),
    ("0.1", "about 0.1", None),
    ("0.1", "@ https://example.org/x.whl", None),
]


@pytest.mark.parametrize(("version", "clause", "wanted"), CLAUSES)
def test_whether_a_version_fulfils_a_clause(version: str, clause: str, wanted: bool | None) -> None:
    assert versions.satisfies(version, clause) is wanted


def test_what_a_requirement_says_of_the_core() -> None:
    read = versions.core_requirements
    assert read(["numpy>=2", "tripoint>=0.1,<0.2", "tripoint-dense-cpu>=7"]) == ([">=0.1", "<0.2"], [])
    assert read(["Tripoint[cpu] (>=0.1, <0.2)"]) == ([">=0.1", "<0.2"], [])
    assert read(["tripoint", "tripoint>=9; extra == 'fast'"]) == ([], [])
    assert read(["tripoint>=9; python_version < '4' and (extra == 'fast')"]) == ([], [])
    for other in ("tripoint>=9; platform_release != 'extra'", "tripoint>=9; extra == 'fast' or python_version < '4'"):
        assert read([other]) == ([], [other])
    marked = 'tripoint>=9; python_version < "3.9"'
    assert read([marked, "tripoint>1!2"]) == ([], [marked, "tripoint>1!2"])


@pytest.mark.parametrize(
    ("core", "requires", "verdict"),
    [
        ("0.1.0", "tripoint>=0.1,<0.2", "one"),
        ("0.1.7", "tripoint>=0.1,<0.2", "one"),
        ("0.2.0", "tripoint>=0.1,<0.2", "upgrade vault-plugin"),
        ("0.2.0rc1", "tripoint<0.2,>=0.1", "upgrade vault-plugin"),
        ("0.2.0", "tripoint~=0.1.0", "upgrade vault-plugin"),
        ("0.1.0", "tripoint>=0.2", "upgrade tripoint, or install a version of vault-plugin made for 0.1.0"),
        ("0.1.0", "tripoint>0.1", "upgrade tripoint, or install"),
        ("0.1.0", "tripoint==0.3.*", "upgrade vault-plugin"),
        ("0.1.0", "tripoint>1!2", "one"),
    ],
)
def test_the_running_core_is_compared_before_code_runs(
    core: str, requires: str, verdict: str, write: Write, run: Run, tmp_path: Path
) -> None:
    _install(write, tmp_path, requires=("pluggy", requires))
    program = f"""
import sys
tp.__version__ = {core!r}
print(use())
plugin = tp.plugins.found()["vault-plugin"]
print(plugin.state, "vault_plugin" in sys.modules, plugin.unread)
tp.plugins.block("vault-plugin"); tp.plugins.unblock("vault-plugin"); tp.plugins.rescan()
print(use())
"""
    said, state, again = run(USE + program, tmp_path).splitlines()
    assert said == again
    if verdict == "one":
        assert said == "one"
        assert state == f"loaded True {[requires] if '!' in requires else []}"
        return
    assert said.startswith(
        "PluginError: the device 'vault' is provided by vault-plugin 1.0, which was not loaded: it needs"
    )
    assert f"and this is {core}; {verdict}" in said
    assert state == "broken False []"


def test_a_requirement_that_is_not_understood_is_a_finding(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, requires=('tripoint>=9; sys_platform != "nowhere"',))
    out = run(USE + "print(use(), [str(f) for f in tp.plugins.findings()])", tmp_path)
    assert out.startswith("one ['note: vault-plugin 1.0 requires ")
    assert "which is not understood here" in out


def test_a_point_that_only_another_protocol_provides_says_so(write: Write, run: Run, tmp_path: Path) -> None:
    groups = "[tripoint.backends.v3]\ncpu.knitted = later:b\ncpu.strided.purl = later:b\n[tripoint.curtains.v1]\nx = later:b\n"
    write(tmp_path, "later", groups, version="3.3", later="raise SystemExit('ran')")
    out = run(
        USE
        + """
for call in (lambda: tp.zeros((2,), layout="knitted"), lambda: tp.zeros((2,), dtype="purl"), lambda: tp.layouts.knitted):
    try:
        call()
    except tp.errors.PluginError as error:
        print(error)
print(tp.asarray([1.0]).item())
for f in tp.plugins.findings(): print(f)
print(tp.plugins.report())
""",
        tmp_path,
    )
    layout, dtype, attribute, one, *rest = out.splitlines()
    words = "3.3, which was not loaded: it is written for protocol 3 (tripoint.backends.v3), this core speaks 1"
    assert layout == attribute == f"the layout 'knitted' is provided by later {words}; upgrade tripoint"
    assert dtype == f"the dtype 'purl' is provided by later {words}; upgrade tripoint"
    assert one == "1.0"
    text = "\n".join(rest)
    assert "error: later 3.3 is broken: it is written for protocol 3" in text
    assert "note: later 3.3 has entry points in tripoint.curtains.v1, which this core does not read" in text
    assert "later 3.3: broken; provides cpu.knitted (tripoint.backends.v3)" in text
    assert "entry point: tripoint.backends.v3: cpu.strided.purl = later:b" in text


def test_the_protocol_is_one_number() -> None:
    assert tp.plugins.PROTOCOL == PROTOCOL == 1
    assert f'entry-points."tripoint.backends.v{tp.plugins.PROTOCOL}"' in (ROOT / "core" / "pyproject.toml").read_text()


# Hooks -----------------------------------------------------------------------------------------------------------------


def test_hooks_that_an_old_plugin_lacks_and_a_newer_one_has(write: Write, run: Run, tmp_path: Path) -> None:
    own = """
class Old:
    @hookimpl
    def tripoint_register(self, registry):
        backend_of_it.tripoint_register(registry)
    NEW
backend_of_it, backend = backend, Old()
"""
    new = "@hookimpl\n    def tripoint_of_the_year_2040(self, registry, ambience): raise OSError\n"
    for site, more in ((tmp_path / "old", ""), (tmp_path / "new", new)):
        site.mkdir()
        _install(write, site, after=own.replace("NEW", more))
        out = run(
            USE + "print(use(), tp.memory.stats('vault'))\n"
            "for f in tp.plugins.findings(load_all=True): print(f.level, 'vault' in f.what)",
            site,
        )
        lines = out.splitlines()
        assert lines[0] == "one memory of vault: not supported: vault-plugin does not count it"
        assert "warning True" not in lines


def test_the_words_of_the_plugin_engine_do_not_matter(write: Write, run: Run, tmp_path: Path) -> None:
    wrong = """
class Wrong:
    @hookimpl
    def tripoint_register(self, registry, more): pass
backend = Wrong()
"""
    _install(write, tmp_path, after=wrong)
    reword = """
import pluggy
from pluggy import _manager
if REWORD:
    class Reworded(pluggy.PluginValidationError):
        def __init__(self, plugin, message):
            super().__init__(plugin, "tout autre chose")
    pluggy.PluginValidationError = _manager.PluginValidationError = Reworded
error = use()
plugin = tp.plugins.found()["vault-plugin"]
print(error.split(",")[0], plugin.state, isinstance(plugin.error, pluggy.PluginValidationError), "tout autre" in error)
"""
    said = "PluginError: the device 'vault' is provided by vault-plugin 1.0 broken True"
    assert run(USE + reword.replace("REWORD", "False"), tmp_path) == f"{said} False\n"
    assert run(USE + reword.replace("REWORD", "True"), tmp_path) == f"{said} True\n"


def test_gradients_need_forward_kernels_only(write: Write, run: Run, tmp_path: Path) -> None:
    arithmetic = """
class N(P):
    def __init__(self, shape, numbers): self.shape, self.numbers = shape, numbers
backend = Backend(Device("vault"), strided, payload=N)
@backend.kernel("full")
def full(*, shape, fill_value): return N(shape, [fill_value] * (shape[0] if shape else 1))
backend.kernel("ones")(lambda *, shape: full(shape=shape, fill_value=1.0))
backend.kernels(
    add=lambda a, b: N(a.shape, [x + y for x, y in zip(a.numbers, b.numbers)]),
    multiply=lambda a, b: N(a.shape, [x * y for x, y in zip(a.numbers, b.numbers)]),
)
"""
    _install(write, tmp_path, after=arithmetic)
    out = run(
        USE
        + """
x = tp.full((3,), 1.5, device="vault").requires_grad_()
y = x * x
y.backward(tp.ones((3,), device="vault"))
print(y._payload.numbers, x.grad._payload.numbers)
""",
        tmp_path,
    )
    assert out == "[2.25, 2.25, 2.25] [3.0, 3.0, 3.0]\n"


def test_native_kernels_need_no_part_of_the_core(write: Write, run: Run, tmp_path: Path) -> None:
    native = """
import ctypes
class B(P):
    def __init__(self, shape, raw): self.shape, self.raw = shape, raw
backend = Backend(Device("vault"), strided, payload=B)
@backend.kernel("full")
def full(*, shape, fill_value): return B(shape, (ctypes.c_float * shape[0])(*[fill_value] * shape[0]))
@backend.kernel("copy")
def copy(x):
    raw = type(x.raw)()
    ctypes.memmove(raw, x.raw, ctypes.sizeof(raw))
    return B(x.shape, raw)
"""
    _install(write, tmp_path, after=native)
    out = run(
        USE
        + """
x = tp.full((3,), 1.5, device="vault")
y = tp.copy(x)
x._payload.raw[0] = 7.0
print(list(y._payload.raw), tp.plugins.found()["vault-plugin"].state)
""",
        tmp_path,
    )
    assert out == "[1.5, 1.5, 1.5] loaded\n"


# While the process runs ------------------------------------------------------------------------------------------------


def test_an_upgrade_while_the_process_runs(write: Write, run: Run, tmp_path: Path) -> None:
    new = tmp_path / "new"
    _install(write, tmp_path / "site", word="one")
    _install(write, new, version="2.0", word="two")
    swap = f"""
import os, shutil
def swap():
    shutil.rmtree({str(tmp_path / "site" / "vault_plugin-1.0.dist-info")!r})
    shutil.copytree({str(new)!r}, {str(tmp_path / "site")!r}, dirs_exist_ok=True)
    tp.plugins.rescan()
def state():
    plugin = tp.plugins.found()["vault-plugin"]
    return use(), plugin.version, plugin.installed, [f.what for f in tp.plugins.findings() if "vault" in f.what]
"""
    before = tmp_path / "saved"
    import shutil

    shutil.copytree(tmp_path / "site", before)
    # One that nobody has used yet is simply the new one.
    out = run(USE + swap + "tp.plugins.found(); swap()\nprint(state())", tmp_path / "site")
    assert out == "('two', '2.0', '2.0', [])\n"
    shutil.rmtree(tmp_path / "site")
    shutil.copytree(before, tmp_path / "site")
    # One that is loaded goes on, and it is said that another is installed.
    out = run(
        USE + swap + "print(use()); swap()\nprint(state())\ntp.plugins.rescan()\nprint(state())", tmp_path / "site"
    )
    said = "('one', '1.0', '2.0', ['vault-plugin 1.0 is running, and version 2.0 of it is installed'])"
    assert out.splitlines() == ["one", said, said]


def test_an_upgrade_mends_what_was_broken(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path / "site", after="raise OSError('old')\n")
    _install(write, tmp_path / "new", version="2.0", word="two")
    out = run(
        USE
        + f"""
import shutil
print(use()[:11])
shutil.rmtree({str(tmp_path / "site" / "vault_plugin-1.0.dist-info")!r})
shutil.copytree({str(tmp_path / "new")!r}, {str(tmp_path / "site")!r}, dirs_exist_ok=True)
print(use()[:11])
tp.plugins.rescan()
print(use(), tp.plugins.found()["vault-plugin"].version)
""",
        tmp_path / "site",
    )
    assert out.splitlines() == ["PluginError", "PluginError", "two 2.0"]


def test_uninstalling_while_the_process_runs(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path / "site")
    write(tmp_path / "site", "other", "[tripoint.backends.v1]\nshed.strided = other:backend\n", other="raise OSError")
    remove = f"""
import os, shutil
def remove():
    for name in os.listdir({str(tmp_path / "site")!r}):
        path = os.path.join({str(tmp_path / "site")!r}, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    tp.plugins.rescan()
"""
    program = """
tp.plugins.found()
USED
remove()
print(use())
print("other" in tp.plugins.found(), "vault" in tp.plugins.device_names(), "shed" in tp.plugins.device_names())
print([f.what for f in tp.plugins.findings() if "vault" in f.what])
if "vault-plugin" in tp.plugins.found():
    tp.plugins.unregister("vault-plugin"); tp.plugins.rescan()
    print(use(), "vault-plugin" in tp.plugins.found())
"""
    import shutil

    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "site", saved)
    out = run(USE + remove + program.replace("USED", "use()"), tmp_path / "site").splitlines()
    assert out[:3] == ["one", "False True False", "['vault-plugin 1.0 is running, and it has been uninstalled']"]
    assert out[3].startswith("DeviceError: unknown device 'vault'")
    assert out[3].endswith(" False")
    shutil.copytree(saved, tmp_path / "site", dirs_exist_ok=True)
    out = run(USE + remove + program.replace("USED", ""), tmp_path / "site").splitlines()
    assert out[0].startswith("DeviceError: unknown device 'vault'")
    assert out[1:] == ["False False False", "[]"]


# Packages of several modules ---------------------------------------------------------------------------------------------

PACKAGE = {
    "__init__": TOY.replace('by="WORD"', "by=None").replace("self.by = shape, by", "self.by = shape, WORD")
    + "from vault_plugin.words import WORD\nimport vault_plugin.last\n",
    "words": "WORD = 'one'\n",
    "last": "",
}
INSTALL = """
import os, shutil, sys
SITE = SITE_FOLDER
def install(version, **files):
    for name in os.listdir(SITE):
        shutil.rmtree(os.path.join(SITE, name))
    if not version: return tp.plugins.rescan()
    for folder, contents in (("vault_plugin", {f"{n}.py": t for n, t in files.items()}), (
        f"vault_plugin-{version}.dist-info",
        {"METADATA": f"Name: vault-plugin\\nVersion: {version}\\n", "entry_points.txt": POINT},
    )):
        os.makedirs(os.path.join(SITE, folder))
        for name, text in contents.items():
            with open(os.path.join(SITE, folder, name), "w") as file: file.write(text)
    tp.plugins.rescan()
def listed():
    return [(e["version"], e["installed"], e["state"]) for e in tp.plugins.listed() if e["name"] == "vault-plugin"]
def findings():
    return [f.what for f in tp.plugins.findings() if "vault" in f.what]
def loaded():
    return sorted(m for m in sys.modules if m.partition(".")[0] == "vault_plugin")
PACKAGE, POINT = PACKAGE_FILES, POINT_TEXT
"""


def _program(site: Path, body: str) -> str:
    site.mkdir()
    filled = INSTALL.replace("SITE_FOLDER", repr(str(site))).replace("PACKAGE_FILES", repr(PACKAGE))
    # Bytecode is told from its source by the second; these sources follow one another faster.
    return "import sys\nsys.dont_write_bytecode = True\n" + USE + filled.replace("POINT_TEXT", repr(POINT)) + body


def test_a_broken_package_is_upgraded_as_a_whole(run: Run, tmp_path: Path) -> None:
    out = run(
        _program(
            tmp_path / "site",
            """
install("1.0", **{**PACKAGE, "last": "raise OSError('old')"})
print(use()[:11], loaded())
install("2.0", **{**PACKAGE, "words": "WORD = 'two'"})
print(use(), listed(), loaded())
""",
        ),
        tmp_path / "site",
    )
    broken, mended = out.splitlines()
    assert broken == "PluginError ['vault_plugin.words']"  # as Python leaves it
    assert mended == ("two [('2.0', '2.0', 'loaded')] ['vault_plugin', 'vault_plugin.last', 'vault_plugin.words']")


def test_a_broken_package_that_is_mended_in_place_is_imported_as_a_whole(run: Run, tmp_path: Path) -> None:
    out = run(
        _program(
            tmp_path / "site",
            """
install("1.0", **{**PACKAGE, "last": "raise OSError('old')"})
print(use()[:11])
for name, text in {**PACKAGE, "words": "WORD = 'mended'"}.items():
    with open(os.path.join(SITE, "vault_plugin", f"{name}.py"), "w") as file: file.write(text)
print(use()[:11])
tp.plugins.unblock("vault-plugin")
print(use(), listed())
""",
        ),
        tmp_path / "site",
    )
    assert out.splitlines() == ["PluginError", "PluginError", "mended [('1.0', '1.0', 'loaded')]"]


def test_a_loaded_package_is_upgraded_in_one_process_when_it_is_taken_back(run: Run, tmp_path: Path) -> None:
    out = run(
        _program(
            tmp_path / "site",
            """
install("1.0", **PACKAGE)
old = tp.zeros((2,), device="vault")
install("2.0", **{**PACKAGE, "words": "WORD = 'two'"})
print(use(), listed(), findings())
tp.plugins.unregister("vault-plugin")
print(use(), listed())  # not asked for yet
tp.plugins.unregister("vault-plugin"); tp.plugins.rescan()
print(loaded(), use(), listed(), findings())
print(old.shape, old._payload.by, type(old._payload) is type(tp.zeros((2,), device="vault")._payload))
""",
        ),
        tmp_path / "site",
    )
    running, again, new, old = out.splitlines()
    assert running == (
        "one [('1.0', '2.0', 'loaded')] ['vault-plugin 1.0 is running, and version 2.0 of it is installed']"
    )
    assert again == "one [('1.0', '2.0', 'loaded')]"
    assert new == "[] two [('2.0', '2.0', 'loaded')] []"
    assert old == "(2,) one False"


def test_a_package_is_uninstalled_and_installed_again_in_one_process(run: Run, tmp_path: Path) -> None:
    out = run(
        _program(
            tmp_path / "site",
            """
install("1.0", **PACKAGE)
print(use())
install("")
print(use(), findings())
tp.plugins.unregister("vault-plugin"); tp.plugins.rescan()
print(use()[:11], listed(), loaded())
install("3.0", **{**PACKAGE, "words": "WORD = 'three'"})
print(use(), listed(), findings())
""",
        ),
        tmp_path / "site",
    )
    one, still, gone, three = out.splitlines()
    assert one == "one"
    assert still == "one ['vault-plugin 1.0 is running, and it has been uninstalled']"
    assert gone == "DeviceError [] []"
    assert three == "three [('3.0', '3.0', 'loaded')] []"


def test_what_a_program_imports_by_itself_is_running_too(run: Run, tmp_path: Path) -> None:
    out = run(
        _program(
            tmp_path / "site",
            """
own = "from tripoint.plugin import composite, register\\n@composite(namespace='vault')\\n"
own += "def stated(x: 'Tensor', /) -> 'Tensor': return x\\nregister(backend)\\n"
install("1.0", **{**PACKAGE, "__init__": PACKAGE["__init__"] + own})
import vault_plugin
install("2.0", **PACKAGE)
print(listed(), findings(), "vault::stated" in tp.schema.rows, vault_plugin is sys.modules["vault_plugin"])
tp.plugins.unregister("vault-plugin"); tp.plugins.rescan()
print(listed(), findings(), "vault::stated" in tp.schema.rows, use())
""",
        ),
        tmp_path / "site",
    )
    running, new = out.splitlines()
    assert running == (
        "[('1.0', '2.0', 'found')] ['vault-plugin 1.0 is running, and version 2.0 of it is installed'] True True"
    )
    assert new == "[('2.0', '2.0', 'found')] [] False one"


def test_plugins_that_share_a_package_keep_what_is_their_own(write: Write, run: Run, tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    op = """
from tripoint.plugin import composite
@composite(namespace="acme")
def WHO(x: "Tensor", /) -> "Tensor":
    return x
"""
    for who in ("red", "blue"):
        points = f"[tripoint.backends.v1]\n{who}.strided = acme.{who}:backend\n"
        write(tmp_path, f"acme-{who}", points)
        code = (TOY.replace("vault", who) + op).replace("WHO", who).replace("WORD", who)
        (tmp_path / "acme" / f"{who}.py").write_text(code)
    # The red one needs the blue one, as a helper, and fails.
    (tmp_path / "acme" / "red.py").write_text(
        "import acme.blue\n" + code.replace("blue", "red") + "raise OSError('no')\n"
    )
    out = run(
        """
import sys
import tripoint as tp
from tripoint.schema import rows
def use(device):
    try:
        return tp.zeros((2,), device=device)._payload.by
    except tp.errors.TripointError as error:
        return type(error).__name__
print([tp.plugins.plugin_named(m).name for m in ("acme.red", "acme.blue", "acme.blue.deep")], tp.plugins.plugin_named("acm"))
print(use("red"), "acme::blue" in rows, "acme::red" in rows)
print(use("blue"), "acme::blue" in rows, tp.plugins.plugin_named("tripoint.meta").name)
blue = sys.modules["acme.blue"]
tp.plugins.unblock("acme-red")
print(use("red"), use("blue"), blue is sys.modules["acme.blue"])
tp.plugins.block("acme-blue")
print(use("blue"), "acme::blue" in rows)
""",
        tmp_path,
    )
    assert out.splitlines() == [
        "['acme-red', 'acme-blue', 'acme-blue'] None",
        "PluginError True False",
        "blue True tripoint",
        "PluginError blue True",
        "PluginError False",
    ]


# The page --------------------------------------------------------------------------------------------------------------


def test_every_variable_stands_on_one_page() -> None:
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    sources = [p for folder in ("core", "plugins") for p in (ROOT / folder).glob("**/src/**/*.py")]
    used = {name for path in sources for name in re.findall(r"TRIPOINT_[A-Z_]+", path.read_text(encoding="utf-8"))}
    assert len(sources) > 50
    assert used == set(tp.plugins.VARIABLES)
    assert set(re.findall(r"^\| `(TRIPOINT_[A-Z_]+)`", page, re.MULTILINE)) == used
