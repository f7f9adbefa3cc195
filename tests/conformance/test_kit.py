"""What the kit promises to authors: verdicts, declarations, known failures, reports, and the ways to run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FAULTS
from toys import DTYPES, describe, quiet, right_kernels, toy

import tripoint as tp
from tripoint import conformance, plugins
from tripoint.conformance.checks.gradients import PROMISES
from tripoint.conformance.checks.protocols import PROTOCOLS
from tripoint.conformance.records import RECORDS, WITHOUT_RECORD
from tripoint.conformance.session import units
from tripoint.errors import ArgumentError, DeviceError, DTypeError, ShapeError, TripointError
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
    assert "  got  [" in text
    assert "  want [" in text
    assert text.endswith("1 failed, 4 blocked, 2 passed\n")


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
    assert f"{report['counts']['pass']} passed" in done.stdout


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
    assert "1 failed" in done.stdout


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


# What an author declares honestly --------------------------------------------------------------------------------------


def _refusing(*names: str) -> Any:
    """A right backend that refuses results of some dtypes, and declares the others."""
    refused = {getattr(tp, name) for name in names}

    def spoil(kernels: Any, said: Any) -> None:
        def without(right: Any) -> Any:
            @wraps(right)
            def kernel(*operands: Any, **meta: Any) -> Any:
                wanted = getattr(meta.get("target"), "dtype", None)
                out = None if wanted in refused else right(*operands, **meta)
                if out is None or (isinstance(out, np.ndarray) and out.dtype.name in names):
                    raise DTypeError("the chip has no such numbers")
                return out

            return kernel

        kernels.update({name: fn if name.endswith("_") else without(fn) for name, fn in kernels.items()})
        lacks = dict.fromkeys(("mean.bool", "mean.integral", "max.gradient", "min.gradient"), "needs a sum in int64")
        said["capabilities"] = Capabilities(dtypes=tuple(d for d in DTYPES if d not in names), lacks=lacks)

    return spoil


def test_a_backend_without_int64_passes_by_an_honest_declaration() -> None:
    register(toy("kiln", _refusing("int64")))
    report = conformance.run("kiln.strided")
    assert report.ok, report.text()
    assert report.of("add") == report.of("equal") == report.of("sum") == "pass"
    register(toy("slim", _refusing("int64")))
    verdict = next(v for v in conformance.run("slim.strided", tiers=[2], operators=["argmax"]).verdicts)
    assert verdict.verdict == "unsupported"
    assert "int64, which the backend does not hold" in verdict.reason


def test_a_part_of_an_operator_may_want_a_dtype_that_is_not_declared_and_no_other() -> None:
    def honest(kernels: Any, said: Any) -> None:
        _refusing("int64")(kernels, said)
        said["capabilities"] = said["capabilities"]._replace(lacks={})

    register(toy("honest", honest))
    found = conformance.run("honest.strided", tiers=[2], operators=["mean"])
    slope = conformance.run("honest.strided", tiers=[4], operators=["max"])
    assert (found.of("mean"), slope.of("max")) == ("pass", "unsupported")
    for report in (found, slope):
        assert "needs sum to give int64, which the backend does not hold" in report.verdicts[0].reason

    def boaster(kernels: Any, said: Any) -> None:
        honest(kernels, said)
        said["capabilities"] = Capabilities(dtypes=DTYPES, lacks={})

    register(toy("boaster", boaster))
    report = conformance.run("boaster.strided", tiers=[2], operators=["mean"])
    assert report.of("mean") == "fail"
    assert "the chip has no such numbers" in report.text()


def test_a_wrong_sum_of_bools_is_blamed_on_sum_alone() -> None:
    register(toy("flawed", next(f for f in FAULTS if f.name == "sum of bools is any").spoil))
    report = conformance.run("flawed.strided", tiers=range(3))
    assert [v.operator for v in report.verdicts if v.verdict == "fail"] == ["sum"]


def test_results_with_more_axes_than_declared_are_skipped() -> None:
    def spoil(kernels: Any, said: Any) -> None:
        def limited(right: Any) -> Any:
            @wraps(right)
            def kernel(*operands: Any, **meta: Any) -> Any:
                out = right(*operands, **meta)
                if getattr(out, "ndim", 0) > 3:
                    raise ShapeError("at most 3 axes")
                return out

            return kernel

        kernels.update({name: limited(fn) for name, fn in kernels.items()})
        said["capabilities"] = Capabilities(dtypes=DTYPES, ranks=(0, 3), lacks={})

    register(toy("kiln", spoil))
    report = conformance.run("kiln.strided")
    assert report.ok, report.text()
    assert report.of("expand_dims") == report.of("matmul") == "pass"


def test_numbers_that_a_device_rounds_are_no_change_of_an_operand() -> None:
    """A device that holds 8 bits of a float32: results are off as declared, operands stay as they were."""

    def coarse(x: Any) -> Any:
        return np.rint(x * 8) / np.float32(8) if x.dtype == np.float32 else x

    def spoil(kernels: Any, said: Any) -> None:
        made = kernels.pop("from_data")
        kernels["from_data"] = lambda *, data, copy, target: coarse(made(data=data, copy=copy, target=target))
        wide = Capabilities(dtypes=("float32",), lacks={}, tolerance={"*": 0.1}, nonfinite=False)
        said.update(held=coarse, capabilities=wide)

    register(toy("grid", spoil))
    report = conformance.run("grid.strided", tiers=[0, 1], operators=["copy", "add", "multiply", "negative"])
    assert not any("changed its operand" in f.what for f in report.failures), report.text()
    assert report.of("add") == report.of("copy") == "pass", report.text()


def test_without_nonfinite_numbers_none_is_asked_for() -> None:
    asked: list[Any] = []

    def spoil(kernels: Any, said: Any) -> None:
        def spied(right: Any) -> Any:
            @wraps(right)
            def kernel(*operands: Any, **meta: Any) -> Any:
                out = right(*operands, **meta)
                if isinstance(out, np.ndarray) and out.dtype.kind == "f":
                    asked.append(bool(np.isfinite(out).all()))
                return out

            return kernel

        for name in ("from_data", "full", "exp", "copy"):
            kernels[name] = spied(kernels[name])
        said["capabilities"] = Capabilities(dtypes=("float32", "float64"), lacks={}, nonfinite=False)

    register(toy("kiln", spoil))
    assert conformance.run("kiln.strided", operators=["from_data", "full", "exp", "copy"], tiers=[0, 1]).ok
    assert asked
    assert all(asked)


@pytest.mark.parametrize(
    ("said", "words"),
    [({"dtypes": ("flot32",)}, "'flot32', which is neither"), ({"dtypes": DTYPES, "ranks": (3, 1)}, r"not \(3, 1\)")],
)
def test_declarations_that_mean_nothing_are_refused(said: dict[str, Any], words: str) -> None:
    register(toy("kiln", lambda kernels, all_said: all_said.update(capabilities=Capabilities(**said, lacks={}))))
    with pytest.raises(ArgumentError, match=words):
        conformance.run("kiln.strided")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"tiers": 1}, "tiers are several"),
        ({"tiers": ["a"]}, "tier 'a'"),
        ({"operators": "add"}, r"operators=\['add'\], not 'add'"),
    ],
)
def test_arguments_of_other_kinds_are_refused(call: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        conformance.run("cpu.strided", **call)
    with pytest.raises(ArgumentError, match="named by its point"):
        conformance.run(None)  # type: ignore[arg-type]


_BAD_FILES = {
    "toml.toml": b"[[failure\n",
    "json.json": b"[{",
    "coding.toml": b"\xff\xfe",
    "empty.toml": b"",
    "text.json": b'["add"]',
    "key.toml": b'[[failure]]\noperator = "add"\ndytpe = "int8"\nreason = "x"\n',
    "reason.toml": b'[[failure]]\noperator = "add"\nreason = " "\n',
    "operator.toml": b'[[failure]]\noperator = "adds"\nreason = "x"\n',
    "dtype.toml": b'[[failure]]\noperator = "add"\ndtype = "flot"\nreason = "x"\n',
    "missing.toml": None,
}


@pytest.mark.parametrize("name", _BAD_FILES)
def test_a_file_of_known_failures_that_means_nothing_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = _BAD_FILES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ArgumentError, match=name) as raised:
        conformance.run("cpu.strided", tiers=[0], known_failures=tmp_path / name)
    assert "\n" not in str(raised.value)
    assert conformance.main(["cpu.strided", "--tiers", "0", "--known-failures", str(tmp_path / name)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_control_characters_are_escaped_everywhere() -> None:
    said = "a \x00\x1b[31m ]]> & \ud800\nsecond"

    def spoil(kernels: Any, all_said: Any) -> None:
        def exp(x: Any) -> Any:
            raise ValueError(said)

        kernels["exp"] = exp
        del kernels["tanh"]
        all_said["capabilities"] = Capabilities(dtypes=DTYPES, lacks={"tanh": said})

    register(toy("flawed", spoil))
    report = conformance.run("flawed.strided", tiers=[1], operators=["exp", "tanh"])
    assert report.counts()["fail"] == report.counts()["unsupported"] == 1
    assert len(ElementTree.fromstring(report.junit())) == 2
    for text in (report.text(), report.junit(), report.markdown(), report.json()):
        assert text.encode().decode().replace("\n", "").isprintable()
    with pytest.raises(ValueError, match="second"):
        exec(compile(report.failures[0].reproducer, "<pasted>", "exec"), {})


def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "none" / "out.json"):
        assert conformance.main(["cpu.strided", "--tiers", "0", "--report", str(path)]) == 2
        out = capsys.readouterr()
        assert out.out == ""
        assert len(out.err.splitlines()) == 1
        assert str(path) in out.err
    assert list(tmp_path.iterdir()) == []


def test_the_command_leaves_no_cache_behind(tmp_path: Path) -> None:
    text = "from tripoint.conformance import main\nsys.exit(main(['meta.strided', '--tiers', '0', '-q']))"
    done = program(text, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bench_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "times.json"
    assert conformance.main(["cpu.strided", "--bench", "--operators", "add,zeros", "--report", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    times = json.loads(path.read_text())["times"]
    assert [t["operator"] for t in times] == ["add", "zeros"]
    assert all(t["microseconds"] > 0 for t in times)


# What somebody new met -----------------------------------------------------------------------------------------------


def test_a_word_that_is_no_operator_is_answered_by_the_nearest() -> None:
    with pytest.raises(ArgumentError, match=r"^the kit has no record of 'matmull'; did you mean matmul") as refused:
        conformance.run("cpu.strided", operators=["matmull"])
    assert len(str(refused.value)) < 200
    with pytest.raises(ArgumentError, match="collect-only"):
        conformance.run("cpu.strided", operators=["zzzzzzzz"])


def test_a_part_of_an_option_is_none(tmp_path: Path) -> None:
    text = "from tripoint.conformance import main\nsys.exit(main(['cpu.strided', '--tier', '0']))"
    done = program(text, cwd=tmp_path)
    assert done.returncode == 2
    assert "unrecognized arguments: --tier" in done.stderr


def test_pytest_counts_as_the_report_does_and_tells_blocked_from_skipped(tmp_path: Path) -> None:
    (tmp_path / "flawed.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from faults import FAULTS\nfrom toys import toy\nfrom tripoint.plugin import register\n"
        "register(toy('flawed', next(f for f in FAULTS if f.name == 'lost NaN').spoil))\n"
    )
    words = ["--backend", "flawed.strided", "--tiers", "0,1,5", "--operators", "copy,maximum,add,numpy,dlpack"]
    done = run_pytest(tmp_path, "-p", "flawed", *words, "-rs", "--conformance-report", "out.json")
    counts = json.loads((tmp_path / "out.json").read_text())["counts"]
    assert (counts["fail"], counts["pass"]) == (1, 2)
    last = done.stdout.splitlines()[-1]
    assert f"1 failed, 2 passed, {counts['blocked']} blocked" in last, last
    done = run_pytest(tmp_path, "--backend", "cpu.strided", "--tiers", "5", "--operators", "dlpack,save", "-rs")
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert len(skips) == 2
    assert any("unsupported: dlpack, tier 5: " in line for line in skips)


def test_a_fault_of_many_dtypes_is_told_once_with_all_of_them() -> None:
    register(toy("flawed", next(f for f in FAULTS if f.name == "aliasing copy").spoil))
    report = conformance.run("flawed.strided", tiers=[0], operators=["copy"])
    text = report.text()
    assert len(report.failures) > 2 * text.count("import tripoint as tp")
    assert f"copy [{', '.join(DTYPES[:3])}" in text


def test_no_program_of_the_kit_is_a_long_list() -> None:
    from tripoint.conformance.script import spelled

    nan = float("nan")
    for value in ([1.0] * 4096, [*range(60)] * 9, [nan, 1.0] * 50 + [nan], [[0.5] * 100, [True] * 70], [*range(100)]):
        text = spelled(value)
        assert repr(eval(text, {"nan": nan})) == repr(value)
        assert len(text) < 400 or value == [*range(100)]
    register(toy("flawed", next(f for f in FAULTS if f.name == "float16 added up in float16").spoil))
    report = conformance.run("flawed.strided", tiers=[2], operators=["sum"])
    assert report.failures
    assert max(len(f.reproducer) for f in report.failures) < 1500
    register(toy("longer", next(f for f in FAULTS if f.name == "more than a block").spoil))
    report = conformance.run("longer.strided", tiers=[1], operators=["add"])
    assert "out.tolist()[" in report.failures[0].reproducer
    assert max(len(f.reproducer) for f in report.failures) < 2500


def test_a_dtype_that_a_kernel_trips_over_is_a_verdict_and_no_traceback() -> None:
    def spoil(kernels: Any, said: dict[str, Any]) -> None:
        right = kernels["from_data"]

        def from_data(*, data: Any, copy: Any, target: Any) -> Any:
            if target.dtype is tp.float64:
                raise TypeError("data type 'float64' not understood")
            return right(data=data, copy=copy, target=target)

        kernels["from_data"] = from_data
        del said["capabilities"]

    register(toy("flawed", spoil))
    report = conformance.run("flawed.strided", tiers=[0], operators=["copy"])
    assert report.of("copy") == "fail"
    assert any(f.dtype == "float64" and "not understood" in f.what for f in report.failures), report.text()


def test_a_promise_of_every_operator_includes_numpy_on_the_cpu_alone() -> None:
    register(toy("kiln"))
    assert conformance.run("kiln.strided", tiers=[5], operators=["numpy"]).of("numpy") == "pass"
    x = tp.ones((2,), device="kiln")
    with pytest.raises(tp.errors.NoKernelError, match=r"x\.to\('cpu'\)"):
        x.numpy()


def _without_infinities(kernels: Any, said: dict[str, Any]) -> None:
    """Infinities become NaN wherever something is made."""

    def finite(fn: Any) -> Any:
        @wraps(fn)
        def kernel(*args: Any, **meta: Any) -> Any:
            out = np.asarray(fn(*args, **meta))
            return np.where(np.isinf(out), out.dtype.type(np.nan), out) if out.dtype.kind == "f" else out

        return kernel

    for name in ("from_data", "full", "divide", "exp", "add", "multiply"):
        kernels[name] = quiet(finite(kernels[name]))


def test_nan_without_infinities_can_be_declared() -> None:
    def spoil(kernels: Any, said: dict[str, Any]) -> None:
        _without_infinities(kernels, said)
        said["capabilities"] = Capabilities(dtypes=("float32",), lacks={}, nonfinite="nan")

    names = ["copy", "equal", "full", "add", "divide", "exp", "maximum"]
    register(toy("kiln", spoil))
    report = conformance.run("kiln.strided", tiers=[0, 1], operators=names)
    assert report.ok, report.text()

    def lost(kernels: Any, said: dict[str, Any]) -> None:
        spoil(kernels, said)
        kernels["maximum"] = quiet(lambda x1, x2: np.fmax(x1, x2))

    register(toy("flawed", lost))
    assert conformance.run("flawed.strided", tiers=[0, 1], operators=names).of("maximum") == "fail"
    for wrong in ("inf", None, 2):
        register(toy("odd", lambda k, s, w=wrong: s.update(capabilities=Capabilities(nonfinite=w))))  # type: ignore[misc]
        with pytest.raises(ArgumentError, match="nonfinite is True, False or 'nan'"):
            conformance.run("odd.strided", tiers=[0])
        plugins.unregister(None)
        plugins.changed()


def _flawed_report(spoil: Any, operators: list[str], tier: int) -> conformance.Report:
    register(toy("flawed", spoil))
    return conformance.run("flawed.strided", operators=operators, tiers=[tier])


def test_the_first_error_is_told_where_nothing_can_be_made() -> None:
    def spoil(kernels: Any, said: dict[str, Any]) -> None:
        said.update(describe=lambda p: {"dtype": str(p.dtype)}, capabilities=None)

    with pytest.raises(
        ArgumentError, match=r"no tensor of any dtype.*the first attempt, bool, raised PluginError: .*'bool'"
    ):
        _flawed_report(spoil, ["add"], 1)


def test_a_copy_that_is_wrong_at_once_is_not_blamed_on_memory() -> None:
    def spoil(kernels: Any, said: dict[str, Any]) -> None:
        said["given"] = lambda x: x + x

    report = _flawed_report(spoil, ["lifetimes"], 2)
    assert {f.what for f in report.failures} == {'x.to("cpu", layout="strided") has wrong elements'}


def test_a_kernel_that_raises_is_named_by_its_line_and_one_that_warns_by_its_origin() -> None:
    def spoil(kernels: Any, said: dict[str, Any]) -> None:
        right = kernels["log"]

        def log(x: Any) -> Any:
            warnings.warn("divide by zero", RuntimeWarning, stacklevel=1)
            return right(x)

        kernels["log"] = log
        kernels["exp"] = lambda x: x.nothing

    report = _flawed_report(spoil, ["exp", "log"], 1)
    said = {f.operator: f.what for f in report.failures}
    assert re.search(r"^raised AttributeError: .*\(line \d+ of .*test_kit, in <lambda>\)$", said["exp"])
    assert re.search(r"^warned: RuntimeWarning: divide by zero \(by log from the running program at .*\)$", said["log"])


def test_a_fault_with_numbers_of_many_dtypes_is_told_once() -> None:
    def spoil(kernels: Any, said: dict[str, Any]) -> None:
        def exp(x: Any) -> Any:
            raise ValueError(f"{x.itemsize} bytes of {x.dtype} are not {x.itemsize * 1.5}")

        kernels["exp"] = exp

    report = _flawed_report(spoil, ["exp"], 1)
    assert report.text().count("line ") == 1, report.text()


def test_preferred_plugins_are_named_with_what_they_serve() -> None:
    made = conformance.Report("cpu.strided", "owner 1", [], {"fast 2": ["add", "matmul"]})
    assert made.text().startswith("conformance of cpu.strided (owner 1; preferred: fast 2 for add, matmul)\n")
    assert json.loads(made.json())["preferred"] == {"fast 2": ["add", "matmul"]}
