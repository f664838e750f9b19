"""Lower a nest whose loops are not tensorized yet: plain loops around one multiply-add, for people and the interpreter.

The result is the same at every step of a schedule, which is what makes the steps comparable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...base.dims import is_known
from ...base.errors import UserError
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Block, Buffer, Expr, For, If, Let, Stmt, Store, Var
from .nest import Loop, Nest, Stage
from .packing import loop
from .position import Position
from .problem import View
from .stages import epilogue_value


def lower_scalar(nest: Nest) -> Block:
    """Return the statements of a nest before `tensorize`."""
    return Block(tuple(_Scalar(nest).inside(0, Position.outermost(nest.problem))))


def scalar_task(nest: Nest, position: Position) -> Block:
    """Return the same inside of the loops that lead to a position: those over a batch, blocks and chunks."""
    for chunk in position.chunks.values():
        width, size = nest.problem.b.block_of_columns, nest.problem.sizes["n"]
        end = (chunk.end - chunk.begin) * width
        if chunk.has_tail is not None and size % width:
            end = end + t.select(chunk.has_tail, t.as_expr(size % width), t.ZERO)
        position = position.enter("n", chunk.begin * width, 1, end)
    batch = nest.problem.batch
    # Templates around have names of their own, such as m.
    kept = tuple(
        replace(one, name=f"at_{one.name}")
        for one in nest.loops
        if not (
            position.extents[one.axis] == 1
            if one.axis in batch
            else one.step > 1 and position.terms[one.axis]
        )
    )
    inside = nest.changed(loops=kept, stages=())
    return Block(tuple(_Scalar(inside).inside(0, position)))


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
            axes = tuple(self.nest.problem.free)
            before += [self._over(position, axes, self._zero)] if position.is_first else []
            after += [self._over(position, axes, self._finish)] if position.is_last else []
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
        add = Store(position.view("C").buffer, (position.offset("C"),), c + term)
        return self._inside(position, add, None)

    @staticmethod
    def _inside(position: Position, inside: Stmt, outside: Stmt | None) -> Stmt:
        """`inside` where A has an element at a position, which padding has not."""
        for at, size in position.view("A").outside(position.terms):
            inside = If((at >= 0) & (at < size), inside, outside)
        return inside

    @staticmethod
    def _element(position: Position, operand: str) -> Expr:
        return position.view(operand).buffer[position.offset(operand)]

    def _stage(self, stage: Stage, position: Position) -> tuple[Position, list[Stmt], list[Stmt]]:
        """A dense local of what the loops inside touch: rows and columns of the current tile."""
        axes = self._staged_axes(stage)
        strides: dict[str, Any] = {}
        size = 1
        for axis in reversed(axes):
            strides[axis], size = size, size * self._largest(axis, position)
        dtype = (
            self.accumulator if stage.operand == "C" else position.view(stage.operand).buffer.dtype
        )
        local = Buffer(stage.name, dtype, (size,), "local")
        inner = position.staged(stage.operand, View(local, strides))
        allocate = Allocate(local)
        if stage.operand == "C":
            zero = self._over(inner, axes, self._zero)

            def finish(at: Position) -> Stmt:
                return self._finished(at, self._element(self._entered(inner, at, position), "C"))

            return inner, [allocate, zero], [self._over(position, axes, finish)]

        def copy(at: Position) -> Stmt:
            to = self._entered(inner, at, position).offset(stage.operand)
            element = Store(local, (to,), self._element(at, stage.operand))
            if stage.operand != "A":
                return element
            return self._inside(at, element, Store(local, (to,), t.const(0, dtype)))

        return inner, [allocate, self._over(position, axes, copy)], []

    def _staged_axes(self, stage: Stage) -> tuple[str, ...]:
        """The axes of an operand that a staged buffer has: those with loops inside."""
        loops = self.nest.loops[self.nest.depth(stage.at) :]
        inside = {loop.axis for loop in loops}
        return tuple(x for x in self.nest.problem.axes_of(stage.operand) if x in inside)

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

    @staticmethod
    def _over(position: Position, axes: tuple[str, ...], statement: Any) -> Stmt:
        """Loops over the current tile of some axes around a statement."""
        at, variables = position, []
        for axis in axes:
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
