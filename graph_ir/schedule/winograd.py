"""Schedules of a Winograd convolution: the layouts of its operands, and the blocking for given layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...targets.isa import GemmTile, Target
from ..ir.format import Format, channels_last, plain
from ..ir.schedule import Parameter, Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.winograd import WinogradConvolution
from ..ops.winograd_form import WinogradForm
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .convolution_sizes import few_geometry, winograd_geometry
from .format_choice import FormatChoice
from .problem import problem_of
from .register_tile import tile_of, unsupported_tile_reason
from .requested import wanted_by_name
from .space import ScheduleSpace
from .winograd_direct import direct_format
from .winograd_tile import WinogradBlocking, WinogradGemm, plane_strides, winograd_kernel

MOST = 64
"""Blockings worth trying."""


def winograd_formats(op: WinogradConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last, u in panels as wide as one of the ISA's register tiles: [points, O / nr][C][nr].

    A choice costs the time its tile loses against the best one, as bytes that could be moved meanwhile.
    """
    last, others = channels_last(4), tuple(_other_formats(op, ctx))
    ranked = WinogradGemm(winograd_geometry(op), op.form, ctx.target).ranked_tiles()
    best = ranked[0][1]
    requested = wanted_by_name(op, ctx)
    vectors = requested.settings.get("nv") if requested else None
    ranked = [pair for pair in ranked if pair[0].vectors == vectors] or ranked
    return [
        FormatChoice(
            (last, panel_format(op.form, tile, ctx.target), *others),
            (last,),
            (cycles - best) * ctx.target.machine.shared_bytes_per_cycle,
        )
        for tile, cycles in ranked
    ]


def _other_formats(op: WinogradConvolution, ctx: LowerContext) -> Iterator[Format]:
    """The layouts of the weights of the forms for fewer results."""
    for form, few, w in zip(op.other_forms, op.few, op.others, strict=True):
        if form is None:
            yield direct_format(op, few, w.details, ctx)
        else:
            yield panel_format(form, few_tile(op, form, few, ctx), ctx.target)


def few_tile(op: WinogradConvolution, form: WinogradForm, few: int, ctx: LowerContext) -> GemmTile:
    """The register tile of a form for few results."""
    return WinogradGemm(few_geometry(op, few), form, ctx.target).ranked_tiles()[0][0]


def few_blocking(
    op: WinogradConvolution, form: WinogradForm, few: int, many: WinogradBlocking, ctx: LowerContext
) -> WinogradBlocking:
    """Return the blocking for few results in another form; V and M must fit where those of `many` lie."""
    tile, g = few_tile(op, form, few, ctx), few_geometry(op, few)

    def fits(b: WinogradBlocking) -> bool:
        return all(own <= most for own, most in zip(_planes(b, g, ctx), room, strict=True))

    room, p = _planes(many, g, ctx), WinogradGemm(g, form, ctx.target, ctx.options.threads)
    found = p.candidates(tile)
    halves = [replace(b, block=-(-b.block // 2**i)) for b in found for i in range(10)]
    fitting = [b for b in halves if fits(b)] or [replace(found[-1], block=1, chunk=1)]
    return min(fitting, key=p.cycles)


def _planes(b: WinogradBlocking, g: ConvolutionGeometry, ctx: LowerContext) -> tuple[int, int]:
    """Elements of V and M."""
    widths = g.channels, b.chunk * b.tile.columns(ctx.target)
    types = b.form.operand, b.form.sums
    v, m = (
        b.form.matmuls * plane_strides(b.block, columns, dtype)[1]
        for columns, dtype in zip(widths, types, strict=True)
    )
    return v, m


def panel_format(form: WinogradForm, tile: GemmTile, target: Target) -> Format:
    """u in panels as wide as the tile, of s16 with pairs of channels innermost."""
    columns, group = tile.columns(target), winograd_kernel(form, target).k_group
    pairs = ((1,), (group,)) if group > 1 else ((), ())
    return Format(plain(3).axes, (0, 2, 1, 2, *pairs[0]), (0, 0, 0, columns, *pairs[1]))


def winograd_schedule(blocking: WinogradBlocking) -> Schedule:
    """A blocking as a schedule."""
    return Schedule.of(
        "winograd", form=blocking.form.name, mr=blocking.tile.rows, nv=blocking.tile.vectors,
        tiles=blocking.block, nc=blocking.chunk, ng=blocking.groups,
    )  # fmt: skip


class WinogradSpace(ScheduleSpace):
    """Blockings of a Winograd convolution."""

    algorithm = "winograd"
    meanings = {
        "form": "f2 or f4, the results of a tile on an axis",
        "mr": "rows of a register tile",
        "nv": "vectors of a register tile",
        "tiles": "tiles of the image transformed at a time",
        "nc": "panels multiplied at a time",
        "ng": "groups of panels that are tasks of their own",
    }

    words = ("form",)
    leading = ("mr", "nv")

    def __init__(self, op: WinogradConvolution, group: KernelGroup, ctx: LowerContext) -> None:
        super().__init__(op.name, problem_of(op))
        self.op = op
        self.ctx = ctx
        geometry, threads = winograd_geometry(op), ctx.options.threads
        self.gemm = WinogradGemm(geometry, op.form, ctx.target, threads)

    def ranked(self) -> list[Schedule]:
        """The blockings for the panels that u lies in whose local memory fits, the fewest cycles first."""
        vectors, kernel = int(self.fixed()["nv"]), self.gemm.kernel
        tiles = [x for x in kernel.tiles if x.vectors == vectors] or [tile_of(1, vectors, kernel)]
        found = [blocking for tile in tiles for blocking in self.gemm.candidates(tile)]
        return [winograd_schedule(b) for b in sorted(found, key=self.gemm.cycles)[:MOST]]

    def cycles(self, schedule: Schedule) -> float:
        """Return the predicted cycles of a schedule."""
        return self.gemm.cycles(winograd_blocking(schedule, self.op.form, self.ctx.target))

    def fixed(self) -> dict[str, Parameter]:
        """The form that u was made for, and the width of its panels."""
        form, u = self.op.form, self.op.inputs[1].details.format
        width = next(block for block in u.blocks if block)
        return {"form": form.name, "nv": width // self.ctx.target.lanes(form.sums)}

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require blocks that fit on the stack."""
        blocking = winograd_blocking(schedule, self.op.form, self.ctx.target)
        most = self.ctx.target.machine.max_local_bytes
        if schedule.number("tiles") * schedule.number("nc") > 1 and (
            blocking.local_bytes(self.gemm.geometry, self.ctx.target) > most
        ):
            return f"tiles and nc must need at most {most >> 20} MiB on the stack"
        return unsupported_tile_reason(schedule, self.ctx.target)


def winograd_blocking(schedule: Schedule, form: WinogradForm, target: Target) -> WinogradBlocking:
    """The blocking that a schedule says."""
    kernel = winograd_kernel(form, target)
    tile = tile_of(schedule.number("mr"), schedule.number("nv"), kernel)
    sizes = (schedule.number(name) for name in ("tiles", "nc", "ng"))
    return WinogradBlocking(form, tile, *sizes)
