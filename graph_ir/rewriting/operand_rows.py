"""Matmul operands that are the first rows of a larger tensor: caches, read in place."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ...base.dims import is_known
from ..ir.graph import GraphTensor, Op
from ..ops.matmul import MatmulCore


def sliced_operands(matmuls: Sequence[Op]) -> list[Op]:
    """Return slices of first rows that are only right operands of matmuls, if these matmuls have dynamic sizes.

    With static sizes, templates prefetch the memory behind an operand.
    """
    found = []
    for matmul in matmuls:
        if isinstance(matmul, MatmulCore) and not is_known(*matmul.sizes[1:]):
            operand = matmul.inputs[1]
            if takes_first_rows(operand.producer_owner) and len(operand.uses) == 1:
                found.append(operand.producer_owner)
    return found


def takes_first_rows(op: Op) -> bool:
    """Return whether an op leaves out what lies behind whole rows, along any axis but the last."""
    if op.op_name != "slice":
        return False
    (x,), (y,) = op.inputs, op.outputs
    is_plain = x.details.format.is_plain and y.details.format.is_plain
    begins, goes_on = not any(op.attr("starts")), set(op.attr("steps")) == {1}
    return is_plain and begins and goes_on and x.details.plain_dims[-1] == y.details.plain_dims[-1]


def in_memory(operand: GraphTensor, group: Container[Op]) -> GraphTensor:
    """The tensor in whose memory an operand lies: another where a slice of the group takes rows of that."""
    op = operand.producer_owner
    return op.inputs[0] if op.op_name == "slice" and op in group else operand
