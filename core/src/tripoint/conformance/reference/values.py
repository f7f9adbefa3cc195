"""Arrays of plain Python numbers, how numbers are rounded to each dtype, and how dtypes are promoted.

Nothing here imports the core or a backend: what a kernel computes is compared with this, so it must not be made of the same
parts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

Shape = tuple[int, ...]

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
NUMERIC = ALL[1:]
REAL = INTEGERS + FLOATS
ORDERED = ("bool", *REAL)
BITS = ("bool", *INTEGERS)
INEXACT = FLOATS + COMPLEX

SIZE = {"bool": 8, **{name: int("".join(c for c in name if c.isdigit())) for name in NUMERIC if name != "bfloat16"}}
SIZE["bfloat16"] = 16
KIND = {"bool": "bool"}
for _names, _kind in ((SIGNED, "int"), (UNSIGNED, "uint"), (FLOATS, "float"), (COMPLEX, "complex")):
    KIND.update(dict.fromkeys(_names, _kind))
#: distance from 1 to the next number.
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
EPS |= {"complex64": EPS["float32"], "complex128": EPS["float64"]}
#: smallest number with all its bits; below it are the subnormal ones.
TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
TINY |= {"complex64": TINY["float32"], "complex128": TINY["float64"]}


class Array:
    """A dtype by name, a shape, and the elements in row-major order, each of them a Python number that the dtype holds.

    Attributes:
        role: ``element``; ``mask`` for a condition; ``index`` for positions and labels, which stay integers whatever dtype is
            being checked; ``weight`` for a gradient that is given.
    """

    __slots__ = ("data", "dtype", "role", "shape")

    def __init__(self, dtype: str, shape: Shape, data: Iterable[Any], role: str = "element") -> None:
        self.dtype = dtype
        self.shape = tuple(shape)
        self.data = [cast(v, dtype) for v in data]
        self.role = role
        if len(self.data) != math.prod(self.shape):
            raise ValueError(f"{len(self.data)} elements for shape {self.shape}")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def at(self, where: Sequence[int]) -> Any:
        """The element at one position per axis."""
        return self.data[place(self.shape, where)]

    def finite(self) -> bool:
        """Whether every element is."""
        return all(isinstance(v, int) or math.isfinite(abs(v)) for v in self.data)

    def subnormal(self) -> bool:
        """Whether an element is smaller than the dtype holds with all its bits, and not 0."""
        return self.dtype in FLOATS and any(0 < abs(v) < TINY[self.dtype] for v in self.data)

    def astype(self, dtype: str) -> Array:
        """The elements in another dtype."""
        return Array(dtype, self.shape, self.data, self.role)

    def nested(self) -> Any:
        """Nested lists; a number where there is no axis."""
        return nest(self.shape, self.data)

    def __repr__(self) -> str:
        return f"Array({self.dtype}, {self.shape}, {self.data})"


def nest(shape: Shape, data: Sequence[Any]) -> Any:
    """Elements in row-major order as nested lists."""
    if not shape:
        return data[0]
    step = math.prod(shape[1:])
    return [nest(shape[1:], data[i * step : (i + 1) * step]) for i in range(shape[0])]


def place(shape: Shape, where: Sequence[int]) -> int:
    """Row-major position of an element."""
    out = 0
    for size, i in zip(shape, where, strict=True):
        out = out * size + i
    return out


def positions(shape: Shape) -> Iterator[tuple[int, ...]]:
    """Every position of a shape, row-major."""
    return product(*map(range, shape))


def made(dtype: str, shape: Shape, fn: Callable[[tuple[int, ...]], Any]) -> Array:
    """The array whose elements ``fn`` gives for each position."""
    return Array(dtype, shape, [fn(where) for where in positions(shape)])


# Rounding ------------------------------------------------------------------------------------------------------------


def cast(value: Any, dtype: str) -> Any:
    """A number as a dtype holds it: integers wrap around, floats are rounded half to even, floats to integers toward 0."""
    kind = KIND[dtype]
    if kind == "bool":
        return bool(value)
    if kind in ("int", "uint"):
        return wrapped(int(value), SIZE[dtype], kind == "int")
    if kind == "float":
        return rounded(_float(value if dtype == "float64" else _odd(value)), dtype)
    part = "float32" if dtype == "complex64" else "float64"
    value = complex(value)
    return complex(rounded(value.real, part), rounded(value.imag, part))


def _odd(value: Any) -> Any:
    """An int cut to 53 bits, the last of them 1 if something was cut: rounded from there to fewer bits, it is rounded once."""
    cut = abs(value).bit_length() - 53 if isinstance(value, int) else 0
    if cut <= 0:
        return value
    kept = abs(value) >> cut
    kept |= kept << cut != abs(value)
    return math.copysign(1, value) * math.ldexp(kept, cut) if cut < 900 else value


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def wrapped(value: int, bits: int, signed: bool) -> int:
    """An integer modulo 2**bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def rounded(value: float, dtype: str) -> float:
    """A float as a floating dtype holds it, rounded once."""
    if dtype == "float64" or value == 0 or not math.isfinite(value):
        return value
    if dtype == "bfloat16":
        return _bfloat16(value)
    code = "<f" if dtype == "float32" else "<e"
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _bfloat16(value: float) -> float:
    _, exponent = math.frexp(value)
    exponent = max(exponent, -125)  # below that, numbers are as far apart as the smallest normal ones
    step = math.ldexp(1.0, exponent - 8)
    out = round(value / step) * step  # Python rounds half to even
    return math.copysign(math.inf if abs(out) >= 2.0**128 else abs(out), value)


# Promotion -----------------------------------------------------------------------------------------------------------


def promote(a: str, b: str) -> str:
    """The dtype that holds both, by the table of the array API standard; where that is silent, by the contract.

    Raises:
        LookupError: there is none.
    """
    if a == b or KIND[b] == "bool":
        return a
    if KIND[a] == "bool":
        return b
    kinds = {KIND[a], KIND[b]}
    if len(kinds) == 1:
        return max(a, b, key=SIZE.__getitem__) if SIZE[a] != SIZE[b] else "float32"
    if kinds == {"int", "uint"}:
        signed, unsigned = (a, b) if KIND[a] == "int" else (b, a)
        if unsigned == "uint64":
            raise LookupError("no integer dtype holds int and uint64")
        return f"int{max(SIZE[signed], 2 * SIZE[unsigned])}"
    if "complex" in kinds:
        one, other = (a, b) if KIND[a] == "complex" else (b, a)
        return "complex128" if other == "float64" else one
    return a if KIND[a] == "float" else b


def result_dtype(operands: Sequence[Any]) -> str:
    """Promotion over arrays and Python numbers; a number counts only where its kind is a higher one."""
    arrays = [v.dtype for v in operands if isinstance(v, Array)]
    inexact = [d for d in arrays if KIND[d] in ("float", "complex")]
    out, *rest = inexact or arrays
    for dtype in rest:
        out = promote(out, dtype)
    for value in operands:
        if not isinstance(value, Array):
            out = _beside(out, value)
    return out


def _beside(dtype: str, number: Any) -> str:
    kind = KIND[dtype]
    if isinstance(number, bool) or kind == "complex":
        return dtype
    if isinstance(number, int):
        return "int64" if kind == "bool" else dtype
    if isinstance(number, float):
        return dtype if kind == "float" else "float32"
    return "complex128" if dtype == "float64" else "complex64"


# Broadcasting --------------------------------------------------------------------------------------------------------


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that all broadcast to.

    Raises:
        ValueError: they do not.
    """
    count = max(map(len, shapes))
    out = []
    for sizes in zip(*[(1,) * (count - len(s)) + tuple(s) for s in shapes], strict=True):
        wide = {s for s in sizes if s != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {shapes} do not broadcast")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def broadcast_to(x: Array, shape: Shape) -> Array:
    """The elements repeated along new axes and along axes of size 1."""
    lead = len(shape) - x.ndim
    return made(shape=shape, dtype=x.dtype, fn=lambda w: x.at([0 if s == 1 else i for s, i in zip(x.shape, w[lead:])]))


def mapped(fn: Callable[..., Any], dtype: str, *operands: Any) -> Array:
    """``fn`` of the elements of operands broadcast together, as ``dtype``; numbers stand for themselves."""
    shape = broadcast_shape(*[v.shape for v in operands if isinstance(v, Array)])
    columns = [broadcast_to(v, shape).data if isinstance(v, Array) else [v] * math.prod(shape) for v in operands]
    return Array(dtype, shape, [fn(*row) for row in zip(*columns, strict=True)])


def normal(axis: int, ndim: int) -> int:
    """An axis counted from 0."""
    return axis + ndim if axis < 0 else axis


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """``None``, an int or several as axes counted from 0."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(normal(a, ndim) for a in ((axis,) if isinstance(axis, int) else axis)))
