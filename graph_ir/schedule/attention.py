"""How attention may run: blocks of rows, blocks of columns where softmax is done block by block, register tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...base.contraction import f32_kernel
from ...base.dtypes import F32
from ...base.target import GemmTile, Target
from ..ir.schedule import Parameter, Schedule
from ..ops.matmul import MatmulCore
from ..rewriting.attention import PACKED_BYTES, is_online, packed_bytes
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .matmul_tile import pick_tile
from .register_tile import MOST_ACCUMULATORS, tile_of
from .space import ScheduleSpace

COLUMNS = 256
"""Columns of a block of online attention. Fewer would scale the result more often; more leave room in L2 for fewer rows
beside them, and rows are what pays for packing keys and values: 4 points of peak between 128 and 512 rows."""


@dataclass(frozen=True)
class AttentionBlocking:
    """`rows` of the scores at a time, `columns` of them (all, unless online); the register tiles of both products."""

    rows: int
    columns: int
    tiles: tuple[GemmTile, GemmTile]


def attention_blocking(schedule: Schedule, columns: int, target: Target) -> AttentionBlocking:
    """The blocking that a schedule says; `columns`: all there are."""
    first, second = (
        tile_of(schedule.number(f"mr{i}"), schedule.number(f"nv{i}"), f32_kernel(target))
        for i in (1, 2)
    )
    if schedule.algorithm == "online_attention":
        columns = schedule.number("columns")
    return AttentionBlocking(schedule.number("rows"), columns, (first, second))


class AttentionSpace(ScheduleSpace):
    """Blockings of attention whose scores of a block of rows lie in cache as a whole."""

    algorithm = "attention"
    meanings = {
        "rows": "rows of scores at a time",
        "mr1": "rows of a register tile of the scores",
        "nv1": "vectors of a register tile of the scores",
        "mr2": "rows of a register tile of the result",
        "nv2": "vectors of a register tile of the result",
    }

    def __init__(self, group: KernelGroup, ctx: LowerContext) -> None:
        self.first, self.second = (op for op in group.ops if isinstance(op, MatmulCore))
        self.ctx = ctx
        self.rows, self.columns, depth = self.first.sizes
        self.width = self.second.sizes[1]
        batch = math.prod(self.second.outputs[0].details.plain_dims[:-2])
        sizes = f"b{batch}m{self.rows}n{self.columns}k{depth}w{self.width}"
        super().__init__(self.second.name, f"{self.algorithm} {sizes} f32")

    @property
    def pick(self) -> Schedule:
        """Rows whose scores take a quarter of L2, which they share with the packed keys and values."""
        most = max(4, self.ctx.target.l2_bytes // 4 // (4 * self.columns))
        rows = -(-math.ceil(self.rows / math.ceil(self.rows / most)) // 4) * 4
        return self._schedule(min(self.rows, rows))

    def ranked(self) -> list[Schedule]:
        """The pick, then blocks of half, a quarter and twice the rows."""
        pick = self.pick.number("rows")
        sizes = (pick, pick // 2, pick // 4, pick * 2, self.rows)
        kept = dict.fromkeys(rows for rows in sizes if 0 < rows <= min(self.rows, 4 * pick))
        return [self._schedule(rows) for rows in kept]

    def fixed(self) -> dict[str, Parameter]:
        """The widths of the panels that keys and values lie in."""
        lanes, found = self.ctx.target.lanes(F32), {}
        for number, op in enumerate((self.first, self.second), start=1):
            fmt = op.inputs[1].details.format
            if fmt.is_blocked:
                found[f"nv{number}"] = fmt.blocks[-1] // lanes
        return dict(found)

    def fault(self, schedule: Schedule) -> str:
        """Blocks of rows there are, and tiles that code can be made for."""
        if schedule.number("rows") > self.rows:
            return f"rows must be at most {self.rows}"
        most = MOST_ACCUMULATORS * self.ctx.target.table.registers
        for i in (1, 2):
            if schedule.number(f"mr{i}") * schedule.number(f"nv{i}") > most:
                return f"mr{i} x nv{i} must be at most {most} on {self.ctx.target.isa}"
        return ""

    def _schedule(self, rows: int) -> Schedule:
        return Schedule.of(self.algorithm, rows=rows, **self._tiles(rows, self.columns))

    def _tiles(self, rows: int, columns: int) -> dict[str, int]:
        settings: dict[str, int] = {}
        widths, kernel = self.fixed(), f32_kernel(self.ctx.target)
        for number, n in ((1, columns), (2, self.width)):
            width = widths.get(f"nv{number}")
            tile = pick_tile(rows, n, self.ctx.target, kernel)
            if isinstance(width, int):
                known = (x for x in kernel.tiles if x.vectors == width)
                tile = next(known, GemmTile(1, width))
            settings |= {f"mr{number}": tile.rows, f"nv{number}": tile.vectors}
        return settings


class OnlineSpace(AttentionSpace):
    """Blockings of attention over sequences of any length: the softmax is done on blocks of columns."""

    algorithm = "online_attention"
    meanings = {
        "rows": "rows of scores at a time",
        "columns": "columns of scores at a time",
        **{name: text for name, text in AttentionSpace.meanings.items() if name != "rows"},
    }

    @property
    def pick(self) -> Schedule:
        """Rows whose scores of a block of columns take half of L2."""
        return self._blocks(min(self.columns, COLUMNS))

    def ranked(self) -> list[Schedule]:
        """The pick, then narrower and wider blocks of columns, and half the rows."""
        pick = self.pick
        columns = dict.fromkeys(min(self.columns, size) for size in (COLUMNS, 128, 512))
        others = [self._blocks(size) for size in columns]
        half = pick.replaced(rows=max(pick.number("rows") // 2, 1))
        return list(dict.fromkeys([pick, *others, half]))

    def fault(self, schedule: Schedule) -> str:
        """Blocks of columns there are, and what attention asks for."""
        if schedule.number("columns") > self.columns:
            return f"columns must be at most {self.columns}"
        return super().fault(schedule)

    def _blocks(self, columns: int) -> Schedule:
        most = max(4, self.ctx.target.l2_bytes // 2 // (4 * columns))
        rows = math.ceil(self.rows / math.ceil(self.rows / most))
        return Schedule.of(self.algorithm, rows=rows, columns=columns, **self._tiles(rows, columns))


def attention_space(group: KernelGroup, ctx: LowerContext) -> AttentionSpace:
    """By blocks of columns where packed keys and values are too large for a thread's stack, else by whole rows."""
    first, second = (op for op in group.ops if isinstance(op, MatmulCore))
    if packed_bytes(first, second) > PACKED_BYTES and is_online(group.ops):
        return OnlineSpace(group, ctx)
    return AttentionSpace(group, ctx)
