"""Tiers 0 to 3: what operators compute, on which point, with which shape, and what they refuse."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from tripoint import errors, kernels
from tripoint.conformance.records import RECORDS, Bad, Record, Sample
from tripoint.conformance.records.declared import said_dtype, said_shape
from tripoint.conformance.reference import reductions as ref
from tripoint.conformance.reference.values import ALL, Array, broadcast_to, made
from tripoint.conformance.script import NO_KERNEL, NO_PROOF, Script, Unsupported, agree, missing, spelled
from tripoint.conformance.target import Target
from tripoint.dispatcher.calls import resolution
from tripoint.errors import NoKernelError, TripointError
from tripoint.keys import Key
from tripoint.plugin import Layer
from tripoint.schema import Row, rows
from tripoint.tensor import Tensor


def named(operator: str) -> str:
    """How a program names an operator: ``tp.add``, or by its entry in the table of operators."""
    import tripoint

    if operator == "from_data":  # which asarray calls where there is a kernel, and does without where there is none
        return "tp.asarray"
    there = vars(tripoint).get(operator)
    return f"tp.{operator}" if there is rows[operator].call else f'operators()["{operator}"]'


def written_call(operator: str, words: list[str], meta: dict[str, Any], place: str = "") -> str:
    """A call as it is written in a program."""
    named_words = [spelled(v) if name == "data" else f"{name}={spelled(v)}" for name, v in meta.items()]
    return f"{named(operator)}({', '.join([*words, *named_words, *([place] if place else [])])})"


def program(
    target: Target, operator: str, sample: Sample, dtype: str, *, form: str = "", kind: str = "", name: str = ""
) -> tuple[Script, list[tuple[str, Array]]]:
    """A program that makes the operands of a sample and calls the operator, and the names of its tensors.

    Args:
        form: how operands are views, see `as_view`.
        kind: of the record; ``create`` names the point in the call.
        name: under which it reports, if not under the operator's.
    """
    row = rows[operator]
    script = Script(name or operator, target.label(dtype))
    arrays = list(sample.arrays())
    words, tensors = script.operands(row, sample, lambda a: as_view(target, a, _own_form(form, a, arrays)))
    if kind == "export":
        script.add(f"out = {words[0]}.tolist()")
    else:
        own = sample.meta.get("dtype", dtype)
        meta = {k: v for k, v in sample.meta.items() if k != "dtype"} if kind == "create" else sample.meta
        script.add(f"out = {written_call(operator, words, meta, target.place(own) if kind == 'create' else '')}")
    return script, tensors


def _own_form(form: str, array: Array, arrays: list[Array]) -> str:
    if form == "mixed":  # one operand by rows, the others by columns
        return "" if array is arrays[0] else "turned"
    return "" if form == "repeated" and array is not arrays[-1] else form


def _repeated(sample: Sample) -> Sample:
    """A sample whose last operand repeats itself along an axis."""
    *_, last = sample.arrays()
    return sample.replaced(lambda a: broadcast_to(_narrow(a), a.shape) if a is last else a)


def _narrow(array: Array) -> Array:
    """The first element along the first axis that has several."""
    axis = next((i for i, size in enumerate(array.shape) if size > 1), None)
    shape = tuple(1 if i == axis else size for i, size in enumerate(array.shape))
    return made(array.dtype, shape, array.at)


def as_view(target: Target, array: Array, form: str) -> str:
    """An expression that makes a tensor; with a form, as a view of one that holds its elements in another order."""
    from tripoint.conformance.reference import manipulation as ref

    if not form or array.role != "element" or array.dtype not in target.dtypes or not array.shape or 0 in array.shape:
        return target.written(array)
    if form == "reversed":
        return f"tp.flip({target.written(ref.flip(array))})"
    if form == "turned":
        if array.ndim < 2:
            return target.written(array)
        return f"tp.matrix_transpose({target.written(ref.matrix_transpose(array))})"
    if form == "crossed":  # neither row-major nor column-major
        if array.ndim < 3:
            return target.written(array)
        axes = (1, 0, *range(2, array.ndim))
        return f"tp.permute_dims({target.written(ref.permute_dims(array, axes))}, {axes})"
    if form == "moved":  # behind a row that is not its own
        first = ref.getitem(ref.flip(array), slice(0, 1))
        return f"{target.written(ref.concat([first, array]))}[1:]"
    if form == "repeated":
        return f"tp.broadcast_to({target.written(_narrow(array))}, {array.shape})"
    doubled = ref.concat([ref.expand_dims(array, array.ndim)] * 2, array.ndim)
    wide = Array(array.dtype, (*array.shape[:-1], array.shape[-1] * 2), doubled.data)
    return f"{target.written(wide)}[..., ::2]"


def judge(
    target: Target,
    script: Script,
    error: BaseException,
    tags: set[str],
    dtype: str,
    want: str,
    result: Array | None = None,
) -> Exception:
    """What an error of a call that should have worked means: a lack that is declared or derived, or a failure.

    With ``result`` a result that the backend need not hold is a lack too.
    """
    name, inside = missing(error), True
    lack = target.lack(script.operator, dtype, tags)
    if isinstance(error, NoKernelError):
        # What kind of call it was is not why. The operator itself is, or one that it is made of, or one of the check's own.
        own = target.lack(script.operator, dtype, set(), made_of=False)
        inside = script.operator in (error.operator, *error.chain)
        if not inside or own is None or own[0] == "*":
            own = target.lack(error.operator, dtype, set(), made_of=False) or own
        lack = own or lack
    excused = isinstance(error, TripointError) and not isinstance(error, errors.PluginError)
    if lack is not None and excused and (lack[0] != "*" or name is not None):
        return Unsupported(lack[1], lack[0])
    beyond = target.beyond(result) if result is not None and excused else None
    beyond = beyond or (part_beyond(target, script) if excused and name is None else None)
    if beyond is not None:
        return Unsupported(beyond)
    if name is not None and target.said.lacks is None:
        if name == script.operator:
            return Unsupported(NO_KERNEL)
        made = "view" in tags and not inside
        return Unsupported(f"operands that are views, which need {name}" if made else f"no kernel for {name} here")
    return script.raised(error, want)


class _Refused(Layer, below="profile"):
    """Notes which of the calls that a program comes to was refused first, and the key that its result would have."""

    def __init__(self) -> None:
        self.operator = ""
        self.out: Key | None = None

    def handles(self, op: Row) -> bool:
        """Not what is made of others: the layer stays on for those."""
        return not op.composite

    def __call__(self, op: Row, call_next: Any, args: Any, meta: dict[str, Any]) -> Any:
        """The call."""
        try:
            return call_next(args, meta)
        except TripointError:
            if not self.operator:
                self.operator = op.name
                with contextlib.suppress(TripointError):
                    self.out = resolution(op, args, tuple(meta.values())).out
            raise


class _Warned(Layer, below="profile"):
    """Notes where the kernel comes from that warned first."""

    def __init__(self) -> None:
        self.origin = ""

    def handles(self, op: Row) -> bool:
        """Not what is made of others: the layer stays on for those."""
        return not op.composite

    def __call__(self, op: Row, call_next: Any, args: Any, meta: dict[str, Any]) -> Any:
        """The call."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", RuntimeWarning)
            out = call_next(args, meta)
        if not self.origin and any(issubclass(one.category, RuntimeWarning) for one in seen):
            res = resolution(op, args, tuple(meta.values()))
            ran = [k.origin for k in (res.kernel, *(k for k, _ in res.steps)) if k is not None]
            self.origin = " or ".join(dict.fromkeys(map(str, ran)))
        return out


def _warning(script: Script) -> str:
    """Where the kernel comes from of which a program has a warning."""
    with _Warned() as seen, contextlib.suppress(Exception):
        Script(script.operator, script.dtype).add(*script.lines).run()
    return seen.origin


def part_beyond(target: Target, script: Script) -> str | None:
    """Why a backend need not do what a program wants: the result of a call on the way has a dtype that it does not hold."""
    with _Refused() as seen, contextlib.suppress(Exception):
        Script(script.operator, script.dtype).add(*script.lines).run()
    out = seen.out
    if (
        out is None
        or str(out.device) != target.device
        or out.dtype.name in target.dtypes
        or target.beside(out.dtype.name)
    ):
        return None
    return f"needs {seen.operator} to give {out.dtype}, which the backend does not hold"


def check_sample(target: Target, record: Record, sample: Sample, dtype: str, form: str = "") -> str | None:
    """One call: its values, point, shape and class of payload, and that operands stay as they are.

    Gives the entry of the capabilities under which the call would have been excused, if there is one.

    Raises:
        ConformanceFailure: it does not do what the contract says.
        Unsupported: it was refused, as declared.
    """
    tags = sample.tags | ({"view"} if form else set())
    if form == "repeated":
        sample = _repeated(sample)
    want = expected(record, sample, dtype)
    if not target.holds(want) or (not target.said.subnormal and want.subnormal()):
        return NO_PROOF
    script, tensors = program(target, record.operator, sample, dtype, form=form, kind=record.kind)
    try:
        names = script.run()
    except Exception as error:
        raise judge(target, script, error, tags, dtype, f"{want.dtype} {want.shape}", want) from None
    if script.warned:
        raise script.warning(_warning(script))
    out = names["out"]
    if record.kind != "export":
        _check_point(target, rows[record.operator], script, out, want)
    if not target.said.elements:
        return None
    if record.operator not in ("empty", "empty_like") and "values" not in record.without:
        _check_elements(target, record, script, out, want, dtype, tags)
    for name, array in tensors:
        check_kept(target, script, name, array, tags)
    if (
        target.mutation
        and rows[record.operator].aliases == "never"
        and record.kind not in ("convert", "export", "alias")
    ):
        _check_alone(script, names, tensors)
    if not want.data:
        return NO_PROOF
    found = target.lack(record.operator, dtype, tags)
    return found[0] if found is not None else None


def check_carried(target: Target, record: Record, sample: Sample, dtype: str, way: str) -> str | None:
    """What is moved here from ``cpu.strided``, or from here to it, has the elements that it had.

    Args:
        way: ``there``, read by ``tolist`` where it is, or ``back``.

    Raises:
        ConformanceFailure: it has others, or a direction has no kernel and is not declared lacking.
        Unsupported: it was refused, as declared.
    """
    (x,) = sample.operands
    script = _moving(target, x, way)
    try:
        script.run()
    except Exception as error:
        verdict = judge(target, script, error, sample.tags, dtype, "the elements of x", x)
        if missing(error) == record.operator and not (isinstance(verdict, Unsupported) and verdict.entry):
            verb, other = ("from_", "back") if way == "there" else ("to", "there")
            if target.said.lacks is None and not _moves(_moving(target, x, other)):
                raise Unsupported("nothing moves tensors between this point and cpu.strided") from None
            said = f'a backend owns both directions, and this one has no kernel: write backend.{verb}("cpu.strided")'
            raise script.raised(error, "the elements of x", said) from None
        raise verdict from None
    have = script.read("out")
    zeros = record.exact_zero and dtype not in ("complex64", "complex128") and target.layout == "strided"
    if not close(target, record, script, have, x, dtype, sample.tags, zeros):
        said = "what is moved there has wrong elements" if way == "there" else "what comes back has wrong elements"
        raise script.failure(said, "out.tolist()", have, x.nested())
    found = target.lack(record.operator, dtype, sample.tags)
    return found[0] if found is not None else None


def _moving(target: Target, x: Array, way: str) -> Script:
    """A program that moves an array here from ``cpu.strided``, or from here to it."""
    made, words = target.written(x), 'device="cpu", layout="strided"'
    if way == "there":
        made, words = target.at_home(x), f'device="{target.device}", layout="{target.layout}"'
    return Script("to", target.label(x.dtype)).add(f"x = {made}", f"out = x.to({words})")


def _moves(script: Script) -> bool:
    try:
        script.run()
    except Exception as error:
        return not missing(error)
    return True


def repeatable(record: Record) -> bool:
    """Whether calls of an operator can be told apart by their results, which share no memory with operands."""
    made = "values" not in record.without and "empty" not in record.needs
    return made and record.kind not in ("view", "alias", "convert")


def check_again(target: Target, record: Record, sample: Sample, dtype: str) -> str | None:
    """Two calls, between which operands are written: the first result stays, the second is of what was written.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    script, tensors = program(target, record.operator, sample, dtype)
    own = [(name, array) for name, array in tensors if array.role == "element"]
    others = {id(a): Array(a.dtype, a.shape, [*a.data[1:], *a.data[:1]]) for _, a in (own[0], own[-1])}
    changed = sample.replaced(lambda a: others.get(id(a), a))
    call = script.lines.pop()
    script.add(call.replace("out = ", "first = ", 1))
    for name, array in dict((own[0], own[-1])).items():
        made = target.written(others[id(array)])
        script.add(f'operators()["assign_"]({name}, {made})' if target.writes() else f"{name} = {made}")
    script.add(call)
    wanted = {"first": expected(record, sample, dtype), "out": expected(record, changed, dtype)}
    try:
        script.run()
    except Exception as error:
        raise judge(target, script, error, sample.tags, dtype, "two results", wanted["out"]) from None
    for result, want in wanted.items():
        have = script.read(result)
        if not close(target, record, script, have, want, dtype, sample.tags):
            said = "another call changed a result" if result == "first" else "does not see what was written before"
            raise script.failure(said, f"{result}.tolist()", have, want.nested())
    return None


def check_kept(target: Target, script: Script, name: str, array: Array, tags: set[str]) -> None:
    """A call leaves an operand as it was before; where the backend holds other numbers than were asked for, as those.

    Raises:
        ConformanceFailure: it does not.
    """
    have = script.read(name)
    if agree(have, array.nested()):
        return
    was = script.before(name)
    if not agree(have, was, target.tolerance(script.operator, array.dtype, tags, 0.0)):
        raise script.failure(f"changed its operand {name}", f"{name}.tolist()", have, was)


def check_rules(target: Target, record: Record, sample: Sample, dtype: str) -> str | None:
    """What an operator of others is composed of gives the shape and the dtype that its rules say.

    Raises:
        ConformanceFailure: it does not.
    """
    row = rows[record.operator]
    script, _ = program(target, record.operator, sample, dtype)
    called = named(record.operator)
    script.lines[-1] = script.lines[-1].replace(f"{called}(", f"{called}.__wrapped__(", 1)
    try:
        out = script.run()["out"]
    except NoKernelError:
        return NO_PROOF  # the whole may have a kernel where its parts have none
    except Exception as error:
        raise script.raised(error, "what its rules take") from None
    shape, said = said_shape(row, sample), said_dtype(row, sample)
    if shape is not None and tuple(out.shape) != shape:
        raise script.failure("its shape rule says another shape than its parts give", "out.shape", out.shape, shape)
    if said is not None and not target.opaque and str(out.dtype) != said:
        raise script.failure(
            "its dtype rule says another dtype than its parts give", "str(out.dtype)", str(out.dtype), said
        )
    return NO_PROOF


def check_fed(target: Target, record: Record, sample: Sample, dtype: str) -> str | None:
    """The sum of what an operator gives: whatever a payload holds beside its elements must not count. Where the sum of
    these elements is wrong anyway, that is said of ``sum``.

    Raises:
        ConformanceFailure, Unsupported: as any check.
    """
    made = expected(record, sample, dtype)
    want = ref.sum(made)
    script, _ = program(target, record.operator, sample, dtype)
    script.add("fed = tp.sum(out)")
    try:
        script.run()
    except Exception as error:
        if not _sums(target, made, want):
            return NO_PROOF
        raise judge(target, script, error, sample.tags, dtype, "a sum", want) from None
    usual = max(record.tolerance(want.dtype), RECORDS["sum"].tolerance(want.dtype))
    tolerance = target.tolerance(record.operator, dtype, sample.tags, 8 * usual)
    if target.said.elements and not agree(script.read("fed"), want.nested(), tolerance) and _sums(target, made, want):
        raise script.failure("its result adds up to something else", "fed.tolist()", script.read("fed"), want.nested())
    return None


def _sums(target: Target, array: Array, want: Array) -> bool:
    """Whether the backend adds up an array that no operator made."""
    script = Script("sum", array.dtype).add(f"x = {target.written(array)}", "out = tp.sum(x)")
    try:
        script.run()
    except Exception:
        return False
    return agree(script.read("out"), want.nested(), 8 * RECORDS["sum"].tolerance(want.dtype))


def expected(record: Record, sample: Sample, dtype: str) -> Array:
    """What the reference gives."""
    if record.kind == "create":
        meta = {k: v for k, v in sample.meta.items() if k != "copy"}
        if record.operator == "empty":
            meta["shape"] = meta.pop("shape")
            from tripoint.conformance.reference.manipulation import filled

            return filled(0, meta["shape"], dtype)
        return record.reference(**{"dtype": dtype, **meta})
    if record.operator == "empty_like":
        return sample.operands[0]  # type: ignore[no-any-return]
    return record.reference(*sample.operands, **sample.meta)


def _check_point(target: Target, row: Row, script: Script, out: Any, want: Array) -> None:
    if not isinstance(out, Tensor):
        raise script.failure("gave no tensor", "type(out).__name__", type(out).__name__, "Tensor")
    key = out._key
    point = kernels.find_point(key)
    if point is not None and not isinstance(out._payload, point.payload):
        have = type(out._payload).__name__
        raise script.failure(f"the payload is a {have}", "type(out._payload).__name__", have, point.payload.__name__)
    if tuple(out.shape) != want.shape or type(out.shape) is not tuple:
        raise script.failure("wrong shape", "out.shape", out.shape, want.shape)
    allowed = (want.dtype, target.opaque) if target.opaque and want.dtype in target.dtypes else (want.dtype,)
    if key.dtype.name not in allowed:
        raise script.failure("wrong dtype", "str(out.dtype)", str(key.dtype), want.dtype)
    if str(key.device) != target.device:
        raise script.failure("wrong device", "str(out.device)", str(key.device), target.device)
    layouts = (target.layout, "strided")
    if key.layout.name not in layouts or (target.layout == "strided" and key.layout.name != "strided"):
        raise script.failure("wrong layout", "str(out.layout)", str(key.layout), target.layout)
    if point is not None and point.describe is not None:
        said = point.describe(out._payload).get("dtype")
        if said is not None and said is not key.dtype:
            raise script.failure(
                "the payload has another dtype than the tensor",
                "str(out.dtype), out._payload",
                str(said),
                str(key.dtype),
            )


def signed(script: Script, tensors: list[tuple[str, Array]]) -> bool:
    """Whether operands hold what they were made of, zeros with their signs."""
    return all(agree(script.read(name), array.nested(), zeros=True) for name, array in tensors)


def _check_elements(
    target: Target, record: Record, script: Script, out: Any, want: Array, dtype: str, tags: set[str]
) -> None:
    have = out if record.kind == "export" else script.read("out")
    zeros = record.exact_zero and want.dtype not in ("complex64", "complex128") and target.opaque is None
    zeros = zeros and target.layout == "strided"  # what a layout does not store has no sign
    if not close(target, record, script, have, want, dtype, tags, zeros):
        raise script.failure(
            "wrong elements", "out" if record.kind == "export" else "out.tolist()", have, want.nested()
        )


def close(
    target: Target,
    record: Record,
    script: Script,
    have: Any,
    want: Array,
    dtype: str,
    tags: set[str],
    zeros: bool = False,
) -> bool:
    """Whether elements are those wanted, within what the record allows, or the backend's author."""
    usual, least = record.tolerance(want.dtype), record.least(want.dtype)
    if want.dtype != dtype and dtype in ("float16", "bfloat16"):
        usual, least = max(usual, record.tolerance(dtype)), record.least(dtype)
    tolerance = target.tolerance(script.operator, dtype, tags, usual)
    return agree(have, want.nested(), tolerance, zeros, least if tolerance == usual else None)


def _check_alone(script: Script, names: dict[str, Any], tensors: list[tuple[str, Array]]) -> None:
    import tripoint

    for name, array in tensors:
        if (
            0 not in array.shape
            and names["out"] is not names[name]
            and tripoint.shares_memory(names["out"], names[name])
        ):
            raise script.failure(f"the result shares memory with {name}", f"tp.shares_memory(out, {name})", True, False)


def check_bad(target: Target, record: Record, bad: Bad) -> str:
    """One call that must be refused.

    Raises:
        ConformanceFailure: it was not, or by an error of another class, or it changed an operand.
        Unsupported: the operator is declared lacking.
    """
    sample = target.held(bad.sample)
    arrays = [a for a in sample.arrays() if a.role == "element"]
    dtype = arrays[0].dtype if arrays else sample.meta.get("dtype", target.dtypes[0])
    script, tensors = program(target, record.operator, sample, dtype, kind=record.kind)
    script.lines[:0] = _earlier(target, record, dtype)
    refused(target, script, bad.error, dtype, sample.tags)
    if not target.said.elements:
        return NO_PROOF
    call = script.lines[-1]
    for name, array in tensors:
        have = script.read(name)
        if not agree(have, array.nested()) and not agree(have, was := script.before(name)):
            tried = ["try:", f"    {call}", "except tp.errors.TripointError:", "    pass"]
            raise script.failure(f"changed {name} before it refused", f"{name}.tolist()", have, was, tried)
    return NO_PROOF


def _earlier(target: Target, record: Record, dtype: str) -> list[str]:
    """A call that works, as a line: at the first call of a kind the core looks more closely at what a kernel gave."""
    listed = record.samples(dtype) if dtype in record.dtypes and record.kind not in ("create", "export") else []
    sample = next(filter(target.takes, listed), None)
    if sample is None:
        return []

    def word(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(word, value))}]"
        return target.written(value) if isinstance(value, Array) else spelled(value)

    line = written_call(record.operator, [word(v) for v in sample.operands], sample.meta)
    try:
        Script(record.operator, dtype).add(line).run()
    except Exception:
        return []
    return [line]


def refused(target: Target, script: Script, error: str, dtype: str, tags: set[str]) -> str:
    """Run a program whose last line must be refused by this class of error. Gives `NO_PROOF`.

    Raises:
        ConformanceFailure: it is not.
        Unsupported: the operator is declared lacking.
    """
    try:
        script.run()
    except Exception as raised:
        if isinstance(raised, getattr(errors, error)):
            return NO_PROOF
        meant = judge(target, script, raised, tags, dtype, error)
        raise (meant if isinstance(meant, Unsupported) else script.refusal(raised, error)) from None
    raise script.refusal(None, error)


def relevant(target: Target, bad: Bad) -> bool:
    """Whether an error sample can be tried on a backend."""
    if bad.by_value and not target.said.elements:
        return False
    low, high = target.said.ranks
    arrays = [a for a in bad.sample.arrays() if a.role == "element"]
    if not all(target.beside(a.dtype) for a in bad.sample.arrays() if a.role != "element"):
        return False
    fits = all(low <= a.ndim and (high is None or a.ndim <= high) for a in arrays)
    used = {a.dtype for a in arrays} | {d for d in (bad.sample.meta.get("dtype"),) if d in ALL}
    return fits and used <= set(target.dtypes)
