"""dtypes: promotion against the array API standard's tables written out, Python scalars, names, defaults."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import tripoint as tp
from tripoint import dtypes as dt
from tripoint.errors import DTypeError

# The tables of the array API standard, 2025.12, section "type promotion rules", row by row.
_SIGNED = """
     i1 i2 i4 i8
i1   i1 i2 i4 i8
i2   i2 i2 i4 i8
i4   i4 i4 i4 i8
i8   i8 i8 i8 i8
"""
_UNSIGNED = """
     u1 u2 u4 u8
u1   u1 u2 u4 u8
u2   u2 u2 u4 u8
u4   u4 u4 u4 u8
u8   u8 u8 u8 u8
"""
_MIXED = """
     u1 u2 u4
i1   i2 i4 i8
i2   i2 i4 i8
i4   i4 i4 i8
i8   i8 i8 i8
"""
_FLOATING = """
     f4  f8  c8  c16
f4   f4  f8  c8  c16
f8   f8  f8  c16 c16
c8   c8  c16 c8  c16
c16  c16 c16 c16 c16
"""
_NAMES = {
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32",
    "u8": "uint64", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
}  # fmt: skip


def _table_rows(*tables: str) -> Iterator[tuple[str, str, str]]:
    for table in tables:
        head, *body = (line.split() for line in table.strip().splitlines())
        for row, *cells in body:
            for column, cell in zip(head, cells, strict=True):
                yield _NAMES[row], _NAMES[column], _NAMES[cell]


@pytest.mark.parametrize(("a", "b", "wanted"), list(_table_rows(_SIGNED, _UNSIGNED, _MIXED, _FLOATING)))
def test_promotion_follows_the_standards_table(a: str, b: str, wanted: str) -> None:
    one, other = dt.PLAIN[a], dt.PLAIN[b]
    assert dt.promote(one, other) is dt.PLAIN[wanted]
    assert dt.promote(other, one) is dt.PLAIN[wanted]


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_uint64_with_a_signed_integer_is_refused_naming_both(signed: str) -> None:
    for pair in ((dt.uint64, dt.PLAIN[signed]), (dt.PLAIN[signed], dt.uint64)):
        with pytest.raises(DTypeError, match="uint64") as caught:
            dt.promote(*pair)
        assert signed in str(caught.value)
        assert isinstance(caught.value, TypeError)


def test_where_the_standard_is_silent() -> None:
    integers = [d for d in dt.PLAIN.values() if d in dt.integral]
    inexact = [d for d in dt.PLAIN.values() if d in dt.floating or d in dt.complex_floating]
    assert len(integers) == 8
    assert len(inexact) == 6
    for i, f in itertools.product(integers, inexact):
        assert dt.promote(i, f) is f
        assert dt.promote(f, i) is f
    for d in dt.PLAIN.values():
        assert dt.promote(dt.bool_, d) is d
        assert dt.promote(d, dt.bool_) is d
        assert dt.promote(d, d) is d
    assert dt.promote(dt.float16, dt.bfloat16) is dt.float32
    assert dt.promote(dt.bfloat16, dt.float16) is dt.float32
    assert dt.promote(dt.bfloat16, dt.float64) is dt.float64
    assert dt.promote(dt.float16, dt.complex64) is dt.complex64


def test_promotion_of_three_does_not_depend_on_their_order() -> None:
    for three in itertools.combinations_with_replacement(dt.PLAIN.values(), 3):
        found = set()
        for order in itertools.permutations(three):
            try:
                found.add(dt.result_dtype(order))
            except DTypeError:
                found.add(None)
        assert len(found) == 1, (three, found)


@pytest.mark.parametrize(
    ("dtype", "weak", "wanted"),
    [
        ("bool", bool, "bool"), ("bool", int, "int64"), ("bool", float, "float32"), ("bool", complex, "complex64"),
        ("int8", bool, "int8"), ("int8", int, "int8"), ("uint8", int, "uint8"), ("uint64", int, "uint64"),
        ("int8", float, "float32"), ("int64", float, "float32"), ("int64", complex, "complex64"),
        ("float16", int, "float16"), ("float16", float, "float16"), ("bfloat16", float, "bfloat16"),
        ("float64", float, "float64"), ("float32", bool, "float32"),
        ("float16", complex, "complex64"), ("float32", complex, "complex64"), ("float64", complex, "complex128"),
        ("complex64", float, "complex64"), ("complex64", complex, "complex64"), ("complex128", int, "complex128"),
    ],
)  # fmt: skip
def test_python_scalars_are_weak(dtype: str, weak: type, wanted: str) -> None:
    strong = dt.PLAIN[dtype]
    assert dt.result_dtype((strong, dt.WEAK[weak])) is dt.PLAIN[wanted]
    assert dt.result_dtype((dt.WEAK[weak], strong)) is dt.PLAIN[wanted]
    assert dt.result_dtype((dt.WEAK[weak], None, strong)) is dt.PLAIN[wanted]


def test_scalars_alone_have_no_dtype() -> None:
    with pytest.raises(DTypeError, match="must be a tensor"):
        dt.result_dtype((dt.weak_int, dt.weak_float))
    with pytest.raises(DTypeError, match="must be a tensor"):
        dt.result_dtype((None,))


def test_opaque_dtypes_promote_with_nothing_and_belong_to_no_class() -> None:
    odd = tp.DType("odd4", bits=4, plain=tp.float32)
    assert odd.itemsize == 1
    assert odd.plain is tp.float32
    assert odd.gradient is None
    for cls in dt.CLASSES.values():
        assert odd not in cls
    for other in (*dt.PLAIN.values(), tp.DType("odd5")):
        for pair in ((odd, other), (other, odd)):
            with pytest.raises(DTypeError, match="odd4"):
                dt.promote(*pair)
            with pytest.raises(DTypeError):
                dt.result_dtype((*pair, tp.float32))
    for weak in dt.WEAK.values():
        with pytest.raises(DTypeError, match="odd4"):
            dt.result_dtype((odd, weak))
    assert dt.promote(odd, odd) is odd


def test_classes_are_a_tree() -> None:
    members = {
        "plain": set(dt.PLAIN),
        "boolean": {"bool"},
        "numeric": set(dt.PLAIN) - {"bool"},
        "real": {n for n in dt.PLAIN if n != "bool" and not n.startswith("complex")},
        "integral": {n for n in dt.PLAIN if "int" in n},
        "signed_integer": {"int8", "int16", "int32", "int64"},
        "unsigned_integer": {"uint8", "uint16", "uint32", "uint64"},
        "floating": {"float16", "bfloat16", "float32", "float64"},
        "complex_floating": {"complex64", "complex128"},
    }
    assert members.keys() == dt.CLASSES.keys()
    for name, wanted in members.items():
        assert {d.name for d in dt.PLAIN.values() if d in dt.CLASSES[name]} == wanted


def test_sizes_are_those_of_numpy() -> None:
    for name, d in dt.PLAIN.items():
        if name != "bfloat16":
            assert d.itemsize == np.dtype(name).itemsize
    assert dt.bfloat16.itemsize == 2


def test_as_dtype_from_names_and_foreign_dtypes() -> None:
    for name, d in dt.PLAIN.items():
        assert dt.as_dtype(name) is d
        assert dt.as_dtype(d) is d
        if name != "bfloat16":
            assert dt.as_dtype(np.dtype(name)) is d
            assert dt.as_dtype(np.dtype(name).type) is d
    assert dt.as_dtype(np.dtype(">f4")) is tp.float32
    assert dt.as_dtype(bool) is tp.bool
    assert dt.as_dtype(int) is tp.int64
    assert dt.as_dtype(float) is tp.float32
    assert dt.as_dtype(complex) is tp.complex64


@pytest.mark.parametrize(
    "value", ["float31", "", "Float32", "cpu", "python int", None, 3, str, object(), np.dtype("M8[s]")]
)
def test_as_dtype_refuses_what_names_no_dtype(value: object) -> None:
    with pytest.raises(DTypeError, match="unknown dtype"):
        dt.as_dtype(value)


@pytest.mark.parametrize("source", [n for n in dt.PLAIN if n != "bfloat16"])
@pytest.mark.parametrize("target", [n for n in dt.PLAIN if n != "bfloat16"])
def test_in_place_casts_are_numpys_same_kind(source: str, target: str) -> None:
    assert dt.can_assign(dt.PLAIN[source], dt.PLAIN[target]) == np.can_cast(source, target, casting="same_kind")


def test_in_place_casts_of_opaque_dtypes_are_to_themselves() -> None:
    odd = tp.DType("odd6")
    assert dt.can_assign(odd, odd)
    assert not dt.can_assign(odd, tp.float32)
    assert not dt.can_assign(tp.float32, odd)


def test_default_dtype(registry_kept: None) -> None:
    tp.set_default_dtype("float64")
    assert tp.get_default_dtype() is tp.float64
    assert dt.as_dtype(float) is tp.float64
    assert dt.as_dtype(complex) is tp.complex128
    assert dt.result_dtype((tp.int32, dt.weak_float)) is tp.float64
    assert dt.result_dtype((tp.float32, dt.weak_float)) is tp.float32
    assert tp.zeros((2,), device="meta").dtype is tp.float64
    tp.set_default_dtype(tp.float16)
    assert tp.zeros((2,), device="meta").dtype is tp.float16
    for bad in ("int64", "bool", "complex64", tp.DType("odd7")):
        with pytest.raises(DTypeError, match="floating"):
            tp.set_default_dtype(bad)
    assert tp.get_default_dtype() is tp.float16


def test_plain_dtypes_survive_pickling_as_themselves() -> None:
    for d in dt.PLAIN.values():
        assert pickle.loads(pickle.dumps(d)) is d
