"""Every error that a user of Tripoint can cause.

Each class is also the built-in exception that a NumPy user would catch, so ``except ValueError`` keeps working. Messages
say what was wrong, with which value, and what to do.
"""

from __future__ import annotations

__all__ = [
    "AliasError",
    "AmbiguousKernelError",
    "ArgumentError",
    "AutogradError",
    "DTypeError",
    "DeviceError",
    "ExchangeError",
    "IndexingError",
    "LayoutError",
    "NoKernelError",
    "NotBuiltYetError",
    "OutOfMemoryError",
    "PluginError",
    "ReadOnlyError",
    "RegistrationError",
    "ScalarRangeError",
    "ShapeError",
    "SizeError",
    "TensorAttributeError",
    "TripointError",
]


def shown(value: object) -> str:
    """``repr(value)`` for a message: shortened where it is long, and for ints that Python refuses to write out."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"{'-' if value < 0 else ''}2**{value.bit_length() - 1} or more"
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}..."


class TripointError(Exception):
    """Base of every error that Tripoint raises on purpose."""


class NoKernelError(TripointError, TypeError):
    """No kernel, hook or decomposition computes an operator on these points.

    Attributes:
        operator: qualified name of the operator.
        points: one ``(argument name, point name)`` pair per dispatch argument.
        nearest: points on which the operator has a kernel, nearest first, as text.
        help: what would help, or an empty string.
        chain: operators being decomposed when the kernel was missed, innermost first.
    """

    def __init__(
        self,
        operator: str,
        points: tuple[tuple[str, str], ...],
        nearest: tuple[str, ...] = (),
        help: str = "",
        reasons: tuple[str, ...] = (),
    ) -> None:
        super().__init__(operator, points)
        self.operator = operator
        self.points = points
        self.nearest = nearest
        self.help = help
        self.reasons = reasons
        self.chain: list[str] = []

    def __str__(self) -> str:
        chain = "".join(f", while decomposing {name}" for name in self.chain)
        lines = [f"no kernel for {self.operator}{chain}"]
        lines += [f"  {name}: {point}" for name, point in self.points[:3]]
        if len(self.points) > 3:
            lines.append(f"  ... and {len(self.points) - 3} more arguments")
        lines += [f"  not used: {reason}" for reason in self.reasons[:2]]
        if self.nearest:
            lines.append("  nearest points with a kernel: " + ", ".join(self.nearest[:3]))
        if self.help:
            lines.append("  " + self.help)
        return "\n".join(lines)


class AmbiguousKernelError(TripointError, TypeError):
    """Two kernels fit a call equally well and no preference was stated."""


class PluginError(TripointError, RuntimeError):
    """A plugin could not be loaded, or is broken; chained to what it raised."""


class RegistrationError(PluginError):
    """A plugin registered something that the schema does not allow."""


class DeviceError(TripointError, ValueError):
    """Unknown or unusable device, or devices that do not go together."""


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


class AutogradError(TripointError, RuntimeError):
    """Recording or differentiating was asked for where it cannot be done."""


class OutOfMemoryError(TripointError, MemoryError):
    """An allocator could not serve a request."""


class TensorAttributeError(TripointError, AttributeError):
    """A tensor, or the namespace, has no such attribute."""


class NotBuiltYetError(TripointError, NotImplementedError):
    """A planned part of Tripoint that this version does not have."""
