"""What authors tell the conformance kit: what their backend does, and which calls their operators are checked with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from tripoint.dtypes import DTypeClass

__all__ = ["Capabilities", "Sample"]


class Capabilities(NamedTuple):
    """What the conformance kit may expect of a backend. It holds the backend to it both ways: what is not declared lacking
    must work, and what is declared lacking must be refused by an error of `tripoint.errors`.

    Attributes:
        dtypes: names or classes of the dtypes that tensors here can have; ``None``: those of which one can be made.
        ranks: the smallest and the largest number of axes, ``None`` for no largest.
        views: whether operators return views; ``None``: as the layout says.
        mutation: whether a write changes memory that aliases see; ``None``: unless the backend is frozen.
        elements: whether tensors hold elements that can be read.
        nonfinite: whether the dtypes hold NaN and infinities; ``"nan"``: NaN and no infinities.
        subnormal: whether numbers below the smallest normal one are kept; ``False``: they may become 0, as operands and as
            results.
        make: for a point that needs parameters, an expression that makes a tensor here of the strided CPU tensor ``{x}``, with
            ``tp`` for tripoint: ``"tp.quantize({x}, tp.affine(0.25, dtype='{dtype}'))"``.
        lacks: what the backend does not do, each with the reason that its users are told. A key is an operator, or ``*`` for
            whatever has no kernel; behind a dot may stand a dtype, a class of dtypes, or a kind of call: ``broadcast``,
            ``scalar`` (a Python number among the operands), ``empty``, ``mixed`` (dtypes), ``view`` (operands that are views),
            ``0-d``, ``1-d`` and so on (numbers of axes), ``gradient``. ``None``: whatever has no kernel.
        tolerance: by the same keys, how far results may be off as a part of the largest element.
        known_failures: path of a TOML or JSON file of failures that the author knows of.
    """

    dtypes: tuple[str | DTypeClass, ...] | None = None
    ranks: tuple[int, int | None] = (0, None)
    views: bool | None = None
    mutation: bool | None = None
    elements: bool = True
    nonfinite: bool | Literal["nan"] = True
    subnormal: bool = True
    make: str = ""
    lacks: Mapping[str, str] | None = None
    tolerance: Mapping[str, float] = {}
    known_failures: str | None = None


class Sample(NamedTuple):
    """One call that the conformance kit makes of an operator; ``samples=`` of its declaration is a function giving several.

    A tuple of the same parts does as well, such as ``(([1.0, 2.0], [0.5]), {"beta": 1.0})``.

    Attributes:
        operands: in order, each of them nested lists of numbers, which take every dtype that is checked; a pair of a dtype's
            name and nested lists, which have that dtype always (bool for a mask, an integer dtype for positions); ``None``;
            or, where any number of tensors is taken, a list of these. A number is a Python number where the parameter is an
            Operand, and a tensor without axes where it is a Tensor.
        meta: metadata by name.
        error: the class of `tripoint.errors` by which the call must be refused, or ``None``.
        gradient: whether derivatives are checked; not at a kink, such as that of an absolute value at 0.
    """

    operands: tuple[Any, ...]
    meta: Mapping[str, Any] = {}
    error: type[Exception] | None = None
    gradient: bool = True
