"""Pictures of a training run, as PNG files; Matplotlib is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COLUMNS, _MOST = 8, 40


def _save(figure: Any, path: str | Path) -> Path:
    """Render with Agg, without pyplot and so without a window system or global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)  # becomes the figure's canvas
    figure.savefig(path, format="png")
    return path


def loss_curve(losses: Sequence[float], path: str | Path, *, unit: str = "step") -> Path:
    """Draw the loss of every training step (or other unit) and return the path of the PNG file."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    values = np.asarray(losses, np.float64).reshape(-1)
    steps = np.arange(1, len(values) + 1)
    figure = Figure(figsize=(6.4, 4.0), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    many = len(values) > 100
    axes.plot(
        steps,
        values,
        marker="" if many else ".",
        linewidth=0.8 if many else 1.5,
        alpha=0.6 if many else 1.0,
        label=f"each {unit}",
    )
    if many:
        width = max(2, len(values) // 50)
        sums = np.cumsum(np.concatenate([[0.0], values]))
        axes.plot(
            steps[width - 1 :],
            (sums[width:] - sums[:-width]) / width,
            linewidth=2,
            label=f"mean of the last {width} {unit}s",
        )
        axes.legend()
    axes.set_xlabel(f"training {unit}")
    axes.set_ylabel("loss")
    axes.set_title("Training loss")
    if np.isfinite(values).any() and np.nanmin(values) >= 0:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    return _save(figure, path)


def misread_grid(images: NDArray[Any], labels: NDArray[Any], predicted: NDArray[Any], path: str | Path) -> Path:
    """Draw the images (N, 1, 8, 8) or (N, 8, 8) whose prediction is wrong, at most 40, and return the PNG's path."""
    from matplotlib.figure import Figure

    images, labels, predicted = np.asarray(images), np.asarray(labels), np.asarray(predicted)
    wrong = np.flatnonzero(labels != predicted)
    shown = wrong[:_MOST]
    title = f"{len(wrong)} of {len(labels)} images misread"
    if len(shown) < len(wrong):
        title += f"; the first {len(shown)}"
    columns = min(_COLUMNS, max(4, len(shown)))
    rows = max(1, -(-len(shown) // columns))
    figure = Figure(figsize=(1.3 * columns, 1.65 * rows + 0.6), dpi=120, layout="constrained")
    figure.suptitle(title)
    if not len(shown):
        figure.text(0.5, 0.4, "Every image was read correctly.", ha="center", va="center")
    else:
        grid = figure.subplots(rows, columns, squeeze=False).reshape(-1)
        for axes in grid:
            axes.set_axis_off()
        for axes, index in zip(grid, shown, strict=False):
            axes.imshow(images[index].reshape(images.shape[-2:]), cmap="gray_r", interpolation="nearest")
            axes.set_title(f"true {labels[index]}\npredicted {predicted[index]}", fontsize=9)
    return _save(figure, path)
