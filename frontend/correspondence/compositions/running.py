"""Extremes of the elements so far along an axis, and logarithms of sums."""

from __future__ import annotations

from ....base.dtypes import S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder
from .indexing import positions


def running_extremes(node: OpBuilder, x: Tensor, axis: int, largest: bool = True) -> list[Tensor]:
    """The largest or smallest element so far and its index, the last of equal ones; NaN from the first on."""
    if not x.details.rank:
        return [x, node.constant(0, S64)]
    dims = x.details.plain_dims
    found = node.helper("cum_max" if largest else "cum_min", x, axis=axis)
    is_found = node.helper("eq", x, found)
    if x.details.dtype.is_float:
        is_found = node.helper("or", is_found, node.helper("isnan", x))
    index = positions(node, dims[axis], axis, len(dims))
    index = node.helper("select", is_found, index, node.constant(0, S64))
    return [found, node.helper("cum_max", index, axis=axis)]


def running_log_sum_exp(node: OpBuilder, x: Tensor, axis: int) -> Tensor:
    """Log of the sum of exp(x) so far."""
    return node.make("cum_log_sum_exp", x, axis=axis) if x.details.rank else x
