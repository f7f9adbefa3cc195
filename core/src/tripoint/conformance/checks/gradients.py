"""Tier 4: gradients against differences of the reference in double precision, and layers.

The differences are of the reference, not of the backend: its forward values were compared before, the reference has double
precision whatever the backend has, and a dtype that holds few numbers can be checked as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tripoint.conformance.checks.values import part_beyond, program
from tripoint.conformance.records import Record, Sample
from tripoint.conformance.reference.values import EPS, FLOATS, Array, nest, rounded
from tripoint.conformance.script import Script, Unsupported, agree, flat, missing
from tripoint.conformance.target import Target
from tripoint.errors import PluginError, TripointError
from tripoint.plugin import minimal

_STEP = 1e-4
_SECOND_STEP = 2.0**-11
#: steps of differences of an operator itself: powers of two, which are exact next to usual numbers.
_STEPS = {"float64": 2.0**-13, "float32": 2.0**-6}


def dtypes_for(target: Target, record: Record) -> list[str]:
    """The dtypes to differentiate in, the widest first."""
    return [d for d in ("float64", "float32", "bfloat16", "float16") if d in target.dtypes and d in record.dtypes]


def _weights(shape: tuple[int, ...], dtype: str) -> Array:
    return Array(dtype, shape, [(i % 5 + 1) / 4 for i in range(math.prod(shape))])


def slopes(target: Target, record: Record, sample: Sample, dtype: str) -> list[Array | None]:
    """Central differences of the weighted sum of what the reference gives, by each array of elements. Where there is no
    reference they are of the operator itself.

    Raises:
        Unsupported: neither has the precision.
    """
    if "values" not in record.without:
        wide = sample.replaced(lambda a: a.astype("float64") if a.dtype in FLOATS else a)
        return _differences(wide, lambda: _weighed(record.reference(*wide.operands, **wide.meta).data), _STEP)
    if dtype not in _STEPS or target.opaque:
        raise Unsupported("differences of the operator itself need float64 or float32")
    own = sample.replaced(lambda a: a.astype(a.dtype))

    def itself() -> float:
        script, _ = program(target, record.operator, own, dtype)
        try:
            script.run()
        except Exception as error:
            raise without(target, script, error, dtype, sample.tags | {"gradient"}) from None
        return _weighed(flat(script.read("out"))) if target.said.elements else 0.0

    return _differences(own, itself, _STEPS[dtype])


def _weighed(data: list[Any]) -> float:
    return math.fsum(v * w for v, w in zip(data, _weights((len(data),), "float64").data, strict=True))


def _differences(sample: Sample, value: Callable[[], float], size: float) -> list[Array | None]:
    found: list[Array | None] = []
    for array in sample.arrays():
        if array.role != "element" or array.dtype not in FLOATS:
            found.append(None)
            continue
        slope = []
        for i, was in enumerate(array.data):
            ends = []
            for step in (size, -size):
                array.data[i] = was + step
                ends.append(value())
            array.data[i] = was
            slope.append((ends[0] - ends[1]) / (2 * size))
        found.append(Array("float64", array.shape, slope))
    return found


def check_gradient(target: Target, record: Record, sample: Sample, dtype: str, known: list[Any] | None = None) -> None:
    """The gradients of one call, compared with differences of the reference or with what is known.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    script, tensors = program(target, record.operator, sample, dtype)
    wanted = known
    if wanted is None:
        wanted = [s.nested() if s is not None else None for s in slopes(target, record, sample, dtype)]
    arrays = dict(tensors)
    leaves = [(name, want) for (name, _), want in zip(tensors, wanted, strict=True) if want is not None]
    call = script.lines.pop()
    _require_gradients(script, [name for name, _ in leaves])
    out = record.reference(*sample.operands, **sample.meta)
    plain = Array(out.dtype, out.shape, _weights(out.shape, out.dtype).data, role="weight")
    if known is not None:
        plain = Array(out.dtype, out.shape, [1.0] * len(out.data), role="weight")
    script.add(call, f"out.backward({target.written(plain)})")
    grads = [f"{name}.grad.tolist()" for name, _ in leaves]
    try:
        names = script.run()
    except Exception as error:
        raise without(target, script, error, dtype, sample.tags | {"gradient"}, out) from None
    if not target.said.elements:
        return
    usual = 1e-5 if dtype == "float64" else 64 * EPS[dtype] if "values" not in record.without else 4e-3
    tolerance = target.tolerance(record.operator, dtype, {"gradient"}, usual)
    for (name, want), got in zip(leaves, grads, strict=True):
        grad = names[name].grad
        if grad is None:
            raise script.failure(f"no gradient for {name}", f"{name}.grad", None, want)
        have = grad.tolist()
        if grad._key.fitted:  # a layout that fits gradients may keep them to the elements that it stores
            want = nest(
                grad.shape, [h if h == x == 0 else w for h, x, w in zip(flat(have), arrays[name].data, flat(want))]
            )
        if not agree(have, want, tolerance):
            shown = [rounded(v, "float32") for v in want] if isinstance(want, list) and _flat(want) else want
            raise script.failure(f"wrong gradient of {name}", got, have, shown)
        if tuple(grad.shape) != tuple(names[name].shape):
            raise script.failure(
                f"the gradient of {name} has another shape", f"{name}.grad.shape", grad.shape, names[name].shape
            )


def _require_gradients(script: Script, names: list[str]) -> None:
    """Add ``.requires_grad_()`` to the lines of a program that make these tensors."""
    for name in names:
        at = next(i for i, line in enumerate(script.lines) if line.startswith(f"{name} = "))
        script.lines[at] += ".requires_grad_()"


def check_second(target: Target, record: Record, sample: Sample, dtype: str) -> None:
    """The gradients of what the gradients of one call add up to, compared with second differences of the reference.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    script, tensors = program(target, record.operator, sample, dtype)
    leaves = [(name, array) for name, array in tensors if array.role == "element" and array.dtype in FLOATS]
    call = script.lines.pop()
    _require_gradients(script, [name for name, _ in leaves])
    out = record.reference(*sample.operands, **sample.meta)
    weights = Array(dtype, out.shape, _weights(out.shape, dtype).data, role="weight")
    wrt = ", ".join(name for name, _ in leaves)
    script.add(f"w = {target.written(weights)}", call)
    script.add(f"slopes = tp.gradients((out * w).sum(), [{wrt}], create_graph=True)")
    # What is constant is not recorded; the products with 0 are.
    script.add(f"total = sum([s.sum() for s in slopes] + [(x * 0).sum() for x in [{wrt}]])")
    script.add(f"second = tp.gradients(total, [{wrt}])")
    try:
        names = script.run()
    except Exception as error:
        raise without(target, script, error, dtype, sample.tags | {"gradient"}, out) from None
    if not target.said.elements:
        return
    tolerance = target.tolerance(record.operator, dtype, {"gradient"}, max(1e-4, 64 * EPS[dtype]))
    for i, want in enumerate(_second_differences(record, sample)):
        have = names["second"][i].tolist()
        if not agree(have, want.nested(), tolerance):
            near = want.astype("float32").nested()
            raise script.failure(f"wrong second derivative by {leaves[i][0]}", f"second[{i}].tolist()", have, near)


def _second_differences(record: Record, sample: Sample) -> list[Array]:
    """By each element, of the slope along the direction in which every element grows alike."""
    wide = sample.replaced(lambda a: a.astype("float64") if a.dtype in FLOATS else a)
    arrays = [a for a in wide.arrays() if a.role == "element" and a.dtype in FLOATS]
    starts = [list(a.data) for a in arrays]

    def value(along: float, k: int, i: int, step: float) -> float:
        for array, start in zip(arrays, starts, strict=True):
            array.data[:] = [v + along for v in start]
        arrays[k].data[i] += step
        return _weighed(record.reference(*wide.operands, **wide.meta).data)

    h = _SECOND_STEP
    out = []
    for k, array in enumerate(arrays):
        corners = [[value(a, k, i, b) for a, b in ((h, h), (h, -h), (-h, h), (-h, -h))] for i in range(len(array.data))]
        out.append(Array("float64", array.shape, [(p - q - r + s) / (4 * h * h) for p, q, r, s in corners]))
    return out


def _flat(values: list[Any]) -> bool:
    return all(isinstance(v, float) for v in values)


def without(
    target: Target, script: Script, error: BaseException, dtype: str, tags: set[str], result: Array | None = None
) -> Exception:
    """What an error on the way to a gradient of a result means; it says which operator is missing."""
    name = missing(error)
    lack = target.lack(script.operator, dtype, tags if name is None else {"gradient"})
    own = lack is not None and lack[0] == f"{script.operator}.gradient"
    if name not in (None, script.operator) and not own:
        lack = target.lack(str(name), dtype, set()) or lack
    if lack is not None and isinstance(error, TripointError) and (lack[0] != "*" or name is not None):
        return Unsupported(lack[1] if name in (None, script.operator) else f"needs {name}: {lack[1]}", lack[0])
    if name is not None and target.said.lacks is None:
        word = "the minimal operator" if name in minimal() else "the operator"
        return Unsupported(f"needs {word} {name}, which has no kernel here")
    if isinstance(error, TripointError) and not isinstance(error, PluginError):
        beyond = target.beyond(result) if result is not None else None
        beyond = beyond or (part_beyond(target, script) if name is None else None)
        if beyond is not None:
            return Unsupported(beyond)
    return script.raised(error, "gradients")


# Layers and what the engine promises --------------------------------------------------------------------------------


def _shape(target: Target, count: int) -> tuple[int, ...]:
    """A shape of so many elements along one axis, with as many axes as the backend wants."""
    low = target.said.ranks[0]
    return (count,) if low <= 1 else (1, count, *(1,) * (low - 2))


def _x(target: Target, dtype: str, *data: float) -> str:
    return target.written(Array(dtype, _shape(target, len(data)), data))


def _expect(target: Target, script: Script, dtype: str, got: str, wanted: list[float], what: str) -> None:
    want = nest(_shape(target, len(wanted)), wanted)
    try:
        names = script.run()
        have = eval(got, names)
    except Exception as error:
        raise without(target, script, error, dtype, {"gradient"}) from None
    if not agree(have, want, 64 * EPS[dtype]):
        raise script.failure(what, got, have, want)


def second_order(target: Target, dtype: str) -> None:
    """The second derivative of x**3 written as a product is 6 x."""
    script = Script("second order", target.label(dtype)).add(
        f"x = {_x(target, dtype, 1.0, -2.0, 0.5)}.requires_grad_()",
        "g = tp.gradients((x * x * x).sum(), [x], create_graph=True)[0]",
        "out = tp.gradients(g.sum(), [x])[0]",
    )
    _expect(target, script, dtype, "out.tolist()", [6.0, -12.0, 3.0], "wrong second derivative")


def accumulates(target: Target, dtype: str) -> None:
    """Two backward passes add up in ``.grad``, and no_grad records nothing."""
    script = Script("accumulation", target.label(dtype)).add(
        f"x = {_x(target, dtype, 1.0, 2.0)}.requires_grad_()",
        "(x * x).sum().backward()",
        "(x * 3).sum().backward()",
        "with tp.no_grad():",
        "    quiet = x * x",
    )
    _expect(target, script, dtype, "x.grad.tolist()", [5.0, 7.0], "gradients do not add up")
    if script.names["quiet"].requires_grad:
        raise script.failure("recorded under no_grad", "quiet.requires_grad", True, False)


def in_a_layer(target: Target, dtype: str) -> None:
    """A layer that passes every call on sees the calls, and changes neither the value nor the gradient."""
    script = Script("layer", target.label(dtype)).add(
        "from tripoint.plugin import Layer",
        "class Seen(Layer, below='trace'):",
        "    def __call__(self, op, call_next, args, meta):",
        "        names.append(op.name); return call_next(args, meta)",
        "names = []",
        f"x = {_x(target, dtype, 1.0, -2.0)}.requires_grad_()",
        "with Seen():",
        "    (x * x).sum().backward()",
    )
    _expect(target, script, dtype, "x.grad.tolist()", [2.0, -4.0], "wrong gradient under a layer")
    if "multiply" not in script.names["names"]:
        raise script.failure("the layer did not see the call", "names", script.names["names"], ["multiply", "sum"])


def stale_version(target: Target, dtype: str) -> None:
    """A saved operand that was changed through another name for its memory is noticed before a wrong gradient is made."""
    if not (target.mutation and target.views):
        raise Unsupported("nothing here can be written through an alias")
    for alias in ("x.detach()", "tp.reshape(x.detach(), (2, 1))", "x.detach()[0:1]"):
        script = Script("version", target.label(dtype)).add(
            f"x = {_x(target, dtype, 1.0, 2.0)}.requires_grad_()",
            f"alias = {alias}",
            "out = (x * x).sum()",
            'operators()["assign_"](alias, 5)',
        )
        try:
            script.run()
        except Exception as error:
            raise without(target, script, error, dtype, {"gradient"}) from None
        script.add("out.backward()")
        try:
            script.run()
        except TripointError as error:
            if type(error).__name__ == "AutogradError":
                continue
            raise without(target, script, error, dtype, {"gradient"}) from None
        raise script.refusal(None, "AutogradError")


def views_of_recorded(target: Target, dtype: str) -> None:
    """A recorded value written into a part of a tensor sends its gradient there, and a view made before follows."""
    if not (target.mutation and target.views):
        raise Unsupported("nothing here can be written through a view")
    script = Script("recorded write", target.label(dtype)).add(
        f"w = {_x(target, dtype, 1.0, 2.0, 3.0)}.requires_grad_()",
        "y = w * 2",
        "first = y[:1]",
        'operators()["add_"](y, w)',
        "first.sum().backward()",
    )
    _expect(target, script, dtype, "w.grad.tolist()", [3.0, 0.0, 0.0], "a view does not follow its base")


def operands_kept(target: Target, dtype: str) -> None:
    """What is saved for backward stays what it is when the tensors are gone and others are made where they were."""
    script = Script("lifetimes", target.label(dtype)).add(
        f"x = {_x(target, dtype, 1.0, 2.0)}.requires_grad_()",
        "h = x * x",
        "out = (h * h).sum()",
        "del h",
        f"others = [{_x(target, dtype, 7.0, 7.0)} for _ in range(8)]",
        "out.backward()",
    )
    _expect(
        target, script, dtype, "x.grad.tolist()", [4.0, 32.0], "what was saved for backward is used for other tensors"
    )


def mixed(target: Target, dtype: str) -> None:
    """A product with a tensor of another dtype has the gradients of both; beside an opaque dtype that is a plain one."""
    other = dtype if target.opaque else next((d for d in FLOATS if d != dtype and d in target.dtypes), None)
    if other is None:
        raise Unsupported("no other dtype here has gradients")
    y = Array(other, _shape(target, 2), [0.5, 4.0], role="weight" if target.opaque else "element")
    script = Script("mixed dtypes", target.label(dtype)).add(
        f"x = {_x(target, dtype, 1.0, -2.0)}.requires_grad_()",
        f"y = {target.written(y)}.requires_grad_()",
        "(x * y).sum().backward()",
    )
    for got, wanted in (("x.grad", [0.5, 4.0]), ("y.grad", [1.0, -2.0])):
        _expect(target, script, dtype, f"{got}.tolist()", wanted, "wrong gradient of a product of two dtypes")


PROMISES: dict[str, Callable[[Target, str], None]] = {
    "accumulation": accumulates,
    "second order": second_order,
    "layer": in_a_layer,
    "version": stale_version,
    "recorded write": views_of_recorded,
    "lifetimes": operands_kept,
    "mixed dtypes": mixed,
}
