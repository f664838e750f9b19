"""Matmuls of groups of rows with a matrix each; the ends of groups are known at run time.

    for each panel of columns, for each group (parallel):
      begin, end of the group: the largest end before it, and its own
      whole register tiles of rows in a loop, then a lower one, or two of nearly equal height
      after the last group: rows of none are 0

Neighboring tasks are the groups of one panel: threads share the columns of every group, however unequal groups are.
"""

from __future__ import annotations

from dataclasses import replace

from ...base.dtypes import S64
from ...base.records import dataclass
from ...targets.isa import GemmTile, Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function
from ..nest.lower import Lowering
from ..nest.position import Position
from ..nest.problem import Contraction
from ..schedule.matmul_steps import inner_nest


@dataclass(frozen=True)
class GroupedProblem:
    """`panel`: all rows times the first panel of the first group; `ends` [groups]; each group has `panels`."""

    panel: Contraction
    ends: Buffer
    groups: int
    panels: int


def grouped_matmul_function(
    name: str, problem: GroupedProblem, tile: GemmTile, target: Target, tasks: int, note: str
) -> Function:
    """(a, b, ends, c) -> None."""
    p, one = problem, problem.panel
    groups, width = p.groups, one.sizes["n"]
    params = one.a.buffer, one.b.buffer, p.ends, one.c.buffer
    b = t.LoopBuilder(x.name for x in params)
    if not groups:
        with b.loop("i", 0, one.c.buffer.shape[0], "vector") as i:
            b.store(one.c.buffer, (i,), 0.0)
    with b.loop("task", 0, groups * p.panels, "parallel" if tasks > 1 else "serial") as task:
        group = b.let("group", task % groups)
        panel = b.let("panel", task // groups)
        low = _largest_end(b, p, group)
        end = b.let("end", t.maximum(low, _end(b, p, group)))
        count = b.let("count", end - low)
        weights = one.b.at((group * p.panels + panel) * (one.sizes["k"] * width))
        here = replace(one, b=weights, c=one.c.at(panel * width))
        rows = Position.outermost(here).enter("m", low, 1, count)
        # The height of tiles says how sums are split: the same for any number of rows.
        b.emit(Lowering(inner_nest("group", here, tile, target, exact=True), target).task(0, rows))
        with (
            b.when(t.equal(group, groups - 1)),
            b.loop("row", end, one.sizes["m"]) as row,
            b.loop("j", 0, width, "vector") as j,
        ):
            b.store(one.c.buffer, (here.c.base + (row * one.c.step("m") + j),), 0.0)
    return b.function(name, params, note)


def _end(b: t.LoopBuilder, p: GroupedProblem, group: Expr) -> Expr:
    """Return the end of a group, clamped to the number of rows."""
    end = t.cast(p.ends[group], S64)
    return t.minimum(t.maximum(end, 0), p.panel.sizes["m"])


def _largest_end(b: t.LoopBuilder, p: GroupedProblem, group: Expr) -> Expr:
    """The first row that no group before this one has."""
    low = b.allocate("low", S64, (1,))
    b.store(low, (0,), 0)
    with b.loop("before", 0, group) as before:
        b.store(low, (0,), t.maximum(low[0], _end(b, p, before)))
    return b.let("begin", low[0])
