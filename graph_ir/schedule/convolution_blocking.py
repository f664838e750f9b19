"""Which band, register tile and blocks a direct convolution uses: the cost model over the ISA's table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ...base.contraction import f32_kernel, f32_tiles
from ...base.dtypes import F32
from ...base.target import GemmTile, Target
from ...tensor_ir.tiling import split_rows
from .convolution_geometry import REMEMBERED, ConvolutionGeometry
from .matmul_tile import (
    MatmulBlocking,
    product_cycles,
    ranked_tiles,
    rows_for,
    tile_cycles,
)
from .matmul_tile import pick_blocking as pick_product_blocking
from .product import Product, worth_threads

FLAT_BANDS = ("im2col",)
"""Bands of which all pixels are one line; of others each row of the result is."""

UNEVEN_COST = (
    0.2  # of a tile whose panels leave one of two threads waiting, which one thread does not mind
)
TASK_CYCLES = 500  # to begin a band: loops, and the first panel comes from behind L1
MOST_PLANES = 16  # channels of the image above which its lines are too many streams
MOST_IM2COL_BYTES = 1 << 20


@dataclass(frozen=True)
class ConvolutionChoice:
    """A band, or "product" of weights and image in plain layouts, a blocking, and the predicted cycles on one core."""

    band: str
    blocking: MatmulBlocking
    cycles: float


@lru_cache(REMEMBERED)
def ranked_choices(
    g: ConvolutionGeometry, target: Target, threads: int, bands: tuple[str, ...],
    tiles: tuple[GemmTile, ...] = (),
) -> tuple[ConvolutionChoice, ...]:  # fmt: skip
    """The best blocking of each band and tile that can run the geometry, the fastest on one core first.

    `tiles` instead of those of the ISA's table, if given. The order of the tiles, and with it that of each sum, does
    not depend on the number of threads.
    """
    found = []
    for band, tile in product(bands, tiles or f32_tiles(target)):
        columns = tile.columns(target)
        if fits(g, band):
            alone = pick_blocking(g, band, tile, target, 1)
            cycles = blocking_cycles(g, band, alone, target, 1)
            uneven = 1 + UNEVEN_COST * (_halves(g, columns) - 1)
            blocking = pick_blocking(g, band, tile, target, threads) if threads > 1 else alone
            found.append(ConvolutionChoice(band, blocking, cycles * uneven))
    return tuple(sorted(found, key=lambda choice: choice.cycles))


def candidate_choices(
    g: ConvolutionGeometry, target: Target, threads: int, bands: tuple[str, ...],
    tiles: tuple[GemmTile, ...] = (),
) -> list[ConvolutionChoice]:  # fmt: skip
    """Choices worth trying: the best of each band and tile first, then other bands of rows, steps and groups of panels.

    Cycles are predicted for that many threads.
    """
    picks = ranked_choices(g, target, threads, bands, tiles)
    rows, run = g.result[0], g.terms // g.kernel[0]
    found: dict[tuple[str, MatmulBlocking], None] = {(c.band, c.blocking): None for c in picks}
    for choice in picks:
        pick = choice.blocking
        heights = {pick.m_block, *(math.ceil(rows / n) for n in (1, 2, 4, 7))}
        steps = {pick.k_block, min(g.terms, max(64, run)), g.terms}
        groups = {pick.n_groups, 1, min(threads, math.ceil(g.outputs / pick.tile.columns(target)))}
        for height, k_block, count in product(*map(sorted, (heights, steps, groups))):
            flat = choice.band in FLAT_BANDS
            if height == rows if flat else fits_stack(g, choice.band, height, target):
                found[choice.band, MatmulBlocking(pick.tile, height, k_block, count)] = None
    return [
        ConvolutionChoice(band, blocking, blocking_cycles(g, band, blocking, target, threads))
        for band, blocking in found
    ]


def ranked_products(
    g: ConvolutionGeometry, target: Target, threads: int, tiles: Sequence[GemmTile] = ()
) -> list[ConvolutionChoice]:
    """Ways to run a convolution of single pixels as weights times image, each plain; predicted fastest first.

    The image is copied into panels, which is all it loses to `ranked_choices`.
    """
    if not g.is_product:
        return []
    product = product_of(g, target, threads)
    batch, outputs, pixels, kernel = product.batch, product.m, product.n, product.kernel
    copies = g.channels * pixels * 4 / target.machine.copy_bytes_per_cycle
    return [
        ConvolutionChoice(
            "product",
            pick_product_blocking(product, tile),
            batch * (g.channels * product_cycles(outputs, pixels, tile, target, kernel) + copies),
        )
        for tile in tiles or ranked_tiles(outputs, pixels, target, kernel)
    ]


def product_of(g: ConvolutionGeometry, target: Target, threads: int) -> Product:
    """A convolution of single pixels as the product of weights and image."""
    pixels = math.prod(g.result)
    return Product(
        g.batch * g.groups, g.outputs, pixels, g.channels, f32_kernel(target), target, threads
    )


def fits(g: ConvolutionGeometry, band: str) -> bool:
    """Whether a band can run, and is worth it, for these sizes."""
    if band == "image":
        return not g.is_padded
    if band == "planes":
        return g.channels * g.groups <= MOST_PLANES
    if band == "im2col":
        return g.terms * math.prod(g.result) * 4 <= MOST_IM2COL_BYTES
    return True


def fits_stack(g: ConvolutionGeometry, band: str, height: int, target: Target) -> bool:
    """Whether the copy of the rows that `height` rows of the result read is not too large."""
    copied = g.span(0, height) * g.span(1, g.result[1]) * g.channels * 4
    return band == "image" or copied <= target.machine.most_local_bytes


def blocking_cycles(
    g: ConvolutionGeometry, band: str, blocking: MatmulBlocking, target: Target, threads: int
) -> float:
    """Cycles until the last thread is done: register tiles, copies of bands, and what comes from behind L2 again."""
    columns, height = blocking.tile.columns(target), blocking.m_block
    panels = math.ceil(math.ceil(g.outputs / columns) / blocking.n_groups)
    line = height * g.result[1] if band in FLAT_BANDS else g.result[1]
    if band == "image" and g.is_product:
        line = math.ceil(math.prod(g.result) / math.ceil(g.result[0] / height))
    lines = math.ceil(height * g.result[1] / line)
    panel = g.terms * columns * 4
    steps = math.ceil(g.terms / blocking.k_block)
    full = min(panels, g.outputs // columns)
    last = g.outputs % columns if full < panels else 0
    per_term = sum(
        count * _line_cycles(line, width, blocking.tile, target, panel > target.l1_bytes // 2)
        for width, count in ((columns, full), (last, 1))
        if width and count
    )
    task = lines * (g.terms * per_term / blocking.tile.efficiency)
    task += (
        lines
        * (steps - 1)
        * line
        * (full * columns + last)
        * 8
        / target.machine.copy_bytes_per_cycle
    )  # sums wait in the result
    image = _touched(g, 0, height) * _touched(g, 1, g.result[1]) * g.channels * 4
    if band != "image":
        copied = line * g.terms * 4 if band == "im2col" else image
        task += copied / target.machine.copy_bytes_per_cycle
    # What does not stay in L2 comes from behind it again: panels for every band, the image for every panel.
    room = target.l2_bytes // 2
    again = panel * panels if panel * panels > room else 0
    again += image * panels if image > room else 0
    again += panel * panels * (lines - 1) if blocking.k_block * columns * 4 > room else 0
    task += again / target.machine.shared_bytes_per_cycle / target.machine.prefetched + TASK_CYCLES
    tasks = g.batch * g.groups * math.ceil(g.result[0] / height) * blocking.n_groups
    return math.ceil(tasks / threads) * task


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
    stream = (
        vectors * target.lanes(F32) * 4 / target.machine.l2_bytes_per_cycle if streamed else 0.0
    )
    runs = split_rows(pixels, rows_for(columns, tile, target, f32_kernel(target)))
    return sum(
        count * max(tile_cycles(rows, vectors, target.machine), stream) for _, count, rows in runs
    )


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
    if not worth_threads(g.multiply_adds, target):
        threads = 1
    rows = g.result[0]
    heights = [rows]
    if band not in FLAT_BANDS:
        cuts = _shares(rows)
        heights = [height for height in cuts if fits_stack(g, band, height, target)] or cuts[:1]
    splits = product(heights, range(1, min(math.ceil(g.outputs / columns), threads) + 1))
    choices = (
        MatmulBlocking(tile, height, k_block, groups)
        for height, groups in splits
        if _even(g, band, height)
    )
    return min(choices, key=lambda b: (blocking_cycles(g, band, b, target, threads), -b.m_block))


def _shares(rows: int) -> list[int]:
    """Every number of rows that is the largest share when they are cut into n equal ones, for any n."""
    few = math.isqrt(rows) + 1
    large = {math.ceil(rows / n) for n in range(1, few + 1)}
    small = {share for share in range(1, few) if math.ceil(rows / math.ceil(rows / share)) == share}
    return sorted(large | small)


def _even(g: ConvolutionGeometry, band: str, height: int) -> bool:
    """Whether bands of that many rows are as many lines of pixels as single-tap convolutions are cut into."""
    lines = math.ceil(g.result[0] / height)
    return band != "image" or not g.is_product or math.prod(g.result) % lines == 0


def _touched(g: ConvolutionGeometry, axis: int, places: int) -> int:
    """Elements on an axis that so many windows next to each other read: strides may skip some."""
    return min(g.span(axis, places), places * g.kernel[axis])
