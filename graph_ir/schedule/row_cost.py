"""Predicted cost of a row of reductions and elementwise ops, in cycles."""

from __future__ import annotations

from ...base.records import dataclass
from ...targets.machines import Machine

LOOP_CYCLES = 1.5
"""Cycles of a vector in each of a row's loops (fitted to softmax on Sapphire Rapids, as the next ones)."""

EXPENSIVE_CYCLES = 9
"""Cycles of a vector of a value that costs more to compute again than to store."""

KEEP_CYCLES = 2
"""Cycles to store a vector of such a value and to load it."""

END_CYCLES = 40
"""Cycles until a reduction of a row has ended and the next loop has begun; rows that are interleaved share them."""


@dataclass(frozen=True)
class RowCost:
    """A row of `vectors` vectors, with a loop for each of its reductions and one for the result.

    `expensive`: values that may be kept, read by the loop of a reduction and that of the result. `far_bytes`: those of
    the result, 0 if all rows fit in L2.
    """

    vectors: int
    reductions: int
    expensive: int
    far_bytes: int

    def cycles(self, values: str, block: int, machine: Machine) -> float:
        """Return the cycles of a row in blocks of `block` rows; `values` as in the schedule."""
        keeps = values != "recomputed"
        vector = (self.reductions + 1) * LOOP_CYCLES
        vector += self.expensive * (EXPENSIVE_CYCLES * (1 if keeps else 2) + KEEP_CYCLES * keeps)
        # Lines of the result arrive while its values are computed where they are kept in it, else after them.
        waits = 0.0 if values == "result" else self.far_bytes / machine.shared_bytes_per_cycle / 2
        return self.vectors * vector + self.reductions * END_CYCLES / block + waits
