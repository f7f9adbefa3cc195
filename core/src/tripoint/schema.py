"""What the core knows of an operator: one row, read off a decorated Python signature.

The signature is the schema. An operand is a parameter whose annotation, as text, contains the word Tensor or Operand
(with Sequence: any number of them, with None: it may be absent); every other parameter is metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tripoint.errors import RegistrationError, short_file, shown

if TYPE_CHECKING:
    from tripoint.rules import DTypeRule

__all__ = ["Param", "Row", "rows"]

POSITIONAL_ONLY, POSITIONAL, KEYWORD_ONLY = range(3)
REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "<required>"})()


class Param:
    """One parameter: its name, role (operand, variadic, optional or meta), how it is passed, and its default.

    ``number`` says whether a Python number may stand in a tensor's place, as it may for an annotation with Operand.
    """

    __slots__ = ("default", "kind", "name", "number", "role")

    def __init__(self, name: str, role: str, kind: int, default: Any, number: bool = False) -> None:
        self.name = name
        self.role = role
        self.kind = kind
        self.default = default
        self.number = number

    def __repr__(self) -> str:
        return f"Param({self.name}: {self.role})"


class Row:
    """One operator.

    Attributes:
        name: qualified name, such as ``add`` or ``mylib::swiglu``.
        params: every parameter in order; ``operands`` and ``metas`` are its two halves.
        composite: whether ``body`` computes it from other operators.
        body: the function as it was written.
        dtype, shape, bind: rules for the result's dtype, its shape, and for normalising metadata.
        keyed: names of the metadata that changes the key of the result.
        target: names of the metadata that names the point of the result (dtype, device, layout), else empty.
        aliases: ``never``, ``always`` or ``maybe``: whether the result may share memory with the first operand.
        mutates: name of the operand written into, or ``None``; ``functional`` is then the row that computes the value.
        returns: ``tensor``, or ``object`` for rows that leave the world of tensors.
        samples: for the conformance kit, a function giving the calls that it makes, each a `tripoint.plugin.Sample`.
        reference: for the kit, what the operator computes: a function of nested lists and metadata giving nested lists.
        ulps: for the kit, how many units in the last place results of floating dtypes may be off.
        numbers: of a comparison, what it says of two Python numbers; it answers where one is beyond every element of an
            integer dtype.
        kind: its family, such as ``elementwise``.
        minimal: whether a backend should have it first.
        commutative: whether its two operands may change places.
        zero_preserving: whether zeros give zeros.
        package, origin: top-level package that defined it; who, and where.
        plans: what calls look up; filled by the dispatcher.
        call: the compiled public function.
    """

    __slots__ = (
        "aliases", "bind", "body", "call", "commutative", "composite", "dtype", "functional", "keyed",
        "kind", "metas", "minimal", "mutates", "name", "numbers", "operands", "origin", "package", "params", "plans",
        "reference", "returns", "samples", "shape", "target", "ulps", "zero_preserving",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        body: FunctionType,
        params: tuple[Param, ...],
        *,
        composite: bool,
        dtype: DTypeRule | None = None,
        shape: Callable[..., tuple[int, ...]] | None = None,
        bind: Callable[..., tuple[Any, ...]] | None = None,
        keyed: tuple[str, ...] = (),
        target: tuple[str, ...] = (),
        aliases: str = "never",
        mutates: str | None = None,
        functional: Row | None = None,
        returns: str = "tensor",
        kind: str = "",
        commutative: bool = False,
        zero_preserving: bool = False,
        minimal: bool = False,
        samples: Callable[[], Any] | None = None,
        reference: Callable[..., Any] | None = None,
        ulps: float = 8,
        numbers: Callable[[Any, Any], bool] | None = None,
    ) -> None:
        self.name = name
        self.body = body
        self.params = params
        self.operands = tuple(p for p in params if p.role != "meta")
        self.metas = tuple(p for p in params if p.role == "meta")
        self.composite = composite
        self.dtype = dtype
        self.shape = shape
        self.bind = bind
        self.keyed = keyed
        self.target = target
        self.aliases = aliases
        self.mutates = mutates
        self.functional = functional
        self.returns = returns
        self.kind = kind
        self.commutative = commutative
        self.zero_preserving = zero_preserving
        self.minimal = minimal
        self.samples = samples
        self.reference = reference
        self.ulps = ulps
        self.numbers = numbers
        self.package = (body.__module__ or "__main__").partition(".")[0]
        self.origin = f"{short_file(body.__code__.co_filename, body.__module__)}:{body.__code__.co_firstlineno}"
        self.plans: dict[Any, Any] = {}
        self.call: Callable[..., Any] = body

    @property
    def arity(self) -> int:
        """Number of dispatch arguments: operands, and the target if there is one."""
        return len(self.operands) + bool(self.target)

    def signature(self) -> str:
        """The parameters as they are written in a call."""
        words: list[str] = []
        last = None
        for p in self.params:
            if last == POSITIONAL_ONLY and p.kind != POSITIONAL_ONLY:
                words.append("/")
            if p.kind == KEYWORD_ONLY and last != KEYWORD_ONLY:
                words.append("*")
            words.append(p.name if p.default is REQUIRED else f"{p.name}={shown(p.default)}")
            last = p.kind
        if last == POSITIONAL_ONLY:
            words.append("/")
        return f"{self.name}({', '.join(words)})"

    def kernel_signature(self) -> str:
        """How a kernel of it is called; ``target`` comes to kernels that name it."""
        metas = [p.name for p in self.metas if p.name not in self.keyed] + ["target"] * bool(self.target)
        words = [f"[{p.name}, ...]" if p.role == "variadic" else p.name for p in self.operands]
        return f"{self.name}({', '.join([*words, *['*'] * bool(metas), *metas])})"

    def __repr__(self) -> str:
        return f"<operator {self.signature()}>"


#: every operator by qualified name.
rows: dict[str, Row] = {}


def did_you_mean(name: str, otherwise: str = "") -> str:
    """Advice for an error about a name that no operator has: the nearest one that there is, else ``otherwise``."""
    import difflib

    near = difflib.get_close_matches(name, rows, 1)
    return f"; did you mean {near[0]!r}?" if near else otherwise


def read_params(fn: FunctionType) -> tuple[Param, ...]:
    """The parameters of a declaration, read without the inspect module (which costs more than the whole import).

    Raises:
        RegistrationError: ``*args`` or ``**kwargs``, or metadata before an operand.
    """
    code = fn.__code__
    name = fn.__name__
    if code.co_flags & 0x0C:
        raise RegistrationError(f"operator {name}: *args and **kwargs are no schema; name every parameter")
    count, keyword = code.co_argcount, code.co_kwonlyargcount
    defaults = fn.__defaults__ or ()
    first_default = count - len(defaults)
    kwdefaults = fn.__kwdefaults__ or {}
    params = []
    seen_meta = False
    for i, pname in enumerate(code.co_varnames[: count + keyword]):
        annotation = fn.__annotations__.get(pname, "")
        text = annotation if isinstance(annotation, str) else repr(annotation)
        if "Tensor" in text or "Operand" in text:
            optional = "None" in text or "Optional" in text
            role = "variadic" if "Sequence" in text else "optional" if optional else "operand"
        else:
            role = "meta"
        if i < count:
            kind = POSITIONAL_ONLY if i < code.co_posonlyargcount else POSITIONAL
            default = defaults[i - first_default] if i >= first_default else REQUIRED
        else:
            kind, default = KEYWORD_ONLY, kwdefaults.get(pname, REQUIRED)
        if role != "meta" and (seen_meta or kind == KEYWORD_ONLY):
            raise RegistrationError(f"operator {name}: operand {pname!r} stands behind metadata; operands come first")
        seen_meta |= role == "meta"
        # Without `from __future__ import annotations` an Operand arrives as the union that it stands for, with a float in it.
        params.append(Param(pname, role, kind, default, "Operand" in text or "float" in text))
    return tuple(params)
