"""Toy backends of the running program, taken back after each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tripoint import plugins

sys.path.insert(0, str(Path(__file__).parent))  # for toys.py and faults.py: test modules are imported by their paths


@pytest.fixture(autouse=True)
def registry_kept() -> Iterator[None]:
    yield
    plugins.unregister(None)
    plugins.changed()
