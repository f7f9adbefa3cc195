"""A wrapper: a device whose tensors carry a tensor of the CPU, and a note of what was called to make it.

One function makes a kernel for every operator: it calls the public operator on what is inside. A layer that is on sees the
call of the user and not those of the kernel, as beneath any kernel.
"""

from tripoint.plugin import Backend, Device, Tensor, key, operators, payload, strided, wrap


class Noted:
    """``inner`` is a tensor, ``notes`` the names of the operators that led to it."""

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
    """A kernel for an operator: the operator itself, of the tensors inside."""
    if row.mutates or row.kind == "convert" or row.dtype is None:  # without a dtype rule: only ever decomposed
        return None
    call, wants_dtype = operators()[row.name], "dtype" in row.keyed

    def kernel(*operands, target=None, **meta):
        noted = [n for x in operands for n in (x if isinstance(x, list) else [x]) if isinstance(n, Noted)]
        if wants_dtype:  # what changes the key of the result is known by that key alone
            meta["dtype"] = target.dtype
        out = call(*[[n.inner for n in x] if isinstance(x, list) else getattr(x, "inner", x) for x in operands], **meta)
        return Noted(out, (*[n for x in noted for n in x.notes], row.name)) if isinstance(out, Tensor) else out

    return kernel


@backend.kernel("astype")
def astype(x, *, target):
    return Noted(x.inner.astype(target.dtype), x.notes)


@backend.to("cpu.strided")
def to_cpu(x):
    return payload(x.inner)


@backend.from_("cpu.strided")
def from_cpu(x, *, target):
    return Noted(wrap(key(Device("cpu"), strided, target.dtype), x), ())
