"""The layer that records calls. It rides in keys: a call is recorded when an operand's key has the part ``autograd``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tripoint import kernels
from tripoint.autograd.engine import freed, give, gradients
from tripoint.autograd.node import Leaf, Node, Rule, slots_of, tick
from tripoint.autograd.rule import make_rule
from tripoint.dispatcher.calls import call_row
from tripoint.dispatcher.layer import Layer, standing
from tripoint.dispatcher.plan import compile_plan, names_of, tuple_source
from tripoint.dispatcher.views import again, join
from tripoint.errors import ArgumentError, AutogradError
from tripoint.kernels import find_point, row_of
from tripoint.keys import Key
from tripoint.modes import Mode, current, get_mode
from tripoint.ops.conversion import copy
from tripoint.ops.creation import ones, zeros
from tripoint.ops.elementwise import equal, where
from tripoint.ops.indexing import assign_
from tripoint.schema import Param, Row
from tripoint.storage import Alias, View, chain_of, record_of
from tripoint.tensor import Tensor, wrap

__all__ = ["Autograd"]

Steps = list[tuple[Row, tuple[Any, ...]]]


class Autograd(Layer, on="autograd"):
    """Writes down what backward needs: one node per recorded call."""

    name = "autograd"

    def active(self, mode: Mode, op: Row, keys: tuple[Key, ...]) -> bool:
        """Gradients are wanted and an operand is recorded, or a view is written whose root may be."""
        if not mode.grad or not (any(k.autograd for k in keys) or (op.mutates is not None and keys[0].view)):
            return False
        load_derivatives()
        if not op.composite:
            return True
        found, tied, _ = kernels.select_derivative(op.name, keys, slots_of(op, len(keys)))
        return found is not None or bool(tied)

    def handles(self, op: Row) -> bool:
        """Operators whose results can carry gradients."""
        if op.returns != "tensor" or (not op.operands):
            return False
        return op.composite or op.dtype is None or op.dtype.differentiable

    def beneath(self, mode: Mode) -> Mode:
        """The mode in which nothing is recorded."""
        return mode.replace(grad=False)

    def build(self, op: Row, next_plan: Callable[..., Any], keys: tuple[Key, ...], below: Mode) -> Callable[..., Any]:
        """A plan that runs ``next_plan`` and leaves a node."""
        if op.mutates is not None:
            return _inplace(op, next_plan, keys, get_mode())
        return _functional(op, next_plan, keys, get_mode())

    def __repr__(self) -> str:
        return self.name


_loaded = False


def load_derivatives() -> None:
    """Load the core's derivatives, at the first recorded call."""
    global _loaded
    if not _loaded:
        import tripoint.derivatives  # noqa: F401 - another thread waits here until all are there

        _loaded = True


def _bare(tensor: Any) -> Any:
    """An alias under which nothing is recorded; lists and absent operands pass."""
    if isinstance(tensor, Tensor):
        return wrap(tensor._key.base, tensor._payload)
    return [_bare(t) for t in tensor] if isinstance(tensor, (list, tuple)) else tensor


def _fresh(op: Row, out: Any) -> Tensor:
    """An alias of what a layer beneath gave, which may be an operand: the history of that must not be changed."""
    if not isinstance(out, Tensor):
        raise ArgumentError(
            f"{op.name} is recorded, and a layer beneath autograd gave a {type(out).__name__} in place of a tensor; "
            "let the layer stand above autograd"
        )
    alias = wrap(out._key.without("autograd") if out._key.autograd else out._key, out._payload)
    alias._alias = out._alias
    return alias


def _snapshot(tensor: Tensor) -> Tensor:
    """Another tensor of a frozen payload: in-place operators later bind a new payload to the first one only."""
    out = wrap(tensor._key, tensor._payload)
    out._node = tensor._node
    return out


#: source that makes ``kept``, an alias of ``out`` under which nothing is recorded, and ``al``, the record they share.
SAVED_OUT = (
    "al = out._alias",
    "if al is None:",
    "    al = out._alias = Alias()",
    "    al.version = 0",
    "elif type(al) is View: al = al.record",
    "kept = Tensor()",
    "kept._key = b",
    "kept._payload = out._payload",
    "kept._node = None",
    "kept._alias = al",
)


def _frozen(key: Key) -> bool:
    point = find_point(key)
    return point is not None and point.frozen


def _functional(op: Row, next_plan: Callable[..., Any], keys: tuple[Key, ...], mode: Mode) -> Callable[..., Any]:
    slots = slots_of(op, len(keys))
    wanted = tuple(any(k.autograd for k, s in zip(keys, slots, strict=True) if s == i) for i in range(len(op.operands)))
    rules: dict[Key, Rule] = {}

    def rule_of(out: Key) -> Rule:
        rule = rules.get(out)
        if rule is None:
            rule = rules[out] = make_rule(op, op.name, mode, keys, wanted, out)
        return rule

    lines, closed = getattr(next_plan, "source", None) or ([""], dict[str, Any]())
    fused = lines[-1] == "return out"  # a kernel's plan, which reads payloads and records nothing: it is written on
    known = closed["key"] if fused and "view_key" not in closed else None  # the key of every call's result
    if known is not None and known.dtype.gradient is None:
        return next_plan
    constants: dict[str, Any] = {**closed} if fused else {"inner": next_plan}
    constants.update(Node=Node, tick=tick, rule_of=rule_of, rules=rules)
    body = [*lines[:-1]] if fused else [_beneath(op, constants)]
    if known is not None:
        constants.update(key=known.recorded, b=known.base, rule=rule_of(known.base))
        body.remove("out._node = None")
        body += ["node = out._node = Node()", "node.age = tick()", "node.rule = rule"]
    else:
        body.append("k = out._key")
        if op.keyed or op.composite:
            body.append("if k.dtype.gradient is None: return out")
        body += ["node = out._node = Node()", "node.age = tick()", "b = k.base"]
        body += ["try:", "    node.rule = rules[b]", "except KeyError:", "    node.rule = rule_of(b)"]
    body.append(f"node.inputs = {tuple_source(_input(p, i, wanted[i]) for i, p in enumerate(op.operands))}")
    # What is saved depends on the operands alone, not on the result's key, so any rule tells it now.
    first = next(k for k in keys if k.is_tensor).base
    body += _saved_source(op, keys, make_rule(op, op.name, mode, keys, wanted, first), constants)
    body.append("node.shape = r.shape" if known is not None else "node.shape = out._payload.shape")
    if op.metas:
        body.append(f"node.meta = {tuple_source(f'm{i}' for i in range(len(op.metas)))}")
    if known is None or known.base.fitted:
        constants["fits"] = _keep_like
        body.append("if b.fitted: fits(node, out)")
    if known is None:
        body.append("out._key = k.recorded")
    return compile_plan(names_of(op), [*body, "return out"], constants)


def _beneath(op: Row, constants: dict[str, Any]) -> str:
    """Source of the call of the plan beneath, under which nothing of this call is recorded a second time."""
    parameters = names_of(op)
    if op.composite:
        constants["bare"] = _bare
        given = ", ".join(f"bare({n})" if n[0] == "a" else n for n in parameters)
        return f"out = inner({given})"
    constants.update(fresh=_fresh, op=op)
    return f"out = fresh(op, inner({', '.join(parameters)}))"


def _input(param: Param, i: int, wanted: bool) -> str:
    """Source of the node, or nodes, of an operand."""
    if param.role == "variadic":
        return f"*[t._node for t in a{i}]"
    return f"a{i}._node" if wanted else "None"


def _saved_source(op: Row, keys: tuple[Key, ...], rule: Rule, constants: dict[str, Any]) -> list[str]:
    """Source that saves what the derivatives need, each tensor followed by the version that it has."""
    slots = slots_of(op, len(keys))
    body: list[str] = []
    words: list[str] = []
    for name in rule.saves:
        if name == "out":
            constants.update(Tensor=Tensor, Alias=Alias, View=View)
            body += SAVED_OUT
            words.append("kept, al.version")
            continue
        i = next(j for j, p in enumerate(op.operands) if p.name == name)
        key = keys[slots.index(i)]
        if op.operands[i].role == "variadic":
            words.append(f"tuple(a{i}), tuple([0 if t._alias is None else t._alias.version for t in a{i}])")
        elif not key.is_tensor:
            words.append(f"a{i}, 0")
        elif _frozen(key):
            constants["snapshot"] = _snapshot
            words.append(f"snapshot(a{i}), 0")
        else:
            body.append(f"x{i} = a{i}._alias")
            words.append(f"a{i}, 0 if x{i} is None else x{i}.version")
    words += [operand_shape(op, i) for i in rule.shapes]
    return [*body, f"node.saved = {tuple_source(words)}"]


def operand_shape(op: Row, i: int) -> str:
    """Source of the shape of one operand, or of the shapes of a variadic one."""
    if op.operands[i].role == "variadic":
        return f"tuple([t._payload.shape for t in a{i}])"
    return f"a{i}._payload.shape if a{i}.__class__.__name__ == 'Tensor' else ()"


def _keep_like(node: Node, out: Tensor) -> None:
    node.like = wrap(out._key.base, out._payload)


def _leaf_written(op: Row, leaf: Tensor, itself: bool) -> AutogradError:
    return AutogradError(
        f"{op.name} would change {'' if itself else 'a view of '}a tensor of shape {leaf.shape} in place, and that is a leaf "
        "that gradients are wanted for; do it under tripoint.no_grad(), or on a copy, x.copy()"
    )


def _inplace(op: Row, next_plan: Callable[..., Any], keys: tuple[Key, ...], mode: Mode) -> Callable[..., Any]:
    functional = op.functional
    assert functional is not None
    count = len(op.operands)
    rules: dict[Any, Rule] = {}

    def plan(*values: Any) -> Any:
        x1 = values[0]
        chain = chain_of(x1)
        for tensor in chain:
            if tensor._node.__class__ is Leaf and tensor._key.autograd:
                raise _leaf_written(op, tensor, tensor is x1)
        root = chain[-1]
        if root._key.autograd and not x1._key.autograd:
            # A view made where nothing was recorded joins its base's history before it is written.
            for link in reversed(chain):
                view = link._alias
                if isinstance(view, View) and view.base._key.autograd and not link._key.autograd:
                    join(link, view)
            if x1._key is not keys[0]:
                return again(op, values)
        operands = values[:count]
        wanted = tuple(isinstance(v, Tensor) and v._key.autograd for v in operands)
        if not any(wanted) or x1.dtype.gradient is None:  # what becomes an integer carries no gradient
            return next_plan(*values)
        rule = rules.get(wanted)
        if rule is None:
            rule = rules[wanted] = make_rule(functional, op.name, mode, keys, wanted, keys[0].base)
        inputs = tuple(v._node if w else None for v, w in zip(operands, wanted, strict=True))
        saved = _saved_before(op, rule, operands)
        shapes = [operands[i].shape if isinstance(operands[i], Tensor) else () for i in rule.shapes]
        next_plan(*values)
        if "out" in rule.saves:
            bare = wrap(x1._key.base, x1._payload)
            bare._alias = record_of(x1)
            saved += [bare, bare._alias.version]
        node = Node()
        node.age, node.rule, node.inputs, node.saved = tick(), rule, inputs, (*saved, *shapes)
        node.shape, node.meta, node.like = x1.shape, tuple(values[count:]), None
        if keys[0].layout.gradient_like is not None:
            _keep_like(node, x1)
        if root is x1:
            x1._node, x1._key = node, x1._key.recorded
        else:
            _rebase(chain, node, mode)
        return x1

    return plan


def _saved_before(op: Row, rule: Rule, operands: tuple[Any, ...]) -> list[Any]:
    """What an in-place call saves before it writes; of an operand that lies in the memory written, a copy."""
    written, saved = record_of(operands[0]), []
    for p, value in zip(op.operands, operands, strict=True):
        if p.name not in rule.saves:
            continue
        if isinstance(value, Tensor) and _frozen(value._key):
            saved += [_snapshot(value), 0]
        elif isinstance(value, Tensor) and record_of(value) is written:
            kept = copy(_bare(value))
            kept._node, kept._key = value._node, kept._key.recorded if value._key.autograd else kept._key
            saved += [kept, 0]
        else:
            saved += [value, record_of(value).version if isinstance(value, Tensor) else 0]
    return saved


def _rebase(chain: list[Tensor], written: Node, mode: Mode) -> None:
    """Rewrite the history of the root of a chain of views: a part of it now comes from ``written``.

    The views derive themselves again, those of the chain included: the write has moved the version.
    """
    root = chain[-1]
    steps = [(view.row, view.meta) for link in reversed(chain) if isinstance(view := link._alias, View)]

    def run(g: Tensor, node: Node, grad: bool, grads: Any, ready: Any, skip: Any) -> None:
        if node.saved is None:
            raise freed(node.rule.name)
        before, written = node.inputs
        if before is not None and (skip is None or before not in skip):
            give(before, _outside(g, steps), node, grads, ready, skip)
        give(written, _apply(g, steps), node, grads, ready, skip)

    node = Node()
    node.age = tick()
    node.rule = Rule(
        row_of(assign_), f"writing through {steps[-1][0].name}", mode, root._key.base, (True, True), (), run
    )
    node.inputs = (root._node if root._key.autograd else None, written)
    node.saved, node.shape, node.meta, node.like = (), root.shape, (), None
    root._node, root._key = node, root._key.recorded


def _outside(g: Tensor, steps: Steps) -> Tensor:
    """``g`` with zeros in the part that the steps reach."""
    out = copy(g)
    part = _apply(out, steps)
    if chain_of(part)[-1] is out:
        assign_(part, 0)
        return out
    # A reshape that was a view of the root is a copy of g, whose strides differ. Differentiating says where the part is.
    token = current.set(get_mode().replace(grad=True))
    try:
        probe = zeros(g.shape, dtype=g.dtype, device=g.device)
        probe._node, probe._key = Leaf(probe), probe._key.recorded
        part = _apply(probe, steps)
        (reached,) = gradients(part, [probe], ones(part.shape, dtype=g.dtype, device=g.device))
    finally:
        current.reset(token)
    assert reached is not None
    return where(equal(reached, 0), g, 0.0)


def _apply(tensor: Tensor, steps: Steps) -> Tensor:
    for row, meta in steps:
        tensor = call_row(row, (tensor,), meta)
    return tensor


standing.append(Autograd())
