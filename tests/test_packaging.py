"""The six distributions, built as wheels and installed the way a user installs them.

Environments here are fresh and see no checkout; what a distribution does not declare, it does not find. Installing
needs pip's configured index for the third-party dependencies.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {
    "tripoint": "core",
    "tripoint_blocked": "plugins/blocked",
    "tripoint_cuda_cupy": "plugins/cuda_cupy",
    "tripoint_dense_cpu": "plugins/dense_cpu",
    "tripoint_quantized": "plugins/quantized",
    "tripoint_sparse_coo": "plugins/sparse_coo",
}
PLUGINS = [package for package in PROJECTS if package != "tripoint"]
BACKENDS = {
    "tripoint": {"meta.strided"},
    "tripoint_blocked": {"cpu.blocked"},
    "tripoint_cuda_cupy": {"cuda.strided"},
    "tripoint_dense_cpu": {"cpu.strided"},
    "tripoint_quantized": {"cpu.strided.qint8", "cpu.strided.quint8"},
    "tripoint_sparse_coo": {"cpu.sparse_coo"},
}


def run(*command: str | Path, cwd: Path) -> str:
    """The command's output; its errors, if it fails, in the assertion's text."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Environment:
    """A fresh virtual environment whose pip also looks into the folder of our wheels."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder = folder
        self.wheels = wheels
        run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
        self.bin = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

    def install(self, *requirements: str) -> None:
        # Without --find-links pip would ask the index for our own distributions, and find none or, worse, others.
        pip = (self.bin / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        run(*pip, "--find-links", self.wheels, *requirements, cwd=self.folder)

    def python(self, program: str, *options: str) -> str:
        return run(self.bin / "python", "-I", *options, "-c", program, cwd=self.folder)

    def installed(self) -> set[str]:
        program = (
            "from importlib import metadata as m; print(*(d.name.lower().replace('-', '_') for d in m.distributions()))"
        )
        return set(self.python(program).split())


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS.values():
        build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
        run(*build, "--outdir", folder, ROOT / project, cwd=folder)
    return folder


def wheel_of(package: str, wheels: Path) -> Path:
    (found,) = wheels.glob(f"{package}-*.whl")
    return found


def read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (path for path in archive.namelist() if path.endswith(f".dist-info/{name}"))
        return archive.read(path).decode()


def metadata(wheel: Path) -> Message:
    return Parser().parsestr(read(wheel, "METADATA"))


def test_six_pure_wheels(wheels: Path) -> None:
    assert {wheel.name for wheel in wheels.iterdir()} == {f"{package}-0.1.0-py3-none-any.whl" for package in PROJECTS}


@pytest.mark.parametrize("package", PROJECTS)
def test_wheel_holds_one_typed_package_and_its_license(package: str, wheels: Path) -> None:
    with zipfile.ZipFile(wheel_of(package, wheels)) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {package, f"{package}-0.1.0.dist-info"}
    assert f"{package}/py.typed" in names
    assert f"{package}-0.1.0.dist-info/licenses/LICENSE" in names


@pytest.mark.parametrize("package", PROJECTS)
def test_license_is_the_workspaces(package: str, wheels: Path) -> None:
    wheel = wheel_of(package, wheels)
    assert metadata(wheel)["License-Expression"] == "BSD-3-Clause"
    assert (ROOT / PROJECTS[package] / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.parametrize("package", PROJECTS)
def test_entry_points_name_the_points_and_one_object_of_the_package(package: str, wheels: Path) -> None:
    parser = ConfigParser(delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names are case-sensitive
    parser.read_string(read(wheel_of(package, wheels), "entry_points.txt"))
    points = dict(parser["tripoint.backends.v1"])
    assert set(points) == BACKENDS[package]
    assert len(set(points.values())) == 1
    for group in parser.sections():
        assert all(value.split(":")[0].split(".")[0] == package for value in parser[group].values())


def test_core_requires_pluggy_alone(wheels: Path) -> None:
    requires = metadata(wheel_of("tripoint", wheels)).get_all("Requires-Dist") or []
    assert [entry for entry in requires if "extra ==" not in entry] == ["pluggy>=1.5"]


def test_extra_all_names_every_plugin(wheels: Path) -> None:
    requires = metadata(wheel_of("tripoint", wheels)).get_all("Requires-Dist") or []
    named = {entry.split(";")[0].strip().replace("-", "_") for entry in requires if "'all'" in entry}
    assert named == set(PLUGINS)


def test_no_plugin_requires_plain_cupy(wheels: Path) -> None:
    requires = metadata(wheel_of("tripoint_cuda_cupy", wheels)).get_all("Requires-Dist") or []
    cupy = [entry for entry in requires if entry.startswith("cupy")]
    assert len(cupy) == 2
    assert all(entry.startswith("cupy-cuda") and "extra ==" in entry for entry in cupy)


def test_core_alone(wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path, wheels)
    environment.install("tripoint")
    assert environment.installed() - {"pip", "setuptools", "wheel"} == {"tripoint", "pluggy"}

    environment.python(
        "import tripoint as tp\n"
        "x = tp.zeros((2,), device='meta')\n"
        "if x.shape != (2,): raise SystemExit(f'shape {x.shape}')"
    )
    message = environment.python(
        "import tripoint as tp\n"
        "from tripoint.errors import DeviceError\n"
        "try:\n"
        "    tp.zeros((2,))\n"
        "except DeviceError as error:\n"
        "    print(error)\n"
        "else:\n"
        "    raise SystemExit('no error')"
    )
    assert "pip install tripoint-dense-cpu" in message

    command = [str(environment.bin / "tripoint"), "plugins"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'pip install "tripoint[cli]"' in done.stderr
    environment.install("tripoint[cli]")
    assert "meta.strided" in run(*command, cwd=tmp_path)


def test_extra_cpu_names_dense_cpu(wheels: Path) -> None:
    requires = metadata(wheel_of("tripoint", wheels)).get_all("Requires-Dist") or []
    assert [entry.split(";")[0].strip() for entry in requires if "'cpu'" in entry] == ["tripoint-dense-cpu"]


@pytest.mark.slow
@pytest.mark.parametrize("package", PLUGINS)
def test_plugin_alone_installs_and_imports(package: str, wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path, wheels)
    environment.install(package.replace("_", "-"))
    ours = {name for name in environment.installed() if name.startswith("tripoint")}
    assert ours == {"tripoint", "tripoint_dense_cpu", package}
    # The entry points' objects, without the core's help: a plugin that cannot be imported names its own fault here.
    environment.python(
        "from importlib.metadata import distribution\n"
        f"points = distribution('{package.replace('_', '-')}').entry_points\n"
        "for point in points:\n"
        "    if point.group.startswith('tripoint.'): point.load()",
        "-W",
        "error",
    )
    total = environment.python("import tripoint as tp; print((tp.ones((3,)) + 1.0).sum().item())")
    assert float(total) == 6.0


@pytest.mark.slow
def test_extra_cpu_computes(wheels: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path, wheels)
    environment.install("tripoint[cpu]")
    assert float(environment.python("import tripoint as tp; print(tp.zeros((2,)).sum().item())")) == 0.0
