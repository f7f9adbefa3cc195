"""What one combination of keys does, said as data before anything is built or run.

Order of resolution: a kernel for the points, the narrowest pattern winning; cheap hooks around the operator on strided
operands; a decomposition; the fallback policy in force; `NoKernelError`.
"""

from __future__ import annotations

from typing import Any

from tripoint import devices, kernels, plugins
from tripoint.dispatcher.layer import Layer, walk
from tripoint.dtypes import Defaults, DType, as_dtype, bool_, can_assign, is_weak
from tripoint.errors import AliasError, DeviceError, DTypeError, LayoutError, NoKernelError, RegistrationError
from tripoint.kernels import Kernel, Origin, Point
from tripoint.keys import ABSENT, Key, intern
from tripoint.layouts import LayoutSpec, strided
from tripoint.modes import Mode
from tripoint.schema import Row, rows

__all__ = ["Resolution", "resolve"]


class Resolution:
    """What a call does, as plain data; plans, explanations and coverage are made from it.

    Attributes:
        row, mode, keys: the call. ``keys`` is flat; ``slots`` says which operand each key belongs to.
        layers: what stands above the kernel, from the top down.
        how: ``kernel``, ``hooks``, ``decomposition``, ``inplace``, ``convert`` or ``identity``.
        kernel: the kernel chosen, if one is.
        casts: per key, the dtype its operand is cast to first, or ``None``.
        fills: per key, the key of the 0-d payload that a Python scalar becomes first, or ``None``.
        out: key of the result; ``None`` when a decomposition decides it.
        target: key that the call asks for, for creation and conversion.
        spec: parameters of the target layout, or ``None``.
        steps: for conversions, the kernels in order with the key each gives.
        inner: for hooks and in-place forms, the resolution beneath.
        candidates: every kernel of the operator that took part in the choice.
    """

    __slots__ = (
        "candidates", "casts", "fills", "how", "inner", "kernel", "keys", "layers", "mode", "out", "point", "row",
        "slots", "spec", "steps", "target",
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
        self.inner: Resolution | None = None
        self.candidates: tuple[Kernel, ...] = ()
        self.point: Point | None = None

    def label(self) -> str:
        """``distribution:function`` of what computes, or what stands in for it."""
        if self.kernel is not None:
            return self.kernel.origin.label
        if self.how == "hooks" and self.inner is not None:
            return f"hooks around {self.inner.label()}"
        if self.how == "inplace" and self.inner is not None:
            return self.inner.label()
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


def resolve(row: Row, mode: Mode, keys: tuple[Key, ...], slots: tuple[int, ...], keyed: dict[str, Any]) -> Resolution:
    """Decide what a call does.

    Raises:
        NoKernelError, AmbiguousKernelError, DeviceError, LayoutError, DTypeError, PluginError: as their docs say.
    """
    target, spec = None, None
    if row.target:
        first = next((k for k in keys if k.is_tensor), None)
        target, spec = find_target(row, mode, first, keyed)
        plugins.require(target)
    plugins.ensure(keys)
    base = tuple(k.base for k in keys)
    layers = walk(mode, row, keys)
    # A fused kernel hides the parts of a composite: it may run only where nothing above needs to see them.
    wants_parts = (
        row.composite and mode.grad and any(k.autograd for k in keys) and not _differentiable(row, base, slots)
    )
    out = _backend(row, mode, base, slots, keyed, target, spec, wants_parts)
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
                origin = Origin(point.origin.distribution, point.origin.version, made)
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


def _backend(
    row: Row,
    mode: Mode,
    keys: tuple[Key, ...],
    slots: tuple[int, ...],
    keyed: dict[str, Any],
    target: Key | None,
    spec: LayoutSpec | None,
    wants_parts: bool = False,
    hooked: bool = False,
) -> Resolution:
    res = Resolution(row, mode, keys, slots)
    res.target, res.spec = target, spec
    tensors = [k for k in keys if k.is_tensor]
    result: DType | None = None
    if row.name in ("to", "astype"):
        return _conversion(res, keyed)
    rule = row.dtype
    cast = keys
    if rule is not None and not row.target and tensors:
        if all(k.dtype.is_plain for k in keys if k is not ABSENT) or rule.name == "kept":
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
    everything = res.candidates = () if wants_parts else _candidates(row, (*keys, *extra))
    if row.mutates is not None:
        return _inplace(res, cast, result, everything, keyed)
    kernel = choose(row, (*cast, *extra), (*slots, *extra_slots), everything)
    if kernel is None and full_at is not None and any(is_weak(k.dtype) for k in keys if k is not ABSENT):
        filled = []
        for k, w in zip(cast, wanted, strict=True):
            scalar = not k.is_tensor and k is not ABSENT
            filled.append(full_at.replace(dtype=_scalar_dtype(k, w, full_at)) if scalar else k)
        again = choose(row, (*filled, *extra), (*slots, *extra_slots), everything)
        if again is not None:
            kernel, cast = again, tuple(filled)
            res.fills = tuple(f if f is not k and not k.is_tensor else None for f, k in zip(filled, keys, strict=True))
    if kernel is not None:
        res.how, res.kernel = "kernel", kernel
        if kernel.takes_target and not row.target:
            res.casts = (None,) * len(keys)
        res.out = target if target is not None else _out(row, kernel, cast, result)
        res.point = kernels.find_point(res.out) if row.returns == "tensor" else None
        return res
    if (not hooked and not wants_parts) or (wants_parts and not row.composite):
        through = _hooks(res, keyed, target, spec)
        if through is not None:
            return through
    if row.composite:
        res.how = "decomposition"
        return res
    raise _missing(row, keys, target, res.candidates)


def _scalar_dtype(scalar: Key, wanted: DType | None, full_at: Key) -> DType:
    if wanted is not None and wanted.is_plain and not is_weak(wanted):
        return wanted
    if full_at.dtype.is_plain:
        return full_at.dtype
    return bool_ if scalar.dtype.name == "python bool" else Defaults.floating


def _out(row: Row, kernel: Kernel, keys: tuple[Key, ...], result: DType | None) -> Key:
    tensors = [k for k in keys if k.is_tensor]
    if kernel.out is not None:
        made = kernel.out(keys)
        if not isinstance(made, Key):
            raise RegistrationError(f"{kernel.origin}: out= must give a key, not {made!r}")
        if result is not None and getattr(kernel.out, "by_rule", False):
            made = made.replace(dtype=result)
        return made.base
    first = tensors[0]
    if any(k.device is not first.device for k in tensors):  # of one type: a pattern names no index
        raise _several_devices(row, keys)
    if any(k.layout is not first.layout for k in tensors):
        raise RegistrationError(
            f"{kernel.origin}: a kernel on several layouts states out=, the point of its result; "
            f"here it was called on {', '.join(k.name for k in tensors)}"
        )
    if result is None:
        raise RegistrationError(f"{kernel.origin}: a kernel on the opaque dtype {first.dtype} states out=")
    return first.replace(dtype=result)


def _hooks(res: Resolution, keyed: dict[str, Any], target: Key | None, spec: LayoutSpec | None) -> Resolution | None:
    """One round trip through the hooks of layouts and dtypes that declare it cheap."""
    row = res.row
    found = [kernels.find_point(k) if k.is_tensor else None for k in res.keys]
    if row.mutates is not None or row.returns != "tensor" or not any(p is not None and p.cheap for p in found):
        return None
    dense = tuple(
        intern(k.device, strided, k.dtype.plain) if p is not None and p.cheap else k
        for k, p in zip(res.keys, found, strict=True)
    )
    try:
        inner = _backend(row, res.mode, dense, res.slots, keyed, target, spec, hooked=True)
    except NoKernelError:
        return None
    out = Resolution(row, res.mode, res.keys, res.slots)
    out.how, out.inner, out.target, out.spec = "hooks", inner, target, spec
    out.candidates = res.candidates
    tensors = [k for k in res.keys if k.is_tensor]
    back = (
        row.kind == "elementwise"
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
        raise _missing(row, res.keys, None, ())
    if not point.frozen and res.casts[0] is None:
        kernel = choose(row, (x1, *cast[1:]), res.slots, everything)
        if kernel is not None:
            if any(k.is_tensor and k.device is not x1.device for k in res.keys):
                raise _several_devices(row, res.keys)
            res.kernel = kernel
            return res
    res.casts = (None,) * len(res.keys)
    inner = res.inner = _backend(functional, res.mode, res.keys, res.slots, keyed, None, None)
    if point.frozen:
        if inner.out is not None and inner.out is not x1:
            raise LayoutError(
                f"{row.name} would move {row.operands[0].name} from {x1} to {inner.out}; write x = {functional.name}(x, ...)"
            )
    elif inner.out is None or not _assignable(x1, inner.out):
        raise _missing(row, res.keys, None, res.candidates)
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
    if source is target and res.spec is None:
        res.out = target
        if not keyed.get("copy"):
            res.how = "identity"
            return res
        copy = kernel_for(rows["copy"], (source,))
        if copy is None:
            raise _missing(rows["copy"], res.keys, None, ())
        res.how, res.steps, res.kernel = "convert", ((copy, target),), copy
        res.point = kernels.find_point(target)
        return res
    steps = path(source, target, res.spec)
    if steps is None:
        raise _no_way(source, target)
    if keyed.get("copy") is False and res.row.name == "to":
        raise AliasError(f"converting {source} to {target} needs a copy, and copy=False forbids it")
    res.how, res.steps, res.out = "convert", steps, target
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


def _named(row: Row, keys: tuple[Key, ...]) -> list[tuple[str, Key]]:
    return [(row.operands[min(i, len(row.operands) - 1)].name, k) for i, k in enumerate(keys) if k is not ABSENT]


def _several_devices(row: Row, keys: tuple[Key, ...]) -> DeviceError:
    listed = ", ".join(f"argument {n}: {k.device}" for n, k in _named(row, keys) if k.is_tensor)
    return DeviceError(f"{row.name}: the tensors are on several devices ({listed}); move them with .to(device)")


def _missing(row: Row, keys: tuple[Key, ...], target: Key | None, candidates: tuple[Kernel, ...]) -> Exception:
    tensors = [k for k in keys if k.is_tensor]
    named = _named(row, keys)
    if len({k.device for k in tensors}) > 1:
        return _several_devices(row, keys)
    for k in tensors:
        if kernels.find_point(k) is None:
            plugin = plugins.broken_provider(k)
            if plugin is not None:
                return plugins.unusable(plugin, f"the point {k}")
    pairs = tuple((n, k.name) for n, k in named) + ((("target", target.name),) if target is not None else ())
    have = kernels.kernels.get(row.name, ())
    wanted = tensors[0] if tensors else target
    nearest: dict[str, int] = {}
    for kernel in have:
        pattern = kernel.every or next(iter(kernel.args or ()), None)
        if pattern is not None and wanted is not None and type(pattern) is kernels.Pattern:
            text = ", ".join(str(a) for a in kernel.args) if kernel.args else str(pattern)
            far = (pattern.device not in ("*", wanted.device.type)) + (pattern.layout not in ("*", wanted.layout.name))
            nearest[f"({text})" if kernel.args else text] = far
    reasons = tuple(f"{k.origin} does not own a point of this call" for k in have if k not in candidates)
    layouts = sorted({k.layout.name for k in tensors if k.layout is not strided})
    dtypes = sorted({k.dtype.name for k in tensors if not k.dtype.is_plain})
    if layouts:
        hint = f"convert first: x.to(layout='strided') reads {', '.join(layouts)} as strided"
    elif dtypes:
        hint = f"convert first: x.dequantize() or x.to(dtype=...) reads {', '.join(dtypes)} as a plain dtype"
    else:
        hint = "no installed plugin registers this operator here; tripoint.plugins.report() lists them"
    return NoKernelError(row.name, pairs, tuple(sorted(nearest, key=nearest.__getitem__)), hint, reasons)
