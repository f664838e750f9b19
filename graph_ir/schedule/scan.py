"""Schedules of cumulative sums and cumulative products: interleaved blocks along the last axis, tiles of columns
along others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...base.dims import Size
from ..ir.schedule import Schedule
from ..ops.cumulative import Cumulative
from .context import LowerContext
from .space import ScheduleSpace

CHAINS = (8, 4, 16)
"""Numbers of interleaved blocks: an addition takes up to four cycles, and two begin in each."""

BLOCKS = (128, 64, 256)
"""Most elements of a block, so that partial sums stay in L1."""

PARTS = 4
"""Number of parts of the stack: groups of blocks, smaller ones, single ones and the other locals of a kernel."""

MAX_CHAINS = 64
"""Maximum number of interleaved blocks, each of which is a separate statement."""

COLUMNS = (512, 128, 256, 1024)
"""Most columns that run together: their sums stay in L1 too."""

STEP_CYCLES = 10
"""To begin a block or a row of a tile: loop counters, and the ends of vector loops."""


def axis_sizes(op: Cumulative) -> tuple[Size, Size, Size]:
    """(outer, n, inner) of [outer, n, inner], n along the axis; outer and inner are 0 where there are no elements."""
    dims, axis = op.inputs[0].details.plain_dims, op.axis
    if 0 in dims:
        return 0, dims[axis], 0
    return math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])


class _ScanSpace(ScheduleSpace):
    """Base of both directions: the sizes, and the tasks."""

    def __init__(self, op: Cumulative, ctx: LowerContext) -> None:
        x = op.inputs[0].details
        dims = "x".join(map(str, x.plain_dims))
        super().__init__(op.name, f"{self.algorithm} {op.op_name} {dims} {op.axis} {x.dtype}")
        self.outer, self.n, self.inner = axis_sizes(op)
        self.lanes = ctx.target.lanes(x.dtype.accumulator)
        self.machine = ctx.target.machine
        self.threads = ctx.threads_for(x.elements)
        self.size = x.dtype.accumulator.size

    @property
    def _max_waiting(self) -> int:
        """Elements of which sums fit the stack, beside those of the smaller blocks or tiles that are left."""
        return self.machine.max_local_bytes // PARTS // self.size

    def _shared(self, tasks: int, rows: Size, cycles: float) -> float | None:
        """Return the cycles of `rows` rows or tiles of them, shared by the threads if there are tasks."""
        return -(-rows // min(tasks, self.threads)) * cycles if isinstance(rows, int) else None


class RowScanSpace(_ScanSpace):
    """Along the last axis: blocks of a row are interleaved, so that no addition waits for the one before it."""

    algorithm = "row-scan"
    meanings: Mapping[str, str] = {
        "tasks": "1 runs the rows on one thread, more on all",
        "chains": "interleaved blocks of a row",
        "block": "most elements of a block",
    }

    def ranked(self) -> Sequence[Schedule]:
        """Eight blocks of 128 elements as the row allows, then fewer and more of both; dynamic rows run one at
        a time."""
        if not isinstance(self.n, int):
            return [Schedule.of(self.algorithm, tasks=self.threads, chains=1, block=1)]
        found = [
            Schedule.of(self.algorithm, tasks=self.threads, chains=chains, block=size)
            for chains in CHAINS
            for size in dict.fromkeys(self._block(chains, most) for most in BLOCKS)
            if chains == CHAINS[0] or chains * size <= self.n
        ]
        return [*found, *([found[0].replaced(tasks=1)] if self.threads > 1 else [])]

    def _block(self, chains: int, most: int) -> int:
        assert isinstance(self.n, int)
        return max(1, min(most, self.n // chains))

    def cycles(self, schedule: Schedule) -> float | None:
        """A store and an addition of each element, then a pass in vectors."""
        if not isinstance(self.n, int):
            return None
        chains, block = schedule.number("chains"), schedule.number("block")
        step = max(self.machine.fma_latency, chains)
        steps = chains * (STEP_CYCLES + 2 * -(-block // self.lanes))
        row = self.n / (chains * block) * (block * step + steps)
        return self._shared(schedule.number("tasks"), self.outer, row)

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require a block smaller than the row, and interleaved blocks that fit on the stack."""
        chains, block = schedule.number("chains"), schedule.number("block")
        if not isinstance(self.n, int):
            return "chains and block must be 1, as the row is dynamic" * (chains * block > 1)
        if chains > MAX_CHAINS:
            return f"chains must be at most {MAX_CHAINS}"
        most = self._block(chains, min(self.n, self._max_waiting // chains))
        return f"block must be at most {most}" * (block > most)


class ColumnScanSpace(_ScanSpace):
    """Along other axes: tiles of neighboring columns, each from the first step to the last."""

    algorithm = "column-scan"
    meanings: Mapping[str, str] = {
        "tasks": "1 runs the tiles on one thread, more on all",
        "columns": "neighboring columns of a tile",
    }

    def ranked(self) -> Sequence[Schedule]:
        """Tiles of 512 columns, then narrower and wider ones."""
        inner = self.inner
        sizes = dict.fromkeys(
            max(1, min(inner, most)) if isinstance(inner, int) else most for most in COLUMNS
        )
        found = [Schedule.of(self.algorithm, tasks=self.threads, columns=size) for size in sizes]
        return [*found, *([found[0].replaced(tasks=1)] if self.threads > 1 else [])]

    def cycles(self, schedule: Schedule) -> float | None:
        """Two stores for each vector of a row."""
        if not (
            isinstance(self.n, int) and isinstance(self.outer, int) and isinstance(self.inner, int)
        ):
            return None
        width = schedule.number("columns")
        tiles = self.outer * -(-self.inner // width)
        row = STEP_CYCLES + 2 * -(-min(width, self.inner) // self.lanes)
        return self._shared(schedule.number("tasks"), tiles, self.n * row)

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require a tile smaller than the columns, whose sums fit on the stack."""
        most = self._max_waiting
        most = max(min(self.inner, most), 1) if isinstance(self.inner, int) else most
        return f"columns must be at most {most}" * (schedule.number("columns") > most)


def scan_space(op: Cumulative, ctx: LowerContext) -> ScheduleSpace:
    """The space of the direction in which memory is read."""
    return (RowScanSpace if axis_sizes(op)[2] in (0, 1) else ColumnScanSpace)(op, ctx)
