"""The routes that a call tries in order, why it left each, and who could help: for errors and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tripoint import kernels, plugins

if TYPE_CHECKING:
    from tripoint.dispatcher.resolve import Resolution
    from tripoint.keys import Key

Routes = tuple[tuple[str, str], ...]


def routes(res: Resolution, refused: tuple[str, ...] = ()) -> Routes:
    """Kernel, hooks, decomposition, fallback: for each in front of the one taken, why it is not; all four if none is.

    Args:
        refused: what the fallback policy in force met.
    """
    said = (
        ("kernel", _no_kernel),
        ("hooks", _no_hooks),
        ("decomposition", _no_decomposition),
        ("fallback", lambda res: refused[0] if refused else _no_fallback(res)),
    )
    out = []
    for route, why in said:
        if res.how == route or (route == "kernel" and res.kernel is not None):
            break
        out.append((route, why(res)))
    return tuple(out)


def _no_kernel(res: Resolution) -> str:
    if res.parts:
        return "gradients are wanted of its parts, so none is asked"
    there, taking = len(kernels.kernels.get(res.row.name, ())), len(res.candidates)
    if not taking:
        return f"{there} registered, none takes part" if there else "none is registered"
    return f"{taking} take{'s' * (taking == 1)} part, none fits"


def _no_hooks(res: Resolution) -> str:
    row, tensors = res.row, [k for k in res.keys if k.is_tensor]
    if row.mutates is not None or row.returns != "tensor":
        return "they serve operators that give a new tensor"
    if not tensors:
        return "there is no operand"
    points = [kernels.find_point(k) for k in tensors]
    if any(p is not None and p.cheap for p in points):
        return "they are cheap here, and there is no kernel behind them"
    named = dict.fromkeys(
        (k.layout.name if k.layout.name != "strided" else k.dtype.name)
        for k in tensors
        if k.layout.name != "strided" or not k.dtype.is_plain
    )
    if not named:
        return "every operand is strided and plain"
    return f"{' and '.join(named)} {'declares' if len(named) == 1 else 'declare'} no cheap way through strided"


def _no_decomposition(res: Resolution) -> str:
    functional = res.row.functional
    if functional is not None and res.inner is not None and res.inner.out is not None:
        return f"{functional.name} would do, and assign_ write what it gives: that has no kernel on {res.keys[0].base}"
    if functional is None or not functional.composite:
        return f"{res.row.name} is a primitive, without one"
    return f"that of {functional.name} gives a tensor of its own, and writes into none"


def _no_fallback(res: Resolution) -> str:
    if res.mode.fallback == "error":
        return "not permitted"
    return "it would lead to the points where the call is"


def helpers(keys: tuple[Key, ...]) -> tuple[tuple[str, str], ...]:
    """Distributions that would let a call on these keys go through, each with what to do, as text."""
    said: dict[tuple[str, str], None] = {}
    for key in keys:
        if not key.is_tensor:
            continue
        for name in (key.device.type, key.layout.name, key.dtype.name):
            who = plugins.FIRST_PARTY.get(name)
            if who is not None and who not in plugins.found():
                said[who, plugins.installing(who)] = None
        for plugin in plugins.found().values():
            name = plugin.name
            if plugin.state in ("blocked", "broken") and plugin.owns(key):
                said[name, f"{name}, which provides {key}, is {plugin.state}; tripoint.plugins.report() says why"] = (
                    None
                )
            elif name not in plugins.preferred and plugin.offers(key):
                said[name, f"{name} offers kernels for {key}: tripoint.plugins.prefer({name!r})"] = None
    return tuple(said)
