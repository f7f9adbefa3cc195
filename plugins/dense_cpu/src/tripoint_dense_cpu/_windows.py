"""Arithmetic of sliding windows that several backends share; plain Python, no arrays."""

from __future__ import annotations


def window_taps(size: int, kernel: int, stride: int, padding: int, out: int) -> list[tuple[slice, slice]]:
    """For each kernel position of one axis, the outputs that see a real input there and the inputs that they see."""
    pairs = []
    for a in range(kernel):
        first = max(0, -((a - padding) // stride))  # the smallest i with i * stride + a - padding >= 0
        last = min(out, (size - 1 - a + padding) // stride + 1)
        count = max(0, last - first)
        start = first * stride + a - padding
        seen = slice(start, start + (count - 1) * stride + 1, stride) if count else slice(0, 0)
        pairs.append((slice(first, first + count), seen))
    return pairs
