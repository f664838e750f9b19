"""Derives the arguments of the attention template from a fused attention group (matmul, row operations, matmul)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...base.dims import is_known
from ...base.dtypes import DType
from ...base.size_queries import lone_symbol
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Block, Buffer, Expr, Function, If, Let, Load, Stmt, Store
from ..ir.computation import Index
from ..ir.graph import GraphTensor, Op
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue, storing
from ..nest.nest import Sharing
from ..nest.problem import View
from ..ops.matmul import MAX_FEW, MatmulCore
from ..rewriting.attention import (
    before_narrowing,
    division_by_sum,
    has_dynamic_sizes,
    is_softmax,
    softmax_scores,
)
from ..rewriting.groups import reduces_rows
from ..rewriting.kernel_group import KernelGroup
from ..rewriting.operand_rows import in_memory
from ..schedule.attention_blocking import AttentionBlocking, attention_blocking
from ..schedule.context import LowerContext
from ..schedule.cost import Gemm
from ..schedule.matmul_problem import group_memory, matrix_view, operand_view
from ..schedule.matmul_tile import tile_of_plain
from ..templates.attention import AttentionTemplate
from ..templates.attention_matmul import AttentionProblem
from ..templates.row_panel import RowEmitter, RowGroup
from ..templates.running_softmax import RowWork, padded_softmax
from .matmul import epilogue_value, sharing_of
from .notes import group_note


def attention_function(group: KernelGroup, schedule: Schedule, ctx: LowerContext) -> Function:
    """Lower two tuned matmuls with row work between them; the last op may be a transpose that keeps rows whole."""
    ops = group.ops
    first, second = (op for op in ops if isinstance(op, MatmulCore))
    (output,) = group.outputs
    operands = [in_memory(x, ops) for x in (*first.inputs, second.inputs[1])]
    memory = group_memory(group, operands)
    problem = _problem(first, second, output, ops, memory)
    blocking = attention_blocking(schedule, first, ctx.target)
    sizes = "x".join(map(str, (*problem.batch, problem.rows, problem.columns, problem.depth)))
    is_dynamic = has_dynamic_sizes(first, second)
    kind = "online_attention" if blocking.is_online else "attention"
    tiles = _tiles_text(blocking, ctx)
    name = identifier(f"{blocking.kernel.a}_{kind}_{sizes}_{tiles}", 120)
    others = {x: b for x, b in memory.items() if x is not output}
    plain_result = output is second.outputs[0] or _is_transpose(output)
    sums = blocking.kernel.accumulator
    result = None if plain_result else epilogue_value(second.outputs[0], output, others)
    result = storing(result, sums, output.details.dtype)
    note, params = group_note(group, schedule), tuple(memory.values())
    whole = AttentionTemplate(problem, blocking, ctx.target, sharing_of(ctx))
    scaled = _scores_epilogue(first, softmax_scores(second.inputs[0]), others, sums)
    if blocking.is_online:
        return Function(name, params, Block((whole.online(scaled, result),)), note)
    scores, row_group = split_row_work(ops, first, second, has_epilogue=not is_dynamic)
    row_group, divisor = _division_put_off(row_group)
    epilogue = _scores_epilogue(first, scores, others, sums)

    def nest(template: AttentionTemplate) -> Stmt:
        row_work = _row_work(row_group, scores, others, template, divisor)
        return template.nest(epilogue, row_work, result, divisor is not None)

    if is_dynamic and divisor is not None and is_softmax(ops):
        body = whole.nest(None, _softmax(whole, scaled), result, True)
    else:
        body = nest(whole)
    for rows, template in _few(problem, blocking.kernel, ctx).items():
        body = If(t.equal(t.as_expr(problem.rows), rows), nest(template), body)
    return Function(name, params, Block((body,)), note)


def _few(
    problem: AttentionProblem, kernel: Microkernel, ctx: LowerContext
) -> dict[int, AttentionTemplate]:
    """Return the problem of attention compiled for a fixed number of rows, if that number determines the number
    of columns."""
    found: dict[int, AttentionTemplate] = {}
    symbol = lone_symbol(problem.rows)
    if symbol is None:
        return found
    for rows in range(max(symbol.least, 2), min(symbol.most, MAX_FEW) + 1):
        sizes = problem.at_size(symbol.name, rows)
        if is_known(sizes.columns):
            first, second = (
                tile_of_plain(Gemm(1, rows, n, k, kernel, ctx.target), b.step("n") == 1)
                for n, k, b in (
                    (sizes.columns, sizes.depth, sizes.b), (sizes.width, sizes.columns, sizes.d),
                )
            )  # fmt: skip
            own = AttentionBlocking(rows, sizes.columns, (first, second), kernel, False, False)
            found[rows] = AttentionTemplate(sizes, own, ctx.target, Sharing())
    return found


def _scores_epilogue(
    first: Op, scores: GraphTensor | None, in_memory: dict[GraphTensor, Buffer], sums: DType
) -> EpilogueValue | None:
    """Return the epilogue of the first matmul before the row work; scores are kept in the accumulator dtype."""
    result = first.outputs[0]
    if scores is None or scores is result:
        return None
    value = epilogue_value(result, scores, in_memory)

    def of_index(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        lets, score = value(index, acc)
        return lets, t.cast(score, sums)

    return of_index


def _tiles_text(blocking: AttentionBlocking, ctx: LowerContext) -> str:
    sums = blocking.kernel.accumulator
    tiles = (f"{x.rows}x{x.columns(ctx.target, sums)}" for x in blocking.tiles)
    return "_".join(tiles) + f"__{ctx.target.isa}"


def _division_put_off(group: RowGroup) -> tuple[RowGroup, GraphTensor | None]:
    """Move a softmax's final division to the second matmul's epilogue: (the group without it, its divisor).

    Only where exponentials are divided by their own sum: there the exchange neither overflows nor loses a NaN.
    """
    share = before_narrowing(group.output)
    powers, total = division_by_sum(share) or (None, None)
    if powers is None or total is None or group.spans_row(total):
        return group, None
    last = share.producer_owner, group.output.producer_owner
    rest = tuple(op for op in group.ops if op not in last)
    return replace(group, ops=rest, output=powers), total


def split_row_work(
    ops: Sequence[Op], first: Op, second: Op, has_epilogue: bool = True
) -> tuple[GraphTensor, RowGroup]:
    """Return (scores, the row group): the boundary between the first matmul's epilogue and the row operations.

    The epilogue takes the elementwise ops before any reduction, if only one tensor leaves them; without it, they are
    row operations too.
    """
    read = {x.producer_owner for x in (first.inputs[1], second.inputs[1])}
    between = [op for op in ops[ops.index(first) + 1 : ops.index(second)] if op not in read]
    late: set[Op] = set()
    for op in between:
        if reduces_rows(op) or any(x.producer_owner in late for x in op.inputs):
            late.add(op)
    leaving = {x for op in between if op in late for x in op.inputs if x.producer_owner not in late}
    early = {y for op in (first, *between) if op not in late for y in op.outputs}
    candidates = leaving & early
    has_epilogue = has_epilogue and len(candidates) == 1
    scores = candidates.pop() if has_epilogue else first.outputs[0]
    body = tuple(op for op in between if op in late or not has_epilogue)
    reductions = tuple(op for op in body if reduces_rows(op))
    return scores, RowGroup(body, scores.details.plain_dims, reductions, second.inputs[0])


def _is_transpose(tensor: GraphTensor) -> bool:
    return tensor.producer_owner.op_name == "transpose"


def _problem(
    first: MatmulCore,
    second: MatmulCore,
    output: GraphTensor,
    ops: Sequence[Op],
    memory: dict[GraphTensor, Buffer],
) -> AttentionProblem:
    rows, columns, depth = first.sizes
    batch = second.outputs[0].details.plain_dims[:-2]
    rank = len(batch)
    operands = (*first.inputs, second.inputs[1])
    swaps = first.transpose_a, first.transpose_b, second.transpose_b
    a, b, d = (
        operand_view(x, ops, memory, rank, axes, swap)
        for x, axes, swap in zip(operands, ("mk", "kn", "kn"), swaps, strict=True)
    )
    return AttentionProblem(
        batch, rows, columns, depth, second.sizes[1], a, b, d,
        _result_view(second, output, memory[output]),
    )  # fmt: skip


def _result_view(second: MatmulCore, output: GraphTensor, buffer: Buffer) -> View:
    """Return the view of the result with the axes of the second matmul, through a final transpose if there is one."""
    rank = second.outputs[0].details.rank
    if not _is_transpose(output):
        return matrix_view(second.outputs[0], buffer, rank - 2, "mn")
    dims = output.details.plain_dims
    strides = [math.prod(dims[axis + 1 :]) for axis in range(rank)]
    perm = getattr(output.producer_owner, "perm")  # noqa: B009 - Op does not declare it
    axes = (*(f"b{axis}" for axis in range(rank - 2)), "m", "n")
    return View(buffer, {name: strides[perm.index(i)] for i, name in enumerate(axes)})


def _row_work(
    group: RowGroup,
    scores: GraphTensor,
    in_memory: dict[GraphTensor, Buffer],
    template: AttentionTemplate,
    divisor: GraphTensor | None,
) -> RowWork:
    panel = template.panel

    def work(outer: Index, at: Callable[[Expr], Index], row: Index) -> list[list[Stmt]]:
        given = {scores: lambda index: Load(panel, at(index[-1]))}
        emitter = RowEmitter(group, outer, in_memory, given, panel, lambda index: at(index[-1]))
        parts = emitter.phases(
            lambda number, dtype: (template.of_rows(f"row_values{number}", dtype), row)
        )
        if divisor is not None:
            parts[-1].append(Store(template.divisors, row, emitter.scalar(divisor)))
        return parts

    return work


def _softmax(template: AttentionTemplate, scores: EpilogueValue | None) -> RowWork:
    """Return a softmax of a dynamic number of columns as row work; `scores`: the ops before it."""

    def score(b: t.LoopBuilder, index: Index, element: Expr) -> Expr:
        lets, value = scores(index, element) if scores else ([], element)
        b.emit(*lets)
        return value

    sums, columns = template.sums, t.as_expr(template.problem.columns)
    of_rows = template.of_rows("row_values0", sums), template.divisors
    return padded_softmax(template.panel, columns, template.target.lanes(sums), score, of_rows)
