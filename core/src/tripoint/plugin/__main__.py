"""``python -m tripoint.plugin``: the kernels that a backend should have first, by family, as they are called."""

from __future__ import annotations

import os
import sys
import textwrap

import tripoint  # noqa: F401 - declares the operators
from tripoint.plugin import kernel_signature, minimal
from tripoint.schema import rows

_HEAD = """\
A kernel is a function over payloads: operands by position, as they are (not broadcast, of any shape, (0,) and () among them),
everything else by keyword, axes counted from 0. Operands come cast to the dtype that is computed in, unless the kernel names
`target`, the key of the result: then they come uncast, and the kernel casts. Kernels of creation and of conversions name it,
and those that mix dtypes, such as a sum of int32 in int64.
What must be refused, and by which error, is under `Raises` in help(tripoint.<operator>). The core checks dtypes and axes before
a kernel runs, and shapes when it raises; one that would not raise asks for that with check_first=True.
"""


def main() -> None:
    """Print the kernels that a backend should have first, by family, as they are called."""
    print(_HEAD)
    families: dict[str, list[str]] = {}
    for name in minimal():
        families.setdefault(rows[name].kind, []).append(name)
    for family, names in families.items():
        print(f"{family}:")
        for name in names:
            doc = (rows[name].body.__doc__ or "").split("\n")[0]
            print(f"  {kernel_signature(name)}", textwrap.indent(textwrap.fill(doc, 100), "      "), sep="\n")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
