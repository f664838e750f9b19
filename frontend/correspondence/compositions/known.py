"""Arrays that are known while a model is read."""

from __future__ import annotations

import math

import numpy as np

from ....graph_ir.ir.graph import Array
from ...op_builder import OpBuilder


def number_range(
    node: OpBuilder, start: Array, limit: Array, delta: Array, is_closed: bool = False
) -> Array:
    """start, start + delta, ... as far as before `limit`, or up to it if `is_closed`, in their common type."""
    given = (start, limit, delta)
    if any(value.size != 1 or value.dtype.kind == "b" for value in given):
        shown = ", ".join(f"{value.dtype.name}{list(value.shape)}" for value in given)
        raise node.rule("start, limit and delta must be one number each", shown)
    first, last, step = (value.reshape(()).astype(object).item() for value in given)
    if not all(map(math.isfinite, (first, last, step))) or not step:
        numbers = f"{first}, {last}, {step}"
        raise node.rule("start, limit and delta must be finite and delta not 0", numbers)
    whole = [value.dtype.kind in "iu" for value in given]
    steps = (last - first) // step if all(whole) else math.floor((last - first) / step)
    is_reached = first + steps * step == last if all(whole) else (last - first) / step == steps
    count = max(steps + (is_closed or not is_reached), 0)
    node.check_array((count,))
    indices, dtype = np.arange(count, dtype=np.int64), np.result_type(*given)
    if all(whole):
        base, factor = (value.reshape(()).astype(dtype) for value in (start, delta))
        return np.asarray(base + indices.astype(dtype) * factor)
    return np.asarray(first + indices * step).astype(dtype)
