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

STAND_IN = """
import numpy as np

__version__ = "0.stand-in"
log = []

class ndarray:
    def __init__(self, host, index):
        self.host, self.device = host, cuda.Device(index)
        self.shape, self.dtype, self.nbytes, self.itemsize = host.shape, host.dtype, host.nbytes, host.itemsize
        self.strides = host.strides
        self.data = type("Pointer", (), {"ptr": host.__array_interface__["data"][0]})

def array(x):
    if x.dtype.name == "bfloat16":
        raise ValueError("Unsupported type bfloat16")
    return ndarray(np.array(x, order="C"), cuda.current)

def asnumpy(x, blocking):
    if not blocking or cuda.current != x.device.index:
        raise AssertionError("read on another device, or before it is complete")
    return x.host.copy()

def may_share_memory(a, b):
    return np.may_share_memory(a.host, b.host)

class cuda:
    current = 0
    class runtime:
        class CUDARuntimeError(RuntimeError):
            pass
        @staticmethod
        def getDevice():
            return cuda.current
        @staticmethod
        def getDeviceCount():
            return 2
    class Device:
        def __init__(self, index):
            self.index = index
        def __enter__(self):
            if self.index >= 2:
                raise cuda.runtime.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
            self.before, cuda.current = cuda.current, self.index
        def __exit__(self, *error):
            cuda.current = self.before
"""
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
    assert "CuPy is not installed: pip install tripoint-cuda-cupy[cuda12x] or [cuda13x]" in first
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
    assert lines[3].startswith("DeviceError cuda:2 cannot be used: cudaErrorInvalidDevice")
    assert lines[4].startswith("DTypeError CuPy holds no bfloat16 tensors")
    assert lines[5] == "cpu 24.0"
