"""Schedules of scatters: the copy of the data is shared, the updates come one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.schedule import Schedule
from ..ops.scatter import Scatter
from .context import LowerContext
from .space import ScheduleSpace

PIECES = (4096, 1024, 16384)
"""Elements that one task copies."""


class ScatterSpace(ScheduleSpace):
    """Schedules of the copy of the data: serial, or shared by threads in pieces."""

    algorithm = "scatter"
    meanings: Mapping[str, str] = {
        "tasks": "1 copies the data on one thread, more in pieces on all",
        "piece": "elements that a task copies",
    }

    def __init__(self, op: Scatter, ctx: LowerContext) -> None:
        x = op.data[0].details
        dims = "x".join(map(str, x.plain_dims)) or "scalar"
        super().__init__(
            op.name, f"scatter {op.reduction} {dims} {op.indices.details.elements} {x.dtype}"
        )
        self.bytes = x.typical.elements * x.dtype.size * op.count
        self.machine = ctx.target.machine
        self.threads = ctx.threads_for(x.elements)

    def ranked(self) -> Sequence[Schedule]:
        """All threads where that pays, then other pieces, then one thread."""
        pick = Schedule.of(self.algorithm, tasks=self.threads, piece=PIECES[0])
        if self.threads == 1:
            return [pick]
        return [*(pick.replaced(piece=size) for size in PIECES), pick.replaced(tasks=1)]

    def cycles(self, schedule: Schedule) -> float:
        """Return the cycles of the copy."""
        shared = min(schedule.number("tasks"), self.threads)
        start = self.machine.open_cycles if shared > 1 else 0
        return start + self.bytes / shared / self.machine.copy_bytes_per_cycle
