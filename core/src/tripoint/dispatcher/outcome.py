"""What a kernel gave or raised: held against what its operator promises, and worded for users."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from tripoint.callables import keyword_names
from tripoint.dtypes import integral
from tripoint.errors import (
    OutOfMemoryError,
    PluginError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    SizeError,
    TripointError,
    kind_of,
    noted,
    shown,
    told,
)
from tripoint.kernels import Kernel, Point, find_point
from tripoint.keys import Key
from tripoint.modes import DEFAULT, current
from tripoint.plugins import Plugin, blame, described, guarded, outlive, plugin_behind, plugin_named
from tripoint.rules import LARGEST, check_number, in_range
from tripoint.schema import Row, rows
from tripoint.tensor import Tensor

if TYPE_CHECKING:
    from tripoint.dispatcher.resolve import Resolution

__all__ = [
    "bound",
    "changes_shape",
    "check_mode",
    "check_result",
    "check_tensor",
    "checker",
    "expected_shape",
    "misbound",
    "misdeclared",
    "misread",
    "quietly",
    "recover",
    "taken_shape",
]

# What the operator's rules say of a call ------------------------------------------------------------------------------


def operand_shapes(row: Row, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shapes of operands as rules take them."""
    out: list[Any] = []
    for p, v in zip(row.operands, values, strict=False):
        if p.role == "variadic":
            out.append(tuple([t.shape for t in v]))
        elif v is None:
            out.append(None)
        else:
            out.append(v.shape if isinstance(v, Tensor) else ())
    return tuple(out)


def expected_shape(row: Row, values: tuple[Any, ...]) -> tuple[int, ...] | None:
    """What the row's shape rule says of a call with bound metadata.

    Raises:
        ShapeError: the shapes do not go together.
    """
    if row.shape is None:
        return None
    metas = dict(zip([p.name for p in row.metas], values[len(row.operands) :], strict=True))
    shapes = operand_shapes(row, values)
    try:
        return row.shape(shapes, **metas)
    except BaseException as error:
        misdeclared(row, "the shape rule", error)


def taken_shape(row: Row, kernel: Kernel | None, target: Key | None, values: tuple[Any, ...]) -> tuple[int, ...] | None:
    """As `expected_shape`, and what a kernel refuses of the shapes that its operator takes.

    Raises:
        ShapeError: the shapes do not go together.
        TripointError: the kernel's own check refuses them.
        PluginError: that check raised something else.
    """
    shape = expected_shape(row, values)
    own = kernel.check_first if kernel is not None else False
    if kernel is not None and callable(own):
        metas = dict(zip([p.name for p in row.metas], values[len(row.operands) :], strict=True))
        words = {"target": target} if "target" in (keyword_names(own) or ()) else {}
        try:
            own(operand_shapes(row, values), **metas, **words)
        except TripointError:
            raise
        except BaseException as error:
            blame(plugin_behind(kernel.origin), f"{kernel.origin}: its check_first", error)
    return shape


def bound(row: Row, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a call with metadata normalised."""
    if row.bind is None or not row.metas:
        return values
    count = len(row.operands)
    try:
        return (*values[:count], *row.bind(operand_shapes(row, values), *values[count:]))
    except BaseException as error:
        misdeclared(row, "bind=", error)


def checker(res: Resolution) -> Callable[..., None]:
    """A function of a plan's values that runs the row's shape rule, and the kernel's own check."""
    row, kernel, target = res.row, res.kernel, res.out

    def check(*values: Any) -> None:
        taken_shape(row, kernel, target, values)

    return check


# Results --------------------------------------------------------------------------------------------------------------


def check_result(res: Resolution, out: Any, values: tuple[Any, ...]) -> None:
    """Compare the first result of a plan with what its key and the shape rule promise.

    Raises:
        PluginError: the kernel's result is of another class, dtype or shape.
    """
    row = res.row
    kernel = res.kernel if res.how == "kernel" else res.steps[-1][0] if res.how == "convert" else None
    if kernel is None or row.returns != "tensor" or not isinstance(out, Tensor):
        return
    assert res.out is not None
    check_tensor(row, f"{kernel.origin}: {row.name}", res.point, res.out, out, values)


def check_tensor(row: Row, who: str, point: Point | None, key: Key, out: Tensor, values: tuple[Any, ...]) -> None:
    """Compare the result of a call with what its key and the shape rule promise; ``who`` made it.

    Raises:
        PluginError: the payload is of another class, dtype, device or shape.
    """
    payload: Any = out._payload
    if point is None:
        raise PluginError(f"{who}: the result would be on {key.base}, which no plugin provides")
    if not guarded(point.origin, "isinstance(result, payload)", isinstance, payload, point.payload):
        raise PluginError(
            f"{who} returned a {kind_of(payload)}; payloads on {point.pattern} are {point.payload.__name__}"
        )
    have = _shape_of(who, plugin_behind(point.origin), payload)
    described_as = described(point, payload)
    dtype, device = described_as.get("dtype"), described_as.get("device")
    if dtype is not None and dtype is not key.dtype:
        raise PluginError(f"{who} returned {dtype}; the result on {key.base} must be {key.dtype}")
    if device is not None and device is not key.device:
        raise PluginError(f"{who} returned memory of {device}; the result on {key.base} must be on {key.device}")
    if row.shape is not None:
        head_values = bound(row, values)
        wanted = expected_shape(row, head_values)
        if wanted is not None and have != wanted:
            raise PluginError(f"{who} returned shape {have}; its shape rule says {wanted}")


def _shape_of(who: str, plugin: Plugin | None, payload: Any) -> tuple[int, ...]:
    """The shape of a payload; ``who``, of that plugin, made it.

    Raises:
        PluginError: it has none, or what it has is no tuple of ints from 0.
    """
    try:
        have = payload.shape
    except BaseException as error:
        blame(plugin, f"{who} returned a {kind_of(payload)}, whose shape", error)
    # Of a subclass of tuple, the tuple itself: its methods may do anything.
    sizes = tuple.__getitem__(have, slice(None)) if issubclass(type(have), tuple) else None
    if sizes is None or not all(type(size) is int and size >= 0 for size in sizes):
        raise PluginError(
            f"{who} returned a {kind_of(payload)} of shape {shown(have)}; a shape is a tuple of ints from 0"
        )
    return sizes


def check_mode(who: str, context: Context) -> None:
    """Compare the mode that ``who`` left in a copy of the context with the mode in force.

    Raises:
        PluginError: they differ.
    """
    before, after = current.get(), context.get(current, DEFAULT)
    if after is not before:
        raise PluginError(f"{who} left a scope open, such as no_grad(): {before} became {after}")


# Errors ---------------------------------------------------------------------------------------------------------------


def is_readonly(tensor: Tensor) -> bool:
    """Whether the backend says that the memory must not be written; one that cannot say does not."""
    point = find_point(tensor._key)
    try:
        return point is not None and bool(described(point, tensor._payload).get("readonly"))
    except TripointError:
        return False


def recover(
    res: Resolution, error: BaseException, values: tuple[Any, ...], run: Callable[..., Any] | None = None
) -> Any:
    """Where a kernel that raised arrives: run again where only the host's floating-point settings made it raise, and answered
    where a comparison needs no kernel.

    An in-place kernel (``run`` is ``None``) is not run twice: NumPy checks those settings when the result is complete, and a
    kernel whose library may stop earlier meets that itself.

    Raises:
        TripointError: what `failed` makes of the error.
    """
    point, made = res.point, error
    try:
        if not isinstance(error, Exception):
            origin = res.kernel.origin if res.kernel is not None else point.origin if point is not None else None
            outlive(origin, res.row.name, error)
        if isinstance(error, FloatingPointError) and point is not None and point.quiet is not None:
            if run is None:
                return None
            try:
                return quietly(point, run, *values)
            except Exception as again:
                error = again
        made = failed(res, error, values)
        if issubclass(type(made), ScalarRangeError) and (answer := _beyond(res, values)) is not None:
            return answer
        if made is error:
            raise made  # with the cause and the context that it has
        raise made from made.__cause__
    finally:
        del error, made  # or this frame and the exceptions hold one another, and with them the memory of the operands


def quietly(point: Point, run: Callable[..., Any], *args: Any) -> Any:
    """What a kernel gives in the context in which its backend ignores the caller's floating-point settings.

    Raises:
        PluginError: there is no such context, or it cannot be entered or left.
    """
    try:
        assert point.quiet is not None
        scope = point.quiet()
        scope.__enter__()
    except BaseException as error:
        blame(plugin_behind(point.origin), f"{point.origin}: quiet()", error)
    try:
        return run(*args)
    finally:
        try:
            scope.__exit__(None, None, None)  # which may not hide what the kernel raises
        except BaseException as error:
            blame(plugin_behind(point.origin), f"{point.origin}: quiet()", error)


def failed(res: Resolution, error: Exception, values: tuple[Any, ...]) -> Exception:
    """Word the error of a kernel: in the row's own words where a check of it fails, else what the kernel raised, with a note
    that names it.
    """
    kind = type(error)
    if issubclass(kind, TripointError) and not issubclass(kind, PluginError):
        return error
    if not issubclass(kind, PluginError):
        try:
            shape = expected_shape(res.row, values)
        except TripointError as worded:
            return worded
        except Exception:  # of a rule that is wrong itself, which must not hide what the kernel raised
            shape = None
        made = _worded(res, error, shape, values)
        if made is not None:
            return made
    _note(res, error)
    return error


def _note(res: Resolution, error: Exception) -> None:
    """Name the kernel, or those of a conversion's steps, in a note of what it raised."""
    ran = [k.origin for k in (res.kernel, *(k for k, _ in res.steps)) if k is not None]
    if ran:
        on = ", ".join(map(str, res.keys or (res.target or res.out,)))
        noted(error, f"raised by the kernel {' or '.join(dict.fromkeys(map(str, ran)))} for {res.row.name} on {on}")


def _worded(
    res: Resolution, error: Exception, shape: tuple[int, ...] | None, values: tuple[Any, ...]
) -> TripointError | None:
    """The error of a call that no kernel could have served, or ``None``: the kernel, or its device, is the reason."""
    row, kind = res.row, type(error)
    made: TripointError | None = None
    if issubclass(kind, OverflowError):
        return _too_wide(res, values)
    if issubclass(kind, MemoryError) or _too_large(res, shape):
        made = OutOfMemoryError(
            f"{row.name}: no memory for a result of shape {shape} on {res.out}: {told(error) or kind_of(error)}"
        )
    elif row.kind == "creation" and issubclass(kind, ValueError) and _too_many(res, shape):
        made = SizeError(f"{row.name}: {told(error) or kind_of(error)}")
    elif (res.how == "inplace" or row.mutates) and isinstance(values[0], Tensor) and is_readonly(values[0]):
        return ReadOnlyError(
            f"{row.name}: the tensor of shape {values[0].shape} is read-only; write to a copy, x.copy()"
        )
    if made is not None:
        _note(res, error)
        made.__cause__ = error
    return made


def _too_wide(res: Resolution, values: tuple[Any, ...]) -> ScalarRangeError | None:
    """The error of a Python number that a dtype of the call cannot hold, if there is one."""
    numbers = [v for v in values if isinstance(v, (int, float, complex)) and not isinstance(v, bool)]
    wide = [d or k.dtype for d, k in zip(res.casts, res.keys, strict=True) if k.is_tensor]
    wide += [k.dtype for k in (*res.fills, res.target, res.out) if k is not None]
    for number in numbers:
        for dtype in wide:
            try:
                check_number(number, dtype)
                complex(number)
            except OverflowError:
                return ScalarRangeError(
                    f"{res.row.name}: the Python number {shown(number)} does not fit in {dtype}; convert the tensor first"
                )
            except TripointError:
                continue
    return None


def _beyond(res: Resolution, values: tuple[Any, ...]) -> Any:
    """The payload of a comparison with a Python number that an integer dtype cannot hold, so that every element is on the same
    side of it as 0 is; ``None`` of any other call.
    """
    row, out = res.row, res.out
    dtypes = [d or k.dtype for d, k in zip(res.casts, res.keys, strict=True) if k.is_tensor]
    numbers = [v for v in values if not isinstance(v, Tensor)]
    if (
        row.numbers is None
        or out is None
        or not all(d in integral and not in_range(n, d) for d in dtypes for n in numbers)
    ):
        return None
    answer = row.numbers(*[0 if isinstance(v, Tensor) else v for v in values])
    full = rows["full"].call
    shape = expected_shape(row, values)
    return full(shape, fill_value=answer, dtype=out.dtype, device=out.device, layout=out.layout)._payload


def _too_large(res: Resolution, shape: tuple[int, ...] | None) -> bool:
    """Whether the result's size in bytes does not fit in 63 bits, which libraries refuse in words of their own."""
    return shape is not None and res.out is not None and prod(shape) * res.out.dtype.itemsize > LARGEST


#: axes that every array library takes.
_AXES = 32


def _too_many(res: Resolution, shape: tuple[int, ...] | None) -> bool:
    """Whether a backend's library may refuse a shape: for its number of axes, or for sizes that one of 0 does not excuse."""
    if shape is None or res.out is None:
        return False
    return len(shape) > _AXES or prod(max(size, 1) for size in shape) * res.out.dtype.itemsize > LARGEST


def changes_shape(operator: str, operand: str, made: tuple[int, ...], have: tuple[int, ...]) -> ShapeError:
    """The error of an in-place operator whose result does not fit the operand that it writes into."""
    return ShapeError(
        f"{operator}: the result has shape {made}, and {operand} has {have}; an in-place operator does not change shapes"
    )


def misread(res: Resolution, payload: Any, hook: str, error: BaseException) -> NoReturn:
    """Raise the error of a backend whose hook cannot take its own result."""
    kernel, point = res.kernel, res.point
    assert point is not None
    who = kernel.origin if kernel is not None else point.origin
    gave = f"{who}: {res.row.name} returned a {kind_of(payload)}, of which {hook} of {res.out}"
    try:
        blame(plugin_behind(point.origin), gave, error)
    finally:
        del error  # as in `recover`


def misbound(row: Row, values: tuple[Any, ...], error: BaseException) -> NoReturn:
    """Raise the error of metadata that does not fit its operands, or of operands whose shapes cannot be had."""
    try:
        operand_shapes(row, values)
        misdeclared(row, "bind=", error)
    finally:
        del error


def misdeclared(row: Row, what: str, error: BaseException) -> NoReturn:
    """Raise what becomes of an error of what an operator's author wrote: an exception as it is, SystemExit as the plugin's."""
    try:
        plugin = plugin_named(row.body.__module__) if not isinstance(error, Exception) else None
        if plugin is None:
            raise error
        blame(plugin, f"{what} of {row.name}, which {plugin.name} {plugin.version} declares,", error)
    finally:
        del error
