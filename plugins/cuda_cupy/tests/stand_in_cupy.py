"""A stand-in for CuPy: arrays are NumPy's in a class of their own, and devices are numbers.

It refuses what CuPy refuses and a test should notice: arrays of the host among its operands, arrays of another device than
the current one, and what it has no name for. Tests put it on the path as ``cupy``.
"""

import numpy as np

__version__ = "0.stand-in"

float32, float64, int64, uint64 = np.float32, np.float64, np.int64, np.uint64


class _Pointer:
    def __init__(self, address):
        self.ptr = address


class ndarray(np.ndarray):
    index = 0

    def __array_finalize__(self, parent):
        self.index = getattr(parent, "index", cuda.current)

    @property
    def device(self):
        return cuda.Device(self.index)

    @property
    def base(self):
        found = np.ndarray.base.__get__(self)
        return found if isinstance(found, ndarray) else None  # of the host's arrays that it is made of it knows nothing

    @property
    def data(self):
        return _Pointer(self.__array_interface__["data"][0])

    def get(self):
        return np.array(self, subok=False)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        arrays = [_plain(i) for i in inputs]
        if out:
            kwargs["out"] = tuple(_plain(o) for o in out)
        with np.errstate(all="ignore"):
            made = getattr(ufunc, method)(*arrays, **kwargs)
        return out[0] if out else _ours(made)


def _plain(x):
    """What NumPy computes with; a host's array or one of another device is refused."""
    if isinstance(x, (tuple, list)):
        return type(x)(_plain(v) for v in x)
    if isinstance(x, ndarray):
        if x.index != cuda.current:
            raise ValueError(f"an array of device {x.index} while {cuda.current} is current")
        return x.view(np.ndarray)
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return x


def _ours(x):
    if isinstance(x, (np.ndarray, np.generic)):
        made = np.asarray(x).view(ndarray)
        made.index = cuda.current
        return made
    return x


def _function(name):
    fn = getattr(np, name)

    def call(*args, **kwargs):
        with np.errstate(all="ignore"):
            return _ours(fn(*map(_plain, args), **{k: _plain(v) for k, v in kwargs.items()}))

    return call


def _method(name):
    def call(self, *args, **kwargs):
        return _ours(getattr(_plain(self), name)(*map(_plain, args), **kwargs))

    return call


for _name in ("sum", "min", "max", "any", "all", "argmax", "argmin", "take"):
    setattr(ndarray, _name, _method(_name))
for _name in (
    "empty", "zeros", "ones", "full", "arange", "where", "concatenate", "broadcast_to", "sum", "prod", "max", "min", "all",
    "any", "matmul",
):  # fmt: skip
    globals()[_name] = _function(_name)


def __getattr__(name):
    found = getattr(np, name)
    if not isinstance(found, np.ufunc):
        raise AttributeError(f"the stand-in has no {name}")
    return found


def may_share_memory(a, b):
    return np.may_share_memory(a.view(np.ndarray), b.view(np.ndarray))


def copyto(dst, src, casting="same_kind"):
    np.copyto(_plain(dst), _plain(src), casting=casting)


def array(x, dtype=None, order="K"):
    if np.asarray(x).dtype.name == "bfloat16":
        raise ValueError("Unsupported type bfloat16")
    return _ours(np.array(x, dtype=dtype, order="C" if order == "C" else "K", subok=False))


def asarray(x, dtype=None):
    return x if isinstance(x, ndarray) and dtype in (None, x.dtype) else array(x, dtype)


def asnumpy(x, blocking):
    if not blocking or cuda.current != x.device.id:
        raise AssertionError("read on another device, or before it is complete")
    return x.get()


class lib:
    class stride_tricks:
        @staticmethod
        def as_strided(x, shape, strides):
            return _ours(np.lib.stride_tricks.as_strided(_plain(x), shape, strides))


class _Pool:
    def used_bytes(self):
        return 100 + cuda.current

    def free_bytes(self):
        return 20

    def get_limit(self):
        return 0


def get_default_memory_pool():
    return _Pool()


class cuda:
    current = 0
    waited = []

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
            self.id = index

        def __enter__(self):
            if self.id >= 2:
                raise cuda.runtime.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
            self.before, cuda.current = cuda.current, self.id

        def __exit__(self, *error):
            cuda.current = self.before

        def synchronize(self):
            cuda.waited.append(self.id)

    class Event:
        done = False

        def synchronize(self):
            self.done = True

    class Stream:
        """The one stream of a device."""

        def __init__(self, index):
            self.index = index

        def record(self):
            return cuda.Event()

        def wait_event(self, event):
            cuda.waited.append((self.index, event.done))

        def synchronize(self):
            cuda.waited.append(f"stream of {self.index}")

    @staticmethod
    def get_current_stream():
        return cuda.Stream(cuda.current)
