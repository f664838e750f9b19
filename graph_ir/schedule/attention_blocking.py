"""A blocking of attention, and its predicted cycles."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.records import dataclass
from ...targets.isa import GemmTile, Microkernel, Target
from ..ir.schedule import Schedule
from ..ops.matmul import MatmulCore
from .cost import Gemm
from .matmul import kernel_of
from .register_tile import tile_of

SOFTMAX_CYCLES = 11
"""Cycles of a vector of scores: maximum, exponential and sum (fitted to attention on Sapphire Rapids, as the next)."""

ROW_CYCLES = 40
"""Cycles of a row of a block: both reductions end, and loops begin."""

RESCALE_CYCLES = 3
"""Cycles of a vector of a partial sum that a new maximum rescales."""


@dataclass(frozen=True)
class AttentionBlocking:
    """`rows` of the scores at a time, `columns` of them (all, unless online); the register tiles of both matmuls.

    `splits_rows`: blocks of rows are tasks, not heads. `prefetches`: the next head's matrices. `is_online`: softmax is
    done block by block of columns.
    """

    rows: int
    columns: int
    tiles: tuple[GemmTile, GemmTile]
    kernel: Microkernel
    splits_rows: bool
    prefetches: bool
    is_online: bool = False


def attention_blocking(schedule: Schedule, matmul: MatmulCore, target: Target) -> AttentionBlocking:
    """The blocking that a schedule says; `matmul`: one of both, as they are of one type."""
    kernel = kernel_of(schedule, matmul, target)
    first, second = (
        tile_of(schedule.number(f"mr{i}"), schedule.number(f"nv{i}"), kernel) for i in (1, 2)
    )
    return AttentionBlocking(
        schedule.number("rows"), schedule.number("columns"), (first, second), kernel,
        schedule.word("split") == "rows", schedule.word("prefetch") == "head",
        schedule.word("softmax") == "online",
    )  # fmt: skip


def attention_cycles(scores: Gemm, width: int, blocking: AttentionBlocking) -> float:
    """Return the predicted cycles of all heads; `scores` is the first matmul, `width` the columns of the result."""
    target, rows, columns = scores.target, scores.m, scores.n
    machine = target.machine
    full, rest = divmod(rows, blocking.rows)
    heights = [blocking.rows] * full + ([rest] if rest else [])
    panels = blocking.kernel.copied_a.size * columns * (scores.k + width)
    packing = 2 * panels / machine.copy_bytes_per_cycle
    packed = len(heights) if blocking.splits_rows or blocking.columns < columns else 1
    fetched = panels / machine.shared_bytes_per_cycle
    head = sum(_block_cycles(height, scores, width, blocking) for height in heights)
    head += packed * packing + fetched * (machine.unhidden if blocking.prefetches else 1)
    tasks = scores.batch * (len(heights) if blocking.splits_rows else 1)
    start = machine.open_cycles if scores.cores > 1 else 0
    return start + math.ceil(tasks / scores.cores) * head * scores.batch / tasks


def _block_cycles(rows: int, scores: Gemm, width: int, blocking: AttentionBlocking) -> float:
    """A block of rows: blocks of its scores, their exponentials, and what they add to the result."""
    target, kernel = scores.target, blocking.kernel
    lanes = target.lanes(kernel.accumulator)
    cycles = 0.0
    for begin in range(0, scores.n, blocking.columns):
        columns = min(blocking.columns, scores.n - begin)
        cycles += _matmul_cycles(rows, columns, scores.k, blocking.tiles[0], scores)
        cycles += _matmul_cycles(rows, width, columns, blocking.tiles[1], scores)
        cycles += rows * (ROW_CYCLES + SOFTMAX_CYCLES * math.ceil(columns / lanes))
        panel = kernel.accumulator.size * rows * columns
        if panel > target.l1_bytes // 2:  # written, read by three loops and by the second matmul
            cycles += 2 * panel / target.machine.l2_bytes_per_cycle
        if blocking.columns < scores.n:
            cycles += rows * RESCALE_CYCLES * math.ceil(width / lanes)
    return cycles


def _matmul_cycles(rows: int, columns: int, depth: int, tile: GemmTile, gemm: Gemm) -> float:
    """One of both matmuls, with operands in L2."""
    one = replace(gemm, n=columns, k=depth)
    return one.work(rows, tile) + one.ends(rows, tile)
