"""The backend that is checked: its point, what its author declares, and how a tensor on it is written."""

from __future__ import annotations

import math
from typing import Any

from tripoint import dtypes, kernels, plugins
from tripoint.conformance.records import RECORDS, Sample
from tripoint.conformance.reference.values import ALL, Array
from tripoint.conformance.script import agree, flat, shape_of, spelled
from tripoint.devices import Device
from tripoint.errors import ArgumentError, DTypeError, TripointError, said
from tripoint.keys import intern
from tripoint.plugin import Capabilities, operators

_CLASSES = dtypes.CLASSES
#: ways to make a tensor without elements.
_NOTHING = (
    'tp.zeros({shape}, dtype="{dtype}"{placed})',
    'tp.zeros({shape}, dtype="{dtype}").to({where})',
    'tp.full({shape}, 0, dtype="{dtype}"{placed})',
)


class Target:
    """One backend, by the name of its point.

    Attributes:
        name: as it was asked for, such as ``cpu.strided`` or ``cpu.strided.qint8``.
        dtypes: names of the plain dtypes that samples may have; of an opaque dtype the one that its values are read as.
        opaque: name of the opaque dtype, or ``None``.
        said: what the author declares, or what is taken for it.
        views, mutation: whether operators return views, and whether writes reach memory that aliases see.

    Raises:
        ArgumentError: no name of a point.
        TripointError: nothing provides the point, or its hardware cannot be used.
    """

    def __init__(self, name: str) -> None:
        parts = name.split(".") if isinstance(name, str) else []
        if len(parts) not in (2, 3) or not all(parts):
            raise ArgumentError(
                f"a backend is named by its point, such as 'cpu.strided' or 'cpu.strided.qint8', not {name!r}"
            )
        self.name = name
        device, layout = plugins.find_device(parts[0]), plugins.find_layout(parts[1])
        dtype = dtypes.as_dtype(parts[2]) if len(parts) == 3 else None
        self.layout = layout.name
        self.opaque = dtype.name if dtype is not None and not dtype.is_plain else None
        self.point = plugins.require(intern(device, layout, dtype or dtypes.float32))
        several = plugins.device_count(device.type) if ":" not in parts[0] else None
        if several is not None and several > 1:  # not the first, which a kernel may take for any
            device = Device(device.type, several - 1)
            self.point = plugins.require(intern(device, layout, dtype or dtypes.float32))
        self.device = str(device)
        self.said: Capabilities = self.point.capabilities or Capabilities()
        #: the first error that was met in making a tensor here.
        self._met = ""
        _check_said(name, self.said)
        if self.opaque is not None and not self.said.make:
            raise ArgumentError(
                f"{name}: the kit cannot know how to make a {dtype} tensor; its backend declares an expression for that, "
                "Backend(capabilities=Capabilities(make=...))"
            )
        if dtype is not None and dtype.is_plain:
            self.dtypes: tuple[str, ...] = (dtype.name,)
        elif dtype is not None:
            self.dtypes = (dtype.plain.name,)
        else:
            self.dtypes = self._plain()
        if not self.dtypes:
            raise ArgumentError(
                f"{name}: no tensor of any dtype can be made there; what it takes is declared by its backend, "
                f"Backend(capabilities=Capabilities(dtypes=..., ranks=...)){self._met}"
            )
        self._beside: dict[str, bool] = {}
        self._writes: bool | None = None
        #: what keeps a stream busy, as the check of races found.
        self.delay: tuple[str, str] | None = None
        self._nothing = _NOTHING[0]
        self._nothing = self._emptied()
        frozen = self.point.frozen
        self.views = self.said.views if self.said.views is not None else layout.views and not frozen
        self.mutation = self.said.mutation if self.said.mutation is not None else not frozen
        self.key = intern(device, layout, dtype) if dtype is not None else None
        #: the keys of the tensors that are checked.
        self.keys = (
            [self.key] if self.key is not None else [intern(device, layout, dtypes.as_dtype(d)) for d in self.dtypes]
        )
        #: 0 is not stored, so that 0 times an infinity, which is not looked at, may be 0.
        self.sparse = layout.gradient_like is not None

    def _plain(self) -> tuple[str, ...]:
        said = self.said.dtypes
        if said is None:
            return tuple(d for d in ALL if self._holds(d))
        return tuple(d for d in ALL if any(_is(d, one if isinstance(one, str) else one.name) for one in said))

    def _holds(self, dtype: str) -> bool:
        import tripoint

        data: Any = 1
        for _ in range(self.said.ranks[0]):
            data = [data]
        try:
            tripoint.asarray(data, dtype=dtype, device=self.device, layout=self.layout)
        except TripointError as error:
            self._met = self._met or f"; the first attempt, {dtype}, raised {said(error)}"
            return False
        except Exception:
            return True  # it is not refused: a check of tier 0 says what is wrong
        return True

    def label(self, dtype: str) -> str:
        """The dtype as reports and files of known failures name it."""
        return self.opaque or dtype

    # What is declared --------------------------------------------------------------------------------------------------

    def lack(self, operator: str, dtype: str, tags: set[str], made_of: bool = True) -> tuple[str, str] | None:
        """The entry of ``lacks`` that a call falls under, the narrowest first, or ``None``.

        An operator lacks what the operators lack that it is made of; where one of them is known to be missing, ask about
        that one, with ``made_of=False``.
        """
        found = _entry(self.said.lacks or {}, operator, self.label(dtype), dtype, tags)
        if made_of and (found is None or found[0] == "*"):
            record = RECORDS.get(operator)
            for need in record.needs if record is not None else ():
                deeper = self.lack(need, dtype, tags)
                if deeper is not None and deeper[0] != "*":
                    return deeper
        return found

    def tolerance(self, operator: str, dtype: str, tags: set[str], usual: float) -> float:
        """How far a result may be off."""
        found: Any = _entry(self.said.tolerance, operator, self.label(dtype), dtype, tags)
        return usual if found is None else found[1]

    def takes(self, sample: Sample) -> bool:
        """Whether a sample is about dtypes and numbers of axes that the backend declares."""
        if "nonfinite" in sample.tags and not (
            self.said.nonfinite is True or (self.said.nonfinite and not _endless(sample))
        ):
            return False
        if not self.said.subnormal and "subnormal" in sample.tags:
            return False
        if (self.sparse and "vanishing" in sample.tags) or (self.opaque is not None and "far" in sample.tags):
            return False  # what is not stored is not looked at, and no opaque dtype promises to reach so far
        wanted = sample.meta.get("dtype")
        if wanted is not None and wanted not in self.dtypes:
            return False
        if not sample.operands and not self.ranked(_made_axes(sample)):
            return False
        for array in sample.arrays():
            if self._here(array):
                if not self.ranked(array.ndim):
                    return False
            elif (array.role == "element" and "mixed" in sample.tags) or not self.beside(array.dtype):
                return False
        return True

    def _here(self, array: Array) -> bool:
        """Whether the point itself holds an array; what it does not hold, such as positions, is strided on its device."""
        return array.role in ("element", "mask") and array.dtype in self.dtypes

    def beside(self, dtype: str) -> bool:
        """Whether the device holds strided tensors of a dtype, which a mask or positions need that the point does not hold."""
        known = self._beside.get(dtype)
        if known is None:
            import tripoint

            try:
                eval(self.written(Array(dtype, (1,), [0], role="index")), {"tp": tripoint})
            except TripointError:
                known = dtype in self.dtypes  # which its author declares
            except Exception:
                known = True  # a check says what is wrong
            else:
                known = True
            self._beside[dtype] = known
        return known

    def writes(self) -> bool:
        """Whether a tensor's elements can be written, so that aliases see it."""
        if self._writes is None:
            import tripoint

            shape = (1,) * max(1, self.said.ranks[0])
            self._writes = self.mutation
            try:
                x = eval(self.written(Array(self.dtypes[0], shape, [1])), {"tp": tripoint})
                operators()["assign_"](x, x)
            except Exception:  # a check says what is wrong
                self._writes = False
        return self._writes

    def absent(self) -> list[str]:
        """Dtypes that a sample needed beside the point's and that the device does not hold."""
        return sorted(dtype for dtype, there in self._beside.items() if not there)

    def holds(self, result: Array) -> bool:
        """Whether the numbers of a result are of those that the backend declares to hold."""
        said = self.said.nonfinite
        return said is True or result.finite() or (bool(said) and not any(map(_infinite, result.data)))

    def tamed(self, sample: Sample) -> Sample:
        """A sample with numbers in place of infinities, where there are none but NaN."""
        if self.said.nonfinite != "nan" or "nonfinite" not in sample.tags:
            return sample
        return sample.replaced(
            lambda a: Array(a.dtype, a.shape, [math.copysign(2.0, v) if _infinite(v) else v for v in a.data], a.role)
        )

    def held(self, sample: Sample) -> Sample:
        """A sample as this point holds it: an opaque dtype has fewer numbers than the one that its values are read as."""
        return sample.replaced(self.stored)

    def stored(self, array: Array) -> Array:
        """An array as it is read back from this point."""
        import tripoint

        if not self.said.elements or not self._here(array) or not self._may_differ(array):
            return array
        try:
            made = eval(self.written(array), {"tp": tripoint, "nan": math.nan, "inf": math.inf}).tolist()
        except Exception:
            return array  # a check says what is wrong
        if self.opaque is None and not agree(made, array.nested()):
            return array  # likewise
        return Array(array.dtype, array.shape, flat(made), array.role)

    def _may_differ(self, array: Array) -> bool:
        """Whether the point may hold other numbers: an opaque dtype does, and a layout need not keep the sign of zeros."""
        negative = any(v == 0 and isinstance(v, float) and math.copysign(1.0, v) < 0 for v in array.data)
        return self.opaque is not None or (self.layout != "strided" and negative)

    def beyond(self, result: Array) -> str | None:
        """Why a backend need not hold a result, if its author declares neither its dtype nor its number of axes."""
        if result.dtype not in self.dtypes and self.opaque is None:
            return f"the result is {result.dtype}, which the backend does not hold"
        held = self.ranked(result.ndim)
        return None if held else f"the result has {result.ndim} axes, which the backend does not hold"

    def ranked(self, ndim: int) -> bool:
        """Whether tensors here can have a number of axes."""
        low, high = self.said.ranks
        return low <= ndim and (high is None or ndim <= high)

    # How tensors are written ---------------------------------------------------------------------------------------------

    def written(self, array: Array) -> str:
        """An expression that makes a tensor of an array: on this backend, if the point holds its dtype."""
        here = self._here(array)
        if here and self.said.make:
            made = self._made(array, "")
            return self.said.make.replace("{x}", made).replace("{dtype}", self.label(array.dtype))
        words = [f'device="{self.device}"'] if self.device != "cpu" else []
        words += [f'layout="{self.layout}"'] if here and self.layout != "strided" else []
        return self._made(array, ", ".join(words), self._nothing if here else _NOTHING[0])

    def has_home(self) -> bool:
        """Whether anything provides ``cpu.strided``, beside which a backend may do without it."""
        try:
            plugins.require(intern(Device("cpu"), plugins.find_layout("strided"), dtypes.float32))
        except TripointError:
            return False
        return True

    def at_home(self, array: Array) -> str:
        """An expression that makes a tensor of an array on ``cpu.strided``."""
        return self._made(array, "")

    def _made(self, array: Array, where: str, nothing: str = _NOTHING[0]) -> str:
        if 0 in array.shape:  # nested lists do not tell the axes behind one of size 0
            return _zeros(nothing, array.dtype, array.shape, where)
        placed = f", {where}" if where else ""
        return f'tp.asarray({spelled(array.nested())}, dtype="{array.dtype}"{placed})'

    def blank(self, dtype: str, shape: tuple[int, ...]) -> str:
        """An expression that makes a tensor of zeros on this backend, with axes of size 1 in front where it has more."""
        shape = (*(1,) * (self.said.ranks[0] - len(shape)), *shape)
        if self.said.make:
            made = _zeros(_NOTHING[0], dtype, shape, "")
            return self.said.make.replace("{x}", made).replace("{dtype}", self.label(dtype))
        words = [f'device="{self.device}"'] if self.device != "cpu" else []
        words += [f'layout="{self.layout}"'] if self.layout != "strided" else []
        return _zeros(self._nothing, dtype, shape, ", ".join(words))

    def _emptied(self) -> str:
        """How a tensor without elements is made here: the first way that works."""
        import tripoint

        shape = (0,) * max(1, self.said.ranks[0])
        for way in _NOTHING:
            self._nothing = way
            try:
                eval(self.written(Array(self.dtypes[0], shape, [])), {"tp": tripoint})
            except Exception:  # a check says what is wrong
                continue
            return way
        return _NOTHING[0]

    def place(self, dtype: str) -> str:
        """The words that name this point in a call that makes a tensor."""
        words = [f'dtype="{self.label(dtype)}"', f'device="{self.device}"']
        return ", ".join(words + ([f'layout="{self.layout}"'] if self.layout != "strided" else []))


def preferred_kernels(target: Target, operators: set[str]) -> dict[str, list[str]]:
    """Operators that distributions have kernels for on a point of another, since the user prefers them; by distribution."""
    found: dict[str, list[str]] = {}
    for operator in sorted(operators & kernels.kernels.keys()):
        for kernel in kernels.kernels[operator]:
            origin, patterns = kernel.origin, kernel.args or (kernel.every,)
            if origin.distribution == target.point.origin.distribution or not kernels.preference(origin):
                continue
            if any(p is not None and p.matches(k) for p in patterns for k in target.keys):
                found.setdefault(origin.provider, []).append(operator)
    return {name: [*dict.fromkeys(listed)] for name, listed in found.items()}


def _zeros(way: str, dtype: str, shape: tuple[int, ...], where: str) -> str:
    made = way.format(shape=shape, dtype=dtype, placed=f", {where}" if where else "", where=where)
    return made if where else made.removesuffix(".to()")


def _made_axes(sample: Sample) -> int:
    """How many axes a call without operands makes."""
    shape, data = sample.meta.get("shape"), sample.meta.get("data")
    if shape is not None:
        return 1 if isinstance(shape, int) else len(shape)
    if "data" not in sample.meta:
        return 1
    return len(shape_of(data))


def _endless(sample: Sample) -> bool:
    """Whether an infinity is among the numbers of a call."""
    numbers = [v for a in sample.arrays() for v in a.data] + [
        v for v in sample.operands if isinstance(v, (float, complex))
    ]
    return any(map(_infinite, [*numbers, *flat([sample.meta.get(name, []) for name in ("data", "fill_value")])]))


def _infinite(number: Any) -> bool:
    return isinstance(number, (float, complex)) and math.isinf(abs(number))


def _is(dtype: str, name: str) -> bool:
    return dtype == name or (name in _CLASSES and dtypes.PLAIN[dtype] in _CLASSES[name])


def _entry(table: Any, operator: str, label: str, dtype: str, tags: set[str]) -> tuple[str, Any] | None:
    # An in-place form lacks what its operator lacks.
    for who in dict.fromkeys((operator, operator.removesuffix("_"), "*")):
        for what in (label, *sorted(tags)):
            if f"{who}.{what}" in table:
                return f"{who}.{what}", table[f"{who}.{what}"]
        for name in table:
            one, _, family = name.rpartition(".")
            if one == who and family in _CLASSES and label in dtypes.PLAIN and _is(dtype, family):
                return name, table[name]
        if who in table:
            return who, table[who]
    return None


def _check_said(name: str, said: Capabilities) -> None:
    for one in said.dtypes or ():
        if isinstance(one, str) and one not in _CLASSES and one not in dtypes.PLAIN and one not in dtypes.registered:
            raise ArgumentError(
                f"{name}: capabilities: dtypes names {one!r}, which is neither a dtype nor a class of dtypes"
            )
    if said.nonfinite not in (True, False, "nan"):
        raise ArgumentError(f"{name}: capabilities: nonfinite is True, False or 'nan', not {said.nonfinite!r}")
    low, high = said.ranks if isinstance(said.ranks, tuple) and len(said.ranks) == 2 else (-1, None)
    if not isinstance(low, int) or low < 0 or not (high is None or (isinstance(high, int) and low <= high)):
        raise ArgumentError(
            f"{name}: capabilities: ranks are the smallest and the largest number of axes, such as (0, 6) or (0, None), not "
            f"{said.ranks!r}"
        )


def check_words(said: Capabilities, operators: Any) -> None:
    """Whether every key of ``lacks`` and ``tolerance`` can mean something.

    Raises:
        DTypeError: a key that names no operator, dtype or kind of call.
    """
    kinds = {"broadcast", "scalar", "empty", "mixed", "view", "gradient", *(f"{n}-d" for n in range(9))}
    for name in (*(said.lacks or {}), *said.tolerance):
        who, what = name, ""
        if name != "*" and name not in operators:
            who, _, what = name.rpartition(".")
        known = what in kinds or what in _CLASSES or what in dtypes.PLAIN or what in dtypes.registered or not what
        if not known or (who != "*" and who not in operators):
            raise DTypeError(
                f"capabilities: {name!r} names no operator (or *), with a dtype, a class of dtypes or one of "
                f"{', '.join(sorted(kinds))} behind a dot"
            )
