"""Predicted cost of a matmul with packed weights, in cycles: dequantizing, multiply-adds and memory traffic."""

from __future__ import annotations

import math

from ...base.dtypes import F32
from ...base.packed_words import WORD_BYTES
from ...base.records import dataclass
from ...targets.machines import Machine
from ..ir.schedule import Schedule
from ..ops.matmul_nbits import MatmulNBits
from .context import LowerContext
from .cost import Gemm, MatmulBlocking, blocking_cycles, overlapped
from .matmul import blocking_of
from .nbits_instructions import DIGITS, is_rounded, is_wide, level_bits

UNPACKING, UNPACKING_BYTES, UNPACKING_JOINED = 4.5, 3.5, 5.5
"""Instructions that unpack a vector of weights: shift, mask, conversion, zero point, scale and a share of loads. Bytes
need no shift; levels whose upper bits are in other words are joined, four at once."""

STORING = 1.0
"""The same, where a panel stores it."""

DOT_UNPACKING = 0.75
"""The same, where words are taken apart into bytes."""

WIDE_SPLITTING, WIDE_SUMS = 0.5, 1.6
"""The same, where tiles widen bytes to 16 bits; and for a row that is multiplied by them (measured on Zen 3)."""

PREPARING = 90.0
"""Cycles in which a group of a row of f32 becomes digits (measured on Zen 5); every task does so for its rows."""

SCALING = 8
"""Instructions that make an f32 of the three sums of a group, and add it."""


def weight_bits(op: MatmulNBits) -> float:
    """Return the bits of an element of the weights in memory, with its part of scales and the like."""
    weights = (op.w, op.scale, *op.others)
    total = sum(one.details.typical.size_bytes for one in weights)
    return 8 * total / (max(op.experts, 1) * math.prod(op.sizes[1:]))


@dataclass(frozen=True)
class NBitsCost:
    """Cycles of an op as a GEMM, whose microkernel is that of a schedule."""

    op: MatmulNBits
    gemm: Gemm
    ctx: LowerContext

    def cycles(self, schedule: Schedule) -> float:
        """Return the cycles of a schedule."""
        blocking, use = blocking_of(schedule, self.gemm.kernel), schedule.word("use")
        if schedule.word("unpack") == "panel":
            return self._in_panels(blocking)
        if schedule.word("unpack") == "registers":
            return self._in_registers(blocking, use)
        work = self._vectors * (DOT_UNPACKING + 1) / self._issued
        if use == "tile4":
            step = min(self.op.group, self.op.x_group)
            work += self.gemm.m * self._vectors / step * 3 / self._machine.fma_per_cycle
            times = math.ceil(self.gemm.m / blocking.m_block)
        else:  # the copy is written and read again, and waits for memory before it is multiplied
            work += self._sums_of_bytes(blocking)
            times = 1
        return work / self.gemm.cores + times * self._traffic(blocking)

    def _sums_of_bytes(self, blocking: MatmulBlocking) -> float:
        """Cycles to multiply rows of bytes by a panel of bytes."""
        m = self.gemm.m
        if is_wide(self.op, self.ctx):
            tiles = math.ceil(m / blocking.tile.rows)
            return self._vectors * (tiles * WIDE_SPLITTING + m * WIDE_SUMS) / self._issued
        sums = m * self._vectors / WORD_BYTES * (1 + 2 * WORD_BYTES / self.op.group)
        return sums / self._machine.fma_per_cycle

    def _in_panels(self, blocking: MatmulBlocking) -> float:
        """Cycles where weights are unpacked into panels of floats."""
        gemm, machine = self.gemm, self._machine
        work = self._vectors * (self._unpacking + STORING) / self._issued
        panel = F32.size * gemm.columns(blocking.tile) * blocking.k_block
        if panel > self.ctx.target.l1_bytes // 2:  # written to L2, and read again
            work += 2 * F32.size * gemm.n * gemm.k / machine.l2_bytes_per_cycle * machine.unhidden
        times = math.ceil(gemm.m / blocking.m_block)
        return blocking_cycles(gemm, blocking) + times * work / gemm.cores

    def _in_registers(self, blocking: MatmulBlocking, use: str) -> float:
        """Cycles where weights are unpacked in registers; tiles of one block may find them in L2."""
        m, machine = self.gemm.m, self._machine
        tiles = times = math.ceil(m / blocking.tile.rows)
        if is_wide(self.op, self.ctx):
            looked_up = DOT_UNPACKING if self.op.part("book") else 0
            work = tiles * looked_up * self._vectors / self._issued + self._sums_of_bytes(blocking)
            times = 1
        elif is_rounded(self.op):
            work = self._vectors * (tiles * DOT_UNPACKING + m / 2) / self._issued
        elif use != "fma":
            work = self._in_digits(tiles, use)
            times = math.ceil(m / blocking.m_block)
        else:
            unpacked = (tiles * self._unpacking + m) / self._issued
            work = self._vectors * max(unpacked, (tiles + m) / machine.fma_per_cycle)
        return overlapped(work / self.gemm.cores, times * self._traffic(blocking), machine)

    def _in_digits(self, tiles: int, use: str) -> float:
        """Cycles of rows of f32 that are multiplied as digits."""
        m, group = self.gemm.m, self.op.group
        dots = m * (DIGITS / WORD_BYTES + DIGITS / group)
        if use == "dot2":  # which are added apart, and joined
            dots += m * DIGITS * (1 / WORD_BYTES + 1 / group)
        issued = (tiles * DOT_UNPACKING + dots + m * SCALING / group) / self._issued
        work = self._vectors * max(issued, dots / self._machine.fma_per_cycle)
        return work + m * self.gemm.k / group * PREPARING * self.gemm.cores

    @property
    def _machine(self) -> Machine:
        return self.ctx.target.machine

    @property
    def _vectors(self) -> float:
        """Vectors of weights as floats."""
        return self.gemm.n * self.gemm.k / self.ctx.target.lanes(F32)

    @property
    def _issued(self) -> int:
        """Vector instructions per cycle."""
        return 2 * self._machine.fma_per_cycle

    @property
    def _unpacking(self) -> float:
        if self.op.part("high") is not None:
            return UNPACKING_JOINED
        return UNPACKING if level_bits(self.op) < 8 else UNPACKING_BYTES

    def _traffic(self, blocking: MatmulBlocking) -> float:
        """Cycles to read all weights once; each core reads those of its groups of columns."""
        cores = min(self.gemm.cores, blocking.n_groups)
        return self.gemm.b_bytes / self._machine.shared_bytes_per_cycle / cores
