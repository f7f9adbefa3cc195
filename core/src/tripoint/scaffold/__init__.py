"""What ``tripoint new-backend`` writes: a package with a backend that works at once, its tests and a CI file."""

from __future__ import annotations

import keyword
import os
import re
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from string import Template

from tripoint import dtypes, plugins
from tripoint.devices import Device
from tripoint.errors import ArgumentError, DeviceError, DTypeError, ExistsError, LayoutError
from tripoint.layouts import Layout

__all__ = ["new_backend"]


def new_backend(
    name: str,
    *,
    device: str,
    layout: str | None = None,
    dtype: str | None = None,
    folder: str | os.PathLike[str] = ".",
) -> Path:
    """Write a package for a new device, or for a new layout or number format on the CPU; gives its folder.

    It is complete: it builds, installs, and passes its tests, the conformance kit among them, with NumPy in the place of what
    is the author's to write.

    Args:
        name: of the distribution, such as ``"tripoint-shed"``; the folder is called so, the module ``tripoint_shed``.
        device: type of the new device; with ``layout`` or ``dtype`` it is ``"cpu"``.
        layout: name of the new layout.
        dtype: name of the new number format.
        folder: where the package's folder is made.

    Raises:
        ArgumentError: a name that a distribution or a module cannot have, ``layout`` and ``dtype`` together, or no folder.
        DeviceError, LayoutError, DTypeError: a name that an installed plugin or a first-party one provides, or that is none.
        ExistsError: the package's folder is there already; nothing is changed.
    """
    module = _module(name)
    values = {"name": name, "module": module, "device": device, "layout": layout or "", "dtype": dtype or ""}
    values.update(_point(plugins.normalise(name), device, layout, dtype))
    parent = Path(folder)
    if not parent.is_dir():
        raise ArgumentError(f"new_backend: folder {str(parent)!r} is no folder; make it first")
    target = parent / name
    if os.path.lexists(target):
        raise ExistsError(
            f"new_backend: {str(target)!r} is there already, and is not overwritten; choose another name or folder"
        )
    # Beside its place and under another name until it is complete: what is there under its own name is whole.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=parent) as made:
        for path, text in _texts(values).items():
            file = Path(made, "package", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        try:
            Path(made, "package").rename(target)
        except OSError as error:
            raise ExistsError(f"new_backend: {str(target)!r} cannot be made: {error}") from error
    return target


def _module(name: str) -> str:
    """The module of a distribution of that name.

    Raises:
        ArgumentError: there can be none.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise ArgumentError(
            "new_backend: name must be a letter, then letters, digits, '-', '_' and '.', and must not end in a sign, unlike "
            f"{name!r}"
        )
    module = re.sub(r"[-_.]+", "_", name).lower()
    taken = plugins.normalise(name) in {"tripoint", *plugins.FIRST_PARTY.values()} or module in sys.stdlib_module_names
    if taken or keyword.iskeyword(module):
        raise ArgumentError(
            f"new_backend: the name {name!r} is taken: {module} is a module of somebody else's, or a word of Python"
        )
    return module


def _point(own: str, device: str, layout: str | None, dtype: str | None) -> dict[str, str]:
    """What the point decides of the files.

    Raises:
        ArgumentError, DeviceError, LayoutError, DTypeError: as `new_backend`.
    """
    if not isinstance(device, str):
        raise DeviceError(f"new_backend: a device is a name such as 'shed', not {device!r}")
    Device(device)  # which says what a device's name may be
    others = [p for p in plugins.found().values() if p.name != own]
    claims = [(c, p.name) for p in others for claim in p.claims for c in claim]
    # A device's own plugin comes first: others provide layouts and dtypes there.
    claims.sort(key=lambda pair: (pair[0].layout != "strided", pair[0].dtype is not None))

    def provider(axis: str, name: str) -> str | None:
        return next((who for c, who in claims if getattr(c, axis) == name), plugins.FIRST_PARTY.get(name))

    if layout is None and dtype is None:
        who = provider("device", device)
        if who is not None:
            raise DeviceError(
                f"new_backend: the device {device!r} is provided by {who}; name a new one, or add layout= or dtype="
            )
        return {"kind": "device", "point": f"{device}.strided", "what": f"The device {device}", "needs": "numpy>=2.0"}
    if layout is not None and dtype is not None:
        raise ArgumentError(
            "new_backend: layout= and dtype= are a package each; write the one that the other builds on first"
        )
    if device != "cpu":
        raise DeviceError(
            f"new_backend: a layout or number format is generated on the CPU, with NumPy arrays, not on {device!r}; write "
            "device='cpu', and change the generated device when its kernels are yours"
        )
    if layout is not None:
        Layout(layout)
        who = provider("layout", layout) or ("the core" if layout == "strided" else None)
        if who is not None:
            raise LayoutError(f"new_backend: the layout {layout!r} is provided by {who}; name a new one")
        return {
            "kind": "layout",
            "point": f"cpu.{layout}",
            "what": f"The layout {layout}",
            "needs": "tripoint-dense-cpu",
        }
    if not isinstance(dtype, str) or not dtype.isascii() or not dtype.isidentifier():
        raise DTypeError(f"new_backend: a number format is named by letters, digits and _, not {dtype!r}")
    who = provider("dtype", dtype) or ("the core" if dtype in {*dtypes.PLAIN, *dtypes.CLASSES} else None)
    if who is not None:
        raise DTypeError(f"new_backend: the dtype {dtype!r} is provided by {who}; name a new one")
    return {
        "kind": "dtype",
        "point": f"cpu.strided.{dtype}",
        "what": f"The number format {dtype}",
        "needs": "tripoint-dense-cpu",
    }


def _texts(values: dict[str, str]) -> dict[str, str]:
    """Every file of the package: path and text."""
    from tripoint import __version__

    module, kind = values["module"], values["kind"]
    core = f"tripoint>={__version__.rpartition('.')[0]}"
    needs = [core, values["needs"]] + ["numpy>=2.0"] * (kind != "device")
    tests = ["build", "pytest>=8", *["tripoint-dense-cpu"] * (kind == "device")]
    names = (
        f'\n[project.entry-points."tripoint.names.v1"]\n{values["dtype"]} = "{module}:dtype"\n'
        if kind == "dtype"
        else ""
    )
    values = {
        **values,
        "dependencies": ", ".join(f'"{n}"' for n in needs),
        "test_dependencies": ", ".join(f'"{n}"' for n in tests),
        "names": names,
    }
    shown = {
        "pyproject.toml": ("pyproject.toml",),
        "README.md": ("README.md",),
        ".gitignore": ("gitignore",),
        ".github/workflows/tests.yml": ("ci.yml",),
        f"src/{module}/__init__.py": (f"{kind}.py",),
        f"src/{module}/py.typed": (),
        "tests/test_backend.py": (f"test_{kind}.py", "test_conformance.py"),
    }
    folder = files("tripoint.scaffold") / "templates"
    return {
        path: "".join(
            Template((folder / f"{part}.txt").read_text(encoding="utf-8")).substitute(values) for part in parts
        )
        for path, parts in shown.items()
    }
