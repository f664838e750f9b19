"""Extremes and sums of the elements so far along an axis, by doubling: n elements in log2(n) steps."""

from __future__ import annotations

from collections.abc import Callable

from ....base.dtypes import S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder
from .arithmetic import log_add_exp
from .indexing import positions

Joined = Callable[[list[Tensor], list[Tensor]], list[Tensor]]
"""Function that combines the elements of an earlier and a later stretch."""


def _doubled(node: OpBuilder, state: list[Tensor], axis: int, joined: Joined) -> list[Tensor]:
    """Element i of the result is elements 0 to i joined."""
    size, step = state[0].details.plain_dims[axis], 1
    while step < size:
        head = [node.sliced(x, axis, 0, step) for x in state]
        earlier = [node.sliced(x, axis, 0, size - step) for x in state]
        later = [node.sliced(x, axis, step, size - step) for x in state]
        both = joined(earlier, later)
        state = [node.helper("concat", *pair, axis=axis) for pair in zip(head, both, strict=True)]
        step *= 2
    return state


def running_extremes(node: OpBuilder, x: Tensor, axis: int, largest: bool = True) -> list[Tensor]:
    """The largest or smallest element so far and its index, the last of equal ones; NaN from the first on."""
    if not x.details.rank:
        return [x, node.constant(0, S64)]
    dims = x.details.plain_dims
    index = node.helper("broadcast", positions(node, dims[axis], axis, len(dims)), shape=dims)

    def joined(earlier: list[Tensor], later: list[Tensor]) -> list[Tensor]:
        moves = node.helper("ge" if largest else "le", later[0], earlier[0])
        if x.details.dtype.is_float:
            moves = node.helper("or", moves, node.helper("isnan", later[0]))
        return [node.helper("select", moves, b, a) for a, b in zip(earlier, later, strict=True)]

    return _doubled(node, [x, index], axis, joined)


def running_log_sum_exp(node: OpBuilder, x: Tensor, axis: int) -> Tensor:
    """Log of the sum of exp(x) so far."""
    if not x.details.rank:
        return x
    wide = node.converted(x, x.details.dtype.accumulator)
    total = _doubled(node, [wide], axis, lambda a, b: [log_add_exp(node, a[0], b[0])])[0]
    return node.converted(total, x.details.dtype)
