"""Sizes, casts and new tensors."""

from __future__ import annotations

from ...base.dims import Dim
from ...base.dtypes import F32, F64, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import size_range
from ..correspondence.compositions.run_time import counted_range
from .call import Call, Handler, Value

MAX_ARANGE = 1 << 24
"""Elements a torch.arange may have: it becomes a constant."""


def _size(node: Call) -> Value:
    dims = node.tensor_of().details.plain_dims
    if not node.given("dim"):
        return list(dims)
    if not dims:
        raise node.rule("the input must have axes", "a scalar")
    return dims[node.axis(node.attr_int("dim"), len(dims))]


# Casts.


def _to(node: Call) -> Value:
    """To a type, or that of another tensor."""
    x = node.tensor_of()
    dtype = node.tensor_of("other").details.dtype if node.given("other") else node.dtype()
    return node.converted(x, dtype or x.details.dtype)


def _arange(node: Call) -> Value:
    """Known numbers are a constant; a dynamic end or start is counted to, or from; a run counts to what data decide."""
    ends = [node.argument(name) for name in ("start", "end")]
    if any(isinstance(end, GraphTensor) for end in (*ends, node.argument("step"))):
        return _counted_arange(node)
    if any(isinstance(end, Dim) for end in ends):
        step = node.number("step", 1)
        if not isinstance(step, int) or not step:
            raise node.unsupported(f"a dynamic number of steps of {step}")
        first, last = (end if isinstance(end, (int, Dim)) else 0 for end in ends)
        return node.converted(size_range(node, first, last, step), node.dtype() or S64)
    start, end, step = (node.number(n, d) for n, d in (("start", 0), ("end", 0), ("step", 1)))
    dtype = node.dtype()
    if dtype == S64:  # numbers are cut before anything is computed
        start, end, step = int(start), int(end), int(step)
    span = (end - start) / step if step else -1.0
    if not 0 <= span <= MAX_ARANGE:
        raise node.rule(
            f"there must be 0 to {MAX_ARANGE} elements", f"from {start} to {end} by {step}"
        )
    count = int(span) + (span != int(span))
    values = [start + i * step for i in range(count)]
    if dtype is None:
        return node.constant(
            values, F32 if any(isinstance(v, float) for v in (start, end, step)) else S64
        )
    return node.constant(values, dtype)


def _counted_arange(node: Call) -> Value:
    """Return a range whose ends or step only a run knows."""
    numbers = [
        node.tensor_of(name) if node.given(name) else node.constant(default, S64)
        for name, default in (("start", 0), ("end", 0), ("step", 1))
    ]
    is_float = any(x.details.dtype.is_float for x in numbers)
    dtype = node.dtype() or (F32 if is_float else S64)
    wide = F64 if is_float and dtype != S64 else S64
    return node.converted(counted_range(node, *(node.converted(x, wide) for x in numbers)), dtype)


CALLS = {
    "size": Handler(_size, ("input", "dim")),
    "to": Handler(_to),
    "arange": Handler(_arange, ("start", "end", "step")),
}
