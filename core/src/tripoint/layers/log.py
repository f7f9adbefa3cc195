"""The log of calls that ``TRIPOINT_TRACE=1`` asks for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from tripoint.dispatcher.layer import Layer, standing
from tripoint.errors import clipped, kind_of, shown
from tripoint.keys import Key
from tripoint.modes import Mode
from tripoint.schema import Row
from tripoint.tensor import Tensor

_depth: ContextVar[int] = ContextVar("tripoint_log_depth", default=0)


class Log(Layer, below="autograd"):
    """Writes a line for every call to the standard error stream, its parts indented, when it has come back."""

    name = "log"

    def active(self, mode: Mode, op: Row, keys: tuple[Key, ...]) -> bool:
        """In every call of the process."""
        return True

    def beneath(self, mode: Mode) -> Mode:
        """As it is: calls beneath are parts, and logged."""
        return mode

    def build(self, op: Row, next_plan: Callable[..., Any], keys: tuple[Key, ...], below: Mode) -> Callable[..., Any]:
        """A plan that tells of ``next_plan``."""
        by = getattr(next_plan, "label", "")

        def plan(*values: Any) -> Any:
            depth = _depth.get()
            token = _depth.set(depth + 1)
            result = ""
            try:
                out = next_plan(*values)
                result = _said(out)
                return out
            except BaseException as error:
                result = f"raised {kind_of(error)}"
                raise
            finally:
                _depth.reset(token)
                given = ", ".join(_said(v) for v in values)
                _write(clipped(f"tripoint: {'  ' * depth}{op.name}({given}) -> {result}  {by}", 400))

        return plan


def _write(line: str) -> None:
    """A line at once, so that those of threads stay whole; a stream that is closed, full or gone costs no call."""
    stream = sys.stderr
    if stream is not None:
        with suppress(Exception):
            stream.write(f"{line}\n")
            stream.flush()


def _said(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value._key.base.name} {value.shape}"
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return f"[{', '.join(_said(v) for v in value)}]"
    return shown(value)


def start() -> None:
    """Log from now on."""
    standing.append(Log())
