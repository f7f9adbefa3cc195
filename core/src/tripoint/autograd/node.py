"""What a recorded call leaves behind.

A node never holds its own output: a saved output is a bare alias that meets its node again in backward, and a leaf's
record holds the gradient, not the tensor. So graphs die by reference counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from tripoint.keys import Key
from tripoint.modes import Mode
from tripoint.patterns import Origin
from tripoint.schema import Row
from tripoint.tensor import Tensor, wrap

__all__ = ["Leaf", "Node", "Rule"]

Shape = tuple[int, ...]


class Node:
    """One recorded call.

    Attributes:
        age: smaller than that of every earlier node, so smaller than those of its inputs.
        rule: what is the same for every call of its plan.
        inputs: the nodes of its operands, ``None`` where no gradient is wanted.
        saved: what the derivative needs, each tensor followed by the version it had; ``None`` once a backward has freed it.
        shape: of the result, and of the gradient that the node takes.
        meta: bound metadata.
        like: a bare alias of the result, for layouts that fit gradients themselves.
    """

    __slots__ = ("__weakref__", "age", "inputs", "like", "meta", "rule", "saved", "shape")

    age: int
    rule: Rule
    inputs: tuple[Any, ...]
    saved: tuple[Any, ...] | None
    shape: Shape
    meta: tuple[Any, ...]
    like: Tensor | None

    @property
    def key(self) -> Key:
        """Key of the gradient that the node takes."""
        return self.rule.out

    def rebound(self, tensor: Tensor) -> None:
        """A new payload was bound to the tensor: nothing to do here, since the plan that bound it records a new node."""

    def __repr__(self) -> str:
        return f"<recorded {self.rule.row.name} {self.shape}>"


#: the age of the next node.
tick = count(0, -1).__next__


class Leaf:
    """The gradient record of a tensor that asked for gradients; it holds the gradient, not the tensor."""

    __slots__ = ("__weakref__", "age", "grad", "key", "like", "shape")

    inputs: tuple[Any, ...] = ()

    def __init__(self, tensor: Tensor) -> None:
        self.age = tick()
        self.grad: Tensor | None = None
        self.shape: Shape = tensor.shape
        self.key = tensor._key.base
        self.like: Tensor | None = None
        self.rebound(tensor)

    def rebound(self, tensor: Tensor) -> None:
        """A new payload was bound to the tensor: its pattern is what gradients are fitted to."""
        if self.key.layout.gradient_like is not None:
            self.like = wrap(self.key, tensor._payload)

    def __repr__(self) -> str:
        return f"<leaf {self.key} {self.shape}>"


class Rule:
    """What all calls of one recorded plan share.

    Attributes:
        row: the operator (of an in-place form, the functional one).
        mode: the mode that was in force; derivatives run under its fallback policy.
        out: key of the result.
        wanted: one bool per operand.
        saves: names of what is saved, in order.
        shapes: operands whose shapes are saved behind these, since no receiving node tells them.
        origin: who stated the derivative, where somebody did.
        run: ``run(g, node, grad, grads, ready, skip)`` gives the inputs of a node their gradients, see `engine.give`; ``grad``
            says whether saved outputs are recorded again.
    """

    __slots__ = ("mode", "name", "origin", "out", "row", "run", "saves", "shapes", "wanted")

    def __init__(
        self,
        row: Row,
        name: str,
        mode: Mode,
        out: Key,
        wanted: tuple[bool, ...],
        saves: tuple[str, ...],
        run: Callable[..., None],
        shapes: tuple[int, ...] = (),
        origin: Origin | None = None,
    ) -> None:
        self.shapes = shapes
        self.origin = origin
        self.row = row
        self.name = name
        self.mode = mode
        self.out = out
        self.wanted = wanted
        self.saves = saves
        self.run = run


def slots_of(row: Row, count: int) -> tuple[int, ...]:
    """Which operand each of ``count`` flat keys belongs to; a row has at most one variadic operand."""
    out: list[int] = []
    for i, p in enumerate(row.operands):
        out += [i] * (count - len(row.operands) + 1 if p.role == "variadic" else 1)
    return tuple(out)
