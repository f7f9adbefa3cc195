"""A plugin author's package, for mypy: it is type-checked under the strict settings of the workspace and never run.

It is written over lists, since what an author annotates is payloads of their own class. A `type: ignore` here is a test as
well: mypy reports the ones that it does not need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import tripoint as tp
from tripoint import Tensor
from tripoint.errors import DeviceError
from tripoint.plugin import (
    Allocator,
    Backend,
    Block,
    Capabilities,
    Device,
    DType,
    Key,
    Layer,
    Layout,
    Row,
    Sample,
    check,
    composite,
    derivative,
    dtypes_in,
    floating,
    kernel,
    key,
    minimal,
    operators,
    payload,
    primitive,
    register,
    resolve,
    row_of,
    rules,
    scalar,
    strided,
    wrap,
)


class Buffer:
    def __init__(self, shape: tuple[int, ...], data: list[float]) -> None:
        self.shape = shape
        self.data = data


class Place:
    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


class Line:
    def record(self) -> Place:
        return Place()

    def wait(self, marker: Place) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


class Lines:
    def default(self, device: Device) -> Line:
        return Line()

    def create(self, device: Device) -> Line:
        return Line()

    def synchronize(self, device: Device | None) -> None: ...


class Pool(Allocator):
    def _alloc(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def _free(self, block: bytearray) -> None: ...

    def _capacity(self) -> int:
        return 1 << 20


backend = Backend(
    Device("shed"),
    strided,
    payload=Buffer,
    describe=lambda p: {"dtype": tp.float32, "strides": None},
    aliases=lambda out, x: out is x,
    allocator=Pool(),
    streams=Lines(),
    capabilities=Capabilities(dtypes=(floating, "int64"), lacks={"pow": "not written"}, tolerance={"exp": 1e-3}),
)


@backend.probe
def probe() -> str | None:
    return None


@backend.factory
def factory(row: Row) -> Callable[..., Buffer] | None:
    return None if row.kind != "elementwise" else lambda x: x


def add(x1: Buffer, x2: Buffer) -> Buffer:
    return Buffer(x1.shape, [a + b for a, b in zip(x1.data, x2.data, strict=True)])


table = {"add": add, "multiply": add}
backend.kernels(table, scalars=True)
backend.kernels(table, optional=True, subtract=add)
backend.kernels_by_dtype(maximum=dict.fromkeys(dtypes_in(floating), add), minimum={tp.float32: add})


@backend.kernel("sum", out=strided, check_first=True)
def total(x: Buffer, *, axis: tuple[int, ...], keepdims: bool) -> Buffer:
    check.ndim("sum", 1, 2, x=x)
    return Buffer((), [sum(x.data)])


@backend.to("cpu.strided")
def download(x: Buffer) -> Any:
    return x.data


@backend.from_("cpu.strided")
def upload(x: Any, *, target: Key) -> Buffer:
    if target.dtype is not tp.float32:
        raise DeviceError("float32 alone")
    return Buffer(tuple(x.shape), list(x.flat))


backend.derivative("add", args=(backend, scalar), x1=lambda g: g)
register(backend)

ragged = Layout("ragged", attributes={"rows": lambda x: payload(x).rows})
posit8 = DType("posit8", bits=8, plain=tp.float32, gradient=tp.float32)


@primitive(
    namespace="toy", dtype=rules.promoted(floating), shape=rules.broadcast, samples=lambda: [Sample(([1.0], 2.0))]
)
def hypotenuse(x1: Tensor, x2: Tensor | float, /, *, exact: bool = True) -> Tensor:
    """The length of a diagonal."""
    raise NotImplementedError


@composite(namespace="toy")
def swish(x: Tensor, /, *, beta: float = 1.0) -> Tensor:
    """``x / (1 + exp(-beta * x))``."""
    return x / (1 + tp.exp(-beta * x))


@composite
def twice(x: Tensor, /) -> Tensor:
    """``x + x``."""
    return x + x


@kernel(hypotenuse, args=("cpu.strided", "cpu.strided"))
def diagonal(x1: Any, x2: Any, *, exact: bool) -> Any:
    return (x1 * x1 + x2 * x2) ** 0.5


derivative(hypotenuse, x1=lambda g, x1, out: g * x1 / out, x2=lambda g, x2, out: g * x2 / out)


class Count(Layer, below="trace"):
    def __init__(self) -> None:
        self.calls = 0

    def handles(self, op: Row) -> bool:
        return op.returns == "tensor"

    def __call__(self, op: Row, call_next: Callable[..., Any], args: tuple[Any, ...], meta: dict[str, Any]) -> Any:
        self.calls += 1
        return call_next(args, meta)


def uses(x: Tensor) -> None:
    # The decorators keep the signature that was written: an editor shows it, and a wrong call is an error.
    assert_type(hypotenuse(x, 1.0, exact=False), Tensor)
    assert_type(swish(x, beta=2.0), Tensor)
    assert_type(twice(x), Tensor)
    hypotenuse(x)  # type: ignore[call-arg]
    swish(x, alpha=2.0)  # type: ignore[call-arg]
    twice("one")  # type: ignore[arg-type]
    # So does that of a kernel.
    assert_type(total(Buffer((1,), [1.0]), axis=(0,), keepdims=False), Buffer)
    assert_type(probe(), str | None)
    with Count() as counted:
        twice(x)
    assert_type(counted, Count)
    assert_type(counted.calls, int)
    assert_type(resolve(tp.add, x, x).label(), str)
    assert_type(row_of(tp.add).name, str)
    assert_type(minimal(), tuple[str, ...])
    assert_type(operators(), dict[str, Callable[..., Any]])
    assert_type(wrap(key(tp.Device("shed"), strided, tp.float32), Buffer((1,), [1.0])), Tensor)
    assert_type(backend.allocator().allocate(16), Block)


Backend("shed", strided)  # type: ignore[call-arg]
Capabilities(dtype="float32")  # type: ignore[call-arg]
