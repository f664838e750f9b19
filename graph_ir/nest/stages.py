"""The statements of staged operands: copies of A and B before the loops that read them, accumulators of C."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...base.dims import bounds, is_known
from ...base.errors import InternalError
from ...base.records import dataclass
from ...targets.isa import Target
from ...tensor_ir.nodes import Block, Buffer, Expr, Let, Stmt, Store, Var
from .nest import Nest, Stage
from .packing import copied_rows, loop, pack, pack_blocks, pack_panels, panel_elements
from .position import Position
from .problem import View
from .windows import Box


@dataclass(frozen=True)
class Staged:
    """A local buffer if one must be allocated, the position from which it is used, the statements before and after."""

    buffer: Buffer | None
    position: Position
    before: list[Stmt]
    after: list[Stmt]


def staged(nest: Nest, stage: Stage, position: Position, target: Target) -> Staged | None:
    """Return what a stage does at `position`; None where the operand is read in place after all."""
    make = {"A": _rows_of_a, "B": _panel_of_b, "C": _accumulators}[stage.operand]
    return make(nest, stage, position, target)


def max_rows(nest: Nest) -> int:
    """Return the rows of the largest block, which local buffers have room for."""
    size = nest.problem.sizes["m"]
    step = next(loop.step for loop in nest.loops if loop.axis == "m")
    if step == 1 and isinstance(size, int):
        return size
    return int(min(step, size)) if isinstance(size, int) else step


def _rows_of_a(nest: Nest, stage: Stage, position: Position, target: Target) -> Staged:
    """Rows of A, or a part of an image, in the dtype they are multiplied in."""
    if position.view("A").windows:
        box = Box(nest, stage, position)
        inner = replace(position, extents={**position.extents, "k": box.channels})
        return Staged(box.band, inner.staged("A", box.copied), [box.copy()], [])
    rows, k = (position.extents["m"], max_rows(nest)), position.extents["k"]
    source, kernel = position.here("A"), nest.problem.kernel
    local, copy = copied_rows(source, rows, k, kernel, target, stage.name)
    return Staged(local.buffer, position.staged("A", local), [copy], [])


def _panel_of_b(nest: Nest, stage: Stage, position: Position, target: Target) -> Staged | None:
    """Columns of B in panels as wide as a tile, neighboring k together where one instruction takes them."""
    kernel, (rows, n, k) = nest.problem.kernel, _tile_extents(position)
    if isinstance(n, int) and isinstance(rows, int) and rows <= stage.above:
        return None
    columns = tile_columns(nest, target)
    size, panels = (
        panel_elements(max_depth(nest), columns, kernel),
        _max_panels(nest, stage, columns),
    )
    local = Buffer(stage.name, kernel.copied_b, (panels * size,), "local")
    source = position.here("B")
    if "k" in source.blocks:
        copy = pack_blocks(source, local, k, n, columns, kernel, target.lanes(kernel.accumulator))
    elif isinstance(n, int):
        copy = pack(source, local, k, n, columns, kernel, target)
    else:
        copy = pack_panels(source, local, k, n, columns, target.lanes(kernel.accumulator))
    distance = panel_elements(k, columns, kernel) if panels > 1 else 0
    panel = View(local, {"k": columns, "n": 1}, {"n": (columns, distance)})
    return Staged(local, position.staged("B", panel), copy, [])


def _max_panels(nest: Nest, stage: Stage, columns: int) -> int:
    """The most panels of B that the loops inside a stage read."""
    around = [x.step for x in nest.loops[: nest.depth(stage.at)] if x.axis == "n"]
    return -(-min([bounds(nest.problem.sizes["n"])[1], *around]) // columns)


def _tile_extents(position: Position) -> tuple[Any, Any, Any]:
    """(rows, columns, depth) of the current tile."""
    return position.extents["m"], position.extents["n"], position.extents["k"]


def max_depth(nest: Nest) -> int:
    """Return the depth of the largest block of k."""
    size = nest.problem.reduced["k"]
    if not is_known(size):
        raise InternalError("nest: B is packed in blocks of a k that is known when it is compiled")
    step = next(loop.step for loop in nest.loops if loop.axis == "k")
    return min(step, size) if step > 1 else size


def tile_columns(nest: Nest, target: Target) -> int:
    """Return the columns of a register tile, and of a panel of B."""
    assert nest.tile is not None
    return nest.tile.shape.columns(target, nest.problem.kernel.accumulator)


def _accumulators(nest: Nest, stage: Stage, position: Position, target: Target) -> Staged:
    """Accumulators that wait for the last block of k, then pass through the epilogue to C."""
    dtype, columns = nest.problem.kernel.accumulator, tile_columns(nest, target)
    size = math.prod((max_rows(nest), columns))
    local = Buffer(stage.name, dtype, (size,), "local")
    inner = position.staged("C", View(local, {"m": columns, "n": 1}))
    rows, n, _ = _tile_extents(position)
    return Staged(local, inner, [], [finish(nest, position, local, columns, rows, n)])


def finish(
    nest: Nest, position: Position, local: Buffer, stride: int, rows: Any, columns: Any
) -> Stmt:
    """Return the loops that run the epilogue on `rows` x `columns` accumulators and store them to C at `position`."""
    i, j, acc = Var("fr"), Var("fc"), Var("sum", local.dtype)
    at = position.enter("m", i, 1, 1).enter("n", j, 1, 1)
    lets, value = epilogue_value(nest, at, acc)
    first = Let(acc, local[i * stride + j])
    body = Block((first, *lets, Store(at.view("C").buffer, (at.offset("C"),), value)))
    return loop(i, rows, loop(j, columns, body, "vector"), "serial")


def epilogue_value(nest: Nest, position: Position, acc: Expr) -> tuple[list[Let], Expr]:
    """Return (bindings, value) that C gets for an accumulator at `position`."""
    epilogue = nest.problem.epilogue
    if epilogue is None:
        return [], acc
    return epilogue(tuple(position.start(axis) for axis in nest.problem.free), acc)
