"""Dense tensors in the memory of CUDA devices, computed by CuPy. Owns ``cuda.strided`` for the plain dtypes.

CuPy is imported when a CUDA device is first used, never by importing this package. Nothing here has run on a GPU yet: the
kernels are tested over NumPy, the rest against a stand-in for CuPy.
"""

from __future__ import annotations

from typing import Any

import tripoint
from tripoint.errors import DTypeError
from tripoint.plugin import Backend, Device, Key, strided
from tripoint_cuda_cupy import _driver, _kernels
from tripoint_cuda_cupy._driver import synchronize as synchronize

__all__ = ["backend", "synchronize"]


def _describe(p: Any) -> dict[str, Any]:
    owner = p if p.base is None else p.base
    return {
        "dtype": getattr(tripoint, p.dtype.name),
        "device": Device("cuda", p.device.id),
        "address": owner.data.ptr,
        "nbytes": owner.nbytes,
        "strides": tuple([s // p.itemsize for s in p.strides]),
        "readonly": _kernels.overlaps_itself(p),  # CuPy has no flag for it
    }


backend = Backend(
    Device("cuda", indexed=True),
    strided,
    payload=_driver.CupyArray,
    describe=_describe,
    aliases=lambda out, x: bool(_driver.cupy().may_share_memory(out, x)),
    current=_driver.current,
    count=_driver.count,
    streams=_driver.Lines(),
)
backend.probe(_driver.reason)
backend.memory_stats(_driver.memory)

_table = {name: _driver.on_device(fn) for name, fn in _kernels.table(_driver.Late()).items()}
backend.kernels({name: _table.pop(name) for name in _kernels.WITH_SCALARS}, scalars=True)
backend.kernels(_table)


@backend.from_("cpu.strided")
@_driver.on_device
def upload(x: Any, *, target: Key) -> Any:
    _kernels.dtype_of(target.dtype)
    try:
        return _driver.cupy().array(x)  # always a copy, whatever the host's strides
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"CuPy holds no {target.dtype} tensors ({error}); convert with .to(dtype=...) first"
        ) from error


@backend.to("cpu.strided")
def download(x: Any) -> Any:
    # On the array's own device, and complete before anything reads the result.
    with x.device:
        return _driver.cupy().asnumpy(x, blocking=True)
