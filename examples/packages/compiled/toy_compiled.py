"""A compiled kernel: an operator, ``toy::hypotenuse``, that is computed on the CPU by a C function, called through ctypes.

The C compiler of the system makes the library when the operator first runs there. A package that ships would build it into
its wheels instead, and change nothing else here.
"""

import ctypes
import functools
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

from tripoint.errors import PluginError
from tripoint.plugin import Operand, Tensor, derivative, floating, kernel, primitive, rules

SOURCE = """
#include <math.h>
void hypotenuse(const double *a, const double *b, double *out, long count)
{
    for (long i = 0; i < count; i++) out[i] = hypot(a[i], b[i]);
}
"""


@functools.cache
def library():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise PluginError("toy::hypotenuse needs a C compiler, and cc, gcc and clang are not there")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="toy-compiled-"))
    (folder / "kernels.c").write_text(SOURCE)
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(folder / "kernels.so"), str(folder / "kernels.c"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise PluginError(f"toy::hypotenuse could not be compiled: {done.stderr}")
    return ctypes.CDLL(str(folder / "kernels.so"))


@primitive(namespace="toy", dtype=rules.promoted(floating), shape=rules.broadcast, kind="elementwise")
def hypotenuse(x1: Operand, x2: Operand, /) -> Tensor:
    """``sqrt(x1**2 + x2**2)``, without overflow on the way."""
    raise NotImplementedError


@kernel(hypotenuse, args=("cpu.strided.float64", "cpu.strided.float64"))
def hypotenuse_c(x1, x2):
    x1, x2 = (np.ascontiguousarray(x) for x in np.broadcast_arrays(x1, x2))
    out = np.empty(x1.shape)
    at = [ctypes.c_void_p(x.ctypes.data) for x in (x1, x2, out)]
    library().hypotenuse(*at, ctypes.c_long(out.size))
    return out


derivative(hypotenuse, x1=lambda g, x1, out: g * x1 / out, x2=lambda g, x2, out: g * x2 / out)
