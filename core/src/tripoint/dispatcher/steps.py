"""Steps of single payloads: a cast, a conversion, a Python number made a tensor's payload."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tripoint import kernels
from tripoint.callables import keyword_names
from tripoint.dispatcher.outcome import quietly
from tripoint.dispatcher.resolve import kernel_for
from tripoint.dtypes import DType, bool_
from tripoint.errors import NoKernelError, kind_of
from tripoint.keys import Key
from tripoint.plugins import blame, outlive, plugin_behind
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
    again = point if point is not None and point.quiet is not None else None
    extra: dict[str, Any] = {}
    if kernel.takes_target:
        extra["target"] = target
    if kernel.takes_spec:
        extra["spec"] = spec
    if non_blocking and "non_blocking" in (keyword_names(fn) or ()):
        extra["non_blocking"] = True

    def run(p: Any) -> Any:
        try:
            return fn(p, **extra)
        except BaseException as error:
            if again is not None and isinstance(error, FloatingPointError):
                return quietly(again, partial(fn, **extra), p)
            outlive(kernel.origin, kernel.operator, error)

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
        except BaseException as error:
            blame(plugin_behind(point.origin), f"{point.origin}: coerce(result) of a {kind_of(out)}", error)

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
    extra = {"target": key} if kernel.takes_target else {}
    truth = key.dtype is bool_  # a number that no dtype holds has one, too

    def fill(value: Any) -> Any:
        try:
            return fn(shape=(), fill_value=bool(value) if truth else value, **extra)
        except BaseException as error:
            outlive(kernel.origin, kernel.operator, error)

    return fill
