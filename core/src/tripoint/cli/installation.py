"""What is installed here: the devices, and what is wrong."""

from __future__ import annotations

import os
import platform
from typing import Any

from tripoint import plugins
from tripoint.errors import said

__all__ = ["devices", "environment", "versions"]


def devices() -> list[dict[str, Any]]:
    """One entry for each device type and each plugin that brings its dense tensors, as plain data.

    ``usable`` is ``None`` until the plugin is loaded and its hardware asked for; ``why`` says why not. ``count`` is how many
    there are of a device with an index, where its plugin says so. ``adds`` has the points that other plugins bring there. No
    plugin is imported.
    """
    found = sorted(plugins.found().values(), key=lambda p: p.name)
    claims = [(p, c) for p in found for claim in p.claims for c in claim]
    out = []
    for device in sorted({c.device for _, c in claims} - {"*"}):
        here = [(p, c) for p, c in claims if c.device == device]
        owners = [p for p, c in here if c.layout == "strided" and c.dtype is None]
        adds = sorted({f"{c} ({p.name})" for p, c in here if p not in owners})
        for owner in owners:
            said_of_it = _of(owner)
            count = plugins.device_count(device) if said_of_it["usable"] else None
            out.append({"device": device, **said_of_it, "count": count, "adds": adds})
        if not owners:
            why = f"no plugin brings its dense tensors{plugins.install(device)}"
            nobody = {"provider": None, "version": None, "state": "missing", "usable": False, "why": why, "count": None}
            out.append({"device": device, **nobody, "adds": adds})
    return out


def _of(owner: plugins.Plugin) -> dict[str, Any]:
    usable, why = None, ""
    if owner.state == "blocked":
        usable, why = False, "blocked by TRIPOINT_DISABLE or tripoint.plugins.block"
    elif owner.state == "broken":
        usable, why = False, said(owner.error)
    elif owner.probed:
        usable, why = owner.reason is None, owner.reason or ""
    return {"provider": owner.name, "version": owner.version, "state": owner.state, "usable": usable, "why": why}


def versions() -> dict[str, str]:
    """The versions of Python, of the core and of the plugins."""
    out = {"python": platform.python_version()}
    out |= {plugin.name: plugin.version for plugin in sorted(plugins.found().values(), key=lambda p: p.name)}
    return out


def environment() -> dict[str, str]:
    """The TRIPOINT_* variables that are set."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith("TRIPOINT_")}
