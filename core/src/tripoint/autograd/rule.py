"""How the record of a call turns a gradient of its result into those of its operands: compiled once per plan."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from tripoint import kernels
from tripoint.autograd import engine
from tripoint.autograd.node import Node, Rule, slots_of
from tripoint.callables import parameters
from tripoint.dispatcher.plan import compile_plan
from tripoint.dtypes import complex_floating
from tripoint.errors import AutogradError, NotBuiltYetError
from tripoint.keys import ABSENT, Key
from tripoint.modes import Mode
from tripoint.ops.conversion import astype
from tripoint.ops.elementwise import add
from tripoint.schema import Row
from tripoint.tensor import Tensor, wrap

__all__ = ["make_rule"]


def make_rule(row: Row, name: str, mode: Mode, keys: tuple[Key, ...], wanted: tuple[bool, ...], out: Key) -> Rule:
    """The rule of one operator on these keys with gradients wanted for these operands.

    Raises:
        AmbiguousKernelError: two plugins state a derivative with equal claim.
    """
    base = tuple(k.base for k in keys)
    found, tied, by = kernels.select_derivative(row.name, keys, slots_of(row, len(keys)))
    if tied:
        raise kernels.ambiguous(f"the derivative of {row.name}", base, tied)
    if any(k.dtype in complex_floating for k in base if k is not ABSENT):
        return Rule(row, name, mode, out, wanted, (), _complex(name))
    functions = found.functions if found is not None else {}
    missing = [p.name for p, w in zip(row.operands, wanted, strict=True) if w and p.name not in functions]
    if missing:
        return Rule(row, name, mode, out, wanted, (), _without(row, name, missing[0], base, found))
    source = _Source(row, name, base, by, wanted, out, functions)
    run = compile_plan(["g", "node", "grad", "grads", "ready", "skip"], source.lines(), source.constants)
    return Rule(
        row, name, mode, out, wanted, source.saves, run, source.shapes, found.origin if found is not None else None
    )


class _Source:
    """Writes the function of a rule, see `Rule.run`.

    Attributes:
        by: the keys that the derivative was chosen by; of a number format that decodes cheaply, that of its gradients.
        saves: names of the operands that the derivatives need, and ``out``, in order.
        shapes: operands whose shapes are saved behind these, since no receiving node tells them.
        constants: what the function is closed over.
    """

    def __init__(
        self,
        row: Row,
        name: str,
        keys: tuple[Key, ...],
        by: tuple[Key, ...],
        wanted: tuple[bool, ...],
        out: Key,
        functions: dict[str, Callable[..., Any]],
    ) -> None:
        self.row, self.keys, self.wanted, self.out, self.functions = row, keys, wanted, out, functions
        self.by = tuple(b if b.is_tensor else k for k, b in zip(keys, by, strict=True))
        self.slots = slots_of(row, len(keys))
        self.names = [p.name for p in row.operands]
        self.needs = {n: parameters(functions[n])[1:] for n, w in zip(self.names, wanted, strict=True) if w}
        needed = {need for needs in self.needs.values() for need in needs}
        asked = {need.removesuffix("_shape") for need in needed if need.endswith("_shape") and need != "out_shape"}
        self.saves = tuple(n for n in (*self.names, "out") if n in needed)
        self.shapes = tuple(
            i for i, p in enumerate(row.operands) if p.name in asked and (p.role == "variadic" or not wanted[i])
        )
        self.constants: dict[str, Any] = {"changed": changed, "rejoin": rejoin, "name": name, "freed": engine.freed}

    def lines(self) -> list[str]:
        """The body of the function."""
        body = self._read()
        # Each gradient is given as soon as it is there, and not computed where it would be skipped.
        for i, p in enumerate(self.row.operands):
            if self.wanted[i]:
                body += self._give_several(i) if p.role == "variadic" else self._give(i)
        head = ["inputs, saved = node.inputs, node.saved", "if saved is None: raise freed(name)"]
        head += ["meta = node.meta"] if any("meta[" in line for line in body) else []
        return [*head, *body]

    def _read(self) -> list[str]:
        """Lines that read what was saved, and refuse what was written since."""
        body = []
        for at, name in enumerate(self.saves):
            kept, version = f"s{at}", f"saved[{2 * at + 1}]"
            body.append(f"{kept} = saved[{2 * at}]")
            i = self.names.index(name) if name != "out" else None
            if i is not None and self.row.operands[i].role == "variadic":
                body.append(f"if tuple([0 if t._alias is None else t._alias.version for t in {kept}]) != {version}:")
                body.append(f"    raise changed(name, {name!r})")
            elif (self.out if i is None else self.keys[self.slots.index(i)]).is_tensor:
                body.append(f"x = {kept}._alias")
                body.append(f"if (0 if x is None else x.version) != {version}: raise changed(name, {name!r})")
            if i is None:
                body.append(f"if grad: {kept} = rejoin({kept}, node)")
            body += self._decode(kept, i)
        return body

    def _decode(self, kept: str, i: int | None) -> list[str]:
        """Lines that bring what was saved to the dtype that the derivative was chosen by, where that is another one."""
        pairs = [(k, b) for k, b, s in zip(self.keys, self.by, self.slots, strict=True) if s == i]
        if i is None and self.by != self.keys:
            pairs = [(self.out, kernels.differentiated(self.out))]
        dtypes = [None if b is k else b.dtype for k, b in pairs]
        if not any(dtypes):
            return []
        self.constants["astype"] = astype
        several = i is not None and self.row.operands[i].role == "variadic"
        self.constants[f"d_{kept}"] = dtypes if several else dtypes[0]
        if several:
            return [f"{kept} = tuple([t if d is None else astype(t, d) for t, d in zip({kept}, d_{kept})])"]
        return [f"{kept} = astype({kept}, d_{kept})"]

    def _derivative(self, i: int) -> str:
        """Source of the gradient of an operand."""
        name = self.names[i]
        if self.functions[name] is kernels.passes:
            return "g"
        self.constants[f"d{i}"] = self.functions[name]
        # By name: a derivative may list its parameters in any order.
        return f"d{i}({', '.join(['g', *(f'{need}={self._argument(need)}' for need in self.needs[name])])})"

    def _argument(self, need: str) -> str:
        """Source of what a derivative asks for by a parameter of this name."""
        metas = [p.name for p in self.row.metas]
        if need in self.saves:
            return f"s{self.saves.index(need)}"
        if need in metas:
            return f"meta[{metas.index(need)}]"
        if need == "out_shape":
            return "node.shape"
        operand, _, what = need.rpartition("_")
        i = self.names.index(operand)
        first = self.slots.index(i)
        if what == "key":
            self.constants[f"key{i}"] = self.by[first]
            return f"key{i}"
        if i in self.shapes:
            return f"saved[{2 * len(self.saves) + self.shapes.index(i)}]"
        return f"inputs[{first}].shape"

    def _give_several(self, i: int) -> list[str]:
        first, count = self.slots.index(i), self.slots.count(i)
        self.constants.update(counted=counted, give=engine.give, count=count)
        return [
            f"for p, part in zip(inputs[{first}:{first + count}], counted(name, count, {self._derivative(i)})):",
            "    give(p, part, node, grads, ready, skip)",
        ]

    def _give(self, i: int) -> list[str]:
        """As `engine.give`, written out: a call of it for every operand would cost as much as the rest."""
        first = self.slots.index(i)
        key = self.keys[first]
        self.constants.update(heappush=heappush, add=add, fit=engine.fit, no_tensor=engine.no_tensor)
        body = [f"p = inputs[{first}]", "if skip is None or p not in skip:", f"    part = {self._derivative(i)}"]
        given = ["if p in grads: grads[p] = add(grads[p], part)", "else:", "    grads[p] = part"]
        given.append("    heappush(ready, (p.age, p))")
        if key.fitted:
            self.constants["Tensor"] = Tensor
            body += ["    if type(part) is Tensor:", "        part = fit(part, p, node)"]
            body += [*[f"        {line}" for line in given], "    elif part is not None: raise no_tensor(name, part)"]
            return body
        self.constants[f"k{i}"] = key
        body += ["    try:", f"        odd = part._payload.shape != p.shape or part._key.base is not k{i}"]
        body += ["    except AttributeError:", "        if part is not None: raise no_tensor(name, part) from None"]
        body += ["    else:", "        if odd: part = fit(part, p, node)", *[f"        {line}" for line in given]]
        return body


def counted(name: str, count: int, parts: Any) -> Any:
    """The gradients that a derivative by several operands gave, if they are as many."""
    if len(parts) != count:
        raise AutogradError(f"the derivative of {name} gave {len(parts)} gradients for {count} operands")
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


def _without(
    row: Row, name: str, operand: str, keys: tuple[Key, ...], found: kernels.Derivative | None
) -> Callable[..., Any]:
    names = [p.name for p in row.operands]
    formula = f"{operand}=lambda {', '.join(['v' if 'g' in names else 'g', *names])}: ..."
    if found is not None:
        remedy = f"add {formula} to the one that is stated, {found.origin}"
    else:
        args = _patterns(row, keys)
        given = [repr(row.name), *([f"args={args!r}"] if args else []), formula]
        remedy = f"state one with tripoint.plugin.derivative({', '.join(given)})"

    def run(g: Tensor, node: Node, *rest: Any) -> None:
        raise AutogradError(
            f"{name} has no derivative by {operand} on {', '.join(k.name for k in keys if k.is_tensor)}; {remedy}, or call "
            ".detach() where no gradient should pass"
        )

    return run


def _patterns(row: Row, keys: tuple[Key, ...]) -> tuple[str, ...]:
    """Patterns for the operands of a call, as authors write them; none where the usual ones, plain dtypes, fit."""
    if all(k.dtype.is_plain for k in keys if k is not ABSENT):
        return ()
    slots = slots_of(row, len(keys))
    firsts = [keys[slots.index(i)] if i in slots else ABSENT for i in range(len(row.operands))]
    points = [f"{k.device.type}.{k.layout}" if k.is_tensor else "*.*" for k in firsts]
    return tuple(
        p if k is ABSENT or k.dtype.is_plain else f"{p}.{k.dtype}" for p, k in zip(points, firsts, strict=True)
    )


def _complex(name: str) -> Callable[..., Any]:
    def run(g: Tensor, node: Node, *rest: Any) -> None:
        raise NotBuiltYetError(
            f"{name}: derivatives of complex tensors are planned; compute with a pair of real tensors"
        )

    return run
