"""A batched matmul on a machine: all that its cost model and its blockings depend on."""

from __future__ import annotations

from ...base.dims import Size
from ...base.records import dataclass
from ...base.size_queries import typical
from ...targets.isa import GemmTile, Microkernel, Target


@dataclass(frozen=True)
class Gemm:
    """A batch of `batch` matmuls of m x k by k x n, their microkernel, and the cores that may share them.

    `b_bits`: those of an element of B in memory, where panels are made of fewer; 0 for the kernel's own.
    """

    batch: int
    m: int
    n: int
    k: int
    kernel: Microkernel
    target: Target
    threads: int = 1
    b_bits: float = 0

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the whole batch."""
        return self.batch * self.m * self.n * self.k

    @property
    def b_bytes(self) -> float:
        """Bytes of one B in memory."""
        return (self.b_bits or 8 * self.kernel.b.size) * self.n * self.k / 8

    @property
    def cores(self) -> int:
        """Threads that share it: one where waking others costs more than it saves."""
        return self.threads if worth_threads(self.multiply_adds, self.target) else 1

    def columns(self, tile: GemmTile) -> int:
        """Columns of a register tile, and of a panel of B."""
        return tile.columns(self.target, self.kernel.accumulator)


def worth_threads(multiply_adds: Size, target: Target) -> bool:
    """Return whether a matmul is large enough for several threads: below, waking them costs more than it saves.

    Of dynamic sizes those that are typical count: the choice changes no result.
    """
    return typical(multiply_adds) >= target.machine.parallel_multiply_adds
