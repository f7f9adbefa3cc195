"""How the memory is read. ``tripoint.layouts.blocked`` is the layout of that name, from the plugin that provides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tripoint.errors import LayoutError, PluginError, PluginNameError, TensorAttributeError

if TYPE_CHECKING:
    from tripoint.tensor import Tensor

__all__ = ["Layout", "LayoutSpec"]


class Layout:
    """A way to read memory; the core has one, ``strided``.

    Args:
        name: exact name, such as ``"sparse_coo"``.
        views: whether operators may return tensors that share memory with their operand.
        attributes: names that tensors of this layout answer to, each a function of the tensor.
        gradient_like: ``gradient_like(gradient, output)`` fits a gradient to a tensor of this layout (a COO leaf keeps
            the entries on its pattern); ``None`` takes gradients as they come.

    Making a Layout has no side effect; a plugin announces it through its registry.
    """

    __slots__ = ("attributes", "gradient_like", "name", "views")

    def __init__(
        self,
        name: str,
        *,
        views: bool = False,
        attributes: Mapping[str, Callable[[Tensor], Any]] | None = None,
        gradient_like: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.replace("_", "a").isalnum():
            raise LayoutError(f"a layout is named by letters, digits and _, not {name!r}")
        self.name = str.__str__(name)  # as it is in every table, whatever a subclass of str does
        self.views = views
        self.attributes = dict(attributes or {})
        self.gradient_like = gradient_like

    def __call__(self, *args: object, **params: object) -> LayoutSpec:
        """This layout with parameters, as a target of conversions: ``x.to(layout=tripoint.layouts.blocked("nChw16c"))``."""
        return LayoutSpec(self, args, tuple(sorted(params.items())))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_registered, (self.name,)


class LayoutSpec:
    """A layout and its parameters, hashable by value; the parameters end in the payload, never in the key.

    Attributes:
        layout: the layout.
        args, params: its parameters by position, and by name as pairs.
    """

    __slots__ = ("args", "layout", "params")

    def __init__(self, layout: Layout, args: tuple[object, ...], params: tuple[tuple[str, object], ...]) -> None:
        self.layout = layout
        self.args = args
        self.params = params

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LayoutSpec)
            and self.layout is other.layout
            and self.args == other.args
            and self.params == other.params
        )

    def __hash__(self) -> int:
        return hash((self.layout, self.args, self.params))

    def __repr__(self) -> str:
        inside = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.params]
        return f"{self.layout}({', '.join(inside)})"


strided = Layout("strided", views=True)

#: layouts announced by plugins, by name; ``strided`` is always there.
registered: dict[str, Layout] = {"strided": strided}
#: finds the layout of a name, loading its plugin; the plugins room sets it.
find_more: list[Callable[[str], Layout]] = []


def __getattr__(name: str) -> Layout:
    if find_more and not name.startswith("_"):
        try:
            return find_more[0](name)
        except LayoutError as error:
            raise TensorAttributeError(f"tripoint.layouts.{name}: {error}") from None
        except PluginError as error:
            raise PluginNameError(str(error)) from error.__cause__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_registered(name: str) -> Layout:
    """The announced layout of that name; a KeyError when its plugin is not loaded."""
    return registered[name]
