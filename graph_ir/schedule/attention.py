"""Schedules of attention: whole rows of scores or blocks of them, register tiles, tasks, prefetching."""

from __future__ import annotations

import math
from functools import cached_property

from ...base.dims import bounds, is_known
from ...base.errors import InternalError
from ...base.size_queries import typical_all
from ...targets.isa import GemmTile, Microkernel, Target, TileShape, tile_depth
from ...targets.microkernels import microkernels
from ..ir.op import Op
from ..ir.schedule import Parameter, Schedule
from ..nest.row_tiles import MAX_TILE_ROWS
from ..ops.matmul import MatmulCore
from ..rewriting.attention import (
    PACKED_BYTES,
    has_dynamic_sizes,
    is_online,
    packed_bytes,
    panel_groups,
)
from ..rewriting.kernel_group import KernelGroup
from .attention_blocking import attention_blocking, attention_cycles
from .context import LowerContext
from .cost import Gemm
from .matmul import USE_MEANING, kernel_of
from .matmul_tile import pick_tile
from .problem import attention_problem
from .register_tile import MAX_ACCUMULATORS
from .space import ScheduleSpace

OPEN = ("heads", "none")
"""Task and prefetching settings for rows or columns that are known at run time."""

COLUMNS = 256
"""Columns of a block of online attention. Fewer would scale the result more often; more leave room in L2 for fewer rows
beside them, and rows are what pays for packing keys and values: 4 points of peak between 128 and 512 rows."""

MAX_ROWS = 4096
"""Rows of a block of whole rows. More gain nothing, and beside its scores each has other locals on the stack."""


def attention_kernel(first: Op, second: Op, target: Target) -> Microkernel | None:
    """Return the microkernel that runs both matmuls of an attention, the preferred one; None if there is none.

    Panels that one of them reads may have groups of k that the other is too shallow for.
    """
    assert isinstance(first, MatmulCore) and isinstance(second, MatmulCore)
    types = first.contraction
    groups = panel_groups((first, second))
    # Neighboring k of a transposed left operand do not lie together.
    any_group = not first.transpose_a
    known = (
        x
        for x in microkernels(types.a, types.b, target, tiles=True)
        if x.registers is None or _suits(first, second, x, x.registers)
    )
    return next(
        (x for x in known if x.k_group in groups or (not groups and (any_group or x.k_group == 1))),
        None,
    )


def _suits(first: MatmulCore, second: MatmulCore, kernel: Microkernel, shape: TileShape) -> bool:
    """Return whether both matmuls have steps of one depth of two-dimensional registers of one height.

    The shapes of a function share few registers. Below a quarter of a register, rows gain nothing.
    """
    if has_dynamic_sizes(first, second) or packed_bytes(first, second) > PACKED_BYTES:
        return False
    rows, columns, depth = first.sizes
    one, other = (tile_depth(k, kernel.k_group, shape) for k in (depth, columns))
    return rows >= shape.rows // 4 and one.depth == other.depth


class AttentionSpace(ScheduleSpace):
    """Blockings of attention: the scores of a block of rows lie in cache as a whole, or softmax is done on blocks."""

    algorithm = "attention"
    meanings = {
        "softmax": "whole rows of scores, or online: block by block",
        "rows": "rows of scores at a time; of a dynamic number of columns more, where there are fewer than `columns`",
        "columns": "columns of scores at a time",
        "mr1": "rows of a register tile of the scores",
        "nv1": "vectors of a register tile of the scores",
        "mr2": "rows of a register tile of the result",
        "nv2": "vectors of a register tile of the result",
        "split": "heads or rows, what is a task: blocks of rows pack keys and values each",
        "prefetch": "head or none, what is fetched ahead; none with dynamic sizes",
        "use": USE_MEANING,
    }
    words = ("softmax", "split", "prefetch", "use")
    choices = {
        "softmax": ("whole", "online"),
        "split": ("heads", "rows"),
        "prefetch": ("head", "none"),
    }
    leading = ("softmax",)

    def __init__(self, group: KernelGroup, ctx: LowerContext) -> None:
        self.first, self.second = (op for op in group.ops if isinstance(op, MatmulCore))
        self.ctx = ctx
        self.is_dynamic = has_dynamic_sizes(self.first, self.second)
        rows, columns, _ = self.first.sizes
        self.rows, self.columns = bounds(rows)[1], bounds(columns)[1]
        self.typical, self.width = typical_all((rows, columns)), self.second.sizes[1]
        self.fits_stack = bounds(packed_bytes(self.first, self.second))[1] <= PACKED_BYTES
        self.may_be_online = not self.is_dynamic and is_online(group.ops)
        super().__init__(self.second.name, attention_problem(self.first, self.second))
        kernel = attention_kernel(self.first, self.second, ctx.target)
        if kernel is None:
            raise InternalError(f"no microkernel runs both matmuls of '{self.second.name}'")
        self.kernel = kernel
        self.may_be_online = self.may_be_online and not self.kernel.uses_tiles

    @cached_property
    def pick(self) -> Schedule:
        """Whole rows, unless packed keys and values are too large for a thread's stack."""
        is_long = self.may_be_online and not self.fits_stack
        return self._online(min(self.columns, COLUMNS)) if is_long else self._whole_pick()

    def ranked(self) -> list[Schedule]:
        """The pick, other blocks of rows and columns, other tasks, nothing fetched ahead, and the other softmax."""
        found = [self.pick, *self._whole_rows(), *self._online_blocks()]
        found.sort(key=lambda schedule: schedule.word("softmax") != self.pick.word("softmax"))
        return list(dict.fromkeys(found))

    def _whole_rows(self) -> list[Schedule]:
        if not self.fits_stack:
            return []
        pick = self._whole_pick()
        rows = pick.number("rows")
        if self.is_dynamic:
            return [self._whole(size) for size in (rows, max(rows // 2, 1))]
        sizes = (rows, rows // 2, rows // 4, rows * 2, self.rows)
        kept = dict.fromkeys(size for size in sizes if 0 < size <= min(self.rows, 4 * rows))
        shared = self._whole(min(rows, math.ceil(self.rows / self.ctx.options.threads)))
        others = [pick.replaced(prefetch="none"), shared.replaced(split="rows")]
        return [*map(self._whole, kept), *others]

    def _online_blocks(self) -> list[Schedule]:
        if not self.may_be_online:
            return []
        sizes = dict.fromkeys(min(self.columns, size) for size in (COLUMNS, 128, 512))
        blocks = [self._online(size) for size in sizes]
        half = max(blocks[0].number("rows") // 2, 1)
        return [*blocks, blocks[0].replaced(rows=half), blocks[0].replaced(split="heads")]

    def cycles(self, schedule: Schedule) -> float | None:
        """Return the predicted cycles of a schedule for sizes that are known."""
        batch = self.second.outputs[0].details.plain_dims[:-2]
        if self.is_dynamic or not is_known(*batch):
            return None
        heads, depth, threads = math.prod(batch), self.first.sizes[2], self.ctx.options.threads
        rows, columns = self.typical
        gemm = Gemm(heads, rows, columns, depth, self.kernel, self.ctx.target, threads)
        blocking = attention_blocking(schedule, self.first, self.ctx.target)
        return attention_cycles(gemm, self.width, blocking)

    def fixed(self) -> dict[str, Parameter]:
        """The widths of the panels that keys and values lie in."""
        lanes, found = self.ctx.target.lanes(self.kernel.accumulator), {}
        for number, op in enumerate((self.first, self.second), start=1):
            fmt = op.inputs[1].details.format
            if fmt.is_blocked:
                found[f"nv{number}"] = fmt.blocks[fmt.rank] // lanes
        return dict(found)

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require existing blocks of rows and columns that fit in memory, and supported register tiles."""
        if schedule.word("softmax") == "online":
            if not self.may_be_online:
                return (
                    "softmax=online needs a softmax alone, of keys and values that lie in no panels"
                )
            if schedule.word("prefetch") != "none":
                return "prefetch must be none with softmax=online"
        elif not self.fits_stack:
            return f"softmax=whole needs keys and values of at most {PACKED_BYTES >> 20} MiB"
        elif schedule.number("columns") != self.columns:
            return f"columns must be all {self.columns} with softmax=whole"
        elif self.is_dynamic and (schedule.word("split"), schedule.word("prefetch")) != OPEN:
            return "split must be heads and prefetch none where sizes are dynamic"
        return self._unsupported_sizes_reason(schedule)

    def _unsupported_sizes_reason(self, schedule: Schedule) -> str:
        if kernel_of(schedule, self.first, self.ctx.target) != self.kernel:
            return f"use must be {self.kernel.instruction} for these operands"
        for name, most in (("rows", self.rows), ("columns", self.columns)):
            if schedule.number(name) > most:
                return f"{name} must be at most {most}"
        limit = MAX_ACCUMULATORS * self.ctx.target.table.registers
        for i in (1, 2):
            if schedule.number(f"mr{i}") * schedule.number(f"nv{i}") > limit:
                return f"mr{i} x nv{i} must be at most {limit} on {self.ctx.target.isa}"
        return ""

    def _whole_pick(self) -> Schedule:
        """Rows whose scores take a quarter of L2, which they share with the packed keys and values."""
        rows = self._fitting_rows(4, self.columns)
        return self._whole(min(self.rows, -(-rows // 4) * 4))

    def _fitting_rows(self, share: int, columns: int) -> int:
        """Return the rows of blocks of equal size whose scores of `columns` take 1 / `share` of L2."""
        fitting = self.ctx.target.l2_bytes // share // (self.kernel.accumulator.size * columns)
        blocks = math.ceil(self.rows / min(max(4, fitting), MAX_ROWS))
        return math.ceil(self.rows / blocks)

    def _whole(self, rows: int) -> Schedule:
        prefetch = "none" if self.is_dynamic else "head"
        return self._blocks("whole", rows, self.columns, "heads", prefetch)

    def _online(self, columns: int) -> Schedule:
        """Rows whose scores of a block of columns take half of L2."""
        return self._blocks("online", self._fitting_rows(2, columns), columns, "rows", "none")

    def _blocks(self, softmax: str, rows: int, columns: int, split: str, prefetch: str) -> Schedule:
        return Schedule.of(
            self.algorithm, softmax=softmax, rows=rows, columns=columns,
            **self._tiles(rows, columns), split=split, prefetch=prefetch,
            use=self.kernel.instruction,
        )  # fmt: skip

    def _tiles(self, rows: int, columns: int) -> dict[str, int]:
        settings: dict[str, int] = {}
        widths, kernel = self.fixed(), self.kernel
        if self.is_dynamic:
            rows, columns = self.typical
        for number, n in ((1, columns), (2, self.width)):
            width = widths.get(f"nv{number}")
            tile = pick_tile(rows, n, self.ctx.target, kernel)
            if isinstance(width, int):
                known = (x for x in kernel.tiles if x.vectors == width)
                tile = next(known, GemmTile(1, width))
            height = min(tile.rows, MAX_TILE_ROWS) if self.is_dynamic else tile.rows
            settings |= {f"mr{number}": height, f"nv{number}": tile.vectors}
        return settings
