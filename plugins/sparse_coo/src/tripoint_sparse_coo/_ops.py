"""Operators that gradients of sparse tensors are made of. They compute on a pattern and never form what lies outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tripoint as tp
from tripoint.plugin import DType, DTypeRule, Tensor, payload, primitive
from tripoint_sparse_coo._coo import same_pattern

Shape = tuple[int, ...]


def _keep(operator: str, dtypes: tuple[DType | None, ...], keyed: dict[str, Any]) -> Any:
    return (None,) * len(dtypes), dtypes[0]


_first = DTypeRule("first", _keep, True)


def _shape_of(operand: int) -> Any:
    """Shape rule: that of one operand."""
    return lambda shapes, **meta: shapes[operand]


@primitive(namespace="sparse", dtype=_first, shape=_shape_of(0), kind="structural")
def coalesce(s: Tensor, /) -> Tensor:
    """``s`` in canonical form: positions in lexicographic order, values at one position summed, zeros kept."""
    raise NotImplementedError


@primitive(namespace="sparse", dtype=_first, shape=_shape_of(1), kind="sparse")
def gather(g: Tensor, pattern: Tensor, /) -> Tensor:
    """The strided ``g``, broadcast to the shape of the sparse ``pattern``, at the positions that it stores."""
    raise NotImplementedError


@primitive(namespace="sparse", dtype=_first, shape=_shape_of(1), kind="sparse")
def align(g: Tensor, pattern: Tensor, /) -> Tensor:
    """The sparse ``g`` at the positions that ``pattern`` stores, zero where ``g`` stores nothing."""
    raise NotImplementedError


@primitive(namespace="sparse", dtype=_first, shape=_shape_of(2), kind="product")
def sampled_matmul(g: Tensor, x2: Tensor, pattern: Tensor, /) -> Tensor:
    """``g @ x2.T`` at the positions that ``pattern`` (m, k) stores: ``g`` (m, n) and ``x2`` (k, n), or (m,) and (k,)."""
    raise NotImplementedError


@primitive(namespace="sparse", dtype=_first, kind="sparse")
def stored(s: Tensor, /) -> Tensor:
    """The values of ``s`` in canonical form: strided (nnz,)."""
    raise NotImplementedError


@primitive(namespace="sparse", dtype=_first, shape=_shape_of(1), kind="sparse")
def restored(values: Tensor, pattern: Tensor, /) -> Tensor:
    """The strided ``values`` (nnz,) at the positions that ``pattern`` stores in canonical form."""
    raise NotImplementedError


def gradient_like(g: Tensor, output: Tensor) -> Tensor:
    """A gradient on the pattern of the sparse tensor that it belongs to; differentiable by ``g``."""
    if g.layout is output.layout:
        have, want = payload(g), payload(output)
        if have.canonical and want.canonical and same_pattern(have, want):
            return g
        return align(g, output)
    return gather(g if g.layout.name == "strided" else g.to(layout="strided"), output)


def transposed(x: Tensor) -> Tensor:
    """A matrix with both axes exchanged; a vector as it is."""
    return tp.permute_dims(x, (1, 0)) if x.ndim == 2 else x


def sum_back(g: Tensor, x: Tensor, axis: Shape, keepdims: bool) -> Tensor:
    """The gradient of a sum at the stored positions of the sparse ``x``; the broadcast gradient is never formed."""
    if not keepdims:
        g = tp.reshape(g, tuple(1 if i in axis else s for i, s in enumerate(x.shape)))
    return gather(g, x)


def slope_on_stored(operator: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor | None]:
    """The derivative of an elementwise operator with f(0) = 0: that of the strided operator, at the stored values only.

    A formula of its own may pass through operators whose results are dense, as the cosine in that of the sine.
    """

    def slope(g: Tensor, x: Tensor) -> Tensor | None:
        values, weights = stored(x), stored(g)  # g lies on the pattern of the result, which is that of x
        again = values.requires_grad
        with tp.enable_grad():
            out = operator(values if again else values.requires_grad_())
        (made,) = tp.gradients(out, [values], weights, create_graph=again)
        return None if made is None else restored(made, x)

    return slope
