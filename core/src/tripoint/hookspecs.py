"""The four hooks of a plugin. This module imports pluggy and is itself imported when the first plugin loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from tripoint.plugins import Registry

__all__ = ["PROJECT"]

PROJECT = "tripoint"
hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec(firstresult=True)
def tripoint_probe() -> str | None:
    """Say why the hardware cannot be used, or ``None`` when it can. Must be cheap and must not touch a device context."""


@hookspec
def tripoint_register(registry: Registry) -> None:
    """Announce devices, layouts, dtypes, points, kernels and derivatives; committed whole or not at all."""


@hookspec(firstresult=True)
def tripoint_memory_stats() -> dict[str, dict[str, int]] | str | None:
    """For each device by name, bytes ``live``, ``cached``, at ``peak``, or their ``limit``, whichever are counted; a sentence
    that says why nothing is; or ``None``. Without this hook a backend does not count.
    """


@hookspec
def tripoint_shutdown() -> None:
    """Release what the interpreter's end would not."""


def manager() -> pluggy.PluginManager:
    """A plugin manager that knows the hooks; each distribution gets its own, so that hooks reach that plugin alone."""
    import sys

    made = pluggy.PluginManager(PROJECT)
    made.add_hookspecs(sys.modules[__name__])
    return made
