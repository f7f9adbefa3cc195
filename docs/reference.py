"""The API reference, made from the modules themselves: every public name of a module stands on the page that asks for it.

A page asks with a fenced block ``{names}``, whose lines name modules. The form of an entry is autodoc's. A name that another
module has too is described once, where it comes first in `PUBLIC`, and points there elsewhere.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
from types import ModuleType
from typing import Any

from docutils.nodes import Text
from sphinx.addnodes import pending_xref

from tripoint.plugin import Backend, DType, DTypeClass, DTypeRule, Layout, dtypes_in

#: the modules whose names are public, in the order in which a name that several have is described.
PUBLIC = (
    "tripoint",
    "tripoint.nn",
    "tripoint.errors",
    "tripoint.plugins",
    "tripoint.memory",
    "tripoint.layouts",
    "tripoint.streams",
    "tripoint.support",
    "tripoint.explanation",
    "tripoint.plugin",
    "tripoint.plugin.check",
    "tripoint.plugin.rules",
    "tripoint.support",
    "tripoint.explanation",
    "tripoint.conformance",
    "tripoint.scaffold",
    "tripoint.sparse",
    "tripoint_dense_cpu",
    "tripoint_sparse_coo",
    "tripoint_quantized",
    "tripoint_blocked",
    "tripoint_cuda_cupy",
)

#: what a name is that no docstring says it of.
SAID = {
    "tripoint.ops": "Called, it lists every operator: ``tripoint.ops()`` is `tripoint.support.ops`.",
    "tripoint.conformance.TIERS": "The tiers of checks by number; a later one is blocked while an earlier one fails.",
    "tripoint.plugin.FLOORS": "The floors of layers, from the top down; a layer stands ``above`` or ``below`` one.",
    "tripoint.plugin.PROTOCOL": "The number of the contract between core and plugins, which is in the names of the groups of "
    "entry points.",
    "tripoint.plugin.hookimpl": "Marks the hooks of a plugin that is no `tripoint.plugin.Backend`, as pluggy's markers do.",
    "tripoint.plugin.Operand": "What an operator takes in the place of a tensor: a tensor or a Python number.",
    "tripoint.plugin.scalar": "The pattern of a Python number, in ``args=`` of a kernel.",
}

#: headings over what a page lists, in their order; functions go by the module that defines them.
FAMILIES = {
    "classes": "Classes",
    "constants": "Constants",
    "modules": "Modules",
    "creation": "Making tensors",
    "conversion": "Conversions",
    "elementwise": "Elementwise operators",
    "reductions": "Reductions",
    "manipulation": "Shapes and views",
    "indexing": "Indexing",
    "linalg": "Products",
    "nn": "Operators of neural networks",
    "engine": "Differentiation",
    "modes": "Settings",
    "elsewhere": "Also there",
}

_FENCE = re.compile(r"^```\{names\}\n(?P<modules>[\w.\s]+)\n```$", re.MULTILINE)


def names_of(module: str) -> list[str]:
    """The public names of a module: those in ``__all__``, but what ``dir`` shows of tripoint, and all that the rules are."""
    thing = find(module)
    if module == "tripoint":
        return [name for name in dir(thing) if not name.startswith("_")]
    if module == "tripoint.plugin.rules":
        own = [
            n for n, value in vars(thing).items() if (getattr(value, "__module__", "") or "").startswith(thing.__name__)
        ]
        return sorted(name for name in own if not name.startswith("_"))
    return sorted(thing.__all__)


def find(path: str) -> Any:
    """The object of a dotted path, of which as much as there is of modules is imported."""
    parts, thing = path.split("."), None
    for i in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        break
    for part in parts[i:]:
        thing = getattr(thing, part)
    return thing


def described() -> dict[int, str]:
    """For each public object the path under which it is described."""
    out: dict[int, str] = {}
    for module in PUBLIC:
        for name in names_of(module):
            out.setdefault(id(find(f"{module}.{name}")), f"{module}.{name}")
    return out


def entries(module: str) -> str:
    """Every public name of a module as reStructuredText, functions by the family that defines them."""
    paths = described()
    groups: dict[str, list[str]] = {}
    for name in names_of(module):
        path = f"{module}.{name}"
        thing = find(path)
        first = paths[id(thing)]
        group, text = ("elsewhere", _pointer(path, first)) if first != path else (_family(thing), _entry(path, thing))
        groups.setdefault(group, []).append(text)
    order = [*FAMILIES]
    ranked = sorted(
        groups.items(), key=lambda item: (order.index(item[0]) if item[0] in order else len(order), item[0])
    )
    heads = [f".. rubric:: {FAMILIES.get(name, name.strip('_').capitalize())}\n\n" for name, _ in ranked]
    return "\n".join(
        (head if len(ranked) > 2 else "") + "\n".join(texts) for head, (_, texts) in zip(heads, ranked, strict=True)
    )


def _family(thing: Any) -> str:
    """What stands together: classes, constants, modules, and functions by the module that defines them."""
    if isinstance(thing, ModuleType):
        return "modules"
    if inspect.isclass(thing):
        return "classes"
    if not inspect.isroutine(thing):
        return "constants"
    return (getattr(thing, "__module__", "") or "").rpartition(".")[2]


def _entry(path: str, thing: Any) -> str:
    if inspect.isclass(thing):
        members = [n for n, value in vars(thing).items() if not n.startswith("_") and getattr(value, "__doc__", None)]
        members = [n for n in members if inspect.isroutine(vars(thing)[n]) or isinstance(vars(thing)[n], property)]
        listed = f"   :members: {', '.join(members)}\n" if members else ""
        return f".. autoclass:: {path}\n{listed}"
    if inspect.isroutine(thing):
        return f".. autofunction:: {path}\n"
    return f".. py:data:: {path}\n\n   {said(path, thing)}\n"


def said(path: str, thing: Any) -> str:
    """What a constant or a module is, in a sentence; empty where nobody knows."""
    if path in SAID:
        return SAID[path]
    if isinstance(thing, ModuleType):
        return (thing.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    if isinstance(thing, DType):
        kind = f"{thing.family} dtype" if thing.family else f"opaque dtype, read as `tripoint.{thing.plain}`"
        return f"The {kind.replace('_', ' ')} of {thing.bits} bits."
    if isinstance(thing, DTypeClass):
        return f"The class of the dtypes {', '.join(d.name for d in dtypes_in(thing))}."
    if isinstance(thing, Layout):
        return f"The layout of that name; its tensors {'have' if thing.views else 'have no'} views."
    if isinstance(thing, Backend):
        return f"What the entry point names: the backend of {' and '.join(map(str, thing.patterns))}."
    if isinstance(thing, DTypeRule):
        return "A rule of dtypes. " + (type(thing).__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    return ""


def _pointer(path: str, first: str) -> str:
    return f".. py:data:: {path}\n\n   The same as `{first}`.\n"


def fill(app: object, docname: str, source: list[str]) -> None:
    """Put the entries in the place of the blocks that ask for them."""

    def made(match: re.Match[str]) -> str:
        asked = match["modules"].split()
        return "\n\n".join(f"````{{eval-rst}}\n{entries(module)}\n````" for module in asked)

    source[0] = _FENCE.sub(made, source[0])


def escape(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with code in backticks: signs that reStructuredText reads otherwise are text."""
    for i, line in enumerate(lines):
        parts = re.split(r"(``.+?``|`.+?`)", line)
        parts[::2] = [re.sub(r"(?<!^)\*|\||(?<=\w)_(?!\w)", r"\\\g<0>", text) for text in parts[::2]]
        lines[i] = "".join(parts)


def unlink(app: object, doctree: Any) -> None:
    """In a signature ``bool`` is Python's, and no link to `tripoint.bool`."""
    for node in list(doctree.findall(pending_xref)):
        if node.get("reftype") == "class" and hasattr(builtins, node.get("reftarget", "")):
            node.replace_self(Text(node["reftarget"]))


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", escape, priority=100)  # before napoleon reads them
    app.connect("doctree-read", unlink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
