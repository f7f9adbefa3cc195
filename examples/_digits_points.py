"""The digits model on every point: where its weights and images are put, and what it then costs and computes with."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tripoint as tp
from tripoint.errors import TripointError
from tripoint.plugin import Layer, Row, resolve

Parameters = dict[str, tp.Tensor]
Model = Callable[[Parameters, tp.Tensor], tp.Tensor]
Move = Callable[[tp.Tensor], tp.Tensor]
Retrain = Callable[[Parameters], None]

BATCH = 60  # divides the 540 test images, so that every batch that is timed has the same size
ROUNDS = 3
KEPT = 0.2  # share of the linear weights that the sparse point keeps


def same(x: tp.Tensor) -> tp.Tensor:
    return x


def to_device(name: str) -> Move:
    return lambda x: x.to(device=name)


def quantized(weight: tp.Tensor) -> tp.Tensor:
    """A weight in 8 bits, the largest element of each output channel at 127; biases stay."""
    if weight.ndim < 2:
        return weight
    largest = tp.max(tp.abs(weight), axis=tuple(range(1, weight.ndim)))
    return tp.quantize(weight, tp.affine(scale=largest / 127, axis=0, dtype=tp.qint8))  # type: ignore[no-any-return]


def pruned(weight: tp.Tensor) -> tp.Tensor:
    """A matrix of weights without the smaller four fifths, as coordinates and values; kernels and biases stay."""
    if weight.ndim != 2:
        return weight
    least = float(np.quantile(np.abs(weight.numpy()), 1 - KEPT))
    return tp.where(tp.abs(weight) < least, 0.0, weight).to(layout="sparse_coo")


@dataclass(frozen=True)
class Point:
    """A row of the table: how weights and images get there, and whether the weights are then trained some more."""

    name: str
    weight: Move = same
    images: Move = same
    retrained: bool = False


POINTS = (
    Point("cpu.strided.float32"),
    Point("cpu.strided.qint8", weight=quantized),
    Point("cpu.sparse_coo.float32", weight=pruned, retrained=True),
    Point("cpu.blocked.float32", images=lambda x: x.to(layout=tp.layouts.blocked("nChw16c"))),
    Point("meta.strided.float32", to_device("meta"), to_device("meta")),
    Point("cuda:0.strided.float32", to_device("cuda:0"), to_device("cuda:0")),
)


class Recorder(Layer, below="profile"):
    """A layer that writes down each operator a model calls, the function chosen for it, and the shape of its result."""

    def __init__(self) -> None:
        self.kernels: dict[str, str] = {}
        self.shapes: list[tuple[str, tuple[int, ...]]] = []

    def __call__(self, op: Row, call_next: Callable[..., Any], args: tuple[Any, ...], meta: dict[str, Any]) -> Any:
        label = resolve(op.call, *args, **meta).label()
        if label.endswith(
            "decomposition"
        ):  # such as linear, where no kernel does the whole of it: its parts are called
            with self:
                return op.body(*args, **meta)
        known = self.kernels.setdefault(op.name, label)
        if label not in known.split(", "):  # one operator, called on different points
            self.kernels[op.name] = f"{known}, {label}"
        out = call_next(args, meta)
        self.shapes.append((op.name, out.shape))
        return out


def stored_bytes(x: tp.Tensor) -> int:
    if x.device.type == "meta":
        return 0
    if x.layout.name == "sparse_coo":
        sparse: Any = x  # a layout adds attributes of its own, such as these two
        return sum(part.storage().nbytes for part in (sparse.indices, sparse.values))
    return x.storage().nbytes


def digits_of(scores: tp.Tensor) -> NDArray[np.int64]:
    """The likeliest digits, in the host's memory: whatever computes asynchronously has finished then."""
    read = scores.to(device="cpu", layout="strided", dtype=tp.float32)
    return tp.argmax(read, axis=1).numpy()  # type: ignore[no-any-return]


def one_line(error: TripointError) -> str:
    """The error's text, without the lines that name files of kernels that do not fit."""
    lines = [line.strip() for line in str(error).splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith("not used:"))


def measure(
    point: Point,
    model: Model,
    parameters: Parameters,
    images: tp.Tensor,
    labels: NDArray[np.int64],
    retrain: Retrain,
) -> tuple[dict[str, Any], NDArray[np.int64] | None]:
    """One row of the table, and the predicted digits where there are any."""
    row: dict[str, Any] = {
        "point": point.name,
        "status": "ok",
        "accuracy": None,
        "ms_per_batch": None,
        "weight_bytes": None,
        "kernels": {},
    }
    recorder = Recorder()
    try:
        weights = {name: point.weight(p.detach()) for name, p in parameters.items()}
        if point.retrained:
            retrain(weights)
        row["weight_bytes"] = sum(stored_bytes(w) for w in weights.values())
        batches = [point.images(images[i : i + BATCH]) for i in range(0, len(images), BATCH)]
        with recorder:
            scores = model(weights, batches[0])
        row["kernels"] = recorder.kernels
        if scores.device.type == "meta":
            row["status"] = "shapes-only"
            row["shapes"] = [[name, list(shape)] for name, shape in recorder.shapes]
            return row, None
        times, predicted = [], []
        for i in range(ROUNDS * len(batches)):
            began = time.perf_counter()
            digits = digits_of(model(weights, batches[i % len(batches)]))
            times.append(time.perf_counter() - began)
            if i < len(batches):
                predicted.append(digits)
    except TripointError as error:  # whatever is missing says so itself
        row["status"] = f"unavailable: {one_line(error)}"
        return row, None
    found = np.concatenate(predicted)
    row["accuracy"] = float((found == labels).mean())
    row["ms_per_batch"] = 1000 * median(times)
    return row, found


def measure_all(
    model: Model, parameters: Parameters, images: tp.Tensor, labels: NDArray[np.int64], retrain: Retrain
) -> tuple[list[dict[str, Any]], NDArray[np.int64]]:
    """Every row of the table, and the digits that the first point predicts."""
    measured = [measure(point, model, parameters, images, labels, retrain) for point in POINTS]
    predicted = measured[0][1]
    if predicted is None:
        raise RuntimeError(
            f"the model was trained on {POINTS[0].name} and cannot run there: {measured[0][0]['status']}"
        )
    return [row for row, _ in measured], predicted


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as text; under each point's status what it computes with, or the shapes that it gives."""
    lines = [f"{'point':<24}{'accuracy':>9}{'ms/batch':>10}{'weight bytes':>14}  status; operators"]
    for row in rows:
        accuracy = "" if row["accuracy"] is None else f"{100 * row['accuracy']:.2f} %"
        ms = "" if row["ms_per_batch"] is None else f"{row['ms_per_batch']:.3f}"
        weight_bytes = "" if row["weight_bytes"] is None else f"{row['weight_bytes']:,}"
        last = textwrap.wrap(row["status"], 62)
        if "shapes" in row:
            last += [f"{name:<17} {tuple(shape)}" for name, shape in row["shapes"]]
        else:
            last += [f"{name:<17} {label}" for name, label in row["kernels"].items()]
        lines.append(f"{row['point']:<24}{accuracy:>9}{ms:>10}{weight_bytes:>14}  {last[0]}")
        lines += [" " * 59 + line for line in last[1:]]
    return "\n".join(lines)
