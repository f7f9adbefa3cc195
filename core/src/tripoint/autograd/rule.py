"""How the record of a call turns a gradient of its result into those of its operands: compiled once per plan."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from tripoint import kernels
from tripoint.autograd import engine
from tripoint.autograd.node import Node, Rule, slots_of
from tripoint.dispatcher.plan import compile_plan
from tripoint.dtypes import complex_floating
from tripoint.errors import AutogradError, NotBuiltYetError
from tripoint.keys import ABSENT, Key
from tripoint.modes import Mode
from tripoint.ops.elementwise import add
from tripoint.schema import Row
from tripoint.tensor import Tensor, wrap

__all__ = ["make_rule"]


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
    body: list[str] = []
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
    # Each gradient is given as soon as it is there, and not computed where it would be skipped.
    for i, p in enumerate(row.operands):
        if not wanted[i]:
            continue
        first = slots.index(i)
        words = ["g"]
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
            call = "g"
        else:
            constants[f"d{i}"] = functions[p.name]
            call = f"d{i}({', '.join(words)})"  # by name: a derivative may list its parameters in any order
        if p.role == "variadic":
            count = slots.count(i)
            constants.update(counted=counted, give=engine.give, count=count)
            body += [
                f"for p, part in zip(inputs[{first}:{first + count}], counted(name, count, {call})):",
                "    give(p, part, node, grads, ready, skip)",
            ]
            continue
        key = base[first]
        constants.update(heappush=heappush, add=add, fit=engine.fit, no_tensor=engine.no_tensor)
        constants[f"k{i}"] = key
        body += [f"p = inputs[{first}]", "if skip is None or p not in skip:", f"    part = {call}"]
        given = ["if p in grads: grads[p] = add(grads[p], part)", "else:", "    grads[p] = part"]
        given.append("    heappush(ready, (p.age, p))")
        if key.fitted:
            given.insert(0, "part = fit(part, p, node)")
        else:
            body += ["    try:", f"        odd = part._payload.shape != p.shape or part._key.base is not k{i}"]
            body += ["    except AttributeError:", "        if part is not None: raise no_tensor(name, part) from None"]
            body += ["    else:", "        if odd: part = fit(part, p, node)", *[f"        {line}" for line in given]]
            continue
        body += ["    if type(part) is Tensor:", *[f"        {line}" for line in given]]
        body += ["    elif part is not None: raise no_tensor(name, part)"]
        constants["Tensor"] = Tensor
    text = "\n".join(body)
    body = ["meta = node.meta", *body] if "meta" in text else body
    body = ["inputs, saved = node.inputs, node.saved", "if saved is None: raise freed(name)", *body]
    constants["freed"] = engine.freed
    run = compile_plan(["g", "node", "grad", "grads", "ready", "skip"], body, constants)
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
        constants[f"key{i}"] = keys[first].base
        return f"key{i}"
    if i in shapes:
        return f"saved[{2 * saved + shapes.index(i)}]"
    return f"inputs[{first}].shape"


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


def _without(name: str, operand: str, keys: tuple[Key, ...]) -> Callable[..., Any]:
    def run(g: Tensor, node: Node, *rest: Any) -> None:
        raise AutogradError(
            f"{name} has no derivative by {operand} on {', '.join(k.name for k in keys if k.is_tensor)}; state one with "
            f"tripoint.plugin.derivative({name!r}, {operand}=...), or call .detach() where no gradient should pass"
        )

    return run


def _complex(name: str) -> Callable[..., Any]:
    def run(g: Tensor, node: Node, *rest: Any) -> None:
        raise NotBuiltYetError(
            f"{name}: derivatives of complex tensors are planned; compute with a pair of real tensors"
        )

    return run
