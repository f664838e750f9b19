"""Matmuls of groups of rows with a matrix each; the ends of groups are known at run time.

    for each panel of columns, for each group (parallel):
      begin, end of the group: the largest end before it, and its own
      whole register tiles of rows in a loop, then a lower one, or two of nearly equal height
      after the last group: rows of none are 0

Neighboring tasks are the groups of one panel: threads share the columns of every group, however unequal groups are.
"""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import S64
from ...base.records import dataclass
from ...targets.isa import GemmTile, Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Stmt
from ..nest.problem import View
from ..nest.register_tile import RegisterTile
from ..nest.row_tiles import TileHeight


@dataclass(frozen=True)
class GroupedProblem:
    """a [rows, k], b [groups, panels, k, width], ends [groups], c [rows, panels * width], in flat buffers."""

    a: Buffer
    b: Buffer
    ends: Buffer
    c: Buffer
    rows: Size
    groups: int
    panels: int
    k: int
    width: int
    kernel: Microkernel


def grouped_matmul_function(
    name: str, problem: GroupedProblem, tile: GemmTile, columns: int, tasks: int, note: str
) -> Function:
    """(a, b, ends, c) -> None. `columns`: those of a register tile."""
    p = problem
    groups, width = p.groups, p.width
    b = t.LoopBuilder(x.name for x in (p.a, p.b, p.ends, p.c))
    if not groups:
        with b.loop("i", 0, p.c.shape[0], "vector") as i:
            b.store(p.c, (i,), 0.0)
    with b.loop("task", 0, groups * p.panels, "parallel" if tasks > 1 else "serial") as task:
        group = b.let("group", task % groups)
        panel = b.let("panel", task // groups)
        low = _largest_end(b, p, group)
        end = b.let("end", t.maximum(low, _end(b, p, group)))
        count = b.let("count", end - low)
        for start in range(0, width, columns):
            b.emit(_columns(p, tile, (group, panel), low, count, start, columns))
        with b.when(t.equal(group, groups - 1)):
            first = panel * width
            with b.loop("row", end, p.rows) as row, b.loop("j", 0, width, "vector") as j:
                b.store(p.c, (row * (p.panels * width) + (first + j),), 0.0)
    return b.function(name, (p.a, p.b, p.ends, p.c), note)


def _end(b: t.LoopBuilder, p: GroupedProblem, group: Expr) -> Expr:
    """Return the end of a group, clamped to the number of rows."""
    end = t.cast(p.ends[group], S64)
    return t.minimum(t.maximum(end, 0), p.rows)


def _largest_end(b: t.LoopBuilder, p: GroupedProblem, group: Expr) -> Expr:
    """The first row that no group before this one has."""
    low = b.allocate("low", S64, (1,))
    b.store(low, (0,), 0)
    with b.loop("before", 0, group) as before:
        b.store(low, (0,), t.maximum(low[0], _end(b, p, before)))
    return b.let("begin", low[0])


def _columns(
    p: GroupedProblem, tile: GemmTile, where: tuple[Expr, Expr], first: Expr, count: Expr, start: int, columns: int
) -> Stmt:  # fmt: skip
    """The rows of one group, `count` from `first` on, times columns of a panel from `start` on."""
    group, panel = where
    row, of_panel = p.panels * p.width, group * p.panels + panel
    a = View(p.a, {"m": p.k, "k": 1}, base=first * p.k)
    b = View(p.b, {"k": p.width}, base=of_panel * (p.k * p.width) + start)
    c = View(p.c, {"m": row}, base=first * row + (panel * p.width + start))
    n = min(columns, p.width - start)
    return RegisterTile(a, b, c, count, n, p.k, p.kernel, TileHeight(tile.rows)).statement()
