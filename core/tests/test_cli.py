"""The command `tripoint` in processes of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tripoint as tp

pytestmark = pytest.mark.interpreters

_BROKEN = "[tripoint.backends.v1]\nvault.strided = vault_plugin:backend\n"

#: a plugin that works, and prints while it is imported in every way there is
_LOUD = """
import os
import subprocess
import sys

import numpy as np

import tripoint as tp
from tripoint.plugin import Backend, Device, strided

print("printed by the plugin")
os.write(1, b"written by native code of the plugin\\n")
subprocess.run([sys.executable, "-c", "print('said by a child of the plugin')"], check=True)
backend = Backend(Device("loud"), strided, payload=np.ndarray)
backend.kernels(exp=np.exp)
backend.probe(lambda: "no driver [v1] on this machine")
"""


def _run(*command: str, site: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRIPOINT_")}
    kept["PYTHONPATH"] = os.pathsep.join([*([str(site)] if site else []), *filter(None, [kept.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *command], capture_output=True, encoding="utf-8", timeout=120, env={**kept, **env}
    )


def _command(*arguments: str, site: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return _run("-m", "tripoint", *arguments, site=site, PYTHONIOENCODING="utf-8", **env)


@pytest.fixture
def loud(write_distribution: Any) -> Path:
    """A folder in which a plugin is installed that prints, and whose hardware is missing."""
    site: Path = write_distribution(
        "loud-plugin", "[tripoint.backends.v1]\nloud.strided = loud_plugin:backend\n", loud_plugin=_LOUD
    )
    return site


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
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: tripoint plugins" in done.stderr
    assert "--nothing-like-it" in done.stderr
    assert _command().returncode == 2
    assert _command("nothing-of-that-name").returncode == 2
    assert _command("--version").stdout.strip() == f"tripoint {tp.__version__}"


@pytest.mark.parametrize("absent", ["typer", "rich"])
def test_without_the_extra_one_line_says_how_to_get_it(absent: str) -> None:
    program = f"import sys, runpy; sys.modules[{absent!r}] = None; sys.argv = ['tripoint', 'plugins']; "
    program += "runpy.run_module('tripoint', run_name='__main__')"
    done = _run("-c", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tripoint: the command line needs {absent}: pip install typer rich, or with tripoint itself: "
        'pip install "tripoint[cli]"\n'
    )


def test_the_help_names_every_command_and_status() -> None:
    done = _command("--help")
    assert done.returncode == 0
    for command in ("plugins", "devices", "ops", "coverage", "explain", "conformance", "new-backend", "doctor"):
        assert f"\n  {command} " in done.stdout, command
        helped = _command(command, "--help") if command != "conformance" else None
        assert helped is None or (helped.returncode, "--json" in helped.stdout) == (0, True), command
    assert "..." not in done.stdout.partition("Commands:")[2]
    assert "Exit statuses" in done.stdout


# Output --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("plugins", "--load"),
        ("devices", "--load"),
        ("ops", "--load"),
        ("coverage", "exp", "--load"),
        ("explain", "exp", "loud.strided.float32[2]"),
        ("doctor",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_a_plugin_prints_is_no_part_of_the_answer(loud: Path, arguments: tuple[str, ...]) -> None:
    done = _command(*arguments, "--json", site=loud)
    json.loads(done.stdout)
    for said in ("printed by the plugin", "written by native code", "said by a child"):
        assert said in done.stderr
    text = _command(*arguments, site=loud)
    assert "by the plugin" not in text.stdout
    assert text.returncode == done.returncode


def test_piped_text_has_no_colours_and_nothing_is_cut(write_distribution: Any) -> None:
    name = "vault-" + "of-a-name-that-does-not-end-" * 8 + "plugin"
    site = write_distribution(name, _BROKEN, vault_plugin="x = 1\n")
    done = _command("devices", site=site, TERM="xterm-256color", COLUMNS="40", COLORTERM="truecolor")
    assert "\x1b" not in done.stdout
    assert name in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["device", "provider", "state", "usable", "why,", "and", "what", "others", "add"]
    assert [line.split()[0] for line in lines[1:]] == sorted(line.split()[0] for line in lines[1:])  # one line a device


def test_an_encoding_that_lacks_a_sign_is_no_failure() -> None:
    done = _run(
        "-m", "tripoint", "coverage", "bitwise_and", "--device", "cpu", "--dtype", "float32", PYTHONIOENCODING="ascii"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2013" in done.stdout  # the dash of a dtype that the operator does not take


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals to ask")
def test_a_terminal_gets_folded_columns(loud: Path) -> None:
    program = (
        "import os, pty, sys\n"
        "os.environ['COLUMNS'] = '60'\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.executable, '-m', 'tripoint', 'devices', '--load'])))\n"
    )
    done = _run("-c", program, site=loud, TERM="xterm")
    assert done.returncode == 0
    assert "\x1b[" in done.stdout
    table = re.sub(r"\x1b\[[\d;]*m", "", done.stdout[done.stdout.index("\x1b[") :])
    assert max(map(len, table.splitlines())) <= 60
    assert "[v1]" in table  # which is text and no markup


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals to ask")
def test_colours_go_by_the_stream_of_the_answer(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    program = (
        "import os, pty, subprocess, sys\n"
        "to_file = f'exec {sys.executable} -m tripoint devices > {sys.argv[1]}'\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn(['sh', '-c', to_file])))\n"
    )
    assert _run("-c", program, str(out), TERM="xterm").returncode == 0
    assert "cpu" in out.read_text()
    assert "\x1b" not in out.read_text()


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    program = (
        "import subprocess, sys\n"
        "run = subprocess.Popen([sys.executable, '-m', 'tripoint', 'coverage', '--json'], stdout=subprocess.PIPE)\n"
        "run.stdout.read(10); run.stdout.close(); run.wait()\n"
    )
    done = _run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")


# Devices and doctor --------------------------------------------------------------------------------------------------


def test_devices_are_listed_without_an_import(loud: Path) -> None:
    done = _command("devices", "--json", site=loud)
    assert (done.returncode, done.stderr) == (0, "")
    found = {entry["device"]: entry for entry in json.loads(done.stdout)}
    assert found["loud"] == {
        "device": "loud",
        "provider": "loud-plugin",
        "version": "1.0",
        "state": "found",
        "usable": None,
        "why": "",
        "count": None,
        "adds": [],
    }
    assert found["cpu"]["provider"] == "tripoint-dense-cpu"
    assert "cpu.sparse_coo (tripoint-sparse-coo)" in found["cpu"]["adds"]
    assert found["meta"]["provider"] == "tripoint"


def test_devices_say_why_one_cannot_be_used(loud: Path) -> None:
    done = _command("devices", "--load", "--json", site=loud)
    assert done.returncode == 0  # a machine without the hardware is no fault of the installation
    found = {entry["device"]: entry for entry in json.loads(done.stdout)}
    assert (found["loud"]["usable"], found["loud"]["why"]) == (False, "no driver [v1] on this machine")
    assert (found["cpu"]["usable"], found["meta"]["usable"]) == (True, True)
    text = _command("devices", "--load", site=loud).stdout
    line = next(line for line in text.splitlines() if line.startswith("loud "))
    assert line.split(maxsplit=5) == ["loud", "loud-plugin", "1.0", "loaded", "no", "no driver [v1] on this machine"]
    blocked = _command("devices", "--json", site=loud, TRIPOINT_DISABLE="loud-plugin")
    entry = next(e for e in json.loads(blocked.stdout) if e["device"] == "loud")
    assert (entry["state"], entry["usable"]) == ("blocked", False)


def test_a_device_that_nobody_brings_is_listed_with_what_is_missing(write_distribution: Any) -> None:
    site = write_distribution("ragged-plugin", "[tripoint.backends.v1]\nvault.ragged = ragged:backend\n")
    done = _command("devices", "--json", site=site)
    entry = next(e for e in json.loads(done.stdout) if e["device"] == "vault")
    assert (entry["provider"], entry["usable"]) == (None, False)
    assert entry["adds"] == ["vault.ragged (ragged-plugin)"]
    assert entry["why"] == "no plugin brings its dense tensors"


def test_doctor_of_a_sound_installation() -> None:
    done = _command("doctor", TRIPOINT_DISABLE="tripoint-cuda-cupy")
    assert done.returncode == 0, done.stdout
    assert f"tripoint-dense-cpu {tp.__version__}" in done.stdout
    assert "TRIPOINT_DISABLE=tripoint-cuda-cupy" in done.stdout
    assert "error" not in done.stdout


def test_doctor_of_the_core_alone_says_that_there_is_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from tripoint.plugins import diagnosis

    note = "no plugin provides cpu.strided, where tensors are made unless a device or layout is named"
    assert note not in [f.what for f in tp.plugins.findings()]
    everything = tp.plugins.found()
    # What another plugin adds to the CPU is not the CPU.
    for kept in ({"tripoint"}, {"tripoint", "tripoint-sparse-coo", "tripoint-quantized"}):
        left = {name: plugin for name, plugin in everything.items() if name in kept}
        monkeypatch.setattr(diagnosis, "found", lambda left=left: left)
        (finding,) = [f for f in tp.plugins.findings() if f.what == note]
        assert finding.level == "note"
        assert finding.remedy.startswith("pip install tripoint-dense-cpu (in a checkout: ./plugins/dense_cpu)")


def test_doctor_says_what_to_type(write_distribution: Any) -> None:
    site = write_distribution("vault-plugin", _BROKEN, vault_plugin="import nothing_of_that_name_at_all\n")
    assert _command("doctor", "--no-load", site=site).returncode == 0
    done = _command("doctor", site=site)
    assert done.returncode == 1
    line = done.stdout.splitlines().index(
        "error: vault-plugin 1.0 is broken: ModuleNotFoundError: No module named 'nothing_of_that_name_at_all'"
    )
    assert "TRIPOINT_DISABLE=vault-plugin" in done.stdout.splitlines()[line + 1]
    data = json.loads(_command("doctor", "--json", site=site, TRIPOINT_DISABEL="x").stdout)
    assert data["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert data["versions"]["vault-plugin"] == "1.0"
    assert data["environment"] == {"TRIPOINT_DISABEL": "x"}
    levels = [finding["level"] for finding in data["findings"]]
    assert levels[0] == "error"
    assert any("TRIPOINT_DISABEL" in finding["what"] for finding in data["findings"])
    assert all(finding["remedy"] for finding in data["findings"])


# Operators and calls -------------------------------------------------------------------------------------------------


def test_operators() -> None:
    found = {entry["name"]: entry for entry in json.loads(_command("ops", "--json").stdout)}
    assert (found["add"]["form"], found["add"]["minimal"], found["add"]["called"]) == (
        "primitive",
        True,
        "tripoint.add",
    )
    assert found["softmax"]["form"] == "composite"
    nn = json.loads(_command("ops", "nn", "--json").stdout)
    assert {entry["name"] for entry in nn} >= {"relu", "linear", "conv2d"}
    assert "add" not in {entry["name"] for entry in nn}
    line = next(line for line in _command("ops").stdout.splitlines() if line.startswith("add("))
    assert "elementwise" in line
    assert _command("ops", "nothing-of-that-name").returncode == 2


def test_coverage(tmp_path: Path) -> None:
    asked = ("coverage", "add", "exp", "--device", "cpu", "--layout", "strided", "--dtype", "float32")
    cells = json.loads(_command(*asked, "--json").stdout)["cells"]
    assert [(c["operator"], c["verdict"]) for c in cells] == [("add", "kernel"), ("exp", "kernel")]
    assert all(c["provider"].startswith("tripoint-dense-cpu") for c in cells)
    assert "| `exp` | kernel |" in _command(*asked, "--markdown").stdout
    page = tmp_path / "page.html"
    done = _command(*asked, "--html", str(page))
    assert done.stdout.strip() == f"written: {page}"
    assert "<html" in page.read_text(encoding="utf-8")
    nowhere = _command(*asked, "--html", str(tmp_path / "no" / "folder" / "page.html"))
    assert nowhere.returncode == 2
    assert "cannot be written" in nowhere.stderr
    assert _command("coverage", "--device", "nowhere").returncode == 2


def test_explain_a_call() -> None:
    asked = ("explain", "matmul", "cpu.strided.float32[2,3]+grad", "cpu.sparse_coo.float32[3,4]")
    done = _command(*asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert "floors: autograd > backend" in done.stdout
    assert "shape (2, 4)" in done.stdout
    walk = json.loads(_command(*asked, "--json").stdout)
    assert (walk["operator"], walk["how"], walk["shape"], walk["error"]) == ("matmul", "kernel", [2, 4], None)
    assert [a["key"] for a in walk["arguments"]] == ["autograd<cpu.strided.float32>", "cpu.sparse_coo.float32"]
    assert walk["candidates"][0]["provider"].startswith("tripoint-sparse-coo")


def test_explain_a_call_that_is_refused() -> None:
    done = _command("explain", "exp", "cpu.sparse_coo.float32[3,4]")
    assert done.returncode == 1
    assert "raises NoKernelError" in done.stdout


def test_explain_takes_numbers_metadata_and_files(tmp_path: Path) -> None:
    shape = json.loads(_command("explain", "sum", "cpu.strided.float32[2,3]", "--meta", "axis=1", "--json").stdout)[
        "shape"
    ]
    assert shape == [2]
    joined = _command(
        "explain", "concat", "cpu.strided.float32[2]", "cpu.strided.int8[3]", "--meta", "axis=0", "--json"
    )
    assert json.loads(joined.stdout)["shape"] == [5]
    moved = json.loads(
        _command(
            "explain", "to", "cpu.strided.float32[]", "--meta", "device=meta", "--meta", "dtype=float16", "--json"
        ).stdout
    )
    assert (moved["result"], moved["shape"]) == ("meta.strided.float16", [])
    halved = json.loads(
        _command("explain", "nn.linear", "cpu.strided.int8[2,3]", "cpu.strided.float32[4,3]", "None", "--json").stdout
    )
    assert halved["shape"] == [2, 4]
    page = tmp_path / "walk.html"
    assert _command("explain", "add", "cpu.strided.float32[2]", "1.5", "--plan", "--html", str(page)).returncode == 0
    assert "<html" in page.read_text(encoding="utf-8")
    assert "plan:" in _command("explain", "add", "cpu.strided.float32[2]", "1.5", "--plan").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("frob",), "there is no operator 'frob'"),
        (("softmx", "cpu.strided.float32[2]"), "softmax"),
        (("add", "cpu.strided[2]", "1"), "'cpu.strided[2]' is no operand"),
        (("add", "cpu.strided.float32[2]", "'text'"), "is no operand"),
        (("add", "cpu.strided.float32[2]", "__import__('os')"), "is no operand"),
        (("exp", "nowhere.strided.float32[2]"), "unknown device 'nowhere'"),
        (("exp", "cpu.nothing.float32[2]"), "unknown layout 'nothing'"),
        (("exp", "cpu.strided.float99[2]"), "unknown dtype 'float99'"),
        (("exp", "cpu.strided.int8[2]+grad"), "int8"),
        (("sum", "cpu.strided.float32[2]", "--meta", "axis"), "write name=value"),
        (("sum", "cpu.strided.float32[2]", "--meta", "axes=0"), "axes"),
    ],
)
def test_what_explain_cannot_read(arguments: tuple[str, ...], said: str) -> None:
    done = _command("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


# Backends ------------------------------------------------------------------------------------------------------------


def test_conformance_as_json_is_the_report_alone() -> None:
    done = _command("conformance", "cpu.strided", "--tiers", "0", "--operators", "zeros,ones", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["backend"], report["ok"]) == ("cpu.strided", True)
    assert "passed" in done.stderr  # pytest's own lines
    unknown = _command("conformance", "nowhere.strided", "--json")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "unknown device 'nowhere'" in unknown.stderr
    assert _command("conformance").returncode == 2
    assert "--tiers" in _command("conformance", "--help").stdout


def test_new_backend_writes_a_package_once(tmp_path: Path) -> None:
    asked = ("new-backend", "tripoint-shed", "--device", "shed", "--folder", str(tmp_path))
    done = _command(*asked, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"folder": str(tmp_path / "tripoint-shed")}
    assert (tmp_path / "tripoint-shed" / "pyproject.toml").is_file()
    again = _command(*asked)
    assert (again.returncode, again.stdout) == (2, "")
    assert "is there already" in again.stderr
    told = _command("new-backend", "my-rows", "--device", "cpu", "--layout", "rows", "--folder", str(tmp_path))
    assert [line.strip() for line in told.stdout.splitlines()[1:]] == [
        f"cd {tmp_path / 'my-rows'}",
        'pip install -e ".[test]"',
        "python -m pytest",
        "tripoint conformance cpu.rows",
    ]
    assert _command("new-backend", "tripoint-shed").returncode == 2  # no device


# Streams that are closed or full -------------------------------------------------------------------------------------

posix = pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirections, and /dev/full")


def _shell(line: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A line of the shell in which TRIPOINT stands for the command, and whose last word is the status of that."""
    program = "import subprocess, sys; sys.exit(subprocess.run(['sh', '-c', sys.argv[1]]).returncode)"
    return _run("-c", program, line.replace("TRIPOINT", f"'{sys.executable}' -m tripoint"), site=site)


@posix
@pytest.mark.parametrize("words", ["plugins --json", "devices --load --json", "doctor --json", "ops nn --json"])
def test_a_closed_error_stream_is_no_reason_not_to_answer(words: str) -> None:
    done = _shell(f"TRIPOINT {words} 2>&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)


@posix
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("TRIPOINT doctor >&-", "the standard output stream is closed"),
        ("TRIPOINT --help >&-", "the standard output stream is closed"),
        ("TRIPOINT ops > /dev/full", "No space left on device"),
        ("TRIPOINT plugins --json > /dev/full", "No space left on device"),
        ("TRIPOINT --version > /dev/full", "No space left on device"),
        ("TRIPOINT --help > /dev/full", "No space left on device"),
    ],
)
def test_an_answer_that_cannot_be_written_is_one_line(line: str, why: str) -> None:
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = _shell(line)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tripoint: the answer cannot be written: {why}\n"


@posix
@pytest.mark.parametrize("words", ["coverage --json", "ops", "--help"])
def test_a_closed_pipe_is_no_finding(words: str) -> None:
    program = (
        "import subprocess, sys\n"
        "run = subprocess.Popen([sys.executable, '-m', 'tripoint', *sys.argv[1:]], stdout=subprocess.PIPE)\n"
        "run.stdout.close()\n"
        "print(run.wait())\n"
    )
    done = _run("-c", program, *words.split())
    assert (done.stdout, done.stderr) == ("141\n", "")


@posix
@pytest.mark.parametrize(
    "code",
    [
        "sys.stdout.close()",
        "sys.__stdout__.close()",
        "os.close(1)",
        "sys.stderr.close()",
        "os.close(1); os.close(2)",
        "sys.stdout = sys.stderr = None",
    ],
)
def test_a_plugin_that_closes_the_streams_closes_them_for_itself(write_distribution: Any, code: str) -> None:
    module = f"import os, sys\n{code}\nraise OSError('no driver')\n"
    site = write_distribution("vault-plugin", _BROKEN, vault_plugin=module)
    done = _command("plugins", "--load", "--json", site=site)
    assert done.returncode == 1
    (entry,) = (e for e in json.loads(done.stdout) if e["name"] == "vault-plugin")
    assert entry["error"] == "OSError: no driver"
    refused = _command("coverage", "exp", "--device", "vault", site=site)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "which failed to load: OSError: no driver" in refused.stderr


@posix
def test_coverage_folds_to_a_terminal(loud: Path) -> None:
    program = (
        "import os, pty, sys\n"
        "os.environ['COLUMNS'] = '60'\n"
        "words = [sys.executable, '-m', 'tripoint', 'coverage', 'exp', 'add', '--load']\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn(words)))\n"
    )
    done = _run("-c", program, site=loud, TERM="xterm")
    assert done.returncode == 0
    text = re.sub(r"\x1b\[[\d;]*m", "", done.stdout[done.stdout.index("\x1b[") :])
    table = text.partition("kernel: one kernel computes it")[0]
    assert "exp" in table
    assert max(map(len, table.splitlines())) <= 60


@pytest.mark.parametrize("other", [("--json",), ("--html", "page.html")])
def test_one_form_of_a_table_at_a_time(other: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = _command("coverage", "add", "--markdown", *other)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--markdown" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_long_and_painted_texts_are_one_line_a_cell_without_control_characters(write_distribution: Any) -> None:
    module = _LOUD.replace(
        '"no driver [v1] on this machine"', "'\\x1b[31mno driver\\x07\\n' + '\\n'.join(f'line {i}' for i in range(200))"
    )
    site = write_distribution(
        "loud-plugin", "[tripoint.backends.v1]\nloud.strided = loud_plugin:backend\n", loud_plugin=module
    )
    plain = set(map(chr, range(32, 127))) | {"\n", "–"}
    for words in (("devices", "--load"), ("plugins", "--load"), ("doctor",), ("coverage", "exp", "--load")):
        done = _command(*words, site=site)
        assert done.returncode == 0, words
        assert set(done.stdout) <= plain, words
        assert "no driver" in done.stdout
        assert "line 7" not in done.stdout
    devices = _command("devices", "--load", site=site).stdout.splitlines()
    assert sum("line" in line for line in devices) == 1


# What programs read ---------------------------------------------------------------------------------------------------

_PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"

_answers: dict[str, tuple[str, ...]] = {
    "doctor": (),
    "plugins": (),
    "devices": (),
    "ops": ("nn",),
    "coverage": ("matmul", "--device", "cpu", "--dtype", "float32"),
    "explain": ("matmul", "cpu.strided.float32[2,3]", "cpu.sparse_coo.float32[3,4]"),
    "conformance": ("broken.strided", "--operators", "exp"),
    "new-backend": ("tripoint-yard", "--device", "yard", "--folder"),
}

_WRONG = """
import tripoint as tp
from tripoint.plugin import Backend, Device, strided
class P:
    def __init__(self, array): self.array, self.shape = array, array.shape
backend = Backend(Device("broken"), strided, payload=P, describe=lambda x: {"dtype": getattr(tp, x.array.dtype.name)})
backend.to("cpu.strided")(lambda x: x.array.copy())
backend.from_("cpu.strided")(lambda x: P(x.copy()))
backend.kernels(exp=lambda x: P(x.array + 1))
"""


def _fields(answer: Any) -> set[str]:
    """The names in an answer: of an object, or of those in a list, and of the objects in its lists."""
    if isinstance(answer, list):
        return set().union(*map(_fields, answer)) if answer and isinstance(answer[0], dict) else set()
    return set(answer).union(*(_fields(value) for value in answer.values() if isinstance(value, list)))


@pytest.mark.parametrize("command", _answers)
def test_an_answer_as_json_has_the_names_that_the_page_has(
    command: str, write_distribution: Any, tmp_path: Path
) -> None:
    if not _PAGE.exists():
        pytest.skip("the documentation is not beside the tests")
    site = write_distribution(
        "broken-plugin", "[tripoint.backends.v1]\nbroken.strided = broken:backend\n", broken=_WRONG
    )
    given = (*_answers[command], *([str(tmp_path)] if command == "new-backend" else []))
    done = _command(command, *given, "--json", site=site, TRIPOINT_NOTHING="x")
    assert done.returncode in (0, 1), done.stderr
    section = _PAGE.read_text(encoding="utf-8").partition("## As JSON\n")[2].partition("\n## ")[0]
    (row,) = [line for line in section.splitlines() if line.startswith(f"| `{command}` |")]
    named = set(re.findall(r"`(\w+)`", row.partition("| ")[2].partition(" | ")[2]))
    fields = _fields(json.loads(done.stdout))
    values = {"error", "warning", "note", "found", "loaded", "blocked", "broken", "missing", "null", "none"}
    values |= {"kernel", "hooks", "decomposition", "fallback"}
    assert fields - named == set()
    assert named - fields - values == set()
