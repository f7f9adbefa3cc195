"""The documentation runs, and says what there is.

Python blocks of one file run in sequence, in one namespace and one process, as a reader who types them in would do; so do
the bash blocks that begin with the command ``tripoint``. A block with the line `<!-- no-run -->` just before it is left out.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tripoint as tp
from tripoint.tensor import DeclaredAttribute

pytestmark = pytest.mark.interpreters

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
    """A fenced block: its language, the number of its first line, counted from 1, its lines, and whether it is to run."""

    language: str
    line: int
    lines: tuple[str, ...]
    runs: bool


def blocks(text: str) -> list[Block]:
    """The fenced blocks of `text` in Python, and those in bash that begin with our command."""
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
            indent = len(fence["indent"])
            lines = tuple(item[indent:] for item in body)
            language = fence["info"].strip()
            if language == "python" or (language == "bash" and lines and lines[0].startswith("tripoint ")):
                found.append(Block(language, number - len(body), lines, before != NO_RUN))
            fence, before = None, ""
        else:
            body.append(line)
    if fence is not None:
        raise ValueError("a fenced block is not closed")
    return found


def script(found: list[Block], language: str = "python") -> str:
    """One program of the blocks that run, each line where it stands in its file, so that tracebacks point there."""
    lines: list[str] = []
    for block in found:
        if block.runs and block.language == language:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.lines
    return "\n".join(lines) + "\n"


BLOCKS = {path.relative_to(ROOT).as_posix(): blocks(path.read_text(encoding="utf-8")) for path in FILES}


def having(language: str) -> list[str]:
    """The files that have a block of a language that runs."""
    return [name for name, found in BLOCKS.items() if any(b.runs and b.language == language for b in found)]


@pytest.mark.parametrize("name", having("python"))
def test_blocks_run(name: str, tmp_path: Path) -> None:
    program = "import sys; exec(compile(sys.stdin.read(), sys.argv[1], 'exec'), {'__name__': '__main__'})"
    # The folder is a fresh one: a block may write files, and sees no others.
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", "-c", program, str(ROOT / name)],
        input=script(BLOCKS[name]),
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to run the commands")
@pytest.mark.parametrize("name", having("bash"))
def test_commands_run(name: str, tmp_path: Path) -> None:
    command = tmp_path / "bin" / "tripoint"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tripoint "$@"\n')
    command.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script(BLOCKS[name], "bash")],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]])},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"


def test_what_must_run_does() -> None:
    assert any(b.runs for b in BLOCKS["README.md"] if b.language == "python")
    assert any(b.runs for b in BLOCKS["docs/command_line.md"] if b.language == "bash")


def test_blocks_are_found_with_their_lines() -> None:
    text = "text\n```python\na = 1\n```\n\n<!-- no-run -->\n```python\nb\n```\n```bash\nls\n```\n"
    text += "  ```python\n  c = a\n  ```\n```bash\ntripoint ops\ntripoint plugins\n```\n"
    found = blocks(text)
    assert [(block.language, block.line, block.lines, block.runs) for block in found] == [
        ("python", 3, ("a = 1",), True),
        ("python", 8, ("b",), False),
        ("python", 14, ("c = a",), True),
        ("bash", 17, ("tripoint ops", "tripoint plugins"), True),
    ]
    assert script(found).splitlines()[2] == "a = 1"
    assert script(found).splitlines()[13] == "c = a"
    assert "b" not in script(found)
    assert script(found, "bash").split() == ["tripoint", "ops", "tripoint", "plugins"]


def test_a_failing_block_is_named_by_its_line() -> None:
    source = script(blocks("text\n\n```python\n1 / 0\n```\n"))
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(source, "page.md", "exec"), {})
    assert caught.traceback[-1].lineno + 1 == 4


# The site ------------------------------------------------------------------------------------------------------------

#: the modules whose names are public; those of `tripoint` itself are what ``dir`` shows.
PUBLIC = [
    "tripoint",
    "tripoint.nn",
    "tripoint.errors",
    "tripoint.plugins",
    "tripoint.memory",
    "tripoint.layouts",
    "tripoint.streams",
    "tripoint.support",
    "tripoint.explanation",
    "tripoint.plugin",
    "tripoint.conformance",
    "tripoint.scaffold",
    "tripoint.sparse",
    "tripoint_dense_cpu",
    "tripoint_sparse_coo",
    "tripoint_quantized",
    "tripoint_blocked",
    "tripoint_cuda_cupy",
]


def public(module: str) -> dict[str, Any]:
    """The public names of a module with what they are."""
    thing: Any = tp.sparse if module == "tripoint.sparse" else importlib.import_module(module)
    names: Iterable[str] = dir(tp) if module == "tripoint" else thing.__all__
    return {name: getattr(thing, name) for name in names if not name.startswith("_")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as strictly as it can be: a warning is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(out / "kept")]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(out / "html")], capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


def test_the_site_builds_and_asks_nobody(site: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    assert len(pages) > 15
    loaded = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc=["'](?:https?:)?//|<link[^>]*\shref=["'](?:https?:)?//""")
    assert not [found for page in pages for found in loaded.findall(page)]
    styles = [style.read_text(encoding="utf-8") for style in site.rglob("*.css")]
    assert not [
        found for style in styles for found in re.findall(r"""(?:url\(|@import\s*)["']?(?:https?:)?//.*""", style)
    ]


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)  # four lines of text, then names, compressed
    listed = {line.split(" ", 1)[0] for line in zlib.decompress(inventory[4]).decode().splitlines()}
    for module in PUBLIC:
        found = public(module)
        assert found, module
        assert not [f"{module}.{name}" for name in found if f"{module}.{name}" not in listed]


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_function_and_class_is_documented(module: str) -> None:
    found = public(module)
    functions = [
        name for name, thing in found.items() if inspect.isroutine(thing) and not (thing.__doc__ or "").strip()
    ]
    # Of a class its own docstring: one without would show its parent's.
    classes = [name for name, thing in found.items() if inspect.isclass(thing) and not vars(thing).get("__doc__")]
    assert (functions, classes) == ([], [])


#: what classes of Python itself have, and what a tensor has only to say how it is spelled here.
INHERITED = (BaseException, OSError, AttributeError, ImportError, dict, tuple, str, int)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_attribute_is_in_the_reference_or_described_by_its_class(module: str, site: Path) -> None:
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    listed = {".".join(line.split(" ", 1)[0].split(".")[-2:]) for line in inventory.splitlines()}
    missing = []
    for name, thing in public(module).items():
        if not inspect.isclass(thing):
            continue
        said = " ".join(vars(kind).get("__doc__") or "" for kind in thing.__mro__)
        own = {*dir(thing), *getattr(thing, "__annotations__", ())} - {a for kind in INHERITED for a in dir(kind)}
        for attribute in own:
            elsewhere = isinstance(vars(thing).get(attribute), DeclaredAttribute)
            known = f"{thing.__name__}.{attribute}" in listed or re.search(rf"\b{attribute}\b", said)
            if not attribute.startswith("_") and not elsewhere and not known:
                missing.append(f"{name}.{attribute}")
    assert sorted(missing) == []


def test_constants_and_modules_say_what_they_are() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        reference = importlib.import_module("reference")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    for module in PUBLIC:
        for name, thing in public(module).items():
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                assert reference.said(f"{module}.{name}", thing), f"{module}.{name}"


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    names = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert not [name for name in sorted(names) if f"\n{name}\n" not in index]


def test_what_is_planned_is_what_the_page_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## What is not built yet\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", section.partition(".")[0])) == tp._PLANNED
    for name in tp._PLANNED:
        with pytest.raises(AttributeError, match="planned"):
            getattr(tp, name)
