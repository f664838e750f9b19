"""Derives the arguments of the matmul template from a tuned matmul and its epilogue ops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...base.dims import bounds, is_known, substitute, symbols_of
from ...base.size_queries import typical, typical_all
from ...targets.isa import GemmTile
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Expr, Function, If, Let, Stmt
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import GroupValues, computed, narrow
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue
from ..nest.lower import lower
from ..nest.nest import Nest, Sharing
from ..nest.problem import Contraction
from ..ops.matmul import MAX_FEW, MatmulCore
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.gemm import Gemm
from ..schedule.matmul import kernel_of, tile_of_schedule
from ..schedule.matmul_problem import matmul_memory, matmul_problem
from ..schedule.matmul_steps import matmul_nest
from ..schedule.matmul_tile import (
    few_rows,
    pick_blocking,
    tile_of_plain,
)
from .contraction import ContractionKernel
from .notes import group_note


def matmul_function(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """Return the kernel of a matmul and the elementwise ops after it."""
    kernel = matmul_kernel(op, group, schedule, ctx)
    tile = tile_of_schedule(schedule, kernel.problem.kernel)
    return kernel.function(matmul_statement(kernel, tile, ctx))


def matmul_kernel(
    op: MatmulCore, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> ContractionKernel:
    """Return the problem and schedule of a matmul and the elementwise ops after it."""
    (output,) = group.outputs
    memory = matmul_memory(op, group)
    kernel = kernel_of(schedule, op, ctx.target)
    problem = matmul_problem(op, group, kernel, memory)
    if output is not op.outputs[0]:
        epilogue = epilogue_value(op.outputs[0], output, memory)
        problem = replace(problem, epilogue=epilogue)
    post = epilogue_names(op, group.ops)
    sizes = "x".join(map(str, problem.sizes.values()))
    tile = tile_of_schedule(schedule, kernel)
    rows, columns = tile.rows, tile.columns(ctx.target, kernel.accumulator)
    kind = f"{op.contraction.a}_gemm{post}_{sizes}_{rows}x{columns}"
    name, note = identifier(f"{kind}__{ctx.target.isa}", 120), group_note(group, schedule)
    params = tuple(memory.values())
    return ContractionKernel(name, params, problem, schedule.steps, note, sharing_of(ctx))


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


def epilogue_value(
    acc_tensor: GraphTensor, output: GraphTensor, buffers: Mapping[GraphTensor, Buffer]
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
