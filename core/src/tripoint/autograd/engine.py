"""Walking the record back. Recording, backward and teardown are iterative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tripoint.autograd.node import Leaf
from tripoint.dispatcher.plan import is_readonly, refresh
from tripoint.errors import ArgumentError, AutogradError, ShapeError
from tripoint.keys import Key
from tripoint.layouts import strided
from tripoint.modes import current
from tripoint.ops.conversion import astype, copy, to
from tripoint.ops.creation import ones
from tripoint.ops.elementwise import add, add_
from tripoint.ops.manipulation import broadcast_to, reshape
from tripoint.ops.reductions import sum as sum_
from tripoint.plugins import on_change
from tripoint.tensor import Tensor

__all__ = ["backward", "grad", "gradients"]


def backward(
    tensor: Tensor,
    gradient: Tensor | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Add the gradients of ``tensor`` to ``.grad`` of every leaf that it was computed from.

    Args:
        gradient: of something later by ``tensor``, of its shape; may be left out for one element.
        retain_graph: keep the record for another backward; as ``create_graph`` unless given.
        create_graph: record the derivatives too, so that gradients can be differentiated.

    Raises:
        AutogradError: nothing recorded, not a floating dtype, several elements without ``gradient``, a record used
            twice, or a saved operand changed in place.
        ShapeError: ``gradient`` has another shape.
    """
    seed = _seed(tensor, gradient, create_graph)  # refreshes the tensor, which may change its node
    _walk([(tensor._node, seed)], retain_graph, create_graph, None)


_seeds: dict[Key, Tensor] = {}
on_change.append(_seeds.clear)


def _seed(tensor: Tensor, gradient: Tensor | None, create_graph: bool) -> Tensor:
    refresh(tensor)
    key = tensor._key
    if key.dtype.gradient is None:
        raise AutogradError(f"backward of a {tensor.dtype} tensor: only floating tensors have gradients")
    if not key.autograd:
        raise AutogradError(
            "backward of a tensor that is not recorded: call requires_grad_() on what it is computed from, before computing "
            "it, and compute it outside of no_grad()"
        )
    if gradient is None:
        if tensor._payload.shape == () and not create_graph:
            # Nobody keeps a seed or writes into it, so one per key serves every backward.
            key = key.base
            seed = _seeds.get(key)
            if seed is None:
                seed = _seeds[key] = ones((), dtype=tensor.dtype.gradient, device=tensor.device)
            return seed
        if tensor.size != 1:
            raise AutogradError(
                f"backward of a tensor of shape {tensor.shape}: it has {tensor.size} elements; reduce it to one, as by "
                ".sum(), or pass gradient="
            )
        return ones(tensor.shape, dtype=tensor.dtype.gradient, device=tensor.device)
    if not isinstance(gradient, Tensor):
        raise ArgumentError(f"gradient must be a tensor of shape {tensor.shape}, not a {type(gradient).__name__}")
    if gradient.shape != tensor.shape:
        raise ShapeError(
            f"gradient has shape {gradient.shape}, the tensor has shape {tensor.shape}; they must be equal"
        )
    return gradient


def gradients(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    gradient: Tensor | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> Any:
    """The gradients of ``outputs`` (their sum, weighted by ``gradient``) by each of ``inputs``; ``.grad`` stays as it is.

    Returns:
        A list of one gradient per input (one gradient when ``inputs`` is a tensor), ``None`` for an input that the
        outputs do not depend on.

    Raises:
        ArgumentError: something that is no tensor.
        AutogradError: as `backward`, or an input that is not recorded.
    """
    single = isinstance(inputs, Tensor)
    roots, wants = ([x] if isinstance(x, Tensor) else x for x in (outputs, inputs))
    for name, given in (("outputs", roots), ("inputs", wants)):
        if not isinstance(given, (list, tuple)) or not all(isinstance(t, Tensor) for t in given):
            raise ArgumentError(f"gradients: {name} must be a tensor or a list of tensors, not {given!r:.60}")
    seeds = [(t._node, s) for t in roots for s in [_seed(t, gradient, create_graph)]]
    wanted: dict[Any, Tensor | None] = {}
    for t in wants:
        refresh(t)
        if not t._key.autograd:
            raise AutogradError(
                f"an input of shape {t.shape} is not recorded; call requires_grad_() before computing with it"
            )
        wanted[t._node] = None
    seeds = [(r._node, s) for r, (_, s) in zip(roots, seeds, strict=True)]
    _walk(seeds, retain_graph, create_graph, wanted)
    found = [wanted[t._node] for t in wants]
    return found[0] if single else found


def grad(fn: Callable[..., Tensor], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the gradient of ``fn``, which must return one element, by the arguments at ``argnums``.

    Nests: ``grad(grad(f))`` is the second derivative.
    """
    several = not isinstance(argnums, int)
    at = [argnums] if isinstance(argnums, int) else list(argnums)
    if not all(isinstance(i, int) for i in at):
        raise ArgumentError(f"grad: argnums must be an int or several, not {argnums!r}")

    def gradient(*args: Any, **kwargs: Any) -> Any:
        values = list(args)
        for a in args:
            if isinstance(a, Tensor):
                refresh(a)  # before its key is read: a view may have to take its base's history first
        for i in at:
            if not -len(values) <= i < len(values):
                raise ArgumentError(
                    f"grad: argnums names argument {i}; the call has {len(values)} positional arguments"
                )
            if not isinstance(values[i], Tensor):
                raise ArgumentError(f"grad: argument {i} must be a tensor, not a {type(values[i]).__name__}")
            outer = values[i]
            # A recorded argument stays joined to what it comes from, so that gradients of gradients reach it.
            values[i] = copy(outer) if outer._key.autograd else outer.detach().requires_grad_()
        out = fn(*values, **kwargs)
        nested = any(isinstance(a, Tensor) and a._key.autograd for a in args)
        found = gradients(out, [values[i] for i in at], create_graph=nested)
        filled = [
            g if g is not None else ones(values[i].shape, dtype=values[i].dtype, device=values[i].device) * 0
            for g, i in zip(found, at, strict=True)
        ]
        return filled if several else filled[0]

    return gradient


def _walk(
    roots: list[tuple[Any, Tensor]], retain_graph: bool | None, create_graph: bool, wanted: dict[Any, Any] | None
) -> None:
    retain = create_graph if retain_graph is None else retain_graph
    waiting: dict[Any, int] = {node: 0 for node, _ in roots}  # for how many gradients each node waits
    users: dict[Any, list[Any]] = {}
    stack = list(waiting)
    while stack:
        node = stack.pop()
        inputs = node.inputs
        if inputs is None:
            if wanted is not None and node in wanted:
                continue
            raise AutogradError(
                f"backward has already been run through {node.rule.name} and its record was freed; "
                "pass retain_graph=True to the first backward"
            )
        for parent in inputs:
            if parent is None:
                continue
            if wanted is not None:
                users.setdefault(parent, []).append(node)
            if parent in waiting:
                waiting[parent] += 1
            else:
                waiting[parent] = 1
                if type(parent) is not Leaf:
                    stack.append(parent)
    if wanted is not None:
        waiting = _towards(wanted, users)
        roots = [(node, seed) for node, seed in roots if node in waiting]
    grads: dict[Any, Tensor] = {}
    borrowed: set[Any] = set()
    caller = current.get()
    fallback = caller.fallback
    token = current.set(caller.replace(grad=create_graph))
    try:
        ready = []
        for node, seed in roots:
            if node in grads:
                grads[node] = add(grads[node], seed)
            else:
                grads[node] = _fit(seed, node)
                borrowed.add(node)
                if not waiting[node]:
                    ready.append(node)
        while ready:
            node = ready.pop()
            g = grads.pop(node)
            if wanted is not None and node in wanted:
                wanted[node] = copy(g) if node in borrowed and not create_graph else g
            if type(node) is Leaf:
                if wanted is None:
                    _land(node, g, node in borrowed, create_graph)
                continue
            if wanted is not None and not any(p in waiting for p in node.inputs or ()):
                continue
            rule = node.rule
            if rule.mode.fallback != fallback:
                fallback = rule.mode.fallback
                current.set(caller.replace(grad=create_graph, fallback=fallback))
            parts = rule.run(g, node, create_graph)
            inputs = node.inputs
            if len(parts) != len(inputs):
                raise AutogradError(
                    f"the derivative of {rule.name} gave {len(parts)} gradients for {len(inputs)} operands"
                )
            for parent, part in zip(inputs, parts):
                if parent is None or (wanted is not None and parent not in waiting):  # no gradient is wanted there
                    continue
                if part is not None:
                    if type(part) is not Tensor:
                        raise AutogradError(
                            f"the derivative of {rule.name} gave a {type(part).__name__}; gradients are tensors, or None"
                        )
                    leaf = type(parent) is Leaf
                    key = parent.key if leaf else parent.rule.out
                    if (
                        part._payload.shape != parent.shape
                        or part._key.base is not key
                        or key.fitted  # one key, and perhaps another pattern
                    ):
                        part = _fit(part, parent, node)
                    if parent in grads:
                        grads[parent] = add(grads[parent], part)
                        borrowed.discard(parent)
                    else:
                        grads[parent] = part
                        if leaf or wanted is not None:  # somebody will keep it
                            if part is g or part._alias is not None:
                                borrowed.add(parent)
                            else:
                                for s in node.saved:
                                    if s is part:
                                        borrowed.add(parent)
                left = waiting[parent] = waiting[parent] - 1
                if not left:
                    if parent in grads:
                        ready.append(parent)
                    else:
                        _release(parent, grads, ready, waiting)
            if not retain:
                node.inputs = node.saved = None
    finally:
        current.reset(token)


def _release(node: Any, grads: dict[Any, Tensor], ready: list[Any], waiting: dict[Any, int]) -> None:
    """Let a node run whose gradients have all come; one that got none passes the news to its own operands."""
    stack = [node]
    while stack:
        node = stack.pop()
        if node in grads:
            ready.append(node)
            continue
        for parent in node.inputs or ():
            if parent in waiting:
                waiting[parent] -= 1
                if not waiting[parent]:
                    stack.append(parent)


def _towards(wanted: dict[Any, Any], users: dict[Any, list[Any]]) -> dict[Any, int]:
    """Of the nodes from which a wanted one is reached, how many of these use each: the rest need not run."""
    leading = set(wanted)
    stack = list(wanted)
    while stack:
        for node in users.get(stack.pop(), ()):
            if node not in leading:
                leading.add(node)
                stack.append(node)
    return {node: sum(1 for user in users.get(node, ()) if user in leading) for node in leading}


def _land(leaf: Leaf, g: Tensor, borrowed: bool, create_graph: bool) -> None:
    """Put a gradient where the user reads it: memory of the leaf's own, writable and contiguous."""
    if leaf.grad is None:
        leaf.grad = copy(g) if borrowed and not create_graph else g
    elif create_graph or leaf.grad._key is not g._key or is_readonly(leaf.grad):
        leaf.grad = add(leaf.grad, g)
    else:
        add_(leaf.grad, g)


def _fit(part: Tensor, node: Any, source: Any = None) -> Tensor:
    """A gradient in the shape, dtype, device and, where the layout says so, layout of the node that receives it.

    ``source`` is the node whose derivative gave it.

    Raises:
        AutogradError: the shapes do not broadcast into one another.
    """
    shape, key = node.shape, node.key
    have = part._payload.shape
    if have != shape:
        lead = len(have) - len(shape)
        if lead > 0 and have[lead:] == shape and have == source.shape:  # a bias: the usual case
            part = sum_(part, axis=0 if lead == 1 else _leading[lead])
        else:
            part = _shaped(part, shape, source)
        if part._key is key and not key.fitted:
            return part
    elif part._key is key and not key.fitted:
        return part
    dtype = key.dtype.gradient
    if dtype is not None and part.dtype is not dtype:
        part = astype(part, dtype)
    if part.device is not key.device:
        part = to(part, device=key.device)
    if key.layout.gradient_like is not None:
        part = key.layout.gradient_like(part, node.like)
    elif key.layout is strided and part.layout is not strided:
        part = to(part, layout=strided)
    return part


_leading = [tuple(range(n)) for n in range(65)]


def _shaped(part: Tensor, shape: tuple[int, ...], source: Any) -> Tensor:
    have = part._payload.shape
    lead = len(have) - len(shape)
    # An axis is summed where the call broadcast the operand along it, so the call's result has it, in that size.
    padded = (1,) * -lead + have
    wanted = (1,) * lead + shape
    made = (1,) * (len(padded) - len(source.shape)) + source.shape
    for h, s, m in zip(padded, wanted, made[len(made) - len(padded) :], strict=True):
        if h != s and h != 1 and (s != 1 or h != m):
            raise AutogradError(
                f"the derivative of {source.rule.name} gave a gradient of shape {have} for an operand of shape {shape}"
            )
    if lead > 0:
        part = sum_(part, axis=tuple(range(lead)))
        have = part.shape
    padded = (1,) * (len(shape) - len(have)) + have
    over = tuple(i for i, (h, s) in enumerate(zip(padded, shape, strict=True)) if s == 1 and h != 1)
    if over:
        part = sum_(reshape(part, padded) if padded != have else part, axis=over, keepdims=True)
    return part if part.shape == shape else broadcast_to(part, shape)
