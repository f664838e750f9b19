"""Finds groups that end in a concatenation, so that each part can have its own loop nest."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import GraphTensor, Op
from ..ops.movement import Concat
from ..rewriting.groups import is_elementwise
from ..templates.joined import Join


def joined_parts(ops: Sequence[Op], output: GraphTensor) -> Join | None:
    """The parts of a pointwise group (in topological order) that can have a loop nest each; None if they cannot.

    Everything computed from the concatenation must be elementwise and of its shape, so that output element i depends on
    its element i only; no axis may be padded, nor the concatenated axis blocked.
    """
    concats = [op for op in ops if isinstance(op, Concat)]
    if len(concats) != 1:
        return None
    (concat,) = concats
    dims, fmt = concat.outputs[0].details.plain_dims, output.details.format
    behind: set[Op] = {concat}
    for op in ops:
        if any(x.producer_owner in behind for x in op.inputs):
            behind.add(op)
            if not is_elementwise(op) or op.outputs[0].details.plain_dims != dims:
                return None
    cut = fmt.block_of(concat.axis) > 1 or fmt.is_padded(dims)
    return None if cut else Join(concat.outputs[0], concat.inputs, concat.axis)
