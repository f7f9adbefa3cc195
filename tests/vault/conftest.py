"""The vault as an installed distribution, for these tests alone: its sources on the path, with metadata written by hand."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tripoint as tp

ROOT = Path(__file__).parents[2]
VAULT = ROOT / "examples" / "backend_vault"


def write_metadata(site: Path) -> Path:
    """A dist-info folder as an installer would write it, from the package's own pyproject.toml."""
    project = tomllib.loads((VAULT / "pyproject.toml").read_text())["project"]
    info = site / f"tripoint_vault-{project['version']}.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {name}\n" for name in project["dependencies"])
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n{needs}"
    )
    groups = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(groups)
    (info / "RECORD").write_text("")
    return site


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Folders that make it an installed distribution for an interpreter that has them on its path."""
    return [str(write_metadata(tmp_path_factory.mktemp("site"))), str(VAULT / "src")]


@pytest.fixture
def run(paths: list[str]) -> Callable[[str], list[str]]:
    """Run a program in an interpreter of its own, since a device that is lost stays so; gives the lines that it prints."""

    def run(program: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise RuntimeError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="module", autouse=True)
def vault(paths: list[str]) -> Iterator[ModuleType]:
    """The package ``tripoint_vault``; it is found as any installed plugin is, and forgotten afterwards."""
    sys.path[:0] = paths
    tp.plugins.rescan()
    tp.zeros((), device="vault")
    tp.memory.empty_cache("vault")
    import tripoint_vault

    yield tripoint_vault
    tp.plugins.unregister("tripoint-vault")
    for path in paths:
        sys.path.remove(path)
    tp.plugins.rescan()


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Every test ends with vaults that hold nothing: what a test leaves behind is a leak."""
    yield
    gc.collect()  # pytest's own exceptions hold frames in circles
    for device in ("vault:0", "vault:1"):
        tp.memory.set_limit(device, None)
        tp.memory.empty_cache(device)
        tp.memory.reset_peak(device)
        left = tp.memory.stats(device).counts
        if left["blocks"] or left["reserved"]:
            raise RuntimeError(f"{device} still holds memory: {left}")
