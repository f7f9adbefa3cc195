"""Records of operators that others declare, ``mylib::op``, made from their rows: ``samples=``, ``reference=``, ``ulps=``.

What should come out is what the author's reference says, else what the operator is composed of gives on ``cpu.strided``, in
double precision where operands are floating. A primitive without a reference has neither: its elements are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tripoint import dtypes, errors, kernels, plugins
from tripoint.conformance.records.record import Bad, Record, Samples
from tripoint.conformance.records.record import Sample as Call
from tripoint.conformance.reference.values import ALL, COMPLEX, FLOATS, KIND, Array, nest
from tripoint.conformance.script import Script, flat, shape_of
from tripoint.errors import ArgumentError, DTypeError, PluginError
from tripoint.plugin import Sample
from tripoint.schema import Param, Row, rows

_TIERS = {"elementwise": 1, "select": 1, "reduction": 2, "structural": 2, "indexing": 2}
_WIDE = {**dict.fromkeys(FLOATS, "float64"), **dict.fromkeys(COMPLEX, "complex128")}
#: what only elements show, a device without elements cannot refuse.
_BEFORE = ("ArgumentError", "DTypeError", "ShapeError")


def load_names() -> None:
    """Load every name that plugins add to the namespace, so that the operators behind them are declared."""
    for name in plugins.names():
        try:
            plugins.find_name(name)
        except PluginError:  # kept with its plugin, which `tripoint plugins` shows
            continue


def record_of(row: Row) -> Record:
    """The record of an operator.

    Raises:
        ArgumentError: its samples do not fit its signature.
    """
    why = _unfit(row)
    listed = [] if why or row.samples is None else _listed(row, row.samples)
    if not listed:
        why = why or "no samples"
    good = [s for s in listed if s.error is None]
    values = row.composite or row.reference is not None
    without = (
        {"samples": why} if why else {} if values else {"values": "elements are not compared, there is no reference"}
    )
    if not row.composite and not kernels.derivatives.get(row.name):
        without["gradients"] = "no derivative is stated"
    differentiable = not why and (row.dtype is None or row.dtype.differentiable)
    samples = _samples(row, good)
    taken = [d for d in ALL if samples(d)]
    return Record(
        row.name,
        _reference(row) if values else _blank(row),
        samples,
        tier=_TIERS.get(row.kind, 3),
        dtypes=taken,
        ulps=row.ulps,
        errors=lambda: _errors(row, [s for s in listed if s.error is not None], taken),
        gradients=_samples(row, [s for s in good if s.gradient], smooth=True) if differentiable else None,
        kind="elementwise" if row.kind == "elementwise" else "" if row.aliases == "never" else "alias",
        without=without,
    )


def _unfit(row: Row) -> str:
    """Why samples cannot say what there is to check, or nothing."""
    if row.samples is None:
        return ""
    if row.target:
        return "samples cannot say at which point an operator with target= makes its result"
    if row.returns != "tensor" or row.mutates is not None:
        return "its result is no new tensor"
    if not row.composite and row.reference is None and row.shape is None:
        return "a primitive with neither a shape rule nor a reference"
    return ""


# Samples -------------------------------------------------------------------------------------------------------------


def _listed(row: Row, samples: Callable[[], Any]) -> list[Sample]:
    try:
        made = [Sample(*entry) for entry in samples()]
    except Exception as error:
        raise ArgumentError(
            f"{row.name}: samples= is a function that gives tuples of operands, metadata and perhaps an error, see "
            f"tripoint.plugin.Sample; it raised {type(error).__name__}: {error}"
        ) from error
    for sample in made:
        _check(row, sample)
    return made


def _check(row: Row, sample: Sample) -> None:
    least = sum(p.role != "optional" for p in row.operands)
    if not isinstance(sample.operands, tuple) or not least <= len(sample.operands) <= len(row.operands):
        raise ArgumentError(
            f"{row.name}: the operands of the sample {sample.operands!r} are not those of {row.signature()}"
        )
    if not isinstance(sample.meta, Mapping):
        raise ArgumentError(
            f"{row.name}: a sample is a tuple of operands, and its metadata a dict, not {sample.meta!r}"
        )
    unknown = set(sample.meta) - {p.name for p in row.metas}
    if unknown:
        raise ArgumentError(
            f"{row.name}: a sample has the metadata {', '.join(sorted(unknown))}; it is {row.signature()}"
        )
    if sample.error is not None and getattr(errors, getattr(sample.error, "__name__", ""), None) is not sample.error:
        raise ArgumentError(f"{row.name}: a sample must be refused by a class of tripoint.errors, not {sample.error!r}")
    _call(row, sample, "complex128")  # which holds every number


def _samples(row: Row, listed: list[Sample], smooth: bool = False) -> Samples:
    """The calls in a dtype: those whose numbers it holds and that the operator takes."""

    def samples(dtype: str) -> list[Call]:
        calls = [_call(row, s, dtype) for s in listed if _held(s, dtype)]
        if smooth:
            calls = [c for c in calls if "nonfinite" not in c.tags and any(_leaf(a) for a in c.arrays())]
        return [c for c in calls if _taken(row, c)]

    return samples


def _leaf(array: Array) -> bool:
    return array.role == "element" and array.dtype in FLOATS


def _errors(row: Row, listed: list[Sample], dtypes: list[str]) -> list[Bad]:
    """The calls that must be refused, each in one dtype that the operator takes otherwise."""
    out = []
    for sample in listed:
        usual = [d for d in ("float32", *dtypes, "complex64") if d in dtypes or d == "complex64"]
        dtype = next(d for d in usual if _held(sample, d))
        call, name = _call(row, sample, dtype), getattr(sample.error, "__name__", "")
        out.append(Bad(name, *call.operands, by_value=name not in _BEFORE, **call.meta))
    return out


def _call(row: Row, sample: Sample, dtype: str) -> Call:
    made = [_operand(row, p, v, dtype) for p, v in zip(row.operands, sample.operands, strict=False)]
    return Call(*made, **sample.meta)


def _operand(row: Row, param: Param, value: Any, dtype: str) -> Any:
    if value is None and param.role == "optional":
        return None
    if param.role == "variadic" and isinstance(value, list):
        return [_array(row, param, v, dtype) for v in value]
    if param.number and isinstance(value, (bool, int, float, complex)):
        return value
    return _array(row, param, value, dtype)


def _own(value: Any) -> str | None:
    """The dtype that a pair names."""
    return value[0] if isinstance(value, tuple) and len(value) == 2 and value[0] in ALL else None


def _array(row: Row, param: Param, value: Any, dtype: str) -> Array:
    own = _own(value)
    data = value[1] if own is not None else value
    shape, numbers = shape_of(data), flat(data)
    even = len(numbers) == math.prod(shape) and nest(shape, numbers) == data
    named = own or dtype
    if not even or not all(isinstance(v, (bool, int, float, complex)) for v in numbers) or not _fits(numbers, named):
        raise ArgumentError(
            f"{row.name}: in a sample {param.name} is {value!r}; it must be nested lists of numbers of even lengths, a "
            f"number, or a pair of a dtype's name and one of these, and {named} must hold the numbers"
        )
    role = "element" if own is None or own in _WIDE else "mask" if own == "bool" else "index"
    return Array(named, shape, numbers, role)


def _held(sample: Sample, dtype: str) -> bool:
    """Whether a dtype holds the numbers of a sample, fractions aside."""
    return all(_fits(flat(v), dtype) for v in _open(sample.operands))


def _open(operands: Iterable[Any]) -> list[Any]:
    """What takes the dtype that is checked: neither pairs nor ``None``."""
    out: list[Any] = []
    for value in operands:
        if isinstance(value, list) and any(_own(v) for v in value):
            out += [v for v in value if _own(v) is None]
        elif value is not None and _own(value) is None:
            out.append(value)
    return out


def _fits(numbers: list[Any], dtype: str) -> bool:
    if any(isinstance(v, complex) for v in numbers):
        return dtype in COMPLEX
    return dtype in _WIDE or all(math.isfinite(v) for v in numbers)


# Rules ---------------------------------------------------------------------------------------------------------------


def _taken(row: Row, call: Call) -> bool:
    """Whether the operator takes the dtypes of a call: by its rule, or for lack of one by trying its parts."""
    try:
        if row.dtype is None:
            _decomposed(row, call)
        else:
            said_dtype(row, call)
    except DTypeError:
        return False
    except Exception:
        return True  # what is wrong is for the checks to say
    return True


def said_dtype(row: Row, call: Call) -> str | None:
    """The dtype of the result by the operator's rule, or ``None`` without one.

    Raises:
        DTypeError: the rule does not take the operands.
    """
    if row.dtype is None:
        return None
    given: list[dtypes.DType | None] = []
    for value in (*call.operands, *[None] * (len(row.operands) - len(call.operands))):
        if isinstance(value, list):
            given += [dtypes.PLAIN[a.dtype] for a in value]
        elif isinstance(value, Array):
            given.append(dtypes.PLAIN[value.dtype])
        else:
            given.append(None if value is None else dtypes.WEAK[type(value)])
    keyed = {p.name: call.meta.get(p.name, p.default) for p in row.metas if p.name in row.keyed}
    return row.dtype(row.name, tuple(given), keyed)[1].name


def said_shape(row: Row, call: Call) -> tuple[int, ...] | None:
    """The shape of the result by the operator's rule, or ``None`` without one.

    Raises:
        TripointError: the rule refuses the operands.
    """
    if row.shape is None:
        return None
    shapes: list[Any] = []
    for value in (*call.operands, *[None] * (len(row.operands) - len(call.operands))):
        if isinstance(value, list):
            shapes.append(tuple([a.shape for a in value]))
        else:
            shapes.append(value.shape if isinstance(value, Array) else None if value is None else ())
    metas: tuple[Any, ...] = tuple([call.meta.get(p.name, p.default) for p in row.metas])
    if row.bind is not None and metas:
        metas = row.bind(tuple(shapes), *metas)
    return tuple(row.shape(tuple(shapes), **dict(zip([p.name for p in row.metas], metas, strict=True))))


# References ----------------------------------------------------------------------------------------------------------


def _blank(row: Row) -> Callable[..., Array]:
    """The right shape and dtype, and no elements to compare."""

    def reference(*operands: Any, **meta: Any) -> Array:
        call = Call(*operands, **meta)
        shape: Any = said_shape(row, call)  # a primitive without these rules has no samples that count
        dtype: Any = said_dtype(row, call)
        return Array(dtype, shape, [0] * math.prod(shape))

    return reference


def _reference(row: Row) -> Callable[..., Array]:
    def reference(*operands: Any, **meta: Any) -> Array:
        call = Call(*operands, **meta)
        if row.reference is not None:
            shape, data, dtype = _stated(row, row.reference, call)
        else:
            shape, data, dtype = _decomposed(row, call.replaced(lambda a: a.astype(_WIDE.get(a.dtype, a.dtype))))
        said = said_dtype(row, call) or _decomposed(row, call)[2]
        # Where the rule has another kind of dtype, another check says so.
        return Array(said if not dtype or KIND[said] == KIND[dtype] else dtype, shape, data)

    return reference


def _stated(row: Row, reference: Callable[..., Any], call: Call) -> tuple[tuple[int, ...], list[Any], str]:
    def plain(value: Any) -> Any:
        return [plain(v) for v in value] if isinstance(value, list) else getattr(value, "nested", lambda: value)()

    try:
        made = reference(*map(plain, call.operands), **call.meta)
    except Exception as error:
        raise ArgumentError(f"{row.name}: its reference raised {type(error).__name__}: {error}") from error
    data = made.tolist() if hasattr(made, "tolist") else made
    return shape_of(data), flat(data), ""


def _decomposed(row: Row, call: Call) -> tuple[tuple[int, ...], list[Any], str]:
    """What the parts of a composite give on ``cpu.strided``: shape, elements, dtype.

    Raises:
        DTypeError: they do not take the dtypes.
        ConformanceFailure: they raise another error.
    """
    first = next((a.dtype for a in call.arrays()), "")
    script = Script(row.name, first)
    words, _ = script.operands(row, call, _on_cpu)
    named = [f"{k}={v!r}" for k, v in call.meta.items()]
    script.add(f'out = operators()["{row.name}"].__wrapped__({", ".join([*words, *named])})')
    try:
        out = script.run()["out"]
    except DTypeError:
        raise
    except Exception as error:
        raise script.raised(error, "what it is composed of, on the CPU") from None
    return tuple(out.shape), flat(out.tolist()), str(out.dtype)


def _on_cpu(array: Array) -> str:
    if 0 in array.shape:
        return f'tp.zeros({array.shape}, dtype="{array.dtype}")'
    return f'tp.asarray({array.nested()!r}, dtype="{array.dtype}")'


def declared() -> dict[str, Row]:
    """The rows of operators that others declare, those that write into an operand left out."""
    return {name: row for name, row in rows.items() if "::" in name and row.mutates is None}
