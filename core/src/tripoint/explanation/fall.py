"""An explanation as an HTML page: the fall of one call through the floors, down to where it lands."""

from __future__ import annotations

from html import escape

from tripoint.errors import clipped
from tripoint.explanation.data import Explanation
from tripoint.explanation.page import code, document, table

ROUTES = ("kernel", "hooks", "decomposition", "fallback")

STYLE = """
body { max-width: 68rem; }
.fall { list-style: none; margin: .5rem 0; padding: 0; }
.floor { border-left: 4px solid var(--line); margin: 0; padding: .4rem 0 .4rem 1rem; position: relative; }
.floor + .floor { border-top: 1px dashed var(--line); }
.floor > .name { font-weight: 600; }
.floor > .state { color: var(--faint); margin-left: .5rem; }
.layer { border-left-color: var(--side); }
.landed { border-left-color: var(--good); background: var(--panel); }
.landed > .state { color: var(--good); }
.unreached > .name { color: var(--faint); font-weight: 400; }
.raised { border-left-color: var(--bad); }
.raised > .name { color: var(--bad); }
.call .call { margin: .5rem 0 .5rem .5rem; }
.call .call > h2 { margin: .75rem 0 .25rem; font-size: 1rem; }
table { font-size: .9em; margin: .4rem 0; display: block; overflow-x: auto; }
td { min-width: 5rem; }
td:last-child:nth-child(n + 5) { min-width: 16rem; }
.landed:has(.raised) { border-left-color: var(--bad); }
.landed:has(.raised) > .state { color: var(--bad); }
.raised pre { white-space: pre-wrap; }
.outcome { border-left: 4px solid var(--good); padding-left: .75rem; margin: 1rem 0; }
.outcome.refused { border-left-color: var(--bad); }
"""


def page(e: Explanation) -> str:
    """The whole page."""
    title = f"{e.operator}: one call, floor by floor"
    head = f"<h1>{escape(title)}</h1>\n<p class='faint'>From the top down, until a floor holds the call. Nothing was run.</p>"
    return document(title, f"<main>\n{head}\n{_outcome(e)}{_call(e)}\n</main>", style=STYLE)


def _outcome(e: Explanation) -> str:
    """How the call ends, in a line before its fall."""
    if e.error is not None:
        first = clipped(str(e.error).partition("\n")[0], 400)
        return f'<p class="outcome refused">It raises {type(e.error).__name__}: {escape(first)}</p>\n'
    if e.unknown:
        return f'<p class="outcome refused">How it ends is not known: {escape(e.unknown)}</p>\n'
    gives = f"It gives {e.result} of shape {e.shape}" if e.result is not None else "It leaves the world of tensors"
    return f'<p class="outcome">{escape(gives)}, by way of: {escape(e.how)}.</p>\n'


def _floor(kind: str, name: str, state: str = "", inside: str = "") -> str:
    said = f'<span class="state">{escape(state)}</span>' if state else ""
    return f'<li class="floor {kind}"><span class="name">{escape(name)}</span>{said}{inside}</li>\n'


def _call(e: Explanation) -> str:
    floors = [_arguments(e)]
    floors += [_floor("layer", layer, "a layer takes part") for layer in e.layers]
    floors += _routes(e)
    if e.unknown:
        floors.append(_floor("raised", "not known from here on", e.unknown))
    if e.error is not None and any(part.error is e.error for part in e.parts):
        floors.append(_floor("raised", "raises what its part raises"))
    elif e.error is not None:
        floors.append(_floor("raised", f"raises {type(e.error).__name__}", "", f"<pre>{escape(str(e.error))}</pre>"))
    if e.result is not None:
        floors.append(_result(e))
    return (
        f'<section class="call">\n<h2>{code(e.signature)}</h2>\n<p class="faint">{escape(e.defined)}</p>\n'
        f'<ol class="fall">\n{"".join(floors)}</ol>\n</section>\n'
    )


def _arguments(e: Explanation) -> str:
    rows = [
        (a.name, a.key, "; ".join(f"{part}: {why}" for part, why in a.parts.items()), a.matched, a.how)
        for a in e.arguments
    ]
    heads = ("argument", "key", "parts of the key", "compared as", "by")
    return _floor("called", "call", "", table(heads, rows) if rows else "")


def _routes(e: Explanation) -> list[str]:
    """A floor for each route: those that the call fell through, where it landed, and those beneath."""
    fell = dict(e.routes)
    names = ROUTES if e.how in ROUTES or fell else (e.how,) if e.how else ()
    out, unreached = [], []
    for name in names:
        inside = _candidates(e) if name in ("kernel", "inplace") else ""
        if name == e.how:
            refused = any(part.error is not None and part.error is e.error for part in e.parts)
            out.append(
                _floor(
                    "landed", name, "lands here, and a part is refused" if refused else "lands here", inside + _below(e)
                )
            )
        elif name in fell:
            out.append(_floor("passed", name, f"falls through: {fell[name]}", inside))
        else:
            unreached.append(name)
    if unreached:
        out.append(_floor("unreached", ", ".join(unreached), "not reached"))
    if e.how not in names and _below(e):
        out.append(_floor("passed", "beneath", "", _below(e)))
    return out


def _candidates(e: Explanation) -> str:
    if not e.candidates:
        return ""
    rows = [(c.verdict, c.kernel, c.pattern, c.provider, c.where, c.why) for c in e.candidates]
    heads = ("verdict", "kernel", "registered for", "provider", "where", "why")
    shown = " open" if e.how == "kernel" else ""
    return f"<details{shown}><summary>candidates, in order: {len(rows)}</summary>{table(heads, rows)}</details>"


def _below(e: Explanation) -> str:
    """What is done at the floor where the call lands: its steps, the calls beneath, and the plan."""
    steps = "".join(f"<p>{escape(step)}</p>" for step in e.steps)
    parts = "".join(_call(part) for part in e.parts)
    source = escape("\n".join(e.plan))
    plan = f"<details><summary>plan, as it was generated</summary><pre>{source}</pre></details>" if e.plan else ""
    return f"{steps}{parts}{plan}"


def _result(e: Explanation) -> str:
    gave = [(axis, why) for axis, why in e.gave.items()]
    inside = table(("of the result", "given"), gave) if gave else ""
    memory = f"<p>memory: {escape(e.allocator)}</p>" if e.allocator else ""
    return _floor("result", "result", f"{e.result}, shape {e.shape}", inside + memory)
