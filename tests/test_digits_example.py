"""examples/digits.py, run as a reader runs it: the README's command, its options, and its ways to fail."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tripoint as tp

np = pytest.importorskip("numpy")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "examples" / "digits.py"
DATA = ROOT / "examples" / "data" / "digits.csv.gz"
POINTS = [
    "cpu.strided.float32",
    "cpu.strided.qint8",
    "cpu.sparse_coo.float32",
    "cpu.blocked.float32",
    "meta.strided.float32",
    "cuda:0.strided.float32",
]
KEYS = {"point", "status", "accuracy", "ms_per_batch", "weight_bytes", "kernels"}


def digits(*options: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *map(str, options)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def refused(*options: object, cwd: Path = ROOT) -> str:
    """The one line with which the options are refused; nothing was trained."""
    done = digits(*options, cwd=cwd)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.endswith("\n")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "training" not in done.stderr
    return done.stderr.strip()


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]], Path]:
    """Two epochs from another folder, with outputs in folders that do not exist yet."""
    folder = tmp_path_factory.mktemp("digits")
    done = digits("--epochs", 2, "--json", "new/deep/table.json", "--out", "pictures/of run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done, json.loads((folder / "new" / "deep" / "table.json").read_text(encoding="utf-8")), folder


def test_the_json_table(run: Any) -> None:
    _, rows, _ = run
    assert [row["point"] for row in rows] == POINTS
    for row in rows:
        shapes = row.pop("shapes", None)
        assert set(row) == KEYS
        status = row["status"]
        assert "\n" not in status
        assert (shapes is not None) == (status == "shapes-only")
        assert all(":" in label for label in row["kernels"].values())
        if status == "ok":
            assert 0 <= row["accuracy"] <= 1
            assert row["ms_per_batch"] > 0
            assert row["weight_bytes"] > 0
            assert row["kernels"]
        else:
            assert status == "shapes-only" or status.startswith("unavailable: ")
            assert len(status) > len("unavailable: ") or status == "shapes-only"
            assert row["accuracy"] is row["ms_per_batch"] is None


def test_the_row_of_dense_floats(run: Any) -> None:
    row = run[1][0]
    assert row["status"] == "ok"
    assert row["accuracy"] > 0.8
    # 32 kernels of 9, 64 of 32 * 9, 10 rows of 1024, and a bias for each, in four bytes
    assert row["weight_bytes"] == 4 * (32 * 9 + 32 + 64 * 32 * 9 + 64 + 10 * 1024 + 10)
    assert {"conv2d", "relu", "max_pool2d", "matmul"} <= set(row["kernels"])
    assert all(label.startswith("tripoint-dense-cpu:") for label in row["kernels"].values())
    assert row["kernels"]["conv2d"] == "tripoint-dense-cpu:conv2d"


def test_the_row_of_blocked_images(run: Any) -> None:
    plain, row = run[1][0], run[1][3]
    assert row["status"] == "ok"
    assert (row["accuracy"], row["weight_bytes"]) == (plain["accuracy"], plain["weight_bytes"])
    for name in ("conv2d", "relu", "max_pool2d"):
        assert row["kernels"][name] == f"tripoint-blocked:{name}"


def test_blocked_images_have_the_scores_of_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    job, points = importlib.import_module("digits"), importlib.import_module("_digits_points")
    images, labels = job.load(DATA)
    random = np.random.default_rng(0)
    parameters = job.initial_parameters(random)
    job.train(parameters, images[:320], labels[:320], 2, random)
    scores = {}
    with tp.no_grad():
        for point in points.POINTS:
            if point.name in ("cpu.strided.float32", "cpu.blocked.float32"):
                weights = {name: point.weight(p.detach()) for name, p in parameters.items()}
                scores[point.name] = job.model(weights, point.images(tp.asarray(images[320:]))).numpy()
    plain, blocked = scores.values()
    assert len(plain) > 1000
    assert np.abs(blocked - plain).max() <= 1e-4 * np.abs(plain).max()
    np.testing.assert_array_equal(blocked.argmax(1), plain.argmax(1))


def test_the_row_of_shapes(run: Any) -> None:
    row = json.loads((run[2] / "new" / "deep" / "table.json").read_text(encoding="utf-8"))[4]
    assert (row["status"], row["weight_bytes"]) == ("shapes-only", 0)
    assert row["shapes"][0] == ["conv2d", [60, 32, 8, 8]]
    assert row["shapes"][-1][1] == [60, 10]
    assert all(label.startswith("tripoint:") for label in row["kernels"].values())


def test_rows_that_cannot_run_say_what_was_met(run: Any) -> None:
    for row in run[1]:
        if row["status"].startswith("unavailable: no kernel for "):
            assert row["point"].split(".")[1] in row["status"] or row["point"].split(".")[2] in row["status"]
    cuda = run[1][5]["status"]
    if "CuPy is not installed" in cuda:
        assert "tripoint-cuda-cupy 0.1.0" in cuda


def test_the_printed_table(run: Any) -> None:
    done, rows, _ = run
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["point", "accuracy"]
    assert [line.split()[0] for line in lines[1:] if not line.startswith(" ")] == POINTS
    assert f"{100 * rows[0]['accuracy']:.2f} %" in lines[1]
    assert max(map(len, lines)) <= 130
    assert "training: 100%" in done.stderr


def test_the_pictures(run: Any) -> None:
    folder = run[2] / "pictures" / "of run"
    assert sorted(path.name for path in folder.iterdir()) == ["loss.png", "misread.png"]
    for path in folder.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG\r\n")


def test_the_same_seed_gives_the_same_accuracy(run: Any, tmp_path: Path) -> None:
    assert digits("--epochs", 2, "--seed", 0, "--json", tmp_path / "table.json").returncode == 0
    row = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))[0]
    assert row["accuracy"] == run[1][0]["accuracy"]


def test_the_whole_job(tmp_path: Path) -> None:
    done = digits("--json", tmp_path / "table.json")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "table.json"]
    rows = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    right = {row["point"]: row["accuracy"] and round(540 * row["accuracy"]) for row in rows}
    floats = right["cpu.strided.float32"]
    assert floats >= 0.97 * 540
    assert right["cpu.strided.qint8"] >= floats - 3
    assert right["cpu.sparse_coo.float32"] >= floats - 0.01 * 540


def test_the_row_of_quantized_weights(run: Any) -> None:
    row = run[1][1]
    assert row["status"] == "ok"
    assert row["kernels"]["conv2d"] == "tripoint-quantized:conv2d"
    assert row["kernels"]["linear"] == "tripoint-quantized:linear"
    assert {label.partition(":")[0] for label in row["kernels"].values()} == {
        "tripoint-quantized",
        "tripoint-dense-cpu",
    }
    # one byte a weight, and biases as they were
    assert row["weight_bytes"] == 32 * 9 + 64 * 32 * 9 + 10 * 1024 + 4 * (32 + 64 + 10)


def test_the_row_of_sparse_weights(run: Any) -> None:
    done, rows, _ = run
    row = rows[2]
    assert row["status"] == "ok"
    assert row["kernels"]["conv2d"] == "tripoint-dense-cpu:conv2d"
    assert row["kernels"]["matmul"] == "tripoint-sparse-coo:matmul_dense_sparse"
    assert not any("hooks" in label for label in row["kernels"].values())
    # a fifth of the linear weights, each with two positions of eight bytes
    assert row["weight_bytes"] == 4 * (32 * 9 + 32 + 64 * 32 * 9 + 64 + 10) + 2048 * (4 + 2 * 8)
    assert row["accuracy"] > 0.8
    assert "what pruning left: 100%" in done.stderr


def test_no_epochs_measure_the_untrained_model(tmp_path: Path) -> None:
    done = digits("--epochs", 0, "--json", tmp_path / "table.json", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))[0]
    assert row["status"] == "ok"
    assert row["accuracy"] < 0.5
    assert (tmp_path / "loss.png").exists()


def test_help() -> None:
    done = digits("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for option in ("--epochs", "--seed", "--data", "--json", "--out"):
        assert option in done.stdout


@pytest.mark.parametrize(
    "options",
    [
        ["--epochs", "-1"],
        ["--epochs", "two"],
        ["--epochs", "1.5"],
        ["--epochs", "9" * 5000],
        ["--epochs"],
        ["--seed", "-1"],
        ["--seed", ""],
        ["--epoch", "1"],
        ["--nonsense"],
        ["stray"],
    ],
)
def test_bad_options(options: list[str]) -> None:
    said = refused(*options)
    assert said.startswith("digits.py: ")
    assert len(said) < 200
    assert options[0].lstrip("-")[:5] in said


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    assert str(tmp_path) in refused("--json", tmp_path)
    assert str(file) in refused("--json", file / "table.json")
    assert str(file) in refused("--out", file)
    assert str(file) in refused("--out", file / "pictures")
    (tmp_path / "out" / "loss.png").mkdir(parents=True)
    assert "loss.png" in refused("--out", tmp_path / "out")
    assert file.read_text(encoding="utf-8") == "kept"
    refused("--json", "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refused("--json", tmp_path / "table.json")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda raw: b"", "0 rows"),
        (lambda raw: raw[: len(raw) // 2], "not an intact gzip file"),
        (gzip.decompress, "not an intact gzip file"),
        (lambda raw: gzip.compress(gzip.decompress(raw).replace(b",16,", b",99,", 1)), "'99' is outside 0..16"),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:-20]), "where"),
    ],
)
def test_a_corrupted_data_file(damage: Any, said: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv.gz"
    bad.write_bytes(damage(DATA.read_bytes()))
    message = refused("--data", bad, "--json", tmp_path / "table.json")
    assert str(bad) in message
    assert said in message
    assert not (tmp_path / "table.json").exists()


def test_a_missing_data_file_and_a_copy_of_the_right_one(tmp_path: Path) -> None:
    assert "absent.gz" in refused("--data", tmp_path / "absent.gz")
    assert str(tmp_path) in refused("--data", tmp_path)
    copy = tmp_path / "copy.csv.gz"
    copy.write_bytes(DATA.read_bytes())
    assert digits("--data", copy, "--epochs", 0).returncode == 0
