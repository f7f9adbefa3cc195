"""The digit images of examples/data: loading, with every check that a damaged file could need, and splitting."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEFAULT_PATH = Path(__file__).resolve().parent / "data" / "digits.csv.gz"
ROWS = 1797
PIXELS = 64
CLASSES = 10

_TOP = 16  # the brightest pixel
_MAX_BYTES = 1 << 20  # the intact file is about a quarter of this once decompressed
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_PIXEL_VALUES = {str(value): value for value in range(_TOP + 1)}
_LABEL_VALUES = {str(value): value for value in range(CLASSES)}


class DataFileError(ValueError):
    """A data file that is missing, damaged or not what it should be; the message names the file and the fault."""


def _text(path: Path) -> str:
    try:
        with gzip.open(path) as stream:
            raw = stream.read(_MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataFileError(f"{path}: not an intact gzip file ({error})") from error
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(raw) > _MAX_BYTES:
        raise DataFileError(f"{path}: more than {_MAX_BYTES} bytes when decompressed, where {ROWS} rows are expected")
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: not ASCII text (byte {error.start})") from error


def _value(field: str, allowed: dict[str, int], what: str) -> int:
    """The integer that a field spells; ValueError says what is wrong with it."""
    value = allowed.get(field)
    if value is not None:
        return value
    shown = repr(field if len(field) <= 20 else field[:20] + "...")
    if _INTEGER.fullmatch(field) is None:
        raise ValueError(f"{what} {shown} is not an integer")
    if len(field) <= 20 and int(field) in allowed.values():
        return int(field)  # spelled unusually, as in "07"
    raise ValueError(f"{what} {shown} is outside 0..{len(allowed) - 1}")


def load(path: str | Path | None = None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(images, labels): images (1797, 1, 8, 8) float32 in [0, 1], labels (1797,) int64 in 0..9.

    Without a path the file that comes with the examples is read. Raises DataFileError.
    """
    path = DEFAULT_PATH if path is None else Path(path)
    lines = _text(path).splitlines()
    if len(lines) != ROWS:
        raise DataFileError(f"{path}: {len(lines)} rows, where {ROWS} are expected")
    pixels = np.empty((ROWS, PIXELS), np.float32)
    labels = np.empty(ROWS, np.int64)
    for row, line in enumerate(lines):
        fields = line.split(",")
        if len(fields) != PIXELS + 1:
            raise DataFileError(f"{path}: line {row + 1} has {len(fields)} columns, where {PIXELS + 1} are expected")
        try:
            pixels[row] = [_value(field, _PIXEL_VALUES, "pixel") for field in fields[:PIXELS]]
            labels[row] = _value(fields[PIXELS], _LABEL_VALUES, "label")
        except ValueError as error:
            raise DataFileError(f"{path}: line {row + 1}: {error}") from None
    return (pixels / np.float32(_TOP)).reshape(ROWS, 1, 8, 8), labels


def split(labels: NDArray[np.int64], *, test: int = 540, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(train indices, test indices): shuffled, disjoint, together all, with exactly `test` test images.

    Stratified: each class gives its share of the test images, rounded by largest remainder (on equal remainders the
    lower class goes first). The same seed gives the same split on every machine.
    """
    labels = np.asarray(labels)
    total = len(labels)
    if not 0 <= test <= total:
        raise ValueError(f"cannot take {test} test images of {total}")
    random = np.random.Generator(np.random.PCG64(seed))
    classes, counts = np.unique(labels, return_counts=True)
    shares = [divmod(test * int(count), max(1, total)) for count in counts]
    quotas = [whole for whole, _ in shares]
    by_remainder = sorted(range(len(classes)), key=lambda index: -shares[index][1])  # stable: lower classes first
    for index in by_remainder[: test - sum(quotas)]:
        quotas[index] += 1
    train_parts, test_parts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for label, quota in zip(classes, quotas, strict=True):
        members = random.permutation(np.flatnonzero(labels == label).astype(np.int64))
        test_parts.append(members[:quota])
        train_parts.append(members[quota:])
    return random.permutation(np.concatenate(train_parts)), random.permutation(np.concatenate(test_parts))
