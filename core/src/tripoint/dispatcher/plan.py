"""From a Resolution to a closure.

Plans are small functions written as source for the shape of their resolution, compiled once per shape and closed over
the kernel, the keys and the converters. A plan takes the operands and then all metadata, by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Any

from tripoint.dispatcher.detour import backed, fallen, hooked
from tripoint.dispatcher.layer import modes_below
from tripoint.dispatcher.outcome import (
    changes_shape,
    check_mode,
    check_result,
    checker,
    misbound,
    misdeclared,
    misread,
    recover,
)
from tripoint.dispatcher.resolve import Resolution, assign_kernel, comes_home
from tripoint.dispatcher.steps import caster, filler, step
from tripoint.dispatcher.views import again, refresh, refresh_all
from tripoint.errors import NoKernelError, PluginError
from tripoint.keys import ABSENT
from tripoint.schema import KEYWORD_ONLY, Row
from tripoint.storage import VIEWED, WROTE, Alias, View
from tripoint.tensor import Tensor

__all__ = ["build", "compile_plan", "names_of", "tuple_source"]

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
    # CPython specialises a code object for the functions that its calls reach; plans that shared one would undo that.
    plan.__code__ = plan.__code__.replace()
    plan.__dict__["source"] = (body, constants)  # for a layer that writes itself around a plan without another call
    return plan


def names_of(row: Row) -> list[str]:
    """Names of a plan's parameters: operands, then metadata."""
    return [f"a{i}" for i in range(len(row.operands))] + [f"m{i}" for i in range(len(row.metas))]


def tuple_source(items: Iterable[str]) -> str:
    """Source of the tuple of these expressions."""
    return f"({''.join(f'{item}, ' for item in items)})"


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
        redo = f"return again(row, {tuple_source(parameters)})"
        if p.role == "variadic":
            lines.append(f"if refresh_all(a{i}): {redo}")
            constants["refresh_all"] = refresh_all
        else:
            lines += [f"v = a{i}._alias", f"if v.seen != v.record.version and refresh(a{i}): {redo}"]
    if row.bind is not None and row.metas:
        constants["bind"] = row.bind
        metas = [f"m{i}" for i in range(len(row.metas))]
        constants.update(misbound=misbound, row=row)
        lines += ["try:", f"    {', '.join(metas)}, = bind({_shapes(res)}, {', '.join(metas)})"]
        lines += ["except BaseException as error:", f"    misbound(row, {tuple_source(parameters)}, error)"]
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


def _unchecked(res: Resolution, top: bool, first: bool) -> Plan:
    row = res.row
    head, constants = _head(res) if top else ([], {})
    parameters = names_of(row)
    if res.how == "decomposition":
        call = [f"a{i}" for i in range(len(row.operands))]
        for i, p in enumerate(row.metas):
            call.append(f"m{i}" if p.kind != KEYWORD_ONLY else f"{p.name}=m{i}")
        lines = [
            *head,
            "try:",
            f"    return body({', '.join(call)})",
            "except NoKernelError as error:",
            "    error.chain.append(row.name)",
            "    raise",
            "except BaseException as error: misdeclared(row, 'the body', error)",
        ]
        constants.update(body=row.body, NoKernelError=NoKernelError, row=row, misdeclared=misdeclared)
        return compile_plan(parameters, lines, constants)
    if res.how == "identity":
        return compile_plan(parameters, [*head, "return a0"], constants)
    if res.how == "hooks":
        assert res.inner is not None
        return _around(parameters, head, constants, hooked(res, _bottom(res.inner, False, first)))
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
    """The plan of a kernel, or of a chain of conversions."""
    call = _call_source(res, constants)
    if res.how == "kernel" and res.kernel is not None and res.kernel.check_first:
        constants["check"] = checker(res)
        head = [*head, f"check({', '.join(parameters)})"]
    constants["recover"] = recover
    constants["res"] = res
    constants["run"] = compile_plan(parameters, [f"return {call}"], _only(call, constants))
    body = [*head, "try:", f"    r = {call}", "except BaseException as error:"]
    body.append(f"    r = recover(res, error, {tuple_source(parameters)}, run)")
    if res.row.returns != "tensor":
        return compile_plan(parameters, [*body, "return r"], constants)
    constants.update(Tensor=Tensor, key=res.out)
    body += [*_coerced_source(res, constants), "out = Tensor()", "out._payload = r", "out._node = None"]
    return compile_plan(parameters, [*body, *_keyed_source(res, constants), "return out"], constants)


def _call_source(res: Resolution, constants: dict[str, Any]) -> str:
    """Source of the payload of the result: a call of the kernel, or of the steps of a conversion inside one another."""
    payloads = _payload_source(res, constants)
    if res.how == "convert":
        last = len(res.steps) - 1  # what a step makes on the way must be complete when the next one reads it
        call = payloads[0]
        for i, (kernel, key) in enumerate(res.steps):
            constants[f"step{i}"] = step(kernel, key, res.spec, res.non_blocking and i == last)
            call = f"step{i}({call})"
        return call
    chosen = res.kernel
    assert chosen is not None
    constants["kernel"] = chosen.fn
    words = [*payloads, *(f"{p.name}=m{i}" for i, p in enumerate(res.row.metas) if p.name not in res.row.keyed)]
    if chosen.takes_target:
        words.append("target=target")
        constants["target"] = res.out if res.row.returns == "tensor" else res.target
    if chosen.takes_spec:
        words.append("spec=spec")
        constants["spec"] = res.spec
    return f"kernel({', '.join(words)})"


def _coerced_source(res: Resolution, constants: dict[str, Any]) -> list[str]:
    """Source that makes a payload of ``r`` where the kernel gave something of another class, such as NumPy's scalars."""
    point = res.point
    if point is None or point.coerce is None or res.row.aliases != "never":  # what is a view is a payload
        return []
    constants.update(payload=point.payload, coerce=point.coerce, misread=misread)
    return [
        "if type(r) is not payload:",
        "    try: r = coerce(r)",
        "    except BaseException as error: misread(res, r, 'coerce(result)', error)",
    ]


def _keyed_source(res: Resolution, constants: dict[str, Any]) -> list[str]:
    """Source that gives ``out`` its key, and its alias record where it is a view of the first operand."""
    row, point = res.row, res.point
    plain = ["out._key = key", "out._alias = None"]
    viewable = res.out is not None and res.out.layout.views and point is not None and not point.frozen
    if row.aliases == "never" or not viewable or res.out is None or point is None:
        return plain
    constants.update(view_key=res.out.with_parts("view"), View=View, Alias=Alias, row=row)
    metas = "".join(f"m{i}, " for i in range(len(row.metas)))
    viewed = ["out._key = view_key", *[line.replace("{meta}", metas) for line in VIEWED]]
    if row.aliases == "always":
        return viewed
    if point.aliases is None:
        raise PluginError(f"{point.origin}: the point {point.pattern} has views and provides no aliases(out, x)")
    constants.update(shares=point.aliases, misread=misread)
    return [
        "try:",
        "    shared = shares(r, a0._payload)",
        "except BaseException as error: misread(res, r, 'aliases(out, x)', error)",
        "if shared:",
        *[f"    {line}" for line in viewed],
        "else:",
        *[f"    {line}" for line in plain],
    ]


def _only(text: str, constants: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in constants.items() if name in text}


def _inplace(res: Resolution, first: bool) -> Plan:
    """Write into the first operand: by the kernel of the in-place form, or by the functional one and assign, or, for
    frozen payloads, by binding a new payload. What can fail comes before the first write.
    """
    row = res.row
    parameters = names_of(row)
    point = res.point
    assert point is not None
    constants: dict[str, Any] = {"recover": recover, "res": res, "Alias": Alias, "View": View}
    handler = f"    recover(res, error, {tuple_source(parameters)})"
    if res.kernel is not None:
        words = _payload_source(res, constants)
        constants["kernel"] = res.kernel.fn
        words += [f"{p.name}=m{i}" for i, p in enumerate(row.metas) if p.name not in row.keyed]
        body = ["try:", f"    kernel({', '.join(words)})", "except BaseException as error:", handler]
        return compile_plan(parameters, [*body, *WROTE, "return a0"], constants)
    inner_res = res.inner
    assert inner_res is not None
    constants["inner"] = _bottom(inner_res, False, first)
    constants["fits"] = _fits
    body = [f"r = inner({', '.join(parameters)})._payload", f"fits(res, r, {tuple_source(parameters)})"]
    x1, out = res.keys[0].base, inner_res.out
    assert out is not None
    home = comes_home(out, x1)
    dtype = x1.dtype.plain if home else x1.dtype
    cast = []
    if out.dtype is not dtype:
        constants["cast"] = caster(out, dtype)
        cast.append("r = cast(r)")
    if home:
        constants.update(back=backed, key=x1)
        cast.append("r = back(key, r, a0._payload)")
    if point.frozen:
        constants["rebind"] = _rebind
        return compile_plan(parameters, [*body, *cast, "rebind(a0, r)", "return a0"], constants)
    kernel = assign_kernel(x1, x1 if home else out)
    assert kernel is not None
    constants["assign"] = kernel.fn
    body += ["try:", *[f"    {line}" for line in cast], "    assign(a0._payload, r)"]
    body += ["except BaseException as error:", handler, *WROTE, "return a0"]
    return compile_plan(parameters, body, constants)


def _fits(res: Resolution, payload: Any, values: tuple[Any, ...]) -> None:
    have = values[0]._payload.shape
    if payload.shape != have:
        raise changes_shape(res.row.name, res.row.operands[0].name, payload.shape, have)


def _rebind(tensor: Tensor, payload: Any) -> None:
    # Aliases made earlier keep the old payload and the old record: they are snapshots.
    old = tensor._alias
    tensor._payload = payload
    tensor._alias = fresh = Alias()
    fresh.version = 1 if old is None else old.version + 1
    if tensor._node is not None:
        tensor._node.rebound(tensor)
