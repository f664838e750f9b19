"""Products of groups of rows with a matrix each; where groups end is known when the product runs.

    for each panel of columns, for each group (parallel):
      begin, end of the group: the largest end before it, and its own
      whole register tiles of rows in a loop, then a lower one, or two of nearly equal height
      after the last group: rows of none are 0

Neighbouring tasks are the groups of one panel: threads share the columns of every group, however unequal groups are.
"""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import S64
from ...base.records import dataclass
from ...base.target import GemmTile
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Brgemm, Buffer, Expr, Function, Slice, Stmt
from ..nest.row_tiles import row_tiles


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
            product = _Product(p, tile, group, panel, low, start, min(columns, width - start))
            b.emit(row_tiles(count, tile.rows, product.tile_of))
        with b.when(t.equal(group, groups - 1)):
            first = panel * width
            with b.loop("row", end, p.rows) as row, b.loop("j", 0, width, "vector") as j:
                b.store(p.c, (row * (p.panels * width) + (first + j),), 0.0)
    return b.function(name, (p.a, p.b, p.ends, p.c), note)


def _end(b: t.LoopBuilder, p: GroupedProblem, group: Expr) -> Expr:
    """What `ends` says of a group, in the rows there are."""
    end = t.cast(p.ends[group], S64)
    return t.minimum(t.maximum(end, 0), p.rows)


def _largest_end(b: t.LoopBuilder, p: GroupedProblem, group: Expr) -> Expr:
    """The first row that no group before this one has."""
    low = b.allocate("low", S64, (1,))
    b.store(low, (0,), 0)
    with b.loop("before", 0, group) as before:
        b.store(low, (0,), t.maximum(low[0], _end(b, p, before)))
    return b.let("begin", low[0])


@dataclass(frozen=True)
class _Product:
    """The rows of one group times some columns of a panel."""

    p: GroupedProblem
    tile: GemmTile
    group: Expr
    panel: Expr
    first: Expr
    start: int
    columns: int

    def tile_of(self, at: Expr, rows: int) -> Stmt:
        """One microkernel."""
        p = self.p
        row = self.first + at
        of_panel = self.group * p.panels + self.panel
        column = self.panel * p.width + self.start
        n = p.panels * p.width
        return Brgemm(
            Slice(p.c, (row * n + column,)),
            Slice(p.a, (row * p.k,)),
            Slice(p.b, (of_panel * (p.k * p.width) + self.start,)),
            rows, self.columns, p.k, 1, 0, p.k, 1, 0, p.width, n, False, self.columns, None,
            self.tile.rows,
        )  # fmt: skip
