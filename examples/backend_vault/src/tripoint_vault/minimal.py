"""What any backend needs: memory, both ways to the CPU, and the operators that make a usable namespace.

An operator here is a *program*, a function of arrays on the device, and the rule that the operator itself has for the shape
of its result: the host half of a call asks the rule (which words the error of shapes that do not fit), allocates, and submits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

import tripoint
from tripoint.errors import AliasError, DTypeError, RegistrationError
from tripoint.plugin import Allocator, Backend, Capabilities, Device, DType, Key, operators, queue, row_of, strided
from tripoint_vault.machine import COUNT, Array, Program, Task
from tripoint_vault.views import Buffer, Shape, chip, indexed, overlap, regrouped, row_major

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
)  # fmt: skip


class Pool(Allocator):
    """The memory of one vault. Caching, counting, limits and the words of errors are inherited."""

    def __init__(self, device: Device) -> None:
        self.machine = chip(device)

    def _alloc(self, nbytes: int) -> int:
        return self.machine.malloc(nbytes)

    def _free(self, block: int) -> None:
        self.machine.free(block)

    def _capacity(self) -> int:
        return self.machine.capacity

    def _largest(self) -> int:
        return self.machine.largest()


def describe(p: Buffer) -> dict[str, Any]:
    return {
        "dtype": p.dtype,
        "device": p.device,
        "address": p.block.raw,
        "nbytes": p.block.nbytes,
        "strides": p.strides,
        "offset": p.offset,
        "readonly": p.readonly,
    }


def shape_rule(name: str) -> Callable[..., Shape]:
    """The operator's own rule: the shape of its result from those of its operands, or a ShapeError."""
    rule = row_of(operators()[name]).shape
    if rule is None:
        raise RegistrationError(f"{name} has no rule for its shape; write its kernel by hand")
    return rule


class Host:
    """The host half of calls: what allocates and submits for one backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def new(self, shape: Shape, dtype: DType, device: Device) -> Buffer:
        """Memory for a result.

        Raises:
            DTypeError: the vault has no such numbers.
            OutOfMemoryError: there is not enough of it.
        """
        if dtype.name not in DTYPES:
            raise DTypeError(
                f"{device} has no {dtype}; it has {', '.join(DTYPES)}: name one of them, such as dtype=tripoint.float32, "
                "or convert with .to(dtype=tripoint.float32)"
            )
        block = self.backend.allocator(device).allocate(prod(shape) * dtype.itemsize, queue(device))
        return Buffer(block, device, dtype, shape, row_major(shape))

    def launch(self, operator: str, program: Program, reads: tuple[Buffer, ...], out: Buffer, fresh: bool) -> Buffer:
        """Submit a program; ``fresh`` says that all of ``out`` is written, and was nobody's before."""
        self._submit(operator, program, reads, out, fresh, out.device)
        return out

    def send(self, operator: str, program: Program, x: Buffer) -> None:
        """Submit a program that writes to the host, and do not wait for it."""
        self._submit(operator, program, (x,), None, False, x.device)

    def fetch(self, operator: str, program: Program, x: Buffer) -> Any:
        """What a program gives, on the host: it is waited for.

        Raises:
            AsyncError: a kernel failed, or ``x`` is the result of one that did.
        """
        found: list[Any] = []
        self.send(operator, lambda a: found.append(program(a)), x)
        (queue(x.device) or chip(x.device).default).synchronize()
        damage = chip(x.device).damaged.get(x.block.raw)
        if damage is not None:
            raise damage.error()
        return found[0]

    def _submit(
        self,
        operator: str,
        program: Program,
        reads: tuple[Buffer, ...],
        out: Buffer | None,
        fresh: bool,
        device: Device,
    ) -> None:
        stream: Any = queue(device)  # the queue in force; None where a backend has no streams
        if stream is not None:
            for x in reads:
                x.block.use(stream)
            if out is not None and not fresh:
                out.block.use(stream, write=True)
        work = stream or chip(device).default
        work.submit(Task(operator, program, tuple(x.ref() for x in reads), out.ref() if out else None, fresh))
        if stream is None:  # then a call is done when it returns
            work.synchronize()

    def by_rule(self, name: str, program: Program, dtype: DType | None = None, like: int = -1) -> Callable[..., Buffer]:
        """A kernel: the operator's rule gives the shape, ``program(*arrays, **metadata)`` the elements.

        Args:
            dtype: of the result; unless given, that of an operand: the last one, since the core has cast them to one.
            like: which one, where they were not.
        """
        rule = shape_rule(name)

        def kernel(*operands: Any, **meta: Any) -> Buffer:
            shape = rule(tuple(_shapes(x) for x in operands), **meta)
            flat = [x for v in operands for x in (v if isinstance(v, list) else [v]) if x is not None]
            out = self.new(shape, dtype or flat[like].dtype, flat[0].device)
            return self.launch(name, _arranged(program, operands, meta), tuple(flat), out, True)

        kernel.__name__ = name
        return kernel

    def in_place(self, name: str, program: Program) -> Callable[[Buffer, Any], None]:
        """A kernel of an in-place form: the elements of ``program(x1, x2)`` are written into ``x1``; ``x2`` may be a number."""
        rule = shape_rule(name)

        def kernel(x1: Buffer, x2: Any) -> None:
            if x1.readonly:
                raise ValueError("read-only")  # the core words it
            if isinstance(x2, Buffer):
                rule((x1.shape, x2.shape))
                self.launch(name, program, (x1, x2), x1, False)
            else:
                value = number(x2, x1.dtype)
                self.launch(name, lambda a: program(a, value), (x1,), x1, False)

        kernel.__name__ = name
        return kernel


def _shapes(x: Any) -> Any:
    return tuple(e.shape for e in x) if isinstance(x, list) else None if x is None else x.shape


def _arranged(program: Program, operands: tuple[Any, ...], meta: dict[str, Any]) -> Program:
    """The program as a function of the flat operands that are there."""
    ready = partial(program, **meta) if meta else program
    if all(isinstance(x, Buffer) for x in operands):
        return ready

    def run(*arrays: Array) -> Any:
        left = iter(arrays)
        return ready(
            *(None if x is None else next(left) if isinstance(x, Buffer) else [next(left) for _ in x] for x in operands)
        )

    return run


def number(value: Any, dtype: DType) -> Any:
    """A Python number as a program may use it. An OverflowError is worded by the core.

    Raises:
        DTypeError: NaN, an infinity or a complex number, in a dtype without them.
    """
    if isinstance(value, complex) and dtype.name == "bool":
        value = value != 0
    if isinstance(value, complex) or (isinstance(value, float) and dtype.name not in ("bool", "float16", "float32")):
        if isinstance(value, complex) or value - value != 0:
            raise DTypeError(f"{value!r} is no {dtype}; name another dtype")
        value = int(value)
    with np.errstate(all="ignore"):
        return np.asarray(value, dtype.name)


def matmul(a: Array, b: Array) -> Array:
    if a.dtype == np.float16:
        a, b = a.astype(np.float32), b.astype(np.float32)
    return np.asarray(np.matmul(a, b))


def total(reduce: Any, a: Array, axis: Shape, keepdims: bool, dtype: str) -> Array:
    """A sum or product; floats are accumulated in 64 bits, as good adders do."""
    wide = np.float64 if dtype in ("float16", "float32") else dtype
    return np.asarray(reduce(a, axis=axis, dtype=wide, keepdims=keepdims))


PROGRAMS: dict[str, Program] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.true_divide,
    "maximum": np.maximum,
    "negative": np.negative,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "where": np.where,
    "matmul": matmul,
    "max": lambda a, *, axis, keepdims: np.max(a, axis=axis, keepdims=keepdims),
    "concat": lambda arrays, *, axis: np.concatenate(arrays, axis),
    "copy": lambda a: a,
}
COMPARISONS: dict[str, Program] = {"equal": np.equal, "not_equal": np.not_equal, "greater": np.greater}


def make(**powers: Any) -> Backend:
    """A backend with the minimal operators.

    Args:
        powers: optional ones, and what is claimed of the operators; arguments of `Backend`.
    """
    backend = Backend(
        Device("vault", indexed=True),
        strided,
        payload=Buffer,
        describe=describe,
        aliases=overlap,
        allocator=Pool,
        current=lambda: 0,
        count=COUNT,
        **{"capabilities": Capabilities(dtypes=DTYPES), **powers},
    )
    host = Host(backend)
    for name, program in PROGRAMS.items():
        backend.kernel(name)(host.by_rule(name, program))
    for name, program in COMPARISONS.items():
        backend.kernel(name)(host.by_rule(name, program, tripoint.bool))
    backend.kernels(
        argmax=host.by_rule("argmax", lambda a, *, axis, keepdims: a.argmax(axis, keepdims=keepdims), tripoint.int64)
    )
    backend.kernels(scalars=True, assign_=host.in_place("assign_", lambda x1, x2: x2))
    _views(backend, host)
    _creation(backend, host)

    @backend.kernel("sum")
    def sum(x: Buffer, *, axis: Shape, keepdims: bool, target: Key) -> Buffer:
        return reduced(host, "sum", np.sum, x, axis, keepdims, target)

    return backend


def reduced(host: Host, name: str, ufunc: Any, x: Buffer, axis: Shape, keepdims: bool, target: Key) -> Buffer:
    """A reduction in the dtype of its result."""
    out = host.new(shape_rule(name)((x.shape,), axis=axis, dtype=None, keepdims=keepdims), target.dtype, x.device)
    program = partial(total, ufunc, axis=axis, keepdims=keepdims, dtype=target.dtype.name)
    return host.launch(name, program, (x,), out, True)


def _views(backend: Backend, host: Host) -> None:
    """What only looks at memory in another way, and the one that may have to copy."""

    def permute_dims(x: Buffer, *, axes: Shape) -> Buffer:
        return x.view(tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes), x.offset)

    def matrix_transpose(x: Buffer) -> Buffer:
        return permute_dims(x, axes=(*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))

    def expand_dims(x: Buffer, *, axis: Shape) -> Buffer:
        return indexed(x, tuple(None if i in axis else slice(None) for i in range(len(x.shape) + len(axis))))

    def squeeze(x: Buffer, *, axis: Shape) -> Buffer:
        return indexed(x, tuple(0 if i in axis else slice(None) for i in range(len(x.shape))))

    def broadcast_to(x: Buffer, *, shape: Shape) -> Buffer:
        new = len(shape) - len(x.shape)
        kept = (s if n == m else 0 for n, m, s in zip(x.shape, shape[new:], x.strides, strict=True))
        return x.view(shape, (*[0] * new, *kept), x.offset, readonly=True)

    def getitem(x: Buffer, *, key: tuple[Any, ...]) -> Buffer:
        return indexed(x, key)

    def reshape(x: Buffer, *, shape: Shape, copy: bool | None) -> Buffer:
        strides = None if copy else regrouped(x.shape, x.strides, shape)
        if strides is not None:
            return x.view(shape, strides, x.offset)
        if copy is False:
            raise AliasError(
                f"reshape of shape {x.shape} with strides {x.strides} (in elements) to {shape} needs a copy, "
                "and copy=False forbids it"
            )
        out = host.new(shape, x.dtype, x.device)
        return host.launch("reshape", lambda a: a.reshape(shape), (x,), out, True)

    for fn in (permute_dims, matrix_transpose, expand_dims, squeeze, broadcast_to, getitem, reshape):
        backend.kernel(fn.__name__, check_first=True)(fn)


def _creation(backend: Backend, host: Host) -> None:
    """New tensors, casts, and both ways to the CPU."""

    def filled(name: str, shape: Shape, value: Any, target: Key) -> Buffer:
        made = number(value, target.dtype) if target.dtype.name in DTYPES else value
        return host.launch(name, lambda: made, (), host.new(shape, target.dtype, target.device), True)

    @backend.kernel("zeros")
    def zeros(*, shape: Shape, target: Key) -> Buffer:
        return filled("zeros", shape, 0, target)

    @backend.kernel("ones")
    def ones(*, shape: Shape, target: Key) -> Buffer:
        return filled("ones", shape, 1, target)

    @backend.kernel("full")
    def full(*, shape: Shape, fill_value: Any, target: Key) -> Buffer:
        return filled("full", shape, fill_value, target)

    @backend.kernel("astype")
    def astype(x: Buffer, *, target: Key) -> Buffer:
        return host.launch("astype", lambda a: a, (x,), host.new(x.shape, target.dtype, x.device), True)

    @backend.from_("cpu.strided")
    def upload(x: Array, *, target: Key, non_blocking: bool = False) -> Buffer:
        out = host.new(x.shape, target.dtype, target.device)
        data = x if non_blocking else x.copy()  # which may change before the copy has its turn
        return host.launch("to", lambda: data, (), out, True)

    @backend.to("cpu.strided")
    def download(x: Buffer, *, non_blocking: bool = False) -> Array:
        out = np.empty(x.shape, x.dtype.name)
        if non_blocking:
            host.send("to", partial(np.copyto, out), x)
        else:
            host.fetch("to", partial(np.copyto, out), x)
        return out

    @backend.kernel("to_list")
    def to_list(x: Buffer) -> Any:
        return download(x).tolist()
