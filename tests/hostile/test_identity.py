"""Which distribution something belongs to: by its folder, by what its entry points name, and by nothing that it says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tripoint as tp

Write = Callable[..., None]
Run = Callable[..., str]

TOY = """
from tripoint.plugin import Backend, Device, register, strided
import tripoint as tp
class P:
    def __init__(self, shape): self.shape, self.by = shape, __name__
backend = Backend(Device("DEVICE"), strided, payload=P)
backend.kernel("zeros")(lambda *, shape: P(shape))
backend.kernels(exp=lambda x: P(x.shape))
"""
POINT = "[tripoint.backends.v1]\nDEVICE.strided = MODULE:backend\n"
PROGRAM = """
import tripoint as tp
def tried(call):
    try:
        return call()
    except tp.errors.TripointError as error:
        return f"{type(error).__name__}: {error}"
def use(device="toy"):
    return tried(lambda: tp.exp(tp.zeros((2,), device=device))._payload.by)
def findings():
    return [f"{f.level}: {f.what}; {f.remedy}" for f in tp.plugins.findings()]
"""


def _install(
    write: Write, site: Path, module: str, device: str = "toy", points: str = POINT, after: str = "", **options: object
) -> None:
    points = points.replace("DEVICE", device).replace("MODULE", module)
    code = {module: (TOY + after).replace("DEVICE", device)}
    write(site, module.replace("_", "-"), points, **options, **code)


# Names of distributions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Red--Home", "red-home"),
        ("red_.-home", "red-home"),
        ("red...home__x", "red-home-x"),
        ("_red", "-red"),
        ("__main__", "__main__"),
    ],
)
def test_spellings_of_one_name(spelling: str, name: str) -> None:
    assert tp.plugins.normalise(spelling) == name


@pytest.mark.parametrize("claimed", ["tripoint-dense-cpu", "Tripoint_Dense.CPU", "other-plugin"])
def test_a_distribution_that_calls_itself_by_the_name_of_another_hides_nobody(
    claimed: str, write: Write, run: Run, tmp_path: Path
) -> None:
    _install(write, tmp_path, "aaa", metadata=f"Metadata-Version: 2.4\nName: {claimed}\nVersion: 9\n".encode())
    _install(write, tmp_path, "other_plugin", "other")
    out = run(
        PROGRAM
        + """
print(tp.asarray([1.0, 2.0]).sum().item(), use(), use("other"))
print([(e["name"], e["version"]) for e in tp.plugins.listed() if e["name"] in ("aaa", "other-plugin")])
print(*findings(), sep="\\n")
tp.plugins.block("aaa")
print(use()[:11], use("other"), tp.asarray([1.0]).sum().item())
""",
        tmp_path,
    )
    works, listed, *found, blocked = out.splitlines()
    assert works == "3.0 aaa other_plugin"
    assert listed == "[('aaa', '9'), ('other-plugin', '1.0')]"
    (line,) = [f for f in found if "aaa" in f]
    assert line.startswith(
        f"warning: the metadata in {tmp_path / 'aaa-1.0.dist-info'} calls it {claimed}; it is known as aaa"
    )
    assert blocked == "PluginError other_plugin 1.0"


@pytest.mark.parametrize("offers", [True, False])
def test_a_plugin_that_is_hidden_by_one_of_its_name_is_a_finding(
    offers: bool, write: Write, run: Run, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, "Toy.Plugin", POINT.replace("DEVICE", "toy").replace("MODULE", "one") if offers else "", version="1.0")
    _install(write, second, "toy_plugin", version="2.0")
    (first / "one.py").write_text(TOY.replace("DEVICE", "toy"))
    out = run(
        PROGRAM + "print(use()); print(*findings(), sep='\\n')",
        first,
        env={"PYTHONPATH": f"{first}{os.pathsep}{second}"},
    )
    used, *found = out.splitlines()
    assert used == "one" if offers else used.startswith("DeviceError: unknown device 'toy'")
    here, there = second / "toy_plugin-2.0.dist-info", first / "Toy.Plugin-1.0.dist-info"
    assert (
        f"warning: the plugin in {here} is hidden by {there}, of the same name and before it on the path; "
        in "".join(found)
    )
    # The same folder met twice hides nothing.
    again = run(PROGRAM + "print(*findings())", first, env={"PYTHONPATH": f"{second}{os.pathsep}{second}"})
    assert "hidden" not in again


def test_a_folder_that_is_met_by_two_names_hides_nothing(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path / "site", "toy_plugin")
    (tmp_path / "link").symlink_to(tmp_path / "site")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "toy_plugin-1.0.dist-info").symlink_to(tmp_path / "site" / "toy_plugin-1.0.dist-info")
    path = os.pathsep.join(str(tmp_path / folder) for folder in ("site", "link", "other"))
    out = run(PROGRAM + "print(use()); print(findings())", tmp_path / "site", env={"PYTHONPATH": path})
    assert out.splitlines()[0] == "toy_plugin"
    assert "hidden" not in out


METADATA = {
    "goes on in the next line": (
        b"Requires-Dist:\n    tripoint>=77\n",
        "error: toy-plugin 1.0 is broken: it needs tripoint >=77",
    ),
    "ends lines as elsewhere": (
        b"Requires-Dist: tripoint>=77\r\n",
        "error: toy-plugin 1.0 is broken: it needs tripoint >=77",
    ),
    "paints": (b"Requires-Dist: tripoint>=\x1b[31m77\n", "error: toy-plugin 1.0 is broken: it needs tripoint >=77"),
    "has a body": (b"\nRequires-Dist: tripoint>=77\n", ""),
}


@pytest.mark.parametrize("kind", METADATA)
def test_metadata_is_read_as_it_is_meant(kind: str, write: Write, run: Run, tmp_path: Path) -> None:
    lines, said = METADATA[kind]
    _install(write, tmp_path, "toy_plugin", metadata=b"Name: toy-plugin\nVersion: 1.0\x1b[31m\n" + lines)
    out = run(PROGRAM + "print(use()); print([f for f in findings() if 'toy' in f])", tmp_path)
    assert (out.splitlines()[0] == "toy_plugin") is (said == "")
    assert said in out
    assert "\x1b" not in out


def test_entry_points_that_begin_with_a_mark_are_found_to_be_wrong(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "toy_plugin", points="\ufeff" + POINT)
    out = run(PROGRAM + "print(use()); print([f for f in findings() if 'toy' in f])", tmp_path)
    assert "error: toy-plugin ? is broken: its metadata cannot be read" in out
    assert "nothing in it can be read" in out


@pytest.mark.parametrize("kind", ["egg-info", "zip", "no version", "no metadata"])
def test_other_ways_to_be_installed(kind: str, write: Write, run: Run, tmp_path: Path) -> None:
    site = tmp_path / "site"
    _install(write, site, "toy_plugin")
    info = site / "toy_plugin-1.0.dist-info"
    if kind == "egg-info":
        (info / "METADATA").rename(info / "PKG-INFO")
        info.rename(site / "toy_plugin.egg-info")
    elif kind == "zip":
        import shutil

        site = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", site))
    elif kind == "no version":
        (info / "METADATA").write_text("Name: toy-plugin\n")
    else:
        (info / "METADATA").unlink()
    listed = "[(e['version'], e['state'], e['traceback']) for e in tp.plugins.listed() if e['name'] == 'toy-plugin']"
    out = run(PROGRAM + f"print(use()); print({listed}, len(tp.plugins.report()) > 9, type(findings()))", site)
    version = "?" if kind.startswith("no") else "1.0"
    assert out.splitlines() == ["toy_plugin", f"[('{version}', 'loaded', [])] True <class 'list'>"]


def test_folders_whose_names_are_no_text_can_be_printed(write: Write, run: Run, tmp_path: Path) -> None:
    site = Path(os.fsdecode(os.fsencode(tmp_path) + b"/si\xffte"))
    try:
        _install(write, site, "toy_plugin", after="raise OSError('no')\n")
    except OSError:
        pytest.skip("this file system has no such names")
    (site / os.fsdecode(b"odd\xff-1.0.dist-info")).mkdir()
    (site / os.fsdecode(b"odd\xff-1.0.dist-info") / "entry_points.txt").write_bytes(b"\xff")
    env = {"PYTHONIOENCODING": "utf-8:strict"}
    out = run(PROGRAM + "print(use()); print(tp.plugins.report()); print(*findings(), sep='\\n')", site, env=env)
    assert out.startswith(
        "PluginError: the device 'toy' is provided by toy-plugin 1.0, which failed to load: OSError: no"
    )
    assert "si\\udcffte" in out


def test_what_cannot_be_read_is_named_with_its_folder(write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "toy_plugin", metadata=b"\xff\xfe")
    (tmp_path / "mute-1.0.dist-info").mkdir()
    (tmp_path / "mute-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe")
    out = run(PROGRAM + "print(*findings(), sep='\\n'); print(tp.asarray([1.0]).sum().item())", tmp_path)
    assert "error: toy-plugin ? is broken: its metadata cannot be read: UnicodeDecodeError" in out
    assert f"(in {tmp_path / 'toy_plugin-1.0.dist-info'}); reinstall it" in out
    assert "warning: the metadata of mute cannot be read: UnicodeDecodeError" in out
    assert f"(in {tmp_path / 'mute-1.0.dist-info'}); reinstall mute" in out
    assert out.endswith("1.0\n")


@pytest.mark.parametrize("raised", ["OSError('no index')", "SystemExit(3)"])
def test_a_finder_that_cannot_list_ends_nothing(raised: str, write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "toy_plugin")
    finder = f"""
import sys
class Finder:
    def find_spec(*_): return None
    def find_distributions(*_): raise {raised}
class Late(Finder):
    def find_distributions(*_):
        yield from ()
        raise {raised}
sys.meta_path[:0] = [Finder(), Late()]
"""
    tail = "print(use(), tp.asarray([1.0]).sum().item()); print(*findings(), sep='\\n')"
    for program in (finder + PROGRAM + tail, PROGRAM + "use()\n" + finder + "tp.plugins.rescan()\n" + tail):
        used, *found = run(program, tmp_path).splitlines()
        assert used == "toy_plugin 1.0"
        lines = [f for f in found if "sys.meta_path" in f]
        assert len(lines) == 2
        assert all(f"it raised {raised.partition('(')[0]}: " in line for line in lines)


# Who registers ----------------------------------------------------------------------------------------------------------

LINES = """
def lines():
    made = [e for t in (tp.kernels.kernels, tp.kernels.derivatives) for es in t.values() for e in es] + tp.kernels.points
    return sorted(str(e.origin) for e in made if "toy" in str(e.origin))
"""
VALUES = {
    "attribute of an object": ("toy_plugin:ns.backend", "class ns: backend = backend\nregister(backend)\n"),
    "with an extra": ("toy_plugin:backend [fast,big]", "register(backend)\n"),
    "with spaces": ("toy_plugin : backend", "register(backend)\n"),
    "bound later": ("toy_plugin:late", "register(backend)\nlate = backend\n"),
    "another object": (
        "toy_plugin:other",
        "register(backend)\nother = Backend(backend.device, strided, payload=P)\nother.kernels(sin=lambda x: P(x.shape))\n",
    ),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_package_that_registers_by_itself_counts_as_its_plugin_in_either_order(
    kind: str, write: Write, run: Run, tmp_path: Path
) -> None:
    value, after = VALUES[kind]
    points = f"[tripoint.backends.v1]\ntoy.strided = {value}\n"
    _install(write, tmp_path, "toy_plugin", points=points, after=after)
    tail = (
        PROGRAM
        + LINES
        + "print(use(), tp.plugins.overlaps())\nprint(lines())\ntp.plugins.block('toy-plugin')\nprint(use(), lines())"
    )
    outs = {run(first + tail, tmp_path) for first in ("", "import toy_plugin\n")}
    assert len(outs) == 1
    used, registered, blocked = outs.pop().splitlines()
    assert used == "toy_plugin []"
    assert registered.count("from toy-plugin 1.0 at toy_plugin.py") >= 3
    assert "running program" not in registered
    assert blocked.startswith("PluginError: the device 'toy' is provided by toy-plugin 1.0, which is blocked")
    assert blocked.endswith(" []")


def test_what_a_package_registers_while_another_plugin_imports_it_is_its_own(
    write: Write, run: Run, tmp_path: Path
) -> None:
    _install(write, tmp_path, "toy_plugin", after="register(backend)\n")
    _install(write, tmp_path, "other_plugin", "other", after="import toy_plugin\nraise RuntimeError('half way')\n")
    out = run(PROGRAM + LINES + "print(use('other')[:11], use(), lines())", tmp_path)
    assert out.startswith("PluginError toy_plugin [")
    assert "other-plugin" not in out


@pytest.mark.parametrize("how", ["register(backend)", "derivative(tp.sin, args=('toy.strided',), x=lambda g: g)"])
def test_a_refused_plugin_that_the_program_imports_registers_nothing(
    how: str, write: Write, run: Run, tmp_path: Path
) -> None:
    after = f"from tripoint.plugin import derivative\n{how}\n"
    _install(write, tmp_path, "toy_plugin", after=after, requires=("tripoint>=77",))
    program = (
        PROGRAM
        + """
import tripoint.derivatives
before = [copy for _, copy in tp.plugins.snapshot()]
try:
    import toy_plugin
    print("imported")
except tp.errors.PluginError as error:
    print(error, "|", type(error.__cause__).__name__)
print([copy for _, copy in tp.plugins.snapshot()] == before)
print(use())
tp.plugins.unblock("toy-plugin")
print(use())
"""
    )
    raised, clean, *uses = run(program, tmp_path).splitlines()
    assert raised.startswith(
        "toy-plugin 1.0 registers something as it is imported, and is not loaded: it needs tripoint >=77"
    )
    assert raised.endswith("| PluginError")
    assert clean == "True"
    assert all("toy-plugin 1.0, which was not loaded: it needs tripoint >=77" in used for used in uses)
    # What is switched off is quiet, and what metadata refuses stays refused when it is switched on again.
    imported, clean, blocked, used = run(program, tmp_path, env={"TRIPOINT_DISABLE": "toy-plugin"}).splitlines()
    assert (imported, clean) == ("imported", "True")
    assert "which is blocked" in blocked
    assert "which was not loaded: it needs tripoint >=77" in used


# What is named and not there --------------------------------------------------------------------------------------------


def test_a_plugin_that_announces_less_than_its_entry_points_name(write: Write, run: Run, tmp_path: Path) -> None:
    names = ("toy.strided", "shed.strided", "toy.odd")
    points = "[tripoint.backends.v1]\n" + "".join(f"{name} = toy_plugin:backend\n" for name in names)
    _install(write, tmp_path, "toy_plugin", points=points)
    out = run(
        PROGRAM
        + """
print(use())
print(use("shed"))
print(tried(lambda: tp.zeros((2,), device="toy", layout="odd")))
print(tried(lambda: tp.zeros((2,), device="toy", dtype="int8", layout=tp.layouts.strided)._payload.by))
""",
        tmp_path,
    )
    used, shed, odd, other = out.splitlines()
    assert used == other == "toy_plugin"
    tail = "in the entry points of toy-plugin 1.0, which is loaded and announces no such"
    brings = "a backend brings its own device as Device(name), and by the name alone means another plugin's"
    tell = "tell the authors of toy-plugin"
    assert shed == f"PluginError: the device 'shed' is {tail} device: {brings}; {tell}"
    assert (
        odd
        == f"PluginError: the layout 'odd' is {tail} layout: a backend brings its own layout as Layout(name); {tell}"
    )
    found = run(PROGRAM + "use()\nprint([f for f in findings() if 'announce' in f])\n", tmp_path)
    assert f"error: the device 'shed' is {tail} device: {brings}" in found
    assert f"error: the layout 'odd' is {tail} layout: a backend brings its own layout as Layout(name)" in found


NAMES = [
    "add",
    "Tensor",
    "float32",
    "nn",
    "ops",
    "cli",
    "conformance",
    "plugins",
    "explain",
    "_private",
    "with space",
    "for",
]


def test_names_that_the_core_has_are_left_out_and_found(write: Write, run: Run, tmp_path: Path) -> None:
    points = "[tripoint.names.v1]\n" + "".join(f"{name} = toy_plugin:stolen\n" for name in [*NAMES, "paint"])
    write(tmp_path, "toy-plugin", points, toy_plugin="stolen = 'stolen'\n")
    out = run(
        PROGRAM
        + f"""
for name in {NAMES!r}:
    print(name, getattr(tp, name, None) == "stolen", name in tp.plugins.names(), name in tp.plugins.report())
print(tp.paint, "paint" in tp.plugins.names(), [e["names"] for e in tp.plugins.listed() if e["name"] == "toy-plugin"])
tp.plugins.rescan()  # a name that was used is no name of the core
print(tp.paint, "paint" in tp.plugins.names())
print(*findings(), sep="\\n")
""",
        tmp_path,
    )
    lines = out.splitlines()
    for name, line in zip(NAMES, lines, strict=False):
        assert line.startswith(f"{name} False False")
    assert lines[len(NAMES)] == "stolen True [['paint']]"
    assert lines[len(NAMES) + 1] == "stolen True"
    found = [line for line in lines[len(NAMES) + 2 :] if "toy-plugin" in line]
    assert len(found) == len(NAMES)
    for name in NAMES:
        why = {
            "_private": "begins with an underscore",
            "with space": "is no name that a program could write",
            "for": "is no name that a program could write",
        }.get(name, "is a name of the core")
        assert any(f"toy-plugin 1.0 would add tripoint.{name}, which {why}" in line for line in found)


# Choices ----------------------------------------------------------------------------------------------------------------


def _two(write: Write, site: Path) -> None:
    for module in ("one_home", "two_home"):
        _install(write, site, module)


def test_a_preference_stated_again_and_again_counts_once(write: Write, run: Run, tmp_path: Path) -> None:
    _two(write, tmp_path)
    out = run(
        PROGRAM
        + """
for _ in range(50):
    tp.plugins.prefer("one-home"); tp.plugins.prefer("__main__"); tp.plugins.prefer("two-home")
print(tp.plugins.preferred, use())
tp.plugins.prefer("One.Home")
print(tp.plugins.preferred, use())
""",
        tmp_path,
    )
    assert out.splitlines() == [
        "['one-home', '__main__', 'two-home'] two_home",
        "['__main__', 'two-home', 'one-home'] one_home",
    ]


@pytest.mark.parametrize("requires", ["tripoint>=77", "tripoint"])
def test_preferred_kernels_that_are_refused_or_blocked(requires: str, write: Write, run: Run, tmp_path: Path) -> None:
    _install(write, tmp_path, "toy_plugin")
    points = "[tripoint.kernels.v1]\ntoy.strided = fast:backend\n"
    write(tmp_path, "fast", points, requires=(requires,), fast="raise OSError('ran')")
    env = {"TRIPOINT_PREFER": "fast", **({"TRIPOINT_DISABLE": "fast"} if requires == "tripoint" else {})}
    out = run(
        PROGRAM
        + """
print(use())
print(tp.zeros((2,), device="meta").shape)  # out of its reach
print([f for f in findings() if "fast" in f])
tp.plugins.block("fast")  # the last word
print(use(), tp.plugins.preferred)
""",
        tmp_path,
        env=env,
    )
    used, meta, found, last = out.splitlines()
    assert used.startswith("PluginError: what the program or TRIPOINT_PREFER prefers is provided by fast 1.0, which ")
    assert ("it needs tripoint >=77" in used) is (requires != "tripoint")
    assert meta == "(2,)"
    assert ("error: fast 1.0 is broken" in found) is (requires != "tripoint")
    assert ("warning: fast 1.0 is preferred and blocked" in found) is (requires == "tripoint")
    assert last == "toy_plugin []"


def test_a_preferred_plugin_that_is_blocked_or_uninstalled_afterwards(write: Write, run: Run, tmp_path: Path) -> None:
    _two(write, tmp_path)
    env = {"TRIPOINT_PREFER": "two-home", "TRIPOINT_DISABLE": "two-home"}
    assert "prefers is provided by two-home 1.0, which is blocked" in run(PROGRAM + "print(use())", tmp_path, env=env)
    out = run(
        PROGRAM
        + f"""
import os
folder = {str(tmp_path / "two_home-1.0.dist-info")!r}
tp.plugins.prefer("two-home"); tp.plugins.block("two-home")
print(use(), tp.plugins.preferred)
tp.plugins.unblock("two-home"); tp.plugins.prefer("two-home")
os.rename(folder, folder + ".gone"); tp.plugins.rescan()
for _ in range(2):
    print(use())
    print([f for f in findings() if "two-home" in f])
    tp.plugins.rescan()
os.rename(folder + ".gone", folder); tp.plugins.rescan()
print(use())
os.rename(folder, folder + ".gone"); tp.plugins.rescan()
print(use(), [f for f in findings() if "two-home" in f])  # it runs already
""",
        tmp_path,
    )
    blocked, *gone, back, running = out.splitlines()
    assert blocked == "one_home []"
    assert gone[:2] == gone[2:]
    assert gone[0].startswith(
        "PluginError: what the program or TRIPOINT_PREFER prefers is provided by two-home 1.0, which was"
    )
    assert (
        "has been uninstalled; install it again, or take the preference back: tripoint.plugins.block('two-home')"
        in gone[0]
    )
    assert gone[1].startswith('["error: two-home 1.0 is broken: it is preferred, and has been uninstalled')
    assert back == "two_home"
    assert running.startswith("two_home ['note: two-home 1.0 is running, and it has been uninstalled")
