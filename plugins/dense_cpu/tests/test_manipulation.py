"""Operators that change shapes, and conversions: values and strides against NumPy, and what shares memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import AliasError, ArgumentError, DTypeError, LayoutError, ReadOnlyError, ShapeError
from tripoint.schema import rows

EVERY = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


def test_every_operator_of_these_families_has_a_case():
    have = {n for n, r in rows.items() if r.body.__module__ in ("tripoint.ops.manipulation", "tripoint.ops.conversion")}
    tested = {
        "reshape", "permute_dims", "expand_dims", "squeeze", "broadcast_to", "flip", "concat", "stack", "flatten",
        "matrix_transpose", "to", "astype", "copy", "to_list", "to_numpy", "to_text",
    }  # fmt: skip
    assert have == tested


def array(shape, dtype="float32"):
    return np.arange(float(np.prod(shape))).reshape(shape).astype(dtype)


def memories(a):
    yield a
    if a.ndim:
        yield a[::-1].copy()[::-1]
        spread = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)[..., ::2]
        spread[...] = a
        yield spread
    if a.ndim > 1:
        yield np.asfortranarray(a)


def is_view(out, x, want):
    """Shares the memory that NumPy's view shares, with NumPy's strides, and writes go both ways."""
    np.testing.assert_array_equal(out.numpy(), want)
    assert out.shape == want.shape
    assert type(out.numpy()) is np.ndarray
    assert out.strides == tuple(s // want.itemsize for s in want.strides)
    if want.size:
        assert tp.shares_memory(out, x)
        assert out.storage().device == "cpu"
        assert x.numpy().base is None or np.shares_memory(out.numpy(), x.numpy())


VIEWS = [
    ("permute_dims", {"axes": (2, 0, 1)}, (2, 3, 4), lambda a: a.transpose(2, 0, 1)),
    ("permute_dims", {"axes": (-1, 0, 1)}, (2, 3, 4), lambda a: a.transpose(2, 0, 1)),
    ("permute_dims", {"axes": ()}, (), lambda a: a.transpose()),
    ("permute_dims", {"axes": [1, 0]}, (0, 3), lambda a: a.T),
    ("matrix_transpose", {}, (2, 3, 4), lambda a: a.swapaxes(-1, -2)),
    ("matrix_transpose", {}, (2, 0), lambda a: a.T),
    ("expand_dims", {"axis": 0}, (2, 3), lambda a: a[None]),
    ("expand_dims", {"axis": -1}, (2, 3), lambda a: a[..., None]),
    ("expand_dims", {"axis": (0, 2, -1)}, (2, 3), lambda a: a[None, :, None, :, None]),
    ("expand_dims", {"axis": 0}, (), lambda a: a[None]),
    ("squeeze", {"axis": 1}, (2, 1, 3), lambda a: a[:, 0]),
    ("squeeze", {"axis": (0, -1)}, (1, 2, 1), lambda a: a[0, :, 0]),
    ("squeeze", {"axis": (0, 1)}, (1, 1), lambda a: a[0, 0, ...]),
    ("squeeze", {"axis": ()}, (2, 1), lambda a: a[...]),
    ("broadcast_to", {"shape": (4, 2, 3)}, (2, 3), lambda a: np.broadcast_to(a, (4, 2, 3))),
    ("broadcast_to", {"shape": (2, 3)}, (2, 1), lambda a: np.broadcast_to(a, (2, 3))),
    ("broadcast_to", {"shape": (3, 0)}, (1,), lambda a: np.broadcast_to(a, (3, 0))),
    ("broadcast_to", {"shape": ()}, (), lambda a: np.broadcast_to(a, ())),
    ("flip", {"axis": None}, (2, 3), lambda a: a[::-1, ::-1]),
    ("flip", {"axis": 1}, (2, 3), lambda a: a[:, ::-1]),
    ("flip", {"axis": (0, -1)}, (2, 3, 2), lambda a: a[::-1, :, ::-1]),
    ("flip", {"axis": ()}, (2, 3), lambda a: a[...]),
    ("flip", {"axis": None}, (), lambda a: a[...]),
    ("flip", {"axis": 0}, (0, 2), lambda a: a[::-1]),
]


@pytest.mark.parametrize(("name", "meta", "shape", "oracle"), VIEWS)
def test_views(name, meta, shape, oracle):
    row = rows[name]
    for dtype in ("float32", "int8", "bool", "complex64"):
        for memory in memories(array(shape, dtype)):
            x = tp.asarray(memory)
            given = dict(meta)
            positional = [given.pop(p.name) for p in row.metas if p.kind != 2 and p.name in given]
            out = row.call(x, *positional, **given)
            is_view(out, x, oracle(memory))
            if out.size and not out.readonly:
                out[...] = 1
                np.testing.assert_array_equal(memory, np.ones_like(memory))


def test_reshape_has_three_states_of_copy():
    for memory in memories(array((3, 4))):
        for shape in [(12,), (4, 3), (2, -1), -1, (2, 2, 3), [1, 12], (3, 4), (3, 1, 4), np.int64(12)]:
            x = tp.asarray(memory)
            want = memory.reshape(shape)
            could = np.shares_memory(want, memory)
            for out in (tp.reshape(x, shape), x.reshape(shape)):
                np.testing.assert_array_equal(out.numpy(), want)
                assert tp.shares_memory(out, x) is could
                if could:
                    is_view(out, x, want)
            copied = tp.reshape(x, shape, copy=True)
            assert not tp.shares_memory(copied, x)
            assert not copied.readonly
            np.testing.assert_array_equal(copied.numpy(), want)
            if could:
                assert tp.shares_memory(tp.reshape(x, shape, copy=False), x)
            else:
                with pytest.raises(AliasError, match=r"reshape of shape \(3, 4\).*copy=False"):
                    tp.reshape(x, shape, copy=False)
    assert tp.ones((2, 3)).reshape(3, 2).shape == (3, 2)
    assert tp.ones(()).reshape(1, 1).shape == (1, 1)
    assert tp.zeros((0, 3)).reshape(-1, 3).shape == (0, 3)
    assert tp.reshape(tp.zeros((0, 3)), (5, 0), copy=False).shape == (5, 0)
    assert tp.reshape(tp.ones((1, 1)), (), copy=False).shape == ()


def test_reshape_refusals():
    x = tp.ones((2, 3))
    for shape, kind, words in [
        ((4,), ShapeError, r"\(4,\) has 4 elements, shape \(2, 3\) has 6"),
        ((-1, 4), ShapeError, r"\(-1, 4\).*6 elements of shape \(2, 3\)"),
        ((-1, -1), ShapeError, r"-1"),
        ((-2, 3), ShapeError, r"negative size -2"),
        ((1.5, -1), ArgumentError, "1.5"),
        ("6", ArgumentError, "'6'"),
        ((True, 6), ArgumentError, "True"),
        (6.0, ArgumentError, "6.0"),
    ]:
        with pytest.raises(kind, match=words):
            tp.reshape(x, shape)
    with pytest.raises(ShapeError, match="-1"):
        tp.reshape(tp.zeros((0, 3)), (0, -1))


def test_flatten():
    for memory in memories(array((2, 3, 4))):
        x = tp.asarray(memory)
        for start, stop, shape in [
            (0, -1, (24,)),
            (1, 2, (2, 12)),
            (0, 1, (6, 4)),
            (1, 1, (2, 3, 4)),
            (-2, -1, (2, 12)),
        ]:
            want = memory.reshape(shape)
            out = x.flatten(start, stop)
            np.testing.assert_array_equal(out.numpy(), want)
            assert tp.shares_memory(out, x) == np.shares_memory(want, memory)
    assert tp.flatten(tp.asarray(3.0)).tolist() == [3]
    with pytest.raises(ShapeError, match="start 2 lies behind stop 1"):
        tp.flatten(tp.ones((2, 3, 4)), 2, 1)


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_joining(name):
    call, oracle = rows[name].call, {"concat": np.concatenate, "stack": np.stack}[name]
    for shape in [(2, 3), (0, 3), (1,), (2, 1, 2)]:
        parts = [array(shape), array(shape)[::-1] + 1, np.asfortranarray(array(shape))]
        for axis in range(-len(shape), len(shape) + (name == "stack")):
            got = call([tp.asarray(p) for p in parts], axis=axis)
            np.testing.assert_array_equal(got.numpy(), oracle(parts, axis=axis))
            assert not any(tp.shares_memory(got, tp.asarray(p)) for p in parts)
    one = tp.ones((2, 2))
    assert not tp.shares_memory(call((one,), axis=0), one)
    mixed = call([tp.asarray([1, 2], dtype="int8"), tp.asarray([0.5, 1], dtype="bfloat16"), np.array([True, False])])
    assert mixed.dtype is tp.bfloat16
    assert mixed.flatten().tolist() == [1, 2, 0.5, 1, 1, 0]
    assert call([tp.asarray([1], dtype="uint8"), tp.asarray([1], dtype="int8")]).dtype is tp.int16
    x = tp.ones((2, 3))
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4, 4\)"):
        call([x, tp.ones((4, 4))])
    with pytest.raises(ArgumentError, match=r"at least one"):
        call([])
    with pytest.raises(ArgumentError, match=r"list or tuple of tensors"):
        call(x)
    with pytest.raises(ArgumentError, match="arrays must be a tensor, not the str 'a'"):
        call([x, "a"])
    with pytest.raises(ArgumentError, match=r"arrays must be a tensor, not the float 1\.5"):
        call([x, 1.5])
    with pytest.raises(ShapeError, match="axis 3 is out of range"):
        call([x, x], axis=3)


def test_concat_of_unequal_sizes():
    parts = [array((2, 3)), array((0, 3)), array((4, 3))]
    np.testing.assert_array_equal(tp.concat([tp.asarray(p) for p in parts]).numpy(), np.concatenate(parts))
    with pytest.raises(ShapeError, match="0-dimensional"):
        tp.concat([tp.asarray(1.0), tp.asarray(2.0)])
    np.testing.assert_array_equal(tp.stack([tp.asarray(1.0), tp.asarray(2.0)]).numpy(), [1, 2])


def test_refusals():
    x = tp.ones((2, 3))
    for call, kind, words in [
        (lambda: tp.permute_dims(x, (0, 0)), ShapeError, r"\(0, 0\) is no permutation of the 2 axes"),
        (lambda: tp.permute_dims(x, (0,)), ShapeError, r"\(0,\)"),
        (lambda: tp.permute_dims(x, 1), ArgumentError, "not 1"),
        (lambda: tp.squeeze(x, 0), ShapeError, r"axis 0 of shape \(2, 3\) has size 2"),
        (lambda: tp.expand_dims(x, axis=5), ShapeError, "axis 5"),
        (lambda: tp.expand_dims(x, axis=(0, 0)), ShapeError, "twice"),
        (lambda: tp.flip(x, axis=2), ShapeError, "axis 2"),
        (lambda: tp.broadcast_to(x, (3, 3)), ShapeError, r"\(2, 3\).*\(3, 3\)"),
        (lambda: tp.broadcast_to(x, (3,)), ShapeError, r"\(2, 3\).*\(3,\)"),
        (lambda: tp.broadcast_to(x, (-1, 3)), ShapeError, "-1"),
        (lambda: tp.matrix_transpose(tp.ones((3,))), ShapeError, r"\(3,\)"),
        (lambda: tp.ones((1, 2, 3)).T, ShapeError, r"\(1, 2, 3\)"),
    ]:
        with pytest.raises(kind, match=words):
            call()


def test_broadcast_results_are_read_only_and_their_views_too():
    x = tp.ones((1,))
    wide = tp.broadcast_to(x, (3,))
    assert wide.readonly
    assert wide.strides == (0,)
    assert wide[1:].readonly
    assert not x.readonly
    with pytest.raises(ReadOnlyError, match=r"\(3,\)"):
        wide *= 2
    assert not wide.copy().readonly
    x[0] = 5
    assert wide.tolist() == [5, 5, 5]


def test_strides_and_storage():
    x = tp.asarray(array((2, 3, 4)))
    assert x.strides == (12, 4, 1)
    assert x[:, ::-2, 1:].strides == (12, -8, 1)
    assert tp.asarray(1.0).strides == ()
    assert x.storage() == x.permute_dims((2, 0, 1)).storage()
    assert x.storage().nbytes == 96
    for view in (x[1:], x[:, ::-2, 1:], x[1:, :, 0].reshape((3,)), x.detach()[..., 2:]):
        assert view.storage() == x.storage()
        assert view.storage().nbytes == 96
    assert x.storage() != x.copy().storage()
    assert x.storage() == x.storage()
    assert not tp.shares_memory(x[0], x[1])
    assert not tp.shares_memory(x[..., ::2], x[..., 1::2])
    assert tp.shares_memory(x[..., ::2], x[..., ::3])
    with pytest.raises(LayoutError, match="storage is not applicable"):
        tp.ones((2,), device="meta").storage()


def test_copy_is_contiguous_writable_and_apart():
    for memory in [*memories(array((3, 4))), np.broadcast_to(array((1,)), (3,)), np.array(5.0)]:
        x = tp.asarray(memory)
        for out in (tp.copy(x), x.copy(), tp.positive(x) if memory.ndim else x.copy()):
            assert not tp.shares_memory(out, x)
            assert not out.readonly
            np.testing.assert_array_equal(out.numpy(), memory)
        assert x.copy().numpy().flags.c_contiguous


def test_astype_and_to_between_every_pair_of_dtypes():
    for a, b in itertools.product(EVERY, EVERY):
        x = tp.asarray([0.0, 1.0, 2.0]).astype(a)
        assert x.dtype.name == a
        if a.startswith("complex") and not b.startswith(("complex", "bool")):
            for call in (x.astype, lambda b, x=x: x.to(dtype=b)):
                with pytest.raises(DTypeError, match=rf"{a} to {b} drops the imaginary parts"):
                    call(b)
            continue
        want = [0, 1, 1] if "bool" in (a, b) else [0, 1, 2]
        for out in (tp.astype(x, b), x.to(dtype=b)):
            assert out.dtype.name == b
            assert out.tolist() == want
        assert not tp.shares_memory(tp.astype(x, b), x)
        assert (tp.astype(x, b, copy=False) is x) is (a == b)
        assert (x.to(dtype=b) is x) is (a == b)
        assert not tp.shares_memory(x.to(dtype=b, copy=True), x)
        if a != b:
            with pytest.raises(AliasError, match=rf"{a}.*{b} needs a copy"):
                x.to(dtype=b, copy=False)
        else:
            assert x.to(dtype=b, copy=False) is x
    assert tp.asarray([0.0, np.nan, -0.0]).astype(bool).tolist() == [False, True, False]
    assert tp.asarray([1.9, -1.9]).astype("int64").tolist() == [1, -1]
    assert tp.asarray([1e6]).astype("float16").tolist() == [np.inf]
    x = tp.asarray([1.0])
    assert x.to(tp.float64).dtype is tp.float64
    assert x.to(tp.ones((), dtype="int8")).dtype is tp.int8
    assert x.to("cpu") is x
    with pytest.raises(ArgumentError, match="not 3"):
        x.to(3)


def test_out_of_the_world_of_tensors():
    for dtype in EVERY:
        for shape in [(), (2,), (0, 3), (2, 0), (2, 2)]:
            a = np.ones(shape)
            x = tp.ones(shape, dtype=dtype)
            assert x.tolist() == a.tolist()
            assert np.asarray(x).dtype.name == dtype
            assert np.shares_memory(x.numpy(), x.numpy()) or not a.size
            assert f"dtype={dtype}" in repr(x)
        one = tp.ones((1, 1), dtype=dtype)
        assert one.item() == 1
        assert type(one.item()) is type(np.ones((), np.float64 if "float" in dtype else dtype).item())
        assert bool(one) is True
    assert isinstance(rows["to_text"].call(tp.ones((2000,))), str)
    assert len(repr(tp.ones((1000, 1000)))) < 1000
    with pytest.raises(ShapeError, match=r"\(2, 3\).*6 elements"):
        tp.ones((2, 3)).item()


def test_memory_is_shared_with_numpy_and_read_only_goes_both_ways():
    a = np.ones(3)
    x = tp.asarray(a)
    x += 1
    assert a.tolist() == [2, 2, 2]
    a[0] = 7
    assert x.tolist() == [7, 2, 2]
    assert np.shares_memory(x.numpy(), a)
    a.flags.writeable = False
    fixed = tp.asarray(a)
    assert fixed.readonly
    assert fixed[1:].readonly
    for act in (lambda: fixed.__imul__(2), lambda: fixed.__setitem__(0, 1), lambda: rows["negative_"].call(fixed)):
        with pytest.raises(ReadOnlyError, match=r"shape \(3?,?\)"):
            act()
    assert not fixed.numpy().flags.writeable
    assert not np.asarray(tp.broadcast_to(tp.ones((1,)), (2,))).flags.writeable
    assert not tp.asarray(a, copy=True).readonly
    with pytest.raises(AliasError, match="float32 to float64 needs a copy"):
        np.asarray(tp.ones((2,)), dtype=np.float64, copy=False)
    assert np.asarray(tp.ones((2,)), dtype=np.float64).dtype == np.float64
    y = tp.ones((2,))
    assert not np.shares_memory(np.array(y, copy=True), y.numpy())
    assert np.shares_memory(np.array(y, copy=False), y.numpy())
    with pytest.raises(TypeError):
        np.add(np.ones(2), y)
