"""Tripoint: tensors on any device, layout and dtype, with every backend a plugin."""

from __future__ import annotations

import os as _os
import sys as _sys
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING, Any

from tripoint import errors as errors
from tripoint import plugins as plugins
from tripoint.autograd import grad as grad
from tripoint.autograd import gradients as gradients
from tripoint.devices import Device as Device
from tripoint.dtypes import DType as DType
from tripoint.dtypes import bfloat16 as bfloat16
from tripoint.dtypes import bool_ as _bool
from tripoint.dtypes import complex64 as complex64
from tripoint.dtypes import complex128 as complex128
from tripoint.dtypes import float16 as float16
from tripoint.dtypes import float32 as float32
from tripoint.dtypes import float64 as float64
from tripoint.dtypes import int8 as int8
from tripoint.dtypes import int16 as int16
from tripoint.dtypes import int32 as int32
from tripoint.dtypes import int64 as int64
from tripoint.dtypes import uint8 as uint8
from tripoint.dtypes import uint16 as uint16
from tripoint.dtypes import uint32 as uint32
from tripoint.dtypes import uint64 as uint64
from tripoint.layouts import Layout as Layout
from tripoint.layouts import strided as strided
from tripoint.modes import device as device
from tripoint.modes import enable_grad as enable_grad
from tripoint.modes import fallback as fallback
from tripoint.modes import get_default_dtype as get_default_dtype
from tripoint.modes import no_grad as no_grad
from tripoint.modes import set_default_dtype as set_default_dtype
from tripoint.ops.conversion import astype as astype
from tripoint.ops.conversion import copy as copy
from tripoint.ops.conversion import detach as detach
from tripoint.ops.conversion import to as to
from tripoint.ops.creation import arange as arange
from tripoint.ops.creation import asarray as asarray
from tripoint.ops.creation import empty as empty
from tripoint.ops.creation import empty_like as empty_like
from tripoint.ops.creation import full as full
from tripoint.ops.creation import full_like as full_like
from tripoint.ops.creation import ones as ones
from tripoint.ops.creation import ones_like as ones_like
from tripoint.ops.creation import zeros as zeros
from tripoint.ops.creation import zeros_like as zeros_like
from tripoint.ops.elementwise import abs as abs
from tripoint.ops.elementwise import add as add
from tripoint.ops.elementwise import bitwise_and as bitwise_and
from tripoint.ops.elementwise import bitwise_invert as bitwise_invert
from tripoint.ops.elementwise import bitwise_or as bitwise_or
from tripoint.ops.elementwise import bitwise_xor as bitwise_xor
from tripoint.ops.elementwise import clip as clip
from tripoint.ops.elementwise import cos as cos
from tripoint.ops.elementwise import divide as divide
from tripoint.ops.elementwise import equal as equal
from tripoint.ops.elementwise import exp as exp
from tripoint.ops.elementwise import floor_divide as floor_divide
from tripoint.ops.elementwise import greater as greater
from tripoint.ops.elementwise import greater_equal as greater_equal
from tripoint.ops.elementwise import isfinite as isfinite
from tripoint.ops.elementwise import isinf as isinf
from tripoint.ops.elementwise import isnan as isnan
from tripoint.ops.elementwise import less as less
from tripoint.ops.elementwise import less_equal as less_equal
from tripoint.ops.elementwise import log as log
from tripoint.ops.elementwise import logical_and as logical_and
from tripoint.ops.elementwise import logical_not as logical_not
from tripoint.ops.elementwise import logical_or as logical_or
from tripoint.ops.elementwise import logical_xor as logical_xor
from tripoint.ops.elementwise import maximum as maximum
from tripoint.ops.elementwise import minimum as minimum
from tripoint.ops.elementwise import multiply as multiply
from tripoint.ops.elementwise import negative as negative
from tripoint.ops.elementwise import not_equal as not_equal
from tripoint.ops.elementwise import positive as positive
from tripoint.ops.elementwise import pow as pow
from tripoint.ops.elementwise import remainder as remainder
from tripoint.ops.elementwise import sign as sign
from tripoint.ops.elementwise import sin as sin
from tripoint.ops.elementwise import sqrt as sqrt
from tripoint.ops.elementwise import square as square
from tripoint.ops.elementwise import subtract as subtract
from tripoint.ops.elementwise import tanh as tanh
from tripoint.ops.elementwise import where as where
from tripoint.ops.indexing import take as take
from tripoint.ops.linalg import matmul as matmul
from tripoint.ops.manipulation import broadcast_to as broadcast_to
from tripoint.ops.manipulation import concat as concat
from tripoint.ops.manipulation import expand_dims as expand_dims
from tripoint.ops.manipulation import flatten as flatten
from tripoint.ops.manipulation import flip as flip
from tripoint.ops.manipulation import matrix_transpose as matrix_transpose
from tripoint.ops.manipulation import permute_dims as permute_dims
from tripoint.ops.manipulation import reshape as reshape
from tripoint.ops.manipulation import squeeze as squeeze
from tripoint.ops.manipulation import stack as stack
from tripoint.ops.methods import shares_memory as shares_memory
from tripoint.ops.nn import softmax as softmax
from tripoint.ops.reductions import all as all
from tripoint.ops.reductions import any as any
from tripoint.ops.reductions import argmax as argmax
from tripoint.ops.reductions import argmin as argmin
from tripoint.ops.reductions import max as max
from tripoint.ops.reductions import mean as mean
from tripoint.ops.reductions import min as min
from tripoint.ops.reductions import prod as prod
from tripoint.ops.reductions import sum as sum
from tripoint.tensor import Tensor as Tensor

if TYPE_CHECKING:
    from tripoint import memory as memory
    from tripoint import nn as nn
    from tripoint import streams as streams
    from tripoint.explanation import explain as explain
    from tripoint.layers import checked as checked
    from tripoint.streams import Event as Event
    from tripoint.streams import Stream as Stream
    from tripoint.streams import stream as stream
    from tripoint.streams import synchronize as synchronize
    from tripoint.support import Operators
    from tripoint.support import coverage as coverage
    from tripoint.support import ops as ops

__version__ = "0.1.0"

if _os.environ.get("TRIPOINT_TRACE", "0") not in ("", "0"):
    from tripoint.layers.log import start as _start

    _start()

bool: DType = _bool  # the standard's name

_PLANNED = frozenset(
    [
        "vjp",
        "jvp",
        "jacobian",
        "hessian",
        "vmap",
        "gradcheck",
        "compile",
        "autocast",
        "trace",
        "profile",
        "anomaly",
        "set_num_threads",
        "draw_layout",
        "random",
        "save",
        "load",
        "linalg",
        "fft",
        "special",
        "masked",
        "optim",
    ]
)


#: functions and classes that load at first need, by the module that has them.
_LATER = {
    "explain": "tripoint.explanation",
    "checked": "tripoint.layers",
    "coverage": "tripoint.support",
    **dict.fromkeys(("Stream", "Event", "stream", "synchronize"), "tripoint.streams"),
}

_NN = frozenset(["conv2d", "cross_entropy", "linear", "log_softmax", "max_pool2d", "relu"])
_added: list[str] = []


class _Operators(_ModuleType):
    """The room of the operators' declarations, which lists them when it is called: ``tripoint.ops()``."""

    def __call__(self, namespace: str | None = None) -> Operators:
        import importlib

        found: Operators = importlib.import_module("tripoint.support").ops(namespace)
        return found


_sys.modules["tripoint.ops"].__class__ = _Operators


def _forget_names() -> None:
    """A plugin that is blocked takes its names along."""
    while _added:
        globals().pop(_added.pop(), None)


plugins.on_change.append(_forget_names)


def __getattr__(name: str) -> Any:
    """Parts that load at first need, and names that installed plugins add."""
    if name in ("memory", "nn", "streams"):
        import importlib

        return importlib.import_module(f"tripoint.{name}")
    if name in _LATER:
        import importlib

        found = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return found
    if not name.startswith("_"):
        try:
            found = plugins.find_name(name)
        except KeyError:
            pass
        except errors.PluginError as error:
            raise errors.PluginNameError(str(error)) from error.__cause__
        else:
            globals()[name] = found
            _added.append(name)
            return found
        if name in _PLANNED:
            raise errors.TensorAttributeError(f"tripoint.{name} is planned; version {__version__} does not have it")
        if name in _NN:
            raise errors.TensorAttributeError(f"tripoint has no {name!r}; it is tripoint.nn.{name}")
        found = f"; the layout is tripoint.layouts.{name}" if name in plugins.layout_names() else plugins.install(name)
        raise errors.TensorAttributeError(f"tripoint has no {name!r}{found}")
    raise AttributeError(name)


#: modules that users reach by attribute; the other rooms are attributes too, as modules are, and nobody's to use.
_MODULES = frozenset(["errors", "layouts", "memory", "nn", "ops", "plugins", "streams"])


def __dir__() -> list[str]:
    """Public names, with those that load at first need and those of installed plugins; nothing is imported for it."""
    mine = [
        name
        for name, value in globals().items()
        if name[0] != "_"
        and name not in _added
        and not isinstance(value, _ModuleType)
        and (getattr(value, "__module__", "") or "").startswith("tripoint")
    ]
    return sorted({*mine, *_MODULES, *_LATER, *plugins.names(), "__version__"})
