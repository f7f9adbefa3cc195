"""The kit on memory that is given out again, and on devices that come in several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import queued
from toys import pooled, toy

import tripoint as tp
from tripoint import conformance
from tripoint.errors import DeviceError, PluginError, RegistrationError
from tripoint.plugin import Backend, Capabilities, Device, Key, payload, register, strided


def test_views_and_copies_that_own_their_memory_pass() -> None:
    register(toy("ram", pooled()))
    report = conformance.run(
        "ram.strided", tiers=[0, 2, 4, 5], operators=["copy", "lifetimes", "memory", "flip", "numpy"]
    )
    assert report.ok, report.text()
    assert (report.of("lifetimes"), report.of("numpy")) == ("pass", "pass")


def test_what_is_saved_for_backward_is_checked() -> None:
    register(toy("ram", pooled(owns=False)))
    report = conformance.run("ram.strided", tiers=[4], operators=["lifetimes"])
    assert report.of("lifetimes") == "fail"
    assert "saved for backward" in report.failures[0].what


# Streams ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({}, set()),
        ({"says": False}, {"a result was used before its stream had written it"}),
        ({"waits": False}, {"read before it was complete"}),
        ({"copies": False}, {"the host's memory was read after to() had returned"}),
    ],
    ids=["right", "says nothing", "reads early", "keeps the host's memory"],
)
def test_races_between_streams_are_found(wrong: dict[str, bool], found: set[str]) -> None:
    register(queued.device("lazy", **wrong))
    report = conformance.run("lazy.strided", tiers=[5], operators=["streams"])
    have = {failure.what for failure in report.failures}
    assert found <= have, report.text()
    assert report.ok is not bool(found)


# Devices with an index -------------------------------------------------------------------------------------------------


class Held:
    def __init__(self, array: Any, device: Device) -> None:
        self.array, self.device = array, device

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape  # type: ignore[no-any-return]


def several(count: Any, **wrong: Any) -> Backend:
    """A device that comes in several, whose tensors say where they are; ``negative=0`` puts that result on the first."""
    backend = Backend(
        Device("duo", indexed=True),
        strided,
        payload=Held,
        describe=lambda x: {"dtype": getattr(tp, x.array.dtype.name), "device": x.device},
        aliases=lambda out, x: np.may_share_memory(out.array, x.array),
        frozen=True,
        count=count,
        capabilities=Capabilities(dtypes=("float32",)),
    )

    def elementwise(fn: Any, at: int | None = None) -> Any:
        def kernel(*xs: Held) -> Held:
            return Held(fn(*[x.array for x in xs]), xs[0].device if at is None else Device("duo", at))

        return kernel

    def filled(*, shape: Any, fill_value: Any, target: Key) -> Held:
        return Held(np.full(shape, fill_value, str(target.dtype)), target.device)

    def made(*, data: Any, copy: Any, target: Key) -> Held:
        return Held(np.array(data, str(target.dtype)), target.device)

    backend.kernels(
        negative=elementwise(np.negative, wrong.get("negative")),
        copy=elementwise(np.copy),
        from_data=made,
        full=filled,
        to_list=lambda x: x.array.tolist(),
    )
    return backend


def test_a_result_on_another_index_is_refused_and_found_by_the_kit() -> None:
    register(several(3, negative=0))
    assert (-tp.full((2,), 1.0, device="duo:0")).device == "duo:0"
    with pytest.raises(PluginError, match=r"negative returned memory of duo:0; the result on duo:2.* must be on duo:2"):
        -tp.full((2,), 1.0, device="duo:2")
    report = conformance.run("duo.strided", tiers=[0, 1], operators=["copy", "negative"])
    assert [v.operator for v in report.verdicts if v.verdict == "fail"] == ["negative"], report.text()
    assert 'device="duo:2"' in report.failures[0].reproducer


def test_checked_finds_it_at_any_call() -> None:
    backend = several(3)
    at: list[int | None] = [None]

    @backend.kernel("square")
    def square(x: Held) -> Held:
        return Held(x.array * x.array, x.device if at[0] is None else Device("duo", at[0]))

    register(backend)
    x = tp.full((2,), 3.0, device="duo:1")
    assert tp.square(x).tolist() == [9.0, 9.0]
    at[0] = 0
    with tp.checked(), pytest.raises(PluginError, match="square returned memory of duo:0"):
        tp.square(x)


@pytest.mark.parametrize("count", [2, lambda: 2])
def test_an_index_that_there_is_not_is_refused(count: Any) -> None:
    register(several(count))
    x = tp.full((2,), 1.0, device="duo:1")
    assert payload(x).device is Device("duo", 1)
    for ask in (
        lambda: tp.full((2,), 1.0, device="duo:7"),
        lambda: tp.asarray([1.0], device=Device("duo", 7)),
        lambda: tp.Stream("duo:7"),
    ):
        with pytest.raises(DeviceError, match="there is no duo:7; there are 2, from duo:0 to duo:1"):
            ask()


def test_the_count_is_asked_once_and_when_a_device_is_used() -> None:
    asked = []

    def count() -> int:
        asked.append(1)
        return 1

    register(several(count))
    assert tp.Device("duo", 3) is not None
    assert asked == []
    tp.full((2,), 1.0, device="duo:0")
    with pytest.raises(DeviceError, match="there is no duo:1; there is duo:0 alone"):
        tp.full((2,), 1.0, device="duo:1")
    assert asked == [1]


@pytest.mark.parametrize(("given", "words"), [(lambda: -1, "not -1"), (lambda: "two", "not 'two'")])
def test_a_count_that_is_none_is_refused(given: Any, words: str) -> None:
    register(several(given))
    with pytest.raises(PluginError, match=rf"count\(\) gives how many devices there are, {words}"):
        tp.full((2,), 1.0, device="duo:0")


@pytest.mark.parametrize("given", [-1, True, "2", 1.0])
def test_a_backend_with_a_wrong_count_is_refused(given: Any) -> None:
    with pytest.raises(RegistrationError, match="count is how many devices there are"):
        several(given)


def test_an_indexed_device_whose_payloads_do_not_say_where_they_are_is_told() -> None:
    backend = several(2)
    backend.describe(lambda x: {"dtype": getattr(tp, x.array.dtype.name)})
    register(backend)
    report = conformance.run("duo.strided", tiers=[2], operators=["memory"])
    assert any("describe gives no device" in v.reason for v in report.verdicts)
