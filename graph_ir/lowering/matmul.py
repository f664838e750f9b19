"""Derives the arguments of the matmul template from a tuned product and its epilogue ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...base.contraction import Microkernel
from ...base.dims import is_known, substitute, symbols_of
from ...base.size_queries import typical, typical_all
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, Let
from ...tensor_ir.sizes import elements_of
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import GroupValues, computed, narrow, parameters
from ..ir.schedule import Schedule
from ..ops.matmul import MOST_FEW, MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..rewriting.operand_rows import in_memory
from ..schedule.context import LowerContext
from ..schedule.matmul import blocking_of, kernel_of
from ..schedule.matmul_tile import (
    MatmulBlocking,
    few_rows,
    pick_blocking,
    tile_of_plain,
)
from ..schedule.product import Product
from ..templates.matmul import EpilogueValue, MatmulProblem, MatmulTemplate
from ..templates.matmul_blocked import BlockedTemplate
from ..templates.matmul_rows import FewRowsTemplate, RowsTemplate
from ..templates.open_tasks import Sharing
from ..templates.operand import Operand
from .notes import group_note


def matmul_function(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A tuned product and the elementwise ops after it; parameters are the inputs (each once), then the output."""
    (output,) = group.outputs
    buffers = parameters(group.inputs, group.outputs)
    a, b = (in_memory(x, group.ops) for x in op.inputs)
    memory = {x: flat(buffer) if x in (a, b, output) else buffer for x, buffer in buffers.items()}
    m, n, k = op.sizes
    batch = output.details.plain_dims[:-2]
    problem = MatmulProblem(
        batch, m, n, k,
        operand_of(a, memory[a], len(batch), op.transpose_a),
        operand_of(b, memory[b], len(batch), op.transpose_b),
        operand_of(output, memory[output], len(batch), False),
    )  # fmt: skip
    kernel = kernel_of(schedule, op, ctx.target)
    blocking = blocking_of(schedule, kernel)
    columns = blocking.tile.columns(ctx.target, kernel.accumulator)
    epilogue = None if output is op.outputs[0] else epilogue_value(op.outputs[0], output, memory)
    post = epilogue_names(op, group.ops)
    sizes = "x".join(map(str, (*batch, m, n, k)))
    tile = f"{blocking.tile.rows}x{columns}"
    name = identifier(f"{op.contraction.a}_gemm{post}_{sizes}_{tile}__{ctx.target.isa}", 120)
    template = template_of(problem, blocking, kernel, ctx, epilogue)
    return template.function(name, tuple(memory.values()), group_note(group, schedule))


def template_of(
    problem: MatmulProblem,
    blocking: MatmulBlocking,
    kernel: Microkernel,
    ctx: LowerContext,
    epilogue: EpilogueValue | None,
) -> MatmulTemplate:
    """The template of a product; `RowsTemplate` where a size is known when it runs, `BlockedTemplate` of blocks."""
    if problem.c.panel:
        return BlockedTemplate(problem, blocking, kernel, ctx.target, epilogue)
    if is_known(problem.m, problem.n, problem.k):
        return MatmulTemplate(problem, blocking, kernel, ctx.target, epilogue)
    template = RowsTemplate(problem, blocking, kernel, ctx.target, epilogue)
    template.sharing = Sharing(ctx.options.threads, ctx.target.machine.parallel_multiply_adds)
    if not is_known(problem.n, problem.k):
        template.few = _few_of_open(problem, kernel, ctx, epilogue)
        return template
    batch = math.prod(typical_all(problem.batch))
    whole = Product(
        batch, typical(problem.m), problem.n, problem.k, kernel, ctx.target, ctx.options.threads
    )
    template.few = {
        rows: FewRowsTemplate(replace(problem, m=rows), own, kernel, ctx.target, epilogue)
        for rows, own in few_rows(whole, blocking.tile).items()
    }
    return template


def _few_of_open(
    problem: MatmulProblem, kernel: Microkernel, ctx: LowerContext, epilogue: EpilogueValue | None
) -> dict[int, MatmulTemplate]:
    """The products of few rows whose columns or terms are open too, where the number of rows says how many."""
    found: dict[int, MatmulTemplate] = {}
    if is_known(problem.m):
        return found
    (symbol,) = symbols_of([problem.m])[:1]
    batch = math.prod(typical_all(problem.batch))
    for rows in range(1, MOST_FEW + 1):
        m, n, k = (substitute(x, {symbol.name: rows}) for x in (problem.m, problem.n, problem.k))
        if m != rows or not isinstance(n, int) or not isinstance(k, int):
            break
        product = Product(batch, rows, n, k, kernel, ctx.target, ctx.options.threads)
        blocking = pick_blocking(product, tile_of_plain(product, problem.b.col == 1))
        sizes = replace(problem, m=rows, n=n, k=k)
        found[rows] = MatmulTemplate(sizes, blocking, kernel, ctx.target, epilogue)
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
        return Operand(buffer, batch, math.prod(memory[own + 1 :]), 1, fmt.blocks[fmt.rank])
    row, col = (1, dims[-1]) if transposed else (dims[-1], 1)
    return Operand(buffer, batch, row, col)


def epilogue_value(
    acc_tensor: GraphTensor, output: GraphTensor, buffers: dict[GraphTensor, Buffer]
) -> EpilogueValue:
    """The value of `output` as a function of the product's accumulator; `buffers` holds its other operands."""
    in_memory = {x: b for x, b in buffers.items() if x is not output}

    def value(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        values = GroupValues(in_memory)
        # Integers wrap to the product's type before the next op; floats stay in that of the sums, as in any group.
        product = computed(acc, acc_tensor.details.dtype)
        values.given[acc_tensor] = lambda _: product
        result = narrow(values.read(output)(index), output.details.dtype)
        return values.lets, result

    return value
