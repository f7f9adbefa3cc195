"""`Backend`: what computes on one point pattern, as an object that an entry point names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pluggy

from tripoint.allocators import Allocator
from tripoint.devices import Device
from tripoint.dtypes import DType, DTypeClass
from tripoint.errors import RegistrationError, shown
from tripoint.hookspecs import PROJECT
from tripoint.kernels import make_derivative, row_of
from tripoint.layouts import Layout, LayoutSpec, strided
from tripoint.patterns import SCALAR, Pattern
from tripoint.plugin.expectations import Capabilities
from tripoint.plugins import Registry
from tripoint.schema import Row, rows
from tripoint.streams import Streams

__all__ = ["Backend", "as_pattern", "hookimpl"]

F = TypeVar("F", bound=Callable[..., Any])

hookimpl = pluggy.HookimplMarker(PROJECT)


class Backend:
    """What computes on one point pattern.

    Args:
        device: a Device that this backend brings, the name of one that another plugin brings, or ``"*"``.
        layout: a Layout, `strided` or one that this backend brings.
        dtype: an opaque DType that this backend brings, or several; without it the backend serves the plain dtypes.
        payload: class of what tensors carry here; any object with ``.shape``.
        describe: function of a payload giving ``dtype``, for a device with ``indexed=True`` the ``device``, and where they
            apply ``address`` and ``nbytes`` (of the allocation, which views share), ``strides`` and ``offset`` (in elements),
            ``itemsize`` (in bytes) and ``readonly``.
        aliases: ``aliases(out, x)``, whether two payloads share memory; needed where operators return views.
        to_strided, from_strided: the two hooks of a layout, ``to_strided(p)`` and ``from_strided(dense, like=p)``.
        decode, encode: the two hooks of a dtype, ``decode(p)`` to the plain payload and ``encode(dense, like=p)``.
        cheap: operators without a kernel may go through the hooks, what in-place forms give comes back through them, and a
            number format is differentiated in the dtype of its gradients.
        frozen: payloads are never written; in-place forms bind a new one.
        summary: function of a payload giving a few words for printing.
        spec: for a layout with parameters, function of a payload giving the layout with those that it has, a LayoutSpec;
            ``x.to(other)`` takes them over.
        current: function giving the index of the current device, for a device with ``indexed=True``.
        count: how many of these devices there are, or a function giving that, asked once, when one of them is first used;
            without it any index is taken, and the driver has to refuse.
        coerce: makes a payload of what a kernel returned when that is of another class.
        quiet: a context manager's constructor, in which a kernel that raised FloatingPointError runs again.
        allocator: an Allocator; for a device with ``indexed=True`` a function that makes one of a Device. What `allocator`
            gives is what ``tripoint.memory`` counts and limits.
        streams: the queues that the device works on, an object like `Streams`; without it, a call is done when it returns.
        capabilities: what the conformance kit may expect, a `Capabilities`; without it, what is registered says so.
    """

    def __init__(
        self,
        device: Device | str,
        layout: Layout,
        dtype: DType | tuple[DType, ...] | None = None,
        *,
        payload: type,
        describe: Callable[[Any], dict[str, Any]] | None = None,
        aliases: Callable[[Any, Any], bool] | None = None,
        to_strided: Callable[[Any], Any] | None = None,
        from_strided: Callable[..., Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        encode: Callable[..., Any] | None = None,
        cheap: bool = False,
        frozen: bool = False,
        summary: Callable[[Any], str] | None = None,
        spec: Callable[[Any], LayoutSpec] | None = None,
        current: Callable[[], int] | None = None,
        count: int | Callable[[], int] | None = None,
        coerce: Callable[[Any], Any] | None = None,
        quiet: Callable[[], Any] | None = None,
        allocator: Allocator | Callable[[Device], Allocator] | None = None,
        streams: Streams | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        self.dtypes = dtype if isinstance(dtype, tuple) else () if dtype is None else (dtype,)
        _check(device, layout, self.dtypes, payload, streams, count)
        self.device = device if isinstance(device, Device) else None
        self.layout = layout
        name = device.type if isinstance(device, Device) else device
        self.patterns = tuple(Pattern(name, layout.name, d.name) for d in self.dtypes) or (Pattern(name, layout.name),)
        self.payload = payload
        self._hooks: dict[str, Any] = {
            "describe": describe,
            "aliases": aliases,
            "to_strided": to_strided or decode,
            "from_strided": from_strided or encode,
            "cheap": cheap,
            "frozen": frozen,
            "summary": summary,
            "spec": spec,
            "current": current,
            "count": count,
            "coerce": coerce,
            "quiet": quiet,
            "allocator": self.allocator if allocator is not None else None,
            "streams": streams,
            "capabilities": capabilities,
        }
        self._pool = allocator
        self._pools: dict[Device | None, Allocator] = {}
        if isinstance(allocator, Allocator):
            allocator.name = name  # also before anybody asks for it by its device
        self._probe: Callable[[], str | None] | None = None
        self._memory: Callable[[], dict[str, dict[str, int]] | str | None] | None = None
        self._shutdown: Callable[[], None] | None = None
        self._staged: list[Callable[[Registry], None]] = []

    def probe(self, fn: Callable[[], str | None]) -> Callable[[], str | None]:
        """Decorate the function that says why the hardware cannot be used, or ``None`` when it can."""
        self._probe = fn
        return fn

    def allocator(self, device: Device | None = None) -> Allocator:
        """What hands out the memory of a device; it is made when first asked for, and kept.

        Raises:
            RegistrationError: what ``allocator=`` gives is none.
        """
        where = device or self.device
        found = self._pools.get(where)
        if found is None:
            made = self._pool(where) if callable(self._pool) and where is not None else self._pool
            if not isinstance(made, Allocator):
                raise RegistrationError(f"Backend: allocator= must give a tripoint.plugin.Allocator, not {made!r}")
            found = self._pools.setdefault(where, made)
            found.name = str(where or self.patterns[0].device)
        return found

    def memory_stats(self, fn: Callable[[], Any]) -> Callable[[], Any]:
        """Decorate the function that counts memory; what it gives is said at the hook ``tripoint_memory_stats``."""
        self._memory = fn
        return fn

    def describe(self, fn: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
        """Decorate the function that describes a payload."""
        self._hooks["describe"] = fn
        return fn

    def factory(self, fn: Callable[[Row], Callable[..., Any] | None]) -> Callable[[Row], Callable[..., Any] | None]:
        """Decorate a function that makes a kernel for an operator without a registered one, or gives ``None``."""
        self._hooks["factory"] = fn
        return fn

    def shutdown(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Decorate the function that releases, at the interpreter's end, what that would not."""
        self._shutdown = fn
        return fn

    def kernels(
        self,
        table: Mapping[str, Callable[..., Any]] | None = None,
        /,
        *,
        scalars: bool = False,
        optional: bool = False,
        **functions: Callable[..., Any],
    ) -> None:
        """Register functions for operators by name, every operand on this backend's point.

        Args:
            table: functions by qualified name, as ``{"add": driver.add, "mylib::swish": driver.swish}``.
            scalars: the functions also take a Python number in place of any one tensor.
            optional: as in `kernel`.
            functions: more of them, as ``add=driver.add``.
        """
        for name, fn in {**(table or {}), **functions}.items():
            self._stage(name, fn, None, None, False, optional)
            if scalars:
                self._staged.append(self._with_scalars(name, fn))

    def kernels_by_dtype(self, **tables: Mapping[DType | DTypeClass, Callable[..., Any]]) -> None:
        """Register functions for operators by name and dtype: ``add={float32: add_f, floating: add_any}``.

        A function stands for one dtype, or for every dtype of a class; the narrowest wins. All tensors of the call have
        that dtype, after promotion: an operator that mixes dtypes, such as ``where``, takes `kernel` with ``args=``. For
        creation it is the dtype of the result. One function per dtype is ``{d: make(d) for d in dtypes_in(floating)}``.

        Raises:
            RegistrationError: a key that is neither a dtype nor a class of them, or this backend serves opaque dtypes.
        """
        if self.dtypes:
            raise RegistrationError(
                f"kernels_by_dtype is for plain dtypes; this backend serves {', '.join(d.name for d in self.dtypes)}: "
                "use kernels(...) or kernel(..., args=...)"
            )
        for name, table in tables.items():
            for dtype, fn in table.items():
                if not isinstance(dtype, (DType, DTypeClass)):
                    raise RegistrationError(
                        f"kernels_by_dtype({name}=...): {dtype!r} is no dtype, such as tripoint.float32, and no class of "
                        "them, such as tripoint.plugin.floating"
                    )
                named = dtype if isinstance(dtype, DTypeClass) else dtype.name
                self._staged.append(_on_every(name, fn, Pattern(self.patterns[0].device, self.layout.name, named)))

    def _with_scalars(self, name: str, fn: Callable[..., Any]) -> Callable[[Registry], None]:
        def stage(registry: Registry) -> None:
            row = rows.get(name)
            count = len(row.operands) if row is not None else 0
            for pattern in self.patterns:
                for i in range(count):
                    args = tuple(SCALAR if j == i else pattern for j in range(count))
                    registry.kernel(name, fn, args=args)

        return stage

    def kernel(
        self,
        operator: Callable[..., Any] | str,
        *,
        args: tuple[Any, ...] | None = None,
        out: object = None,
        check_first: bool | Callable[..., None] = False,
        optional: bool = False,
    ) -> Callable[[F], F]:
        """Decorate a kernel.

        Args:
            operator: the operator, or its qualified name; ``"add_"`` is the in-place form of ``"add"``.
            args: one pattern per dispatch argument (the target last, for creation and conversion): a Layout or DType on
                this backend's device, a point such as ``"cpu.strided"``, `scalar`, or a `Pattern`. Without it every
                argument is on this backend's point.
            out: the result's point where it is not the operands': a Layout, a DType, a tuple of these, or a function of
                the argument keys.
            check_first: run the operator's shape rule before, since the kernel would not refuse bad arguments. A function
                runs after that rule: ``check(shapes, **metadata)``, called as a shape rule is and, if it names ``target``, with
                the key of the result, raises for shapes that the operator takes and this kernel does not. The first line of
                its documentation says which it takes: explanations and coverage show it.
            optional: the operator may be unknown here, as one of a newer core or of a package that is not imported. The kernel
                then waits for it, and everything else is registered; without this an unknown name refuses the backend.
        """
        name = operator if isinstance(operator, str) else row_of(operator).name

        def decorate(fn: F) -> F:
            self._stage(name, fn, args, out, check_first, optional)
            return fn

        return decorate

    def _stage(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...] | None,
        out: object,
        check_first: bool | Callable[..., None],
        optional: bool = False,
    ) -> None:
        said: dict[str, Any] = {"out": out, "check_first": check_first, "optional": optional}
        if args is not None:
            given = tuple(self._pattern(a) for a in args)
            self._staged.append(lambda r: r.kernel(name, fn, args=given, **said))
            return

        def stage(registry: Registry) -> None:
            for pattern in self.patterns:
                registry.kernel(name, fn, every=pattern, **said)

        self._staged.append(stage)

    def _pattern(self, value: Any) -> Pattern:
        if value is self.layout and self.dtypes:
            return self.patterns[0]
        return as_pattern(value, self.patterns[0].device, self.layout.name)

    def to(self, point: Any, *, source: Any = None) -> Callable[[F], F]:
        """Decorate the kernel that converts payloads of this backend (or of ``source``) to another point."""

        def decorate(fn: F) -> F:
            sources = (self._pattern(source),) if source is not None else self.patterns
            for pattern in sources:
                self._stage("to", fn, (pattern, self._pattern(point)), None, False)
            return fn

        return decorate

    def from_(self, point: Any) -> Callable[[F], F]:
        """Decorate the kernel that converts payloads of another point to this backend's."""

        def decorate(fn: F) -> F:
            for pattern in self.patterns:
                self._stage("to", fn, (self._pattern(point), pattern), None, False)
            return fn

        return decorate

    def derivative(
        self,
        operator: Callable[..., Any] | str,
        *,
        args: tuple[Any, ...] | None = None,
        **functions: Callable[..., Any],
    ) -> None:
        """State a derivative for patterns of this backend; the arguments are those of `derivative`."""
        given = tuple(self._pattern(a) for a in args) if args is not None else None
        self._staged.append(lambda r: r.derivative(make_derivative(operator, given, functions)))

    @hookimpl
    def tripoint_probe(self) -> str | None:
        """Hook: why the hardware cannot be used."""
        return self._probe() if self._probe is not None else None

    @hookimpl
    def tripoint_memory_stats(self) -> dict[str, dict[str, int]] | str | None:
        """Hook: what is counted of memory."""
        return self._memory() if self._memory is not None else None

    @hookimpl
    def tripoint_shutdown(self) -> None:
        """Hook: the interpreter ends."""
        if self._shutdown is not None:
            self._shutdown()

    @hookimpl
    def tripoint_register(self, registry: Registry) -> None:
        """Hook: stage everything that was stated on this object."""
        if self.device is not None:
            registry.device(self.device)
        if self.layout is not strided:
            registry.layout(self.layout)
        for dtype in self.dtypes:
            registry.dtype(dtype)
        for pattern in self.patterns:
            registry.point(pattern, self.payload, probe=self._probe, **self._hooks)
        for stage in self._staged:
            stage(registry)


def _check(
    device: object, layout: object, dtypes: tuple[object, ...], payload: object, streams: object, count: object
) -> None:
    """Refuse what no Backend can be made of.

    Raises:
        RegistrationError: something of another kind.
        DeviceError: no name of a device.
    """
    given: list[tuple[str, object, tuple[type, ...]]] = [
        ("device", device, (Device, str)),
        ("layout", layout, (Layout,)),
        ("payload", payload, (type,)),
        *[("dtype", d, (DType,)) for d in dtypes],
    ]
    for what, value, kinds in given:
        if not isinstance(value, kinds):
            names = " or ".join(k.__name__ for k in kinds)
            raise RegistrationError(f"Backend: {what} must be a {names}, not {value!r}")
    powers = ("default", "create", "synchronize")
    if streams is not None and not all(callable(getattr(streams, power, None)) for power in powers):
        raise RegistrationError(
            f"Backend: streams must be an object with {', '.join(powers)}, as Streams says, not {shown(streams)}"
        )
    if count is not None and not (callable(count) or (type(count) is int and count >= 0)):
        raise RegistrationError(
            f"Backend: count is how many devices there are, or a function giving that, not {shown(count)}"
        )
    if isinstance(device, str) and device != "*":
        Device(device)  # which says what a device's name may be


def _on_every(name: str, fn: Callable[..., Any], pattern: Pattern) -> Callable[[Registry], None]:
    return lambda registry: registry.kernel(name, fn, every=pattern)


def as_pattern(value: Any, device: str = "*", layout: str = "*") -> Pattern:
    """An argument pattern as authors write it; what ``value`` does not say is ``device`` and ``layout``.

    Args:
        value: a Pattern, a Backend, a Layout, a DType, a class of dtypes, a tuple of device, layout and dtype, or a point
            such as ``"cpu.strided"``.

    Raises:
        RegistrationError: anything else.
    """
    if isinstance(value, Pattern):
        return value
    if isinstance(value, Backend):
        return value.patterns[0]
    if isinstance(value, Layout):
        return Pattern(device, value.name)
    if isinstance(value, DType):
        return Pattern(device, layout, value.name)
    if isinstance(value, DTypeClass):
        return Pattern(device, layout, value)
    if isinstance(value, tuple) and len(value) in (2, 3):
        words = [v.type if isinstance(v, Device) else v.name if isinstance(v, (Layout, DType)) else v for v in value]
        return Pattern(*words)
    if isinstance(value, str):
        parts = value.split(".")
        if len(parts) in (2, 3):
            return Pattern(*parts)
    raise RegistrationError(f"{value!r} is no argument pattern; write a Layout, a DType, 'device.layout' or scalar")
