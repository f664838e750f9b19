"""From a group of ops (a subgraph) to one Tensor IR function: picks the template and hands it plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..dtypes import F32
from ..tensor_ir.nodes import Buffer, Expr, Function, Let, Module
from .computation import Index, Reduction
from .context import LowerContext
from .graph import Graph, GraphTensor, Op
from .op_kinds import FusibleOp
from .ops.matmul import MatmulCore
from .templates.loops import pointwise_loops, reduction_loops
from .templates.matmul import EpilogueValue, MatmulProblem, MatmulTemplate, Operand
from .templates.matmul_tile import MatmulBlocking, candidate_blockings, product_cycles
from .templates.reader import GroupReader, narrow, parameters


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
    note = " -> ".join(op.name for op in ops)
    tuned = next((op for op in ops if isinstance(op, MatmulCore) and op.is_tuned), None)
    if tuned is not None:
        return _matmul(tuned, ops, inputs, outputs, ctx, note)
    buffers = parameters(_distinct(inputs), outputs)
    name = _loop_name(ops, outputs, ctx)
    reduced = next((op.outputs[0] for op in ops if _is_reduction(op)), None)
    if reduced is None:
        return pointwise_loops(name, buffers, outputs, ctx.options.threads, note)
    return reduction_loops(name, buffers, reduced, outputs, ctx.options.threads, note)


def _distinct(inputs: Sequence[GraphTensor]) -> list[GraphTensor]:
    return list(dict.fromkeys(inputs))


def _is_reduction(op: Op) -> bool:
    return isinstance(op, FusibleOp) and isinstance(op.computation(), Reduction)


def _loop_name(ops: Sequence[Op], outputs: Sequence[GraphTensor], ctx: LowerContext) -> str:
    details = outputs[0].details
    dims = "x".join(map(str, details.plain_dims)) or "scalar"
    kinds = "_".join(dict.fromkeys(op.op_name for op in ops))[:60]
    return f"{details.dtype}_{kinds}_{dims}__{ctx.target.isa}"


# --- matmul --------------------------------------------------------------------------------------------------------


def problem_string(op: MatmulCore) -> str:
    """The name of a product in profiles, tuning files and `graphc kernel`: `matmul m128n768k768 f32`."""
    m, n, k = op.sizes
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    return f"matmul {f'b{batch}' if batch > 1 else ''}m{m}n{n}k{k} f32"


def matmul_blockings(op: MatmulCore, ctx: LowerContext) -> list[MatmulBlocking]:
    """Every blocking the template offers for a product, given the layout its B has; the model's pick first."""
    m, n, k = op.sizes
    fmt = op.inputs[1].details.format
    tiles = list(ctx.target.table.gemm_tiles)
    if fmt.is_blocking:
        tiles = [tile for tile in tiles if tile.columns(ctx.target) == fmt.blocks[-1]]
    else:
        tiles.sort(key=lambda tile: product_cycles(m, n, tile, ctx.target))
    batch = math.prod(op.outputs[0].details.plain_dims[:-2])
    return [
        blocking
        for tile in tiles
        for blocking in candidate_blockings(batch, m, n, k, tile, ctx.target, ctx.options.threads)
    ]


def matmul_blocking(op: MatmulCore, ctx: LowerContext) -> MatmulBlocking:
    """The blocking a product runs with: the one asked for, else the cost model's."""
    return ctx.blockings.get(problem_string(op)) or matmul_blockings(op, ctx)[0]


def _matmul(
    op: MatmulCore,
    ops: Sequence[Op],
    inputs: list[GraphTensor],
    outputs: list[GraphTensor],
    ctx: LowerContext,
    note: str,
) -> Function:
    (output,) = outputs
    buffers = parameters(_distinct(inputs), outputs)
    flat = {x: _flat(b) if x in (*op.inputs, output) else b for x, b in buffers.items()}
    m, n, k = op.sizes
    batch = output.details.plain_dims[:-2]
    a, b = op.inputs
    problem = MatmulProblem(
        batch, m, n, k,
        _operand(a, flat[a], len(batch), op.transpose_a),
        _operand(b, flat[b], len(batch), op.transpose_b),
        _operand(output, flat[output], len(batch), False),
    )  # fmt: skip
    blocking = matmul_blocking(op, ctx)
    if output.details.dtype != F32:  # partial sums wait in C between blocks of k
        blocking = replace(blocking, k_block=k)
    columns = problem.b.panel or blocking.tile.columns(ctx.target)
    epilogue = None if output is op.outputs[0] else _epilogue(op.outputs[0], output, flat)
    post = "".join(f"_{name}" for name in dict.fromkeys(o.op_name for o in ops if o is not op))[:40]
    sizes = "x".join(map(str, (*batch, m, n, k)))
    name = f"f32_gemm{post}_{sizes}_{blocking.tile.rows}x{columns}__{ctx.target.isa}"
    template = MatmulTemplate(problem, blocking, columns, epilogue)
    return template.function(name, tuple(flat.values()), f"{note} [{blocking}]")


def _flat(buffer: Buffer) -> Buffer:
    return Buffer(buffer.name, buffer.dtype, (math.prod(buffer.shape),), buffer.scope)


def _operand(tensor: GraphTensor, buffer: Buffer, batch_rank: int, transposed: bool) -> Operand:
    """Strides of a matrix operand for each of the output's batch axes, 0 where it broadcasts."""
    details = tensor.details
    dims, fmt = details.plain_dims, details.format
    memory = details.blocking_dims
    own = len(dims) - 2
    strides = [math.prod(memory[axis + 1 :]) if dims[axis] > 1 else 0 for axis in range(own)]
    batch = (0,) * (batch_rank - own) + tuple(strides)
    if fmt.is_blocking:
        panel = fmt.blocks[-1]
        return Operand(buffer, batch, memory[-2] * panel, 1, panel)
    row, col = (1, dims[-1]) if transposed else (dims[-1], 1)
    return Operand(buffer, batch, row, col)


def _epilogue(
    acc_tensor: GraphTensor, output: GraphTensor, buffers: dict[GraphTensor, Buffer]
) -> EpilogueValue:
    in_memory = {x: b for x, b in buffers.items() if x is not output}

    def value(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        reader = GroupReader(in_memory, {acc_tensor: lambda _: acc})
        result = narrow(reader.read(output)(index), output.details.dtype)
        return reader.lets, result

    return value
