"""The command ``tripoint``, also as ``python -m tripoint``. It needs typer and rich, the extra ``cli``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["main"]

#: exit statuses: all is well; something was found that is not, or failed; what was asked for cannot be answered; whoever
#: reads the answer has closed the pipe, as a shell says it of a program that a signal ended.
OK, FOUND, USAGE, UNREAD = 0, 1, 2, 141


def complain(text: str) -> None:
    """Write a line to the standard error stream, if that is open."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(f"tripoint: {text}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status: 0, or 1 for findings and failures, or 2 for what cannot be answered, or 141
    where whoever reads the answer has closed the pipe.
    """
    from importlib.util import find_spec

    if sys.stdout is None:
        complain("the answer cannot be written: the standard output stream is closed")
        return FOUND
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        complain(
            f"the command line needs {' and '.join(missing)}: pip install typer rich, "
            'or with tripoint itself: pip install "tripoint[cli]"'
        )
        return USAGE
    from tripoint.cli.commands import app
    from tripoint.cli.output import unwritten
    from tripoint.errors import TripointError, cleaned

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is no reason to fail
    status = OK
    try:
        app(args=None if argv is None else list(argv), prog_name="tripoint")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else OK if ended.code is None else FOUND
        if isinstance(ended.__context__, BrokenPipeError):  # of the help, which typer prints
            status = UNREAD
    except TripointError as error:
        complain(cleaned(str(error)))
        return USAGE
    except OSError as error:
        return unwritten(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        return unwritten(error)
    return status
