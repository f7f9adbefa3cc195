"""Every error that a user of Tripoint can cause.

Each class is also the built-in exception that a NumPy user would catch, so ``except ValueError`` keeps working. Messages
say what was wrong, with which value, and what to do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "AliasError",
    "AmbiguousKernelError",
    "ArgumentError",
    "AsyncError",
    "AutogradError",
    "DTypeError",
    "DeviceError",
    "DeviceLostError",
    "ExchangeError",
    "ExistsError",
    "FallbackWarning",
    "IndexingError",
    "LayoutError",
    "NoKernelError",
    "NotBuiltYetError",
    "OutOfMemoryError",
    "PluginError",
    "PluginNameError",
    "ReadOnlyError",
    "RegistrationError",
    "ScalarRangeError",
    "ShapeError",
    "SizeError",
    "TensorAttributeError",
    "TripointError",
]


#: escape sequences of terminals, and characters that move the cursor or turn the line around: no part of any message.
_UNSEEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
#: lines that the text of an exception or a probe may have within a message, so that the whole stays within `MOST_LINES`.
_MOST_TOLD = 8


def kind_of(value: object) -> str:
    """Name of a value's class, whatever its metaclass does."""
    return cleaned(str.__str__(type.__dict__["__name__"].__get__(type(value))), 1)


def cleaned(text: str, most: int | None = None) -> str:
    """Text without control characters; where ``most`` is given, of so many lines at most, each of 400 characters at most."""
    text = _UNSEEN.sub("", text)
    if not text.isascii():  # half a character, as in a file name that is no text, cannot be written to most streams
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if most is None:
        return text
    lines = text.splitlines() or [""]
    if len(lines) > most:
        lines[most - 1 :] = [f"... and {len(lines) - most + 1} more lines"] if most > 1 else [f"{lines[0]}..."]
    return "\n".join([line if len(line) <= 400 else f"{line[:397]}..." for line in lines])


def told(value: object) -> str | None:
    """``str(value)`` of something that a plugin gave, cleaned and cut short; ``None`` where its class does not let it be had.

    Exceptions, answers of probes and hooks, and what else comes out of a plugin are written by this and by `shown` alone:
    their ``__str__`` may raise, SystemExit included, and a subclass of str may write itself otherwise each time.
    """
    try:
        return cleaned(str.__str__(value if issubclass(type(value), str) else str(value)), _MOST_TOLD)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def shown(value: object) -> str:
    """``repr(value)`` for a message: shortened where it is long, and for ints that Python refuses to write out."""
    try:
        if isinstance(value, int) and value.bit_length() > 128:
            return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"
        text = cleaned(str.__str__(repr(value)))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"a {kind_of(value)}"
    return text if len(text) <= 200 else f"{text[:200]}..."


def said(error: BaseException | None) -> str:
    """An exception as text of few lines, whatever its own ``__str__`` does."""
    text = told(error)
    if text is None:
        return f"{kind_of(error)}, whose text cannot be had"
    return f"{kind_of(error)}: {text}" if text else kind_of(error)


def noted(error: BaseException, note: str) -> None:
    """Add a note to an exception, also to one that lets nothing be set, such as a frozen dataclass.

    One whose notes cannot be had at all stays without: it is never replaced.
    """
    try:
        notes = [*getattr(error, "__notes__", ())]
        if note not in notes:  # of an error that is kept and raised again
            BaseException.__setattr__(error, "__notes__", [*notes, note])
    except KeyboardInterrupt:
        raise
    except BaseException:
        return


def clipped(text: str, most: int) -> str:
    """One line of at most ``most`` characters."""
    line = cleaned(text if "\n" not in text and "\r" not in text else " ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def grouped(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of name and text; where there are more than three, the names that share a text stand together."""
    if len(pairs) <= 3:
        return pairs
    groups: dict[str, list[str]] = {}
    for name, text in pairs:
        groups.setdefault(text, []).append(name)
    return [
        (", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""), text)
        for text, names in groups.items()
    ]


def sized(count: float) -> str:
    """A number of bytes for a message."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
    step = min((int(count).bit_length() - 1) // 10, len(units) - 1) if count else 0
    return f"{count / 1024**step:.3g} {units[step]}" if step else f"{count} bytes"


def difference(name: str, axis: str, has: str, wants: str) -> str:
    """Where an argument does not fit, as text."""
    return f"{name} is {has}, not {wants}" if axis == "kind" else f"the {axis} of {name} is {has}, not {wants}"


def short_file(file: str, module: str | None) -> str:
    """A source file as a reader of a message needs it: from its top package on, never with a machine's folders."""
    parts = file.replace("\\", "/").split("/")
    top = (module or "").partition(".")[0]
    at = [i for i, part in enumerate(parts[:-1]) if part == top]
    return "/".join(parts[at[-1] :]) if at else parts[-1]


class TripointError(Exception):
    """Base of every error that Tripoint raises on purpose."""


class Near:
    """A kernel that an operator does have, and what of a call it does not fit.

    Attributes:
        point: what it is registered for, as text.
        provider: who registered it.
        differs: for each axis that does not fit: argument, axis (``kind`` for a number in place of a tensor, or the reverse),
            what the call has, and what the kernel takes.
    """

    __slots__ = ("differs", "point", "provider")

    def __init__(self, point: str, provider: str, differs: tuple[tuple[str, str, str, str], ...]) -> None:
        self.point = point
        self.provider = provider
        self.differs = differs

    def __str__(self) -> str:
        parts = [difference(*differs) for differs in self.differs[:3]]
        more = [f"{len(self.differs) - 3} more differences"] if len(self.differs) > 3 else []
        return f"{self.point} ({self.provider})" + (": " if parts else "") + "; ".join(parts + more)

    def __repr__(self) -> str:
        return f"<near {self}>"


#: lines of the text of `NoKernelError`, at most.
MOST_LINES = 12
Routes = tuple[tuple[str, str], ...]


class NoKernelError(TripointError, TypeError):
    """No kernel, hook or decomposition computes an operator on these points. The text has at most twelve lines.

    Attributes:
        operator: qualified name of the operator.
        points: one ``(argument name, point name)`` pair per dispatch argument.
        sources: for each of them what gave the point: empty for the argument itself, else a cast or what the call asked for.
        nearest: the kernels that the operator has, as `Near`, nearest first.
        help: what would help, or an empty string.
        reasons: kernels that fit and took no part, as text.
        routes: what was tried in order (kernel, hooks, decomposition, fallback) and why each was left, as pairs.
        packages: the distributions that would help: to install, to prefer, or to repair.
        chain: operators being decomposed when the kernel was missed, innermost first.
    """

    def __init__(
        self,
        operator: str,
        points: tuple[tuple[str, str], ...],
        nearest: tuple[Near, ...] = (),
        help: str = "",
        reasons: tuple[str, ...] = (),
        sources: tuple[str, ...] = (),
    ) -> None:
        super().__init__(operator, points)
        self.operator = operator
        self.points = points
        self.sources = sources or ("",) * len(points)
        self.nearest = nearest
        self.help = help
        self.reasons = reasons
        self._routes: Routes | Callable[[], Routes] = ()
        self.packages: tuple[str, ...] = ()
        self.chain: list[str] = []

    @property
    def routes(self) -> Routes:
        """What was tried, found out when somebody asks, since many such errors are caught and nobody reads them."""
        if callable(self._routes):
            self._routes = self._routes()
        return self._routes

    @routes.setter
    def routes(self, routes: Routes | Callable[[], Routes]) -> None:
        self._routes = routes

    def __reduce__(self) -> Any:
        self._routes = self.routes  # a function cannot be pickled
        return super().__reduce__()

    def __str__(self) -> str:
        chain = "".join(f", while decomposing {clipped(name, 60)}" for name in self.chain[:3])
        if len(self.chain) > 3:
            chain += f", and {len(self.chain) - 3} more above"
        lines = [f"no kernel for {clipped(self.operator, 60)}{chain}"]
        named = [
            (name, point + (f" ({source})" if source else ""))
            for (name, point), source in zip(self.points, self.sources, strict=True)
        ]
        groups = grouped(named)
        lines += [f"  {name}: {point}" for name, point in groups[:4]]
        if len(groups) > 4:
            lines.append(f"  ... and {len(groups) - 4} more")
        if self.routes:
            lines.append("  tried: " + "; ".join([f"{route}: {why}" for route, why in self.routes]))
        lines += [f"  not used: {reason}" for reason in self.reasons[:2]]
        room = MOST_LINES - len(lines) - bool(self.help)
        lines += [f"  nearest: {near}" for near in self.nearest[: min(3, room)]]
        if self.help:
            lines.append("  " + self.help)
        return "\n".join([clipped(line, 400) for line in lines])


class AmbiguousKernelError(TripointError, TypeError):
    """Two kernels fit a call equally well and no preference was stated."""


class PluginError(TripointError, RuntimeError):
    """A plugin could not be loaded, or is broken; chained to what it raised."""


class PluginNameError(PluginError, AttributeError):
    """A name that an installed plugin adds to the namespace, and the plugin is broken or blocked: ``hasattr`` is false."""


class RegistrationError(PluginError):
    """A plugin registered something that the schema does not allow."""


class DeviceError(TripointError, ValueError):
    """Unknown or unusable device, or devices that do not go together."""


class DeviceLostError(DeviceError):
    """A device that was usable is so no more; what it held is gone."""


class LayoutError(TripointError, ValueError):
    """Unknown layout, or a question that a layout has no answer to."""


class DTypeError(TripointError, TypeError):
    """Unknown dtype, or dtypes that an operator does not take."""


class ShapeError(TripointError, ValueError):
    """Shapes or axes that do not fit the operator."""


class SizeError(ShapeError, OverflowError):
    """A shape whose number of elements does not fit in 63 bits."""


class IndexingError(TripointError, IndexError):
    """An index outside of its axis, or more indices than axes."""


class ScalarRangeError(TripointError, OverflowError):
    """A Python number that the dtype cannot hold."""


class ReadOnlyError(TripointError, ValueError):
    """A write into a read-only tensor."""


class AliasError(TripointError, ValueError):
    """``copy=False`` was asked for and a copy would be needed."""


class ExchangeError(TripointError, BufferError):
    """Memory that cannot be shared with another library as asked."""


class ArgumentError(TripointError, TypeError):
    """An argument of a kind that the function does not take."""


class ExistsError(TripointError, FileExistsError):
    """A file or folder would be overwritten."""


class AutogradError(TripointError, RuntimeError):
    """Recording or differentiating was asked for where it cannot be done."""


class AsyncError(TripointError, RuntimeError):
    """A kernel failed after the call that queued it had returned.

    Attributes:
        operator: name of the kernel's operator.
    """

    operator: str = ""


class OutOfMemoryError(TripointError, MemoryError):
    """An allocator could not serve a request.

    Attributes:
        wanted, in_use, cached, limit, largest: bytes, where the allocator knows them: asked for, in tensors, kept for reuse,
            the limit set, the largest free piece.
    """

    wanted: int | None = None
    in_use: int | None = None
    cached: int | None = None
    limit: int | None = None
    largest: int | None = None


class FallbackWarning(UserWarning):
    """A call was computed on another device, in a scope of `tripoint.fallback` that permits it."""


class TensorAttributeError(TripointError, AttributeError):
    """A tensor, or the namespace, has no such attribute."""


class NotBuiltYetError(TripointError, NotImplementedError):
    """A planned part of Tripoint that this version does not have."""
