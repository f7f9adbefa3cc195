"""`tripoint.memory.stats`: what a backend counts, and a value where it does not."""

from __future__ import annotations

from typing import Any

import pytest

import tripoint as tp
from tripoint.errors import ArgumentError, DeviceError, OutOfMemoryError, RegistrationError
from tripoint.plugin import Allocator, Backend, Device, register, strided

_TOY = """
from tripoint.plugin import Backend, Device, strided
class P:
    def __init__(self, shape): self.shape = shape
backend = Backend(Device("{device}", indexed={indexed}), strided, payload=P)
"""


def _entry(device: str, module: str) -> str:
    return f"[tripoint.backends.v1]\n{device}.strided = {module}:backend\n"


def test_the_first_party_backends_answer() -> None:
    said = tp.memory.stats("cpu")
    assert (said.device, said.provider, said.supported, said.counts) == ("cpu", "tripoint-dense-cpu", False, {})
    assert "belong to NumPy" in said.note
    assert tp.memory.stats() == said
    with tp.device("meta"):
        assert tp.memory.stats().device == "meta"
    assert str(tp.memory.stats("meta")) == "memory of meta: not supported: tripoint does not count it"
    assert said.to_dict()["supported"] is False


def test_an_unknown_device() -> None:
    with pytest.raises(DeviceError, match="unknown device 'warp'"):
        tp.memory.stats("warp")


def test_counts_absence_refusal_and_nonsense(run_program: Any, write_distribution: Any) -> None:
    site = write_distribution(
        "counting",
        _entry("counting", "counting"),
        counting=_TOY.format(device="counting", indexed=True)
        + "backend.memory_stats(lambda: {'counting:0': {'live': 8, 'peak': 16}})\n",
    )
    # An author's own class, without the hook.
    write_distribution(
        "lacking",
        _entry("lacking", "lacking"),
        lacking="""
from tripoint.plugin import Device, Pattern, hookimpl
class Own:
    @hookimpl
    def tripoint_register(self, registry):
        registry.device(Device("lacking"))
backend = Own()
""",
    )
    for name, body in (
        ("raising", "backend.memory_stats(lambda: 1 / 0)\n"),
        ("nonsense", "backend.memory_stats(lambda: 3)\n"),
        ("unusable", "backend.probe(lambda: 'no driver')\n"),
    ):
        write_distribution(name, _entry(name, name), **{name: _TOY.format(device=name, indexed=False) + body})
    write_distribution("bystander", _entry("bystander", "bystander"), bystander="raise SystemExit('loaded')\n")
    out = run_program(
        """
        import sys
        import tripoint as tp
        for device in ("counting", "counting:0", "counting:1", "lacking", "raising", "nonsense", "unusable"):
            try:
                print(tp.memory.stats(device))
            except tp.errors.PluginError as error:
                print(type(error).__name__, error, type(error.__cause__).__name__)
        print("bystander" in sys.modules, tp.plugins.found()["bystander"].state, "numpy" in sys.modules)
        """,
        site=site,
    )
    assert out.splitlines() == [
        "memory of counting:0: live 8 bytes, peak 16 bytes",
        "memory of counting:0: live 8 bytes, peak 16 bytes",
        "memory of counting:1: not supported: counting has not used it yet",
        "memory of lacking: not supported: lacking does not count it",
        "PluginError raising 1.0: tripoint_memory_stats raised ZeroDivisionError: division by zero ZeroDivisionError",
        "PluginError nonsense 1.0: tripoint_memory_stats gives a dict of counts by device, a sentence or None, not 3 NoneType",
        "memory of unusable: not supported: no driver",
        "False found False",
    ]


class Pool(Allocator):
    def _alloc(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def _free(self, block: bytearray) -> None:
        block.clear()


class Carried:
    shape = ()


def test_an_allocator_answers_without_a_hook(registry_kept: None) -> None:
    pool = Pool()
    register(Backend(Device("hoard"), strided, payload=Carried, allocator=pool))
    block = pool.allocate(300)
    said = tp.memory.stats("hoard")
    assert (said.provider, said.supported) == ("the running program", True)
    assert str(said) == (
        "memory of hoard: live 300 bytes, reserved 512 bytes, cached 0 bytes, peak 300 bytes, blocks 1, allocations 1"
    )
    tp.memory.set_limit("hoard", 600)
    with pytest.raises(OutOfMemoryError, match=r"hoard: out of memory: .*\n(.*\n)* +raise the limit, tripoint\.memory"):
        pool.allocate(300)
    del block
    tp.memory.reset_peak("hoard")
    assert tp.memory.stats("hoard").counts["peak"] == 0
    assert tp.memory.empty_cache("hoard") == 512
    with pytest.raises(ArgumentError):
        tp.memory.set_limit("hoard", -5)


def test_each_device_of_several_has_its_own(registry_kept: None) -> None:
    backend = Backend(Device("hoards", indexed=True), strided, payload=Carried, allocator=lambda device: Pool())
    register(backend)
    first, second = (backend.allocator(Device("hoards", i)) for i in (0, 1))
    block = second.allocate(10)
    assert tp.memory.stats("hoards").counts["live"] == 0
    assert tp.memory.stats("hoards:1").counts["live"] == block.nbytes
    assert (first.name, second.name) == ("hoards:0", "hoards:1")
    assert backend.allocator(Device("hoards", 1)) is second


def test_allocators_that_are_none(registry_kept: None) -> None:
    register(Backend(Device("hollow"), strided, payload=Carried, allocator=42))  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match=r"allocator= must give a tripoint\.plugin\.Allocator, not 42"):
        tp.memory.stats("hollow")
    plain = Backend(Device("plain"), strided, payload=Carried)
    register(plain)
    assert not tp.memory.stats("plain").supported
    with pytest.raises(RegistrationError, match="not None"):
        plain.allocator()


def test_what_a_device_without_an_allocator_can_be_asked() -> None:
    with pytest.raises(DeviceError, match="the memory of meta cannot be limited: tripoint brings no allocator"):
        tp.memory.set_limit("meta", 1000)
    with pytest.raises(DeviceError, match="the memory of cpu cannot be limited"):
        tp.memory.set_limit(None, 1000)
    assert tp.memory.empty_cache() == 0
    tp.memory.reset_peak("meta")
