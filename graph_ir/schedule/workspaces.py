"""Workspaces: blocks of the arena that a kernel needs besides its operands, the last parameters of its function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...base.dims import bounds
from ...base.dtypes import BOOL, F32, U8, U32, U64
from ..ir.class_table import ClassTable
from ..ir.logical_tensor import LogicalTensor
from ..ir.op import Op
from ..ops.cached_attention import CachedAttention
from ..ops.factorizations import Eigh, Householder, HouseholderProduct
from ..ops.linear_algebra import MatrixOp
from ..ops.regions import SuppressBoxes
from ..ops.top_k import SortRows
from .context import LowerContext
from .spaces import schedule_of

FEW = 8
"""New tokens up to which keys are read where they lie, once for each: sums are those of one token at a time, bit by
bit."""

PARTS = 8
"""Parts that the keys of one token are split into at most, so that threads share them."""


def sort_workspace(op: SortRows, ctx: LowerContext) -> tuple[LogicalTensor, ...]:
    """Return, for each task, two rows of words, the best element of each group, and indices of keys of 64 bits."""
    x, schedule = op.inputs[0].details, schedule_of(op, ctx)
    tasks, groups = schedule.number("tasks"), schedule.number("groups")
    rows = 2 * tasks * x.plain_dims[-1]
    best = LogicalTensor(U8 if x.dtype == BOOL else x.dtype.accumulator, (tasks * groups,))
    found = (LogicalTensor(U64, (rows,)), best)
    return (*found, LogicalTensor(U32, (rows,))) if x.dtype.bits == 64 else found


def suppression_tasks(op: SuppressBoxes, ctx: LowerContext) -> int:
    """Return how many parts of the classes of all images run in parallel."""
    images, classes, _ = op.scores.details.plain_dims
    return max(min(ctx.threads_for(op.scores.details.elements), bounds(images * classes)[1]), 1)


def suppression_workspace(op: SuppressBoxes, ctx: LowerContext) -> tuple[LogicalTensor, ...]:
    """Return, for each task, two rows of words for the boxes, and five numbers of each that is kept."""
    tasks, boxes = suppression_tasks(op, ctx), op.scores.details.plain_dims[2]
    return (LogicalTensor(U64, (2 * tasks * boxes,)), LogicalTensor(F32, (5 * tasks * op.limit,)))


def reflection_workspace(op: MatrixOp, ctx: LowerContext) -> tuple[LogicalTensor, ...]:
    """Return a row of sums for each matrix."""
    *batch, _, columns = op.matrices.plain_dims
    return (LogicalTensor(op.matrices.dtype, (math.prod(batch), columns)),)


def eigen_workspace(op: Eigh, ctx: LowerContext) -> tuple[LogicalTensor, ...]:
    """Return a copy of the matrices."""
    *batch, rows, columns = op.matrices.plain_dims
    return (LogicalTensor(op.matrices.dtype, (math.prod(batch), rows, columns)),)


def attention_workspace(op: CachedAttention, ctx: LowerContext) -> tuple[LogicalTensor, ...]:
    """Return, for each part of the keys of a few tokens, the results, maxima and totals of its queries."""
    batch, tokens, heads, _ = op.inputs[0].details.plain_dims
    queries = batch * heads * min(bounds(tokens)[1], FEW) * PARTS
    one = LogicalTensor(F32, (queries,))
    return (LogicalTensor(F32, (queries * op.inputs[2].details.plain_dims[3],)), one, one)


WORKSPACES = ClassTable[Callable[[Any, LowerContext], tuple[LogicalTensor, ...]]](
    {
        CachedAttention: attention_workspace,
        SortRows: sort_workspace,
        SuppressBoxes: suppression_workspace,
        Householder: reflection_workspace,
        HouseholderProduct: reflection_workspace,
        Eigh: eigen_workspace,
    }
)
"""The blocks that kernels need, by the class of their op."""


def workspace_of(op: Op, ctx: LowerContext) -> tuple[LogicalTensor, ...]:
    """Return the blocks of a kernel's workspace, none for most."""
    find = WORKSPACES.find(op)
    return find(op, ctx) if find else ()
