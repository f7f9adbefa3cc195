"""What data from outside holds: Python numbers, nested lists, buffers and arrays of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tripoint import dtypes as dt
from tripoint.dtypes import DType
from tripoint.errors import ArgumentError, DTypeError, shown
from tripoint.keys import SCALARS
from tripoint.tensor import Tensor

_FORMATS = {"?": "bool", "e": "float16", "f": "float32", "d": "float64", "Zf": "complex64", "Zd": "complex128"}


def buffer_of(obj: Any) -> memoryview | None:
    """The memory of an object with Python's buffer protocol; text and bytes are no numbers."""
    if isinstance(obj, bytes):
        return None
    try:
        return memoryview(obj)
    except TypeError:
        return None


def foreign_dtype(obj: Any) -> DType:
    """The dtype here of an array of another library or of a memoryview.

    Raises:
        ArgumentError: an object that does not say what its elements are.
        DTypeError: elements without an equal here.
    """
    foreign = getattr(obj, "dtype", None)
    if foreign is None and isinstance(obj, memoryview):
        code = obj.format.lstrip("@=<>!")
        sign = "int" if code in tuple("bhilqn") else "uint" if code in tuple("BHILQN") else ""
        foreign = f"{sign}{obj.itemsize * 8}" if sign else _FORMATS.get(code, f"format {obj.format!r}")
    elif foreign is None:
        array = getattr(obj, "__array_interface__", None)
        if array is None:
            raise ArgumentError(f"asarray: a {type(obj).__name__} does not say what its elements are; convert it first")
        text = array["typestr"]
        foreign = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}.get(text[1], "?")
        foreign = foreign if foreign == "bool" else f"{foreign}{int(text[2:]) * 8}"
    name = foreign if isinstance(foreign, str) else getattr(foreign, "name", None) or str(foreign)
    name = name.rpartition(".")[2]
    found = dt.PLAIN.get(name)
    if found is None:
        raise DTypeError(
            f"asarray: an array of dtype {foreign} has no equal here; convert it to numbers first "
            f"(dtypes: {', '.join(dt.PLAIN)})"
        )
    return found


#: from the narrowest to the widest; bool is an int in Python, so the first that fits is meant.
_ORDER = (bool, int, float, complex)


def dtype_of_numbers(flat: Sequence[Any], named: DType | None) -> DType:
    """The default dtype that holds Python numbers; ``named``, where an int is too large for any integer dtype.

    Raises:
        ArgumentError: what is no number, and an int of more than 64 bits where no dtype is named.
    """
    kinds = set(map(type, flat))
    best = -1
    for kind in kinds:
        rank = next((i for i, k in enumerate(_ORDER) if issubclass(kind, k)), None)
        if rank is None:
            word = "text" if issubclass(kind, (str, bytes)) else f"a {kind.__name__}"
            raise ArgumentError(f"asarray: {word} is no number; tensors hold bools, ints, floats and complex numbers")
        best = max(best, rank)
    if best < 0:
        return dt.Defaults.floating
    if best == 1 and any(not -(2**63) <= v < 2**63 for v in flat):
        big = next(v for v in flat if not -(2**63) <= v < 2**63)
        if big < 2**64 and all(v >= 0 for v in flat):
            return dt.uint64
        if named is not None:  # a floating dtype may hold it, and an integer one says that it does not
            return named
        raise ArgumentError(f"asarray: the int {shown(big)} does not fit in 64 bits; write it as a float")
    return (dt.bool_, dt.Defaults.integer, dt.Defaults.floating, dt.Defaults.complex())[best]


def read_list(obj: Any, named: DType | None) -> tuple[Any, DType, bool]:
    """The nested lists, their dtype, and whether arrays stand inside.

    Raises:
        ArgumentError: ragged nesting, text, or things that are no numbers.
    """
    depth = 0
    level: list[Any] = [obj]
    while True:
        kinds = set(map(type, level))
        nested = [k for k in kinds if issubclass(k, (list, tuple))]
        if not nested:
            break
        if any(getattr(v, "shape", ()) != () for v in level):
            return list(obj), dt.Defaults.floating, True  # lists beside arrays
        if len(nested) != len(kinds):
            raise ArgumentError(f"asarray: ragged nesting: numbers and lists side by side at depth {depth}")
        sizes = {len(v) for v in level}
        if len(sizes) > 1:
            raise ArgumentError(
                f"asarray: ragged nesting: lists of lengths {', '.join(map(str, sorted(sizes)))} side by side at depth "
                f"{depth}; pad them to one length"
            )
        depth += 1
        level = [v for inner in level for v in inner]
        if not level:
            break
    if any(hasattr(v, "__array__") or isinstance(v, Tensor) for v in level):
        recorded = any(isinstance(v, Tensor) and v._key.autograd for v in level)
        if not recorded and all(isinstance(v, (bool, int, float, complex)) or is_scalar(v) for v in level):
            return _unwrapped(obj), _joined(level, named), False
        return list(obj), dt.Defaults.floating, True
    return obj, dtype_of_numbers(level, named), False


def is_scalar(v: Any) -> bool:
    """Whether it is an array or a tensor without axes."""
    return getattr(v, "shape", None) == ()


def _unwrapped(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        return [_unwrapped(v) for v in obj]
    return obj.item() if is_scalar(obj) else obj


def _joined(flat: list[Any], named: DType | None) -> DType:
    out: DType | None = None
    for v in flat:
        one = v.dtype if isinstance(v, Tensor) else foreign_dtype(v) if is_scalar(v) else None
        if one is not None:
            out = one if out is None else dt.promote(out, one)
    weak = [v for v in flat if not is_scalar(v)]
    if out is None:
        return dtype_of_numbers(flat, named)
    for v in weak:
        out = dt.promote_weak(out, next(SCALARS[k].dtype for k in _ORDER if isinstance(v, k)))
    return out
