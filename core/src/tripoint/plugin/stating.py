"""What a module states for itself as it is imported: derivatives, kernels, and backends without an entry point."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from tripoint import kernels
from tripoint.errors import RegistrationError
from tripoint.kernels import Derivative, make_derivative, row_of
from tripoint.plugin.backend import Backend, as_pattern
from tripoint.plugins import Registry, plugin_named, plugin_naming, plugin_of
from tripoint.schema import rows

__all__ = ["derivative", "kernel", "register"]

F = TypeVar("F", bound=Callable[..., Any])


def derivative(
    operator: Callable[..., Any] | str, *, args: tuple[Any, ...] | None = None, **functions: Callable[..., Any]
) -> Derivative:
    """State the derivative of an operator: for each operand, a function from the gradient of the result to its gradient.

    The parameters after the first say what the function needs: operands and ``out`` (saved), ``<operand>_shape`` and
    ``<operand>_key`` (of the receiving tensor; nothing is saved), and metadata by its own name. Written in operators.
    The engine sums broadcast axes, casts, and fills up, so a formula need not. It counts as stated by the installed
    plugin whose package ``functions`` come from, else by the running program.

    Args:
        operator: the operator, or its qualified name.
        args: one pattern per dispatch argument, on any device: a Layout, a DType, ``"cpu.strided"``, or a `Pattern`. Without
            it the row holds for plain dtypes in any layout.
        functions: ``operand=function``.

    Raises:
        RegistrationError: an operand that the operator does not have, a parameter that nothing provides, or another
            derivative on the same patterns stated before.
    """
    given = tuple(as_pattern(a) for a in args) if args is not None else None
    made = make_derivative(operator, given, functions)
    import tripoint.derivatives  # noqa: F401 - the core's own load late, and are what is most often stated again

    for other in kernels.derivatives.get(made.operator, ()):
        if other.origin.distribution == "tripoint" and (other.every, other.args) == (made.every, made.args):
            raise RegistrationError(
                f"{made.operator} has a derivative on these patterns already: {other.origin}; state a narrower one with "
                f"args=, such as args={('cpu.strided.float32',) * len(rows[made.operator].operands)!r}"
            )
    registry = _registry_of(next(iter(functions.values())))
    registry.derivative(made)
    registry.commit()
    return made


def kernel(
    operator: Callable[..., Any] | str,
    *,
    args: tuple[Any, ...],
    out: object = None,
    check_first: bool | Callable[..., None] = False,
) -> Callable[[F], F]:
    """Decorate a kernel of an operator of one's own, on points that other plugins provide.

    It takes part because its package defines the operator; a kernel of somebody else's operator on somebody else's point
    does not, until the user prefers that package. It counts as stated by the installed plugin whose package the function
    comes from, else by the running program.

    Args:
        operator: the operator, or its qualified name.
        args: one pattern per dispatch argument: a Layout, a DType, a point such as ``"cpu.strided"``, `scalar`, or a Pattern.
        out, check_first: as of `Backend.kernel`.

    Raises:
        RegistrationError: the function does not fit the operator, or another one is stated on these patterns already.
    """
    name = operator if isinstance(operator, str) else row_of(operator).name
    given = tuple(as_pattern(a) for a in args)

    def decorate(fn: F) -> F:
        registry = _registry_of(fn)
        registry.kernel(name, fn, args=given, out=out, check_first=check_first)
        registry.commit()
        return fn

    return decorate


def register(backend: Backend) -> None:
    """Register a backend of the running program itself, without an entry point. Once more is no change.

    One that an entry point of an installed plugin names, or that a module of its package registers, counts as that plugin's.

    Raises:
        RegistrationError: something does not fit the schema; nothing is changed.
        PluginError: its plugin is installed, and its metadata keeps it from loading here.
    """
    owner = plugin_naming(backend) or plugin_named(str(sys._getframe(1).f_globals.get("__name__")))
    registry = Registry(owner.name, owner.version) if owner is not None else Registry()
    backend.tripoint_register(registry)
    registry.commit()


def _registry_of(fn: Callable[..., Any]) -> Registry:
    """Where a module states what is its own, as it is imported."""
    owner = plugin_of(fn)
    return Registry(owner.name, owner.version) if owner is not None else Registry()
