"""Loop nest of repeated elements: vectors of a row are read once, and each is written as several, by shuffles.

for every row of the result:
    for vectors of the row it comes from: load; for each of `count` vectors: shuffle, store
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, Function, Load, Shuffle, Stmt, Store, Var
from .loops import Tasks, loop_nest


def repeat_rows(
    name: str,
    buffers: tuple[Buffer, Buffer],
    dims: Sequence[int],
    counts: Sequence[int],
    lanes: int,
    tasks: Tasks,
    note: str,
) -> Function:
    """The function (x, y) of flat buffers: x of `dims` elements, each repeated `counts` times along each axis."""
    x, y = buffers
    index = tuple(Var(f"i{axis}") for axis in range(len(dims) - 1))
    sizes = [n * count for n, count in zip(dims, counts, strict=True)]
    source: Expr = t.as_expr(0)
    target: Expr = t.as_expr(0)
    for axis, i in enumerate(index):
        source = source * dims[axis] + i // counts[axis]
        target = target * sizes[axis] + i
    b = t.LoopBuilder((x.name, y.name, *(i.name for i in index)))
    first = b.let("source", source * dims[-1])
    begin = b.let("target", target * sizes[-1])
    full, rest = divmod(dims[-1], lanes)
    count = counts[-1]
    if full:
        with b.loop("column", 0, full * lanes, step=lanes) as column:
            at = begin + column * count
            b.emit(*_vectors(x, y, first + column, at, count, lanes, lanes))
    if rest:
        done = full * lanes
        at = begin + done * count
        with b.block():
            b.emit(*_vectors(x, y, first + done, at, count, lanes, rest))
    nest = loop_nest(index, sizes[:-1], b.body(), False, tasks)
    return Function(name, buffers, Block((nest,)) if math.prod(sizes) else Block(()), note)


def _vectors(
    x: Buffer, y: Buffer, source: Expr, target: Expr, count: int, lanes: int, active: int
) -> list[Stmt]:
    """`active` elements from `source` on, each repeated."""
    vector = Load(x, (source,), lanes, active if active < lanes else None)
    stores: list[Stmt] = []
    for number in range(-(-active * count // lanes)):
        left = active * count - number * lanes
        pattern = tuple((number * lanes + lane) // count for lane in range(lanes))
        value = Shuffle(vector, vector, pattern) if count > 1 else vector
        index = (target + number * lanes,)
        stores.append(Store(y, index, value, left if left < lanes else None))
    return stores
