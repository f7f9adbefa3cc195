"""What one element means: dtypes, the tree of their classes, and promotion.

The core names the plain dtypes of the array API standard, float16 and bfloat16. Every other dtype is *opaque*: it comes
from a plugin, belongs to no class, and is matched by its name alone, so that a kernel for numbers never meets its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tripoint.errors import DTypeError

if TYPE_CHECKING:
    from tripoint.tensor import Tensor

__all__ = ["DType", "DTypeClass"]


class DTypeClass:
    """A class of plain dtypes; classes form a tree under ``plain``.

    ``dtype in cls`` says whether a dtype belongs to the class or to one below it.

    Attributes:
        name: its name, such as ``floating``.
        parent, depth: the class above it, ``None`` for ``plain``, and how many there are.
    """

    __slots__ = ("depth", "name", "parent")

    def __init__(self, name: str, parent: DTypeClass | None = None) -> None:
        self.name = name
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1

    def __contains__(self, dtype: DType) -> bool:
        return dtype.family is not None and dtype.family.under(self)

    def under(self, other: DTypeClass) -> bool:
        """Whether this class is ``other`` or lies below it."""
        node: DTypeClass | None = self
        while node is not None:
            if node is other:
                return True
            node = node.parent
        return False

    def __repr__(self) -> str:
        return self.name


plain = DTypeClass("plain")
boolean = DTypeClass("boolean", plain)
numeric = DTypeClass("numeric", plain)
real = DTypeClass("real", numeric)
integral = DTypeClass("integral", real)
signed_integer = DTypeClass("signed_integer", integral)
unsigned_integer = DTypeClass("unsigned_integer", integral)
floating = DTypeClass("floating", real)
complex_floating = DTypeClass("complex_floating", numeric)
CLASSES: dict[str, DTypeClass] = {
    c.name: c
    for c in (
        plain, boolean, numeric, real, integral, signed_integer, unsigned_integer, floating, complex_floating,
    )
}  # fmt: skip


class DType:
    """The meaning of one element.

    Args:
        name: exact name, such as ``"float32"``.
        family: class of a plain dtype; ``None`` for an opaque dtype.
        bits: size of one element in bits.
        plain: for an opaque dtype, the plain dtype that its values are read as.
        gradient: dtype of gradients, or ``None`` when values of this dtype are not differentiable. Plain floating and
            complex dtypes are their own gradient dtype. Where its backend is ``cheap``, an opaque one has its derivatives, too.
        attributes: names that tensors of this dtype answer to, each a function of the tensor.

    Making a DType has no side effect; a plugin announces it through its registry.
    """

    __slots__ = ("attributes", "bits", "family", "gradient", "name", "plain")

    def __init__(
        self,
        name: str,
        family: DTypeClass | None = None,
        bits: int = 8,
        *,
        plain: DType | None = None,
        gradient: DType | None = None,
        attributes: Mapping[str, Callable[[Tensor], Any]] | None = None,
    ) -> None:
        others = [d for d in (plain, gradient) if d is not None]
        if not isinstance(name, str) or (family is None and not name.replace("_", "a").isalnum()):
            raise DTypeError(f"a dtype is named by letters, digits and _, not {name!r}")
        if not all(isinstance(d, DType) for d in others):
            raise DTypeError(f"dtype {name}: plain= and gradient= are dtypes, not {', '.join(map(repr, others))}")
        self.name = str.__str__(name)  # as it is in every table, whatever a subclass of str does
        self.family = family
        self.bits = bits
        self.plain: DType = plain if plain is not None else self
        self.attributes = dict(attributes or {})
        if family is not None and (family is floating or family is complex_floating):
            gradient = self
        self.gradient = gradient

    @property
    def itemsize(self) -> int:
        """Bytes of one element, rounded up."""
        return -(-self.bits // 8)

    @property
    def is_plain(self) -> bool:
        """Whether the dtype belongs to a class of plain dtypes."""
        return self.family is not None

    def __eq__(self, other: object) -> bool:
        # A name is accepted wherever a dtype is, so it compares as one too; otherwise a dtype is itself alone.
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tripoint.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


bool_ = DType("bool", boolean, 8)
int8 = DType("int8", signed_integer, 8)
int16 = DType("int16", signed_integer, 16)
int32 = DType("int32", signed_integer, 32)
int64 = DType("int64", signed_integer, 64)
uint8 = DType("uint8", unsigned_integer, 8)
uint16 = DType("uint16", unsigned_integer, 16)
uint32 = DType("uint32", unsigned_integer, 32)
uint64 = DType("uint64", unsigned_integer, 64)
float16 = DType("float16", floating, 16)
bfloat16 = DType("bfloat16", floating, 16)
float32 = DType("float32", floating, 32)
float64 = DType("float64", floating, 64)
complex64 = DType("complex64", complex_floating, 64)
complex128 = DType("complex128", complex_floating, 128)

PLAIN: dict[str, DType] = {
    d.name: d
    for d in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float16, bfloat16, float32, float64, complex64, complex128,
    )
}  # fmt: skip

# Weak dtypes stand for Python scalars in dtype rules; no tensor has one.
weak_bool = DType("python bool", boolean)
weak_int = DType("python int", integral)
weak_float = DType("python float", floating)
weak_complex = DType("python complex", complex_floating)
WEAK: dict[type, DType] = {bool: weak_bool, int: weak_int, float: weak_float, complex: weak_complex}
_weak = frozenset(WEAK.values())

#: dtypes announced by plugins; filled by the registry.
registered: dict[str, DType] = {}
#: asked for names that are not registered yet; the plugins room sets it.
find_more: list[Callable[[str], DType | None]] = []


class Defaults:
    """The default dtypes of the process; ``set_default_dtype`` changes ``floating``."""

    floating: DType = float32
    integer: DType = int64

    @classmethod
    def complex(cls) -> DType:
        """The complex dtype whose parts have the default floating dtype's precision."""
        return complex128 if cls.floating is float64 else complex64


def as_dtype(value: object) -> DType:
    """The dtype that ``value`` names: a DType, a name, a NumPy dtype or scalar type, or a Python number type.

    Raises:
        DTypeError: nothing of that name is known.
    """
    if isinstance(value, DType):
        return value
    if value is bool:
        return bool_
    if value is int:
        return Defaults.integer
    if value is float:
        return Defaults.floating
    if value is complex:
        return Defaults.complex()
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        name = {"bool_": "bool"}.get(name, name)
        found = PLAIN.get(name) or registered.get(name)
        if found is None:
            for find in find_more:
                found = found or find(name)
        if found is not None:
            return found
    known = sorted({*PLAIN, *registered})
    raise DTypeError(f"unknown dtype {value!r}; known dtypes: {', '.join(known)}")


_table: dict[tuple[DType, DType], DType] = {}


def promote(a: DType, b: DType) -> DType:
    """The smallest dtype that holds both, by the array API standard's table.

    Where the standard is silent: bool with a number gives the number's dtype, an integer with a floating dtype gives the
    floating dtype (as PyTorch does; NumPy would give float64 for int32 with float32), float16 with bfloat16 gives float32.

    Raises:
        DTypeError: uint64 with a signed integer (no dtype holds both), or an opaque dtype.
    """
    if a is b:
        return a
    found = _table.get((a, b))
    if found is None:
        found = _table[a, b] = _promote(a, b)
    return found


def _promote(a: DType, b: DType) -> DType:
    for one, other in ((a, b), (b, a)):
        if one.family is None:
            raise DTypeError(
                f"{one} does not promote with {other}; convert one of them, with .to(dtype=...) or its own operator"
            )
    assert a.family is not None
    assert b.family is not None
    if a.family.depth < b.family.depth or (a.family is not b.family and b.family is complex_floating):
        a, b = b, a
    if b.family is boolean:
        return a
    if a.family is boolean:
        return b
    for cls in (complex_floating, floating):
        in_a, in_b = a in cls, b in cls
        if in_a and in_b:
            if a.bits == b.bits:
                return float32
            return a if a.bits > b.bits else b
        if in_a or in_b:
            one, other = (a, b) if in_a else (b, a)
            if cls is complex_floating and other is float64:
                return complex128
            return one
    if a.family is b.family:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a in signed_integer else (b, a)
    if unsigned.bits >= 64:
        raise DTypeError(
            f"no integer dtype holds both {signed} and {unsigned}; convert one of them first, with .to(dtype=...)"
        )
    return PLAIN[f"int{max(signed.bits, 2 * unsigned.bits)}"]


def promote_weak(dtype: DType, weak: DType) -> DType:
    """The dtype of an operation between a tensor of ``dtype`` and a Python scalar of kind ``weak``.

    A Python scalar changes the dtype only when its kind is higher: an int tensor with a float gives the default floating
    dtype, a bool tensor with an int the default integer dtype.
    """
    if weak is weak_bool or dtype in complex_floating:
        return dtype
    if weak is weak_int:
        return Defaults.integer if dtype is bool_ else dtype
    if weak is weak_float:
        return dtype if dtype in floating else Defaults.floating
    if dtype in floating:
        return complex128 if dtype is float64 else complex64
    return Defaults.complex()


def result_dtype(dtypes: tuple[DType | None, ...]) -> DType:
    """Promotion over operands, Python scalars last and weak; ``None`` (an absent operand) is skipped."""
    strong = [d for d in dtypes if d is not None and d not in _weak]
    weak = [d for d in dtypes if d is not None and d in _weak]
    if not strong:
        raise DTypeError("at least one operand must be a tensor; make one with tripoint.asarray(...)")
    # Beside a floating dtype integers do not matter, so three operands give the same in every order.
    inexact = [d for d in strong if d in floating or d in complex_floating]
    if inexact and all(d.family is not None for d in strong):
        strong = inexact
    out = strong[0]
    for d in strong[1:]:
        out = promote(out, d)
    for d in weak:
        if out.family is None:
            raise DTypeError(f"{out} does not promote with a {d}; convert with .to(dtype=...) or its own operator")
        out = promote_weak(out, d)
    return out


def is_weak(dtype: DType | None) -> bool:
    """Whether the dtype stands for a Python scalar."""
    return dtype in _weak


def can_assign(source: DType, target: DType) -> bool:
    """Whether an in-place write may cast ``source`` to ``target``: same kind or a higher one (NumPy's ``same_kind``)."""
    if source is target:
        return True
    if source.family is None or target.family is None:
        return False
    ranks = {boolean: 0, unsigned_integer: 1, signed_integer: 2, floating: 3, complex_floating: 4}
    return ranks[source.family] <= ranks[target.family]
