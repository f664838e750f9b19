"""Predicted cost of a matmul blocking, in cycles: `explain` shows it, `verify` compares it with measurements."""

from __future__ import annotations

import math

from ...targets.isa import Microkernel, Target
from ...targets.microkernels import f32_kernel
from .cost import Gemm, gemm_cycles, last_end, overlapped, stream_rate
from .matmul_tile import MatmulBlocking, pick_blocking, pick_tile, reads_in_place


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
    return last_end(tasks, gemm.cores) + gemm.target.machine.open_cycles


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


def _row_block_cycles(rows: int, gemm: Gemm, blocking: MatmulBlocking, packed: bool) -> float:
    """One block of rows times all of B: the slower of multiply-adds and traffic, plus what cannot overlap."""
    kernel, machine, tile = gemm.kernel, gemm.target.machine, blocking.tile
    traffic, extra = (_of_registers if kernel.uses_tiles else _of_vectors)(
        rows, gemm, blocking, packed
    )
    # Two-dimensional registers wait for nothing between blocks of k.
    k_blocks = 1 if kernel.uses_tiles else math.ceil(gemm.k / blocking.k_block)
    c_bytes = 2 * kernel.accumulator.size * rows * gemm.n
    extra += (k_blocks - 1) * c_bytes / machine.l2_bytes_per_cycle  # partial sums are kept in C
    extra += k_blocks * gemm.ends(rows, tile)
    return overlapped(gemm.work(rows, tile), traffic, machine) + extra


def _of_vectors(
    rows: int, gemm: Gemm, blocking: MatmulBlocking, packed: bool
) -> tuple[float, float]:
    """(cycles in which operands arrive, cycles of copies)."""
    kernel, target, machine = gemm.kernel, gemm.target, gemm.target.machine
    size, b_bytes = kernel.copied_a.size, gemm.b_bytes
    panels = math.ceil(gemm.n / gemm.columns(blocking.tile))
    copied = kernel.a.size + size if kernel.converts_a else 0
    extra = rows * gemm.k * copied / machine.l2_bytes_per_cycle
    is_far = size * rows * blocking.k_block > target.l2_bytes * 3 // 4
    traffic = (
        size * rows * gemm.k * panels / stream_rate(is_far, machine)
    )  # each panel reads A's block
    if packed:
        return traffic + b_bytes / stream_rate(b_bytes > target.l2_bytes // 2, machine), extra
    if not reads_in_place(rows, blocking.tile):  # copied into a panel first
        return traffic, extra + b_bytes / machine.shared_bytes_per_cycle
    near, far = machine.l2_bytes_per_cycle, machine.strided_bytes_per_cycle
    return traffic + b_bytes / (far if b_bytes > target.l2_bytes // 8 else near), extra


def _of_registers(
    rows: int, gemm: Gemm, blocking: MatmulBlocking, packed: bool
) -> tuple[float, float]:
    """The same of two-dimensional registers, whose A is in L2 where it is more than a tile."""
    target, machine, b_bytes = gemm.target, gemm.target.machine, gemm.n * gemm.row_bytes
    panels = math.ceil(gemm.n / gemm.columns(blocking.tile))
    is_far = b_bytes // blocking.n_groups > target.l2_bytes * 3 // 4
    traffic = b_bytes / stream_rate(is_far, machine)
    if rows > blocking.tile.rows:
        traffic += rows * gemm.row_bytes * panels / machine.l2_bytes_per_cycle
    return traffic, 0.0 if packed else b_bytes / machine.copy_bytes_per_cycle
