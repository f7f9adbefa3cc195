"""The examples' data file, its loader and splitter, and the pictures that the examples draw."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "data" / "digits.csv.gz"


def example(name):
    spec = importlib.util.spec_from_file_location(f"tripoint_example{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


digits = example("_digits_data")
pictures = example("_pictures")


@pytest.fixture(scope="module")
def loaded():
    return digits.load()


@pytest.fixture(scope="module")
def lines():
    return gzip.decompress(DATA.read_bytes()).decode("ascii").splitlines()


def write(path, lines):
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path


def refused(path):
    """The message with which the file is refused, less the path."""
    with pytest.raises(digits.DataFileError) as caught:
        digits.load(path)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 200
    return message.removeprefix(f"{path}: ")


def test_the_file_is_small_and_the_readme_has_its_sum():
    assert DATA.stat().st_size < 100_000
    readme = (DATA.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(gzip.decompress(DATA.read_bytes())).hexdigest() in readme
    for needed in ("E. Alpaydin", "C. Kaynak", "10.24432/C50P49", "https://creativecommons.org/licenses/by/4.0/"):
        assert needed in readme


def test_load(loaded, lines):
    images, labels = loaded
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    assert images.flags.c_contiguous
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert labels.shape == (1797,)
    assert labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    for row in (0, 1000, 1796):
        values = [int(field) for field in lines[row].split(",")]
        assert (images[row].reshape(-1) * 16).tolist() == values[:64]
        assert labels[row] == values[64]


def test_load_takes_a_path(loaded, lines, tmp_path):
    path = write(tmp_path / "copy.gz", lines)
    for form in (path, str(path)):
        images, labels = digits.load(form)
        np.testing.assert_array_equal(images, loaded[0])
        np.testing.assert_array_equal(labels, loaded[1])


def test_a_missing_file(tmp_path):
    assert "cannot be read" in refused(tmp_path / "absent.gz")
    assert "cannot be read" in refused(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: gzip.decompress(raw),
        lambda raw: b"\x1f\x8b",
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:-4],
        lambda raw: raw[:30000] + bytes(16) + raw[30016:],
        lambda raw: raw[:-8] + bytes(8),
        lambda raw: raw + b"trailing rubbish",
    ],
)
def test_damaged_compression(damage, tmp_path):
    path = tmp_path / "damaged.gz"
    path.write_bytes(damage(DATA.read_bytes()))
    message = refused(path)
    assert message.startswith(("not an intact gzip file", "0 rows"))


@pytest.mark.parametrize("row", [0, 700, 1796])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields[:-1], "has 64 columns, where 65 are expected"),
        (lambda fields: [*fields, "0"], "has 66 columns, where 65 are expected"),
        (lambda fields: [""], "has 1 columns"),
        (lambda fields: ["", *fields[1:]], "pixel '' is not an integer"),
        (lambda fields: ["1.0", *fields[1:]], "pixel '1.0' is not an integer"),
        (lambda fields: ["nan", *fields[1:]], "pixel 'nan' is not an integer"),
        (lambda fields: ["1_0", *fields[1:]], "pixel '1_0' is not an integer"),
        (lambda fields: ["17", *fields[1:]], "pixel '17' is outside 0..16"),
        (lambda fields: ["-1", *fields[1:]], "pixel '-1' is outside 0..16"),
        (lambda fields: ["9" * 6000, *fields[1:]], "is outside 0..16"),
        (lambda fields: [*fields[:-1], "10"], "label '10' is outside 0..9"),
        (lambda fields: [*fields[:-1], "-1"], "label '-1' is outside 0..9"),
        (lambda fields: [*fields[:-1], "seven"], "label 'seven' is not an integer"),
    ],
)
def test_wrong_contents(change, said, row, lines, tmp_path):
    changed = [*lines]
    changed[row] = ",".join(change(changed[row].split(",")))
    message = refused(write(tmp_path / "changed.gz", changed))
    assert message.startswith(f"line {row + 1}")
    assert said in message


def test_wrong_number_of_rows(lines, tmp_path):
    path = tmp_path / "rows.gz"
    assert refused(write(path, lines[:-1])) == "1796 rows, where 1797 are expected"
    assert refused(write(path, [*lines, lines[0]])) == "1798 rows, where 1797 are expected"
    assert "more than" in refused(write(path, lines * 8))


def test_not_text(lines, tmp_path):
    assert "not ASCII" in refused(write(tmp_path / "text.gz", ["\u0663", *lines[1:]]))


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_split_is_stratified_and_exact(loaded, seed):
    labels = loaded[1]
    train, test = digits.split(labels, seed=seed)
    assert (len(train), len(test)) == (1257, 540)
    assert train.dtype == test.dtype == np.int64
    assert sorted([*train, *test]) == list(range(1797))
    # The shares of the classes are 53.49 54.69 53.19 54.99 54.39 54.69 54.39 53.79 52.29 54.09. Rounded down they leave
    # five images, which go to the largest remainders: classes 3, 7, 1, 5 and 0.
    assert np.bincount(labels[test]).tolist() == [54, 55, 53, 55, 54, 55, 54, 54, 52, 54]
    assert np.any(np.diff(labels[test]) < 0)  # shuffled: not class by class
    assert np.any(np.diff(train) < 0)


def test_split_rounds_by_largest_remainder():
    labels = np.repeat([0, 1, 2], [5, 3, 2])
    for test, expected in [(0, [0, 0, 0]), (1, [1, 0, 0]), (3, [1, 1, 1]), (4, [2, 1, 1]), (10, [5, 3, 2])]:
        chosen = digits.split(labels, test=test, seed=3)[1]
        assert np.bincount(labels[chosen], minlength=3).tolist() == expected
    for test in (-1, 11):
        with pytest.raises(ValueError, match="cannot take"):
            digits.split(labels, test=test, seed=3)


def test_split_depends_on_the_seed_alone(loaded):
    labels = loaded[1]
    np.random.seed(0)
    first = digits.split(labels, seed=7)
    np.random.seed(1)
    again = digits.split(labels, seed=7)
    other = digits.split(labels, seed=8)
    for a, b, c in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)


def check_png(path, expected):
    assert path == expected
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(content) > 1000


@pytest.mark.parametrize("count", [1, 20, 2000])
def test_loss_curve(count, tmp_path):
    pytest.importorskip("matplotlib")
    losses = 2.3 * np.exp(-np.arange(count) / 300) + 0.2 * np.random.default_rng(0).random(count)
    path = tmp_path / "new" / "loss.png"
    check_png(pictures.loss_curve(losses.tolist(), path), path)


@pytest.mark.parametrize("wrong", [0, 1, 5, 11, 300])
def test_misread_grid(wrong, loaded, tmp_path):
    pytest.importorskip("matplotlib")
    images, labels = (part[:540] for part in loaded)
    predicted = labels.copy()
    predicted[:wrong] = (predicted[:wrong] + 1) % 10
    path = tmp_path / "misread.png"
    check_png(pictures.misread_grid(images, labels, predicted, path), path)
