"""Predicted cost of a matmul blocking, in cycles: `explain` shows it, `verify` compares it with measurements."""

from __future__ import annotations

import heapq
import math

from ...targets.isa import Microkernel, Target
from ...targets.machines import Machine
from ...targets.microkernels import f32_kernel, rows_for
from ...tensor_ir.tiling import split_rows
from .gemm import Gemm
from .matmul_tile import MatmulBlocking, gemm_cycles, pick_blocking, pick_tile
from .two_dimensional import block_cycles

MAX_TASKS = 64
"""Above this many tasks, assume perfect balance."""


def blocking_cycles(gemm: Gemm, blocking: MatmulBlocking, packed: bool = True) -> float:
    """Return the predicted cycles of a batched GEMM; `packed`: B lies in panels."""
    full, rest = divmod(gemm.m, blocking.m_block)
    sizes = [blocking.m_block] * full + ([rest] if rest else [])
    cycles = {r: _row_block_cycles(r, gemm, blocking, packed) for r in set(sizes)}
    blocks = [cycles[r] for r in sizes]
    if gemm.cores == 1:
        return gemm.batch * sum(blocks)
    panels = math.ceil(gemm.n / gemm.columns(blocking.tile))
    shares = _group_shares(panels, blocking.n_groups)
    tasks = [block * share for block in blocks for share in shares] * gemm.batch
    return _finish(tasks, gemm.cores) + gemm.target.machine.open_cycles


def kernel_cycles(gemm: Gemm) -> float:
    """Return the cycles of the best blocking of a matmul, corrected by the measured rate of its microkernel."""
    if not gemm.multiply_adds:
        return 0.0
    tile = pick_tile(gemm.m, gemm.n, gemm.target, gemm.kernel)
    cycles = blocking_cycles(gemm, pick_blocking(gemm, tile))
    return cycles * slowness(gemm.kernel, gemm.target)


def slowness(kernel: Microkernel, target: Target) -> float:
    """Return the time that a microkernel takes over what the tile model says.

    The model counts the instructions of a register tile, as many for each group of k as `fma` has for one; the rate is
    measured against `fma`, so that what the model says of either's best tile cancels out.
    """
    floats = _cycles_per_vector(f32_kernel(target), target)
    return kernel.k_group / kernel.rate(target) * floats / _cycles_per_vector(kernel, target)


def _cycles_per_vector(kernel: Microkernel, target: Target) -> float:
    """The model's cycles for one vector of multiply-adds, in the best tile."""
    return min(
        gemm_cycles(x.rows, x.columns(target, kernel.accumulator), x, target, kernel)
        / (x.rows * x.vectors)
        for x in kernel.tiles
    )


def _group_shares(panels: int, groups: int) -> list[float]:
    """Each group's share of all panels: the last groups may have fewer."""
    size = math.ceil(panels / groups)
    return [min(size, panels - begin) / panels for begin in range(0, panels, size)]


def _finish(tasks: list[float], threads: int) -> float:
    """The end of the last task if threads take the longest first; many tasks are assumed to end together."""
    if len(tasks) > MAX_TASKS:
        return sum(tasks) / threads
    ends = [0.0] * threads
    for task in sorted(tasks, reverse=True):
        heapq.heapreplace(ends, ends[0] + task)
    return max(ends)


def _row_block_cycles(rows: int, gemm: Gemm, blocking: MatmulBlocking, packed: bool) -> float:
    """One block of rows times all of B: the slower of multiply-adds and traffic, plus what cannot overlap."""
    n, k, kernel, target = gemm.n, gemm.k, gemm.kernel, gemm.target
    if kernel.registers is not None:
        return block_cycles(rows, gemm, blocking.tile, blocking.n_groups, packed)
    tile, machine, columns = blocking.tile, target.machine, gemm.columns(blocking.tile)
    k_blocks = math.ceil(k / blocking.k_block)
    height = rows_for(columns, tile, target, kernel)
    row_tiles = sum(count for _, count, _ in split_rows(rows, height))
    a_size = kernel.copied_a.size
    b_bytes = gemm.b_bytes
    c_bytes = 2 * kernel.accumulator.size * rows * n
    extra = (k_blocks - 1) * c_bytes / machine.l2_bytes_per_cycle  # partial sums are kept in C
    extra += k_blocks * row_tiles * math.ceil(n / columns) * machine.tile_cycles
    if kernel.converts_a:
        extra += rows * k * (kernel.a.size + a_size) / machine.l2_bytes_per_cycle
    far = a_size * rows * blocking.k_block > target.l2_bytes * 3 // 4
    # Each panel reads A's block.
    traffic = a_size * rows * k * math.ceil(n / columns) / _rate(far, machine)
    if packed:
        traffic += b_bytes / _rate(b_bytes > target.l2_bytes // 2, machine)
    elif rows <= 4 * tile.rows:  # read in place
        is_far = b_bytes > target.l2_bytes // 8
        traffic += b_bytes / (
            machine.strided_bytes_per_cycle if is_far else machine.l2_bytes_per_cycle
        )
    else:  # copied into a panel first
        extra += b_bytes / machine.shared_bytes_per_cycle
    work = math.ceil(k / kernel.k_group) * gemm_cycles(rows, n, tile, target, kernel)
    return max(work, traffic) + machine.unhidden * min(work, traffic) + extra


def _rate(far: bool, machine: Machine) -> float:
    """Bytes per cycle from the shared cache, or from a core's own L2."""
    return machine.shared_bytes_per_cycle if far else machine.l2_bytes_per_cycle
