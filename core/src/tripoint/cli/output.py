"""How the commands write: JSON, text or a table, on a standard output stream that is theirs alone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from tripoint.cli import FOUND, UNREAD, complain
from tripoint.errors import cleaned

__all__ = ["answer", "diverted", "is_terminal", "table", "unwritten"]


class _Aside:
    """The standard error stream, or nothing where that is closed, in place of the other one. To close it closes nothing."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream if stream is not None else io.StringIO()

    def write(self, text: str) -> int:
        """Write, where there is somebody to read it."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As `write`."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def close(self) -> None:
        """Nothing: it is not the caller's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def diverted() -> Iterator[None]:
    """What is printed in the block, by a plugin's native code or its subprocesses too, goes to the standard error stream.

    Either stream may be closed: by whoever started the command, or by a plugin in the block, which closes it for itself.
    """
    out, err = sys.stdout, sys.stderr
    _taken(1)
    _taken(2)
    out.flush()
    kept = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    sys.stdout = aside = _Aside(err)
    os.dup2(2, 1)
    try:
        yield
    finally:
        aside.flush()
        for descriptor, copy in kept:
            os.dup2(copy, descriptor)
            os.close(copy)
        sys.stdout, sys.stderr = _open(out, 1), _open(err, 2)


def _taken(descriptor: int) -> None:
    """Let a closed descriptor lead nowhere, or the next file that somebody opens would get it."""
    try:
        os.fstat(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _open(stream: Any, descriptor: int) -> Any:
    if stream is None or not stream.closed:
        return stream
    return open(descriptor, "w", encoding=stream.encoding, errors="backslashreplace", closefd=False)


def answer(data: Any, text: str, *, as_json: bool = False, status: int = 0) -> None:
    """Print the one or the other and end the command with a status: its own, or that of what could not be written."""
    if as_json:
        import json

        text = json.dumps(data, indent=2)
    try:
        print(text)
        sys.stdout.flush()
    except OSError as error:
        status = unwritten(error)
    raise typer.Exit(status)


def unwritten(error: OSError) -> int:
    """Say in one line what could not be written, unless the reader, such as ``head``, has had enough; the exit status."""
    unread = isinstance(error, BrokenPipeError)
    if not unread:
        complain(f"the answer cannot be written: {error.strerror or error}")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # where the interpreter, at its end, writes what is left
    os.close(nowhere)
    return UNREAD if unread else FOUND


def is_terminal() -> bool:
    """Whether tables are folded to a terminal's width."""
    return Console().is_terminal


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text: folded to the width of a terminal; elsewhere without colours, and every cell on one line."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, emoji=False, width=100_000, color_system=None)
    made = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, show_edge=False, pad_edge=False)
    for head in heads:
        made.add_column(head, overflow="fold")
    for row in rows:
        made.add_row(*[" ".join(cleaned(cell).split()) for cell in row])
    with console.capture() as captured:
        console.print(made)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
