"""The problem of attention, and its matmuls: nests that are lowered head by head and block of rows by block of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...base.dims import substitute
from ...base.records import dataclass
from ...targets.isa import Target
from ...tensor_ir.nodes import Brgemm, Expr, PrefetchHint, Stmt, Var
from ..nest.lower import Lowering
from ..nest.nest import Nest
from ..nest.position import Position
from ..nest.problem import View
from ..nest.stages import Staged


@dataclass(frozen=True)
class AttentionProblem:
    """Sizes: C[rows, width] = work(A[rows, depth] x B[depth, columns]) x D[columns, width], per batch index.

    The batch, rows and columns may be expressions of sizes that are known at run time.
    """

    batch: tuple[Any, ...]
    rows: Any
    columns: Any
    depth: int
    width: int
    a: View
    b: View
    d: View
    c: View

    @property
    def work(self) -> Any:
        """Return the multiply-adds of both matmuls."""
        return math.prod(self.batch) * self.rows * self.columns * (self.depth + self.width)

    def at_size(self, name: str, number: int) -> AttentionProblem:
        """Return the problem for one number of a dynamic size; its buffers keep the shapes they have."""

        def of(value: Any) -> Any:
            return substitute(value, {name: number})

        def operand(view: View) -> View:
            return replace(view, strides={axis: of(x) for axis, x in view.strides.items()})

        return replace(
            self, batch=tuple(map(of, self.batch)), rows=of(self.rows), columns=of(self.columns),
            a=operand(self.a), b=operand(self.b), d=operand(self.d), c=operand(self.c),
        )  # fmt: skip


@dataclass(frozen=True)
class RowBlock:
    """`count` rows of a head, from row number * step on."""

    number: Expr
    step: int
    count: int | Expr

    @property
    def first(self) -> Expr:
        """Return the number of the first row."""
        return self.number * self.step

    def enter(self, head: Position) -> Position:
        """Return the position of the rows in a head."""
        return head.enter("m", self.number, self.step, self.count)


class HeadMatmul(Lowering):
    """Lowers a matmul of attention block by block of rows; `ahead`: matrices of the next head and their sizes, which
    the register tiles of this one prefetch, each its share.

    Heads are contiguous in memory, but hardware prefetchers do not run from one into the next: without hints every
    head starts by waiting for memory.
    """

    def __init__(self, nest: Nest, target: Target, ahead: Sequence[tuple[View, int]] = ()) -> None:
        super().__init__(nest, target)
        self.ahead = ahead

    def head(self, batch: Sequence[Var]) -> Staged:
        """Return the position in the head of a batch index, and the statements that pack B for it."""
        position = Position.outermost(self.nest.problem)
        for var in batch:
            position = position.enter(var.name, var, 1, 1)
        position, before, _ = self.entered(len(batch), position)
        return Staged(None, position, [*self.allocated(), *before], [])

    def tiles(self, position: Position) -> list[Stmt]:
        """Return the register tiles at a position, with prefetch hints."""
        made = super().tiles(position)
        if self.ahead:
            hints = self._hints(position)
            made = [replace(x, prefetch=hints) if isinstance(x, Brgemm) else x for x in made]
        return made

    def _hints(self, position: Position) -> tuple[PrefetchHint, ...]:
        loops, batch = self.nest.loops, self.nest.problem.batch
        blocks, panels = (self.nest.largest(x) for x in loops if x.name in ("m0", "n0"))
        number = position.iteration("m") * panels + position.iteration("n")
        index = [position.start(axis) for axis in batch]
        hints = []
        for matrix, elements in self.ahead:
            stride = matrix.step(batch[-1]) if batch else 0
            if stride:
                part = -(-elements // (blocks * panels))
                address = matrix.of_batch(index, number * part + stride).address()
                hints.append(PrefetchHint(address, part))
        return tuple(hints)
