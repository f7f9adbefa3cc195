"""HTML pages that need nothing but themselves: one file, no fonts, no requests, light and dark, readable from file://."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["code", "document", "table"]

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --faint: #59636e; --line: #d1d9e0; --panel: #f6f8fa;
  --good: #1a7f37; --part: #0969da; --side: #8250df; --warn: #9a6700; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ground: #0f1318; --ink: #e6edf3; --faint: #9aa5b1; --line: #343b44;
  --panel: #171d24; --good: #56d364; --part: #79b8ff; --side: #c297ff; --warn: #e3b341; --bad: #ff8e86; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; max-width: 60rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 4px; padding: .75rem; overflow: auto; }
table { border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left; vertical-align: top; }
thead th { background: var(--panel); }
.faint { color: var(--faint); }
summary { cursor: pointer; }
:focus-visible { outline: 2px solid var(--part); outline-offset: 2px; }
"""


def code(text: object) -> str:
    """Text as code."""
    return f"<code>{escape(str(text))}</code>"


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of escaped cells, without the columns that are empty."""
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    heads, rows = tuple(heads[i] for i in kept), [tuple(row[i] for i in kept) for row in rows]
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page around a body of HTML."""
    code = f"<script>{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n"
        f"<body>\n{body}\n{code}</body>\n</html>\n"
    )
