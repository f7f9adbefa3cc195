"""Keys: one object per point and parts, whoever makes it."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint.devices import Device
from tripoint.dtypes import PLAIN
from tripoint.errors import DeviceError
from tripoint.keys import ABSENT, BY_TYPE, SCALARS, intern
from tripoint.layouts import Layout, strided


def test_equal_keys_are_one_object() -> None:
    one = intern(Device("cpu"), strided, tp.float32)
    assert one is intern(Device("cpu"), strided, tp.float32, frozenset())
    assert one is not intern(Device("cpu"), strided, tp.float64)
    assert one is not intern(Device("cpux"), strided, tp.float32)
    assert one is not intern(Device("cpu"), Layout("strided"), tp.float32)
    assert one.name == "cpu.strided.float32"


def test_parts_come_and_go() -> None:
    bare = intern(Device("cpu"), strided, tp.float32)
    both = bare.with_parts("view", "autograd")
    assert both is bare.with_parts("autograd").with_parts("view")
    assert (both.autograd, both.view) == (True, True)
    assert both.base is bare
    assert both.without("view") is bare.recorded
    assert both.without("autograd", "view") is bare
    assert bare.recorded.recorded is bare.recorded
    assert bare.with_parts("view").recorded is both
    assert both.replace(dtype=tp.int8) is intern(Device("cpu"), strided, tp.int8)
    assert "autograd" in repr(both)
    assert "view" in repr(both)
    assert repr(both).endswith("cpu.strided.float32>>")


def test_scalars_and_absent_operands_are_no_tensors() -> None:
    assert len({*SCALARS.values(), ABSENT}) == 5
    assert not any(k.is_tensor for k in (*SCALARS.values(), ABSENT))
    assert BY_TYPE[type(None)] is ABSENT
    assert BY_TYPE[bool] is not BY_TYPE[int]
    assert ABSENT.recorded is ABSENT


def test_keys_of_plain_points_survive_pickling_as_themselves() -> None:
    for parts in ((), ("view",), ("view", "autograd")):
        key = intern(Device("cpu"), strided, tp.int16).with_parts(*parts)
        assert pickle.loads(pickle.dumps(key)) is key


def test_threads_that_make_the_same_keys_get_the_same_objects() -> None:
    count, rounds = 16, 40
    barrier = threading.Barrier(count)
    made: list[list[object]] = [[] for _ in range(count)]

    def work(mine: list[object]) -> None:
        for r in range(rounds):
            layout = layouts[r]
            barrier.wait()
            for d in PLAIN.values():
                key = intern(Device("cpu"), layout, d, frozenset({"view"}))
                mine += [key, key.base, key.recorded, key.recorded.base]

    layouts = [Layout(f"round{r}") for r in range(rounds)]
    threads = [threading.Thread(target=work, args=(m,)) for m in made]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made[0]) == rounds * len(PLAIN) * 4
    for other in made[1:]:
        assert all(a is b for a, b in zip(made[0], other, strict=True))


def test_devices_are_interned_and_say_what_they_are() -> None:
    assert Device("cpu") is Device("cpu")
    assert Device("toy", 1) is Device("toy", 1)
    assert Device("toy", 1) is not Device("toy", 0)
    assert str(Device("toy", 1)) == "toy:1"
    for device in (Device("toy"), Device("toy", 3), Device("toy", indexed=True)):
        assert pickle.loads(pickle.dumps(device)) is device
    for bad in ("", "a b", "a:1", "a.b", None, 3):
        with pytest.raises(DeviceError):
            Device(bad)
    assert Device("toy", np.int64(3)) is Device("toy", 3)
    for bad in (-1, 1.0, True, "0"):
        with pytest.raises(DeviceError):
            Device("toy", bad)


def test_a_device_named_before_its_plugin_is_loaded_decides_nothing() -> None:
    early = Device("latecomer")
    late = Device("latecomer", indexed=True)
    assert late.indexed
    assert not early.indexed


def test_names_are_exact() -> None:
    for name in ("cpux", "CPU", "cp", "cpu "):
        with pytest.raises(DeviceError):
            tp.zeros((1,), device=name)
    for name in ("cpu:0", "meta:1", "cpu:", "cpu:-1", "cpu:x", "cpu:²"):
        with pytest.raises(DeviceError):
            tp.zeros((1,), device=name)


class _Full(Exception):
    """What stops the making of a key halfway."""


class _Unwritable(Layout):
    stop = True

    def __str__(self) -> str:
        if self.stop:
            raise _Full
        return super().__str__()


def test_a_key_that_was_stopped_halfway_is_made_anew() -> None:
    layout = _Unwritable("unwritable")
    for parts in (frozenset[str](), frozenset({"view"}), frozenset({"view", "autograd"})):
        layout.stop = True
        with pytest.raises(_Full):
            intern(Device("cpu"), layout, tp.float32, parts)
        assert intern(Device("cpu"), strided, tp.float32).base.base.recorded.autograd  # the others are there
        layout.stop = False
        key = intern(Device("cpu"), layout, tp.float32, parts)
        assert key.base is intern(Device("cpu"), layout, tp.float32)
        assert key.recorded is key.base.recorded.with_parts(*parts)
        layout = _Unwritable(f"un{layout.name}")


def test_a_key_interrupted_at_any_line_is_whole_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from tripoint import keys

    # A trace function may raise on the way out of a with block, where no signal is handled: that lock is never given back.
    monkeypatch.setattr(keys, "_lock", threading.RLock())
    at = 0
    while True:
        at += 1
        layout = Layout(f"interrupted{at}")
        count = iter(range(1, 10_000))

        def stop(frame: Any, event: str, _: Any, at: int = at, count: Any = count) -> Any:
            if frame.f_code.co_filename == keys.__file__ and event == "line" and next(count) == at:
                raise KeyboardInterrupt
            return stop

        had = sys.gettrace()
        sys.settrace(stop)
        try:
            intern(Device("cpu"), layout, tp.float64, frozenset({"view"}))
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
        finally:
            sys.settrace(had)
        key = intern(Device("cpu"), layout, tp.float64, frozenset({"view"}))
        family = {
            key,
            key.base,
            key.recorded,
            key.base.recorded,
            key.recorded.base,
            key.base.recorded.with_parts("view"),
        }
        assert len(family) == 4
        assert all(intern(k.device, k.layout, k.dtype, k.parts) is k for k in family)
        if not stopped:
            break
    assert at > 30


def test_a_name_that_makes_keys_is_not_waited_for() -> None:
    class Making(Layout):
        def __str__(self) -> str:
            inner.append(intern(Device("cpu"), strided, tp.float16, frozenset({"view"})))
            return super().__str__()

    inner: list[object] = []
    layout = Making("making")
    key = intern(Device("cpu"), layout, tp.float16)
    assert key is intern(Device("cpu"), layout, tp.float16)
    assert set(inner) == {intern(Device("cpu"), strided, tp.float16, frozenset({"view"}))}
