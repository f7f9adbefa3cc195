"""The conformance kit over the kernel table of ``cuda.strided``, with NumPy in CuPy's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tripoint import conformance, plugins
from tripoint.plugin import Backend, Capabilities, register


@pytest.fixture(autouse=True)
def kiln(on_numpy: Callable[..., Backend]) -> Iterator[None]:
    backend = on_numpy(
        "kiln",
        capabilities=Capabilities(
            # CuPy has no bfloat16.
            dtypes=("bool", "integral", "float16", "float32", "float64", "complex_floating"),
            lacks={"to_numpy": "memory of a device is copied to the host first"},
        ),
    )
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
