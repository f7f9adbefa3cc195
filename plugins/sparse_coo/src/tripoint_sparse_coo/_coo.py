"""The payload of a COO tensor and what its indices alone decide: order, duplicates, and where two patterns meet.

Positions are compared axis by axis, never as one flat number, so a shape may have more elements than fit in 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tripoint.errors import IndexingError, shown

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]


class COO:
    """A sparse array: values at positions, zero everywhere else. Immutable, its arrays included.

    Attributes:
        shape: sizes of the axes.
        indices: positions, int64 of shape (ndim, nnz), one column per stored value.
        values: stored values of shape (nnz,); values at one position are summed on use.
        canonical: the columns of ``indices`` are in lexicographic order and no two are equal.
    """

    __slots__ = ("canonical", "indices", "shape", "values")

    shape: Shape
    indices: Array
    values: Array
    canonical: bool

    def __init__(self, shape: Shape, indices: Array, values: Array, canonical: bool) -> None:
        indices.flags.writeable = False
        values.flags.writeable = False
        for name, value in zip(self.__slots__, (canonical, indices, shape, values), strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"COO payloads are immutable; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"COO payloads are immutable; {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return COO, (self.shape, self.indices, self.values, self.canonical)

    @property
    def nnz(self) -> int:
        """Number of stored values, zeros among them included."""
        return len(self.values)

    def with_values(self, values: Array) -> COO:
        """Other values on the same positions."""
        return COO(self.shape, self.indices, values, self.canonical)

    def __repr__(self) -> str:
        return f"COO({self.shape}, {self.values.dtype}, nnz={self.nnz}, canonical={self.canonical})"


def make(shape: Shape, indices: Array, values: Array) -> COO:
    """A COO whose flag is found by looking at the indices; linear in their number."""
    return COO(shape, indices, values, is_canonical(indices))


def check_positions(indices: Array, shape: Shape) -> None:
    """Refuse positions outside of a shape, one row of ``indices`` an axis; linear in their number.

    `tripoint.sparse.coo_trusted` takes them unseen, and compiled code would read memory at them.

    Raises:
        IndexingError: a position is negative or out of range.
    """
    for axis, (row, size) in enumerate(zip(indices, shape, strict=True)):
        if row.size and (row.min() < 0 or row.max() >= size):
            at = int(np.flatnonzero((row < 0) | (row >= size))[0])
            bad = int(row[at])
            word = "is negative; indices count from 0" if bad < 0 else f"is out of range: sizes are {shape}"
            raise IndexingError(f"index {shown(bad)} of entry {at} in dimension {axis} (size {size}) {word}")


def is_canonical(indices: Array) -> bool:
    """Whether the columns of int64 (ndim, nnz) are in lexicographic order without duplicates."""
    count = indices.shape[1]
    if count < 2:
        return True
    before = np.zeros(count - 1, bool)
    tied = np.ones(count - 1, bool)
    for axis in indices:
        before |= tied & (axis[:-1] < axis[1:])
        tied &= axis[:-1] == axis[1:]
    return bool(before.all())


def order_of(indices: Array) -> Array:
    """The stable permutation that sorts the columns lexicographically."""
    if indices.shape[0] == 0:
        return np.arange(indices.shape[1])
    return np.lexsort(indices[::-1])


def repeats(indices: Array) -> Array:
    """For sorted columns, whether each but the first equals the one before it: bool of shape (nnz - 1,)."""
    same: Array = np.all(indices[:, 1:] == indices[:, :-1], axis=0)
    return same


def runs(indices: Array) -> tuple[Array, Array]:
    """The permutation that sorts the columns, and where among the sorted ones each distinct column begins."""
    order = order_of(indices)
    first = np.ones(len(order), bool)
    np.logical_not(repeats(indices[:, order]), out=first[1:])
    return order, np.flatnonzero(first)


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether sums are accumulated in a wider dtype: float16 and bfloat16."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def sum_groups(values: Array, starts: Array) -> Array:
    """Sums of the runs of ``values`` that begin at ``starts``; half precision is accumulated in float32.

    ``add.at`` and SciPy's conversions add one by one, so float32 stops counting at 2**24; ``reduceat`` does not.
    """
    with np.errstate(all="ignore"):
        if is_half(values.dtype):
            return np.add.reduceat(values.astype(np.float32), starts, dtype=np.float32).astype(values.dtype)
        return np.add.reduceat(values, starts, dtype=values.dtype)


def coalesce(x: COO) -> COO:
    """The same array in canonical form; ``x`` itself if it is that already. Stored zeros stay stored."""
    if x.canonical:
        return x
    order, starts = runs(x.indices)
    indices, values = x.indices[:, order], x.values[order]
    if len(starts) != x.nnz:
        indices, values = indices[:, starts], sum_groups(values, starts)
    return COO(x.shape, indices, values, True)


def locate(pattern: Array, within: Array) -> Array:
    """For each column of a canonical ``pattern`` its place among the columns of canonical ``within``, or -1."""
    out = np.full(pattern.shape[1], -1, np.int64)
    count = within.shape[1]
    both = np.concatenate([within, pattern], axis=1)
    order = order_of(both)
    pairs = np.flatnonzero(repeats(both[:, order]))
    first, second = order[pairs], order[pairs + 1]
    # Within either part no column repeats and the sort is stable, so a pair is (within, pattern); where either part was
    # said to be canonical and is not, other pairs are left out.
    met = (first < count) & (second >= count)
    out[second[met] - count] = first[met]
    return out


def same_pattern(a: COO, b: COO) -> bool:
    """Whether two canonical arrays store the same positions."""
    return a.indices is b.indices or np.array_equal(a.indices, b.indices)


def read_at(dense: Array, indices: Array) -> Array:
    """Elements of ``dense``, broadcast to as many axes as ``indices`` has rows, at these positions: shape (nnz,).

    The broadcast array is never formed.

    Raises:
        IndexingError: a position outside of the array.
    """
    lead = len(indices) - dense.ndim
    used = [i for i, size in enumerate(dense.shape) if size != 1]
    check_positions(indices[[lead + i for i in used]], tuple(dense.shape[i] for i in used))
    where = tuple(
        np.zeros(indices.shape[1], np.int64) if size == 1 else axis
        for size, axis in zip(dense.shape, indices[lead:], strict=True)
    )
    if not where:
        return np.full(indices.shape[1], dense, dense.dtype)
    found: Array = dense[where]
    return found


def apply(ufunc: Any, *values: Any) -> Any:
    """A ufunc without NumPy's warnings, and deaf to the caller's ``numpy.seterr``."""
    with np.errstate(all="ignore"):
        return ufunc(*values)
