"""``python -m tripoint.support``: the coverage of what is installed, as text, JSON, Markdown or HTML.

``--matrix`` prints the page ``docs/support.md``: what the first-party plugins cover, the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tripoint import plugins
from tripoint.support import coverage, ops

HEAD = """# What works where

Made by `python -m tripoint.support --matrix > docs/support.md`, from the dispatcher's own resolution; a test holds it to that.
`tripoint.coverage()` gives the same for what is installed, as an object, text, JSON, Markdown, or a page with filters:

```python
import tripoint as tp

table = tp.coverage("matmul", devices="cpu")
print(table["matmul", "cpu.sparse_coo.float32"].kernel)
page = table.to_html()
```

All tensors of a call are on the point that heads the column; positions and labels are integers, conditions bool. Optional
operands are there, or the call without them counts. A conversion stands for one: `astype` to float32 or float64, `to` to the
plain dtype, the strided layout or the CPU, whichever the point is not. `tripoint.asarray` and `x.tolist()` also serve points
of plain dtypes on which `from_data` and `to_list` have no kernel, by way of strided tensors. The names
of classes of dtypes are those of the array API standard, with `real` for integers and floats, `numeric` for these and complex
numbers, and `plain` for all.
"""


def matrix() -> str:
    """The page ``docs/support.md``."""
    first = {"tripoint", *plugins.FIRST_PARTY.values()} & set(plugins.found())
    for name in sorted(first):
        plugins.load(plugins.found()[name])
    packages = {"tripoint"}.union(*(plugins.found()[name].packages for name in first))
    known = [o for o in ops() if o.package in packages]
    called = coverage([o.name for o in known if o.called]).of(*first)
    others = coverage([o.name for o in known if not o.called]).of(*first)
    return (
        f"{HEAD}\n{called.to_markdown()}\n## Operators behind others\n\nIn-place forms (`x += y` is `add_`), and those that "
        f"methods and formulas of derivatives are made of.\n\n{others.to_markdown()}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 2 for a bad option (by argparse)."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m tripoint.support", description="Which operator works on which point."
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as Markdown")
    form.add_argument("--html", action="store_true", help="as one HTML page")
    form.add_argument("--matrix", action="store_true", help="the documentation's page of the first-party plugins")
    options = parser.parse_args(argv)
    if options.matrix:
        sys.stdout.write(matrix())
        return 0
    found = coverage(load=True)
    if options.json:
        import json

        print(json.dumps(found.to_dict(), indent=2))
    elif options.markdown or options.html:
        sys.stdout.write(found.to_markdown() if options.markdown else found.to_html())
    else:
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
