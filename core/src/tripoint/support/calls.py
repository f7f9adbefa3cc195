"""One cell: the call of an operator whose tensors stand on one point, settled on keys by the dispatcher's own resolution.

No hardware is asked for, so that a machine without a device can tell what its plugin covers, and no plugin is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from tripoint import kernels, plugins
from tripoint.devices import cpu
from tripoint.dispatcher.plan import build
from tripoint.dispatcher.resolve import Resolution, between, edge, find_target, kernel_for, path, resolve
from tripoint.dtypes import DType, bool_, float32, float64, int64
from tripoint.errors import (
    ArgumentError,
    DTypeError,
    IndexingError,
    LayoutError,
    NoKernelError,
    PluginError,
    ShapeError,
    clipped,
    said,
)
from tripoint.explanation.data import Explanation
from tripoint.explanation.walk import Manner, stand_in, walk
from tripoint.kernels import Kernel
from tripoint.keys import ABSENT, Key, intern
from tripoint.layouts import strided
from tripoint.modes import Mode, current
from tripoint.schema import REQUIRED, Row, rows
from tripoint.support.table import Cell

__all__ = ["cell_of"]

#: operands that hold no values of the point's dtype, by name.
OTHERS: dict[str, DType] = {"indices": int64, "labels": int64, "condition": bool_}
#: shapes that a sample call is tried with, one after the other; positions and labels have one axis.
SHAPES: tuple[tuple[int, ...], ...] = ((2, 2), (2,), (), (1, 1, 2, 2))
#: metadata of a sample call, by name; everything else is left at its default.
METADATA: dict[str, Any] = {"axis": 0, "shape": (2, 2), "key": 0, "fill_value": 1, "min": 0, "max": 1, "classes": 2}


class _NotLoaded(PluginError):
    """The call would load a plugin."""


def cell_of(row: Row, key: Key, mode: Mode) -> Cell:
    """The cell of an operator on a point."""
    first: Cell | None = None
    for keys, slots in _arrangements(row, key):
        cell = _settled(row, key, keys, slots, mode)
        if cell.verdict != "none":
            left_out = [row.operands[s].name for k, s in zip(keys, slots, strict=True) if k is ABSENT]
            return replace(cell, note=_joined(f"without {', '.join(left_out)}" if left_out else "", cell.note))
        first = first or cell
    assert first is not None
    return first


def _arrangements(row: Row, key: Key) -> Iterator[tuple[tuple[Key, ...], tuple[int, ...]]]:
    """The operands' keys that stand for a point, in the order in which they are tried."""
    beside = any(p.name in OTHERS for p in row.operands)
    optional = any(p.role == "optional" for p in row.operands)
    for layout in (key.layout, strided) if beside and key.layout is not strided else (key.layout,):
        for there in (True, False) if optional else (True,):
            flat: list[Key] = []
            slots: list[int] = []
            for i, p in enumerate(row.operands):
                dtype = OTHERS.get(p.name)
                mine = key if dtype is None else intern(key.device, layout, dtype)
                several = [mine, mine] if p.role == "variadic" else [mine if there or p.role != "optional" else ABSENT]
                flat += several
                slots += [i] * len(several)
            yield tuple(flat), tuple(slots)
    if row.target and row.operands and not key.dtype.is_plain:  # the way into an opaque dtype
        yield (key.replace(dtype=key.dtype.plain),) * len(row.operands), tuple(range(len(row.operands)))


def _keyed(row: Row, key: Key) -> dict[str, Any]:
    """The metadata that changes the key: the point itself is asked for; conversions lead to the next plainer point."""
    asked: dict[str, Any] = {"device": key.device, "layout": key.layout, "dtype": key.dtype, "copy": True}
    if row.kind == "convert":
        if not key.dtype.is_plain:
            asked["dtype"] = key.dtype.plain
        elif row.name == "astype":
            asked["dtype"] = float64 if key.dtype is float32 else float32
        elif key.layout is not strided:
            asked["layout"] = strided
        else:
            asked["device"] = cpu
    targets = (*row.target, "copy") if row.target else ()
    return {p.name: asked[p.name] if p.name in targets else p.default for p in row.metas if p.name in row.keyed}


def _settled(row: Row, key: Key, keys: tuple[Key, ...], slots: tuple[int, ...], mode: Mode) -> Cell:
    axes = (row.name, key.device.type, key.layout.name, key.dtype.name)
    keyed = _keyed(row, key)
    try:
        res = _settle(Resolution(row, mode, keys, slots), [], (), keyed)
        build(res)
    except _NotLoaded as error:
        return Cell(*axes, "not loaded", note=str(error))
    except Exception as error:  # of a plugin's rule or hook too, which must not cost the rest of the table
        return Cell(*axes, "none", note=_said(error), taken=not isinstance(error, DTypeError))
    verdict, kernel, note = _read(res)
    origin = kernel.origin if kernel is not None else None
    made = (origin.function, origin.provider, origin.where) if origin is not None else ("", "", "")
    if _wants_elements(row, res) and not _has_elements(key):
        return Cell(
            *axes, "none", note=_joined(note, f"a tensor on {key.device.type}.{key.layout.name} has no elements")
        )
    limit = kernel.limit if kernel is not None else ""
    if not limit and not _decomposes(res):
        return Cell(*axes, verdict, *made, note=note)
    walked = _walked(row, keys, slots, mode, keyed)
    if walked.end in ("none", "not loaded"):
        return Cell(*axes, walked.end, note=walked.said, taken=walked.taken)
    if limit:
        return Cell(*axes, verdict, *made, note=note, limit=limit)
    whole = walked.end == "walked"
    return Cell(*axes, verdict, *made, note=_joined(note, walked.said), walked=whole, limit=walked.limit)


def _joined(*said: str) -> str:
    return "; ".join(s for s in said if s)


def _wants_elements(row: Row, res: Resolution) -> bool:
    """Whether a call reads what its first operand holds, to bring it out of the world of tensors or to another device."""
    return row.returns != "tensor" or (
        res.how == "convert" and res.out is not None and res.out.device != res.keys[0].device
    )


def _has_elements(key: Key) -> bool:
    point = kernels.find_point(key)
    return point is None or getattr(point.capabilities, "elements", True)


def _read(res: Resolution) -> tuple[str, Kernel | None, str]:
    """Verdict, kernel and note of a Resolution."""
    if res.how == "inplace" and res.kernel is None and res.inner is not None:
        verdict, kernel, note = _read(res.inner)
        bound_anew = res.point is not None and res.point.frozen
        return verdict, kernel, note or f"the functional form, then {'binding' if bound_anew else 'assign_'}"
    if res.how == "convert":
        return "kernel", res.steps[-1][0], "to " + " > ".join(str(k) for _, k in res.steps)
    if res.how in ("hooks", "fallback") and res.inner is not None:
        _, kernel, _ = _read(res.inner)
        through = "strided tensors" if res.how == "hooks" else str(res.mode.fallback)
        return res.how, kernel, f"through {through}"
    return ("decomposition" if res.how == "decomposition" else "kernel"), res.kernel, ""


def _decomposes(res: Resolution) -> bool:
    return res.how == "decomposition" or (res.inner is not None and _decomposes(res.inner))


def _said(error: Exception) -> str:
    if isinstance(error, NoKernelError):
        points = ", ".join(point for _, point in error.points)
        return clipped(f"no kernel for {error.operator} on {points}", 200)
    return clipped(said(error), 200)


# Settling ------------------------------------------------------------------------------------------------------------


def _settle(start: Resolution, values: list[Any], metas: tuple[Any, ...], keyed: dict[str, Any]) -> Resolution:
    """As `tripoint.dispatcher.resolve.resolve`, but hardware is not asked for and nothing is loaded."""
    row, keys = start.row, start.keys
    if not row.target:
        _refuse_loading(keys)
        return resolve(row, start.mode, keys, start.slots, keyed, start)
    first = next((k for k in keys if k.is_tensor), None)
    target, spec = find_target(row, start.mode, first, keyed)
    _refuse_loading((*keys, target))
    if row.kind == "convert" and first is not None:
        same = first.base is target
        one = kernel_for(rows["copy"], (first.base,)) if same else edge(first.base, target, spec)
        if one is None:  # which leads by way of others
            _refuse_loading(between(first.base, target))
        steps = ((one, target),) if one is not None else path(first.base, target, spec)
        start.steps, start.how = steps or (), "convert"
        start.kernel = start.steps[0][0] if len(start.steps) == 1 else None
    else:
        start.kernel, start.how = kernel_for(row, (*(k.base for k in keys), target)), "kernel"
    if start.kernel is None and row.composite:
        start.how = "decomposition"
    elif start.kernel is None and not start.steps:
        start.how = ""
        return resolve(row, start.mode, keys, start.slots, keyed, start)  # which words the refusal
    start.target, start.spec, start.out, start.point = target, spec, target, kernels.find_point(target)
    return start


def _refuse_loading(keys: Iterable[Key]) -> None:
    """Stop where the dispatcher would load a plugin."""
    tensors = [k.base for k in keys if k.is_tensor]
    for plugin in plugins.found().values():
        if plugin.wants(plugins.BACKENDS) and plugin.concerns(tensors):
            raise _NotLoaded(f"{plugin.name}, which takes part, is not loaded")


# Walking a decomposition ---------------------------------------------------------------------------------------------


def _note(out: Explanation, res: Resolution, keyed: dict[str, Any], plan: Callable[..., Any] | None) -> None:
    out.resolution, out.how = res, res.how if out.error is None else ""


MANNER = Manner(_settle, _note)


class _Walk(NamedTuple):
    """How the walk of a call ends (``walked``, ``not walked``, ``none`` or ``not loaded``), what to say of it, whether the
    operator takes the dtype, and what the kernels on the way take of shapes.
    """

    end: str
    said: str
    taken: bool = True
    limit: str = ""


def _walked(row: Row, keys: tuple[Key, ...], slots: tuple[int, ...], mode: Mode, keyed: dict[str, Any]) -> _Walk:
    """The walk of a call whose kernels may refuse shapes, or of a decomposition, by sample calls one after the other."""
    unknown = [p.name for p in row.metas if p.default is REQUIRED and p.name not in METADATA]
    if unknown:
        return _Walk("not walked", f"not walked: it depends on {', '.join(unknown)}")
    asked = {name: keyed[name] for name in row.target}
    metas = tuple({**METADATA, **asked}.get(p.name, p.default) for p in row.metas)
    why, limits, refusal = "no sample call is known", dict[str, None](), None
    for shape in SHAPES:
        token = current.set(mode)
        try:
            out, _ = walk(row, _values(row, keys, slots, shape), metas, MANNER)
        except Exception as error:  # of a rule that no walk can take
            why = _said(error)
            continue
        finally:
            current.reset(token)
        limits |= dict.fromkeys(_limits(out))
        refused = out.error
        if isinstance(refused, (ShapeError, ArgumentError, IndexingError)) or (
            limits and isinstance(refused, LayoutError)
        ):
            refusal = refusal or (refused if limits else None)
            continue  # a sample call of other shapes may be one that is taken
        if isinstance(refused, _NotLoaded):
            return _Walk("not loaded", str(refused))
        if refused is not None:
            return _Walk("none", _said(refused), not isinstance(refused, DTypeError))
        if not out.unknown:
            return _Walk("walked", f"parts: {', '.join(dict.fromkeys(_parts(out)))}", True, "; ".join(limits))
        why = out.unknown
    return _Walk("none", _said(refusal)) if refusal is not None else _Walk("not walked", f"not walked: {why}")


def _limits(out: Explanation) -> Iterator[str]:
    """What the kernels of a walk take of shapes, as text."""
    kernel = out.resolution.kernel if out.resolution is not None else None
    if kernel is not None and kernel.limit:
        yield f"{out.operator}: {kernel.limit}"
    for part in out.parts:
        yield from _limits(part)


def _values(row: Row, keys: tuple[Key, ...], slots: tuple[int, ...], shape: tuple[int, ...]) -> list[Any]:
    out: list[Any] = []
    for i, p in enumerate(row.operands):
        mine = [k for k, s in zip(keys, slots, strict=True) if s == i]
        own = (2,) if (p.name in OTHERS or p.role == "optional") and shape else shape
        made = [stand_in(k, own) if k.is_tensor else None for k in mine]
        out.append(made if p.role == "variadic" else made[0])
    return out


def _parts(out: Explanation) -> Iterator[str]:
    """Names of the parts, in place of one that has parts itself these."""
    for part in out.parts:
        if part.how in ("decomposition", "hooks", "fallback", "inplace") and part.parts:
            yield from _parts(part)
        else:
            yield part.operator
