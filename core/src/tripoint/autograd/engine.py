"""Walking the record back. Recording, backward and teardown are iterative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from sys import getrefcount
from threading import RLock
from typing import Any, NoReturn, overload

from tripoint.autograd.node import Leaf
from tripoint.dispatcher.views import refresh
from tripoint.errors import ArgumentError, AutogradError, ReadOnlyError, ShapeError, noted
from tripoint.kernels import find_point
from tripoint.keys import Key
from tripoint.layouts import strided
from tripoint.modes import DEFAULT, current
from tripoint.ops.conversion import astype, copy, to
from tripoint.ops.creation import ones
from tripoint.ops.elementwise import add, add_
from tripoint.ops.manipulation import broadcast_to, reshape
from tripoint.ops.reductions import sum as sum_
from tripoint.ops.reductions import sum_leading
from tripoint.plugins import on_change, outlive
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
        raise AutogradError(
            f"backward of a tensor of dtype {tensor.dtype}: only floating tensors have gradients; call it on a result "
            "that has a floating dtype"
        )
    if not key.autograd:
        raise AutogradError(
            "backward of a tensor that is not recorded: call requires_grad_() on what it is computed from, before computing "
            "it, and compute it outside of no_grad()"
        )
    if gradient is None:
        if tensor._payload.shape == () and not create_graph:
            # A seed of one element per key serves every backward; one that a derivative wrote into is made anew. Where an
            # allocator counts memory none is kept, since it would count as live for ever.
            key = key.base
            seed = _seeds.get(key)
            if seed is None or (seed._alias is not None and seed._alias.version):
                seed = _ones(tensor)
                point = find_point(key)
                if point is None or point.allocator is None:
                    _seeds[key] = seed
            return seed
        if tensor.size != 1:
            raise AutogradError(
                f"backward of a tensor of shape {tensor.shape}: it has {tensor.size} elements; reduce it to one, as by "
                ".sum(), or pass gradient="
            )
        return _ones(tensor)
    if not isinstance(gradient, Tensor):
        raise ArgumentError(f"gradient must be a tensor of shape {tensor.shape}, not a {type(gradient).__name__}")
    if gradient.shape != tensor.shape:
        raise ShapeError(
            f"gradient has shape {gradient.shape}, the tensor has shape {tensor.shape}; they must be equal"
        )
    return gradient


def _ones(tensor: Tensor) -> Tensor:
    """A seed: seen by no layer, and made under the policy that was in force when the tensor was computed."""
    rule = getattr(tensor._node, "rule", None)
    token = current.set(DEFAULT.replace(fallback=(rule.mode if rule is not None else current.get()).fallback))
    try:
        return ones(tensor.shape, dtype=tensor.dtype.gradient, device=tensor.device)
    finally:
        current.reset(token)


@overload
def gradients(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor,
    gradient: Tensor | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> Tensor | None: ...
@overload
def gradients(
    outputs: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor],
    gradient: Tensor | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> list[Tensor | None]: ...
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
    for i, g in enumerate(found):
        if g is not None and any(g is other for other in found[:i]):  # an input that is named twice
            found[i] = copy(g)
    return found[0] if single else found


@overload
def grad(fn: Callable[..., Tensor], argnums: int = 0) -> Callable[..., Tensor]: ...
@overload
def grad(fn: Callable[..., Tensor], argnums: Sequence[int]) -> Callable[..., list[Tensor]]: ...
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
    skip, ends = (None, None) if wanted is None else _besides([node for node, _ in roots], wanted)
    grads: dict[Any, Tensor] = {}
    ready: list[tuple[int, Any]] = []  # a heap: of what has a gradient, the youngest, whose users have all run
    leaves: list[Leaf] = []
    g: Any
    part: Any
    caller = current.get()
    mode, fallback = None, caller.fallback
    token = current.set(caller.replace(grad=True) if create_graph else caller.without_grad())
    try:
        for node, seed in roots:
            key = node.key
            right = seed._key is key and seed._payload.shape == node.shape and not key.fitted
            part = seed if right else fit(seed, node)
            if node in grads:
                grads[node] = add(grads[node], part)
            else:
                grads[node] = part
                heappush(ready, (node.age, node))
        while ready:
            node = heappop(ready)[1]
            if node.__class__ is Leaf:
                leaves.append(node)
                continue
            g = grads.pop(node)
            if wanted is not None:
                if node in wanted:
                    wanted[node] = g
                if node in ends:  # type: ignore[operator]
                    continue
            rule = node.rule
            if rule.mode is not mode:
                mode = rule.mode
                if mode.fallback != fallback:
                    fallback = mode.fallback
                    current.set(caller.replace(grad=create_graph, fallback=fallback))
            try:
                rule.run(g, node, create_graph, grads, ready, skip)
            except BaseException as error:
                _failed(rule, error)
            if not retain:
                node.saved = None
        g = seed = part = None  # type: ignore[assignment]  # `_land` counts references
        # Leaves come last: an error in a derivative leaves every .grad as it was.
        if wanted is None:
            with _landing:
                for leaf in leaves:
                    _land(leaf, grads.pop(leaf), create_graph)
        else:
            for node in wanted:
                if node in grads:
                    wanted[node] = grads.pop(node)
                if wanted[node] is not None:
                    _own(wanted, node)
    finally:
        current.reset(token)


def _failed(rule: Any, error: BaseException) -> NoReturn:
    """Raise what becomes of an error of a derivative; an exception with a note that names it, and whose it is."""
    origin = rule.origin
    try:
        if isinstance(error, Exception):
            whose = f", {origin}" if origin is not None and origin.distribution != "tripoint" else ""
            noted(error, f"raised by the derivative of {rule.name}{whose}")
        outlive(origin, f"the derivative of {rule.name}", error)
    finally:
        del error  # or this frame and the error hold one another


def give(
    parent: Any, part: Any, node: Any, grads: dict[Any, Tensor], ready: list[tuple[int, Any]], skip: set[Any] | None
) -> None:
    """Give the input of a node its gradient. Rules have this unrolled, for each of their operands.

    Args:
        parent: the input, or ``None`` where no gradient is wanted.
        part: the gradient, or ``None`` for a gradient of 0.
        node: where it comes from.
        grads: the gradients so far.
        ready: a heap of those whose gradients may go on.
        skip: inputs that need none.

    Raises:
        AutogradError: ``part`` is no tensor.
    """
    if parent is None or part is None or (skip is not None and parent in skip):
        return
    if type(part) is not Tensor:
        raise no_tensor(node.rule.name, part)
    key = parent.key
    if part._payload.shape != parent.shape or part._key.base is not key or key.fitted:
        part = fit(part, parent, node)
    if parent in grads:
        grads[parent] = add(grads[parent], part)
    else:
        grads[parent] = part
        heappush(ready, (parent.age, parent))


def no_tensor(name: str, part: Any) -> AutogradError:
    """The error of a derivative that gave something else."""
    return AutogradError(f"the derivative of {name} gave a {type(part).__name__}; gradients are tensors, or None")


def freed(name: str) -> AutogradError:
    """The error of a record that is gone."""
    return AutogradError(
        f"backward has already been run through {name} and its record was freed; "
        "pass retain_graph=True to the first backward"
    )


def _besides(roots: list[Any], wanted: dict[Any, Any]) -> tuple[set[Any], set[Any]]:
    """Where no gradient has to go, since no wanted one is reached from there; and where they need not go further.

    Raises:
        AutogradError: a record that an earlier backward has freed.
    """
    seen = dict.fromkeys(roots)
    order = list(seen)
    for node in order:
        for parent in node.inputs:
            if parent is not None and parent not in seen:
                seen[parent] = None
                order.append(parent)
    leading, ends = set(wanted), set()
    for node in sorted(order, key=attrgetter("age"), reverse=True):  # what a call used comes before the call
        if any(parent in leading for parent in node.inputs):
            if node.saved is None:
                raise freed(node.rule.name)
            leading.add(node)
        else:
            ends.add(node)
    return {None, *(node for node in order if node not in leading)}, ends


#: threads that run backward into one leaf take turns; reentrant, since a layer around `add_` may run backward itself.
_landing = RLock()


def _land(leaf: Leaf, g: Tensor, create_graph: bool) -> None:
    """Put a gradient where the user reads it: memory of the leaf's own, writable and contiguous."""
    have = leaf.grad
    if have is None:
        leaf.grad = copy(g) if g._alias is not None or getrefcount(g) > _ALONE else g
        return
    if not create_graph and have._key is g._key:
        try:
            add_(have, g)
            return
        except ReadOnlyError:  # before anything was written
            pass
    leaf.grad = add(have, g)


def _alone(leaf: Any, g: Any, create_graph: bool) -> int:
    """How many references `_land` counts of a gradient that nobody else holds."""
    return getrefcount(g)


_ALONE = (lambda take: _alone(None, take(0), False))([object()].pop)


def _own(wanted: dict[Any, Any], node: Any) -> None:
    """Let a gradient that is handed out share no memory with another, with the seed, or with what the user holds."""
    g, wanted[node] = wanted[node], None
    wanted[node] = copy(g) if g._alias is not None or getrefcount(g) > _ALONE else g


def fit(part: Tensor, node: Any, source: Any = None) -> Tensor:
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
            part = sum_leading(part, shape=shape)
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
