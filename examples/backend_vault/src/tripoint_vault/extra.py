"""What a good backend adds: queues as streams, more operators, checks of values; and the faults of this one, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tripoint
from tripoint.errors import ArgumentError, AsyncError, DeviceError, DeviceLostError, IndexingError
from tripoint.plugin import Backend, Device, DType, Key, check, integral, operators
from tripoint_vault import programs
from tripoint_vault.machine import Array, Machine, Program, Queue, machine, running
from tripoint_vault.minimal import DTYPES, Host, number, reduced
from tripoint_vault.views import Buffer, Shape, chip, indexed


class Queues:
    """The power `tripoint.plugin.Streams`: a vault's queues."""

    def default(self, device: Device) -> Queue:
        return chip(device).default

    def create(self, device: Device) -> Queue:
        return chip(device).queue()

    def synchronize(self, device: Device | None) -> None:
        failed: Exception | None = None
        for one in [chip(device)] if device is not None else running():
            try:
                one.synchronize()
            except (AsyncError, DeviceLostError) as error:
                failed = failed or error
        if failed is not None:
            raise failed


PROGRAMS: dict[str, Program] = {
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "minimum": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_invert": np.invert,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "relu": lambda a: np.maximum(a, a.dtype.type(0)) + a.dtype.type(0),  # of -0.0 it is 0.0
    "min": lambda a, *, axis, keepdims: np.min(a, axis=axis, keepdims=keepdims),
    **{
        name: getattr(programs, name)
        for name in (
            "conv2d", "conv2d_input", "conv2d_weight", "max_pool2d", "max_pool2d_input", "max_pool2d_tangent",
        )
    },
}  # fmt: skip
COMPARISONS: dict[str, Program] = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "all": lambda a, *, axis, keepdims: np.all(a, axis=axis, keepdims=keepdims),
    "any": lambda a, *, axis, keepdims: np.any(a, axis=axis, keepdims=keepdims),
}
IN_PLACE: dict[str, Program] = {
    "add_": np.add,
    "subtract_": np.subtract,
    "multiply_": np.multiply,
    "divide_": np.true_divide,
}


def add(backend: Backend) -> None:
    """Give a backend the rest."""
    host = Host(backend)
    for name, program in PROGRAMS.items():
        backend.kernel(name)(host.by_rule(name, program))
    for name, program in COMPARISONS.items():
        backend.kernel(name)(host.by_rule(name, program, tripoint.bool))
    in_place: dict[str, Any] = {name: host.in_place(name, program) for name, program in IN_PLACE.items()}
    backend.kernels(scalars=True, **in_place)
    backend.kernels(
        argmin=host.by_rule("argmin", lambda a, *, axis, keepdims: a.argmin(axis, keepdims=keepdims), tripoint.int64),
        assign=host.by_rule("assign", lambda x1, x2: x2, like=0),
    )
    _checked(backend, host)

    @backend.kernel("prod")
    def prod(x: Buffer, *, axis: Shape, keepdims: bool, target: Key) -> Buffer:
        return reduced(host, "prod", np.prod, x, axis, keepdims, target)

    @backend.kernel("empty")
    def empty(*, shape: Shape, target: Key) -> Buffer:
        # A program that writes nothing: what damage the memory had is not the new tensor's.
        return host.launch("empty", lambda: None, (), host.new(shape, target.dtype, target.device), True)

    @backend.kernel("ramp")
    def ramp(*, start: Any, step: Any, count: int, target: Key) -> Buffer:
        dtype = target.dtype
        if isinstance(start, int) and isinstance(step, int) and dtype in integral and count and dtype.name in DTYPES:
            for end in (start, start + (count - 1) * step):
                number(end, dtype)
        out = host.new((count,), dtype, target.device)
        return host.launch("ramp", lambda: _ramp(start, step, count, dtype), (), out, True)

    @backend.kernel("flip")
    def flip(x: Buffer, *, axis: Shape) -> Buffer:
        return indexed(x, tuple(slice(None, None, -1) if i in axis else slice(None) for i in range(len(x.shape))))

    @backend.kernel("to", args=("vault.strided", "vault.strided"))
    def peer(x: Buffer, *, target: Key) -> Buffer:
        """From one vault to another, without the host."""
        return host.launch("to", lambda a: a, (x,), host.new(x.shape, x.dtype, target.device), True)

    @backend.kernel("to_text")
    def to_text(x: Buffer) -> str:
        return np.array2string(host.fetch("to_text", np.array, x), separator=", ", threshold=1000, edgeitems=3)

    @backend.shutdown
    def shutdown() -> None:
        for one in running():
            one.stop()


def _ramp(start: Any, step: Any, count: int, dtype: DType) -> Array:
    if isinstance(start, int) and isinstance(step, int) and dtype in integral:
        # In 64 bits, where what wraps on the way ends where it must.
        steps = np.arange(count, dtype=np.uint64) * np.uint64(step % 2**64) + np.uint64(start % 2**64)
        return steps if dtype.name.startswith("u") else steps.view(np.int64)
    return np.arange(count) * float(step) + float(start)


def _checked(backend: Backend, host: Host) -> None:
    """Operators that refuse operands by their values: those are looked at first, which waits for them."""

    def ends(x: Buffer, operator: str) -> tuple[int, int]:
        return host.fetch(operator, lambda a: (int(a.min()), int(a.max())), x)  # type: ignore[no-any-return]

    def positions(indices: Buffer, size: int, operator: str, smallest: int) -> None:
        if indices.dtype not in integral:
            raise IndexingError(f"{operator}: positions must be integers, not {indices.dtype}")
        low, high = ends(indices, operator) if indices.size else (0, -1)
        if low < smallest or high >= size:
            bad = low if low < smallest else high
            raise IndexingError(f"{operator}: {bad} is out of range; positions lie in {smallest}..{size - 1}")

    def guarded(name: str, least: Callable[[int], int], size: Callable[..., int]) -> Callable[..., Buffer]:
        run = host.by_rule(name, getattr(programs, name), like=0)

        def kernel(x: Buffer, indices: Buffer, **meta: Any) -> Buffer:
            count = size(x, **meta)
            positions(indices, count, name, least(count))
            return run(x, indices, **meta)

        kernel.__name__ = name
        return kernel

    backend.kernels(
        take=guarded("take", lambda n: -n, lambda x, *, axis: x.shape[axis]),
        take_back=guarded("take_back", lambda n: -n, lambda g, *, shape, axis: shape[axis]),
        pick=guarded("pick", lambda n: 0, lambda x: x.shape[1]),
        pick_back=guarded("pick_back", lambda n: 0, lambda g, *, classes: classes),
    )
    power = host.by_rule("pow", np.power)

    @backend.kernel("pow")
    def pow(x1: Buffer, x2: Buffer) -> Buffer:
        if x2.dtype in integral and x2.size:
            check.exponent("pow", x2=ends(x2, "pow")[0])
        return power(x1, x2)


# Faults ----------------------------------------------------------------------------------------------------------------


def _chip(device: Device | str) -> Machine:
    kind, _, index = str(device).partition(":")
    if kind != "vault" or not (index or "0").isdigit():
        raise DeviceError(f"{str(device)!r} is no vault; write 'vault:0'")
    return machine(int(index or 0))


@contextmanager
def out_of_memory(device: Device | str = "vault:0", *, after: int = 0) -> Iterator[None]:
    """Within the block a vault's driver gives memory ``after`` times more, and then no more."""
    one = _chip(device)
    one.allocations_left = after
    try:
        yield
    finally:
        one.allocations_left = None


@contextmanager
def failing(operator: str, device: Device | str = "vault:0", *, at: int = 1) -> Iterator[None]:
    """Within the block the next launch of an operator, or the one numbered ``at`` from 1, fails on a vault, later."""
    if operator not in operators():
        raise ArgumentError(f"failing: there is no operator {operator!r}, so that it would never fail")
    check.integer("failing", 1, at=at)
    one = _chip(device)
    one.launches_left[operator] = at
    try:
        yield
    finally:
        one.drain()
        one.launches_left.pop(operator, None)


@contextmanager
def held(stream: tripoint.Stream | None = None) -> Iterator[None]:
    """Within the block a stream stands still, the default one of ``vault:0`` unless given; then it goes on."""
    work: Any = stream.queue if stream is not None else _chip("vault:0").default
    gate = threading.Event()
    work.hold(gate)
    try:
        yield
    finally:
        gate.set()


def lose(device: Device | str, reason: str) -> None:
    """A vault is gone, for as long as the program runs."""
    _chip(device).lost = reason
