"""Walking a call without running it.

Operands are replaced by tensors of the same keys that carry a shape and nothing else. The parts of a decomposition are
found by its own body, called with such tensors in a scope in which one layer answers every call.

`explain` reads all that a walk meets; coverage walks in a manner of its own, since it asks for no hardware and only whether
the walk comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

from tripoint.dispatcher.calls import operand_keys, resolved
from tripoint.dispatcher.layer import Layer, modes_below
from tripoint.dispatcher.outcome import bound, taken_shape
from tripoint.dispatcher.plan import build
from tripoint.dispatcher.refusals import argument_names
from tripoint.dispatcher.resolve import Resolution
from tripoint.errors import ArgumentError, NoKernelError, TripointError, kind_of, told
from tripoint.explanation.data import Explanation
from tripoint.explanation.reading import origin_of_parts, read, source
from tripoint.kernels import find_point, row_of
from tripoint.keys import Key
from tripoint.modes import current, get_mode
from tripoint.schema import KEYWORD_ONLY, Row
from tripoint.storage import Alias, View, chain_of
from tripoint.tensor import Tensor, wrap

Values = list[Any]
Metas = tuple[Any, ...]


def explain(operator: Callable[..., Any], *args: Any, **meta: Any) -> Explanation:
    """Explain the call ``operator(*args, **meta)`` in the mode in force. Nothing is run.

    What the call would raise is part of the explanation.

    Raises:
        ArgumentError: arguments that the signature does not take.
        RegistrationError: ``operator`` is no operator.
    """
    row = row_of(operator)
    try:
        given = signature(row.body).bind(*args, **meta)
    except TypeError as error:
        raise ArgumentError(f"{row.signature()}: {error}") from None
    given.apply_defaults()
    values = [given.arguments[p.name] for p in row.params]
    count = len(row.operands)
    out = walk(row, [_bare(v) for v in values[:count]], tuple(values[count:]), EXPLAINED)[0]
    flat: Values = []
    for value in values[:count]:
        flat += value if isinstance(value, (list, tuple)) else [value]
    for i, (argument, value) in enumerate(zip(out.arguments, flat, strict=False)):
        if isinstance(value, Tensor):
            known = replace(argument, parts=origin_of_parts(value))
            out.arguments = (*out.arguments[:i], known, *out.arguments[i + 1 :])
    return out


# Tensors without memory ----------------------------------------------------------------------------------------------


class Shape:
    """A payload that is a shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def stand_in(key: Key, shape: tuple[int, ...]) -> Tensor:
    """A tensor of a key and a shape, and no elements."""
    out = wrap(key, Shape(shape))
    if key.view:  # of a base that nobody writes, so that nobody derives it again
        view = out._alias = View()
        view.record, view.base, view.meta, view.seen = Alias(), wrap(key.without("view"), out._payload), (), 0
        view.record.version = 0
    return out


def _bare(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_bare(v) for v in value]
    if not isinstance(value, Tensor):
        return value
    views = [t._alias for t in chain_of(value) if isinstance(t._alias, View)]
    # A stale view would first be derived again from its base, and be recorded then.
    stale = any(v.seen != v.record.version and v.base._key.autograd for v in views)
    return stand_in(value._key.recorded if stale else value._key, value.shape)


def _moved(values: Values, keys: tuple[Key, ...]) -> Values:
    """The operands on other keys, one after the other."""
    flat = iter(keys)

    def move(value: Any) -> Any:
        if isinstance(value, list):
            return [move(v) for v in value]
        key = next(flat)
        return stand_in(key, value.shape) if isinstance(value, Tensor) else value

    return [move(v) for v in values]


# The walk ------------------------------------------------------------------------------------------------------------


class _Unknown(Exception):
    """A body asks for what only values tell."""


class Manner(NamedTuple):
    """How each call of a walk is settled, and what is read off it.

    Attributes:
        settle: from a Resolution that holds no more than the call, the operands, the metadata and what of it is keyed, to the
            Resolution of the call; raises what the call would raise.
        read: puts what a Resolution says, complete or not, and the plan, if there is one, into an explanation.
    """

    settle: Callable[[Resolution, Values, Metas, dict[str, Any]], Resolution]
    read: Callable[[Explanation, Resolution, dict[str, Any], Callable[..., Any] | None], None]


def _read(out: Explanation, res: Resolution, keyed: dict[str, Any], plan: Callable[..., Any] | None) -> None:
    read(out, res, keyed)
    out.plan = source(plan) if plan is not None else ()


EXPLAINED = Manner(resolved, _read)


class _Walker(Layer):
    """Answers every call in its scope with a tensor of the key and the shape of the result, and writes the call down."""

    floor = float("-inf")

    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self.parts: list[Explanation] = []

    def answer(self, row: Row, values: Values, metas: Metas) -> Any:
        """Walk the call in the mode without this layer; raise what it would raise."""
        token = current.set(self.beneath(get_mode()))
        try:
            part, out = walk(row, values, metas, self.manner)
        finally:
            current.reset(token)
        self.parts.append(part)
        if part.error is not None:
            raise part.error
        if out is None:
            raise _Unknown(part.unknown or f"{row.name} gives values")
        return out


def walk(row: Row, values: Values, metas: Metas, manner: Manner) -> tuple[Explanation, Any]:
    """The explanation of one call, and a tensor in place of its result, ``None`` where that is not known."""
    walker, out = _Walker(manner), _begun(row)
    res: Resolution | None = None
    plan: Callable[..., Any] | None = None
    keyed = {p.name: v for p, v in zip(row.metas, metas, strict=True) if p.name in row.keyed}
    try:
        with walker:  # under which an array of another library becomes a tensor
            values, _, keys, slots = operand_keys(row, tuple(values))
        res = Resolution(row, get_mode(), keys, slots)
        res = manner.settle(res, values, metas, keyed)
        plan = build(res)  # which finds what makes casts and scalars
        everything = bound(row, (*values, *metas))
    except TripointError as error:
        out.error = error
    except _Unknown as error:
        out.unknown = str(error)
    out.parts = walker.parts
    if res is not None:
        manner.read(out, res, keyed, plan)
    if walker.parts:
        out.steps = ("what is no tensor becomes one first:", *out.steps)
    if res is None or out.error is not None or out.unknown:
        return out, None
    return out, _result(out, res, list(everything[: len(values)]), everything[len(values) :], keyed, manner)


def _begun(row: Row) -> Explanation:
    said = f"{row.signature()}{', a composite' if row.composite else ''}"
    return Explanation(row.name, said, f"{row.package}, {row.origin}")


def _result(
    out: Explanation, res: Resolution, values: Values, metas: Metas, keyed: dict[str, Any], manner: Manner
) -> Any:
    """A tensor in place of the result; what is beneath is walked on the way."""
    row, made, inner = res.row, None, res.inner
    try:
        if res.how == "decomposition":
            made = _decomposed(out, res, values, metas, manner)
        elif inner is not None:
            part = _begun(inner.row)
            manner.read(part, inner, keyed, None)
            out.parts.append(part)
            made = _result(part, inner, _moved(values, inner.keys), metas, keyed, manner)
            out.error, out.unknown = part.error, part.unknown
            if isinstance(made, Tensor) and res.out is not None:
                made = stand_in(res.out, made.shape)
        elif row.returns == "tensor" and res.how != "identity":
            shape, key = taken_shape(row, res.kernel, res.out, (*values, *metas)), res.out
            if shape is None or key is None:
                out.unknown = f"the shape of what {row.name} gives depends on values"
            elif (point := find_point(key)) is not None and not point.holds(key.dtype, len(shape)):
                out.unknown = (
                    f"{point.origin.provider} declares no tensors of {key.dtype} and {len(shape)} axes on {key.base}"
                )
            else:
                viewed = (
                    row.aliases == "always" and key.layout.views and not (res.point is not None and res.point.frozen)
                )
                made = stand_in(key.with_parts("view") if viewed else key, shape)
    except TripointError as error:
        out.error, made = error, None
    if res.how == "identity" or (row.mutates is not None and made is not None):
        made = values[0]
    elif isinstance(made, Tensor) and any(layer.name == "autograd" for layer in res.layers):
        made = stand_in(made._key.recorded, made.shape) if made.dtype.gradient is not None else made
    if isinstance(made, Tensor):
        out.result, out.shape = str(made._key), made.shape
        if made._key.parts and res.how != "identity" and row.mutates is None:
            out.gave.update(_parts_given(res, made._key))
    return made


def _parts_given(res: Resolution, key: Key) -> dict[str, str]:
    """For each part of the result's key, what gave it."""
    first = res.row.operands[0].name
    wanted = [n for n, k in zip(argument_names(res, len(res.keys)), res.keys, strict=True) if k.autograd]
    recorded = any(layer.name == "autograd" for layer in res.layers)
    gave = {
        "autograd": f"by the layer autograd, for {', '.join(wanted[:3])}" if recorded else "by the parts",
        "view": f"a view of {first}" if res.how != "decomposition" else "by the parts",
    }
    return {part: gave[part] for part in sorted(key.parts)}


def _decomposed(out: Explanation, res: Resolution, values: Values, metas: Metas, manner: Manner) -> Any:
    """Call the body of a composite where a layer answers every call in it."""
    row, walker = res.row, _Walker(manner)
    mode = modes_below(res.mode, res.layers)[-1] if res.layers else res.mode
    if res.mode.grad and not mode.grad:  # it is recorded as one node, and nothing beneath is
        values = _moved(values, tuple(k.base if k.is_tensor else k for k in res.keys))
    given = [m for m, p in zip(metas, row.metas, strict=True) if p.kind != KEYWORD_ONLY]
    words = {p.name: m for m, p in zip(metas, row.metas, strict=True) if p.kind == KEYWORD_ONLY}
    token = current.set(mode)
    try:
        with walker:
            return row.body(*values, *given, **words)
    except NoKernelError as error:
        error.chain.append(row.name)
        raise
    except TripointError:
        raise
    except _Unknown as error:
        out.unknown = str(error)
    except Exception as error:
        out.unknown = (
            f"{kind_of(error)} in the body of {row.name}, which meets no values here: {told(error) or 'no text'}"
        )
    finally:
        current.reset(token)
        out.parts += walker.parts
    return None
