"""The schedule space of each kernel: a row per class of tuned ops, and the loop generators for all other groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import InternalError
from ..ir.class_table import ClassTable
from ..ir.op import Op
from ..ir.op_kinds import FusibleOp
from ..ir.schedule import Schedule
from ..ops.convolution import DepthwiseConvolution, DirectConvolution
from ..ops.cumulative import Cumulative
from ..ops.fused import Fused
from ..ops.matmul import MatmulCore
from ..ops.matmul_nbits import MatmulNBits
from ..ops.pool import WindowReduce
from ..ops.scatter import Scatter
from ..ops.top_k import SortRows
from ..ops.winograd import WinogradConvolution
from ..rewriting.groups import is_tuned
from ..rewriting.kernel_group import KernelGroup, group_of
from .attention import AttentionSpace
from .channel_windows import WindowSpace, pool_geometry, pools_in_place
from .context import LowerContext
from .convolution_sizes import geometry_of
from .direct_convolution import DirectSpace
from .loops import combines, loop_space
from .matmul import MatmulSpace
from .matmul_nbits import NBitsSpace
from .row_windows import RowWindowSpace
from .scan import scan_space
from .scatter import ScatterSpace
from .sort_rows import SortSpace
from .space import ScheduleSpace
from .winograd import WinogradSpace

MakeSpace = Callable[[Any, KernelGroup, LowerContext], ScheduleSpace]
"""(tuned op, the group around it, context) -> its space."""


def depthwise_space(
    op: DepthwiseConvolution, group: KernelGroup, ctx: LowerContext
) -> ScheduleSpace:
    """Windows over each channel, along rows if the image is plain."""
    make = RowWindowSpace if op.inputs[0].details.format.is_plain else WindowSpace
    return make(op, geometry_of(op), ctx)


def pool_space(op: WindowReduce, ctx: LowerContext) -> ScheduleSpace:
    """The same for a pool."""
    make = RowWindowSpace if op.inputs[0].details.format.is_plain else WindowSpace
    return make(op, pool_geometry(op), ctx)


SPACES = ClassTable[MakeSpace](
    {
        MatmulCore: MatmulSpace,
        MatmulNBits: NBitsSpace,
        DirectConvolution: DirectSpace,
        WinogradConvolution: WinogradSpace,
        DepthwiseConvolution: depthwise_space,
    }
)
"""The schedules on offer, by the class of the tuned op; `@SPACES.register(MyOp)` adds a row for an op of one's own."""


LOOP_SPACES = ClassTable[Callable[[Any, LowerContext], ScheduleSpace]](
    {Cumulative: scan_space, Scatter: ScatterSpace, SortRows: SortSpace}
)
"""The same for ops that are a kernel each, with a loop nest of their own."""


def space_of(op: Op, ctx: LowerContext) -> ScheduleSpace | None:
    """The schedules that the kernel of an op may run with; None for what has one way only."""
    own = LOOP_SPACES.find(op)
    if own is not None:
        return own(op, ctx)
    if op.kind in ("source", "sink") or not isinstance(op, (Fused, FusibleOp)):
        return None
    group = group_of(op)
    tuned = [inner for inner in group.ops if is_tuned(inner)]
    if len(tuned) == 2:
        return AttentionSpace(group, ctx)
    if tuned:
        make = SPACES.find(tuned[0])
        if make is None:
            raise InternalError(f"{tuned[0]!r} is tunable, but has no schedules")
        return make(tuned[0], group, ctx)
    first = next((inner for inner in group.ops if combines(inner)), None)
    if isinstance(first, WindowReduce) and _reads_memory(first, group, ctx):
        return pool_space(first, ctx)
    return loop_space(group, ctx)


def pick_schedule(space: ScheduleSpace, ctx: LowerContext) -> Schedule:
    """Return the default schedule of a kernel: as measured, or else as the cost model predicts."""
    return space.tuned(ctx.tuned.get(space.problem))


def schedule_of(op: Op, ctx: LowerContext) -> Schedule:
    """The schedule that was chosen for a kernel, checked; the model's pick if none was. InternalError without any."""
    space = space_of(op, ctx)
    if space is None:
        raise InternalError(f"op '{op.name}' ({op.op_name}) has no schedules")
    return space.check(op.schedule) if op.schedule else pick_schedule(space, ctx)


def _reads_memory(op: WindowReduce, group: KernelGroup, ctx: LowerContext) -> bool:
    """Return whether a template of windows runs a pool, which must read a tensor in memory."""
    return pools_in_place(op, ctx) and op.inputs[0] in group.inputs
