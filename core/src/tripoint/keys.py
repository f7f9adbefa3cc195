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

_interned: dict[tuple[Device | None, Layout | None, DType | None, frozenset[str]], Key] = {}

AUTOGRAD = "autograd"
VIEW = "view"


class Key:
    """One point of device, layout and dtype, and the parts that ride on it. Equal keys are the same object.

    Attributes:
        device, layout, dtype: the point.
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
    found = _interned.get(ident)
    if found is None:
        with _lock:
            found = _make(ident)
            _interned.update(_making)
            _making.clear()
    return found


# A key and its siblings point at each other, so they are made together under a lock and published when complete.
_lock = threading.Lock()
_making: dict[tuple[Device | None, Layout | None, DType | None, frozenset[str]], Key] = {}


def _make(ident: tuple[Any, Any, Any, frozenset[str]]) -> Key:
    found = _interned.get(ident) or _making.get(ident)
    if found is not None:
        return found
    key = _making[ident] = object.__new__(Key)
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
    key.base = key if not key.parts else _make((*point, frozenset()))
    key.recorded = key if key.autograd or key.layout is None else _make((*point, key.parts | {AUTOGRAD}))
    return key


ABSENT = intern(None, None, None)
SCALARS: dict[type, Key] = {kind: intern(None, None, dtype) for kind, dtype in WEAK.items()}
#: what the call path looks operands up in when they are no tensors; subclasses of Python's numbers are added as met.
BY_TYPE: dict[type, Key] = {**SCALARS, type(None): ABSENT}
