"""The authoring API: everything that a plugin's author imports.

A backend is an object named by an entry point of ``tripoint.backends.v1``. Making it has no side effect; its kernels are
registered when a point that the entry point's name covers is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pluggy

from tripoint import dtypes as _dt
from tripoint import kernels as _kernels
from tripoint.devices import Device as Device
from tripoint.dispatcher.calls import resolution as _resolution
from tripoint.dispatcher.declare import composite as composite
from tripoint.dispatcher.declare import inplace as inplace
from tripoint.dispatcher.declare import primitive as primitive
from tripoint.dispatcher.layer import FLOORS as FLOORS
from tripoint.dispatcher.layer import Layer as Layer
from tripoint.dispatcher.resolve import Resolution as Resolution
from tripoint.dtypes import DType as DType
from tripoint.dtypes import DTypeClass as DTypeClass
from tripoint.errors import RegistrationError
from tripoint.hookspecs import PROJECT
from tripoint.kernels import SCALAR as scalar
from tripoint.kernels import Derivative as Derivative
from tripoint.kernels import Pattern as Pattern
from tripoint.kernels import make_derivative as _make_derivative
from tripoint.kernels import row_of as row_of
from tripoint.keys import Key as Key
from tripoint.keys import intern as key
from tripoint.layouts import Layout as Layout
from tripoint.layouts import LayoutSpec as LayoutSpec
from tripoint.layouts import strided as strided
from tripoint.plugins import Registry as Registry
from tripoint.plugins import plugin_of as _plugin_of
from tripoint.rules import DTypeRule as DTypeRule
from tripoint.schema import Row as Row
from tripoint.schema import rows as _rows
from tripoint.tensor import Operand as Operand
from tripoint.tensor import Tensor as Tensor
from tripoint.tensor import wrap as wrap

F = TypeVar("F", bound=Callable[..., Any])

hookimpl = pluggy.HookimplMarker(PROJECT)
plain = _dt.plain
boolean = _dt.boolean
numeric = _dt.numeric
real = _dt.real
integral = _dt.integral
floating = _dt.floating
complex_floating = _dt.complex_floating
PROTOCOL = 1

__all__ = [
    "FLOORS",
    "PROTOCOL",
    "Backend",
    "DType",
    "DTypeClass",
    "DTypeRule",
    "Derivative",
    "Device",
    "Key",
    "Layer",
    "Layout",
    "LayoutSpec",
    "Operand",
    "Pattern",
    "Registry",
    "Resolution",
    "Row",
    "Tensor",
    "boolean",
    "complex_floating",
    "composite",
    "derivative",
    "floating",
    "hookimpl",
    "inplace",
    "integral",
    "key",
    "minimal",
    "numeric",
    "operators",
    "payload",
    "plain",
    "primitive",
    "real",
    "register",
    "resolve",
    "row_of",
    "scalar",
    "strided",
    "wrap",
]


def minimal() -> tuple[str, ...]:
    """Names of the operators that give a usable namespace, those that autograd itself calls among them."""
    return tuple(sorted(name for name, row in _rows.items() if row.minimal))


def operators() -> dict[str, Callable[..., Any]]:
    """Every operator declared so far by qualified name, those among them that only formulas of derivatives use."""
    return {name: row.call for name, row in _rows.items()}


def payload(tensor: Tensor) -> Any:
    """What the tensor carries, as its kernels see it."""
    return tensor._payload


def resolve(operator: Callable[..., Any], *operands: Any, **meta: Any) -> Resolution:
    """What a call would do, as data; nothing is run."""
    row = row_of(operator)
    values = tuple([meta.get(p.name, p.default) for p in row.metas])
    given = (*operands, *[p.default for p in row.operands[len(operands) :]])
    return _resolution(row, given, values)


class Backend:
    """What computes on one point pattern.

    Args:
        device: a Device that this backend brings, the name of one that another plugin brings, or ``"*"``.
        layout: a Layout, `strided` or one that this backend brings.
        dtype: an opaque DType that this backend brings, or several; without it the backend serves the plain dtypes.
        payload: class of what tensors carry here; any object with ``.shape``.
        describe: function of a payload giving ``dtype``, and where they apply ``address``, ``nbytes``, ``strides`` (in
            elements) and ``readonly``.
        aliases: ``aliases(out, x)``, whether two payloads share memory; needed where operators return views.
        to_strided, from_strided: the two hooks of a layout, ``to_strided(p)`` and ``from_strided(dense, like=p)``.
        decode, encode: the two hooks of a dtype, ``decode(p)`` to the plain payload and ``encode(dense, like=p)``.
        cheap: operators without a kernel may go through the hooks.
        frozen: payloads are never written; in-place forms bind a new one.
        summary: function of a payload giving a few words for printing.
        current: function giving the index of the current device, for a device with ``indexed=True``.
        coerce: makes a payload of what a kernel returned when that is of another class.
        quiet: a context manager's constructor, in which a kernel that raised FloatingPointError runs again.
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
        current: Callable[[], int] | None = None,
        coerce: Callable[[Any], Any] | None = None,
        quiet: Callable[[], Any] | None = None,
    ) -> None:
        opaque = dtype if isinstance(dtype, tuple) else () if dtype is None else (dtype,)
        given: list[tuple[str, object, tuple[type, ...]]] = [
            ("device", device, (Device, str)),
            ("layout", layout, (Layout,)),
            ("payload", payload, (type,)),
            *[("dtype", d, (DType,)) for d in opaque],
        ]
        for what, value, kinds in given:
            if not isinstance(value, kinds):
                names = " or ".join(k.__name__ for k in kinds)
                raise RegistrationError(f"Backend: {what} must be a {names}, not {value!r}")
        if isinstance(device, str) and device != "*":
            Device(device)  # which says what a device's name may be
        self.device = device if isinstance(device, Device) else None
        self.layout = layout
        self.dtypes = dtype if isinstance(dtype, tuple) else (dtype,) if dtype is not None else ()
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
            "current": current,
            "coerce": coerce,
            "quiet": quiet,
        }
        self._probe: Callable[[], str | None] | None = None
        self._memory: Callable[[], dict[str, dict[str, int]] | str | None] | None = None
        self._staged: list[Callable[[Registry], None]] = []

    def probe(self, fn: Callable[[], str | None]) -> Callable[[], str | None]:
        """Decorate the function that says why the hardware cannot be used, or ``None`` when it can."""
        self._probe = fn
        return fn

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

    def kernels(self, *, scalars: bool = False, **functions: Callable[..., Any]) -> None:
        """Register functions for operators by name, every operand on this backend's point.

        Args:
            scalars: the functions also take a Python number in place of any one tensor.
        """
        for name, fn in functions.items():
            self._stage(name, fn, None, None, False)
            if scalars:
                self._staged.append(self._with_scalars(name, fn))

    def _with_scalars(self, name: str, fn: Callable[..., Any]) -> Callable[[Registry], None]:
        def stage(registry: Registry) -> None:
            row = _rows.get(name)
            count = len(row.operands) if row is not None else 0
            for pattern in self.patterns:
                for i in range(count):
                    args = tuple(scalar if j == i else pattern for j in range(count))
                    registry.kernel(name, fn, args=args)

        return stage

    def kernel(
        self,
        operator: Callable[..., Any] | str,
        *,
        args: tuple[Any, ...] | None = None,
        out: object = None,
        check_first: bool = False,
    ) -> Callable[[F], F]:
        """Decorate a kernel.

        Args:
            operator: the operator, or its qualified name; ``"add_"`` is the in-place form of ``"add"``.
            args: one pattern per dispatch argument (the target last, for creation and conversion): a Layout or DType on
                this backend's device, a point such as ``"cpu.strided"``, `scalar`, or a `Pattern`. Without it every
                argument is on this backend's point.
            out: the result's point where it is not the operands': a Layout, a DType, a tuple of these, or a function of
                the argument keys.
            check_first: run the operator's shape rule before, since the kernel would not refuse bad arguments.
        """
        name = operator if isinstance(operator, str) else row_of(operator).name

        def decorate(fn: F) -> F:
            self._stage(name, fn, args, out, check_first)
            return fn

        return decorate

    def _stage(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...] | None, out: object, check_first: bool
    ) -> None:
        if args is not None:
            given = tuple(self._pattern(a) for a in args)
            self._staged.append(lambda r: r.kernel(name, fn, args=given, out=out, check_first=check_first))
            return

        def stage(registry: Registry) -> None:
            for pattern in self.patterns:
                registry.kernel(name, fn, every=pattern, out=out, check_first=check_first)

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
        self._staged.append(lambda r: r.derivative(_make_derivative(operator, given, functions)))

    @hookimpl
    def tripoint_probe(self) -> str | None:
        """Hook: why the hardware cannot be used."""
        return self._probe() if self._probe is not None else None

    @hookimpl
    def tripoint_memory_stats(self) -> dict[str, dict[str, int]] | str | None:
        """Hook: what is counted of memory."""
        return self._memory() if self._memory is not None else None

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


def derivative(
    operator: Callable[..., Any] | str, *, args: tuple[Any, ...] | None = None, **functions: Callable[..., Any]
) -> Derivative:
    """State the derivative of an operator: for each operand, a function from the gradient of the result to its gradient.

    The parameters after the first say what the function needs: operands and ``out`` (saved), ``<operand>_shape`` and
    ``<operand>_key`` (of the receiving tensor; nothing is saved), and metadata by its own name. Written in operators.
    The engine sums broadcast axes, casts, and fills up, so a formula need not. It counts as stated by the installed
    plugin whose package ``functions`` come from, else by the running program.

    Args:
        operator: the operator, or its qualified name.
        args: one pattern per dispatch argument, on any device: a Layout, a DType, ``"cpu.strided"``, or a `Pattern`. Without
            it the row holds for plain dtypes in any layout.
        functions: ``operand=function``.

    Raises:
        RegistrationError: an operand that the operator does not have, a parameter that nothing provides, or another
            derivative on the same patterns stated before.
    """
    given = tuple(as_pattern(a) for a in args) if args is not None else None
    made = _make_derivative(operator, given, functions)
    import tripoint.derivatives  # noqa: F401 - the core's own load late, and are what is most often stated again

    for other in _kernels.derivatives.get(made.operator, ()):
        if other.origin.distribution == "tripoint" and (other.every, other.args) == (made.every, made.args):
            raise RegistrationError(
                f"{made.operator} has a derivative on these patterns already: {other.origin}; "
                "state a narrower one with args=, such as args=('cpu.strided.float32',)"
            )
    owner = _plugin_of(next(iter(functions.values())))
    registry = Registry(owner.name, owner.version) if owner is not None else Registry()
    registry.derivative(made)
    registry.commit()
    return made


def register(backend: Backend) -> None:
    """Register a backend of the running program itself, without an entry point. Once more is no change.

    Raises:
        RegistrationError: something does not fit the schema; nothing is changed.
    """
    registry = Registry()
    backend.tripoint_register(registry)
    registry.commit()
