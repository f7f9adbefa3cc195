"""Whether the running core lies in the range that a plugin's metadata states. What is not understood is said, not guessed.

Read are the comparisons of release, pre-release, post-release and development versions. Not read are epochs, direct
references (``tripoint @ https://...``) and environment markers: such a requirement keeps no plugin from loading.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:(?:-(?P<post_a>\d+))|(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*)))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*(?P<rest>@[^;]*|\([^)]*\)|[^;@]*)(?:;(?P<marker>.*))?"
)
_CLAUSE = re.compile(r"(?P<sign>===|==|~=|!=|<=|>=|<|>)\s*(?P<version>\S+)")
_QUOTED = re.compile(r"(['\"]).*?\1")
_PHASES = {"a": 1, "alpha": 1, "b": 2, "beta": 2}
_FINAL = (4, 0)
_LAST = sys.maxsize

Release = tuple[int, ...]
Parsed = tuple[Release, tuple[int, int], int, int]


def core_version() -> str:
    """Version of the core that runs; metadata may speak of another one that was installed meanwhile."""
    return str(sys.modules["tripoint"].__version__)


def core_requirements(requires: Iterable[str]) -> tuple[list[str], list[str]]:
    """What ``Requires-Dist`` says of the core: the clauses, such as ``>=0.1``, and what is not understood."""
    clauses: list[str] = []
    unread: list[str] = []
    for line in requires:
        found = _REQUIREMENT.fullmatch(line.strip())
        if found is None or found["name"].lower() != "tripoint":
            continue
        rest, marker = found["rest"].strip().strip("()").strip(), (found["marker"] or "").strip()
        variables = re.findall(r"\w+", _QUOTED.sub("", marker))
        if "extra" in variables and "or" not in variables:
            continue  # asked for by who installed the extra
        for clause in filter(None, (c.strip() for c in rest.split(","))):
            understood = not marker and satisfies("0", clause) is not None
            (clauses if understood else unread).append(clause if understood else line.strip())
    return clauses, list(dict.fromkeys(unread))


def requirement(line: str) -> tuple[str, list[str]] | None:
    """Name and clauses of a line of ``Requires-Dist``; ``None`` where a marker says when it holds, or where it is not read."""
    found = _REQUIREMENT.fullmatch(line.strip())
    if found is None or found["marker"]:
        return None
    clauses = ["".join(c.split()) for c in found["rest"].strip().strip("()").split(",") if c.strip()]
    return (found["name"], clauses) if all(satisfies("0", c) is not None for c in clauses) else None


def satisfies(version: str, clause: str) -> bool | None:
    """Whether a version fulfils one clause; ``None`` when either is not understood."""
    found = _CLAUSE.fullmatch(clause.strip())
    if found is None:
        return None
    sign, text = found["sign"], found["version"]
    if sign == "===":
        return version == text
    have = _parse(version)
    prefix = text.endswith(".*") and sign in ("==", "!=")
    want = _parse(text[:-2] if prefix else text)
    if have is None or want is None:
        return None
    if prefix:
        return _starts(have[0], _numbers(text[:-2])) is (sign == "==")
    if sign == "~=":
        numbers = _numbers(text)
        return have >= want and _starts(have[0], numbers[:-1]) if len(numbers) > 1 else None
    if sign == "<":  # a pre-release of what is excluded is excluded with it
        return have < want and not (have[0] == want[0] and want[1:] == (_FINAL, -1, _LAST))
    if sign == ">":  # and so is a post-release
        return have > want and not (have[0] == want[0] and have[2] >= 0 and want[1:] == (_FINAL, -1, _LAST))
    return {"==": have == want, "!=": have != want, "<=": have <= want, ">=": have >= want}[sign]


def _parse(text: str) -> Parsed | None:
    """What versions compare by: release, phase, post-release and development number."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    phase, post = found["pre"], found["post"] or found["post_a"]
    pre = (_PHASES.get(phase.lower(), 3), int(found["pre_n"] or 0)) if phase else _FINAL
    if found["dev"] and not phase and not post:
        pre = (0, 0)
    return (
        _trimmed(_numbers(found["release"])),
        pre,
        int(found["post_a"] or found["post_n"] or 0) if post else -1,
        int(found["dev_n"] or 0) if found["dev"] else _LAST,
    )


def _numbers(text: str) -> Release:
    """The release of a version as it is written: ``1.20rc1`` is (1, 20)."""
    found = _VERSION.match(text.strip())
    return tuple(map(int, found["release"].split("."))) if found is not None else ()


def _trimmed(release: Release) -> Release:
    while release[1:] and release[-1] == 0:
        release = release[:-1]
    return release


def _starts(release: Release, prefix: Release) -> bool:
    padded = release + (0,) * max(0, len(prefix) - len(release))
    return padded[: len(prefix)] == prefix
