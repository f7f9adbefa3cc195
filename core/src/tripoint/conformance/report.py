"""The verdicts of a run, as text, JSON, JUnit XML and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tripoint import dtypes
from tripoint.conformance.script import ConformanceFailure, printable

__all__ = ["VERDICTS", "Report", "Verdict"]

#: what can come of an operator, the worst first.
VERDICTS = ("fail", "blocked", "known", "pass", "unsupported")
_WORDS = {
    "pass": "pass",
    "unsupported": "unsupported as declared",
    "known": "fails as known",
    "blocked": "blocked",
    "fail": "FAIL",
}
#: a fault that several dtypes have is told once, whatever they are called in its words.
_DTYPE = re.compile(rf"\b({'|'.join(dtypes.PLAIN)})\b")
#: neither do the numbers make another fault, of which each dtype has its own, nor their classes; the line of a kernel does.
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?j?\b(?! of )|(?<=')(?:int|float|complex)(?=')")
_COUNTED = {**_WORDS, "pass": "passed", "fail": "failed", "unsupported": "unsupported", "known": "failed as known"}


def of_any_dtype(text: str) -> str:
    """What is said of one dtype, as it is said of any."""
    return _DTYPE.sub("*", text)


class Verdict:
    """What came of one operator in one tier.

    Attributes:
        tier, operator: which.
        verdict: ``pass``, ``unsupported``, ``known`` (a failure that the author knows of), ``fail`` or ``blocked``.
        reason: why, in one line; of a pass what it does without.
        failures: every `ConformanceFailure`.
        passed: how many checks passed.
    """

    __slots__ = ("failures", "operator", "passed", "reason", "tier", "verdict")

    def __init__(
        self,
        tier: int,
        operator: str,
        verdict: str,
        reason: str = "",
        failures: Sequence[ConformanceFailure] = (),
        passed: int = 0,
    ) -> None:
        self.tier = tier
        self.operator = operator
        self.verdict = verdict
        self.reason = printable(" ".join(reason.split()))
        self.failures = tuple(failures)
        self.passed = passed

    def as_dict(self) -> dict[str, Any]:
        """The verdict as data."""
        return {
            "tier": self.tier,
            "operator": self.operator,
            "verdict": self.verdict,
            "reason": self.reason,
            "passed": self.passed,
            "failures": [
                {"dtype": f.dtype, "what": f.what, "compared": f.compared, "reproducer": f.reproducer}
                for f in self.failures
            ],
        }

    def details(self) -> str:
        """The failures with a reproducer each: one per kind of fault, with the dtypes that have it."""
        kinds: dict[str, list[ConformanceFailure]] = {}
        for failure in self.failures:
            kinds.setdefault(_NUMBER.sub("*", of_any_dtype(failure.what)), []).append(failure)
        shown = [
            min(alike, key=lambda f: f.dtype != "float32").text(tuple(dict.fromkeys(f.dtype for f in alike)))
            for alike in kinds.values()
        ]
        return "\n".join(shown) or self.reason

    def __repr__(self) -> str:
        return f"<{self.operator}, tier {self.tier}: {_WORDS[self.verdict]}{': ' + self.reason if self.reason else ''}>"


class Report:
    """Every verdict of a run.

    Attributes:
        backend: the name of the point.
        provider: the distribution that provides it, with its version.
        preferred: operators whose kernels others have there, by these distributions, since the user prefers them.
        verdicts: one for each operator and tier.
    """

    __slots__ = ("backend", "preferred", "provider", "verdicts")

    def __init__(
        self,
        backend: str,
        provider: str,
        verdicts: Sequence[Verdict],
        preferred: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.backend = backend
        self.provider = provider
        self.preferred = dict(preferred or {})
        self.verdicts = tuple(verdicts)

    @property
    def ok(self) -> bool:
        """Whether nothing fails and nothing is blocked."""
        return not any(v.verdict in ("fail", "blocked") for v in self.verdicts)

    @property
    def failures(self) -> tuple[ConformanceFailure, ...]:
        """Every failure."""
        return tuple(f for v in self.verdicts for f in v.failures)

    def counts(self) -> dict[str, int]:
        """How many verdicts of each kind there are."""
        return {name: sum(v.verdict == name for v in self.verdicts) for name in VERDICTS}

    def of(self, operator: str) -> str:
        """The verdict on an operator over all tiers: the worst that it got.

        A pass counts more than what is unsupported: an operator without gradients here still passes.
        """
        got = {v.verdict for v in self.verdicts if v.operator == operator}
        return next((name for name in VERDICTS if name in got), "unsupported")

    def _providers(self) -> str:
        preferred = [f"{name} for {', '.join(operators)}" for name, operators in self.preferred.items()]
        return "; preferred: ".join([self.provider, *preferred])

    def text(self) -> str:
        """For reading: the failures with their reproducers, what is not supported and why, and a line of counts."""
        lines = [f"conformance of {self.backend} ({self._providers()})"]
        for v in self.verdicts:
            if v.verdict == "fail":
                lines += ["", f"FAIL  tier {v.tier}  {v.operator}", v.details()]
        for kind in ("blocked", "known", "unsupported"):
            grouped: dict[str, list[str]] = {}
            for v in self.verdicts:
                if v.verdict == kind:
                    grouped.setdefault(v.reason, []).append(f"{v.operator} ({v.tier})")
            if grouped:
                lines += ["", f"{_WORDS[kind]}:"]
            lines += [f"  {reason}: {', '.join(names)}" for reason, names in grouped.items()]
        counts = ", ".join(f"{n} {_COUNTED[name]}" for name, n in self.counts().items() if n)
        return "\n".join([*lines, "", counts or "nothing was checked", ""])

    def json(self) -> str:
        """For programs."""
        made = {
            "backend": self.backend,
            "provider": self.provider,
            "preferred": {name: [*operators] for name, operators in self.preferred.items()},
            "ok": self.ok,
            "counts": self.counts(),
            "verdicts": [v.as_dict() for v in self.verdicts],
        }
        return json.dumps(made, indent=2)

    def junit(self) -> str:
        """For continuous integration: one test case per operator and tier."""
        from xml.sax.saxutils import escape, quoteattr

        counts = self.counts()
        skipped = counts["unsupported"] + counts["known"] + counts["blocked"]
        out = ['<?xml version="1.0" encoding="utf-8"?>']
        out.append(
            f'<testsuite name={quoteattr("conformance " + self.backend)} tests="{len(self.verdicts)}" '
            f'failures="{counts["fail"]}" skipped="{skipped}" errors="0">'
        )
        for v in self.verdicts:
            case = f"  <testcase classname={quoteattr(f'{self.backend}.tier{v.tier}')} name={quoteattr(v.operator)}"
            if v.verdict == "pass":
                out.append(case + "/>")
            elif v.verdict == "fail":
                text = escape(printable(v.details()))
                out.append(f"{case}>\n    <failure message={quoteattr(v.reason)}>{text}</failure>\n  </testcase>")
            else:
                message = quoteattr(f"{_WORDS[v.verdict]}: {v.reason}")
                out.append(f"{case}>\n    <skipped message={message}/>\n  </testcase>")
        return "\n".join([*out, "</testsuite>", ""])

    def markdown(self) -> str:
        """For documentation: one row per operator, one column per tier."""
        tiers = sorted({v.tier for v in self.verdicts})
        table: dict[str, dict[int, Verdict]] = {}
        for v in self.verdicts:
            table.setdefault(v.operator, {})[v.tier] = v
        notes: dict[str, int] = {}

        def cell(v: Verdict | None) -> str:
            if v is None:
                return ""
            mark = "" if not v.reason else f" [{notes.setdefault(v.reason, len(notes) + 1)}]"
            return _WORDS[v.verdict].replace(" as declared", "") + mark

        lines = [f"# Conformance of `{self.backend}` ({self._providers()})", ""]
        lines.append("| operator | " + " | ".join(f"tier {t}" for t in tiers) + " |")
        lines.append("| --- |" + " --- |" * len(tiers))
        for name in sorted(table):
            lines.append(f"| `{name}` | " + " | ".join(cell(table[name].get(t)) for t in tiers) + " |")
        lines += ["", *[f"{i}. {reason}".replace("\n", " ") for reason, i in notes.items()], ""]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<conformance of {self.backend}: {', '.join(f'{n} {k}' for k, n in self.counts().items() if n)}>"
