"""The authoring API: everything that a plugin's author imports, besides `tripoint` itself and `tripoint.errors`.

A backend is an object named by an entry point of ``tripoint.backends.v1``. Making it has no side effect; its kernels are
registered when a point that the entry point's name covers is first needed. A layer is a class named by an entry point of
``tripoint.layers.v1``; it takes part where a program enters it. ``python -m tripoint.plugin`` prints the kernels that a
backend should have first.
"""

from __future__ import annotations

import sys as _sys
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, TypeVar

import pluggy

from tripoint import checks as check
from tripoint import dtypes as _dt
from tripoint import kernels as _kernels
from tripoint import rules as rules
from tripoint.allocators import Allocator as Allocator
from tripoint.allocators import Block as Block
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
from tripoint.errors import RegistrationError, shown
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
from tripoint.plugins import plugin_named as _plugin_named
from tripoint.plugins import plugin_naming as _plugin_naming
from tripoint.plugins import plugin_of as _plugin_of
from tripoint.rules import DTypeRule as DTypeRule
from tripoint.schema import Row as Row
from tripoint.schema import rows as _rows
from tripoint.streams import Marker as Marker
from tripoint.streams import Queue as Queue
from tripoint.streams import Streams as Streams
from tripoint.streams import queue as queue
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
signed_integer = _dt.signed_integer
unsigned_integer = _dt.unsigned_integer
floating = _dt.floating
complex_floating = _dt.complex_floating
PROTOCOL = 1

__all__ = [
    "FLOORS",
    "PROTOCOL",
    "Allocator",
    "Backend",
    "Block",
    "Capabilities",
    "DType",
    "DTypeClass",
    "DTypeRule",
    "Derivative",
    "Device",
    "Key",
    "Layer",
    "Layout",
    "LayoutSpec",
    "Marker",
    "Operand",
    "Pattern",
    "Queue",
    "Registry",
    "Resolution",
    "Row",
    "Sample",
    "Streams",
    "Tensor",
    "boolean",
    "check",
    "complex_floating",
    "composite",
    "derivative",
    "dtypes_in",
    "floating",
    "hookimpl",
    "inplace",
    "integral",
    "kernel",
    "kernel_signature",
    "key",
    "minimal",
    "nested",
    "numeric",
    "operators",
    "payload",
    "plain",
    "primitive",
    "queue",
    "real",
    "register",
    "resolve",
    "row_of",
    "rules",
    "scalar",
    "signed_integer",
    "strided",
    "unnested",
    "unsigned_integer",
    "wrap",
]


def minimal() -> tuple[str, ...]:
    """Names of the operators that give a usable namespace, those that autograd itself calls among them."""
    return tuple(sorted(name for name, row in _rows.items() if row.minimal))


def kernel_signature(operator: Callable[..., Any] | str) -> str:
    """How a kernel of an operator is called: payloads by position, metadata by keyword, axes already counted from 0.

    Creation and conversion also give ``target``, the key of the result, to a kernel that names it.

    Raises:
        RegistrationError: there is no such operator.
    """
    row = _rows.get(operator) if isinstance(operator, str) else row_of(operator)
    if row is None:
        raise RegistrationError(f"there is no operator {operator!r}; tripoint.plugin.operators() has them all")
    metas = [p.name for p in row.metas if p.name not in row.keyed] + ["target"] * bool(row.target)
    words = [f"[{p.name}, ...]" if p.role == "variadic" else p.name for p in row.operands]
    return f"{row.name}({', '.join([*words, *['*'] * bool(metas), *metas])})"


def dtypes_in(*classes: DTypeClass) -> tuple[DType, ...]:
    """Every plain dtype in one of these classes, small ones first: what a table for `Backend.kernels_by_dtype` is made of."""
    return tuple(d for d in _dt.PLAIN.values() if any(d in c for c in classes))


def unnested(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers of what `from_data` is given, in row-major order, and their shape.

    Args:
        data: nested lists or tuples, a Python number, or an array with ``tolist``.
    """
    level = data.tolist() if hasattr(data, "tolist") else data
    shape: list[int] = []
    level = [level]
    while any(isinstance(part, (list, tuple)) for part in level):
        shape.append(len(level[0]))
        level = [value for part in level for value in part]
    return level, tuple(shape)


def nested(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Numbers in row-major order as nested lists of a shape, which is what `to_list` gives; a number for the shape ()."""
    if not shape:
        return values[0]
    out = list(values)
    for i in range(len(shape) - 1, 0, -1):
        out = [out[j * shape[i] : (j + 1) * shape[i]] for j in range(prod(shape[:i]))]
    return out


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


class Capabilities(NamedTuple):
    """What the conformance kit may expect of a backend. It holds the backend to it both ways: what is not declared lacking
    must work, and what is declared lacking must be refused by an error of `tripoint.errors`.

    Attributes:
        dtypes: names or classes of the dtypes that tensors here can have; ``None``: those of which one can be made.
        ranks: the smallest and the largest number of axes, ``None`` for no largest.
        views: whether operators return views; ``None``: as the layout says.
        mutation: whether a write changes memory that aliases see; ``None``: unless the backend is frozen.
        elements: whether tensors hold elements that can be read.
        nonfinite: whether the dtypes hold NaN and infinities.
        make: for a point that needs parameters, an expression that makes a tensor here of the strided CPU tensor ``{x}``, with
            ``tp`` for tripoint: ``"tp.quantize({x}, tp.affine(0.25, dtype='{dtype}'))"``.
        lacks: what the backend does not do, each with the reason that its users are told. A key is an operator, or ``*`` for
            whatever has no kernel; behind a dot may stand a dtype, a class of dtypes, or a kind of call: ``broadcast``,
            ``scalar`` (a Python number among the operands), ``empty``, ``mixed`` (dtypes), ``view`` (operands that are views),
            ``0-d``, ``1-d`` and so on (numbers of axes), ``gradient``. ``None``: whatever has no kernel.
        tolerance: by the same keys, how far results may be off as a part of the largest element.
        known_failures: path of a TOML or JSON file of failures that the author knows of.
    """

    dtypes: tuple[str | DTypeClass, ...] | None = None
    ranks: tuple[int, int | None] = (0, None)
    views: bool | None = None
    mutation: bool | None = None
    elements: bool = True
    nonfinite: bool = True
    make: str = ""
    lacks: Mapping[str, str] | None = None
    tolerance: Mapping[str, float] = {}
    known_failures: str | None = None


class Sample(NamedTuple):
    """One call that the conformance kit makes of an operator; ``samples=`` of its declaration is a function giving several.

    A tuple of the same parts does as well, such as ``(([1.0, 2.0], [0.5]), {"beta": 1.0})``.

    Attributes:
        operands: in order, each of them nested lists of numbers, which take every dtype that is checked; a pair of a dtype's
            name and nested lists, which have that dtype always (bool for a mask, an integer dtype for positions); ``None``;
            or, where any number of tensors is taken, a list of these. A number is a Python number where the parameter is an
            Operand, and a tensor without axes where it is a Tensor.
        meta: metadata by name.
        error: the class of `tripoint.errors` by which the call must be refused, or ``None``.
        gradient: whether derivatives are checked; not at a kink, such as that of an absolute value at 0.
    """

    operands: tuple[Any, ...]
    meta: Mapping[str, Any] = {}
    error: type[Exception] | None = None
    gradient: bool = True


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
        spec: for a layout with parameters, function of a payload giving the layout with those that it has, a LayoutSpec;
            ``x.to(other)`` takes them over.
        current: function giving the index of the current device, for a device with ``indexed=True``.
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
        coerce: Callable[[Any], Any] | None = None,
        quiet: Callable[[], Any] | None = None,
        allocator: Allocator | Callable[[Device], Allocator] | None = None,
        streams: Streams | None = None,
        capabilities: Capabilities | None = None,
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
        powers = ("default", "create", "synchronize")
        if streams is not None and not all(callable(getattr(streams, power, None)) for power in powers):
            raise RegistrationError(
                f"Backend: streams must be an object with {', '.join(powers)}, as Streams says, not {shown(streams)}"
            )
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
            "spec": spec,
            "current": current,
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

    def kernels(self, *, scalars: bool = False, optional: bool = False, **functions: Callable[..., Any]) -> None:
        """Register functions for operators by name, every operand on this backend's point.

        Args:
            scalars: the functions also take a Python number in place of any one tensor.
            optional: as in `kernel`.
        """
        for name, fn in functions.items():
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
            check_first: run the operator's shape rule before, since the kernel would not refuse bad arguments.
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
        check_first: bool,
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
    registry = _registry_of(next(iter(functions.values())))
    registry.derivative(made)
    registry.commit()
    return made


def kernel(
    operator: Callable[..., Any] | str, *, args: tuple[Any, ...], out: object = None, check_first: bool = False
) -> Callable[[F], F]:
    """Decorate a kernel of an operator of one's own, on points that other plugins provide.

    It takes part because its package defines the operator; a kernel of somebody else's operator on somebody else's point
    does not, until the user prefers that package. It counts as stated by the installed plugin whose package the function
    comes from, else by the running program.

    Args:
        operator: the operator, or its qualified name.
        args: one pattern per dispatch argument: a Layout, a DType, a point such as ``"cpu.strided"``, `scalar`, or a Pattern.
        out, check_first: as of `Backend.kernel`.

    Raises:
        RegistrationError: the function does not fit the operator, or another one is stated on these patterns already.
    """
    name = operator if isinstance(operator, str) else row_of(operator).name
    given = tuple(as_pattern(a) for a in args)

    def decorate(fn: F) -> F:
        registry = _registry_of(fn)
        registry.kernel(name, fn, args=given, out=out, check_first=check_first)
        registry.commit()
        return fn

    return decorate


def _registry_of(fn: Callable[..., Any]) -> Registry:
    """Where a module states what is its own, as it is imported."""
    owner = _plugin_of(fn)
    return Registry(owner.name, owner.version) if owner is not None else Registry()


def register(backend: Backend) -> None:
    """Register a backend of the running program itself, without an entry point. Once more is no change.

    One that an entry point of an installed plugin names, or that a module of its package registers, counts as that plugin's.

    Raises:
        RegistrationError: something does not fit the schema; nothing is changed.
        PluginError: its plugin is installed, and its metadata keeps it from loading here.
    """
    owner = _plugin_naming(backend) or _plugin_named(str(_sys._getframe(1).f_globals.get("__name__")))
    registry = Registry(owner.name, owner.version) if owner is not None else Registry()
    backend.tripoint_register(registry)
    registry.commit()


_HEAD = """\
A kernel is a function over payloads: operands by position, as they are (not broadcast, of any shape, (0,) and () among them),
everything else by keyword, axes counted from 0. Operands come cast to the dtype that is computed in, unless the kernel names
`target`, the key of the result: then they come uncast, and the kernel casts. Kernels of creation and of conversions name it,
and those that mix dtypes, such as a sum of int32 in int64.
What must be refused, and by which error, is under `Raises` in help(tripoint.<operator>). The core checks dtypes and axes before
a kernel runs, and shapes when it raises; one that would not raise asks for that with check_first=True.
"""


def _main() -> None:
    """Print the kernels that a backend should have first, by family, as they are called."""
    import textwrap

    import tripoint  # noqa: F401 - declares the operators

    print(_HEAD)
    families: dict[str, list[str]] = {}
    for name in minimal():
        families.setdefault(_rows[name].kind, []).append(name)
    for family, names in families.items():
        print(f"{family}:")
        for name in names:
            doc = (_rows[name].body.__doc__ or "").split("\n")[0]
            print(f"  {kernel_signature(name)}", textwrap.indent(textwrap.fill(doc, 100), "      "), sep="\n")


if __name__ == "__main__":
    _main()
