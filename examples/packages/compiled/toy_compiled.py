"""A compiled kernel: an operator, ``toy::hypotenuse``, that is computed on the CPU by a C function, called through ctypes.

The C compiler of the system makes the library when the operator first runs there. A package that ships would build it into
its wheels instead, and change nothing else here.
"""

import ctypes
import functools
import shutil
import subprocess
import tempfile

import numpy as np

from tripoint.errors import PluginError, ShapeError
from tripoint.plugin import Operand, Sample, Tensor, derivative, floating, kernel, primitive, rules

SOURCE = """
#include <math.h>
void hypotenuse(const double *a, const double *b, double *out, long long count)
{
    for (long long i = 0; i < count; i++) out[i] = hypot(a[i], b[i]);
}
"""
X = [[3.0, -0.5], [0.0, 2.0]]
SAMPLES = [Sample((X, [-4.0, 1.5])), Sample((X, 2.0)), Sample(([], [])), Sample((("float64", 3.0), 4.0))]
SAMPLES += [Sample((X, [1.0, 2.0, 3.0]), error=ShapeError)]
RULES = {"dtype": rules.promoted(floating), "shape": rules.broadcast, "kind": "elementwise"}


@functools.cache
def library():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise PluginError("toy::hypotenuse needs a C compiler, and cc, gcc and clang are not there")
    with tempfile.TemporaryDirectory(prefix="toy-compiled-", ignore_cleanup_errors=True) as folder:
        made = f"{folder}/kernels.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", made, "-lm"]
        done = subprocess.run(command, input=SOURCE, capture_output=True, text=True)
        if done.returncode != 0:
            raise PluginError(f"toy::hypotenuse could not be compiled: {done.stderr}")
        return ctypes.CDLL(made)  # which is in memory: the file may go


@primitive(namespace="toy", **RULES, samples=lambda: SAMPLES, reference=np.hypot)
def hypotenuse(x1: Operand, x2: Operand, /) -> Tensor:
    """``sqrt(x1**2 + x2**2)``, without overflow on the way."""
    raise NotImplementedError


@kernel(hypotenuse, args=("cpu.strided.float64", "cpu.strided.float64"))
def hypotenuse_c(x1, x2):
    x1, x2 = (np.asarray(x, order="C") for x in np.broadcast_arrays(x1, x2))
    out = np.empty(x1.shape)
    library().hypotenuse(*[ctypes.c_void_p(x.ctypes.data) for x in (x1, x2, out)], ctypes.c_longlong(out.size))
    return out


derivative(hypotenuse, x1=lambda g, x1, out: g * x1 / out, x2=lambda g, x2, out: g * x2 / out)
