"""From a Resolution to a closure.

Plans are small functions written as source for the shape of their resolution, compiled once per shape and closed over
the kernel, the keys and the converters. A plan takes the operands and then all metadata, by position.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from math import prod
from typing import Any

from tripoint import kernels
from tripoint.dispatcher.detour import fallen, forbidding
from tripoint.dispatcher.layer import modes_below
from tripoint.dispatcher.resolve import Resolution, assign_kernel
from tripoint.dispatcher.steps import caster, coerced, filler, step
from tripoint.errors import (
    AutogradError,
    NoKernelError,
    OutOfMemoryError,
    PluginError,
    ReadOnlyError,
    ScalarRangeError,
    ShapeError,
    SizeError,
    TripointError,
    kind_of,
    noted,
    said,
    shown,
    told,
)
from tripoint.kernels import Point
from tripoint.keys import ABSENT, Key
from tripoint.modes import DEFAULT, current
from tripoint.plugins import described, guarded
from tripoint.rules import LARGEST, check_number
from tripoint.schema import Row
from tripoint.storage import VIEWED, WROTE, Alias, View, chain_of
from tripoint.tensor import Tensor, wrap

__all__ = ["build", "check_result", "refresh"]

Plan = Callable[..., Any]

_factories: dict[str, Callable[..., Plan]] = {}


def compile_plan(parameters: list[str], body: list[str], constants: dict[str, Any]) -> Plan:
    """A function of these parameters with this body, closed over the constants; compiled once per text."""
    names = sorted(constants)
    text = (
        f"def factory({', '.join(names)}):\n"
        f"    def plan({', '.join(parameters)}):\n"
        + "".join(f"        {line}\n" for line in body)
        + "    return plan\n"
    )
    factory = _factories.get(text)
    if factory is None:
        # Note [Quiet frames]: CPython drops a warning whose frame belongs to no module (its __name__ is None), so built-in
        # kernels called from here are silent, whatever the filters say and at no cost. Tests hold us to it.
        scope: dict[str, Any] = {"__name__": None}
        exec(compile(text, "<tripoint plan>", "exec"), scope)
        factory = _factories[text] = scope["factory"]
    plan = factory(**constants)
    # CPython remembers in the code which function a call in it went to; plans that share code would keep it guessing.
    plan.__code__ = plan.__code__.replace()
    plan.__dict__["source"] = (body, constants)  # for a layer that writes itself around a plan without another call
    return plan


def names_of(row: Row) -> list[str]:
    """Names of a plan's parameters: operands, then metadata."""
    return [f"a{i}" for i in range(len(row.operands))] + [f"m{i}" for i in range(len(row.metas))]


# Building ------------------------------------------------------------------------------------------------------------


def build(res: Resolution, first: bool = False) -> Plan:
    """The closure of a resolution: views refreshed and metadata bound, then the layers, then the kernel.

    ``first`` gives the plan for the call that missed: what the kernel at its bottom makes is checked, whatever layers
    above it do to the operands or to the result.
    """
    row = res.row
    if not res.layers:
        return _bottom(res, True, first)
    plan = _bottom(res, False, first)
    plan.__dict__["label"] = res.label()
    belows = modes_below(res.mode, res.layers)
    for layer, below in reversed(list(zip(res.layers, belows, strict=True))):
        plan = layer.build(row, plan, res.keys, below)
    head, constants = _head(res)
    if not head:
        return plan
    parameters = names_of(row)
    constants["inner"] = plan
    return compile_plan(parameters, [*head, f"return inner({', '.join(parameters)})"], constants)


def _shapes(res: Resolution) -> str:
    """Source of the tuple of operand shapes."""
    parts = []
    for i, p in enumerate(res.row.operands):
        if p.role == "variadic":
            parts.append(f"tuple([t._payload.shape for t in a{i}])")
            continue
        key = res.keys[res.slots.index(i)]
        parts.append(f"a{i}._payload.shape" if key.is_tensor else "None" if key is ABSENT else "()")
    return f"({', '.join(parts)},)" if parts else "()"


def _head(res: Resolution) -> tuple[list[str], dict[str, Any]]:
    """Source that refreshes stale views and binds metadata."""
    row, lines = res.row, []
    constants: dict[str, Any] = {}
    parameters = names_of(row)
    for i, p in enumerate(row.operands):
        keys = [k for k, s in zip(res.keys, res.slots, strict=True) if s == i]
        if not any(k.view for k in keys):
            continue
        constants.update(refresh=refresh, again=again, row=row)
        redo = f"return again(row, ({', '.join(parameters)},))"
        if p.role == "variadic":
            lines.append(f"if refresh_all(a{i}): {redo}")
            constants["refresh_all"] = refresh_all
        else:
            lines += [f"v = a{i}._alias", f"if v.seen != v.record.version and refresh(a{i}): {redo}"]
    if row.bind is not None and row.metas:
        constants["bind"] = row.bind
        metas = [f"m{i}" for i in range(len(row.metas))]
        lines.append(f"{', '.join(metas)}, = bind({_shapes(res)}, {', '.join(metas)})")
    return lines, constants


def _bottom(res: Resolution, top: bool, first: bool) -> Plan:
    plan = _unchecked(res, top, first)
    if not first:
        return plan

    def checked(*values: Any) -> Any:
        context = copy_context()  # a scope that a kernel leaves open ends with it
        out = context.run(plan, *values)
        check_mode(f"{res.kernel.origin if res.kernel is not None else res.label()}: {res.row.name}", context)
        check_result(res, out, values)
        return out

    return checked


def check_mode(who: str, context: Context) -> None:
    """Compare the mode that ``who`` left in a copy of the context with the mode in force.

    Raises:
        PluginError: they differ.
    """
    before, after = current.get(), context.get(current, DEFAULT)
    if after is not before:
        raise PluginError(f"{who} left a scope open, such as no_grad(): {before} became {after}")


def _unchecked(res: Resolution, top: bool, first: bool) -> Plan:
    row = res.row
    head, constants = _head(res) if top else ([], {})
    parameters = names_of(row)
    if res.how == "decomposition":
        call = [f"a{i}" for i in range(len(row.operands))]
        for i, p in enumerate(row.metas):
            call.append(f"m{i}" if p.kind != 2 else f"{p.name}=m{i}")
        lines = [
            *head,
            "try:",
            f"    return body({', '.join(call)})",
            "except NoKernelError as error:",
            "    error.chain.append(name)",
            "    raise",
        ]
        constants.update(body=row.body, NoKernelError=NoKernelError, name=row.name)
        return compile_plan(parameters, lines, constants)
    if res.how == "identity":
        return compile_plan(parameters, [*head, "return a0"], constants)
    if res.how == "hooks":
        return _around(parameters, head, constants, _hooked(res, first))
    if res.how == "inplace":
        return _around(parameters, head, constants, _inplace(res, first))
    if res.how == "fallback":
        assert res.inner is not None
        return _around(parameters, head, constants, fallen(res, _bottom(res.inner, False, first)))
    return _kernel(res, parameters, head, constants)


def _around(parameters: list[str], head: list[str], constants: dict[str, Any], inner: Plan) -> Plan:
    if not head:
        return inner
    constants["inner"] = inner
    return compile_plan(parameters, [*head, f"return inner({', '.join(parameters)})"], constants)


def _payload_source(res: Resolution, constants: dict[str, Any]) -> list[str]:
    """Source of the payload of each operand, cast and filled."""
    out = []
    for i, p in enumerate(res.row.operands):
        at = [j for j, s in enumerate(res.slots) if s == i]
        if p.role == "variadic":
            casts = [res.casts[j] for j in at]
            if any(casts):
                constants[f"casts{i}"] = [
                    caster(res.keys[j], d) if d is not None else _same for j, d in zip(at, casts, strict=True)
                ]
                out.append(f"[c(t._payload) for c, t in zip(casts{i}, a{i})]")
            else:
                out.append(f"[t._payload for t in a{i}]")
            continue
        key, cast, fill = res.keys[at[0]], res.casts[at[0]], res.fills[at[0]]
        if key is ABSENT:
            out.append("None")
        elif fill is not None:
            constants[f"fill{i}"] = filler(fill)
            out.append(f"fill{i}(a{i})")
        elif not key.is_tensor:
            out.append(f"a{i}")
        elif cast is not None:
            constants[f"cast{i}"] = caster(key, cast)
            out.append(f"cast{i}(a{i}._payload)")
        else:
            out.append(f"a{i}._payload")
    return out


def _same(p: Any) -> Any:
    return p


def _kernel(res: Resolution, parameters: list[str], head: list[str], constants: dict[str, Any]) -> Plan:
    row = res.row
    payloads = _payload_source(res, constants)
    if res.how == "convert":
        last = len(res.steps) - 1  # what a step makes on the way must be complete when the next one reads it
        chain = [step(k, key, res.spec, res.non_blocking and i == last) for i, (k, key) in enumerate(res.steps)]
        constants.update({f"step{i}": fn for i, fn in enumerate(chain)})
        call = payloads[0]
        for i in range(len(chain)):
            call = f"step{i}({call})"
    else:
        kernel = res.kernel
        assert kernel is not None
        constants["kernel"] = kernel.fn
        words = [*payloads]
        for i, p in enumerate(row.metas):
            if p.name not in row.keyed:
                words.append(f"{p.name}=m{i}")
        if kernel.takes_target:
            words.append("target=target")
            constants["target"] = res.out if row.returns == "tensor" else res.target
        if kernel.takes_spec:
            words.append("spec=spec")
            constants["spec"] = res.spec
        call = f"kernel({', '.join(words)})"
        if kernel.check_first:
            constants["check"] = checker(res)
            head = [*head, f"check({', '.join(parameters)})"]
    constants["recover"] = recover
    constants["res"] = res
    constants["run"] = compile_plan(parameters, [f"return {call}"], _only(call, constants))
    body = [*head, "try:", f"    r = {call}", "except Exception as error:"]
    body.append(f"    r = recover(res, error, ({''.join(n + ', ' for n in parameters)}), run)")
    if row.returns != "tensor":
        return compile_plan(parameters, [*body, "return r"], constants)
    point = res.point
    if point is not None and point.coerce is not None and row.aliases == "never":  # what is a view is a payload
        constants.update(payload=point.payload, coerce=point.coerce, misread=misread)
        body += ["if type(r) is not payload:", "    try: r = coerce(r)", "    except Exception as error:"]
        body.append("        raise misread(res, r, 'coerce(result)', error) from error")
    constants.update(Tensor=Tensor, key=res.out)
    body += ["out = Tensor()", "out._payload = r", "out._node = None"]
    plain = ["out._key = key", "out._alias = None"]
    if (
        row.aliases != "never"
        and res.out is not None
        and res.out.layout.views
        and point is not None
        and not point.frozen
    ):
        constants.update(view_key=res.out.with_parts("view"), View=View, Alias=Alias, row=row)
        metas = "".join(f"m{i}, " for i in range(len(row.metas)))
        viewed = ["out._key = view_key", *[line.replace("{meta}", metas) for line in VIEWED]]
        if row.aliases == "always":
            body += viewed
        else:
            if point.aliases is None:
                raise PluginError(
                    f"{point.origin}: the point {point.pattern} has views and provides no aliases(out, x)"
                )
            constants["shares"] = point.aliases
            constants["misread"] = misread
            body += ["try:", "    shared = shares(r, a0._payload)", "except Exception as error:"]
            body += ["    raise misread(res, r, 'aliases(out, x)', error) from error"]
            body += ["if shared:", *[f"    {v}" for v in viewed], "else:", *[f"    {v}" for v in plain]]
    else:
        body += plain
    return compile_plan(parameters, [*body, "return out"], constants)


def _only(text: str, constants: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in constants.items() if name in text}


def misread(res: Resolution, payload: Any, hook: str, error: Exception) -> PluginError:
    """The error of a backend whose hook cannot take its own result."""
    kernel, point = res.kernel, res.point
    return PluginError(
        f"{kernel.origin if kernel is not None else point.origin if point is not None else ''}: {res.row.name} returned a "
        f"{kind_of(payload)}, of which {hook} of {res.out} raised {said(error)}"
    )


def _hooked(res: Resolution, first: bool) -> Plan:
    """Operators that go through the hooks of a layout or dtype: in, once around, and back where the layout stays."""
    inner_res = res.inner
    assert inner_res is not None
    inner = _bottom(inner_res, False, first)
    found = [kernels.find_point(k) if k.is_tensor else None for k in res.keys]
    into: list[Any] = []
    for point, dense in zip(found, inner_res.keys, strict=True):
        hook = point.to_strided if point is not None and point.cheap else None
        into.append((coerced(hook, dense), dense) if hook is not None else None)
    row, count, forbids = res.row, len(res.row.operands), forbidding(res)
    back: Any = None
    if res.out is not None and inner_res.out is not res.out:
        at = next(i for i, k in enumerate(res.keys) if k.is_tensor)
        back = (found[at].from_strided, res.out)  # type: ignore[union-attr]

    def plan(*values: Any) -> Any:
        forbids(values)
        args: list[Any] = []
        j = 0
        for p, value in zip(row.operands, values[:count], strict=True):
            if p.role == "variadic":
                args.append([_into(into[j + n], t) for n, t in enumerate(value)])
                j += len(value)
            else:
                args.append(_into(into[j], value))
                j += 1
        out = inner(*args, *values[count:])
        view = out._alias if isinstance(out, Tensor) else None
        if isinstance(view, View) and not any(view.base is v for v in values):
            out._key, out._alias = out._key.base, None  # of what a hook made, which is nobody's but the result's
        if back is not None:
            from_strided, key = back
            # One whose shape the result has, if there is one: its parameters may fit no other shape.
            likes = [v._payload for v in values[:count] if isinstance(v, Tensor)]
            like = next((p for p in likes if p.shape == out._payload.shape), likes[0])
            try:
                return wrap(key, from_strided(out._payload, like=like))
            except Exception as error:
                _hook_note(key, "from_strided(dense, like=p)", error)
                raise
        return out

    return plan


def _into(hook: tuple[Callable[[Any], Any], Key] | None, value: Any) -> Any:
    if hook is None:
        return value
    try:
        return wrap(hook[1], hook[0](value._payload))
    except Exception as error:
        _hook_note(value._key, "to_strided(p)", error)
        raise


def _hook_note(key: Key, hook: str, error: Exception) -> None:
    point = kernels.find_point(key)
    if point is not None:
        noted(error, f"raised by {hook} of {key.base}, which {point.origin.provider} provides")


def _inplace(res: Resolution, first: bool) -> Plan:
    """Write into the first operand: by the kernel of the in-place form, or by the functional one and assign, or, for
    frozen payloads, by binding a new payload. What can fail comes before the first write.
    """
    row = res.row
    parameters = names_of(row)
    point = res.point
    assert point is not None
    constants: dict[str, Any] = {"recover": recover, "res": res, "Alias": Alias, "View": View}
    handler = f"    recover(res, error, ({''.join(n + ', ' for n in parameters)}))"
    if res.kernel is not None:
        words = _payload_source(res, constants)
        constants["kernel"] = res.kernel.fn
        words += [f"{p.name}=m{i}" for i, p in enumerate(row.metas) if p.name not in row.keyed]
        body = ["try:", f"    kernel({', '.join(words)})", "except Exception as error:", handler]
        return compile_plan(parameters, [*body, *WROTE, "return a0"], constants)
    inner_res = res.inner
    assert inner_res is not None
    constants["inner"] = _bottom(inner_res, False, first)
    constants["fits"] = _fits
    body = [f"r = inner({', '.join(parameters)})._payload", f"fits(res, r, ({''.join(n + ', ' for n in parameters)}))"]
    out = inner_res.out
    if point.frozen:
        constants["rebind"] = _rebind
        if out is not None and out.dtype is not res.keys[0].dtype:
            constants["cast"] = caster(out, res.keys[0].dtype)
            body.append("r = cast(r)")
        return compile_plan(parameters, [*body, "rebind(a0, r)", "return a0"], constants)
    assert out is not None
    kernel = assign_kernel(res.keys[0], out)
    assert kernel is not None
    constants["assign"] = kernel.fn
    body.append("try:")
    if out.dtype is not res.keys[0].dtype:
        constants["cast"] = caster(out, res.keys[0].dtype)
        body.append("    r = cast(r)")
    body += ["    assign(a0._payload, r)", "except Exception as error:", handler, *WROTE, "return a0"]
    return compile_plan(parameters, body, constants)


def _fits(res: Resolution, payload: Any, values: tuple[Any, ...]) -> None:
    have = values[0]._payload.shape
    if payload.shape != have:
        raise ShapeError(
            f"{res.row.name}: the result has shape {payload.shape}, and {res.row.operands[0].name} has {have}; "
            "an in-place operator does not change shapes"
        )


def _rebind(tensor: Tensor, payload: Any) -> None:
    # Aliases made earlier keep the old payload and the old record: they are snapshots.
    old = tensor._alias
    tensor._payload = payload
    tensor._alias = fresh = Alias()
    fresh.version = 1 if old is None else old.version + 1
    if tensor._node is not None:
        tensor._node.rebound(tensor)


# Views ---------------------------------------------------------------------------------------------------------------


def refresh(tensor: Tensor) -> bool:
    """Derive a view again if its base is recorded and their memory was written since the view last did so.

    True when the tensor's key changed, so that a plan chosen by the old one does not fit.
    """
    view = tensor._alias
    if not isinstance(view, View) or view.seen == view.record.version:
        return False
    while not view.base._key.autograd:
        # A view of what is not recorded stays behind: it joins when its base becomes a leaf, whoever looked meanwhile.
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


# Errors and checks ---------------------------------------------------------------------------------------------------


def operand_shapes(row: Row, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shapes of operands as rules take them."""
    out: list[Any] = []
    for p, v in zip(row.operands, values, strict=False):
        if p.role == "variadic":
            out.append(tuple([t.shape for t in v]))
        elif v is None:
            out.append(None)
        else:
            out.append(v._payload.shape if isinstance(v, Tensor) else ())
    return tuple(out)


def expected_shape(row: Row, values: tuple[Any, ...]) -> tuple[int, ...] | None:
    """What the row's shape rule says of a call with bound metadata.

    Raises:
        ShapeError: the shapes do not go together.
    """
    if row.shape is None:
        return None
    metas = dict(zip([p.name for p in row.metas], values[len(row.operands) :], strict=True))
    return row.shape(operand_shapes(row, values), **metas)


def checker(res: Resolution) -> Callable[..., None]:
    """A function of a plan's values that runs the row's shape rule."""
    row = res.row

    def check(*values: Any) -> None:
        expected_shape(row, values)

    return check


def recover(res: Resolution, error: Exception, values: tuple[Any, ...], run: Callable[..., Any] | None = None) -> Any:
    """Where a kernel that raised arrives: run again where only the host's floating-point settings made it raise.

    An in-place kernel (``run`` is ``None``) is not run twice: NumPy checks those settings when the result is complete, and a
    kernel whose library may stop earlier meets that itself.

    Raises:
        TripointError: what `failed` makes of the error.
    """
    point = res.point
    if isinstance(error, FloatingPointError) and point is not None and point.quiet is not None:
        if run is None:
            return None
        with point.quiet():
            return run(*values)
    made = failed(res, error, values)
    try:
        if made is error:
            raise made  # with the cause and the context that it has
        raise made from made.__cause__
    finally:
        del error, made  # or this frame and the exceptions hold one another, and with them the memory of the operands


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


def is_readonly(tensor: Tensor) -> bool:
    """Whether the backend says that the memory must not be written; one that cannot say does not."""
    point = kernels.find_point(tensor._key)
    try:
        return point is not None and bool(described(point, tensor._payload).get("readonly"))
    except TripointError:
        return False


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
        PluginError: the payload is of another class, dtype or shape.
    """
    payload: Any = out._payload
    if point is None:
        raise PluginError(f"{who}: the result would be on {key.base}, which no plugin provides")
    if not guarded(point.origin, "isinstance(result, payload)", isinstance, payload, point.payload):
        raise PluginError(
            f"{who} returned a {kind_of(payload)}; payloads on {point.pattern} are {point.payload.__name__}"
        )
    have = _shape_of(who, payload)
    dtype = described(point, payload).get("dtype")
    if dtype is not None and dtype is not key.dtype:
        raise PluginError(f"{who} returned {dtype}; the result on {key.base} must be {key.dtype}")
    if row.shape is not None:
        head_values = bound(row, values)
        wanted = expected_shape(row, head_values)
        if wanted is not None and have != wanted:
            raise PluginError(f"{who} returned shape {have}; its shape rule says {wanted}")


def _shape_of(who: str, payload: Any) -> tuple[int, ...]:
    """The shape of a payload; ``who`` made it.

    Raises:
        PluginError: it has none, or what it has is no tuple of ints from 0.
    """
    try:
        have = payload.shape
    except Exception as error:
        raise PluginError(f"{who} returned a {kind_of(payload)}, whose shape raised {said(error)}") from error
    if not issubclass(type(have), tuple) or not all(type(size) is int and size >= 0 for size in have):
        raise PluginError(
            f"{who} returned a {kind_of(payload)} of shape {shown(have)}; a shape is a tuple of ints from 0"
        )
    return have  # type: ignore[no-any-return]


def bound(row: Row, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a call with metadata normalised."""
    if row.bind is None or not row.metas:
        return values
    count = len(row.operands)
    return (*values[:count], *row.bind(operand_shapes(row, values), *values[count:]))
