"""What a scope can change about calls: one interned mode in one context variable.

A mode is plain data (gradients wanted, fallback policy, default device, layers with their static settings), so that
plans can be shared by everybody who is in the same mode. New threads start from the default mode.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

from tripoint.devices import Device, cpu
from tripoint.dtypes import Defaults, DType, as_dtype, complex_floating, floating
from tripoint.errors import ArgumentError, DTypeError, FallbackWarning
from tripoint.plugins import find_device, on_change

__all__ = ["Mode", "Scope", "device", "enable_grad", "fallback", "get_default_dtype", "no_grad", "set_default_dtype"]

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")


class Mode:
    """One combination of settings. Equal modes are the same object.

    Attributes:
        grad: whether calls are recorded for differentiation.
        fallback: ``error``, or ``warn`` or ``allow`` with the device that computes instead, as in ``warn:cpu``.
        device: where new tensors go, or ``None`` for the CPU.
        layers: active layers, outermost first.
    """

    __slots__ = ("_off", "device", "fallback", "grad", "layers")

    def __init__(self, grad: bool, fallback: str, device: Device | None, layers: tuple[Any, ...]) -> None:
        self.grad = grad
        self.fallback = fallback
        self.device = device
        self.layers = layers
        self._off: Mode | None = None

    def without_grad(self) -> Mode:
        """The mode that differs in recording nothing; asked for by every backward and every `no_grad`."""
        off = self._off
        if off is None:
            off = self._off = self.replace(grad=False)
        return off

    def replace(
        self,
        *,
        grad: bool | None = None,
        fallback: str | None = None,
        device: Device | None = None,
        layers: tuple[Any, ...] | None = None,
    ) -> Mode:
        """The mode that differs in the named settings."""
        ident = (
            self.grad if grad is None else grad,
            fallback or self.fallback,
            device or self.device,
            self.layers if layers is None else layers,
        )
        return _modes.get(ident) or intern(*ident)

    def __repr__(self) -> str:
        return f"Mode({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__[1:])})"


_modes: dict[tuple[Any, ...], Mode] = {}


def intern(grad: bool, fallback: str, device: Device | None, layers: tuple[Any, ...]) -> Mode:
    """The one mode of these settings."""
    ident = (grad, fallback, device, layers)
    found = _modes.get(ident)
    if found is None:
        found = _modes.setdefault(ident, Mode(*ident))
    return found


def forget_layer(layer: Any) -> list[Mode]:
    """Drop the modes that hold a layer, and tell which they were. One that is still in force goes on working."""
    gone = [ident for ident, mode in list(_modes.items()) if layer in mode.layers]
    return [mode for ident in gone if (mode := _modes.pop(ident, None)) is not None]


DEFAULT = intern(True, "error", None, ())
current: ContextVar[Mode] = ContextVar("tripoint_mode", default=DEFAULT)
get_mode = current.get
#: the scopes entered in this context and not left, in order: a token, the change, and the modes before and after it.
_entries: ContextVar[tuple[tuple[object, Callable[[Mode], Mode], Mode, Mode], ...]] = ContextVar(
    "tripoint_scopes", default=()
)


class Scope:
    """A change of mode for a ``with`` block, a function, or every resume of a generator or coroutine.

    Leaving removes this scope's own entry, whatever was entered since, so scopes that overlap without nesting leave no
    trace. One Scope object may be entered several times, by several threads too.
    """

    def __init__(self, change: Callable[[Mode], Mode]) -> None:
        self._change = change
        self._tokens: list[object] = []

    @property
    def entered(self) -> bool:
        """Whether it is in force anywhere."""
        return bool(self._tokens)

    def __enter__(self) -> Self:
        token = object()
        self._tokens.append(token)
        before = get_mode()
        after = self._change(before)
        _entries.set((*_entries.get(), (token, self._change, before, after)))
        current.set(after)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        here = _entries.get()
        if here and self._tokens and here[-1][0] is self._tokens[-1]:  # scopes that nest, as nearly all do
            token, _, mode, had = here[-1]
            self._tokens.remove(token)
            _entries.set(here[:-1])
            if get_mode() is had:
                current.set(mode)
            return
        at = next((i for i in reversed(range(len(here))) if here[i][0] in self._tokens), None)
        if at is None:
            return
        token, _, mode, had = here[at]
        self._tokens.remove(token)
        entries = [*here[:at]]
        # What was entered since starts from the mode without this scope, unless a layer or backward set one in between.
        for later, change, before, after in here[at + 1 :]:
            start = mode if before is had else before
            had, mode = after, change(start)
            entries.append((later, change, start, mode))
        _entries.set(tuple(entries))
        if current.get() is had:
            current.set(mode)

    def __call__(self, fn: F) -> F:
        """Decorate a function, a generator function, or either of the two as ``async def``."""
        import functools

        again = self._again
        code = getattr(fn, "__code__", None)
        flags: int = code.co_flags if code is not None else 0
        if flags & 0x20:

            @functools.wraps(fn)
            def generator(*args: Any, **kwargs: Any) -> Any:
                return (yield from _resumed(fn(*args, **kwargs), again))

            return generator  # type: ignore[return-value]
        if flags & 0x80:

            @functools.wraps(fn)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                return await _Awaited(fn(*args, **kwargs), again)

            return coroutine  # type: ignore[return-value]
        if flags & 0x200:

            @functools.wraps(fn)
            async def stream(*args: Any, **kwargs: Any) -> Any:
                inner = fn(*args, **kwargs)
                step, value = inner.asend, None
                while True:
                    try:
                        out = await _Awaited(step(value), again)
                    except StopAsyncIteration:
                        return
                    try:
                        value = yield out
                        step = inner.asend
                    except GeneratorExit:
                        await _Awaited(inner.aclose(), again)
                        raise
                    except BaseException as error:
                        step, value = inner.athrow, error

            return stream  # type: ignore[return-value]

        @functools.wraps(fn)
        def function(*args: Any, **kwargs: Any) -> Any:
            with again():
                return fn(*args, **kwargs)

        return function  # type: ignore[return-value]

    def _again(self) -> Scope:
        """A scope of the same change, for one call or one resume of what this one decorates."""
        return Scope(self._change)


class _Awaited:
    """Something to await, with the scope in force during its resumes only."""

    def __init__(self, inner: Any, again: Callable[[], Scope]) -> None:
        self._inner = inner
        self._again = again

    def __await__(self) -> Any:
        return _resumed(self._inner.__await__(), self._again)


def _resumed(inner: Any, again: Callable[[], Scope]) -> Any:
    """Run a generator with the scope in force during its resumes only."""
    send, value = inner.send, None
    while True:
        try:
            with again():
                out = send(value)
        except StopIteration as stop:
            return stop.value
        try:
            value = yield out
            send = inner.send
        except GeneratorExit:
            with again():
                inner.close()
            raise
        except BaseException as error:
            send, value = inner.throw, error


class no_grad(Scope):
    """Do not record calls for differentiation: ``with no_grad(): ...`` or ``@no_grad()``."""

    def __init__(self) -> None:
        self._change = Mode.without_grad
        self._tokens = []


class enable_grad(Scope):
    """Record calls again inside of `no_grad`."""

    def __init__(self) -> None:
        super().__init__(_grad_on)


def _grad_on(mode: Mode) -> Mode:
    return mode.replace(grad=True)


class device(Scope):
    """Make new tensors on a device: ``with device("cuda"): ...``. ``.device`` is the resolved `Device`.

    Raises:
        DeviceError: no installed plugin provides the device.
    """

    def __init__(self, name: Device | str) -> None:
        self.device = found = find_device(name)
        super().__init__(lambda mode: mode.replace(device=found))


def device_or_current(name: Device | str | None) -> Device:
    """The device that is named; without a name the one in force.

    Raises:
        DeviceError: no installed plugin provides the device.
    """
    return find_device(name) if name is not None else get_mode().device or cpu


def without(entered: tuple[S, ...], scope: S) -> tuple[S, ...]:
    """The scopes entered and not left, but for the last entry of ``scope``, which is being left."""
    at = max((i for i, other in enumerate(entered) if other is scope), default=None)
    return entered if at is None else entered[:at] + entered[at + 1 :]


class Fallen:
    """What the fallbacks of one operator from one point have cost: ``calls``, ``nbytes`` moved, ``seconds``."""

    __slots__ = ("calls", "nbytes", "seconds")

    def __init__(self) -> None:
        self.calls, self.nbytes, self.seconds = 0, 0, 0.0


_fallbacks: ContextVar[tuple[fallback, ...]] = ContextVar("tripoint_fallbacks", default=())


class fallback(Scope):
    """What becomes of a call that its point has no kernel, no hooks and no decomposition for, in a ``with`` block.

    Args:
        policy: ``"error"`` raises `NoKernelError`, as outside of any such scope. ``"warn"`` and ``"allow"`` copy the operands
            to strided tensors of plain dtypes on another device, compute there, and bring the result back to the device
            of the operands, where it stays strided and plain. ``"warn"`` warns once for each operator and point with the
            bytes moved, and sums up when the scope ends.
        to: the device that computes.

    Attributes:
        counts: by operator and point, a `Fallen` with ``calls``, ``nbytes`` and ``seconds``.

    A kernel that raises is never replaced. Derivatives of what was recorded in the scope run under its policy. All calls of a
    function that it decorates are counted in it, and warned of once; `report` sums them up.

    Raises:
        ArgumentError: another policy.
        DeviceError: no installed plugin provides the device.
    """

    def __init__(self, policy: str, *, to: Device | str = "cpu") -> None:
        if policy not in ("error", "warn", "allow"):
            raise ArgumentError(f"fallback: policy must be 'error', 'warn' or 'allow', not {policy!r}")
        self.policy = policy
        self.counts: dict[tuple[str, str], Fallen] = {}
        named = "error" if policy == "error" else f"{policy}:{find_device(to)}"
        super().__init__(lambda mode: mode.replace(fallback=named))

    def __enter__(self) -> Self:
        super().__enter__()
        _fallbacks.set((*_fallbacks.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _fallbacks.set(without(_fallbacks.get(), self))
        super().__exit__(kind, error, trace)
        if self.policy == "warn" and error is None and any(c.calls > 1 for c in self.counts.values()):
            _warn(self.report())

    def _again(self) -> Scope:
        return _Part(self)

    def report(self) -> str:
        """What fell back so far, as text."""
        if not self.counts:
            return "nothing fell back"
        lines = [
            f"{operator} on {point}: {c.calls} call{'s' * (c.calls != 1)}, {c.nbytes} bytes moved, {c.seconds:.3g} s"
            for (operator, point), c in self.counts.items()
        ]
        return "fallbacks: " + "; ".join(lines)


class _Part(Scope):
    """A fallback for one call or one resume of what it decorates: it counts there, and sums nothing up."""

    def __init__(self, whole: fallback) -> None:
        super().__init__(whole._change)
        self._whole = whole

    def __enter__(self) -> Self:
        _fallbacks.set((*_fallbacks.get(), self._whole))
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        _fallbacks.set(without(_fallbacks.get(), self._whole))


def fell_back(operator: str, point: str, nbytes: int, seconds: float) -> None:
    """Count one fallback in every scope in force, and warn where its policy says so."""
    scopes = _fallbacks.get()
    first = True
    for scope in scopes:
        found = scope.counts.get((operator, point))
        first &= found is None
        if found is None:
            found = scope.counts[operator, point] = Fallen()
        found.calls += 1
        found.nbytes += nbytes
        found.seconds += seconds
    policy, _, device = get_mode().fallback.partition(":")
    if first and policy == "warn":
        _warn(f"{operator} has no kernel for {point} and fell back to {device}: {nbytes} bytes moved")


def _warn(message: str) -> None:
    """Warn at the line of the user's that led here."""
    import sys
    import warnings

    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "tripoint").partition(".")[0] == "tripoint":
        frame = frame.f_back
    name = frame.f_globals.get("__name__")
    warnings.warn_explicit(message, FallbackWarning, frame.f_code.co_filename, frame.f_lineno, name)


def set_default_dtype(dtype: DType | str | type) -> None:
    """Set the dtype of floating tensors made from Python numbers; float32 unless set. Holds for the whole process.

    Raises:
        DTypeError: not a plain floating dtype.
    """
    made = as_dtype(dtype)
    if made not in floating:
        word = "complex" if made in complex_floating else "no floating"
        raise DTypeError(f"the default dtype must be a floating dtype; {made} is {word} dtype")
    Defaults.floating = made
    for tell in on_change:
        tell()


def get_default_dtype() -> DType:
    """The dtype of floating tensors made from Python numbers."""
    return Defaults.floating
