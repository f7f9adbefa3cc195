"""The command ``tripoint``, also as ``python -m tripoint``. It needs typer and rich, the extra ``cli``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

#: exit statuses: all is well; something was found that is not; what was asked for cannot be answered.
OK, FOUND, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status: 0, or 1 for findings and failures, or 2 for what cannot be answered."""
    from importlib.util import find_spec

    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        print(
            f"tripoint: the command line needs {' and '.join(missing)}: pip install typer rich, "
            'or with tripoint itself: pip install "tripoint[cli]"',
            file=sys.stderr,
        )
        return USAGE
    from tripoint.cli.commands import app
    from tripoint.errors import TripointError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is no reason to fail
    try:
        app(args=None if argv is None else list(argv), prog_name="tripoint")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else OK if ended.code is None else FOUND
    except TripointError as error:
        print(f"tripoint: {error}", file=sys.stderr)
        return USAGE
    return OK
