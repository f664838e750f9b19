"""The cost model of contractions: cycles of register tiles, of operands on their way, of the last thread.

Matmuls, convolutions, the matmuls of Winograd and attention, and packed weights add up these terms. All picks among
tiles, blocks, instructions and algorithms compare the sums.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from ...base.dims import Size
from ...base.records import dataclass
from ...base.size_queries import typical
from ...targets.isa import GemmTile, Microkernel, Target, TileShape, tile_depth
from ...targets.machines import Machine
from ...targets.microkernels import f32_kernel, register_rows, rows_for
from ...tensor_ir.tiling import k_splits, split_rows, tile_height

UNIT_CYCLES, SHORTEST_CYCLES = 240, 60
"""Cycles between the multiplications of two tiles of 2 x 2 registers, by rows and at least: they are stored, pass the
epilogue, and the next ones start (fitted to matmuls of bytes with k from 64 to 768 on Sapphire Rapids)."""

MAX_TASKS = 64
"""Above this many tasks, assume perfect balance."""


class OnMachine:
    """A contraction, its microkernel, the machine, and the threads that may share it."""

    kernel: Microkernel
    target: Target
    threads: int

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the whole contraction."""
        raise NotImplementedError

    @property
    def cores(self) -> int:
        """Threads that share it: one where waking others costs more than it saves."""
        return self.threads if worth_threads(self.multiply_adds, self.target) else 1

    def columns(self, tile: GemmTile) -> int:
        """Columns of a register tile, and of a panel of B."""
        return tile.columns(self.target, self.kernel.accumulator)


@dataclass(frozen=True)
class Gemm(OnMachine):
    """A batch of `batch` matmuls of m x k by k x n on a machine.

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
    def row_bytes(self) -> int:
        """Bytes of k elements of A or B in whole groups, as panels hold them."""
        return self.kernel.padded_groups(self.k) * self.kernel.k_group * self.kernel.a.size

    def work(self, rows: int, tile: GemmTile) -> float:
        """Return the cycles that register tiles of some rows multiply."""
        kernel = self.kernel
        steps: float = math.ceil(self.k / kernel.k_group)
        if (shape := kernel.registers) is not None:
            steps = tile_depth(self.k, kernel.k_group, shape).steps * shape.row_bytes / 4
        return steps * gemm_cycles(rows, self.n, tile, self.target, kernel)

    def ends(self, rows: int, tile: GemmTile) -> float:
        """Return the cycles in which these tiles begin and end."""
        return end_cycles(rows, self.n, tile, self.target, self.kernel)


def worth_threads(multiply_adds: Size, target: Target) -> bool:
    """Return whether a contraction is large enough for several threads: below, waking them costs more than it saves.

    Of dynamic sizes those that are typical count: the choice changes no result.
    """
    return typical(multiply_adds) >= target.machine.parallel_multiply_adds


def tile_cycles(rows: int, vectors: int, machine: Machine, splits: int = 0) -> float:
    """Cycles of one k step of a tile: bound by multiply-adds, by loads, or by the latency of few accumulators.

    `splits`: the number of accumulator sets, if it is not that of a matmul of `rows` rows.
    """
    loads = rows + vectors
    return max(
        rows * vectors / machine.fma_per_cycle + machine.load_cycles * loads,
        loads / machine.loads_per_cycle,
        rows / machine.broadcasts_per_cycle,
        machine.fma_latency / (splits or k_splits(rows, vectors)),
    )


def gemm_cycles(m: int, n: int, tile: GemmTile, target: Target, kernel: Microkernel) -> float:
    """Return the predicted cycles of one k, or group of k, of a whole m x n matmul split into `tile`s; lower
    is better."""
    columns, lanes = tile.columns(target, kernel.accumulator), target.lanes(kernel.accumulator)
    is_full = n > lanes if kernel.uses_tiles else n >= columns
    return panel_cycles(m, n, tile, target, kernel) / (tile.efficiency if is_full else 1.0)


def panel_cycles(
    m: int,
    n: int,
    tile: GemmTile,
    target: Target,
    kernel: Microkernel,
    splits: int = 0,
    stream: float = 0.0,
) -> float:
    """Return the cycles of one group of k of all tiles of an m x n matmul at their full rate, panel by panel.

    `splits`: the sets of accumulators, if they are not those of m rows; `stream`: cycles until a vector of B arrives.
    """
    lanes, columns = target.lanes(kernel.accumulator), tile.columns(target, kernel.accumulator)
    full, rest = divmod(n, columns)
    cycles = 0.0
    for width, times in ((columns, full), (rest, 1)):
        vectors = math.ceil(width / lanes)
        if not width * times:
            continue
        if kernel.registers is not None:
            cycles += times * _cycles_of_registers(
                m, vectors, target.machine, tile, kernel.registers
            )
            continue
        height = rows_for(width, tile, target, kernel)
        if splits:
            height = tile_height(m, height_with(splits, tile.vectors), tile.vectors)
        cycles += times * sum(
            count * max(tile_cycles(rows, vectors, target.machine, splits), vectors * stream)
            for _, count, rows in split_rows(m, height)
        )
    return cycles


def _cycles_of_registers(
    m: int, vectors: int, machine: Machine, tile: GemmTile, shape: TileShape
) -> float:
    """Return the cycles of one group of k of m rows and a panel of two-dimensional registers.

    A multiplication takes a cycle for each row of A in its register, a load half a cycle for each row.
    """
    lanes, height = shape.row_bytes // 4, register_rows(tile, shape)
    rows = math.ceil(m / height) * height
    loads = rows + vectors * lanes * math.ceil(rows / tile.rows)
    return max(rows * vectors, loads / machine.loads_per_cycle) / lanes


def end_cycles(m: int, n: int, tile: GemmTile, target: Target, kernel: Microkernel) -> float:
    """Return the cycles of an m x n matmul in which its tiles begin and end, and nothing is multiplied."""
    columns = tile.columns(target, kernel.accumulator)
    panels = math.ceil(n / columns)
    if (shape := kernel.registers) is not None:
        unit = SHORTEST_CYCLES + UNIT_CYCLES * tile.rows / (2 * shape.rows)
        return math.ceil(m / tile.rows) * panels * unit
    runs = split_rows(m, rows_for(columns, tile, target, kernel))
    return target.machine.tile_cycles * sum(count for _, count, _ in runs) * panels


def height_with(splits: int, vectors: int) -> int:
    """Return the height of the highest register tile of `vectors` vectors with accumulators split in `splits`; 0
    if none."""
    heights = range(1, 8 // vectors + 2)
    return max((rows for rows in heights if k_splits(rows, vectors) == splits), default=0)


def overlapped(work: float, traffic: float, machine: Machine) -> float:
    """Return the cycles of work and of traffic at the same time: of the longer, and a part of the shorter."""
    return max(work, traffic) + machine.unhidden * min(work, traffic)


def stream_rate(is_far: bool, machine: Machine) -> float:
    """Bytes per cycle from the shared cache, or from a core's own L2."""
    return machine.shared_bytes_per_cycle if is_far else machine.l2_bytes_per_cycle


def last_end(tasks: Sequence[float], threads: int) -> float:
    """The end of the last task if threads take the longest first; many tasks are assumed to end together."""
    if len(tasks) > MAX_TASKS:
        return sum(tasks) / threads
    ends = [0.0] * threads
    for task in sorted(tasks, reverse=True):
        heapq.heapreplace(ends, ends[0] + task)
    return max(ends)


def reads_in_place(rows: int, tile: GemmTile) -> bool:
    """Return whether so few rows share a row-major B that copying it into panels costs more than cache and
    page misses."""
    return rows <= 4 * tile.rows


@dataclass(frozen=True)
class MatmulBlocking:
    """The blocking of one matmul. `m_block` rows and `k_block` of k share a panel while it is in cache; `n_groups`
    contiguous groups of panels are independent tasks."""

    tile: GemmTile
    m_block: int
    k_block: int
    n_groups: int

    @property
    def settings(self) -> dict[str, int]:
        """Return the blocking as settings of a schedule (`BLOCKING_MEANINGS`)."""
        sizes = self.tile.rows, self.tile.vectors, self.m_block, self.k_block, self.n_groups
        return dict(zip(("mr", "nv", "mc", "kc", "ng"), sizes, strict=True))


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
    # The cycles between tiles of two-dimensional registers were fitted with all k at once.
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
