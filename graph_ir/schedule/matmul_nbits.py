"""Schedules of a matmul with packed weights: the layouts of its operands, and the step that dequantizes weights."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.dims import bounds, is_known
from ...base.dtypes import BF16, F32, S8, U8
from ...base.packed_words import WORD_BYTES
from ...targets.isa import GemmTile, Microkernel, Target
from ...targets.microkernels import f32_kernel, microkernel, microkernels
from ..ir.format import Format, plain
from ..ir.schedule import Parameter, Schedule
from ..ops.matmul_nbits import MatmulNBits
from ..rewriting.kernel_group import KernelGroup
from ..rewriting.values import constant_value
from .byte_pairs import MAX_S8, dots_of, is_centered, level_bits
from .context import LowerContext
from .format_choice import FormatChoice
from .gemm import Gemm
from .matmul import MAX_ROWS, blocking_of
from .matmul_cost import blocking_cycles
from .matmul_tile import MatmulBlocking, candidate_blockings, pick_tile, ranked_tiles
from .problem import problem_of
from .register_tile import BLOCKING_MEANINGS, tile_of, unsupported_tile_reason
from .requested import requested_settings
from .space import ScheduleSpace
from .two_dimensional import tiles_of

UNPACK = ("registers", "panel", "bytes")

USE = ("fma", "dot2", "dot4", "tile2", "tile4")

UNPACKING, UNPACKING_BYTES, UNPACKING_JOINED = 5.0, 3.5, 10.0
"""Instructions that unpack a vector of weights: shift, mask, conversion, zero point, scale and a share of loads. Bytes
need no shift; levels whose upper bits are in other words are shifted and masked twice, and joined."""

STORING = 1.0
"""The same, where a panel stores it."""

DIGITS = 3
"""Bytes that a number of f32 is multiplied as by dot products."""

MAX_FEW_ROWS, MAX_FEW_ROUNDED = 4, 8
"""Each dynamic number of rows up to this has separate code: of f32, and of bytes. Where 16 bits hold sums of bytes,
more than 4 are faster in tiles of 5 (5 to 8 rows by 2048x640 in 5 bits take 0.70 of the time, measured on Zen 3)."""

TILE_VECTORS = 2
"""Registers of columns that are multiplied together on two-dimensional registers."""

MAX_ON_BYTE_TILES = 32
"""Rows of bytes up to which two-dimensional registers multiply bytes in groups of 32 rather than bf16, half as many in
groups of 16: vectors scale the sums of each group of a row, while making bf16 of weights takes as long for any number
of rows. 5-bit weights 2048x640 take 0.54 of the time of bf16 for 16 rows, 0.82 for 32 and 1.07 for 48."""

MAX_GROUP = 1 << 14
"""Maximum number of terms of a group of byte dot products that fits s32, zero points included."""

MAX_IN_PAIRS = 4
"""Rows of f32 that are multiplied two bytes at a time: for more, panels of floats are faster."""

MAX_OF_MEMORY = 2
"""Rows of f32 that memory, not multiplication, makes wait for weights of 8 bits."""

MAX_ON_TILES = 512
"""Rows of a block that two-dimensional registers multiply: as bf16 they stay in L2 while panels pass."""

MAX_IN_REGISTERS = 8
"""Rows of bytes for which words are unpacked several times rather than copied."""

DOT_UNPACKING = 0.75
"""The same, where words are taken apart into bytes."""

PREPARING = 90.0
"""Cycles in which a group of a row of f32 becomes digits (measured on Zen 5); every task does so for its rows."""

CENTERED_ROWS = 5
"""Rows of bytes that are summed together in 16 bits: with two vectors of columns they leave 6 of 16 registers for
operands. Of 3 to 6 rows, 5 are fastest for levels of 4 to 6 bits, by up to 16 % (measured on Zen 3)."""

MAX_SHARED_TILE = 2
"""Rows of the largest tile that a dynamic number of rows needs no others for than that of one row."""

SCALED = 4
"""Rows of which the sums of a group are scaled together."""

SCALING = 8
"""Instructions that make an f32 of the three sums of a group, and add it."""


def nbits_formats(op: MatmulNBits, ctx: LowerContext) -> list[FormatChoice]:
    """Words, scales and zero points in panels as wide as the register tile, the rest plain."""
    requested = requested_settings(op, problem_of(op), ctx).settings.get("nv")
    vectors = requested if isinstance(requested, int) and 0 < requested <= 6 else _vectors(op, ctx)
    columns = vectors * ctx.target.lanes(f32_kernel(ctx.target).accumulator)
    axes = "NK"
    words = Format(axes, (0, 1, 0, 1), (0, 0, columns, WORD_BYTES // op.w.details.dtype.size))
    scales = Format(axes, (0, 1, 0), (0, 0, columns))
    zero = plain(2) if op.zero_point.details.elements == 1 else scales
    others = {"high": words, "book": plain(1), "x_scale": plain(2, "MK")}
    given = (plain(2, "MK"), words, scales, zero, *(others.get(x, scales) for x in op.part_names))
    return [FormatChoice(given, (plain(2, "MN"),))]


def _vectors(op: MatmulNBits, ctx: LowerContext) -> int:
    """Return wide panels if weights are dequantized in registers, or else the panels of float matmuls."""
    m, n = rows_of(op), op.sizes[1]
    kernel, lanes = f32_kernel(ctx.target), ctx.target.lanes(f32_kernel(ctx.target).accumulator)
    if has_digits(op, ctx, m):
        wide = m == 1 and dots_of(level_bits(op), ctx.target) == "dot4"
        return min(4 if wide else 2, math.ceil(n / lanes))
    if m > max_rows(op, ctx) and op.part("x_scale") is None:
        return pick_tile(m, n, ctx.target, kernel).vectors
    if op.part("x_scale") is not None and m > MAX_IN_REGISTERS:
        return min(2, math.ceil(n / lanes))
    return min(4 if m <= 2 else 3, math.ceil(n / lanes))


def rows_of(op: MatmulNBits) -> int:
    """Return the number of rows, or the largest that blocks are chosen for if it is dynamic."""
    m = op.sizes[0]
    return m if isinstance(m, int) else min(bounds(m)[1], MAX_ROWS)


def few_rows_of(op: MatmulNBits, ctx: LowerContext) -> range:
    """Return the numbers of rows that have separate code: none if the number is static."""
    m = op.sizes[0]
    if is_known(m):
        return range(0)
    low, high = bounds(m)
    is_rounded = op.part("x_scale") is not None and not is_centered(op, ctx)
    most = MAX_FEW_ROUNDED if is_rounded else MAX_FEW_ROWS
    if max_on_byte_tiles(op, ctx) == MAX_ON_BYTE_TILES:  # which are as fast for five rows
        most = MAX_FEW_ROWS
    return range(max(low, 1), min(high, most) + 1)


def kernel_of_use(use: str, target: Target) -> Microkernel:
    """Return the microkernel that a schedule uses for panels of weights."""
    return next((x for x in _tile_kernels(target) if x.instruction == use), f32_kernel(target))


def _tile_kernels(target: Target) -> list[Microkernel]:
    """Return the microkernel of bf16 in two-dimensional registers, where the target has it."""
    return [x for x in microkernels(BF16, BF16, target, tiles=True) if x.uses_tiles]


def takes_tiles(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether rows of bytes may become bf16: their groups are whole steps of two-dimensional registers."""
    known = _tile_kernels(ctx.target) if op.part("x_scale") is not None else []
    return any(x.registers and not op.x_group % (x.registers.row_bytes // x.a.size) for x in known)


def takes_byte_tiles(op: MatmulNBits, ctx: LowerContext) -> bool:
    """Return whether two-dimensional registers may multiply rows of bytes: groups are whole steps of them, and levels,
    less a zero point that serves all, fit s8."""
    shape, step = ctx.target.table.tiles, min(op.group, op.x_group)
    if shape is None or op.part("x_scale") is None:
        return False
    zero, book = constant_value(op.zero_point), op.part("book")
    levels = None if book is None else constant_value(book)
    largest = (1 << level_bits(op)) - 1 if levels is None else int(levels.max())
    middle = zero.item() if zero is not None and zero.size == 1 else 0
    fits = 0 <= middle <= MAX_S8 + 1 and largest - middle <= MAX_S8
    whole = max(step, shape.row_bytes)
    return fits and not (whole % step or whole % shape.row_bytes or op.sizes[2] % whole)


def max_on_byte_tiles(op: MatmulNBits, ctx: LowerContext) -> int:
    """Return the rows of bytes up to which two-dimensional registers multiply bytes, 0 if they cannot."""
    shape, step = ctx.target.table.tiles, min(op.group, op.x_group)
    if shape is None or not takes_byte_tiles(op, ctx):
        return 0
    return MAX_ON_BYTE_TILES * min(2 * step, shape.row_bytes) // shape.row_bytes


def max_rows(op: MatmulNBits, ctx: LowerContext) -> int:
    """Rows that share an unpacked word: their sums, those of a group and what is unpacked fit the registers."""
    return 4 if ctx.target.table.registers > 16 else 2


def has_digits(op: MatmulNBits, ctx: LowerContext, m: int) -> bool:
    """Return whether `m` rows of f32 may be multiplied as digits: dot products of bytes are that much faster."""
    use = dots_of(level_bits(op), ctx.target)
    fast = (
        microkernel(U8, S8, ctx.target).rate(ctx.target) > DIGITS
        if use == "dot4"
        else m <= MAX_IN_PAIRS
    )
    fits = op.bits <= 8 and op.group <= MAX_GROUP and op.sizes[2] * DIGITS <= _max_digits(ctx)
    given = op.part("x_scale") is None and use != "" and ctx.options.enabled("fixed-point")
    return given and fast and fits and (op.bits < 8 or m > MAX_OF_MEMORY)


def _max_digits(ctx: LowerContext) -> int:
    """Bytes of digits in local memory, which tiles and sums share."""
    return ctx.target.machine.max_local_bytes // 2


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
        """`rows`: the number to choose for, if it is dynamic."""
        super().__init__(op.name, problem_of(op))
        self.op = op
        self.ctx = ctx
        self.rows = rows_of(op) if rows is None else rows
        self.sizes = (self.rows, *op.sizes[1:])
        self.is_dynamic = rows is None and not is_known(op.sizes[0])
        threads = 1 if self.is_dynamic else ctx.options.threads  # shared when it runs
        self.gemm = Gemm(
            1, *self.sizes, f32_kernel(ctx.target), ctx.target, threads, b_bits=self._bits
        )
        self.vectors = op.w.details.format.blocks[2] // ctx.target.lanes(F32)

    def ranked(self) -> list[Schedule]:
        """Every way that suits the type of the rows, the faster first."""
        use = self._dots
        found: list[Schedule] = []
        if self.is_dynamic and self.op.part("x_scale") is None:  # few rows have separate code
            found = self._panels()
        elif self.op.part("x_scale") is not None:
            found = [self._in_registers(rows, "registers", use) for rows in self._heights()]
            fits = is_centered(self.op, self.ctx)
            tallest = min(CENTERED_ROWS, self.rows) if fits else self._tallest(2)
            found.append(self._in_registers(tallest, "bytes", use))
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

    def _heights(self) -> list[int]:
        most = min(self.rows, max_rows(self.op, self.ctx))
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
        in_digits = use != "fma" and self.op.part("x_scale") is None
        block = min(m, max(_max_digits(self.ctx) // (k * DIGITS), 1)) if in_digits else m
        blocking = MatmulBlocking(tile, block, k, min(panels, self.gemm.cores))
        return self._schedule(blocking, unpack, use)

    def _schedule(self, blocking: MatmulBlocking, unpack: str, use: str) -> Schedule:
        return Schedule.of("nbits", **blocking.settings, unpack=unpack, use=use)

    def cycles(self, schedule: Schedule) -> float:
        """Return the cycles of dequantizing, multiply-adds and memory traffic."""
        gemm = self._gemm(schedule.word("use"))
        blocking = blocking_of(schedule, gemm.kernel)
        machine, (m, n, k) = self.ctx.target.machine, self.sizes
        vectors = n * k / self.ctx.target.lanes(F32)
        issued = 2 * machine.fma_per_cycle
        unpacked = self._unpacking
        if schedule.word("unpack") == "panel":
            work = vectors * (unpacked + STORING) / issued
            panel = F32.size * gemm.columns(blocking.tile) * blocking.k_block
            if panel > self.ctx.target.l1_bytes // 2:  # written to L2, and read again
                work += 2 * F32.size * n * k / machine.l2_bytes_per_cycle * machine.unhidden
            times = math.ceil(m / blocking.m_block)
            return blocking_cycles(gemm, blocking) + times * work / self.gemm.cores
        tiles = math.ceil(m / blocking.tile.rows)
        if schedule.word("use") == "tile4":
            step = min(self.op.group, self.op.x_group)
            scaled = m * vectors / step * 3 / machine.fma_per_cycle
            work = vectors * (DOT_UNPACKING + 1) / issued + scaled
            return work / self.gemm.cores + self._traffic * math.ceil(m / blocking.m_block)
        if schedule.word("unpack") == "bytes":
            sums = m * vectors / WORD_BYTES * (1 + 2 * WORD_BYTES / self.op.group)
            work = vectors * (DOT_UNPACKING + 1) / issued + sums / machine.fma_per_cycle
            # the copy is written and read again, and waits for memory before it is multiplied
            return work / self.gemm.cores + self._traffic
        if self.op.part("x_scale") is not None:
            work = vectors * (tiles * DOT_UNPACKING + m / 2) / issued
        elif schedule.word("use") != "fma":
            dots = m * (DIGITS / WORD_BYTES + DIGITS / self.op.group)
            if schedule.word("use") == "dot2":  # which are added apart, and joined
                dots += m * DIGITS * (1 / WORD_BYTES + 1 / self.op.group)
            work = vectors * max(
                (tiles * DOT_UNPACKING + dots + m * SCALING / self.op.group) / issued,
                dots / machine.fma_per_cycle,
            )
            work += m * k / self.op.group * PREPARING * self.gemm.cores
            tiles = math.ceil(m / blocking.m_block)  # those of one block find the panel in L2
        else:
            work = vectors * max(
                (tiles * unpacked + m) / issued, (tiles + m) / machine.fma_per_cycle
            )
        found = (work / self.gemm.cores, tiles * self._traffic)
        return max(found) + machine.unhidden * min(found)

    @property
    def _bits(self) -> float:
        """Bits of an element of the weights in memory, with its part of scales and the like."""
        weights = (self.op.w, self.op.scale, *self.op.others)
        total = sum(one.details.typical.size_bytes for one in weights)
        return 8 * total / math.prod(self.sizes[1:])

    @property
    def _unpacking(self) -> float:
        if self.op.part("high") is not None:
            return UNPACKING_JOINED
        return UNPACKING if level_bits(self.op) < 8 else UNPACKING_BYTES

    @property
    def _traffic(self) -> float:
        """Cycles to read all weights once."""
        return self.gemm.b_bytes / self.ctx.target.machine.shared_bytes_per_cycle

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
        elif use != "fma":
            if not has_digits(self.op, self.ctx, self.rows):
                return f"use must be fma where rows are {given}, except for few rows or fast dot products"
            if schedule.number("mc") * self.sizes[2] * DIGITS > _max_digits(self.ctx):
                return "mc must be less: the digits of a block are in local memory"
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
        pick = NBitsSpace(op, group, ctx, rows).pick
        own = rows if pick.number("mr") > MAX_SHARED_TILE else 0
        key = pick.word("unpack"), pick.word("use"), own
        found[key] = [*found.get(key, ([], pick))[0], rows], pick
    return list(found.values())
