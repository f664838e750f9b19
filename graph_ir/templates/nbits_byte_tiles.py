"""Rows of bytes times packed weights in two-dimensional registers: exact sums of groups, which vectors scale.

    for each block of groups of k: the signed bytes of a panel, Q - zero
        for each 16 rows: for each group: sums = X * (Q - zero); then acc += sums * scales

The scaled sums are those of dot products in registers, bit for bit: a row does not depend on how many there are. Each
row of a group takes three or four vector instructions behind its tiles, so that panels of bf16, which need none, are
faster for many rows.
"""

from __future__ import annotations

import itertools
import math

from ...base.dtypes import F32, S8, S32
from ...base.records import dataclass
from ...targets.isa import Target
from ...targets.microkernels import microkernels
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Allocate, Buffer, Expr, Stmt, Var
from ..nest.problem import View
from ..nest.register_tile import RegisterTile as GemmTile
from ..nest.row_tiles import TileHeight
from ..schedule.nbits_instructions import SCALED
from .nbits_rows import GivenRows
from .nbits_tile import RegisterTile, row_runs
from .packed_weights import WeightPanel


@dataclass(frozen=True)
class SignedRows(GivenRows):
    """Rows of bytes that are multiplied by levels less their zero point, where one serves all weights."""

    @property
    def has_starts(self) -> bool:
        """Return whether nothing is subtracted from sums."""
        return self.weights.has_one_zero

    def prepare(self, b: t.LoopBuilder, rows: int | Expr) -> None:
        """Compute the sums of groups that zero points or minima are multiplied by, if there are any."""
        if self.weights.has_minima or not self.has_starts:
            super().prepare(b, rows)


class ByteTiles:
    """At most `most` rows of bytes times one panel of `vectors` vectors; the sums are in `acc`."""

    def __init__(self, x: GivenRows, weights: WeightPanel, vectors: int, target: Target) -> None:
        self.kernel = next(
            one for one in microkernels(S8, S8, target, tiles=True) if one.uses_tiles
        )
        shape = self.kernel.registers
        assert shape is not None
        self.x, self.weights, self.vectors = x, weights, vectors
        self.b = weights.b
        self.shape = shape
        self.columns, self.lanes = weights.columns, weights.lanes
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
        """Return the local buffers that `multiply` uses."""
        return [self.bytes, self.sums, self.acc, self.factors]

    def copy_rows(self, m: int | Expr) -> None:
        """Copy the rows as registers are loaded: a register for each group of 16 rows, with zeros around the group.

        Rows behind the last are undefined.
        """
        b, step, height = self.b, self.x.step, self.shape.rows
        b.emit(Allocate(self.rows))
        with b.loop("br", 0, m) as row, b.loop("bg", 0, self.x.groups) as group:
            at = ((row // height * self.x.groups + group) * height + row % height) * self.width
            if self.shared > 1:
                with b.loop("bk", 0, self.width, "vector") as k:
                    b.store(self.rows, (at + k,), 0)
            with b.loop("bk", 0, step, "vector") as k:
                number = self.x.number(row, group * step + k)
                b.store(self.rows, (at + group % self.shared * step + k,), number)

    def multiply(self, m: int | Expr) -> None:
        """Leave the sums of `m` rows in `acc`."""
        b, blocks, height = self.b, self.x.groups // self.shared, self.shape.rows
        with b.loop("br", 0, m) as row:
            for v in range(self.vectors):
                b.store(self.acc, (row, v * self.lanes), t.const(0.0, F32, self.lanes))
        with b.loop("bn", 0, blocks + 2) as number:
            with b.when(number < blocks):
                self._copy_block(number)
            with b.loop("bt", 0, (m + height - 1) // height) as tile:
                start = b.let("bs", tile * height)
                with b.when(number >= 2):
                    self._scale(start, tile, self._rows_of(start, m), number - 2)
                with b.when((number >= 1) & (number <= blocks)):
                    b.emit(self._sums(start, tile, number - 1))

    def _rows_of(self, start: Expr, m: int | Expr) -> int | Expr:
        """Return the rows of a register from row `start` on."""
        height = self.shape.rows
        if isinstance(m, int) and (m <= height or m % height == 0):
            return min(m, height)
        return t.minimum(t.as_expr(height), t.as_expr(m) - start)

    def _copy_block(self, block: Expr) -> None:
        """Write the bytes of a block of the panel to its half of the buffer, and the factors of its groups as f32."""
        first = block * self.shared
        self.weights.as_bytes(
            self.bytes, self.vectors, self.x.step, (first, self.shared),
            block % 2 * self._block_bytes, self.x.has_starts,
        )  # fmt: skip
        each = self.weights.weights.group // self.x.step
        for g, v in itertools.product(range(self.shared), range(self.vectors)):
            for kind, value in enumerate(self.weights.factors((first + g) // each, v)):
                at = self.factor_at(block, t.as_expr(g), kind, v)
                self.b.store(self.factors, (at,), value)

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

    def _sums(self, start: Expr, tile: Expr, block: Expr) -> Stmt:
        """Return the tiles that store the sums of each group of a block of the rows from `start` on.

        Sums of rows behind the last are undefined. A register holds several small groups of weights, each of which
        its rows pick by zeros elsewhere.
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

    def _scale(self, start: Expr, tile: Expr, rows: int | Expr, block: Expr) -> None:
        """Add the sums of groups to those of rows from `start` on."""
        for begin, end, height in row_runs(rows, SCALED):
            with self.b.loop("bi", begin, end, step=height) as row:
                _ScaledSums(self, start, row, height, self._sums_of(tile, block), block).add()


class _ScaledSums(RegisterTile):
    """The sums of the groups of a block, in memory from `offset` on, of `rows` rows from `row` of a register on."""

    dtype = S32

    def __init__(
        self, tiles: ByteTiles, start: Expr, row: Var, rows: int, offset: Expr, block: Expr
    ) -> None:
        super().__init__(tiles.x, row, rows, tiles.weights, tiles.vectors)
        self.tiles, self.start, self.offset, self.block = tiles, start, offset, block

    def add(self) -> None:
        """Add the groups to what the rows have."""
        each = list(itertools.product(range(self.rows), range(self.vectors)))
        kept = [(self._row(r), t.as_expr(v * self.lanes)) for r, v in each]
        for (r, v), at in zip(each, kept, strict=True):
            self.b.store(self.acc, self._at(r, v), t.load(self.tiles.acc, at, self.lanes))
        for group in range(self.tiles.shared):
            with self.b.block():
                self._scale(self.block * self.tiles.shared + group)
        for (r, v), at in zip(each, kept, strict=True):
            self.b.store(self.tiles.acc, at, t.load(self.acc, self._at(r, v), self.lanes))

    def _row(self, r: int) -> Expr:
        return self.start + self.row + r

    def _factors(self, group: Expr, v: int) -> list[Expr]:
        tiles, of_block = self.tiles, group - self.block * self.tiles.shared
        offsets = (tiles.factor_at(self.block, of_block, kind, v) for kind in range(tiles.kinds))
        return [t.load(tiles.factors, (at,), self.lanes) for at in offsets]

    def _value(self, r: int, v: int, group: Expr) -> Expr:
        tiles = self.tiles
        at = self.offset + (group - self.block * tiles.shared) * tiles.group_sums
        at = at + (self.row + r) * tiles.columns + v * self.lanes
        return t.cast(t.load(tiles.sums, (at,), self.lanes), F32)
