"""What stands between a call and its kernel: layers, and the floors they stand on."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn, Self

from tripoint.errors import ArgumentError, RegistrationError, shown
from tripoint.keys import Key
from tripoint.modes import Mode, Scope, current, forget_layer
from tripoint.plugins import blame, plugin_named
from tripoint.schema import Row, rows

__all__ = ["FLOORS", "Layer"]

Plan = Callable[..., Any]

#: the floors from the top down, each with the reason for its place.
FLOORS = (
    "autocast",  # above the trace, so that a program holds its casts
    "vmap",  # batch axes are settled before anything is written down or recorded
    "trace",  # sees what a user wrote, with casts and batches settled
    "profile",  # counts what runs, the work of recording included
    "autograd",  # next to the kernels: everything above it may change operands and still be differentiated
)


class Layer:
    """Something that takes part in calls between the user and the kernel.

    Subclasses write either ``__call__(op, call_next, args, meta)``, the boxed form, or ``build``. A layer of a stranger
    states its floor: ``class Count(Layer, below="trace")``.

    Attributes:
        name: what it is called where layers are listed.
        floor: where it stands; set by ``above``, ``below`` or ``on``.
        answer: of a layer that answers every call in its scope itself: function of the row, the operands and the metadata.
            Such a call is not resolved and makes no plan, and nothing beneath runs.
    """

    name: str = ""
    floor: float = 0.0
    answer: Any = None

    def __init_subclass__(cls, *, above: str | None = None, below: str | None = None, on: str | None = None) -> None:
        super().__init_subclass__()
        cls.name = cls.__dict__.get("name") or cls.__name__
        stated = [f for f in (above, below, on) if f is not None]
        if not stated:
            if not any("floor" in base.__dict__ for base in cls.__mro__ if base is not Layer):
                raise RegistrationError(
                    f"layer {cls.name}: state its floor, above= or below= one of {', '.join(FLOORS)}"
                )
            return
        if len(stated) > 1 or stated[0] not in FLOORS:
            raise RegistrationError(
                f"layer {cls.name}: state one floor, above= or below= one of {', '.join(FLOORS)}, not {', '.join(stated)}"
            )
        # Floors count from the top; a stranger's layer stands half a step beside one.
        cls.floor = FLOORS.index(stated[0]) + (0.0 if on else -0.5 if above else 0.5)

    def handles(self, op: Row) -> bool:
        """Whether the layer takes this operator at all; asked once per plan. If not, it stays on beneath it."""
        return True

    def active(self, mode: Mode, op: Row, keys: tuple[Key, ...]) -> bool:
        """Whether the layer takes part in this call: by being in the mode, unless it rides in keys."""
        return self in mode.layers

    def beneath(self, mode: Mode) -> Mode:
        """The mode with this layer off."""
        return mode.replace(layers=tuple(other for other in mode.layers if other is not self))

    def build(self, op: Row, next_plan: Plan, keys: tuple[Key, ...], below: Mode) -> Plan:
        """A plan around ``next_plan``; the boxed form is adapted here. ``below`` has this layer and all above it off."""
        from tripoint.dispatcher.calls import call_row

        names = [p.name for p in op.metas]
        count, wanted = len(op.operands), set(names)

        def call_next(args: Any, meta: dict[str, Any]) -> Any:
            given = tuple(args)
            if len(given) != count or meta.keys() != wanted:
                raise _misfit(self, op, given, meta)
            return call_row(op, given, tuple([meta[n] for n in names]))

        def plan(*values: Any) -> Any:
            token = current.set(below)
            try:
                out = self(op, call_next, values[:count], dict(zip(names, values[count:], strict=True)))
                if out is None and op.returns == "tensor":
                    raise ArgumentError(
                        f"layer {self.name}: its __call__ gave None for {op.name}, which gives a tensor; "
                        "return what call_next gives, or another tensor"
                    )
                return out
            except BaseException as error:
                _failed(self, error, call_next.__code__)
            finally:
                current.reset(token)

        return plan

    def __call__(self, op: Row, call_next: Callable[..., Any], args: tuple[Any, ...], meta: dict[str, Any]) -> Any:
        """The boxed form; ``call_next(args, meta)`` dispatches by the keys of what it is given, this layer off."""
        raise NotImplementedError(f"layer {self.name} writes neither __call__ nor build")

    def on(self) -> Scope:
        """A scope in which the layer takes part: ``with layer.on(): ...``."""
        return Scope(lambda mode: mode.replace(layers=(*mode.layers, self)))

    def off(self, below: Mode) -> Scope:
        """A scope without the layer and all above it, for operators that a plan of `build` itself calls."""
        return Scope(lambda mode: below)

    def __enter__(self) -> Self:
        self.__dict__.setdefault("_scope", self.on()).__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        scope: Scope = self.__dict__["_scope"]
        scope.__exit__(kind, error, trace)
        if not scope.entered:
            # Plans hold the layer and modes are interned: without this every layer object would live for ever.
            for mode in forget_layer(self):
                for row in rows.values():
                    row.plans.pop(mode, None)


def _misfit(layer: Layer, op: Row, args: tuple[Any, ...], meta: dict[str, Any]) -> ArgumentError:
    """The error of a call_next that is given other arguments than its operator has."""
    operands, metas = [p.name for p in op.operands], [p.name for p in op.metas]
    if len(args) != len(operands):
        wrong = f"takes its operands as one sequence of {len(operands)}, {', '.join(operands) or 'none'}; {len(args)} are given"
    elif missing := [n for n in metas if n not in meta]:
        wrong = f"wants all of its metadata; {missing[0]!r} is not in {meta}"
    else:
        unknown = ", ".join(shown(n) for n in meta if n not in metas)
        wrong = f"knows no metadata {unknown}; it has {', '.join(metas) or 'none'}"
    return ArgumentError(f"layer {layer.name}: call_next of {op.signature()} {wrong}")


def _failed(layer: Layer, error: BaseException, beneath: CodeType | None = None) -> NoReturn:
    """Raise what becomes of an error that passed through a layer; one that came from ``beneath`` is not the layer's."""
    try:
        trace = error.__traceback__ if not isinstance(error, Exception) else None
        while trace is not None and trace.tb_frame.f_code is not beneath:
            trace = trace.tb_next
        plugin = plugin_named(type(layer).__module__)
        if isinstance(error, Exception) or trace is not None or plugin is None:
            raise error
        blame(plugin, f"the layer {layer.name} of {plugin.name} {plugin.version}", error)
    finally:
        del error


#: layers that ride in keys instead of the mode.
standing: list[Layer] = []


def walk(mode: Mode, op: Row, keys: tuple[Key, ...]) -> tuple[Layer, ...]:
    """The layers that take part in a call, from the top down."""
    taking = [layer for layer in (*mode.layers, *standing) if _takes(layer, mode, op, keys)]
    return tuple(sorted(taking, key=lambda layer: layer.floor))


def _takes(layer: Layer, mode: Mode, op: Row, keys: tuple[Key, ...]) -> bool:
    try:
        return layer.active(mode, op, keys) and layer.handles(op)
    except BaseException as error:
        _failed(layer, error)


def modes_below(mode: Mode, layers: tuple[Layer, ...]) -> tuple[Mode, ...]:
    """For each layer of a walk, the mode with it and everything above it off, whether that takes part or not."""
    order = sorted((*mode.layers, *standing), key=lambda layer: layer.floor)
    out = []
    for layer in layers:
        off = mode
        for other in order[: order.index(layer) + 1]:
            off = other.beneath(off)
        out.append(off)
    return tuple(out)
