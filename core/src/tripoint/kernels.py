"""Who computes what: patterns, kernels, points, derivatives, and how the narrowest wins.

A pattern P beats Q when it is nowhere wider and somewhere narrower over all arguments and axes. Where neither beats the
other, both are kept, and a call that both fit is an error until the user states a preference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tripoint import dtypes as dt
from tripoint.devices import Device
from tripoint.dtypes import DType, DTypeClass
from tripoint.errors import AmbiguousKernelError, RegistrationError, cleaned, short_file
from tripoint.keys import ABSENT, Key
from tripoint.layouts import Layout, LayoutSpec
from tripoint.schema import Row, rows

if TYPE_CHECKING:
    from tripoint.allocators import Allocator
    from tripoint.streams import Streams

__all__ = ["Derivative", "Kernel", "Origin", "Pattern", "Point", "derivative", "select"]

ANY = "*"


class Pattern:
    """Which points an argument may stand on: a device type, a layout and a dtype or class of dtypes, ``*`` for any.

    ``*`` for a dtype covers the plain ones: an opaque dtype is matched by its name alone.
    """

    __slots__ = ("device", "dtype", "layout")

    def __init__(self, device: str = ANY, layout: str = ANY, dtype: str | DTypeClass = dt.plain) -> None:
        self.device = device
        self.layout = layout
        # The name of a class is the class: a pattern by that name alone would match nothing, ever.
        self.dtype: str | DTypeClass = dt.CLASSES.get(dtype, dtype) if isinstance(dtype, str) else dtype
        if dtype == ANY:
            self.dtype = dt.plain

    def matches(self, key: Key) -> bool:
        """Whether a tensor of that key may stand here."""
        if not key.is_tensor:
            return False
        if self.device not in (ANY, key.device.type) or self.layout not in (ANY, key.layout.name):
            return False
        if isinstance(self.dtype, DTypeClass):
            return key.dtype in self.dtype
        return self.dtype == key.dtype.name

    def misses(self, key: Key) -> tuple[tuple[str, str, str], ...]:
        """Each axis on which a key does not match: the axis, what the key has, and what the pattern takes."""
        if not key.is_tensor:
            return (("kind", f"a {key.name}", "a tensor"),)
        out = []
        if self.device not in (ANY, key.device.type):
            out.append(("device", key.device.type, self.device))
        if self.layout not in (ANY, key.layout.name):
            out.append(("layout", key.layout.name, self.layout))
        dtype = self.dtype
        if key.dtype not in dtype if isinstance(dtype, DTypeClass) else dtype != key.dtype.name:
            out.append(("dtype", key.dtype.name, str(dtype)))
        return tuple(out)

    def ranks(self) -> tuple[int, int, int]:
        """Width of each axis; smaller is narrower. Comparable among patterns that match one key."""
        dtype = 0 if isinstance(self.dtype, str) else 100 - self.dtype.depth
        return (self.device == ANY, self.layout == ANY, dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern) or type(other) is not type(self):
            return False
        return (self.device, self.layout, self.dtype) == (other.device, other.layout, other.dtype)

    def __hash__(self) -> int:
        return hash((self.device, self.layout, self.dtype))

    def __str__(self) -> str:
        return f"{self.device}.{self.layout}.{self.dtype}"

    def __repr__(self) -> str:
        return f"<{self}>"


class _Scalar(Pattern):
    """Matches Python scalars and nothing else."""

    __slots__ = ()

    def matches(self, key: Key) -> bool:
        return not key.is_tensor and key is not ABSENT

    def misses(self, key: Key) -> tuple[tuple[str, str, str], ...]:
        """As of any pattern."""
        return () if self.matches(key) else (("kind", "a tensor", "a Python number"),)

    def __str__(self) -> str:
        return "scalar"


SCALAR = _Scalar()


class Origin:
    """Who registered something: distribution (``None``: the running program), version, function, file and line.

    Args:
        operator: of a kernel; errors name it beside one that a factory made, whose name tells as little as a lambda's.
    """

    __slots__ = ("distribution", "file", "function", "line", "module", "operator", "version")

    def __init__(
        self, distribution: str | None, version: str | None, fn: Callable[..., Any], operator: str = ""
    ) -> None:
        self.distribution = distribution
        self.version = version
        name = getattr(fn, "__name__", None)  # which a function lets anybody set, as its module, to anything
        self.function: str = cleaned(name, 1) if name and isinstance(name, str) else type(fn).__name__
        inner = getattr(fn, "__wrapped__", fn)
        code = getattr(inner, "__code__", None) or getattr(getattr(fn, "func", None), "__code__", None)
        # What a factory closes over tells its kernels apart, and their name does not, unless the factory gave each its own.
        alike = getattr(fn, "__closure__", None) is not None and self.function == getattr(code, "co_name", None)
        nameless = self.function == "<lambda>" or not hasattr(fn, "__name__")
        self.operator = operator if (alike or nameless) and operator != self.function else ""
        module = getattr(inner, "__module__", None)
        self.module: str | None = module if module and isinstance(module, str) else type(inner).__module__
        self.file: str | None = code.co_filename if code is not None else None
        self.line: int | None = code.co_firstlineno if code is not None else None

    @property
    def label(self) -> str:
        """``distribution:function``, as the digits job prints it."""
        return f"{self.distribution or '__main__'}:{self.function}"

    @property
    def where(self) -> str:
        """Package-relative file and line; for compiled functions the module."""
        return f"{short_file(self.file, self.module)}:{self.line}" if self.file else f"{self.module}.{self.function}"

    @property
    def provider(self) -> str:
        """The distribution with its version, or the running program."""
        return f"{self.distribution or 'the running program'} {self.version or ''}".rstrip()

    def __str__(self) -> str:
        name = f"{self.function} of {self.operator}" if self.operator else self.function
        return f"{name} from {self.provider}" + (f" at {self.where}" if self.file else "")


Patterns = tuple[Pattern, ...]
Out = Callable[[tuple[Key, ...]], Key]


class Kernel:
    """One registered kernel.

    Attributes:
        operator: qualified name of its row.
        fn: plain function over payloads; tensors positional, metadata by keyword.
        every: the pattern that every argument matches, or ``None`` when ``args`` lists one per dispatch argument.
        out: function of the argument keys that gives the result's key; ``None``: the row's rule says it.
        takes_target: ``fn`` wants the key of the result as ``target``; it then casts its operands itself.
        takes_spec: ``fn`` wants the parameters of a target layout as ``spec``.
        check_first: the row's shape rule runs before, since ``fn`` would not refuse bad arguments.
    """

    __slots__ = ("args", "check_first", "every", "fn", "operator", "origin", "out", "takes_spec", "takes_target")

    def __init__(
        self,
        operator: str,
        fn: Callable[..., Any],
        origin: Origin,
        *,
        every: Pattern | None = None,
        args: Patterns | None = None,
        out: Out | None = None,
        check_first: bool = False,
    ) -> None:
        self.operator = operator
        self.fn = fn
        self.origin = origin
        self.every = every
        self.args = args
        self.out = out
        self.check_first = check_first
        keyword = keyword_names(fn) or ()
        self.takes_target = "target" in keyword
        self.takes_spec = "spec" in keyword

    def body(self) -> object:
        """What two registrations are compared by: equal bodies are one thing registered twice."""
        return self.fn

    def patterns(self, slots: tuple[int, ...]) -> Patterns:
        """One pattern per flattened argument; ``slots`` says which parameter each belongs to."""
        if self.every is not None:
            return (self.every,) * len(slots)
        assert self.args is not None
        return tuple([self.args[i] for i in slots])

    def pattern(self) -> str:
        """What it is registered for, as text."""
        return str(self.every) if self.every is not None else f"({', '.join(str(a) for a in self.args or ())})"

    def __repr__(self) -> str:
        return f"<kernel {self.operator} on {self.pattern()}: {self.origin}>"


def keyword_names(fn: Callable[..., Any]) -> tuple[str, ...] | None:
    """Names of keyword-only parameters, or ``None`` for functions that do not tell (built-in ones).

    A wrapper that passes all keywords on, and names what it wraps as ``functools.wraps`` does, takes those of that.
    """
    code = getattr(fn, "__code__", None)
    inner = getattr(fn, "__wrapped__", None)
    if code is not None and code.co_flags & 0x08 and inner is not None:
        return keyword_names(inner)
    if code is None:
        return None
    start = code.co_argcount
    return tuple(code.co_varnames[start : start + code.co_kwonlyargcount])


def validate(row: Row, kernel: Kernel) -> None:
    """Check a kernel against the schema of its operator.

    Raises:
        RegistrationError: wrong number of positional arguments, or metadata that it does not take.
    """
    if kernel.args is not None and len(kernel.args) != row.arity:
        raise RegistrationError(
            f"{kernel.origin}: args= has {len(kernel.args)} patterns; {row.signature()} dispatches on {row.arity} "
            f"arguments ({', '.join([p.name for p in row.operands] + ['target'] * bool(row.target))})"
        )
    code = getattr(kernel.fn, "__code__", None)
    if code is None:
        return
    need = len(row.operands)
    most = code.co_argcount - (getattr(kernel.fn, "__self__", None) is not None)
    least = most - len(getattr(kernel.fn, "__defaults__", None) or ())
    if (most < need and not code.co_flags & 0x04) or least > need:
        raise RegistrationError(
            f"{kernel.origin}: takes {most} positional arguments; {row.signature()} gives {need}: "
            f"{', '.join(p.name for p in row.operands)}"
        )
    if code.co_flags & 0x08:
        return
    takes = set(keyword_names(kernel.fn) or ())
    gives = {p.name for p in row.metas} - set(row.keyed)
    missing = sorted(gives - takes)
    required = takes - set(getattr(kernel.fn, "__kwdefaults__", None) or ())
    surplus = sorted(required - gives - {"target", "spec"})
    if missing or surplus:
        word = f"does not take the metadata {', '.join(missing)}" if missing else f"wants {', '.join(surplus)}"
        raise RegistrationError(
            f"{kernel.origin}: {word}; a kernel of {row.signature()} takes "
            f"{', '.join(sorted(gives)) or 'no metadata'} by keyword"
        )


class Point:
    """What a backend says of one point pattern: its payload and how to read it.

    Attributes:
        pattern: the points it covers.
        payload: class of the payload.
        describe: function of a payload giving a dict with ``device``, ``dtype``, ``address``, ``nbytes``, ``strides``
            (in elements), ``readonly``; memory entries may be ``None`` for not applicable.
        aliases: ``aliases(out, x)``: whether two payloads share memory.
        to_strided, from_strided: ``to_strided(p)`` and ``from_strided(dense, like=p)``; the layout's or dtype's hooks.
        cheap: whether operators without a kernel may go through the hooks.
        frozen: payloads are never written; in-place forms bind a new one.
        factory: ``factory(row)`` gives a kernel function for operators that have no registered kernel, or ``None``.
        summary: one line for printing, or ``None``.
        spec: the layout of a payload with its parameters, or ``None`` for a layout without.
        current: function giving the index of the current device, for indexed devices.
        coerce: makes a payload of what a kernel returned when that is of another class (NumPy's scalars).
        quiet: a context in which a kernel runs again that raised FloatingPointError, which is the caller's setting.
        allocator: function of a device giving what hands out its memory.
        streams: the queues of its devices, a `tripoint.streams.Streams`.
        capabilities: what its author says that the conformance kit may expect, a `tripoint.plugin.Capabilities`.
    """

    __slots__ = (
        "aliases", "allocator", "capabilities", "cheap", "coerce", "current", "describe", "factory", "from_strided", "frozen",
        "origin", "pattern", "payload", "probe", "quiet", "spec", "streams", "summary", "to_strided",
    )  # fmt: skip

    def __init__(
        self,
        pattern: Pattern,
        payload: type,
        origin: Origin,
        *,
        describe: Callable[[Any], dict[str, Any]] | None = None,
        aliases: Callable[[Any, Any], bool] | None = None,
        to_strided: Callable[[Any], Any] | None = None,
        from_strided: Callable[..., Any] | None = None,
        cheap: bool = False,
        frozen: bool = False,
        factory: Callable[[Row], Callable[..., Any] | None] | None = None,
        summary: Callable[[Any], str] | None = None,
        spec: Callable[[Any], LayoutSpec] | None = None,
        current: Callable[[], int] | None = None,
        probe: Callable[[], str | None] | None = None,
        coerce: Callable[[Any], Any] | None = None,
        quiet: Callable[[], Any] | None = None,
        allocator: Callable[[Device], Allocator] | None = None,
        streams: Streams | None = None,
        capabilities: Any = None,
    ) -> None:
        self.allocator = allocator
        self.capabilities = capabilities
        self.streams = streams
        self.coerce = coerce
        self.quiet = quiet
        self.pattern = pattern
        self.payload = payload
        self.origin = origin
        self.describe = describe
        self.aliases = aliases
        self.to_strided = to_strided
        self.from_strided = from_strided
        self.cheap = cheap
        self.frozen = frozen
        self.factory = factory
        self.summary = summary
        self.spec = spec
        self.current = current
        self.probe = probe


class Derivative:
    """The derivative of one operator for a pattern: one function per operand, named by it."""

    __slots__ = ("args", "every", "functions", "operator", "origin")

    def __init__(
        self,
        operator: str,
        functions: dict[str, Callable[..., Any]],
        origin: Origin,
        *,
        every: Pattern | None = None,
        args: Patterns | None = None,
    ) -> None:
        self.operator = operator
        self.functions = functions
        self.origin = origin
        self.every = every
        self.args = args

    patterns = Kernel.patterns

    def body(self) -> object:
        """What two registrations are compared by."""
        return self.functions


#: everything registered, by operator; tuples are replaced, never changed, so readers need no lock.
kernels: dict[str, tuple[Kernel, ...]] = {}
derivatives: dict[str, tuple[Derivative, ...]] = {}
points: list[Point] = []


def beats(p: Patterns, q: Patterns) -> bool:
    """Whether ``p`` is nowhere wider than ``q`` and somewhere narrower."""
    narrower = False
    for a, b in zip(p, q, strict=True):
        for x, y in zip(a.ranks(), b.ranks(), strict=True):
            if x > y:
                return False
            narrower |= x < y
    return narrower


def select(
    candidates: Iterable[Any],
    keys: tuple[Key, ...],
    slots: tuple[int, ...],
) -> tuple[Any, tuple[Any, ...]]:
    """The narrowest of ``candidates`` that fit ``keys``, and those that tie with it (empty when it wins alone).

    Absent operands fit every pattern. Of those that tie, the one that the user preferred last wins.
    """
    at = [i for i, k in enumerate(keys) if k is not ABSENT]
    fitting: list[tuple[Any, Patterns]] = []
    for c in candidates:
        patterns = c.patterns(slots)
        if all(patterns[i].matches(keys[i]) for i in at):
            fitting.append((c, tuple([patterns[i] for i in at])))
    best = [(c, p) for c, p in fitting if not any(beats(q, p) for _, q in fitting)]
    best = _preferred(best, lambda found: found[0].origin)
    if not best:
        return None, ()
    if len(best) > 1:
        return None, tuple(c for c, _ in best)
    return best[0][0], ()


def _preferred(tied: list[Any], origin: Callable[[Any], Origin]) -> list[Any]:
    if len(tied) < 2:
        return tied
    ranks = [preference(origin(t)) for t in tied]
    most = max(ranks)
    return [t for t, rank in zip(tied, ranks, strict=True) if rank == most]


def passes(g: Any) -> Any:
    """The derivative of what passes gradients on as they are."""
    return g


def select_derivative(operator: str, keys: tuple[Key, ...], slots: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]]:
    """As `select`, among the derivatives of an operator: its tensors decide, a Python number fits every pattern."""
    tensors = tuple([k.base if k.is_tensor else ABSENT for k in keys])
    stated = derivatives.get(operator, ())
    return select((d for d in stated if takes_part(d.origin, rows[operator], tensors)), tensors, slots)


def ambiguous(operator: str, keys: tuple[Key, ...], tied: tuple[Any, ...]) -> AmbiguousKernelError:
    """The error of a call in an overlap."""
    names = sorted({c.origin.distribution or "__main__" for c in tied})
    listed = "\n".join(f"  {c.origin}" for c in tied[:6])
    return AmbiguousKernelError(
        f"{operator} on {', '.join(k.name for k in keys)} is registered {len(tied)} times with equal claim:\n{listed}\n"
        f"  state which one you want: tripoint.plugins.prefer({names[0]!r})"
    )


_points: dict[Key, Point | None] = {}


def _takes_part(origin: Origin, row: Row, keys: tuple[Key, ...]) -> bool:
    return True


def _preference(origin: Origin) -> int:
    return 0


#: whether something of an origin takes part in a call, and how much the user prefers it; the room ``plugins`` sets both.
takes_part: Callable[[Origin, Row, tuple[Key, ...]], bool] = _takes_part
preference: Callable[[Origin], int] = _preference


def find_point(key: Key) -> Point | None:
    """The point record that covers a key, or ``None`` when no loaded plugin provides it.

    Raises:
        AmbiguousKernelError: two plugins own the point.
    """
    base = key.base
    remembered = _points  # before looking: what is found in tables that change meanwhile lands in an orphan
    try:
        return remembered[base]
    except KeyError:
        pass
    fitting = [p for p in points if p.pattern.matches(base)]
    best = [p for p in fitting if not any(beats((q.pattern,), (p.pattern,)) for q in fitting)]
    best = _preferred(best, lambda p: p.origin)
    if len(best) > 1:
        raise ambiguous(f"the point {base}", (base,), tuple(best))
    found = remembered[base] = best[0] if best else None
    return found


def forget_points() -> None:
    """Drop what `find_point` remembers."""
    global _points
    _points = {}


def as_out(value: object) -> Out | None:
    """``out=`` as authors write it: a Layout, a DType, a tuple of these with a Device, or a function of the keys.

    Raises:
        RegistrationError: anything else.
    """
    if value is None or (callable(value) and not isinstance(value, (Layout, DType))):
        return value
    parts = value if isinstance(value, tuple) else (value,)
    wrong = [p for p in parts if not isinstance(p, (Device, Layout, DType))]
    if wrong or not parts:
        raise RegistrationError(
            f"out={value!r} says no point of a result: write a Layout such as tripoint.plugin.strided, a DType, a tuple of "
            "these with a Device, or a function of the argument keys that gives a key"
        )
    device = next((p for p in parts if isinstance(p, Device)), None)
    layout = next((p for p in parts if isinstance(p, Layout)), None)
    dtype = next((p for p in parts if isinstance(p, DType)), None)

    def place(keys: tuple[Key, ...]) -> Key:
        return next(k for k in keys if k.is_tensor).replace(device=device, layout=layout, dtype=dtype)

    def out(keys: tuple[Key, ...]) -> Key:
        wide = dtype or dt.result_dtype(tuple(k.dtype for k in keys if k is not ABSENT))
        return place(keys).replace(dtype=wide)

    # Where no dtype is stated the operator's own rule knows it (sum widens integers; positions are not promoted with elements).
    out.by_rule = place if dtype is None else None  # type: ignore[attr-defined]
    return out


def make_derivative(
    operator: Callable[..., Any] | str, args: Patterns | None, functions: dict[str, Callable[..., Any]]
) -> Derivative:
    """A derivative checked against the row of its operator, not yet registered; see `derivative`."""
    row = rows.get(operator) if isinstance(operator, str) else row_of(operator)
    if row is None:
        raise RegistrationError(f"derivative of {operator!r}: there is no operator of that name")
    if not functions:
        raise RegistrationError(f"derivative of {row.signature()}: name at least one operand, as in x1=lambda g: g")
    operands = {p.name for p in row.operands}
    known = {*operands, "out", "out_shape", *(p.name for p in row.metas)}
    known |= {f"{n}_shape" for n in operands} | {f"{n}_key" for n in operands}
    for name, fn in functions.items():
        if name not in operands:
            raise RegistrationError(f"derivative of {row.signature()}: it has no operand {name!r}")
        unknown = [n for n in parameters(fn)[1:] if n not in known]
        if unknown:
            raise RegistrationError(f"derivative of {row.signature()} by {name}: nothing provides {', '.join(unknown)}")
    first = next(iter(functions.values()))
    owner = "tripoint" if str(first.__module__).startswith("tripoint.") else None
    every = Pattern() if args is None else None
    return Derivative(row.name, functions, Origin(owner, None, first), every=every, args=args)


def parameters(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the parameters of a plain function."""
    code = fn.__code__
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def derivative(
    operator: Callable[..., Any] | str, *, args: Patterns | None = None, **functions: Callable[..., Any]
) -> Derivative:
    """State the derivative of an operator: for each operand, a function from the gradient of the result to its gradient.

    The parameters after the first say what the function needs: operands and ``out`` (saved), ``<operand>_shape`` and
    ``<operand>_key`` (of the receiving tensor; nothing is saved), and metadata by its own name. Written in operators.
    The engine sums broadcast axes, casts, and fills up, so a formula need not.

    Args:
        operator: the operator, or its qualified name.
        args: one pattern per dispatch argument; without it the row holds for plain dtypes in any layout.
        functions: ``operand=function``.

    Raises:
        RegistrationError: an operand that the operator does not have, or a parameter that nothing provides.
    """
    made = make_derivative(operator, args, functions)
    derivatives[made.operator] = (*derivatives.get(made.operator, ()), made)
    return made


def row_of(operator: Callable[..., Any]) -> Row:
    """The row behind a decorated operator.

    Raises:
        RegistrationError: the function is no operator.
    """
    found = getattr(operator, "_row", None)
    if not isinstance(found, Row):
        raise RegistrationError(f"{operator!r} is no Tripoint operator; decorate it with @primitive or @composite")
    return found
