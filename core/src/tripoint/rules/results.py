"""Which dtype an operator computes in and which comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint import dtypes as dt
from tripoint.dtypes import DType, DTypeClass
from tripoint.errors import DTypeError, ScalarRangeError, shown

DTypes = tuple[DType | None, ...]
Computed = tuple[DTypes, DType]
Accepted = DTypeClass | tuple[DTypeClass, ...]


class DTypeRule:
    """``rule(operator, dtypes, keyed metadata)`` gives the dtype each operand is cast to (``None``: as it is) and the
    result's dtype.

    Args:
        name: for explanations.
        fn: the rule; a DTypeError says which dtypes the operator does not take.
        differentiable: whether results can carry gradients, if their dtype can.
        opaque: whether the rule holds for opaque dtypes too; otherwise a kernel on one states ``out=``.
    """

    __slots__ = ("differentiable", "fn", "name", "opaque")

    def __init__(
        self,
        name: str,
        fn: Callable[[str, DTypes, dict[str, Any]], Computed],
        differentiable: bool,
        opaque: bool = False,
    ) -> None:
        self.name = name
        self.fn = fn
        self.differentiable = differentiable
        self.opaque = opaque

    def __call__(self, operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        return self.fn(operator, dtypes, keyed)

    def __repr__(self) -> str:
        return f"<dtype rule {self.name}>"


def check_number(value: bool | int | float | complex, dtype: DType) -> None:
    """Whether a plain dtype can hold a Python number: integers hold no NaN, real numbers no imaginary part.

    Raises:
        DTypeError: a complex number in a real dtype, or NaN or an infinity in an integer dtype.
        ScalarRangeError: a number that the integer dtype cannot hold.
    """
    if isinstance(value, complex) and dtype not in dt.complex_floating and dtype is not dt.bool_:
        raise DTypeError(f"{value!r} is no {dtype}; name a complex dtype")
    if dtype not in dt.integral or isinstance(value, complex):
        return
    if isinstance(value, float) and value - value != 0:
        raise DTypeError(f"{value!r} is no {dtype}; name a floating dtype")
    if not in_range(value, dtype):
        raise ScalarRangeError(
            f"the Python number {shown(value)} does not fit in {dtype}; name a wider dtype, or convert first"
        )


def in_range(value: int | float, dtype: DType) -> bool:
    """Whether an integer dtype can hold a finite Python number, as far as its size goes."""
    least = 0 if dtype in dt.unsigned_integer else -(1 << dtype.bits - 1)
    return least <= int(value) < least + (1 << dtype.bits)


def check_conversion(source: DType, target: DType) -> None:
    """Whether a conversion keeps what elements mean. A bool asks whether a number is 0, which loses nothing.

    Raises:
        DTypeError: complex to a real dtype.
    """
    if (
        source in dt.complex_floating
        and target.is_plain
        and target not in dt.complex_floating
        and target is not dt.bool_
    ):
        raise DTypeError(
            f"converting {source} to {target} drops the imaginary parts; tripoint.abs(x) gives the magnitude"
        )


def _check(operator: str, dtype: DType, accepted: Accepted) -> None:
    classes = accepted if isinstance(accepted, tuple) else (accepted,)
    if not any(dtype in c for c in classes):
        names = " and ".join(c.name for c in classes)
        raise DTypeError(f"{operator} takes {names} dtypes, not {dtype}; convert with .to(dtype=...)")


def promoted(accepted: Accepted = dt.plain) -> DTypeRule:
    """Operands are promoted together and computed in that dtype, which is also the result's."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        out = dt.result_dtype(dtypes)
        _check(operator, out, accepted)
        return (out,) * len(dtypes), out

    return DTypeRule("promoted", rule, True)


def floated(accepted: Accepted = dt.plain) -> DTypeRule:
    """As promoted, but integers and bools become the default floating dtype."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        out = dt.result_dtype(dtypes)
        if out in dt.integral or out is dt.bool_:
            out = dt.Defaults.floating
        _check(operator, out, accepted)
        return (out,) * len(dtypes), out

    return DTypeRule("floated", rule, True)


def compared(accepted: Accepted = dt.plain) -> DTypeRule:
    """Operands are promoted together; the result is bool."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        out = dt.result_dtype(dtypes)
        _check(operator, out, accepted)
        return (out,) * len(dtypes), dt.bool_

    return DTypeRule("compared", rule, False)


def truth() -> DTypeRule:
    """Operands as they are; the result is bool."""
    return DTypeRule("truth", lambda operator, dtypes, keyed: ((None,) * len(dtypes), dt.bool_), False, opaque=True)


def logical() -> DTypeRule:
    """Operands are read as bool; the result is bool."""
    return DTypeRule("logical", lambda operator, dtypes, keyed: ((dt.bool_,) * len(dtypes), dt.bool_), False)


def selected() -> DTypeRule:
    """A bool condition first; the others are promoted together."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        if dtypes[0] is not dt.bool_:
            raise DTypeError(f"{operator}: the condition must be bool, not {dtypes[0]}; compare first, as in x > 0")
        if all(dt.is_weak(d) for d in dtypes[1:]):
            out = {dt.weak_bool: dt.bool_, dt.weak_int: dt.Defaults.integer, dt.weak_float: dt.Defaults.floating}.get(
                max((d for d in dtypes[1:] if d is not None), key=_weak_order.index), dt.Defaults.complex()
            )
        else:
            out = dt.result_dtype(dtypes[1:])
        return (None, *(out,) * (len(dtypes) - 1)), out

    return DTypeRule("selected", rule, True)


_weak_order = [dt.weak_bool, dt.weak_int, dt.weak_float, dt.weak_complex]


def kept(accepted: Accepted | None = None) -> DTypeRule:
    """Operands as they are; the result has the first one's dtype, opaque dtypes included."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        if accepted is not None and first.is_plain:  # an opaque dtype has a kernel of its own, or none
            _check(operator, first, accepted)
        return (None,) * len(dtypes), first

    return DTypeRule("kept", rule, True, opaque=True)


def accumulated() -> DTypeRule:
    """Sums and products: ``dtype=`` if given; else integers and bools widen to 64 bits and others stay."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first, wanted = dtypes[0], keyed.get("dtype")
        assert first is not None
        if wanted is not None:
            out = dt.as_dtype(wanted)
            if first in dt.complex_floating and out not in dt.complex_floating:
                raise DTypeError(
                    f"{operator}: {first} to {out} drops the imaginary parts; tripoint.abs(x) gives the magnitude"
                )
        elif first in dt.unsigned_integer:
            out = dt.uint64
        elif first in dt.signed_integer or first is dt.bool_:
            out = dt.int64
        else:
            out = first
        return (out,), out

    return DTypeRule("accumulated", rule, True)


def labelled(accepted: Accepted) -> DTypeRule:
    """As kept, and the second operand holds labels: integers."""
    first = kept(accepted)

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        labels = dtypes[1]
        if labels is None or labels not in dt.integral:
            raise DTypeError(f"{operator}: labels must be integers, not {labels}")
        return first(operator, dtypes, keyed)

    return DTypeRule("labelled", rule, True)


def absolute() -> DTypeRule:
    """Real results: a complex operand gives the floating dtype of its parts."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        _check(operator, first, dt.numeric)
        out = {dt.complex64: dt.float32, dt.complex128: dt.float64}.get(first, first)
        return (None,), out

    return DTypeRule("absolute", rule, True)


def indices(accepted: Accepted) -> DTypeRule:
    """Operands as they are; the result is int64, as positions are."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        _check(operator, first, accepted)
        return (None,) * len(dtypes), dt.int64

    return DTypeRule("indices", rule, False)


def like_first() -> DTypeRule:
    """The result has the first operand's dtype; of the others, floating ones are cast to it and integers stay."""

    def rule(operator: str, dtypes: DTypes, keyed: dict[str, Any]) -> Computed:
        first = dtypes[0]
        assert first is not None
        for d in dtypes[1:]:
            if d is not None and not dt.is_weak(d):  # a number is refused where it becomes a payload, with its value
                check_conversion(d, first)
        rest = tuple(first if d is not None and d.gradient is not None else None for d in dtypes[1:])
        return (None, *rest), first

    return DTypeRule("like_first", rule, True)
