"""Layers that the core brings besides autograd: checks of every call, and a log of calls."""

from __future__ import annotations

from tripoint.layers.checks import checked as checked

__all__ = ["checked"]
