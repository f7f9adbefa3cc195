"""Making, converting, validating and printing sparse tensors. Oracle: NumPy."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import (
    ArgumentError,
    AutogradError,
    DTypeError,
    IndexingError,
    LayoutError,
    ReadOnlyError,
    ShapeError,
    SizeError,
)
from tripoint.plugin import payload

ALL = [
    tp.bool, tp.int8, tp.int16, tp.int32, tp.int64, tp.uint8, tp.uint16, tp.uint32, tp.uint64, tp.float16, tp.bfloat16,
    tp.float32, tp.float64, tp.complex64, tp.complex128,
]  # fmt: skip


def dense(s: tp.Tensor) -> np.ndarray:
    return s.to(layout="strided").numpy()


def random_matrix(shape: tuple[int, ...], seed: int = 0, density: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * (rng.random(shape) < density)).astype(np.float32)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (5,), (3, 4), (0, 4), (4, 0), (2, 3, 4), (2, 0, 3)])
def test_round_trip_keeps_shape_and_values(shape):
    a = random_matrix(shape, density=0.5)
    s = tp.asarray(a).to(layout="sparse_coo")
    assert s.layout.name == "sparse_coo"
    assert s.shape == shape
    assert s.is_canonical
    assert s.nnz == np.count_nonzero(a)
    assert s.indices.shape == (len(shape), s.nnz)
    assert s.values.shape == (s.nnz,)
    np.testing.assert_array_equal(dense(s), a)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_plain_dtype_converts_both_ways(dtype):
    x = tp.asarray([[0, 1, 0], [1, 0, 3]]).to(dtype=dtype)
    s = x.to(layout="sparse_coo")
    assert s.dtype is s.values.dtype is dtype
    assert s.nnz == 3
    assert s.to(layout="strided").tolist() == x.tolist()
    assert s.to(dtype=tp.complex64).to(layout="strided").dtype is tp.complex64


def test_nan_is_stored_and_negative_zero_is_not():
    s = tp.asarray([0.0, -0.0, float("nan"), float("inf")]).to(layout="sparse_coo")
    assert s.indices.tolist() == [[2, 3]]
    assert np.isnan(s.values.numpy()[0])


def test_conversion_to_another_dtype_and_layout_at_once():
    s = tp.asarray([[0, 2], [0, 0]]).to(layout="sparse_coo", dtype=tp.float64)
    assert (s.dtype, s.layout.name, s.values.tolist()) == (tp.float64, "sparse_coo", [2.0])
    assert s.to(layout="strided", dtype=tp.int32).tolist() == [[0, 2], [0, 0]]


def test_to_real_refuses_complex():
    s = tp.asarray([1j, 0]).to(layout="sparse_coo")
    with pytest.raises(DTypeError, match="imaginary"):
        s.to(dtype=tp.float32)


def test_duplicates_are_summed_before_a_cast():
    s = tp.sparse.coo([[0, 0]], [0.6, 0.6], (2,))
    assert s.to(dtype=tp.int32).to(layout="strided").tolist() == [1, 0]


# B6 -------------------------------------------------------------------------------------------------------------------


def test_more_elements_than_64_bits_count():
    shape = (2**20,) * 4
    at = [[2**20 - 1, 2**20 - 1, 0]] * 4
    s = tp.sparse.coo(at, [1.0, 2.0, 5.0], shape)
    c = tp.sparse.coalesce(s)
    assert (c.nnz, c.is_canonical, c.values.tolist()) == (2, True, [5.0, 3.0])
    assert c.indices.tolist() == [[0, 2**20 - 1]] * 4
    assert (s + s).values.tolist() == [10.0, 6.0]
    assert s.sum().item() == 8.0
    assert (s * 2.0).values.tolist() == [2.0, 4.0, 10.0]
    assert (s * tp.asarray([3.0])).values.tolist() == [3.0, 6.0, 15.0]
    assert tp.permute_dims(s, (3, 2, 1, 0)).shape == shape
    w = c.copy().requires_grad_()
    (w * w).sum().backward()
    assert w.grad.values.tolist() == [10.0, 6.0]
    with pytest.raises(SizeError):
        s.to(layout="strided")


# B9 -------------------------------------------------------------------------------------------------------------------


def test_nothing_stored_is_canonical():
    for s in (
        tp.asarray([0.0, 0.0]).to(layout="sparse_coo"),
        tp.sparse.coo([[]], [], (7,)),
        tp.zeros(3, layout="sparse_coo"),
    ):
        assert s.nnz == 0
        assert s.is_canonical
        assert s.indices.shape == (1, 0)
        assert s.values.shape == (0,)
        assert s.indices.dtype is tp.int64
        assert not dense(s).any()
    assert tp.sparse.coo([], [], (2, 3)).indices.shape == (2, 0)


def test_zero_dimensional():
    s = tp.asarray(0.0).to(layout="sparse_coo")
    assert (s.shape, s.nnz, s.indices.shape) == ((), 0, (0, 0))
    s = tp.sparse.coo([], [2.0, 3.0], ())
    assert not s.is_canonical
    assert s.to(layout="strided").item() == 5.0
    c = tp.sparse.coalesce(s)
    assert (c.nnz, c.is_canonical, c.values.tolist()) == (1, True, [5.0])
    assert (c + c).values.tolist() == [10.0]
    assert (c * c).values.tolist() == [25.0]
    assert tp.asarray(4.0).to(layout="sparse_coo").values.tolist() == [4.0]


# B10 ------------------------------------------------------------------------------------------------------------------


def test_validation_names_dimension_and_value():
    with pytest.raises(IndexingError, match=r"index 5 of entry 1 in dimension 0 .*out of range"):
        tp.sparse.coo([[0, 5]], [1.0, 2.0], (3,))
    with pytest.raises(IndexingError, match=r"index -1 of entry 0 in dimension 1 .*negative"):
        tp.sparse.coo([[0], [-1]], [1.0], (3, 3))
    with pytest.raises(IndexingError, match=str(2**63)):
        tp.sparse.coo(np.array([[2**63]], np.uint64), [1.0], (3,))
    with pytest.raises(IndexError, match="dimension 0"):
        tp.sparse.coo([[0]], [1.0], (0,))
    with pytest.raises(DTypeError, match="float64"):
        tp.sparse.coo([[0.0]], [1.0], (3,))
    with pytest.raises(DTypeError, match="bool"):
        tp.sparse.coo([[True]], [1.0], (3,))
    with pytest.raises(ShapeError, match=r"need \(1, 2\)"):
        tp.sparse.coo([[0]], [1.0, 2.0], (3,))
    with pytest.raises(ShapeError, match=r"need \(2, 1\)"):
        tp.sparse.coo([[0]], [1.0], (3, 3))
    with pytest.raises(ShapeError, match="ragged"):
        tp.sparse.coo([[0], [1, 2]], [1.0], (3, 3))
    with pytest.raises(ShapeError, match="one axis"):
        tp.sparse.coo([[0]], [[1.0]], (3,))
    with pytest.raises(ShapeError, match="-3"):
        tp.sparse.coo([[0]], [1.0], (-3,))
    with pytest.raises(ArgumentError, match="shape"):
        tp.sparse.coo([[0]], [1.0], 3)
    with pytest.raises(ArgumentError, match="ints"):
        tp.sparse.coo([[0]], [1.0], (3.5,))
    with pytest.raises(AutogradError, match="detach"):
        tp.sparse.coo([[0]], tp.asarray([1.0]).requires_grad_(), (3,))


def test_positions_of_more_than_64_bits_are_named():
    for bad in (2**70, -(2**70), 10**400):
        with pytest.raises(IndexingError, match=r"of entry 1 in dimension 0 \(size 3\)") as caught:
            tp.sparse.coo([[0, bad]], [1.0, 2.0], (3,))
        assert ("2**1328" if bad == 10**400 else str(bad)) in str(caught.value)
        with pytest.raises(IndexingError, match="of entry 1"):
            tp.sparse.coo_trusted([[0, bad]], [1.0, 2.0], (3,))
    with pytest.raises(IndexingError, match=str(2**63)):
        tp.sparse.coo([[2**63], [-1]], [1.0], (3, 3))  # which NumPy alone would read as floats
    with pytest.raises(DTypeError, match="object"):
        tp.sparse.coo([[None]], [1.0], (3,))
    with pytest.raises(DTypeError, match="object"):
        tp.sparse.coo(np.array([[2**70]], object), [1.0], (3,))


@pytest.mark.parametrize("make", [tp.sparse.coo, tp.sparse.coo_trusted])
def test_what_needs_no_look_at_the_positions_is_checked_always(make):
    for size in (True, np.True_):
        with pytest.raises(ArgumentError, match="bool"):
            make([[0]], [1.0], (size,))
    with pytest.raises(ShapeError, match=r"need \(2, 1\)"):
        make([[0]], [1.0], (3, 3))
    with pytest.raises(ShapeError, match="one axis"):
        make([[0]], [[1.0]], (3,))
    with pytest.raises(ShapeError, match="-3"):
        make([[0]], [1.0], (-3,))
    for floats in (np.zeros((2, 0)), tp.zeros((2, 0)), np.zeros((2, 1))):
        with pytest.raises(DTypeError, match="float"):
            make(floats, [0.0] * floats.shape[1], (3, 3))
    for empty in ([], [[], []], np.zeros((2, 0), np.int8), tp.zeros((2, 0), dtype=tp.int32)):
        assert make(empty, [], (3, 3)).indices.shape == (2, 0)
    with pytest.raises(DTypeError, match="qint8"):
        make([[0]], tp.quantize(tp.ones(1), tp.affine(1.0)), (3,))
    with pytest.raises(AutogradError, match="detach"):
        make([[0]], tp.asarray([1.0]).requires_grad_(), (3,))


def test_trusted_construction_shares_the_arrays_and_leaves_them_writable():
    indices, values = np.array([[0, 2]]), np.array([1.0, 2.0], np.float32)
    s = tp.sparse.coo_trusted(indices, values, (3,))
    assert np.shares_memory(payload(s).indices, indices)
    assert np.shares_memory(payload(s).values, values)
    assert indices.flags.writeable
    assert values.flags.writeable
    assert s.values.readonly
    assert tp.sparse.coo_trusted(indices, values, (3,), canonical=True).is_canonical


#: (indices, canonical as they are said to be) of tensors of shape (2, 3): outside of it, or not canonical.
WRONG = [
    ([[0], [10**9]], False), ([[0], [-1]], False), ([[0], [-(10**9)]], False), ([[10**9], [0]], False), ([[-1], [0]], True),
    ([[2**62], [2**62]], False), ([[-(2**63)], [0]], False), ([[0, 0], [5, 1]], True), ([[1, 0], [2, 0]], True),
    ([[0, 0, 0], [0, 0, 0]], True), ([[1, 1, 0, 0], [2, 2, 1, 1]], True),
]  # fmt: skip
COLUMN, ROW = tp.asarray([[1.0, 2.0]] * 3), tp.asarray([[1.0, 2.0, 3.0]] * 2)
RIGHT = tp.sparse.coo([[0, 1, 1], [2, 0, 2]], [1.0, 2.0, 3.0], (2, 3))
USES = {
    "s @ d": lambda s: s @ COLUMN, "d @ s": lambda s: COLUMN @ s, "s @ v": lambda s: s @ COLUMN[:, 0],
    "v @ s": lambda s: COLUMN[0] @ s, "s @ s": lambda s: s @ RIGHT.T, "s @ s too": lambda s: RIGHT @ s.T,
    "s * d": lambda s: s * ROW, "s * row": lambda s: s * ROW[0], "s * column": lambda s: s * ROW[:, :1],
    "s * s": lambda s: s * RIGHT, "s * s too": lambda s: RIGHT * s, "s * c": lambda s: s * 2, "s + s": lambda s: s + RIGHT,
    "s - s": lambda s: RIGHT - s, "s + d": lambda s: s + ROW, "d - s": lambda s: ROW - s, "-s": lambda s: -s,
    "sqrt": tp.sqrt, "row": lambda s: s[0], "element": lambda s: s[1, 2], "reversed": lambda s: s[:, ::-1],
    "new axis": lambda s: s[None], "rows": lambda s: s[[0, 1, 1]], "columns": lambda s: tp.take(s, tp.asarray([2, 2]), axis=1),
    "T": lambda s: s.T, "copy": lambda s: s.copy(), "astype": lambda s: s.astype(tp.float64), "sum": tp.sum,
    "sum of rows": lambda s: tp.sum(s, axis=1), "mean": lambda s: tp.mean(s, axis=0), "max": lambda s: tp.max(s, axis=0),
    "min": tp.min, "coalesce": tp.sparse.coalesce, "list": lambda s: s.tolist(), "repr": repr,
}  # fmt: skip
SLOPES = {name: use for name, use in USES.items() if name not in ("max", "min", "list", "repr", "astype", "coalesce")}


def differentiated(use, s):
    out = use(s.requires_grad_())
    out = out if out.layout.name == "strided" else tp.sum(out)
    tp.sum(tp.square(out)).backward()
    return s.grad


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_wrong_positions_that_were_trusted_give_a_wrong_result_or_an_error_of_ours(wrong):
    indices, canonical = WRONG[wrong]
    uses = {**USES, **{f"slope of {n}": lambda s, use=use: differentiated(use, s) for n, use in SLOPES.items()}}
    seen = set()
    for use in uses.values():
        s = tp.sparse.coo_trusted(indices, [1.0] * len(indices[0]), (2, 3), canonical=canonical)
        try:
            out = use(s)
            if isinstance(out, tp.Tensor):
                repr(out)
                out.tolist()
            seen.add("result")
        except IndexingError:  # every other error, NumPy's and SciPy's too, fails the test
            seen.add("error")
    outside = any(not 0 <= i < size for row, size in zip(indices, (2, 3), strict=True) for i in row)
    assert seen == ({"result", "error"} if outside else {"result"})


def test_compiled_products_never_see_a_position_outside():
    """In a process of its own: reading there would end it."""
    program = """
import tripoint as tp
for bad in (10**9, -1, -10**9, 2**40):
    for indices in ([[0], [bad]], [[bad], [0]]):
        s = tp.sparse.coo_trusted(indices, [1.0], (2, 3))
        for product in (lambda: s @ tp.ones((3, 2)), lambda: tp.ones((2, 2)) @ s, lambda: s @ tp.ones((3,)), lambda: s @ s.T):
            try:
                product()
            except IndexError as error:
                assert str(bad) in str(error), error
            else:
                raise SystemExit("no error")
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr


def test_parts_are_copied_and_read_only():
    indices, values = np.array([[0, 2]]), np.array([1.0, 2.0], np.float32)
    s = tp.sparse.coo(indices, values, (3,))
    indices[0, 0], values[0] = 1, 9.0
    assert s.to(layout="strided").tolist() == [1.0, 0.0, 2.0]
    assert s.values.readonly
    assert s.indices.readonly
    with pytest.raises(ReadOnlyError):
        s.values[0] = 3.0
    with pytest.raises(AttributeError, match="immutable"):
        payload(s).canonical = True


def test_tensors_and_dtype_are_taken():
    s = tp.sparse.coo(tp.asarray([[1]]), tp.asarray([2]), (3,), dtype=tp.float64)
    assert (s.dtype, s.values.tolist()) == (tp.float64, [2.0])


# Adding up, printing and what does not apply --------------------------------------------------------------------------


def test_float32_duplicates_do_not_stall():
    n = 2**24 + 8
    s = tp.sparse.coo_trusted(np.zeros((1, n), np.int64), np.ones(n, np.float32), (2,))
    assert s.to(layout="strided").tolist() == [float(n), 0.0]
    assert s.sum().item() == n


def test_half_precision_duplicates_accumulate_in_float32():
    s = tp.sparse.coo([[0] * 4096], [1.0] * 4096, (1,), dtype=tp.bfloat16)
    assert s.to(layout="strided").tolist() == [4096.0]
    assert s.sum().item() == 4096.0


def test_repr_shows_entries_and_point():
    s = tp.sparse.coo([[0, 1, 1], [2, 0, 0]], [1.0, 2.0, 3.0], (2, 3))
    text = repr(s)
    for word in ("shape=(2, 3)", "values=[1., 2., 3.]", "layout=sparse_coo", "nnz=3", "not canonical"):
        assert word in text
    assert "not canonical" not in repr(tp.sparse.coalesce(s))
    assert len(repr(tp.asarray(random_matrix((100, 100))).to(layout="sparse_coo"))) < 1000
    assert repr(tp.zeros((), layout="sparse_coo"))


def test_strides_and_storage_are_not_applicable():
    s = tp.zeros((2, 2), layout="sparse_coo")
    with pytest.raises(LayoutError, match="not applicable"):
        s.strides
    with pytest.raises(LayoutError, match="not applicable"):
        s.storage()


def test_copy_shares_nothing():
    s = tp.asarray([0.0, 1.0]).to(layout="sparse_coo")
    assert tp.shares_memory(s, s)
    assert tp.shares_memory(s, s * 1.0)  # the positions
    assert not tp.shares_memory(s, s.copy())
    assert s.copy().is_canonical


def test_tensors_pickle_and_copy_with_what_they_store():
    for s in (
        tp.sparse.coo([[1, 0, 1], [0, 2, 0]], [1.0, 0.0, 2.0], (2, 3)),
        tp.zeros((0, 3), layout="sparse_coo", dtype=tp.int8),
        tp.asarray([[0.0, 2.0]], dtype=tp.bfloat16).to(layout="sparse_coo"),
    ):
        for other in (*[pickle.loads(pickle.dumps(s, p)) for p in range(2, 6)], copy.deepcopy(s)):
            assert (other.layout, other.dtype, other.shape) == (s.layout, s.dtype, s.shape)
            assert (other.nnz, other.is_canonical) == (s.nnz, s.is_canonical)
            assert other.indices.tolist() == s.indices.tolist()
            assert other.values.tolist() == s.values.tolist()
            assert not tp.shares_memory(other, s)
            assert other.values.readonly
    leaf = tp.zeros((2,), layout="sparse_coo").requires_grad_()
    assert pickle.loads(pickle.dumps(leaf)).requires_grad
    with pytest.raises(AutogradError, match="detach"):
        pickle.dumps(leaf * 2)


def test_payloads_pickle():
    s = tp.sparse.coo([[1, 0]], [1.0, 2.0], (3,))
    p = pickle.loads(pickle.dumps(payload(s)))
    np.testing.assert_array_equal(p.indices, payload(s).indices)
    np.testing.assert_array_equal(p.values, payload(s).values)
    assert (p.shape, p.canonical) == (s.shape, False)
