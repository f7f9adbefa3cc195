"""An explanation as data, and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tripoint.dispatcher.resolve import Resolution
from tripoint.errors import TripointError, clipped, grouped

SHOWN = 8  # candidates that the text lists; the object has all


@dataclass(frozen=True)
class Argument:
    """One dispatch argument.

    Attributes:
        name, key: of the parameter, and of what was given.
        matched: the key that patterns are compared with.
        how: what makes the one of the other, such as a cast.
        parts: for each part of the key, such as ``autograd``, what gave it.
    """

    name: str
    key: str
    matched: str
    how: str
    parts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """One registered kernel; or a plugin with kernels for points of others that are not loaded, as nobody prefers it.

    Attributes:
        verdict: ``chosen``, ``fits``, ``does not fit`` or ``takes no part``; ``why`` has the reason.
        kernel, pattern: its name, empty for such a plugin, and the points that it was registered for.
        provider, where: the package and version, file and line.
    """

    verdict: str
    kernel: str
    pattern: str
    provider: str
    where: str
    why: str


@dataclass
class Explanation:
    """The walk of one call; prints as text.

    Attributes:
        operator, signature, defined: the schema: name, parameters, and where it is declared.
        layers: what stands above the backend, from the top down.
        arguments, candidates: see `Argument` and `Candidate`; the chosen kernel first, those without a part last.
        routes: the routes tried before the one taken, with why each was left, as pairs; all of them for a refused call.
        how: ``kernel``, ``hooks``, ``decomposition``, ``fallback``, ``inplace``, ``convert``, ``identity``, or empty for a
            refused call.
        steps: of a conversion each kernel with the point that it gives; of the hooks who brings them.
        plan: source of the plan, line by line, and of the plans that it calls.
        result, shape: key and shape of the result, ``None`` where they are not known.
        gave: for each axis of the result, and each part of its key, what gave it.
        allocator: who makes the memory of the result.
        parts: the calls beneath: of a decomposition, between hooks, on the fallback's points, in place of an in-place kernel,
            or before the call, where an array of another library becomes a tensor.
        error: what the call would raise, or ``None``.
        unknown: why the walk ends early, where what comes next depends on values, or an empty string.
        resolution: the data that all of it is read from.
    """

    operator: str
    signature: str
    defined: str
    layers: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    how: str = ""
    steps: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    result: str | None = None
    shape: tuple[int, ...] | None = None
    gave: dict[str, str] = field(default_factory=dict)
    allocator: str = ""
    parts: list[Explanation] = field(default_factory=list)
    error: TripointError | None = None
    unknown: str = ""
    resolution: Resolution | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, such as `json.dumps` takes."""
        out = {name: value for name, value in self.__dict__.items() if name != "resolution"}
        out["arguments"] = [asdict(a) for a in self.arguments]
        out["candidates"] = [asdict(c) for c in self.candidates]
        out["parts"] = [part.to_dict() for part in self.parts]
        out["error"] = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return out

    def to_text(self, *, plan: bool = False) -> str:
        """The walk as text; with ``plan=True`` the source of the plan too."""
        lines = _lines(self)
        if plan and self.plan:
            lines += ["  plan:", *[f"    {line}" for line in self.plan]]
        return "\n".join(lines)

    def to_html(self) -> str:
        """The walk as one HTML page without external files: the fall of the call through the floors."""
        from tripoint.explanation.fall import page

        return page(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return str(self)


def _lines(e: Explanation, inside: bool = False) -> list[str]:
    out = [f"{e.signature}   {e.defined}"]
    said = [(a.name, ", ".join(s for s in (a.key, *a.parts.values(), a.how) if s)) for a in e.arguments]
    out += [f"  {name}: {text}" for name, text in grouped(said)]
    out.append(f"  floors: {' > '.join([*e.layers, 'backend'])}")
    away: dict[str, int] = {}
    shown = 0
    for c in e.candidates:
        if c.verdict == "takes no part":
            away[c.why] = away.get(c.why, 0) + 1
        elif shown == SHOWN or (inside and c.verdict == "does not fit"):
            away["does not fit"] = away.get("does not fit", 0) + 1
        else:
            out.append(
                f"  {c.verdict}: {c.pattern} {c.kernel}, {c.provider}, {c.where}" + (f": {c.why}" if c.why else "")
            )
            shown += 1
    out += [f"  {'another' if count == 1 else f'{count} others'}: {why}" for why, count in away.items()]
    out += [f"  {step}" for step in e.steps]
    for number, part in enumerate(e.parts, 1):
        head, *rest = _lines(part, True)
        out += [f"    {number}. {head}", *[f"    {line}" for line in rest]]
    if e.unknown:
        out.append(f"  not known from here on: {e.unknown}")
    if e.error is not None and any(part.error is e.error for part in e.parts):
        out.append("  raises what its part raises")
    elif e.error is not None:
        out += [f"  raises {type(e.error).__name__}:", *[f"    {line}" for line in str(e.error).splitlines()]]
    if e.result is not None:
        gave = "; ".join(f"{axis} {what}" for axis, what in e.gave.items())
        out.append(f"  result: {e.result}, shape {e.shape}" + (f"; {gave}" if gave else ""))
        if e.allocator:
            out.append(f"  memory: {e.allocator}")
    return [clipped(line, 400) for line in out]
