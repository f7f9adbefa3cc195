"""A number format of one's own: ``log8``, a sign and seven bits of a logarithm, in which products are sums."""

import numpy as np

import tripoint as tp
from tripoint.plugin import Backend, Capabilities, DType, Pattern, strided

STEP, BIAS = 8, 64  # eight numbers to each power of two, from 2**-8 to almost 2**8; the code 0 is the number 0


class Logs:
    """``codes`` is an array of int8: 0, or the sign times 1 to 127."""

    def __init__(self, codes):
        self.codes, self.shape = codes, codes.shape


def encode(dense, like=None):
    with np.errstate(all="ignore"):
        found = np.rint(np.log2(np.abs(dense.astype(np.float64))) * STEP) + BIAS
    kept = np.where(found < 1, 0, np.minimum(np.nan_to_num(found, nan=0.0, posinf=127), 127))
    return Logs((np.where(dense < 0, -1, 1) * kept).astype(np.int8))


def decode(x):
    codes = x.codes.astype(np.float32)
    return np.where(codes == 0, np.float32(0), np.copysign(np.exp2((np.abs(codes) - BIAS) / STEP), codes))


lacks = {"*": "logarithms are read and multiplied, no more"}
within = {"*": 0.05, "pow_": 0.25}  # half a step; and what leaves the range stays at its end
said = Capabilities(nonfinite=False, make='{x}.to(dtype="log8")', lacks=lacks, tolerance=within)
log8 = DType("log8", plain=tp.float32, gradient=tp.float32)
backend = Backend(
    "cpu",
    strided,
    log8,
    payload=Logs,
    describe=lambda x: {"dtype": log8, "nbytes": x.codes.nbytes, "readonly": True},
    encode=encode,
    decode=decode,
    cheap=True,
    frozen=True,
    capabilities=said,
)
FLOAT = Pattern("cpu", "strided", "float32")
backend.to(FLOAT)(decode)
backend.from_(FLOAT)(encode)
backend.kernels(copy=lambda x: Logs(x.codes.copy()))


@backend.kernel("multiply", out=log8)
def multiply(x1, x2):
    a, b = x1.codes.astype(np.int16), x2.codes.astype(np.int16)
    return Logs((np.sign(a * b) * np.clip(np.abs(a) + np.abs(b) - BIAS, 0, 127)).astype(np.int8))
