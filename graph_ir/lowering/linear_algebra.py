"""Derives the arguments of the templates for matrices from the ops."""

from __future__ import annotations

import math

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Function, Module
from ..ir.group_values import parameters
from ..ops.linear_algebra import LU, Cholesky, MatrixOp, TriangularSolve
from ..schedule.context import LowerContext
from ..templates.linear_algebra import (
    Triangle,
    cholesky_function,
    lu_function,
    triangular_solve_function,
)


def lower_matrix_op(op: MatrixOp, ctx: LowerContext) -> Module:
    """One function: parameters inputs then outputs, the axes of batches merged."""
    named = parameters(op.inputs, op.outputs)
    tensors = [*op.inputs, *op.outputs]
    kept = [1 if y.details.dtype != op.matrices.dtype else 2 for y in tensors]
    merged = [
        Buffer(
            named[y].name,
            named[y].dtype,
            (math.prod(y.details.plain_dims[:-count]), *y.details.plain_dims[-count:]),
        )
        for y, count in zip(tensors, kept, strict=True)
    ]
    shape = identifier("x".join(map(str, op.outputs[0].details.plain_dims)))
    name = f"{op.matrices.dtype}_{op.op_name}_{shape}__{ctx.target.isa}"
    return Module((_function(op, name, merged, ctx.threads_for(op.matrices.elements)),))


def _function(op: MatrixOp, name: str, merged: list[Buffer], tasks: int) -> Function:
    if isinstance(op, Cholesky):
        return cholesky_function(name, merged[0], merged[1], tasks, op.name)
    if isinstance(op, LU):
        factors = (merged[0], merged[1], merged[2], merged[3])
        return lu_function(name, factors, tasks, op.name)
    assert isinstance(op, TriangularSolve)
    operands = (merged[0], merged[1], merged[2])
    triangle = Triangle(op.is_forward, op.transpose_a, op.unit_diagonal)
    return triangular_solve_function(name, operands, triangle, tasks, op.name)
