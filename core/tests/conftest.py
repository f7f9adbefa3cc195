"""Fixtures: programs in a fresh interpreter, distributions written by hand, and a registry that is left as it was found."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tripoint import dtypes, kernels, plugins
from tripoint.schema import rows


@pytest.fixture
def registry_kept() -> Iterator[None]:
    """What the running program registers, declares or prefers during a test is taken back after it."""
    declared, preferred, floating = dict(rows), list(plugins.preferred), dtypes.Defaults.floating
    yield
    plugins.unregister(None)
    for name in set(rows) - set(declared):
        del rows[name]
    plugins.preferred[:] = preferred
    dtypes.Defaults.floating = floating
    plugins.changed()
    left = [k for entries in kernels.kernels.values() for k in entries if k.origin.distribution is None]
    if left:
        raise RuntimeError(f"unregister(None) left {left}")


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., str]:
    """Run a program in a fresh interpreter and give its output; ``site`` is put on sys.path before it starts."""

    def run(
        text: str, *, site: Path | None = None, env: dict[str, str] | None = None, flags: tuple[str, ...] = ()
    ) -> str:
        path = [str(site)] if site is not None else []
        done = subprocess.run(
            [sys.executable, *flags, "-c", textwrap.dedent(text)],
            cwd=tmp_path,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("TRIPOINT_")},
                "PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH", "")])]),
                **(env or {}),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    return run


@pytest.fixture
def write_distribution(tmp_path: Path) -> Callable[..., Path]:
    """Write an installed distribution by hand: modules and a dist-info folder; gives the folder for sys.path."""

    def write(
        name: str, entry_points: str, *, version: str = "1.0", metadata: str | None = None, **modules: str
    ) -> Path:
        site = tmp_path / "site"
        stem = name.replace("-", "_")
        info = site / f"{stem}-{version}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        made = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" if metadata is None else metadata
        (info / "METADATA").write_text(made)
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        (info / "RECORD").write_text("")
        for module, text in modules.items():
            (site / f"{module}.py").write_text(textwrap.dedent(text))
        return site

    return write
