"""Schedules of a matmul whose operands and result are blocked."""

from __future__ import annotations

from functools import cached_property

from ...targets.isa import GemmTile
from ..ir.schedule import Parameter, Schedule
from .gemm import Gemm
from .matmul import MatmulSpace, blocking_of, kernel_of, matmul_schedule
from .matmul_blocks import block_tile, blocked_candidates, blocked_cycles
from .panels import BLOCK


class BlockedSpace(MatmulSpace):
    """Blocks of whole blocks: `mc` and `kc` are multiples of 16, a panel is as wide as a block."""

    @cached_property
    def pick(self) -> Schedule:
        """All of k that fits the cache, and as many rows."""
        return self.candidates[0]

    def ranked(self) -> list[Schedule]:
        """Every instruction, each with a few blockings."""
        found = [
            self.offer(matmul_schedule(blocking, "blocked", gemm.kernel))
            for gemm in map(self._gemm, self.kernels)
            for blocking in blocked_candidates(gemm, self._tile(gemm), self._holds_sums)
        ]
        return list(dict.fromkeys(found))

    def swept(self) -> list[Schedule]:
        """Return no further schedules: the layouts fix the width of the register tile."""
        return list(self.candidates)

    def cycles(self, schedule: Schedule) -> float:
        """Return the predicted cycles of a schedule."""
        gemm = self._gemm(kernel_of(schedule, self.op, self.ctx.target))
        return blocked_cycles(gemm, blocking_of(self.point(schedule), gemm.kernel))

    def fixed(self) -> dict[str, Parameter]:
        """The layouts themselves, and the width of a block."""
        lanes = self.ctx.target.lanes(self.kernels[0].accumulator)
        return {"b": "blocked", "nv": BLOCK // lanes}

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require row and k blocks that are multiples of the block size."""
        for name in ("mc", "kc"):
            if schedule.number(name) % BLOCK:
                return f"{name} must be a multiple of {BLOCK} with b=blocked"
        if not self._holds_sums and schedule.number("kc") < self.op.sizes[2]:
            return f"kc must be at least all {self.op.sizes[2]} terms: the result cannot hold partial sums"
        return super().invalid_reason(schedule)

    def _tile(self, gemm: Gemm) -> GemmTile:
        tile = block_tile(gemm.kernel, gemm.target)
        assert tile is not None
        return tile

    @property
    def _holds_sums(self) -> bool:
        return self.op.outputs[0].details.dtype == self.kernels[0].accumulator and not self._casts

    @property
    def _casts(self) -> bool:
        """Return whether the epilogue ends in another type than that of the sums."""
        return any(y.details.dtype != self.kernels[0].accumulator for y in self.group.outputs)
