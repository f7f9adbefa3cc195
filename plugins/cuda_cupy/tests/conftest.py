from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.plugin import Backend, Device, Key, strided
from tripoint_cuda_cupy import _kernels


def _owner(p: Any) -> Any:
    """The array that a view is of."""
    while isinstance(p.base, np.ndarray):
        p = p.base
    return p


def _quiet(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel without the warnings that NumPy gives and CuPy does not."""

    @wraps(fn)
    def kernel(*args: Any, **meta: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return fn(*args, **meta)

    return kernel


@pytest.fixture(scope="session")
def on_numpy() -> Callable[..., Backend]:
    """A function that makes a backend of the kernel table with NumPy as the array module, on a device of any name."""

    def make(device: str, **more: Any) -> Backend:
        backend = Backend(
            Device(device),
            strided,
            payload=np.ndarray,
            describe=lambda p: {
                "dtype": getattr(tp, p.dtype.name),
                "address": _owner(p).__array_interface__["data"][0],
                "nbytes": _owner(p).nbytes,
                "strides": tuple(s // p.itemsize for s in p.strides),
                "readonly": _kernels.overlaps_itself(p),
            },
            aliases=np.may_share_memory,
            coerce=np.asarray,
            quiet=lambda: np.errstate(all="ignore"),
            **more,
        )
        table = {name: _quiet(fn) for name, fn in _kernels.table(np).items()}
        backend.kernels({name: table.pop(name) for name in _kernels.WITH_SCALARS}, scalars=True)
        backend.kernels(table)

        @backend.from_("cpu.strided")
        def there(x: Any, *, target: Key) -> Any:
            return np.array(x)

        @backend.to("cpu.strided")
        def back(x: Any) -> Any:
            return np.array(x)

        return backend

    return make
