"""How a matrix product may run: the layouts of its operands, and the blockings for the layout they have."""

from __future__ import annotations

import math
from functools import cached_property

from ...base.contraction import Microkernel, microkernel
from ...base.dtypes import F16
from ...base.target import GemmTile, Target
from ..ir.format import Format, plain
from ..ir.schedule import Parameter, Schedule
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import KernelGroup
from .asked import asked_settings, wanted_by_name
from .context import LowerContext
from .format_choice import FormatChoice
from .matmul_cost import blocking_cycles
from .matmul_tile import (
    MatmulBlocking,
    candidate_blockings,
    extra_bytes,
    pick_blocking,
    ranked_tiles,
    reads_in_place,
)
from .problem import problem_of
from .register_tile import BLOCKING_MEANINGS, tile_fault, tile_of, widths_asked
from .space import ScheduleSpace


def matmul_formats(op: MatmulCore, ctx: LowerContext) -> list[FormatChoice]:
    """Plain everywhere, or B in panels as wide as one of the ISA's register tiles: [..., N / nr][K][nr]."""
    ranks = [x.details.rank for x in (*op.inputs, *op.outputs)]
    a, b, c = (plain(rank) for rank in ranks)
    if not op.is_tuned:
        return [FormatChoice((a, b), (c,))]
    m, n, k = op.sizes
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    # Without panels the template copies B once per run, or reads it across pages: as many bytes again.
    copied = float(op.inputs[1].details.size_bytes)
    kernel = panel_kernel(op, ctx)
    if kernel is None:
        return [FormatChoice((a, b), (c,), copied)]
    asked = asked_settings(op, problem_of(op), ctx)
    widths = widths_asked(asked, ranked_tiles(m, n, ctx.target, kernel), ctx.target, kernel)
    packed = [
        FormatChoice(
            (a, panel_format(op, columns, kernel.k_group)),
            (c,),
            batch * extra_bytes(m, n, k, tile, ctx.target, kernel),
        )
        for columns, tile in widths.items()
    ]
    by = {"plain": [FormatChoice((a, b), (c,), copied)], "panels": packed}
    wish = (
        asked.settings.get("b") if wanted_by_name(op, ctx) else None
    )  # a tuning file may be mistaken
    return by.get(str(wish), [*by["plain"], *packed])


def panel_kernel(op: MatmulCore, ctx: LowerContext) -> Microkernel | None:
    """The microkernel for a B in panels; None where its elements are better converted while they are packed.

    Groups of k must come out even, as padding may hold anything and NaN times zero is no zero.
    """
    types = op.contraction
    grouped = microkernel(types.a, types.b, ctx.target)
    even = op.sizes[2] % grouped.k_group == 0 and not op.transpose_a
    kernel = grouped if even else microkernel(types.a, types.b, ctx.target, grouped=False)
    is_cheap = kernel.b != F16 or ctx.target.table.has_half_conversion
    return kernel if is_cheap or kernel.k_group > 1 else None


def matmul_kernel(op: MatmulCore, ctx: LowerContext) -> Microkernel:
    """The microkernel of a product, given the layout its B has: groups of k if B has them, or gets them when packed."""
    fmt, types = op.inputs[1].details.format, op.contraction
    best = microkernel(types.a, types.b, ctx.target)
    if fmt.is_blocked:
        grouped = len(fmt.blocks) - fmt.rank == 2
    else:
        is_packed = op.transpose_b or not reads_in_place(op.sizes[0], best.tiles[0])
        grouped = is_packed and not op.transpose_a
    return best if grouped else microkernel(types.a, types.b, ctx.target, grouped=False)


def panel_format(op: MatmulCore, columns: int, k_group: int = 1) -> Format:
    """B in panels of `columns`: outer n, then k, then n inside the panel, batch axes first; groups of k innermost."""
    rank = op.inputs[1].details.rank
    n_axis, k_axis = (rank - 2, rank - 1) if op.transpose_b else (rank - 1, rank - 2)
    axes = ("NK" if op.transpose_b else "KN") if rank == 2 else plain(rank).axes
    order, blocks = (*range(rank - 2), n_axis, k_axis, n_axis), (0,) * rank + (columns,)
    if k_group > 1:
        return Format(axes, (*order, k_axis), (*blocks, k_group))
    return Format(axes, order, blocks)


def matmul_schedule(blocking: MatmulBlocking, packed: bool) -> Schedule:
    """A blocking as a schedule; `packed`: B lies in panels."""
    tile, b = blocking.tile, "panels" if packed else "plain"
    return Schedule.of(
        "gemm", mr=tile.rows, nv=tile.vectors, mc=blocking.m_block, kc=blocking.k_block,
        ng=blocking.n_groups, b=b,
    )  # fmt: skip


def blocking_of(
    schedule: Schedule, target: Target, kernel: Microkernel | None = None
) -> MatmulBlocking:
    """The blocking of a schedule of a matrix product, or a direct convolution (the f32 microkernel)."""
    tile = tile_of(schedule.number("mr"), schedule.number("nv"), target, kernel)
    return MatmulBlocking(tile, *(schedule.number(name) for name in ("mc", "kc", "ng")))


class MatmulSpace(ScheduleSpace):
    """Blockings of a tuned matrix product."""

    algorithm = "gemm"
    meanings = BLOCKING_MEANINGS | {"b": "panels or plain, how B lies in memory"}
    words = ("b",)
    leading = ("mr", "nv")

    def __init__(self, op: MatmulCore, group: KernelGroup, ctx: LowerContext) -> None:
        super().__init__(op.name, problem_of(op))
        self.op = op
        self.ctx = ctx
        self.batch = math.prod(op.outputs[0].details.plain_dims[:-2])
        self.kernel = matmul_kernel(op, ctx)

    @cached_property
    def pick(self) -> Schedule:
        """The best blocking of the best tile that suits the layout of B."""
        target, threads = self.ctx.target, self.ctx.options.threads
        tile = self._tiles()[0]
        blocking = pick_blocking(*self._sizes(), tile, target, threads, self.kernel)
        return matmul_schedule(blocking, self._packed)

    def ranked(self) -> list[Schedule]:
        """Every tile that suits the layout of B, the best first, each with the blocks worth trying."""
        target, threads = self.ctx.target, self.ctx.options.threads
        found = [
            matmul_schedule(blocking, self._packed)
            for tile in self._tiles()
            for blocking in candidate_blockings(*self._sizes(), tile, target, threads, self.kernel)
        ]
        return list(dict.fromkeys(found))

    def _tiles(self) -> list[GemmTile]:
        m, n, _ = self.op.sizes
        tiles = ranked_tiles(m, n, self.ctx.target, self.kernel)
        if not self._packed:
            return tiles
        # A width that is not in the table was asked for.
        vectors = self._panel_vectors()
        return [tile for tile in tiles if tile.vectors == vectors] or [GemmTile(1, vectors)]

    def _panel_vectors(self) -> int:
        fmt = self.op.inputs[1].details.format
        return fmt.blocks[fmt.rank] // self.ctx.target.lanes(self.kernel.accumulator)

    def _sizes(self) -> tuple[int, int, int, int]:
        return (self.batch, *self.op.sizes)

    @property
    def _packed(self) -> bool:
        return self.op.inputs[1].details.format.is_blocked

    def cycles(self, schedule: Schedule) -> float:
        """What the cost model says, given the layout B has."""
        target, threads = self.ctx.target, self.ctx.options.threads
        blocking = blocking_of(schedule, target, self.kernel)
        sizes = self._sizes()
        return blocking_cycles(*sizes, blocking, target, threads, self._packed, self.kernel)

    def fixed(self) -> dict[str, Parameter]:
        """Where B lies in panels, their width."""
        if not self._packed:
            return {"b": "plain"}
        return {"b": "panels", "nv": self._panel_vectors()}

    def fault(self, schedule: Schedule) -> str:
        """Tiles of a size that code can be made for."""
        return tile_fault(schedule, self.ctx.target)
