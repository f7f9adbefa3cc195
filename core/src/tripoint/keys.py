"""What plans are looked up by: interned (device, layout, dtype, parts).

Parts are what rides on a tensor and changes the walk of a call: ``autograd`` when gradients are wanted, ``view`` when the
tensor may have to be re-derived from the tensor that it views.
"""

from __future__ import annotations

import threading
from typing import Any

from tripoint.devices import Device
from tripoint.dtypes import WEAK, DType
from tripoint.layouts import Layout

__all__ = ["Key"]

Ident = tuple[Device | None, Layout | None, DType | None, frozenset[str]]

#: every key there is; replaced and never changed, so that no reader meets part of a family.
_interned: dict[Ident, Key] = {}

AUTOGRAD = "autograd"
VIEW = "view"


class Key:
    """One point of device, layout and dtype, and the parts that ride on it. Equal keys are the same object.

    Attributes:
        device, layout, dtype: the point; ``name`` has all in one.
        parts: names of what rides on it.
        autograd, view: whether these two parts are present.
        base: the key without parts.
        recorded: the key with the part ``autograd`` added.
        fitted: whether the layout fits gradients to its tensors.
    """

    __slots__ = (
        "__weakref__",
        "autograd",
        "base",
        "device",
        "dtype",
        "fitted",
        "layout",
        "name",
        "parts",
        "recorded",
        "view",
    )

    device: Device
    layout: Layout
    dtype: DType
    parts: frozenset[str]
    autograd: bool
    view: bool
    base: Key
    recorded: Key
    fitted: bool
    name: str

    def with_parts(self, *names: str) -> Key:
        """This key with more parts."""
        return intern(self.device, self.layout, self.dtype, self.parts.union(names))

    def without(self, *names: str) -> Key:
        """This key with fewer parts."""
        return intern(self.device, self.layout, self.dtype, self.parts.difference(names))

    def replace(self, *, device: Device | None = None, layout: Layout | None = None, dtype: DType | None = None) -> Key:
        """The bare key of a neighbouring point."""
        return intern(device or self.device, layout or self.layout, dtype or self.dtype)

    @property
    def is_tensor(self) -> bool:
        """Whether the key is a tensor's, not a Python scalar's and not that of an absent operand."""
        return self.layout is not None

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return intern, (self.device, self.layout, self.dtype, self.parts)


def intern(
    device: Device | None, layout: Layout | None, dtype: DType | None, parts: frozenset[str] = frozenset()
) -> Key:
    """The one key of that point and those parts."""
    ident = (device, layout, dtype, parts)
    return _interned.get(ident) or _added(ident)


# A key and its siblings point at each other, so they are made aside and published together: an interrupt or an error on the
# way leaves no half-made key behind. The lock is reentrant, since a signal handler that runs meanwhile may make keys too.
_lock = threading.RLock()


def _added(ident: Ident) -> Key:
    global _interned
    with _lock:
        while True:
            before = _interned
            made: dict[Ident, Key] = {}
            found = _make(ident, before, made)
            after = {**before, **made}
            if _interned is before:  # no signal handler made keys meanwhile
                _interned = after
                return found


def _make(ident: tuple[Any, Any, Any, frozenset[str]], known: dict[Ident, Key], made: dict[Ident, Key]) -> Key:
    found = known.get(ident) or made.get(ident)
    if found is not None:
        return found
    key = made[ident] = object.__new__(Key)
    key.device, key.layout, key.dtype, key.parts = ident
    key.autograd, key.view = AUTOGRAD in key.parts, VIEW in key.parts
    key.fitted = key.layout is not None and key.layout.gradient_like is not None
    if key.layout is None:
        key.name = "absent" if key.dtype is None else key.dtype.name
    else:
        key.name = f"{key.device}.{key.layout}.{key.dtype}"
    for part in sorted(key.parts, reverse=True):
        key.name = f"{part}<{key.name}>"
    point = ident[:3]
    key.base = key if not key.parts else _make((*point, frozenset()), known, made)
    if key.autograd or key.layout is None:
        key.recorded = key
    else:
        key.recorded = _make((*point, key.parts | {AUTOGRAD}), known, made)
    return key


ABSENT = intern(None, None, None)
SCALARS: dict[type, Key] = {kind: intern(None, None, dtype) for kind, dtype in WEAK.items()}
#: what the call path looks operands up in when they are no tensors; subclasses of Python's numbers are added as met.
BY_TYPE: dict[type, Key] = {**SCALARS, type(None): ABSENT}
