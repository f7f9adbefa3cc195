"""Views that are derived again: when their base is recorded and was written since, its history is theirs too."""

from __future__ import annotations

from typing import Any

from tripoint.errors import AutogradError
from tripoint.modes import DEFAULT, current
from tripoint.schema import Row
from tripoint.storage import View, chain_of
from tripoint.tensor import Tensor

__all__ = ["again", "join", "refresh", "refresh_all"]


def refresh(tensor: Tensor) -> bool:
    """Derive a view again if its base is recorded and their memory was written since the view last did so.

    True when the tensor's key changed, so that a plan chosen by the old one does not fit.
    """
    view = tensor._alias
    if not isinstance(view, View) or view.seen == view.record.version:
        return False
    while not view.base._key.autograd:
        # Its version stays as it is, so that it still joins the history of its base if that becomes a leaf later.
        above = view.base._alias
        if above.__class__ is not View:
            return False
        view = above
    old = tensor._key
    for link in reversed(chain_of(tensor)):
        alias = link._alias
        if isinstance(alias, View) and alias.seen != alias.record.version and alias.base._key.autograd:
            join(link, alias)
            alias.seen = alias.record.version
    return tensor._key is not old


def join(tensor: Tensor, view: View) -> None:
    """Give a view the history that its base has now.

    Raises:
        AutogradError: the view is a leaf, which would lose its gradient.
    """
    if tensor._key.autograd and tensor._node.inputs == ():  # None, when backward has freed the record
        raise AutogradError(
            f"the tensor of shape {tensor.shape} is a leaf that gradients are wanted for, and a view of a tensor that was "
            "changed in place and is recorded, so its gradient would be lost; ask for the gradient of a copy, "
            "x.copy().requires_grad_()"
        )
    token = current.set(DEFAULT)
    try:
        out = again(view.row, (view.base, *view.meta))
    finally:
        current.reset(token)
    tensor._node = out._node
    tensor._key = out._key


def refresh_all(tensors: Any) -> bool:
    """Refresh every view in a sequence; true when some key changed."""
    changed = False
    for t in tensors:
        changed |= refresh(t)
    return changed


def again(row: Row, values: tuple[Any, ...]) -> Any:
    """Dispatch a call anew."""
    from tripoint.dispatcher.calls import call_row

    count = len(row.operands)
    return call_row(row, values[:count], values[count:])
