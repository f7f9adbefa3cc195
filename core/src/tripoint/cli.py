"""The command ``tripoint``, in its first form: ``tripoint plugins``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 1 when a plugin is broken, 2 for a bad option (by argparse)."""
    import argparse

    import tripoint

    parser = argparse.ArgumentParser(
        prog="tripoint", description="Tensors on any device, layout and dtype, by plugins."
    )
    parser.add_argument("--version", action="version", version=f"tripoint {tripoint.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    listing = commands.add_parser(
        "plugins", help="what is installed, what it provides, and why something cannot be used"
    )
    listing.add_argument("--load", action="store_true", help="load every plugin and ask for its hardware first")
    listing.add_argument("--json", action="store_true", help="as JSON, for programs")
    options = parser.parse_args(argv)
    if options.load:
        for plugin in tripoint.plugins.found().values():
            if tripoint.plugins.load(plugin):
                tripoint.plugins.probe(plugin)
    if options.json:
        import json

        print(json.dumps(tripoint.plugins.listed(), indent=2))
    else:
        print(tripoint.plugins.report())
    return 1 if any(p.state == "broken" for p in tripoint.plugins.found().values()) else 0


if __name__ == "__main__":
    sys.exit(main())
