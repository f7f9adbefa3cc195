"""Faults that users met, each as the smallest case of its kind."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tripoint as tp
from tripoint.errors import (
    AliasError,
    ArgumentError,
    AutogradError,
    DTypeError,
    NoKernelError,
    PluginError,
    ReadOnlyError,
    RegistrationError,
    ScalarRangeError,
    ShapeError,
    SizeError,
    TensorAttributeError,
    TripointError,
)
from tripoint.plugin import Backend, Layout, strided


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_mean_of_half_precision_needs_neither_sum_nor_count_to_fit(dtype):
    assert tp.full((300, 300), 0.25, dtype=dtype).mean().item() == 0.25
    assert tp.full((128,), 1024.0, dtype=dtype).mean().item() == 1024
    x = tp.ones((70_000,), dtype=dtype).requires_grad_()
    out = x.mean()
    assert (out.item(), out.dtype) == (1, x.dtype)
    out.backward()
    assert x.grad.dtype is x.dtype
    np.testing.assert_allclose(float(x.grad[0]), 1 / 70_000, rtol=1e-2)


def test_a_copied_tensor_has_memory_of_its_own():
    x = tp.asarray([1.0, 2.0]).requires_grad_()
    z = x * x
    w = copy.copy(x)
    assert w.requires_grad
    assert not tp.shares_memory(w, x)
    with tp.no_grad():
        w *= 10
    z.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_pickles_keep_that_gradients_are_wanted_and_refuse_a_history():
    x = tp.asarray([1.0, 2.0]).requires_grad_()
    for other in (copy.deepcopy({"w": x})["w"], pickle.loads(pickle.dumps(x))):
        assert other.requires_grad
        assert other.is_leaf
        assert other.tolist() == [1, 2]
    assert not pickle.loads(pickle.dumps(x.detach())).requires_grad
    with pytest.raises(AutogradError, match=r"detach\(\) it"):
        copy.deepcopy(x * 2)


def test_recorded_numbers_in_lists_stay_recorded():
    x = tp.asarray(3.0).requires_grad_()
    y = tp.asarray([[x, x * 2], [1.0, x]])
    assert y.tolist() == [[3, 6], [1, 3]]
    y.sum().backward()
    assert x.grad.item() == 4
    with pytest.raises(AutogradError, match="broadcast_to"):
        tp.full((2,), x)


def test_what_becomes_an_integer_is_not_recorded():
    x = tp.asarray([1.5, 2.5]).requires_grad_()
    y = tp.zeros((2,), dtype="int64")
    y[:] = x
    assert y.tolist() == [1, 2]
    assert not y.requires_grad


def test_zero_to_a_recorded_power_has_the_gradient_zero():
    x = tp.asarray([1.0, 2.0]).requires_grad_()
    (0.0**x).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_a_quotient_may_be_changed_in_place():
    x = tp.asarray([1.0, 2.0], dtype="float64").requires_grad_()
    y = 1 / (x * x + 1)
    y -= 1.25
    y.sum().backward()
    v = np.array([1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), -2 * v / (v * v + 1) ** 2)


def test_shares_memory_takes_tensors():
    x = tp.asarray([1.0])
    for other in (x.numpy(), 3):
        with pytest.raises(ArgumentError, match="shares_memory takes two tensors"):
            tp.shares_memory(x, other)


def test_long_sums_over_leading_axes_do_not_stop_at_two_to_the_24():
    x = tp.broadcast_to(tp.ones((1, 1, 2)), (2**24 + 64, 1, 2))
    assert x.sum(axis=0).tolist() == [[2**24 + 64] * 2]
    assert x.sum(axis=(0, 1), keepdims=True).tolist() == [[[2**24 + 64] * 2]]
    rng = np.random.default_rng(0)
    a = rng.normal(size=(9000, 3, 2))
    for axis in (0, (0, 1)):
        np.testing.assert_allclose(tp.asarray(a).sum(axis=axis).numpy(), a.sum(axis=axis), rtol=1e-12)


LONG = 2**24 + 64


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_long_sums_do_not_stop_at_two_to_the_24_in_any_memory_order(dtype):
    x = tp.broadcast_to(tp.ones((1, 2), dtype=dtype), (LONG, 2))
    assert x.T.sum(axis=1).tolist() == [LONG] * 2
    assert tp.expand_dims(x, 0).sum(axis=(0, 1)).tolist() == [LONG] * 2
    assert x.reshape((2, LONG // 2, 2)).sum(axis=(0, 1)).tolist() == [LONG] * 2
    assert x.sum().item() == 2 * LONG
    assert x.mean(axis=0).tolist() == [1, 1]


def test_long_sums_that_are_converted_do_not_stop():
    x = tp.broadcast_to(tp.ones((1, 2)), (LONG, 2))
    for dtype in ("float16", "bfloat16", "float64", "int8", "bool"):
        assert x.astype(dtype).sum(axis=0, dtype="float32").tolist() == [LONG] * 2
        assert x.astype(dtype).mean(axis=0).tolist() == [1, 1]
    assert x.astype("bfloat16").sum(axis=0).tolist() == [2.0**24] * 2  # the nearest that there is
    assert (x.astype("bfloat16") + x.astype("bfloat16")).sum(axis=0).tolist() == [2.0**25] * 2


def test_long_softmaxes_and_products_do_not_stop():
    x = tp.broadcast_to(tp.zeros((1, 2)), (LONG, 2))
    assert tp.nn.log_softmax(x, axis=0)[0].tolist() == pytest.approx([-np.log(LONG)] * 2, rel=1e-6)
    assert tp.softmax(x, axis=0)[0].tolist() == pytest.approx([1 / LONG] * 2, rel=1e-6)
    ones = tp.broadcast_to(tp.ones(()), (LONG,))
    assert (ones @ ones).item() == LONG
    assert (tp.broadcast_to(ones, (1, 1, LONG)) @ tp.broadcast_to(tp.expand_dims(ones, 1), (1, LONG, 2))).tolist() == [
        [[LONG, LONG]]
    ]


def test_the_mean_of_large_integers_is_theirs():
    for dtype, most in (("int64", 2**63 - 1), ("uint64", 2**64 - 1)):
        x = tp.asarray([most, most, most, 0], dtype=dtype)
        assert x.mean().item() == pytest.approx(most * 0.75, rel=1e-7)
        assert x.reshape((2, 2)).mean(axis=0).tolist() == pytest.approx([float(most), most * 0.5], rel=1e-7)
    assert tp.asarray([-(2**63), -(2**63)]).mean().item() == -(2.0**63)
    assert tp.arange(10**6 + 1).mean().item() == 500000.0
    assert tp.arange(10**6 + 1, dtype="int32").mean().item() == 500000.0


def test_means_of_integers_in_a_default_of_half_precision():
    before = tp.get_default_dtype()
    tp.set_default_dtype("float16")
    try:
        assert tp.full((1000,), 300).mean().item() == 300.0  # the sum is no float16
        assert tp.full((1000,), 300).mean().dtype is tp.float16
    finally:
        tp.set_default_dtype(before)


def test_a_name_compares_as_what_it_names():
    x = tp.ones((2,))
    assert x.dtype == "float32"
    assert x.device == "cpu"
    assert x.layout == "strided"
    assert x.dtype != "float64"
    assert x.device != "meta"
    assert x.layout != "blocked"
    assert x.dtype != tp.float64
    assert x.dtype == tp.float32
    assert {tp.float32: 1}["float32"] == 1
    assert {x.device: 1}["cpu"] == 1
    assert {x.layout: 1}["strided"] == 1


def test_a_read_only_tensor_refuses_its_own_elements_too():
    a = np.ones(3)
    a.flags.writeable = False
    x = tp.asarray(a)
    with pytest.raises(ReadOnlyError):
        x[:] = x
    w = tp.asarray([1.0, 2.0]).requires_grad_()
    p = w * 1
    e = tp.broadcast_to(p, (2, 2))
    with pytest.raises(ReadOnlyError):
        e[0] = p
    p.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_a_gradient_is_set_in_its_own_dtype_and_place():
    x = tp.ones((2,)).requires_grad_()
    for wrong in (tp.ones((2,), dtype="int8"), tp.ones((2,), device="meta")):
        with pytest.raises(AutogradError, match="a gradient of this tensor is"):
            x.grad = wrong
    assert x.grad is None


def test_gradients_and_grad_say_what_they_take():
    x = tp.ones((2,)).requires_grad_()
    assert tp.gradients((x * 3).sum(), x).tolist() == [3, 3]
    for call in (
        lambda: tp.gradients(x.sum(), [3]),
        lambda: tp.gradients(3, [x]),
        lambda: tp.grad(lambda a: 3.0)(x),
        lambda: tp.grad(lambda a: a.sum(), argnums=1)(x),
        lambda: tp.grad(lambda a: a.sum(), argnums="x"),
    ):
        with pytest.raises(ArgumentError):
            call()


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_extremes_of_nothing_are_refused_as_numpy_does(name, device):
    for shape, axis in (((0, 0), 0), ((0, 3), 0), ((2, 0), 1), ((0,), None)):
        with pytest.raises(ValueError, match=r"zero-size|empty sequence"):
            getattr(np, name)(np.zeros(shape), axis=axis)
        for keepdims in (False, True):
            with pytest.raises(ShapeError, match="of nothing"):
                getattr(tp, name)(tp.zeros(shape, device=device), axis=axis, keepdims=keepdims)
    assert getattr(tp, name)(tp.zeros((2, 0), device=device), axis=0).shape == (0,)


def test_numbers_that_are_no_int_or_no_float_are_named():
    for number, to, kind in (
        (1 + 2j, int, DTypeError),
        (1 + 2j, float, DTypeError),
        (float("nan"), int, DTypeError),
        (float("-inf"), int, ScalarRangeError),
    ):
        with pytest.raises(kind, match=to.__name__):
            to(tp.asarray(number))
    assert int(tp.asarray([-2.75])) == -2
    assert int(tp.asarray(2**63 - 1)) == 2**63 - 1
    assert np.isnan(float(tp.asarray(float("nan"))))
    assert complex(tp.asarray(1 + 2j)) == 1 + 2j


def test_formats_and_membership():
    x = tp.asarray(1.23456)
    assert f"{x:.3f}" == "1.235"
    assert f"{x}" == str(x)
    with pytest.raises(ShapeError):
        f"{tp.ones((2,)):.3f}"
    assert 2.0 in tp.asarray([[1.0, 2.0]])
    assert 3.0 not in tp.asarray([[1.0, 2.0]])


def test_a_plugin_is_named_by_a_string():
    for call in (tp.plugins.block, tp.plugins.prefer, tp.plugins.unblock):
        with pytest.raises(PluginError, match="named by a string"):
            call(3)


def test_a_second_derivative_of_a_built_in_is_refused_at_once():
    from tripoint.plugin import derivative

    with pytest.raises(RegistrationError, match="has a derivative on these patterns already"):
        derivative("exp", x=lambda g: g)
    x = tp.ones((2,)).requires_grad_()
    tp.exp(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.e, rtol=1e-6)


def test_names_that_live_elsewhere_are_pointed_at():
    with pytest.raises(TensorAttributeError, match=r"it is tripoint\.nn\.conv2d"):
        tp.conv2d
    with pytest.raises(NoKernelError, match="make x strided, then convert"):
        tp.ones((2, 3), layout="sparse_coo")


def test_the_package_runs_as_a_command():
    done = subprocess.run([sys.executable, "-m", "tripoint", "plugins"], capture_output=True, text=True, check=True)
    assert "meta.strided" in done.stdout


@pytest.mark.parametrize("shape", [(2**40, 2**40, 0), (1,) * 65])
def test_shapes_that_the_library_does_not_take_are_our_error(shape):
    with pytest.raises(SizeError, match="zeros: "):
        tp.zeros(shape)


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("device must be a Device or str, not 3", lambda: Backend(3, strided, payload=list)),
        ("a device type is a name", lambda: Backend("x y", strided, payload=list)),
        ("layout must be a Layout, not 'strided'", lambda: Backend("x", "strided", payload=list)),
        ("payload must be a type, not 3", lambda: Backend("x", strided, payload=3)),
        ("dtype must be a DType, not 'qint8'", lambda: Backend("x", strided, "qint8", payload=list)),
        ("a layout is named by letters", lambda: Layout("")),
    ],
)
def test_a_backend_says_what_it_is_made_of(words, make):
    with pytest.raises(TripointError, match=words):
        make()


def test_a_view_is_not_made_by_way_of_a_conversion() -> None:
    image = tp.ones((2, 9, 4, 4)).to(layout="blocked")
    with pytest.raises(AliasError, match=r"reshape of a tensor on cpu.blocked.float32 converts it first"):
        tp.reshape(image, (2, 144), copy=False)
    assert image.reshape((2, 144)).layout == "strided"


@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "blocked"])
def test_in_place_forms_keep_the_dtype_whatever_the_layout(layout: str) -> None:
    x = tp.ones((1, 2, 2, 1)).to(layout=layout)
    x += x.to(dtype="float64")
    assert (x.dtype, x.layout) == ("float32", layout)
    assert x.to(layout="strided").tolist() == [[[[2], [2]], [[2], [2]]]]
    with pytest.raises(DTypeError, match="would change the dtype of x1 from float32 to complex128"):
        x += x.to(layout="strided").to(dtype="complex128")


def test_like_keeps_the_layout_and_makes_nothing_dense_in_passing() -> None:
    wide = tp.sparse.coo([[0], [1]], [1.0], (100_000, 100_000))
    assert (tp.zeros_like(wide).layout, tp.zeros_like(wide).nnz) == ("sparse_coo", 0)
    assert (tp.empty_like(wide).layout, tp.empty_like(wide).nnz) == ("sparse_coo", 0)
    for fn in (tp.ones_like, lambda x: tp.full_like(x, 2.0)):
        with pytest.raises(NoKernelError, match=r"sparse_coo"):
            fn(wide)


def test_an_error_in_backward_names_the_operator_whose_derivative_raised() -> None:
    x = tp.asarray([[0.0, 1.0]]).to(layout="sparse_coo").requires_grad_()
    with pytest.raises(TripointError) as caught:
        tp.max(x).backward()
    assert "raised by the derivative of max" in caught.value.__notes__
