"""Lowers a group of ops and its schedule to one Tensor IR function: finds the template and hands it plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import InternalError
from ...base.on_demand import on_demand
from ...tensor_ir.joint_vectors import keeps_order
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Function
from ..ir.class_table import ClassTable
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import parameters
from ..ir.schedule import Schedule
from ..ops.convolution import DepthwiseConvolution, DirectConvolution
from ..ops.matmul import MatmulCore
from ..ops.matmul_nbits import MatmulNBits
from ..ops.movement import Repeat
from ..ops.pool import WindowReduce
from ..ops.winograd import WinogradConvolution
from ..rewriting.groups import is_tuned
from ..rewriting.kernel_group import KernelGroup
from ..schedule.channel_windows import ALGORITHMS
from ..schedule.context import LowerContext
from ..schedule.loops import combines, fetches_rows, joined_concat
from ..schedule.transpose import transpose_tiles_of
from ..templates.joined import Join, joined_loops
from ..templates.loops import PointwiseLoops, Tasks, pointwise_loops, tasks_for
from ..templates.reduction import ReductionLoops, column_block, reduction_loops
from ..templates.repeat_rows import repeat_rows
from ..templates.row_panel import RowGroup, row_panel_loops
from ..templates.transpose_tiles import transpose_tiles
from .empty_inputs import without_reads_of_empty
from .notes import group_note

Lowering = Callable[[Any, KernelGroup, Schedule, LowerContext], Function]
"""(the tuned op, the group of it and the elementwise ops after it, ...) -> the function, whose parameters are the
inputs, each once, then the output."""

TEMPLATES = ClassTable[Lowering](
    {
        MatmulCore: on_demand(".matmul:matmul_function", __package__),
        MatmulNBits: on_demand(".matmul_nbits:nbits_function", __package__),
        DirectConvolution: on_demand(".convolution:convolution_function", __package__),
        DepthwiseConvolution: on_demand(".channel_windows:depthwise_function", __package__),
        WinogradConvolution: on_demand(".winograd:winograd_function", __package__),
    }
)
"""Lowerings of the group around a tuned op, by the op's class; `@TEMPLATES.register(MyOp)` adds another."""

attention_function: Callable[..., Function] = on_demand(
    ".attention:attention_function", __package__
)
pool_function: Callable[..., Function] = on_demand(".channel_windows:pool_function", __package__)


def lower_group(group: KernelGroup, schedule: Schedule, ctx: LowerContext) -> Function:
    """The function of a group; parameters are its inputs, each once, then its outputs."""
    tuned = [op for op in group.ops if is_tuned(op)]
    if len(tuned) == 2:
        return attention_function(group, schedule, ctx)
    if tuned:
        lowering = TEMPLATES.find(tuned[0])
        if lowering is None:
            raise InternalError(f"{tuned[0]!r} is tunable, but has no template")
        return lowering(tuned[0], group, schedule, ctx)
    function = without_reads_of_empty(_loops(group, schedule, ctx), group)
    return replace(function, in_order=keeps_order(function.body, ctx.target))


def _loops(group: KernelGroup, schedule: Schedule, ctx: LowerContext) -> Function:
    """A group without tuned ops, by the generator that its schedule names."""
    ops, outputs = group.ops, group.outputs
    buffers = parameters(group.inputs, outputs)
    note, name = group_note(group, schedule), _loop_name(ops, outputs, ctx)
    reductions = tuple(op for op in ops if combines(op))
    if schedule.algorithm in ALGORITHMS:
        pool = reductions[0]
        assert isinstance(pool, WindowReduce)
        return pool_function(pool, name, group, schedule, ctx)
    least, requested = ctx.target.machine.parallel_elements, schedule.number("tasks")
    tasks = tasks_for(requested, _work(reductions, outputs[0]), least)
    if schedule.algorithm == "joined":
        concat = joined_concat(ops, outputs[0])
        assert concat is not None
        join = Join(concat.outputs[0], concat.inputs, concat.axis)
        return joined_loops(name, buffers, join, outputs[0], requested, least, note)
    if schedule.algorithm == "transpose" and schedule.word("inner") == "tiles":
        return _tiles(name, group, schedule, ctx)
    if schedule.algorithm == "pointwise" and schedule.word("inner") == "shuffled":
        return _repeat(name, group, tasks, note, ctx)
    if schedule.algorithm in ("pointwise", "transpose"):
        block = schedule.number("block") if schedule.algorithm == "transpose" else 0
        pointwise = PointwiseLoops(tasks, schedule.word("inner"), block)
        return pointwise_loops(name, buffers, outputs, pointwise, note)
    if schedule.algorithm == "rows":
        dims = reductions[0].inputs[0].details.plain_dims
        rows = RowGroup(
            tuple(ops),
            dims,
            reductions,
            outputs[0],
            schedule.word("values") != "recomputed",
            schedule.word("values") == "kept",
            schedule.number("block"),
            ctx.target.table.has_fma,
            fetches_rows(group, dims[:-1], ctx),
        )
        return row_panel_loops(name, buffers, rows, tasks, note)
    reduced, most = reductions[0].outputs[0], ctx.target.l1_bytes
    loops = ReductionLoops(
        tasks, schedule.word("vector"), column_block(outputs[0], requested, most)
    )
    return reduction_loops(name, buffers, reduced, outputs, loops, note)


def _work(reductions: Sequence[Op], output: GraphTensor) -> Any:
    """Elements that a group goes through."""
    if not reductions:
        return math.prod(output.details.physical_dims)
    return reductions[0].inputs[0].details.elements


def _repeat(name: str, group: KernelGroup, tasks: Tasks, note: str, ctx: LowerContext) -> Function:
    """A repeat of elements of rows."""
    (op,) = group.ops
    assert isinstance(op, Repeat)
    x, y = parameters(group.inputs, group.outputs).values()
    flat = Buffer(x.name, x.dtype, (x.elements,)), Buffer(y.name, y.dtype, (y.elements,))
    lanes = ctx.target.table.vector_bits // x.dtype.bits
    dims = op.inputs[0].details.plain_dims
    return repeat_rows(name, flat, dims, op.counts, lanes, tasks, note)


def _tiles(name: str, group: KernelGroup, schedule: Schedule, ctx: LowerContext) -> Function:
    """A permutation of axes, through register tiles."""
    shape = transpose_tiles_of(group, ctx.target)
    assert shape is not None
    buffers = parameters(group.inputs, group.outputs)
    x, y = (Buffer(b.name, b.dtype, (math.prod(b.shape),)) for b in buffers.values())
    note = group_note(group, schedule)
    block, tasks = schedule.number("block"), schedule.number("tasks")
    return transpose_tiles(name, x, y, shape, block, tasks, note)


def _loop_name(ops: Sequence[Op], outputs: Sequence[GraphTensor], ctx: LowerContext) -> str:
    details = outputs[0].details
    dims = "x".join(map(str, details.plain_dims)) or "scalar"
    kinds = identifier("_".join(dict.fromkeys(op.op_name for op in ops)))
    return identifier(f"{details.dtype}_{kinds}_{dims}__{ctx.target.isa}", 120)
