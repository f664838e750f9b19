"""Schedules of a matmul with packed weights: the step that dequantizes them, the instruction, and blocks."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.dims import bounds, is_known
from ...base.dtypes import BF16, F32
from ...targets.isa import GemmTile
from ...targets.microkernels import f32_kernel
from ..ir.schedule import Parameter, Schedule
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.kernel_group import KernelGroup
from .byte_pairs import dots_of, is_centered, is_wide, level_bits
from .context import LowerContext
from .cost import Gemm
from .matmul_tile import MatmulBlocking, candidate_blockings, ranked_tiles
from .nbits_cost import NBitsCost, weight_bits
from .nbits_formats import rows_of
from .nbits_instructions import (
    DIGITS,
    MAX_ON_BYTE_TILES,
    SCALED,
    has_digits,
    kernel_of_use,
    max_on_byte_tiles,
    max_rows,
    max_rows_bytes,
    row_bytes,
    takes_byte_tiles,
    takes_tiles,
)  # fmt: skip
from .problem import problem_of
from .register_tile import BLOCKING_MEANINGS, tile_of, unsupported_tile_reason
from .space import ScheduleSpace
from .two_dimensional import tiles_of

UNPACK = ("registers", "panel", "bytes")

USE = ("fma", "dot2", "dot4", "tile2", "tile4")

MAX_FEW_ROWS, MAX_FEW_ROUNDED = 4, 8
"""Each dynamic number of rows up to this has separate code: of f32, and of bytes. Where 16 bits hold sums of bytes,
more than 4 are faster in tiles of 5 (5 to 8 rows by 2048x640 in 5 bits take 0.70 of the time, measured on Zen 3)."""

TILE_VECTORS = 2
"""Registers of columns that are multiplied together on two-dimensional registers."""

MAX_ON_TILES = 512
"""Rows of a block that two-dimensional registers multiply: as bf16 they stay in L2 while panels pass."""

CENTERED_ROWS = 5
"""Rows of bytes that are summed together in 16 bits: with two vectors of columns they leave 6 of 16 registers for
operands. Of 3 to 6 rows, 5 are fastest for levels of 4 to 6 bits, by up to 16 % (measured on Zen 3)."""

WIDE_ROWS = 4
"""The same, where bytes are widened to 16 bits and summed in 32: 3 to 6 rows by two to four vectors take up to 1.07 of
the time (measured on Zen 3)."""

MAX_SHARED_TILE = 2
"""Rows of the largest tile that a dynamic number of rows needs no others for than that of one row."""


def few_rows_of(op: MatmulNBits, ctx: LowerContext) -> range:
    """Return the numbers of rows that have separate code: none if the number is static."""
    m = op.sizes[0]
    if is_known(m):
        return range(0)
    low, high = bounds(m)
    is_rounded = op.part("x_scale") is not None and not (is_centered(op, ctx) or is_wide(op, ctx))
    most = MAX_FEW_ROUNDED if is_rounded else MAX_FEW_ROWS
    if max_on_byte_tiles(op, ctx) == MAX_ON_BYTE_TILES:  # which are as fast for five rows
        most = MAX_FEW_ROWS
    return range(max(low, 1), min(high, most) + 1)


class NBitsSpace(ScheduleSpace):
    """Schedules of the step that dequantizes weights, of the instruction and of blockings."""

    algorithm = "nbits"
    meanings = BLOCKING_MEANINGS | {
        "unpack": "registers, panel (of floats) or bytes (a panel), where weights are unpacked",
        "use": "fma, dot2, dot4, tile2 or tile4: what multiplies; rows of f32 by dots as three digits of 8 bits, rows "
        "of bytes by tile2 as bf16",
    }
    words = ("unpack", "use")
    choices = {"unpack": UNPACK, "use": USE}
    leading = ("unpack", "use", "mr", "nv")

    def __init__(
        self, op: MatmulNBits, group: KernelGroup, ctx: LowerContext, rows: int | None = None
    ) -> None:
        """`rows`: the number to choose for, if it is dynamic. What multiplies them, and with it how sums are rounded,
        is then chosen as for one thread."""
        super().__init__(op.name, problem_of(op))
        self.op = op
        self.ctx = ctx
        self.rows = rows_of(op) if rows is None else rows
        self.sizes = (self.rows, *op.sizes[1:])
        self.is_dynamic = rows is None and not is_known(op.sizes[0])
        threads = ctx.options.threads if is_known(op.sizes[0]) else 1
        self.gemm = Gemm(
            1, *self.sizes, f32_kernel(ctx.target), ctx.target, threads, b_bits=weight_bits(op)
        )
        self.vectors = op.w.details.format.blocks[op.w.details.rank] // ctx.target.lanes(F32)

    @property
    def of_few(self) -> Schedule:
        """The pick for a few of a dynamic number of rows, whose panels are shared."""
        panels = math.ceil(self.gemm.n / (self.vectors * self.ctx.target.lanes(F32)))
        cores = replace(self.gemm, threads=self.ctx.options.threads).cores
        return self.pick.replaced(ng=min(panels, cores))

    def ranked(self) -> list[Schedule]:
        """Every way that suits the type of the rows, the faster first."""
        use = self._dots
        found: list[Schedule] = []
        if self.is_dynamic and self.op.part("x_scale") is None:  # few rows have separate code
            found = self._panels()
        elif self.op.part("x_scale") is not None:
            found = [self._in_registers(rows, "registers", use) for rows in self._heights()]
            found.append(self._in_registers(min(self._in_bytes, self.rows), "bytes", use))
            # Few rows of a dynamic number have dot products.
            if is_known(self.op.sizes[0]) or self.is_dynamic:
                found += [*self._on_tiles(), *self.on_byte_tiles()]
        else:
            found = [self._in_registers(rows, "registers", "fma") for rows in self._heights()]
            if has_digits(self.op, self.ctx, self.rows):
                tallest = self._tallest(1 + DIGITS)
                found += [
                    self._in_registers(rows, "registers", use)
                    for rows in dict.fromkeys((tallest, 1))
                ]
            found += self._panels()
        return sorted(dict.fromkeys(found), key=self.cycles)

    def _panels(self) -> list[Schedule]:
        """Weights are unpacked into panels of floats."""
        return [
            self._schedule(blocking, "panel", "fma")
            for tile in self._tiles()
            for blocking in candidate_blockings(self.gemm, tile)
        ]

    def _on_tiles(self) -> list[Schedule]:
        """Weights and rows of bytes become bf16 for two-dimensional registers; a panel of a block of k stays in L1."""
        if not takes_tiles(self.op, self.ctx):
            return []
        (m, _, k), gemm = self.sizes, self._gemm("tile2")
        columns = self.vectors * self.ctx.target.lanes(F32)
        deepest = max(gemm.target.l1_bytes * 5 // 6 // (columns * BF16.size), self.op.x_group)
        whole = max(self.op.group, self.op.x_group)
        depth = -(-math.ceil(k / math.ceil(k / deepest)) // whole) * whole
        rows, panels = min(m, MAX_ON_TILES), math.ceil(gemm.n / columns)
        return [
            self._schedule(
                MatmulBlocking(tile, rows, depth, min(panels, gemm.cores)), "panel", "tile2"
            )
            for tile in (gemm.kernel.tiles if self.is_dynamic else tiles_of(gemm.kernel, m))
            if tile.vectors == self.vectors
        ]

    def on_byte_tiles(self) -> list[Schedule]:
        """Rows and levels stay bytes in two-dimensional registers."""
        if not takes_byte_tiles(self.op, self.ctx) or self.vectors > TILE_VECTORS:
            return []
        m, n, k = self.sizes
        tile = tile_of(min(self.rows, SCALED), self.vectors, self.gemm.kernel)
        panels = math.ceil(n / self.gemm.columns(tile))
        rows = min(m, max_on_byte_tiles(self.op, self.ctx))
        blocking = MatmulBlocking(tile, rows, k, min(panels, self.gemm.cores))
        return [self._schedule(blocking, "bytes", "tile4")]

    def _gemm(self, use: str) -> Gemm:
        return replace(self.gemm, kernel=kernel_of_use(use, self.ctx.target))

    @property
    def _dots(self) -> str:
        """The dot product that rows of bytes take: where the CPU has none, other instructions make that of four."""
        return dots_of(level_bits(self.op), self.ctx.target) or "dot4"

    def _tallest(self, accumulators: int) -> int:
        """Return the rows of a tile in which each vector of results has `accumulators` accumulators."""
        most = (self.ctx.target.table.registers - 4) // accumulators // self.vectors
        return max(1, min(most, self.rows))

    @property
    def _in_bytes(self) -> int:
        """Rows of a tile that reads bytes."""
        if is_wide(self.op, self.ctx):
            return WIDE_ROWS
        return CENTERED_ROWS if is_centered(self.op, self.ctx) else self._tallest(2)

    def _heights(self) -> list[int]:
        wide = self.op.part("x_scale") is not None and is_wide(self.op, self.ctx)
        most = min(self.rows, WIDE_ROWS if wide else max_rows(self.op, self.ctx))
        return list(dict.fromkeys((most, 1)))

    def _tiles(self) -> list[GemmTile]:
        m, n, _ = self.sizes
        tiles = ranked_tiles(m, n, self.ctx.target, self.gemm.kernel)
        return [x for x in tiles if x.vectors == self.vectors] or [
            tile_of(self._heights()[0], self.vectors, self.gemm.kernel)
        ]

    def _in_registers(self, rows: int, unpack: str, use: str) -> Schedule:
        m, n, k = self.sizes
        tile = tile_of(rows, self.vectors, self.gemm.kernel)
        panels = math.ceil(n / self.gemm.columns(tile))
        size = row_bytes(self.op, use, self.ctx)
        block = min(m, max(max_rows_bytes(self.ctx) // size, 1)) if size else m
        blocking = MatmulBlocking(tile, block, k, min(panels, self.gemm.cores))
        return self._schedule(blocking, unpack, use)

    def _schedule(self, blocking: MatmulBlocking, unpack: str, use: str) -> Schedule:
        return Schedule.of("nbits", **blocking.settings, unpack=unpack, use=use)

    def cycles(self, schedule: Schedule) -> float:
        """Return the cycles of dequantizing, multiply-adds and memory traffic."""
        gemm = self._gemm(schedule.word("use"))
        return NBitsCost(self.op, gemm, self.ctx).cycles(schedule)

    def fixed(self) -> dict[str, Parameter]:
        """The width of the panels."""
        return {"nv": self.vectors}

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require a dequantization that suits the instruction, and supported register tiles."""
        use, unpack, given = schedule.word("use"), schedule.word("unpack"), self.op.x.details.dtype
        dots, tiles = self._dots, self._on_registers(schedule)
        if tiles is not None:
            return tiles
        if use not in ("fma", dots):
            return f"use must be fma or {dots} on this CPU"
        if self.op.part("x_scale") is not None:
            if use == "fma" or unpack == "panel":
                return f"use must be {dots}, unpack registers or bytes, where rows are {given}"
        elif unpack == "bytes" or (unpack == "panel" and use != "fma"):
            return f"unpack must not be {unpack} with use={use} where rows are {given}"
        elif use != "fma" and not has_digits(self.op, self.ctx, self.rows):
            return (
                f"use must be fma where rows are {given}, except for few rows or fast dot products"
            )
        size = schedule.number("mc") * row_bytes(self.op, use, self.ctx)
        if size > max_rows_bytes(self.ctx):
            return "mc must be less: the rows of a block are converted in local memory"
        return unsupported_tile_reason(schedule, self.ctx.target)

    def _on_registers(self, schedule: Schedule) -> str | None:
        """Return the reason why two-dimensional registers cannot run a schedule, "" if they can, None for others.

        All registers of a function have one height: a whole one where rows are dynamic.
        """
        use, rows, shape = schedule.word("use"), schedule.number("mr"), self.ctx.target.table.tiles
        panel = {"tile2": ("panel", takes_tiles), "tile4": ("bytes", takes_byte_tiles)}.get(use)
        if shape is None or panel is None or self.vectors > TILE_VECTORS:
            return None
        unpack, takes = panel
        if not takes(self.op, self.ctx):
            return None
        if schedule.word("unpack") != unpack:
            return f"unpack must be {unpack} where use is {use}"
        heights = shape.rows, 2 * shape.rows
        is_fixed = is_known(self.op.sizes[0]) or use == "tile4" or rows in heights
        return "" if is_fixed else f"mr must be {heights[0]} or {heights[1]} where rows are dynamic"


def few_schedules(
    op: MatmulNBits, group: KernelGroup, ctx: LowerContext
) -> list[tuple[list[int], Schedule]]:
    """Return the numbers of rows that have separate code, with its schedule.

    Tiles of two rows and of one compute any number: numbers that would have only these share the code.
    """
    found: dict[tuple[str, str, int], tuple[list[int], Schedule]] = {}
    for rows in few_rows_of(op, ctx):
        pick = NBitsSpace(op, group, ctx, rows).of_few
        own = rows if pick.number("mr") > MAX_SHARED_TILE else 0
        key = pick.word("unpack"), pick.word("use"), own
        found[key] = [*found.get(key, ([], pick))[0], rows], pick
    return list(found.values())
