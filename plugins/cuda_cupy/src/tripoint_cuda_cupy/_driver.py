"""What is known of CuPy and of the driver without touching either before a device is asked for."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from importlib.metadata import distributions
from typing import Any

INSTALL = "pip install tripoint-cuda-cupy[cuda12x] or [cuda13x]"


class _OfCupy(type):
    def __instancecheck__(cls, value: object) -> bool:
        # Where CuPy was not imported there are no arrays of it, so asking never imports it.
        module = sys.modules.get("cupy")
        return module is not None and isinstance(value, module.ndarray)


class CupyArray(metaclass=_OfCupy):
    """Stands for ``cupy.ndarray``, so that CuPy need not be imported to name it."""


def cupy() -> Any:
    """CuPy itself, imported at first need."""
    return importlib.import_module("cupy")


def wheels() -> tuple[str, ...]:
    """Installed distributions that bring a package ``cupy``; read from metadata."""
    names = {(d.metadata["Name"] or "").lower().replace("_", "-") for d in distributions()}
    return tuple(sorted(n for n in names if re.fullmatch(r"cupy(-cuda\d+x?|-rocm[\d-]*)?", n)))


def visible() -> int:
    """How many devices the driver's management library sees; -1 where it cannot say.

    The runtime's own count would initialise the driver, after which a forked child cannot use it.
    """
    library = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return -1
    if nvml.nvmlInit_v2() != 0:
        return -1
    try:
        count = ctypes.c_uint()
        return int(count.value) if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 else -1
    finally:
        nvml.nvmlShutdown()


def reason() -> str | None:
    """Why no CUDA device can be used, or ``None`` when one can."""
    found = wheels()
    if len(found) > 1:
        return f"{' and '.join(found)} are installed together and overwrite each other's files; uninstall both, then {INSTALL}"
    try:
        module = cupy()
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return f"CuPy is not installed: {INSTALL}"
        return f"CuPy cannot be imported: {error}"
    except Exception as error:  # such as a library of CUDA that does not load
        return f"CuPy cannot be imported: {type(error).__name__}: {error}"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "the environment variable CUDA_VISIBLE_DEVICES hides every device"
    if visible() > 0:
        return None
    # No driver or no device, most likely: the runtime has the words for it.
    try:
        count = module.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy {module.__version__} finds no usable driver: {error}"
    return None if count else f"CuPy {module.__version__} finds no CUDA device"


def current() -> int:
    """Index of CuPy's current device; 0 as long as CuPy was not imported, so that naming the device touches nothing."""
    module = sys.modules.get("cupy")
    if module is None:
        return 0
    try:
        return int(module.cuda.runtime.getDevice())
    except Exception:  # no driver: the probe says so when the device is used
        return 0
