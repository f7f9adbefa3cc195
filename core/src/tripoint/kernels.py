"""Who computes what: kernels, points, derivatives, and how the narrowest wins.

A pattern P beats Q when it is nowhere wider and somewhere narrower over all arguments and axes. Where neither beats the
other, both are kept, and a call that both fit is an error until the user states a preference. Between two distributions that
provide one point only a preference decides: to be installed, and narrower, selects nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tripoint import dtypes as dt
from tripoint.callables import ends_in, keyword_names, module_of, parameters
from tripoint.devices import Device
from tripoint.dtypes import DType
from tripoint.errors import AmbiguousKernelError, RegistrationError, cleaned, shown
from tripoint.keys import ABSENT, Key
from tripoint.layouts import Layout, LayoutSpec
from tripoint.patterns import SCALAR, OnPatterns, Origin, Pattern, Patterns, beats
from tripoint.schema import Row, did_you_mean, rows

if TYPE_CHECKING:
    from tripoint.allocators import Allocator
    from tripoint.streams import Streams

__all__ = ["Derivative", "Kernel", "Point", "derivative", "select"]

Out = Callable[[tuple[Key, ...]], Key]


class Kernel(OnPatterns):
    """One registered kernel.

    Attributes:
        operator: qualified name of its row.
        fn: plain function over payloads; tensors positional, metadata by keyword.
        every: the pattern that every argument matches, or ``None`` when ``args`` lists one per dispatch argument.
        out: function of the argument keys that gives the result's key; ``None``: the row's rule says it.
        takes_target: ``fn`` wants the key of the result as ``target``; it then casts its operands itself.
        takes_spec: ``fn`` wants the parameters of a target layout as ``spec``.
        check_first: the row's shape rule runs before, since ``fn`` would not refuse bad arguments; where it is a function, that
            runs next, and raises for what the operator takes and ``fn`` does not: ``check(shapes, **metadata)``.
    """

    __slots__ = ("check_first", "fn", "out", "takes_spec", "takes_target")

    def __init__(
        self,
        operator: str,
        fn: Callable[..., Any],
        origin: Origin,
        *,
        every: Pattern | None = None,
        args: Patterns | None = None,
        out: Out | None = None,
        check_first: bool | Callable[..., None] = False,
    ) -> None:
        super().__init__(operator, origin, every, args)
        self.fn = fn
        self.out = out
        self.check_first = check_first
        keyword = keyword_names(fn) or ()
        self.takes_target = "target" in keyword
        self.takes_spec = "spec" in keyword

    def body(self) -> object:
        """What two registrations are compared by: equal bodies are one thing registered twice."""
        return self.fn

    @property
    def limit(self) -> str:
        """What it takes of the shapes that its operator takes, as its own check says; empty where it takes them all."""
        own = self.check_first
        if not callable(own):
            return ""
        said = own.__doc__ if isinstance(own.__doc__, str) else ""
        return cleaned(said.strip(), 1) or getattr(own, "__name__", "some of them")

    def __repr__(self) -> str:
        return f"<kernel {self.operator} on {self.pattern()}: {self.origin}>"


def validate(row: Row, kernel: Kernel) -> None:
    """Check a kernel against the schema of its operator.

    Raises:
        RegistrationError: not callable, wrong number of positional arguments, or metadata that it does not take.
    """
    if not callable(kernel.fn):
        raise RegistrationError(f"a kernel of {row.signature()} is a function, not {shown(kernel.fn)}: {kernel.origin}")
    patterns = (kernel.every,) if kernel.args is None else kernel.args
    if not isinstance(patterns, tuple) or any(type(p) is not Pattern and p is not SCALAR for p in patterns):
        raise RegistrationError(
            f"{kernel.origin}: a kernel is registered for every=, a Pattern, or for args=, a tuple of one per argument of "
            f"{row.signature()}, not for {shown(patterns)}"
        )
    if not isinstance(kernel.check_first, bool) and not callable(kernel.check_first):
        raise RegistrationError(
            f"{kernel.origin}: check_first= is a bool or a function, not {shown(kernel.check_first)}"
        )
    if kernel.args is not None and len(kernel.args) != row.arity:
        raise RegistrationError(
            f"{kernel.origin}: args= has {len(kernel.args)} patterns; {row.signature()} dispatches on {row.arity} "
            f"arguments ({', '.join([p.name for p in row.operands] + ['target'] * bool(row.target))})"
        )
    fn, given, words = ends_in(kernel.fn)
    if fn is None:
        return
    code, need = fn.__code__, len(row.operands)
    names = code.co_varnames[given : code.co_argcount]
    most = next((i for i, name in enumerate(names) if name in words), len(names))
    without = names[: max(len(names) - len(fn.__defaults__ or ()), 0)]
    least = sum(name not in words for name in without)
    if (most < need and not code.co_flags & 0x04) or least > need:
        raise RegistrationError(
            f"{kernel.origin}: takes {most} positional arguments; {row.signature()} gives {need}: "
            f"{', '.join(p.name for p in row.operands)}. {_called(row, kernel)}"
        )
    if code.co_flags & 0x08:
        return
    takes = set(keyword_names(kernel.fn) or ())
    gives = {p.name for p in row.metas} - set(row.keyed)
    missing = sorted(gives - takes)
    required = takes - {*(fn.__kwdefaults__ or ()), *words}
    surplus = sorted(required - gives - {"target", "spec"})
    if missing or surplus:
        word = f"does not take the metadata {', '.join(missing)}" if missing else f"wants {', '.join(surplus)}"
        raise RegistrationError(
            f"{kernel.origin}: {word}; a kernel of {row.signature()} takes "
            f"{', '.join(sorted(gives)) or 'no metadata'} by keyword. {_called(row, kernel)}"
        )


def _called(row: Row, kernel: Kernel) -> str:
    """How a kernel of an operator is called, and how this one is written."""
    fn, given, _ = ends_in(kernel.fn)
    code = fn.__code__ if fn is not None else None
    names = code.co_varnames[given : code.co_argcount] if code is not None else ()
    words = keyword_names(kernel.fn) or ()
    written = ", ".join([*names, *["*"] * bool(words), *words])
    optional = ", where target may be left out" * bool(row.target)
    return f"It is called as {row.kernel_signature()}{optional}, and written as {kernel.origin.function}({written})"


class Point:
    """What a backend says of one point pattern: its payload and how to read it.

    Attributes:
        pattern: the points it covers.
        payload: class of the payload.
        describe: function of a payload giving a dict with ``dtype``, ``device``, ``address`` and ``nbytes`` of the allocation,
            ``strides`` and ``offset`` (in elements), ``itemsize``, ``readonly``; what does not apply may be ``None``.
        aliases: ``aliases(out, x)``: whether two payloads share memory.
        to_strided, from_strided: ``to_strided(p)`` and ``from_strided(dense, like=p)``; the layout's or dtype's hooks.
        cheap: whether operators without a kernel may go through the hooks.
        frozen: payloads are never written; in-place forms bind a new one.
        factory: ``factory(row)`` gives a kernel function for operators that have no registered kernel, or ``None``.
        summary: one line for printing, or ``None``.
        spec: the layout of a payload with its parameters, or ``None`` for a layout without.
        current: function giving the index of the current device, for indexed devices.
        count: how many of them there are, or a function giving that, which is asked once, at first need.
        probe: function giving why the hardware cannot be used, or ``None``; asked where no plugin's hook is.
        coerce: makes a payload of what a kernel returned when that is of another class (NumPy's scalars).
        quiet: a context in which a kernel runs again that raised FloatingPointError, which is the caller's setting.
        allocator: function of a device giving what hands out its memory.
        streams: the queues of its devices, a `tripoint.streams.Streams`.
        capabilities: what its author says that the conformance kit may expect, a `tripoint.plugin.Capabilities`.
    """

    __slots__ = (
        "aliases", "allocator", "capabilities", "cheap", "coerce", "count", "current", "describe", "factory", "from_strided",
        "frozen",
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
        count: int | Callable[[], int] | None = None,
        probe: Callable[[], str | None] | None = None,
        coerce: Callable[[Any], Any] | None = None,
        quiet: Callable[[], Any] | None = None,
        allocator: Callable[[Device], Allocator] | None = None,
        streams: Streams | None = None,
        capabilities: Any = None,
    ) -> None:
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
        self.count = count
        self.probe = probe
        self.coerce = coerce
        self.quiet = quiet
        self.allocator = allocator
        self.streams = streams
        self.capabilities = capabilities

    def holds(self, dtype: DType, ndim: int | None = None) -> bool:
        """Whether tensors here may have a dtype and a number of axes, by what its author declares."""
        held = getattr(self.capabilities, "dtypes", None)
        low, high = getattr(self.capabilities, "ranks", (0, None))
        if (
            held is not None
            and dtype.is_plain
            and not any(dtype == d or dtype in dt.CLASSES.get(str(d), ()) for d in held)
        ):
            return False
        return ndim is None or (low <= ndim and (high is None or ndim <= high))


class Derivative(OnPatterns):
    """The derivative of one operator for a pattern.

    Attributes:
        functions: one function per operand, named by it.
        origin: who stated it, and where.
    """

    __slots__ = ("functions",)

    def __init__(
        self,
        operator: str,
        functions: dict[str, Callable[..., Any]],
        origin: Origin,
        *,
        every: Pattern | None = None,
        args: Patterns | None = None,
    ) -> None:
        super().__init__(operator, origin, every, args)
        self.functions = functions

    def body(self) -> object:
        """What two registrations are compared by."""
        return self.functions


C = TypeVar("C", Kernel, Derivative)
T = TypeVar("T")

#: everything registered, by operator; tuples are replaced, never changed, so readers need no lock.
kernels: dict[str, tuple[Kernel, ...]] = {}
derivatives: dict[str, tuple[Derivative, ...]] = {}
points: list[Point] = []


def select(candidates: Iterable[C], keys: tuple[Key, ...], slots: tuple[int, ...]) -> tuple[C | None, tuple[C, ...]]:
    """The narrowest of ``candidates`` that fit ``keys``, and those that tie with it (empty when it wins alone).

    Absent operands fit every pattern. Of those that tie, the one that the user preferred last wins.
    """
    at = [i for i, k in enumerate(keys) if k is not ABSENT]
    fitting: list[tuple[C, Patterns]] = []
    for c in candidates:
        patterns = c.patterns(slots)
        if all(patterns[i].matches(keys[i]) for i in at):
            fitting.append((c, tuple([patterns[i] for i in at])))
    best = [(c, p) for c, p in fitting if not any(_wins(d.origin, q, c.origin, p, keys) for d, q in fitting)]
    best = _preferred(best, lambda found: found[0].origin)
    if not best:
        return None, ()
    if len(best) > 1:
        return None, tuple(c for c, _ in best)
    return best[0][0], ()


def _wins(one: Origin, p: Patterns, other: Origin, q: Patterns, keys: tuple[Key, ...]) -> bool:
    """Whether what was registered for ``p`` goes before what was registered for ``q``, on keys that both fit."""
    if rivals(one, other, keys):
        return preference(one) > preference(other)
    return beats(p, q)


def _preferred(tied: list[T], origin: Callable[[T], Origin]) -> list[T]:
    if len(tied) < 2:
        return tied
    ranks = [preference(origin(t)) for t in tied]
    most = max(ranks)
    return [t for t, rank in zip(tied, ranks, strict=True) if rank == most]


def passes(g: Any) -> Any:
    """The derivative of what passes gradients on as they are."""
    return g


def select_derivative(
    operator: str, keys: tuple[Key, ...], slots: tuple[int, ...]
) -> tuple[Derivative | None, tuple[Derivative, ...], tuple[Key, ...]]:
    """As `select`, among the derivatives of an operator: its tensors decide, a Python number fits every pattern.

    Where none fits, those that fit the keys that tensors are `differentiated` by; the keys that decided are given back.
    """
    tensors = tuple([k.base if k.is_tensor else ABSENT for k in keys])
    row = rows.get(operator)  # which may have been taken back, with the plugin that declared it
    stated = derivatives.get(operator, ()) if row is not None else ()
    for by in dict.fromkeys((tensors, tuple([differentiated(k) for k in tensors]))):
        taking = [d for d in stated if row is not None and takes_part(d.origin, row, by)]
        found, tied = select(taking, by, slots)
        if found is not None or tied:
            return found, tied, by
    return None, (), tensors


def differentiated(key: Key) -> Key:
    """The key that a tensor is differentiated by: a number format that decodes cheaply counts as the dtype of its gradients."""
    gradient = key.dtype.gradient if key.is_tensor else None
    if gradient is None or key.dtype.is_plain:
        return key
    point = find_point(key)
    return key.replace(dtype=gradient) if point is not None and point.cheap else key


def ambiguous(
    operator: str, keys: tuple[Key, ...], tied: Sequence[Kernel | Derivative | Point]
) -> AmbiguousKernelError:
    """The error of a call in an overlap."""
    names = sorted({c.origin.distribution or "__main__" for c in tied})
    listed = "\n".join(f"  {c.origin}" for c in tied[:6])
    both = any(rivals(tied[0].origin, other.origin, keys) for other in tied[1:])
    # Who means to add to a point, and puts it in the wrong group, says that it is its own.
    added = (
        "\n  both provide that point; what adds kernels to a point of another offers them in tripoint.kernels.v1" * both
    )
    return AmbiguousKernelError(
        f"{operator} on {', '.join(k.name for k in keys)} is registered {len(tied)} times with equal claim:\n{listed}\n"
        f"  state which one you want: tripoint.plugins.prefer({names[0]!r}){added}"
    )


_points: dict[Key, Point | None] = {}


def _takes_part(origin: Origin, row: Row, keys: tuple[Key, ...]) -> bool:
    return True


def _preference(origin: Origin) -> int:
    return 0


def _rivals(one: Origin, other: Origin, keys: tuple[Key, ...]) -> bool:
    return False


#: whether something of an origin takes part in a call, how much the user prefers it, and whether two origins provide the same
#: point of a call, so that narrowness does not decide between them; the room ``plugins`` sets all three.
takes_part: Callable[[Origin, Row, tuple[Key, ...]], bool] = _takes_part
preference: Callable[[Origin], int] = _preference
rivals: Callable[[Origin, Origin, tuple[Key, ...]], bool] = _rivals


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
    best = [
        p for p in fitting if not any(_wins(q.origin, (q.pattern,), p.origin, (p.pattern,), (base,)) for q in fitting)
    ]
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
        raise RegistrationError(f"derivative of {operator!r}: there is no such operator{did_you_mean(str(operator))}")
    if not functions:
        raise RegistrationError(f"derivative of {row.signature()}: name at least one operand, as in x1=lambda g: g")
    if args is not None and len(args) not in (len(row.operands), row.arity):
        raise RegistrationError(
            f"derivative of {row.signature()}: args= has {len(args)} patterns; it wants {len(row.operands)}, one for each of "
            f"{', '.join(p.name for p in row.operands)}"
        )
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
    owner = "tripoint" if str(module_of(first)).startswith("tripoint.") else None
    every = Pattern() if args is None else None
    return Derivative(row.name, functions, Origin(owner, None, first), every=every, args=args)


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
