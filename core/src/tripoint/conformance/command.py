"""The command ``tripoint conformance``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tripoint.conformance.session import Session
from tripoint.errors import ArgumentError, TripointError

__all__ = ["main"]

#: options of pytest that need its cache.
_CACHED = ("--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first", "--sw", "--stepwise", "--cache")
_NO_PYTEST = (
    "tripoint conformance runs on pytest, which is not installed (pip install pytest); "
    "tripoint.conformance.run('cpu.strided') does without"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the kit by pytest: ``main(["cpu.strided", "--tiers", "0,1"])``; gives the exit status, 2 for a bad call.

    What is not an option of the kit goes to pytest: ``-x``, ``-k matmul``, ``-n 2``.
    """
    import argparse

    parser = argparse.ArgumentParser(
        prog="tripoint conformance",
        description="Check a backend against the contract. Further options go to pytest.",
        epilog="With --json the command prints the report as JSON and nothing else.",
        allow_abbrev=False,  # or --tier would be taken for --tiers
    )
    parser.add_argument("backend", help="its point, such as cpu.strided or cpu.strided.qint8")
    parser.add_argument("--tiers", help="tiers separated by commas, 0 to 6")
    parser.add_argument("--operators", help="operators or patterns separated by commas, such as add,'mylib::*'")
    parser.add_argument("--known-failures", metavar="FILE", help="TOML or JSON file of failures that are known")
    parser.add_argument("--report", action="append", default=[], metavar="FILE", help="write .txt, .json, .xml or .md")
    parser.add_argument("--bench", action="store_true", help="time the operators instead of checking them")
    options, rest = parser.parse_known_args(argv)
    try:
        check_writable(options.report)
        if options.bench:
            _bench(options.backend, options.operators, options.report)
            return 0
        session_of(options.backend, options.tiers, options.operators, options.known_failures)
    except TripointError as error:
        print(f"tripoint conformance: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    try:
        import pytest
    except ModuleNotFoundError:
        print(_NO_PYTEST, file=sys.stderr)
        return 2
    words = ["-p", "tripoint.conformance.plugin", "--pyargs", "tripoint.conformance", "--backend", options.backend]
    for name in ("tiers", "operators", "known_failures"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", value]
    for path in options.report:
        words += ["--conformance-report", path]
    if not any(word.startswith(_CACHED) for word in rest):
        words += ["-p", "no:cacheprovider"]  # which leaves a folder behind
    return min(int(pytest.main([*words, *rest])), 2)


def session_of(backend: str, tiers: str | None, operators: str | None, known_failures: str | None) -> Session:
    """The session that the words of a command line ask for.

    Raises:
        TripointError: one means nothing, or the backend cannot be used.
    """
    numbered: list[Any] = [int(t) if t.strip().isdecimal() else t for t in (tiers or "").split(",")]
    return Session(
        backend,
        tiers=numbered if tiers else None,
        operators=operators.split(",") if operators else None,
        known_failures=known_failures,
    )


def check_writable(paths: Sequence[str]) -> None:
    """Whether reports can be written to files.

    Raises:
        ArgumentError: one cannot.
    """
    for path in paths:
        new = not Path(path).exists()
        try:
            with open(path, "a", encoding="utf-8"):
                pass
        except OSError as error:
            raise ArgumentError(f"the report {path} cannot be written: {error.strerror or error}") from None
        if new:
            Path(path).unlink()


def _bench(backend: str, operators: str | None, reports: Sequence[str]) -> None:
    import json

    from tripoint.conformance.bench import measured, table

    rows = measured(backend, operators.split(",") if operators else None)
    print(table(rows))
    for path in reports:
        text = json.dumps({"backend": backend, "times": rows}, indent=2) if path.endswith(".json") else table(rows)
        Path(path).write_text(f"{text}\n", encoding="utf-8")
