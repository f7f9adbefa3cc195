"""Making, converting, validating and printing sparse tensors. Oracle: NumPy."""

from __future__ import annotations

import pickle

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


def test_trusted_construction_does_not_crash_on_wrong_indices():
    s = tp.sparse.coo_trusted([[0, 9]], [1.0, 2.0], (3,))
    assert not s.is_canonical
    with pytest.raises(IndexError):
        s.to(layout="strided")
    assert tp.sparse.coo_trusted([[0, 2]], [1.0, 2.0], (3,), canonical=True).is_canonical


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


def test_payloads_pickle():
    s = tp.sparse.coo([[1, 0]], [1.0, 2.0], (3,))
    p = pickle.loads(pickle.dumps(payload(s)))
    np.testing.assert_array_equal(p.indices, payload(s).indices)
    np.testing.assert_array_equal(p.values, payload(s).values)
    assert (p.shape, p.canonical) == (s.shape, False)
