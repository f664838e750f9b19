"""Loop nest of an ensemble of trees whose conditions are all evaluated, each for a vector of rows.

for block of rows (parallel): the block transposed, so that a feature of its rows lies together
  for piece of a tree: for tile of rows: alive = -1
                                         for slot: alive &= mask[slot] where x[feature[slot]] <= bound[slot]
                                         sums += leaves[piece, lowest bit of alive]
No load depends on another and nothing is gathered: a condition costs about three instructions for a vector of rows.
The last few rows are walked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import F32, S32, S64, DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Var
from .tree_ensemble import Forest, inside, walk_rows

_TILE = 4  # vectors of rows whose masks stay in registers
_PARTS = 8  # partial sums of a row, added at the end: long sums keep their digits
# Of a block's features and sums, next to the slots of a piece in the first cache.
_MAX_BYTES = 40 << 10


@dataclass(frozen=True)
class MaskedForest:
    """The operands: `walked` is the same trees; `leaves` is flat; `lanes` rows form a vector of f32.

    Fewer than `few` rows behind the last whole vector are walked.
    """

    walked: Forest
    feature: Buffer
    bound: Buffer
    mask: Buffer
    begins: Buffer
    leaves: Buffer
    pieces: Sequence[int]
    leaves_of_piece: int
    few: int
    lanes: int


def masked_function(
    name: str, params: Sequence[Buffer], forest: MaskedForest, threads: int, note: str
) -> Function:
    """The function with these parameters."""
    walked = forest.walked
    rows, count = walked.out.shape
    b = t.LoopBuilder(buffer.name for buffer in params)
    size, last = t.as_expr(rows), _walked_rows(forest, rows)
    masked = size - last
    block = _rows_of_block(forest, rows, count, threads)
    whole, rest = masked // block, masked % block
    is_parallel = threads > 1 and not (isinstance(rows, int) and rows < 2 * block)
    with b.loop("block", 0, whole, "parallel" if is_parallel else "serial") as number:
        _Block(b, forest, number * block, t.as_expr(block), block).emit()
    if rest != t.ZERO:
        with b.when(rest > 0):
            _Block(b, forest, whole * block, rest, block).emit()
    if last != t.ZERO:
        walk_rows(b, walked, masked, last, forest.few)
    return b.function(name, params, note)


def _walked_rows(forest: MaskedForest, rows: int | Expr) -> Expr:
    """The rows behind the last whole vector if they are few, else 0."""
    if isinstance(rows, int):
        tail = rows % forest.lanes
        return t.as_expr(tail if tail < forest.few else 0)
    if forest.few <= 1:
        return t.ZERO
    left = t.as_expr(rows) % forest.lanes
    return t.select(left < forest.few, left, 0)


def _rows_of_block(forest: MaskedForest, rows: int | Expr, count: int, threads: int) -> int:
    """Rows that pass all pieces together: as many as the cache holds, or fewer, so that threads share."""
    tile = _TILE * forest.lanes
    row_bytes = 4 * (forest.walked.planes + _PARTS * count)
    most = max(1, _MAX_BYTES // (row_bytes * tile)) * tile
    if threads == 1:
        return most
    share = -(-rows // (2 * threads)) if isinstance(rows, int) else tile
    return min(most, max(tile, -(-share // tile) * tile))


class _Block:
    """The loops for `size` rows from `first` on, at most `most`."""

    def __init__(
        self, b: t.LoopBuilder, forest: MaskedForest, first: Expr, size: Expr, most: int
    ) -> None:
        self.b, self.forest, self.first, self.size, self.most = b, forest, first, size, most
        self.dtype: DType = forest.walked.out.dtype
        self.reduction = forest.walked.reduction

    def emit(self) -> None:
        """Transpose the features, pass all pieces, add the partial sums."""
        b, lanes, count = self.b, self.forest.lanes, self.forest.walked.out.shape[1]
        with b.block():
            padded = (self.size + (lanes - 1)) // lanes * lanes
            features = b.allocate(
                "features", self.forest.bound.dtype, (self.forest.walked.planes, self.most)
            )
            self._transpose(features, padded)
            sums = b.allocate("sums", self.dtype, (count, _PARTS, self.most))
            start = {"add": 0.0, "min": np.inf, "max": -np.inf}[self.reduction]
            with (
                b.loop("c", 0, count) as c,
                b.loop("part", 0, _PARTS) as part,
                b.loop("r", 0, padded, "vector") as r,
            ):
                b.store(sums, (c, part, r), start)
            self._pieces(features, sums, padded)
            with b.loop("c", 0, count) as c, b.loop("r", 0, self.size, "vector") as r:
                parts: list[Expr] = [sums[c, part, r] for part in range(_PARTS)]
                while len(parts) > 1:
                    pairs = zip(parts[::2], parts[1::2], strict=True)
                    parts = [t.binary(self.reduction, one, other) for one, other in pairs]
                b.store(self.forest.walked.out, (self.first + r, c), parts[0])

    def _transpose(self, features: Buffer, padded: Expr) -> None:
        """The features of the rows, then those negated; the last row again in lanes that have none."""
        b, x = self.b, self.forest.walked.x
        columns = x.shape[1]
        with b.loop("f", 0, columns) as f, b.loop("r", 0, padded, "vector") as r:
            row = self.first + t.minimum(r, self.size - 1)
            value = b.let("value", x[row, f])
            b.store(features, (f, r), value)
            if self.forest.walked.has_negated:
                b.store(features, (f + columns, r), -value)

    def _pieces(self, features: Buffer, sums: Buffer, padded: Expr) -> None:
        """All pieces of one result after the other, each for all tiles of rows."""
        b, tile = self.b, _TILE * self.forest.lanes
        begin, dense = 0, self.forest.walked.dense
        wide = padded // tile * tile
        for number, count in enumerate(self.forest.pieces):
            targets = range(self.forest.walked.out.shape[1]) if dense else (number,)
            with b.loop("piece", begin, begin + count) as piece:
                with b.loop("r", 0, wide, step=tile) as r:
                    self._tile(features, sums, piece, r, _TILE, targets)
                with b.loop("r", wide, padded, step=self.forest.lanes) as r:
                    self._tile(features, sums, piece, r, 1, targets)
            begin += count

    def _tile(
        self,
        features: Buffer,
        sums: Buffer,
        piece: Var,
        r: Var,
        vectors: int,
        targets: Sequence[int],
    ) -> None:
        """A piece for some vectors of rows."""
        b, forest, lanes = self.b, self.forest, self.forest.lanes
        slots = forest.feature.shape[0]
        with b.block():
            alive = b.allocate("alive", S32, (vectors * lanes,))
            starts = [v * lanes for v in range(vectors)]
            for at in starts:
                b.store(alive, (at,), t.const(-1, S32, lanes))
            begin, end = (t.cast(inside(forest.begins[piece + i], slots + 1), S64) for i in (0, 1))
            with b.loop("slot", begin, end) as slot:
                found = inside(forest.feature[slot], forest.walked.planes)
                plane = b.let("plane", t.cast(found, S64))
                bound = b.let("bound", t.broadcast(forest.bound[slot], lanes))
                mask = b.let("mask", t.broadcast(forest.mask[slot], lanes))
                for at in starts:
                    value = t.load(features, (plane, r + at), lanes)
                    old = b.let("old", t.load(alive, (at,), lanes))
                    kept = t.select(value <= bound, old & mask, old)
                    b.store(alive, (at,), kept)
            for at in starts:
                leaf = self._lowest(t.load(alive, (at,), lanes))
                self._collect(sums, piece, r + at, leaf, targets)

    def _lowest(self, alive: Expr) -> Expr:
        """The number of the lowest bit: the exponent of the power of two that it is."""
        b = self.b
        bits = b.let("bits", alive)
        lowest = bits & t.const(0, S32, bits.lanes) - bits
        power = t.bitcast(t.cast(lowest, F32), S32)
        exponent = power >> 23 & 255
        return b.let("leaf", exponent - 127)

    def _collect(
        self, sums: Buffer, piece: Var, r: Expr, leaf: Expr, targets: Sequence[int]
    ) -> None:
        """Add what the leaves say, which is looked up in registers."""
        b, forest, lanes = self.b, self.forest, self.forest.lanes
        size = forest.leaves_of_piece
        part = piece % _PARTS
        for number, target in enumerate(targets):
            first = (piece * len(targets) + number) * size
            said: Expr | None = None
            for at in range(0, size, lanes):
                table = t.load(forest.leaves, (first + at,), lanes)
                value = t.call("pick", table, leaf)
                said = value if said is None else t.select(leaf < at, said, value)
            assert said is not None
            old = t.load(sums, (target, part, r), lanes)
            b.store(sums, (target, part, r), t.binary(self.reduction, old, said))
