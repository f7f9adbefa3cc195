"""What a recorded call leaves behind, and how one such record turns a gradient of its result into those of its operands.

A node never holds its own output: a saved output is a bare alias that meets its node again in backward, and a leaf's
record holds the gradient, not the tensor. So graphs die by reference counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from tripoint import kernels
from tripoint.dispatcher.plan import compile_plan
from tripoint.dtypes import complex_floating
from tripoint.errors import AutogradError, NotBuiltYetError
from tripoint.keys import ABSENT, Key
from tripoint.modes import Mode
from tripoint.schema import Row
from tripoint.tensor import Tensor, wrap

__all__ = ["Leaf", "Node", "Rule"]

Shape = tuple[int, ...]


class Node:
    """One recorded call.

    Attributes:
        age: smaller than that of every earlier node, so smaller than those of its inputs.
        rule: what is the same for every call of its plan.
        inputs: the nodes of its operands, ``None`` where no gradient is wanted; ``None`` as a whole once freed.
        saved: what the derivative needs, each tensor followed by the version it had.
        shape: of the result, and of the gradient that the node takes.
        key: of that gradient.
        meta: bound metadata.
        like: a bare alias of the result, for layouts that fit gradients themselves.
    """

    __slots__ = ("__weakref__", "age", "inputs", "key", "like", "meta", "rule", "saved", "shape")

    age: int
    key: Key
    rule: Rule
    inputs: tuple[Any, ...] | None
    saved: tuple[Any, ...] | None
    shape: Shape
    meta: tuple[Any, ...]
    like: Tensor | None

    def rebound(self, tensor: Tensor) -> None:
        """A new payload was bound to the tensor; the node that records it follows."""

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
        run: ``run(g, node, grad)`` gives one gradient per input; ``grad`` says whether saved outputs are recorded again.
    """

    __slots__ = ("mode", "name", "out", "row", "run", "saves", "shapes", "wanted")

    def __init__(
        self,
        row: Row,
        name: str,
        mode: Mode,
        out: Key,
        wanted: tuple[bool, ...],
        saves: tuple[str, ...],
        run: Callable[..., tuple[Any, ...]],
        shapes: tuple[int, ...] = (),
    ) -> None:
        self.shapes = shapes
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


def make_rule(row: Row, name: str, mode: Mode, keys: tuple[Key, ...], wanted: tuple[bool, ...], out: Key) -> Rule:
    """The rule of one operator on these keys with gradients wanted for these operands.

    Raises:
        AmbiguousKernelError: two plugins state a derivative with equal claim.
    """
    slots = slots_of(row, len(keys))
    base = tuple(k.base for k in keys)
    found, tied = kernels.select_derivative(row.name, keys, slots)
    if tied:
        raise kernels.ambiguous(f"the derivative of {row.name}", base, tied)
    if any(k.dtype in complex_floating for k in base if k is not ABSENT):
        return Rule(row, name, mode, out, wanted, (), _complex(name))
    functions = found.functions if found is not None else {}
    names = [p.name for p in row.operands]
    metas = [p.name for p in row.metas]
    missing = [n for n, w in zip(names, wanted, strict=True) if w and n not in functions]
    if missing:
        return Rule(row, name, mode, out, wanted, (), _without(name, missing[0], base))
    used = [n for n, w in zip(names, wanted, strict=True) if w]
    needs = {n: kernels.parameters(functions[n])[1:] for n in used}
    saves = tuple(n for n in (*names, "out") if any(n in needs[u] for u in used))
    constants: dict[str, Any] = {"changed": changed, "rejoin": rejoin, "name": name}
    body = []
    where = {n: f"s{i}" for i, n in enumerate(saves)}
    asked = {n.removesuffix("_shape") for u in used for n in needs[u] if n.endswith("_shape") and n != "out_shape"}
    shapes = tuple(i for i, p in enumerate(row.operands) if p.name in asked and (p.role == "variadic" or not wanted[i]))
    at = 0
    for n in saves:
        v = where[n]
        body.append(f"{v} = saved[{at}]")
        key = out if n == "out" else base[slots.index(names.index(n))]
        variadic = n != "out" and row.operands[names.index(n)].role == "variadic"
        if variadic:
            body.append(f"if tuple([0 if t._alias is None else t._alias.version for t in {v}]) != saved[{at + 1}]:")
            body.append(f"    raise changed(name, {n!r})")
        elif key.is_tensor:
            body.append(f"x = {v}._alias")
            body.append(f"if (0 if x is None else x.version) != saved[{at + 1}]: raise changed(name, {n!r})")
        at += 2
    if "out" in saves:
        body.append(f"if grad: {where['out']} = rejoin({where['out']}, node)")
    results = []
    flat = 0
    for i, p in enumerate(row.operands):
        count = sum(1 for s in slots if s == i)
        if not wanted[i]:
            results.append("None" if p.role != "variadic" else ", ".join(["None"] * count) or "")
            flat += count
            continue
        words = []
        for need in needs[p.name]:
            if need in where:
                words.append(f"{need}={where[need]}")
            elif need in metas:
                words.append(f"{need}=meta[{metas.index(need)}]")
            elif need == "out_shape":
                words.append("out_shape=node.shape")
            else:
                words.append(f"{need}={_of_input(need, row, names, slots, constants, keys, shapes, len(saves))}")
        if functions[p.name] is kernels.passes:
            results.append("g")
            flat += count
            continue
        constants[f"d{i}"] = functions[p.name]
        # Parameters are passed by name: a derivative may list them in any order.
        call = f"d{i}({', '.join(['g', *words])})"
        results.append(f"*{call}" if p.role == "variadic" else call)
        flat += count
    parts = f"({''.join(r + ', ' for r in results if r)})"
    if any(p.role == "variadic" for p in row.operands):
        constants["counted"] = counted
        parts = f"counted(name, inputs, {parts})"
    body.append(f"return {parts}")
    text = "\n".join(body)
    body = [*[f"{name} = node.{name}" for name in ("saved", "inputs", "meta") if f"{name}" in text], *body]
    run = compile_plan(["g", "node", "grad"], body, constants)
    return Rule(row, name, mode, out, wanted, saves, run, shapes)


def _of_input(
    need: str,
    row: Row,
    names: list[str],
    slots: tuple[int, ...],
    constants: dict[str, Any],
    keys: tuple[Key, ...],
    shapes: tuple[int, ...],
    saved: int,
) -> str:
    operand, _, what = need.rpartition("_")
    i = names.index(operand)
    first = slots.index(i)
    if what == "key":
        constants[f"k{i}"] = keys[first].base
        return f"k{i}"
    if i in shapes:
        return f"saved[{2 * saved + shapes.index(i)}]"
    return f"inputs[{first}].shape"


def counted(name: str, inputs: tuple[Any, ...], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients that a derivative by several operands gave, if they are as many."""
    if len(parts) != len(inputs):
        raise AutogradError(f"the derivative of {name} gave {len(parts)} gradients for {len(inputs)} operands")
    return parts


def changed(name: str, operand: str) -> AutogradError:
    """The error of a saved operand that was written before backward."""
    what = "its result" if operand == "out" else f"its operand {operand}"
    return AutogradError(
        f"{name}: {what}, which backward needs, was changed in place after the call; "
        "change a copy, x.copy(), or call backward before the change"
    )


def rejoin(saved: Tensor, node: Node) -> Tensor:
    """A saved output as a recorded tensor again, for derivatives that are themselves differentiated."""
    out = wrap(saved._key.recorded, saved._payload)
    out._node, out._alias = node, saved._alias
    return out


def _without(name: str, operand: str, keys: tuple[Key, ...]) -> Callable[..., Any]:
    def run(g: Tensor, node: Node, grad: bool) -> Any:
        raise AutogradError(
            f"{name} has no derivative by {operand} on {', '.join(k.name for k in keys if k.is_tensor)}; state one with "
            f"tripoint.plugin.derivative({name!r}, {operand}=...), or call .detach() where no gradient should pass"
        )

    return run


def _complex(name: str) -> Callable[..., Any]:
    def run(g: Tensor, node: Node, grad: bool) -> Any:
        raise NotBuiltYetError(
            f"{name}: derivatives of complex tensors are planned; differentiate real and imaginary parts"
        )

    return run
