"""Queues of work on a device: ``tripoint.Stream``, ``tripoint.Event``, ``tripoint.stream(s)``, ``tripoint.synchronize()``.

A backend provides them as an optional power, ``Backend(..., streams=...)``, an object like `Streams`. Where it does not, calls
on its devices are done when they return, and there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol

from tripoint import kernels, plugins
from tripoint.devices import Device
from tripoint.dtypes import float32
from tripoint.errors import ArgumentError, shown
from tripoint.keys import intern
from tripoint.layouts import strided
from tripoint.modes import device_or_current, without
from tripoint.patterns import Origin

__all__ = ["Event", "Marker", "Queue", "Stream", "Streams", "current", "queue", "stream", "synchronize"]


class Marker(Protocol):
    """A place in a queue, as a backend has it."""

    def query(self) -> bool:
        """Whether the queue has passed it. Raises nothing of the work before it."""

    def synchronize(self) -> None:
        """Wait until the queue has passed it. Raises nothing of the work before it."""


class Queue(Protocol):
    """A queue of work, as a backend has it. Hashable, and equal to itself alone.

    It is asked for markers also while it is itself collected as garbage, together with memory that it worked on.
    """

    def record(self) -> Marker:
        """A marker behind what was queued so far."""

    def wait(self, marker: Any) -> None:
        """Let what is queued from now on run when another queue of this backend has passed a marker of it. Returns at once.

        Authors annotate their own class of markers here.
        """

    def query(self) -> bool:
        """Whether nothing is left to do."""

    def synchronize(self) -> None:
        """Wait until nothing is left to do.

        Raises:
            AsyncError: a kernel failed, which the error names; it is raised once.
            DeviceLostError: the device is gone.
        """


class Streams(Protocol):
    """The power of a backend whose devices work on queues."""

    def default(self, device: Device) -> Queue:
        """The queue that work goes to unless another one is in force."""

    def create(self, device: Device) -> Queue:
        """A new queue."""

    def synchronize(self, device: Device | None) -> None:
        """Wait until nothing is left to do on a device; ``None``: on all of this backend. Raises as `Queue.synchronize`."""


def _point(device: Device) -> kernels.Point:
    return plugins.require(intern(device, strided, float32))


def _asked(point: kernels.Point, what: str, device: Device | None) -> Any:
    """What the streams of a backend give; ``None`` where it has none.

    Raises:
        PluginError: they raised what is no error of a device.
    """
    if point.streams is None:
        return None
    return plugins.guarded(point.origin, f"streams.{what}", lambda: getattr(point.streams, what)(device))


class Event:
    """A place in a stream, to wait for. One that was not recorded has nothing before it.

    Args:
        device: unless named, the device in force.

    Raises:
        DeviceError: unknown or unusable.
    """

    __slots__ = ("_marker", "device")

    _marker: Marker | None

    def __init__(self, device: Device | str | None = None) -> None:
        self.device = device_or_current(device)
        _point(self.device)
        self._marker = None

    def record(self, on: Stream | None = None) -> None:
        """Mark the place behind what a stream was asked so far; the stream in force unless given."""
        self._marker = _marked(self.device, _of(on, "Event.record") if on is not None else queue(self.device))

    def query(self) -> bool:
        """Whether the work before it is done."""
        return self._marker is None or bool(_queued(self.device, "query", self._marker.query))

    def synchronize(self) -> None:
        """Wait until the work before it is done. What failed is raised by the stream, and where a result is read."""
        if self._marker is not None:
            _queued(self.device, "synchronize", self._marker.synchronize)

    def __repr__(self) -> str:
        return f"<event on {self.device}>"


class Stream:
    """A queue of a device's work. What is queued on one runs in order, on several at the same time.

    Tensors may be used on any stream: the backend lets it wait for the one that wrote them, and keeps their memory until
    all are done. Streams are for work that need not wait, events for what must be waited for otherwise.

    Args:
        device: unless named, the device in force.

    Attributes:
        queue: the backend's own, or ``None`` where it has none.

    Raises:
        DeviceError: unknown or unusable.
    """

    __slots__ = ("device", "queue")

    queue: Queue | None

    def __init__(self, device: Device | str | None = None) -> None:
        self.device = device_or_current(device)
        self.queue = _asked(_point(self.device), "create", self.device)

    def record(self) -> Event:
        """A new event behind what was queued so far."""
        event = Event(self.device)
        event.record(self)
        return event

    def wait(self, other: Event | Stream) -> None:
        """Let what is queued from now on run when an event has passed, or when a stream has done what it was asked so far.

        Returns at once where both are of one device type; across types the host waits.
        """
        marker = other._marker if isinstance(other, Event) else _marked(self.device, _of(other, "Stream.wait"))
        if marker is None:
            return
        if self.queue is not None and other.device.type == self.device.type:
            _queued(self.device, "wait", self.queue.wait, marker)
        else:
            _queued(other.device, "synchronize", marker.synchronize)

    def query(self) -> bool:
        """Whether nothing is left to do."""
        return self.queue is None or bool(_queued(self.device, "query", self.queue.query))

    def synchronize(self) -> None:
        """Wait until nothing is left to do.

        Raises:
            AsyncError: a kernel failed, which the error names; it is raised once.
            DeviceLostError: the device is gone.
        """
        if self.queue is not None:
            _queued(self.device, "synchronize", self.queue.synchronize)

    def __repr__(self) -> str:
        return f"<stream on {self.device}>"


def _of(given: object, what: str) -> Queue | None:
    if not isinstance(given, Stream):
        raise ArgumentError(f"{what} takes a tripoint.Stream, not {shown(given)}")
    return given.queue


def _marked(device: Device, queue: Queue | None) -> Marker | None:
    return _queued(device, "record", queue.record) if queue is not None else None


def _queued(device: Device, what: str, fn: Callable[..., Any], *args: Any) -> Any:
    """What a method of a queue or a marker gives.

    Raises:
        PluginError: it raised what is no error of a device.
    """
    try:
        return fn(*args)
    except BaseException as error:
        point = kernels.find_point(intern(device, strided, float32))
        who = point.origin if point is not None else Origin(None, None, fn)
        plugins.blame(plugins.plugin_behind(who), f"{who}: {what} of a queue of {device}", error)


#: the scopes entered in this context and not left; the last one of a device counts.
_entered: ContextVar[tuple[stream, ...]] = ContextVar("tripoint_streams", default=())


class stream:
    """Queue the work of a device on a stream: ``with tripoint.stream(s): ...``. Other devices are not concerned.

    New threads start on the default streams.

    Raises:
        ArgumentError: not a `Stream`.
    """

    def __init__(self, on: Stream) -> None:
        _of(on, "tripoint.stream")
        self.stream = on

    def __enter__(self) -> Stream:
        _entered.set((*_entered.get(), self))
        return self.stream

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _entered.set(without(_entered.get(), self))


def queue(device: Device) -> Queue | None:
    """The backend's queue in force for a device, for its kernels; ``None`` where it has no queues."""
    for scope in reversed(_entered.get()):
        if scope.stream.device is device:
            return scope.stream.queue
    point = kernels.find_point(intern(device, strided, float32))
    if point is None or point.streams is None:
        return None
    try:
        return point.streams.default(device)
    except BaseException as error:
        plugins.blame(plugins.plugin_behind(point.origin), f"{point.origin}: streams.default", error)


def current(device: Device | str | None = None) -> Stream:
    """The stream in force on a device; unless named, the device in force."""
    found = object.__new__(Stream)
    found.device = device_or_current(device)
    _point(found.device)
    found.queue = queue(found.device)
    return found


def synchronize(device: Device | str | None = None) -> None:
    """Wait until nothing is left to do on a device, or on all devices of loaded backends when none is named.

    Nothing has to be waited for before values are read: that waits by itself.

    Raises:
        AsyncError: a kernel failed after its call had returned; the error names it.
        DeviceLostError: the device is gone.
        DeviceError: unknown or unusable.
    """
    if device is not None:
        named = device_or_current(device)
        _asked(_point(named), "synchronize", named)
        return
    failed: Exception | None = None
    for point in {id(p.streams): p for p in kernels.points if p.streams is not None}.values():
        try:
            _asked(point, "synchronize", None)
        except Exception as error:
            failed = error if failed is None else failed
    if failed is not None:
        raise failed
