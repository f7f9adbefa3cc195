"""What type checkers and editors are told of Tensor is what runs: the room `ops` fills in what the class only declares."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from tripoint import Tensor, tensor


def _declarations() -> list[ast.FunctionDef]:
    source = ast.parse(Path(tensor.__file__).read_text(encoding="utf-8"))
    (cls,) = (n for n in source.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    (declared,) = (n.body for n in cls.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return [n for n in declared if isinstance(n, ast.FunctionDef)]


METHODS = [d for d in _declarations() if not d.decorator_list]
PROPERTIES = {d.name for d in _declarations() if d.decorator_list}


def _declared(d: ast.FunctionDef) -> list[tuple[str, object, str]]:
    """Kind, default and name of each parameter after self; what is positional alone has no name that matters."""
    a, kind = d.args, inspect.Parameter
    positional = [(p, kind.POSITIONAL_ONLY) for p in a.posonlyargs] + [(p, kind.POSITIONAL_OR_KEYWORD) for p in a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + [ast.unparse(v) for v in a.defaults]
    out = [(k.name, v, p.arg) for (p, k), v in zip(positional, defaults, strict=True)]
    out += [(kind.VAR_POSITIONAL.name, None, a.vararg.arg)] if a.vararg else []
    out += [
        (kind.KEYWORD_ONLY.name, None if v is None else ast.unparse(v), p.arg)
        for p, v in zip(a.kwonlyargs, a.kw_defaults, strict=True)
    ]
    return [(k, v, "" if k == "POSITIONAL_ONLY" else n) for k, v, n in out[1:]]


@pytest.mark.parametrize("declared", METHODS, ids=lambda d: d.name)
def test_a_method_takes_what_is_declared(declared: ast.FunctionDef) -> None:
    runs = list(inspect.signature(getattr(Tensor, declared.name), follow_wrapped=False).parameters.values())[1:]
    wanted = _declared(declared)
    if declared.name.startswith("__"):  # Python calls these by position
        assert len(runs) == len(wanted)
        return
    found = [(p.kind.name, None if p.default is p.empty else repr(p.default), p.name) for p in runs]
    assert [(k, v, "" if k == "POSITIONAL_ONLY" else n) for k, v, n in found] == wanted


def test_what_is_declared_as_a_property_is_one() -> None:
    assert {"T", "mT", "grad", "requires_grad", "is_leaf", "strides", "readonly"} <= PROPERTIES
    assert [name for name in PROPERTIES if not isinstance(vars(Tensor)[name], property)] == []


def test_every_method_that_runs_is_declared() -> None:
    told = {d.name for d in METHODS} | PROPERTIES | {"device", "dtype", "layout", "ndim", "shape", "size"}
    runs = {n for n, v in vars(Tensor).items() if n[0] != "_" and (inspect.isfunction(v) or isinstance(v, property))}
    assert runs - told == set()
