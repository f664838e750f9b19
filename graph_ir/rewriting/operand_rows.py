"""Matmul operands that are neighboring rows of a larger tensor: caches and windows of them, read in place."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from ...base.dims import Size, is_known
from ..ir.graph import GraphTensor, Op
from ..ops.matmul import MatmulCore


def sliced_operands(matmuls: Sequence[Op]) -> list[Op]:
    """Return slices of neighboring rows that are only right operands of matmuls, if these matmuls have dynamic sizes.

    With static sizes, templates prefetch the memory behind an operand.
    """
    found = []
    for matmul in matmuls:
        if isinstance(matmul, MatmulCore) and not is_known(*matmul.sizes[1:]):
            operand = matmul.inputs[1]
            if takes_rows(operand.producer_owner) and len(operand.uses) == 1:
                found.append(operand.producer_owner)
    return found


def takes_rows(op: Op) -> bool:
    """Return whether an op leaves out what lies before and behind whole rows, along any axis but the last."""
    if op.op_name != "slice":
        return False
    (x,), (y,) = op.inputs, op.outputs
    is_plain = x.details.format.is_plain and y.details.format.is_plain
    return (
        is_plain
        and set(op.attr("steps")) == {1}
        and x.details.plain_dims[-1] == y.details.plain_dims[-1]
    )


def in_memory(operand: GraphTensor, group: Container[Op]) -> GraphTensor:
    """The tensor in whose memory an operand lies: another where a slice of the group takes rows of that."""
    op = operand.producer_owner
    return op.inputs[0] if op.op_name == "slice" and op in group else operand


def first_element(operand: GraphTensor, group: Container[Op]) -> Size:
    """The offset of an operand in the tensor of `in_memory`."""
    x = in_memory(operand, group)
    if x is operand:
        return 0
    dims, starts = x.details.plain_dims, operand.producer_owner.attr("starts")
    return sum(start * math.prod(dims[axis + 1 :]) for axis, start in enumerate(starts))
