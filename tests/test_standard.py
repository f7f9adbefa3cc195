"""Signatures of the Python array API standard, 2024.12: what it allows to call is a call here."""

from __future__ import annotations

import inspect

import pytest

import tripoint as tp

_ALONE = (
    "abs bitwise_invert cos exp isfinite isinf isnan log logical_not negative positive sign sin sqrt square tanh "
    "matrix_transpose"
)
_TOGETHER = (
    "add bitwise_and bitwise_or bitwise_xor divide equal floor_divide greater greater_equal less less_equal logical_and "
    "logical_or logical_xor maximum minimum multiply not_equal pow remainder subtract matmul"
)
_PLACE = "*, dtype=None, device=None"
_AXIS = "*, axis=None, keepdims=False"

#: the standard's signatures; an array argument has no default, ``/`` and ``*`` are Python's.
STANDARD = {
    **dict.fromkeys(_ALONE.split(), "x, /"),
    **dict.fromkeys(_TOGETHER.split(), "x1, x2, /"),
    **dict.fromkeys(("all", "any", "argmax", "argmin", "max", "mean", "min"), f"x, /, {_AXIS}"),
    **dict.fromkeys(("sum", "prod"), "x, /, *, axis=None, dtype=None, keepdims=False"),
    **dict.fromkeys(("empty", "ones", "zeros"), f"shape, {_PLACE}"),
    **dict.fromkeys(("empty_like", "ones_like", "zeros_like"), f"x, /, {_PLACE}"),
    "full": f"shape, fill_value, {_PLACE}",
    "full_like": f"x, /, fill_value, {_PLACE}",
    "arange": f"start, /, stop=None, step=1, {_PLACE}",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "broadcast_to": "x, /, shape",
    "clip": "x, /, min=None, max=None",
    "concat": "arrays, /, *, axis=0",
    "expand_dims": "x, /, axis",
    "flip": "x, /, *, axis=None",
    "permute_dims": "x, /, axes",
    "reshape": "x, /, shape, *, copy=None",
    "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0",
    "take": "x, indices, /, *, axis=None",
    "where": "condition, x1, x2, /",
}


@pytest.mark.parametrize("name", STANDARD)
def test_calls_that_the_standard_allows_are_calls_here(name):
    scope: dict[str, object] = {}
    exec(f"def standard({STANDARD[name]}): ...", scope)
    ours = inspect.signature(getattr(tp, name)).parameters
    wanted = inspect.signature(scope["standard"]).parameters
    positional = [p.name for p in ours.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for at, parameter in enumerate(wanted.values()):
        if parameter.kind is not parameter.KEYWORD_ONLY:
            assert positional[at] == parameter.name
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            assert ours[parameter.name].kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if parameter.default is not parameter.empty:
            assert ours[parameter.name].default == parameter.default
    for extra in ours.keys() - wanted.keys():  # what we add may be left out
        assert ours[extra].default is not inspect.Parameter.empty
