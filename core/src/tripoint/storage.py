"""What aliases of one allocation share, and what a view remembers of the tensor it views.

Every alias that Tripoint makes of a tensor (a view, a detached tensor, a saved operand) shares one `Alias` and so one
version counter, which each write moves. A view has a `View` in its place, which holds the shared record, the base, and
what turned the base into the view, so that it can be derived again after the base's history was rewritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tripoint.schema import Row
    from tripoint.tensor import Tensor

__all__ = ["Alias", "Storage", "View"]


class Alias:
    """The record that all aliases of one allocation share; ``version`` counts the writes."""

    __slots__ = ("version",)

    version: int  # set by whoever makes one: a Python __init__ would be one more call


class View:
    """What a view remembers: the shared record, its base, how it was made, and the version its history is of.

    Filled by plans, see `VIEWED`: a Python ``__init__`` would be one more call for every view.
    """

    __slots__ = ("base", "meta", "record", "row", "seen")

    record: Alias
    base: Tensor
    row: Row
    meta: tuple[Any, ...]
    seen: int

    @property
    def version(self) -> int:
        """The shared version counter."""
        return self.record.version


def record_of(tensor: Tensor) -> Alias:
    """The record that aliases of ``tensor`` share; made now if this is the first alias."""
    alias = tensor._alias
    if alias is None:
        alias = tensor._alias = Alias()
        alias.version = 0
        return alias
    return alias.record if alias.__class__ is View else alias  # type: ignore[return-value]


#: source that makes ``out`` a view of ``a0`` by ``row`` with the metadata ``{meta}``, in plans.
VIEWED = (
    "al = a0._alias",
    "if al is None:",
    "    al = a0._alias = Alias()",
    "    al.version = 0",
    "elif type(al) is View: al = al.record",
    "v = out._alias = View()",
    "v.record = al",
    "v.base = a0",
    "v.row = row",
    "v.meta = ({meta})",
    "v.seen = al.version",
)


def wrote(tensor: Tensor) -> None:
    """Count one write into the memory of ``tensor``."""
    record_of(tensor).version += 1


#: source that counts one write into the memory of ``a0``, in plans; as `wrote`, without another call.
WROTE = (
    "al = a0._alias",
    "if al is None:",
    "    al = a0._alias = Alias()",
    "    al.version = 1",
    "else:",
    "    (al.record if type(al) is View else al).version += 1",
)


def chain_of(tensor: Tensor) -> list[Tensor]:
    """``tensor``, the tensor that it views, and so on to the root, which is no view."""
    chain = [tensor]
    while isinstance(alias := chain[-1]._alias, View):
        chain.append(alias.base)
    return chain


class Storage:
    """The allocation behind a tensor; views of one another answer with equal storages.

    Attributes:
        device: where it is.
        address: first byte, as the device counts addresses.
        nbytes: size in bytes.
        readonly: whether writes are refused.
    """

    __slots__ = ("address", "device", "nbytes", "readonly")

    def __init__(self, device: str, address: int, nbytes: int, readonly: bool) -> None:
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self.readonly = readonly

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and (self.device, self.address) == (other.device, other.address)

    def __hash__(self) -> int:
        return hash((self.device, self.address))

    def __repr__(self) -> str:
        flag = ", readonly" if self.readonly else ""
        return f"Storage({self.device}, {self.nbytes} bytes at {self.address:#x}{flag})"
