"""``python -m tripoint``: the command ``tripoint``."""

from __future__ import annotations

import sys

from tripoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
