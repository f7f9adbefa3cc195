"""What the kit promises to authors: verdicts, declarations, known failures, reports, and the ways to run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FAULTS
from toys import DTYPES, describe, right_kernels, toy

import tripoint as tp
from tripoint import conformance
from tripoint.conformance.checks.gradients import PROMISES
from tripoint.conformance.checks.protocols import PROTOCOLS
from tripoint.conformance.records import RECORDS, WITHOUT_RECORD
from tripoint.conformance.session import units
from tripoint.errors import ArgumentError, DeviceError, DTypeError, TripointError
from tripoint.plugin import Backend, Capabilities, Device, Key, operators, register, strided


def program(text: str, *, cwd: Path, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, in which some packages cannot be imported."""
    block = "".join(f"sys.modules[{name!r}] = None\n" for name in without)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRIPOINT_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{block}{text}"],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def few(name: str, lacks: dict[str, str] | None, *names: str, **more: Any) -> None:
    """Register a backend with a few of the right kernels."""
    kernels = right_kernels()
    said = {"dtypes": DTYPES, "lacks": lacks, **more}
    backend = Backend(
        Device(name),
        strided,
        payload=np.ndarray,
        describe=describe,
        aliases=np.may_share_memory,
        coerce=np.asarray,
        capabilities=Capabilities(**said),
    )
    backend.kernels(**{n: kernels[n] for n in names})

    @backend.from_("cpu.strided")
    def there(x: Any, *, target: Key) -> Any:
        return np.array(x)

    @backend.to("cpu.strided")
    def back(x: Any) -> Any:
        return np.array(x)

    register(backend)


# What is covered -----------------------------------------------------------------------------------------------------


def test_every_operator_has_a_record_or_a_reason() -> None:
    ours = {name for name in operators() if "::" not in name}
    inplace = {name for name in ours if name.endswith("_")}
    assert {name.removesuffix("_") for name in inplace} <= set(RECORDS)
    assert ours - inplace - set(RECORDS) == set(WITHOUT_RECORD)
    assert set(RECORDS) <= ours, "a record of an operator that there is not"
    assert all(len(reason) > 20 for reason in WITHOUT_RECORD.values())


def test_records_name_operators_that_there_are() -> None:
    for record in RECORDS.values():
        assert set(record.needs) <= set(operators()), record
        assert 0 <= record.tier <= 3
        assert any(record.samples(dtype) for dtype in record.dtypes), record


def test_every_tier_has_units() -> None:
    assert {u.tier for u in units()} == set(conformance.TIERS) == set(range(7))
    named = {u.name for u in units()}
    assert named >= {*RECORDS, *PROMISES, *PROTOCOLS, "add_", "assign_"}


# Declarations --------------------------------------------------------------------------------------------------------


def test_a_backend_with_few_kernels_is_told_what_has_none() -> None:
    few("slim", None, "add", "full", "copy", "astype", "equal")
    report = conformance.run("slim.strided", tiers=[0, 1], operators=["add", "copy", "exp", "zeros_like"])
    verdicts = {v.operator: (v.verdict, v.reason) for v in report.verdicts}
    assert report.ok
    assert verdicts["add"][0] == verdicts["copy"][0] == "pass"
    assert verdicts["exp"] == ("unsupported", "no kernel registered")
    assert verdicts["zeros_like"] == ("unsupported", "no kernel for zeros here")


def test_what_is_declared_and_missing_fails() -> None:
    few("slim", {}, "add", "full", "copy", "astype", "equal")
    report = conformance.run("slim.strided", tiers=[1], operators=["add", "exp"])
    assert [v.operator for v in report.verdicts if v.verdict == "fail"] == ["exp"]
    assert "NoKernelError" in report.failures[0].what


def test_a_lack_carries_its_reason() -> None:
    few("slim", {"exp": "the chip has no exponential unit"}, "add", "full", "copy", "astype", "equal")
    report = conformance.run("slim.strided", tiers=[1], operators=["exp"])
    assert [(v.verdict, v.reason) for v in report.verdicts] == [("unsupported", "the chip has no exponential unit")]


def test_a_gradient_says_which_minimal_operator_is_missing() -> None:
    few(
        "slim",
        None,
        "multiply",
        "add",
        "sum",
        "full",
        "ones",
        "copy",
        "reshape",
        "broadcast_to",
        "permute_dims",
        "astype",
    )
    report = conformance.run("slim.strided", tiers=[4], operators=["multiply", "permute_dims"])
    assert report.of("permute_dims") == report.of("multiply") == "pass"
    few("slimmer", None, "multiply", "add", "full", "ones", "copy", "astype")
    report = conformance.run("slimmer.strided", tiers=[4], operators=["multiply"])
    assert "the minimal operator sum" in report.verdicts[0].reason


def test_a_lack_that_nothing_is_refused_for_is_stale() -> None:
    lacks = {"*": "not written yet", "exp": "there is no exponential here"}
    few("slim", lacks, "exp", "assign_", "full", "ones", "copy", "astype", "equal", dtypes=("float32",))
    report = conformance.run("slim.strided")
    assert [(v.operator, v.verdict) for v in report.verdicts if v.verdict == "fail"] == [("exp", "fail")]
    assert "nothing is refused for it" in next(v.reason for v in report.verdicts if v.verdict == "fail")


@pytest.mark.parametrize("entry", ["expp", "exp.float99", "exp.sometimes", "*.exp"])
def test_a_lack_that_means_nothing_is_refused(entry: str) -> None:
    few("slim", {entry: "because"}, "add")
    with pytest.raises(DTypeError, match="names no operator"):
        conformance.run("slim.strided")


def test_tolerances_live_with_the_backend() -> None:
    fault = next(f for f in FAULTS if f.name == "imprecise far from zero")

    def spoil(kernels: Any, said: Any) -> None:
        fault.spoil(kernels, said)
        said["capabilities"] = Capabilities(dtypes=DTYPES, lacks={}, tolerance={"exp": 1e-3})

    register(toy("kiln", spoil))
    assert conformance.run("kiln.strided", tiers=[6], operators=["exp"]).ok


def test_ranks_and_dtypes_limit_what_is_tried() -> None:
    few("slim", {}, "add", "full", "copy", "astype", "equal", ranks=(2, 2))
    report = conformance.run("slim.strided", tiers=[0, 1], operators=["add", "copy"])
    assert report.ok, report.text()


def test_names_that_there_are_not() -> None:
    with pytest.raises(ArgumentError, match="no record"):
        conformance.run("cpu.strided", operators=["adds"])
    with pytest.raises(ArgumentError, match="tiers 0 to 6"):
        conformance.run("cpu.strided", tiers=[7])
    with pytest.raises(ArgumentError, match="named by its point"):
        conformance.run("cpu")
    with pytest.raises(DeviceError):
        conformance.run("nowhere.strided")


def test_a_backend_that_raises_where_it_is_only_looked_at_fails() -> None:
    def explode(p: Any) -> Any:
        raise ZeroDivisionError("describe")

    register(toy("flawed", lambda kernels, said: said.update(describe=explode)))
    report = conformance.run("flawed.strided", tiers=[0], operators=["copy"])
    assert report.of("copy") == "fail"


# Known failures ------------------------------------------------------------------------------------------------------


def _flawed() -> str:
    register(toy("flawed", next(f for f in FAULTS if f.name == "saturated product").spoil))
    return "flawed.strided"


def test_known_failures_are_excused_and_named(tmp_path: Path) -> None:
    backend = _flawed()
    toml, listed = tmp_path / "known.toml", tmp_path / "known.json"
    toml.write_text('[[failure]]\noperator = "matmul"\ndtype = "int8"\nreason = "saturates, issue 7"\n')
    listed.write_text(json.dumps([{"operator": "matmul", "dtype": "int8", "reason": "saturates, issue 7"}]))
    for path in (toml, listed):
        report = conformance.run(backend, tiers=[3], operators=["matmul"], known_failures=path)
        assert report.ok
        assert [(v.verdict, v.reason) for v in report.verdicts] == [("known", "int8: saturates, issue 7")]


def test_other_dtypes_still_fail() -> None:
    known = [{"operator": "matmul", "dtype": "int32", "reason": "saturates"}]
    report = conformance.run(_flawed(), tiers=[3], operators=["matmul"], known_failures=known)
    assert report.of("matmul") == "fail"


def test_a_stale_known_failure_fails() -> None:
    register(toy("kiln"))
    known = [{"operator": "matmul", "dtype": "int8", "reason": "saturates"}]
    report = conformance.run("kiln.strided", tiers=[3], operators=["matmul"], known_failures=known)
    assert not report.ok
    assert "stale" in next(v.reason for v in report.verdicts if v.verdict == "fail")


def test_a_known_failure_has_a_reason() -> None:
    with pytest.raises(ArgumentError, match="reason"):
        conformance.run("cpu.strided", tiers=[0], known_failures=[{"operator": "copy"}])


# Reports -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed() -> conformance.Report:
    """A report with a failure, a pass, what is blocked and what is not supported."""
    fault = next(f for f in FAULTS if f.name == "lost NaN")

    def spoil(kernels: Any, said: Any) -> None:
        fault.spoil(kernels, said)
        del kernels["prod"]
        said["capabilities"] = Capabilities(dtypes=DTYPES, lacks={"tanh": '<none> & "no" unit'})

    register(toy("flawed", spoil))
    names = ["copy", "maximum", "add", "prod"]
    return conformance.run("flawed.strided", tiers=[0, 1, 2], operators=names)


def test_text(mixed: conformance.Report) -> None:
    text = str(mixed)
    assert "FAIL  tier 1  maximum" in text
    assert "out = tp.maximum(x1, x2)" in text
    assert text.splitlines()[-1].startswith("1 FAIL")


def test_json(mixed: conformance.Report) -> None:
    data = json.loads(mixed.json())
    assert data["ok"] is False
    assert data["counts"]["fail"] == 1
    failing = next(v for v in data["verdicts"] if v["verdict"] == "fail")
    assert (failing["operator"], failing["tier"]) == ("maximum", 1)
    assert failing["failures"][0]["reproducer"].startswith("import tripoint as tp")


def test_junit(mixed: conformance.Report) -> None:
    suite = ElementTree.fromstring(mixed.junit())
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.attrib["tests"]) == len(mixed.verdicts)
    assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"]) == 1
    assert len(suite.findall("testcase/skipped")) == int(suite.attrib["skipped"])
    assert suite.find("testcase/failure").text.count("tp.maximum") >= 1  # type: ignore[union-attr]


def test_markdown(mixed: conformance.Report) -> None:
    rows = [line for line in mixed.markdown().splitlines() if line.startswith("| `")]
    assert len(rows) == len({v.operator for v in mixed.verdicts})
    assert next(r for r in rows if "maximum" in r).count("FAIL") == 1


# Ways to run it ------------------------------------------------------------------------------------------------------


def test_importing_it_needs_neither_pytest_nor_numpy(tmp_path: Path) -> None:
    done = program(
        "import tripoint.conformance, tripoint.conformance.bench\nprint(len(tripoint.conformance.TIERS))",
        cwd=tmp_path,
        without=("pytest", "_pytest", "numpy", "scipy"),
    )
    assert done.stdout.strip() == "7", done.stderr


def test_tripoint_does_not_load_it(tmp_path: Path) -> None:
    done = program("import tripoint\nprint('tripoint.conformance' in sys.modules)", cwd=tmp_path)
    assert done.stdout.strip() == "False", done.stderr


def test_the_command_says_that_pytest_is_missing(tmp_path: Path) -> None:
    done = program(
        "from tripoint.conformance import main\nsys.exit(main(['cpu.strided']))",
        cwd=tmp_path,
        without=("pytest", "_pytest"),
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "pytest, which is not installed" in done.stderr


def run_pytest(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRIPOINT_", "PYTEST_"))}
    call = [sys.executable, "-m", "pytest", "-p", "tripoint.conformance.plugin", "--pyargs", "tripoint.conformance"]
    return subprocess.run([*call, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def test_pytest_runs_it_from_an_empty_folder(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--backend", "cpu.strided", "--tiers", "0,1", "-q", "--conformance-report", "out.json")
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["ok"]
    passed = report["counts"]["pass"]
    assert f"{passed + 1} passed" in done.stdout, "and one for what is declared"


def test_the_command_runs_pytest(tmp_path: Path) -> None:
    text = (
        "from tripoint.conformance import main\n"
        "sys.exit(main(['meta.strided', '--tiers', '0', '--report', 'out.md', '-q', '-k', 'zeros']))"
    )
    done = program(text, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "`zeros`" in (tmp_path / "out.md").read_text()


def test_pytest_shows_a_failure_by_its_reproducer(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import numpy as np\n"
        "from tripoint.plugin import Backend, Capabilities, Device, register, strided\n"
        "b = Backend(Device('flawed'), strided, payload=np.ndarray, capabilities=Capabilities(dtypes=('float32',), lacks={}))\n"
        "b.kernels(negative=np.absolute)\n"
        "b.to('cpu.strided')(lambda x: x.copy())\n"
        "b.from_('cpu.strided')(lambda x, *, target: x.copy())\n"
        "register(b)\n"
    )
    words = ("-p", "wrong", "--backend", "flawed.strided", "--tiers", "1", "--operators", "negative", "-q")
    done = run_pytest(tmp_path, *words)
    assert done.returncode == 1
    assert "out = tp.negative(x)" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_pytest_wants_a_backend_that_there_is(tmp_path: Path) -> None:
    done = run_pytest(tmp_path)
    assert done.returncode == 4
    assert "--backend cpu.strided" in done.stderr
    done = run_pytest(tmp_path, "--backend", "nowhere.strided")
    assert done.returncode == 4
    assert "nowhere" in done.stderr


def test_it_runs_under_optimisation(tmp_path: Path) -> None:
    text = "from tripoint import conformance\nprint(conformance.run('cpu.strided', tiers=[0, 1]).ok)"
    done = subprocess.run([sys.executable, "-O", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "True", done.stderr


def test_bench_names_every_operator_asked_for() -> None:
    from tripoint.conformance.bench import bench

    table = bench("cpu.strided", ["add", "matmul", "reshape"]).splitlines()
    assert [line.split()[0] for line in table] == ["operator", "add", "matmul", "reshape"]
    assert all(float(line.split()[-1]) > 0 for line in table[1:])


def test_bench_refuses_names_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["cpu.strided", "--bench", "--operators", "adds"]) == 2
    assert conformance.main(["nowhere.strided", "--bench"]) == 2
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["tripoint conformance"] * 2


def test_the_golden_vectors_are_what_numpy_gives() -> None:
    script = Path(__file__).with_name("make_golden.py")
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_errors_are_of_tripoint() -> None:
    failure = conformance.ConformanceFailure("add", "int8", "wrong", "import tripoint as tp")
    assert isinstance(failure, TripointError)
    assert not isinstance(failure, AssertionError)
    assert "import tripoint as tp" in str(failure)
    assert tp.conformance is conformance
