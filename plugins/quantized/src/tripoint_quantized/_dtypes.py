"""The quantized dtypes, and what tensors of them have beyond other tensors."""

from __future__ import annotations

from collections.abc import Callable

import tripoint as tp
from tripoint.plugin import DType, Tensor, key, payload, strided, wrap
from tripoint_quantized._affine import Affine


def _quantizer(q: Tensor) -> Affine:
    """The quantizer of a tensor."""
    return payload(q).quantizer  # type: ignore[no-any-return]


def _int_repr(q: Tensor) -> Callable[[], Tensor]:
    """Method: the integers as they are, int8 or uint8, read-only and not recorded."""
    stored = tp.int8 if q.dtype is qint8 else tp.uint8
    return lambda: wrap(key(q.device, strided, stored), payload(q).ints)


def _dequantize(q: Tensor) -> Callable[[], Tensor]:
    """Method: the numbers that the integers stand for, as float32."""
    return lambda: tp.to(q, dtype=q.dtype.plain)


def _dtype(name: str) -> DType:
    attributes = {"quantizer": _quantizer, "int_repr": _int_repr, "dequantize": _dequantize}
    return DType(name, bits=8, plain=tp.float32, gradient=tp.float32, attributes=attributes)


qint8 = _dtype("qint8")
quint8 = _dtype("quint8")
