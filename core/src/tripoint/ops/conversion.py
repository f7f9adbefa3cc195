"""From one point to another, and out of the world of tensors."""

from __future__ import annotations

from typing import Any

from tripoint import kernels, plugins, rules
from tripoint.devices import Device
from tripoint.dispatcher.declare import primitive
from tripoint.dtypes import DType
from tripoint.errors import ArgumentError, PluginError, shown
from tripoint.layouts import Layout, LayoutSpec
from tripoint.storage import record_of
from tripoint.tensor import Tensor, wrap


@primitive(
    dtype=rules.kept(), shape=rules.same, kind="convert", keyed=("device", "layout", "dtype", "copy", "non_blocking"),
    target=("device", "layout", "dtype"), minimal=True,
)  # fmt: skip
def to(
    x: Tensor,
    /,
    *,
    device: Device | str | None = None,
    layout: Layout | LayoutSpec | str | None = None,
    dtype: DType | str | type | None = None,
    copy: bool | None = None,
    non_blocking: bool = False,
) -> Tensor:
    """``x`` on another device, layout or dtype; what is not named stays. ``x`` itself when nothing changes.

    Args:
        copy: ``True`` always copies; ``False`` raises where a copy is needed.
        non_blocking: a copy between a device with queues and the host may go on after the call has returned. Until
            `tripoint.synchronize`, or an event behind it, the host's side must be neither written nor read.

    Raises:
        AliasError: ``copy=False`` and a copy is needed.
        DTypeError: a dtype with parameters, which has an operator of its own (``quantize``).
        NoKernelError: no chain of at most three conversions leads there.
    """


@primitive(
    dtype=rules.kept(), shape=rules.same, kind="convert", keyed=("dtype", "copy", "device"), target=("dtype", "device"),
    minimal=True,
)  # fmt: skip
def astype(x: Tensor, /, dtype: DType | str | type, *, copy: bool = True, device: Device | str | None = None) -> Tensor:
    """``x`` in another dtype, and on another device if one is named. With ``copy=False`` ``x`` itself when nothing changes.

    Raises:
        DTypeError: an unknown dtype, one that the device lacks, complex elements to a real one, or a dtype with parameters.
    """


@primitive(dtype=rules.kept(), shape=rules.same, kind="elementwise", minimal=True)
def copy(x: Tensor, /) -> Tensor:
    """A copy in memory of its own, writable and contiguous.

    Raises:
        ArgumentError: a Python number, or no tensor.
    """


@primitive(dtype=rules.truth(), returns="object", kind="export", minimal=True)
def to_list(x: Tensor, /) -> Any:
    """The elements as nested lists of Python numbers; a Python number for a 0-d tensor.

    Raises:
        DeviceError: the device holds no elements, as meta.
    """


@primitive(dtype=rules.truth(), returns="object", kind="export")
def to_numpy(x: Tensor, /) -> Any:
    """The elements as a NumPy array that shares memory where it can.

    Raises:
        DeviceError: the device holds no elements, as meta.
        NoKernelError: the point has no memory that NumPy reads; convert first.
    """


@primitive(dtype=rules.truth(), returns="object", kind="export")
def to_text(x: Tensor, /) -> str:
    """The elements as text for printing, abbreviated when there are many.

    Raises:
        DeviceError: the device holds no elements, as meta.
    """


def layout_of(x: Tensor) -> Layout | LayoutSpec:
    """The layout of ``x``, with the parameters that its payload has.

    Raises:
        PluginError: its backend raised, or gave no layout.
    """
    point = kernels.find_point(x._key)
    if point is None or point.spec is None or not isinstance(x._payload, point.payload):  # of an explanation, a shape
        return x._key.layout
    found = plugins.guarded(point.origin, "spec(payload)", point.spec, x._payload)
    if not isinstance(found, (Layout, LayoutSpec)):
        raise PluginError(f"{point.origin}: spec(payload) gives a LayoutSpec, not {shown(found)}")
    return found


def detach(x: Tensor) -> Tensor:
    """An alias of ``x`` that is not recorded. It shares memory and the version counter.

    Raises:
        ArgumentError: ``x`` is no tensor.
    """
    try:
        out = wrap(x._key.base, x._payload)
    except AttributeError:
        raise ArgumentError(f"detach takes a tensor, not {shown(x)}; only tensors are recorded") from None
    out._alias = record_of(x)
    return out
