"""What one combination of keys does, said as data before anything is built or run.

Order of resolution: a kernel for the points, the narrowest pattern winning; cheap hooks around the operator on strided
operands; a decomposition; the fallback policy in force; `NoKernelError`.
"""

from __future__ import annotations

from typing import Any

from tripoint import devices, kernels, plugins
from tripoint.dispatcher.layer import Layer, walk
from tripoint.dispatcher.routes import helpers, routes
from tripoint.dtypes import Defaults, DType, as_dtype, bool_, can_assign, is_weak
from tripoint.errors import (
    AliasError,
    DeviceError,
    DTypeError,
    LayoutError,
    Near,
    NoKernelError,
    RegistrationError,
    grouped,
)
from tripoint.kernels import Kernel, Origin, Point
from tripoint.keys import ABSENT, Key, intern
from tripoint.layouts import LayoutSpec, strided
from tripoint.modes import Mode
from tripoint.rules import check_conversion
from tripoint.schema import Row, rows

__all__ = ["Resolution", "resolve"]


class Resolution:
    """What a call does, as plain data; plans, explanations and coverage are made from it.

    Attributes:
        row, mode, keys: the call. ``keys`` is flat; ``slots`` says which operand each key belongs to.
        layers: what stands above the kernel, from the top down.
        how: ``kernel``, ``hooks``, ``decomposition``, ``inplace``, ``convert``, ``identity`` or ``fallback``.
        kernel: the kernel chosen, if one is.
        casts: per key, the dtype its operand is cast to first, or ``None``.
        fills: per key, the key of the 0-d payload that a Python scalar becomes first, or ``None``.
        out: key of the result; ``None`` when a decomposition decides it.
        target: key that the call asks for, for creation and conversion.
        spec: parameters of the target layout, or ``None``.
        steps: for conversions, the kernels in order with the key each gives.
        non_blocking: the last of them need not be done when the call returns.
        inner: for hooks, in-place forms and fallbacks, the resolution beneath.
        candidates: every kernel of the operator that took part in the choice.
        matched: the keys that their patterns were compared with: of the operands, cast and filled, and then of the target.
        parts: gradients are wanted of the parts of a composite, so that no kernel for the whole is asked.
    """

    __slots__ = (
        "candidates", "casts", "fills", "how", "inner", "kernel", "keys", "layers", "matched", "mode",
        "non_blocking", "out", "parts", "point", "row", "slots", "spec", "steps", "target",
    )  # fmt: skip

    def __init__(self, row: Row, mode: Mode, keys: tuple[Key, ...], slots: tuple[int, ...]) -> None:
        self.row = row
        self.mode = mode
        self.keys = keys
        self.slots = slots
        self.layers: tuple[Layer, ...] = ()
        self.how = ""
        self.kernel: Kernel | None = None
        self.casts: tuple[DType | None, ...] = (None,) * len(keys)
        self.fills: tuple[Key | None, ...] = (None,) * len(keys)
        self.out: Key | None = None
        self.target: Key | None = None
        self.spec: LayoutSpec | None = None
        self.steps: tuple[tuple[Kernel, Key], ...] = ()
        self.non_blocking = False
        self.inner: Resolution | None = None
        self.candidates: tuple[Kernel, ...] = ()
        self.matched: tuple[Key, ...] = tuple(k.base for k in keys)
        self.parts = False
        self.point: Point | None = None

    def label(self) -> str:
        """``distribution:function`` of what computes, or what stands in for it."""
        if self.kernel is not None:
            return self.kernel.origin.label
        if self.how == "hooks" and self.inner is not None:
            return f"hooks around {self.inner.label()}"
        if self.how == "inplace" and self.inner is not None:
            return self.inner.label()
        if self.how == "fallback" and self.inner is not None:
            return f"fallback to {self.inner.label()}"
        if self.how == "convert":
            return " > ".join(k.origin.label for k, _ in self.steps)
        return self.how

    def __repr__(self) -> str:
        return f"<{self.row.name} on {', '.join(k.name for k in self.keys)}: {self.how} {self.label()}>"


def find_target(row: Row, mode: Mode, first: Key | None, keyed: dict[str, Any]) -> tuple[Key, LayoutSpec | None]:
    """The key that creation and conversion ask for; what is not said comes from the operand or the mode."""
    device, layout, dtype = keyed.get("device"), keyed.get("layout"), keyed.get("dtype")
    spec = layout if isinstance(layout, LayoutSpec) else None
    if first is None:
        made = intern(
            plugins.find_device(device) if device is not None else mode.device or devices.cpu,
            plugins.find_layout(layout) if layout is not None else strided,
            as_dtype(dtype) if dtype is not None else Defaults.floating,
        )
    else:
        made = intern(
            plugins.find_device(device) if device is not None else first.device,
            plugins.find_layout(layout) if layout is not None else first.layout,
            as_dtype(dtype) if dtype is not None else first.dtype,
        )
    return made, spec


def resolve(
    row: Row,
    mode: Mode,
    keys: tuple[Key, ...],
    slots: tuple[int, ...],
    keyed: dict[str, Any],
    into: Resolution | None = None,
) -> Resolution:
    """Decide what a call does.

    Args:
        into: a Resolution of the call that is filled on the way, for who wants to see how far a refused call came.

    Raises:
        NoKernelError, AmbiguousKernelError, DeviceError, LayoutError, DTypeError, PluginError: as their docs say.
    """
    res = Resolution(row, mode, keys, slots) if into is None else into
    if row.target:
        first = next((k for k in keys if k.is_tensor), None)
        res.target, res.spec = find_target(row, mode, first, keyed)
        plugins.require(res.target)
    plugins.ensure(keys)
    base = tuple(k.base for k in keys)
    layers = res.layers = walk(mode, row, keys)
    # A fused kernel hides the parts of a composite: it may run only where nothing above needs to see them.
    res.parts = row.composite and mode.grad and any(k.autograd for k in keys) and not _differentiable(row, base, slots)
    res.keys = base
    try:
        out = _backend(res, keyed)
    finally:
        res.keys = keys
    out.keys, out.layers = keys, () if out.how == "identity" else layers
    return out


def _differentiable(row: Row, keys: tuple[Key, ...], slots: tuple[int, ...]) -> bool:
    found, tied = kernels.select_derivative(row.name, keys, slots)
    return found is not None or bool(tied)


def _candidates(row: Row, keys: tuple[Key, ...]) -> tuple[Kernel, ...]:
    listed = [k for k in kernels.kernels.get(row.name, ()) if plugins.participates(k.origin, row, keys)]
    seen = []
    for key in keys:
        point = kernels.find_point(key) if key.is_tensor else None
        if point is not None and point.factory is not None and point not in seen:
            seen.append(point)
            made = plugins.guarded(point.origin, f"factory({row.name})", point.factory, row)
            if made is not None:
                origin = Origin(point.origin.distribution, point.origin.version, made, row.name)
                listed.append(Kernel(row.name, made, origin, every=point.pattern))
    return tuple(listed)


def choose(row: Row, keys: tuple[Key, ...], slots: tuple[int, ...], everything: tuple[Kernel, ...]) -> Kernel | None:
    """The kernel that wins on these keys (the target's included), or ``None``.

    Raises:
        AmbiguousKernelError: two fit equally well.
    """
    kernel, tied = kernels.select(everything, keys, slots)
    if tied:
        raise kernels.ambiguous(row.name, keys, tied)
    return kernel  # type: ignore[no-any-return]


def kernel_for(row: Row, keys: tuple[Key, ...]) -> Kernel | None:
    """The kernel of a row on exactly these keys, with no casts and no detours."""
    return choose(row, keys, tuple(range(len(keys))), _candidates(row, keys))


def _backend(res: Resolution, keyed: dict[str, Any], hooked: bool = False) -> Resolution:
    row, keys, slots, target = res.row, res.keys, res.slots, res.target
    tensors = [k for k in keys if k.is_tensor]
    result: DType | None = None
    if row.kind == "convert":
        return _conversion(res, keyed)
    rule = row.dtype
    cast = keys
    if rule is not None and not row.target and tensors:
        if all(k.dtype.is_plain for k in keys if k is not ABSENT) or rule.opaque:
            dtypes = tuple(None if k is ABSENT else k.dtype for k in keys)
            wanted, result = rule(row.name, dtypes, keyed)
            res.casts = tuple(
                None if w is None or not k.is_tensor or w is k.dtype else w for w, k in zip(wanted, keys, strict=True)
            )
            cast = tuple(k if w is None else k.replace(dtype=w) for w, k in zip(res.casts, keys, strict=True))
        else:
            wanted = (None,) * len(keys)
    else:
        wanted = (None,) * len(keys)
    # A Python scalar among floats is computed in the tensor's dtype, so its own kind never widens a kernel's choice.
    full_at = tensors[0].replace(layout=strided) if tensors else None
    extra = (target,) if target is not None else ()
    extra_slots = (len(row.operands),) if target is not None else ()
    everything = res.candidates = () if res.parts else _candidates(row, (*keys, *extra))
    res.matched = (*cast, *extra)
    if row.mutates is not None:
        return _inplace(res, cast, result, everything, keyed)
    kernel = choose(row, res.matched, (*slots, *extra_slots), everything)
    if kernel is None and full_at is not None and any(is_weak(k.dtype) for k in keys if k is not ABSENT):
        filled = []
        for k, w in zip(cast, wanted, strict=True):
            scalar = not k.is_tensor and k is not ABSENT
            filled.append(full_at.replace(dtype=_scalar_dtype(k, w, full_at)) if scalar else k)
        again = choose(row, (*filled, *extra), (*slots, *extra_slots), everything)
        if again is not None:
            kernel, cast = again, tuple(filled)
            res.matched = (*cast, *extra)
            res.fills = tuple(f if f is not k and not k.is_tensor else None for f, k in zip(filled, keys, strict=True))
    if kernel is not None:
        res.how, res.kernel = "kernel", kernel
        if kernel.takes_target and not row.target:
            res.casts = (None,) * len(keys)
        res.out = target if target is not None else _out(res, kernel, cast, result)
        res.point = kernels.find_point(res.out) if row.returns == "tensor" else None
        return res
    if not hooked and not res.parts:
        through = _hooks(res, keyed)
        if through is not None:
            return through
    if row.composite:
        res.how = "decomposition"
        return res
    refused: list[str] = []
    if not hooked and res.mode.fallback != "error":
        elsewhere = _fallback(res, keyed, refused)
        if elsewhere is not None:
            return elsewhere
    raise _missing(res, tuple(refused))


def _fallback(res: Resolution, keyed: dict[str, Any], refused: list[str]) -> Resolution | None:
    """The call on the device that the scope's policy names, on strided operands of plain dtypes; why not is ``refused``."""
    row, keys, target = res.row, res.keys, res.target
    device = plugins.find_device(res.mode.fallback.partition(":")[2])

    def dense(key: Key) -> Key:
        return intern(device, strided, key.dtype.plain) if key.is_tensor else key

    there = tuple(dense(k) for k in keys)
    if len({k.device for k in keys if k.is_tensor}) > 1 or (
        there == keys and (target is None or dense(target) is target)
    ):
        return None
    ways = [(k, d) for k, d in zip(keys, there, strict=True) if k is not d]
    ways += [(dense(target), target)] if target is not None and dense(target) is not target else []
    for source, aim in ways:
        if path(source, aim) is None:
            refused.append(f"the fallback to {device} was refused: no conversions lead from {source} to {aim}")
            return None
    for key in (*there, *((dense(target),) if target is not None else ())):
        if key.is_tensor:
            plugins.require(key)  # or the error of a device that cannot be used
    inner = Resolution(row, res.mode.replace(fallback="error"), there, res.slots)
    inner.target = dense(target) if target is not None else None
    try:
        inner = _backend(inner, keyed)
    except NoKernelError as error:
        refused.append(
            f"the fallback to {device} was refused: {error.operator} has no kernel for {', '.join(map(str, there))} either"
        )
        return None
    res.how, res.inner = "fallback", inner
    if inner.out is not None:
        home = next((k.device for k in keys if k.is_tensor), device)
        res.out = target if target is not None else inner.out.replace(device=home)
        res.point = kernels.find_point(res.out)
    return res


def _scalar_dtype(scalar: Key, wanted: DType | None, full_at: Key) -> DType:
    if wanted is not None and wanted.is_plain and not is_weak(wanted):
        return wanted
    if full_at.dtype.is_plain:
        return full_at.dtype
    return bool_ if scalar.dtype.name == "python bool" else Defaults.floating


def _out(res: Resolution, kernel: Kernel, keys: tuple[Key, ...], result: DType | None) -> Key:
    tensors = [k for k in keys if k.is_tensor]
    if kernel.out is not None:
        place = getattr(kernel.out, "by_rule", None)
        made = kernel.out(keys) if place is None or result is None else place(keys).replace(dtype=result)
        if not isinstance(made, Key):
            raise RegistrationError(f"{kernel.origin}: out= must give a key, not {made!r}")
        return made.base
    first = tensors[0]
    if any(k.device is not first.device for k in tensors):  # of one type: a pattern names no index
        raise _several_devices(res, keys)
    if any(k.layout is not first.layout for k in tensors):
        raise RegistrationError(
            f"{kernel.origin}: a kernel on several layouts states out=, the point of its result; "
            f"here it was called on {', '.join(k.name for k in tensors)}"
        )
    if result is None:
        why = (
            f"on the opaque dtype {first.dtype}"
            if res.row.dtype is not None
            else f"of {res.row.name}, which has no dtype rule,"
        )
        raise RegistrationError(f"{kernel.origin}: a kernel {why} states out=")
    return first.replace(dtype=result)


#: kinds of operators that give one element for each; where all tensors have one layout, the result has it too.
_PER_ELEMENT = ("elementwise", "select")


def _hooks(res: Resolution, keyed: dict[str, Any]) -> Resolution | None:
    """One round trip through the hooks of layouts and dtypes that declare it cheap."""
    row = res.row
    found = [kernels.find_point(k) if k.is_tensor else None for k in res.keys]
    if row.mutates is not None or row.returns != "tensor" or not any(p is not None and p.cheap for p in found):
        return None
    dense = tuple(
        intern(k.device, strided, k.dtype.plain) if p is not None and p.cheap else k
        for k, p in zip(res.keys, found, strict=True)
    )
    plugins.ensure(dense)
    inner = Resolution(row, res.mode, dense, res.slots)
    inner.target, inner.spec = res.target, res.spec
    try:
        inner = _backend(inner, keyed, hooked=True)
    except NoKernelError:
        return None
    if inner.how == "decomposition" and row.kind in (*_PER_ELEMENT, "creation"):
        return None  # its parts keep the layout: they go through the hooks one by one, or name it
    out = Resolution(row, res.mode, res.keys, res.slots)
    out.how, out.inner, out.target, out.spec = "hooks", inner, res.target, res.spec
    out.candidates, out.matched = res.candidates, res.matched
    tensors = [k for k in res.keys if k.is_tensor]
    back = (
        row.kind in _PER_ELEMENT
        and all(k.layout is tensors[0].layout and k.dtype.is_plain for k in tensors)
        and inner.out is not None
    )
    out.out = inner.out.replace(layout=tensors[0].layout) if back and inner.out is not None else inner.out
    return out


def _inplace(
    res: Resolution, cast: tuple[Key, ...], result: DType | None, everything: tuple[Kernel, ...], keyed: dict[str, Any]
) -> Resolution:
    row, x1 = res.row, res.keys[0]
    functional = row.functional
    assert functional is not None
    if result is not None and x1.dtype.is_plain and not can_assign(result, x1.dtype):
        raise DTypeError(
            f"{row.name} would change the dtype of {row.operands[0].name} from {x1.dtype} to {result}; "
            f"write x = {functional.name}(x, ...), or convert with .to(dtype=...) first"
        )
    res.how, res.out = "inplace", x1
    point = res.point = kernels.find_point(x1)
    if point is None:
        raise _missing(res)
    if not point.frozen and res.casts[0] is None:
        kernel = choose(row, (x1, *cast[1:]), res.slots, everything)
        if kernel is not None:
            if any(k.is_tensor and k.device is not x1.device for k in res.keys):
                raise _several_devices(res, res.keys)
            res.kernel = kernel
            return res
    res.casts = (None,) * len(res.keys)
    inner = res.inner = _backend(Resolution(functional, res.mode, res.keys, res.slots), keyed)
    stays = inner.out is None or (
        inner.out.replace(dtype=x1.dtype) is x1 if point.frozen else inner.out.layout is x1.layout
    )
    if not stays:
        raise LayoutError(
            f"{row.name} would move {row.operands[0].name} from {x1} to {inner.out}; write x = {functional.name}(x, ...)"
        )
    if not point.frozen and (inner.out is None or not _assignable(x1, inner.out)):
        raise _missing(res)
    return res


def assign_kernel(x1: Key, value: Key) -> Kernel | None:
    """The kernel that writes a payload of ``value`` into memory of ``x1``."""
    row = rows["assign_"]
    return kernel_for(row, (x1, value.replace(dtype=x1.dtype) if x1.layout is value.layout else value))


def _assignable(x1: Key, value: Key) -> bool:
    return x1.layout is value.layout and x1.device is value.device and assign_kernel(x1, value) is not None


# Conversions ---------------------------------------------------------------------------------------------------------


def _conversion(res: Resolution, keyed: dict[str, Any]) -> Resolution:
    """Plan ``to`` and ``astype`` over keys: one kernel, or at most three steps by way of strided and plain points."""
    source, target = res.keys[0], res.target
    assert target is not None
    check_conversion(source.dtype, target.dtype)
    if source is target and res.spec is None:
        res.out = target
        if not keyed.get("copy"):
            res.how = "identity"
            return res
        copy = kernel_for(rows["copy"], (source,))
        if copy is None:
            raise _missing(Resolution(rows["copy"], res.mode, res.keys, res.slots))
        res.how, res.steps, res.kernel = "convert", ((copy, target),), copy
        res.point = kernels.find_point(target)
        return res
    steps = path(source, target, res.spec)
    if steps is None:
        raise _no_way(source, target)
    if keyed.get("copy") is False and res.row.name == "to":
        raise AliasError(f"converting {source} to {target} needs a copy, and copy=False forbids it")
    res.how, res.steps, res.out, res.non_blocking = "convert", steps, target, bool(keyed.get("non_blocking"))
    res.point = kernels.find_point(target)
    if len(steps) == 1:
        res.kernel = steps[0][0]
    return res


def edge(source: Key, target: Key, spec: LayoutSpec | None = None) -> Kernel | None:
    """The one kernel that converts between two points, or ``None``; where the target has parameters, one that takes them."""
    if spec is not None:
        plugins.ensure((source, target))
        found = kernel_for(rows["to"], (source, target)) if source.dtype is target.dtype else None
        return found if found is not None and found.takes_spec else None
    plain = source.dtype.is_plain and target.dtype.is_plain
    same_place = source.device is target.device and source.layout is target.layout
    if same_place and plain:
        return kernel_for(rows["astype"], (source, target))
    if plain and source.dtype is not target.dtype:
        return None
    plugins.ensure((source, target))
    return kernel_for(rows["to"], (source, target))


def path(source: Key, target: Key, spec: LayoutSpec | None = None) -> tuple[tuple[Kernel, Key], ...] | None:
    """The shortest chain of at most three conversions, planned over keys."""
    direct = edge(source, target, spec)
    if direct is not None:
        return ((direct, target),)
    ways = {
        intern(d, lay, t)
        for d in (source.device, target.device, devices.cpu)
        for lay in (source.layout, strided, target.layout)
        for t in (source.dtype, source.dtype.plain, target.dtype.plain, target.dtype)
    } - {source, target}
    plugins.ensure(ways)
    usable = sorted((k for k in ways if kernels.find_point(k) is not None), key=lambda k: k.name)
    first = [(k, kernel) for k in usable if (kernel := edge(source, k)) is not None]
    for k, kernel in first:
        last = edge(k, target, spec)
        if last is not None:
            return ((kernel, k), (last, target))
    for k, kernel in first:
        for m in usable:
            middle = edge(k, m) if m is not k else None
            last = edge(m, target, spec) if middle is not None else None
            if middle is not None and last is not None:
                return ((kernel, k), (middle, m), (last, target))
    return None


def _no_way(source: Key, target: Key) -> Exception:
    if not target.dtype.is_plain and target.dtype is not source.dtype:
        return DTypeError(
            f"{target.dtype} has parameters that .to() cannot guess; use tripoint.quantize(x, tripoint.affine(...)), "
            "the operator that takes them"
        )
    return NoKernelError(
        "to",
        (("x", source.name), ("target", target.name)),
        help="a device's plugin provides both ways to cpu.strided, a layout's to strided, a dtype's to its plain dtype",
    )


def names(res: Resolution, count: int) -> list[str]:
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


def _several_devices(res: Resolution, keys: tuple[Key, ...]) -> DeviceError:
    named = [(n, str(k.device)) for n, k in zip(names(res, len(keys)), keys, strict=True) if k.is_tensor]
    listed = ", ".join(f"argument {n}: {device}" for n, device in grouped(named)[:6])
    return DeviceError(f"{res.row.name}: the tensors are on several devices ({listed}); move them with .to(device)")


def _missing(res: Resolution, refused: tuple[str, ...] = ()) -> Exception:
    row, keys = res.row, res.keys
    tensors = [k for k in keys if k.is_tensor]
    if len({k.device for k in tensors}) > 1:
        return _several_devices(res, keys)
    for k in tensors:
        if kernels.find_point(k) is None:
            plugin = plugins.broken_provider(k)
            if plugin is not None:
                return plugins.unusable(plugin, f"the point {k}")
    full = keys if res.target is None else (*keys, res.target)
    named = names(res, len(full))
    points = tuple((n, k.name) for n, k in zip(named, full, strict=True) if k is not ABSENT)
    sources = tuple(
        f"cast to {m.dtype}" if m.dtype is not k.dtype else "what the call asks for" if i >= len(keys) else ""
        for i, (k, m) in enumerate(zip(full, res.matched, strict=True))
        if k is not ABSENT
    )
    found: list[tuple[int, Near]] = []
    reasons = [*refused]
    slots = (*res.slots, len(row.operands))[: len(full)]
    for kernel in kernels.kernels.get(row.name, ()):
        differs = differences(kernel, named, res.matched, slots)
        if not differs and kernel not in res.candidates:
            reasons.append(f"{kernel.origin} fits and owns no point of this call{_preferring(kernel.origin)}")
        found.append(
            (sum(_FAR[axis] for _, axis, _, _ in differs), Near(kernel.pattern(), kernel.origin.provider, differs))
        )
    nearest: dict[str, Near] = {}
    for _, near in sorted(found, key=lambda pair: pair[0]):
        if near.differs:
            nearest.setdefault(near.point, near)
    error = NoKernelError(
        row.name, points, tuple(nearest.values()), _help(full, row.kind == "creation"), tuple(reasons), sources
    )
    error.routes, error.packages = routes(res, refused), tuple(dict.fromkeys(who for who, _ in helpers(full)))
    return error


_FAR = {"dtype": 1, "layout": 2, "kind": 3, "device": 4}


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


def _help(keys: tuple[Key, ...], made: bool) -> str:
    """What would let a call on these keys go through, as text."""
    tensors = [k for k in keys if k.is_tensor]
    said = dict.fromkeys(text for _, text in helpers(keys))
    layouts = sorted({k.layout.name for k in tensors if k.layout is not strided})
    dtypes = sorted({k.dtype.name for k in tensors if not k.dtype.is_plain})
    if layouts and made:
        said[f"make it strided, then convert: x.to(layout={layouts[0]!r})"] = None
    elif layouts:
        said[f"convert first: x.to(layout='strided') reads {', '.join(layouts)} as strided"] = None
    elif dtypes:
        said[f"convert first: x.dequantize() or x.to(dtype=...) reads {', '.join(dtypes)} as a plain dtype"] = None
    elif not said:
        return "no installed plugin registers this operator here; tripoint.plugins.report() lists them"
    return "; or ".join(said)
