"""Fixtures: distributions written to a folder, and programs in a fresh interpreter that sees that folder."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def write() -> Callable[..., None]:
    """Write one distribution as a package manager would leave it: modules, and metadata in a dist-info folder."""

    def written(
        site: Path,
        name: str,
        entry_points: str,
        *,
        version: str = "1.0",
        requires: tuple[str, ...] = (),
        metadata: bytes | None = None,
        **modules: str,
    ) -> None:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        head = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
        head += "".join(f"Requires-Dist: {line}\n" for line in requires)
        (info / "METADATA").write_bytes(head.encode() if metadata is None else metadata)
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        (info / "RECORD").write_text("")
        for module, text in modules.items():
            (site / f"{module}.py").write_text(textwrap.dedent(text))

    return written


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """Run a program with a folder of distributions on its path; gives what it prints."""

    def ran(text: str, site: Path, *, env: dict[str, str] | None = None, stdin: str = "") -> str:
        own = {k: v for k, v in os.environ.items() if not k.startswith("TRIPOINT_")}
        path = os.pathsep.join([str(site), *filter(None, [own.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            input=stdin,
            env={**own, "PYTHONPATH": path, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    return ran
