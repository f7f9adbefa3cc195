"""How much memory a device holds, and may: ``tripoint.memory``. A backend that does not count says so, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tripoint import kernels, plugins
from tripoint.allocators import Allocator
from tripoint.devices import Device
from tripoint.dtypes import float32
from tripoint.errors import ArgumentError, DeviceError, PluginError, shown, told
from tripoint.keys import intern
from tripoint.layouts import strided
from tripoint.modes import device_or_current

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
        counted = ", ".join(f"{name} {count}{' bytes' * (name not in _NUMBERS)}" for name, count in self.counts.items())
        return f"memory of {self.device}: {counted if self.supported else 'not supported'}" + f": {self.note}" * bool(
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
    named, plugin, point, pool = _found(device)
    provider = plugin.name if plugin is not None else "" if point is None else "the running program"
    reason = plugins.probe(plugin) if plugin is not None else None
    if reason is not None:
        return Stats(str(named), provider, False, note=reason)
    if point is not None and pool is not None:
        given = plugins.guarded(point.origin, "stats() of its allocator", pool.stats)
        return Stats(str(named), provider, True, _counts(f"{point.origin.provider}: stats() of its allocator", given))
    if plugin is None:
        lacks = "the running program does not count it" if point else "no installed plugin provides its strided tensors"
        return Stats(str(named), provider, False, note=lacks)
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
    named, plugin, point, pool = _found(device)
    if point is None or pool is None:
        who = plugin.name if plugin is not None else "its backend"
        raise DeviceError(f"the memory of {named} cannot be limited: {who} brings no allocator of tripoint's")
    try:
        pool.set_limit(nbytes)
    except ArgumentError:
        raise
    except BaseException as error:
        plugins.blame(plugin, f"{point.origin}: set_limit() of its allocator", error)


def empty_cache(device: Device | str | None = None) -> int:
    """Give memory that is kept for reuse back to the device; how many bytes that were, 0 where nothing is kept.

    Raises:
        DeviceError: unknown.
    """
    _, _, point, pool = _found(device)
    return plugins.guarded(point.origin, "empty_cache() of its allocator", pool.empty_cache) if point and pool else 0


def reset_peak(device: Device | str | None = None) -> None:
    """Let the count ``peak`` start again from what is live now; where nothing is counted, do nothing.

    Raises:
        DeviceError: unknown.
    """
    _, _, point, pool = _found(device)
    if point is not None and pool is not None:
        plugins.guarded(point.origin, "reset_peak() of its allocator", pool.reset_peak)


def _found(
    device: Device | str | None,
) -> tuple[Device, plugins.Plugin | None, kernels.Point | None, Allocator | None]:
    """The device named; the plugin that computes with its strided tensors, ``None`` for the running program; what that one
    says of them; and its allocator.

    Raises:
        DeviceError: unknown.
        PluginError: all that would provide them is broken or blocked.
        AmbiguousKernelError: several plugins provide them, and none is preferred.
    """
    named = device_or_current(device)
    key = intern(named, strided, float32)
    plugins.ensure((key,))
    point = kernels.find_point(key)
    if point is None:
        owning = [p for p in plugins.found().values() if p.owns(key)]
        plugin = next((p for p in owning if p.state == "loaded"), None)
        if plugin is None and owning:
            raise plugins.unusable(owning[0], f"the memory of {named}")
        return named, plugin, None, None
    plugin = plugins.found().get(point.origin.distribution or "")
    pool = plugins.guarded(point.origin, "allocator", point.allocator, named) if point.allocator is not None else None
    if pool is not None and not isinstance(pool, Allocator):
        raise PluginError(f"{point.origin}: allocator gives a tripoint.plugin.Allocator, not {shown(pool)}")
    return named, plugin, point, pool


def _answered(named: Device, plugin: plugins.Plugin) -> Stats:
    """What a plugin's hook ``tripoint_memory_stats`` says of a device."""
    who = f"{plugin.name} {plugin.version}: tripoint_memory_stats"
    answer: Any = plugins.asked(plugin, who, plugin.manager.hook.tripoint_memory_stats)
    if answer is None or issubclass(type(answer), str):
        note = (told(answer) or "") if answer is not None else ""
        return Stats(str(named), plugin.name, False, note=note or f"{plugin.name} does not count it")
    by_device = plugins.asked(plugin, who, plugins.plain_dict, answer)
    if by_device is None:
        raise PluginError(f"{who} gives a dict of counts by device, a sentence or None, not {shown(answer)}")
    counts = by_device.get(str(named))
    if counts is None:
        return Stats(str(named), plugin.name, False, note=f"{plugin.name} has not used it yet")
    return Stats(str(named), plugin.name, True, _counts(who, counts))


def _counts(who: str, given: Any) -> dict[str, int]:
    """Counts by name, as ``who`` gave them.

    Raises:
        PluginError: they are none.
    """
    if not issubclass(type(given), dict):
        raise PluginError(f"{who} gives for each device a dict of counts by name, not {shown(given)}")
    counts = dict.items(given)
    for name, count in counts:
        if type(name) is not str or not issubclass(type(count), int) or type(count) is bool:
            raise PluginError(f"{who} gives counts as ints by name, not {shown(count)} as {shown(name)}")
    return {name: int.__index__(count) for name, count in counts}
