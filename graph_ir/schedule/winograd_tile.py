"""Choice of the register tile and block of tiles of a Winograd convolution, and its predicted cycles."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ...base.dims import ceil_quotient
from ...base.dtypes import DType
from ...base.records import dataclass
from ...targets.isa import GemmTile, Microkernel, Target
from ...targets.microkernels import microkernel
from ..nest.convolution_geometry import REMEMBERED, ConvolutionGeometry
from ..ops.winograd_form import WinogradForm
from .cost import gemm_cycles

MAX_CUTS = 512
"""Blockings tried for one convolution."""


@dataclass(frozen=True)
class WinogradBlocking:
    """The blocking of one convolution: `block` tiles at a time, results in `groups` of panels, `chunk` panels at
    a time."""

    form: WinogradForm
    tile: GemmTile
    block: int
    chunk: int
    groups: int

    def local_bytes(self, g: ConvolutionGeometry, target: Target) -> int:
        """V and M of one block."""
        columns = self.chunk * self.tile.columns(target)
        row = self.form.operand.size * g.channels + self.form.sums.size * columns
        return self.form.matmuls * self.block * row


def winograd_kernel(form: WinogradForm, target: Target) -> Microkernel:
    """Return the microkernel that multiplies the transformed image by the transformed weights."""
    return microkernel(form.operand, form.operand, target)


def plane_strides(tiles: int, columns: int, dtype: DType) -> tuple[int, int]:
    """Elements from a row to the next, and from a matrix [tiles, columns] to that of the next point.

    Odd numbers of cache lines, so that power-of-2 sizes do not map to one set.
    """
    line = 64 // dtype.size  # elements of a cache line
    row = (-(-columns // line) | 1) * line
    return row, (tiles * row // line | 1) * line


def tile_count(g: ConvolutionGeometry, form: WinogradForm) -> int:
    """Tiles of all images, including partial ones at the edges."""
    sizes = zip(g.result, g.dilations, strict=True)
    return g.batch * math.prod(tiles_along(size, form.results, step) for size, step in sizes)


def tiles_along(size: Any, results: int, step: int) -> Any:
    """Tiles over `size` results along an axis, whose results lie `step` apart: as many for each of the phases."""
    return step * ceil_quotient(size, step * results)


def candidate_blockings(
    g: ConvolutionGeometry, form: WinogradForm, tile: GemmTile, target: Target, threads: int
) -> list[WinogradBlocking]:
    """Blockings whose V and M fit on the stack; blocks of tiles are about equal."""
    total, panels = tile_count(g, form), math.ceil(g.outputs / tile.columns(target))
    threads = threads if worth_threads(g, target) else 1
    found = []
    for block in _blocks(g, form, tile, target, total):
        for groups in dict.fromkeys((1, min(threads, panels))):
            own = math.ceil(panels / groups)
            for chunk in dict.fromkeys(math.ceil(own / 2**i) for i in range(own.bit_length() + 1)):
                blocking = WinogradBlocking(form, tile, block, chunk, groups)
                fits = blocking.local_bytes(g, target) <= target.machine.max_local_bytes
                if fits or block * chunk == 1:
                    found.append(blocking)
    return found


def _blocks(
    g: ConvolutionGeometry, form: WinogradForm, tile: GemmTile, target: Target, total: int
) -> list[int]:
    """Tiles of a block, the most that fit with one panel first; an image of many blocks is cut in coarser steps."""
    one = WinogradBlocking(form, tile, 1, 1, 1)
    most = target.machine.max_local_bytes // one.local_bytes(g, target)
    fewest = math.ceil(total / max(most, 1))
    step = max(fewest // 16, 1)
    cuts = range(fewest, min(total, fewest + step * (MAX_CUTS - 1)) + 1, step)
    return list(dict.fromkeys(math.ceil(total / n) for n in cuts))


def blocking_cycles(
    b: WinogradBlocking, g: ConvolutionGeometry, target: Target, threads: int
) -> float:
    """Cycles on the busiest of `threads` cores: the matmuls, or the bytes they stream, and the transforms.

    U streams through once per block, fetched ahead. V is read once per chunk of panels, from L2 if it and M fit; else
    nothing is computed while it comes again.
    """
    points, panels = b.form.matmuls, math.ceil(g.outputs / b.tile.columns(target))
    columns = math.ceil(panels / b.groups) * b.tile.columns(target)
    kernel, outputs = winograd_kernel(b.form, target), min(columns, g.outputs)
    steps, operand, sums = math.ceil(g.channels / kernel.k_group), b.form.operand, b.form.sums
    gemm = points * steps * gemm_cycles(b.block, outputs, b.tile, target, kernel)
    streamed = points * operand.size * g.channels * columns
    again = 0.0
    if b.local_bytes(g, target) > target.l2_bytes * 3 // 4:
        chunks = math.ceil(panels / b.groups / b.chunk)
        v_bytes = points * operand.size * b.block * g.channels
        streamed += v_bytes * chunks + points * sums.size * b.block * 2 * columns
        again = v_bytes * (chunks - 1) / target.machine.shared_bytes_per_cycle
    vectors = math.ceil(g.channels / target.lanes(operand))
    vectors += math.ceil(columns / target.lanes(sums))
    transforms = target.machine.winograd_cycles * points * vectors * b.block
    tasks = math.ceil(tile_count(g, b.form) / b.block) * b.groups
    per_task = max(gemm, streamed / target.machine.memory_bytes_per_cycle) + again + transforms
    return per_task * math.ceil(tasks / threads)


@lru_cache(REMEMBERED)
def pick_blocking(
    g: ConvolutionGeometry, form: WinogradForm, tile: GemmTile, target: Target, threads: int
) -> WinogradBlocking:
    """The candidate with the fewest cycles."""
    candidates = candidate_blockings(g, form, tile, target, threads)
    return min(candidates, key=lambda b: blocking_cycles(b, g, target, threads))


def worth_threads(g: ConvolutionGeometry, target: Target) -> bool:
    """Return whether a convolution takes long enough for several threads."""
    return g.multiply_adds // 4 >= target.machine.parallel_multiply_adds


def winograd_cycles(
    g: ConvolutionGeometry, form: WinogradForm, tile: GemmTile, target: Target
) -> float:
    """Cycles on one core in the best blocking for a register tile."""
    return blocking_cycles(pick_blocking(g, form, tile, target, 1), g, target, 1)


def ranked_tiles(
    g: ConvolutionGeometry, form: WinogradForm, target: Target
) -> list[tuple[GemmTile, float]]:
    """The tiles of the ISA's table with their cycles, the best first."""
    tiles = winograd_kernel(form, target).tiles
    found = [(x, winograd_cycles(g, form, x, target)) for x in tiles]
    return sorted(found, key=lambda pair: (pair[1], pair[0].columns(target)))
