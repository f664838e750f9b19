"""Schedules of row sorts: all elements of a row, or those that reach a bound given by groups of elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...base.dims import bounds, is_known
from ..ir.schedule import Schedule
from ..ops.top_k import SortRows
from .context import LowerContext
from .space import ScheduleSpace

GROUPS = 32
"""Groups are counted in these, as their best elements are found in vectors."""

FEW = 4
"""Minimum ratio of elements to selected elements for which a selection comes first."""

KEY_CYCLES = 10
"""To order an element: its key, and a count and a move for each digit."""


class SortSpace(ScheduleSpace):
    """Schedules of a row sort: with or without a selection of few elements, and its number of groups."""

    algorithm = "row-sort"
    meanings: Mapping[str, str] = {
        "tasks": "parts of the rows that are sorted in parallel, each in separate memory",
        "groups": "groups of elements whose best ones bound those that are sorted, a multiple of 32; 1 sorts all",
    }

    def __init__(self, op: SortRows, ctx: LowerContext) -> None:
        x = op.inputs[0].details
        *outer, self.n = x.plain_dims
        self.k, self.rows = op.k, math.prod(outer)
        super().__init__(op.name, f"{self.algorithm} {self.rows}x{self.n} {self.k} {x.dtype}")
        self.lanes = ctx.target.lanes(x.dtype.accumulator)
        self.threads = max(min(ctx.threads_for(x.elements), bounds(self.rows)[1]), 1)

    def ranked(self) -> Sequence[Schedule]:
        """Twice as many groups as elements are kept where they are few of many; then more, fewer, and none."""
        sizes = dict.fromkeys(self._groups() if is_known(self.k) else (1,))
        found = [Schedule.of(self.algorithm, tasks=self.threads, groups=size) for size in sizes]
        fit = [schedule for schedule in found if not self.invalid_reason(schedule)]
        return [*fit, *([fit[0].replaced(tasks=1)] if self.threads > 1 else [])]

    def _groups(self) -> tuple[int, ...]:
        """Numbers of groups; rows of dynamic size that are too short for them are sorted whole."""
        wanted = -(-max(2 * self.k, GROUPS) // GROUPS) * GROUPS
        pick = wanted if wanted * FEW <= bounds(self.n)[1] else 1
        return (pick, wanted // 2, 2 * wanted, 4 * wanted, 1)

    def cycles(self, schedule: Schedule) -> float | None:
        """Two passes in vectors, the groups sorted, then the elements that reach the bound: k or more."""
        groups = schedule.number("groups")
        if not is_known(self.rows, self.n, self.k):
            return None
        row = KEY_CYCLES * self.n
        if groups > 1:
            reached = self.k * (1 + self.k / groups)
            row = 4 * -(-self.n // self.lanes) + KEY_CYCLES * (groups + reached)
        return -(-self.rows // min(schedule.number("tasks"), self.threads)) * row

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require enough groups for each of the k best, and no empty group."""
        groups, tasks = schedule.number("groups"), schedule.number("tasks")
        most = bounds(self.rows)[1]
        if not 1 <= tasks <= max(most, 1):
            return f"tasks must be from 1 to {max(most, 1)}"
        if groups == 1:
            return ""
        if is_known(self.k) and groups % GROUPS == 0 and self.k <= groups <= bounds(self.n)[1]:
            return ""
        return f"groups must be 1, or a multiple of {GROUPS} from {self.k} to {self.n}"
