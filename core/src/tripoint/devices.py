"""Where the memory is."""

from __future__ import annotations

from typing import Any

from tripoint.errors import DeviceError

__all__ = ["Device"]

_interned: dict[tuple[str, int | None, bool], Device] = {}


class Device:
    """A place that holds memory: a type name and, for devices that come in several, an index.

    Equal devices are the same object. ``indexed=True`` says that the type comes in several; a tensor is then always on
    ``type:index``, never on the bare type. Only the plugin that brings a device says so; who makes a bare ``Device(type)``
    before that plugin is loaded decides nothing.

    Args:
        type: exact name of the device type, such as ``"cpu"``.
        index: which one of its type, from 0.
        indexed: whether devices of this type come in several.
    """

    __slots__ = ("_hash", "index", "indexed", "type")

    type: str
    index: int | None
    indexed: bool
    _hash: int

    def __new__(cls, type: str, index: int | None = None, *, indexed: bool = False) -> Device:
        if not type or not isinstance(type, str) or not type.replace("_", "a").isalnum():
            raise DeviceError(f"a device type is a name of letters, digits and _, not {type!r}")
        if index is not None:
            number = -1 if isinstance(index, bool) or not hasattr(index, "__index__") else int(index)
            if number < 0:
                raise DeviceError(f"device {type!r}: an index is an int from 0, not {index!r}")
            index = number
        type = str.__str__(type)  # as it is in every table, whatever a subclass of str does
        ident = (type, index, indexed or index is not None)
        found = _interned.get(ident)
        if found is None:
            made = object.__new__(cls)
            made.type, made.index, made.indexed = ident
            made._hash = hash(str(made))
            found = _interned.setdefault(ident, made)
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == str(self))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.type, self.index, self.indexed)


def _again(type: str, index: int | None, indexed: bool) -> Device:
    return Device(type, index, indexed=indexed)


cpu = Device("cpu")


def split_name(name: str) -> tuple[str, int | None]:
    """``"cuda:1"`` as ``("cuda", 1)``.

    Raises:
        DeviceError: what follows the colon is not an index.
    """
    head, colon, tail = name.partition(":")
    if not colon:
        return head, None
    if not tail.isascii() or not tail.isdigit():
        raise DeviceError(f"device {name!r}: what follows the colon must be an index from 0, such as {head + ':0'!r}")
    return head, int(tail)
