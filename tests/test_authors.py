"""What plugin authors are given: the authoring API, the generated package, the smallest backend, one small package a kind."""

from __future__ import annotations

import ast
import json
import math
import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint import errors, plugins
from tripoint.plugin import (
    Backend,
    Device,
    DType,
    Layout,
    Operand,
    Pattern,
    Tensor,
    check,
    composite,
    derivative,
    dtypes_in,
    floating,
    integral,
    kernel,
    kernel_signature,
    key,
    minimal,
    nested,
    primitive,
    real,
    register,
    row_of,
    rules,
    strided,
    unnested,
    wrap,
)
from tripoint.scaffold import new_backend
from tripoint.schema import rows

pytestmark = pytest.mark.interpreters

ROOT = Path(__file__).resolve().parents[1]
MINI = ROOT / "examples" / "backend_minimal"
PACKAGES = ROOT / "examples" / "packages"
KINDS = ["allocator", "compiled", "dtype", "layer", "layout", "operator", "wrapper"]


@pytest.fixture(autouse=True)
def _registry_kept() -> Iterator[None]:
    """What a test registers or declares in this process, in the namespace ``yard``, is taken back."""
    yield
    plugins.unregister(None)
    for name in [n for n in rows if n.startswith("yard::")]:
        del rows[name]
    plugins.changed()


def build(wheels: Path, *folders: Path) -> None:
    """A wheel of each folder, built as pip builds them, without its isolation, which would need an index."""
    program = "import os, sys\nfrom hatchling.build import build_wheel\n"
    program += "for at in sys.argv[2:]: os.chdir(at); build_wheel(sys.argv[1])"
    wheels.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", program, str(wheels), *map(str, folders)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def unpack(wheels: Path, site: Path) -> Path:
    """What installing pure wheels comes to: their files, metadata included, in a folder on the path."""
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site


def run(program: str, site: Path, *flags: str) -> str:
    """The output of a program that finds the distributions in ``site`` beside those of this environment."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRIPOINT_")}
    env["PYTHONPATH"] = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    command = [sys.executable, "-W", "error", *flags, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=site, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def said(program: str, site: Path) -> list[Any]:
    """What a program printed, one Python literal a line."""
    return [ast.literal_eval(line) for line in run(program, site).splitlines()]


# check -----------------------------------------------------------------------------------------------------------------

_X = np.zeros((2, 3), np.float32)
_Y = np.zeros((2, 4), np.int64)
_refused: list[tuple[Callable[[], None], type[Exception], type[Exception], str]] = [
    (lambda: check.shape("lin", (2, None, 1), weight=_X), errors.ShapeError, ValueError, "weight has shape (2, 3)"),
    (lambda: check.shape("lin", (None, 4), x=_X), errors.ShapeError, ValueError, "it must be (any, 4)"),
    (lambda: check.ndim("lin", 3, x=_X), errors.ShapeError, ValueError, "2 axes; it must have 3"),
    (lambda: check.ndim("lin", 3, 4, x=_X), errors.ShapeError, ValueError, "must have 3 to 4"),
    (lambda: check.dtype("lin", integral, x=_X), errors.DTypeError, TypeError, "x is float32; it must be integral"),
    (lambda: check.dtype("lin", (tp.int8, tp.bool), x=_X), errors.DTypeError, TypeError, "int8 or bool"),
    (lambda: check.same_shape("lin", a=_X, b=_Y), errors.ShapeError, ValueError, "a: (2, 3), b: (2, 4)"),
    (lambda: check.same_dtype("lin", a=_X, b=_Y), errors.DTypeError, TypeError, "a: float32, b: int64"),
    (lambda: check.kind("lin", str, mode=3), errors.ArgumentError, TypeError, "mode must be of the type str"),
    (lambda: check.integer("lin", axis=1.0), errors.ArgumentError, TypeError, "axis must be an int, not the float 1.0"),
    (lambda: check.integer("lin", axis=True), errors.ArgumentError, TypeError, "not the bool True"),
    (
        lambda: check.integer("lin", 0, groups=-1),
        errors.ScalarRangeError,
        OverflowError,
        "groups is -1; it must be at least 0",
    ),
    (lambda: check.integer("lin", 1, 4, n=5), errors.ScalarRangeError, OverflowError, "at least 1 and at most 4"),
    (lambda: check.number("lin", eps=math.nan), errors.ArgumentError, TypeError, "eps must be a finite number"),
    (lambda: check.number("lin", eps="1"), errors.ArgumentError, TypeError, "not the str '1'"),
    (
        lambda: check.number("lin", None, 1.0, p=2),
        errors.ScalarRangeError,
        OverflowError,
        "p is 2; it must be at most 1.0",
    ),
    (
        lambda: check.exponent("lin", a=0, p=-2),
        errors.ArgumentError,
        TypeError,
        "p is -2, and an integer to a negative",
    ),
    (lambda: check.choice("lin", ("sum", "mean"), reduction="max"), errors.ArgumentError, TypeError, "'sum', 'mean'"),
]


@pytest.mark.parametrize(("refuse", "ours", "builtin", "words"), _refused)
def test_a_check_names_operator_argument_and_rule(refuse: Any, ours: Any, builtin: Any, words: str) -> None:
    with pytest.raises(ours) as caught:
        refuse()
    assert isinstance(caught.value, builtin)
    assert str(caught.value).startswith("lin: ")
    assert words in str(caught.value)


def test_checks_of_tensors_name_the_operator_by_its_function() -> None:
    x, y = tp.ones((2,)), tp.ones((2,), device="meta")
    with pytest.raises(errors.DeviceError, match=r"^exp: the devices .* \(a: cpu, b: meta\); move them"):
        check.same_device(tp.exp, a=x, b=y)
    with pytest.raises(errors.DeviceError, match="exp: b is on meta; it must be on cpu"):
        check.device(tp.exp, "cpu", a=x, b=y)
    with pytest.raises(errors.LayoutError, match=r"exp: s has the layout sparse_coo.*layout='strided'"):
        check.layout(tp.exp, strided, s=x.to(layout="sparse_coo"))
    with pytest.raises(errors.LayoutError, match="layouts of the arguments"):
        check.same_layout(tp.exp, x=x, s=x.to(layout="sparse_coo"))
    with pytest.raises(errors.ReadOnlyError, match=r"exp: v is read-only; write to a copy, v.copy\(\)"):
        check.writable(tp.exp, v=tp.broadcast_to(x, (3, 2)))


def test_checks_pass_what_is_right_and_what_is_absent() -> None:
    check.shape("lin", (2, None), weight=_X, bias=None)
    check.ndim("lin", 1, 2, x=_X)
    check.dtype("lin", floating, x=_X, out=tp.float64, bias=None)
    check.same_dtype("lin")
    check.same_shape("lin", a=_X, b=None)
    check.integer("lin", -(10**400), operator=np.int64(3), least=0)  # an argument may have any name
    check.number("lin", 0, 1, p=0.5, n=10**400 // 10**400)
    check.choice("lin", [1, 2], n=2)


# The rest of the authoring API -----------------------------------------------------------------------------------------


def test_the_minimal_operators_are_about_thirty_and_are_what_gradients_need() -> None:
    needed = {"full", "ones", "add", "sum", "reshape", "broadcast_to", "astype", "copy", "assign_"}
    assert needed <= set(minimal())
    assert 28 <= len(minimal()) <= 34


def test_what_must_be_refused_is_documented_by_its_error() -> None:
    from tripoint.conformance.records import RECORDS

    asked = 0
    for name, row in rows.items():
        record = RECORDS.get(name)
        for bad in record.errors() if record is not None else ():
            if row.minimal or bad.by_value:  # only a kernel sees values
                assert bad.error in (row.body.__doc__ or "").partition("Raises:")[2], f"{name}: {bad.error}"
                asked += 1
    assert asked > 40
    assert [name for name in minimal() if "Raises:" not in (rows[name].body.__doc__ or "")] == []


def test_the_module_prints_them_as_kernels_are_called(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tripoint.plugin"], capture_output=True, text=True, timeout=60)
    lines = {line.strip() for line in done.stdout.splitlines()}
    assert done.returncode == 0
    assert {kernel_signature(name) for name in minimal()} <= lines
    assert {
        "sum(x, *, axis, keepdims)",
        "full(*, shape, fill_value, target)",
        "concat([arrays, ...], *, axis)",
    } <= lines
    head = " ".join(done.stdout.partition("\n\n")[0].split())
    assert "not broadcast" in head
    assert "unless the kernel names `target`, the key of the result: then they come uncast" in head


def test_a_kernel_as_its_signature_says_is_accepted_and_one_without_the_metadata_is_not() -> None:
    backend = Backend(Device("shed"), strided, payload=np.ndarray)
    backend.kernel("sum")(lambda x, *, axis, keepdims: x)
    register(backend)
    other = Backend(Device("barn"), strided, payload=np.ndarray)
    other.kernel("sum")(lambda x, *, axis: x)
    with pytest.raises(errors.RegistrationError, match="keepdims"):
        register(other)
    with pytest.raises(errors.RegistrationError, match="no operator 'summ'"):
        kernel_signature("summ")


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (0, 2), (2, 3, 4)])
def test_nested_lists_there_and_back_as_numpy_has_them(shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape)
    values = array.ravel().tolist()
    assert nested(values, shape) == array.tolist()
    assert unnested(array)[0] == values
    if 0 not in shape:
        assert unnested(array.tolist()) == (values, shape)
    assert unnested([[], []]) == ([], (2, 0))


def test_dtypes_in_classes() -> None:
    assert [d.name for d in dtypes_in(floating)] == ["float16", "bfloat16", "float32", "float64"]
    assert tp.int8 in dtypes_in(real)
    assert tp.bool not in dtypes_in(real)


def _arrays(device: str) -> Backend:
    backend = Backend(
        Device(device),
        strided,
        payload=np.ndarray,
        describe=lambda p: {"dtype": getattr(tp, p.dtype.name)},
        coerce=np.asarray,
        frozen=True,
    )
    backend.kernels(
        from_data=lambda *, data, copy, target: np.array(data, target.dtype.name),
        full=lambda *, shape, fill_value, target: np.full(shape, fill_value, target.dtype.name),
        to_list=lambda x: x.tolist(),
    )
    return backend


def test_kernels_by_dtype_the_narrowest_entry_wins() -> None:
    seen = []

    def named(name: str) -> Any:
        def add(x1: Any, x2: Any) -> Any:
            seen.append(name)
            return np.add(x1, x2)

        return add

    backend = _arrays("shed")
    backend.kernels_by_dtype(
        add={floating: named("floating"), tp.float32: named("float32"), integral: named("integral")}
    )
    backend.kernels_by_dtype(exp={d: np.exp for d in dtypes_in(floating) if d.bits >= 32})
    register(backend)

    def of(dtype: str) -> Tensor:
        return tp.asarray([1, 2], dtype=dtype, device="shed")

    for dtype in ("float32", "float64", "int8", "int64"):
        assert (of(dtype) + of(dtype)).tolist() == [2, 4]
    assert seen == ["float32", "floating", "integral", "integral"]
    with pytest.raises(errors.NoKernelError, match=r"the dtype of x1 is bool, not"):
        of("bool") + of("bool")
    assert tp.exp(of("float64")).tolist() == np.exp([1.0, 2.0]).tolist()
    with pytest.raises(errors.NoKernelError, match="float16"):
        tp.exp(of("float16"))


def test_kernels_by_dtype_says_what_it_takes() -> None:
    backend = _arrays("shed")
    with pytest.raises(errors.RegistrationError, match=r"kernels_by_dtype\(add=\.\.\.\): 'float32' is no dtype"):
        backend.kernels_by_dtype(add={"float32": np.add})  # type: ignore[dict-item]
    opaque = Backend("cpu", strided, DType("odd8"), payload=np.ndarray)
    with pytest.raises(errors.RegistrationError, match="odd8"):
        opaque.kernels_by_dtype(add={tp.float32: np.add})


def test_a_kernel_of_an_unknown_operator_refuses_the_backend_unless_it_is_optional() -> None:
    strict = _arrays("shed")
    strict.kernels(add=np.add, frobnicate=np.add)
    with pytest.raises(errors.RegistrationError, match="frobnicate"):
        register(strict)
    backend = _arrays("shed")
    backend.kernels(add=np.add)
    backend.kernels(optional=True, frobnicate=np.add, exp=np.exp)
    backend.kernel("yard::twice", optional=True)(lambda x: x + x)
    for _ in range(2):  # once more is no change
        register(backend)
    x = tp.asarray([1.0, 2.0], device="shed")
    assert (x + x).tolist() == [2.0, 4.0]
    assert tp.exp(x).dtype is tp.float32
    assert {k.operator for k in plugins.waiting_kernels()} == {"frobnicate", "yard::twice"}

    @primitive(namespace="yard", dtype=rules.kept(), shape=rules.same)
    def twice(x: Tensor, /) -> Tensor:
        raise NotImplementedError

    assert twice(x).tolist() == [2.0, 4.0]
    assert {k.operator for k in plugins.waiting_kernels()} == {"frobnicate"}
    plugins.unregister(None)
    assert plugins.waiting_kernels() == []


def test_an_optional_kernel_that_does_not_fit_its_operator_is_left_out_with_a_warning() -> None:
    backend = _arrays("shed")
    backend.kernel("yard::both", optional=True)(lambda x: x)
    register(backend)
    with pytest.warns(RuntimeWarning, match="takes 1 positional arguments"):

        @composite(namespace="yard")
        def both(x1: Tensor, x2: Tensor, /) -> Tensor:
            return x2

    x = tp.asarray([1.0, 2.0], device="shed")
    assert both(x, x) is x


def test_a_kernel_of_ones_own_operator_on_the_points_of_others() -> None:
    @primitive(namespace="yard", dtype=rules.promoted(real), shape=rules.broadcast, kind="elementwise")
    def distance(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
        raise NotImplementedError

    @kernel(distance, args=("cpu.strided", "cpu.strided"))
    def distance_cpu(x1: Any, x2: Any) -> Any:
        return np.abs(x1 - x2)

    assert distance(tp.asarray([1.0, 5.0]), 3.0).tolist() == [2.0, 2.0]
    with pytest.raises(errors.NoKernelError):
        distance(tp.ones((2,)).to(layout="sparse_coo"), tp.ones((2,)).to(layout="sparse_coo"))
    with pytest.raises(errors.RegistrationError, match="args= has 1 patterns"):
        kernel(distance, args=("cpu.strided",))(lambda x1, x2: x1)


def test_a_shutdown_hook_runs_once_at_the_end(tmp_path: Path) -> None:
    site = _distribution(
        tmp_path,
        "shed",
        "[tripoint.backends.v1]\nshed.strided = shed_module:backend\n",
        """
        from tripoint.plugin import Backend, Device, strided
        class P:
            def __init__(self, shape): self.shape = shape
        backend = Backend(Device("shed"), strided, payload=P)
        backend.kernel("zeros")(lambda *, shape: P(shape))
        backend.shutdown(lambda: print("'released'"))
        """,
    )
    assert said("import tripoint as tp; print(tp.zeros((2,), device='shed').shape)", site) == [(2,), "released"]
    assert said("import tripoint as tp", site) == []


def test_gradients_need_forward_kernels_alone() -> None:
    backend = _arrays("shed")
    backend.kernels(add=np.add, multiply=np.multiply)
    register(backend)
    x = tp.asarray([1.0, 2.0, 3.0], device="shed").requires_grad_()
    (x * x).backward(tp.asarray([1.0, 1.0, 1.0], device="shed"))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


class _Held:
    """A payload of what a stranger writes: an array, and a few words for printing."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
        self.shape = self.array.shape


def _stranger(*point: Any, summary: Any = None, **more: Any) -> Backend:
    fixed = next((d for d in point if isinstance(d, DType)), None)
    return Backend(
        *point,
        payload=_Held,
        describe=lambda x: {"dtype": fixed or getattr(tp, x.array.dtype.name)},
        frozen=True,
        summary=summary,
        **more,
    )


def test_what_a_device_has_no_kernel_for_is_made_of_zeros_or_on_the_cpu() -> None:
    backend = _stranger(Device("shed"), strided)
    backend.kernel("zeros")(lambda *, shape, target: _Held(np.zeros(shape, target.dtype.name)))
    backend.to("cpu.strided")(lambda x: x.array.copy())
    backend.from_("cpu.strided")(_Held)
    register(backend)
    made = tp.empty((2, 3), dtype="int16", device="shed")
    assert (str(made.device), made.dtype, made.tolist()) == ("shed", "int16", [[0] * 3] * 2)
    like = tp.empty_like(tp.zeros((0, 4), device="shed", dtype="float64"))
    assert (str(like.device), like.shape, like.dtype) == ("shed", (0, 4), "float64")
    count = tp.arange(3, 9, 2, device="shed")
    assert (str(count.device), count.dtype, count.tolist()) == ("shed", "int64", [3, 5, 7])
    with tp.device("shed"):
        places = [str(x.device) for x in (tp.empty(2), tp.arange(2), tp.asarray([1.0]))]
    assert places == ["shed"] * 3
    with pytest.raises(errors.SizeError):
        tp.empty((2**40, 2**40), device="shed")
    with pytest.raises(errors.NoKernelError, match="no kernel for ones"):
        tp.ones(2, device="shed")
    assert tp.coverage("empty", devices="shed")["empty", "shed.strided.float32"].note == "parts: zeros"
    assert tp.explain(tp.empty, (2,), device="shed").parts[0].operator == "zeros"
    fused = _stranger(Device("barn"), strided)
    fused.kernel("empty")(lambda *, shape, target: _Held(np.full(shape, 7, target.dtype.name)))
    register(fused)
    assert tp.plugin.payload(tp.empty((2,), device="barn")).array.tolist() == [7, 7]


def test_a_layout_and_a_format_print_their_elements_and_a_summary() -> None:
    turned = _stranger("cpu", Layout("turned"), summary=lambda x: "2 columns")
    turned.to("cpu.strided")(lambda x: x.array.T.copy())
    turned.from_("cpu.strided")(lambda x: _Held(x.T.copy()))
    register(turned)
    x = tp.asarray([[1, 2], [3, 4]]).to(layout="turned")
    assert repr(x) == "tensor([[1, 2],\n        [3, 4]], dtype=int64, layout=turned, 2 columns)"
    long = tp.zeros((1001,), dtype="int64").to(layout="turned")
    assert repr(long) == "tensor(shape=(1001,), dtype=int64, layout=turned, 2 columns)"
    halved = _stranger("cpu", strided, DType("halved", bits=32, plain=tp.float32))
    at = Pattern("cpu", "strided", "float32")
    halved.to(at)(lambda x: x.array * np.float32(2))
    halved.from_(at)(lambda x: _Held(x / np.float32(2)))
    register(halved)
    assert repr(tp.asarray([1.0, 4.0]).to(dtype="halved")) == "tensor([1., 4.], dtype=halved)"


def test_a_device_without_a_way_to_the_cpu_reads_and_prints_its_elements() -> None:
    register(_arrays("shed"))
    x = tp.asarray([[1.5, 2.0]], device="shed")
    assert x.tolist() == [[1.5, 2.0]]
    assert x.requires_grad_().tolist() == [[1.5, 2.0]]
    assert tp.asarray([[3]], device="shed").item() == 3
    assert repr(tp.asarray([1, 2], device="shed")) == "tensor([1, 2], dtype=int64, device=shed)"


def test_what_a_dtype_cannot_hold_is_refused_on_every_backend() -> None:
    register(_arrays("shed"))
    for value, dtype, error in [
        (math.nan, "int32", errors.DTypeError),
        (math.inf, "uint8", errors.DTypeError),
        (1j, "float32", errors.DTypeError),
        (300, "int8", errors.ScalarRangeError),
        (-1, "uint64", errors.ScalarRangeError),
    ]:
        with pytest.raises(error, match=dtype):
            tp.full((2,), value, dtype=dtype, device="shed")
        with pytest.raises(error, match=f"^full: fill_value: .*{dtype}"):
            check.fits("full", getattr(tp, dtype), fill_value=value)
    assert tp.full((2,), 255, dtype="uint8", device="shed").tolist() == [255, 255]
    assert tp.full((1,), math.nan, dtype="bool", device="shed").tolist() == [True]
    for device in ("shed", "cpu"):
        x = tp.asarray([1 + 2j], device=device)
        with pytest.raises(errors.DTypeError, match="complex64 to float32 drops the imaginary parts"):
            x.to(dtype=tp.float32)


def test_a_number_may_stand_where_an_annotation_that_is_no_text_says_so() -> None:
    def spelt(x1: Any, x2: Any, /) -> Any:
        raise NotImplementedError

    spelt.__annotations__ = {"x1": Tensor, "x2": Operand}
    row = row_of(primitive(namespace="yard", dtype=rules.promoted(), shape=rules.broadcast)(spelt))
    assert [p.number for p in row.operands] == [False, True]


class _Ragged:
    def __init__(self, rows: list[Any], shape: tuple[int, int]) -> None:
        self.rows, self.shape = rows, shape


class _Posit:
    def __init__(self, bits: Any) -> None:
        self.bits, self.shape = bits, bits.shape


def _pad(p: _Ragged) -> Any:
    out = np.zeros(p.shape, np.float32)
    for row, values in zip(out, p.rows):
        row[: len(values)] = values
    return out


def test_a_layout_with_a_mixed_kernel_and_a_format_for_every_device_are_written_as_the_design_says() -> None:
    ragged = Layout("yard_ragged", views=False)
    backend = Backend("cpu", ragged, payload=_Ragged, to_strided=_pad, cheap=False)
    backend.to("cpu.strided")(_pad)

    @backend.kernel("matmul", args=(ragged, strided), out=strided)
    def _(a: _Ragged, b: Any) -> Any:
        return np.stack([row @ b[: len(row)] for row in a.rows])

    register(backend)
    derivative(
        "matmul",
        args=(ragged, strided),
        x1=lambda g, x2: g @ x2.mT,
        x2=lambda g, x1: x1.to(layout="strided").mT @ g,
    )
    a = wrap(key(Device("cpu"), ragged, tp.float32), _Ragged([np.ones(1, np.float32), np.ones(3, np.float32)], (2, 3)))
    b = tp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).requires_grad_()
    (a @ b).sum().backward()
    assert (a @ b).tolist() == [[1.0, 2.0], [9.0, 12.0]]
    assert b.grad is not None
    assert b.grad.tolist() == [[2.0, 2.0], [1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(errors.NoKernelError, match=r"to\(layout='strided'\)"):
        tp.exp(a)

    def encode(dense: Any, like: Any = None) -> _Posit:
        return _Posit(np.asarray(dense, np.float32).view(np.uint32) >> 16)

    def decode(x: _Posit) -> Any:
        return (x.bits << 16).view(np.float32)

    posit = DType("yard_posit", plain=tp.float32, gradient=tp.float32)
    every = Backend("*", strided, posit, payload=_Posit, encode=encode, decode=decode, cheap=True)
    every.to(tp.float32)(decode)
    every.from_(tp.float32)(encode)
    register(every)
    x = tp.asarray([1.0, -2.5]).to(dtype=posit)
    assert (str(x.dtype), x.tolist(), (x + x).tolist()) == ("yard_posit", [1.0, -2.5], [2.0, -5.0])
    assert tp.asarray(3.0).to(dtype=posit).item() == 3.0  # NumPy's scalars, of which hooks give some, are made arrays
    assert tp.exp(tp.asarray(0.0).to(dtype=posit)).item() == 1.0


# Layers by entry point ---------------------------------------------------------------------------------------------------


def _distribution(tmp_path: Path, name: str, entry_points: str, module: str) -> Path:
    """A distribution written by hand: one module, named after it, and its metadata; gives the folder for the path."""
    site = tmp_path / "site"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (site / f"{name}_module.py").write_text(textwrap.dedent(module))
    return site


def _layer(tmp_path: Path, name: str, module: str, layer: str = "tally") -> Path:
    return _distribution(tmp_path, name, f"[tripoint.layers.v1]\n{layer} = {name}_module:Tally\n", module)


_TALLY = """
from tripoint.plugin import Layer
class Tally(Layer, below="trace"):
    calls = 0
    def __call__(self, op, call_next, args, meta):
        self.calls += 1
        return call_next(args, meta)
"""
_WRONG = """
import tripoint as tp
try:
    tp.plugins.layer("tally")
except tp.errors.PluginError as error:
    print(repr((str(error), type(error.__cause__).__name__)))
print((tp.ones((2,), device="meta") + 1).shape)
"""


def test_a_layer_is_listed_unloaded_and_takes_part_only_where_it_is_entered(tmp_path: Path) -> None:
    site = _layer(tmp_path, "counter", _TALLY)
    program = """
    import sys, tripoint as tp
    x = tp.ones((2,), device="meta")
    x + x
    print(tp.plugins.layers())
    print("counter_module" in sys.modules)
    print([p["layers"] for p in tp.plugins.listed() if p["name"] == "counter"])
    print("the layer tally" in tp.plugins.report())
    tally = tp.plugins.layer("tally")()
    x + x
    with tally:
        x + x
        tp.exp(x)
    x + x
    print(tally.calls)
    print(tp.plugins.layer("tally") is type(tally))
    """
    assert said(program, site) == [("tally",), False, [["tally"]], True, 2, True]


def test_a_broken_layer_and_what_is_none_are_told_and_break_nothing(tmp_path: Path) -> None:
    message, cause = said(_WRONG, _layer(tmp_path / "a", "broken", "raise RuntimeError('no way')"))[0]
    assert "the layer 'tally' is provided by broken 1.0" in message
    assert "no way" in message
    assert cause == "RuntimeError"
    message, cause = said(_WRONG, _layer(tmp_path / "b", "other", "class Tally: pass"))[0]
    assert "other_module.Tally" in message
    assert "which is none; its entry point must name a subclass of Layer" in message
    message, _ = said(_WRONG, _layer(tmp_path / "c", "none", _TALLY, layer="tell"))[0]
    assert message == "no installed plugin provides the layer 'tally'; installed layers: tell"


def test_two_layers_of_one_name_wait_for_a_preference_and_a_blocked_one_says_so(tmp_path: Path) -> None:
    _layer(tmp_path, "one", _TALLY)
    site = _layer(tmp_path, "two", _TALLY)
    program = """
    import tripoint as tp
    def found():
        return [(o.what, o.by, o.preferred) for o in tp.plugins.overlaps()]
    try:
        tp.plugins.layer("tally")
    except tp.errors.PluginError as error:
        print(all(word in str(error) for word in ("one 1.0", "two 1.0", "tripoint.plugins.prefer(")))
    print(found())
    tp.plugins.prefer("one")
    print(repr(tp.plugins.layer("tally").__module__))
    print(found())
    tp.plugins.block("one")
    print(repr(tp.plugins.layer("tally").__module__))
    print(found())
    tp.plugins.block("two")
    try:
        tp.plugins.layer("tally")
    except tp.errors.PluginError as error:
        print("blocked" in str(error))
    """
    both = ("layer tally", ("one 1.0", "two 1.0"))
    assert said(program, site) == [True, [(*both, "")], "one_module", [(*both, "one")], "two_module", [], True]


# The generated package -----------------------------------------------------------------------------------------------------

_generated: list[tuple[str, dict[str, str]]] = [
    ("tripoint-shed", {"device": "shed"}),
    ("Shed.Layout", {"device": "cpu", "layout": "shelved"}),
    ("shed_numbers", {"device": "cpu", "dtype": "shed16"}),
]


@pytest.mark.parametrize(("name", "point"), _generated, ids=["device", "layout", "dtype"])
def test_a_generated_package_builds_installs_and_passes_its_tests(
    name: str, point: dict[str, str], tmp_path: Path
) -> None:
    made = new_backend(name, **point, folder=tmp_path)
    assert made == tmp_path / name
    found = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()}
    module = name.lower().replace("-", "_").replace(".", "_")
    assert found == {
        ".github/workflows/tests.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        f"src/{module}/__init__.py",
        f"src/{module}/py.typed",
        "tests/test_backend.py",
    }
    assert not any("$" in (made / f).read_text() for f in found - {".github/workflows/tests.yml"})
    rules_of = {"src": "E,F,W,I,UP,B,D100,D101,D103,D104", "tests": "E,F,W,I,UP,B"}
    for part, select in rules_of.items():
        lint = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", "--select", select]
        done = subprocess.run([*lint, str(made / part)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout
    build(tmp_path / "wheels", made)
    site = unpack(tmp_path / "wheels", tmp_path / "site")
    env = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(made / "tests")]
    command += ["-k", "not test_conformance"]  # which takes longer, see below
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = tomllib.loads((made / "pyproject.toml").read_text())["project"]["optional-dependencies"]["test"]
    assert {"build", "pytest>=8"} <= set(wanted)
    for file in ("README.md", ".github/workflows/tests.yml"):
        assert "pip install --find-links wheels" in (made / file).read_text()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow), 2],
    ids=["device", "layout", "dtype"],
)
def test_a_generated_package_passes_the_whole_kit_by_its_own_test(kind: int, tmp_path: Path) -> None:
    name, point = _generated[kind]
    made = new_backend(name, **point, folder=tmp_path)
    build(tmp_path / "wheels", made)
    env = {**os.environ, "PYTHONPATH": str(unpack(tmp_path / "wheels", tmp_path / "site"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(made / "tests")]
    command += ["-k", "test_conformance"]
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


_bad_requests: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("", {"device": "shed"}, errors.ArgumentError, "unlike ''"),
    ("-shed", {"device": "shed"}, errors.ArgumentError, "'-shed'"),
    ("../shed", {"device": "shed"}, errors.ArgumentError, "'../shed'"),
    ("json", {"device": "shed"}, errors.ArgumentError, "json"),
    ("class", {"device": "shed"}, errors.ArgumentError, "class"),
    ("tripoint", {"device": "shed"}, errors.ArgumentError, "tripoint"),
    ("tripoint_dense_cpu", {"device": "shed"}, errors.ArgumentError, "tripoint_dense_cpu"),
    ("shed", {"device": "cpu"}, errors.DeviceError, "'cpu' is provided by tripoint-dense-cpu"),
    ("shed", {"device": "meta"}, errors.DeviceError, "provided by tripoint"),
    ("shed", {"device": "cuda"}, errors.DeviceError, "tripoint-cuda-cupy"),
    ("shed", {"device": "*"}, errors.DeviceError, "'*'"),
    ("shed", {"device": "shed:0"}, errors.DeviceError, "'shed:0'"),
    ("shed", {"device": 3}, errors.DeviceError, "not 3"),
    ("shed", {"device": "cpu", "layout": "strided"}, errors.LayoutError, "provided by"),
    ("shed", {"device": "cpu", "layout": "blocked"}, errors.LayoutError, "tripoint-blocked"),
    ("shed", {"device": "cpu", "layout": "a b"}, errors.LayoutError, "'a b'"),
    ("shed", {"device": "shed", "layout": "rows"}, errors.DeviceError, "device='cpu'"),
    ("shed", {"device": "cpu", "layout": "rows", "dtype": "odd8"}, errors.ArgumentError, "a package each"),
    ("shed", {"device": "cpu", "dtype": "qint8"}, errors.DTypeError, "tripoint-quantized"),
    ("shed", {"device": "cpu", "dtype": "float32"}, errors.DTypeError, "provided by the core"),
    ("shed", {"device": "cpu", "dtype": "floating"}, errors.DTypeError, "provided by the core"),
    ("shed", {"device": "cpu", "dtype": "8odd"}, errors.DTypeError, "'8odd'"),
    ("shed", {"device": "shed", "folder": "nowhere"}, errors.ArgumentError, "no folder"),
]


@pytest.mark.parametrize(("name", "given", "error", "words"), _bad_requests)
def test_what_cannot_be_generated_is_told_and_nothing_is_written(
    name: str, given: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    folder = tmp_path / given["folder"] if "folder" in given else tmp_path
    with pytest.raises(error) as caught:
        new_backend(name, **{**given, "folder": folder})
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_nothing_is_overwritten(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "shed"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "gone")
    with pytest.raises(errors.ExistsError, match="is not overwritten") as caught:
        new_backend("shed", device="shed", folder=tmp_path)
    assert isinstance(caught.value, FileExistsError)
    assert [p.name for p in tmp_path.iterdir()] == ["shed"]
    assert kind != "file" or target.read_text() == "mine"


# The smallest backend ------------------------------------------------------------------------------------------------------

_USE_MINI = """
import json, sys
import tripoint as tp
x = tp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device="mini").requires_grad_()
y = tp.where(x > 2.5, tp.exp(-x) * 3, x / 4).sum(axis=0)
y.sum().backward()
n = tp.asarray([7, 8], device="mini")
n += 1
counts = tp.memory.stats("mini").counts
def refused(call):
    try:
        call()
    except tp.errors.TripointError as error:
        return [type(error).__name__, str(error).splitlines()[0]]
got = {
    "y": y.tolist(), "grad": x.grad.tolist(), "item": x.sum().item(), "int": n.tolist(), "dtype": str(n.dtype),
    "quotient": (n / 0).tolist(), "permuted": tp.permute_dims(x, (1, 0)).tolist(), "mean": tp.mean(x.detach()).item(),
    "counted": counts["live"] > 0 and counts["allocations"] > 12,
    "shape": refused(lambda: x + tp.ones((4,), device="mini")),
    "half": refused(lambda: tp.ones((2,), device="mini", dtype=tp.float16)),
    "single": tp.asarray([2**60 + 2**36 + 1, -(2**62) + 1, 3], device="mini").astype(tp.float32).tolist(),
    "loaded": sorted({m.partition(".")[0] for m in sys.modules} & {"numpy", "tripoint_dense_cpu", "tripoint_mini"}),
    "sin": refused(lambda: tp.sin(x)),  # which asks whether a fallback would help, and so for the plugin of the CPU
}
print(json.dumps(got))
"""


def _mini_is_right(output: str) -> None:
    got = json.loads(output)
    x = np.arange(1.0, 7.0).reshape(2, 3)
    np.testing.assert_allclose(got["y"], np.where(x > 2.5, 3 * np.exp(-x), x / 4).sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(got["grad"], np.where(x > 2.5, -3 * np.exp(-x), 0.25), rtol=1e-6)
    assert got["item"] == 21.0
    assert (got["int"], got["dtype"]) == ([8, 9], "int64")
    assert got["quotient"] == [math.inf, math.inf]
    assert got["permuted"] == x.T.tolist()
    assert got["mean"] == 3.5
    assert got["counted"]
    assert got["shape"][0] == "ShapeError"
    assert got["half"][0] == "DTypeError"
    assert "float16" in got["half"][1]
    assert got["single"] == np.array([2**60 + 2**36 + 1, -(2**62) + 1, 3]).astype(np.float32).tolist()
    assert got["sin"] == ["NoKernelError", "no kernel for sin"]
    assert got["loaded"] == ["tripoint_mini"]


def _code() -> ast.Module:
    return ast.parse((MINI / "tripoint_mini.py").read_text())


def test_the_smallest_backend_has_fewer_than_a_hundred_lines() -> None:
    files = [p for p in MINI.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {p.name for p in files} == {"pyproject.toml", "tripoint_mini.py"}
    assert sum(len(p.read_text().splitlines()) for p in files) < 100
    formatted = [sys.executable, "-m", "ruff", "format", "--check", str(MINI)]
    assert subprocess.run(formatted, cwd=ROOT, capture_output=True, timeout=60).returncode == 0


def test_the_smallest_backend_imports_the_core_and_the_standard_library_alone() -> None:
    imports = [n for n in ast.walk(_code()) if isinstance(n, (ast.Import, ast.ImportFrom))]
    names = {a.name for n in imports if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in imports if isinstance(n, ast.ImportFrom) and n.module}
    assert names - sys.stdlib_module_names == {"tripoint", "tripoint.plugin"}
    assert "cpu" not in {n.value for n in ast.walk(_code()) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_the_smallest_backend_has_its_kernels_and_its_allocator(site: Path) -> None:
    program = """
    import tripoint as tp
    from tripoint import kernels
    from tripoint.plugin import Allocator
    tp.ones((2,), device="mini")
    import tripoint_mini
    mine = [k for ks in kernels.kernels.values() for k in ks if k.origin.distribution == "tripoint-mini"]
    print(len(mine))
    print(sorted({k.pattern() for k in mine}))
    print(isinstance(tripoint_mini.backend.allocator(), Allocator))
    """
    count, patterns, allocator = said(program, site)
    assert count >= 12
    assert patterns == ["mini.strided.plain"]
    assert allocator


def test_the_smallest_backend_computes_from_its_wheel(site: Path) -> None:
    _mini_is_right(run(_USE_MINI, site))


def test_the_smallest_backend_with_the_core_alone_in_an_environment_of_its_own(tmp_path: Path) -> None:
    build(tmp_path / "wheels", ROOT / "core", MINI)
    venv.create(tmp_path / "venv", with_pip=True, symlinks=os.name != "nt")
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [
        python,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--find-links",
        tmp_path / "wheels",
    ]
    done = subprocess.run([*map(str, install), "tripoint-mini"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    program = [str(python), "-I", "-W", "error", "-c", _USE_MINI]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    _mini_is_right(done.stdout)
    listed = [
        str(python),
        "-I",
        "-c",
        "from importlib.metadata import distributions as d; print(*(x.name for x in d()))",
    ]
    names = set(subprocess.run(listed, capture_output=True, text=True, timeout=60).stdout.split())
    assert names - {"pip", "setuptools", "wheel"} == {"tripoint", "tripoint-mini", "pluggy"}


# One small package a kind, all of them installed beside more toy devices ---------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every example package, the smallest backend and a generated device, from their wheels."""
    folder = tmp_path_factory.mktemp("authors")
    device = new_backend("tripoint-shed", device="shed", folder=folder)
    build(folder / "wheels", MINI, device, *(PACKAGES / kind for kind in KINDS))
    return unpack(folder / "wheels", folder / "site")


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_package_is_small_and_formatted(kind: str) -> None:
    (code,) = (PACKAGES / kind).glob("*.py")
    assert code.name == f"toy_{kind}.py"
    assert len(code.read_text().splitlines()) < 60
    formatted = [sys.executable, "-m", "ruff", "format", "--check", str(code)]
    assert subprocess.run(formatted, cwd=ROOT, capture_output=True, timeout=60).returncode == 0


def test_all_kinds_are_there() -> None:
    assert sorted(p.name for p in PACKAGES.iterdir() if p.is_dir()) == KINDS


def test_all_of_them_are_found_side_by_side_and_none_is_loaded(site: Path) -> None:
    program = """
    import sys, tripoint as tp
    names = ("toy-", "tripoint-mini", "tripoint-shed")
    print({p["name"]: p["state"] for p in tp.plugins.listed() if p["name"].startswith(names)})
    print(any(m.startswith("toy_") for m in sys.modules))
    (tp.ones((2,)) + 1).sum()
    print(any(m.startswith("toy_") for m in sys.modules))
    """
    states, before, after = said(program, site)
    assert states == dict.fromkeys([*(f"toy-{kind}" for kind in KINDS), "tripoint-mini", "tripoint-shed"], "found")
    assert (before, after) == (False, False)


def test_all_of_them_work_in_one_program(site: Path) -> None:
    program = """
    import tripoint as tp
    x = tp.asarray([1.0, 1.0, 4.0])
    for device in ("mini", "shed", "arena"):
        y = tp.asarray([1.0, 1.0, 4.0], device=device)
        print((y + y).tolist())
    print((x.to("noted") + 1).tolist())
    print((x.to(layout="runs") + 1).tolist())
    print((x.to(dtype="log8") * x.to(dtype="log8")).tolist())
    print(round(tp.swiglu(x, x)[0].item(), 4))
    with tp.plugins.layer("count_calls")() as counted:
        x + x
    print(dict(counted.calls))
    a, b = tp.asarray([1.0], device="mini"), tp.asarray([1.0], device="shed")
    try:
        a + b
    except tp.errors.DeviceError as error:
        print("mini" in str(error) and "shed" in str(error))
    print({p["state"] for p in tp.plugins.listed() if p["name"] in ("toy-layout", "toy-dtype", "toy-wrapper", "tripoint-mini")})
    """
    assert said(program, site) == [
        *[[2.0, 2.0, 8.0]] * 3,
        [2.0, 2.0, 5.0],
        [2.0, 2.0, 5.0],
        [1.0, 1.0, 16.0],
        0.7311,
        {"add": 1},
        True,
        {"loaded"},
    ]


@pytest.mark.parametrize("point", ["mini.strided", "shed.strided", "cpu.runs", "noted.strided"])
def test_the_kit_finds_no_fault_in_tiers_0_and_1(point: str, site: Path) -> None:
    program = f"""
    from tripoint import conformance
    report = conformance.run("{point}", tiers=(0, 1))
    print(repr(report.text()))
    print((report.ok, report.counts()["pass"]))
    """
    text, (ok, passed) = said(program, site)
    assert ok, text
    assert passed >= 20


@pytest.mark.parametrize(("point", "least"), [("arena.strided", 6), ("cpu.strided.log8", 100), ("cpu.runs", 300)])
def test_the_kit_finds_no_fault_in_any_tier_of_what_is_declared(point: str, least: int, site: Path) -> None:
    program = f"""
    from tripoint import conformance
    report = conformance.run("{point}")
    print(repr(report.text()))
    print((report.ok, report.counts()["pass"], report.of("add"), report.of("where")))
    """
    text, (ok, passed, add, where) = said(program, site)
    assert ok, text
    assert passed >= least
    assert (add, where) == ("pass", "unsupported" if point == "arena.strided" else "pass")


def test_the_kit_finds_an_operator_by_its_installed_package(site: Path) -> None:
    program = """
    from tripoint import conformance
    for point in ("cpu.strided", "shed.strided", "mini.strided", "meta.strided"):
        report = conformance.run(point, operators=["mylib::*"])
        print((report.ok, report.of("mylib::swiglu"), repr(report.text())))
    """
    for ok, swiglu, text in said(program, site):
        assert ok, text
        assert swiglu == "pass"


def test_operator_values_gradients_rules_and_samples(site: Path) -> None:
    program = """
    import json, tripoint as tp
    from tripoint.plugin import row_of
    row = row_of(tp.swiglu)
    out = []
    for operands, meta in [(s.operands, s.meta) for s in row.samples() if s.error is None]:
        x, gate = (tp.asarray(v, dtype="float64").requires_grad_() for v in operands)
        y = tp.swiglu(x, gate, **meta)
        y.sum().backward()
        out.append([operands, meta, y.tolist(), x.grad.tolist(), gate.grad.tolist()])
    print(repr(out))
    print((row.name, tp.swiglu(tp.ones((2, 1), device="meta"), tp.ones((3,), device="meta")).shape))
    try:
        tp.swiglu(tp.ones((2,)), tp.ones((2,)), beta=float("nan"))
    except tp.errors.ArgumentError as error:
        print(repr(str(error)))
    y = tp.asarray([1.0, -2.0], device="shed")
    print((str(tp.swiglu(y, y).device), tp.swiglu(y, y).tolist()))
    """
    samples, row, error, shed = said(program, site)
    assert len(samples) == 3
    for operands, meta, y, dx, dgate in samples:
        x, gate, beta = np.array(operands[0]), np.array(operands[1]), meta.get("beta", 1.0)

        def f(x: Any, gate: Any, beta: float = beta) -> Any:
            return x * gate / (1 + np.exp(-beta * gate))

        h = 1e-6
        np.testing.assert_allclose(y, f(x, gate), rtol=1e-12)
        np.testing.assert_allclose(dx, (f(x + h, gate) - f(x - h, gate)) / (2 * h), rtol=1e-6, atol=1e-8)
        slope = (f(x, gate + h) - f(x, gate - h)) / (2 * h)
        np.testing.assert_allclose(dgate, slope if slope.shape == gate.shape else slope.sum(0), rtol=1e-6, atol=1e-8)
    assert row == ("mylib::swiglu", (2, 3))
    assert error.startswith("mylib::swiglu: beta must be a finite number")
    assert shed[0] == "shed"
    np.testing.assert_allclose(shed[1], [1 / (1 + math.exp(-1)), 4 / (1 + math.exp(2))], rtol=1e-6)


def test_layer_counts_what_it_is_asked_to_count_and_nothing_when_it_is_left(site: Path) -> None:
    program = """
    import tripoint as tp
    from tripoint.plugin import resolve
    Count = tp.plugins.layer("count_calls")
    x = tp.asarray([[1.0, 2.0], [3.0, 4.0]])
    with Count() as whole:
        tp.softmax(x, axis=0)
    with Count("exp") as parts:
        tp.softmax(x, axis=0)
        tp.mean(x)
        tp.exp(x)
    print((dict(whole.calls), dict(parts.calls), dict(parts.elements)))
    print((resolve(tp.add, x, x).layers, len(whole.calls)))
    """
    counts, idle = said(program, site)
    assert counts == ({"softmax": 1}, {"exp": 1}, {"exp": 4})
    assert idle == ((), 1)


def test_allocator_reuses_joins_counts_and_words_its_errors(site: Path) -> None:
    program = """
    import tripoint as tp
    x = tp.asarray([0.5] * 64, device="arena")
    print((tp.memory.stats("arena").counts["live"], (x + x).tolist() == [1.0] * 64))
    import toy_allocator as toy
    keep = [tp.asarray([float(i)] * 1000, device="arena") for i in range(12)]
    del keep[::2]
    try:
        tp.asarray([0.0] * 14000, device="arena")
    except tp.errors.OutOfMemoryError as error:
        print((isinstance(error, MemoryError), error.wanted, str(error).startswith("arena: out of memory")))
    print([t.tolist()[0] for t in keep])
    del keep, x
    tp.memory.empty_cache("arena")
    print((toy.arena.free, tp.memory.stats("arena").counts["live"]))
    y = tp.asarray([1.0] * 14000, device="arena")
    print(tp.memory.stats("arena").counts["live"])
    tp.memory.set_limit("arena", 1024)
    try:
        tp.asarray([1.0] * 1000, device="arena")
    except tp.errors.OutOfMemoryError as error:
        print("limit" in str(error))
    """
    live, refused, kept, empty, again, limited = said(program, site)
    assert live == (256, True)
    assert refused == (True, 56000, True)
    assert kept == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    assert empty == ([(0, 64 * 1024)], 0)
    assert again == 56000
    assert limited


def test_layout_converts_computes_in_runs_and_differentiates(site: Path) -> None:
    program = """
    import tripoint as tp
    dense = tp.asarray([[1.0, 1.0, 2.0], [2.0, 2.0, 3.0]])
    x = dense.to(layout="runs")
    print((x.run_count, x.tolist(), str(tp.exp(x).layout), tp.exp(x).run_count))
    print((tp.sum(x).item(), (x * x).tolist(), x[0].tolist(), tp.concat([x, x]).shape))
    y = dense.requires_grad_()
    tp.exp(y.to(layout="runs")).to(layout="strided").sum().backward()
    print(y.grad.tolist())
    print([tp.zeros(s).to(layout="runs").tolist() for s in [(), (0,), (2, 0)]])
    """
    shape, hooks, grad, empty = said(program, site)
    values = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, 3.0]], np.float32)
    assert shape == (3, values.tolist(), "runs", 3)
    assert hooks == (11.0, (values * values).tolist(), [1.0, 1.0, 2.0], (4, 3))
    np.testing.assert_allclose(grad, np.exp(values), rtol=1e-6)
    assert empty == [0.0, [], [[], []]]


def test_dtype_encodes_multiplies_and_differentiates(site: Path) -> None:
    program = """
    import tripoint as tp
    x = tp.asarray([1.0, 2.0, -0.5, 0.0, 3.0, 1e9, -1e9, 1e-9, float("nan"), float("inf")]).to(dtype="log8")
    print(x.tolist())
    y = tp.asarray([2.0, 3.0, 4.0, 5.0, -1.0, 1e9, 1e9, 1.0, 1.0, 1.0]).to(dtype="log8")
    print(((x * y).tolist(), str((x * y).dtype), str((x + y).dtype)))
    z = tp.asarray([1.0, 2.0, -4.0]).requires_grad_()
    w = z.to(dtype="log8")
    (w * w).to(dtype="float32").sum().backward()
    print((z.grad.tolist(), str(z.grad.dtype)))
    """
    values, product, grad = said(program, site)
    top = 2 ** (63 / 8)
    np.testing.assert_allclose(values, [1, 2, -0.5, 0, 2 ** (13 / 8), top, -top, 0, 0, top], rtol=1e-6)
    want = np.clip(np.abs(values) * np.array([2, 2 ** (13 / 8), 4, 2 ** (19 / 8), 1, top, top, 1, 1, 1]), 0, top)
    np.testing.assert_allclose(product[0], want * np.array([1, 1, -1, 1, -1, 1, -1, 1, 1, 1]), rtol=1e-5)
    assert product[1:] == ("log8", "float32")
    assert grad == ([2.0, 4.0, -8.0], "float32")


def test_wrapper_runs_every_operator_inside_and_a_layer_sees_the_users_calls_alone(site: Path) -> None:
    program = """
    import tripoint as tp
    x = tp.asarray([[1.0, 2.0], [3.0, 4.0]]).to("noted")
    print((str(x.device), tp.softmax(x @ x.mT, axis=1).tolist(), tp.sum(x, axis=0, dtype="float64").tolist(), x[:, 1].tolist()))
    print(repr(repr(tp.exp(x + 1)).partition("notes=")[2]))
    x = x.requires_grad_()
    (x * x).sum().backward()
    print((x.grad.tolist(), str(x.grad.device)))
    d = x.detach()
    with tp.plugins.layer("count_calls")() as counted, tp.no_grad():
        y = tp.exp(d) * 2
        y += d
    print((y.tolist(), dict(counted.calls)))
    outer = tp.plugins.layer("count_calls")("exp")
    with outer:
        for _ in range(3):
            tp.exp(x)
    print(dict(outer.calls))
    print(tp.concat([d, d]).to("cpu").tolist())
    """
    values, notes, grad, counted, again, joined = said(program, site)
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    e = np.exp(x @ x.T - (x @ x.T).max(axis=1, keepdims=True))
    assert values[0] == "noted"
    np.testing.assert_allclose(values[1], e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    assert values[2:] == ([4.0, 6.0], [2.0, 4.0])
    assert notes == "full>add>exp)"
    assert grad == ([[2.0, 4.0], [6.0, 8.0]], "noted")
    np.testing.assert_allclose(counted[0], 2 * np.exp(x) + x, rtol=1e-6)
    assert counted[1] == {"exp": 1, "multiply": 1, "add_": 1}
    assert again == {"exp": 3}
    assert joined == [*x.tolist(), *x.tolist()]


_compiles = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="no C compiler: neither cc nor gcc nor clang is on the path",
)


@_compiles
def test_compiled_kernel_computes_broadcasts_and_differentiates(site: Path) -> None:
    program = """
    import tripoint as tp
    a = tp.asarray([[3.0], [1e200]], dtype="float64").requires_grad_()
    b = tp.asarray([4.0, 1e200], dtype="float64")
    out = tp.hypotenuse(a, b)
    out.sum().backward()
    print((out.tolist(), a.grad.tolist(), tp.hypotenuse(a.detach(), 4).tolist(), tp.hypotenuse(b[::-1], b).tolist()))
    print(tp.hypotenuse(b[0], 3).tolist())
    try:
        tp.hypotenuse(b, tp.asarray([1.0, 2.0, 3.0], dtype="float64"))
    except tp.errors.ShapeError as error:
        print("do not broadcast" in str(error))
    """
    (out, grad, scalar, view), no_axes, refused = said(program, site)
    a, b = np.array([[3.0], [1e200]]), np.array([4.0, 1e200])
    want = np.hypot(a, b)
    np.testing.assert_allclose(out, want, rtol=1e-15)
    np.testing.assert_allclose(grad, (a / want).sum(axis=1, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(scalar, np.hypot(a, 4), rtol=1e-15)
    np.testing.assert_allclose(view, np.hypot(b[::-1], b), rtol=1e-15)
    assert no_axes == 5.0
    assert refused


@_compiles
def test_compiled_kernel_passes_the_kit_and_is_unsupported_where_it_is_not(site: Path) -> None:
    program = """
    from tripoint import conformance
    for point in ("cpu.strided", "shed.strided", "mini.strided"):
        report = conformance.run(point, operators=["toy::*"])
        tiers = {v.tier: v.verdict for v in report.verdicts if v.verdict == "pass"}
        print((report.ok, report.of("toy::hypotenuse"), sorted(tiers), repr(report.text())))
    """
    here, *elsewhere = said(program, site)
    assert here[:3] == (True, "pass", [1, 4]), here[3]
    assert [e[:3] for e in elsewhere] == [(True, "unsupported", [])] * 2, elsewhere


@pytest.mark.parametrize("compiler", ["exit 1", 'exec {cc} "$@"'], ids=["fails", "works"])
def test_compiling_leaves_nothing_behind(compiler: str, site: Path, tmp_path: Path) -> None:
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if os.name == "nt" or ("{cc}" in compiler and found is None):
        pytest.skip("needs a shell, and a C compiler: cc, gcc or clang")
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "cc"
    fake.write_text(f"#!/bin/sh\ntouch '{tmp_path}/asked'\n{compiler.format(cc=found)}\n")
    fake.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    program = f"""
    import os, tempfile
    os.environ["PATH"] = {str(tmp_path / "bin") + os.pathsep + os.environ["PATH"]!r}
    tempfile.tempdir = os.environ["TMPDIR"] = {str(tmp_path / "temporary")!r}
    import tripoint as tp
    try:
        print(tp.hypotenuse(tp.asarray(3.0, dtype="float64"), 4.0).item())
    except tp.errors.PluginError as error:
        print(repr(str(error)[:39]))
    """
    (answer,) = said(program, site)
    assert answer == (5.0 if found in compiler.format(cc=found) else "toy::hypotenuse could not be compiled: ")
    assert (tmp_path / "asked").exists()
    assert list((tmp_path / "temporary").iterdir()) == []
