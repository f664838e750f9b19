"""Rows of bytes times packed weights in two-dimensional registers: exact sums of groups, which vectors scale.

    for each block of groups of k: the signed bytes of a panel, Q - zero
        for each 16 rows: for each group: sums = X * (Q - zero); then acc += sums * scales

The scaled sums are those of dot products in registers, bit for bit: a row does not depend on how many there are. Each
row of a group takes three or four vector instructions behind its tiles, so that panels of bf16, which need none, are
faster for many rows.
"""

from __future__ import annotations

import math

from ...base.dtypes import F32, S8, S32
from ...base.records import dataclass
from ...targets.isa import Target
from ...targets.microkernels import microkernels
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from ..nest.packing import loop
from ..nest.problem import View
from ..nest.register_tile import RegisterTile as GemmTile
from ..nest.row_tiles import TileHeight
from ..schedule.matmul_nbits import SCALED
from .nbits_rows import GivenRows
from .nbits_tile import Means, RegisterTile, row_runs
from .packed_weights import WeightPanel


@dataclass(frozen=True)
class SignedRows(GivenRows):
    """Rows of bytes that are multiplied by levels less their zero point, where one serves all weights."""

    @property
    def has_starts(self) -> bool:
        """Return whether nothing is subtracted from sums."""
        return self.weights.has_one_zero

    def prepared(self, rows: int | Expr) -> list[Stmt]:
        """Compute the sums of groups that zero points or minima are multiplied by, if there are any."""
        is_needed = self.weights.has_minima or not self.has_starts
        return super().prepared(rows) if is_needed else []


class ByteTiles:
    """At most `most` rows of bytes times one panel of `vectors` vectors; the sums are in `acc`."""

    def __init__(
        self, x: GivenRows, weights: WeightPanel, vectors: int, fetches: bool, target: Target
    ) -> None:
        self.kernel = next(
            one for one in microkernels(S8, S8, target, tiles=True) if one.uses_tiles
        )
        shape = self.kernel.registers
        assert shape is not None
        self.x, self.weights, self.vectors, self.fetches = x, weights, vectors, fetches
        self.shape = shape
        self.columns, self.lanes = weights.columns, weights.lanes
        self.means = Means(False, target.table.has_fma, 0)
        self.width = max(x.step, shape.row_bytes)
        self.shared = self.width // x.step
        self.tiles = math.ceil(x.most / shape.rows)
        self.group_sums = shape.rows * self.columns
        rows, sums = self.tiles * shape.rows, 2 * self.tiles * self.shared * self.group_sums
        self.rows = Buffer("x_bytes", S8, (rows * x.groups * self.width,), "local")
        self.bytes = Buffer("w_bytes", S8, (2 * self.width * self.columns,), "local")
        self.sums = Buffer("group_sums", S32, (sums,), "local")
        self.acc = Buffer("row_sums", F32, (rows, self.columns), "local")
        self.kinds = 2 + weights.weights.has_minima
        self.block_factors = self.shared * self.kinds * self.columns
        self.factors = Buffer("w_factors", F32, (4 * self.block_factors,), "local")

    @property
    def buffers(self) -> list[Buffer]:
        """Return the local buffers that `statements` uses."""
        return [self.bytes, self.sums, self.acc, self.factors]

    def copied(self, m: int | Expr) -> list[Stmt]:
        """Copy the rows as registers are loaded: a register for each group of 16 rows, with zeros around the group.

        Rows behind the last are undefined.
        """
        row, group, k, step, height = Var("br"), Var("bg"), Var("bk"), self.x.step, self.shape.rows
        at = ((row // height * self.x.groups + group) * height + row % height) * self.width
        body: list[Stmt] = []
        if self.shared > 1:
            zero = Store(self.rows, (at + k,), t.const(0, S8))
            body.append(loop(k, self.width, zero, "vector"))
        inside = at + group % self.shared * step + k
        copy = Store(self.rows, (inside,), self.x.number(row, group * step + k))
        body.append(loop(k, step, copy, "vector"))
        groups = loop(group, self.x.groups, Block(tuple(body)), "serial")
        return [Allocate(self.rows), loop(row, m, groups, "serial")]

    def statements(self, m: int | Expr) -> list[Stmt]:
        """Leave the sums of `m` rows in `acc`."""
        row, number, tile = Var("br"), Var("bn"), Var("bt")
        zero = t.const(0.0, F32, self.lanes)
        zeros = [
            Store(self.acc, (row, t.as_expr(v * self.lanes)), zero) for v in range(self.vectors)
        ]
        blocks, height = self.x.groups // self.shared, self.shape.rows
        start = Var("bs")
        scaled = self._scaled(start, tile, self._rows_of(start, m), number - 2)
        of_tile = (
            Let(start, tile * height),
            If(number >= 2, t.block_of(scaled)),
            If((number >= 1) & (number <= blocks), self._multiplied(start, tile, number - 1)),
        )
        tiles = loop(tile, (m + height - 1) // height, Block(of_tile), "serial")
        body = Block((If(number < blocks, self._copied_block(number)), tiles))
        return [
            loop(row, m, Block(tuple(zeros)), "serial"),
            loop(number, blocks + 2, body, "serial"),
        ]

    def _rows_of(self, start: Expr, m: int | Expr) -> int | Expr:
        """Return the rows of a register from row `start` on."""
        height = self.shape.rows
        if isinstance(m, int) and (m <= height or m % height == 0):
            return min(m, height)
        return t.minimum(t.as_expr(height), t.as_expr(m) - start)

    def _copied_block(self, block: Expr) -> Stmt:
        """Write the bytes of a block of the panel to its half of the buffer, and the factors of its groups as f32."""
        first, body = block * self.shared, list[Stmt]()
        _, copy = self.weights.as_bytes(
            self.bytes, self.vectors, self.fetches, self.x.step, (first, self.shared),
            block % 2 * self._block_bytes, self.x.has_starts,
        )  # fmt: skip
        each = self.weights.weights.group // self.x.step
        for g in range(self.shared):
            for v in range(self.vectors):
                for kind, value in enumerate(self.weights.factors((first + g) // each, v)):
                    at = self.factor_at(block, t.as_expr(g), kind, v)
                    body.append(Store(self.factors, (at,), value))
        return Block((copy, *body))

    def factor_at(self, block: Expr, group: Expr, kind: int, v: int) -> Expr:
        """The offset of the factors of a group of a block."""
        at = block % 4 * self.block_factors + group * (self.kinds * self.columns)
        return at + (kind * self.columns + v * self.lanes)

    @property
    def _block_bytes(self) -> int:
        return self.width * self.columns

    def _sums_of(self, tile: Expr, block: Expr) -> Expr:
        """The offset of the sums of a block of the rows of a register."""
        return (tile * 2 + block % 2) * (self.shared * self.group_sums)

    def _multiplied(self, start: Expr, tile: Expr, block: Expr) -> Stmt:
        """Store the sums of each group of a block of the rows from `start` on: those behind the last undefined.

        A register holds several small groups of weights, each of which its rows pick by zeros elsewhere.
        """
        height = self.shape.rows
        at = (start * self.x.groups + block * (self.shared * height)) * self.width
        a = View(self.rows, {"m": self.width, "k": 1}, base=at)
        b = View(self.bytes, {"k": self.columns, "n": 1}, base=block % 2 * self._block_bytes)
        c = View(self.sums, {"m": self.columns, "n": 1}, base=self._sums_of(tile, block))
        found = GemmTile(
            a, b, c, height * self.shared, self.vectors * self.lanes, self.width, self.kernel,
            TileHeight(height),
        )  # fmt: skip
        return found.statement()

    def _scaled(self, start: Expr, tile: Expr, rows: int | Expr, block: Expr) -> list[Stmt]:
        """Add the sums of groups to those of rows from `start` on."""
        body: list[Stmt] = []
        for begin, end, height in row_runs(rows, SCALED):
            row = Var("bi")
            sums = _ScaledSums(self, start, row, height, self._sums_of(tile, block), block)
            added = sums.added()
            body.append(For(row, begin, end, Block(tuple(added)), "serial", height))
        return body


class _ScaledSums(RegisterTile):
    """The sums of the groups of a block, in memory from `offset` on, of `rows` rows from `row` of a register on."""

    dtype = S32

    def __init__(
        self, tiles: ByteTiles, start: Expr, row: Var, rows: int, offset: Expr, block: Expr
    ) -> None:
        super().__init__(tiles.x, row, rows, tiles.weights, tiles.vectors, tiles.means)
        self.tiles, self.start, self.offset, self.block = tiles, start, offset, block

    def added(self) -> list[Stmt]:
        """Statements that add the groups to what the rows have."""
        kept = self.tiles.acc
        at = [(r, v) for r in range(self.rows) for v in range(self.vectors)]
        body: list[Stmt] = [Allocate(self.acc)]
        for r, v in at:
            old = Load(kept, (self._row(r), t.as_expr(v * self.lanes)), self.lanes)
            body.append(Store(self.acc, self._at(r, v), old))
        for group in range(self.tiles.shared):
            body.append(Block(tuple(self._scaled(self.block * self.tiles.shared + group))))
        for r, v in at:
            new = Load(self.acc, self._at(r, v), self.lanes)
            body.append(Store(kept, (self._row(r), t.as_expr(v * self.lanes)), new))
        return body

    def _row(self, r: int) -> Expr:
        return self.start + self.row + r

    def _factors(self, group: Expr, v: int) -> list[Expr]:
        of_block = group - self.block * self.tiles.shared
        return [
            Load(
                self.tiles.factors,
                (self.tiles.factor_at(self.block, of_block, kind, v),),
                self.lanes,
            )
            for kind in range(self.tiles.kinds)
        ]

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        tiles = self.tiles
        at = self.offset + (group - self.block * tiles.shared) * tiles.group_sums
        at = at + (self.row + r) * tiles.columns + v * self.lanes
        return t.cast(Load(tiles.sums, (at,), self.lanes), F32)
