"""What plugins stand on: the distributions that they need, and which files Python takes for theirs. Loaded when asked for.

Everything is read from metadata and from the path; no plugin's code is imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.machinery import PathFinder
from importlib.metadata import Distribution
from pathlib import Path
from typing import TypeVar

from tripoint.plugins.discovery import FIRST_PARTY, distributions, installing
from tripoint.plugins.records import Plugin, normalise
from tripoint.plugins.versions import requirement, satisfies

_CORE = "tripoint"
T = TypeVar("T")
#: how bad it is, what was found, and what to do about it.
Line = tuple[str, str, str]


def surroundings(plugins: Iterable[Plugin]) -> Iterator[Line]:
    """What plugins need and is not there, and what stands in the place of their files."""
    around = Installed(sorted(plugins, key=lambda plugin: plugin.name))
    yield from around.unmet()
    yield from around.hidden()


class Installed:
    """Plugins, and everything that is installed, by normalised name."""

    def __init__(self, plugins: list[Plugin]) -> None:
        self.plugins = plugins
        self.found: dict[str, Distribution] = {}
        for dist in distributions():
            name = _asked(partial(_name, dist))
            if name is not None:
                self.found.setdefault(name, dist)

    def unmet(self) -> Iterator[Line]:
        """Distributions that are needed and not installed, or in another version; a line for each."""
        wanted: dict[str, list[tuple[str, str, list[str]]]] = {}
        for plugin in self.plugins:
            for name, clauses in self.needs(plugin):
                wanted.setdefault(normalise(name), []).append((f"{plugin.name} {plugin.version}", name, clauses))
        for key, askers in sorted(wanted.items()):
            have = self.version(key)
            wrong = [a for a in askers if have is None or any(satisfies(have, clause) is False for clause in a[2])]
            if not wrong:
                continue
            who = " and by ".join(f"{who} ({name}{','.join(clauses)})" for who, name, clauses in wrong)
            every = dict.fromkeys(clause for asker in askers for clause in asker[2])
            called = wrong[0][1]
            first_party = key in FIRST_PARTY.values()
            how = installing(key) if first_party else f'pip install "{called}{",".join(every)}"'
            if have is None:
                yield "error", f"{called} is not installed, and needed by {who}", how
            else:
                yield "warning", f"{called} {have} is installed, another version is needed by {who}", how

    def hidden(self) -> Iterator[Line]:
        """Files that Python finds, by the current folder and the path, in the place of those that were installed."""
        here = _asked(os.getcwd)
        names = dict.fromkeys([_CORE])
        for plugin in self.plugins:
            names |= dict.fromkeys([plugin.name, *(normalise(name) for name, _ in self.needs(plugin))])
        for module, own in (pair for name in names for pair in self.modules(name)):
            # What this program finds is why something is broken; what one finds that is started here may be.
            for level, folders, who in (
                ("error", [], "this program"),
                ("warning", [here], "a program that is started here"),
            ):
                spec = PathFinder.find_spec(module, [*filter(None, folders), *sys.path])
                other = spec.origin if spec is not None else None
                if other and os.path.isfile(other) and not os.path.samefile(other, own):
                    what = f"{other} hides {own}: {who} imports it as {module}"
                    yield (
                        level,
                        what,
                        "rename it, or start programs in another folder, or take its folder off PYTHONPATH",
                    )
                    break

    def needs(self, plugin: Plugin) -> list[tuple[str, list[str]]]:
        """Names and clauses of what a plugin requires besides the core, of which its own refusal tells."""
        dist = self.found.get(plugin.name)
        lines = _asked(lambda: list(dist.requires or ())) if dist is not None else None
        read = [requirement(line) for line in lines or ()]
        return [need for need in read if need is not None and normalise(need[0]) != _CORE]

    def version(self, name: str) -> str | None:
        """The version that is installed: ``None`` where none is, empty where it cannot be read, which is another finding."""
        dist = self.found.get(name)
        return _asked(lambda: str(dist.metadata["Version"] or "")) or "" if dist is not None else None

    def modules(self, name: str) -> Iterator[tuple[str, Path]]:
        """Top-level modules of a distribution, and the file of each that is there."""
        if name == _CORE:
            yield _CORE, Path(str(sys.modules[_CORE].__file__))
            return
        dist = self.found.get(name)
        for file in (_asked(lambda: list(dist.files or ())) if dist is not None else None) or ():
            parts = file.parts
            module = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
            if file.suffix == ".py" and module.isidentifier() and (len(parts) == 1 or parts[1:] == ("__init__.py",)):
                where = Path(str(file.locate()))
                if where.is_file():
                    yield module, where


def _name(dist: Distribution) -> str:
    return normalise(getattr(dist, "_normalized_name", None) or dist.metadata["Name"])


def _asked(read: Callable[[], T]) -> T | None:
    """What is read of metadata, of anybody's finders and distributions; ``None`` where that raises."""
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
