"""Calls as they are spelled on the command line: an operator's name, operands, and metadata."""

from __future__ import annotations

import ast
import re
from typing import Any

import typer

from tripoint import dtypes
from tripoint.explanation.walk import stand_in
from tripoint.keys import intern
from tripoint.plugins import find_device, find_layout, found, load
from tripoint.schema import Row, did_you_mean, rows
from tripoint.tensor import Tensor

__all__ = ["SPELLING", "call", "operator"]

SPELLING = (
    "An operand is a point with a shape, such as cpu.strided.float32[2,3]; with +grad behind it gradients are wanted of it. "
    "The shape of a 0-d tensor is []. Python's numbers and None stand for themselves."
)

_TENSOR = re.compile(r"(?P<device>\w+(:\d+)?)\.(?P<layout>\w+)\.(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?P<grad>\+grad)?")


def operator(name: str) -> Row:
    """The operator of a name, without ``tripoint.`` as with it; another namespace's as ``mylib::swish``.

    Raises:
        typer.BadParameter: there is none.
    """
    import tripoint.nn  # noqa: F401 - which declares operators

    short = name.removeprefix("tripoint.").removeprefix("nn.")
    if "::" in short and short not in rows:
        for plugin in found().values():
            load(plugin)
    if short in rows:
        return rows[short]
    raise typer.BadParameter(f"there is no operator {name!r}{did_you_mean(short, '; `tripoint ops` lists them.')}")


def call(name: str, operands: list[str], meta: list[str]) -> tuple[Row, list[Any], dict[str, Any]]:
    """What to call with which arguments. The tensors carry a key and a shape, so that no memory is taken for them.

    Raises:
        typer.BadParameter: something is not spelled as `SPELLING` says.
        DeviceError, LayoutError, DTypeError: nothing installed provides the point of an operand.
    """
    row = operator(name)
    values: list[Any] = [_operand(text) for text in operands]
    if [p.role for p in row.operands] == ["variadic"]:
        values = [values]
    return row, values, dict(_meta(text) for text in meta)


def _operand(text: str) -> Any:
    match = _TENSOR.fullmatch(text.strip())
    if match is not None:
        return _tensor(match)
    value = _literal(text)
    if value is not None and not isinstance(value, (bool, int, float, complex)):
        raise typer.BadParameter(f"{text!r} is no operand. {SPELLING}")
    return value


def _tensor(match: re.Match[str]) -> Tensor:
    made = intern(find_device(match["device"]), find_layout(match["layout"]), dtypes.as_dtype(match["dtype"]))
    sizes = match["shape"].replace(" ", "").split(",")
    tensor = stand_in(made, tuple(int(size) for size in sizes if size))
    return tensor.requires_grad_() if match["grad"] else tensor


def _meta(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is no metadata; write name=value, such as axis=1")
    try:
        return name, _literal(value)
    except typer.BadParameter:
        return name, value  # a name, such as device=meta or dtype=float16


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        raise typer.BadParameter(f"{text!r} is no operand. {SPELLING}") from None
