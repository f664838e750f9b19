"""Lower a scheduled nest to statements: every loop exists once, the last iteration of a split loop apart.

task loops (parallel)      `tasks`
  stages at this loop      `stages`: copies of A and B, accumulators of C
  loops                    full tiles in a loop, then the rest; reduced loops of known extent are unrolled
    register tiles         `tile`
"""

from __future__ import annotations

from typing import Any

from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, For, If, Stmt, Var
from .nest import Loop, Nest, Stage
from .position import Position
from .scalar import lower_scalar, scalar_task
from .stages import Staged, staged
from .tasks import clamped, task_loops
from .tile import register_tiles


def lower(nest: Nest, target: Target) -> Stmt:
    """Return the statements of a nest: plain loops while its innermost ones are not tensorized."""
    body, otherwise = Lowering(nest, target).statement(), nest.otherwise
    if otherwise is None:
        return body
    size = t.as_expr(nest.any_size.problem.sizes[otherwise.axis])
    return If(t.equal(size, otherwise.size), body, lower(otherwise.nest, target))


class Lowering:
    """Lowers the loops of one task; local buffers are allocated once per task, as stacks are small."""

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest, self.target = nest, target
        self.outer = nest.loops[: len(nest.loops) - len(nest.tile.loops)] if nest.tile else ()
        self.locals: dict[str, Buffer] = {}

    def statement(self) -> Stmt:
        """Return the whole nest."""
        problem = self.nest.problem
        if self.nest.tile is None:
            return lower_scalar(self.nest)
        loops = task_loops(self.nest, Position.outermost(problem), self.task)
        return Block((*problem.lets, loops)) if problem.lets else loops

    def depth_of(self, loop: str) -> int:
        """Return how many loops enclose the body of a loop, none of plain loops, which have no such loop yet."""
        return self.nest.depth(loop) if self.nest.tile else 0

    def stage(self, stage: Stage, position: Position) -> Staged | None:
        """Return what a stage does at `position`."""
        return staged(self.nest, stage, position, self.target)

    def tiles(self, position: Position) -> list[Stmt]:
        """Return the register tiles at `position`."""
        if self.nest.tile is None:
            return [scalar_task(self.nest, position)]
        return register_tiles(self.nest, position, self.target, self.locals)

    def whole_panels(self, position: Position, width: int, begin: Expr, end: Expr) -> list[Stmt]:
        """Return the register tiles of panels `begin` to `end` of B, all of which are packed to their `width`."""
        number, columns = Var("n0"), position.extents["n"]
        size: int | Expr = width
        if self.nest.tile is None:  # plain loops end with the columns
            size = t.minimum(t.as_expr(columns) - number * width, width)
        tiles = self.tiles(position.enter("n", number, width, size))
        return [*self.allocated(), For(number, begin, end, t.block_of(tiles))]

    def task(self, depth: int, position: Position) -> Stmt:
        """Return the loops from `depth` on, for one task."""
        if self.nest.tile is None:
            return scalar_task(self.nest, position)
        body = self._inside(depth, position)
        return Block((*self.allocated(), *body))

    def allocated(self) -> list[Stmt]:
        """Return the allocations of the local buffers that statements since the last call use."""
        allocated: list[Stmt] = [Allocate(buffer) for buffer in self.locals.values()]
        self.locals = {}
        return allocated

    def _inside(self, depth: int, position: Position) -> list[Stmt]:
        """Return the loops from `depth` on, between the statements of what is staged there."""
        position, before, after = self.entered(depth, position)
        return [*before, *self._loop(depth, position), *after]

    def entered(self, depth: int, position: Position) -> tuple[Position, list[Stmt], list[Stmt]]:
        """Return (position, statements before, statements after) of what is staged outside of the loops from `depth`
        on."""
        at = self.nest.loops[depth - 1].name if depth else "root"
        before: list[Stmt] = []
        after: list[Stmt] = []
        for stage in self.nest.stages if self.nest.tile else ():
            if stage.at == at:
                made = self.stage(stage, position)
                if made is not None:
                    if made.buffer is not None:
                        self.locals[made.buffer.name] = made.buffer
                    position = made.position
                    before += made.before
                    after += made.after
        return position, before, after

    def _loop(self, depth: int, position: Position) -> list[Stmt]:
        if depth == len(self.outer):
            return self.tiles(position)
        loop = self.outer[depth]
        if self.nest.is_reduced(loop):
            return self._reduced(depth, loop, position)
        if loop.axis == "y":
            return self._clamped(depth, loop, position)
        return self._free(depth, loop, position)

    def _clamped(self, depth: int, loop: Loop, position: Position) -> list[Stmt]:
        """All iterations in one loop; the last one has fewer inside."""
        trips, inner, var = clamped(position, loop)
        if isinstance(trips, int) and trips == 1:
            return self._inside(depth + 1, inner)
        return [For(var, t.ZERO, t.as_expr(trips), t.block_of(self._inside(depth + 1, inner)))]

    def _reduced(self, depth: int, loop: Loop, position: Position) -> list[Stmt]:
        """One copy of the body per iteration: the first starts the sums, the last runs the epilogue."""
        extent = position.extents[loop.axis]
        if not isinstance(extent, int) or extent <= loop.step:
            return self._inside(depth + 1, position)
        body: list[Stmt] = []
        for start in range(0, extent, loop.step):
            inner = position.reduced(start == 0, start + loop.step >= extent)
            iteration, size = t.as_expr(start // loop.step), min(loop.step, extent - start)
            body += self._inside(depth + 1, inner.enter(loop.axis, iteration, loop.step, size))
        return body

    def _free(self, depth: int, loop: Loop, position: Position) -> list[Stmt]:
        """The iterations with a full tile in a loop, then the one whose tile is not full."""
        full, rest = tiles_of(position.extents[loop.axis], loop.step)
        chunk = position.chunks.get(loop.name)
        begin, end = (chunk.begin, chunk.end) if chunk else (t.ZERO, t.as_expr(full))
        body: list[Stmt] = []
        if not (isinstance(full, int) and full == 0):
            var = Var(loop.name)
            inner = position.enter(loop.axis, var, loop.step, loop.step)
            body.append(For(var, begin, end, t.block_of(self._inside(depth + 1, inner))))
        if isinstance(rest, int) and rest == 0:
            return body
        tail = self._inside(depth + 1, position.enter(loop.axis, t.as_expr(full), loop.step, rest))
        conditions = [chunk.has_tail] if chunk and chunk.has_tail is not None else []
        if not isinstance(rest, int):
            conditions.append(rest > 0)
        for condition in conditions:
            tail = [If(condition, t.block_of(tail))]
        return [*body, *tail]


def tiles_of(extent: Any, step: Any) -> tuple[Any, Any]:
    """Return (number of full tiles, extent of the rest), as numbers where they are known."""
    if isinstance(extent, int) and isinstance(step, int):
        return divmod(extent, step)
    whole: Expr = t.as_expr(extent)
    return whole // step, whole % step
