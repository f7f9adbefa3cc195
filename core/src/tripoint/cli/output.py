"""How the commands write: JSON, text or a table, on a standard output stream that is theirs alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["answer", "diverted", "table"]


@contextmanager
def diverted() -> Iterator[None]:
    """What is printed in the block, by a plugin's native code or its subprocesses too, goes to the standard error stream."""
    out = sys.stdout
    out.flush()
    kept = os.dup(1)
    sys.stdout = sys.stderr
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stdout = out
        os.dup2(kept, 1)
        os.close(kept)


def answer(data: Any, text: str, *, as_json: bool, status: int = 0) -> None:
    """Print the one or the other and end the command with a status."""
    if as_json:
        import json

        text = json.dumps(data, indent=2)
    print(text)
    raise typer.Exit(status)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text: folded to the width of a terminal; elsewhere without colours, and every cell on one line."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, emoji=False, width=100_000, color_system=None)
    made = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, show_edge=False, pad_edge=False)
    for head in heads:
        made.add_column(head, overflow="fold")
    for row in rows:
        made.add_row(*row)
    with console.capture() as captured:
        console.print(made)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
