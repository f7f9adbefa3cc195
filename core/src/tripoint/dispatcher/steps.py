"""Steps of single payloads: a cast, a conversion, a Python number made a tensor's payload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint import kernels
from tripoint.dispatcher.resolve import kernel_for
from tripoint.dtypes import DType
from tripoint.errors import NoKernelError, PluginError, kind_of, said
from tripoint.keys import Key
from tripoint.schema import rows


def caster(key: Key, dtype: DType) -> Callable[[Any], Any]:
    """A function that casts payloads of ``key`` to ``dtype``.

    Raises:
        NoKernelError: the point has no ``astype``.
    """
    target = key.replace(dtype=dtype)
    kernel = kernel_for(rows["astype"], (key.base, target))
    if kernel is None:
        raise NoKernelError(
            "astype",
            (("x", key.base.name), ("target", target.name)),
            help="the backend that owns the point provides it",
        )
    return step(kernel, target, None)


def step(kernel: kernels.Kernel, target: Key, spec: Any, non_blocking: bool = False) -> Callable[[Any], Any]:
    """One conversion step as a function of a payload; the caller's floating-point settings do not reach it."""
    fn, point = kernel.fn, kernels.find_point(target)
    quiet = point.quiet if point is not None else None
    extra: dict[str, Any] = {}
    if kernel.takes_target:
        extra["target"] = target
    if kernel.takes_spec:
        extra["spec"] = spec
    if non_blocking and "non_blocking" in (kernels.keyword_names(fn) or ()):
        extra["non_blocking"] = True

    def run(p: Any) -> Any:
        try:
            return fn(p, **extra)
        except FloatingPointError:
            if quiet is None:
                raise
            with quiet():
                return fn(p, **extra)

    return coerced(run, target)


def coerced(fn: Callable[[Any], Any], key: Key) -> Callable[[Any], Any]:
    """``fn``, which makes payloads of ``key``, with what is of another class (NumPy's scalars) made one by that point."""
    point = kernels.find_point(key)
    if point is None or point.coerce is None:
        return fn
    payload, coerce = point.payload, point.coerce

    def made(p: Any) -> Any:
        out = fn(p)
        if type(out) is payload:
            return out
        try:
            return coerce(out)
        except Exception as error:
            raise PluginError(f"{point.origin}: coerce(result) of a {kind_of(out)} raised {said(error)}") from error

    return made


def filler(key: Key) -> Callable[[Any], Any]:
    """A function that makes a Python scalar a 0-d payload on ``key``.

    Raises:
        NoKernelError: the point has no ``full``.
    """
    kernel = kernel_for(rows["full"], (key,))
    if kernel is None:
        raise NoKernelError(
            "full", (("target", key.name),), help="a backend provides full, so that scalars can be operands"
        )
    fn = kernel.fn
    if kernel.takes_target:
        return lambda v: fn(shape=(), fill_value=v, target=key)
    return lambda v: fn(shape=(), fill_value=v)
