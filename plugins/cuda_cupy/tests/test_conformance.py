"""The conformance kit over the kernel table of ``cuda.strided``, with NumPy in CuPy's place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tripoint as tp
from tripoint import conformance, plugins
from tripoint.plugin import Backend, Capabilities, Device, Key, register, strided
from tripoint_cuda_cupy import _kernels


@pytest.fixture(autouse=True)
def kiln() -> Iterator[None]:
    backend = Backend(
        Device("kiln"),
        strided,
        payload=np.ndarray,
        describe=lambda p: {
            "dtype": getattr(tp, p.dtype.name),
            "address": p.__array_interface__["data"][0],
            "nbytes": p.nbytes,
            "strides": tuple(s // p.itemsize for s in p.strides),
            "readonly": _kernels.overlaps_itself(p),
        },
        aliases=np.may_share_memory,
        coerce=np.asarray,
        quiet=lambda: np.errstate(all="ignore"),
        capabilities=Capabilities(
            # CuPy has no bfloat16.
            dtypes=("bool", "integral", "float16", "float32", "float64", "complex_floating"),
            lacks={"to_numpy": "memory of a device is copied to the host first"},
        ),
    )
    table = _kernels.table(np)
    backend.kernels(scalars=True, **{name: table[name] for name in _kernels.WITH_SCALARS})
    backend.kernels(**{name: fn for name, fn in table.items() if name not in _kernels.WITH_SCALARS})

    @backend.from_("cpu.strided")
    def there(x: Any, *, target: Key) -> Any:
        return np.array(x)

    @backend.to("cpu.strided")
    def back(x: Any) -> Any:
        return np.array(x)

    register(backend)
    yield
    plugins.unregister(None)
    plugins.changed()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # CuPy gives none
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_the_table_passes_every_tier() -> None:
    report = conformance.run("kiln.strided")
    assert report.ok, report.text()
    without = {v.operator for v in report.verdicts if v.verdict == "unsupported"}
    assert without <= {"numpy", "dlpack", "save"}
