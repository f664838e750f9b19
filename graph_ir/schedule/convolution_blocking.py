"""Choice of the band, register tile and blocks of a direct convolution: the cost model over the ISA's table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ...base.records import dataclass
from ...targets.isa import GemmTile, Microkernel, tile_depth
from ...targets.microkernels import register_rows
from ..nest.convolution_geometry import REMEMBERED, ConvolutionGeometry
from .convolution_gemm import ConvolutionGemm
from .convolution_patches import fits_patches, patch_cycles
from .cost import MatmulBlocking, end_cycles, panel_cycles
from .matmul_tile import ranked_tiles
from .two_dimensional import MAX_TOGETHER, joins_lines, tiles_of

TILED_BANDS = ("image", "rows")
"""Bands that two-dimensional registers read."""

UNEVEN_COST = 0.2  # the penalty for unequal shares; zero on one thread

PART_OF_GROUP = 0.25
"""Cycles of loading fewer terms than a dot product takes: under a mask, and a broadcast apart from it. Copies of such
pixels have whole groups, but are made pixel by pixel, a cycle each. Measured on 3 channels (7 x 7 and 3 x 3)."""


@dataclass(frozen=True)
class ConvolutionChoice:
    """A band, a blocking for a microkernel, and the predicted cycles on one core."""

    band: str
    blocking: MatmulBlocking
    kernel: Microkernel
    cycles: float


@lru_cache(REMEMBERED)
def ranked_choices(
    p: ConvolutionGemm, bands: tuple[str, ...], tiles: tuple[GemmTile, ...] = ()
) -> tuple[ConvolutionChoice, ...]:
    """The best blocking of each band and tile that can run the convolution, the fastest on one core first.

    `tiles` instead of those of the microkernel, if given. The order of the tiles, and with it that of each sum, does
    not depend on the number of threads.
    """
    found = []
    every = [(band, tile) for band in bands for tile in _tiles(p, band, tiles)]
    for band, tile in every:
        if fits(p, band):
            alone = pick_blocking(p.alone, band, tile)
            cycles = blocking_cycles(p.alone, band, alone)
            uneven = 1 + UNEVEN_COST * (_halves(p.geometry, p.columns(tile)) - 1)
            uneven = 1.0 if band == "patches" else uneven
            blocking = pick_blocking(p, band, tile) if p.threads > 1 else alone
            found.append(ConvolutionChoice(band, blocking, p.kernel, cycles * uneven))
    return tuple(sorted(found, key=lambda choice: choice.cycles))


def candidate_choices(
    p: ConvolutionGemm, bands: tuple[str, ...], tiles: tuple[GemmTile, ...] = ()
) -> list[ConvolutionChoice]:
    """Choices worth trying: the best of each band and tile first, then other bands of rows, steps and groups of panels.

    Cycles are predicted for all threads.
    """
    g, picks = p.geometry, ranked_choices(p, bands, tiles)
    rows, run = g.result[0], g.terms // g.kernel[0]
    found: dict[tuple[str, MatmulBlocking], None] = {(c.band, c.blocking): None for c in picks}
    for choice in picks:
        pick = choice.blocking
        heights = {pick.m_block, *(math.ceil(rows / n) for n in (1, 2, 4, 7))}
        steps = {pick.k_block, g.terms}
        if p.result_holds_sums:
            steps.add(min(g.terms, max(64, run)))
        groups = {pick.n_groups, 1, min(p.threads, math.ceil(g.outputs / p.columns(pick.tile)))}
        for height, k_block, count in itertools.product(*map(sorted, (heights, steps, groups))):
            fills = _fills(p, choice.band, height, pick.tile)
            if fills and fits_stack(p, choice.band, height):
                found[choice.band, MatmulBlocking(pick.tile, height, k_block, count)] = None
    return [
        ConvolutionChoice(band, blocking, p.kernel, blocking_cycles(p, band, blocking))
        for band, blocking in found
    ]


def has_dense_lines(g: ConvolutionGeometry, band: str) -> bool:
    """Return whether the pixels of all rows of a copy are equally far apart, so that they can be a single line."""
    return band == "rows" and g.is_pointwise


def fits(p: ConvolutionGemm, band: str) -> bool:
    """Return whether a band can run, and is worth it, for these sizes and types."""
    g, group = p.geometry, p.kernel.k_group
    if band == "patches":
        return fits_patches(p)
    if p.kernel.uses_tiles and (
        band not in TILED_BANDS or g.is_dynamic or not _has_whole_steps(p, band)
    ):
        return False
    if g.is_dynamic and (band != "image" or g.channels % group or not _sums_at_once(p)):
        return False  # copies, and sums beside the result, are of known size
    if band == "image" and (g.is_padded or p.kernel.converts_a):
        return False  # in place nothing is converted
    return fits_stack(p, band, 1)


def _tiles(p: ConvolutionGemm, band: str, requested: tuple[GemmTile, ...]) -> Sequence[GemmTile]:
    """The register tiles of a band: two-dimensional registers have the height that suits a line of pixels."""
    g = p.geometry
    if band == "patches":
        return requested or ranked_tiles(g.outputs, g.result[1], p.target, p.kernel)
    if p.kernel.registers is None:
        return requested or p.kernel.tiles
    whole = band in TILED_BANDS and g.is_pointwise
    two = tiles_of(p.kernel, MAX_TOGETHER * g.result[1])
    if not whole and joins_lines(p.kernel, two[0], g.result[0], g.result):
        suited = two
    else:
        suited = tiles_of(p.kernel, math.prod(g.result) if whole else g.result[1])
    vectors = {tile.vectors for tile in requested} or {tile.vectors for tile in suited}
    return [tile for tile in suited if tile.vectors in vectors]


def _has_whole_steps(p: ConvolutionGemm, band: str) -> bool:
    """Return whether the channels of a pixel, and of the taps of a row, are whole steps of two-dimensional registers,
    which load no part of one."""
    g, kernel = p.geometry, p.kernel
    channels = g.channels if band == "image" else p.channels
    depths = (channels, channels * g.kernel[1])
    return g.groups == 1 and all(
        k % kernel.k_group == 0 and kernel.padded_groups(k) * kernel.k_group == k for k in depths
    )


def _fills(p: ConvolutionGemm, band: str, height: int, tile: GemmTile) -> bool:
    """Return whether lines of pixels have the rows of a two-dimensional register."""
    g, shape = p.geometry, p.kernel.registers
    if shape is None or not (band in TILED_BANDS and g.is_pointwise):
        return True
    return math.prod(g.result) // math.ceil(g.result[0] / height) >= register_rows(tile, shape)


def _sums_at_once(p: ConvolutionGemm) -> bool:
    """Return whether sums may be split into steps, or have one alone: that of a window whose rows are contiguous."""
    g = p.geometry
    return p.result_holds_sums or 1 in g.kernel or (g.dilations[1] == 1 and g.groups == 1)


def fits_stack(p: ConvolutionGemm, band: str, height: int) -> bool:
    """Return whether the copy of the rows that `height` rows of the result read, and sums beside it, are not
    too large."""
    g = p.geometry
    if band == "patches":
        return fits_patches(p, height)
    copied = g.span(0, height) * g.span(1, g.result[1]) * p.channels * p.copied.size
    if band == "image":
        copied = 0
    if not (p.result_holds_sums or g.is_pointwise):
        copied += g.result[1] * max(map(p.columns, p.kernel.tiles)) * p.kernel.accumulator.size
    return copied <= p.target.machine.max_local_bytes


def blocking_cycles(p: ConvolutionGemm, band: str, blocking: MatmulBlocking) -> float:
    """Cycles until the last thread is done: register tiles, copies of bands, and repeated traffic from beyond L2."""
    if band == "patches":
        return patch_cycles(p, blocking)
    g, target, machine = p.geometry, p.target, p.target.machine
    columns, height = p.columns(blocking.tile), blocking.m_block
    panels = math.ceil(math.ceil(g.outputs / columns) / blocking.n_groups)
    is_flat = joins_lines(p.kernel, blocking.tile, height, g.result, has_dense_lines(g, band))
    line = height * g.result[1] if is_flat else g.result[1]
    lines = math.ceil(height * g.result[1] / line)
    if band == "image" and g.is_pointwise:  # equal parts, which may end within a row
        line, lines = math.ceil(math.prod(g.result) / math.ceil(g.result[0] / height)), 1
    panel = p.panel_bytes * columns
    sums = math.ceil(g.terms / blocking.k_block)
    outputs = min(panels * columns, g.outputs)
    per_step = _line_cycles(p, line, outputs, blocking.tile, panel > target.l1_bytes // 2)
    task = lines * (p.steps * per_step / blocking.tile.efficiency)
    moved = 2 * p.kernel.accumulator.size * line * outputs
    in_part = g.channels % p.kernel.k_group > 0
    if in_part and band == "image":
        task += lines * p.steps * line * panels * PART_OF_GROUP
    # Partial sums are kept in the result.
    task += lines * (sums - 1) * moved / machine.copy_bytes_per_cycle
    image = _touched(g, 0, height) * _touched(g, 1, g.result[1]) * g.channels * p.copied.size
    if band != "image":
        pixels = image / (g.channels * p.copied.size) if in_part else 0
        task += max(image / machine.copy_bytes_per_cycle, pixels)
    # Data that does not stay in L2 is loaded again: panels for every band, the image for every panel. Two-dimensional
    # registers wait for panels in L2 too.
    room = target.l2_bytes // 2
    again: float = panel * panels if panel * panels > room or p.kernel.uses_tiles else 0
    again += image * panels if image > room else 0
    again += _written_again(p, columns, panels, height * g.result[1] * g.outputs)
    streamed = blocking.k_block * columns * p.kernel.b.size > room
    again += panel * panels * (lines - 1) if streamed else 0
    task += again / machine.shared_bytes_per_cycle / machine.prefetched + machine.band_cycles
    tasks = g.batch * g.groups * math.ceil(g.result[0] / height) * blocking.n_groups
    return math.ceil(tasks / p.threads) * task


def _written_again(p: ConvolutionGemm, columns: int, panels: int, results: int) -> float:
    """Return the bytes of results that are written to L2 again, as a row of a panel is only a part of a cache line, or
    that are not fetched ahead, as a row is a single line.

    Results have the size of the elements of the image; what they are added to is as large.
    """
    row, written = columns * p.kernel.a.size, results * p.kernel.a.size
    target, line = p.target, p.target.machine.cache_line
    if panels < 2 or row > line:
        return 0.0
    filled = 2 * written / (target.l2_bytes // 4)
    if filled <= 1:
        return written * filled / 2 if p.kernel.uses_tiles else 0.0
    if p.kernel.uses_tiles:  # they multiply too fast to hide any traffic
        return 2.0 * written * line / row * target.machine.prefetched
    return 2.0 * written * (line - row) / row


def _halves(g: ConvolutionGeometry, columns: int) -> float:
    """Imbalance of halving rows or panels: twice the larger half over the whole; 1 if either number is even.

    Small images have few rows, often an odd number, and are shared among threads by panels.
    """
    panels = math.ceil(g.outputs / columns)
    rows = math.ceil(g.result[0] / 2) * 2 / g.result[0]
    return min(rows, max(1.0, math.ceil(panels / 2) * 2 * columns / g.outputs))


def _line_cycles(
    p: ConvolutionGemm, pixels: int, columns: int, tile: GemmTile, streamed: bool
) -> float:
    """Cycles of one step of a line of pixels and all panels of a task, whose weights are `streamed` from L2."""
    kernel, target = p.kernel, p.target
    row_bytes = target.lanes(kernel.accumulator) * kernel.b.size * kernel.k_group
    stream = row_bytes / target.machine.l2_bytes_per_cycle if streamed else 0.0
    cycles = panel_cycles(pixels, columns, tile, target, kernel, stream=stream)
    if (shape := kernel.registers) is None:
        return cycles
    depth = tile_depth(p.geometry.channels * p.geometry.kernel[1], kernel.k_group, shape)
    whole = depth.steps * shape.row_bytes / 4 / depth.groups
    return cycles * whole + end_cycles(pixels, columns, tile, target, kernel) / p.steps


def pick_blocking(p: ConvolutionGemm, band: str, tile: GemmTile) -> MatmulBlocking:
    """Blocks of the sum that leave half of L2 for the image, and the fastest bands and groups of panels.

    Of any number of images, the fastest for the fewest: more are shared among threads however each is cut. The blocks
    of the sum, and so its order, do not depend on the number of threads.
    """
    g, columns = p.geometry, p.columns(tile)
    k_block = min(g.terms, max(64, p.target.l2_bytes // 2 // (columns * p.kernel.b.size)))
    if not p.result_holds_sums or band == "patches":
        k_block = g.terms
    elif g.terms > k_block and g.kernel[0] > 1:
        run = g.terms // g.kernel[0]  # steps of whole rows of the kernel, if one fits
        k_block = max(run, k_block // run * run) if run <= k_block else k_block
    cuts = _shares(g.result[0])
    heights = [height for height in cuts if fits_stack(p, band, height)] or cuts[:1]
    groups = 1 if band == "patches" else min(math.ceil(g.outputs / columns), p.cores)
    splits = itertools.product(heights, range(1, groups + 1))
    choices = (
        MatmulBlocking(tile, height, k_block, groups)
        for height, groups in splits
        if _even(g, band, height) and _fills(p, band, height, tile)
    )
    shared = ConvolutionGemm(replace(g, batch=g.fewest or g.batch), p.kernel, p.target, p.cores)
    return min(choices, key=lambda b: (blocking_cycles(shared, band, b), -b.m_block))


def _shares(rows: int) -> list[int]:
    """Every number of rows that is the largest share when they are split into n equal ones, for any n."""
    few = math.isqrt(rows) + 1
    large = {math.ceil(rows / n) for n in range(1, few + 1)}
    small = {share for share in range(1, few) if math.ceil(rows / math.ceil(rows / share)) == share}
    return sorted(large | small)


def _even(g: ConvolutionGeometry, band: str, height: int) -> bool:
    """Return whether bands of that many rows match the lines of pixels that single-tap convolutions are split into."""
    lines = math.ceil(g.result[0] / height)
    return band != "image" or not g.is_pointwise or math.prod(g.result) % lines == 0


def _touched(g: ConvolutionGeometry, axis: int, windows: int) -> int:
    """Elements along an axis read by this many adjacent windows: strides may skip some."""
    return min(g.span(axis, windows), windows * g.kernel[axis])
