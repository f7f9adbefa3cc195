"""Blocked images and plain ones are the same images: every way round, against NumPy."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tripoint as tp
import tripoint_blocked
from tripoint.errors import AliasError, DTypeError, LayoutError, ScalarRangeError, ShapeError
from tripoint.plugin import payload
from tripoint_blocked import Blocked, backend, physical

CHANNELS = [0, 1, 7, 8, 9, 16, 17]
SIZES = [4, 8, 16, 32]
SHAPES = [(2, 17, 3, 5), (1, 1, 1, 1), (1, 8, 1, 1), (0, 9, 3, 5), (2, 9, 0, 5), (2, 0, 3, 5), (3, 16, 1, 4)]


def images(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def oracle(x: Any, size: int) -> Any:
    """(N, ceil(C / size), H, W, size) element by element, zeros beyond C."""
    n, c, h, w = x.shape
    out = np.zeros((n, -(-c // size), h, w, size), x.dtype)
    for at in range(c):
        out[:, at // size, :, :, at % size] = x[:, at]
    return out


def same(x: tp.Tensor, expected: Any) -> None:
    got = x.to(layout="strided").numpy()
    assert got.dtype == expected.dtype
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("size", SIZES)
def test_round_trip_is_exact_and_the_buffer_is_what_it_says(channels: int, size: int) -> None:
    plain = images(2, channels, 3, 5)
    x = tp.asarray(plain).to(layout=tp.layouts.blocked(f"nChw{size}c"))
    assert (x.shape, x.dtype, str(x.device), str(x.layout)) == (plain.shape, tp.float32, "cpu", "blocked")
    assert (x.block, x.descriptor) == (size, f"nChw{size}c")
    buffer = physical(x)
    assert x.physical_shape == buffer.shape
    assert buffer.ndim == 5
    np.testing.assert_array_equal(buffer, oracle(plain, size))
    same(x, plain)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_floating_dtype_and_zero_sizes(shape: tuple[int, ...], dtype: str) -> None:
    plain = tp.asarray(images(*shape)).to(dtype=dtype)
    x = plain.to(layout="blocked")
    assert (x.shape, str(x.dtype), x.descriptor) == (shape, dtype, "nChw16c")
    same(x, plain.numpy())


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.transpose(0, 3, 1, 2),
        lambda a: a[::-1, ::2, :, ::-1],
        lambda a: np.broadcast_to(a[:1], a.shape),
        np.asfortranarray,
    ],
)
def test_any_strides(view: Any) -> None:
    plain = view(images(2, 17, 4, 9))
    for size in SIZES:
        x = tp.asarray(plain).to(layout=tp.layouts.blocked(f"nChw{size}c"))
        np.testing.assert_array_equal(physical(x), oracle(plain, size))
        same(x, np.ascontiguousarray(plain))


def test_special_values_pass_and_pad_lanes_stay_zero() -> None:
    plain = np.full((1, 9, 2, 2), np.nan, np.float32)
    plain[0, 0] = np.inf
    plain[0, 1] = -0.0
    x = tp.asarray(plain).to(layout=tp.layouts.blocked("nChw8c"))
    assert not physical(x)[:, 1, :, :, 1:].any()
    same(x, plain)
    assert np.signbit(x.to(layout="strided").numpy()[0, 1]).all()


@pytest.mark.parametrize(("first", "second"), list(itertools.product(SIZES, SIZES)))
def test_another_block_size_is_what_the_way_by_plain_gives(first: int, second: int) -> None:
    plain = images(2, 17, 3, 5)
    direct = (
        tp.asarray(plain).to(layout=tp.layouts.blocked(f"nChw{first}c")).to(layout=tp.layouts.blocked(f"nChw{second}c"))
    )
    assert direct.block == second
    np.testing.assert_array_equal(physical(direct), oracle(plain, second))


def test_the_name_alone_means_16_and_leaves_blocked_tensors_as_they_are() -> None:
    plain = tp.asarray(images(1, 9, 2, 2))
    assert plain.to(layout="blocked").descriptor == plain.to(layout=tp.layouts.blocked).descriptor == "nChw16c"
    x = plain.to(layout=tp.layouts.blocked("nChw8c"))
    assert x.to(layout="blocked") is x
    assert plain.to(x).layout is x.layout
    assert tp.asarray(plain.numpy(), layout=tp.layouts.blocked("nChw4c")).block == 4


def test_to_another_tensor_takes_its_blocks_too() -> None:
    plain = images(2, 9, 4, 4)
    x, other = tp.asarray(plain).to(layout="blocked"), tp.ones((1, 9, 1, 1)).to(layout=tp.layouts.blocked("nChw8c"))
    for y in (x.to(other), tp.asarray(plain).to(other)):
        assert y.block == 8
        same(y, plain)
    assert x.to(tp.zeros_like(x).to(layout="blocked")) is x
    assert other.to(other) is other
    assert (x.to(other, layout="blocked").block, x.to(other, layout=tp.layouts.blocked("nChw4c")).block) == (16, 4)
    wide = tp.ones((1, 1, 1, 1), dtype=tp.float64).to(other)
    assert (x.to(other.to(dtype=tp.float64)).block, x.to(other.to(dtype=tp.float64)).dtype, wide.dtype) == (
        8,
        tp.float64,
        tp.float32,
    )
    with pytest.raises(AliasError):
        x.to(other, copy=False)


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", [None, "nChw8c"])
def test_creation(dtype: str, name: str | None) -> None:
    layout = tp.layouts.blocked if name is None else tp.layouts.blocked(name)
    for made, value in (
        (tp.zeros((2, 9, 3, 1), layout=layout, dtype=dtype), 0),
        (tp.ones((2, 9, 3, 1), layout=layout, dtype=dtype), 1),
        (tp.full((2, 9, 3, 1), 2.5, layout=layout, dtype=dtype), 1 if dtype == "bool" else 2.5),
        (tp.empty((2, 9, 3, 1), layout=layout, dtype=dtype), None),
    ):
        assert (made.shape, str(made.dtype), made.descriptor) == ((2, 9, 3, 1), dtype, name or "nChw16c")
        assert not physical(made)[:, -1, :, :, 9 % made.block :].any()
        if value is not None:
            same(made.to(dtype=tp.float64), np.full((2, 9, 3, 1), value, np.float64))


def test_creation_like_another_has_its_blocks() -> None:
    x = tp.ones((2, 9, 3, 1), layout=tp.layouts.blocked("nChw8c"))
    for made in (tp.zeros_like(x), tp.ones_like(x), tp.empty_like(x), tp.full_like(x, 2.0)):
        assert (made.shape, made.descriptor) == (x.shape, "nChw8c")
    assert "full" in str(tp.explain(tp.full_like, x, 2.0))


def test_creation_refuses_what_a_conversion_refuses() -> None:
    for create in (tp.zeros, tp.ones, tp.empty, lambda shape, **how: tp.full(shape, 1.0, **how)):
        with pytest.raises(ShapeError, match=r"\(2, 3\)"):
            create((2, 3), layout="blocked")
        with pytest.raises(DTypeError, match="int32"):
            create((1, 2, 3, 4), layout="blocked", dtype="int32")
        with pytest.raises(LayoutError, match="nChw16c"):
            create((1, 2, 3, 4), layout=tp.layouts.blocked("nChw5c"))
        assert create((0, 9, 0, 4), layout="blocked").shape == (0, 9, 0, 4)
    with pytest.raises(ScalarRangeError, match="float16"):
        tp.full((1, 2, 3, 4), 10**400, layout="blocked", dtype="float16")
    with np.errstate(all="raise"):
        same(tp.full((1, 1, 1, 1), 1e30, layout="blocked", dtype="float16"), np.full((1, 1, 1, 1), np.inf, np.float16))


@pytest.mark.parametrize("shape", SHAPES)
def test_copies_and_pickles_keep_values_and_blocks(shape: tuple[int, ...]) -> None:
    plain = images(*shape)
    x = tp.asarray(plain).to(layout=tp.layouts.blocked("nChw8c")).requires_grad_()
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.block, y.requires_grad) == (8, True)
        same(y.detach(), plain)
    y = copy.deepcopy(x)
    assert not tp.shares_memory(x, y)
    assert y.block == copy.copy(x).block == 8
    same(y.detach(), plain)


def test_another_dtype_keeps_the_block_size() -> None:
    plain = images(1, 9, 2, 2, dtype=np.float64) * 1e6
    x = tp.asarray(plain).to(layout=tp.layouts.blocked("nChw8c"))
    for dtype in (tp.float32, tp.float16):
        y = x.to(dtype=dtype)
        assert (y.dtype, y.block) == (dtype, 8)
        with np.errstate(over="ignore"):
            same(y, plain.astype(str(dtype)))
    y = x.to(dtype=tp.float32, layout=tp.layouts.blocked("nChw4c"))
    assert (y.dtype, y.block) == (tp.float32, 4)
    same(y, plain.astype(np.float32))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (1, 2, 3, 4, 5)])
def test_other_ranks_are_refused_with_their_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        tp.zeros(shape).to(layout="blocked")
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "complex64"])
def test_other_dtypes_are_refused_by_name(dtype: str) -> None:
    plain = tp.zeros((1, 2, 3, 4), dtype=dtype)
    with pytest.raises(DTypeError, match=dtype):
        plain.to(layout="blocked")
    with pytest.raises(DTypeError, match=dtype):
        tp.zeros((1, 2, 3, 4)).to(layout="blocked").to(dtype=dtype)


@pytest.mark.parametrize(
    "args", [("nchw",), ("nChw0c",), ("nChw3c",), ("nChw16C",), ("nChw160c",), (8,), (), ("a", "b")]
)
def test_wrong_descriptors_are_refused(args: tuple[Any, ...]) -> None:
    with pytest.raises(LayoutError, match="nChw16c"):
        tp.zeros((1, 2, 3, 4)).to(layout=tp.layouts.blocked(*args))


@pytest.mark.parametrize("size", SIZES)
def test_gradient_of_the_round_trip_is_the_identity(size: int) -> None:
    x = tp.asarray(images(2, 9, 3, 5)).requires_grad_()
    weight = images(2, 9, 3, 5)
    y = x.to(layout=tp.layouts.blocked(f"nChw{size}c")).to(layout="strided")
    (y * tp.asarray(weight)).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), weight)


@pytest.mark.parametrize("size", SIZES)
def test_gradient_of_a_blocked_leaf_has_its_blocks(size: int) -> None:
    x = tp.asarray(images(2, 9, 3, 5)).to(layout=tp.layouts.blocked(f"nChw{size}c")).requires_grad_()
    weight = images(2, 9, 3, 5)
    for times in (1, 2):  # the second gradient is added to the first
        (x.to(layout="strided") * tp.asarray(weight)).sum().backward()
        assert x.grad is not None
        assert (str(x.grad.layout), x.grad.block) == ("blocked", size)
        same(x.grad, times * weight)


def test_a_gradient_that_is_passed_in_may_have_another_layout() -> None:
    x = tp.asarray(images(2, 9, 3, 5)).requires_grad_()
    weight = images(2, 9, 3, 5)
    for layout in (tp.layouts.strided, tp.layouts.blocked("nChw4c"), tp.layouts.blocked("nChw8c")):
        x.grad = None
        x.to(layout=tp.layouts.blocked("nChw8c")).backward(tp.asarray(weight).to(layout=layout))
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), weight)


def test_conversions_share_no_memory() -> None:
    # Where axes have size 1 a reordered buffer could be a view, and writing would reach the frozen payload.
    for shape in ((1, 16, 1, 1), (1, 16, 3, 1), (4, 16, 1, 1)):
        plain = tp.asarray(images(*shape), copy=True)
        x = plain.to(layout="blocked")
        before = physical(x).copy()
        y = x.to(layout="strided")
        y += 1
        plain += 1
        np.testing.assert_array_equal(physical(x), before)


def test_copies_and_the_buffer_of_a_frozen_payload() -> None:
    x = tp.asarray(images(1, 9, 2, 2)).to(layout=tp.layouts.blocked("nChw8c"))
    for y in (x.copy(), x.to(layout="blocked", copy=True)):
        assert y.block == 8
        assert not tp.shares_memory(x, y)
        np.testing.assert_array_equal(physical(y), physical(x))
    buffer = physical(x)
    assert np.shares_memory(buffer, physical(x))
    with pytest.raises(ValueError, match="read-only"):
        buffer[0] = 1
    with pytest.raises(AliasError):
        x.to(layout="strided", copy=False)
    with pytest.raises(AttributeError):
        payload(x).block = 4


def test_what_needs_strides_says_that_there_are_none() -> None:
    x = tp.zeros((1, 9, 2, 2)).to(layout="blocked")
    with pytest.raises(LayoutError, match="blocked"):
        x.strides
    assert x.storage().nbytes == 1 * 1 * 2 * 2 * 16 * 4
    with pytest.raises(LayoutError, match="strided"):
        physical(tp.zeros((1, 2, 3, 4)))


def test_what_comparisons_give_can_be_converted_both_ways() -> None:
    plain = images(1, 9, 2, 2) > 0
    x = tp.asarray(plain).to(layout=tp.layouts.blocked("nChw8c"))
    assert x.dtype is tp.bool
    same(x, plain)
    same(x.to(dtype=tp.float32), plain.astype(np.float32))


def test_elements_and_printing() -> None:
    plain = images(1, 2, 1, 3)
    x = tp.asarray(plain).to(layout=tp.layouts.blocked("nChw8c"))
    assert x.tolist() == plain.tolist()
    whole = tp.asarray(np.arange(6, dtype=np.float32).reshape(1, 2, 1, 3)).to(layout=tp.layouts.blocked("nChw8c"))
    assert "".join(repr(whole).split()) == "tensor([[[[0.,1.,2.]],[[3.,4.,5.]]]],dtype=float32,layout=blocked,nChw8c)"
    large = tp.zeros((1, 11, 10, 10), layout=tp.layouts.blocked("nChw8c"))
    assert repr(large) == "tensor(shape=(1, 11, 10, 10), dtype=float32, layout=blocked, nChw8c)"


def test_the_hooks_of_the_layout() -> None:
    plain = images(2, 17, 3, 5)
    like = payload(tp.asarray(plain).to(layout=tp.layouts.blocked("nChw8c")))
    made = backend._hooks["from_strided"](plain, like=like)
    assert isinstance(made, Blocked)
    assert made.block == 8
    np.testing.assert_array_equal(backend._hooks["to_strided"](made), plain)


def test_the_name_comes_from_metadata() -> None:
    program = (
        "import sys, tripoint as tp\n"
        "x = tp.zeros((1, 2, 3, 4)) + 1\n"
        "if 'tripoint_blocked' in sys.modules: raise SystemExit('loaded too early')\n"
        "print(x.to(layout=tp.layouts.blocked('nChw8c')).physical_shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "(1, 1, 3, 4, 8)\n"), done.stderr
    assert tp.layouts.blocked is tripoint_blocked.blocked
    with pytest.raises(AttributeError, match=r"tripoint\.layouts\.blocked"):
        tp.blocked
    with pytest.raises(AttributeError, match=r"known layouts: .*blocked"):
        tp.layouts.blokced
