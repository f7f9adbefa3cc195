"""What is known of CuPy and of the driver without touching either before a device is asked for."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from collections.abc import Callable
from functools import wraps
from importlib.metadata import distributions
from typing import Any

from tripoint.errors import DeviceError
from tripoint.plugin import Device

INSTALL = 'pip install "tripoint-cuda-cupy[cuda12x]", or cuda13x for CUDA 13'


class _OfCupy(type):
    def __instancecheck__(cls, value: object) -> bool:
        # Where CuPy was not imported there are no arrays of it, so asking never imports it.
        module = sys.modules.get("cupy")
        return module is not None and isinstance(value, module.ndarray)


class CupyArray(metaclass=_OfCupy):
    """Stands for ``cupy.ndarray``, so that CuPy need not be imported to name it."""

    device: Any


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


def count() -> int:
    """How many devices CuPy can use; this asks the runtime, and so is for when a device is about to be used."""
    return int(cupy().cuda.runtime.getDeviceCount())


class Late:
    """CuPy for the kernel table: imported when it is first asked for a function, each of which is looked up once."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(cupy(), name)
        setattr(self, name, found)
        return found


#: indices of the devices that arrays were made on.
used: set[int] = set()


def on_device(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that runs on the device of its target or of its first array, whatever CuPy's current device is.

    The stream is CuPy's current one of that device.

    Raises:
        DeviceError: the runtime refuses the device.
    """

    @wraps(fn)
    def kernel(*args: Any, **meta: Any) -> Any:
        module = cupy()
        target = meta.get("target")
        if target is not None:
            index = target.device.index
        else:
            arrays = (a for v in args for a in (v if isinstance(v, (list, tuple)) else (v,)))
            index = next(a.device.id for a in arrays if isinstance(a, CupyArray))
        try:
            with module.cuda.Device(index):
                out = fn(*args, **meta)
        except module.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(f"cuda:{index} cannot be used: {error}") from error
        used.add(index)
        return out

    return kernel


def memory() -> dict[str, Any] | None:
    """Bytes of CuPy's pool by device: in use by arrays (``live``), kept for reuse (``cached``), and the pool's limit, 0 for
    none. ``None`` as long as no device was used.
    """
    if not used:
        return None
    module = cupy()
    pool = module.get_default_memory_pool()
    said = {}
    for index in sorted(used):
        with module.cuda.Device(index):
            said[f"cuda:{index}"] = {
                "live": pool.used_bytes(),
                "cached": pool.free_bytes(),
                "limit": pool.get_limit(),
            }
    return said


def synchronize(index: int | None = None) -> None:
    """Wait until everything that was asked of a device is done: of all devices used unless one is named."""
    for at in sorted(used) if index is None else [index]:
        cupy().cuda.Device(at).synchronize()


class Place:
    """A `tripoint.plugin.Marker`: an event of CuPy."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def query(self) -> bool:
        """Whether the device has passed it."""
        return bool(self.event.done)

    def synchronize(self) -> None:
        """Wait until it has."""
        self.event.synchronize()


class Line:
    """A `tripoint.plugin.Queue`: CuPy's current stream of a device, whichever that is."""

    def __init__(self, index: int) -> None:
        self.index = index

    def record(self) -> Place:
        """A marker behind what was queued so far."""
        module = cupy()
        with module.cuda.Device(self.index):
            return Place(module.cuda.get_current_stream().record())

    def wait(self, marker: Place) -> None:
        """Let what is queued from now on run behind the marker."""
        module = cupy()
        with module.cuda.Device(self.index):
            module.cuda.get_current_stream().wait_event(marker.event)

    def query(self) -> bool:
        """Whether nothing is left to do."""
        return self.record().query()

    def synchronize(self) -> None:
        """Wait until nothing is left to do."""
        module = cupy()
        with module.cuda.Device(self.index):
            module.cuda.get_current_stream().synchronize()


class Lines:
    """The power `tripoint.plugin.Streams`. All streams of a device are CuPy's current one, so their work is in one order."""

    def default(self, device: Device) -> Line:
        """That of the device."""
        return Line(device.index or 0)

    create = default

    def synchronize(self, device: Device | None) -> None:
        """Wait for a device, or for all that were used."""
        synchronize(None if device is None else device.index)
