"""Tensors in the memory of CUDA devices, held by CuPy: ``cuda.strided``. Conversions both ways with ``cpu.strided``.

CuPy is imported when a CUDA device is first asked for, never by importing this package. Nothing here has run on a GPU
yet: it is tested against a stand-in for CuPy.
"""

from __future__ import annotations

from typing import Any

import tripoint
from tripoint.errors import DeviceError, DTypeError
from tripoint.plugin import Backend, Device, Key, strided
from tripoint_cuda_cupy import _driver

__all__ = ["backend"]


def _describe(p: Any) -> dict[str, Any]:
    return {
        "dtype": getattr(tripoint, p.dtype.name),
        "address": p.data.ptr,
        "nbytes": p.nbytes,
        "strides": tuple([s // p.itemsize for s in p.strides]),
        "readonly": False,
    }


backend = Backend(
    Device("cuda", indexed=True),
    strided,
    payload=_driver.CupyArray,
    describe=_describe,
    aliases=lambda out, x: bool(_driver.cupy().may_share_memory(out, x)),
    current=_driver.current,
)
backend.probe(_driver.reason)


@backend.from_("cpu.strided")
def upload(x: Any, *, target: Key) -> Any:
    cupy = _driver.cupy()
    try:
        with cupy.cuda.Device(target.device.index):
            return cupy.array(x)  # always a copy, whatever the host's strides
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"{target.device} cannot be used: {error}") from error
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"CuPy holds no {target.dtype} tensors ({error}); convert with .to(dtype=...) first"
        ) from error


@backend.to("cpu.strided")
def download(x: Any) -> Any:
    cupy = _driver.cupy()
    # On the array's own device, and complete before anything reads the result.
    with x.device:
        return cupy.asnumpy(x, blocking=True)
