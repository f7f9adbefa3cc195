"""What can be known of the plugin where there is no GPU: it stays out of the way, and says what is missing.

Where CuPy is needed, a stand-in that keeps its arrays in NumPy takes its place. Nothing here says that a GPU works.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tripoint_cuda_cupy import _driver

STAND_IN = Path(__file__).with_name("stand_in_cupy.py").read_text(encoding="utf-8")
ABSENT = 'raise ModuleNotFoundError("No module named \'cupy\'", name="cupy")'
BROKEN = 'raise ImportError("libcudart.so.12: cannot open shared object file")'


def python(program: str, folder: Path, cupy: str | None = None, **variables: str) -> str:
    """What a program prints in a process of its own, with ``cupy`` as the source of CuPy."""
    if cupy is not None:
        (folder / "cupy.py").write_text(cupy, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder), "CUDA_VISIBLE_DEVICES": "0,1", **variables}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


ASK = """
import tripoint as tp
from tripoint.errors import DeviceError
for ask in (lambda: tp.zeros((2,), device="cuda"), lambda: tp.asarray([1.0]).to("cuda:0")):
    try:
        ask()
    except DeviceError as error:
        print(error)
print(tp.ones((3,)).sum().item())
"""


def test_importing_the_plugin_imports_no_cupy_and_loads_no_driver(tmp_path: Path) -> None:
    program = (
        "import sys, ctypes\n"
        "def refuse(*args, **kwargs): raise SystemExit(f'a library was loaded: {args}')\n"
        "ctypes.CDLL = refuse\n"
        "import tripoint_cuda_cupy, tripoint as tp\n"
        "print('cupy' in sys.modules, tp.plugins.find_device('cuda'), tp.Device('cuda', 1))"
    )
    assert python(program, tmp_path, "raise SystemExit('imported')") == "False cuda:0 cuda:1\n"


def test_a_missing_cupy_is_named_with_package_version_and_remedy(tmp_path: Path) -> None:
    first, second, rest = python(ASK, tmp_path, ABSENT).splitlines()
    assert first == second
    assert first.startswith("cuda:0.strided.float32 ")
    assert f"tripoint-cuda-cupy {version('tripoint-cuda-cupy')}" in first
    assert 'CuPy is not installed: pip install "tripoint-cuda-cupy[cuda12x]", or cuda13x for CUDA 13' in first
    assert rest == "3.0"


def test_a_cupy_that_cannot_be_imported_is_contained(tmp_path: Path) -> None:
    first, _, rest = python(ASK, tmp_path, BROKEN).splitlines()
    assert "CuPy cannot be imported: ImportError: libcudart.so.12: cannot open" in first
    assert rest == "3.0"


def test_two_wheels_at_once_are_named(tmp_path: Path) -> None:
    for name in ("cupy-cuda12x", "cupy-cuda13x", "cupy-xarray"):
        info = tmp_path / f"{name.replace('-', '_')}-14.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 14.0\n", encoding="utf-8")
    first = python(ASK, tmp_path, STAND_IN).splitlines()[0]
    assert "cupy-cuda12x and cupy-cuda13x are installed together" in first


def test_hidden_devices_are_named(tmp_path: Path) -> None:
    assert "CUDA_VISIBLE_DEVICES hides every device" in python(ASK, tmp_path, STAND_IN, CUDA_VISIBLE_DEVICES="")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = types.ModuleType("cupy")
    exec(STAND_IN, made.__dict__)
    monkeypatch.setattr(_driver, "cupy", lambda: made)
    monkeypatch.setattr(_driver, "wheels", lambda: ("cupy-cuda13x",))
    monkeypatch.setattr(_driver, "visible", lambda: -1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    return made


def test_what_the_runtime_says_of_a_missing_driver_is_passed_on(module: Any) -> None:
    def fail() -> int:
        raise module.cuda.runtime.CUDARuntimeError("cudaErrorInsufficientDriver: driver version is insufficient")

    module.cuda.runtime.getDeviceCount = fail
    said = _driver.reason()
    assert said is not None
    assert said.startswith("CuPy 0.stand-in finds no usable driver: cudaErrorInsufficientDriver")


def test_no_devices(module: Any) -> None:
    module.cuda.runtime.getDeviceCount = lambda: 0
    assert _driver.reason() == "CuPy 0.stand-in finds no CUDA device"
    module.cuda.runtime.getDeviceCount = lambda: 1
    assert _driver.reason() is None


def test_counting_asks_the_runtime_only_where_the_management_library_has_no_answer(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise AssertionError("the driver was initialised, and forked children cannot use it any more")

    module.cuda.runtime.getDeviceCount = fail
    monkeypatch.setattr(_driver, "visible", lambda: 1)
    assert _driver.reason() is None


def test_visible_does_not_raise() -> None:
    assert _driver.visible() >= -1


def test_conversions_with_the_stand_in(tmp_path: Path) -> None:
    program = """
import cupy, numpy as np, tripoint as tp
from tripoint.errors import DeviceError, DTypeError
host = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
for plain in (host, host.T, host[::-1, ::2], host[:, :0], np.float64(3).reshape(()), host > 5, host.astype(np.int16)):
    x = tp.asarray(plain).to("cuda")
    if (str(x.device), x.shape, str(x.dtype)) != ("cuda:0", plain.shape, plain.dtype.name): raise SystemExit(repr(x))
    np.testing.assert_array_equal(x.to("cpu").numpy(), plain)
x = tp.asarray(host)
y = x.to("cuda:1")
print(y.device, y.device is tp.Device("cuda", 1), x.to("cuda").device is x.to("cuda:0").device)
z = y.to("cuda:0")
print(z.device, z.tolist() == host.tolist(), y.strides, y.storage().nbytes, y.readonly)
cupy.cuda.current = 1
print(x.to("cuda").device)
for ask in (lambda: x.to("cuda:2"), lambda: x.to(dtype=tp.bfloat16).to("cuda")):
    try:
        ask()
    except (DeviceError, DTypeError) as error:
        print(type(error).__name__, error)
x.requires_grad_()
x.to("cuda").to("cpu").sum().backward()
print(x.grad.device, x.grad.sum().item())
"""
    lines = python(program, tmp_path, STAND_IN).splitlines()
    assert lines[0] == "cuda:1 True True"
    assert lines[1] == "cuda:0 True (12, 4, 1) 96 False"
    assert lines[2] == "cuda:1"
    assert lines[3] == "DeviceError there is no cuda:2; there are 2, from cuda:0 to cuda:1"
    assert lines[4].startswith("DTypeError CuPy holds no bfloat16 tensors")
    assert lines[5] == "cpu 24.0"


def test_a_network_learns_on_the_second_device_while_the_first_is_current(tmp_path: Path) -> None:
    program = """
import sys
import numpy as np, tripoint as tp
if "cupy" in sys.modules: raise SystemExit("imported too early")
random = np.random.default_rng(0)
shapes = (8, 1, 3, 3), (8,), (5, 8 * 9), (5,)
start = [random.standard_normal(s).astype(np.float32) / 4 for s in shapes]
images, labels = random.standard_normal((12, 1, 6, 6)).astype(np.float32), random.integers(0, 5, 12)

def train(device):
    kernel, shift, weight, bias = (tp.asarray(p).to(device).copy().requires_grad_() for p in start)
    x, y = tp.asarray(images).to(device), tp.asarray(labels).to(device)
    losses = []
    for _ in range(4):
        h = tp.nn.max_pool2d(tp.nn.relu(tp.nn.conv2d(x, kernel, shift, padding=1)), kernel_size=2)
        loss = tp.nn.cross_entropy(tp.nn.linear(tp.flatten(h, 1), weight, bias), y)
        loss.backward()
        losses.append(float(loss))
        with tp.no_grad():
            for p in (kernel, shift, weight, bias):
                p -= 0.1 * p.grad
                p.grad = None
    return losses, kernel

losses, _ = train("cpu")
if "cupy" in sys.modules: raise SystemExit("imported too early")
again, kernel = train("cuda:1")
np.testing.assert_allclose(again, losses, rtol=1e-5)
print(losses[-1] < losses[0], kernel.device, tp.argmax(kernel.to("cpu"), axis=None).shape)
import cupy, tripoint_cuda_cupy
print(cupy.cuda.current, tripoint_cuda_cupy.backend.tripoint_memory_stats())
tripoint_cuda_cupy.synchronize()
tripoint_cuda_cupy.synchronize(0)
print(cupy.cuda.waited)
cupy.cuda.waited.clear()
s = tp.Stream("cuda:1")
with tp.stream(s):
    event = s.record()
before = event.query()
event.synchronize()
s.wait(event)
s.synchronize()
tp.synchronize("cuda:0")
tp.synchronize()
print(before, event.query(), s.query(), cupy.cuda.waited, cupy.cuda.current)
"""
    assert python(program, tmp_path, STAND_IN).splitlines() == [
        "True cuda:1 ()",
        "0 {'cuda:1': {'live': 101, 'cached': 20, 'limit': 0}}",
        "[1, 0]",
        "False True False [(1, True), 'stream of 1', 0, 1] 0",
    ]


def test_what_is_refused_with_the_stand_in(tmp_path: Path) -> None:
    program = """
import tripoint as tp
a, b, host = tp.ones((2,), device="cuda:0"), tp.ones((2,), device="cuda:1"), tp.ones((2,))
for ask in (
    lambda: a + b, lambda: a.__iadd__(b), lambda: a + host, lambda: a.__setitem__(0, b[0]), lambda: tp.concat([a, b]),
    lambda: a.numpy(), lambda: tp.zeros((2,), dtype=tp.bfloat16, device="cuda"), lambda: tp.ones((2,), device="cuda:7"),
    lambda: tp.broadcast_to(a, (3, 2)).__iadd__(1), lambda: tp.asarray([1.0], device="cuda", copy=False),
):
    try:
        raise SystemExit(f"not refused: {ask()}")
    except tp.errors.TripointError as error:
        print(type(error).__name__, error)
print(a.tolist(), b.to("cpu").tolist(), repr(a))
"""
    lines = python(program, tmp_path, STAND_IN).splitlines()
    for line, operands in zip(lines[:2], [("x1", "x2")] * 2, strict=True):
        assert line.startswith("DeviceError")
        assert f"argument {operands[0]}: cuda:0, argument {operands[1]}: cuda:1" in line
    assert "argument x1: cuda:0, argument x2: cpu" in lines[2]
    assert [line.split()[0] for line in lines if "Error" in line.split()[0]] == [
        "DeviceError",
        "DeviceError",
        "DeviceError",
        "DeviceError",
        "DeviceError",
        "NoKernelError",
        "DTypeError",
        "DeviceError",
        "ReadOnlyError",
        "AliasError",
    ]
    assert lines[-1] == "[1.0, 1.0] [1.0, 1.0] tensor([1., 1.], dtype=float32, device=cuda:0)"


def test_memory_is_not_counted_before_a_device_is_used() -> None:
    program = "import sys, tripoint_cuda_cupy as t; print(t.backend.tripoint_memory_stats(), 'cupy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "None False\n", done.stderr
