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
from .context import LowerContext
from .cost import Gemm, MatmulBlocking
from .matmul_tile import candidate_blockings, ranked_tiles
from .nbits_cost import NBitsCost, weight_bits
from .nbits_formats import rows_of
from .nbits_instructions import (
    DIGITS,
    MAX_ON_BYTE_TILES,
    SCALED,
    dots_of,
    has_digits,
    is_centered,
    is_rounded,
    is_wide,
    kernel_of_use,
    level_bits,
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

TILED = ("tile2", "tile4")

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
    in_words = is_rounded(op) and not (is_centered(op, ctx) or is_wide(op, ctx))
    most = MAX_FEW_ROUNDED if in_words else MAX_FEW_ROWS
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

    @property
    def _ways(self) -> list[tuple[str, str]]:
        """(where weights are unpacked, what multiplies) that the type of the rows and the CPU allow."""
        op, dots = self.op, self._dots
        if not is_rounded(op):
            digits = [("registers", dots)] * has_digits(op, self.ctx, self.rows)
            return [("registers", "fma"), *digits, ("panel", "fma")]
        of_tiles = {
            ("panel", "tile2"): takes_tiles(op, self.ctx),
            ("bytes", "tile4"): takes_byte_tiles(op, self.ctx),
        }
        tiles = [way for way, can in of_tiles.items() if can and self.vectors <= TILE_VECTORS]
        return [("registers", dots), ("bytes", dots), *tiles]

    def ranked(self) -> list[Schedule]:
        """Every way that suits the type of the rows, the faster first.

        A few of a dynamic number of rows have separate code: of f32 in registers, of bytes by dot products.
        """
        ways = self._ways
        if self.is_dynamic and not is_rounded(self.op):
            ways = [way for way in ways if way[0] == "panel"]
        elif not self.is_dynamic and not is_known(self.op.sizes[0]):
            ways = [way for way in ways if way[1] not in TILED]
        found = (one for way in ways for one in self.of_way(*way))
        return sorted(dict.fromkeys(found), key=self.cycles)

    def of_way(self, unpack: str, use: str) -> list[Schedule]:
        """Return the schedules worth trying with a way to unpack and to multiply."""
        if use in TILED:
            blockings = self._on_tiles() if use == "tile2" else self._on_byte_tiles()
        elif unpack == "panel":
            every = (candidate_blockings(self.gemm, tile) for tile in self._tiles())
            blockings = [one for some in every for one in some]
        else:
            blockings = [self._of_rows(rows, use) for rows in self._heights(unpack, use)]
        return [
            Schedule.of("nbits", **one.settings, unpack=unpack, use=use)
            for one in dict.fromkeys(blockings)
        ]

    @property
    def on_byte_tiles(self) -> list[Schedule]:
        """Return the schedule with rows and levels as bytes in two-dimensional registers, if there is one."""
        way = ("bytes", "tile4")
        return self.of_way(*way) if way in self._ways else []

    def _on_tiles(self) -> list[MatmulBlocking]:
        """Weights and rows of bytes become bf16 for two-dimensional registers; a panel of a block of k stays in L1."""
        (m, _, k), gemm = self.sizes, self._gemm("tile2")
        columns = self.vectors * self.ctx.target.lanes(F32)
        deepest = max(gemm.target.l1_bytes * 5 // 6 // (columns * BF16.size), self.op.x_group)
        whole = max(self.op.group, self.op.x_group)
        depth = -(-math.ceil(k / math.ceil(k / deepest)) // whole) * whole
        tiles = gemm.kernel.tiles if self.is_dynamic else tiles_of(gemm.kernel, m)
        return [
            self._blocking(tile, min(m, MAX_ON_TILES), depth)
            for tile in tiles
            if tile.vectors == self.vectors
        ]

    def _on_byte_tiles(self) -> list[MatmulBlocking]:
        tile = tile_of(min(self.rows, SCALED), self.vectors, self.gemm.kernel)
        rows = min(self.sizes[0], max_on_byte_tiles(self.op, self.ctx))
        return [self._blocking(tile, rows, self.sizes[2])]

    def _of_rows(self, rows: int, use: str) -> MatmulBlocking:
        """Tiles of some rows, and blocks of as many as are converted in local memory."""
        (m, _, k), size = self.sizes, row_bytes(self.op, use, self.ctx)
        block = min(m, max(max_rows_bytes(self.ctx) // size, 1)) if size else m
        return self._blocking(tile_of(rows, self.vectors, self.gemm.kernel), block, k)

    def _blocking(self, tile: GemmTile, rows: int, depth: int) -> MatmulBlocking:
        """A blocking whose panels all cores share."""
        panels = math.ceil(self.gemm.n / self.gemm.columns(tile))
        return MatmulBlocking(tile, rows, depth, min(panels, self.gemm.cores))

    def _gemm(self, use: str) -> Gemm:
        return replace(self.gemm, kernel=kernel_of_use(use, self.ctx.target))

    @property
    def _dots(self) -> str:
        """The dot product that rows of bytes take: where the CPU has none, other instructions make that of four."""
        return dots_of(level_bits(self.op), self.ctx.target) or "dot4"

    def _heights(self, unpack: str, use: str) -> list[int]:
        """Return the rows of tiles: the most that suit the registers; one too, except in panels of bytes."""
        registers = (self.ctx.target.table.registers - 4) // self.vectors
        most = max_rows(self.ctx)
        if not is_rounded(self.op):
            most = most if use == "fma" else registers // (1 + DIGITS)
        elif is_wide(self.op, self.ctx):
            most = WIDE_ROWS
        elif unpack == "bytes":
            most = CENTERED_ROWS if is_centered(self.op, self.ctx) else registers // 2
        found = max(1, min(most, self.rows))
        return [found] if unpack == "bytes" else list(dict.fromkeys((found, 1)))

    def _tiles(self) -> list[GemmTile]:
        m, n, _ = self.sizes
        tiles = ranked_tiles(m, n, self.ctx.target, self.gemm.kernel)
        return [x for x in tiles if x.vectors == self.vectors] or [
            tile_of(min(self.rows, max_rows(self.ctx)), self.vectors, self.gemm.kernel)
        ]

    def cycles(self, schedule: Schedule) -> float:
        """Return the cycles of dequantizing, multiply-adds and memory traffic."""
        gemm = self._gemm(schedule.word("use"))
        return NBitsCost(self.op, gemm, self.ctx).cycles(schedule)

    def fixed(self) -> dict[str, Parameter]:
        """The width of the panels."""
        return {"nv": self.vectors}

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require a way that suits the rows and the CPU, and supported register tiles."""
        unpack, use, ways = schedule.word("unpack"), schedule.word("use"), self._ways
        if (unpack, use) not in ways:
            known = " or ".join(f"unpack={unpack} use={use}" for unpack, use in ways)
            return f"unpack and use must be as in {known} where rows are {self.op.x.details.dtype}"
        shape = self.ctx.target.table.tiles
        if shape is not None and use == "tile2" and not is_known(self.op.sizes[0]):
            heights = shape.rows, 2 * shape.rows  # all registers of a function have one height
            if schedule.number("mr") not in heights:
                return f"mr must be {heights[0]} or {heights[1]} where rows are dynamic"
        size = schedule.number("mc") * row_bytes(self.op, use, self.ctx)
        if use not in TILED and size > max_rows_bytes(self.ctx):
            return "mc must be less: the rows of a block are converted in local memory"
        return "" if use in TILED else unsupported_tile_reason(schedule, self.ctx.target)


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
