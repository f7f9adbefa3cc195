"""Train a small convolutional network on real images of digits, then ask what it costs on every point.

The model is one function, written once. Training differentiates it where the data is born, on dense CPU tensors; the
table that is printed at the end calls the same function with its weights and images in other places, layouts and number
formats (see _digits_points.py). Nothing in the model knows where it runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

# Matrices this small are fastest on one thread; a second one only waits, for long where the other core is busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _digits_data import CLASSES, DEFAULT_PATH, DataFileError, load, split
from _digits_points import Parameters, measure_all, table
from _pictures import loss_curve, misread_grid
from numpy.typing import NDArray
from tqdm import tqdm

import tripoint as tp

SPLIT_SEED = 0  # which images are the test images; --seed changes only where training starts and in which order it goes
SIDE = 8
BATCH = 16
RATE, MOMENTUM = 0.02, 0.9
RETRAIN = 5  # epochs for what pruning leaves of the linear weights


def model(p: Parameters, images: tp.Tensor) -> tp.Tensor:
    """Scores (N, 10) of images (N, 1, 8, 8), higher for likelier digits."""
    x = tp.nn.conv2d(images, p["conv1.weight"], p["conv1.bias"], padding=1)
    x = tp.nn.relu(x)
    x = tp.nn.max_pool2d(x, kernel_size=2)
    x = tp.nn.conv2d(x, p["conv2.weight"], p["conv2.bias"], padding=1)
    x = tp.nn.relu(x)
    return tp.nn.linear(tp.flatten(x, 1), p["linear.weight"], p["linear.bias"])


def initial_parameters(random: np.random.Generator) -> Parameters:
    """Random weights, scaled so that signals neither grow nor fade through a relu, and biases of zero."""
    shapes = {
        "conv1.weight": (32, 1, 3, 3),
        "conv2.weight": (64, 32, 3, 3),
        "linear.weight": (CLASSES, 64 * (SIDE // 2) ** 2),
    }
    parameters: Parameters = {}
    for name, shape in shapes.items():
        spread = math.sqrt(2 / math.prod(shape[1:]))
        parameters[name] = tp.asarray(random.standard_normal(shape) * spread, dtype=tp.float32).requires_grad_()
        parameters[name.replace("weight", "bias")] = tp.zeros(shape[:1]).requires_grad_()
    return parameters


def descend(parameters: Parameters, velocity: Parameters, rate: float) -> None:
    """One step of gradient descent with momentum, in place; the step itself is not recorded."""
    with tp.no_grad():
        for name, v in velocity.items():
            p = parameters[name]
            v *= MOMENTUM
            if p.grad is not None:
                v += p.grad
            p -= rate * v
            p.grad = None


def train(
    parameters: Parameters,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    epochs: int,
    random: np.random.Generator,
    title: str = "training",
) -> list[float]:
    """Change those parameters for the better that want gradients, and return the loss of every step."""
    # A digit moved by a pixel is the same digit: each batch is a view into images that have a frame of blank pixels.
    framed = tp.asarray(np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1))))
    answers = tp.asarray(labels)
    velocity = {n: tp.zeros(p.shape, layout=p.layout) for n, p in parameters.items() if p.requires_grad}
    starts = range(0, len(images), BATCH)
    steps = epochs * len(starts)
    losses: list[float] = []
    with tqdm(total=steps, desc=title, unit="step") as bar:
        for _ in range(epochs):
            order = tp.asarray(random.permutation(len(images)))
            shuffled, expected = tp.take(framed, order, axis=0), tp.take(answers, order, axis=0)
            for start in starts:
                y, x = random.integers(3, size=2).tolist()
                batch = shuffled[start : start + BATCH, :, y : y + SIDE, x : x + SIDE]
                loss = tp.nn.cross_entropy(model(parameters, batch), expected[start : start + BATCH])
                loss.backward()
                descend(parameters, velocity, RATE * (1 - len(losses) / steps))
                losses.append(float(loss))
                bar.update()
            bar.set_postfix(loss=f"{sum(losses[-len(starts) :]) / len(starts):.4f}")
    return losses


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line on stderr and exit status 2, without a usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def count(text: str) -> int:
    """A whole number from 0, as options take it."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 10**19 - 1, not {text[:20]!r}")
    return int(text)


def make_parser() -> OneLineParser:
    parser = OneLineParser(prog="digits.py", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--epochs", type=count, default=20, metavar="N", help="passes over the images (20)")
    parser.add_argument("--seed", type=count, default=0, metavar="N", help="of the weights and the order (0)")
    parser.add_argument("--data", type=Path, default=DEFAULT_PATH, metavar="FILE", help="another copy of digits.csv.gz")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--out", type=Path, metavar="DIR", help="draw loss.png and misread.png there")
    return parser


def make_writable(path: Path) -> None:
    """Make the folder of a file that will be written, and open the file once, so that a bad path is found early.

    Raises:
        OSError: the file will not be writable.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("ab"):
        pass
    if new:
        path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    pictures: dict[str, Path] = {n: options.out / f"{n}.png" for n in ("loss", "misread")} if options.out else {}
    try:
        images, labels = load(options.data)
        for path in (*([options.json] if options.json else []), *pictures.values()):
            make_writable(path)
    except DataFileError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"cannot write {error.filename or 'there'}: {error.strerror or error}")
    taught, asked = split(labels, seed=SPLIT_SEED)

    random = np.random.default_rng(options.seed)
    parameters = initial_parameters(random)
    losses = train(parameters, images[taught], labels[taught], options.epochs, random)

    def retrain(weights: Parameters) -> None:
        """Train the linear weights again, at the positions that are stored; everything else stays as it is."""
        weights["linear.weight"].requires_grad_()
        train(weights, images[taught], labels[taught], RETRAIN, random, "training what pruning left")
        weights["linear.weight"].requires_grad_(False)

    rows, predicted = measure_all(model, parameters, tp.asarray(images[asked]), labels[asked], retrain)
    print(table(rows))
    try:
        write(rows, options.json)
        if pictures:
            loss_curve(losses, pictures["loss"])
            misread_grid(images[asked], labels[asked], predicted, pictures["misread"])
    except OSError as error:
        parser.error(f"cannot write {error.filename or 'there'}: {error.strerror or error}")
    return 0


def write(rows: Sequence[dict[str, Any]], path: Path | None) -> None:
    if path is not None:
        lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
