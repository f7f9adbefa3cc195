"""Memory: what a payload holds outlives what it was made of, what is described of it is so, and streams do not race."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from tripoint import kernels
from tripoint.conformance.checks.values import close, expected, judge, program
from tripoint.conformance.records import Record, Sample
from tripoint.conformance.records.record import numbers
from tripoint.conformance.reference.values import SIZE, Array
from tripoint.conformance.script import NO_PROOF, Script, Unsupported, agree
from tripoint.conformance.target import Target
from tripoint.errors import TripointError
from tripoint.plugin import operators
from tripoint.schema import rows

# What outlives what -----------------------------------------------------------------------------------------------------


def check_lasting(target: Target, record: Record, sample: Sample, dtype: str) -> str:
    """A result stays what it is when its operands are gone and other tensors are made where they were.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    want = expected(record, sample, dtype)
    script, tensors = program(target, record.operator, sample, dtype)
    if rows[record.operator].aliases != "never":
        script.lines[-1] += ".detach()"  # a view holds its base; this one does not
    made = {(a.dtype, a.shape): a for _, a in [*tensors, ("out", want)] if a.role == "element" and a.data}
    script.add(f"del {', '.join(name for name, _ in tensors)}", _others(target, list(made.values())))
    try:
        script.run()
    except Exception as error:
        raise judge(target, script, error, sample.tags, dtype, f"{want.dtype} {want.shape}", want) from None
    have = script.read("out")
    if not close(target, record, script, have, want, dtype, sample.tags):
        said = "its memory is used for other tensors when its operands are gone"
        raise script.failure(said, "out.tolist()", have, want.nested())
    return NO_PROOF


def _others(target: Target, arrays: list[Array], count: int = 4) -> str:
    """A line that makes tensors as large as these, of other elements."""
    made = ", ".join(target.written(_other(a)) for a in arrays if a.dtype in target.dtypes)
    return f"others = [({made},) for _ in range({count})]" if made else "others = []"


def _other(array: Array) -> Array:
    number = not array.data[0] if array.dtype == "bool" else next(n for n in (7, 1) if n != array.data[0])
    return Array(array.dtype, array.shape, [number] * len(array.data), array.role)


#: how a tensor is kept by another name, and what that has of its rows; the name of what it needs.
_KEPT = (
    "x.detach()",
    'x.to("cpu", layout="strided")',
    "x.numpy()",
    "x[..., 1:].detach()[..., 1:].detach()",
)


def lasting(target: Target) -> Iterator[tuple[str, str]]:
    """Dtypes and ways of keeping a tensor that are checked."""
    dtype = "float32" if "float32" in target.dtypes else target.dtypes[0]
    if target.said.elements and target.ranked(max(1, target.said.ranks[0])):
        for way in _KEPT:
            if "numpy" not in way or target.device == "cpu":
                yield dtype, way


def check_kept_alive(target: Target, dtype: str, way: str) -> None:
    """What was taken of a tensor stays what it is when the tensor is gone and others are made where it was.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    ndim = max(1, target.said.ranks[0])
    x = target.stored(numbers(dtype, *(1,) * (ndim - 1), 5, seed=102, kind="distinct"))
    want = Array(dtype, (*x.shape[:-1], 3), x.data[2:]) if "[" in way else x
    script = Script("lifetimes", target.label(dtype)).add(
        "import gc", f"x = {target.written(x)}", f"out = {way}", "del x", "gc.collect()", _others(target, [x])
    )
    try:
        script.run()
    except Exception as error:
        if isinstance(error, TripointError) and "numpy" in way:
            raise Unsupported(f"not exported to NumPy: {(str(error).splitlines() or [''])[0]}") from None
        raise judge(target, script, error, set(), dtype, "the elements of x") from None
    have = script.read("out")
    if not agree(have, want.nested()):
        at_once = Script("lifetimes", target.label(dtype)).add(*script.lines[1:3])
        at_once.run()
        early = at_once.read("out")
        if not agree(early, want.nested()):
            raise at_once.failure(f"{way} has wrong elements", "out.tolist()", early, want.nested())
        said = f"the memory of {way} is used for other tensors when x is gone"
        raise script.failure(said, "out.tolist()", have, want.nested())


# What is described ------------------------------------------------------------------------------------------------------

#: views of a tensor whose last axes have sizes 3 and 4: the strides of these axes and the offset, by those of the tensor.
_VIEWS: dict[str, Callable[[int, int], tuple[int, int, int]]] = {
    "x[..., 1:, ::2]": lambda a, b: (a, 2 * b, a),
    "x[..., ::-1, 1:]": lambda a, b: (-a, b, 2 * a + b),
    "tp.matrix_transpose(x)": lambda a, b: (b, a, 0),
}


def check_described(target: Target, dtype: str) -> str | None:
    """What ``describe`` says of a tensor and of its views: strides and offset in elements, one storage, the device.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    low, high = target.said.ranks
    if high is not None and high < 2:
        return NO_PROOF
    x = Array(dtype, (*(1,) * (low - 2), 3, 4), range(12) if dtype != "bool" else [True] * 12)
    made = Script("memory", target.label(dtype)).add("from tripoint import kernels", f"x = {target.written(x)}")
    try:
        made.run()
    except Exception as error:
        raise judge(target, made, error, set(), dtype, "a tensor") from None
    said = _said(made, "x")
    _check_bytes(target, made, said, dtype)
    if made.names["x"].device.indexed and said.get("device") is None:
        raise Unsupported("describe gives no device, so that nobody sees which index a result is on")
    if said.get("strides") is None:
        return NO_PROOF
    for view, wanted in _VIEWS.items() if target.views else ():
        script = Script("memory", target.label(dtype)).add(*made.lines, f"out = {view}")
        try:
            script.run()
        except TripointError:
            continue  # other checks are about that
        if not _shares(script.names):
            continue
        said, have = _said(script, "x"), _said(script, "out")
        *outer, a, b = said["strides"]
        first, second, offset = wanted(a, b)
        _compare(script, have, "strides", (*outer, first, second))
        if said.get("offset") is not None:
            _compare(script, have, "offset", said["offset"] + offset)
        stored = [(said.get("address"), said.get("nbytes")), (have.get("address"), have.get("nbytes"))]
        if None not in stored[0] and stored[0] != stored[1]:
            shown = "(out.storage().address, out.storage().nbytes) == (x.storage().address, x.storage().nbytes)"
            raise script.failure("a view does not tell the storage of its base", shown, False, True)
    return None


def _said(script: Script, name: str) -> dict[str, Any]:
    """What is described of a tensor that a program made, compared with the tensor itself."""
    x = script.names[name]
    point = kernels.find_point(x._key)
    said = point.describe(x._payload) if point is not None and point.describe is not None else {}
    for entry, want in (("dtype", x.dtype), ("device", x.device)):
        if said.get(entry) is not None and said[entry] != want:
            _compare(script, said, entry, want, name)
    return said


def _compare(script: Script, said: dict[str, Any], entry: str, want: Any, name: str = "out") -> None:
    have = tuple(said[entry]) if isinstance(said.get(entry), list) else said.get(entry)
    if have != want:
        shown = f'kernels.find_point({name}._key).describe({name}._payload)["{entry}"]'
        if entry in ("dtype", "device"):
            shown, have, want = f"str({shown})", str(have), str(want)
        raise script.failure(f"describe gives a wrong {entry}", shown, have, want)


def _check_bytes(target: Target, script: Script, said: dict[str, Any], dtype: str) -> None:
    """Sizes are in bytes, strides are not."""
    if target.opaque:
        return
    size = SIZE[dtype] // 8
    if said.get("itemsize") is not None:
        _compare(script, said, "itemsize", size, "x")
    steps = [abs(s) for s in said.get("strides") or () if s]
    if size > 1 and steps and all(s % size == 0 for s in steps) and min(steps) == size:
        raise script.failure("strides are in bytes, not in elements", "x.strides", tuple(said["strides"]), "elements")


def _shares(names: dict[str, Any]) -> bool:
    import tripoint

    return tripoint.shares_memory(names["out"], names["x"])


# Streams ----------------------------------------------------------------------------------------------------------------

#: programs in which a stream is busy when it is asked for something: what is wrong if they fail, what is asked of the
#: stream, what follows elsewhere, and whether ``x`` or ``y`` comes out.
_RACES = (
    (
        "an operand that died was overwritten while a stream was to read it",
        "out = copy(x)",
        "del x; others = {many}",
        "x",
    ),
    ("a result was used before its stream had written it", "late = copy(x)", "out = copy(late)", "x"),
    (
        "memory was given away while a stream was to write it",
        "late = copy(x)",
        "del late; out = {y}; s.synchronize()",
        "y",
    ),
    ("an operand was written while a stream was to read it", "out = copy(x)", "assign(x, {y})", "x"),
    ("the host's memory was read after to() had returned", "out = host.to({device!r})", "assign(host, {host})", "x"),
)
_REPEATS = 2
#: how long a stream is kept busy, in seconds: much longer than the calls take that race with it.
_BUSY = 0.03
#: work for that, the smallest that will do: products take long and little memory.
_WORK: dict[str, list[tuple[int, ...]]] = {
    "for _ in range(20): busy = busy @ busy": [(n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096)],
    "for _ in range(20): busy = copy(busy)": [(1 << n,) for n in (10, 13, 15, 17, 19, 21)],
}

Race = tuple[str, str, str, str]


def races(target: Target) -> Iterator[tuple[str, Race]]:
    """Dtypes and programs that are checked: none where calls are done when they return."""
    dtype = next((d for d in ("float32", "int32") if d in target.dtypes), target.dtypes[0])
    if target.point.streams is not None and target.said.elements and not target.opaque:
        for race in _RACES:
            if target.mutation or "assign(x" not in race[2]:
                yield dtype, race


def check_race(target: Target, dtype: str, race: Race) -> None:
    """What is asked of a stream that is busy comes out as if it had been done at once.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    what, asked, then, which = race
    shape = (*(1,) * (target.said.ranks[0] - 1), 6)
    x = target.stored(numbers(dtype, *shape, seed=103, kind="distinct"))
    y = Array(dtype, shape, [*reversed(x.data)])
    if target.delay is None:
        target.delay = _delay(target, dtype)
    busy, work = target.delay
    made, host = target.written(y), 'tp.asarray({}, dtype="{}")'
    words = {"y": made, "many": f"[{made} for _ in range(4)]", "device": target.device}
    words["host"] = host.format(y.nested(), dtype)
    script = Script("streams", target.label(dtype)).add(
        f'copy, assign, s = operators()["copy"], operators()["assign_"], tp.Stream({target.device!r})',
        f"x, busy = {target.written(x)}, {busy}",
        *([f"host = {host.format(x.nested(), dtype)}"] if "host" in asked else []),
        f"tp.synchronize({target.device!r})",
        "with tp.stream(s):",
        f"    {work}",
        f"    {asked.format(**words)}",
        then.format(**words),
    )
    want = (x if which == "x" else y).nested()
    for _ in range(_REPEATS):
        try:
            script.run()
        except Exception as error:
            raise judge(target, script, error, set(), dtype, "the elements") from None
        have = script.read("out")
        if not agree(have, want):
            raise script.failure(what, "out.tolist()", have, want)


def _delay(target: Target, dtype: str) -> tuple[str, str]:
    """An expression of a tensor, and a line, that keep a stream busy after the calls have returned."""
    import tripoint

    stream = tripoint.Stream(target.device)
    names: dict[str, Any] = {"tp": tripoint, "copy": operators()["copy"]}
    best: tuple[float, str, str] = (-1.0, "None", "pass")
    for line, shapes in _WORK.items():
        for shape in shapes:
            made = target.blank(dtype, shape)
            try:
                left, taken = _left(
                    target, stream, compile(line, "<conformance>", "exec"), {**names, "busy": eval(made, names)}
                )
            except TripointError:  # such as no kernel, or no memory for that
                break
            best = max(best, (left, made, line))
            if left > _BUSY:
                return best[1:]
            if taken > 10 * _BUSY:
                break
    return best[1:]


def _left(target: Target, stream: Any, work: Any, names: dict[str, Any]) -> tuple[float, float]:
    """How long a stream goes on after it was asked for work, and how long that took."""
    import tripoint

    left = []
    for _ in range(2):  # the least counts: what others do to the machine must not
        tripoint.synchronize(target.device)
        begun = perf_counter()
        with tripoint.stream(stream):
            exec(work, names)
        asked = perf_counter()
        stream.synchronize()
        left.append(perf_counter() - asked)
        if asked - begun > 10 * _BUSY:
            break
    return min(left), asked - begun
