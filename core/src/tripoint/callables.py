"""What a callable tells of itself: the function that it runs, its module, and the names of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from tripoint.errors import RegistrationError, shown


def ends_in(fn: Any) -> tuple[FunctionType | None, int, dict[str, Any]]:
    """The plain function that calling ``fn`` runs, how many of its positional parameters are given by then, and its keywords.

    It is looked for in bound methods, ``functools.partial`` and objects with ``__call__``. What does not tell, such as a
    built-in function or a class, has ``None``.
    """
    given, words = 0, dict[str, Any]()
    for _ in range(_LINKS):
        if isinstance(fn, FunctionType):
            return fn, given, words
        if isinstance(fn, partial):
            fn, given, words = fn.func, given + len(fn.args), {**fn.keywords, **words}
        elif isinstance(fn, MethodType):
            fn, given = fn.__func__, given + 1
        else:
            call = type(fn).__call__ if callable(fn) else None
            if not isinstance(call, FunctionType):
                break
            fn, given = call, given + 1
    return None, 0, {}


#: partial, methods and objects within one another that `ends_in` follows.
_LINKS = 16


def module_of(fn: Any) -> str | None:
    """The module that a callable comes from: of the function in it, since that of a ``functools.partial`` is functools."""
    module = getattr(ends_in(fn)[0] or fn, "__module__", None)
    return module if module and isinstance(module, str) else None


def keyword_names(fn: Callable[..., Any]) -> tuple[str, ...] | None:
    """Names of keyword-only parameters, or ``None`` for functions that do not tell (built-in ones).

    A wrapper that passes all keywords on, and names what it wraps as ``functools.wraps`` does, takes those of that.
    """
    plain = ends_in(fn)[0]
    if plain is None:
        return None
    code, inner = plain.__code__, getattr(plain, "__wrapped__", None)
    if code.co_flags & 0x08 and inner is not None:
        return keyword_names(inner)
    start = code.co_argcount
    return tuple(code.co_varnames[start : start + code.co_kwonlyargcount])


def parameters(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the parameters of a function that are not given yet.

    Raises:
        RegistrationError: it does not tell them.
    """
    plain, given, words = ends_in(fn)
    if plain is None:
        raise RegistrationError(
            f"a derivative is a function whose parameters say what it needs, not {shown(fn)}; write a lambda around it"
        )
    code = plain.__code__
    names = code.co_varnames[given : code.co_argcount + code.co_kwonlyargcount]
    return tuple([name for name in names if name not in words])
