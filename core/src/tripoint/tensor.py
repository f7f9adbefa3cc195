"""The tensor: a key, a payload, a gradient record and an alias record, and nothing else.

The class stands low so that every room can name it. Operators arrive from above: the room ``ops`` fills the methods that
the class body declares for readers, editors and type checkers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Union

from tripoint import dtypes, layouts
from tripoint.errors import TensorAttributeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tripoint.devices import Device
    from tripoint.dtypes import DType
    from tripoint.keys import Key
    from tripoint.layouts import Layout, LayoutSpec
    from tripoint.storage import Alias, Storage, View

__all__ = ["Operand", "Scalar", "Tensor"]

Scalar = Union[bool, int, float, complex]  # noqa: UP007 - evaluated at run time, where Tensor is not yet known
Operand = Union["Tensor", bool, int, float, complex]
Index = Any
Axes = Union[int, "Sequence[int]", None]

# Familiar names from elsewhere, and what they are called here.
_elsewhere = {
    "view": "reshape(shape); it returns a view where the memory allows, copy=False insists on one",
    "dim": "ndim",
    "numel": "size, an attribute",
    "permute": "permute_dims(axes)",
    "unsqueeze": "expand_dims(axis)",
    "expand": "broadcast_to(shape)",
    "transpose": "permute_dims(axes), or .T and .mT",
    "type": "to(dtype=...)",
    "float": "to(dtype=tripoint.float32)",
    "double": "to(dtype=tripoint.float64)",
    "half": "to(dtype=tripoint.float16)",
    "long": "to(dtype=tripoint.int64)",
    "int": "to(dtype=tripoint.int32)",
    "cuda": "to('cuda')",
    "cpu": "to('cpu')",
    "clone": "copy()",
    "data": "detach()",
    "grad_fn": "requires_grad and is_leaf",
    "is_sparse": "layout",
    "stride": "strides, an attribute",
    "contiguous": "copy()",
    "nelement": "size, an attribute",
    "mm": "the operator @",
}


class Tensor:
    """An n-dimensional array on one point of device, layout and dtype.

    Tensors are made by `tripoint.asarray`, `tripoint.zeros` and their kin, never by calling this class.
    """

    __slots__ = ("__weakref__", "_alias", "_key", "_node", "_payload")

    _key: Key
    _payload: Any
    _node: Any
    _alias: Alias | View | None

    # NumPy must not take tensors apart element by element: both orders of `array + tensor` come to us.
    __array_ufunc__ = None

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._key.device

    @property
    def layout(self) -> Layout:
        """How the memory is read."""
        return self._key.layout

    @property
    def dtype(self) -> DType:
        """What one element means."""
        return self._key.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        try:
            return self._payload.shape  # type: ignore[no-any-return]
        except BaseException as error:
            unread(self, "shape", error)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        try:
            return len(self._payload.shape)
        except BaseException as error:
            unread(self, "shape", error)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        try:
            for s in self._payload.shape:
                n *= s
        except BaseException as error:
            unread(self, "shape", error)
        return n

    if TYPE_CHECKING:
        # Filled by the rooms above; declared here for readers and type checkers.
        def __hash__(self) -> int: ...
        @property
        def T(self) -> Tensor: ...
        @property
        def mT(self) -> Tensor: ...
        @property
        def requires_grad(self) -> bool: ...
        @property
        def is_leaf(self) -> bool: ...
        @property
        def strides(self) -> tuple[int, ...]: ...
        @property
        def readonly(self) -> bool: ...
        @property
        def grad(self) -> Tensor | None: ...
        @grad.setter
        def grad(self, value: Tensor | None) -> None: ...
        def storage(self) -> Storage: ...
        def item(self) -> Scalar: ...
        def tolist(self) -> Any: ...
        def numpy(self) -> Any: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
        def to(
            self,
            target: Tensor | Device | str | DType | Layout | LayoutSpec | None = None,
            /,
            *,
            device: Device | str | None = None,
            layout: Layout | LayoutSpec | str | None = None,
            dtype: DType | str | type | None = None,
            copy: bool | None = None,
            non_blocking: bool = False,
        ) -> Tensor: ...
        def astype(
            self, dtype: DType | str | type, *, copy: bool = True, device: Device | str | None = None
        ) -> Tensor: ...
        def copy(self) -> Tensor: ...
        def detach(self) -> Tensor: ...
        def requires_grad_(self, requires_grad: bool = True) -> Tensor: ...
        def backward(
            self, gradient: Tensor | None = None, *, retain_graph: bool | None = None, create_graph: bool = False
        ) -> None: ...

        def sum(self, *, axis: Axes = None, dtype: DType | str | None = None, keepdims: bool = False) -> Tensor: ...
        def prod(self, *, axis: Axes = None, dtype: DType | str | None = None, keepdims: bool = False) -> Tensor: ...
        def mean(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def max(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def min(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def all(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def any(self, *, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def argmax(self, *, axis: int | None = None, keepdims: bool = False) -> Tensor: ...
        def argmin(self, *, axis: int | None = None, keepdims: bool = False) -> Tensor: ...
        def reshape(self, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor: ...
        def permute_dims(self, axes: Sequence[int]) -> Tensor: ...
        def expand_dims(self, axis: int | Sequence[int] = 0) -> Tensor: ...
        def squeeze(self, axis: int | Sequence[int]) -> Tensor: ...
        def broadcast_to(self, shape: Sequence[int]) -> Tensor: ...
        def flatten(self, start: int = 0, stop: int = -1) -> Tensor: ...
        def exp(self) -> Tensor: ...
        def log(self) -> Tensor: ...
        def sqrt(self) -> Tensor: ...
        def tanh(self) -> Tensor: ...

        def __add__(self, other: Operand, /) -> Tensor: ...
        def __radd__(self, other: Operand, /) -> Tensor: ...
        def __iadd__(self, other: Operand, /) -> Tensor: ...
        def __sub__(self, other: Operand, /) -> Tensor: ...
        def __rsub__(self, other: Operand, /) -> Tensor: ...
        def __isub__(self, other: Operand, /) -> Tensor: ...
        def __mul__(self, other: Operand, /) -> Tensor: ...
        def __rmul__(self, other: Operand, /) -> Tensor: ...
        def __imul__(self, other: Operand, /) -> Tensor: ...
        def __truediv__(self, other: Operand, /) -> Tensor: ...
        def __rtruediv__(self, other: Operand, /) -> Tensor: ...
        def __itruediv__(self, other: Operand, /) -> Tensor: ...
        def __floordiv__(self, other: Operand, /) -> Tensor: ...
        def __rfloordiv__(self, other: Operand, /) -> Tensor: ...
        def __mod__(self, other: Operand, /) -> Tensor: ...
        def __rmod__(self, other: Operand, /) -> Tensor: ...
        def __pow__(self, other: Operand, /) -> Tensor: ...
        def __rpow__(self, other: Operand, /) -> Tensor: ...
        def __ipow__(self, other: Operand, /) -> Tensor: ...
        def __matmul__(self, other: Tensor, /) -> Tensor: ...
        def __rmatmul__(self, other: Tensor, /) -> Tensor: ...
        def __and__(self, other: Operand, /) -> Tensor: ...
        def __rand__(self, other: Operand, /) -> Tensor: ...
        def __or__(self, other: Operand, /) -> Tensor: ...
        def __ror__(self, other: Operand, /) -> Tensor: ...
        def __xor__(self, other: Operand, /) -> Tensor: ...
        def __rxor__(self, other: Operand, /) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __eq__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
        def __lt__(self, other: Operand, /) -> Tensor: ...
        def __le__(self, other: Operand, /) -> Tensor: ...
        def __gt__(self, other: Operand, /) -> Tensor: ...
        def __ge__(self, other: Operand, /) -> Tensor: ...
        def __getitem__(self, index: Index, /) -> Tensor: ...
        def __setitem__(self, index: Index, value: Operand, /) -> None: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...
        def __len__(self) -> int: ...
        def __contains__(self, value: Operand, /) -> bool: ...
        def __iter__(self) -> Iterator[Tensor]: ...
    else:
        __hash__ = object.__hash__

        def __dir__(self) -> list[str]:
            declared = (*self._key.layout.attributes, *self._key.dtype.attributes)
            return sorted(
                {n for n in object.__dir__(self) if type(getattr(Tensor, n, None)) is not DeclaredAttribute}
                | {*declared}
            )


class DeclaredAttribute:
    """An attribute of tensors that their layout or dtype declares, or a familiar name that is spelled otherwise here.

    Note [No __getattr__]: a class that defines ``__getattr__`` loses CPython 3.11's fast reads of its slots, a sixth of
    every call. So each name that is declared stands on the class, as one of these, while somebody declares it.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Tensor | None, owner: type) -> Any:
        if tensor is None:
            return self
        name, key = self.name, tensor._key
        for place in (key.layout, key.dtype):
            found = place.attributes.get(name)
            if found is not None:
                try:
                    return found(tensor)
                except BaseException as error:
                    unread(tensor, f"attribute {name}", error)
        known: list[Any] = [*layouts.registered.values(), *dtypes.registered.values()]
        have = " or ".join(str(place) for place in known if name in place.attributes)
        hint = f"it is for {have}" if have else f"here it is {_elsewhere.get(name)}"
        raise TensorAttributeError(f"a tensor on {key.base} has no attribute {name!r}; {hint}", name=name, obj=tensor)


def declare_attributes() -> None:
    """Put what the registered layouts and dtypes declare now on the class, and take off what nobody declares any more."""
    places: list[Any] = [*layouts.registered.values(), *dtypes.registered.values()]
    wanted = {*_elsewhere, *(name for place in places for name in place.attributes)}
    for name in [n for n, value in vars(Tensor).items() if type(value) is DeclaredAttribute and n not in wanted]:
        delattr(Tensor, name)
    for name in wanted:
        if not hasattr(Tensor, name):
            setattr(Tensor, name, DeclaredAttribute(name))


declare_attributes()


def _unread(tensor: Tensor, what: str, error: BaseException) -> NoReturn:
    raise error


#: raises what becomes of an error of a payload or of an attribute that was read; the room ``plugins`` sets it.
unread: Callable[[Tensor, str, BaseException], NoReturn] = _unread


def wrap(key: Key, payload: Any) -> Tensor:
    """A tensor on ``key`` that carries ``payload``; nothing is checked."""
    out = Tensor()
    out._key = key
    out._payload = payload
    out._node = None
    out._alias = None
    return out
