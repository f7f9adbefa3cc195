"""Kernels over NumPy arrays that no single NumPy function is: plain functions, tested alone."""

from __future__ import annotations

from builtins import max as max_
from builtins import min as min_
from collections.abc import Sequence
from typing import Any

import numpy as np

from tripoint.errors import AliasError, ArgumentError, DTypeError, IndexingError, ScalarRangeError, shown
from tripoint.plugin import DType, Key, check
from tripoint_dense_cpu import _conv

Array = np.ndarray[Any, np.dtype[Any]]
Shape = tuple[int, ...]

_names = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
_by_name: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _names}
_float32, _float64 = _by_name["float32"], _by_name["float64"]
#: zeros as ufuncs take them most quickly: a Python number is first made an array.
_zero32, _zero64 = np.zeros((), _float32), np.zeros((), _float64)
_by_dtype: dict[np.dtype[Any], str] = {dtype: name for name, dtype in _by_name.items()}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of a plain dtype; bfloat16 comes from ml_dtypes, which is imported when first asked for."""
    found = _by_name.get(dtype.name)
    if found is None:
        import ml_dtypes

        found = _by_name[dtype.name] = np.dtype(getattr(ml_dtypes, dtype.name))
        _by_dtype[found] = dtype.name
    return found


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of the plain dtype that a NumPy dtype is."""
    return _by_dtype.get(dtype) or dtype.name


def _checked(x: Array, dtype: np.dtype[Any]) -> None:
    """Refuse to drop imaginary parts; a bool asks whether a number is 0, which loses nothing.

    Raises:
        DTypeError: complex to a real number.
    """
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise DTypeError(
            f"converting {x.dtype} to {dtype} drops the imaginary parts; tripoint.abs(x) gives the magnitude"
        )


def number(value: Any, dtype: np.dtype[Any]) -> Array:
    """A Python number as a 0-d array; floats are rounded to integers toward 0, too large floats become infinities.

    Raises:
        DTypeError: a complex number in a real dtype, or NaN or an infinity in an integer dtype.
        ScalarRangeError: an int that the dtype cannot hold.
    """
    if not isinstance(value, (bool, int, float, complex)):
        raise ArgumentError(f"{value!r} is no Python number")
    if isinstance(value, complex) and dtype.kind not in "cb":
        raise DTypeError(f"{value!r} is no {dtype_name(dtype)}; name a complex dtype")
    if isinstance(value, float) and dtype.kind in "iu":
        if value - value != 0:
            raise DTypeError(f"{value!r} is no {dtype_name(dtype)}; name a floating dtype")
        value = int(value)
    try:
        if dtype.kind == "V":
            value = float(value)  # ml_dtypes reads no int of more than 64 bits
        return np.asarray(value, dtype)
    except FloatingPointError:  # the caller's numpy.seterr; a number is no place to stop for it
        with np.errstate(all="ignore"):
            return np.asarray(value, dtype)
    except OverflowError:
        raise ScalarRangeError(
            f"the Python number {shown(value)} does not fit in {dtype_name(dtype)}; name a wider dtype, or convert first"
        ) from None


def _wide(x: Array) -> bool:
    """Whether products and sums of the array must be accumulated in a wider dtype (float16 and bfloat16)."""
    return x.dtype.itemsize == 2 and x.dtype.kind in "fV"


# Creation and conversion ---------------------------------------------------------------------------------------------


def empty(*, shape: Shape, target: Key) -> Array:
    """Uninitialised memory."""
    return np.empty(shape, numpy_dtype(target.dtype))


def zeros(*, shape: Shape, target: Key) -> Array:
    """Zeros."""
    return np.zeros(shape, numpy_dtype(target.dtype))


def ones(*, shape: Shape, target: Key) -> Array:
    """Ones."""
    return np.ones(shape, numpy_dtype(target.dtype))


def full(*, shape: Shape, fill_value: Any, target: Key) -> Array:
    """One value."""
    dtype = numpy_dtype(target.dtype)
    value = number(fill_value, dtype)
    if not shape:
        return value
    out = np.empty(shape, dtype)
    out[...] = value
    return out


def ramp(*, start: Any, step: Any, count: int, target: Key) -> Array:
    """``start + i * step``; of floats each element is computed by itself, so errors do not add up."""
    dtype = numpy_dtype(target.dtype)
    if isinstance(start, int) and isinstance(step, int):
        ends = (start, start + (count - 1) * step if count else start)
        if dtype.kind in "iu" and count:
            for end in ends:
                number(end, dtype)
        if dtype.kind == "u" or (min_(ends) >= -(2**63) and max_(ends) < 2**63):
            # In 64 bits, where what wraps on the way ends where it must.
            steps = np.arange(count, dtype=np.uint64) * np.uint64(step % 2**64) + np.uint64(start % 2**64)
            return (steps if dtype.kind == "u" else steps.view(np.int64)).astype(dtype)
    return (np.arange(count, dtype=np.float64) * step + start).astype(dtype)


def _overlaps_itself(x: Array) -> bool:
    """Whether elements may be one place in memory, as in what ``numpy.broadcast_arrays`` gives."""
    if x.flags.forc or not x.flags.writeable or not x.size:
        return False
    reach: int = x.itemsize
    for step, size in sorted((abs(step), size) for step, size in zip(x.strides, x.shape, strict=True) if size > 1):
        if step < reach:
            return True
        reach += step * (size - 1)
    return False


def from_data(*, data: Any, copy: bool | None, target: Key) -> Array:
    """An array of nested sequences, numbers or a foreign array.

    Raises:
        ArgumentError: a masked array with masked elements.
        AliasError: ``copy=False`` and a copy is needed.
        DTypeError: values that the dtype cannot hold, such as NaN in an integer dtype.
    """
    dtype = numpy_dtype(target.dtype)
    if isinstance(data, np.ma.MaskedArray):
        if np.ma.is_masked(data):
            raise ArgumentError("asarray: a masked array with masked elements; fill them first, with .filled(value)")
        data = np.ma.getdata(data)
    if not hasattr(data, "__array__") and not hasattr(data, "__array_interface__") and hasattr(data, "__dlpack__"):
        data = np.from_dlpack(data)
    if isinstance(data, (np.ndarray, np.generic)):
        _checked(np.asarray(data), dtype)
    try:
        if isinstance(data, (list, tuple, bool, int, float, complex)):
            if dtype.kind == "V":  # ml_dtypes reads no int of more than 64 bits
                return np.array(data, dtype=_float64).astype(dtype)
            return np.array(data, dtype=dtype)
        out = np.array(data, dtype=dtype, copy=copy, order="C" if copy else "K", subok=False)
        if not out.flags.aligned:
            if copy is False:
                raise ValueError("memory that is not aligned")
            out = out.copy()
        if _overlaps_itself(out):  # a write would meet an element several times
            out = out.view()
            out.flags.writeable = False
        return out
    except OverflowError as error:
        raise ScalarRangeError(f"asarray: {error}; name a wider dtype") from None
    except (ValueError, TypeError, RuntimeError, BufferError) as error:  # of the array's own library too
        if copy is False:
            what = getattr(data, "dtype", type(data).__name__)
            raise AliasError(
                f"asarray: reading {what} as {target.dtype} needs a copy, and copy=False forbids it"
            ) from None
        raise DTypeError(f"asarray: the data cannot be read as {target.dtype}: {error}") from None


def astype(x: Array, *, target: Key) -> Array:
    """The elements in another dtype; NaN and infinities become arbitrary integers.

    Raises:
        DTypeError: complex to real, which would drop the imaginary parts.
    """
    dtype = numpy_dtype(target.dtype)
    _checked(x, dtype)
    return x.astype(dtype)


def copy(x: Array) -> Array:
    """A contiguous, writable copy."""
    return np.array(x, order="C", copy=True)


def to_list(x: Array) -> Any:
    """Nested lists of Python numbers."""
    return x.astype(np.float32).tolist() if x.dtype.kind == "V" else x.tolist()


def to_numpy(x: Array) -> Array:
    """The array itself."""
    return x


def to_text(x: Array) -> str:
    """The elements as text; more than a thousand are abbreviated, and only those shown are looked at."""
    return np.array2string(x, separator=", ", threshold=1000, edgeitems=3)


# Structure -----------------------------------------------------------------------------------------------------------


def reshape(x: Array, *, shape: Shape, copy: bool | None) -> Array:
    """Another shape in row-major order; a view where strides allow.

    Raises:
        AliasError: ``copy=False`` and a copy is needed.
    """
    if copy is None:
        return x.reshape(shape)
    if copy:
        out = x.reshape(shape)
        return out.copy() if np.may_share_memory(out, x) else out
    out = x.reshape(shape)
    if out.size and not np.may_share_memory(out, x):
        strides = tuple(s // x.itemsize for s in x.strides)
        raise AliasError(
            f"reshape of shape {x.shape} with strides {strides} (in elements) to {shape} needs a copy, "
            "and copy=False forbids it"
        )
    return out


def permute_dims(x: Array, *, axes: Shape) -> Array:
    """Axes reordered."""
    return x.transpose(axes)


def matrix_transpose(x: Array) -> Array:
    """The last two axes exchanged."""
    return x.mT


def expand_dims(x: Array, *, axis: Shape) -> Array:
    """Axes of size 1 inserted."""
    return x[tuple([None if i in axis else slice(None) for i in range(x.ndim + len(axis))])]


def squeeze(x: Array, *, axis: Shape) -> Array:
    """Axes of size 1 removed."""
    return x[(*[0 if i in axis else slice(None) for i in range(x.ndim)], ...)]


def broadcast_to(x: Array, *, shape: Shape) -> Array:
    """A read-only view of a larger shape."""
    return np.broadcast_to(x, shape)


def flip(x: Array, *, axis: Shape) -> Array:
    """Elements in reverse order along axes."""
    return x[(*[slice(None, None, -1) if i in axis else slice(None) for i in range(x.ndim)], ...)]


def concat(arrays: Sequence[Array], *, axis: int) -> Array:
    """Arrays joined along an axis."""
    return np.concatenate(arrays, axis)


def getitem(x: Array, *, key: tuple[Any, ...]) -> Array:
    """Basic indexing; the trailing ellipsis keeps 0-d results views."""
    return x[(*key, ...)]


def getitem_back(g: Array, *, shape: Shape, key: tuple[Any, ...]) -> Array:
    """Zeros with ``g`` in the place that ``key`` reads."""
    out = np.zeros(shape, g.dtype)
    out[key] = g
    return out


_unsigned = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def _positions(indices: Array, size: int, what: str, smallest: int) -> Array:
    if indices.dtype.kind not in "iu":
        raise IndexingError(f"{what}: positions must be integers, not {indices.dtype}")
    unsigned = _unsigned.get(indices.dtype) if smallest == 0 else None
    if unsigned is not None and indices.size and np.maximum.reduce(indices.view(unsigned), axis=None) < size:
        return indices  # one pass: a negative position is a huge unsigned one
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < smallest or high >= size:
            bad = low if low < smallest else high
            raise IndexingError(f"{what}: {bad} is out of range; positions lie in {smallest}..{size - 1}")
    return indices


def take(x: Array, indices: Array, *, axis: int) -> Array:
    """Elements at positions along an axis."""
    return x.take(_positions(indices, x.shape[axis], f"take along axis {axis}", -x.shape[axis]), axis)


def take_back(g: Array, indices: Array, *, shape: Shape, axis: int) -> Array:
    """Zeros with ``g`` added at positions.

    ``add.at`` adds one by one: half precision, and float32 where a position is named often, is accumulated in 64 bits.
    """
    often = indices.size > _LONG and np.bincount(indices.reshape(-1).astype(np.intp) % shape[axis]).max() > _LONG
    dtype = _wider(g.dtype) if often or _wide(g) else g.dtype
    out = np.zeros(shape, dtype)
    np.add.at(out, (*([slice(None)] * axis), indices), g.astype(dtype, copy=False))
    return out.astype(g.dtype, copy=False)


def _wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of its kind with 64 bits."""
    return {"f": _float64, "V": _float64, "c": _by_name["complex128"]}.get(dtype.kind, dtype)


def assign(x1: Array, x2: Any) -> Array:
    """``x2`` in the shape and dtype of ``x1``."""
    out = np.empty(x1.shape, x1.dtype)
    assign_(out, x2)
    return out


def assign_(x1: Array, x2: Any) -> None:
    """``x2`` written into ``x1``; a Python number out of range raises before anything is written."""
    if not x1.flags.writeable:  # which copyto does not notice when both are the same memory
        raise ValueError("read-only")  # the core words it
    if not isinstance(x2, np.ndarray):
        x2 = number(x2, x1.dtype)
    elif x1 is not x2 and (x1.base is not None or x2.base is not None) and np.may_share_memory(x1, x2):
        x2 = x2.copy()  # copyto itself is wrong for overlapping vectors of unequal strides
    np.copyto(x1, x2, casting="unsafe")


# Elementwise ---------------------------------------------------------------------------------------------------------


def pow(x1: Any, x2: Any) -> Any:
    """Powers; small integer exponents are products, which NumPy's power is many times slower than.

    Raises:
        ArgumentError: integers to a negative power.
    """
    if x2.__class__ is int and x1.dtype.kind in "fc":
        if x2 == 2:
            return x1 * x1
        if x2 == 3:
            return x1 * x1 * x1
    try:
        out = np.power(x1, x2)
    except ValueError:
        np.broadcast(x1, x2)  # raises where the shapes do not go together, which the operator's rule words
        _check_exponent(x2)
        raise
    if not out.size and out.dtype.kind in "iu":  # NumPy has looked at no exponent
        _check_exponent(x2)
    if out.dtype.kind == "f" and (half := x2 == 0.5) is not False and np.any(half):
        # For one exponent NumPy takes the square root, which is NaN of minus infinity, and -0.0 of -0.0.
        out = np.asarray(out)
        np.copyto(out, np.abs(x1), where=half & ((x1 == 0) | (x1 == -np.inf)))
    return out


def _check_exponent(x2: Any) -> None:
    check.exponent("pow", x2=int(np.min(x2)) if np.size(x2) else None)


def multiply_back(g: Array, slope: Array) -> Array:
    """``g * slope``, and 0 where ``g`` is 0."""
    return _annihilated(np.asarray(np.multiply(g, slope)), g)


def divide_back(g: Array, x: Array) -> Array:
    """``g / x``, and 0 where ``g`` is 0."""
    return _annihilated(np.asarray(np.divide(g, x, dtype=g.dtype)), g)


def _annihilated(out: Array, g: Array) -> Array:
    if np.isnan(np.add.reduce(out, axis=None)):  # one pass, no temporary; few gradients have a NaN
        np.copyto(out, out.dtype.type(0), where=g == 0)
    return out


def where(condition: Array, x1: Any, x2: Any, *, target: Key) -> Array:
    """A choice between two."""
    dtype = numpy_dtype(target.dtype)
    return np.where(condition, _as(x1, dtype), _as(x2, dtype))


def _as(value: Any, dtype: np.dtype[Any]) -> Array:
    if value.__class__ is not np.ndarray:
        return number(value, dtype)
    return value if value.dtype is dtype else value.astype(dtype, copy=False)


def _zero_of(dtype: np.dtype[Any]) -> Any:
    return _zero32 if dtype is _float32 else _zero64 if dtype is _float64 else dtype.type(0)


def relu(x: Array) -> Array:
    """The larger of x and 0; of -0.0 it is 0.0."""
    out = np.maximum(x, _zero_of(x.dtype))
    if x.itemsize == 2 and x.dtype.kind == "f":
        out += x.dtype.type(0)  # of two zeros NumPy's maximum for float16 gives the first
    return out


def relu_back(g: Array, x: Array) -> Array:
    """``g`` where x > 0, half of it at 0, else 0; NaN passes ``g``."""
    if g.shape == x.shape:
        out, zero = g.copy(), _zero_of(x.dtype)
        np.putmask(out, np.less(x, zero), zero)  # half the time of np.where
    else:
        out = np.where(x < 0, g.dtype.type(0), g)
    if np.count_nonzero(x) != x.size:  # cheaper than comparing with 0 and reducing
        np.copyto(out, g * g.dtype.type(0.5), where=x == 0)
    return out


# Reductions ----------------------------------------------------------------------------------------------------------


_LONG = 4096


def _one_by_one(x: Array, axis: Shape) -> bool:
    """Whether many elements may be added one by one, so that float32 stops counting at 2**24.

    NumPy adds in pairs along memory alone: over the last axes of an array without gaps, or all of them.
    """
    if x.size <= _LONG or (len(axis) == x.ndim and x.flags.f_contiguous):
        return False
    together, count = x.flags.c_contiguous, 1
    for a in range(x.ndim - 1, -1, -1):
        if a not in axis:
            together = together and x.shape[a] == 1
        elif not together:
            count *= x.shape[a]
    return count > _LONG


_SHORT = 64
_ones32, _ones64 = np.ones(_SHORT, _float32), np.ones(_SHORT, _float64)
_first = (0,)


def sum(x: Array, *, axis: Shape, keepdims: bool, target: Key) -> Any:
    """Sum in the result's dtype; what is rounded on the way, or added one by one, is accumulated in 64 bits."""
    dtype = x.dtype
    if axis and (dtype is _float32 or dtype is _float64) and _by_name[target.dtype.name] is dtype:
        if axis == _first and (count := x.shape[0]) <= _SHORT and not keepdims and x.ndim <= 2:
            ones = _ones32 if dtype is _float32 else _ones64
            return ones[:count].dot(x)  # a third of what a reduction takes to begin
        if x.size <= _LONG or dtype is _float64 or not _one_by_one(x, axis):
            return np.add.reduce(x, axis, out=..., keepdims=keepdims)
    dtype = numpy_dtype(target.dtype)
    if not axis:
        return x.astype(dtype)
    wide = _wider(dtype)
    if wide is dtype or (x.dtype == dtype and dtype.kind == "c" and not _one_by_one(x, axis)):
        return np.add.reduce(x, axis, dtype, None, keepdims)
    return np.add.reduce(x, axis, wide, None, keepdims).astype(dtype)


def sum_leading(x: Array, *, shape: Shape, target: Key) -> Any:
    """Sum over leading axes."""
    if x.shape[1:] == shape and x.ndim == 2 and x.dtype is _float32 and x.shape[0] <= _SHORT:
        return _ones32[: x.shape[0]].dot(x)
    lead = x.ndim - len(shape)
    if x.shape[lead:] != shape:
        raise ValueError("shapes")  # the operator's shape rule words it
    return sum(x, axis=tuple(range(lead)), keepdims=False, target=target)


def prod(x: Array, *, axis: Shape, keepdims: bool, target: Key) -> Any:
    """Product in the result's dtype; half precision is accumulated in float32."""
    dtype = numpy_dtype(target.dtype)
    if dtype.itemsize == 2 and dtype.kind in "fV":
        return np.multiply.reduce(x, axis=axis, dtype=np.float32, keepdims=keepdims).astype(dtype)
    return np.multiply.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims)


def max(x: Array, *, axis: Shape, keepdims: bool) -> Any:
    """Largest element."""
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


def min(x: Array, *, axis: Shape, keepdims: bool) -> Any:
    """Smallest element."""
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims)


def all(x: Array, *, axis: Shape, keepdims: bool) -> Any:
    """Whether all are true."""
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


def any(x: Array, *, axis: Shape, keepdims: bool) -> Any:
    """Whether any is true."""
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


def argmax(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    """Position of the first largest element; the first NaN wins."""
    return np.asarray(x.argmax(axis, keepdims=keepdims), dtype=np.int64)


def argmin(x: Array, *, axis: int | None, keepdims: bool) -> Any:
    """Position of the first smallest element; the first NaN wins."""
    return np.asarray(x.argmin(axis, keepdims=keepdims), dtype=np.int64)


# Products and networks -----------------------------------------------------------------------------------------------


def matmul(x1: Array, x2: Array) -> Any:
    """Matrix product; half precision is accumulated in float32."""
    if x1.ndim == 2 and x2.ndim == 2 and x1.itemsize != 2:
        return x1.dot(x2)  # much less to begin with than np.matmul
    if x1.shape[-1:] > (_LONG,):  # of other memory NumPy adds products one by one
        x1, x2 = np.ascontiguousarray(x1), np.ascontiguousarray(x2)
    if _wide(x1):
        return np.matmul(x1.astype(np.float32), x2.astype(np.float32)).astype(x1.dtype)
    return np.matmul(x1, x2)


def _shifted(x: Array, axis: int) -> Array:
    if x.size == 0:
        return x.copy()
    return np.subtract(x, np.maximum.reduce(x, axis, out=..., keepdims=True))


def _kept_sum(x: Array, axis: int) -> Array:
    """The sum along an axis, which stays as one of size 1; see `sum`."""
    dtype = x.dtype
    if x.ndim == 2 and x.shape[axis] <= _SHORT and (dtype is _float32 or dtype is _float64):
        ones = (_ones32 if dtype is _float32 else _ones64)[: x.shape[axis]]
        return x.dot(ones)[:, None] if axis else ones.dot(x)[None]
    if dtype is _float32 and _one_by_one(x, (axis,)):
        return np.add.reduce(x, axis, _float64, keepdims=True).astype(dtype)
    return np.add.reduce(x, axis, out=..., keepdims=True)


def _narrow(x: Array, axis: int) -> bool:
    """Whether many short rows are better worked on as columns: NumPy reduces along the first axis a row at a time."""
    return x.ndim == 2 and axis == 1 and 0 < x.shape[1] <= 32 <= x.shape[0]


def softmax(x: Array, *, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along an axis; half precision is computed in float32."""
    if _wide(x):
        return softmax(x.astype(np.float32), axis=axis).astype(x.dtype)
    if _narrow(x, axis):
        return softmax(x.T.copy(), axis=0).T.copy()
    out = _shifted(x, axis)
    np.exp(out, out=out)
    out /= _kept_sum(out, axis)
    return out


def log_softmax(x: Array, *, axis: int) -> Array:
    """The logarithm of softmax; half precision is computed in float32."""
    if axis == 1 and x.ndim == 2 and 0 < x.shape[1] <= 32 <= x.shape[0] and x.dtype is _float32:
        x = x.T.copy()  # the usual case, as below and without a call
        x -= np.maximum.reduce(x, 0, out=..., keepdims=True)
        x -= np.log(_ones32[: x.shape[0]].dot(np.exp(x)))
        return x.T.copy()
    if _wide(x):
        return log_softmax(x.astype(np.float32), axis=axis).astype(x.dtype)
    narrow = _narrow(x, axis)
    if narrow:
        x, axis = x.T.copy(), 0
    out = _shifted(x, axis)
    out -= np.log(_kept_sum(np.exp(out), axis))
    return out.T.copy() if narrow else out


def pick(x: Array, labels: Array) -> Array:
    """Of each row the element at its label."""
    return x[np.arange(x.shape[0]), _positions(labels, x.shape[1], "labels", 0)]


def pick_back(g: Array, labels: Array, *, classes: int) -> Array:
    """Zeros with ``g`` at the labels."""
    out = np.zeros((g.shape[0], classes), g.dtype)
    out[np.arange(g.shape[0]), _positions(labels, classes, "labels", 0)] = g
    return out


def cross_entropy(logits: Array, labels: Array) -> Any:
    """The mean over rows of minus the log of the softmax at the label; of no rows NaN."""
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise ValueError("shapes")  # the operator's shape rule words it
    count, classes = logits.shape
    if not count or not classes:
        _positions(labels, classes, "labels", 0)
        return np.asarray(np.nan, dtype=logits.dtype)
    work = _shifted(logits.astype(np.float32) if _wide(logits) else logits, 1)
    chosen = work[np.arange(count), _positions(labels, classes, "labels", 0)]
    # Only the chosen elements of the log-softmax are made.
    each = np.log(np.add.reduce(np.exp(work, out=work), axis=1)) - chosen
    return np.asarray(np.add.reduce(each) / count, dtype=logits.dtype)


_numbers = np.arange(1024)
_numbers.flags.writeable = False


def _row_numbers(count: int) -> Array:
    return _numbers[:count] if count <= 1024 else np.arange(count)


def nll_loss(x: Array, labels: Array) -> Any:
    """Minus the mean at the labels; of no rows NaN."""
    rows, classes = x.shape
    chosen = x[_row_numbers(rows), _positions(labels, classes, "labels", 0)]
    if x.dtype is _float32 and 0 < rows <= _SHORT:
        return _ones32[:rows].dot(chosen) / -rows
    if _wide(x):
        chosen = chosen.astype(np.float32)
    return np.asarray(np.add.reduce(chosen) / -rows if rows else np.nan, x.dtype)


def nll_loss_back(g: Array, labels: Array, *, shape: Shape) -> Array:
    """``-g / N`` at the labels."""
    rows = shape[0]
    out = np.zeros(shape, g.dtype)
    if rows:
        # The labels were checked when the loss was computed, and have not changed since: backward would have refused.
        out[_row_numbers(rows), labels] = g.item() / -rows
    return out


def log_softmax_back(g: Array, out: Array, *, axis: int) -> Array:
    """``g - exp(out) * sum(g)``; half precision is computed in float32."""
    if _wide(g):
        return log_softmax_back(g.astype(np.float32), out.astype(np.float32), axis=axis).astype(g.dtype)
    made = np.exp(out)
    made *= _kept_sum(g, axis)
    return np.subtract(g, made, out=made)


def matmul_nt(x1: Array, x2: Array) -> Any:
    """``x1 @ x2.mT``."""
    return x1.dot(x2.T) if x1.ndim == 2 and x2.ndim == 2 and x1.itemsize != 2 else matmul(x1, x2.mT)


def matmul_tn(x1: Array, x2: Array) -> Any:
    """``x1.mT @ x2``."""
    return x1.T.dot(x2) if x1.ndim == 2 and x2.ndim == 2 and x1.itemsize != 2 else matmul(x1.mT, x2)


conv2d = _conv.conv2d
conv2d_input = _conv.conv2d_input
conv2d_weight = _conv.conv2d_weight
max_pool2d = _conv.max_pool2d
max_pool2d_input = _conv.max_pool2d_input
max_pool2d_tangent = _conv.max_pool2d_tangent
