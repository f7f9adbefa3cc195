"""What is checked in which order, and the verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tripoint.conformance.checks import golden, gradients, inplace, memory, protocols, values, views
from tripoint.conformance.known import Known
from tripoint.conformance.records import RECORDS, Record, Sample, chosen, matches, unknown
from tripoint.conformance.report import Report, Verdict, of_any_dtype
from tripoint.conformance.script import NO_KERNEL, NO_PROOF, ConformanceFailure, Unsupported, flat
from tripoint.conformance.target import Target, check_words, preferred_kernels
from tripoint.errors import ArgumentError
from tripoint.schema import rows

TIERS = {
    0: "create, copy, read back, compare",
    1: "pointwise and promotion",
    2: "reductions, views, indexing, in-place",
    3: "linalg and nn",
    4: "gradients and layers",
    5: "copy, pickle, save, print, exchange, threads",
    6: "golden vectors",
}
Cases = Iterator[tuple[str, Callable[[], Any]]]
Checks = Callable[[Target], Cases]
_FORMS = ("reversed", "turned", "stepped", "moved", "mixed", "crossed", "repeated")
_ODD = {"scalar", "mixed", "nonfinite", "empty"}


class Unit:
    """The checks of one operator (or one promise) in one tier; ``cases`` gives them, each with the dtype it is about."""

    __slots__ = ("cases", "name", "needs", "tier")

    def __init__(
        self,
        tier: int,
        name: str,
        cases: Checks,
        needs: tuple[str, ...] = (),
    ) -> None:
        self.tier = tier
        self.name = name
        self.cases = cases
        self.needs = needs

    def __repr__(self) -> str:
        return f"<tier {self.tier}: {self.name}>"


def _tried(target: Target, record: Record, samples: list[Sample]) -> list[Sample]:
    """The samples that a backend takes, as it holds them; where its tensors have more axes, with axes of size 1 added."""
    least = target.said.ranks[0]
    fitting = [s if not least else record.lifted(s, least) or s for s in samples]
    return [target.held(s) for s in map(target.tamed, fitting) if target.takes(s)]


def _lacking(target: Target, record: Record, *what: str) -> Cases:
    """One case for each thing that a record cannot check, which says why."""
    for reason in [record.without[w] for w in what if w in record.without]:
        yield target.dtypes[0], partial(_unsupported, reason)


def _first(checks: list[Callable[[], Any]]) -> Any:
    """The first of several checks, of one thing, that is about nothing that the backend lacks."""
    for check in checks[:-1]:
        try:
            return check()
        except Unsupported:
            continue
    return checks[-1]()


def _unsupported(reason: str) -> None:
    raise Unsupported(reason)


def _of_values(record: Record) -> Checks:
    def cases(target: Target) -> Cases:
        yield from _lacking(target, record, "samples", "values")
        if record.kind == "export" and not target.said.elements:
            return
        for dtype in record.dtypes:
            if dtype in target.dtypes:
                for sample in _tried(target, record, record.samples(dtype)):
                    if "::" in record.operator and rows[record.operator].composite:
                        yield dtype, partial(values.check_rules, target, record, sample, dtype)
                    yield dtype, partial(values.check_sample, target, record, sample, dtype)
        if record.operator == "to":
            yield from _carried(target, record)
        for bad in record.errors():
            if values.relevant(target, bad):
                arrays = [a.dtype for a in bad.sample.arrays()]
                yield arrays[0] if arrays else target.dtypes[0], partial(values.check_bad, target, record, bad)

    return cases


def _carried(target: Target, record: Record) -> Cases:
    """Both directions between a point and ``cpu.strided``; an opaque dtype has words of its own for that."""
    if (target.device, target.layout) == ("cpu", "strided") or target.opaque is not None:
        return
    if not target.said.elements or not target.has_home():
        return
    for dtype in target.dtypes:
        for sample in _tried(target, record, [s for s in record.samples(dtype) if not s.meta]):
            for way in ("there", "back"):
                yield dtype, partial(values.check_carried, target, record, sample, dtype, way)


def _of_views(record: Record) -> Checks:
    """Operands that are views, and, of an operator that returns views, what its results share."""

    def cases(target: Target) -> Cases:
        usual = [d for d in ("float32", "int64", "float64", "bool") if d in record.dtypes and d in target.dtypes][:2]
        for dtype in usual or [d for d in target.dtypes if d in record.dtypes][:1]:
            samples = _tried(target, record, record.samples(dtype))
            plain = [s for s in samples if not s.tags & _ODD]
            deep = [s for s in plain[3:] if any(a.ndim > 2 for a in s.arrays())]
            if target.said.elements and values.repeatable(record):
                again = [s for s in plain if any(a.role == "element" and len({*a.data}) > 1 for a in s.arrays())]
                for sample in again[:1]:
                    yield dtype, partial(values.check_again, target, record, sample, dtype)
            for sample in (*plain[:3], *deep[:1]):
                for form in _FORMS:
                    yield dtype, partial(values.check_sample, target, record, sample, dtype, form)
                if record.kind == "elementwise" and "values" not in record.without:
                    yield dtype, partial(values.check_fed, target, record, sample, dtype)
            if target.said.elements and "values" not in record.without and record.operator != "empty_like":
                for sample in [s for s in plain if any(len(a.data) > 1 for a in s.arrays())][:1]:
                    yield dtype, partial(memory.check_lasting, target, record, sample, dtype)
            if record.kind == "view" and target.said.elements:
                for sample in samples:
                    yield dtype, partial(views.check_view, target, record, sample, dtype)
            if record.operator == "reshape" and target.views and target.said.elements and samples:
                yield dtype, partial(views.check_no_copy, target, dtype)

    return cases


def _of_inplace(record: Record) -> Checks:
    def cases(target: Target) -> Cases:
        for dtype in inplace.dtypes_of(target, record):
            for sample in _tried(target, record, record.samples(dtype)):
                if inplace.fits(record, sample, dtype):
                    yield dtype, partial(inplace.check_inplace, target, record, sample, dtype)
        own = inplace.closed(target, record)
        if own is None:
            return
        if len(rows[record.operator].operands) == 2:
            yield own, partial(inplace.check_through_view, target, record, own)
        for view, form in inplace.into_views(record):
            yield own, partial(inplace.check_into_view, target, record, own, view, form)

    return cases


def _of_gradients(record: Record) -> Checks:
    def cases(target: Target) -> Cases:
        dtypes = gradients.dtypes_for(target, record)
        if not dtypes:
            return
        dtype, *narrow = dtypes
        yield from _lacking(target, record, "gradients")
        if "gradients" in record.without:
            return
        for sample in _tried(target, record, record.gradients(dtype) if record.gradients is not None else []):
            yield dtype, partial(gradients.check_gradient, target, record, sample, dtype)
        for sample, known in record.ties(dtype) if record.ties is not None else ():
            steep = any(v is not None and not math.isfinite(v) for v in flat(known))
            if target.takes(sample) and (target.said.nonfinite is True or not steep):
                yield dtype, partial(gradients.check_gradient, target, record, sample, dtype, known)
        if "values" in record.without or record.gradients is None:
            return
        if dtype in ("float64", "float32") and target.opaque is None:
            smooth = _tried(target, record, record.gradients(dtype))[:3]
            if smooth:
                yield (
                    dtype,
                    partial(_first, [partial(gradients.check_second, target, record, s, dtype) for s in smooth]),
                )
        for other in narrow:
            for sample in _tried(target, record, record.gradients(other))[:2]:
                yield other, partial(gradients.check_gradient, target, record, sample, other)

    return cases


def _of_threads(record: Record) -> Checks:
    def cases(target: Target) -> Cases:
        for dtype in [d for d in ("float32", *target.dtypes) if d in target.dtypes and d in record.dtypes][:1]:
            plain = [s for s in _tried(target, record, record.samples(dtype)) if not s.tags & _ODD]
            if plain and target.said.elements:
                yield (
                    dtype,
                    partial(_first, [partial(protocols.check_threads, target, record, s, dtype) for s in plain[:3]]),
                )

    return cases


def _of_promise(check: Callable[[Target, str], None]) -> Checks:
    def cases(target: Target) -> Cases:
        for dtype in ("float64", "float32"):
            if dtype in target.dtypes and target.said.elements:
                yield dtype, partial(check, target, dtype)

    return cases


def _of_protocol(check: Callable[[Target, str], str | None] | Callable[[Target, str], None]) -> Checks:
    def cases(target: Target) -> Cases:
        for dtype in target.dtypes:
            yield dtype, partial(check, target, dtype)

    return cases


def _of_lifetimes(target: Target) -> Cases:
    for dtype, way in memory.lasting(target):
        yield dtype, partial(memory.check_kept_alive, target, dtype, way)


def _of_races(target: Target) -> Cases:
    for dtype, race in memory.races(target):
        yield dtype, partial(memory.check_race, target, dtype, race)


def _of_vectors(entries: list[dict[str, Any]]) -> Checks:
    def cases(target: Target) -> Cases:
        for entry in entries:
            sample = golden.fitted(target, entry)
            used = {a.dtype for a in sample.arrays() if a.role == "element"}
            if target.said.elements and used <= set(target.dtypes) and target.takes(sample):
                yield next(a.dtype for a in sample.arrays()), partial(golden.check_vector, target, entry)

    return cases


def units(operators: Iterable[str] | None = None, tiers: Iterable[int] | None = None) -> list[Unit]:
    """Everything that can be checked, in order.

    Raises:
        ArgumentError: an operator without a record, or a tier that there is not.
    """
    asked = None if operators is None else list(operators)
    records = {**RECORDS, **{r.operator: r for r in chosen(asked or ())}}
    checked = [r for r in records.values() if "samples" not in r.without]
    out = [Unit(r.tier, r.operator, _of_values(r), r.needs) for r in records.values()]
    out += [
        Unit(max(2, r.tier), r.operator, _of_views(r), r.needs) for r in checked if r.kind not in ("create", "export")
    ]
    out += [Unit(2, name, _of_inplace(r)) for r in checked if (name := f"{r.operator}_") in rows]
    out += [Unit(2, "memory", _of_protocol(check)) for check in (views.check_memory, memory.check_described)]
    out += [Unit(2, "lifetimes", _of_lifetimes), Unit(5, "streams", _of_races)]
    out += [Unit(4, r.operator, _of_gradients(r)) for r in checked if r.gradients is not None or r.ties is not None]
    out += [Unit(4, name, _of_promise(check)) for name, check in gradients.PROMISES.items()]
    out += [Unit(5, name, _of_protocol(check)) for name, check in protocols.PROTOCOLS.items()]
    again = [r for r in checked if r.kind not in ("create", "export") and "empty" not in r.needs]
    out += [Unit(5, r.operator, _of_threads(r)) for r in again]
    out += [Unit(6, name, _of_vectors(entries)) for name, entries in golden.vectors().items()]
    known = {u.name for u in out}
    for word in asked or ():
        if not any(matches(name, word) for name in known):
            raise ArgumentError(unknown(word, known))
    for tier in tiers or ():
        if tier not in TIERS:
            raise ArgumentError(f"tier {tier!r}: tiers are numbers, and there are the tiers 0 to {max(TIERS)}")
    wanted = known if asked is None else {name for name in known if any(matches(name, word) for word in asked)}
    within = set(TIERS) if tiers is None else set(tiers)
    merged: dict[tuple[int, str], Unit] = {}
    for unit in out:
        if unit.tier in within and unit.name in wanted:
            first = merged.get((unit.tier, unit.name))
            merged[unit.tier, unit.name] = unit if first is None else _joined(first, unit)
    return sorted(merged.values(), key=lambda u: u.tier)


def _joined(a: Unit, b: Unit) -> Unit:
    def cases(target: Target) -> Cases:
        yield from a.cases(target)
        yield from b.cases(target)

    return Unit(a.tier, a.name, cases, a.needs)


def _stopped(operator: str, dtype: str, error: BaseException) -> ConformanceFailure:
    """What a backend raised where a check only looked at it, as in describing a payload."""
    import traceback

    where = "".join(f"# {line}\n" for line in "".join(traceback.format_exception(error)).splitlines()[-8:])
    return ConformanceFailure(operator, dtype, f"a look at the result raised {type(error).__name__}: {error}", where)


def _several(name: str, given: Any, example: str) -> list[Any] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ArgumentError(f"{name} are several, such as {name}={example}, not {given!r}")
    return list(dict.fromkeys(given))


class Session:
    """One run against one backend. A verdict is computed once; one of a later tier asks for all earlier ones."""

    def __init__(
        self,
        backend: str,
        *,
        tiers: Iterable[int] | None = None,
        operators: Iterable[str] | None = None,
        known_failures: str | Path | Iterable[Mapping[str, str]] | None = None,
    ) -> None:
        self.target = Target(backend)
        check_words(self.target.said, rows)
        listed = _several("operators", operators, "['add']")
        asked = _several("tiers", tiers, "[1]")
        self.whole = listed is None and asked is None
        self.units = units(listed, asked)
        given = known_failures if known_failures is not None else self.target.said.known_failures
        self.known = Known(given, {*rows, *(u.name for u in units())} if given is not None else ())
        self._verdicts: dict[tuple[int, str], Verdict] = {}
        #: entries of ``lacks``: how often a call was refused, and how often it worked although it is declared lacking.
        self.lacking: dict[str, list[int]] = {entry: [0, 0] for entry in self.target.said.lacks or ()}

    def verdict(self, unit: Unit) -> Verdict:
        """What comes of one unit."""
        found = self._verdicts.get((unit.tier, unit.name))
        if found is None:
            failing = self.failing_before(unit.tier)
            if failing:
                shown = ", ".join(failing[:4]) + (f" and {len(failing) - 4} more" if len(failing) > 4 else "")
                found = Verdict(unit.tier, unit.name, "blocked", f"tier {unit.tier} waits for {shown}")
            else:
                found = self._judge(unit)
            self._verdicts[unit.tier, unit.name] = found
        return found

    def failing_before(self, tier: int) -> list[str]:
        """Names of what fails in earlier tiers."""
        return [u.name for u in self.units if u.tier < tier and self.verdict(u).verdict == "fail"]

    def _judge(self, unit: Unit) -> Verdict:
        for need in unit.needs:
            other = next((u for u in self.units if u.name == need and u.tier == unit.tier and u is not unit), None)
            if other is not None and need not in other.needs and self.verdict(other).verdict == "fail":
                return Verdict(unit.tier, unit.name, "blocked", f"it is made of {need}, which fails")
        passed, proof, failures, known = 0, False, [], []
        reasons: dict[str, int] = {}
        for dtype, check in unit.cases(self.target):
            try:
                entry = check()
            except ConformanceFailure as failure:
                reason = self.known.reason(unit.name, self.target.label(dtype))
                if reason is not None:
                    known.append(f"{self.target.label(dtype)}: {reason}")
                else:
                    failures.append(failure)
            except Unsupported as lack:
                reasons[lack.reason] = reasons.get(lack.reason, 0) + 1
                if lack.entry in self.lacking:
                    self.lacking[lack.entry][0] += 1
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                failures.append(_stopped(unit.name, self.target.label(dtype), error))
            else:
                passed += 1
                proof = proof or entry is not NO_PROOF
                if entry in self.lacking:
                    self.lacking[entry][1] += 1
        if NO_KERNEL in reasons and not proof:
            reasons = {NO_KERNEL: 1}
        if proof and not self.target.said.elements:
            reasons["elements, of which tensors here hold none"] = 1
        alike: dict[str, list[str]] = {}
        for reason in reasons:
            alike.setdefault(of_any_dtype(reason), []).append(reason)
        lacks = "; ".join(said[0] if len(said) == 1 else kind for kind, said in alike.items())
        if failures:
            return Verdict(unit.tier, unit.name, "fail", failures[0].line(), failures, passed)
        if known:
            return Verdict(unit.tier, unit.name, "known", "; ".join(dict.fromkeys(known)), passed=passed)
        if proof:
            return Verdict(unit.tier, unit.name, "pass", f"without: {lacks}" if lacks else "", passed=passed)
        if not lacks:
            lacks = "only what must be refused could be tried: " * bool(passed) + self._nothing_to_try()
        return Verdict(unit.tier, unit.name, "unsupported", lacks, passed=passed)

    def _nothing_to_try(self) -> str:
        target, said = self.target, self.target.said
        if not said.elements:
            return "tensors here hold no elements"
        low, high = said.ranks
        wanted = [
            f"with the dtype {' or '.join(target.dtypes)}" + f", as {target.opaque} is read" * bool(target.opaque)
        ]
        if (low, high) != (0, None):
            wanted.append(f"of {low}" + (f" to {high}" if high != low else "") * (high is not None) + " axes")
        if said.nonfinite is not True:
            wanted.append("without infinities" if said.nonfinite else "without NaN and infinities")
        absent = target.absent()
        if absent:
            wanted.append(f"and none beside it of {' or '.join(absent)}, which the device does not hold")
        return f"no sample {', '.join(wanted)}"

    def stale(self) -> list[Verdict]:
        """What is declared and does not hold any more: known failures that pass, and lacks that nothing is refused for."""
        waiting = {u.name for u in self.units if self.verdict(u).verdict in ("blocked", "fail")}
        ran = {u.name for u in self.units} - waiting
        out = [
            Verdict(
                0,
                e["operator"],
                "fail",
                f"the known failure [{e['dtype']}] is stale: {e['reason']!r}, and nothing fails",
            )
            for e in self.known.entries
            if e not in self.known.used and (e["operator"] in ran or (self.whole and e["operator"] not in waiting))
        ]
        if self.whole and not waiting:
            for entry, (refused, _) in self.lacking.items():
                if not refused:
                    said = (self.target.said.lacks or {})[entry]
                    out.append(Verdict(0, entry, "fail", f"declared lacking ({said!r}), and nothing is refused for it"))
        return out

    def report(self) -> Report:
        """Every verdict."""
        listed = [self.verdict(u) for u in self.units]
        served = preferred_kernels(self.target, {u.name for u in self.units})
        return Report(self.target.name, self.target.point.origin.provider, [*listed, *self.stale()], served)
