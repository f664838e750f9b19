"""Overlap of tensors in memory: a write to one tensor changes every tensor that shares an element with it."""

from __future__ import annotations

from typing import Any


def overlap(one: Any, other: Any) -> bool:
    """Return whether a write to one tensor in main memory may be seen in the other."""
    (begin, end), (start, stop) = _range(one), _range(other)
    if end <= start or stop <= begin:
        return False
    if one.dtype != other.dtype:
        return True
    first = min(begin, start)
    if (begin - start) % one.element_size():
        return True
    touched = one.new_zeros((max(end, stop) - first) // one.element_size(), dtype=bool)
    at = (begin - first) // one.element_size(), (start - first) // one.element_size()
    touched.as_strided(one.shape, one.stride(), at[0]).fill_(True)
    return bool(touched.as_strided(other.shape, other.stride(), at[1]).any())


def _range(tensor: Any) -> tuple[int, int]:
    """The addresses of its first element and behind its last."""
    if not tensor.numel():
        return 0, 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * step for size, step in steps)
    begin = int(tensor.data_ptr())
    return begin, begin + (last + 1) * int(tensor.element_size())
