"""Lowers a group of ops (a subgraph) to one Tensor IR function: selects the template and passes it plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.errors import InternalError
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Function, Module
from ..ir.class_table import ClassTable
from ..ir.computation import Reduction
from ..ir.graph import Graph, GraphTensor, Op
from ..ir.op_kinds import FusibleOp
from ..ops.convolution_depthwise import DepthwiseConvolution
from ..ops.convolution_direct import DirectConvolution
from ..ops.matmul import MatmulCore
from ..ops.pool import WindowReduce
from ..ops.winograd import WinogradConvolution
from ..rewriting.groups import is_tuned, reduces_rows
from ..schedule.channel_windows import pools_by_channel
from ..schedule.context import LowerContext
from ..templates.joined import joined_loops
from ..templates.loops import Sharing, pointwise_loops, reduction_loops
from ..templates.row_panel import RowGroup, row_panel_loops
from ..templates.values import parameters
from .attention import attention_function
from .channel_windows import depthwise_function, pool_function
from .convolution import convolution_function
from .joined import joined_parts
from .matmul import matmul_function
from .winograd import winograd_function

Lowering = Callable[
    [Any, Sequence[Op], list[GraphTensor], list[GraphTensor], LowerContext], Function
]
"""(the tuned op, it and the elementwise ops after it, what they read, the one tensor they make) -> the function, whose
parameters are the inputs, each once, then the output."""

TEMPLATES = ClassTable[Lowering](
    {
        MatmulCore: matmul_function,
        DirectConvolution: convolution_function,
        DepthwiseConvolution: depthwise_function,
        WinogradConvolution: winograd_function,
    }
)
"""How the group around a tuned op is lowered, by the op's class; `@TEMPLATES.register(MyOp)` adds another."""


def lower_op(op: Op, ctx: LowerContext) -> Module:
    """Tensor IR of one op alone."""
    return _module(_function([op], list(op.inputs), list(op.outputs), ctx))


def lower_group(graph: Graph, ctx: LowerContext) -> Module:
    """Tensor IR of a subgraph; parameters are its inputs, then its outputs."""
    inputs = [op.outputs[0] for op in graph.inputs]
    outputs = [op.inputs[0] for op in graph.outputs]
    body = [op for op in graph.ops if op.kind not in ("source", "sink")]
    return _module(_function(body, inputs, outputs, ctx))


def _module(function: Function) -> Module:
    return Module((function,))


def _function(
    ops: Sequence[Op], inputs: list[GraphTensor], outputs: list[GraphTensor], ctx: LowerContext
) -> Function:
    tuned = [op for op in ops if is_tuned(op)]
    if len(tuned) == 2:
        return attention_function(ops, inputs, outputs, ctx)
    if tuned:
        lowering = TEMPLATES.find(tuned[0])
        if lowering is None:
            raise InternalError(f"{tuned[0]!r} is tunable, but has no template")
        return lowering(tuned[0], ops, inputs, outputs, ctx)
    return _loops(ops, parameters(inputs, outputs), outputs, ctx)


def _loops(
    ops: Sequence[Op],
    buffers: dict[GraphTensor, Buffer],
    outputs: list[GraphTensor],
    ctx: LowerContext,
) -> Function:
    """A group without tuned products: rows at a time, a reduction, or pointwise."""
    note, name = group_note(ops), _loop_name(ops, outputs, ctx)
    sharing = Sharing(ctx.options.threads, ctx.target.machine.parallel_elements)
    reductions = tuple(op for op in ops if _is_reduction(op))
    if not reductions:
        join = joined_parts(ops, outputs[0]) if len(outputs) == 1 else None
        if join is not None:
            return joined_loops(name, buffers, join, outputs[0], sharing, note)
        return pointwise_loops(name, buffers, outputs, sharing, note)
    first = reductions[0]
    if isinstance(first, WindowReduce) and _has_template(first, buffers, ctx):
        return pool_function(first, name, buffers, outputs[0], ctx, note)
    rows = first.inputs[0].details.plain_dims
    if len(reductions) > 1 or (outputs[0].details.plain_dims == rows and reduces_rows(first)):
        group = RowGroup(tuple(ops), rows, reductions, outputs[0])
        return row_panel_loops(name, buffers, group, sharing, note)
    return reduction_loops(name, buffers, first.outputs[0], outputs, sharing, note)


def group_note(ops: Sequence[Op]) -> str:
    """The names of a group's ops, for display."""
    return " -> ".join(op.name for op in ops)


def _has_template(
    op: WindowReduce, buffers: Mapping[GraphTensor, Buffer], ctx: LowerContext
) -> bool:
    """Whether `templates.channel_windows` runs a pool, which must read a tensor in memory."""
    return (
        ctx.options.enabled("channel-windows") and pools_by_channel(op) and op.inputs[0] in buffers
    )


def _is_reduction(op: Op) -> bool:
    return isinstance(op, FusibleOp) and isinstance(op.computation(), Reduction)


def _loop_name(ops: Sequence[Op], outputs: Sequence[GraphTensor], ctx: LowerContext) -> str:
    details = outputs[0].details
    dims = "x".join(map(str, details.plain_dims)) or "scalar"
    kinds = identifier("_".join(dict.fromkeys(op.op_name for op in ops)))
    return f"{details.dtype}_{kinds}_{dims}__{ctx.target.isa}"
