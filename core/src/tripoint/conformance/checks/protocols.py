"""Tier 5: copying, pickling, printing, export and threads."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from tripoint.conformance.checks.values import judge, program
from tripoint.conformance.records import Record, Sample
from tripoint.conformance.records.record import numbers
from tripoint.conformance.reference.values import Array
from tripoint.conformance.script import Script, Unsupported, agree
from tripoint.conformance.target import Target
from tripoint.errors import NotBuiltYetError, TripointError
from tripoint.tensor import Tensor


def _array(target: Target, dtype: str) -> Array:
    low, _ = target.said.ranks
    return target.stored(numbers(dtype, *((2,) * max(2, low)), seed=100))


def _try(target: Target, script: Script, dtype: str, want: str) -> dict[str, Any]:
    try:
        return script.run()
    except NotBuiltYetError as error:
        raise Unsupported(f"not in this version of Tripoint: {error}") from None
    except Exception as error:
        if isinstance(error, TripointError) and not target.said.elements:
            raise Unsupported("tensors here hold no elements") from None
        raise judge(target, script, error, set(), dtype, want) from None


def _same_point(script: Script, names: dict[str, Any], array: Array, target: Target) -> None:
    x, out = names["x"], names["out"]
    if out._key.base is not x._key.base:
        raise script.failure("came out on another point", "out._key.base", out._key.base.name, x._key.base.name)
    if target.said.elements and not agree(out.tolist(), array.nested()):
        raise script.failure("wrong elements", "out.tolist()", script.read("out"), array.nested())


def copied(target: Target, dtype: str) -> None:
    """``copy.copy`` and ``copy.deepcopy`` give tensors of their own memory on the same point."""
    array = _array(target, dtype)
    for way in ("copy", "deepcopy"):
        script = Script("copy.copy", target.label(dtype)).add(
            "import copy", f"x = {target.written(array)}", f"out = copy.{way}(x)"
        )
        names = _try(target, script, dtype, "a copy")
        if target.opaque and str(names["out"].dtype) == dtype:
            raise Unsupported(f"a copy is {dtype}: copy has no kernel for {target.opaque} here")
        _same_point(script, names, array, target)
        if target.mutation and names["x"]._payload is names["out"]._payload:
            raise script.failure("the copy has the payload of the original", "out._payload is x._payload", True, False)


def pickled(target: Target, dtype: str) -> None:
    """A tensor comes out of a pickle on its point, with its values and its wish for gradients."""
    array = _array(target, dtype)
    script = Script("pickle", target.label(dtype)).add(
        "import pickle", f"x = {target.written(array)}", "out = pickle.loads(pickle.dumps(x))"
    )
    _same_point(script, _try(target, script, dtype, "an equal tensor"), array, target)


def printed(target: Target, dtype: str) -> None:
    """Every tensor prints, views, zero sizes and one without axes included, and says its dtype and where it is."""
    low, high = target.said.ranks
    shapes = [s for s in ((2, 3), (), (0, 3), (1, 5, 2, 2)) if low <= len(s) and (high is None or len(s) <= high)]
    for shape in shapes:
        script = Script("print", target.label(dtype)).add(
            f"x = {target.written(numbers(dtype, *shape, seed=101))}", "out = repr(x)"
        )
        text = str(_try(target, script, dtype, "text")["out"])
        if "unreadable: " in text:  # what printing says in place of raising
            lack = target.lack("to_text", dtype, set())
            if lack is not None and lack[0] != "*":
                raise Unsupported(lack[1], lack[0])
            raise script.failure("its elements cannot be printed", "out", text, "the elements")
        for word in (target.label(dtype), target.device if target.device != "cpu" else "", target.layout):
            if word not in text and word != "strided":
                raise script.failure(f"the text does not say {word}", "out", text, word)
    if target.said.elements and low == 0 and not target.opaque and dtype in ("float32", "int64"):
        array = Array(dtype, (2,), [3, -7])
        script = Script("print", target.label(dtype)).add(f"x = {target.written(array)}", "out = repr(x)")
        text = str(_try(target, script, dtype, "text")["out"])
        if (
            not {"3", "-7"} <= {n.rstrip(".0") or "0" for n in re.findall(r"-?\d+\.?\d*", text)}
            and "shape=" not in text
        ):
            raise script.failure("the text does not show the elements", "out", text, "3 and -7")


def exported(target: Target, dtype: str) -> None:
    """``numpy()`` gives the elements; where memory is not the host's, ``.to("cpu")`` comes first, and the error says so."""
    if dtype == "bfloat16":
        raise Unsupported("NumPy itself has no bfloat16")
    array = _array(target, dtype)
    script = Script("numpy", target.label(dtype)).add(f"x = {target.written(array)}", "out = x.numpy().tolist()")
    try:
        names = script.run()
    except TripointError as error:
        lack = target.lack("to_numpy", dtype, set())
        if lack is None and target.said.elements and target.device != "cpu" and "to('cpu')" in str(error):
            script.lines[-1] = 'out = x.to("cpu", layout="strided").numpy().tolist()'
            names = _try(target, script, dtype, "an array")
        elif lack is not None or target.said.lacks is None:
            entry, why = lack or ("", (str(error).splitlines() or [""])[0])
            raise Unsupported(f"not exported to NumPy: {why}", entry) from None
        else:
            raise script.raised(error, "an array, or an entry to_numpy of lacks") from None
    except Exception as error:
        raise script.raised(error, "an array, or an error of tripoint.errors") from None
    if not agree(names["out"], array.nested()):
        raise script.failure("wrong elements", "out", names["out"], array.nested())


def exchanged(target: Target, dtype: str) -> None:
    """DLPack, once tensors have it."""
    if not hasattr(Tensor, "__dlpack__"):
        raise Unsupported("not in this version of Tripoint: tensors have no __dlpack__")
    script = Script("dlpack", target.label(dtype)).add(
        f"x = {target.written(_array(target, dtype))}", "out = x.__dlpack_device__()"
    )
    names = _try(target, script, dtype, "a device")
    if len(names["out"]) != 2:
        raise script.failure("no pair of ints", "out", names["out"], "(type, index)")


def saved(target: Target, dtype: str) -> None:
    """Saving to a file, once Tripoint does it."""
    import tripoint

    if not hasattr(tripoint, "save"):
        raise Unsupported("not in this version of Tripoint: tripoint.save")
    script = Script("save", target.label(dtype)).add(
        "import tempfile",
        f"x = {target.written(_array(target, dtype))}",
        "with tempfile.TemporaryDirectory() as folder:",
        "    tp.save(f'{folder}/x', x)",
        "    out = tp.load(f'{folder}/x')",
    )
    _same_point(script, _try(target, script, dtype, "an equal tensor"), _array(target, dtype), target)


def threads(target: Target, dtype: str) -> None:
    """Eight threads that compute on tensors of their own and on a shared one get what one thread gets."""
    array = _array(target, dtype)
    script = Script("threads", target.label(dtype)).add(
        "from concurrent.futures import ThreadPoolExecutor",
        f"shared = {target.written(array)}",
        "def work(i):",
        f"    x = {target.written(array)}",
        '    return all(operators()["copy"](x).tolist() == operators()["copy"](shared).tolist() for _ in range(20))',
        "with ThreadPoolExecutor(8) as pool:",
        "    out = list(pool.map(work, range(16)))",
    )
    names = _try(target, script, dtype, "equal values in every thread")
    if names["out"] != [True] * 16:
        raise script.failure("threads disagree", "out", names["out"], [True] * 16)


def check_threads(target: Target, record: Record, sample: Sample, dtype: str) -> None:
    """An operator that four threads call, each with operands of its own, gives each of them what it gives to one alone.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    made, tensors = program(target, record.operator, sample, dtype)
    names = ", ".join(name for name, _ in tensors)
    operands = ", ".join(f"({''.join(target.written(_turned(a, i)) + ', ' for _, a in tensors)})" for i in range(4))
    script = Script(record.operator, target.label(dtype)).add(
        "import sys; from concurrent.futures import ThreadPoolExecutor",
        f"operands = [{operands}]",
        f"def call({names}): return {made.lines[-1].removeprefix('out = ')}.tolist()",
        "alone = [call(*given) for given in operands]",
        "sys.setswitchinterval(1e-6)",
        "with ThreadPoolExecutor(4) as pool:",
        "    out = list(pool.map(lambda i: call(*operands[i % 4]), range(40)))",
    )
    usual = sys.getswitchinterval()
    try:
        found = script.run()
    except Exception as error:
        result = record.reference(*sample.operands, **sample.meta)
        raise judge(target, script, error, sample.tags, dtype, "equal values in every thread", result) from None
    finally:
        sys.setswitchinterval(usual)
    if not agree(found["out"], found["alone"] * 10):
        raise script.failure("threads disturb each other", "out", found["out"], found["alone"] * 10)


def _turned(array: Array, by: int) -> Array:
    """The elements moved on, so that each thread has its own; positions stay where they are allowed."""
    if array.role != "element":
        return array
    return Array(array.dtype, array.shape, [*array.data[by:], *array.data[:by]], array.role)


def streamed(target: Target, dtype: str) -> None:
    """What is asked for in a stream is complete when it is read there at once, and when it is read after the stream."""
    array = _array(target, dtype)
    script = Script("streams", target.label(dtype)).add(
        f"x = {target.written(array)}",
        f"with tp.stream(tp.Stream({target.device!r})):",
        '    out = operators()["copy"](x)',
        "    inside = out.tolist()",
        f"tp.synchronize({target.device!r})",
    )
    names = _try(target, script, dtype, "the elements")
    if not agree(names["inside"], array.nested()):
        raise script.failure("read before it was complete", "inside", names["inside"], array.nested())
    if not agree(script.read("out"), array.nested()):
        raise script.failure("wrong elements after the stream", "out.tolist()", script.read("out"), array.nested())


PROTOCOLS: dict[str, Callable[[Target, str], None]] = {
    "copy.copy": copied,
    "pickle": pickled,
    "print": printed,
    "numpy": exported,
    "dlpack": exchanged,
    "save": saved,
    "threads": threads,
    "streams": streamed,
}
