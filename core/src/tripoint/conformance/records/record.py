"""What the kit knows of one operator, and the numbers that samples are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tripoint.conformance.reference.values import ALL, EPS, FLOATS, INEXACT, INTEGERS, KIND, SIZE, TINY, Array, Shape
from tripoint.conformance.script import flat

Samples = Callable[[str], "list[Sample]"]

nan, inf = math.nan, math.inf


class Sample:
    """Operands and metadata of one call, as a user writes them.

    Attributes:
        operands: each an Array, a Python number, ``None``, or a list of Arrays.
        meta: metadata by name.
        tags: kinds of call that a backend may declare it lacks: ``broadcast``, ``scalar``, ``empty``, ``nonfinite``,
            ``subnormal``, ``vanishing`` (0 meets what is not finite), ``far`` (from 0), ``mixed`` (dtypes), and ``0-d``,
            ``1-d`` and so on by the numbers of axes of its arrays.
    """

    __slots__ = ("meta", "operands", "tags")

    def __init__(self, *operands: Any, **meta: Any) -> None:
        self.operands = operands
        self.meta = meta
        arrays = list(self.arrays())
        elements = [a for a in arrays if a.role == "element"]
        self.tags = {
            name
            for name, holds in {
                "broadcast": len({a.shape for a in elements}) > 1,
                "scalar": any(isinstance(v, (bool, int, float, complex)) for v in operands),
                "empty": any(0 in a.shape for a in arrays),
                "nonfinite": not all(
                    math.isfinite(abs(v))
                    for v in [
                        *[v for a in elements if KIND[a.dtype] in _PARTS for v in a.data],
                        *[v for v in operands if isinstance(v, (float, complex))],
                        *flat([meta.get(name, []) for name in _MADE_OF]),
                    ]
                ),
                "subnormal": any(a.subnormal() for a in elements),
                "vanishing": _vanishing(elements),
                "far": any(abs(v) >= _FAR for a in elements if a.dtype in FLOATS for v in a.data),
                "mixed": len({a.dtype for a in elements}) > 1,
            }.items()
            if holds
        } | {f"{a.ndim}-d" for a in elements}

    def arrays(self) -> Iterator[Array]:
        """Every array among the operands."""
        for value in self.operands:
            if isinstance(value, Array):
                yield value
            elif isinstance(value, list):
                yield from value

    def replaced(self, change: Callable[[Array], Array]) -> Sample:
        """The same call with every array of elements changed."""

        def one(value: Any) -> Any:
            if isinstance(value, Array):
                return change(value) if value.role == "element" else value
            return [one(v) for v in value] if isinstance(value, list) else value

        return Sample(*map(one, self.operands), **self.meta)

    def lifted(self, ndim: int) -> Sample | None:
        """The same call with axes of size 1 around its arrays, so that each has this many; ``None`` if one has more.

        One goes in front and the others behind, which moves what a vector holds to the second axis; the axes of a reduction
        go along, and stay.
        """
        most = max([a.ndim for a in self.arrays()], default=ndim)
        if most >= ndim or any(isinstance(v, list) for v in self.operands):
            return None
        behind = ndim - most - 1

        def grown(a: Array) -> Array:
            return Array(a.dtype, (*(1,) * (ndim - a.ndim - behind), *a.shape, *(1,) * behind), a.data, a.role)

        def moved(axis: int) -> int:
            return axis + 1 if axis >= 0 else axis - behind

        meta = dict(self.meta)
        axis = meta.get("axis")
        if axis is not None:
            meta["axis"] = moved(axis) if isinstance(axis, int) else tuple(map(moved, axis))
        return Sample(*[grown(v) if isinstance(v, Array) else v for v in self.operands], **meta)


_PARTS = ("float", "complex")
_FAR = 2.0**15
_MADE_OF = ("data", "fill_value")
#: how many numbers of a long array differ, a prime.
_TURN = 61


def _vanishing(arrays: list[Array]) -> bool:
    if len(arrays) != 2 or all(a.finite() for a in arrays):
        return False
    one, other = arrays
    if one.shape != other.shape:
        return 0 in one.data or 0 in other.data
    return any(
        0 in pair and not all(math.isfinite(abs(v)) for v in pair) for pair in zip(one.data, other.data, strict=True)
    )


class Bad:
    """A call that must be refused, and by which class of `tripoint.errors`.

    ``by_value`` says that only the elements show what is wrong, so that a device without elements cannot know.
    """

    __slots__ = ("by_value", "error", "sample")

    def __init__(self, error: str, *operands: Any, by_value: bool = False, **meta: Any) -> None:
        self.error = error
        self.by_value = by_value
        self.sample = Sample(*operands, **meta)


class Record:
    """What drives every check of one operator.

    Args:
        operator: qualified name.
        reference: function of the operands and the metadata giving the Array that should come out.
        samples: function of a dtype giving calls.
        tier: where values are checked: 0 to 3.
        dtypes: the dtypes of its first operand.
        ulps: how many units in the last place results of floating dtypes may be off; of an elementwise operator each in its
            own last place, else in that of the largest.
        errors: function giving calls that must be refused.
        gradients: function of a floating dtype giving calls with no kink near them; ``None``: no gradient is checked.
        ties: function of a floating dtype giving calls at kinks with the gradients that the contract states, one per operand.
        needs: operators that it is made of, without which it cannot be expected to work.
        kind: ``elementwise``, ``reduction``, ``view``, ``alias`` (the result may share memory), ``create`` (the point is named
            in the call), ``convert`` (the result may be the operand), ``export`` or empty.
        exact_zero: the sign of a zero is part of the contract.
        without: what cannot be checked (``samples``, that is nothing can, ``values`` or ``gradients``), each with the reason.
    """

    __slots__ = (
        "dtypes", "errors", "exact_zero", "gradients", "kind", "needs", "operator", "reference", "samples", "tier", "ties",
        "ulps", "without",
    )  # fmt: skip

    def __init__(
        self,
        operator: str,
        reference: Callable[..., Array],
        samples: Samples,
        *,
        tier: int,
        dtypes: Sequence[str] = ALL,
        ulps: float = 0,
        errors: Callable[[], list[Bad]] = list,
        gradients: Samples | None = None,
        ties: Callable[[str], list[tuple[Sample, list[Any]]]] | None = None,
        needs: tuple[str, ...] = (),
        kind: str = "",
        exact_zero: bool = False,
        without: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.operator = operator
        self.reference = reference
        self.samples = samples
        self.tier = tier
        self.dtypes = tuple(dtypes)
        self.ulps = ulps
        self.errors = errors
        self.gradients = gradients
        self.ties = ties
        self.needs = needs
        self.kind = kind
        self.exact_zero = exact_zero
        self.without = without

    def tolerance(self, dtype: str) -> float:
        """How far a result of this dtype may be off, as a part of the largest element."""
        return self.ulps * EPS[dtype] if dtype in INEXACT else 0.0

    def least(self, dtype: str) -> float | None:
        """The number below which a result may be off as that one may, or ``None`` where the largest counts for all."""
        return TINY.get(dtype) if self.kind == "elementwise" else None

    def lifted(self, sample: Sample, ndim: int) -> Sample | None:
        """A sample for a backend whose tensors have at least so many axes, or ``None`` where it cannot be one."""
        if self.kind not in ("elementwise", "reduction"):
            return None
        made = sample.lifted(ndim)
        if made is not None and self.kind == "reduction":
            made.meta["keepdims"] = True
        return made

    def __repr__(self) -> str:
        return f"<record {self.operator}, tier {self.tier}>"


# Numbers -------------------------------------------------------------------------------------------------------------


def _steps(count: int, seed: int) -> list[int]:
    """Integers from 0 to 16 that look random and are the same everywhere."""
    out, state = [], seed * 7919 + 12345
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        out.append((state >> 16) % 17)
    return out


def numbers(dtype: str, *shape: int, seed: int = 0, kind: str = "any") -> Array:
    """Numbers that every dtype of a kind holds exactly, zeros among them.

    Args:
        kind: ``any``; ``nonzero``; ``positive``; ``distinct``, of both signs with none near another or near 0.
    """
    count = math.prod(shape)
    steps = _steps(count, seed + count)
    if kind in ("any", "positive"):  # what repeats itself, out of step with any block, is short to print
        steps = [steps[i % _TURN] for i in range(count)]
    if kind == "distinct":
        order = sorted(range(count), key=lambda i: (_steps(i + 1, seed)[-1], i))
        steps = [8 + (i + 1) * (1 if i % 2 else -1) for i in order]
    sort = KIND[dtype]
    if sort == "bool":
        return Array(dtype, shape, [s % 3 > 0 for s in steps])
    if kind == "positive":
        steps = [s + 9 for s in steps]
    elif kind == "nonzero":
        steps = [s + 1 if s >= 8 else s for s in steps]
    if sort == "uint":
        return Array(dtype, shape, [abs(s - 8) if kind == "nonzero" else s for s in steps])
    if sort == "int":
        return Array(dtype, shape, [s - 8 for s in steps])
    data = [(s - 8) / 4 for s in steps]
    if sort == "complex":
        parts = _steps(count, seed + 77)
        parts = [parts[i % _TURN] for i in range(count)]
        return Array(dtype, shape, [complex(a, (p - 8) / 4) for a, p in zip(data, parts, strict=True)])
    return Array(dtype, shape, data)


def given(dtype: str, *data: Any) -> Array:
    """A vector of these numbers."""
    return Array(dtype, (len(data),), data)


def full_width(dtype: str, kind: str = "any") -> Array:
    """Four numbers that need every bit of a dtype, and no narrower one holds; of bool there are none, and it is empty."""
    if dtype == "bool":
        return given(dtype)
    if dtype in INTEGERS:
        half = 2 ** (SIZE[dtype] - 2)
        return given(dtype, half + 1, 3 - half if KIND[dtype] == "int" else 2 * half + 1, half + 3, 5)
    data = [4 / 3, 10 / 7 if kind == "positive" else -10 / 7, 6 / 5, 9 / 7]
    return given(dtype, *data if dtype in FLOATS else [complex(v, 1 / 3 - v) for v in data])


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer dtype."""
    bits = SIZE[dtype]
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if KIND[dtype] == "int" else (0, 2**bits - 1)


def index(*data: int, shape: Shape | None = None) -> Array:
    """Positions or labels."""
    return Array("int64", (len(data),) if shape is None else shape, data, role="index")


def special(dtype: str) -> Array:
    """NaN, infinities, zeros of both signs and two usual numbers; only for floating dtypes."""
    return given(dtype, nan, inf, -inf, 0.0, -0.0, 1.5, -2.0)


def small(dtype: str) -> tuple[Array, Array]:
    """Two vectors of small numbers, subnormal ones among them; only for floating dtypes."""
    tiny = TINY[dtype]
    x = given(dtype, tiny / 4, tiny, -tiny / 2, 1.5 * tiny, tiny / 4, 2.0**-12)
    return x, given(dtype, 0.5, 0.25, 1.0, -0.75 * tiny, 0.0, -(2.0**-13))


def is_float(dtype: str) -> bool:
    """Whether a dtype is a real floating one."""
    return dtype in FLOATS
