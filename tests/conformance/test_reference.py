"""The oracle itself, against NumPy: rounding, promotion, indexing, and reductions at their edges."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from tripoint.conformance.reference import manipulation, reductions
from tripoint.conformance.reference.values import ALL, Array, cast, promote, rounded, wrapped


def doubles() -> np.ndarray:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**64, 4000, dtype=np.uint64)
    anything = bits.view(np.float64)
    usual = random.standard_normal(4000) * 10.0 ** random.integers(-45, 6, 4000)
    edges = np.array(
        [0.0, -0.0, 65504, 65519.99, 65520, 1 + 2**-11, 1 + 3 * 2**-11, 2.0**-24, 2.0**-25, 3.4e38, 3.5e38]
    )
    made = np.concatenate([anything, usual, edges])
    return made[np.isfinite(made)]


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_floats_are_rounded_as_numpy_rounds_them(name: str) -> None:
    x = doubles()
    with np.errstate(all="ignore"):
        want = x.astype(name).astype(np.float64)
    assert [struct.pack("d", rounded(v, name)) for v in x.tolist()] == [struct.pack("d", w) for w in want.tolist()]


def test_bfloat16_is_rounded_once() -> None:
    # Where float32 holds the number, rounding by way of it rounds once too.
    with np.errstate(all="ignore"):
        x = doubles().astype(np.float16).astype(np.float64)
    x = np.concatenate(
        [x, np.float64(np.float32(np.linspace(-3e38, 3e38, 999))), [2.0**-130, 3 * 2.0**-134, 2.0**-133, 0.0]]
    )
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    for v, w in zip(x.tolist(), want.tolist(), strict=True):
        got = rounded(v, "bfloat16")
        assert got == w or (math.isnan(got) and math.isnan(w)), v


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_integers_wrap_around(bits: int, signed: bool) -> None:
    values = [0, 1, -1, 2**bits - 1, 2**bits, 2 ** (bits - 1), -(2 ** (bits - 1)) - 1, 12345678901234567]
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    want = [int(np.array(v % 2**bits, np.uint64).astype(dtype)) for v in values]
    assert [wrapped(v, bits, signed) for v in values] == want


def test_casts_agree_with_numpy() -> None:
    x = np.array([1.75, -1.75, 0.5, 100.25])
    assert [cast(v, "int8") for v in x.tolist()] == x.astype(np.int8).tolist()
    assert [cast(v, "bool") for v in (0.0, -0.0, math.nan, 2)] == [False, False, True, True]
    assert cast(0.1 + 0.1j, "complex64") == complex(np.complex64(0.1 + 0.1j))


#: where the contract says otherwise than NumPy: integers do not widen a floating dtype.
def test_promotion_agrees_with_numpy_among_equals() -> None:
    kinds = {"i": 0, "u": 0, "f": 1, "c": 1, "b": 2}
    for a in ALL:
        for b in ALL:
            if "bfloat16" in (a, b):
                continue
            one, two = np.dtype(a), np.dtype(b)
            mixed = {kinds[one.kind], kinds[two.kind]} == {0, 1}
            if {a, b} & {"uint64"} and {one.kind, two.kind} == {"i", "u"}:
                with pytest.raises(LookupError):
                    promote(a, b)
            elif not mixed:
                assert promote(a, b) == np.promote_types(one, two).name, (a, b)
    assert promote("int64", "float16") == promote("float16", "int64") == "float16"
    assert promote("float16", "bfloat16") == "float32"


KEYS = [
    1, -1, slice(1, 3), slice(None, None, -1), slice(4, None, -2), slice(-100, 3), (1, 2), (..., 0), (None, 2, slice(3, 0, -1)),
    (slice(None), None, 0), (), ...,
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_indexing_agrees_with_numpy(key: object) -> None:
    x = np.arange(20, dtype=np.int64).reshape(4, 5)
    want = x[key]
    got = manipulation.getitem(Array("int64", x.shape, x.reshape(-1).tolist()), key)
    assert (got.shape, got.data) == (want.shape, want.reshape(-1).tolist())


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any"])
def test_reductions_agree_with_numpy(name: str, axis: object, keepdims: bool) -> None:
    x = (np.arange(24).reshape(2, 3, 4) * 7 % 5).astype(np.int64)
    want = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    got = getattr(reductions, name)(Array("int64", x.shape, x.reshape(-1).tolist()), axis=axis, keepdims=keepdims)
    assert (got.shape, got.data) == (want.shape, np.asarray(want).reshape(-1).tolist())


def test_sums_are_exact() -> None:
    x = [1e16, 1.0, -1e16, 1.0]
    assert reductions.sum(Array("float64", (4,), x)).data == [2.0]
    assert reductions.sum(Array("int64", (3,), [2**62, 2**62, 5])).data == [-(2**63) + 5]
    assert math.isnan(reductions.max(Array("float32", (3,), [1, math.nan, 2])).data[0])
    assert reductions.argmax(Array("float32", (4,), [1, math.nan, 2, math.nan])).data == [1]
