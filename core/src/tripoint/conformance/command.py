"""The command ``tripoint conformance``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tripoint.errors import TripointError

__all__ = ["main"]

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
    )
    parser.add_argument("backend", help="its point, such as cpu.strided or cpu.strided.qint8")
    parser.add_argument("--tiers", help="tiers separated by commas, 0 to 6")
    parser.add_argument("--operators", help="operators separated by commas")
    parser.add_argument("--known-failures", metavar="FILE", help="TOML or JSON file of failures that are known")
    parser.add_argument("--report", action="append", default=[], metavar="FILE", help="write .txt, .json, .xml or .md")
    parser.add_argument("--bench", action="store_true", help="time the operators instead of checking them")
    options, rest = parser.parse_known_args(argv)
    if options.bench:
        from tripoint.conformance.bench import bench

        try:
            print(bench(options.backend, options.operators.split(",") if options.operators else None))
        except TripointError as error:
            print(f"tripoint conformance: {error}", file=sys.stderr)
            return 2
        return 0
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
    return int(pytest.main([*words, *rest]))
