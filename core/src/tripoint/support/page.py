"""Coverage as one HTML page: the table, and filters that a few lines of plain JavaScript apply."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tripoint.explanation.page import code, document, table
from tripoint.support.table import VERDICTS, WORDS, Coverage, Group, summed

NOTES = 3  # that a fold shows; the data has all

STYLE = """
form { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .5rem 1rem; align-items: end;
  margin: 1rem 0; max-width: 80rem; }
form label { display: flex; flex-direction: column; font-size: .85em; color: var(--faint); }
input, select, button { font: inherit; color: var(--ink); background: var(--ground); border: 1px solid var(--line);
  border-radius: 4px; padding: .25rem .4rem; height: 2.1rem; width: 100%; }
button { background: var(--panel); cursor: pointer; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0 1rem; max-width: 60rem; }
dd { margin: 0; }
.skip { position: absolute; left: -99rem; color: var(--part); }
.skip:focus { position: static; }
.scroll { overflow: auto; max-height: 80vh; border: 1px solid var(--line); }
#matrix { font-size: .9em; border-collapse: separate; border-spacing: 0; }
#matrix th, #matrix td { border-width: 0 1px 1px 0; }
#matrix thead th { position: sticky; top: 0; z-index: 1; }
#matrix thead th:first-child { left: 0; z-index: 2; }
#matrix tbody th { position: sticky; left: 0; background: var(--ground); background-clip: padding-box; }
#matrix tbody th code { display: block; max-width: min(24rem, 34vw); width: max-content; }
#matrix thead th { white-space: nowrap; }
#matrix td { min-width: 8rem; }
#matrix details { border-left: 3px solid; padding-left: .4rem; margin: .1rem 0; white-space: nowrap; }
#matrix details p { white-space: normal; contain: inline-size; color: var(--ink); }
#matrix details[open] p { min-width: 15rem; }
.kernel { color: var(--good); } .hooks { color: var(--part); } .decomposition { color: var(--side); }
.fallback { color: var(--warn); } .none { color: var(--bad); } .not-loaded, .untaken { color: var(--faint); }
#mixed { overflow-x: auto; }
[hidden] { display: none !important; }
"""

SCRIPT = """
'use strict';
const value = id => document.getElementById(id).value;
const rows = [...document.querySelectorAll('#matrix tbody tr')];
const heads = [...document.querySelectorAll('#matrix thead th')];
const mixed = [...document.querySelectorAll('#mixed tbody tr')];
function apply() {
  const text = value('operator').trim().toLowerCase();
  const [device, layout, dtype, verdict] = ['device', 'layout', 'dtype', 'verdict'].map(value);
  const used = new Set();
  let shown = 0;
  for (const row of rows) {
    let any = false;
    const named = row.dataset.operator.toLowerCase().includes(text);
    for (const chip of row.querySelectorAll('details')) {
      const d = chip.dataset;
      const fits = named && (!device || d.device === device) && (!layout || d.layout === layout)
        && (!dtype || d.dtypes.split(' ').includes(dtype))
        && (!verdict || (d.verdict === verdict && d.taken === 'true'));
      chip.hidden = !fits;
      if (fits) { any = true; used.add(chip.parentElement.cellIndex); }
    }
    row.hidden = !any;
    shown += any;
  }
  for (const head of heads) {
    const off = head.cellIndex > 0 && !used.has(head.cellIndex);
    head.hidden = off;
    for (const row of rows) row.cells[head.cellIndex].hidden = off;
  }
  for (const row of mixed) row.hidden = !row.cells[0].textContent.toLowerCase().includes(text);
  document.getElementById('shown').textContent = shown + ' of ' + rows.length + ' operators';
  document.getElementById('nothing').hidden = shown > 0;
  document.querySelector('.scroll').hidden = !shown;
}
document.querySelector('form').addEventListener('input', apply);
document.querySelector('form').addEventListener('submit', event => event.preventDefault());
document.querySelector('form').addEventListener('reset', () => setTimeout(apply));
apply();
"""


def page(c: Coverage) -> str:
    """The whole page."""
    counted = ", ".join(f"{n} {verdict}" for verdict, n in c.counts().items() if n)
    said = "".join(f'<p class="faint">{escape(remark)}</p>\n' for remark in c.remarks())
    meant = "".join(
        f'<dt class="{_kind(word)}">{escape(word)}</dt><dd>{escape(m)}.</dd>\n' for word, m in WORDS.items()
    )
    body = (
        f"<main>\n<h1>Coverage</h1>\n<p>{len(c.operators)} operators on {len(c.places)} points: "
        f"{escape(counted) or 'nothing to show'}.</p>\n"
        f"<details><summary>What the words mean</summary>\n<dl>\n{meant}</dl>\n</details>\n"
        f'{_filters(c)}<p id="shown" role="status"></p>\n<a class="skip" href="#behind">skip the table</a>\n'
        '<p id="nothing" hidden>Nothing fits. Loosen a filter, or show everything.</p>\n'
        '<div class="scroll" role="region" aria-label="operators by points" tabindex="0">\n'
        f'{_matrix(c)}</div>\n<div id="behind" tabindex="-1">\n{said}{_mixed(c)}</div>\n</main>'
    )
    return document("Tripoint: coverage", body, style=STYLE, script=SCRIPT)


def _filters(c: Coverage) -> str:
    used = [v for v in VERDICTS if any(cell.verdict == v for cell in c.cells)]
    axes = {
        "device": [p.device for p in c.places],
        "layout": [p.layout for p in c.places],
        "dtype": [p.dtype for p in c.places],
        "verdict": used,
    }
    selects = "".join(_select(name, dict.fromkeys(values)) for name, values in axes.items())
    return (
        '<form>\n<label>operator <input type="search" id="operator" autocomplete="off" spellcheck="false"></label>\n'
        f'{selects}<button type="reset">show everything</button>\n</form>\n'
    )


def _select(name: str, values: Iterable[str]) -> str:
    options = "".join(f'<option value="{escape(v)}">{escape(v)}</option>' for v in values)
    return f'<label>{name} <select id="{name}"><option value="">any</option>{options}</select></label>\n'


def _matrix(c: Coverage) -> str:
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in c.columns)
    lines = []
    for name in c.operators:
        cells = "".join(
            f"<td>{''.join(_chip(group, column) for group in c.groups(name, column))}</td>" for column in c.columns
        )
        lines.append(f'<tr data-operator="{escape(name)}"><th scope="row">{code(name)}</th>{cells}</tr>\n')
    return (
        f'<table id="matrix">\n<thead><tr><th scope="col">operator</th>{heads}</tr></thead>\n'
        f"<tbody>\n{''.join(lines)}</tbody>\n</table>\n"
    )


def _kind(verdict: str) -> str:
    """The class of a verdict, which gives it its colour."""
    return verdict.replace(" ", "-") if verdict in VERDICTS else "untaken"


def _chip(group: Group, column: str) -> str:
    """Cells that say the same: the verdict and the dtypes, and what computes behind a fold."""
    cell = group.cell
    verdict = cell.word if cell.taken else "not taken"
    kind = _kind(cell.verdict) if cell.taken else "untaken"
    dtypes = "" if column.endswith(f".{cell.dtype}") else f" <small>{escape(summed(list(group.dtypes)))}</small>"
    made = ", ".join(s for s in (cell.kernel, cell.provider, cell.where) if s)
    more = [f"and {len(group.notes) - NOTES} more"] if len(group.notes) > NOTES else []
    limit = f"of shapes it takes: {cell.limit}" if cell.limit else ""
    inside = "".join(f"<p>{escape(line)}</p>" for line in (made, limit, *group.notes[:NOTES], *more) if line)
    return (
        f'<details class="{kind}" data-device="{escape(cell.device)}" data-layout="{escape(cell.layout)}" '
        f'data-dtypes="{escape(" ".join(group.dtypes))}" data-verdict="{cell.verdict}" '
        f'data-taken="{"true" if cell.taken else "false"}"><summary>{verdict}{dtypes}</summary>{inside}</details>'
    )


def _mixed(c: Coverage) -> str:
    if not c.mixed:
        return ""
    rows = [(m.operator, m.pattern, m.kernel, m.provider, m.where, m.limit) for m in c.mixed]
    made = table(("operator", "arguments", "kernel", "provider", "where", "shapes"), rows)
    return f'<h2>Kernels on several points</h2>\n<div id="mixed">{made}</div>\n'
