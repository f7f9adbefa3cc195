"""What a call would do and why: the same Resolution that its plan is made from, as text. Nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint.dispatcher.calls import resolution
from tripoint.dispatcher.resolve import Resolution
from tripoint.kernels import row_of
from tripoint.schema import REQUIRED

__all__ = ["Explanation", "explain"]


class Explanation:
    """The walk of one call; printed as text. ``resolution`` is the data behind it."""

    def __init__(self, resolution: Resolution) -> None:
        self.resolution = resolution

    def __str__(self) -> str:
        return "\n".join(_lines(self.resolution))

    def __repr__(self) -> str:
        return str(self)


def explain(operator: Callable[..., Any], *args: Any, **meta: Any) -> Explanation:
    """Explain the call ``operator(*args, **meta)`` in the mode in force.

    Raises:
        NoKernelError, AmbiguousKernelError, DeviceError, DTypeError, LayoutError: what the call would raise.
    """
    row = row_of(operator)
    count = len(row.operands)
    operands = (*args[:count], *[p.default for p in row.operands[len(args) : count]])
    values = []
    for i, p in enumerate(row.metas):
        given = args[count + i] if count + i < len(args) else meta.get(p.name, p.default)
        values.append(None if given is REQUIRED else given)
    return Explanation(resolution(row, operands, tuple(values)))


def _lines(res: Resolution, depth: int = 0) -> list[str]:
    pad = "  " * depth
    lines = [f"{pad}{res.row.signature()}"]
    for slot, key, cast, fill in zip(res.slots, res.keys, res.casts, res.fills, strict=True):
        note = f", cast to {cast}" if cast is not None else f", filled as {fill}" if fill is not None else ""
        lines.append(f"{pad}  {res.row.operands[slot].name}: {key}{note}")
    if res.target is not None:
        lines.append(f"{pad}  target: {res.target}")
    walk = [*[str(layer.name) for layer in res.layers], "backend"]
    lines.append(f"{pad}  floors: {' > '.join(walk)}")
    for kernel in res.candidates:
        chosen = kernel is res.kernel
        lines.append(f"{pad}  {'chosen' if chosen else 'candidate'}: {kernel!r}")
    if res.how == "convert":
        for kernel, key in res.steps:
            lines.append(f"{pad}  step to {key}: {kernel.origin}")
    elif res.how == "decomposition":
        lines.append(f"{pad}  decomposed as written at {res.row.origin}")
    elif res.how == "identity":
        lines.append(f"{pad}  nothing to do: the operand itself is returned")
    elif res.how == "hooks":
        lines.append(f"{pad}  through the hooks of {', '.join(sorted({k.name for k in res.keys if k.is_tensor}))}:")
    elif res.how == "inplace":
        lines.append(f"{pad}  written in place" + ("" if res.kernel is not None else ", by the functional form:"))
    if res.inner is not None:
        lines += _lines(res.inner, depth + 2)
    if res.out is not None:
        lines.append(f"{pad}  result: {res.out}")
    return lines
