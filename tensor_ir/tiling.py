"""Register tiles of a Brgemm: shared by the pass that emits them and the cost model that predicts them."""

from __future__ import annotations


def k_splits(rows: int, vectors: int) -> int:
    """Number of accumulator sets that k is split over: tiles of few accumulators would wait for the
    multiply-add's latency.

    Eight independent accumulators keep two multiply-adds per cycle of latency 4 busy. `rows` is the height the
    problem is tiled with, not that of a remainder, so the order of each sum does not depend on how rows are
    distributed over threads.
    """
    return min(4, max(1, 8 // (rows * vectors)))


MAX_SPLIT = 12
"""Accumulators of a tile whose sums are split: as many as leave registers for the operands on every ISA."""


def tile_height(m: int, rows: int, vectors: int) -> int:
    """The height of the tiles of m rows, where `rows` says how sums are split.

    Low tiles have split sums; where all rows fit into one tile, the panel is read once for all of them.
    """
    splits = k_splits(rows, vectors)
    return m if splits > 1 and rows < m and m * splits * vectors <= MAX_SPLIT else rows


def split_rows(m: int, rows: int) -> list[tuple[int, int, int]]:
    """Cut m rows into (first row, count of tiles, rows per tile) runs of tiles of at most `rows`.

    A remainder is shared with the last full tile, so that no tile is left with too few accumulators to hide the
    latency of its multiply-adds: 128 rows in tiles of 6 are 20 tiles of 6 and 2 of 4.
    """
    full, rest = divmod(m, rows)
    if not rest:
        return [(0, full, rows)]
    if not full:
        return [(0, 1, rest)]
    runs = [(0, full - 1, rows)] if full > 1 else []
    start, upper = (full - 1) * rows, (rows + rest + 1) // 2
    lower = rows + rest - upper
    if upper == lower:
        return [*runs, (start, 2, upper)]
    return [*runs, (start, 1, upper), (start + upper, 1, lower)]
