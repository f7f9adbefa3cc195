"""Walking a call without running it.

Operands are replaced by tensors of the same keys that carry a shape and nothing else. The parts of a decomposition are
found by its own body, called with such tensors in a scope in which one layer answers every call.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from tripoint.dispatcher.calls import operand_keys, resolved
from tripoint.dispatcher.layer import Layer, modes_below
from tripoint.dispatcher.plan import bound, build, expected_shape
from tripoint.dispatcher.resolve import Resolution
from tripoint.errors import ArgumentError, NoKernelError, TripointError
from tripoint.explanation.data import Explanation
from tripoint.explanation.reading import read
from tripoint.kernels import row_of
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
    return _walk(row, [_bare(v) for v in values[:count]], tuple(values[count:]))[0]


# Tensors without memory ----------------------------------------------------------------------------------------------


class Shape:
    """A payload that is a shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _made(key: Key, shape: tuple[int, ...]) -> Tensor:
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
    return _made(value._key.recorded if stale else value._key, value.shape)


def _moved(values: Values, keys: tuple[Key, ...]) -> Values:
    """The operands on other keys, one after the other."""
    flat = iter(keys)

    def move(value: Any) -> Any:
        if isinstance(value, list):
            return [move(v) for v in value]
        key = next(flat)
        return _made(key, value.shape) if isinstance(value, Tensor) else value

    return [move(v) for v in values]


# The walk ------------------------------------------------------------------------------------------------------------


class _Unknown(Exception):
    """A body asks for what only values tell."""


class _Walker(Layer):
    """Answers every call in its scope with a tensor of the key and the shape of the result, and writes the call down."""

    floor = float("-inf")

    def __init__(self) -> None:
        self.parts: list[Explanation] = []

    def answer(self, row: Row, values: Values, metas: Metas) -> Any:
        """Walk the call in the mode without this layer; raise what it would raise."""
        token = current.set(self.beneath(get_mode()))
        try:
            part, out = _walk(row, values, metas)
        finally:
            current.reset(token)
        self.parts.append(part)
        if part.error is not None:
            raise part.error
        if out is None:
            raise _Unknown(part.unknown or f"{row.name} gives values")
        return out


def _walk(row: Row, values: Values, metas: Metas) -> tuple[Explanation, Any]:
    """The explanation of one call, and a tensor in place of its result, ``None`` where that is not known."""
    walker, out = _Walker(), _begun(row)
    res: Resolution | None = None
    keyed = {p.name: v for p, v in zip(row.metas, metas, strict=True) if p.name in row.keyed}
    try:
        with walker:  # under which an array of another library becomes a tensor
            values, _, keys, slots = operand_keys(row, tuple(values))
        res = Resolution(row, get_mode(), keys, slots)
        res = resolved(res, values, metas, keyed)
        build(res)  # which finds what makes casts and scalars
        everything = bound(row, (*values, *metas))
    except TripointError as error:
        out.error = error
    except _Unknown as error:
        out.unknown = str(error)
    out.parts = walker.parts
    if res is not None:
        read(out, res, keyed)
    if walker.parts:
        out.steps = ("what is no tensor becomes one first:", *out.steps)
    if res is None or out.error is not None or out.unknown:
        return out, None
    return out, _result(out, res, list(everything[: len(values)]), everything[len(values) :], keyed)


def _begun(row: Row) -> Explanation:
    said = f"{row.signature()}{', a composite' if row.composite else ''}"
    return Explanation(row.name, said, f"{row.package}, {row.origin}")


def _result(out: Explanation, res: Resolution, values: Values, metas: Metas, keyed: dict[str, Any]) -> Any:
    """A tensor in place of the result; what is beneath is walked on the way."""
    row, made, inner = res.row, None, res.inner
    try:
        if res.how == "decomposition":
            made = _decomposed(out, res, values, metas)
        elif inner is not None:
            part = _begun(inner.row)
            read(part, inner, keyed)
            out.parts.append(part)
            made = _result(part, inner, _moved(values, inner.keys), metas, keyed)
            out.error, out.unknown = part.error, part.unknown
            if isinstance(made, Tensor) and res.out is not None:
                made = _made(res.out, made.shape)
        elif row.returns == "tensor" and res.how != "identity":
            shape, key = expected_shape(row, (*values, *metas)), res.out
            if shape is None or key is None:
                out.unknown = f"the shape of what {row.name} gives depends on values"
            else:
                viewed = row.aliases == "always" and key.layout.views
                made = _made(key.with_parts("view") if viewed else key, shape)
    except TripointError as error:
        out.error, made = error, None
    if res.how == "identity" or (row.mutates is not None and made is not None):
        made = values[0]
    elif isinstance(made, Tensor) and any(layer.name == "autograd" for layer in res.layers):
        made = _made(made._key.recorded, made.shape) if made.dtype.gradient is not None else made
    if isinstance(made, Tensor):
        out.result, out.shape = str(made._key), made.shape
    return made


def _decomposed(out: Explanation, res: Resolution, values: Values, metas: Metas) -> Any:
    """Call the body of a composite where a layer answers every call in it."""
    row, walker = res.row, _Walker()
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
        out.unknown = f"{type(error).__name__} in the body of {row.name}, which meets no values here: {error}"
    finally:
        current.reset(token)
        out.parts += walker.parts
    return None
