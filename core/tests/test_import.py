"""What importing tripoint costs and loads, in interpreters of their own."""

from __future__ import annotations

from typing import Any

import pytest

_HEAVY = ("numpy", "scipy", "cupy", "pluggy", "importlib.metadata", "inspect", "dataclasses", "ml_dtypes")


def _loaded_after(run_program: Any, program: str, *flags: str) -> set[str]:
    out = run_program(f"import sys\n{program}\nprint(*sorted(sys.modules))", flags=flags)
    return set(out.split())


@pytest.mark.parametrize("flags", [(), ("-O",), ("-W", "error")], ids=["plain", "-O", "-W error"])
def test_importing_loads_no_array_library_and_no_plugin_machinery(run_program: Any, flags: tuple[str, ...]) -> None:
    # What the interpreter itself has loaded before the import (a site's .pth files, say) is not ours.
    before = _loaded_after(run_program, "pass", *flags)
    loaded = _loaded_after(run_program, "import tripoint", *flags)
    assert "tripoint.ops.elementwise" in loaded
    new = loaded - before
    for name in _HEAVY:
        assert not {m for m in new if m == name or m.startswith(name + ".")}, name
    assert not {m for m in new if m.startswith("tripoint_")}
    assert not {m for m in new if m == "tripoint.plugin" or m.startswith("tripoint.derivatives")}


def test_the_meta_device_needs_no_array_library(run_program: Any) -> None:
    loaded = _loaded_after(
        run_program,
        """
import tripoint as tp
x = tp.zeros((2, 3), device="meta")
y = tp.softmax(x @ x.mT + 1.0, axis=0)
with tp.device("meta"):
    tp.asarray([[1, 2], [3, 4]]).to(dtype="float64")
assert y.shape == (2, 2)
""",
    )
    assert "tripoint.meta" in loaded
    assert not {m for m in loaded if m.partition(".")[0] in ("numpy", "scipy", "cupy", "ml_dtypes")}
    assert not {m for m in loaded if m.startswith("tripoint_")}


def test_listing_and_naming_what_is_not_there_imports_no_plugin(run_program: Any) -> None:
    loaded = _loaded_after(
        run_program,
        """
import tripoint as tp
tp.plugins.report()
tp.plugins.found()
tp.plugins.names()
for bad in (lambda: tp.zeros((1,), device="nowhere"), lambda: tp.zeros((1,), device="meta", layout="nolayout"),
            lambda: tp.zeros((1,), device="meta", dtype="nodtype"), lambda: tp.nothing_of_that_name):
    try:
        bad()
    except tp.errors.TripointError:
        pass
    else:
        raise SystemExit(1)
""",
    )
    assert "importlib.metadata" in loaded
    assert not {m for m in loaded if m.startswith("tripoint_") or m == "numpy"}


def test_a_call_loads_the_owner_of_its_point_and_no_other_plugin(run_program: Any) -> None:
    loaded = _loaded_after(
        run_program,
        """
import tripoint as tp
x = tp.asarray([1.0, 2.0], device="cpu").requires_grad_()
(x * x).sum().backward()
x.grad[0].item()
""",
    )
    assert {m for m in loaded if m.startswith("tripoint_") and "." not in m} == {"tripoint_dense_cpu"}


def test_names_at_the_top(run_program: Any) -> None:
    out = run_program(
        """
        import tripoint as tp
        print(tp.__version__)
        for name in ("thunder", "__wrapped__", "linalgg"):
            try:
                getattr(tp, name)
            except AttributeError as error:
                print(type(error).__name__, error)
        print(hasattr(tp, "nothing_like_that"), tp.bool is tp.dtypes.bool_)
        """
    )
    lines = out.splitlines()
    assert lines[0]
    assert lines[1].startswith("TensorAttributeError tripoint has no 'thunder'")
    assert lines[2] == "AttributeError __wrapped__"
    assert lines[4] == "False True"


def test_dir_shows_public_names_and_imports_no_plugin(run_program: Any) -> None:
    out = run_program(
        """
        import sys
        import tripoint as tp

        names = dir(tp)
        if any(m.startswith("tripoint_") for m in sys.modules):
            raise SystemExit("a plugin was imported")
        print(*names)
        print(*[name for name in names if getattr(tp, name, None) is None])
        print(*sorted(set(dir(tp)) ^ set(names)))
        """
    )
    names, missing, changed = out.split("\n")[:3]
    assert {"Tensor", "add", "bool", "float32", "explain", "nn", "no_grad", "quantize", "sparse", "ops"} <= set(
        names.split()
    )
    assert not {"Any", "TYPE_CHECKING", "annotations", "kernels", "dispatcher", "keys"} & set(names.split())
    assert [name for name in names.split() if name.startswith("_")] == ["__version__"]
    assert missing == ""
    assert changed == ""
