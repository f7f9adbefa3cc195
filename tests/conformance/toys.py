"""Backends that are made for the kit to be tried on: a right one on a device of its own, and ways to spoil it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import tripoint as tp
from tripoint.plugin import Allocator, Backend, Block, Capabilities, Device, Key, strided
from tripoint.schema import rows
from tripoint_cuda_cupy import _kernels

Kernels = dict[str, Callable[..., Any]]
DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64")


def describe(p: Any) -> dict[str, Any]:
    owner = p
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return {
        "dtype": getattr(tp, p.dtype.name),
        "address": owner.__array_interface__["data"][0],
        "nbytes": owner.nbytes,
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
    derivatives, held, given = said.pop("derivatives", {}), said.pop("held", np.array), said.pop("given", np.array)
    backend = Backend(Device(name), strided, **said)
    scalars = [n for n in _kernels.WITH_SCALARS if n in made]
    backend.kernels(scalars=True, **{n: made[n] for n in scalars})
    backend.kernels(**{n: fn for n, fn in made.items() if n not in scalars})
    for operator, functions in derivatives.items():
        count = len(rows[operator].operands)
        backend.derivative(operator, args=(f"{name}.strided",) * count, **functions)

    def there(x: Any, *, target: Key) -> Any:
        return held(x)

    def back(x: Any) -> Any:
        return given(x)

    if held is not None:
        backend.from_("cpu.strided")(there)
    if given is not None:
        backend.to("cpu.strided")(back)

    return backend


class Pool(Allocator):
    """Memory of Python's own, given out again as soon as a block dies."""

    def _alloc(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def _free(self, block: bytearray) -> None:
        block.clear()


class Ram:
    """An array in a block; whoever loses the block loses the memory."""

    def __init__(self, block: Block | None, array: Any) -> None:
        self.block, self.array = block, array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape  # type: ignore[no-any-return]


def pooled(keeps: bool = True, copies: bool = True, owns: bool = True) -> Callable[[Kernels, dict[str, Any]], None]:
    """The toy with an allocator: views that keep their block, results that own one, and copies that are given away; or not."""

    def spoil(kernels: Kernels, said: dict[str, Any]) -> None:
        pool = Pool()

        def hold(x: Any) -> Ram:
            x = np.asarray(x)
            block = pool.allocate(x.nbytes)
            array = np.ndarray(x.shape, x.dtype, block.raw)
            array[...] = x
            return Ram(block if owns else None, array)

        def bare(x: Any) -> Any:
            return [bare(v) for v in x] if isinstance(x, (list, tuple)) else x.array if isinstance(x, Ram) else x

        def boxed(fn: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(fn)
            def kernel(*args: Any, **meta: Any) -> Any:
                out = fn(*[bare(a) for a in args], **meta)
                if not isinstance(out, (np.ndarray, np.generic)):
                    return out
                operands = [a for v in args for a in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(a, Ram)]
                base = next((a for a in operands if np.may_share_memory(a.array, out)), None)
                return hold(out) if base is None else Ram(base.block if keeps else None, out)

            return kernel

        for name, fn in kernels.items():
            kernels[name] = boxed(fn)
        said |= {
            "payload": Ram,
            "coerce": None,
            "allocator": pool,
            "held": hold,
            "given": (lambda x: np.array(x.array)) if copies else (lambda x: x.array),
            "describe": lambda x: describe(x.array),
            "aliases": lambda out, x: np.may_share_memory(out.array, x.array),
        }

    return spoil
