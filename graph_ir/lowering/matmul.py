"""Derives the arguments of the matmul template from a tuned matmul and its epilogue ops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dims import bounds, is_known, substitute, symbols_of
from ...base.size_queries import typical, typical_all
from ...targets.isa import GemmTile
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, If, Let, Stmt
from ...tensor_ir.sizes import elements_of
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import GroupValues, computed, narrow, parameters
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue
from ..nest.lower import lower
from ..nest.nest import Nest, Sharing
from ..nest.operand import Operand, blocked_view, matrix_view
from ..nest.problem import Contraction, matmul
from ..ops.matmul import MAX_FEW, MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..rewriting.operand_rows import in_memory
from ..schedule.context import LowerContext
from ..schedule.gemm import Gemm
from ..schedule.matmul import blocking_of, kernel_of
from ..schedule.matmul_steps import matmul_nest, matmul_steps
from ..schedule.matmul_tile import (
    few_rows,
    pick_blocking,
    tile_of_plain,
)
from ..schedule.panels import panel_of
from .contraction import ContractionKernel
from .notes import group_note


def matmul_function(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """Return the kernel of a matmul and the elementwise ops after it."""
    kernel = matmul_kernel(op, group, schedule, ctx)
    tile = blocking_of(schedule, kernel.problem.kernel).tile
    return kernel.function(matmul_statement(kernel, tile, ctx))


def matmul_kernel(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> ContractionKernel:
    """Return the problem and schedule of a matmul and the elementwise ops after it."""
    (output,) = group.outputs
    buffers = parameters(group.inputs, group.outputs)
    a, b = (in_memory(x, group.ops) for x in op.inputs)
    memory = {x: flat(buffer) if x in (a, b, output) else buffer for x, buffer in buffers.items()}
    m, n, k = op.sizes
    batch = output.details.plain_dims[:-2]
    kernel = kernel_of(schedule, op, ctx.target)
    blocking = blocking_of(schedule, kernel)
    columns = blocking.tile.columns(ctx.target, kernel.accumulator)
    epilogue = None if output is op.outputs[0] else epilogue_value(op.outputs[0], output, memory)
    operands = (
        operand_of(a, memory[a], len(batch), op.transpose_a),
        operand_of(b, memory[b], len(batch), op.transpose_b),
        operand_of(output, memory[output], len(batch), False),
    )
    view = blocked_view if operands[2].panel else matrix_view
    a_view, b_view, c_view = map(view, operands, "mkm", "knn")
    problem = matmul(batch, (m, n, k), (a_view, b_view, c_view), kernel, epilogue)
    post = epilogue_names(op, group.ops)
    sizes = "x".join(map(str, (*batch, m, n, k)))
    tile = f"{blocking.tile.rows}x{columns}"
    name = identifier(f"{op.contraction.a}_gemm{post}_{sizes}_{tile}__{ctx.target.isa}", 120)
    text = matmul_steps(problem, blocking, ctx.target)
    return ContractionKernel(
        name, tuple(memory.values()), problem, text, group_note(group, schedule), sharing_of(ctx)
    )


def sharing_of(ctx: LowerContext) -> Sharing:
    """Return the threads that share nests with dynamic sizes."""
    return Sharing(ctx.options.threads, ctx.target.machine.parallel_multiply_adds)


def matmul_statement(kernel: ContractionKernel, tile: GemmTile, ctx: LowerContext) -> Stmt:
    """Return the nest of a matmul; a few dynamic rows have separate nests."""
    body, sizes = kernel.lowered(ctx.target), kernel.problem.sizes
    if is_known(sizes["m"], sizes["n"], sizes["k"]):
        return body
    rows, (low, high) = t.as_expr(sizes["m"]), bounds(sizes["m"])
    for count, nest in _few(kernel.problem, tile, ctx).items():
        if low <= count <= high:
            body = If(t.equal(rows, count), lower(nest, ctx.target), body)
    return body


def _few(problem: Contraction, tile: GemmTile, ctx: LowerContext) -> dict[int, Nest]:
    """Return the nests of matmuls of few rows, whose sums have another order when they are compiled alone."""
    sizes, target, threads = problem.sizes, ctx.target, ctx.options.threads
    sharing = sharing_of(ctx)
    batch = math.prod(typical_all([sizes[axis] for axis in problem.batch]))
    if not is_known(sizes["n"], sizes["k"]):
        return _few_of_dynamic(problem, batch, ctx)
    m, n, k = typical(sizes["m"]), sizes["n"], sizes["k"]
    whole = Gemm(batch, m, n, k, problem.kernel, target, threads)
    return {
        rows: matmul_nest(problem.of_sizes(m=rows), own, target, sharing, exact=True)
        for rows, own in few_rows(whole, tile).items()
    }


def _few_of_dynamic(problem: Contraction, batch: int, ctx: LowerContext) -> dict[int, Nest]:
    """The same of matmuls whose columns or depth are dynamic too, where the number of rows says how many."""
    found: dict[int, Nest] = {}
    sizes = problem.sizes
    if is_known(sizes["m"]):
        return found
    (symbol,) = symbols_of([sizes["m"]])[:1]
    for rows in range(1, MAX_FEW + 1):
        m, n, k = (substitute(sizes[axis], {symbol.name: rows}) for axis in ("m", "n", "k"))
        if m != rows or not isinstance(n, int) or not isinstance(k, int):
            break
        gemm = Gemm(batch, rows, n, k, problem.kernel, ctx.target, ctx.options.threads)
        blocking = pick_blocking(gemm, tile_of_plain(gemm, problem.b.strides["n"] == 1))
        known = problem.of_sizes(m=rows, n=n, k=k)
        found[rows] = matmul_nest(known, blocking, ctx.target, sharing_of(ctx))
    return found


def epilogue_names(op: Op, ops: Sequence[Op]) -> str:
    """The kinds of the ops after a tuned one, as used in its kernel's name."""
    kinds = "_".join(dict.fromkeys(o.op_name for o in ops if o is not op))
    return f"_{identifier(kinds, 40)}" if kinds else ""


def flat(buffer: Buffer) -> Buffer:
    """The same memory as one axis, which is how templates address matrices."""
    return Buffer(buffer.name, buffer.dtype, (elements_of(buffer.shape),), buffer.storage)


def operand_of(tensor: GraphTensor, buffer: Buffer, batch_rank: int, transposed: bool) -> Operand:
    """Strides of a matrix operand for each of the output's batch axes, 0 where it broadcasts."""
    details = tensor.details
    dims, fmt = details.plain_dims, details.format
    memory = details.physical_dims
    own = len(dims) - 2
    strides = [math.prod(memory[axis + 1 :]) if dims[axis] != 1 else 0 for axis in range(own)]
    batch = (0,) * (batch_rank - own) + tuple(strides)
    if fmt.is_blocked:
        return Operand(buffer, batch, math.prod(memory[own + 1 :]), 1, panel_of(fmt).columns)
    row, col = (1, dims[-1]) if transposed else (dims[-1], 1)
    return Operand(buffer, batch, row, col)


def epilogue_value(
    acc_tensor: GraphTensor, output: GraphTensor, buffers: dict[GraphTensor, Buffer]
) -> EpilogueValue:
    """Return the value of `output` as a function of the matmul's accumulator; `buffers` holds its other operands."""
    in_memory = {x: b for x, b in buffers.items() if x is not output}

    def value(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        values = GroupValues(in_memory)
        # Integers wrap to the result dtype before the next op; floats stay in the accumulator dtype, as in any group.
        gemm = computed(acc, acc_tensor.details.dtype)
        values.given[acc_tensor] = lambda _: gemm
        result = narrow(values.read(output)(index), output.details.dtype)
        return values.lets, result

    return value
