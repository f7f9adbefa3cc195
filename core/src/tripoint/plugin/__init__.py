"""The authoring API: everything that a plugin's author imports, besides `tripoint` itself and `tripoint.errors`.

A backend is an object named by an entry point of ``tripoint.backends.v1``. Making it has no side effect; its kernels are
registered when a point that the entry point's name covers is first needed. A layer is a class named by an entry point of
``tripoint.layers.v1``; it takes part where a program enters it. ``python -m tripoint.plugin`` prints the kernels that a
backend should have first.
"""

from __future__ import annotations

from tripoint import checks as check
from tripoint import dtypes as _dt
from tripoint import rules as rules
from tripoint.allocators import Allocator as Allocator
from tripoint.allocators import Block as Block
from tripoint.devices import Device as Device
from tripoint.dispatcher.declare import composite as composite
from tripoint.dispatcher.declare import inplace as inplace
from tripoint.dispatcher.declare import primitive as primitive
from tripoint.dispatcher.layer import FLOORS as FLOORS
from tripoint.dispatcher.layer import Layer as Layer
from tripoint.dispatcher.resolve import Resolution as Resolution
from tripoint.dtypes import DType as DType
from tripoint.dtypes import DTypeClass as DTypeClass
from tripoint.kernels import Derivative as Derivative
from tripoint.kernels import row_of as row_of
from tripoint.keys import Key as Key
from tripoint.keys import intern as key
from tripoint.layouts import Layout as Layout
from tripoint.layouts import LayoutSpec as LayoutSpec
from tripoint.layouts import strided as strided
from tripoint.patterns import SCALAR as scalar
from tripoint.patterns import Pattern as Pattern
from tripoint.plugin.asking import dtypes_in as dtypes_in
from tripoint.plugin.asking import kernel_signature as kernel_signature
from tripoint.plugin.asking import minimal as minimal
from tripoint.plugin.asking import nested as nested
from tripoint.plugin.asking import operators as operators
from tripoint.plugin.asking import payload as payload
from tripoint.plugin.asking import resolve as resolve
from tripoint.plugin.asking import unnested as unnested
from tripoint.plugin.backend import Backend as Backend
from tripoint.plugin.backend import hookimpl as hookimpl
from tripoint.plugin.expectations import Capabilities as Capabilities
from tripoint.plugin.expectations import Sample as Sample
from tripoint.plugin.stating import derivative as derivative
from tripoint.plugin.stating import kernel as kernel
from tripoint.plugin.stating import register as register
from tripoint.plugins import PROTOCOL as PROTOCOL
from tripoint.plugins import Registry as Registry
from tripoint.rules import DTypeRule as DTypeRule
from tripoint.schema import Row as Row
from tripoint.streams import Marker as Marker
from tripoint.streams import Queue as Queue
from tripoint.streams import Streams as Streams
from tripoint.streams import queue as queue
from tripoint.tensor import Operand as Operand
from tripoint.tensor import Tensor as Tensor
from tripoint.tensor import wrap as wrap

plain = _dt.plain
boolean = _dt.boolean
numeric = _dt.numeric
real = _dt.real
integral = _dt.integral
signed_integer = _dt.signed_integer
unsigned_integer = _dt.unsigned_integer
floating = _dt.floating
complex_floating = _dt.complex_floating

__all__ = [
    "FLOORS",
    "PROTOCOL",
    "Allocator",
    "Backend",
    "Block",
    "Capabilities",
    "DType",
    "DTypeClass",
    "DTypeRule",
    "Derivative",
    "Device",
    "Key",
    "Layer",
    "Layout",
    "LayoutSpec",
    "Marker",
    "Operand",
    "Pattern",
    "Queue",
    "Registry",
    "Resolution",
    "Row",
    "Sample",
    "Streams",
    "Tensor",
    "boolean",
    "check",
    "complex_floating",
    "composite",
    "derivative",
    "dtypes_in",
    "floating",
    "hookimpl",
    "inplace",
    "integral",
    "kernel",
    "kernel_signature",
    "key",
    "minimal",
    "nested",
    "numeric",
    "operators",
    "payload",
    "plain",
    "primitive",
    "queue",
    "real",
    "register",
    "resolve",
    "row_of",
    "rules",
    "scalar",
    "signed_integer",
    "strided",
    "unnested",
    "unsigned_integer",
    "wrap",
]
