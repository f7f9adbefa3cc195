"""Where a call goes that its own point has no kernel for: through cheap hooks, or, in a scope that permits it, elsewhere.

Both take the operands to other points, run the call there, and bring the result back.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from time import perf_counter
from typing import Any, NoReturn

from tripoint.dispatcher.resolve import Resolution, path
from tripoint.dispatcher.steps import coerced, step
from tripoint.errors import AliasError, NoKernelError, noted
from tripoint.kernels import find_point
from tripoint.keys import Key
from tripoint.modes import fell_back
from tripoint.plugins import outlive
from tripoint.schema import Row
from tripoint.storage import View
from tripoint.tensor import Tensor, wrap

Plan = Callable[..., Any]
Way = Callable[[Any], Any]


def hooked(res: Resolution, inner: Plan) -> Plan:
    """A plan that takes the operands through the hooks of their layouts or dtypes, runs ``inner``, and goes back where the
    layout stays.
    """
    dense = res.inner
    assert dense is not None
    row, count, forbids = res.row, len(res.row.operands), forbidding(res)
    found = [find_point(k) if k.is_tensor else None for k in res.keys]
    into: list[tuple[Way, Key] | None] = []
    for point, key in zip(found, dense.keys, strict=True):
        hook = point.to_strided if point is not None and point.cheap else None
        into.append((coerced(hook, key), key) if hook is not None else None)
    back = res.out if res.out is not None and dense.out is not res.out else None

    def plan(*values: Any) -> Any:
        forbids(values)
        given = _flat(row, values)
        made = [_through(hook, value) if hook is not None else value for hook, value in zip(into, given, strict=True)]
        out = _released(inner(*_grouped(row, values, made), *values[count:]), given)
        return _back(back, out, given) if back is not None else out

    return plan


def _through(hook: tuple[Way, Key], value: Tensor) -> Tensor:
    to_strided, key = hook
    try:
        return wrap(key, to_strided(value._payload))
    except BaseException as error:
        _hook_failed(value._key, "to_strided(p)", error)


def _back(key: Key, out: Tensor, given: list[Any]) -> Tensor:
    # An operand whose shape the result has, if there is one: the layout's parameters may fit no other shape.
    likes = [v._payload for v in given if isinstance(v, Tensor)]
    like = next((p for p in likes if p.shape == out._payload.shape), likes[0])
    return wrap(key, backed(key, out._payload, like))


def backed(key: Key, dense: Any, like: Any) -> Any:
    """A strided payload through the hook of a point, to be read as ``like`` is."""
    point = find_point(key)
    try:
        return point.from_strided(dense, like=like)  # type: ignore[union-attr, misc]
    except BaseException as error:
        _hook_failed(key, "from_strided(dense, like=p)", error)


def _hook_failed(key: Key, hook: str, error: BaseException) -> NoReturn:
    """Raise what becomes of an error of a hook; an exception with a note that names the hook."""
    point = find_point(key)
    try:
        if point is not None and isinstance(error, Exception):
            noted(error, f"raised by {hook} of {key.base}, which {point.origin.provider} provides")
        outlive(point.origin if point is not None else None, f"{hook} of {key.base}", error)
    finally:
        del error  # or this frame and the error hold one another


def fallen(res: Resolution, inner: Plan) -> Plan:
    """A plan that takes the operands to the fallback's points, runs ``inner`` there, and brings the result back.

    The result comes back to the device of the operands, or to the point that the call asks for; it stays strided and of a
    plain dtype otherwise.
    """
    dense = res.inner
    assert dense is not None
    row, count, forbids = res.row, len(res.row.operands), forbidding(res)
    into = [(_way(k, d) if k.is_tensor else None, d) for k, d in zip(res.keys, dense.keys, strict=True)]
    device = next((k.device for k in res.keys if k.is_tensor), None)
    point = next((k.base.name for k, d in zip(res.keys, dense.keys, strict=True) if k is not d), str(res.target))
    back: dict[Key, tuple[Way | None, Key]] = {}

    def home(here: Key) -> tuple[Way | None, Key]:
        found = back.get(here)
        if found is None:
            target = res.target or (here if device is None else here.replace(device=device))
            found = back[here] = (_way(here, target), target)
        return found

    def plan(*values: Any) -> Any:
        forbids(values)
        start = perf_counter()
        given = _flat(row, values)
        made = [wrap(key, way(v._payload)) if way is not None else v for (way, key), v in zip(into, given, strict=True)]
        moved = sum(_nbytes(v) for (way, _), v in zip(into, made, strict=True) if way is not None)
        out = _released(inner(*_grouped(row, values, made), *values[count:]), given)
        if isinstance(out, Tensor):
            way, target = home(out._key)
            if way is not None:
                moved += _nbytes(out)
                out = wrap(target, way(out._payload))
        fell_back(row.name, point, moved, perf_counter() - start)
        return out

    return plan


def forbidding(res: Resolution) -> Callable[[tuple[Any, ...]], None]:
    """A check of a plan's values that refuses ``copy=False`` where the operands take a way that copies them."""
    names = [p.name for p in res.row.metas]
    at = len(res.row.operands) + names.index("copy") if "copy" in names else None

    def check(values: tuple[Any, ...]) -> None:
        if at is not None and values[at] is False:
            raise AliasError(
                f"{res.row.name} of a tensor on {res.keys[0].base} converts it first, which copies, and copy=False forbids it"
            )

    return check


def _flat(row: Row, values: tuple[Any, ...]) -> list[Any]:
    """The operands among the values of a plan, the tensors of a variadic one each by itself."""
    flat: list[Any] = []
    for p, value in zip(row.operands, values, strict=False):
        flat += value if p.role == "variadic" else [value]
    return flat


def _grouped(row: Row, values: tuple[Any, ...], flat: list[Any]) -> list[Any]:
    """The inverse of `_flat`, of operands that took their way: ``values`` says how many belong together."""
    rest = iter(flat)
    return [
        [next(rest) for _ in value] if p.role == "variadic" else next(rest)
        for p, value in zip(row.operands, values, strict=False)
    ]


def _released(out: Any, given: list[Any]) -> Any:
    """The result; a view of what was made on the way is no view to the caller, who never sees its base."""
    view = out._alias if isinstance(out, Tensor) else None
    if isinstance(view, View) and not any(view.base is v for v in given):
        out._key, out._alias = out._key.base, None
    return out


def _way(source: Key, target: Key) -> Way | None:
    """A function of payloads of one point that gives those of another; ``None`` where nothing has to be done.

    Raises:
        NoKernelError: no conversions lead there.
    """
    if source is target:
        return None
    steps = path(source, target)
    if steps is None:
        raise NoKernelError(
            "to", (("x", source.name), ("target", target.name)), help="the fallback's result cannot come back"
        )
    chain = [step(kernel, key, None) for kernel, key in steps]

    def run(p: Any) -> Any:
        for convert in chain:
            p = convert(p)
        return p

    return run


def _nbytes(tensor: Tensor) -> int:
    return int(prod(tensor._payload.shape) * tensor._key.dtype.itemsize)
