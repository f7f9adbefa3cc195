"""How much memory a device holds, and may: ``tripoint.memory``. A backend that does not count says so, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tripoint import devices, kernels, plugins
from tripoint.allocators import Allocator
from tripoint.devices import Device
from tripoint.dtypes import float32
from tripoint.errors import DeviceError, PluginError
from tripoint.keys import intern
from tripoint.layouts import strided
from tripoint.modes import get_mode

__all__ = ["Stats", "empty_cache", "reset_peak", "set_limit", "stats"]

_NUMBERS = ("allocations", "blocks")


@dataclass(frozen=True)
class Stats:
    """What the backend of a device says of its memory.

    Attributes:
        device: the device asked about.
        provider: the distribution that was asked, or an empty string.
        supported: whether it counts.
        counts: bytes by name, such as ``live``, ``cached``, ``peak`` and ``limit``, whichever it counts; and how many
            ``blocks`` are live and ``allocations`` were made, where it counts these.
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
        said = ", ".join(f"{name} {count}{' bytes' * (name not in _NUMBERS)}" for name, count in self.counts.items())
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
    named, plugin, pool = _found(device)
    provider = plugin.name if plugin is not None else "" if pool is None else "the running program"
    reason = plugins.probe(plugin) if plugin is not None else None
    if reason is not None:
        return Stats(str(named), provider, False, note=reason)
    if pool is not None:
        return Stats(str(named), provider, True, pool.stats())
    if plugin is None:
        return Stats(str(named), "", False, note="no installed plugin provides its strided tensors")
    return _answered(named, plugin)


def set_limit(device: Device | str | None, nbytes: int | None) -> None:
    """Let a device's tensors, and what is cached for them, take no more than so many bytes of it.

    What would go beyond raises `OutOfMemoryError`. What is in use already stays.

    Args:
        device: ``None`` for the device in force.
        nbytes: ``None`` takes the limit away.

    Raises:
        DeviceError: unknown, or its backend has no allocator that could keep a limit.
        ArgumentError: not a number of bytes.
    """
    named, plugin, pool = _found(device)
    if pool is None:
        who = plugin.name if plugin is not None else "its backend"
        raise DeviceError(f"the memory of {named} cannot be limited: {who} brings no allocator of tripoint's")
    pool.set_limit(nbytes)


def empty_cache(device: Device | str | None = None) -> int:
    """Give memory that is kept for reuse back to the device; how many bytes that were, 0 where nothing is kept.

    Raises:
        DeviceError: unknown.
    """
    pool = _found(device)[2]
    return pool.empty_cache() if pool is not None else 0


def reset_peak(device: Device | str | None = None) -> None:
    """Let the count ``peak`` start again from what is live now; where nothing is counted, do nothing.

    Raises:
        DeviceError: unknown.
    """
    pool = _found(device)[2]
    if pool is not None:
        pool.reset_peak()


def _found(device: Device | str | None) -> tuple[Device, plugins.Plugin | None, Allocator | None]:
    """The device named, the plugin that owns its strided tensors, loaded, and its allocator.

    Raises:
        DeviceError: unknown.
        PluginError: the plugin is broken or blocked.
    """
    named = plugins.find_device(device) if device is not None else get_mode().device or devices.cpu
    key = intern(named, strided, float32)
    plugin = next((p for p in plugins.found().values() if p.owns(key)), None)
    broken = plugin is not None and (plugin.state in ("broken", "blocked") or not plugins.load(plugin))
    point = kernels.find_point(key)
    if plugin is not None and broken:
        if point is None:
            raise plugins.unusable(plugin, f"the memory of {named}")
        plugin = None  # somebody else provides the point
    pool = plugins.guarded(point.origin, "allocator", point.allocator, named) if point and point.allocator else None
    return named, plugin, pool


def _answered(named: Device, plugin: plugins.Plugin) -> Stats:
    """What a plugin's hook ``tripoint_memory_stats`` says of a device."""
    try:
        said: Any = plugin.manager.hook.tripoint_memory_stats()
    except Exception as error:
        raise PluginError(
            f"{plugin.name} {plugin.version}: tripoint_memory_stats raised {type(error).__name__}: {error}"
        ) from error
    if said is None or isinstance(said, str):
        return Stats(str(named), plugin.name, False, note=said or f"{plugin.name} does not count it")
    if not isinstance(said, dict) or not all(isinstance(counts, dict) for counts in said.values()):
        raise PluginError(
            f"{plugin.name} {plugin.version}: tripoint_memory_stats gives a dict of counts by device, a sentence or None, "
            f"not {said!r}"
        )
    counts = said.get(str(named))
    if counts is None:
        return Stats(str(named), plugin.name, False, note=f"{plugin.name} has not used it yet")
    return Stats(str(named), plugin.name, True, dict(counts))
