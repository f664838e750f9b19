"""The loops of a group that ends in a concatenation: one loop nest per part, no branch inside.

before   for c in 0..A+B: y[c] = f(a[c] if c < A else b[c - A])
after    for c in 0..A: y[c] = f(a[c]);   for c in 0..B: y[A + c] = f(b[c])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...base.dims import bounds
from ...base.records import dataclass
from ...tensor_ir.nodes import Block, Buffer, Expr, Function, Stmt, Store, Var
from ..ir.computation import Index, Read
from ..ir.graph import GraphTensor
from ..ir.group_values import GroupValues, narrow
from .loops import loop_nest, tasks_for


@dataclass(frozen=True)
class Join:
    """`result` is `parts` concatenated along plain axis `axis`."""

    result: GraphTensor
    parts: Sequence[GraphTensor]
    axis: int


def joined_loops(
    name: str,
    buffers: Mapping[GraphTensor, Buffer],
    join: Join,
    output: GraphTensor,
    tasks: int,
    least: int,
    note: str,
) -> Function:
    """The function of such a group; params are `buffers` in order.

    Parts of `least` elements and more are split into `tasks`."""
    position = output.details.format.order.index(join.axis)
    dims = output.details.physical_dims
    nests, begin = [], 0
    for number, part in enumerate(join.parts):
        size = part.details.plain_dims[join.axis]
        if size != 0:
            extents = (*dims[:position], size, *dims[position + 1 :])
            index = tuple(Var(f"i{axis}") for axis in range(len(dims)))
            stored = (*index[:position], index[position] + begin, *index[position + 1 :])
            body = _part(buffers, join, output, number, begin, stored)
            elements = math.prod(extents)
            share = 1 if bounds(elements)[1] < least else tasks_for(tasks, elements, least)
            nests.append(loop_nest(index, extents, body, True, share))
        begin += size
    return Function(name, tuple(buffers.values()), Block(tuple(nests)), note)


def _part(
    buffers: Mapping[GraphTensor, Buffer], join: Join, output: GraphTensor, number: int,
    begin: int, stored: Index,
) -> Stmt:  # fmt: skip
    """Compute the output element at a memory index within part `number`."""
    in_memory = {x: b for x, b in buffers.items() if x is not output}
    values = GroupValues(in_memory, suffix=f"p{number}")
    values.given[join.result] = _shifted(values.read(join.parts[number]), join.axis, begin)
    value = values.read(output)(output.details.format.plain_index(stored))
    store = Store(buffers[output], stored, narrow(value, output.details.dtype))
    return Block((*values.lets, store))


def _shifted(read: Read, axis: int, begin: int) -> Read:
    """Read a part at an index of the whole."""

    def at(index: Index) -> Expr:
        return read((*index[:axis], index[axis] - begin, *index[axis + 1 :]))

    return at
