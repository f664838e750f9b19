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
    FMA_PER_CYCLE,
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
UNEVEN_COST = (
    0.2  # of a tile whose panels leave one of two threads waiting, which one thread does not mind
)
TASK_CYCLES = 500  # to begin a band: loops, and the first panel comes from behind L1
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
    one = lines * g.terms * per_term / tile.efficiency + copied * 4 / COPY_BYTES_PER_CYCLE
    uneven = 1 + UNEVEN_COST * (_halves(g, tile.columns(target)) - 1)
    return g.batch * g.groups * one * uneven + g.groups * weights


def _halves(g: ConvolutionGeometry, columns: int) -> float:
    """Twice the larger half over the whole, where rows or panels are halved; 1 if either number is even.

    Small images have few rows, often an odd number, and are shared among threads by panels.
    """
    panels = math.ceil(g.outputs / columns)
    rows = math.ceil(g.result[0] / 2) * 2 / g.result[0]
    return min(rows, max(1.0, math.ceil(panels / 2) * 2 * columns / g.outputs))


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
    """Blocks of the sum that leave half of L2 to the image, and the bands and groups of panels that finish first.

    The blocks of the sum, and so its order, do not depend on the number of threads.
    """
    columns = tile.columns(target)
    k_block = min(g.terms, max(64, target.l2_bytes // 2 // (columns * 4)))
    if g.terms > k_block and g.kernel[0] > 1:
        run = g.terms // g.kernel[0]  # steps of whole rows of the kernel, if one fits
        k_block = max(run, k_block // run * run) if run <= k_block else k_block
    if not worth_threads(g.multiply_adds):
        threads = 1
    rows = g.result[0]
    heights = (
        [rows] if BANDS[band].flat else sorted({math.ceil(rows / n) for n in range(1, rows + 1)})
    )
    splits = product(heights, range(1, min(math.ceil(g.outputs / columns), threads) + 1))
    height, groups = min(
        (split for split in splits if _even(g, band, split[0])),
        key=lambda split: (_split_cycles(g, band, columns, target, threads, *split), -split[0]),
    )
    return MatmulBlocking(tile, height, k_block, groups)


def _even(g: ConvolutionGeometry, band: str, height: int) -> bool:
    """Whether bands of that many rows are as many lines of pixels as single-tap convolutions are cut into."""
    lines = math.ceil(g.result[0] / height)
    return band != "place" or not g.is_product or math.prod(g.result) % lines == 0


def _split_cycles(
    g: ConvolutionGeometry, band: str, columns: int, target: Target, threads: int, height: int, groups: int
) -> float:  # fmt: skip
    """Cycles until the last thread is done with bands of `height` rows and `groups` groups of panels."""
    panels = math.ceil(math.ceil(g.outputs / columns) / groups)
    pixels = height * g.result[1]
    task = pixels * panels * columns / target.lanes(F32) * g.terms / FMA_PER_CYCLE
    image = _touched(g, 0, height) * _touched(g, 1, g.result[1]) * g.channels * 4
    if band != "place":
        task += image / COPY_BYTES_PER_CYCLE
    panel = g.terms * columns * 4
    # What does not stay in L2 comes from behind it again: panels for every band, the image for every panel.
    again = panel * panels if panel * panels > target.l2_bytes // 2 else 0
    again += image * panels if image > target.l2_bytes // 2 else 0
    task += again / BYTES_PER_CYCLE / 2 + TASK_CYCLES
    tasks = g.batch * g.groups * math.ceil(g.result[0] / height) * groups
    return math.ceil(tasks / threads) * task


def _touched(g: ConvolutionGeometry, axis: int, places: int) -> int:
    """Elements on an axis that so many windows next to each other read: strides may skip some."""
    return min(g.span(axis, places), places * g.kernel[axis])
