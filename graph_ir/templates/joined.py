"""The loops of a group that ends in tensors joined along an axis: one nest a part, so that no element asks which.

before   for c in 0..A+B: y[c] = f(a[c] if c < A else b[c - A])
after    for c in 0..A: y[c] = f(a[c]);   for c in 0..B: y[A + c] = f(b[c])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, Function, Stmt, Store, Var
from ..ir.computation import Index, Read
from ..ir.graph import GraphTensor, Op
from ..ops.movement import Concat
from ..rewriting.groups import is_elementwise
from .loops import loop_nest
from .reader import GroupReader, narrow


def joined_concat(ops: Sequence[Op], output: GraphTensor) -> Concat | None:
    """The concat of a pointwise group (in topological order) whose parts may have a nest each; None for other groups.

    All that is computed from its result must be elementwise and of its shape, so that element i of the output comes
    from element i of it; and no axis may be padded, nor the joined one be cut into blocks.
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
    return None if cut else concat


def joined_loops(
    name: str,
    buffers: Mapping[GraphTensor, Buffer],
    concat: Concat,
    output: GraphTensor,
    threads: int,
    note: str,
) -> Function:
    """The function of such a group; params are `buffers` in order."""
    place = output.details.format.order.index(concat.axis)
    dims = output.details.blocking_dims
    nests, begin = [], 0
    for number, part in enumerate(concat.inputs):
        size = part.details.plain_dims[concat.axis]
        if size:
            extents = (*dims[:place], size, *dims[place + 1 :])
            index = tuple(Var(f"i{axis}") for axis in range(len(dims)))
            stored = (*index[:place], t.add(index[place], begin), *index[place + 1 :])
            body = _part(buffers, concat, output, number, begin, stored)
            nests.append(loop_nest(index, extents, body, True, threads))
        begin += size
    return Function(name, tuple(buffers.values()), Block(tuple(nests)), note)


def _part(
    buffers: Mapping[GraphTensor, Buffer], concat: Concat, output: GraphTensor, number: int,
    begin: int, stored: Index,
) -> Stmt:  # fmt: skip
    """Compute the element of the output at an index in memory, which lies in part `number`."""
    in_memory = {x: b for x, b in buffers.items() if x is not output}
    reader = GroupReader(in_memory, suffix=f"{number}_" if number else "")
    reader.given[concat.outputs[0]] = _shifted(
        reader.read(concat.inputs[number]), concat.axis, begin
    )
    value = reader.read(output)(output.details.format.plain_index(stored))
    store = Store(buffers[output], stored, narrow(value, output.details.dtype))
    return Block((*reader.lets, store))


def _shifted(read: Read, axis: int, begin: int) -> Read:
    """A part read at an index of the whole."""

    def at(index: Index) -> Expr:
        return read((*index[:axis], t.sub(index[axis], begin), *index[axis + 1 :]))

    return at
