"""Schedules of a matmul: the layouts of its operands, and the blockings for given layouts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from ...base.dims import bounds, is_known
from ...base.dtypes import F16
from ...base.errors import UserError
from ...base.size_queries import typical, typical_all
from ...targets.isa import GemmTile, Microkernel, Target
from ...targets.microkernels import microkernels
from ..ir.format import Format, matrix_axes, plain
from ..ir.schedule import Parameter, Schedule
from ..nest.problem import Contraction
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .contraction_space import ContractionSpace
from .cost import Gemm, MatmulBlocking, blocking_cycles, reads_in_place
from .format_choice import FormatChoice
from .matmul_blocks import block_tile, blocked_matmul_choice, runs_blocks
from .matmul_few import steps_of_all_rows
from .matmul_problem import Memory, matmul_memory, matmul_problem
from .matmul_tile import (
    candidate_blockings,
    extra_bytes,
    kernel_cycles,
    pick_blocking,
    ranked_tiles,
    tiles_for_any_rows,
)
from .panels import Panel, in_panels, panel_for, panel_of
from .problem import problem_of
from .register_tile import (
    BLOCKING_MEANINGS,
    MAX_VECTORS,
    tile_of,
    tiles_that_fit,
    unsupported_tile_reason,
    widths_requested,
)
from .requested import requested_settings, wanted_by_name

MAX_BLOCKINGS = 6
"""Maximum number of blockings per register tile in a sweep."""

MAX_ROWS = 4096
"""Number of rows that blocks are chosen for if the number of rows is known at run time."""

USE_MEANING = (
    "fma, dot2, dot4, tile2 or tile4: on vectors or tile registers, with 1, 2 or 4 neighboring k"
)


def matmul_formats(op: MatmulCore, ctx: LowerContext) -> list[FormatChoice]:
    """Plain everywhere, or B in panels as wide as one of the ISA's register tiles: [..., N / nr][K][nr]."""
    a, b, c = plain_formats(op)
    if not op.is_tuned:
        return [FormatChoice((a, b), (c,))]
    # Without panels the template copies B on every run, or reads it across pages: as many bytes again.
    copied = float(op.inputs[1].details.typical.size_bytes)
    requested = requested_settings(op, problem_of(op), ctx)
    kernel = panel_kernel(op, ctx, requested) if is_known(*op.sizes[1:]) else None
    if kernel is None:
        return [FormatChoice((a, b), (c,), copied)]
    gemm = gemm_of(op, kernel, ctx)
    tiles = _ranked(op, gemm)
    widths = widths_requested(requested, tiles, ctx.target, kernel)
    packed = [
        FormatChoice(
            (a, panel_format(op, panel_for(kernel, columns, op.sizes[2]))),
            (c,),
            extra_bytes(gemm, tile),
        )
        for columns, tile in widths.items()
    ]
    by = {"plain": [FormatChoice((a, b), (c,), copied)], "panels": packed}
    # A tuning file may be mistaken.
    wish = str(requested.settings.get("b")) if wanted_by_name(op, ctx) else ""
    blocked = blocked_matmul_choice(op, (a, b, c), gemm, wish == "blocked")
    by["blocked"] = [blocked] if blocked else []
    return by.get(wish) or [*by["plain"], *packed, *by["blocked"]]


def plain_formats(op: MatmulCore) -> list[Format]:
    """A, B and C as they are given: MK, KN and MN, with the letters of their batch axes before them."""
    letters = ("KM" if op.transpose_a else "MK", "NK" if op.transpose_b else "KN", "MN")
    ranks = [x.details.rank for x in (*op.inputs, *op.outputs)]
    return [plain(n, matrix_axes(n, pair)) for n, pair in zip(ranks, letters, strict=True)]


def panel_formats(op: MatmulCore, ctx: LowerContext) -> list[FormatChoice]:
    """Plain everywhere, and B in panels of every width whose register tiles fit, for those who measure them."""
    widths = [Schedule.of("", nv=vectors) for vectors in range(1, MAX_VECTORS + 1)]
    found = [
        matmul_formats(op, replace(ctx, requested={op.name: requested})) for requested in widths
    ]
    distinct = {(*choice.inputs, *choice.outputs): choice for some in found for choice in some}
    return list(distinct.values())


def gemm_of(op: MatmulCore, kernel: Microkernel, ctx: LowerContext) -> Gemm:
    """Return the GEMM of an op with a microkernel."""
    batch = math.prod(op.outputs[0].details.typical.plain_dims[:-2])
    m, n, k = typical_all(op.sizes)
    return Gemm(batch, m, n, k, kernel, ctx.target, ctx.options.threads)


def _ranked(op: MatmulCore, gemm: Gemm) -> list[GemmTile]:
    """Return the register tiles of the table for a GEMM, the best first."""
    if not is_known(*op.sizes):
        return tiles_for_any_rows(gemm)
    return ranked_tiles(gemm.m, gemm.n, gemm.target, gemm.kernel)


def panel_kernel(op: MatmulCore, ctx: LowerContext, requested: Schedule) -> Microkernel | None:
    """The microkernel for a B in panels; None where its elements are better converted while they are packed.

    Groups of floats must come out even, as padding may hold anything and NaN times zero is not zero; that of constants,
    which are packed at compile time, is zero.
    """
    types, wanted = op.contraction, requested.settings.get("use")
    known = microkernels(types.a, types.b, ctx.target, tiles=True)
    known = tuple(x for x in known if x.instruction == wanted) or by_cost(op, known, ctx)
    if isinstance(vectors := requested.settings.get("nv"), int):
        known = tuple(x for x in known if x.takes_vectors(vectors)) or known
    is_constant = op.inputs[1].is_constant and ctx.options.enabled("fold")
    any_depth = is_constant or not types.b.is_float

    def fits(kernel: Microkernel) -> bool:
        even = any_depth or not op.sizes[2] % kernel.k_group
        return kernel.k_group == 1 or (even and not op.transpose_a)

    kernel = next(filter(fits, known), None)
    if kernel is None or kernel.k_group > 1:
        return kernel
    is_cheap = kernel.b != F16 or ctx.target.table.has_half_conversion
    return kernel if is_cheap else None


def layout_kernels(op: MatmulCore, ctx: LowerContext) -> tuple[Microkernel, ...]:
    """The microkernels that can multiply in the layouts the operands have, the cost model's pick first.

    Panels have the groups of k of one microkernel. A B that is packed while it is multiplied may be given any; one that
    is read in place, and an A whose neighboring k lie apart, take one k at a time.
    """
    fmt, types, k = op.inputs[1].details.format, op.contraction, op.sizes[2]
    known = microkernels(types.a, types.b, ctx.target, tiles=is_known(*op.sizes[1:]))
    if op.outputs[0].details.format.is_blocked:
        return tuple(x for x in known if runs_blocks(op, x, ctx.target))
    if fmt.is_blocked:
        panel = panel_of(fmt)
        vectors = panel.columns // ctx.target.lanes(known[0].accumulator) if known else 0
        fits = [x for x in known if panel_for(x, panel.columns, k) == panel]
        return by_cost(op, (x for x in fits if x.takes_vectors(vectors)), ctx)
    if op.transpose_a:
        return tuple(x for x in known if x.k_group == 1)
    if not op.transpose_b and reads_in_place(typical(op.sizes[0]), known[0].tiles[0]):
        return tuple(sorted(known, key=lambda x: x.k_group > 1))
    return by_cost(op, known, ctx)


def by_cost(
    op: MatmulCore, kernels: Iterable[Microkernel], ctx: LowerContext
) -> tuple[Microkernel, ...]:
    """Return microkernels with those on two-dimensional registers last, where vectors are faster: with few rows."""
    known = tuple(kernels)
    tiles = tuple(x for x in known if x.uses_tiles)
    others = tuple(x for x in known if not x.uses_tiles)
    if not tiles or not others:
        return known
    best = [kernel_cycles(gemm_of(op, some[0], ctx)) for some in (tiles, others)]
    return (*tiles, *others) if best[0] < best[1] else (*others, *tiles)


def kernel_of(schedule: Schedule, op: MatmulCore | Convolution, target: Target) -> Microkernel:
    """The microkernel that the schedule of an op names. Raise UserError if the target has none of that name."""
    types, wanted = op.contraction, schedule.word("use")
    known = microkernels(types.a, types.b, target, tiles=True)
    found = next((x for x in known if x.instruction == wanted), None)
    if found is None:
        raise UserError(
            f"schedule of '{op.name}': use must be {' or '.join(x.instruction for x in known)} for "
            f"{types.a} times {types.b} on {target.isa}, got '{schedule}'"
        )
    return found


def panel_format(op: MatmulCore, panel: Panel) -> Format:
    """Return the format of B in panels."""
    rank = op.inputs[1].details.rank
    n_axis, k_axis = (rank - 2, rank - 1) if op.transpose_b else (rank - 1, rank - 2)
    return in_panels(plain_formats(op)[1], n_axis, k_axis, panel)


def matmul_schedule(blocking: MatmulBlocking, b: str, kernel: Microkernel) -> Schedule:
    """A blocking for a microkernel as a schedule; `b`: how B lies in memory."""
    return Schedule.of("gemm", **blocking.settings, b=b, use=kernel.instruction)


def tile_of_schedule(schedule: Schedule, kernel: Microkernel) -> GemmTile:
    """Return the register tile of a schedule of a matmul or a direct convolution."""
    return tile_of(schedule.number("mr"), schedule.number("nv"), kernel)


def blocking_of(schedule: Schedule, kernel: Microkernel) -> MatmulBlocking:
    """Return the blocking of a schedule of a matmul or a direct convolution."""
    tile = tile_of_schedule(schedule, kernel)
    return MatmulBlocking(tile, *(schedule.number(name) for name in ("mc", "kc", "ng")))


class MatmulSpace(ContractionSpace):
    """Blockings of a tuned matmul."""

    algorithm = "gemm"
    meanings = BLOCKING_MEANINGS | {
        "b": "panels, plain or blocked (as A and C then do), how B lies in memory",
        "use": USE_MEANING,
    }
    words = ("b", "use")
    leading = ("use", "mr", "nv")

    def __init__(self, op: MatmulCore, group: KernelGroup, ctx: LowerContext) -> None:
        super().__init__(op.name, problem_of(op))
        self.op = op
        self.group = group
        self.ctx = ctx
        self.kernels = layout_kernels(op, ctx)

    @cached_property
    def pick(self) -> Schedule:
        """The best blocking of the best tile that suits the layout of B."""
        gemm = self._gemm(self.kernels[0])
        blocking = pick_blocking(gemm, self._tiles(gemm)[0])
        if not is_known(*self.op.sizes):  # how they are shared is computed when it runs
            most = min(bounds(self.op.sizes[0])[1], MAX_ROWS)
            many = replace(gemm, m=most, threads=1)
            blocking = replace(pick_blocking(many, blocking.tile), n_groups=1)
        return self.offer(matmul_schedule(blocking, self._b, gemm.kernel))

    def ranked(self) -> list[Schedule]:
        """Every instruction and tile that suits the layout of B, the best first, each with the blocks worth trying."""
        most = 1 if self._b == "blocked" else None
        gemms = map(self._gemm, self.kernels)
        return self._offered(((gemm, tile) for gemm in gemms for tile in self._tiles(gemm)), most)

    def swept(self) -> list[Schedule]:
        """The candidates, then every tile that fits the registers with the blocks most worth trying."""
        vectors = self._panel_vectors() if self._packed else None
        gemms = map(self._gemm, self.kernels if self._b != "blocked" else ())
        every = ((gemm, tile) for gemm in gemms for tile in tiles_that_fit(gemm))
        more = ((gemm, tile) for gemm, tile in every if vectors in (None, tile.vectors))
        return list(dict.fromkeys([*self.candidates, *self._offered(more, MAX_BLOCKINGS)]))

    def _offered(self, tiles: Iterable[tuple[Gemm, GemmTile]], most: int | None) -> list[Schedule]:
        """Return the schedules of tiles, each with at most `most` of the blocks worth trying."""
        points = (
            matmul_schedule(blocking, self._b, gemm.kernel)
            for gemm, tile in tiles
            for blocking in candidate_blockings(gemm, tile)[:most]
        )
        return list(dict.fromkeys(map(self.offer, points)))

    def contraction(self, point: Schedule) -> Contraction:
        """Return the matmul with the instruction of some settings."""
        kernel = kernel_of(point, self.op, self.ctx.target)
        return matmul_problem(self.op, self.group, kernel, self._memory)

    def steps(self, point: Schedule, problem: Contraction) -> str:
        """Return the steps of a blocking, also of a few rows."""
        return steps_of_all_rows(problem, blocking_of(point, problem.kernel), self.ctx)

    def defaults(self) -> dict[str, Parameter]:
        """Return one block of all rows and terms."""
        m, _, k = typical_all(self.op.sizes)
        return {"mc": max(m, 1), "kc": max(k, 1)}

    @cached_property
    def _memory(self) -> Memory:
        return matmul_memory(self.op, self.group)

    def _gemm(self, kernel: Microkernel) -> Gemm:
        return gemm_of(self.op, kernel, self.ctx)

    def _tiles(self, gemm: Gemm) -> list[GemmTile]:
        if self._b == "blocked":
            tile = block_tile(gemm.kernel, gemm.target)
            return [tile] if tile else []
        tiles = _ranked(self.op, gemm)
        if not self._packed:
            return tiles
        # A width that is not in the table was requested.
        vectors = self._panel_vectors()
        return [tile for tile in tiles if tile.vectors == vectors] or [GemmTile(1, vectors)]

    def _panel_vectors(self) -> int:
        fmt = self.op.inputs[1].details.format
        return panel_of(fmt).columns // self.ctx.target.lanes(self.kernels[0].accumulator)

    @property
    def _packed(self) -> bool:
        return self.op.inputs[1].details.format.is_blocked

    @property
    def _b(self) -> str:
        """The layout of B. Nobody takes blocks for speed, so that one schedule of them is tried."""
        if self.op.outputs[0].details.format.is_blocked:
            return "blocked"
        return "panels" if self._packed else "plain"

    def cycles(self, schedule: Schedule) -> float:
        """Return the predicted cycles of a schedule, given the layout of B."""
        gemm = self._gemm(kernel_of(schedule, self.op, self.ctx.target))
        blocking = blocking_of(self.point(schedule), gemm.kernel)
        return blocking_cycles(gemm, blocking, packed=self._b == "panels")

    def fixed(self) -> dict[str, Parameter]:
        """Schedule settings already implied by the operand layouts: the panel width of B, and the instruction if only
        one remains."""
        fixed: dict[str, Parameter] = {"b": self._b}
        if self._packed:
            fixed["nv"] = self._panel_vectors()
        if len(self.kernels) == 1:
            fixed["use"] = self.kernels[0].instruction
        return fixed

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require available instructions, and supported register tiles."""
        known = [kernel.instruction for kernel in self.kernels]
        if schedule.word("use") not in known:
            return f"use must be {' or '.join(known)} in the layouts chosen"
        return unsupported_tile_reason(schedule, self.ctx.target)
