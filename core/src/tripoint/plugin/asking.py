"""What an author asks of the core: its operators, how kernels are called, what a call would do, what a tensor carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tripoint.dispatcher.calls import resolution
from tripoint.dispatcher.resolve import Resolution
from tripoint.dtypes import PLAIN, DType, DTypeClass
from tripoint.errors import RegistrationError
from tripoint.kernels import row_of
from tripoint.schema import did_you_mean, rows
from tripoint.tensor import Tensor

__all__ = ["dtypes_in", "kernel_signature", "minimal", "nested", "operators", "payload", "resolve", "unnested"]

_ALL = "; tripoint.plugin.operators() has them all"


def minimal() -> tuple[str, ...]:
    """Names of the operators that give a usable namespace, those that autograd itself calls among them."""
    return tuple(sorted(name for name, row in rows.items() if row.minimal))


def kernel_signature(operator: Callable[..., Any] | str) -> str:
    """How a kernel of an operator is called: payloads by position, metadata by keyword, axes already counted from 0.

    Creation and conversion also give ``target``, the key of the result, to a kernel that names it.

    Raises:
        RegistrationError: there is no such operator.
    """
    row = rows.get(operator) if isinstance(operator, str) else row_of(operator)
    if row is None:
        raise RegistrationError(f"there is no operator {operator!r}{did_you_mean(str(operator), _ALL)}")
    return row.kernel_signature()


def dtypes_in(*classes: DTypeClass) -> tuple[DType, ...]:
    """Every plain dtype in one of these classes, small ones first: what a table for `Backend.kernels_by_dtype` is made of."""
    return tuple(d for d in PLAIN.values() if any(d in c for c in classes))


def unnested(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers of what `from_data` is given, in row-major order, and their shape.

    Args:
        data: nested lists or tuples, a Python number, or an array with ``tolist``.
    """
    level = data.tolist() if hasattr(data, "tolist") else data
    shape: list[int] = []
    level = [level]
    while any(isinstance(part, (list, tuple)) for part in level):
        shape.append(len(level[0]))
        level = [value for part in level for value in part]
    return level, tuple(shape)


def nested(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Numbers in row-major order as nested lists of a shape, which is what `to_list` gives; a number for the shape ()."""
    if not shape:
        return values[0]
    out = list(values)
    for i in range(len(shape) - 1, 0, -1):
        out = [out[j * shape[i] : (j + 1) * shape[i]] for j in range(prod(shape[:i]))]
    return out


def operators() -> dict[str, Callable[..., Any]]:
    """Every operator declared so far by qualified name, those among them that only formulas of derivatives use."""
    return {name: row.call for name, row in rows.items()}


def payload(tensor: Tensor) -> Any:
    """What the tensor carries, as its kernels see it."""
    return tensor._payload


def resolve(operator: Callable[..., Any], *operands: Any, **meta: Any) -> Resolution:
    """What a call would do, as data; nothing is run."""
    row = row_of(operator)
    values = tuple([meta.get(p.name, p.default) for p in row.metas])
    given = (*operands, *[p.default for p in row.operands[len(operands) :]])
    return resolution(row, given, values)
