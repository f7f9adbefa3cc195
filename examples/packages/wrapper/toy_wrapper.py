"""A wrapper: a device whose tensors carry a tensor of another device, and a note of what made them.

Its one kernel, for every operator, calls the public operator on what is inside. So whatever runs there runs here, and a layer
that is on sees the call of the user and not those of the kernel, as beneath every kernel.
"""

from tripoint.errors import DeviceError
from tripoint.plugin import Backend, Device, Tensor, operators, payload, strided, wrap


class Noted:
    """``inner`` is a tensor of any strided point, ``notes`` what was called, from the first on."""

    def __init__(self, inner, notes):
        self.inner, self.notes, self.shape = inner, notes, inner.shape


backend = Backend(
    Device("noted"),
    strided,
    payload=Noted,
    describe=lambda x: {"dtype": x.inner.dtype, "readonly": x.inner.readonly},
    summary=lambda x: f"notes={'>'.join(x.notes)}",
    frozen=True,
)


@backend.factory
def forward(row):
    """A kernel for an operator: the operator itself, on the inner tensors."""
    if row.target or row.mutates:
        return None
    call = operators()[row.name]

    def inner(value):
        return [inner(v) for v in value] if isinstance(value, list) else getattr(value, "inner", value)

    def kernel(*operands, **meta):
        names = [p.name for p in row.metas]
        positional = [meta.pop(n) for n, p in zip(names, row.metas) if p.kind != 2 and n in meta]
        out = call(*map(inner, operands), *positional, **meta)
        notes = [note for x in operands if isinstance(x, Noted) for note in x.notes]
        return Noted(out, (*notes, row.name)) if isinstance(out, Tensor) else out

    return kernel


def note(x):
    """``x`` on the device ``noted``, with no notes yet."""
    if x.requires_grad:
        raise DeviceError("note: make a tensor noted first, then ask for its gradient")
    return wrap(x_key(x), Noted(x, ()))
