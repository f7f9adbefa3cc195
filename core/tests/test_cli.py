"""The command `tripoint` in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tripoint as tp

_BROKEN = "[tripoint.backends.v1]\nvault.strided = vault_plugin:backend\n"


def _command(*arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRIPOINT_")}
    env["PYTHONPATH"] = os.pathsep.join([*([str(site)] if site else []), *filter(None, [env.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tripoint.cli", *arguments], capture_output=True, text=True, timeout=120, env=env
    )


def test_plugins_lists_what_is_installed() -> None:
    done = _command("plugins")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"tripoint-dense-cpu {tp.__version__}: found; provides cpu.strided" in done.stdout
    loaded = _command("plugins", "--load")
    assert loaded.returncode == 0
    assert f"tripoint-dense-cpu {tp.__version__}: loaded" in loaded.stdout


def test_plugins_as_json() -> None:
    done = _command("plugins", "--json")
    assert done.returncode == 0
    found = {entry["name"]: entry for entry in json.loads(done.stdout)}
    dense = found["tripoint-dense-cpu"]
    assert (dense["state"], dense["provides"], dense["error"], dense["traceback"]) == (
        "found",
        ["cpu.strided"],
        None,
        [],
    )
    assert found["tripoint-quantized"]["names"]


def test_a_broken_plugin_is_the_exit_status(write_distribution: Any) -> None:
    site = write_distribution("vault-plugin", _BROKEN, vault_plugin="import nothing_of_that_name_at_all\n")
    assert _command("plugins", site=site).returncode == 0  # nobody has tried it yet
    done = _command("plugins", "--load", site=site)
    assert done.returncode == 1
    assert "vault-plugin 1.0: broken" in done.stdout
    assert "ModuleNotFoundError" in done.stdout
    assert "TRIPOINT_DISABLE=vault-plugin" in done.stdout
    data = _command("plugins", "--load", "--json", site=site)
    assert data.returncode == 1
    entry = next(e for e in json.loads(data.stdout) if e["name"] == "vault-plugin")
    assert entry["state"] == "broken"
    assert entry["error"].startswith("ModuleNotFoundError: No module named 'nothing_of_that_name_at_all'")
    assert entry["traceback"][-1] == entry["error"]
    unreadable = write_distribution("odd-name", "[tripoint.backends.v1]\nno point = odd:backend\n")
    assert _command("plugins", site=unreadable).returncode == 1  # its metadata alone says so


def test_bad_options() -> None:
    done = _command("plugins", "--nothing-like-it")
    assert done.returncode == 2
    assert "usage: tripoint" in done.stderr
    assert _command().returncode == 2
    assert _command("--version").stdout.strip() == f"tripoint {tp.__version__}"
