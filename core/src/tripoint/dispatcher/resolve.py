"""What one combination of keys does, said as data before anything is built or run.

Order of resolution: a kernel for the points, the narrowest pattern winning; cheap hooks around the operator on strided
operands; a decomposition; the fallback policy in force; `NoKernelError`.
"""

from __future__ import annotations

from typing import Any

from tripoint import devices, kernels, plugins
from tripoint.dispatcher.layer import Layer, walk
from tripoint.dispatcher.outcome import misdeclared
from tripoint.dispatcher.refusals import changes_dtype, no_conversion, no_kernel, several_devices
from tripoint.dtypes import Defaults, DType, as_dtype, bool_, can_assign, is_weak
from tripoint.errors import AliasError, LayoutError, NoKernelError, PluginError, RegistrationError, TripointError, shown
from tripoint.kernels import Kernel, Point
from tripoint.keys import ABSENT, Key, intern
from tripoint.layouts import LayoutSpec, strided
from tripoint.modes import Mode
from tripoint.patterns import Origin
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
        point: what is said of payloads at ``out``, or ``None``.
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

    @property
    def all_slots(self) -> tuple[int, ...]:
        """``slots``, and for a target the place behind the operands."""
        return self.slots if self.target is None else (*self.slots, len(self.row.operands))

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
    found, tied, _ = kernels.select_derivative(row.name, keys, slots)
    return found is not None or bool(tied)


def _candidates(row: Row, keys: tuple[Key, ...]) -> tuple[Kernel, ...]:
    listed = [k for k in kernels.kernels.get(row.name, ()) if plugins.participates(k.origin, row, keys)]
    seen = []
    for key in keys:
        point = kernels.find_point(key) if key.is_tensor else None
        if point is not None and point.factory is not None and point not in seen:
            seen.append(point)
            if any(_registered_on(k, point) for k in listed):
                continue
            made = plugins.guarded(point.origin, f"factory({row.name})", point.factory, row)
            if made is not None and not callable(made):
                raise PluginError(f"{point.origin}: factory({row.name}) gives a kernel or None, not {shown(made)}")
            if made is not None:
                origin = Origin(point.origin.distribution, point.origin.version, made, row.name)
                listed.append(Kernel(row.name, made, origin, every=point.pattern))
    return tuple(listed)


def _registered_on(kernel: Kernel, point: Point) -> bool:
    """Whether a kernel is of the backend of a point, for tensors on that point alone: then its factory is not asked."""
    patterns = kernel.args if kernel.args is not None else (kernel.every,)
    return kernel.origin.distribution == point.origin.distribution and all(p == point.pattern for p in patterns)


def choose(row: Row, keys: tuple[Key, ...], slots: tuple[int, ...], candidates: tuple[Kernel, ...]) -> Kernel | None:
    """The kernel of the candidates that wins on these keys (the target's included), or ``None``.

    Raises:
        AmbiguousKernelError: two fit equally well.
    """
    kernel, tied = kernels.select(candidates, keys, slots)
    if tied:
        raise kernels.ambiguous(row.name, keys, tied)
    return kernel


def kernel_for(row: Row, keys: tuple[Key, ...]) -> Kernel | None:
    """The kernel of a row on exactly these keys, with no casts and no detours."""
    return choose(row, keys, tuple(range(len(keys))), _candidates(row, keys))


def _backend(res: Resolution, keyed: dict[str, Any], hooked: bool = False) -> Resolution:
    """Decide what computes a call beneath all layers; ``hooked`` if it is already behind hooks."""
    row, keys, target = res.row, res.keys, res.target
    if row.kind == "convert":
        return _conversion(res, keyed)
    wanted, result = _computed_in(res, keyed)
    res.casts = tuple(
        None if w is None or not k.is_tensor or w is k.dtype else w for w, k in zip(wanted, keys, strict=True)
    )
    cast = tuple(k if w is None else k.replace(dtype=w) for w, k in zip(res.casts, keys, strict=True))
    res.matched = cast if target is None else (*cast, target)
    res.candidates = () if res.parts else _candidates(row, keys if target is None else (*keys, target))
    if row.mutates is not None:
        return _inplace(res, result, keyed)
    kernel = choose(row, res.matched, res.all_slots, res.candidates) or _filled(res, wanted)
    if kernel is not None:
        res.how, res.kernel = "kernel", kernel
        if kernel.takes_target and not row.target:
            res.casts = (None,) * len(keys)
        res.out = target if target is not None else _out(res, kernel, res.matched, result)
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
    raise no_kernel(res, tuple(refused))


def _computed_in(res: Resolution, keyed: dict[str, Any]) -> tuple[tuple[DType | None, ...], DType | None]:
    """The dtype that the operator's rule wants each operand in, and the result's; ``None`` where it says nothing."""
    rule, keys = res.row.dtype, res.keys
    ruled = rule is not None and not res.row.target and any(k.is_tensor for k in keys)
    if rule is None or not ruled or not (rule.opaque or all(k.dtype.is_plain for k in keys if k is not ABSENT)):
        return (None,) * len(keys), None
    try:
        return rule(res.row.name, tuple(None if k is ABSENT else k.dtype for k in keys), keyed)
    except BaseException as error:
        misdeclared(res.row, "the dtype rule", error)


def _filled(res: Resolution, wanted: tuple[DType | None, ...]) -> Kernel | None:
    """The kernel that wins where Python scalars are made 0-d tensors first, and ``None`` where none does.

    A scalar among floats is computed in the tensor's dtype, so its own kind never widens a kernel's choice.
    """
    keys = res.keys
    first = next((k for k in keys if k.is_tensor), None)
    if first is None or not any(is_weak(k.dtype) for k in keys if k is not ABSENT):
        return None
    place = first.replace(layout=strided)
    fills = tuple(
        None if k.is_tensor or k is ABSENT else place.replace(dtype=_scalar_dtype(k, w, place))
        for k, w in zip(keys, wanted, strict=True)
    )
    filled = [fill or k for fill, k in zip(fills, res.matched, strict=False)]
    matched = (*filled, *res.matched[len(keys) :])
    kernel = choose(res.row, matched, res.all_slots, res.candidates)
    if kernel is not None:
        res.matched, res.fills = matched, fills
    return kernel


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


def _scalar_dtype(scalar: Key, wanted: DType | None, place: Key) -> DType:
    """The dtype of the 0-d payload that a Python scalar becomes at a place."""
    if wanted is not None and wanted.is_plain and not is_weak(wanted):
        return wanted
    if place.dtype.is_plain:
        return place.dtype
    return bool_ if scalar.dtype.name == "python bool" else Defaults.floating


def _out(res: Resolution, kernel: Kernel, keys: tuple[Key, ...], result: DType | None) -> Key:
    tensors = [k for k in keys if k.is_tensor]
    if kernel.out is not None:
        place = getattr(kernel.out, "by_rule", None)
        try:
            made = kernel.out(keys) if place is None or result is None else place(keys).replace(dtype=result)
        except TripointError:
            raise
        except BaseException as error:
            plugins.blame(plugins.plugin_behind(kernel.origin), f"{kernel.origin}: out=", error)
        if type(made) is not Key:
            raise RegistrationError(f"{kernel.origin}: out= must give a key, not {shown(made)}")
        return made.base
    first = tensors[0]
    if any(k.device is not first.device for k in tensors):  # of one type: a pattern names no index
        raise several_devices(res, keys)
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


def _inplace(res: Resolution, result: DType | None, keyed: dict[str, Any]) -> Resolution:
    """A kernel of the in-place form, or the functional operator and a write of what it gives; ``result`` is its dtype."""
    row, x1 = res.row, res.keys[0]
    functional = row.functional
    assert functional is not None
    if result is not None and x1.dtype.is_plain and not can_assign(result, x1.dtype):
        raise changes_dtype(row, x1.dtype, result)
    res.how, res.out = "inplace", x1
    point = res.point = kernels.find_point(x1)
    if point is None:
        raise no_kernel(res)
    if not point.frozen and res.casts[0] is None:
        kernel = choose(row, (x1, *res.matched[1:]), res.slots, res.candidates)
        if kernel is not None:
            if any(k.is_tensor and k.device is not x1.device for k in res.keys):
                raise several_devices(res, res.keys)
            res.kernel = kernel
            return res
    res.casts = (None,) * len(res.keys)
    inner = res.inner = _backend(Resolution(functional, res.mode, res.keys, res.slots), keyed)
    made = inner.out
    if made is None:  # the parts of a decomposition, which come out as they like
        raise no_kernel(res)
    home = x1 if comes_home(made, x1) else made
    if home.replace(dtype=x1.dtype) is not x1 if point.frozen else home.layout is not x1.layout:
        raise LayoutError(
            f"{row.name} would move {row.operands[0].name} from {x1} to {made}; write x = {functional.name}(x, ...)"
        )
    cast = made.replace(dtype=x1.dtype.plain if home is x1 else x1.dtype)
    if made is not cast and (
        kernel_for(rows["astype"], (made, cast)) is None or (home is x1 and not can_assign(made.dtype, cast.dtype))
    ):
        raise changes_dtype(row, x1.dtype, made.dtype)
    if not point.frozen and not _assignable(x1, home):
        raise no_kernel(res)
    return res


def comes_home(made: Key, x1: Key) -> bool:
    """Whether the result of an in-place form comes to the point of the tensor that it is written into through cheap hooks."""
    point = kernels.find_point(x1)
    strange = x1.layout is not strided or not x1.dtype.is_plain
    there = made.layout is strided and made.dtype.is_plain and made.device is x1.device
    return strange and there and point is not None and point.cheap and point.from_strided is not None


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
            raise no_kernel(Resolution(rows["copy"], res.mode, res.keys, res.slots))
        res.how, res.steps, res.kernel = "convert", ((copy, target),), copy
        res.point = kernels.find_point(target)
        return res
    steps = path(source, target, res.spec)
    if steps is None:
        raise no_conversion(source, target, served=res.spec is not None and path(source, target) is not None)
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


def between(source: Key, target: Key) -> set[Key]:
    """The points that a conversion of several steps may touch on its way."""
    return {
        intern(device, layout, dtype)
        for device in (source.device, target.device, devices.cpu)
        for layout in (source.layout, strided, target.layout)
        for dtype in (source.dtype, source.dtype.plain, target.dtype.plain, target.dtype)
    } - {source, target}


def path(source: Key, target: Key, spec: LayoutSpec | None = None) -> tuple[tuple[Kernel, Key], ...] | None:
    """The shortest chain of at most three conversions, planned over keys."""
    direct = edge(source, target, spec)
    if direct is not None:
        return ((direct, target),)
    ways = between(source, target)
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
