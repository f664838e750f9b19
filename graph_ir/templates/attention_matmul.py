"""A matmul of attention: a nest that the template lowers head by head and block of rows by block of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...targets.isa import Target
from ...tensor_ir.nodes import Brgemm, Expr, PrefetchHint, Stmt, Var
from ..nest.lower import Lowering
from ..nest.nest import Nest
from ..nest.position import Position
from ..nest.problem import View
from ..nest.stages import Staged


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

    def block(self, first: tuple[Expr, int], rows: int | Expr, head: Position, panel: View) -> Stmt:
        """Return the matmul of `rows` rows of a head from number * step = `first` on."""
        return self.task(self.depth_of("m0"), self.rows_at(first, rows, head, panel))

    @staticmethod
    def rows_at(first: tuple[Expr, int], rows: int | Expr, head: Position, panel: View) -> Position:
        """Return the position of these rows, with the panel as C or A."""
        return head.enter("m", *first, rows).staged("C" if "n" in panel.strides else "A", panel)

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
