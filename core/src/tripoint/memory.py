"""How much memory a device holds: ``tripoint.memory``. A backend that does not count says so, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tripoint import devices, plugins
from tripoint.devices import Device
from tripoint.dtypes import float32
from tripoint.errors import PluginError
from tripoint.keys import intern
from tripoint.layouts import strided
from tripoint.modes import get_mode

__all__ = ["Stats", "stats"]


@dataclass(frozen=True)
class Stats:
    """What the backend of a device says of its memory.

    Attributes:
        device: the device asked about.
        provider: the distribution that was asked, or an empty string.
        supported: whether it counts.
        counts: bytes by name, such as ``live``, ``cached``, ``peak`` and ``limit``, whichever it counts.
        note: why it does not count.
    """

    device: str
    provider: str
    supported: bool
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, such as `json.dumps` takes."""
        return asdict(self)

    def __str__(self) -> str:
        said = ", ".join(f"{name} {count} bytes" for name, count in self.counts.items())
        return f"memory of {self.device}: {said if self.supported else 'not supported'}" + f": {self.note}" * bool(
            self.note
        )


def stats(device: Device | str | None = None) -> Stats:
    """What the backend of one device counts. Its plugin is loaded, no other is.

    Args:
        device: unless named, the device in force.

    Raises:
        DeviceError: unknown.
        PluginError: the device's plugin is broken or blocked, or its answer is none.
    """
    named = plugins.find_device(device) if device is not None else get_mode().device or devices.cpu
    key = intern(named, strided, float32)
    plugin = next((p for p in plugins.found().values() if p.owns(key)), None)
    if plugin is None or plugin.state in ("broken", "blocked"):
        if plugin is not None:
            raise plugins.unusable(plugin, f"the memory of {named}")
        return Stats(str(named), "", False, note="no installed plugin provides its strided tensors")
    if not plugins.load(plugin):
        raise plugins.unusable(plugin, f"the memory of {named}")
    said: Any = None
    reason = plugins.probe(plugin)
    if reason is None:
        try:
            said = plugin.manager.hook.tripoint_memory_stats()
        except Exception as error:
            raise PluginError(
                f"{plugin.name} {plugin.version}: tripoint_memory_stats raised {type(error).__name__}: {error}"
            ) from error
    note = reason or (said if isinstance(said, str) else f"{plugin.name} does not count it")
    if said is None or isinstance(said, str):
        return Stats(str(named), plugin.name, False, note=note)
    if not isinstance(said, dict) or not all(isinstance(counts, dict) for counts in said.values()):
        raise PluginError(
            f"{plugin.name} {plugin.version}: tripoint_memory_stats gives a dict of counts by device, a sentence or None, "
            f"not {said!r}"
        )
    counts = said.get(str(named))
    if counts is None:
        return Stats(str(named), plugin.name, False, note=f"{plugin.name} has not used it yet")
    return Stats(str(named), plugin.name, True, dict(counts))
