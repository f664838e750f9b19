"""The generator of loop nests for groups of pointwise ops, in any layout.

for every index of the output in memory: out[i] = f(in[map(i)])

The innermost loop that walks memory contiguously is the vector loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.dims import Size, bounds, is_known
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.builder import Value
from ...tensor_ir.nodes import (
    Block,
    Buffer,
    Expr,
    For,
    Function,
    Let,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from ...tensor_ir.split_loop import split_loop
from ...tensor_ir.visitor import vars_in, walk
from ..ir.computation import Index, Reduction
from ..ir.graph import GraphTensor
from ..ir.group_values import GroupValues, narrow, stored_at
from ..ir.op_kinds import reduction
from .merged_axes import flat_buffers, merged_axes

Tasks = int | Expr
"""Pieces of the outermost loop: a number, or an expression of sizes that are known at run time."""


def tasks_for(tasks: int, elements: Size, least: int) -> Tasks:
    """`tasks` where there are at least `least` elements, else one: decided when the model runs if it must be."""
    if tasks == 1 or is_known(elements):
        return tasks
    low, high = bounds(elements)
    if low >= least or high < least:
        return tasks if low >= least else 1
    return t.select(t.as_expr(elements) >= least, t.as_expr(tasks), 1)


@dataclass(frozen=True)
class PointwiseLoops:
    """`tasks` of the outermost loop; `inner`: how the innermost axis is run through, unrolled, in a vector loop, or in
    parts, which are vector loops between its edges; in blocks of `block` (0: whole)."""

    tasks: Tasks
    inner: str = "vector"
    block: int = 0


def pointwise_loops(
    name: str,
    buffers: Mapping[GraphTensor, Buffer],
    outputs: Sequence[GraphTensor],
    loops: PointwiseLoops,
    note: str,
) -> Function:
    """The function of a pointwise group. `outputs` share one shape and format; params are `buffers` in order."""
    dims: tuple[Size, ...] = outputs[0].details.physical_dims
    index = tuple(Var(f"i{axis}") for axis in range(len(dims)))
    has_block = bool(dims) and is_known(dims[-1]) and 0 < loops.block < dims[-1]
    values, stores = _elements(buffers, outputs, index)
    if loops.inner == "vector" and not has_block and is_known(*dims):
        flat = flat_buffers(buffers)
        known, stored = _elements(flat, outputs, index)
        merged = merged_axes(index, dims, [*known.lets, *stored])
        if merged.sizes != dims:
            values, stores = _elements(flat, outputs, merged.index)
            index, dims, buffers = merged.loops, merged.sizes, flat
    body: Stmt = Block((*values.lets, *stores))
    nests: list[Stmt]
    if loops.inner != "vector" or (not has_block and any(size != 1 for size in dims[:-1])):
        kind: LoopKind = "unrolled" if loops.inner == "unrolled" else "vector"
        outside, inside = _lifted(values.lets, index[-1])
        inner = For(index[-1], t.as_expr(0), t.as_expr(dims[-1]), Block((*inside, *stores)), kind)
        rows = split_loop(inner) if loops.inner == "parts" else [inner]
        body = t.block_of([*outside, *rows])
        nests = [loop_nest(index[:-1], dims[:-1], body, False, loops.tasks)]
    elif has_block:
        nests = _blocked(index, dims, body, _read_axis(values, index), loops)
    else:
        nests = [loop_nest(index, dims, body, True, loops.tasks)]
    return Function(name, tuple(buffers.values()), Block(tuple(nests)), note)


def _elements(
    buffers: Mapping[GraphTensor, Buffer], outputs: Sequence[GraphTensor], index: Index
) -> tuple[GroupValues, list[Store]]:
    """(values, their stores) of the elements of all outputs at an index in memory."""
    details = outputs[0].details
    values = GroupValues({x: b for x, b in buffers.items() if x not in outputs})
    padded = details.format.is_padded(details.plain_dims)
    plain = clamped(details.format.plain_index(index), details.plain_dims, padded)
    stores = [
        Store(
            buffers[y],
            stored_at(buffers[y], y, index),
            narrow(values.read(y)(plain), y.details.dtype),
        )
        for y in outputs
    ]
    return values, stores


def _lifted(lets: Sequence[Let], last: Var) -> tuple[list[Let], list[Let]]:
    """(bindings that are the same for a whole row, such as the index it is gathered from; the others)."""
    varying, outside, inside = {last.name}, list[Let](), list[Let]()
    for let in lets:
        if varying.isdisjoint(vars_in(let.value)):
            outside.append(let)
        else:
            varying.add(let.var.name)
            inside.append(let)
    return outside, inside


def _blocked(
    index: tuple[Var, ...], dims: Sequence[Size], body: Stmt, axis: int, loops: PointwiseLoops
) -> list[Stmt]:
    """Loops in which a block of the innermost axis is run through for all of `axis` before the next block."""
    last, size, block = index[-1], int(dims[-1]), loops.block
    full, rest = divmod(size, block)
    number = Var(f"{last.name}_block")
    begin = number * block
    inner = For(last, begin, begin + block, body, "vector")
    order = (*index[:axis], number, *index[axis:-1])
    extents = (*dims[:axis], full, *dims[axis:-1])
    nests = [loop_nest(order, extents, inner, False, loops.tasks)]
    if rest:
        inner = For(last, t.as_expr(full * block), t.as_expr(size), body, "vector")
        nests.append(loop_nest(index[:-1], dims[:-1], inner, False, loops.tasks))
    return nests


def _read_axis(values: GroupValues, index: Sequence[Var]) -> int:
    """The axis along which operands that are strided in the last one are contiguous; the one before it if none is."""
    for let in values.lets:
        for load in walk(let.value):
            if isinstance(load, Load) and load.indices:
                found = [
                    i for i, var in enumerate(index[:-1]) if var.name in vars_in(load.indices[-1])
                ]
                if found:
                    return found[-1]
    return max(len(index) - 2, 0)


def reduction_of(tensor: GraphTensor) -> Reduction:
    """The computation of the reduction op that makes `tensor`."""
    found = reduction(tensor.producer_owner)
    assert found is not None
    return found


def clamped(index: Index, dims: Sequence[int], padded: bool) -> Index:
    """Clamps indices of padding elements to the last real one, so that nothing is read out of bounds."""
    if not padded:
        return index
    return tuple(t.minimum(i, t.maximum(size - 1, 0)) for i, size in zip(index, dims, strict=True))


def loop_nest(
    index: Sequence[Var],
    dims: Sequence[Size],
    body: Stmt,
    innermost_vector: bool,
    tasks: Tasks,
) -> Stmt:
    """Loops over `dims`; the outermost that has several trips is split into `tasks` for threads, if there are
    several."""
    kinds: list[LoopKind] = ["serial"] * len(dims)
    if innermost_vector and dims:
        kinds[-1] = "vector"
    several = not isinstance(tasks, int) or tasks > 1
    split = next((axis for axis, size in enumerate(dims) if size != 1), None) if several else None
    for axis in reversed(range(len(dims))):
        var, size = index[axis], dims[axis]
        if axis == split:
            body = _split_loop(var, size, body, kinds[axis], tasks)
        else:
            body = For(var, t.as_expr(0), t.as_expr(size), body, kinds[axis])
    return body


def _split_loop(var: Var, size: Size, body: Stmt, kind: LoopKind, tasks: Tasks) -> Stmt:
    """One contiguous piece of the loop per task; pieces are multiples of 64 so that vectors stay whole.

    Pieces have an element at least, so that there are none of an empty loop.
    """
    unit = 64 if kind == "vector" else 1
    task = Var(f"{var.name}_task")
    piece: Value
    count: Value
    if isinstance(tasks, int) and isinstance(size, int):
        elements = max(-(-size // (tasks * unit)), 1) * unit
        piece, count = elements, -(-size // elements)
    else:
        share = t.as_expr(tasks) * unit
        rounded = (size + share - 1) // share
        piece, count = rounded * unit, tasks
    begin = task * piece
    end = t.minimum(begin + piece, t.as_expr(size))
    inner = For(var, begin, end, body, kind)
    return For(task, t.as_expr(0), t.as_expr(count), inner, "parallel")
