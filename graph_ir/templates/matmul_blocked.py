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
from ...tensor_ir.nodes import Allocate, Block, Brgemm, Expr, For, If, Slice, Stmt, Store, Var
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
            whole = self._rows_of_block(t.add(row, t.mul(number, BLOCK)), BLOCK, panel, columns, k0)
            body.append(loop(number, full, whole, "serial"))
        if rest:
            body.append(self._rows_of_block(t.add(row, full * BLOCK), rest, panel, columns, k0))
        return Block(tuple(body))

    def _turned(self, panel: Expr, columns: int, k0: int) -> list[Stmt]:
        """Blocks of B as a panel: neighbouring columns beside each other, in groups of k, and zeros."""
        b, local, depth = self.problem.b, self._local_panel(), self._depth(k0)
        first = t.add(t.mul(panel, AREA), b.row * (k0 // BLOCK))
        body: list[Stmt] = []
        if columns < self.columns or depth % self.kernel.k_group:
            z = Var("pz")
            zero = Store(local, (z,), t.const(0, local.dtype))
            body.append(loop(z, local.elements, zero, "vector"))
        full, rest = divmod(depth, BLOCK)
        number = Var("kb")
        if full:
            start = t.add(first, t.mul(number, b.row))
            copy = self._turned_block(start, t.mul(number, BLOCK * self.columns), columns, BLOCK)
            body.append(loop(number, full, copy, "serial"))
        if rest:
            start = t.add(first, b.row * full)
            to = t.as_expr(full * BLOCK * self.columns)
            body.append(self._turned_block(start, to, columns, rest))
        return body

    def _turned_block(self, start: Expr, to: Expr, columns: int, depth: int) -> Stmt:
        """One block of B, of which `columns` and `depth` of k are elements."""
        b, local, group = self.problem.b, self._local_panel(), self.kernel.k_group
        k, j = Var("pk"), Var("pj")
        source = self._slice(b, t.add(start, t.add(t.mul(j, BLOCK), k)))
        value = t.cast(t.load(b.buffer, source.indices), local.dtype)
        place = t.add(t.mul(t.floordiv(k, group), self.columns * group), t.mod(k, group))
        store = Store(local, (t.add(to, t.add(place, t.mul(j, group))),), value)
        inner = loop(j, columns, store, "vector" if group == 1 else "serial")
        return loop(k, depth, inner, "serial")

    def _rows_of_block(self, row: Expr, rows: int, panel: Expr, columns: int, k0: int) -> Stmt:
        """Up to 16 rows of a column of blocks of C: whole blocks of k as a batch, then the rest."""
        full, rest = divmod(self._depth(k0), BLOCK)
        parts = [(0, full, BLOCK)] * bool(full) + [(full, 1, rest)] * bool(rest)
        ends = k0 + self._depth(k0) == self.problem.k
        products = [
            self._block_product(row, rows, panel, columns, k0, part, ends and part is parts[-1])
            for part in parts
        ]
        return t.block_of(products)

    def _block_product(
        self, row: Expr, rows: int, panel: Expr, columns: int, k0: int, part: tuple[int, int, int],
        is_last: bool,
    ) -> Brgemm:  # fmt: skip
        """`part`: (first block, number of blocks, k of each) of the block of k."""
        p, local, group = self.problem, self._local_panel(), self.kernel.k_group
        first, count, k = part
        a = t.add(t.mul(row, p.a.row // BLOCK), (k0 // BLOCK + first) * AREA)
        c = t.add(t.mul(row, p.c.row // BLOCK), t.mul(panel, AREA))
        b = Slice(local, (t.as_expr(first * BLOCK * self.columns),))
        epilogue = None
        if is_last and self.epilogue is not None:
            epilogue = self._epilogue(row, t.mul(panel, self.columns))
        return Brgemm(
            self._slice(p.c, c), self._slice(p.a, a), b, rows, columns, k, count, AREA, BLOCK, 1,
            BLOCK * self.columns, self.columns * group, BLOCK, k0 > 0 or first > 0, self.columns,
            epilogue, min(rows, self.blocking.tile.rows), (), group,
        )  # fmt: skip

    def _depth(self, k0: int) -> int:
        """Terms of the block of k that begins at `k0`."""
        return int(min(self.k_block, self.problem.k - k0))
