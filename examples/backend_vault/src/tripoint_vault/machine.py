"""The hardware that does not exist, and its driver: what a vendor would give you. Nothing here knows tensors.

A machine has memory of its own, which the host cannot reach, and any number of queues. What is submitted to a queue runs
there later, on a thread of the queue, in order. A failing program damages what it should have written, and everything that
is computed from that; the host learns of it when it next waits. The arithmetic is NumPy's, on views that exist only while a
program runs.
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tripoint.errors import AsyncError, DeviceError, DeviceLostError

COUNT = 2
CAPACITY = 64 * 1024 * 1024
ALIGNMENT = 64

Array = np.ndarray[Any, np.dtype[Any]]
Program = Callable[..., Any]


class Failure:
    """A program that failed: what it was called, why, and whether the host was told."""

    def __init__(self, machine: Machine, operator: str, why: str) -> None:
        self.machine = machine
        self.operator = operator
        self.why = why
        self.told = False

    def error(self) -> Exception:
        """What the host is told."""
        self.told = True
        if self.machine.lost is not None:
            return self.machine.gone()
        made = AsyncError(
            f"{self.machine.name}: the kernel of {self.operator} failed after its call had returned: {self.why}; "
            "its result, and what was computed from it, cannot be read"
        )
        made.operator = self.operator
        return made


class Ref(NamedTuple):
    """Where an operand is: plain numbers, as a program on a device gets them. It keeps nothing alive."""

    machine: Machine
    base: int  # of the allocation
    first: int  # byte of the first element
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes

    def view(self) -> Array:
        """The elements, for programs alone."""
        return np.ndarray(self.shape, self.dtype, self.machine.arena, self.first, self.strides)


class Task(NamedTuple):
    """A program, what it reads, what it writes, and whether that is memory just allocated."""

    operator: str
    program: Program
    reads: tuple[Ref, ...]
    out: Ref | None
    fresh: bool


class Marker:
    """A place in a queue."""

    def __init__(self) -> None:
        self._passed = threading.Event()

    def query(self) -> bool:
        return self._passed.is_set()

    def synchronize(self) -> None:
        self._passed.wait()


class _State:
    """What a queue shares with its thread, so that the thread does not keep the queue alive."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.failure: Failure | None = None
        self.last: Marker | None = None
        self.ended = False

    def end(self) -> None:
        """Let the thread end when it has done what was queued."""
        self.ended = True
        self.tasks.put(None)


class Queue:
    """Work in order, on a thread that starts with the first task and ends with the queue."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._state = _State(machine)
        self._lock = threading.RLock()  # a destructor may record a marker while its thread submits
        self._thread: threading.Thread | None = None

    def submit(self, task: Task) -> None:
        """Queue a task.

        Raises:
            DeviceLostError: the machine is gone, or one that the task reads from.
        """
        self.machine.check()
        for r in task.reads:
            r.machine.check()
        self._put(partial(_execute, self._state, task))

    def record(self) -> Marker:
        """A marker behind what was queued so far."""
        return self._put(_nothing)

    def wait(self, marker: Marker) -> None:
        """Let later tasks run when the marker has passed."""
        self._put(marker.synchronize)

    def hold(self, gate: threading.Event) -> None:
        """Stand still until the gate opens."""
        self._put(gate.wait)

    def query(self) -> bool:
        """Whether nothing is left to do."""
        return self._state.last is None or self._state.last.query()

    def synchronize(self) -> None:
        """Wait until nothing is left to do.

        Raises:
            AsyncError: a program failed; once.
            DeviceLostError: the machine is gone.
        """
        self.record().synchronize()
        self.machine.check()
        failure, self._state.failure = self._state.failure, None
        if failure is not None and not failure.told:
            raise failure.error()

    def abandon(self) -> None:
        """In a child process, where the thread is not: nobody has to wait for what was queued."""
        self._lock, self._thread = threading.RLock(), None
        before, self._state.tasks = self._state.tasks, queue.SimpleQueue()  # whose lock the thread may have held
        if self._state.last is not None:
            self._state.last._passed.set()
        while not before.empty():
            item = before.get_nowait()
            if item is not None:
                item[1]._passed.set()

    def stop(self) -> None:
        """End the thread when it has done what was queued; it is waited for a moment."""
        self._state.end()
        if self._thread is not None:
            self._thread.join(1)

    def _put(self, task: Callable[[], Any]) -> Marker:
        with self._lock:
            # Ended: memory in a circle with its queue asks for a marker after all.
            if self._thread is None or self._state.ended:
                name, tasks = f"queue of {self.machine.name}", self._state.tasks
                self._thread = threading.Thread(target=_work, args=(tasks, self._thread), name=name, daemon=True)
                self._state.ended = False
                self._thread.start()
                weakref.finalize(self, self._state.end)
            done = Marker()
            self._state.last = done
            self._state.tasks.put((task, done))
            return done


def _nothing() -> None:
    pass


def _work(tasks: queue.SimpleQueue[Any], before: threading.Thread | None) -> None:
    if before is not None:
        before.join()
        del before
    with np.errstate(all="ignore"):
        while (item := tasks.get()) is not None:
            task, done = item
            task()
            done._passed.set()
            del item, task, done  # nothing is held while waiting


def _execute(state: _State, task: Task) -> None:
    machine = state.machine
    failure = next((f for r in task.reads if (f := r.machine.damaged.get(r.base)) is not None), None)
    if failure is None:
        try:
            for one in (machine, *[r.machine for r in task.reads]):
                one.check()
            machine.stumble(task.operator)
            made = task.program(*[r.view() for r in task.reads])
            if task.out is not None and made is not None:
                np.copyto(task.out.view(), made, casting="unsafe")
        except Exception as error:
            failure = Failure(machine, task.operator, f"{type(error).__name__}: {error}")
    if failure is not None:
        state.failure = state.failure or failure
        if task.out is not None:
            machine.damaged[task.out.base] = failure
    elif task.out is not None and task.fresh:
        machine.damaged.pop(task.out.base, None)


class Machine:
    """One device: memory given out first fit, queues, and what an experimenter can break."""

    def __init__(self, name: str, capacity: int = CAPACITY) -> None:
        self.name = name
        self.capacity = capacity
        self.arena = mmap.mmap(-1, capacity)
        self.default = Queue(self)
        self.queues: weakref.WeakSet[Queue] = weakref.WeakSet([self.default])
        self.damaged: dict[int, Failure] = {}
        self.lost: str | None = None
        #: faults: how many more allocations succeed (None: all), and how many launches of an operator, by name.
        self.allocations_left: int | None = None
        self.launches_left: dict[str, int] = {}
        self._lock = threading.Lock()
        self._holes = [(0, capacity)]
        self._taken: dict[int, int] = {}

    def malloc(self, nbytes: int) -> int:
        """The address of the first piece that is large enough; its bytes are 0xFF, which no program wants to read.

        Raises:
            MemoryError: no piece is large enough.
            DeviceLostError: the machine is gone.
        """
        self.check()
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        with self._lock:
            if self.allocations_left is not None:
                if self.allocations_left == 0:
                    raise MemoryError("an injected fault")
                self.allocations_left -= 1
            for i, (start, length) in enumerate(self._holes):
                if length >= size:
                    self._holes[i : i + 1] = [(start + size, length - size)] if length > size else []
                    self._taken[start] = size
                    self.arena[start : start + nbytes] = b"\xff" * nbytes
                    return start
        raise MemoryError(f"no free piece of {size} bytes")

    def free(self, address: int) -> None:
        """Take a piece back, and join it with its neighbours."""
        with self._lock:
            holes = sorted([*self._holes, (address, self._taken.pop(address))])
            joined = holes[:1]
            for start, length in holes[1:]:
                before, size = joined[-1]
                if before + size == start:
                    joined[-1] = (before, size + length)
                else:
                    joined.append((start, length))
            self._holes = joined

    def largest(self) -> int:
        """Bytes of the largest free piece."""
        with self._lock:
            return max((length for _, length in self._holes), default=0)

    def queue(self) -> Queue:
        """A new queue."""
        made = Queue(self)
        self.queues.add(made)
        return made

    def synchronize(self) -> None:
        """Wait for every queue. Raises as `Queue.synchronize`, the first failure."""
        failed: Exception | None = None
        for one in list(self.queues):
            try:
                one.synchronize()
            except (AsyncError, DeviceLostError) as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def stop(self) -> None:
        """End the threads of all queues."""
        for one in list(self.queues):
            one.stop()

    def drain(self) -> None:
        """Wait for every queue; what failed is still to be told."""
        for one in list(self.queues):
            one.record().synchronize()

    def stumble(self, operator: str) -> None:
        """Fail where an experimenter asked for it."""
        left = self.launches_left.get(operator)
        if left is not None:
            self.launches_left[operator] = left - 1
            if left <= 1:
                del self.launches_left[operator]
                raise RuntimeError("an injected fault")

    def gone(self) -> DeviceLostError:
        """The error of using a machine that is lost."""
        return DeviceLostError(
            f"{self.name} is lost: {self.lost}; what it held is gone, and it is of no use until the program starts again"
        )

    def check(self) -> None:
        """Refuse to go on with a machine that is lost.

        Raises:
            DeviceLostError: it is.
        """
        if self.lost is not None:
            raise self.gone()


_machines: dict[int, Machine] = {}
_making = threading.Lock()


def machine(index: int) -> Machine:
    """The machine of an index, switched on when first asked for.

    Raises:
        DeviceError: there is none of that index.
    """
    if not 0 <= index < COUNT:
        raise DeviceError(f"there is no vault:{index}; there are {COUNT}, from vault:0 to vault:{COUNT - 1}")
    with _making:
        if index not in _machines:
            _machines[index] = Machine(f"vault:{index}")
        return _machines[index]


def running() -> list[Machine]:
    """The machines that were switched on."""
    return list(_machines.values())


def _forked() -> None:
    """In a child process the machines are the parent's: they are lost, with what was queued."""
    for one in running():
        one.lost = "it belongs to the process that this one was forked from (start processes by spawn instead)"
        for work in list(one.queues):
            work.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
