"""What `tripoint.checked` holds every call to, where a plan by itself checks its first result only."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from tripoint.dispatcher.calls import resolution
from tripoint.dispatcher.layer import Layer
from tripoint.dispatcher.outcome import check_mode, check_tensor
from tripoint.errors import PluginError, TripointError
from tripoint.kernels import find_point
from tripoint.keys import Key
from tripoint.modes import Mode, Scope
from tripoint.plugins import guarded
from tripoint.schema import Row
from tripoint.storage import record_of
from tripoint.tensor import Tensor

__all__ = ["checked"]

Kept = list[tuple[str, Tensor, bytes]]


class Checks(Layer, below="autograd"):
    """Next to the kernels: what each is given is the same afterwards, and what it gives is what its operator promises."""

    name = "checked"

    def build(self, op: Row, next_plan: Callable[..., Any], keys: tuple[Key, ...], below: Mode) -> Callable[..., Any]:
        """A plan that reads operands before and after ``next_plan``, and its result."""
        count = len(op.operands)

        def plan(*values: Any) -> Any:
            kept = _kept(op, values[:count])
            context = copy_context()  # a scope that a kernel leaves open ends with it
            out = context.run(next_plan, *values)
            try:
                check_mode(op.name, context)
                _check(op, out, values)
                for name, tensor, before in kept:
                    if _content(tensor) != before:
                        raise PluginError(
                            f"{op.name} changed its operand {name}; a kernel reads its operands and writes none"
                        )
            except PluginError as error:
                raise _named(op, values, error) from None
            return out

        return plan


_layer = Checks()


class checked(Scope):
    """A ``with`` block in which every kernel is checked at every call: slow, for tests and for finding a wrong plugin.

    The result of each call must be of the class, dtype and shape that its point and its operator promise, may share no
    memory with an operand unless the operator gives views, and no operand may be changed, the written one of an in-place
    form aside. Operands are compared by their pickled payloads; a payload that cannot be pickled is not compared.

    A call that is found wrong raises `PluginError`, which names the kernel and its package.
    """

    def __init__(self) -> None:
        super().__init__(_on)


def _on(mode: Mode) -> Mode:
    return mode if _layer in mode.layers else mode.replace(layers=(*mode.layers, _layer))


def _content(tensor: Tensor) -> bytes:
    import pickle

    point = find_point(tensor._key)
    try:
        return guarded(point.origin, "pickling", pickle.dumps, tensor._payload, 5) if point is not None else b""
    except TripointError:
        return b""


def _kept(op: Row, operands: tuple[Any, ...]) -> Kept:
    """The contents of the operands that the call must leave alone."""
    written = record_of(operands[0]) if op.mutates is not None else None
    return [
        (name, t, _content(t)) for name, t in _tensors(op, operands) if written is None or record_of(t) is not written
    ]


def _tensors(op: Row, operands: tuple[Any, ...]) -> list[tuple[str, Tensor]]:
    flat: list[tuple[str, Any]] = []
    for p, value in zip(op.operands, operands, strict=True):
        flat += [(f"{p.name}[{i}]", v) for i, v in enumerate(value)] if p.role == "variadic" else [(p.name, value)]
    return [(name, value) for name, value in flat if isinstance(value, Tensor)]


def _check(op: Row, out: Any, values: tuple[Any, ...]) -> None:
    if not isinstance(out, Tensor) or op.returns != "tensor":
        return
    point = find_point(out._key)
    check_tensor(op, op.name, point, out._key, out, values)
    # A frozen payload is never written, so parts of it may be shared; a composite gives what its parts give.
    if op.aliases != "never" or op.mutates is not None or op.composite or point is None or point.frozen:
        return
    for name, operand in _tensors(op, values[: len(op.operands)]):
        if operand is out or find_point(operand._key) is not point:  # a conversion to where the operand is
            continue
        shared = operand._payload is out._payload
        if not shared and point.aliases is not None:
            shared = guarded(point.origin, "aliases(out, x)", point.aliases, out._payload, operand._payload)
        if shared:
            raise PluginError(f"{op.name} returned memory of its operand {name}; it promises memory of its own")


def _named(op: Row, values: tuple[Any, ...], error: PluginError) -> PluginError:
    """The error with who computed the call, found by resolving it again."""
    count = len(op.operands)
    try:
        label = resolution(op, values[:count], values[count:]).label()
    except TripointError:
        return error
    return PluginError(f"{error} (computed by {label})")
