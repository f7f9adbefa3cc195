"""What a plugin registers: staged, checked against the schemas, committed whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tripoint import dtypes, kernels, layouts
from tripoint.callables import module_of
from tripoint.devices import Device
from tripoint.dtypes import DType, DTypeClass
from tripoint.errors import PluginError, RegistrationError, shown
from tripoint.kernels import Derivative, Kernel, Point
from tripoint.layouts import Layout
from tripoint.patterns import Origin, Pattern
from tripoint.plugins.discovery import changed, commit_lock, found, is_of, loading_here
from tripoint.plugins.records import BACKENDS, KERNELS, OURS, Claim, Plugin, normalise
from tripoint.plugins.tables import CORE, Announced, announced, known_devices, restore, snapshot, who
from tripoint.schema import did_you_mean, rows
from tripoint.tensor import DeclaredAttribute, Tensor, declare_attributes

T = TypeVar("T")


class Registry:
    """What ``tripoint_register`` is given: it stages, and is committed whole or not at all."""

    def __init__(
        self,
        distribution: str | None = None,
        version: str | None = None,
        plugin: Plugin | None = None,
        group: str = BACKENDS,
    ) -> None:
        here = loading_here()
        if distribution is None and here:  # what a module registers while it is imported is not the running program's
            distribution, version = here[-1].name, here[-1].version
        self.distribution = distribution
        self.version = version
        self.committed = False
        self._plugin = plugin
        self._group = group
        self._devices: list[Device] = []
        self._layouts: list[Layout] = []
        self._dtypes: list[DType] = []
        self._points: list[Point] = []
        self._kernels: list[Kernel] = []
        self._waiting: list[Kernel] = []
        self._derivatives: list[Derivative] = []
        #: what its commit entered, for taking that back and nothing else.
        self._entered: list[Any] = []

    def device(self, device: Device) -> None:
        """Announce a device type."""
        self._devices.append(_a(Device, device))

    def layout(self, layout: Layout) -> None:
        """Announce a layout."""
        self._layouts.append(_a(Layout, layout))

    def dtype(self, dtype: DType) -> None:
        """Announce a dtype."""
        self._dtypes.append(_a(DType, dtype))

    def origin(self, fn: Callable[..., Any]) -> Origin:
        """Where ``fn`` comes from, for errors and explanations."""
        return Origin(self.distribution, self.version, fn)

    def point(self, pattern: Pattern, payload: type, **hooks: Any) -> None:
        """Announce how payloads of a point are read; the hooks are the arguments of `tripoint.kernels.Point`.

        Plugins of the group ``tripoint.kernels.v1`` add to points of others: what they say of a point does not count.
        """
        if type(pattern) is not Pattern or not isinstance(payload, type):
            raise RegistrationError(
                f"{who(self.distribution)}: a point is described by a Pattern and the class of its payloads, not by "
                f"{shown(pattern)} and {shown(payload)}"
            )
        if self._group != KERNELS:
            origin = self.origin(payload)
            _place(origin, (payload, *hooks.values()))
            self._points.append(Point(pattern, payload, origin, **hooks))

    def kernel(
        self,
        operator: str,
        fn: Callable[..., Any],
        *,
        every: Pattern | None = None,
        args: tuple[Pattern, ...] | None = None,
        out: object = None,
        check_first: bool | Callable[..., None] = False,
        optional: bool = False,
    ) -> None:
        """Stage a kernel; see `tripoint.kernels.Kernel`. One that is ``optional`` waits for an operator that is not known."""
        made = Kernel(
            operator,
            fn,
            Origin(self.distribution, self.version, fn, operator),
            every=every,
            args=args,
            out=kernels.as_out(out),
            check_first=check_first,
        )
        if optional and operator not in rows:
            self._waiting.append(made)
        else:
            self._kernels.append(made)

    def derivative(self, made: Derivative) -> None:
        """Stage a derivative made by `tripoint.plugin.derivative`."""
        made.origin.distribution, made.origin.version = self.distribution, self.version
        self._derivatives.append(made)

    def _claimed(self) -> list[Claim] | None:
        """The points that the entry points of its group name; ``None`` where no entry point stands behind it."""
        plugin = self._plugin
        if plugin is None:
            return None
        if self._group == KERNELS:
            return [Claim(part) for entry in plugin.entries.get(KERNELS, ()) for part in entry.name.split("+")]
        return [c for claim in plugin.claims for c in claim]

    def _check_schemas(self) -> None:
        claimed, owned = self._claimed(), self._group == BACKENDS
        for kernel in self._kernels:
            row = rows.get(kernel.operator)
            if row is None:
                raise RegistrationError(
                    f"{kernel.origin}: there is no operator {kernel.operator!r}{did_you_mean(kernel.operator)}"
                )
            kernels.validate(row, kernel)
        for what, staged in (("kernel", self._kernels), ("derivative", self._derivatives)):
            for made in staged:
                row = rows[made.operator]
                if claimed is None or (self._plugin is not None and row.package in self._plugin.packages):
                    continue
                patterns = [made.every] if made.every is not None else list(made.args or ())
                if not any(touches(c, p) for c in claimed for p in patterns if p is not None):
                    elsewhere = (
                        f"; where the point is another plugin's, offer it through the entry-point group {KERNELS}"
                    )
                    raise RegistrationError(
                        f"{made.origin}: a {what} of {made.operator} on {made.pattern()}, which {self.distribution} does not "
                        f"provide: its entry points of {self._group} name {', '.join(map(str, claimed))}. See the spelling of "
                        f"both{elsewhere * owned}"
                    )
        for point in self._points:
            if claimed is not None and not any(touches(c, point.pattern) for c in claimed):
                raise RegistrationError(
                    f"{self.distribution} describes the point {point.pattern}, which none of its entry points names: they "
                    f"name {', '.join(map(str, claimed))}"
                )
        announced_here = {name for _, name, _ in self._things()}
        if (
            owned
            and claimed
            and not any(
                announced_here & {c.device, c.layout, c.dtype} or any(touches(c, p) for p in self._patterns())
                for c in claimed
            )
        ):
            raise RegistrationError(
                f"{self.distribution} registers nothing on the points that its entry points name: "
                f"{', '.join(map(str, claimed))}"
            )

    def _patterns(self) -> Iterator[Pattern]:
        """What is registered so far in the name of the distribution, and what is staged here, by the points it is for."""
        tables: list[Any] = [*kernels.kernels.values(), *kernels.derivatives.values(), self._kernels, self._derivatives]
        for made in (made for table in tables for made in table if made.origin.distribution == self.distribution):
            yield from [made.every] if made.every is not None else [p for p in made.args or () if p is not None]
        yield from (p.pattern for p in (*kernels.points, *self._points) if p.origin.distribution == self.distribution)

    def _check_tables(self) -> None:
        mine = [(table, name, thing, self.distribution) for table, name, thing in self._things()]
        for table, name, thing, _ in mine:
            for t, n, other, by in (*announced, *mine):
                if t is table and n == name and other is not thing and by in (self.distribution, CORE):
                    raise RegistrationError(
                        f"{who(self.distribution)} announces {thing!r}, and {who(by)} already has announced something else "
                        "of that name"
                    )
            if table is dtypes.registered and name in dtypes.PLAIN:
                raise RegistrationError(f"{name} is a plain dtype of the core and cannot be announced")
        places: list[Any] = [*self._layouts, *self._dtypes]
        for place in places:
            taken = [
                n for n in place.attributes if type(getattr(Tensor, n, DeclaredAttribute(n))) is not DeclaredAttribute
            ]
            if taken:
                raise RegistrationError(
                    f"{who(self.distribution)}: {place!r} declares the attribute {taken[0]!r}, which "
                    "every tensor has; choose another name"
                )

    def _fresh(self) -> tuple[list[Kernel], list[Derivative], list[Point]]:
        """What of the staged is not registered yet."""
        points: list[Point] = []
        for point in self._points:
            same = [p for p in (*kernels.points, *points) if p.pattern == point.pattern]
            same = [p for p in same if p.origin.distribution == self.distribution]
            if any(p.payload is not point.payload for p in same):
                raise RegistrationError(_twice(f"describes the point {point.pattern}", same[0].origin, point.origin))
            points += [] if same else [point]
        fresh = (
            _once(self._kernels, kernels.kernels, "kernel"),
            _once(self._derivatives, kernels.derivatives, "derivative"),
        )
        return [*fresh[0], *_unlike(self._waiting)], fresh[1], points

    def _things(self) -> list[tuple[dict[str, Any], str, Any]]:
        # Devices come last: a device that is known is complete.
        return [
            *((layouts.registered, layout.name, layout) for layout in self._layouts),
            *((dtypes.registered, dtype.name, dtype) for dtype in self._dtypes),
            *((known_devices, device.type, device) for device in self._devices),
        ]

    def commit(self) -> None:
        """Check everything, then make it visible in one step.

        Raises:
            RegistrationError: something does not fit the schema; nothing is changed.
            PluginError: the program imported a plugin that its metadata keeps from loading.
        """
        owner = found().get(self.distribution) if self.distribution is not None else None
        if owner is not None and owner.refused is not None and owner.state != "blocked":
            raise PluginError(
                f"{owner.name} {owner.version} registers something as it is imported, and is not loaded: {owner.refused}"
            ) from owner.refused
        self._check_schemas()
        with commit_lock:
            if self._plugin is not None and (self._group in self._plugin.loaded or self._plugin.state == "blocked"):
                return
            if self._plugin is None and owner is not None:
                if self not in owner.stated:
                    owner.stated.append(self)
                if owner.state == "blocked":
                    return
            self._check_tables()
            fresh = self._fresh()
            before, had = snapshot(), self._plugin.standing() if self._plugin is not None else None
            committed, entered = self.committed, [*self._entered]
            try:
                self._enter(*fresh)
                if self._plugin is not None:
                    self._plugin.succeed(self._group)
                self.committed = True
                changed()
            except BaseException:  # an interrupt, say
                self.committed, self._entered = committed, entered
                if self._plugin is not None and had is not None:
                    self._plugin.put_back(had)
                restore(before)
                changed()
                raise

    def withdraw(self) -> None:
        """Take back what its commit entered, and nothing else of its distribution."""
        with commit_lock:
            _take_back(self._has_entered, self._has_entered)
            self._entered.clear()
            self.committed = False
            changed()

    def _has_entered(self, made: Any) -> bool:
        return any(made is mine for mine in self._entered)

    def _enter(self, fresh: list[Kernel], derivatives: list[Derivative], points: list[Point]) -> None:
        for kernel in fresh:
            kernels.kernels[kernel.operator] = (*kernels.kernels.get(kernel.operator, ()), kernel)
        for made in derivatives:
            kernels.derivatives[made.operator] = (*kernels.derivatives.get(made.operator, ()), made)
        kernels.points.extend(points)
        self._entered += [*fresh, *derivatives, *points]
        for table, name, thing in self._things():
            if not any(t is table and thing is other and by == self.distribution for t, _, other, by in announced):
                announced.append((table, name, thing, self.distribution))
                self._entered.append(announced[-1])
            table.setdefault(name, thing)
        declare_attributes()  # before anybody can make such a tensor

    def imported(self) -> bool:
        """Whether the modules that it stands for are imported; one whose import failed states everything again."""
        fns: list[Any] = [k.fn for k in self._kernels] + [p.payload for p in self._points]
        fns += [fn for d in self._derivatives for fn in d.functions.values()]
        return all(module_of(fn) in (None, *sys.modules) for fn in fns)


def _a(kind: type[T], thing: T) -> T:
    # Not of a subclass: tables of everybody hold it, and ask it for its name, its hash and whether it equals another.
    if type(thing) is not kind:
        name = kind.__name__
        raise RegistrationError(f"a {name.lower()} is announced by a {name} itself, not by {shown(thing)}")
    return thing


def _place(origin: Origin, things: tuple[Any, ...]) -> None:
    """Give the origin of a class, which tells no line, that of the first function in it or beside it."""
    inside = (fn for thing in things for fn in (vars(thing).values() if isinstance(thing, type) else (thing,)))
    code = next((c for fn in inside if (c := getattr(fn, "__code__", None)) is not None), None)
    if origin.file is None and code is not None:
        origin.file, origin.line = code.co_filename, code.co_firstlineno


def _twice(what: str, first: Origin, second: Origin) -> str:
    name = f"{first.distribution!r}" if first.distribution else "None"
    return f"{second} {what} a second time; the first is {first}; tripoint.plugins.unregister({name}) takes it back"


def _once(staged: list[Any], table: dict[str, tuple[Any, ...]], what: str) -> list[Any]:
    """What of ``staged`` is new: the same function on the same patterns, from the same distribution, counts once.

    Raises:
        RegistrationError: another function on patterns that the distribution already has one for.
    """
    fresh: list[Any] = []
    for made in staged:
        slots = tuple(range(rows[made.operator].arity))
        same = [
            k
            for k in (*table.get(made.operator, ()), *(f for f in fresh if f.operator == made.operator))
            if k.origin.distribution == made.origin.distribution and k.patterns(slots) == made.patterns(slots)
        ]
        if any(k.body() != made.body() for k in same):
            on = ", ".join(map(str, made.patterns(slots)))
            raise RegistrationError(
                _twice(f"registers a {what} of {made.operator} on {on}", same[0].origin, made.origin)
            )
        fresh += [] if same else [made]
    return fresh


def _unlike(waiting: list[Kernel]) -> list[Kernel]:
    """What of the kernels without an operator is not waiting already."""

    def body(k: Kernel) -> tuple[object, ...]:
        return (k.operator, k.fn, k.every, k.args, k.origin.distribution)

    return [k for k in waiting if all(body(k) != body(other) for other in kernels.kernels.get(k.operator, ()))]


def waiting_kernels() -> list[Kernel]:
    """Optional kernels of operators that nobody has declared; each counts as soon as somebody does."""
    return [k for name, entries in kernels.kernels.items() if name not in rows for k in entries]


def touches(claim: Claim, pattern: Pattern) -> bool:
    """Whether a point of an entry-point name may fit a pattern."""
    if type(pattern) is not Pattern:
        return False
    if claim.device != "*" and pattern.device not in ("*", claim.device):
        return False
    if claim.layout != "*" and pattern.layout not in ("*", claim.layout):
        return False
    if isinstance(pattern.dtype, DTypeClass):
        return claim.dtype is None
    return claim.dtype in (pattern.dtype, "*") or (claim.dtype is None and pattern.dtype in dtypes.PLAIN)


def unregister(name: str | None) -> None:
    """Take back everything that a distribution registered (``None``: what the running program did).

    The operators that its modules declared are gone from the tables with it, and known again when it is loaded again or
    unblocked. Who holds the function of one may still call it; what the running program declared stays.
    """
    take_back(name, operators=True)


def take_back(name: str | None, *, operators: bool) -> None:
    """As `unregister`; the operators of its modules are left where they are unless ``operators`` says so."""
    gone = normalise(name) if name else None
    plugin = found().get(gone) if gone else None

    def of_it(made: Any) -> bool:
        # The core's derivatives belong to its operators, which stay, and not to its backend of the device meta.
        return made.origin.distribution == gone and not (gone == "tripoint" and isinstance(made, Derivative))

    with commit_lock:
        before, had = snapshot(), plugin.standing() if plugin is not None else None
        theirs = plugin if operators and gone != OURS else None
        declared = {n: row for n, row in list(rows.items()) if theirs is not None and is_of(theirs, row)}
        try:
            _take_back(of_it, lambda entry: entry[3] == gone)
            for operator in declared:
                rows.pop(operator, None)
            if plugin is not None and plugin.state == "loaded":
                plugin.state, plugin.probed, plugin.reason = "found", False, None
                plugin.loaded.clear()
            if plugin is not None:
                plugin.declared.update(declared)
            changed()
            for row in declared.values():
                row.plans.clear()
        except BaseException:  # an interrupt: whole or not at all
            if plugin is not None and had is not None:
                plugin.put_back(had)
            rows.update(declared)
            restore(before)
            changed()
            raise


def _take_back(made: Callable[[Any], bool], said: Callable[[Announced], bool]) -> None:
    """Take what the first fits out of the tables of kernels, derivatives and points, and the announcements of the second."""
    tables: tuple[dict[str, Any], ...] = (kernels.kernels, kernels.derivatives)
    for table in tables:
        for operator, entries in list(table.items()):
            kept = tuple(e for e in entries if not made(e))
            if kept:
                table[operator] = kept
            else:
                del table[operator]
    kernels.points[:] = [p for p in kernels.points if not made(p)]
    gone = [(table, name) for table, name, *_ in filter(said, announced)]
    announced[:] = [entry for entry in announced if not said(entry)]
    for table, name in gone:
        others = [thing for t, n, thing, _ in announced if t is table and n == name]
        if not others:
            table.pop(name, None)
        elif table.get(name) not in others:
            table[name] = others[0]
    declare_attributes()
