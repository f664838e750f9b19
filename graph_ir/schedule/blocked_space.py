"""Schedules of a matmul whose operands and result are blocked."""

from __future__ import annotations

from ..ir.schedule import Parameter, Schedule
from .gemm import Gemm
from .matmul import MatmulSpace, blocking_of, kernel_of, matmul_schedule
from .matmul_blocks import block_tile, pick_blocked
from .matmul_cost import blocking_cycles
from .matmul_tile import MatmulBlocking
from .panels import BLOCK


class BlockedSpace(MatmulSpace):
    """Blocks of whole blocks: `mc` and `kc` are multiples of 16, a panel is as wide as a block."""

    def ranked(self) -> list[Schedule]:
        """Return the pick of each instruction: nobody takes these layouts for speed, so that no others are tried."""
        return [
            self.offer(matmul_schedule(self._blocking(gemm), self._b, gemm.kernel))
            for gemm in map(self._gemm, self.kernels)
        ]

    def _blocking(self, gemm: Gemm) -> MatmulBlocking:
        tile = block_tile(gemm.kernel, gemm.target)
        assert tile is not None
        return pick_blocked(gemm, tile, self._holds_sums)

    _b = "blocked"

    def swept(self) -> list[Schedule]:
        """Return no further schedules: the layouts fix the width of the register tile."""
        return list(self.candidates)

    def cycles(self, schedule: Schedule) -> float:
        """Return the predicted cycles of a schedule: B becomes panels in every run."""
        gemm = self._gemm(kernel_of(schedule, self.op, self.ctx.target))
        return blocking_cycles(gemm, blocking_of(self.point(schedule), gemm.kernel), packed=False)

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

    @property
    def _holds_sums(self) -> bool:
        """Return whether C has the type of accumulators, also behind the epilogue."""
        results = self.op.outputs[0], *self.group.outputs
        return all(y.details.dtype == self.kernels[0].accumulator for y in results)
