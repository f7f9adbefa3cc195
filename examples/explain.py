"""What a call does and why, without running it: `tripoint.explain` on operands of every kind."""

from __future__ import annotations

import numpy as np

import tripoint as tp
from tripoint.plugin import Backend, Device, register, strided

# A device of this program's own, with enough kernels for a softmax and none for the whole of it.
small = Backend(Device("small"), strided, payload=np.ndarray)
small.kernels(subtract=np.subtract, exp=np.exp, divide=np.divide)
small.kernel("max")(lambda x, *, axis, keepdims: x.max(axis, keepdims=keepdims))
small.kernel("sum")(lambda x, *, axis, keepdims: x.sum(axis, keepdims=keepdims))
small.from_("cpu.strided")(lambda x: x)
register(small)

x = tp.asarray([[1.0, 2.0], [3.0, 4.0]])
w = tp.asarray([[0.5, 0.0], [0.0, 0.5]]).requires_grad_()
sparse = x.to(layout="sparse_coo")
images = tp.ones((1, 3, 4, 4)).to(layout=tp.layouts.blocked("nChw16c"))
quantized = tp.quantize(x, tp.affine(scale=0.1, zero_point=3, dtype=tp.qint8))

walks = [
    ("dense, with a cast", tp.explain(tp.add, x, tp.asarray([1, 2]))),
    ("two kernels fit, the narrower wins", tp.explain(tp.multiply, x.to(dtype=tp.bfloat16), 2)),
    ("sparse and dense", tp.explain(tp.matmul, sparse, x)),
    ("recorded", tp.explain(tp.exp, w)),
    ("quantized weights", tp.explain(tp.nn.linear, x, quantized)),
    ("through the hooks of a layout", tp.explain(tp.tanh, images)),
    ("a conversion", tp.explain(tp.to, sparse, device="meta", layout="strided")),
    ("softmax on a backend that does not have it whole", tp.explain(tp.softmax, x.to("small"))),
    ("a call that no kernel serves", tp.explain(tp.maximum, sparse, 1.0)),
]
for title, walk in walks:
    print(f"# {title}\n{walk}\n")

# The text is made from an object.
walk = walks[2][1]
winner = walk.candidates[0]
print(
    f"{walk.operator} on {[a.key for a in walk.arguments]}: {winner.kernel} of {winner.provider}; gives {walk.result}"
)
