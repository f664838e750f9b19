"""Loop nest of a matrix product whose operands and result lie in blocks of 16 by 16.

    for each batch, group of panels, block of rows (parallel):
      for each block of k, for each column of blocks of C:
        turn the column of blocks of B into a panel: KN16n16k has k innermost, registers take neighbouring n
        for each 16 rows:
          C[rows, 16] (+)= sum over blocks of k of A[rows, 16] x panel[16, 16]        one Brgemm

A block of A or C is contiguous, which is what a batch of small products wants. The panel is made in every run, one load
and store for each element and block of rows. Padding is neither multiplied nor written.
"""

from __future__ import annotations

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Brgemm,
    Buffer,
    Epilogue,
    Expr,
    For,
    If,
    Let,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..schedule.matmul_blocks import BLOCK
from .matmul import MatmulTemplate
from .packing import loop

AREA = BLOCK * BLOCK


class BlockedTemplate(MatmulTemplate):
    """A product of blocks: `row` of an operand is the size of a row of its blocks."""

    def _panels(
        self,
        row: Expr,
        rows: int | Expr,
        begin: Expr,
        end: Expr,
        has_rest: bool,
        is_last: Expr | None,
    ) -> Stmt:
        assert isinstance(rows, int)
        steps: list[Stmt] = [Allocate(self._local_panel())]
        full, rest = divmod(self.problem.n, self.columns)
        for k0 in self._k_starts():
            panel = Var("nb")
            steps.append(For(panel, begin, end, self._panel(row, rows, panel, self.columns, k0)))
            if has_rest:
                narrow = self._panel(row, rows, t.as_expr(full), rest, k0)
                steps.append(If(is_last, narrow) if is_last is not None else narrow)
        return Block(tuple(steps))

    def _panel(self, row: Expr, rows: int, panel: Expr, columns: int, k0: int) -> Stmt:
        """One column of blocks of C over a block of k."""
        full, rest = divmod(rows, BLOCK)
        number, body = Var("rb"), self._turned(panel, columns, k0)
        if full:
            whole = self._rows_of_block(row + number * BLOCK, BLOCK, panel, columns, k0)
            body.append(loop(number, full, whole, "serial"))
        if rest:
            body.append(self._rows_of_block(row + full * BLOCK, rest, panel, columns, k0))
        return Block(tuple(body))

    def _turned(self, panel: Expr, columns: int, k0: int) -> list[Stmt]:
        """Blocks of B as a panel: neighbouring columns beside each other, in groups of k, and zeros."""
        b, local, depth = self.problem.b, self._local_panel(), self._depth(k0)
        first = panel * AREA + b.row * (k0 // BLOCK)
        body: list[Stmt] = []
        if columns < self.columns or depth % self.kernel.k_group:
            z = Var("pz")
            zero = Store(local, (z,), t.const(0, local.dtype))
            body.append(loop(z, local.elements, zero, "vector"))
        full, rest = divmod(depth, BLOCK)
        number = Var("kb")
        if full:
            start = first + number * b.row
            copy = self._turned_block(start, number * (BLOCK * self.columns), columns, BLOCK)
            body.append(loop(number, full, copy, "serial"))
        if rest:
            start = first + b.row * full
            to = t.as_expr(full * BLOCK * self.columns)
            body.append(self._turned_block(start, to, columns, rest))
        return body

    def _turned_block(self, start: Expr, to: Expr, columns: int, depth: int) -> Stmt:
        """One block of B, of which `columns` and `depth` of k are elements."""
        b, local, group = self.problem.b, self._local_panel(), self.kernel.k_group
        k, j = Var("pk"), Var("pj")
        source = self._slice(b, start + (j * BLOCK + k))
        value = t.cast(b.buffer[source.indices], local.dtype)
        place = k // group * (self.columns * group) + k % group
        store = Store(local, (to + (place + j * group),), value)
        inner = loop(j, columns, store, "vector" if group == 1 else "serial")
        return loop(k, depth, inner, "serial")

    def _rows_of_block(self, row: Expr, rows: int, panel: Expr, columns: int, k0: int) -> Stmt:
        """Up to 16 rows of a column of blocks of C: whole blocks of k as a batch, then the rest.

        Where there is a rest and C cannot hold the sums, they wait for it in a local block.
        """
        full, rest = divmod(self._depth(k0), BLOCK)
        parts = [(0, full, BLOCK)] * bool(full) + [(full, 1, rest)] * bool(rest)
        c = self._block_of_c(row, panel)
        ends = k0 + self._depth(k0) == self.problem.k and self.epilogue is not None
        if len(parts) == 1 or c.buffer.dtype == self.accumulator:
            epilogue = self._epilogue(row, panel * self.columns) if ends else None
            return t.block_of(
                self._block_product(
                    c, row, rows, columns, k0, part, epilogue if part is parts[-1] else None
                )
                for part in parts
            )
        sums = Slice(Buffer("sums", self.accumulator, (AREA,), "local"), (t.as_expr(0),))
        products = [self._block_product(sums, row, rows, columns, k0, part, None) for part in parts]
        return Block(
            (Allocate(sums.buffer), *products, self._stored(sums.buffer, row, rows, panel, columns))
        )

    def _block_product(
        self, c: Slice, row: Expr, rows: int, columns: int, k0: int, part: tuple[int, int, int],
        epilogue: Epilogue | None,
    ) -> Brgemm:  # fmt: skip
        """`part`: (first block, number of blocks, k of each) of the block of k."""
        p, local, group = self.problem, self._local_panel(), self.kernel.k_group
        first, count, k = part
        a = row * (p.a.row // BLOCK) + (k0 // BLOCK + first) * AREA
        b = Slice(local, (t.as_expr(first * BLOCK * self.columns),))
        return Brgemm(
            c, self._slice(p.a, a), b, rows, columns, k, count, AREA, BLOCK, 1,
            BLOCK * self.columns, self.columns * group, BLOCK, k0 > 0 or first > 0, self.columns,
            epilogue, min(rows, self.blocking.tile.rows), (), group,
        )  # fmt: skip

    def _stored(self, sums: Buffer, row: Expr, rows: int, panel: Expr, columns: int) -> Stmt:
        """The epilogue of the sums of a block, into C."""
        assert self.epilogue is not None
        i, j, c = Var("fr"), Var("fc"), self._block_of_c(row, panel)
        column, sum_ = panel * self.columns, Var("sum", self.accumulator)
        place = i * BLOCK + j
        lets, value = self.epilogue((*self.batch_vars, row + i, column + j), sum_)
        store = Store(c.buffer, (c.indices[0] + place,), value)
        body = Block((Let(sum_, sums[place]), *lets, store))
        return loop(i, rows, loop(j, columns, body, "vector"), "serial")

    def _block_of_c(self, row: Expr, panel: Expr) -> Slice:
        """Where the block of C begins that holds a row of a column of blocks."""
        c = self.problem.c
        return self._slice(c, row * (c.row // BLOCK) + panel * AREA)

    def _depth(self, k0: int) -> int:
        """Terms of the block of k that begins at `k0`."""
        return int(min(self.k_block, self.problem.k - k0))
