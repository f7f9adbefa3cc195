"""Methods and special methods of Tensor, filled here from the operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

from tripoint import kernels, plugins
from tripoint.devices import Device, cpu
from tripoint.dispatcher.declare import dunder
from tripoint.dtypes import DType, as_dtype
from tripoint.errors import (
    AliasError,
    ArgumentError,
    AutogradError,
    DTypeError,
    LayoutError,
    PluginError,
    ScalarRangeError,
    ShapeError,
    TripointError,
    cleaned,
    said,
    shown,
    told,
)
from tripoint.keys import intern
from tripoint.layouts import Layout, LayoutSpec, strided
from tripoint.ops import conversion, creation, elementwise, indexing, linalg, manipulation, reductions
from tripoint.patterns import Origin
from tripoint.storage import Storage
from tripoint.tensor import Operand, Tensor, wrap

_BINARY: dict[str, Any] = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide,
    "mod": elementwise.remainder,
    "pow": elementwise.pow,
    "and": elementwise.bitwise_and,
    "or": elementwise.bitwise_or,
    "xor": elementwise.bitwise_xor,
    "matmul": linalg.matmul,
}
_INPLACE = {
    "add": elementwise.add_,
    "sub": elementwise.subtract_,
    "mul": elementwise.multiply_,
    "truediv": elementwise.divide_,
    "floordiv": elementwise.floor_divide_,
    "mod": elementwise.remainder_,
    "pow": elementwise.pow_,
    "and": elementwise.bitwise_and_,
    "or": elementwise.bitwise_or_,
    "xor": elementwise.bitwise_xor_,
}
_COMPARE = {
    "eq": elementwise.equal,
    "ne": elementwise.not_equal,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}
_METHODS: dict[str, Callable[..., Any]] = {
    "sum": reductions.sum,
    "prod": reductions.prod,
    "mean": reductions.mean,
    "max": reductions.max,
    "min": reductions.min,
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "permute_dims": manipulation.permute_dims,
    "expand_dims": manipulation.expand_dims,
    "squeeze": manipulation.squeeze,
    "broadcast_to": manipulation.broadcast_to,
    "flatten": manipulation.flatten,
    "astype": conversion.astype,
    "copy": conversion.copy,
    "detach": conversion.detach,
    "exp": elementwise.exp,
    "log": elementwise.log,
    "sqrt": elementwise.sqrt,
    "tanh": elementwise.tanh,
    "__neg__": elementwise.negative,
    "__pos__": elementwise.positive,
    "__abs__": elementwise.abs,
    "__invert__": elementwise.bitwise_invert,
    "__getitem__": indexing.index,
    "__setitem__": indexing.set_index,
    "tolist": conversion.to_list,
    "numpy": conversion.to_numpy,
}


def reshape(self: Tensor, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
    """The same elements under another shape; see `tripoint.reshape`."""
    wanted: Any = shape[0] if len(shape) == 1 else shape
    return manipulation.reshape(self, wanted, copy=copy)


def to(
    self: Tensor,
    target: Tensor | Device | str | DType | Layout | LayoutSpec | None = None,
    /,
    *,
    device: Device | str | None = None,
    layout: Layout | LayoutSpec | str | None = None,
    dtype: DType | str | type | None = None,
    copy: bool | None = None,
    non_blocking: bool = False,
) -> Tensor:
    """This tensor on another device, layout or dtype; what is not named stays.

    Args:
        target: a device, a dtype, a layout, or a tensor whose point to take, with the parameters of its layout.

    Raises:
        AliasError, DTypeError, NoKernelError, DeviceError, LayoutError: as `tripoint.to`.
    """
    if isinstance(target, Tensor):
        device, layout, dtype = device or target.device, layout or _layout_like(target, self), dtype or target.dtype
    elif isinstance(target, DType):
        dtype = dtype or target
    elif isinstance(target, (Layout, LayoutSpec)):
        layout = layout or target
    elif isinstance(target, (Device, str)):
        device = device or target
    elif target is not None:
        raise ArgumentError(
            f"to takes a device, a dtype, a layout or a tensor, not {target!r}; name it: dtype={target!r}"
        )
    return conversion.to(self, device=device, layout=layout, dtype=dtype, copy=copy, non_blocking=non_blocking)


def _layout_like(target: Tensor, x: Tensor) -> Layout | LayoutSpec:
    """The layout of ``target`` with its parameters; without them where ``x`` is there and has the same."""
    wanted = conversion.layout_of(target)
    return target.layout if x.device is target.device and conversion.layout_of(x) == wanted else wanted


def item(self: Tensor) -> Any:
    """The one element as a Python number.

    Raises:
        ShapeError: not exactly one element.
    """
    if self.size != 1:
        raise ShapeError(f"item of a tensor of shape {self.shape}: it has {self.size} elements, not one; use tolist()")
    found = tolist(self)
    while isinstance(found, list):
        found = found[0]
    return found


def _host(self: Tensor) -> Tensor:
    """A tensor whose elements can be read on the CPU; a copy from another device is what reading means."""
    return conversion.to(self.detach(), device="cpu", layout="strided", dtype=self.dtype.plain)


def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers: of a device whose backend lists them itself, without the CPU's."""
    key = self._key.base
    if key.device is not cpu:
        from tripoint.dispatcher.resolve import kernel_for

        if kernel_for(kernels.row_of(conversion.to_list), (key,)) is not None:
            return conversion.to_list(self.detach())
    return conversion.to_list(_host(self))


def numpy(self: Tensor) -> Any:
    """The elements as a NumPy array that shares memory.

    Raises:
        NoKernelError, LayoutError: the tensor is not a strided one on the CPU; convert it first.
    """
    return conversion.to_numpy(self.detach())


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """NumPy's protocol: an array that shares memory unless ``dtype`` or ``copy`` asks for a copy."""
    out = numpy(self)
    if copy is False and dtype is not None and out.dtype != dtype:
        raise AliasError(f"converting {out.dtype} to {dtype} needs a copy, and copy=False forbids it")
    if dtype is not None and out.dtype != dtype:
        return out.astype(dtype)
    return out.copy() if copy else out


def _one(self: Tensor, what: str) -> Any:
    if self.size != 1:
        raise ShapeError(
            f"{what} of a tensor of shape {self.shape} is ambiguous: it has {self.size} elements; "
            + ("reduce it first, as by .any() or .all()" if what == "bool()" else "reduce it, or take one, as by x[0]")
        )
    return item(self)


def as_bool(self: Tensor) -> bool:
    """The truth of the one element."""
    return bool(_one(self, "bool()"))


def as_int(self: Tensor) -> int:
    """The one element as an int, rounded toward 0.

    Raises:
        DTypeError: it is complex, or NaN.
        ScalarRangeError: it is infinite.
    """
    found = _real(self, "int()")
    if found != found:
        raise DTypeError("int() of NaN, which is no int; ask tripoint.isnan(x) first")
    if found in (inf, -inf):
        raise ScalarRangeError(f"int() of {found}: no int is infinite; ask tripoint.isinf(x) first")
    return int(found)


def as_float(self: Tensor) -> float:
    """The one element as a float.

    Raises:
        DTypeError: it is complex.
    """
    return float(_real(self, "float()"))


def _real(self: Tensor, what: str) -> Any:
    found = _one(self, what)
    if isinstance(found, complex):
        raise DTypeError(f"{what} of {found!r} drops the imaginary part; tripoint.abs(x) gives the magnitude")
    return found


def as_complex(self: Tensor) -> complex:
    """The one element as a complex number."""
    return complex(_one(self, "complex()"))


def as_index(self: Tensor) -> int:
    """The one element of an integer tensor as an int."""
    found = _one(self, "an index")
    if not isinstance(found, int) or isinstance(found, bool):
        raise ArgumentError(f"a {self.dtype} tensor is no index; indices are integers")
    return found


def length(self: Tensor) -> int:
    """Size of the first axis."""
    if not self.shape:
        raise ShapeError("len() of a 0-dimensional tensor; it has no axes")
    return self.shape[0]


def iterate(self: Tensor) -> Iterator[Tensor]:
    """Views along the first axis."""
    return (indexing.getitem(self, i) for i in range(length(self)))


def _described(self: Tensor) -> dict[str, Any]:
    point = kernels.find_point(self._key)
    return plugins.described(point, self._payload) if point is not None else {}


def strides(self: Tensor) -> tuple[int, ...]:
    """Steps between neighbours along each axis, in elements.

    Raises:
        LayoutError: the layout has no strides.
    """
    found = _described(self).get("strides")
    if found is None:
        raise LayoutError(f"strides are not applicable to layout {self.layout} ({self._key.base})")
    return tuple(found)


def readonly(self: Tensor) -> bool:
    """Whether writes are refused."""
    return bool(_described(self).get("readonly"))


def storage(self: Tensor) -> Storage:
    """The allocation behind the tensor; views of one another have equal storages.

    Raises:
        LayoutError: the tensor has no single allocation.
    """
    said = _described(self)
    if said.get("address") is None or said.get("nbytes") is None:
        raise LayoutError(f"storage is not applicable to {self._key.base}: there is no single allocation to name")
    return Storage(str(self.device), said["address"], said["nbytes"], bool(said.get("readonly")))


def shares_memory(a: Tensor, b: Tensor, /) -> bool:
    """Whether writing into one tensor can change the other.

    Raises:
        ArgumentError: one of them is no tensor.
    """
    for t in (a, b):
        if not isinstance(t, Tensor):
            raise ArgumentError(f"shares_memory takes two tensors, not a {type(t).__name__}")
    if a.device is not b.device or a.layout is not b.layout:
        return False
    point = kernels.find_point(a._key)
    if a._payload is b._payload:
        return True
    if point is not kernels.find_point(b._key):
        return False  # a number format has payloads of its own, which the other's backend cannot look into
    if point is None or point.aliases is None:
        return False
    return bool(plugins.guarded(point.origin, "aliases(a, b)", point.aliases, a._payload, b._payload))


def transposed(self: Tensor) -> Tensor:
    """A view with both axes exchanged.

    Raises:
        ShapeError: not two axes.
    """
    if self.ndim != 2:
        raise ShapeError(f".T is for tensors of two axes; shape {self.shape} has {self.ndim}; use .mT or permute_dims")
    return manipulation.permute_dims(self, (1, 0))


def represent(self: Tensor) -> str:
    """The elements, abbreviated, and the point where it is not the usual one."""
    key = self._key.base
    tail = [f"dtype={key.dtype}"]
    if str(key.device) != "cpu":
        tail.append(f"device={key.device}")
    if str(key.layout) != "strided":
        tail.append(f"layout={key.layout}")
    body, wrong = None, []
    try:
        point = kernels.find_point(key)
        if point is not None and point.summary is not None:
            tail.append(_words("summary(payload)", point.origin, point.summary, self._payload))
        body = _text(self) if str(key.device) != "meta" else None
    except Exception as error:  # a device that is lost, a result that it could not compute, a plugin that is broken
        ours = isinstance(error, TripointError)
        wrong = [f"unreadable: {(told(error) if ours else None) or said(error)}"]
    tail += ["requires_grad=True"] * self.requires_grad + wrong
    if body is None:
        return f"tensor(shape={_shape(self)}, {', '.join(tail)})"
    pad = "\n" + " " * len("tensor(")
    return f"tensor({body.replace(chr(10), pad)}, {', '.join(tail)})"


def _words(what: str, origin: Origin, fn: Callable[[Any], Any], payload: Any) -> str:
    """What a plugin writes of a payload."""
    found = plugins.guarded(origin, what, fn, payload)
    if not issubclass(type(found), str):
        raise PluginError(f"{origin}: {what} gives a str, not {shown(found)}")
    return cleaned(str.__str__(found))


def _shape(self: Tensor) -> str:
    """The shape as text, also of a payload that does not tell it."""
    try:
        return shown(self.shape)
    except Exception as error:
        return f"unknown: {said(error)}"


def _text(self: Tensor) -> str | None:
    """The elements as text, written where they are; or on the CPU, from a point that does not write; ``None``: nowhere."""
    from tripoint.dispatcher.resolve import kernel_for, path

    row, key = kernels.row_of(conversion.to_text), self._key.base
    kernel = kernel_for(row, (key,))
    if kernel is not None:
        return _words("to_text(payload)", kernel.origin, kernel.fn, self._payload)
    small = self.size <= 1000  # as a strided tensor of a plain dtype, whatever it is now
    host = key.replace(device=cpu, layout=strided, dtype=key.dtype.plain)
    cheap = small or (key.layout is strided and key.dtype.is_plain)
    if cheap and path(key, host) is not None and kernel_for(row, (host,)) is not None:
        return _text(_host(self))
    if small and kernel_for(kernels.row_of(conversion.to_list), (key,)) is not None:
        return str(tolist(self))
    return None


def as_format(self: Tensor, spec: str) -> str:
    """One element as its number is formatted; a tensor of several only without a format."""
    if not spec:
        return str(self)
    return format(_one(self, "format()"), spec)


def contains(self: Tensor, value: Operand) -> bool:
    """Whether some element equals ``value``."""
    return as_bool(reductions.any(elementwise.equal(self, value)))


def copied(self: Tensor) -> Tensor:
    """For ``copy.copy``: memory of its own, recorded as a copy is."""
    return conversion.copy(self)


def _unpickled(data: Any, device: str, layout: str, dtype: str, wanted: bool = False) -> Tensor:
    out = creation.asarray(data, device=device, layout=layout, dtype=dtype)
    return out.requires_grad_() if wanted else out


def _rewrapped(payload: Any, device: str, layout: str, dtype: str, wanted: bool) -> Tensor:
    key = intern(cpu, plugins.find_layout(layout), as_dtype(dtype))
    plugins.require(key)
    out = conversion.to(wrap(key, payload), device=device)
    return out.requires_grad_() if wanted else out


def reduce(self: Tensor, protocol: int) -> Any:
    """Pickle strided tensors of plain dtypes by a NumPy array, others by their payload on the CPU, with the names of their
    device, layout and dtype: there they will be made again.

    That gradients are wanted is kept, the gradient is not.

    Raises:
        AutogradError: the tensor was computed from recorded ones, which a pickle cannot hold.
    """
    if not self.is_leaf:
        raise AutogradError(
            "a tensor that was computed from recorded ones cannot be pickled or deep-copied; detach() it"
        )
    key = self._key.base
    names = (str(key.device), key.layout.name, key.dtype.name)
    if key.layout.name == "strided" and key.dtype.is_plain:
        return _unpickled, (numpy(_host(self)), *names, self.requires_grad)
    return _rewrapped, (conversion.to(self.detach(), device="cpu")._payload, *names, self.requires_grad)


def fill() -> None:
    """Put every method on the class."""
    for short, operator in _BINARY.items():
        setattr(Tensor, f"__{short}__", dunder(operator, f"__{short}__"))
        setattr(Tensor, f"__r{short}__", dunder(operator, f"__r{short}__", reflected=True))
    for short, operator in _INPLACE.items():
        setattr(Tensor, f"__i{short}__", dunder(operator, f"__i{short}__"))
    for short, operator in _COMPARE.items():
        setattr(Tensor, f"__{short}__", dunder(operator, f"__{short}__"))
    for name, method in _METHODS.items():
        setattr(Tensor, name, method)
    for fn in (reshape, to, item, tolist, numpy, storage):
        setattr(Tensor, fn.__name__, fn)
    special: dict[str, Any] = {
        "__array__": array,
        "__bool__": as_bool,
        "__int__": as_int,
        "__float__": as_float,
        "__complex__": as_complex,
        "__index__": as_index,
        "__len__": length,
        "__iter__": iterate,
        "__repr__": represent,
        "__reduce_ex__": reduce,
        "__copy__": copied,
        "__format__": as_format,
        "__contains__": contains,
        "__hash__": object.__hash__,
        "T": property(transposed),
        "mT": property(manipulation.matrix_transpose),
        "strides": property(strides),
        "readonly": property(readonly),
    }
    for name, value in special.items():
        setattr(Tensor, name, value)


fill()
