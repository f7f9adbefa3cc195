"""Backends that are made for the kit to be tried on: a right one on a device of its own, and ways to spoil it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.plugin import Backend, Capabilities, Device, Key, strided
from tripoint_cuda_cupy import _kernels

Kernels = dict[str, Callable[..., Any]]
DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64")


def describe(p: Any) -> dict[str, Any]:
    return {
        "dtype": getattr(tp, p.dtype.name),
        "address": p.__array_interface__["data"][0],
        "nbytes": p.nbytes,
        "strides": tuple(s // p.itemsize for s in p.strides),
        "readonly": not p.flags.writeable,
    }


def right_kernels() -> Kernels:
    """The kernels of the CUDA plugin over NumPy, with NumPy's flag for what is read-only."""
    made = dict(_kernels.table(np))

    def broadcast_to(x: Any, *, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(x, shape)

    def writer(fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def write(x1: Any, x2: Any) -> None:
            if not x1.flags.writeable:
                raise ValueError("read-only")
            fn(x1, x2)

        return write

    made["broadcast_to"] = broadcast_to
    for name, fn in made.items():
        made[name] = quiet(writer(fn) if name.endswith("_") else fn)
    return made


def quiet(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that gives no NumPy warnings."""

    @wraps(fn)
    def kernel(*args: Any, **meta: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return fn(*args, **meta)

    return kernel


def toy(name: str, spoil: Callable[[Kernels, dict[str, Any]], None] | None = None) -> Backend:
    """A backend on the device ``name``; ``spoil`` changes its kernels and what it says of itself."""
    made = right_kernels()
    said: dict[str, Any] = {
        "payload": np.ndarray,
        "describe": describe,
        "aliases": np.may_share_memory,
        "coerce": np.asarray,
        "quiet": lambda: np.errstate(all="ignore"),
        "capabilities": Capabilities(dtypes=DTYPES, lacks={}),
    }
    if spoil is not None:
        spoil(made, said)
    derivatives, held = said.pop("derivatives", {}), said.pop("held", np.array)
    backend = Backend(Device(name), strided, **said)
    scalars = [n for n in _kernels.WITH_SCALARS if n in made]
    backend.kernels(scalars=True, **{n: made[n] for n in scalars})
    backend.kernels(**{n: fn for n, fn in made.items() if n not in scalars})
    for operator, functions in derivatives.items():
        backend.derivative(operator, args=(f"{name}.strided",), **functions)

    @backend.from_("cpu.strided")
    def there(x: Any, *, target: Key) -> Any:
        return held(x)

    @backend.to("cpu.strided")
    def back(x: Any) -> Any:
        return np.array(x)

    return backend
