"""Depthwise convolutions and pools as windows over each channel: which do, in which layouts, under which schedules."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

from ...base.dims import is_known
from ...base.dtypes import S8
from ...targets.isa import Microkernel, Target
from ...targets.microkernels import find_microkernel
from ..ir.format import Format, channels_last, plain
from ..ir.op import Op
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.convolution import DepthwiseConvolution
from ..ops.pool import WindowReduce
from .context import LowerContext
from .convolution_sizes import geometry_of, pair, typical_images
from .format_choice import FormatChoice
from .requested import wanted_by_name
from .row_windows import MAX_TAPS, WindowScheduleSpace, lines_fit, pools_by_row, row_cycles
from .window_tile import pick_blocking, window_cycles


def depthwise_formats(op: DepthwiseConvolution, ctx: LowerContext) -> list[FormatChoice]:
    """Channels last everywhere, or plain everywhere, which windows over rows run.

    After other matmuls and convolutions only channels last: a network that has both layouts pays for reorders.
    """
    rank, g, dtype = op.inputs[0].details.rank, geometry_of(op), op.inputs[0].details.dtype
    last, first = channels_last(rank), plain(rank)
    cycles = {last: window_cycles(g, ctx.target, dtype)}
    requested = wanted_by_name(op, ctx)
    algorithm = "" if requested is None else requested.algorithm
    is_alone = not _follows_contraction(op) or algorithm == "row-windows"
    in_rows = not g.is_dynamic and convolves_by_row(op) and lines_fit(g, True, dtype, ctx.target)
    if is_alone and in_rows and ctx.options.enabled("row-windows"):
        cycles[first] = row_cycles(g, True, ctx.target, dtype)
    if algorithm in ALGORITHMS:
        wanted = first if algorithm == "row-windows" else last
        cycles = {fmt: cycles[fmt] for fmt in [x for x in cycles if x == wanted] or cycles}
    best, rate = min(cycles.values()), ctx.target.machine.shared_bytes_per_cycle
    kernel = dot_kernel(op, ctx.target)
    grouped = taps_first(rank) if kernel is None else rows_in_groups(kernel.k_group)
    weights = {last: grouped, first: first}
    return [
        FormatChoice((fmt, weights[fmt]), (fmt,), (found - best) * rate)
        for fmt, found in cycles.items()
    ]


def _follows_contraction(op: Op) -> bool:
    """Return whether the image is made by a matmul or convolution, a few ops before."""
    for _ in range(FEW_OPS):
        if not op.inputs:
            return False
        op = op.inputs[0].producer_owner
        if op.kind == "tunable":
            return True
    return False


def convolves_by_row(op: DepthwiseConvolution) -> bool:
    """Return whether the template of row windows can run a depthwise convolution: floats, a window of few elements."""
    few = math.prod(op.window.kernel) <= MAX_TAPS
    return few and all(x.details.dtype.is_float for x in (*op.inputs, *op.outputs))


FEW_OPS = 16
"""Search depth for a matmul: activations, norms and shuffles lie between two of them."""

ALGORITHMS = ("windows", "row-windows")
"""Algorithms that can be requested for a depthwise convolution: channels last, or in rows."""


def taps_first(rank: int) -> Format:
    """Weights [C, 1, kernel...] with the channels behind the kernel."""
    return Format(plain(rank).axes, (*range(2, rank), 1, 0), (0,) * rank)


def rows_in_groups(size: int) -> Format:
    """Weights [C, 1, rows, columns] with the channels behind the kernel, and `size` rows of it innermost."""
    return Format(plain(4).axes, (2, 3, 1, 0, 2), (0, 0, 0, 0, size))


def dot_kernel(op: DepthwiseConvolution, target: Target) -> Microkernel | None:
    """The microkernel whose dot products take neighboring rows of the window; None where there is none."""
    x, w = (tensor.details for tensor in op.inputs)
    kernel = find_microkernel(x.dtype, w.dtype, target)
    several = x.rank == 4 and op.window.kernel[0] > 1 and is_known(*x.plain_dims[2:])
    is_dot = kernel is not None and kernel.k_group > 1 and w.dtype == S8
    return kernel if several and is_dot else None


def pools_by_channel(op: WindowReduce) -> bool:
    """Return whether the template of channel windows runs a pool: floats, or the extremes of integers of up to 32 bits;
    channels last, their number known, one or two spatial axes."""
    x, y = op.inputs[0].details, op.outputs[0].details
    spatial = x.rank - 2
    if not is_known(*x.plain_dims[1:2]):
        return False
    is_extreme = (
        op.combine in ("min", "max") and x.dtype.kind in ("int", "uint") and x.dtype.bits <= 32
    )
    if not (x.dtype.is_float or is_extreme) or spatial not in (1, 2) or op.window.rank != spatial:
        return False
    return x.format == y.format == channels_last(x.rank)


def pools_in_place(op: WindowReduce, ctx: LowerContext) -> bool:
    """Return whether a template of windows runs a pool in the layout it has, which needs no stored padding."""
    by_channel = pools_by_channel(op) and ctx.options.enabled("channel-windows")
    if by_channel or not pools_by_row(op) or not ctx.options.enabled("row-windows"):
        return by_channel
    return lines_fit(pool_geometry(op), False, op.inputs[0].details.dtype, ctx.target)


class WindowSpace(WindowScheduleSpace):
    """Blockings of windows over each channel."""

    algorithm = "windows"
    meanings = {
        "np": "pixels of a register tile",
        "nc": "channels per slice",
        "rows": "rows of results per task",
        "split": "parallel or serial",
    }

    @cached_property
    def pick(self) -> Schedule:
        """The cost model's choice."""
        return pick_blocking(self.geometry, self.target, self.threads, self.dtype)

    def ranked(self) -> list[Schedule]:
        """Return the pick, then schedules with fewer pixels per tile, other slices and other task sizes."""
        pick, g = self.pick, self.geometry
        np, nc, size = (pick.number(name) for name in ("np", "nc", "rows"))
        pixels = {np, *(min(n, g.result[1]) for n in (2, 4, 6, 8))}
        channels = {nc, g.groups, max(nc // 2, 1)}
        rows = {size, max(size // 2, 1), min(size * 2, g.result[0])}
        others = (
            pick.replaced(np=np, nc=nc, rows=height)
            for np, nc, height in itertools.product(sorted(pixels), sorted(channels), sorted(rows))
        )
        return list(dict.fromkeys((pick, *others)))

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require blocks inside the image, with few enough results for the registers."""
        g, most = self.geometry, 4 * 8
        limits = {"np": min(g.result[1], most), "nc": g.groups, "rows": g.result[0]}
        for name, limit in limits.items():
            if schedule.number(name) > limit:
                return f"{name} must be at most {limit}"
        return ""


def pool_geometry(op: WindowReduce) -> ConvolutionGeometry:
    """The numbers of a pool: its groups are the channels."""
    window, (x, y, is_dynamic) = op.window, typical_images(op)
    return ConvolutionGeometry(
        x[0], x[1], 1, 1, pair(x[2:]), pair(y[2:]), pair(window.kernel), pair(window.strides),
        pair(window.dilations), pair(window.before, 0), is_dynamic,
    )  # fmt: skip
