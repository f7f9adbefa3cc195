"""What registrations are made for, and by whom: patterns of keys, which of two is narrower, and origins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint import dtypes as dt
from tripoint.callables import ends_in, module_of
from tripoint.dtypes import DTypeClass
from tripoint.errors import RegistrationError, cleaned, short_file, shown
from tripoint.keys import ABSENT, Key

ANY = "*"


class Pattern:
    """Which points an argument may stand on: a device type, a layout and a dtype or class of dtypes, ``*`` for any.

    ``*`` for a dtype covers the plain ones: an opaque dtype is matched by its name alone.
    """

    __slots__ = ("device", "dtype", "layout")

    def __init__(self, device: str = ANY, layout: str = ANY, dtype: str | DTypeClass = dt.plain) -> None:
        named = isinstance(device, str) and isinstance(layout, str)
        if not named or not (isinstance(dtype, str) or type(dtype) is DTypeClass):
            given = ", ".join(map(shown, (device, layout, dtype)))
            raise RegistrationError(
                f"a pattern is a device and a layout by name, and a dtype by name or a class, not {given}"
            )
        self.device = str.__str__(device)
        self.layout = str.__str__(layout)
        if isinstance(dtype, str):  # the name of a class is the class: a pattern by that name alone would match nothing
            name = str.__str__(dtype)
            dtype = dt.plain if name == ANY else dt.CLASSES.get(name, name)
        self.dtype: str | DTypeClass = dtype

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


Patterns = tuple[Pattern, ...]


def beats(p: Patterns, q: Patterns) -> bool:
    """Whether ``p`` is nowhere wider than ``q`` and somewhere narrower."""
    narrower = False
    for a, b in zip(p, q, strict=True):
        for x, y in zip(a.ranks(), b.ranks(), strict=True):
            if x > y:
                return False
            narrower |= x < y
    return narrower


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
        name = getattr(fn, "__name__", None)  # of a function it can be set to anything, as can __module__
        self.function: str = cleaned(name, 1) if name and isinstance(name, str) else type(fn).__name__
        inner = getattr(fn, "__wrapped__", fn)
        code = getattr(ends_in(inner)[0], "__code__", None)
        # What a factory closes over tells its kernels apart, and their name does not, unless the factory gave each its own.
        alike = getattr(fn, "__closure__", None) is not None and self.function == getattr(code, "co_name", None)
        nameless = self.function == "<lambda>" or not hasattr(fn, "__name__")
        self.operator = operator if (alike or nameless) and operator != self.function else ""
        self.module: str | None = module_of(inner) or type(inner).__module__
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


class OnPatterns:
    """Something registered for patterns: ``every``, which each argument matches, or one per dispatch argument, ``args``."""

    __slots__ = ("args", "every", "operator", "origin")

    def __init__(self, operator: str, origin: Origin, every: Pattern | None, args: Patterns | None) -> None:
        self.operator = operator
        self.origin = origin
        self.every = every
        self.args = args

    def patterns(self, slots: tuple[int, ...]) -> Patterns:
        """One pattern per flattened argument; ``slots`` says which parameter each belongs to."""
        if self.every is not None:
            return (self.every,) * len(slots)
        assert self.args is not None
        return tuple([self.args[i] for i in slots])

    def pattern(self) -> str:
        """What it is registered for, as text."""
        return str(self.every) if self.every is not None else f"({', '.join(str(a) for a in self.args or ())})"
