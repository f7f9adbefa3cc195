"""What authors of plugins get wrong, each made for real: the error says where it is, and what to write instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., None]
Run = Callable[..., str]

BACKEND = """
from tripoint.plugin import Backend, Device, Pattern, strided
class P:
    def __init__(self, shape): self.shape = shape
backend = Backend(DEVICE, strided, payload=P)
backend.kernel("ones")(lambda *, shape: P(shape))
"""
#: for each slip, which is its device's name too: what its backend has as device, the entry points, and more of its module.
SLIPS: dict[str, tuple[str, str, str]] = {
    "misspelt": ('Device("misspelt")', "[tripoint.backends.v1]\nmisspelt.stridded = misspelt:backend\n", ""),
    "pattern": (
        'Device("pattern")',
        "[tripoint.backends.v1]\npattern.strided = pattern:backend\n",
        'backend.kernel("exp", args=(Pattern("pattern", "strded"),))(lambda x: x)\n',
    ),
    "partly": (
        'Device("partly")',
        "[tripoint.backends.v1]\npartly.strided = partly:backend\n",
        'backend.kernel("add", args=("partly.strided", "partly.strded"), out=strided)(lambda x1, x2: x1)\n',
    ),
    "grouped": ('Device("grouped")', "[tripoint.backend.v1]\ngrouped.strided = grouped:backend\n", ""),
    "pointless": ('Device("pointless")', "[tripoint.backends.v1]\npointless = pointless:backend\n", ""),
    "classy": (
        'Device("classy")',
        "[tripoint.backends.v1]\nclassy.strided = classy:Mine\n",
        "class Mine(Backend):\n    def __init__(self): super().__init__(Device('classy'), strided, payload=P)\n",
    ),
    "stringy": ('"stringy"', "[tripoint.backends.v1]\nstringy.strided = stringy:backend\n", ""),
    "unmeant": (
        'Device("unmeant")',
        "[tripoint.backends.v1]\nunmeant.strided = unmeant:backend\n",
        'backend.kernel("sum")(lambda x, *, axis: x)\n',
    ),
    "overtaken": (
        'Device("overtaken")',
        "[tripoint.backends.v1]\novertaken.strided = overtaken:backend\n",
        'backend.kernel("zeros")(lambda *, size: P(size))\n',
    ),
}
PROGRAM = """
import json
import tripoint as tp
said = {}
for device in NAMES:
    try:
        said[device] = str(tp.ones((2,), device=device).shape)
    except tp.errors.TripointError as error:
        said[device] = f"{type(error).__name__}: {error}"
findings = [f"{f.level}: {f.what}; {f.remedy}" for f in tp.plugins.findings()]
print(json.dumps([said, findings, tp.plugins.report()]))
"""


@pytest.fixture(scope="module")
def met(write: Write, run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], list[str], str]:
    """What using each device says, the findings, and the report."""
    site = tmp_path_factory.mktemp("slips")
    for name, (device, points, more) in SLIPS.items():
        write(site, name, points, **{name: BACKEND.replace("DEVICE", device) + more})
    said, findings, report = json.loads(run(PROGRAM.replace("NAMES", repr([*SLIPS])), site))
    return said, findings, report


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # The point that is meant, and those that the entry points have, so that the difference can be seen.
        (
            "misspelt",
            "ones on misspelt.strided.plain, which misspelt does not provide: its entry points of ",
        ),
        (
            "misspelt",
            "See the spelling of both; where the point is another plugin's, offer it through the entry-point group",
        ),
        (
            "pattern",
            "exp on (pattern.strded.plain), which pattern does not provide: its entry points of ",
        ),
        (
            "misspelt",
            "of tripoint.backends.v1 name misspelt.stridded. See the spelling of both; where the point is another",
        ),
        ("grouped", "unknown device 'grouped'"),
        (
            "grouped",
            "; grouped 1.0 has grouped.strided in its entry points of tripoint.backend.v1, which is no group that is",
        ),
        ("grouped", "did you mean tripoint.backends.v1?"),
        ("pointless", "the device 'pointless' is provided by pointless 1.0, which was not loaded: entry-point name"),
        ("pointless", "write device.layout or device.layout.dtype, such as cpu.strided"),
        ("classy", "classy:Mine is a class, and an entry point names an instance: write backend = Mine(...) in classy"),
        (
            "stringy",
            "announces no such device: a backend brings its own device as Device(name), and by the name alone means",
        ),
        ("unmeant", "It is called as sum(x, *, axis, keepdims), and written as <lambda>(x, *, axis)"),
        (
            "overtaken",
            "It is called as zeros(*, shape, target), where target may be left out, and written as <lambda>(*, size)",
        ),
    ],
)
def test_the_error_says_what_to_write(name: str, words: str, met: tuple[dict[str, str], list[str], str]) -> None:
    assert words in met[0][name]


@pytest.mark.parametrize(
    "words",
    [
        "note: grouped 1.0 has entry points in tripoint.backend.v1, which this core does not read; see the spelling",
        "did you mean tripoint.backends.v1?",
        "error: the device 'stringy' is in the entry points of stringy 1.0, which is loaded and announces no such device: a "
        "backend brings its own device as Device(name), and by the name alone means another plugin's",
        "warning: partly 1.0 has kernels for the layout 'strded', which nobody announces, such as that of add on "
        "(partly.strided.plain, partly.strded.plain); write 'strided' if that is meant",
        "error: pointless 1.0 is broken: entry-point name 'pointless' is no point",
    ],
)
def test_the_doctor_finds_it(words: str, met: tuple[dict[str, str], list[str], str]) -> None:
    assert any(words in finding for finding in met[1])


def test_what_works_beside_a_slip_is_used(met: tuple[dict[str, str], list[str], str]) -> None:
    assert met[0]["partly"] == "(2,)"


@pytest.mark.parametrize("editable", [True, False, None])
def test_who_installed_it_from_a_folder_is_told_as_its_author(
    editable: bool | None, write: Write, run: Run, tmp_path: Path
) -> None:
    write(tmp_path, "mine", "[tripoint.backends.v1]\nmine.strided = mine:backend\n", mine="1 / 0\n")
    source: dict[str, Any] = {
        "url": (tmp_path / "my project").as_uri(),
        "dir_info": {"editable": True} if editable else {},
    }
    if editable is None:
        source = {"url": "https://example.org/mine.whl", "archive_info": {}}
    (tmp_path / "mine-1.0.dist-info" / "direct_url.json").write_text(json.dumps(source))
    program = (
        "import tripoint as tp\nprint(*[f.remedy for f in tp.plugins.findings(load_all=True) if 'mine' in f.what])"
    )
    remedy = run(program, tmp_path)
    where = f"mend it in {tmp_path / 'my project'}"
    assert remedy.startswith(
        {True: f"{where}; after that", False: f"{where}, and install it again; after that"}.get(
            editable, "upgrade or reinstall mine (pip install --upgrade --force-reinstall mine), or tell its authors"
        )
    )


HOME = BACKEND.replace("DEVICE", 'Device("home")') + 'backend.kernel("exp")(lambda x: P(x.shape))\n'
FAST = """
from tripoint.plugin import Pattern, hookimpl
class Fast:
    @hookimpl
    def tripoint_register(self, registry):
        registry.kernel("exp", lambda x: x, every=Pattern("home", "strided"))
backend = Fast()
"""


OFFER = "fast 1.0 offers kernels on home.strided, which count when it is preferred: tripoint.plugins.prefer('fast')."


def _home(write: Write, site: Path, group: str, code: str = FAST) -> None:
    write(site, "home", "[tripoint.backends.v1]\nhome.strided = home:backend\n", home=HOME)
    write(site, "fast", f"[{group}]\nhome.strided = fast:backend\n", fast=code)


def test_kernels_for_the_point_of_another_in_the_wrong_group(write: Write, run: Run, tmp_path: Path) -> None:
    _home(write, tmp_path, "tripoint.backends.v1")
    program = """
import tripoint as tp
x = tp.ones((2,), device="home")
try:
    tp.exp(x)
except tp.errors.AmbiguousKernelError as error:
    print(str(error).splitlines()[-1])
print([f.level for f in tp.plugins.findings(load_all=True) if f.what.startswith("kernels of exp")])
"""
    said, levels = run(program, tmp_path).splitlines()
    assert (
        said == "  both provide that point; what adds kernels to a point of another offers them in tripoint.kernels.v1"
    )
    assert levels == "['error']"  # such a call is refused, whatever its values are


def test_kernels_that_nobody_prefers_are_loaded_to_see_whether_they_can_be(
    write: Write, run: Run, tmp_path: Path
) -> None:
    _home(write, tmp_path, "tripoint.kernels.v1", "import no_such_thing\n")
    program = """
import tripoint as tp
print([(f.level, f.what) for f in tp.plugins.findings(load_all=True) if "fast" in f.what])
print(tp.plugins.found()["fast"].state, tp.exp(tp.ones((2,), device="home")).shape)
"""
    found, used = run(program, tmp_path).splitlines()
    assert found == "[('error', \"fast 1.0 is broken: ModuleNotFoundError: No module named 'no_such_thing'\")]"
    assert used == "broken (2,)"


def test_names_and_layers_are_loaded_to_see_whether_they_can_be(write: Write, run: Run, tmp_path: Path) -> None:
    write(tmp_path, "paint", "[tripoint.names.v1]\npaint = paint:nothing\n", paint="")
    write(tmp_path, "glaze", "[tripoint.layers.v1]\nglaze = glaze:Glaze\n", glaze="import no_such_thing\n")
    write(tmp_path, "whole", "[tripoint.names.v1]\nwhole = whole:whole\n", whole="whole = 3\n")
    program = """
import tripoint as tp
found = tp.plugins.findings(load_all=True)
print([f.what for f in found if "paint" in f.what or "glaze" in f.what or "whole" in f.what])
print(tp.plugins.found()["whole"].state, tp.whole)
"""
    found, whole = run(program, tmp_path).splitlines()
    assert "glaze 1.0 is broken: ModuleNotFoundError: No module named 'no_such_thing'" in found
    assert "paint 1.0 is broken: AttributeError: module 'paint' has no attribute 'nothing'" in found
    assert "whole" not in found
    assert whole == "loaded 3"


@pytest.mark.parametrize("name", ["home.stridd", "cpu.strided", "home"])
def test_kernels_for_another_point_than_the_entry_point_names(
    name: str, write: Write, run: Run, tmp_path: Path
) -> None:
    write(tmp_path, "home", "[tripoint.backends.v1]\nhome.strided = home:backend\n", home=HOME)
    write(tmp_path, "fast", f"[tripoint.kernels.v1]\n{name} = fast:backend\n", fast=FAST)
    program = """
import tripoint as tp
try:
    tp.plugins.prefer("fast")
except tp.errors.PluginError as error:
    print(error)
print(tp.exp(tp.ones((2,), device="home")).shape)
"""
    said, used = run(program, tmp_path).splitlines()
    other = (
        f"exp on home.strided.plain, which fast does not provide: its entry points of tripoint.kernels.v1 name {name}"
    )
    assert ("entry-point name 'home' is no point" if name == "home" else other) in said
    assert used == "(2,)"


def test_kernels_that_nobody_prefers_are_named_where_they_would_count(write: Write, run: Run, tmp_path: Path) -> None:
    _home(write, tmp_path, "tripoint.kernels.v1")
    program = """
import tripoint as tp
x = tp.ones((2,), device="home")
def say():
    print("explain", str(tp.explain(tp.exp, x)).count("fast 1.0 offers kernels on home.strided"))
    notes = [n for n in tp.coverage("exp", devices="home").notes() if "fast" in n]
    print("coverage", notes)
    print("report", [line for line in tp.plugins.report().splitlines() if line.startswith("fast")])
say()
for name in ("home.strided", "fast"):
    try:
        print(tp.plugins.prefer(name))
    except tp.errors.PluginError as error:
        print(error)
say()
tp.plugins.preferred.clear(); tp.plugins.changed()
print([o.what for o in tp.plugins.overlaps()], tp.explain(tp.exp, x).candidates[0].provider)
"""
    out = run(program, tmp_path).splitlines()
    assert out == [
        "explain 1",
        f"coverage {[OFFER]}",
        "report ['fast 1.0: found; provides kernels on home.strided (when preferred)']",
        "home.strided is provided by home and by fast; name one of them"
        if "by home and by fast" in out[3]
        else "home.strided is provided by fast and by home; name one of them",
        "None",
        "explain 0",
        "coverage ['home.strided: exp by fast 1.0.']",
        "report ['fast 1.0: loaded; provides kernels on home.strided (preferred)']",
        "[] home 1.0",  # loaded, and without a part in any call
    ]


def test_an_entry_point_where_the_environment_wants_a_distribution(write: Write, run: Run, tmp_path: Path) -> None:
    _home(write, tmp_path, "tripoint.kernels.v1")
    program = "import tripoint as tp\nprint([(f.what, f.remedy) for f in tp.plugins.findings() if 'PREFER' in f.what])"
    assert run(program, tmp_path, env={"TRIPOINT_PREFER": "home.strided"}).strip() == str(
        [
            (
                "TRIPOINT_PREFER names 'home.strided', an entry point, and takes distributions",
                "write who is meant: fast or home",
            )
        ]
    )
