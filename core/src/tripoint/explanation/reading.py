"""Reading a Resolution, complete or not: who took part, why the winner won, and what gave each part of the result.

And reading what stands around it: where the parts of an argument's key come from, and the source of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint import kernels, plugins
from tripoint.autograd.node import Leaf
from tripoint.dispatcher.refusals import argument_names, differences
from tripoint.dispatcher.resolve import Resolution, comes_home, kernel_for
from tripoint.dispatcher.routes import routes
from tripoint.errors import NoKernelError, clipped, difference
from tripoint.explanation.data import Argument, Candidate, Explanation
from tripoint.kernels import Kernel
from tripoint.keys import ABSENT, Key
from tripoint.patterns import Patterns, beats
from tripoint.schema import Row, rows
from tripoint.storage import View
from tripoint.tensor import Tensor


def read(out: Explanation, res: Resolution, keyed: dict[str, Any]) -> None:
    """What a Resolution says, complete or not, as the attributes of an explanation."""
    full = res.keys if res.target is None else (*res.keys, res.target)
    matched = (*res.matched, *full[len(res.matched) :])
    called = argument_names(res, len(full))
    out.resolution, out.how = res, res.how if out.error is None else ""
    out.layers = tuple(layer.name for layer in res.layers)
    out.arguments = tuple(
        Argument(name, str(key), str(m), _becomes(res, i, key, keyed))
        for i, (name, key, m) in enumerate(zip(called, full, matched, strict=True))
    )
    out.candidates = tuple(_candidates(res, called, matched))
    out.routes = out.error.routes if isinstance(out.error, NoKernelError) else _left(res) if out.error is None else ()
    if res.how == "convert":
        out.steps = tuple(f"step to {key}: {k.origin}, {k.pattern()}" for k, key in res.steps)
    elif res.how == "hooks":
        points = {p.origin: p for k in res.keys if k.is_tensor and (p := kernels.find_point(k)) is not None and p.cheap}
        back = " and back" if res.inner is not None and res.out is not res.inner.out else ""
        out.steps = tuple(
            f"through the hooks of {p.pattern}, {o.provider}: to strided{back}" for o, p in points.items()
        )
    elif res.how == "decomposition":
        why = "gradients are wanted of its parts" if res.parts else "no kernel for the whole"
        out.steps = (f"decomposed, {why}:",)
    elif res.how == "fallback":
        out.steps = (f"by the fallback policy in force, {res.mode.fallback}: there as strided tensors, and back",)
    elif res.how == "inplace" and res.kernel is None:
        point, made = res.point, res.inner.out if res.inner is not None else None
        back = "back through the hooks, " if made is not None and comes_home(made, res.keys[0].base) else ""
        verb = "binding" if point and point.frozen else "writing"
        out.steps = (f"by the functional operator, {back}{verb} what it gives",)
    out.gave, out.allocator = _gave(res, called, keyed), _allocator(res)


def _left(res: Resolution) -> tuple[tuple[str, str], ...]:
    """The routes tried before the one taken, where there are several."""
    return routes(res) if res.how in ("kernel", "hooks", "decomposition", "fallback") else ()


def origin_of_parts(tensor: Tensor) -> dict[str, str]:
    """For each part of a tensor's key, what gave it."""
    said: dict[str, str] = {}
    node, view = tensor._node, tensor._alias
    if tensor._key.autograd and node is not None:
        name = getattr(getattr(node, "rule", None), "name", "")
        said["autograd"] = "a leaf that gradients are wanted for" if isinstance(node, Leaf) else f"recorded by {name}"
    if isinstance(view, View):
        said["view"] = f"a view by {view.row.name} of a tensor of shape {view.base.shape}"
    return said


def source(plan: Callable[..., Any]) -> tuple[str, ...]:
    """The source of a plan and of the plans that it calls, from the top down."""
    out: list[str] = []
    inner: Any = plan
    while inner is not None:
        code = inner.__code__
        body, constants = getattr(inner, "source", None) or (None, dict[str, Any]())
        if body is None:
            cells = zip(code.co_freevars, inner.__closure__ or (), strict=True)
            constants = {name: cell.cell_contents for name, cell in cells}
            out.append(f"# {inner.__module__}: {inner.__qualname__.partition('.')[0].lstrip('_')}, written by hand")
        else:
            out.append(f"def plan({', '.join(code.co_varnames[: code.co_argcount])}):")
            out += [f"    {line}" for line in body]
            known = [f"{name} = {said}" for name, value in constants.items() if (said := _constant(value))]
            out += [f"# {line}" for line in known]
        below = constants.get("inner")
        inner = below if hasattr(below, "__code__") else None
        out += ["# inner:"] if inner is not None else []
    return tuple(out)


def _constant(value: object) -> str:
    """A constant of a plan as text, or nothing where that says nothing."""
    if isinstance(value, (Key, Row, Resolution, str)):
        return clipped(repr(value), 100)
    return ""


def _becomes(res: Resolution, i: int, key: Key, keyed: dict[str, Any]) -> str:
    if i >= len(res.keys):
        return "the point of the result"
    cast, fill = res.casts[i], res.fills[i]
    if cast is not None:
        kernel = kernel_for(rows["astype"], (key.base, key.replace(dtype=cast)))
        return f"cast to {cast} by {kernel.origin.label if kernel is not None else 'nobody'}"
    if fill is not None:
        kernel = kernel_for(rows["full"], (fill,))
        return f"made a 0-d {fill} by {kernel.origin.label if kernel is not None else 'nobody'}"
    return ""


def _candidates(res: Resolution, called: list[str], matched: tuple[Key, ...]) -> list[Candidate]:
    row = res.row
    if row.name in ("to", "astype"):  # planned as steps
        return []
    slots = (*res.slots, len(row.operands))[: len(matched)]
    found: dict[str, list[Candidate]] = {"chosen": [], "fits": [], "does not fit": [], "takes no part": []}
    fits = [k for k in res.candidates if not differences(k, called, matched, slots)]
    others = [k for k in kernels.kernels.get(row.name, ()) if k not in res.candidates]
    for kernel in (*res.candidates, *others):
        origin, wrong = kernel.origin, differences(kernel, called, matched, slots)
        if kernel in others:
            verdict = "takes no part"
            why = f"{origin.distribution} owns no point of this call and is not preferred"
            if res.parts:
                why = f"gradients are wanted and {row.name} has no derivative here, so its parts are needed"
        elif kernel is res.kernel:
            verdict, why = "chosen", _why(kernel, [k for k in fits if k is not kernel], called, matched, slots)
            why += f"; of shapes it takes: {kernel.limit}" if kernel.limit else ""
        elif wrong:
            verdict, why = "does not fit", difference(*wrong[0])
        else:
            verdict, why = "fits", ""
        found[verdict].append(Candidate(verdict, origin.function, kernel.pattern(), origin.provider, origin.where, why))
    return [c for group in found.values() for c in group] + _offered(matched)


def _offered(keys: tuple[Key, ...]) -> list[Candidate]:
    """Plugins with kernels for points of others, here, of which nothing is loaded since nobody prefers them."""
    return [
        Candidate("takes no part", "", ", ".join(points), f"{plugin.name} {plugin.version}", "", offer)
        for plugin, points, offer in plugins.offers(keys)
    ]


def _why(kernel: Kernel, others: list[Kernel], called: list[str], keys: tuple[Key, ...], slots: tuple[int, ...]) -> str:
    """Why a kernel wins over those that fit as well: preference, or where it is narrower than the narrowest of them."""
    if not others:
        return "the only one that fits"
    if any(kernels.rivals(kernel.origin, other.origin, keys) for other in others):
        return _preferred(kernel)
    at = [i for i, k in enumerate(keys) if k is not ABSENT]

    def of(k: Kernel) -> Patterns:
        patterns = k.patterns(slots)
        return tuple([patterns[i] for i in at])

    next_best = next(k for k in others if not any(beats(of(o), of(k)) for o in others))
    for i, mine, its in zip(at, of(kernel), of(next_best), strict=True):
        for axis, a, b in zip(("device", "layout", "dtype"), mine.ranks(), its.ranks(), strict=True):
            if a < b and beats(of(kernel), of(next_best)):
                return f"narrower than the next on the {axis} of {called[i]}: {getattr(mine, axis)}, not {getattr(its, axis)}"
    return _preferred(kernel)


def _preferred(kernel: Kernel) -> str:
    name = kernel.origin.distribution or "__main__"
    if name in plugins.preferred_by_program:
        return f"preferred: the program said tripoint.plugins.prefer({name!r})"
    return f"preferred: TRIPOINT_PREFER names {name}"


def _gave(res: Resolution, called: list[str], keyed: dict[str, Any]) -> dict[str, str]:
    """For each axis of the result's key, what gave it."""
    out, said = res.out, {}
    tensors = [(n, k) for n, k in zip(called, res.keys, strict=False) if k.is_tensor]
    stated = res.kernel.out if res.kernel is not None else None
    states_dtype = stated is not None and not getattr(stated, "by_rule", False)
    for axis in ("device", "layout", "dtype") if out is not None and res.how != "identity" else ():
        value = getattr(out, axis)
        having = [n for n, k in tensors if getattr(k, axis) is value]
        if res.target is not None:
            default = "of the scope tripoint.device" if axis == "device" and res.mode.device else "by default"
            said[axis] = (
                "as asked for" if keyed.get(axis) is not None else f"of {tensors[0][0]}" if tensors else default
            )
        elif axis == "dtype" and res.row.dtype is not None and not states_dtype:
            said[axis] = f"by the operator's rule {res.row.dtype.name!r}"
        elif len(having) == len(tensors):
            said[axis] = f"of {', '.join(having[:3])}{', ...' * (len(having) > 3)}"
        elif res.row.mutates is not None:
            said[axis] = f"of {tensors[0][0]}, which is written"
        else:
            said[axis] = "stated by the kernel" if res.kernel is not None else f"as the {res.how} give it"
    return said


def _allocator(res: Resolution) -> str:
    row, first = res.row, res.row.operands[0].name if res.row.operands else ""
    if res.how == "identity":
        return f"none: {first} itself is returned"
    if row.mutates is not None:
        bound_anew = res.point is not None and res.point.frozen
        return f"a new payload is bound to {first}" if bound_anew else f"none: written into {first}"
    if res.out is not None and res.out.device.type == "meta":
        return "none: a shape has no memory"
    kernel = res.steps[-1][0] if res.steps else res.kernel
    if kernel is None or row.returns != "tensor":
        return ""
    frozen = res.point is not None and res.point.frozen
    views = row.aliases != "never" and res.out is not None and res.out.layout.views and not frozen
    if views and row.aliases == "always":
        return f"none: a view of {first}"
    own = f"unmanaged: the library of {kernel.origin.provider} allocates and counts it"
    if res.point is not None and res.point.allocator is not None:
        own = f"of the allocator that {res.point.origin.provider} brings for {res.point.pattern.device}, and counted by it"
    return f"none if it can be a view of {first}, else {own}" if views else own
