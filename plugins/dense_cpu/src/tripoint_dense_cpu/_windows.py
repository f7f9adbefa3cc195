"""Arithmetic of sliding windows that several backends share; plain Python, no arrays."""

from __future__ import annotations

Pair = tuple[int, int]


def window_extent(size: Pair, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair = (1, 1)) -> Pair:
    """How many windows fit along both axes, in floor mode: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.

    Raises:
        ValueError: none fits. The operators' shape rules say so to users.
    """
    rows, columns = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if rows < 1 or columns < 1:
        raise ValueError(f"a {kernel} kernel (dilation {dilation}) exceeds an input of {size} with padding {padding}")
    return rows, columns


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
