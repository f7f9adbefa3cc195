"""The backend that is checked: its point, what its author declares, and how a tensor on it is written."""

from __future__ import annotations

from typing import Any

from tripoint import dtypes, plugins
from tripoint.conformance.records import RECORDS, Sample
from tripoint.conformance.reference.values import ALL, Array
from tripoint.conformance.script import flat
from tripoint.errors import ArgumentError, DTypeError, TripointError
from tripoint.keys import intern
from tripoint.plugin import Capabilities

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
        self.device, self.layout = str(device), layout.name
        self.opaque = dtype.name if dtype is not None and not dtype.is_plain else None
        self.point = plugins.require(intern(device, layout, dtype or dtypes.float32))
        self.said: Capabilities = self.point.capabilities or Capabilities()
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
                "Backend(capabilities=Capabilities(dtypes=..., ranks=...))"
            )
        self._beside: dict[str, bool] = {}
        self._nothing = _NOTHING[0]
        self._nothing = self._emptied()
        frozen = self.point.frozen
        self.views = self.said.views if self.said.views is not None else layout.views and not frozen
        self.mutation = self.said.mutation if self.said.mutation is not None else not frozen
        self.key = intern(device, layout, dtype) if dtype is not None else None

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
        except TripointError:
            return False
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
        if not self.said.nonfinite and "nonfinite" in sample.tags:
            return False
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
            else:
                known = True
            self._beside[dtype] = known
        return known

    def absent(self) -> list[str]:
        """Dtypes that a sample needed beside the point's and that the device does not hold."""
        return sorted(dtype for dtype, there in self._beside.items() if not there)

    def held(self, sample: Sample) -> Sample:
        """A sample as this point holds it: an opaque dtype has fewer numbers than the one that its values are read as."""
        return sample.replaced(self.stored)

    def stored(self, array: Array) -> Array:
        """An array as it is read back from this point."""
        import tripoint

        if self.opaque is None or not self.said.elements or not self._here(array):
            return array
        try:
            made = eval(self.written(array), {"tp": tripoint}).tolist()
        except Exception:
            return array  # a check says what is wrong
        return Array(array.dtype, array.shape, flat(made), array.role)

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

    def _made(self, array: Array, where: str, nothing: str = _NOTHING[0]) -> str:
        placed = f", {where}" if where else ""
        if 0 not in array.shape:
            return f'tp.asarray({array.nested()!r}, dtype="{array.dtype}"{placed})'
        # Nested lists do not tell the axes behind one of size 0.
        made = nothing.format(shape=array.shape, dtype=array.dtype, placed=placed, where=where)
        return made if where else made.removesuffix(".to()")

    def _emptied(self) -> str:
        """How a tensor without elements is made here: the first way that works."""
        import tripoint

        shape = (0,) * max(1, self.said.ranks[0])
        for way in _NOTHING:
            self._nothing = way
            try:
                eval(self.written(Array(self.dtypes[0], shape, [])), {"tp": tripoint})
            except TripointError:
                continue
            return way
        return _NOTHING[0]

    def place(self, dtype: str) -> str:
        """The words that name this point in a call that makes a tensor."""
        words = [f'dtype="{self.label(dtype)}"', f'device="{self.device}"']
        return ", ".join(words + ([f'layout="{self.layout}"'] if self.layout != "strided" else []))


def _made_axes(sample: Sample) -> int:
    """How many axes a call without operands makes."""
    shape, data = sample.meta.get("shape"), sample.meta.get("data")
    if shape is not None:
        return 1 if isinstance(shape, int) else len(shape)
    if "data" not in sample.meta:
        return 1
    count = 0
    while isinstance(data, list):
        data, count = data[0] if data else None, count + 1
    return count


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
