"""The conformance kit on a vault that races: each fault is found by the program that is meant for it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tripoint import conformance
from tripoint.allocators import Block

DIED = "an operand that died was overwritten while a stream was to read it"
EARLY = "a result was used before its stream had written it"
WRITTEN = "an operand was written while a stream was to read it"

use = Block.use


def _says_nothing(self: Block, queue: Any, *, write: bool = False) -> None:
    pass


def _is_not_kept(self: Block, queue: Any, *, write: bool = False) -> None:
    users = self._users
    use(self, queue, write=write)
    self._users = users


def _only_reads(self: Block, queue: Any, *, write: bool = False) -> None:
    use(self, queue)


def _found() -> set[str]:
    report = conformance.run("vault.strided", tiers=[5], operators=["streams"])
    return {failure.what for failure in report.failures}


def test_a_right_device_does_not_race(vault: ModuleType) -> None:
    assert _found() == set()


@pytest.mark.parametrize(
    ("wrong", "found"),
    [(_says_nothing, {DIED, EARLY, WRITTEN}), (_is_not_kept, {DIED, WRITTEN}), (_only_reads, {WRITTEN})],
    ids=["no use", "not kept", "no write"],
)
def test_a_race_is_found(wrong: Any, found: set[str], vault: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Block, "use", wrong)
    assert found <= _found()


def test_a_queue_that_does_not_wait_is_found(vault: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from tripoint_vault.machine import Queue

    monkeypatch.setattr(Queue, "wait", lambda self, marker: None)
    assert {EARLY, WRITTEN} <= _found()
