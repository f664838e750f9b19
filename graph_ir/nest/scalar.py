"""Lower a nest whose loops are not tensorized yet: plain loops around one multiply-add, for people and the interpreter.

The result is the same at every step of a schedule, which is what makes the steps comparable.
"""

from __future__ import annotations

from typing import Any

from ...base.dims import is_known
from ...base.errors import UserError
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, For, Let, Stmt, Store, Var
from .nest import Loop, Nest, Stage
from .packing import loop
from .position import Position
from .problem import View
from .stages import epilogue_value

AXES = {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n")}


def lower_scalar(nest: Nest) -> Block:
    """Return the statements of a nest before `tensorize`."""
    return Block(tuple(_Scalar(nest).inside(0, Position.outermost(nest.problem))))


class _Scalar:
    def __init__(self, nest: Nest) -> None:
        self.accumulator = nest.problem.kernel.accumulator
        if not nest.staged("C") and nest.problem.c.buffer.dtype != self.accumulator:
            # C cannot hold accumulators: all of them wait in a local buffer until a step stages C closer.
            first_reduced = next(loop.name for loop in nest.loops if nest.is_reduced(loop))
            depth = nest.depth(first_reduced) - 1
            at = nest.loops[depth - 1].name if depth else "root"
            nest = nest.changed(stages=(*nest.stages, Stage("C", at, "accumulators")))
        self.nest = nest

    def inside(self, depth: int, position: Position) -> list[Stmt]:
        """Return the loops from `depth` on, between what is staged there."""
        at = self.nest.loops[depth - 1].name if depth else "root"
        before: list[Stmt] = []
        after: list[Stmt] = []
        if depth == 0 and not self.nest.staged("C"):
            before.append(self._over(position, ("m", "n"), self._zero, batch=True))
            after.append(self._over(position, ("m", "n"), self._finish, batch=True))
        for stage in self.nest.stages:
            if stage.at == at:
                position, first, last = self._stage(stage, position)
                before += first
                after += last
        return [*before, *self._loops(depth, position), *after]

    def _loops(self, depth: int, position: Position) -> list[Stmt]:
        if depth == len(self.nest.loops):
            return [self._multiply_add(position)]
        loop_ = self.nest.loops[depth]
        if loop_.kind == "chunk":
            return self.inside(depth + 1, position)
        return [self._loop(depth, loop_, position)]

    def _loop(self, depth: int, one: Loop, position: Position) -> Stmt:
        extent, var = position.extents[one.axis], Var(one.name)
        if isinstance(extent, int):
            trips: Any = -(-extent // one.step)
            inner: Any = one.step
            if extent % one.step:
                inner = t.minimum(extent - var * one.step, one.step)
        else:
            trips = (t.as_expr(extent) + (one.step - 1)) // one.step
            inner = t.minimum(t.as_expr(extent) - var * one.step, one.step)
        if one.step == 1:
            inner = 1
        body = self.inside(depth + 1, position.enter(one.axis, var, one.step, inner))
        kind = "parallel" if one.kind == "parallel" else "serial"
        return For(var, t.ZERO, t.as_expr(trips), t.block_of(body), kind)  # type: ignore[arg-type]

    def _multiply_add(self, position: Position) -> Stmt:
        a, b, c = (self._element(position, operand) for operand in "ABC")
        term = t.cast(a, self.accumulator) * t.cast(b, self.accumulator)
        return Store(position.view("C").buffer, (position.offset("C"),), c + term)

    @staticmethod
    def _element(position: Position, operand: str) -> Expr:
        return position.view(operand).buffer[position.offset(operand)]

    def _stage(self, stage: Stage, position: Position) -> tuple[Position, list[Stmt], list[Stmt]]:
        """A dense local of what the loops inside touch: rows and columns of the current tile."""
        rows, columns = AXES[stage.operand]
        width = self._largest(columns, position)
        dtype = (
            self.accumulator if stage.operand == "C" else position.view(stage.operand).buffer.dtype
        )
        local = Buffer(stage.name, dtype, (self._largest(rows, position) * width,), "local")
        inner = position.staged(stage.operand, View(local, {rows: width, columns: 1}))
        allocate = Allocate(local)
        if stage.operand == "C":
            zero = self._over(inner, (rows, columns), self._zero)

            def finish(at: Position) -> Stmt:
                return self._finished(at, self._element(self._entered(inner, at, position), "C"))

            return inner, [allocate, zero], [self._over(position, (rows, columns), finish)]

        def copy(at: Position) -> Stmt:
            to = self._entered(inner, at, position)
            return Store(local, (to.offset(stage.operand),), self._element(at, stage.operand))

        return inner, [allocate, self._over(position, (rows, columns), copy)], []

    def _largest(self, axis: str, position: Position) -> int:
        """The extent of the largest tile on an axis that the loops inside run through."""
        extent = position.extents[axis]
        if isinstance(extent, int):
            return extent
        steps = [one.step for one in self.nest.loops if one.axis == axis and one.step > 1]
        size = self.nest.problem.sizes[axis]
        if not steps and not is_known(size):
            raise UserError(f"schedule: stage: {axis} must be split, as its size is dynamic")
        taken = len(position.terms[axis])
        return steps[taken - 1] if taken else size

    def _over(
        self, position: Position, axes: tuple[str, str], statement: Any, batch: bool = False
    ) -> Stmt:
        """Loops over the current tile of two axes, and over all batch axes, around a statement."""
        own = [*(self.nest.problem.batch if batch else ()), *axes]
        at, variables = position, []
        for axis in own:
            var = Var(f"s{axis}")
            variables.append((var, position.extents[axis]))
            at = at.enter(axis, var, 1, 1)
        body = statement(at)
        for var, extent in reversed(variables):
            body = loop(var, extent, body, "serial")
        return body

    @staticmethod
    def _entered(to: Position, at: Position, position: Position) -> Position:
        """`to`, inside the loops that lead from `position` to `at`."""
        for axis, terms in at.terms.items():
            for iteration, step in terms[len(position.terms[axis]) :]:
                to = to.enter(axis, iteration, step, 1)
        return to

    def _zero(self, at: Position) -> Stmt:
        return Store(at.view("C").buffer, (at.offset("C"),), t.const(0, self.accumulator))

    def _finish(self, at: Position) -> Stmt:
        return self._finished(at, self._element(at, "C"))

    def _finished(self, at: Position, accumulated: Expr) -> Stmt:
        """The epilogue of one element, to C in memory."""
        acc = Var("acc", self.accumulator)
        lets, value = epilogue_value(self.nest, at, acc)
        store = Store(at.view("C").buffer, (at.offset("C"),), value)
        return Block((Let(acc, accumulated), *lets, store))
