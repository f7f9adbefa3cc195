"""Make ``golden.json`` of the conformance kit, with NumPy, SciPy and ml_dtypes: what every backend has to agree on.

    python tests/conformance/make_golden.py            # writes the file
    python tests/conformance/make_golden.py --check    # compares it with what would be written

Run it when a vector is added. Elements stand in the file as numbers; NaN, infinities and negative zero as text.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import scipy
from scipy import signal, special

import tripoint.conformance

FILE = Path(tripoint.conformance.__file__).with_name("golden.json")
VECTORS: list[dict[str, Any]] = []

nan, inf = np.nan, np.inf
EXACT, ROUNDED = 0.0, 2.0**-23


def encode(value: Any) -> Any:
    if isinstance(value, complex):
        return [encode(value.real), encode(value.imag)]
    if isinstance(value, float) and (not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0)):
        return repr(value)
    return value


def array(x: Any, role: str | None = None) -> dict[str, Any]:
    x = np.asarray(x)
    name = x.dtype.name
    flat = (x.astype(np.float32) if name == "bfloat16" else x).reshape(-1).tolist()
    out = {"dtype": name, "shape": list(x.shape), "data": [encode(v) for v in flat]}
    return out if role is None else {**out, "role": role}


def operand(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return array(value)
    return [operand(v) for v in value] if isinstance(value, list) else value


def vector(
    about: str, operator: str, operands: list[Any], want: Any, *, rtol: float = EXACT, zeros: bool = False, **meta: Any
) -> None:
    entry = {"operator": operator, "about": about, "operands": [operand(v) for v in operands], "meta": meta}
    if isinstance(want, str):
        entry["error"] = want
    else:
        entry["want"] = array(want)
        entry["rtol"] = rtol
    if zeros:
        entry["zeros"] = True
    VECTORS.append({k: v for k, v in entry.items() if v not in ({}, 0.0)})


def labels(*values: int) -> Any:
    return array(np.array(values, np.int64), "index")


def f32(*values: Any) -> Any:
    return np.array(values, np.float32)


def not_a_number() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        a, b = np.array([nan, 1, nan, -inf, 2], dtype), np.array([1, nan, nan, inf, 2], dtype)
        for name, fn in (("maximum", np.maximum), ("minimum", np.minimum)):
            vector("NaN propagates", name, [a, b], fn(a, b))
        x = np.array([[1, nan, 2], [3, 4, -1]], dtype)
        for name, fn in (("max", np.max), ("min", np.min), ("argmax", np.argmax), ("argmin", np.argmin)):
            vector("NaN propagates, and is the first largest and smallest", name, [x], fn(x, axis=1), axis=1)
        vector("NaN makes a sum NaN", "sum", [x], np.sum(x, axis=1), axis=1)
        vector("NaN is true", "all", [np.array([nan, 1], dtype)], np.bool_(True))
        vector("NaN equals nothing", "equal", [a, a], a == a)
        vector("NaN differs from itself", "not_equal", [a, a], a != a)
        vector("NaN stays", "sign", [np.array([nan, -2, 0, 5], dtype)], np.array([nan, -1, 0, 1], dtype))
        vector("NaN is not chosen away", "relu", [np.array([nan, -1, 2], dtype)], np.array([nan, 0, 2], dtype))
    x = f32(nan, -3, 0.5, 3)
    vector("NaN stays", "clip", [x], np.clip(x, -1, 1), min=-1.0, max=1.0)


def ties_and_signs() -> None:
    for dtype in (np.int32, np.float32):
        x = np.array([[2, 7, 7, 1], [5, 5, 5, 5], [1, 2, 0, 0]], dtype)
        vector("the first of equals", "argmax", [x], x.argmax(1), axis=1)
        vector("the first of equals", "argmin", [x], x.argmin(1), axis=1)
    x = f32(0.0, -0.0, 1.5, -inf)
    vector("the sign of zero changes", "negative", [x], -x, zeros=True)
    vector("no sign is left", "abs", [x], np.abs(x), zeros=True)
    vector("signs multiply", "multiply", [x, f32(-1, 1, -0.0, 2)], x * f32(-1, 1, -0.0, 2), zeros=True)
    vector("a quotient by zero", "divide", [f32(1, -1, 0, 1), f32(0, 0, 0, -0.0)], f32(inf, -inf, nan, -inf))
    halves = np.array([1 + 2**-11, 1 + 3 * 2**-11, 2049, 2051, 65520, 1e-8])
    vector("halves go to the even neighbour", "astype", [halves], halves.astype(np.float16), dtype="float16")
    halves = np.array([1 + 2**-8, 1 + 3 * 2**-8, 257, 259], np.float32)
    vector("halves go to the even neighbour", "astype", [halves], halves.astype(ml_dtypes.bfloat16), dtype="bfloat16")
    odd = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1], np.int64)
    vector("integers are rounded once", "astype", [odd], odd.astype(np.float32), dtype="float32")


def reductions_of_nothing() -> None:
    x = np.zeros((0, 3), np.float32)
    for name, fn in (("sum", np.sum), ("prod", np.prod)):
        vector("of nothing", name, [x], fn(x, axis=0), axis=0)
        vector("of nothing, nothing left", name, [x], fn(x, axis=1), axis=1)
        vector("of nothing at all", name, [np.zeros(0, np.int8)], fn(np.zeros(0, np.int64)))
    vector("of nothing", "all", [x], np.all(x, axis=0), axis=0)
    vector("of nothing", "any", [x], np.any(x, axis=0), axis=0)
    vector("of nothing", "mean", [x], np.full(3, nan, np.float32), axis=0)
    for name in ("max", "min", "argmax", "argmin"):
        vector("there is no largest of nothing", name, [x], "ShapeError", axis=0)
    y = np.zeros((2, 0), np.float32)
    for name, fn in (("max", np.max), ("min", np.min)):
        vector("nothing to choose for", name, [y], fn(y, axis=0), axis=0)


def integers() -> None:
    for dtype, value in ((np.int8, 100), (np.int16, 30000), (np.int32, 2**31 - 1), (np.uint8, 200), (np.uint16, 65535)):
        x = np.full((2, 5), value, dtype)
        vector("sums are in 64 bits", "sum", [x], x.sum(axis=1), axis=1)
        vector("products are in 64 bits", "prod", [x[:, :2]], x[:, :2].prod(axis=1), axis=1)
        vector("arithmetic wraps around", "add", [x, x], x + x)
        vector("arithmetic wraps around", "multiply", [x, x], x * x)
    x = np.array([2**53, 1, 1], np.int64)
    vector("exact in 64 bits", "sum", [x], x.sum())
    x = np.array([2**62, 2**62, 5], np.int64)
    vector("wraps around in 64 bits", "sum", [x], x.sum())
    x = np.array([True, True, False, True])
    vector("counts", "sum", [x], x.sum())
    a = np.array([[2**31, 3], [2**20 + 1, -7]], np.int64)
    vector("exact in 64 bits", "matmul", [a, a.T.copy()], a @ a.T)
    small = np.full((1, 4), 100, np.int8)
    vector("wraps around in its dtype", "matmul", [small, small.T.copy()], small @ small.T)
    x = np.array([-7, 7, -8, 8, 5], np.int32)
    y = np.array([2, -2, 3, -3, 5], np.int32)
    vector("toward minus infinity", "floor_divide", [x, y], x // y)
    vector("the sign of the divisor", "remainder", [x, y], x % y)
    zero = np.zeros(5, np.int32)
    vector("by zero 0", "floor_divide", [x, zero], zero)
    vector("by zero 0", "remainder", [x, zero], zero)
    x = np.array([-128, 127, 1], np.int8)
    vector("the smallest has no negative", "negative", [x], -x)
    x = np.array([300, -1, 255, 128, 2**40 + 3], np.int64)
    for target in ("int8", "uint8", "int32"):
        vector("wraps around", "astype", [x], x.astype(target), dtype=target)
    x = f32(1.9, -1.9, 0.5, -0.5, 100.99)
    vector("toward zero", "astype", [x], x.astype(np.int32), dtype="int32")


def refusals() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    vector("beyond the axis", "take", [x, labels(0, 3)], "IndexingError", axis=1)
    vector("before the axis", "take", [x, labels(-4)], "IndexingError", axis=1)
    vector("beyond the axis", "getitem", [x], "IndexingError", key=[0, 3])
    vector("too many indices", "getitem", [x], "IndexingError", key=[0, 0, 0])
    vector("no such axis", "sum", [x], "ShapeError", axis=2)
    vector("sizes differ", "add", [x, f32(1, 2)], "ShapeError")
    vector("sizes differ", "matmul", [x, x], "ShapeError")
    vector("no label", "cross_entropy", [x, labels(0, 3)], "IndexingError")
    vector("does not fit", "add", [np.array([1, 2], np.int8), 128], "ScalarRangeError")
    vector("no dtype holds both", "add", [np.array([1], np.int64), np.array([1], np.uint64)], "DTypeError")


def structure() -> None:
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for key, text in ((1, "an int"), (-2, "a negative int"), ([1, 2, 3], "three ints"), ([None, 1], "a new axis")):
        vector(text, "getitem", [x], x[tuple(key) if isinstance(key, list) else key], key=key)
    vector("axes in a cycle", "permute_dims", [x], x.transpose(2, 0, 1), axes=[2, 0, 1])
    vector("backwards", "flip", [x], np.flip(x, (0, 2)), axis=[0, 2])
    vector("row-major", "reshape", [x], x.reshape(4, -1), shape=[4, -1])
    vector("joined", "concat", [[x, x[:, :1]]], np.concatenate([x, x[:, :1]], 1), axis=1)
    vector("joined on a new axis", "stack", [[x, x]], np.stack([x, x], 2), axis=2)
    vector("negative positions count from the end", "take", [x, labels(-1, 0, 1)], x.take([-1, 0, 1], 1), axis=1)
    empty = np.zeros((0, 3), np.float32)
    vector("zero sizes", "add", [empty, f32(1, 2, 3)], empty)
    vector("zero sizes", "matmul", [np.zeros((2, 0), np.float32), empty], np.zeros((2, 3), np.float32))
    vector("zero sizes", "concat", [[empty, f32(1, 2, 3)[None]]], f32(1, 2, 3)[None], axis=0)


def promotion() -> None:
    pairs = [
        ("int8", "int16"), ("uint8", "int8"), ("uint16", "int16"), ("uint32", "int8"), ("bool", "uint8"),
        ("float32", "float64"), ("float16", "float32"), ("float32", "complex64"), ("complex64", "float64"), ("bool", "float16"),
    ]  # fmt: skip
    for a, b in pairs:
        x, y = np.array([1, 0, 1]).astype(a), np.array([1, 1, 0]).astype(b)
        vector("promoted together", "add", [x, y], x + y)
        vector("promoted together", "multiply", [x, y], x * y)
    for dtype in ("int8", "uint8", "float16", "float32", "complex64"):
        x = np.array([1, 2, 3]).astype(dtype)
        vector("a Python number is weak", "add", [x, 2], (x + 2).astype(dtype))
    vector("zero dimensions count", "add", [np.array([1], np.int8), np.array(1, np.int64)], np.array([2], np.int64))


def numbers() -> None:
    x = np.linspace(-6, 6, 17)
    positive = np.logspace(-4, 4, 17)
    for dtype, rtol in ((np.float32, 8 * ROUNDED), (np.float64, 8 * 2.0**-52)):
        a, p = x.astype(dtype), positive.astype(dtype)
        wide = a.astype(np.longdouble)
        for name, fn in (("exp", np.exp), ("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos), ("square", np.square)):
            vector("between -6 and 6", name, [a], fn(wide).astype(dtype), rtol=rtol)
        for name, fn in (("log", np.log), ("sqrt", np.sqrt)):
            vector("between 1e-4 and 1e4", name, [p], fn(p.astype(np.longdouble)).astype(dtype), rtol=rtol)
        edge = np.array([0, -1, inf, nan], dtype)
        with np.errstate(all="ignore"):
            for name, fn in (("log", np.log), ("sqrt", np.sqrt), ("exp", np.exp)):
                vector("at the edge", name, [edge], fn(edge), rtol=rtol)
        base = np.abs(a) + dtype(0.5)
        vector(
            "powers",
            "pow",
            [base, a / dtype(4)],
            np.power(base.astype(np.longdouble), (a / dtype(4)).astype(np.longdouble)).astype(dtype),
            rtol=rtol,
        )
        with np.errstate(all="ignore"):
            top, bottom = np.array([7.5, -7.5, 7.5, -7.5, 1, 0, inf], dtype), np.array([2, 2, -2, -2, 0, 0, 2], dtype)
            vector("floored", "floor_divide", [top, bottom], np.floor_divide(top, bottom))
            vector("the sign of the divisor", "remainder", [top, bottom], np.remainder(top, bottom))
        m, n = np.sin(np.arange(35)).reshape(5, 7).astype(dtype), np.cos(np.arange(42)).reshape(7, 6).astype(dtype)
        vector(
            "of sines and cosines",
            "matmul",
            [m, n],
            (m.astype(np.longdouble) @ n.astype(np.longdouble)).astype(dtype),
            rtol=4 * rtol,
        )
        vector(
            "of sines", "softmax", [m], special.softmax(m.astype(np.float64), axis=1).astype(dtype), rtol=rtol, axis=1
        )
        vector(
            "of sines",
            "log_softmax",
            [m],
            special.log_softmax(m.astype(np.float64), axis=0).astype(dtype),
            rtol=rtol,
            axis=0,
        )
        rows = special.log_softmax(m.astype(np.float64), axis=1)
        chosen = [1, 0, 6, 3, 3]
        vector(
            "of sines",
            "cross_entropy",
            [m, labels(*chosen)],
            np.asarray(-rows[range(5), chosen].mean(), dtype),
            rtol=rtol,
        )
        images = np.sin(np.arange(2 * 3 * 5 * 6)).reshape(2, 3, 5, 6)
        kernels = np.cos(np.arange(4 * 3 * 2 * 3)).reshape(4, 3, 2, 3)
        made = np.array([[signal.correlate(i, k, mode="valid")[0] for k in kernels] for i in images])
        vector(
            "of sines and cosines",
            "conv2d",
            [images.astype(dtype), kernels.astype(dtype), None],
            made.astype(dtype),
            rtol=16 * rtol,
        )
        windows = np.lib.stride_tricks.sliding_window_view(images.astype(dtype), (2, 3), axis=(2, 3))[:, :, ::2, ::3]
        vector("of sines", "max_pool2d", [images.astype(dtype)], windows.max(axis=(4, 5)), kernel_size=[2, 3])
    ones = np.ones(4096, np.float16)
    vector("half precision is added up in single", "sum", [ones], np.float16(4096))
    vector("half precision is added up in single", "mean", [ones * np.float16(16)], np.float16(16))
    vector("half precision is added up in single", "matmul", [ones, ones], np.float16(4096))


def main() -> int:
    for make in (
        not_a_number, ties_and_signs, reductions_of_nothing, integers, refusals, structure, promotion, numbers,
    ):  # fmt: skip
        with np.errstate(all="ignore"):
            make()
    made_with = f"NumPy {np.__version__}, SciPy {scipy.__version__}, ml_dtypes {ml_dtypes.__version__}"
    lines = ",\n".join(json.dumps(v) for v in VECTORS)
    text = f'{{"made_with": {json.dumps(made_with)},\n"vectors": [\n{lines}\n]}}\n'
    if "--check" in sys.argv:
        same = json.loads(FILE.read_text(encoding="utf-8"))["vectors"] == json.loads(text)["vectors"]
        print("the file is what would be written" if same else "the file differs")
        return 0 if same else 1
    FILE.write_text(text, encoding="utf-8")
    print(f"{len(VECTORS)} vectors written to {FILE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
