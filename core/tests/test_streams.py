"""Streams and events of devices that have none, and of a backend that provides them."""

from __future__ import annotations

from typing import Any

import pytest

import tripoint as tp
from tripoint import streams
from tripoint.errors import ArgumentError, AsyncError, DeviceError
from tripoint.plugin import Backend, Device, queue, register, strided


def test_the_names_load_at_first_need(run_program: Any) -> None:
    out = run_program(
        """
        import sys
        import tripoint as tp
        print("tripoint.streams" in sys.modules)
        print(tp.Stream.__module__, tp.Event is tp.streams.Event, "numpy" in sys.modules)
        tp.synchronize()
        print(tp.Stream("meta"))
        """
    )
    assert out.splitlines() == ["False", "tripoint.streams True False", "<stream on meta>"]


def test_a_device_without_queues_is_done_when_a_call_returns() -> None:
    s, event = tp.Stream("cpu"), tp.Event()
    with tp.stream(s) as entered:
        x = tp.ones((3,)) * 2
        event.record()
        event.record(s)
    assert (entered, s.queue, s.query(), event.query(), s.record().query()) == (s, None, True, True, True)
    assert queue(s.device) is None
    s.wait(event)
    s.wait(s)
    s.synchronize()
    event.synchronize()
    tp.synchronize("cpu")
    tp.synchronize()
    assert x.to("cpu", copy=True, non_blocking=True).tolist() == [2, 2, 2]
    assert streams.current().device == "cpu"
    with tp.device("meta"):
        assert tp.Event().device == "meta"


def test_what_is_neither_a_stream_nor_a_device() -> None:
    for wrong in ("cpu", None, tp.Event("cpu")):
        with pytest.raises(ArgumentError, match=r"tripoint\.stream takes a tripoint\.Stream"):
            tp.stream(wrong)  # type: ignore[arg-type]
    for make in (tp.Stream, tp.Event, tp.synchronize, streams.current):
        with pytest.raises(DeviceError, match="unknown device 'nowhere'"):
            make("nowhere")


class Place:
    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class Lane(Place):
    def __init__(self) -> None:
        self.waited: list[Any] = []

    def record(self) -> Place:
        return Place()

    def wait(self, marker: Any) -> None:
        self.waited.append(marker)

    def synchronize(self) -> None:
        raise AsyncError("exp failed")


class Lanes:
    def __init__(self) -> None:
        self.lane = Lane()
        self.asked: list[Any] = []

    def default(self, device: Device) -> Lane:
        return self.lane

    def create(self, device: Device) -> Lane:
        return Lane()

    def synchronize(self, device: Device | None) -> None:
        self.asked.append(device)
        if device is None:
            raise AsyncError("log failed")


def test_a_backend_provides_them(registry_kept: None) -> None:
    class P:
        shape = ()

    lanes = Lanes()
    register(Backend(Device("lane"), strided, payload=P, streams=lanes))
    device = Device("lane")
    assert queue(device) is lanes.lane
    s, t = tp.Stream("lane"), tp.Stream("lane")
    with tp.stream(s), tp.stream(tp.Stream("cpu")):
        assert queue(device) is s.queue
        assert queue(tp.Device("cpu")) is None
    event = s.record()
    t.wait(event)
    assert len(t.queue.waited) == 1  # type: ignore[union-attr]
    t.wait(tp.Event("lane"))  # not recorded
    t.wait(tp.Stream("cpu"))
    assert len(t.queue.waited) == 1  # type: ignore[union-attr]
    with pytest.raises(AsyncError, match="exp"):
        s.synchronize()
    tp.synchronize("lane")
    with pytest.raises(AsyncError, match="log"):
        tp.synchronize()
    assert lanes.asked == [device, None]
    assert AsyncError("x").operator == ""
