"""Checks are short programs: what the kit runs is what it prints for pasting when it fails."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tripoint.conformance.reference.values import Array
from tripoint.errors import NoKernelError, TripointError
from tripoint.schema import Row, rows

if TYPE_CHECKING:
    from tripoint.conformance.records import Sample

_OPERATORS = "from tripoint.plugin import operators"
_NUMBERS = 'nan, inf = float("nan"), float("inf")'


#: lists with more elements are not printed whole where less will do.
_LONG = 64


def printable(text: str) -> str:
    """Text in which what neither XML nor a terminal nor Python source can hold is written as an escape."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text])


def shortened(text: str, most: int = 160) -> str:
    """Text with its end cut off where it is long."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def spelled(value: Any) -> str:
    """Nested lists of numbers as an expression that gives them, which ``repr`` of a complex NaN is not; what repeats itself is
    written once.
    """
    if isinstance(value, list) and len(value) > _LONG:
        words = [spelled(v) for v in value]
        turn = next((n for n in range(1, _LONG) if all(w == words[i % n] for i, w in enumerate(words))), None)
        if turn is not None:
            count, rest = divmod(len(words), turn)
            once = f"[{', '.join(words[:turn])}] * {count}"
            return f"({once} + [{', '.join(words[:rest])}])" if rest else once
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(spelled, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, complex) and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


class ConformanceFailure(TripointError):
    """A backend does not do what the contract says.

    Attributes:
        operator, dtype: what was checked.
        what: one line.
        got, want: what came out and what should have, if the check compares two things.
        reproducer: a program of at most 12 lines that shows it.
    """

    def __init__(
        self, operator: str, dtype: str, what: str, reproducer: str, got: object = None, want: object = None
    ) -> None:
        super().__init__(operator, dtype, what)
        self.operator = operator
        self.dtype = dtype
        self.what = printable(what)
        self.reproducer = printable(reproducer)
        self.got = got
        self.want = want

    @classmethod
    def of(cls, operator: str, what: str) -> ConformanceFailure:
        """Several failures of an operator as one, already written out."""
        return cls(operator, "", what, "")

    @property
    def compared(self) -> tuple[str, str] | None:
        """What came out and what should have, in a few words, or ``None``."""
        if self.got is None and self.want is None:
            return None
        return shortened(repr(self.got)), shortened(repr(self.want))

    def line(self) -> str:
        """What is wrong in one line, with what came out and what should have where elements are."""
        if self.compared is None or not isinstance(self.got, (list, int, float, complex)):
            return self.what
        return f"{self.what}: got {shortened(repr(self.got), 60)}, want {shortened(repr(self.want), 60)}"

    def __str__(self) -> str:
        return self.text((self.dtype,))

    def text(self, dtypes: Sequence[str]) -> str:
        """The failure with its reproducer, said of every dtype that has it."""
        if not self.dtype:
            return self.what
        compared = "".join(f"\n  {k:4} {v}" for k, v in zip(("got", "want"), self.compared or (), strict=False))
        return f"{self.operator} [{', '.join(dtypes)}]: {self.what}{compared}\n\n{self.reproducer}\n"


class Unsupported(TripointError):
    """What was checked is declared lacking, or has no kernel.

    Attributes:
        reason: why, as the author says it.
        entry: the entry of the capabilities that says so, or an empty string.
    """

    def __init__(self, reason: str, entry: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.entry = entry


class Ended(Exception):
    """What is no Exception and no wish of the user, and was raised all the same."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.ended = error


#: what a check gives back that passed and does not show that the operator computes anything, as when a call was refused.
NO_PROOF = "refused as it should"
#: why an operator is unsupported of which nothing is declared.
NO_KERNEL = "no kernel registered"


class Script:
    """Lines of a program about one operator and dtype."""

    def __init__(self, operator: str, dtype: str) -> None:
        self.operator = operator
        self.dtype = dtype
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.warned: list[str] = []

    def add(self, *lines: str) -> Script:
        """Append lines."""
        self.lines += lines
        return self

    def operands(
        self, row: Row, sample: Sample, make: Callable[[Array], str]
    ) -> tuple[list[str], list[tuple[str, Array]]]:
        """Append a line for each tensor of a sample, which ``make`` writes.

        Gives the operands as they are written in the call, and the names of the tensors.
        """
        words: list[str] = []
        tensors: list[tuple[str, Array]] = []

        def operand(name: str, array: Array) -> str:
            self.add(f"{name} = {make(array)}")
            tensors.append((name, array))
            return name

        for param, value in zip(row.operands, sample.operands, strict=False):
            called = "result" if param.name == "out" else param.name
            if isinstance(value, list):
                words.append(f"[{', '.join(operand(f'{called}{i}', a) for i, a in enumerate(value))}]")
            else:
                words.append(operand(called, value) if isinstance(value, Array) else repr(value))
        return words, tensors

    def text(self, *more: str) -> str:
        """The program with what it needs to start with, and more lines behind."""
        body = [*self.lines, *more]
        joined = "\n".join(body)
        head = ["import tripoint as tp", *_declaring(self.operator)]
        if "operators()" in joined:
            head.append(_OPERATORS)
        if "nan" in joined or "inf" in joined:
            head.append(_NUMBERS)
        return "\n".join([*head, *body])

    def run(self) -> dict[str, Any]:
        """Run the program and give its names. What it warns of at run time is kept, other warnings are passed on.

        Raises:
            Ended: it raised what ends the program of who does not look, such as SystemExit.
        """
        self.names = {"__name__": "reproducer"}
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", RuntimeWarning)
            try:
                exec(compile(self.text(), "<conformance>", "exec"), self.names)
            except (Exception, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise Ended(error) from error
        for one in seen or ():
            if issubclass(one.category, RuntimeWarning):
                self.warned.append(f"{one.category.__name__}: {one.message}")
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return self.names

    def read(self, name: str) -> Any:
        """The elements of a tensor of the program.

        Raises:
            ConformanceFailure: they cannot be read.
        """
        try:
            return self.names[name].tolist()
        except Exception as error:
            self.add(f"{name}.tolist()")
            raise self.raised(error, "the elements") from None

    def before(self, name: str) -> Any:
        """The elements of a tensor of the program as they were before its last line.

        Raises:
            ConformanceFailure: they cannot be read.
        """
        earlier = Script(self.operator, self.dtype).add(*self.lines[:-1])
        earlier.run()
        return earlier.read(name)

    def failure(
        self, what: str, got: str, have: object, want: object, instead: Sequence[str] = ()
    ) -> ConformanceFailure:
        """What to raise when the expression ``got`` gives ``have`` in place of ``want``; ``instead`` replaces the last line."""
        if isinstance(have, list) and isinstance(want, list) and len(have) == len(want) > _LONG:
            pairs: list[tuple[Any, Any]] = list(zip(have, want, strict=True))
            worst = max(range(len(pairs)), key=lambda i: _distance(*pairs[i]))
            got = f"{got}[{worst}]"
            have, want = pairs[worst]
        script = Script(self.operator, self.dtype)
        script.lines = [*self.lines[: len(self.lines) - bool(instead)], *instead]
        text = script.text(f'print("got ", {got})', f'print("want", {spelled(want)})')
        return ConformanceFailure(self.operator, self.dtype, what, text, have, want)

    def raised(self, error: BaseException, want: str, what: str = "") -> ConformanceFailure:
        """What to raise when the last line raised an error that it should not have; ``what`` is said in front of it."""
        error = error.ended if isinstance(error, Ended) else error
        first = (str(error).splitlines() or [""])[0]
        text = self.text(f"# raises {type(error).__name__}: {first[:90]}", f"# want {want}"[:110])
        said = f"{what}; it " * bool(what) + f"raised {type(error).__name__}: {shortened(first, 400)}{_place(error)}"
        return ConformanceFailure(self.operator, self.dtype, said, text, type(error).__name__, want)

    def warning(self, who: str = "") -> ConformanceFailure:
        """What to raise when the program warned; ``who`` did."""
        script = Script(self.operator, self.dtype).add("import warnings", 'warnings.simplefilter("error")', *self.lines)
        first = (self.warned[0].splitlines() or [""])[0]
        text = script.text(f"# raises {first[:90]}", "# want no warning")
        said = f"warned: {first}" + f" (by {who})" * bool(who)
        return ConformanceFailure(self.operator, self.dtype, said, text, first, "no warning")

    def refusal(self, error: BaseException | None, want: str) -> ConformanceFailure:
        """What to raise when the last line was not refused as it should."""
        if isinstance(error, Ended):
            return self.raised(error, want)
        have = "no error" if error is None else type(error).__name__
        lines = [
            "try:",
            f"    {self.lines[-1]}",
            '    print("got  no error")',
            "except Exception as error:",
            '    print("got ", type(error).__name__)',
            f'print("want {want}")',
        ]
        script = Script(self.operator, self.dtype)
        script.lines = [*self.lines[:-1], *lines]
        what = f"must be refused by {want}, and gave {have}"
        if error is not None:
            what += f": {shortened((str(error).splitlines() or [''])[0], 400)}{_place(error)}"
        return ConformanceFailure(self.operator, self.dtype, what, script.text(), have, want)


def _place(error: BaseException) -> str:
    """Where what the core called last, such as a kernel, raised an error or had it raised; empty where it was the core."""
    cause: BaseException | None = error
    found = ""
    while cause is not None:
        trace, inside = cause.__traceback__, True
        while trace is not None:
            frame = trace.tb_frame
            module = frame.f_globals.get("__name__") or "tripoint"  # what the core compiles itself has none
            core = module in ("reproducer", "tripoint") or module.startswith("tripoint.")
            if inside and not core:
                found = f" (line {trace.tb_lineno} of {module}, in {frame.f_code.co_name})"
            trace, inside = trace.tb_next, core
        cause = cause.__cause__
    return found


def _declaring(operator: str) -> list[str]:
    """The line that imports what declares an operator of others."""
    row = rows.get(operator) if "::" in operator else None
    module = row.body.__module__ if row is not None else None
    return [f"import {module}"] if module in sys.modules and module != "__main__" else []


def missing(error: BaseException) -> str | None:
    """The operator that an error says there is no kernel for, or ``None``."""
    return error.operator if isinstance(error, NoKernelError) else None


# Comparing -----------------------------------------------------------------------------------------------------------


def flat(value: Any) -> list[Any]:
    """The numbers in nested lists."""
    if isinstance(value, (list, tuple)):
        return [v for inner in value for v in flat(inner)]
    return [value]


def agree(got: Any, want: Any, tolerance: float = 0.0, zeros: bool = False, least: float | None = None) -> bool:
    """Whether nested lists hold the same numbers.

    Args:
        tolerance: how far numbers may be off, as a part of the largest one wanted, or of 1.
        zeros: zeros must have the same sign.
        least: each number may be off by a part of itself, or of this where it is smaller.
    """
    if shape_of(got) != shape_of(want):
        return False
    have, wanted = flat(got), flat(want)
    sizes = [abs(v) if isinstance(v, (float, complex)) and math.isfinite(abs(v)) else 0.0 for v in wanted]
    floor = max([1.0, *sizes]) if least is None else least
    rows = zip(have, wanted, sizes, strict=True)
    return all(_near(g, w, tolerance * max(size, floor), zeros) for g, w, size in rows)


def _distance(got: Any, want: Any) -> float:
    """How far one number, or the first that differs in lists, is off, as a part of what is wanted or of 1."""
    if isinstance(got, (list, tuple)) or isinstance(want, (list, tuple)):
        pairs = zip(flat(got), flat(want), strict=False)
        return max([_distance(g, w) for g, w in pairs], default=0.0)
    if got == want or (got != got and want != want):
        unlike = got == 0 and isinstance(want, float) and math.copysign(1.0, got) != math.copysign(1.0, want)
        return math.ulp(0.0) if unlike else 0.0
    off = abs(got - want) / max(1.0, abs(want))
    return off if off == off else math.inf


def shape_of(value: Any) -> tuple[int, ...]:
    """The lengths of nested lists, from the outside in; () of a number."""
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else 0
    return tuple(shape)


def _near(got: Any, want: Any, within: float, zeros: bool) -> bool:
    if not isinstance(got, (bool, int, float, complex)):
        return False
    if isinstance(want, complex) or isinstance(got, complex):
        got, want = complex(got), complex(want)
        if want != want:  # which part is NaN is nobody's promise
            return bool(got != got)
        return _near(got.real, want.real, within, False) and _near(got.imag, want.imag, within, False)
    if want != want or got != got:
        return want != want and got != got
    if isinstance(want, float) and math.isinf(want):
        return bool(got == want)
    if zeros and want == 0 and got == 0:
        return math.copysign(1.0, got) == math.copysign(1.0, want)
    return bool(got == want or (isinstance(want, float) and abs(got - want) <= within))
