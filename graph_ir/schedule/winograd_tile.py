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
from .cost import gemm_cycles, worth_threads

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


def tiles_along(size: Any, results: int, step: int) -> Any:
    """Tiles over `size` results along an axis, whose results lie `step` apart: as many for each of the phases."""
    return step * ceil_quotient(size, step * results)


@dataclass(frozen=True)
class WinogradGemm:
    """A Winograd convolution on a machine: all that its cost model and its blockings depend on."""

    geometry: ConvolutionGeometry
    form: WinogradForm
    target: Target
    threads: int = 1

    @property
    def kernel(self) -> Microkernel:
        """The microkernel that multiplies the transformed image by the transformed weights."""
        return winograd_kernel(self.form, self.target)

    @property
    def cores(self) -> int:
        """Threads that share it: one where waking others costs more than it saves."""
        # A quarter of the multiply-adds is left by the largest form.
        pays = worth_threads(self.geometry.multiply_adds // 4, self.target)
        return self.threads if pays else 1

    @property
    def tiles(self) -> int:
        """Tiles of all images, including partial ones at the edges."""
        g = self.geometry
        sizes = zip(g.result, g.dilations, strict=True)
        return g.batch * math.prod(tiles_along(n, self.form.results, step) for n, step in sizes)

    def panels(self, tile: GemmTile) -> int:
        """Panels of the weights."""
        return math.ceil(self.geometry.outputs / tile.columns(self.target))

    def candidates(self, tile: GemmTile) -> list[WinogradBlocking]:
        """Blockings whose V and M fit on the stack; blocks of tiles are about equal."""
        panels, found = self.panels(tile), []
        most = self.target.machine.max_local_bytes
        for block in self._blocks(tile):
            for groups in dict.fromkeys((1, min(self.cores, panels))):
                own = math.ceil(panels / groups)
                chunks = (math.ceil(own / 2**i) for i in range(own.bit_length() + 1))
                for chunk in dict.fromkeys(chunks):
                    blocking = WinogradBlocking(self.form, tile, block, chunk, groups)
                    fits = blocking.local_bytes(self.geometry, self.target) <= most
                    if fits or block * chunk == 1:
                        found.append(blocking)
        return found

    def _blocks(self, tile: GemmTile) -> list[int]:
        """Tiles of a block, the most that fit with one panel first; an image of many blocks is cut in coarser steps."""
        one, total = WinogradBlocking(self.form, tile, 1, 1, 1), self.tiles
        most = self.target.machine.max_local_bytes // one.local_bytes(self.geometry, self.target)
        fewest = math.ceil(total / max(most, 1))
        step = max(fewest // 16, 1)
        cuts = range(fewest, min(total, fewest + step * (MAX_CUTS - 1)) + 1, step)
        return list(dict.fromkeys(math.ceil(total / n) for n in cuts))

    def cycles(self, b: WinogradBlocking) -> float:
        """Cycles on the busiest core: the matmuls, or the bytes they stream, and the transforms.

        U streams through once per block, fetched ahead. V is read once per chunk of panels, from L2 if it and M fit;
        else nothing is computed while it comes again.
        """
        g, target, machine, kernel = self.geometry, self.target, self.target.machine, self.kernel
        points, panels, operand, sums = (
            b.form.matmuls,
            self.panels(b.tile),
            b.form.operand,
            b.form.sums,
        )
        columns = math.ceil(panels / b.groups) * b.tile.columns(target)
        outputs, steps = min(columns, g.outputs), math.ceil(g.channels / kernel.k_group)
        work = points * steps * gemm_cycles(b.block, outputs, b.tile, target, kernel)
        streamed = points * operand.size * g.channels * columns
        again = 0.0
        if b.local_bytes(g, target) > target.l2_bytes * 3 // 4:
            chunks = math.ceil(panels / b.groups / b.chunk)
            v_bytes = points * operand.size * b.block * g.channels
            streamed += v_bytes * chunks + points * sums.size * b.block * 2 * columns
            again = v_bytes * (chunks - 1) / machine.shared_bytes_per_cycle
        vectors = math.ceil(g.channels / target.lanes(operand))
        vectors += math.ceil(columns / target.lanes(sums))
        transforms = machine.winograd_cycles * points * vectors * b.block
        tasks = math.ceil(self.tiles / b.block) * b.groups
        per_task = max(work, streamed / machine.memory_bytes_per_cycle) + again + transforms
        return per_task * math.ceil(tasks / self.threads)

    def pick(self, tile: GemmTile) -> WinogradBlocking:
        """The candidate with the fewest cycles."""
        return _pick(self, tile)

    def ranked_tiles(self) -> list[tuple[GemmTile, float]]:
        """The tiles of the ISA's table with their cycles on one core, the best first."""
        alone = WinogradGemm(self.geometry, self.form, self.target)
        found = [(tile, alone.cycles(alone.pick(tile))) for tile in self.kernel.tiles]
        return sorted(found, key=lambda pair: (pair[1], pair[0].columns(self.target)))


@lru_cache(REMEMBERED)
def _pick(p: WinogradGemm, tile: GemmTile) -> WinogradBlocking:
    return min(p.candidates(tile), key=p.cycles)
