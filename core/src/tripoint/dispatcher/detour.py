"""Where a call goes that its own point has no kernel for, in a scope that permits it: elsewhere and back, counted."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from time import perf_counter
from typing import Any

from tripoint.dispatcher.resolve import Resolution, path
from tripoint.dispatcher.steps import step
from tripoint.errors import AliasError, NoKernelError
from tripoint.keys import Key
from tripoint.modes import fell_back
from tripoint.storage import View
from tripoint.tensor import Tensor, wrap

Plan = Callable[..., Any]


def fallen(res: Resolution, inner: Plan) -> Plan:
    """A plan that takes the operands to the fallback's points, runs ``inner`` there, and brings the result back.

    The result comes back to the device of the operands, or to the point that the call asks for; it stays strided and of a
    plain dtype otherwise.
    """
    row, count, dense = res.row, len(res.row.operands), res.inner
    assert dense is not None
    forbids = forbidding(res)
    into = [_way(k, d) if k.is_tensor else None for k, d in zip(res.keys, dense.keys, strict=True)]
    home = next((k.device for k in res.keys if k.is_tensor), None)
    back: dict[Key, Callable[[Any], Any] | None] = {}

    def plan(*values: Any) -> Any:
        forbids(values)
        start, moved = perf_counter(), 0
        flat: list[Any] = []
        for p, value in zip(row.operands, values[:count], strict=True):
            flat += value if p.role == "variadic" else [value]
        made: list[Any] = []
        for value, way, key in zip(flat, into, dense.keys, strict=True):
            if way is not None:
                value = wrap(key, way(value._payload))
                moved += _nbytes(value)
            made.append(value)
        args, at = [], 0
        for p, value in zip(row.operands, values[:count], strict=True):
            several = p.role == "variadic"
            args.append(made[at : at + len(value)] if several else made[at])
            at += len(value) if several else 1
        out = inner(*args, *values[count:])
        if isinstance(out, Tensor):
            view = out._alias
            if isinstance(view, View) and not any(view.base is v for v in flat):
                out._key, out._alias = (
                    out._key.base,
                    None,
                )  # of what was brought here, which is nobody's but the result's
            here = out._key
            if here not in back:
                there = (
                    res.target if res.target is not None else here.replace(device=home) if home is not None else here
                )
                back[here] = _way(here, there)
            way = back[here]
            if way is not None:
                moved += _nbytes(out)
                there = res.target if res.target is not None else here.replace(device=home)
                out = wrap(there, way(out._payload))
        fell_back(row.name, res.keys[0].base.name if res.keys else str(res.target), moved, perf_counter() - start)
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


def _way(source: Key, target: Key) -> Callable[[Any], Any] | None:
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
