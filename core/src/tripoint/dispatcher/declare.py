"""Decorators that make an operator of a Python signature.

The public function is compiled from a template for the shape of its signature; operators of one shape share the code and
differ in names, defaults and the row they close over.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from tripoint import kernels
from tripoint.dispatcher.calls import call_row, dunder_miss
from tripoint.dispatcher.outcome import changes_shape
from tripoint.errors import RegistrationError
from tripoint.kernels import row_of
from tripoint.keys import BY_TYPE
from tripoint.modes import get_mode
from tripoint.rules import DTypeRule
from tripoint.schema import KEYWORD_ONLY, POSITIONAL_ONLY, REQUIRED, Param, Row, read_params, rows
from tripoint.tensor import Tensor

__all__ = ["composite", "dunder", "inplace", "primitive"]

F = TypeVar("F", bound=Callable[..., Any])

_templates: dict[Any, Callable[..., FunctionType]] = {}
_GLOBALS = {
    "get_mode": get_mode,
    "Tensor": Tensor,
    "scalars": BY_TYPE,
    "call_row": call_row,
    "dunder_miss": dunder_miss,
    "sequences": (list, tuple),
    "__builtins__": __builtins__,
}


def _template(params: tuple[Param, ...], keyed: tuple[str, ...]) -> Callable[..., FunctionType]:
    ident = tuple((p.role, p.kind, p.name in keyed) for p in params)
    found = _templates.get(ident)
    if found is not None:
        return found
    names, words, levels, keys = [], [], [], []
    operands, metas = 0, 0
    last = None
    for p in params:
        if p.role == "meta":
            name, metas = f"m{metas}", metas + 1
            if p.name in keyed:
                keys.append(name)
        else:
            name, operands = f"a{operands}", operands + 1
            if p.role == "variadic":
                levels.append(f"[tuple([t._key for t in ({name} if type({name}) in sequences else None)])]")
            elif operands == 1:
                levels.append(f"[{name}._key]")
            else:
                levels.append(f"[{name}._key if type({name}) is Tensor else scalars[type({name})]]")
        if last == POSITIONAL_ONLY and p.kind != POSITIONAL_ONLY:
            words.append("/")
        if p.kind == KEYWORD_ONLY and last != KEYWORD_ONLY:
            words.append("*")
        words.append(name)
        names.append(name)
        last = p.kind
    if last == POSITIONAL_ONLY:
        words.append("/")
    if keys:
        levels.append(f"[{keys[0]}]" if len(keys) == 1 else f"[({', '.join(keys)})]")
    given = ", ".join(names)
    first = "".join(f"a{i}, " for i in range(operands))
    rest = "".join(f"m{i}, " for i in range(metas))
    text = (
        "def factory(plans, row):\n"
        f"    def call({', '.join(words)}):\n"
        "        try:\n"
        f"            plan = plans[get_mode()]{''.join(levels)}\n"
        "        except (KeyError, AttributeError, TypeError):\n"
        "            pass\n"
        "        else:\n"
        f"            return plan({given})\n"
        f"        return call_row(row, ({first}), ({rest}))\n"
        "    return call\n"
    )
    scope: dict[str, Any] = dict(_GLOBALS)  # of its own: two threads may declare operators at once
    exec(compile(text, "<tripoint call>", "exec"), scope)
    made: Callable[..., FunctionType] = scope.pop("factory")
    _templates[ident] = made
    return made


def _compile(row: Row, fn: FunctionType, visible: str) -> FunctionType:
    call = _template(row.params, row.keyed)(row.plans, row)
    code = call.__code__
    count = len(row.params)
    call.__code__ = code.replace(
        co_name=visible,
        co_qualname=visible,
        co_varnames=tuple([p.name for p in row.params]) + code.co_varnames[count:],
    )
    defaults = [p.default for p in row.params if p.kind != KEYWORD_ONLY and p.default is not REQUIRED]
    call.__defaults__ = tuple(defaults) or None
    call.__kwdefaults__ = {
        p.name: p.default for p in row.params if p.kind == KEYWORD_ONLY and p.default is not REQUIRED
    }
    call.__name__ = call.__qualname__ = visible
    call.__module__ = fn.__module__
    call.__doc__ = fn.__doc__
    call.__annotations__ = fn.__annotations__
    call.__wrapped__ = fn  # type: ignore[attr-defined]
    call._row = row  # type: ignore[attr-defined]
    row.call = call
    return call


def _declare(fn: Any, namespace: str, name: str | None, **options: Any) -> Any:
    if not isinstance(fn, FunctionType):
        raise RegistrationError(f"{fn!r} is no plain function; an operator is declared by one")
    short = name or fn.__name__
    qualified = f"{namespace}::{short}" if namespace else short
    params = read_params(fn)
    row = Row(qualified, fn, params, **options)
    if not row.operands and not row.target:
        raise RegistrationError(
            f"operator {qualified}: no operand (annotate one with Tensor or Operand) and no target=; "
            "a function without either dispatches on nothing"
        )
    _enter(row)
    return _compile(row, fn, short)


def _enter(row: Row) -> None:
    """Make a row known; a declaration that is run again (a notebook's cell, a reloaded module) replaces its own."""
    other = rows.get(row.name)
    if other is not None and (other.package, other.body.__qualname__) != (row.package, row.body.__qualname__):
        raise RegistrationError(f"operator {row.name} is declared at {other.origin} and again at {row.origin}")
    waiting = kernels.kernels.get(row.name)
    if other is None and waiting is not None:
        kernels.kernels[row.name] = tuple(k for k in waiting if _fits(row, k))
    rows[row.name] = row
    if other is not None:
        other.plans.clear()


def _fits(row: Row, kernel: kernels.Kernel) -> bool:
    """Whether an optional kernel, registered before its operator was known, has the operator's schema; a warning if not."""
    try:
        kernels.validate(row, kernel)
    except RegistrationError as error:
        import contextlib
        import warnings

        with contextlib.suppress(
            RuntimeWarning
        ):  # one plugin's kernel must not keep another's operator from being declared
            warnings.warn(f"a kernel is left out: {error}", RuntimeWarning, stacklevel=2)
        return False
    return True


def primitive(
    *,
    dtype: DTypeRule,
    shape: Callable[..., tuple[int, ...]] | None = None,
    bind: Callable[..., tuple[Any, ...]] | None = None,
    namespace: str = "",
    name: str | None = None,
    **options: Any,
) -> Callable[[F], F]:
    """Declare an operator that backends supply.

    Args:
        dtype: rule for computation and result dtypes.
        shape: rule for the result's shape; also the meta kernel and the checker.
        bind: normalises metadata.
        namespace: of a third party; the operator is then ``namespace::name``.
        name: when it differs from the function's.
        options: further attributes of `tripoint.schema.Row`, such as ``kind``, ``aliases``, ``keyed``, ``target``, and for the
            conformance kit ``samples``, ``reference``, ``ulps``.

    Raises:
        RegistrationError: the signature is no schema, or the operator is declared twice.
    """

    def decorate(fn: F) -> F:
        made = _declare(fn, namespace, name, composite=False, dtype=dtype, shape=shape, bind=bind, **options)
        return made  # type: ignore[no-any-return]

    return decorate


@overload
def composite(fn: F, /) -> F: ...
@overload
def composite(*, namespace: str = "", name: str | None = None, **options: Any) -> Callable[[F], F]: ...
def composite(fn: F | None = None, /, *, namespace: str = "", name: str | None = None, **options: Any) -> Any:
    """Declare an operator written in terms of other operators; backends may register a fused kernel for it.

    One that may be fused carries ``dtype=`` and ``shape=`` rules too.
    """

    def decorate(inner: F) -> Any:
        return _declare(inner, namespace, name, composite=True, **options)

    return decorate if fn is None else decorate(fn)


def inplace(operator: Callable[..., Any], *, minimal: bool = False) -> Callable[..., Any]:
    """Declare the in-place form of an operator: a row of its own named with ``_``, writing into the first operand."""
    base = row_of(operator)
    first = base.operands[0].name

    def shape(shapes: tuple[Any, ...], **meta: Any) -> tuple[int, ...]:
        have: tuple[int, ...] = shapes[0]
        made = base.shape(shapes, **meta) if base.shape is not None else have
        if made != have:
            raise changes_shape(f"{base.name}_", first, made, have)
        return have

    row = Row(
        base.name + "_",
        base.body,
        (
            Param(first, base.params[0].role, base.params[0].kind, REQUIRED),
            *base.params[1:],
        ),  # no number is written into
        composite=False,
        dtype=base.dtype,
        shape=shape,
        bind=base.bind,
        keyed=base.keyed,
        mutates=first,
        functional=base,
        kind=base.kind,
        minimal=minimal,
    )
    _enter(row)
    return _compile(row, base.body, row.name.rpartition("::")[2])


def dunder(operator: Callable[..., Any], name: str, *, reflected: bool = False) -> Callable[..., Any]:
    """The operator as a binary special method: a second closure over the same plans, NotImplemented for strangers."""
    row = row_of(operator)
    ident = ("dunder", reflected)
    factory = _templates.get(ident)
    if factory is None:
        other = "b._key if type(b) is Tensor else scalars[type(b)]"
        levels, order = (f"[{other}][a._key]", "b, a") if reflected else (f"[a._key][{other}]", "a, b")
        text = (
            "def factory(plans, row):\n"
            "    def call(a, b, /):\n"
            "        try:\n"
            f"            plan = plans[get_mode()]{levels}\n"
            "        except KeyError:\n"
            "            pass\n"
            "        else:\n"
            f"            return plan({order})\n"
            f"        return dunder_miss(row, {order})\n"
            "    return call\n"
        )
        scope: dict[str, Any] = dict(_GLOBALS)
        exec(compile(text, "<tripoint dunder>", "exec"), scope)
        factory = _templates[ident] = scope.pop("factory")
    call: Any = factory(row.plans, row)
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=f"Tensor.{name}")
    call.__name__, call.__qualname__, call.__doc__ = name, f"Tensor.{name}", row.body.__doc__
    call._row = row
    return call  # type: ignore[no-any-return]
