"""Tensors on the CPU in strided memory, computed by NumPy. Owns ``cpu.strided`` for the plain dtypes."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from tripoint.plugin import Backend, DType, Pattern, scalar, strided
from tripoint_dense_cpu import _arrays
from tripoint_dense_cpu._arrays import dtype_name, numpy_dtype
from tripoint_dense_cpu._windows import window_extent, window_taps

__all__ = ["backend", "number", "numpy_dtype", "window_extent", "window_taps"]


def _describe(p: Any) -> dict[str, Any]:
    owner = p
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return {
        "dtype": _dtype(dtype_name(p.dtype)),
        "address": owner.__array_interface__["data"][0],
        "nbytes": owner.nbytes,
        "strides": tuple([s // p.itemsize for s in p.strides]),
        "readonly": not p.flags.writeable,
    }


def _dtype(name: str) -> DType | None:
    import tripoint

    return {"bool": tripoint.bool}.get(name) or getattr(tripoint, name, None)


def _aliases(out: Any, x: Any) -> bool:
    owner = out.base
    if owner is x:
        return out.size > 0
    if owner is None and x.base is None:
        return out is x
    try:
        return np.shares_memory(out, x, max_work=10_000)
    except np.exceptions.TooHardError:
        return True


def silent(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` in a frame that belongs to no module, whose NumPy warnings CPython drops (the core's Note [Quiet frames]).

    The functions of its own module that it calls are silent there too. The caller's ``numpy.seterr(all="raise")`` is met by
    running again under ``numpy.errstate``, see `Backend`'s ``quiet``.
    """
    if not isinstance(fn, FunctionType):
        return fn
    room = _rooms.setdefault(fn.__module__, {"__name__": None})
    for name, value in fn.__globals__.items():  # the module may still be on its way
        if name not in room:
            own = isinstance(value, FunctionType) and value.__module__ == fn.__module__
            room[name] = _moved(value, room) if own else value
    return _moved(fn, room)


_rooms: dict[str, dict[str, Any]] = {}


def _moved(fn: FunctionType, room: dict[str, Any]) -> FunctionType:
    made = FunctionType(fn.__code__, room, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__doc__, made.__module__ = fn.__doc__, fn.__module__
    return made


number = silent(_arrays.number)


def _raises(number: Any, dtype: Any) -> bool:
    try:
        np.asarray(number, dtype)
    except FloatingPointError:
        return True
    return False


def _quiet() -> Any:
    return np.errstate(all="ignore")


backend = Backend(
    "cpu",
    strided,
    payload=np.ndarray,
    describe=_describe,
    aliases=_aliases,
    coerce=np.asarray,
    quiet=_quiet,
)


@backend.memory_stats
def _memory() -> str:
    return "results belong to NumPy, which allocates and counts them by itself (tracemalloc shows its domain)"


_binary: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.true_divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "pow": silent(_arrays.pow),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
backend.kernels(_binary, scalars=True)


def _beside_bfloat16(fn: Callable[..., Any]) -> Callable[..., Any]:
    # To NumPy bfloat16 is no dtype of its own, so that a Python number would make a float32 of it.
    def kernel(x1: Any, x2: Any) -> Any:
        if isinstance(x1, np.ndarray):
            return fn(x1, number(x2, x1.dtype))
        return fn(number(x1, x2.dtype), x2)

    kernel.__name__ = fn.__name__
    return silent(kernel)


for _name, _fn in _binary.items():
    for _args in ((Pattern("cpu", "strided", "bfloat16"), scalar), (scalar, Pattern("cpu", "strided", "bfloat16"))):
        backend.kernel(_name, args=_args)(_beside_bfloat16(_fn))

backend.kernels(
    logical_and=np.logical_and,  # not of Python numbers, which NumPy would first make an array of: 2**64 is none
    logical_or=np.logical_or,
    logical_xor=np.logical_xor,
    negative=np.negative,
    abs=np.absolute,
    sign=np.sign,
    square=np.square,
    exp=np.exp,
    log=np.log,
    sqrt=np.sqrt,
    tanh=np.tanh,
    sin=np.sin,
    cos=np.cos,
    logical_not=np.logical_not,
    bitwise_invert=np.invert,
    isnan=np.isnan,
    isfinite=np.isfinite,
    isinf=np.isinf,
)


def _into(ufunc: Any) -> Callable[..., Any]:
    def write(x1: Any, x2: Any) -> None:
        # Under the caller's numpy.seterr(all="raise") NumPy raises when the result has been written, and so it is no error
        # here, but not where it works on temporaries or first has to read a number: these it is spared.
        if x2.__class__ is not np.ndarray:
            if x1.dtype.kind == "V":
                x2 = number(x2, x1.dtype)
        elif x1 is not x2 and (x1.base is not None or x2.base is not None) and np.may_share_memory(x1, x2):
            x2 = x2.copy()
        try:
            ufunc(x1, x2, x1)
        except FloatingPointError:
            if not isinstance(x2, np.ndarray) and _raises(x2, x1.dtype):
                with np.errstate(all="ignore"):
                    ufunc(x1, x2, x1)

    write.__name__ = f"{ufunc.__name__}_"
    return silent(write)


backend.kernels(
    scalars=True,
    add_=_into(np.add),
    subtract_=_into(np.subtract),
    multiply_=_into(np.multiply),
    divide_=_into(np.true_divide),
    bitwise_and_=_into(np.bitwise_and),
    bitwise_or_=_into(np.bitwise_or),
    bitwise_xor_=_into(np.bitwise_xor),
    assign_=silent(_arrays.assign_),
    assign=silent(_arrays.assign),
    where=silent(_arrays.where),
)
backend.kernels(
    {
        name: silent(getattr(_arrays, name))
        for name in (
            "empty", "zeros", "ones", "full", "ramp", "from_data", "astype", "copy", "to_list", "to_numpy", "to_text",
            "reshape", "permute_dims", "matrix_transpose", "expand_dims", "squeeze", "broadcast_to", "flip", "concat",
            "getitem", "getitem_back", "take", "take_back", "sum", "sum_leading", "prod", "max", "min", "all", "any",
            "argmax", "argmin", "matmul", "matmul_nt", "matmul_tn", "relu", "relu_back", "multiply_back", "divide_back",
            "softmax", "log_softmax", "log_softmax_back", "cross_entropy", "nll_loss", "nll_loss_back", "pick", "pick_back",
            "conv2d", "conv2d_input", "conv2d_weight", "max_pool2d", "max_pool2d_input", "max_pool2d_tangent",
        )
    }
)  # fmt: skip
