"""Which band, register tile and blocks a direct convolution uses: the cost model over the ISA's table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from ...dtypes import F32
from ...target import GemmTile, Target
from ...tensor_ir.tiling import split_rows
from .convolution_band import BANDS
from .convolution_geometry import ConvolutionGeometry
from .matmul_tile import (
    BYTES_PER_CYCLE,
    MatmulBlocking,
    product_cycles,
    ranked_tiles,
    rows_for,
    tile_cycles,
    worth_threads,
)
from .matmul_tile import pick_blocking as pick_product_blocking

L2_BYTES_PER_CYCLE = (
    32  # what a panel that is bigger than L1 streams at, hidden behind the multiply-adds
)
COPY_BYTES_PER_CYCLE = 16  # of a band: a load and a store of a vector, short rows
MOST_PLANES = 16  # channels of the image above which its lines are too many streams
MOST_PATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class ConvolutionChoice:
    """A band, or "product" of weights and image in plain layouts, a blocking, and the cycles foreseen on one core."""

    band: str
    blocking: MatmulBlocking
    cycles: float


def ranked_choices(
    g: ConvolutionGeometry, target: Target, threads: int, bands: tuple[str, ...]
) -> list[ConvolutionChoice]:
    """All ways of the given bands that can run the geometry, the fastest foreseen first."""
    found = [
        ConvolutionChoice(band, pick_blocking(g, band, tile, target, threads), cycles(g, band, tile, target))
        for band, tile in product(bands, target.table.gemm_tiles)
        if _fits(g, band) and (g.groups == 1 or g.outputs % tile.columns(target) == 0)
    ]  # fmt: skip
    return sorted(found, key=lambda choice: choice.cycles)


def ranked_products(
    g: ConvolutionGeometry, target: Target, threads: int
) -> list[ConvolutionChoice]:
    """Ways to run a convolution of single pixels as weights times image, each plain; the fastest foreseen first.

    The image is copied into panels, which is all it loses to `ranked_choices`.
    """
    if not g.is_product:
        return []
    pixels, batch = math.prod(g.result), g.batch * g.groups
    copies = g.channels * pixels * 4 / COPY_BYTES_PER_CYCLE
    return [
        ConvolutionChoice(
            "product",
            pick_product_blocking(batch, g.outputs, pixels, g.channels, tile, target, threads),
            batch * (g.channels * product_cycles(g.outputs, pixels, tile, target) + copies),
        )
        for tile in ranked_tiles(g.outputs, pixels, target)
    ]


def _fits(g: ConvolutionGeometry, band: str) -> bool:
    if band == "place":
        return not g.is_padded
    if band == "planes":
        return g.channels * g.groups <= MOST_PLANES
    if band == "patches":
        return g.terms * math.prod(g.result) * 4 <= MOST_PATCH_BYTES
    return True


def cycles(g: ConvolutionGeometry, band: str, tile: GemmTile, target: Target) -> float:
    """Cycles of the whole convolution on one core: register tiles, the copies of bands, the weights from memory."""
    flat = BANDS[band].flat
    pixels = math.prod(g.result) if flat else g.result[1]
    lines = 1 if flat else g.result[0]
    streamed = g.terms * tile.columns(target) * 4 > target.l1_bytes // 2
    panels, rest = divmod(g.outputs, tile.columns(target))
    per_term = panels * _line_cycles(pixels, tile.columns(target), tile, target, streamed)
    per_term += _line_cycles(pixels, rest, tile, target, streamed) if rest else 0.0
    copied = {
        "place": 0,
        "rows": math.prod(g.image) * g.channels,
        "planes": math.prod(g.image) * g.channels,
        "patches": math.prod(g.result) * g.terms,
    }[band]
    weights = g.terms * g.outputs * 4 / BYTES_PER_CYCLE / 8  # mostly hidden: prefetchers follow it
    return g.batch * g.groups * (
        lines * g.terms * per_term / tile.efficiency + copied * 4 / COPY_BYTES_PER_CYCLE
    ) + g.groups * weights  # fmt: skip


def _line_cycles(
    pixels: int, columns: int, tile: GemmTile, target: Target, streamed: bool
) -> float:
    """Cycles of one term of a line of pixels and one panel."""
    vectors = math.ceil(columns / target.lanes(F32))
    stream = vectors * target.lanes(F32) * 4 / L2_BYTES_PER_CYCLE if streamed else 0.0
    runs = split_rows(pixels, rows_for(columns, tile, target))
    return sum(count * max(tile_cycles(rows, vectors), stream) for _, count, rows in runs)


def pick_blocking(
    g: ConvolutionGeometry, band: str, tile: GemmTile, target: Target, threads: int
) -> MatmulBlocking:
    """Blocks from the cache sizes: a band of the image takes a quarter of L2 at most, a block of a panel half of it."""
    columns = tile.columns(target)
    k_block = min(g.terms, max(64, target.l2_bytes // 2 // (columns * 4)))
    if g.terms > k_block and g.kernel[0] > 1:
        run = g.terms // g.kernel[0]  # equal steps of whole rows of the kernel, if one fits
        k_block = max(run, k_block // run * run) if run <= k_block else k_block
    if BANDS[band].flat:
        return MatmulBlocking(tile, g.result[0], k_block, _panel_groups(g, columns, threads))
    row_bytes = g.span(1, g.result[1]) * g.channels * 4
    rows = g.result[0]
    while rows > 1 and g.span(0, rows) * row_bytes > target.l2_bytes // 4:
        rows -= 1
    least = math.ceil(g.result[0] / rows)
    if not worth_threads(g.multiply_adds) or threads == 1:
        return MatmulBlocking(tile, math.ceil(g.result[0] / least), k_block, 1)
    bands, groups = _split(g, columns, least, threads)
    return MatmulBlocking(tile, math.ceil(g.result[0] / bands), k_block, groups)


def _panel_groups(g: ConvolutionGeometry, columns: int, threads: int) -> int:
    tasks = g.batch * g.groups
    panels = math.ceil(g.outputs / columns)
    return 1 if tasks >= threads else min(panels, math.ceil(threads / tasks))


def _split(g: ConvolutionGeometry, columns: int, least: int, threads: int) -> tuple[int, int]:
    """(bands of rows, groups of panels) that finish first, each band being copied for every group of panels."""
    panels, rows = math.ceil(g.outputs / columns), g.result[0]

    def time(split: tuple[int, int]) -> tuple[float, int]:
        bands, groups = split
        tasks = math.ceil(g.batch * g.groups * bands * groups / threads)
        most = math.ceil(rows / bands) * (math.ceil(panels / groups) + 0.1)
        return tasks * most, bands * groups

    splits = product(
        range(least, min(rows, least + 2 * threads) + 1), range(1, min(panels, threads) + 1)
    )
    return min(splits, key=time)
