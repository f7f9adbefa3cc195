"""The errors of calls that nothing serves: what is missing, what is nearest, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tripoint import kernels, plugins
from tripoint.devices import cpu
from tripoint.dispatcher.routes import helpers, routes
from tripoint.errors import DeviceError, DTypeError, Near, NoKernelError, TripointError, grouped
from tripoint.kernels import Kernel, find_point
from tripoint.keys import ABSENT, Key, intern
from tripoint.layouts import strided
from tripoint.patterns import Origin

if TYPE_CHECKING:
    from tripoint.dispatcher.resolve import Resolution
    from tripoint.dtypes import DType
    from tripoint.layouts import LayoutSpec
    from tripoint.schema import Row

__all__ = ["argument_names", "changes_dtype", "differences", "no_conversion", "no_kernel", "several_devices"]

#: how far a kernel is from a call that it does not fit, by the axes that differ.
_FAR = {"dtype": 1, "layout": 2, "kind": 3, "device": 4}
#: the way into a dtype that has parameters.
_QUANTIZE = "tripoint.quantize(x, tripoint.affine(...))"


def no_conversion(source: Key, target: Key, *, served: bool) -> TripointError:
    """The error of a conversion that no chain of kernels makes; ``served``: but for the parameters of the layout."""
    if not target.dtype.is_plain and target.dtype is not source.dtype:
        return DTypeError(
            f"{target.dtype} has parameters that .to() cannot guess; use {_QUANTIZE}, the operator that takes them"
        )
    way = "a device's plugin provides both ways to cpu.strided, a layout's to strided, a dtype's to its plain dtype"
    if served:
        way = f"its kernel takes no parameters of the layout: write layout={target.layout.name!r}"
    return NoKernelError("to", (("x", source.name), ("target", target.name)), help=way)


def argument_names(res: Resolution, count: int) -> list[str]:
    """The argument that each of ``count`` keys belongs to; the target has a key behind those of the operands."""
    out = []
    for i in range(count):
        at = res.slots[i] if i < len(res.slots) else None
        p = res.row.operands[at] if at is not None else None
        if p is None or at is None:
            out.append("target")
        else:
            out.append(f"{p.name}[{i - res.slots.index(at)}]" if p.role == "variadic" else p.name)
    return out


def several_devices(res: Resolution, keys: tuple[Key, ...]) -> DeviceError:
    """The error of operands that are on different devices."""
    named = [(n, str(k.device)) for n, k in zip(argument_names(res, len(keys)), keys, strict=True) if k.is_tensor]
    listed = ", ".join(f"argument {n}: {device}" for n, device in grouped(named)[:6])
    return DeviceError(f"{res.row.name}: the tensors are on several devices ({listed}); move them with .to(device)")


def changes_dtype(row: Row, have: DType, made: DType) -> DTypeError:
    """The error of an in-place form whose result the tensor that it writes into cannot hold."""
    functional = row.functional.name if row.functional is not None else row.name
    return DTypeError(
        f"{row.name} would change the dtype of {row.operands[0].name} from {have} to {made}; "
        f"write x = {functional}(x, ...), or convert with .to(dtype=...) first"
    )


def no_kernel(res: Resolution, refused: tuple[str, ...] = ()) -> TripointError:
    """The error of a call that no route serves: `NoKernelError`, unless devices differ or a plugin that is broken is why.

    Args:
        refused: what the fallback policy in force met.
    """
    row, keys = res.row, res.keys
    tensors = [k for k in keys if k.is_tensor]
    if len({k.device for k in tensors}) > 1:
        return several_devices(res, keys)
    for k in tensors:
        if find_point(k) is None:
            plugin = plugins.broken_provider(k)
            if plugin is not None:
                return plugins.unusable(plugin, f"the point {k}")
    full = keys if res.target is None else (*keys, res.target)
    if row.kind == "export":  # elements are read on the CPU, so what is there is what to advise
        plugins.ensure([intern(cpu, strided, k.dtype.plain) for k in tensors])
    named = argument_names(res, len(full))
    points = tuple((n, k.name) for n, k in zip(named, full, strict=True) if k is not ABSENT)
    sources = tuple(
        f"cast to {m.dtype}" if m.dtype is not k.dtype else "what the call asks for" if i >= len(keys) else ""
        for i, (k, m) in enumerate(zip(full, res.matched, strict=True))
        if k is not ABSENT
    )
    found: list[tuple[int, Near]] = []
    reasons = [*refused]
    for kernel in kernels.kernels.get(row.name, ()):
        differs = differences(kernel, named, res.matched, res.all_slots)
        if not differs and kernel not in res.candidates:
            reasons.append(f"{kernel.origin} fits and owns no point of this call{_preferring(kernel.origin)}")
        found.append(
            (sum(_FAR[axis] for _, axis, _, _ in differs), Near(kernel.pattern(), kernel.origin.provider, differs))
        )
    nearest: dict[str, Near] = {}
    for _, near in sorted(found, key=lambda pair: pair[0]):
        if near.differs:
            nearest.setdefault(near.point, near)
    error = NoKernelError(row.name, points, tuple(nearest.values()), _help(res, full), tuple(reasons), sources)
    error.routes, error.packages = routes(res, refused), tuple(dict.fromkeys(who for who, _ in helpers(full)))
    return error


def differences(
    kernel: Kernel, named: list[str], keys: tuple[Key, ...], slots: tuple[int, ...]
) -> tuple[tuple[str, str, str, str], ...]:
    """Where a kernel does not fit: argument, axis, what the key has, and what the kernel takes."""
    patterns = kernel.patterns(slots)
    return tuple(
        (name, *miss)
        for name, key, pattern in zip(named, keys, patterns, strict=True)
        if key is not ABSENT
        for miss in pattern.misses(key)
    )


def _preferring(origin: Origin) -> str:
    return f"; tripoint.plugins.prefer({origin.distribution!r}) lets it take part" if origin.distribution else ""


def _help(res: Resolution, keys: tuple[Key, ...]) -> str:
    """What would let a call on these keys go through, as text."""
    row = res.row
    advice = dict.fromkeys(text for _, text in helpers(keys))
    if row.mutates is not None and row.functional is not None:
        advice[f"write x = {row.functional.name}(x, ...)"] = None
    elif row.kind == "creation" and res.target is not None:
        advice |= dict.fromkeys(_made_elsewhere(row.name, res.target, res.spec))
    else:
        advice |= dict.fromkeys(_converted(res, keys))
    if not advice:
        return "no installed plugin registers this operator here; tripoint.plugins.report() lists them"
    return "; or ".join(advice)


def _made_elsewhere(operator: str, target: Key, spec: LayoutSpec | None) -> list[str]:
    """How to come to a tensor on a point that nothing makes one on."""
    plain = target.replace(dtype=target.dtype.plain)
    if plain is not target:
        way = f"x.to(dtype={target.dtype.name!r})" if _fit("to", (plain, target)) else _QUANTIZE
        return [f"make x {plain.dtype}, then convert: {way}"]
    if target.layout is not strided:
        layout = repr(target.layout.name) if spec is None else f"tripoint.layouts.{spec!r}"
        return [f"make x strided, then convert: x.to(layout={layout})"]
    there = target.replace(device=cpu)
    served = there is not target and _fit(operator, (there,)) and _fit("to", (there, target))
    return [f"make x on the cpu, then move it: x.to({str(target.device)!r})"] if served else []


def _converted(res: Resolution, keys: tuple[Key, ...]) -> list[str]:
    """How to bring the operands of a call to points that it has a kernel for: strided ones of plain dtypes, or the CPU's.

    They go by no name: who reads it may have called an operator that is made of this one.
    """
    first = next((k for k in keys if k.is_tensor), None)
    if first is None:
        return []
    dense = tuple(
        k if k is ABSENT else intern((k if k.is_tensor else first).device, strided, m.dtype.plain)
        for k, m in zip(keys, res.matched, strict=True)
    )
    tensors = [k for k in keys if k.is_tensor]
    ways = {f"x.to(layout='strided') reads {k.layout.name} as strided" for k in tensors if k.layout is not strided}
    ways |= {
        f"x.to(dtype={k.dtype.plain.name!r}) reads {k.dtype.name} as {k.dtype.plain}"
        for k in tensors
        if not k.dtype.is_plain
    }
    if ways and _fit(res.row.name, dense, res.all_slots):
        return [f"convert first: {', and '.join(sorted(ways))}"]
    there = tuple([k if k is ABSENT else k.replace(device=cpu) for k in dense])
    moves = [(k, t) for k, t in zip(dense, there, strict=True) if k is not t]
    served = _fit(res.row.name, there, res.all_slots) and all(_fit("to", move) for move in moves)
    return ["compute it on the cpu: x.to('cpu')"] if moves and served else []


def _fit(operator: str, keys: tuple[Key, ...], slots: tuple[int, ...] | None = None) -> bool:
    """Whether some kernel of an operator is registered for these keys."""
    names, slots = [""] * len(keys), slots or tuple(range(len(keys)))
    return any(not differences(k, names, keys, slots) for k in kernels.kernels.get(operator, ()))
