"""Every Python block of the documentation runs.

The blocks of one file run in sequence, in one namespace and one process, as a reader who types them in would do.
A block with the line `<!-- no-run -->` just before it is skipped, and pytest counts it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("core/*.md"),
        *ROOT.glob("plugins/*/*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]
)
FENCE = re.compile(r"(?P<indent>[ ]*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)")
NO_RUN = "<!-- no-run -->"


@dataclass(frozen=True)
class Block:
    """A fenced Python block: the number of its first line, counted from 1, its lines, and whether it is to run."""

    line: int
    lines: tuple[str, ...]
    runs: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks of `text` whose language is python."""
    found: list[Block] = []
    before = ""
    fence: re.Match[str] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = FENCE.fullmatch(line)
        if fence is None:
            if match:
                fence, body = match, []
            elif line.strip():
                before = line.strip()
        elif match and match["ticks"].startswith(fence["ticks"]) and not match["info"].strip():
            if fence["info"].split() == ["python"]:
                indent = len(fence["indent"])
                lines = tuple(item[indent:] for item in body)
                found.append(Block(number - len(body), lines, before != NO_RUN))
            fence, before = None, ""
        else:
            body.append(line)
    if fence is not None:
        raise ValueError("a fenced block is not closed")
    return found


def script(found: list[Block]) -> str:
    """One program of the blocks that run, each line where it stands in its file, so that tracebacks point there."""
    lines: list[str] = []
    for block in found:
        if block.runs:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.lines
    return "\n".join(lines) + "\n"


BLOCKS = {path.relative_to(ROOT).as_posix(): blocks(path.read_text(encoding="utf-8")) for path in FILES}


def test_readme_has_a_block_that_runs() -> None:
    assert any(block.runs for block in BLOCKS["README.md"])


@pytest.mark.parametrize("name", [name for name, found in BLOCKS.items() if any(block.runs for block in found)])
def test_blocks_run(name: str, tmp_path: Path) -> None:
    program = "import sys; exec(compile(sys.stdin.read(), sys.argv[1], 'exec'), {'__name__': '__main__'})"
    # The folder is a fresh one: a block may write files, and sees no others.
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", "-c", program, str(ROOT / name)],
        input=script(BLOCKS[name]),
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    "where", [f"{name}:{block.line}" for name, found in BLOCKS.items() for block in found if not block.runs]
)
def test_block_marked_no_run(where: str) -> None:
    pytest.skip(f"{where} is marked no-run")


def test_blocks_are_found_with_their_lines() -> None:
    text = "text\n```python\na = 1\n```\n\n<!-- no-run -->\n```python\nb\n```\n```bash\nls\n```\n"
    text += "  ```python\n  c = a\n  ```\n"
    found = blocks(text)
    assert [(block.line, block.lines, block.runs) for block in found] == [
        (3, ("a = 1",), True),
        (8, ("b",), False),
        (14, ("c = a",), True),
    ]
    assert script(found).splitlines()[2] == "a = 1"
    assert script(found).splitlines()[13] == "c = a"
    assert "b" not in script(found)


def test_a_failing_block_is_named_by_its_line() -> None:
    source = script(blocks("text\n\n```python\n1 / 0\n```\n"))
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(source, "page.md", "exec"), {})
    assert caught.traceback[-1].lineno + 1 == 4
